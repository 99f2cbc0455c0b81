import CPosix
import CSQLite
import Glibc
import MarfaBase
import Synchronization
import Testing

@testable import LocalInstance

@Suite("What an instance says of itself, and what it survives") struct InstanceFaceTests {
  @Test("IN-S1 the root without a credential has the five members; a browser gets a page; both vary by Accept")
  func root() throws {
    let bench = try Bench()
    let plain = bench.send("GET", "/", key: "")
    #expect(plain.status == 200)
    #expect(Set(plain.json.object?.keys ?? []) == ["name", "version", "instance_id", "contract", "features"])
    #expect(plain.json["contract"] == 0 && plain.json["name"] == "marfa")
    #expect(plain.json["instance_id"]?.text.flatMap { EntityID($0) }?.isVersion7 == true)
    #expect(plain.json["features"]?.array?.isEmpty == false)
    #expect(plain.response.header("Vary") == "Accept")
    let page = bench.send("GET", "/", key: "", headers: [HTTPHeader("Accept", "text/html,*/*;q=0.1")])
    #expect(page.status == 200 && page.response.header("Content-Type")?.hasPrefix("text/html") == true)
    #expect(page.words.contains("<html") || page.words.contains("<!doctype"))
    #expect(page.response.header("Vary") == "Accept")
    let both = bench.send("GET", "/", key: "", headers: [HTTPHeader("Accept", "application/json, text/html;q=0.5")])
    #expect(both.response.header("Content-Type") == "application/json")
  }

  @Test("IN-S2 the same database keeps its identity over restarts, another has another; config and markers name it too")
  func identity() throws {
    let scratch = Scratch()
    let path = scratch.path.appending("a.sqlite").description
    func identity(_ path: String, seed: UInt64) throws -> (Text?, Bench) {
      let bench = try Bench(path: path, seed: seed)
      return (bench.send("GET", "/", key: "").json["instance_id"]?.text, bench)
    }
    var (first, bench) = try identity(path, seed: 1)
    #expect(bench.send("GET", "/config").json["instance_id"]?.text == first)
    let marker = bench.send("GET", "/events?copy=1&edges=all").frames().first
    #expect(marker?.data["instance_id"]?.text == first)
    for seed in [2, 3] as [UInt64] {
      let again: Text?
      (again, bench) = try identity(path, seed: seed)
      #expect(again == first && first != nil)
    }
    let other: Text?
    (other, bench) = try identity(scratch.path.appending("b.sqlite").description, seed: 4)
    #expect(other != nil && other != first)
  }

  @Test("IN-S3 a success, a 400, 401, 404 on no route, 429, a stream and a preflight each name contract 0")
  func contract() throws {
    let bench = try Bench()
    func named(_ answer: Answer) -> Bool {
      answer.response.headers.filter { $0.name.lowercased() == "x-marfa-contract" }.map(\.value) == ["0"]
    }
    let success = bench.send("GET", "/items")
    #expect(success.status == 200 && named(success))
    let bad = bench.send("GET", "/items?limit=x")
    #expect(bad.status == 400 && named(bad))
    let none = bench.send("GET", "/items", key: "marfa_k1_unknown")
    #expect(none.status == 401 && named(none))
    let nowhere = bench.send("GET", "/nowhere/at/all")
    #expect(nowhere.status == 404 && named(nowhere))
    let stream = bench.send("GET", "/events")
    #expect(stream.status == 200 && stream.source != nil && named(stream))
    stream.source?.close()
    let preflight = bench.send("OPTIONS", "/items", key: "")
    #expect((200..<300).contains(preflight.status) && named(preflight))
    bench.instance.settings.requestsPerMinute = 1
    _ = bench.send("GET", "/items")
    let limited = bench.send("GET", "/items")
    #expect(limited.status == 429 && named(limited))
  }

