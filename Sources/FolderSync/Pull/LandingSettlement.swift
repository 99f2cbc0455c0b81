import MarfaBase
import MarfaCopy

/// Settling what a crash cut off (X15.6, F20.4): every landing recorded and not yet known to have landed, and every
/// displaced file not yet let go.
extension FolderEngine {
  func landing(in root: any Directory) -> Landing {
    Landing(root: root, files: context.files, clock: context.clock, door: context.door) { [identity, context] in
      identity.check(context.files)
    }
  }

  /// Runs at the start of every scan and pull.
  func settleLandings(in root: any Directory) throws {
    let records = try store.landings()
    let displaced = try store.displaced()
    guard !records.isEmpty || !displaced.isEmpty else { return }
    let landing = landing(in: root)
    for record in records { try settle(record, landing, root) }
    for file in try store.displaced() { try settle(file, landing) }
    try? landing.syncDirectories()
  }

  private func settle(_ record: LandingRecord, _ landing: Landing, _ root: any Directory) throws {
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
        return
      }
      return try store.forgetLanding(at: record.path)
    }
    guard case .read(let found) = read(record.path, in: root, keeping: false), found.hash == hash else {
      // The bytes are the former ones, or absent, or a person's own: the landing did not happen, and the binding as it
      // was before says what they are.
      return try store.forgetLanding(at: record.path)
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
      _ = landing.remove(leaves, holding: leavesHash)
    }
    try store.forgetLanding(at: record.path)
  }

  /// Looks at a displaced file again (P1.4). Answers what to tell of it.
  @discardableResult
  func settle(_ file: DisplacedFile, _ landing: Landing) throws -> FlaggedFile? {
    switch landing.settle(file) {
    case .waits: return nil
    case .gone, .putBack:
      try store.forgetDisplaced(file.temporary)
      return nil
    case .beside(let path):
      try store.forgetDisplaced(file.temporary)
      return FlaggedFile(
        path, .saved, "words saved to \(file.path) while it was written are kept here; compare the two")
    }
  }
}
