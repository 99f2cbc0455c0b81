import MarfaBase
import MarfaCopy

/// A landing a pull has decided on, not yet begun.
struct PlannedLanding {
  enum Count { case written, rewritten, moved, revived }

  var wish: LandingWish
  var binding: Binding
  var count: Count
  var isBeside: Bool
  /// The file of ours that goes once this one landed, and the bytes it must hold.
  var leaves: (path: PathBytes, hash: ContentHash)?
  /// Bytes beside the store to take away once the file holds them (F37.4).
  var blob: ContentHash?
}

/// Bringing one item's file in line.
extension PullPass {
  func bring(_ item: EntityID, isLast: Bool = false) throws {
    try folder.checkStop()
    let row = try folder.copy.item(item)
    let membership = try membership(of: item, row)
    var binding = bindings[item]
    guard let row else { return }
    let file: PullSituation.File = binding.map(fileNow) ?? .unbound
    let form = binding?.form ?? form(of: row)
    let shows = Showed(row, bodyField: facts.bodyField(of: row.type), names: facts.names, form: form)
    if folder.context.sabotage.breaks(.nothingDecided) { return }
    let action = decidePull(
      PullSituation(
        membership: membership, file: file, isHeld: binding.map(isLeft) ?? false,
        awaitsCreate: try folder.awaitsCreate(item), changedSinceAgreed: binding?.expected.map { $0 != shows } ?? true,
        changedSinceMissed: binding.map { $0.missingSince != nil && $0.missed != shows } ?? false,
        owesLines: binding?.linesOwed ?? false,
        isSetBack: (binding?.agreed).map { row.version < $0 } ?? false))
    if let binding, binding.unmatched != (membership == .leftOtherwise), !plansOnly {
      try folder.commit { try folder.store.change(item) { $0.unmatched = membership == .leftOtherwise } }
      bindings[item]?.unmatched = membership == .leftOtherwise
    }
    if membership == .held, binding?.broughtByHand ?? false, !plansOnly {
      try folder.commit { try folder.store.change(item) { $0.broughtByHand = false } }
      bindings[item]?.broughtByHand = false
    }
    // What is landed below starts from the binding as it is now.
    binding = bindings[item]
    if membership == .leftOtherwise, file.isOnDisk, let binding, unmatched.insert(item).inserted {
      report.unmatchedFiles.append(binding.path.description)
    }
    switch action {
    case .none, .remove, .keep: if membership == .held, file.isOnDisk { report.unchanged += 1 }
    case .outside:
      // What lies on a volume that is not there is told once, by the scan (P2.1).
      if let binding, case .unmounted = walked.reach(of: binding.path, seen: binding.identity) { return }
      report.outside += 1
      report.flagged.append(
        FlaggedFile(
          binding?.path ?? .empty, .outside, "the folder's lists, or its directory, keep it from here", item: item))
    case .unwritten(let reason): tell(binding?.path ?? .empty, .unwritten, reason, item)
    case .leaveHeld: leaveHeld(binding)
    case .setAside:
      if !plansOnly {
        try folder.commit {
          try folder.store.change(item) {
            $0.setAside = row.version; $0.agreed = row.version
          }
        }
      }
    case .write:
      if try isElsewhere(row, form, nil) { return }
      if !plansOnly, let place = places[item], try takeIn(row, form, at: place) { return }
      try writeNew(row, form, isLast: isLast)
    case .revive:
      // Renamed while the scan walked, it stands here under a name no binding has: the next scan follows it (P1.4).
      if case .missing = file, let binding, try stands(elsewhere: binding) { return }
      if try isElsewhere(row, form, binding) { return }
      var over: (path: PathBytes, hash: ContentHash)?
      if case .emptied = file, let held = binding, let reading = readings[item] {
        over = (held.path, reading.hash)
        binding?.hold = nil
      }
      try writeNew(row, form, isLast: isLast, reviving: binding, over: over)
    case .bringCurrent, .keepCurrentUnmatched:
      if action == .keepCurrentUnmatched, let binding, try letGo(binding, file) { return }
      guard let binding, let reading = readings[item] else { return }
      if form == .bytes { try bringBytes(row, binding, reading) } else { try bringDocument(row, binding, reading) }
    }
  }

  private func form(of row: Item) -> FileForm {
    if facts.isFileItem(row.type) { return .bytes }
    return places[row.id].flatMap { FileForm(documentName: $0.path) } ?? .markdown
  }

