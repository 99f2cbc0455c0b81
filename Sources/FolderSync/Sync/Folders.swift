import Glibc
import MarfaBase
import MarfaCopy

/// How the shell opens a folder's store: a file below `.marfa/` in reality, shared memory in the simulation.
package struct StoreDoor {
  /// Opens, or makes, the database of a root.
  package var database: (PathBytes, Database.Mode) throws -> Database
  /// Opens where its bytes lie.
  package var blobs: (PathBytes) throws -> any BlobStore

  package init(
    database: @escaping (PathBytes, Database.Mode) throws -> Database,
    blobs: @escaping (PathBytes) throws -> any BlobStore
  ) {
    self.database = database
    self.blobs = blobs
  }
}

/// What `add` did (C7.9).
package struct AddedFolder: Sendable {
  package var dir: PathBytes
  package var folder: EntityID
  package var firstSync: FirstSyncReading
  /// Where the directory is kept, where that warns (C7.10).
  package var storage: JSON
  /// Whether its disk holds only names that Windows and FAT take (P7.8); no part of the report.
  package var takesWindowsNames = false

  package var json: JSON {
    ["dir": .string(dir.text), "folder": .string(folder.text), "first_sync": firstSync.json, "storage": storage]
  }
}

/// The folders of this machine: the face every command and program works through. One process works a folder at a time:
/// each call but `list` and `status` asks a holder to let go, and waits up to ten seconds (H2, C18).
package struct Folders {
  package let context: Context
  package let registry: Registry?
  package let endpoint: Endpoint?
  package let credentials: (any CredentialStore)?
  package let door: StoreDoor
  package let stop: StopFlag
  /// The user, whose `/run/user` keeps locks where the file system has none (H7).
  package let uid: UInt32
  /// Shares the event stream among the folders this process watches (P6.5).
  package var hub: StreamHub?
  /// Where counts of stores' changes are kept outside them (P3.2): `$XDG_STATE_HOME/marfa-folders`.
  package var stateHome: PathBytes?
  /// Where a directory is kept, as ST1 tells it.
  package var storage: (PathBytes) -> JSON = { _ in .null }
  /// Whether this machine spares its network or its battery now, so that large uploads wait (P5.3).
  package var spares: @Sendable () -> Bool = { false }
  /// What the file system of a directory can be relied on for (ST6).
  package var traits: (PathBytes) -> StorageTraits = { _ in StorageTraits() }
  /// Asked after each pass of a watch: whether it is to end, as where another version of the program stands ready (P4.1).
  package var isOver: () -> Bool = { false }

  package init(
    context: Context, registry: Registry?, endpoint: Endpoint?, credentials: (any CredentialStore)? = nil,
    door: StoreDoor, stop: StopFlag = StopFlag(), uid: UInt32 = geteuid()
  ) {
    self.context = context
    self.registry = registry
    self.endpoint = endpoint
    self.credentials = credentials
    self.door = door
    self.stop = stop
    self.uid = uid
  }

  // MARK: The machine's folders

  /// The registry's folders, tidied (C8).
  package func list() throws -> [RegistryEntry] {
    guard let registry else { return [] }
    do throws(RegistryFailure) { return try registry.entries() } catch { throw error.marfaError }
  }

  // MARK: Working one

  package func status(_ dir: PathBytes) throws -> FolderStatus {
    try reading(dir) { folder in
      var status = try folder.status()
      status.pause = try pause(of: dir)
      return status
    }
  }

  package func confirm(_ dir: PathBytes) throws -> ConfirmedRemoval {
    try working(dir, "confirm") { try $0.confirm() }
  }

  package func restore(_ dir: PathBytes) throws -> RestoredRemoval {
    try working(dir, "restore") { try $0.restore() }
  }

  package func hydrate(_ dir: PathBytes) throws -> HydrateReport {
    try working(dir, "hydrate") { folder in
      try requireServer()
      return try folder.fill(try folder.facts().slice, agreed: true)
    }
  }

  package func scan(_ dir: PathBytes) throws -> FolderScan { try working(dir, "scan") { try $0.scan() } }

  package func pull(_ dir: PathBytes) throws -> FolderPull { try working(dir, "pull") { try $0.pull() } }

  package func push(_ dir: PathBytes) throws -> PushResult {
    try working(dir, "push") { folder in
      try requireServer()
      return try folder.push()
    }
  }

  /// The last passes, newest last (N6.3).
  package func passes(_ dir: PathBytes, last: Int) throws -> [LoggedPass] {
    try reading(dir) { try $0.store.passes(last: last) }
  }

  private func requireServer() throws {
    if endpoint == nil { throw MarfaError(.noServer, "no server is named; give --url, or `login` to one") }
  }

  // MARK: Opening

  /// The resolved root of a folder; refused where the directory is gone or holds none (S23.5).
  package func root(of dir: PathBytes) throws -> PathBytes {
    let look = DirectoryLook.at(dir, context.files)
    switch look.state {
    case .folder: return look.resolved
    case .noFolder:
      if awaitsVolume(look) {
        throw MarfaError(
          .invalid,
          "the volume of the folder \(dir) is not mounted; bring it back, or take the folder off this computer with `remove`"
        )
      }
      throw MarfaError(.invalid, "\(dir) holds no folder; add makes one of it")
    case .unknown:
      if let other = closedState(look.resolved) { throw other }
      if isNowhere(look.resolved) {
        throw MarfaError(.invalid, "there is no directory \(dir), and no folder is listed there; `add` makes one")
      }
      throw MarfaError(
        .invalid,
        "the directory \(dir) cannot be found or read; bring it back, or take it off this computer with `remove`")
    }
  }

  /// Whether nothing stands at a path, and no folder of this computer ever did as far as its list tells: a mistyped name,
  /// not a directory that went away.
  private func isNowhere(_ dir: PathBytes) -> Bool {
    guard let registry, let entries = registry.fileIsThere ? try? registry.entries() : [] else { return false }
    // By the last name alone, since what is missing may have been reached by a link.
    guard !entries.contains(where: { $0.dir.name == dir.name || $0.dir.contains(dir) }) else { return false }
    do throws(FileError) {
      _ = try context.files.status(dir)
      return false
    } catch { return error.code == ENOENT || error.code == ENOTDIR }
  }

  /// Whether a directory without a folder is that of a listed one whose volume is not mounted now (X3.4).
  func awaitsVolume(_ look: DirectoryLook) -> Bool {
    guard let registry, registry.fileIsThere, let entries = try? registry.entries() else { return false }
    return entries.contains { $0.dir == look.resolved && $0.awaitsVolume(look) }
  }

  /// A `.marfa/` that is there and that this user may not enter: another user's folder (P7.5).
  private func closedState(_ root: PathBytes) -> MarfaError? {
    do throws(FileError) {
      let directory = try context.files.openDirectory(root)
      guard let state = try directory.status(of: stateDirectoryName), state.kind == .directory else { return nil }
      do throws(FileError) { _ = try directory.directory(stateDirectoryName).status(of: storeName) } catch {
        guard error.code == EACCES || error.code == EPERM else { return nil }
        return MarfaError(
          .io,
          "the folder \(root) is the user \(ClaimOwner.user(state.owner)?.string ?? String(state.owner))'s, and its state can be entered by "
            + "that user alone; one user at a time can work a folder")
      }
    } catch { return nil }
    return nil
  }

  /// Works a folder under its claim.
  package func working<Value>(
    _ dir: PathBytes, _ command: Text, _ work: (FolderEngine) throws -> Value
  ) throws -> Value {
    let root = try root(of: dir)
    let hold: FolderHold
    switch try ask(root, command) {
    case .held(let held): hold = held
    case .noFolder: throw MarfaError(.invalid, "\(dir) holds no folder any more")
    }
    defer { hold.release() }
    let folder = try open(root, role: .writer)
    defer { folder.countChanges() }
    return try folder.logged(command) { try work(folder) }
  }

  /// Asks for a folder (H2).
  func ask(_ root: PathBytes, _ command: Text) throws -> HandOver.Outcome {
    let state: any Directory
    do throws(FileError) {
      state = try context.files.openDirectory(root.appending(stateDirectoryName))
    } catch {
      if error.code == ENOENT { return .noFolder }
      throw MarfaError(error)
    }
    return try HandOver(root: root, context: context, fallback: locks(of: root))
      .ask(command.string, in: state, stop: stop)
  }

  /// Where a folder's locks are kept if its file system has none (H7): by its store's id, before there is a store by its
  /// directory. Nil where the file system has locks, which a shared one tells and takes from nobody.
  func locks(of root: PathBytes) -> LockFallback? {
    let lock = PathBytes(bytes: storeName.bytes + Array(".lock".utf8))
    do throws(FileError) {
      let state = try context.files.openDirectory(root.appending(stateDirectoryName))
      // The ask's file where there is one: a shared lock there keeps nobody waiting.
      var found = try context.files.lockFile(handOverName, in: state, create: false)
      if found == nil { found = try context.files.lockFile(lock, in: state, create: true) }
      guard let file = found else { return nil }
      if try file.lock(.shared, wait: false) { file.unlock() }
      return nil
    } catch {
      guard tellsNoLocks(error) else { return nil }
    }
    let id = (try? open(root, role: .reader).copy.storeID()) ?? nil
    return LockFallback(uid: uid, name: id.map { PathBytes($0) } ?? PathBytes(ContentHash(of: root.bytes).hex))
  }

  /// Narrows what was left wider (X7.3): the state directory is its owner's alone, and the store with it.
  private func narrow(_ root: PathBytes) throws(MarfaError) {
    do throws(FileError) {
      let directory = try context.files.openDirectory(root)
      if let state = try directory.status(of: stateDirectoryName), state.mode & 0o077 != 0 {
        try? directory.setMode(stateDirectoryName, 0o700)
      }
      let state = try directory.directory(stateDirectoryName)
      for entry in try state.list() where entry.name.bytes.starts(with: storeName.bytes) {
        guard let status = try state.status(of: entry.name), status.mode & 0o077 != 0 else { continue }
        // A file system that keeps no permissions refuses or forgets it; the folder works all the same.
        try? state.setMode(entry.name, status.kind == .directory ? 0o700 : 0o600)
      }
    } catch { throw MarfaError(error) }
  }

  private func reading<Value>(_ dir: PathBytes, _ work: (FolderEngine) throws -> Value) throws -> Value {
    try work(try open(try root(of: dir), role: .reader))
  }

  /// Opens a folder's store. A writer holds the claim.
  package func open(_ root: PathBytes, role: WorkingCopy.Role) throws -> FolderEngine {
    if role == .writer { try narrow(root) }
    let database = try door.database(root, role == .writer ? .readWrite : .readOnly)
    let traits = traits(root)
    let copy = try WorkingCopy.open(
      database: database, blobs: try door.blobs(root), context: context, role: role, endpoint: endpoint,
      credentials: credentials, path: root.appending(stateDirectoryName).appending(storeName),
      sharesMemory: traits.sharesMemory)
    let store = try FolderStore(database, writer: role == .writer)
    guard let folder = try store.folderID else {
      throw MarfaError(.invalid, "\(root) holds a store that is bound to no folder; add makes one of it")
    }
    let identity: RootIdentity
    do throws(FileError) {
      identity = try RootIdentity(root, files: context.files, identityLasts: traits.identityLasts)
    } catch { throw MarfaError(error) }
    let engine = FolderEngine(root: root, copy: copy, store: store, folderID: folder, identity: identity, stop: stop)
    engine.registry = registry
    engine.spares = spares
    engine.identityLasts = traits.identityLasts
    engine.takesWindowsNames = traits.takesWindowsNames
    guard role == .writer else { return engine }
    engine.openOther = opensOthers()
    store.keepPassedRows(of: copy)
    let keeper = SealKeeper(directory: stateHome, files: context.files)
    engine.sealKeeper = keeper
    try keeper.open(engine, identityLasts: traits.identityLasts)
    return engine
  }
}

