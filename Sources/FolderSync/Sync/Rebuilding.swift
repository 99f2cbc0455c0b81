import Glibc
import MarfaBase
import MarfaCopy

/// What `rebuild` did (P4.2).
package struct RebuiltFolder: Sendable {
  package var added: AddedFolder
  /// Where the old store lies now, and what was saved of its queue beside it.
  package var aside: PathBytes
  package var rescued: [String]

  package var json: JSON {
    var object = added.json.object ?? JSONObject()
    object["aside"] = .string(aside.text)
    object["rescued"] = .array(rescued.map { .string(Text($0)) })
    return .object(object)
  }
}

extension Folders {
  /// Gives a folder whose store is damaged or refused a new one (P4.2). The old one is moved aside and never deleted, what
  /// its queue still shows is saved as files that can be read, and nothing is written or sent before it is confirmed: the
  /// new store waits as after an `add`. Files are known again by their ids, and by placement and bytes.
  /// - Parameter named: the folder it follows, where neither the old store nor the list says so.
  package func rebuild(_ dir: PathBytes, following named: EntityID? = nil) throws -> RebuiltFolder {
    guard endpoint != nil else { throw MarfaError(.noServer, "no server is named; give --url, or `login` to one") }
    let root = try rootToRebuild(dir, named)
    let hold: FolderHold
    switch try ask(root, "rebuild") {
    case .held(let held): hold = held
    case .noFolder: throw MarfaError(.invalid, "\(dir) holds no folder any more")
    }
    let aside: PathBytes
    let rescued: [String]
    let moved: [PathBytes]
    let folder: EntityID
    do {
      guard let followed = named ?? followed(root) else {
        throw MarfaError(
          .invalid, "which folder \(dir) follows cannot be read any more; name it with --folder ID")
      }
      folder = followed
      let stamp = context.clock.now.description.prefix(19).replacing(":", with: "")
      aside = root.appending(stateDirectoryName).appending("rescued").appending(PathBytes(String(stamp)))
      let saved = queued(root)
      let parents = try context.files.makeDirectories(aside.parent, mode: 0o700)
      let made = try context.files.makeDirectories(aside, mode: 0o700)
      // What is rescued may be the only copy of unsent words.
      try context.files.syncNames(of: parents + made)
      if made.isEmpty { throw MarfaError(.invalid, "\(aside) is there already; nothing was moved") }
      try write(saved, in: aside)
      rescued = saved.map(\.name)
      moved = try moveAside(root, aside)
    } catch {
      hold.release()
      throw MarfaError(any: error)
    }
    hold.release()
    do {
      let added = try add(root, following: folder)
      return RebuiltFolder(added: added, aside: aside, rescued: rescued)
    } catch {
      // Nothing took its place: the old store goes back, so that the folder stays one.
      putBack(moved, aside, root)
      throw MarfaError(any: error)
    }
  }

  /// A folder's root; one whose rebuild was cut off after its store went is still one, where it can be told which.
  private func rootToRebuild(_ dir: PathBytes, _ named: EntityID?) throws -> PathBytes {
    let look = DirectoryLook.at(dir, context.files)
    guard look.state == .noFolder, let directory = try? context.files.openDirectory(look.resolved),
      ((try? directory.status(of: stateDirectoryName)) ?? nil)?.kind == .directory,
      named != nil || followed(look.resolved) != nil
    else { return try root(of: dir) }
    return look.resolved
  }

  /// The folder a store is bound to, as its tables or the machine's list still say.
  private func followed(_ root: PathBytes) -> EntityID? {
    if let database = try? door.database(root, .readOnly),
      let id = try? database.one("SELECT value FROM folder_fact WHERE name = 'folder'", read: { $0.id(0) })
    {
      return id
    }
    guard let registry, let entries = try? registry.entries() else { return nil }
    return entries.first { $0.dir == root }.flatMap { EntityID($0.folder) }
  }

  /// A write that was not answered, as a file a person can read.
  private struct Saved {
    var name: String
    var bytes: [UInt8]
  }

