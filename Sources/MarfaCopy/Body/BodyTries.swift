import MarfaBase

/// Names that wait are tried at each drain, catch-up and fill (D95.3).
extension BodyEdges {
  /// Whether anything waits.
  func hasWaiting() throws(MarfaError) -> Bool {
    try store.read {
      try copy.database.one(
        """
        SELECT EXISTS (SELECT 1 FROM body_name WHERE state IN ('pending', 'missing', 'ambiguous') OR again = 1)
          OR EXISTS (SELECT 1 FROM body_due)
        """
      ) { $0.bool(0) } ?? false
    }
  }

  /// Tries them: a name that was not asked is asked; one that was missing or ambiguous is asked again once the copy holds
  /// another number of items it names. What an instance out of reach leaves is as it was (D95.6).
  /// - Throws: `canceled`, and what ends the copy; nothing of what the instance refused.
  func tryNames() throws(MarfaError) {
    guard try hasWaiting() else { return }
    guard try copy.hydration() == .complete else { return }
    try readAnswered()
    let names = try BodyNames(copy)
    var bodies: [EntityID: [Text: BodyReference]] = [:]
    var isAway = false
    for record in try waiting() {
      try copy.checkStop()
      guard let row = try copy.item(record.item), !row.isTrashed else {
        try store.transaction { try forget(item: record.item) }
        continue
      }
      if bodies[record.item] == nil {
        let references = BodyReference.all(in: try copy.catalog().body(of: row))
        bodies[record.item] = Dictionary(references.map { ($0.text, $0) }) { first, _ in first }
      }
      guard let reference = bodies[record.item]?[record.text] else {
        // The body no longer carries it, whoever changed it (D95.5).
        try store.transaction { try forget(record.text, in: record.item) }
        continue
      }
      if record.state == .missing || record.state == .ambiguous {
        guard try names.heldCount(reference) != record.held else { continue }
      }
      if isAway { continue }
      do throws(MarfaError) {
        try take(reference, in: record.item, names, asks: true, by: try bodyWrite(of: row))
      } catch {
        if error.isEnvironmental {
          isAway = true
          continue
        }
        if error.code == .canceled || error.exit == 5 { throw error }
        var refused = record
        refused.state = .refused
        refused.reason = Text(error.message)
        refused.again = true
        try store.transaction { try save(refused) }
      }
    }
    try store.transaction { try releasePins() }
  }

  /// The write of an item's body that still waits: its edges wait for it (D91.1).
  private func bodyWrite(of row: Item) throws(MarfaError) -> EntityID? {
    let field = try copy.catalog().bodyField(of: row.type)
    return try queue.waiting(item: row.id).last { write in
      (write.kind == .createItem || write.kind == .updateItem) && write.bodyProperties?[field] != nil
    }?.id
  }

  /// An edit on an older version: its body is read from the row it is answered with (D88.4).
  func awaitAnswer(_ write: EntityID, of item: EntityID, from before: Text?) throws(MarfaError) {
    try store.read {
      try copy.database.run(
        "INSERT OR REPLACE INTO body_due (write, item, before) VALUES (?, ?, ?)", write, item, before ?? "")
    }
  }

  /// Reads the bodies of edits on an older version once they were answered (D88.4).
  private func readAnswered() throws(MarfaError) {
    let due = try store.read {
      try copy.database.all("SELECT write, item, before FROM body_due") { ($0.id(0), $0.id(1), $0.text(2)) }
    }
    for case (let write?, let item?, let before) in due {
      let entry = try queue.table.entry(write)
      if let entry, entry.verdict == nil || entry.isWaiting || entry.owesRead { continue }
      try store.transaction {
        let isTaken = entry?.verdict.map { $0 == .accepted || $0 == .merged } ?? true
        if isTaken, let row = try copy.item(item), !row.isTrashed {
          try changed(of: item, from: before, to: try copy.catalog().body(of: row), by: nil)
        }
        try store.read { try copy.database.run("DELETE FROM body_due WHERE write = ?", write) }
      }
    }
  }
}
