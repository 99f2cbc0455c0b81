/// Why a text is no JSON.
public struct JSONError: Error, Hashable, Sendable, CustomStringConvertible {
  /// What was wrong, in words.
  public let reason: String
  /// The byte it was found at, from 0.
  public let offset: Int

  /// The reason and the place.
  public var description: String { "\(reason) at byte \(offset)" }
}

extension JSON {
  /// Reads one JSON text. A byte-order mark, anything after the value, invalid UTF-8 and nesting past `depth` levels are
  /// refused. Lone surrogates in escapes are kept as WTF-8, NUL is kept.
  /// - Throws: `JSONError` naming the place.
  public init(parsing bytes: [UInt8], depth: Int = 512) throws(JSONError) {
    let result: Result<JSON, JSONError> = bytes.withUnsafeBufferPointer { buffer in
      var reader = JSONReader(bytes: buffer, depth: depth)
      do throws(JSONError) { return .success(try reader.document()) } catch { return .failure(error) }
    }
    self = try result.get()
  }

  /// Reads one JSON text.
  public init(parsing text: String) throws(JSONError) { try self.init(parsing: Array(text.utf8)) }
}

private struct JSONReader {
  let bytes: UnsafeBufferPointer<UInt8>
  let depth: Int
  var at = 0
  var level = 0

  init(bytes: UnsafeBufferPointer<UInt8>, depth: Int) {
    self.bytes = bytes
    self.depth = depth
  }

  func refused(_ reason: String) -> JSONError { JSONError(reason: reason, offset: at) }

  mutating func document() throws(JSONError) -> JSON {
    let value = try value()
    skipSpace()
    guard at == bytes.count else { throw refused("text after the value") }
    return value
  }

  mutating func skipSpace() {
    while at < bytes.count, bytes[at] == 0x20 || bytes[at] == 0x0A || bytes[at] == 0x0D || bytes[at] == 0x09 { at += 1 }
  }

  mutating func take(_ byte: UInt8) -> Bool {
    guard at < bytes.count, bytes[at] == byte else { return false }
    at += 1
    return true
  }

  mutating func value() throws(JSONError) -> JSON {
    skipSpace()
    guard at < bytes.count else { throw refused("the text ends where a value should stand") }
    switch bytes[at] {
    case UInt8(ascii: "{"): return try object()
    case UInt8(ascii: "["): return try array()
    case UInt8(ascii: "\""):
      at += 1
      return .string(try string())
    case UInt8(ascii: "t"): return try word("true", .bool(true))
    case UInt8(ascii: "f"): return try word("false", .bool(false))
    case UInt8(ascii: "n"): return try word("null", .null)
    case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .number(try number())
    default: throw refused("no value begins so")
    }
  }

  mutating func word(_ word: StaticString, _ value: JSON) throws(JSONError) -> JSON {
    let count = word.utf8CodeUnitCount
    guard at + count <= bytes.count else { throw refused("a word cut short") }
    for offset in 0..<count where bytes[at + offset] != word.utf8Start[offset] { throw refused("an unknown word") }
    at += count
    return value
  }

  mutating func enter() throws(JSONError) {
    level += 1
    if level > depth { throw refused("nested deeper than \(depth) levels") }
    at += 1
    skipSpace()
  }

  mutating func object() throws(JSONError) -> JSON {
    try enter()
    var object = JSONObject()
    if !take(UInt8(ascii: "}")) {
      while true {
        skipSpace()
        guard take(UInt8(ascii: "\"")) else { throw refused("a member without a key") }
        let key = try string()
        skipSpace()
        guard take(UInt8(ascii: ":")) else { throw refused("a key without a colon") }
        object[key] = try value()
        skipSpace()
        if take(UInt8(ascii: "}")) { break }
        guard take(UInt8(ascii: ",")) else { throw refused("neither a comma nor the object's end") }
      }
    }
    level -= 1
    return .object(object)
  }

  mutating func array() throws(JSONError) -> JSON {
    try enter()
    var values: [JSON] = []
    if !take(UInt8(ascii: "]")) {
      while true {
        values.append(try value())
        skipSpace()
        if take(UInt8(ascii: "]")) { break }
        guard take(UInt8(ascii: ",")) else { throw refused("neither a comma nor the list's end") }
      }
    }
    level -= 1
    return .array(values)
  }

