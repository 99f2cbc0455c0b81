import MarfaBase

/// Queueing writes of items. A local refusal queues nothing, sends nothing and leaves the copy as it was (chapter 6).
extension WriteQueue {
  // MARK: Create

  /// Queues a new item; it shows at once, at version 0. Its tags go as writes of their own behind it (Q33.2).
  /// - Throws: `validation` and `unknown_type` as the server would refuse it, `reading_handle`, the copy's expiry.
  @discardableResult
  package func createItem(_ draft: ItemDraft) throws(MarfaError) -> QueuedWrite {
    try copy.requireWriter()
    let isKeyFree = try isKeyFree(draft)
    return try queueing {
      let standing = try self.standing()
      let catalog = try store.catalog()
      guard let type = catalog.type(draft.type) else { throw unknown(draft.type) }
      try refuseServed(draft.type)
      if let id = draft.id, !id.isVersion7 {
        throw MarfaError.validation("the id \(id) is no UUID of version 7", code: "invalid_id")
      }
      try checkMembers(draft)
      for tag in draft.tags { try PropertyCheck.tag(tag) }
      try PropertyCheck.tagCount(adding: draft.tags, to: [])
      let keyed = try keyTarget(draft)
      try checkCreate(draft, type, keyed)
      let id = draft.id ?? context.ids.next()
      try checkInlineEdges(draft, id: id, catalog, standing)

      var write = entry(.createItem)
      write.itemID = id
      write.baseVersion = draft.version ?? 0
      let tiers = try tiers(draft, keyed, isKeyFree: isKeyFree)
      write.set(body: body(draft, id: id, tier: tiers.sent))
      // Shown at the tier it would be found at, also where none is sent.
      if tiers.sent == nil { write.readRecord = JSONObject([("tier", .string(tiers.shown))]) }
      try pinWhereOutside(id, draft.type, tiers.shown)
      let created = try append(write, waitingOn: draft.upload.map { [$0] } ?? [])
      if draft.bodyEdges {
        try copy.bodies.changed(
          of: id, from: nil, to: draft.properties[type.bodyField]?.text, by: created.id)
      }
      for tag in draft.tags { _ = try queueTag(tag, on: id) }
      return created
    }
  }

  private func unknown(_ type: Text) -> MarfaError {
    MarfaError(
      .unknownType, "there is no type '\(type)'", server: .init(code: "unknown_type", details: ["type": .string(type)]))
  }

  /// What the server would refuse as malformed (Q55.15).
  private func checkMembers(_ draft: ItemDraft) throws(MarfaError) {
    if let state = draft.state, state == "revoked" || !["active", "archived", "trashed"].contains(state) {
      throw .validation("an item can't be made in the state '\(state)'")
    }
    for place in [draft.captureLatitude, draft.captureLongitude] where place.map({ !$0.isFinite }) == true {
      throw .validation("a coordinate must be a finite number")
    }
    if (draft.captureLatitude == nil) != (draft.captureLongitude == nil) {
      throw .validation("a place needs both coordinates")
    }
    if let time = draft.occurredAt, Timestamp(served: time) == nil {
      throw .validation("'\(time)' is no time", details: ["field": "occurred_at"])
    }
  }

  /// Q55.7 to Q55.9.
  private func checkCreate(_ draft: ItemDraft, _ type: ItemType, _ target: KeyTarget) throws(MarfaError) {
    let fields = type.fields.map { (name: $0.name, required: $0.isRequired) }
    switch target {
    case .none:
      try PropertyCheck.names(draft.properties)
      try PropertyCheck.whole(Overlay.createOrder(draft.properties, fields: fields), of: type)
    case .row(let row) where row.type == draft.type && (draft.version == nil || draft.version == row.version):
      try PropertyCheck.whole(Overlay.merge(draft.properties, over: row.properties, fields: fields), of: type)
    case .row, .ownCreate, .unknown: try PropertyCheck.values(draft.properties, of: type)
    }
  }

