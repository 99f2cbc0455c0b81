import LocalInstance
import MarfaBase
import Testing

@Suite("Edges: updates, moves, deletes")
struct EdgeChangeTests {
  let bench: Bench
  let a: String
  let b: String
  let c: String

  init() throws {
    bench = try Bench()
    a = bench.noteID("a")
    b = bench.noteID("b")
    c = bench.noteID("c")
  }

  func patch(_ id: String, _ body: JSON, key: String? = nil) -> Answer {
    bench.send("PATCH", "/edges/\(id)", body, key: key)
  }

  /// A patch of an edge at version 1 that moves one end.
  func move(_ id: String, _ end: Text, _ to: String, key: String? = nil, version: Int = 1) -> Answer {
    var body = JSONObject()
    body["version"] = .int(version)
    body[end] = .string(Text(to))
    return patch(id, .object(body), key: key)
  }

  func stored(_ id: String) -> JSON { bench.send("GET", "/edges/\(id)").edge }

  @Test("E-S30 one property changes, the other stays, version 2, announced once")
  func merge() {
    let id = bench.edge(a, "about", b, ["x": 1, "y": 2]).id
    let stream = bench.send("GET", "/events")
    _ = stream.frames()
    let changed = patch(id, ["version": 1, "properties": ["y": 3, "z": nil]])
    expect(changed, 200)
    #expect(changed.edge["properties"] == ["x": 1, "y": 3, "z": nil])
    #expect(changed.edge["version"]?.int == 2)
    #expect(changed.edge.string("created_at") == stored(id).string("created_at"))
    #expect(stored(id) == changed.edge)
    let frames = stream.frames()
    #expect(frames.map(\.kind) == ["edge.updated"])
    #expect(frames.first?.data["edge"] == changed.edge)
    // An update that leaves the edge the same counts too (E0.1).
    #expect(patch(id, ["version": 2, "properties": [:]]).edge["version"]?.int == 3)
  }

  @Test("E-S31 no version is refused; a lower or higher one is answered with the edge as it stands")
  func versions() {
    let id = bench.edge(a, "about", b).id
    expect(patch(id, ["version": 1, "properties": ["x": 1]]), 200)
    let now = stored(id)
    let none = patch(id, ["properties": ["x": 2]])
    expect(none, 400, "missing_required_field")
    #expect(none.detail("field") == "version")
    for version in [0, 1, 3, 99] {
      let stale = patch(id, ["version": .int(version), "properties": ["x": 2]])
      expect(stale, 409, "version_conflict")
      #expect(stale.json["current"] == now)
      #expect(stale.json["error"]?["status"]?.int == 409)
      #expect(stale.json.object?.keys.map(\.string).sorted() == ["current", "error"])
    }
    #expect(stored(id) == now)
  }

  @Test("E-S32 a stale version comes before a malformed id, a missing end, and a body with nothing else")
  func staleFirst() {
    let id = bench.edge(a, "parent-of", b).id
    for body in [
      ["version": 9, "source_id": "zzz"], ["version": 9, "source_id": .string(bench.newID())], ["version": 9],
      ["version": 9, "properties": "text"], ["version": 9, "source_id": .string(c), "target_id": .string(c)],
    ] as [JSON] {
      expect(patch(id, body), 409, "version_conflict")
    }
  }

  @Test("E-S35 a reply moves to another thread, a successor to another predecessor")
  func targets() {
    let reply = bench.edge(a, "in-thread", b, ["position": 1]).id
    let moved = move(reply, "target_id", c)
    expect(moved, 200)
    #expect(moved.id == reply)
    #expect(moved.edge["properties"] == ["position": 1])
    #expect(bench.ids("/items/\(b)/backrefs") == [])
    #expect(bench.ids("/items/\(c)/backrefs") == [reply])
    let follows = bench.edge(a, "supersedes", b).id
    expect(move(follows, "target_id", c), 200)
    #expect(bench.ids("/items/\(c)/backrefs?edge_type=supersedes") == [follows])
    expect(move(follows, "source_id", b, version: 2), 200)
    #expect(bench.ids("/items/\(b)/edges?edge_type=supersedes") == [follows])
  }

