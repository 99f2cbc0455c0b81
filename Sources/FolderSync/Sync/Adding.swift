import Glibc
import MarfaBase
import MarfaCopy

/// Making a directory a folder, and taking it off (C7, C12, X28).
extension Folders {
  /// Binds a directory to a `system.folder` (C7.3). A refusal undoes only what this call made (C7.2).
  /// - Parameter plan: whether the first sync is read for its plan, where it waits (C7.6).
  package func add(
    _ dir: PathBytes, following folder: EntityID, yes: Bool = false, plan: Bool = true
  ) throws -> AddedFolder {
    guard endpoint != nil else {
      throw MarfaError(.noServer, "no server is named; give --url, or `login` to one")
    }
    let wanted = try resolved(dir)
    guard wanted.isValidUTF8 else {
      throw MarfaError(.invalid, "\(dir): its path is not valid UTF-8, so it cannot be listed")
    }
    try refusePortal(wanted)
    try refuseNesting(wanted)
    var making = Making(context: context)
    do {
      let reading = try make(wanted, folder, yes: yes, plan: plan, &making)
      return AddedFolder(
        dir: making.root ?? wanted, folder: folder, firstSync: reading, storage: storage(wanted),
        takesWindowsNames: traits(making.root ?? wanted).takesWindowsNames)
    } catch {
      making.undo()
      throw error
    }
  }

  private func resolved(_ dir: PathBytes) throws -> PathBytes {
    do throws(FileError) { return try context.files.resolve(dir) } catch { throw MarfaError(error) }
  }

  /// P1.6: a document portal shows a directory of the computer under another path while a sandboxed program may see it.
  private func refusePortal(_ root: PathBytes) throws {
    let names = root.components.map(\.bytes)
    let isPortal =
      names.starts(with: ["run", "flatpak", "doc"].map { Array($0.utf8) })
      || (names.count > 3 && names[0].elementsEqual("run".utf8) && names[1].elementsEqual("user".utf8)
        && names[3].elementsEqual("doc".utf8))
    guard isPortal else { return }
    let told = context.files.attribute("user.document-portal.host-path", of: root)
    let host = told.map { PathBytes(bytes: Array($0.prefix { $0 != 0 })) }
    throw MarfaError(
      .invalid,
      "\(root) is a document portal's view of a directory, which may go at any time; "
        + (host.map { "add \($0), which it shows" } ?? "add the directory by its own path on this computer"))
  }

  private func refuseNesting(_ root: PathBytes) throws {
    guard let registry else { return }
    let entries: [RegistryEntry]
    do throws(RegistryFailure) { entries = try registry.entries() } catch {
      // A list that does not parse is written afresh; one that cannot be opened is refused (X3.5, X3.6).
      if case .unparsable = error { return }
      throw error.marfaError
    }
    if let other = Registry.nesting(of: root, in: entries) {
      throw MarfaError(.invalid, "\(root) lies inside or around the folder \(other.dir); folders are not nested")
    }
  }

  private func follows(_ root: PathBytes, _ bound: EntityID) -> MarfaError {
    MarfaError(.invalid, "\(root) follows the folder \(bound) already; remove it first")
  }

  /// The folder a store is bound to, read without a save; nil where it is bound to none or cannot be read.
  private func boundFolder(_ root: PathBytes) -> EntityID? {
    guard let database = try? door.database(root, .readOnly) else { return nil }
    return (try? FolderStore(database, writer: false).folderID) ?? nil
  }

