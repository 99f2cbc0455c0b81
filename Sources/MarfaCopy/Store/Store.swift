import MarfaBase

/// The rows of a copy: server rows taken in, shown rows given out. One connection, one thread.
package final class Store {
  /// The connection; its owner may keep tables of its own in it and share its transactions.
  package let database: Database
  /// Lays waiting writes over server rows; the queue sets itself here.
  package weak var projection: (any Projection)?
  /// Told of a server row a later version takes the place of, inside that transaction: what was agreed on it can be shown
  /// as long as somebody keeps it.
  package var passed: ((Item) throws -> Void)?
  /// Counts changes to anything the copy shows (F80, F81).
  package internal(set) var changes: Int = 0
  var kept: Catalog?
  /// The same without declared types.
  var keptHeld: Catalog?
  var keptMark: Int?
  /// Whether the row taken in last was new here: a fill brings many such after another, a refill none.
  var expectsNew = true
  /// Whether many rows are being taken in (`bulk`).
  var isBulk = false
  /// What a writer keeps of its reads; nil for a reader.
  var reads: KeptReads?
  /// How many transactions were begun.
  private(set) var transactions = 0
  /// What the store had when a reader last indexed it in memory.
  var readerIndexVersion: Int?

  init(database: Database) { self.database = database }

  /// Runs `work` in a transaction, or in a savepoint of the caller's; SQLite's failures come as `store` and
  /// `storage_full`.
  @discardableResult
  package func transaction<Value>(_ work: () throws -> Value) throws(MarfaError) -> Value {
    countTransaction()
    do { return try database.transaction(work) } catch {
      // What was rolled back may have been kept in memory.
      kept = nil
      keptHeld = nil
      keptMark = nil
      throw MarfaError(any: error)
    }
  }

  /// Counts one that begins now, where none is open.
  func countTransaction() { if !database.isInTransaction { transactions += 1 } }

  /// Runs `work` with SQLite's failures in our classes.
  @discardableResult
  package func read<Value>(_ work: () throws -> Value) throws(MarfaError) -> Value {
    do { return try work() } catch { throw MarfaError(any: error) }
  }

  // MARK: - Records of chapter 1

  /// A record of the copy.
  package func text(_ key: Meta) throws(MarfaError) -> Text? {
    if let kept = reads?.texts[key], readsStand() { return kept }
    let value = try read {
      try database.one("SELECT value FROM meta WHERE key = ?", key.rawValue) { $0.optionalText(0) } ?? nil
    }
    reads?.texts[key] = .some(value)
    return value
  }

  /// A counter of the copy.
  package func int(_ key: Meta) throws(MarfaError) -> Int? {
    if let kept = reads?.ints[key], readsStand() { return kept }
    let value = try read {
      try database.one("SELECT value FROM meta WHERE key = ?", key.rawValue) { $0.optionalInt(0) } ?? nil
    }
    reads?.ints[key] = .some(value)
    return value
  }

  /// Sets a record; nil takes it away.
  package func set(_ key: Meta, _ value: (any SQLiteValue)?) throws(MarfaError) {
    if key == .fillMark { keptMark = nil }
    reads?.texts[key] = nil
    reads?.ints[key] = nil
    try read {
      if let value {
        try database.run("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", key.rawValue, value)
      } else {
        try database.run("DELETE FROM meta WHERE key = ?", key.rawValue)
      }
    }
  }

  /// The records a copy keeps, each under its name in chapter 1.
  package enum Meta: String, Sendable {
    case serverOrigin = "server_origin"
    case instanceID = "instance_id"
    case readView = "read_view"
    case eventCursor = "event_cursor"
    case heldCursor = "held_cursor"
    case slice
    case hydrateState = "hydrate_state"
    case copyGeneration = "copy_generation"
    case pinRevision = "pin_revision"
    case catalogVersion = "catalog_version"
    case lastSynced = "last_synced"
    case fillMark = "fill_mark"
    case itemsListed = "items_listed"
    case itemsExpected = "items_expected"
    case expiredReason = "expired_reason"
    case storeID = "store_id"
    case declaredTypes = "declared_types"
  }
}
