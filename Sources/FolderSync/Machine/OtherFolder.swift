import MarfaBase
import MarfaCopy

/// Another folder of this machine as it stands: its directory and its store are read, never worked and never waited on
/// (F41.12, X5.7).
///
/// What it looked at is kept for one pass. A part of the directory that could not be read is told by `unread`: what was
/// looked for may lie there.
final class OtherFolder {
  /// Its directory, resolved.
  let dir: PathBytes
  let root: any Directory
  /// Its store, opened to read; nil where this build cannot read it (F41.4).
  let engine: FolderEngine?
  /// Its settings in force; nil where they cannot be read, so that nothing can be said of its search.
  let facts: PassFacts?
  let bindings: [EntityID: Binding]
  /// Why part of it was not looked at.
  private(set) var unread: String?
  private let device: UInt64
  private let context: Context
  private var walk: WalkResult?
  private var byID: [EntityID: [PathBytes]]?
  private var carried: [PathBytes: EntityID?] = [:]
  private var unbound: [WalkedFile]?
  private var hashes: [PathBytes: ContentHash] = [:]
  /// Files that could not be read, with the reason.
  private var unreadFiles: [PathBytes: String] = [:]

  /// - Throws: where its directory cannot be opened, or its bindings cannot be read.
  init(_ dir: PathBytes, engine: FolderEngine?, context: Context) throws {
    self.dir = dir
    self.engine = engine
    self.context = context
    root = try context.files.openDirectory(dir)
    device = try root.status().device
    facts = try? engine?.facts()
    bindings = Dictionary(try engine?.store.bindings().map { ($0.item, $0) } ?? []) { first, _ in first }
  }

  // MARK: Its files

  /// Everything it may hold, its settings' lists aside: as widely as the built-in lists allow, into the dot-led directories
  /// that folder includes (F43), or into every one where its settings cannot be read (F41.4).
  private func walked() -> WalkResult? {
    if let walk { return walk }
    let lists = engine == nil ? .everything : (facts?.lists ?? .unset).widened
    do throws(FileError) {
      var walk = try FolderSync.walk(root: root, lists: lists, now: context.clock.now)
      if engine?.identityLasts == false { for place in walk.files.indices { walk.files[place].status.birth = nil } }
      self.walk = walk
      if let closed = walk.directories.first(where: { $0.flag != Flag.package.rawValue }) {
        miss("\(closed.path) in it cannot be read")
      }
      return walk
    } catch {
      miss("it cannot be read: \(error.reason)")
      return nil
    }
  }

  private func miss(_ what: String) { if unread == nil { unread = "the folder at \(dir) may hold it: \(what)" } }

  private func files() -> [WalkedFile] { walked()?.files ?? [] }

  /// The file of an identity; none where two names share it (F17.2).
  func files(identity: FileIdentity) -> [PathBytes] {
    let found = files().filter { $0.status.identity == identity }
    return found.count == 1 ? found.map(\.path) : []
  }

  /// The documents whose `marfa_id` line names an item.
  func files(carrying item: EntityID) -> [PathBytes] {
    if let byID { return byID[item] ?? [] }
    var byID: [EntityID: [PathBytes]] = [:]
    for file in files() {
      if let carried = carriedID(of: file.path) { byID[carried, default: []].append(file.path) }
    }
    self.byID = byID
    return byID[item] ?? []
  }

  /// The id a document's line names; read once.
  func carriedID(of path: PathBytes) -> EntityID? {
    if let known = carried[path] { return known }
    guard DocumentKind(name: path) == .markdown else { return nil }
    let id = readID(of: path)
    carried[path] = .some(id)
    return id
  }

  /// Whether its own file of an item stands and carries the item's id, in a directory that could not be listed too.
  func ownCarries(_ item: EntityID) -> Bool {
    guard let own = bindings[item], own.missingSince == nil, own.form == .markdown else { return false }
    return carriedID(of: own.path) == item
  }

  /// Why it cannot be told whether its own file of an item still carries the item's id; nil where it can.
  func unreadOwn(of item: EntityID) -> String? {
    guard let own = bindings[item], own.missingSince == nil, own.form == .markdown, !isGone(own) else { return nil }
    _ = carriedID(of: own.path)
    return unreadFiles[own.path].map { "\(own.path) in the folder at \(dir) cannot be read: \($0)" }
  }

