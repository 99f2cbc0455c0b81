import MarfaBase

/// Where a write stands among those that are out (Q9.11): what the server must see in the order of the queue. Pure.
///
/// `follows` and `depends_on` order writes to one row. What they don't see is a row another write turns on: an edge whose end
/// is being restored, a second edge at an end that holds one, a trash that takes a whole tree with it. Sent one by one in
/// queue order such writes are taken; sent together the later could arrive first and be refused for good.
struct Lane {
  /// The edge's type; nil for an item write, and for an edge whose type is not known here.
  var edgeType: EdgeType?
  /// Whether it is a write to an edge.
  var isEdge: Bool
  /// Whether it makes the edge.
  var isNew: Bool
  /// The sources the edge leaves or reaches.
  var sources: Set<EntityID> = []
  /// The targets it leaves or reaches.
  var targets: Set<EntityID> = []
  /// The item, where the write decides what edges at it are allowed: its place in or out of the bin, or its type.
  var turns: EntityID?
  /// Whether it goes alone: nothing else out, and nothing later before it.
  var isAlone: Bool

  /// The lane of a write.
  /// - Parameters:
  ///   - edgeType: the type of the edge it writes.
  ///   - cascades: whether a move of the item into the bin takes others with it.
  init(_ write: QueuedWrite, edgeType: EdgeType?, cascades: Bool) {
    self.edgeType = edgeType
    isEdge = write.kind.isEdgeWrite
    isNew = write.kind == .createEdge
    switch write.kind {
    case .restoreItem, .transitionItem:
      turns = write.itemID
      isAlone = true
    case .deleteItem:
      turns = write.itemID
      isAlone = cascades
    case .updateItem:
      turns = write.body?["type"] == nil ? nil : write.itemID
      isAlone = false
    case .createEdge, .updateEdge, .deleteEdge:
      let body = write.body
      sources = Set([write.itemID, body?["source_id"]?.text.flatMap { EntityID($0) }].compactMap { $0 })
      targets = Set([write.targetID, body?["target_id"]?.text.flatMap { EntityID($0) }].compactMap { $0 })
      isAlone = false
    case .createItem, .replaceMetadata, .mergeMetadata, .addTag, .removeTag, .writeExtension, .deleteExtension,
      .uploadBlob:
      isAlone = false
    }
  }

  /// Whether a later write must wait for this one while it is out.
  func comesBefore(_ later: Lane) -> Bool {
    switch (isEdge, later.isEdge) {
    case (false, false): return false
    case (true, false): return later.turns.map { sources.contains($0) || targets.contains($0) } ?? false
    case (false, true): return turns.map { later.sources.contains($0) || later.targets.contains($0) } ?? false
    case (true, true):
      guard let edgeType, let other = later.edgeType else { return true }
      guard edgeType.id == other.id else { return false }
      // Two new edges of the types that know circles close one in either order or in none.
      if !(isNew && later.isNew), edgeType.id == "parent-of" || edgeType.id == "supersedes" { return true }
      let (sameSource, sameTarget) = (
        !sources.isDisjoint(with: later.sources), !targets.isDisjoint(with: later.targets)
      )
      return (sameSource && sameTarget) || (sameSource && edgeType.cardinality.sourceHasOne)
        || (sameTarget && edgeType.cardinality.targetHasOne)
    }
  }
}

extension QueuedWrite {
  /// The version the answer gave the row, where it gave one.
  package var answeredVersion: Int? { answeredRow?.version }
}
