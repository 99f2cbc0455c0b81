import MarfaBase
import MarfaCopy

/// What one line, or the body's links or embeds, of a file say of one edge type at the file's item.
package struct StatedEdges: Sendable {
  package var type: EdgeType
  /// Whether the file's item is the edges' source.
  package var isSource: Bool
  /// The items named, each once, with how.
  package var others: [(item: EntityID, place: ShownEdge.Place)]
  /// Why nothing of this type may change in this file (F11.21); nil where all is said well.
  package var standsDown: String?
  /// Whether a link or embed that names nothing holds removals back, additions still going (F12.12, F12.31).
  package var holdsRemovals: Bool

  package init(
    type: EdgeType, isSource: Bool, others: [(item: EntityID, place: ShownEdge.Place)] = [], standsDown: String? = nil,
    holdsRemovals: Bool = false
  ) {
    self.type = type
    self.isSource = isSource
    self.others = others
    self.standsDown = standsDown
    self.holdsRemovals = holdsRemovals
  }

  /// Whether the file's end may hold one edge of the type (F11.7).
  var holdsOne: Bool { isSource ? type.cardinality.sourceHasOne : type.cardinality.targetHasOne }
}

/// One change of an edge a file asks for.
package enum EdgeChange: Hashable, Sendable {
  case create(type: Text, isSource: Bool, other: EntityID, place: ShownEdge.Place)
  /// The edge's other end moves: one write, so that no reader finds the end with none or two (F11.22).
  case move(edge: EntityID, version: Int, type: Text, isSource: Bool, other: EntityID, place: ShownEdge.Place)
  case delete(edge: EntityID)
}

extension EdgeChange {
  /// What it would have the edge say, for telling a change that was refused; nil of a removal.
  func meaning(at item: EntityID) -> ContentHash? {
    switch self {
    case .create(let type, let isSource, let other, _), .move(_, _, let type, let isSource, let other, _):
      FileRefusal.edgeMeaning(type, from: isSource ? item : other, to: isSource ? other : item)
    case .delete: nil
    }
  }
}

/// What a file's lines, links and embeds ask for.
package struct EdgeDecision: Sendable {
  package var changes: [EdgeChange] = []
  /// The edges the file shows from here on; a change's own are added with their ids once queued.
  package var shown: [ShownEdge] = []
  package var heldBack: [EntityID] = []
  /// Reasons the file is held for (F11.21).
  package var reasons: [String] = []

  package init() {}
}

/// What a file asks for of the edges at its item (F11.20 to F11.23, F12.12, F31).
///
/// For each edge type at the item three sets meet: what the file states, what it showed last, and what the copy holds.
/// - Stated and held: it is shown from here on, whoever made it.
/// - Stated, not held: made; but where the end holds one edge, the one the file showed moves instead, and an edge it has
///   not shown yet stands the type down, since replacing it would drop an edge nobody saw (F11.23).
/// - Shown, not stated, held: removed, unless the removal is held back.
/// - Shown, not stated, not held: gone already.
/// - Held alone: it arrived from elsewhere and stays (F11.20, F31.2).
/// - Shown, but first in a text of a newer line than the file's: an old buffer saved late never carried it, so it counts
///   as held alone.
///
/// A type that stands down keeps what was shown, so that what is held back lands once the line is mended.
/// - Parameters:
///   - held: the edges of the copy at the item, with the item's end.
///   - line: the version line of the file.
package func decideEdges(
  _ stated: [StatedEdges], shown: [ShownEdge], held: [Edge], item: EntityID, line: Int? = nil
) -> EdgeDecision {
  var decision = EdgeDecision()
  let shown = shown.filter { edge in
    guard edge.place == .line, let since = edge.since, let line, line < since else { return true }
    return stated.contains { $0.type.id == edge.type && $0.others.contains { $0.item == edge.other } }
  }
  func since(_ edge: EntityID) -> Int? {
    guard let since = shown.first(where: { $0.edge == edge })?.since, line ?? since >= since else { return nil }
    return since
  }
  var statedTypes: Set<StatedKey> = []
  for entry in stated {
    let key = StatedKey(type: entry.type.id, isSource: entry.isSource)
    statedTypes.insert(key)
    let heldHere = held.filter { $0.type == key.type && ($0.source == item) == key.isSource }
    let heldByOther = Dictionary(heldHere.map { ($0.other(than: item), $0) }) { first, _ in first }
    let shownHere = shown.filter { $0.type == key.type && heldIsSource($0, held, item) != !key.isSource }
    func standDown(_ reason: String) {
      decision.reasons.append(reason)
      decision.shown += shownHere
    }
    if let reason = entry.standsDown {
      standDown(reason)
      continue
    }
    if entry.holdsOne, entry.others.count > 1 {
      standDown("\(entry.type.id) may name one at most")
      continue
    }
    let wanted = Set(entry.others.map(\.item))
    // An edge that names a stated item is none to remove, whatever item the file showed it with: its move was refused
    // (F11.30), or another device moved it there.
    let goes = shownHere.filter { shown in
      !wanted.contains(shown.other)
        && heldHere.contains { $0.id == shown.edge && !wanted.contains($0.other(than: item)) }
    }
    let comes = entry.others.filter { heldByOther[$0.item] == nil }
    if entry.holdsOne, let new = comes.first, let there = heldHere.first {
      if shownHere.contains(where: { $0.edge == there.id && $0.other == new.item }) {
        // The line is as the file showed it; another device moved its edge since, which stands. The pull writes it (F23.3).
        decision.shown.append(
          ShownEdge(edge: there.id, type: key.type, other: there.other(than: item), place: new.place))
        continue
      }
      guard goes.contains(where: { $0.edge == there.id }) else {
        standDown("an edge \(entry.type.id) made elsewhere is not shown in this file yet")
        continue
      }
      decision.changes.append(
        .move(
          edge: there.id, version: there.version, type: key.type, isSource: key.isSource, other: new.item,
          place: new.place))
      decision.shown.append(ShownEdge(edge: there.id, type: key.type, other: new.item, place: new.place))
      continue
    }
    for other in entry.others {
      if let there = heldByOther[other.item] {
        decision.shown.append(
          ShownEdge(
            edge: there.id, type: key.type, other: other.item, place: other.place, since: since(there.id)))
      } else {
        decision.changes.append(
          .create(type: key.type, isSource: key.isSource, other: other.item, place: other.place))
      }
    }
    for shown in goes {
      if entry.holdsRemovals {
        decision.shown.append(shown)
        decision.heldBack.append(shown.edge)
      } else {
        decision.changes.append(.delete(edge: shown.edge))
      }
    }
  }
  // A type the file no longer states at all: every edge of it the file showed was taken out.
  for shown in shown {
    let isSource = heldIsSource(shown, held, item)
    guard let isSource, !statedTypes.contains(StatedKey(type: shown.type, isSource: isSource)) else { continue }
    decision.changes.append(.delete(edge: shown.edge))
  }
  return decision
}

private struct StatedKey: Hashable {
  var type: Text
  var isSource: Bool
}

/// Whether the item is the source of a shown edge the copy holds; nil for one it does not hold.
private func heldIsSource(_ shown: ShownEdge, _ held: [Edge], _ item: EntityID) -> Bool? {
  held.first { $0.id == shown.edge }.map { $0.source == item }
}

extension Edge {
  /// The item at the end that is not this one.
  package func other(than item: EntityID) -> EntityID { source == item ? target : source }
}
