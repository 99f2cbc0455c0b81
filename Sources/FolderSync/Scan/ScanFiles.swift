import MarfaBase
import MarfaCopy

/// What each file found asks for.
extension ScanPass {
  func decideFiles() throws {
    if folder.context.sabotage.breaks(.nothingDecided) { return }
    for index in files.indices.sorted(by: { files[$0].path < files[$1].path }) {
      try folder.checkStop()
      let file = files[index]
      if let warning = file.warning, !file.isUnchanged, !file.isUnread {
        report.warnings.append(FlaggedFile(file.path, .size, warning))
      }
      if file.isSkipped {
        report.skipped += 1
        continue
      }
      if let reason = waitingFiles[index] {
        report.flagged.append(FlaggedFile(file.path, .waiting, reason))
        // What is bound at this path is not told missing while the file that stands there is not told either.
        if let held = boundPaths[file.path], liveByPath[file.path] != nil { present.insert(held) }
        continue
      }
      switch file.owner {
      case .item(let item):
        files[index].item = item
        present.insert(item)
        try decideOwned(index, item)
      case .new:
        if file.settles {
          report.settling.append(file.path.description)
        } else if let failure = file.failure {
          report.flagged.append(FlaggedFile(file.path, .unreadable, "it cannot be read: \(failure)"))
        } else {
          try decideNew(index, requeuedFrom: nil)
        }
      }
    }
  }

  func identity(of file: ScanFile) -> StoredIdentity? {
    file.status.identity.map { StoredIdentity($0, rootDevice: rootDevice) }
  }

  /// A file that is an item's: bound already, or checked out.
  private func decideOwned(_ index: Int, _ item: EntityID) throws {
    let file = files[index]
    let before = bindings[item]
    let row = try folder.copy.item(item)
    guard let row else { return try decideLost(index, item) }
    let form: FileForm
    let arrival = before == nil ? arrived[item] : nil
    if (before?.form ?? arrival?.form) == .bytes {
      form = .bytes
    } else {
      form = FileForm(documentName: file.path) ?? .bytes
    }
    var binding = before ?? arrival?.seed ?? Binding(item: item, path: file.path, form: form)
    if before == nil { binding.broughtByHand = try !folder.copy.matches(item, facts.search) }
    binding.form = form
    let moved = before.map { $0.path != file.path } ?? true
    let sameName = before?.path.nameKey == file.path.nameKey
    binding.path = file.path
    binding.missingSince = nil
    binding.identity = identity(of: file)
    if let hash = file.hash, hash != binding.readHash, hash != binding.writtenHash { binding.refusedDefaults = [] }
    for reason in binding.refusedDefaults {
      report.flagged.append(FlaggedFile(file.path, .defaultEdgeRefused, reason))
    }

    if moved, before != nil, !sameName { report.renamed += 1 }
    let places = moved && !sameName
    if row.isTrashed {
      inBin.insert(item)
      if let before, isAnother(file, than: before) { return try decideNewInPlace(index, of: item) }
      // What held it before is over where it holds what was written there: nothing of a person's would go with it.
      if let hash = file.hash, binding.isOwn(hash), let hold = binding.hold,
        hold.flag == .unreadable || binding.heldHash.map({ $0 != hash }) ?? false
      {
        binding.hold = nil
        binding.heldHash = nil
      }
      // An item in the bin takes no edit; the pull takes the file away, or keeps what the person changed (F35).
      if let hash = file.hash, !file.settles, !file.isUnread, hash != binding.readHash, hash != binding.writtenHash {
        binding.hold = Hold(
          .refused,
          "its item is in the bin, and takes no change there; restore it, or rename the file "
            + "without its marfa_id line to make a new one")
        binding.heldHash = hash
        report.flagged.append(FlaggedFile(file.path, .refused, binding.hold?.reason ?? ""))
      }
      report.unchanged += 1
      let saved = binding
      return try group { [folder] in try folder.store.save(saved) }
    }
    if let reason = PassFacts.refusal(ofPlacementAt: file.path) {
      return try holdRefused(binding, reason, places: nil)
    }
    if file.settles {
      report.settling.append(file.path.description)
      return try group { [self] in try recordUnread(binding, placing: places ? row : nil) }
    }
    if try journalEmptied(index, row, before, binding, places: places) { return }
    if let hold = hold(of: file) {
      binding.hold = hold
      if let hash = file.hash { binding.readHash = hash }
      report.flagged.append(FlaggedFile(file.path, hold.flag, hold.reason))
      return try group { [self] in try recordUnread(binding, placing: places ? row : nil) }
    }
    if file.isUnread || file.isUnchanged {
      // A look that tells as much is kept: to write it anew would change every binding at every reading pass.
      if file.isUnchanged, binding.seen?.leavesUnread(file.status) != true {
        binding.seen = SeenStat(file.status, readAt: folder.now)
      }
      if !moved || sameName { report.unchanged += 1 }
      guard binding != before else { return }
      return try group { [self] in try record(binding, placing: places ? row : nil) }
    }
    if form == .bytes { return try decideBytes(index, row, binding, places: places) }
    guard let document = file.document else { return }
    try decideDocument(index, document, row, binding, isNewHere: before == nil && arrival?.seed == nil, places: places)
  }