  /// What the queue still shows. A torn page ends one reading; the other goes from the other end.
  private func queued(_ root: PathBytes) -> [Saved] {
    var found: [Int: Saved] = [:]
    for order in ["ASC", "DESC"] {
      guard let database = try? door.database(root, .readOnly) else { return [] }
      try? database.execute("PRAGMA busy_timeout = 1000")
      let sql = """
        SELECT seq, kind, item, body, queued_at, tag FROM queue
        WHERE verdict IS NULL OR verdict IN ('blocked', 'dead', 'refused') ORDER BY seq \(order)
        """
      try? database.rows(sql) { (row: Row) throws(SQLiteError) in
        let place = row.int(0)
        guard found[place] == nil else { return }
        found[place] = Saved(
          name: "\(String(repeating: "0", count: max(0, 6 - String(place).count)))\(place)-\(row.string(1)).md",
          bytes: Self.readable(row))
      }
    }
    return found.sorted { $0.key < $1.key }.map(\.value)
  }

  private static func readable(_ row: Row) -> [UInt8] {
    var head = "\(row.string(1))"
    if let item = row.optionalString(2) { head += " of the item \(item)" }
    if let time = row.time(4) { head += ", queued \(time)" }
    if let tag = row.optionalString(5) { head += ", tag \(tag)" }
    var out = Array((head + "\n\n").utf8)
    guard !row.isNull(3) else { return out }
    let bytes = row.bytes(3)
    guard var body = (try? JSON(parsing: bytes))?.object else { return out + bytes + [0x0A] }
    var properties = body["properties"]?.object ?? JSONObject()
    let text = properties["body"]?.text
    properties["body"] = nil
    body["properties"] = properties.isEmpty ? nil : .object(properties)
    if !body.isEmpty { out += JSON.object(body).writePretty() + [0x0A] }
    if let text { out += [0x0A] + text.bytes + [0x0A] }
    return out
  }

  private func write(_ saved: [Saved], in aside: PathBytes) throws(FileError) {
    let directory = try context.files.openDirectory(aside)
    for each in saved {
      let file = try directory.create(PathBytes(each.name), mode: 0o600, exactMode: true)
      try file.write(each.bytes)
      try file.sync()
      try file.close()
    }
  }

  /// Moves the store and all beside it that is its own; the claim's lock file stays. `folder.yaml` is kept as a copy, since
  /// an edit of it may be unsent.
  ///
  /// The store itself goes first: cut short at any moment, there is either the whole folder, or none that opens, and the
  /// list still says which it follows. A store left without its log would open as an older one. What is moved has its
  /// second name in place before the first goes, where the file system can, so that it lies together whatever happens.
  private func moveAside(_ root: PathBytes, _ aside: PathBytes) throws(FileError) -> [PathBytes] {
    let state = try context.files.openDirectory(root.appending(stateDirectoryName))
    let target = try context.files.openDirectory(aside)
    if let yaml = try? state.open(SettingsFile.name).read(limit: 1 << 20) {
      let file = try target.create(SettingsFile.name, mode: 0o600, exactMode: true)
      try file.write(yaml)
      try file.sync()
      try file.close()
    }
    let lock = PathBytes(bytes: storeName.bytes + Array(".lock".utf8))
    let names = try state.list().map(\.name).filter { $0.bytes.starts(with: storeName.bytes) && $0 != lock }.sorted()
    var linked: Set<PathBytes> = []
    for name in names {
      // A directory has no second name, and some file systems give none.
      if (try? state.link(name, to: target, as: name)) != nil { linked.insert(name) }
    }
    try target.sync()
    var moved: [PathBytes] = []
    for name in names {
      do throws(FileError) {
        if linked.contains(name) {
          try state.unlink(name)
        } else {
          try state.rename(name, to: target, as: name, .noReplace)
        }
        // Gone for good before its log goes.
        if name == storeName { try state.sync() }
      } catch {
        // What went comes back, the store last.
        for name in moved.reversed() { try? target.rename(name, to: state, as: name, .noReplace) }
        for name in linked where !moved.contains(name) { try? target.unlink(name) }
        throw error
      }
      moved.append(name)
    }
    try target.sync()
    try state.sync()
    return moved
  }

  private func putBack(_ names: [PathBytes], _ aside: PathBytes, _ root: PathBytes) {
    guard let state = try? context.files.openDirectory(root.appending(stateDirectoryName)),
      ((try? state.status(of: storeName)) ?? nil) == nil, let kept = try? context.files.openDirectory(aside)
    else { return }
    for name in names.reversed() { try? kept.rename(name, to: state, as: name, .noReplace) }
  }
}
