import MarfaBase
import MarfaCopy

/// Draining a folder's queue, and what each answer asks for after it: placements that give way, edges made anew, edits sent
/// again on another base.
extension FolderEngine {
  /// What became of the placements of a drain: those that give way, and those held back for a grant, whose writes leave
  /// the queue and whose key is read at once, so that a grant given back later is told from this one (F19.23).
  private func followUp(_ settlement: Settlement, _ report: inout FolderDrain) throws {
    for edit in settlement.landedEdits { try supersedeDead(by: edit.write, of: edit.item) }
    for entry in settlement.giveWay where try giveWay(entry.edge, entry.item) { report.gaveWay += 1 }
    report.gaveWay += try giveWayWhereBlocked()
    try dropFreshTwins()
    if !settlement.heldBack.isEmpty {
      try commit { for edge in settlement.heldBack { _ = try copy.queue.giveWay(edge: edge) } }
    }
    guard try store.refusedPlacements().contains(where: { $0.key == nil }) else { return }
    if key == nil { key = memory.map { $0.key(readKey) } ?? readKey() }
    try nameKeyOfRefusals()
  }

  /// Lets go of dead edits of a file that its later, landed edit says anew; their lines stay spent (F9.10, F23.9).
  private func supersedeDead(by write: EntityID, of item: EntityID) throws {
    for mine in try store.writes(of: item) where mine.role == .edit && mine.id != write {
      try commit {
        guard try copy.queue.supersede(mine.id, by: write) else { return }
        try store.unlink(mine.id)
        try store.change(item) { binding in
          for place in binding.spent.indices where binding.spent[place].write == mine.id {
            binding.spent[place].write = nil
          }
          binding.foldSpent()
        }
      }
    }
  }

  /// Whether bytes wait to go: nobody is asked about the network for the sake of a few lines of text.
  private func hasUploads() throws -> Bool {
    let sql = "SELECT EXISTS (SELECT 1 FROM queue WHERE verdict IS NULL AND kind = 'upload_blob')"
    return try copy.database.one(sql) { $0.bool(0) } ?? false
  }

  /// One drain, the folder's records settled with it; what it learned is followed up: placements given way, edges made
  /// anew, edits rebased (F19.11, F11.29, F23.14).
  package func drain() throws -> FolderDrain {
    if try store.firstSyncWaits { throw Self.firstSyncWaiting(root) }
    copy.uploadLimit = try hasUploads() && spares() ? 1 << 20 : nil
    var report = FolderDrain()
    let settlement = Settlement(self)
    try settleAnswered(settlement)
    report.drain = try drained(settlement)
    report.conflicts = settlement.conflicts
    report.refusedDefaults = settlement.refusedDefaults
    try followUp(settlement, &report)
    for entry in settlement.overtaken { try decideAnew(entry.write, entry.edge, entry.item) }
    try takeBackCollided()
    // The first blocked edit of each row goes again, the next one after it is answered; one blocked again waits for
    // another pass (F23.14, F23.15).
    var givenUp: Set<EntityID> = []
    let deletedAgain = try judgeDeletes()
    var drainsAgain = try remakeEdges(settlement) || deletedAgain
    // A copy that ended by what was sent takes no more before the push has filled it again.
    while report.drain.unavailable == nil, report.drain.stopped == nil, try copy.hydration() == .complete {
      let resent = try rebase(but: givenUp)
      guard drainsAgain || !resent.isEmpty else { break }
      drainsAgain = false
      report.rebased += resent.count
      let again = Settlement(self)
      report.drain.add(try drained(again))
      report.conflicts += again.conflicts
      report.refusedDefaults += again.refusedDefaults
      try followUp(again, &report)
      if try remakeEdges(again) { drainsAgain = true }
      for (item, write) in resent where try copy.queue.write(write)?.verdict?.isSuccess != true { givenUp.insert(item) }
    }
    try settleTakenOut()
    return report
  }

  /// Forgets edge writes that left the queue with the body they were made from, which another device's had won over, or
  /// because the edge stands already (Q67.1, Q67.2): what the file then says is for the next scan.
  private func settleTakenOut() throws {
    for mine in try store.writes() where mine.role == .edge {
      guard try copy.queue.write(mine.id) == nil else { continue }
      try commit {
        try store.unlink(mine.id)
        if let edge = EntityID(mine.detail) { try decideAgain(edge, of: mine.item) }
      }
    }
  }

  /// Has the next scan decide an edge of a file anew: as the copy holds it, whatever a write of this folder was to make of it.
  func decideAgain(_ edge: EntityID, of item: EntityID) throws {
    let there = try copy.edge(edge)
    try store.change(item) { binding in
      binding.edgesOwed = true
      guard let there else {
        binding.edges.removeAll { $0.edge == edge }
        return
      }
      if binding.edges.contains(where: { $0.edge == edge }) || binding.form == .bytes { return }
      let place: ShownEdge.Place = there.type == PassFacts.references ? .link : .embed
      binding.edges.append(ShownEdge(edge: edge, type: there.type, other: there.other(than: item), place: place))
    }
  }

