import MarfaBase

/// What is kept of a link or an embed of a body.
struct BodyRecord: Hashable {
  enum State: String { case pending, named, missing, ambiguous, refused }

  var item: EntityID
  var text: Text
  var state: State
  var target: EntityID?
  var reason: Text?
  var held = 0
  var again = false
  var write: EntityID?

  init(item: EntityID, text: Text, state: State) {
    self.item = item
    self.text = text
    self.state = state
  }
}

extension BodyEdges {
  private static let columns = "item, text, state, target, reason, held, again, write"

  private static func read(_ row: Row) -> BodyRecord? {
    guard let item = row.id(0), let state = BodyRecord.State(rawValue: row.string(2)) else { return nil }
    var record = BodyRecord(item: item, text: row.text(1), state: state)
    record.target = row.id(3)
    record.reason = row.optionalText(4)
    record.held = row.int(5)
    record.again = row.bool(6)
    record.write = row.id(7)
    return record
  }

  func record(of text: Text, in item: EntityID) throws(MarfaError) -> BodyRecord? {
    try store.read {
      try copy.database.all(
        "SELECT \(Self.columns) FROM body_name WHERE item = ? AND text = ?", item, text
      ) { BodyEdges.read($0) }.compactMap { $0 }.first
    }
  }

  /// The records of names that are not settled.
  func waiting() throws(MarfaError) -> [BodyRecord] {
    try store.read {
      try copy.database.all(
        """
        SELECT \(Self.columns) FROM body_name
        WHERE state IN ('pending', 'missing', 'ambiguous') OR again = 1 ORDER BY item, text
        """
      ) { BodyEdges.read($0) }.compactMap { $0 }
    }
  }

  func save(_ record: BodyRecord) throws(MarfaError) {
    try store.read {
      try copy.database.run(
        "INSERT OR REPLACE INTO body_name (\(Self.columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", record.item, record.text,
        record.state.rawValue, record.target, record.reason, record.held, record.again, record.write)
    }
  }

  func forget(_ text: Text, in item: EntityID) throws(MarfaError) {
    try store.read { try copy.database.run("DELETE FROM body_name WHERE item = ? AND text = ?", item, text) }
  }

  func forget(item: EntityID) throws(MarfaError) {
    try store.read { try copy.database.run("DELETE FROM body_name WHERE item = ?", item) }
  }
}
