/// Text from outside, held as its bytes and compared as bytes.
///
/// Swift's `String` compares by canonical equivalence and repairs invalid bytes, so two names in NFC and NFD would be one
/// key and a lone surrogate would change. `Text` keeps what it was given: UTF-8, in which a lone surrogate of a JSON escape
/// stands as its three WTF-8 bytes. Ordering is bytewise, which for UTF-8 is the order of Unicode scalars.
///
///     let tag: Text = "work"
///     object["title"]?.text == Text(line)
public struct Text: Hashable, Comparable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
  /// The bytes as given.
  public let bytes: [UInt8]

  /// Text of these bytes, unchecked and unrepaired.
  public init(bytes: [UInt8]) { self.bytes = bytes }

  /// Text of some bytes, unchecked and unrepaired.
  public init(bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

  /// The UTF-8 of a string.
  public init(_ string: some StringProtocol) { self.bytes = Array(string.utf8) }

  /// A literal.
  public init(stringLiteral value: String) { self.bytes = Array(value.utf8) }

  /// For showing to a person; bytes that are no UTF-8 show as U+FFFD.
  public var string: String { String(decoding: bytes, as: UTF8.self) }

  /// The same as `string`.
  public var description: String { string }

  /// Whether it holds no byte.
  public var isEmpty: Bool { bytes.isEmpty }

  /// Whether every byte belongs to valid UTF-8.
  public var isValidUTF8: Bool { String(validating: bytes, as: UTF8.self) != nil }

  /// Its length in UTF-16 code units, the unit of most limits of the contract.
  public var utf16Count: Int {
    var count = 0
    for byte in bytes where byte & 0xC0 != 0x80 { count += byte >= 0xF0 ? 2 : 1 }
    return count
  }

  /// Whether the bytes are those of a string.
  public static func == (text: Text, string: String) -> Bool { text.bytes.elementsEqual(string.utf8) }

  /// Bytewise order.
  public static func < (left: Text, right: Text) -> Bool { left.bytes.lexicographicallyPrecedes(right.bytes) }
}