  @Test("E-S36 a move is one event without the old end, and the end that stays never has none or two")
  func oneEvent() {
    let id = bench.edge(a, "parent-of", b).id
    let stream = bench.send("GET", "/events")
    _ = stream.frames()
    #expect(bench.ids("/items/\(b)/backrefs?edge_type=parent-of") == [id])
    for (version, parent) in [(1, c), (2, a), (3, c)] {
      expect(move(id, "source_id", parent, version: version), 200)
      #expect(bench.ids("/items/\(b)/backrefs?edge_type=parent-of") == [id])
      let frames = stream.frames()
      #expect(frames.map(\.kind) == ["edge.updated"])
      #expect(frames.first?.data["edge"] == stored(id))
      let old = parent == c ? a : c
      #expect(!(frames.first?.data.compact.contains(old) ?? true))
    }
  }

  @Test("E-S37 each move that cannot be has its code, names its member, and leaves the edge as it was")
  func refusedMoves() {
    let album = bench.album()
    let hidden = bench.task()
    let parent = bench.edge(a, "parent-of", b).id
    let follows = bench.edge(a, "supersedes", b).id
    let about = bench.edge(a, "about", b).id
    let before = [parent, follows, about].map(stored)

    // Onto an end that holds one already.
    let other = bench.edge(c, "supersedes", bench.noteID("d"))
    expect(other, 201)
    expectConstraint(move(follows, "source_id", c), "cardinality", [("edge_type", "supersedes"), ("source_id", c)])
    expectConstraint(
      move(follows, "target_id", other.edge.string("target_id") ?? ""), "cardinality",
      [("target_id", other.edge.string("target_id") ?? "")])
    // A type the edge type does not admit.
    expect(bench.registerEdge("filed", "many-to-one", ["target_type_constraints": ["role:container"]]), 201)
    let filed = bench.edge(a, "filed", album).id
    let misfit = move(filed, "target_id", b)
    expect(misfit, 400, "edge_constraint_violation")
    #expect(misfit.detail("target_type") == "core.note")
    #expect(stored(filed)["version"]?.int == 1)
    // A cycle, and itself.
    let child = bench.edge(b, "parent-of", bench.noteID("e"))
    let leaf = child.edge.string("target_id") ?? ""
    let cycle = move(parent, "source_id", leaf)
    expect(cycle, 400, "edge_cycle")
    #expect(cycle.details == ["edge_type": "parent-of", "source_id": .string(leaf), "target_id": .string(b)])
    for (id, end, onto) in [(parent, "source_id", b), (follows, "source_id", b), (follows, "target_id", a)] {
      let itself = move(id, Text(end), onto)
      expect(itself, 400, "edge_cycle")
      #expect(itself.detail("edge_type") != nil)
    }
    // A missing item, an unreadable one, an unwritable source.
    let nobody = bench.newID()
    let missing = move(parent, "source_id", nobody)
    expect(missing, 404, "item_not_found")
    #expect(missing.message == "Edge source item not found: \(nobody)")
    let notes = bench.mint(["core.note": "write"])
    let unreadable = move(parent, "source_id", hidden, key: notes)
    expect(unreadable, 404, "item_not_found")
    #expect(unreadable.message == "Edge source item not found: \(hidden)")
    #expect(move(follows, "target_id", hidden, key: notes).message == "Edge target item not found: \(hidden)")
    let readsTasks = bench.mint(["core.note": "write", "core.task": "read"])
    let unwritable = move(parent, "source_id", hidden, key: readsTasks)
    expect(unwritable, 403, "type_not_permitted")
    #expect(unwritable.details?["grant"]?.string("name") == "core.task")
    // An end that may hold many, both ends, a malformed id.
    for (id, end) in [(about, "target_id"), (about, "source_id"), (parent, "target_id")] {
      let many = move(id, Text(end), c)
      expect(many, 400, "validation_error")
      #expect(many.path == end)
    }
    let both = patch(follows, ["version": 1, "source_id": .string(bench.noteID()), "target_id": .string(c)])
    expect(both, 400, "validation_error")
    #expect(both.path == "source_id")
    for end in ["source_id", "target_id"] as [Text] { expect(move(follows, end, "zzz"), 400, "invalid_id") }
    // The end that stays is in the bin.
    let (x, y) = (bench.noteID("x"), bench.noteID("y"))
    let staying = bench.edge(x, "supersedes", y)
    bench.trash(y)
    let binned = move(staying.id, "source_id", bench.noteID())
    expect(binned, 404, "item_not_found")
    #expect(binned.message == "Edge target item not found: \(y)")
    #expect(stored(staying.id) == staying.edge)
    #expect([parent, follows, about].map(stored) == before)
  }

