import COpenSSL

/// The SHA-256 of some bytes.
public struct ContentHash: Hashable, Sendable, CustomStringConvertible {
  /// The 32 bytes of the digest.
  public let bytes: [UInt8]

  /// A digest of 32 bytes; nil for any other count.
  public init?(bytes: [UInt8]) {
    guard bytes.count == 32 else { return nil }
    self.bytes = bytes
  }

  /// The digest that 64 hex digits spell, with or without a leading `sha256:`.
  public init?(_ text: Text) {
    guard let hash = text.bytes.withUnsafeBufferPointer({ ContentHash(hex: $0) }) else { return nil }
    self = hash
  }

  /// The same of bytes where they lie.
  public init?(hex text: UnsafeBufferPointer<UInt8>) {
    var digits = UnsafeBufferPointer(rebasing: text[...])
    if digits.starts(with: "sha256:".utf8) { digits = UnsafeBufferPointer(rebasing: digits[7...]) }
    guard digits.count == 64 else { return nil }
    var isHex = true
    bytes = [UInt8](unsafeUninitializedCapacity: 32) { out, count in
      for place in 0..<32 {
        guard let high = ContentHash.value(digits[2 * place]), let low = ContentHash.value(digits[2 * place + 1]) else {
          isHex = false
          break
        }
        out[place] = high << 4 | low
        count = place + 1
      }
    }
    if !isHex { return nil }
  }

  private static func value(_ digit: UInt8) -> UInt8? {
    switch digit {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
    default: nil
    }
  }

  /// The digest of bytes in memory.
  public init(of content: [UInt8]) {
    var hasher = ContentHasher()
    hasher.update(content)
    self = hasher.finish()
  }

  /// 64 lowercase hex digits.
  public var hex: String {
    String(unsafeUninitializedCapacity: 64) { out in
      for (place, byte) in bytes.enumerated() {
        let (high, low) = (byte >> 4, byte & 15)
        out[2 * place] = high < 10 ? 0x30 + high : 0x57 + high
        out[2 * place + 1] = low < 10 ? 0x30 + low : 0x57 + low
      }
      return 2 * bytes.count
    }
  }

  /// The wire's form: `sha256:` and the hex digits.
  public var description: String { "sha256:\(hex)" }

  /// The wire's form as text.
  public var text: Text { Text(description) }
}

/// Hashes bytes as they pass. Use it on one thread.
public struct ContentHasher: ~Copyable {
  private let context: OpaquePointer

  /// A fresh hasher.
  public init() {
    context = EVP_MD_CTX_new()
    EVP_DigestInit_ex(context, sha256.pointer, nil)
  }

  deinit { EVP_MD_CTX_free(context) }

  /// Takes in more bytes.
  public mutating func update(_ bytes: some ContiguousBytesSource) {
    bytes.withBytes { _ = EVP_DigestUpdate(context, $0.baseAddress, $0.count) }
  }

  /// Takes in more bytes.
  public mutating func update(_ bytes: UnsafeRawBufferPointer) {
    _ = EVP_DigestUpdate(context, bytes.baseAddress, bytes.count)
  }

  /// The digest of all that was taken in. Call it once.
  public consuming func finish() -> ContentHash {
    var digest = [UInt8](repeating: 0, count: 32)
    EVP_DigestFinal_ex(context, &digest, nil)
    return ContentHash(bytes: digest)!
  }
}

/// Bytes that lie in one piece of memory.
public protocol ContiguousBytesSource {
  /// Calls `body` with the bytes.
  func withBytes(_ body: (UnsafeRawBufferPointer) -> Void)
}

extension [UInt8]: ContiguousBytesSource {
  /// Calls `body` with the array's storage.
  public func withBytes(_ body: (UnsafeRawBufferPointer) -> Void) { withUnsafeBytes(body) }
}

extension ArraySlice<UInt8>: ContiguousBytesSource {
  /// Calls `body` with the slice's storage.
  public func withBytes(_ body: (UnsafeRawBufferPointer) -> Void) { withUnsafeBytes(body) }
}

/// The algorithm, fetched once: `EVP_sha256()` fetches anew at every use (platform notes 2).
private struct FetchedDigest: @unchecked Sendable {
  // An EVP_MD is immutable and reference counted by OpenSSL, safe to share between threads once fetched.
  let pointer: OpaquePointer?
}

private let sha256 = FetchedDigest(pointer: EVP_MD_fetch(nil, "SHA256", nil))