  mutating func number() throws(JSONError) -> JSONNumber {
    let start = at
    _ = take(UInt8(ascii: "-"))
    if !take(UInt8(ascii: "0")) {
      guard digits() > 0 else { throw refused("a number without digits") }
    }
    if take(UInt8(ascii: ".")) {
      guard digits() > 0 else { throw refused("a point without digits") }
    }
    if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
      if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
      guard digits() > 0 else { throw refused("an exponent without digits") }
    }
    return JSONNumber(literal: String(decoding: UnsafeBufferPointer(rebasing: bytes[start..<at]), as: UTF8.self))
  }

  mutating func digits() -> Int {
    let start = at
    while at < bytes.count, bytes[at] >= 0x30, bytes[at] <= 0x39 { at += 1 }
    return at - start
  }

  /// The rest of a string whose opening quote was taken.
  mutating func string() throws(JSONError) -> Text {
    let start = at
    at = JSON.endOfPlain(bytes, from: at)
    if at < bytes.count, bytes[at] == UInt8(ascii: "\"") {
      at += 1
      return Text(bytes: Array(UnsafeBufferPointer(rebasing: bytes[start..<(at - 1)])))
    }
    var out: [UInt8] = []
    // Most texts are a little longer than what stands before their first escape: one room for all of it.
    out.reserveCapacity(max(64, 2 * (at - start)))
    out.append(contentsOf: UnsafeBufferPointer(rebasing: bytes[start..<at]))
    while true {
      guard at < bytes.count else { throw refused("a string that does not end") }
      let byte = bytes[at]
      switch byte {
      case UInt8(ascii: "\""):
        at += 1
        return Text(bytes: out)
      case UInt8(ascii: "\\"):
        at += 1
        try escape(into: &out)
      case 0..<0x20: throw refused("a control character in a string")
      case 0..<0x80:
        // Plain bytes are taken by the run.
        let start = at
        at = JSON.endOfPlain(bytes, from: at)
        out.append(contentsOf: UnsafeBufferPointer(rebasing: bytes[start..<at]))
      default:
        let length = try scalarLength()
        out.append(contentsOf: UnsafeBufferPointer(rebasing: bytes[at..<(at + length)]))
        at += length
      }
    }
  }

  func scalarLength() throws(JSONError) -> Int {
    let first = bytes[at]
    let length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2
    guard first >= 0xC2, first <= 0xF4, at + length <= bytes.count else { throw refused("bytes that are no UTF-8") }
    for offset in 1..<length where bytes[at + offset] & 0xC0 != 0x80 { throw refused("bytes that are no UTF-8") }
    let second = bytes[at + 1]
    let valid =
      switch first {
      case 0xE0: second >= 0xA0
      case 0xED: second < 0xA0
      case 0xF0: second >= 0x90
      case 0xF4: second < 0x90
      default: true
      }
    guard valid else { throw refused("bytes that are no UTF-8") }
    return length
  }

  mutating func escape(into out: inout [UInt8]) throws(JSONError) {
    guard at < bytes.count else { throw refused("a string that does not end") }
    let byte = bytes[at]
    at += 1
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): out.append(byte)
    case UInt8(ascii: "b"): out.append(0x08)
    case UInt8(ascii: "f"): out.append(0x0C)
    case UInt8(ascii: "n"): out.append(0x0A)
    case UInt8(ascii: "r"): out.append(0x0D)
    case UInt8(ascii: "t"): out.append(0x09)
    case UInt8(ascii: "u"):
      var unit = try hex()
      if unit >= 0xD800, unit < 0xDC00, at + 6 <= bytes.count, bytes[at] == UInt8(ascii: "\\"),
        bytes[at + 1] == UInt8(ascii: "u")
      {
        let before = at
        at += 2
        let low = try hex()
        if low >= 0xDC00, low < 0xE000 {
          unit = 0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00)
        } else {
          at = before
        }
      }
      appendScalar(unit, to: &out)
    default: throw refused("an unknown escape")
    }
  }

  mutating func hex() throws(JSONError) -> UInt32 {
    guard at + 4 <= bytes.count else { throw refused("an escape cut short") }
    var unit: UInt32 = 0
    for _ in 0..<4 {
      let byte = bytes[at]
      switch byte {
      case UInt8(ascii: "0")...UInt8(ascii: "9"): unit = unit << 4 | UInt32(byte - 0x30)
      case UInt8(ascii: "a")...UInt8(ascii: "f"): unit = unit << 4 | UInt32(byte - 0x61 + 10)
      case UInt8(ascii: "A")...UInt8(ascii: "F"): unit = unit << 4 | UInt32(byte - 0x41 + 10)
      default: throw refused("an escape that is no hex")
      }
      at += 1
    }
    return unit
  }

  /// Appends a code point as UTF-8; a lone surrogate as the three bytes of WTF-8.
  func appendScalar(_ scalar: UInt32, to out: inout [UInt8]) {
    switch scalar {
    case ..<0x80: out.append(UInt8(scalar))
    case ..<0x800: out += [UInt8(0xC0 | scalar >> 6), UInt8(0x80 | scalar & 63)]
    case ..<0x10000: out += [UInt8(0xE0 | scalar >> 12), UInt8(0x80 | scalar >> 6 & 63), UInt8(0x80 | scalar & 63)]
    default:
      out += [
        UInt8(0xF0 | scalar >> 18), UInt8(0x80 | scalar >> 12 & 63), UInt8(0x80 | scalar >> 6 & 63),
        UInt8(0x80 | scalar & 63),
      ]
    }
  }
}
