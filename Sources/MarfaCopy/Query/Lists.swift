import MarfaBase

/// What a list or a search narrows by (SF21.1).
package struct ListQuery: Hashable, Sendable {
  /// What a list is sorted by.
  package enum Sort: Hashable, Sendable {
    case createdAt, updatedAt, occurredAt
    case property(Text)
  }

  /// Types, each with its subtree; empty is every type, `system.*` aside.
  package var types: [Text] = []
  /// States; empty is `active` alone (SF21.8).
  package var states: [Text] = []
  /// A tier; nil or `all` is both.
  package var tier: Text?
  /// Tags an item carries all of.
  package var tags: [Text] = []
  /// Exclusive bounds of an item's own time, as an instance reads a time.
  package var occurredAfter: Text?
  package var occurredBefore: Text?
  /// Inclusive; forces the order of changes (SF7.4).
  package var updatedAfter: Text?
  /// Exclusive.
  package var updatedBefore: Text?
  package var filter: Text?
  package var beneath: EntityID?
  package var sort: Sort?
  /// Whether the order ascends; nil is the sort's own (SF7.2).
  package var ascending: Bool?
  /// At most so many rows; nil is all.
  package var limit: Int?
  package var offset = 0
  /// Whether `system.*` rows stay out even where a type names them: no folder holds one (D65.1).
  package var leavesSystemOut = false

  /// A list of everything active.
  package init() {}
}

extension WorkingCopy {
  /// The ids a folder's search holds, ascending (F2, D65).
  /// - Throws: `hydration_incomplete` for a copy that is not whole, `invalid` for a type, a tier or `parent-of` the slice
  ///   lacks or a condition no folder follows, `validation` for a filter the grammar refuses.
  package func items(matching search: FolderSearch) throws(MarfaError) -> [EntityID] {
    let query = try prepared(search)
    return try store.read {
      try database.allRows(
        "\(query.with)SELECT item.id FROM item WHERE \(query.clause.sql) ORDER BY item.id", query.all
      ) {
        $0.id(0)
      }.compactMap { $0 }
    }
  }

  /// The same with their rows.
  package func rows(matching search: FolderSearch) throws(MarfaError) -> [Item] {
    let query = try prepared(search)
    return try store.read {
      try database.allRows(
        "\(query.with)SELECT \(Store.itemColumns) FROM item WHERE \(query.clause.sql) ORDER BY item.id", query.all
      ) { try Store.item(of: $0) }
    }
  }

  /// Whether a search holds an item.
  package func matches(_ id: EntityID, _ search: FolderSearch) throws(MarfaError) -> Bool {
    let query = try prepared(search)
    return try store.read {
      try database.rows1(
        "\(query.with)SELECT 1 FROM item WHERE item.id = ? AND (\(query.clause.sql))",
        query.before + [id] + query.clause.values
      ) { _ in true } ?? false
    }
  }

  /// A list in its order (D211, SF21). It answers from what is held in any state but `expired`.
  package func list(_ query: ListQuery) throws(MarfaError) -> [Item] {
    guard try hydration() != .expired else { try requireComplete(); return [] }
    let order = try order(of: query)
    let way = try way(of: query)
    let prepared = try prepared(query, way)
    var from = "item"
    var values = prepared.before
    if case .few(_, let rows) = way {
      from = "(SELECT DISTINCT row FROM (\(rows.sql))) AS few CROSS JOIN item ON item.row = few.row"
      values += rows.values
    }
    return try store.read {
      try database.allRows(
        """
        \(prepared.with)SELECT \(Store.qualifiedItemColumns) FROM \(from) WHERE \(prepared.clause.sql)
        ORDER BY \(order) LIMIT ? OFFSET ?
        """, values + prepared.clause.values + [query.limit ?? -1, query.offset]
      ) { try Store.item(of: $0) }
    }
  }

  /// How a list finds its rows.
  enum Way {
    /// As SQLite plans it.
    case plain
    /// From the few rows a condition of the filter holds for; that condition needs no test of its own.
    case few(condition: Int, rows: Clause)
    /// Along the order of creation until the list is full, equalities told by the value index.
    case ordered
  }

  /// Up to so many rows are sorted sooner than the order is walked.
  static let fewRows = 4000

