import MarfaBase

/// `POST /items`: creates, acknowledged repeats and natural-key upserts (I1 to I16, V10, V31).
extension Instance {
  func createItem(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    let body = ItemBody(object: try call.object())
    guard let typeValue = body.object["type"], !typeValue.isNull else { throw Refusal.missing("type") }
    guard let type = typeValue.text, isTypeIdentifier(type) else {
      throw Refusal.invalid("type", "type is not a type identifier.")
    }
    let sent = try body.properties() ?? JSONObject()
    var id: EntityID?
    if let text = try body.text("id") {
      guard let named = strictID(text) else { throw Refusal.invalidID }
      id = named
    }
    let occurred = try body.occurred() ?? nil
    let tier = try body.tier()
    let tags = try body.tags()
    let edges = try body.edges()
    let sourceID = try body.text("source_id")
    let latitude = try body.coordinate("capture_latitude")
    let longitude = try body.coordinate("capture_longitude")
    let version = try body.version()
    let state = try body.text("state") ?? "active"

    if isSystem(type) { throw Refusal.systemRow }
    try call.credential.requireWrite(type)
    call.needs.types.append(type)
    let source = try body.text("source") ?? call.credential.source
    guard call.credential.claims(source) else { throw Refusal.source(source) }
    call.needs.sources.append(source)

    if let sourceID, let held = try item(source: source, sourceID: sourceID) {
      return try upsert(
        held, type: type, id: id, body: body, sent: sent, occurred: occurred, tier: tier, tags: tags, edges: edges,
        version: version, call)
    }
    if let id, let held = try item(id) {
      guard call.credential.reads(held.type) else {
        throw Refusal(409, "conflict", "The id is in use.")
      }
      guard held.type == type else {
        throw Refusal(409, "id_reused", "The id is an item of another type.", ["differs": ["type"]])
      }
      return try acknowledge(held, call)
    }
    guard let resolved = catalog.type(type) else { throw Refusal.unknownType(type) }
    if let allowed = settings.sourceAllowList[type], !allowed.contains(source) {
      throw Refusal(
        403, "forbidden", "The type takes no items of that source.",
        ["type": .string(type), "source": .string(source), "allowed": .array(allowed.map(JSON.string))])
    }
    guard ["active", "archived", "trashed"].contains(state) else {
      throw Refusal.invalid("state", "A new item is active, archived or trashed.")
    }
    let now = clock.now
    let made = id ?? ids.next()
    let standing = try takeStanding(sent, owner: made, place: "", held: nil, call)
    var settled = sent
    try settleFile(&settled, type, standing)
    let properties = firstProperties(settled, resolved)
    try rules(resolved).judge(properties)
    var row = ItemRow(
      id: made, type: type, state: state, tier: tier ?? call.credential.defaultTier,
      schemaVersion: resolved.version, source: source, sourceID: sourceID, latitude: latitude, longitude: longitude,
      occurred: occurred ?? now, created: now, updated: now, properties: JSON.object(ordered(properties)).write(),
      tags: tagText(tags ?? []))
    try judgeLink(row)
    try insert(&row)
    try standing.write(database)
    if let edges { try replaceEdges(of: row, edges, call) }
    return try itemReply(201, row, call)
  }

  /// A create that wrote nothing (I3.1, I5.9).
  private func acknowledge(_ row: ItemRow, _ call: Call) throws -> Reply {
    try itemReply(200, row, call, extra: ",\"acknowledged\":true")
  }

  /// The type's fields in the type's order, then the others as sent; nulls of optional fields left out (I46.1, I14.3).
  private func firstProperties(_ sent: JSONObject, _ type: ResolvedType) -> JSONObject {
    var out = JSONObject()
    for field in type.fields {
      guard let value = sent[field.name] else { continue }
      if value.isNull, !field.isRequired { continue }
      out[field.name] = value
    }
    for (name, value) in sent.members where type.byName[name] == nil {
      if value.isNull, name == "attachments" || name == "links" { continue }
      out[name] = value
    }
    return out
  }

  func rules(_ type: ResolvedType) -> PropertyRules {
    PropertyRules(type: type, isStrict: settings.strictTypes.contains(type.id))
  }

  private func upsert(
    _ held: ItemRow, type: Text, id: EntityID?, body: ItemBody, sent: JSONObject, occurred: Timestamp?, tier: Text?,
    tags: [Text]?, edges: [(type: Text, targets: [EntityID])]?, version: Int?, _ call: Call
  ) throws -> Reply {
    guard call.credential.reads(held.type), !isSystem(held.type) else {
      throw Refusal(403, "type_not_permitted", "The natural key is in use.")
    }
    if held.isTrashed, held.type == type { return try acknowledge(held, call) }
    if let id, id != held.id {
      throw Refusal(
        400, "validation_error", "The natural key is another item's.",
        [
          "field": "id", "requested_id": .string(id.text), "existing_id": .string(held.id.text),
          "source": .string(held.source), "source_id": .optional(held.sourceID),
          "errors": [["path": "id", "message": "The natural key is another item's."]],
        ])
    }
    guard held.type == type else {
      throw Refusal(409, "type_mismatch", "The natural key is an item of another type.")
    }
    if let edges { try judgeTargets(edges, call) }
    let write = ItemWrite(
      base: version ?? held.version, properties: sent, isReplace: false, type: nil, tier: tier,
      occurred: occurred.map { .some($0) }, sourceID: nil, edges: edges, resolves: false, tags: tags)
    return try itemReply(200, try apply(write, to: held, call).row, call)
  }
}