  /// Whether a file at a bound path is no longer the one written there: another file by its identity, and without the id
  /// line that one carried. Its words are nobody's yet, so an item in the bin does not keep them from being sent.
  private func isAnother(_ file: ScanFile, than binding: Binding) -> Bool {
    guard binding.form == .markdown, !file.settles, let document = file.document, document.id.id == nil else {
      return false
    }
    guard let was = binding.identity, let now = identity(of: file) else { return false }
    return was != now
  }

  /// Takes a file that was another item's by its path alone for a new one; the old binding goes with its queueing.
  func decideNewInPlace(_ index: Int, of item: EntityID) throws {
    present.remove(item)
    unmade.insert(item)
    files[index].owner = .new
    files[index].item = nil
    try decideNew(index, requeuedFrom: item)
  }

  /// What holds a file before anything of it is compared.
  private func hold(of file: ScanFile) -> Hold? {
    if let failure = file.failure { return Hold(.unreadable, "it cannot be read: \(failure)") }
    switch file.reading {
    case .unreadable(let held): return Hold(.unreadable, held.reason)
    case .encoding(let reason): return Hold(.encoding, reason)
    case .read, nil: return nil
    }
  }

  /// Saves a binding, and queues the placement of a file that moved or was checked out (F19.8, F19.9). A file checked out
  /// has its row pinned with it: what it says may take the item out of the search before any pull (F35.6).
  func record(_ binding: Binding, placing row: Item?) throws {
    if let row {
      try folder.place(row.id, at: binding.path)
      try folder.copy.pinHeld(row.id, owner: Pin.file)
    }
    try folder.store.save(binding)
  }

  // MARK: A bound or checked-out document

  func decideDocument(
    _ index: Int, _ document: Document, _ row: Item, _ start: Binding, isNewHere: Bool, places: Bool
  ) throws {
    var binding = start
    let file = files[index]
    var fields = FileFields(document, agreed: start.agreed)
    if folder.context.sabotage.breaks(.versionLineIgnored) { fields.line = row.version }
    if let line = fields.line, let was = start.line, line < was, let seen = start.seen,
      file.status.modified < seen.modified
    {
      broughtBack.insert(row.id)
    }
    let retyped = fields.type.flatMap { $0 == row.type ? nil : $0 }
    if let refused = refusedType(retyped) {
      return try holdRefused(binding, refused, places: places ? row : nil)
    }
    let waits = try folder.store.writes(of: row.id).contains { $0.role == .edit || $0.role == .create }
    let decision = decideEdit(
      fields,
      EditSituation(
        binding: isNewHere ? nil : start, item: row, bodyField: facts.bodyField(of: row.type),
        retypedBodyField: retyped.map(facts.bodyField(of:)), names: facts.names, waits: waits))
    if !waits, !isNewHere, let line = fields.line, line < row.version, start.showed?.digest != decision.showed.digest,
      start.earlier[line] == decision.showed.digest || start.showsAgain(decision.showed, line)
    {
      if try folder.store.fact(.suspect) != nil {
        return try waitWithOlder(index, start, line, places: places ? row : nil)
      }
      return try giveUp(index, binding, line, places: places ? row : nil)
    }
    if let reason = localRefusal(
      tags: Set(row.tags).subtracting(decision.tagsRemoved).union(decision.tagsAdded),
      added: decision.tagsAdded, before: row.tags.count, line: fields.tagList, properties: decision.edit?.properties)
    {
      return try holdRefused(binding, reason, places: places ? row : nil)
    }

    binding.readHash = file.hash
    binding.seen = SeenStat(file.status, readAt: folder.now)
    binding.showed = decision.showed
    binding.line = fields.line
    binding.ownLines = decision.ownLines
    binding.setAside = nil
    binding.hold = nil
    binding.edgesOwed = true
    if decision.edit == nil, isNewHere || binding.agreed == nil { binding.agreed = row.version }
    if decision.edit != nil { binding.rememberOwn(start.showed) }
    if decision.edit != nil, let line = fields.line { binding.lastSent = SentText(line: line, showed: decision.showed) }
    binding.dropRefusals(notCarriedBy: decision)
    if !decision.behind.isEmpty {
      let reason = behindReason(decision)
      binding.hold = Hold(.behind, reason)
      report.flagged.append(FlaggedFile(file.path, .behind, reason))
    }
    edgeWork.append(
      EdgeWork(file: index, item: row.id, document: document, isChanged: file.hash != start.readHash))

    if decision.sendsNothing {
      if !places { report.unchanged += 1 }
      let saved = binding
      return try group { [self] in try record(saved, placing: places ? row : nil) }
    }
    report.updated += 1
    let planned = binding
    try group { [self] in
      do {
        try folder.commit {
          var binding = planned
          try folder.queue(decision, of: row, into: &binding)
          try record(binding, placing: places ? row : nil)
        }
      } catch let error as MarfaError where error.isLocalRefusal {
        report.updated -= 1
        try refuse(start, error.refusalReason, places: places ? row : nil)
      }
    }
  }

