import MarfaBase
import MarfaCopy

/// Bound files that were not found: journaled, held, or settled past their grace (F21, F38, F43, F46).
extension ScanPass {
  /// How long a file may be missing before its delete is sent (F21.1).
  static let grace: Int64 = 5_000

  func decideMissing() throws {
    if folder.context.sabotage.breaks(.nothingDecided) { return }
    var missing: [Binding] = []
    for binding in bindings.values.sorted(by: { $0.path < $1.path })
    where !present.contains(binding.item) && !unmade.contains(binding.item) {
      if heldNames[binding.path] != nil { continue }
      switch walked.reach(of: binding.path, seen: binding.identity) {
      case .looked: missing.append(binding)
      case .leftOut, .unreadable: report.unreached += 1
      case .link(let link):
        report.unreached += 1
        let told = FlaggedFile(link, .unreadable, Reach.standsForLink)
        if !report.directories.contains(told) { report.directories.append(told) }
      case .unmounted where folder.context.sabotage.breaks(.vanishedMountAsDeletes): missing.append(binding)
      case .unmounted(let directory, let reason):
        report.unreached += 1
        // Said once for all that lies there (P2.1).
        let told = FlaggedFile(directory, .unmounted, reason)
        if !report.directories.contains(told) { report.directories.append(told) }
      }
    }
    missing += emptied.values.map(\.binding).sorted { $0.path < $1.path }
    report.missing = missing.count
    try noteMounts()
    try noteBackup(missing)
    let suspect = try folder.store.fact(.suspect)
    if let suspect {
      report.flagged.append(FlaggedFile(RootIdentity.storePath, .restored, suspect.string))
    }
    guard !missing.isEmpty || !older.isEmpty else {
      try folder.store.setPaused(.disk, [:])
      // Nothing waits for it: a restored store is one like any other now.
      if suspect != nil, walked.isComplete, report.unreached == 0 { try folder.store.set(.suspect, nil) }
      return
    }
    guard walked.isComplete else { return }

    let settings = facts.settings
    // What a version-control program takes away for a moment waits as it is (P2.2).
    var versions = VersionControl(root: folder.root, context: folder.context)
    let held = Set(missing.filter { versions.isAtWork(above: $0.path) }.map(\.item))
    // Of a store that is not what it was, each missing file may be one it never knew to be deleted (P3.2).
    let large =
      suspect != nil
      || isLargeRemoval(
        missing.count - held.count, ofBound: bindings.count, files: settings.removalThreshold.files,
        fraction: settings.removalThreshold.fraction) && !folder.context.sabotage.breaks(.largeRemovalNotHeld)
    for binding in missing where !held.contains(binding.item) {
      try folder.checkStop()
      // A grace that began before the machine slept or its clock was set begins again; so does one that begins in the
      // future of a clock set back (P5.1).
      guard let since = binding.missingSince, since <= folder.now,
        folder.memory?.gracesFrom.map({ since >= $0 }) ?? true
      else {
        var journaled = binding
        journaled.missingSince = folder.now
        if binding.missingSince == nil, let row = try folder.copy.item(binding.item) {
          journaled.missed = Showed(
            row, bodyField: facts.bodyField(of: row.type), names: facts.names, form: binding.form)
        }
        let saved = journaled
        try group { [folder] in try folder.store.save(saved) }
        continue
      }
      if large { continue }
      guard
        folder.now.milliseconds - since.milliseconds >= folder.context.clock.wait(milliseconds: Self.grace)
          || folder.context.sabotage.breaks(.graceSkipped)
      else { continue }
      if let file = emptied[binding.item] { try sendEmptied(file) } else { try settle(binding) }
    }
    if large {
      report.paused = missing.count - held.count + older.count
      var paused: [EntityID: Bool] = [:]
      for item in older { paused[item] = false }
      for binding in missing where !held.contains(binding.item) {
        paused[binding.item] = try folder.copy.isPurged(binding.item)
      }
      try folder.store.setPaused(.disk, paused)
    } else {
      try folder.store.setPaused(.disk, [:])
    }
    try flush()
  }

