import MarfaBase

/// Listings of edges and the blocks of edges an item carries (E6 to E8).
extension Instance {
  private struct Found {
    var edge: EdgeRow
    var isReadable: Bool
  }

  /// - Parameter ofItem: whether the conditions name an end. The edges of one item are then read and put in order: without
  /// the `+` SQLite walks all edges of the type, which lie in that order already, and passes over all other items'.
  private func found(
    _ conditions: Conditions, _ order: String, _ limit: Int, _ reader: Credential, ofItem: Bool
  ) throws -> [Found] {
    try database.all(
      """
      SELECT \(EdgeRow.columns), s.type FROM edge e LEFT JOIN item s ON s.id = e.source
      WHERE \(conditions.whereClause) ORDER BY \(ofItem ? "+" : "")\(order) LIMIT \(limit)
      """, conditions.values
    ) { row in
      let edge = EdgeRow(row)
      let sourceType = row.optionalText(EdgeRow.columnCount)
      return Found(edge: edge, isReadable: sourceType.map(reader.reads) ?? false && reader.edges.reads(edge.type))
    }
  }

  /// Appends a map from edge type to its first page; types without a readable edge are left out (E8, E22.4).
  func appendEdgeBlocks(of item: EntityID, inbound: Bool, _ reader: Credential, to out: inout [UInt8]) throws {
    try appendEdgeBlocks(of: item, try edgeTypes(of: item, inbound: inbound), inbound: inbound, reader, to: &out)
  }

  /// The types of an item's edges on one side, in order.
  func edgeTypes(of item: EntityID, inbound: Bool) throws -> [Text] {
    try database.all(
      inbound
        ? "SELECT DISTINCT type FROM edge WHERE target = ? ORDER BY type"
        : "SELECT DISTINCT type FROM edge WHERE source = ? ORDER BY type", item
    ) { $0.text(0) }
  }

  /// The same where the types are known.
  func appendEdgeBlocks(
    of item: EntityID, _ types: [Text], inbound: Bool, _ reader: Credential, to out: inout [UInt8]
  ) throws {
    let side = inbound ? "target" : "source"
    out += "{".utf8
    var isFirst = true
    for type in types where reader.edges.reads(type) {
      var conditions = Conditions()
      conditions.add("e.\(side) = ? AND e.type = ?", [item, type])
      let rows = try found(conditions, "e.created DESC, e.id DESC", 51, reader, ofItem: true)
      let shown = rows.prefix(50).filter(\.isReadable)
      if shown.isEmpty { continue }
      if !isFirst { out += ",".utf8 }
      isFirst = false
      JSON.appendString(type, to: &out)
      out += ":".utf8
      try appendPage(
        shown.map(\.edge), last: rows.count > 50 ? rows[49].edge : nil, scope: itemScope(inbound, [type]),
        byUpdate: false, to: &out)
    }
    out += "}".utf8
  }

  private func itemScope(_ inbound: Bool, _ types: [Text]) -> String {
    "\(inbound ? "backrefs" : "edges") \(Set(types).sorted().map(\.string).joined(separator: ","))"
  }

  private func appendPage(
    _ edges: [EdgeRow], last: EdgeRow?, scope: String, byUpdate: Bool, to out: inout [UInt8]
  ) throws {
    out += "{\"data\":[".utf8
    for (place, edge) in edges.enumerated() {
      if place > 0 { out += ",".utf8 }
      out += edge.text
    }
    out += "],\"next_cursor\":".utf8
    if let last {
      let time = byUpdate ? last.updated : last.created
      try cursors.write(scope, [.int(time.milliseconds), .string(last.id.text)]).append(to: &out)
    } else {
      out += "null".utf8
    }
    out += "}".utf8
  }

  /// The edge types asked for.
  /// - Parameter refuses: whether one the key may not read is refused (SF26.3) and not left out (E22.1).
  private func edgeTypes(_ call: Call, refuses: Bool) throws -> [Text] {
    guard let value = call.query["edge_type"] else { return [] }
    let types = commaList(value)
    if types.isEmpty { throw Query.empty("edge_type") }
    if types.count > 10 { throw Refusal.invalid("edge_type", "At most 10 edge types.") }
    for type in types where refuses && !call.credential.edges.reads(type) { throw Refusal.edgeType(type, .read) }
    return types
  }

  private func page(
    _ call: Call, _ base: Conditions, scope: String, byUpdate: Bool, ofItem: Bool
  ) throws -> Reply {
    var conditions = base
    let limit = try call.query.limit(1...500, default: 50)
    let column = byUpdate ? "updated" : "created"
    let sign = byUpdate ? ">" : "<"
    if let text = call.query["cursor"] {
      let position = try cursors.read(text, scope)
      guard position.count == 2, let time = position[0].int, let id = position[1].text else {
        throw Refusal.invalid("cursor", "The cursor is none of this listing.")
      }
      conditions.add("(e.\(column) \(sign) ? OR (e.\(column) = ? AND e.id \(sign) ?))", [time, time, id])
    }
    let order = byUpdate ? "e.updated, e.id" : "e.created DESC, e.id DESC"
    let rows = try found(conditions, order, limit + 1, call.credential, ofItem: ofItem)
    var out: [UInt8] = []
    try appendPage(
      rows.prefix(limit).filter(\.isReadable).map(\.edge), last: rows.count > limit ? rows[limit - 1].edge : nil,
      scope: scope, byUpdate: byUpdate, to: &out)
    return .text(200, out)
  }

  /// `GET /edges`.
  func listEdges(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare(["edge_type", "updated_after", "updated_before", "limit", "cursor"])
    let types = try edgeTypes(call, refuses: true)
    var conditions = Conditions()
    if !types.isEmpty { conditions.add("e.type", in: types) }
    for (name, sign) in [("updated_after", ">="), ("updated_before", "<")] as [(Text, String)] {
      guard let text = call.query[name] else { continue }
      guard let time = readTime(text) else { throw Refusal.invalid(name, "\(name) is not a time.") }
      conditions.add("e.updated \(sign) ?", [time])
    }
    return try page(
      call, conditions, scope: scope("all-edges", call, ""), byUpdate: call.query["updated_after"] != nil, ofItem: false
    )
  }

  /// `GET /items/{id}/edges` and `GET /items/{id}/backrefs`.
  func listItemEdges(_ call: Call, inbound: Bool) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare(["edge_type", "limit", "cursor"])
    let types = try edgeTypes(call, refuses: false)
    _ = try call.query.limit(1...500, default: 50)
    let id = try call.id()
    let row = try readableItem(id, call.credential, trashed: true)
    var conditions = Conditions()
    conditions.add("e.\(inbound ? "target" : "source") = ?", [row.id])
    if !types.isEmpty { conditions.add("e.type", in: types) }
    return try page(call, conditions, scope: itemScope(inbound, types), byUpdate: false, ofItem: true)
  }
}
