import MarfaBase

/// The event log: one sequence of ids over item and edge events, appended in the transaction of the change (EV12, EV13).
extension Instance {
  /// Appends an item's event and gives its id. The row itself holds what the event says until the row changes again
  /// (`freeze`); it is to keep the id as its `last_event`.
  /// - Parameter with: for `item.restored`, the item whose restore brought this one back and its type (EV6.4).
  func log(_ row: ItemRow, _ kind: String, with: (EntityID, Text)? = nil) throws -> Int {
    let isOwn = kind == "item.purged"
    try database.run(
      "INSERT INTO event (at, kind, subject, type, source, with_id, with_type, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      clock.now, kind, row.id, row.type, row.source, with?.0 ?? row.trash?.root, with?.1 ?? row.trash?.rootType,
      isOwn ? Text(bytes: frameBody(row)) : nil)
    noteAnnounced()
    return Int(database.lastInsertedRow)
  }

  /// Gives the row's latest event a copy of what it announced, before the row changes.
  func freeze(_ row: ItemRow) throws {
    guard let event = row.lastEvent else { return }
    try database.run(
      "UPDATE event SET body = ? WHERE id = ? AND body IS NULL", Text(bytes: frameBody(row)), event)
  }

  /// An item event's content, whoever reads it: the item without `trashed_with`, the tags and the extensions, a line
  /// each (compact JSON holds no line break), so that a frame is pasted and never parsed.
  func frameBody(_ row: ItemRow) -> [UInt8] {
    var out: [UInt8] = []
    out.reserveCapacity(row.properties.count + 512)
    row.appendOpen(to: &out, reader: nil)
    out += "}\n".utf8
    out += row.tags
    out += "\n".utf8
    out += row.extensions
    return out
  }

  /// Appends an edge's event with the edge as it stands, or stood.
  func announce(_ edge: EdgeRow, _ kind: String, sourceType: Text, purgedWith: EntityID? = nil) throws {
    try freeze(edge)
    let isOwn = kind == "edge.deleted"
    try database.run(
      "INSERT INTO event (at, kind, subject, type, edge_type, with_id, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
      clock.now, kind, edge.id, sourceType, edge.type, purgedWith, isOwn ? Text(bytes: edge.text) : nil)
    if !isOwn {
      try database.run("UPDATE edge SET last_event = ? WHERE seq = ?", Int(database.lastInsertedRow), edge.seq)
    }
    noteAnnounced()
  }

  /// Gives the edge's latest event a copy of the edge before it changes or goes.
  func freeze(_ edge: EdgeRow) throws {
    guard let event = edge.lastEvent else { return }
    try database.run("UPDATE event SET body = ? WHERE id = ? AND body IS NULL", Text(bytes: edge.text), event)
  }

  /// The id of the newest event ever logged; 0 when there was none.
  func head() throws -> Int {
    try database.one("SELECT seq FROM sqlite_sequence WHERE name = 'event'") { $0.int(0) } ?? 0
  }

  /// The oldest event kept, or nil.
  func oldestEvent() throws -> Int? {
    try database.one("SELECT min(id) FROM event") { $0.optionalInt(0) } ?? nil
  }

  /// Retires events past their age, a prefix of the log, never the newest (EV11.2), and answers kept as long (V38.9).
  /// Tests call it to force a sweep.
  public func sweep() throws {
    guard settings.eventRetentionHours > 0 else { return }
    let bound = Timestamp(milliseconds: clock.now.milliseconds - Int64(settings.eventRetentionHours) * 3_600_000)
    try database.transaction {
      // Both are written in the order of time: only what goes is looked at, and what stands behind it.
      let firstKept = try database.one("SELECT id FROM event WHERE at >= ? ORDER BY id LIMIT 1", bound) { $0.int(0) }
      let head = try head()
      try database.run("DELETE FROM event WHERE id < ?", min(firstKept ?? head, head))
      let firstAnswer = try database.one(
        "SELECT rowid FROM answer WHERE at >= ? ORDER BY rowid LIMIT 1", bound
      ) { $0.int(0) }
      try database.run("DELETE FROM answer WHERE rowid < ?", firstAnswer ?? Int.max)
    }
  }

  /// Moves every read view on, in the transaction of the change that asks for it (RV9).
  func moveViews() throws {
    viewCounter += 1
    try database.run("UPDATE meta SET value = ? WHERE name = 'view'", "\(viewCounter)")
  }
}
