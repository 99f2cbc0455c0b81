import MarfaBase

/// Reads and writes entries of the queue's table. Nothing here decides anything.
struct QueueTable {
  let database: Database

  private static let columns = """
    seq, id, kind, item, target, edge, namespace, tag, blob, mime_type, base_version, idempotency_key, depends_on, follows,
    verdict, reason, answer, body, query, conflicted_copy, refusals, queued_at, answered_at, sent, spent_keys, read_record,
    read_earlier, owed_read, landed, withdrawn
    """

  /// The same without what is long: the body with what was read, and the answer.
  private static let headColumns =
    columns
    .replacing(" answer, body,", with: " NULL, NULL,").replacing(" read_record,", with: " NULL,")
  /// The same without the body and what was read.
  private static let answeredColumns =
    columns.replacing(" body,", with: " NULL,").replacing(" read_record,", with: " NULL,")

  private static let bySeq = "SELECT \(columns) FROM queue WHERE seq = ?"
  private static let byID = "SELECT \(columns) FROM queue WHERE id = ?"
  private static let headBySeq = "SELECT \(headColumns) FROM queue WHERE seq = ?"
  private static let headByID = "SELECT \(headColumns) FROM queue WHERE id = ?"

  /// Entries of a condition, in queue order.
  func all(_ condition: String = "1", _ values: (any SQLiteValue)?...) throws(MarfaError) -> [QueuedWrite] {
    try read("SELECT \(QueueTable.columns) FROM queue WHERE \(condition) ORDER BY seq", values)
  }

  /// Answered entries of a condition without what they asked for, in queue order.
  func answered(_ condition: String, _ values: (any SQLiteValue)?...) throws(MarfaError) -> [QueuedWrite] {
    try read("SELECT \(QueueTable.answeredColumns) FROM queue WHERE \(condition) ORDER BY seq", values)
  }

  private func read(_ sql: String, _ values: [(any SQLiteValue)?]) throws(MarfaError) -> [QueuedWrite] {
    do {
      let entries = try database.all(sql, values) { row throws(SQLiteError) in QueueTable.entry(row) }
      return try entries.map { entry in
        guard let entry else { throw MarfaError(.store, "the queue holds an entry without a readable id or kind") }
        return entry
      }
    } catch { throw MarfaError(any: error) }
  }

  /// The entry at a place.
  func entry(seq: Int) throws(MarfaError) -> QueuedWrite? { try read(QueueTable.bySeq, [seq]).first }

  /// One entry.
  func entry(_ id: EntityID) throws(MarfaError) -> QueuedWrite? { try read(QueueTable.byID, [id]).first }

  /// The entry at a place without body and answer: enough to judge whether it may go.
  func head(seq: Int) throws(MarfaError) -> QueuedWrite? { try read(QueueTable.headBySeq, [seq]).first }

  /// One entry without body and answer.
  func head(_ id: EntityID) throws(MarfaError) -> QueuedWrite? { try read(QueueTable.headByID, [id]).first }

  /// How many entries a condition has.
  func count(_ condition: String, _ values: (any SQLiteValue)?...) throws(MarfaError) -> Int {
    do {
      return try database.all("SELECT count(*) FROM queue WHERE \(condition)", values) { row throws(SQLiteError) in
        row.int(0)
      }.first ?? 0
    } catch { throw MarfaError(any: error) }
  }

  /// Appends an entry. Returns it with its place.
  func insert(_ write: QueuedWrite) throws(MarfaError) -> QueuedWrite {
    var out = write
    do {
      try database.run(
        """
        INSERT INTO queue (id, kind, item, target, edge, namespace, tag, blob, mime_type, base_version, idempotency_key,
          depends_on, follows, verdict, reason, answer, body, query, conflicted_copy, refusals, queued_at, answered_at, sent,
          spent_keys, read_record, read_earlier, owed_read, landed, withdrawn)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """, QueueTable.values(write))
    } catch { throw MarfaError(any: error) }
    out.seq = Int(database.lastInsertedRow)
    return out
  }

  /// Stores an entry as it now stands.
  func update(_ write: QueuedWrite) throws(MarfaError) {
    do {
      try database.run(
        """
        UPDATE queue SET id = ?, kind = ?, item = ?, target = ?, edge = ?, namespace = ?, tag = ?, blob = ?, mime_type = ?,
          base_version = ?, idempotency_key = ?, depends_on = ?, follows = ?, verdict = ?, reason = ?, answer = ?, body = ?,
          query = ?, conflicted_copy = ?, refusals = ?, queued_at = ?, answered_at = ?, sent = ?, spent_keys = ?,
          read_record = ?, read_earlier = ?, owed_read = ?, landed = ?, withdrawn = ?
        WHERE seq = ?
        """, QueueTable.values(write) + [write.seq])
    } catch { throw MarfaError(any: error) }
  }

