import LocalInstance
import MarfaBase
import Testing

@Suite("Items")
struct ItemTests {
  let bench: Bench

  init() throws { bench = try Bench() }

  @Test("I-S1 I-S2 a note is made with its defaults and read back the same")
  func create() {
    let made = bench.send("POST", "/items", ["type": "core.note", "properties": ["body": "Flour", "title": "Bread"]])
    expect(made, 201)
    #expect(made.item["version"]?.int == 1)
    #expect(made.item["state"]?.text == "active")
    #expect(EntityID(Text(made.id))?.isVersion7 == true)
    #expect(made.json["metadata"]?["tags"]?.array?.isEmpty == true)
    let read = bench.send("GET", "/items/\(made.id)")
    #expect(read.json == made.json)
    #expect(read.response.header("X-Marfa-Contract") == "0")
  }

  @Test("I-S3 I-S4 I-S5 I-S6 ids of clients: taken, malformed, repeated, another type's")
  func clientIDs() {
    let id = bench.ids.next().description
    let body: JSON = ["type": "core.note", "id": .string(id), "properties": ["body": "a"]]
    #expect(bench.send("POST", "/items", body).id == id)
    #expect(bench.events().last?.data["item"]?["id"]?.text == Text(id))
    for bad in [id.uppercased(), "11111111-1111-4111-8111-111111111111", "word", id.replacing("-", with: "")] {
      expect(
        bench.send("POST", "/items", ["type": "core.note", "id": .string(bad), "properties": ["body": "a"]]), 400,
        "invalid_id")
    }
    expect(bench.send("PATCH", "/items/\(id)", ["version": 1, "properties": ["body": "b"]]), 200)
    let before = bench.events().count
    let again = bench.send("POST", "/items", body)
    expect(again, 200)
    #expect(again.json["acknowledged"]?.bool == true)
    #expect(again.item["properties"]?["body"]?.text == "b")
    #expect(bench.events().count == before)
    let other = bench.send("POST", "/items", ["type": "core.task", "id": .string(id), "properties": ["title": "a"]])
    expect(other, 409, "id_reused")
    #expect(other.details?["differs"]?.array?.first?.text == "type")
  }

  @Test("I-S17 I-S19 I-S20 sources and natural keys")
  func naturalKeys() {
    expect(
      bench.send("POST", "/items", ["type": "core.note", "source": "z", "properties": ["body": "a"]]), 403, "forbidden")
    let body: JSON = [
      "type": "core.note", "source_id": "k", "properties": ["body": "a", "title": "t"], "tags": ["x"],
    ]
    let made = bench.send("POST", "/items", body)
    expect(made, 201)
    let again = bench.send("POST", "/items", ["type": "core.note", "source_id": "k", "properties": ["body": "b"]])
    expect(again, 200)
    #expect(again.id == made.id)
    #expect(again.item["version"]?.int == 2)
    #expect(again.item["properties"]?["title"]?.text == "t")
    #expect(again.json["metadata"]?["tags"]?.array?.count == 1)
    expect(
      bench.send("POST", "/items", ["type": "core.task", "source_id": "k", "properties": ["title": "b"]]), 409,
      "type_mismatch")
    let other = bench.ids.next().description
    let crossed = bench.send(
      "POST", "/items", ["type": "core.note", "id": .string(other), "source_id": "k", "properties": ["body": "b"]])
    expect(crossed, 400, "validation_error")
    #expect(crossed.details?["existing_id"]?.text == Text(made.id))
    expect(bench.send("PATCH", "/items/\(made.id)", ["version": 2, "source": "q"]), 400, "validation_error")
    expect(bench.send("DELETE", "/items/\(made.id)"), 200)
    let binned = bench.send("POST", "/items", body)
    expect(binned, 200)
    #expect(binned.json["acknowledged"]?.bool == true)
    #expect(binned.item["state"]?.text == "trashed")
  }

