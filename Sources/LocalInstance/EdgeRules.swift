import MarfaBase

/// What an edge must be to be written: the steps of E101 from the self-loop on, for creates, moves and inline edges.
extension Instance {
  func sourceMissing(_ id: EntityID) -> Refusal {
    Refusal(404, "item_not_found", "Edge source item not found: \(id)")
  }

  func targetMissing(_ id: EntityID) -> Refusal {
    Refusal(404, "item_not_found", "Edge target item not found: \(id)")
  }

  /// A live end the key may read (E4.4, E24).
  func end(_ id: EntityID, _ call: Call, missing: (EntityID) -> Refusal) throws -> ItemRow {
    guard let row = try item(id), !row.isTrashed, call.credential.reads(row.type) else { throw missing(id) }
    return row
  }

  func requireEdgeWrite(_ type: Text, _ call: Call) throws {
    guard call.credential.edges.writes(type) else { throw Refusal.edgeType(type, .write) }
    call.needs.edges.append(type)
  }

  func edgeType(_ id: Text) throws -> EdgeTypeDefinition {
    guard let type = catalog.edgeTypes[id] else {
      throw Refusal(404, "edge_type_not_found", "No edge type \(id) is registered.", ["edge_type": .string(id)])
    }
    return type
  }

  func cycle(_ type: EdgeTypeDefinition, _ source: EntityID, _ target: EntityID) -> Refusal {
    Refusal(
      400, "edge_cycle", "The edge would close a cycle.",
      ["edge_type": .string(type.id), "source_id": .string(source.text), "target_id": .string(target.text)])
  }

  /// Steps 8 to 14 of E101. `itself` is the edge being moved, which does not count against itself.
  func judge(
    _ type: EdgeTypeDefinition, source: ItemRow, target targetID: EntityID, properties: JSONObject, itself: EntityID?,
    _ call: Call
  ) throws {
    let cycle = cycle(type, source.id, targetID)
    if source.id == targetID { throw cycle }
    if type.id == "in-folder" { try judgePlacement(properties) }
    let target = try end(targetID, call, missing: targetMissing)
    try judgeEnds(type, source: source, target: target)
    let own = itself?.text ?? ""
    let constraint = { (word: Text, more: [(Text, JSON)]) in
      Refusal(
        400, "edge_constraint_violation", "The edge type does not allow that edge (\(word)).",
        .object(JSONObject([("constraint", .string(word)), ("edge_type", .string(type.id))] + more)))
    }
    let duplicate = try database.one(
      "SELECT id FROM edge WHERE source = ? AND type = ? AND target = ? AND id <> ?", source.id, type.id, target.id, own
    ) { $0.text(0) }
    if duplicate != nil {
      throw constraint("duplicate", [("source_id", .string(source.id.text)), ("target_id", .string(target.id.text))])
    }
    if type.sourceHoldsOne {
      let held = try database.one(
        "SELECT 1 FROM edge WHERE source = ? AND type = ? AND id <> ?", source.id, type.id, own
      ) { $0.int(0) }
      if held != nil { throw constraint("cardinality", [("source_id", .string(source.id.text))]) }
    }
    if type.targetHoldsOne {
      let held = try database.one(
        "SELECT 1 FROM edge WHERE target = ? AND type = ? AND id <> ?", target.id, type.id, own
      ) { $0.int(0) }
      if held != nil { throw constraint("cardinality", [("target_id", .string(target.id.text))]) }
    }
    if type.isShipped, type.id == "parent-of" || type.id == "supersedes" {
      let closes = try database.one(
        """
        WITH RECURSIVE reach (id) AS (
          VALUES (?1) UNION SELECT e.target FROM reach JOIN edge e ON e.source = reach.id AND e.type = ?2 AND e.id <> ?4)
        SELECT 1 FROM reach WHERE id = ?3 LIMIT 1
        """, target.id, type.id, source.id, own
      ) { $0.int(0) }
      if closes != nil { throw cycle }
    }
  }