  /// Keeps what is mounted now, for the next scan to compare with (P2.1).
  private func noteMounts() throws {
    guard walked.isComplete else { return }
    var above: Set<PathBytes> = []
    for binding in bindings.values where !present.contains(binding.item) {
      var directory = binding.path.parent
      while !directory.isEmpty, above.insert(directory).inserted { directory = directory.parent }
    }
    let kept = walked.mountsToKeep { above.contains($0) }
    if try folder.store.mounts() != kept { try folder.store.setMounts(kept) }
  }

  /// Older texts that came back in one pass with files going missing: a directory put back from a backup. What is missing
  /// may be younger than the backup, so it waits (P3.2).
  private func noteBackup(_ missing: [Binding]) throws {
    let older = reverted.union(broughtBack)
    guard !older.isEmpty, missing.contains(where: { $0.missingSince == nil }), walked.isComplete,
      try folder.store.fact(.suspect) == nil
    else { return }
    let words =
      "older texts of \(older.count) files came back while \(missing.count) files went missing, as when a directory is "
      + "put back from a backup; what is missing waits for `confirm` or `restore`"
    try folder.store.set(.suspect, Text(words))
  }

  /// Settles one missing file whose grace is past.
  private func settle(_ binding: Binding) throws {
    guard let row = try folder.copy.item(binding.item) else {
      // The row is gone: nothing is left to send (F35, F38).
      report.missing -= 1
      return try group { [folder] in try folder.unbind(binding) }
    }
    if row.isTrashed {
      report.missing -= 1
      return try group { [folder] in
        try folder.endPlacement(of: binding.item)
        try folder.unbind(binding)
      }
    }
    switch try others().find(binding, facts) {
    case .moved(let sighting):
      report.movedAway += 1
      report.missing -= 1
      let holds = try folder.copy.matches(binding.item, facts.search)
      try group { [folder] in try folder.letMove(binding, to: sighting, ends: !holds) }
    case .unsure(let reason):
      report.unsure.append(UnsureFile(path: binding.path.description, reason: reason))
    case .nowhere where try wasChangedElsewhere(binding, row):
      // Its words are another device's, made after the file was missed: the delete is dropped, and outside the search no
      // file is written for it (F21.4, F21.6, F44.15).
      report.missing -= 1
      report.flagged.append(
        FlaggedFile(
          binding.path, .gone,
          "its item was changed elsewhere after the file was deleted and left the folder's search; the item stays",
          item: binding.item))
      try group { [folder] in
        try folder.endPlacement(of: binding.item)
        try folder.unbind(binding)
      }
    case .nowhere:
      report.deleted += 1
      report.missing -= 1
      report.trashed.append(binding.path.description)
      try group { [folder] in try folder.trash(binding) }
    }
  }

  /// Whether an item that left the search changed, since its file was missed, in more than what it left by: in its text,
  /// or in a property the search does not ask for (F21.4, F21.6).
  private func wasChangedElsewhere(_ binding: Binding, _ row: Item) throws -> Bool {
    guard let missed = binding.missed, try !folder.copy.matches(binding.item, facts.search) else { return false }
    let now = Showed(row, bodyField: facts.bodyField(of: row.type), names: facts.names, form: binding.form)
    if now.body != missed.body { return true }
    let filter = facts.search.filter ?? ""
    let keys = Set(now.properties.keys).union(missed.properties.keys)
    return keys.contains { key in
      now.properties[key] != missed.properties[key] && !filter.string.contains(key.string)
    }
  }

