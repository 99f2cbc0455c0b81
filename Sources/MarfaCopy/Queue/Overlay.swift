import MarfaBase

/// Lays waiting writes over what the server holds: the shown row (Q31, Q35). Pure, so every rule is a table test.
///
/// The server's row comes in, the waiting writes of that row in queue order, and out comes what a person sees. Laying never
/// moves a version (Q35.8) and never loses a property another device added.
enum Overlay {
  /// What the catalog must tell for laying: nothing else of it matters here.
  struct Types {
    /// The declared fields of a type in the order a read lists them, each with whether it is required; nil for a type the
    /// catalog does not hold.
    var fields: (Text) -> [(name: Text, required: Bool)]?
    /// The number a type's definition has, which an item made of it carries from then on (I0.6).
    var version: (Text) -> Int? = { _ in nil }
  }

  /// The item as shown, or nil where neither the server's row nor a waiting create gives one.
  /// - Parameters:
  ///   - server: the row as the copy last took it from the server.
  ///   - writes: the row's waiting writes in queue order.
  static func item(_ server: Item?, _ writes: [QueuedWrite], types: Types) -> Item? {
    var shown = server
    for write in writes where write.isLaidOver {
      switch write.kind {
      case .createItem:
        // A row an event brought first already holds what the create carried.
        if shown == nil { shown = created(write, types: types) }
      case .updateItem: lay(write, over: &shown, types: types)
      case .deleteItem: shown?.state = "trashed"
      case .restoreItem: shown?.state = "active"
      case .transitionItem:
        if let state = write.body?["state"]?.text { shown?.state = state }
      case .addTag:
        if let tag = write.tag { addTags([tag], to: &shown) }
      case .removeTag: shown?.tags.removeAll { $0 == write.tag }
      case .mergeMetadata: addTags(write.bodyTags, to: &shown)
      case .replaceMetadata:
        shown?.tags = []
        addTags(write.bodyTags, to: &shown)
      case .writeExtension:
        if let namespace = write.namespace { shown?.extensions[namespace] = write.body }
      case .deleteExtension:
        if let namespace = write.namespace { shown?.extensions[namespace] = nil }
      case .createEdge, .updateEdge, .deleteEdge, .uploadBlob: break
      }
    }
    return shown
  }

  /// The edge as shown, or nil where it is deleted or nothing gives one.
  static func edge(_ server: Edge?, _ writes: [QueuedWrite]) -> Edge? {
    var shown = server
    var deleted = false
    for write in writes where write.isLaidOver {
      switch write.kind {
      case .createEdge:
        if shown == nil { shown = createdEdge(write) }
      case .updateEdge:
        // Stored key by key, a null as null (E10.1).
        for (key, value) in write.bodyProperties?.members ?? [] { shown?.properties[key] = value }
        if let source = write.body?["source_id"]?.text.flatMap({ EntityID($0) }) { shown?.source = source }
        if let target = write.body?["target_id"]?.text.flatMap({ EntityID($0) }) { shown?.target = target }
      case .deleteEdge: deleted = true
      case .createItem, .updateItem, .deleteItem, .restoreItem, .transitionItem, .replaceMetadata, .mergeMetadata,
        .addTag,
        .removeTag, .writeExtension, .deleteExtension, .uploadBlob:
        break
      }
    }
    return deleted ? nil : shown
  }

  // MARK: Creates

  /// The row of an unanswered create, at version 0 (Q35.8).
  static func created(_ write: QueuedWrite, types: Types) -> Item? {
    guard let id = write.itemID, let body = write.body, let type = body["type"]?.text else { return nil }
    let occurred = body["occurred_at"]?.text.flatMap(Timestamp.init(served:))
    return Item(
      id: id, type: type, tier: body["tier"]?.text ?? write.readRecord?["tier"]?.text,
      state: body["state"]?.text ?? "active",
      properties: createOrder(body["properties"]?.object ?? JSONObject(), fields: types.fields(type) ?? []),
      tags: [], version: 0, schemaVersion: types.version(type) ?? 0, source: body["source"]?.text,
      sourceID: body["source_id"]?.text,
      occurredAt: occurred ?? write.queuedAt, createdAt: write.queuedAt, updatedAt: write.queuedAt)
  }