  private func way(of query: ListQuery) throws(MarfaError) -> Way {
    let filter = try query.filter.map { (text) throws(MarfaError) in try Filter(text) }
    return try store.read {
      if let filter, filter.joiner == .and || filter.conditions.count == 1, try hasValues() {
        var best: (condition: Int, rows: Clause, count: Int)?
        for (place, condition) in filter.conditions.enumerated() {
          guard let rows = condition.rows else { continue }
          let most = best?.count ?? WorkingCopy.fewRows + 1
          let count = try count(rows, atMost: most)
          if count < most { best = (place, rows, count) }
        }
        if let best { return .few(condition: best.condition, rows: best.rows) }
      }
      guard query.limit != nil, query.sort == nil || query.sort == .createdAt, query.updatedAfter == nil,
        query.states != ["trashed"], query.beneath == nil
      else { return .plain }
      guard !query.types.isEmpty else { return .ordered }
      let typed = try typeClause(query.types, try catalog())
      let rows = Clause(sql: "SELECT 1 FROM item WHERE \(typed.sql)", values: typed.values)
      return try count(rows, atMost: WorkingCopy.fewRows + 1) > WorkingCopy.fewRows ? .ordered : .plain
    }
  }

  private func count(_ rows: Clause, atMost most: Int) throws(SQLiteError) -> Int {
    try database.all("SELECT count(*) FROM (SELECT 1 FROM (\(rows.sql)) LIMIT ?)", rows.values + [most]) {
      row throws(SQLiteError) in row.int(0)
    }.first ?? 0
  }

  /// Whether the value index can be asked: a writer takes in what waits first.
  private func hasValues() throws -> Bool {
    if role == .writer { try ValueIndex.fill(database) }
    return try ValueIndex.isWhole(database)
  }

  // MARK: - What is narrowed by

  /// A condition with the values its `WITH` part binds first.
  struct Prepared {
    var with = ""
    var before: [(any SQLiteValue)?] = []
    var clause: Clause
    var all: [(any SQLiteValue)?] { before + clause.values }
  }

  private func prepared(_ search: FolderSearch) throws(MarfaError) -> Prepared {
    try prepared(try listQuery(of: search))
  }

  /// The list a folder's search is.
  func listQuery(of search: FolderSearch) throws(MarfaError) -> ListQuery {
    try requireComplete()
    guard let slice = try slice() else { throw MarfaError(.hydrationIncomplete, "the working copy was never filled") }
    for state in search.states where state != "active" && state != "archived" {
      throw MarfaError(.invalid, "no folder follows the state \(state)")
    }
    if search.states.isEmpty { throw MarfaError(.invalid, "a folder's search names no state") }
    guard search.tier == "library" || search.tier == "feed" else {
      throw MarfaError(.invalid, "no folder follows the tier \(search.tier)")
    }
    guard slice.holds(tier: search.tier) else {
      throw MarfaError(.invalid, "the working copy holds no tier \(search.tier)")
    }
    for type in search.types where !answersType(type, slice) {
      throw MarfaError(.invalid, "the working copy does not hold the type \(type)")
    }
    if search.types.isEmpty, slice.types != nil {
      throw MarfaError(.invalid, "the working copy does not hold every type")
    }
    var query = ListQuery()
    query.types = search.types
    query.states = search.states
    query.tier = search.tier
    query.filter = search.filter
    query.beneath = search.beneath
    query.leavesSystemOut = true
    return query
  }

  private func answersType(_ type: Text, _ slice: Slice) -> Bool {
    let isSystem = type.bytes.starts(with: "system.".utf8)
    guard let declared = slice.types else { return !isSystem || slice.systemTypes.contains(type) }
    guard let catalog = try? catalog() else { return false }
    return declared.contains { $0 == type || catalog.isType(type, under: $0) }
  }

