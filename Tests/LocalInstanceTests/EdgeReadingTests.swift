import LocalInstance
import MarfaBase
import Testing

@Suite("Edges: reading")
struct EdgeReadingTests {
  let bench: Bench
  let a: String
  let b: String

  init() throws {
    bench = try Bench()
    a = bench.noteID("a")
    b = bench.noteID("b")
  }

  @Test("E-S14 an edge is read by id; an unknown id is not found on every door and touches nothing")
  func byID() {
    let made = bench.edge(a, "about", b)
    let read = bench.send("GET", "/edges/\(made.id)")
    expect(read, 200)
    #expect(read.edge == made.edge)
    #expect(read.edge["version"]?.int == 1)
    let events = bench.events().count
    for id in [bench.newID(), "zzz", a, made.id.uppercased()] {
      expect(bench.send("GET", "/edges/\(id)"), 404, "edge_not_found")
      expect(bench.send("PATCH", "/edges/\(id)", ["version": 1, "properties": ["x": 1]]), 404, "edge_not_found")
      expect(bench.send("DELETE", "/edges/\(id)"), 404, "edge_not_found")
    }
    #expect(bench.events().count == events)
    #expect(bench.send("GET", "/edges/\(made.id)").edge == made.edge)
  }

  @Test("E-S15 each listing narrows to the types named, ten at most")
  func types() {
    let about = bench.edge(a, "about", b).id
    let cites = bench.edge(a, "references", b).id
    let ten = bench.send("GET", "/edge-types").data.compactMap { $0.string("id") }.joined(separator: ",")
    for door in ["/edges", "/items/\(a)/edges", "/items/\(b)/backrefs"] {
      #expect(bench.ids(door) == [cites, about])
      #expect(bench.ids("\(door)?edge_type=about") == [about])
      #expect(bench.ids("\(door)?edge_type=supersedes") == [])
      #expect(bench.ids("\(door)?edge_type=about,%20references") == [cites, about])
      #expect(bench.ids("\(door)?edge_type=\(ten)") == [cites, about])
      expect(bench.send("GET", "\(door)?edge_type=\(ten),likes"), 400, "validation_error")
    }
  }

  @Test("E-S16 updated_after takes its bound and updated_before does not; ordered by the change")
  func bounds() {
    let edges = (0..<3).map { _ in bench.edge(a, "about", bench.noteID()).edge }
    let ids = edges.map { $0.string("id") ?? "" }
    expect(bench.send("PATCH", "/edges/\(ids[0])", ["version": 1, "properties": ["x": 1]]), 200)
    let second = edges[1].string("updated_at") ?? ""
    #expect(bench.ids("/edges?updated_after=\(second)") == [ids[1], ids[2], ids[0]])
    #expect(bench.ids("/edges?updated_after=\(second)&limit=1") == [ids[1], ids[2], ids[0]])
    #expect(bench.ids("/edges?updated_before=\(second)") == [])
    let third = edges[2].string("updated_at") ?? ""
    #expect(bench.ids("/edges?updated_before=\(third)") == [ids[1]])
    #expect(bench.ids("/edges?updated_after=\(second)&updated_before=\(third)") == [ids[1]])
    expect(bench.send("GET", "/edges?updated_after="), 400, "validation_error")
    let cursor = bench.send("GET", "/edges?updated_after=\(second)&limit=1").json.string("next_cursor") ?? ""
    expect(bench.send("GET", "/edges?cursor=\(cursor)"), 400, "validation_error")
    let plain = bench.send("GET", "/edges?limit=1").json.string("next_cursor") ?? ""
    expect(bench.send("GET", "/edges?updated_after=\(second)&cursor=\(plain)"), 400, "validation_error")
  }

  @Test("E-S17 an update does not move an edge in the plain order")
  func creationOrder() {
    let old = bench.edge(a, "about", b).id
    let new = bench.edge(b, "about", a).id
    expect(bench.send("PATCH", "/edges/\(old)", ["version": 1, "properties": ["x": 1]]), 200)
    #expect(bench.ids("/edges") == [new, old])
  }

  @Test("E22.1 SF26.3 an item's edges of a type the key may not read are left out; the list of all refuses the type")
  func unreadableType() throws {
    expect(bench.edge(a, "about", b), 201)
    let key = try bench.mint("n", edges: ["references": "read"])
    for path in ["/items/\(a)/edges", "/items/\(b)/backrefs"] {
      let answer = bench.send("GET", "\(path)?edge_type=about", key: key.token)
      expect(answer, 200)
      #expect(answer.data.isEmpty)
    }
    expect(bench.send("GET", "/edges?edge_type=about", key: key.token), 403, "edge_permission_denied")
  }

  @Test("E-S18 pages give each edge once; limits are 1 to 500")
  func pages() {
    let made = (0..<23).map { _ in bench.edge(a, "about", bench.noteID()).id }
    let walked = bench.walk("/edges?limit=7")
    #expect(walked.rows.map { $0.string("id") } == made.reversed())
    #expect(walked.pages == [7, 7, 7, 2])
    expect(bench.send("GET", "/edges?limit=500"), 200)
    #expect(bench.send("GET", "/edges?limit=1").data.count == 1)
    for limit in ["501", "0", "-1", "x"] {
      let refused = bench.send("GET", "/edges?limit=\(limit)")
      expect(refused, 400, "validation_error")
      #expect(refused.path == "limit")
    }
  }

