import LocalInstance
import MarfaBase
import Testing

@Suite("Read views")
struct ReadViewTests {
  let bench: Bench
  init() throws { bench = try Bench() }

  /// A copy stream that has gone live, and its view.
  func copy(key: String? = nil) -> (stream: Answer, view: String) {
    let stream = bench.stream("?edges=all&copy=1", key: key)
    let opening = stream.frames()
    return (stream, opening.first?.data.string("read_view") ?? "")
  }

  func resume(_ view: String, key: String? = nil) -> Answer {
    bench.stream("?edges=all&copy=1", after: "0", key: key, view: view)
  }

  func conditional(_ target: String, _ view: String, key: String? = nil) -> Answer {
    bench.send("GET", target, key: key, headers: [HTTPHeader("X-Marfa-Read-View", view)])
  }

  @Test("RV-S2 each bad form of a copy stream is refused")
  func forms() {
    let view = copy().view
    let cursor = HTTPHeader("Last-Event-ID", "0")
    let named = HTTPHeader("X-Marfa-Read-View", view)
    let good = "?edges=all&copy=1"
    for (query, headers) in [
      (good, [cursor]), (good, [named]), (good, [cursor, cursor, named]), (good, [cursor, named, named]),
      (good, [HTTPHeader("Last-Event-ID", ""), named]), (good, [cursor, HTTPHeader("X-Marfa-Read-View", "")]),
      (good, [cursor, HTTPHeader("X-Marfa-Read-View", view.uppercased() + "A")]),
      (good, [cursor, HTTPHeader("X-Marfa-Read-View", "A" + view.dropFirst())]),
      (good, [HTTPHeader("Last-Event-ID", "01"), named]), ("?edges=all&copy=2", []), ("?edges=none&copy=1", []),
      ("?copy=1", []), ("?edges=all&edges=all&copy=1", []), ("?edges=all&copy=1&copy=1", []),
      ("?edges=all&copy=1&type=core.note", []), ("?edges=all&copy=1&since=1", []),
    ] as [(String, [HTTPHeader])] {
      expect(bench.send("GET", "/events\(query)", headers: headers), 400, "validation_error")
    }
    #expect(resume(view).status == 200)
  }

  @Test("RV-S3 a key that reads no type is told so in place of the grammar's refusal")
  func reachesNothing() {
    let nothing = bench.mint([:])
    expect(bench.stream("?edges=none&copy=1", key: nothing), 403, "type_not_permitted")
    expect(bench.stream("?edges=all&copy=1", key: nothing), 403, "type_not_permitted")
  }

  @Test("RV-S6 an item the source filter keeps out of listings is sent as not listed; edges say nothing of it")
  func listed() {
    bench.instance.settings.sourceFilter = ["core.note": ["local"]]
    let other = bench.mint(source: "other")
    let (stream, view) = copy()
    let hidden = bench.made("core.note", ["body": "a"], key: other).id
    let task = bench.made("core.task", ["title": "t"], key: other).id
    let shown = bench.noteID()
    expect(bench.edge(shown, "about", hidden), 201)
    for frames in [stream.frames(), resume(view).frames().filter { $0.id != nil }] {
      #expect(frames.map { $0.data["listed"]?.bool } == [false, true, true, nil])
      #expect(frames.prefix(3).map(\.itemID) == [hidden, task, shown])
    }
  }

