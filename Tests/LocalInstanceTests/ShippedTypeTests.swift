import LocalInstance
import MarfaBase
import Testing

@Suite("Types: shipped")
struct ShippedTypeTests {
  let bench: Bench
  init() throws { bench = try Bench() }

  @Test("T-S39 a message needs body and from, and takes to as a list in any format")
  func message() {
    expect(bench.made("core.message", ["body": "hi", "from": "ada"]), 201)
    for to in [["ada@example.org"], ["+44 20 7946 0000", 5, ["name": "Bo"]], []] as [JSON] {
      let made = bench.made("core.message", ["body": "hi", "from": "ada", "to": to])
      expect(made, 201)
      #expect(made.item["properties"]?["to"] == to)
    }
    expect(bench.made("core.message", ["body": "hi", "from": "ada", "to": "bo"]), 400, "invalid_properties")
    #expect(bench.made("core.message", ["from": "ada"]).field == "body")
    #expect(bench.made("core.message", ["body": "hi"]).field == "from")
    #expect(bench.send("GET", "/types/core.message").json["display_hints"] == ["body_field": "body"])
  }

  @Test("T-S40 a highlight needs its text; its locator is one of six; no time of its own")
  func highlight() {
    for locator in ["offset", "page", "time", "cfi", "order", "none"] {
      expect(bench.made("core.highlight", ["text": "t", "locator_type": .string(locator)]), 201)
      expect(bench.made("core.highlight", ["text": "t", "note": "n", "locator_type": .string(locator)]), 201)
    }
    expect(bench.made("core.highlight", ["text": "t", "locator_type": "line"]), 400, "invalid_properties")
    #expect(bench.made("core.highlight", ["note": "n"]).field == "text")
    let fields = bench.send("GET", "/types/core.highlight").json["fields"]
    #expect(fields?["highlighted_at"] == nil)
    let made = bench.made("core.highlight", ["text": "t"], ["occurred_at": "2020-05-06"])
    #expect(made.item.string("occurred_at") == "2020-05-06T00:00:00.000Z")
  }

  @Test("T-S41 an entity needs its name; person and place add fields and need it too")
  func entities() {
    for (type, own, value) in [
      ("core.entity", "legal_name", "Acme"), ("core.entity.person", "family_name", "Lovelace"),
      ("core.entity.place", "locality", "London"),
    ] as [(String, Text, JSON)] {
      var properties = JSONObject()
      properties["name"] = "n"
      properties[own] = value
      expect(bench.made(type, .object(properties)), 201)
      #expect(bench.made(type, .object(JSONObject([(own, value)]))).field == "name")
      let fields = bench.send("GET", "/types/\(type)").json["fields"]
      #expect(fields?["name"]?["required"]?.bool == true && fields?[own] != nil)
    }
    #expect(bench.send("GET", "/types/core.entity").json["fields"]?["family_name"] == nil)
    #expect(bench.send("GET", "/types/core.entity.person").json["fields"]?["legal_name"] != nil)
  }

  @Test("T-S42 a connection has the kind app alone and none of the retired fields")
  func connection() {
    let fields = bench.send("GET", "/types/system.connection").json["fields"]
    #expect(fields?["kind"]?["enum_values"] == ["app"])
    for name in [
      "attached_device", "feed_activity", "last_error_at", "last_sync_at", "mapping_reapply_until", "next_run_at",
      "runtime_status", "triggers", "connector_id", "credential_id", "configuration", "direction", "mapping",
    ] as [Text] {
      #expect(fields?[name] == nil)
    }
    let rows = bench.send("GET", "/items?type=system.connection").data
    #expect(rows.allSatisfy { $0["properties"]?["connector_id"] == nil })
  }

  @Test("T-S44 the catalog resolved by hand is the table's fields, order and required flags, and a live read's")
  func catalog() throws {
    let json = try JSON(parsing: ShippedCatalog.json)
    let types = json["types"]?.array ?? []
    func entry(_ id: String) -> JSON { types.first { $0.string("id") == id } ?? .null }
    /// The parent's fields in the parent's order, a redeclared one in its place, then the type's own (T0.4).
    func resolved(_ type: JSON) -> [(String, Bool, String)] {
      var fields = type.string("parent").map { resolved(entry($0)) } ?? []
      for field in type["fields"]?.array ?? [] {
        let own = (field.string("name") ?? "", field["required"]?.bool ?? false, field.string("kind") ?? "")
        if let place = fields.firstIndex(where: { $0.0 == own.0 }) { fields[place] = own } else { fields.append(own) }
      }
      return fields
    }
    let required: [String: Set<String>] = [
      "core.bookmark": [], "core.entity": ["name"], "core.entity.person": ["name"], "core.entity.place": ["name"],
      "core.event": ["title"], "core.file": ["blob_ref", "mime_type"], "core.file.audio": ["blob_ref", "mime_type"],
      "core.file.image": ["blob_ref", "mime_type"], "core.file.video": ["blob_ref", "mime_type"],
      "core.highlight": ["text"], "core.media": ["title"], "core.media.album": ["title"],
      "core.media.article": ["title", "body"], "core.media.book": ["title"], "core.media.episode": ["title"],
      "core.media.film": ["title"], "core.media.series": ["title"], "core.media.song": ["title"],
      "core.message": ["body", "from"], "core.note": ["body"], "core.task": ["title"],
      "system.connection": ["kind", "status", "granted_at"], "system.folder": ["title"],
    ]
    #expect(types.count == required.count)
    for type in types {
      let id = type.string("id") ?? ""
      let fields = resolved(type)
      #expect(Set(fields.filter(\.1).map(\.0)) == required[id], "\(id)")
      let live = bench.send("GET", "/types/\(id)").json
      #expect(live["version"]?.int == 0)
      #expect(live["fields"]?.object?.keys.map(\.string) == fields.map(\.0))
      #expect(live["fields"]?.object?.members.map { $0.value["required"]?.bool ?? false } == fields.map(\.1))
      #expect(live["fields"]?.object?.members.map { $0.value.string("type") ?? "" } == fields.map(\.2))
      #expect(live["link_field"] == nil)
      for field in live["fields"]?.object?.members ?? [] {
        #expect(field.value["maxLength"] == nil && field.value["searchable"] == nil)
      }
    }
  }
}
