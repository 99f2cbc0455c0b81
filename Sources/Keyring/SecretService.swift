import CSecret
import Glibc
import MarfaBase
import Synchronization

/// Secrets in the user's Secret Service, through libsecret (X22.1).
///
/// Each call runs on a thread of its own with its own main context and its own proxy of the service, and has a deadline:
/// a service that hangs costs the caller that long, never for ever. The thread that hangs is left to its cancelled call.
public final class SecretService: SecretStore {
  /// Who may be asked to unlock the collection.
  public enum Unlocking: Sendable {
    /// Nobody: a locked collection is `locked` (P7.3, the agent and everything without a terminal).
    case never
    /// The person, by the service's own prompt; the deadline is then that of a person.
    case asking
  }

  private let unlocking: Unlocking
  private let deadline: UInt64

  /// The service of this session.
  /// - Parameter deadline: nanoseconds a call may take; by default 10 s, or 120 s where a person may be asked.
  public init(unlocking: Unlocking = .never, deadline: UInt64? = nil) {
    self.unlocking = unlocking
    switch unlocking {
    case .never: self.deadline = deadline ?? 10_000_000_000
    case .asking: self.deadline = deadline ?? 120_000_000_000
    }
  }

  /// The secret of an account. Of several that match, the one changed last.
  public func secret(service: String, account: String) throws(KeyStoreError) -> [UInt8]? {
    try call { (session) throws(KeyStoreError) in try session.read(service, account) }
  }

  /// Keeps a secret in the default collection.
  public func store(_ secret: [UInt8], service: String, account: String, label: String) throws(KeyStoreError) {
    try call { (session) throws(KeyStoreError) in try session.store(secret, service, account, label) }
  }

  /// Forgets every secret of an account.
  public func remove(service: String, account: String) throws(KeyStoreError) -> Bool {
    try call { (session) throws(KeyStoreError) in try session.remove(service, account) }
  }

  /// The accounts of a service; reading them needs no secret unlocked.
  public func accounts(service: String) throws(KeyStoreError) -> [String] {
    try call { (session) throws(KeyStoreError) in try session.accounts(service) }
  }

  /// Runs work on a fresh thread and waits for it, at most until the deadline.
  private func call<Value: Sendable>(
    _ work: @escaping @Sendable (borrowing SecretSession) throws(KeyStoreError) -> Value
  ) throws(KeyStoreError) -> Value {
    let outcome = Outcome<Value>()
    let unlocking = unlocking
    let begun = startThread {
      // Replies are delivered on this context, which no other thread iterates.
      let context = g_main_context_new()
      g_main_context_push_thread_default(context)
      defer {
        g_main_context_pop_thread_default(context)
        g_main_context_unref(context)
      }
      do throws(KeyStoreError) {
        let session = try SecretSession(unlocking: unlocking, cancellable: outcome.cancellable)
        outcome.settle(.success(try work(session)))
      } catch {
        outcome.settle(.failure(error))
      }
    }
    guard begun else { throw .unavailable("the keyring cannot be asked: no thread is left") }
    guard let result = outcome.wait(deadline) else {
      throw .unavailable("the keyring did not answer within \(deadline / 1_000_000_000) s")
    }
    return try result.get()
  }
}

/// The answer of a call on another thread, waited for with a deadline.
///
/// Unchecked Sendable: the value is guarded by the mutex of the condition, and a GCancellable may be cancelled from any
/// thread.
private final class Outcome<Value: Sendable>: @unchecked Sendable {
  let cancellable: UnsafeMutablePointer<GCancellable> = g_cancellable_new()
  private let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private let settled = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
  private var result: Result<Value, KeyStoreError>?

  init() {
    pthread_mutex_init(lock, nil)
    var attributes = pthread_condattr_t()
    pthread_condattr_init(&attributes)
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    pthread_cond_init(settled, &attributes)
    pthread_condattr_destroy(&attributes)
  }

  deinit {
    pthread_cond_destroy(settled)
    pthread_mutex_destroy(lock)
    settled.deallocate()
    lock.deallocate()
    g_object_unref(cancellable)
  }

  func settle(_ value: Result<Value, KeyStoreError>) {
    pthread_mutex_lock(lock)
    result = value
    pthread_cond_signal(settled)
    pthread_mutex_unlock(lock)
  }

  /// The result; nil after the deadline, when what runs was told to give up.
  func wait(_ nanoseconds: UInt64) -> Result<Value, KeyStoreError>? {
    var until = timespec()
    clock_gettime(CLOCK_MONOTONIC, &until)
    let total = UInt64(until.tv_nsec) + nanoseconds % 1_000_000_000
    until.tv_sec += Int(nanoseconds / 1_000_000_000 + total / 1_000_000_000)
    until.tv_nsec = Int(total % 1_000_000_000)
    pthread_mutex_lock(lock)
    defer { pthread_mutex_unlock(lock) }
    while result == nil {
      if pthread_cond_timedwait(settled, lock, &until) == ETIMEDOUT {
        if result == nil { g_cancellable_cancel(cancellable) }
        break
      }
    }
    return result
  }
}
