import MarfaBase
import MarfaCopy

/// Where every file of a folder stands, read from its store and its disk alone: no request, no claim, no write (F48, C9).
extension FolderEngine {
  package func status() throws -> FolderStatus {
    let root = try openRoot()
    var status = FolderStatus()
    status.firstSyncWaits = try store.firstSyncWaits
    status.plan = try store.plan
    status.pausedOnDisk = try store.paused(.disk).count
    let pausedPull = try store.paused(.pull)
    status.pausedInPull = pausedPull.count
    let facts: PassFacts
    do { facts = try self.facts() } catch let error as MarfaError where error.code == .invalid {
      // Settings no folder can follow stop the passes, and keep nobody from seeing where the files stand (F40.8, F48.7).
      guard let row = try settingsRow(), let read = PassFacts(followable: row, folder: folderID, try copy.catalog())
      else {
        throw error
      }
      facts = read
      status.unfollowed = error.message
    }
    let walked = try walked(root, facts, door: context.door)
    if status.pausedOnDisk + status.pausedInPull == 0, let files = try quietFiles(walked) {
      status.files = files
      return status
    }
    let reading = try StatusPass(self, facts, root, walked, pausedPull: pausedPull)
    status.files = try reading.files()
    return status
  }

  /// The files of a folder in which nothing moved since a pass that found all of them in step, told by how they look; nil
  /// where one looks otherwise, or is not bound.
  private func quietFiles(_ walked: WalkResult) throws -> [FolderFile]? {
    guard try Quiet.standing(store.database) != nil else { return nil }
    let bound = try store.boundFiles()
    guard walked.files.count == bound.count else { return nil }
    var files: [FolderFile] = []
    files.reserveCapacity(bound.count)
    for file in walked.files {
      guard let known = bound[file.path], known.isLive, known.seen?.leavesUnread(file.status) == true,
        known.identity == file.status.identity.map({ StoredIdentity($0, rootDevice: walked.rootDevice) })
      else { return nil }
      files.append(FolderFile(file.path, .inStep, item: known.item))
    }
    return files.sorted { $0.path.utf8.lexicographicallyPrecedes($1.path.utf8) }
  }
}

/// One reading of a folder's files.
private struct StatusPass {
  let folder: FolderEngine
  let facts: PassFacts
  let root: any Directory
  let walked: WalkResult
  let pausedPull: [EntityID: Bool]
  let pausedDisk: [EntityID: Bool]
  /// Files whose item could not be read yet (F42.1).
  let waiting: [PathBytes: String]
  /// New files the last scan refused.
  let refused: [PathBytes: RefusedFile]
  let bindings: [Binding]
  /// Whether a pass found every file in step, and nothing it decided by changed since (`Quiet`): a file that looks as it
  /// did then is as it was.
  let isQuiet: Bool
  /// Waits of each item, and why a write of it is blocked.
  var waits: [EntityID: Set<FileWait>] = [:]
  /// Files whose item stands elsewhere by now, which could not be taken away.
  var leftovers: [PathBytes: String] = [:]
  var blocked: [EntityID: String] = [:]

  init(
    _ folder: FolderEngine, _ facts: PassFacts, _ root: any Directory, _ walked: WalkResult,
    pausedPull: [EntityID: Bool]
  ) throws {
    self.folder = folder
    self.facts = facts
    self.root = root
    self.walked = walked
    self.pausedPull = pausedPull
    pausedDisk = try folder.store.paused(.disk)
    waiting = try folder.store.waitingFiles()
    refused = try folder.store.refusedFiles()
    isQuiet = try Quiet.standing(folder.store.database) != nil
    // A write a crash cut off is read as the next scan will settle it, and recorded nowhere (X15.6, C9.8).
    var settled: [EntityID: Binding] = [:]
    for binding in try folder.store.bindings() { settled[binding.item] = binding }
    for record in try folder.store.landings() {
      if record.leftoverHash != nil {
        leftovers[record.path] = record.leftoverReason
      } else if let hash = record.hash {
        if case .read(let found) = folder.read(record.path, in: root, keeping: false), found.hash == hash {
          settled[record.binding.item] = record.binding
        }
      } else if case .read = folder.read(record.path, in: root, keeping: false) {
        settled[record.binding.item] = record.binding
      }
    }
    bindings = settled.values.sorted { $0.path < $1.path }
    for write in try folder.copy.queue.undecided() {
      guard let item = try write.itemID ?? blobOwner(write) else { continue }
      if let wait = try wait(of: write) { waits[item, default: []].insert(wait) }
      if write.verdict == .blocked, let refusal = write.refusal {
        blocked[item] = [refusal.code?.string, refusal.message?.string].compactMap { $0 }.joined(separator: ": ")
      }
    }
  }

