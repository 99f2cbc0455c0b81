import CPosix
import Glibc
import Synchronization

/// Wakes the server's wait from another thread, and never a descriptor that was closed meanwhile.
final class WakeHandle: Sendable {
  private let descriptor: Mutex<Int32?>

  /// Owns an eventfd.
  init(_ descriptor: Int32) { self.descriptor = Mutex(descriptor) }

  func wake() {
    descriptor.withLock { if let descriptor = $0 { _ = eventfd_write(descriptor, 1) } }
  }

  func close() {
    descriptor.withLock { descriptor in
      if let open = descriptor { _ = Glibc.close(open) }
      descriptor = nil
    }
  }
}
