import MarfaBase

/// The edges that bodies make: `references` for links, `attached-to` for embeds of files (D88 to D96).
///
/// A body that is saved through the copy is read before and after, inside the transaction of its own write; what can be
/// told at once is queued there, any other name waits for a drain, a catch-up or a fill.
package struct BodyEdges {
  static let references: Text = "references"
  static let attachedTo: Text = "attached-to"
  /// Whose the pins of linked rows are (D91.2).
  static let pinOwner: Text = "body"

  let copy: WorkingCopy
  var store: Store { copy.store }
  var queue: WriteQueue { copy.queue }
}

extension WorkingCopy {
  /// The links of the bodies held.
  package var bodies: BodyEdges { BodyEdges(copy: self) }
}

extension BodyEdges {
  // MARK: A body saved

  /// Reads a body that a write changed and queues what the change names. Called inside the write's transaction.
  func changed(of item: EntityID, from before: Text?, to after: Text?, by write: EntityID?) throws(MarfaError) {
    if before == after { return }
    let names = try BodyNames(copy)
    let (old, new) = (BodyReference.all(in: before), BodyReference.all(in: after))
    let (oldTexts, newTexts) = (Set(old.map(\.text)), Set(new.map(\.text)))
    // What went is told by the edges as they stand before anything new is made (D96.2).
    var gone: [(reference: BodyReference, target: EntityID)] = []
    for reference in old where !newTexts.contains(reference.text) {
      if let target = try target(of: reference, in: item, names) { gone.append((reference, target)) }
      try store.read {
        try copy.database.run("DELETE FROM body_name WHERE item = ? AND text = ?", item, reference.text)
      }
    }
    var kept: Set<EntityID> = []
    for reference in new where oldTexts.contains(reference.text) {
      if let target = try target(of: reference, in: item, names) { kept.insert(target) }
    }
    for reference in new where !oldTexts.contains(reference.text) {
      if case .item(let target) = try take(reference, in: item, names, asks: false, by: write) { kept.insert(target) }
    }
    for (reference, target) in gone where !kept.contains(target) {
      try end(reference, in: item, target, by: write)
    }
    try releasePins()
  }

  /// The item a reference named: as recorded, else by the item's own edges.
  func target(of reference: BodyReference, in item: EntityID, _ names: BodyNames) throws(MarfaError) -> EntityID? {
    if let record = try record(of: reference.text, in: item), let target = record.target { return target }
    if case .item(let target)? = try names.nameByEdges(reference, in: item) { return target }
    return nil
  }

  /// Names a reference, queues its edge where it names an item, and records what it came to.
  @discardableResult
  func take(
    _ reference: BodyReference, in item: EntityID, _ names: BodyNames, asks: Bool, by write: EntityID?
  ) throws(MarfaError) -> BodyNaming {
    let naming = try names.name(reference, in: item, asks: asks)
    var record = BodyRecord(item: item, text: reference.text, state: .pending)
    switch naming {
    case .item(let target):
      // An item only the instance holds is pinned before its edge is queued (D91.2).
      if try copy.item(target) == nil { try copy.pin(target, owner: Self.pinOwner) }
      record.state = .named
      record.target = target
      try store.transaction {
        do throws(MarfaError) {
          record.write = try make(reference, in: item, target, by: write)
        } catch {
          switch error.code {
          case .hydrationIncomplete: record.state = .pending
          case .validation, .invalid:
            record.state = .refused
            record.reason = Text(error.message)
          default: throw error
          }
        }
        try save(record)
      }
      return naming
    case .itself:
      record.state = .named
      record.target = item
    case .missing: record.state = .missing
    case .ambiguous: record.state = .ambiguous
    case .text:
      try forget(reference.text, in: item)
      return naming
    case .unknown: break
    }
    record.held = try names.heldCount(reference)
    try save(record)
    return naming
  }

