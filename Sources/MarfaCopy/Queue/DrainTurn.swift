import Dispatch
import Glibc
import MarfaBase
import Synchronization

/// Whose turn it is to drain a store (Q49.1): a drain asked for while another runs waits for its end, then sends only what
/// is still unanswered. One asked for from within the running drain could only wait for ever, so it is refused.
final class DrainTurn: Sendable {
  private let free = DispatchSemaphore(value: 1)
  /// The thread that drains; 0 for none.
  private let holder = Mutex<UInt>(0)

  /// Waits for the turn.
  /// - Throws: `invalid` on the thread that has it already.
  func begin() throws(MarfaError) {
    let here = UInt(pthread_self())
    if holder.withLock({ $0 }) == here { throw MarfaError(.invalid, "a drain runs already on this thread") }
    free.wait()
    holder.withLock { $0 = here }
  }

  /// Gives the turn to the next.
  func end() {
    holder.withLock { $0 = 0 }
    free.signal()
  }
}
