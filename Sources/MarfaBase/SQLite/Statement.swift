import CSQLite

private let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

/// A prepared statement of one connection.
public final class Statement {
  private unowned let database: Database
  private let sql: String
  let handle: OpaquePointer
  private(set) var isStepping = false

  init(_ database: Database, _ sql: String) throws(SQLiteError) {
    self.database = database
    self.sql = sql
    var prepared: OpaquePointer?
    let code = sqlite3_prepare_v3(database.handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &prepared, nil)
    guard code == SQLITE_OK, let prepared else { throw database.failure(code, sql) }
    handle = prepared
  }

  deinit { sqlite3_finalize(handle) }

  /// Binds values to `?1`, `?2`, ...; nil binds NULL.
  public func bind(_ values: [(any SQLiteValue)?]) throws(SQLiteError) {
    for (index, value) in values.enumerated() {
      let code =
        if let value { value.bind(to: handle, at: Int32(index + 1)) } else {
          sqlite3_bind_null(handle, Int32(index + 1))
        }
      guard code == SQLITE_OK else { throw database.failure(code, sql) }
    }
  }

  /// Moves to the next row; false at the end.
  public func step() throws(SQLiteError) -> Bool {
    isStepping = true
    let code = sqlite3_step(handle)
    switch code {
    case SQLITE_ROW: return true
    case SQLITE_DONE: return false
    default: throw database.failure(code, sql)
    }
  }

  /// Makes it ready for the next use.
  public func reset() {
    isStepping = false
    sqlite3_reset(handle)
    sqlite3_clear_bindings(handle)
  }
}

/// The row a statement stands on; valid until the next step.
public struct Row {
  let statement: Statement

  /// The row a stepped statement stands on.
  public init(of statement: Statement) { self.statement = statement }

  /// Whether a column is NULL.
  public func isNull(_ column: Int) -> Bool {
    sqlite3_column_type(statement.handle, Int32(column)) == SQLITE_NULL
  }

  /// A whole number; 0 for NULL.
  public func int(_ column: Int) -> Int { Int(sqlite3_column_int64(statement.handle, Int32(column))) }

  /// A whole number, or nil for NULL.
  public func optionalInt(_ column: Int) -> Int? { isNull(column) ? nil : int(column) }

  /// A double; 0 for NULL.
  public func double(_ column: Int) -> Double { sqlite3_column_double(statement.handle, Int32(column)) }

  /// A boolean stored as 0 or 1.
  public func bool(_ column: Int) -> Bool { int(column) != 0 }

  /// The bytes of a text or blob, with NULs; empty for NULL.
  public func bytes(_ column: Int) -> [UInt8] {
    guard let start = sqlite3_column_blob(statement.handle, Int32(column)) else { return [] }
    return Array(
      UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement.handle, Int32(column)))))
  }

  /// Appends the bytes of a text or blob, from where SQLite holds them.
  public func append(_ column: Int, to out: inout [UInt8]) {
    guard let start = sqlite3_column_blob(statement.handle, Int32(column)) else { return }
    out.append(
      contentsOf: UnsafeRawBufferPointer(
        start: start, count: Int(sqlite3_column_bytes(statement.handle, Int32(column)))))
  }

  /// How many bytes a text or blob has.
  public func count(_ column: Int) -> Int { Int(sqlite3_column_bytes(statement.handle, Int32(column))) }

  /// What `read` makes of the bytes of a text or blob where they lie; nil for NULL.
  public func withBytes<Value>(_ column: Int, _ read: (UnsafeBufferPointer<UInt8>) -> Value) -> Value? {
    guard let start = sqlite3_column_blob(statement.handle, Int32(column)) else {
      return isNull(column) ? nil : read(UnsafeBufferPointer(start: nil, count: 0))
    }
    let count = Int(sqlite3_column_bytes(statement.handle, Int32(column)))
    return read(UnsafeBufferPointer(start: start.assumingMemoryBound(to: UInt8.self), count: count))
  }

  /// A whole number without a sign, kept as the text of its digits; nil for anything else.
  public func unsigned(_ column: Int) -> UInt64? {
    withBytes(column) { digits in
      guard !digits.isEmpty else { return nil }
      var value: UInt64 = 0
      for digit in digits {
        guard digit >= 0x30, digit <= 0x39 else { return nil }
        let (more, isOver) = value.multipliedReportingOverflow(by: 10)
        let (sum, isOverToo) = more.addingReportingOverflow(UInt64(digit - 0x30))
        if isOver || isOverToo { return nil }
        value = sum
      }
      return value
    } ?? nil
  }

  /// A digest, or nil where the column is NULL or spells none.
  public func hash(_ column: Int) -> ContentHash? { withBytes(column) { ContentHash(hex: $0) } ?? nil }

  /// A text, byte for byte; empty for NULL.
  public func text(_ column: Int) -> Text { Text(bytes: bytes(column)) }

  /// A text, or nil for NULL.
  public func optionalText(_ column: Int) -> Text? { isNull(column) ? nil : text(column) }

  /// A text of our own making (ASCII words, hashes); bytes that are no UTF-8 would be repaired.
  public func string(_ column: Int) -> String { String(decoding: bytes(column), as: UTF8.self) }

  /// The same, or nil for NULL.
  public func optionalString(_ column: Int) -> String? { isNull(column) ? nil : string(column) }

  /// An id, or nil where the column is NULL or spells none.
  public func id(_ column: Int) -> EntityID? { withBytes(column) { EntityID($0) } ?? nil }

  /// A time, or nil for NULL.
  public func time(_ column: Int) -> Timestamp? { optionalInt(column).map { Timestamp(milliseconds: Int64($0)) } }

  /// A path, or nil for NULL.
  public func path(_ column: Int) -> PathBytes? { isNull(column) ? nil : PathBytes(bytes: bytes(column)) }
}

