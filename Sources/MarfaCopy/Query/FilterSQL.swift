import MarfaBase

/// A condition in SQL with the values it binds in order.
struct Clause {
  var sql: String
  var values: [(any SQLiteValue)?] = []

  static func not(_ clause: Clause) -> Clause { Clause(sql: "NOT (\(clause.sql))", values: clause.values) }

  static func all(_ clauses: [Clause], joined: String = "AND") -> Clause {
    clauses.isEmpty
      ? Clause(sql: "1")
      : Clause(sql: clauses.map { "(\($0.sql))" }.joined(separator: " \(joined) "), values: clauses.flatMap(\.values))
  }
}

/// SQLite's own JSON functions, casts and affinities evaluate a filter, number literals bound as doubles, so that copy and
/// instance share its semantics rather than imitate them (SF21.6).
extension Filter {
  /// The filter over the rows of `item`.
  /// - Parameter byIndex: whether equalities are told by the value index, which must be whole.
  func clause(in catalog: Catalog, byIndex: Bool = false) -> Clause {
    .all(
      conditions.map { (byIndex ? $0.probe : nil) ?? $0.clause(in: catalog) }, joined: joiner == .and ? "AND" : "OR")
  }
}

extension Filter.Condition {
  private var comparison: String {
    switch `operator` {
    case .eq: "="
    case .neq: "<>"
    case .gt: ">"
    case .gte: ">="
    case .lt: "<"
    case .lte: "<="
    case .contains, .startsWith, .exists, .notExists: "="
    }
  }

  fileprivate func clause(in catalog: Catalog) -> Clause {
    switch field {
    case .system(let field): system(field)
    case .property(let name): property(name)
    case .tags: tags
    case .edge(let type): edge(type, from: "source", to: "target")
    case .backref(let type): edge(type, from: "target", to: "source")
    case .statusGroup: statusGroup(catalog)
    case .part: part(catalog)
    }
  }

