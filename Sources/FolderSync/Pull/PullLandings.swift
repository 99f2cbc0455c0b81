import MarfaBase
import MarfaCopy

/// Landing in batches: one commit of what will land, the renames, one sync a directory, one commit that it landed
/// (X15.5, F20.4).
extension PullPass {
  func add(_ landing: PlannedLanding) throws {
    planned.append(landing)
    if case .bytes(let bytes) = landing.wish.content { plannedBytes += bytes.count }
    if planned.count >= Landing.batchFiles || plannedBytes >= Landing.batchBytes { try flush() }
  }

  func flush() throws {
    guard !planned.isEmpty else { return }
    let batch = planned
    planned = []
    plannedBytes = 0
    try folder.checkStop()
    try settleRemovals()
    var prepared: [(plan: PlannedLanding, file: PreparedLanding)] = []
    if isFull {
      for plan in batch { tell(plan.wish.path, .unwritten, "the disk is full", plan.binding.item) }
      return
    }
    // All of a batch are made durable together: they share the disk's commits.
    for (plan, result) in zip(batch, landing.prepare(batch.map(\.wish))) {
      do throws(LandingFailure) { prepared.append((plan, try result.get())) } catch { try failed(plan, error) }
    }
    if !folder.context.sabotage.breaks(.landingNotRecorded) {
      try folder.commit { for (plan, file) in prepared { try folder.store.record(record(plan, file)) } }
    }
    var landed: [(plan: PlannedLanding, file: LandedFile)] = []
    var changed = false
    for (plan, file) in prepared {
      // What was decided on a copy that is no longer so is not landed: the item may be gone (F80).
      if !changed { changed = try copyChanged() }
      if changed {
        landing.discard(file)
        try folder.store.forgetLanding(at: file.path)
        continue
      }
      do throws(LandingFailure) { landed.append((plan, try landing.publish(file))) } catch {
        try folder.store.forgetLanding(at: file.path)
        try failed(plan, error)
      }
    }
    do throws(LandingFailure) { try landing.syncDirectories() } catch {
      folder.context.log.write("a directory could not be synced: \(error.reason)")
    }
    try folder.commit {
      for (plan, file) in landed {
        try folder.store.save(settled(plan, file))
        if let displaced = file.displaced { try folder.store.record(displaced) }
        if plan.leaves == nil { try folder.store.forgetLanding(at: file.path) }
      }
    }
    var gone: [PathBytes] = []
    for (plan, file) in landed { if let temporary = try finish(plan, file) { gone.append(temporary) } }
    try forget(gone)
    try settleRemovals()
    if changed { throw LocalCopyChanged() }
  }

  /// Makes what was taken away durable, then forgets that it was to be: a power cut may bring a file back under its old
  /// name, and its record alone tells that it is no second note (X15.6, X16).
  func settleRemovals() throws {
    guard !removed.isEmpty else { return }
    let settled = removed
    removed = []
    do throws(LandingFailure) { try landing.syncDirectories() } catch {
      // The records stay: the next pass looks again.
      return folder.context.log.write("a directory could not be synced: \(error.reason)")
    }
    try folder.commit { for path in settled { try folder.store.forgetLanding(at: path) } }
  }

  private func record(_ plan: PlannedLanding, _ file: PreparedLanding) -> LandingRecord {
    var binding = plan.binding
    binding.path = file.path
    binding.broughtByHand = false
    binding.readHash = file.hash
    binding.writtenHash = file.hash
    let replaces: ContentHash?
    if case .bytes(let hash) = file.expected { replaces = hash } else { replaces = nil }
    return LandingRecord(
      path: file.path, hash: file.hash, binding: binding, leaves: plan.leaves?.path, leavesHash: plan.leaves?.hash,
      temporary: file.temporary, replaces: replaces)
  }

  private func settled(_ plan: PlannedLanding, _ file: LandedFile) -> Binding {
    var binding = plan.binding
    binding.path = file.path
    binding.broughtByHand = false
    binding.readHash = file.hash
    binding.writtenHash = file.hash
    binding.identity =
      folder.identityLasts ? file.status.identity.map { StoredIdentity($0, rootDevice: rootDevice) } : nil
    binding.seen = SeenStat(file.status, readAt: folder.now)
    bindings[binding.item] = binding
    return binding
  }

  private func forget(_ displaced: [PathBytes]) throws {
    if displaced.isEmpty { return }
    try folder.commit { for temporary in displaced { try folder.store.forgetDisplaced(temporary) } }
  }

  /// What follows a landing. Answers the displaced file that is gone, whose record may go.
  private func finish(_ plan: PlannedLanding, _ file: LandedFile) throws -> PathBytes? {
    if counted.insert(plan.binding.item).inserted {
      switch plan.count {
      case .written: report.written += 1
      case .rewritten: report.rewritten += 1
      case .moved: report.moved += 1
      case .revived: report.revived += 1
      }
    }
    if plan.isBeside { report.beside += 1 }
    disk.came(file.path)
    if let leaves = plan.leaves {
      if let failure = try folder.takeAwayOld(leaves.path, leaves.hash, of: settled(plan, file), landing) {
        tell(leaves.path, .unwritten, failure.reason, plan.binding.item)
      } else {
        disk.went(leaves.path)
      }
      removed.append(file.path)
    }
    if file.isUnguarded {
      report.flagged.append(
        FlaggedFile(
          file.path, .unguarded,
          "written where files cannot be exchanged: a save in that very moment would have been lost"))
    }
    var gone: PathBytes?
    if let displaced = file.displaced {
      let (isSettled, told) = try folder.lookAgain(displaced, landing)
      if let told { report.flagged.append(told) }
      if isSettled { gone = displaced.temporary }
    }
    if let blob = plan.blob, try !folder.isUploading(blob) { folder.copy.blobs.remove(blob) }
    return gone
  }

  private func failed(_ plan: PlannedLanding, _ failure: LandingFailure) throws {
    let path = plan.leaves?.path ?? plan.wish.path
    switch failure.kind {
    case .outside: tell(path, .outside, failure.reason, plan.binding.item)
    case .storageFull:
      isFull = true
      tell(path, .unwritten, failure.reason, plan.binding.item)
    case .changed, .refused: tell(path, .unwritten, failure.reason, plan.binding.item)
    case .rootGone:
      tell(path, .unwritten, failure.reason, plan.binding.item)
    }
  }
}

extension FolderEngine {
  /// Whether an upload the server has not taken names these bytes (F37.4).
  func isUploading(_ hash: ContentHash) throws -> Bool {
    try copy.queue.all().contains { $0.kind == .uploadBlob && $0.blob == hash && $0.verdict?.isSuccess != true }
  }
}
