import FolderSync
import Glibc
import MarfaBase
import MarfaCopy

/// The folders of this machine as a command works them: `Folders` over the machine's own disk, network and registry.
struct FolderWork {
  private let folders: Folders
  /// The machine's list.
  var registry: Registry? { folders.registry }
  private let session: Session

  private init(_ session: Session, endpoint: Endpoint?) {
    self.session = session
    var folders = Folders(
      context: session.context,
      registry: session.program.registryFile.map { FolderWork.registry($0, session) },
      endpoint: endpoint, credentials: session.renewing,
      door: FolderWork.door(session.context, FolderWork.reading(session)),
      stop: session.program.stop)
    let look = StorageLook(session.context.files, home: session.program.home, uid: geteuid())
    folders.storage = { look($0)?.json ?? .null }
    if !session.invocation.has("now") {
      let sparing = Sparing(session.program, session.context)
      folders.spares = { sparing.isOn }
    }
    folders.stateHome = session.program.stateHome
    folders.hub = session.program.sharing.hub
    folders.traits = { look.traits(of: $0) }
    self.folders = folders
  }

  /// The machine's list. No other folder's directory is waited on (P2.4), and an entry whose store this build cannot read
  /// is kept whole (X5.8).
  private static func registry(_ path: PathBytes, _ session: Session) -> Registry {
    let context = session.context
    let reading = reading(session)
    let look = BoundedLook(context.files)
    return Registry(
      path: path, files: context.files, look: { look($0) },
      isForeign: { root in
        let reading = Folders(context: context, registry: nil, endpoint: nil, door: door(context, reading))
        return (try? reading.open(root, role: .reader)) == nil
      })
  }

  /// How a store is opened to read.
  private static func reading(_ session: Session) -> Database.Mode { session.program.worksSeveral ? .readOnly : .look }

  /// A folder's store lies in its own `.marfa/` (X6).
  private static func door(_ context: Context, _ reading: Database.Mode) -> StoreDoor {
    func store(_ root: PathBytes) -> PathBytes { root.appending(stateDirectoryName).appending(storeName) }
    return StoreDoor(
      database: { root, mode in try Database(path: store(root).description, mode: mode == .readOnly ? reading : mode) },
      blobs: { root in
        FileBlobStore(
          path: PathBytes(bytes: store(root).bytes + Array(".blobs".utf8)), files: context.files, ids: context.ids)
      })
  }

  /// For a command that never asks a server.
  static func offline(_ session: Session) -> FolderWork { FolderWork(session, endpoint: nil) }

  /// For a command that needs a server: the one named, or kept, or the one the folder was added with (N2.11).
  init(_ session: Session, for directory: PathBytes? = nil) throws(MarfaError) {
    // What is no folder is told first: no server would help there (C1.5).
    if let directory {
      do { _ = try FolderWork.offline(session).folders.root(of: directory) } catch { throw MarfaError(any: error) }
    }
    let added = directory.flatMap { FolderWork.offline(session).server(of: $0) }
    self.init(session, endpoint: try session.endpoint(folderServer: added).endpoint)
  }

  /// For a command that uses a server where one is to be had.
  static func optional(_ session: Session, for directory: PathBytes) throws(MarfaError) -> FolderWork {
    let added = FolderWork.offline(session).server(of: directory)
    return FolderWork(session, endpoint: try session.optionalEndpoint(folderServer: added))
  }

  /// The address a folder was added with; nil where there is no folder or it names none. Only of a folder this machine's
  /// list names: a directory somebody else made may carry a store that names their server, which a credential given
  /// without an address must not reach. This machine's own instance is ours alone.
  func server(of directory: PathBytes) -> Text? {
    guard let root = try? folders.root(of: directory), let engine = try? folders.open(root, role: .reader),
      let named = (try? engine.store.fact(.server)).flatMap({ $0 })
    else { return nil }
    let isListed = (try? folders.list())?.contains { $0.dir == root } ?? false
    return isListed || named == "local" ? named : nil
  }

  /// A connection to the same server, for a call that touches no folder.
  func connection() -> ServerConnection {
    let connection = ServerConnection(
      endpoint: folders.endpoint, credentials: session.renewing, context: session.context)
    connection.stop = session.program.stop
    return connection
  }

  // MARK: The calls

  /// Runs a call of the engine; whatever it threw is one of our errors.
  private func typed<Value>(_ work: () throws -> Value) throws(MarfaError) -> Value {
    do { return try work() } catch { throw MarfaError(any: error) }
  }