  /// An older text of the item put back says nothing new: the pull writes the newer one over it, and it is told (P3.3).
  private func giveUp(_ index: Int, _ start: Binding, _ line: Int, places row: Item?) throws {
    var binding = start
    binding.readHash = files[index].hash
    binding.seen = SeenStat(files[index].status, readAt: folder.now)
    binding.hold = nil
    report.unchanged += 1
    reverted.insert(binding.item)
    report.flagged.append(
      FlaggedFile(
        binding.path, .reverted,
        "an older text of it (version \(line)) was put back and lost to the newer one; `history` shows and restores it")
    )
    let saved = binding
    try group { [self] in try record(saved, placing: row) }
  }

  /// In a store that was restored the older text may be the only one left: it waits as a large removal does (P3.2).
  private func waitWithOlder(_ index: Int, _ start: Binding, _ line: Int, places row: Item?) throws {
    var binding = start
    binding.path = files[index].path
    binding.missingSince = nil
    binding.identity = identity(of: files[index])
    binding.hold = Hold(
      .removal, "an older text of it (version \(line)) waits: `confirm` or `restore` writes the newer one")
    binding.heldHash = files[index].hash
    older.insert(binding.item)
    let saved = binding
    try group { [self] in try record(saved, placing: row) }
  }

  private func behindReason(_ decision: EditDecision) -> String {
    let names = decision.behind.joined(separator: ", ")
    return decision.namesUnknownVersion
      ? "\(names) not sent: the version line names a version this copy does not hold"
      : "\(names) not sent: another device changed the item since this text was written"
  }

  // MARK: Local refusals (F53, F55, F9.5)

  /// Why a type line is refused before anything is queued: the catalog lacks it, or it is a file type (F9.5).
  func refusedType(_ type: Text?) -> String? { facts.refusal(ofType: type) }

  /// A tag or property name the server would refuse holds the whole file (F55).
  func localRefusal(tags: Set<Text>, added: [Text], before: Int, line: [Text], properties: JSONObject?) -> String? {
    facts.refusal(tags: tags, added: added, before: before, line: line, properties: properties)
  }

  /// The bytes found at a path.
  fileprivate func hash(at path: PathBytes) -> ContentHash? { files.first { $0.path == path }?.hash }

  /// Keeps, for `status`, that a new file was refused, and by which bytes (F53).
  func refuseNew(_ index: Int, _ reason: String) {
    report.flagged.append(FlaggedFile(files[index].path, .refused, reason))
    if let hash = files[index].hash { refusedFiles[files[index].path] = RefusedFile(hash: hash, reason: reason) }
  }
}

extension PassFacts {
  /// Why a new document would be refused before anything is queued, as far as its lines alone tell it (F9.5, F55).
  func refusal(ofNew document: Document) -> String? {
    let fields = FileFields(document, agreed: nil)
    if let reason = refusal(ofType: fields.type) { return reason }
    let tags = fields.tags ?? Set(settings.defaults.tags)
    return refusal(
      tags: tags, added: tags.sorted(), before: 0, line: fields.tagList.isEmpty ? tags.sorted() : fields.tagList,
      properties: fields.properties)
  }

  /// Why a file's tags or its properties' names would be refused (F55); nil where they would not.
  func refusal(tags: Set<Text>, added: [Text], before: Int, line: [Text], properties: JSONObject?) -> String? {
    for tag in added {
      let place = line.firstIndex(of: tag) ?? 0
      if tag.trimmedOfSpace.isEmpty { return "validation_error: tags[\(place)] is empty" }
      if tag.utf16Count > 128 { return "validation_error: tags[\(place)] is longer than 128 characters" }
    }
    if tags.count > 100, tags.count > before, !added.isEmpty {
      return "validation_error: tags would be \(tags.count); an item holds 100 at most"
    }
    if let properties, properties.keys.contains(where: \.isEmpty) {
      return "validation_error: a property's name is empty (\"\")"
    }
    return nil
  }
}

