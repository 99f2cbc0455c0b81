import MarfaBase
import TestSupport
import Testing

@testable import MarfaCopy

@Suite struct QueueDrainTests {
  @Test("Q-S1 a queued edit survives the end of the process under its id and key")
  func survives() throws {
    let directory = try ScratchStore()
    let bench = try Bench(file: directory.path)
    let id = try bench.create("A")
    let edit = try bench.edit(id, ["title": "B"])
    try bench.reopen()
    let again = try bench.write(edit.id)
    #expect(again.idempotencyKey == edit.idempotencyKey)
    #expect(again.bodyText == edit.bodyText)
    #expect(try bench.copy.item(id)?.properties["title"] == "B")
    #expect(try bench.copy.item(id)?.version == 0)
  }

  @Test("Q-S2 three creates arrive in queue order, and the copy holds what the reads return")
  func order() throws {
    let bench = try Bench()
    let ids = try ["A", "B", "C"].map { try bench.create($0) }
    let report = try bench.queue.drain()
    #expect(bench.server.writes.map(\.target) == ["/items", "/items", "/items"])
    let sent = bench.server.writes.compactMap { (try? JSON(parsing: $0.body))?["id"]?.text }
    #expect(sent == ids.map(\.text))
    #expect(report.answered == 3)
    #expect(report.verdicts.allSatisfy { $0.verdict == .accepted && $0.refusals == 0 })
    for id in ids {
      #expect(try bench.copy.item(id)?.version == 1)
      #expect(try bench.copy.serverItem(id)?.source == "laptop")
    }
    bench.server.forgetRequests()
    let nothing = try bench.queue.drain()
    #expect(nothing.answered == 0)
    #expect(bench.server.sent.isEmpty)
  }

  @Test("Q-S3 Q-S4 writes of an outage wait uncounted and go in order once the server is back")
  func outage() throws {
    let bench = try Bench()
    let first = try bench.create("A")
    bench.server.up = false
    let down = try bench.queue.drain()
    #expect(down.undelivered == 1)
    #expect(down.answered == 0)
    #expect(down.unavailable?.contains("could not be reached") == true)
    #expect(down.exit == 3)
    let second = try bench.create("B")
    for write in try bench.queue.all() {
      #expect(write.verdict == nil)
      #expect(write.refusals == 0)
    }
    bench.server.up = true
    try bench.queue.drain()
    let sent = bench.server.writes.compactMap { (try? JSON(parsing: $0.body))?["id"]?.text }
    #expect(sent == [first.text, second.text])
  }

  @Test("Q-S5 a fresh store has an empty queue and asks nothing")
  func fresh() throws {
    let bench = try Bench(filled: false)
    #expect(try bench.queue.all().isEmpty)
    #expect(bench.server.sent.isEmpty)
  }

  @Test("Q-S171 a copy never filled, one filling and one expired drain nothing and say which")
  func states() throws {
    let bench = try Bench(filled: false)
    try bench.create("A")
    expectError(.noCursor) { try bench.queue.drain() }
    try bench.fill()
    try bench.copy.store.set(.hydrateState, Text("{}"))
    expectError(.hydrationIncomplete) { try bench.queue.drain() }
    try bench.copy.store.set(.hydrateState, nil)
    _ = try bench.copy.expire("cursor_ahead", "gone")
    expectError(.copyExpired) { try bench.queue.drain() }
    #expect(bench.server.sent.isEmpty)
    #expect(try bench.queue.all().count == 1)
  }

  @Test("Q-S10 Q-S20 an unanswered edit answers locally, and goes with conflict=auto")
  func shown() throws {
    let bench = try Bench()
    let id = try bench.create("A")
    try bench.queue.drain()
    bench.server.forgetRequests()
    try bench.edit(id, ["title": "B"])
    #expect(try bench.copy.item(id)?.properties["title"] == "B")
    #expect(try bench.copy.item(id)?.version == 1)
    #expect(try bench.copy.serverItem(id)?.properties["title"] == "A")
    try bench.queue.drain()
    #expect(bench.server.writes.map(\.target) == ["/items/\(id)?conflict=auto"])
  }

  @Test("Q-S13 an answer lost after the server wrote is replayed under its key: one step only")
  func lostAnswer() throws {
    let bench = try Bench()
    let id = try bench.create("A")
    try bench.queue.drain()
    let edit = try bench.edit(id, ["title": "B"])
    bench.server.hook { _, _ in .loseAnswer }
    let lost = try bench.queue.drain()
    #expect(lost.undelivered == 1)
    bench.server.hook(nil)
    let report = try bench.queue.drain()
    #expect(report.verdicts.map(\.replayed) == [true])
    #expect(try bench.write(edit.id).verdict == .accepted)
    #expect(try bench.copy.item(id)?.version == 2)
    let keys = bench.server.writes.suffix(2).map(\.key)
    #expect(keys[0] == keys[1])
  }

