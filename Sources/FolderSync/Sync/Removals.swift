import MarfaBase
import MarfaCopy

/// Large removals that wait: let go, or put back (F46, C10, C11).
extension FolderEngine {
  /// Confirms a first sync that waits, and nothing else; else a large removal (C10.1, C10.2). Asks the server nothing.
  package func confirm() throws -> ConfirmedRemoval {
    var report = ConfirmedRemoval()
    let root = try openRoot()
    if try confirmFirstSync() {
      report.firstSync = true
      return report
    }
    let disk = try store.paused(.disk)
    let pull = try store.paused(.pull)
    // A store that is not what it was, and of which nothing was found missing yet, stays so: there is nothing to agree to.
    guard !disk.isEmpty || !pull.isEmpty else { return report }
    let facts = try facts()
    try requireAnswers(facts)
    try settleLandings(in: root)
    let walked = try walked(root, facts)
    // A walk that was stopped did not look everywhere: what it did not meet is not missing.
    try checkStop()
    let found = Set(walked.files.map(\.path))
    let others = try OtherFolders(self, registry: try relist())
    for item in disk.keys.sorted() {
      if let binding = try store.binding(of: item), stillEmptied(binding, in: root) != nil {
        // The next scan sends it as the edit it is (P3.1).
        try store.change(item) {
          $0.hold = nil
          $0.missingSince = nil
          $0.readHash = nil
        }
        continue
      }
      if try releaseOlder(item) { continue }
      guard let binding = try store.binding(of: item), !found.contains(binding.path),
        case .looked = walked.reach(of: binding.path, seen: binding.identity)
      else { continue }
      guard try copy.item(item).map({ !$0.isTrashed }) ?? false else {
        try commit {
          if try copy.item(item) != nil { try endPlacement(of: item) }
          try unbind(binding)
        }
        continue
      }
      switch try others.find(binding, facts) {
      case .moved(let sighting):
        report.moved += 1
        let holds = try copy.matches(item, facts.search)
        try commit { try letMove(binding, to: sighting, ends: !holds) }
      case .unsure(let reason):
        report.unsure.append(UnsureFile(path: binding.path.description, reason: reason))
      case .nowhere:
        report.deleted += 1
        try commit { try trash(binding) }
      }
    }
    let pass = try PullPass(self, facts, root: root)
    report.removed = try pass.removeConfirmed(Set(pull.keys))
    try commit {
      try store.set(.suspect, nil)
      try store.setPaused(.disk, [:])
      try store.setPaused(.pull, [:])
    }
    return report
  }

  /// Cancels a large removal, with one pull (C11.1, F46.6).
  package func restore() throws -> RestoredRemoval {
    if try store.firstSyncWaits { throw Self.firstSyncWaiting(root) }
    var report = RestoredRemoval()
    let root = try openRoot()
    let facts = try facts()
    try requireAnswers(facts)
    try settleLandings(in: root)
    let disk = try store.paused(.disk)
    let paused = try store.paused(.pull)
    for item in disk.keys {
      // What is written back lands where nothing is.
      if let binding = try store.binding(of: item), let hash = stillEmptied(binding, in: root) {
        _ = landing(in: root).remove(binding.path, holding: hash)
      }
    }
    let walked = try walked(root, facts)
    try checkStop()
    let found = Set(walked.files.map(\.path))
    let pass = try PullPass(self, facts, root: root)
    try pass.prepare()
    var unwritten = 0
    for item in disk.keys.sorted() {
      guard let binding = try store.binding(of: item), !found.contains(binding.path) else { continue }
      let row = try copy.item(item)
      switch try pass.membership(of: item, row) {
      case .held where pass.embedded[item] == nil:
        if try pass.putBack(binding) { report.putBack += 1 } else { unwritten += 1 }
      case .held, .leftByState, .purged, .lost:
        // An embedded file is written anew by the pull; one whose item left by state, or is gone, is let go.
        let ends = pass.embedded[item] == nil && row != nil
        try commit {
          if ends { try endPlacement(of: item) }
          try unbind(binding)
        }
      case .leftOtherwise: break
      }
    }
    for item in disk.keys { _ = try releaseOlder(item) }
    // What was asked back and could not be written is no delete, however few they are.
    try store.set(
      .suspect,
      unwritten == 0
        ? nil
        : Text(
          "\(unwritten) of the files to be put back could not be written; what is missing waits for `confirm` or `restore`"
        ))
    for item in paused.keys.sorted() {
      guard let row = try copy.item(item) else { continue }
      let queued: QueuedWrite
      if row.isTrashed {
        queued = try commit { try copy.queue.restoreItem(item) }
      } else if let state = facts.search.states.first, !facts.search.states.contains(row.state) {
        queued = try commit { try copy.queue.transition(item, state) }
      } else {
        continue
      }
      try store.link(FolderWrite(id: queued.id, item: item, role: .restore))
      report.restored += 1
    }
    try commit {
      try store.setPaused(.disk, [:])
      try store.setPaused(.pull, [:])
    }
    report.pull = try pull()
    return report
  }
}

extension FolderEngine {
  /// Lets an older text that waited go: the next scan gives it up for the newer one (P3.2). False where it is none.
  private func releaseOlder(_ item: EntityID) throws -> Bool {
    guard let binding = try store.binding(of: item), binding.missingSince == nil, binding.hold?.flag == .removal else {
      return false
    }
    try store.change(item) { $0.hold = nil }
    return true
  }
}

extension PullPass {
  /// Reads what a single step of a pull goes by.
  func prepare() throws {
    for binding in try folder.store.bindings() { bindings[binding.item] = binding }
    held = Set(try folder.copy.items(matching: facts.search))
    try findEmbedded()
    try rank()
    report = FolderPull()
  }

  /// Takes away the files of a confirmed removal (F46.4). Answers how many went.
  func removeConfirmed(_ items: Set<EntityID>) throws -> Int {
    try prepare()
    for item in items.sorted() {
      guard let binding = bindings[item] else { continue }
      let membership = try membership(of: item, try folder.copy.item(item))
      if case .remove(let purged) = decidePull(
        PullSituation(membership: membership, file: fileNow(binding), isHeld: try holdsWords(binding)))
      {
        try takeAway(binding, purged: purged)
      }
    }
    try settleRemovals()
    return report.removed
  }

  /// Writes a missing file back from the copy; its journal entry goes (F46.6). False where it could not be written.
  func putBack(_ binding: Binding) throws -> Bool {
    var free = binding
    free.missingSince = nil
    if free.hold?.flag == .emptied { free.hold = nil }
    let before = report.written + report.revived
    places[binding.item] = Place(path: binding.path, isBeside: false)
    guard let row = try folder.copy.item(binding.item) else { return false }
    try writeBack(row, free)
    try flush()
    return report.written + report.revived > before
  }
}
