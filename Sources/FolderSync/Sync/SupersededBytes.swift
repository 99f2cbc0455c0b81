import MarfaBase
import MarfaCopy

extension FolderEngine {
  /// Takes away what an upload left beside the store and no item names any more: a file saved again before its first bytes
  /// were sent goes as two uploads, and no pull ever meets the bytes of the first (F37.4, X10.4).
  ///
  /// Bytes an upload the server has not taken names stay, whatever its verdict, and so do those an item names: they go once
  /// its file holds them, or by the budget (X10.3).
  func dropSupersededBytes() throws {
    let held = copy.blobs.all().map(\.hash)
    guard !held.isEmpty else { return }
    let taken = try hashes("SELECT blob FROM queue WHERE kind = 'upload_blob' AND verdict IN (\(Self.successes))")
    var left = try held.filter { try taken.contains($0) && !isUploading($0) }
    guard !left.isEmpty else { return }
    let named = try hashes(
      """
      SELECT json_extract(properties, '$.blob_ref') FROM item WHERE json_type(properties, '$.blob_ref') = 'text'
      UNION SELECT json_extract(row, '$.properties.blob_ref') FROM item_base
        WHERE json_type(row, '$.properties.blob_ref') = 'text'
      """)
    left.removeAll(where: named.contains)
    guard !left.isEmpty else { return }
    // That the server took them is on the disk before they go: a verdict lost with the power would ask for them again.
    try commit {
      for hash in left {
        try copy.database.run("UPDATE queue SET blob = blob WHERE kind = 'upload_blob' AND blob = ?", hash)
      }
    }
    for hash in left { copy.blobs.remove(hash) }
  }

  private static let successes = "'accepted', 'merged', 'conflicted'"

  private func hashes(_ sql: String) throws -> Set<ContentHash> {
    Set(try copy.database.all(sql) { ContentHash($0.text(0)) }.compactMap { $0 })
  }
}
