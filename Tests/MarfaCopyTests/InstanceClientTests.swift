import LocalInstance
import MarfaBase
import TestSupport
import Testing

@testable import MarfaCopy

/// The client before whatever answers at an address (auth.md, the client's scenarios), and edits sent again in their place.
@Suite struct InstanceClientTests {
  @Test("K-S33 a redirect is not followed, and the credential goes nowhere else")
  func redirect() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    try bench.edit(id, ["title": "mine"])
    let elsewhere = [HTTPHeader("Location", "https://elsewhere.example/")]
    for (method, target) in [("GET", "/items"), ("PATCH", "/items"), ("GET", "/types"), ("GET", "/events")] {
      bench.on(method, target, .answer(307, "", elsewhere))
      let error =
        switch (method, target) {
        case ("PATCH", _): bench.bench.refusal { try bench.drain() }
        case ("GET", "/items"): bench.bench.refusal { _ = try bench.copy.server.readItem(id) }
        default: bench.bench.refusal { try bench.copy.catchUp() }
        }
      #expect(error?.code == .redirect, "\(method) \(target)")
      bench.heal()
    }
    bench.on("GET", "/", .answer(301, "", elsewhere))
    #expect(bench.bench.refusal { _ = try bench.copy.server.root() }?.code == .redirect)
    #expect(bench.bench.transport.sent.allSatisfy { $0.url.hasPrefix(CopyBench.origin) })
    #expect(try bench.copy.hydration() == .complete)
  }

  @Test("IN-S4 a proxy's 401, 404 or 502 without the header settles no write, and the copy says unavailable")
  func proxy() throws {
    for status in [401, 404, 502] {
      let bench = try QueueBench()
      let id = try bench.held("A")
      let edit = try bench.edit(id, ["title": "mine"])
      bench.onWrites(.unnamed(status, "<html>no</html>"))
      let report = try bench.drain()
      #expect(report.unavailable?.contains("\(status)") == true)
      #expect(report.stopped == nil)
      #expect(try bench.verdict(edit) == nil)
      #expect(try bench.write(edit.id).refusals == 0)
      bench.heal()
      bench.on("GET", "/events", .unnamed(status, "<html>no</html>"))
      let error = bench.bench.refusal { try bench.copy.catchUp() }
      #expect(error?.code == .unnamedAnswer)
      #expect(error?.isEnvironmental == true)
      #expect(try bench.copy.hydration() == .complete)
      bench.heal()
      #expect(try bench.drain().verdicts.map(\.verdict) == [.accepted])
    }
  }

  @Test("IN-S5 a 200 naming no contract, 1, or 0 and 1 is contract_mismatch; 0 twice is one contract")
  func contractHeader() throws {
    for (names, taken) in [([], false), (["1"], false), (["0", "1"], false), (["0", "0"], true)] as [([String], Bool)] {
      let bench = try QueueBench()
      bench.bench.transport.after = { request, response in
        guard request.target.hasPrefix("/types") else { return .success(response) }
        var changed = response
        changed.headers.removeAll { $0.name.lowercased() == "x-marfa-contract" }
        changed.headers += names.map { HTTPHeader("X-Marfa-Contract", $0) }
        return .success(changed)
      }
      let error = bench.bench.refusal { try bench.copy.catchUp() }
      #expect(error?.code == (taken ? nil : .contractMismatch), "\(names)")
      #expect(try bench.copy.hydration() == .complete)
    }
  }

  @Test(
    "IN-S10 the same instance at a new address: the store follows; another instance is wrong_server and nothing changes"
  )
  func newAddress() throws {
    let bench = try CopyBench()
    let id = try bench.note("A")
    try bench.fill()
    let known = bench.transport.handle
    try bench.reopen(baseURL: "http://moved.test")
    try bench.copy.catchUp()
    #expect(try bench.copy.status().serverOrigin == "http://moved.test")
    #expect(try bench.copy.item(id) != nil)
    let other = try CopyBench(seed: 77)
    bench.transport.handle = { other.instance.handle($0) }
    try bench.reopen(baseURL: "http://third.test")
    let before = try bench.copy.status()
    #expect(bench.refusal { try bench.copy.catchUp() }?.code == .wrongServer)
    #expect(try bench.copy.status() == before)
    #expect(try bench.copy.item(id) != nil)
    bench.transport.handle = known
  }

  @Test(
    "F23.14 F23.15 an edit sent again keeps its place: what was queued behind it stays behind it, blocked again or not")
  func resent() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    let first = try bench.edit(id, ["title": "one", "notes": "n"])
    let second = try bench.edit(id, ["title": "two"])
    bench.on(
      "PATCH", .answer(409, #"{"error":{"code":"ancestor_unavailable","status":409},"current":{"id":"\#(id)"}}"#))
    try bench.drain()
    try bench.theirs(id, ["body": "theirs"])
    _ = try bench.copy.freshRead(item: id)
    let again = try #require(
      try bench.queue.resend(first.id, ItemEdit(properties: ["title": "one", "notes": "n"], version: 2)))
    #expect(again.idempotencyKey != first.idempotencyKey)
    #expect(try bench.queue.write(first.id) == nil)
    #expect(try bench.queue.all().map(\.id) == [again.id, second.id])
    #expect(try bench.write(second.id).follows == again.id)
    // The later save's words are the ones that show.
    #expect(try bench.title(id) == "two")
    // Blocked again, it is still the first.
    try bench.drain()
    #expect(try bench.write(again.id).blockedReason == .ancestorUnavailable)
    #expect(try bench.queue.waiting(item: id).map(\.id) == [again.id, second.id])
    let third = try #require(
      try bench.queue.resend(again.id, ItemEdit(properties: ["title": "one", "notes": "n"], version: 2)))
    bench.heal()
    try bench.drain()
    #expect(try bench.verdict(third) == .accepted)
    _ = try bench.copy.freshRead(item: id)
    let last = try #require(try bench.queue.resend(second.id, ItemEdit(properties: ["title": "two"], version: 3)))
    try bench.drain()
    #expect(try bench.verdict(last) == .accepted)
    #expect(try bench.served(id)["properties"] == ["title": "two", "body": "theirs", "notes": "n"])
    // Only an edit blocked for a conflict is sent again so.
    #expect(try bench.queue.resend(last.id, ItemEdit(properties: ["title": "x"], version: 4)) == nil)
  }

  @Test(
    "Q49.1 Q49.2 a drain asked for from within another is refused, each write goes once; a reading handle drains nothing"
  )
  func oneDrain() throws {
    let bench = try QueueBench()
    // From within a drain there is nothing to wait for.
    let inner = try bench.create("inner")
    let observer = Nested(bench.queue)
    #expect(try bench.queue.drain(observer: observer).answered == 1)
    #expect(observer.refusals == 1)
    #expect(try bench.copy.item(inner)?.version == 1)

    let reader = try WorkingCopy.open(
      database: bench.bench.database, blobs: bench.blobs, context: bench.bench.context, role: .reader,
      endpoint: Endpoint(baseURL: CopyBench.origin, credential: CopyBench.key), credentials: nil)
    try bench.create("E")
    bench.clear()
    expectError(.readingHandle) { try reader.queue.drain() }
    #expect(bench.requests.isEmpty)
  }

  private final class Nested: DrainObserver {
    let queue: WriteQueue
    var refusals = 0
    init(_ queue: WriteQueue) { self.queue = queue }
    func settled(_ write: QueuedWrite, _ entry: DrainReport.Entry) throws(MarfaError) {
      do throws(MarfaError) { _ = try queue.drain() } catch { refusals += 1 }
    }
  }
}