  /// A drain that ended the copy, by a write that moved its read view or by a read that found the log aged past it, has
  /// sent all the same: the push fills it again before its pull (F9.4, F11.26, F40.3).
  private func drained(_ settlement: Settlement) throws -> DrainReport {
    do throws(MarfaError) { return try copy.queue.drain(observer: settlement) } catch {
      guard Self.isFilledAgain(error) else { throw error }
      return settlement.report
    }
  }

  /// Settles what a plain drain of the store was answered, which told the folder nothing (F11.31).
  private func settleAnswered(_ settlement: Settlement) throws {
    try settleTakenOut()
    for mine in try store.writesAnswered() {
      guard let write = try copy.queue.write(mine.id), let verdict = write.verdict else { continue }
      switch verdict {
      case .accepted, .merged, .conflicted, .refused:
        try commit { try settlement.settled(write, DrainReport.Entry(write)) }
      case .blocked, .dead: break
      }
    }
  }

  /// Settles, before a scan, the edits of files a plain drain of the store was answered whole: nothing of theirs waits any
  /// more, so a file saved since is current (F7.12). What a refusal or a collision asks for is the next drain's (F11.31).
  func settleLanded() throws {
    let settlement = Settlement(self)
    for mine in try store.writesAnswered() {
      switch mine.role {
      case .create, .edit, .tag, .untag, .state: break
      case .upload, .edge, .placement, .end, .delete, .restore: continue
      }
      guard let write = try copy.queue.write(mine.id) else { continue }
      switch write.verdict {
      case .accepted, .merged: try commit { try settlement.settled(write, DrainReport.Entry(write)) }
      case .conflicted where mine.role == .edit:
        try store.change(mine.item) { binding in
          binding.linesOwed = true
          binding.standsOn = write.baseVersion
        }
      case .conflicted, .refused, .blocked, .dead, nil: break
      }
    }
    for edit in settlement.landedEdits { try supersedeDead(by: edit.write, of: edit.item) }
  }

  /// Takes the server's placement of an item for this folder's own (F57).
  private func giveWay(_ edge: EntityID, _ item: EntityID) throws -> Bool {
    try commit {
      _ = try copy.queue.giveWay(edge: edge)
      for write in try store.writes(of: item) where write.role == .placement { try store.unlink(write.id) }
      try store.forgetRefusedPlacement(of: item)
    }
    do throws(MarfaError) {
      _ = try copy.freshRead(edge: edge)
      // The one that stands there instead is of another id: the item's edges are read with it.
      _ = try copy.pin(item, owner: Pin.file)
    } catch {
      if !error.isEnvironmental && error.code != .notFound && !Self.awaitsFill(error) { throw error }
    }
    return true
  }

  /// Takes a blocked write out once the row it is of was read, with the folder's record of it and what else `settling`
  /// changes, in one commit: killed in between, a file's words would pass for sent. A row that could not be read leaves it
  /// for the next push.
  private func withdrawn(_ write: QueuedWrite, settling: () throws -> Void = {}) throws -> Bool {
    do throws(MarfaError) {
      return try copy.queue.withdraw(write.id) { () throws(MarfaError) in
        do {
          try store.unlink(write.id)
          try settling()
        } catch { throw MarfaError(any: error) }
      }
    } catch {
      if error.isEnvironmental || Self.awaitsFill(error) { return false }
      throw error
    }
  }

  /// Takes back edits that moved a row's own fields and collided (Q44.5): the server keeps nothing of them, and behind them
  /// each further save would make one more conflicted copy. The next scan decides the file anew, which is behind by then:
  /// its words go as any behind file's do, its own fields are flagged (F9.2, F7.20).
  private func takeBackCollided() throws {
    for mine in try editsInQueueOrder() {
      guard let queued = try copy.queue.write(mine.id), queued.blockedReason == .conflictUnresolved else { continue }
      _ = try withdrawn(queued) {
        try store.change(mine.item) { binding in
          binding.spent.removeAll { $0.write == mine.id }
          // As though the file had not been read: what it says was taken by nobody.
          binding.showed = nil
          binding.lastSent = nil
          binding.readHash = nil
        }
      }
    }
  }

  /// Takes back a change of an edge that another machine changed first: the next scan meets the edge as it stands.
  private func decideAnew(_ write: EntityID, _ edge: EntityID, _ item: EntityID) throws {
    guard let queued = try copy.queue.write(write) else { return }
    _ = try withdrawn(queued) {
      let there = try copy.edge(edge)
      try store.change(item) { binding in
        binding.edgesOwed = true
        if let place = binding.edges.firstIndex(where: { $0.edge == edge }) {
          if let there { binding.edges[place].other = there.other(than: item) } else { binding.edges.remove(at: place) }
        }
      }
    }
  }

