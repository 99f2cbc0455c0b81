import MarfaBase

/// The folder's own tables of a store, typed. It holds no state of its own but the connection; used on the one thread
/// that works the folder, or over a reading connection by `status`.
package final class FolderStore {
  package let database: Database

  /// The tables of a database. A writer makes those that are missing.
  package init(_ database: Database, writer: Bool) throws(SQLiteError) {
    self.database = database
    if writer { try database.make(FolderSchema.sql) }
  }

  // MARK: Facts

  /// A fact by its name.
  package func fact(_ fact: Fact) throws(SQLiteError) -> Text? {
    try database.one("SELECT value FROM folder_fact WHERE name = ?", fact.rawValue) { $0.text(0) }
  }

  /// Sets a fact, or with nil takes it away.
  package func set(_ fact: Fact, _ value: Text?) throws(SQLiteError) {
    if let value {
      try database.run(
        "INSERT INTO folder_fact (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        fact.rawValue, value)
    } else {
      try database.run("DELETE FROM folder_fact WHERE name = ?", fact.rawValue)
    }
  }

  /// What is kept once per folder.
  package enum Fact: String {
    /// The store's own id, a UUIDv7 minted with the store (X9.3).
    case store
    /// The `system.folder` row's id.
    case folder
    /// The settings row as an add read it, until a fill holds it.
    case row
    /// The address the folder was added with (N2.11).
    case server
    /// `waiting` until the first sync is confirmed (F54.1).
    case firstSync = "first_sync"
    /// The last plan read, JSON of R7.
    case plan
    /// The text last written to `folder.yaml` and its version (X9.3).
    case yamlText = "yaml_text"
    case yamlVersion = "yaml_version"
    /// The text a landing of `folder.yaml` is putting there, and its version (X20.4).
    case yamlLandingText = "yaml_landing_text"
    case yamlLandingVersion = "yaml_landing_version"
    /// The text the server refused, why, and the row's version then (X19.10, X19.11).
    case yamlRefusedText = "yaml_refused_text"
    case yamlRefusedReason = "yaml_refused_reason"
    case yamlRefusedVersion = "yaml_refused_version"
    /// Whether the registry listed this folder before (X5.3).
    case listed
    /// Files moved by hand into other folders that have not bound them yet (F43.3): JSON by item.
    case elsewhere
    /// Files whose item could not be read yet (F42.1): JSON of path and reason.
    case waiting
    /// Directories something was mounted at (P2.1): JSON of paths.
    case mounts
    /// Files whose create the local checks refused, by path: the bytes they had and why (F53).
    case refusedFiles = "refused_files"
    /// What was found of a store that is not what it was (P3.2), until what waits for it is settled.
    case suspect
    /// Such a store has not caught up yet: nothing is scanned before.
    case unheard
    /// Another program brings files of other machines here (P8.1): a scan that has something to decide catches up first.
    /// `named` where a file's own lines told so, `seen` where it only looked so.
    case mirrored
    /// Conflicted copies made of texts of this folder, whose links no scan has read yet: JSON of ids.
    case owedCopies = "owed_copies"
    /// Conflicted copies that hold just what their items hold: JSON of ids.
    case twinCopies = "twin_copies"
    /// The key's id and its `in-folder` grant as last read (F19.23).
    case keyID = "key_id"
    case keyGrant = "key_grant"
  }

  package var storeID: EntityID? { get throws(SQLiteError) { try fact(.store).flatMap { EntityID($0) } } }
  package var folderID: EntityID? { get throws(SQLiteError) { try fact(.folder).flatMap { EntityID($0) } } }
  package var firstSyncWaits: Bool { get throws(SQLiteError) { try fact(.firstSync) == "waiting" } }

  /// The last plan read of a waiting first sync.
  package var plan: FolderPlan? {
    get throws(SQLiteError) {
      guard let text = try fact(.plan) else { return nil }
      return FolderPlan(json: try? JSON(parsing: text.bytes))
    }
  }

  // MARK: Bindings

  private static let columns = """
    item, path, form, device, inode, birth, size, modified, executable, read_at, read_hash, written_hash,
    missing_since, hold_flag, hold_reason, unmatched, facts
    """

  /// A binding as its row has it. One that cannot be read fails the pass: read as none, its file would be a new item, and
  /// read without its facts, a file its person changed.
  private static func read(_ row: Row) throws(SQLiteError) -> Binding {
    guard let item = row.id(0), let path = row.path(1), let form = FileForm(rawValue: row.int(2)) else {
      throw .damaged("the folder's record of the file \(row.path(1)?.description ?? row.string(0)) cannot be read")
    }
    var binding = Binding(item: item, path: path, form: form)
    if let inode = row.optionalString(4).flatMap({ UInt64($0) }), let birth = row.optionalInt(5) {
      binding.identity = StoredIdentity(
        device: row.optionalString(3).flatMap { UInt64($0) }, inode: inode, birth: Int64(birth))
    }
    if let size = row.optionalInt(6), let modified = row.optionalInt(7), let readAt = row.optionalInt(9) {
      binding.seen = SeenStat(
        size: UInt64(size), modified: Int64(modified), executable: row.bool(8), readAt: Int64(readAt))
    }
    binding.readHash = row.optionalText(10).flatMap { ContentHash($0) }
    binding.writtenHash = row.optionalText(11).flatMap { ContentHash($0) }
    binding.missingSince = row.time(12)
    if let flag = row.optionalString(13).flatMap(Flag.init(rawValue:)) {
      binding.hold = Hold(flag, row.optionalString(14) ?? "")
    }
    binding.unmatched = row.bool(15)
    guard let facts = try? JSON(parsing: row.bytes(16)), binding.read(facts: facts) else {
      throw .damaged("the folder's record of the file \(path) cannot be read")
    }
    return binding
  }

  /// Every binding, in path order.
  package func bindings() throws(SQLiteError) -> [Binding] {
    try database.all("SELECT \(Self.columns) FROM binding ORDER BY path, item") {
      (row) throws(SQLiteError) -> Binding in try Self.read(row)
    }
  }

  /// The binding of an item.
  package func binding(of item: EntityID) throws(SQLiteError) -> Binding? {
    try database.one("SELECT \(Self.columns) FROM binding WHERE item = ?", item) {
      (row) throws(SQLiteError) -> Binding in try Self.read(row)
    }
  }

  /// How many files are bound, the missing ones included (F46.1).
  package func boundCount() throws(SQLiteError) -> Int {
    try database.one("SELECT count(*) FROM binding") { $0.int(0) } ?? 0
  }

  /// Writes a binding, in place of any its item has.
  package func save(_ binding: Binding) throws(SQLiteError) {
    try database.run(
      """
      INSERT OR REPLACE INTO binding (\(Self.columns))
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
      """,
      binding.item, binding.path, binding.form.rawValue,
      binding.identity?.device.map { String($0) }, binding.identity.map { String($0.inode) }, binding.identity?.birth,
      binding.seen.map { Int64($0.size) }, binding.seen?.modified, binding.seen?.executable, binding.seen?.readAt,
      binding.readHash, binding.writtenHash, binding.missingSince, binding.hold?.flag.rawValue, binding.hold?.reason,
      binding.unmatched, Text(bytes: binding.facts.write()))
    try forgetPassed(of: binding.item, but: binding.agreed)
  }

  /// Ends the binding of an item.
  package func unbind(_ item: EntityID) throws(SQLiteError) {
    try database.run("DELETE FROM binding WHERE item = ?", item)
    try database.run("DELETE FROM paused_removal WHERE item = ?", item)
    try database.run("DELETE FROM refused_lookup WHERE item = ?", item)
    try forgetPassed(of: item, but: nil)
  }

  /// Changes a binding where it stands.
  package func change(_ item: EntityID, _ change: (inout Binding) -> Void) throws(SQLiteError) {
    guard var binding = try binding(of: item) else { return }
    let before = binding
    change(&binding)
    if binding != before { try save(binding) }
  }
}
