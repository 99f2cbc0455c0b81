import LocalInstance
import MarfaBase
import Testing

@Suite("The bin")
struct LifecycleTests {
  let bench: Bench

  init() throws { bench = try Bench() }

  /// A block edge type, which holds what it links.
  func registerBlock() {
    expect(
      bench.send(
        "POST", "/edge-types", ["id": "holds", "cardinality": "many-to-many", "cascade_on_delete": "block"]), 201)
  }

  func mark(_ id: String, key: String? = nil) -> (Bool?, String?) {
    let row = bench.listed(id, key: key)
    return (row?["trashed_by_cascade"]?.bool, row?["trashed_with"]?.text?.string)
  }

  @Test("I-S94 rows of every type go active, archived, active, trashed; other moves are refused")
  func transitions() {
    expect(bench.send("POST", "/types", ["id": "acme.thing", "fields": [:]]), 201)
    let rows = [
      bench.create("core.note", ["body": "a"]), bench.create("core.message", ["body": "a", "from": "b"]),
      bench.create("acme.thing", [:]),
    ]
    for row in rows {
      expect(bench.move(row.id, "active"), 400, "invalid_transition")
      for state in ["archived", "active", "trashed"] {
        let moved = bench.move(row.id, string(state))
        expect(moved, 200)
        #expect(moved.state == state)
        #expect(bench.state(row.id) == state)
        expect(bench.move(row.id, string(state)), 400, "invalid_transition")
      }
      expect(bench.move(row.id, "archived"), 400, "invalid_transition")
      #expect(bench.move(row.id, "active").state == "active")
    }
  }

  @Test("I-S97 a write to a trashed row says so to a key that may read the type, to no other")
  func writesInBin() throws {
    let id = bench.noteID("a", ["tags": ["t"]])
    expect(bench.delete(id), 200)
    let reader = try bench.mint("r", types: ["core.note": "read"])
    let blind = try bench.mint("b", types: ["core.task": "write"])
    let writes: [(String, String, JSON?)] = [
      ("PATCH", "", ["version": 1, "properties": [:]]), ("DELETE", "", nil), ("PUT", "/metadata", ["tags": []]),
      ("PATCH", "/metadata", ["tags": ["x"]]), ("POST", "/tags", ["tags": ["x"]]), ("DELETE", "/tags/t", nil),
      ("PUT", "/extensions/app.a", [:]), ("DELETE", "/extensions/app.a", nil),
    ]
    for (method, path, body) in writes {
      for key in [Bench.ownerKey, reader.token] {
        let answer = bench.send(method, "/items/\(id)\(path)", body, key: key)
        expect(answer, 404, "item_not_found")
        #expect(answer.details == ["trashed": true], "\(method) \(path)")
      }
      let hidden = bench.send(method, "/items/\(id)\(path)", body, key: blind.token)
      expect(hidden, 404, "item_not_found")
      #expect(hidden.details == nil, "\(method) \(path)")
    }
  }

  @Test("I-S98 no state lists active rows, trashed the bin, any every row")
  func states() {
    let ids = ["active", "archived", "trashed"].map { bench.noteID("a", ["state": string($0)]) }
    let folder = bench.send("POST", "/folders", ["title": "F"]).id
    expect(bench.send("POST", "/folders/\(folder)/revoke"), 200)
    #expect(bench.send("GET", "/items").ids == [ids[0]])
    #expect(bench.send("GET", "/items?include=system").ids == [ids[0]])
    #expect(bench.send("GET", "/items?state=trashed").ids == [ids[2]])
    #expect(Set(bench.send("GET", "/items?state=any").ids) == Set(ids))
    #expect(Set(bench.send("GET", "/items?state=any&include=system").ids) == Set(ids + [folder]))
  }

  @Test("I-S100 a version of 0, -1 or text on a delete or purge is refused")
  func badVersions() {
    let (live, binned) = (bench.noteID(), bench.noteID())
    expect(bench.delete(binned), 200)
    for bad in ["0", "-1", "one", "1.5", ""] {
      expect(bench.send("DELETE", "/items/\(live)?version=\(bad)"), 400, "validation_error")
      expect(bench.send("POST", "/items/\(binned)/purge?version=\(bad)"), 400, "validation_error")
    }
    #expect(bench.state(live) == "active" && bench.state(binned) == "trashed")
  }

