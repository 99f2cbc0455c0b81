import MarfaBase

/// The tables of a copy (device chapter 1 and 22). Another shape of any of them is `wrong_schema` (D41.5).
///
/// `item` and `edge` hold the SHOWN rows, the ones lists, searches and filters read. Where writes wait on a row, its
/// server row lies in `item_base` (`edge_base`) beside it, and `item` holds that row with the writes laid over; where
/// none waits there is no base and `item` is the server row itself. `Store` alone writes the four (see `Store.take`).
package enum Schema {
  /// The schema's version, kept in `PRAGMA user_version`.
  static let version = 1

  /// How stores of earlier schemas become this one (P4.1). There is none yet.
  package static let migrations: [Migration] = []

  /// Every table of the copy but the queue's own.
  static let tables = """
    -- Chapter 1: server_origin, instance_id, read_view, event_cursor, held_cursor, slice, hydrate_state, ...
    CREATE TABLE IF NOT EXISTS meta (
      key TEXT PRIMARY KEY, value ANY NOT NULL
    ) WITHOUT ROWID;
    -- Shown rows. `fill` is the mark of the fill that saw the row last (D203.3).
    CREATE TABLE IF NOT EXISTS item (
      row INTEGER PRIMARY KEY,
      id TEXT NOT NULL UNIQUE,
      type TEXT NOT NULL,
      tier TEXT,
      state TEXT NOT NULL,
      source TEXT,
      source_id TEXT,
      version INTEGER NOT NULL,
      schema_version INTEGER NOT NULL,
      occurred_at INTEGER NOT NULL,
      created_at INTEGER NOT NULL,
      updated_at INTEGER NOT NULL,
      properties TEXT NOT NULL,
      tags TEXT NOT NULL,
      extensions TEXT NOT NULL,
      listed INTEGER NOT NULL,
      fill INTEGER NOT NULL,
      title_key BLOB
    );
    CREATE INDEX IF NOT EXISTS item_of_type ON item (type, state, tier);
    CREATE INDEX IF NOT EXISTS item_by_title ON item (title_key) WHERE title_key IS NOT NULL;
    CREATE INDEX IF NOT EXISTS item_by_source ON item (source_id, source) WHERE source_id IS NOT NULL;
    CREATE INDEX IF NOT EXISTS item_by_creation ON item (created_at DESC, id);
    -- Server rows of items with waiting writes; `row` is NULL where the instance holds none (an own create).
    CREATE TABLE IF NOT EXISTS item_base (
      id TEXT PRIMARY KEY, row TEXT
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS edge (
      id TEXT PRIMARY KEY,
      source TEXT NOT NULL,
      target TEXT NOT NULL,
      type TEXT NOT NULL,
      properties TEXT NOT NULL,
      version INTEGER NOT NULL,
      created_at INTEGER NOT NULL,
      updated_at INTEGER NOT NULL,
      fill INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS edge_from ON edge (source, type);
    CREATE INDEX IF NOT EXISTS edge_to ON edge (target, type);
    CREATE INDEX IF NOT EXISTS edge_of_type ON edge (type);
    CREATE TABLE IF NOT EXISTS edge_base (
      id TEXT PRIMARY KEY, row TEXT
    ) WITHOUT ROWID;
    -- A pin per owner: the row is pinned while any owner holds it (D1.6, D91.2).
    CREATE TABLE IF NOT EXISTS pin (
      item TEXT NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (item, owner)
    ) WITHOUT ROWID;
    -- Rows known to be purged for good.
    CREATE TABLE IF NOT EXISTS purged (
      item TEXT PRIMARY KEY
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS item_type (
      id TEXT PRIMARY KEY, definition TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS edge_type (
      id TEXT PRIMARY KEY, definition TEXT NOT NULL
    ) WITHOUT ROWID;
    -- Rows the present fill met, where they were held already as the server has them: a mark beside the row, so that a
    -- refill that changes nothing writes no row again.
    CREATE TABLE IF NOT EXISTS item_seen (
      row INTEGER PRIMARY KEY, fill INTEGER NOT NULL
    );
    -- Rows whose text is not indexed as it stands; a search indexes them first, in one batch.
    CREATE TABLE IF NOT EXISTS text_pending (
      row INTEGER PRIMARY KEY
    );
    CREATE VIRTUAL TABLE IF NOT EXISTS item_text USING fts5 (
      title, body, description, name, extra, tags, tokenize = 'porter unicode61 remove_diacritics 2'
    );
    """

  /// Makes the tables a database lacks and stamps a new one.
  static func make(in database: Database) throws(SQLiteError) {
    let held = try database.schemaNames()
    for text in [tables, ValueIndex.tables, QueueSchema.tables, BodySchema.tables]
    where !SchemaText.names(in: text).allSatisfy(held.contains) {
      try database.execute(text)
    }
    if !held.contains("value_pending") { try ValueIndex.begin(in: database) }
    // Written only where it differs: to write it anew would be a save of every open.
    if try database.one("PRAGMA user_version", read: { $0.int(0) }) != version {
      try database.execute("PRAGMA user_version = \(version)")
    }
  }

  /// Tables drawn from others that a reader does without.
  static let derived: [Text] = ["item_seen", "item_value", "value_pending"]

  /// The names and texts of the tables this build makes, as `shapes` gives those of a database.
  static func expected() -> [(name: Text, sql: Text)] {
    [tables, ValueIndex.tables, QueueSchema.tables, BodySchema.tables].flatMap { SchemaText.tables(in: $0) }
  }

  /// The tables of a database with their definitions, comments and spacing aside.
  static func shapes(of database: Database) throws(SQLiteError) -> [(name: Text, sql: Text)] {
    try database.all(
      """
      SELECT name, sql FROM sqlite_master
      WHERE type = 'table' AND sql IS NOT NULL AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'item\\_text\\_%' ESCAPE '\\'
      """
    ) { row throws(SQLiteError) in (row.text(0), SchemaText.squeezed(row.text(1))) }
  }
}
