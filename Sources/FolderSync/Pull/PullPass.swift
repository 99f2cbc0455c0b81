import Glibc
import MarfaBase
import MarfaCopy

/// Who the files are that no binding has.
private struct Strangers {
  var identities: Set<StoredIdentity> = []
  var items: Set<EntityID> = []
  var hashes: Set<ContentHash> = []
}

/// One pull: the directory is brought in line with the copy. It scans nothing; what a person changed since the last scan
/// is left for the next.
final class PullPass {
  let folder: FolderEngine
  let facts: PassFacts
  let root: any Directory
  let landing: Landing
  let walked: WalkResult
  let rootDevice: UInt64
  let disk: DiskNames
  var report = FolderPull()
  var bindings: [EntityID: Binding] = [:]
  var held: Set<EntityID> = []
  var places: [EntityID: Place] = [:]
  /// What links by file name find; made once places are ranked.
  var fileNames = FileNames()
  /// Files by path as the walk found them.
  var found: [PathBytes: FileStatus]
  /// Files no binding has, by who they are: made where a missing one is about to be written back.
  private var strangers: Strangers?
  /// What was rendered last, and the body whose links were read last.
  var rendered: Rendered?
  var read: (body: Text, references: BodyReferences)?
  /// The new file rendered last, where no line of it names an edge: its item and its body.
  var made: (item: EntityID, body: Text)?
  /// The edges of the item being brought, while its file is rendered and what that shows is noted.
  var edgesRead: (item: EntityID, edges: [Edge])?
  /// What each bound file gave when it was read.
  var readings: [EntityID: FileReading] = [:]
  var planned: [PlannedLanding] = []
  var plannedBytes = 0
  /// Whether the disk filled up under this pull (P5.2).
  var isFull = false
  /// Attachments and where files here embed them (F12.33).
  var embedded: [EntityID: PathBytes] = [:]
  /// The files here once this pull is done, and whose each is: made where an embed is asked what it shows.
  var filesToBe: (files: EmbedFiles, owners: [PathBytes: EntityID])?
  /// Only the plan is read: nothing is written or queued (F54.3).
  let plansOnly: Bool
  /// A watch's pull (P1.3).
  let isWatch: Bool
  var plan = FolderPlan(write: 0, send: 0, beside: 0)
  /// What the copy's stamp was when this attempt began; nil where nothing is started over.
  var stamp: Int?
  /// Items whose files this pull counted already, in an earlier attempt or this one (F87.1).
  var counted: Set<EntityID> = []
  /// The other folders of this machine, once one was asked about.
  var lookedInto: OtherFolders?
  /// Files without an id that moved to another folder.
  var movedFiles: [EntityID: MovedFile]?
  /// Recorded steps whose last part took a file away, by their path: forgotten once that is on the disk.
  var removed: [PathBytes] = []
  /// Files taken in that show an older version: brought current in this pull.
  var brought: [EntityID] = []
  /// Conflicted copies of this folder's own texts whose links no scan has read yet.
  var owedCopies: Set<EntityID> = []

  init(_ folder: FolderEngine, _ facts: PassFacts, root: any Directory, plansOnly: Bool = false, isWatch: Bool = false)
    throws
  {
    self.folder = folder
    self.facts = facts
    self.root = root
    self.plansOnly = plansOnly
    self.isWatch = isWatch
    landing = folder.landing(in: root)
    walked = try folder.walked(root, facts, door: folder.context.door)
    rootDevice = walked.rootDevice
    disk = DiskNames(root: root)
    found = Dictionary(walked.files.map { ($0.path, $0.status) }) { first, _ in first }
  }

  func run() throws -> FolderPull {
    for binding in try folder.store.bindings() { bindings[binding.item] = try lettingGoOfMetStates(binding) }
    owedCopies = try folder.store.owedCopies()
    let matching = try folder.copy.items(matching: facts.search)
    held = Set(matching)
    try folder.copy.reading {
      try findEmbedded()
      try rank()
      try tellUncarried()
    }
    var order = Array(held.union(bindings.keys).union(embedded.keys)).sorted { left, right in
      let (one, other) = (places[left]?.path ?? bindings[left]?.path, places[right]?.path ?? bindings[right]?.path)
      switch (one, other) {
      case (let one?, let other?): return one == other ? left < right : one < other
      case (.some, nil): return true
      case (nil, .some): return false
      case (nil, nil): return left < right
      }
    }
    // Files that go first, then moves, so that a file wanting a path whose file moves away finds it free (F19.16).
    try removeDepartures(order)
    let leaving = Set(removedItems)
    order.removeAll { leaving.contains($0) }
    for item in order where moves(item) { try bring(item) }
    try flush()
    for item in order where !moves(item) || unfinished.contains(item) { try bring(item) }
    try flush()
    // Those that waited for a place another item left in this pull.
    let waiting = waits
    waits = []
    for item in waiting { try bring(item, isLast: true) }
    for item in brought { try bring(item, isLast: true) }
    try flush()
    if !plansOnly { try queuePlacements(order) }
    report.unplaced = try folder.standingRefusals()
    let here = try held.union(order).union(leaving).count { try held.contains($0) || folder.copy.head($0) != nil }
    report.skipped = try max(0, folder.copy.itemCount() - here)
    // Two edges refused with the same words are told once (C16.7).
    report.flagged = Set(report.flagged).sorted {
      ($0.path, $0.flag, $0.item ?? "", $0.reason) < ($1.path, $1.flag, $1.item ?? "", $1.reason)
    }
    return report
  }