  /// A `LIKE` pattern with its wildcards escaped (SF17.1).
  private var pattern: Text {
    var out: [UInt8] = `operator` == .contains ? [UInt8(ascii: "%")] : []
    for byte in literal?.rendered.bytes ?? [] {
      if byte == UInt8(ascii: "%") || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "\\") {
        out.append(UInt8(ascii: "\\"))
      }
      out.append(byte)
    }
    out.append(UInt8(ascii: "%"))
    return Text(bytes: out)
  }

  private func like(_ expression: String) -> Clause {
    Clause(sql: "(\(expression)) LIKE ? ESCAPE '\\'", values: [pattern])
  }

  // MARK: - System fields (SF18)

  private func system(_ field: Filter.System) -> Clause {
    let column = "item.\(field.rawValue)"
    if field.isTime {
      guard `operator`.isComparison else {
        let part = "((\(column) % 1000 + 1000) % 1000)"
        return like(
          "(strftime('%Y-%m-%dT%H:%M:%S', (\(column) - \(part)) / 1000, 'unixepoch') || printf('.%03dZ', \(part)))")
      }
      guard case .text(let text)? = literal, let time = Timestamp(served: text) else { return Clause(sql: "0") }
      return Clause(sql: "\(column) \(comparison) ?", values: [time])
    }
    guard `operator`.isComparison else { return like(column) }
    switch literal {
    case .text(let text)?: return Clause(sql: "\(column) \(comparison) ?", values: [text])
    case .number?, .bool?: return Clause(sql: "\(column) \(comparison) ?", values: [literal?.double])
    case nil: return Clause(sql: "0")
    }
  }

  // MARK: - Properties (SF15 to SF17)

  private func property(_ name: Text) -> Clause {
    // The name is a word of the grammar, so it stands in a path as it is.
    let held = "json_extract(item.properties, '$.\(name)')"
    let kind = "json_type(item.properties, '$.\(name)')"
    // A list or an object is compared as JavaScript spells it, however it was sent (SF15.5).
    let value = "CASE WHEN \(kind) IN ('array', 'object') THEN json_spelled(\(held)) ELSE \(held) END"
    let exists = "coalesce(\(kind), 'null') <> 'null'"
    switch `operator` {
    case .exists: return Clause(sql: exists)
    case .notExists: return Clause(sql: "NOT (\(exists))")
    case .contains, .startsWith:
      let match = like(value)
      return Clause(sql: "\(exists) AND \(match.sql)", values: match.values)
    case .eq: return equal(value, held, kind)
    case .neq:
      let equal = equal(value, held, kind)
      return Clause(sql: "\(exists) AND NOT coalesce(\(equal.sql), 0)", values: equal.values)
    case .gt, .gte, .lt, .lte:
      switch literal {
      case .text(let text)?: return Clause(sql: "\(exists) AND (\(value)) \(comparison) ?", values: [text])
      case .number?, .bool?:
        return Clause(sql: "\(exists) AND CAST(\(held) AS REAL) \(comparison) ?", values: [literal?.double])
      case nil: return Clause(sql: "0")
      }
    }
  }

  private func equal(_ value: String, _ held: String, _ kind: String) -> Clause {
    switch literal {
    case .text(let text)?:
      guard text.couldBeStructure else { return Clause(sql: "(\(kind) = 'text' AND \(held) = ?)", values: [text]) }
      return Clause(sql: "(\(kind) IN ('text', 'array', 'object') AND (\(value)) = ?)", values: [text])
    case .number?, .bool?:
      return Clause(
        sql: "(\(kind) IN ('integer', 'real', 'true', 'false') AND CAST(\(held) AS REAL) = ?)",
        values: [literal?.double])
    case nil: return Clause(sql: "0")
    }
  }

  // MARK: - Tags, edges, groups, parts (SF19, SF20)

  private var tags: Clause {
    switch `operator` {
    case .exists: return Clause(sql: "item.tags <> '[]'")
    case .notExists: return Clause(sql: "item.tags = '[]'")
    case .eq, .neq, .gt, .gte, .lt, .lte, .contains, .startsWith:
      // No tag equals a number (SF19.1).
      guard case .text(let tag)? = literal else { return Clause(sql: "0") }
      return Clause(sql: "EXISTS (SELECT 1 FROM json_each(item.tags) WHERE value = ?)", values: [tag])
    }
  }

  private func edge(_ type: Text, from: String, to: String) -> Clause {
    let any = Clause(sql: "EXISTS (SELECT 1 FROM edge WHERE edge.\(from) = item.id AND edge.type = ?)", values: [type])
    switch `operator` {
    case .exists: return any
    case .notExists: return .not(any)
    case .eq, .neq, .gt, .gte, .lt, .lte, .contains, .startsWith:
      var one = Clause(sql: "0")
      if case .text(let id)? = literal {
        one = Clause(
          sql: "EXISTS (SELECT 1 FROM edge WHERE edge.\(from) = item.id AND edge.type = ? AND edge.\(to) = ?)",
          values: [type, id])
      }
      return `operator` == .neq ? .not(one) : one
    }
  }

  private func statusGroup(_ catalog: Catalog) -> Clause {
    let types = catalog.subtree(of: "core.task")
    guard case .text(let group)? = literal, !types.isEmpty else { return Clause(sql: "0") }
    let places = Array(repeating: "?", count: types.count).joined(separator: ", ")
    let word = """
      CASE json_extract(item.properties, '$.status') WHEN 'pending' THEN 'not_started' WHEN 'in_progress' THEN 'in_progress'
        WHEN 'completed' THEN 'completed' WHEN 'canceled' THEN 'canceled' END
      """
    // An item in no group matches neither `eq` nor `neq`: the CASE is then NULL.
    return Clause(sql: "item.type IN (\(places)) AND (\(word)) \(comparison) ?", values: types + [group])
  }

  private func part(_ catalog: Catalog) -> Clause {
    let types = catalog.edgeTypes.values.filter(\.hasHosts).map(\.id).sorted()
    guard case .bool(let wanted)? = literal else { return Clause(sql: "0") }
    let places = Array(repeating: "?", count: types.count).joined(separator: ", ")
    // A host the copy does not hold counts as out of the bin (SF20.3).
    let isPart = Clause(
      sql: """
        EXISTS (SELECT 1 FROM edge LEFT JOIN item AS host ON host.id = edge.target
          WHERE edge.source = item.id AND edge.type IN (\(places)) AND coalesce(host.state, 'active') <> 'trashed')
        """, values: types)
    return wanted == (`operator` == .eq) ? isPart : .not(isPart)
  }
}

extension Text {
  /// Whether a list or an object could have this text.
  var couldBeStructure: Bool { bytes.first == UInt8(ascii: "[") || bytes.first == UInt8(ascii: "{") }
}
