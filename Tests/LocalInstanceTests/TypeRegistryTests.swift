import LocalInstance
import MarfaBase
import Testing

@Suite("Types: identifiers and registration")
struct TypeRegistryTests {
  let bench: Bench
  init() throws { bench = try Bench() }

  func register(_ body: JSON, key: String? = nil) -> Answer { bench.send("POST", "/types", body, key: key) }
  func replace(_ id: String, _ body: JSON, key: String? = nil) -> Answer {
    bench.send("PUT", "/types/\(id)", body, key: key)
  }
  func fields(_ id: String, _ fields: JSON, _ more: JSON = [:]) -> JSON {
    var body = JSONObject()
    body["id"] = .string(Text(id))
    body["fields"] = fields
    for (name, value) in more.object?.members ?? [] { body[name] = value }
    return .object(body)
  }
  func read(_ id: String, key: String? = nil) -> Answer { bench.send("GET", "/types/\(id)", key: key) }
  var count: Int { bench.send("GET", "/types").data.count }

  @Test("T-S1 well-formed identifiers nothing registered are unknown types")
  func wellFormed() {
    let long = "acme." + String(repeating: "a", count: 123)
    #expect(long.utf8.count == 128)
    for id in [
      "user.recipe", "acme.deal", "com.example.app.a.b", "local.my-type", "eval.custom_type", "a.b2-c_d", "app.list.x",
      "acme-2.x", long,
    ] {
      expect(bench.made(id, ["a": 1]), 400, "unknown_type")
      expect(bench.send("GET", "/items?type=\(id)"), 400, "unknown_type")
    }
  }

  @Test("T-S2 malformed identifiers are refused naming the member, on items, filters and registration")
  func malformed() {
    for id in [
      "recipe", "acme.Deal", "acme/deal", "2acme.deal", "acme.2deal", "acme..deal", "acme.deal.", ".deal",
      "acme." + String(repeating: "a", count: 124), "app.x", "app.a.b.c", "",
    ] {
      let item = bench.made(id, ["a": 1])
      expect(item, 400, "validation_error")
      #expect(item.path == "type")
      if !id.isEmpty {
        let listed = bench.send("GET", "/items?type=\(id)")
        expect(listed, 400, "validation_error")
        #expect(listed.path == "type")
      }
      let registered = register(fields(id, [:]))
      expect(registered, 400, "validation_error")
      #expect(registered.path == "id")
    }
  }

  @Test("T-S3 a root that heads a permission family is malformed; one that only begins like it is ordinary")
  func reservedRoots() {
    for root in [
      "schema", "keys", "items", "webhooks", "config", "audit", "grants", "content", "metadata", "edge", "profile",
      "space", "blobs", "connectors", "instance",
    ] {
      let item = bench.made("\(root).deal", ["a": 1])
      expect(item, 400, "validation_error")
      #expect(item.path == "type")
      expect(register(fields("\(root).deal", [:])), 400, "validation_error")
      expect(register(fields("\(root)-pub.deal", [:])), 201)
      expect(bench.made("\(root)-pub.deal", ["a": 1]), 201)
    }
    expect(register(fields("core-pub.deal", [:])), 201)
  }

  @Test("T-S4 the instance's own namespaces take no registration, whoever asks")
  func ownNamespaces() {
    let before = count
    let narrow = bench.mint(["acme.*": "write"])
    for id in ["core.x", "system.x", "marfa.x", "core.note"] {
      for key in [Bench.ownerKey, narrow] {
        let refused = register(fields(id, [:]), key: key)
        expect(refused, 403, "forbidden")
        #expect(refused.detail("namespace") == id.split(separator: ".").first.map(String.init))
      }
    }
    #expect(count == before)
  }

  @Test("T-S6 registering takes metadata.types and write on the id")
  func permission() {
    let none = bench.mint(metadata: ["tags": "write", "types": "read"])
    let refused = register(fields("acme.deal", [:]), key: none)
    expect(refused, 403, "forbidden")
    #expect(refused.detail("metadata_subresource") == "types")
    let narrow = bench.mint(["other.*": "write", "acme.*": "read"])
    expect(register(fields("acme.held", [:])), 201)
    for id in ["acme.deal", "acme.held"] {
      let outside = register(fields(id, [:]), key: narrow)
      expect(outside, 403, "type_not_permitted")
      #expect(outside.details?["grant"]?.string("name") == id)
    }
    expect(read("acme.deal"), 404, "type_not_found")
  }