  /// A file whose row the copy no longer holds (F38, F83).
  func decideLost(_ index: Int, _ item: EntityID) throws {
    let file = files[index]
    guard let before = bindings[item] else { return try decideNew(index, requeuedFrom: nil) }
    var binding = before
    binding.missingSince = nil
    binding.identity = identity(of: file)
    let unchanged =
      before.path == file.path
      && (file.isUnread || file.isUnchanged || file.hash == nil || file.hash == before.readHash
        || file.hash == before.writtenHash)
    let isPurged = try folder.copy.isPurged(item)
    if isPurged, unchanged, before.isWhatThePullTakesAway(file.hash) {
      report.unchanged += 1
      return
    }
    if unchanged || file.settles || hold(heldBy: file) {
      report.lost += 1
      let reason = isPurged ? nil : before.refusals.last?.reason
      report.flagged.append(FlaggedFile(file.path, .lost, reason ?? lostReason(purged: isPurged)))
      guard binding != before else { return }
      let saved = binding
      return try group { [folder] in try folder.store.save(saved) }
    }
    // Changed or moved: a new item under a fresh id; the old binding goes with its queueing.
    if file.isUnread || file.isUnchanged, let kind = DocumentKind(name: file.path),
      case .read(let reading) = folder.read(file.path, in: root, keeping: true), let bytes = reading.bytes
    {
      files[index].hash = reading.hash
      files[index].reading = Document.read(bytes, kind: kind, edges: facts.vocabulary)
    }
    try decideNewInPlace(index, of: item)
  }

  private func hold(heldBy file: ScanFile) -> Bool {
    if file.failure != nil { return true }
    switch file.reading {
    case .unreadable, .encoding: return true
    case .read, nil: return false
    }
  }

  /// Ends a lost row's binding, where that path's binding is still this row's (F38.4).
  func endLost(_ item: EntityID, at path: PathBytes) throws {
    if let binding = try folder.store.binding(of: item) { try folder.unbind(binding) }
  }
}

extension Binding {
  /// Whether a file is its item's own bytes and nothing of its person's, which the pull after a purge removes: no scan
  /// before it counts that one lost (F83.1). What a pull keeps is told like any other lost file (F84.1, F38.3).
  fileprivate func isWhatThePullTakesAway(_ hash: ContentHash?) -> Bool {
    guard let hash = hash ?? readHash, isOwn(hash) || isLandedWhole(hash) else { return false }
    return refusals.isEmpty && setAside == nil && (hold == nil || hold?.flag == .behind)
  }
}

/// Why a file waits that is bound to a row no copy holds, and what sends its words (F38.2, F84.1).
func lostReason(purged: Bool) -> String {
  (purged ? "its item was purged" : "its item is no longer held here")
    + "; the file stays as it is, and once it is changed or renamed it is sent as a new item"
}

extension FolderEngine {
  /// Ends a binding, and with it what was kept for it.
  func unbind(_ binding: Binding) throws {
    try store.unbind(binding.item)
  }

  /// Ends the binding of a file that moved to another folder; where the search no longer holds its item, its placement too
  /// (F44.16). One without an id that is not bound there yet is remembered (F43.3).
  func letMove(_ binding: Binding, to sighting: Sighting, ends: Bool) throws {
    if ends { try endPlacement(of: binding.item) }
    try unbind(binding)
    guard sighting.owner == .nobody, binding.carriesNoID else { return }
    var moved = try store.movedFiles()
    moved[binding.item] = MovedFile(binding)
    try store.setMovedFiles(moved)
  }

  /// Queues the delete of a missing file's item, the end of its placement with it (F21.7, F44.16).
  func trash(_ binding: Binding) throws {
    try endPlacement(of: binding.item)
    let queued = try copy.queue.deleteItem(binding.item)
    try store.remember(trashed: binding)
    // What the file showed goes with it: only a change of that takes the delete back (F21.4, F21.5).
    var shown = members(["form": .int(binding.form.rawValue)])
    if let expected = binding.expected { shown["showed"] = expected.json }
    try store.link(
      FolderWrite(id: queued.id, item: binding.item, role: .delete, detail: Text(bytes: JSON.object(shown).write())))
    try unbind(binding)
  }
}