  private func make(
    _ root: PathBytes, _ id: EntityID, yes: Bool, plan: Bool, _ making: inout Making
  ) throws -> FirstSyncReading {
    do throws(FileError) {
      making.directories = try context.files.makeDirectories(root, mode: 0o777)
      making.root = root
      try context.files.syncNames(of: making.directories)
      let directory = try context.files.openDirectory(root)
      if let state = try directory.status(of: stateDirectoryName) {
        guard state.kind == .directory else {
          throw FileError(code: ENOTDIR, operation: "use", path: root.appending(stateDirectoryName))
        }
        making.stood = Set(try directory.directory(stateDirectoryName).list().map(\.name))
      } else {
        try directory.makeDirectory(stateDirectoryName, mode: 0o700)
        making.madeState = true
        // A store whose directory goes with the power is lost with all its unsent writes.
        try directory.sync()
      }
    } catch {
      throw MarfaError(error.code == ENOTDIR ? .invalid : .io, error.description)
    }
    let hold: FolderHold
    switch try ask(root, "add") {
    case .held(let held): hold = held
    case .noFolder: throw MarfaError(.invalid, "\(root) was taken away meanwhile")
    }
    making.hold = hold
    defer { hold.release() }
    // Before the store is opened to write: a refused `add` leaves every byte as it was (C7.2).
    if making.stood?.contains(storeName) == true, let bound = boundFolder(root), bound != id {
      throw follows(root, bound)
    }
    try StateDirectory.prepareStore(below: root, context.files)
    let database = try door.database(root, .create)
    let traits = traits(root)
    making.database = database
    let copy = try WorkingCopy.open(
      database: database, blobs: try door.blobs(root), context: context, role: .writer, endpoint: endpoint,
      credentials: credentials, path: root.appending(stateDirectoryName).appending(storeName),
      sharesMemory: traits.sharesMemory)
    copy.stop = stop
    let store = try FolderStore(database, writer: true)
    let bound = try store.folderID
    if let bound, bound != id {
      throw follows(root, bound)
    }
    let row = try readRow(id, copy)
    // A copy that was never filled has no read view to read the catalog under; the fill brings it, and is judged again.
    if try copy.hydration() == .complete { try copy.refreshEdgeTypes() }
    _ = try PassFacts(folder: id, row: row.item, catalog: try copy.catalog())
    try requirePlacements(copy)

    let folder = FolderEngine(
      root: root, copy: copy, store: store, folderID: id,
      identity: try RootIdentity(root, files: context.files, identityLasts: traits.identityLasts), stop: stop)
    folder.identityLasts = traits.identityLasts
    folder.takesWindowsNames = traits.takesWindowsNames
    folder.registry = registry
    folder.openOther = opensOthers()
    try folder.commit {
      try store.set(.folder, id.text)
      try store.set(.row, Text(bytes: row.json.write()))
      try store.set(.server, Text(endpoint?.baseURL ?? ""))
      if bound == nil { try store.set(.firstSync, "waiting") }
    }
    try folder.writeSettingsAfresh(in: try folder.openRoot())
    if let registry, let storeID = try copy.storeID().flatMap({ EntityID($0) }) {
      do throws(RegistryFailure) { try registry.add(RegistryEntry(dir: root, folder: id, store: storeID)) } catch {
        throw error.marfaError
      }
    }
    making.isDone = true
    guard try store.firstSyncWaits else { return FirstSyncReading(waiting: false) }
    if yes {
      try folder.confirmFirstSync()
      return FirstSyncReading(waiting: false)
    }
    return plan ? try folder.readPlan() : FirstSyncReading(waiting: true)
  }

  /// The settings row from the server (C7.3, C7.4).
  private func readRow(_ id: EntityID, _ copy: WorkingCopy) throws -> (item: Item, json: JSON) {
    try copy.confirmInstance()
    let answer = try copy.server.ask("GET", "/items/\(id)", query: [("include", "metadata")])
    guard answer.isSuccess else {
      let refusal = copy.server.refusal(answer)
      guard answer.status == 404 else { throw refusal }
      throw unseen(id, copy, refusal)
    }
    let json = try answer.json()
    guard let item = Item(row: json) else {
      throw MarfaError(.decoding, "the server's answer for the folder \(id) could not be read")
    }
    return (item, json)
  }

  private func unseen(_ id: EntityID, _ copy: WorkingCopy, _ refusal: MarfaError) -> MarfaError {
    do throws(MarfaError) {
      let key = try copy.server.currentKey()
      let grant = CallingKey.grant("system.folder", in: key["type_permissions"]?.object ?? JSONObject())
      if grant == nil || (grant != "read" && grant != "write") {
        return MarfaError(
          .forbidden, "the key cannot read folder settings; it needs system.folder:read",
          server: .init(status: 403, code: "type_not_permitted"))
      }
      return MarfaError(
        .notFound, "the server has no folder \(id); `create` makes one",
        server: .init(status: 404, code: "item_not_found"))
    } catch {
      guard error.code == .forbidden else { return error }
      return MarfaError(
        .notFound,
        "the server shows no folder \(id): there is none, which `create` makes, or the credential lacks system.folder:read",
        server: .init(status: 404, code: "item_not_found"))
    }
  }

  /// A key that cannot write placements is refused; a credential that is no key is not asked (F19.25).
  private func requirePlacements(_ copy: WorkingCopy) throws {
    let key: JSON
    do throws(MarfaError) { key = try copy.server.currentKey() } catch {
      if error.code == .forbidden { return }
      throw error
    }
    guard CallingKey(key).grant == "write" else {
      throw MarfaError(
        .forbidden, "the key cannot say where files sit; it needs edge.in-folder:write",
        server: .init(status: 403, code: "edge_permission_denied"))
    }
  }

  // MARK: Taking off

  /// Takes a folder off this machine; the person's files stay (C12).
  package func remove(_ dir: PathBytes) throws {
    let look = DirectoryLook.at(dir, context.files)
    if look.resolved != dir.normalized {
      let listed = try list().contains { $0.dir == dir.normalized }
      guard listed else {
        throw MarfaError(
          .invalid, "\(dir) passes through a symbolic link; give the directory that list names: \(look.resolved)")
      }
    }
    switch look.state {
    case .folder: break
    case .unknown, .noFolder:
      guard try unlist(look.resolved) else { throw MarfaError(.invalid, "\(dir) is neither listed nor a folder") }
      return
    }
    let root = look.resolved
    let hold: FolderHold
    switch try ask(root, "remove") {
    case .held(let held): hold = held
    case .noFolder: throw MarfaError(.invalid, "\(dir) holds no folder any more")
    }
    defer { hold.release() }
    try refuseUnsent(root)
    _ = try unlist(root)
    do throws(FileError) {
      try context.door.reached(.unlisted, root.name, in: try context.files.openDirectory(root))
      try StateDirectory.remove(below: root, context.files)
    } catch { throw MarfaError(error) }
  }

