import MarfaBase
import MarfaCopy

/// A folder in which everything stands as it should, and what is looked at to know that it still does.
///
/// A pass is a function of the store, the directory, the server's answers and, where something waits, the time. A pass that
/// found every file unchanged, had nothing to tell, and wrote nothing that decides anything has shown that the next one over
/// the same store and directory does nothing either. That is recorded, and triggers take the record away with the first
/// write that touches what passes decide by. While it stands, a pass looks at the files alone: as many as are bound, each
/// at its path, the same file, with the bytes last read. One thing out of place, and the pass goes the long way.
struct Quiet {
  /// What the quiet pass counted.
  var unchanged: Int
  var skipped: Int
  var pullUnchanged: Int
  var pullSkipped: Int
  /// A digest of the files it passed over.
  var others: Text
  /// Tells one record from another.
  var mark: Text

  /// What passes decide by.
  private static let decisive = [
    "item", "edge", "queue", "item_type", "edge_type", "pin", "purged", "binding", "folder_write", "landing",
    "displaced",
    "refused_placement", "paused_removal", "other_folder",
  ]

  private static var tables: String {
    var sql = """
      CREATE TABLE IF NOT EXISTS quiet (
        one INTEGER PRIMARY KEY CHECK (one = 1), kept INTEGER NOT NULL, mark TEXT NOT NULL, unchanged INTEGER,
        skipped INTEGER, pull_unchanged INTEGER, pull_skipped INTEGER, others TEXT);
      """
    for table in decisive {
      for act in ["INSERT", "UPDATE", "DELETE"] {
        sql += """
          CREATE TRIGGER IF NOT EXISTS quiet_\(table)_\(act) AFTER \(act) ON \(table) BEGIN DELETE FROM quiet; END;

          """
      }
    }
    // A fact set to what it says is none.
    return sql + """
      CREATE TRIGGER IF NOT EXISTS quiet_fact_INSERT AFTER INSERT ON folder_fact BEGIN DELETE FROM quiet; END;
      CREATE TRIGGER IF NOT EXISTS quiet_fact_UPDATE AFTER UPDATE ON folder_fact WHEN OLD.value <> NEW.value
      BEGIN DELETE FROM quiet; END;
      CREATE TRIGGER IF NOT EXISTS quiet_fact_DELETE AFTER DELETE ON folder_fact BEGIN DELETE FROM quiet; END;
      """
  }

  /// The record that stands; nil where there is none.
  static func standing(_ database: Database) throws(SQLiteError) -> Quiet? {
    guard try isMade(database) else { return nil }
    return try database.one(
      "SELECT unchanged, skipped, pull_unchanged, pull_skipped, others, mark FROM quiet WHERE kept"
    ) { row throws(SQLiteError) in
      Quiet(
        unchanged: row.int(0), skipped: row.int(1), pullUnchanged: row.int(2), pullSkipped: row.int(3),
        others: row.text(4), mark: row.text(5))
    }
  }

  private static func isMade(_ database: Database) throws(SQLiteError) -> Bool {
    try database.one("SELECT 1 FROM sqlite_master WHERE name = 'quiet'") { _ in true } ?? false
  }

  /// Begins to watch whether a pass writes anything.
  static func begin(_ database: Database, mark: Text) throws(SQLiteError) {
    if try !isMade(database) { try database.execute(tables) }
    try database.run("INSERT OR REPLACE INTO quiet (one, kept, mark) VALUES (1, 0, ?)", mark)
  }

  /// Whether the pass that began so has written nothing yet.
  static func isUntouched(_ database: Database, mark: Text) throws(SQLiteError) -> Bool {
    try database.one("SELECT 1 FROM quiet WHERE mark = ?", mark) { _ in true } ?? false
  }

  func keep(_ database: Database) throws(SQLiteError) {
    try database.run(
      """
      UPDATE quiet SET kept = 1, unchanged = ?2, skipped = ?3, pull_unchanged = ?4, pull_skipped = ?5, others = ?6
      WHERE mark = ?1
      """, mark, unchanged, skipped, pullUnchanged, pullSkipped, others)
  }
}