  private func leaveHeld(_ binding: Binding?) {
    guard let binding else { return }
    if let hold = binding.hold, hold.flag != .behind {
      report.flagged.append(FlaggedFile(binding.path, hold.flag, hold.reason))
    }
    for refusal in binding.refusals where refusal.change != .local {
      report.flagged.append(FlaggedFile(binding.path, .refused, refusal.reason))
    }
  }

  // MARK: New files

  func writeBack(_ row: Item, _ binding: Binding) throws {
    try writeNew(row, binding.form, isLast: true, reviving: binding)
  }

  /// - Parameter over: the file that stands in for a revived one, without its bytes: it is written over, or goes once the
  ///   new one has landed elsewhere. Nil where nothing does.
  private func writeNew(
    _ row: Item, _ form: FileForm, isLast: Bool, reviving: Binding? = nil,
    over: (path: PathBytes, hash: ContentHash)? = nil
  ) throws {
    guard let place = places[row.id] else { return }
    if plansOnly {
      plan.write += 1
      if place.isBeside || disk.standing(at: place.path) != nil { plan.beside += 1 }
      return
    }
    var binding = reviving ?? Binding(item: row.id, path: place.path, form: form)
    binding.path = place.path
    binding.missingSince = nil
    binding.movedAway = MovedAway()
    let content: LandingContent
    var blob: ContentHash?
    switch form {
    case .bytes:
      guard let wanted = row.properties["blob_ref"]?.text.flatMap({ ContentHash($0) }) else {
        return tell(place.path, .absent, "the item names no bytes", row.id)
      }
      if let standing = disk.standing(at: place.path), standing != over?.path {
        return try adopt(row, binding, standing, wanted, form, isLast: isLast)
      }
      guard let bytes = try fetch(wanted, row.id, place.path) else { return }
      content = .blob(wanted, bytes)
      blob = wanted
    case .markdown, .text:
      edgesRead = nil
      // What is asked of the copy for one file is one read transaction, which costs its locks once.
      let made = try folder.copy.reading {
        let made = try render(row, form, existing: nil)
        if form == .markdown, case .success(let bytes) = made {
          try show(edgesOf: row, bytes, in: &binding, before: reviving)
        }
        return made
      }
      switch made {
      case .failure(let failure): return tell(place.path, .unwritten, failure.reason, row.id)
      case .success(let bytes):
        if let standing = disk.standing(at: place.path), standing != over?.path {
          return try adopt(row, binding, standing, ContentHash(of: bytes), form, isLast: isLast)
        }
        content = .bytes(bytes)
      }
    }
    agree(&binding, row, form)
    // A conflicted copy of this folder's own text: nobody has read its links yet.
    if form != .bytes, owedCopies.contains(row.id) { binding.edgesOwed = true }
    let runs = form == .bytes ? row.properties["executable"]?.bool ?? false : false
    try add(
      PlannedLanding(
        wish: LandingWish(
          path: place.path, content: content,
          expected: over.map { $0.path == place.path ? .bytes($0.hash) : .absent } ?? .absent,
          executable: form == .bytes && (try folder.keepsPermissions(in: root)) ? runs : nil),
        binding: binding, count: reviving == nil ? .written : .revived, isBeside: place.isBeside,
        leaves: over.flatMap { $0.path == place.path ? nil : $0 }, blob: blob))
  }

  /// A file stands where a new one is wanted: the item's own where it holds what the item renders to (F32.2), else the
  /// person's, never written over (F32.1). One of ours that moves away in this pull is waited for (F19.16).
  private func adopt(
    _ row: Item, _ start: Binding, _ standing: PathBytes, _ hash: ContentHash, _ form: FileForm, isLast: Bool
  ) throws {
    let owner = bindings.values.first { $0.path == standing && $0.missingSince == nil }
    if let owner, owner.item != row.id, !isLast, let place = places[owner.item], place.path != owner.path {
      waits.append(row.id)
      return
    }
    if owner == nil, case .read(let reading) = folder.read(standing, in: root, keeping: false), reading.hash == hash {
      var binding = start
      binding.path = standing
      binding.readHash = hash
      binding.writtenHash = hash
      binding.identity = reading.identity(rootDevice: rootDevice)
      binding.seen = SeenStat(reading.status, readAt: folder.now)
      agree(&binding, row, form)
      let taken = binding
      try folder.commit { try folder.store.save(taken) }
      bindings[row.id] = taken
      report.unchanged += 1
      return
    }
    tell(standing, .unwritten, "a file the folder did not write is there", row.id)
  }

