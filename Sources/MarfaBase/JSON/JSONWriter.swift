extension JSON {
  /// The compact text, members in order. What JavaScript's `JSON.stringify` writes, numbers in their own spelling.
  public func write() -> [UInt8] {
    var out: [UInt8] = []
    append(to: &out)
    return out
  }

  /// The compact text as a string.
  public var compact: String { String(decoding: write(), as: UTF8.self) }

  /// The text with two-space indents and no final newline (C3.2).
  public func writePretty() -> [UInt8] {
    var out: [UInt8] = []
    appendPretty(to: &out, indent: 0)
    return out
  }

  /// Appends the compact text.
  public func append(to out: inout [UInt8]) {
    switch self {
    case .null: out += "null".utf8
    case .bool(let value): out += (value ? "true" : "false").utf8
    case .number(let number): out += number.literal.utf8
    case .string(let text): JSON.appendString(text, to: &out)
    case .array(let values):
      out.append(UInt8(ascii: "["))
      for (index, value) in values.enumerated() {
        if index > 0 { out.append(UInt8(ascii: ",")) }
        value.append(to: &out)
      }
      out.append(UInt8(ascii: "]"))
    case .object(let object):
      out.append(UInt8(ascii: "{"))
      for (index, member) in object.members.enumerated() {
        if index > 0 { out.append(UInt8(ascii: ",")) }
        JSON.appendString(member.key, to: &out)
        out.append(UInt8(ascii: ":"))
        member.value.append(to: &out)
      }
      out.append(UInt8(ascii: "}"))
    }
  }

  private func appendPretty(to out: inout [UInt8], indent: Int) {
    func newline(_ level: Int) {
      out.append(0x0A)
      for _ in 0..<level { out += "  ".utf8 }
    }
    switch self {
    case .array(let values) where !values.isEmpty:
      out.append(UInt8(ascii: "["))
      for (index, value) in values.enumerated() {
        if index > 0 { out.append(UInt8(ascii: ",")) }
        newline(indent + 1)
        value.appendPretty(to: &out, indent: indent + 1)
      }
      newline(indent)
      out.append(UInt8(ascii: "]"))
    case .object(let object) where !object.isEmpty:
      out.append(UInt8(ascii: "{"))
      for (index, member) in object.members.enumerated() {
        if index > 0 { out.append(UInt8(ascii: ",")) }
        newline(indent + 1)
        JSON.appendString(member.key, to: &out)
        out += ": ".utf8
        member.value.appendPretty(to: &out, indent: indent + 1)
      }
      newline(indent)
      out.append(UInt8(ascii: "}"))
    case .null, .bool, .number, .string, .array, .object: append(to: &out)
    }
  }

  /// Appends a string in quotes. `"` and `\`, the five short escapes and `\u00XX` for other control characters; lone
  /// surrogates as `\udXXX`; bytes that are no text as U+FFFD; everything else as it is.
  public static func appendString(_ text: Text, to out: inout [UInt8]) {
    out.append(UInt8(ascii: "\""))
    text.bytes.withUnsafeBufferPointer { appendEscaped($0, to: &out) }
    out.append(UInt8(ascii: "\""))
  }

  private static func appendEscaped(_ bytes: UnsafeBufferPointer<UInt8>, to out: inout [UInt8]) {
    var at = 0
    while at < bytes.count {
      // What stands for itself is taken by the run.
      let start = at
      at = endOfPlain(bytes, from: at)
      if at > start { out.append(contentsOf: UnsafeBufferPointer(rebasing: bytes[start..<at])) }
      guard at < bytes.count else { return }
      let byte = bytes[at]
      switch byte {
      case UInt8(ascii: "\""): out += "\\\"".utf8
      case UInt8(ascii: "\\"): out += "\\\\".utf8
      case 0x08: out += "\\b".utf8
      case 0x09: out += "\\t".utf8
      case 0x0A: out += "\\n".utf8
      case 0x0C: out += "\\f".utf8
      case 0x0D: out += "\\r".utf8
      case 0..<0x20:
        out += "\\u00".utf8
        appendHex(byte, to: &out)
      case 0..<0x80: out.append(byte)
      case 0xED where at + 2 < bytes.count && bytes[at + 1] >= 0xA0:
        let unit = UInt16(byte & 15) << 12 | UInt16(bytes[at + 1] & 63) << 6 | UInt16(bytes[at + 2] & 63)
        out += "\\u".utf8
        appendHex(UInt8(unit >> 8), to: &out)
        appendHex(UInt8(unit & 255), to: &out)
        at += 2
      default:
        let length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2
        if at + length <= bytes.count, String(validating: bytes[at..<(at + length)], as: UTF8.self) != nil {
          out.append(contentsOf: UnsafeBufferPointer(rebasing: bytes[at..<(at + length)]))
          at += length - 1
        } else {
          out += [0xEF, 0xBF, 0xBD]
        }
      }
      at += 1
    }
  }

  /// Where a run of bytes that stand for themselves in a string ends: no quote, no backslash, no control character, ASCII.
  /// Eight at a time while none of eight is special, since texts are long.
  static func endOfPlain(_ bytes: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
    var at = start
    if let base = UnsafeRawPointer(bytes.baseAddress) {
      let (ones, tops): (UInt64, UInt64) = (0x0101_0101_0101_0101, 0x8080_8080_8080_8080)
      while at + 8 <= bytes.count {
        let word = base.loadUnaligned(fromByteOffset: at, as: UInt64.self)
        let (quote, backslash) = (word ^ (ones &* 0x22), word ^ (ones &* 0x5C))
        let special =
          word | ((word &- ones &* 0x20) & ~word) | ((quote &- ones) & ~quote) | ((backslash &- ones) & ~backslash)
        if special & tops != 0 { break }
        at += 8
      }
    }
    while at < bytes.count, bytes[at] >= 0x20, bytes[at] < 0x80, bytes[at] != UInt8(ascii: "\""),
      bytes[at] != UInt8(ascii: "\\")
    { at += 1 }
    return at
  }

  private static func appendHex(_ byte: UInt8, to out: inout [UInt8]) {
    let digits = Array("0123456789abcdef".utf8)
    out.append(digits[Int(byte >> 4)])
    out.append(digits[Int(byte & 15)])
  }
}