  private func blobOwner(_ write: QueuedWrite) throws -> EntityID? { try folder.store.write(write.id)?.item }

  private func wait(of write: QueuedWrite) throws -> FileWait? {
    switch write.kind {
    case .createItem: .create
    case .updateItem: .edit
    case .deleteItem: .delete
    case .restoreItem: .restore
    case .transitionItem: .state
    case .addTag, .removeTag: .tag
    case .uploadBlob: .upload
    case .createEdge, .updateEdge, .deleteEdge: try isPlacement(write) ? .placement : .edge
    case .replaceMetadata, .mergeMetadata, .writeExtension, .deleteExtension: .metadata
    }
  }

  /// An `in-folder` edge to this folder's row; any other edge to that row is an edge (F19.2).
  private func isPlacement(_ write: QueuedWrite) throws -> Bool {
    if let mine = try folder.store.write(write.id) { return mine.role == .placement || mine.role == .end }
    return write.targetID == facts.folder && write.body?["edge_type"]?.text == PassFacts.inFolder
  }

  func files() throws -> [FolderFile] {
    var files: [FolderFile] = []
    let live = Dictionary(bindings.filter { $0.missingSince == nil }.map { ($0.path, $0) }) { first, _ in first }
    let found = Dictionary(walked.files.map { ($0.path, $0.status) }) { first, _ in first }
    let held = nameCollisions(walked.files.map(\.path), bound: Set(live.keys))
    for file in walked.files {
      if let reason = leftovers[file.path] {
        files.append(FolderFile(file.path, held: .unwritten, reason))
      } else if let taken = held[file.path] {
        files.append(FolderFile(file.path, held: .name, "\(taken) holds this name in another case or Unicode form"))
      } else if let binding = live[file.path] ?? journaled(at: file.path) {
        files.append(try bound(binding, file))
      } else {
        files.append(unbound(file))
      }
    }
    for binding in bindings where found[binding.path] == nil { files.append(try missing(binding)) }
    return files.sorted { Text($0.path) < Text($1.path) }
  }

  private func journaled(at path: PathBytes) -> Binding? { bindings.first { $0.path == path } }

  /// C9.6: the first that holds decides.
  private func bound(_ binding: Binding, _ file: WalkedFile) throws -> FolderFile {
    let item = binding.item
    if isQuiet, binding.seen?.leavesUnread(file.status) == true,
      binding.identity == file.status.identity.map({ StoredIdentity($0, rootDevice: walked.rootDevice) })
    {
      return FolderFile(file.path, .inStep, item: item)
    }
    let reading: FileReading?
    if case .read(let read) = folder.read(file.path, in: root, keeping: binding.form != .bytes) {
      reading = read
    } else {
      reading = nil
    }
    let changed = reading.map { $0.hash != binding.readHash && $0.hash != binding.writtenHash } ?? false
    var entry: FolderFile
    if try folder.copy.item(item) == nil {
      if changed {
        entry = FolderFile(file.path, .waiting, item: item, waits: [.scan])
      } else if binding.agreed == nil, let refusal = binding.refusals.last {
        // A create that was refused: its item never was (F38.3, F47.2).
        entry = FolderFile(file.path, held: .lost, refusal.reason, item: item)
      } else if let refusal = binding.refusals.last, try !folder.copy.isPurged(item) {
        entry = FolderFile(file.path, held: .refused, refusal.reason, item: item)
      } else if pausedPull[item] != nil {
        entry = removal(file.path, item)
      } else {
        entry = FolderFile(file.path, held: .lost, lostReason(purged: try folder.copy.isPurged(item)), item: item)
      }
    } else if pausedPull[item] != nil {
      entry = removal(file.path, item)
    } else if reading == nil {
      entry = FolderFile(file.path, held: .unreadable, "it cannot be read", item: item)
    } else if let hold = binding.hold, !changed || hold.flag == .emptied || reading?.hash == binding.heldHash {
      entry = FolderFile(file.path, held: hold.flag, hold.reason, item: item)
    } else if let refusal = binding.refusals.last {
      entry = FolderFile(file.path, held: .refused, refusal.reason, item: item)
    } else if changed || binding.setAside != nil || waits[item] != nil {
      entry = FolderFile(file.path, .waiting, item: item, waits: waits[item] ?? [.scan])
      if changed { entry.waits = ([.scan] + entry.waits.filter { $0 != .scan }) }
      if let reason = blocked[item] {
        entry.flag = Flag.credentialRefused.rawValue
        entry.reason = reason
      }
    } else if binding.unmatched {
      entry = FolderFile(file.path, .unmatched, item: item)
    } else {
      entry = FolderFile(file.path, .inStep, item: item)
    }
    if entry.flag == nil, let reason = binding.refusedDefaults.last {
      entry.flag = Flag.defaultEdgeRefused.rawValue
      entry.reason = reason
    }
    if binding.form != .bytes, let bytes = reading?.bytes { warn(&entry, bytes) }
    return entry
  }

