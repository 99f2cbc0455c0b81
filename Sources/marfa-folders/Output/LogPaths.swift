import FolderSync
import MarfaBase
import MarfaCopy

/// Hides paths from what a watch writes to its journal, with `MARFA_LOG_PATHS=off` (P7.4): each path is a short hash, the
/// same for the same path, so that a journal can still be followed; words that may name another path are left out.
struct LogPaths: Sendable {
  /// What stands in place of words that may name a path.
  private static let hidden: Text = "not told (MARFA_LOG_PATHS)"

  /// Nil where paths are shown.
  init?(_ program: Program) {
    guard program.variable("MARFA_LOG_PATHS") == "off" else { return nil }
  }

  /// What is written for a path.
  func hash(_ path: Text) -> Text {
    path.isEmpty ? path : Text("path-\(ContentHash(of: path.bytes).hex.prefix(12))")
  }

  private func hash(_ path: PathBytes) -> PathBytes { PathBytes(hash(path.text)) }

  /// Words with a directory's path hidden where it stands in them.
  func words(_ words: String, of dir: PathBytes) -> String {
    words.replacing(dir.description, with: hash(dir.text).string)
  }

  /// An error of a folder.
  func error(_ error: MarfaError, of dir: PathBytes) -> MarfaError {
    var error = error
    error.message = words(error.message, of: dir)
    return error
  }

  /// An event of a folder.
  func event(_ event: WatchEvent, of dir: PathBytes) -> WatchEvent {
    switch event {
    case .watching(_, let storage): .watching(directory: hash(dir.text).string, storage: value(storage, of: dir))
    case .watcherFailed(let message): .watcherFailed(message: words(message, of: dir))
    case .retrying(let refusal, let wait): .retrying(error(refusal, of: dir), waitSeconds: wait)
    case .unreachable(let server, let reason): .unreachable(server: server, reason: words(reason, of: dir))
    case .waiting(let settings, let scan): .waiting(settings: value(settings, of: dir), scan: value(scan, of: dir))
    case .copyChanging: .copyChanging(reason: LogPaths.hidden.string)
    case .passed(let pass, let standing): .passed(self.pass(pass, of: dir), standing: standing)
    case .reachable, .handedOver, .heldElsewhere, .takenBack, .paused, .resumed, .removed, .unlisted: event
    }
  }

  /// An event of a watch over all folders.
  func event(_ event: MachineWatchEvent, of dir: PathBytes) -> MachineWatchEvent {
    switch event {
    case .folder(let own): .folder(self.event(own, of: dir))
    case .failed(let refusal, let wait): .failed(error(refusal, of: dir), waitSeconds: wait)
    }
  }

  private func pass(_ pass: WatchPass, of dir: PathBytes) -> WatchPass {
    var hidden = WatchPass(
      isReading: pass.isReading, settings: value(pass.settings, of: dir), scan: value(pass.scan, of: dir),
      drain: value(pass.drain, of: dir), pull: value(pass.pull, of: dir))
    func conflict(_ edit: ConflictedEdit) -> ConflictedEdit {
      var edit = edit
      edit.path = hash(edit.path)
      edit.copyPath = edit.copyPath.map(hash)
      return edit
    }
    hidden.conflicts = pass.conflicts.map(conflict)
    hidden.filed = pass.filed.map(conflict)
    return hidden
  }

  /// A report: members that are paths hashed, reasons beside a path left out, the directory hidden everywhere.
  func value(_ value: JSON, of dir: PathBytes) -> JSON {
    switch value {
    case .object(let object):
      var out = JSONObject()
      let isOfFile = object["path"] != nil
      for (key, member) in object.members {
        switch member {
        case .string(let text) where key == "path" || key == "dir" || key == "copy_path": out[key] = .string(hash(text))
        case .string where isOfFile && key == "reason": out[key] = .string(LogPaths.hidden)
        case .string where ["root_gone", "registry", "warning", "flagged", "unwritten"].contains(key):
          out[key] = .string(LogPaths.hidden)
        case .array(let list) where ["trashed", "settling", "secrets"].contains(key):
          out[key] = .array(list.map { entry in entry.text.map { .string(hash($0)) } ?? entry })
        default: out[key] = self.value(member, of: dir)
        }
      }
      return .object(out)
    case .array(let list): return .array(list.map { self.value($0, of: dir) })
    case .string(let text): return .string(Text(words(text.string, of: dir)))
    case .null, .bool, .number: return value
    }
  }
}
