import MarfaBase

/// The queue of local writes: keeps them, shows them over the copy, sends them in order and records what became of each.
///
///     let write = try copy.queue.updateItem(id, ItemEdit(properties: ["title": "New"], version: item.version))
///     let report = try copy.queue.drain()
///
/// Every call runs inside the caller's open transaction where there is one, so that a write and what a folder records of it
/// commit together. Used from one thread.
package final class WriteQueue {
  let copy: WorkingCopy
  let table: QueueTable
  /// One drain at a time (Q49.1), whichever queue value of the copy asks.
  var turn: DrainTurn { copy.drainTurn }
  var store: Store { copy.store }
  var context: Context { copy.context }

  init(copy: WorkingCopy) {
    self.copy = copy
    table = QueueTable(database: copy.database)
  }

  // MARK: Reading

  /// One entry, or nil.
  package func write(_ id: EntityID) throws(MarfaError) -> QueuedWrite? { try table.entry(id) }

  /// Every entry in queue order, answered ones with their verdicts.
  package func all() throws(MarfaError) -> [QueuedWrite] { try table.all() }

  /// The entries without a verdict and the blocked ones, in queue order.
  package func undecided() throws(MarfaError) -> [QueuedWrite] {
    try table.all("verdict IS NULL") + (try table.all("verdict = 'blocked'"))
  }

  /// The writes of an item no server took yet: without a verdict, `blocked` or `dead`.
  package func waiting(item id: EntityID) throws(MarfaError) -> [QueuedWrite] {
    try table.all("item = ? AND edge IS NULL AND \(WriteQueue.waits)", id)
  }

  /// The same of an edge.
  package func waiting(edge id: EntityID) throws(MarfaError) -> [QueuedWrite] {
    try table.all("edge = ? AND \(WriteQueue.waits)", id)
  }

  /// How many writes have no verdict or are held behind one (Q24.4).
  package func unansweredCount() throws(MarfaError) -> Int {
    try table.count("verdict IS NULL OR (verdict = 'blocked' AND reason = 'awaiting_dependency')")
  }

  /// How many writes are blocked for a reason of their own.
  package func blockedCount() throws(MarfaError) -> Int {
    try table.count("verdict = 'blocked' AND reason <> 'awaiting_dependency'")
  }

  /// How many writes the server has not taken: waiting, blocked, refused and dead (Q63.7).
  package func unsentCount() throws(MarfaError) -> Int {
    try table.count("verdict IS NULL OR verdict IN ('blocked', 'dead', 'refused')")
  }

  static let waits = "(verdict IS NULL OR verdict IN ('blocked', 'dead'))"
  /// Waiting, or answered with the read after it owed: still laid over its row.
  static let laidOver = "(verdict IS NULL OR verdict IN ('blocked', 'dead') OR owed_read = 1)"
  /// What a later write to the same row follows (Q42.1).
  static let counts = "(verdict IS NULL OR verdict IN ('refused', 'blocked', 'dead'))"

  // MARK: Appending

  /// Runs a queueing call: in the caller's transaction, or in one of its own.
  func queueing<Value>(_ work: () throws -> Value) throws(MarfaError) -> Value {
    try copy.requireWriter()
    return try store.transaction(work)
  }

  /// A fresh entry of a kind, its id and key minted (Q3.1).
  func entry(_ kind: WriteKind) -> QueuedWrite {
    QueuedWrite(
      id: context.ids.next(), kind: kind, idempotencyKey: context.ids.next().text, queuedAt: context.clock.now)
  }

  /// Puts an entry behind the writes it waits for, stores it and shows it.
  func append(_ made: QueuedWrite, waitingOn more: [EntityID] = []) throws(MarfaError) -> QueuedWrite {
    var write = made
    try order(&write, waitingOn: more)
    write = try rebasedOnOwedAnswers(write)
    write = try table.insert(write)
    try layLast(write)
    return write
  }

  /// Lays a write over its row that stands last in the queue: what is shown is what was shown with it laid over, and the
  /// writes before it need not be read again.
  private func layLast(_ write: QueuedWrite) throws(MarfaError) {
    guard !write.kind.isEdgeWrite, write.kind != .uploadBlob, let item = write.itemID else {
      return try reproject(write)
    }
    let types = try overlayTypes()
    try store.layOver(item: item) { Overlay.item($0, [write], types: types) }
  }

  /// Sets `depends_on` and `follows` (Q4.1 to Q4.5, Q42.1).
  private func order(_ write: inout QueuedWrite, waitingOn more: [EntityID]) throws(MarfaError) {
    var waits = more
    func wait(for dependency: EntityID?) { if let dependency, !waits.contains(dependency) { waits.append(dependency) } }
    switch write.kind {
    case .createItem:
      for (_, targets) in write.inlineEdges { for target in targets { wait(for: try waitingCreate(item: target)) } }
      write.follows = try writeAheadOfKeyedCreate(write)
    case .createEdge:
      for end in [write.itemID, write.targetID] { if let end { wait(for: try waitingCreate(item: end)) } }
    case .updateEdge, .deleteEdge:
      if let edge = write.edgeID {
        wait(for: try waitingCreate(edge: edge))
        write.follows = try table.all("edge = ? AND \(WriteQueue.counts)", edge).last?.id
      }
      for member: Text in ["source_id", "target_id"] {
        if let end = write.body?[member]?.text.flatMap({ EntityID($0) }) { wait(for: try waitingCreate(item: end)) }
      }
    case .updateItem, .deleteItem, .restoreItem, .transitionItem, .replaceMetadata, .mergeMetadata, .addTag, .removeTag,
      .writeExtension, .deleteExtension:
      if let item = write.itemID {
        wait(for: try waitingCreate(item: item))
        write.follows = try writeAhead(item: item)
      }
    case .uploadBlob: break
    }
    write.dependsOn = waits
  }

  /// This device's create of an item while it has no verdict, is blocked or dead, or landed on a row no read found.
  func waitingCreate(item id: EntityID) throws(MarfaError) -> EntityID? {
    try table.last("item = ? AND kind = 'create_item' AND (\(WriteQueue.waits) OR landed IS NOT NULL)", id)?.id
  }

  private func waitingCreate(edge id: EntityID) throws(MarfaError) -> EntityID? {
    try table.last("edge = ? AND kind = 'create_edge' AND \(WriteQueue.waits)", id)?.id
  }

  /// The latest write to an item that counts, a keyed create of its key among them (Q42.6).
  private func writeAhead(item id: EntityID) throws(MarfaError) -> EntityID? {
    let own = try table.last("item = ? AND edge IS NULL AND \(WriteQueue.counts)", id)
    guard let (source, key) = try store.naturalKey(of: id) else { return own?.id }
    let keyed = try keyedCreates(source: source, sourceID: key).last
    guard let keyed, keyed.itemID != id, keyed.seq > own?.seq ?? 0 else { return own?.id }
    return keyed.id
  }

  /// The latest write to the row a keyed create's key names, which is held under another id (Q42.5).
  private func writeAheadOfKeyedCreate(_ create: QueuedWrite) throws(MarfaError) -> EntityID? {
    guard let key = create.body?["source_id"]?.text else { return nil }
    let ahead = try keyedCreates(source: create.body?["source"]?.text, sourceID: key).last
    guard let row = try heldRow(source: create.body?["source"]?.text, sourceID: key), row.id != create.itemID else {
      return ahead?.id
    }
    let own = try table.all("item = ? AND edge IS NULL AND \(WriteQueue.counts)", row.id).last
    return (own?.seq ?? 0) > (ahead?.seq ?? 0) ? own?.id : ahead?.id
  }

  /// Creates of a natural key that count, in queue order.
  func keyedCreates(source: Text?, sourceID: Text) throws(MarfaError) -> [QueuedWrite] {
    try table.all(
      "kind = 'create_item' AND \(WriteQueue.counts) AND json_extract(body, '$.source_id') = ? AND (? IS NULL OR coalesce(json_extract(body, '$.source'), ?) = ?)",
      sourceID, source, source, source)
  }

  /// The shown row a natural key names.
  func heldRow(source: Text?, sourceID: Text) throws(MarfaError) -> Item? {
    let id = try store.read {
      try store.database.one(
        "SELECT id FROM item WHERE source_id = ? AND (? IS NULL OR source = ?) AND version > 0", sourceID, source,
        source
      ) { $0.id(0) }
    }
    guard let id, let id else { return nil }
    return try store.item(id)
  }

  /// An edit queued after a write of this device's was answered, but before the copy took the row, was made on that answer:
  /// it gets the base it would have had behind the write (Q36.5, QD4). So does an edit queued after one that is blocked: the
  /// copy shows that one's values, which the server never took (Q42.14). A dead one may have landed (F23.9).
  private func rebasedOnOwedAnswers(_ write: QueuedWrite) throws(MarfaError) -> QueuedWrite {
    let ahead: [QueuedWrite]
    switch write.kind {
    case .updateItem:
      guard let item = write.itemID else { return write }
      ahead = try table.all("item = ? AND edge IS NULL AND (owed_read = 1 OR verdict = 'blocked')", item)
    case .deleteItem:
      guard let item = write.itemID else { return write }
      ahead = try table.all("item = ? AND edge IS NULL AND owed_read = 1", item)
    case .updateEdge:
      guard let edge = write.edgeID else { return write }
      ahead = try table.all("edge = ? AND (owed_read = 1 OR verdict = 'blocked')", edge)
    case .createItem, .restoreItem, .transitionItem, .createEdge, .deleteEdge, .replaceMetadata, .mergeMetadata,
      .addTag,
      .removeTag, .writeExtension, .deleteExtension, .uploadBlob:
      return write
    }
    return ahead.reduce(write) { later, ahead in
      switch ahead.verdict {
      case .blocked where ahead.blockedReason == .credentialRefused || ahead.blockedReason == .awaitingDependency:
        return later
      case .blocked: return Rebase.after(.init(write: ahead, outcome: .unlanded), later)
      default: break
      }
      guard let verdict = ahead.verdict, verdict.isSuccess, let row = ahead.answeredRow else { return later }
      return Rebase.after(
        .init(write: ahead, outcome: .success(verdict, row, repeated: ahead.isRepeatAnswer)), later)
    }
  }

  /// The latest version an answer named for an item whose read is still owed.
  func answeredVersion(item id: EntityID) throws(MarfaError) -> Int? {
    try table.all("item = ? AND edge IS NULL AND owed_read = 1", id).compactMap(\.answeredVersion).max()
  }

  /// The same of an edge.
  func answeredVersion(edge id: EntityID) throws(MarfaError) -> Int? {
    try table.all("edge = ? AND owed_read = 1", id).compactMap(\.answeredVersion).max()
  }

  /// Lays the row's or the edge's writes over it anew.
  func reproject(_ write: QueuedWrite) throws(MarfaError) {
    if write.kind.isEdgeWrite {
      if let edge = write.edgeID { try store.reproject(edge: edge) }
    } else if write.kind != .uploadBlob, let item = write.itemID {
      try store.reproject(item: item)
    }
  }
}

