import CPosix
import Glibc
import MarfaBase
import Synchronization
import Testing

@testable import LocalInstance

/// Answers everything with 200.
private final class PlainEngine: ServedEngine {
  var onEvents: (() -> Void)?
  func handle(_ request: InstanceRequest) -> InstanceAnswer { .whole(HTTPResponse(status: 200)) }
  func batch(_ work: () throws -> Void) throws { try work() }
  func tick() {}
  func stop() {}
}

private func mode(_ path: PathBytes) -> UInt32? {
  var found = marfa_stat()
  return path.withCString { marfa_statx(AT_FDCWD, $0, &found) } == 0 ? found.mode & 0o777 : nil
}

/// A directory that goes with the test.
final class Scratch: Sendable {
  let path: PathBytes
  init() {
    var template = Array("/tmp/marfa-home-XXXXXX".utf8CString)
    path = template.withUnsafeMutableBufferPointer { PathBytes(String(cString: mkdtemp($0.baseAddress!))) }
  }
  deinit { Self.remove(path) }

  private static func remove(_ path: PathBytes) {
    for name in PrivateFile.names(in: path) { remove(path.appending(name)) }
    if path.withCString({ unlink($0) }) != 0 { _ = path.withCString { rmdir($0) } }
  }

  func write(_ name: String, _ text: String, mode: UInt32) -> PathBytes {
    let file = path.appending(PathBytes(name))
    let descriptor = file.withCString { marfa_openat(AT_FDCWD, $0, O_CREAT | O_WRONLY | O_TRUNC, mode) }
    _ = marfa_write_all(descriptor, text, text.utf8.count)
    close(descriptor)
    return file
  }
}

/// A stand-in for our own binary: takes the lock as a run does, listens, and ends at SIGTERM.
private let program = """
  #!/usr/bin/python3
  import sys, os, socket, fcntl, signal, time
  data = sys.argv[sys.argv.index('--data') + 1]
  print('begun', 'MARFA_API_KEY' in os.environ, os.getcwd(), sys.argv[-1], flush=True)
  if os.path.exists(data + '/fail'):
      print('the disk is upside down', file=sys.stderr, flush=True)
      sys.exit(1)
  lock = os.open(data + '/instance.lock', os.O_RDWR | os.O_CREAT, 0o600)
  fcntl.flock(lock, fcntl.LOCK_EX)
  os.ftruncate(lock, 0)
  os.write(lock, b'%d\\n' % os.getpid())
  signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
  time.sleep(0.1)
  made = socket.socket(socket.AF_UNIX)
  made.bind(data + '/instance.sock')
  made.listen(8)
  while True:
      made.accept()
  """

@Suite(.serialized) struct ProcessTests {
  @Test("N2.1 N2.3 N2.5 a run keeps its directory private, refuses a second one, and leaves nothing behind")
  func run() throws {
    let scratch = Scratch()
    let home = InstanceHome(scratch.path.appending("a/instance"))
    #expect(home.status().isRunning == false)
    let stop = StopFlag()
    let told = Mutex<InstanceReady?>(nil)
    let ended = Atomic<Int>(0)
    let ids = SystemIds(clock: SystemClock())
    detachThread {
      let isClean = try? home.run(
        InstanceRunOptions(), stop: stop, clock: SystemClock(), ids: ids,
        engine: { _, _, _ in MadeEngine(engine: PlainEngine(), instanceID: ids.next(), close: {}) },
        ready: { ready in told.withLock { $0 = ready } })
      ended.store(isClean == true ? 1 : 2, ordering: .releasing)
    }
    #expect(eventually { told.withLock { $0 } != nil })
    let ready = try #require(told.withLock { $0 })
    #expect(ready.url == "local")
    #expect(ready.pid == getpid())
    #expect(try home.ownerKey() == ready.ownerKey)
    #expect(ready.ownerKey.hasPrefix("marfa_k1_"))
    #expect(mode(home.path) == 0o700)
    for file in [home.keyFile, home.socket, home.lockFile, home.statusFile] { #expect(mode(file) == 0o600) }
    #expect(home.isAnswering())
    #expect(WireClient(path: home.socket.description).ask("GET / HTTP/1.1\r\nHost: local\r\n\r\n")?.status == 200)
    let status = home.status()
    #expect(status.isRunning)
    #expect(status.url == "local")
    #expect(status.pid == getpid())
    #expect(status.since != nil)
    #expect(throws: InstanceFailure.held(pid: getpid(), data: home.path)) {
      try home.run(
        InstanceRunOptions(), stop: stop, clock: SystemClock(), ids: ids,
        engine: { _, _, _ in MadeEngine(engine: PlainEngine(), instanceID: ids.next(), close: {}) }, ready: { _ in })
    }
    // The refused one took nothing away from the running one.
    #expect(home.isAnswering())
    stop.set(.stopped)
    #expect(eventually { ended.load(ordering: .acquiring) == 1 })
    #expect(!home.isAnswering())
    #expect(home.status().isRunning == false)
    #expect(mode(home.socket) == nil)
    #expect(mode(home.statusFile) == nil)
    #expect(try home.ownerKey() == ready.ownerKey)
  }

