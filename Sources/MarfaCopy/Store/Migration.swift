import MarfaBase

/// One step from an earlier schema to a later one (P4.1).
package struct Migration: Sendable {
  /// The schema it begins at.
  package var from: Int
  /// The schema it leads to.
  package var to: Int
  /// Its work, inside the transaction of the whole way.
  package var run: @Sendable (Database) throws -> Void

  /// A step.
  package init(from: Int, to: Int, run: @escaping @Sendable (Database) throws -> Void) {
    self.from = from
    self.to = to
    self.run = run
  }

  /// The steps from a schema to this build's; empty where they do not lead there.
  static func way(from version: Int, among migrations: [Migration]) -> [Migration] {
    var way: [Migration] = []
    var at = version
    while at < Schema.version, let step = migrations.first(where: { $0.from == at && $0.to > at }) {
      way.append(step)
      at = step.to
    }
    return at == Schema.version ? way : []
  }

  /// Takes a store of an earlier schema to this build's, in one transaction, a copy of it set aside first. Any other store
  /// is left as it is.
  static func migrate(_ database: Database, among migrations: [Migration]) throws {
    let version = try database.one("PRAGMA user_version") { $0.int(0) } ?? 0
    let way = way(from: version, among: migrations)
    guard version != 0, !way.isEmpty else { return }
    if let file = try database.one("SELECT file FROM pragma_database_list WHERE name = 'main'", read: { $0.text(0) }),
      !file.isEmpty
    {
      let aside = "\(file).before-\(version)"
      // A copy an earlier try left is the older one; it stays.
      if try database.one("SELECT 1 FROM pragma_database_list WHERE file = ?", aside, read: { _ in true }) == nil {
        try setAside(database, aside)
      }
    }
    try database.transaction {
      for step in way { try step.run(database) }
      try database.execute("PRAGMA user_version = \(Schema.version)")
    }
  }

  private static func setAside(_ database: Database, _ path: String) throws {
    do throws(SQLiteError) { try database.run("VACUUM INTO ?", path) } catch {
      // The file is there already: a try before this one was cut off after it.
      guard error.message.contains("already exists") else { throw error }
    }
  }
}
