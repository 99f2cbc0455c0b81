import MarfaBase
import MarfaCopy

/// A file that came from another folder of this machine with no id of its own (F43.2).
struct Arrival {
  let item: EntityID
  /// The binding of the folder it left, as a start for this folder's; nil of a file that comes back from the bin.
  let seed: Binding?
  /// Its name there.
  let name: PathBytes
  let form: FileForm
}

/// Files that came here from other folders of this machine (F42, F43.2).
extension ScanPass {
  /// What an id means that no binding here has (F42, F16).
  /// - Returns: the item whose file it is; nil for a new item, and for one that waits (`waitingFiles`).
  func carried(_ index: Int, _ id: EntityID) throws -> EntityID? {
    var row = try folder.copy.item(id)
    if row == nil, mode.asksServer, !absent.contains(id), try folder.store.fact(.suspect) != nil {
      // A restored store does not know which items its files were bound to: the server does (P3.2).
      if try isRead(id, index, from: nil) { row = try folder.copy.item(id) }
      if waitingFiles[index] != nil { return nil }
    }
    if let row, row.isTrashed, !facts.isFileItem(row.type), try restores(id) { return id }
    if let row, !isDocument(row) { return nil }
    let searchHolds = try row != nil && folder.copy.matches(id, facts.search)
    if searchHolds { return id }
    guard try !others().isEmpty else { return row == nil ? nil : id }
    let holder = try others().copyHolding(id)
    let verdict = judgeCarried(
      othersCarry: try others().carry(id), searchHolds: false, copyHolds: row != nil,
      anotherCopyHolds: holder != nil)
    // A folder that cannot be looked into may hold the original, or the item.
    if verdict != .copy, verdict != .movedHere, let closed = try others().closed {
      waitingFiles[index] = "whether it was moved or copied cannot be told: \(closed)"
      return nil
    }
    // So may a file of one that can be, where it is the item's own there and cannot be read.
    if verdict != .copy, let unread = try others().unreadOwn(of: id) {
      waitingFiles[index] = "whether it was moved or copied cannot be told: \(unread)"
      return nil
    }
    switch verdict {
    case .itemsFile: return id
    case .copy, .noID: return nil
    case .movedHere: return try isRead(id, index, from: holder) ? id : nil
    }
  }

  /// Asks the server at once which of the ids that files name and nothing here holds it has, where each would be read alone
  /// (P8.1, P6.4).
  func askForCarried() throws {
    guard mode.asksServer, folder.copy.server.endpoint != nil, try folder.store.fact(.suspect) != nil else { return }
    var asked: Set<EntityID> = []
    for file in files where !file.isSkipped && !file.isUnread && !file.isUnchanged {
      guard let id = file.carriedID, id != facts.folder, bindings[id] == nil, try folder.copy.item(id) == nil else {
        continue
      }
      asked.insert(id)
    }
    guard asked.count > 1 else { return }
    do throws(MarfaError) {
      absent = asked.subtracting(try folder.copy.server.bulkGet(asked.sorted()).map(\.id))
    } catch {
      // Each is asked for alone then, and says itself why it cannot be read.
      if error.code == .canceled || error.exit == 5 { throw error }
    }
  }

  /// Whether a row is one whose file can carry its id.
  private func isDocument(_ row: Item) -> Bool {
    !row.isTrashed && !facts.isFileItem(row.type) && !row.type.bytes.starts(with: "system.".utf8)
  }

  /// Reads an item that another folder's file brought here, and pins it (F42). Where it cannot be read now the file waits
  /// (F42.1); an item the server does not show makes a new one (F42.2).
  private func isRead(_ item: EntityID, _ index: Int, from other: OtherFolder?) throws -> Bool {
    if let row = try folder.copy.item(item) { return !row.isTrashed }
    if other?.awaitsCreate(item) ?? false {
      waitingFiles[index] = "its item waits to be sent by the folder at \(other?.dir ?? .empty), which it came from"
      return false
    }
    guard mode.asksServer, folder.copy.server.endpoint != nil else {
      waitingFiles[index] = "its item is not read yet; the next push reads it"
      return false
    }
    do throws(MarfaError) {
      try folder.copy.pin(item, owner: Pin.file)
      return try folder.copy.item(item).map { !$0.isTrashed } ?? false
    } catch {
      if error.code == .notFound || error.code == .forbidden { return false }
      if error.code == .canceled || error.exit == 5 { throw error }
      waitingFiles[index] = "its item cannot be read now: \(error.message)"
      return false
    }
  }