  @Test("T-S7 a registered id is taken, but a bad schema is told first")
  func duplicate() {
    let first = register(fields("acme.deal", ["a": ["type": "string"]]))
    expect(first, 201)
    expect(register(fields("acme.deal", ["b": ["type": "string"]])), 409, "type_already_exists")
    expect(register(fields("acme.deal", ["b": ["type": "text"]])), 400, "invalid_schema")
    expect(register(["id": "acme.deal"]), 400, "missing_required_field")
    expect(register(fields("acme.deal", ["state": ["type": "string"]])), 400, "property_shadows_field")
    #expect(read("acme.deal").json == first.json["type"])
  }

  @Test("T5.6 T13.2 a version below 0 and a hint of another name are refused; one compatible type may stand as a text")
  func members() {
    let field: JSON = ["body": ["type": "string", "required": true]]
    let low = register(fields("user.low", field, ["version": -1]))
    expect(low, 400, "invalid_schema")
    #expect(low.field == "version")
    let hint = register(fields("user.hint", field, ["display_hints": ["zz": "body"]]))
    expect(hint, 400, "invalid_schema")
    #expect(hint.field == "display_hints")
    let made = register(fields("user.one", field, ["compatible_with": "core.note"]))
    expect(made, 201)
    #expect(made.json["type"]?["compatible_with"] == ["core.note"])
  }

  @Test("T-S9 names of an item's own members shadow it; names JavaScript knows are ordinary")
  func shadowing() {
    expect(register(fields("acme.held", [:])), 201)
    let names: [Text] = [
      "id", "type", "state", "tier", "properties", "created_at", "updated_at", "occurred_at", "source", "source_id",
      "version", "schema_version", "capture_latitude", "capture_longitude", "trashed_by_cascade", "trashed_with",
    ]
    for name in names {
      let shadow = JSON.object(
        JSONObject([(name, JSON.object(JSONObject([(Text("type"), JSON.string(Text("string")))])))]))
      for answer in [register(fields("acme.deal", shadow)), replace("acme.held", ["fields": shadow])] {
        expect(answer, 400, "property_shadows_field")
        #expect(answer.field == name.string)
      }
    }
    var all = JSONObject()
    for name in ["toString", "valueOf", "constructor", "hasOwnProperty", "__proto__"] as [Text] {
      all[name] = ["type": "string"]
    }
    expect(register(fields("acme.deal", .object(all))), 201)
    expect(bench.made("acme.deal", ["toString": "a", "constructor": "b"]), 201)
    expect(bench.made("acme.deal", ["valueOf": 1]), 400, "invalid_properties")
  }

  @Test("T-S10 a label is kept, or made of the id's last segment, in list and read; shipped types have one")
  func labels() {
    for (id, label, wanted) in [
      ("acme.one", "Deal of the day", "Deal of the day"), ("acme.my-type", nil, "My Type"),
      ("acme.my_other-kind", "", "My Other Kind"),
    ] as [(String, String?, String)] {
      let made = register(fields(id, [:], label.map { ["label": .string($0)] } ?? [:]))
      #expect(made.json["type"]?.string("label") == wanted)
      #expect(read(id).json.string("label") == wanted)
      #expect(bench.send("GET", "/types").data.first { $0.string("id") == id }?.string("label") == wanted)
    }
    #expect(bench.send("GET", "/types").data.allSatisfy { !($0.string("label") ?? "").isEmpty })
  }

  @Test("T-S11 an unknown id is not found on read, replace and delete, whatever the map")
  func unknown() {
    let narrow = bench.mint(["other.x": "read"], permissions: ["schema.write"])
    for key in [Bench.ownerKey, narrow] {
      expect(read("acme.none", key: key), 404, "type_not_found")
      expect(replace("acme.none", ["fields": [:]], key: key), 404, "type_not_found")
      expect(bench.send("DELETE", "/types/acme.none", key: key), 404, "type_not_found")
    }
    expect(replace("None", ["fields": [:]]), 400, "validation_error")
  }

