import MarfaBase

/// The texts the field kinds `url`, `email`, `date`, `datetime` and `thumbnail` take (T29, I48.1).
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

  /// An absolute URL as the WHATWG parser reads one: a scheme and, for the special schemes, a host it takes.
  static func isURL(_ text: Text) -> Bool {
    guard text.isValidUTF8 else { return false }
    var bytes = text.bytes[...]
    while let first = bytes.first, first <= 0x20 { bytes = bytes.dropFirst() }
    while let last = bytes.last, last <= 0x20 { bytes = bytes.dropLast() }
    let url = bytes.filter { $0 != 0x09 && $0 != 0x0A && $0 != 0x0D }
    guard let colon = url.firstIndex(of: UInt8(ascii: ":")), let first = url.first, isLetter(first),
      url[..<colon].allSatisfy({ isAlphanumeric($0) || "+-.".utf8.contains($0) })
    else { return false }
    let scheme = String(decoding: url[..<colon].map { isLetter($0) ? $0 | 0x20 : $0 }, as: UTF8.self)
    var rest = url[(colon + 1)...]
    let slash = { (byte: UInt8) in byte == UInt8(ascii: "/") || byte == UInt8(ascii: "\\") }
    switch scheme {
    case "http", "https", "ws", "wss", "ftp":
      rest = rest.drop(while: slash)
      return isAuthority(
        rest.prefix { !slash($0) && $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }, special: true)
    case "file": return true
    default:
      guard rest.starts(with: "//".utf8) else { return true }
      rest = rest.dropFirst(2)
      return isAuthority(
        rest.prefix { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }, special: false)
    }
  }

  private static func isAuthority(_ authority: ArraySlice<UInt8>, special: Bool) -> Bool {
    var host = authority
    if let at = host.lastIndex(of: UInt8(ascii: "@")) { host = host[(at + 1)...] }
    let end = host.lastIndex(of: UInt8(ascii: "]"))
    if let colon = host.lastIndex(of: UInt8(ascii: ":")), end.map({ colon > $0 }) ?? true {
      let port = host[(colon + 1)...]
      guard port.allSatisfy({ (0x30...0x39).contains($0) }),
        port.isEmpty || (Int(String(decoding: port, as: UTF8.self)) ?? 65_536) <= 65_535
      else { return false }
      host = host[..<colon]
    }
    if host.isEmpty { return !special && authority.isEmpty }
    if host.first == UInt8(ascii: "[") { return host.last == UInt8(ascii: "]") && host.contains(UInt8(ascii: ":")) }
    let forbidden = Set(" #/:<>?@[\\]^|".utf8)
    return host.allSatisfy { $0 > 0x20 && $0 != 0x7F && !forbidden.contains($0) }
  }

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
