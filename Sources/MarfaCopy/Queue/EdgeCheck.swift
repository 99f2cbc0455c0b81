import MarfaBase

/// Judges an edge against the rows and edges shown, in the server's order, before it is queued (Q64, E107). A check that
/// passes is no verdict: what turns on rows the copy does not hold is the server's to say.
struct EdgeCheck {
  let catalog: Catalog
  /// The shown item; nil where the copy holds none.
  let item: (EntityID) throws(MarfaError) -> Item?
  /// The shown edges of a type between two items; asked apart, since one end may have thousands.
  let between: (EntityID, EntityID, Text) throws(MarfaError) -> [Edge]
  /// The shown edges of a type from an item.
  let from: (EntityID, Text) throws(MarfaError) -> [Edge]
  /// The shown edges of a type to an item.
  let to: (EntityID, Text) throws(MarfaError) -> [Edge]

  /// Refuses an edge the server would refuse.
  /// - Parameters:
  ///   - replacing: the edge that moves, which does not stand in its own way.
  ///   - properties: judges a new edge's properties, whose turn comes after a self-loop's (E101).
  func judge(
    type name: Text, source: EntityID, target: EntityID, replacing: EntityID? = nil,
    properties: () throws(MarfaError) -> Void = {}
  ) throws(MarfaError) {
    let (from, to) = (try item(source), try item(target))
    try isOutOfBin(from)
    guard let type = catalog.edgeTypes[name] else {
      throw .validation("there is no edge type '\(name)'", code: "edge_type_not_found")
    }
    if source == target {
      throw .validation("an item can have no edge to itself", code: "edge_cycle", details: ["edge_type": .string(name)])
    }
    try properties()
    try isOutOfBin(to)
    try admits(from, type.sourceConstraints, type, member: "source_type")
    try nesting(from, type)
    try admits(to, type.targetConstraints, type, member: "target_type")
    if type.id == "in-folder", let to, to.state == "revoked" {
      throw violation("the folder \(to.id) was revoked", "revoked", name, [("target_id", target)])
    }
    if try between(source, target, name).contains(where: { $0.id != replacing }) {
      throw violation(
        "there is such an edge already", "duplicate", name, [("source_id", source), ("target_id", target)])
    }
    if type.cardinality.sourceHasOne, try self.from(source, name).contains(where: { $0.id != replacing }) {
      throw violation("the item \(source) has its one '\(name)' already", "cardinality", name, [("source_id", source)])
    }
    if type.cardinality.targetHasOne, try self.to(target, name).contains(where: { $0.id != replacing }) {
      throw violation("the item \(target) has its one '\(name)' already", "cardinality", name, [("target_id", target)])
    }
    try cycle(name, source, target, replacing)
  }

  private func isOutOfBin(_ end: Item?) throws(MarfaError) {
    guard let end, end.isTrashed else { return }
    throw .validation("the item \(end.id) is in the bin", code: "item_not_found", details: ["trashed": true])
  }

  private func admits(_ end: Item?, _ constraints: [Text], _ type: EdgeType, member: Text) throws(MarfaError) {
    guard let end, !constraints.contains("*") else { return }
    let roles = catalog.type(end.type)?.roles ?? []
    for constraint in constraints {
      if constraint.bytes.starts(with: "role:".utf8) {
        if roles.contains(Text(bytes: constraint.bytes.dropFirst(5))) { return }
      } else if catalog.isType(end.type, under: constraint) {
        return
      }
    }
    throw .validation(
      "an edge '\(type.id)' can't join an item of type '\(end.type)'", code: "edge_constraint_violation",
      details: .object(
        JSONObject([
          ("edge_type", .string(type.id)), (member, .string(end.type)),
          ("allowed", .array(constraints.map { .string($0) })),
        ])))
  }

  /// Membership is flat: a container is no member (E19.6).
  private func nesting(_ source: Item?, _ type: EdgeType) throws(MarfaError) {
    guard type.id == "in-collection", let source, catalog.type(source.type)?.roles.contains("container") == true else {
      return
    }
    throw .validation(
      "a collection can't be in a collection", code: "edge_constraint_violation",
      details: [
        "constraint": "nesting", "edge_type": .string(type.id), "source_id": .string(source.id.text),
        "source_type": .string(source.type),
      ])
  }

  /// Only the two shipped types are walked (E15.4), from the target along outgoing edges.
  private func cycle(_ name: Text, _ source: EntityID, _ target: EntityID, _ replacing: EntityID?) throws(MarfaError) {
    guard name == "parent-of" || name == "supersedes" else { return }
    var seen: Set<EntityID> = [target]
    var open = [target]
    while let next = open.popLast() {
      for edge in try from(next, name) where edge.id != replacing {
        if edge.target == source {
          throw .validation(
            "the edge would close a circle", code: "edge_cycle",
            details: ["edge_type": .string(name), "source_id": .string(source.text), "target_id": .string(target.text)])
        }
        if seen.insert(edge.target).inserted { open.append(edge.target) }
      }
    }
  }

  private func violation(_ words: String, _ constraint: Text, _ type: Text, _ ends: [(Text, EntityID)]) -> MarfaError {
    var details = JSONObject([("constraint", .string(constraint)), ("edge_type", .string(type))])
    for (member, id) in ends { details[member] = .string(id.text) }
    return .validation(words, code: "edge_constraint_violation", details: .object(details))
  }
}
