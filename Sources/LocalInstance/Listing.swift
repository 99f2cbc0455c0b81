import MarfaBase

/// `GET /items` and what it shares with stats and search: the narrowing of rows, orders, pages.
extension Instance {
  static let narrowingKeys: Set<Text> = [
    "type", "state", "source", "tier", "tags", "filter", "occurred_after", "occurred_before", "updated_after",
    "updated_before", "include",
  ]

  var cursors: Cursor {
    get throws { Cursor(secret: try secret()) }
  }

  func secret() throws -> Text {
    try database.one("SELECT value FROM meta WHERE name = 'secret'") { $0.text(0) } ?? ""
  }

  /// What the query's filters ask of a row (SF3 to SF6, SF11).
  func narrow(_ call: Call, standardState: Text?, search: Bool = false) throws -> Conditions {
    let query = call.query
    // Empty values are told before any other fault (SF2.4).
    let types = try query.list("type")
    let sources = try query.list("source")
    let tags = try query.list("tags")
    if let filter = query["filter"], trimmed(filter.bytes).isEmpty { throw Query.empty("filter") }
    var conditions = Conditions()
    try addTypes(types, includesSystem: commaList(query["include"] ?? "").contains("system"), call, to: &conditions)
    if let state = query["state"] {
      guard ["active", "archived", "trashed", "revoked", "any"].contains(state) else {
        throw Refusal.invalid("state", "state is an item state, or any.")
      }
      if state != "any" { conditions.add("i.state = ?", [state]) }
    } else if let standardState {
      conditions.add("i.state = ?", [standardState])
    }
    if search { conditions.add("i.state <> 'trashed'") }
    if let tier = query["tier"] {
      guard ["library", "feed", "all"].contains(tier) else {
        throw Refusal.invalid("tier", "tier is library, feed or all.")
      }
      if tier != "all" { conditions.add("i.tier = ?", [tier]) }
    }
    if let sources { conditions.add("i.source", in: sources) }
    for tag in tags ?? [] {
      conditions.add("EXISTS (SELECT 1 FROM tag t WHERE t.item = i.seq AND t.name = ?)", [tag])
    }
    for (name, column, sign) in [
      ("occurred_after", "occurred", ">"), ("occurred_before", "occurred", "<"), ("updated_after", "updated", ">="),
      ("updated_before", "updated", "<"),
    ] as [(Text, String, String)] {
      guard let text = query[name] else { continue }
      guard let time = readTime(text) else { throw Refusal.invalid(name, "\(name) is not a time.") }
      conditions.add("i.\(column) \(sign) ?", [time])
    }
    try addFilter(call, to: &conditions)
    for (named, allowed) in sourceFilters(of: call.credential) {
      let covered = catalog.subtree(named).sorted()
      if covered.isEmpty { continue }
      let marks = covered.map { _ in "?" }.joined(separator: ", ")
      let sources = allowed.map { _ in "?" }.joined(separator: ", ")
      conditions.add("NOT (i.type IN (\(marks)) AND i.source NOT IN (\(sources)))", covered + allowed)
    }
    return conditions
  }

  /// Every type an item or the registry names.
  func knownTypes() throws -> Set<Text> {
    let held = try database.all(
      """
      WITH RECURSIVE t (x) AS (
        SELECT min(type) FROM item UNION ALL SELECT (SELECT min(type) FROM item WHERE type > x) FROM t WHERE x IS NOT NULL)
      SELECT x FROM t WHERE x IS NOT NULL
      """
    ) { $0.text(0) }
    return Set(catalog.typeOrder).union(held)
  }

  private func addTypes(
    _ entries: [Text]?, includesSystem: Bool, _ call: Call, to conditions: inout Conditions
  ) throws {
    let known = try knownTypes()
    guard let entries else {
      let hidden = known.filter { !call.credential.reads($0) || (isSystem($0) && !includesSystem) }
      conditions.add("i.type", in: hidden.sorted(), negated: true)
      return
    }
    var chosen: Set<Text> = []
    for entry in entries { chosen.formUnion(try typesNamed(entry, known, call.credential)) }
    let namesSystem = entries.contains { isSystem($0) || $0 == "system.*" }
    chosen = chosen.filter { call.credential.reads($0) && (includesSystem || namesSystem || !isSystem($0)) }
    conditions.add("i.type", in: chosen.sorted())
  }

  /// The types an entry of a `type` list means, with the refusals of SF3 and EV3.
  func typesNamed(_ entry: Text, _ known: Set<Text>, _ reader: Credential) throws -> Set<Text> {
    if entry.bytes.suffix(2).elementsEqual(".*".utf8) {
      let prefix = Text(bytes: entry.bytes.dropLast(2))
      guard
        isTypeIdentifier(prefix) || isTypeIdentifier(Text(bytes: prefix.bytes + Array(".a".utf8)))
          || isTypeIdentifier(Text(bytes: prefix.bytes + Array(".a.a".utf8)))
      else { throw Refusal.invalid("type", "\(entry) is no type and no wildcard.") }
      return catalog.subtree(prefix).union(known.filter { $0.bytes.starts(with: prefix.bytes + [0x2E]) })
    }
    guard isTypeIdentifier(entry) else { throw Refusal.invalid("type", "\(entry) is no type identifier.") }
    guard catalog.types[entry] != nil else { throw Refusal.unknownType(entry) }
    let subtree = catalog.subtree(entry).union(known.filter { $0.bytes.starts(with: entry.bytes + [0x2E]) })
    if !subtree.contains(where: reader.reads) { throw Refusal.type(entry, .read) }
    return subtree
  }

