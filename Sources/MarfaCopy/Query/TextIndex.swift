import MarfaBase

/// A hit of a search (D55.11).
package struct SearchHit: Hashable, Sendable {
  package var item: Item
  /// Greater is better; relative to the copy's own rows.
  package var score: Double
  /// At most 32 words of the best matching column, matches in `<mark>`, the rest escaped (D55.10).
  package var snippet: Text

  /// Its members (C26.1).
  package var json: JSON {
    ["item": item.json, "score": JSONNumber(score).map { .number($0) } ?? .null, "snippet": .string(snippet)]
  }
}

extension WorkingCopy {
  /// Items that match words, best first, ties by id (SF22 to SF24). The bin never matches (D33.1).
  /// - Parameter words: as typed: every word must match, the last as a prefix; a text in quotes is a phrase.
  package func search(_ words: Text, _ query: ListQuery = ListQuery()) throws(MarfaError) -> [SearchHit] {
    guard try hydration() != .expired else { try requireComplete(); return [] }
    let prepared = try prepared(query)
    guard let match = SearchWords.match(words) else { return [] }
    let index = try searchIndex()
    // Private-use marks, replaced after escaping: nothing else is ever markup.
    let values = prepared.before + [match] + prepared.clause.values + [query.limit ?? 20, query.offset]
    return try store.read {
      try database.allRows(
        """
        \(prepared.with)SELECT \(Store.qualifiedItemColumns), -bm25(\(index)),
          snippet(\(index), -1, char(0xE000), char(0xE001), '...', 32)
        FROM \(index) JOIN item ON item.row = \(index).rowid
        WHERE \(index) MATCH ? AND item.state <> 'trashed' AND \(prepared.clause.sql)
        ORDER BY bm25(\(index)), item.id LIMIT ? OFFSET ?
        """, values
      ) { row in
        SearchHit(item: try Store.item(of: row), score: row.double(15), snippet: SearchWords.escape(row.bytes(16)))
      }
    }
  }
}

extension WorkingCopy {
  /// The index to search. A reader changes no byte of the store, so where rows are not indexed yet it indexes all of them
  /// in a temporary table of its own.
  private func searchIndex() throws(MarfaError) -> String {
    if role == .writer {
      try store.indexPending(catalog: try catalog())
      return "item_text"
    }
    return try store.indexForReader(version: try dataVersion())
  }
}

extension Store {
  /// The store's own index where it is whole, else one in memory, made anew when the store has changed.
  func indexForReader(version: Int) throws(MarfaError) -> String {
    try read {
      guard try database.one("SELECT 1 FROM text_pending LIMIT 1", read: { _ in true }) ?? false else {
        return "item_text"
      }
      if readerIndexVersion == version { return "reader_text" }
      // Another build of the catalog may have been saved meanwhile.
      kept = nil
      let catalog = try catalog()
      try database.execute(
        """
        PRAGMA temp_store = MEMORY; DROP TABLE IF EXISTS temp.reader_text;
        CREATE VIRTUAL TABLE temp.reader_text USING fts5 (
          title, body, description, name, extra, tags, tokenize = 'porter unicode61 remove_diacritics 2');
        """)
      var items: [(row: Int, item: Item)] = []
      try database.rows("SELECT \(Store.itemColumns), row FROM item WHERE state <> 'trashed'") { (row) throws in
        items.append((row.int(15), try Store.item(of: row)))
      }
      for (row, item) in items {
        try database.run(
          """
          INSERT INTO reader_text (rowid, title, body, description, name, extra, tags) VALUES (?, ?, ?, ?, ?, ?, ?)
          """, [row] + SearchWords.columns(of: item, in: catalog))
      }
      readerIndexVersion = version
      return "reader_text"
    }
  }

