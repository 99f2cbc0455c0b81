import MarfaBase

/// The queue as the store sees it: it holds no copy alive, and the copy holds it.
final class QueueProjection: Projection {
  private weak var copy: WorkingCopy?

  init(copy: WorkingCopy) { self.copy = copy }

  func hasWaiting(item: EntityID) throws(MarfaError) -> Bool { try copy?.queue.hasWaiting(item: item) ?? false }

  func hasWaiting(edge: EntityID) throws(MarfaError) -> Bool { try copy?.queue.hasWaiting(edge: edge) ?? false }

  func shown(item: EntityID, base: Item?) throws(MarfaError) -> Item? {
    guard let copy else { return base }
    return try copy.queue.shown(item: item, base: base)
  }

  func shown(edge: EntityID, base: Edge?) throws(MarfaError) -> Edge? {
    guard let copy else { return base }
    return try copy.queue.shown(edge: edge, base: base)
  }

  func settleOwed(by item: Item) throws(MarfaError) { try copy?.queue.settleOwed(by: item) }

  func settleOwed(by edge: Edge) throws(MarfaError) { try copy?.queue.settleOwed(by: edge) }

  func waitingItems() throws(MarfaError) -> [EntityID] { try copy?.queue.waitingItems() ?? [] }

  func waitingEdges() throws(MarfaError) -> [EntityID] { try copy?.queue.waitingEdges() ?? [] }
}
