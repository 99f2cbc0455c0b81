/// A name or a path of the file system: bytes, compared as bytes, never repaired.
///
/// Components are separated by `/`. A path relative to a folder's root has no leading `/`.
public struct PathBytes: Hashable, Comparable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
  /// The bytes, without a terminating NUL.
  public let bytes: [UInt8]

  /// A path of these bytes.
  public init(bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

  /// A path of a string's UTF-8.
  public init(_ string: some StringProtocol) { self.bytes = Array(string.utf8) }

  /// A path of a text's bytes.
  public init(_ text: Text) { self.bytes = text.bytes }

  /// A literal.
  public init(stringLiteral value: String) { self.bytes = Array(value.utf8) }

  /// The root of a relative path.
  public static let empty = PathBytes(bytes: [])

  /// Whether it has no byte.
  public var isEmpty: Bool { bytes.isEmpty }

  /// Whether it begins with `/`.
  public var isAbsolute: Bool { bytes.first == UInt8(ascii: "/") }

  /// The components, empty ones left out.
  public var components: [PathBytes] {
    bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: true).map { PathBytes(bytes: $0) }
  }

  /// The last component; the path itself where it has one component.
  public var name: PathBytes {
    guard let slash = bytes.lastIndex(of: UInt8(ascii: "/")) else { return self }
    return PathBytes(bytes: bytes[(slash + 1)...])
  }

  /// The path without its last component; empty at the root of a relative path.
  public var parent: PathBytes {
    guard let slash = bytes.lastIndex(of: UInt8(ascii: "/")) else { return .empty }
    return PathBytes(bytes: bytes[..<(slash == 0 && bytes.count > 1 ? 1 : slash)])
  }

  /// This path with a name below it.
  public func appending(_ name: PathBytes) -> PathBytes {
    if isEmpty { return name }
    if bytes.last == UInt8(ascii: "/") { return PathBytes(bytes: bytes + name.bytes) }
    return PathBytes(bytes: bytes + [UInt8(ascii: "/")] + name.bytes)
  }

  /// Whether `other` is this path or lies below it, by component.
  public func contains(_ other: PathBytes) -> Bool {
    if isEmpty { return true }
    guard other.bytes.starts(with: bytes) else { return false }
    return other.bytes.count == bytes.count || bytes.last == UInt8(ascii: "/")
      || other.bytes[bytes.count] == UInt8(ascii: "/")
  }

  /// What follows the last dot of the name, without the dot; nil where there is none or the dot leads the name.
  public var fileExtension: PathBytes? {
    let name = name.bytes
    guard let dot = name.lastIndex(of: UInt8(ascii: ".")), dot > 0, dot + 1 < name.count else { return nil }
    return PathBytes(bytes: name[(dot + 1)...])
  }

  /// Whether the bytes are valid UTF-8.
  public var isValidUTF8: Bool { String(validating: bytes, as: UTF8.self) != nil }

  /// The path as text, its bytes unchanged.
  public var text: Text { Text(bytes: bytes) }

  /// The key names are compared by, component by component (F27.1); `/` is kept by folding, so one key serves the path.
  public var nameKey: NameKey { NameKey(bytes) }

  /// For showing to a person: each byte that is no UTF-8 shows as `%XX` (F27.8).
  public var description: String {
    if let string = String(validating: bytes, as: UTF8.self) { return string }
    var shown = ""
    var rest = bytes[...]
    while let first = rest.first {
      let length = first < 0x80 ? 1 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1
      if let scalar = String(validating: rest.prefix(length), as: UTF8.self) {
        shown += scalar
        rest = rest.dropFirst(length)
      } else {
        let digits = Array("0123456789ABCDEF")
        shown += "%\(digits[Int(first >> 4)])\(digits[Int(first & 15)])"
        rest = rest.dropFirst()
      }
    }
    return shown
  }

  /// Path order: bytewise (folders-1, terms).
  public static func < (left: PathBytes, right: PathBytes) -> Bool {
    left.bytes.lexicographicallyPrecedes(right.bytes)
  }

  /// Calls `body` with the path as a NUL-terminated C string. A path holding NUL ends there; the file system refuses
  /// such names before they reach here.
  public func withCString<Result, Failure: Error>(
    _ body: (UnsafePointer<CChar>) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let terminated = bytes + [0]
    return try terminated.withUnsafeBufferPointer { (buffer) throws(Failure) -> Result in
      try buffer.withMemoryRebound(to: CChar.self) { (characters) throws(Failure) -> Result in
        // The buffer holds at least the terminating NUL.
        try body(characters.baseAddress!)
      }
    }
  }
}
