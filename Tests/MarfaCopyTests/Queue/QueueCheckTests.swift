import MarfaBase
import Testing

@testable import MarfaCopy

@Suite struct QueueCheckTests {
  @Test("Q-S6 one call per kind, each of the fifteen once, each through its own door")
  func kinds() throws {
    let bench = try Bench()
    let one = try bench.create("A")
    let two = try bench.create("B")
    try bench.queue.drain()
    try bench.queue.forget()
    let queue = bench.queue
    bench.server.forgetRequests()
    let made = try queue.createItem(ItemDraft(type: "core.note", properties: ["title": "C", "body": "x"]))
    try queue.updateItem(one, ItemEdit(properties: ["title": "A2"], version: 1))
    let edge = try #require(try queue.createEdge(EdgeDraft(source: one, target: two, type: "references")).edgeID)
    try queue.updateEdge(edge, version: 0, properties: ["n": 1])
    try queue.replaceTags(one, ["a", "b"])
    try queue.mergeTags(one, ["c"])
    try queue.addTag(one, "x/y")
    try queue.removeTag(one, "x/y")
    try queue.writeExtension(one, "app.a b", ["seen": true])
    try queue.deleteExtension(one, "app.a b")
    try queue.transition(two, "archived")
    try queue.deleteEdge(edge)
    try queue.upload(file: MemoryFile(bytes: [1]), mimeType: "image/png")
    try queue.deleteItem(two)
    try queue.restoreItem(two)
    #expect(Set(try queue.all().map(\.kind)) == Set(WriteKind.allCases))
    #expect(try queue.all().count == 15)
    let ok = #"{"item":{},"metadata":{"tags":[]},"extensions":{},"ok":true}"#
    bench.server.hook { sent, _ in
      sent.target == "/items" || sent.target.hasPrefix("/edges") || sent.target.hasPrefix("/blobs")
        || sent.target.hasSuffix("conflict=auto") ? .usual : .answer(200, ok, [])
    }
    try queue.drain()
    let id = one.description
    let doors = Set(bench.server.writes.map { "\($0.method) \($0.target)" })
    for door in [
      "POST /items", "PATCH /items/\(id)?conflict=auto", "POST /edges", "PATCH /edges/\(edge)", "DELETE /edges/\(edge)",
      "PUT /items/\(id)/metadata", "PATCH /items/\(id)/metadata", "POST /items/\(id)/tags",
      "DELETE /items/\(id)/tags/x%2Fy", "PUT /items/\(id)/extensions/app.a%20b",
      "DELETE /items/\(id)/extensions/app.a%20b", "POST /items/\(two)/transition", "POST /blobs",
    ] {
      #expect(doors.contains(door), "\(door)")
    }
    #expect(try #require(try queue.write(made.id)).verdict == .accepted)
  }

