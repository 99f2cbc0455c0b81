import CPosix
import Glibc
import MarfaBase
import Synchronization

/// Where a watch's thread waits: in the kernel, or on a test's clock.
package protocol WatchWait: Sendable {
  /// Ends the wait under way, or the next one.
  func wake()
  /// Waits until woken, or until `time` of the clock's monotonic nanoseconds; nil waits for a wake-up alone.
  func wait(until time: UInt64?)
  /// Whether the machine slept, or its wall clock was set, since this was last asked (P5.1).
  func timeJumped() -> Bool
}

/// Lets one thread wait until another has something for it, or until a time. A wake-up before the wait is not lost.
package final class Waker: WatchWait {
  private let descriptor: Int32
  private let clock: any Clock
  /// The wall clock and the time asleep, each against the clock that counts neither.
  private let known: Mutex<(wall: Int64, asleep: Int64)>

  /// - Throws: `FileError` where the system gives no descriptor.
  package init(clock: any Clock) throws(FileError) {
    self.clock = clock
    descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    known = Mutex(Waker.offsets())
    guard descriptor >= 0 else { throw FileError(code: errno, operation: "watch", path: "eventfd") }
  }

  deinit { close(descriptor) }

  private static func seconds(_ clock: clockid_t) -> Int64 {
    var time = timespec()
    clock_gettime(clock, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
  }

  private static func offsets() -> (wall: Int64, asleep: Int64) {
    let awake = seconds(CLOCK_MONOTONIC)
    let boot = seconds(CLOCK_BOOTTIME)
    return (seconds(CLOCK_REALTIME) - boot, boot - awake)
  }

  package func timeJumped() -> Bool {
    let now = Waker.offsets()
    return known.withLock { known in
      // A clock that is disciplined moves by milliseconds.
      let jumped = abs(now.wall - known.wall) > 2_000 || now.asleep - known.asleep > 2_000
      if jumped || abs(now.wall - known.wall) > 500 { known = now }
      return jumped
    }
  }

  package func wake() {
    var one: UInt64 = 1
    _ = write(descriptor, &one, 8)
  }

  package func wait(until time: UInt64?) {
    while true {
      var milliseconds: Int32 = -1
      var timer: Int32 = -1
      if let time {
        let now = clock.monotonic
        if now >= time { break }
        // A timer that counts the time asleep (P5.1); `poll`'s own does not.
        let left = clock.timer(nanoseconds: time - now)
        timer = marfa_boottime_timer(left)
        if timer < 0 { milliseconds = Int32(clamping: (left + 999_999) / 1_000_000) }
      }
      defer { if timer >= 0 { close(timer) } }
      var waited = [
        pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0), pollfd(fd: timer, events: Int16(POLLIN), revents: 0),
      ]
      let count = poll(&waited, timer < 0 ? 1 : 2, milliseconds)
      if count > 0, waited[0].revents != 0 { break }
      if count < 0, errno != EINTR { break }
    }
    var count: UInt64 = 0
    _ = read(descriptor, &count, 8)
  }
}
