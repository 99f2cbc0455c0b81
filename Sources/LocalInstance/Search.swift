import MarfaBase

/// Full-text search (SF22 to SF24). Rows are indexed in batches: at a tick, or before the next search (platform notes 0),
/// so a search always sees every row (I18).
extension Instance {
  /// Indexes some of what waits at a tick. While many write, indexing would take a quarter of the time they share, and a
  /// search indexes what waits all the same: it is left for a tick between the writes, but for a backlog grown long.
  func indexWhereIdle() {
    defer { writesSinceTick = 0 }
    if writesSinceTick > 50 {
      let waiting = (try? database.one("SELECT count(*) FROM unindexed") { $0.int(0) } ?? 0) ?? 0
      if waiting < 20_000 { return }
    }
    try? indexPending(atMost: 200)
    try? titles.fill(atMost: 2000)
  }

  /// Indexes rows written since; at most some, or all.
  func indexPending(atMost count: Int?) throws {
    // Where nothing waits, nothing is written: a search is a read then, whoever holds the write lock.
    guard try database.one("SELECT 1 FROM unindexed LIMIT 1", read: { $0.int(0) }) != nil else { return }
    try database.transaction {
      let pending = try database.all(
        "SELECT item FROM unindexed\(count.map { " LIMIT \($0)" } ?? "")"
      ) { $0.int(0) }
      for seq in pending {
        try database.run("DELETE FROM search WHERE rowid = ?", seq)
        let row = try database.one("SELECT \(ItemRow.columns) FROM item WHERE seq = ?", seq) { ItemRow($0) }
        if let row, !isSystem(row.type) || row.type == Instance.folderType { try index(row) }
        try database.run("DELETE FROM unindexed WHERE item = ?", seq)
      }
    }
  }

  private func index(_ row: ItemRow) throws {
    let properties = row.propertiesObject
    let type = catalog.type(row.type)
    func words(_ name: Text) -> Text? {
      if let field = type?.byName[name], !field.isSearchable || field.kind == "thumbnail" { return nil }
      return properties[name]?.text
    }
    let named: [Text] = ["title", "body", "description", "name"]
    let extra = (type?.fields ?? []).filter { field in
      field.isSearchable && field.kind != "thumbnail" && !named.contains(field.name)
    }.map(\.name).sorted().compactMap { properties[$0]?.text }
    let joined = extra.map(\.bytes).joined(separator: [0x0A])
    let tags = row.tagList.sorted().map(\.bytes).joined(separator: [0x0A])
    try database.run(
      "INSERT INTO search (rowid, title, body, description, name, extra, tags) VALUES (?, ?, ?, ?, ?, ?, ?)", row.seq,
      words("title"), words("body"), words("description"), words("name"), Text(bytes: joined), Text(bytes: tags))
  }

  /// After a change of a type: its items and its subtypes' are indexed anew (SF23.5).
  func reindex(_ type: Text) throws {
    for id in catalog.subtree(type).union([type]) {
      try database.run("INSERT OR IGNORE INTO unindexed SELECT seq FROM item WHERE type = ?", id)
    }
  }