  @Test("Q3.3 Q3.4 a sent edit without an answer is sent again byte for byte, although the row moved on since")
  func sentUnchanged() throws {
    let bench = try Bench()
    let id = try bench.create("A")
    try bench.queue.drain()
    let edit = try bench.edit(id, ["title": "B"])
    bench.server.hook { _, _ in .drop }
    try bench.queue.drain()
    bench.server.hook(nil)
    // Another write of this device moves the row meanwhile.
    bench.server.state.withLock { $0.items[id.text]?["version"] = 5 }
    let before = try bench.write(edit.id).bodyText
    let report = try bench.queue.drain()
    #expect(bench.server.writes.suffix(2).map(\.body) == [before, before].compactMap { $0?.string })
    #expect(report.verdicts[0].reason == "conflict_unresolved")
  }

  @Test("Q-S15 an answer on another contract ends the drain; the next one sends under the same key")
  func contract() throws {
    let bench = try Bench()
    try bench.create("A")
    bench.server.hook { _, _ in .answer(201, "{}", [HTTPHeader("X-Marfa-Contract", "9")]) }
    expectError(.contractMismatch) { try bench.queue.drain() }
    let write = try #require(try bench.queue.all().first)
    #expect(write.verdict == nil)
    #expect(write.refusals == 0)
    bench.server.hook(nil)
    #expect(try bench.queue.drain().answered == 1)
    #expect(Set(bench.server.writes.map(\.key)).count == 1)
  }

  @Test("Q-S17 Q-S18 an update without a version, or at one the copy does not hold, queues nothing")
  func versions() throws {
    let bench = try Bench()
    let id = try bench.create("A")
    try bench.queue.drain()
    expectError(.invalid) { try bench.queue.updateItem(id, ItemEdit(properties: ["title": "B"], version: nil)) }
    for version in [0, 2, 7] {
      expectError(.invalid) {
        try bench.queue.updateItem(id, ItemEdit(properties: ["title": "B"], version: version))
      }
    }
    #expect(try bench.queue.all().count == 1)
    #expect(try bench.copy.item(id)?.properties["title"] == "A")
  }