  @Test("SF5.4 RV5.2 RV9 a key's own source filter leaves rows out of its sets and moves its view, and no one else's")
  func ownFilter() throws {
    let other = bench.made("core.note", ["body": "words"], key: bench.mint(source: "other")).id
    let own = bench.made("core.note", ["body": "words"]).id
    let key = try bench.mint("copy")
    func view(_ key: String) -> String {
      let stream = bench.stream("?edges=all&copy=1", key: key)
      defer { stream.source?.close() }
      return stream.frames().first?.data.string("read_view") ?? ""
    }
    let (before, owner) = (view(key.token), view(bench.key))
    #expect(bench.send("GET", "/items", key: key.token).data.count == 2)
    let filter: JSON = ["source_filter": ["types": ["core.note"], "sources": ["local"]]]
    expect(bench.send("PATCH", "/keys/\(key.id)", ["enforcement_override": filter]), 200)
    #expect(view(key.token) != before && view(bench.key) == owner)
    expect(conditional("/items/\(own)", before, key: key.token), 409, "read_view_changed")
    for target in ["/items", "/search?q=words"] {
      let found = bench.send("GET", target, key: key.token).data
      #expect(found.compactMap { ($0["item"] ?? $0).string("id") } == [own], "\(target)")
      #expect(bench.send("GET", target).data.count == 2)
    }
    #expect(bench.send("GET", "/items/stats", key: key.token).json == ["active": 1])
    let now = view(key.token)
    #expect(conditional("/items/\(other)", now, key: key.token).json["listed"]?.bool == false)
    #expect(conditional("/items/\(own)", now, key: key.token).json["listed"]?.bool == true)
    let replay = resume(now, key: key.token)
    defer { replay.source?.close() }
    #expect(replay.frames().filter { $0.id != nil }.map { $0.data["listed"]?.bool } == [false, true])
  }

  @Test("RV-S7 each change of what is read moves the view on, at the time the write is answered")
  func moves() throws {
    let key = try bench.mint("copy")
    let notes = (0..<4).map { bench.noteID("n\($0)", ["properties": ["body": "b", "title": "t"]]) }
    let parent = bench.edge(notes[0], "parent-of", notes[1]).id
    expect(bench.send("POST", "/types", ["id": "acme.a", "fields": [:]]), 201)
    expect(bench.send("POST", "/types", ["id": "acme.b", "fields": [:]]), 201)
    expect(bench.registerEdge("held"), 201)
    func map(_ pattern: Text, _ level: String) -> JSONObject {
      JSONObject([(Text("*"), JSON.string(Text("write"))), (pattern, JSON.string(Text(level)))])
    }
    let changes: [(String, () throws -> Void)] = [
      ("type reach narrowed", { try bench.change(key) { $0.types = map("core.task", "none") } }),
      ("type reach widened", { try bench.change(key) { _ in } }),
      ("edge reach", { try bench.change(key) { $0.edges = map("about", "none") } }),
      ("metadata reach", { try bench.change(key) { $0.metadata = map("tags", "none") } }),
      ("extension reach", { try bench.change(key) { $0.extensions = map("acme.x", "none") } }),
      ("back again", { try bench.change(key) { _ in } }),
      (
        "source filter",
        {
          let levers: JSON = ["source_filter": ["types": ["core.event"], "sources": ["local"]]]
          expect(bench.send("PUT", "/config", ["enforcement": levers]), 200)
        }
      ),
      (
        "retype",
        { expect(bench.patch(notes[2], 1, ["type": "core.task", "retype": true]), 200) }
      ),
      (
        "edge source",
        { expect(bench.send("PATCH", "/edges/\(parent)", ["version": 1, "source_id": .string(notes[3])]), 200) }
      ),
      ("type registered", { expect(bench.send("POST", "/types", ["id": "acme.c", "fields": [:]]), 201) }),
      ("type deleted", { expect(bench.send("DELETE", "/types/acme.c"), 200) }),
      (
        "another parent",
        { expect(bench.send("PUT", "/types/acme.b", ["parent": "acme.a", "fields": [:]]), 200) }
      ),
      ("edge type registered", { expect(bench.registerEdge("new"), 201) }),
      ("edge type deleted", { expect(bench.send("DELETE", "/edge-types/new"), 200) }),
      (
        "purge sweep",
        {
          bench.trash(notes[0])
          bench.clock.advance(seconds: 3 * 86_400)
          let gone = try bench.instance.purgeBin(olderThanDays: 1)
          #expect(gone == 1)
        }
      ),
    ]
    for (what, change) in changes {
      let (stream, view) = copy(key: key.token)
      #expect(view.utf8.count == 64)
      try change()
      let refused = resume(view, key: key.token)
      #expect(refused.status == 409 && refused.code == "read_view_changed", "\(what)")
      #expect(conditional("/types", view, key: key.token).code == "read_view_changed", "\(what)")
      #expect(stream.frames().map(\.kind) == ["read_view_changed"], "\(what)")
      #expect(stream.source?.take() == nil)
    }
  }