  func prepared(_ query: ListQuery, _ way: Way = .plain) throws(MarfaError) -> Prepared {
    let catalog = try catalog()
    var clauses: [Clause] = []
    if query.types.isEmpty || query.leavesSystemOut {
      clauses.append(Clause(sql: "NOT (item.type >= 'system.' AND item.type < 'system/')"))
    }
    if !query.types.isEmpty {
      // A term with a sign is no term of an index: the order's own is to be walked.
      var column = "item.type"
      if case .ordered = way { column = "+item.type" }
      clauses.append(try typeClause(query.types, catalog, column: column))
    }
    // A pinned row the instance's listing leaves out is held, and no list gives it (D52.9).
    clauses.append(Clause(sql: "item.listed"))
    let states = query.states.isEmpty ? ["active"] : query.states
    clauses.append(Clause(sql: "item.state IN (\(places(states.count)))", values: states))
    if let tier = query.tier, tier != "all" { clauses.append(Clause(sql: "item.tier = ?", values: [tier])) }
    for tag in query.tags {
      clauses.append(Clause(sql: "EXISTS (SELECT 1 FROM json_each(item.tags) WHERE value = ?)", values: [tag]))
    }
    for (bound, column, comparison) in [
      (query.occurredAfter, "occurred_at", ">"), (query.occurredBefore, "occurred_at", "<"),
      (query.updatedAfter, "updated_at", ">="), (query.updatedBefore, "updated_at", "<"),
    ] {
      guard let bound else { continue }
      guard let time = Timestamp(served: bound) else { throw .validation("\(bound) is no time") }
      clauses.append(Clause(sql: "item.\(column) \(comparison) ?", values: [time]))
    }
    if let text = query.filter {
      let filter = try Filter(text)
      if filter.hasBackref {
        throw MarfaError(.invalid, "a backref condition is not followed by a list, a search or a folder")
      }
      switch way {
      case .plain: clauses.append(filter.clause(in: catalog))
      case .few(let place, _):
        var rest = filter
        rest.conditions.remove(at: place)
        clauses.append(rest.clause(in: catalog))
      case .ordered: clauses.append(filter.clause(in: catalog, byIndex: try store.read { try hasValues() }))
      }
    }
    var prepared = Prepared(clause: Clause(sql: "1"))
    if let root = query.beneath {
      guard try slice()?.edgeTypes.contains("parent-of") ?? false else {
        throw MarfaError(.invalid, "beneath needs parent-of, which the working copy does not hold whole")
      }
      // UNION, not UNION ALL: a circle of edges ends the walk (SF21.2).
      prepared.with = """
        WITH RECURSIVE beneath (id) AS (SELECT ? UNION SELECT edge.target FROM edge JOIN beneath ON edge.source = beneath.id
          WHERE edge.type = 'parent-of')

        """
      prepared.before = [root]
      clauses.append(Clause(sql: "item.id IN (SELECT id FROM beneath)"))
    }
    prepared.clause = .all(clauses)
    return prepared
  }

  private func places(_ count: Int) -> String { Array(repeating: "?", count: count).joined(separator: ", ") }

  /// Types with their subtrees, by dotted name and by declared parent (D36.1).
  private func typeClause(
    _ types: [Text], _ catalog: Catalog, column: String = "item.type"
  ) throws(MarfaError) -> Clause {
    var names: Set<Text> = []
    var clauses: [Clause] = []
    for type in types {
      guard Slice.isWellFormed(type) else { throw .validation("\(type) is no type name") }
      let isWildcard = type.bytes.suffix(2).elementsEqual(".*".utf8)
      let root = isWildcard ? Text(bytes: type.bytes.dropLast(2)) : type
      names.insert(root)
      names.formUnion(catalog.subtree(of: root))
      clauses.append(
        Clause(
          sql: "\(column) >= ? AND \(column) < ?",
          values: [Text(bytes: root.bytes + [UInt8(ascii: ".")]), Text(bytes: root.bytes + [UInt8(ascii: "/")])]))
    }
    let exact = names.sorted()
    clauses.insert(Clause(sql: "\(column) IN (\(places(exact.count)))", values: exact), at: 0)
    return .all(clauses, joined: "OR")
  }

  // MARK: - Order (SF7, SF8)

  private func order(of query: ListQuery) throws(MarfaError) -> String {
    if query.updatedAfter != nil {
      guard query.sort == nil || query.sort == .updatedAt, query.ascending ?? true else {
        throw .validation("updated_after orders by change, oldest first; no other order stands beside it")
      }
      return "item.updated_at, item.id"
    }
    if query.sort == nil, query.ascending == nil, query.states == ["trashed"] { return "item.updated_at DESC, item.id" }
    switch query.sort {
    case .createdAt?, nil: return "item.created_at \(query.ascending ?? false ? "ASC" : "DESC"), item.id"
    case .updatedAt?: return "item.updated_at \(query.ascending ?? false ? "ASC" : "DESC"), item.id"
    case .occurredAt?: return "item.occurred_at \(query.ascending ?? false ? "ASC" : "DESC"), item.id"
    case .property(let name)?:
      let isName = name.bytes.allSatisfy {
        ($0 >= UInt8(ascii: "a") && $0 <= UInt8(ascii: "z")) || ($0 >= 0x30 && $0 <= 0x39) || $0 == UInt8(ascii: "_")
      }
      guard isName, !name.isEmpty else { throw .validation("\(name) is no property to sort by") }
      let ascends = query.ascending ?? true
      let kind = "json_type(item.properties, '$.\"\(name)\"')"
      let value = "json_extract(item.properties, '$.\"\(name)\"')"
      let rank =
        "CASE \(kind) WHEN 'integer' THEN \(ascends ? 0 : 1) WHEN 'real' THEN \(ascends ? 0 : 1) "
        + "WHEN 'true' THEN \(ascends ? 0 : 1) WHEN 'false' THEN \(ascends ? 0 : 1) "
        + "WHEN 'text' THEN \(ascends ? 1 : 0) ELSE 2 END"
      return "\(rank), CASE WHEN \(rank) < 2 THEN \(value) END \(ascends ? "ASC" : "DESC"), item.id"
    }
  }
}
