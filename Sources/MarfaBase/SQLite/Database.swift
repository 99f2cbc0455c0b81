import CSQLite
import Glibc

/// A failed call of SQLite.
public struct SQLiteError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The extended result code, such as `SQLITE_BUSY` or `SQLITE_CONSTRAINT_UNIQUE`.
  public let code: Int32
  /// SQLite's words.
  public let message: String
  /// The statement, where one was at work.
  public let statement: String?

  /// The primary result code.
  public var primaryCode: Int32 { code & 0xFF }
  /// Whether the disk is full. The index of a log is told apart by no code of its own: that it cannot be made its size, or
  /// be mapped, is a full disk (`SQLITE_IOERR_SHMSIZE`).
  public var isFull: Bool { primaryCode == SQLITE_FULL || code == SQLITE_IOERR | (19 << 8) }
  /// Whether another connection holds the lock asked for.
  public var isBusy: Bool { primaryCode == SQLITE_BUSY || primaryCode == SQLITE_LOCKED }
  /// Whether the file is no database or is damaged.
  public var isCorrupt: Bool { primaryCode == SQLITE_CORRUPT || primaryCode == SQLITE_NOTADB }
  /// Whether a constraint refused the row.
  public var isConstraint: Bool { primaryCode == SQLITE_CONSTRAINT }

  /// A row that holds what nothing here writes: the store is damaged, and what it says may not be guessed.
  package static func damaged(_ words: String) -> SQLiteError {
    SQLiteError(code: SQLITE_CORRUPT, message: words, statement: nil)
  }

  /// The words, the code and the statement.
  public var description: String {
    "\(message) (SQLite \(code))" + (statement.map { " in: \($0)" } ?? "")
  }
}

/// A connection to a SQLite database, used by one thread at a time; statements are prepared once and kept.
///
///     let database = try Database(path: path, mode: .readWrite)
///     try database.run("INSERT INTO tag (item, name) VALUES (?, ?)", item, tag)
///     let count = try database.one("SELECT count(*) FROM tag") { $0.int(0) }
public final class Database {
  /// How a database is opened.
  public enum Mode: Sendable {
    /// Reads and writes, making the file where it is missing.
    case create
    /// Reads and writes a file that exists.
    case readWrite
    /// Reads alone.
    case readOnly
    /// Reads alone and changes no byte of the file, its logs or its directory, even where nobody else has it open (X12.4,
    /// D41.1). Not for a process that may write the same file too: what it closes would take that one's locks.
    case look
  }

  /// The C handle, for what this wrapper does not cover (hooks, backup).
  public private(set) var handle: OpaquePointer
  private var statements: [SQLText: Statement] = [:]
  private var depth = 0
  /// How often a transaction or a part of one was taken back: what somebody kept of rows read since may be so no more.
  public private(set) var rollbacks = 0
  /// What a look was opened over.
  private var look: Look?
  /// How often a look was opened again, since what it had opened had changed.
  public private(set) var reopenings = 0

  /// Opens a database.
  /// - Parameter path: a file's path, or a `file:` URI (`file:name?mode=memory&cache=shared`).
  /// - Throws: `SQLiteError`.
  public init(path: String, mode: Mode) throws(SQLiteError) {
    if mode == .look {
      let look = Look(path)
      handle = try look.open()
      self.look = look
    } else {
      handle = try Database.open(path, mode)
    }
  }

  static func open(_ path: String, _ mode: Mode) throws(SQLiteError) -> OpaquePointer {
    var opened: OpaquePointer?
    let flags =
      switch mode {
      case .create: SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
      case .readWrite: SQLITE_OPEN_READWRITE
      case .readOnly, .look: SQLITE_OPEN_READONLY
      }
    let code = sqlite3_open_v2(
      path, &opened, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI | SQLITE_OPEN_EXRESCODE, nil)
    guard code == SQLITE_OK, let opened else {
      let message = opened.map { String(cString: sqlite3_errmsg($0)) } ?? "out of memory"
      sqlite3_close_v2(opened)
      throw SQLiteError(code: code, message: message, statement: nil)
    }
    JSONText.register(on: opened)
    return opened
  }

  /// Opens a look again where its file is no longer as it was opened, between two reads.
  private func renewLook(always: Bool = false) throws(SQLiteError) {
    guard let held = look, always || !held.isStill, !isInTransaction,
      !statements.values.contains(where: \.isStepping)
    else { return }
    let look = held.again
    let opened = try look.open()
    statements.removeAll()
    sqlite3_close_v2(handle)
    handle = opened
    self.look = look
    reopenings += 1
  }