  /// What the folder and the item both show from here on.
  func agree(_ binding: inout Binding, _ row: Item, _ form: FileForm) {
    let shows = Showed(row, bodyField: facts.bodyField(of: row.type), names: facts.names, form: form)
    binding.rememberAgreement(before: row.version)
    binding.showed = shows
    if form == .bytes { binding.showed?.executable = row.properties["executable"]?.bool ?? false }
    if form == .markdown {
      let lines = OwnLines(row)
      if binding.agreed != row.version {
        binding.movedAway = MovedAway()
      } else if let before = binding.ownLines {
        // Another machine moved these while the file stands at this line (F7.17).
        for tag in before.tags.symmetricDifference(lines.tags) {
          binding.movedAway.tags[tag, default: []].insert(before.tags.contains(tag))
        }
        if before.state != lines.state { binding.movedAway.states.insert(before.state) }
      }
      binding.ownLines = lines
    }
    binding.agreed = row.version
    binding.line = form == .bytes ? nil : row.version
    binding.linesOwed = false
    binding.filled = JSONObject()
    binding.setAside = nil
    if binding.hold?.flag == .behind { binding.hold = nil }
  }

  // MARK: Files in place

  private func bringDocument(_ row: Item, _ binding: Binding, _ reading: FileReading) throws {
    guard let bytes = reading.bytes, !plansOnly, let path = try free(row, binding) else { return }
    let place = places[row.id]
    let waiting = try folder.store.writes(of: row.id).contains { $0.role == .edit }
    edgesRead = nil
    if try asksForTheBin(row.id, binding) {
      return tell(
        binding.path, .unwritten,
        "a line of it names an item that went to the bin; it is written once that is answered",
        row.id)
    }
    let rendered: [UInt8]
    switch try render(row, binding.form, existing: bytes, binding: binding) {
    case .failure(let failure): return tell(binding.path, .unwritten, failure.reason, row.id)
    case .success(let bytes): rendered = bytes
    }
    let moves = path != binding.path
    var differs = rendered != bytes
    if differs, binding.form == .markdown {
      let carries = linesAlone(row, bytes)
      if carries == true, !(binding.linesOwed && !waiting) {
        // A change no file carries leaves the file alone: a write wakes every editor holding it (F24.2).
        differs = false
      } else if carries != nil || showsOwnAlone(row, binding, reading), !moves, linesWait(reading, at: binding.path) {
        report.unchanged += 1
        return
      }
    }
    guard differs || moves else {
      if place.map({ $0.path == path }) ?? true { report.unchanged += 1 }
      return try note(row, binding, reading, waiting: waiting)
    }
    var next = binding
    next.path = path
    agree(&next, row, binding.form)
    try show(edgesOf: row, rendered, in: &next, before: binding)
    if waiting {
      // A line written over the file's own waiting edit is spent once that lands; over another's write, at once (F23.10,
      // F23.12).
      let own = binding.spent.last { $0.write != nil }?.write
      next.spent.append(SpentLine(line: row.version, write: own, whenLanded: own != nil))
    }
    try add(
      PlannedLanding(
        wish: LandingWish(
          path: path, content: .bytes(differs ? rendered : bytes), expected: moves ? .absent : .bytes(reading.hash)),
        binding: next, count: moves ? .moved : .rewritten,
        isBeside: place.map { $0.isBeside && $0.path == path } ?? false,
        leaves: moves ? (binding.path, reading.hash) : nil))
  }

  /// Whether a line of the file, whose edge is on its way, names an item that another device trashed meanwhile: the file
  /// stays as typed for the answer (F11.19, F11.30).
  private func asksForTheBin(_ item: EntityID, _ binding: Binding) throws -> Bool {
    try folder.store.writes(of: item).contains { mine in
      guard mine.role == .edge, let write = try folder.copy.queue.write(mine.id),
        write.verdict == nil || write.verdict == .blocked, let other = write.otherEnd(than: item),
        binding.edges.contains(where: { $0.edge == write.edgeID && $0.place == .line })
      else { return false }
      return try folder.copy.item(other)?.isTrashed ?? false
    }
  }

  /// Where a file goes in this pull: its place, or where it is while another file has that. What has it is told, and the
  /// file is brought current all the same. Nil where the other file of ours is about to move on: it comes again (F19.16).
  private func free(_ row: Item, _ binding: Binding) throws -> PathBytes? {
    let path = places[row.id]?.path ?? binding.path
    guard path != binding.path, let standing = disk.standing(at: path), standing != binding.path else { return path }
    let owner = bindings.values.first { $0.path == standing && $0.missingSince == nil }
    guard let owner else {
      tell(binding.path, .unwritten, "a file the folder did not write is at \(path)", row.id)
      return binding.path
    }
    let moves = places[owner.item].map { $0.path != owner.path } ?? false
    if moves, unfinished.insert(row.id).inserted { return nil }
    tell(
      binding.path, .unwritten,
      moves
        ? "the file that is at \(path) waits for another to move away itself" : "another item's file is at \(path)",
      row.id)
    return binding.path
  }

