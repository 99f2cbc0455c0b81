import MarfaBase
import Testing

@testable import LocalInstance

/// What a key may not read must not show by anything it is answered: counts, orders, codes, details, headers.
@Suite("Hidden rows") struct HiddenRowTests {
  private static let note = "019f2c20-0001-7b44-9c03-6d1f0a2b3c4d"
  private static let other = "019f2c20-0002-7b44-9c03-6d1f0a2b3c4d"
  private static let third = "019f2c20-0003-7b44-9c03-6d1f0a2b3c4d"
  private static let hidden = "019f2c20-0004-7b44-9c03-6d1f0a2b3c4d"
  private static let missing = "019f2c20-0005-7b44-9c03-6d1f0a2b3c4d"

  /// An instance with a few notes, and with bookmarks all around them where `isFull`; a key that reads notes alone.
  private static func world(isFull: Bool) throws -> (Bench, String) {
    let bench = try Bench(seed: 11)
    let key = try bench.mint(
      "narrow", types: ["core.note": "write", "core.task": "read"], edges: ["*": "write"], extensions: ["*": "write"],
      metadata: ["*": "write"], permissions: ["items.purge"])
    let wide = try bench.mint("desk", permissions: ["items.purge"])
    for (id, title) in [(note, "Kept soup"), (other, "Other soup"), (third, "Third")] {
      expect(
        bench.create(
          "core.note", ["title": string(title), "body": "words of soup"], ["id": string(id), "tags": ["red"]]),
        201)
    }
    expect(bench.edge(note, "references", other), 201)
    expect(bench.delete(third), 200)
    guard isFull else { return (bench, key.token) }
    for number in 0..<4 {
      var more = JSONObject()
      more["tags"] = ["red", "secret"]
      more["source_id"] = string("k\(number)")
      if number == 0 { more["id"] = string(hidden) }
      let made = bench.create(
        "core.bookmark", ["title": "Hidden soup", "url": string("https://a.example/\(number)")], .object(more),
        key: wide.token)
      expect(made, 201)
      expect(bench.edge(made.id, "references", note), 201)
      expect(bench.edge(made.id, "about", other), 201)
      if number == 3 { expect(bench.delete(made.id), 200) }
    }
    // What was hidden and is purged leaves nothing to see either.
    let purged = bench.create(
      "core.bookmark", ["title": "Gone", "url": "https://b.example"], ["source_id": "gone"],
      key: wide.token)
    expect(bench.delete(purged.id), 200)
    expect(bench.purge(purged.id), 200)
    return (bench, key.token)
  }

  private static func seen(_ answer: Answer) -> String {
    let headers = answer.response.headers.filter { $0.name.lowercased() != "x-request-id" }
      .map { "\($0.name): \($0.value)" }.joined(separator: "\n")
    return "\(answer.status)\n\(headers)\n\(answer.words)"
  }

