import LocalInstance
import MarfaBase
import Testing

@Suite("Edges: types, folders, deletes of items")
struct EdgeTypeTests {
  let bench: Bench
  let a: String
  let b: String

  init() throws {
    bench = try Bench()
    a = bench.noteID("a")
    b = bench.noteID("b")
  }

  func state(_ id: String) -> String? {
    let read = bench.send("GET", "/items/\(id)")
    return read.status == 404 ? "trashed" : read.item.string("state")
  }

  @Test("E-S59 in-collection takes a container, from what is no container, on every door")
  func collections() {
    let (album, series) = (bench.album(), bench.made("core.media.series", ["title": "Series"]).id)
    expect(bench.edge(a, "in-collection", album), 201)
    expect(bench.edge(a, "in-collection", series), 201)
    let note = bench.edge(a, "in-collection", b)
    expect(note, 400, "edge_constraint_violation")
    #expect(note.detail("target_type") == "core.note")
    func nested(_ answer: Answer, _ source: String?) {
      expectConstraint(answer, "nesting", [("edge_type", "in-collection"), ("source_type", "core.media.album")])
      if let source { #expect(answer.detail("source_id") == source) }
    }
    nested(bench.edge(album, "in-collection", series), album)
    nested(
      bench.made("core.media.album", ["title": "x"], ["edges": ["in-collection": [.string(series)]]]), nil)
    nested(
      bench.send("PATCH", "/items/\(album)", ["version": 1, "edges": ["in-collection": [.string(series)]]]), album)
    expect(
      bench.send(
        "POST", "/types", ["id": "acme.shelf", "parent": "core.media.album", "fields": [:]]), 201)
    let shelf = bench.made("acme.shelf", ["title": "Shelf"]).id
    expect(bench.edge(b, "in-collection", shelf), 201)
    expectConstraint(bench.edge(shelf, "in-collection", series), "nesting", [("source_type", "acme.shelf")])
    #expect(bench.ids("/items/\(album)/edges").isEmpty)
  }

  @Test("E-S60 in-folder on the list of edge types")
  func inFolder() {
    let type = bench.send("GET", "/edge-types").data.first { $0.string("id") == "in-folder" }
    #expect(type?["source_type_constraints"] == ["*"])
    #expect(type?["target_type_constraints"] == ["system.folder"])
    #expect(type?.string("cardinality") == "many-to-many")
    #expect(type?.string("cascade_on_delete") == "orphan")
    #expect(type?.string("written_at") == "source")
    #expect(type?["reverse_name"] == nil)
    #expect(type?["property_schema"]?.object?.keys == ["path"])
    #expect(type?["property_schema"]?["path"]?.string("type") == "string")
    let (one, two) = (bench.folder("1"), bench.folder("2"))
    for folder in [one, two] { expect(bench.edge(a, "in-folder", folder, ["path": "A.md"]), 201) }
  }

  @Test("E-S62 placing takes write on the note and on in-folder, and read on folders; never writes the folder")
  func placing() {
    let folder = bench.folder()
    let before = bench.send("GET", "/items/\(folder)").item
    let key = bench.mint(["core.note": "write", "system.folder": "read"], edges: ["in-folder": "write"])
    expect(bench.edge(a, "in-folder", folder, ["path": "A.md"], key: key), 201)
    let after = bench.send("GET", "/items/\(folder)").item
    #expect(after["version"] == before["version"] && after["updated_at"] == before["updated_at"])
    let blind = bench.mint(["core.note": "write"], edges: ["in-folder": "write"])
    let unseen = bench.edge(b, "in-folder", folder, ["path": "B.md"], key: blind)
    expect(unseen, 404, "item_not_found")
    #expect(unseen.message == "Edge target item not found: \(folder)")
    let note = bench.edge(a, "in-folder", b, ["path": "B.md"], key: key)
    expect(note, 400, "edge_constraint_violation")
    #expect(note.detail("target_type") == "core.note")
  }

  @Test("E-S63 a revoked folder takes no placement and keeps the ones it held")
  func revoked() {
    let folder = bench.folder()
    let held = bench.edge(a, "in-folder", folder, ["path": "A.md"]).id
    expect(bench.send("POST", "/folders/\(folder)/revoke", [:]), 200)
    expectConstraint(bench.edge(b, "in-folder", folder, ["path": "B.md"]), "revoked")
    #expect(bench.ids("/items/\(folder)/backrefs") == [held])
    expect(bench.send("GET", "/edges/\(held)"), 200)
  }

  @Test("E-S64 a parent's delete takes its children at every depth; a registered cascade type's targets too")
  func cascade() {
    let deep = bench.noteID("deep")
    expect(bench.edge(a, "parent-of", b), 201)
    expect(bench.edge(b, "parent-of", deep), 201)
    bench.trash(a)
    #expect([a, b, deep].map(state) == ["trashed", "trashed", "trashed"])
    expect(bench.registerEdge("owns", "many-to-many", ["cascade_on_delete": "cascade"]), 201)
    let (owner, owned, other) = (bench.noteID(), bench.noteID(), bench.noteID())
    expect(bench.edge(owner, "owns", owned), 201)
    expect(bench.edge(other, "owns", owner), 201)
    bench.trash(owner)
    #expect([owner, owned, other].map(state) == ["trashed", "trashed", "active"])
  }

  @Test("E-S65 supersedes, about, attached-to and references leave the other end, and their rows stay")
  func orphans() {
    for type in ["supersedes", "about", "attached-to", "references"] {
      for deletesSource in [true, false] {
        let (x, y) = (bench.noteID(), bench.noteID())
        let edge = bench.edge(x, type, y).id
        bench.trash(deletesSource ? x : y)
        #expect(state(deletesSource ? y : x) == "active")
        expect(bench.send("GET", "/edges/\(edge)"), 200)
      }
    }
  }

  @Test("E-S66 every readable block edge of the cascade is named, on a delete and on a move to the bin")
  func blocks() {
    expect(bench.registerEdge("holds", "many-to-many", ["cascade_on_delete": "block"]), 201)
    let child = bench.noteID("child")
    expect(bench.edge(a, "parent-of", child), 201)
    let first = bench.edge(bench.noteID(), "holds", a).id
    let second = bench.edge(bench.noteID(), "holds", child).id
    for answer in [
      bench.send("DELETE", "/items/\(a)"), bench.send("POST", "/items/\(a)/transition", ["state": "trashed"]),
    ] {
      expect(answer, 400, "edge_constraint_violation")
      let named = answer.details?["blocking_edges"]?.array?.compactMap { $0.string("id") } ?? []
      #expect(Set(named) == [first, second])
      #expect(answer.message.contains("2"))
    }
    #expect([a, child].map(state) == ["active", "active"])
    expect(bench.send("DELETE", "/edges/\(first)"), 200)
    expect(bench.send("DELETE", "/edges/\(second)"), 200)
    bench.trash(a)
  }

  @Test("E-S67 hidden block edges refuse without a list entry or a count; of mixed ones the readable are listed")
  func hiddenBlocks() {
    expect(bench.registerEdge("holds", "many-to-many", ["cascade_on_delete": "block"]), 201)
    expect(bench.registerEdge("keeps", "many-to-many", ["cascade_on_delete": "block"]), 201)
    let task = bench.task()
    expect(bench.edge(task, "holds", a), 201)
    expect(bench.edge(b, "keeps", a), 201)
    let notes = bench.mint(["core.note": "write"], edges: ["*": "write", "keeps": "none"])
    let hidden = bench.send("DELETE", "/items/\(a)", key: notes)
    expect(hidden, 400, "edge_constraint_violation")
    #expect(hidden.details?["blocking_edges"]?.array?.isEmpty ?? true)
    #expect(!hidden.message.contains { $0.isNumber })
    #expect(!hidden.json.compact.contains(task) && !hidden.json.compact.contains(b))
    let shown = bench.edge(b, "holds", a).id
    let mixed = bench.send("DELETE", "/items/\(a)", key: notes)
    expect(mixed, 400, "edge_constraint_violation")
    #expect(mixed.details?["blocking_edges"]?.array?.map { $0.string("id") } == [shown])
    #expect(mixed.message.contains("1") && !mixed.message.contains("3"))
    #expect(state(a) == "active")
  }

  @Test("E-S68 a blocked item in the bin is purged with its edges on both ends, each announced with it")
  func purge() {
    expect(bench.registerEdge("holds"), 201)
    let out = bench.edge(a, "holds", b).id
    let back = bench.edge(b, "holds", a).id
    let plain = bench.edge(b, "about", a).id
    bench.trash(a)
    expect(bench.send("DELETE", "/edge-types/holds?force=true"), 200)
    expect(bench.registerEdge("holds", "many-to-many", ["cascade_on_delete": "block"]), 201)
    let head = bench.events().last?.id ?? 0
    expect(bench.send("POST", "/items/\(a)/purge", [:]), 200)
    let told = bench.events(after: head)
    #expect(told.map(\.kind) == ["edge.deleted", "edge.deleted", "edge.deleted", "item.purged"])
    #expect(Set(told.dropLast().compactMap { $0.data["edge"]?.string("id") }) == [out, back, plain])
    #expect(told.dropLast().allSatisfy { $0.data.string("purged_with") == a })
    #expect(bench.ids("/edges").isEmpty)
    // One deleted by its own door carries none.
    let own = bench.edge(b, "about", bench.noteID()).id
    expect(bench.send("DELETE", "/edges/\(own)"), 200)
    #expect(bench.events().last?.data["purged_with"] == nil)
  }

  @Test("E-S69 a hidden child goes with its parent and is not named")
  func hiddenChild() {
    let child = bench.task()
    expect(bench.edge(a, "parent-of", child), 201)
    let notes = bench.mint(["core.note": "write"])
    let head = bench.events().last?.id ?? 0
    let gone = bench.send("DELETE", "/items/\(a)", key: notes)
    #expect(gone.status == 200 && gone.json == ["ok": true])
    #expect(state(child) == "trashed")
    #expect(!bench.events(after: head, key: notes).contains { $0.data.compact.contains(child) })
  }

  @Test("E-S70 the ten shipped edge types as the table says, whole, to any credential")
  func shipped() {
    // id, cardinality, target, on delete, reverse name, written at, properties
    let table: [(String, String, String, String, String?, String, [String])] = [
      ("about", "many-to-many", "*", "orphan", nil, "source", []),
      ("attached-to", "many-to-many", "*", "orphan", "has-attachment", "source", []),
      ("authored-by", "many-to-many", "*", "orphan", nil, "source", []),
      ("derived-from", "many-to-many", "*", "orphan", nil, "source", []),
      ("in-collection", "many-to-many", "role:container", "orphan", nil, "source", ["position:number"]),
      ("in-folder", "many-to-many", "system.folder", "orphan", nil, "source", ["path:string"]),
      ("in-thread", "many-to-one", "*", "orphan", nil, "source", ["position:number"]),
      ("parent-of", "one-to-many", "*", "cascade", "child-of", "target", []),
      ("references", "many-to-many", "*", "orphan", nil, "source", []),
      ("supersedes", "one-to-one", "*", "orphan", nil, "source", []),
    ]
    for key in [Bench.ownerKey, bench.mint([:], edges: [:], metadata: [:])] {
      let answer = bench.send("GET", "/edge-types", key: key)
      expect(answer, 200)
      #expect(answer.json["next_cursor"]?.isNull == true)
      #expect(answer.data.compactMap { $0.string("id") }.sorted() == table.map(\.0))
      for (id, cardinality, target, onDelete, reverse, end, properties) in table {
        let type = answer.data.first { $0.string("id") == id } ?? .null
        #expect(type.string("cardinality") == cardinality)
        #expect(type["source_type_constraints"] == ["*"])
        #expect(type["target_type_constraints"] == [.string(target)])
        #expect(type.string("cascade_on_delete") == onDelete)
        #expect(type.string("reverse_name") == reverse)
        #expect(type.string("written_at") == end)
        #expect(type["shipped"]?.bool == true)
        let schema = type["property_schema"]?.object?.members ?? []
        #expect(schema.map { "\($0.key.string):\($0.value.string("type") ?? "")" } == properties)
      }
    }
    expect(bench.registerEdge("likes"), 201)
    #expect(bench.send("GET", "/edge-types", key: bench.mint([:], edges: [:])).data.count == 11)
  }

  @Test("E-S71 a registered edge type is listed and usable at once, with its defaults")
  func registering() {
    let made = bench.registerEdge("likes", "many-to-one")
    expect(made, 201)
    let wanted: JSON = [
      "id": "likes", "cardinality": "many-to-one", "source_type_constraints": ["*"],
      "target_type_constraints": ["*"], "cascade_on_delete": "orphan", "property_schema": [:], "written_at": "source",
      "shipped": false,
    ]
    #expect(made.json["edge_type"] == wanted)
    #expect(bench.send("GET", "/edge-types").data.last == wanted)
    expect(bench.edge(a, "likes", b), 201)
    let full = bench.registerEdge(
      "acme.deal.signed-by", "many-to-many",
      [
        "label": "Signed by", "description": "Who signed", "reverse_name": "signs", "written_at": "target",
        "cascade_on_delete": "cascade", "source_type_constraints": ["core.note", "role:container"],
        "property_schema": ["on": ["type": "date"]],
      ])
    expect(full, 201)
    let type = full.json["edge_type"]
    #expect(type?.string("label") == "Signed by" && type?.string("reverse_name") == "signs")
    #expect(type?.string("written_at") == "target")
    #expect(bench.send("GET", "/edge-types").data.contains { $0 == type })
  }

  @Test("E-S72 each registration that cannot be has its code, in the order of the checks")
  func refusals() {
    expect(bench.registerEdge("held", "many-to-many", ["reverse_name": "is-held"]), 201)
    let count = bench.send("GET", "/edge-types").data.count
    func post(_ body: JSON, key: String? = nil) -> Answer { bench.send("POST", "/edge-types", body, key: key) }
    func named(_ id: String, _ more: JSON = [:]) -> Answer { bench.registerEdge(id, "many-to-many", more) }
    // Permission first, then a missing field, a shipped id, a malformed id.
    let none = bench.mint(metadata: ["tags": "write"])
    expect(post([:], key: none), 403, "forbidden")
    expect(post(["id": "about"]), 400, "missing_required_field")
    expect(post(["cardinality": "many-to-many"]), 400, "missing_required_field")
    expect(named("about"), 409, "conflict")
    let narrow = bench.mint(edges: ["mine": "write"])
    expect(post(["id": "about", "cardinality": "many-to-many"], key: narrow), 409, "conflict")
    for bad in ["Likes", "1st", "a.", "a_", "a-", "app.x", "", "keys.x", "a b"] {
      expect(named(bad, ["extends": "about"]), 400, "validation_error")
      #expect(named(bad).path == "id")
      expect(named("fine", ["reverse_name": .string(bad)]), 400, "validation_error")
    }
    expect(post(["id": "Yours", "cardinality": "many-to-many"], key: narrow), 400, "validation_error")
    // What the edge map does not grant, before extends and before a held id.
    for (id, reverse) in [("yours", nil), ("mine", "yours"), ("held", nil)] as [(String, String?)] {
      var body = JSONObject()
      body["id"] = .string(Text(id))
      body["cardinality"] = "many-to-many"
      body["extends"] = "about"
      if let reverse { body["reverse_name"] = .string(Text(reverse)) }
      let refused = post(.object(body), key: narrow)
      expect(refused, 403, "edge_permission_denied")
      #expect(refused.detail("edge_type") == (reverse ?? id))
    }
    expect(named("held", ["extends": "about"]), 400, "validation_error")
    expect(named("held"), 409, "conflict")
    // Roles, thumbnails, unknown kinds and members.
    expect(named("new", ["target_type_constraints": ["role:shelf"]]), 400, "validation_error")
    for property in [
      ["type": "thumbnail"], ["type": "array", "items_type": "thumbnail"], ["type": "string", "format": "thumbnail"],
    ] as [JSON] {
      expect(named("new", ["property_schema": ["pic": property]]), 400, "validation_error")
    }
    let unknown = named("new", ["property_schema": ["pic": ["type": "image"]]])
    expect(unknown, 400, "invalid_schema")
    #expect(unknown.field == "property_schema.pic.type")
    #expect(
      named("new", ["property_schema": ["pic": ["type": "string", "minimum": 1]]]).field
        == "property_schema.pic.minimum")
    #expect(named("new", ["colour": "red"]).code == "invalid_schema")
    // Names already in use.
    for (id, reverse, field, holder) in [
      ("is-held", nil, "id", "held"), ("new", "held", "reverse_name", "held"),
      ("new", "is-held", "reverse_name", "held"),
      ("new", "about", "reverse_name", "about"), ("new", "child-of", "reverse_name", "parent-of"),
      ("child-of", nil, "id", "parent-of"), ("new", "new", "reverse_name", "new"),
    ] as [(String, String?, String, String)] {
      let refused = named(id, reverse.map { ["reverse_name": .string($0)] } ?? [:])
      expect(refused, 409, "conflict")
      #expect(refused.detail("field") == field)
      #expect(refused.detail("held_by") == holder)
    }
    expect(named("new", ["written_at": "target"]), 400, "validation_error")
    expect(bench.registerEdge("new", "few-to-few"), 400, "validation_error")
    #expect(bench.send("GET", "/edge-types").data.count == count)
  }