  @Test("T-S12 a key that reads two types lists every type and edge type")
  func open() {
    expect(register(fields("acme.deal", [:])), 201)
    let narrow = bench.mint(["core.note": "read", "core.task": "read"], edges: [:])
    #expect(bench.send("GET", "/types", key: narrow).json == bench.send("GET", "/types").json)
    #expect(bench.send("GET", "/edge-types", key: narrow).json == bench.send("GET", "/edge-types").json)
    #expect(read("acme.deal", key: narrow).status == 200)
    #expect(read("core.event", key: narrow).json == read("core.event").json)
  }

  @Test("T-S13 a child has its parent's fields; it may add, repeat and tighten, never reshape or loosen")
  func inheritance() {
    expect(
      register(
        fields(
          "acme.base",
          [
            "name": ["type": "string", "required": true, "maxLength": 9], "rank": ["type": "integer"],
            "kind": ["type": "enum", "enum_values": ["a"]],
          ]
        )), 201)
    let child: JSON = [
      "more": ["type": "date"], "rank": ["type": "integer", "required": true, "description": "Place"],
    ]
    expect(register(fields("acme.child", child, ["parent": "acme.base"])), 201)
    let resolved = read("acme.child").json
    #expect(resolved["fields"]?.object?.keys.map(\.string) == ["name", "rank", "kind", "more"])
    #expect(resolved["fields"]?["rank"]?["required"]?.bool == true)
    expect(bench.made("acme.child", ["name": "n", "rank": 1, "more": "2026-01-01"]), 201)
    let missing = bench.made("acme.child", ["more": "2026-01-01"])
    expect(missing, 400, "invalid_properties")
    #expect(Set((missing.details?["errors"]?.array ?? []).compactMap { $0.string("field") }) == ["name", "rank"])
    for (field, bad) in [
      ("rank", ["type": "number"]), ("name", ["type": "string", "maxLength": 9]),
      ("name", ["type": "string", "required": true, "maxLength": 8]), ("kind", ["type": "enum", "enum_values": ["b"]]),
      ("rank", ["type": "integer", "searchable": false]),
      ("name", ["type": "string", "required": true, "maxLength": 9, "format": "bcp47"]),
    ] as [(String, JSON)] {
      var reshaped = JSONObject()
      reshaped[Text(field)] = bad
      for answer in [
        register(fields("acme.other", .object(reshaped), ["parent": "acme.base"])),
        replace("acme.child", ["parent": "acme.base", "fields": .object(reshaped)]),
      ] {
        expect(answer, 400, "inheritance_violation")
        #expect(answer.field == field)
      }
    }
    // From the parent's side too.
    for (field, now) in [
      ("more", ["type": "string"]), ("rank", ["type": "number"]),
    ] as [(String, JSON)] {
      var changed = JSONObject()
      changed["name"] = ["type": "string", "required": true, "maxLength": 9]
      changed[Text(field)] = now
      let answer = replace("acme.base", ["fields": .object(changed)])
      expect(answer, 400, "inheritance_violation")
      #expect(answer.field == field)
    }
    #expect(read("acme.child").json == resolved)
    // A redeclared field that says the default aloud is the same field.
    expect(
      register(fields("acme.same", ["rank": ["type": "integer", "searchable": true]], ["parent": "acme.base"])), 201)
  }

