import CSQLite
import FolderSync
import LocalInstance
import MarfaBase
import MarfaCopy
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
  /// The items it said it did not write.
  var heldItems: Set<String> = []
  let transport: SimTransport
  private let clock: ManualClock
  private let ids: SeededIds
  private let storeName: String
  /// Holds the shared memory of the store, as the disk holds its file.
  private var keeper: Database?
  private let blobs = MemoryBlobStore()
  private var process: Int32
  private let ownerKey: String

  init(number: Int, clock: ManualClock, instance: Instance, ownerKey: String, seed: UInt64) throws {
    self.number = number
    self.clock = clock
    self.ownerKey = ownerKey
    disk = MemoryDisk(clock: clock)
    transport = SimTransport(
      InstanceTransport { instance.handle($0) }, kill: kill, seed: seed &* 31 &+ UInt64(number))
    ids = SeededIds(clock: clock, seed: seed &* 131 &+ UInt64(number))
    storeName = "machine\(number)of\(seed)"
    process = Int32(1000 * (number + 1))
    try disk.makeDirectory("/home/person")
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
      log: SilentLog())
    let folders = Folders(
      context: context, registry: Registry(path: Self.registryPath, files: files),
      endpoint: Endpoint(baseURL: "http://local", credential: ownerKey), door: door())
    defer { disk.kill(pid: process) }
    return try work(folders)
  }

  /// The store as shared memory. A commit of a killed process does not happen.
  private func door() -> StoreDoor {
    let uri = "file:\(storeName)?mode=memory&cache=shared"
    return StoreDoor(
      database: { [self] root, mode in
        if keeper == nil { keeper = try Database(path: uri, mode: .create) }
        let database = try Database(path: uri, mode: .create)
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

  /// Writes the store as it stands to a file.
  func keepStore(at path: String) throws { try keeper?.run("VACUUM INTO ?", Text(path)) }

  /// Whose file each path is, as the machine's `status` tells it.
  func owners() throws -> [String: String] {
    let status = try run { try $0.status(Self.root) }
    return Dictionary(
      status.files.compactMap { file in file.item.map { (file.path, $0) } }, uniquingKeysWith: { one, _ in one })
  }

  /// Forgets the store, as a directory that was removed does.
  func loseStore() { keeper = nil }

  /// The person's files: path below the root and text, the folder's own state left out.
  var notes: [(path: PathBytes, text: String)] {
    disk.tree(Self.root).filter {
      !$0.path.bytes.starts(with: ".marfa".utf8) && !$0.path.name.bytes.starts(with: ".".utf8)
    }
    .map { ($0.path, String(decoding: $0.bytes, as: UTF8.self)) }
    .sorted { $0.path < $1.path }
  }
}
