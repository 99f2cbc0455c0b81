import MarfaBase
import MarfaCopy

extension FolderEngine {
  /// Brings the directory in line with the copy; scans nothing (C15).
  /// - Parameter isWatch: a watch's: lines alone wait until their file has been still for a while (P1.3).
  package func pull(isWatch: Bool = false) throws -> FolderPull {
    if try store.firstSyncWaits { throw Self.firstSyncWaiting(root) }
    if let reason = rootGone() {
      var report = FolderPull()
      report.rootGone = reason
      return report
    }
    let root = try openRoot()
    try settleLandings(in: root)
    var before = FolderPull()
    var counted: Set<EntityID> = []
    // A copy that changes under a pull makes it read again and start over, three attempts in all (F81).
    for _ in 1...3 {
      let facts = try facts()
      try requireAnswers(facts)
      let pass = try PullPass(self, facts, root: root, isWatch: isWatch)
      pass.counted = counted
      do {
        pass.stamp = try copyStamp()
        var report = try pass.run()
        report.add(before)
        report.flagged += savedBeside
        savedBeside = []
        report.settings = try writeSettings(in: root)
        try pinBound()
        return report
      } catch {
        // What was taken away before it broke off is done: left as a step to settle, it would take the same bytes away again
        // that a person puts back. Where even this fails, the next pass looks again.
        try? pass.settleRemovals()
        guard error is LocalCopyChanged else { throw error }
        before.add(pass.report)
        counted = pass.counted
      }
    }
    throw MarfaError(
      .streamIncomplete,
      "local_copy_changed: what the server holds kept changing while files were written; the next pull goes on",
      reason: "local_copy_changed")
  }

  /// What moves when another connection changes the copy (F80, F81).
  func copyStamp() throws -> Int { try store.database.one("PRAGMA data_version") { $0.int(0) } ?? 0 }

  /// Every bound file's row stays current, whatever the search says later, and the pin goes with the binding (F35.6). A row in the slice is followed anyway,
  /// so its pin needs no request; one outside is read with it.
  private func pinBound() throws {
    let pinned = Set(try copy.pins(owner: Pin.file))
    let bindings = try store.bindings()
    for item in pinned.subtracting(bindings.map(\.item)) { try copy.unpin(item, owner: Pin.file) }
    let missing = bindings.lazy.map(\.item).filter { !pinned.contains($0) }
    var rest = Array(missing)[...]
    while !rest.isEmpty {
      try checkStop()
      try commit {
        for item in rest.prefix(256) where try copy.holdsServerItem(item) {
          try copy.pinHeld(item, owner: Pin.file)
        }
      }
      rest = rest.dropFirst(256)
    }
  }

  /// Reads what the first sync would do (F54.3): fills the copy where it does not answer and the server can be had, scans,
  /// counts. A plan of nothing confirms itself (F54.7).
  package func readPlan() throws -> FirstSyncReading {
    do {
      do {
        _ = try fillWhereNeeded()
        _ = try catchUp()
        try store.set(.unheard, nil)
        // What notes embed is written with them, whatever the search holds (F12.26): the plan counts it.
        try pinOtherEnds()
      } catch let error as MarfaError where error.isEnvironmental {
        // The copy that is held answers, where there is one (F54.4).
        if try !copy.answers(try facts().slice) { throw error }
      }
      try forgetPlan()
      let scanned = try scan(asksServer: true)
      if let reason = scanned.rootGone { throw MarfaError(.invalid, reason) }
      let root = try openRoot()
      let pass = try PullPass(self, try facts(), root: root, plansOnly: true)
      _ = try pass.run()
      let sends = Set(try store.writes().filter { $0.role != .placement && $0.role != .end }.map(\.item)).count
      let plan = FolderPlan(write: pass.plan.write, send: sends, beside: pass.plan.beside)
      if plan.isEmpty {
        try confirmFirstSync()
        return FirstSyncReading(waiting: false)
      }
      try store.set(.plan, Text(bytes: plan.json.write()))
      return FirstSyncReading(waiting: true, plan: plan)
    } catch {
      // A directory that cannot be read is no plan either: the folder stands all the same (C7.7).
      let error = MarfaError(any: error)
      if error.code == .canceled || error.exit == 5 { throw error }
      return FirstSyncReading(waiting: true, unread: error.message)
    }
  }

  /// Takes back what reading a plan queued and bound: each reading, and what follows the confirmation, goes by the directory
  /// as it then stands (F54.8). What was taken out of a file meanwhile is never sent.
  private func forgetPlan() throws {
    try commit {
      let planned = Set(try store.writes().map(\.id))
      let left = try copy.queue.takeBackUnsent(planned)
      for write in planned.subtracting(left) { try store.unlink(write) }
      let bound = Set(try store.writes().map(\.item))
      for binding in try store.bindings() where !bound.contains(binding.item) { try store.unbind(binding.item) }
    }
  }

  /// Lets the first sync go (F54.6). Answers whether it waited.
  @discardableResult
  package func confirmFirstSync() throws -> Bool {
    guard try store.firstSyncWaits else { return false }
    try commit {
      try forgetPlan()
      try store.set(.firstSync, "confirmed")
      try store.set(.plan, nil)
    }
    return true
  }
}

/// The copy changed since this attempt of a pull read it (F81).
struct LocalCopyChanged: Error {}

extension FolderPull {
  /// Sums what earlier attempts of one pull did (F87.1).
  mutating func add(_ earlier: FolderPull) {
    written += earlier.written
    rewritten += earlier.rewritten
    moved += earlier.moved
    revived += earlier.revived
    placed += earlier.placed
    taken += earlier.taken
    letGo += earlier.letGo
    ended += earlier.ended
    removed += earlier.removed
    purged += earlier.purged
  }
}