extension ScanPass {
  /// Holds a file whole: none of its writes is queued, its bytes and its record stay (F53, F55.1).
  private func holdRefused(_ binding: Binding, _ reason: String, places row: Item?) throws {
    report.flagged.append(FlaggedFile(binding.path, .refused, reason))
    var held = binding
    held.hold = Hold(.refused, reason)
    held.heldHash = hash(at: binding.path)
    let kept = held
    try group { [self] in try record(kept, placing: row) }
  }

  func refuse(_ binding: Binding, _ reason: String, places row: Item?) throws {
    report.flagged.append(FlaggedFile(binding.path, .refused, reason))
    var held = binding
    held.hold = Hold(.refused, reason)
    held.heldHash = hash(at: binding.path)
    try record(held, placing: row)
  }
}

extension FileFields {
  /// What a document states (F7.1 to F7.4). Of a `.txt` file the version last agreed at stands for its line (F17.1).
  init(_ document: Document, agreed: Int?) {
    guard document.kind == .markdown else {
      self.init(carriesFields: false, body: document.body, line: agreed)
      return
    }
    self.init(
      type: document.own.type.value, tier: document.own.tier.value, body: document.body, line: document.version.version)
    switch document.own.tags {
    case .absent: break
    case .blank: tags = []
    case .says(let listed): tags = Set(listed)
    }
    switch document.own.state {
    case .absent: break
    case .blank: state = "active"
    case .says(let shown): state = shown.text
    }
    occurredAt = document.own.occurredAt.value
    properties = document.properties
    tagList = document.own.tags.value ?? []
  }
}

extension Binding {
  /// Lets go of refusals of changes the file no longer carries, or that it now asks for anew (F9.10).
  mutating func dropRefusals(notCarriedBy decision: EditDecision) {
    refusals.removeAll { refusal in
      switch refusal.change {
      case .edit: decision.edit == nil && refusal.meaning.map { $0 != decision.showed.digest } ?? true
      case .tag(let tag): decision.showed.own?.tags.contains(tag) == false
      case .untag(let tag): decision.showed.own?.tags.contains(tag) == true
      case .state(let state): decision.showed.own.map { $0.state != state } ?? true
      case .edge: false
      case .local: true
      }
    }
  }
}

extension Binding {
  /// Whether a text the file showed before an edit of its own stands there again, under a line older than the one the file
  /// had: a copy from before was put back (P3.3). What is undone in a buffer shows the line it had, and is an edit.
  func showsAgain(_ text: Showed, _ line: Int) -> Bool {
    self.line.map { line < $0 } ?? false && ownEarlier.contains(text.digest)
  }
}

extension Showed {
  /// A digest of the fields an edit carries, for telling whether a file still carries a refused one.
  var digest: ContentHash {
    let own: JSON = [
      "type": .optional(self.own?.type), "tier": .optional(self.own?.tier),
      "at": self.own?.occurredAt.map { .int($0.milliseconds) } ?? .null,
    ]
    let sorted = JSONObject(properties.members.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
    let all: JSON = ["own": own, "properties": .object(sorted), "body": .string(body.hex)]
    return ContentHash(of: all.write())
  }
}

extension Text {
  /// Without white space at its ends; U+FEFF counts as such (F55).
  var trimmedOfSpace: Text {
    let scalars = Array(string.unicodeScalars)
    func isSpace(_ scalar: Unicode.Scalar) -> Bool { scalar.properties.isWhitespace || scalar.value == 0xFEFF }
    let kept = scalars.drop(while: isSpace).reversed().drop(while: isSpace).reversed()
    var out = String.UnicodeScalarView()
    out.append(contentsOf: kept)
    return Text(String(out))
  }
}

extension MarfaError {
  /// Whether the local checks, or the catalog held here, refused a write before it was queued (F53); `invalid` where the
  /// queue takes no such write at all (Q32.2).
  var isLocalRefusal: Bool { code == .validation || code == .unknownType || code == .invalid }
  /// `code: message`, as a server's refusal is said (F-R7).
  var refusalReason: String {
    // What the local checks refuse is named as the server would name it (F53.1).
    if code == .validation, server?.status == nil { return "validation_error: \(message)" }
    return "\(server?.code?.string ?? code.rawValue): \(message)"
  }
}
