import MarfaBase
import MarfaCopy

/// What a drain of a folder did (C19.6).
package struct FolderDrain: Sendable {
  package var drain = DrainReport()
  /// Edits sent again because the server no longer holds their base (F23.14).
  package var rebased = 0
  /// Placements withdrawn for another machine's (F19.12).
  package var gaveWay = 0
  package var conflicts: [ConflictedEdit] = []

  package var json: JSON {
    var object = drain.json.object ?? JSONObject()
    object["rebased"] = .int(rebased)
    object["gave_way"] = .int(gaveWay)
    return .object(object)
  }
}

/// How a push's catch-up went (C16.4).
package struct FolderCatchUp: Sendable {
  package var caughtUp: CatchUpReport?
  package var hydrated: HydrateReport?
  package var failed: MarfaError?

  package var json: JSON {
    if let failed { return ["failed": .string(failed.message)] }
    return ["caught_up": caughtUp?.json ?? .null, "hydrated": hydrated?.json ?? .null]
  }
}

/// What a push did, its parts in the order they ran (R5, C16.3).
package struct FolderPush: Sendable {
  package var hydrated: HydrateReport?
  package var settings = SettingsFileOutcome()
  package var scan = FolderScan()
  package var drain = FolderDrain()
  package var catchUp = FolderCatchUp()
  package var pull: FolderPull?

  package var json: JSON {
    [
      "hydrated": hydrated?.json ?? .null, "settings": settings.json, "scan": scan.json, "drain": drain.json,
      "catch_up": catchUp.json, "pull": pull?.json ?? .null,
    ]
  }
}

/// What a push answers: its report, or the plan of a first sync that waits (C16.2).
package enum PushResult: Sendable {
  case pushed(FolderPush)
  case waiting(FirstSyncReading)

  package var json: JSON {
    switch self {
    case .pushed(let push): push.json
    case .waiting(let reading): ["first_sync": reading.json]
    }
  }
}

extension FolderEngine {
  /// One push (C16.1): fill where the copy does not answer, settings edit, scan, drain, catch-up, pull, second drain.
  package func push(quick: Bool = false, isWatch: Bool = false) throws -> PushResult {
    if try store.firstSyncWaits {
      let reading = try readPlan()
      if reading.waiting { return .waiting(reading) }
    }
    return .pushed(try sync(quick: quick, isWatch: isWatch))
  }

  /// The push itself, the first sync confirmed.
  package func sync(quick: Bool = false, isWatch: Bool = false) throws -> FolderPush {
    var push = FolderPush()
    if let reason = rootGone() {
      push.scan.rootGone = reason
      return push
    }
    key = nil
    begun = nil
    push.hydrated = try fillWhereNeeded()
    try readKeyWhereRefused()
    push.settings = try sendSettings()
    // Names registered since are lines, never properties (F11.1); a server out of reach leaves what is held.
    // A copy whose view moved meanwhile (another device retyped a row) is filled again without a question (F40.3).
    do throws(MarfaError) { try copy.refreshEdgeTypes() } catch {
      if Self.isFilledAgain(error) {
        push.hydrated = try fill(try facts().slice)
      } else if !error.isEnvironmental {
        throw Self.told(error)
      }
    }
    // One written at its target is held whole from now on (F11.2).
    if let filled = try fillWhereNeeded() { push.hydrated = filled }
    try settleRow()
    if try store.fact(.unheard) != nil, try !hears(&push) { return push }
    let quiet = try Quiet.standing(store.database)
    let mark = quiet?.mark ?? context.ids.next().text
    if quiet == nil { try Quiet.begin(store.database, mark: mark) }
    do {
      if let quiet, let scan = try quietScan(quiet, quick: quick) {
        push.scan = scan
      } else {
        push.scan = try scan(quick: quick, asksServer: true, isWatch: isWatch, mayCatchUp: true)
      }
    } catch is CatchUpFirst {
      // Out of reach of the server the id is none, and the version unknown (F16.1, F23.4).
      do throws(MarfaError) { push.catchUp = try catchUp() } catch { if !error.isEnvironmental { throw error } }
      guard try holds(try facts().slice) else {
        throw MarfaError(.hydrationIncomplete, "the copy is not filled")
      }
      push.scan = try scan(quick: quick, asksServer: true, isWatch: isWatch)
    }
    if push.scan.rootGone != nil { return push }

    let first = try drain()
    push.drain = first
    begun = push
    do throws(MarfaError) {
      let early = push.catchUp.hydrated
      push.catchUp = try catchUp()
      push.catchUp.hydrated = push.catchUp.hydrated ?? early
    } catch {
      guard error.isEnvironmental else { throw error }
      push.catchUp.failed = error
    }
    guard try holds(try facts().slice) else { return push }
    let pulled: FolderPull
    if let quiet, push.isQuiet(quiet), try Quiet.isUntouched(store.database, mark: mark) {
      pulled = try quietPull(quiet)
    } else {
      if push.catchUp.failed == nil { try pinOtherEnds() }
      pulled = try pull(isWatch: isWatch)
    }
    push.pull = pulled
    push.settings = try merged(push.settings, pulled.settings)

    if isWatch { keepsSlice = true }
    try nameCopies(&push.drain.conflicts)
    let stopped = first.drain.stopped != nil || first.drain.unavailable != nil || first.drain.undelivered > 0
    if !stopped, push.catchUp.failed == nil, try copy.queue.unansweredCount() > 0 {
      let second = try drain()
      push.drain.drain.add(second.drain)
      push.drain.rebased += second.rebased
      push.drain.gaveWay += second.gaveWay
      push.drain.conflicts += second.conflicts
      try nameCopies(&push.drain.conflicts)
    }
    if quiet == nil { try keepQuiet(push, mark: mark) }
    return push
  }

