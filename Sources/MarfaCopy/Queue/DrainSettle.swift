import MarfaBase

/// Settling: what an answer makes of its write and of the writes behind it, in one transaction (chapters 9, 10, 13).
extension Drain {
  /// Takes answers that came together, in their order: those the store alone settles share a commit, so that a page many
  /// of them touch is written once. Each is whole or not at all in it, as one that comes alone.
  func take(
    _ answers: [(result: Result<HTTPResponse, TransportError>, attempt: Attempt)], _ pool: any RequestPool
  ) throws(MarfaError) {
    var together: [(write: QueuedWrite, outcome: Outcome)] = []
    for (result, attempt) in answers {
      guard let outcome = try judge(result, of: attempt, pool) else { continue }
      if outcome.needsServer(for: attempt.write) {
        try settle(together)
        together = []
        try record(attempt.write, outcome)
      } else {
        together.append((attempt.write, outcome))
      }
    }
    try settle(together)
  }

  private func settle(_ together: [(write: QueuedWrite, outcome: Outcome)]) throws(MarfaError) {
    guard together.count > 1 else {
      if let (write, outcome) = together.first { try record(write, outcome) }
      return
    }
    // The lists are cut back rather than copied: they grow with the queue.
    var before = report
    before.verdicts = []
    let told = (verdicts: report.verdicts.count, reads: toRead.count)
    do throws(MarfaError) {
      try store.transaction {
        for (write, outcome) in together {
          try record(write, outcome)
          // A full disk takes the whole transaction back with it.
          if !store.database.isInTransaction {
            throw failure ?? MarfaError(.store, "the store took a transaction back")
          }
        }
      }
    } catch {
      // Nothing of it was recorded.
      before.verdicts = Array(report.verdicts.prefix(told.verdicts))
      report = before
      toRead.removeLast(toRead.count - told.reads)
      guard error.code == .store else {
        failure = failure ?? error
        return
      }
      for (write, _) in together { try settle(write, .counted) }
    }
  }

  /// Reads an answer, or the want of one; nil where there is nothing to settle.
  private func judge(
    _ result: Result<HTTPResponse, TransportError>, of attempt: Attempt, _ pool: any RequestPool
  ) throws(MarfaError) -> Outcome? {
    let write = attempt.write
    var outcome: Outcome
    switch result {
    case .success(let response):
      // The wait is the server's, or something's in front of it: with or without a contract (Q17.7).
      if let wait = copy.server.retryAfter(response.header("Retry-After")) { report.takeWait(wait) }
      if response.status == 429 { report.isRateLimited = true }
      rateLeft = response.header("X-RateLimit-Remaining").flatMap { Int($0) }
      if rateLeft != nil, let reset = response.header("X-RateLimit-Reset").flatMap({ Int64($0) }) {
        rateWait = Int(max(1, min(300, reset - queue.context.clock.now.milliseconds / 1000)))
      }
      outcome = Outcome.read(
        response, to: write, contract: ServerConnection.contract, origin: copy.server.origin)
      if case .credentialRefused = outcome, !attempt.isSecond {
        switch renewed(attempt) {
        case .success(let credential?):
          try sendAgain(attempt, credential: credential, pool)
          return nil
        case .success(nil): break
        case .failure(let error) where error.code == .unauthorized: break
        case .failure(let error):
          takeLimit(error)
          outcome = error.isEnvironmental ? .environmental(error.message) : .ends(error)
        }
      }
    case .failure(let failure):
      // A stop leaves what is out unanswered, under its key (H12).
      guard let read = Outcome.read(failure, origin: copy.server.origin) else { return nil }
      outcome = read
      if case .local(let error) = failure, write.kind == .uploadBlob {
        leaveUnopened(write, error)
        return nil
      }
    }
    return outcome
  }