  @Test("Q33.2 Q33.3 a create's tags are writes of their own behind it, and its body carries none")
  func tags() throws {
    let bench = try Bench()
    let create = try bench.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "A", "body": "x"], tags: ["b", "a"]))
    let id = try #require(create.itemID)
    #expect(create.body?["tags"] == nil)
    #expect(try bench.copy.item(id)?.tags == ["a", "b"])
    let tags = try bench.queue.all().filter { $0.kind == .addTag }
    #expect(tags.map(\.dependsOn) == [[create.id], [create.id]])
    let report = try bench.queue.drain()
    #expect(report.verdicts.map(\.verdict) == [.accepted, .accepted, .accepted])
    #expect(try bench.copy.serverItem(id)?.tags == ["a", "b"])
  }

  @Test("Q33.4 a draft's edges and state ride in one write; a target that waits is waited for")
  func inline() throws {
    let bench = try Bench()
    let target = try bench.create("A")
    let create = try bench.queue.createItem(
      ItemDraft(
        type: "core.note", properties: ["title": "B", "body": "x"], state: "archived",
        edges: [("references", [target])]))
    #expect(create.body?["state"] == "archived")
    #expect(create.body?["edges"]?["references"]?.array?.count == 1)
    #expect(create.dependsOn.count == 1)
    #expect(try bench.queue.all().count == 2)
    expectError(.validation) {
      try bench.queue.createItem(
        ItemDraft(type: "core.note", properties: ["title": "C", "body": "x"], state: "revoked"))
    }
  }

  @Test("Q-S29 Q-S30 a create missing what its type requires, or with a wrong kind, leaves queue and copy as they were")
  func required() throws {
    let bench = try Bench()
    for properties: JSONObject in [[:], ["title": "A"], ["title": "A", "body": 1], ["title": "A", "body": .null]] {
      let error = #expect(throws: MarfaError.self) {
        try bench.queue.createItem(ItemDraft(type: "core.note", properties: properties))
      }
      #expect(error?.server?.code == "invalid_properties")
      #expect(error?.message.contains("body") == true)
    }
    #expect(try bench.queue.all().isEmpty)
    let made = try bench.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "A", "body": "x", "notes": .null, "odd": .null]))
    let shown = try bench.copy.item(try #require(made.itemID))
    #expect(shown?.properties["notes"] == nil)
    #expect(shown?.properties["odd"] == .null)
  }

  @Test(
    "Q-S27 Q-S28 Q55.5 Q55.6 a merge's null leaves an optional property, a whole edit's clears it; results are judged")
  func edits() throws {
    let bench = try Bench()
    let made = try bench.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "A", "body": "x", "notes": "n"]))
    let id = try #require(made.itemID)
    try bench.queue.drain()
    let merge = try bench.edit(id, ["notes": .null])
    #expect(merge.body?["properties"]?["notes"] == .null)
    #expect(try bench.copy.item(id)?.properties["notes"] == "n")
    expectError(.validation) { try bench.edit(id, ["body": .null]) }
    expectError(.validation) {
      try bench.queue.updateItem(id, ItemEdit(properties: ["title": "B"], mode: .replace, version: 1))
    }
    try bench.queue.updateItem(
      id, ItemEdit(properties: ["body": "x", "notes": .null], mode: .replace, version: 1))
    #expect(try bench.copy.item(id)?.properties == ["body": "x"])
    // A stale one is judged by its values alone.
    try bench.queue.drain()
    try bench.queue.updateItem(
      id, ItemEdit(properties: ["title": "C"], mode: .replace, version: 1, readAtVersion: true))
  }

  @Test("Q53.6 QD6 clearing goes whole, with the cleared name left out")
  func clearing() throws {
    let bench = try Bench()
    let made = try bench.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "A", "body": "x", "notes": "n"]))
    let id = try #require(made.itemID)
    try bench.queue.drain()
    let edit = try bench.queue.updateItem(
      id, ItemEdit(properties: ["title": "B"], clearProperties: ["notes"], version: 1))
    #expect(
      edit.bodyText == #"{"version":1,"properties":{"title":"B","body":"x"},"properties_mode":"replace"}"#)
    #expect(try bench.copy.item(id)?.properties == ["title": "B", "body": "x"])
  }

  @Test("Q-S36 a 129-unit tag and a 101st one are refused, 128 and 100 are taken")
  func tagBounds() throws {
    let bench = try Bench()
    let id = try bench.create("A")
    expectError(.validation) { try bench.queue.addTag(id, Text(String(repeating: "a", count: 129))) }
    try bench.queue.addTag(id, Text(String(repeating: "a", count: 128)))
    for number in 1..<100 { try bench.queue.addTag(id, Text("t\(number)")) }
    expectError(.validation) { try bench.queue.addTag(id, "one more") }
    #expect(try bench.copy.item(id)?.tags.count == 100)
    try bench.queue.addTag(id, "t1")
  }

  @Test("Q-S11 while a copy fills, edits of held items queue and edge writes wait for the fill")
  func filling() throws {
    let bench = try Bench()
    let (one, two) = (try bench.create("A"), try bench.create("B"))
    try bench.queue.drain()
    try bench.copy.store.set(.hydrateState, Text("{}"))
    try bench.edit(one, ["title": "C"])
    expectError(.hydrationIncomplete) {
      try bench.queue.createEdge(EdgeDraft(source: one, target: two, type: "references"))
    }
    expectError(.hydrationIncomplete) { try bench.queue.deleteItem(Sample.id(77)) }
  }

  @Test("Q64.1 Q64.2 Q-S152 an edge is judged in the server's order, under its codes and details")
  func edges() throws {
    let bench = try Bench()
    let ids = try (0..<4).map { try bench.create("\($0)") }
    func refused(_ type: Text, _ from: Int, _ to: Int) -> (Text?, Text?) {
      do {
        try bench.queue.createEdge(EdgeDraft(source: ids[from], target: ids[to], type: type))
        return (nil, nil)
      } catch {
        return (error.server?.code, error.server?.details?["constraint"]?.text)
      }
    }
    #expect(refused("references", 0, 0) == ("edge_cycle", nil))
    #expect(refused("references", 0, 1) == (nil, nil))
    #expect(refused("references", 0, 1) == ("edge_constraint_violation", "duplicate"))
    #expect(refused("parent-of", 0, 1) == (nil, nil))
    #expect(refused("parent-of", 2, 1) == ("edge_constraint_violation", "cardinality"))
    #expect(refused("parent-of", 1, 0) == ("edge_cycle", nil))
    #expect(refused("in-thread", 0, 1) == (nil, nil))
    #expect(refused("in-thread", 0, 2) == ("edge_constraint_violation", "cardinality"))
    #expect(refused("in-collection", 0, 1).0 == "edge_constraint_violation")
    #expect(refused("no-such", 0, 1).0 == "edge_type_not_found")
    try bench.queue.deleteItem(ids[3])
    #expect(refused("references", 0, 3).0 == "item_not_found")
    let count = try bench.queue.all().count
    expectError(.invalid) {
      try bench.queue.createEdge(EdgeDraft(source: Sample.id(9), target: ids[0], type: "supersedes"))
    }
    #expect(try bench.queue.all().count == count)
  }

  @Test(
    "Q54.1 Q54.2 Q54.3 Q54.6 an edge's end moves in one update, shown at both ends; an edit that changes nothing is none"
  )
  func edgeMoves() throws {
    let bench = try Bench()
    let ids = try (0..<4).map { try bench.create("\($0)") }
    let edge = try #require(
      try bench.queue.createEdge(EdgeDraft(source: ids[0], target: ids[1], type: "parent-of")).edgeID)
    try bench.queue.drain()
    #expect(try bench.queue.updateEdge(edge, version: 1, source: ids[0]) == nil)
    expectError(.validation) { try bench.queue.updateEdge(edge, version: 1, target: ids[2]) }
    expectError(.validation) { try bench.queue.updateEdge(edge, version: 1, source: ids[2], target: ids[3]) }
    expectError(.validation) { try bench.queue.updateEdge(edge, version: 1, source: ids[1]) }
    expectError(.invalid) { try bench.queue.updateEdge(edge, version: 2, source: ids[2]) }
    let move = try #require(try bench.queue.updateEdge(edge, version: 1, source: ids[2]))
    #expect(move.bodyText == Text(#"{"version":1,"source_id":"\#(ids[2])"}"#))
    #expect(try bench.copy.edges(from: ids[0], type: "parent-of").isEmpty)
    #expect(try bench.copy.edges(from: ids[2], type: "parent-of").map(\.target) == [ids[1]])
    #expect(try bench.copy.edges(to: ids[1], type: "parent-of").count == 1)
    // An accepted move of a source is another read view: the copy ends once the last write went.
    expectError(.copyExpired) { try bench.queue.drain() }
    #expect(try bench.write(move.id).verdict == .accepted)
    #expect(try bench.copy.store.text(.expiredReason) == "read_view_changed")
  }

  @Test("E2.5 to E2.8 a placement's path stays inside, and is all it carries")
  func placements() throws {
    let bench = try Bench()
    let note = try bench.create("A")
    let folder = Sample.id(0xF0)
    for path in ["", "/a", "..", "a/../..", ".", "c:x", #"a\b"#, "a\u{0}"] {
      expectError(.validation) {
        try bench.queue.createEdge(
          EdgeDraft(source: note, target: folder, type: "in-folder", properties: ["path": .string(path)]))
      }
    }
    expectError(.validation) {
      try bench.queue.createEdge(
        EdgeDraft(source: note, target: folder, type: "in-folder", properties: ["path": "a", "x": 1]))
    }
    let edge = try bench.queue.createEdge(
      EdgeDraft(source: note, target: folder, type: "in-folder", properties: ["path": "a/../b.md"]))
    #expect(try bench.queue.giveWay(edge: try #require(edge.edgeID)) == 1)
    #expect(try bench.copy.edges(from: note).isEmpty)
  }

  @Test("Q9.11 what one write decides for another is kept in order while both could be out")
  func lanes() throws {
    let catalog = try Catalog.shipped()
    func edge(_ kind: WriteKind, _ type: Text, _ from: UInt64, _ to: UInt64) -> Lane {
      var write = Sample.write(kind)
      write.itemID = Sample.id(from)
      write.targetID = Sample.id(to)
      return Lane(write, edgeType: catalog.edgeTypes[type], cascades: false)
    }
    #expect(!edge(.createEdge, "references", 1, 2).comesBefore(edge(.createEdge, "references", 1, 3)))
    #expect(!edge(.createEdge, "in-folder", 1, 9).comesBefore(edge(.createEdge, "in-folder", 2, 9)))
    #expect(edge(.deleteEdge, "references", 1, 2).comesBefore(edge(.createEdge, "references", 1, 2)))
    #expect(edge(.deleteEdge, "in-thread", 1, 2).comesBefore(edge(.createEdge, "in-thread", 1, 3)))
    #expect(edge(.deleteEdge, "parent-of", 1, 2).comesBefore(edge(.createEdge, "parent-of", 3, 2)))
    #expect(!edge(.createEdge, "parent-of", 1, 2).comesBefore(edge(.createEdge, "parent-of", 1, 3)))
    var delete = Sample.write(.deleteItem)
    delete.itemID = Sample.id(2)
    let trash = Lane(delete, edgeType: nil, cascades: false)
    #expect(edge(.createEdge, "references", 1, 2).comesBefore(trash))
    #expect(trash.comesBefore(edge(.deleteEdge, "references", 2, 1)))
    #expect(!trash.isAlone)
    #expect(Lane(delete, edgeType: nil, cascades: true).isAlone)
    #expect(Lane(Sample.write(.restoreItem), edgeType: nil, cascades: false).isAlone)
  }
}