  private func body(_ draft: ItemDraft, id: EntityID, tier: Text?) -> JSONObject {
    var body = JSONObject()
    // A keyed create whose caller named no id leaves the id to the server (Q38.1).
    if draft.id != nil || draft.sourceID == nil { body["id"] = .string(id.text) }
    body["type"] = .string(draft.type)
    body["properties"] = .object(draft.properties)
    body["tier"] = tier.map { .string($0) }
    body["state"] = draft.state.map { .string($0) }
    body["source"] = draft.source.map { .string($0) }
    body["source_id"] = draft.sourceID.map { .string($0) }
    body["occurred_at"] = draft.occurredAt.map { .string($0) }
    body["capture_latitude"] = draft.captureLatitude.flatMap { JSONNumber($0) }.map { .number($0) }
    body["capture_longitude"] = draft.captureLongitude.flatMap { JSONNumber($0) }.map { .number($0) }
    body["version"] = draft.version.map { .int($0) }
    if !draft.edges.isEmpty {
      body["edges"] = .object(
        JSONObject(draft.edges.map { ($0.type, .array($0.targets.map { .string($0.text) })) }))
    }
    return body
  }

  /// Q64 for the edges a create carries; a target the copy lacks is the server's to judge.
  private func checkInlineEdges(
    _ draft: ItemDraft, id: EntityID, _ catalog: Catalog, _ standing: Standing
  ) throws(MarfaError) {
    if draft.edges.isEmpty { return }
    let made = Item(
      id: id, type: draft.type, tier: nil, properties: JSONObject(), version: 0, occurredAt: context.clock.now,
      createdAt: context.clock.now, updatedAt: context.clock.now)
    let store = store
    let check = EdgeCheck(
      catalog: catalog, item: { (end) throws(MarfaError) in end == id ? made : try store.item(end) },
      between: { (_, _, _) throws(MarfaError) in [] }, from: { (_, _) throws(MarfaError) in [] },
      to: { (end, type) throws(MarfaError) in try store.edges(where: "target = ? AND type = ?", [end, type]) })
    for (type, targets) in draft.edges {
      if type == "in-folder" {
        throw .validation("a placement carries its path, so it is an edge of its own")
      }
      if catalog.edgeTypes[type]?.cardinality.sourceHasOne == true, targets.count > 1 {
        throw .validation(
          "an item has one '\(type)'", code: "edge_constraint_violation",
          details: ["constraint": "cardinality", "edge_type": .string(type), "source_id": .string(id.text)])
      }
      for target in targets {
        if standing != .whole, standing != .never, try store.item(target) == nil { throw incomplete() }
        try check.judge(type: type, source: id, target: target)
      }
    }
  }

  // MARK: Edit

  /// Queues an edit of an item the copy holds.
  /// - Throws: `invalid` without a version or at one the copy does not hold (Q2, Q43), `not_held`, `validation`,
  ///   `unknown_type`.
  @discardableResult
  package func updateItem(_ id: EntityID, _ edit: ItemEdit) throws(MarfaError) -> QueuedWrite {
    try queueing {
      let row = try held(id)
      let write = try append(try made(edit, of: row), waitingOn: edit.upload.map { [$0] } ?? [])
      if edit.bodyEdges { try takeBody(of: row, by: write) }
      return write
    }
  }

  /// Reads the body before and after an edit (D88.1): before from the old type's property, after from the new one's (D88.3).
  private func takeBody(of row: Item, by write: QueuedWrite) throws(MarfaError) {
    let catalog = try store.catalog()
    let before = catalog.body(of: row)
    if write.asRead {
      guard write.bodyProperties?[catalog.bodyField(of: row.type)] != nil else { return }
      return try copy.bodies.awaitAnswer(write.id, of: row.id, from: before)
    }
    guard let after = try store.item(row.id) else { return }
    try copy.bodies.changed(of: row.id, from: before, to: catalog.body(of: after), by: write.id)
  }

  /// Queues a blocked edit again on another version, in the place it had, so that what was queued behind it stays behind it
  /// (F23.14). The row was read by the caller first (Q46.3). Nil for a write that is no edit, or not blocked for a conflict.
  package func resend(_ id: EntityID, _ edit: ItemEdit) throws(MarfaError) -> QueuedWrite? {
    try queueing {
      guard let old = try table.entry(id), old.kind == .updateItem, let item = old.itemID,
        old.blockedReason == .ancestorUnavailable || old.blockedReason == .conflictUnresolved
      else { return nil }
      let ahead = try table.all("item = ? AND edge IS NULL AND seq < ? AND \(WriteQueue.laidOver)", item, old.seq)
      guard let row = Overlay.item(try store.serverItem(item), ahead, types: try overlayTypes()), !row.isTrashed else {
        return nil
      }
      var write = try made(edit, of: row)
      write.follows = old.follows
      write.dependsOn = old.dependsOn
      try table.replace(old, by: &write)
      for var behind in try table.all("follows = ? OR instr(depends_on, ?) > 0", id, id) {
        if behind.follows == id { behind.follows = write.id }
        behind.dependsOn = behind.dependsOn.map { $0 == id ? write.id : $0 }
        try table.update(behind)
      }
      try reproject(write)
      return write
    }
  }

