import MarfaBase

/// Reading and writing item rows with what hangs on them: property table, tags, search, snapshots, events.
extension Instance {
  func item(_ id: EntityID) throws -> ItemRow? {
    try database.one("SELECT \(ItemRow.columns) FROM item WHERE id = ?", id) { ItemRow($0) }
  }

  /// The item a read door answers: readable, and in the bin only where `trashed` lets it (I19.2).
  func readableItem(_ id: EntityID, _ reader: Credential, trashed: Bool = false) throws -> ItemRow {
    guard let row = try item(id), reader.reads(row.type), trashed || !row.isTrashed else { throw Refusal.itemNotFound }
    return row
  }

  /// The item an item door may write: not in the bin, readable, writable, none of the instance's own (I16, I26.2).
  func writableItem(_ id: EntityID, _ call: Call, trashed: Bool = false) throws -> ItemRow {
    guard let row = try item(id), call.credential.reads(row.type) else { throw Refusal.itemNotFound }
    if row.isTrashed, !trashed { throw Refusal.itemInBin }
    if isSystem(row.type) { throw Refusal.systemRow }
    try call.credential.requireWrite(row.type)
    call.needs.types.append(row.type)
    call.needs.written.append(row.id)
    return row
  }

  func item(source: Text, sourceID: Text) throws -> ItemRow? {
    try database.one(
      "SELECT \(ItemRow.columns) FROM item WHERE source = ? AND source_id = ?", source, sourceID
    ) { ItemRow($0) }
  }

  /// Inserts a new row and announces it.
  /// - Parameter properties: what the row's text spells, where the caller has it.
  func insert(_ row: inout ItemRow, _ properties: JSONObject? = nil, as kind: String = "item.created") throws {
    let link = link(of: row)
    row.lastEvent = try log(row, kind)
    try database.run(
      """
      INSERT INTO item (id, type, state, tier, version, schema_version, source, source_id, latitude, longitude, occurred,
        created, updated, properties, tags, extensions, link, last_event)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      """,
      row.id, row.type, row.state, row.tier, row.version, row.schemaVersion, row.source, row.sourceID, row.latitude,
      row.longitude, row.occurred, row.created, row.updated, Text(bytes: row.properties), Text(bytes: row.tags),
      Text(bytes: row.extensions), link, row.lastEvent)
    row.seq = Int(database.lastInsertedRow)
    try indexProperties(row, properties ?? row.propertiesObject)
    try indexTags(row)
    try database.run("INSERT OR IGNORE INTO unindexed VALUES (?)", row.seq)
    try clearTombstones(heldBy: row, link: link)
  }

  /// Writes a changed row over the stored one; the latest event keeps the row as it announced it.
  func update(_ row: inout ItemRow, was old: ItemRow, as kind: String?, with: (EntityID, Text)? = nil) throws {
    try freeze(old)
    row.updated = stamp(after: old.updated)
    if let kind { row.lastEvent = try log(row, kind, with: with) }
    let link = link(of: row)
    try database.run(
      """
      UPDATE item SET type = ?2, state = ?3, tier = ?4, version = ?5, source_id = ?6, occurred = ?7, updated = ?8,
        trash_group = ?9, trash_parent = ?10, trash_root = ?11, trash_root_type = ?12, link = ?13, last_event = ?14
      WHERE seq = ?1
      """,
      row.seq, row.type, row.state, row.tier, row.version, row.sourceID, row.occurred, row.updated, row.trash?.group,
      row.trash?.parent, row.trash?.root, row.trash?.rootType, link, row.lastEvent)
    let retyped = row.type != old.type
    if row.properties != old.properties {
      try database.run("UPDATE item SET properties = ?2 WHERE seq = ?1", row.seq, Text(bytes: row.properties))
      try database.run("DELETE FROM property WHERE item = ?", row.seq)
      try indexProperties(row, row.propertiesObject)
      try titles.note(row.seq)
    }
    if row.tags != old.tags {
      try database.run("UPDATE item SET tags = ?2 WHERE seq = ?1", row.seq, Text(bytes: row.tags))
      try database.run("DELETE FROM tag WHERE item = ?", row.seq)
      try indexTags(row)
    }
    if row.extensions != old.extensions {
      try database.run("UPDATE item SET extensions = ?2 WHERE seq = ?1", row.seq, Text(bytes: row.extensions))
    }
    if retyped || row.properties != old.properties || row.tags != old.tags {
      try database.run("INSERT OR IGNORE INTO unindexed VALUES (?)", row.seq)
    }
    if retyped || row.sourceID != old.sourceID || row.properties != old.properties {
      try clearTombstones(heldBy: row, link: link)
    }
  }