  @Test("E-S38 of two faults of a patch the earlier of the order is told")
  func order() {
    let hidden = bench.task()
    let parent = bench.edge(a, "parent-of", b).id
    let fromTask = bench.edge(hidden, "parent-of", c).id
    // Not readable before write; source's type before edge type; edge type before a stale version.
    expect(patch(fromTask, ["version": 9], key: bench.mint(["core.note": "read"])), 404, "edge_not_found")
    expect(
      patch(parent, ["version": 9], key: bench.mint(["*": "read"], edges: ["*": "read"])), 403, "type_not_permitted")
    expect(patch(parent, ["version": 9], key: bench.mint(edges: ["*": "read"])), 403, "edge_permission_denied")
    // A malformed id before both ends; both ends before an unregistered type.
    expect(patch(parent, ["version": 1, "source_id": .string(c), "target_id": "zzz"]), 400, "invalid_id")
    expect(bench.registerEdge("likes", "many-to-one"), 201)
    let likes = bench.edge(a, "likes", b).id
    expect(bench.send("DELETE", "/edge-types/likes?force=true"), 200)
    expect(
      patch(likes, ["version": 1, "source_id": .string(c), "target_id": .string(a)]), 400, "validation_error")
    // An unregistered type before an end that cannot move.
    expect(move(likes, "source_id", c), 404, "edge_type_not_found")
    // An end that cannot move before a missing one.
    expect(move(parent, "target_id", bench.newID()), 400, "validation_error")
    // The new source before write on it, and that before the end that stays.
    let readsTasks = bench.mint(["core.note": "write", "core.task": "read"])
    let (x, y) = (bench.noteID("x"), bench.noteID("y"))
    let staying = bench.edge(x, "supersedes", y).id
    bench.trash(y)
    expect(move(staying, "source_id", hidden, key: readsTasks), 403, "type_not_permitted")
    #expect(move(staying, "source_id", bench.newID()).message.hasPrefix("Edge source item"))
    // The end that stays before the self-loop and what follows it.
    #expect(move(staying, "source_id", y).message.hasPrefix("Edge source item"))
    expect(bench.registerEdge("tasks", "one-to-one", ["source_type_constraints": ["core.task"]]), 201)
    let (z, w) = (bench.noteID("z"), bench.noteID("w"))
    let tasked = bench.edge(hidden, "tasks", z).id
    bench.trash(z)
    #expect(move(tasked, "source_id", w).message == "Edge target item not found: \(z)")
  }

  @Test("E-S39 a move under one key, sent twice, replays its first answer")
  func replay() {
    let id = bench.edge(a, "parent-of", b).id
    let key = [HTTPHeader("Idempotency-Key", "move-1")]
    let body: JSON = ["version": 1, "source_id": .string(c)]
    let first = bench.send("PATCH", "/edges/\(id)", body, headers: key)
    expect(first, 200)
    let events = bench.events().count
    let second = bench.send("PATCH", "/edges/\(id)", body, headers: key)
    #expect(second.status == 200 && second.response.body == first.response.body)
    #expect(stored(id)["version"]?.int == 2)
    #expect(bench.events().count == events)
  }