/// A directory as a quiet pass found it, kept by a watch from pass to pass.
struct QuietDirectory {
  var mark: Text
  var files: [WalkedFile]
  var scan: FolderScan
}

extension FolderEngine {
  /// The scan of a folder in which nothing moved since a pass that had nothing to do; nil where the long way has to tell.
  func quietScan(_ quiet: Quiet, quick: Bool) throws -> FolderScan? {
    if rootGone() != nil { return nil }
    let facts = try facts()
    guard try copy.answers(facts.slice), beingWritten.isEmpty else { return nil }
    let root = try openRoot()
    let walked = try walked(root, facts, door: context.door)
    guard walked.isPlain else { return nil }
    if try relist() != nil { return nil }
    if quick, let quietDirectory, quietDirectory.mark == quiet.mark, quietDirectory.files == walked.files {
      return quietDirectory.scan
    }
    let bound = try store.boundFiles()
    guard bound.count == quiet.unchanged else { return nil }
    var met = 0
    var mayStayUnread = true
    var others = ContentHasher()
    // Files of one directory come one after another: it is opened once.
    var opened: (path: PathBytes, directory: any Directory) = (.empty, root)
    for file in walked.files {
      try checkStop()
      guard let known = bound[file.path] else {
        Quiet.add(file, to: &others)
        continue
      }
      guard known.isLive,
        known.identity == file.status.identity.map({ StoredIdentity($0, rootDevice: walked.rootDevice) }),
        let seen = known.seen, seen.executable == file.status.isExecutable
      else { return nil }
      let looksTheSame = seen.leavesUnread(file.status)
      if !looksTheSame { mayStayUnread = false }
      if !quick || !looksTheSame {
        let parent = file.path.parent
        if parent != opened.path {
          guard let directory = parent.isEmpty ? root : try? root.directory(beneath: parent) else { return nil }
          opened = (parent, directory)
        }
        guard let reading = try? FileReading(opened.directory.open(file.path.name), asksOnce: true),
          reading.isSettled, reading.hasWriter != true, let hash = known.hash, reading.hash == hash
        else { return nil }
      }
      met += 1
    }
    guard met == bound.count, others.finish().hex.utf8.elementsEqual(quiet.others.bytes) else { return nil }
    var scan = FolderScan()
    scan.unchanged = quiet.unchanged
    scan.skipped = quiet.skipped
    scan.secrets = walked.secrets.map(\.description)
    quietDirectory = mayStayUnread ? QuietDirectory(mark: quiet.mark, files: walked.files, scan: scan) : nil
    return scan
  }

  /// The pull of such a folder.
  func quietPull(_ quiet: Quiet) throws -> FolderPull {
    var pull = FolderPull()
    pull.unchanged = quiet.pullUnchanged
    pull.skipped = quiet.pullSkipped
    pull.settings = try writeSettings(in: try openRoot())
    return pull
  }

  /// Records that a pass had nothing to do, where that is so.
  func keepQuiet(_ push: FolderPush, mark: Text) throws {
    guard push.isPlain, let pull = push.pull, beingWritten.isEmpty, try Quiet.isUntouched(store.database, mark: mark),
      try store.owesNothing()
    else { return }
    // As the scan found it, not as it is by now: a file that came since was never looked at, and would be taken for one
    // passed over.
    guard let walked = scannedDirectory else { return }
    let bound = try store.boundFiles()
    guard walked.isPlain, bound.count == push.scan.unchanged else { return }
    var others = ContentHasher()
    for file in walked.files where bound[file.path] == nil { Quiet.add(file, to: &others) }
    try Quiet(
      unchanged: push.scan.unchanged, skipped: push.scan.skipped, pullUnchanged: pull.unchanged,
      pullSkipped: pull.skipped, others: Text(others.finish().hex), mark: mark
    ).keep(store.database)
  }
}

