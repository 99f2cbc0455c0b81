import MarfaBase
import MarfaCopy

/// The texts files were last agreed on. Agreements keep hashes alone; the text itself is the copy's row as long as that
/// stands at the agreed version, and once the copy moves past it the row as it was, kept here until the file's agreement
/// moves too (N6.2). So only what is under way costs room.
extension FolderStore {
  /// Has a copy tell of the rows it moves past.
  package func keepPassedRows(of copy: WorkingCopy) {
    copy.store.passed = { [self] item in try keep(passed: item) }
  }

  /// Keeps a row the copy moves past, where a file's agreement stands on it.
  private func keep(passed item: Item) throws(SQLiteError) {
    try database.run(
      """
      INSERT OR REPLACE INTO passed_row (item, version, row)
      SELECT item, ?2, ?3 FROM binding WHERE item = ?1 AND json_extract(facts, '$.agreed') = ?2
      """, item.id, item.version, Text(bytes: Store.storing(item).write()))
  }

  /// Lets a kept row go, unless the agreement still stands on it.
  func forgetPassed(of item: EntityID, but agreed: Int?) throws(SQLiteError) {
    try database.run("DELETE FROM passed_row WHERE item = ? AND version IS NOT ?", item, agreed)
  }

  /// The row of a version a file was agreed with, where the copy moved past it. A reader of a store of an earlier build finds
  /// none.
  func passedRow(of item: EntityID, version: Int) throws -> Item? {
    let isThere = try database.one("SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'passed_row')") {
      $0.bool(0)
    }
    guard isThere ?? false,
      let row = try database.one(
        "SELECT row FROM passed_row WHERE item = ? AND version = ?", item, version, read: { $0.bytes(0) })
    else { return nil }
    return try Store.storedItem(row)
  }
}
