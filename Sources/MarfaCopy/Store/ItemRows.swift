import MarfaBase

extension Store {
  static let itemColumns = """
    id, type, tier, state, source, source_id, version, schema_version, occurred_at, created_at, updated_at,
    properties, tags, extensions, listed
    """

  private static let itemByID = "SELECT \(itemColumns) FROM item WHERE id = ?"

  /// The same where another table of the query has a column of such a name.
  static let qualifiedItemColumns =
    itemColumns.split(separator: ",").map { "item." + $0.drop { $0 == " " || $0 == "\n" } }.joined(separator: ", ")

  static func item(of row: Row) throws(MarfaError) -> Item {
    guard let id = row.id(0), let occurred = row.time(8), let created = row.time(9), let updated = row.time(10) else {
      throw MarfaError(.store, "a row of the store has no id or no time")
    }
    return Item(
      id: id, type: row.text(1), tier: row.optionalText(2), state: row.text(3),
      properties: try object(row.bytes(11)), tags: try texts(row.bytes(12)), version: row.int(6),
      schemaVersion: row.int(7), source: row.optionalText(4), sourceID: row.optionalText(5), occurredAt: occurred,
      createdAt: created, updatedAt: updated, extensions: try object(row.bytes(13)), isListed: row.bool(14))
  }

  static func object(_ bytes: [UInt8]) throws(MarfaError) -> JSONObject {
    do throws(JSONError) { return try JSON(parsing: bytes).object ?? JSONObject() } catch {
      throw MarfaError(any: error)
    }
  }

  static func texts(_ bytes: [UInt8]) throws(MarfaError) -> [Text] {
    if bytes.count == 2 { return [] }
    do throws(JSONError) { return (try JSON(parsing: bytes).array ?? []).compactMap(\.text) } catch {
      throw MarfaError(any: error)
    }
  }

  /// The item the copy shows; nil where it holds none. A row in the bin is given too.
  package func item(_ id: EntityID) throws(MarfaError) -> Item? {
    if let kept = reads?.item(id), readsStand() { return kept }
    var size = 0
    let item = try read {
      try database.rows1(Store.itemByID, [id]) { row in
        size = row.withBytes(11) { $0.count } ?? 0
        return try Store.item(of: row)
      }
    }
    keep(item, id, size: size)
    return item
  }

  /// The server row beneath any waiting writes; nil where the instance holds none as far as the copy knows.
  package func serverItem(_ id: EntityID) throws(MarfaError) -> Item? {
    if let base = try itemBase(id) { return base.item }
    return try item(id)
  }

  /// The base kept beside a shown row: nil where none is kept.
  private func itemBase(_ id: EntityID) throws(MarfaError) -> (item: Item?, Void)? {
    try read {
      try database.rows1("SELECT row FROM item_base WHERE id = ?", [id]) { row in
        row.isNull(0) ? (nil, ()) : (try Store.storedItem(row.bytes(0)), ())
      }
    }
  }

  /// Takes a server row in, beneath waiting writes. Never replaces a later one (D13.5). Returns whether it was taken.
  @discardableResult
  package func take(server item: Item, always: Bool = false) throws(MarfaError) -> Bool {
    let row = ServerRow(item, in: try catalog())
    if let taken = try takeOften(row) { return taken }
    return try takeSeldom(item, always: always)
  }

  /// The same of a row that came as text.
  @discardableResult
  func take(server row: ServerRow, always: Bool = false) throws(MarfaError) -> Bool {
    if let taken = try takeOften(row) { return taken }
    return try takeSeldom(try row.item(), always: always)
  }

  /// The most frequent cases: the row is new here, or held as it is. Nil leaves it to the long way, nothing done.
  func takeOften(_ row: ServerRow) throws(MarfaError) -> Bool? {
    if expectsNew, try takeNew(server: row) { return true }
    return try takeKnown(row)
  }

