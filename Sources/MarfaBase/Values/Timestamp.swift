/// An instant in milliseconds since 1970-01-01T00:00:00Z, the resolution of every time of the contract.
public struct Timestamp: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// Milliseconds since the epoch; negative before it.
  public let milliseconds: Int64

  /// An instant of milliseconds since the epoch.
  public init(milliseconds: Int64) { self.milliseconds = milliseconds }

  /// RFC 3339 in UTC with milliseconds: `2031-02-03T04:05:06.000Z`.
  public var description: String { String(decoding: bytes, as: UTF8.self) }

  /// The description as text.
  public var text: Text { Text(bytes: bytes) }

  private var bytes: [UInt8] {
    var out: [UInt8] = []
    out.reserveCapacity(24)
    append(to: &out)
    return out
  }

  /// Appends the description's bytes.
  public func append(to out: inout [UInt8]) {
    var day = milliseconds / 86_400_000
    var rest = milliseconds % 86_400_000
    if rest < 0 {
      rest += 86_400_000
      day -= 1
    }
    let (year, month, date) = Timestamp.civil(day)
    func two(_ value: Int64, then mark: Unicode.Scalar) {
      out.append(UInt8(0x30 + value / 10))
      out.append(UInt8(0x30 + value % 10))
      out.append(UInt8(ascii: mark))
    }
    if (1000..<10_000).contains(year) {
      out.append(UInt8(0x30 + year / 1000))
      out.append(UInt8(0x30 + year / 100 % 10))
      out.append(UInt8(0x30 + year / 10 % 10))
      out.append(UInt8(0x30 + year % 10))
    } else {
      // A year outside four digits is written whole, its sign counted.
      let text = String(year)
      for _ in text.utf8.count..<max(4, text.utf8.count) { out.append(0x30) }
      out += text.utf8
    }
    out.append(UInt8(ascii: "-"))
    two(month, then: "-")
    two(date, then: "T")
    two(rest / 3_600_000, then: ":")
    two(rest / 60_000 % 60, then: ":")
    two(rest / 1000 % 60, then: ".")
    out.append(UInt8(0x30 + rest % 1000 / 100))
    two(rest % 100, then: "Z")
  }

  /// Year, month and day of a day number since the epoch (proleptic Gregorian).
  public static func civil(_ day: Int64) -> (year: Int64, month: Int64, day: Int64) {
    // Hinnant, "chrono-compatible low-level date algorithms".
    let shifted = day + 719_468
    let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * dayOfYear + 2) / 153
    let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
    return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
  }

  /// The day number since the epoch of a date, which need not exist (31 February counts on into March).
  public static func dayNumber(year: Int64, month: Int64, day: Int64) -> Int64 {
    let shiftedYear = month <= 2 ? year - 1 : year
    let era = (shiftedYear >= 0 ? shiftedYear : shiftedYear - 399) / 400
    let yearOfEra = shiftedYear - era * 400
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
  }

  /// Earlier before later.
  public static func < (left: Timestamp, right: Timestamp) -> Bool { left.milliseconds < right.milliseconds }
}
