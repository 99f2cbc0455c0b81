import MarfaBase
import Testing

@Suite("Database")
struct DatabaseTests {
  @Test("values come back as they were stored: NUL, empty, bad bytes, both Unicode forms")
  func values() throws {
    let database = try Database(path: ":memory:", mode: .create)
    try database.execute("CREATE TABLE v (k INTEGER PRIMARY KEY, t TEXT, b BLOB)")
    let texts: [Text] = ["", "a\u{0}b", "é", "e\u{301}", Text(bytes: [0xFF, 0xFE])]
    for (index, text) in texts.enumerated() {
      try database.run("INSERT INTO v VALUES (?, ?, ?)", index, text, text.bytes)
    }
    let back = try database.all("SELECT t, b FROM v ORDER BY k") { ($0.text(0), $0.bytes(1)) }
    #expect(back.map(\.0) == texts)
    #expect(back.map(\.1) == texts.map(\.bytes))
    #expect(try database.one("SELECT t IS NULL FROM v WHERE k = 0") { $0.bool(0) } == false)
  }

  @Test("a transaction that throws leaves nothing, a nested one leaves the outer whole")
  func transactions() throws {
    struct Stop: Error {}
    let database = try Database(path: ":memory:", mode: .create)
    try database.execute("CREATE TABLE v (k INTEGER PRIMARY KEY)")
    #expect(throws: Stop.self) {
      try database.transaction {
        try database.run("INSERT INTO v VALUES (1)")
        throw Stop()
      }
    }
    try database.transaction {
      try database.run("INSERT INTO v VALUES (2)")
      #expect(throws: Stop.self) {
        try database.transaction {
          try database.run("INSERT INTO v VALUES (3)")
          throw Stop()
        }
      }
      try database.transaction { try database.run("INSERT INTO v VALUES (4)") }
    }
    #expect(try database.all("SELECT k FROM v ORDER BY k") { $0.int(0) } == [2, 4])
    #expect(!database.isInTransaction)
  }

  @Test("one query may run inside the rows of the same query")
  func nestedQueries() throws {
    let database = try Database(path: ":memory:", mode: .create)
    try database.execute("CREATE TABLE v (k INTEGER); INSERT INTO v VALUES (1), (2)")
    var pairs = 0
    try database.rows("SELECT k FROM v") { _ in try database.rows("SELECT k FROM v") { _ in pairs += 1 } }
    #expect(pairs == 4)
  }

  @Test("a failure names the statement and its kind")
  func failures() throws {
    let database = try Database(path: ":memory:", mode: .create)
    try database.execute("CREATE TABLE v (k INTEGER PRIMARY KEY)")
    try database.run("INSERT INTO v VALUES (1)")
    let error = #expect(throws: SQLiteError.self) { try database.run("INSERT INTO v VALUES (1)") }
    #expect(error?.isConstraint == true)
    #expect(error?.statement?.contains("INSERT") == true)
  }
}
