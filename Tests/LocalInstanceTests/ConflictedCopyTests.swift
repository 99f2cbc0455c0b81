import LocalInstance
import MarfaBase
import Testing

@Suite("Conflicted copies, conditional creates, edges and deletes")
struct ConflictedCopyTests {
  let bench: Bench
  let id: String

  init() throws {
    bench = try Bench()
    id = bench.noteID("", ["properties": ["body": "One", "title": "First"], "tags": ["t"]])
  }

  func patch(_ version: Int, _ body: JSON, _ query: String = "", key: String? = nil, under name: String? = nil)
    -> Answer
  {
    bench.patch(id, version, body, query, key: key, under: name)
  }

  func properties(_ version: Int, _ properties: JSON, _ query: String = "") -> Answer {
    patch(version, ["properties": properties], query)
  }

  /// The row of a resolved write's copy.
  func copy(_ answer: Answer) -> Answer {
    bench.read(answer.json["conflict_resolution"]?["conflicted_copy_id"]?.text?.string ?? "none")
  }

  /// Title and body changed by another at version 1.
  func theirs() { expect(properties(1, ["title": "Theirs", "body": "Theirs"]), 200) }

  @Test("V-S45 the copy has the earlier title, version 1, no history, the original's source and no source_id")
  func theCopy() {
    expect(patch(1, ["source_id": "k"]), 200)
    expect(properties(2, ["title": "Theirs", "body": "Theirs"]), 200)
    let copy = copy(properties(2, ["title": "Mine", "body": "Mine"], "?conflict=auto"))
    #expect(copy.properties == ["body": "Mine", "title": "Theirs"])
    #expect(copy.version == 1 && copy.state == "active" && copy.item["source"]?.text == "local")
    #expect(copy.item["source_id"] == nil)
    #expect(bench.history(copy.id).data.isEmpty)
  }

