import MarfaBase

/// SQL conditions over the table `i` of items, with the values they bind, in order.
struct Conditions {
  private(set) var sql: [String] = []
  private(set) var values: [(any SQLiteValue)?] = []

  mutating func add(_ condition: String, _ bound: [(any SQLiteValue)?] = []) {
    sql.append(condition)
    values += bound
  }

  mutating func add(_ column: String, in texts: some Collection<Text>, negated: Bool = false) {
    if texts.isEmpty {
      if !negated { add("0") }
      return
    }
    let marks = texts.map { _ in "?" }.joined(separator: ", ")
    add("\(column) \(negated ? "NOT IN" : "IN") (\(marks))", texts.map { $0 })
  }

  var whereClause: String { sql.isEmpty ? "1" : sql.joined(separator: " AND ") }
}

/// Writes a filter as SQL, with the value rules of SF15 to SF20.
struct FilterSQL {
  /// SQL over the alias `s` of an item that says its type is readable; nil where every type is.
  let readable: (sql: String, values: [(any SQLiteValue)?])?
  let tasks: Set<Text>
  /// Whether an id names an item the reader may read.
  let isReadable: (EntityID) throws -> Bool
  /// The expression of the index of titles that leaves out what cannot hold a literal; nil where none does.
  let titles: (Text) -> Text?

  func add(_ filter: Filter, to conditions: inout Conditions) throws {
    guard !filter.conditions.isEmpty else { return }
    var parts: [String] = []
    var values: [(any SQLiteValue)?] = []
    for condition in filter.conditions {
      let (sql, bound) = try write(condition)
      parts.append("(\(sql))")
      values += bound
    }
    conditions.add("(\(parts.joined(separator: filter.isAny ? " OR " : " AND ")))", values)
  }

  private func write(_ condition: Filter.Condition) throws -> (String, [(any SQLiteValue)?]) {
    switch condition.field {
    case .system(let name): return system(name, condition)
    case .property(let name):
      let (sql, bound) = property(name, condition)
      guard name == "title", condition.word == .contains || condition.word == .starts_with,
        let match = condition.literal.flatMap({ titles($0.words) })
      else { return (sql, bound) }
      return ("i.seq IN (SELECT rowid FROM title_gram WHERE title_gram MATCH ?) AND \(sql)", [match] + bound)
    case .tags: return tags(condition)
    case .edge(let inbound, let type): return try edge(inbound, type, condition)
    case .statusGroup: return statusGroup(condition)
    case .part: return part(condition)
    }
  }

