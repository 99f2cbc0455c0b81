import MarfaBase
import MarfaCopy

/// Files of items this folder itself trashed, back again: the item is restored in place of a second one made (P2.3).
extension ScanPass {
  /// Whether an item in the bin is brought back because this folder put it there.
  func restores(_ item: EntityID) throws -> Bool {
    guard try folder.store.trashed(item) else { return false }
    return try folder.commit {
      let queued = try folder.copy.queue.restoreItem(item)
      try folder.store.link(FolderWrite(id: queued.id, item: item, role: .restore, detail: FolderWrite.returned))
      try folder.store.forgetTrashed(item)
      return try folder.copy.item(item).map { !$0.isTrashed } ?? false
    }
  }

  /// Finds the items of files that carry no id by the bytes those files had.
  func findReturned() throws {
    guard try folder.store.hasTrashed() else { return }
    for index in files.indices where mayHaveArrived(index) && !files[index].isSkipped {
      guard let hash = files[index].hash, files[index].status.size > 0 else { continue }
      let form = files[index].isBytes ? FileForm.bytes : FileForm(documentName: files[index].path)
      let found = try folder.store.trashed(bytes: hash).filter { $0.form == form && bindings[$0.item] == nil }
      guard found.count == 1, let only = found.first, form != .markdown,
        let row = try folder.copy.item(only.item), row.isTrashed, try restores(only.item)
      else { continue }
      arrivals[index] = Arrival(item: only.item, seed: nil, name: files[index].path.name, form: only.form)
    }
  }
}

extension FolderStore {
  /// Remembers an item whose file was deleted here, with the bytes the file had.
  func remember(trashed binding: Binding) throws(SQLiteError) {
    try database.run(
      "INSERT OR REPLACE INTO trashed_item (item, form, hash) VALUES (?, ?, ?)", binding.item, binding.form.rawValue,
      binding.readHash)
  }

  func trashed(_ item: EntityID) throws(SQLiteError) -> Bool {
    try database.one("SELECT 1 FROM trashed_item WHERE item = ?", item) { _ in true } ?? false
  }

  func hasTrashed() throws(SQLiteError) -> Bool {
    try database.one("SELECT 1 FROM trashed_item LIMIT 1") { _ in true } ?? false
  }

  func trashed(bytes hash: ContentHash) throws(SQLiteError) -> [(item: EntityID, form: FileForm)] {
    try database.all("SELECT item, form FROM trashed_item WHERE hash = ? ORDER BY item", hash) {
      (row) throws(SQLiteError) -> (item: EntityID, form: FileForm)? in
      guard let item = row.id(0), let form = FileForm(rawValue: row.int(1)) else { return nil }
      return (item, form)
    }.compactMap { $0 }
  }

  func forgetTrashed(_ item: EntityID) throws(SQLiteError) {
    try database.run("DELETE FROM trashed_item WHERE item = ?", item)
  }

  /// Forgets what lies in the bin no more: restored by anybody, purged, or no longer held.
  func forgetTrashedThatLeft() throws(SQLiteError) {
    guard try hasTrashed() else { return }
    try database.run("DELETE FROM trashed_item WHERE item NOT IN (SELECT id FROM item WHERE state = 'trashed')")
  }
}

extension FolderStore {
  /// Conflicted copies of this folder's own texts whose links no scan has read yet.
  func owedCopies() throws(SQLiteError) -> Set<EntityID> {
    guard let text = try fact(.owedCopies) else { return [] }
    return Set(((try? JSON(parsing: text.bytes))?.array ?? []).compactMap { $0.text.flatMap { EntityID($0) } })
  }

  func oweEdges(of copy: EntityID) throws(SQLiteError) { try setOwed(try owedCopies().union([copy])) }

  func takeOwedEdges(of copy: EntityID) throws(SQLiteError) {
    let owed = try owedCopies()
    if owed.contains(copy) { try setOwed(owed.subtracting([copy])) }
  }

  private func setOwed(_ copies: Set<EntityID>) throws(SQLiteError) {
    let ids = JSON.array(copies.sorted().map { .string($0.text) })
    try set(.owedCopies, copies.isEmpty ? nil : Text(bytes: ids.write()))
  }
}
