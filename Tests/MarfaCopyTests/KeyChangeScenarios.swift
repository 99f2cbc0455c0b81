import Dispatch
import Glibc
import LocalInstance
import MarfaBase
import MarfaCopy
import Synchronization
import TestSupport
import Testing

@Suite("A key that changes while the copy works") struct KeyChangeScenarios {
  /// What ran on a thread of its own.
  private final class Job<Value: Sendable>: Sendable {
    private let result = Mutex<Result<Value, any Error>?>(nil)

    init(_ work: @escaping @Sendable () throws -> Value) throws {
      let started = startThread { [self] in
        let ended = Result { try work() }
        result.withLock { $0 = ended }
      }
      try #require(started)
    }

    func value() throws -> Value {
      try waitFor("a call to end") { result.withLock { $0 != nil } }
      return try #require(result.withLock { $0 }).get()
    }
  }

  /// A real instance on loopback.
  private final class Served: Sendable {
    let place: PathBytes
    let stop = StopFlag()
    let told = Mutex<(url: String, key: String)?>(nil)
    let ended = Atomic(false)

    init() throws {
      var template = Array("/tmp/marfa-key-XXXXXX".utf8CString)
      try #require(mkdtemp(&template) != nil)
      place = PathBytes(bytes: template.dropLast().map { UInt8(bitPattern: $0) })
      let home = InstanceHome(place)
      let started = startThread { [self] in
        var options = InstanceRunOptions()
        options.listen = "127.0.0.1:0"
        let clock = SystemClock()
        _ = try? home.run(options, stop: stop, clock: clock, ids: SystemIds(clock: clock)) { ready in
          told.withLock { $0 = (ready.url, ready.ownerKey) }
        }
        ended.store(true, ordering: .sequentiallyConsistent)
      }
      try #require(started)
      try waitFor("the instance") { told.withLock { $0 != nil } || ended.load(ordering: .acquiring) }
    }

    func end() throws {
      stop.set(.stopped)
      try waitFor("the instance to end") { ended.load(ordering: .sequentiallyConsistent) }
      TemporaryDirectory.remove(place)
    }
  }

  @Test(
    "D-S205 while a call runs a key change waits and new calls throw key_changing; the call ends, and a held stream goes on"
  )
  func change() throws {
    let served = try Served()
    let (url, owner) = try #require(served.told.withLock { $0 })
    let clock = SystemClock()
    let context = Context(
      clock: clock, ids: SystemIds(clock: clock), files: SystemFileSystem(), transport: CurlTransport(),
      scheduler: SystemScheduler(), log: SilentLog())
    @discardableResult
    func ask(_ target: String, _ body: JSON) throws -> JSON {
      var request = HTTPRequest(method: "POST", url: url + target, body: .bytes(body.write()))
      request.headers = [
        HTTPHeader("Authorization", "Bearer \(owner)"), HTTPHeader("Content-Type", "application/json"),
      ]
      let answer = try context.transport.send(request, stop: StopFlag())
      try #require(answer.status == 201, "\(String(decoding: answer.body, as: UTF8.self))")
      return try JSON(parsing: answer.body)
    }
    func key(_ label: Text) throws -> String {
      let all: JSON = ["*": "write"]
      let made = try ask(
        "/keys",
        [
          "label": .string(label), "type_permissions": all, "edge_permissions": all, "metadata_permissions": all,
        ])
      return try #require(made["key"]?.text?.string)
    }
    let (old, new) = (try key("Old"), try key("New"))
    let directory = try TemporaryDirectory()
    let shared = SharedCopy(
      try OpenStore.open(
        path: directory.path.appending("copy.sqlite"), context: context, role: .writer,
        endpoint: Endpoint(baseURL: url, credential: old), credentials: nil))
    defer { shared.close() }
    _ = try shared.hydrate(Slice(types: ["core.note"], tier: "library", edgeTypes: []))
    // A stream is held from where the copy stands.
    let place = try #require(try shared.call { (copy) throws(MarfaError) in try copy.streamPlace() })
    let silence = StopFlag()
    let isOpen = Atomic(false)
    let news = Atomic(0)
    let stream = try Job { [context] in
      StreamListener(context: context, stop: silence).listen(from: place) { heard in
        switch heard {
        case .reachable: isOpen.store(true, ordering: .sequentiallyConsistent)
        case .changed: news.add(1, ordering: .sequentiallyConsistent)
        case .unreachable: break
        }
      }
    }
    try waitFor("the stream") { isOpen.load(ordering: .sequentiallyConsistent) }
    // A call that is running.
    let reached = Atomic(false)
    let letGo = DispatchSemaphore(value: 0)
    @Sendable func label() throws -> Text? {
      try shared.call { (copy) throws(MarfaError) in try copy.server.currentKey()["label"]?.text }
    }
    let running = try Job { () throws -> Text? in
      try shared.call { (copy) throws(MarfaError) -> Text? in
        reached.store(true, ordering: .sequentiallyConsistent)
        letGo.wait()
        return try copy.server.currentKey()["label"]?.text
      }
    }
    try waitFor("the call") { reached.load(ordering: .sequentiallyConsistent) }
    let changing = try Job { try shared.useKey(new) }
    try waitFor("the change to wait") { shared.callCount == 2 }
    for _ in 0..<3 {
      #expect {
        _ = try label()
      } throws: {
        ($0 as? MarfaError)?.code == .keyChanging
      }
    }
    letGo.signal()
    #expect(try running.value() == "Old")
    try changing.value()
    #expect(try label() == "New")
    // The stream heard nothing of it, and goes on.
    #expect(news.load(ordering: .sequentiallyConsistent) == 0)
    try ask("/items", ["type": "core.note", "properties": ["body": "x"]])
    try waitFor("news on the stream") { news.load(ordering: .sequentiallyConsistent) > 0 }
    silence.set(.stopped)
    #expect(try stream.value() == nil)
    try served.end()
  }
}

/// Waits, at most two minutes, for what other threads do.
private func waitFor(_ what: String, _ holds: () -> Bool) throws {
  for _ in 0..<12_000 where !holds() { usleep(10_000) }
  try #require(holds(), "waited in vain for \(what)")
}