  @Test("N2.6 N2.9 two commands at once start one instance, detached; stop ends it and waits; not running is fine")
  func startOnDemand() throws {
    let scratch = Scratch()
    let home = InstanceHome(scratch.path.appending("instance"))
    let binary = scratch.write("program", program, mode: 0o700)
    let environment = [Array("PATH=/usr/bin:/bin".utf8), Array("MARFA_API_KEY=marfa_k1_secret".utf8)]
    let started = Atomic<Int>(0)
    let done = Atomic<Int>(0)
    for _ in 0..<4 {
      detachThread {
        if (try? home.startOnDemand(program: binary, environment: environment)) == true {
          started.add(1, ordering: .relaxed)
        }
        done.add(1, ordering: .releasing)
      }
    }
    #expect(eventually { done.load(ordering: .acquiring) == 4 })
    #expect(started.load(ordering: .relaxed) == 1)
    #expect(home.isAnswering())
    #expect(try home.startOnDemand(program: binary, environment: environment) == false)
    let log = try #require(try PrivateFile.read(home.log, limit: 4096))
    #expect(String(decoding: log, as: UTF8.self) == "begun False / 600\n")
    #expect(try home.stop())
    #expect(home.status().isRunning == false)
    #expect(try home.stop() == false)
  }

  @Test("N2.9 an instance that does not start is told in its own words")
  func failing() throws {
    let scratch = Scratch()
    let home = InstanceHome(scratch.path.appending("instance"))
    try home.make()
    let binary = scratch.write("program", program, mode: 0o700)
    _ = scratch.write("instance/fail", "", mode: 0o600)
    for wrong in [binary, scratch.path.appending("absent")] {
      do {
        try home.startOnDemand(program: wrong, environment: [])
        Issue.record("started")
      } catch {
        guard case .notReady(let words) = error else {
          Issue.record("\(error)")
          continue
        }
        #expect(words.contains(wrong == binary ? "the disk is upside down" : "No such file"))
      }
    }
  }

  @Test("N2.7 a backup holds database and blobs, only into an empty place, and not the owner's key")
  func backup() throws {
    let scratch = Scratch()
    let home = InstanceHome(scratch.path.appending("instance"))
    let target = scratch.path.appending("copy")
    #expect(throws: InstanceFailure.self) { try home.backup(to: target) }
    try home.make()
    _ = try home.mintedKey()
    let database = try Database(path: home.database.description, mode: .create)
    try database.execute("PRAGMA journal_mode = WAL; PRAGMA user_version = 7; CREATE TABLE item (id TEXT)")
    try database.run("INSERT INTO item VALUES ('a')")
    let blobs = try DirectoryBlobs(home.blobs)
    let bytes = Array("words".utf8)
    try blobs.keep(bytes, as: ContentHash(of: bytes))
    // A writer under way holds nothing up and is not in the copy.
    try database.execute("BEGIN IMMEDIATE")
    try database.run("INSERT INTO item VALUES ('b')")
    try home.backup(to: target)
    try database.execute("COMMIT")
    let copy = InstanceHome(target)
    let copied = try Database(path: copy.database.description, mode: .readWrite)
    #expect(try copied.all("SELECT id FROM item") { $0.string(0) } == ["a"])
    #expect(try copied.one("PRAGMA user_version") { $0.int(0) } == 7)
    #expect(try DirectoryBlobs(copy.blobs).read(ContentHash(of: bytes), from: 1, count: 3) == Array("ord".utf8))
    #expect(mode(copy.path) == 0o700)
    #expect(mode(copy.database) == 0o600)
    #expect(mode(copy.keyFile) == nil)
    #expect(throws: InstanceFailure.self) { try home.backup(to: target) }
  }

