/// Why a keyring could not be read or changed. Each is `no_keychain` to a command (S3.4).
public enum KeyStoreError: Error, Hashable, Sendable, CustomStringConvertible {
  /// There is no service to ask, or it did not answer in time.
  case unavailable(String)
  /// The collection is locked, and was not unlocked.
  case locked(String)
  /// An entry is kept that does not read.
  case unreadable(String)
  /// The service refused.
  case failed(String)

  /// The code of the contract.
  public func code() -> String { "no_keychain" }

  /// The sentence for the person. It never holds a secret.
  public var description: String {
    switch self {
    case .unavailable(let words), .locked(let words), .unreadable(let words), .failed(let words): words
    }
  }
}
