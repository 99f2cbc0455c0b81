import CPosix
import Glibc

/// Runs `work` on a thread of its own, which nobody waits for: for what blocks, and so must not hold one of the few threads
/// that Swift's tasks share.
/// - Returns: false where the system gives no thread; `work` is not run then.
package func startThread(_ work: @escaping @Sendable () -> Void) -> Bool {
  let box = Unmanaged.passRetained(ThreadWork(work))
  var thread = pthread_t()
  let begun = pthread_create(
    &thread, nil,
    { argument in
      if let argument { Unmanaged<ThreadWork>.fromOpaque(argument).takeRetainedValue().work() }
      return nil
    }, box.toOpaque())
  if begun == 0 { pthread_detach(thread) } else { box.release() }
  return begun == 0
}

private final class ThreadWork: Sendable {
  let work: @Sendable () -> Void
  init(_ work: @escaping @Sendable () -> Void) { self.work = work }
}

/// Lets the process take memory from the system, and give it back, in large steps: what a pass over many notes takes and
/// leaves again would else be asked for a few pages at a time, each of which the system makes empty anew.
package func takeMemoryInLargeSteps() { marfa_malloc_in_large_steps() }
