import MarfaBase
import MarfaCopy

/// Settles the folder's records with each verdict, in the transaction that settles the write (F9, F19, F23, F39).
final class Settlement: DrainObserver {
  private let folder: FolderEngine
  /// Placements another machine made or moved first (F19.11): edge, item.
  private(set) var giveWay: [(edge: EntityID, item: EntityID)] = []
  /// Items whose files were to move an edge another machine deleted: it is made anew (F11.29).
  private(set) var losers: Set<EntityID> = []
  /// Changes of edges that another machine changed first: decided anew from what stands now.
  private(set) var overtaken: [(write: EntityID, edge: EntityID, item: EntityID)] = []
  private(set) var conflicts: [ConflictedEdit] = []
  /// Edits of files that landed as they were made, or merged.
  private(set) var landedEdits: [(write: EntityID, item: EntityID)] = []
  /// Edges of placements whose grant is missing, to be withdrawn from the queue.
  private(set) var heldBack: [EntityID] = []
  /// Default edges the server refused, on files otherwise sent (C9.11).
  private(set) var refusedDefaults: [FlaggedFile] = []
  /// Every verdict seen, for the report of a drain that ended with the copy's read view (F9.4, F11.26).
  private var seen: [DrainReport.Entry] = []

  init(_ folder: FolderEngine) { self.folder = folder }

  /// The report of what was seen.
  var report: DrainReport {
    var report = DrainReport()
    report.verdicts = seen
    report.answered = seen.filter { $0.verdict != nil }.count
    return report
  }

  func settled(_ write: QueuedWrite, _ entry: DrainReport.Entry) throws(MarfaError) {
    seen.append(entry)
    do { try settle(write, entry) } catch { throw MarfaError(any: error) }
  }

  private func settle(_ write: QueuedWrite, _ entry: DrainReport.Entry) throws {
    guard let mine = try folder.store.write(write.id), let verdict = entry.verdict else { return }
    switch verdict {
    case .accepted, .merged, .conflicted: try landed(mine, write, entry)
    case .refused: try refused(mine, write, entry)
    case .blocked: try blocked(mine, write, entry)
    case .dead: break
    }
  }

  // MARK: Blocked

  /// A placement whose grant is missing is held back by the folder, not by the queue, so that it goes again by F19.23
  /// alone. Whatever else is blocked waits in the queue; one made on a place that moved gives way after the drain.
  private func blocked(_ mine: FolderWrite, _ write: QueuedWrite, _ entry: DrainReport.Entry) throws {
    guard let edge = write.edgeID else { return }
    // A change of an edge another machine changed first (F-W8's 409).
    if mine.role == .edge, write.blockedReason == .conflictUnresolved { overtaken.append((mine.id, edge, mine.item)) }
    guard mine.role == .placement else { return }
    switch write.blockedReason {
    case .credentialRefused where entry.refusal?.grant != nil:
      try refuse(mine, write, entry)
      heldBack.append(edge)
    default: break
    }
  }

  /// Remembers a placement the server refused, with what it was refused by (F19.23).
  private func refuse(_ mine: FolderWrite, _ write: QueuedWrite, _ entry: DrainReport.Entry) throws {
    let base = try write.edgeID.flatMap { try folder.copy.serverEdge($0) }
    try folder.store.refuse(
      RefusedPlacement(
        item: mine.item, path: PathBytes(mine.detail), key: folder.key?.id, grant: folder.key?.grant,
        settings: try folder.settingsVersion, base: base.map(\.placementBase), reason: reason(entry)))
  }

  private func reason(_ entry: DrainReport.Entry) -> String {
    [entry.refusal?.code?.string, entry.refusal?.message?.string ?? entry.reason?.string].compactMap { $0 }
      .joined(separator: ": ")
  }

  // MARK: Landed

