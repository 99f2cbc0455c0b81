import MarfaBase
import MarfaCopy

/// What a pull does with the other folders of this machine: taking in what one let go, letting go what one holds, leaving
/// alone what lies in one (F43.3, F44).
extension PullPass {
  /// The other folders of this machine.
  func others() throws -> OtherFolders {
    if let lookedInto { return lookedInto }
    let others = try OtherFolders(folder)
    lookedInto = others
    return others
  }

  /// Whether the file of an item lies in another folder that has not bound it yet, so that none is written here (F43.3).
  func isElsewhere(_ row: Item, _ form: FileForm, _ binding: Binding?) throws -> Bool {
    guard try !others().isEmpty else { return false }
    if movedFiles == nil { movedFiles = try folder.store.movedFiles() }
    let moved = movedFiles?[row.id] ?? binding.flatMap { $0.carriesNoID ? MovedFile($0) : nil }
    if try others().isElsewhere(row.id, form: binding?.form ?? form, moved: moved) {
      report.elsewhere += 1
      return true
    }
    if movedFiles?.removeValue(forKey: row.id) != nil, !plansOnly {
      try folder.store.setMovedFiles(movedFiles ?? [:])
    }
    return false
  }

  // MARK: Taking in (F44.2, F44.4 to F44.7)

  /// Moves the file another folder has let go to its place here. False where there is none to take, so that a file of this
  /// folder's own is written.
  func takeIn(_ row: Item, _ form: FileForm, at place: Place) throws -> Bool {
    guard try !others().isEmpty, disk.standing(at: place.path) == nil, let source = try others().letGo(row.id),
      source.binding.form == form
    else { return false }
    if try copyChanged() { throw LocalCopyChanged() }
    var binding = source.binding.carriedOver(to: place.path)
    binding.readHash = source.hash
    binding.writtenHash = source.hash
    let target: PathBytes
    do throws(LandingFailure) { target = try landing.spelled(place.path) } catch {
      failed(error, place.path, row.id)
      return true
    }
    binding.path = target
    let recorded = binding
    try folder.commit { try folder.store.record(LandingRecord(path: target, hash: source.hash, binding: recorded)) }
    let taken: TakenIn
    do throws(LandingFailure) {
      taken = try landing.takeIn(
        TakeInWish(source: source.other.root, path: source.binding.path, hash: source.hash, target: target))
    } catch {
      try folder.store.forgetLanding(at: target)
      // Edited there since: it stays for that folder to send, and this one writes its own (F44.3).
      if error.kind == .changed, try folder.look(target, in: root) == nil { return false }
      failed(error, target, row.id)
      return true
    }
    try? landing.syncDirectories()
    binding.identity =
      folder.identityLasts ? taken.status.identity.map { StoredIdentity($0, rootDevice: rootDevice) } : nil
    binding.seen = SeenStat(taken.status, readAt: folder.now)
    let landed = binding
    try folder.commit {
      try folder.store.save(landed)
      try folder.store.forgetLanding(at: target)
    }
    bindings[row.id] = landed
    found[target] = taken.status
    disk.came(target)
    if counted.insert(row.id).inserted { report.taken += 1 }
    if place.isBeside { report.beside += 1 }
    if landed.agreed != row.version { brought.append(row.id) }
    return true
  }

  private func failed(_ failure: LandingFailure, _ path: PathBytes, _ item: EntityID) {
    switch failure.kind {
    case .outside: tell(path, .outside, failure.reason, item)
    case .storageFull:
      isFull = true
      tell(path, .unwritten, failure.reason, item)
    case .changed, .refused, .rootGone: tell(path, .unwritten, failure.reason, item)
    }
  }

  // MARK: Letting go (F44.2, F44.7, F44.8)

  /// Takes away the file of an item that another folder holds and has its own file of. True where the file is dealt with:
  /// gone, or retained since it cannot be removed.
  func letGo(_ binding: Binding, _ file: PullSituation.File) throws -> Bool {
    guard case .own = file, !plansOnly, binding.isFreeToGo, try !others().isEmpty,
      try folder.store.writes(of: binding.item).allSatisfy({ $0.role == .end }),
      let status = found[binding.path],
      binding.identity == status.identity.map({ StoredIdentity($0, rootDevice: rootDevice) }),
      try others().holder(of: binding.item) != nil, let hash = readings[binding.item]?.hash
    else { return false }
    switch try remove(binding, hash, ends: true) {
    case .removed(let ended):
      report.letGo += 1
      let path = binding.path.description
      report.unmatchedFiles.removeAll { $0.utf8.elementsEqual(path.utf8) }
      if ended { report.ended += 1 }
      return true
    case .stays(let failure):
      // A save at the last look is the person's, and stays (F44.1).
      guard failure.kind != .changed else { return true }
      report.unwritten += 1
      report.flagged.append(
        FlaggedFile(
          binding.path, .retained, "another folder holds it and has its own file; this one \(failure.reason)",
          item: binding.item))
      return true
    }
  }
}