  private func takeSeldom(_ item: Item, always: Bool) throws(MarfaError) -> Bool {
    let held = try serverItem(item.id)
    if let held, !always, item.isEarlier(than: held) {
      try markSeen(item: item.id)
      return false
    }
    if let held, held == item {
      try markSeen(item: item.id)
      return true
    }
    if let held, held.version < item.version, let passed { try read { try passed(held) } }
    try install(base: item, id: item.id, seen: true)
    return true
  }

  /// Lets a server row go. With waiting writes the row may go on being shown: a create of this device's (D14.1, D8.4).
  package func letGo(item id: EntityID) throws(MarfaError) { try install(base: nil, id: id, seen: true) }

  /// Lays the waiting writes over an item anew; called by the queue inside the transaction that changed them.
  package func reproject(item id: EntityID) throws(MarfaError) {
    try install(base: try serverItem(id), id: id, seen: false)
  }

  /// Lays one more waiting write over an item, on top of what is shown; called by the queue inside the transaction that
  /// added it. The first of a row keeps the server's row beside it.
  func layOver(item id: EntityID, _ lay: (Item?) -> Item?) throws(MarfaError) {
    let before = try item(id)
    try read {
      let isKept = try database.one("SELECT 1 FROM item_base WHERE id = ?", id) { _ in true } ?? false
      if !isKept {
        try database.run(
          "INSERT INTO item_base (id, row) VALUES (?, ?)", id, before.map { Text(bytes: Store.storing($0).write()) })
      }
    }
    if let shown = lay(before) { try show(shown, seen: false) } else { try hide(item: id) }
  }

  /// The natural key of an item, where it has one.
  func naturalKey(of id: EntityID) throws(MarfaError) -> (source: Text?, sourceID: Text)? {
    try read {
      try database.one("SELECT source, source_id FROM item WHERE id = ? AND source_id IS NOT NULL", id) {
        (source: $0.optionalText(0), sourceID: $0.text(1))
      }
    }
  }

  /// Notes that the present fill saw a row (D203.3).
  func markSeen(item id: EntityID) throws(MarfaError) {
    let mark = try fillMark()
    try read {
      try database.run(
        "INSERT OR REPLACE INTO item_seen (row, fill) SELECT row, ?1 FROM item WHERE id = ?2 AND fill <> ?1", mark, id)
    }
  }

  // No row of another table is written before this one is found to fit, so that nothing of it is left where it fails: `OR
  // FAIL` spares SQLite the copy of each page it would keep to take a part of a statement back.
  private static let taking = """
    INSERT OR FAIL INTO item (\(itemColumns), fill, title_key)
    SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17
    WHERE NOT EXISTS (SELECT 1 FROM queue WHERE item = ?1 AND edge IS NULL AND \(WriteQueue.laidOver))
      AND NOT EXISTS (SELECT 1 FROM item_base WHERE id = ?1)
    ON CONFLICT (id) DO NOTHING
    """

  /// Takes in a row the copy does not hold and of which nothing waits; false, and nothing done, where there is more to it.
  package func takeNew(server item: Item) throws(MarfaError) -> Bool {
    try takeNew(server: ServerRow(item, in: try catalog()))
  }

  /// The same of a row that came as text.
  func takeNew(server row: ServerRow) throws(MarfaError) -> Bool {
    let titleKey = row.title.map { NameKey($0).bytes }
    let mark = try fillMark()
    return try read {
      let made = try database.run(
        Store.taking, row.id, row.type, row.tier, row.state, row.source, row.sourceID, row.version, row.schemaVersion,
        row.occurredAt, row.createdAt, row.updatedAt, row.properties, row.tags, row.extensions, row.isListed, mark,
        titleKey)
      guard made == 1 else { return false }
      reads?.forget(row.id)
      changes += 1
      if !isBulk {
        try database.run("INSERT OR IGNORE INTO text_pending (row) VALUES (?)", database.lastInsertedRow)
        try database.run("DELETE FROM purged WHERE item = ?", row.id)
      }
      return true
    }
  }

