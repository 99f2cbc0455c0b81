import MarfaBase
import TestSupport

/// The same work by SQLite alone.
enum BareSQLite {
  /// One of many small durable rows, sixteen a commit.
  static func durable(_ count: Int) throws -> Cost {
    let scratch = try ScratchDirectory()
    let database = try Database(path: scratch.at("bare.sqlite"), mode: .create)
    try database.execute(
      """
      PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
      CREATE TABLE item (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, type TEXT NOT NULL, body TEXT NOT NULL);
      CREATE INDEX item_by_type ON item (type, id)
      """)
    let ids = SystemIds(clock: SystemClock())
    let body = Text(bytes: [UInt8](repeating: 0x61, count: 2700))
    return try timed {
      for _ in 0..<(count / 16) {
        try database.transaction { () throws(SQLiteError) in
          for _ in 0..<16 {
            try database.run("INSERT INTO item (id, type, body) VALUES (?, 'core.note', ?)", ids.next(), body)
          }
        }
      }
    } / count
  }

  /// Loads the items of a filled copy into an empty table of the same shape and indexes, and builds a full-text index of
  /// them. What they are read by is not measured.
  static func load(_ store: String, below directory: String) throws -> (rows: Cost, index: Cost) {
    let source = try Database(path: store, mode: .readOnly)
    let rows = try target(directory + "/bare-rows.sqlite")
    for shape in try source.all(
      "SELECT sql FROM sqlite_master WHERE tbl_name = 'item' AND type IN ('table', 'index') AND sql IS NOT NULL ORDER BY type DESC",
      read: { row throws(SQLiteError) in row.string(0) })
    { try rows.execute(shape) }
    let index = try target(directory + "/bare-index.sqlite")
    try index.execute(
      """
      CREATE VIRTUAL TABLE words USING fts5 (
        title, body, description, name, extra, tags, tokenize = 'porter unicode61 remove_diacritics 2');
      INSERT INTO words (words, rank) VALUES ('hashsize', 16777216)
      """)
    let columns = try source.all("SELECT name FROM pragma_table_info('item')") { row throws(SQLiteError) in
      row.string(0)
    }
    let marks = columns.map { _ in "?" }.joined(separator: ", ")
    var (loading, indexing) = (Cost(wall: 0, processor: 0), try timed { try index.execute("BEGIN") })
    var last = 0
    while true {
      let batch = try source.all(
        "SELECT \(columns.joined(separator: ", ")) FROM item WHERE row > ? ORDER BY row LIMIT 5000", last
      ) { row throws(SQLiteError) in
        columns.indices.map { column -> (any SQLiteValue)? in
          if row.isNull(column) { return nil }
          let text = row.text(column)
          return Int(text.string).map { $0 } ?? text
        }
      }
      guard !batch.isEmpty else { break }
      loading += try timed {
        try rows.transaction {
          for row in batch { try rows.run("INSERT INTO item VALUES (\(marks))", row) }
        }
      }
      let texts = try source.all(
        """
        SELECT row, properties ->> 'title', properties ->> 'body',
          coalesce(properties ->> 'room', '') || ' ' || coalesce(properties ->> 'shelf', ''), tags
        FROM item WHERE row > ? ORDER BY row LIMIT 5000
        """, last
      ) { row throws(SQLiteError) in (row.int(0), row.text(1), row.text(2), row.text(3), row.text(4)) }
      indexing += try timed {
        for (row, title, body, extra, tags) in texts {
          try index.run(
            "INSERT INTO words (rowid, title, body, description, name, extra, tags) VALUES (?, ?, ?, '', '', ?, ?)",
            row, title, body, extra, tags)
        }
      }
      last = texts.last?.0 ?? last
    }
    indexing += try timed { try index.execute("COMMIT") }
    return (loading, indexing)
  }

  private static func target(_ path: String) throws -> Database {
    let database = try Database(path: path, mode: .create)
    try database.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
    return database
  }
}