  private func landed(_ mine: FolderWrite, _ write: QueuedWrite, _ entry: DrainReport.Entry) throws {
    let store = folder.store
    try store.unlink(mine.id)
    let twin = write.isTwin(entry)
    if twin, let copy = entry.conflictedCopyID { try store.rememberTwin(copy) }
    let conflicted = entry.verdict == .conflicted && !twin
    if conflicted, let copy = entry.conflictedCopyID { try store.oweEdges(of: copy) }
    if mine.role == .edit, !conflicted { landedEdits.append((write.id, mine.item)) }
    if conflicted, let binding = try store.binding(of: mine.item) {
      conflicts.append(
        ConflictedEdit(
          kind: write.kind.rawValue, path: binding.path, copy: entry.conflictedCopyID,
          fields: entry.mergedFields.map(\.string)))
    }
    let isContent = mine.role == .create || mine.role == .edit
    let version = isContent ? try folder.copy.serverItem(mine.item)?.version : nil
    let answered =
      isContent ? write.answerValue?["item"]?["version"]?.int : nil
    try store.change(mine.item) { binding in
      switch mine.role {
      case .create:
        binding.linesOwed = true
        binding.landed = answered
        binding.standsOn = answered
        binding.refusals.removeAll { $0.change == .edit }
        // What the create came to, not what another device has made of it since.
        binding.agreed = max(binding.agreed ?? 0, answered ?? version ?? 1)
      case .edit:
        binding.linesOwed = true
        binding.landed = entry.verdict == .accepted ? answered : nil
        binding.standsOn = conflicted ? write.baseVersion : answered
        binding.refusals.removeAll { $0.change == .edit }
        for place in binding.spent.indices where binding.spent[place].write == mine.id {
          binding.spent[place].write = nil
        }
        binding.foldSpent()
        // A newer save that collided with this file's own earlier one: the row keeps the earlier value, and the file's
        // words are sent again (F39).
        if conflicted, write.follows != nil { binding.setAside = version ?? binding.agreed }
      case .tag: binding.refusals.removeAll { $0.change == .tag(mine.detail) || $0.change == .untag(mine.detail) }
      case .untag: binding.refusals.removeAll { $0.change == .tag(mine.detail) || $0.change == .untag(mine.detail) }
      case .state:
        binding.refusals.removeAll { if case .state = $0.change { true } else { false } }
      case .edge:
        if let edge = write.edgeID {
          let meaning = write.edgeMeaning
          binding.refusals.removeAll { $0.change == .edge(edge) || (meaning != nil && $0.meaning == meaning) }
        }
      case .upload, .placement, .end, .delete, .restore: break
      }
    }
    if mine.role == .placement { try store.forgetRefusedPlacement(of: mine.item) }
  }

  // MARK: Refused

  private func refused(_ mine: FolderWrite, _ write: QueuedWrite, _ entry: DrainReport.Entry) throws {
    let store = folder.store
    let code = entry.refusal?.code
    let reason = reason(entry)
    // A write refused only because another was is no refusal of its own (F38.6).
    let isOwn = code != nil
    try store.unlink(mine.id)
    switch mine.role {
    case .placement:
      guard isOwn else { return }
      if code == "version_conflict" || isDuplicate(entry) || code == "edge_not_found" {
        if let edge = write.edgeID { giveWay.append((edge, mine.item)) }
        return
      }
      try refuse(mine, write, entry)
    case .restore:
      // Purged elsewhere before the file came back: no copy holds the id it carries (F16.1), so the file is nobody's and
      // the next scan makes a new item of its words, as it does where the purge was heard of before the scan.
      if mine.detail == FolderWrite.returned, code == "item_not_found" { try store.unbind(mine.item) }
    case .end, .delete, .upload: return
    case .edge:
      if code == "edge_not_found", write.kind == .deleteEdge { return }
      if write.kind == .createEdge, isDuplicate(entry), let edge = write.edgeID {
        // Another machine made the same edge first (Q67.2, F11.28): what the file says is so. The edge that stands is met by
        // the next scan, once the catch-up brought it.
        let meaning = write.edgeMeaning
        return try store.change(mine.item) { binding in
          binding.edges.removeAll { $0.edge == edge }
          if let meaning, !binding.unseenEdges.contains(meaning) { binding.unseenEdges.append(meaning) }
          binding.edgesOwed = true
        }
      }
      if !isOwn, let edge = write.edgeID, try folder.copy.bodies.made(write.id) {
        // The edit of the body it was made from was refused: what the file says is decided anew (D91.1).
        return try folder.decideAgain(edge, of: mine.item)
      }
      if !isOwn, write.kind != .createEdge, let edge = write.edgeID {
        // The create it waited for was refused: there is nothing to take away, and what the file names now is decided anew.
        return try folder.decideAgain(edge, of: mine.item)
      }
      if code == "edge_not_found", write.kind == .updateEdge, let edge = write.edgeID {
        let body = write.body
        guard let moved = body?["source_id"]?.text ?? body?["target_id"]?.text, let other = EntityID(moved) else {
          return
        }
        // With the properties the copy held.
        let held = try folder.copy.serverEdge(edge)?.properties ?? JSONObject()
        try store.change(mine.item) { binding in
          guard let place = binding.edges.firstIndex(where: { $0.edge == edge }) else { return }
          let shown = binding.edges.remove(at: place)
          binding.edgesOwed = true
          binding.lostEdges.append(
            LostEdge(
              type: shown.type, isSource: body?["target_id"] != nil, other: other, place: shown.place, properties: held)
          )
        }
        losers.insert(mine.item)
        return
      }
      if mine.detail == FolderWrite.defaultEdge { return try refusedDefault(mine, reason, isOwn: isOwn) }
      guard let edge = write.edgeID else { return }
      // As the server has it: the refused move itself still lies over the copy's.
      let there = try folder.copy.serverEdge(edge) ?? folder.copy.edge(edge)
      try store.change(mine.item) { binding in
        if write.kind == .createEdge { binding.edges.removeAll { $0.edge == edge } }
        if write.kind == .updateEdge, let there,
          let place = binding.edges.firstIndex(where: { $0.edge == edge })
        {
          binding.edges[place].other = there.other(than: mine.item)
        }
        let meaning = write.edgeMeaning ?? there.flatMap(write.meaning(movedFrom:))
        // The same edge refused again is one refusal, whatever id it was tried under.
        if meaning != nil { binding.refusals.removeAll { $0.meaning == meaning } }
        let missing = code == "item_not_found" ? write.otherEnd(than: mine.item) : nil
        binding.refusals.append(FileRefusal(.edge(edge), reason, meaning: meaning, missing: missing))
      }
    case .create:
      try store.change(mine.item) { $0.refusals.append(FileRefusal(.edit, reason)) }
    case .edit:
      try store.change(mine.item) { binding in
        binding.spent.removeAll { $0.write == mine.id }
        binding.refusals.removeAll { $0.change == .edit }
        binding.refusals.append(FileRefusal(.edit, reason, meaning: ContentHash(mine.detail)))
      }
    case .tag:
      guard isOwn else { return }
      try store.change(mine.item) { $0.refusals.append(FileRefusal(.tag(mine.detail), reason)) }
    case .untag:
      guard isOwn else { return }
      try store.change(mine.item) { $0.refusals.append(FileRefusal(.untag(mine.detail), reason)) }
    case .state:
      guard isOwn else { return }
      try store.change(mine.item) { $0.refusals.append(FileRefusal(.state(mine.detail), reason)) }
    }
  }

