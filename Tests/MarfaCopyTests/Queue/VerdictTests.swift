import LocalInstance
import MarfaBase
import TestSupport
import Testing

@testable import MarfaCopy

/// Verdicts, and what the copy holds after each (queue.md, chapters 9 to 11).
@Suite struct QueueVerdictTests {
  private static let grant = #"{"grant":{"kind":"type","name":"core.note","level":"write"}}"#

  @Test("Q-S76 a fresh read that differs from the answer is what is held, of a row and of an edge")
  func readDiffers() throws {
    let bench = try QueueBench()
    let (one, two) = (try bench.held("A"), try bench.held("B"))
    let edge = try bench.heldEdge("references", one, two)
    try bench.edit(one, ["title": "mine"])
    try bench.queue.updateEdge(edge, version: 1, properties: ["why": "b"])
    var left = 2
    bench.on(
      "GET", "/items/\(one)",
      .first {
        if left & 1 == 0, left > 0 { try bench.theirs(one, ["notes": "between"]) }
        left = left == 2 ? 1 : left
      })
    var edgeLeft = true
    bench.on(
      "GET", "/edges/\(edge)",
      .first {
        if edgeLeft {
          edgeLeft = false
          try bench.theirEdge(edge, ["other": "between"])
        }
      })
    try bench.drain()
    #expect(try bench.copy.item(one)?.version == 3)
    #expect(try bench.copy.item(one)?.properties["notes"] == "between")
    #expect(try bench.copy.edge(edge)?.version == 3)
    #expect(try bench.copy.edge(edge)?.properties["other"] == "between")
    #expect(try bench.queue.all().compactMap(\.answeredVersion) == [2, 2])
  }

