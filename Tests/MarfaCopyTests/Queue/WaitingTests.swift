import LocalInstance
import MarfaBase
import TestSupport
import Testing

@testable import MarfaCopy

/// Writes that wait for writes (queue.md, chapter 7).
@Suite struct QueueWaitingTests {
  @Test("Q-S41 an edit behind one without an answer is held, and goes on that one's answer later")
  func behindUnanswered() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    let first = try bench.edit(id, ["title": "mine"])
    bench.on("PATCH", .lose)
    #expect(try bench.drain().undelivered == 1)
    let second = try bench.edit(id, ["body": "two"])
    #expect(second.follows == first.id)
    bench.clear()
    let report = try bench.drain()
    #expect(report.held == 1)
    #expect(report.undelivered == 1)
    #expect(bench.writes.count == 1)
    #expect(try bench.write(second.id).isHeld)
    bench.heal()
    bench.clear()
    #expect(try bench.drain().verdicts.map(\.verdict) == [.accepted, .accepted])
    #expect(bench.writes.map { $0.json?["version"] } == [1, 2])
    #expect(try bench.served(id)["properties"] == ["title": "mine", "body": "two"])
  }

  @Test("Q-S42 a delete behind edits goes only once they are answered")
  func deleteBehindEdits() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    try bench.edit(id, ["title": "B"])
    try bench.edit(id, ["body": "two"])
    let delete = try bench.queue.deleteItem(id)
    bench.on("PATCH", holding: "two", .drop)
    #expect(try bench.drain().held == 1)
    #expect(!bench.writes.contains { $0.method == "DELETE" })
    #expect(try bench.served(id)["state"] == "active")
    bench.heal()
    bench.clear()
    #expect(try bench.drain().answered == 2)
    #expect(bench.writes.last?.target == "/items/\(id)?version=3")
    #expect(try bench.verdict(delete) == .accepted)
    #expect(try bench.copy.rowState(id) == .trashed)
  }

  @Test("Q-S43 an edit queued behind one that a refused credential parked is held while that one has no answer")
  func queuedWhileParked() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    let first = try bench.edit(id, ["title": "B"])
    bench.on("PATCH", .lose)
    try bench.drain()
    bench.heal()
    bench.on("PATCH", .answer(401, refusing("unauthorized")))
    #expect(try bench.drain().stopped != nil)
    #expect(try bench.write(first.id).blockedReason == .credentialRefused)
    let second = try bench.edit(id, ["body": "two"])
    #expect(second.follows == first.id)
    bench.heal()
    bench.on("PATCH", .drop)
    bench.clear()
    #expect(try bench.drain().held == 1)
    #expect(bench.writes.count == 1)
    bench.heal()
    #expect(try bench.drain().verdicts.map(\.verdict) == [.accepted, .accepted])
    #expect(try bench.served(id)["version"] == 3)
  }

  @Test("Q-S45 an edge's edit behind blocked or refused ones goes as it stands")
  func edgeEdits() throws {
    let bench = try QueueBench()
    let (one, two) = (try bench.held("A"), try bench.held("B"))
    let edge = try bench.heldEdge("references", one, two)
    let refused = try #require(try bench.queue.updateEdge(edge, version: 1, properties: ["why": "b"]))
    let behind = try #require(try bench.queue.updateEdge(edge, version: 1, properties: ["what": "c"]))
    bench.on("PATCH", holding: #""why":"b""#, .answer(400, refusing("validation_error")))
    try bench.drain()
    #expect(try bench.verdict(refused) == .refused)
    #expect(try bench.verdict(behind) == .accepted)
    #expect(bench.writes.map(\.text) == [refused, behind].map { $0.bodyText?.string })
    bench.heal()
    // Another device first: each of three stale edits is blocked, the later ones on the version they were made on.
    let stale = try (0..<3).map { number in
      try #require(
        try bench.queue.updateEdge(edge, version: 2, properties: JSONObject([(Text("p\(number)"), .int(number))])))
    }
    try bench.theirEdge(edge, ["why": "theirs"])
    bench.clear()
    try bench.drain()
    #expect(bench.writes.map(\.text) == stale.map { $0.bodyText?.string })
    for write in stale { #expect(try bench.write(write.id).blockedReason == .conflictUnresolved) }
    #expect(try bench.copy.edge(edge)?.properties["p2"] == 2)
    #expect(try bench.bench.ask("GET", "/edges/\(edge)")["edge"]?["version"] == 3)
  }

  @Test("Q-S46 a second replace of metadata and a restore wait for a first replace without an answer")
  func metadata() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    try bench.queue.replaceTags(id, ["a"])
    let second = try bench.queue.replaceTags(id, ["b"])
    let restore = try bench.queue.restoreItem(id)
    bench.on("PUT", .drop)
    #expect(try bench.drain().held == 2)
    #expect(bench.writes.count == 1)
    #expect(try bench.write(second.id).isHeld)
    #expect(try bench.write(restore.id).isHeld)
    #expect(try bench.copy.item(id)?.tags == ["b"])
    bench.heal()
    #expect(try bench.drain().answered == 3)
    #expect(try bench.copy.serverItem(id)?.tags == ["b"])
  }

  @Test("Q-S47 an edit behind a dead one that was released and got no answer is held")
  func releasedDead() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    let first = try bench.edit(id, ["title": "B"])
    bench.on("PATCH", .answer(200, "nonsense"))
    for _ in 0..<5 { try bench.drain() }
    #expect(try bench.verdict(first) == .dead)
    let second = try bench.edit(id, ["body": "two"])
    #expect(second.follows == first.id)
    #expect(try bench.queue.release(first.id) == 1)
    bench.heal()
    bench.on("PATCH", .drop)
    bench.clear()
    #expect(try bench.drain().held == 1)
    #expect(bench.writes.map(\.key) == [try bench.write(first.id).idempotencyKey.string])
    bench.heal()
    #expect(try bench.drain().verdicts.map(\.verdict) == [.accepted, .accepted])
  }

  @Test("Q-S48 behind an unreadable answer the follower waits until that write is dead, then goes as it stands")
  func behindUnreadable() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    let first = try bench.edit(id, ["title": "B"])
    let second = try bench.edit(id, ["body": "two"])
    bench.on("PATCH", holding: #""title":"B""#, .answer(200, "{}"))
    for _ in 0..<4 {
      #expect(try bench.drain().held == 1)
      #expect(try bench.verdict(second) == .blocked)
    }
    bench.clear()
    try bench.drain()
    #expect(try bench.verdict(first) == .dead)
    #expect(try bench.verdict(second) == .accepted)
    #expect(bench.writes.last?.text == second.bodyText?.string)
    #expect(try bench.served(id)["properties"] == ["title": "A", "body": "two"])
    // The dead one goes on showing.
    #expect(try bench.title(id) == "B")
  }

  @Test("Q-S49 an edit made after a catch-up is held behind a receipt that a missing grant blocks")
  func receiptBlocked() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    let first = try bench.edit(id, ["title": "B"])
    bench.on("PATCH", .lose)
    try bench.drain()
    bench.heal()
    let grant = refusing("type_not_permitted", #"{"grant":{"kind":"type","name":"core.note","level":"write"}}"#)
    bench.on("PATCH", .answer(403, grant))
    try bench.drain()
    #expect(try bench.write(first.id).blockedReason == .credentialRefused)
    try bench.copy.catchUp()
    #expect(try bench.copy.item(id)?.version == 2)
    let second = try bench.edit(id, ["body": "two"])
    #expect(second.baseVersion == 2)
    bench.clear()
    #expect(try bench.drain().held == 1)
    #expect(bench.writes.count == 1)
    bench.heal()
    let report = try bench.drain()
    #expect(report.verdicts.map(\.verdict) == [.accepted, .accepted])
    #expect(report.verdicts[0].replayed)
    #expect(try bench.served(id)["version"] == 3)
    #expect(try bench.served(id)["properties"] == ["title": "B", "body": "two"])
  }

  @Test(
    "Q-S50 behind an edge's receipt, blocked for a grant or not, the follower goes on the version chapter 13 says",
    arguments: [(0, false), (1, false), (2, false), (0, true), (1, true), (2, true)])
  func edgeReceipt(_ caughtUp: Int, _ blocks: Bool) throws {
    for shares in [true, false] {
      let bench = try QueueBench()
      let (one, two) = (try bench.held("A"), try bench.held("B"))
      let edge = try bench.heldEdge("references", one, two)
      try bench.queue.updateEdge(edge, version: 1, properties: ["why": "b"])
      bench.on("PATCH", .lose)
      try bench.drain()
      bench.heal()
      if caughtUp == 2 { try bench.theirEdge(edge, ["other": "theirs"]) }
      if caughtUp > 0 { try bench.copy.catchUp() }
      let version = try #require(try bench.copy.edge(edge)).version
      #expect(version == [1, 2, 3][caughtUp])
      let second = try #require(
        try bench.queue.updateEdge(edge, version: version, properties: [shares ? "why" : "what": "c"]))
      if blocks {
        bench.on(
          "PATCH",
          .answer(
            403,
            refusing("edge_permission_denied", #"{"grant":{"kind":"edge_type","name":"references","level":"write"}}"#)))
        #expect(try bench.drain().held == 1)
        bench.heal()
      }
      bench.clear()
      try bench.drain()
      // Onto the answer; on it already; later and sharing nothing, as it stands; later and sharing, back to the base.
      let expected = caughtUp < 2 ? 2 : shares ? 1 : 3
      #expect(bench.writes.last?.json?["version"]?.int == expected, "\(caughtUp) \(blocks) \(shares)")
      #expect(try bench.verdict(second) == (caughtUp == 2 && shares ? .blocked : .accepted))
    }
  }

  @Test("Q-S51 a keyed create of a held row's key follows the edit that waits on it")
  func keyedFollows() throws {
    let bench = try QueueBench()
    let id = try bench.held("A", key: "k")
    let edit = try bench.edit(id, ["title": "B"])
    let create = try bench.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "K", "body": "k"], sourceID: "k"))
    #expect(create.follows == edit.id)
    bench.on("PATCH", .drop)
    #expect(try bench.drain().held == 1)
    #expect(bench.writes.map(\.method) == ["PATCH"])
    bench.heal()
    bench.clear()
    #expect(try bench.drain().answered == 2)
    #expect(bench.writes.map(\.method) == ["PATCH", "POST"])
    #expect(try bench.served(id)["properties"]?["title"] == "K")
    #expect(try bench.copy.item(id)?.version == 3)
  }

  @Test("Q-S52 an edit of a row waits for a keyed create of its key that has no answer")
  func followsKeyed() throws {
    let bench = try QueueBench()
    let id = try bench.held("A", key: "k")
    let create = try bench.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "K", "body": "k"], sourceID: "k"))
    bench.on("POST", "/items", .drop)
    try bench.drain()
    let edit = try bench.edit(id, ["body": "two"])
    #expect(edit.follows == create.id)
    bench.clear()
    #expect(try bench.drain().held == 1)
    #expect(bench.writes.map(\.method) == ["POST"])
    bench.heal()
    #expect(try bench.drain().answered == 2)
    #expect(try bench.verdict(edit)?.isSuccess == true)
    #expect(try bench.served(id)["properties"]?["title"] == "K")
  }

  @Test("Q-S53 writes a landed create moves onto a row go in the order all were queued, a refused create's tag too")
  func movedOrder() throws {
    for refused in [false, true] {
      let bench = try QueueBench()
      let create = try bench.queue.createItem(
        ItemDraft(
          type: "core.note", properties: ["title": "K", "body": "k"], sourceID: "k", version: refused ? 0 : nil))
      let minted = try #require(create.itemID)
      let tag = try bench.queue.addTag(minted, "t")
      let moved = refused ? nil : try bench.edit(minted, ["notes": "mine"])
      // Another device makes the row; this one edits it before it knows that the create is of the same.
      let id = try bench.theirNote("theirs", key: "k")
      try bench.copy.catchUp()
      let own = try bench.edit(id, ["body": "own"])
      #expect(own.follows == create.id)
      bench.clear()
      try bench.drain()
      #expect(try bench.verdict(create) == (refused ? .refused : .accepted))
      let order = bench.writes.map { "\($0.method) \($0.target.split(separator: "?")[0])" }
      let patches = Array(repeating: "PATCH /items/\(id)", count: refused ? 1 : 2)
      #expect(order == ["POST /items", "POST /items/\(id)/tags"] + patches)
      #expect(bench.writes.last?.text.contains("own") == true)
      #expect(try bench.verdict(tag) == .accepted)
      #expect(try bench.verdict(own)?.isSuccess == true)
      if let moved {
        #expect(try bench.verdict(moved)?.isSuccess == true)
        #expect(try bench.write(own.id).follows == moved.id)
      } else {
        #expect(try bench.write(own.id).follows == tag.id)
      }
      #expect(try bench.copy.serverItem(id)?.tags == ["t"])
      #expect(try bench.copy.item(minted) == nil)
    }
  }

  @Test("Q-S54 a write behind a create blocked for an unclaimed source is held")
  func unclaimed() throws {
    let bench = try QueueBench()
    let id = try bench.create("A", source: "feed")
    let edit = try bench.edit(id, ["title": "B"])
    bench.on("POST", "/items", .answer(403, refusing("forbidden", #"{"source":"feed"}"#)))
    let report = try bench.drain()
    #expect(report.held == 1)
    #expect(report.unclaimedSources == ["feed"])
    #expect(try bench.write(edit.id).isHeld)
    #expect(bench.writes.count == 1)
    #expect(try bench.title(id) == "B")
  }

  @Test("Q-S55 a second move is held behind the first without an answer, an edit of refused bytes between")
  func secondMove() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    let upload = try bench.queue.upload(file: MemoryFile(bytes: Array("bytes".utf8)), mimeType: "text/plain")
    let first = try bench.queue.updateItem(id, ItemEdit(version: 1, tier: "feed"))
    let bytes = try bench.queue.updateItem(id, ItemEdit(properties: ["body": "new"], version: 1, upload: upload.id))
    let second = try bench.queue.updateItem(id, ItemEdit(version: 1, tier: "library"))
    bench.on("PATCH", .lose)
    bench.on("POST", "/blobs", .answer(413, refusing("payload_too_large")))
    let report = try bench.drain()
    #expect(try bench.verdict(upload) == .refused)
    #expect(try bench.verdict(first) == nil)
    #expect(report.held == 2)
    #expect(try bench.write(bytes.id).isHeld)
    #expect(try bench.write(second.id).isHeld)
    #expect(try bench.copy.item(id)?.tier == "library")
    bench.heal()
    try bench.drain()
    #expect(try bench.verdict(first) == .accepted)
    #expect(try bench.verdict(bytes) == .refused)
    #expect(try bench.verdict(second) == .accepted)
    #expect(try bench.served(id)["tier"] == "library")
  }

  @Test("Q-S56 Q37.4 a move behind an edit that waits on an upload is held, also while its bytes cannot be opened")
  func moveBehindUpload() throws {
    for isShut in [false, true] {
      let bench = try QueueBench()
      let id = try bench.held("A")
      let upload = try bench.queue.upload(file: MemoryFile(bytes: Array("bytes".utf8)), mimeType: "text/plain")
      let edit = try bench.queue.updateItem(id, ItemEdit(properties: ["body": "new"], version: 1, upload: upload.id))
      let move = try bench.queue.updateItem(id, ItemEdit(version: 1, tier: "feed"))
      bench.blobs.isShut = isShut
      if !isShut { bench.on("POST", "/blobs", .drop) }
      let report = try bench.drain()
      #expect(report.held == 2)
      #expect(report.undelivered == 1)
      #expect(try bench.write(edit.id).isHeld)
      #expect(try bench.write(move.id).isHeld)
      bench.heal()
      bench.blobs.isShut = false
      #expect(try bench.drain().answered == 3)
      #expect(try bench.served(id)["tier"] == "feed")
    }
  }
}