  @Test("E-S73 about is always the shipped type")
  func aboutIsShipped() {
    expect(bench.registerEdge("about", "one-to-one"), 409, "conflict")
    #expect(bench.send("GET", "/edge-types").data.filter { $0.string("id") == "about" }.count == 1)
    for _ in 0..<2 { expect(bench.edge(a, "about", bench.noteID()), 201) }
  }

  @Test("E-S74 deleting an edge type")
  func deleting() {
    func delete(_ path: String, key: String? = nil) -> Answer { bench.send("DELETE", "/edge-types/\(path)", key: key) }
    expect(bench.registerEdge("likes"), 201)
    let gone = delete("likes")
    #expect(gone.status == 200 && gone.json == ["ok": true])
    expect(delete("likes"), 404, "edge_type_not_found")
    expect(bench.edge(a, "likes", b), 404, "edge_type_not_found")
    let narrow = bench.mint(edges: ["mine": "write"], permissions: ["schema.write"])
    expect(delete("likes", key: narrow), 404, "edge_type_not_found")
    for path in ["about", "about?force=true"] { expect(delete(path), 400, "validation_error") }
    expect(bench.registerEdge("used", "many-to-many", ["reverse_name": "uses"]), 201)
    expect(delete("used", key: bench.mint()), 403, "forbidden")
    let half = bench.mint(edges: ["used": "write"], permissions: ["schema.write"])
    for (key, name) in [(narrow, "used"), (half, "uses")] {
      for path in ["used", "used?force=true"] {
        let refused = delete(path, key: key)
        expect(refused, 403, "edge_permission_denied")
        #expect(refused.detail("edge_type") == name)
      }
    }
    let edge = bench.edge(a, "used", b).id
    let busy = delete("used")
    expect(busy, 409, "edge_type_in_use")
    #expect(busy.detail("edge_type") == "used")
    expect(delete("used?force=yes"), 400, "validation_error")
    expect(delete("used?force=true"), 200)
    #expect(bench.send("GET", "/edges/\(edge)").edge.string("edge_type") == "used")
    #expect(!bench.send("GET", "/edge-types").data.contains { $0.string("id") == "used" })
  }

  @Test("E-S75 a delete that meets a write: the delete finds it in use, or the write finds no type")
  func deleteRace() throws {
    for (id, writeFirst) in [("likes", true), ("admires", false)] {
      expect(bench.registerEdge(id), 201)
      let (x, y) = (bench.noteID(), bench.noteID())
      var answers: [Answer] = []
      try bench.instance.batch {
        let steps = [{ bench.edge(x, id, y) }, { bench.send("DELETE", "/edge-types/\(id)") }]
        for step in writeFirst ? steps : steps.reversed() { answers.append(step()) }
      }
      #expect(answers.map(\.status) == (writeFirst ? [201, 409] : [200, 404]))
      #expect(answers[1].code == (writeFirst ? "edge_type_in_use" : "edge_type_not_found"))
    }
  }
}