  @Test("I-S26 I-S28 own times are kept in UTC, and what is no time is refused")
  func ownTime() {
    for (sent, kept) in [
      ("2026-03-01T12:00:00+02:00", "2026-03-01T10:00:00.000Z"), ("2026-03-01T10:00:00", "2026-03-01T10:00:00.000Z"),
      ("2026-03", "2026-03-01T00:00:00.000Z"), ("2026", "2026-01-01T00:00:00.000Z"),
    ] {
      #expect(bench.note("a", ["occurred_at": .string(sent)])["occurred_at"]?.text == Text(kept))
    }
    for bad in ["2026-02-30", "yesterday", "0000-01-01T00:00:00+01:00"] {
      let answer = bench.send(
        "POST", "/items", ["type": "core.note", "properties": ["body": "a"], "occurred_at": .string(bad)])
      expect(answer, 400, "validation_error")
      #expect(answer.details?["field"]?.text == "occurred_at")
    }
  }

  @Test("I-S37 I-S38 I-S42 I-S43 I-S45 properties: limits, nulls and order")
  func properties() {
    func make(_ properties: JSON) -> Answer {
      bench.send("POST", "/items", ["type": "core.note", "properties": properties])
    }
    #expect(make(["body": .string(Text(bytes: [0x61, 0]))]).field == "body")
    let full = String(repeating: "a", count: 99_998) + "\u{1F35E}"
    expect(make(["body": .string(full)]), 201)
    #expect(make(["body": .string(full + "a")]).code == "invalid_properties")
    #expect(make(["title": "x"]).field == "body")
    expect(make(["body": "x", "": 1]), 400, "validation_error")
    let nulls = make(["body": "x", "title": nil, "other": nil])
    #expect(nulls.item["properties"] == ["body": "x", "other": nil])
    let order = make(["zeta": 1, "title": "t", "body": "b", "2024": 1, "7": 2])
    #expect(order.item["properties"]?.object?.keys.map(\.string) == ["7", "2024", "body", "title", "zeta"])
  }

  @Test("I-S49 I-S122 I-S125 tags")
  func tags() {
    let id = bench.noteID("a", ["tags": ["a", "b", "a"]])
    func tags(_ answer: Answer) -> [String] {
      answer.json["metadata"]?["tags"]?.array?.compactMap { $0.text?.string } ?? []
    }
    #expect(tags(bench.send("GET", "/items/\(id)/metadata")) == ["a", "b"])
    #expect(tags(bench.send("PATCH", "/items/\(id)/metadata", ["tags": ["c"]])) == ["a", "b", "c"])
    #expect(tags(bench.send("POST", "/items/\(id)/tags", ["tags": ["d d"]])) == ["a", "b", "c", "d d"])
    #expect(tags(bench.send("DELETE", "/items/\(id)/tags/d%20d")) == ["a", "b", "c"])
    #expect(tags(bench.send("PUT", "/items/\(id)/metadata", ["tags": ["z"]])) == ["z"])
    #expect(bench.events().last?.kind == "metadata.changed")
    #expect(bench.send("GET", "/items/\(id)").item["version"]?.int == 1)
    expect(bench.send("POST", "/items/\(id)/tags", [:]), 400, "missing_required_field")
    expect(bench.send("POST", "/items/\(id)/tags", ["tags": "x"]), 400, "validation_error")
    expect(bench.send("POST", "/items/\(id)/tags", ["tags": [" "]]), 400, "validation_error")
    let many = JSON.array((0..<101).map { .string("t\($0)") })
    expect(bench.send("PUT", "/items/\(id)/metadata", ["tags": many]), 400, "validation_error")
    expect(bench.send("PUT", "/items/\(bench.ids.next())/metadata", ["tags": []]), 404, "item_not_found")
    _ = bench.noteID("b", ["tags": ["z", "y"]])
    #expect(bench.send("GET", "/metadata/tags").data.map { $0["tag"]?.text?.string } == ["z", "y"])
  }

  @Test("I-S52 I-S53 types a create may not name")
  func types() {
    expect(bench.send("POST", "/items", ["properties": [:]]), 400, "missing_required_field")
    expect(bench.send("POST", "/items", ["type": "Bad Type"]), 400, "validation_error")
    expect(bench.send("POST", "/items", ["type": "acme.unknown"]), 400, "unknown_type")
    expect(bench.send("POST", "/items", ["type": "system.folder"]), 403, "type_not_permitted")
  }

