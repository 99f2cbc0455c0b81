import LocalInstance
import MarfaBase
import TestSupport
import Testing

@testable import MarfaCopy

/// The version a later write goes on (queue.md, chapter 13), against the real instance.
@Suite struct QueueRebaseTests {
  @Test("Q-S127 an edit behind an own create goes on the create's version, an edge's too; a chain moves on each answer")
  func ownCreate() throws {
    let bench = try QueueBench()
    let (id, other) = (try bench.create("A"), try bench.create("B"))
    for title in ["C", "D", "E"] as [JSON] { #expect(try bench.edit(id, ["title": title]).baseVersion == 0) }
    let edge = try #require(
      try bench.queue.createEdge(EdgeDraft(source: id, target: other, type: "references")).edgeID)
    try bench.queue.updateEdge(edge, version: 0, properties: ["why": "a"])
    let report = try bench.drain()
    #expect(report.verdicts.allSatisfy { $0.verdict == .accepted })
    let versions = bench.writes.filter { $0.method == "PATCH" && $0.target.hasPrefix("/items") }
      .map { $0.json?["version"]?.int }
    #expect(versions == [1, 2, 3])
    #expect(bench.writes.first { $0.target == "/edges/\(edge)" }?.json?["version"] == 1)
    #expect(try bench.served(id)["version"] == 4)
    #expect(try bench.served(id)["properties"]?["title"] == "E")
    #expect(try bench.copy.serverEdge(edge)?.version == 2)
  }

