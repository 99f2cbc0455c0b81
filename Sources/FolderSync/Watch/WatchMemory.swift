import MarfaBase
import MarfaCopy

/// What a watch remembers from pass to pass and nothing else keeps: when files last changed, when the key was last read,
/// which conflicted copies are no file yet. It belongs to the watch's thread.
package final class WatchMemory {
  /// How often a running watch reads the key while a refused placement stands (F19.24).
  static let keyRest: UInt64 = 60_000_000_000

  /// What tells that a file changed.
  private struct Look: Equatable {
    var size: UInt64
    var modified: Int64
    var changed: Int64
    var inode: UInt64
  }

  private let clock: any Clock
  private var changes: [PathBytes: UInt64] = [:]
  private var looks: [PathBytes: Look] = [:]
  private var keyRead: (at: UInt64, key: CallingKey?)?
  private var isTrusted = true
  private var passes = 0
  /// Whether a pass was made already.
  var hasWorked: Bool { passes > 0 }
  private var reminders: [UInt64] = []

  /// Graces that began before are begun again: the machine slept, or its clock was set (P5.1).
  private(set) var gracesFrom: Timestamp?
  /// The search the slice at hand was filled for (F40.7).
  var search: FolderSearch?
  /// Whether a catch-up or a fill ended in a way no retry helps (F40.6).
  var failedToFollow = false
  /// Conflicted copies said to be no file here yet (F73).
  private var unfiled: [ConflictedEdit] = []

  /// Nothing is remembered yet.
  package init(clock: any Clock) {
    self.clock = clock
  }

  /// A pass begins, with what notifications told since the last one.
  package func beginPass(_ noted: NotedChanges, trusted: Bool) {
    isTrusted = trusted
    passes += 1
    let now = clock.monotonic
    // What is older than the settle window says nothing any more.
    changes = changes.filter { now &- $0.value < PassSchedule.settleWindow }
    changes.merge(noted.paths) { max($0, $1) }
  }

  /// Begins every grace anew (P5.1).
  package func restartGraces(_ now: Timestamp) { gracesFrom = now }

  /// Times at which something this pass left waiting is due.
  package func takeReminders() -> [UInt64] {
    defer { reminders = [] }
    return reminders
  }

  private func remind(at time: UInt64) { reminders.append(time) }

  /// Takes a pass's conflicts, and answers those of earlier passes whose copy is a file now (F74).
  func filed(_ new: [ConflictedEdit], _ path: (EntityID) throws -> PathBytes?) rethrows -> [ConflictedEdit] {
    var found: [ConflictedEdit] = []
    unfiled = try unfiled.filter { edit in
      guard let copy = edit.copy, let there = try path(copy) else { return true }
      var edit = edit
      edit.copyPath = there
      found.append(edit)
      return false
    }
    unfiled += new.filter { $0.copy != nil && $0.copyPath == nil }
    return found
  }

  // MARK: Files

  /// Whether the bytes and details of a file that is no document were still for the settle window (F51.3).
  func isStill(_ path: PathBytes, _ status: FileStatus) -> Bool {
    let now = clock.monotonic
    let look = Look(
      size: status.size, modified: status.modified, changed: status.changed, inode: status.inode)
    let before = looks.updateValue(look, forKey: path)
    // Where notifications tell every change, they are the measure; else two looks must agree.
    if !isTrusted, passes > 1, before != look { changes[path] = now }
    guard let time = changes[path], now &- time < PassSchedule.settleWindow else { return true }
    remind(at: time &+ PassSchedule.settleWindow)
    return false
  }

  // MARK: The key

  /// The key a refused placement is judged by, read at most once a minute, failed reads included (F19.24).
  func key(_ read: () -> CallingKey?) -> CallingKey? {
    let now = clock.monotonic
    if let keyRead, now &- keyRead.at < Self.keyRest {
      remind(at: keyRead.at &+ Self.keyRest)
      return keyRead.key
    }
    let key = read()
    keyRead = (now, key)
    remind(at: now &+ Self.keyRest)
    return key
  }
}
