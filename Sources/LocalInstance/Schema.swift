import MarfaBase

/// The instance's tables. An item's or edge's text stands once: in its row, while its latest event and its answers are
/// drawn from it; an event gets a copy of its own only when the row changes after it (`EventLog.freeze`).
enum Schema {
  /// Raised with each change of the tables; a database of a greater number is of a newer build (IN7.3).
  static let number = 5

  static let tables = """
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE item (
      seq INTEGER PRIMARY KEY AUTOINCREMENT,
      id TEXT NOT NULL UNIQUE,
      type TEXT NOT NULL, state TEXT NOT NULL, tier TEXT NOT NULL,
      version INTEGER NOT NULL, schema_version INTEGER NOT NULL,
      source TEXT NOT NULL, source_id TEXT, latitude TEXT, longitude TEXT,
      occurred INTEGER NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL,
      properties TEXT NOT NULL, tags TEXT NOT NULL, extensions TEXT NOT NULL,
      trash_group INTEGER, trash_parent TEXT, trash_root TEXT, trash_root_type TEXT,
      last_event INTEGER, link TEXT);
    CREATE UNIQUE INDEX item_natural_key ON item (source, source_id) WHERE source_id IS NOT NULL;
    CREATE INDEX item_by_creation ON item (created DESC, id);
    CREATE INDEX item_by_update ON item (updated, id);
    CREATE INDEX item_by_own_time ON item (occurred DESC, id);
    CREATE INDEX item_by_type ON item (type, state, created DESC, id);
    CREATE INDEX item_taken ON item (trash_parent) WHERE trash_parent IS NOT NULL;
    CREATE INDEX item_link ON item (type, link) WHERE link IS NOT NULL;
    CREATE TABLE property (
      item INTEGER NOT NULL, name TEXT NOT NULL, kind INTEGER NOT NULL, number REAL, words TEXT,
      PRIMARY KEY (item, name)) WITHOUT ROWID;
    CREATE INDEX property_by_words ON property (name, words);
    CREATE INDEX property_by_number ON property (name, number) WHERE number IS NOT NULL;
    CREATE TABLE tag (item INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY (item, name)) WITHOUT ROWID;
    CREATE INDEX tag_by_name ON tag (name, item);
    CREATE TABLE snapshot (
      item TEXT NOT NULL, version INTEGER NOT NULL, id TEXT NOT NULL, properties TEXT NOT NULL, type TEXT NOT NULL,
      tier TEXT NOT NULL, occurred INTEGER NOT NULL, source_id TEXT, writer TEXT NOT NULL, created INTEGER NOT NULL);
    CREATE UNIQUE INDEX snapshot_of ON snapshot (item, version);
    CREATE TABLE edge (
      seq INTEGER PRIMARY KEY AUTOINCREMENT,
      id TEXT NOT NULL UNIQUE, source TEXT NOT NULL, target TEXT NOT NULL, type TEXT NOT NULL,
      properties TEXT NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL, version INTEGER NOT NULL,
      last_event INTEGER);
    CREATE UNIQUE INDEX edge_triple ON edge (source, type, target);
    CREATE INDEX edge_inbound ON edge (target, type);
    CREATE INDEX edge_by_creation ON edge (created DESC, id DESC);
    CREATE INDEX edge_by_update ON edge (updated, id);
    CREATE INDEX edge_by_type ON edge (type, created DESC, id DESC);
    CREATE TABLE event (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      at INTEGER NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL,
      type TEXT NOT NULL, edge_type TEXT, source TEXT,
      with_id TEXT, with_type TEXT, body TEXT);
    CREATE INDEX event_by_age ON event (at);
    CREATE TABLE answer (
      credential TEXT NOT NULL, name TEXT NOT NULL, request TEXT NOT NULL, status INTEGER, code TEXT, body BLOB,
      at INTEGER NOT NULL, grants TEXT, PRIMARY KEY (credential, name));
    CREATE INDEX answer_by_age ON answer (at);
    CREATE TABLE credential (
      id TEXT PRIMARY KEY, token TEXT NOT NULL UNIQUE, source TEXT UNIQUE, spec TEXT NOT NULL,
      created INTEGER NOT NULL, expires INTEGER, last_used INTEGER);
    CREATE TABLE item_type (id TEXT PRIMARY KEY, body TEXT NOT NULL);
    CREATE TABLE edge_type (id TEXT PRIMARY KEY, body TEXT NOT NULL);
    CREATE TABLE blob (hash TEXT PRIMARY KEY, mime_type TEXT NOT NULL, size INTEGER NOT NULL, at INTEGER NOT NULL);
    CREATE TABLE upload (hash TEXT NOT NULL, credential TEXT NOT NULL, PRIMARY KEY (hash, credential)) WITHOUT ROWID;
    CREATE TABLE lending (
      hash TEXT NOT NULL, kind TEXT NOT NULL, owner TEXT NOT NULL, place TEXT NOT NULL, lends INTEGER NOT NULL,
      PRIMARY KEY (kind, owner, place, hash)) WITHOUT ROWID;
    CREATE INDEX lending_by_hash ON lending (hash);
    CREATE TABLE unindexed (item INTEGER PRIMARY KEY);
    CREATE VIRTUAL TABLE search USING fts5 (
      title, body, description, name, extra, tags, tokenize = 'porter unicode61 remove_diacritics 2');
    INSERT INTO search (search, rank) VALUES ('hashsize', 16777216);
    """

