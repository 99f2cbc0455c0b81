import LocalInstance
import MarfaBase
import Testing

@Suite("Idempotency keys")
struct IdempotencyTests {
  let bench: Bench

  init() throws { bench = try Bench() }

  func note(_ name: String, _ body: String = "a", key: String? = nil) -> Answer {
    bench.send(
      "POST", "/items", ["type": "core.note", "properties": ["body": string(body)]], key: key, headers: under(name))
  }

  @Test("I-S84 an edge create and a delete are answered as first and announced once")
  func edges() {
    let (a, b) = (bench.noteID(), bench.noteID())
    let body: JSON = ["source_id": string(a), "target_id": string(b), "edge_type": "about"]
    let events = bench.announced {
      let made = bench.send("POST", "/edges", body, headers: under("c"))
      expect(made, 201)
      let again = bench.send("POST", "/edges", body, headers: under("c"))
      #expect(again.status == 201 && again.isReplayed && again.response.body == made.response.body)
      let deleted = bench.send("DELETE", "/edges/\(made.id)", headers: under("d"))
      let twice = bench.send("DELETE", "/edges/\(made.id)", headers: under("d"))
      #expect(deleted.status == 200 && twice.status == 200 && twice.isReplayed && !deleted.isReplayed)
      #expect(twice.response.body == deleted.response.body)
    }
    #expect(events.map(\.kind) == ["edge.created", "edge.deleted"])
    let trash = bench.announced {
      for replayed in [false, true] {
        let answer = bench.send("DELETE", "/items/\(a)", headers: under("e"))
        #expect(answer.status == 200 && answer.isReplayed == replayed)
      }
    }
    #expect(trash.map(\.kind) == ["item.deleted"])
  }

  @Test("I-S85 one key with another request is spent, on each door that honors it")
  func reused() {
    let (a, b, live) = (bench.noteID(), bench.noteID(), bench.noteID())
    let folder = bench.send("POST", "/folders", ["title": "F"]).id
    let edge = bench.edge(a, "about", b).id
    let binned = bench.noteID()
    expect(bench.delete(binned), 200)
    let note: JSON = ["type": "core.note", "properties": ["body": "a"]]
    let link: JSON = ["source_id": string(b), "target_id": string(a), "edge_type": "about"]
    let doors: [(String, String, JSON?, String, JSON?)] = [
      ("POST", "/items", note, "/items", ["type": "core.note", "properties": ["body": "b"]]),
      (
        "PATCH", "/items/\(live)", ["version": 1, "properties": [:]], "/items/\(live)?conflict=auto",
        ["version": 1, "properties": [:]]
      ),
      ("POST", "/items/\(live)/transition", ["state": "archived"], "/items/\(live)/transition", ["state": "active"]),
      ("DELETE", "/items/\(live)", nil, "/items/\(live)?version=2", nil),
      ("POST", "/items/\(live)/restore", nil, "/items/\(binned)/restore", nil),
      ("POST", "/items/\(binned)/purge", nil, "/items/\(binned)/purge?version=1", nil),
      ("POST", "/edges", link, "/edges", ["source_id": string(b), "target_id": string(a), "edge_type": "references"]),
      (
        "PATCH", "/edges/\(edge)", ["version": 1, "properties": ["x": 1]], "/edges/\(edge)",
        ["version": 1, "properties": ["x": 2]]
      ),
      ("DELETE", "/edges/\(edge)", nil, "/edges/\(edge)?_x=1", nil),
      ("POST", "/folders", ["title": "G"], "/folders", ["title": "H"]),
      (
        "PATCH", "/folders/\(folder)", ["version": 1, "title": "G"], "/folders/\(folder)", ["version": 1, "title": "H"]
      ),
      ("POST", "/folders/\(folder)/revoke", nil, "/folders/\(folder)/revoke?_x=1", nil),
      (
        "POST", "/items/bulk-actions", ["action": "update_tier", "filter": [:], "tier": "feed"], "/items/bulk-actions",
        ["action": "update_tier", "filter": [:], "tier": "library"]
      ),
    ]
    for (place, (method, path, body, other, otherBody)) in doors.enumerated() {
      let first = bench.send(method, path, body, headers: under("k\(place)"))
      #expect((200..<300).contains(first.status), "\(method) \(path): \(first.words)")
      let events = bench.events().count
      expect(bench.send(method, other, otherBody, headers: under("k\(place)")), 422, "idempotency_key_reused")
      #expect(bench.events().count == events)
      let again = bench.send(method, path, body, headers: under("k\(place)"))
      #expect(again.status == first.status && again.isReplayed && again.response.body == first.response.body)
    }
  }