  private func removal(_ path: PathBytes, _ item: EntityID) -> FolderFile {
    let purged = pausedPull[item] ?? pausedDisk[item] ?? false
    return FolderFile(
      path, held: .removal,
      purged
        ? "a large removal waits: its item was purged; confirm takes the file away"
        : "a large removal waits: confirm lets it go, restore puts it back", item: item)
  }

  /// C9.7.
  private func unbound(_ file: WalkedFile) -> FolderFile {
    guard let kind = DocumentKind(name: file.path) else {
      if file.status.size == 0 {
        return outside(file.path, .empty, "an empty file is not sent")
      }
      if let refused = refused[file.path], case .read(let reading) = folder.read(file.path, in: root, keeping: false),
        reading.hash == refused.hash
      {
        return FolderFile(file.path, held: .refused, refused.reason)
      }
      return facts.holds(type: facts.fileType(of: file.path))
        ? FolderFile(file.path, .waiting, waits: [.scan])
        : outside(file.path, .search, "the folder's search holds no type this file would be")
    }
    guard case .read(let reading) = folder.read(file.path, in: root, keeping: true), let bytes = reading.bytes else {
      return FolderFile(file.path, held: .unreadable, "it cannot be read")
    }
    var entry: FolderFile
    switch Document.read(bytes, kind: kind, edges: facts.vocabulary) {
    case .encoding(let reason): entry = FolderFile(file.path, held: .encoding, reason)
    case .unreadable(let held): entry = FolderFile(file.path, held: .unreadable, held.reason)
    case .read(let document):
      if let reason = waiting[file.path] {
        entry = FolderFile(file.path, held: .waiting, reason)
      } else if let reason = facts.refusal(ofNew: document)
        ?? refused[file.path].flatMap({ $0.hash == reading.hash ? $0.reason : nil })
      {
        // Each scan holds it the same way (F9.5), so it waits for the person, not for a scan (N6.1).
        entry = FolderFile(file.path, held: .refused, reason)
      } else {
        entry = FolderFile(file.path, .waiting, waits: [.scan])
      }
    }
    warn(&entry, bytes)
    return entry
  }

  private func outside(_ path: PathBytes, _ flag: Flag, _ reason: String) -> FolderFile {
    var entry = FolderFile(path, .outside)
    entry.flag = flag.rawValue
    entry.reason = reason
    return entry
  }

  private func warn(_ entry: inout FolderFile, _ bytes: [UInt8]) {
    let size = jsonSize(of: bytes)
    if size >= sizeWarningLimit { entry.warning = sizeWarning(size) }
  }

  /// C9.8.
  private func missing(_ binding: Binding) throws -> FolderFile {
    switch walked.reach(of: binding.path, seen: binding.identity) {
    case .link:
      var entry = FolderFile(binding.path, .unreached, item: binding.item)
      entry.flag = Flag.unreadable.rawValue
      entry.reason = Reach.standsForLink
      return entry
    case .leftOut:
      var entry = FolderFile(binding.path, .unreached, item: binding.item)
      let package = walked.directories.first { PathBytes($0.path).contains(binding.path) }
      entry.flag = package?.flag ?? Flag.lists.rawValue
      entry.reason = package?.reason ?? "the folder's lists do not take it"
      return entry
    case .unreadable(let reason), .unmounted(_, let reason):
      var entry = FolderFile(binding.path, .unreached, item: binding.item)
      let directory = walked.directories.first { PathBytes($0.path).contains(binding.path) }
      if case .unreadable = walked.reach(of: binding.path, seen: binding.identity) {
        entry.flag = directory?.flag ?? Flag.unreadable.rawValue
      } else {
        entry.flag = directory?.flag ?? Flag.unmounted.rawValue
      }
      entry.reason = reason
      return entry
    case .looked: break
    }
    if pausedDisk[binding.item] != nil { return removal(binding.path, binding.item) }
    let row = try folder.copy.item(binding.item)
    if row == nil || row?.isTrashed ?? false {
      var entry = FolderFile(binding.path, .waiting, item: binding.item, waits: [.scan])
      entry.flag = Flag.gone.rawValue
      entry.reason = "its item is in the bin or not held here; the next scan lets the file go"
      return entry
    }
    return FolderFile(binding.path, .waiting, item: binding.item, waits: [.delete])
  }
}
