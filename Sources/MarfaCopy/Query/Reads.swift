import MarfaBase

extension WorkingCopy {
  /// The item as shown, waiting writes laid over; nil where it is not held. A row in the bin is given with its state.
  package func item(_ id: EntityID) throws(MarfaError) -> Item? { try store.item(id) }

  /// How many items the copy shows, those in the bin among them.
  package func itemCount() throws(MarfaError) -> Int {
    try store.read { try store.database.rows1("SELECT count(*) FROM item", []) { $0.int(0) } ?? 0 }
  }

  /// The server's row beneath any waiting writes.
  package func serverItem(_ id: EntityID) throws(MarfaError) -> Item? { try store.serverItem(id) }

  /// Where a row stands.
  package func rowState(_ id: EntityID) throws(MarfaError) -> RowState {
    if let item = try store.item(id) { return item.isTrashed ? .trashed : .held }
    return try isPurged(id) ? .purged : .lost
  }

  /// Whether a row is known to be purged for good.
  package func isPurged(_ id: EntityID) throws(MarfaError) -> Bool {
    try store.read { try database.one("SELECT 1 FROM purged WHERE item = ?", id) { _ in true } ?? false }
  }

  /// The edge as shown.
  package func edge(_ id: EntityID) throws(MarfaError) -> Edge? { try store.edge(id) }

  /// The server's edge beneath any waiting writes.
  package func serverEdge(_ id: EntityID) throws(MarfaError) -> Edge? { try store.serverEdge(id) }

  /// Every held edge that runs from an item, oldest first.
  package func edges(from source: EntityID) throws(MarfaError) -> [Edge] {
    try store.edges(where: "source = ?", [source])
  }

  /// The held edges of a type that run from an item.
  package func edges(from source: EntityID, type: Text) throws(MarfaError) -> [Edge] {
    try store.edges(where: "source = ? AND type = ?", [source, type])
  }

  /// Every held edge that runs to an item, oldest first.
  package func edges(to target: EntityID) throws(MarfaError) -> [Edge] {
    try store.edges(where: "target = ?", [target])
  }

  /// The held edges of a type that run to an item.
  package func edges(to target: EntityID, type: Text) throws(MarfaError) -> [Edge] {
    try store.edges(where: "target = ? AND type = ?", [target, type])
  }

  /// Every held edge of a type.
  package func edges(ofType type: Text) throws(MarfaError) -> [Edge] { try store.edges(where: "type = ?", [type]) }

  /// The items out of the bin whose title has a key, ascending by id (D88.R5).
  package func itemsTitled(key: NameKey) throws(MarfaError) -> [EntityID] {
    try store.read {
      try database.allRows("SELECT id FROM item WHERE title_key = ? AND state <> 'trashed' ORDER BY id", [key.bytes]) {
        $0.id(0)
      }.compactMap { $0 }
    }
  }

  // MARK: - Pins

  /// The items an owner pins, ascending.
  package func pins(owner: Text) throws(MarfaError) -> [EntityID] {
    try store.read {
      try database.allRows("SELECT item FROM pin WHERE owner = ? ORDER BY item", [owner]) { $0.id(0) }.compactMap { $0 }
    }
  }

  /// Every pinned item, ascending.
  package func pins() throws(MarfaError) -> [EntityID] {
    try store.read {
      try database.allRows("SELECT DISTINCT item FROM pin ORDER BY item") { $0.id(0) }.compactMap { $0 }
    }
  }

  /// Whether anybody pins an item.
  package func isPinned(_ id: EntityID) throws(MarfaError) -> Bool {
    try store.read { try database.one("SELECT 1 FROM pin WHERE item = ? LIMIT 1", id) { _ in true } ?? false }
  }
}