  func list() throws(MarfaError) -> [RegistryEntry] { try typed { try folders.list() } }
  func status(_ directory: PathBytes) throws(MarfaError) -> FolderStatus { try typed { try folders.status(directory) } }
  func confirm(_ directory: PathBytes) throws(MarfaError) -> ConfirmedRemoval {
    try typed { try folders.confirm(directory) }
  }
  func restore(_ directory: PathBytes) throws(MarfaError) -> RestoredRemoval {
    try typed { try folders.restore(directory) }
  }
  func remove(_ directory: PathBytes) throws(MarfaError) { try typed { try folders.remove(directory) } }
  /// Pauses a folder's watch; answers the folder's resolved directory.
  func pause(_ directory: PathBytes, until: Timestamp?) throws(MarfaError) -> PathBytes {
    try typed { try folders.pause(directory, until: until) }
  }
  /// Ends a pause; answers whether one stood.
  func resume(_ directory: PathBytes) throws(MarfaError) -> (root: PathBytes, stood: Bool) {
    try typed { try folders.resume(directory) }
  }
  /// How many writes of a folder wait to be sent; none while its first sync waits, and none of one that is gone.
  func unsent(_ directory: PathBytes) throws(MarfaError) -> Int {
    guard (try? folders.root(of: directory)) != nil else { return 0 }
    return try reading(directory) { folder in
      if try folder.store.firstSyncWaits { return 0 }
      return try folder.copy.queue.unansweredCount() + folder.copy.queue.blockedCount()
    }
  }
  func hydrate(_ directory: PathBytes) throws(MarfaError) -> HydrateReport {
    try typed { try folders.hydrate(directory) }
  }
  func scan(_ directory: PathBytes) throws(MarfaError) -> FolderScan { try typed { try folders.scan(directory) } }
  func pull(_ directory: PathBytes) throws(MarfaError) -> FolderPull { try typed { try folders.pull(directory) } }
  func push(_ directory: PathBytes) throws(MarfaError) -> PushResult { try typed { try folders.push(directory) } }

  /// A new store in place of a damaged one.
  func rebuild(_ directory: PathBytes, following folder: EntityID?) throws(MarfaError) -> RebuiltFolder {
    try typed { try folders.rebuild(directory, following: folder) }
  }

  /// The last passes, newest last (N6.3).
  func passes(_ directory: PathBytes, last: Int) throws(MarfaError) -> [LoggedPass] {
    try typed { try folders.passes(directory, last: last) }
  }
  /// The resolved root of a folder.
  func root(of directory: PathBytes) throws(MarfaError) -> PathBytes { try typed { try folders.root(of: directory) } }
  /// Reads a folder's store beside whoever works it.
  func reading<Value>(_ directory: PathBytes, _ work: (FolderEngine) throws -> Value) throws(MarfaError) -> Value {
    try typed { try work(try folders.open(try folders.root(of: directory), role: .reader)) }
  }
  /// Works a folder under its claim.
  func working<Value>(
    _ directory: PathBytes, _ command: Text, _ work: (FolderEngine) throws -> Value
  ) throws(MarfaError) -> Value {
    try typed { try folders.working(directory, command, work) }
  }

  /// Keeps a folder in step until stopped; `tell` is called on this thread.
  func watch(
    _ directory: PathBytes, for seconds: Int?, progress: WatchProgress = WatchProgress(),
    isOver: @escaping () -> Bool = { false }, tell: @escaping (WatchEvent) -> Void
  ) throws(MarfaError) {
    var folders = folders
    folders.isOver = isOver
    try folders.watch(directory, for: seconds.map(Double.init), progress: progress, tell: tell)
  }

  /// A digest of the credential a folder is worked with now; nil where none is to be had.
  static func credential(_ session: Session, for directory: PathBytes) -> ContentHash? {
    let added = offline(session).server(of: directory)
    guard let named = try? session.server(folderServer: added),
      let found = (try? session.namedCredential(for: named.address)) ?? nil
    else { return nil }
    return ContentHash(of: Array(found.credential.utf8))
  }

  /// Makes a directory a folder; the plan of its first sync is read unless it is confirmed.
  func add(_ directory: PathBytes, following folder: EntityID, confirmed: Bool) throws(MarfaError) -> AddedFolder {
    try typed { try folders.add(directory, following: folder, yes: confirmed) }
  }
}