  @Test("I-S86 a door off the list runs each repeat")
  func offTheList() {
    let id = bench.noteID()
    let events = bench.announced {
      for _ in 0..<2 {
        let tags = bench.send("POST", "/items/\(id)/tags", ["tags": ["x"]], headers: under("k"))
        #expect(tags.status == 200 && !tags.isReplayed)
        let data = bench.send("PUT", "/items/\(id)/extensions/app.a", ["x": 1], headers: under("k"))
        #expect(data.status == 200 && !data.isReplayed)
        let page = bench.send(
          "POST", "/items/bulk", ["items": [["type": "core.note", "properties": ["body": "a"]]]], headers: under("k"))
        #expect(page.status == 200 && !page.isReplayed)
      }
    }
    #expect(events.count { $0.kind == "metadata.changed" } == 4)
    #expect(events.count { $0.kind == "item.created" } == 2)
  }

  @Test("I-S87 two credentials with one key string get each its own answer")
  func twoCredentials() throws {
    let (one, two) = (try bench.mint("a"), try bench.mint("b"))
    let first = note("k", "one", key: one.token)
    let second = note("k", "two", key: two.token)
    #expect(first.status == 201 && second.status == 201 && !second.isReplayed && first.id != second.id)
    #expect(note("k", "one", key: one.token).id == first.id)
    #expect(note("k", "two", key: two.token).id == second.id)
  }

  @Test("I-S88 the replay of a refreshed token of one app and person is served")
  func refreshedToken() {
    let tokens = SignedIn(bench)
    let first = note("k", key: tokens.access)
    expect(first, 201)
    let refreshed = tokens.refreshed()
    #expect(refreshed != tokens.access && !refreshed.isEmpty)
    let again = note("k", key: refreshed)
    #expect(again.isReplayed && again.response.body == first.response.body)
    #expect(bench.count() == 1)
  }

  @Test("I-S90 ER-S8 V-S74 a 403 is not kept: with the grant added the same request runs under its key")
  func notKept() throws {
    let key = try bench.mint("k", types: ["core.task": "write"])
    expect(note("k", key: key.token), 403, "type_not_permitted")
    try bench.change(key) { $0.types["core.note"] = "write" }
    let taken = note("k", key: key.token)
    expect(taken, 201)
    #expect(!taken.isReplayed)
    #expect(note("k", key: key.token).isReplayed)
    #expect(bench.count() == 1)
  }

  @Test("I-S91 a narrowed credential is refused per what it lost, writes nothing, and replays once restored")
  func narrowed() throws {
    let key = try bench.mint("k", permissions: ["items.purge"], sources: ["c"])
    let (a, b, binned) = (bench.noteID(), bench.noteID(), bench.noteID())
    expect(bench.delete(binned), 200)
    let claimed: JSON = ["type": "core.note", "source": "c", "properties": ["body": "secret words"]]
    let requests: [(String, String, JSON?)] = [
      ("POST", "/items", claimed),
      ("POST", "/edges", ["source_id": string(a), "target_id": string(b), "edge_type": "about"]),
      ("POST", "/items/\(binned)/purge", nil),
    ]
    func send(_ place: Int) -> Answer {
      let (method, path, body) = requests[place]
      return bench.send(method, path, body, key: key.token, headers: under("k\(place)"))
    }
    let first = requests.indices.map(send)
    #expect(first.map(\.status) == [201, 201, 200])
    let losses: [(Int, Int, String, (inout KeySpec) -> Void)] = [
      (0, 403, "type_not_permitted", { $0.types = JSONObject([(Text("*"), JSON.string("read"))]) }),
      (0, 404, "item_not_found", { $0.types = JSONObject([(Text("core.task"), JSON.string("write"))]) }),
      (0, 403, "forbidden", { $0.sources = [] }),
      (0, 403, "type_not_permitted", { $0.types = JSONObject() }),
      (1, 403, "edge_permission_denied", { $0.edges = JSONObject([(Text("*"), JSON.string("read"))]) }),
      (2, 403, "forbidden", { $0.permissions = [] }),
    ]
    let events = bench.events().count
    for (place, status, code, loss) in losses {
      try bench.change(key, loss)
      let refused = send(place)
      expect(refused, status, code)
      #expect(!refused.words.contains("secret") && !refused.isReplayed)
      try bench.change(key) { _ in }
      let restored = send(place)
      #expect(restored.isReplayed && restored.response.body == first[place].response.body)
    }
    #expect(bench.events().count == events)
  }