  @Test("I-S101 children at depth go with their parent and come back, singly and in a bulk action")
  func cascades() {
    let (root, child, leaf) = (bench.noteID("r", ["tags": ["root"]]), bench.noteID("c"), bench.noteID("l"))
    bench.parent(root, child)
    bench.parent(child, leaf)
    let all = [root, child, leaf]
    let takes: [() -> Void] = [
      { expect(bench.delete(root), 200) }, { expect(bench.move(root, "trashed"), 200) },
      {
        let job = bench.act(["action": "transition", "state": "trashed", "filter": ["tags": "root"]])
        #expect(job["succeeded"]?.int == 1 && job["failed"]?.int == 0)
      },
    ]
    for take in takes {
      let gone = bench.announced(take)
      #expect(gone.map(\.kind) == ["item.deleted", "item.deleted", "item.deleted"])
      #expect(Set(gone.compactMap { $0.data["item"]?["id"]?.text?.string }) == Set(all))
      #expect(all.allSatisfy { bench.state($0) == "trashed" })
      let back = bench.announced { expect(bench.restore(root), 200) }
      #expect(back.map(\.kind) == ["item.restored", "item.restored", "item.restored"])
      #expect(all.allSatisfy { bench.state($0) == "active" })
    }
  }

  @Test("I-S102 a block edge of the row, or of one the cascade reaches, holds it; a bulk job reports it")
  func blocked() {
    registerBlock()
    let (root, child, other) = (bench.noteID("r", ["tags": ["root"]]), bench.noteID("c"), bench.noteID("o"))
    bench.parent(root, child)
    for (source, target) in [(root, other), (other, root), (child, other), (other, child)] {
      let edge = bench.edge(source, "holds", target)
      expect(edge, 201)
      for answer in [bench.delete(root), bench.move(root, "trashed")] {
        expect(answer, 400, "edge_constraint_violation")
        #expect(answer.details?["blocking_edges"]?.array?.map { $0["id"]?.text } == [Text(edge.id)])
      }
      let job = bench.act(["action": "transition", "state": "trashed", "filter": ["tags": "root"]])
      #expect(job["succeeded"]?.int == 0)
      #expect(job["errors"]?.array?.first?["code"]?.text == "edge_constraint_violation")
      #expect(job["errors"]?.array?.first?["id"]?.text == Text(root))
      #expect([root, child].allSatisfy { bench.state($0) == "active" })
      expect(bench.send("DELETE", "/edges/\(edge.id)"), 200)
    }
    expect(bench.delete(root), 200)
  }

  @Test("I-S103 a blocking edge the key cannot see holds the row too, and is not named")
  func hiddenBlocker() throws {
    registerBlock()
    let (held, task) = (bench.noteID(), bench.create("core.task", ["title": "t"]).id)
    expect(bench.edge(task, "holds", held), 201)
    for key in [
      try bench.mint("n", types: ["core.note": "write"]),
      try bench.mint("e", edges: ["about": "write"]),
    ] {
      let answer = bench.delete(held, key: key.token)
      expect(answer, 400, "edge_constraint_violation")
      #expect(answer.details?["blocking_edges"] == nil)
      #expect(!answer.words.contains(task) && !answer.words.contains("holds\""))
    }
    #expect(bench.state(held) == "active")
  }

