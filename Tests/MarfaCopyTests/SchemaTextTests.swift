import MarfaBase
import Testing

@testable import MarfaCopy

@Suite("The text of a schema")
struct SchemaTextTests {
  @Test("says what SQLite makes of it")
  func tables() throws {
    let database = try Database(path: ":memory:", mode: .create)
    try Schema.make(in: database)
    let made = Dictionary(uniqueKeysWithValues: try Schema.shapes(of: database).map { ($0.name, $0.sql) })
    let said = Dictionary(uniqueKeysWithValues: Schema.expected().map { ($0.name, $0.sql) })
    #expect(made == said)
    let held = try database.schemaNames()
    let texts = [Schema.tables, ValueIndex.tables, QueueSchema.tables, BodySchema.tables]
    let names = Set(texts.flatMap { SchemaText.names(in: $0) })
    #expect(names.isSubset(of: held))
    // What is not named is SQLite's own, or the full-text index's.
    let unnamed = held.subtracting(names).filter {
      !$0.bytes.starts(with: "sqlite_".utf8) && !$0.bytes.starts(with: "item_text_".utf8)
    }
    #expect(unnamed.isEmpty)
  }

  @Test("a table that lacks is made, and what stands is left alone")
  func missing() throws {
    let database = try Database(path: ":memory:", mode: .create)
    let schema = """
      CREATE TABLE IF NOT EXISTS one (a TEXT); -- the first; not the last
      CREATE INDEX IF NOT EXISTS one_a ON one (a);
      CREATE TRIGGER IF NOT EXISTS one_gone AFTER DELETE ON one BEGIN
        INSERT INTO one (a) SELECT 'b' WHERE NOT EXISTS (SELECT 1 FROM one);
      END;
      """
    #expect(SchemaText.names(in: schema) == ["one", "one_a", "one_gone"])
    #expect(SchemaText.tables(in: schema).map(\.sql) == ["CREATETABLEone(aTEXT)"])
    try database.execute("CREATE TABLE one (a TEXT)")
    try database.make(schema)
    #expect(try database.schemaNames() == ["one", "one_a", "one_gone"])
  }
}
