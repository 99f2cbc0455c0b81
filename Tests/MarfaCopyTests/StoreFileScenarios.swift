import MarfaBase
import MarfaCopy
import Testing
import TestSupport

@Suite("The store file") struct StoreFileScenarios {
  /// A directory of its own, and a context over the real file system.
  private final class Place {
    let directory: TemporaryDirectory
    let bench: CopyBench
    let context: Context

    init() throws {
      directory = try TemporaryDirectory()
      bench = try CopyBench()
      let clock = bench.clock
      context = Context(
        clock: clock, ids: SeededIds(clock: clock, seed: 500), files: SystemFileSystem(), transport: bench.transport,
        scheduler: bench.scheduler, log: SilentLog())
    }

    func path(_ name: String) -> PathBytes { PathBytes("\(directory.path)/\(name)") }

    func open(
      _ name: String = "copy.sqlite", _ role: WorkingCopy.Role = .writer, replace: Bool = false
    ) throws -> OpenStore {
      try OpenStore.open(
        path: path(name), context: context, role: role,
        endpoint: Endpoint(baseURL: CopyBench.origin, credential: CopyBench.key), credentials: nil,
        ifRefused: replace ? .replace : .keep)
    }

    func names() throws -> [String] {
      try SystemFileSystem().openDirectory(PathBytes("\(directory.path)")).list().map { $0.name.description }.sorted()
    }
  }

  private static func note(_ copy: WorkingCopy, _ title: Text = "N") throws {
    try copy.queue.createItem(ItemDraft(type: "core.note", properties: ["title": .string(title), "body": "x"]))
  }

  @Test("D-S31 a second opener reads, searches and reports, and every write is refused and queues nothing")
  func secondOpener() throws {
    let place = try Place()
    let note = try place.bench.note("Soup", body: "Boil the stock.")
    let writer = try place.open()
    try writer.copy.hydrate(Slice(types: ["core.note"], tier: "library", edgeTypes: []))
    #expect(place.bench.refusal { _ = try place.open() }?.code == .readingHandle)
    let reader = try place.open("copy.sqlite", .reader).copy
    #expect(reader.role == .reader)
    #expect(try titles(reader.list(ListQuery())) == ["Soup"])
    // The writer never searched, so the reader finds by itself.
    #expect(try reader.search("stock").map(\.item.id) == [note])
    #expect(try reader.status().items == 1)
    for refusal in [
      place.bench.refusal { try StoreFileScenarios.note(reader) },
      place.bench.refusal { try reader.queue.updateItem(note, ItemEdit(properties: ["title": "x"], version: 1)) },
      place.bench.refusal { try reader.queue.deleteItem(note) },
      place.bench.refusal { try reader.queue.addTag(note, "t") },
      place.bench.refusal { try reader.queue.createEdge(EdgeDraft(source: note, target: note, type: "references")) },
      place.bench.refusal { try reader.queue.drain() }, place.bench.refusal { try reader.pin(note, owner: "x") },
      place.bench.refusal { try reader.unpin(note, owner: "x") },
    ] {
      #expect(refusal?.code == .readingHandle)
    }
    #expect(try writer.copy.queue.all().isEmpty)
    // What the writer saves next is found too.
    try StoreFileScenarios.note(writer.copy, "Stock pot")
    #expect(try reader.search("stock").count == 2)
    withExtendedLifetime(writer) {}
  }

  @Test("D-S33 two stores that share a stem each have a writer")
  func stems() throws {
    let place = try Place()
    let (one, two) = (try place.open("notes.sqlite"), try place.open("notes.db"))
    for open in [one, two] { try StoreFileScenarios.note(open.copy) }
    #expect(try one.copy.queue.all().count == 1 && two.copy.queue.all().count == 1)
    #expect(place.bench.refusal { _ = try place.open("notes.db") }?.code == .readingHandle)
  }