  /// Blobs whose place a test takes away.
  private final class LostBlobs: InstanceBlobs {
    private let held = MemoryBlobs()
    var isReachable = true
    var available: Int?
    func keep(_ bytes: [UInt8], as hash: ContentHash) { held.keep(bytes, as: hash) }
    func size(of hash: ContentHash) -> Int? { held.size(of: hash) }
    func read(_ hash: ContentHash, from start: Int, count: Int) -> [UInt8]? {
      held.read(hash, from: start, count: count)
    }
    func remove(_ hash: ContentHash) { held.remove(hash) }
  }

  @Test("IN-S6 each component down is 503 with its word; a disk nearly full is degraded, and 200")
  func health() throws {
    let clock = ManualClock()
    let database = try Database(path: ":memory:", mode: .create)
    let blobs = LostBlobs()
    let instance = try Instance(
      database: database, blobs: blobs, clock: clock, ids: SeededIds(clock: clock, seed: 1), ownerKey: Bench.ownerKey)
    func ask() throws -> (Int, [Text: Text]) {
      guard case .whole(let response) = instance.handle(InstanceRequest(method: "GET", target: "/health")) else {
        return (0, [:])
      }
      var words: [Text: Text] = [:]
      for (name, word) in try JSON(parsing: response.body)["components"]?.object?.members ?? [] {
        words[name] = word.text
      }
      return (response.status, words)
    }
    let well: [Text: Text] = ["database": "ok", "database_write": "ok", "disk": "ok", "blob_storage": "ok"]
    #expect(try ask() == (200, well))
    blobs.available = instance.settings.diskReserve - 1
    var words = well
    words["disk"] = "degraded"
    words["blob_storage"] = "degraded"
    #expect(try ask() == (200, words))
    blobs.available = 0
    words["disk"] = "down"
    #expect(try ask() == (503, words))
    blobs.available = nil
    blobs.isReachable = false
    words = well
    words["blob_storage"] = "down"
    #expect(try ask() == (503, words))
    blobs.isReachable = true
    // A database that may be read and not written.
    sqlite3_set_authorizer(
      database.handle, { _, action, _, _, _, _ in action == SQLITE_TRANSACTION ? SQLITE_DENY : SQLITE_OK }, nil)
    words = well
    words["database_write"] = "down"
    #expect(try ask() == (503, words))
    sqlite3_set_authorizer(database.handle, { _, _, _, _, _, _ in SQLITE_DENY }, nil)
    words["database"] = "down"
    #expect(try ask() == (503, words))
    sqlite3_set_authorizer(database.handle, nil, nil)
    #expect(try ask() == (200, well))
    // The real place of blobs, taken away.
    let scratch = Scratch()
    let place = scratch.path.appending("blobs")
    let real = try DirectoryBlobs(place)
    #expect(real.isReachable)
    _ = place.withCString { rmdir($0) }
    #expect(!real.isReachable)
  }

