import MarfaBase

/// The texts the field kinds `email`, `date`, `datetime` and `thumbnail` take (T29, I48.1).
enum ValueGrammar {
  // MARK: Times

  /// `YYYY-MM-DD`, a real day of the Gregorian calendar.
  static func isDate(_ text: Text) -> Bool { text.bytes.count == 10 && date(text.bytes[...]) }

  /// A date alone, or one with `T`, a time and `Z` or an offset (T29.2).
  static func isDateTime(_ text: Text) -> Bool {
    let bytes = text.bytes
    guard bytes.count >= 10, date(bytes[..<10]) else { return false }
    if bytes.count == 10 { return true }
    var rest = bytes[10...]
    guard rest.first == UInt8(ascii: "T") else { return false }
    rest = rest.dropFirst()
    guard let hour = pair(&rest), hour < 24, skip(&rest, ":"), let minute = pair(&rest), minute < 60 else {
      return false
    }
    if skip(&rest, ":") {
      guard let second = pair(&rest), second < 60 else { return false }
      if skip(&rest, ".") {
        let digits = rest.prefix { $0 >= 0x30 && $0 <= 0x39 }
        guard !digits.isEmpty else { return false }
        rest = rest.dropFirst(digits.count)
      }
    }
    if skip(&rest, "Z") { return rest.isEmpty }
    guard skip(&rest, "+") || skip(&rest, "-") else { return false }
    guard let hours = pair(&rest), hours < 24, skip(&rest, ":"), let minutes = pair(&rest), minutes < 60 else {
      return false
    }
    return rest.isEmpty
  }

  private static func date(_ bytes: ArraySlice<UInt8>) -> Bool {
    var rest = bytes
    guard let high = pair(&rest), let low = pair(&rest), skip(&rest, "-"), let month = pair(&rest), skip(&rest, "-"),
      let day = pair(&rest), rest.isEmpty, (1...12).contains(month), day >= 1
    else { return false }
    let year = high * 100 + low
    let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    let days = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    return day <= days[month - 1]
  }

  private static func pair(_ bytes: inout ArraySlice<UInt8>) -> Int? {
    guard bytes.count >= 2 else { return nil }
    let (one, two) = (bytes[bytes.startIndex], bytes[bytes.startIndex + 1])
    guard (0x30...0x39).contains(one), (0x30...0x39).contains(two) else { return nil }
    bytes = bytes.dropFirst(2)
    return Int(one - 0x30) * 10 + Int(two - 0x30)
  }

  private static func skip(_ bytes: inout ArraySlice<UInt8>, _ scalar: Unicode.Scalar) -> Bool {
    guard bytes.first == UInt8(ascii: scalar) else { return false }
    bytes = bytes.dropFirst()
    return true
  }

  // MARK: Addresses

  /// `local@domain` by T29.1.
  static func isEmail(_ text: Text) -> Bool {
    let parts = text.bytes.split(separator: UInt8(ascii: "@"), omittingEmptySubsequences: false)
    guard parts.count == 2, let first = parts[0].first, let last = parts[0].last, first != UInt8(ascii: "."),
      last != UInt8(ascii: "."), last != UInt8(ascii: "'"),
      parts[0].allSatisfy({ isAlphanumeric($0) || "_'+-.".utf8.contains($0) })
    else { return false }
    for (one, two) in zip(parts[0], parts[0].dropFirst()) where one == two && one == UInt8(ascii: ".") { return false }
    let labels = parts[1].split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard labels.count >= 2, let top = labels.last, top.count >= 2, top.allSatisfy({ isLetter($0) }) else {
      return false
    }
    return labels.allSatisfy { label in
      label.first.map(isAlphanumeric) == true && label.allSatisfy { isAlphanumeric($0) || $0 == UInt8(ascii: "-") }
    }
  }

  private static func isLetter(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte | 0x20) }
  private static func isAlphanumeric(_ byte: UInt8) -> Bool { isLetter(byte) || (0x30...0x39).contains(byte) }

  // MARK: Thumbnails

  /// A data URI of at most 16,384 decoded bytes that begin with their format's signature, in canonical base64 (I48.1).
  static func isThumbnail(_ text: Text) -> Bool {
    let kinds: [(String, ([UInt8]) -> Bool)] = [
      ("data:image/png;base64,", { $0.starts(with: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) }),
      ("data:image/jpeg;base64,", { $0.starts(with: [0xFF, 0xD8, 0xFF]) }),
      (
        "data:image/webp;base64,",
        { $0.starts(with: "RIFF".utf8) && $0.count >= 12 && $0[8..<12].elementsEqual("WEBP".utf8) }
      ),
    ]
    for (prefix, hasSignature) in kinds where text.bytes.starts(with: prefix.utf8) {
      guard let bytes = base64(text.bytes.dropFirst(prefix.utf8.count)) else { return false }
      return bytes.count <= 16_384 && hasSignature(bytes)
    }
    return false
  }

  private static func base64(_ text: ArraySlice<UInt8>) -> [UInt8]? {
    guard !text.isEmpty, text.count % 4 == 0 else { return nil }
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    var values = [UInt8](repeating: 255, count: 256)
    for (index, byte) in alphabet.enumerated() { values[Int(byte)] = UInt8(index) }
    let padding = text.suffix(2).filter { $0 == UInt8(ascii: "=") }.count
    var out: [UInt8] = []
    var bits: UInt32 = 0
    var count = 0
    for byte in text.dropLast(padding) {
      let value = values[Int(byte)]
      guard value != 255 else { return nil }
      bits = bits << 6 | UInt32(value)
      count += 6
      if count >= 8 {
        count -= 8
        out.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
        bits &= 1 << UInt32(count) - 1
      }
    }
    // Canonical: the bits past the last byte are zero.
    return bits == 0 ? out : nil
  }
}
