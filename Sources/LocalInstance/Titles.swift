import MarfaBase

/// An index of titles by the three letters they hold, so that a `contains` on a title reads the titles that can match and no
/// other.
///
/// It is filled behind a watermark, the `seq` of the last row taken in, when a filter needs it or the instance is idle: a
/// create writes nothing for it. Rows below the watermark whose titles changed wait in `title_changed`. What it finds is
/// compared as ever, so it only ever leaves out what cannot match.
struct Titles {
  let database: Database

  /// Of at most so many trigrams of a text; more narrow nothing further.
  private static let most = 16

  /// What a filter compares of a title (`FilterSQL.property`).
  private static let words = """
    CASE WHEN p.kind < 3 THEN CAST(json_extract(i.properties, '$.title') AS TEXT)
      ELSE coalesce(p.words, json_extract(i.properties, '$.title')) END
    """

  /// A row below the watermark whose properties changed.
  func note(_ row: Int) throws {
    try database.run("INSERT OR IGNORE INTO title_changed VALUES (?)", row)
  }

  /// A row that is gone for good.
  func forget(_ row: Int) throws {
    try database.run("DELETE FROM title_gram WHERE rowid = ?", row)
    try database.run("DELETE FROM title_changed WHERE item = ?", row)
  }

  private func reached() throws -> Int {
    try database.one("SELECT value FROM meta WHERE name = 'titles'") { Int($0.string(0)) ?? 0 } ?? 0
  }

  /// Whether a row's title is not in it as it stands.
  private func waits(after reached: Int) throws -> Bool {
    try database.one(
      "SELECT EXISTS (SELECT 1 FROM title_changed) OR EXISTS (SELECT 1 FROM item WHERE seq > ?)", reached
    ) { $0.bool(0) } ?? false
  }

  /// Takes in rows that wait, at most so many new ones; all of them where nil.
  func fill(atMost count: Int? = nil) throws {
    let reached = try reached()
    guard try waits(after: reached) else { return }
    try database.transaction {
      try database.run("DELETE FROM title_gram WHERE rowid IN (SELECT item FROM title_changed)")
      let insert = """
        INSERT INTO title_gram (rowid, words)
        SELECT i.seq, \(Titles.words) FROM item i CROSS JOIN property p ON p.item = i.seq AND p.name = 'title'
        """
      try database.run("\(insert) WHERE i.seq <= ? AND i.seq IN (SELECT item FROM title_changed)", reached)
      try database.run("DELETE FROM title_changed")
      let last = try database.one(
        "SELECT max(seq) FROM (SELECT seq FROM item WHERE seq > ? ORDER BY seq LIMIT ?)", reached, count ?? -1
      ) { $0.optionalInt(0) }
      guard let last = last ?? nil else { return }
      try database.run("\(insert) WHERE i.seq > ? AND i.seq <= ?", reached, last)
      try database.run("INSERT OR REPLACE INTO meta VALUES ('titles', ?)", "\(last)")
    }
  }

  /// Beyond so many rows the listing's own order finds a page sooner than all of them would be found and sorted.
  private static let many = 2000

  /// The expression that finds the few rows whose titles a literal may lie in; nil where the index does not tell them, or
  /// they are many.
  func few(_ literal: Text) throws -> Text? {
    guard let match = Titles.match(literal) else { return nil }
    try fill()
    let count = try database.one(
      "SELECT count(*) FROM (SELECT rowid FROM title_gram WHERE title_gram MATCH ? LIMIT \(Titles.many))", match
    ) { $0.int(0) }
    return count ?? 0 < Titles.many ? match : nil
  }

  /// The expression that finds every title a literal may lie in, of any case; nil where the literal is too short for one,
  /// or no text.
  static func match(_ literal: Text) -> Text? {
    guard let text = String(validating: literal.bytes, as: UTF8.self), !literal.bytes.contains(0) else { return nil }
    let scalars = Array(text.unicodeScalars)
    guard scalars.count >= 3 else { return nil }
    var grams: [String] = []
    // The last ones too: a long literal's end tells as much as its beginning.
    let starts = Array(0...(scalars.count - 3))
    let chosen = starts.count <= most ? starts : Array(starts.prefix(most / 2)) + Array(starts.suffix(most / 2))
    for start in chosen {
      var gram = String.UnicodeScalarView()
      for scalar in scalars[start..<(start + 3)] {
        if scalar == "\"" { gram.append(scalar) }
        gram.append(scalar)
      }
      grams.append("\"\(String(gram))\"")
    }
    return Text(grams.joined(separator: " AND "))
  }
}

extension Instance {
  var titles: Titles { Titles(database: database) }
}