  /// `GET /search`.
  func search(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([
      "q", "type", "state", "tier", "tags", "filter", "occurred_after", "occurred_before", "limit", "cursor", "include",
    ])
    let conditions = try narrow(call, standardState: "active", search: true)
    _ = try includes(call, ["system"])
    guard let words = call.query["q"] else { throw Refusal.missing("q") }
    if words.isEmpty || words.bytes.contains(0) { throw Refusal.invalid("q", "q is empty or holds U+0000.") }
    let limit = try call.query.limit(1...100, default: 20)
    let scope = scope("search", call, "")
    var offset = 0
    if let text = call.query["cursor"] {
      guard let place = try cursors.read(text, scope).first?.int else {
        throw Refusal.invalid("cursor", "The cursor is none of this listing.")
      }
      offset = place
    }
    guard let match = SearchWords(words).match else {
      return .text(200, Array("{\"data\":[],\"next_cursor\":null}".utf8))
    }
    do { try indexPending(atMost: nil) } catch let error as SQLiteError where !error.isBusy {
      // A full disk: what is indexed can be found all the same.
    }
    let wanted = min(limit, 10_000 - offset)
    let rows = try database.all(
      """
      SELECT \(ItemRow.prefixed), -bm25(search), snippet(search, -1, char(0xE000), char(0xE001), '...', 32)
      FROM search JOIN item i ON i.seq = search.rowid
      WHERE search MATCH ? AND \(conditions.whereClause) ORDER BY bm25(search), i.id LIMIT \(wanted + 1) OFFSET \(offset)
      """, [match] + conditions.values
    ) { (ItemRow($0), $0.double(ItemRow.columnCount), $0.bytes(ItemRow.columnCount + 1)) }
    var out = Array("{\"data\":[".utf8)
    for (place, (row, score, snippet)) in rows.prefix(wanted).enumerated() {
      if place > 0 { out += ",".utf8 }
      out += "{\"item\":".utf8
      row.appendOpen(to: &out, reader: call.credential)
      out += "},\"metadata\":".utf8
      row.appendMetadata(to: &out, reader: call.credential)
      // A word in more than half of all rows weighs nothing or less; a hit's score is greater than 0 (SF22.1).
      out += ",\"relevance_score\":\(JSONNumber(max(score, 1e-6))?.literal ?? "0.000001")".utf8
      if !snippet.isEmpty {
        out += ",\"snippet_html\":".utf8
        JSON.appendString(Text(bytes: marked(snippet)), to: &out)
      }
      out += "}".utf8
    }
    out += "],\"next_cursor\":".utf8
    if rows.count > wanted, offset + wanted < 10_000 {
      try cursors.write(scope, [.int(offset + wanted)]).append(to: &out)
    } else {
      out += "null".utf8
    }
    return .text(200, out + "}".utf8)
  }

  /// Escapes an excerpt, then turns the private-use marks into the only markup it holds (SF24.2).
  private func marked(_ snippet: [UInt8]) -> [UInt8] {
    var out: [UInt8] = []
    var isOpen = false
    var at = 0
    while at < snippet.count {
      let byte = snippet[at]
      if byte == 0xEE, at + 2 < snippet.count, snippet[at + 1] == 0x80,
        snippet[at + 2] == 0x80 || snippet[at + 2] == 0x81
      {
        let opens = snippet[at + 2] == 0x80
        if opens != isOpen {
          out += (opens ? "<mark>" : "</mark>").utf8
          isOpen = opens
        }
        at += 3
        continue
      }
      switch byte {
      case UInt8(ascii: "&"): out += "&amp;".utf8
      case UInt8(ascii: "<"): out += "&lt;".utf8
      case UInt8(ascii: ">"): out += "&gt;".utf8
      case UInt8(ascii: "\""): out += "&quot;".utf8
      case UInt8(ascii: "'"): out += "&#39;".utf8
      default: out.append(byte)
      }
      at += 1
    }
    if isOpen { out += "</mark>".utf8 }
    return out
  }
}

/// A person's words as an FTS5 expression built of quoted tokens (SF22.5, SF22.6); nil where they hold no token.
struct SearchWords {
  let match: Text?

  init(_ words: Text) {
    let scalars = Array(words.string.unicodeScalars)
    func isBlank(_ scalar: Unicode.Scalar) -> Bool { scalar.properties.isWhitespace || scalar.value == 0xFEFF }
    var rest = scalars[...]
    while let first = rest.first, isBlank(first) { rest = rest.dropFirst() }
    while let last = rest.last, isBlank(last) { rest = rest.dropLast() }
    func tokens(_ part: some Sequence<Unicode.Scalar>) -> String {
      var out = String.UnicodeScalarView()
      for scalar in part { out.append(SearchWords.isWordPart(scalar) ? scalar : " ") }
      return String(out).split(separator: " ").joined(separator: " ")
    }
    if rest.count > 2, rest.first == "\"", rest.last == "\"" {
      let phrase = tokens(rest.dropFirst().dropLast())
      match = phrase.isEmpty ? nil : Text("\"\(phrase)\"")
      return
    }
    let parts = rest.split(whereSeparator: isBlank).map(tokens)
    let lastIsPrefix = !(parts.last?.isEmpty ?? true)
    let named = parts.filter { !$0.isEmpty }
    match =
      named.isEmpty
      ? nil
      : Text(
        named.enumerated().map { "\"\($1)\"" + (lastIsPrefix && $0 == named.count - 1 ? " *" : "") }.joined(
          separator: " AND "))
  }

  /// A letter, a digit, or a mark that joins one.
  private static func isWordPart(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter, .decimalNumber,
      .letterNumber, .otherNumber, .nonspacingMark, .spacingMark, .privateUse:
      true
    default: false
    }
  }
}
