import LocalInstance
import MarfaBase
import Testing

@Suite("Folder doors")
struct FolderDoorTests {
  let bench: Bench

  init() throws { bench = try Bench() }

  func folder(_ settings: JSON = ["title": "F"], key: String? = nil) -> Answer {
    bench.send("POST", "/folders", settings, key: key)
  }

  func change(_ id: String, _ body: JSON, key: String? = nil) -> Answer {
    bench.send("PATCH", "/folders/\(id)", body, key: key)
  }

  func revoke(_ id: String, key: String? = nil) -> Answer { bench.send("POST", "/folders/\(id)/revoke", key: key) }

  @Test("I-S134 a folder of every setting is made and read as it was sent")
  func everySetting() throws {
    let beneath = string(bench.ids.next().description)
    let settings: JSON = [
      "title": "Kitchen",
      "search": [
        "types": ["core.note", "core.file"], "tier": "library", "state": ["active", "archived"],
        "filter": "tags contains \"kitchen\"", "beneath": beneath,
      ],
      "defaults": [
        "type": "core.note", "tier": "library", "properties": ["language": "en"], "tags": ["kitchen"],
        "edges": ["parent-of": [beneath]],
      ],
      "include": ["*.md", "img/"], "ignore": ["drafts/"],
      "first_placement": ["core.note": "Notes", "core.file": "Files"],
      "removal_threshold": ["files": 10, "fraction": .number(try #require(JSONNumber(0.25)))],
    ]
    let made = folder(settings)
    expect(made, 201)
    #expect(made.type == "system.folder" && made.state == "active" && made.version == 1)
    #expect(made.properties == settings)
    #expect(made.properties.object?.keys == settings.object?.keys)
    #expect(bench.read(made.id).properties == settings)
    #expect(bench.send("GET", "/items?type=system.folder").data.first?["properties"] == settings)
  }

  @Test("I-S135 a create, a change and a revoke are announced once each, as the folder then stands")
  func announced() {
    let held = bench.send("GET", "/events", headers: [HTTPHeader("Last-Event-ID", "0")])
    let id = folder().id
    expect(change(id, ["version": 1, "title": "Other"]), 200)
    expect(revoke(id), 200)
    let events = held.frames().filter { $0.id != nil }
    held.source?.close()
    #expect(events.map(\.kind) == ["item.created", "item.updated", "item.state_changed"])
    #expect(events.map { $0.data["item"]?["properties"]?["title"]?.text } == ["F", "Other", "Other"])
    #expect(events.map { $0.data["item"]?["state"]?.text } == ["active", "active", "revoked"])
  }

  @Test("I-S140 what a change and a revoke refuse")
  func refusals() {
    let id = folder().id
    let note = bench.noteID()
    expect(change(id, ["title": "G"]), 400, "missing_required_field")
    expect(change(id, ["version": 1]), 400, "validation_error")
    expect(change(note, ["version": 1, "title": "G"]), 404, "item_not_found")
    expect(change("NOPE", ["version": 1, "title": "G"]), 400, "invalid_id")
    expect(revoke(note), 404, "item_not_found")
    expect(revoke("NOPE"), 400, "invalid_id")
    expect(change(id, ["version": 1, "title": nil]), 400, "validation_error")
    #expect(bench.read(id).version == 1)
  }

  @Test("I-S141 V-S66 a revoked folder has a time and one more version, and takes no change and no second revoke")
  func revoked() {
    let id = folder().id
    let answer = revoke(id)
    expect(answer, 200)
    #expect(answer.state == "revoked" && answer.version == 2)
    #expect(answer.properties["revoked_at"]?.text?.isEmpty == false)
    expect(revoke(id), 400, "invalid_transition")
    expect(change(id, ["version": 2, "title": "G"]), 400, "invalid_transition")
    #expect(bench.read(id).version == 2)
  }

  @Test("I-S142 write on system.folder alone is enough for the three doors, and nothing else is")
  func writeGrant() throws {
    let only = try bench.mint("only", types: ["system.folder": "write"])
    let made = folder(key: only.token)
    expect(made, 201)
    expect(change(made.id, ["version": 1, "title": "G"], key: only.token), 200)
    let before = bench.read(made.id).json
    for types in [["core.note": "write"], ["system.folder": "read"], ["*": "write", "system.folder": "read"]] as [JSON]
    {
      let key = try bench.mint("k\(bench.ids.next())", types: types)
      for answer in [
        folder(key: key.token), change(made.id, ["version": 2, "title": "H"], key: key.token),
        revoke(made.id, key: key.token), change(made.id, ["nonsense": 1], key: key.token),
      ] { expect(answer, 403, "type_not_permitted") }
    }
    #expect(bench.read(made.id).json == before)
    #expect(bench.send("GET", "/items?type=system.folder").data.count == 1)
    expect(revoke(made.id, key: only.token), 200)
  }

  @Test("I-S143 a key with read on system.folder reads the row; another finds none")
  func readGrant() throws {
    let id = folder().id
    let reader = try bench.mint("r", types: ["system.folder": "read"])
    #expect(bench.read(id, key: reader.token).id == id)
    let other = try bench.mint("o", types: ["core.note": "write"])
    expect(bench.read(id, key: other.token), 404, "item_not_found")
  }

  @Test("I-S145 101 edge types or 101 ids are refused, 100 ids are taken")
  func manyEdges() {
    let id = folder().id
    func ids(_ count: Int) -> JSON { .array((0..<count).map { _ in string(bench.ids.next().description) }) }
    for name in 0..<101 {
      expect(bench.send("POST", "/edge-types", ["id": string("kind\(name)"), "cardinality": "many-to-many"]), 201)
    }
    func types(_ count: Int) -> JSON {
      .object(JSONObject((0..<count).map { (Text("kind\($0)"), JSON.array([])) }))
    }
    for (edges, path) in [
      (types(101), "defaults.edges"), (["parent-of": ids(101)], "defaults.edges.parent-of"),
    ] as [(JSON, String)] {
      for answer in [
        folder(["title": "F", "defaults": ["edges": edges]]), change(id, ["version": 1, "defaults": ["edges": edges]]),
      ] {
        expect(answer, 400, "validation_error")
        #expect(answer.path == path)
      }
    }
    expect(folder(["title": "F", "defaults": ["edges": ["parent-of": ids(100)]]]), 201)
    expect(folder(["title": "F", "defaults": ["edges": types(100)]]), 201)
    expect(change(id, ["version": 1, "defaults": ["edges": ["parent-of": ids(100)]]]), 200)
  }

  @Test("I-S146 a placement that climbs and comes back inside is taken on create and change")
  func insidePlacement() {
    let settings: JSON = ["core.note": "Notes/../Tickets"]
    let made = folder(["title": "F", "first_placement": settings])
    expect(made, 201)
    #expect(made.properties["first_placement"] == settings)
    let changed = change(folder().id, ["version": 1, "first_placement": settings])
    expect(changed, 200)
    #expect(changed.properties["first_placement"] == settings)
  }

  @Test("I-S147 a create under one key answers the first folder again")
  func keyedCreate() {
    let first = bench.send("POST", "/folders", ["title": "F"], headers: under("k"))
    let again = bench.send("POST", "/folders", ["title": "F"], headers: under("k"))
    #expect(again.status == 201 && again.isReplayed && again.id == first.id)
    #expect(again.response.body == first.response.body)
    #expect(bench.send("GET", "/items?type=system.folder").data.count == 1)
  }

  @Test("I-S148 that key with another body is spent on each folder door")
  func spentKey() {
    let id = folder().id
    let requests: [(String, String, JSON?, JSON)] = [
      ("POST", "/folders", ["title": "F"], ["title": "G"]),
      ("PATCH", "/folders/\(id)", ["version": 1, "title": "G"], ["version": 1, "title": "H"]),
      ("POST", "/folders/\(id)/revoke", nil, ["other": 1]),
    ]
    for (method, path, body, other) in requests {
      let first = bench.send(method, path, body, headers: under(path))
      #expect(first.status < 300)
      expect(bench.send(method, path, other, headers: under(path)), 422, "idempotency_key_reused")
    }
  }

  @Test("a bad setting is refused on create and change, each with its path")
  func settings() {
    let id = folder().id
    for directory in ["Notes/../../out", "/Notes", "C:/Notes", "Notes\\..\\..\\out", "Notes\0"] {
      let setting: JSON = ["core.note": string(directory)]
      #expect(folder(["title": "F", "first_placement": setting]).path == "first_placement.core.note")
      #expect(change(id, ["version": 1, "first_placement": setting]).path == "first_placement.core.note")
    }
    let unknown = folder(["title": "F", "first_placement": ["acme.none": "F"]])
    expect(unknown, 400, "unknown_type")
    #expect(unknown.path == "first_placement.acme.none")
    #expect(folder(["title": "F", "defaults": ["type": "system.folder"]]).path == "defaults.type")
    #expect(folder(["title": "F", "defaults": ["edges": ["parent-of": ["x"]]]]).path == "defaults.edges.parent-of")
  }
}
