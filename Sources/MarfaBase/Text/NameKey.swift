import CUTF8Proc

/// The form names are compared in: NFC of the case-folded NFC form, whole Unicode, no locale (F27.1).
///
/// Two names are one exactly when their keys are equal. Bytes that are no UTF-8 are their own key.
public struct NameKey: Hashable, Comparable, Sendable {
  /// The folded, composed bytes.
  public let bytes: [UInt8]

  /// The key of a name.
  public init(_ name: some Sequence<UInt8>) {
    let bytes = Array(name)
    if bytes.allSatisfy({ $0 < 0x80 }) {
      self.bytes = bytes.map { $0 >= 0x41 && $0 <= 0x5A ? $0 | 0x20 : $0 }
    } else if let composed = unicodeMapped(bytes, UTF8PROC_COMPOSE),
      let folded = unicodeMapped(composed, UTF8PROC_CASEFOLD), let key = unicodeMapped(folded, UTF8PROC_COMPOSE)
    {
      self.bytes = key
    } else {
      self.bytes = bytes
    }
  }

  /// The key of a text.
  public init(_ text: Text) { self.init(text.bytes) }

  /// Bytewise order of keys.
  public static func < (left: NameKey, right: NameKey) -> Bool { left.bytes.lexicographicallyPrecedes(right.bytes) }
}

/// The NFC form of UTF-8 bytes, or nil where they are no UTF-8.
public func nfc(_ bytes: [UInt8]) -> [UInt8]? { unicodeMapped(bytes, UTF8PROC_COMPOSE) }

/// The NFD form of UTF-8 bytes, or nil where they are no UTF-8.
public func nfd(_ bytes: [UInt8]) -> [UInt8]? { unicodeMapped(bytes, UTF8PROC_DECOMPOSE) }

private func unicodeMapped(_ bytes: [UInt8], _ form: utf8proc_option_t) -> [UInt8]? {
  if bytes.isEmpty { return bytes }
  var mapped: UnsafeMutablePointer<UInt8>?
  let options = utf8proc_option_t(rawValue: form.rawValue | UTF8PROC_STABLE.rawValue)
  let count = bytes.withUnsafeBufferPointer { utf8proc_map($0.baseAddress, $0.count, &mapped, options) }
  defer { free(mapped) }
  guard count >= 0, let mapped else { return nil }
  return Array(UnsafeBufferPointer(start: mapped, count: count))
}
