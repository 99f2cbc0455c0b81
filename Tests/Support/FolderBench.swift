import CSQLite
import FolderSync
import Glibc
import LocalInstance
import MarfaBase
import MarfaCopy
import PowerVFS

/// A real instance and any number of machines that keep a folder with it, all in memory: real engine, real queue, real
/// server, one thread.
package final class FolderBench {
  package static let origin = "http://instance.test"
  package static let key = "marfa_key_test_0123456789"

  package let clock = ManualClock()
  package let instance: Instance
  /// The instance's own store.
  package let database: Database
  package let transport: InstanceTransport
  package private(set) var machines = 0

  package init(seed: UInt64 = 7) throws {
    let database = try Database(path: ":memory:", mode: .create)
    self.database = database
    let instance = try Instance(
      database: database, blobs: MemoryBlobs(), clock: clock,
      ids: SeededIds(clock: clock, seed: seed), ownerKey: FolderBench.key)
    self.instance = instance
    transport = InstanceTransport { instance.handle($0) }
  }

  /// A machine of its own disk and registry.
  /// - Parameter storeFaults: has its stores written call by call, each of which it may refuse.
  package func machine(
    _ name: String = "ana", features: MemoryDisk.Features = .init(), storeFaults: StoreFaults? = nil
  ) -> FolderMachine {
    machines += 1
    return FolderMachine(
      bench: self, name: name, number: machines, features: features, storeFaults: storeFaults)
  }

  /// A request as another device makes it, past the machines' transport.
  @discardableResult
  package func ask(_ method: String, _ target: String, _ body: JSON? = nil) throws -> JSON {
    clock.advance(nanoseconds: 5_000_000)
    let answer = instance.handle(
      InstanceRequest(
        method: method, target: target,
        headers: [
          HTTPHeader("Authorization", "Bearer \(FolderBench.key)"), HTTPHeader("Content-Type", "application/json"),
          HTTPHeader("Accept", "application/json"),
        ], body: body?.write() ?? []))
    guard case .whole(let response) = answer else { throw BenchError("a stream") }
    let json = try response.body.isEmpty ? .null : JSON(parsing: response.body)
    guard (200..<300).contains(response.status) else {
      throw BenchError("\(method) \(target): \(response.status) \(json.compact)")
    }
    return json
  }

  /// Makes a folder's settings row; its id.
  package func folder(_ settings: JSON = ["title": "Notes", "search": ["types": ["core.note"]]]) throws -> EntityID {
    let made = try ask("POST", "/folders", settings)
    guard let id = made["item"]?["id"]?.text.flatMap({ EntityID($0) }) else { throw BenchError(made.compact) }
    return id
  }

  /// Makes an item; its id.
  @discardableResult
  package func item(
    _ title: Text, body: Text = "Words.\n", type: Text = "core.note", tags: [Text] = [], more: JSONObject = JSONObject()
  ) throws -> EntityID {
    var properties = JSONObject([("title", .string(title)), ("body", .string(body))])
    for (key, value) in more.members { properties[key] = value }
    var draft = JSONObject([("type", .string(type)), ("tier", "library"), ("properties", .object(properties))])
    if !tags.isEmpty { draft["tags"] = .array(tags.map { .string($0) }) }
    let made = try ask("POST", "/items", .object(draft))
    guard let id = made["item"]?["id"]?.text.flatMap({ EntityID($0) }) else { throw BenchError(made.compact) }
    return id
  }

  /// An edit as another device makes it, on the present version.
  package func edit(_ id: EntityID, _ properties: JSON) throws {
    let row = try ask("GET", "/items/\(id)")
    try ask(
      "PATCH", "/items/\(id)?conflict=auto",
      ["version": row["item"]?["version"] ?? .null, "properties": properties])
  }

  /// The server's item.
  package func row(_ id: EntityID) throws -> JSON { try ask("GET", "/items/\(id)?include=metadata,edges") }

  /// Every item out of the bin that is no `system.*` row, by title.
  package func titles() throws -> [String] {
    let list = try ask("GET", "/items?tier=all&state=any&limit=200&include=metadata")
    return (list["data"]?.array ?? []).compactMap { row in
      guard row["item"]?["type"]?.text?.string.hasPrefix("system.") == false,
        row["item"]?["state"]?.text != "trashed"
      else { return nil }
      return row["item"]?["properties"]?["title"]?.text?.string
    }.sorted()
  }

  /// The ids of items of a title out of the bin.
  package func ids(_ title: String) throws -> [EntityID] {
    let list = try ask("GET", "/items?tier=all&state=any&limit=200&include=metadata")
    return (list["data"]?.array ?? []).compactMap { row in
      guard row["item"]?["properties"]?["title"]?.text == Text(title), row["item"]?["state"]?.text != "trashed"
      else { return nil }
      return row["item"]?["id"]?.text.flatMap { EntityID($0) }
    }
  }
}