  @Test("T-S14 an unknown parent, a chain too long, a circle; an unwritable parent is told first")
  func parents() {
    expect(register(fields("acme.x", [:], ["parent": "acme.none"])), 400, "validation_error")
    for place in 0...10 {
      expect(
        register(fields("acme.t\(place)", [:], place == 0 ? [:] : ["parent": .string("acme.t\(place - 1)")])), 201)
    }
    expect(register(fields("acme.t11", [:], ["parent": "acme.t10"])), 400, "validation_error")
    // One more ancestor at the top would be one too many at the bottom.
    expect(register(fields("acme.top", [:])), 201)
    expect(replace("acme.t0", ["parent": "acme.top", "fields": [:]]), 400, "validation_error")
    expect(replace("acme.t0", ["parent": "acme.t4", "fields": [:]]), 400, "validation_error")
    expect(replace("acme.t0", ["parent": "acme.t0", "fields": [:]]), 400, "validation_error")
    let narrow = bench.mint(["mine.*": "write", "acme.*": "read"], permissions: ["schema.write"])
    for parent in ["acme.none", "acme.t0"] {
      let refused = register(fields("mine.x", [:], ["parent": .string(parent)]), key: narrow)
      expect(refused, 403, "type_not_permitted")
      #expect(refused.details?["grant"]?.string("name") == parent)
    }
    // A shipped parent, and keeping the stored one, take no write on it.
    expect(register(fields("mine.note", [:], ["parent": "core.note"]), key: narrow), 201)
    expect(register(fields("mine.kept", [:], ["parent": "acme.t0"])), 201)
    expect(replace("mine.kept", ["parent": "acme.t0", "label": "Kept", "fields": [:]], key: narrow), 200)
  }

  @Test("T-S15 a child without hints has the nearest ancestor's, whole")
  func hints() {
    expect(
      register(
        fields(
          "acme.a", ["name": ["type": "string"], "text": ["type": "string"]],
          ["display_hints": ["title_field": "name", "body_field": "text"]])), 201)
    expect(
      register(
        fields("acme.b", ["head": ["type": "string"]], ["parent": "acme.a", "display_hints": ["title_field": "head"]])),
      201)
    expect(register(fields("acme.c", [:], ["parent": "acme.b"])), 201)
    #expect(read("acme.c").json["display_hints"] == ["title_field": "head"])
    #expect(read("acme.b").json["display_hints"] == ["title_field": "head"])
    let listed = bench.send("GET", "/types").data.first { $0.string("id") == "acme.c" }
    #expect(listed?["display_hints"] == nil)
    #expect(read("core.media.song").json["display_hints"]?.string("title_field") == "title")
  }

  @Test("T-S16 the list answers declared policies, a read resolved ones; roles are resolved in both")
  func policies() {
    expect(
      register(
        fields(
          "acme.album", ["notes2": ["type": "string"]],
          [
            "parent": "core.media.album", "merge_policy": ["fields": ["notes2": "keep_both_copies"]],
            "version_policy": ["recent_days": 3],
          ])), 201)
    let listed = bench.send("GET", "/types").data.first { $0.string("id") == "acme.album" }
    #expect(listed?["merge_policy"] == ["fields": ["notes2": "keep_both_copies"]])
    #expect(listed?["version_policy"] == ["recent_days": 3])
    #expect(listed?["roles"] == ["container"])
    let resolved = read("acme.album").json
    #expect(resolved["merge_policy"]?.string("default") == "last_writer_wins")
    for field in ["body", "notes", "notes2"] as [Text] {
      #expect(resolved["merge_policy"]?["fields"]?.string(field) == "keep_both_copies")
    }
    #expect(resolved["version_policy"]?["recent_days"]?.int == 3)
    #expect(resolved["roles"] == ["container"])
  }

  @Test("T-S17 a listing by a type takes its subtypes, by declared parent and by identifier")
  func subtree() {
    expect(register(fields("acme.firm", [:], ["parent": "core.entity"])), 201)
    expect(register(fields("acme.deal", [:])), 201)
    expect(register(fields("acme.deal.big", [:])), 201)
    let entity = bench.made("core.entity", ["name": "e"]).id
    let person = bench.made("core.entity.person", ["name": "p"]).id
    let firm = bench.made("acme.firm", ["name": "f"]).id
    #expect(Set(bench.ids("/items?type=core.entity")) == [entity, person, firm])
    #expect(bench.ids("/items?type=core.entity.person") == [person])
    #expect(bench.ids("/items?type=acme.firm") == [firm])
    let deal = bench.made("acme.deal", ["a": 1]).id
    let big = bench.made("acme.deal.big", ["a": 1]).id
    #expect(Set(bench.ids("/items?type=acme.deal")) == [deal, big])
    #expect(bench.ids("/items?type=acme.deal.big") == [big])
  }

