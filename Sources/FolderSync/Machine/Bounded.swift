import Glibc
import MarfaBase
import Synchronization

/// Does something a dead network mount could hold up for ever, for at most `limit` nanoseconds of real time (P2.4, ST3).
/// - Returns: nil where it did not answer; its thread ends when the kernel lets it go.
func bounded<Value: Sendable>(_ limit: UInt64, _ work: @escaping @Sendable () -> Value) -> Value? {
  let answer = BoundedAnswer(work)
  guard startThread({ answer.run() }) else { return nil }
  return answer.wait(limit)
}

private final class BoundedAnswer<Value: Sendable>: Sendable {
  private let work: @Sendable () -> Value
  private let found = Mutex<Value?>(nil)
  private let done = StopFlag()

  init(_ work: @escaping @Sendable () -> Value) { self.work = work }

  func run() {
    let value = work()
    found.withLock { $0 = value }
    done.set(.stopped)
  }

  func wait(_ limit: UInt64) -> Value? {
    SystemScheduler().wait(nanoseconds: limit, unless: done)
    return found.withLock { $0 }
  }
}
