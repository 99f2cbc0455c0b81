/// The tables of the write queue (queue chapter 2).
enum QueueSchema {
  /// No foreign key to the items: a fill empties items and keeps the queue.
  static let tables = """
    CREATE TABLE IF NOT EXISTS queue (
      seq INTEGER PRIMARY KEY AUTOINCREMENT,
      id TEXT NOT NULL UNIQUE,
      kind TEXT NOT NULL CHECK (kind IN ('create_item', 'update_item', 'delete_item', 'restore_item',
        'transition_item', 'create_edge', 'update_edge', 'delete_edge', 'replace_metadata', 'merge_metadata', 'add_tag',
        'remove_tag', 'write_extension', 'delete_extension', 'upload_blob')),
      item TEXT,
      target TEXT,
      edge TEXT,
      namespace TEXT,
      tag TEXT,
      blob TEXT,
      mime_type TEXT,
      base_version INTEGER,
      idempotency_key TEXT NOT NULL UNIQUE,
      depends_on TEXT NOT NULL DEFAULT '[]',
      follows TEXT,
      verdict TEXT CHECK (verdict IN ('accepted', 'merged', 'conflicted', 'refused', 'blocked', 'dead')),
      reason TEXT,
      answer TEXT,
      refusal TEXT,
      body TEXT,
      query TEXT NOT NULL DEFAULT '',
      conflicted_copy TEXT,
      refusals INTEGER NOT NULL DEFAULT 0 CHECK (refusals BETWEEN 0 AND 5),
      queued_at INTEGER NOT NULL,
      answered_at INTEGER,
      -- Private: never reported.
      sent INTEGER NOT NULL DEFAULT 0,
      spent_keys TEXT NOT NULL DEFAULT '[]',
      read_record TEXT,
      read_earlier INTEGER NOT NULL DEFAULT 0,
      owed_read INTEGER NOT NULL DEFAULT 0,
      landed TEXT,
      withdrawn INTEGER NOT NULL DEFAULT 0
    );
    CREATE INDEX IF NOT EXISTS queue_of_item ON queue (item);
    CREATE INDEX IF NOT EXISTS queue_of_edge ON queue (edge) WHERE edge IS NOT NULL;
    -- What is laid over a row or an edge, without a look at what was answered long ago: `WriteQueue.laidOver`.
    CREATE INDEX IF NOT EXISTS queue_over_item ON queue (item, edge)
      WHERE (verdict IS NULL OR verdict IN ('blocked', 'dead') OR owed_read = 1);
    CREATE INDEX IF NOT EXISTS queue_over_edge ON queue (edge)
      WHERE (verdict IS NULL OR verdict IN ('blocked', 'dead') OR owed_read = 1);
    CREATE INDEX IF NOT EXISTS queue_by_verdict ON queue (verdict, reason);
    CREATE INDEX IF NOT EXISTS queue_landed ON queue (seq) WHERE landed IS NOT NULL;
    CREATE INDEX IF NOT EXISTS queue_owed ON queue (seq) WHERE owed_read = 1;
    """
}