  /// Settles a write by what its answer came to.
  private func record(_ write: QueuedWrite, _ outcome: Outcome) throws(MarfaError) {
    do throws(MarfaError) { try settle(write, outcome) } catch {
      // A store that is full leaves the write as it is; another failure of it counts (Q61.2, Q19.4).
      guard error.code == .store else {
        failure = failure ?? error
        return
      }
      // A failure after the answer was recorded leaves the verdict as it is (Q9.6).
      guard (try? table.entry(write.id))?.verdict == nil else {
        failure = failure ?? error
        return
      }
      try settle(write, .counted)
    }
  }

  /// Another credential than the one refused, where there is one (Q58).
  private func renewed(_ attempt: Attempt) -> Result<String?, MarfaError> {
    do throws(MarfaError) {
      let current = try copy.server.currentCredential()
      if current != attempt.credential { return .success(current) }
      return .success(try copy.server.renew(attempt.credential))
    } catch { return .failure(error) }
  }

  private func leaveUnopened(_ write: QueuedWrite, _ error: FileError) {
    var left = write
    left.reason = Text(error.description)
    report.verdicts.append(DrainReport.Entry(left))
    report.undelivered += 1
    counted.insert(write.seq)
  }

  private func settle(_ write: QueuedWrite, _ outcome: Outcome) throws(MarfaError) {
    counted.insert(write.seq)
    switch outcome {
    case .success(let verdict, let answer, let replayed): try accept(write, verdict, answer, replayed)
    case .refused(_, let answer?) where try isBodyDuplicate(write, answer): try leave(write)
    case .refused(let code, let answer):
      try decide(write, .refused, code, answer, owes: true) { _ in }
    case .landed(let code, let answer, let row):
      try decide(write, .refused, code, answer, owes: true) { $0.landedID = row }
      try readLanding(write.id)
    case .blocked(let reason, let answer):
      try decide(write, .blocked, Text(reason.rawValue), answer, owes: false) { _ in }
    case .unclaimed(let source, let answer):
      if !report.unclaimedSources.contains(source) { report.unclaimedSources.append(source) }
      try decide(write, .blocked, Text(BlockedReason.credentialRefused.rawValue), answer, owes: false) { _ in }
      try blockCreates(of: source)
    case .credentialRefused(let answer):
      isStopped = true
      try decide(write, .blocked, Text(BlockedReason.credentialRefused.rawValue), answer, owes: false) { _ in }
    case .counted:
      report.answered += 1
      try count(write)
    case .environmental(let why):
      unavailable = unavailable ?? why
      report.undelivered += 1
      report.verdicts.append(DrainReport.Entry(write))
    case .ends(let error): failure = failure ?? error
    }
  }

  // MARK: Successes

  private func accept(
    _ write: QueuedWrite, _ verdict: WriteVerdict, _ answer: JSON, _ replayed: Bool
  ) throws(MarfaError) {
    let resolution = answer["conflict_resolution"]
    let fields = (resolution?["fields"]?.array ?? []).compactMap(\.text)
    let answeredID = answer["item"]?["id"]?.text.flatMap { EntityID($0) }
    let lands = write.kind == .createItem && answeredID != write.itemID
    try decide(write, verdict, nil, answer, owes: write.kind != .uploadBlob, replayed: replayed, fields: fields) {
      settled in
      settled.conflictedCopyID = resolution?["conflicted_copy_id"]?.text.flatMap { EntityID($0) }
      if lands { settled.landedID = answeredID }
    }
    if verdict == .conflicted, write.kind == .updateItem { try loseBody(of: write, fields) }
    if movesView(write) { movedView = true }
    if lands { try readLanding(write.id) }
  }

  // MARK: Edges of bodies

  /// Whether a body's edge was refused because the edge exists (D93.1, Q67.2).
  private func isBodyDuplicate(_ write: QueuedWrite, _ answer: JSON) throws(MarfaError) -> Bool {
    guard write.kind == .createEdge, answer["error"]?["details"]?["constraint"]?.text == "duplicate" else {
      return false
    }
    return try copy.bodies.made(write.id)
  }

  /// Takes a write out of the queue: what it asked for is there, and comes by the event log.
  private func leave(_ write: QueuedWrite) throws(MarfaError) {
    try store.transaction {
      try table.remove(write)
      try queue.reproject(write)
    }
    report.answered += 1
    wake(write.id)
  }

