import MarfaBase

/// What a queued write is to the file it came from.
package struct FolderWrite: Hashable, Sendable {
  package enum Role: String, Sendable {
    case create, edit, tag, untag, state, upload, edge, placement, end, delete, restore
  }

  package var id: EntityID
  /// Whose file it came from.
  package var item: EntityID
  package var role: Role
  /// The tag, the edge's id, the placement's path: what a refusal of it names.
  package var detail: Text

  /// The detail of a restore that a file put back asked for (P2.3).
  static let returned: Text = "returned"
  /// The detail of a default edge of a new file (F3.7).
  static let defaultEdge: Text = "default"

  package init(id: EntityID, item: EntityID, role: Role, detail: Text = "") {
    self.id = id
    self.item = item
    self.role = role
    self.detail = detail
  }
}

/// A placement the server refused, not sent again while all of these stay (F19.23).
package struct RefusedPlacement: Hashable, Sendable {
  package var item: EntityID
  package var path: PathBytes
  package var key: Text?
  package var grant: Text?
  package var settings: Int
  /// The edge and version it was based on; nil for a new one.
  package var base: Text?
  package var reason: String
}

/// Something on the disk that is about to change (X15.5).
package struct LandingRecord: Hashable, Sendable {
  /// Where bytes land, or the file that is taken away.
  package var path: PathBytes
  /// The bytes that land; nil where a file is taken away.
  package var hash: ContentHash?
  /// The binding once it landed; of a file taken away, the binding to put back where it is left.
  package var binding: Binding
  /// A file of ours to take away once this one landed: its path and the bytes it must hold (a move).
  package var leaves: PathBytes?
  package var leavesHash: ContentHash?
  /// The temporary file it lands from, and the bytes it replaces: after an exchange the one holds the other (P1.4).
  package var temporary: PathBytes?
  package var replaces: ContentHash?

  package init(
    path: PathBytes, hash: ContentHash?, binding: Binding, leaves: PathBytes? = nil, leavesHash: ContentHash? = nil,
    temporary: PathBytes? = nil, replaces: ContentHash? = nil
  ) {
    self.temporary = temporary
    self.replaces = replaces
    self.path = path
    self.hash = hash
    self.binding = binding
    self.leaves = leaves
    self.leavesHash = leavesHash
  }

  /// The record of a file of ours whose item stands elsewhere by now and which could not be taken away: until it can, it is
  /// no second note.
  static func leftover(_ path: PathBytes, _ hash: ContentHash, of binding: Binding) -> LandingRecord {
    LandingRecord(path: path, hash: nil, binding: binding, leaves: path, leavesHash: hash)
  }

  /// The bytes of such a file; nil of any other record.
  var leftoverHash: ContentHash? { hash == nil && leaves == path ? leavesHash : nil }

  /// Why a leftover file is held.
  var leftoverReason: String {
    "its note is \(binding.path) now, and this file could not be taken away; the next sync tries again"
  }
}

extension FolderStore {
  // MARK: Writes of files

  package func link(_ write: FolderWrite) throws(SQLiteError) {
    try database.run(
      "INSERT OR REPLACE INTO folder_write (id, item, role, detail) VALUES (?, ?, ?, ?)", write.id, write.item,
      write.role.rawValue, write.detail)
  }

  private static func readWrite(_ row: Row) throws(SQLiteError) -> FolderWrite {
    guard let id = row.id(0), let item = row.id(1), let role = FolderWrite.Role(rawValue: row.string(2)) else {
      throw .damaged("the folder's record of the queued write \(row.string(0)) cannot be read")
    }
    return FolderWrite(id: id, item: item, role: role, detail: row.text(3))
  }

  package func write(_ id: EntityID) throws(SQLiteError) -> FolderWrite? {
    try database.one("SELECT id, item, role, detail FROM folder_write WHERE id = ?", id) {
      (row) throws(SQLiteError) -> FolderWrite in try Self.readWrite(row)
    }
  }

  package func writes(of item: EntityID) throws(SQLiteError) -> [FolderWrite] {
    try database.all("SELECT id, item, role, detail FROM folder_write WHERE item = ? ORDER BY id", item) {
      (row) throws(SQLiteError) -> FolderWrite in try Self.readWrite(row)
    }
  }

  package func writes() throws(SQLiteError) -> [FolderWrite] {
    try database.all("SELECT id, item, role, detail FROM folder_write ORDER BY id") {
      (row) throws(SQLiteError) -> FolderWrite in try Self.readWrite(row)
    }
  }

  /// Those the queue has a verdict of, whatever it is.
  package func writesAnswered() throws(SQLiteError) -> [FolderWrite] {
    try database.all(
      """
      SELECT folder_write.id, folder_write.item, role, detail FROM folder_write CROSS JOIN queue
      WHERE queue.id = folder_write.id AND verdict IS NOT NULL ORDER BY folder_write.id
      """
    ) {
      (row) throws(SQLiteError) -> FolderWrite in try Self.readWrite(row)
    }
  }