/// A value SQLite stores.
public protocol SQLiteValue {
  /// Binds it to a place of a statement; the result code.
  func bind(to statement: OpaquePointer, at place: Int32) -> Int32
}

private func bindText(_ bytes: [UInt8], _ statement: OpaquePointer, _ place: Int32) -> Int32 {
  bytes.withUnsafeBufferPointer { buffer in
    // An empty array may have no address, and a null address would bind NULL.
    guard let start = buffer.baseAddress, !buffer.isEmpty else {
      return sqlite3_bind_text(statement, place, "", 0, nil)
    }
    return start.withMemoryRebound(to: CChar.self, capacity: buffer.count) {
      sqlite3_bind_text(statement, place, $0, Int32(buffer.count), transient)
    }
  }
}

extension Text: SQLiteValue {
  /// Binds it as text, byte for byte.
  public func bind(to statement: OpaquePointer, at place: Int32) -> Int32 { bindText(bytes, statement, place) }
}

extension String: SQLiteValue {
  /// Binds it as text.
  public func bind(to statement: OpaquePointer, at place: Int32) -> Int32 {
    let bound: Int32?? = utf8.withContiguousStorageIfAvailable { bytes in
      // An address is there: a string's storage is never without one where it holds a byte.
      guard let start = bytes.baseAddress, !bytes.isEmpty else { return nil }
      return start.withMemoryRebound(to: CChar.self, capacity: bytes.count) {
        sqlite3_bind_text(statement, place, $0, Int32(bytes.count), transient)
      }
    }
    return bound.flatMap { $0 } ?? bindText(Array(utf8), statement, place)
  }
}

extension PathBytes: SQLiteValue {
  /// Binds it as a blob: a path need not be text.
  public func bind(to statement: OpaquePointer, at place: Int32) -> Int32 { bytes.bind(to: statement, at: place) }
}

extension EntityID: SQLiteValue {
  /// Binds its text.
  public func bind(to statement: OpaquePointer, at place: Int32) -> Int32 { text.bind(to: statement, at: place) }
}

extension ContentHash: SQLiteValue {
  /// Binds its hex digits.
  public func bind(to statement: OpaquePointer, at place: Int32) -> Int32 { hex.bind(to: statement, at: place) }
}

extension Timestamp: SQLiteValue {
  /// Binds its milliseconds.
  public func bind(to statement: OpaquePointer, at place: Int32) -> Int32 {
    sqlite3_bind_int64(statement, place, milliseconds)
  }
}

extension Int: SQLiteValue {
  /// Binds it as a 64-bit integer.
  public func bind(to statement: OpaquePointer, at place: Int32) -> Int32 {
    sqlite3_bind_int64(statement, place, Int64(self))
  }
}

extension Int64: SQLiteValue {
  /// Binds it as a 64-bit integer.
  public func bind(to statement: OpaquePointer, at place: Int32) -> Int32 { sqlite3_bind_int64(statement, place, self) }
}

extension Bool: SQLiteValue {
  /// Binds it as 0 or 1.
  public func bind(to statement: OpaquePointer, at place: Int32) -> Int32 {
    sqlite3_bind_int64(statement, place, self ? 1 : 0)
  }
}

extension Double: SQLiteValue {
  /// Binds it as a double.
  public func bind(to statement: OpaquePointer, at place: Int32) -> Int32 {
    sqlite3_bind_double(statement, place, self)
  }
}

extension [UInt8]: SQLiteValue {
  /// Binds it as a blob.
  public func bind(to statement: OpaquePointer, at place: Int32) -> Int32 {
    withUnsafeBytes { buffer in
      guard let start = buffer.baseAddress, !buffer.isEmpty else { return sqlite3_bind_zeroblob(statement, place, 0) }
      return sqlite3_bind_blob64(statement, place, start, UInt64(buffer.count), transient)
    }
  }
}