  @Test("I-S92 kept answers that show what is unreadable now are not replayed; hidden ends and blockers do not matter")
  func disclosed() throws {
    expect(
      bench.send(
        "POST", "/edge-types", ["id": "holds", "cardinality": "many-to-many", "cascade_on_delete": "block"]), 201)
    let key = try bench.mint("k")
    func replays(_ method: String, _ path: String, _ body: JSON?, _ name: String) -> Answer {
      bench.send(method, path, body, key: key.token, headers: under(name))
    }
    func lost(_ method: String, _ path: String, _ body: JSON?, _ name: String, _ loss: (inout KeySpec) -> Void) throws {
      let first = replays(method, path, body, name)
      #expect(first.status < 500 && first.status != 403, "\(name): \(first.words)")
      try bench.change(key, loss)
      let refused = replays(method, path, body, name)
      #expect(refused.status == 403 || refused.status == 404, "\(name): \(refused.words)")
      #expect(refused.code != first.code && !refused.isReplayed, "\(name)")
      try bench.change(key) { _ in }
      #expect(replays(method, path, body, name).response.body == first.response.body, "\(name)")
    }
    func losing(_ type: Text) -> (inout KeySpec) -> Void {
      { $0.types = JSONObject([(Text("*"), JSON.string("write")), (type, JSON.string("none"))]) }
    }
    // A conflict that hands back a snapshot of a former type.
    let moved = bench.create("core.task", ["title": "t", "body": "b"]).id
    expect(bench.patch(moved, 1, ["retype": true, "type": "core.note"]), 200)
    expect(bench.patch(moved, 2, ["properties": ["title": "u"]]), 200)
    try lost("PATCH", "/items/\(moved)", ["version": 1, "properties": ["title": "x"]], "snapshot", losing("core.task"))
    // An extension and an edge the answer shows.
    let rich = bench.noteID()
    let task = bench.create("core.task", ["title": "far end"]).id
    expect(bench.send("PUT", "/items/\(rich)/extensions/app.a", ["x": 1]), 200)
    expect(bench.edge(rich, "about", task), 201)
    let patch: JSON = ["version": 1, "properties": ["title": "t"]]
    try lost("PATCH", "/items/\(rich)", patch, "extension") {
      $0.extensions = JSONObject([(Text("*"), JSON.string("write")), (Text("app.a"), JSON.string("none"))])
    }
    try lost("PATCH", "/items/\(rich)", ["version": 2, "properties": ["title": "t"]], "edge") {
      $0.edges = JSONObject([(Text("*"), JSON.string("write")), (Text("about"), JSON.string("none"))])
    }
    // The target of a shown edge is not asked.
    try bench.change(key, losing("core.task"))
    #expect(replays("PATCH", "/items/\(rich)", patch, "extension").isReplayed)
    try bench.change(key) { _ in }
    // A cascade's mark.
    let child = bench.noteID("child", ["source_id": "child"])
    let root = bench.create("core.task", ["title": "root"]).id
    bench.parent(root, child)
    expect(bench.delete(root), 200)
    try lost(
      "POST", "/items", ["type": "core.note", "id": string(child), "properties": ["body": "x"]], "mark",
      losing("core.task"))
    // Rows a bulk action matched.
    try lost(
      "POST", "/items/bulk-actions",
      ["action": "update_tier", "tier": "feed", "filter": ["type": "core.task", "state": "any"], "dry_run": true],
      "matches", losing("core.task"))
    // A blocking edge that was named, by its far end; one that was not named is not asked.
    let held = bench.noteID()
    let holder = bench.create("core.task", ["title": "holder"]).id
    expect(bench.edge(holder, "holds", held), 201)
    try lost("DELETE", "/items/\(held)", nil, "blocker", losing("core.task"))
    try bench.change(key, losing("core.task"))
    let unnamed = replays("DELETE", "/items/\(held)", nil, "unnamed")
    expect(unnamed, 400, "edge_constraint_violation")
    try bench.change(key) {
      $0.edges = JSONObject([(Text("*"), JSON.string("read")), (Text("holds"), JSON.string("none"))])
    }
    #expect(replays("DELETE", "/items/\(held)", nil, "unnamed").isReplayed)
  }