  @Test("IN-S8 a database of a newer build, or not its own, is refused by name and stays as it is, byte for byte")
  func newer() throws {
    let scratch = Scratch()
    let home = InstanceHome(scratch.path.appending("instance"))
    _ = try SystemFileSystem().makeDirectories(home.path, mode: 0o700)
    let log = PathBytes("\(home.database)-wal")
    let cases: [(String, String?)] = [
      ("newer", "PRAGMA user_version = 999; CREATE TABLE item (id TEXT)"),
      ("newer, killed before its log was moved in", nil),
      ("another's", "CREATE TABLE photos (id TEXT)"),
      ("another's of our number", "PRAGMA user_version = 5; CREATE TABLE photos (id TEXT)"),
      ("no database", nil),
    ]
    for (name, sql) in cases {
      for path in [home.database, log, PathBytes("\(home.database)-shm")] { _ = path.withCString { unlink($0) } }
      if let sql {
        let database = try Database(path: home.database.description, mode: .create)
        try database.execute(sql)
      } else if name == "no database" {
        try write(home.database, Array(String(repeating: "The notes of somebody. ", count: 300).utf8))
      } else {
        let other = scratch.path.appending("other.sqlite")
        let database = try Database(path: other.description, mode: .create)
        try database.execute("CREATE TABLE item (id TEXT)")
        try database.execute("PRAGMA journal_mode = WAL; PRAGMA user_version = 999; CREATE TABLE more (id TEXT)")
        try write(home.database, try bytes(other))
        try write(log, try bytes(PathBytes("\(other)-wal")))
        #expect(try !bytes(log).isEmpty)
      }
      let before = try bytes(home.database)
      func held(_ path: PathBytes) throws -> [UInt8]? {
        path.withCString { access($0, F_OK) } == 0 ? try bytes(path) : nil
      }
      let logBefore = try held(log)
      let clock = SystemClock()
      let failure = #expect(throws: InstanceFailure.self, "\(name)") {
        try home.run(
          InstanceRunOptions(), stop: StopFlag(), clock: clock, ids: SystemIds(clock: clock),
          ready: { _ in Issue.record("it was served") })
      }
      guard case .foreign(let words)? = failure else {
        Issue.record("\(name): \(failure.map { "\($0)" } ?? "no failure")")
        continue
      }
      #expect(words.contains(home.path.description))
      #expect(try bytes(home.database) == before, "\(name)")
      #expect(try held(log) == logBefore, "\(name)")
      #expect(!home.isAnswering() && home.status().isRunning == false)
    }
  }

  private func write(_ path: PathBytes, _ content: [UInt8]) throws {
    let descriptor = path.withCString { marfa_openat(AT_FDCWD, $0, O_WRONLY | O_CREAT | O_TRUNC, 0o600) }
    try #require(descriptor >= 0)
    #expect(marfa_write_all(descriptor, content, content.count) == 0)
    close(descriptor)
  }

  private func bytes(_ path: PathBytes) throws -> [UInt8] {
    let descriptor = path.withCString { marfa_openat(AT_FDCWD, $0, O_RDONLY, 0) }
    try #require(descriptor >= 0)
    defer { close(descriptor) }
    var out: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = Glibc.read(descriptor, &buffer, buffer.count)
      if count <= 0 { return out }
      out += buffer[..<count]
    }
  }

  @Test(
    "EV-S26 RV-S18 an unreadable head: a plain stream goes live with cursor null, a copy stream ends without a marker")
  func unreadableHead() throws {
    let bench = try Bench()
    _ = bench.noteID()
    sqlite3_set_authorizer(
      bench.database.handle,
      { _, action, table, _, _, _ in
        guard action == SQLITE_READ, let table else { return SQLITE_OK }
        return strcmp(table, "event") == 0 || strcmp(table, "sqlite_sequence") == 0 ? SQLITE_DENY : SQLITE_OK
      }, nil)
    let plain = bench.send("GET", "/events")
    #expect(plain.status == 200)
    let opened = plain.frames()
    #expect(opened.map(\.kind) == ["stream_live"])
    #expect(opened.first?.data["cursor"]?.isNull == true)
    let copy = bench.send("GET", "/events?copy=1&edges=all")
    #expect(copy.status == 200)
    let frames = copy.frames()
    #expect(frames.map(\.kind) == ["stream_incomplete"])
    #expect(frames.first?.data["cursor"]?.isNull == true && frames.first?.data["reason"]?.text != nil)
    #expect(copy.source?.take() == nil)
    let resumed = bench.send("GET", "/events", headers: [HTTPHeader("Last-Event-ID", "1")])
    #expect(resumed.frames().map(\.kind) == ["stream_incomplete"])
    // Once the log can be read again the plain stream carries what comes.
    sqlite3_set_authorizer(bench.database.handle, nil, nil)
    #expect(plain.frames().isEmpty)
    let note = bench.noteID()
    #expect(plain.frames().map(\.itemID) == [note])
    plain.source?.close()
  }
}