  private func unlist(_ root: PathBytes) throws -> Bool {
    guard let registry else { return false }
    do throws(RegistryFailure) { return try registry.remove(root) } catch { throw error.marfaError }
  }

  private func refuseUnsent(_ root: PathBytes) throws {
    let folder = try open(root, role: .writer)
    guard try !folder.store.firstSyncWaits else { return }
    let unsent = try folder.copy.queue.unansweredCount() + folder.copy.queue.blockedCount()
    guard unsent == 0 else {
      throw MarfaError(.invalid, "\(root) holds \(unsent) writes that were not sent; push first")
    }
  }
}

extension PathBytes {
  /// Without `.`, empty names and `..` taken back by text alone.
  var normalized: PathBytes {
    var kept: [PathBytes] = []
    for name in components {
      if name == "." { continue }
      if name == ".." { _ = kept.popLast() } else { kept.append(name) }
    }
    return kept.reduce(isAbsolute ? "/" : .empty) { $0.appending($1) }
  }
}

/// What an add has made so far, for taking it back.
private struct Making {
  let context: Context
  var root: PathBytes?
  var directories: [PathBytes] = []
  var madeState = false
  /// What `.marfa/` held before, where it was there (X28.4: one without a store is taken over).
  var stood: Set<PathBytes>?
  var database: Database?
  var hold: FolderHold?
  var isDone = false

  init(context: Context) { self.context = context }

  /// Takes back what this call made, and no file of the person's: only empty directories go beside it (X28.1).
  mutating func undo() {
    guard !isDone, let root else { return }
    database = nil
    if madeState { try? StateDirectory.remove(below: root, context.files) }
    if let stood { try? StateDirectory.remove(below: root, context.files, but: stood) }
    hold?.release()
    for made in directories.reversed() {
      guard let parent = try? context.files.openDirectory(made.parent) else { continue }
      try? parent.removeDirectory(made.name)
    }
  }
}

/// The folder's own directory, taken away (X28.4, X28.5).
enum StateDirectory {
  /// Makes the store an empty file of its owner's alone, before SQLite opens it: its journals take its mode, whatever the
  /// umask (X7.2).
  static func prepareStore(below root: PathBytes, _ files: any FileSystem) throws(MarfaError) {
    do throws(FileError) {
      let state = try files.openDirectory(root).directory(stateDirectoryName)
      guard try state.status(of: storeName) == nil else { return }
      try state.create(storeName, mode: 0o600, exactMode: true).close()
    } catch { throw MarfaError(error) }
  }

  /// Takes away what an add made in a `.marfa/` that was there before (X28.1). One that held a store was a folder and
  /// keeps all it has.
  static func remove(below root: PathBytes, _ files: any FileSystem, but stood: Set<PathBytes>) throws(FileError) {
    guard !stood.contains(storeName) else { return }
    let state = try files.openDirectory(root).directory(stateDirectoryName)
    for entry in try state.list() where !stood.contains(entry.name) && isOurs(entry.name) {
      if try state.status(of: entry.name)?.kind == .directory {
        try empty(try state.directory(entry.name))
        try state.removeDirectory(entry.name)
      } else {
        try state.unlink(entry.name)
      }
    }
  }

  /// Whether a name of `.marfa/` is one this program makes (X6).
  private static func isOurs(_ name: PathBytes) -> Bool {
    name.bytes.starts(with: storeName.bytes) || name == handOverName || name == SettingsFile.name
  }

  /// Empties `.marfa/` by descriptors from the root, following no link, the claim's lock file last, and removes it.
  static func remove(below root: PathBytes, _ files: any FileSystem) throws(FileError) {
    let directory = try files.openDirectory(root)
    guard try directory.status(of: stateDirectoryName) != nil else { return }
    let state = try directory.directory(stateDirectoryName)
    let lock = PathBytes(bytes: storeName.bytes + Array(".lock".utf8))
    try empty(state, but: lock)
    if try state.status(of: lock) != nil { try state.unlink(lock) }
    try directory.removeDirectory(stateDirectoryName)
  }

  private static func empty(_ directory: any Directory, but kept: PathBytes? = nil) throws(FileError) {
    for entry in try directory.list() where entry.name != kept {
      let kind: FileKind?
      if let told = entry.kind { kind = told } else { kind = try directory.status(of: entry.name)?.kind }
      if kind == .directory {
        try empty(try directory.directory(entry.name))
        try directory.removeDirectory(entry.name)
      } else {
        try directory.unlink(entry.name)
      }
    }
  }
}