  private func pattern(_ literal: Filter.Literal, _ word: Filter.Operator) -> Text {
    var out: [UInt8] = word == .contains ? [UInt8(ascii: "%")] : []
    for byte in literal.words.bytes {
      if byte == UInt8(ascii: "%") || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "\\") {
        out.append(UInt8(ascii: "\\"))
      }
      out.append(byte)
    }
    out.append(UInt8(ascii: "%"))
    return Text(bytes: out)
  }

  private static let like = "LIKE ? ESCAPE '\\'"

  private func system(_ name: String, _ condition: Filter.Condition) -> (String, [(any SQLiteValue)?]) {
    guard let literal = condition.literal else { return ("0", []) }
    if Filter.timeFields.contains(name) {
      let column = "i.\(name.dropLast(3))"
      if let sql = condition.word.sql, case .text(let text) = literal, let time = readTime(text) {
        return ("\(column) \(sql) ?", [time])
      }
      // The served text of the time, milliseconds included, also before 1970.
      let rest = "((\(column) % 1000 + 1000) % 1000)"
      let served =
        "strftime('%Y-%m-%dT%H:%M:%S', (\(column) - \(rest)) / 1000, 'unixepoch') || printf('.%03dZ', \(rest))"
      return ("(\(served)) \(FilterSQL.like)", [pattern(literal, condition.word)])
    }
    if let sql = condition.word.sql { return ("i.\(name) \(sql) ?", [literal.bound]) }
    return ("i.\(name) \(FilterSQL.like)", [pattern(literal, condition.word)])
  }

  private func property(_ name: Text, _ condition: Filter.Condition) -> (String, [(any SQLiteValue)?]) {
    // The name is of letters, digits and `_` (SF11), so the path needs no quoting.
    let extracted = "json_extract(i.properties, '$.\(name)')"
    let words = "coalesce(p.words, \(extracted))"
    let test: String
    var bound: [(any SQLiteValue)?] = []
    switch (condition.word, condition.literal) {
    case (.exists, _):
      return ("EXISTS (SELECT 1 FROM property p WHERE p.item = i.seq AND p.name = ?)", [name])
    case (.not_exists, _):
      return ("NOT EXISTS (SELECT 1 FROM property p WHERE p.item = i.seq AND p.name = ?)", [name])
    case (.contains, let literal?), (.starts_with, let literal?):
      test = "CASE WHEN p.kind < 3 THEN CAST(\(extracted) AS TEXT) ELSE \(words) END \(FilterSQL.like)"
      bound = [pattern(literal, condition.word)]
    case (.eq, .text(let text)?):
      test = text.bytes.count <= 256 ? "p.kind >= 3 AND p.words = ?" : "p.kind >= 3 AND \(words) = ?"
      bound = [text]
    case (.neq, .text(let text)?):
      test = "NOT (p.kind >= 3 AND \(words) = ?)"
      bound = [text]
    case (.eq, let literal?):
      test = "p.kind < 3 AND p.number = ?"
      bound = [literal.bound]
    case (.neq, let literal?):
      test = "NOT (p.kind < 3 AND p.number = ?)"
      bound = [literal.bound]
    case (let word, .text(let text)?):
      let below = word == .lt || word == .lte ? "1" : "0"
      test = "CASE WHEN p.kind < 3 THEN \(below) ELSE \(words) \(word.sql ?? "=") ? END"
      bound = [text]
    case (let word, let literal?):
      test = "CASE WHEN p.kind < 3 THEN p.number ELSE CAST(\(words) AS REAL) END \(word.sql ?? "=") ?"
      bound = [literal.bound]
    case (_, nil): return ("0", [])
    }
    return ("EXISTS (SELECT 1 FROM property p WHERE p.item = i.seq AND p.name = ? AND \(test))", [name] + bound)
  }

  private func tags(_ condition: Filter.Condition) -> (String, [(any SQLiteValue)?]) {
    switch (condition.word, condition.literal) {
    case (.exists, _): ("EXISTS (SELECT 1 FROM tag t WHERE t.item = i.seq)", [])
    case (.not_exists, _): ("NOT EXISTS (SELECT 1 FROM tag t WHERE t.item = i.seq)", [])
    case (_, .text(let tag)?): ("EXISTS (SELECT 1 FROM tag t WHERE t.item = i.seq AND t.name = ?)", [tag])
    default: ("0", [])
    }
  }

  private func edge(
    _ inbound: Bool, _ type: Text, _ condition: Filter.Condition
  ) throws -> (String, [(any SQLiteValue)?]) {
    var from = "edge e"
    var test = "e.\(inbound ? "target" : "source") = i.id AND e.type = ?"
    var bound: [(any SQLiteValue)?] = [type]
    if inbound, let readable {
      from += " JOIN item s ON s.id = e.source"
      test += " AND \(readable.sql)"
      bound += readable.values
    }
    if condition.word == .eq || condition.word == .neq {
      var far = Text("")
      if case .text(let text)? = condition.literal { far = text }
      // An anchor the reader may not read is as one that does not exist (E9.3).
      if inbound, let id = EntityID(far), try !isReadable(id) { far = "" }
      test += " AND e.\(inbound ? "source" : "target") = ?"
      bound.append(far)
    }
    let negated = condition.word == .neq || condition.word == .not_exists
    return ("\(negated ? "NOT " : "")EXISTS (SELECT 1 FROM \(from) WHERE \(test))", bound)
  }

  /// The groups of a task's advised words (SF20.1).
  private func statusGroup(_ condition: Filter.Condition) -> (String, [(any SQLiteValue)?]) {
    let words: [(Text, Text)] = [
      ("not_started", "pending"), ("in_progress", "in_progress"), ("completed", "completed"), ("canceled", "canceled"),
    ]
    let group = condition.literal?.words
    let wanted = words.filter { ($0.0 == group) == (condition.word == .eq) }.map(\.1)
    var inner = Conditions()
    inner.add("i.type", in: tasks.sorted())
    inner.add("p.words", in: wanted)
    return (
      "EXISTS (SELECT 1 FROM property p WHERE p.item = i.seq AND p.name = 'status' AND \(inner.whereClause))",
      inner.values
    )
  }

  private func part(_ condition: Filter.Condition) -> (String, [(any SQLiteValue)?]) {
    var wantsParts = condition.word == .eq
    if case .bool(false)? = condition.literal { wantsParts.toggle() }
    let test = """
      EXISTS (SELECT 1 FROM edge e JOIN item h ON h.id = e.target WHERE e.source = i.id
        AND e.type IN ('attached-to', 'comments-on') AND h.state <> 'trashed')
      """
    return (wantsParts ? test : "NOT \(test)", [])
  }
}