  @Test("Q-S79 drain and queue name the copy a conflict set aside, and a later drain sends nothing")
  func conflictedNamed() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    let edit = try bench.edit(id, ["body": "mine"])
    try bench.theirs(id, ["body": "theirs"])
    let report = try bench.drain()
    let copy = try #require(report.verdicts.first?.conflictedCopyID)
    #expect(report.verdicts.map(\.verdict) == [.conflicted])
    #expect(report.verdicts[0].mergedFields == ["body"])
    #expect(try bench.write(edit.id).conflictedCopyID == copy)
    #expect(try bench.write(edit.id).json["conflicted_copy_id"]?.text == copy.text)
    #expect(
      try bench.served(copy)["properties"]?["body"]?.text == "mine" || bench.served(id)["properties"]?["body"] == "mine"
    )
    bench.clear()
    try bench.drain()
    #expect(bench.requests.isEmpty)
  }

  @Test("Q-S80 Q-S81 the copy set aside comes with a catch-up, with tag and link; also where the original is not held")
  func conflictedComes() throws {
    for originalLeaves in [false, true] {
      let bench = try QueueBench(["core.note"], tier: "library", edges: [])
      let id = try bench.held("A")
      try bench.edit(id, ["body": "mine"])
      try bench.theirs(id, ["body": "theirs"])
      let copy = try #require(try bench.drain().verdicts.first?.conflictedCopyID)
      #expect(try bench.copy.item(copy) == nil)
      if originalLeaves {
        let version = try #require(try bench.served(id)["version"]?.int)
        try bench.bench.ask("PATCH", "/items/\(id)", ["version": .int(version), "tier": "feed"])
      }
      try bench.copy.catchUp()
      #expect(try bench.copy.item(copy)?.tags.contains("conflicted-copy") == true)
      func expectLink() throws {
        #expect((try bench.copy.item(id) == nil) == originalLeaves)
        let links = try bench.copy.edges(from: copy).filter { $0.type == "derived-from" }
        #expect(links.map(\.target) == [id])
        #expect(try bench.copy.edges(to: id).contains { $0.source == copy && $0.type == "derived-from" })
      }
      try expectLink()
      try bench.reopen()
      try expectLink()
      try bench.fill(["core.note"], tier: "library", edges: [])
      try expectLink()
    }
  }

  @Test("Q-S82 after a catch-up an older replayed answer and an older read change nothing, of a row and of an edge")
  func olderKept() throws {
    for olderRead in [false, true] {
      let bench = try QueueBench()
      let (one, two) = (try bench.held("A"), try bench.held("B"))
      let edge = try bench.heldEdge("references", one, two)
      let edit = try bench.edit(one, ["title": "mine"])
      let move = try #require(try bench.queue.updateEdge(edge, version: 1, properties: ["why": "b"]))
      bench.on("PATCH", .lose)
      try bench.drain()
      bench.heal()
      try bench.drain()
      // Both answers as they stood then; a row as a read gave it then.
      let then = try bench.served(one)
      let edgeThen = try #require(try bench.bench.ask("GET", "/edges/\(edge)")["edge"])
      try bench.theirs(one, ["notes": "later"])
      try bench.theirEdge(edge, ["other": "later"])
      try bench.copy.catchUp()
      try bench.copy.database.run("UPDATE queue SET verdict = NULL, answer = NULL, owed_read = 0")
      if olderRead {
        let tags: JSON = ["tags": [], "extensions": [:]]
        bench.on(
          "GET", "/items/\(one)",
          .answer(200, JSON.object(["item": then, "metadata": tags, "listed": true]).compact))
        bench.on("GET", "/edges/\(edge)", .answer(200, JSON.object(["edge": edgeThen]).compact))
      }
      let report = try bench.drain()
      #expect(report.verdicts.map(\.replayed) == [true, true])
      #expect(try bench.write(edit.id).answeredVersion == 2)
      #expect(try bench.write(move.id).answeredVersion == 2)
      #expect(try bench.copy.item(one)?.version == 3)
      #expect(try bench.copy.item(one)?.properties["notes"] == "later")
      #expect(try bench.copy.edge(edge)?.version == 3)
      #expect(try bench.copy.edge(edge)?.properties["other"] == "later")
    }
  }

  @Test("Q-S87 after a refusal a read answered invalid_id, 403 or 404 lets the row go; one in the bin stays")
  func absentReads() throws {
    for (status, code) in [(400, "invalid_id"), (403, "type_not_permitted"), (404, "item_not_found")] {
      let bench = try QueueBench()
      let id = try bench.held("A")
      let edit = try bench.edit(id, ["title": "mine"])
      bench.on("PATCH", .answer(400, refusing("validation_error")))
      bench.on("GET", "/items/\(id)", .answer(status, refusing(code)))
      try bench.drain()
      #expect(try bench.verdict(edit) == .refused)
      #expect(try bench.copy.item(id) == nil, "\(status)")
      #expect(try bench.copy.hydration() == .complete)
    }
    let bench = try QueueBench()
    let id = try bench.held("A")
    try bench.edit(id, ["title": "mine"])
    try bench.bench.ask("DELETE", "/items/\(id)")
    try bench.drain()
    #expect(try bench.copy.rowState(id) == .trashed)
    #expect(try bench.title(id) == "A")
  }

  @Test("Q-S88 Q12.7 a read older than the copy, and an absence while a catch-up wrote the row, leave the row")
  func olderRead() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    let then = try bench.served(id)
    try bench.theirs(id, ["notes": "later"])
    try bench.copy.catchUp()
    try bench.edit(id, ["title": "mine"])
    bench.on("PATCH", .answer(400, refusing("validation_error")))
    bench.on(
      "GET", "/items/\(id)",
      .answer(
        200,
        JSON.object(["item": then, "metadata": ["tags": [], "extensions": [:]], "listed": true]).compact))
    try bench.drain()
    #expect(try bench.copy.item(id)?.version == 2)
    #expect(try bench.copy.item(id)?.properties["notes"] == "later")
    #expect(try bench.title(id) == "A")
    bench.heal()

    try bench.edit(id, ["title": "mine"])
    try bench.theirs(id, ["notes": "later still"])
    bench.on("PATCH", .answer(400, refusing("validation_error")))
    bench.on("GET", "/items?state=trashed", .first { try bench.copy.catchUp() })
    bench.on("GET", "/items/\(id)", .answer(404, refusing("item_not_found")))
    try bench.drain()
    #expect(try bench.copy.item(id)?.properties["notes"] == "later still")
  }

  @Test("Q-S89 a refusal's errors, message and grant are the same in the drain and in the queue")
  func parts() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    let edit = try bench.edit(id, ["title": "mine"])
    let details =
      #"{"errors":[{"field":"title","message":"is bad"},{"path":"x"},{"field":"body"}],"grant":{"kind":"extension","name":"app.x","level":"read"},"more":1}"#
    bench.on("PATCH", .answer(422, refusing("invalid_properties", details)))
    let entry = try #require(try bench.drain().verdicts.first)
    let refusal = try #require(entry.refusal)
    #expect(refusal.code == "invalid_properties")
    #expect(refusal.message == "No: invalid_properties.")
    #expect(refusal.fields.map(\.field) == ["title", "body"])
    #expect(refusal.fields.map(\.message) == ["is bad", ""])
    #expect(refusal.grant == MissingGrant(["kind": "extension", "name": "app.x", "level": "read"]))
    #expect(refusal.details?["more"] == 1)
    #expect(!refusal.trashed)
    let kept = try bench.write(edit.id)
    #expect(kept.refusal == refusal)
    #expect(kept.json["refusal"] == entry.json["refusal"])
    try bench.reopen()
    #expect(try bench.write(edit.id).refusal == refusal)
  }

  @Test("Q-S91 a grant malformed in any way is refused for good")
  func malformedGrants() throws {
    for details in [
      #"{"grant":{"name":"core.note","level":"write"}}"#, #"{"grant":{"kind":"type","level":"write"}}"#,
      #"{"grant":{"kind":"type","name":"core.note"}}"#,
      #"{"grant":{"kind":"metadata","name":"tags","level":"write"}}"#,
      #"{"grant":{"kind":"type","name":"core.note","level":"admin"}}"#,
      #"{"grant":{"kind":"type","name":7,"level":"write"}}"#, #"{"grant":"core.note"}"#, #"{"grant":null}"#, "{}", "",
    ] {
      let bench = try QueueBench()
      let id = try bench.held("A")
      let edit = try bench.edit(id, ["title": "mine"])
      bench.on("PATCH", .answer(403, refusing("type_not_permitted", details)))
      try bench.drain()
      #expect(try bench.verdict(edit) == .refused, "\(details)")
      #expect(try bench.write(edit.id).reason == "type_not_permitted")
      #expect(try bench.write(edit.id).refusal?.grant == nil)
      bench.heal()
      bench.clear()
      try bench.drain()
      #expect(bench.requests.isEmpty)
      #expect(try bench.queue.release(edit.id) == 0)
    }
  }

  @Test("Q-S92 a blocked write is passed over with its reason, and nothing is sent")
  func passedOver() throws {
    let bench = try QueueBench()
    let ids = try ["A", "B", "C"].map { try bench.held(Text($0)) }
    let edits = try ids.map { try bench.edit($0, ["title": "mine"]) }
    bench.on("PATCH", "/items/\(ids[0])", .answer(422, refusing("idempotency_key_reused")))
    for (place, code) in [(1, "ancestor_unavailable"), (2, "version_conflict")] {
      bench.on(
        "PATCH", "/items/\(ids[place])",
        .answer(409, #"{"error":{"code":"\#(code)"},"current":{"id":"\#(ids[place])"}}"#))
    }
    try bench.drain()
    bench.heal()
    bench.clear()
    for _ in 0..<2 {
      let report = try bench.drain()
      #expect(report.verdicts.isEmpty)
      #expect(report.held == 0)
    }
    #expect(bench.requests.isEmpty)
    #expect(
      try edits.map { try bench.write($0.id).blockedReason } == [.keySpent, .ancestorUnavailable, .conflictUnresolved])
    for id in ids { #expect(try bench.title(id) == "mine") }
  }

  @Test("Q-S98 a request that cannot be made counts each time, and the fifth makes its write dead")
  func unmade() throws {
    let bench = try QueueBench()
    let id = try bench.create("A")
    let write = try #require(try bench.queue.waiting(item: id).first)
    try bench.copy.database.run("UPDATE queue SET idempotency_key = ? WHERE id = ?", Text("no\nheader"), write.id)
    for round in 1...5 {
      let other = try bench.create("B")
      let report = try bench.drain()
      #expect(report.unmade == 1)
      #expect(report.answered == 1)
      #expect(try bench.write(write.id).refusals == round)
      #expect(try bench.verdict(write) == (round == 5 ? .dead : nil))
      #expect(try bench.copy.item(other)?.version == 1)
    }
    #expect(try bench.write(write.id).reason == nil)
    #expect(try bench.drain().unmade == 0)
    #expect(try bench.title(id) == "A")
  }

  @Test("Q-S100 a store that fails to record an answer counts, the pass goes on, and the fifth is dead with no reason")
  func storeFails() throws {
    let bench = try QueueBench()
    let id = try bench.create("A")
    let write = try #require(try bench.queue.waiting(item: id).first)
    try bench.copy.database.execute(
      "CREATE TRIGGER broken BEFORE UPDATE OF verdict ON queue WHEN NEW.seq = \(write.seq) AND NEW.verdict = 'accepted' BEGIN SELECT RAISE(ABORT, 'broken'); END"
    )
    for round in 1...5 {
      let other = try bench.create("B")
      let report = try bench.drain()
      #expect(report.answered == 2)
      #expect(try bench.write(write.id).refusals == round)
      #expect(try bench.copy.item(other)?.version == 1)
    }
    #expect(try bench.verdict(write) == .dead)
    #expect(try bench.write(write.id).reason == nil)
    try bench.copy.database.execute("DROP TRIGGER broken")
    bench.clear()
    try bench.drain()
    #expect(bench.requests.isEmpty)
    // One row on the server, and a release finds it there.
    #expect(try bench.queue.release(write.id) == 1)
    #expect(try bench.drain().verdicts.map(\.verdict) == [.accepted])
    #expect(try bench.served(id)["version"] == 1)
  }

  @Test(
    "Q-S101 Q61.2 a full store ends the drain storage_full; nothing is counted, and the write goes again under its key")
  func storeFull() throws {
    let bench = try QueueBench()
    let first = try bench.create("A")
    let id = try bench.create("B", body: Text(String(repeating: "long ", count: 15_000)))
    let third = try bench.create("C")
    var pages = 0
    bench.on(
      "POST", holding: "long ",
      .first {
        pages = try #require(try bench.copy.database.one("PRAGMA page_count") { $0.int(0) })
        let free = try bench.copy.database.one("PRAGMA freelist_count") { $0.int(0) } ?? 0
        if free == 0 { try bench.copy.database.execute("PRAGMA max_page_count = \(pages)") }
      })
    try bench.copy.database.execute("VACUUM")
    let error = bench.bench.refusal { try bench.drain() }
    #expect(error?.code == .storageFull)
    #expect(error?.exit == 3)
    let write = try #require(try bench.queue.waiting(item: id).first)
    #expect(write.verdict == nil)
    #expect(write.refusals == 0)
    #expect(try bench.queue.all().first?.verdict == .accepted)
    try bench.copy.database.execute("PRAGMA max_page_count = 1000000")
    bench.heal()
    bench.clear()
    try bench.drain()
    #expect(bench.writes.first?.key == write.idempotencyKey.string)
    #expect(try bench.queue.all().allSatisfy { $0.verdict == .accepted && $0.refusals == 0 })
    for row in [first, id, third] { #expect(try bench.served(row)["version"] == 1) }
  }

  @Test("Q-S104 409 to an update blocks under its reason, the envelope and the version kept, nothing resolved here")
  func blockedKeeps() throws {
    for (code, reason) in [
      ("ancestor_unavailable", BlockedReason.ancestorUnavailable), ("version_conflict", .conflictUnresolved),
    ] {
      let bench = try QueueBench()
      let id = try bench.held("A")
      let edit = try bench.edit(id, ["title": "mine"])
      let body =
        #"{"error":{"code":"\#(code)","status":409},"status":409,"current":{"id":"\#(id)","version":7},"extra":[1]}"#
      bench.on("PATCH", .answer(409, body))
      bench.clear()
      try bench.drain()
      let kept = try bench.write(edit.id)
      #expect(kept.blockedReason == reason)
      #expect(kept.refusals == 0)
      #expect(kept.answer.flatMap { try? JSON(parsing: $0.bytes) } == (try? JSON(parsing: body)))
      #expect(try bench.copy.item(id)?.version == 1)
      #expect(try bench.title(id) == "mine")
      // No read was made for it, and nothing else was written.
      #expect(bench.requests.filter { $0.hasPrefix("GET /items") }.isEmpty)
      #expect(try bench.queue.all().count == 1)
      #expect(kept.bodyText == edit.bodyText)
    }
  }

  @Test("Q-S105 whatever a server refuses, the reasons of blocked writes stay inside the closed set")
  func closedReasons() throws {
    let codes = [
      "validation_error", "unauthorized", "forbidden", "type_not_permitted", "item_not_found", "version_conflict",
      "ancestor_unavailable", "idempotency_key_reused", "idempotency_key_in_flight", "conflict", "odd", "",
    ]
    for status in [400, 401, 402, 403, 404, 405, 409, 410, 413, 415, 418, 422, 451, 499] {
      for code in codes {
        let bench = try Bench()
        let id = try bench.create("A")
        let current = #","current":{"id":"\#(id)"}"#
        bench.server.hook { _, _ in .answer(status, #"{"error":{"code":"\#(code)"}\#(current)}"#, []) }
        try bench.queue.drain()
        for write in try bench.queue.all() {
          switch write.verdict {
          case .blocked: #expect(write.blockedReason != nil, "\(status) \(code)")
          case .refused: #expect(write.reason != nil, "\(status) \(code)")
          case .dead: #expect(write.reason == nil)
          case .accepted, .merged, .conflicted: Issue.record("\(status) \(code) settled as \(write.verdict!)")
          case nil: #expect(status == 409 && code == "idempotency_key_in_flight", "\(status) \(code)")
          }
        }
      }
    }
  }

  @Test("Q-S108 a write blocked for a grant of any kind and level is kept, others go, and it lands under its key later")
  func grants() throws {
    for kind in ["type", "edge_type", "extension"] {
      for level in ["read", "write"] {
        let bench = try QueueBench()
        let held = try bench.held("H")
        let other = try bench.held("O")
        // A create and its edit, a folder's create and its whole save, an edge, an extension.
        let created = try bench.create("A")
        let edit = try bench.edit(created, ["title": "B"])
        let saved = try bench.save(held) { $0["body"] = "saved" }
        let edge = try bench.queue.createEdge(EdgeDraft(source: held, target: other, type: "references"))
        let data = try bench.queue.writeExtension(other, "app.test", ["a": 1])
        let free = try bench.edit(other, ["title": "free"])
        let details = #"{"grant":{"kind":"\#(kind)","name":"n","level":"\#(level)"}}"#
        let keys = try bench.queue.all().map(\.idempotencyKey.string)
        for (method, target) in [
          ("POST", "/items"), ("PATCH", "/items/\(held)"), ("POST", "/edges"), ("PUT", "/items/\(other)/extensions"),
        ] {
          bench.on(method, target, .answer(403, refusing("forbidden", details)))
        }
        let report = try bench.drain()
        for write in [saved, edge, data] {
          #expect(try bench.write(write.id).blockedReason == .credentialRefused)
          #expect(try bench.write(write.id).refusal?.grant?.kind.string == kind)
          #expect(try bench.write(write.id).refusal?.grant?.level.string == level)
        }
        #expect(try bench.write(edit.id).isHeld)
        // The edit of the same row waits behind what may hide an answer (Q42.2); it is another row's that is free.
        #expect(report.stopped == nil)
        #expect(try bench.verdict(free) == .blocked)
        #expect(try bench.copy.item(created)?.properties["title"] == "B")
        #expect(try bench.copy.item(held)?.properties["body"] == "saved")
        #expect(try bench.copy.edges(from: held).count == 1)
        bench.heal()
        bench.clear()
        try bench.drain()
        #expect(try bench.queue.all().allSatisfy { $0.verdict == .accepted })
        #expect(Set(bench.writes.compactMap(\.key)) == Set(keys))
        #expect(try bench.served(held)["properties"]?["body"] == "saved")
      }
    }
    let bench = try QueueBench()
    let (blocked, free) = (try bench.held("A"), try bench.held("B"))
    try bench.edit(blocked, ["title": "mine"])
    let other = try bench.edit(free, ["title": "free"])
    bench.on("PATCH", "/items/\(blocked)", .answer(403, refusing("type_not_permitted", QueueVerdictTests.grant)))
    try bench.drain()
    #expect(try bench.verdict(other) == .accepted)
  }

  @Test(
    "Q-S109 Q58 a renewal that meets 503 leaves the write uncounted; one that finds the sign-in ended ends the drain")
  func renewals() throws {
    let bench = try QueueBench(signsIn: true)
    let ids = try ["A", "B", "C"].map { try bench.held(Text($0)) }
    let edits = try ids.map { try bench.edit($0, ["title": "mine"]) }
    bench.on("PATCH", "/items/\(ids[1])", .answer(401, refusing("unauthorized")))
    bench.sign.renewal = .failure(
      MarfaError(.server, "the sign-in could not be renewed: 503", server: .init(status: 503)))
    let away = try bench.drain()
    #expect(away.unavailable?.contains("503") == true)
    #expect(away.stopped == nil)
    #expect(away.exit == 3)
    #expect(try bench.verdict(edits[1]) == nil)
    #expect(try bench.write(edits[1].id).refusals == 0)
    #expect(bench.sign.renewals == 1)

    bench.sign.renewal = .failure(MarfaError(.signedOut, "the sign-in has ended"))
    let ended = bench.bench.refusal { try bench.drain() }
    #expect(ended?.code == .signedOut)
    #expect(ended?.exit == 5)
    #expect(try bench.verdict(edits[0]) == .accepted)
    let untouched = try bench.write(edits[1].id)
    #expect(untouched.verdict == nil)
    #expect(untouched.refusals == 0)
    #expect(untouched.bodyText == edits[1].bodyText)
    #expect(untouched.idempotencyKey == edits[1].idempotencyKey)

    // A renewed token goes on in the same drain, under the same key; an upload's bytes are sent from the start.
    bench.heal()
    try bench.queue.upload(file: MemoryFile(bytes: Array("whole bytes".utf8)), mimeType: "text/plain")
    let fresh = "marfa_key_fresh_0123456789"
    bench.sign.renewal = .success(fresh)
    var refusedOnce: Set<String> = []
    bench.bench.transport.before = { request in
      let old = request.bearer == "Bearer \(CopyBench.key)"
      if request.isQueuedWrite, old, refusedOnce.insert(request.target).inserted {
        return .success(
          HTTPResponse(
            status: 401, headers: [HTTPHeader("X-Marfa-Contract", "0")], body: Array(refusing("unauthorized").utf8)))
      }
      guard request.bearer == "Bearer \(fresh)" else { return nil }
      // The instance knows the token under its first name.
      var asked = request
      asked.headers = asked.headers.map {
        $0.name == "Authorization" ? HTTPHeader("Authorization", "Bearer \(CopyBench.key)") : $0
      }
      return Result { () throws(TransportError) in
        var body: [UInt8] = []
        if case .bytes(let bytes) = asked.body { body = bytes }
        let answer = bench.bench.instance.handle(
          InstanceRequest(method: asked.method, target: asked.target, headers: asked.headers, body: body))
        guard case .whole(let response) = answer else { throw .unreachable("a stream") }
        return response
      }
    }
    bench.clear()
    let report = try bench.drain()
    #expect(report.verdicts.allSatisfy { $0.verdict == .accepted })
    #expect(report.stopped == nil)
    #expect(try bench.queue.all().allSatisfy { $0.verdict == .accepted })
    let sent = bench.writes.filter { $0.target.hasPrefix("/items/\(ids[1])") }
    #expect(Set(sent.compactMap(\.key)).count == 1)
    #expect(bench.writes.filter { $0.target == "/blobs" }.map(\.text).allSatisfy { $0 == "whole bytes" })
  }

  @Test("Q-S73 one answer per verdict reaches exactly the six")
  func six() throws {
    let bench = try QueueBench()
    let ids = try (0..<6).map { try bench.held(Text("\($0)")) }
    let edits = try ids.map { try bench.edit($0, ["title": "mine", "body": "mine"]) }
    try bench.theirs(ids[1], ["title": "theirs"])
    try bench.theirs(ids[2], ["body": "theirs"])
    bench.on("PATCH", "/items/\(ids[3])", .answer(400, refusing("validation_error")))
    bench.on("PATCH", "/items/\(ids[4])", .answer(422, refusing("idempotency_key_reused")))
    bench.on("PATCH", "/items/\(ids[5])", .answer(200, "?"))
    for _ in 0..<5 { try bench.drain() }
    let reached = try edits.map { try bench.verdict($0) }
    #expect(reached == [.accepted, .merged, .conflicted, .refused, .blocked, .dead])
    #expect(Set(reached.compactMap { $0 }).count == 6)
  }
}