  /// Finds the items of files that carry no id and that no binding here names (F43.2).
  func findArrivals() throws {
    let candidates = files.indices.filter(mayHaveArrived)
    guard !candidates.isEmpty, try !others().isEmpty else { return }
    var claimed: Set<EntityID> = []
    for index in candidates {
      try folder.checkStop()
      let file = files[index]
      let isDocument = DocumentKind(name: file.path) != nil
      let left = try others().left(identity: file.status.identity, size: file.status.size) {
        file.hash ?? hashOfSkipped(index)
      }
      // One missed here since it went to that folder comes back from there (F21.3).
      guard let left, bindings[left.binding.item].map({ !foundPaths.contains($0.path) }) ?? true,
        left.binding.form == .bytes || isDocument, !claimed.contains(left.binding.item)
      else { continue }
      let item = left.binding.item
      // Words that only that folder's queue holds are sent by it first: sent twice, they would be two copies.
      if left.other.hasUnsent(item, but: [.placement, .end, .upload]) {
        waitingFiles[index] = "changes of it wait to be sent by the folder at \(left.other.dir), which it came from"
        continue
      }
      guard try isRead(item, index, from: left.other), let row = try folder.copy.item(item),
        facts.isFileItem(row.type) == (left.binding.form == .bytes)
      else { continue }
      claimed.insert(item)
      arrivals[index] = Arrival(
        item: item, seed: left.binding.carriedOver(to: file.path), name: left.binding.path.name,
        form: left.binding.form == .bytes ? .bytes : FileForm(documentName: file.path) ?? left.binding.form)
      if left.binding.form == .bytes { try readArrived(index) }
    }
  }

  func mayHaveArrived(_ index: Int) -> Bool {
    let file = files[index]
    guard !file.isGone, !file.isUnread, !file.isUnchanged, file.failure == nil, file.carriedID == nil,
      waitingFiles[index] == nil, arrivals[index] == nil, boundPaths[file.path] == nil
    else { return false }
    guard let identity = identity(of: file) else { return true }
    return !boundIdentities.contains(identity)
  }

  private func hashOfSkipped(_ index: Int) -> ContentHash? {
    guard files[index].status.size > 0,
      case .read(let reading) = folder.read(files[index].path, in: root, keeping: false)
    else { return nil }
    return reading.hash
  }

  /// A file the folder would pass over is read once it is known to be a file item's (F29.1).
  private func readArrived(_ index: Int) throws {
    files[index].isBytes = true
    files[index].isSkipped = false
    files[index].reading = nil
    guard case .read(let reading) = folder.read(files[index].path, in: root, keeping: false) else { return }
    files[index].status = reading.status
    files[index].hash = reading.hash
    if !reading.isSettled { files[index].settles = true }
  }

  /// Gives arrivals their items, where nothing here has a better claim.
  func settleArrivals() {
    var owned = Set(files.compactMap { if case .item(let item) = $0.owner { item } else { nil } })
    for (index, arrival) in arrivals.sorted(by: { $0.key < $1.key }) {
      guard files[index].owner == .new, owned.insert(arrival.item).inserted else { continue }
      files[index].owner = .item(arrival.item)
      arrived[arrival.item] = arrival
    }
  }
}

extension Binding {
  /// The binding of a file that lies in another folder now: what it agreed on goes with it, what is of the directory and of
  /// the queue it left does not.
  func carriedOver(to path: PathBytes) -> Binding {
    var binding = self
    binding.path = path
    binding.identity = nil
    binding.seen = nil
    binding.missingSince = nil
    binding.hold = nil
    binding.unmatched = false
    binding.setAside = nil
    binding.refusals = []
    binding.refusedDefaults = []
    binding.unseenEdges = []
    binding.spent.removeAll { $0.write != nil }
    binding.linesOwed = false
    binding.filled = JSONObject()
    binding.broughtByHand = false
    return binding
  }
}
