import MarfaBase

/// What a writer keeps of what it read or wrote last; a reader keeps nothing. It stands until the writer writes again or
/// takes a transaction back, or another connection writes (F81), which is asked before each use, within one transaction once.
///
/// The steps over one note ask for its row many times, one after another: a few rows are enough, and none that is large.
struct KeptReads {
  /// How many rows are kept.
  static let rows = 32
  /// The most bytes of properties a kept row has.
  static let largest = 1 << 15

  /// How often the database had taken something back when this began to be kept.
  let rollbacks: Int
  /// SQLite's count of other connections' writes then.
  let version: Int?
  /// The transaction within which it was found to stand.
  var transaction: Int?
  var texts: [Store.Meta: Text?] = [:]
  var ints: [Store.Meta: Int?] = [:]
  private var items: [(id: EntityID, item: Item?)] = []
  private var next = 0

  init(rollbacks: Int, version: Int?) {
    self.rollbacks = rollbacks
    self.version = version
  }

  /// The row as it is shown, or that there is none; nil where it is not kept.
  func item(_ id: EntityID) -> Item?? {
    for kept in items where kept.id == id { return .some(kept.item) }
    return nil
  }

  /// Keeps a row, or that there is none, in the place of the one kept longest.
  mutating func keep(_ item: Item?, _ id: EntityID) {
    if let place = items.firstIndex(where: { $0.id == id }) {
      items[place].item = item
    } else if items.count < Self.rows {
      items.append((id, item))
    } else {
      items[next] = (id, item)
      next = (next + 1) % Self.rows
    }
  }

  mutating func forget(_ id: EntityID) {
    guard let place = items.firstIndex(where: { $0.id == id }) else { return }
    items.remove(at: place)
    next = 0
  }
}

/// What a row is, without what it says.
package struct ItemHead: Sendable {
  package let id: EntityID
  package let type: Text
  package let tier: Text?
  package let state: Text

  init(id: EntityID, type: Text, tier: Text?, state: Text) {
    self.id = id
    self.type = type
    self.tier = tier
    self.state = state
  }

  package init(_ item: Item) { self.init(id: item.id, type: item.type, tier: item.tier, state: item.state) }

  /// Whether it lies in the bin.
  package var isTrashed: Bool { state == "trashed" }
}

extension Store {
  /// From now on what is read is kept: for a writer.
  func keepReads() { reads = KeptReads(rollbacks: database.rollbacks, version: othersWrites()) }

  /// Forgets what was kept: somebody else may have written.
  package func forgetReads() { if reads != nil { keepReads() } }

  private func othersWrites() -> Int? { (try? database.one("PRAGMA data_version") { $0.int(0) }) ?? nil }

  /// Whether what was kept stands; where it does not it is forgotten.
  func readsStand() -> Bool {
    guard let kept = reads else { return false }
    if kept.rollbacks == database.rollbacks {
      let isInTransaction = database.isInTransaction
      if isInTransaction, kept.transaction == transactions { return true }
      if let version = othersWrites(), version == kept.version {
        if isInTransaction { reads?.transaction = transactions }
        return true
      }
    }
    keepReads()
    return false
  }

  /// Keeps a row as it is shown now.
  func keep(_ item: Item?, _ id: EntityID, size: Int) {
    if size > KeptReads.largest { reads?.forget(id) } else { reads?.keep(item, id) }
  }

  /// What a row is, as the copy shows it; nil where it holds none.
  package func head(_ id: EntityID) throws(MarfaError) -> ItemHead? {
    if let kept = reads?.item(id), readsStand() { return kept.map(ItemHead.init) }
    return try read {
      try database.one("SELECT type, tier, state FROM item WHERE id = ?", id) {
        ItemHead(id: id, type: $0.text(0), tier: $0.optionalText(1), state: $0.text(2))
      }
    }
  }

  /// Whether the instance holds a row, as far as the copy knows.
  package func holdsServerItem(_ id: EntityID) throws(MarfaError) -> Bool {
    let base = try read { try database.one("SELECT row IS NOT NULL FROM item_base WHERE id = ?", id) { $0.bool(0) } }
    if let base { return base }
    return try head(id) != nil
  }
}

extension WorkingCopy {
  /// What an item is, as shown; nil where it is not held.
  package func head(_ id: EntityID) throws(MarfaError) -> ItemHead? { try store.head(id) }

  /// Whether the server's row beneath any waiting writes is held.
  package func holdsServerItem(_ id: EntityID) throws(MarfaError) -> Bool { try store.holdsServerItem(id) }

  /// Whether an item's text has a mark in it, wherever in its properties; only one that has can embed a file.
  package func hasMark(_ mark: Text, in id: EntityID) throws(MarfaError) -> Bool {
    try store.read {
      try database.one("SELECT instr(properties, ?) > 0 FROM item WHERE id = ?", mark, id) { $0.bool(0) } ?? false
    }
  }

  /// Runs reads that belong together; nothing is written and nobody asked.
  package func reading<Value>(_ work: () throws -> Value) throws -> Value {
    store.countTransaction()
    return try database.reading(work)
  }
}
