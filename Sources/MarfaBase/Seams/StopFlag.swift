import Synchronization

/// Asks work to end at its next safe point (H12, C4.6). Set once or again from any thread; checked between steps.
public final class StopFlag: Sendable {
  /// Why work was asked to stop.
  public enum Reason: UInt8, Sendable {
    /// The person stopped it: SIGINT, SIGTERM, `stop()`, `--for` run out.
    case stopped = 1
    /// Another process asks for the folder.
    case handOver = 2
  }

  private let state = Atomic<UInt8>(0)
  private let looked = Atomic<Int>(0)
  private let wakers = Mutex<Wakers>(Wakers())

  private struct Wakers: Sendable {
    var next = 0
    var byToken: [Int: @Sendable () -> Void] = [:]
  }

  /// A flag that is not set.
  public init() {}

  /// The reason, or nil while nobody asked. A person's stop outranks a hand-over.
  public var reason: Reason? {
    looked.wrappingAdd(1, ordering: .relaxed)
    return Reason(rawValue: state.load(ordering: .acquiring))
  }

  /// How often it was looked at: work that goes on looks between its steps (N3.3).
  public var looks: Int { looked.load(ordering: .relaxed) }

  /// Whether somebody asked.
  public var isSet: Bool { reason != nil }

  /// Sets the flag and wakes what waits on it.
  public func set(_ reason: Reason) {
    if self.reason != .stopped { state.store(reason.rawValue, ordering: .releasing) }
    for wake in wakers.withLock({ Array($0.byToken.values) }) { wake() }
  }

  /// Takes a hand-over back; a person's stop stays.
  public func clearHandOver() {
    _ = state.compareExchange(expected: 2, desired: 0, ordering: .acquiringAndReleasing)
  }

  /// Calls `wake` (on the setter's thread) each time the flag is set, for waits that block in the kernel.
  /// - Returns: a token for `forget`.
  @discardableResult
  public func onSet(_ wake: @escaping @Sendable () -> Void) -> Int {
    let token = wakers.withLock { wakers in
      wakers.next += 1
      wakers.byToken[wakers.next] = wake
      return wakers.next
    }
    if isSet { wake() }
    return token
  }

  /// Takes a wake of `onSet` back. One that is running meanwhile may still end after this returns.
  public func forget(_ token: Int) {
    wakers.withLock { _ = $0.byToken.removeValue(forKey: token) }
  }
}
