/// When the next pass of a watch is due, and whether it reads every file: times in, a time out, no clock of its own.
///
/// Times are nanoseconds of the context's monotonic clock. The rules are C17.3, F49.1, F51.1 and W7:
/// - after a change the folder must be quiet for 250 ms; from 5 s after the last pass's end on, a change runs a pass at once;
/// - a change on the server runs one at once;
/// - the first pass reads every file, and one a minute (or a hundred times the last reading pass's length) does again;
/// - where notifications can't be trusted a walk runs at an interval of ten times its own length, within 1 to 60 s.
package struct PassSchedule: Sendable {
  /// The quiet a change must be followed by.
  package static let settleWindow: UInt64 = 250_000_000
  /// How long changes can hold a pass off, from the last pass's end.
  package static let longestHold: UInt64 = 5_000_000_000
  /// The age both the last pass and the last change need before dot-led names alone start a pass (C17.4).
  package static let idleAge: UInt64 = 1_000_000_000
  static let minute: UInt64 = 60_000_000_000

  /// What the next pass must do.
  package enum Pass: Sendable, Equatable {
    /// Reads only what changed (F49.2).
    case quick
    /// Reads every file.
    case reading
  }

  private var firstChange: UInt64?
  private var lastChange: UInt64?
  private var lastHiddenChange: UInt64?
  private var serverChanged = false
  private var mustRead = true
  private var lastPassEnded: UInt64?
  private var nextReading: UInt64 = 0
  private var walkInterval: UInt64?
  private var alarms: [UInt64] = []

  /// A schedule whose first pass is due at once.
  package init() {}

  /// A change of a file at that time.
  package mutating func changed(at time: UInt64) {
    if firstChange == nil { firstChange = time }
    lastChange = max(lastChange ?? 0, time)
  }

  /// A change of dot-led names alone.
  package mutating func hiddenChanged(at time: UInt64) { lastHiddenChange = max(lastHiddenChange ?? 0, time) }

  /// The server's stream brought something, or came back.
  package mutating func serverMoved() { serverChanged = true }

  /// Anything a watch could have missed: an overflow, a resume, the folder taken back. The next pass is at once and
  /// reads every file.
  package mutating func missedSomething() {
    mustRead = true
    nextReading = 0
  }

  /// What waits on time: a grace, a settling file, a retry. A pass is due then.
  package mutating func remind(at time: UInt64) { alarms.append(time) }

  /// When the next pass is due; a time not after `now` means at once, nil means nothing waits.
  package func due(now: UInt64) -> UInt64? {
    guard let lastPassEnded else { return now }
    if serverChanged { return now }
    var times = alarms
    times.append(nextReading)
    if let walkInterval { times.append(lastPassEnded + walkInterval) }
    if let lastChange, let firstChange {
      let settled = lastChange + Self.settleWindow
      times.append(min(settled, max(firstChange, lastPassEnded + Self.longestHold)))
    }
    if let lastHiddenChange {
      times.append(max(lastHiddenChange, lastPassEnded) + Self.idleAge)
    }
    return times.min()
  }

  /// Takes the pass that is due: what it must do. Changes noted from here on belong to the next one.
  package mutating func begin(now: UInt64) -> Pass {
    let pass: Pass = mustRead || now >= nextReading ? .reading : .quick
    firstChange = nil
    lastChange = nil
    lastHiddenChange = nil
    serverChanged = false
    mustRead = false
    alarms.removeAll { $0 <= now }
    return pass
  }

  /// The pass ended.
  /// - Parameters:
  ///   - completed: false where it was cut short; the next one then reads every file (H12).
  ///   - trusted: whether notifications tell every change (W7).
  package mutating func ended(_ pass: Pass, began: UInt64, now: UInt64, completed: Bool, trusted: Bool) {
    lastPassEnded = now
    let length = now - began
    if pass == .reading, completed { nextReading = now + max(Self.minute, 100 * length) }
    if !completed { mustRead = true }
    walkInterval = trusted ? nil : min(Self.minute, max(Self.idleAge, 10 * length))
  }
}