  /// A body that lost takes the edge writes made from it out of the queue unsent (D94.1, Q67.1).
  private func loseBody(of write: QueuedWrite, _ fields: [Text]) throws(MarfaError) {
    guard let item = write.itemID else { return }
    let catalog = try store.catalog()
    let row = try store.item(item)
    let field = catalog.bodyField(of: write.body?["type"]?.text ?? row?.type ?? "")
    guard write.bodyProperties?[field] != nil, fields.isEmpty || fields.contains(field) else { return }
    let taken = try store.transaction { try copy.bodies.lost(write.id, of: item) }
    for lost in taken {
      counted.insert(lost.seq)
      wake(lost.id)
    }
  }

  /// Whether an accepted write changed what the copy may read.
  private func movesView(_ write: QueuedWrite) -> Bool {
    switch write.kind {
    case .updateItem: write.body?["type"] != nil
    case .updateEdge: write.body?["source_id"] != nil
    case .createItem, .deleteItem, .restoreItem, .transitionItem, .createEdge, .deleteEdge, .replaceMetadata,
      .mergeMetadata, .addTag, .removeTag, .writeExtension, .deleteExtension, .uploadBlob:
      false
    }
  }

  // MARK: One transaction

  /// Gives a sent write its verdict, moves the writes behind it, and shows the row anew.
  private func decide(
    _ sent: QueuedWrite, _ verdict: WriteVerdict, _ reason: Text?, _ answer: JSON?, owes: Bool, replayed: Bool = false,
    fields: [Text] = [], _ more: (inout QueuedWrite) -> Void
  ) throws(MarfaError) {
    var entry: DrainReport.Entry?
    var settled = sent
    try store.transaction {
      // As the store has it now: an earlier answer may have moved it onto another row.
      settled = try asStored(sent)
      settled.sent = true
      settled.verdict = verdict
      settled.reason = reason
      settled.set(answer: answer)
      settled.answeredAt = queue.context.clock.now
      settled.owesRead = owes && settled.kind != .uploadBlob
      more(&settled)
      try table.settle(settled)
      let moved = try moveFollowers(of: settled, answer)
      let made = DrainReport.Entry(settled, replayed: replayed, mergedFields: fields)
      entry = made
      try observer?.settled(settled, made)
      // A write taken stays laid over its row until the row is read (Q12.4): it shows as before.
      if moved || !verdict.isSuccess || !settled.owesRead || settled.landedID != nil || settled.itemID != sent.itemID {
        try queue.reproject(settled)
      }
    }
    report.answered += 1
    if let entry { report.verdicts.append(entry) }
    if settled.owesRead, settled.landedID == nil { toRead.append(settled.head) }
    wake(settled.id)
  }

  /// A write that came back as the store has it now. What it asked for stands as it went out, unless it is of another row by
  /// now.
  private func asStored(_ sent: QueuedWrite) throws(MarfaError) -> QueuedWrite {
    guard var now = try table.head(sent.id) else { return sent }
    guard now.sent, now.itemID == sent.itemID, now.edgeID == sent.edgeID, now.targetID == sent.targetID else {
      return try table.entry(sent.id) ?? sent
    }
    now.takeContent(of: sent)
    return now
  }

  /// Moves later unsent edits and deletes of the same row or edge (chapter 13).
  /// - Returns: whether any was.
  @discardableResult
  func moveFollowers(of settled: QueuedWrite, _ answer: JSON?) throws(MarfaError) -> Bool {
    let outcome: Rebase.Ahead.Outcome
    switch settled.verdict {
    case .accepted, .merged, .conflicted:
      guard let answer, let row = Rebase.Ahead.Row(answer: answer), let verdict = settled.verdict else {
        return false
      }
      outcome = .success(verdict, row, repeated: answer["acknowledged"]?.bool == true)
    case .blocked where settled.blockedReason == .credentialRefused || settled.blockedReason == .awaitingDependency:
      return false
    case .refused, .dead, .blocked: outcome = .unlanded
    case nil: return false
    }
    if sabotage.breaks(.followersNotMoved) { return false }
    var isMoved = false
    for later in try followers(of: settled) {
      let moved = Rebase.after(.init(write: settled, outcome: outcome), later)
      if moved.bodyText != later.bodyText || moved.baseVersion != later.baseVersion || moved.query != later.query
        || moved.readRecord != later.readRecord
      {
        try table.update(moved)
        isMoved = true
      }
    }
    return isMoved
  }