  /// A state the server refused because another machine moved the item first, there or into the bin, is refused no more
  /// once the copy shows it so; of the server's answer alone nothing is taken for done (F9.6, F9.10).
  private func lettingGoOfMetStates(_ binding: Binding) throws -> Binding {
    guard !binding.refusals.isEmpty, let row = try folder.copy.item(binding.item) else { return binding }
    var free = binding
    free.refusals.removeAll { refusal in
      guard case .state(let state) = refusal.change else { return false }
      return row.state == state || row.isTrashed && refusal.reason.hasPrefix("invalid_transition:")
    }
    guard free.refusals != binding.refusals else { return binding }
    if !plansOnly {
      let kept = free
      try folder.commit { try folder.store.change(kept.item) { $0.refusals = kept.refusals } }
    }
    return free
  }

  var removedItems: [EntityID] = []
  /// Items told as unmatched: one is brought more than once where it waits for its place.
  var unmatched: Set<EntityID> = []
  var unfinished: Set<EntityID> = []
  var waits: [EntityID] = []

  private func moves(_ item: EntityID) -> Bool {
    guard let binding = bindings[item], binding.missingSince == nil, let place = places[item] else { return false }
    return place.path != binding.path
  }

  // MARK: Membership

  func membership(of item: EntityID, _ row: Item?) throws -> PullSituation.Membership {
    try membership(of: item, row.map(ItemHead.init))
  }

  func membership(of item: EntityID, _ row: ItemHead?) throws -> PullSituation.Membership {
    guard let row else { return try folder.copy.isPurged(item) ? .purged : .lost }
    if held.contains(item) { return .held }
    if row.isTrashed { return .leftByState }
    if embedded[item] != nil { return .held }
    return facts.search.states.contains(row.state) ? .leftOtherwise : .leftByState
  }

  /// What stands at a binding's path (F32, F35). Bytes are read, and kept for the comparison.
  func fileNow(_ binding: Binding) -> PullSituation.File {
    // Another item's file may stand where a missing one was.
    if binding.missingSince != nil,
      bindings.values.contains(where: { $0.path == binding.path && $0.missingSince == nil && $0.item != binding.item })
    {
      return .missing
    }
    guard found[binding.path] != nil else {
      switch walked.reach(of: binding.path, seen: binding.identity) {
      case .looked: return .missing
      case .unreadable(let reason): return .unreadable(reason)
      case .leftOut, .link, .unmounted: return .unreached
      }
    }
    switch folder.read(binding.path, in: root, keeping: binding.form != .bytes) {
    case .gone: return .missing
    case .failed(let error): return .unreadable(error.reason)
    case .read(let reading):
      guard reading.isSettled else { return .changed }
      readings[binding.item] = reading
      if binding.hold?.flag == .emptied, reading.bytes?.allSatisfy({ $0 == 0 }) == true { return .emptied }
      if binding.isOwn(reading.hash) || binding.isLandedWhole(reading.hash) { return .own }
      return reading.hash == binding.readHash || folder.context.sabotage.breaks(.pullOverUnscannedSave)
        ? .asScanned : .changed
    }
  }

  /// Whether a missing file stands under a name no binding has: by its identity, the id it carries, or its bytes.
  func stands(elsewhere binding: Binding) throws -> Bool {
    let strangers = self.strangers ?? readStrangers()
    self.strangers = strangers
    if let identity = binding.identity, strangers.identities.contains(identity) { return true }
    if strangers.items.contains(binding.item) { return true }
    return binding.form != .markdown && binding.readHash.map(strangers.hashes.contains) ?? false
  }

  private func readStrangers() -> Strangers {
    var strangers = Strangers()
    let bound = Set(bindings.values.filter { $0.missingSince == nil }.map(\.path))
    for (path, status) in found where !bound.contains(path) {
      if let identity = status.identity {
        strangers.identities.insert(StoredIdentity(identity, rootDevice: rootDevice))
      }
      let kind = DocumentKind(name: path)
      guard case .read(let reading) = folder.read(path, in: root, keeping: kind != nil) else { continue }
      strangers.hashes.insert(reading.hash)
      guard let kind, let bytes = reading.bytes,
        let id = Document.read(bytes, kind: kind, edges: facts.vocabulary).document?.id.id
      else { continue }
      strangers.items.insert(id)
    }
    return strangers
  }