  @Test("T-S18 compatible_with is taken only where every field is readable as the target's")
  func compatible() {
    expect(
      register(
        fields(
          "acme.target",
          [
            "name": ["type": "string", "required": true], "size": ["type": "number"],
            "kind": ["type": "enum", "enum_values": ["a", "b"]], "list": ["type": "array", "items_type": "string"],
            "lang": ["type": "string", "format": "bcp47"],
          ])), 201)
    func judge(_ own: JSON, _ target: String = "acme.target") -> [Answer] {
      let answers = [
        register(fields("acme.new", own, ["compatible_with": [.string(target)]])),
        replace("acme.held", ["fields": own, "compatible_with": [.string(target)]]),
      ]
      if answers[0].status == 201 { expect(bench.send("DELETE", "/types/acme.new"), 200) }
      return answers
    }
    expect(register(fields("acme.held", [:])), 201)
    let name: JSON = ["type": "url", "required": true]
    for good in [
      ["name": name], ["name": name, "size": ["type": "integer"]],
      ["name": name, "kind": ["type": "enum", "enum_values": ["b"]]],
      [
        "name": ["type": "enum", "enum_values": ["x"], "required": true],
        "list": ["type": "array", "items_type": "string"],
      ],
    ] as [JSON] {
      #expect(judge(good).map(\.status) == [201, 200])
    }
    for bad in [
      [:], ["name": ["type": "string"]], ["name": ["type": "number", "required": true]],
      ["name": name, "size": ["type": "string"]], ["name": name, "kind": ["type": "enum", "enum_values": ["c"]]],
      ["name": name, "list": ["type": "array", "items_type": "number"]], ["name": name, "lang": ["type": "string"]],
    ] as [JSON] {
      for answer in judge(bad) { expect(answer, 422, "compatible_with_violation") }
    }
    for answer in judge(["name": name], "acme.none") { expect(answer, 422, "compatible_with_violation") }
  }

  @Test("T-S19 items of a custom type archive, go to the bin and come back")
  func lifecycle() {
    expect(register(fields("acme.deal", [:])), 201)
    let id = bench.made("acme.deal", ["a": 1]).id
    #expect(bench.move(id, "archived").state == "archived")
    #expect(bench.move(id, "active").state == "active")
    bench.trash(id)
    #expect(bench.state(id) == "trashed")
    #expect(bench.restore(id).state == "active")
  }

  @Test("T-S20 merge policies: stored, refused, resolved, overridden")
  func mergePolicy() {
    func policy(_ value: JSON) -> JSON { ["parent": "core.note", "merge_policy": value] }
    expect(register(fields("acme.memo", [:], ["parent": "core.note"])), 201)
    for bad in [
      ["fields": ["nothing": "keep_both_copies"]], ["fields": ["body": "newest"]], ["default": "newest"],
    ] as [JSON] {
      expect(register(fields("acme.other", [:], policy(bad))), 400, "invalid_schema")
      expect(replace("acme.memo", fields("acme.memo", [:], policy(bad))), 400, "invalid_schema")
    }
    let wanted: JSON = ["default": "keep_both_copies", "fields": ["body": "last_writer_wins"]]
    expect(replace("acme.memo", fields("acme.memo", [:], policy(wanted))), 200)
    #expect(bench.send("GET", "/types").data.first { $0.string("id") == "acme.memo" }?["merge_policy"] == wanted)
    let resolved = read("acme.memo").json["merge_policy"]
    #expect(resolved?.string("default") == "keep_both_copies")
    #expect(resolved?["fields"]?.string("body") == "last_writer_wins")
    #expect(resolved?["fields"]?.string("notes") == "keep_both_copies")
    expect(register(fields("acme.memo2", [:], ["parent": "acme.memo"])), 201)
    #expect(read("acme.memo2").json["merge_policy"] == resolved)
    #expect(read("core.note").json["merge_policy"]?["fields"]?.string("body") == "keep_both_copies")
    #expect(read("core.media.song").json["merge_policy"]?["fields"]?.string("notes") == "keep_both_copies")
    #expect(read("core.media.song").json["merge_policy"]?.string("default") == "last_writer_wins")
  }
}
