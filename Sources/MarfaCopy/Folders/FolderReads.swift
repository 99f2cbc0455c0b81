import MarfaBase

/// Folders read through a copy: their settings, and what their searches hold (device chapter 20).
extension WorkingCopy {
  /// A held folder's settings item; nil where it is not held. Answers in any state but an ended copy's (D64.1).
  /// - Throws: `invalid` for an item of another type.
  package func folder(_ id: EntityID) throws(MarfaError) -> Item? {
    if try hydration() == .expired { try requireComplete() }
    guard let item = try item(id), !item.isTrashed else { return nil }
    guard item.type == "system.folder" else { throw MarfaError(.invalid, "\(id) is a \(item.type), not a folder") }
    return item
  }

  /// The search a folder's settings name (F2).
  /// - Throws: `invalid` for settings no folder follows (I110.5).
  package static func search(of folder: Item) throws(MarfaError) -> FolderSearch {
    try FolderSearch(settings: folder.properties)
  }

  /// What a folder holds, by the folder's own evaluation, newest first (D65.1).
  /// - Throws: `not_held`; `invalid` for what the slice cannot answer (D66), a `backref`, a revoked folder, no folder (D67).
  package func list(inFolder id: EntityID, limit: Int? = nil, offset: Int = 0) throws(MarfaError) -> [Item] {
    var query = try query(ofFolder: id)
    query.limit = limit
    query.offset = offset
    return try list(query)
  }

  /// Words among what a folder holds.
  package func search(_ words: Text, inFolder id: EntityID, limit: Int? = nil) throws(MarfaError) -> [SearchHit] {
    var query = try query(ofFolder: id)
    query.limit = limit
    return try search(words, query)
  }

  private func query(ofFolder id: EntityID) throws(MarfaError) -> ListQuery {
    if try hydration() == .never { throw MarfaError(.invalid, "the working copy was never filled, so it has no slice") }
    try requireComplete()
    guard let folder = try folder(id) else { throw MarfaError(.notHeld, "the copy holds no folder \(id)") }
    if folder.state == "revoked" { throw MarfaError(.invalid, "the folder \(id) was revoked") }
    return try listQuery(of: try WorkingCopy.search(of: folder))
  }
}