  private func tellUncarried() throws {
    var told: Set<UncarriedProperty> = []
    for item in held {
      guard let row = try folder.copy.head(item), let type = facts.catalog.type(row.type), !type.isFileType else {
        continue
      }
      for field in type.fields where facts.names.reserved.contains(field.name) {
        told.insert(UncarriedProperty(type: row.type.string, property: field.name.string))
      }
    }
    report.uncarried = told.sorted()
  }

  // MARK: Departures (F35, F46.3)

  private func removeDepartures(_ order: [EntityID]) throws {
    if folder.context.sabotage.breaks(.nothingDecided) { return }
    var leaving: [(binding: Binding, purged: Bool)] = []
    for item in order {
      guard let binding = bindings[item] else { continue }
      let membership = try membership(of: item, try folder.copy.head(item))
      guard membership == .leftByState || membership == .purged else { continue }
      removedItems.append(item)
      var file = fileNow(binding)
      if folder.context.sabotage.breaks(.changedFileRemoved), case .changed = file { file = .own }
      switch decidePull(PullSituation(membership: membership, file: file, isHeld: try holdsWords(binding))) {
      case .remove(let purged): leaving.append((binding, purged))
      case .keep: report.kept += 1
      case .unwritten(let reason): tell(binding.path, .unwritten, reason, item)
      default: break
      }
    }
    let settings = facts.settings
    if isLargeRemoval(
      leaving.count, ofBound: bindings.count, files: settings.removalThreshold.files,
      fraction: settings.removalThreshold.fraction)
    {
      report.paused = leaving.count
      let paused = Dictionary(leaving.map { ($0.binding.item, $0.purged) }) { first, _ in first }
      return try folder.commit { try folder.store.setPaused(.pull, paused) }
    }
    if !plansOnly { try folder.commit { try folder.store.setPaused(.pull, [:]) } }
    for departure in leaving where !plansOnly { try takeAway(departure.binding, purged: departure.purged) }
    try settleRemovals()
  }

  /// Takes away the file of an item that left: its record and the end of its placement commit first (F44.19).
  func takeAway(_ binding: Binding, purged: Bool) throws {
    guard let hash = readings[binding.item]?.hash else { return }
    switch try remove(binding, hash, ends: !purged) {
    case .removed(let ended):
      report.removed += 1
      if purged { report.purged += 1 }
      if ended { report.ended += 1 }
    case .stays(let failure):
      if failure.kind == .changed {
        report.kept += 1
      } else {
        tell(binding.path, .unwritten, failure.reason, binding.item)
      }
    }
  }

  enum Departure {
    /// It is gone, its binding too; whether its placement's end was queued.
    case removed(ended: Bool)
    /// Everything is as it was.
    case stays(LandingFailure)
  }

  /// Removes a file of these bytes with its binding.
  func remove(_ binding: Binding, _ hash: ContentHash, ends: Bool) throws -> Departure {
    try folder.checkStop()
    if try copyChanged() { throw LocalCopyChanged() }
    var ended = false
    try folder.commit {
      var kept = binding
      kept.writtenHash = hash
      try folder.store.record(LandingRecord(path: binding.path, hash: nil, binding: kept))
      if ends { ended = try folder.endPlacement(of: binding.item) }
      try folder.unbind(binding)
    }
    switch landing.remove(binding.path, holding: hash) {
    case .removed, .absent:
      disk.went(binding.path)
      bindings[binding.item] = nil
      removed.append(binding.path)
      try folder.release(binding.item)
      return .removed(ended: ended)
    case .stays(let failure):
      try folder.commit {
        try folder.store.save(binding)
        try folder.store.forgetLanding(at: binding.path)
        if ended { try folder.withdrawEnd(of: binding.item) }
      }
      return .stays(failure)
    }
  }

  /// Whether a file must not go with its item: it is left as its person wrote it, or it holds what no server has yet, an
  /// edit queued and unanswered. Its bytes may be the folder's own all the same, where a pull merged another's change in.
  func holdsWords(_ binding: Binding) throws -> Bool {
    if isLeft(binding) { return true }
    return try folder.store.writes(of: binding.item).contains { [.create, .edit, .upload].contains($0.role) }
  }

  func isLeft(_ binding: Binding) -> Bool {
    if !binding.refusals.isEmpty || binding.setAside != nil { return true }
    guard let hold = binding.hold else { return false }
    return hold.flag != .behind
  }

  /// Whether the copy changed since this attempt read it.
  func copyChanged() throws -> Bool {
    guard let stamp else { return false }
    return try folder.copyStamp() != stamp
  }

  func tell(_ path: PathBytes, _ flag: Flag, _ reason: String, _ item: EntityID) {
    switch flag {
    case .unwritten: report.unwritten += 1
    case .outside: report.outside += 1
    case .unsuited: report.unsuited += 1
    case .absent: report.absent += 1
    default: break
    }
    report.flagged.append(FlaggedFile(path, flag, reason, item: item))
  }
}
