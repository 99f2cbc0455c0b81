/// The tables of body links (device chapter 19).
enum BodySchema {
  static let tables = """
    -- What each link and embed of a body names, as typed (D95, D96.2).
    CREATE TABLE IF NOT EXISTS body_name (
      item TEXT NOT NULL,
      text TEXT NOT NULL,
      state TEXT NOT NULL CHECK (state IN ('pending', 'named', 'missing', 'ambiguous', 'refused')),
      target TEXT,
      reason TEXT,
      -- How many items the copy held that it names, when it was last asked.
      held INTEGER NOT NULL DEFAULT 0,
      -- Whether it is asked again at the next drain: its lookup was refused, not its edge.
      again INTEGER NOT NULL DEFAULT 0,
      -- The edge create it made.
      write TEXT,
      PRIMARY KEY (item, text)
    ) WITHOUT ROWID;
    -- Edge writes made from a body, and the write of that body (D94.1).
    CREATE TABLE IF NOT EXISTS body_edge (
      write TEXT PRIMARY KEY, item TEXT NOT NULL, body TEXT
    ) WITHOUT ROWID;
    -- Edits on an older version, whose body is read from the answered row (D88.4).
    CREATE TABLE IF NOT EXISTS body_due (
      write TEXT PRIMARY KEY, item TEXT NOT NULL, before TEXT NOT NULL
    ) WITHOUT ROWID;
    """
}
