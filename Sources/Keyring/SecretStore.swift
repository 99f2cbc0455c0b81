import Synchronization

/// Where secrets are kept by service and account: the Secret Service, or memory.
public protocol SecretStore: Sendable {
  /// The secret of an account; nil where none is kept.
  /// - Throws: where one is kept and cannot be read, or nobody can tell.
  func secret(service: String, account: String) throws(KeyStoreError) -> [UInt8]?
  /// Keeps a secret in place of the one kept. The label names it to the person and holds no secret.
  func store(_ secret: [UInt8], service: String, account: String, label: String) throws(KeyStoreError)
  /// Forgets a secret. Returns whether one was kept.
  func remove(service: String, account: String) throws(KeyStoreError) -> Bool
  /// The accounts of a service a secret is kept for, in any order; locked ones too.
  func accounts(service: String) throws(KeyStoreError) -> [String]
}

/// Secrets in memory, for tests.
public final class MemorySecrets: SecretStore {
  private struct Place: Hashable {
    var service: [UInt8]
    var account: [UInt8]
  }

  private struct State: Sendable {
    var secrets: [Place: [UInt8]] = [:]
    var failure: KeyStoreError?
  }

  private let state = Mutex(State())

  /// Nothing kept.
  public init() {}

  /// What every call throws until it is set to nil again: a locked or absent service.
  public var failure: KeyStoreError? {
    get { state.withLock { $0.failure } }
    set { state.withLock { $0.failure = newValue } }
  }

  private func place(_ service: String, _ account: String) -> Place {
    Place(service: Array(service.utf8), account: Array(account.utf8))
  }

  /// The secret of an account.
  public func secret(service: String, account: String) throws(KeyStoreError) -> [UInt8]? {
    if let failure { throw failure }
    let place = place(service, account)
    return state.withLock { $0.secrets[place] }
  }

  /// Keeps a secret.
  public func store(_ secret: [UInt8], service: String, account: String, label: String) throws(KeyStoreError) {
    if let failure { throw failure }
    let place = place(service, account)
    state.withLock { $0.secrets[place] = secret }
  }

  /// The accounts of a service.
  public func accounts(service: String) throws(KeyStoreError) -> [String] {
    if let failure { throw failure }
    return state.withLock { state in
      state.secrets.keys.filter { $0.service.elementsEqual(service.utf8) }
        .map { String(decoding: $0.account, as: UTF8.self) }
    }
  }

  /// Forgets a secret.
  public func remove(service: String, account: String) throws(KeyStoreError) -> Bool {
    if let failure { throw failure }
    let place = place(service, account)
    return state.withLock { $0.secrets.removeValue(forKey: place) != nil }
  }
}