  @Test("E-S21 an edge with either end in the bin is still read and listed")
  func bin() {
    let out = bench.edge(a, "about", b).id
    let back = bench.edge(b, "references", a).id
    bench.trash(b)
    for id in [out, back] { expect(bench.send("GET", "/edges/\(id)"), 200) }
    #expect(Set(bench.ids("/edges")) == [out, back])
    #expect(bench.ids("/items/\(a)/edges") == [out])
    #expect(bench.ids("/items/\(a)/backrefs") == [back])
    #expect(bench.ids("/items/\(b)/edges") == [back])
    #expect(bench.ids("/items/\(b)/backrefs") == [out])
  }

  @Test("E-S22 an item's outbound and inbound listings narrow and page; unknown and malformed ids")
  func ofItem() {
    var (out, back): ([String], [String]) = ([], [])
    for place in 0..<5 {
      let type = place == 2 ? "references" : "about"
      out.append(bench.edge(a, type, bench.noteID()).id)
      back.append(bench.edge(bench.noteID(), type, a).id)
    }
    for (door, made) in [("edges", out), ("backrefs", back)] {
      let walked = bench.walk("/items/\(a)/\(door)?limit=2")
      #expect(walked.rows.map { $0.string("id") } == made.reversed())
      #expect(walked.pages == [2, 2, 1])
      #expect(bench.ids("/items/\(a)/\(door)?edge_type=references&limit=1") == [made[2]])
      expect(bench.send("GET", "/items/\(bench.newID())/\(door)"), 404, "item_not_found")
      expect(bench.send("GET", "/items/zzz/\(door)"), 400, "invalid_id")
      let hidden = bench.task()
      expect(
        bench.send("GET", "/items/\(hidden)/\(door)", key: bench.mint(["core.note": "read"])), 404, "item_not_found")
    }
  }

  @Test("E-S23 an item carries 50 edges of a type and a cursor that continues without gap or repeat")
  func blocks() {
    let targets = (0..<60).map { _ in bench.noteID() }
    let made = bench.made("core.note", ["body": "hub"], ["edges": ["about": .array(targets.map { .string($0) })]])
    expect(made, 201)
    for target in targets.prefix(3) { expect(bench.edge(made.id, "references", target), 201) }
    for target in targets { expect(bench.edge(target, "in-thread", made.id), 201) }
    let read = bench.send("GET", "/items/\(made.id)?include=backrefs")
    func whole(_ block: JSON?, _ door: String, _ type: String) -> [String?] {
      let first = block?["data"]?.array ?? []
      #expect(first.count == 50)
      let cursor = block?.string("next_cursor") ?? ""
      #expect(!cursor.isEmpty)
      let rest = bench.send("GET", "/items/\(made.id)/\(door)?edge_type=\(type)&cursor=\(cursor)")
      #expect(rest.json["next_cursor"]?.isNull == true)
      return (first + rest.data).map { $0.string("id") }
    }
    let listed = bench.ids("/items/\(made.id)/edges?edge_type=about")
    #expect(whole(made.item["edges"]?["about"], "edges", "about") == listed)
    #expect(whole(read.item["edges"]?["about"], "edges", "about") == listed)
    let references = read.item["edges"]?["references"]
    #expect(references?["data"]?.array?.count == 3)
    #expect(references?["next_cursor"]?.isNull == true)
    let inbound = bench.ids("/items/\(made.id)/backrefs?edge_type=in-thread")
    #expect(inbound.count == 60)
    let backrefs = read.json["backrefs"] ?? read.item["backrefs"]
    #expect(whole(backrefs?["in-thread"], "backrefs", "in-thread") == inbound)
  }

  @Test("E-S24 the edge parameter and the full filter list the same items, narrower with a type")
  func filters() {
    let task = bench.task("t")
    let note = bench.noteID("n")
    for item in [task, note] { expect(bench.edge(item, "about", a), 201) }
    expect(bench.edge(a, "about", b), 201)
    let full = "/items?filter=edge%5Babout%5D%20eq%20%22\(a)%22"
    #expect(Set(bench.ids("/items?edge%5Babout%5D=\(a)")) == [task, note])
    #expect(Set(bench.ids(full)) == [task, note])
    #expect(bench.ids("/items?edge%5Babout%5D=\(a)&type=core.task") == [task])
    #expect(bench.ids("\(full)&type=core.note") == [note])
    expect(bench.send("GET", "/items?edge%5Babout%5D="), 400, "validation_error")
  }