  /// Queues an edge, unless it is held already (D92.1). Its write waits for the body's (D91.1).
  private func make(
    _ reference: BodyReference, in item: EntityID, _ target: EntityID, by write: EntityID?
  ) throws(MarfaError) -> EntityID? {
    guard try edge(reference, item, target) == nil else { return nil }
    let draft =
      reference.embed == nil
      ? EdgeDraft(source: item, target: target, type: Self.references)
      : EdgeDraft(source: target, target: item, type: Self.attachedTo)
    let queued = try queue.createEdge(draft, waitingOn: write.map { [$0] } ?? [])
    try note(queued.id, of: item, by: write)
    return queued.id
  }

  /// Queues the end of the edge a reference named, and of no other (D96.1).
  private func end(
    _ reference: BodyReference, in item: EntityID, _ target: EntityID, by write: EntityID?
  ) throws(MarfaError) {
    guard let edge = try edge(reference, item, target) else { return }
    let queued = try queue.deleteEdge(edge.id, waitingOn: write.map { [$0] } ?? [])
    try note(queued.id, of: item, by: write)
  }

  private func edge(
    _ reference: BodyReference, _ item: EntityID, _ target: EntityID
  ) throws(MarfaError) -> Edge? {
    reference.embed == nil
      ? try copy.edges(from: item, type: Self.references).first { $0.target == target }
      : try copy.edges(from: target, type: Self.attachedTo).first { $0.target == item }
  }

  /// Notes that an edge write was made from a body, and by which write of that body.
  package func note(_ edgeWrite: EntityID, of item: EntityID, by write: EntityID?) throws(MarfaError) {
    try store.read {
      try copy.database.run(
        "INSERT OR REPLACE INTO body_edge (write, item, body) VALUES (?, ?, ?)", edgeWrite, item, write)
    }
  }

  /// Lets the pins of rows go that no body's edge reaches any more (D91.2).
  func releasePins() throws(MarfaError) {
    for id in try copy.pins(owner: Self.pinOwner) {
      guard try copy.edges(to: id, type: Self.references).isEmpty,
        try copy.edges(from: id, type: Self.attachedTo).isEmpty
      else { continue }
      try copy.unpin(id, owner: Self.pinOwner)
    }
  }

  // MARK: What became of the writes

  /// Whether an edge write was made from a body.
  package func made(_ write: EntityID) throws(MarfaError) -> Bool {
    try store.read { try copy.database.one("SELECT 1 FROM body_edge WHERE write = ?", write) { _ in true } ?? false }
  }

  /// The edge writes made from a body whose write lost it leave the queue unsent (D94.1, Q67.1). Returns them.
  func lost(_ body: EntityID, of item: EntityID) throws(MarfaError) -> [QueuedWrite] {
    let ids = try store.read {
      try copy.database.all("SELECT write FROM body_edge WHERE body = ?", body) { $0.id(0) }.compactMap { $0 }
    }
    var taken: [QueuedWrite] = []
    for id in ids {
      guard let write = try queue.table.entry(id), !write.sent, write.isWaiting else { continue }
      try queue.table.remove(write)
      try queue.reproject(write)
      taken.append(write)
    }
    // What the kept body names is told anew by its own edges.
    try store.read {
      try copy.database.run("DELETE FROM body_edge WHERE body = ?", body)
      try copy.database.run("DELETE FROM body_name WHERE item = ?", item)
    }
    return taken
  }

  /// The write of a body was queued anew: the edge writes made from it are that one's.
  package func moved(_ write: EntityID, to anew: EntityID) throws(MarfaError) {
    try store.read { try copy.database.run("UPDATE body_edge SET body = ? WHERE body = ?", anew, write) }
  }

  /// A create landed on another row: what its body names is that row's (D88.1).
  func moved(from minted: EntityID, to landed: EntityID) throws(MarfaError) {
    try store.read {
      try copy.database.run("UPDATE OR REPLACE body_name SET item = ? WHERE item = ?", landed, minted)
      try copy.database.run("UPDATE body_edge SET item = ? WHERE item = ?", landed, minted)
    }
  }
}
