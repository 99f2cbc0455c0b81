import MarfaBase

/// Which read a row or an edge the copy was brought saves (Q9.10, Q12.5).
///
/// An answered write stays laid over its row until the row was read again. An event or another read that brings the row as
/// the answer left it, or later, does as well; so does any row of the server's after a refusal.
extension WriteQueue {
  package func settleOwed(by item: Item) throws(MarfaError) {
    for write in try table.answered("item = ? AND edge IS NULL AND owed_read = 1 AND landed IS NULL", item.id)
    where write.verdict == .refused || write.isMet(by: item) {
      try settle(write)
    }
  }

  package func settleOwed(by edge: Edge) throws(MarfaError) {
    for write in try table.answered("edge = ? AND owed_read = 1", edge.id)
    where write.verdict == .refused || write.isMet(by: edge) {
      try settle(write)
    }
  }

  private func settle(_ write: QueuedWrite) throws(MarfaError) {
    try store.read { try store.database.run("UPDATE queue SET owed_read = 0 WHERE seq = ?", write.seq) }
  }
}

extension QueuedWrite {
  /// Whether a row holds what the server answered to this write, or what came after it.
  func isMet(by held: Item?) -> Bool {
    guard verdict?.isSuccess == true, let answer = answerValue, let held else {
      return false
    }
    switch kind.answer {
    case .item: return Item(row: answer).map { !held.isEarlier(than: $0) } ?? false
    case .ok: return held.isTrashed
    case .sidecar: return held.tags == (answer["metadata"]?["tags"]?.array ?? []).compactMap(\.text).sorted()
    case .extensions: return held.extensions == answer["extensions"]?.object
    case .edge, .blob: return false
    }
  }

  /// The same of an edge; of a delete, that no edge is held.
  func isMet(by held: Edge?) -> Bool {
    guard verdict?.isSuccess == true else { return false }
    if kind == .deleteEdge { return held == nil }
    guard let edge = answerValue?["edge"].flatMap({ Edge($0) }), let held else {
      return false
    }
    return !held.isEarlier(than: edge)
  }
}

extension Drain {
  /// Whether a catch-up brought the item as it was at the answers, or later (Q9.10). A refusal makes no event.
  func isMet(item id: EntityID) throws(MarfaError) -> Bool {
    let held = try store.serverItem(id)
    return try table.answered("item = ? AND edge IS NULL AND owed_read = 1 AND landed IS NULL", id)
      .allSatisfy { $0.isMet(by: held) }
  }

  func isMet(edge id: EntityID) throws(MarfaError) -> Bool {
    let held = try store.serverEdge(id)
    return try table.answered("edge = ? AND owed_read = 1", id).allSatisfy { $0.isMet(by: held) }
  }
}