  @Test("E-S25 terms on what a key may not read")
  func hiddenTerms() {
    let hidden = bench.task("hidden")
    let note = bench.noteID("n")
    expect(bench.edge(hidden, "about", a), 201)
    expect(bench.edge(note, "about", b), 201)
    expect(bench.edge(b, "about", hidden), 201)
    let notes = bench.mint(["core.note": "read"], edges: ["about": "read"])
    func found(_ filter: String) -> [String] {
      bench.ids("/items?filter=\(filter.replacing(" ", with: "%20").replacing("\"", with: "%22"))", key: notes).sorted()
    }
    // A backref counts readable sources only; anchored on an unreadable item it names no item.
    #expect(found("backref[about] exists") == [b])
    #expect(found("backref[about] eq \"\(hidden)\"") == [])
    #expect(found("backref[about] neq \"\(hidden)\"") == [a, b, note].sorted())
    // An edge term matches the readable edges to an unreadable target.
    #expect(found("edge[about] eq \"\(hidden)\"") == [b])
    let refused = bench.send("GET", "/items?edge%5Breferences%5D=\(a)", key: notes)
    expect(refused, 403, "edge_permission_denied")
    #expect(refused.details?["grant"]?.string("name") == "references")
    expect(
      bench.send("GET", "/items?filter=backref%5Breferences%5D%20exists", key: notes), 403, "edge_permission_denied")
  }

  @Test("E-S26 edges of unreadable sources or types are left out of every door, pages still end, emptied blocks go")
  func withheld() {
    var seen: [String] = []
    for place in 0..<12 {
      let source = place % 3 == 0 ? bench.noteID() : bench.task()
      let edge = bench.edge(source, "about", a).id
      if place % 3 == 0 { seen.insert(edge, at: 0) }
    }
    expect(bench.edge(bench.task(), "references", a), 201)
    expect(bench.edge(a, "supersedes", b), 201)
    let shown = bench.edge(a, "about", b).id
    let notes = bench.mint(["core.note": "read"], edges: ["about": "read", "references": "read"])
    let walked = bench.walk("/edges?limit=2", key: notes)
    #expect(walked.rows.map { $0.string("id") } == [shown] + seen)
    #expect(walked.pages.contains { $0 < 2 })
    #expect(bench.ids("/items/\(a)/backrefs?limit=1", key: notes) == seen)
    #expect(bench.ids("/items/\(a)/edges?limit=1", key: notes) == [shown])
    let read = bench.send("GET", "/items/\(a)?include=backrefs", key: notes)
    #expect(read.item["edges"]?.object?.keys == ["about"])
    let backrefs = read.json["backrefs"] ?? read.item["backrefs"]
    #expect(backrefs?.object?.keys == ["about"])
    let listed = bench.send("GET", "/items?include=edges", key: notes).data.first { $0.string("id") == a }
    #expect(listed?["edges"]?.object?.keys == ["about"])
    let looked = bench.send(
      "POST", "/items/lookup", ["type": "core.note", "ids": [.string(a)], "include": ["edges"]], key: notes)
    #expect(looked.data.first?["edges"]?.object?.keys == ["about"])
    let frames = bench.events(key: notes).filter { $0.kind.hasPrefix("edge.") }
    #expect(frames.compactMap { $0.data["edge"]?.string("id") } == seen.reversed() + [shown])
    // The source in the bin is judged by its type all the same.
    bench.trash(a)
    #expect(bench.walk("/edges?limit=2", key: notes).rows.map { $0.string("id") } == [shown] + seen)
  }

  @Test("E-S27 a readable edge names its target, hidden or not, on every read and in the event")
  func hiddenTarget() {
    let hidden = bench.task()
    let id = bench.edge(a, "about", hidden).id
    let notes = bench.mint(["core.note": "read"])
    let rows = [
      bench.send("GET", "/edges/\(id)", key: notes).edge, bench.walk("/edges", key: notes).rows[0],
      bench.walk("/items/\(a)/edges", key: notes).rows[0],
      bench.send("GET", "/items/\(a)", key: notes).item["edges"]?["about"]?["data"]?.array?.first ?? .null,
      bench.events(key: notes).last?.data["edge"] ?? .null,
    ]
    for row in rows { #expect(row.string("target_id") == hidden) }
  }

  @Test("E-S29 an edge a key may not read is not found by id, and stays")
  func hiddenEdge() {
    let bySource = bench.edge(bench.task(), "about", b)
    let byType = bench.edge(a, "references", b)
    let notes = bench.mint(["core.note": "write"], edges: ["about": "write"])
    let unknown = bench.send("GET", "/edges/\(bench.newID())", key: notes)
    for edge in [bySource, byType] {
      let read = bench.send("GET", "/edges/\(edge.id)", key: notes)
      expect(read, 404, "edge_not_found")
      #expect(read.response.body == unknown.response.body)
      for answer in [
        bench.send("PATCH", "/edges/\(edge.id)", ["version": 1, "properties": ["x": 1]], key: notes),
        bench.send("DELETE", "/edges/\(edge.id)", key: notes),
      ] {
        expect(answer, 404, "edge_not_found")
        #expect(answer.response.body == unknown.response.body)
      }
      #expect(bench.send("GET", "/edges/\(edge.id)").edge == edge.edge)
    }
  }
}