extension Quiet {
  /// A file passed over: where it is, which it is, and whether it holds anything.
  fileprivate static func add(_ file: WalkedFile, to hasher: inout ContentHasher) {
    hasher.update(file.path.bytes + [0, file.status.size == 0 ? 0 : 1])
    hasher.update(Array("\(file.status.inode) \(file.status.birth ?? 0)\n".utf8))
  }
}

extension WalkResult {
  /// Whether it met nothing but files and directories.
  fileprivate var isPlain: Bool {
    isComplete && flagged.isEmpty && directories.isEmpty && nestedFolders.isEmpty && temporaries.isEmpty
  }
}

extension FolderPush {
  /// Whether its scan went the short way, or found by the long one what that would have.
  func isQuiet(_ quiet: Quiet) -> Bool {
    var wanted = FolderScan()
    (wanted.unchanged, wanted.skipped, wanted.secrets) = (quiet.unchanged, quiet.skipped, scan.secrets)
    return scan == wanted
  }

  /// Whether it found everything as it should be, and has nothing to tell of.
  fileprivate var isPlain: Bool {
    var wanted = FolderScan()
    (wanted.unchanged, wanted.skipped, wanted.secrets) = (scan.unchanged, scan.skipped, scan.secrets)
    guard scan == wanted, hydrated == nil, catchUp.failed == nil, catchUp.hydrated == nil, let pull else {
      return false
    }
    var still = FolderPull()
    (still.unchanged, still.skipped) = (pull.unchanged, pull.skipped)
    guard pull == still, settings == SettingsFileOutcome() else { return false }
    let sent = drain.drain
    return sent.answered == 0 && sent.undelivered == 0 && sent.held == 0 && sent.stopped == nil
      && sent.unavailable == nil && sent.verdicts.isEmpty && drain.rebased == 0 && drain.gaveWay == 0
      && drain.conflicts.isEmpty
  }
}

extension FolderStore {
  /// What a quiet pass compares of a bound file.
  struct BoundFile {
    var item: EntityID?
    var isLive: Bool
    var identity: StoredIdentity?
    var seen: SeenStat?
    var hash: ContentHash?
  }

  /// The bound files by path, without what their bindings know of items.
  func boundFiles() throws(SQLiteError) -> [PathBytes: BoundFile] {
    let rows = try database.all(
      """
      SELECT path, missing_since, device, inode, birth, size, modified, executable, read_at, read_hash, item FROM binding
      """
    ) { row throws(SQLiteError) in
      var file = BoundFile(item: row.id(10), isLive: row.isNull(1), identity: nil, seen: nil, hash: row.hash(9))
      if let inode = row.unsigned(3), let birth = row.optionalInt(4) {
        file.identity = StoredIdentity(device: row.unsigned(2), inode: inode, birth: Int64(birth))
      }
      if let size = row.optionalInt(5), let modified = row.optionalInt(6), let readAt = row.optionalInt(8) {
        file.seen = SeenStat(
          size: UInt64(size), modified: Int64(modified), executable: row.bool(7), readAt: Int64(readAt))
      }
      return (row.path(0) ?? .empty, file)
    }
    return Dictionary(rows) { first, _ in first }
  }

  /// Whether nothing waits in the store: no binding asks for more, no write is on its way or refused.
  func owesNothing() throws(SQLiteError) -> Bool {
    let waiting = try database.one(
      """
      SELECT (SELECT count(*) FROM landing) + (SELECT count(*) FROM displaced) + (SELECT count(*) FROM refused_placement)
        + (SELECT count(*) FROM paused_removal) + (SELECT count(*) FROM folder_write)
        + (SELECT count(*) FROM queue WHERE verdict IS NULL OR verdict IN ('refused', 'blocked', 'dead') OR owed_read = 1
          OR landed IS NOT NULL)
      """
    ) { $0.int(0) }
    guard waiting == 0 else { return false }
    return try bindings().allSatisfy { binding in
      binding.missingSince == nil && binding.asksForNothingMore && binding.refusals.isEmpty
        && binding.refusedDefaults.isEmpty && !binding.linesOwed
        && !binding.unmatched && !binding.broughtByHand
    }
  }
}