  package func unlink(_ id: EntityID) throws(SQLiteError) {
    try database.run("DELETE FROM folder_write WHERE id = ?", id)
  }

  // MARK: Landings under way

  package func record(_ landing: LandingRecord) throws(SQLiteError) {
    var facts = members(["binding": landing.binding.json])
    if let leaves = landing.leaves { facts["leaves"] = .string(leaves.text) }
    if let hash = landing.leavesHash { facts["leaves_hash"] = .string(hash.hex) }
    if let temporary = landing.temporary { facts["temporary"] = .string(temporary.text) }
    if let hash = landing.replaces { facts["replaces"] = .string(hash.hex) }
    try database.run(
      "INSERT OR REPLACE INTO landing (path, hash, facts) VALUES (?, ?, ?)", landing.path, landing.hash,
      Text(bytes: JSON.object(facts).write()))
  }

  package func landings() throws(SQLiteError) -> [LandingRecord] {
    try database.all("SELECT path, hash, facts FROM landing ORDER BY path") {
      (row) throws(SQLiteError) -> LandingRecord in
      guard let path = row.path(0), let facts = try? JSON(parsing: row.bytes(2)),
        let binding = facts["binding"].flatMap(Binding.init(json:))
      else { throw .damaged("the folder's record of what lands at \(row.string(0)) cannot be read") }
      return LandingRecord(
        path: path, hash: row.optionalText(1).flatMap { ContentHash($0) }, binding: binding,
        leaves: facts["leaves"]?.text.map { PathBytes($0) },
        leavesHash: facts["leaves_hash"]?.text.flatMap { ContentHash($0) },
        temporary: facts["temporary"]?.text.map { PathBytes($0) },
        replaces: facts["replaces"]?.text.flatMap { ContentHash($0) })
    }
  }

  package func forgetLanding(at path: PathBytes) throws(SQLiteError) {
    try database.run("DELETE FROM landing WHERE path = ?", path)
  }

  // MARK: Displaced files

  package func record(_ displaced: DisplacedFile) throws(SQLiteError) {
    try database.run(
      "INSERT OR REPLACE INTO displaced (temporary, path, hash, landed) VALUES (?, ?, ?, ?)", displaced.temporary,
      displaced.path, displaced.hash, displaced.landed)
  }

  package func displaced() throws(SQLiteError) -> [DisplacedFile] {
    try database.all("SELECT temporary, path, hash, landed FROM displaced ORDER BY temporary") {
      (row) throws(SQLiteError) -> DisplacedFile in
      guard let temporary = row.path(0), let path = row.path(1), let hash = ContentHash(row.text(2)),
        let landed = ContentHash(row.text(3))
      else { throw .damaged("the folder's record of the displaced file \(row.string(0)) cannot be read") }
      return DisplacedFile(path: path, temporary: temporary, hash: hash, landed: landed)
    }
  }

  package func forgetDisplaced(_ temporary: PathBytes) throws(SQLiteError) {
    try database.run("DELETE FROM displaced WHERE temporary = ?", temporary)
  }

  // MARK: Refused placements

  package func refuse(_ placement: RefusedPlacement) throws(SQLiteError) {
    try database.run(
      """
      INSERT OR REPLACE INTO refused_placement (item, path, key, grant, settings, base, reason)
      VALUES (?, ?, ?, ?, ?, ?, ?)
      """, placement.item, placement.path, placement.key, placement.grant, placement.settings, placement.base,
      placement.reason)
  }

  package func refusedPlacements() throws(SQLiteError) -> [RefusedPlacement] {
    try database.all("SELECT item, path, key, grant, settings, base, reason FROM refused_placement ORDER BY item") {
      (row) throws(SQLiteError) -> RefusedPlacement in
      guard let item = row.id(0), let path = row.path(1) else {
        throw .damaged("the folder's record of a refused placement cannot be read")
      }
      return RefusedPlacement(
        item: item, path: path, key: row.optionalText(2), grant: row.optionalText(3), settings: row.int(4),
        base: row.optionalText(5), reason: row.string(6))
    }
  }

  package func forgetRefusedPlacement(of item: EntityID) throws(SQLiteError) {
    try database.run("DELETE FROM refused_placement WHERE item = ?", item)
  }

  // MARK: Paused removals

  package enum RemovalSide: String, Sendable { case disk, pull }

  /// The items whose files a large removal holds back, and whether each was purged.
  package func paused(_ side: RemovalSide) throws(SQLiteError) -> [EntityID: Bool] {
    let rows = try database.all(
      "SELECT item, purged FROM paused_removal WHERE side = ?", side.rawValue
    ) { (row) throws(SQLiteError) -> (EntityID?, Bool) in (row.id(0), row.bool(1)) }
    var paused: [EntityID: Bool] = [:]
    for case (let item?, let purged) in rows { paused[item] = purged }
    return paused
  }