  /// The write of an edit of a row as it is shown.
  private func made(_ edit: ItemEdit, of row: Item) throws(MarfaError) -> QueuedWrite {
    guard let version = edit.version else {
      throw MarfaError(.invalid, "an edit names the version it was made on")
    }
    let isEarlier = try readEarlier(
      version, held: row.version, answered: answeredVersion(item: row.id), said: edit.readAtVersion)
    let catalog = try store.catalog()
    let typeID = edit.type ?? row.type
    guard let type = catalog.type(typeID) else { throw unknown(typeID) }
    var (properties, whole) = (edit.properties, edit.mode == .replace)
    if !edit.clearProperties.isEmpty {
      // A clearing goes whole: what is shown with the changes laid over and the cleared names left out (QD6).
      if !whole { properties = Overlay.merge(edit.properties, over: row.properties, fields: fields(type)) }
      whole = true
      let cleared = Set(edit.clearProperties)
      properties.removeAll { cleared.contains($0.key) }
    }
    let body = try editBody(edit, row, properties, whole: whole, version: version)
    try checkEdit(row, properties, whole: whole, type, isEarlier: isEarlier)

    var write = entry(.updateItem)
    write.itemID = row.id
    write.baseVersion = version
    write.query = "conflict=auto"
    write.set(body: body)
    write.asRead = isEarlier
    if !isEarlier {
      write.readRecord =
        whole
        ? row.properties
        : JSONObject(properties.keys.compactMap { name in row.properties[name].map { (name, $0) } })
    }
    return write
  }

  private func fields(_ type: ItemType) -> [(name: Text, required: Bool)] {
    type.fields.map { ($0.name, $0.isRequired) }
  }

  /// Whether an edit is said to be read earlier than what is held (Q43.1 to Q43.3, Q2.2). A version an answer named counts
  /// as held before the read after it: the caller knows it from the verdict.
  private func readEarlier(_ version: Int, held: Int, answered: Int?, said: Bool) throws(MarfaError) -> Bool {
    if version == held || version == answered { return false }
    guard said, version > 0, version < held else {
      throw MarfaError(.invalid, "the edit names version \(version), and the copy holds \(held)")
    }
    return true
  }

  private func editBody(
    _ edit: ItemEdit, _ row: Item, _ properties: JSONObject, whole: Bool, version: Int
  ) throws(MarfaError) -> JSONObject {
    var body = JSONObject([("version", .int(version))])
    if whole || !properties.isEmpty { body["properties"] = .object(properties) }
    if whole { body["properties_mode"] = "replace" }
    if let type = edit.type, type != row.type {
      body["type"] = .string(type)
      body["retype"] = true
    }
    if let tier = edit.tier, tier != row.tier { body["tier"] = .string(tier) }
    body["source_id"] = edit.sourceID.map { .string($0) }
    if let time = edit.occurredAt {
      guard !edit.clearOccurredAt else { throw MarfaError(.invalid, "an edit sets the time or clears it, not both") }
      guard Timestamp(served: time) != nil else {
        throw .validation("'\(time)' is no time", details: ["field": "occurred_at"])
      }
      body["occurred_at"] = .string(time)
    }
    // Every server takes the time itself; a null could be refused, and a person's words with it (QD7). An own create's
    // time is filled in from its answer (Rebase).
    if edit.clearOccurredAt { body["occurred_at"] = .string(row.createdAt.text) }
    if body.count == 1 { throw MarfaError(.invalid, "the edit names nothing to change") }
    return body
  }

