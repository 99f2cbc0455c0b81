import MarfaBase

/// An edge as its row holds it.
struct EdgeRow {
  var seq = 0
  var id: EntityID
  var source: EntityID
  var target: EntityID
  var type: Text
  /// The JSON text of the properties.
  var properties: [UInt8] = Array("{}".utf8)
  var created: Timestamp
  var updated: Timestamp
  var version = 1
  var lastEvent: Int?

  static let columns =
    "e.seq, e.id, e.source, e.target, e.type, e.properties, e.created, e.updated, e.version, e.last_event"
  static let columnCount = 10

  var propertiesObject: JSONObject { (try? JSON(parsing: properties))?.object ?? JSONObject() }

  /// The edge as every answer shows it (E0.1).
  var text: [UInt8] {
    var out = Array("{\"id\":\"".utf8)
    out += id.text.bytes
    out += "\",\"source_id\":\"".utf8
    out += source.text.bytes
    out += "\",\"target_id\":\"".utf8
    out += target.text.bytes
    out += "\",\"edge_type\":".utf8
    JSON.appendString(type, to: &out)
    out += ",\"properties\":".utf8
    out += properties
    out += ",\"created_at\":\"\(created)\",\"updated_at\":\"\(updated)\",\"version\":\(version)}".utf8
    return out
  }

  var json: JSON {
    [
      "id": .string(id.text), "source_id": .string(source.text), "target_id": .string(target.text),
      "edge_type": .string(type), "properties": .object(propertiesObject), "created_at": .string(created.text),
      "updated_at": .string(updated.text), "version": .int(version),
    ]
  }
}

extension EdgeRow {
  init(_ row: Row) {
    seq = row.int(0)
    id = row.id(1) ?? EntityID(high: 0, low: 0)
    source = row.id(2) ?? EntityID(high: 0, low: 0)
    target = row.id(3) ?? EntityID(high: 0, low: 0)
    type = row.text(4)
    properties = row.bytes(5)
    created = row.time(6) ?? Timestamp(milliseconds: 0)
    updated = row.time(7) ?? Timestamp(milliseconds: 0)
    version = row.int(8)
    lastEvent = row.optionalInt(9)
  }
}

/// Reading and writing edge rows.
extension Instance {
  func edge(_ id: EntityID) throws -> EdgeRow? {
    try database.one("SELECT \(EdgeRow.columns) FROM edge e WHERE id = ?", id) { EdgeRow($0) }
  }

  /// The edge of an id in a path, where the key reads it (E5.2, E25.1), and its source's type.
  func readableEdge(_ call: Call) throws -> (edge: EdgeRow, sourceType: Text) {
    guard let part = call.parts.first, let id = strictID(part), let edge = try edge(id),
      let sourceType = try typeOf(edge.source), call.credential.reads(sourceType),
      call.credential.edges.reads(edge.type)
    else { throw Refusal.edgeNotFound }
    call.needs.reads.append(sourceType)
    call.needs.edgeIDs.append(edge.id)
    return (edge, sourceType)
  }

  func typeOf(_ item: EntityID) throws -> Text? {
    try database.one("SELECT type FROM item WHERE id = ?", item) { $0.text(0) }
  }

  /// All edges of an item on one side, newest first.
  func edges(of item: EntityID, inbound: Bool) throws -> [EdgeRow] {
    try database.all(
      "SELECT \(EdgeRow.columns) FROM edge e WHERE \(inbound ? "target" : "source") = ? ORDER BY created DESC, id DESC",
      item
    ) { EdgeRow($0) }
  }

  @discardableResult
  func insertEdge(_ edge: EdgeRow, sourceType: Text) throws -> EdgeRow {
    var edge = edge
    try database.run(
      "INSERT INTO edge (id, source, target, type, properties, created, updated, version) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      edge.id, edge.source, edge.target, edge.type, Text(bytes: edge.properties), edge.created, edge.updated,
      edge.version)
    edge.seq = Int(database.lastInsertedRow)
    try announce(edge, "edge.created", sourceType: sourceType)
    return edge
  }

  func updateEdge(_ edge: EdgeRow, was old: EdgeRow, sourceType: Text) throws {
    try freeze(old)
    try database.run(
      "UPDATE edge SET source = ?2, target = ?3, properties = ?4, updated = ?5, version = ?6 WHERE seq = ?1", edge.seq,
      edge.source, edge.target, Text(bytes: edge.properties), edge.updated, edge.version)
    try announce(edge, "edge.updated", sourceType: sourceType)
  }

  func deleteEdge(_ edge: EdgeRow, sourceType: Text, purgedWith: EntityID? = nil) throws {
    try announce(edge, "edge.deleted", sourceType: sourceType, purgedWith: purgedWith)
    try database.run("DELETE FROM lending WHERE owner = ?", edge.id)
    try database.run("DELETE FROM edge WHERE seq = ?", edge.seq)
  }
}
