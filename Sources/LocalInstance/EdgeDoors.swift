import MarfaBase

/// `POST /edges`, `GET`, `PATCH` and `DELETE /edges/{id}`.
extension Instance {
  private func edgeReply(_ status: Int, _ edge: EdgeRow, acknowledged: Bool = false) -> Reply {
    .text(
      status, Array("{\"edge\":".utf8) + edge.text + Array((acknowledged ? ",\"acknowledged\":true}" : "}").utf8))
  }

  private func properties(_ body: JSONObject) throws -> JSONObject? {
    guard let value = body["properties"], !value.isNull else { return nil }
    guard let object = value.object else { throw Refusal.invalid("properties", "properties is not an object.") }
    return object
  }

  func createEdge(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    let body = try call.object()
    for name in ["source_id", "target_id", "edge_type"] as [Text] where (body[name] ?? .null).isNull {
      throw Refusal.missing(name.string)
    }
    try ItemBody(object: body).refuseNulls(["id", "properties"])
    guard let typeID = body["edge_type"]?.text else { throw Refusal.invalid("edge_type", "edge_type is not a text.") }
    guard let sourceID = body["source_id"]?.text.flatMap(strictID),
      let targetID = body["target_id"]?.text.flatMap(strictID)
    else { throw Refusal.invalidID }
    var id: EntityID?
    if let value = body["id"], !value.isNull {
      guard let named = value.text.flatMap(strictID) else { throw Refusal.invalidID }
      id = named
    }
    let source = try end(sourceID, call, missing: sourceMissing)
    try call.credential.requireWrite(source.type)
    call.needs.types.append(source.type)
    try requireEdgeWrite(typeID, call)
    var unreadable: EdgeRow?
    if let id, let held = try edge(id) {
      if let type = try typeOf(held.source), call.credential.reads(type), call.credential.edges.reads(held.type) {
        if held.source == sourceID, held.target == targetID, held.type == typeID {
          return edgeReply(200, held, acknowledged: true)
        }
        var differs: [JSON] = []
        if held.source != sourceID { differs.append("source_id") }
        if held.target != targetID { differs.append("target_id") }
        if held.type != typeID { differs.append("edge_type") }
        throw Refusal(409, "id_reused", "The id is another edge's.", ["differs": .array(differs)])
      }
      unreadable = held
    }
    let type = try edgeType(typeID)
    if sourceID == targetID { throw cycle(type, sourceID, targetID) }
    let properties = try properties(body) ?? JSONObject()
    try judge(type, source: source, target: targetID, properties: properties, itself: nil, call)
    if let unreadable {
      throw Refusal(409, "id_reused", "The id is in use.", ["existing_id": .string(unreadable.id.text)])
    }
    let now = clock.now
    let made = EdgeRow(
      id: id ?? ids.next(), source: sourceID, target: targetID, type: typeID,
      properties: JSON.object(ordered(properties)).write(), created: now, updated: now)
    let standing = try takeStanding(properties, kind: "edge", owner: made.id, place: "", held: nil, call)
    call.needs.edgeIDs.append(made.id)
    try insertEdge(made, sourceType: source.type)
    try standing.write(database)
    return edgeReply(201, made)
  }

  func readEdge(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    return edgeReply(200, try readableEdge(call).edge)
  }

  func deleteEdge(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    let (edge, sourceType) = try readableEdge(call)
    try call.credential.requireWrite(sourceType)
    call.needs.types.append(sourceType)
    try requireEdgeWrite(edge.type, call)
    try deleteEdge(edge, sourceType: sourceType)
    return .ok
  }

  /// Properties merge by key; one end moves where the end that stays holds one edge of the type (E10, E102).
  func patchEdge(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    let body = try call.object()
    guard let version = try ItemBody(object: body).version() else { throw Refusal.missing("version") }
    try ItemBody(object: body).refuseNulls(["source_id", "target_id"])
    let (held, sourceType) = try readableEdge(call)
    try call.credential.requireWrite(sourceType)
    call.needs.types.append(sourceType)
    try requireEdgeWrite(held.type, call)
    guard version == held.version else {
      var refusal = Refusal(409, "version_conflict", "The edge has moved on from that version.")
      refusal.beside = [("current", held.json)]
      throw refusal
    }
    func end(_ name: Text) throws -> EntityID? {
      guard let value = body[name], !value.isNull else { return nil }
      guard let id = value.text.flatMap(strictID) else { throw Refusal.invalidID }
      return id
    }
    let source = try end("source_id") ?? held.source
    let target = try end("target_id") ?? held.target
    let movesSource = source != held.source
    let movesTarget = target != held.target
    if movesSource, movesTarget { throw Refusal.invalid("source_id", "An edge moves one end at a time.") }
    let type = try edgeType(held.type)
    if movesSource, !type.targetHoldsOne {
      throw Refusal.invalid("source_id", "The target may hold several edges of the type.")
    }
    if movesTarget, !type.sourceHoldsOne {
      throw Refusal.invalid("target_id", "The source may hold several edges of the type.")
    }
    var edge = held
    edge.source = source
    edge.target = target
    var endType = sourceType
    let changes: JSONObject?
    if movesSource || movesTarget {
      let from = try self.end(source, call, missing: sourceMissing)
      try call.credential.requireWrite(from.type)
      call.needs.types.append(from.type)
      endType = from.type
      if movesSource { _ = try self.end(target, call, missing: targetMissing) }
      if source == target { throw cycle(type, source, target) }
      changes = try properties(body)
      try judge(type, source: from, target: target, properties: merged(held, changes), itself: held.id, call)
    } else {
      changes = try properties(body)
      if changes == nil { throw Refusal.missing("properties") }
      if type.id == "in-folder" { try judgePlacement(merged(held, changes)) }
    }
    let properties = merged(held, changes)
    let standing = try takeStanding(
      properties, kind: "edge", owner: held.id, place: "", held: held.properties, call)
    edge.properties = JSON.object(ordered(properties)).write()
    edge.version += 1
    edge.updated = stamp(after: held.updated)
    if movesSource { try moveViews() }
    try updateEdge(edge, was: held, sourceType: endType)
    try standing.write(database)
    return edgeReply(200, edge)
  }

  private func merged(_ held: EdgeRow, _ changes: JSONObject?) -> JSONObject {
    var properties = held.propertiesObject
    for (name, value) in changes?.members ?? [] { properties[name] = value }
    return properties
  }
}