extension WriteQueue: Projection {
  package func hasWaiting(item: EntityID) throws(MarfaError) -> Bool {
    try table.has("item = ? AND edge IS NULL AND \(WriteQueue.laidOver)", item)
  }

  package func hasWaiting(edge: EntityID) throws(MarfaError) -> Bool {
    try table.has("edge = ? AND \(WriteQueue.laidOver)", edge)
  }

  package func shown(item: EntityID, base: Item?) throws(MarfaError) -> Item? {
    let writes = try table.all("item = ? AND edge IS NULL AND \(WriteQueue.laidOver)", item)
    return Overlay.item(base, writes, types: try overlayTypes())
  }

  package func shown(edge: EntityID, base: Edge?) throws(MarfaError) -> Edge? {
    Overlay.edge(base, try table.all("edge = ? AND \(WriteQueue.laidOver)", edge))
  }

  package func waitingItems() throws(MarfaError) -> [EntityID] {
    try ids("SELECT DISTINCT item FROM queue WHERE item IS NOT NULL AND edge IS NULL AND \(WriteQueue.laidOver)")
  }

  package func waitingEdges() throws(MarfaError) -> [EntityID] {
    try ids("SELECT DISTINCT edge FROM queue WHERE edge IS NOT NULL AND \(WriteQueue.laidOver)")
  }

