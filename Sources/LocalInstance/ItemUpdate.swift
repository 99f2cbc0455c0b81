import MarfaBase

/// A write of an item's own fields, judged against the item as it stands (versions.md 16).
struct ItemWrite {
  /// The version the write is based on.
  var base: Int
  var properties: JSONObject?
  var isReplace = false
  /// The type named beside `retype: true`.
  var type: Text?
  var tier: Text?
  /// `.some(nil)` clears it to the creation time (VD2).
  var occurred: Timestamp??
  var sourceID: Text?
  var edges: [(type: Text, targets: [EntityID])]?
  /// Whether `conflict=auto` was asked.
  var resolves = false
  /// Tags of a natural-key upsert.
  var tags: [Text]?
}

extension Instance {
  /// `PATCH /items/{id}`.
  func patchItem(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare(["conflict"])
    let mode = call.query["conflict"]
    if let mode, !["auto", "manual", "callback"].contains(mode) {
      throw Refusal.invalid("conflict", "conflict is auto, manual or callback.")
    }
    let body = ItemBody(object: try call.object())
    guard let base = try body.version() else { throw Refusal.missing("version") }
    try body.declare([
      "version", "properties", "properties_mode", "type", "retype", "tier", "occurred_at", "source_id", "edges",
    ])
    try body.refuseNulls(["tier", "source_id", "type", "properties_mode"])
    var write = ItemWrite(base: base, resolves: mode == "auto")
    write.properties = try body.properties()
    if let mode = try body.text("properties_mode") {
      guard mode == "merge" || mode == "replace" else {
        throw Refusal.invalid("properties_mode", "properties_mode is merge or replace.")
      }
      write.isReplace = mode == "replace"
    }
    let type = try body.text("type")
    if let type, !isTypeIdentifier(type) { throw Refusal.invalid("type", "type is not a type identifier.") }
    var retypes = false
    if let value = body.object["retype"] {
      guard let flag = value.bool else { throw Refusal.invalid("retype", "retype is true or false.") }
      retypes = flag
    }
    if retypes, type == nil { throw Refusal.invalid("type", "retype needs a type.") }
    if retypes { write.type = type }
    write.tier = try body.tier()
    write.sourceID = try body.text("source_id")
    let id = try call.id()
    write.edges = try body.edges()
    guard
      write.properties != nil || write.edges != nil || write.tier != nil || body.object["occurred_at"] != nil
        || write.sourceID != nil || retypes
    else { throw Refusal.invalid("", "The write changes nothing.") }
    write.occurred = try body.occurred()

    let held = try writableItem(id, call)
    if let type, type != held.type, !retypes {
      throw Refusal(409, "type_mismatch", "The item is of another type.")
    }
    if let type = write.type, type != held.type {
      if isSystem(type) { throw Refusal.systemRow }
      try call.credential.requireWrite(type)
      call.needs.types.append(type)
      if catalog.types[type] == nil { throw Refusal.unknownType(type) }
    }
    if catalog.types[held.type] == nil, write.type == nil || write.type == held.type {
      throw Refusal.unknownType(held.type)
    }
    if let edges = write.edges { try judgeTargets(edges, call) }
    let (row, resolution) = try apply(write, to: held, call)
    var extra: [UInt8] = []
    if let resolution {
      extra += ",\"conflict_resolution\":".utf8
      resolution.append(to: &extra)
    }
    return .text(200, try itemAnswer(row, call, extra: extra))
  }

