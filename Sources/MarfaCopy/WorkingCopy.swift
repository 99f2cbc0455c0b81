import MarfaBase

/// A copy of a slice of one instance in a SQLite store: filled, kept current from the event log, read from, written to
/// through a queue (device). Synchronous and used from one thread; `stop` alone may be set from another.
///
///     let copy = try WorkingCopy.open(database: database, blobs: blobs, context: context, role: .writer,
///                                     endpoint: endpoint, credentials: keyring)
///     try copy.hydrate(Slice(types: ["core.note"], tier: "library", edgeTypes: ["parent-of"]))
///     let note = try copy.item(id)
package final class WorkingCopy {
  /// What a handle may do (D3, D41).
  package enum Role: Sendable {
    /// Writes; the caller holds the claim (X12).
    case writer
    /// Reads; changes no byte and refuses every write `reading_handle`.
    case reader
  }

  /// The connection, for tables of the caller's own that must commit with the copy's.
  package let database: Database
  /// The rows.
  package let store: Store
  /// Bytes by hash.
  package let blobs: any BlobStore
  /// Clock, ids, files, transport.
  package let context: Context
  /// Requests.
  package let server: ServerConnection
  /// What this handle may do.
  package let role: Role
  /// The budget of downloaded bytes (D209.1); nil is none.
  package var blobBudget: Int?
  /// The most bytes an upload may have to go now; larger ones wait in the queue (P5.3). Nil is no limit.
  package var uploadLimit: Int64?

  /// The queue of writes. Whoever holds it holds the copy.
  package var queue: WriteQueue { WriteQueue(copy: self) }
  /// Whose turn it is to drain. The copy's and not a queue's: each call of `queue` makes another one, and drains of two would
  /// send the same write side by side.
  let drainTurn = DrainTurn()
  private var seenVersion = 0
  private lazy var projection = QueueProjection(copy: self)

  /// Asks work to end; checked between requests, pages and batches.
  package var stop: StopFlag {
    didSet { server.stop = stop }
  }

  private init(
    database: Database, blobs: any BlobStore, context: Context, role: Role, server: ServerConnection
  ) {
    self.database = database
    self.blobs = blobs
    self.context = context
    self.role = role
    self.server = server
    store = Store(database: database)
    stop = server.stop
  }

  /// Opens a store. A writer makes the tables that are missing; a reader finds them or is refused (D41.4).
  /// - Parameters:
  ///   - database: its connection; for a writer one that may write. The caller holds the writer claim.
  ///   - path: the store's path, for the words of a refusal.
  /// - Throws: `wrong_schema` where the store is of another build (D41.5), `invalid` where a reader misses a table.
  package static func open(
    database: Database, blobs: any BlobStore, context: Context, role: Role, endpoint: Endpoint?,
    credentials: (any CredentialStore)?, path: PathBytes = "the store", sharesMemory: Bool = true,
    migrations: [Migration] = Schema.migrations
  ) throws(MarfaError) -> WorkingCopy {
    do {
      try database.execute("PRAGMA foreign_keys = ON; PRAGMA busy_timeout = 5000")
      // A write-ahead log's index is shared memory, which some file systems have not (ST6). Said before anything is read.
      if role == .writer, !sharesMemory {
        try database.execute("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE")
      }
      if role == .writer { try Migration.migrate(database, among: migrations) }
      try checkSchema(database, role, path)
      if role == .writer {
        if sharesMemory { try database.execute("PRAGMA journal_mode = WAL") }
        // What a savepoint keeps stays in memory, and a page changed often is copied back seldom.
        try database.execute(
          "PRAGMA synchronous = FULL; PRAGMA cache_size = -12000; PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 4000"
        )
        try database.transaction { () throws(SQLiteError) in try Schema.make(in: database) }
      }
    } catch { throw MarfaError(any: error) }
    let copy = WorkingCopy(
      database: database, blobs: blobs, context: context, role: role,
      server: ServerConnection(endpoint: endpoint, credentials: credentials, context: context))
    if role == .writer {
      copy.store.keepReads()
      if try copy.store.text(.storeID) == nil { try copy.store.set(.storeID, context.ids.next()) }
    }
    copy.server.confirms = { [weak copy] (root) throws(MarfaError) in try copy?.confirm(root) }
    copy.store.projection = copy.projection
    _ = try copy.wasSavedElsewhere()
    return copy
  }

  private static func checkSchema(_ database: Database, _ role: Role, _ path: PathBytes) throws {
    let version = try database.one("PRAGMA user_version") { $0.int(0) } ?? 0
    let found = try Schema.shapes(of: database)
    guard !found.isEmpty else {
      if role == .reader { throw MarfaError(.noStore, "\(path) holds no store yet; open it once with the writer") }
      return
    }
    let expected = Schema.expected()
    let wrong = expected.first { table in found.contains { $0.name == table.name && $0.sql != table.sql } }
    if (version != 0 && version != Schema.version) || wrong != nil {
      throw wrongSchema(
        database, path, wrong.map { "its table \($0.name) has another shape" } ?? "its schema is \(version)")
    }
    if role == .reader,
      let missing = expected.first(where: { table in
        !found.contains { $0.name == table.name } && !Schema.derived.contains(table.name)
      })
    {
      throw MarfaError(.invalid, "\(path) lacks the table \(missing.name); open it once with the writer")
    }
  }

  /// Unsent are the writes not taken: waiting, blocked, refused kept, dead (D41.6).
  private static func wrongSchema(_ database: Database, _ path: PathBytes, _ why: String) -> MarfaError {
    let unsent = try? database.one(
      "SELECT count(*) FROM queue WHERE verdict IS NULL OR verdict IN ('refused', 'blocked', 'dead')"
    ) { $0.int(0) }
    let said =
      switch unsent {
      case 0: "It holds no unsent write, so a store filled in its place loses nothing."
      case let count?: "It holds \(count) unsent writes; only the build that made it can send, show or discard them."
      case nil: "Its unsent writes cannot be counted; the build that made it can show them."
      }
    return MarfaError(
      .wrongSchema, "\(path) was made by another build: \(why). \(said)",
      server: nil, reason: unsent.map { String($0) })
  }

  /// Refuses a reading handle (D3.2).
  package func requireWriter() throws(MarfaError) {
    guard role == .writer else {
      throw MarfaError(.readingHandle, "another process writes this store; this handle only reads")
    }
  }

  /// Refuses where a stop was asked for (D58.1).
  package func checkStop() throws(MarfaError) {
    if stop.isSet { throw MarfaError(.canceled, "stopped") }
  }

  /// A stamp that moves when anything the copy shows changed, by this handle or another connection (F80, F81).
  package func dataVersion() throws(MarfaError) -> Int {
    try savedElsewhere() << 32 + store.changes
  }

  /// Whether another connection saved since this was last asked, or since the copy was opened (D41.2).
  package func wasSavedElsewhere() throws(MarfaError) -> Bool {
    let now = try savedElsewhere()
    defer { seenVersion = now }
    if seenVersion != now { store.forgetReads() }
    return seenVersion != now
  }

  /// Moves with each save of another connection.
  private func savedElsewhere() throws(MarfaError) -> Int {
    try store.read { (try database.one("PRAGMA data_version") { $0.int(0) } ?? 0) + database.reopenings << 20 }
  }

  /// The store's own id (X9.3).
  package func storeID() throws(MarfaError) -> Text? { try store.text(.storeID) }

  /// The types and edge types held; the shipped ones before any fill.
  package func catalog() throws(MarfaError) -> Catalog { try store.catalog() }
}