  @Test("I-S58 I-S59 I-S62 reads by id, one and many")
  func reads() {
    expect(bench.send("GET", "/items/nonsense"), 400, "invalid_id")
    expect(bench.send("GET", "/items/\(bench.ids.next())"), 404, "item_not_found")
    let (one, two) = (bench.noteID(), bench.noteID())
    expect(bench.send("POST", "/items/\(one)/transition", ["state": "archived"]), 200)
    expect(bench.send("GET", "/items/\(one)"), 200)
    expect(bench.send("DELETE", "/items/\(two)"), 200)
    expect(bench.send("GET", "/items/\(two)"), 404, "item_not_found")
    let ids: JSON = [.string(one), .string(two), .string(one), .string(bench.ids.next().text)]
    let many = bench.send("POST", "/items/bulk-get", ["ids": ids, "include": ["metadata"]])
    #expect(many.json["items"]?.array?.count == 1)
    #expect(many.json["metadata"]?.array?.count == 1)
    expect(bench.send("POST", "/items/bulk-get", ["ids": "x"]), 400, "validation_error")
  }

  @Test("I-S65 I-S66 I-S67 I-S68 I-S72 I-S73 I-S78 V-S2 V-S3 V-S9 V-S10 V-S19 updates at the current version")
  func updates() {
    let id = bench.noteID("a", ["properties": ["body": "a", "title": "t"]])
    func patch(_ body: JSON) -> Answer { bench.send("PATCH", "/items/\(id)", body) }
    let merged = patch(["version": 1, "properties": ["title": "u"]])
    #expect(merged.item["properties"] == ["body": "a", "title": "u"])
    #expect(merged.item["version"]?.int == 2)
    #expect(patch(["version": 2, "properties": [:]]).item["version"]?.int == 3)
    #expect(patch(["version": 3, "properties": ["title": nil]]).item["properties"]?["title"]?.text == "u")
    #expect(patch(["version": 4, "properties": ["body": nil]]).code == "invalid_properties")
    let replaced = patch(["version": 4, "properties_mode": "replace", "properties": ["body": "b", "title": nil]])
    #expect(replaced.item["properties"] == ["body": "b"])
    expect(
      patch(["version": 5, "properties_mode": "replace", "properties": ["title": "x"]]), 400, "invalid_properties")
    expect(patch(["properties": [:]]), 400, "missing_required_field")
    expect(patch(["version": -1, "properties": [:]]), 400, "validation_error")
    expect(patch(["version": 5]), 400, "validation_error")
    expect(patch(["version": 5, "force_snapshot": true, "properties": [:]]), 400, "validation_error")
    expect(patch(["version": 5, "type": "core.task", "properties": [:]]), 409, "type_mismatch")
    #expect(patch(["version": 5, "type": "core.note", "retype": true]).item["version"]?.int == 5)
    expect(patch(["version": 3, "type": "core.note", "retype": true]), 409, "version_conflict")
    let history = bench.send("GET", "/items/\(id)/versions")
    #expect(history.data.map { $0["version"]?.int } == [1, 2, 3, 4])
    #expect(history.data.first?["properties"] == ["body": "a", "title": "t"])
    #expect(history.data.first?["writer"]?["kind"]?.text == "local")
  }

  @Test("I-S70 I-S75 source ids and moves to another type")
  func moves() {
    _ = bench.noteID("other", ["source_id": "held"])
    let id = bench.noteID("a", ["properties": ["body": "a", "title": "t"]])
    func patch(_ body: JSON) -> Answer { bench.send("PATCH", "/items/\(id)", body) }
    expect(patch(["version": 1, "source_id": "held"]), 409, "source_id_conflict")
    #expect(patch(["version": 1, "source_id": "free"]).item["source_id"]?.text == "free")
    expect(patch(["version": 2, "retype": true, "type": "acme.none"]), 400, "unknown_type")
    expect(patch(["version": 2, "retype": true, "type": "core.message"]), 400, "invalid_properties")
    #expect(patch(["version": 2, "retype": true, "type": "core.task"]).item["type"]?.text == "core.task")
    expect(patch(["version": 3, "retype": true]), 400, "validation_error")
  }