  private func readID(of path: PathBytes) -> EntityID? {
    guard let bytes = read(path, keep: FolderEngine.textLimit)?.bytes else { return nil }
    switch Document.read(bytes, kind: .markdown, edges: facts?.vocabulary ?? EdgeVocabulary(names: [])) {
    case .read(let document): return document.id.id
    case .unreadable(let held): return held.plainID
    case .encoding: return nil
    }
  }

  private func read(_ path: PathBytes, keep: Int) -> FileReading? {
    do throws(FileError) { return try FileReading(path, below: root, keep: keep) } catch {
      if !error.isAbsence {
        miss("\(path) in it cannot be read: \(error.reason)")
        unreadFiles[path] = error.reason
      }
      return nil
    }
  }

  /// The files of these bytes; with a size, only those of it are read.
  func files(bytes wanted: Set<ContentHash>, size: UInt64?) -> [PathBytes] {
    files().filter { file in
      guard size == nil || file.status.size == size else { return false }
      return hash(of: file.path).map(wanted.contains) ?? false
    }.map(\.path)
  }

  func hash(of path: PathBytes) -> ContentHash? {
    if let known = hashes[path] { return known }
    guard let hash = read(path, keep: 0)?.hash else { return nil }
    hashes[path] = hash
    return hash
  }

  /// The documents and other files no binding of that folder names.
  func unboundFiles() -> [WalkedFile] {
    if let unbound { return unbound }
    let bound = Set(bindings.values.filter { $0.missingSince == nil }.map(\.path))
    let found = files().filter { !bound.contains($0.path) }
    unbound = found
    return found
  }

  // MARK: Its bindings

  /// Whose live file stands at a path.
  func owner(of path: PathBytes) -> EntityID? {
    bindings.values.first { $0.path == path && $0.missingSince == nil }?.item
  }

  /// The identity a binding kept, under the number the root's device has now (F43.6).
  func identity(of binding: Binding) -> FileIdentity? {
    binding.identity.map { FileIdentity(device: $0.device ?? device, inode: $0.inode, birth: $0.birth) }
  }

  /// Whether a bound file is not there any more; one that cannot be looked at is taken as there.
  func isGone(_ binding: Binding) -> Bool {
    do throws(FileError) {
      let directory = binding.path.parent.isEmpty ? root : try root.directory(beneath: binding.path.parent)
      return try directory.status(of: binding.path.name) == nil
    } catch { return error.isAbsence }
  }

  /// What stands at a bound file's path; nil where nothing does or it cannot be looked at.
  func status(of binding: Binding) -> FileStatus? {
    let directory = binding.path.parent.isEmpty ? root : try? root.directory(beneath: binding.path.parent)
    return try? directory?.status(of: binding.path.name)
  }

  /// Where it has its own file of an item: one that stands, or, where the folder that misses one holds the item no more and
  /// this one does, one it settles itself, gone from the disk or not (F44.10).
  func ownFile(of item: EntityID, holdsHere: Bool) -> PathBytes? {
    guard let own = bindings[item], !isWaiting else { return nil }
    if own.missingSince == nil, status(of: own)?.kind == .regular { return own.path }
    return !holdsHere && holds(item) == true ? own.path : nil
  }

  // MARK: Its items

  /// Whether its search holds an item; nil where that cannot be told.
  func holds(_ item: EntityID) -> Bool? {
    guard let engine, let facts else { return nil }
    return try? engine.copy.matches(item, facts.search)
  }

  /// Whether its copy holds an item out of the bin.
  func copyHolds(_ item: EntityID) throws -> Bool {
    guard let engine, let row = try engine.copy.item(item) else { return false }
    return !row.isTrashed
  }

  /// Whether its queue still holds a write of a file of the item that the server has not answered, of one of these roles.
  func hasUnsent(_ item: EntityID, but passedOver: Set<FolderWrite.Role> = []) -> Bool {
    guard let engine, let writes = try? engine.store.writes(of: item) else { return true }
    return writes.contains { !passedOver.contains($0.role) }
  }

  /// Whether the item's own create waits in its queue; so it is taken where that cannot be read.
  func awaitsCreate(_ item: EntityID) -> Bool {
    guard let engine else { return false }
    guard let writes = try? engine.store.writes(of: item) else { return true }
    return writes.contains { $0.role == .create }
  }

  /// Whether its first sync waits: it takes and lets go of nothing yet (F54). So it is taken where
  /// that cannot be read.
  var isWaiting: Bool {
    guard let engine else { return false }
    return (try? engine.store.firstSyncWaits) ?? true
  }
}

extension FileError {
  /// Whether it says that nothing is there.
  var isAbsence: Bool { code == 2 || code == 20 }
}
