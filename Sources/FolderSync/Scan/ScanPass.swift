import MarfaBase
import MarfaCopy

/// One scan: the walk, compared with bindings and items, becomes queued writes (F15.6, F33: decided over the whole
/// directory in memory, then committed group by group).
final class ScanPass {
  /// How a scan reads.
  struct Mode {
    /// Leave bound files unread that look as they did (F49.2).
    var quick = false
    /// Ask the server for names (F11.17); a scan alone does not.
    var asksServer = false
    /// Wait for files still written to, and leave bytes that have not settled (F51.3).
    var isWatch = false
    /// Ends with `CatchUpFirst` where a file names what the copy may only not have heard of yet (P8.1).
    var mayCatchUp = false
  }

  let folder: FolderEngine
  let facts: PassFacts
  let mode: Mode
  var report = FolderScan()
  var bindings: [EntityID: Binding] = [:]
  var files: [ScanFile] = []
  let walked: WalkResult
  let root: any Directory
  let rootDevice: UInt64
  /// Items whose file was found.
  var present: Set<EntityID> = []
  /// Items whose create was refused here after its id was given out.
  var unmade: Set<EntityID> = []
  var edgeWork: [EdgeWork] = []
  /// Items in the bin a file of which is here.
  var inBin: Set<EntityID> = []
  var placements: [NameKey: [EntityID]]?
  var pathItems: [PathBytes: EntityID]?
  lazy var lookups = NameLookups(folder: folder, facts: facts, asksServer: mode.asksServer)
  /// Files whose item cannot be told or read now (F42.1), with the reason.
  var waitingFiles: [Int: String] = [:]
  /// Ids of files that the server has no item of.
  var absent: Set<EntityID> = []
  /// Files that came from other folders with no id, and the items they became (F43.2).
  var arrivals: [Int: Arrival] = [:]
  var arrived: [EntityID: Arrival] = [:]
  /// Documents that lost every byte.
  var emptied: [EntityID: Emptied] = [:]
  /// Items an older text of which was put back in this pass (P3.3).
  var reverted: Set<EntityID> = []
  /// Items whose file went back to an older version line and an older time, as a backup's does and no editor's.
  var broughtBack: Set<EntityID> = []
  /// Those that wait, since the store is not what it was (P3.2).
  var older: Set<EntityID> = []
  /// New files the local checks refused, with their bytes and the reason.
  var refusedFiles: [PathBytes: RefusedFile] = [:]
  private var owed: Set<EntityID>?
  private var mirrored: Bool?
  private var lookedInto: OtherFolders?

  init(_ folder: FolderEngine, _ facts: PassFacts, _ mode: Mode, root: any Directory) throws {
    self.folder = folder
    self.facts = facts
    self.mode = mode
    self.root = root
    walked = try folder.walked(root, facts, door: folder.context.door)
    rootDevice = walked.rootDevice
  }

  /// Runs it. What it queued is committed even where it throws later.
  func run() throws -> FolderScan {
    try folder.checkStop()
    folder.scannedDirectory = walked
    sweepTemporaries(
      walked.temporaries, below: root, files: folder.context.files, keeping: try folder.keptTemporaries())
    report.registry = try folder.relist()
    report.directories = walked.directories
    report.secrets = walked.secrets.map(\.description)
    report.flagged += walked.flagged
    for binding in try folder.store.bindings() { bindings[binding.item] = try owingShownEdges(binding) }

    try takeNames()
    try readDocuments()
    try waitForWriters()
    if mode.mayCatchUp, try namesUnheard() { throw CatchUpFirst(isNamed: true) }
    try readBytes()
    if mode.mayCatchUp, arrivesAsMissed() { throw CatchUpFirst() }
    try resolveOwners()
    try decideFiles()
    try flush()
    try decideMissing()
    try decideAllEdges()
    try flush()
    try folder.store.set(.listed, "yes")
    try folder.store.setRefusedFiles(refusedFiles)
    try folder.store.forgetTrashedThatLeft()
    try folder.store.setWaitingFiles(
      Dictionary(waitingFiles.map { (files[$0.key].path, $0.value) }) { first, _ in first })
    finishCounts()
    return report
  }

