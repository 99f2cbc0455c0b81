import MarfaBase

/// Reading rows again after their writes were answered (chapter 11), and the rows creates landed on (chapter 15).
///
/// A receipt does not prove what the key may read now: the row is held as a read of it gives it. Until then the answered
/// write stays laid over, so the copy never shows less than the person wrote.
extension Drain {
  /// How many reads go one by one; more are made together (Q9.10).
  static let fewReads = 4

  /// Reads owed from earlier drains, oldest first, before any write is sent (Q12.4).
  func readOwedFirst() throws(MarfaError) {
    for create in try table.answered("landed IS NOT NULL") where mayGoOn { try readLanding(create.id) }
    try read(try table.answered("owed_read = 1 AND landed IS NULL").map(\.head))
  }

  /// Reads the rows of this pass's answers.
  func readAnswered() throws(MarfaError) {
    // Another read view ends the copy; the fill that follows brings the rows.
    if movedView { return }
    let writes = toRead
    toRead = []
    try read(writes)
  }

  private func read(_ writes: [QueuedWrite]) throws(MarfaError) {
    var known: Set<EntityID> = []
    var order: [(isEdge: Bool, id: EntityID)] = []
    for write in writes {
      if write.kind.isEdgeWrite, let id = write.edgeID {
        if known.insert(id).inserted { order.append((true, id)) }
      } else if let id = write.itemID {
        if known.insert(id).inserted { order.append((false, id)) }
      }
    }
    if order.count > Drain.fewReads {
      do throws(MarfaError) { _ = try copy.catchUp(triesNames: false) } catch {
        // A stream that ended early met what it met; the rest is read.
        if error.code != .streamIncomplete { try environmental(error) }
        if !mayGoOn { return }
      }
      var left: [(isEdge: Bool, id: EntityID)] = []
      try store.transaction {
        for (isEdge, id) in order {
          // What an event's row settled is no longer owed.
          let isOwed =
            isEdge
            ? try table.has("edge = ? AND owed_read = 1", id)
            : try table.has("item = ? AND edge IS NULL AND owed_read = 1 AND landed IS NULL", id)
          var met = !isOwed
          if isOwed { met = isEdge ? try isMet(edge: id) : try isMet(item: id) }
          if met { try settleRead(isEdge, id) } else { left.append((isEdge, id)) }
        }
      }
      // Of a row made here every edge is made here too, or told by an event to come.
      let made = Set(
        writes.lazy.filter { $0.kind == .createItem && !$0.isKeyedCreate }.compactMap { (write) in write.itemID })
      order = try readTogether(left, made: made)
    }
    for (isEdge, id) in order {
      guard mayGoOn else { return }
      do throws(MarfaError) {
        if isEdge { _ = try copy.freshRead(edge: id) } else { _ = try copy.freshRead(item: id) }
      } catch {
        try environmental(error)
        return
      }
      try settleRead(isEdge, id)
    }
  }

  /// Reads up to a hundred rows a request; those it did not answer are left for a read of their own.
  private func readTogether(
    _ order: [(isEdge: Bool, id: EntityID)], made: Set<EntityID>
  ) throws(MarfaError) -> [(isEdge: Bool, id: EntityID)] {
    let items = order.filter { !$0.isEdge }.map(\.id)
    guard items.count > Drain.fewReads else { return order }
    var done: Set<EntityID> = []
    var from = 0
    while from < items.count, mayGoOn {
      let page = Array(items[from..<min(items.count, from + 100)])
      from += page.count
      let answered: [Item]
      do throws(MarfaError) { answered = try copy.server.bulkGet(page) } catch {
        // A server without the door, or one that answers it otherwise, is read row by row (IQ2).
        let isRefusal = error.server?.status.map { (400..<500).contains($0) && $0 != 401 } ?? (error.code == .decoding)
        if error.isEnvironmental || !isRefusal { try environmental(error) }
        break
      }
      try store.transaction {
        for var item in answered {
          guard let listed = try isListed(item, made: made) else { continue }
          item.isListed = listed
          _ = try clearRead(false, item.id)
          try store.take(server: item)
          try store.reproject(item: item.id)
          done.insert(item.id)
        }
      }
    }
    return order.filter { $0.isEdge || !done.contains($0.id) }
  }

  /// Whether a row answered in bulk, which does not say so itself, is listed. Nil where it takes a read of its own to tell: a
  /// row that moved, a new one that the slice may not take, or one that comes into the copy with edges of its own.
  private func isListed(_ item: Item, made: Set<EntityID>) throws(MarfaError) -> Bool? {
    if let held = try store.serverItem(item.id) {
      return held.type == item.type && held.tier == item.tier ? held.isListed : nil
    }
    guard made.contains(item.id), let slice = try copy.slice(), !item.type.bytes.starts(with: "system.".utf8),
      try slice.takes(type: item.type, tier: item.tier, in: store.catalog())
    else { return nil }
    return true
  }

