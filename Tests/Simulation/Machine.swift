import CSQLite
import FolderSync
import LocalInstance
import MarfaBase
import MarfaCopy
import PowerVFS
import TestSupport

/// One computer: its disk, its network, its store, and the real engine on top of them.
final class Machine {
  static let root: PathBytes = "/home/person/Notes"
  private static let registryPath: PathBytes = "/home/person/.local/share/marfa/folders.json"

  let number: Int
  let disk: MemoryDisk
  let kill = KillSwitch()
  /// Paths the last push said it held or did not write, each with its reason: such a file stays as its person typed it.
  var held: Set<String> = []
  /// Paths the last push said the server refused, each with its reason.
  var refused: Set<String> = []
  /// The items it said it did not write.
  var heldItems: Set<String> = []
  /// Paths whose links, lines or embeds the last push said it could not read, each with its reason.
  var unresolved: [(path: String, reason: String)] = []
  /// A large removal waits for its person, as the last push said.
  var isPaused = false
  let transport: SimTransport
  private let clock: ManualClock
  private let ids: SeededIds
  /// Where its store lies: a disk of SQLite's own that knows what was synced.
  private let storeDisk: String
  private let blobs = MemoryBlobStore()
  private var process: Int32
  private let sabotage: Sabotage
  private let ownerKey: String

  init(
    number: Int, clock: ManualClock, server: Server, ownerKey: String, seed: UInt64, sabotage: Sabotage,
    world: Int
  ) throws {
    self.sabotage = sabotage
    self.number = number
    self.clock = clock
    self.ownerKey = ownerKey
    disk = MemoryDisk(clock: clock)
    transport = SimTransport(
      InstanceTransport { server.handle($0) }, server: server, kill: kill, seed: seed &* 31 &+ UInt64(number))
    ids = SeededIds(clock: clock, seed: seed &* 131 &+ UInt64(number))
    storeDisk = "/world\(world)/computer\(number)/"
    process = Int32(1000 * (number + 1))
    kill.sabotage = sabotage
    disk.tracksPower()
    try disk.makeDirectory("/home/person")
    watchStore()
  }

  /// Runs `work` as one process of this machine: its calls reach disk, network and store until it is killed.
  func run<Value>(_ work: (Folders) throws -> Value) throws -> Value {
    kill.reset()
    return try runArmed(work)
  }

  /// The same, with the switch as it was armed.
  func runArmed<Value>(_ work: (Folders) throws -> Value) throws -> Value {
    process += 1
    let faults = kill.faults
    let files = FaultyFileSystem(MemoryFileSystem(disk, pid: process), faults)
    let context = Context(
      clock: clock, ids: ids, files: files, transport: transport, scheduler: ManualScheduler(clock: clock),
      log: SilentLog(), sabotage: sabotage)
    let folders = Folders(
      context: context, registry: Registry(path: Self.registryPath, files: files),
      endpoint: Endpoint(baseURL: "http://local", credential: ownerKey), door: door())
    defer { disk.kill(pid: process) }
    return try work(folders)
  }

  /// The store on its disk. A call of a killed process does not happen.
  private func door() -> StoreDoor {
    StoreDoor(
      database: { [self] root, mode in
        let database = try openStore()
        if try MemoryFileSystem(disk).status(root.appending(".marfa/core.sqlite")) == nil {
          try disk.write(root.appending(".marfa/core.sqlite"), "store")
        }
        let killSwitch = Unmanaged.passUnretained(kill).toOpaque()
        // The switch outlives every connection: the machine owns both.
        sqlite3_commit_hook(
          database.handle,
          { argument in
            guard let argument else { return 0 }
            return Unmanaged<KillSwitch>.fromOpaque(argument).takeUnretainedValue().reached("commit") ? 1 : 0
          }, killSwitch)
        return database
      },
      blobs: { [self] _ in blobs })
  }

  private func openStore() throws -> Database {
    try Database(path: "file:\(storeDisk)core.sqlite?vfs=power", mode: .create)
  }

  private func watchStore() {
    marfa_power_watch(
      storeDisk,
      { context, path, isSync in
        guard let context else { return 0 }
        let kill = Unmanaged<KillSwitch>.fromOpaque(context).takeUnretainedValue()
        return kill.reached(isSync == 1 ? "store sync" : "store write") ? 1 : 0
      }, Unmanaged.passUnretained(kill).toOpaque())
    marfa_power_ignore_syncs(storeDisk, sabotage.breaks(.storeSyncSkipped) ? 1 : 0)
  }

  /// The power goes and comes back.
  func cutPower(seed: UInt64) {
    disk.cutPower(seed: seed)
    marfa_power_cut(storeDisk, seed)
  }

  deinit { marfa_power_remove(storeDisk) }

  /// Writes the store as it stands to a file.
  func keepStore(at path: String) throws { try openStore().run("VACUUM INTO ?", Text(path)) }

  // MARK: A volume of its own

  static let volumePath = root.appending("Diary")
  private var volume: MemoryVolume?
  /// Whether a directory of the folder is a volume of its own.
  private(set) var hasVolume = false

  /// Mounts it, empty the first time.
  func plugIn() throws {
    try disk.makeDirectory(Self.volumePath)
    try disk.mount(Self.volumePath, volume: volume)
    hasVolume = true
  }

  /// Takes it off its directory.
  func unplug() throws { volume = try disk.unmount(Self.volumePath) }

  /// Whose file each path is, as the machine's `status` tells it.
  func owners() throws -> [String: String] {
    let status = try run { try $0.status(Self.root) }
    return Dictionary(
      status.files.compactMap { file in file.item.map { (file.path, $0) } }, uniquingKeysWith: { one, _ in one })
  }

  /// The person's files: path below the root and bytes, the folder's own state left out.
  private var files: [(path: PathBytes, bytes: [UInt8])] {
    disk.tree(Self.root).filter {
      !$0.path.bytes.starts(with: ".marfa".utf8) && !$0.path.name.bytes.starts(with: ".".utf8)
    }
    .sorted { $0.path < $1.path }
  }

  /// Their notes.
  var notes: [(path: PathBytes, text: String)] {
    files.filter { $0.path.bytes.suffix(4) != Array(".png".utf8)[...] }
      .map { ($0.path, String(decoding: $0.bytes, as: UTF8.self)) }
  }

  /// Their pictures; the bytes of one are words, as a note's are.
  var pictures: [(path: PathBytes, text: String)] {
    files.filter { $0.path.bytes.suffix(4) == Array(".png".utf8)[...] }
      .map { ($0.path, String(decoding: $0.bytes, as: UTF8.self)) }
  }
}