  /// An edge that the server had and had not shown yet is the file's like any other once it comes: the file is read for it.
  private func owingShownEdges(_ bound: Binding) throws -> Binding {
    var binding = try owingEdgesToTheBin(bound)
    guard !binding.unseenEdges.isEmpty else { return binding }
    let held = try folder.copy.edges(from: binding.item) + folder.copy.edges(to: binding.item)
    let isShown = held.contains {
      binding.unseenEdges.contains(FileRefusal.edgeMeaning($0.type, from: $0.source, to: $0.target))
    }
    guard isShown else { return binding }
    binding.edgesOwed = true
    return binding
  }

  /// An edge refused because the item at its other end is none any more, which the copy has heard by now: its line stands
  /// down and its link is told, until that item is restored (F11.19, F12.3).
  private func owingEdgesToTheBin(_ binding: Binding) throws -> Binding {
    guard binding.refusals.contains(where: { $0.missing != nil }) else { return binding }
    var binding = binding
    let before = binding.refusals.count
    try binding.refusals.removeAll { refusal in
      guard let missing = refusal.missing else { return false }
      return try folder.copy.item(missing).map(\.isTrashed) ?? folder.copy.isPurged(missing)
    }
    if binding.refusals.count < before { binding.edgesOwed = true }
    return binding
  }

  /// Of files whose paths are one name, one is taken (F27.2).
  private func takeNames() throws {
    let leftovers = try folder.leftovers()
    let bound = Set(bindings.values.filter { $0.missingSince == nil }.map(\.path))
    let held = nameCollisions(walked.files.map(\.path), bound: bound)
    for file in walked.files {
      if let reason = leftovers[file.path] {
        report.flagged.append(FlaggedFile(file.path, .unwritten, reason))
      } else if let taken = held[file.path] {
        report.flagged.append(
          FlaggedFile(file.path, .name, "\(taken) holds this name in another case or Unicode form; rename one of them"))
      } else {
        files.append(ScanFile(file))
      }
    }
    heldNames = held
  }
  var heldNames: [PathBytes: PathBytes] = [:]

  private func finishCounts() {
    report.skipped += walked.placeholders
    report.flagged.sort { ($0.path, $0.flag) < ($1.path, $1.flag) }
    report.embeds.sort { ($0.path, $0.reason) < ($1.path, $1.reason) }
    report.warnings.sort { $0.path < $1.path }
  }

  /// The other folders of this machine.
  func others() throws -> OtherFolders {
    if let lookedInto { return lookedInto }
    let others = try OtherFolders(folder, registry: report.registry)
    lookedInto = others
    return others
  }

  /// Whether files' own lines told that another program brings files of other machines here (P8.1).
  func isMirrored() throws -> Bool {
    if let mirrored { return mirrored }
    let read = try folder.store.fact(.mirrored) == "named"
    mirrored = read
    return read
  }

  /// Conflicted copies of this folder's texts, as the scan began.
  func owedCopies() throws -> Set<EntityID> {
    if let owed { return owed }
    let read = try folder.store.owedCopies()
    owed = read
    return read
  }

  private(set) lazy var boundPaths: [PathBytes: EntityID] = Dictionary(
    bindings.values.map { ($0.path, $0.item) }
  ) { first, _ in first }
  private(set) lazy var boundIdentities: Set<StoredIdentity> = Set(bindings.values.compactMap(\.identity))

  // MARK: Groups

  private var groups: [() throws -> Void] = []

  /// Adds one group: the writes of one file and what the folder records of it. Groups commit in the order they were
  /// added, some together, each whole or not at all.
  func group(_ work: @escaping () throws -> Void) throws {
    groups.append(work)
    if groups.count >= 32 { try flush() }
  }

  func flush() throws {
    guard !groups.isEmpty else { return }
    let ready = groups
    groups.removeAll()
    try folder.checkStop()
    if let reason = folder.rootGone() { throw MarfaError(.invalid, reason) }
    try folder.commit { for work in ready { try work() } }
  }

  // MARK: Reading

  /// The live binding whose file this is by path and identity, or by path with no identity on either side: the only case
  /// in which a file's owner is known before its id line is read (F15.6 b).
  func sureBinding(_ file: ScanFile) -> Binding? {
    guard let binding = liveByPath[file.path] else { return nil }
    let identity = file.status.identity.map { StoredIdentity($0, rootDevice: rootDevice) }
    return binding.identity == identity ? binding : nil
  }

