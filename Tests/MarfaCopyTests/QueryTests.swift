import MarfaBase
import MarfaCopy
import Testing
import TestSupport

@Suite struct QueryTests {
  private static let refused: [Text] = [
    "state eq active", "state eq \"active\" and tier eq \"feed\"", "tags eq \"x\"", "id exists", "edge[] exists",
    "edge[x]exists", "-x eq 1", "state eq \"a\" AND", "(state eq \"a\")", "state eq\n\"a\"", "properties.a gt",
    "unknown eq 1", "state eq \"a\" AND id eq \"b\" OR id eq \"c\"", "", "   ", "properties.a.b exists",
    "properties.x eq null", "state eq \"open", "created_at gt 5", "created_at gt \"2026-02-30\"", "part eq 1",
    "status_group eq \"done\"", "edge[t] gt \"x\"", "properties.n eq 1e5",
  ]

  @Test("D24.1 SF14.3 SF-S what the grammar refuses is refused validation_error", arguments: refused)
  func refusals(_ text: Text) throws {
    do throws(MarfaError) {
      _ = try Filter(text)
      Issue.record("taken: \(text)")
    } catch {
      #expect(error.code == .validation && error.server?.code == "validation_error")
    }
  }

  @Test("D24.2 ten conditions and 2048 units are taken, eleven and one more are not")
  func limits() throws {
    let ten = Array(repeating: "id neq \"x\"", count: 10).joined(separator: " AND ")
    #expect(try Filter(Text(ten)).conditions.count == 10)
    #expect(throws: MarfaError.self) { try Filter(Text(ten + " AND id neq \"y\"")) }
    let fits = "id neq \"" + String(repeating: "\u{1F600}", count: 1019) + "a\""
    #expect(Text(fits).utf16Count == 2048)
    #expect(try Filter(Text(fits)).conditions.count == 1)
    #expect(throws: MarfaError.self) { try Filter(Text("id neq \"" + String(repeating: "a", count: 2040) + "\"")) }
  }

  /// A copy and an instance with the same rows; what both answer to a filter, by title.
  private static func rows() throws -> CopyBench {
    let bench = try CopyBench()
    let values: [JSON] = [
      5, "5", .number(JSONNumber(5.5)!), "10", "abc", "4 apples", true, false, "true", "", [1, 2], ["k": 1], 1, 0,
      "Ärger", "100%", "a_b",
      "Soup", "soup", "2026-03-01", .number(JSONNumber(1.5e20)!),
    ]
    for (number, value) in values.enumerated() {
      try bench.ask(
        "POST", "/items",
        [
          "type": "core.note",
          "properties": ["title": .string(Text("n\(number)")), "body": "x", "app_value": value],
          "tags": number % 2 == 0 ? ["even", "Tag"] : [],
        ])
    }
    let one = try bench.note("one")
    let two = try bench.note("two")
    try bench.edge("references", one, two)
    try bench.fill(edges: ["parent-of", "references"])
    return bench
  }

  @Test("D36.8 SF-S any filter answers the same rows here and on the instance")
  func asInstance() throws {
    let bench = try QueryTests.rows()
    var literals = ["5", "5.0", "4", "1", "0", "true", "false", "-1", "1.5", "100000000000000000000"]
    literals += [
      "\"5\"", "\"10\"", "\"abc\"", "\"\"", "\"true\"", "\"[1,2]\"", "\"soup\"", "\"%\"", "\"_\"", "\"ärger\"",
      "\"2026\"",
    ]
    var filters = [
      "properties.app_value exists", "properties.app_value not_exists", "tags contains \"even\"", "tags exists",
    ]
    filters += ["tags contains \"tag\"", "tags not_exists", "edge[references] exists", "edge[references] not_exists"]
    filters += [
      "type eq \"core.note\"", "version gt 0", "version eq \"1\"", "version neq 1", "state eq \"active\"",
      "part eq true", "part neq true",
    ]
    filters += [
      "created_at starts_with \"20\"", "created_at gt \"2020\"", "created_at lt \"2020-01-01\"", "source_id eq 5",
      "source_id exists2",
    ]
    for op in ["eq", "neq", "gt", "gte", "lt", "lte", "contains", "starts_with"] {
      filters += literals.map { "properties.app_value \(op) \($0)" }
      filters.append("tier \(op) \"library\"")
      filters.append("properties.title \(op) \"n1\" OR properties.app_value eq 5")
    }
    var answered = 0
    for filter in filters {
      let served = try? bench.ask(
        "GET", "/items?type=core.note&limit=200&include=metadata&filter=\(percentEncoded(Text(filter)))")
      let expected = served?["data"]?.array?.compactMap { $0["item"]?["properties"]?["title"]?.text }.sorted()
      var query = ListQuery()
      query.types = ["core.note"]
      query.filter = Text(filter)
      let found = try? titles(bench.copy.list(query)).sorted()
      #expect(found == expected, "\(filter)")
      if served != nil { answered += 1 }
    }
    // All but the one the grammar refuses.
    #expect(answered == filters.count - 1)
  }