  /// A transaction that takes in many rows: what each new one asks of other tables is done for all of them at its end.
  func bulk(_ work: () throws -> Void) throws(MarfaError) {
    try transaction {
      let last = try database.one("SELECT max(row) FROM item") { $0.int(0) } ?? 0
      isBulk = true
      defer { isBulk = false }
      try work()
      // A row let go meanwhile, whose number another has now, waits there already (`hide`).
      try database.run("INSERT OR IGNORE INTO text_pending (row) SELECT row FROM item WHERE row > ?", last)
      if try database.one("SELECT 1 FROM purged LIMIT 1", read: { _ in true }) ?? false {
        try database.run("DELETE FROM purged WHERE item IN (SELECT id FROM item WHERE row > ?)", last)
      }
    }
  }

  private static let knowing = """
    SELECT version, updated_at, properties = ?2 AND tags = ?3 AND extensions = ?4 AND type = ?5 AND tier IS ?6
      AND state = ?7 AND source IS ?8 AND source_id IS ?9 AND schema_version = ?10 AND occurred_at = ?11
      AND created_at = ?12 AND listed = ?13,
      EXISTS (SELECT 1 FROM queue WHERE item = ?1 AND edge IS NULL AND \(WriteQueue.laidOver))
        OR EXISTS (SELECT 1 FROM item_base WHERE id = ?1), row, fill
    FROM (SELECT 1) LEFT JOIN item ON item.id = ?1
    """

  /// Without reading the held row whole: nothing waits, and the row is new here or held byte for byte.
  private func takeKnown(_ row: ServerRow) throws(MarfaError) -> Bool? {
    let mark = try fillMark()
    let found = try read {
      try database.one(
        Store.knowing, row.id, row.properties, row.tags, row.extensions, row.type, row.tier, row.state, row.source,
        row.sourceID, row.schemaVersion, row.occurredAt, row.createdAt, row.isListed
      ) {
        (
          version: $0.optionalInt(0), updated: $0.time(1), isSame: $0.bool(2), waits: $0.bool(3), row: $0.int(4),
          fill: $0.int(5)
        )
      }
    }
    expectsNew = found?.version == nil
    guard let found, !found.waits else { return nil }
    guard let version = found.version else { return try takeNew(server: row) ? true : nil }
    guard found.isSame, version == row.version, found.updated == row.updatedAt else { return nil }
    if found.fill != mark {
      try read { try database.run("INSERT OR REPLACE INTO item_seen (row, fill) VALUES (?, ?)", found.row, mark) }
    }
    return true
  }

  private func install(base: Item?, id: EntityID, seen: Bool) throws(MarfaError) {
    var waits = try projection?.hasWaiting(item: id) ?? false
    if waits, seen, let base {
      try projection?.settleOwed(by: base)
      waits = try projection?.hasWaiting(item: id) ?? false
    }
    let shown = waits ? try projection?.shown(item: id, base: base) : base
    try read {
      if waits {
        try database.run(
          """
          INSERT INTO item_base (id, row) VALUES (?, ?)
          ON CONFLICT (id) DO UPDATE SET row = excluded.row WHERE item_base.row IS NOT excluded.row
          """, id,
          base.map { Text(bytes: Store.storing($0).write()) })
      } else {
        try database.run("DELETE FROM item_base WHERE id = ?", id)
      }
    }
    if let shown { try show(shown, seen: seen) } else { try hide(item: id) }
  }