  private func followers(of write: QueuedWrite) throws(MarfaError) -> [QueuedWrite] {
    let later = "seq > ? AND sent = 0 AND \(WriteQueue.waits)"
    if write.kind.isEdgeWrite { return try table.all("edge = ? AND \(later)", write.edgeID, write.seq) }
    return try table.all("item = ? AND edge IS NULL AND \(later)", write.itemID, write.seq)
  }

  // MARK: Counted failures

  /// Counts one refusal; the fifth makes the write dead (Q25).
  private func count(_ sent: QueuedWrite) throws(MarfaError) {
    var counted = sent
    var died = false
    try store.transaction {
      counted = try table.entry(sent.id) ?? sent
      counted.refusals = min(5, counted.refusals + 1)
      died = counted.refusals == 5
      if died {
        counted.verdict = .dead
        counted.reason = nil
        counted.answeredAt = queue.context.clock.now
      }
      try table.update(counted)
      if died {
        try moveFollowers(of: counted, nil)
        try observer?.settled(counted, DrainReport.Entry(counted))
      }
    }
    report.verdicts.append(DrainReport.Entry(counted))
    if died { wake(counted.id) }
  }

  /// A request that can't be made (Q19.2).
  func countUnmade(_ write: QueuedWrite) throws(MarfaError) {
    counted.insert(write.seq)
    report.unmade += 1
    try count(write)
  }

  // MARK: Verdicts without a request

  /// Refuses a write unsent (Q16.1, Q52.4, Q37.3). Its row is read again like any refused write's.
  func refuseUnsent(_ write: QueuedWrite, _ reason: Text) throws(MarfaError) {
    counted.insert(write.seq)
    var refused = write
    refused.sent = false
    refused.verdict = .refused
    refused.reason = reason
    refused.answeredAt = queue.context.clock.now
    try store.transaction {
      try table.update(refused)
      try moveFollowers(of: refused, nil)
      try observer?.settled(refused, DrainReport.Entry(refused))
      // What it showed goes: nothing of it ever reached the server.
      try queue.reproject(refused)
      if refused.kind == .createItem, let id = refused.itemID { try queue.unpinRefusedCreate(id) }
    }
    report.unsent += 1
    report.verdicts.append(DrainReport.Entry(refused))
    wake(refused.id)
  }

  /// Every other unanswered create of an unclaimed source is blocked with the one refused (Q40.2).
  private func blockCreates(of source: Text) throws(MarfaError) {
    let creates = try table.all(
      "kind = 'create_item' AND verdict IS NULL AND sent = 0 AND json_extract(body, '$.source') = ?", source)
    for create in creates {
      var blocked = create
      blocked.verdict = .blocked
      blocked.reason = Text(BlockedReason.credentialRefused.rawValue)
      try store.transaction {
        try table.update(blocked)
        try observer?.settled(blocked, DrainReport.Entry(blocked))
      }
      counted.insert(create.seq)
      report.unsent += 1
      report.verdicts.append(DrainReport.Entry(blocked))
    }
  }
}

extension Outcome {
  /// Whether settling it asks the server something: a create that landed on another row than its own (Q38, Q39).
  fileprivate func needsServer(for write: QueuedWrite) -> Bool {
    switch self {
    case .landed: true
    case .success(_, let answer, _):
      write.kind == .createItem && answer["item"]?["id"]?.text.flatMap { EntityID($0) } != write.itemID
    case .refused, .blocked, .unclaimed, .credentialRefused, .counted, .environmental, .ends: false
    }
  }
}