  @Test("I-S93 a replay is judged by the subject's current type and source, by the recorded ones once purged")
  func currentSubject() throws {
    let key = try bench.mint("k", types: ["core.note": "write"])
    func make(_ name: String) -> Answer { note(name, "b", key: key.token) }
    let retyped = make("retyped")
    expect(bench.patch(retyped.id, 1, ["retype": true, "type": "core.task", "properties": ["title": "t"]]), 200)
    expect(make("retyped"), 404, "item_not_found")
    try bench.change(key) { $0.types["core.task"] = "read" }
    let readOnly = make("retyped")
    expect(readOnly, 403, "type_not_permitted")
    #expect(!readOnly.words.contains("core.task"))
    try bench.change(key) { $0.types["core.task"] = "write" }
    #expect(make("retyped").isReplayed)
    try bench.change(key) { _ in }
    // Purged: by what was noted.
    expect(bench.delete(retyped.id), 200)
    expect(bench.purge(retyped.id), 200)
    #expect(make("retyped").isReplayed)
    // An edge whose source moved.
    let (parent, child) = (make("p").id, make("c").id)
    let other = bench.create("core.task", ["title": "t"]).id
    let body: JSON = ["source_id": string(parent), "target_id": string(child), "edge_type": "parent-of"]
    func link() -> Answer { bench.send("POST", "/edges", body, key: key.token, headers: under("edge")) }
    let edge = link()
    expect(edge, 201)
    expect(bench.send("PATCH", "/edges/\(edge.id)", ["version": 1, "source_id": string(other)]), 200)
    expect(link(), 404, "item_not_found")
    try bench.change(key) { $0.types["core.task"] = "write" }
    #expect(link().isReplayed)
  }

  @Test("V-S73 the key with another body, query, path or content type is spent, and nothing is written")
  func otherRequests() {
    let (id, other) = (bench.noteID(), bench.noteID())
    let body: JSON = ["version": 1, "properties": ["title": "t"]]
    expect(bench.patch(id, 1, ["properties": ["title": "t"]], under: "k"), 200)
    let events = bench.events().count
    expect(bench.patch(id, 1, ["properties": ["title": "u"]], under: "k"), 422, "idempotency_key_reused")
    expect(
      bench.patch(id, 1, ["properties": ["title": "t"]], "?conflict=auto", under: "k"), 422, "idempotency_key_reused")
    expect(bench.patch(other, 1, ["properties": ["title": "t"]], under: "k"), 422, "idempotency_key_reused")
    let plain = bench.send(
      "PATCH", "/items/\(id)", headers: under("k") + [HTTPHeader("Content-Type", "text/plain")], raw: body.write())
    expect(plain, 422, "idempotency_key_reused")
    let spelled = bench.send(
      "PATCH", "/items/\(id)",
      headers: under("k") + [HTTPHeader("Content-Type", "Application/JSON; charset=utf-8")], raw: body.write())
    #expect(spelled.isReplayed)
    #expect(bench.events().count == events)
    #expect(bench.read(id).version == 2 && bench.read(other).version == 1)
  }

  @Test("V-S75 ER-S7 while a request runs its key is in flight, past 60 seconds the retry runs; answered, it replays")
  func inFlight() throws {
    let clock = ManualClock()
    let ids = InterruptedIds(SeededIds(clock: clock, seed: 3))
    let instance = try Instance(
      database: Database(path: ":memory:", mode: .create), blobs: MemoryBlobs(), clock: clock, ids: ids,
      ownerKey: Bench.ownerKey)
    let note: JSON = ["type": "core.note", "properties": ["body": "a"]]
    func send(_ name: String = "k", _ id: String = "r", _ body: JSON? = nil) -> Answer {
      let request = InstanceRequest(
        method: "POST", target: "/items",
        headers: [
          HTTPHeader("Authorization", "Bearer \(Bench.ownerKey)"), HTTPHeader("Content-Type", "application/json"),
          HTTPHeader("Idempotency-Key", name), HTTPHeader("X-Request-ID", id),
        ], body: (body ?? note).write())
      guard case .whole(let response) = instance.handle(request) else {
        return Answer(response: HTTPResponse(status: 0))
      }
      return Answer(response: response)
    }
    var inside: [Answer] = []
    ids.interrupt {
      inside.append(send())
      clock.advance(seconds: 59)
      inside.append(send())
      clock.advance(seconds: 2)
      inside.append(send())
    }
    let outer = send()
    for answer in inside.prefix(2) { expect(answer, 409, "idempotency_key_in_flight") }
    expect(inside[2], 201)
    expect(outer, 201)
    let again = send("k", "another")
    #expect(again.status == 201 && again.isReplayed && again.response.body == outer.response.body)
    #expect(again.response.header("X-Request-ID") == "another")
    expect(send("k", "r", ["type": "core.note", "properties": ["body": "b"]]), 422, "idempotency_key_reused")
    for bad in ["", String(repeating: "k", count: 256)] { expect(send(bad), 400, "validation_error") }
    expect(send(String(repeating: "k", count: 255)), 201)
  }

