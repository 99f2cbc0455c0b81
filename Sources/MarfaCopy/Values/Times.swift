import MarfaBase

extension Timestamp {
  /// The instant a text names as the instance reads a time (SF6.3): a date-time with a zone or offset, one without (read
  /// as UTC), a date, a year and month, or a year. Fractions are cut to milliseconds. Nil for anything else, an
  /// impossible day included.
  package init?(served text: Text) {
    if let time = text.bytes.withUnsafeBufferPointer({ Timestamp(plain: $0) }) {
      self = time
      return
    }
    var reader = TimeReader(bytes: text.bytes[...])
    guard let time = reader.read() else { return nil }
    self = time
  }
}

extension Timestamp {
  /// The form an instance answers in, `2031-02-03T04:05:06.000Z`; nil for any other, which is read the long way.
  init?(plain bytes: UnsafeBufferPointer<UInt8>) {
    guard bytes.count == 24 else { return nil }
    var isPlain =
      bytes[4] == UInt8(ascii: "-") && bytes[7] == UInt8(ascii: "-") && bytes[10] == UInt8(ascii: "T")
      && bytes[13] == UInt8(ascii: ":") && bytes[16] == UInt8(ascii: ":") && bytes[19] == UInt8(ascii: ".")
      && bytes[23] == UInt8(ascii: "Z")
    func number(_ start: Int, _ count: Int) -> Int64 {
      var value: Int64 = 0
      for byte in bytes[start..<(start + count)] {
        if byte < 0x30 || byte > 0x39 { isPlain = false }
        value = value * 10 + Int64(byte) - 0x30
      }
      return value
    }
    let (year, month, day) = (number(0, 4), number(5, 2), number(8, 2))
    let (hour, minute, second, part) = (number(11, 2), number(14, 2), number(17, 2), number(20, 3))
    guard isPlain, (1...12).contains(month), day >= 1, day <= TimeReader.days(year, month), hour < 24, minute < 60,
      second < 60
    else { return nil }
    self.init(
      milliseconds: Timestamp.dayNumber(year: year, month: month, day: day) * 86_400_000
        + (hour * 3600 + minute * 60 + second) * 1000 + part)
  }
}

private struct TimeReader {
  var bytes: ArraySlice<UInt8>

  mutating func take(_ byte: Unicode.Scalar) -> Bool {
    guard let first = bytes.first, first == UInt8(ascii: byte) else { return false }
    bytes = bytes.dropFirst()
    return true
  }

  mutating func number(_ digits: Int) -> Int64? {
    guard bytes.count >= digits else { return nil }
    var value: Int64 = 0
    for byte in bytes.prefix(digits) {
      guard byte >= 0x30, byte <= 0x39 else { return nil }
      value = value * 10 + Int64(byte - 0x30)
    }
    bytes = bytes.dropFirst(digits)
    return value
  }

  mutating func read() -> Timestamp? {
    guard let year = number(4) else { return nil }
    if bytes.isEmpty { return instant(year, 1, 1, 0) }
    guard take("-"), let month = number(2), (1...12).contains(month) else { return nil }
    if bytes.isEmpty { return instant(year, month, 1, 0) }
    guard take("-"), let day = number(2), day >= 1, day <= TimeReader.days(year, month) else { return nil }
    if bytes.isEmpty { return instant(year, month, day, 0) }
    guard take("T"), let hour = number(2), hour < 24, take(":"), let minute = number(2), minute < 60 else { return nil }
    var milliseconds: Int64 = 0
    var second: Int64 = 0
    if take(":") {
      guard let read = number(2), read < 60 else { return nil }
      second = read
      if take(".") {
        guard let digits = fraction() else { return nil }
        milliseconds = digits
      }
    }
    guard let offset = zone() else { return nil }
    return instant(
      year, month, day, (hour * 3600 + minute * 60 + second - offset * 60) * 1000 + milliseconds)
  }

  /// The first three digits of a fraction as milliseconds; the rest is cut.
  mutating func fraction() -> Int64? {
    var value: Int64 = 0
    var count = 0
    while let byte = bytes.first, byte >= 0x30, byte <= 0x39 {
      if count < 3 { value = value * 10 + Int64(byte - 0x30) }
      count += 1
      bytes = bytes.dropFirst()
    }
    guard count > 0 else { return nil }
    while count < 3 {
      value *= 10
      count += 1
    }
    return value
  }

  /// Minutes east of UTC; nil where what is left is no zone.
  mutating func zone() -> Int64? {
    if bytes.isEmpty { return 0 }
    if take("Z") { return bytes.isEmpty ? 0 : nil }
    let sign: Int64
    if take("+") { sign = 1 } else if take("-") { sign = -1 } else { return nil }
    guard let hours = number(2), hours < 24, take(":"), let minutes = number(2), minutes < 60, bytes.isEmpty else {
      return nil
    }
    return sign * (hours * 60 + minutes)
  }

  func instant(_ year: Int64, _ month: Int64, _ day: Int64, _ milliseconds: Int64) -> Timestamp {
    Timestamp(milliseconds: Timestamp.dayNumber(year: year, month: month, day: day) * 86_400_000 + milliseconds)
  }

  static func days(_ year: Int64, _ month: Int64) -> Int64 {
    switch month {
    case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
    case 4, 6, 9, 11: 30
    default: 31
    }
  }
}
