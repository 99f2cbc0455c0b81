import LocalInstance
import MarfaBase
import Testing

@Suite("Versions")
struct VersionTests {
  let bench: Bench
  let id: String

  init() throws {
    bench = try Bench()
    id = bench.noteID("", ["properties": ["body": "One", "title": "First"], "tags": ["t"]])
  }

  func patch(_ body: JSON, _ query: String = "", key: String? = nil) -> Answer {
    bench.send(
      "PATCH", "/items/\(id)\(query)", body, headers: key.map { [HTTPHeader("Idempotency-Key", $0)] } ?? [])
  }

  @Test("V-S26 a stale title answers current, ancestor, fields and policy")
  func collision() {
    expect(patch(["version": 1, "properties": ["title": "Theirs"]]), 200)
    let stale = patch(["version": 1, "properties": ["title": "Mine"]])
    expect(stale, 409, "version_conflict")
    #expect(stale.json["error"]?["status"]?.int == 409)
    #expect(stale.json["current"]?["version"]?.int == 2)
    #expect(stale.json["current"]?["id"]?.text == Text(id))
    #expect(stale.json["current"]?["source_id"]?.isNull == true)
    #expect(stale.json["ancestor"]?["version"]?.int == 1)
    #expect(stale.json["conflicting_fields"] == ["title"])
    #expect(
      stale.json["merge_policy"] == [
        "default": "last_writer_wins", "fields": ["body": "keep_both_copies", "notes": "keep_both_copies"],
      ])
  }

  @Test("V-S28 V-S30 V-S31 V-S32 V-S39 what collides and what merges")
  func merges() {
    expect(patch(["version": 1, "properties": ["title": "Theirs"], "tier": "feed"]), 200)
    #expect(patch(["version": 1, "tier": "feed"]).json["conflicting_fields"] == ["tier"])
    #expect(
      patch(["version": 1, "tier": "feed", "properties": ["title": "Theirs"]]).json["conflicting_fields"] == [
        "tier", "title",
      ])
    let merged = patch(["version": 1, "properties": ["body": "Two", "title": "First"]])
    expect(merged, 200)
    #expect(merged.item["version"]?.int == 3)
    #expect(merged.item["properties"] == ["body": "Two", "title": "Theirs"])
    let time = bench.send("GET", "/items/\(id)").item["occurred_at"]?.text?.string ?? ""
    let spelled = time.replacing("Z", with: "+00:00")
    #expect(patch(["version": 2, "occurred_at": .string(spelled), "tier": "feed"]).item["version"]?.int == 4)
  }

  @Test("a stale replace clears what nobody changed, and keeps what another added")
  func replace() {
    expect(patch(["version": 1, "properties": ["notes": "added", "body": "Theirs"]]), 200)
    #expect(
      patch(["version": 1, "properties_mode": "replace", "properties": ["body": "One"]]).item["properties"]
        == ["body": "Theirs", "notes": "added"])
    #expect(
      patch(["version": 1, "properties_mode": "replace", "properties": ["title": "First"]]).json["conflicting_fields"]
        == ["body"])
  }

  @Test("no ancestor, and nothing to merge")
  func ancestors() {
    for version in [0, 7] {
      let answer = patch(["version": .int(version), "properties": ["body": "x"]], "?conflict=auto")
      expect(answer, 409, "ancestor_unavailable")
      #expect(answer.json["requested_version"]?.int == version)
      #expect(answer.json["ancestor"] == nil)
      let bare = patch(["version": .int(version), "edges": ["about": []]])
      expect(bare, 409, "version_conflict")
      #expect(bare.json["current"] != nil && bare.json["merge_policy"] == nil)
    }
  }

  @Test("V-S44 V-S53 conflict=auto keeps both bodies and says so, once")
  func auto() {
    expect(patch(["version": 1, "properties": ["title": "Theirs", "body": "Theirs"]]), 200)
    let write: JSON = ["version": 1, "properties": ["title": "Mine", "body": "Mine"]]
    let before = bench.events().count
    let resolved = patch(write, "?conflict=auto", key: "k")
    expect(resolved, 200)
    #expect(resolved.item["properties"] == ["body": "Theirs", "title": "Mine"])
    let report = resolved.json["conflict_resolution"]
    #expect(report?["fields"] == ["body", "title"])
    #expect(report?["strategy"] == ["body": "keep_both_copies", "title": "last_writer_wins"])
    let copyID = report?["conflicted_copy_id"]?.text?.string ?? ""
    let copy = bench.send("GET", "/items/\(copyID)")
    #expect(copy.item["properties"] == ["body": "Mine", "title": "Theirs"])
    #expect(copy.json["metadata"]?["tags"] == ["t", "conflicted-copy"])
    #expect(copy.item["version"]?.int == 1)
    #expect(copy.item["edges"]?["derived-from"]?["data"]?.array?.first?["target_id"]?.text == Text(id))
    #expect(bench.events().dropFirst(before).map(\.kind) == ["item.created", "edge.created", "item.updated"])
    let count = bench.send("GET", "/items").data.count
    #expect(patch(write, "?conflict=auto", key: "k").response.body == resolved.response.body)
    #expect(bench.send("GET", "/items").data.count == count)
  }

  @Test("V-S46 V-S49 clears, item fields, no collision, a move")
  func autoEdges() {
    expect(patch(["version": 1, "properties": ["title": "T2", "notes": "N"], "tier": "feed"]), 200)
    expect(patch(["version": 2, "properties": ["title": "T3", "notes": "N3"]]), 200)
    let cleared = patch(
      ["version": 2, "properties_mode": "replace", "properties": ["body": "One"]], "?conflict=auto")
    #expect(cleared.item["properties"] == ["body": "One", "notes": "N3"])
    let copyID = cleared.json["conflict_resolution"]?["conflicted_copy_id"]?.text?.string ?? ""
    #expect(bench.send("GET", "/items/\(copyID)").item["properties"] == ["body": "One", "title": "T3"])
    let none = patch(["version": 3, "properties": ["language": "en"]], "?conflict=auto")
    expect(none, 200)
    #expect(none.json["conflict_resolution"] == nil)
    expect(
      patch(["version": 1, "properties": ["title": "x"], "type": "core.task", "retype": true], "?conflict=auto"), 409,
      "version_conflict")
    expect(patch(["version": 5, "properties": [:]], "?conflict=maybe"), 400, "validation_error")
  }

  @Test("V-S59 V-S60 V-S62 creates that name a version")
  func creates() {
    func make(_ version: Int, _ name: JSON, _ body: JSON) -> Answer {
      bench.send(
        "POST", "/items", ["type": "core.note", "source_id": name, "version": .int(version), "properties": body])
    }
    let made = make(0, "k", ["body": "a"])
    expect(made, 201)
    let zero = make(0, "k", ["body": "b"])
    expect(zero, 409, "ancestor_unavailable")
    #expect(zero.json["current"]?["id"]?.text == Text(made.id))
    expect(make(1, "k", ["body": "b"]), 200)
    expect(make(1, "k", ["body": "c"]), 409, "version_conflict")
    expect(make(1, "k", ["title": "c"]), 200)
    let auto = bench.send("POST", "/items?conflict=auto", ["type": "core.note", "properties": ["body": "a"]])
    expect(auto, 400, "validation_error")
    #expect(auto.details?["unknown_parameters"] == ["conflict"])
  }
}

