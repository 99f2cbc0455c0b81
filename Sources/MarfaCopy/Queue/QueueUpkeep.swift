import MarfaBase

/// Releasing, withdrawing, discarding and clearing (chapter 16).
extension WriteQueue {
  // MARK: Release

  /// Takes a blocked or dead write, or one refused unsent, back to be sent under a fresh key, and with it every write
  /// refused unsent because of it (Q27). Returns how many were released; 0 for any other write.
  /// - Throws: `not_found` for an id not in the queue.
  @discardableResult
  package func release(_ id: EntityID) throws(MarfaError) -> Int {
    try queueing {
      guard let write = try table.entry(id) else { throw MarfaError(.notFound, "the queue holds no write \(id)") }
      guard isReleasable(write) else { return 0 }
      return try release(write)
    }
  }

  /// Releases every write blocked for a reason; never a dead one (Q27.4).
  @discardableResult
  package func release(reason: BlockedReason) throws(MarfaError) -> Int {
    try queueing {
      var count = 0
      for write in try table.all("verdict = 'blocked' AND reason = ?", reason.rawValue) { count += try release(write) }
      return count
    }
  }

  private func isReleasable(_ write: QueuedWrite) -> Bool {
    switch write.verdict {
    case .blocked, .dead: true
    case .refused: !write.sent && !write.withdrawn
    case .accepted, .merged, .conflicted, nil: false
    }
  }

  private func release(_ write: QueuedWrite) throws(MarfaError) -> Int {
    var released = write
    released.spentKeys.append(write.idempotencyKey)
    released.idempotencyKey = context.ids.next().text
    released.refusals = 0
    released.sent = false
    released.verdict = nil
    released.reason = nil
    released.answer = nil
    released.answeredAt = nil
    try table.update(released)
    try reproject(released)
    try pinAgain(released)
    var count = 1
    for dependant in try table.all(
      "verdict = 'refused' AND sent = 0 AND withdrawn = 0 AND instr(depends_on, ?) > 0", write.id)
    where dependant.dependsOn.contains(write.id) {
      count += try release(dependant)
    }
    return count
  }

  // MARK: Withdraw

  /// Takes out a write blocked `ancestor_unavailable`, `conflict_unresolved` or `instance_changed`, once the server's row
  /// was read, which is then held (Q46). Returns whether it went.
  /// - Throws: `not_found` for an unknown id; the failure of the read, and then nothing changed.
  @discardableResult
  package func withdraw(
    _ id: EntityID, settling: () throws(MarfaError) -> Void = {}
  ) throws(MarfaError) -> Bool {
    try copy.requireWriter()
    guard let write = try table.entry(id) else { throw MarfaError(.notFound, "the queue holds no write \(id)") }
    switch write.blockedReason {
    case .ancestorUnavailable, .conflictUnresolved, .instanceChanged: break
    case .credentialRefused, .keySpent, .awaitingDependency, nil: return false
    }
    if write.kind.isEdgeWrite {
      if let edge = write.edgeID { _ = try copy.freshRead(edge: edge) }
    } else if write.kind != .uploadBlob, let item = write.itemID {
      _ = try copy.freshRead(item: item)
    }
    return try queueing {
      // As it stands now: the read may have taken its time.
      guard let write = try table.entry(id), write.verdict == .blocked else { return false }
      try table.remove(write)
      try refuseWaiting(for: write, because: write.kind)
      try reproject(write)
      try settling()
      return true
    }
  }

  /// Refuses unsent what waits for a withdrawn write, and in turn what waits for that; none is ever released (Q46.6).
  private func refuseWaiting(for gone: QueuedWrite, because kind: WriteKind) throws(MarfaError) {
    let waiting = try table.all(
      "sent = 0 AND (verdict IS NULL OR verdict = 'blocked') AND instr(depends_on, ?) > 0", gone.id)
    for write in waiting where write.dependsOn.contains(gone.id) {
      var refused = write
      refused.verdict = .refused
      refused.reason = Readiness.withdrawnReason(kind)
      refused.withdrawn = true
      refused.answeredAt = context.clock.now
      try table.update(refused)
      try reproject(refused)
      try refuseWaiting(for: refused, because: kind)
    }
  }

  // MARK: Take back

  /// Takes out writes that no server has seen, the newest first, with what they laid over the rows. One that another write
  /// waits for stays. Answers those left.
  package func takeBackUnsent(_ ids: Set<EntityID>) throws(MarfaError) -> Set<EntityID> {
    try queueing {
      var left = ids
      let entries = try table.all().sorted { $0.seq > $1.seq }
      var waiting: [EntityID: Int] = [:]
      for id in entries.flatMap(\.dependsOn) { waiting[id, default: 0] += 1 }
      for write in entries where ids.contains(write.id) {
        guard !write.sent, write.verdict == nil || write.verdict == .blocked, waiting[write.id, default: 0] == 0 else {
          continue
        }
        try table.remove(write)
        try reproject(write)
        for id in write.dependsOn { waiting[id, default: 0] -= 1 }
        left.remove(write.id)
      }
      return left
    }
  }