  @Test("V-S47 a colliding own time beside an echoed tier: fields is the time alone, and the tier stays moved")
  func echoedTier() {
    expect(patch(1, ["occurred_at": "2026-02-02T00:00:00Z", "tier": "feed"]), 200)
    let answer = patch(1, ["occurred_at": "2026-03-03T00:00:00Z", "tier": "library"], "?conflict=auto")
    expect(answer, 200)
    #expect(
      answer.json["conflict_resolution"] == [
        "fields": ["occurred_at"], "strategy": ["occurred_at": "last_writer_wins"],
      ])
    #expect(answer.item["tier"]?.text == "feed")
    #expect(answer.item["occurred_at"]?.text == "2026-03-03T00:00:00.000Z")
  }

  @Test("V-S48 without a collision there is no report; of last-writer collisions alone no copy")
  func reports() {
    expect(properties(1, ["title": "Theirs"]), 200)
    let merged = properties(1, ["language": "en"], "?conflict=auto")
    expect(merged, 200)
    #expect(merged.json["conflict_resolution"] == nil)
    let count = bench.count()
    let last = properties(1, ["title": "Mine"], "?conflict=auto")
    #expect(last.json["conflict_resolution"]?.object?.keys == ["fields", "strategy"])
    #expect(last.properties["title"]?.text == "Mine" && bench.count() == count)
  }

  @Test("V-S50 a resolution refused afterwards writes no copy; the same write made valid writes one")
  func refusedResolution() {
    theirs()
    let count = bench.count()
    let events = bench.events().count
    expect(properties(1, ["body": "Mine", "language": 7], "?conflict=auto"), 400, "invalid_properties")
    #expect(bench.count() == count && bench.events().count == events)
    #expect(
      copy(properties(1, ["body": "Mine", "language": "en"], "?conflict=auto")).properties["body"]?.text == "Mine")
    #expect(bench.count() == count + 1)
  }

  @Test("V-S51 the copy has the tags and only the edges it may have, and one link to the original")
  func copiedEdges() {
    for (name, onDelete) in [("owns", "cascade"), ("holds", "block")] {
      expect(
        bench.send(
          "POST", "/edge-types",
          ["id": string(name), "cardinality": "many-to-many", "cascade_on_delete": string(onDelete)]), 201)
    }
    let (parent, topic, child, older, owned, held, binned, citing, former) = (
      bench.noteID("parent"), bench.noteID("topic"), bench.noteID("child"), bench.noteID("older"),
      bench.noteID("owned"), bench.noteID("held"), bench.noteID("binned"), bench.noteID("citing"),
      bench.noteID("former")
    )
    bench.parent(parent, id)
    bench.parent(id, child)
    for (source, type, target) in [
      (id, "about", topic), (id, "supersedes", older), (id, "owns", owned), (id, "holds", held), (id, "about", binned),
      (citing, "references", id), (id, "derived-from", former),
    ] { expect(bench.edge(source, type, target, ["x": 1]), 201) }
    expect(bench.delete(binned), 200)
    theirs()
    let resolved = properties(1, ["body": "Mine"], "?conflict=auto")
    let copy = copy(resolved)
    #expect(copy.tags == ["t", "conflicted-copy"])
    let out = bench.send("GET", "/items/\(copy.id)/edges?limit=500").data
    #expect(
      Set(out.map { "\($0["edge_type"]?.text ?? "") \($0["target_id"]?.text ?? "")" })
        == ["about \(topic)", "derived-from \(id)"])
    #expect(out.first { $0["edge_type"]?.text == "about" }?["properties"] == ["x": 1])
    let link = out.first { $0["edge_type"]?.text == "derived-from" }
    #expect(link?["properties"] == [:] && link?["version"]?.int == 1)
    let into = bench.send("GET", "/items/\(copy.id)/backrefs?limit=500").data
    #expect(into.map { "\($0["edge_type"]?.text ?? "") \($0["source_id"]?.text ?? "")" } == ["parent-of \(parent)"])
  }

  @Test("V-S52 a writer without edge grants still gets the link; edges it could not make are not copied")
  func withoutGrants() throws {
    let (topic, cited) = (bench.noteID("topic"), bench.create("core.task", ["title": "t"]).id)
    expect(bench.edge(id, "about", topic), 201)
    expect(bench.edge(id, "references", cited), 201)
    theirs()
    for (place, key) in [
      try bench.mint("none", types: ["core.note": "write"], edges: [:]),
      try bench.mint("some", types: ["core.note": "write"], edges: ["references": "write", "about": "read"]),
    ].enumerated() {
      let resolved = patch(1, ["properties": ["body": string("Mine \(place)")]], "?conflict=auto", key: key.token)
      expect(resolved, 200)
      let copy = copy(resolved)
      #expect(copy.item["edges"]?.object?.keys == ["derived-from"])
    }
  }

  @Test(
    "V-S54 the same write again under its key makes no second copy and no second link, also when the record is lost")
  func again() throws {
    bench.instance.settings.eventRetentionHours = 1
    theirs()
    func write() -> Answer { patch(1, ["properties": ["body": "Mine"]], "?conflict=auto", under: "k") }
    let first = write()
    let count = bench.count()
    let replayed = write()
    #expect(replayed.isReplayed && replayed.response.body == first.response.body)
    bench.clock.advance(seconds: 7200)
    try bench.instance.sweep()
    let rerun = write()
    expect(rerun, 200)
    #expect(!rerun.isReplayed)
    #expect(
      rerun.json["conflict_resolution"]?["conflicted_copy_id"]
        == first.json["conflict_resolution"]?["conflicted_copy_id"])
    #expect(bench.count() == count)
    #expect(bench.send("GET", "/edges?edge_type=derived-from").data.count == 1)
  }

  @Test("V-S55 the link stays with the original in the bin and goes with its purge; the copy is unchanged")
  func originalGone() {
    let topic = bench.noteID("topic")
    expect(bench.edge(id, "about", topic), 201)
    theirs()
    let copyID = copy(properties(1, ["body": "Mine"], "?conflict=auto")).id
    let before = bench.read(copyID)
    expect(bench.delete(id), 200)
    #expect(bench.read(copyID).json == before.json)
    expect(bench.restore(id), 200)
    #expect(bench.read(copyID).json == before.json)
    expect(bench.delete(id), 200)
    let events = bench.announced { expect(bench.purge(id), 200) }
    let link = events.first { $0.data["edge"]?["edge_type"]?.text == "derived-from" }
    #expect(link?.kind == "edge.deleted" && link?.data["purged_with"]?.text == Text(id))
    let after = bench.read(copyID)
    #expect(after.tags == before.tags && after.properties == before.properties && after.version == 1)
    #expect(after.item["edges"]?.object?.keys == ["about"])
  }

  @Test("V-S56 two stale writes at once on a keep-both property make two copies")
  func twoCopies() throws {
    theirs()
    var answers: [Answer] = []
    try bench.instance.batch {
      for name in ["a", "b"] { answers.append(properties(1, ["body": string(name)], "?conflict=auto")) }
    }
    #expect(answers.map(\.status) == [200, 200])
    let copies = answers.map(copy)
    #expect(copies[0].id != copies[1].id)
    #expect(copies.map { $0.properties["body"]?.text } == ["a", "b"])
    #expect(bench.read(id).properties["body"]?.text == "Theirs")
  }

  @Test("V-S57 a child that overrides body takes the later writer and makes no copy; one that does not keeps both")
  func children() {
    let override: JSON = ["fields": ["body": "last_writer_wins"]]
    expect(
      bench.send(
        "POST", "/types", ["id": "acme.memo", "parent": "core.note", "fields": [:], "merge_policy": override]), 201)
    expect(bench.send("POST", "/types", ["id": "acme.page", "parent": "core.note", "fields": [:]]), 201)
    for (type, body, copies) in [("acme.memo", "Mine", 0), ("acme.page", "Theirs", 1)] {
      let made = bench.create(string(type), ["body": "One"]).id
      expect(bench.patch(made, 1, ["properties": ["body": "Theirs"]]), 200)
      let count = bench.count()
      let resolved = bench.patch(made, 1, ["properties": ["body": "Mine"]], "?conflict=auto")
      #expect(resolved.properties["body"]?.text == Text(body))
      #expect(bench.count() == count + copies)
      #expect((resolved.json["conflict_resolution"]?["conflicted_copy_id"] != nil) == (copies == 1))
    }
  }

  // MARK: creates, edges, deletes

  @Test("V-S61 a repeated id or a key in the bin is acknowledged whatever the version, and nothing is written")
  func acknowledged() {
    let binned = bench.noteID("b", ["source_id": "k"])
    expect(bench.delete(binned), 200)
    let events = bench.events().count
    for version in [0, 1, 2, 99] {
      let byID = bench.create("core.note", ["body": "x"], ["id": string(id), "version": .int(version)])
      let byKey = bench.create("core.note", ["body": "x"], ["source_id": "k", "version": .int(version)])
      for (answer, row) in [(byID, id), (byKey, binned)] {
        expect(answer, 200)
        #expect(answer.isAcknowledged && answer.id == row && answer.version == 1)
      }
    }
    #expect(bench.events().count == events)
  }

  @Test("V-S63 of each pair of neighbours in the order of a conditional create the earlier answers")
  func createOrder() throws {
    func make(_ type: JSON, _ more: JSON, key: String? = nil) -> Answer {
      bench.create(type, ["body": "x", "title": "x"], more, key: key)
    }
    let live = bench.noteID("live", ["source_id": "live"])
    let binned = bench.noteID("binned", ["source_id": "binned"])
    expect(bench.delete(binned), 200)
    let other = string(bench.ids.next().description)
    // An acknowledgment before another id.
    #expect(make("core.note", ["source_id": "binned", "id": other, "version": 0]).isAcknowledged)
    // An unreadable row before the id.
    let blind = try bench.mint("b", types: ["core.task": "write"], sources: ["local"])
    expect(
      make("core.task", ["source": "local", "source_id": "live", "id": other, "version": 0], key: blind.token), 403,
      "type_not_permitted")
    // The id before the type, the type before the snapshot, the snapshot before a collision.
    let crossed = make("core.task", ["source_id": "live", "id": other, "version": 0])
    expect(crossed, 400, "validation_error")
    #expect(crossed.details?["field"]?.text == "id" && crossed.details?["existing_id"]?.text == Text(live))
    expect(make("core.task", ["source_id": "live", "version": 0]), 409, "type_mismatch")
    expect(bench.patch(live, 1, ["properties": ["body": "theirs"]]), 200)
    expect(make("core.note", ["source_id": "live", "version": 0]), 409, "ancestor_unavailable")
    expect(make("core.note", ["source_id": "live", "version": 1]), 409, "version_conflict")
  }

  @Test("V-S64 a new edge has version 1 by any door; stale, versionless and racing updates of it")
  func edges() throws {
    let (a, b, c) = (bench.noteID("a"), bench.noteID("b"), bench.noteID("c"))
    let made = bench.edge(a, "about", b)
    let inline = bench.note("x", ["edges": ["about": [string(b)]]])
    expect(bench.patch(c, 1, ["edges": ["about": [string(b)]]]), 200)
    let bulk = bench.send(
      "POST", "/edges/bulk",
      ["edges": [["source_id": string(b), "edge_type": "about", "target_id": string(c)]]])
    expect(bulk, 200)
    _ = inline
    let all = bench.send("GET", "/edges").data
    #expect(all.count == 4 && all.allSatisfy { $0["version"]?.int == 1 })
    func patch(_ body: JSON, _ path: String) -> Answer { bench.send("PATCH", "/edges/\(path)", body) }
    let stale = patch(["version": 2, "properties": ["x": 1]], made.id)
    expect(stale, 409, "version_conflict")
    #expect(stale.json.object?.keys == ["error", "current"])
    #expect(stale.json["current"] == made.json["edge"] && stale.json["error"]?["status"]?.int == 409)
    for path in [made.id, bench.ids.next().description, "NOPE"] {
      let answer = patch(["properties": ["x": 1]], path)
      expect(answer, 400, "missing_required_field")
      #expect(answer.details?["field"]?.text == "version")
    }
    var answers: [Answer] = []
    try bench.instance.batch {
      for value in 1...2 { answers.append(patch(["version": 1, "properties": ["x": .int(value)]], made.id)) }
    }
    #expect(answers.map(\.status) == [200, 409])
    #expect(answers[1].json["current"] == answers[0].json["edge"])
  }

  @Test("V-S65 a delete at a left version is refused with current; without one it goes; version 0 is refused")
  func deletes() {
    expect(properties(1, ["title": "x"]), 200)
    let stale = bench.send("DELETE", "/items/\(id)?version=1")
    expect(stale, 409, "version_conflict")
    #expect(stale.json.object?.keys == ["error", "current"] && stale.json["current"]?["version"]?.int == 2)
    #expect(bench.state(id) == "active")
    expect(bench.send("DELETE", "/items/\(id)?version=0"), 400, "validation_error")
    expect(bench.delete(id), 200)
    #expect(bench.state(id) == "trashed")
  }
}
