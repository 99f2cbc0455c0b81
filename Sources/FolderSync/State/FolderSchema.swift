/// The folder's own tables, beside the working copy's in one database, so that "queued" and "bound" commit together (X9.1).
enum FolderSchema {
  static let sql = """
    CREATE TABLE IF NOT EXISTS folder_fact (
      name TEXT PRIMARY KEY,
      value TEXT NOT NULL
    ) WITHOUT ROWID;

    -- One row for each file bound to an item (X9.2, F-B). `missing_since` is the journal of F21.
    CREATE TABLE IF NOT EXISTS binding (
      item TEXT PRIMARY KEY,
      path BLOB NOT NULL,
      form INTEGER NOT NULL,
      device TEXT, inode TEXT, birth INTEGER,
      size INTEGER, modified INTEGER, executable INTEGER, read_at INTEGER,
      read_hash TEXT, written_hash TEXT,
      missing_since INTEGER,
      hold_flag TEXT, hold_reason TEXT,
      unmatched INTEGER NOT NULL DEFAULT 0,
      facts TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS binding_path ON binding (path);

    -- The writes queued from a file and not yet answered, each linked to its item wherever the file goes (F9.9).
    CREATE TABLE IF NOT EXISTS folder_write (
      id TEXT PRIMARY KEY,
      item TEXT NOT NULL,
      role TEXT NOT NULL,
      detail TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS folder_write_item ON folder_write (item);

    -- What is about to change on the disk, recorded before it does (X15.5, F20.4). Settled at the next start where a
    -- crash cut it off (X15.6).
    CREATE TABLE IF NOT EXISTS landing (
      path BLOB PRIMARY KEY,
      hash TEXT,
      facts TEXT NOT NULL
    ) WITHOUT ROWID;

    -- Files an exchange displaced, kept under a temporary name until looked at again (P1.4).
    CREATE TABLE IF NOT EXISTS displaced (
      temporary BLOB PRIMARY KEY,
      path BLOB NOT NULL,
      hash TEXT NOT NULL,
      landed TEXT NOT NULL
    ) WITHOUT ROWID;

    -- Placements the server refused (F19.23).
    CREATE TABLE IF NOT EXISTS refused_placement (
      item TEXT PRIMARY KEY,
      path BLOB NOT NULL,
      key TEXT, grant TEXT,
      settings INTEGER NOT NULL,
      base TEXT,
      reason TEXT NOT NULL
    ) WITHOUT ROWID;

    -- Files of a large removal that waits (F46): `side` is `disk` or `pull`.
    CREATE TABLE IF NOT EXISTS paused_removal (
      side TEXT NOT NULL,
      item TEXT NOT NULL,
      purged INTEGER NOT NULL DEFAULT 0,
      PRIMARY KEY (side, item)
    ) WITHOUT ROWID;

    -- Other folders met on this machine (X5.6).
    CREATE TABLE IF NOT EXISTS other_folder (
      store TEXT PRIMARY KEY,
      dir BLOB NOT NULL,
      folder TEXT NOT NULL
    ) WITHOUT ROWID;

    -- Name lookups the server refused or could not finish, not asked again until their file changes (F11.18).
    CREATE TABLE IF NOT EXISTS refused_lookup (
      item TEXT NOT NULL,
      name TEXT NOT NULL,
      reason TEXT NOT NULL,
      PRIMARY KEY (item, name)
    ) WITHOUT ROWID;

    -- Items this folder put into the bin, with the bytes their files had (P2.3).
    CREATE TABLE IF NOT EXISTS trashed_item (
      item TEXT PRIMARY KEY,
      form INTEGER NOT NULL,
      hash TEXT
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS trashed_item_hash ON trashed_item (hash);

    -- Items at the other end of an edge that the server did not show: asked once a fill (F12.39).
    CREATE TABLE IF NOT EXISTS unseen_item (item TEXT PRIMARY KEY) WITHOUT ROWID;

    -- Rows files were last agreed with that the copy moved past, until the file's agreement moves too (N6.2).
    CREATE TABLE IF NOT EXISTS passed_row (
      item TEXT PRIMARY KEY,
      version INTEGER NOT NULL,
      row TEXT NOT NULL
    ) WITHOUT ROWID;

    -- What the store was when it was last worked (P3.2).
    CREATE TABLE IF NOT EXISTS store_seal (
      one INTEGER PRIMARY KEY CHECK (one = 1),
      machine TEXT,
      inode TEXT NOT NULL,
      birth INTEGER,
      count INTEGER NOT NULL
    );

    -- The last passes (N6.3): no bodies, no keys.
    CREATE TABLE IF NOT EXISTS pass_log (
      id INTEGER PRIMARY KEY,
      at INTEGER NOT NULL,
      took INTEGER NOT NULL,
      pass TEXT NOT NULL,
      sent INTEGER NOT NULL, written INTEGER NOT NULL, removed INTEGER NOT NULL,
      held INTEGER NOT NULL, refused INTEGER NOT NULL,
      error TEXT
    );
    """
}
