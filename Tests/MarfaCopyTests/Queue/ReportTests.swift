import LocalInstance
import MarfaBase
import TestSupport
import Testing

@testable import MarfaCopy

/// What a drain reports, what a draft becomes, and what is refused before it is queued (queue.md, chapters 3, 6 and 12).
@Suite struct QueueReportTests {
  @Test("Q-S58 after a pass there is an entry for each write sent, and the queue agrees with each")
  func entries() throws {
    let bench = try QueueBench()
    let ids = try (0..<5).map { try bench.held(Text("\($0)")) }
    let edits = try ids.map { try bench.edit($0, ["title": "mine", "body": "mine"]) }
    try bench.theirs(ids[1], ["title": "theirs"])
    try bench.theirs(ids[2], ["body": "theirs"])
    bench.on("PATCH", "/items/\(ids[3])", .answer(400, refusing("validation_error")))
    bench.on("PATCH", "/items/\(ids[4])", .answer(200, "?"))
    let refusedBehind = try bench.create("behind")
    let tag = try bench.queue.addTag(refusedBehind, "t")
    bench.on("POST", "/items", .answer(400, refusing("validation_error")))
    let report = try bench.drain()
    #expect(report.answered == 6)
    #expect(report.unsent == 1)
    let entries = Dictionary(uniqueKeysWithValues: report.verdicts.map { ($0.id, $0) })
    #expect(Set(entries.keys) == Set(try bench.queue.all().map(\.id)))
    for write in try bench.queue.all() {
      let entry = try #require(entries[write.id])
      #expect(entry.kind == write.kind)
      #expect(entry.itemID == write.itemID)
      #expect(entry.verdict == write.verdict)
      #expect(entry.reason == write.reason)
      #expect(entry.refusals == write.refusals)
      #expect(entry.conflictedCopyID == write.conflictedCopyID)
      #expect(entry.refusal == write.refusal)
    }
    #expect(entries[edits[4].id]?.verdict == nil)
    #expect(entries[edits[4].id]?.refusals == 1)
    #expect(entries[tag.id]?.refusal == Refusal(reason: "the create_item it waits for was refused"))
    #expect(entries[edits[1].id]?.mergedFields == ["title"])
  }

  @Test("Q-S59 an edge write's entry names the edge, and its source as the item")
  func edgeEntry() throws {
    let bench = try QueueBench()
    let (one, two) = (try bench.held("A"), try bench.held("B"))
    let write = try bench.queue.createEdge(EdgeDraft(source: one, target: two, type: "references"))
    let report = try bench.drain()
    #expect(report.verdicts.map(\.edgeID) == [write.edgeID])
    #expect(report.verdicts.map(\.itemID) == [one])
    #expect(report.json["verdicts"]?.array?.first?["edge_id"]?.text == write.edgeID?.text)
    #expect(report.json["verdicts"]?.array?.first?["item_id"]?.text == one.text)
    let edit = try bench.edit(one, ["title": "B"])
    let next = try bench.drain()
    #expect(next.verdicts.map(\.edgeID) == [nil])
    #expect(next.verdicts.map(\.id) == [edit.id])
  }

  @Test("Q-S63 Q37.4 an upload whose bytes cannot be opened waits uncounted, says why, and the pass goes on")
  func unopened() throws {
    let bench = try QueueBench()
    let upload = try bench.queue.upload(file: MemoryFile(bytes: Array("bytes".utf8)), mimeType: "text/plain")
    let id = try bench.create("A")
    bench.blobs.isShut = true
    let report = try bench.drain()
    #expect(report.undelivered == 1)
    #expect(report.answered == 1)
    #expect(report.unavailable == nil)
    #expect(report.exit == 3)
    let entry = try #require(report.verdicts.first { $0.id == upload.id })
    #expect(entry.verdict == nil)
    #expect(entry.refusals == 0)
    #expect(entry.reason?.string.contains("can't be opened") == true)
    #expect(entry.reason?.string.contains(try #require(upload.blob).hex) == true)
    #expect(try bench.verdict(upload) == nil)
    #expect(try bench.write(upload.id).reason == nil)
    #expect(try bench.copy.item(id)?.version == 1)
    bench.blobs.isShut = false
    #expect(try bench.drain().verdicts.map(\.verdict) == [.accepted])
  }