  @Test("F2 D65 D66 a folder's search: subtypes, tier, states, filter, beneath, and what it cannot answer")
  func folder() throws {
    let bench = try CopyBench()
    let root = try bench.note("Root")
    let child = try bench.note("Child", tags: ["work"])
    let grandchild = try bench.note("Grandchild")
    let fed = try bench.note("Fed", tier: "feed")
    let archived = try bench.note("Archived")
    try bench.ask("POST", "/items/\(archived)/transition", ["state": "archived"])
    try bench.edge("parent-of", root, child)
    try bench.edge("parent-of", child, grandchild)
    try bench.fill(["core.note"])
    let all = try bench.copy.items(matching: FolderSearch(types: ["core.note"]))
    #expect(Set(all) == [root, child, grandchild, archived])
    #expect(try bench.copy.items(matching: FolderSearch(types: ["core.note"], states: ["archived"])) == [archived])
    #expect(
      try bench.copy.items(matching: FolderSearch(types: ["core.note"], filter: "tags contains \"work\"")) == [child])
    #expect(
      Set(try bench.copy.items(matching: FolderSearch(types: ["core.note"], beneath: child))) == [child, grandchild])
    #expect(try bench.copy.matches(child, FolderSearch(types: ["core.note"], beneath: root)))
    #expect(try !bench.copy.matches(root, FolderSearch(types: ["core.note"], beneath: child)))
    #expect(try !bench.copy.matches(fed, FolderSearch(types: ["core.note"])))
    for search in [
      FolderSearch(), FolderSearch(types: ["core.bookmark"]), FolderSearch(types: ["core.note"], tier: "feed"),
      FolderSearch(types: ["core.note"], states: ["trashed"]),
      FolderSearch(types: ["core.note"], filter: "backref[references] exists"),
    ] {
      #expect(bench.refusal { _ = try bench.copy.items(matching: search) }?.code == .invalid)
    }
  }

  @Test("D89.5 F27 titles are found in any case and Unicode form; a name is looked up on the instance")
  func names() throws {
    let bench = try CopyBench()
    let held = try bench.note("Äpfel")
    let away = try bench.note("A\u{308}pfel", tier: "feed")
    try bench.note("Äpfel und Birnen", tier: "feed")
    try bench.fill()
    #expect(try bench.copy.itemsTitled(key: NameKey("äPFEL" as Text)) == [held])
    #expect(Set(try bench.copy.lookUp(name: "Äpfel").map(\.id)) == [held, away])
    try bench.note("say \"hi\\", tier: "feed")
    #expect(try bench.copy.lookUp(name: "say \"hi\\").count == 1)
  }

  @Test("SF8 a sort by a property puts numbers, then text, then none; descending reverses the first two alone")
  func sorted() throws {
    let bench = try CopyBench()
    let values: [JSON] = ["b", 2, true, .null, "a", 10, ""]
    for (number, value) in values.enumerated() {
      try bench.ask(
        "POST", "/items",
        ["type": "core.note", "properties": ["title": .string(Text("\(number)")), "body": "x", "rank": value]])
    }
    try bench.fill()
    var query = ListQuery()
    query.sort = .property("rank")
    #expect(titles(try bench.copy.list(query)) == ["2", "1", "5", "6", "4", "0", "3"])
    query.ascending = false
    #expect(titles(try bench.copy.list(query)) == ["0", "4", "6", "5", "1", "2", "3"])
  }
}