  /// Indexes the rows whose text is not indexed as it stands, in one transaction.
  func indexPending(catalog: Catalog) throws(MarfaError) {
    let pending = try read { try database.one("SELECT 1 FROM text_pending LIMIT 1") { _ in true } ?? false }
    guard pending else { return }
    try transaction {
      try database.run("DELETE FROM item_text WHERE rowid IN (SELECT row FROM text_pending)")
      var items: [(row: Int, item: Item)] = []
      try database.rows(
        "SELECT \(Store.itemColumns), row FROM item WHERE row IN (SELECT row FROM text_pending) AND state <> 'trashed'"
      ) { (row) throws in items.append((row.int(15), try Store.item(of: row))) }
      for (row, item) in items {
        let text = SearchWords.columns(of: item, in: catalog)
        try database.run(
          """
          INSERT INTO item_text (rowid, title, body, description, name, extra, tags) VALUES (?, ?, ?, ?, ?, ?, ?)
          """, [row] + text)
      }
      try database.run("DELETE FROM text_pending")
    }
  }
}

/// How text and words become FTS5's (D55).
enum SearchWords {
  /// The six columns of a row: four named properties where they are texts, other searchable texts of the type in order of
  /// name, tags in byte order (SF23).
  static func columns(of item: Item, in catalog: Catalog) -> [(any SQLiteValue)?] {
    let named: [Text] = ["title", "body", "description", "name"]
    let type = catalog.type(item.type)
    func indexed(_ name: Text) -> Text? {
      let field = type?.field(name)
      guard field?.isSearchable ?? true, field?.kind != "thumbnail" else { return nil }
      return item.properties[name]?.text
    }
    let extra = (type?.fields ?? []).map(\.name).filter { !named.contains($0) }.sorted().compactMap(indexed)
    func joined(_ texts: [Text]) -> Text { Text(bytes: Array(texts.map(\.bytes).joined(separator: [0x0A]))) }
    return named.map { indexed($0) ?? "" } + [joined(extra), joined(item.tags)]
  }

  /// The FTS5 query of words as typed, each quoted so that nothing of it is syntax (D55.5 to D55.8); nil where no word is
  /// left.
  static func match(_ typed: Text) -> Text? {
    let text = trimmed(typed.string)
    if text.count > 2, text.hasPrefix("\""), text.hasSuffix("\"") {
      let phrase = text.dropFirst().dropLast()
      return hasWord(phrase) ? quoted(phrase) : nil
    }
    let typed = text.split(whereSeparator: \.isWhitespace)
    let words = typed.filter { hasWord($0) }
    guard let last = words.last else { return nil }
    let whole = words.dropLast().map { quoted($0).bytes + [0x20] }.flatMap { $0 }
    // Where separators stand last, the word before them is whole (SF22.5).
    let isPrefix = typed.last.map { hasWord($0) } ?? false
    return Text(bytes: whole + quoted(last).bytes + (isPrefix ? Array(" *".utf8) : []))
  }

  private static func hasWord(_ text: some StringProtocol) -> Bool {
    text.unicodeScalars.contains { $0.properties.isAlphabetic || $0.properties.numericType != nil }
  }

  private static func trimmed(_ text: String) -> String {
    var scalars = text.unicodeScalars[...]
    func isBlank(_ scalar: Unicode.Scalar) -> Bool { scalar == "\u{FEFF}" || scalar.properties.isWhitespace }
    while let first = scalars.first, isBlank(first) { scalars = scalars.dropFirst() }
    while let last = scalars.last, isBlank(last) { scalars = scalars.dropLast() }
    return String(scalars)
  }

  /// A quoted text of FTS5: quotes within become spaces, which separate as they do in the text.
  private static func quoted(_ text: some StringProtocol) -> Text {
    Text(bytes: [0x22] + text.utf8.map { $0 == 0x22 || $0 == 0 ? 0x20 : $0 } + [0x22])
  }

  /// Escapes a snippet and puts `<mark>` where the private-use marks stand.
  static func escape(_ bytes: [UInt8]) -> Text {
    var out = ""
    for scalar in String(decoding: bytes, as: UTF8.self).unicodeScalars {
      switch scalar {
      case "&": out += "&amp;"
      case "<": out += "&lt;"
      case ">": out += "&gt;"
      case "\"": out += "&quot;"
      case "'": out += "&#39;"
      case "\u{E000}": out += "<mark>"
      case "\u{E001}": out += "</mark>"
      default: out.unicodeScalars.append(scalar)
      }
    }
    return Text(out)
  }
}
