import LocalInstance
import MarfaBase
import MarfaCopy
import Testing
import TestSupport

/// What the instance's listing and the copy's list answer to one question, as titles in the order given.
extension CopyBench {
  func served(_ query: [(String, Text)]) throws -> [Text] {
    try ask("GET", "/items?\(queryText(query + [("limit", "200"), ("include", "metadata")]))")["data"]?.array?
      .compactMap { $0["item"]?["properties"]?["title"]?.text } ?? []
  }

  func refusesList(_ query: ListQuery, _ words: Text) -> [MarfaError?] {
    [
      refusal { _ = try copy.list(query) }, refusal { _ = try copy.search(words, query) },
      refusal { _ = try copy.search("", query) },
    ]
  }
}

@Suite("Lists and searches") struct ReadScenarios {
  @Test("D-S126 what the grammar refuses is refused by lists and searches, words or none; the bounds are UTF-16")
  func grammar() throws {
    let bench = try CopyBench()
    try bench.note("Note")
    try bench.fill()
    let eleven = Array(repeating: "version gt 0", count: 11).joined(separator: " AND ")
    let ten = Array(repeating: "version gt 0", count: 10).joined(separator: " AND ")
    let refused = [
      "properties.a.b eq \"x\"", "unknown eq \"x\"", "tags eq \"x\"", "edge[references] gt \"x\"", "state exists",
      "version gt 0 AND version lt 9 OR version eq 1", "version gt", "state eq \"active", "state eq active",
      "version gt 1e999", "", eleven, "title", "properties.title eq null",
    ]
    for text in refused {
      var query = ListQuery()
      query.filter = Text(text)
      for refusal in bench.refusesList(query, "note") {
        #expect(refusal?.code == .validation && refusal?.server?.code == "validation_error", "\(text)")
      }
    }
    var query = ListQuery()
    query.filter = "properties.title eq null"
    #expect(bench.refusal { _ = try bench.copy.list(query) }?.message.contains("not_exists") == true)
    query.filter = Text(ten)
    #expect(try bench.copy.list(query).count == 1)
    // 2048 units in half as many characters are answered; 2049 units, in fewer characters than 2048, are not.
    let fits = "id neq \"" + String(repeating: "\u{1F600}", count: 1019) + "a\""
    #expect(Text(fits).utf16Count == 2048)
    query.filter = Text(fits)
    #expect(try bench.copy.list(query).count == 1)
    query.filter = Text(fits.replacing("a\"", with: "ab\""))
    #expect(bench.refusal { _ = try bench.copy.list(query) }?.code == .validation)
  }

  @Test("D-S127 a backref, alone or in an OR, is invalid with no server code; the edge form answers")
  func backref() throws {
    let bench = try CopyBench()
    let (a, b) = (try bench.note("A"), try bench.note("B"))
    try bench.edge("references", a, b)
    try bench.fill()
    var query = ListQuery()
    for text in ["backref[references] exists", "version eq 9 OR backref[references] exists"] {
      query.filter = Text(text)
      for refusal in bench.refusesList(query, "a") {
        #expect(refusal?.code == .invalid && refusal?.server == nil)
      }
    }
    query.filter = "edge[references] exists"
    #expect(try titles(bench.copy.list(query)) == ["A"])
    #expect(try bench.copy.search("a", query).count == 1)
  }

