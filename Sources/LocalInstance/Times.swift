import MarfaBase

/// Reads the forms of a time an instance takes (I6.4, SF6.3): a date-time with or without a zone (then UTC), a calendar
/// date, a year and month, a year. Fractions are cut to milliseconds. Nil for anything else.
func readTime(_ text: Text) -> Timestamp? {
  var reader = TimeReader(text.bytes)
  return reader.any()
}

/// Whether a value is a `datetime` of T29.2: a date alone, or a date-time with its zone.
func isDateTimeValue(_ text: Text) -> Bool {
  var reader = TimeReader(text.bytes)
  return reader.strict()
}

/// Whether a value is a calendar date (T29).
func isDateValue(_ text: Text) -> Bool {
  var reader = TimeReader(text.bytes)
  return text.bytes.count == 10 && reader.date() != nil && reader.isAtEnd
}

private struct TimeReader {
  let bytes: [UInt8]
  var at = 0

  init(_ bytes: [UInt8]) { self.bytes = bytes }

  var isAtEnd: Bool { at == bytes.count }

  mutating func take(_ character: Unicode.Scalar) -> Bool {
    guard at < bytes.count, bytes[at] == UInt8(ascii: character) else { return false }
    at += 1
    return true
  }

  mutating func digits(_ count: Int) -> Int64? {
    guard at + count <= bytes.count else { return nil }
    var value: Int64 = 0
    for byte in bytes[at..<(at + count)] {
      guard byte >= 0x30, byte <= 0x39 else { return nil }
      value = value * 10 + Int64(byte - 0x30)
    }
    at += count
    return value
  }

  static func days(_ month: Int64, _ year: Int64) -> Int64 {
    switch month {
    case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
    case 4, 6, 9, 11: 30
    default: 31
    }
  }

  /// A whole date's day number.
  mutating func date() -> Int64? {
    guard let year = digits(4), take("-"), let month = digits(2), (1...12).contains(month), take("-"),
      let day = digits(2), day >= 1, day <= TimeReader.days(month, year)
    else { return nil }
    return Timestamp.dayNumber(year: year, month: month, day: day)
  }

  /// Hours, minutes, seconds and milliseconds of the day.
  mutating func timeOfDay() -> Int64? {
    guard let hour = digits(2), hour <= 23, take(":"), let minute = digits(2), minute <= 59 else { return nil }
    var milliseconds = (hour * 60 + minute) * 60_000
    if take(":") {
      guard let second = digits(2), second <= 59 else { return nil }
      milliseconds += second * 1000
      if take(".") {
        var place: Int64 = 100
        var any = false
        while let digit = digits(1) {
          milliseconds += digit * place
          place /= 10
          any = true
        }
        guard any else { return nil }
      }
    }
    return milliseconds
  }

  /// The zone's offset in milliseconds; nil where none stands here.
  mutating func zone() -> Int64?? {
    if take("Z") { return .some(0) }
    let sign: Int64
    if take("+") { sign = 1 } else if take("-") { sign = -1 } else { return .some(nil) }
    guard let hour = digits(2), hour <= 23, take(":"), let minute = digits(2), minute <= 59 else { return nil }
    return .some(sign * (hour * 60 + minute) * 60_000)
  }

  mutating func any() -> Timestamp? {
    let day: Int64
    if let whole = date() {
      day = whole
      if !isAtEnd {
        guard take("T"), let time = timeOfDay(), let offset = zone(), isAtEnd else { return nil }
        return checked(day * 86_400_000 + time - (offset ?? 0))
      }
      return checked(day * 86_400_000)
    }
    at = 0
    guard let year = digits(4) else { return nil }
    if isAtEnd { return checked(Timestamp.dayNumber(year: year, month: 1, day: 1) * 86_400_000) }
    guard take("-"), let month = digits(2), (1...12).contains(month), isAtEnd else { return nil }
    return checked(Timestamp.dayNumber(year: year, month: month, day: 1) * 86_400_000)
  }

  mutating func strict() -> Bool {
    guard date() != nil else { return false }
    if isAtEnd { return true }
    guard take("T"), timeOfDay() != nil, let offset = zone(), offset != nil else { return false }
    return isAtEnd
  }

  /// A UTC year outside 0000 to 9999 is no time (I6.5).
  func checked(_ milliseconds: Int64) -> Timestamp? {
    let day = milliseconds >= 0 ? milliseconds / 86_400_000 : (milliseconds - 86_399_999) / 86_400_000
    return (0...9999).contains(Timestamp.civil(day).year) ? Timestamp(milliseconds: milliseconds) : nil
  }
}
