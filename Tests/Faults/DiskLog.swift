import Glibc
import MarfaBase
import TestSupport

/// What one process did to the disk, in order: a file that `Tests/DiskLog` wrote.
struct DiskLog {
  /// The program's arguments.
  var words: [String]
  private var calls: [Call]

  /// One call.
  private enum Call {
    case write(file: String, path: String)
    case sync(file: String, path: String, site: String, isProgram: Bool)
    case enter(directory: String, name: String, file: String, path: String, how: String)
    case leave(directory: String, name: String, path: String, isProgram: Bool)
    case swap(directories: [String], names: [String], path: String)
  }

  /// The logs of every process that wrote one, in order of their starts.
  static func all(in directory: String) -> [DiskLog] {
    let started = names(of: directory).sorted { left, right in
      left.split(separator: ".").last! < right.split(separator: ".").last!
    }
    return started.compactMap { DiskLog(text: String(decoding: fileBytes("\(directory)/\($0)") ?? [], as: UTF8.self)) }
  }

  private init?(text: String) {
    words = []
    calls = []
    for line in text.split(separator: "\n") {
      let fields = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
      let isProgram = fields.contains("marfa-folders")
      switch (fields[0], fields.count) {
      case ("start", 2...): words = Array(fields.dropFirst(2))
      case ("write", 3): calls.append(.write(file: fields[1], path: fields[2]))
      case ("sync", 5): calls.append(.sync(file: fields[1], path: fields[2], site: fields[4], isProgram: isProgram))
      case ("enter", 6):
        calls.append(.enter(directory: fields[1], name: fields[2], file: fields[3], path: fields[4], how: fields[5]))
      case ("leave", 5):
        calls.append(.leave(directory: fields[1], name: fields[2], path: fields[3], isProgram: isProgram))
      case ("swap", 6):
        calls.append(.swap(directories: [fields[1], fields[3]], names: [fields[2], fields[4]], path: fields[5]))
      default: return nil
      }
    }
  }

  /// The places of the program that synced something: each a chain of returns, with what it synced.
  var sites: [String: Set<String>] {
    var found: [String: Set<String>] = [:]
    for case .sync(_, let path, let site, true) in calls { found[site, default: []].insert(path) }
    return found
  }

  /// What a power cut could have taken, though the program counted on it: a line each.
  /// - Parameter site: the syncs of that place count as not made, to see whether anything would tell.
  func breaches(without site: String? = nil) -> [String] {
    var found: [String] = []
    /// Files that hold what is not on the disk.
    var unsynced: [String: String] = [:]
    /// Names that are not on the disk as they are: by directory and name.
    var changed: [String: [String: (path: String, isNew: Bool)]] = [:]
    /// Names this process made.
    var made: Set<String> = []

    func pending() -> [String] {
      unsynced.values.filter { DiskLog.lasts($0) }
        + changed.values.flatMap { $0.values.map(\.path) }.filter(DiskLog.lasts)
    }

    func newNames(in isOne: (String) -> Bool) -> [String] {
      changed.filter { isOne($0.key) }.flatMap { $0.value.values }.filter { $0.isNew && DiskLog.lasts($0.path) }.map(
        \.path)
    }

    for call in calls {
      switch call {
      case .write(let file, let path): unsynced[file] = path
      case .sync(_, _, site, _): break
      case .sync(let file, _, _, _):
        unsynced[file] = nil
        changed[file] = nil
      case .enter(let directory, let name, let file, let path, let how):
        if how == "rename" || how == "link", unsynced[file] != nil, DiskLog.lasts(path) {
          found.append("\(path) has its name before its bytes are on the disk")
        }
        if how == "create", name == "core.sqlite" {
          let old = changed[directory, default: [:]].values.filter { !$0.isNew && DiskLog.lasts($0.path) }
          found += old.map { "\(path) is made anew before \($0.path) is gone for good" }
        }
        if how == "create" || how == "mkdir" {
          unsynced[file] = nil
          changed[file] = nil
        }
        // A file that is renamed keeps what it holds, and is known by its new name.
        if unsynced[file] != nil { unsynced[file] = path }
        changed[directory, default: [:]][name] = (path, true)
        made.insert("\(directory)/\(name)")
      case .leave(let directory, let name, let path, let isProgram):
        if isProgram, !made.contains("\(directory)/\(name)") {
          // A store's parts go after what was saved of them; any file after its copy on another disk.
          let before =
            DiskLog.isStore(name) ? pending() : newNames { $0.prefix { $0 != ":" } != directory.prefix { $0 != ":" } }
          found += before.map { "\(path) goes before \($0) is on the disk" }
        }
        if changed[directory]?[name]?.isNew == true, made.contains("\(directory)/\(name)") {
          changed[directory]?[name] = nil
        } else if !path.contains(".sqlite.blobs/") {
          // Bytes that were sent, or landed, and stay are only found again.
          changed[directory, default: [:]][name] = (path, false)
        }
      case .swap(let directories, let names, let path):
        for (directory, name) in zip(directories, names) { changed[directory, default: [:]][name] = (path, true) }
      }
    }
    found += changed.values.flatMap { $0.values.map(\.path) }.filter(DiskLog.lasts).map {
      "the name of \($0) is not on the disk"
    }
    var status = stat()
    found += unsynced.values.filter { DiskLog.lasts($0) && stat($0, &status) == 0 }.map {
      "the bytes of \($0) are not on the disk"
    }
    return found.sorted()
  }

  /// Whether a name is a folder's store or lies beside it.
  private static func isStore(_ name: String) -> Bool { name.hasPrefix("core.sqlite") && !name.hasSuffix(".lock") }

  /// Whether a power cut may not take what lies there. What may go, and why nobody misses it:
  private static func lasts(_ path: String) -> Bool {
    let name = path.split(separator: "/").last.map(String.init) ?? path
    let mayGo =
      // Locks hold nothing.
      name.hasSuffix(".lock") || name == "core.handover"
      // A log, and where a running instance listens.
      || ["instance.log", "instance.sock", "instance.json"].contains(name)
      // SQLite makes both anew, and syncs the log by itself where a commit must last; what was checkpointed lies in the store.
      || name.hasSuffix("-shm") || name.hasSuffix("-wal")
      // What an exchange displaced is looked for by name at the next start, as is what was being written.
      || (name.hasPrefix(".marfa-") && name.hasSuffix(".tmp")) || name.hasSuffix(".writing")
      // A count behind the store's own says nothing.
      || name.hasSuffix(".count") || path.contains("/state/")
    return !mayGo
  }
}
