import MarfaBase

/// Which writes may be out at once (Q9.11): those between which the server cannot tell an order. Pure.
///
/// `follows` and `depends_on` order writes to one row. What they don't see is a row another write turns on: an edge whose end
/// is being restored, a second edge at an end that holds one, a trash that takes a whole tree with it. Sent one by one in
/// queue order such writes are taken; sent together the later could arrive first and be refused for good.
struct Lanes {
  /// The edge type of an edge write.
  let edgeType: (QueuedWrite) throws(MarfaError) -> EdgeType?
  /// Whether a move of the item into or out of the bin takes others with it.
  let cascades: (EntityID) throws(MarfaError) -> Bool

  /// Whether a write goes alone: nothing else out, and nothing later before it.
  func goesAlone(_ write: QueuedWrite) throws(MarfaError) -> Bool {
    switch write.kind {
    case .restoreItem, .transitionItem: return true
    case .deleteItem: return try write.itemID.map { (id) throws(MarfaError) in try cascades(id) } ?? false
    case .createItem, .updateItem, .createEdge, .updateEdge, .deleteEdge, .replaceMetadata, .mergeMetadata, .addTag,
      .removeTag, .writeExtension, .deleteExtension, .uploadBlob:
      return false
    }
  }

  /// Whether a later write must wait for an earlier one that is out.
  func ordered(_ earlier: QueuedWrite, _ later: QueuedWrite) throws(MarfaError) -> Bool {
    switch (earlier.kind.isEdgeWrite, later.kind.isEdgeWrite) {
    case (false, false): return false
    case (true, true): return try edges(earlier, later)
    case (true, false): return changesEnds(later) && touches(earlier, later.itemID)
    case (false, true): return changesEnds(earlier) && touches(later, earlier.itemID)
    }
  }

  /// Whether an item write decides what edges at the item are allowed: its place in or out of the bin, or its type.
  private func changesEnds(_ write: QueuedWrite) -> Bool {
    switch write.kind {
    case .deleteItem, .restoreItem, .transitionItem: true
    case .updateItem: write.body?["type"] != nil
    case .createItem, .createEdge, .updateEdge, .deleteEdge, .replaceMetadata, .mergeMetadata, .addTag, .removeTag,
      .writeExtension, .deleteExtension, .uploadBlob:
      false
    }
  }

  private func touches(_ edge: QueuedWrite, _ item: EntityID?) -> Bool { item.map(edge.edgeEnds.contains) ?? false }

  private func edges(_ one: QueuedWrite, _ other: QueuedWrite) throws(MarfaError) -> Bool {
    let type = try edgeType(one)
    let otherType = try edgeType(other)
    guard let type, let otherType else { return true }
    guard type.id == otherType.id else { return false }
    // Two new edges of the two types that know circles close one in either order or in none.
    let bothNew = one.kind == .createEdge && other.kind == .createEdge
    if !bothNew, type.id == "parent-of" || type.id == "supersedes" { return true }
    let (sources, targets) = (
      one.edgeSources.intersection(other.edgeSources), one.edgeTargets.intersection(other.edgeTargets)
    )
    return (!sources.isEmpty && !targets.isEmpty) || (!sources.isEmpty && type.cardinality.sourceHasOne)
      || (!targets.isEmpty && type.cardinality.targetHasOne)
  }
}

extension QueuedWrite {
  /// The sources an edge write leaves or reaches.
  var edgeSources: Set<EntityID> {
    Set([itemID, body?["source_id"]?.text.flatMap { EntityID($0) }].compactMap { $0 })
  }

  /// The targets it leaves or reaches.
  var edgeTargets: Set<EntityID> {
    Set([targetID, body?["target_id"]?.text.flatMap { EntityID($0) }].compactMap { $0 })
  }

  /// Both.
  var edgeEnds: Set<EntityID> { edgeSources.union(edgeTargets) }

  /// The version the answer gave the row, where it gave one.
  package var answeredVersion: Int? { answeredRow?.version }
}
