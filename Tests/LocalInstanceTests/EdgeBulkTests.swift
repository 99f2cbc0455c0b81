import LocalInstance
import MarfaBase
import Testing

@Suite("Edges: bulk")
struct EdgeBulkTests {
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

  func entry(_ source: String, _ type: String, _ target: String, _ more: JSON = [:]) -> JSON {
    var body = JSONObject()
    body["source_id"] = .string(Text(source))
    body["edge_type"] = .string(Text(type))
    body["target_id"] = .string(Text(target))
    for (name, value) in more.object?.members ?? [] { body[name] = value }
    return .object(body)
  }

  func bulk(_ edges: [JSON], _ more: JSON = [:], key: String? = nil) -> Answer {
    var body = JSONObject()
    body["edges"] = .array(edges)
    for (name, value) in more.object?.members ?? [] { body[name] = value }
    return bench.send("POST", "/edges/bulk", .object(body), key: key)
  }

  /// The code of one entry refused on its own.
  func lone(_ entry: JSON, key: String? = nil) -> JSON? {
    let answer = bulk([entry], ["atomic": false], key: key)
    expect(answer, 200)
    return answer.result(0)["error"]
  }

  @Test("E-S6 an id held with another triple says what differs, single and in bulk")
  func reused() {
    let id = bench.newID()
    expect(bench.edge(a, "about", b, id: id, key: nil), 201)
    for (source, type, target, differs) in [
      (b, "about", a, ["source_id", "target_id"]), (a, "references", b, ["edge_type"]), (a, "about", c, ["target_id"]),
    ] as [(String, String, String, [String])] {
      let single = bench.edge(source, type, target, id: id, key: nil)
      expect(single, 409, "id_reused")
      let refused = lone(entry(source, type, target, ["id": .string(id)]))
      #expect(refused?.string("code") == "id_reused")
      for details in [single.details, refused?["details"]] {
        #expect(details?["differs"]?.array?.compactMap { $0.text?.string } == differs)
      }
    }
  }

  @Test("E-S7 the id of an edge the key may not read is told alone, single and in bulk")
  func reusedHidden() {
    let hidden = bench.edge(bench.task(), "about", b).id
    let notes = bench.mint(["core.note": "write"])
    let single = bench.edge(a, "about", c, id: hidden, key: notes)
    expect(single, 409, "id_reused")
    let refused = lone(entry(a, "about", c, ["id": .string(hidden)]), key: notes)
    #expect(refused?.string("code") == "id_reused")
    for details in [single.details, refused?["details"]] { #expect(details == ["existing_id": .string(hidden)]) }
  }

  @Test("E-S45 new edges, repeats, an empty page and too many")
  func pages() {
    let id = bench.newID()
    let first = bulk([entry(a, "about", b, ["id": .string(id), "properties": ["x": 1]]), entry(a, "about", c)])
    expect(first, 200)
    #expect(first.outcomes == ["created", "created"])
    #expect(first.result(0).string("id") == id && first.result(1)["index"]?.int == 1)
    #expect(first.json["counts"]?["created"]?.int == 2)
    // A repeated id and triple, and a triple an earlier entry wrote, are held triples.
    let again = bulk([
      entry(a, "about", b, ["id": .string(id), "properties": ["y": 2]]), entry(b, "about", c), entry(b, "about", c),
    ])
    #expect(again.outcomes == ["updated", "created", "updated"])
    #expect(bench.send("GET", "/edges/\(id)").edge["properties"] == ["x": 1, "y": 2])
    let skipped = bulk([entry(a, "about", b, ["properties": ["z": 1]])], ["mode": "create_only"])
    #expect(skipped.outcomes == ["skipped"])
    #expect(skipped.result(0).string("reason") == "duplicate_edge" && skipped.result(0).string("id") == id)
    #expect(bench.send("GET", "/edges/\(id)").edge["version"]?.int == 2)
    let empty = bulk([])
    expect(empty, 200)
    #expect(empty.outcomes.isEmpty && empty.json["counts"]?["created"]?.int == 0)
    let many = bulk(Array(repeating: .object(JSONObject()), count: 5_001))
    expect(many, 400, "validation_error")
    #expect(many.details?["cap"]?.int == 5_000 && many.details?["provided"]?.int == 5_001)
    // Merged even where the edge type is no longer registered.
    expect(bench.registerEdge("likes"), 201)
    let likes = bench.edge(a, "likes", b).id
    expect(bench.send("DELETE", "/edge-types/likes?force=true"), 200)
    #expect(bulk([entry(a, "likes", b, ["properties": ["x": 1]])]).outcomes == ["updated"])
    #expect(bench.send("GET", "/edges/\(likes)").edge["properties"] == ["x": 1])
  }

  @Test("E-S46 an entry's version: stale refused, current or missing updated; create_only skips whatever it is")
  func versions() {
    expect(bench.edge(a, "about", b), 201)
    for stale in [0, 9] {
      #expect(lone(entry(a, "about", b, ["version": .int(stale)]))?.string("code") == "version_conflict")
      #expect(
        bulk([entry(a, "about", b, ["version": .int(stale)])], ["mode": "create_only"]).outcomes == ["skipped"])
    }
    #expect(bulk([entry(a, "about", b, ["version": 1])]).outcomes == ["updated"])
    #expect(bulk([entry(a, "about", b)]).outcomes == ["updated"])
    #expect(bench.walk("/edges").rows.first?["version"]?.int == 3)
  }