  private func addFilter(_ call: Call, to conditions: inout Conditions) throws {
    var filter = try call.query["filter"].map { try Filter(parsing: $0) } ?? Filter()
    var terms: [Filter.Condition] = []
    for (key, value) in call.query.pairs {
      guard let (inbound, type) = call.query.edgeTerm(key) else { continue }
      if value.isEmpty || value.bytes.contains(UInt8(ascii: "\\")) {
        throw Refusal.invalid(key, "The value is an item's id.")
      }
      terms.append(Filter.Condition(field: .edge(inbound: inbound, type: type), word: .eq, literal: .text(value)))
    }
    if !terms.isEmpty {
      if filter.isAny { throw Refusal.invalid("filter", "An edge parameter does not go with OR.") }
      filter.conditions += terms
      if filter.conditions.count > 10 {
        throw Refusal.invalid("filter", "Too many conditions (\(filter.conditions.count)). Maximum is 10")
      }
    }
    for condition in filter.conditions {
      if case .edge(_, let type) = condition.field, !call.credential.edges.reads(type) {
        throw Refusal.edgeType(type, .read)
      }
    }
    let unreadable = try knownTypes().filter { !call.credential.reads($0) }.sorted()
    var readable: (sql: String, values: [(any SQLiteValue)?])?
    if !unreadable.isEmpty {
      let marks = unreadable.map { _ in "?" }.joined(separator: ", ")
      readable = ("s.type NOT IN (\(marks))", unreadable.map { $0 })
    }
    let sql = FilterSQL(
      readable: readable, tasks: catalog.subtree("core.task"),
      isReadable: { [self] id in try typeOf(id).map(call.credential.reads) ?? false },
      titles: { [self] literal in
        var match: Text?
        // A read waits for no lock: where the index cannot be completed, it does without.
        withoutWaiting { match = (try? titles.few(literal)) ?? nil }
        return match
      })
    try sql.add(filter, to: &conditions)
  }

  /// What binds a cursor to its listing: every parameter that chooses rows.
  func scope(_ door: String, _ call: Call, _ order: String) -> String {
    let chosen = call.query.pairs.filter { !["cursor", "limit", "include", "sort", "direction"].contains($0.key) }
      .map { "\($0.key.string)=\($0.value.string)" }.sorted()
    return "\(door)?\(chosen.joined(separator: "&"))#\(order)"
  }

  /// `GET /items`.
  func listItems(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare(
      Instance.narrowingKeys.union(["sort", "direction", "limit", "cursor"]), edgeTerms: true)
    var conditions = try narrow(call, standardState: "active")
    let includes = try includes(call, ["edges", "metadata", "extensions", "system"])
    let limit = try call.query.limit(1...200, default: 50)
    let order = try ListOrder(call.query)
    let scope = scope("items", call, order.spelling)
    if let text = call.query["cursor"] {
      let (sql, values) = try order.after(try cursors.read(text, scope))
      conditions.add(sql, values)
    }
    let isConditional = call.header("x-marfa-read-view") != nil
    let (withMetadata, withEdges) = (includes.contains("metadata"), includes.contains("edges"))
    let withExtensions = includes.contains("extensions")
    // Whether a row has edges is asked with the row, so that one without costs no query of its own.
    let hasEdges = withEdges ? ", EXISTS (SELECT 1 FROM edge WHERE source = i.id)" : ", 0"
    var out = Array("{\"data\":[".utf8)
    out.reserveCapacity(1 << 16)
    var count = 0
    var position: [JSON]?
    try database.rows(
      """
      SELECT \(ItemRow.prefixed), \(order.keys)\(hasEdges) FROM item i \(order.join)
      WHERE \(conditions.whereClause) ORDER BY \(order.orderBy) LIMIT \(limit + 1)
      """, order.joinValues + conditions.values
    ) { (row) throws in
      count += 1
      if count > limit { return }
      if count == limit { position = order.position(row) }
      if count > 1 { out += ",".utf8 }
      if count == 9 { out.reserveCapacity(out.count / 8 * (limit + 1)) }
      if withMetadata { out += "{\"item\":".utf8 }
      ItemRow.appendOpen(row, to: &out, reader: call.credential)
      if withEdges {
        out += ",\"edges\":".utf8
        if row.bool(ItemRow.columnCount + order.keyCount), let id = row.id(1) {
          try appendEdgeBlocks(of: id, inbound: false, call.credential, to: &out)
        } else {
          out += "{}".utf8
        }
      }
      if withExtensions {
        out += ",\"extensions\":".utf8
        ItemRow.appendExtensions(row, to: &out, reader: call.credential)
      }
      out += "}".utf8
      if withMetadata {
        out += ",\"metadata\":".utf8
        ItemRow.appendMetadata(row, to: &out, reader: call.credential)
        if isConditional { out += ",\"listed\":true".utf8 }
        out += "}".utf8
      }
    }
    out += "],\"next_cursor\":".utf8
    if count > limit, let position {
      try cursors.write(scope, position).append(to: &out)
    } else {
      out += "null".utf8
    }
    out.append(UInt8(ascii: "}"))
    return .text(200, out)
  }

  /// `GET /items/stats` (I21, SF26).
  func itemStats(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare(Instance.narrowingKeys.union(["by"]), edgeTerms: true)
    let conditions = try narrow(call, standardState: nil)
    _ = try includes(call, ["system"])
    let by = call.query["by"] ?? "state"
    guard by == "state" || by == "type" else { throw Refusal.invalid("by", "by is state or type.") }
    let counts = try database.all(
      "SELECT i.\(by), count(*) FROM item i WHERE \(conditions.whereClause) GROUP BY 1 ORDER BY 1", conditions.values
    ) { ($0.text(0), JSON.int($0.int(1))) }
    return .json(200, .object(JSONObject(counts)))
  }
}
