/// The wall clock and the clock that timers run on.
public protocol Clock: Sendable {
  /// The wall-clock time.
  var now: Timestamp { get }
  /// Nanoseconds of a clock that never steps back and counts suspend (CLOCK_BOOTTIME).
  var monotonic: UInt64 { get }
  /// A wait measured on the wall clock, in milliseconds, as long as this clock's tests let it be (C27.2).
  func wait(milliseconds: Int64) -> Int64
  /// How long a timer of the system runs for a span of the monotonic clock, in nanoseconds (C27.2).
  func timer(nanoseconds: UInt64) -> UInt64
  /// How far the monotonic clock goes in a span of the wall clock, in nanoseconds (C27.2).
  func span(milliseconds: Int64) -> UInt64
}

extension Clock {
  /// As long as it is.
  public func wait(milliseconds: Int64) -> Int64 { milliseconds }
  /// As long as the span.
  public func timer(nanoseconds: UInt64) -> UInt64 { nanoseconds }
  /// As far as the wall clock goes.
  public func span(milliseconds: Int64) -> UInt64 { UInt64(max(0, milliseconds)) &* 1_000_000 }
}

/// Where new ids come from.
public protocol IdSource: Sendable {
  /// A new UUIDv7; later calls give greater ids within one source.
  func next() -> EntityID
}

/// Waits. The real one sleeps; the simulation's moves its clock on.
public protocol Scheduler: Sendable {
  /// Waits that long, or until `stop` is set. Returns whether the time ran out.
  @discardableResult
  func wait(nanoseconds: UInt64, unless stop: StopFlag) -> Bool
}

/// A service name and what a component writes of itself to the log: never bodies, never keys (P7.4).
public protocol Log: Sendable {
  /// One line, without its newline.
  func write(_ line: String)
}

/// What an engine stands on besides its store: passed in, never global.
public struct Context: Sendable {
  /// The clock.
  public var clock: any Clock
  /// The source of ids.
  public var ids: any IdSource
  /// The disk.
  public var files: any FileSystem
  /// The way to servers.
  public var transport: any Transport
  /// Waiting.
  public var scheduler: any Scheduler
  /// The log.
  public var log: any Log
  /// Where tests step in (C27.1); `.none` outside them.
  public var door: FaultDoor
  /// A guard that is gone, to see whether tests notice; `.none` outside them.
  public var sabotage: Sabotage

  /// A context of these parts.
  public init(
    clock: any Clock, ids: any IdSource, files: any FileSystem, transport: any Transport, scheduler: any Scheduler,
    log: any Log, door: FaultDoor = .none, sabotage: Sabotage = .none
  ) {
    self.clock = clock
    self.ids = ids
    self.files = files
    self.transport = transport
    self.scheduler = scheduler
    self.log = log
    self.door = door
    self.sabotage = sabotage
  }
}