  package func setPaused(_ side: RemovalSide, _ items: [EntityID: Bool]) throws(SQLiteError) {
    try database.run("DELETE FROM paused_removal WHERE side = ?", side.rawValue)
    for (item, purged) in items {
      try database.run(
        "INSERT INTO paused_removal (side, item, purged) VALUES (?, ?, ?)", side.rawValue, item, purged)
    }
  }

  // MARK: Other folders and lookups

  package func remember(otherStore store: Text, dir: PathBytes, folder: Text) throws(SQLiteError) {
    try database.run("INSERT OR REPLACE INTO other_folder (store, dir, folder) VALUES (?, ?, ?)", store, dir, folder)
  }

  package func otherFolders() throws(SQLiteError) -> [(store: Text, dir: PathBytes, folder: Text)] {
    try database.all("SELECT store, dir, folder FROM other_folder ORDER BY store") {
      (store: $0.text(0), dir: PathBytes(bytes: $0.bytes(1)), folder: $0.text(2))
    }
  }

  package func forget(otherStore store: Text) throws(SQLiteError) {
    try database.run("DELETE FROM other_folder WHERE store = ?", store)
  }

  package func refuseLookup(of item: EntityID, _ name: Text, _ reason: String) throws(SQLiteError) {
    try database.run("INSERT OR REPLACE INTO refused_lookup (item, name, reason) VALUES (?, ?, ?)", item, name, reason)
  }

  package func refusedLookups(of item: EntityID) throws(SQLiteError) -> [Text: String] {
    let rows = try database.all("SELECT name, reason FROM refused_lookup WHERE item = ?", item) {
      ($0.text(0), $0.string(1))
    }
    return Dictionary(rows) { first, _ in first }
  }

  package func forgetLookups(of item: EntityID) throws(SQLiteError) {
    try database.run("DELETE FROM refused_lookup WHERE item = ?", item)
  }

  /// Remembers an item the server did not show, so that it is asked for once (F12.39).
  package func rememberUnseen(_ item: EntityID) throws(SQLiteError) {
    try database.run("INSERT OR IGNORE INTO unseen_item (item) VALUES (?)", item)
  }

  package func unseen() throws(SQLiteError) -> Set<EntityID> {
    Set(try database.all("SELECT item FROM unseen_item") { $0.id(0) }.compactMap { $0 })
  }

  package func forgetUnseen() throws(SQLiteError) { try database.run("DELETE FROM unseen_item") }

  // MARK: The log of passes

  /// Keeps one pass, bounded to 1,000 passes and 30 days (N6.3).
  package func log(_ pass: LoggedPass) throws(SQLiteError) {
    try database.run(
      """
      INSERT INTO pass_log (at, took, pass, sent, written, removed, held, refused, error)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
      """, pass.at, pass.took, pass.pass, pass.sent, pass.written, pass.removed, pass.held, pass.refused, pass.error)
    try database.run(
      "DELETE FROM pass_log WHERE at < ? OR id <= (SELECT max(id) FROM pass_log) - 1000",
      Timestamp(milliseconds: pass.at.milliseconds - 30 * 86_400_000))
  }

  /// The last passes, newest last.
  package func passes(last count: Int) throws(SQLiteError) -> [LoggedPass] {
    try database.all(
      """
      SELECT at, took, pass, sent, written, removed, held, refused, error FROM pass_log ORDER BY id DESC LIMIT ?
      """, count
    ) { (row) throws(SQLiteError) -> LoggedPass in
      LoggedPass(
        at: row.time(0) ?? Timestamp(milliseconds: 0), took: row.int(1), pass: row.string(2), sent: row.int(3),
        written: row.int(4), removed: row.int(5), held: row.int(6), refused: row.int(7), error: row.optionalString(8))
    }.reversed()
  }
}

/// One pass of the log (N6.3).
package struct LoggedPass: Hashable, Sendable {
  package var at: Timestamp
  /// Milliseconds.
  package var took: Int
  package var pass: String
  package var sent: Int
  package var written: Int
  package var removed: Int
  package var held: Int
  package var refused: Int
  package var error: String?

  package init(
    at: Timestamp, took: Int, pass: String, sent: Int, written: Int, removed: Int, held: Int, refused: Int,
    error: String? = nil
  ) {
    self.at = at
    self.took = took
    self.pass = pass
    self.sent = sent
    self.written = written
    self.removed = removed
    self.held = held
    self.refused = refused
    self.error = error
  }

  package var json: JSON {
    [
      "at": .string(at.text), "took_ms": .int(took), "pass": .string(pass), "sent": .int(sent),
      "written": .int(written), "removed": .int(removed), "held": .int(held), "refused": .int(refused),
      "error": optional(error),
    ]
  }
}
