import CPosix
import Glibc
import MarfaBase
import Synchronization

/// Lets one thread wait until another has something for it, or until a time. A wake-up before the wait is not lost.
package final class Waker: Sendable {
  private let descriptor: Int32
  private let clock: any Clock

  /// - Throws: `FileError` where the system gives no descriptor.
  package init(clock: any Clock) throws(FileError) {
    self.clock = clock
    descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    guard descriptor >= 0 else { throw FileError(code: errno, operation: "watch", path: "eventfd") }
  }

  deinit { close(descriptor) }

  /// Ends the wait under way, or the next one.
  package func wake() {
    var one: UInt64 = 1
    _ = write(descriptor, &one, 8)
  }

  /// Waits until woken, or until `time` of the clock's monotonic nanoseconds; nil waits for a wake-up alone.
  package func wait(until time: UInt64?) {
    var waited = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    while true {
      var milliseconds: Int32 = -1
      if let time {
        let now = clock.monotonic
        if now >= time { break }
        milliseconds = Int32(clamping: (time - now + 999_999) / 1_000_000)
      }
      let count = poll(&waited, 1, milliseconds)
      if count > 0 { break }
      if count < 0, errno != EINTR { break }
    }
    var count: UInt64 = 0
    _ = read(descriptor, &count, 8)
  }
}