  @Test("RV-S8 writes of content and of what is not read leave the view")
  func keeps() throws {
    let key = try bench.mint("copy")
    expect(bench.send("POST", "/types", ["id": "acme.a", "parent": "core.note", "fields": [:]]), 201)
    let view = copy(key: key.token).view
    let (a, b, c) = (bench.noteID(), bench.noteID(), bench.noteID())
    let reply = bench.edge(a, "in-thread", b).id
    let readsAll = JSONObject([(Text("*"), JSON.string(Text("read")))])
    let steps: [(String, () throws -> Void)] = [
      ("write reach", { try bench.change(key) { $0.types = readsAll } }),
      ("content", { expect(bench.patch(a, 1, ["properties": ["body": "x"]]), 200) }),
      ("same type", { expect(bench.patch(a, 2, ["type": "core.note", "retype": true, "tier": "feed"]), 200) }),
      ("tags", { expect(bench.send("POST", "/items/\(a)/tags", ["tags": ["t"]]), 200) }),
      ("extension", { expect(bench.send("PUT", "/items/\(a)/extensions/acme.x", ["v": 1]), 200) }),
      (
        "target moved",
        { expect(bench.send("PATCH", "/edges/\(reply)", ["version": 1, "target_id": .string(c)]), 200) }
      ),
      (
        "type updated",
        { expect(bench.send("PUT", "/types/acme.a", ["parent": "core.note", "label": "A", "fields": [:]]), 200) }
      ),
      ("edge made", { expect(bench.edge(a, "about", b), 201) }),
      ("edge deleted", { expect(bench.send("DELETE", "/edges/\(reply)"), 200) }),
      ("state", { expect(bench.move(a, "archived"), 200) }),
      ("bin", { bench.trash(b) }),
      ("restore", { expect(bench.restore(b), 200) }),
    ]
    for (what, step) in steps {
      try step()
      #expect(resume(view, key: key.token).status == 200, "\(what)")
    }
  }

  @Test("RV-S10 each conditional read with the present view echoes it and is not stored")
  func certified() {
    let (a, b) = (bench.noteID(), bench.noteID())
    let edge = bench.edge(a, "about", b).id
    let view = copy().view
    for door in [
      "/items?include=metadata", "/items/\(a)", "/items/\(a)/edges", "/edges", "/edges/\(edge)", "/types",
      "/edge-types",
      "/keys/current",
    ] {
      let answer = conditional(door, view)
      expect(answer, 200)
      #expect(answer.response.header("X-Marfa-Read-View") == view)
      #expect(answer.response.header("Cache-Control") == "no-store")
      #expect(!answer.words.contains(view))
      #expect(bench.send("GET", door).response.header("X-Marfa-Read-View") == nil)
    }
  }

  @Test("RV-S11 refusals that are facts of the view echo it; a 400 does not")
  func certifiedRefusals() throws {
    let key = bench.mint(["core.note": "read"], edges: ["about": "read"])
    let view = copy(key: key).view
    for (door, code) in [
      ("/items/\(bench.newID())", "item_not_found"), ("/edges/\(bench.newID())", "edge_not_found"),
      ("/items?include=metadata&type=core.task", "type_not_permitted"),
      ("/edges?edge_type=references", "edge_permission_denied"),
    ] {
      let refused = conditional(door, view, key: key)
      #expect(refused.code == code)
      #expect(refused.response.header("X-Marfa-Read-View") == view)
    }
    for door in ["/items/zzz", "/edges?limit=0", "/items?include=metadata&colour=1"] {
      let refused = conditional(door, view, key: key)
      #expect(refused.status == 400)
      #expect(refused.response.header("X-Marfa-Read-View") == nil)
    }
    let app = try SignInBench(bench).token("core.note:read")
    let apps = copy(key: app).view
    let own = conditional("/keys/current", apps, key: app)
    expect(own, 403, "forbidden")
    #expect(own.response.header("X-Marfa-Read-View") == apps)
  }