  /// What a read of a look answers or throws stands only where the file was the same at its end: nothing keeps a writer
  /// that opens the file meanwhile from changing it under the read.
  private func standing<Value>(_ read: () throws(SQLiteError) -> Value) throws(SQLiteError) -> Value {
    guard look != nil else { return try read() }
    for _ in 0..<20 {
      let result = Result { () throws(SQLiteError) in try awaited(read) }
      if look?.isStill ?? true { return try result.get() }
      if isInTransaction { break }
    }
    throw SQLiteError(code: SQLITE_BUSY, message: "the store kept changing while it was read", statement: nil)
  }

  /// A look met while another process opens or closes the file, whose log comes or goes in that moment, is taken again
  /// for a while: two seconds.
  private func awaited<Value>(_ read: () throws(SQLiteError) -> Value) throws(SQLiteError) -> Value {
    var turns = 0
    while true {
      do throws(SQLiteError) { return try read() } catch {
        turns += 1
        guard turns < 200, error.isBusy || error.primaryCode == SQLITE_CANTOPEN, !isInTransaction,
          !statements.values.contains(where: \.isStepping)
        else { throw error }
        usleep(10_000)
        try? renewLook(always: true)
      }
    }
  }

  deinit {
    statements.removeAll()
    sqlite3_close_v2(handle)
  }

  /// Closes the connection's statements so that `PRAGMA`s and `VACUUM` find none open. The connection closes on release.
  public func finalizeStatements() { statements.removeAll() }

  func failure(_ code: Int32, _ statement: String?) -> SQLiteError {
    SQLiteError(code: code, message: String(cString: sqlite3_errmsg(handle)), statement: statement)
  }

  /// Runs statements that answer nothing and bind nothing, such as a schema.
  public func execute(_ sql: String) throws(SQLiteError) {
    let code = sqlite3_exec(handle, sql, nil, nil, nil)
    guard code == SQLITE_OK else { throw failure(code, sql) }
  }

  /// The prepared statement of a text, kept for the next call. It is reset; a statement in use (a query inside the
  /// rows of the same query) gets a second one, not kept.
  public func statement(_ sql: String) throws(SQLiteError) -> Statement {
    if look != nil { try renewLook() }
    let text = SQLText(sql)
    let kept = statements[text]
    if let kept, !kept.isStepping { return kept }
    let made = try Statement(self, sql)
    if kept == nil { statements[text] = made }
    return made
  }

  /// Runs a statement with its values. Returns the number of rows changed.
  @discardableResult
  public func run(_ sql: String, _ values: (any SQLiteValue)?...) throws(SQLiteError) -> Int {
    try run(sql, values)
  }

  /// Runs a statement with its values. Returns the number of rows changed.
  @discardableResult
  public func run(_ sql: String, _ values: [(any SQLiteValue)?]) throws(SQLiteError) -> Int {
    let statement = try statement(sql)
    defer { statement.reset() }
    try statement.bind(values)
    while try statement.step() {}
    return Int(sqlite3_changes(handle))
  }

  /// Calls `each` with every row of a query.
  public func rows<Failure: Error>(
    _ sql: String, _ values: [(any SQLiteValue)?] = [], each: (Row) throws(Failure) -> Void
  ) throws {
    func begin() throws(SQLiteError) -> (Statement, Bool) {
      let begun = try statement(sql)
      do throws(SQLiteError) {
        try begun.bind(values)
        return (begun, try begun.step())
      } catch {
        begun.reset()
        throw error
      }
    }
    // The first row is waited for as a whole read is; those that follow come from the same moment.
    var (stepped, hasRow) = look == nil ? try begin() : try awaited(begin)
    defer { stepped.reset() }
    while hasRow {
      try each(Row(of: stepped))
      hasRow = try stepped.step()
    }
    // The rows are given out: they cannot be read again here.
    if let look, !look.isStill {
      throw SQLiteError(code: SQLITE_BUSY, message: "the store changed while it was read", statement: sql)
    }
  }

  /// What `read` makes of every row of a query.
  public func all<Value>(
    _ sql: String, _ values: (any SQLiteValue)?..., read: (Row) throws(SQLiteError) -> Value
  ) throws(SQLiteError) -> [Value] {
    try all(sql, values, read: read)
  }