  /// A default edge nobody takes is told on its file, which is sent and brought current all the same: nothing in the file
  /// asks for the edge, so nothing in it could let a hold go (C9.11, F3.7).
  private func refusedDefault(_ mine: FolderWrite, _ reason: String, isOwn: Bool) throws {
    guard isOwn else { return }
    let told = "default edge \(reason)"
    try folder.store.change(mine.item) { binding in
      if !binding.refusedDefaults.contains(told) { binding.refusedDefaults.append(told) }
    }
    if let binding = try folder.store.binding(of: mine.item) {
      refusedDefaults.append(FlaggedFile(binding.path, .defaultEdgeRefused, told))
    }
  }

  private func isDuplicate(_ entry: DrainReport.Entry) -> Bool {
    entry.refusal?.code == "edge_constraint_violation"
      && entry.refusal?.details?["constraint"]?.text == "duplicate"
  }
}

/// An edit of a file here that the server answered `conflicted` (F71).
package struct ConflictedEdit: Hashable, Sendable {
  package var kind: String
  package var path: PathBytes
  /// The item its text went to.
  package var copy: EntityID?
  /// The copy's file here, once a pull wrote it (F72).
  package var copyPath: PathBytes?
  package var fields: [String]
}

extension Binding {
  /// Keeps one line for all that landed: only the newest counts (F23.6).
  mutating func foldSpent() {
    let landed = spent.filter { $0.write == nil }.map(\.line).max()
    spent.removeAll { $0.write == nil }
    if let landed { spent.insert(SpentLine(line: landed, write: nil), at: 0) }
  }
}

extension QueuedWrite {
  /// Whether an edit collided with nothing but its own words, which another machine had sent first (V8.2): the item holds
  /// what it said, and so does the copy the server made of it (P8.1).
  fileprivate func isTwin(_ entry: DrainReport.Entry) -> Bool {
    guard entry.verdict == .conflicted, kind == .updateItem, !entry.mergedFields.isEmpty, let said = bodyProperties,
      let kept = answer.flatMap({ try? JSON(parsing: $0.bytes) })?["item"]?["properties"]?.object
    else { return false }
    return entry.mergedFields.allSatisfy { said[$0] != nil && kept[$0] == said[$0] }
  }

  /// What the create of an edge says, for telling whether a file still says it (F9.10); nil for any other write.
  fileprivate var edgeMeaning: ContentHash? {
    guard kind == .createEdge, let body, let type = body["edge_type"]?.text,
      let source = body["source_id"]?.text.flatMap({ EntityID($0) }),
      let target = body["target_id"]?.text.flatMap({ EntityID($0) })
    else { return nil }
    return FileRefusal.edgeMeaning(type, from: source, to: target)
  }
}

extension QueuedWrite {
  /// The item that an edge, made or moved for the file of another, was to run to or from; nil for any other write.
  func otherEnd(than item: EntityID) -> EntityID? {
    guard kind == .createEdge || kind == .updateEdge else { return nil }
    let ends = [body?["source_id"], body?["target_id"]].compactMap { $0?.text.flatMap { EntityID($0) } }
    return ends.first { $0 != item }
  }

  /// What a move of an edge asked for; nil for any other write.
  fileprivate func meaning(movedFrom edge: Edge) -> ContentHash? {
    guard kind == .updateEdge, let body else { return nil }
    let source = body["source_id"]?.text.flatMap { EntityID($0) }
    let target = body["target_id"]?.text.flatMap { EntityID($0) }
    guard source != nil || target != nil else { return nil }
    return FileRefusal.edgeMeaning(edge.type, from: source ?? edge.source, to: target ?? edge.target)
  }
}

extension FileRefusal {
  /// The digest of an edge's type and ends.
  static func edgeMeaning(_ type: Text, from source: EntityID, to target: EntityID) -> ContentHash {
    ContentHash(of: Array("\(source) ".utf8) + type.bytes + Array(" \(target)".utf8))
  }
}