  /// Declared fields first in the type's order, then the rest as written; a null for a declared optional field, or for
  /// `attachments` or `links`, leaves the field out (Q35.9, Q53.4, I46.1).
  static func createOrder(_ given: JSONObject, fields: [(name: Text, required: Bool)]) -> JSONObject {
    var out = JSONObject()
    for field in fields {
      if let value = given[field.name], !(value.isNull && !field.required) { out[field.name] = value }
    }
    let declared = Set(fields.map(\.name))
    for (key, value) in given.members where !declared.contains(key) {
      if value.isNull, key == "attachments" || key == "links" { continue }
      out[key] = value
    }
    return indexNamesFirst(out)
  }

  static func createdEdge(_ write: QueuedWrite) -> Edge? {
    guard let id = write.edgeID, let source = write.itemID, let target = write.targetID,
      let type = write.body?["edge_type"]?.text
    else { return nil }
    return Edge(
      id: id, source: source, target: target, type: type, properties: write.bodyProperties ?? JSONObject(), version: 0,
      createdAt: write.queuedAt, updatedAt: write.queuedAt)
  }

  // MARK: Edits

  private static func lay(_ write: QueuedWrite, over shown: inout Item?, types: Types) {
    guard var row = shown, let body = write.body else { return }
    if let type = body["type"]?.text { row.type = type }
    if let tier = body["tier"]?.text { row.tier = tier }
    if let sourceID = body["source_id"]?.text { row.sourceID = sourceID }
    if let time = body["occurred_at"]?.text.flatMap(Timestamp.init(served:)) { row.occurredAt = time }
    if let carried = write.bodyProperties {
      if write.isWhole, !write.asRead {
        row.properties = whole(carried, read: write.readRecord ?? JSONObject(), over: row.properties)
      } else {
        row.properties = merge(carried, over: row.properties, fields: types.fields(row.type))
      }
    }
    shown = row
  }

  /// A merge keeps positions and appends new names; a null for a property the type does not require leaves it as it is held
  /// (Q53.1, Q35.9).
  static func merge(_ carried: JSONObject, over held: JSONObject, fields: [(name: Text, required: Bool)]?) -> JSONObject
  {
    var out = held
    for (key, value) in carried.members {
      if value.isNull, let fields, !fields.contains(where: { $0.name == key && $0.required }) { continue }
      out[key] = value
    }
    return indexNamesFirst(out)
  }

  /// What a whole edit shows: what it changed set, what it read and left out cleared, every other property the row's own, so
  /// that one another device added keeps showing (Q45.2). The order is the order it was written in (Q45.3), what it does not
  /// name after it. A null clears (Q53.2).
  static func whole(_ carried: JSONObject, read: JSONObject, over held: JSONObject) -> JSONObject {
    var out = JSONObject()
    for (key, value) in carried.members where !value.isNull {
      // A value carried as it was read is no change: the row's own shows, gone included.
      if read[key] == value {
        if let own = held[key] { out[key] = own }
      } else {
        out[key] = value
      }
    }
    for (key, value) in held.members where carried[key] == nil && read[key] == nil { out[key] = value }
    return indexNamesFirst(out)
  }

  /// Names that are the decimal of an array index come first, in numeric order (I46.4).
  static func indexNamesFirst(_ object: JSONObject) -> JSONObject {
    var indexes: [(UInt64, JSONObject.Member)] = []
    for member in object.members {
      if let index = arrayIndex(member.key) { indexes.append((index, member)) }
    }
    if indexes.isEmpty { return object }
    var out = JSONObject()
    for (_, member) in indexes.sorted(by: { $0.0 < $1.0 }) { out[member.key] = member.value }
    for member in object.members where out[member.key] == nil { out[member.key] = member.value }
    return out
  }

  private static func arrayIndex(_ key: Text) -> UInt64? {
    guard !key.isEmpty, key.bytes.count <= 10, key.bytes.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }),
      key.bytes.count == 1 || key.bytes[0] != 0x30, let value = UInt64(key.string), value <= 4_294_967_294
    else { return nil }
    return value
  }

  private static func addTags(_ tags: [Text], to shown: inout Item?) {
    guard var row = shown else { return }
    for tag in tags where !row.tags.contains(tag) { row.tags.append(tag) }
    row.tags.sort()
    shown = row
  }
}

extension QueuedWrite {
  /// The tags of a metadata write.
  var bodyTags: [Text] { (body?["tags"]?.array ?? []).compactMap(\.text) }
}