  private func ids(_ sql: String) throws(MarfaError) -> [EntityID] {
    try store.read { try store.database.all(sql) { $0.id(0) }.compactMap { $0 } }
  }

  func overlayTypes() throws(MarfaError) -> Overlay.Types {
    let catalog = try store.catalog()
    return Overlay.Types(
      fields: { catalog.type($0)?.fields.map { ($0.name, $0.isRequired) } },
      version: { catalog.type($0)?.definition["version"]?.int })
  }
}

extension QueuedWrite {
  /// The edges a create carries inside (Q33.4).
  var inlineEdges: [(type: Text, targets: [EntityID])] {
    (body?["edges"]?.object?.members ?? []).map { member in
      (member.key, (member.value.array ?? []).compactMap { $0.text.flatMap { EntityID($0) } })
    }
  }

  /// The row a kept success answer holds.
  var answeredRow: Rebase.Ahead.Row? {
    guard let answer = answerValue else { return nil }
    return Rebase.Ahead.Row(answer: answer)
  }

  /// Whether the kept answer says it wrote nothing because it had been written before.
  var isRepeatAnswer: Bool {
    answerValue?["acknowledged"]?.bool == true
  }
}

extension Rebase.Ahead.Row {
  /// The item or edge of a success answer.
  init?(answer: JSON) {
    guard let members = answer["item"] ?? answer["edge"], let version = members["version"]?.int else { return nil }
    self.init(version: version, members: members)
  }
}