  @Test(
    "an answer replays byte for byte after its row was edited, thinned, binned and purged, though its words stand once")
  func replayedForEver() throws {
    let long = String(repeating: "words \u{1F35E} \" and more, ", count: 400)
    let body: JSON = ["type": "core.note", "properties": ["body": string(long), "z": 1, "7": 2]]
    func make() -> Answer { bench.send("POST", "/items", body, headers: under("make")) }
    let made = make()
    expect(made, 201)
    func step() -> Answer { bench.patch(made.id, 1, ["properties": ["title": "t"]], under: "step") }
    let stepped = step()
    expect(stepped, 200)
    let kept = try bench.database.one("SELECT sum(length(body)) FROM answer") { $0.int(0) }
    #expect((kept ?? 0) < long.utf8.count)
    func check(_ moment: String) {
      for (again, first) in [(make(), made), (step(), stepped)] {
        #expect(again.isReplayed && again.status == first.status, "\(moment)")
        #expect(again.response.body == first.response.body, "\(moment)")
      }
    }
    check("edited once")
    for version in 2...5 { expect(bench.patch(made.id, version, ["properties": ["body": "x"]]), 200) }
    check("edited")
    let policy: JSON = ["max_versions": 1]
    expect(
      bench.send(
        "POST", "/types", ["id": "acme.memo", "parent": "core.note", "fields": [:], "version_policy": policy]), 201)
    expect(bench.patch(made.id, 6, ["retype": true, "type": "acme.memo"]), 200)
    expect(bench.send("POST", "/housekeeping/version-thinning/run"), 200)
    #expect(bench.history(made.id).data.count == 1)
    check("thinned")
    expect(bench.delete(made.id), 200)
    check("in the bin")
    expect(bench.purge(made.id), 200)
    check("purged")
  }

  @Test("a purge right after the write leaves the answer whole")
  func replayedAfterPurge() {
    let body: JSON = ["type": "core.note", "properties": ["body": string(String(repeating: "w", count: 4000))]]
    let made = bench.send("POST", "/items", body, headers: under("k"))
    expect(bench.delete(made.id), 200)
    expect(bench.purge(made.id), 200)
    let again = bench.send("POST", "/items", body, headers: under("k"))
    #expect(again.isReplayed && again.response.body == made.response.body)
  }
}

/// Ids whose next one lets a test act first: a request that arrives while another is being worked on.
private final class InterruptedIds: IdSource, @unchecked Sendable {
  // Used on the test's own thread alone.
  private let ids: SeededIds
  private var act: (() -> Void)?

  init(_ ids: SeededIds) { self.ids = ids }

  func interrupt(_ act: @escaping () -> Void) { self.act = act }

  func next() -> EntityID {
    let now = act
    act = nil
    now?()
    return ids.next()
  }
}

/// An app signed in by the device grant.
struct SignedIn {
  let bench: Bench
  let client: String
  let access: String
  let refresh: String

  static let device = "urn:ietf:params:oauth:grant-type:device_code"

  init(_ bench: Bench, scope: String = "*:write+offline_access") {
    self.bench = bench
    let registered = bench.send(
      "POST", "/auth/oauth2/register",
      [
        "client_name": "Folders", "application_type": "native",
        "grant_types": [string(Self.device), "refresh_token"], "response_types": [],
      ], key: "")
    let client = registered.json["client_id"]?.text?.string ?? ""
    self.client = client
    bench.instance.signInPolicy.decision = .approve(only: nil)
    let asked = Self.form(bench, "/auth/device/code", "client_id=\(client)&scope=\(scope)")
    let code = asked.json["device_code"]?.text?.string ?? ""
    bench.clock.advance(seconds: 5)
    let tokens = Self.form(
      bench, "/auth/oauth2/token", "grant_type=\(Self.device)&device_code=\(code)&client_id=\(client)")
    access = tokens.json["access_token"]?.text?.string ?? ""
    refresh = tokens.json["refresh_token"]?.text?.string ?? ""
  }

  /// A new access token of the same grant.
  func refreshed() -> String {
    Self.form(bench, "/auth/oauth2/token", "grant_type=refresh_token&refresh_token=\(refresh)&client_id=\(client)")
      .json["access_token"]?.text?.string ?? ""
  }

  private static func form(_ bench: Bench, _ path: String, _ text: String) -> Answer {
    bench.send(
      "POST", path, key: "", headers: [HTTPHeader("Content-Type", "application/x-www-form-urlencoded")],
      raw: Array(text.utf8))
  }
}
