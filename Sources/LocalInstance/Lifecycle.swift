import MarfaBase

/// Into the bin and out of it, archived, purged (I25 to I28).
extension Instance {
  /// `?version=` of a delete or purge (I26.7).
  private func versionParameter(_ call: Call) throws -> Int? {
    guard let text = call.query["version"] else { return nil }
    guard let version = decimal(text), version >= 1 else {
      throw Refusal.invalid("version", "version is a whole number of at least 1.")
    }
    return version
  }

  func deleteItem(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare(["version"])
    let version = try versionParameter(call)
    let row = try writableItem(try call.id(), call)
    if let version, version != row.version { throw bareConflict(row) }
    try trash(row, call)
    return .ok
  }

  func transitionItem(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    let body = try call.object()
    guard let value = body["state"], !value.isNull else { throw Refusal.missing("state") }
    guard let state = value.text, ["active", "archived", "trashed"].contains(state) else {
      throw Refusal.invalid("state", "state is active, archived or trashed.")
    }
    let row = try writableItem(try call.id(), call, trashed: true)
    try move(row, to: state, call)
    return try itemReply(200, try item(row.id) ?? row, call)
  }

  /// Moves a row along its lifecycle (I25). Gives every row that moved with it, itself first.
  @discardableResult
  func move(_ row: ItemRow, to state: Text, _ call: Call) throws -> [EntityID] {
    switch (row.state.string, state.string) {
    case ("active", "archived"), ("archived", "active"):
      var moved = row
      moved.state = state
      try update(&moved, was: row, as: "item.state_changed")
      return [row.id]
    case ("active", "trashed"), ("archived", "trashed"): return try trash(row, call)
    case ("trashed", "active"): return try restore(row)
    default:
      throw Refusal(400, "invalid_transition", "The item does not go from \(row.state) to \(state).")
    }
  }

  func restoreItem(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    let row = try writableItem(try call.id(), call, trashed: true)
    guard row.isTrashed else { throw Refusal(400, "invalid_transition", "The item is not in the bin.") }
    try restore(row)
    return try itemReply(200, try item(row.id) ?? row, call)
  }

  /// Moves an item to the bin with everything a cascading edge reaches from it (I26.9).
  @discardableResult
  private func trash(_ row: ItemRow, _ call: Call) throws -> [EntityID] {
    var taken: [(row: ItemRow, parent: EntityID?)] = [(row, nil)]
    var seen: Set<EntityID> = [row.id]
    let cascading = catalog.edgeTypes.values.filter { $0.onDelete == "cascade" }.map(\.id)
    var next = 0
    while next < taken.count {
      let from = taken[next].row.id
      next += 1
      for type in cascading {
        let targets = try database.all(
          "SELECT target FROM edge WHERE source = ? AND type = ? ORDER BY seq", from, type
        ) { $0.id(0) }
        for target in targets {
          guard let target, seen.insert(target).inserted, let child = try item(target),
            child.state == "active" || child.state == "archived"
          else { continue }
          taken.append((child, from))
        }
      }
    }
    try judgeBlocks(taken.map(\.row.id), call)
    let group = (try database.one("SELECT value FROM meta WHERE name = 'trash'") { Int($0.string(0)) ?? 0 } ?? 0) + 1
    try database.run("UPDATE meta SET value = ? WHERE name = 'trash'", "\(group)")
    for (held, parent) in taken {
      var moved = held
      if isSystem(held.type) {
        moved.state = "revoked"
        try update(&moved, was: held, as: "item.state_changed")
        continue
      }
      moved.state = "trashed"
      moved.trash = ItemRow.Trash(
        group: group, parent: parent, root: parent == nil ? nil : row.id, rootType: parent == nil ? nil : row.type)
      try update(&moved, was: held, as: "item.deleted")
    }
    return taken.map(\.row.id)
  }