  @Test("I-S104 rows a cascade took carry the mark, and the id named only to who may read its type")
  func marks() throws {
    let root = bench.create("core.task", ["title": "root"], ["source_id": "root"]).id
    let child = bench.noteID("child", ["source_id": "child"])
    let alone = bench.noteID("alone")
    bench.parent(root, child)
    let notes = try bench.mint("n", types: ["core.note": "write"], sources: ["local"])
    let folder = bench.send("POST", "/folders", ["title": "F"]).id
    expect(
      bench.send(
        "POST", "/edge-types", ["id": "owns", "cardinality": "many-to-many", "cascade_on_delete": "cascade"]), 201)
    expect(bench.edge(root, "owns", folder), 201)
    let events = bench.announced {
      expect(bench.delete(alone), 200)
      expect(bench.delete(root), 200)
    }
    func check(_ row: JSON?, _ names: Bool) {
      #expect(row?["trashed_by_cascade"]?.bool == true)
      #expect(row?["trashed_with"]?.text == (names ? Text(root) : nil))
    }
    check(bench.listed(child), true)
    check(bench.listed(child, key: notes.token), false)
    for (key, names) in [(Bench.ownerKey, true), (notes.token, false)] {
      let found = bench.send(
        "POST", "/items/lookup", ["type": "core.note", "source": "local", "source_ids": ["child"]], key: key)
      check(found.data.first, names)
      let frame = bench.events(key: key).last { $0.data["item"]?["id"]?.text == Text(child) }
      check(frame?.data["item"], names)
      let again = bench.create(
        "core.note", ["body": "x"], ["source": "local", "source_id": "child"], key: key)
      #expect(again.isAcknowledged)
      check(again.item, names)
    }
    for id in [root, alone, folder] { #expect(mark(id) == (nil, nil)) }
    #expect(bench.state(folder) == "revoked")
    for event in events where event.data["item"]?["id"]?.text != Text(child) {
      #expect(event.data["item"]?["trashed_by_cascade"] == nil)
    }
  }

  @Test("I-S105 the mark outlives a purge of the row it names, and goes when the marked row is restored")
  func markLife() {
    let (root, child) = (bench.noteID("r"), bench.noteID("c"))
    bench.parent(root, child)
    expect(bench.delete(root), 200)
    expect(bench.purge(root), 200)
    #expect(mark(child) == (true, root))
    let restored = bench.restore(child)
    #expect(restored.item["trashed_by_cascade"] == nil && restored.item["trashed_with"] == nil)
    expect(bench.delete(child), 200)
    #expect(mark(child) == (nil, nil))
  }

  @Test("I-S107 a child in the bin before its parent, or trashed alone since, stays there when the parent is restored")
  func childrenApart() {
    let (root, early, late, other) = (bench.noteID("r"), bench.noteID("e"), bench.noteID("l"), bench.noteID("o"))
    bench.parent(root, early, late, other)
    expect(bench.delete(early), 200)
    expect(bench.delete(root), 200)
    expect(bench.restore(late), 200)
    expect(bench.delete(late), 200)
    expect(bench.restore(root), 200)
    #expect([root, other].allSatisfy { bench.state($0) == "active" })
    #expect([early, late].allSatisfy { bench.state($0) == "trashed" })
  }

  @Test("a taken child restored alone brings back what lay beneath it, and no sibling")
  func childAlone() {
    let (root, child, leaf, sibling) = (bench.noteID("r"), bench.noteID("c"), bench.noteID("l"), bench.noteID("s"))
    bench.parent(root, child, sibling)
    bench.parent(child, leaf)
    expect(bench.delete(root), 200)
    expect(bench.restore(child), 200)
    #expect([child, leaf].allSatisfy { bench.state($0) == "active" })
    #expect([root, sibling].allSatisfy { bench.state($0) == "trashed" })
  }

  @Test(
    "I-S109 with the parent purged a taken child brings its own subtree back; a parent whose child was purged restores")
  func restoreAfterPurge() {
    let (root, child, leaf) = (bench.noteID("r"), bench.noteID("c"), bench.noteID("l"))
    bench.parent(root, child)
    bench.parent(child, leaf)
    expect(bench.delete(root), 200)
    expect(bench.purge(root), 200)
    expect(bench.restore(child), 200)
    #expect([child, leaf].allSatisfy { bench.state($0) == "active" })
    expect(bench.delete(child), 200)
    expect(bench.purge(leaf), 200)
    expect(bench.restore(child), 200)
    #expect(bench.state(child) == "active" && bench.state(leaf) == nil)
  }

  @Test(
    "I-S110 each row brought back names the row restored, only to a key that may read it; that row's event names none")
  func restoredWith() throws {
    let root = bench.create("core.task", ["title": "root"], ["tags": ["root"]]).id
    let (child, leaf) = (bench.noteID("c"), bench.noteID("l"))
    bench.parent(root, child)
    bench.parent(child, leaf)
    let notes = try bench.mint("n", types: ["core.note": "write"])
    let ways: [() -> Void] = [
      { expect(bench.restore(root), 200) }, { expect(bench.move(root, "active"), 200) },
      {
        let job = bench.act(
          ["action": "transition", "state": "active", "filter": ["tags": "root", "state": "trashed"]])
        #expect(job["succeeded"]?.int == 1)
      },
    ]
    for way in ways {
      expect(bench.delete(root), 200)
      let start = bench.events().last?.id ?? 0
      way()
      let events = bench.events(after: start)
      #expect(events.map(\.kind) == ["item.restored", "item.restored", "item.restored"])
      for event in events {
        let isRoot = event.data["item"]?["id"]?.text == Text(root)
        #expect(event.data["restored_with"]?.text == (isRoot ? nil : Text(root)))
      }
      let narrow = bench.events(after: start, key: notes.token)
      #expect(narrow.count == 2)
      #expect(narrow.allSatisfy { $0.data["restored_with"] == nil })
    }
  }

  @Test("I-S111 a bulk transition that matches a row and its parent counts each once, into the bin and out of it")
  func countedOnce() {
    let (root, child, leaf) = (bench.noteID("r"), bench.noteID("c"), bench.noteID("l"))
    bench.parent(root, child)
    bench.parent(child, leaf)
    let events = bench.announced {
      let job = bench.act(["action": "transition", "state": "trashed", "filter": ["type": "core.note"]])
      #expect(job["matched"]?.int == 3 && job["succeeded"]?.int == 3 && job["failed"]?.int == 0)
    }
    #expect(events.count == 3)
    #expect(mark(leaf) == (true, root))
    let back = bench.act(
      ["action": "transition", "state": "active", "filter": ["type": "core.note", "state": "trashed"]])
    #expect(back["succeeded"]?.int == 3 && back["failed"]?.int == 0)
    #expect([root, child, leaf].allSatisfy { bench.state($0) == "active" })
  }

  @Test("I-S112 a purge announces the row with its marks and each edge with purged_with; then the id is gone")
  func purge() {
    let (root, child, other) = (bench.noteID("r"), bench.noteID("c"), bench.noteID("o"))
    bench.parent(root, child)
    expect(bench.edge(child, "about", other), 201)
    expect(bench.delete(root), 200)
    let events = bench.announced { expect(bench.purge(child), 200) }
    #expect(events.map(\.kind) == ["edge.deleted", "edge.deleted", "item.purged"])
    #expect(events.prefix(2).allSatisfy { $0.data["purged_with"]?.text == Text(child) })
    let row = events.last?.data["item"]
    #expect(row?["id"]?.text == Text(child) && row?["properties"] == ["body": "c"])
    #expect(row?["trashed_by_cascade"]?.bool == true && row?["trashed_with"]?.text == Text(root))
    for answer in [bench.read(child), bench.restore(child), bench.purge(child)] {
      expect(answer, 404, "item_not_found")
      #expect(answer.details == nil)
    }
    #expect(bench.send("GET", "/edges").data.isEmpty)
  }

  @Test("I-S114 a purge takes items.purge, write on the type, and a type that is read")
  func purgeGrants() throws {
    let id = bench.noteID()
    expect(bench.delete(id), 200)
    let plain = bench.purge(id, key: try bench.mint("plain").token)
    expect(plain, 403, "forbidden")
    #expect(plain.details == ["required_scope": "items.purge"])
    let reader = try bench.mint("r", types: ["core.note": "read"], permissions: ["items.purge"])
    let refused = bench.purge(id, key: reader.token)
    expect(refused, 403, "type_not_permitted")
    #expect(refused.details?["grant"]?["level"]?.text == "write")
    expect(bench.restore(id, key: reader.token), 403, "type_not_permitted")
    let live = bench.noteID()
    expect(bench.purge(live, key: reader.token), 403, "type_not_permitted")
    let blind = try bench.mint("b", types: ["core.task": "write"], permissions: ["items.purge"])
    expect(bench.purge(id, key: blind.token), 404, "item_not_found")
    #expect(bench.state(id) == "trashed")
  }

  @Test("V-S12 transitions, deletes, restores and cascades leave version and history, and move updated_at")
  func keepsVersion() {
    let (root, child) = (bench.noteID("r"), bench.noteID("c"))
    bench.parent(root, child)
    for id in [root, child] { expect(bench.patch(id, 1, ["properties": ["title": "t"]]), 200) }
    let before = [root, child].map { bench.history($0).words }
    var updated = bench.listed(child)?["updated_at"]?.text ?? ""
    func moved(_ id: String, _ act: () -> Answer) {
      let was = bench.listed(id)?["updated_at"]?.text ?? ""
      expect(act(), 200)
      let row = bench.listed(id)
      #expect((row?["updated_at"]?.text ?? "") > was)
      #expect(row?["version"]?.int == 2)
    }
    moved(root) { bench.move(root, "archived") }
    moved(root) { bench.move(root, "active") }
    for act in [{ bench.delete(root) }, { bench.restore(root) }] {
      moved(root, act)
      let now = bench.listed(child)
      #expect((now?["updated_at"]?.text ?? "") > updated && now?["version"]?.int == 2)
      updated = now?["updated_at"]?.text ?? ""
    }
    #expect(bench.act(["action": "transition", "state": "archived", "filter": [:]])["succeeded"]?.int == 2)
    #expect([root, child].map { bench.history($0).words } == before)
  }
}