@Suite("Edges")
struct EdgeTests {
  let bench: Bench
  init() throws { bench = try Bench() }

  @Test("E-S3 creates, repeats and refusals")
  func creates() {
    let (a, b) = (bench.noteID(), bench.noteID())
    let id = bench.ids.next()
    let body: JSON = [
      "id": .string(id.text), "source_id": .string(a), "target_id": .string(b), "edge_type": "about",
      "properties": ["x": 1],
    ]
    let made = bench.send("POST", "/edges", body)
    expect(made, 201)
    #expect(made.json["edge"]?.object?.count == 8)
    let again = bench.send("POST", "/edges", body)
    expect(again, 200)
    #expect(again.json["acknowledged"]?.bool == true)
    let other: JSON = [
      "id": .string(id.text), "source_id": .string(b), "target_id": .string(a), "edge_type": "about",
    ]
    let reused = bench.send("POST", "/edges", other)
    expect(reused, 409, "id_reused")
    #expect(reused.details?["differs"] == ["source_id", "target_id"])
    expect(bench.send("POST", "/edges", ["source_id": "x"]), 400, "missing_required_field")
    expect(bench.edge("x", "about", b), 400, "invalid_id")
    expect(bench.edge(a, "nothing", b), 404, "edge_type_not_found")
    expect(bench.edge(a, "about", bench.ids.next().description), 404, "item_not_found")
    let duplicate = bench.edge(a, "about", b)
    expect(duplicate, 400, "edge_constraint_violation")
    #expect(duplicate.details?["constraint"]?.text == "duplicate")
  }

  @Test("E-S51 cardinality, cycles, collections")
  func rules() {
    let (a, b, c) = (bench.noteID(), bench.noteID(), bench.noteID())
    expect(bench.edge(a, "parent-of", b), 201)
    #expect(bench.edge(c, "parent-of", b).details?["constraint"]?.text == "cardinality")
    expect(bench.edge(b, "parent-of", c), 201)
    expect(bench.edge(c, "parent-of", a), 400, "edge_cycle")
    expect(bench.edge(a, "about", a), 400, "edge_cycle")
    expect(bench.edge(a, "in-thread", b), 201)
    #expect(bench.edge(a, "in-thread", c).details?["source_id"]?.text == Text(a))
    expect(bench.edge(a, "in-collection", b), 400, "edge_constraint_violation")
  }

