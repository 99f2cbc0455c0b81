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
  /// Default edges the server refused, told among what the scan flagged (C9.11).
  package var refusedDefaults: [FlaggedFile] = []

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
  /// - Parameter catchesUpFirst: whether what the server changed is taken before the files are looked at (H14).
  package func sync(quick: Bool = false, isWatch: Bool = false, catchesUpFirst: Bool = false) throws -> FolderPush {
    var push = FolderPush()
    if let reason = rootGone() {
      push.scan.rootGone = reason
      return push
    }
    key = nil
    begun = nil
    try rereadSettings()
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
      } else if try catchesUpFirst || store.fact(.mirrored) != nil {
        throw CatchUpFirst()
      } else {
        push.scan = try scan(quick: quick, asksServer: true, isWatch: isWatch, mayCatchUp: true)
      }
    } catch let first as CatchUpFirst {
      if first.isNamed {
        if try store.fact(.mirrored) != "named" { try store.set(.mirrored, "named") }
      } else if try !catchesUpFirst && store.fact(.mirrored) == nil {
        try store.set(.mirrored, "seen")
      }
      // Out of reach of the server the id is none, and the version unknown (F16.1, F23.4).
      var unheard: MarfaError?
      do throws(MarfaError) { push.catchUp = try catchUp() } catch {
        if !error.isMetByWaiting { throw error }
        unheard = error
      }
      // What broke the filling off is what the person is told; the next push fills first (F40.5).
      guard try holds(try facts().slice) else {
        throw unheard ?? MarfaError(.hydrationIncomplete, "the copy is not filled")
      }
      push.scan = try scan(quick: quick, asksServer: true, isWatch: isWatch)
    }
    if push.scan.rootGone != nil { return push }

    let first = try drain()
    push.drain = first
    push.scan.flagged += first.refusedDefaults
    begun = push
    do throws(MarfaError) {
      let early = push.catchUp.hydrated
      push.catchUp = try catchUp()
      push.catchUp.hydrated = push.catchUp.hydrated ?? early
    } catch {
      guard error.isMetByWaiting else { throw error }
      push.catchUp.failed = error
    }
    guard try holds(try facts().slice) else { return push }
    if push.catchUp.failed == nil { try dropTwins() }
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
      push.scan.flagged += second.refusedDefaults
      try nameCopies(&push.drain.conflicts)
    }
    if quiet == nil {
      try dropSupersededBytes()
      try keepQuiet(push, mark: mark)
    }
    return push
  }

  /// Settings no folder can follow may have been mended since: their row is read anew, since no pass that stops at them
  /// would ever hear of it (F56.1).
  private func rereadSettings() throws {
    do { _ = try facts() } catch let error as MarfaError where error.code == .invalid {
      guard try copy.hydration() == .complete else { throw error }
      do throws(MarfaError) { _ = try copy.freshRead(item: folderID) } catch let failure {
        throw failure.code == .unauthorized || failure.code == .signedOut ? failure : error
      }
      _ = try facts()
    }
  }

  /// A store that was restored catches up before its first scan, and scans nothing while it cannot (P3.2): of what it does
  /// not know it could make everything anew. Answers whether it has.
  private func hears(_ push: inout FolderPush) throws -> Bool {
    do throws(MarfaError) { push.catchUp = try catchUp() } catch {
      guard error.isMetByWaiting else { throw error }
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
      if !error.isMetByWaiting { memory?.failedToFollow = true }
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
  func nameKeyOfRefusals() throws {
    guard let key else { return }
    for var refused in try store.refusedPlacements() where refused.key == nil {
      refused.key = key.id
      refused.grant = key.grant
      try store.refuse(refused)
    }
  }

  func readKey() -> CallingKey? { (try? copy.server.currentKey()).map(CallingKey.init) }

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
        if !error.isMetByWaiting { memory?.failedToFollow = true }
        throw Self.told(error)
      }
      do { report.hydrated = try fill(try facts().slice) } catch { throw MarfaError(any: error) }
    }
    return report
  }

  /// Whether a copy ended in a way that a fill meets without a question (F40.3).
  static func isFilledAgain(_ error: MarfaError) -> Bool {
    error.code == .copyExpired && error.reason != "credential_ended" && error.reason != "instance_changed"
  }

  /// Whether a read failed because the copy ended, in a way the push fills again before its pull: what the read was for
  /// waits till then (F9.4, F11.26).
  static func awaitsFill(_ error: MarfaError) -> Bool {
    isFilledAgain(error) || error.code == .hydrationIncomplete
  }

  package static func firstSyncWaiting(_ root: PathBytes) -> MarfaError {
    MarfaError(
      .firstSyncWaiting,
      "the first sync of \(root) waits: nothing is written or sent until it is confirmed. push says what it would do, "
        + "confirm lets it go, remove takes the folder off")
  }
}

extension MarfaError {
  /// Whether a pass goes on without the server's news and asks again later (F40.5): besides what clears by itself, an event
  /// stream that was silent or broke off (EV24.1).
  package var isMetByWaiting: Bool { isEnvironmental || (code == .streamIncomplete && reason == nil) }
}
