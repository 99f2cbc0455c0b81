import MarfaBase

/// The entries of the command line (X22), each change under the lock of its origin (X21).
///
///     let kept = KeptCredentials(store: SecretService(unlocking: .asking))
///     try kept.save(.key(key), for: "https://marfa.example")
///     try kept.setCurrent("https://marfa.example")
public final class KeptCredentials: Sendable {
  /// The attribute `service` of every entry.
  public static let service = "marfa-folders"

  /// Why a change was not made.
  public enum Failure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The keyring could not be read or changed: `no_keychain`.
    case keyring(KeyStoreError)
    /// The origin's lock is not to be trusted: `invalid`.
    case lock(CredentialLockError)

    /// The sentence for the person.
    public var description: String {
      switch self {
      case .keyring(let error): error.description
      case .lock(let error): error.description
      }
    }
  }

  private let store: any SecretStore
  private let home: PathBytes?

  /// The entries in a store. `home` is where the locks are kept: the user database's, but in tests.
  public init(store: any SecretStore, home: PathBytes? = CredentialLock.homeDirectory) {
    self.store = store
    self.home = home
  }

  /// What is kept for an origin; nil where nothing is. Reading takes no lock (X21.1).
  /// - Throws: `unreadable` naming the account for an entry that does not read (X22.3).
  public func entry(for origin: String) throws(KeyStoreError) -> KeptEntry? {
    guard let secret = try store.secret(service: Self.service, account: origin) else { return nil }
    guard let entry = KeptEntry(secret) else {
      throw .unreadable("what the keyring keeps for \(origin) cannot be read")
    }
    return entry
  }

  /// Keeps a key or a sign-in in place of what was kept, readable or not. The label names the origin alone.
  public func save(_ entry: KeptEntry, for origin: String) throws(Failure) {
    try locked(origin) { () throws(KeyStoreError) in try self.write(entry, origin) }
  }

  /// Forgets what is kept for an origin. Returns whether anything was.
  @discardableResult
  public func forget(_ origin: String) throws(Failure) -> Bool {
    try locked(origin) { () throws(KeyStoreError) in
      try self.store.remove(service: Self.service, account: origin)
    }
  }

  /// The origin a bare command uses.
  public func current() throws(KeyStoreError) -> String? { try text("current") }

  /// Sets the origin a bare command uses; nil takes it away.
  public func setCurrent(_ origin: String?) throws(KeyStoreError) {
    if let origin {
      try store.store(
        Array(origin.utf8), service: Self.service, account: "current", label: "marfa-folders: the server in use")
    } else {
      _ = try store.remove(service: Self.service, account: "current")
    }
  }

  /// The id of the client registered at an origin, kept apart from its sign-ins (K16.1).
  public func client(for origin: String) throws(KeyStoreError) -> String? { try text("client:\(origin)") }

  /// Keeps the id of the client registered at an origin.
  public func saveClient(_ id: String, for origin: String) throws(KeyStoreError) {
    try store.store(
      Array(id.utf8), service: Self.service, account: "client:\(origin)",
      label: "marfa-folders at \(origin): registration")
  }

  /// Forgets everything: keys, sign-ins, registrations, the origin in use. Sign-ins are not revoked by it.
  /// - Returns: the origins a key or a sign-in was kept for.
  public func forgetAll() throws(Failure) -> [String] {
    let accounts: [String]
    do throws(KeyStoreError) { accounts = try store.accounts(service: Self.service) } catch { throw .keyring(error) }
    var origins: [String] = []
    for account in accounts.sorted() {
      if account.utf8.starts(with: "client:".utf8) || account.utf8.elementsEqual("current".utf8) {
        do throws(KeyStoreError) { _ = try store.remove(service: Self.service, account: account) } catch {
          throw .keyring(error)
        }
      } else if try forget(account) {
        origins.append(account)
      }
    }
    return origins
  }

  /// Proves that the origin's lock can be had, and drops it: what a login does before it asks the person (X21.6).
  public func proveLock(_ origin: String) throws(CredentialLockError) {
    _ = try CredentialLock(origin: origin, home: home)
  }

  /// What a sign-out found and did.
  public enum SignOut: Sendable {
    /// Nothing was kept.
    case nothing
    /// A key is kept, which no sign-out ends.
    case key
    /// The sign-in is forgotten. What its revocation came to; nil where the answer was not read.
    case ended(revoked: Bool?)
  }

  /// Ends a sign-in under its origin's lock: revoked where the server takes it, forgotten in any case (K16.9). The origin is
  /// no longer the current one.
  /// - Parameter revoke: asks the server to end the set; whether it confirmed that.
  public func signOut(_ origin: String, _ revoke: (KeptToken) -> Bool?) throws(Failure) -> SignOut {
    try locked(origin) { () throws(KeyStoreError) in
      switch try self.entry(for: origin) {
      case nil: return .nothing
      case .key: return .key
      case .token(let token):
        let revoked = revoke(token)
        _ = try self.store.remove(service: Self.service, account: origin)
        if try self.current()?.utf8.elementsEqual(origin.utf8) ?? false { try self.setCurrent(nil) }
        return .ended(revoked: revoked)
      }
    }
  }

  /// What a refresh came to.
  public enum Refresh: Sendable {
    /// A new set, to be kept before the lock goes (K16.8).
    case renewed(KeptToken)
    /// The sign-in has ended (`invalid_grant`, `invalid_client`): what is kept is forgotten (K16.6).
    case ended
    /// It could not be asked: what is kept stays (K16.7).
    case left
  }

  /// What a renewal came to.
  public enum Renewal: Sendable {
    /// Ask with this: renewed here, or by another process meanwhile (X21.7).
    case use(KeptEntry)
    /// Nothing is kept, a key is, or there is nothing to refresh with.
    case nothing
    /// The sign-in has ended, and was forgotten.
    case ended
    /// The refresh failed for a reason that passes; what is kept stays.
    case left
    /// It was renewed and could not be kept: the new set is dropped, the next use ends signed out (K16.8).
    case dropped(KeyStoreError)
  }

  /// Renews a sign-in under its origin's lock, held until the new set is kept (K16.4).
  ///
  /// Under the lock the entry is read again. Where it no longer holds the token that was refused, and is not about to
  /// end, it is the answer and nothing is sent.
  /// - Parameters:
  ///   - refused: the token the server refused; nil where it is renewed beforehand.
  ///   - now: the time, for "ends within 60 seconds".
  ///   - refresh: spends the refresh token. It reads the server's root first (K16.5).
  public func renewing(
    _ origin: String, refused: String?, now: Timestamp, _ refresh: (KeptToken) -> Refresh
  ) throws(Failure) -> Renewal {
    try locked(origin) { () throws(KeyStoreError) in
      guard let entry = try self.entry(for: origin) else { return .nothing }
      guard case .token(let token) = entry else {
        // A key that was put in the token's place meanwhile is used; a refused key has nothing to renew it with.
        return refused.map { !$0.utf8.elementsEqual(entry.credential.utf8) } ?? false ? .use(entry) : .nothing
      }
      let isRefused = refused.map { $0.utf8.elementsEqual(token.accessToken.utf8) } ?? false
      if !isRefused, !token.isEnding(at: now) { return .use(entry) }
      guard token.refreshToken != nil else { return .nothing }
      switch refresh(token) {
      case .renewed(let fresh):
        do throws(KeyStoreError) { try self.write(.token(fresh), origin) } catch {
          // The old refresh token is spent: what is kept would only fail later (C2.5, K16.8).
          _ = try? self.store.remove(service: Self.service, account: origin)
          return .dropped(error)
        }
        return .use(.token(fresh))
      case .ended:
        _ = try self.store.remove(service: Self.service, account: origin)
        return .ended
      case .left: return .left
      }
    }
  }

  // MARK: Parts

  private func write(_ entry: KeptEntry, _ origin: String) throws(KeyStoreError) {
    try store.store(entry.secret, service: Self.service, account: origin, label: "marfa-folders at \(origin)")
  }

  private func text(_ account: String) throws(KeyStoreError) -> String? {
    guard let secret = try store.secret(service: Self.service, account: account) else { return nil }
    guard let text = String(validating: secret, as: UTF8.self), !text.isEmpty else {
      throw .unreadable("what the keyring keeps as \(account) cannot be read")
    }
    return text
  }

  private func locked<Value>(
    _ origin: String, _ work: () throws(KeyStoreError) -> Value
  ) throws(Failure) -> Value {
    let lock: CredentialLock
    do throws(CredentialLockError) { lock = try CredentialLock(origin: origin, home: home) } catch {
      throw .lock(error)
    }
    let value: Value
    do throws(KeyStoreError) { value = try work() } catch {
      lock.release()
      throw .keyring(error)
    }
    lock.release()
    return value
  }
}