  @Test("E-S33 E-S34 updates and moves")
  func moves() {
    let (a, b, c) = (bench.noteID(), bench.noteID(), bench.noteID())
    let id = bench.edge(a, "parent-of", b, ["x": 1]).id
    func patch(_ body: JSON) -> Answer { bench.send("PATCH", "/edges/\(id)", body) }
    expect(patch([:]), 400, "missing_required_field")
    expect(bench.send("PATCH", "/edges/zzz", [:]), 400, "missing_required_field")
    expect(patch(["version": 1]), 400, "missing_required_field")
    let stale = patch(["version": 5, "source_id": "nonsense"])
    expect(stale, 409, "version_conflict")
    #expect(stale.json["current"]?["id"]?.text == Text(id))
    let moved = patch(["version": 1, "source_id": .string(c), "properties": ["y": 2]])
    expect(moved, 200)
    #expect(moved.json["edge"]?["source_id"]?.text == Text(c))
    #expect(moved.json["edge"]?["properties"] == ["x": 1, "y": 2])
    #expect(bench.events().last?.kind == "edge.updated")
    #expect(patch(["version": 2, "target_id": .string(a)]).path == "target_id")
    expect(patch(["version": 2, "source_id": .string(b)]), 400, "edge_cycle")
    expect(bench.send("DELETE", "/edges/\(id)"), 200)
    expect(bench.send("DELETE", "/edges/\(id)"), 404, "edge_not_found")
    #expect(bench.events().last?.kind == "edge.deleted")
    #expect(bench.events().suffix(2).first?.data["edge"]?["version"]?.int == 2)
  }

  @Test("E-S42 E-S43 E-S44 I-S74 inline edges")
  func inline() {
    let (a, b) = (bench.noteID(), bench.noteID())
    let made = bench.note("x", ["edges": ["about": [.string(a)], "references": [.string(b)]]])
    #expect(made["edges"]?.object?.count == 2)
    let count = bench.send("GET", "/items").data.count
    expect(
      bench.send(
        "POST", "/items",
        ["type": "core.note", "properties": ["body": "y"], "edges": ["about": [.string(bench.ids.next().text)]]]), 404,
      "item_not_found")
    #expect(bench.send("GET", "/items").data.count == count)
    let id = made["id"]?.text?.string ?? ""
    let changed = bench.send("PATCH", "/items/\(id)", ["version": 1, "edges": ["about": []]])
    #expect(changed.item["version"]?.int == 1)
    #expect(changed.item["edges"]?.object?.keys == ["references"])
    expect(
      bench.send("PATCH", "/items/\(id)", ["version": 1, "edges": ["in-folder": [.string(a)]]]), 400,
      "validation_error")
  }

  @Test("E-S19 listings of edges")
  func lists() {
    let a = bench.noteID()
    for _ in 0..<60 { _ = bench.edge(a, "about", bench.noteID()) }
    let block = bench.send("GET", "/items/\(a)").item["edges"]?["about"]
    #expect(block?["data"]?.array?.count == 50)
    let cursor = block?["next_cursor"]?.text?.string ?? ""
    let rest = bench.send("GET", "/items/\(a)/edges?edge_type=about&limit=500&cursor=\(cursor)")
    #expect(rest.data.count == 10)
    #expect(rest.json["next_cursor"]?.isNull == true)
    #expect(Set((block?["data"]?.array ?? []).map { $0["id"] } + rest.data.map { $0["id"] }).count == 60)
    expect(bench.send("GET", "/edges?limit=501"), 400, "validation_error")
    #expect(bench.send("GET", "/edges?x=1").details?["unknown_parameters"] == ["x"])
    expect(bench.send("GET", "/edges?edge_type=a,b,c,d,e,f,g,h,i,j,k"), 400, "validation_error")
    expect(bench.send("GET", "/edges", key: ""), 401, "unauthorized")
    #expect(bench.send("GET", "/edges?edge_type=references").data.isEmpty)
  }

