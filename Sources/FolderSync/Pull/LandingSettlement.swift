import MarfaBase
import MarfaCopy

/// Settling what a crash cut off (X15.6, F20.4): every landing recorded and not yet known to have landed, and every
/// displaced file not yet let go.
extension FolderEngine {
  func landing(in root: any Directory) -> Landing {
    Landing(root: root, files: context.files, clock: context.clock, door: context.door, sabotage: context.sabotage) {
      [identity, context] in
      identity.check(context.files)
    }
  }

  /// Runs at the start of every scan and pull.
  func settleLandings(in root: any Directory) throws {
    let records = try store.landings()
    let displaced = try store.displaced()
    guard !records.isEmpty || !displaced.isEmpty else { return }
    let landing = landing(in: root)
    // What takes a file away is forgotten once that is on the disk (X15.6).
    let removed = try records.filter { try settle($0, landing, root) }
    for file in try store.displaced() {
      if let told = try settle(file, landing) { savedBeside.append(told) }
    }
    do throws(LandingFailure) { try landing.syncDirectories() } catch { return }
    if !removed.isEmpty { try commit { for record in removed { try store.forgetLanding(at: record.path) } } }
  }

  /// Answers whether its record is to be forgotten with what was taken away.
  private func settle(_ record: LandingRecord, _ landing: Landing, _ root: any Directory) throws -> Bool {
    if let leftover = record.leftoverHash {
      if case .stays(let failure) = landing.remove(record.path, holding: leftover), failure.kind != .changed {
        return false
      }
      return true
    }
    guard let hash = record.hash else {
      // A removal: the file that still holds its own bytes goes; anything else is the person's, and stays theirs.
      switch landing.remove(
        record.path, holding: record.binding.writtenHash ?? record.binding.readHash ?? ContentHash(of: []))
      {
      case .removed, .absent: break
      case .stays:
        try commit {
          try store.save(record.binding)
          try store.forgetLanding(at: record.path)
        }
        return false
      }
      return true
    }
    let found: FileReading
    switch read(record.path, in: root, keeping: false) {
    // What cannot be read now tells nothing: the record stays, and with it the file the landing may have displaced. A link
    // or a directory is never read, and never what landed.
    case .failed where try !isForeign(record.path, in: root): return false
    case .failed, .gone:
      try settleUnlanded(record, hash, root)
      return false
    case .read(let reading):
      guard reading.hash == hash else {
        try settleUnlanded(record, hash, root)
        return false
      }
      found = reading
    }
    var binding = record.binding
    binding.identity = found.identity(rootDevice: try root.status().device)
    binding.seen = SeenStat(found.status, readAt: now)
    let landed = binding
    try commit {
      try store.save(landed)
      if let temporary = record.temporary, let replaces = record.replaces {
        try store.record(DisplacedFile(path: record.path, temporary: temporary, hash: replaces, landed: hash))
      }
    }
    if let leaves = record.leaves, let leavesHash = record.leavesHash {
      _ = try takeAwayOld(leaves, leavesHash, of: landed, landing)
    }
    return true
  }

  /// Takes away the file an item had before another landed. Changed meanwhile, it stays: a person's save (F20.11). One that
  /// cannot be taken away now is remembered, since it carries the item's id and would be read as a second note.
  /// - Returns: why it stays, where it is still ours.
  func takeAwayOld(_ path: PathBytes, _ hash: ContentHash, of binding: Binding, _ landing: Landing) throws
    -> LandingFailure?
  {
    guard case .stays(let failure) = landing.remove(path, holding: hash), failure.kind != .changed else { return nil }
    try commit { try store.record(.leftover(path, hash, of: binding)) }
    return failure
  }

  /// Files that are still to be taken away, with why they are there.
  func leftovers() throws -> [PathBytes: String] {
    Dictionary(
      try store.landings().filter { $0.leftoverHash != nil }.map { ($0.path, $0.leftoverReason) }
    ) { first, _ in first }
  }

  /// The bytes are the former ones, or absent, or a person's own: the landing did not happen, and the binding as it was
  /// before says what they are. Where it did, and its person wrote over it or took it away since, what it displaced stands
  /// under the temporary name, and may be the only copy of a save of that moment (P1.4).
  private func settleUnlanded(_ record: LandingRecord, _ hash: ContentHash, _ root: any Directory) throws {
    if let temporary = record.temporary, let replaces = record.replaces {
      let isTheirs: Bool
      switch read(temporary, in: root, keeping: false) {
      case .failed where try !isForeign(temporary, in: root): return
      case .failed: isTheirs = true
      case .gone: isTheirs = false
      case .read(let standing): isTheirs = standing.hash != hash
      }
      if isTheirs {
        return try commit {
          try store.record(DisplacedFile(path: record.path, temporary: temporary, hash: replaces, landed: hash))
          try store.forgetLanding(at: record.path)
        }
      }
    }
    try store.forgetLanding(at: record.path)
  }

  /// Whether something stands at a path that is no file: a link, a directory, a pipe.
  private func isForeign(_ path: PathBytes, in root: any Directory) throws -> Bool {
    guard let status = try? look(path, in: root) else { return false }
    return status.kind != .regular
  }

  /// Temporary files a sweep must leave: they may hold words of the person's.
  func keptTemporaries() throws -> Set<PathBytes> {
    Set(try store.displaced().map(\.temporary) + store.landings().compactMap(\.temporary))
  }

  /// Looks at a displaced file again (P1.4). Answers what to tell of it.
  func settle(_ file: DisplacedFile, _ landing: Landing) throws -> FlaggedFile? {
    let (isSettled, told) = try lookAgain(file, landing)
    if isSettled { try store.forgetDisplaced(file.temporary) }
    return told
  }

  /// The look itself: whether the record is still to go, and what to tell. A record that outlives its file is settled by the
  /// next pass, which finds the file gone; so the records of a batch may go in one commit after it.
  func lookAgain(_ file: DisplacedFile, _ landing: Landing) throws -> (isSettled: Bool, told: FlaggedFile?) {
    switch landing.settle(file) {
    case .waits: return (false, nil)
    case .gone: return (true, nil)
    case .putBack:
      // What landed is gone again: the words that stand there are an edit of what the file showed before it, and where they
      // name no version of their own they must not be read as made on the newer one.
      try commit {
        if let item = try store.bindings().first(where: { $0.path == file.path && $0.missingSince == nil })?.item {
          try store.change(item) { binding in
            guard let agreed = binding.agreed, let before = binding.earlier.keys.filter({ $0 < agreed }).max() else {
              return
            }
            binding.agreed = before
            guard binding.form == .text else { return }
            binding.line = before
            binding.setAside = before
          }
        }
        try store.forgetDisplaced(file.temporary)
      }
      return (false, nil)
    case .beside(let path):
      return (
        true,
        FlaggedFile(path, .saved, "words saved to \(file.path) while it was written are kept here; compare the two")
      )
    }
  }
}