  /// What number 2 added: what purges leave (I56), and bulk jobs (I33).
  static let second = """
    CREATE TABLE tombstone (
      type TEXT NOT NULL, kind TEXT NOT NULL, source TEXT NOT NULL, name TEXT NOT NULL,
      purged INTEGER NOT NULL, settled INTEGER NOT NULL, PRIMARY KEY (type, kind, source, name)) WITHOUT ROWID;
    CREATE INDEX tombstone_by_name ON tombstone (kind, source, name);
    CREATE TABLE job (
      seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, credential TEXT NOT NULL, status TEXT NOT NULL,
      at INTEGER NOT NULL, body TEXT NOT NULL, pending TEXT NOT NULL);
    CREATE INDEX job_waiting ON job (seq) WHERE status IN ('queued', 'running');
    """

  /// What number 3 added: a kept answer draws an item's properties from the row or snapshot that holds them.
  static let third = """
    ALTER TABLE answer ADD COLUMN item TEXT;
    ALTER TABLE answer ADD COLUMN version INTEGER;
    ALTER TABLE answer ADD COLUMN cut INTEGER;
    CREATE INDEX answer_of_item ON answer (item, version) WHERE item IS NOT NULL;
    """

  /// What number 4 changed: the index of titles (`Titles`). Two indexes go that no query read, since a property is looked up
  /// by its item, and that cost every create a page for each of its properties.
  static let fourth = """
    DROP INDEX IF EXISTS property_by_words;
    DROP INDEX IF EXISTS property_by_number;
    CREATE TABLE IF NOT EXISTS title_changed (item INTEGER PRIMARY KEY);
    CREATE VIRTUAL TABLE IF NOT EXISTS title_gram USING fts5 (
      words, tokenize = 'trigram', detail = none, columnsize = 0);
    """

  /// What number 5 changed: three indexes go. A tag is looked up by its item, an event's and an answer's age follow the order
  /// they were written in (`sweep`); and the tags of a few writes, spread over their index, made up a third of the pages a
  /// commit wrote.
  static let fifth = """
    DROP INDEX IF EXISTS tag_by_name;
    DROP INDEX IF EXISTS event_by_age;
    DROP INDEX IF EXISTS answer_by_age;
    """

  /// What each number after the first added, in order.
  private static let steps = [second, third, fourth, fifth]

  /// The number of a database's schema, 0 for a fresh one. Changes nothing (IN7.3).
  /// - Throws: `InstanceError.foreignDatabase` for another program's, or one a newer build made.
  @discardableResult
  static func judge(_ database: Database) throws -> Int {
    let found = try database.one("PRAGMA user_version") { $0.int(0) } ?? 0
    let (held, own) =
      try database.one(
        "SELECT count(*), count(*) FILTER (WHERE type = 'table' AND name IN ('meta', 'item', 'credential')) FROM sqlite_schema"
      ) { ($0.int(0), $0.int(1)) } ?? (0, 0)
    guard (1...number).contains(found) && own == 3 || found == 0 && held == 0 else {
      throw InstanceError.foreignDatabase(found)
    }
    return found
  }

  /// Opens the tables, making them in a fresh database.
  static func open(_ database: Database, instance: () -> EntityID) throws {
    try database.execute("PRAGMA busy_timeout = 5000")
    // Judged before anything of the file's is set.
    let found = try judge(database)
    try database.execute("PRAGMA journal_mode = WAL")
    try database.execute("PRAGMA synchronous = FULL")
    try database.execute("PRAGMA temp_store = MEMORY")
    // Room for the upper pages of every index, and a log long enough that a page changed often is copied back seldom.
    try database.execute("PRAGMA cache_size = -24000")
    try database.execute("PRAGMA wal_autocheckpoint = 4000")
    if found == number { return }
    if found > 0 {
      try database.transaction {
        for step in steps.dropFirst(found - 1) { try database.execute(step) }
        try database.execute("PRAGMA user_version = \(number)")
      }
      return
    }
    try database.transaction {
      try database.execute(tables)
      for step in steps { try database.execute(step) }
      try database.run("INSERT INTO meta VALUES ('instance_id', ?)", instance())
      try database.run("INSERT INTO meta VALUES ('view', '0')")
      try database.run("INSERT INTO meta VALUES ('trash', '0')")
      try database.run("INSERT INTO meta VALUES ('secret', ?)", "\(instance())\(instance())")
      try database.execute("PRAGMA user_version = \(number)")
    }
  }
}

/// Why an instance does not start.
public enum InstanceError: Error, Hashable, Sendable {
  /// The database is another program's or a newer build's; the number of its schema (IN7.3, exit code 78).
  case foreignDatabase(Int)
  /// The shipped catalog could not be read.
  case badCatalog(String)
}
