import LocalInstance
import MarfaBase
import TestSupport
import Testing

@testable import MarfaCopy

/// Releasing, withdrawing, discarding and clearing (queue.md, chapter 16), and the queue through fills (chapter 14).
@Suite struct QueueUpkeepTests {
  private func conflict(_ code: String, _ id: EntityID) -> QueueBench.Act {
    .answer(409, #"{"error":{"code":"\#(code)","status":409},"current":{"id":"\#(id)"}}"#)
  }

  @Test("Q-S111 a release by reason takes the writes blocked for it and no other; a dead one stays")
  func byReason() throws {
    let bench = try QueueBench()
    let ids = try (0..<5).map { try bench.held(Text("\($0)")) }
    let edits = try ids.map { try bench.edit($0, ["title": "mine"]) }
    for place in [0, 1] { bench.on("PATCH", "/items/\(ids[place])", conflict("ancestor_unavailable", ids[place])) }
    bench.on("PATCH", "/items/\(ids[2])", conflict("version_conflict", ids[2]))
    bench.on("PATCH", "/items/\(ids[3])", .answer(422, refusing("idempotency_key_reused")))
    bench.on("PATCH", "/items/\(ids[4])", .answer(200, "?"))
    for _ in 0..<5 { try bench.drain() }
    #expect(try bench.queue.release(reason: .ancestorUnavailable) == 2)
    let verdicts = try edits.map { try bench.verdict($0) }
    #expect(verdicts == [nil, nil, .blocked, .blocked, .dead])
    #expect(try bench.write(edits[0].id).idempotencyKey != edits[0].idempotencyKey)
    #expect(try bench.write(edits[2].id).idempotencyKey == edits[2].idempotencyKey)
    #expect(try bench.queue.release(reason: .instanceChanged) == 0)
    bench.heal()
    bench.clear()
    try bench.drain()
    #expect(Set(bench.writes.map(\.target)) == Set(ids[0...1].map { "/items/\($0)?conflict=auto" }))
  }

  @Test("Q-S112 a write the server refused is not released, whatever it depends on")
  func refusedStays() throws {
    let bench = try QueueBench()
    let held = try bench.held("A")
    let plain = try bench.edit(held, ["title": "mine"])
    let id = try bench.create("B")
    let behind = try bench.edit(id, ["title": "C"])
    bench.on("PATCH", .answer(400, refusing("validation_error")))
    try bench.drain()
    for write in [plain, behind] {
      #expect(try bench.verdict(write) == .refused)
      #expect(try bench.queue.release(write.id) == 0)
      #expect(try bench.verdict(write) == .refused)
    }
    #expect(try bench.write(behind.id).dependsOn.count == 1)
    bench.heal()
    bench.clear()
    try bench.drain()
    #expect(bench.requests.isEmpty)
    #expect(bench.bench.refusal { try bench.queue.release(Sample.id(99)) }?.code == .notFound)
  }

  @Test("Q-S114 a write blocked for its version is withdrawn: it leaves, and the row is the server's")
  func withdrawn() throws {
    for code in ["ancestor_unavailable", "version_conflict"] {
      let bench = try QueueBench()
      let id = try bench.held("A")
      let edit = try bench.edit(id, ["title": "mine"])
      try bench.theirs(id, ["title": "theirs"])
      bench.on("PATCH", conflict(code, id))
      try bench.drain()
      #expect(try bench.title(id) == "mine")
      #expect(try bench.queue.withdraw(edit.id))
      #expect(try bench.queue.write(edit.id) == nil)
      #expect(try bench.title(id) == "theirs")
      #expect(try bench.copy.item(id)?.version == 2)
      // A row the read does not find goes.
      let gone = try bench.edit(id, ["title": "again"])
      try bench.drain()
      bench.on("GET", "/items/\(id)", .answer(404, refusing("item_not_found")))
      #expect(try bench.queue.withdraw(gone.id))
      #expect(try bench.copy.item(id) == nil)
    }
  }

  @Test("Q-S117 withdraw answers nothing for any other write; an unknown id is not_found")
  func notWithdrawn() throws {
    let bench = try QueueBench()
    let ids = try (0..<4).map { try bench.held(Text("\($0)")) }
    let edits = try ids.map { try bench.edit($0, ["title": "mine"]) }
    bench.on("PATCH", "/items/\(ids[0])", .answer(200, "?"))
    bench.on("PATCH", "/items/\(ids[1])", .answer(422, refusing("idempotency_key_reused")))
    bench.on("PATCH", "/items/\(ids[2])", .answer(400, refusing("validation_error")))
    for _ in 0..<5 { try bench.drain() }
    let unanswered = try bench.edit(ids[3], ["title": "later"])
    #expect(
      try edits.map { try bench.verdict($0) } == [.dead, .blocked, .refused, .accepted])
    bench.clear()
    for write in edits + [unanswered] { #expect(try !bench.queue.withdraw(write.id)) }
    #expect(bench.requests.isEmpty)
    #expect(try bench.queue.all().count == 5)
    #expect(bench.bench.refusal { try bench.queue.withdraw(Sample.id(99)) }?.code == .notFound)
  }

  @Test("Q-S118 Q46.6 what waits for a withdrawn create is refused unsent under its kind, in turn, and never released")
  func withdrawnChain() throws {
    let bench = try QueueBench()
    let other = try bench.held("O")
    let id = try bench.create("A")
    let create = try #require(try bench.queue.waiting(item: id).first)
    let edit = try bench.edit(id, ["title": "B"])
    let tag = try bench.queue.addTag(id, "t")
    let edge = try bench.queue.createEdge(EdgeDraft(source: other, target: id, type: "references"))
    let edgeID = try #require(edge.edgeID)
    let edgeEdit = try #require(try bench.queue.updateEdge(edgeID, version: 0, properties: ["why": "a"]))
    let apart = try bench.edit(other, ["title": "P"])
    bench.on("POST", "/items", .answer(409, #"{"error":{"code":"version_conflict"},"current":{"id":"\#(id)"}}"#))
    try bench.drain()
    #expect(try bench.write(create.id).blockedReason == .conflictUnresolved)
    #expect(try bench.queue.withdraw(create.id))
    for write in [edit, tag, edge, edgeEdit] {
      let now = try bench.write(write.id)
      #expect(now.verdict == .refused)
      #expect(now.reason == "the create_item it waits for was withdrawn")
      #expect(!now.sent)
      #expect(try bench.queue.release(write.id) == 0)
      #expect(try bench.verdict(write) == .refused)
    }
    #expect(try bench.verdict(apart) == .accepted)
    #expect(try bench.copy.item(id) == nil)
    #expect(try bench.copy.edges(to: id).isEmpty)
    bench.heal()
    bench.clear()
    try bench.drain()
    #expect(bench.requests.isEmpty)
  }

  @Test(
    "Q-S119 Q47 a clearing takes answered writes, keeps refused content, takes a withdraw's leftovers without content")
  func clearing() throws {
    let bench = try QueueBench()
    let (one, two) = (try bench.held("A"), try bench.held("B"))
    let taken = try bench.edit(one, ["title": "taken"])
    let refused = try bench.edit(two, ["title": "refused"])
    let tag = try bench.queue.addTag(two, "refused")
    bench.on("PATCH", "/items/\(two)", .answer(400, refusing("validation_error")))
    bench.on("POST", "/items/\(two)/tags", .answer(400, refusing("validation_error")))
    let id = try bench.create("C")
    let create = try #require(try bench.queue.waiting(item: id).first)
    let leftContent = try bench.edit(id, ["title": "left"])
    let leftTag = try bench.queue.addTag(id, "left")
    bench.on("POST", "/items", .answer(409, #"{"error":{"code":"version_conflict"},"current":{"id":"\#(id)"}}"#))
    try bench.drain()
    #expect(try bench.queue.withdraw(create.id))
    // Answered, but what depends on it still waits: it stays.
    bench.heal()
    let needed = try bench.create("N")
    let neededCreate = try #require(try bench.queue.waiting(item: needed).first)
    let waiting = try bench.edit(needed, ["title": "waits"])
    bench.on("PATCH", holding: "waits", .drop)
    try bench.drain()
    #expect(try bench.verdict(neededCreate) == .accepted)
    // Named alone, the others stay.
    #expect(try bench.queue.forget([refused.id, waiting.id]) == 0)
    #expect(try bench.queue.forget() == 3)
    #expect(try bench.queue.write(taken.id) == nil)
    #expect(try bench.queue.write(tag.id) == nil)
    #expect(try bench.queue.write(leftTag.id) == nil)
    #expect(
      try bench.queue.all().map(\.id) == [refused.id, leftContent.id, neededCreate.id, waiting.id])
    #expect(try bench.write(leftContent.id).body?["properties"]?["title"] == "left")
    bench.heal()
    try bench.drain()
    #expect(try bench.queue.forget() == 2)
  }

  @Test("Q-S120 a refused edit is discarded by id, the copy unchanged; another write, or one waited on, stays")
  func discarding() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    let edit = try bench.edit(id, ["title": "mine"])
    bench.on("PATCH", .answer(400, refusing("validation_error")))
    try bench.drain()
    let before = try bench.copy.item(id)
    #expect(try bench.queue.discard(edit.id))
    #expect(try bench.queue.write(edit.id) == nil)
    #expect(try bench.copy.item(id) == before)
    #expect(try !bench.queue.discard(edit.id))

    bench.heal()
    let waiting = try bench.edit(id, ["title": "again"])
    #expect(try !bench.queue.discard(waiting.id))
    try bench.drain()
    #expect(try !bench.queue.discard(waiting.id))

    let made = try bench.create("B")
    let create = try #require(try bench.queue.waiting(item: made).first)
    bench.on("POST", "/items", .answer(400, refusing("validation_error")))
    bench.on("GET", "/items/\(made)", .drop)
    try bench.drain()
    // Its read is owed.
    #expect(try !bench.queue.discard(create.id))
    let behind = try bench.queue.addTag(made, "t")
    bench.heal()
    #expect(behind.dependsOn.isEmpty)
    try bench.queue.giveUp(behind)
    try bench.drain()
    #expect(try bench.queue.discard(create.id))

    // A create refused with an edit queued behind it that still waits.
    let second = try bench.create("C")
    let refused = try #require(try bench.queue.waiting(item: second).first)
    let tag = try bench.queue.addTag(second, "t")
    bench.on("POST", "/items", .answer(400, refusing("validation_error")))
    bench.on(
      "GET", "/items/\(second)",
      .first {
        try bench.copy.database.run("UPDATE queue SET verdict = NULL, reason = NULL WHERE id = ?", tag.id)
      })
    try bench.drain()
    #expect(try bench.verdict(refused) == .refused)
    #expect(try bench.verdict(tag) == nil)
    #expect(try !bench.queue.discard(refused.id))
  }

  // MARK: Fills and events

  @Test(
    "Q-S122 QD1 QD2 another instance: nothing is sent, the copy expires; after an agreed fill the writes are blocked")
  func otherInstance() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    let edit = try bench.edit(id, ["title": "mine"])
    let made = try bench.create("N")
    let dead = try bench.edit(id, ["body": "dead"])
    try bench.copy.database.run("UPDATE queue SET verdict = 'dead', refusals = 5 WHERE id = ?", dead.id)
    let other = try CopyBench(seed: 99)
    let known = bench.bench.transport.handle
    bench.bench.transport.handle = { other.instance.handle($0) }
    bench.clear()
    let error = bench.bench.refusal { try bench.drain() }
    #expect(error?.code == .copyExpired)
    #expect(error?.reason == "instance_changed")
    #expect(bench.writes.isEmpty)
    #expect(try bench.queue.all().map(\.idempotencyKey).count == 3)
    #expect(try bench.copy.hydration() == .expired)
    try bench.fill()
    for write in try bench.queue.all() { #expect(write.blockedReason == .instanceChanged) }
    #expect(try bench.copy.item(made)?.version == 0)
    bench.clear()
    let passed = try bench.drain()
    #expect(passed.answered + passed.held + passed.undelivered == 0)
    #expect(bench.writes.isEmpty)
    // The person decides: one is withdrawn, one goes to the new instance under a fresh key.
    #expect(try bench.queue.withdraw(edit.id))
    #expect(try bench.queue.withdraw(dead.id))
    let create = try #require(try bench.queue.waiting(item: made).first)
    #expect(try bench.queue.release(reason: .instanceChanged) == 1)
    try bench.drain()
    #expect(try bench.write(create.id).verdict == .accepted)
    #expect(try bench.write(create.id).idempotencyKey != create.idempotencyKey)
    #expect(try other.ask("GET", "/items/\(made)")["item"]?["version"] == 1)
    bench.bench.transport.handle = known
  }

  @Test("Q-S123 when a create is answered the edit behind it still shows; an edge's too; after a refused one too")
  func editStillShows() throws {
    let bench = try QueueBench()
    let other = try bench.held("O")
    let id = try bench.create("A")
    try bench.edit(id, ["title": "B"])
    let edge = try #require(
      try bench.queue.createEdge(EdgeDraft(source: other, target: id, type: "references")).edgeID)
    try bench.queue.updateEdge(edge, version: 0, properties: ["why": "b"])
    bench.on("PATCH", .drop)
    // Each create alone first: the pass ends at the edit.
    try bench.drain()
    try bench.drain()
    #expect(try bench.copy.serverItem(id)?.version == 1)
    #expect(try bench.copy.serverItem(id)?.properties["title"] == "A")
    #expect(try bench.title(id) == "B")
    bench.heal()
    bench.on("PATCH", "/edges", .drop)
    try bench.drain()
    #expect(try bench.copy.serverEdge(edge)?.properties["why"] == nil)
    #expect(try bench.copy.edge(edge)?.properties["why"] == "b")

    // A refused edit between: the one behind shows over the row as read.
    bench.heal()
    try bench.drain()
    let refused = try bench.edit(id, ["title": "C"])
    try bench.edit(id, ["notes": "n"])
    bench.on("PATCH", holding: #""C""#, .answer(400, refusing("validation_error")))
    bench.on("PATCH", holding: "notes", .drop)
    try bench.drain()
    try bench.drain()
    #expect(try bench.verdict(refused) == .refused)
    #expect(try bench.title(id) == "B")
    #expect(try bench.copy.item(id)?.properties["notes"] == "n")
  }

  @Test("Q-S124 waiting, blocked and dead writes stay laid over what an event, a held stream or a fill brings")
  func laidOver() throws {
    let bench = try QueueBench()
    let ids = try (0..<3).map { try bench.held(Text("\($0)")) }
    let edits = try ids.map { try bench.edit($0, ["title": "mine"]) }
    bench.on("PATCH", "/items/\(ids[0])", .drop)
    bench.on("PATCH", "/items/\(ids[1])", conflict("ancestor_unavailable", ids[1]))
    bench.on("PATCH", "/items/\(ids[2])", .answer(200, "?"))
    for _ in 0..<6 { try bench.drain() }
    try bench.copy.database.run("UPDATE queue SET verdict = 'dead', refusals = 5 WHERE id = ?", edits[2].id)
    try bench.copy.database.run(
      "UPDATE queue SET verdict = 'blocked', reason = 'ancestor_unavailable' WHERE id = ?", edits[1].id)
    func expectMine(_ notes: Text) throws {
      for id in ids {
        #expect(try bench.title(id) == "mine")
        #expect(try bench.copy.item(id)?.properties["notes"]?.text == notes)
      }
    }
    for id in ids { try bench.theirs(id, ["notes": "event"]) }
    try bench.copy.catchUp()
    try expectMine("event")
    // A held stream.
    var told = 0
    var idle = 0
    bench.bench.transport.whileIdle = {
      idle += 1
      if idle == 1 { for id in ids { try? bench.theirs(id, ["notes": "stream"]) } }
      if idle > 20 { bench.copy.stop.set(.stopped) }
      return true
    }
    _ = try bench.copy.follow(onChange: { change in
      if change.event == "item.updated" { told += 1 }
      return told == 3 ? .enough : .more
    })
    bench.bench.transport.whileIdle = nil
    #expect(told == 3)
    try expectMine("stream")
    for id in ids { try bench.theirs(id, ["notes": "fill"]) }
    _ = try bench.copy.expire("cursor_ahead", "set back")
    try bench.fill()
    try expectMine("fill")
    bench.heal()
    #expect(try bench.queue.release(edits[1].id) == 1)
    try bench.drain()
    #expect(try bench.verdict(edits[1])?.isSuccess == true)
    #expect(try bench.served(ids[1])["properties"]?["title"] == "mine")
  }

  @Test("Q-S125 a dead create, a dead edge edit and a dead edge create stay visible through a fill and an event")
  func deadStays() throws {
    let bench = try QueueBench()
    let (one, two) = (try bench.held("A"), try bench.held("B"))
    let edge = try bench.heldEdge("references", one, two)
    let id = try bench.create("dead")
    try bench.queue.updateEdge(edge, version: 1, properties: ["why": "dead"])
    let made = try #require(
      try bench.queue.createEdge(EdgeDraft(source: two, target: one, type: "references")).edgeID)
    bench.onWrites(.answer(200, "?"))
    for _ in 0..<5 { try bench.drain() }
    #expect(try bench.queue.all().allSatisfy { $0.verdict == .dead })
    func expectVisible() throws {
      #expect(try bench.title(id) == "dead")
      #expect(try bench.copy.edge(edge)?.properties["why"] == "dead")
      #expect(try bench.copy.edge(made)?.target == one)
      #expect(try bench.copy.edges(from: two).map(\.id) == [made])
    }
    try expectVisible()
    bench.heal()
    try bench.theirEdge(edge, ["other": "event"])
    try bench.copy.catchUp()
    try expectVisible()
    #expect(try bench.copy.edge(edge)?.properties["other"] == "event")
    _ = try bench.copy.expire("cursor_ahead", "set back")
    try bench.fill()
    try expectVisible()
    try bench.reopen()
    try expectVisible()
  }

  @Test("Q-S126 Q35.7 a waiting edge create whose source a fill left outside is not held, nor is its answer")
  func edgeOutside() throws {
    let bench = try QueueBench(["core.note", "core.task"], tier: "library", edges: [])
    let one = try bench.held("A")
    let task = try bench.bench.note("T", type: "core.task")
    try bench.copy.catchUp()
    let write = try bench.queue.createEdge(EdgeDraft(source: task, target: one, type: "references"))
    let edge = try #require(write.edgeID)
    #expect(try bench.copy.edge(edge) != nil)
    try bench.fill(["core.note"], tier: "library", edges: [])
    #expect(try bench.copy.item(task) == nil)
    #expect(try bench.copy.edge(edge) == nil)
    #expect(try bench.verdict(write) == nil)
    try bench.drain()
    #expect(try bench.verdict(write) == .accepted)
    #expect(try bench.copy.edge(edge) == nil)
    try bench.copy.catchUp()
    #expect(try bench.copy.edge(edge) == nil)
    #expect(try bench.bench.ask("GET", "/edges/\(edge)")["edge"]?["version"] == 1)
  }

  @Test("Q12.5 an event that brings the row as answered, or later, settles the read it owes, and nothing shows over it")
  func eventSettles() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    let edit = try bench.edit(id, ["title": "mine"])
    bench.on("GET", "/items/\(id)", .drop)
    try bench.drain()
    #expect(try bench.write(edit.id).owesRead)
    try bench.theirs(id, ["title": "theirs"])
    bench.heal()
    try bench.copy.catchUp()
    #expect(try !bench.write(edit.id).owesRead)
    #expect(try bench.title(id) == "theirs")
    bench.clear()
    try bench.drain()
    #expect(bench.requests.isEmpty)
  }

  @Test("Q-S167 a restore of a row not held is queued by id, once, enters nothing, and brings the row when taken")
  func restore() throws {
    let bench = try QueueBench()
    let id = try bench.theirNote("A")
    try bench.bench.ask("DELETE", "/items/\(id)")
    let restore = try bench.queue.restoreItem(id)
    #expect(restore.itemID == id)
    #expect(try bench.copy.item(id) == nil)
    #expect(bench.bench.refusal { try bench.queue.restoreItem(id) }?.code == .invalid)
    #expect(try bench.queue.all().count == 1)
    try bench.drain()
    #expect(try bench.verdict(restore) == .accepted)
    #expect(try bench.copy.item(id)?.state == "active")
    #expect(try bench.title(id) == "A")
  }

  @Test("Q-S168 Q57.1 where another machine placed the file first the folder's placement writes leave the queue")
  func givesWay() throws {
    let bench = try QueueBench()
    let note = try bench.held("A")
    let folder = try bench.held("F")
    let create = try bench.queue.createEdge(
      EdgeDraft(source: note, target: folder, type: "references", properties: ["path": "A.md"]))
    let edge = try #require(create.edgeID)
    let move = try #require(try bench.queue.updateEdge(edge, version: 0, properties: ["path": "B.md"]))
    bench.on(
      "POST", "/edges", .answer(400, refusing("edge_constraint_violation", #"{"constraint":"duplicate"}"#)))
    try bench.drain()
    #expect(try bench.verdict(create) == .refused)
    #expect(try bench.verdict(move) == .refused)
    #expect(try bench.queue.giveWay(edge: edge) == 2)
    #expect(try bench.queue.all().isEmpty)
    #expect(try bench.copy.edge(edge) == nil)
    // An accepted one stays.
    bench.heal()
    let second = try #require(
      try bench.queue.createEdge(EdgeDraft(source: note, target: folder, type: "references")).edgeID)
    try bench.drain()
    try bench.queue.updateEdge(second, version: 1, properties: ["path": "C.md"])
    #expect(try bench.queue.giveWay(edge: second) == 1)
    #expect(try bench.queue.all().map(\.verdict) == [.accepted])
    #expect(try bench.copy.edge(second)?.properties["path"] == nil)
  }
}