  @Test("I-S82 I-S83 I-S89 ER-S9 V-S72 V-S76 idempotency keys")
  func idempotency() {
    func keyed(_ name: String) -> [HTTPHeader] { [HTTPHeader("Idempotency-Key", name)] }
    let body: JSON = ["type": "core.note", "properties": ["body": "a"]]
    let first = bench.send("POST", "/items", body, headers: keyed("k"))
    let again = bench.send("POST", "/items", body, headers: keyed("k"))
    #expect(again.status == 201)
    #expect(again.response.body == first.response.body)
    #expect(again.response.header("Idempotency-Replayed") == "true")
    #expect(first.response.header("Idempotency-Replayed") == nil)
    #expect(again.response.header("X-Request-ID") != first.response.header("X-Request-ID"))
    #expect(bench.events().count == 1)
    expect(
      bench.send("POST", "/items", ["type": "core.note", "properties": ["body": "b"]], headers: keyed("k")), 422,
      "idempotency_key_reused")
    let patch: JSON = ["version": 1, "properties": ["body": "c"]]
    for _ in 0..<2 {
      #expect(
        bench.send("PATCH", "/items/\(first.id)", patch, headers: keyed("p")).item["version"]?.int == 2)
    }
    let missing = bench.ids.next()
    expect(bench.send("DELETE", "/items/\(missing)", headers: keyed("d")), 404, "item_not_found")
    _ = bench.send("POST", "/items", ["type": "core.note", "id": .string(missing.text), "properties": ["body": "x"]])
    expect(bench.send("DELETE", "/items/\(missing)", headers: keyed("d")), 404, "item_not_found")
    expect(bench.send("POST", "/items", body, headers: keyed("")), 400, "validation_error")
    expect(
      bench.send("POST", "/items", body, headers: keyed(String(repeating: "k", count: 256))), 400, "validation_error")
    expect(bench.send("POST", "/items", body, headers: keyed(String(repeating: "k", count: 255))), 201)
  }

  @Test("I-S95 I-S96 I-S99 I-S106 I-S113 I-S115 I-S116 the bin")
  func bin() {
    let id = bench.noteID()
    func go(_ state: JSON) -> Answer { bench.send("POST", "/items/\(id)/transition", ["state": state]) }
    expect(go("archived"), 200)
    expect(go("archived"), 400, "invalid_transition")
    expect(go("revoked"), 400, "validation_error")
    expect(go("trashed"), 200)
    expect(go("archived"), 400, "invalid_transition")
    let patched = bench.send("PATCH", "/items/\(id)", ["version": 1, "properties": [:]])
    expect(patched, 404, "item_not_found")
    #expect(patched.details == ["trashed": true])
    expect(bench.send("DELETE", "/items/\(id)"), 404, "item_not_found")
    expect(bench.send("POST", "/items/\(id)/restore"), 200)
    #expect(bench.events().last?.kind == "item.restored")
    expect(bench.send("POST", "/items/\(id)/restore"), 400, "invalid_transition")
    expect(bench.send("POST", "/items/\(id)/purge"), 400, "invalid_transition")
    let stale = bench.send("DELETE", "/items/\(id)?version=9")
    expect(stale, 409, "version_conflict")
    #expect(stale.json["current"] != nil && stale.json["ancestor"] == nil)
    expect(bench.send("DELETE", "/items/\(id)?version=0"), 400, "validation_error")
    let other = bench.noteID()
    _ = bench.edge(id, "about", other)
    expect(bench.send("DELETE", "/items/\(id)?version=1"), 200)
    expect(bench.send("POST", "/items/\(id)/purge?x=1"), 400, "validation_error")
    expect(bench.send("POST", "/items/\(id)/purge?version=2"), 409, "version_conflict")
    expect(bench.send("POST", "/items/\(id)/purge?version=1"), 200)
    let last = bench.events().suffix(2)
    #expect(last.map(\.kind) == ["edge.deleted", "item.purged"])
    #expect(last.first?.data["purged_with"]?.text == Text(id))
    expect(bench.send("POST", "/items/\(id)/restore"), 404, "item_not_found")
  }

  @Test("I-S108 a trash takes what hangs beneath, and gives it back")
  func cascade() {
    let (root, child, leaf, apart) = (bench.noteID("r"), bench.noteID("c"), bench.noteID("l"), bench.noteID("p"))
    for (parent, child) in [(root, child), (child, leaf), (root, apart)] {
      expect(bench.edge(parent, "parent-of", child), 201)
    }
    expect(bench.send("DELETE", "/items/\(apart)"), 200)
    expect(bench.send("DELETE", "/items/\(root)"), 200)
    let bin = bench.send("GET", "/items?state=trashed&sort=created_at&direction=asc").data
    #expect(bin.map { $0["trashed_by_cascade"]?.bool } == [nil, true, true, nil])
    #expect(bin[1]["trashed_with"]?.text == Text(root))
    expect(bench.send("POST", "/items/\(root)/restore"), 200)
    let restored = bench.events().suffix(3)
    #expect(restored.map { $0.data["restored_with"]?.text?.string } == [nil, root, root])
    #expect(bench.send("GET", "/items?state=trashed").data.count == 1)
    expect(bench.send("DELETE", "/items/\(root)"), 200)
    expect(bench.send("POST", "/items/\(root)/purge"), 200)
    expect(bench.send("POST", "/items/\(child)/restore"), 200)
    expect(bench.send("GET", "/items/\(leaf)"), 200)
  }

  @Test("I-S128 I-S129 I-S132 extensions")
  func extensions() {
    let id = bench.noteID()
    expect(bench.send("PUT", "/items/\(id)/extensions/app.a", ["x": 1]), 200)
    let both = bench.send("PUT", "/items/\(id)/extensions/app.b", ["y": 2])
    #expect(both.json["extensions"] == ["app.a": ["x": 1], "app.b": ["y": 2]])
    #expect(bench.events().last?.kind == "metadata.changed")
    _ = bench.send("DELETE", "/items/\(id)/extensions/app.a")
    #expect(bench.send("GET", "/items/\(id)/extensions/app.a").json == ["namespace": "app.a", "data": nil])
    expect(bench.send("PUT", "/items/x/extensions/app.a", [:]), 400, "invalid_id")
    expect(bench.send("PUT", "/items/\(bench.ids.next())/extensions/app.a", [:]), 404, "item_not_found")
  }

  @Test("ER-S3 ER-S5 bodies that are none, depth, request ids, paths")
  func shapes() {
    for (raw, type) in [
      ("{", "application/json"), ("", "application/json"), ("[]", "application/json"),
      ("{\"type\":\"core.note\"}", "text/plain"),
    ] as [(String, String)] {
      expect(
        bench.send("POST", "/items", headers: [HTTPHeader("Content-Type", type)], raw: Array(raw.utf8)), 400,
        "validation_error")
    }
    func nested(_ levels: Int) -> JSON {
      // The body and its properties are two levels.
      var value: JSON = 1
      for _ in 0..<(levels - 2) { value = [value] }
      return ["type": "core.note", "properties": ["body": "a", "deep": value]]
    }
    expect(bench.send("POST", "/items", nested(64)), 201)
    expect(bench.send("POST", "/items", nested(65)), 400, "validation_error")
    expect(bench.send("POST", "/items", key: "", raw: [0x7B]), 401, "unauthorized")
    expect(bench.send("PUT", "/items", [:]), 404, "not_found")
    expect(bench.send("GET", "/nowhere"), 404, "not_found")
    let id = String(repeating: "a", count: 128)
    #expect(
      bench.send("GET", "/", headers: [HTTPHeader("X-Request-ID", id)]).response.header("x-request-id") == id)
    let minted = bench.send("GET", "/", headers: [HTTPHeader("X-Request-ID", id + "a")]).response.header("x-request-id")
    #expect(minted.flatMap { EntityID($0) }?.isVersion7 == true)
  }
}