  /// Makes the edges that lines name, another machine having deleted those that were to move (F11.29). Where the copy
  /// takes no write, the next scan does. Answers whether there were any.
  private func remakeEdges(_ settlement: Settlement) throws -> Bool {
    guard try copy.hydration() == .complete else { return false }
    for item in settlement.losers.sorted() {
      try commit {
        guard var binding = try store.binding(of: item) else { return }
        for lost in binding.lostEdges {
          let id = context.ids.next()
          let queued = try copy.queue.createEdge(
            EdgeDraft(
              id: id, source: lost.isSource ? item : lost.other, target: lost.isSource ? lost.other : item,
              type: lost.type, properties: lost.properties))
          try store.link(FolderWrite(id: queued.id, item: item, role: .edge, detail: id.text))
          binding.edges.append(ShownEdge(edge: id, type: lost.type, other: lost.other, place: lost.place))
        }
        binding.lostEdges = []
        try store.save(binding)
      }
    }
    return !settlement.losers.isEmpty
  }

  /// Gives way where the server answered a move of a placement that another machine had moved it first (F19.11). Answers
  /// how many.
  private func giveWayWhereBlocked() throws -> Int {
    var count = 0
    for mine in try store.writes() where mine.role == .placement {
      guard let write = try copy.queue.write(mine.id), write.blockedReason == .conflictUnresolved,
        let edge = write.edgeID
      else { continue }
      if try giveWay(edge, mine.item) { count += 1 }
    }
    return count
  }

  /// Queues edits again, as merges on the version the copy holds, whose base the server no longer holds: the first of each
  /// row (F23.14). Answers the writes they became.
  private func rebase(but givenUp: Set<EntityID>) throws -> [(item: EntityID, write: EntityID)] {
    var rows = givenUp
    var resent: [(item: EntityID, write: EntityID)] = []
    for mine in try editsInQueueOrder() where !rows.contains(mine.item) {
      guard let write = try copy.queue.write(mine.id), write.blockedReason == .ancestorUnavailable,
        let properties = write.body?["properties"]?.object
      else { continue }
      rows.insert(mine.item)
      // As the server has it now: the copy may not have heard yet of what thinned the base.
      do throws(MarfaError) { _ = try copy.freshRead(item: mine.item) } catch {
        if error.isEnvironmental || Self.awaitsFill(error) { continue }
        throw error
      }
      guard let row = try copy.serverItem(mine.item) else { continue }
      guard write.baseVersion != row.version else { continue }
      // In the place it had: the edits behind it stay behind it, also where it is blocked again (F23.15).
      let queued: EntityID? = try commit {
        let edit = ItemEdit(properties: properties, version: row.version)
        guard let queued = try copy.queue.resend(write.id, edit) else { return nil }
        try copy.bodies.moved(write.id, to: queued.id)
        try store.unlink(mine.id)
        try store.link(FolderWrite(id: queued.id, item: mine.item, role: .edit, detail: mine.detail))
        try store.change(mine.item) { binding in
          for place in binding.spent.indices where binding.spent[place].write == mine.id {
            binding.spent[place].write = queued.id
          }
        }
        return queued.id
      }
      if let queued { resent.append((mine.item, queued)) }
    }
    return resent
  }

  /// This folder's edits, those of a row in the order of the queue.
  private func editsInQueueOrder() throws -> [FolderWrite] {
    let mine = try store.writes().filter { $0.role == .edit }
    var order: [EntityID: Int] = [:]
    for item in Set(mine.map(\.item)) {
      for (place, write) in try copy.queue.waiting(item: item).enumerated() { order[write.id] = place }
    }
    return mine.sorted { (order[$0.id] ?? .max, $0.id) < (order[$1.id] ?? .max, $1.id) }
  }

  /// Deletes the server refused because the item moved on since: taken back where it changed in what its file showed, so
  /// that the pull writes it again, else sent again on its present version (F21.4, F21.5). Answers whether one was.
  private func judgeDeletes() throws -> Bool {
    var again = false
    for mine in try store.writes() where mine.role == .delete {
      guard let write = try copy.queue.write(mine.id), write.blockedReason == .conflictUnresolved, try withdrawn(write)
      else { continue }
      guard let row = try copy.item(mine.item), !row.isTrashed, let shown = try? JSON(parsing: mine.detail.bytes),
        let form = shown["form"]?.int.flatMap(FileForm.init(rawValue:)), let showed = Showed(json: shown["showed"])
      else { continue }
      let facts = try facts()
      var now = Showed(row, bodyField: facts.bodyField(of: row.type), names: facts.names, form: form)
      now.executable = showed.executable
      guard now == showed else { continue }
      try commit {
        let queued = try copy.queue.deleteItem(mine.item)
        try store.link(FolderWrite(id: queued.id, item: mine.item, role: .delete, detail: mine.detail))
      }
      again = true
    }
    return again
  }
}
