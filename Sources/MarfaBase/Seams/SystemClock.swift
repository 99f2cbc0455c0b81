import CPosix
import Glibc

/// How much faster than life a test runs (C27.2): waits are divided by it, the monotonic clock multiplied.
public struct TimeScale: Sendable, Hashable {
  /// 1 outside tests; at least 1.
  public let factor: UInt64

  /// Real time.
  public static let real = TimeScale(factor: 1)

  /// A scale; a factor below 1 is 1.
  public init(factor: UInt64) { self.factor = max(1, factor) }

  /// What `MARFA_TEST_TIME` asks for. A release build ignores it.
  public static func reading(_ value: String?) -> TimeScale {
    #if DEBUG
      TimeScale(factor: value.flatMap { UInt64($0) } ?? 1)
    #else
      .real
    #endif
  }
}

/// The machine's clocks.
public struct SystemClock: Clock {
  private let scale: TimeScale
  private let start = marfa_boottime()

  /// The clocks, the monotonic one at that scale.
  public init(scale: TimeScale = .real) { self.scale = scale }

  /// The wall clock.
  public var now: Timestamp {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Timestamp(milliseconds: Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000)
  }

  /// `CLOCK_BOOTTIME`, scaled from where this clock began.
  public var monotonic: UInt64 { start &+ (marfa_boottime() &- start) &* scale.factor }

  /// The wait, divided by the scale: the wall clock itself is never scaled, since documents show it.
  public func wait(milliseconds: Int64) -> Int64 { milliseconds / Int64(scale.factor) }

  /// The span, divided by the scale, never less than it takes.
  public func timer(nanoseconds: UInt64) -> UInt64 {
    nanoseconds / scale.factor &+ (nanoseconds % scale.factor == 0 ? 0 : 1)
  }

  /// The span, multiplied by the scale.
  public func span(milliseconds: Int64) -> UInt64 { UInt64(max(0, milliseconds)) &* 1_000_000 &* scale.factor }
}

/// Waits by sleeping, on `CLOCK_BOOTTIME`: time spent suspended counts (P5.1).
public struct SystemScheduler: Scheduler {
  private let scale: TimeScale

  /// Waits, divided by that scale.
  public init(scale: TimeScale = .real) { self.scale = scale }

  /// Sleeps in the kernel until the time is over or the flag is set.
  @discardableResult
  public func wait(nanoseconds: UInt64, unless stop: StopFlag) -> Bool {
    if stop.isSet { return false }
    let timer = marfa_boottime_timer(nanoseconds / scale.factor)
    let event = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    defer {
      if timer >= 0 { close(timer) }
      if event >= 0 { close(event) }
    }
    guard timer >= 0, event >= 0 else {
      // No descriptor is left: sleep in short steps, looking at the flag.
      let end = marfa_boottime() &+ nanoseconds / scale.factor
      while !stop.isSet, marfa_boottime() < end { usleep(10_000) }
      return !stop.isSet
    }
    let waker = EventWaker(event)
    let number = stop.onSet { waker.wake() }
    defer {
      stop.forget(number)
      waker.end()
    }
    while !stop.isSet {
      var waited = [
        pollfd(fd: timer, events: Int16(POLLIN), revents: 0), pollfd(fd: event, events: Int16(POLLIN), revents: 0),
      ]
      let ready = poll(&waited, 2, -1)
      if ready < 0, errno != EINTR { return !stop.isSet }
      if ready > 0, waited[0].revents != 0 { return true }
      if ready > 0, waited[1].revents != 0 { return false }
    }
    return false
  }
}