  /// Stores what an answer made of an entry; what it asks for stays as it is, and so do the indexes of that.
  func settle(_ write: QueuedWrite) throws(MarfaError) {
    do {
      try database.run(
        """
        UPDATE queue SET verdict = ?, reason = ?, answer = ?, conflicted_copy = ?, answered_at = ?, sent = ?,
          owed_read = ?, landed = ?
        WHERE seq = ?
        """, write.verdict?.rawValue, write.reason, write.answer, write.conflictedCopyID, write.answeredAt, write.sent,
        write.owesRead, write.landedID, write.seq)
    } catch { throw MarfaError(any: error) }
  }

  /// Which entry of a condition is the last in queue order.
  func last(_ condition: String, _ values: (any SQLiteValue)?...) throws(MarfaError) -> (id: EntityID, seq: Int)? {
    do {
      let found = try database.all(
        "SELECT id, seq FROM queue WHERE \(condition) ORDER BY seq DESC LIMIT 1", values
      ) { (row) throws(SQLiteError) in row.id(0).map { (id: $0, seq: row.int(1)) } }
      return found.first ?? nil
    } catch { throw MarfaError(any: error) }
  }

  /// Whether a condition has an entry.
  func has(_ condition: String, _ values: (any SQLiteValue)?...) throws(MarfaError) -> Bool {
    do {
      return try database.all("SELECT EXISTS (SELECT 1 FROM queue WHERE \(condition))", values) {
        (row) throws(SQLiteError) in row.bool(0)
      }.first ?? false
    } catch { throw MarfaError(any: error) }
  }

  /// Puts an entry in the place of another, which goes.
  func replace(_ old: QueuedWrite, by write: inout QueuedWrite) throws(MarfaError) {
    try remove(old)
    write = try insert(write)
    do {
      try database.run("UPDATE queue SET seq = ? WHERE seq = ?", old.seq, write.seq)
    } catch { throw MarfaError(any: error) }
    write.seq = old.seq
  }

  /// Marks entries as put on the wire: the commit of a window, before its first byte goes out.
  func markSent(_ writes: [QueuedWrite]) throws(MarfaError) {
    do {
      for write in writes { try database.run("UPDATE queue SET sent = 1 WHERE seq = ?", write.seq) }
    } catch { throw MarfaError(any: error) }
  }

  /// Takes an entry out.
  func remove(_ write: QueuedWrite) throws(MarfaError) {
    do { try database.run("DELETE FROM queue WHERE seq = ?", write.seq) } catch { throw MarfaError(any: error) }
  }

  private static func values(_ write: QueuedWrite) -> [(any SQLiteValue)?] {
    [
      write.id, write.kind.rawValue, write.itemID, write.targetID, write.edgeID, write.namespace, write.tag, write.blob,
      write.mimeType, write.baseVersion, write.idempotencyKey,
      Text(bytes: JSON.array(write.dependsOn.map { .string($0.text) }).write()), write.follows,
      write.verdict?.rawValue, write.reason, write.answer, write.bodyText, write.query, write.conflictedCopyID,
      write.refusals, write.queuedAt, write.answeredAt, write.sent,
      Text(bytes: JSON.array(write.spentKeys.map { .string($0) }).write()),
      write.readRecord.map { Text(bytes: JSON.object($0).write()) }, write.asRead, write.owesRead, write.landedID,
      write.withdrawn,
    ]
  }

  private static func entry(_ row: Row) -> QueuedWrite? {
    func list(_ column: Int) -> [Text] {
      let bytes = row.bytes(column)
      return bytes.count <= 2 ? [] : ((try? JSON(parsing: bytes))?.array ?? []).compactMap(\.text)
    }
    guard let id = row.id(1), let kind = WriteKind(rawValue: row.string(2)) else { return nil }
    var write = QueuedWrite(
      id: id, kind: kind, idempotencyKey: row.text(11), queuedAt: row.time(21) ?? Timestamp(milliseconds: 0))
    write.seq = row.int(0)
    write.itemID = row.id(3)
    write.targetID = row.id(4)
    write.edgeID = row.id(5)
    write.namespace = row.optionalText(6)
    write.tag = row.optionalText(7)
    write.blob = row.optionalText(8).flatMap { ContentHash($0) }
    write.mimeType = row.optionalText(9)
    write.baseVersion = row.optionalInt(10)
    write.dependsOn = list(12).compactMap { EntityID($0) }
    write.follows = row.id(13)
    write.verdict = row.optionalString(14).flatMap { WriteVerdict(rawValue: $0) }
    write.reason = row.optionalText(15)
    write.answer = row.optionalText(16)
    write.bodyText = row.optionalText(17)
    write.query = row.text(18)
    write.conflictedCopyID = row.id(19)
    write.refusals = row.int(20)
    write.answeredAt = row.time(22)
    write.sent = row.bool(23)
    write.spentKeys = list(24)
    write.readRecord = row.isNull(25) ? nil : (try? JSON(parsing: row.bytes(25)))?.object
    write.asRead = row.bool(26)
    write.owesRead = row.bool(27)
    write.landedID = row.id(28)
    write.withdrawn = row.bool(29)
    return write
  }
}