/// What becomes of each call with which a machine's stores are written or synced.
package final class StoreFaults {
  /// Asked before each: the code of SQLite it fails with, or nil where it is made.
  package var refusal: (() -> Int32?)?

  package init() {}
}

/// What a bench could not do.
package struct BenchError: Error, CustomStringConvertible {
  package let description: String
  package init(_ description: String) { self.description = description }
}

/// One machine: a disk, a registry, a folder at `/home/NAME/Notes`.
package final class FolderMachine {
  package let bench: FolderBench
  package let disk: MemoryDisk
  package let root: PathBytes
  /// The machine as its present process works it.
  package var folders: Folders { process() }
  /// Where a test steps into the present process (C27.1).
  package var door: FaultDoor = .none
  /// The list of folders its processes use: another name is another machine on the same disk (X1.5).
  package var registryName: PathBytes? = "folders.json"
  /// What fails of the present process's calls to the disk.
  package var faults: Faults?
  /// What a person does while the machine waits for them (P1.2).
  package var whileWaiting: (@Sendable () -> Void)?
  /// Whether the server can be reached.
  package var isOnline = true
  /// The credential this machine uses.
  package var key = FolderBench.key
  /// What its disk can be relied on for.
  package var traits = StorageTraits()
  private let stores: Stores
  private let ids: SeededIds
  private let name: String
  private let mark: String
  private let storeFaults: StoreFaults?
  private var pid: Int32

  /// Stores of a machine: memory in place of files, kept as long as the machine.
  private final class Stores {
    var kept: [PathBytes: (database: Database, blobs: MemoryBlobStore)] = [:]
    /// Where a moved root's store was made.
    var places: [PathBytes: PathBytes] = [:]
  }

  init(bench: FolderBench, name: String, number: Int, features: MemoryDisk.Features, storeFaults: StoreFaults?) {
    self.storeFaults = storeFaults
    self.bench = bench
    self.name = name
    disk = MemoryDisk(clock: bench.clock, features: features)
    root = PathBytes("/home/\(name)/Notes")
    stores = Stores()
    ids = SeededIds(clock: bench.clock, seed: UInt64(number) + 1000)
    mark = "bench-\(ObjectIdentifier(bench).hashValue)-\(number)"
    pid = Int32(100 * number)
    try? disk.makeDirectory(PathBytes("/home/\(name)"))
    guard let storeFaults, let storeDisk else { return }
    _ = marfa_power_register()
    // The faults outlive the disk: the machine owns both.
    marfa_power_watch(
      storeDisk,
      { context, _, _ in
        guard let context else { return 0 }
        return Unmanaged<StoreFaults>.fromOpaque(context).takeUnretainedValue().refusal?() ?? 0
      }, Unmanaged.passUnretained(storeFaults).toOpaque())
  }

  /// Where stores stand whose calls are asked for; nil where they share memory.
  private var storeDisk: String? { storeFaults == nil ? nil : "/\(mark)/" }

  deinit { if let storeDisk { marfa_power_remove(storeDisk) } }

  /// Ends the process and starts another: no fault, no door; what died with it leaves locks and temporary files behind.
  package func restart() {
    disk.kill(pid: pid)
    pid += 1
    door = .none
    faults = nil
  }

  private func process() -> Folders {
    let home = PathBytes("/home/\(name)")
    let memory = MemoryFileSystem(disk, pid: pid)
    let faults = faults
    let files: any FileSystem = faults.map { FaultyFileSystem(memory, $0) } ?? memory
    let (disk, stores, mark, prefix) = (disk, stores, mark, storeDisk)
    let scheduler = ManualScheduler(clock: bench.clock)
    scheduler.onWait(whileWaiting)
    let traits = traits
    var folders = Folders(
      context: Context(
        clock: bench.clock, ids: ids, files: files, transport: isOnline ? bench.transport : NoTransport(),
        scheduler: scheduler, log: SilentLog(), door: door, sabotage: FolderMachine.sabotage),
      registry: registryName.map { name in
        Registry(
          path: home.appending(name), files: files,
          isForeign: { root in disk.text(root.appending(RootIdentity.storePath)) == FolderMachine.foreignStore })
      },
      endpoint: Endpoint(baseURL: FolderBench.origin, credential: key),
      door: StoreDoor(
        database: { root, mode in
          let path = root.appending(RootIdentity.storePath)
          let root = stores.places[root] ?? root
          let name = root.description.replacing("/", with: "_")
          let uri = prefix.map { "file:\($0)\(name)?vfs=power" } ?? "file:\(mark)-\(name)?mode=memory&cache=shared"
          // Made by the engine as an empty file of its owner's alone, or missing: a new store.
          if disk.read(path)?.isEmpty ?? true {
            stores.kept[root] = nil
            try disk.write(path, "a store")
          }
          if stores.kept[root] == nil {
            stores.kept[root] = (try Database(path: uri, mode: .create), MemoryBlobStore())
          }
          let database = try Database(path: uri, mode: mode == .create ? .create : .readWrite)
          if let faults {
            // Nothing a dead process commits happens. The faults outlive the connection: the machine holds both.
            sqlite3_commit_hook(
              database.handle,
              { argument in
                guard let argument else { return 0 }
                return Unmanaged<Faults>.fromOpaque(argument).takeUnretainedValue().crashed ? 1 : 0
              }, Unmanaged.passUnretained(faults).toOpaque())
          }
          return database
        },
        blobs: { root in stores.kept[stores.places[root] ?? root]?.blobs ?? MemoryBlobStore() }))
    folders.traits = { _ in traits }
    return folders
  }

  /// The guard a run of the tests takes away: `MARFA_SABOTAGE`, for the null run.
  private static let sabotage = Sabotage.reading(getenv("MARFA_SABOTAGE").map { String(cString: $0) })

  /// What a store of another program holds.
  package static let foreignStore = "another program's"

  /// The store of a folder fails to queue the end of a placement (F44.19), until `takeEnds`.
  package func refuseEnds(of root: PathBytes) throws {
    try stores.kept[root]?.database.execute(
      """
      CREATE TRIGGER refuse_ends BEFORE INSERT ON queue WHEN NEW.kind = 'delete_edge'
      BEGIN SELECT RAISE(ABORT, 'refused by the test'); END
      """)
  }

  package func takeEnds(of root: PathBytes) throws {
    try stores.kept[root]?.database.execute("DROP TRIGGER refuse_ends")
  }

  /// A store goes with the directory that was renamed.
  package func moveStore(of root: PathBytes, to target: PathBytes) {
    stores.places[target] = stores.places[root] ?? root
  }

  /// Adds the folder, its first sync confirmed.
  package func add(_ folder: EntityID) throws { _ = try folders.add(root, following: folder, yes: true) }

  /// One push; the report.
  @discardableResult
  package func push() throws -> FolderPush {
    bench.clock.advance(nanoseconds: 50_000_000)
    switch try folders.push(root) {
    case .pushed(let push): return push
    case .waiting(let reading): throw BenchError("the first sync waits: \(reading.json.compact)")
    }
  }

  /// Writes a file as an editor that saves in place.
  package func write(_ path: String, _ text: String) throws {
    bench.clock.advance(nanoseconds: 3_000_000_000)
    try disk.write(root.appending(PathBytes(path)), text)
  }

  /// Writes a file as an editor that saves a new file over the old.
  package func save(_ path: String, _ text: String) throws {
    bench.clock.advance(nanoseconds: 3_000_000_000)
    try disk.save(root.appending(PathBytes(path)), Array(text.utf8))
  }

  package func text(_ path: String) -> String? { disk.text(root.appending(PathBytes(path))) }
  package func delete(_ path: String) throws { try disk.delete(root.appending(PathBytes(path))) }

  package func rename(_ path: String, to target: String) throws {
    try disk.rename(root.appending(PathBytes(path)), to: root.appending(PathBytes(target)))
  }

  /// The files outside `.marfa/`, in path order.
  package func files() -> [String] {
    disk.tree(root).map { $0.path.description }.map { path in
      path.hasPrefix(root.description + "/") ? String(path.dropFirst(root.description.count + 1)) : path
    }.filter { !$0.hasPrefix(".marfa/") }.sorted()
  }

  /// Past the grace of a delete.
  package func grace() { bench.clock.advance(seconds: 6) }
}

/// No way to any server.
private struct NoTransport: Transport {
  func send(_ request: HTTPRequest, stop: StopFlag) throws(TransportError) -> HTTPResponse {
    throw .unreachable("nothing answers")
  }
  func stream(
    _ request: HTTPRequest, silence: UInt64, stop: StopFlag, head: (HTTPResponse) -> StreamStep,
    piece: ([UInt8]) -> StreamStep
  ) throws(TransportError) -> StreamEnd { throw .unreachable("nothing answers") }
  func pool(stop: StopFlag) -> any RequestPool { NoPool() }

  private final class NoPool: RequestPool {
    private var tags: [Int] = []
    var inFlight: Int { tags.count }
    func start(_ request: HTTPRequest, tag: Int) { tags.append(tag) }
    func next() -> (tag: Int, result: Result<HTTPResponse, TransportError>)? {
      tags.isEmpty ? nil : (tags.removeFirst(), .failure(.unreachable("nothing answers")))
    }
    func cancel() { tags = [] }
  }
}