  @Test("E-S47 a bad entry rolls an atomic page back at its status, or is errored alone; gates come first")
  func atomic() {
    let nobody = bench.newID()
    let page = [entry(a, "about", b), entry(a, "about", nobody), entry(a, "about", c)]
    let rolled = bulk(page)
    expect(rolled, 404, "bulk_atomic_rollback")
    #expect(rolled.detail("code") == "item_not_found" && rolled.details?["index"]?.int == 1)
    #expect(bench.ids("/edges").isEmpty)
    let rest = bulk(page, ["atomic": false])
    expect(rest, 200)
    #expect(rest.outcomes == ["created", "errored", "created"])
    #expect(rest.result(1)["error"]?.string("code") == "item_not_found")
    #expect(bench.ids("/edges").count == 2)
    #expect(lone(entry(a, "nothing", b))?.string("code") == "edge_type_not_found")
    // The gates of every entry come before a stale entry ahead of it.
    let stale = entry(a, "about", b, ["version": 9])
    let malformed = bulk([stale, entry("zzz", "about", c)])
    expect(malformed, 400, "bulk_atomic_rollback")
    #expect(malformed.detail("code") == "invalid_id" && malformed.details?["index"]?.int == 1)
    let narrow = bench.mint(edges: ["about": "write"])
    let granted = bulk([stale, entry(a, "references", c)], key: narrow)
    expect(granted, 403, "bulk_atomic_rollback")
    #expect(granted.detail("code") == "edge_permission_denied" && granted.details?["index"]?.int == 1)
    expect(bulk([stale]), 409, "bulk_atomic_rollback")
  }