  /// What `read` makes of every row of a query.
  public func all<Value>(
    _ sql: String, _ values: [(any SQLiteValue)?], read: (Row) throws(SQLiteError) -> Value
  ) throws(SQLiteError) -> [Value] {
    try standing { () throws(SQLiteError) in
      let statement = try statement(sql)
      defer { statement.reset() }
      try statement.bind(values)
      var out: [Value] = []
      while try statement.step() { out.append(try read(Row(of: statement))) }
      return out
    }
  }

  /// What `read` makes of the first row of a query; nil where there is none.
  public func one<Value>(
    _ sql: String, _ values: (any SQLiteValue)?..., read: (Row) throws(SQLiteError) -> Value
  ) throws(SQLiteError) -> Value? {
    try standing { () throws(SQLiteError) in
      let statement = try statement(sql)
      defer { statement.reset() }
      try statement.bind(values)
      guard try statement.step() else { return nil }
      return try read(Row(of: statement))
    }
  }

  /// The row id of the last insert.
  public var lastInsertedRow: Int64 { sqlite3_last_insert_rowid(handle) }

  /// Sets how many milliseconds a lock of another connection is waited for; a new connection waits for none.
  public func waitForLocks(_ milliseconds: Int) { sqlite3_busy_timeout(handle, Int32(clamping: milliseconds)) }

  /// Whether a transaction is open.
  public var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

  private static let savepoints = (0..<8).map { "SAVEPOINT level\($0)" }
  private static let releases = (0..<8).map { "RELEASE level\($0)" }

  /// Runs reads that belong together in one read transaction, which costs its locks once. `work` writes nothing and asks
  /// nobody; inside another transaction it is part of that one.
  public func reading<Value, Failure: Error>(_ work: () throws(Failure) -> Value) throws -> Value {
    guard look == nil, depth == 0, !isInTransaction else { return try work() }
    try run("BEGIN")
    defer { if isInTransaction { _ = try? run("COMMIT") } }
    return try work()
  }

  /// Runs `work` in a transaction: committed where it returns, rolled back where it throws. Inside another it is a
  /// savepoint of that one. The outer one begins IMMEDIATE, so that a busy database is met at its start.
  @discardableResult
  public func transaction<Value, Failure: Error>(
    _ work: () throws(Failure) -> Value
  ) throws -> Value {
    depth += 1
    defer { depth -= 1 }
    let outer = depth == 1 && !isInTransaction
    // Kept statements: to parse these anew each time would cost more than to run them.
    try run(
      outer ? "BEGIN IMMEDIATE" : depth < Self.savepoints.count ? Self.savepoints[depth] : "SAVEPOINT level\(depth)")
    let value: Value
    do throws(Failure) {
      value = try work()
    } catch {
      rollbacks += 1
      // The first error is the one to tell; SQLite may have rolled back already (a full disk).
      if isInTransaction {
        try? execute(outer ? "ROLLBACK" : "ROLLBACK TO level\(depth); RELEASE level\(depth)")
      }
      throw error
    }
    do throws(SQLiteError) {
      try run(outer ? "COMMIT" : depth < Self.releases.count ? Self.releases[depth] : "RELEASE level\(depth)")
    } catch {
      rollbacks += 1
      if outer, isInTransaction { try? execute("ROLLBACK") }
      throw error
    }
    return value
  }
}

/// The text of a statement as the key it is kept under: hashed by its length and some of its bytes, since to hash all of
/// them would cost as much as many a statement does.
private struct SQLText: Hashable {
  private let sql: String

  init(_ sql: String) { self.sql = sql }

  static func == (left: SQLText, right: SQLText) -> Bool { left.sql == right.sql }

  func hash(into hasher: inout Hasher) {
    let hashed: Void? = sql.utf8.withContiguousStorageIfAvailable { bytes in
      hasher.combine(bytes.count)
      // Statements differ in their tables and their conditions, most of which stand behind long lists of columns.
      let raw = UnsafeRawBufferPointer(bytes)
      hasher.combine(bytes: UnsafeRawBufferPointer(rebasing: raw.suffix(40)))
      let middle = raw.count / 2
      hasher.combine(bytes: UnsafeRawBufferPointer(rebasing: raw[middle..<min(raw.count, middle + 16)]))
    }
    if hashed == nil { hasher.combine(sql.utf8.count) }
  }
}