  @Test("RV-S13 a conditional page asks for metadata; its rows are listed, its last cursor null")
  func pages() {
    _ = bench.noteID()
    let view = copy().view
    expect(conditional("/items", view), 400, "validation_error")
    let page = conditional("/items?include=metadata", view)
    #expect(page.json.object?.keys.map(\.string) == ["data", "next_cursor"])
    #expect(page.json["next_cursor"]?.isNull == true)
    #expect(page.data.allSatisfy { $0["listed"]?.bool == true && $0["item"] != nil && $0["metadata"] != nil })
  }

  @Test("RV-S14 writes and bulk-get ignore the header, on a replay as well")
  func ignored() {
    let id = bench.noteID()
    let stale = [HTTPHeader("X-Marfa-Read-View", String(repeating: "0", count: 64))]
    let answers = [
      bench.send("POST", "/items", ["type": "core.note", "properties": ["body": "a"]], headers: stale + under("k")),
      bench.send("POST", "/items", ["type": "core.note", "properties": ["body": "a"]], headers: stale + under("k")),
      bench.send("POST", "/items/bulk-get", ["ids": [.string(id)]], headers: stale),
      bench.send("DELETE", "/items/\(id)", headers: stale + [HTTPHeader("X-Marfa-Read-View", "nonsense")]),
    ]
    #expect(answers.map(\.status) == [201, 201, 200, 200])
    #expect(answers[1].isReplayed)
    for answer in answers { #expect(answer.response.header("X-Marfa-Read-View") == nil) }
  }

  @Test("RV-S15 an excluded item is read by id as not listed, left out of pages, and not listed among neighbors")
  func excluded() {
    bench.instance.settings.sourceFilter = ["core.note": ["local"]]
    let hidden = bench.made("core.note", ["body": "a"], key: bench.mint(source: "other")).id
    let shown = bench.noteID()
    expect(bench.edge(shown, "about", hidden), 201)
    let view = copy().view
    #expect(conditional("/items/\(hidden)", view).json["listed"]?.bool == false)
    #expect(conditional("/items/\(shown)", view).json["listed"]?.bool == true)
    #expect(conditional("/items?include=metadata", view).data.compactMap { $0["item"]?.string("id") } == [shown])
    let near = conditional("/items/\(shown)?include=neighbors", view).json["neighbors"]?.array ?? []
    #expect(near.map { $0["item"]?.string("id") } == [hidden])
    #expect(near.first?["listed"]?.bool == false)
  }

  @Test("RV-S16 a refused retype and a write that rolls back leave the view")
  func rollback() throws {
    let a = bench.noteID()
    let view = copy().view
    // A task needs a title the note has not.
    expect(bench.patch(a, 1, ["type": "core.task", "retype": true]), 400, "invalid_properties")
    #expect(resume(view).status == 200)
    struct Taken: Error {}
    #expect(throws: Taken.self) {
      try bench.instance.batch {
        expect(
          bench.patch(a, 1, ["type": "core.task", "retype": true, "properties": ["title": "t"]]), 200)
        expect(bench.send("POST", "/types", ["id": "acme.gone", "fields": [:]]), 201)
        throw Taken()
      }
    }
    #expect(resume(view).status == 200)
    expect(bench.send("GET", "/types/acme.gone"), 404, "type_not_found")
  }
}