  /// Q55.5, Q55.6.
  private func checkEdit(
    _ row: Item, _ properties: JSONObject, whole: Bool, _ type: ItemType, isEarlier: Bool
  ) throws(MarfaError) {
    try PropertyCheck.names(properties)
    let ofKeyedCreate = row.version == 0 && row.sourceID != nil
    if isEarlier || ofKeyedCreate { return try PropertyCheck.values(properties, of: type) }
    if !whole {
      // A null for what the type requires is refused, not taken for absent.
      try PropertyCheck.values(properties.droppingOptionalNulls(of: type), of: type)
    }
    let result =
      whole
      ? JSONObject(properties.members.filter { !$0.value.isNull }.map { ($0.key, $0.value) })
      : Overlay.merge(properties, over: row.properties, fields: fields(type))
    try PropertyCheck.whole(result, of: type)
  }

  // MARK: The bin and states

  /// Queues a move of an item to the bin, on the version held (Q52.1).
  @discardableResult
  package func deleteItem(_ id: EntityID) throws(MarfaError) -> QueuedWrite {
    try queueing {
      let row = try held(id)
      var write = entry(.deleteItem)
      write.itemID = id
      write.baseVersion = row.version
      write.query = row.version > 0 ? Text("version=\(row.version)") : ""
      write.readRecord = Rebase.content(of: row)
      return try append(write)
    }
  }

  /// Queues a return from the bin. An item the copy does not hold is queued by id, once (Q56).
  @discardableResult
  package func restoreItem(_ id: EntityID) throws(MarfaError) -> QueuedWrite {
    try queueing {
      let standing = try self.standing()
      if try store.item(id) == nil {
        if standing == .filling || standing == .stale { throw incomplete() }
        if try waiting(item: id).contains(where: { $0.kind == .restoreItem }) {
          throw MarfaError(.invalid, "a restore of \(id) waits already")
        }
      }
      var write = entry(.restoreItem)
      write.itemID = id
      return try append(write)
    }
  }

  /// Queues a move to another state.
  @discardableResult
  package func transition(_ id: EntityID, _ state: Text) throws(MarfaError) -> QueuedWrite {
    try queueing {
      guard ["active", "archived", "trashed"].contains(state) else {
        throw MarfaError.validation("there is no state '\(state)'")
      }
      _ = try held(id, inBin: true)
      var write = entry(.transitionItem)
      write.itemID = id
      write.bodyText = Text(bytes: JSON.object(JSONObject([("state", .string(state))])).write())
      return try append(write)
    }
  }

  // MARK: What the copy may queue

  /// How far the copy is, for queueing (Q28.3).
  enum Standing { case never, whole, filling, stale }

  /// - Throws: `hydration_incomplete`: an expired copy queues nothing until a fill (D4.1).
  func standing() throws(MarfaError) -> Standing {
    switch try copy.hydration() {
    case .never: return .never
    case .complete: return .whole
    case .inProgress: return .filling
    case .stale: return .stale
    case .expired:
      let reason = try store.text(.expiredReason)?.string ?? "expired"
      throw MarfaError(
        .hydrationIncomplete, "the copy has ended (\(reason)); it must be filled again before it takes writes",
        reason: reason)
    }
  }

  func incomplete() -> MarfaError {
    MarfaError(.hydrationIncomplete, "the copy is not whole yet, so it can't tell what this write would touch")
  }

  /// The shown row a write is about.
  func held(_ id: EntityID, inBin: Bool = false) throws(MarfaError) -> Item {
    let standing = try self.standing()
    guard let row = try store.item(id), inBin || !row.isTrashed else {
      if standing == .filling || standing == .stale { throw incomplete() }
      throw MarfaError(.notHeld, "the copy holds no item \(id)")
    }
    try refuseServed(row.type)
    return row
  }

  /// Folders and views are made and changed at the server at once, or not at all (Q32.2).
  private func refuseServed(_ type: Text) throws(MarfaError) {
    guard type.bytes.starts(with: "system.".utf8) else { return }
    throw MarfaError(.invalid, "a \(type) is made and changed on the server at once; no write of one is queued")
  }
}

extension JSONObject {
  /// Without nulls for what the type does not require: under a merge they leave what is held (Q53.1).
  fileprivate func droppingOptionalNulls(of type: ItemType) -> JSONObject {
    JSONObject(members.filter { !$0.value.isNull || type.field($0.key)?.isRequired == true }.map { ($0.key, $0.value) })
  }
}