  @Test("I-S136 I-S137 I-S138 I-S139 folders and placements")
  func folders() {
    let made = bench.send("POST", "/folders", ["title": "Kitchen", "include": ["a"]])
    expect(made, 201)
    #expect(made.item["properties"] == ["title": "Kitchen", "include": ["a"]])
    #expect(bench.send("GET", "/items?type=system.folder").data.count == 1)
    #expect(bench.send("GET", "/items").data.isEmpty)
    let folder = "/folders/\(made.id)"
    #expect(bench.send("PATCH", folder, ["version": 1, "include": ["b"]]).item["version"]?.int == 2)
    let merged = bench.send("PATCH", folder, ["version": 1, "ignore": ["c"]])
    #expect(merged.item["properties"] == ["title": "Kitchen", "include": ["b"], "ignore": ["c"]])
    let stale = bench.send("PATCH", folder, ["version": 1, "include": ["d"]])
    expect(stale, 409, "version_conflict")
    #expect(stale.json["conflicting_fields"] == ["include"])
    expect(bench.send("PATCH", folder + "?conflict=auto", ["version": 1, "include": ["d"]]), 400, "validation_error")
    expect(bench.send("PATCH", folder, ["include": []]), 400, "missing_required_field")
    expect(bench.send("PATCH", folder, ["version": 3]), 400, "validation_error")
    let note = bench.noteID()
    expect(bench.send("PATCH", "/folders/\(note)", ["version": 1, "title": "x"]), 404, "item_not_found")
    expect(bench.send("POST", "/folders/x/revoke"), 400, "invalid_id")
    for path in ["", "/a", "C:/a", "a\\b", "../a", "a/..", "."] {
      #expect(bench.edge(note, "in-folder", made.id, ["path": .string(path)]).path == "properties.path")
    }
    let place = bench.edge(note, "in-folder", made.id, ["path": "a/../b.md"])
    expect(place, 201)
    #expect(
      bench.send("PATCH", "/edges/\(place.id)", ["version": 1, "properties": ["size": 1]]).path == "properties.size")
    expect(bench.send("POST", folder + "/revoke"), 200)
    expect(bench.send("POST", folder + "/revoke"), 400, "invalid_transition")
    expect(bench.send("PATCH", folder, ["version": 4, "title": "x"]), 400, "invalid_transition")
    #expect(
      bench.edge(bench.noteID(), "in-folder", made.id, ["path": "x.md"]).details?["constraint"]?.text == "revoked")
    #expect(
      bench.events().filter { $0.data["item"]?["id"]?.text == Text(made.id) }.map(\.kind) == [
        "item.created", "item.updated", "item.updated", "item.state_changed",
      ])
  }

  @Test("I-S144 each setting is checked, and the refusal names it")
  func settings() {
    let id = bench.ids.next().text
    let cases: [(JSON, String, String)] = [
      (["search": ["types": ["core.no-such-type"]]], "unknown_type", "search.types.0"),
      (["search": ["types": ["Not A Type"]]], "validation_error", "search.types.0"),
      (["search": ["types": ["system.folder"]]], "validation_error", "search.types.0"),
      (["search": ["filter": "tags eq"]], "validation_error", "search.filter"),
      (["search": ["beneath": "not-an-id"]], "validation_error", "search.beneath"),
      (["search": ["state": ["trashed"]]], "validation_error", "search.state.0"),
      (["search": ["state": []]], "validation_error", "search.state"),
      (["search": ["tags": ["x"]]], "validation_error", "search"),
      (["defaults": ["type": "core.no-such-type"]], "unknown_type", "defaults.type"),
      (["defaults": ["edges": ["no-such-edge": []]]], "validation_error", "defaults.edges.no-such-edge"),
      (["defaults": ["edges": ["in-folder": []]]], "validation_error", "defaults.edges.in-folder"),
      (
        ["defaults": ["edges": ["parent-of": .array(Array(repeating: .string(id), count: 101))]]], "validation_error",
        "defaults.edges.parent-of"
      ),
      (["include": [7]], "validation_error", "include.0"), (["ignore": [""]], "validation_error", "ignore.0"),
      (["first_placement": ["core.note": "Notes/../../out"]], "validation_error", "first_placement.core.note"),
      (["first_placement": ["core.note": "/Notes"]], "validation_error", "first_placement.core.note"),
      (["first_placement": ["system.folder": "F"]], "validation_error", "first_placement.system.folder"),
      (
        ["removal_threshold": ["fraction": .number(JSONNumber(1.5) ?? JSONNumber(2))]], "validation_error",
        "removal_threshold.fraction"
      ),
      (["removal_threshold": ["files": -1]], "validation_error", "removal_threshold.files"),
      (["query": [:]], "validation_error", ""), (["revoked_at": "x"], "validation_error", ""),
    ]
    let folder = bench.send("POST", "/folders", ["title": "F"]).id
    for (setting, code, path) in cases {
      var body = setting.object ?? JSONObject()
      body["title"] = "T"
      let made = bench.send("POST", "/folders", .object(body))
      expect(made, 400, code)
      #expect(made.path == path)
      body["version"] = 1
      #expect(bench.send("PATCH", "/folders/\(folder)", .object(body)).path == path)
    }
    expect(bench.send("POST", "/folders", ["include": []]), 400, "missing_required_field")
    expect(
      bench.send("POST", "/folders", ["title": "T", "first_placement": ["core.note": "Notes/../Tickets"]]), 201)
  }
}
