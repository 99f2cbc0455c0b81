import LocalInstance
import MarfaBase
import TestSupport
import Testing

@testable import MarfaCopy

/// The queue before the real instance: what turns on merging, conflicted copies and the bin.
@Suite struct QueueInstanceTests {
  private func filled() throws -> CopyBench {
    let bench = try CopyBench()
    try bench.fill(["*"], tier: "all", edges: ["parent-of", "references"])
    return bench
  }

  private func edit(_ bench: CopyBench, _ id: EntityID, _ properties: JSONObject) throws -> QueuedWrite {
    let version = try #require(try bench.copy.item(id)).version
    return try bench.copy.queue.updateItem(id, ItemEdit(properties: properties, version: version))
  }

  /// An edit by another device, on the version the instance holds.
  private func theirs(_ bench: CopyBench, _ id: EntityID, _ properties: JSON) throws {
    let version = try #require(try bench.ask("GET", "/items/\(id)")["item"]?["version"]?.int)
    try bench.ask("PATCH", "/items/\(id)", ["version": .int(version), "properties": properties])
  }

  @Test("Q-S8 Q-S75 create, edits, tags, an edge, a delete and a restore are each taken in their own shape")
  func everyDoor() throws {
    let bench = try filled()
    let queue = bench.copy.queue
    let one = try #require(
      try queue.createItem(ItemDraft(type: "core.note", properties: ["title": "A", "body": "x"], tags: ["t"])).itemID)
    let two = try #require(
      try queue.createItem(ItemDraft(type: "core.note", properties: ["title": "B", "body": "y"])).itemID)
    _ = try edit(bench, one, ["title": "A2"])
    try queue.addTag(one, "u")
    try queue.removeTag(one, "t")
    try queue.replaceTags(one, ["u"])
    try queue.mergeTags(one, ["v"])
    try queue.writeExtension(one, "app.test", ["seen": true])
    let edge = try #require(try queue.createEdge(EdgeDraft(source: one, target: two, type: "references")).edgeID)
    try queue.updateEdge(edge, version: 0, properties: ["why": "b"])
    try queue.transition(two, "archived")
    try queue.deleteItem(two)
    try queue.restoreItem(two)
    let upload = try queue.upload(file: MemoryFile(bytes: Array("bytes".utf8)), mimeType: "text/plain")
    let report = try queue.drain()
    for entry in report.verdicts { #expect(entry.verdict == .accepted, "\(entry.kind) \(entry.reason?.string ?? "")") }
    #expect(report.answered == 15)
    #expect(try queue.write(upload.id)?.verdict == .accepted)
    let held = try #require(try bench.copy.serverItem(one))
    #expect(held.version == 2)
    #expect(held.tags == ["u", "v"])
    #expect(held.properties["title"] == "A2")
    #expect(try bench.copy.item(two)?.state == "active")
    #expect(try bench.copy.serverEdge(edge)?.version == 2)
    #expect(try queue.waitingItems().isEmpty)
    #expect(try queue.forget() == 15)
    // The copy is what a fill would bring.
    try bench.copy.catchUp()
    #expect(try bench.copy.item(one) == bench.copy.serverItem(one))
  }

  @Test("Q-S78 Q-S74 two devices on different properties merge; on one property that keeps both, a copy is named")
  func mergedAndConflicted() throws {
    let bench = try filled()
    let id = try bench.note("A", body: "one")
    try bench.copy.catchUp()
    let mine = try edit(bench, id, ["title": "mine"])
    try theirs(bench, id, ["notes": "theirs"])
    let apart = try bench.copy.queue.drain()
    #expect(apart.verdicts.map(\.verdict) == [.accepted])
    #expect(try bench.copy.item(id)?.properties["notes"] == "theirs")
    #expect(try bench.copy.item(id)?.properties["title"] == "mine")
    #expect(try bench.copy.queue.write(mine.id)?.answeredVersion == 3)

    let second = try edit(bench, id, ["title": "again"])
    try theirs(bench, id, ["title": "theirs"])
    let merged = try bench.copy.queue.drain()
    #expect(merged.verdicts.map(\.verdict) == [.merged])
    #expect(merged.verdicts[0].mergedFields == ["title"])
    #expect(try bench.copy.queue.write(second.id)?.verdict == .merged)
    #expect(try bench.copy.item(id)?.properties["title"] == "again")

    _ = try edit(bench, id, ["body": "my words"])
    try theirs(bench, id, ["body": "their words"])
    let conflicted = try bench.copy.queue.drain()
    #expect(conflicted.verdicts.map(\.verdict) == [.conflicted])
    let sibling = try #require(conflicted.verdicts[0].conflictedCopyID)
    try bench.copy.catchUp()
    let texts = Set([
      try bench.copy.item(id)?.properties["body"]?.text, try bench.copy.item(sibling)?.properties["body"]?.text,
    ])
    #expect(texts == ["my words", "their words"])
    bench.transport.clear()
    try bench.copy.queue.drain()
    #expect(bench.transport.requests.isEmpty)
  }

  @Test("Q-S142 a file saved three times before a push makes no conflict with itself, another's retitle meanwhile kept")
  func savedThrice() throws {
    let bench = try filled()
    let id = try bench.note("A", body: "one")
    try bench.copy.catchUp()
    for body in ["two", "three", "four"] as [JSON] {
      let row = try #require(try bench.copy.item(id))
      var properties = row.properties
      properties["body"] = body
      try bench.copy.queue.updateItem(id, ItemEdit(properties: properties, mode: .replace, version: row.version))
    }
    try theirs(bench, id, ["title": "theirs"])
    let report = try bench.copy.queue.drain()
    #expect(report.verdicts.map(\.verdict) == [.accepted, .accepted, .accepted])
    let served = try bench.ask("GET", "/items/\(id)")["item"]
    #expect(served?["properties"]?["body"] == "four")
    #expect(served?["properties"]?["title"] == "theirs")
    // No copy was set aside.
    #expect(try bench.ask("GET", "/items?type=core.note")["data"]?.array?.count == 1)
  }

  @Test("Q-S21 Q-S24 a delete does not bin content it did not read")
  func deletes() throws {
    let bench = try filled()
    let id = try bench.note("A", body: "one")
    try bench.copy.catchUp()
    _ = try edit(bench, id, ["title": "mine"])
    let delete = try bench.copy.queue.deleteItem(id)
    try theirs(bench, id, ["notes": "unseen"])
    try bench.copy.queue.drain()
    #expect(try bench.copy.queue.write(delete.id)?.blockedReason == .conflictUnresolved)
    #expect(try bench.ask("GET", "/items/\(id)")["item"]?["state"] == "active")
    #expect(try bench.copy.queue.withdraw(delete.id))
    #expect(try bench.copy.item(id)?.properties["notes"] == "unseen")
  }

  @Test("Q-S16 a lost delete answer and the row restored and edited since: the delete is replayed, the row stays")
  func replayedDelete() throws {
    let bench = try filled()
    let id = try bench.note("A", body: "one")
    try bench.copy.catchUp()
    try bench.copy.queue.deleteItem(id)
    bench.transport.after = { request, response in
      request.method == "DELETE" ? .failure(.unreachable("broke")) : .success(response)
    }
    #expect(try bench.copy.queue.drain().undelivered == 1)
    bench.transport.after = nil
    try bench.ask("POST", "/items/\(id)/restore")
    try theirs(bench, id, ["title": "new"])
    let report = try bench.copy.queue.drain()
    #expect(report.verdicts.map(\.verdict) == [.accepted])
    #expect(report.verdicts.map(\.replayed) == [true])
    #expect(try bench.copy.item(id)?.state == "active")
    #expect(try bench.copy.item(id)?.properties["title"] == "new")
    let deletes = bench.transport.sent.filter { $0.method == "DELETE" }
    #expect(deletes.count == 2)
    #expect(deletes[0].url == deletes[1].url)
  }

  @Test("Q-S90 an edit of a row that went to the bin is refused with trashed, and its text outlives a clearing")
  func trashed() throws {
    let bench = try filled()
    let id = try bench.note("A")
    try bench.copy.catchUp()
    let write = try edit(bench, id, ["body": "my words"])
    try bench.ask("DELETE", "/items/\(id)")
    let report = try bench.copy.queue.drain()
    #expect(report.verdicts[0].verdict == .refused)
    #expect(report.verdicts[0].refusal?.trashed == true)
    #expect(try bench.copy.rowState(id) == .trashed)
    try bench.copy.queue.forget()
    #expect(try bench.copy.queue.write(write.id)?.body?["properties"]?["body"] == "my words")
  }

  @Test("Q-S121 Q35.4 Q35.5 a refill keeps every queued write under its id and key, laid over what it brings")
  func refill() throws {
    let bench = try filled()
    let id = try bench.note("A", body: "one")
    try bench.copy.catchUp()
    let write = try edit(bench, id, ["title": "mine"])
    let made = try bench.copy.queue.createItem(ItemDraft(type: "core.note", properties: ["title": "N", "body": "x"]))
    try theirs(bench, id, ["body": "theirs"])
    _ = try bench.copy.expire("cursor_ahead", "restored")
    try bench.fill(["*"], tier: "all", edges: ["parent-of", "references"])
    let kept = try bench.copy.queue.all()
    #expect(kept.map(\.id) == [write.id, made.id])
    #expect(kept.map(\.idempotencyKey) == [write.idempotencyKey, made.idempotencyKey])
    #expect(try bench.copy.item(id)?.properties["title"] == "mine")
    #expect(try bench.copy.item(id)?.properties["body"] == "theirs")
    #expect(try bench.copy.item(try #require(made.itemID))?.version == 0)
    #expect(try bench.copy.queue.drain().answered == 2)
  }

  @Test("Q-S34 a write queued before its type forbade it is refused with the fields named, its content kept")
  func serverRefuses() throws {
    let bench = try filled()
    let write = try bench.copy.queue.createItem(ItemDraft(type: "core.note", properties: ["title": "A", "body": "x"]))
    // The instance sees a body the copy's catalog let through.
    try bench.copy.database.run(
      "UPDATE queue SET body = replace(body, '\"body\":\"x\"', '\"body\":7') WHERE id = ?", write.id)
    let report = try bench.copy.queue.drain()
    #expect(report.verdicts[0].refusal?.code == "invalid_properties")
    #expect(report.verdicts[0].refusal?.fields.map(\.field) == ["body"])
    #expect(try bench.copy.item(try #require(write.itemID)) == nil)
    try bench.copy.queue.forget()
    #expect(try bench.copy.queue.all().count == 1)
  }

  @Test("P6.4 Q9.10 a first push costs one request a write and one in a hundred beside it")
  func cost() throws {
    let bench = try filled()
    bench.transport.clear()
    for number in 0..<150 {
      let id = try #require(
        try bench.copy.queue.createItem(
          ItemDraft(type: "core.note", properties: ["title": .string("N\(number)"), "body": "x"])
        ).itemID)
      try bench.copy.queue.addTag(id, "work")
    }
    let report = try bench.copy.queue.drain()
    #expect(report.verdicts.allSatisfy { $0.verdict == .accepted })
    #expect(bench.transport.requests.count <= 306)
    #expect(try bench.copy.queue.waitingItems().isEmpty)
    #expect(try bench.copy.items(matching: FolderSearch(types: ["core.note"], tier: "library")).count == 150)
  }
}
