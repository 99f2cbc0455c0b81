import CPosix
import Glibc
import LocalInstance
import MarfaBase
import Synchronization
import Testing

@testable import MarfaCopy

/// The real instance in its data directory, asked by the real transport.
@Suite(.serialized) struct LocalInstanceOverHTTPTests {
  @Test("N2.1 N2.2 N2.5 N2.7 N2.8 the local instance is run, asked over its socket, keyed, copied and stopped")
  func life() throws {
    let scratch = ScratchDirectory()
    let home = InstanceHome(PathBytes("/tmp/marfa-life-\(getpid())"))
    let copy = InstanceHome(PathBytes("/tmp/marfa-life-copy-\(getpid())"))
    defer {
      for path in [home.path, copy.path] { removeTree(path) }
    }
    let clock = SystemClock()
    func run(_ home: InstanceHome, _ body: (InstanceReady, CurlTransport) throws -> Void) throws {
      let stop = StopFlag()
      let told = Mutex<InstanceReady?>(nil)
      let ended = Atomic<Int>(0)
      detachThread {
        do {
          var options = InstanceRunOptions()
          options.listen = "127.0.0.1:0"
          let isClean = try home.run(
            options, stop: stop, clock: clock, ids: SystemIds(clock: clock),
            ready: { ready in told.withLock { $0 = ready } })
          ended.store(isClean ? 1 : 2, ordering: .releasing)
        } catch {
          ended.store(3, ordering: .releasing)
        }
      }
      func await_(_ condition: () -> Bool) -> Bool {
        let deadline = marfa_boottime() + 10_000_000_000
        while !condition(), marfa_boottime() < deadline { usleep(2000) }
        return condition()
      }
      #expect(await_ { told.withLock { $0 } != nil || ended.load(ordering: .acquiring) != 0 })
      let ready = try #require(told.withLock { $0 })
      try body(ready, CurlTransport(.init(localSocket: home.socket)))
      stop.set(.stopped)
      #expect(await_ { ended.load(ordering: .acquiring) != 0 })
      #expect(ended.load(ordering: .acquiring) == 1)
    }
    func ask(
      _ transport: CurlTransport, _ method: String, _ url: String, key: String?, body: HTTPBody = .none,
      type: String = "application/json"
    ) throws -> HTTPResponse {
      var request = HTTPRequest(method: method, url: url, body: body)
      if let key { request.headers.append(HTTPHeader("Authorization", "Bearer \(key)")) }
      if case .none = body {} else { request.headers.append(HTTPHeader("Content-Type", type)) }
      return try transport.send(request, stop: StopFlag())
    }
    let note = #"{"type":"core.note","properties":{"title":"Plan","body":"words"}}"#
    try run(home) { ready, transport in
      for base in ["http://local", ready.url] {
        let root = try ask(transport, "GET", base + "/", key: nil)
        #expect(root.status == 200)
        #expect(root.header("x-marfa-contract") == "0")
        #expect(try JSON(parsing: root.body)["instance_id"]?.text == ready.instanceID.text)
      }
      let keys = InstanceKeys(home: home, transport: transport, stop: StopFlag())
      let made = try keys.create(label: "Laptop", types: [("core.note", "write")], metadata: [("tags", "write")])
      let key = try #require(made["key"]?.text?.string)
      let created = try ask(transport, "POST", "http://local/items", key: key, body: .bytes(Array(note.utf8)))
      #expect(created.status == 201, "\(String(decoding: created.body, as: UTF8.self))")
      let listed = try keys.list()["keys"]?.array ?? []
      #expect(listed.count == 2)
      #expect(!String(decoding: try keys.list().write(), as: UTF8.self).contains(key))
      let id = try #require(made["id"]?.text.flatMap { EntityID($0) })
      #expect(listed.contains { $0["id"]?.text == id.text && $0["label"]?.text == "Laptop" })
      try keys.revoke(id)
      #expect(try ask(transport, "GET", "http://local/keys/current", key: key).status == 401)
      // Bytes go up from a file and come back.
      let bytes = [UInt8](repeating: 42, count: 2_000_000)
      let file = scratch.path + "/blob"
      let descriptor = open(file, O_CREAT | O_WRONLY, 0o600)
      _ = marfa_write_all(descriptor, bytes, bytes.count)
      close(descriptor)
      let stored = try ask(
        transport, "POST", "http://local/blobs", key: ready.ownerKey,
        body: .file(PathBytes(file), size: 2_000_000), type: "image/png")
      #expect(stored.status == 201)
      #expect(try JSON(parsing: stored.body)["hash"]?.text == ContentHash(of: bytes).text)
      // Events come while a stream is held, and the stop is told on it.
      var parser = EventStreamParser()
      var names: [Text] = []
      var request = HTTPRequest(
        method: "GET", url: "http://local/events", headers: [HTTPHeader("Authorization", "Bearer \(ready.ownerKey)")])
      request.bodyTimeout = 0
      let end = try transport.stream(
        request, silence: 10_000_000_000, stop: StopFlag(),
        head: { $0.status == 200 ? .more : .enough },
        piece: { piece in
          for event in (try? parser.take(piece)) ?? [] {
            names.append(event.name)
            if event.name == "stream_live" {
              _ = try? ask(transport, "POST", "http://local/items", key: ready.ownerKey, body: .bytes(Array(note.utf8)))
            }
            if event.name == "item.created" { return .enough }
          }
          return .more
        })
      #expect(end == .closed)
      #expect(names == ["stream_cursor", "stream_live", "item.created"])
      try home.backup(to: copy.path)
      let status = home.status()
      #expect(status.isRunning)
      #expect(status.items.map { $0 >= 2 } == true)
      #expect(status.url == ready.url)
    }
    #expect(home.status().isRunning == false)
    #expect(home.status().items.map { $0 >= 2 } == true)
    var first: EntityID?
    try run(copy) { ready, transport in
      first = ready.instanceID
      let items = try ask(transport, "GET", "http://local/items", key: ready.ownerKey)
      #expect(
        try JSON(parsing: items.body)["items"]?.array?.count ?? JSON(parsing: items.body)["data"]?.array?.count == 2)
    }
    try run(home) { ready, _ in #expect(ready.instanceID == first) }
  }
}

private func removeTree(_ path: PathBytes) {
  if let directory = try? SystemFileSystem().openDirectory(path), let entries = try? directory.list() {
    for entry in entries { removeTree(path.appending(entry.name)) }
  }
  if path.withCString({ unlink($0) }) != 0 { _ = path.withCString { rmdir($0) } }
}
