import MarfaBase

/// Writes values as YAML 1.2 that reads back as the same values.
///
/// A string is plain where it reads back so, else double-quoted; one with line breaks is a literal block where it can be.
/// A value YAML cannot hold (a lone surrogate, bytes that are no UTF-8) is a `RenderFailure`.
package struct YAMLText {
  /// The line ends to write.
  let lineEnding: LineEnding

  /// `key: value` and what belongs below it, from a column on; the first line's indent is the caller's where `indented` is
  /// false. Ends with a line end.
  func pair(_ key: Text, _ value: JSON, column: Int, indented: Bool = true) throws(RenderFailure) -> [UInt8] {
    var out = indented ? spaces(column) : []
    out += try YAMLText.string(key, flow: false)
    out.append(UInt8(ascii: ":"))
    try append(value, to: &out, below: column, inSequence: false)
    return out
  }

  /// `- value` from a column on, as `pair`.
  func element(_ value: JSON, column: Int, indented: Bool = true) throws(RenderFailure) -> [UInt8] {
    var out = indented ? spaces(column) : []
    out.append(UInt8(ascii: "-"))
    try append(value, to: &out, below: column, inSequence: true)
    return out
  }

  /// The lines of a collection from a column on, the first line's indent left out, the last line's end too.
  func block(_ value: JSON, column: Int) throws(RenderFailure) -> [UInt8] {
    var out: [UInt8] = []
    switch value {
    case .object(let object) where !object.isEmpty:
      for (index, member) in object.members.enumerated() {
        out += try pair(member.key, member.value, column: column, indented: index > 0)
      }
    case .array(let values) where !values.isEmpty:
      for (index, value) in values.enumerated() { out += try element(value, column: column, indented: index > 0) }
    case .array, .object, .null, .bool, .number, .string: return try YAMLText.inline(value, flow: false)
    }
    out.removeLast(lineEnding.bytes.count)
    return out
  }

  /// A string with line breaks as a literal block, header first, no final line end; nil where it must be quoted.
  func literal(_ text: Text, column: Int) -> [UInt8]? {
    guard YAMLText.fitsLiteral(text.bytes) else { return nil }
    var lines = text.bytes.split(separator: 0x0A, omittingEmptySubsequences: false)
    let ends = text.bytes.last == 0x0A
    if ends { lines.removeLast() }
    var out = Array((ends ? "|" : "|-").utf8)
    for line in lines {
      out += lineEnding.bytes
      if !line.isEmpty { out += spaces(column) + line }
    }
    return out
  }

  private func append(
    _ value: JSON, to out: inout [UInt8], below column: Int, inSequence: Bool
  ) throws(RenderFailure) {
    switch value {
    case .object(let object) where !object.isEmpty:
      if inSequence {
        out.append(0x20)
      } else {
        out += lineEnding.bytes + spaces(column + 2)
      }
      out += try block(value, column: column + 2)
    case .array(let values) where !values.isEmpty:
      if inSequence {
        out.append(0x20)
      } else {
        out += lineEnding.bytes + spaces(column + 2)
      }
      out += try block(value, column: column + 2)
    case .string(let text):
      out.append(0x20)
      if let literal = literal(text, column: column + 2) {
        out += literal
      } else {
        out += try YAMLText.string(text, flow: false)
      }
    case .array, .object, .null, .bool, .number:
      out.append(0x20)
      out += try YAMLText.inline(value, flow: false)
    }
    out += lineEnding.bytes
  }

  func spaces(_ count: Int) -> [UInt8] { [UInt8](repeating: 0x20, count: count) }

  /// A value on one line.
  package static func inline(_ value: JSON, flow: Bool) throws(RenderFailure) -> [UInt8] {
    switch value {
    case .null: return Array("null".utf8)
    case .bool(let value): return Array((value ? "true" : "false").utf8)
    case .number(let number): return Array(number.literal.utf8)
    case .string(let text): return try string(text, flow: flow)
    case .array(let values):
      var out = Array("[".utf8)
      for (index, value) in values.enumerated() {
        if index > 0 { out += ", ".utf8 }
        out += try inline(value, flow: true)
      }
      return out + "]".utf8
    case .object(let object):
      var out = Array("{".utf8)
      for (index, member) in object.members.enumerated() {
        if index > 0 { out += ", ".utf8 }
        out += try string(member.key, flow: true)
        out += ": ".utf8
        out += try inline(member.value, flow: true)
      }
      return out + "}".utf8
    }
  }

  /// A string on one line, plain or double-quoted.
  static func string(_ text: Text, flow: Bool) throws(RenderFailure) -> [UInt8] {
    isPlain(text.bytes, flow: flow) ? text.bytes : try quoted(text)
  }

  /// A string in double quotes.
  static func quoted(_ text: Text) throws(RenderFailure) -> [UInt8] {
    guard let string = String(validating: text.bytes, as: UTF8.self) else {
      throw RenderFailure(reason: "a value holds text that is no UTF-8 (a lone surrogate), which no YAML can hold")
    }
    var out: [UInt8] = [UInt8(ascii: "\"")]
    for scalar in string.unicodeScalars {
      switch scalar.value {
      case 0x22, 0x5C: out += [UInt8(ascii: "\\"), UInt8(scalar.value)]
      case 0x09: out += "\\t".utf8
      case 0x0A: out += "\\n".utf8
      case 0x0D: out += "\\r".utf8
      case 0..<0x20, 0x7F...0x9F, 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF:
        let hex = String(scalar.value, radix: 16, uppercase: true)
        out += "\\u\(String(repeating: "0", count: 4 - hex.count))\(hex)".utf8
      default: out += UTF8.encode(scalar).map(Array.init) ?? []
      }
    }
    out.append(UInt8(ascii: "\""))
    return out
  }

  /// Whether a string without quotes reads back as itself, by a rule stricter than YAML's.
  static func isPlain(_ bytes: [UInt8], flow: Bool) -> Bool {
    guard let first = bytes.first, let last = bytes.last, first != 0x20, last != 0x20, last != UInt8(ascii: ":") else {
      return false
    }
    if "-?:,[]{}#&*!|>'\"%@`=<".utf8.contains(first) { return false }
    if bytes.starts(with: "...".utf8) { return false }
    var previous: UInt8 = 0
    for byte in bytes {
      switch byte {
      case 0..<0x20, 0x7F: return false
      case UInt8(ascii: "#") where previous == 0x20: return false
      case 0x20 where previous == UInt8(ascii: ":"): return false
      case UInt8(ascii: ","), UInt8(ascii: "["), UInt8(ascii: "]"), UInt8(ascii: "{"), UInt8(ascii: "}"),
        UInt8(ascii: ":"):
        if flow { return false }
      default: break
      }
      previous = byte
    }
    if bytes.contains(where: { $0 >= 0x80 }) {
      guard let string = String(validating: bytes, as: UTF8.self) else { return false }
      for scalar in string.unicodeScalars {
        switch scalar.value {
        case 0x80...0xA0, 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF: return false
        default: break
        }
      }
    }
    if case .text = CoreScalar(bytes) { return true }
    return false
  }

  private static func fitsLiteral(_ bytes: [UInt8]) -> Bool {
    guard bytes.contains(0x0A), let first = bytes.first, first != 0x0A, first != 0x20, first != 0x09 else {
      return false
    }
    guard !bytes.suffix(2).elementsEqual([0x0A, 0x0A]) else { return false }
    guard bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 0x0A || $0 == 0x09 }) else { return false }
    // A line of blanks alone may be taken for indent.
    for line in bytes.split(separator: 0x0A) where line.allSatisfy({ $0 == 0x20 || $0 == 0x09 }) { return false }
    guard let string = String(validating: bytes, as: UTF8.self) else { return false }
    return !string.unicodeScalars.contains {
      (0x80...0x9F).contains($0.value) || [0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF].contains($0.value)
    }
  }
}
