import LocalInstance
import MarfaBase
import TestSupport
import Testing

@testable import MarfaCopy

@Suite("Lists of a working copy") struct LocalListScenarios {
  private static func list(_ bench: CopyBench, _ change: (inout ListQuery) -> Void) throws -> Set<EntityID> {
    var query = ListQuery()
    change(&query)
    return Set(try bench.copy.list(query).map(\.id))
  }

  private static func filtered(_ bench: CopyBench, _ filter: Text) throws -> Set<EntityID> {
    try list(bench) { $0.filter = filter }
  }

  /// The status and error of a request another device makes.
  private static func refused(
    _ bench: CopyBench, _ target: String, key: String = CopyBench.key
  ) throws -> (status: Int, error: JSON?) {
    let answer = bench.instance.handle(
      InstanceRequest(
        method: "GET", target: target, headers: [HTTPHeader("Authorization", "Bearer \(key)")], body: []))
    guard case .whole(let response) = answer else { throw ScratchError("a stream") }
    return (response.status, try JSON(parsing: response.body)["error"])
  }

  @Test("SF-S12 updated_after stands beside no other order: 400 on the instance, validation here")
  func updatedAfter() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    let since: Text = "2020-01-01T00:00:00.000Z"
    for (target, change) in [
      ("sort=created_at", { $0.sort = .createdAt }), ("direction=desc", { $0.ascending = false }),
      (
        "sort=created_at&direction=asc",
        {
          $0.sort = .createdAt; $0.ascending = true
        }
      ),
    ] as [(String, (inout ListQuery) -> Void)] {
      let there = try LocalListScenarios.refused(bench, "/items?updated_after=\(since)&\(target)")
      #expect(there.status == 400 && there.error?["code"] == "validation_error", "\(target)")
      let here = bench.refusal {
        _ = try LocalListScenarios.list(bench) {
          $0.updatedAfter = since
          change(&$0)
        }
      }
      #expect(here?.code == .validation && here?.server?.code == "validation_error", "\(target)")
    }
    // Its own order may be named.
    #expect(
      try LocalListScenarios.list(bench) {
        $0.updatedAfter = since; $0.ascending = true
      } == [note])
  }

  @Test(
    "SF-S24 SF21.9 a filter of typed values, encoded, parsed and encoded again, is equal; what cannot be spelled is refused"
  )
  func encoding() throws {
    let system: [Filter.System] = [.state, .type, .source, .tier, .version, .id, .sourceID]
    var fields: [Filter.Field] = [
      .property("title"), .property("constructor"), .property("_x9"), .tags, .edge("references"), .backref("parent-of"),
      .statusGroup, .part,
    ]
    for field in system { fields.append(.system(field)) }
    let texts: [Text] = [
      "", "plain", "with \"quotes\"", "a\\b", "\\\"", "é\u{301}\u{1F600}", "two\nlines", "AND", "true",
    ]
    let numbers: [Double] = [
      0, 1, -1, 0.1, 1e21, -1.5e-7, 123456789.25, 9_007_199_254_740_992, Double.leastNonzeroMagnitude,
    ]
    var random = SplitMix(seed: 6)
    var made = 0
    for _ in 0..<600 {
      let count = 1 + Int(random.next() % 4)
      let conditions: [Filter.Condition] = (0..<count).map { _ in
        let field = fields[Int(random.next() % UInt64(fields.count))]
        let literal: Filter.Literal =
          switch random.next() % 3 {
          case 0: .text(texts[Int(random.next() % UInt64(texts.count))])
          case 1: .number(numbers[Int(random.next() % UInt64(numbers.count))])
          default: .bool(random.next() % 2 == 0)
          }
        switch field {
        case .tags: return .init(field, .contains, literal)
        case .edge, .backref: return random.next() % 2 == 0 ? .init(field, .exists) : .init(field, .neq, literal)
        case .statusGroup: return .init(field, .eq, .text("in_progress"))
        case .part: return .init(field, .neq, .bool(random.next() % 2 == 0))
        case .property: return random.next() % 4 == 0 ? .init(field, .notExists) : .init(field, .startsWith, literal)
        case .system: return .init(field, .gte, literal)
        }
      }
      let filter = Filter(random.next() % 2 == 0 ? .and : .or, conditions)
      let text = try filter.encoded()
      let read = try Filter(text)
      #expect(read.conditions == conditions, "\(text)")
      #expect(read.joiner == filter.joiner || count == 1)
      #expect(try read.encoded() == text)
      made += 1
    }
    #expect(made == 600)
    let many = [Filter.Condition](repeating: .init(.tags, .exists), count: 11)
    for filter in [
      Filter(.and, []), Filter(.and, many), Filter(.and, [.init(.property("a.b"), .exists)]),
      Filter(.and, [.init(.property(""), .exists)]), Filter(.and, [.init(.property("1a"), .exists)]),
      Filter(.and, [.init(.property("a b"), .exists)]), Filter(.and, [.init(.edge("a]b"), .exists)]),
      Filter(.and, [.init(.edge(""), .exists)]), Filter(.and, [.init(.edge("a b"), .exists)]),
      Filter(.and, [.init(.tags, .eq, .text("x"))]), Filter(.and, [.init(.system(.id), .exists)]),
      Filter(.and, [.init(.property("a"), .eq)]), Filter(.and, [.init(.property("a"), .exists, .text("x"))]),
      Filter(.and, [.init(.part, .eq, .text("yes"))]), Filter(.and, [.init(.statusGroup, .eq, .text("done"))]),
      Filter(.and, [.init(.property("a"), .eq, .number(.infinity))]),
      Filter(.and, [.init(.property("a"), .eq, .text("ends in a backslash\\"))]),
      Filter(.and, [.init(.property("a"), .eq, .text(Text(String(repeating: "x", count: 2048))))]),
      Filter(.and, [.init(.system(.createdAt), .gt, .text("yesterday"))]),
    ] {
      let refusal = #expect(throws: MarfaError.self) { try filter.encoded() }
      #expect(refusal?.code == .validation)
    }
  }

  @Test("SF-S38 an edge type the key may not read: 403 with its grant on the instance, an answer from the copy")
  func unreadableEdge() throws {
    let bench = try CopyBench()
    let (a, b) = (try bench.note("A"), try bench.note("B"))
    try bench.edge("references", a, b)
    let key = try bench.makeKey(["core.*": "write"], edges: ["parent-of": "write"])
    let there = try LocalListScenarios.refused(
      bench, "/items?type=core.note&filter=edge%5Breferences%5D%20exists", key: key.key)
    #expect(there.status == 403 && there.error?["code"] == "edge_permission_denied")
    #expect(there.error?["details"]?["grant"]?["name"] == "references")
    try bench.reopen(key: key.key)
    try bench.fill()
    #expect(try LocalListScenarios.filtered(bench, "edge[references] exists").isEmpty)
    #expect(try LocalListScenarios.filtered(bench, Text("edge[references] eq \"\(b)\"")).isEmpty)
    #expect(try LocalListScenarios.filtered(bench, "edge[references] not_exists") == [a, b])
    #expect(try LocalListScenarios.filtered(bench, Text("edge[references] neq \"\(b)\"")) == [a, b])
  }

  @Test(
    "SF-S41 SF20.2 SF20.3 a part follows its host: held, in the bin, or not held; other operators and values are refused"
  )
  func parts() throws {
    let bench = try CopyBench()
    let host = try bench.note("Host")
    let comment = try bench.note("Comment")
    let away = try bench.note("Away", tier: "feed")
    let distant = try bench.note("Comment on a note not held")
    for (part, of) in [(comment, host), (distant, away)] { try bench.edge("attached-to", part, of) }
    try bench.fill()
    #expect(try bench.copy.item(away) == nil)
    #expect(try LocalListScenarios.filtered(bench, "part eq true") == [comment, distant])
    #expect(try LocalListScenarios.filtered(bench, "part neq false") == [comment, distant])
    #expect(try LocalListScenarios.filtered(bench, "part eq false") == [host])
    try bench.ask("DELETE", "/items/\(host)?version=1")
    try bench.copy.catchUp()
    #expect(try LocalListScenarios.filtered(bench, "part eq true") == [distant])
    for filter in ["part eq \"yes\"", "part exists", "part gt true", "part eq 1", "part not_exists"] as [Text] {
      let here = bench.refusal { _ = try LocalListScenarios.filtered(bench, filter) }
      #expect(here?.code == .validation && here?.server?.code == "validation_error", "\(filter)")
    }
  }

  @Test("SF-S42 a circle of parent-of edges lists each member once and ends the walk")
  func circle() throws {
    let bench = try CopyBench()
    let ids = try (0..<3).map { try bench.note(Text("\($0)")) }
    try bench.edge("parent-of", ids[0], ids[1])
    try bench.edge("parent-of", ids[1], ids[2])
    try bench.note("Outside")
    try bench.fill()
    // The instance refuses a circle; one in what the copy holds must not trap it.
    _ = StreamScript(
      bench, [.frames(try bench.stream([bench.edgeEvent(at: "900", bench.newID(), "parent-of", ids[2], ids[0])]))])
    try bench.copy.catchUp()
    for root in ids {
      var query = ListQuery()
      query.beneath = root
      let listed = try bench.copy.list(query).map(\.id)
      #expect(listed.count == 3 && Set(listed) == Set(ids))
    }
  }

  @Test("SF-S44 an edit queued and unsent is what local filters and orders see")
  func unsent() throws {
    let bench = try CopyBench()
    let (a, b) = (try bench.note("A", tags: ["old"]), try bench.note("B"))
    try bench.fill()
    bench.transport.clear()
    try bench.copy.queue.updateItem(a, ItemEdit(properties: ["title": "Z", "rank": 3], version: 1))
    try bench.copy.queue.removeTag(a, "old")
    try bench.copy.queue.createEdge(EdgeDraft(source: b, target: a, type: "references"))
    let made = try #require(
      try bench.copy.queue.createItem(ItemDraft(type: "core.note", properties: ["title": "New", "body": "x"])).itemID)
    #expect(try LocalListScenarios.filtered(bench, "properties.title eq \"Z\"") == [a])
    #expect(try LocalListScenarios.filtered(bench, "properties.title eq \"A\"").isEmpty)
    #expect(try LocalListScenarios.filtered(bench, "properties.rank gt 2") == [a])
    #expect(try LocalListScenarios.filtered(bench, "tags exists").isEmpty)
    #expect(try LocalListScenarios.filtered(bench, Text("edge[references] eq \"\(a)\"")) == [b])
    #expect(try LocalListScenarios.filtered(bench, "version eq 0") == [made])
    var query = ListQuery()
    query.sort = .property("title")
    #expect(titles(try bench.copy.list(query)) == ["B", "New", "Z"])
    try bench.copy.queue.deleteItem(b)
    #expect(titles(try bench.copy.list(query)) == ["New", "Z"])
    #expect(bench.transport.requests.isEmpty)
  }

  @Test("SF-S45 a folder's search that names a type the copy does not hold is invalid, never a shorter list")
  func unheldType() throws {
    let bench = try CopyBench()
    try bench.note("Note")
    try bench.note("Mark", type: "core.bookmark")
    let made = try bench.ask(
      "POST", "/folders", ["title": "Both", "search": ["types": ["core.note", "core.bookmark"]]])
    let folder = try #require(made["item"]?["id"]?.text.flatMap { EntityID($0) })
    try bench.fill(["core.note", "system.folder"])
    for refusal in [
      bench.refusal { _ = try bench.copy.list(inFolder: folder) },
      bench.refusal { _ = try bench.copy.search("note", inFolder: folder) },
      bench.refusal { _ = try bench.copy.items(matching: FolderSearch(types: ["core.note", "core.bookmark"])) },
    ] {
      #expect(refusal?.code == .invalid && refusal?.message.contains("core.bookmark") == true)
    }
    try bench.fill(["core.note", "core.bookmark", "system.folder"])
    #expect(try bench.copy.list(inFolder: folder).count == 2)
  }

  @Test("SF-S46 the bin is read newest to it first, waiting deletes among what went")
  func bin() throws {
    let bench = try CopyBench()
    let ids = try (0..<4).map { try bench.note(Text("\($0)")) }
    try bench.fill()
    for id in [ids[2], ids[0], ids[3]] {
      bench.clock.advance(seconds: 10)
      try bench.ask("DELETE", "/items/\(id)?version=1")
    }
    try bench.copy.catchUp()
    var query = ListQuery()
    query.states = ["trashed"]
    #expect(try bench.copy.list(query).map(\.id) == [ids[3], ids[0], ids[2]])
    bench.clock.advance(seconds: 10)
    try bench.copy.queue.deleteItem(ids[1])
    #expect(Set(try bench.copy.list(query).map(\.id)) == Set(ids))
    try bench.copy.queue.drain()
    #expect(try bench.copy.list(query).map(\.id) == [ids[1], ids[3], ids[0], ids[2]])
  }

  @Test(
    "SF-S56 a folder without state or tier holds active and archived items of the library; a plain list active ones")
  func defaults() throws {
    let bench = try CopyBench()
    let active = try bench.note("Active")
    let archived = try bench.note("Archived")
    try bench.ask("POST", "/items/\(archived)/transition", ["state": "archived"])
    let trashed = try bench.note("Trashed")
    try bench.ask("DELETE", "/items/\(trashed)?version=1")
    let fed = try bench.note("Fed", tier: "feed")
    let plain = try bench.ask("POST", "/folders", ["title": "Plain", "search": ["types": ["core.note"]]])
    let only = try bench.ask(
      "POST", "/folders", ["title": "Active alone", "search": ["types": ["core.note"], "state": ["active"]]])
    try bench.fill(["core.note", "system.folder"], tier: "all")
    let folder = try #require(plain["item"]?["id"]?.text.flatMap { EntityID($0) })
    #expect(Set(try bench.copy.list(inFolder: folder).map(\.id)) == [active, archived])
    let other = try #require(only["item"]?["id"]?.text.flatMap { EntityID($0) })
    #expect(Set(try bench.copy.list(inFolder: other).map(\.id)) == [active])
    #expect(try LocalListScenarios.list(bench) { $0.types = ["core.note"] } == [active, fed])
  }

  @Test(
    "D-S47 D4 a stale copy lists its rows, says they are stale, and refuses a folder's list as not whole, as a view's")
  func staleLists() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    let made = try bench.ask("POST", "/folders", ["title": "Notes", "search": ["types": ["core.note"]]])
    let folder = try #require(made["item"]?["id"]?.text.flatMap { EntityID($0) })
    try bench.fill(["core.note", "system.folder"])
    #expect(try bench.copy.completeness() == .complete)
    try bench.goStale()
    #expect(try bench.copy.completeness() == .stale)
    #expect(try LocalListScenarios.list(bench) { $0.types = ["core.note"] } == [note])
    #expect(try bench.copy.get(note) != nil)
    for refusal in [
      bench.refusal { _ = try bench.copy.list(inFolder: folder) },
      bench.refusal { _ = try bench.copy.search("note", inFolder: folder) },
    ] {
      #expect(refusal?.code == .hydrationIncomplete)
    }
    #expect(try bench.copy.folder(folder)?.properties["title"] == "Notes")
  }
}
