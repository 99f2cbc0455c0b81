import MarfaBase

/// An item's own time as text, read as the server reads one (I6.1 to I6.5, F7.37).
package enum OwnTime {
  /// The instant a text names: a date-time with or without offset (UTC where there is none), a date, a year-month or a
  /// year; to the millisecond. Nil for anything else and for a UTC year outside 0000 to 9999.
  package static func parse(_ text: Text) -> Timestamp? {
    var reader = Reader(bytes: text.bytes[...])
    guard let year = reader.digits(4) else { return nil }
    var month: Int64 = 1
    var day: Int64 = 1
    var milliseconds: Int64 = 0
    if reader.take("-") {
      guard let given = reader.digits(2), (1...12).contains(given) else { return nil }
      month = given
      if reader.take("-") {
        guard let given = reader.digits(2), given >= 1, given <= daysOf(year: year, month: month) else { return nil }
        day = given
        if reader.take("T") || reader.take("t") || reader.take(" ") {
          guard let time = reader.time() else { return nil }
          milliseconds = time
        }
      }
    }
    guard reader.bytes.isEmpty else { return nil }
    let instant = Timestamp.dayNumber(year: year, month: month, day: day) * 86_400_000 + milliseconds
    let (utcYear, _, _) = Timestamp.civil(instant >= 0 ? instant / 86_400_000 : -((86_399_999 - instant) / 86_400_000))
    return (0...9999).contains(utcYear) ? Timestamp(milliseconds: instant) : nil
  }

  private static func daysOf(year: Int64, month: Int64) -> Int64 {
    let next = month == 12 ? (year + 1, Int64(1)) : (year, month + 1)
    return Timestamp.dayNumber(year: next.0, month: next.1, day: 1)
      - Timestamp.dayNumber(year: year, month: month, day: 1)
  }

  private struct Reader {
    var bytes: ArraySlice<UInt8>

    mutating func take(_ character: Unicode.Scalar) -> Bool {
      guard let first = bytes.first, UInt32(first) == character.value else { return false }
      bytes.removeFirst()
      return true
    }

    mutating func digits(_ count: Int) -> Int64? {
      guard bytes.count >= count else { return nil }
      var value: Int64 = 0
      for byte in bytes.prefix(count) {
        guard byte >= 0x30, byte <= 0x39 else { return nil }
        value = value * 10 + Int64(byte - 0x30)
      }
      bytes = bytes.dropFirst(count)
      return value
    }

    /// `hh:mm`, `hh:mm:ss` or `hh:mm:ss.fff...`, then an offset or none: milliseconds from the date's start in UTC.
    mutating func time() -> Int64? {
      guard let hour = digits(2), hour <= 24, take(":"), let minute = digits(2), minute <= 59 else { return nil }
      var milliseconds = (hour * 60 + minute) * 60_000
      if take(":") {
        guard let second = digits(2), second <= 59 else { return nil }
        milliseconds += second * 1000
        if take(".") {
          var scale: Int64 = 100
          var any = false
          while let digit = digits(1) {
            milliseconds += digit * scale
            scale /= 10
            any = true
          }
          guard any else { return nil }
        }
      }
      // Midnight at a day's end is the only time of hour 24.
      guard milliseconds <= 86_400_000 else { return nil }
      if take("Z") || take("z") || bytes.isEmpty { return milliseconds }
      let ahead = take("+")
      guard ahead || take("-"), let hours = digits(2), hours <= 23 else { return nil }
      _ = take(":")
      guard let minutes = digits(2), minutes <= 59 else { return nil }
      return milliseconds + (ahead ? -1 : 1) * (hours * 60 + minutes) * 60_000
    }
  }
}