  @Test("Q-S68 a refused write whose read answers 429 with Retry-After 7 reports 7, the contract named or not")
  func readLimited() throws {
    for named in [true, false] {
      let bench = try QueueBench()
      let id = try bench.held("A")
      let edit = try bench.edit(id, ["title": "mine"])
      bench.on("PATCH", .answer(400, refusing("validation_error")))
      let wait = [HTTPHeader("Retry-After", "7")]
      bench.on("GET", "/items/\(id)", named ? .answer(429, "{}", wait) : .unnamed(429, "slow down", wait))
      let report = try bench.drain()
      #expect(report.retryAfterSeconds == 7)
      #expect(report.unavailable?.contains("429") == true)
      #expect(try bench.verdict(edit) == .refused)
      #expect(report.undelivered == 0)
      // Another status's wait is no limit to a read.
      bench.heal()
      bench.on("GET", "/items/\(id)", .answer(503, "{}", wait))
      #expect(try bench.drain().retryAfterSeconds == nil)
    }
  }

  @Test("Q-S70 an accepted write, then a dropped one: exit 3, answered 1, undelivered 1, verdicts accepted and null")
  func acceptedThenDropped() throws {
    let bench = try QueueBench()
    let ids = [try bench.create("A"), try bench.create("B")]
    bench.on("POST", holding: #""title":"B""#, .drop)
    let report = try bench.drain()
    #expect(report.exit == 3)
    #expect(report.answered == 1)
    #expect(report.undelivered == 1)
    #expect(report.verdicts.map(\.verdict) == [.accepted, nil])
    #expect(report.verdicts.map(\.itemID) == ids)
    #expect(report.unavailable?.contains("could not be reached") == true)
    #expect(report.json["verdicts"]?.array?[1]["verdict"] == .null)
  }

  @Test("Q-S7 a create with two tags, an edge and an extension: no tags in its body, each its own write and verdict")
  func ownWrites() throws {
    let bench = try QueueBench()
    let other = try bench.held("O")
    let create = try bench.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "A", "body": "x"], tags: ["one", "two"]))
    let id = try #require(create.itemID)
    let edge = try bench.queue.createEdge(EdgeDraft(source: id, target: other, type: "references"))
    let data = try bench.queue.writeExtension(id, "app.test", ["a": 1])
    #expect(create.body?["tags"] == nil)
    #expect(create.body?["edges"] == nil)
    #expect(try bench.copy.item(id)?.tags == ["one", "two"])
    let report = try bench.drain()
    #expect(bench.writes.first?.json?["tags"] == nil)
    #expect(report.verdicts.map(\.kind).count == 5)
    #expect(report.verdicts.allSatisfy { $0.verdict == .accepted })
    #expect(Set(report.verdicts.map(\.id)).isSuperset(of: [create.id, edge.id, data.id]))
    #expect(try bench.copy.serverItem(id)?.tags == ["one", "two"])
    #expect(try bench.copy.serverItem(id)?.extensions["app.test"] == ["a": 1])
    #expect(try bench.copy.edges(from: id).map(\.target) == [other])
  }

  @Test("Q-S9 an edit of one long property sends the whole value, and merged_fields names whole properties")
  func wholeValue() throws {
    let bench = try QueueBench()
    let long = Text(String(repeating: "A long line of a title. ", count: 40))
    let id = try bench.held(long)
    let mine = Text(bytes: Array("Mine: ".utf8) + long.bytes)
    try bench.edit(id, ["title": .string(mine)])
    try bench.theirs(id, ["title": .string(Text(bytes: long.bytes + Array("theirs".utf8)))])
    let report = try bench.drain()
    #expect(bench.writes.first?.json?["properties"] == ["title": .string(mine)])
    #expect(report.verdicts.map(\.mergedFields) == [["title"]])
    #expect(try bench.served(id)["properties"]?["title"]?.text == mine)
  }

  @Test("Q-S12 Q33.4 a draft's edges and state go in one write; where the server refuses an edge, neither exists")
  func draftEdges() throws {
    let bench = try QueueBench()
    let (one, two) = (try bench.held("A"), try bench.held("B"))
    let write = try bench.queue.createItem(
      ItemDraft(
        type: "core.note", properties: ["title": "N", "body": "x"], state: "archived",
        edges: [("references", [one, two])]))
    #expect(try bench.queue.all().count == 1)
    try bench.drain()
    let id = try #require(write.itemID)
    #expect(try bench.verdict(write) == .accepted)
    #expect(try bench.served(id)["state"] == "archived")
    try bench.copy.catchUp()
    #expect(Set(try bench.copy.edges(from: id).map(\.target)) == [one, two])

    let refused = try bench.queue.createItem(
      ItemDraft(
        type: "core.note", properties: ["title": "M", "body": "x"], state: "archived", edges: [("references", [two])]))
    // Another device bins the target first.
    try bench.bench.ask("DELETE", "/items/\(two)")
    let report = try bench.drain()
    #expect(report.verdicts.map(\.verdict) == [.refused])
    let missing = try #require(refused.itemID)
    #expect(throws: (any Error).self) { try bench.served(missing) }
    #expect(try bench.copy.item(missing) == nil)
    #expect(try bench.copy.edges(to: two).map(\.source) == [id])
    #expect(try bench.write(refused.id).body?["edges"]?["references"]?.array?.count == 1)
    try bench.queue.forget()
    #expect(try bench.verdict(refused) == .refused)
  }

  // MARK: Local checks

  private func refusal(_ work: () throws -> QueuedWrite, _ bench: QueueBench) -> Text? {
    do {
      try bench.queue.giveUp(try work())
      return nil
    } catch {
      return (error as? MarfaError)?.server?.code ?? Text("\(error)")
    }
  }

  /// A type whose middle ancestor declares an inherited field again, required.
  private func typed() throws -> QueueBench {
    let bench = try QueueBench(fills: false)
    for (id, parent, fields) in [
      ("app.test.base", "core.note", #"{"mood":{"type":"string","maxLength":5}}"#),
      ("app.test.middle", "app.test.base", #"{"mood":{"type":"string","required":true,"maxLength":5}}"#),
      ("app.test.leaf", "app.test.middle", #"{"color":{"type":"string"}}"#),
    ] {
      try bench.bench.ask(
        "POST", "/types",
        ["id": .string(Text(id)), "parent": .string(Text(parent)), "fields": try JSON(parsing: fields)])
    }
    try bench.fill()
    return bench
  }

  @Test("Q-S31 an inherited field a middle type requires: a grandchild's create without it is refused")
  func inherited() throws {
    let bench = try typed()
    func create(_ type: Text, _ properties: JSONObject) -> Text? {
      refusal({ try bench.queue.createItem(ItemDraft(type: type, properties: properties)) }, bench)
    }
    #expect(create("app.test.leaf", ["title": "A", "body": "x"]) == "invalid_properties")
    #expect(create("app.test.leaf", ["title": "A", "body": "x", "mood": "toolong"]) == "invalid_properties")
    #expect(create("app.test.leaf", ["title": "A", "body": "x", "mood": "good"]) == nil)
    #expect(create("app.test.base", ["title": "A", "body": "x"]) == nil)
    #expect(try bench.queue.all().isEmpty)
    #expect(throws: (any Error).self) {
      try bench.bench.ask("POST", "/items", ["type": "app.test.leaf", "properties": ["title": "A", "body": "x"]])
    }
  }

  @Test("Q-S32 a current merge, replace and retype are judged by what they leave; a stale one by its values alone")
  func judged() throws {
    let bench = try typed()
    let id = try bench.held("A")
    try bench.theirs(id, ["notes": "n"])
    try bench.copy.catchUp()
    func edit(_ edit: ItemEdit) -> Text? { refusal({ try bench.queue.updateItem(id, edit) }, bench) }
    #expect(edit(ItemEdit(properties: ["title": "B"], version: 2)) == nil)
    #expect(edit(ItemEdit(properties: ["body": .null], version: 2)) == "invalid_properties")
    #expect(edit(ItemEdit(properties: ["title": "B"], mode: .replace, version: 2)) == "invalid_properties")
    #expect(edit(ItemEdit(properties: ["body": "x"], mode: .replace, version: 2)) == nil)
    // What the new type requires, the row as it is left must have.
    #expect(edit(ItemEdit(version: 2, type: "app.test.leaf")) == "invalid_properties")
    #expect(edit(ItemEdit(properties: ["mood": "good"], version: 2, type: "app.test.leaf")) == nil)
    #expect(edit(ItemEdit(properties: ["mood": "toolong"], version: 2, type: "app.test.leaf")) == "invalid_properties")
    // Said to be read earlier: no field is required.
    for mode in [ItemEdit.Mode.merge, .replace] {
      #expect(edit(ItemEdit(properties: ["title": "B"], mode: mode, version: 1, readAtVersion: true)) == nil)
      #expect(
        edit(ItemEdit(properties: ["title": 7], mode: mode, version: 1, readAtVersion: true)) == "invalid_properties")
    }
    #expect(try bench.queue.all().isEmpty)
    #expect(try bench.title(id) == "A")
  }

  @Test("Q-S35 the local checks and the server decide the same on every kind of field")
  func asServer() throws {
    let bench = try QueueBench(fills: false)
    let kinds: [(kind: String, more: String)] = [
      ("string", #","maxLength":4"#), ("enum", #","enum_values":["a","b"]"#), ("number", ""), ("integer", ""),
      ("boolean", ""), ("array", #","items_type":"string""#), ("object", ""), ("url", ""), ("email", ""), ("date", ""),
      ("datetime", ""),
    ]
    for (kind, more) in kinds {
      try bench.bench.ask(
        "POST", "/types",
        try JSON(
          parsing: #"{"id":"app.kinds.t\#(kind)","fields":{"value":{"type":"\#(kind)"\#(more)}}}"#))
    }
    try bench.fill()
    var values: [JSON] = [
      "a", "b", "c", "", "abcd", "abcde", "\u{1F600}\u{1F600}", "\u{1F600}\u{1F600}x", 0, 1, -2,
      9_007_199_254_740_991, true, false, [], ["x", 1], [:], ["k": "v"], .null, "https://a.example/p?q#f", "http://",
      "a.example", "mailto:a@b.example", "ftp://a.example", "a@b.example", "a@b", "@b.example", "2031-02-28",
      "2031-02-30", "2031-2-3", "2031-02-03T04:05:06Z", "2031-02-03T04:05:06.789+02:00", "2031-02-03T04:05:06",
      "2031-02-03 04:05:06Z", "nul\u{0}",
    ]
    values += try JSON(parsing: "[1.5, -0.25, 1e3, 1e400]").array ?? []
    for (kind, _) in kinds {
      for value in values {
        let type = Text("app.kinds.t\(kind)")
        let properties: JSONObject = ["value": value]
        let here = refusal(
          { try bench.queue.createItem(ItemDraft(type: type, properties: properties)) }, bench)
        var there: Text?
        let answer = bench.bench.instance.handle(
          InstanceRequest(
            method: "POST", target: "/items",
            headers: [
              HTTPHeader("Authorization", "Bearer \(CopyBench.key)"), HTTPHeader("Content-Type", "application/json"),
            ],
            body: JSON.object(
              JSONObject([("type", .string(type)), ("properties", .object(properties))])
            ).write()))
        if case .whole(let response) = answer, response.status != 201 {
          there = (try? JSON(parsing: response.body))?["error"]?["code"]?.text
        }
        #expect(
          here == there, "\(kind) \(value.compact): \(here?.string ?? "taken") here, \(there?.string ?? "taken") there")
      }
    }
  }
}