  @Test("D-S128 an edge type the key may not read is answered from the edges held, where the instance refuses")
  func hiddenEdge() throws {
    let bench = try CopyBench()
    let (a, b) = (try bench.note("A"), try bench.note("B"))
    try bench.edge("about", a, b)
    let key = try bench.makeKey(["core.note": "write"], edges: ["references": "write"])
    try bench.reopen(key: key.key)
    try bench.fill(edges: [])
    #expect(
      bench.refusal {
        _ = try bench.copy.server.request("GET", "/items", query: [("filter", "edge[about] exists")])
      }?.code == .forbidden)
    var query = ListQuery()
    for (filter, found) in [
      ("edge[about] exists", []), ("edge[about] eq \"\(b)\"", []), ("edge[about] not_exists", ["A", "B"]),
      ("edge[about] neq \"\(b)\"", ["A", "B"]),
    ] as [(String, [Text])] {
      query.filter = Text(filter)
      #expect(try titles(bench.copy.list(query)).sorted() == found, "\(filter)")
    }
  }

  @Test("D-S129 each expression picks the same rows here and on the instance")
  func asInstance() throws {
    let bench = try CopyBench()
    let values: [JSON] = [
      "10", "abc", "4", 5, .number(JSONNumber(5.0)!), "5.0", "5", 1, .number(JSONNumber(1.0)!), true, "1.0", "true",
      ["a", 1e20.asJSON], ["deep": 100_000_000_000_000_000], "Ärger", "ÄRGER", "Soup", "SOUP",
    ]
    for (number, value) in values.enumerated() {
      try bench.ask(
        "POST", "/items",
        [
          "type": "core.note", "source_id": number % 2 == 0 ? "5.0" : .string(Text("k\(number)")),
          "properties": ["title": .string(Text("n\(number)")), "body": "x", "value": value],
        ])
    }
    try bench.fill(edges: ["parent-of", "references"])
    var filters: [String] = []
    for op in ["eq", "neq", "gt", "gte", "lt", "lte", "contains", "starts_with"] {
      for literal in [
        "4", "5", "1", "true", "\"5\"", "\"10\"", "\"abc\"", "\"soup\"", "\"ärger\"", "\"1e+20\"",
        "\"100000000000000000\"", "4.5",
      ] {
        filters.append("properties.value \(op) \(literal)")
        filters.append("source_id \(op) \(literal)")
      }
    }
    filters += ["properties.value exists", "properties.value not_exists", "version eq 1", "version gte 1"]
    var compared = 0
    for filter in filters {
      let served = try? bench.served([("type", "core.note"), ("filter", Text(filter))]).sorted()
      var query = ListQuery()
      query.types = ["core.note"]
      query.filter = Text(filter)
      let found = try? titles(bench.copy.list(query)).sorted()
      #expect(found == served, "\(filter)")
      if served != nil { compared += 1 }
    }
    #expect(compared > filters.count / 2)
  }

  @Test(
    "D-S130 no state is active alone, a named one is that one; by id an archived row reads and a trashed one is absent")
  func states() throws {
    let bench = try CopyBench()
    let (active, archived, trashed) = (
      try bench.note("Active soup"), try bench.note("Archived soup"), try bench.note("Trashed soup")
    )
    try bench.ask("POST", "/items/\(archived)/transition", ["state": "archived"])
    try bench.ask("DELETE", "/items/\(trashed)?version=1")
    try bench.fill()
    var query = ListQuery()
    #expect(try bench.copy.list(query).map(\.id) == [active])
    #expect(try bench.copy.search("soup", query).map(\.item.id) == [active])
    query.states = ["archived"]
    #expect(try bench.copy.list(query).map(\.id) == [archived])
    #expect(try bench.copy.search("soup", query).map(\.item.id) == [archived])
    query.states = ["trashed"]
    #expect(try bench.copy.list(query).map(\.id) == [trashed])
    #expect(try bench.copy.get(archived)?.state == "archived")
    #expect(try bench.copy.get(trashed) == nil)
    #expect(try bench.copy.get([active, trashed]).map(\.id) == [active])
    #expect(try bench.copy.get([active, trashed], includingBin: true).map(\.id) == [active, trashed])
  }

  @Test("D-S131 a row in the bin, or put there by an event or an own write, is found under no state")
  func bin() throws {
    let bench = try CopyBench()
    let (first, second, third) = (try bench.note("Soup one"), try bench.note("Soup two"), try bench.note("Soup three"))
    try bench.ask("DELETE", "/items/\(first)?version=1")
    try bench.fill()
    #expect(try bench.copy.search("soup").count == 2)
    try bench.ask("DELETE", "/items/\(second)?version=1")
    try bench.copy.catchUp()
    try bench.copy.queue.deleteItem(third)
    for states in [[], ["active"], ["archived"], ["trashed"], ["active", "archived", "trashed"]] as [[Text]] {
      var query = ListQuery()
      query.states = states
      #expect(try bench.copy.search("soup", query).isEmpty)
    }
  }

  @Test("D-S132 a row on a bound is out, and each bound works alone")
  func bounds() throws {
    let bench = try CopyBench()
    for day in ["2026-03-01", "2026-03-02", "2026-03-03"] as [Text] {
      try bench.ask(
        "POST", "/items",
        [
          "type": "core.note", "occurred_at": .string(day), "properties": ["title": .string(day), "body": "soup"],
        ])
    }
    try bench.fill()
    func found(_ after: Text?, _ before: Text?) throws -> [Text] {
      var query = ListQuery()
      query.occurredAfter = after
      query.occurredBefore = before
      let listed = try titles(bench.copy.list(query)).sorted()
      #expect(try bench.copy.search("soup", query).compactMap { $0.item.properties["title"]?.text }.sorted() == listed)
      return listed
    }
    #expect(try found("2026-03-01", nil) == ["2026-03-02", "2026-03-03"])
    #expect(try found(nil, "2026-03-03") == ["2026-03-01", "2026-03-02"])
    #expect(try found("2026-03-01", "2026-03-03") == ["2026-03-02"])
    #expect(try found("2026-02-28", nil).count == 3)
  }

  @Test(
    "D-S133 every accepted spelling of a time is read as the instance reads it; a waiting row shows the canonical one")
  func times() throws {
    let bench = try CopyBench()
    for time in ["2026-03-01T09:30:15.987Z", "2026-01-01", "2026-03-01T07:30:15Z", "2025-12-31T23:59:59.999Z"]
      as [Text]
    {
      try bench.ask(
        "POST", "/items",
        ["type": "core.note", "occurred_at": .string(time), "properties": ["title": .string(time), "body": "x"]])
    }
    try bench.fill()
    let spellings: [Text] = [
      "2026", "2026-03", "2026-03-01", "2026-03-01T09:30", "2026-03-01T09:30:15", "2026-03-01T09:30:15.98765Z",
      "2026-03-01T09:30:15+02:00", "2026-03-01 09:30", "yesterday", "2026-02-30", "",
    ]
    for time in spellings {
      let served = try? bench.served([("type", "core.note"), ("occurred_after", time)]).sorted()
      var query = ListQuery()
      query.occurredAfter = time
      let found = try? titles(bench.copy.list(query)).sorted()
      #expect(found == served, "\(time)")
      if found == nil {
        #expect(bench.refusal { _ = try bench.copy.list(query) }?.server?.code == "validation_error")
      }
      for op in ["eq", "gt", "lte"] {
        query = ListQuery()
        query.filter = Text("occurred_at \(op) \"\(time)\"")
        let bySystem = try? bench.served([("type", "core.note"), ("filter", query.filter ?? "")]).sorted()
        #expect((try? titles(bench.copy.list(query)).sorted()) == bySystem, "\(op) \(time)")
      }
    }
    var query = ListQuery()
    query.filter = "occurred_at starts_with \"2026-03\""
    #expect(try bench.copy.list(query).count == 2)
    let write = try bench.copy.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "Mine", "body": "x"], occurredAt: "2026-09-18"))
    let id = try #require(write.itemID)
    #expect(try bench.copy.get(id)?.occurredAt.text == "2026-09-18T00:00:00.000Z")
    #expect(try bench.copy.queue.write(write.id)?.body?["occurred_at"]?.text == "2026-09-18")
  }

  @Test(
    "D-S134 types with subtrees and every tag narrow a search as a list; beneath follows parent-of alone, once round")
  func narrows() throws {
    let bench = try CopyBench()
    let (root, child, grandchild) = (
      try bench.note("Soup root"), try bench.note("Soup child", tags: ["a", "b"]),
      try bench.note("Soup grand", tags: ["a"])
    )
    let referred = try bench.note("Soup referred")
    let mark = try bench.note("Soup mark", type: "core.bookmark")
    try bench.edge("parent-of", root, child)
    try bench.edge("parent-of", child, grandchild)
    try bench.edge("references", root, referred)
    try bench.fill(["core.note", "core.bookmark"])
    // A circle the instance would refuse, met as a frame.
    _ = StreamScript(
      bench, [.frames(try bench.stream([bench.edgeEvent(at: "900", bench.newID(), "parent-of", grandchild, root)]))])
    try bench.copy.catchUp()
    func both(_ change: (inout ListQuery) -> Void) throws -> Set<EntityID> {
      var query = ListQuery()
      change(&query)
      let listed = try bench.copy.list(query).map(\.id)
      let found = try bench.copy.search("soup", query).map(\.item.id)
      #expect(Set(listed) == Set(found) && Set(listed).count == listed.count && found.count == listed.count)
      return Set(listed)
    }
    #expect(try both { $0.types = ["core.note"] } == [root, child, grandchild, referred])
    #expect(try both { $0.types = ["core.bookmark"] } == [mark])
    #expect(try both { $0.tags = ["a"] } == [child, grandchild])
    #expect(try both { $0.tags = ["a", "b"] } == [child])
    #expect(try both { $0.beneath = root } == [root, child, grandchild])
    #expect(try both { $0.beneath = child } == [root, child, grandchild])
  }

  @Test("D-S135 a type outside the grammar is refused, not answered empty")
  func typeGrammar() throws {
    let bench = try CopyBench()
    try bench.fill()
    for type in ["note", "Core.Note", "core..note", "core.", ".*"] as [Text] {
      var query = ListQuery()
      query.types = [type]
      for refusal in bench.refusesList(query, "x") {
        #expect(refusal?.code == .validation && refusal?.server?.code == "validation_error", "\(type)")
      }
    }
  }

  @Test("D-S136 one corpus answers each query alike here and on the instance: hits, order and snippets")
  func corpus() throws {
    let bench = try CopyBench()
    let notes: [(Text, Text, [Text])] = [
      (
        "Running shoes", Text("He runs <fast> & \"far\" in 'new' shoes. " + String(repeating: "filler ", count: 60)), []
      ),
      ("Runner", "A well-known runner ran.", ["sport"]), ("Soup", "Boil the stock; stir the soup.", ["food", "soup"]),
      ("Stock", "Bones, water, stock pot.", ["food"]), ("Über", "Ein Über-Text mit Café.", []),
      ("Tea", "Tea and cake, cake and tea.", ["run"]), ("title:colon", "a OR b AND NOT c* (d)", []),
    ]
    for (title, body, tags) in notes { try bench.note(title, body: body, tags: tags) }
    try bench.fill()
    let queries: [Text] = [
      "run", "running shoes", "runner", "soup", "stock s", "\"tea and cake\"", "\"cake tea\"", "cake te", "uber",
      "cafe",
      "title:colon", "a OR b", "-run", "c*", "food", "well-known", "\"", "  ", "\u{FEFF}soup\u{FEFF}", "fast",
      "sho run",
      "filler", "\"run", "don't", "(d)",
    ]
    for words in queries {
      let answer = try bench.ask("GET", "/search?\(queryText([("q", words), ("limit", "50")]))")
      let hits = answer["data"]?.array ?? answer["results"]?.array ?? []
      let served = hits.map { hit in
        [hit["item"]?["id"]?.text ?? "?", hit["snippet_html"]?.text ?? "?"]
      }
      let found = try bench.copy.search(words).map { [$0.item.id.text, $0.snippet] }
      #expect(found == served, "\(words)")
    }
  }

  @Test("D-S137 a catalog that changes what is searchable re-indexes the held rows")
  func searchability() throws {
    let bench = try CopyBench()
    try bench.ask(
      "POST", "/types",
      [
        "id": "acme.thing",
        "fields": ["title": ["type": "string"], "secret": ["type": "string", "searchable": false]],
      ])
    try bench.ask(
      "POST", "/items",
      ["type": "acme.thing", "tier": "library", "properties": ["title": "Plain", "secret": "hidden words"]])
    try bench.fill(["acme.thing"])
    #expect(try bench.copy.search("hidden").isEmpty)
    #expect(try bench.copy.search("plain").count == 1)
    bench.transport.after = { request, response in
      guard request.url.hasSuffix("/types") else { return .success(response) }
      var changed = response
      let text = String(decoding: response.body, as: UTF8.self)
      changed.body = Array(text.replacing("\"searchable\":false", with: "\"searchable\":true").utf8)
      return .success(changed)
    }
    try bench.copy.catchUp()
    #expect(try bench.copy.search("hidden").count == 1)
    bench.transport.after = nil
    try bench.copy.catchUp()
    #expect(try bench.copy.search("hidden").isEmpty)
  }

  @Test("D-S138 a sort by a property: numbers and booleans, then text, then none; turned round but for the last")
  func sorts() throws {
    let bench = try CopyBench()
    let values: [JSON?] = [10, 2, true, "b", "a", nil, "10"]
    for (number, value) in values.enumerated() {
      var properties: JSONObject = ["title": .string(Text("n\(number)")), "body": "x"]
      properties["rank"] = value
      try bench.ask("POST", "/items", ["type": "core.note", "properties": .object(properties)])
    }
    try bench.fill()
    var query = ListQuery()
    query.sort = .property("rank")
    #expect(try titles(bench.copy.list(query)) == ["n2", "n1", "n0", "n6", "n4", "n3", "n5"])
    query.ascending = false
    #expect(try titles(bench.copy.list(query)) == ["n3", "n4", "n6", "n0", "n1", "n2", "n5"])
    query.sort = .property("Rank")
    #expect(bench.refusal { _ = try bench.copy.list(query) }?.code == .validation)
  }

  @Test("D-S139 edges to an item are the answered and the waiting ones, and no other")
  func edgesTo() throws {
    let bench = try CopyBench()
    let (a, b, c) = (try bench.note("A"), try bench.note("B"), try bench.note("C"))
    let answered = try bench.edge("references", a, b)
    try bench.edge("references", b, c)
    try bench.fill()
    let waiting = try #require(
      try bench.copy.queue.createEdge(EdgeDraft(source: c, target: b, type: "references")).edgeID)
    #expect(Set(try bench.copy.readEdges(to: b).map(\.id)) == [answered, waiting])
    #expect(try bench.copy.readEdges(from: c).map(\.id) == [waiting])
  }

  @Test("D-S140 an edge from an unheld row is refused; one whose source a fill left out is sent and not held")
  func unheldSource() throws {
    let bench = try CopyBench()
    let (a, b, outside) = (try bench.note("A"), try bench.note("B"), try bench.note("Out", tier: "feed"))
    let mark = try bench.note("Mark", type: "core.bookmark")
    try bench.fill()
    let refusal = bench.refusal {
      try bench.copy.queue.createEdge(EdgeDraft(source: outside, target: a, type: "references"))
    }
    #expect(refusal?.code == .invalid && refusal?.server == nil)
    #expect(try bench.copy.queue.all().isEmpty)
    let edge = try #require(
      try bench.copy.queue.createEdge(EdgeDraft(source: a, target: b, type: "references")).edgeID)
    #expect(try bench.copy.edge(edge) != nil)
    try bench.fill(["core.bookmark"])
    #expect(try bench.copy.edge(edge) == nil)
    #expect(try bench.copy.queue.unansweredCount() == 1)
    let report = try bench.copy.queue.drain()
    #expect(report.verdicts.map(\.verdict) == [.accepted])
    #expect(try bench.copy.edge(edge) == nil)
    #expect(try bench.ask("GET", "/edges/\(edge)")["edge"]?["source_id"]?.text == a.text)
    #expect(try bench.copy.item(mark) != nil)
  }

  @Test(
    "D-S141 a registered type with a parent and an edge type with a reverse name read offline as the instance has them")
  func catalog() throws {
    let bench = try CopyBench()
    try bench.ask(
      "POST", "/types",
      [
        "id": "acme.base", "label": "Base",
        "fields": ["title": ["type": "string", "required": true], "note": ["type": "string"]],
        "display_hints": ["title_field": "title", "body_field": "note"],
      ])
    try bench.ask(
      "POST", "/types",
      ["id": "acme.sub", "label": "Sub", "parent": "acme.base", "fields": ["extra": ["type": "number"]]])
    try bench.fill(["acme.base"])
    bench.transport.before = { _ in .failure(.unreachable("offline")) }
    let type = try bench.copy.type("acme.sub")
    #expect(type.label == "Sub" && type.parent == "acme.base")
    #expect(type.fields.map(\.name) == ["title", "note", "extra"])
    #expect(type.fields.map(\.declaredBy) == ["acme.base", "acme.base", "acme.sub"])
    #expect(type.field("title")?.isRequired == true)
    // Hints are those of the nearest type that declares any, whole.
    #expect(type.titleField == "title" && type.bodyField == "note")
    let edge = try bench.copy.edgeType("parent-of")
    #expect(edge.reverseName == "child-of" && edge.writtenAt == .target && edge.cardinality == .oneToMany)
    bench.transport.before = nil
    let served = try bench.ask("GET", "/edge-types")["data"]?.array?.first { $0["id"]?.text == "parent-of" }
    #expect(edge.definition == served)
  }

  @Test("D-S142 a copy that never reached a server has the shipped types, no version, and says what it doesn't know")
  func shipped() throws {
    let bench = try CopyBench()
    #expect(try bench.copy.type("core.note").label.isEmpty == false)
    #expect(try bench.copy.edgeType("attached-to").reverseName == "has-attachment")
    #expect(try bench.copy.status().catalogVersion == nil)
    for refusal in [
      bench.refusal { _ = try bench.copy.type("acme.none") }, bench.refusal { _ = try bench.copy.edgeType("none") },
    ] {
      #expect(refusal?.code == .notFound && refusal?.message.contains("none") == true)
    }
    #expect(bench.transport.requests.isEmpty)
    try bench.ask("POST", "/types", ["id": "acme.none", "fields": ["title": ["type": "string"]]])
    try bench.fill()
    #expect(try bench.copy.type("acme.none").id == "acme.none")
    #expect(try bench.copy.status().catalogVersion != nil)
  }

  @Test("D-S145 the catalog as served is read in any state, the copy's own unchanged; with no server named, no_server")
  func served() throws {
    let bench = try CopyBench()
    try bench.ask("POST", "/types", ["id": "acme.new", "fields": ["title": ["type": "string"]]])
    let served = try bench.copy.servedCatalog()
    #expect(served.type("acme.new") != nil && served.type("core.note") != nil)
    #expect(served.edgeTypes["parent-of"]?.reverseName == "child-of")
    #expect(try bench.copy.catalog().type("acme.new") == nil)
    #expect(try bench.copy.status().catalogVersion == nil)
    #expect(try bench.copy.hydration() == .never)
    let lone = try WorkingCopy.open(
      database: try Database(path: ":memory:", mode: .create), blobs: MemoryBlobStore(), context: bench.context,
      role: .writer, endpoint: nil, credentials: nil)
    #expect(bench.refusal { _ = try lone.servedCatalog() }?.code == .noServer)
  }
}

extension Double {
  var asJSON: JSON { JSONNumber(self).map { .number($0) } ?? .null }
}
