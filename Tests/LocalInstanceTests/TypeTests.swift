import LocalInstance
import MarfaBase
import Testing

@Suite("Types")
struct TypeTests {
  let bench: Bench
  init() throws { bench = try Bench() }

  func register(_ body: JSON) -> Answer { bench.send("POST", "/types", body) }

  @Test("T-S38 the shipped registry")
  func shipped() {
    let types = bench.send("GET", "/types").data
    #expect(types.count == 23)
    let article = bench.send("GET", "/types/core.media.article").json
    #expect(article["fields"]?["body"]?["required"]?.bool == true)
    #expect(article["fields"]?.object?.keys.prefix(3).map(\.string) == ["title", "body", "author"])
    #expect(bench.send("GET", "/edge-types").data.count == 10)
    expect(bench.send("GET", "/types/acme.none"), 404, "type_not_found")
  }

  @Test("T-S5 T-S8 registering types and refusals")
  func registering() {
    let made = register([
      "id": "app.list.my-entry", "parent": "core.bookmark",
      "fields": [
        "rating": ["type": "enum", "enum_values": ["1", "2"]], "link": ["type": "string", "format": "url"],
      ],
    ])
    expect(made, 201)
    #expect(made.json["type"]?["label"]?.text == "My Entry")
    #expect(made.json["type"]?["fields"]?["link"]?["type"]?.text == "url")
    let bad = bench.send(
      "POST", "/items", ["type": "app.list.my-entry", "properties": ["rating": "3", "link": "no"]])
    expect(bad, 400, "invalid_properties")
    #expect(bad.details?["errors"]?.array?.count == 2)
    expect(register(["id": "app.list.my-entry", "fields": [:]]), 409, "type_already_exists")
    expect(register(["id": "core.x", "fields": [:]]), 403, "forbidden")
    expect(register(["id": "app.x", "fields": [:]]), 400, "validation_error")
    expect(register(["id": "acme.x"]), 400, "missing_required_field")
    expect(register(["fields": [:]]), 400, "invalid_schema")
    expect(register(["id": "acme.x", "fields": ["state": ["type": "string"]]]), 400, "property_shadows_field")
    expect(register(["id": "acme.x", "fields": ["a": ["type": "string", "minimum": 1]]]), 400, "invalid_schema")
    expect(
      register(["id": "acme.x", "parent": "core.note", "fields": ["body": ["type": "string"]]]), 400,
      "inheritance_violation")
    expect(register(["id": "acme.x", "parent": "acme.none", "fields": [:]]), 400, "validation_error")
    expect(bench.send("DELETE", "/types/app.list.my-entry"), 200)
    expect(bench.send("DELETE", "/types/app.list.my-entry"), 404, "type_not_found")
  }

  @Test("a child that overrides its parent's policy; deleting with items held")
  func policies() {
    expect(
      register([
        "id": "acme.memo", "parent": "core.note", "fields": [:],
        "merge_policy": ["fields": ["body": "last_writer_wins"]],
      ]), 201)
    let id = bench.send("POST", "/items", ["type": "acme.memo", "properties": ["body": "a"]]).id
    _ = bench.send("PATCH", "/items/\(id)", ["version": 1, "properties": ["body": "b"]])
    let resolved = bench.send(
      "PATCH", "/items/\(id)?conflict=auto", ["version": 1, "properties": ["body": "c"]])
    #expect(resolved.item["properties"]?["body"]?.text == "c")
    #expect(resolved.json["conflict_resolution"]?["conflicted_copy_id"] == nil)
    expect(bench.send("DELETE", "/types/acme.memo"), 409, "type_in_use")
    expect(bench.send("DELETE", "/types/acme.memo?force=true"), 200)
    expect(bench.send("PATCH", "/items/\(id)", ["version": 3, "tier": "feed"]), 400, "unknown_type")
    expect(bench.send("POST", "/items/\(id)/tags", ["tags": ["x"]]), 200)
  }

  @Test("registered edge types: usable, blocking, deleted")
  func edgeTypes() {
    let made = bench.send(
      "POST", "/edge-types", ["id": "holds", "cardinality": "many-to-many", "cascade_on_delete": "block"])
    expect(made, 201)
    #expect(made.json["edge_type"]?["shipped"]?.bool == false)
    let (a, b) = (bench.noteID(), bench.noteID())
    expect(bench.edge(a, "holds", b), 201)
    let refused = bench.send("DELETE", "/items/\(b)")
    expect(refused, 400, "edge_constraint_violation")
    #expect(refused.details?["blocking_edges"]?.array?.count == 1)
    expect(bench.send("DELETE", "/edge-types/holds"), 409, "edge_type_in_use")
    expect(bench.send("DELETE", "/edge-types/holds?force=true"), 200)
    expect(bench.send("DELETE", "/edge-types/about"), 400, "validation_error")
    expect(bench.send("DELETE", "/items/\(b)"), 200)
  }
}
