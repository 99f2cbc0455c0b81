import MarfaBase
import MarfaCopy

/// What a watch tells, when it happens (C17.6, H15).
package enum WatchEvent: Sendable {
  /// It holds the folder and watches its directory; `storage` is ST1's object or null.
  case watching(directory: String, storage: JSON)
  /// Notifications failed; it goes on by passes (W6).
  case watcherFailed(message: String)
  /// A fill failed and is tried again; once per run.
  case retrying(MarfaError, waitSeconds: Int)
  /// The server can't be reached; once until it can.
  case unreachable(server: String, reason: String)
  /// It answers again.
  case reachable(server: String)
  /// The directory is gone or replaced (F22); once until it is back.
  case waiting(settings: JSON, scan: JSON)
  /// The copy keeps changing under the pull; once per run.
  case copyChanging(reason: String)
  /// A pass with something to report. `standing` names the standing conditions that changed with it.
  case passed(WatchPass, standing: Set<StandingCondition>)
  /// Another command works the folder now.
  case handedOver(to: String?, pid: Int?)
  /// Another process took the folder unasked.
  case heldElsewhere(pid: Int?)
  /// The watch works the folder again.
  case takenBack
  /// The person paused the folder: the watch let go of it until then, or until it is resumed (P5.4).
  case paused(FolderPause)
  /// The pause is over, and the watch works the folder again.
  case resumed
  /// The folder was removed; the last event.
  case removed
  /// The folder left this machine's list; the last event.
  case unlisted

  /// The object of C17.6.
  package var json: JSON {
    switch self {
    case .watching(let directory, let storage):
      ["event": "watching", "dir": .string(directory), "storage": storage]
    case .watcherFailed(let message): ["event": "watcher_failed", "message": .string(message)]
    case .retrying(let error, let seconds):
      [
        "event": "retrying", "error": ["code": .string(error.code.rawValue), "message": .string(error.message)],
        "wait_seconds": .int(seconds),
      ]
    case .unreachable(let server, let reason):
      ["event": "unreachable", "server": .string(server), "reachable": false, "reason": .string(reason)]
    case .reachable(let server):
      ["event": "reachable", "server": .string(server), "reachable": true, "reason": nil]
    case .waiting(let settings, let scan): ["event": "waiting", "settings": settings, "scan": scan]
    case .copyChanging(let reason): ["event": "copy_changing", "reason": .string(reason)]
    case .passed(let pass, _):
      ["event": "passed", "settings": pass.settings, "scan": pass.scan, "drain": pass.drain, "pull": pass.pull]
    case .handedOver(let command, let pid):
      ["event": "handed_over", "to": command.map { .string($0) } ?? nil, "pid": pid.map { .int($0) } ?? nil]
    case .heldElsewhere(let pid): ["event": "held_elsewhere", "pid": pid.map { .int($0) } ?? nil]
    case .takenBack: ["event": "taken_back"]
    case .paused(let pause): ["event": "paused", "until": pause.json["until"] ?? .null]
    case .resumed: ["event": "resumed"]
    case .removed: ["event": "removed"]
    case .unlisted: ["event": "unlisted"]
    }
  }
}

/// The reports of one pass, as their JSON objects (C19).
package struct WatchPass: Sendable {
  /// Whether every file was read (F49).
  package var isReading: Bool
  /// C19.5.
  package var settings: JSON
  /// C19.1.
  package var scan: JSON
  /// C19.6.
  package var drain: JSON
  /// C19.2, or null where none ran.
  package var pull: JSON
  /// Edits of files here that lost, each said once (F71 to F75).
  package var conflicts: [ConflictedEdit] = []
  /// Conflicted copies said earlier to be no file yet, which now are (F74).
  package var filed: [ConflictedEdit] = []

  /// A pass of these reports.
  package init(isReading: Bool, settings: JSON, scan: JSON, drain: JSON, pull: JSON) {
    self.isReading = isReading
    self.settings = settings
    self.scan = scan
    self.drain = drain
    self.pull = pull
  }
}
