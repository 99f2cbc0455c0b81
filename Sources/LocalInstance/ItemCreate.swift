import MarfaBase

/// A create as its body asks for it, its shape judged (I16.1).
struct ItemCreation {
  var type: Text
  var properties: JSONObject
  var id: EntityID?
  var occurred: Timestamp?
  var tier: Text?
  var tags: [Text]?
  var edges: [(type: Text, targets: [EntityID])]?
  var source: Text?
  var sourceID: Text?
  var latitude: Text?
  var longitude: Text?
  var version: Int?
  var state: Text

  init(_ object: JSONObject) throws {
    let body = ItemBody(object: object)
    guard let typeValue = object["type"], !typeValue.isNull else { throw Refusal.missing("type") }
    guard let type = typeValue.text, isTypeIdentifier(type) else {
      throw Refusal.invalid("type", "type is not a type identifier.")
    }
    self.type = type
    try body.refuseNulls([
      "id", "source", "source_id", "tier", "state", "occurred_at", "capture_latitude", "capture_longitude", "version",
    ])
    properties = try body.properties() ?? JSONObject()
    if let text = try body.text("id") {
      guard let named = strictID(text) else { throw Refusal.invalidID }
      id = named
    }
    occurred = try body.occurred() ?? nil
    tier = try body.tier()
    tags = try body.tags()
    edges = try body.edges()
    source = try body.text("source")
    sourceID = try body.text("source_id")
    latitude = try body.coordinate("capture_latitude")
    longitude = try body.coordinate("capture_longitude")
    version = try body.version()
    state = try body.text("state") ?? "active"
  }
}

/// What a create does where a row is held already (I30).
enum CreationMode {
  case upsert, createOnly
}

/// What came of a create.
enum CreationOutcome {
  case created(ItemRow)
  case updated(ItemRow)
  /// Nothing was written; the reason is a bulk answer's. No row is told where the key may not read it.
  case held(ItemRow?, reason: Text)
}

/// `POST /items`: creates, acknowledged repeats and natural-key upserts (I1 to I16, V10, V31).
extension Instance {
  func createItem(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    let creation = try ItemCreation(try call.object())
    let source = try admit(creation, call)
    switch try create(creation, source: source, call) {
    case .created(let row):
      call.needs.written.append(row.id)
      return try itemReply(201, row, call)
    case .updated(let row):
      call.needs.written.append(row.id)
      return try itemReply(200, row, call)
    case .held(let row, _):
      // A create that wrote nothing (I3.1, I5.9). In this mode what is held and may not be read was refused.
      guard let row else { throw Refusal.itemNotFound }
      return try itemReply(200, row, call, extra: ",\"acknowledged\":true")
    }
  }

  /// The grant on the type, and the source it resolves to (I4, I15, I16).
  func admit(_ creation: ItemCreation, _ call: Call) throws -> Text {
    if isSystem(creation.type) { throw Refusal.systemRow }
    try call.credential.requireWrite(creation.type)
    call.needs.types.append(creation.type)
    let source = creation.source ?? call.credential.source
    guard call.credential.claims(source) else { throw Refusal.source(source) }
    call.needs.sources.append(source)
    for allowed in [settings.sourceAllowList, call.credential.levers.sourceAllowList].compactMap({ $0[creation.type] })
    where !allowed.contains(source) {
      throw Refusal(
        403, "forbidden", "The type takes no items of that source.",
        [
          "type": .string(creation.type), "source": .string(source), "allowed": .array(allowed.map(JSON.string)),
        ])
    }
    return source
  }

  func create(
    _ creation: ItemCreation, source: Text, mode: CreationMode = .upsert, _ call: Call
  ) throws -> CreationOutcome {
    let type = creation.type
    if let sourceID = creation.sourceID, let held = try item(source: source, sourceID: sourceID) {
      let isReadable = call.credential.reads(held.type) && !isSystem(held.type)
      if mode == .createOnly, !isReadable { return .held(nil, reason: "duplicate_source") }
      guard isReadable else { throw Refusal(403, "type_not_permitted", "The natural key is in use.") }
      if held.isTrashed, held.type == type { return .held(held, reason: "trashed") }
      if mode == .createOnly { return .held(held, reason: "duplicate_source") }
      return .updated(try upsert(creation, onto: held, call))
    }
    if let id = creation.id, let held = try item(id) {
      guard call.credential.reads(held.type) else { throw Refusal(409, "conflict", "The id is in use.") }
      guard held.type == type else {
        throw Refusal(409, "id_reused", "The id is an item of another type.", ["differs": ["type"]])
      }
      return .held(held, reason: held.isTrashed ? "trashed" : "duplicate_id")
    }
    guard let resolved = catalog.type(type) else { throw Refusal.unknownType(type) }
    guard ["active", "archived", "trashed"].contains(creation.state) else {
      throw Refusal.invalid("state", "A new item is active, archived or trashed.")
    }
    let now = clock.now
    let made = creation.id ?? ids.next()
    let standing = try takeStanding(creation.properties, owner: made, place: "", held: nil, call)
    var settled = creation.properties
    try settleFile(&settled, type, standing)
    settled = firstProperties(settled, resolved)
    try rules(resolved, call.credential).judge(settled)
    settled = ordered(settled)
    var row = ItemRow(
      id: made, type: type, state: creation.state, tier: creation.tier ?? call.credential.defaultTier,
      schemaVersion: resolved.version, source: source, sourceID: creation.sourceID, latitude: creation.latitude,
      longitude: creation.longitude, occurred: creation.occurred ?? now, created: now, updated: now,
      properties: JSON.object(settled).write(), tags: tagText(creation.tags ?? []))
    try judgeLink(row)
    try insert(&row, settled)
    try standing.write(database)
    if let edges = creation.edges { try replaceEdges(of: row, edges, call) }
    return .created(row)
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

  func rules(_ type: ResolvedType, _ writer: Credential) -> PropertyRules {
    PropertyRules(
      type: type, isStrict: settings.strictTypes.contains(type.id) || writer.levers.strictTypes.contains(type.id))
  }

  /// The natural key names a row: the create is an update of it (I5, V31.1).
  private func upsert(_ creation: ItemCreation, onto held: ItemRow, _ call: Call) throws -> ItemRow {
    if let id = creation.id, id != held.id {
      throw Refusal(
        400, "validation_error", "The natural key is another item's.",
        [
          "field": "id", "requested_id": .string(id.text), "existing_id": .string(held.id.text),
          "source": .string(held.source), "source_id": .optional(held.sourceID),
          "errors": [["path": "id", "message": "The natural key is another item's."]],
        ])
    }
    guard held.type == creation.type else {
      throw Refusal(409, "type_mismatch", "The natural key is an item of another type.")
    }
    if let edges = creation.edges { try judgeTargets(edges, call) }
    let write = ItemWrite(
      base: creation.version ?? held.version, properties: creation.properties, isReplace: false, type: nil,
      tier: creation.tier, occurred: creation.occurred.map { .some($0) }, sourceID: nil, edges: creation.edges,
      resolves: false, tags: creation.tags)
    return try apply(write, to: held, call).row
  }
}