  /// Refuses where a `block` edge holds any of them (I26.11, E16.3); only readable edges are named.
  private func judgeBlocks(_ items: [EntityID], _ call: Call) throws {
    let blocking = catalog.edgeTypes.values.filter { $0.onDelete == "block" }.map(\.id)
    if blocking.isEmpty { return }
    var found: [EntityID: EdgeRow] = [:]
    for id in items {
      for edge in try edges(of: id, inbound: false) + edges(of: id, inbound: true) where blocking.contains(edge.type) {
        found[edge.id] = edge
      }
    }
    guard !found.isEmpty else { return }
    var named: [JSON] = []
    for edge in found.values.sorted(by: { $0.id < $1.id }) {
      guard call.credential.edges.reads(edge.type), let source = try typeOf(edge.source),
        let target = try typeOf(edge.target), call.credential.reads(source), call.credential.reads(target)
      else { continue }
      named.append(edge.json)
      call.needs.reads += [source, target]
      call.needs.edgeReads.append(edge.type)
    }
    throw Refusal(
      400, "edge_constraint_violation",
      named.isEmpty ? "Edges hold the item." : "\(named.count) edges hold the item.",
      named.isEmpty ? nil : ["blocking_edges": .array(named)])
  }

  /// Brings back an item and what its trash, or the trash that took it, took beneath it (I27.4, I27.5).
  @discardableResult
  private func restore(_ row: ItemRow) throws -> [EntityID] {
    var back = [row]
    var next = 0
    while next < back.count, let group = row.trash?.group {
      let parent = back[next].id
      next += 1
      back += try database.all(
        """
        SELECT \(ItemRow.columns) FROM item
        WHERE trash_parent = ? AND trash_group = ? AND state = 'trashed' ORDER BY seq
        """, parent, group
      ) { ItemRow($0) }
    }
    for held in back {
      var moved = held
      moved.state = "active"
      moved.trash = nil
      try update(&moved, was: held, as: "item.restored", with: held.id == row.id ? nil : (row.id, row.type))
    }
    return back.map(\.id)
  }

  /// `POST /items/{id}/purge` (I28).
  func purgeItem(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    // A credential without it purges nothing at all: a standing refusal, before the request is looked at (ER2.1).
    guard call.credential.may("items.purge") else { throw Refusal.scope("items.purge") }
    call.needs.permissions.append("items.purge")
    try call.query.declare(["version"])
    let version = try versionParameter(call)
    guard let row = try item(try call.id()), call.credential.reads(row.type) else { throw Refusal.itemNotFound }
    if isSystem(row.type) { throw Refusal.systemRow }
    try call.credential.requireWrite(row.type)
    call.needs.types.append(row.type)
    call.needs.written.append(row.id)
    guard row.isTrashed else { throw Refusal(400, "invalid_transition", "The item is not in the bin.") }
    if let version, version != row.version { throw bareConflict(row) }
    try purge(row)
    return .ok
  }

  /// Destroys an item in the bin with its edges, each announced before it (EV12.3).
  func purge(_ row: ItemRow) throws {
    for edge in try edges(of: row.id, inbound: false) + edges(of: row.id, inbound: true) {
      guard let sourceType = try typeOf(edge.source) else { continue }
      try deleteEdge(edge, sourceType: sourceType, purgedWith: row.id)
    }
    // What its trash took, or a trash above took beneath it, hangs on what took it from here on (I27.6).
    try database.run("UPDATE item SET trash_parent = ? WHERE trash_parent = ?", row.trash?.parent, row.id)
    try keepTombstones(of: row)
    try freeze(row)
    let gone = row
    _ = try log(gone, "item.purged")
    try erase(row)
  }

  /// Purges what has been in the bin longer than `days` (the bin's retention, EV11.3). Returns how many items went.
  @discardableResult
  public func purgeBin(olderThanDays days: Int) throws -> Int {
    let bound = Timestamp(milliseconds: clock.now.milliseconds - Int64(days) * 86_400_000)
    let count = try database.transaction { () throws -> Int in
      let rows = try database.all(
        "SELECT \(ItemRow.columns) FROM item WHERE state = 'trashed' AND updated < ? ORDER BY seq", bound
      ) { ItemRow($0) }
      // Each as it stands then: a purge before it may have moved what it hangs on.
      for row in rows { if let now = try item(row.id) { try purge(now) } }
      if !rows.isEmpty { try moveViews() }
      return rows.count
    }
    if count > 0 { onEvents?() }
    return count
  }
}