  @Test(
    "D-S34 a reader opened first is told once of each save; the writer has the role, and a last reader writes nothing")
  func toldOfSaves() throws {
    let place = try Place()
    try StoreFileScenarios.note(try place.open().copy, "First")
    var reader: OpenStore? = try place.open("copy.sqlite", .reader)
    var told = 0
    func poll() throws { if try #require(reader).copy.wasSavedElsewhere() { told += 1 } }
    try poll()
    #expect(told == 0)
    var writer: OpenStore? = try place.open()
    #expect(writer?.copy.role == .writer)
    for number in 0..<3 {
      try StoreFileScenarios.note(try #require(writer).copy, Text("N\(number)"))
      for _ in 0..<3 { try poll() }
    }
    #expect(told == 3)
    #expect(try reader?.copy.queue.all().count == 4)
    writer = nil
    let path = "\(place.directory.path)/copy.sqlite"
    let before = try FileBytes.of(path)
    reader = nil
    #expect(try FileBytes.of(path) == before)
    #expect(told == 3)
  }

  @Test("D-S35 a reader where no store lies is refused and makes none; a file that is no store keeps its own error")
  func noStore() throws {
    let place = try Place()
    #expect(place.bench.refusal { _ = try place.open("none.sqlite", .reader) }?.code == .noStore)
    #expect(
      place.bench.refusal { try OpenStore.remove(path: place.path("none.sqlite"), unsent: 0, context: place.context) }?
        .code == .noStore)
    #expect(try place.names().isEmpty)
    let file = try SystemFileSystem().openDirectory(PathBytes("\(place.directory.path)"))
      .create("words.sqlite", mode: 0o600, exactMode: true)
    try file.write(Array("These are words, and they are no database at all. ".utf8))
    try file.close()
    for role in [WorkingCopy.Role.reader, .writer] {
      #expect(place.bench.refusal { _ = try place.open("words.sqlite", role) }?.code == .store)
    }
  }

  @Test("D-S38 store, journals, lock and bytes are the owner's alone, whatever the umask")
  func modes() throws {
    let place = try Place()
    // Tests run under the usual umask, which lets everybody read what asks for nothing else.
    let plain = "\(place.directory.path)/plain.sqlite"
    try Database(path: plain, mode: .create).execute("CREATE TABLE t (a)")
    #expect((try SystemFileSystem().status(PathBytes(plain))?.mode ?? 0) & 0o077 != 0)
    let open = try place.open()
    try StoreFileScenarios.note(open.copy)
    let hash = try open.copy.blobs.put(Array("bytes".utf8))
    let files = SystemFileSystem()
    for name in ["copy.sqlite", "copy.sqlite-wal", "copy.sqlite-shm", "copy.sqlite.lock"] {
      #expect(try files.status(place.path(name))?.mode == 0o600, "\(name)")
    }
    #expect(try files.status(place.path("copy.sqlite.blobs"))?.mode == 0o700)
    #expect(try files.status(place.path("copy.sqlite.blobs/\(hash.hex)"))?.mode == 0o600)
  }

  @Test(
    "D-S36 a store of another build is refused to writer and reader by its path, unsent counted, no deletion advised")
  func wrongSchema() throws {
    for change in ["PRAGMA user_version = 99", "ALTER TABLE pin ADD COLUMN more TEXT"] {
      let place = try Place()
      var open: OpenStore? = try place.open()
      try StoreFileScenarios.note(try #require(open).copy)
      try StoreFileScenarios.note(try #require(open).copy)
      try open?.copy.database.execute("UPDATE queue SET verdict = 'blocked', reason = 'key_spent' WHERE seq = 1")
      try open?.copy.database.execute(change)
      open = nil
      let before = try FileBytes.of("\(place.directory.path)/copy.sqlite")
      for role in [WorkingCopy.Role.reader, .writer] {
        let refusal = place.bench.refusal { _ = try place.open("copy.sqlite", role) }
        #expect(refusal?.code == .wrongSchema)
        #expect(refusal?.message.contains("\(place.directory.path)/copy.sqlite") == true)
        #expect(refusal?.message.contains("2 unsent") == true && refusal?.reason == "2")
        #expect(refusal?.message.contains("delet") == false)
      }
      #expect(try FileBytes.of("\(place.directory.path)/copy.sqlite") == before)
    }
  }

  @Test(
    "D-S39 a refused store without unsent writes is replaced by an empty one that keeps the bytes; with some it throws")
  func replace() throws {
    let place = try Place()
    try place.bench.note("Held")
    var open: OpenStore? = try place.open()
    try open?.copy.hydrate(Slice(types: ["core.note"], tier: "library", edgeTypes: []))
    let hash = try #require(try open?.copy.blobs.put(Array("bytes".utf8)))
    try StoreFileScenarios.note(try #require(open).copy)
    try open?.copy.database.execute("PRAGMA user_version = 99")
    open = nil
    let refusal = place.bench.refusal { _ = try place.open(replace: true) }
    #expect(refusal?.code == .wrongSchema && refusal?.message.contains("1 unsent") == true)
    try Database(path: "\(place.directory.path)/copy.sqlite", mode: .readWrite)
      .execute("UPDATE queue SET verdict = 'accepted'")
    #expect(place.bench.refusal { _ = try place.open() }?.code == .wrongSchema)
    open = try place.open(replace: true)
    let status = try #require(open).copy.status()
    #expect(status.hydration == .never && status.items == 0 && status.eventCursor == nil)
    #expect(try open?.copy.queue.all().isEmpty == true)
    #expect(try open?.copy.blobs.bytes(hash) == Array("bytes".utf8))
  }

  @Test("D-S40 a store is removed with everything of its own by the count of its unsent writes alone")
  func remove() throws {
    let place = try Place()
    var open: OpenStore? = try place.open()
    for _ in 0..<2 { try StoreFileScenarios.note(try #require(open).copy) }
    _ = try open?.copy.blobs.put(Array("bytes".utf8))
    open = nil
    let other = try place.open("other.sqlite")
    let before = try place.names()
    let refusal = place.bench.refusal {
      try OpenStore.remove(path: place.path("copy.sqlite"), unsent: 1, context: place.context)
    }
    #expect(refusal?.code == .unsentDiffers && refusal?.message.contains("2") == true)
    #expect(try place.names() == before)
    try OpenStore.remove(path: place.path("copy.sqlite"), unsent: 2, context: place.context)
    #expect(try place.names().allSatisfy { $0.hasPrefix("other.sqlite") } && place.names().count > 0)
    withExtendedLifetime(other) {}
    // One of another build goes too, where it can be counted.
    open = try place.open()
    try StoreFileScenarios.note(try #require(open).copy)
    try open?.copy.database.execute("PRAGMA user_version = 99")
    open = nil
    try OpenStore.remove(path: place.path("copy.sqlite"), unsent: 1, context: place.context)
    #expect(try place.names().allSatisfy { $0.hasPrefix("other.sqlite") })
    open = try place.open()
    try open?.copy.database.execute("DROP TABLE queue")
    open = nil
    #expect(
      place.bench.refusal { try OpenStore.remove(path: place.path("copy.sqlite"), unsent: 0, context: place.context) }
        != nil)
    #expect(try place.names().contains("copy.sqlite"))
  }

  @Test("D-S41 a store open to write in this process, and a folder's store, are not removed; readers stop nothing")
  func removeRefused() throws {
    let place = try Place()
    var open: OpenStore? = try place.open()
    func removal() -> MarfaError? {
      place.bench.refusal { try OpenStore.remove(path: place.path("copy.sqlite"), unsent: 0, context: place.context) }
    }
    #expect(removal()?.code == .readingHandle)
    try open?.copy.database.execute(
      """
      CREATE TABLE folder_fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
      INSERT INTO folder_fact (name, value) VALUES ('folder', '01990000-0000-7000-8000-0000000000a1');
      """)
    open = nil
    #expect(removal()?.code == .invalid)
    #expect(try place.names().contains("copy.sqlite"))
    try Database(path: "\(place.directory.path)/copy.sqlite", mode: .readWrite).execute("DROP TABLE folder_fact")
    let reader = try place.open("copy.sqlite", .reader)
    #expect(removal() == nil)
    #expect(try place.names().isEmpty)
    withExtendedLifetime(reader) {}
  }

  @Test("D-S37 a table this build adds is added by a writer; a reader says to open it once with the writer")
  func addedTable() throws {
    let place = try Place()
    var open: OpenStore? = try place.open()
    try open?.copy.database.execute("DROP TABLE purged")
    open = nil
    let refusal = place.bench.refusal { _ = try place.open("copy.sqlite", .reader) }
    #expect(refusal?.code == .invalid && refusal?.message.contains("writer") == true)
    open = try place.open()
    open = nil
    _ = try place.open("copy.sqlite", .reader)
  }

  @Test(
    "P-S14 P4.1 a store of an earlier schema is kept aside and migrated once, and its queue drains; a later one stays byte-identical"
  )
  func migrates() throws {
    let place = try Place()
    var open: OpenStore? = try place.open()
    try StoreFileScenarios.note(try #require(open).copy)
    // A store as an earlier build made it: its pin table had no owner.
    try open?.copy.database.execute(
      """
      DROP TABLE pin; CREATE TABLE pin (item TEXT PRIMARY KEY) WITHOUT ROWID;
      INSERT INTO pin (item) VALUES ('01990000-0000-7000-8000-0000000000a1'); PRAGMA user_version = -1;
      """)
    open = nil
    let migration = Migration(from: -1, to: 1) { database in
      try database.execute(
        """
        ALTER TABLE pin RENAME TO old;
        CREATE TABLE pin (item TEXT NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (item, owner)) WITHOUT ROWID;
        INSERT INTO pin (item, owner) SELECT item, 'app' FROM old; DROP TABLE old;
        """)
    }
    #expect(
      place.bench.refusal { _ = try place.open("copy.sqlite", .reader) }?.code == .wrongSchema)
    let migrated = try OpenStore.open(
      path: place.path("copy.sqlite"), context: place.context, role: .writer,
      endpoint: Endpoint(baseURL: CopyBench.origin, credential: CopyBench.key), credentials: nil,
      migrations: [migration])
    #expect(try migrated.copy.pins(owner: "app").count == 1)
    #expect(try migrated.copy.queue.unansweredCount() == 1)
    #expect(try place.names().contains("copy.sqlite.before--1"))
    let kept = try Database(path: "\(place.directory.path)/copy.sqlite.before--1", mode: .readOnly)
    #expect(try kept.one("PRAGMA user_version") { $0.int(0) } == -1)
    _ = try migrated.copy.hydrate(Slice(types: ["core.note"], tier: "library", edgeTypes: []))
    // What waited goes, and the next opening finds nothing to do.
    #expect(try migrated.copy.queue.drain().verdicts.map(\.verdict) == [.accepted])
    #expect(try migrated.copy.queue.unansweredCount() == 0)
  }

  @Test("P-S14 a store of a later schema is refused, and not a byte of it changes")
  func laterSchema() throws {
    let place = try Place()
    var open: OpenStore? = try place.open()
    try StoreFileScenarios.note(try #require(open).copy)
    try open?.copy.database.execute("PRAGMA user_version = 99; PRAGMA wal_checkpoint(TRUNCATE)")
    open = nil
    func bytes() throws -> [UInt8] {
      let file = try SystemFileSystem().openDirectory(PathBytes("\(place.directory.path)")).open("copy.sqlite")
      var bytes: [UInt8] = []
      while true {
        let more = try file.read(limit: 1 << 16)
        if more.isEmpty { return bytes }
        bytes += more
      }
    }
    let before = try bytes()
    for role in [WorkingCopy.Role.writer, .reader, .writer] {
      #expect(place.bench.refusal { _ = try place.open("copy.sqlite", role) }?.code == .wrongSchema)
      #expect(try bytes() == before)
    }
    #expect(try !place.names().contains { $0.hasPrefix("copy.sqlite.before") })
  }
}
