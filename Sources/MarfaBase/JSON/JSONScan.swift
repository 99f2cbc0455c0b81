import Glibc

/// Walks compact JSON text without making values of it, for texts whose parts are kept as they stand.
///
///     var scan = JSONScan(bytes)
///     let isRead = scan.members { scan, key in scan.is(key, "title") ? scan.string().map { title = $0 } != nil : scan.skip() }
///
/// It takes only what a `JSON` of the text would be written as again, byte for byte, spaces aside: every step fails at
/// spaces between values and at escapes that have a shorter spelling, and the caller then reads the text as `JSON`. What it
/// takes, `JSON(parsing:)` takes as well.
package struct JSONScan {
  /// Where a string's content lies, and whether it holds escapes.
  package struct Piece {
    /// The bytes between the quotes.
    package let range: Range<Int>
    /// Whether they stand for other bytes.
    package let hasEscapes: Bool
  }

  /// The text.
  package let bytes: UnsafeBufferPointer<UInt8>
  /// The byte the next step begins at.
  package var at: Int
  private var level = 0

  /// Deeper texts are left to the reader of whole texts.
  private static let depth = 32

  /// A scan from a place on.
  package init(_ bytes: UnsafeBufferPointer<UInt8>, at: Int = 0) {
    self.bytes = bytes
    self.at = at
  }

  /// Whether all was read.
  package var isAtEnd: Bool { at == bytes.count }

  /// Whether the next byte is this one.
  package func stands(_ byte: UInt8) -> Bool { at < bytes.count && bytes[at] == byte }

  /// Takes a byte, where it is the next.
  package mutating func take(_ byte: UInt8) -> Bool {
    guard stands(byte) else { return false }
    at += 1
    return true
  }

  /// Takes a word, where it is the next.
  package mutating func take(_ word: StaticString) -> Bool {
    let end = at + word.utf8CodeUnitCount
    guard end <= bytes.count, `is`(at..<end, word) else { return false }
    at = end
    return true
  }

  /// Whether a part of the text is this word.
  package func `is`(_ range: Range<Int>, _ word: StaticString) -> Bool {
    guard range.count == word.utf8CodeUnitCount, let base = bytes.baseAddress else { return false }
    return memcmp(base + range.lowerBound, word.utf8Start, range.count) == 0
  }

  /// Whether two parts of the text are the same.
  package func isSame(_ one: Range<Int>, _ other: Range<Int>) -> Bool {
    guard one.count == other.count, let base = bytes.baseAddress else { return false }
    return memcmp(base + one.lowerBound, base + other.lowerBound, one.count) == 0
  }

  /// A part of the text.
  package func text(_ range: Range<Int>) -> Text { Text(bytes: array(range)) }

  /// The bytes of a part of the text.
  package func array(_ range: Range<Int>) -> [UInt8] { Array(UnsafeBufferPointer(rebasing: bytes[range])) }

  /// The id a part of the text spells.
  package func id(_ range: Range<Int>) -> EntityID? { EntityID(UnsafeBufferPointer(rebasing: bytes[range])) }

  /// The next string.
  package mutating func string() -> Piece? {
    guard take(UInt8(ascii: "\"")) else { return nil }
    let start = at
    var hasEscapes = false
    while true {
      at = JSON.endOfPlain(bytes, from: at)
      guard at < bytes.count else { return nil }
      switch bytes[at] {
      case UInt8(ascii: "\""):
        at += 1
        return Piece(range: start..<(at - 1), hasEscapes: hasEscapes)
      case UInt8(ascii: "\\"):
        guard at + 1 < bytes.count else { return nil }
        switch bytes[at + 1] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "b"), UInt8(ascii: "f"), UInt8(ascii: "n"),
          UInt8(ascii: "r"), UInt8(ascii: "t"):
          break
        default: return nil
        }
        hasEscapes = true
        at += 2
      case 0x80...:
        guard let length = scalarLength() else { return nil }
        at += length
      default: return nil
      }
    }
  }

  /// The length of the UTF-8 sequence at hand; nil where there is none.
  private func scalarLength() -> Int? {
    let first = bytes[at]
    let length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2
    guard first >= 0xC2, first <= 0xF4, at + length <= bytes.count else { return nil }
    for offset in 1..<length where bytes[at + offset] & 0xC0 != 0x80 { return nil }
    let second = bytes[at + 1]
    let isValid =
      switch first {
      case 0xE0: second >= 0xA0
      case 0xED: second < 0xA0
      case 0xF0: second >= 0x90
      case 0xF4: second < 0x90
      default: true
      }
    return isValid ? length : nil
  }

  /// The next value, a whole number of at most 18 digits without a sign.
  package mutating func count() -> Int? {
    let start = at
    var value = 0
    while at < bytes.count, bytes[at] >= 0x30, bytes[at] <= 0x39, at - start < 19 {
      value = value &* 10 &+ Int(bytes[at] - 0x30)
      at += 1
    }
    let count = at - start
    guard count > 0, count < 19, count == 1 || bytes[start] != 0x30, at < bytes.count,
      bytes[at] != UInt8(ascii: "."), bytes[at] | 0x20 != UInt8(ascii: "e")
    else { return nil }
    return value
  }

  /// Passes over a number.
  private mutating func number() -> Bool {
    func digits(_ scan: inout JSONScan) -> Bool {
      let start = scan.at
      while scan.at < scan.bytes.count, scan.bytes[scan.at] >= 0x30, scan.bytes[scan.at] <= 0x39 { scan.at += 1 }
      return scan.at > start
    }
    _ = take(UInt8(ascii: "-"))
    if !take(UInt8(ascii: "0")), !digits(&self) { return false }
    if take(UInt8(ascii: ".")), !digits(&self) { return false }
    if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
      if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
      if !digits(&self) { return false }
    }
    return true
  }

  /// Hands on the keys of the object at hand, each of which is passed its value by `each`; false where something is not as
  /// it is written here. A key with an escape is.
  package mutating func members(_ each: (inout JSONScan, Range<Int>) -> Bool) -> Bool {
    guard take(UInt8(ascii: "{")) else { return false }
    level += 1
    defer { level -= 1 }
    if level > JSONScan.depth { return false }
    if take(UInt8(ascii: "}")) { return true }
    while true {
      guard let key = string(), !key.hasEscapes, take(UInt8(ascii: ":")), each(&self, key.range) else { return false }
      if take(UInt8(ascii: "}")) { return true }
      guard take(UInt8(ascii: ",")) else { return false }
    }
  }

  /// Hands on the elements of the list at hand, each of which `each` passes.
  package mutating func elements(_ each: (inout JSONScan) -> Bool) -> Bool {
    guard take(UInt8(ascii: "[")) else { return false }
    level += 1
    defer { level -= 1 }
    if level > JSONScan.depth { return false }
    if take(UInt8(ascii: "]")) { return true }
    while true {
      guard each(&self) else { return false }
      if take(UInt8(ascii: "]")) { return true }
      guard take(UInt8(ascii: ",")) else { return false }
    }
  }

  /// Passes over a value. An object within it may name a key twice.
  package mutating func skip() -> Bool {
    guard at < bytes.count else { return false }
    switch bytes[at] {
    case UInt8(ascii: "\""): return string() != nil
    case UInt8(ascii: "{"): return members { scan, _ in scan.skip() }
    case UInt8(ascii: "["): return elements { $0.skip() }
    case UInt8(ascii: "t"): return take("true")
    case UInt8(ascii: "f"): return take("false")
    case UInt8(ascii: "n"): return take("null")
    default: return number()
    }
  }

  /// Passes over a value that holds no object, so that it is written as it stands.
  package mutating func skipFlat() -> Bool {
    if stands(UInt8(ascii: "{")) { return false }
    if stands(UInt8(ascii: "[")) { return elements { $0.skipFlat() } }
    return skip()
  }
}
