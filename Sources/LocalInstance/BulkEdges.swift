import MarfaBase

/// `POST /edges/bulk` (E13).
extension Instance {
  private struct Entry {
    var id: EntityID?
    var source: EntityID
    var target: EntityID
    var type: Text
    var properties: JSONObject
    var version: Int?

    init(_ entry: JSON) throws {
      guard let body = entry.object else { throw Refusal.invalid("edges", "An entry is not an object.") }
      for name in ["source_id", "target_id", "edge_type"] as [Text] where (body[name] ?? .null).isNull {
        throw Refusal.missing(name.string)
      }
      guard let type = body["edge_type"]?.text else { throw Refusal.invalid("edge_type", "edge_type is not a text.") }
      self.type = type
      properties = JSONObject()
      if let value = body["properties"], !value.isNull {
        guard let object = value.object else { throw Refusal.invalid("properties", "properties is not an object.") }
        properties = object
      }
      func id(_ name: Text) throws -> EntityID {
        guard let id = body[name]?.text.flatMap(strictID) else { throw Refusal.invalidID }
        return id
      }
      source = try id("source_id")
      target = try id("target_id")
      if let value = body["id"], !value.isNull { self.id = try id("id") }
      version = try ItemBody(object: body).version()
    }
  }

  func bulkEdges(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    let page = try BulkPage(try call.object(), "edges")
    return try bulk(
      page,
      gate: { json in
        let entry: Entry
        do { entry = try Entry(json) } catch let refusal as Refusal where refusal.code != "invalid_id" {
          // Told in its turn: malformed ids and grants alone come first (E13.6).
          return
        }
        if let type = try typeOf(entry.source), call.credential.reads(type) { try call.credential.requireWrite(type) }
        try requireEdgeWrite(entry.type, call)
      }, write: { try write(try Entry($0), page.mode, call) })
  }

  private func write(_ entry: Entry, _ mode: CreationMode, _ call: Call) throws -> BulkOutcome {
    let source = try end(entry.source, call, missing: sourceMissing)
    try call.credential.requireWrite(source.type)
    try requireEdgeWrite(entry.type, call)
    if let id = entry.id, let other = try edge(id),
      other.source != entry.source || other.target != entry.target || other.type != entry.type
    {
      throw try reused(other, entry, call)
    }
    let held = try database.one(
      "SELECT \(EdgeRow.columns) FROM edge e WHERE source = ? AND type = ? AND target = ?", entry.source, entry.type,
      entry.target
    ) { EdgeRow($0) }
    if let held {
      guard let type = try typeOf(entry.target), call.credential.reads(type) else { throw targetMissing(entry.target) }
      return try write(entry, over: held, sourceType: source.type, mode, call)
    }
    let type = try edgeType(entry.type)
    try judge(type, source: source, target: entry.target, properties: entry.properties, itself: nil, call)
    let now = clock.now
    let made = EdgeRow(
      id: entry.id ?? ids.next(), source: entry.source, target: entry.target, type: entry.type,
      properties: JSON.object(ordered(entry.properties)).write(), created: now, updated: now)
    let standing = try takeStanding(entry.properties, kind: "edge", owner: made.id, place: "", held: nil, call)
    try insertEdge(made, sourceType: source.type)
    try standing.write(database)
    return .created(made.id)
  }

  /// The triple is held: merged key by key, also for a type no longer registered, or left alone (E13.2 to E13.5).
  private func write(
    _ entry: Entry, over held: EdgeRow, sourceType: Text, _ mode: CreationMode, _ call: Call
  ) throws -> BulkOutcome {
    if mode == .createOnly { return .skipped(held.id, reason: "duplicate_edge") }
    if let version = entry.version, version != held.version {
      throw Refusal(409, "version_conflict", "The edge has moved on from that version.")
    }
    var properties = held.propertiesObject
    for (name, value) in entry.properties.members { properties[name] = value }
    if entry.type == "in-folder" { try judgePlacement(properties) }
    let standing = try takeStanding(
      properties, kind: "edge", owner: held.id, place: "", held: held.properties, call)
    var changed = held
    changed.properties = JSON.object(ordered(properties)).write()
    changed.version += 1
    changed.updated = stamp(after: held.updated)
    try updateEdge(changed, was: held, sourceType: sourceType)
    try standing.write(database)
    return .updated(held.id)
  }

  private func reused(_ other: EdgeRow, _ entry: Entry, _ call: Call) throws -> Refusal {
    guard let type = try typeOf(other.source), call.credential.reads(type), call.credential.edges.reads(other.type)
    else {
      return Refusal(409, "id_reused", "The id is in use.", ["existing_id": .string(other.id.text)])
    }
    var differs: [JSON] = []
    if other.source != entry.source { differs.append("source_id") }
    if other.target != entry.target { differs.append("target_id") }
    if other.type != entry.type { differs.append("edge_type") }
    return Refusal(409, "id_reused", "The id is another edge's.", ["differs": .array(differs)])
  }
}
