import Synchronization

/// A clock that stands until it is moved, for tests and the simulation.
public final class ManualClock: Clock {
  private struct State {
    var wall: Int64
    var monotonic: UInt64
  }
  private let state: Mutex<State>

  /// A clock at that time. Its monotonic part begins at one second.
  public init(at start: Timestamp = Timestamp(milliseconds: 1_927_000_000_000)) {
    state = Mutex(State(wall: start.milliseconds &* 1_000_000, monotonic: 1_000_000_000))
  }

  /// The wall clock.
  public var now: Timestamp { Timestamp(milliseconds: state.withLock { $0.wall } / 1_000_000) }

  /// The clock of timers.
  public var monotonic: UInt64 { state.withLock { $0.monotonic } }

  /// Moves both on.
  public func advance(nanoseconds: UInt64) {
    state.withLock { state in
      state.wall &+= Int64(clamping: nanoseconds)
      state.monotonic &+= nanoseconds
    }
  }

  /// Moves both on by seconds.
  public func advance(seconds: UInt64) { advance(nanoseconds: seconds &* 1_000_000_000) }

  /// Sets the wall clock alone, as a person or a time server does.
  public func setWall(_ time: Timestamp) { state.withLock { $0.wall = time.milliseconds &* 1_000_000 } }
}

/// Waits that move a manual clock on instead of sleeping. What other parties do meanwhile is called between.
public final class ManualScheduler: Scheduler {
  private let clock: ManualClock
  private let whileWaiting: Mutex<(@Sendable () -> Void)?>

  /// Waits on that clock.
  public init(clock: ManualClock) {
    self.clock = clock
    whileWaiting = Mutex(nil)
  }

  /// Calls `act` in every wait, once the clock has moved: the simulation lets another machine or person act there.
  public func onWait(_ act: (@Sendable () -> Void)?) { whileWaiting.withLock { $0 = act } }

  /// Moves the clock on by the whole time.
  @discardableResult
  public func wait(nanoseconds: UInt64, unless stop: StopFlag) -> Bool {
    if stop.isSet { return false }
    clock.advance(nanoseconds: nanoseconds)
    whileWaiting.withLock({ $0 })?()
    return !stop.isSet
  }
}

/// A log nobody reads.
public struct SilentLog: Log {
  /// The log.
  public init() {}
  /// Drops the line.
  public func write(_ line: String) {}
}