  private func settleRead(_ isEdge: Bool, _ id: EntityID) throws(MarfaError) {
    try store.transaction {
      // An event that brought the row cleared it, and showed the row, already.
      let stillOwed = try clearRead(isEdge, id) > 0
      if isEdge {
        if stillOwed { try store.reproject(edge: id) }
        return
      }
      if stillOwed { try store.reproject(item: id) }
      try copy.releaseIfOutside(id)
      try queue.unpinRefusedCreate(id)
    }
  }

  private func clearRead(_ isEdge: Bool, _ id: EntityID) throws(MarfaError) -> Int {
    try store.read {
      let column = isEdge ? "edge = ?" : "item = ? AND edge IS NULL"
      return try store.database.run(
        "UPDATE queue SET owed_read = 0 WHERE \(column) AND owed_read = 1 AND landed IS NULL", id)
    }
  }

  // MARK: Landed creates

  /// Reads the row a keyed create landed on and moves the copy onto it; where no read finds it, everything stays as it is
  /// and later drains read again (Q38.3, Q39).
  func readLanding(_ id: EntityID) throws(MarfaError) {
    guard let create = try table.entry(id), let landed = create.landedID, let minted = create.itemID else { return }
    let row: Item?
    do throws(MarfaError) { row = try copy.freshRead(item: landed) } catch {
      try environmental(error)
      return
    }
    guard let row else { return }
    try store.transaction { try move(create, from: minted, to: landed, row) }
    for place in report.verdicts.indices where report.verdicts[place].id == id {
      report.verdicts[place].itemID = landed
    }
    wake(id)
  }

  private func move(
    _ create: QueuedWrite, from minted: EntityID, to landed: EntityID, _ row: Item
  ) throws(MarfaError) {
    var settled = create
    settled.itemID = landed
    settled.landedID = nil
    settled.owesRead = false
    try table.update(settled)
    let refused = create.verdict == .refused
    let naming = try table.all(
      "id <> ? AND sent = 0 AND \(WriteQueue.waits) AND (item = ? OR target = ? OR instr(body, ?) > 0)", create.id,
      minted,
      minted, minted)
    for write in naming {
      if refused, write.kind.isRefusedByLanding {
        try refuseUnsent(write, Readiness.reason(.createItem, .refused))
        continue
      }
      var moved = write
      if moved.itemID == minted { moved.itemID = landed }
      if moved.targetID == minted { moved.targetID = landed }
      moved.bodyText = write.body.map { Text(bytes: $0.renaming(minted, to: landed).write()) }
      // The writes that only add no longer wait for the create that was refused (Q4.7, Q39.4).
      if refused { moved.dependsOn.removeAll { $0 == create.id } }
      try table.update(moved)
    }
    try reorder(landed)
    try copy.bodies.moved(from: minted, to: landed)
    try store.read { try store.database.run("UPDATE OR REPLACE pin SET item = ? WHERE item = ?", landed, minted) }
    // Outside the slice it is the pin, moved only now, that holds the row.
    if try copy.isPinned(landed) { try store.take(server: row) }
    try store.letGo(item: minted)
    try store.reproject(item: landed)
    for edge in Set(naming.compactMap(\.edgeID)).sorted() { try store.reproject(edge: edge) }
  }

  /// Orders the waiting writes of a row anew, all in the order they were queued (Q42.7).
  private func reorder(_ item: EntityID) throws(MarfaError) {
    var ahead: EntityID?
    for var write in try table.all("item = ? AND edge IS NULL AND \(WriteQueue.counts)", item) {
      if !write.sent, write.isWaiting, write.follows != ahead, let ahead {
        write.follows = ahead
        try table.update(write)
      }
      ahead = write.id
    }
  }
}

extension JSON {
  /// The body with an end that was named by the minted id named by the landed one.
  fileprivate func renaming(_ minted: EntityID, to landed: EntityID) -> JSON {
    guard var object else { return self }
    for member: Text in ["source_id", "target_id"] where object[member]?.text == minted.text {
      object[member] = .string(landed.text)
    }
    if let edges = object["edges"]?.object {
      object["edges"] = .object(
        JSONObject(
          edges.members.map { type, targets in
            (type, .array((targets.array ?? []).map { $0.text == minted.text ? .string(landed.text) : $0 }))
          }))
    }
    return .object(object)
  }
}