  @Test(
    "I-S133 I41.5 a backup opened again answers the same ids, tags, extensions and thumbnails, and goes on from the log"
  )
  func roundTrip() throws {
    let scratch = Scratch()
    let home = InstanceHome(scratch.path.appending("instance"))
    let copy = InstanceHome(scratch.path.appending("copy"))
    try home.make()
    let bench = try Bench(path: home.database.description)
    _ = try DirectoryBlobs(home.blobs)
    expect(
      bench.send(
        "POST", "/types",
        ["id": "acme.picture", "fields": ["thumb": ["type": "thumbnail"], "body": ["type": "string"]]]), 201)
    let thumb = Text("data:image/png;base64,iVBORw0KGgo=")
    let ids = (0..<3).map { number in
      bench.create(
        "acme.picture", ["thumb": .string(thumb), "body": string("\(number)")],
        ["tags": [string("t\(number)"), "all"], "source_id": string("k\(number)")]
      ).id
    }
    for (number, id) in ids.enumerated() {
      for namespace in ["app.one", "app.two"] {
        expect(bench.send("PUT", "/items/\(id)/extensions/\(namespace)", ["n": .int(number), "s": "\u{e9}"]), 200)
      }
    }
    expect(bench.edge(ids[0], "about", ids[1]), 201)
    expect(bench.delete(ids[2]), 200)
    func told(_ bench: Bench) throws -> [JSON] {
      let rows = bench.walk("/items?state=any&tier=all&include=metadata,edges,extensions").rows
      return rows + [
        bench.send("GET", "/edges").json, bench.send("GET", "/types/acme.picture").json,
        bench.send("GET", "/metadata/tags").json, .int(try bench.head()),
        .string(bench.instance.instanceID.text),
      ]
    }
    let before = try told(bench)
    #expect(before.count == 8 && before[0]["item"]?["properties"]?["thumb"]?.text == thumb)
    try home.backup(to: copy.path)
    let again = try Bench(path: copy.database.description, seed: 8)
    let after = try told(again)
    #expect(after == before)
    expect(again.restore(ids[2]), 200)
    #expect(Set(again.read(ids[2]).tags) == ["t2", "all"])
    #expect(again.send("GET", "/items/\(ids[2])/extensions/app.two").json["data"] == ["n": 2, "s": "\u{e9}"])
  }

  @Test("B2.8 blobs are kept whole under their hash, 0600; what was left half-written goes")
  func blobs() throws {
    let scratch = Scratch()
    _ = scratch.write(".incoming-1-1", "half", mode: 0o600)
    let blobs = try DirectoryBlobs(scratch.path)
    let bytes = Array("twelve bytes".utf8)
    let hash = ContentHash(of: bytes)
    #expect(blobs.size(of: hash) == nil)
    #expect(try blobs.read(hash, from: 0, count: 5) == nil)
    try blobs.keep(bytes, as: hash)
    try blobs.keep(bytes, as: hash)
    #expect(PrivateFile.names(in: scratch.path) == [PathBytes(hash.hex)])
    #expect(mode(scratch.path.appending(PathBytes(hash.hex))) == 0o600)
    #expect(blobs.size(of: hash) == 12)
    #expect(try blobs.read(hash, from: 7, count: 50) == Array("bytes".utf8))
    #expect(try blobs.read(hash, from: 50, count: 5) == [])
    #expect((blobs.available ?? 0) > 0)
    blobs.remove(hash)
    #expect(blobs.size(of: hash) == nil)
  }
}