  /// A row shown as it was shown is not written again.
  private static let showing = """
    INSERT INTO item (\(Store.itemColumns), fill, title_key)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET type = excluded.type, tier = excluded.tier, state = excluded.state,
      source = excluded.source, source_id = excluded.source_id, version = excluded.version,
      schema_version = excluded.schema_version, occurred_at = excluded.occurred_at,
      created_at = excluded.created_at, updated_at = excluded.updated_at, properties = excluded.properties,
      tags = excluded.tags, extensions = excluded.extensions, listed = excluded.listed,
      fill = CASE WHEN ?18 THEN excluded.fill ELSE item.fill END,
      title_key = excluded.title_key
    WHERE item.version <> excluded.version OR item.updated_at <> excluded.updated_at
      OR item.properties <> excluded.properties OR item.tags <> excluded.tags OR item.state <> excluded.state
      OR item.type <> excluded.type OR item.tier IS NOT excluded.tier OR item.extensions <> excluded.extensions
      OR item.source IS NOT excluded.source OR item.source_id IS NOT excluded.source_id
      OR item.schema_version <> excluded.schema_version OR item.occurred_at <> excluded.occurred_at
      OR item.created_at <> excluded.created_at OR item.listed <> excluded.listed
      OR item.title_key IS NOT excluded.title_key OR (?18 AND item.fill <> excluded.fill)
    RETURNING row
    """

  /// - Parameter seen: whether the present fill saw the row; a local write alone says nothing of that (D203.3).
  private func show(_ item: Item, seen: Bool) throws(MarfaError) {
    let text = ServerRow(item, in: try catalog())
    let titleKey = text.title.map { NameKey($0).bytes }
    let mark = try fillMark()
    try read {
      let row = try database.one(
        Store.showing, item.id, item.type, item.tier, item.state, item.source, item.sourceID, item.version,
        item.schemaVersion, item.occurredAt, item.createdAt, item.updatedAt, text.properties, text.tags,
        text.extensions, item.isListed, mark, titleKey, seen
      ) { $0.int(0) }
      try database.run("DELETE FROM purged WHERE item = ?", item.id)
      keep(item, item.id, size: text.properties.bytes.count)
      guard let row else { return }
      changes += 1
      try database.run("INSERT OR IGNORE INTO text_pending (row) VALUES (?)", row)
    }
  }

  private func hide(item id: EntityID) throws(MarfaError) {
    try read {
      let row = try database.one("DELETE FROM item WHERE id = ? RETURNING row", id) { $0.int(0) }
      keep(nil, id, size: 0)
      guard let row else { return }
      changes += 1
      try database.run("INSERT OR IGNORE INTO text_pending (row) VALUES (?)", row)
      // Its number may become another row's.
      try database.run("DELETE FROM item_seen WHERE row = ?", row)
    }
  }

  /// The mark rows taken in now carry.
  func fillMark() throws(MarfaError) -> Int {
    if let keptMark { return keptMark }
    let mark = try int(.fillMark) ?? 0
    keptMark = mark
    return mark
  }

  // MARK: - A base row as text

  package static func storing(_ item: Item) -> JSON {
    var members = item.json.object ?? JSONObject()
    members["extensions"] = .object(item.extensions)
    members["listed"] = .bool(item.isListed)
    return .object(members)
  }

  package static func storedItem(_ bytes: [UInt8]) throws(MarfaError) -> Item? {
    let stored = JSON.object(try object(bytes))
    return Item(row: [
      "item": stored, "metadata": ["tags": stored["tags"] ?? [], "extensions": stored["extensions"] ?? [:]],
      "listed": stored["listed"] ?? true,
    ])
  }
}

extension Database {
  /// What `read` makes of the first row of a query; nil where there is none. Takes a reader that throws what it likes.
  func rows1<Value>(_ sql: String, _ values: [(any SQLiteValue)?], read: (Row) throws -> Value) throws -> Value? {
    let statement = try statement(sql)
    defer { statement.reset() }
    try statement.bind(values)
    guard try statement.step() else { return nil }
    return try read(Row(of: statement))
  }

  /// What `read` makes of every row of a query.
  func allRows<Value>(_ sql: String, _ values: [(any SQLiteValue)?] = [], read: (Row) throws -> Value) throws -> [Value]
  {
    var out: [Value] = []
    try rows(sql, values) { (row) throws in out.append(try read(row)) }
    return out
  }
}
