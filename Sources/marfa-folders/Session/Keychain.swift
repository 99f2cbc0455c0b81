import Keyring
import MarfaBase
import MarfaCopy

/// The credential store as the command needs it: the Secret Service, or none at all (C2.6).
protocol Keychain: CredentialStore {
  /// The origin a bare command uses; nil where none is kept or the store cannot be asked (C2.2).
  func currentOrigin() -> Text?
  /// What is kept for an origin: a key or a sign-in; nil where nothing is.
  /// - Throws: `no_keychain` where one is kept and cannot be read.
  func entry(for origin: String) throws(MarfaError) -> KeptCredential?
  /// Keeps a key and makes its origin current.
  func keep(key: String, for origin: String) throws(MarfaError)
  /// Forgets a key. Returns whether one was kept.
  func forgetKey(for origin: String) throws(MarfaError) -> Bool
  /// The entries themselves, for a sign-in.
  /// - Throws: `no_keychain` where the store is off or cannot be asked.
  func entries() throws(MarfaError) -> KeptCredentials
}

/// One kept credential, without its secrets but the one to ask with.
struct KeptCredential: Sendable {
  /// What to ask with.
  var credential: String
  /// Whether it is a key; else a sign-in.
  var isKey: Bool
  /// The scope of a sign-in.
  var scope: String?
  /// When a sign-in's token ends.
  var expiresAt: String?
}

/// The store where there is none: switched off by `MARFA_KEYCHAIN`, or not part of this build.
final class NoCredentialStore: Keychain {
  private let why: String

  /// A store that answers every call with this reason.
  init(_ why: String) { self.why = why }

  func currentOrigin() -> Text? { nil }
  // C2.6: reading it while resolving counts as "none kept".
  func credential(for origin: String) throws(MarfaError) -> String? { nil }
  func renew(_ refused: String, for origin: String) throws(MarfaError) -> String? { nil }
  func entry(for origin: String) throws(MarfaError) -> KeptCredential? { nil }
  func keep(key: String, for origin: String) throws(MarfaError) { throw MarfaError(.noKeychain, why) }
  func forgetKey(for origin: String) throws(MarfaError) -> Bool { throw MarfaError(.noKeychain, why) }
  func entries() throws(MarfaError) -> KeptCredentials { throw MarfaError(.noKeychain, why) }
}