  /// A store that was restored catches up before its first scan, and scans nothing while it cannot (P3.2): of what it does
  /// not know it could make everything anew. Answers whether it has.
  private func hears(_ push: inout FolderPush) throws -> Bool {
    do throws(MarfaError) { push.catchUp = try catchUp() } catch {
      guard error.isEnvironmental else { throw error }
      push.catchUp.failed = error
      let found = try store.fact(.suspect)?.string ?? ""
      push.scan.flagged = [
        FlaggedFile(RootIdentity.storePath, .restored, "\(found). Nothing is scanned before the server was asked")
      ]
      push.pull = FolderPull()
      return false
    }
    try store.set(.unheard, nil)
    return true
  }

  /// Names the files of conflicted copies, which a pull may have written since (F72.1).
  private func nameCopies(_ conflicts: inout [ConflictedEdit]) throws {
    for place in conflicts.indices {
      if let copy = conflicts[place].copy { conflicts[place].copyPath = try path(of: copy) }
    }
  }

  /// Where an item's file stands; nil where it has none here.
  func path(of item: EntityID) throws -> PathBytes? {
    try store.binding(of: item).flatMap { $0.missingSince == nil ? $0.path : nil }
  }

  private func merged(_ sent: SettingsFileOutcome, _ pulled: SettingsFileOutcome) throws -> SettingsFileOutcome {
    var outcome = sent
    outcome.written = sent.written || pulled.written
    outcome.unwritten = pulled.unwritten ?? sent.unwritten
    outcome.flagged = sent.flagged ?? pulled.flagged
    return outcome
  }

  /// Fills a copy that does not answer its slice, before anything else (F40.4). One that ended because another instance
  /// answers is refused: only `hydrate` agrees to that one (D2.11).
  package func fillWhereNeeded() throws -> HydrateReport? {
    let slice = try sliceToFill()
    if try holds(slice) { return nil }
    return try fill(slice)
  }

  /// Fills the copy and pins the settings row (F1.6).
  /// - Parameter agreed: whether a person agreed to whichever instance answers (D2.11); only `hydrate` asks that.
  package func fill(_ slice: Slice, agreed: Bool = false) throws -> HydrateReport {
    if !agreed { try requireSameInstance() }
    let report: HydrateReport
    do throws(MarfaError) { report = try copy.hydrate(slice) } catch {
      if !error.isEnvironmental { memory?.failedToFollow = true }
      throw Self.told(error)
    }
    if try !copy.pins(owner: Pin.settings).contains(folderID) { try copy.pin(folderID, owner: Pin.settings) }
    try store.forgetUnseen()
    return report
  }

  /// Refused where another instance answers at the folder's address, naming both (F40.4).
  private func requireSameInstance() throws {
    do throws(MarfaError) { try copy.confirmInstance() } catch {
      throw Self.told(error)
    }
  }

  /// A credential whose refusal ended the copy is told as refused, never as an ended copy (C16.5, F52.7); another instance
  /// at the address as that (F40.4).
  private static func told(_ error: MarfaError) -> MarfaError {
    if error.reason == "instance_changed" {
      return MarfaError(
        .instanceChanged,
        error.message + "; nothing is read or sent until that one is back, or `hydrate` agrees to this one",
        reason: error.reason)
    }
    guard error.code == .copyExpired, error.reason == "credential_ended" else { return error }
    return MarfaError(
      .unauthorized, error.message + "; what was changed here waits until then",
      server: error.server ?? .init(status: 401, code: "unauthorized"))
  }