  @Test("E-S48 cardinality, endpoint types, cycles and folder paths, also through earlier entries of the page")
  func rules() {
    let folder = bench.folder()
    func code(_ page: [JSON]) -> [String?] {
      let answer = bulk(page, ["atomic": false])
      expect(answer, 200)
      let codes = (0..<page.count).map { answer.result($0)["error"]?.string("code") }
      for id in bench.ids("/edges") { expect(bench.send("DELETE", "/edges/\(id)"), 200) }
      return codes
    }
    let rule = "edge_constraint_violation"
    #expect(code([entry(a, "parent-of", c), entry(b, "parent-of", c)]) == [nil, rule])
    #expect(code([entry(a, "in-thread", b), entry(a, "in-thread", c)]) == [nil, rule])
    #expect(code([entry(a, "in-collection", b)]) == [rule])
    #expect(
      code([entry(a, "parent-of", b), entry(b, "parent-of", c), entry(c, "parent-of", a)]) == [nil, nil, "edge_cycle"])
    #expect(code([entry(a, "about", a)]) == ["edge_cycle"])
    #expect(
      code([
        entry(a, "in-folder", folder, ["properties": ["path": "../x"]]),
        entry(a, "in-folder", folder, ["properties": ["path": "x.md"]]),
      ]) == ["validation_error", nil])
    let both = bulk([entry(a, "parent-of", b), entry(b, "parent-of", a)])
    expect(both, 400, "bulk_atomic_rollback")
    #expect(both.detail("code") == "edge_cycle" && both.details?["index"]?.int == 1)
    #expect(both.details?["details"]?.string("edge_type") == "parent-of")
    #expect(bench.ids("/edges").isEmpty)
  }

  @Test("E-S49 two pages that name one triple at once make one edge")
  func together() throws {
    var answers: [Answer] = []
    try bench.instance.batch { answers = [bulk([entry(a, "about", b)]), bulk([entry(a, "about", b)])] }
    #expect(answers.map(\.outcomes) == [["created"], ["updated"]])
    #expect(bench.ids("/edges").count == 1)
  }

  @Test("E-S20 a key that reaches no type is refused by every edge read and an empty bulk page")
  func reachesNothing() {
    let edge = bench.edge(a, "about", b).id
    let nothing = bench.mint([:])
    for door in [
      "/edges", "/edges/\(edge)", "/edges/zzz", "/items/\(a)/edges", "/items/\(a)/backrefs", "/items/zzz/edges",
    ] {
      expect(bench.send("GET", door, key: nothing), 403, "type_not_permitted")
    }
    expect(bulk([], key: nothing), 403, "type_not_permitted")
  }

  @Test("E-S61 each bad path and any other property is refused on every door; one that climbs back is taken")
  func paths() {
    let folder = bench.folder()
    let edge = bench.edge(a, "in-folder", folder, ["path": "A.md"]).id
    let long = String(repeating: "a", count: 1_025)
    let bad: [(JSON, String)] = [
      ([:], "path"), (["path": ""], "path"), (["path": .string(long)], "path"), (["path": "/a.md"], "path"),
      (["path": "C:/a.md"], "path"), (["path": "a\\b.md"], "path"),
      (["path": .string(Text(bytes: [0x61, 0]))], "path"),
      (["path": "../a.md"], "path"), (["path": "a/../../b.md"], "path"), (["path": "."], "path"),
      (["path": "a/.."], "path"), (["path": 5], "path"), (["path": "b.md", "mode": 1], "mode"),
    ]
    for (properties, name) in bad {
      let single = bench.edge(b, "in-folder", folder, properties)
      expect(single, 400, "validation_error")
      #expect(single.path == "properties.\(name)")
      let refused = lone(entry(b, "in-folder", folder, ["properties": properties]))
      #expect(refused?.string("code") == "validation_error")
      #expect(refused?["details"]?["errors"]?.array?.first?.string("path") == "properties.\(name)")
      if properties != [:] {
        let changed = bench.send("PATCH", "/edges/\(edge)", ["version": 1, "properties": properties])
        expect(changed, 400, "validation_error")
        #expect(changed.path == "properties.\(name)")
      }
    }
    for inline in [
      bench.made("core.note", ["body": "x"], ["edges": ["in-folder": [.string(folder)]]]),
      bench.patch(b, 1, ["edges": ["in-folder": [.string(folder)]]]),
    ] {
      expect(inline, 400, "validation_error")
      #expect(inline.path == "properties.path")
    }
    let back = bench.edge(b, "in-folder", folder, ["path": "a/../b.md"])
    expect(back, 201)
    #expect(back.edge["properties"] == ["path": "a/../b.md"])
    expect(bench.edge(c, "in-folder", folder, ["path": .string(String(repeating: "a", count: 1_024))]), 201)
    #expect(
      bench.send("PATCH", "/edges/\(edge)", ["version": 1, "properties": ["path": "B.md"]]).edge["properties"] == [
        "path": "B.md"
      ])
  }

  @Test("E-S78 hidden ends answer as missing ones, with the fixed words, on every door that writes an edge")
  func hiddenEnds() {
    let hidden = bench.task()
    let notes = bench.mint(["core.note": "write"])
    let target = "Edge target item not found: \(hidden)"
    let source = "Edge source item not found: \(hidden)"
    // Also where the edge is there already.
    let out = bench.edge(a, "about", hidden).id
    expect(bench.edge(hidden, "about", a), 201)
    let moved = bench.edge(a, "supersedes", b).id
    let answers: [(Answer, String)] = [
      (bench.edge(a, "about", hidden, key: notes), target), (bench.edge(hidden, "about", a, key: notes), source),
      (bench.edge(a, "in-collection", hidden, key: notes), target),
      (bench.made("core.note", ["body": "x"], ["edges": ["about": [.string(hidden)]]], key: notes), target),
      (bench.patch(a, 1, ["edges": ["about": [.string(hidden)]]], key: notes), target),
      (bench.patch(a, 99, ["edges": ["about": [.string(hidden)]]], key: notes), target),
      (bench.send("PATCH", "/edges/\(moved)", ["version": 1, "target_id": .string(hidden)], key: notes), target),
      (bench.send("PATCH", "/edges/\(moved)", ["version": 1, "source_id": .string(hidden)], key: notes), source),
    ]
    for (answer, words) in answers {
      expect(answer, 404, "item_not_found")
      #expect(answer.message == words)
    }
    for (one, words) in [
      (entry(a, "about", hidden, ["version": 99]), target), (entry(hidden, "about", a), source),
      (entry(a, "about", hidden), target),
    ] {
      let refused = lone(one, key: notes)
      #expect(refused?.string("code") == "item_not_found")
      #expect(refused?.string("message") ?? words == words)
      let rolled = bulk([one], key: notes)
      expect(rolled, 404, "bulk_atomic_rollback")
    }
    #expect(bench.send("GET", "/edges/\(out)").edge["version"]?.int == 1)
  }
}
