import MarfaBase
import MarfaCopy

/// The writes a file's decision becomes, queued inside the caller's transaction and linked to the file (F9.9, F-W5 to
/// F-W8).
extension FolderEngine {
  /// Queues what a bound document's file asks for.
  func queue(_ decision: EditDecision, of row: Item, into binding: inout Binding) throws {
    if let edit = decision.edit {
      let queued = try copy.queue.updateItem(
        row.id,
        ItemEdit(
          properties: edit.properties, mode: edit.replaces ? .replace : .merge, version: edit.version,
          readAtVersion: edit.readThere, type: edit.retype, tier: edit.tier, occurredAt: edit.occurredAt?.text
        ).ofFile)
      try store.link(FolderWrite(id: queued.id, item: row.id, role: .edit, detail: Text(decision.showed.digest.hex)))
      if let line = decision.spends { binding.spent.append(SpentLine(line: line, write: queued.id)) }
    }
    for tag in decision.tagsRemoved {
      let queued = try copy.queue.removeTag(row.id, tag)
      try store.link(FolderWrite(id: queued.id, item: row.id, role: .untag, detail: tag))
    }
    for tag in decision.tagsAdded {
      let queued = try copy.queue.addTag(row.id, tag)
      try store.link(FolderWrite(id: queued.id, item: row.id, role: .tag, detail: tag))
    }
    if let state = decision.state {
      let queued = try copy.queue.transition(row.id, state)
      try store.link(FolderWrite(id: queued.id, item: row.id, role: .state, detail: state))
    }
  }

  /// Queues this folder's placement of an item at a path: a change of the edge's path, or the edge (F19.8, F19.9). One
  /// that the server refused is not queued again while its key, settings and base stand (F19.23).
  /// - Returns: whether something was queued.
  @discardableResult
  func place(_ item: EntityID, at path: PathBytes) throws -> Bool {
    let edge = try placement(of: item)
    let base = edge.map(\.placementBase)
    if let edge, Self.places(edge, at: path) { return false }
    if let refused = try store.refusedPlacement(of: item) {
      if try stands(refused, at: path, base: base) { return false }
      try store.forgetRefusedPlacement(of: item)
    }
    let properties = members(["path": .string(path.text)])
    let queued: QueuedWrite
    do throws(MarfaError) {
      if let edge {
        guard let update = try copy.queue.updateEdge(edge.id, version: edge.version, properties: properties) else {
          return false
        }
        queued = update
      } else {
        queued = try copy.queue.createEdge(
          EdgeDraft(
            id: context.ids.next(), source: item, target: folderID, type: PassFacts.inFolder, properties: properties))
      }
    } catch {
      guard error.code == .validation, let why = Self.unplaceable(path) else { throw error }
      throw MarfaError.validation("\(error.message): \(why); rename the file")
    }
    try store.link(FolderWrite(id: queued.id, item: item, role: .placement, detail: path.text))
    return true
  }

  /// Why no placement can name a path of this disk (E2.5), so that a person knows it is the name that has to change.
  private static func unplaceable(_ path: PathBytes) -> String? {
    let bytes = path.bytes
    if bytes.contains(UInt8(ascii: "\\")) {
      return "the name \(path) holds a backslash, which other systems take apart"
    }
    if bytes.count > 1, bytes[1] == UInt8(ascii: ":") {
      return "the name \(path) begins as a drive of another system does"
    }
    return path.text.utf16Count > 1024 ? "its path is longer than 1024 characters" : nil
  }

  /// Whether this folder's placement of an item names a path already.
  func isPlaced(_ item: EntityID, at path: PathBytes) throws -> Bool {
    try placement(of: item).map { Self.places($0, at: path) } ?? false
  }

  /// A difference of case or form alone is that file's path (F27.4).
  private static func places(_ edge: Edge, at path: PathBytes) -> Bool {
    guard let held = edge.properties["path"]?.text, case .inside(let there) = PlacementPath(held) else { return false }
    return there == path || there.nameKey == path.nameKey
  }

  private func stands(_ refused: RefusedPlacement, at path: PathBytes, base: Text?) throws -> Bool {
    guard refused.path == path, refused.base == base, try refused.settings == settingsVersion else { return false }
    // A key that cannot be read is taken as unchanged; one unread at the refusal as the key it was refused to (F19.24).
    guard let key, refused.key != nil else { return true }
    return key.id == refused.key && key.grant == refused.grant
  }

  /// Whether a refused placement of an item holds its file where it is (F19.22): until a placement of it lands, this
  /// machine's or another's, which gives the item another base (F19.24).
  func isHeldBack(_ item: EntityID) throws -> Bool {
    guard let refused = try store.refusedPlacement(of: item) else { return false }
    return try refused.base == placement(of: item)?.placementBase
  }

  /// Queues the end of this folder's own placement of an item (F44.16). None where the copy holds no such edge, or an end
  /// of it stands in the queue already (F44.18, F44.21).
  /// - Returns: whether one was queued.
  @discardableResult
  func endPlacement(of item: EntityID) throws -> Bool {
    try store.forgetRefusedPlacement(of: item)
    guard let edge = try placement(of: item) else { return false }
    let standing = try copy.queue.waiting(edge: edge.id)
    if standing.contains(where: { $0.kind == .deleteEdge }) { return false }
    let queued = try copy.queue.deleteEdge(edge.id)
    try store.link(FolderWrite(id: queued.id, item: item, role: .end, detail: edge.id.text))
    return true
  }

  /// The version of the settings in force (F19.23).
  var settingsVersion: Int { get throws { try copy.item(folderID)?.version ?? 0 } }
}

extension Edge {
  /// What a placement is based on: the edge and its version (F19.23).
  var placementBase: Text { Text("\(id) \(version)") }
}

extension FolderStore {
  func refusedPlacement(of item: EntityID) throws(SQLiteError) -> RefusedPlacement? {
    try refusedPlacements().first { $0.item == item }
  }
}