  private(set) lazy var liveByPath: [PathBytes: Binding] = Dictionary(
    bindings.values.filter { $0.missingSince == nil }.map { ($0.path, $0) }
  ) { first, _ in first }

  private func readDocuments() throws {
    for index in files.indices {
      guard let kind = DocumentKind(name: files[index].path) else { continue }
      try folder.checkStop()
      let binding = sureBinding(files[index])
      // A file item's file is bytes, whatever its name (F10.7).
      if binding?.form == .bytes || isBytes(files[index]) { continue }
      try readDocument(index, kind, binding)
    }
    // A copy of a file left unread is told from its original only once that is read too (F49.4).
    let carried = Set(files.compactMap { $0.document?.id.id })
    for index in files.indices where files[index].isUnread {
      guard let binding = sureBinding(files[index]), carried.contains(binding.item),
        let kind = DocumentKind(name: files[index].path)
      else { continue }
      files[index].isUnread = false
      try readDocument(index, kind, nil)
    }
  }

  /// Whether a document names a version newer than the copy's, or an id the copy does not hold (P8.1): another program may
  /// have brought it here before the server's news of it came.
  private func namesUnheard() throws -> Bool {
    for file in files where !file.isUnread && !file.isUnchanged {
      guard let document = file.document, document.kind == .markdown, let id = document.id.id, id != facts.folder else {
        continue
      }
      guard let row = try folder.copy.item(id) else {
        if bindings[id] == nil { return true }
        continue
      }
      if let version = document.version.version, version > row.version { return true }
    }
    return false
  }

  /// Whether bytes that name no item stand at a new path while a file of these bytes is gone from its own (P8.1): another
  /// machine may have renamed it, and another program have brought the rename here.
  private func arrivesAsMissed() -> Bool {
    let gone = Set(
      bindings.values.filter { $0.form != .markdown && !foundPaths.contains($0.path) }.compactMap(\.readHash))
    guard !gone.isEmpty else { return false }
    return files.contains { file in
      boundPaths[file.path] == nil && file.document?.id.id == nil && file.hash.map(gone.contains) ?? false
    }
  }

  private func readDocument(_ index: Int, _ kind: DocumentKind, _ binding: Binding?) throws {
    if mode.quick, let binding, binding.mayStayUnread(files[index].status), !embedsMoved(binding) {
      files[index].isUnread = true
      files[index].hash = binding.readHash
      return
    }
    switch folder.read(files[index].path, in: root, keeping: true) {
    case .read(let reading):
      files[index].status = reading.status
      guard let bytes = reading.bytes, try takes(reading, bytes, of: index, binding) else {
        files[index].settles = true
        return
      }
      files[index].settles = false
      let hash = reading.hash
      files[index].hash = hash
      files[index].isBlank = bytes.allSatisfy { $0 == 0 }
      let size = jsonSize(of: bytes)
      if size >= sizeWarningLimit { files[index].warning = sizeWarning(size) }
      // The same bytes under a sure binding say nothing new, unless something of them is still owed.
      if let binding, binding.readHash == hash, binding.asksForNothingMore, !embedsMoved(binding) {
        files[index].isUnchanged = true
        return
      }
      files[index].reading = Document.read(bytes, kind: kind, edges: facts.vocabulary)
    case .gone: files[index].isGone = true
    case .failed(let error): files[index].failure = error.reason
    }
  }

  /// Whether a file that a document embeds is no more where it was, or another stands there by now: its embed is read
  /// again (F12.31, F12.37).
  private func embedsMoved(_ binding: Binding) -> Bool {
    binding.edges.contains { edge in
      guard edge.place == .embed else { return false }
      // Its file went, as with an item trashed elsewhere: it may have been put here again.
      guard let embedded = bindings[edge.other] else { return true }
      guard embedded.missingSince == nil else { return false }
      guard foundPaths.contains(embedded.path) else { return true }
      guard let identity = embedded.identity, let place = pathByIdentity[identity] else { return false }
      return place != embedded.path
    }
  }

  /// Where the files of this directory are, by who they are.
  private lazy var pathByIdentity: [StoredIdentity: PathBytes] = Dictionary(
    walked.files.compactMap { file in
      file.status.identity.map { (StoredIdentity($0, rootDevice: rootDevice), file.path) }
    }
  ) { first, _ in first }

