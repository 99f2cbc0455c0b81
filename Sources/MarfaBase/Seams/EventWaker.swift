import CPosix
import Glibc
import Synchronization

/// Wakes a wait on an eventfd from another thread, and never one that is over: its number may be another file by then.
final class EventWaker: Sendable {
  private let descriptor: Mutex<Int32?>

  init(_ descriptor: Int32) { self.descriptor = Mutex(descriptor) }

  func wake() {
    descriptor.withLock { descriptor in
      if let descriptor { _ = eventfd_write(descriptor, 1) }
    }
  }

  func end() { descriptor.withLock { $0 = nil } }
}
