import MarfaBase

/// What the queue tells the store: which rows have waiting writes, and how a row shows with them laid over (Q35).
///
/// The store calls it inside the transaction that changes a server row; the queue calls `Store.reproject` inside the
/// transaction that changes its own writes.
package protocol Projection: AnyObject {
  /// Whether a write waits on the item (no verdict, `blocked` or `dead`).
  func hasWaiting(item: EntityID) throws(MarfaError) -> Bool
  /// Whether a write waits on the edge.
  func hasWaiting(edge: EntityID) throws(MarfaError) -> Bool
  /// The item with its waiting writes laid over, in queue order; nil where nothing is to be shown.
  /// - Parameter base: the server row; nil where the copy holds none (a create of this device's shows all the same).
  func shown(item: EntityID, base: Item?) throws(MarfaError) -> Item?
  /// The same of an edge. A waiting delete shows no edge.
  func shown(edge: EntityID, base: Edge?) throws(MarfaError) -> Edge?
  /// Takes a server row the copy was brought as the read that answers to it owe (Q12.5).
  func settleOwed(by item: Item) throws(MarfaError)
  /// The same of an edge.
  func settleOwed(by edge: Edge) throws(MarfaError)
  /// Every item with a waiting write, for laying the queue over a new fill (D8.4).
  func waitingItems() throws(MarfaError) -> [EntityID]
  /// Every edge with a waiting write.
  func waitingEdges() throws(MarfaError) -> [EntityID]
}
