import MarfaBase

/// An index of the properties' values, so that a filter need not read every row.
///
/// `item_value` holds what SQLite's JSON functions give of each property, which is what a filter compares (SF15, SF21.6):
/// numbers and booleans as reals, texts, lists and objects as texts, null not at all, and a mark for a text too long to keep
/// twice. It is drawn from the rows when a filtered list first needs it, as the full-text index is; triggers take out what
/// a row no longer says, whoever changes it.
enum ValueIndex {
  /// The longest text kept, in characters.
  static let longest = 200
  /// What stands for a longer one; greater than every text.
  private static let long = "x''"
  /// A property of `json_each`, named `part`, as it is stored.
  private static let stored = """
    CASE WHEN part.type IN ('integer', 'real', 'true', 'false') THEN CAST(part.value AS REAL)
      WHEN length(part.value) <= \(longest) THEN part.value ELSE \(long) END
    """
  /// What a row that goes or changes had in the index.
  private static let old = """
    DELETE FROM item_value WHERE OLD.row NOT IN (SELECT row FROM value_pending) AND (name, value, row) IN
      (SELECT part.key, \(stored), OLD.row FROM json_each(OLD.properties) AS part WHERE part.type <> 'null');
    """

  /// A trigger's own conflict clause gives way to that of the statement it runs in, so what is there is looked for first.
  private static let waits = """
    INSERT INTO value_pending (row)
      SELECT NEW.row WHERE NOT EXISTS (SELECT 1 FROM value_pending WHERE row = NEW.row);
    """

  /// Begins the index of a database that had none; the rows it holds already all wait.
  static func begin(in database: Database) throws(SQLiteError) {
    try database.run("INSERT INTO value_pending (row) SELECT row FROM item")
  }

  static let tables = """
    CREATE TABLE IF NOT EXISTS item_value (
      name TEXT NOT NULL, value NOT NULL, row INTEGER NOT NULL, PRIMARY KEY (name, value, row)
    ) WITHOUT ROWID;
    -- Rows whose values are not in it yet.
    CREATE TABLE IF NOT EXISTS value_pending (
      row INTEGER PRIMARY KEY
    );
    CREATE TRIGGER IF NOT EXISTS item_value_made AFTER INSERT ON item BEGIN
      \(waits)
    END;
    CREATE TRIGGER IF NOT EXISTS item_value_changed AFTER UPDATE OF properties ON item
    WHEN OLD.properties <> NEW.properties BEGIN
      \(old)
      \(waits)
    END;
    CREATE TRIGGER IF NOT EXISTS item_value_gone AFTER DELETE ON item BEGIN
      \(old)
      DELETE FROM value_pending WHERE row = OLD.row;
    END;
    """

  /// Takes in the rows that wait.
  static func fill(_ database: Database) throws {
    guard try database.one("SELECT 1 FROM value_pending LIMIT 1", read: { _ in true }) ?? false else { return }
    try database.transaction {
      try database.run(
        """
        INSERT OR IGNORE INTO item_value (name, value, row)
        SELECT part.key, \(stored), waiting.row FROM value_pending AS waiting JOIN item ON item.row = waiting.row,
          json_each(item.properties) AS part WHERE part.type <> 'null'
        """)
      try database.run("DELETE FROM value_pending")
    }
  }

  /// Whether every row's values are in it.
  static func isWhole(_ database: Database) throws(SQLiteError) -> Bool {
    let made = try database.one(
      "SELECT count(*) FROM sqlite_master WHERE name IN ('item_value', 'value_pending')"
    ) { $0.int(0) }
    guard made == 2 else { return false }
    return try database.one("SELECT 1 FROM value_pending LIMIT 1") { _ in true } == nil
  }
}

extension Filter.Condition {
  /// The rows this condition holds for, of the value index: exactly those its own clause takes. Nil where the index does
  /// not tell.
  var rows: Clause? {
    guard case .property(let name) = field, let literal else { return nil }
    let far = "json_extract(far.properties, '$.\(name)')"
    switch (`operator`, literal) {
    case (.eq, .text(let text)):
      // The index holds lists and objects as they were sent, which is not how they compare (SF15.5).
      guard text.utf16Count <= ValueIndex.longest, !text.couldBeStructure else { return nil }
      return Clause(sql: "SELECT row FROM item_value WHERE name = ? AND value = ?", values: [name, text])
    case (.eq, .number), (.eq, .bool):
      return Clause(sql: "SELECT row FROM item_value WHERE name = ? AND value = ?", values: [name, literal.double])
    case (.gt, .number), (.gte, .number), (.lt, .number), (.lte, .number), (.gt, .bool), (.gte, .bool), (.lt, .bool),
      (.lte, .bool):
      // A text compares by the number it begins with; a long one is looked up.
      let sign = sign
      return Clause(
        sql: """
          SELECT row FROM item_value WHERE name = ? AND value \(sign) ? AND value < ''
          UNION ALL SELECT row FROM item_value WHERE name = ? AND value >= '' AND value < x''
            AND CAST(value AS REAL) \(sign) ?
          UNION ALL SELECT item_value.row FROM item_value JOIN item AS far ON far.row = item_value.row
          WHERE name = ? AND value = x'' AND CAST(\(far) AS REAL) \(sign) ?
          """, values: [name, literal.double, name, literal.double, name, literal.double])
    default: return nil
    }
  }

  /// The same as a test of one row, where that is one look into the index.
  var probe: Clause? {
    guard `operator` == .eq, let rows else { return nil }
    return Clause(sql: "EXISTS (\(rows.sql) AND row = item.row)", values: rows.values)
  }

  private var sign: String {
    switch `operator` {
    case .gt: ">"
    case .gte: ">="
    case .lt: "<"
    case .lte, .eq, .neq, .contains, .startsWith, .exists, .notExists: "<="
    }
  }
}