  @Test("E-S41 a deleted edge is gone from every listing; the next delete is not found and says nothing")
  func delete() {
    let id = bench.edge(a, "about", b).id
    let gone = bench.send("DELETE", "/edges/\(id)")
    #expect(gone.status == 200 && gone.json == ["ok": true])
    #expect(bench.events().last?.kind == "edge.deleted")
    for door in ["/edges", "/items/\(a)/edges", "/items/\(b)/backrefs"] { #expect(bench.ids(door).isEmpty) }
    #expect(bench.send("GET", "/items/\(a)").item["edges"] == [:])
    let events = bench.events().count
    expect(bench.send("DELETE", "/edges/\(id)"), 404, "edge_not_found")
    #expect(bench.events().count == events)
    for item in [a, b] { #expect(bench.send("GET", "/items/\(item)").item["state"]?.text == "active") }
  }

  @Test("E-S76 writing takes the source's type and the edge type, each refused by its own code and grant")
  func grants() {
    let sourceOnly = bench.mint(["core.note": "write"], edges: ["about": "read"])
    let refused = bench.edge(a, "about", b, key: sourceOnly)
    expect(refused, 403, "edge_permission_denied")
    #expect(
      refused.details == [
        "edge_type": "about", "required": "write",
        "grant": ["kind": "edge_type", "name": "about", "level": "write"],
      ])
    let edgeOnly = bench.mint(["core.note": "read"], edges: ["about": "write"])
    let byType = bench.edge(a, "about", b, key: edgeOnly)
    expect(byType, 403, "type_not_permitted")
    #expect(byType.details?["grant"] == ["kind": "type", "name": "core.note", "level": "write"])
    let both = bench.mint(["core.note": "write"], edges: ["about": "write"])
    let made = bench.edge(a, "about", b, key: both)
    expect(made, 201)
    // A source in the bin is gated all the same.
    bench.trash(a)
    for (key, code) in [(edgeOnly, "type_not_permitted"), (sourceOnly, "edge_permission_denied")] {
      expect(patch(made.id, ["version": 1, "properties": ["x": 1]], key: key), 403, code)
      expect(bench.send("DELETE", "/edges/\(made.id)", key: key), 403, code)
    }
    expect(bench.send("DELETE", "/edges/\(made.id)", key: both), 200)
    // The target's type needs only read (E21.5).
    let readsTasks = bench.mint(["core.note": "write", "core.task": "read"], edges: ["about": "write"])
    expect(bench.edge(b, "about", bench.task(), key: readsTasks), 201)
  }

  @Test("E-S77 a wildcard covers every edge type, a name only its own, read lists and does not write")
  func wildcard() {
    let name = bench.mint(edges: ["about": "write"])
    expect(bench.edge(a, "about", b, key: name), 201)
    expect(bench.edge(a, "references", b, key: name), 403, "edge_permission_denied")
    let all = bench.mint(edges: ["*": "write"])
    for type in ["references", "parent-of", "supersedes"] { expect(bench.edge(a, type, b, key: all), 201) }
    let reads = bench.mint(edges: ["about": "read"])
    #expect(bench.ids("/edges", key: reads).count == 1)
    expect(bench.edge(a, "about", c, key: reads), 403, "edge_permission_denied")
  }

  @Test("E-S79 of two creates sent together, two parents or one triple, one lands")
  func together() throws {
    var answers: [Answer] = []
    try bench.instance.batch {
      answers = [bench.edge(a, "parent-of", c), bench.edge(b, "parent-of", c)]
    }
    #expect(answers.map(\.status).sorted() == [201, 400])
    #expect(bench.ids("/items/\(c)/backrefs").count == 1)
    try bench.instance.batch {
      answers = [bench.edge(a, "about", b), bench.edge(a, "about", b), bench.edge(a, "about", b)]
    }
    #expect(answers.map(\.status).sorted() == [201, 400, 400])
    for lost in answers where lost.status == 400 { expectConstraint(lost, "duplicate") }
    #expect(bench.ids("/items/\(a)/edges?edge_type=about").count == 1)
  }

  @Test("E-S80 after a retype into a type the key may not write the edge write is refused; events carry the edge")
  func retype() {
    let notes = bench.mint(["core.note": "write", "core.task": "read"])
    let note = bench.noteID("n", ["properties": ["body": "n", "title": "N"]])
    expect(bench.send("PATCH", "/items/\(note)", ["version": 1, "type": "core.task", "retype": true]), 200)
    let refused = bench.edge(note, "about", b, key: notes)
    expect(refused, 403, "type_not_permitted")
    #expect(refused.details?["grant"]?.string("name") == "core.task")
    let id = bench.edge(a, "about", b, ["x": 1]).id
    expect(patch(id, ["version": 1, "properties": ["x": 2]]), 200)
    expect(patch(id, ["version": 2, "properties": ["x": 3]]), 200)
    let told = bench.events().compactMap { $0.data["edge"] }
    #expect(told.map { $0["properties"]?["x"]?.int } == [1, 2, 3])
    #expect(told.map { $0["version"]?.int } == [1, 2, 3])
  }
}