  /// Endpoint types, nesting, a revoked folder; the source's type before the target's (E19, E2.11).
  private func judgeEnds(_ type: EdgeTypeDefinition, source: ItemRow, target: ItemRow) throws {
    func refusal(_ member: Text, _ id: Text, _ allowed: [Text]) -> Refusal {
      Refusal(
        400, "edge_constraint_violation", "The edge type does not admit that \(member).",
        .object(
          JSONObject([
            ("edge_type", .string(type.id)), (member, .string(id)), ("allowed", .array(allowed.map(JSON.string))),
          ])))
    }
    if !catalog.admits(type.sources, source.type) { throw refusal("source_type", source.type, type.sources) }
    if type.id == "in-collection", catalog.type(source.type)?.roles.contains("container") ?? false {
      throw Refusal(
        400, "edge_constraint_violation", "A collection is no member of a collection.",
        [
          "constraint": "nesting", "edge_type": .string(type.id), "source_id": .string(source.id.text),
          "source_type": .string(source.type),
        ])
    }
    if !catalog.admits(type.targets, target.type) { throw refusal("target_type", target.type, type.targets) }
    if type.id == "in-folder", target.state == "revoked" {
      throw Refusal(
        400, "edge_constraint_violation", "The folder is revoked.",
        ["constraint": "revoked", "edge_type": .string(type.id), "target_id": .string(target.id.text)])
    }
  }

  /// The properties of a placement: `path` inside the folder, and nothing else (E2.5, E2.8).
  func judgePlacement(_ properties: JSONObject) throws {
    guard let path = properties["path"]?.text, !path.isEmpty, path.utf16Count <= 1024,
      let depth = depthInside(path), depth > 0
    else { throw Refusal.invalid("properties.path", "path is a file's path inside the folder.") }
    if let other = properties.keys.first(where: { $0 != "path" }) {
      throw Refusal.invalid(Text("properties.\(other)"), "A placement has no property but path.")
    }
  }

  /// What judges inline edges before a stale version is looked at: grants, types, targets (E12.5).
  func judgeTargets(_ edges: [(type: Text, targets: [EntityID])], _ call: Call) throws {
    for (type, targets) in edges {
      try requireEdgeWrite(type, call)
      _ = try edgeType(type)
      for target in targets { _ = try end(target, call, missing: targetMissing) }
    }
  }

  /// Makes an item's outbound edges of each type named exactly those to the targets listed (I23).
  func replaceEdges(of row: ItemRow, _ edges: [(type: Text, targets: [EntityID])], _ call: Call) throws {
    for (type, targets) in edges {
      try requireEdgeWrite(type, call)
      let definition = try edgeType(type)
      let held = try database.all(
        "SELECT \(EdgeRow.columns) FROM edge e WHERE source = ? AND type = ? ORDER BY seq", row.id, type
      ) { EdgeRow($0) }
      for edge in held where !targets.contains(edge.target) { try deleteEdge(edge, sourceType: row.type) }
      for target in targets where !held.contains(where: { $0.target == target }) {
        try judge(definition, source: row, target: target, properties: JSONObject(), itself: nil, call)
        let now = clock.now
        try insertEdge(
          EdgeRow(id: ids.next(), source: row.id, target: target, type: type, created: now, updated: now),
          sourceType: row.type)
      }
    }
  }
}

/// How deep a relative path ends below the root it is relative to, or nil where it is absolute, climbs out, or holds a
/// backslash or NUL (I53.4).
func depthInside(_ path: Text) -> Int? {
  let bytes = path.bytes
  if bytes.first == UInt8(ascii: "/") || bytes.contains(UInt8(ascii: "\\")) || bytes.contains(0) { return nil }
  if bytes.count >= 2, bytes[1] == UInt8(ascii: ":"), (0x61...0x7A).contains(bytes[0] | 0x20) { return nil }
  var depth = 0
  for name in bytes.split(separator: UInt8(ascii: "/")) where !name.elementsEqual(".".utf8) {
    depth += name.elementsEqual("..".utf8) ? -1 : 1
    if depth < 0 { return nil }
  }
  return depth
}
