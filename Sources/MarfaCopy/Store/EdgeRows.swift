import MarfaBase

extension Store {
  static let edgeColumns = "id, source, target, type, properties, version, created_at, updated_at"

  /// The edges of a type between two items, looked up by their source: SQLite would else take the index of the other end, where
  /// a folder has an edge of each of its thousands of notes.
  static let between = "source = ? AND type = ? AND +target = ?"

  static func edge(of row: Row) throws(MarfaError) -> Edge {
    guard let id = row.id(0), let source = row.id(1), let target = row.id(2), let created = row.time(6),
      let updated = row.time(7)
    else { throw MarfaError(.store, "an edge of the store has no id, no end or no time") }
    return Edge(
      id: id, source: source, target: target, type: row.text(3), properties: try object(row.bytes(4)),
      version: row.int(5), createdAt: created, updatedAt: updated)
  }

  func edges(where condition: String, _ values: [(any SQLiteValue)?]) throws(MarfaError) -> [Edge] {
    try read {
      try database.allRows(
        "SELECT \(Store.edgeColumns) FROM edge WHERE \(condition) ORDER BY created_at, id", values
      ) { try Store.edge(of: $0) }
    }
  }

  /// The edge the copy shows.
  package func edge(_ id: EntityID) throws(MarfaError) -> Edge? { try edges(where: "id = ?", [id]).first }

  /// The server's edge beneath any waiting writes.
  package func serverEdge(_ id: EntityID) throws(MarfaError) -> Edge? {
    let base: (Edge?, Void)? = try read {
      try database.rows1("SELECT row FROM edge_base WHERE id = ?", [id]) { row in
        row.isNull(0) ? (nil, ()) : (try Store.storedEdge(row.bytes(0)), ())
      }
    }
    if let base { return base.0 }
    return try edge(id)
  }

  /// Takes a server edge in, beneath waiting writes. Never replaces a later one (D13.5). Returns whether it was taken.
  @discardableResult
  package func take(server edge: Edge, always: Bool = false) throws(MarfaError) -> Bool {
    let held = try serverEdge(edge.id)
    if let held, !always, edge.isEarlier(than: held) {
      try markSeen(edge: edge.id)
      return false
    }
    if let held, held == edge {
      try markSeen(edge: edge.id)
      return true
    }
    try install(base: edge, id: edge.id, seen: true)
    return true
  }

  /// Lets a server edge go.
  package func letGo(edge id: EntityID) throws(MarfaError) { try install(base: nil, id: id, seen: true) }

  /// Lays the waiting writes over an edge anew; called by the queue inside the transaction that changed them.
  package func reproject(edge id: EntityID) throws(MarfaError) {
    try install(base: try serverEdge(id), id: id, seen: false)
  }

  func markSeen(edge id: EntityID) throws(MarfaError) {
    let mark = try fillMark()
    try read { try database.run("UPDATE edge SET fill = ? WHERE id = ? AND fill <> ?", mark, id, mark) }
  }

  private func install(base: Edge?, id: EntityID, seen: Bool) throws(MarfaError) {
    var waits = try projection?.hasWaiting(edge: id) ?? false
    if waits, seen, let base {
      try projection?.settleOwed(by: base)
      waits = try projection?.hasWaiting(edge: id) ?? false
    }
    var shown = waits ? try projection?.shown(edge: id, base: base) : base
    // A waiting create whose source a fill left out is not held, and stays queued (D44.3, Q35.7).
    if base == nil, let made = shown, try item(made.source) == nil, try !isHeldWhole(made.type) { shown = nil }
    let mark = try fillMark()
    try read {
      if waits {
        try database.run(
          """
          INSERT INTO edge_base (id, row) VALUES (?, ?)
          ON CONFLICT (id) DO UPDATE SET row = excluded.row WHERE edge_base.row IS NOT excluded.row
          """, id,
          base.map { Text(bytes: Store.storing($0).write()) })
      } else {
        try database.run("DELETE FROM edge_base WHERE id = ?", id)
      }
      guard let shown else {
        changes += try database.run("DELETE FROM edge WHERE id = ?", id)
        return
      }
      // An edge shown as it was shown is not written again.
      changes += try database.run(
        """
        INSERT INTO edge (\(Store.edgeColumns), fill) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET source = excluded.source, target = excluded.target, type = excluded.type,
          properties = excluded.properties, version = excluded.version, created_at = excluded.created_at,
          updated_at = excluded.updated_at, fill = CASE WHEN ?10 THEN excluded.fill ELSE edge.fill END
        WHERE edge.source <> excluded.source OR edge.target <> excluded.target OR edge.type <> excluded.type
          OR edge.properties <> excluded.properties OR edge.version <> excluded.version
          OR edge.created_at <> excluded.created_at OR edge.updated_at <> excluded.updated_at
          OR (?10 AND edge.fill <> excluded.fill)
        """, shown.id, shown.source, shown.target, shown.type, Text(bytes: JSON.object(shown.properties).write()),
        shown.version, shown.createdAt, shown.updatedAt, mark, seen)
    }
  }

  /// Whether the slice holds every edge of a type (D1.4).
  private func isHeldWhole(_ type: Text) throws(MarfaError) -> Bool {
    guard let slice = try text(.slice) else { return false }
    return (try Store.object(slice.bytes)["edge_types"]?.array ?? []).contains { $0.text == type }
  }

  static func storing(_ edge: Edge) -> JSON {
    var members = edge.json.object ?? JSONObject()
    members["created_at"] = .string(edge.createdAt.text)
    members["updated_at"] = .string(edge.updatedAt.text)
    return .object(members)
  }

  static func storedEdge(_ bytes: [UInt8]) throws(MarfaError) -> Edge? { Edge(.object(try object(bytes))) }
}