  private(set) lazy var foundPaths = Set(walked.files.map(\.path))

  /// Whether what was read of a document is taken (P1.1, P1.2). One being written to is left for the pass after it is let
  /// go; a watch takes it as it stands after 5 s without a break, and once each 5 s from then on, but not emptied.
  private func takes(_ reading: FileReading, _ bytes: [UInt8], of index: Int, _ binding: Binding?) throws -> Bool {
    let path = files[index].path
    guard reading.isBeingWritten(now: folder.now) else {
      folder.beingWritten[path] = nil
      return true
    }
    guard mode.isWatch else { return false }
    let now = folder.context.clock.monotonic
    let known = folder.beingWritten[path] ?? (since: now, taken: now)
    folder.beingWritten[path] = known
    guard reading.isSettled, now >= known.taken &+ 5_000_000_000 else { return false }
    let isEmptied = bytes.isEmpty && binding?.showed.map { $0.body != ContentHash(of: [UInt8]()) } ?? false
    if isEmptied { return false }
    folder.beingWritten[path] = (since: known.since, taken: now)
    return true
  }

  /// Gives programs that are writing documents up to 2 s to be done; a watch comes back to them instead (P1.2).
  private func waitForWriters() throws {
    guard !mode.isWatch else {
      let found = Set(files.filter(\.settles).map(\.path))
      for path in folder.beingWritten.keys where !found.contains(path) {
        if !files.contains(where: { $0.path == path && !$0.isUnread }) { folder.beingWritten[path] = nil }
      }
      return
    }
    let step: UInt64 = 50_000_000
    var left: UInt64 = 2_000_000_000
    while left > 0 {
      let settling = files.indices.filter { files[$0].settles }
      if settling.isEmpty { return }
      folder.context.scheduler.wait(nanoseconds: step, unless: folder.stop)
      try folder.checkStop()
      left -= step
      for index in settling {
        guard let kind = DocumentKind(name: files[index].path) else { continue }
        try readDocument(index, kind, sureBinding(files[index]))
      }
    }
  }

  /// Reads the bytes of files that are not documents, where they are a file item's already or may become one (F29.1).
  private func readBytes() throws {
    var embedded = EmbedFiles()
    for file in files { embedded.add(file.path) }
    embedFiles = embedded
    for index in files.indices {
      guard let document = files[index].document else { continue }
      files[index].readReferences()
      guard document.kind == .markdown else { continue }
      for embed in files[index].references.embeds {
        if case .file(let path) = embedded.resolve(embed, in: files[index].path) { embeddedPaths.insert(path) }
      }
    }
    // Files that were not read again still embed what they showed.
    let shown = bindings.values.filter { $0.missingSince == nil }.flatMap(\.edges).filter { $0.place == .embed }
    for edge in shown { if let binding = bindings[edge.other] { embeddedPaths.insert(binding.path) } }

    for index in files.indices {
      let file = files[index]
      let isKnown = liveByPath[file.path]?.form == .bytes || isBytes(file)
      guard isKnown || DocumentKind(name: file.path) == nil else { continue }
      try folder.checkStop()
      guard isKnown || embeddedPaths.contains(file.path) || facts.holds(type: facts.fileType(of: file.path)) else {
        files[index].isSkipped = true
        continue
      }
      files[index].isBytes = true
      if !isKnown, file.status.size == 0 {
        files[index].isSkipped = true
        continue
      }
      if mode.quick, let sure = sureBinding(file), sure.mayStayUnread(file.status) {
        files[index].isUnread = true
        files[index].hash = sure.readHash
        continue
      }
      // It still claims its identity: a rename moves its binding unread (F51.3).
      if let memory = folder.memory, !memory.isStill(file.path, file.status) {
        files[index].settles = true
        continue
      }
      switch folder.read(file.path, in: root, keeping: false) {
      case .read(let reading):
        files[index].status = reading.status
        files[index].hash = reading.hash
        if !reading.isSettled { files[index].settles = true }
      case .gone: files[index].isGone = true
      case .failed(let error): files[index].failure = error.reason
      }
    }
  }

  /// Whether a file is a file item's by its identity.
  private func isBytes(_ file: ScanFile) -> Bool {
    guard let identity = file.status.identity else { return false }
    return bytesIdentities.contains(StoredIdentity(identity, rootDevice: rootDevice))
  }