  @Test("K3.6 every read answers a key the same, byte for byte, whether rows it may not read are there or not")
  func twoWorlds() throws {
    let (bare, bareKey) = try HiddenRowTests.world(isFull: false)
    let (full, fullKey) = try HiddenRowTests.world(isFull: true)
    let (note, other) = (HiddenRowTests.note, HiddenRowTests.other)
    var targets = [
      "/items", "/items?state=any&tier=all&limit=1", "/items?state=trashed&sort=updated_at&direction=desc",
      "/items?include=edges,metadata", "/items?tags=red", "/items?tags=secret", "/items?source=desk&state=any",
      "/items?filter=backref%5Breferences%5D%20exists", "/items?filter=backref%5Babout%5D%20exists",
      "/items?filter=part%20eq%20true", "/items?filter=tags%20contains%20%22secret%22",
      "/items?filter=backref%5Breferences%5D%20eq%20%22\(HiddenRowTests.hidden)%22",
      "/items?filter=source_id%20eq%20%22k1%22&state=any", "/items?type=core.note,core.task", "/items?type=core.*",
      "/items?type=core.bookmark", "/items/stats", "/items/stats?by=type", "/items/stats?by=state&include=system",
      "/items/stats?by=type&type=core.*", "/metadata/tags", "/search?q=hidden", "/search?q=secret", "/edges",
      "/edges?edge_type=references,about", "/edge-types", "/types", "/keys/current", "/config",
    ]
    for id in [note, other, HiddenRowTests.third, HiddenRowTests.hidden, HiddenRowTests.missing] {
      targets += [
        "/items/\(id)", "/items/\(id)?include=edges,metadata,versions", "/items/\(id)/edges", "/items/\(id)/backrefs",
        "/items/\(id)/backrefs?edge_type=references", "/items/\(id)/versions", "/items/\(id)/metadata",
        "/items/\(id)/extensions",
      ]
    }
    for target in targets {
      let (one, two) = (bare.send("GET", target, key: bareKey), full.send("GET", target, key: fullKey))
      var (there, here) = (HiddenRowTests.seen(one), HiddenRowTests.seen(two))
      // What a key says of its own use moves with the requests before it.
      if target == "/keys/current" { (there, here) = ("", "") }
      #expect(there == here, "\(target)")
    }
    for body in [
      ["ids": [string(note), string(HiddenRowTests.hidden), string(HiddenRowTests.missing)], "include": ["metadata"]],
      ["ids": [string(HiddenRowTests.hidden)], "include": ["edges"]],
    ] as [JSON] {
      #expect(
        HiddenRowTests.seen(bare.send("POST", "/items/bulk-get", body, key: bareKey))
          == HiddenRowTests.seen(full.send("POST", "/items/bulk-get", body, key: fullKey)))
    }
    for body in [
      ["type": "core.note", "source": "desk", "source_ids": ["k0", "k1", "gone", "none"]],
      ["type": "core.bookmark", "source": "desk", "source_ids": ["k0"]],
      ["type": "core.note", "ids": [string(HiddenRowTests.hidden), string(note)]],
    ] as [JSON] {
      #expect(
        HiddenRowTests.seen(bare.send("POST", "/items/lookup", body, key: bareKey))
          == HiddenRowTests.seen(full.send("POST", "/items/lookup", body, key: fullKey)))
    }
    // Of the log, the events; the places between them may be passed.
    func events(_ bench: Bench, _ key: String) -> [String] {
      bench.events(key: key).map { "\($0.kind) \($0.data.compact)" }
    }
    #expect(events(bare, bareKey) == events(full, fullKey))
    // A dry run counts no more.
    let dry: JSON = ["action": "update_tier", "tier": "feed", "filter": ["state": "active"], "dry_run": true]
    let (one, two) = (
      bare.send("POST", "/items/bulk-actions", dry, key: bareKey),
      full.send("POST", "/items/bulk-actions", dry, key: fullKey)
    )
    #expect(one.status == two.status && one.json["matched"] == two.json["matched"])
  }

  @Test("K-S5 K3.6 every door with an id answers a hidden row as one that is not there: status, headers, body")
  func hiddenIsMissing() throws {
    let (bench, key) = try HiddenRowTests.world(isFull: true)
    let (hidden, missing, note) = (HiddenRowTests.hidden, HiddenRowTests.missing, HiddenRowTests.note)
    let edge = try #require(
      try bench.database.one("SELECT id FROM edge WHERE source = ? LIMIT 1", Text(hidden)) { $0.string(0) })
    let doors: [(String, String, JSON?)] = [
      ("GET", "/items/ID", nil), ("PATCH", "/items/ID", ["version": 1, "properties": ["title": "x"]]),
      ("PATCH", "/items/ID", ["version": 7, "properties": ["title": "x"]]),
      ("PATCH", "/items/ID?conflict=auto", ["version": 0, "tier": "feed"]),
      ("PATCH", "/items/ID", ["version": 1, "type": "core.note"]), ("DELETE", "/items/ID", nil),
      ("DELETE", "/items/ID?version=3", nil), ("POST", "/items/ID/restore", nil), ("POST", "/items/ID/purge", nil),
      ("POST", "/items/ID/transition", ["state": "archived"]), ("POST", "/items/ID/transition", ["state": "nowhere"]),
      ("GET", "/items/ID/versions", nil), ("GET", "/items/ID/metadata", nil),
      ("PUT", "/items/ID/metadata", ["tags": ["x"]]), ("PATCH", "/items/ID/metadata", ["tags": ["x"]]),
      ("POST", "/items/ID/tags", ["tags": ["x"]]), ("DELETE", "/items/ID/tags/red", nil),
      ("PUT", "/items/ID/extensions/app.a", ["seen": true]), ("DELETE", "/items/ID/extensions/app.a", nil),
      ("GET", "/items/ID/edges", nil), ("GET", "/items/ID/backrefs", nil),
      ("POST", "/edges", ["source_id": "ID", "target_id": string(note), "edge_type": "about"]),
      ("POST", "/edges", ["source_id": string(note), "target_id": "ID", "edge_type": "about"]),
      ("POST", "/edges", ["source_id": string(note), "target_id": "ID", "edge_type": "parent-of"]),
      ("PATCH", "/folders/ID", ["version": 1, "title": "x"]), ("POST", "/folders/ID/revoke", nil),
      ("POST", "/items", ["type": "core.note", "properties": ["body": "b"], "edges": ["about": ["ID"]]]),
      (
        "POST", "/items/bulk",
        ["items": [["type": "core.note", "properties": ["body": "b"], "edges": ["about": ["ID"]]]]]
      ),
      ("POST", "/items/bulk-get", ["ids": ["ID"]]), ("GET", "/items?filter=edge%5Babout%5D%20eq%20%22ID%22", nil),
      ("GET", "/items?backref%5Babout%5D=ID", nil),
    ]
    func ask(_ door: (String, String, JSON?), _ id: String) throws -> String {
      let body = try door.2.map { try JSON(parsing: Text($0.compact).string.replacing("\"ID\"", with: "\"\(id)\"")) }
      return HiddenRowTests.seen(bench.send(door.0, door.1.replacing("ID", with: id), body, key: key))
        .replacing(id, with: "ID")
    }
    for door in doors { #expect(try ask(door, hidden) == ask(door, missing), "\(door.0) \(door.1)") }
    // An edge whose source is hidden, by its own id.
    let edgeDoors: [(String, String, JSON?)] = [
      ("GET", "/edges/ID", nil), ("PATCH", "/edges/ID", ["version": 1, "properties": ["a": 1]]),
      ("PATCH", "/edges/ID", ["version": 1, "target_id": string(note)]), ("DELETE", "/edges/ID", nil),
    ]
    for door in edgeDoors { #expect(try ask(door, edge) == ask(door, missing), "\(door.0) \(door.1)") }
    // What was asked changed nothing that is hidden.
    #expect(bench.read(hidden).version == 1 && bench.read(hidden).status == 200)
    #expect(bench.send("GET", "/edges/\(edge)").status == 200)
  }
}