  // MARK: Supersede

  /// Takes a dead edit out, once a later edit of the row landed that says anew all it said: left, it would show its older
  /// words over the newer ones for as long as it stands (Q35.3). Returns whether it went.
  @discardableResult
  package func supersede(_ id: EntityID, by later: EntityID) throws(MarfaError) -> Bool {
    try queueing {
      guard let dead = try table.entry(id), dead.verdict == .dead, dead.kind == .updateItem,
        let landed = try table.entry(later), landed.kind == .updateItem, landed.itemID == dead.itemID,
        landed.verdict == .accepted || landed.verdict == .merged, landed.seq > dead.seq,
        let said = dead.body?.object, let anew = landed.body?.object
      else { return false }
      let row = try dead.itemID.flatMap { (id) throws(MarfaError) in try store.serverItem(id) }
      let names = anew["properties"]?.object
      let isWhole = anew["properties_mode"] != nil
      // Said anew, or the row's own already.
      let isCovered = (said["properties"]?.object?.members ?? []).allSatisfy { member in
        isWhole || names?[member.key] != nil || row?.properties[member.key] == member.value
      }
      guard isCovered,
        ["type", "tier", "occurred_at"].allSatisfy({ (key: Text) in said[key] == nil || anew[key] != nil }),
        try table.all("sent = 0 AND instr(depends_on, ?) > 0", id).isEmpty
      else { return false }
      try table.remove(dead)
      try reproject(dead)
      return true
    }
  }

  // MARK: Discard and forget

  /// Takes a refused write out, content included; changes nothing in the copy (Q47.7). Returns whether it went.
  @discardableResult
  package func discard(_ id: EntityID) throws(MarfaError) -> Bool {
    try queueing {
      guard let write = try table.entry(id), write.verdict == .refused, !write.owesRead, write.landedID == nil else {
        return false
      }
      let waiting = try table.all(
        "sent = 0 AND (verdict IS NULL OR verdict = 'blocked') AND instr(depends_on, ?) > 0", id)
      guard !waiting.contains(where: { $0.dependsOn.contains(id) }) else { return false }
      try table.remove(write)
      return true
    }
  }

  /// Takes answered writes out that nothing waits for, refused ones that carried content kept (Q47). Returns how many went.
  /// - Parameter ids: these alone, so that an answer recorded after the caller's last read stays (Q47.6).
  @discardableResult
  package func forget(_ ids: Set<EntityID>? = nil) throws(MarfaError) -> Int {
    try queueing {
      let entries = try table.all()
      let present = Set(entries.map(\.id))
      var needed: Set<EntityID> = []
      var awaited: Set<EntityID> = []
      for entry in entries {
        let refusedUnsent = entry.isRefusedUnsent && !entry.withdrawn
        if entry.isWaiting || refusedUnsent { needed.formUnion(entry.dependsOn) }
        if entry.isWaiting { awaited.formUnion(entry.dependsOn) }
      }
      var count = 0
      for entry in entries where ids?.contains(entry.id) ?? true {
        guard mayForget(entry, present: present, needed: needed, awaited: awaited) else { continue }
        try table.remove(entry)
        count += 1
      }
      return count
    }
  }

  private func mayForget(
    _ entry: QueuedWrite, present: Set<EntityID>, needed: Set<EntityID>, awaited: Set<EntityID>
  ) -> Bool {
    if entry.owesRead || entry.landedID != nil { return false }
    switch entry.verdict {
    case .accepted, .merged, .conflicted: return !needed.contains(entry.id)
    case .refused:
      if entry.kind.carriesContent { return false }
      if entry.sent { return !needed.contains(entry.id) }
      // A leftover of a withdraw: what it waited for is gone (Q47.5).
      return entry.dependsOn.contains { !present.contains($0) } && !awaited.contains(entry.id)
    case .blocked, .dead, nil: return false
    }
  }

  // MARK: Another instance

  /// Blocks every waiting write `instance_changed`: the copy was filled from another instance, and the person decides what
  /// becomes of writes meant for the old one (Q60.3, QD1). Called inside the transaction that takes the old rows away.
  package func instanceChanged() throws(MarfaError) {
    try store.read {
      try store.database.run(
        "UPDATE queue SET verdict = 'blocked', reason = 'instance_changed', answer = NULL WHERE verdict IS NULL OR verdict IN ('blocked', 'dead')"
      )
      try store.database.run("UPDATE queue SET owed_read = 0 WHERE owed_read = 1 AND landed IS NULL")
    }
  }
}