  /// Steps 3 to 12 of versions.md 16: applies a write, merging it where it is stale.
  func apply(_ write: ItemWrite, to held: ItemRow, _ call: Call) throws -> (row: ItemRow, resolution: JSON?) {
    let moving = write.type.map { $0 != held.type } ?? false
    let endType = moving ? write.type ?? held.type : held.type
    guard let type = catalog.type(endType) else { throw Refusal.unknownType(endType) }
    let writes =
      write.properties != nil || write.tier != nil || write.occurred != nil || write.sourceID != nil || moving
    let isStale = write.base != held.version
    if !writes {
      if isStale { throw bareConflict(held) }
      if let edges = write.edges { try replaceEdges(of: held, edges, call) }
      if let tags = write.tags { return (try writeTags(tags, held, call), nil) }
      return (held, nil)
    }
    var body = try write.properties.map { try sentProperties($0, type, isReplace: write.isReplace, held: held) }
    if catalog.isFile(endType), let size = body?["size_bytes"] {
      if size.int == nil { throw Refusal.properties([("size_bytes", "size_bytes is not a whole number.")]) }
      body?["size_bytes"] = nil
    }
    let ancestor: Ancestor?
    if isStale {
      guard let kept = try snapshot(of: held.id, write.base), call.credential.reads(kept.type) else {
        throw ancestorUnavailable(held, write.base)
      }
      ancestor = kept
      call.needs.reads.append(kept.type)
    } else {
      ancestor = nil
    }
    var merge = Merge(
      held: held, ancestor: ancestor, body: body, isReplace: write.isReplace, type: moving ? write.type : nil,
      tier: write.tier, occurred: write.occurred.map { $0 ?? held.created }, sourceID: write.sourceID,
      keepsSize: catalog.isFile(endType))
    let colliding = merge.collisions
    if !colliding.isEmpty {
      let current = catalog.type(held.type) ?? type
      let keeping = colliding.filter { !Merge.itemFields.contains($0) && current.keepsBoth($0) }
      let linkIsRequired = current.linkField.flatMap { current.byName[$0]?.isRequired } ?? false
      if !write.resolves || moving || (linkIsRequired && !keeping.isEmpty) {
        throw fullConflict(held, ancestor, colliding, current)
      }
      merge.keep(keeping)
    }
    var row = held
    var properties = merge.properties
    let standing = try takeStanding(
      properties, owner: held.id, place: "", held: held.properties, base: ancestor?.properties, call)
    if body != nil || moving || catalog.isFile(endType) { try settleFile(&properties, endType, standing) }
    if body != nil || moving { try rules(type, call.credential).judge(properties) }
    row.type = endType
    row.tier = merge.tier ?? held.tier
    row.occurred = merge.occurred ?? held.occurred
    if let sourceID = merge.sourceID, sourceID != held.sourceID {
      guard call.credential.claims(held.source) else { throw Refusal.source(held.source) }
      call.needs.sources.append(held.source)
      if let other = try item(source: held.source, sourceID: sourceID), other.id != held.id {
        throw Refusal(409, "source_id_conflict", "Another item holds that source_id.")
      }
      row.sourceID = sourceID
    }
    row.properties = JSON.object(ordered(properties)).write()
    if let tags = write.tags { row.tags = tagText(tags) }
    row.version = held.version + 1
    try judgeLink(row)

    var copyID: EntityID?
    if !merge.setAside.isEmpty { copyID = try writeConflictedCopy(of: held, merge, base: write.base, call) }
    try keepSnapshot(held, by: call.credential)
    if moving { try moveViews() }
    try update(&row, was: held, as: "item.updated")
    try standing.write(database)
    if let edges = write.edges { try replaceEdges(of: row, edges, call) }
    guard !colliding.isEmpty else { return (row, nil) }
    let policy = catalog.type(held.type) ?? type
    var report = JSONObject([("fields", .array(colliding.map(JSON.string)))])
    report["strategy"] = .object(
      JSONObject(
        colliding.map { field in
          let keeps = !Merge.itemFields.contains(field) && policy.keepsBoth(field)
          return (field, keeps ? "keep_both_copies" : "last_writer_wins")
        }))
    if let copyID { report["conflicted_copy_id"] = .string(copyID.text) }
    return (row, .object(report))
  }

  /// What of the properties sent takes part: nulls of a merge are dropped, of a replace left out (V6.6 to V6.8).
  private func sentProperties(
    _ sent: JSONObject, _ type: ResolvedType, isReplace: Bool, held: ItemRow
  ) throws -> JSONObject {
    var out = JSONObject()
    for (name, value) in sent.members {
      if value.isNull {
        if !isReplace, type.byName[name]?.isRequired ?? false {
          throw Refusal.properties([(name, "\(name) is required.")])
        }
      } else {
        out[name] = value
      }
    }
    return out
  }

  // MARK: the 409 envelopes (V8.6, V9.4, V17.2)

  func bareConflict(_ held: ItemRow) -> Refusal {
    var refusal = Refusal(409, "version_conflict", "The item has moved on from that version.")
    refusal.beside = [("current", held.conflictView)]
    return refusal
  }

  private func ancestorUnavailable(_ held: ItemRow, _ version: Int) -> Refusal {
    var refusal = Refusal(409, "ancestor_unavailable", "No snapshot of that version is held.")
    refusal.beside = [("current", held.conflictView), ("requested_version", .int(version))]
    return refusal
  }

  private func fullConflict(
    _ held: ItemRow, _ ancestor: Ancestor?, _ fields: [Text], _ type: ResolvedType
  ) -> Refusal {
    var refusal = Refusal(409, "version_conflict", "The item was changed since that version, in the same fields.")
    refusal.beside = [("current", held.conflictView)]
    if let ancestor { refusal.beside.append(("ancestor", ancestor.view(held.id))) }
    refusal.beside.append(("conflicting_fields", .array(fields.map(JSON.string))))
    if let policy = type.mergePolicy { refusal.beside.append(("merge_policy", policy)) }
    return refusal
  }

  func snapshot(of item: EntityID, _ version: Int) throws -> Ancestor? {
    try database.one(
      "SELECT version, properties, type, tier, occurred, source_id FROM snapshot WHERE item = ? AND version = ?",
      item, version
    ) { row in
      Ancestor(
        version: row.int(0), properties: (try? JSON(parsing: row.bytes(1)))?.object ?? JSONObject(), type: row.text(2),
        tier: row.text(3), occurred: row.time(4) ?? Timestamp(milliseconds: 0), sourceID: row.optionalText(5))
    }
  }
}

/// The item as it stood at the version a stale write names.
struct Ancestor {
  var version: Int
  var properties: JSONObject
  var type: Text
  var tier: Text
  var occurred: Timestamp
  var sourceID: Text?

  func view(_ id: EntityID) -> JSON {
    .object(
      conflictMembers(
        id: id, version: version, type: type, tier: tier, occurred: occurred, sourceID: sourceID,
        properties: properties))
  }
}