  @Test("Q-S19 Q-S153 a plain create sends its id and no version; one that names a version sends it; a keyed one no id")
  func createBodies() throws {
    let bench = try Bench()
    let plain = try bench.queue.createItem(ItemDraft(type: "core.note", properties: ["title": "A", "body": "x"]))
    #expect(plain.body?["id"]?.text == plain.itemID?.text)
    #expect(plain.body?["version"] == nil)
    #expect(plain.body?["tier"] == "library")
    let keyed = try bench.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "A", "body": "x"], sourceID: "k", version: 3))
    #expect(keyed.body?["id"] == nil)
    #expect(keyed.body?["version"] == 3)
  }

  @Test("Q-S21 a delete of a row another device edited is blocked, and the row stays")
  func staleDelete() throws {
    let bench = try Bench()
    let id = try bench.create("A")
    try bench.queue.drain()
    let delete = try bench.queue.deleteItem(id)
    bench.server.state.withLock { $0.items[id.text]?["version"] = 2 }
    try bench.queue.drain()
    #expect(try bench.write(delete.id).blockedReason == .conflictUnresolved)
    #expect(bench.server.state.withLock { $0.items[id.text]?["state"] } == "active")
  }

  @Test("Q-S22 Q-S23 own create, two edits and a delete all land, each on the answer before it")
  func chain() throws {
    let bench = try Bench()
    let id = try bench.create("A")
    try bench.edit(id, ["title": "B"])
    try bench.edit(id, ["title": "C"])
    try bench.queue.deleteItem(id)
    let report = try bench.queue.drain()
    #expect(report.verdicts.map(\.verdict) == [.accepted, .accepted, .accepted, .accepted])
    #expect(bench.server.writes.map(\.target).last == "/items/\(id)?version=3")
    #expect(bench.server.state.withLock { $0.items[id.text]?["state"] } == "trashed")
    #expect(try bench.copy.rowState(id) == .trashed)
  }

  @Test("Q-S26 a delete behind an own create answered as a repeat is refused unsent")
  func repeatedCreate() throws {
    let bench = try Bench()
    let id = try bench.create("A")
    let delete = try bench.queue.deleteItem(id)
    bench.server.state.withLock {
      $0.items[id.text] = [
        "id": .string(id.text), "type": "core.note", "state": "active", "version": 4, "properties": ["title": "Z"],
        "created_at": "2031-01-01T00:00:00.000Z", "updated_at": "2031-01-01T00:00:00.000Z",
      ]
    }
    let report = try bench.queue.drain()
    #expect(report.answered == 1)
    #expect(report.unsent == 1)
    #expect(try bench.write(delete.id).verdict == .refused)
    #expect(bench.server.writes.count == 1)
  }

  @Test("Q-S37 Q-S39 an edit behind a dropped create is held, and goes in the pass that answers the create")
  func heldEdit() throws {
    let bench = try Bench()
    let id = try bench.create("A")
    let edit = try bench.edit(id, ["title": "B"])
    bench.server.hook { _, _ in .drop }
    let report = try bench.queue.drain()
    #expect(report.held == 1)
    #expect(report.undelivered == 1)
    #expect(bench.server.writes.map(\.method) == ["POST"])
    #expect(try bench.write(edit.id).isHeld)
    bench.server.hook(nil)
    #expect(try bench.queue.drain().answered == 2)
  }

  @Test("Q-S38 an edge between two own creates waits for both")
  func heldEdge() throws {
    let bench = try Bench()
    let (one, two) = (try bench.create("A"), try bench.create("B"))
    let edge = try bench.queue.createEdge(EdgeDraft(source: one, target: two, type: "references"))
    #expect(edge.dependsOn.count == 2)
    bench.server.hook { _, number in number == 2 ? .drop : .usual }
    let report = try bench.queue.drain()
    #expect(report.held == 1)
    #expect(!bench.server.writes.contains { $0.target == "/edges" })
    bench.server.hook(nil)
    try bench.queue.drain()
    #expect(try bench.write(edge.id).verdict == .accepted)
    #expect(try bench.copy.edges(from: one, type: "references").first?.version == 1)
  }

  @Test("Q-S40 an edit behind a refused create is refused unsent, with the kind and the verdict in its reason")
  func refusedDependency() throws {
    let bench = try Bench()
    let id = try bench.create("A")
    let edit = try bench.edit(id, ["title": "B"])
    bench.server.hook { _, _ in .answer(400, #"{"error":{"code":"validation_error","message":"no"}}"#, []) }
    let report = try bench.queue.drain()
    #expect(report.answered == 1)
    #expect(report.unsent == 1)
    #expect(try bench.write(edit.id).reason == "the create_item it waits for was refused")
    // A refused create leaves nothing.
    #expect(try bench.copy.item(id) == nil)
    #expect(report.exit == 0)
  }

  @Test("Q-S44 follows names a refused edit ahead, and no accepted one")
  func follows() throws {
    let bench = try Bench()
    let id = try bench.create("A")
    try bench.queue.drain()
    let refused = try bench.edit(id, ["title": "B"])
    bench.server.hook { _, _ in .answer(400, #"{"error":{"code":"validation_error"}}"#, []) }
    try bench.queue.drain()
    bench.server.hook(nil)
    let next = try bench.edit(id, ["title": "C"])
    #expect(next.follows == refused.id)
    let other = try bench.create("E")
    try bench.queue.drain()
    #expect(try bench.edit(other, ["title": "F"]).follows == nil)
  }

  @Test("Q-S60 Q-S66 Q-S67 a refusal, then a drop; and what Retry-After the report passes on")
  func counts() throws {
    let bench = try Bench()
    try bench.create("A")
    try bench.create("B")
    bench.server.hook { _, number in
      number == 1 ? .answer(400, #"{"error":{"code":"validation_error"}}"#, []) : .drop
    }
    let report = try bench.queue.drain()
    #expect(report.answered == 1)
    #expect(report.undelivered == 1)
    #expect(report.unavailable?.contains("could not be reached") == true)
    bench.server.hook { _, _ in .answer(429, "{}", [HTTPHeader("Retry-After", "12")]) }
    let limited = try bench.queue.drain()
    #expect(limited.retryAfterSeconds == 12)
    #expect(limited.unavailable?.contains("429") == true)
    bench.server.hook { _, _ in .answer(503, "{}", [HTTPHeader("Retry-After", "100000")]) }
    #expect(try bench.queue.drain().retryAfterSeconds == 300)
    #expect(try bench.queue.all().allSatisfy { $0.refusals == 0 })
  }

  @Test("Q-S61 drop, 503 and 429 on three drains: one request each, nothing counted, all three go on the fourth")
  func environmental() throws {
    let bench = try Bench()
    for title in ["A", "B", "C"] { try bench.create(title) }
    for act in [FakeServer.Act.drop, .answer(503, "{}", []), .answer(429, "{}", [])] {
      bench.server.forgetRequests()
      bench.server.hook { _, _ in act }
      let report = try bench.queue.drain()
      #expect(bench.server.writes.count == 1)
      #expect(report.answered == 0)
      #expect(report.undelivered == 3)
    }
    bench.server.hook(nil)
    #expect(try bench.queue.drain().answered == 3)
  }

  @Test("Q-S62 the root unreadable: nothing is sent or counted")
  func noRoot() throws {
    let bench = try Bench()
    let id = try bench.create("A")
    try bench.edit(id, ["title": "B"])
    bench.server.hook(all: true) { sent, _ in sent.target == "/" ? .unnamed(502, "") : .usual }
    let report = try bench.queue.drain()
    #expect(report.undelivered == 1)
    #expect(report.held == 1)
    #expect(report.unavailable?.contains("502") == true)
    #expect(bench.server.writes.isEmpty)
  }

  @Test("Q-S64 Q-S166 uploads: bytes gone are refused unsent and refuse what waits, other bytes answered are counted")
  func uploads() throws {
    let bench = try Bench()
    let gone = try bench.queue.upload(file: MemoryFile(bytes: [1, 2]), mimeType: "image/png")
    bench.blobs.remove(try #require(gone.blob))
    let file = try bench.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "F", "body": "x"], upload: gone.id))
    let host = try bench.create("A")
    let edge = try bench.queue.createEdge(
      EdgeDraft(source: try #require(file.itemID), target: host, type: "attached-to"))
    let kept = try bench.queue.upload(file: MemoryFile(bytes: Array("abc".utf8)), mimeType: "text/plain")
    let report = try bench.queue.drain()
    #expect(report.unsent == 3)
    #expect(try bench.write(file.id).reason == "the upload_blob it waits for was refused")
    #expect(try bench.write(edge.id).reason == "the create_item it waits for was refused")
    #expect(try bench.write(gone.id).reason?.string.contains(try #require(gone.blob).hex) == true)
    #expect(try bench.write(kept.id).verdict == .accepted)
    let other = try bench.queue.upload(file: MemoryFile(bytes: [9]), mimeType: "text/plain")
    bench.server.hook { _, _ in .answer(201, #"{"hash":"sha256:\#(ContentHash(of: [8]).hex)"}"#, []) }
    try bench.queue.drain()
    #expect(try bench.write(other.id).verdict == nil)
    #expect(try bench.write(other.id).refusals == 1)
    expectError(.invalid) { try bench.queue.upload(file: MemoryFile(bytes: []), mimeType: "x/y") }
  }

  @Test(
    "Q-S71 Q-S83 an accepted write whose read fails stays accepted, uncounted, and the next drain reads first")
  func owedRead() throws {
    let bench = try Bench()
    let id = try bench.create("A")
    bench.server.hook(all: true) { sent, _ in sent.method == "GET" && sent.target.hasPrefix("/items/") ? .drop : .usual
    }
    let report = try bench.queue.drain()
    #expect(report.answered == 1)
    #expect(report.undelivered == 0)
    #expect(report.exit == 3)
    // It goes on showing as the person wrote it.
    #expect(try bench.copy.item(id)?.properties["title"] == "A")
    bench.server.hook(nil)
    bench.server.forgetRequests()
    let edit = try bench.edit(id, ["title": "B"])
    // Made on the answer, not on the version the copy still shows (Q36.5).
    #expect(edit.baseVersion == 1)
    try bench.queue.drain()
    #expect(bench.server.sent.map(\.method) == ["GET", "GET", "PATCH", "GET"])
    #expect(try bench.copy.item(id)?.version == 2)
  }

  @Test("Q-S84 a 4xx naming the contract is refused on its first answer and not sent again")
  func refusals() throws {
    let bench = try Bench()
    for (status, code) in [(400, "x"), (404, "y"), (405, "z"), (410, "a"), (413, "b"), (422, "c")] {
      let id = try bench.create("\(status)")
      let write = try #require(try bench.queue.waiting(item: id).first)
      bench.server.hook { sent, _ in
        sent.isWrite ? .answer(status, #"{"error":{"code":"\#(code)"}}"#, []) : .usual
      }
      try bench.queue.drain()
      #expect(try bench.write(write.id).reason == Text(code))
      bench.server.hook(nil)
      bench.server.forgetRequests()
      try bench.queue.drain()
      #expect(bench.server.sent.isEmpty)
    }
  }

  @Test("Q-S85 Q-S86 a refused edit shows until its read succeeds, and a waiting one is laid over the row read")
  func refusedRead() throws {
    let bench = try Bench()
    let id = try bench.create("A")
    try bench.queue.drain()
    try bench.edit(id, ["title": "B"])
    bench.server.hook(all: true) { sent, _ in
      sent.isWrite ? .answer(400, #"{"error":{"code":"validation_error"}}"#, []) : sent.target == "/" ? .usual : .drop
    }
    try bench.queue.drain()
    #expect(try bench.copy.item(id)?.properties["title"] == "B")
    bench.server.hook(nil)
    bench.server.state.withLock { $0.items[id.text]?["properties"] = ["title": "A", "body": "theirs"] }
    bench.server.state.withLock { $0.items[id.text]?["version"] = 2 }
    try bench.edit(id, ["notes": "mine"])
    bench.server.hook(all: true) { sent, _ in sent.method == "PATCH" ? .drop : .usual }
    try bench.queue.drain()
    #expect(try bench.copy.item(id)?.properties == Sample.object(#"{"title":"A","body":"theirs","notes":"mine"}"#))
  }

  @Test("Q-S93 Q-S97 five unreadable answers make a write dead; the pass goes on each time")
  func dead() throws {
    let bench = try Bench()
    try bench.create("A")
    let first = try #require(try bench.queue.all().first)
    for round in 1...5 {
      let id = try bench.create("B\(round)")
      bench.server.hook { sent, _ in
        sent.isWrite && sent.body.contains(#""title":"A""#) ? .answer(200, "nonsense", []) : .usual
      }
      try bench.queue.drain()
      #expect(try bench.copy.serverItem(id)?.version == 1)
      #expect(try bench.write(first.id).refusals == round)
      #expect(try bench.write(first.id).verdict == (round == 5 ? .dead : nil))
    }
    #expect(try bench.write(first.id).reason == nil)
    bench.server.forgetRequests()
    try bench.queue.drain()
    #expect(bench.server.sent.isEmpty)
    #expect(try bench.queue.release(first.id) == 1)
    #expect(try bench.write(first.id).idempotencyKey != first.idempotencyKey)
    bench.server.hook(nil)
    #expect(try bench.queue.drain().answered == 1)
  }

  @Test("Q-S94 Q-S95 dropped attempts and timeouts of a server are never counted")
  func neverCounted() throws {
    let bench = try Bench()
    try bench.create("A")
    for round in 0..<6 {
      bench.server.hook { _, _ in round % 3 == 0 ? .drop : .answer(round % 3 == 1 ? 408 : 425, "{}", []) }
      try bench.queue.drain()
    }
    #expect(try bench.queue.all().map(\.refusals) == [0])
    #expect(bench.server.writes.count == 6)
  }

  @Test("Q-S96 a refusal that names no contract is a proxy's word, a 401 among them")
  func unnamed() throws {
    let bench = try Bench()
    try bench.create("A")
    for status in [401, 403, 404, 409] {
      bench.server.hook { _, _ in .unnamed(status, #"{"error":{"code":"unauthorized"}}"#) }
      let report = try bench.queue.drain()
      #expect(report.unavailable?.contains("named no contract") == true)
      #expect(report.unavailable?.contains("\(status)") == true)
      #expect(report.stopped == nil)
      #expect(try bench.queue.all().map(\.verdict) == [nil])
    }
  }

  @Test("Q-S99 a key the server is still working on counts and decides nothing")
  func inFlight() throws {
    let bench = try Bench()
    try bench.create("A")
    bench.server.hook { _, _ in .answer(409, #"{"error":{"code":"idempotency_key_in_flight"}}"#, []) }
    #expect(try bench.queue.drain().answered == 1)
    #expect(try bench.queue.all().map(\.refusals) == [1])
    #expect(try bench.queue.all().map(\.verdict) == [nil])
  }

  @Test("Q-S102 a refused credential parks the queue; the next drain sends it under the same keys")
  func credential() throws {
    let bench = try Bench()
    for title in ["A", "B", "C"] { try bench.create(title) }
    let keys = try bench.queue.all().map(\.idempotencyKey.string)
    bench.server.hook { _, _ in .answer(401, #"{"error":{"code":"unauthorized"}}"#, []) }
    let report = try bench.queue.drain()
    #expect(report.stopped?.contains("3 queued write(s) parked") == true)
    #expect(report.answered == 1)
    #expect(report.exit == 5)
    #expect(bench.server.writes.count == 1)
    #expect(try bench.queue.all().allSatisfy { $0.blockedReason == .credentialRefused })
    bench.server.hook(nil)
    bench.server.forgetRequests()
    #expect(try bench.queue.drain().answered == 3)
    #expect(bench.server.writes.compactMap(\.key) == keys)
  }

  @Test("Q-S103 Q-S110 Q27.4 a spent key blocks until released, and goes under a fresh one")
  func keySpent() throws {
    let bench = try Bench()
    try bench.create("A")
    let write = try #require(try bench.queue.all().first)
    bench.server.hook { _, _ in .answer(422, #"{"error":{"code":"idempotency_key_reused"}}"#, []) }
    try bench.queue.drain()
    #expect(try bench.write(write.id).blockedReason == .keySpent)
    bench.server.hook(nil)
    bench.server.forgetRequests()
    try bench.queue.drain()
    #expect(bench.server.sent.isEmpty)
    #expect(try bench.queue.release(reason: .conflictUnresolved) == 0)
    #expect(try bench.queue.release(reason: .keySpent) == 1)
    try bench.queue.drain()
    #expect(bench.server.writes.first?.key != write.idempotencyKey.string)
    #expect(try bench.write(write.id).verdict == .accepted)
  }

  @Test(
    "Q51.1 Q51.5 a write blocked for a missing grant is kept, others go, and it lands under its key once the grant returns"
  )
  func grant() throws {
    let bench = try Bench()
    let id = try bench.create("A")
    try bench.edit(id, ["title": "B"])
    let other = try bench.create("C", type: "core.task")
    let refusal =
      #"{"error":{"code":"type_not_permitted","details":{"grant":{"kind":"type","name":"core.note","level":"write"}}}}"#
    bench.server.hook { sent, _ in sent.body.contains("core.note") ? .answer(403, refusal, []) : .usual }
    let report = try bench.queue.drain()
    #expect(report.held == 1)
    #expect(report.answered == 2)
    #expect(report.verdicts[0].refusal?.grant?.name == "core.note")
    #expect(try bench.copy.serverItem(other)?.version == 1)
    #expect(try bench.copy.item(id)?.properties["title"] == "B")
    bench.server.hook(nil)
    #expect(try bench.queue.drain().answered == 2)
    #expect(try bench.copy.serverItem(id)?.version == 2)
  }

  @Test("Q-S107 an unclaimed source blocks every create of it and nothing else")
  func unclaimed() throws {
    let bench = try Bench()
    for (title, source) in [("A", "feed"), ("B", "feed"), ("C", "other")] as [(JSON, Text)] {
      try bench.queue.createItem(
        ItemDraft(type: "core.note", properties: ["title": title, "body": "x"], source: source))
    }
    bench.server.hook { sent, _ in
      sent.body.contains(#""source":"feed""#)
        ? .answer(403, #"{"error":{"code":"forbidden","details":{"source":"feed"}}}"#, []) : .usual
    }
    let report = try bench.queue.drain()
    #expect(report.unclaimedSources == ["feed"])
    #expect(bench.server.writes.count == 2)
    #expect(report.verdicts.filter { $0.reason == "credential_refused" }.count == 2)
    #expect(report.unsent == 1)
    bench.server.hook(nil)
    #expect(try bench.queue.drain().answered == 2)
  }

  @Test("Q-S115 Q-S116 Q46.2 Q46.5 a withdraw reads the server first and puts its row back under what waits")
  func withdraw() throws {
    let bench = try Bench()
    let id = try bench.create("A")
    try bench.queue.drain()
    bench.server.state.withLock { $0.items[id.text]?["version"] = 2 }
    bench.server.state.withLock { $0.items[id.text]?["properties"] = ["title": "theirs", "body": "x"] }
    let edit = try bench.edit(id, ["title": "mine"])
    let notes = try bench.edit(id, ["notes": "n"])
    bench.server.hook { sent, number in number == 2 ? .drop : .usual }
    try bench.queue.drain()
    #expect(try bench.write(edit.id).blockedReason == .conflictUnresolved)
    #expect(try bench.copy.item(id)?.properties["title"] == "mine")
    #expect(try bench.queue.withdraw(notes.id) == false)
    expectError(.notFound) { try bench.queue.withdraw(Sample.id(99)) }
    bench.server.hook(nil)
    bench.server.up = false
    expectError(.network) { try bench.queue.withdraw(edit.id) }
    #expect(try bench.copy.item(id)?.properties["title"] == "mine")
    bench.server.up = true
    #expect(try bench.queue.withdraw(edit.id))
    #expect(try bench.queue.write(edit.id) == nil)
    #expect(try bench.copy.item(id)?.properties == Sample.object(#"{"title":"theirs","body":"x","notes":"n"}"#))
  }

  @Test("Q-S113 releasing a dead create releases the edit refused behind it, and shows both at once")
  func releaseChain() throws {
    let bench = try Bench()
    let id = try bench.create("A")
    let create = try #require(try bench.queue.all().first)
    let edit = try bench.edit(id, ["title": "B"])
    bench.server.hook { _, _ in .answer(200, "x", []) }
    for _ in 1...5 { try bench.queue.drain() }
    #expect(try bench.write(create.id).verdict == .dead)
    try bench.queue.drain()
    #expect(try bench.write(edit.id).reason == "the create_item it waits for was dead")
    #expect(try bench.queue.release(create.id) == 2)
    #expect(try bench.copy.item(id)?.properties["title"] == "B")
    bench.server.hook(nil)
    #expect(try bench.queue.drain().answered == 2)
  }

  @Test(
    "Q27.6 Q47.1 Q47.7 what the server refused is not released; content stays through a clearing until discarded")
  func clearing() throws {
    let bench = try Bench()
    let id = try bench.create("A")
    try bench.queue.drain()
    let edit = try bench.edit(id, ["title": "B"])
    bench.server.hook { sent, _ in sent.isWrite ? .answer(400, #"{"error":{"code":"validation_error"}}"#, []) : .usual }
    try bench.queue.drain()
    #expect(try bench.queue.release(edit.id) == 0)
    #expect(try bench.queue.forget() == 1)
    #expect(try bench.queue.all().map(\.id) == [edit.id])
    #expect(try bench.write(edit.id).body?["properties"]?["title"] == "B")
    #expect(try bench.queue.discard(edit.id))
    #expect(try bench.queue.all().isEmpty)
    #expect(try bench.copy.item(id)?.properties["title"] == "A")
  }

  @Test("Q60.1 another instance at the address is sent nothing; the copy expires and the queue stays")
  func otherInstance() throws {
    let bench = try Bench()
    try bench.create("A")
    bench.server.state.withLock { $0.instance = Sample.id(0x2).text }
    expectError(.copyExpired) { try bench.queue.drain() }
    #expect(bench.server.writes.isEmpty)
    #expect(try bench.queue.all().count == 1)
  }

  @Test("Q-S169 a stop while a write is in flight settles that write, sends nothing else and ends canceled")
  func stop() throws {
    let bench = try Bench()
    try bench.create("A")
    try bench.create("B")
    let stop = bench.copy.stop
    bench.server.hook { sent, _ in
      if sent.isWrite { stop.set(.stopped) }
      return .usual
    }
    expectError(.canceled) { try bench.queue.drain() }
    #expect(bench.server.writes.count == 1)
    #expect(try bench.queue.all().map(\.verdict) == [.accepted, nil])
  }

  @Test("Q-S170 a redirect ends each of six drains with its error, the queue unchanged, its target never asked")
  func redirect() throws {
    let bench = try Bench()
    try bench.create("A")
    for round in 0..<6 {
      bench.server.hook { sent, _ in
        sent.isWrite ? .answer(307, "", round % 2 == 0 ? [HTTPHeader("Location", "http://elsewhere/")] : []) : .usual
      }
      let error = #expect(throws: MarfaError.self) { try bench.queue.drain() }
      #expect(error?.code == .redirect)
      #expect(error?.exit == 1)
      #expect(try bench.queue.all().map(\.verdict) == [nil])
      #expect(try bench.queue.all().map(\.refusals) == [0])
    }
    #expect(Set(bench.server.writes.map(\.key)).count == 1)
  }

  @Test("Q-S139 an edit said to be read earlier goes on that version and is laid over; bounds and the version held")
  func asRead() throws {
    let bench = try Bench()
    let id = try bench.create("A")
    try bench.queue.drain()
    for title in ["B", "C"] {
      try bench.edit(id, ["title": .string(title)])
      try bench.queue.drain()
    }
    let earlier = try bench.queue.updateItem(
      id, ItemEdit(properties: ["notes": "n"], version: 1, readAtVersion: true))
    #expect(earlier.baseVersion == 1)
    #expect(try bench.copy.item(id)?.properties["notes"] == "n")
    #expect(try bench.copy.item(id)?.version == 3)
    for version in [0, 4] {
      expectError(.invalid) {
        try bench.queue.updateItem(id, ItemEdit(properties: ["notes": "n"], version: version, readAtVersion: true))
      }
    }
    #expect(
      try !bench.queue.updateItem(id, ItemEdit(properties: ["body": "n"], version: 3, readAtVersion: true)).asRead)
  }

  @Test(
    "Q-S144 Q-S145 a retype and a tier change go in one body; the present ones go as nothing; an unknown type is refused"
  )
  func moves() throws {
    let bench = try Bench()
    let id = try bench.create("A")
    try bench.queue.drain()
    let move = try bench.queue.updateItem(
      id, ItemEdit(properties: ["title": "B"], version: 1, type: "core.task", tier: "feed"))
    #expect(
      move.bodyText
        == #"{"version":1,"properties":{"title":"B"},"type":"core.task","retype":true,"tier":"feed"}"#)
    #expect(try bench.copy.item(id)?.type == "core.task")
    #expect(try bench.copy.item(id)?.tier == "feed")
    let same = try bench.queue.updateItem(
      id, ItemEdit(properties: ["title": "C"], version: 1, type: "core.task", tier: "feed"))
    #expect(same.body?["type"] == nil)
    #expect(same.body?["tier"] == nil)
    expectError(.unknownType) {
      try bench.queue.updateItem(id, ItemEdit(properties: JSONObject(), version: 1, type: "no.such"))
    }
    expectError(.unknownType) { try bench.queue.createItem(ItemDraft(type: "no.such")) }
  }

  @Test("Q19.4 a store that fails to record an answer counts; the pass goes on")
  func storeFailure() throws {
    let bench = try Bench()
    try bench.create("A")
    try bench.create("B")
    let first = try #require(try bench.queue.all().first)
    // A trigger that refuses the first write's verdict, as a broken page would.
    try bench.copy.database.execute(
      "CREATE TRIGGER broken BEFORE UPDATE OF verdict ON queue WHEN NEW.seq = \(first.seq) AND NEW.verdict = 'accepted' BEGIN SELECT RAISE(ABORT, 'broken'); END"
    )
    let report = try bench.queue.drain()
    #expect(try bench.write(first.id).refusals == 1)
    #expect(try bench.write(first.id).verdict == nil)
    #expect(report.answered == 2)
    try bench.copy.database.execute("DROP TRIGGER broken")
    try bench.queue.drain()
    #expect(try bench.write(first.id).verdict == .accepted)
    #expect(bench.server.state.withLock { $0.items.count } == 2)
  }

  @Test("Q6.13 each write of a pass is in exactly one count, whatever was answered", arguments: 0..<40)
  func accounted(_ seed: Int) throws {
    let bench = try Bench()
    var random = SplitMix(seed: UInt64(seed))
    var ids: [EntityID] = []
    for number in 0..<12 {
      if let id = ids.randomElement(using: &random), Bool.random(using: &random) {
        if Bool.random(using: &random) {
          try bench.edit(id, ["title": .string("\(number)")])
        } else if let other = ids.randomElement(using: &random), other != id {
          _ = try? bench.queue.createEdge(EdgeDraft(source: id, target: other, type: "references"))
        }
      } else {
        ids.append(try bench.create("\(number)"))
      }
    }
    let total = try bench.queue.all().count
    let acts: [FakeServer.Act] = [
      .usual, .usual, .usual, .usual, .drop, .loseAnswer, .answer(400, #"{"error":{"code":"validation_error"}}"#, []),
      .answer(200, "x", []), .answer(503, "{}", []), .answer(422, #"{"error":{"code":"idempotency_key_reused"}}"#, []),
    ]
    bench.server.hook { sent, number in
      sent.isWrite ? acts[Int(scattered(seed * 1000 + number) % UInt64(acts.count))] : .usual
    }
    let report = try bench.queue.drain()
    #expect(report.answered + report.held + report.undelivered + report.unsent + report.unmade == total)
    for entry in report.verdicts { #expect(try bench.write(entry.id).verdict == entry.verdict) }
    // Left alone, everything that still can is settled, each write taken once.
    bench.server.hook(nil)
    for _ in 0..<3 { try bench.queue.drain() }
    let live = bench.server.state.withLock { $0.items.count }
    let taken = try bench.queue.all().filter { $0.kind == .createItem && $0.verdict == .accepted }.count
    #expect(live >= taken)
    #expect(try bench.queue.all().allSatisfy { $0.verdict != nil })
    for id in ids { #expect(try bench.queue.hasWaiting(item: id) || bench.copy.item(id) == bench.copy.serverItem(id)) }
  }
}

/// Expects an error of a code.
func expectError<Value>(
  _ code: MarfaError.Code, _ work: () throws -> Value, at place: SourceLocation = #_sourceLocation
) {
  let error = #expect(throws: MarfaError.self, sourceLocation: place) { _ = try work() }
  #expect(error?.code == code, sourceLocation: place)
}

/// A store's file in a directory of its own.
final class ScratchStore {
  private let directory: TemporaryDirectory
  let path: String
  init() throws {
    directory = try TemporaryDirectory()
    path = "\(directory.path)/core.sqlite"
  }
}

/// A number scattered by another.
private func scattered(_ number: Int) -> UInt64 {
  var random = SplitMix(seed: UInt64(number))
  return random.next()
}