  private func directory(of path: PathBytes) -> (any Directory)? {
    path.parent.isEmpty ? root : try? root.directory(beneath: path.parent)
  }

  /// Records that a file in place shows its item: its bytes are the item's own from now on (F-B2, F35).
  private func note(_ row: Item, _ binding: Binding, _ reading: FileReading, waiting: Bool) throws {
    guard !waiting else { return }
    var next = binding
    next.writtenHash = reading.hash
    next.readHash = reading.hash
    next.rememberAgreement(before: row.version)
    next.agreed = row.version
    if binding.form == .text { next.line = row.version }
    next.linesOwed = false
    next.filled = JSONObject()
    next.showed = Showed(row, bodyField: facts.bodyField(of: row.type), names: facts.names, form: binding.form)
    if binding.form == .bytes { next.showed?.executable = binding.showed?.executable }
    if binding.form == .markdown, next.ownLines != nil { next.ownLines = OwnLines(row) }
    if next.hold?.flag == .behind { next.hold = nil }
    guard next != binding else { return }
    let saved = next
    try folder.commit { try folder.store.save(saved) }
    bindings[row.id] = saved
  }

  // MARK: Bytes (F37, F50)

  private func bringBytes(_ row: Item, _ binding: Binding, _ reading: FileReading) throws {
    guard let wanted = row.properties["blob_ref"]?.text.flatMap({ ContentHash($0) }), !plansOnly else { return }
    guard let path = try free(row, binding) else { return }
    let place = places[row.id]
    let moves = path != binding.path
    let keeps = try folder.keepsPermissions(in: root)
    let runs = row.properties["executable"]?.bool ?? false
    let waiting = try folder.store.writes(of: row.id).contains { $0.role == .edit || $0.role == .upload }
    guard moves || reading.hash != wanted else {
      if place.map({ $0.path == path }) ?? true { report.unchanged += 1 }
      var known = binding
      if keeps, let agreed = binding.showed?.executable, runs != agreed, reading.status.isExecutable == agreed,
        let now = landing.setExecutable(path, runs, seen: reading.status)
      {
        known.showed?.executable = runs
        known.seen = SeenStat(now, readAt: folder.now)
        let saved = known
        try folder.commit {
          try folder.store.change(row.id) { ($0.showed, $0.seen) = (saved.showed, saved.seen) }
        }
      }
      try note(row, known, reading, waiting: waiting)
      if !waiting, try !folder.isUploading(wanted) { folder.copy.blobs.remove(wanted) }
      return
    }
    let content: LandingContent
    if reading.hash == wanted {
      let directory = binding.path.parent.isEmpty ? root : try root.directory(beneath: binding.path.parent)
      content = .blob(wanted, try directory.open(binding.path.name))
    } else {
      guard let bytes = try fetch(wanted, row.id, binding.path) else { return }
      content = .blob(wanted, bytes)
    }
    var next = binding
    next.path = path
    agree(&next, row, .bytes)
    try add(
      PlannedLanding(
        wish: LandingWish(
          path: path, content: content, expected: moves ? .absent : .bytes(reading.hash), executable: keeps ? runs : nil
        ),
        binding: next, count: moves ? .moved : .rewritten, isBeside: place?.isBeside ?? false,
        leaves: moves ? (binding.path, reading.hash) : nil, blob: wanted))
  }

  /// The bytes of a hash; nil where they cannot be had now, which is told (F37.2). A refused credential, a redirect and
  /// another contract end the pull (F37.3).
  private func fetch(_ hash: ContentHash, _ item: EntityID, _ path: PathBytes) throws -> (any ReadableFile)? {
    do throws(MarfaError) { return try folder.copy.bytes(hash) } catch {
      switch error.code {
      case .unauthorized, .signedOut, .redirect, .contractMismatch, .canceled: throw error
      default:
        tell(path, .absent, "its bytes cannot be had now: \(error.message)", item)
        return nil
      }
    }
  }
}

extension PullSituation.File {
  /// Whether a file stands on the disk for it.
  var isOnDisk: Bool {
    switch self {
    case .unbound, .missing, .unreached: false
    case .unreadable, .own, .asScanned, .emptied, .changed: true
    }
  }
}

extension FolderEngine {
  /// Whether an item's own create is not answered yet: until it is, its file stays as the person wrote it (F13.6).
  func awaitsCreate(_ item: EntityID) throws -> Bool {
    try store.writes(of: item).contains { $0.role == .create }
  }
}