extension Folders {
  /// Opens other folders of this machine to read, without a server.
  func opensOthers() -> (PathBytes) throws -> FolderEngine {
    var reading = Folders(context: context, registry: registry, endpoint: nil, door: door, stop: stop)
    reading.traits = traits
    return { root in try reading.open(root, role: .reader) }
  }
}

extension FolderEngine {
  /// Lists the folder again where the registry lost it or names another directory (F41.6, X5.1). Answers why the registry
  /// tells nothing this pass.
  func relist() throws -> String? {
    guard let registry else { return nil }
    let wasListed = try store.fact(.listed) != nil
    let isGone = !registry.fileIsThere
    guard let id = try copy.storeID().flatMap({ EntityID($0) }) else { return nil }
    listed = nil
    do throws(RegistryFailure) {
      listed = try registry.list(RegistryEntry(dir: root, folder: folderID, store: id))
    } catch {
      return error.message
    }
    try remember(listed ?? [], but: id.text)
    return wasListed && isGone
      ? "the list of this machine's folders was gone; missing files are held for this pass, and it is listed again"
      : nil
  }

  /// Remembers the other folders the list names, so that they are looked in though it is lost (F41.11, X5.6).
  private func remember(_ entries: [RegistryEntry], but own: Text) throws {
    let known = try store.otherFolders()
    for entry in entries where entry.dir != root {
      guard let id = entry.store, id != own,
        !known.contains(where: { $0.store == id && $0.dir == entry.dir && $0.folder == entry.folder })
      else { continue }
      try store.remember(otherStore: id, dir: entry.dir, folder: entry.folder)
    }
  }
}