  /// The slice of the settings in force; of a copy that never held the row, what an add left.
  private func sliceToFill() throws -> Slice { try facts().slice }

  /// The settings row is pinned, so that catch-up keeps it current (F1.6).
  private func settleRow() throws {
    guard try copy.hydration() == .complete, try !copy.pins(owner: Pin.settings).contains(folderID) else { return }
    do throws(MarfaError) { try copy.pin(folderID, owner: Pin.settings) } catch {
      if !error.isEnvironmental { throw Self.told(error) }
    }
  }

  /// While a refusal of a placement stands the key is read again at every push (F19.24).
  private func readKeyWhereRefused() throws {
    guard try !store.refusedPlacements().isEmpty else { return }
    key = memory.map { $0.key(readKey) } ?? readKey()
    try nameKeyOfRefusals()
  }

  /// A key unread when a placement was refused is, once readable, the key it was refused to (F19.24).
  private func nameKeyOfRefusals() throws {
    guard let key else { return }
    for var refused in try store.refusedPlacements() where refused.key == nil {
      refused.key = key.id
      refused.grant = key.grant
      try store.refuse(refused)
    }
  }

  /// What became of the placements of a drain: those that give way, and those held back for a grant, whose writes leave
  /// the queue and whose key is read at once, so that a grant given back later is told from this one (F19.23).
  private func followUp(_ settlement: Settlement, _ report: inout FolderDrain) throws {
    for edit in settlement.landedEdits { try supersedeDead(by: edit.write, of: edit.item) }
    for entry in settlement.giveWay where try giveWay(entry.edge, entry.item) { report.gaveWay += 1 }
    report.gaveWay += try giveWayWhereBlocked()
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

  func readKey() -> CallingKey? { (try? copy.server.currentKey()).map(CallingKey.init) }

  // MARK: Draining

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
      try followUp(again, &report)
      if try remakeEdges(again) { drainsAgain = true }
      for (item, write) in resent where try copy.queue.write(write)?.verdict?.isSuccess != true { givenUp.insert(item) }
    }
    return report
  }

  /// A drain whose last write moved the copy's read view ends the copy, and has sent all the same: the push fills it again
  /// before its pull (F9.4, F11.26).
  private func drained(_ settlement: Settlement) throws -> DrainReport {
    do throws(MarfaError) { return try copy.queue.drain(observer: settlement) } catch {
      guard error.code == .copyExpired, error.reason == "read_view_changed" else { throw error }
      return settlement.report
    }
  }

  /// Settles what a plain drain of the store was answered, which told the folder nothing (F11.31).
  private func settleAnswered(_ settlement: Settlement) throws {
    for mine in try store.writes() {
      guard let write = try copy.queue.write(mine.id), let verdict = write.verdict else { continue }
      switch verdict {
      case .accepted, .merged, .conflicted, .refused:
        try commit { try settlement.settled(write, DrainReport.Entry(write)) }
      case .blocked, .dead: break
      }
    }
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

  // MARK: Catching up

  /// Catches up from the cursor; a copy that ended under it is filled again without a question (F40.3).
  package func catchUp() throws(MarfaError) -> FolderCatchUp {
    var report = FolderCatchUp()
    do throws(MarfaError) {
      report.caughtUp = try copy.catchUp()
      let slice: Slice
      do { slice = try facts().slice } catch { throw MarfaError(any: error) }
      if try !holds(slice) {
        do { report.hydrated = try fill(slice) } catch { throw MarfaError(any: error) }
      }
    } catch {
      guard Self.isFilledAgain(error) || error.code == .hydrationIncomplete || error.code == .noCursor else {
        if !error.isEnvironmental { memory?.failedToFollow = true }
        throw Self.told(error)
      }
      do { report.hydrated = try fill(try facts().slice) } catch { throw MarfaError(any: error) }
    }
    return report
  }

  /// Whether a copy ended in a way that a fill meets without a question (F40.3).
  private static func isFilledAgain(_ error: MarfaError) -> Bool {
    error.code == .copyExpired && error.reason != "credential_ended" && error.reason != "instance_changed"
  }

  /// Whether a read failed because the copy ended, in a way the push fills again before its pull: what the read was for
  /// waits till then (F9.4, F11.26).
  private static func awaitsFill(_ error: MarfaError) -> Bool {
    isFilledAgain(error) || error.code == .hydrationIncomplete
  }

  package static func firstSyncWaiting(_ root: PathBytes) -> MarfaError {
    MarfaError(
      .firstSyncWaiting,
      "the first sync of \(root) waits: nothing is written or sent until it is confirmed. push says what it would do, "
        + "confirm lets it go, remove takes the folder off")
  }
}
