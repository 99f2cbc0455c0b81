import MarfaBase
import MarfaCopy
import Testing
import TestSupport

/// The value index beside the rows: a list by it gives what a reading of every row gives.
@Suite struct ValueIndexTests {
  private static let filters: [Text] = [
    "properties.v eq 5", "properties.v eq \"5\"", "properties.v gt 4", "properties.v lte 5", "properties.v gte 0",
    "properties.v lt 1", "properties.v eq true", "properties.v gt false", "properties.v eq \"[1,2]\"",
    "properties.v eq 5 AND properties.w eq \"x\"", "properties.v eq 5 OR properties.w eq \"x\"",
    "properties.long gt 11", "properties.long eq \"12\"",
  ]

  /// The ids a list gives, by each filter, and those a folder's search gives, which reads the rows.
  private func agree(_ bench: CopyBench, _ when: Comment) throws {
    for filter in Self.filters {
      var query = ListQuery()
      query.types = ["core.note"]
      query.states = ["active", "archived"]
      query.filter = filter
      query.limit = 500
      let listed = try bench.copy.list(query).map(\.id).sorted()
      let read = try bench.copy.items(
        matching: FolderSearch(types: ["core.note"], tier: "library", states: ["active", "archived"], filter: filter))
      #expect(listed == read, "\(filter) \(when)")
    }
  }

  @Test("SF15.5 SF-S32 lists and objects compare as JavaScript spells their numbers, however they were sent")
  func spelling() throws {
    let bench = try CopyBench()
    func held(_ value: String) throws -> EntityID {
      let note = try JSON(parsing: "{\"type\":\"core.note\",\"properties\":{\"body\":\"b\",\"v\":\(value)}}")
      return try #require(try bench.ask("POST", "/items", note)["item"]?["id"]?.text.flatMap { EntityID($0) })
    }
    let list = try held("[1e20,0.0000015]")
    let object = try held(#"{"b":[1.50,true,null,"\u00e9"],"a":{}}"#)
    let big = try held("[9007199254740993]")
    try bench.fill()
    for (condition, found) in [
      (#"eq "[100000000000000000000,0.0000015]""#, [list]), ("contains \"10\"", [list]), ("contains \"1e20\"", []),
      (#"starts_with "[1000""#, [list]), (#"contains "[1.5,true,null""#, [object]), ("contains 0", [list, big]),
      (#"eq "[9007199254740992]""#, [big]), (#"neq "[9007199254740992]""#, [list, object]),
    ] as [(String, [EntityID])] {
      var query = ListQuery()
      query.filter = Text("properties.v \(condition)")
      #expect(Set(try bench.copy.list(query).map(\.id)) == Set(found), "\(condition)")
    }
  }

  @Test("SF21.6 lists by the value index agree with the rows: filled, changed, cleared and let go")
  func followsRows() throws {
    let bench = try CopyBench()
    let long = String(repeating: "words ", count: 60)
    let values: [JSON] = [
      5, "5", "5 apples", true, false, [1, 2], ["k": 5], 1, 0, "", .string(Text("7 " + long)), .null,
    ]
    var ids: [JSON] = []
    for (place, value) in values.enumerated() {
      let made = try bench.ask(
        "POST", "/items",
        [
          "type": "core.note",
          "properties": [
            "title": "n", "body": "x", "v": value, "w": .string(place % 2 == 0 ? "x" : "y"),
            "long": .string(Text("\(10 + place) " + long)),
          ],
        ])
      ids.append(made["item"]?["id"] ?? .null)
    }
    try bench.fill(edges: [])
    try agree(bench, "after the fill")
    for place in [0, 3, 6] {
      let id = ids[place].text?.string ?? ""
      try bench.ask("PATCH", "/items/\(id)", ["version": 1, "properties": ["v": "now 5", "long": "12"]])
    }
    try bench.ask("DELETE", "/items/\(ids[1].text?.string ?? "")")
    try bench.copy.catchUp()
    try agree(bench, "after changes")
    try bench.fill(edges: [])
    try agree(bench, "after a refill")
    #expect(
      try bench.database.one(
        """
        SELECT count(*) FROM item_value WHERE row NOT IN (SELECT row FROM item) OR NOT EXISTS (
          SELECT 1 FROM item, json_each(item.properties) AS part WHERE item.row = item_value.row AND part.key = name)
        """, read: { $0.int(0) }) == 0)
  }

  @Test("SF21.6 where too many rows match to be sorted, a list along the order agrees too")
  func manyRows() throws {
    let bench = try CopyBench()
    try bench.note("one")
    try bench.fill(edges: [])
    // Rows as a fill writes them, told apart by what is asked for.
    try bench.database.execute(
      """
      WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 9000)
      INSERT INTO item (id, type, tier, state, version, schema_version, occurred_at, created_at, updated_at, properties, tags,
        extensions, listed, fill)
      SELECT printf('01890000-0000-7000-8000-%012x', n), 'core.note', 'library', 'active', 1, 1, n, n, n,
        json_object('v', CASE n % 2 WHEN 0 THEN 5 ELSE 6 END, 'w', CASE n % 3 WHEN 0 THEN 'x' ELSE 'y' END), '[]', '{}', 1, 1
      FROM number
      """)
    var query = ListQuery()
    query.types = ["core.note"]
    query.filter = "properties.v eq 5 AND properties.w eq \"y\""
    query.limit = 50
    let listed = try bench.copy.list(query)
    let expected = (0...9000).reversed().filter { $0 % 2 == 0 && $0 % 3 != 0 }.prefix(50)
    #expect(listed.map { Int($0.createdAt.milliseconds) } == Array(expected))
  }
}