  /// A create by key with a version claimed, onto a row another device took further, merged over that write.
  private func mergedCreate(_ bench: QueueBench) throws -> (minted: EntityID, row: EntityID) {
    let id = try bench.theirNote("A", body: "one", key: "k")
    for number in 1...2 { try bench.theirs(id, JSON.object(JSONObject([("notes", .string(Text("n\(number)")))]))) }
    let create = try bench.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "mine", "body": "one"], sourceID: "k", version: 3))
    // The fourth version comes between.
    try bench.theirs(id, ["notes": "theirs"])
    return (try #require(create.itemID), id)
  }

  @Test("Q-S128 behind a create merged over a write, an edit of what that write changed goes on 3, another on 5")
  func createMergedOver() throws {
    for (properties, expected) in [(["notes": "mine"], 3), (["body": "two"], 5)] as [(JSONObject, Int)] {
      let bench = try QueueBench()
      let (minted, id) = try mergedCreate(bench)
      let edit = try bench.edit(minted, properties)
      #expect(edit.baseVersion == 0)
      try bench.drain()
      #expect(try bench.served(id)["properties"]?["title"] == "mine")
      let sent = try #require(bench.writes.last)
      #expect(sent.target == "/items/\(id)?conflict=auto")
      #expect(sent.json?["version"]?.int == expected)
      #expect(try bench.verdict(edit) == (expected == 3 ? .conflicted : .accepted))
    }
  }

  @Test("Q-S129 behind a create answered as a repeat at version 6 an edit goes on 1, the version that create made")
  func repeatedCreate() throws {
    let bench = try QueueBench()
    let id = try bench.create("A", body: "one")
    let edit = try bench.edit(id, ["title": "mine"])
    bench.on("POST", "/items", .lose)
    try bench.drain()
    bench.heal()
    for number in 1...5 { try bench.theirs(id, JSON.object(JSONObject([("notes", .string(Text("n\(number)")))]))) }
    // The instance forgot the key meanwhile: the create is acknowledged, not replayed.
    try bench.copy.database.run("UPDATE queue SET idempotency_key = 'another' WHERE kind = 'create_item'")
    bench.clear()
    let report = try bench.drain()
    #expect(report.verdicts.map(\.replayed) == [true, false])
    #expect(bench.writes.last?.json?["version"] == 1)
    #expect(try bench.verdict(edit)?.isSuccess == true)
    #expect(try bench.served(id)["version"] == 7)
    #expect(try bench.served(id)["properties"] == ["title": "mine", "body": "one", "notes": "n5"])
  }

  @Test("Q-S130 the second edit of a row goes on the first's answer; three go one answer at a time")
  func chain() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    let edits = try ["B", "C", "D"].map { try bench.edit(id, ["title": .string(Text($0))]) }
    #expect(edits.map(\.baseVersion) == [1, 1, 1])
    bench.on("PATCH", holding: #""C""#, .drop)
    try bench.drain()
    // The third moves when the second is answered, not before.
    #expect(try edits.map { try bench.write($0.id).baseVersion } == [1, 2, 1])
    bench.heal()
    try bench.drain()
    #expect(try bench.write(edits[2].id).baseVersion == 3)
    #expect(try edits.map { try bench.verdict($0) } == [.accepted, .accepted, .accepted])
    #expect(try bench.served(id)["properties"]?["title"] == "D")
    #expect(try bench.served(id)["version"] == 4)
  }

  @Test("Q-S131 a first edit merged over a write: the second goes on the answer unless that write touched its property")
  func mergedOver() throws {
    for (theirs, properties, expected) in [
      (["notes": "theirs"], ["body": "two"], 3), (["notes": "theirs"], ["notes": "mine"], 1),
      // Of two properties only the later one was touched.
      (["notes": "theirs"], ["body": "two", "notes": "mine"], 1),
    ] as [(JSON, JSONObject, Int)] {
      let bench = try QueueBench()
      let id = try bench.held("A")
      try bench.edit(id, ["title": "mine"])
      let second = try bench.edit(id, properties)
      try bench.theirs(id, theirs)
      bench.clear()
      try bench.drain()
      #expect(bench.writes.map { $0.json?["version"]?.int } == [1, expected])
      #expect(try bench.verdict(second) == (expected == 3 ? .accepted : .conflicted))
    }
  }

  @Test("Q-S132 a first edit answered merged, its collision elsewhere: the second goes on the answer")
  func mergedAnswer() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    let first = try bench.edit(id, ["title": "mine"])
    let second = try bench.edit(id, ["body": "two"])
    try bench.theirs(id, ["title": "theirs"])
    bench.clear()
    try bench.drain()
    #expect(try bench.verdict(first) == .merged)
    #expect(try bench.verdict(second) == .accepted)
    #expect(bench.writes.map { $0.json?["version"] } == [1, 3])
    #expect(try bench.served(id)["properties"] == ["title": "mine", "body": "two"])
  }

  @Test("Q-S133 another device's edit between the two sends is merged, or conflicts, against the answered version")
  func between() throws {
    let cases: [(JSON, WriteVerdict)] = [(["notes": "theirs"], .accepted), (["body": "theirs"], .conflicted)]
    for (theirs, expected) in cases {
      let bench = try QueueBench()
      let id = try bench.held("A")
      try bench.edit(id, ["title": "mine"])
      let second = try bench.edit(id, ["body": "two"])
      bench.on("PATCH", holding: "two", .drop)
      try bench.drain()
      bench.heal()
      try bench.theirs(id, theirs)
      bench.clear()
      try bench.drain()
      #expect(bench.writes.map { $0.json?["version"] } == [2])
      #expect(try bench.verdict(second) == expected)
      #expect(try bench.served(id)["version"]?.int == 4)
      let texts = try bench.bench.ask("GET", "/items?type=core.note")["data"]?.array ?? []
      #expect(texts.count == (expected == .conflicted ? 2 : 1))
    }
  }

  @Test("Q-S135 the second edit of an edge goes on the first's answer")
  func edgeChain() throws {
    let bench = try QueueBench()
    let (one, two) = (try bench.held("A"), try bench.held("B"))
    let edge = try bench.heldEdge("references", one, two)
    for why in ["b", "c", "d"] as [JSON] { try bench.queue.updateEdge(edge, version: 1, properties: ["why": why]) }
    #expect(try bench.drain().verdicts.map(\.verdict) == [.accepted, .accepted, .accepted])
    #expect(bench.writes.map { $0.json?["version"] } == [1, 2, 3])
    #expect(try bench.copy.serverEdge(edge)?.properties["why"] == "d")
  }

  @Test("Q-S136 an edit made after a catch-up at a later version is never moved onto an older answer")
  func notOntoOlder() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    let first = try bench.edit(id, ["title": "B"])
    bench.on("PATCH", .lose)
    try bench.drain()
    bench.heal()
    try bench.theirs(id, ["notes": "theirs"])
    try bench.copy.catchUp()
    let second = try bench.edit(id, ["body": "two"])
    #expect(second.baseVersion == 3)
    bench.clear()
    let report = try bench.drain()
    #expect(report.verdicts.map(\.replayed) == [true, false])
    #expect(try bench.write(first.id).answeredVersion == 2)
    #expect(bench.writes.map { $0.json?["version"] } == [1, 3])
    #expect(try bench.served(id)["properties"] == ["title": "B", "body": "two", "notes": "theirs"])
  }

  @Test("Q-S137 behind a conflicted first edit the second keeps its base; behind a refused and a blocked one too")
  func unlanded() throws {
    let answers: [(QueueBench.Act?, WriteVerdict)] = [
      (nil, .conflicted), (.answer(400, refusing("validation_error")), .refused),
      (
        .answer(409, #"{"error":{"code":"ancestor_unavailable","status":409},"current":{"id":"@"}}"#), .blocked
      ),
    ]
    for (act, expected) in answers {
      let bench = try QueueBench()
      let id = try bench.held("A")
      let first = try bench.edit(id, ["body": "mine"])
      let second = try bench.edit(id, ["title": "B"])
      try bench.theirs(id, ["body": "theirs"])
      if case .answer(let status, let text, _)? = act {
        let named = text.split(separator: "@", omittingEmptySubsequences: false).joined(separator: "\(id)")
        bench.on("PATCH", holding: "mine", .answer(status, named))
      }
      bench.clear()
      try bench.drain()
      #expect(try bench.verdict(first) == expected)
      #expect(bench.writes.last?.text == second.bodyText?.string)
      #expect(bench.writes.last?.json?["version"] == 1)
      #expect(try bench.verdict(second)?.isSuccess == true)
      #expect(try bench.served(id)["properties"]?["title"] == "B")
    }
  }

  @Test("Q-S138 behind a conflicted edit one made after a catch-up goes back to its base where they share a property")
  func backToBase() throws {
    for (properties, expected) in [(["body": "three"], 1), (["title": "B"], 2)] as [(JSONObject, Int)] {
      let bench = try QueueBench()
      let id = try bench.held("A")
      let first = try bench.edit(id, ["body": "mine"])
      try bench.theirs(id, ["body": "theirs"])
      try bench.copy.catchUp()
      let second = try bench.edit(id, properties)
      #expect(second.baseVersion == 2)
      bench.clear()
      try bench.drain()
      #expect(try bench.verdict(first) == .conflicted)
      #expect(bench.writes.last?.json?["version"]?.int == expected)
      // Another's words are never written over by a value that came from the edit ahead.
      #expect(try bench.verdict(second) == (expected == 1 ? .conflicted : .accepted))
      let bodies = try (bench.bench.ask("GET", "/items?type=core.note")["data"]?.array ?? [])
        .compactMap { ($0["item"] ?? $0)["properties"]?["body"]?.text }
      #expect(bodies.contains("theirs"))
    }
  }

  @Test(
    "Q-S140 both changed a property: both texts are kept; the edit after the one said to be read goes on its answer")
  func asRead() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    try bench.theirs(id, ["body": "theirs"])
    try bench.copy.catchUp()
    // An own edit ahead, whose answer the one said to be read must not move onto.
    let ahead = try bench.edit(id, ["notes": "n"])
    let read = try bench.queue.updateItem(
      id, ItemEdit(properties: ["body": "mine"], version: 1, readAtVersion: true))
    let after = try bench.edit(id, ["title": "B"])
    #expect(try bench.copy.item(id)?.properties == ["title": "B", "body": "mine", "notes": "n"])
    bench.clear()
    try bench.drain()
    #expect(bench.writes.map { $0.json?["version"]?.int } == [2, 1, 3])
    #expect(try [ahead, read, after].map { try bench.verdict($0) } == [.accepted, .conflicted, .accepted])
    let bodies = try (bench.bench.ask("GET", "/items?type=core.note")["data"]?.array ?? [])
      .compactMap { ($0["item"] ?? $0)["properties"]?["body"]?.text }
    #expect(Set(bodies) == ["mine", "theirs"])

    // Merged, not conflicted: the edit after it moves onto its answer.
    let other = try bench.held("O")
    try bench.theirs(other, ["notes": "theirs"])
    try bench.copy.catchUp()
    try bench.queue.updateItem(other, ItemEdit(properties: ["body": "mine"], version: 1, readAtVersion: true))
    try bench.edit(other, ["title": "P"])
    bench.clear()
    try bench.drain()
    #expect(bench.writes.map { $0.json?["version"]?.int } == [1, 3])
    #expect(try bench.served(other)["properties"] == ["title": "P", "body": "mine", "notes": "theirs"])
  }

  @Test(
    "Q-S141 a whole edit goes as replace, its clears shown through a catch-up; moved, it keeps what each answer landed")
  func whole() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    try bench.theirs(id, ["notes": "n", "mood": "m"])
    try bench.copy.catchUp()
    let first = try bench.save(id) { properties in
      properties["notes"] = nil
      properties["body"] = "two"
    }
    #expect(first.body?["properties_mode"] == "replace")
    #expect(first.body?["properties"] == ["title": "A", "body": "two", "mood": "m"])
    let second = try bench.save(id) { $0["title"] = "B" }
    try bench.theirs(id, ["color": "red"])
    try bench.copy.catchUp()
    #expect(try bench.copy.item(id)?.properties == ["title": "B", "body": "two", "mood": "m", "color": "red"])
    bench.clear()
    try bench.drain()
    #expect(try bench.verdict(first)?.isSuccess == true)
    #expect(try bench.verdict(second) == .accepted)
    #expect(bench.writes.map { $0.json?["version"]?.int } == [2, 4])
    #expect(
      bench.writes.last?.json?["properties"] == ["title": "B", "body": "two", "mood": "m", "color": "red"])
    #expect(
      try bench.served(id)["properties"] == ["title": "B", "body": "two", "mood": "m", "color": "red"])
  }

  @Test("Q-S143 a stale file's edit is based on the version written in it")
  func staleFile() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    try bench.theirs(id, ["notes": "theirs"])
    try bench.copy.catchUp()
    // The file still says version 1: only what the person edited goes, on that version.
    let edit = try bench.queue.updateItem(
      id, ItemEdit(properties: ["body": "typed"], version: 1, readAtVersion: true))
    #expect(edit.baseVersion == 1)
    bench.clear()
    try bench.drain()
    #expect(bench.writes.map { $0.json?["version"]?.int } == [1])
    #expect(try bench.verdict(edit)?.isSuccess == true)
    #expect(try bench.served(id)["properties"] == ["title": "A", "body": "typed", "notes": "theirs"])
  }

  @Test("Q-S14 a sent edit without an answer is sent again byte for byte although the write ahead of it lands")
  func sentStays() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    let first = try bench.edit(id, ["title": "B"])
    let second = try bench.edit(id, ["body": "two"])
    // The first is blocked, which frees the second; that one gets no answer; then the first is released and lands.
    bench.on("PATCH", holding: #""B""#, .answer(422, refusing("idempotency_key_reused")))
    bench.on("PATCH", holding: "two", .drop)
    try bench.drain()
    #expect(try bench.write(first.id).blockedReason == .keySpent)
    let sent = try #require(bench.writes.last)
    bench.heal()
    #expect(try bench.queue.release(first.id) == 1)
    bench.clear()
    try bench.drain()
    let again = try #require(bench.writes.first { $0.text.contains("two") })
    #expect(again.text == sent.text)
    #expect(again.key == sent.key)
    #expect(try bench.verdict(first) == .accepted)
    #expect(try bench.verdict(second)?.isSuccess == true)
    #expect(try bench.served(id)["properties"] == ["title": "B", "body": "two"])
  }

  @Test("Q-S25 behind an own edit conflicted with an unseen body the delete is blocked, and the unseen body stays")
  func deleteBehindConflict() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    try bench.edit(id, ["body": "mine"])
    let delete = try bench.queue.deleteItem(id)
    try bench.theirs(id, ["body": "unseen"])
    try bench.drain()
    #expect(try bench.write(delete.id).blockedReason == .conflictUnresolved)
    #expect(try bench.served(id)["state"] == "active")
    let bodies = try (bench.bench.ask("GET", "/items?type=core.note")["data"]?.array ?? [])
      .compactMap { ($0["item"] ?? $0)["properties"]?["body"]?.text }
    #expect(Set(bodies) == ["mine", "unseen"])
  }
}
