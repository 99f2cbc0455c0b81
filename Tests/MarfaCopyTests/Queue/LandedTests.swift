import LocalInstance
import MarfaBase
import TestSupport
import Testing

@testable import MarfaCopy

/// Creates that land on a row the server holds, and the tier and pin of a create (queue.md, chapters 15 and 18).
@Suite struct QueueLandedTests {
  private func keyed(_ bench: QueueBench, version: Int? = nil, tier: Text? = nil, title: Text = "K") throws
    -> (write: QueuedWrite, id: EntityID)
  {
    let write = try bench.queue.createItem(
      ItemDraft(
        type: "core.note", properties: ["title": .string(title), "body": "k"], tier: tier, sourceID: "k",
        version: version))
    return (write, try #require(write.itemID))
  }

  @Test("Q-S154 an upsert onto another id: row, writes, edges and report name the server's row once it was read")
  func upsert() throws {
    let bench = try QueueBench()
    let other = try bench.held("O")
    let (create, minted) = try keyed(bench)
    let edit = try bench.edit(minted, ["notes": "mine"])
    let tag = try bench.queue.addTag(minted, "t")
    let from = try bench.queue.createEdge(EdgeDraft(source: minted, target: other, type: "references"))
    let to = try bench.queue.createEdge(EdgeDraft(source: other, target: minted, type: "references"))
    let id = try bench.theirNote("theirs", key: "k")
    bench.on("GET", "/items/\(id)", .drop)
    let first = try bench.drain()
    #expect(first.unavailable != nil)
    #expect(try bench.verdict(create) == .accepted)
    #expect(first.verdicts.map(\.itemID) == [minted])
    // A catch-up that comes first moves nothing.
    bench.heal()
    try bench.copy.catchUp()
    #expect(try bench.copy.item(minted)?.version == 0)
    #expect(try bench.copy.item(id)?.version == 2)
    #expect(try bench.write(edit.id).itemID == minted)
    #expect(try bench.copy.edges(from: minted).count == 1)
    bench.clear()
    let report = try bench.drain()
    #expect(bench.writes.filter { $0.target == "/items" }.isEmpty)
    #expect(try bench.copy.item(minted) == nil)
    for write in [edit, tag, from] { #expect(try bench.write(write.id).itemID == id) }
    #expect(try bench.write(to.id).targetID == id)
    #expect(report.verdicts.filter { $0.kind == .updateItem }.map(\.itemID) == [id])
    #expect(try [edit, tag, from, to].allSatisfy { try bench.verdict($0)?.isSuccess == true })
    #expect(try bench.served(id)["properties"] == ["title": "K", "body": "k", "notes": "mine"])
    #expect(try bench.copy.edges(from: id).map(\.target) == [other])
    #expect(try bench.copy.edges(to: id).map(\.source) == [other])
    #expect(try bench.copy.item(id)?.tags == ["t"])
    #expect(try bench.queue.waitingItems().isEmpty)

    // Read at once, the report of that very drain names the row.
    let second = try bench.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "L", "body": "k"], sourceID: "l"))
    let row = try bench.theirNote("theirs", key: "l")
    #expect(try bench.drain().verdicts.map(\.itemID) == [row])
    #expect(try bench.write(second.id).itemID == row)
  }

  @Test("Q-S77 an upsert answered again from the record under another id is accepted, replayed, and the row is held")
  func replayedUpsert() throws {
    let bench = try QueueBench()
    let (create, minted) = try keyed(bench)
    let id = try bench.theirNote("theirs", key: "k")
    bench.on("POST", "/items", .lose)
    try bench.drain()
    bench.heal()
    let report = try bench.drain()
    #expect(report.verdicts.map(\.verdict) == [.accepted])
    #expect(report.verdicts.map(\.replayed) == [true])
    #expect(report.verdicts.map(\.itemID) == [id])
    #expect(try bench.copy.item(id)?.properties["title"] == "K")
    #expect(try bench.copy.item(id)?.version == 2)
    #expect(try bench.copy.item(minted) == nil)
    #expect(try bench.write(create.id).itemID == id)
  }

  @Test(
    "Q-S155 a keyed create refused 409 onto another row: tags and edges go there, what replaces or removes is refused unsent"
  )
  func refused() throws {
    for stale in [false, true] {
      let bench = try QueueBench()
      let other = try bench.held("O")
      let id = try bench.theirNote("theirs", key: "k")
      if stale { try bench.theirs(id, ["title": "later"]) }
      let (create, minted) = try keyed(bench, version: stale ? 1 : 0)
      let tag = try bench.queue.addTag(minted, "t")
      let edge = try bench.queue.createEdge(EdgeDraft(source: other, target: minted, type: "references"))
      let replaced = [
        try bench.edit(minted, ["notes": "mine"]), try bench.queue.removeTag(minted, "x"),
        try bench.queue.replaceTags(minted, ["r"]), try bench.queue.mergeTags(minted, ["m"]),
        try bench.queue.writeExtension(minted, "app.test", ["a": 1]),
        try bench.queue.deleteExtension(minted, "app.test"),
        try bench.queue.transition(minted, "archived"), try bench.queue.deleteItem(minted),
        try bench.queue.restoreItem(minted),
      ]
      let report = try bench.drain()
      let code: Text = stale ? "version_conflict" : "ancestor_unavailable"
      #expect(try bench.verdict(create) == .refused)
      #expect(try bench.write(create.id).reason == code)
      #expect(report.verdicts.first?.itemID == id)
      for write in [tag, edge] {
        #expect(try bench.verdict(write) == .accepted)
        #expect(try bench.write(write.id).dependsOn == [])
      }
      for write in replaced {
        let now = try bench.write(write.id)
        #expect(now.verdict == .refused, "\(write.kind)")
        #expect(!now.sent, "\(write.kind)")
      }
      #expect(report.unsent == replaced.count)
      #expect(try bench.copy.item(minted) == nil)
      #expect(try bench.title(id) == (stale ? "later" : "theirs"))
      #expect(try bench.copy.item(id)?.tags == ["t"])
      #expect(try bench.copy.edges(to: id).map(\.source) == [other])
    }
  }

  @Test("Q-S156 the row is held as it is read, not as the envelope gave it, and the next write is based on that")
  func readNotEnvelope() throws {
    let bench = try QueueBench()
    let id = try bench.theirNote("theirs", key: "k")
    _ = try keyed(bench, version: 0)
    var done = false
    bench.on(
      "GET", "/items/\(id)",
      .first {
        if done { return }
        done = true
        try bench.theirs(id, ["title": "later"])
      })
    try bench.drain()
    #expect(try bench.title(id) == "later")
    let edit = try bench.edit(id, ["body": "two"])
    #expect(edit.baseVersion == 2)
    #expect(try bench.drain().verdicts.map(\.verdict) == [.accepted])
  }

  @Test(
    "Q-S157 Q-S159 no read finds the row: refusal, minted row and waiting writes stay, others go on, each drain reads")
  func unfound() throws {
    let bench = try QueueBench()
    let id = try bench.theirNote("theirs", key: "k")
    let (create, minted) = try keyed(bench, version: 0)
    let edit = try bench.edit(minted, ["notes": "mine"])
    let tag = try bench.queue.addTag(minted, "t")
    let other = try bench.create("other")
    bench.on("GET", "/items/\(id)", .answer(404, refusing("item_not_found")))
    for round in 1...3 {
      bench.clear()
      let report = try bench.drain()
      #expect(try bench.verdict(create) == .refused)
      #expect(report.held == (round < 3 ? 2 : 3))
      #expect(try bench.copy.item(minted)?.properties["notes"] == "mine")
      #expect(try bench.write(edit.id).isHeld)
      #expect(try bench.write(tag.id).isHeld)
      #expect(bench.requests.contains { $0.hasPrefix("GET /items/\(id)") })
      #expect(!bench.writes.contains { $0.target.contains("\(minted)") })
      #expect(try bench.copy.item(other)?.version == 1)
      #expect(try bench.queue.forget() <= 1)
      #expect(try !bench.queue.discard(create.id))
      // Queued before the read found it: held like the others.
      if round == 2 { #expect(try bench.queue.addTag(minted, "later").dependsOn == [create.id]) }
    }
    bench.heal()
    try bench.drain()
    #expect(try bench.verdict(edit) == .refused)
    #expect(try bench.verdict(tag) == .accepted)
    #expect(try bench.copy.item(minted) == nil)
    #expect(try bench.copy.item(id)?.tags == ["later", "t"])
  }

  @Test("Q-S158 an environmental failure of that read sends nothing again and reads again; a 401 there ends the copy")
  func unread() throws {
    let bench = try QueueBench()
    let id = try bench.theirNote("theirs", key: "k")
    let (create, minted) = try keyed(bench, version: 0)
    let tag = try bench.queue.addTag(minted, "t")
    bench.on("GET", "/items/\(id)", .answer(503, "{}"))
    let report = try bench.drain()
    #expect(report.unavailable?.contains("503") == true)
    #expect(report.answered == 1)
    #expect(try bench.verdict(create) == .refused)
    #expect(try bench.write(create.id).refusals == 0)
    #expect(try bench.copy.item(minted)?.version == 0)
    bench.heal()
    bench.on("GET", "/items/\(id)", .answer(401, refusing("unauthorized")))
    bench.clear()
    let error = bench.bench.refusal { try bench.drain() }
    #expect(error?.code == .copyExpired)
    #expect(error?.reason == "credential_ended")
    #expect(bench.writes.isEmpty)
    #expect(try bench.verdict(create) == .refused)
    #expect(try bench.write(tag.id).idempotencyKey == tag.idempotencyKey)
    #expect(try bench.copy.hydration() == .expired)
    bench.heal()
    try bench.fill()
    bench.clear()
    try bench.drain()
    #expect(bench.writes.map(\.target) == ["/items/\(id)/tags"])
    #expect(try bench.copy.item(id)?.tags == ["t"])
  }

  @Test("Q-S160 the pin of a create that lands is on the landed row")
  func pinMoves() throws {
    let bench = try QueueBench(["core.task"], tier: "library")
    let id = try bench.theirNote("theirs", key: "k")
    let (_, minted) = try keyed(bench)
    #expect(try bench.copy.isPinned(minted))
    try bench.copy.pin(minted, owner: "hand")
    try bench.drain()
    #expect(try bench.copy.isPinned(id))
    #expect(try !bench.copy.isPinned(minted))
    #expect(try bench.copy.pins(owner: "hand") == [id])
    #expect(try bench.title(id) == "K")
    try bench.theirs(id, ["title": "later"])
    try bench.copy.catchUp()
    #expect(try bench.title(id) == "later")
  }

  @Test("Q-S161 a keyed create acknowledged onto a row in the bin is refused trashed, its row forgotten")
  func trashed() throws {
    let bench = try QueueBench()
    let id = try bench.theirNote("theirs", key: "k")
    try bench.bench.ask("DELETE", "/items/\(id)")
    let (create, minted) = try keyed(bench)
    let report = try bench.drain()
    #expect(report.verdicts.map(\.verdict) == [.refused])
    #expect(report.verdicts[0].reason == "trashed")
    #expect(report.verdicts[0].refusal?.trashed == true)
    #expect(try bench.write(create.id).refusal?.trashed == true)
    #expect(try bench.copy.item(minted) == nil)
    #expect(try bench.copy.item(id)?.isTrashed != false)
    // A restore, then the same again, is taken.
    try bench.queue.restoreItem(id)
    _ = try keyed(bench)
    #expect(try bench.drain().verdicts.map(\.verdict) == [.accepted, .accepted])
    #expect(try bench.title(id) == "K")
  }

  @Test("Q-S162 Q50.1 Q50.2 creates go and show at the slice's tier, at library in a slice of both, at the named tier")
  func tiers() throws {
    for (slice, named, expected) in [
      ("library", nil, "library"), ("feed", nil, "feed"), ("all", nil, "library"), ("library", "feed", "feed"),
      ("feed", "library", "library"),
    ] as [(Text, Text?, Text)] {
      let bench = try QueueBench(["core.note"], tier: slice)
      let plain = try bench.queue.createItem(
        ItemDraft(type: "core.note", properties: ["title": "A", "body": "x"], tier: named))
      let (write, id) = try keyed(bench, tier: named)
      for write in [plain, write] {
        #expect(write.body?["tier"]?.text == expected)
        #expect(try bench.copy.item(try #require(write.itemID))?.tier == expected)
      }
      try bench.drain()
      let landed = try #require(bench.write(write.id).itemID)
      #expect(landed != id)
      #expect(try bench.served(landed)["tier"]?.text == expected)
      #expect(try bench.served(try #require(plain.itemID))["tier"]?.text == expected)
    }
    // Before any fill: library.
    let fresh = try QueueBench(fills: false)
    let write = try fresh.queue.createItem(ItemDraft(type: "core.note", properties: ["title": "A", "body": "x"]))
    #expect(write.body?["tier"] == "library")
  }

  @Test(
    "Q-S163 Q50.5 a re-save of a feed row in a slice of both sends no tier; an own waiting create's tier is sent again")
  func keepsTier() throws {
    let bench = try QueueBench()
    let made = try bench.bench.ask(
      "POST", "/items",
      ["type": "core.note", "tier": "feed", "source_id": "k", "properties": ["title": "A", "body": "x"]])
    let id = try #require(made["item"]?["id"]?.text.flatMap { EntityID($0) })
    try bench.copy.catchUp()
    let (save, minted) = try keyed(bench)
    #expect(save.body?["tier"] == nil)
    #expect(try bench.copy.item(minted)?.tier == "feed")
    try bench.drain()
    #expect(try bench.copy.item(id)?.tier == "feed")
    #expect(try bench.served(id)["properties"]?["title"] == "K")

    let own = try bench.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "N", "body": "x"], tier: "feed", sourceID: "own"))
    let again = try bench.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "M", "body": "x"], sourceID: "own"))
    #expect(again.follows == own.id)
    #expect(again.body?["tier"] == "feed")
    #expect(try bench.copy.item(try #require(again.itemID))?.tier == "feed")
    try bench.drain()
    #expect(try bench.served(try #require(try bench.write(again.id).itemID))["tier"] == "feed")

    // A key the instance says is taken, and one that cannot be asked about: no tier, so a triaged row stays where it is.
    try bench.bench.ask(
      "POST", "/items",
      ["type": "core.note", "tier": "feed", "source_id": "far", "properties": ["title": "A", "body": "x"]])
    let taken = try bench.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "F", "body": "x"], sourceID: "far"))
    #expect(taken.body?["tier"] == nil)
    bench.on("GET", .drop)
    let offline = try bench.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "G", "body": "x"], sourceID: "unasked"))
    #expect(offline.body?["tier"] == nil)
    #expect(try bench.copy.item(try #require(offline.itemID))?.tier == "library")
    bench.heal()
    try bench.drain()
    #expect(try bench.served(try #require(try bench.write(taken.id).itemID))["tier"] == "feed")
  }

  @Test(
    "Q-S164 a create outside the slice is pinned and stays through its answer and its event; refused, its pin goes too")
  func outside() throws {
    let bench = try QueueBench(["core.task"], tier: "library")
    let id = try bench.create("A")
    let feed = try bench.queue.createItem(
      ItemDraft(type: "core.task", properties: ["title": "T", "body": "x"], tier: "feed"))
    let task = try #require(feed.itemID)
    for row in [id, task] { #expect(try bench.copy.isPinned(row)) }
    try bench.drain()
    try bench.copy.catchUp()
    for row in [id, task] { #expect(try bench.copy.item(row)?.version == 1) }
    try bench.copy.unpin(id, owner: "create")
    #expect(try bench.copy.item(id) == nil)

    let refused = try bench.create("R")
    bench.on("POST", "/items", .answer(400, refusing("validation_error")))
    bench.on("GET", "/items/\(refused)", .drop)
    try bench.drain()
    #expect(try bench.copy.isPinned(refused))
    bench.heal()
    try bench.drain()
    #expect(try bench.copy.item(refused) == nil)
    #expect(try !bench.copy.isPinned(refused))
  }

  @Test("Q-S33 a keyed create onto a held row is judged by the row it leaves; onto an unknown one by its values")
  func judged() throws {
    let bench = try QueueBench()
    try bench.held("A", key: "k")
    func outcome(_ properties: JSONObject, key: Text, version: Int? = nil) -> Text? {
      let before = (try? bench.queue.all().count) ?? -1
      do {
        let write = try bench.queue.createItem(
          ItemDraft(type: "core.note", properties: properties, sourceID: key, version: version))
        try bench.queue.giveUp(write)
        return nil
      } catch {
        #expect((try? bench.queue.all().count) == before)
        return (error as? MarfaError)?.server?.code
      }
    }
    // The held row has the body the type requires.
    #expect(outcome(["title": "B"], key: "k") == nil)
    #expect(outcome(["title": "B"], key: "k", version: 1) == nil)
    #expect(outcome(["body": 7], key: "k") == "invalid_properties")
    // Another version, or a key nobody holds: no field is required, values are judged.
    #expect(outcome(["title": "B"], key: "k", version: 4) == nil)
    #expect(outcome(["title": "B"], key: "free") == nil)
    #expect(outcome(["title": 7], key: "free") == "invalid_properties")
    #expect(outcome(["title": 7], key: "k", version: 4) == "invalid_properties")
    // Without a key the create is judged whole.
    #expect(
      bench.bench.refusal { try bench.queue.createItem(ItemDraft(type: "core.note", properties: ["title": "B"])) }?
        .server?.code == "invalid_properties")
  }
}

extension WriteQueue {
  /// Takes a write out that no test goes on with.
  func giveUp(_ write: QueuedWrite) throws {
    try store.transaction {
      try table.remove(write)
      try reproject(write)
    }
  }
}
