import LocalInstance
import MarfaBase
import Testing

@Suite("Stale writes")
struct StaleWriteTests {
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

  /// Whether the answer is the full envelope naming these fields.
  func collides(_ answer: Answer, _ fields: JSON) -> Bool {
    answer.status == 409 && answer.code == "version_conflict" && answer.json["conflicting_fields"] == fields
  }

  // MARK: the request

  @Test("V-S19 no version is missing_required_field, and the row stays")
  func noVersion() {
    let answer = bench.send("PATCH", "/items/\(id)", ["properties": ["title": "x"]])
    expect(answer, 400, "missing_required_field")
    #expect(answer.details?["field"]?.text == "version")
    #expect(bench.read(id).properties["title"]?.text == "First" && bench.read(id).version == 1)
  }

  @Test("V-S20 a version of -1, 1.5 or text is refused, and so is nothing to change")
  func badVersion() throws {
    for version in [-1, .number(try #require(JSONNumber(1.5))), "1", [1], true] as [JSON] {
      expect(
        bench.send("PATCH", "/items/\(id)", ["version": version, "properties": [:]]), 400, "validation_error")
    }
    for body in [[:], ["edges": [:]], ["properties_mode": "replace"], ["type": "core.note"]] as [JSON] {
      expect(patch(1, body), 400, "validation_error")
    }
    expect(patch(1, ["retype": true]), 400, "validation_error")
    #expect(bench.read(id).version == 1)
  }

  @Test("V-S21 of each pair of neighbours in the order of refusals the earlier answers")
  func order() throws {
    let reader = try bench.mint("r", types: ["core.note": "read", "acme.*": "write"])
    let partly = try bench.mint("p", types: ["core.note": "write", "acme.*": "write"])
    expect(bench.send("POST", "/types", ["id": "acme.gone", "fields": [:]]), 201)
    let orphan = bench.create("acme.gone", ["body": "b"]).id
    expect(bench.send("DELETE", "/types/acme.gone?force=true"), 200)
    expect(properties(1, ["title": "Theirs"]), 200)
    func send(_ path: String, _ body: JSON, key: String? = nil) -> Answer {
      bench.send("PATCH", "/items/\(path)", body, key: key)
    }
    // 1 before 2, 2 before 3, 3 before 4.
    #expect(send("\(id)?conflict=maybe", ["properties": [:]]).path == "conflict")
    expect(send(id, ["extra": 1, "properties": [:]]), 400, "missing_required_field")
    #expect(send(id, ["version": -1, "extra": 1]).path == "version")
    #expect(send("NOPE", ["version": 1, "extra": 1]).details?["unknown_body_fields"] == ["extra"])
    // 4 before 5, 5 before 6, 6 before 7.
    expect(send("NOPE", ["version": 1]), 400, "invalid_id")
    let nothing = send(id, ["version": 1])
    expect(nothing, 400, "validation_error")
    let time = send(bench.ids.next().description, ["version": 1, "occurred_at": "soon"])
    expect(time, 400, "validation_error")
    #expect(time.details?["field"]?.text == "occurred_at")
    // 7 before 8: in the bin, to a key that may not write it.
    let binned = bench.noteID()
    expect(bench.delete(binned), 200)
    let inBin = send(binned, ["version": 1, "properties": [:]], key: reader.token)
    expect(inBin, 404, "item_not_found")
    #expect(inBin.details == ["trashed": true])
    // 8 before 9, 9 before 10: without retype an unregistered type is a mismatch.
    expect(
      send(id, ["version": 1, "type": "core.task", "properties": [:]], key: reader.token), 403, "type_not_permitted")
    expect(send(id, ["version": 1, "type": "acme.none", "properties": [:]]), 409, "type_mismatch")
    // 10 before 11, 11 before 12.
    let unknown = send(orphan, ["version": 1, "retype": true, "type": "acme.none"])
    expect(unknown, 400, "unknown_type")
    #expect(unknown.details?["type"]?.text == "acme.none")
    #expect(send(orphan, ["version": 7, "edges": ["about": []]]).details?["type"]?.text == "acme.gone")
    // 12 before 13 have no write in common; 13 before 14, 14 before 15.
    expect(send(id, ["version": 0, "edges": ["about": []]]), 409, "version_conflict")
    expect(send(id, ["version": 0, "properties": ["title": "x"]], key: partly.token), 409, "ancestor_unavailable")
    expect(send(id, ["version": 1, "properties": ["title": "x", "language": 7]]), 409, "version_conflict")
    expect(send(id, ["version": 1, "properties": ["language": 7]]), 400, "invalid_properties")
  }

  @Test("V-S22 conflict=manual and callback are as absent; another value is refused")
  func modes() {
    expect(properties(1, ["title": "Theirs"]), 200)
    let plain = properties(1, ["title": "Mine"])
    expect(plain, 409, "version_conflict")
    for mode in ["manual", "callback"] {
      let answer = properties(1, ["title": "Mine"], "?conflict=\(mode)")
      #expect(answer.status == 409 && answer.json == plain.json)
    }
    for mode in ["manual", "callback"] {
      let other = bench.noteID("b")
      expect(bench.patch(other, 1, ["properties": ["title": "t"]]), 200)
      let merged = bench.patch(other, 1, ["properties": ["notes": "x"]], "?conflict=\(mode)")
      expect(merged, 200)
      #expect(merged.version == 3 && merged.json["conflict_resolution"] == nil)
    }
    for mode in ["AUTO", "", "merge"] {
      expect(properties(1, ["title": "Mine"], "?conflict=\(mode)"), 400, "validation_error")
    }
  }

  @Test("V-S23 a replace at the current version is the whole; one leaving out a required field moves nothing")
  func replace() {
    let whole = patch(1, ["properties_mode": "replace", "properties": ["body": "Two", "extra": 1]])
    #expect(whole.properties == ["body": "Two", "extra": 1])
    let short = patch(2, ["properties_mode": "replace", "properties": ["title": "x"]])
    expect(short, 400, "invalid_properties")
    #expect(short.field == "body")
    #expect(bench.read(id).properties == ["body": "Two", "extra": 1] && bench.read(id).version == 2)
  }

  @Test("V-S24 another type without retype is a mismatch; retype to an unregistered one is unknown")
  func types() {
    expect(patch(1, ["type": "core.task", "properties": [:]]), 409, "type_mismatch")
    expect(patch(1, ["type": "core.task", "retype": false, "properties": [:]]), 409, "type_mismatch")
    let unknown = patch(1, ["type": "acme.none", "retype": true])
    expect(unknown, 400, "unknown_type")
    #expect(unknown.details?["type"]?.text == "acme.none")
    #expect(bench.read(id).version == 1)
  }

  @Test("V-S25 a null under merge leaves an optional one, is refused for a required one; in a move by the new type")
  func nulls() {
    let kept = properties(1, ["title": nil, "undeclared": nil])
    #expect(kept.properties == ["body": "One", "title": "First"])
    let refused = properties(2, ["body": nil])
    expect(refused, 400, "invalid_properties")
    #expect(refused.field == "body")
    #expect(patch(2, ["retype": true, "type": "core.task", "properties": ["title": nil]]).field == "title")
    expect(patch(2, ["retype": true, "type": "core.task", "properties": ["body": nil]]), 200)
  }

  // MARK: collisions and merges

  @Test("V-S27 a collision on tier, own time or source_id names it with both sides' values, and moves nothing")
  func itemFields() {
    let made = bench.create(
      "core.note", ["body": "b"], ["occurred_at": "2026-01-01T00:00:00Z", "source_id": "one"])
    let theirs: JSON = ["tier": "feed", "occurred_at": "2026-02-02T00:00:00Z", "source_id": "two"]
    expect(bench.patch(made.id, 1, theirs), 200)
    let before = bench.read(made.id).json
    for (field, value, ancestor, current) in [
      ("tier", "feed", "library", "feed"),
      ("occurred_at", "2026-03-03T00:00:00Z", "2026-01-01T00:00:00.000Z", "2026-02-02T00:00:00.000Z"),
      ("source_id", "three", "one", "two"),
    ] {
      let answer = bench.patch(made.id, 1, .object(JSONObject([(Text(field), string(value))])))
      #expect(collides(answer, [string(field)]))
      #expect(answer.json["ancestor"]?[Text(field)]?.text == Text(ancestor))
      #expect(answer.json["current"]?[Text(field)]?.text == Text(current))
    }
    #expect(bench.read(made.id).json == before)
  }

  @Test("V-S29 a stale tier, own time or source_id nobody else changed merges, two past its base")
  func staleFields() {
    for write in [["tier": "feed"], ["occurred_at": "2026-02-02T00:00:00.000Z"], ["source_id": "k"]] as [JSON] {
      let made = bench.noteID("b")
      expect(bench.patch(made, 1, ["properties": ["title": "Theirs"]]), 200)
      let merged = bench.patch(made, 1, write)
      expect(merged, 200)
      #expect(merged.version == 3 && merged.properties["title"]?.text == "Theirs")
      for (name, value) in write.object?.members ?? [] { #expect(merged.item[name] == value) }
    }
  }

  @Test(
    "V-S33 a stale replace: left out and unchanged is cleared, changed collides, cleared by both merges, added stays")
  func staleReplace() {
    func make() -> String {
      bench.noteID("", ["properties": ["body": "b", "title": "t", "notes": "n"]])
    }
    func replacing(_ id: String, _ body: JSON) -> Answer {
      bench.patch(id, 1, ["properties_mode": "replace", "properties": body])
    }
    let cleared = make()
    expect(bench.patch(cleared, 1, ["properties": ["notes": "N"]]), 200)
    #expect(replacing(cleared, ["body": "b", "notes": "n"]).properties == ["body": "b", "notes": "N"])
    let changed = make()
    expect(bench.patch(changed, 1, ["properties": ["title": "T"]]), 200)
    #expect(collides(replacing(changed, ["body": "b", "notes": "n"]), ["title"]))
    let both = make()
    expect(bench.patch(both, 1, ["properties_mode": "replace", "properties": ["body": "b", "notes": "n"]]), 200)
    #expect(replacing(both, ["body": "B", "notes": "n"]).properties == ["body": "B", "notes": "n"])
    let added = make()
    expect(bench.patch(added, 1, ["properties": ["extra": 1]]), 200)
    #expect(
      replacing(added, ["body": "b", "title": "t2", "notes": "n"]).properties
        == ["body": "b", "title": "t2", "notes": "n", "extra": 1])
  }

  @Test("V-S34 what is judged is the merged result: a short body that merges well lands, a short result is refused")
  func mergedResult() {
    // The stale replace lacks the required text another writer added with the type's other fields.
    let made = bench.create("core.task", ["title": "t"]).id
    expect(bench.patch(made, 1, ["properties": ["body": "added"]]), 200)
    let moved = bench.patch(
      made, 1, ["retype": true, "type": "core.note", "properties_mode": "replace", "properties": ["title": "t"]])
    expect(moved, 200)
    #expect(moved.type == "core.note" && moved.properties == ["title": "t", "body": "added"])
    let short = bench.noteID("b")
    expect(bench.patch(short, 1, ["properties": ["title": "t"]]), 200)
    let refused = bench.patch(short, 1, ["properties_mode": "replace", "properties": ["notes": "n"]])
    expect(refused, 400, "invalid_properties")
    #expect(refused.field == "body" && bench.read(short).version == 2)
  }

  @Test("V-S35 with a required field gained by the type, a stale tier alone merges; stale properties are held to it")
  func gainedField() {
    let fields: JSON = ["word": ["type": "string"]]
    expect(bench.send("POST", "/types", ["id": "acme.thing", "fields": fields]), 201)
    let made = bench.create("acme.thing", ["word": "a"]).id
    expect(bench.patch(made, 1, ["properties": ["word": "b"]]), 200)
    let more: JSON = ["word": ["type": "string"], "must": ["type": "string", "required": true]]
    expect(bench.send("PUT", "/types/acme.thing", ["fields": more]), 200)
    #expect(bench.patch(made, 1, ["tier": "feed"]).version == 3)
    let held = bench.patch(made, 1, ["properties": ["other": 1]])
    expect(held, 400, "invalid_properties")
    #expect(held.field == "must" && bench.read(made).version == 3)
    expect(bench.patch(made, 1, ["properties": ["must": "x"]]), 200)
  }

  @Test(
    "V-S36 a stale retype that collides on nothing moves, and search finds it there; short of the type nothing moves")
  func staleMove() {
    for more in [[:], ["properties": ["language": "en"]]] as [JSON] {
      let made = bench.noteID("", ["properties": ["body": "larkspur", "title": "t"]])
      expect(bench.patch(made, 1, ["properties": ["notes": "n"]]), 200)
      let fixed: JSON = ["retype": true, "type": "core.task"]
      var write = fixed.object ?? JSONObject()
      for (name, value) in more.object?.members ?? [] { write[name] = value }
      let moved = bench.patch(made, 1, .object(write))
      expect(moved, 200)
      #expect(moved.type == "core.task" && moved.version == 3 && moved.properties["notes"]?.text == "n")
      #expect(bench.send("GET", "/search?q=larkspur&type=core.task").ids.contains(made))
    }
    expect(properties(1, ["notes": "n"]), 200)
    let short = patch(1, ["retype": true, "type": "core.message"])
    expect(short, 400, "invalid_properties")
    #expect(bench.read(id).type == "core.note" && bench.read(id).version == 2)
  }

  @Test("V-S37 a stale move of a row another writer moved collides on type, also under auto")
  func movedMeanwhile() {
    expect(patch(1, ["retype": true, "type": "core.task"]), 200)
    for query in ["", "?conflict=auto"] {
      let answer = patch(1, ["retype": true, "type": "core.bookmark", "properties": ["notes": "n"]], query)
      #expect(collides(answer, ["type"]))
      #expect(answer.json["current"]?["type"]?.text == "core.task")
      #expect(answer.json["ancestor"]?["type"]?.text == "core.note")
    }
    #expect(bench.read(id).type == "core.task" && bench.read(id).version == 2)
  }

  @Test("V-S38 a property named constructor is set, cleared and compared like any other")
  func constructor() {
    for name in ["constructor", "__proto__", "toString"] {
      func one(_ value: JSON) -> JSON { .object(JSONObject([(Text(name), value)])) }
      let made = bench.noteID("b")
      #expect(bench.patch(made, 1, ["properties": one("set")]).properties[Text(name)]?.text == "set")
      #expect(collides(bench.patch(made, 1, ["properties": one("other")]), [string(name)]))
      expect(bench.patch(made, 2, ["properties": ["title": "t"]]), 200)
      #expect(bench.patch(made, 2, ["properties": one("set")]).status == 200)
      let cleared = bench.patch(made, 2, ["properties_mode": "replace", "properties": ["body": "b"]])
      #expect(cleared.status == 200 && cleared.properties == ["body": "b", "title": "t"])
    }
  }

  @Test("V-S40 version 0, one never issued or one thinned, is ancestor_unavailable, under auto too, and nothing merges")
  func noAncestor() {
    for version in 1...4 { expect(properties(version, ["title": string("t\(version)")]), 200) }
    let policy: JSON = ["max_versions": 1]
    expect(
      bench.send(
        "POST", "/types",
        ["id": "acme.memo", "parent": "core.note", "fields": [:], "version_policy": policy]), 201)
    expect(patch(5, ["retype": true, "type": "acme.memo"]), 200)
    expect(bench.send("POST", "/housekeeping/version-thinning/run"), 200)
    let before = bench.read(id).json
    for version in [0, 99, 2] {
      for query in ["", "?conflict=auto"] {
        let answer = properties(version, ["language": "en"], query)
        expect(answer, 409, "ancestor_unavailable")
        #expect(answer.json.object?.keys == ["error", "current", "requested_version"])
        #expect(answer.json["current"]?["id"]?.text == Text(id))
        #expect(answer.json["requested_version"]?.int == version)
        #expect(answer.json["error"]?["status"]?.int == 409)
      }
    }
    #expect(bench.read(id).json == before)
  }

  @Test("V-S41 only edges, or retype to the own type, at any other version, is the bare conflict")
  func bare() {
    expect(properties(1, ["title": "x"]), 200)
    for version in [0, 1, 3, 99] {
      for write in [["edges": ["about": []]], ["retype": true, "type": "core.note"]] as [JSON] {
        let answer = patch(version, write)
        expect(answer, 409, "version_conflict")
        #expect(answer.json.object?.keys == ["error", "current"])
        #expect(answer.json["current"]?["version"]?.int == 2 && answer.json["error"]?["status"]?.int == 409)
      }
    }
  }

  @Test("V-S42 a snapshot of a type the key may not read is no ancestor, on update and conditional create")
  func hiddenAncestor() throws {
    let made = bench.create("core.task", ["title": "t", "body": "b"], ["source_id": "k"]).id
    expect(bench.patch(made, 1, ["retype": true, "type": "core.note"]), 200)
    let key = try bench.mint("n", types: ["core.note": "write"], sources: ["local"])
    let before = bench.read(made).json
    for answer in [
      bench.patch(made, 1, ["properties": ["notes": "n"]], key: key.token),
      bench.patch(made, 1, ["properties": ["notes": "n"]], "?conflict=auto", key: key.token),
      bench.create(
        "core.note", ["notes": "n"], ["source": "local", "source_id": "k", "version": 1], key: key.token),
    ] {
      expect(answer, 409, "ancestor_unavailable")
      #expect(!answer.words.contains("core.task"))
    }
    #expect(bench.read(made).json == before)
  }

  @Test("V-S43 of two updates naming one version at once one lands and one conflicts")
  func atOnce() throws {
    var statuses: [Int] = []
    try bench.instance.batch {
      for name in ["a", "b"] { statuses.append(properties(1, ["title": string(name)]).status) }
    }
    #expect(statuses == [200, 409])
    #expect(bench.read(id).properties["title"]?.text == "a")
  }
}