  private lazy var bytesIdentities = Set(bindings.values.filter { $0.form == .bytes }.compactMap(\.identity))

  var embedFiles = EmbedFiles()
  var embeddedPaths: Set<PathBytes> = []

  // MARK: Owners

  private func resolveOwners() throws {
    files.removeAll { $0.isGone }
    var counts: [StoredIdentity: Int] = [:]
    try findReturned()
    try findArrivals()
    for file in files where !file.isSkipped {
      if let identity = file.status.identity {
        counts[StoredIdentity(identity, rootDevice: rootDevice), default: 0] += 1
      }
    }
    try askForCarried()
    var carriedItems: [Int: EntityID] = [:]
    for index in files.indices where !files[index].isSkipped && !files[index].isUnread && !files[index].isUnchanged {
      carriedItems[index] = try validID(index, files[index].carriedID)
    }
    let pushed = files.indices.filter { !files[$0].isSkipped && waitingFiles[$0] == nil }
    let claims = pushed.map { index in
      let file = files[index]
      let identity = file.status.identity.map { StoredIdentity($0, rootDevice: rootDevice) }
      if folder.context.sabotage.breaks(.renameAsDelete), liveByPath[file.path] == nil {
        return FileClaim(path: file.path, identity: nil, carries: nil, form: nil)
      }
      return FileClaim(
        path: file.path, identity: identity.flatMap { counts[$0] == 1 ? $0 : nil }, carries: carriedItems[index],
        form: file.isBytes ? nil : FileForm(documentName: file.path))
    }
    let owners = resolveIdentity(claims, Array(bindings.values))
    for (index, owner) in zip(pushed, owners) { files[index].owner = owner }
    settleArrivals()
    try followMirrored()
  }

  /// Where another program brings files of other machines here (P8.1), a rename made there comes as a new file beside one
  /// that is gone: the only one of its bytes is the same item's.
  private func followMirrored() throws {
    guard try isMirrored() else { return }
    let owned = Set(files.compactMap { if case .item(let item) = $0.owner { item } else { nil } })
    var gone: [ContentHash: [Binding]] = [:]
    for binding in bindings.values
    where binding.form != .markdown && binding.identity != nil && !owned.contains(binding.item)
      && !foundPaths.contains(binding.path)
    {
      if let hash = binding.readHash { gone[hash, default: []].append(binding) }
    }
    guard !gone.isEmpty else { return }
    var came: [ContentHash: [Int]] = [:]
    for index in files.indices
    where files[index].owner == .new && !files[index].isSkipped && waitingFiles[index] == nil
      && files[index].status.size > 0 && files[index].status.identity != nil
    {
      if let hash = files[index].hash { came[hash, default: []].append(index) }
    }
    for (hash, indices) in came {
      guard indices.count == 1, let index = indices.first, let all = gone[hash], all.count == 1,
        let binding = all.first,
        binding.form == (files[index].isBytes ? .bytes : FileForm(documentName: files[index].path))
      else { continue }
      files[index].owner = .item(binding.item)
    }
  }

  /// An id that names a document of this copy, or of a file moved here (F42); every other is no id (F16).
  private func validID(_ index: Int, _ id: EntityID?) throws -> EntityID? {
    guard let id, id != facts.folder else { return nil }
    if let binding = bindings[id], binding.form != .bytes {
      // A bound item's id stays one, whether or not its row is held: what becomes of the file is the binding's to say.
      return id
    }
    return try carried(index, id)
  }
}

extension Binding {
  /// Whether a quick pass may leave it unread (F49.2).
  func mayStayUnread(_ status: FileStatus) -> Bool {
    missingSince == nil && asksForNothingMore && seen?.leavesUnread(status) ?? false
  }

  /// Whether the same bytes ask for nothing that is not queued or settled.
  var asksForNothingMore: Bool {
    setAside == nil && !edgesOwed && heldBack.isEmpty && hold == nil
  }
}

func sizeWarning(_ size: Int) -> String {
  let percent = size * 100 / 1_048_576
  return "its text is \(size) bytes as JSON, \(percent) % of the limit of 1048576; past it the server refuses it "
    + "(request_too_large)"
}