  /// A time not before another: `updated_at` never steps back, whatever the wall clock does.
  func stamp(after earlier: Timestamp) -> Timestamp { max(clock.now, earlier) }

  /// Records the row as it stands under the version it leaves (V3.1), with the writer that replaces it (V33).
  func keepSnapshot(_ row: ItemRow, by credential: Credential) throws {
    try database.run(
      """
      INSERT OR REPLACE INTO snapshot (item, version, id, properties, type, tier, occurred, source_id, writer, created)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      """,
      row.id, row.version, ids.next(), Text(bytes: row.properties), row.type, row.tier, row.occurred, row.sourceID,
      Text(bytes: credential.writer.write()), stamp(after: row.updated))
  }

  /// Deletes a row for good, with what hangs on it; its edges were deleted before.
  func erase(_ row: ItemRow) throws {
    try completeAnswers(drawing: row.id)
    try database.run("DELETE FROM property WHERE item = ?", row.seq)
    try database.run("DELETE FROM tag WHERE item = ?", row.seq)
    try database.run("DELETE FROM unindexed WHERE item = ?", row.seq)
    try database.run("DELETE FROM search WHERE rowid = ?", row.seq)
    try titles.forget(row.seq)
    try database.run("DELETE FROM snapshot WHERE item = ?", row.id)
    try database.run("DELETE FROM lending WHERE owner = ?", row.id)
    try database.run("DELETE FROM item WHERE seq = ?", row.seq)
  }

  /// The row's value of its type's link, where it has one (I55).
  func link(of row: ItemRow) -> Text? {
    guard let field = catalog.types[row.type]?.json["link_field"]?.text else { return nil }
    guard let value = row.propertiesObject[field]?.text, !value.isEmpty else { return nil }
    return value
  }

  /// Refuses a link value another item of the type holds (I55).
  func judgeLink(_ row: ItemRow) throws {
    guard let value = link(of: row), let field = catalog.types[row.type]?.json["link_field"]?.text else { return }
    let holder = try database.one(
      "SELECT id FROM item WHERE type = ? AND link = ? AND id <> ?", row.type, value, row.id
    ) { $0.text(0) }
    guard let holder else { return }
    throw Refusal(
      409, "link_taken", "Another item holds that link.",
      ["existing_id": .string(holder), "field": .string(field), "value": .string(value)])
  }

  // MARK: what filters and search read

  /// One row a property: numbers and booleans by value, texts by their words, lists and objects by their JSON text. A
  /// long text stays in the item alone and is read from there.
  private func indexProperties(_ row: ItemRow, _ properties: JSONObject) throws {
    for (name, value) in properties.members {
      let kind: PropertyKind
      var number: Double?
      var words: Text?
      switch value {
      case .null: continue
      case .bool(let flag): (kind, number) = (.bool, flag ? 1 : 0)
      case .number(let value): (kind, number) = (.number, value.double)
      case .string(let text):
        kind = .text
        if text.bytes.count <= 256 { words = text }
      case .array, .object: (kind, words) = (.structure, Text(bytes: javaScriptSpelled(value).write()))
      }
      try database.run(
        "INSERT INTO property (item, name, kind, number, words) VALUES (?, ?, ?, ?, ?)", row.seq, name, kind.rawValue,
        number, words)
    }
  }

  private func indexTags(_ row: ItemRow) throws {
    guard row.tags.count > 2 else { return }
    for tag in row.tagList { try database.run("INSERT OR IGNORE INTO tag (item, name) VALUES (?, ?)", row.seq, tag) }
  }
}

/// How the property table holds a value.
enum PropertyKind: Int {
  case number = 1
  case bool = 2
  case text = 3
  case structure = 4
}

/// A value with its numbers as JavaScript spells them in full (SF15.5).
func javaScriptSpelled(_ value: JSON) -> JSON {
  switch value {
  case .number(let number): JSONNumber(number.double).map(JSON.number) ?? value
  case .array(let values): .array(values.map(javaScriptSpelled))
  case .object(let object): .object(JSONObject(object.members.map { ($0.key, javaScriptSpelled($0.value)) }))
  case .null, .bool, .string: value
  }
}
