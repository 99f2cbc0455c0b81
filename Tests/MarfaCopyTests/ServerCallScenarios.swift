import Glibc
import LocalInstance
import MarfaBase
import TestSupport
import Testing

@testable import MarfaCopy

@Suite("Calls the copy does not answer") struct ServerCallScenarios {
  /// A server that begins no answer: it waits as long as it is allowed to.
  private final class Stalling: Transport, @unchecked Sendable {
    // Unchecked: one test's thread uses it.
    private let bench: CopyBench
    var stalls: (HTTPRequest) -> Bool = { _ in true }
    private(set) var waited: [UInt64] = []
    init(_ bench: CopyBench) { self.bench = bench }

    func pool(stop: StopFlag) -> any RequestPool { bench.transport.pool(stop: stop) }
    func send(_ request: HTTPRequest, stop: StopFlag) throws(TransportError) -> HTTPResponse {
      guard stalls(request) else { return try bench.transport.send(request, stop: stop) }
      let wait = min(request.answerTimeout, request.wholeTimeout > 0 ? request.wholeTimeout : .max)
      waited.append(wait / 1_000_000_000)
      bench.clock.advance(nanoseconds: wait)
      throw .timedOut("stalled")
    }
    func stream(
      _ request: HTTPRequest, silence: UInt64, stop: StopFlag, head: (HTTPResponse) -> StreamStep,
      piece: ([UInt8]) -> StreamStep
    ) throws(TransportError) -> StreamEnd {
      try bench.transport.stream(request, silence: silence, stop: stop, head: head, piece: piece)
    }
  }

  @Test("K-S34 a stalled server's call throws network after 20 s in all, whichever of its requests stalls")
  func stalled() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill(["core.note", "system.folder"], tier: "all")
    try bench.ask("DELETE", "/items/\(note)?version=1")
    try bench.copy.catchUp()
    let stalling = Stalling(bench)
    let context = Context(
      clock: bench.clock, ids: bench.context.ids, files: bench.context.files, transport: stalling,
      scheduler: bench.scheduler, log: SilentLog())
    let copy = try WorkingCopy.open(
      database: bench.database, blobs: bench.copy.blobs, context: context, role: .writer,
      endpoint: Endpoint(baseURL: CopyBench.origin, credential: CopyBench.key), credentials: nil)
    let calls: [(String, () throws -> Void)] = [
      ("folder", { try copy.createFolder(["title": "F"]) }), ("bin", { _ = try copy.bin() }),
      ("purge", { try copy.purge(note) }), ("key", { _ = try copy.server.currentKey() }),
    ]
    for (name, call) in calls {
      let begun = bench.clock.monotonic
      let refusal = bench.refusal(call)
      #expect(refusal?.code == .network, "\(name): \(refusal?.description ?? "none")")
      #expect((bench.clock.monotonic - begun) / 1_000_000_000 == 20, "\(name)")
    }
    // What an earlier request of the call took is not had again.
    stalling.stalls = { request in
      if request.method == "GET", request.url.hasSuffix("/") {
        bench.clock.advance(seconds: 15)
        return false
      }
      return request.method == "POST"
    }
    let begun = bench.clock.monotonic
    #expect(bench.refusal { try copy.createFolder(["title": "F"]) }?.code == .network)
    #expect((bench.clock.monotonic - begun) / 1_000_000_000 == 20 && stalling.waited.last == 5)
    #expect(try copy.queue.all().isEmpty)
    // The copy's own requests have bounds of their own.
    stalling.stalls = { $0.url.contains("/items/") }
    #expect(bench.refusal { _ = try copy.freshRead(item: note) }?.code == .network)
    #expect(stalling.waited.last == 30)
  }

  @Test("K-S34 the real transport ends a request that began no answer, or did not end it, at its whole time")
  func stalledSocket() throws {
    let server = SocketServer { connection in
      while let request = connection.request() {
        if request.head.contains("/dribble") {
          connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
          while connection.send("x") { usleep(20_000) }
          return
        }
        _ = connection.read()
      }
    }
    defer { server.stop() }
    for path in ["/stall", "/dribble"] {
      var request = HTTPRequest(method: "GET", url: server.url(path))
      request.wholeTimeout = 300_000_000
      do throws(TransportError) {
        _ = try CurlTransport().send(request, stop: StopFlag())
        Issue.record("an answer")
      } catch {
        guard case .timedOut = error else {
          Issue.record("\(error)")
          continue
        }
      }
    }
  }

  @Test("K-S35 K17.6 with one of the two variables alone the missing one is named; both absent is nothing")
  func environment() throws {
    func read(_ variables: [String: String]) throws(EnvironmentError) -> Endpoint? {
      try Endpoint.fromEnvironment { variables[$0] }
    }
    #expect(try read([:]) == nil)
    #expect(try read(["MARFA_API_URL": " ", "MARFA_API_KEY": ""]) == nil)
    #expect(throws: EnvironmentError.missing("MARFA_API_KEY")) { try read(["MARFA_API_URL": "https://m.example"]) }
    #expect(throws: EnvironmentError.missing("MARFA_API_KEY")) {
      try read(["MARFA_API_URL": "https://m.example", "MARFA_API_KEY": "\t"])
    }
    #expect(throws: EnvironmentError.missing("MARFA_API_URL")) { try read(["MARFA_API_KEY": "marfa_k1_x"]) }
    #expect(EnvironmentError.missing("MARFA_API_URL").description.contains("MARFA_API_URL"))
    let named = try #require(try read(["MARFA_API_URL": "https://m.example/a/", "MARFA_API_KEY": "marfa_k1_x"]))
    #expect(named.baseURL == "https://m.example/a" && named.credential == "marfa_k1_x")
    for url in [
      "m.example", "ftp://m.example", "https://", "https://a b", "https://u:secret@m.example",
      "https://m.example?k=secret",
    ] {
      do throws(EnvironmentError) {
        _ = try read(["MARFA_API_URL": url, "MARFA_API_KEY": "k"])
        Issue.record("\(url) was taken")
      } catch {
        guard case .notAServer = error else {
          Issue.record("\(error)")
          continue
        }
        #expect(!error.description.contains("secret"))
      }
    }
  }

  @Test(
    "K-S36 K17.3 a change meant for another instance than the one that answers is instance_changed, and nothing changes"
  )
  func expected() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill(["core.note", "system.folder"], tier: "all")
    let here = try #require(try bench.copy.store.text(.instanceID).flatMap { EntityID($0) })
    let made = try bench.copy.createFolder(["title": "F"], expecting: here)
    try bench.ask("DELETE", "/items/\(note)?version=1")
    try bench.copy.catchUp()
    let other = bench.newID()
    let before = try bench.copy.status()
    bench.transport.clear()
    let changes: [() throws -> Void] = [
      { try bench.copy.createFolder(["title": "G"], expecting: other) },
      { try bench.copy.changeFolder(made.folder.id, version: 1, ["title": "G"], expecting: other) },
      { try bench.copy.revokeFolder(made.folder.id, expecting: other) },
      { try bench.copy.purge(note, expecting: other) },
    ]
    for change in changes { #expect(bench.refusal(change)?.code == .instanceChanged) }
    #expect(bench.transport.sent.allSatisfy { $0.method == "GET" && $0.bearer == nil })
    #expect(try bench.copy.status() == before && bench.copy.hydration() == .complete)
    #expect(try bench.copy.folder(made.folder.id)?.properties["title"] == "F")
    // Meant for this one, it goes.
    try bench.copy.purge(note, expecting: here)
    #expect(try bench.copy.item(note) == nil)
  }
}
