import MarfaBase
import MarfaCopy

/// The items at the other end of the edges files here write: held in the copy, so that a line shows a title whether or
/// not its item has a file here (F11.10, F11.24, F12.39).
extension FolderEngine {
  /// Pins each, reading those the copy does not hold, and lets the pins of lines go that no file writes any more. A server
  /// out of reach leaves the rest to the next push; an item the server does not show is asked for once a fill.
  func pinOtherEnds() throws {
    let needed = try copy.reading { try otherEnds() }
    let pinned = Set(try copy.pins(owner: Pin.line))
    let unseen = try store.unseen()
    var held: [EntityID] = []
    var absent: [EntityID] = []
    for item in needed.subtracting(pinned).sorted() {
      if try copy.holdsServerItem(item) {
        held.append(item)
      } else if try copy.head(item) == nil, !unseen.contains(item), try !copy.isPurged(item) {
        absent.append(item)
      }
    }
    if !held.isEmpty { try commit { for item in held { try copy.pinHeld(item, owner: Pin.line) } } }
    // A line that is held as typed may name by id what only its pin holds (F11.11).
    let isAnyHeld = try store.bindings().contains { $0.hold?.flag == .edges }
    if !isAnyHeld { for item in pinned.subtracting(needed).sorted() { try copy.unpin(item, owner: Pin.line) } }
    for item in absent {
      try copy.checkStop()
      do throws(MarfaError) { try copy.pin(item, owner: Pin.line) } catch {
        if error.isEnvironmental { return }
        guard error.code == .notFound || error.code == .forbidden else { throw error }
        try store.rememberUnseen(item)
      }
    }
  }

  /// The other ends of every edge a document here writes or may write: at the end its type is written at; at the other
  /// where that end is a file item, or the file's line shows the edge and nobody knows what that end is (F11.4, F11.6);
  /// and every attachment of a document (F12.39).
  private func otherEnds() throws -> Set<EntityID> {
    let facts = try facts()
    let bindings = try store.bindings()
    let formless = Set(bindings.filter { $0.form != .markdown }.map(\.item))
    let documents = Set(try copy.items(matching: facts.search)).union(bindings.map(\.item)).subtracting(formless)
    let shown = Set(bindings.flatMap(\.edges).filter { $0.place == .line }.map(\.edge))
    var ends: Set<EntityID> = []
    for type in facts.catalog.edgeTypes.values where type.id != PassFacts.inFolder {
      for edge in try copy.edges(ofType: type.id) where edge.source != edge.target {
        let writer = type.writtenAt == .target ? edge.target : edge.source
        let other = edge.other(than: writer)
        if documents.contains(writer), try !isFileItem(writer, facts) { ends.insert(other) }
        guard documents.contains(other), try !isFileItem(other, facts) else { continue }
        if type.id == PassFacts.attachedTo || shown.contains(edge.id) {
          ends.insert(writer)
        } else if try isFileItem(writer, facts) {
          ends.insert(writer)
        }
      }
    }
    return ends
  }

  private func isFileItem(_ item: EntityID, _ facts: PassFacts) throws -> Bool {
    try copy.head(item).map { facts.isFileItem($0.type) } ?? false
  }
}
