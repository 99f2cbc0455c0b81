import MarfaBase
import Testing

@testable import LocalInstance

/// The fifth number of the schema, which took three indexes away.
@Suite struct SchemaStepTests {
  @Test("P4.1 IN7.3 a database of the step before loses three indexes and nothing else")
  func earlier() throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let path = scratch.path.appending("core.sqlite").description
    let made = try Bench(path: path)
    let id = made.create("core.note", ["title": "a plan", "body": "b"], ["tags": ["one", "two"]]).id
    let other = made.create("core.note", ["title": "another", "body": "b"], ["tags": ["two"]]).id
    let database = try Database(path: path, mode: .readWrite)
    let rows = ["item", "tag", "property", "event", "answer"]
    func counts() throws -> [Int] {
      try rows.map { table in try database.one("SELECT count(*) FROM \(table)") { $0.int(0) } ?? -1 }
    }
    let before = try counts()
    try database.execute(
      """
      CREATE INDEX tag_by_name ON tag (name, item);
      CREATE INDEX event_by_age ON event (at);
      CREATE INDEX answer_by_age ON answer (at);
      PRAGMA user_version = 4
      """)
    let again = try Bench(path: path, seed: 8)
    let left = try database.all(
      "SELECT name FROM sqlite_schema WHERE name IN ('tag_by_name', 'event_by_age', 'answer_by_age')"
    ) { $0.string(0) }
    #expect(left.isEmpty)
    #expect(try database.one("PRAGMA user_version") { $0.int(0) } == 5)
    #expect(try counts() == before)
    func listed(_ tags: String) -> Set<String> {
      Set(again.send("GET", "/items?tags=\(tags)").data.compactMap { $0.string("id") })
    }
    #expect(listed("one") == [id])
    #expect(listed("two") == [id, other])
    let told = again.send("GET", "/metadata/tags").data.map { ($0.string("tag"), $0["count"]?.int) }
    #expect(told.map(\.0) == ["two", "one"])
    #expect(told.map(\.1) == [2, 1])
  }

  @Test("EV11.2 V38.9 a sweep takes the events and the answers past their age, and no younger one")
  func sweeps() throws {
    let bench = try Bench()
    func write(_ key: String) -> Answer {
      bench.send(
        "POST", "/items", ["type": "core.note", "properties": ["body": .string(key)]],
        headers: [HTTPHeader("Idempotency-Key", key)])
    }
    bench.instance.settings.eventRetentionHours = 168
    for key in ["a", "b"] { expect(write(key), 201) }
    bench.clock.advance(seconds: 100 * 3600)
    for key in ["c", "d"] { expect(write(key), 201) }
    try bench.instance.sweep()
    #expect(bench.events().map(\.id) == [1, 2, 3, 4])
    bench.clock.advance(seconds: 100 * 3600)
    try bench.instance.sweep()
    #expect(bench.events(after: 2).map(\.id) == [3, 4])
    #expect(try bench.database.one("SELECT min(id) FROM event") { $0.int(0) } == 3)
    let kept = try bench.database.all("SELECT name FROM answer ORDER BY rowid") { $0.string(0) }
    #expect(kept == ["c", "d"])
    #expect(write("c").isReplayed)
    bench.clock.advance(seconds: 1000 * 3600)
    try bench.instance.sweep()
    #expect(try bench.database.one("SELECT count(*) FROM answer") { $0.int(0) } == 0)
    // The newest event stays, whatever its age.
    #expect(try bench.database.one("SELECT group_concat(id) FROM event") { $0.string(0) } == "4")
  }
}
