import Glibc
import MarfaBase
import MarfaCopy

/// The list of folders this machine has: `folders.json` (X1 to X5, F41).
///
///     let registry = Registry(path: path, files: context.files)
///     for entry in try registry.entries() { ... }
///
/// Every call locks, reads, tidies and, where something changed, replaces the file. Two registry files stand for two
/// machines (X1.5).
package struct Registry: Sendable {
  /// The file.
  package let path: PathBytes
  private let files: any FileSystem
  /// How an entry's directory is looked at.
  let look: @Sendable (PathBytes) -> DirectoryLook
  private let isForeign: @Sendable (PathBytes) -> Bool

  /// A registry.
  /// - Parameters:
  ///   - look: how an entry's directory is looked at; the default waits as long as the disk does, `BoundedLook` does not
  ///     (P2.4).
  ///   - isForeign: whether the store below a directory is another program's or build's (X5.8). Asked only of entries
  ///     that hold members we don't know.
  package init(
    path: PathBytes, files: any FileSystem, look: (@Sendable (PathBytes) -> DirectoryLook)? = nil,
    isForeign: @escaping @Sendable (PathBytes) -> Bool = { _ in false }
  ) {
    self.path = path
    self.files = files
    self.look = look ?? { DirectoryLook.at($0, files) }
    self.isForeign = isForeign
  }

  /// Where the registry is (X1), or nil where there is none. A relative `MARFA_FOLDER_REGISTRY` is taken from `here`.
  package static func location(_ variable: (String) -> PathBytes?, from here: PathBytes) -> PathBytes? {
    func set(_ name: String) -> PathBytes? { variable(name).flatMap { $0.isEmpty ? nil : $0 } }
    if let own = set("MARFA_FOLDER_REGISTRY") { return own.isAbsolute ? own : here.appending(own) }
    if let data = set("XDG_DATA_HOME"), data.isAbsolute { return data.appending("marfa/folders.json") }
    if let home = set("HOME") { return home.appending(".local/share/marfa/folders.json") }
    return nil
  }

  /// The folders, tidied (X3.3). A missing file has none.
  package func entries() throws(RegistryFailure) -> [RegistryEntry] {
    guard fileIsThere else { return [] }
    return try change(whereUnparsable: nil) { $0 }
  }

  /// Whether the file is there: a pass of a folder that was listed tells a lost one by it (X5.3).
  package var fileIsThere: Bool { ((try? files.status(path)) ?? nil) != nil }

  /// Lists a folder, as every pass does (X5.1), and answers the list. Nothing is written over a file that does not parse.
  @discardableResult
  package func list(_ entry: RegistryEntry) throws(RegistryFailure) -> [RegistryEntry] {
    try change(whereUnparsable: nil) { Registry.listing(entry, in: $0) }
  }

  /// Lists a folder for `add`: a file that does not parse is written afresh with this entry alone (X3.5).
  package func add(_ entry: RegistryEntry) throws(RegistryFailure) {
    _ = try change(whereUnparsable: []) { Registry.listing(entry, in: $0) }
  }

  /// Takes a directory off the list (X4.4). True where it was there.
  package func remove(_ dir: PathBytes) throws(RegistryFailure) -> Bool {
    guard fileIsThere else { return false }
    let resolved = look(dir).resolved
    var found = false
    _ = try change(whereUnparsable: nil) { entries in
      found = entries.contains { $0.dir == resolved }
      return entries.filter { $0.dir != resolved }
    }
    return found
  }

  /// X4.2: the entry, in place of every one of its directory or its store.
  private static func listing(_ entry: RegistryEntry, in entries: [RegistryEntry]) -> [RegistryEntry] {
    if entries.contains(where: { $0.isSame(entry) }) { return entries }
    return entries.filter { !entry.replaces($0) } + [entry]
  }

  /// The listed folder a resolved directory lies in or around (X4.3); nil where it is free. It is not nested in itself.
  package static func nesting(of dir: PathBytes, in entries: [RegistryEntry]) -> RegistryEntry? {
    entries.first { $0.dir != dir && ($0.dir.contains(dir) || dir.contains($0.dir)) }
  }

  // MARK: The file

  private func change(
    whereUnparsable fresh: [RegistryEntry]?, _ body: ([RegistryEntry]) -> [RegistryEntry]
  ) throws(RegistryFailure) -> [RegistryEntry] {
    do throws(FileError) {
      try files.syncNames(of: try files.makeDirectories(path.parent, mode: 0o700))
    } catch { throw .unreadable(path, error) }
    // Directories are looked at outside the lock (P2.4): one that hangs must not hold up every other folder.
    var looks: [PathBytes: DirectoryLook] = [:]
    while true {
      let result: [RegistryEntry]?
      do throws(FileError) {
        result = try locked(looks, fresh, body)
      } catch {
        if error == Registry.unparsable { throw .unparsable(path) }
        throw .unreadable(path, error)
      }
      if let result { return result }
      let missing: [RegistryEntry]
      do throws(FileError) { missing = try read() ?? [] } catch {
        if error == Registry.unparsable { throw .unparsable(path) }
        throw .unreadable(path, error)
      }
      for entry in missing where looks[entry.dir] == nil { looks[entry.dir] = look(entry.dir) }
    }
  }

  private static let unparsable = FileError(code: EBADMSG, operation: "parse", path: .empty)

  /// One read, change and write under the lock; nil where an entry's directory was not looked at yet.
  private func locked(
    _ looks: [PathBytes: DirectoryLook], _ fresh: [RegistryEntry]?, _ body: ([RegistryEntry]) -> [RegistryEntry]
  ) throws(FileError) -> [RegistryEntry]? {
    let directory = try files.openDirectory(path.parent)
    let lock = try files.lock(lockName, in: directory, wait: true)
    defer { lock?.release() }
    var held: [RegistryEntry]?
    do throws(FileError) { held = try read() } catch {
      guard error == Registry.unparsable, let fresh else { throw error }
      try write(body(fresh), in: directory)
      return body(fresh)
    }
    let before = held ?? []
    guard before.allSatisfy({ looks[$0.dir] != nil }) else { return nil }
    let after = body(tidied(before, looks))
    let isUnchanged =
      before.count == after.count && zip(before, after).allSatisfy { $0.isSame($1) && $0.isMount == $1.isMount }
    if !isUnchanged { try write(after, in: directory) }
    return after
  }

  /// X3.3: resolved, without those whose directory holds no folder, each directory and store once. The directory of an
  /// unplugged volume is not mounted, whatever lies beneath it (X3.4).
  private func tidied(_ entries: [RegistryEntry], _ looks: [PathBytes: DirectoryLook]) -> [RegistryEntry] {
    var kept: [RegistryEntry] = []
    for var entry in entries {
      guard let look = looks[entry.dir], look.state != .noFolder || entry.awaitsVolume(look) else { continue }
      if look.state == .folder { entry.isMount = look.isMount }
      // Where it can't be told whose it is, nothing of it is dropped (X5.8).
      if entry.members != nil, look.state == .folder, !isForeign(look.resolved) { entry.members = nil }
      entry.dir = look.resolved
      kept.removeAll { entry.replaces($0) }
      kept.append(entry)
    }
    return kept
  }

  private var lockName: PathBytes {
    let name = path.name.bytes
    guard let dot = name.lastIndex(of: 0x2E), dot > 0 else { return PathBytes(bytes: name + Array(".lock".utf8)) }
    return PathBytes(bytes: name[..<dot] + Array(".lock".utf8))
  }

  /// The entries as the file holds them; nil where there is no file.
  private func read() throws(FileError) -> [RegistryEntry]? {
    var bytes: [UInt8] = []
    do throws(FileError) {
      let file = try files.openDirectory(path.parent).open(path.name)
      while true {
        let more = try file.read(limit: 1 << 16)
        if more.isEmpty { break }
        bytes += more
      }
    } catch {
      if error.code == ENOENT { return nil }
      throw error
    }
    guard let json = try? JSON(parsing: bytes), let list = json["folders"]?.array else { throw Registry.unparsable }
    var entries: [RegistryEntry] = []
    for member in list {
      guard let entry = RegistryEntry(member) else { throw Registry.unparsable }
      entries.append(entry)
    }
    return entries
  }

  /// X3.2: beside itself, synced, renamed over, the directory synced.
  private func write(_ entries: [RegistryEntry], in directory: any Directory) throws(FileError) {
    let writing = PathBytes(bytes: path.name.bytes + Array(".writing".utf8))
    do throws(FileError) { try directory.unlink(writing) } catch { if error.code != ENOENT { throw error } }
    let file = try directory.create(writing, mode: 0o600, exactMode: true)
    do throws(FileError) {
      let json: JSON = ["folders": .array(entries.map(\.json))]
      try file.write(json.writePretty() + [0x0A])
      try file.sync()
      try file.close()
      try directory.rename(writing, to: directory, as: path.name, .replace)
    } catch {
      try? directory.unlink(writing)
      throw error
    }
    try directory.sync()
  }
}
