import MarfaBase
import MarfaCopy

/// Conflicted copies that say nothing of their own. Where another program brings one machine's save to another before that
/// one has sent it, both send the same words, and the server keeps the second as a copy (V8.2). It goes to the bin, unless
/// anybody has changed it since: equal bytes under one id are one item (P8.1).
extension FolderEngine {
  /// Queues the delete of each that the copy holds by now. One whose file would be written by the pull after this has none.
  func dropTwins() throws {
    let twins = try store.twins()
    guard !twins.isEmpty else { return }
    for copy in twins.sorted() {
      guard let row = try self.copy.item(copy) else { continue }
      try commit {
        if !row.isTrashed, row.version == 1 {
          let queued = try self.copy.queue.deleteItem(copy)
          try store.link(FolderWrite(id: queued.id, item: copy, role: .delete))
        }
        try store.forgetTwin(copy)
      }
    }
  }
}

extension FolderStore {
  fileprivate func twins() throws(SQLiteError) -> Set<EntityID> {
    guard let text = try fact(.twinCopies) else { return [] }
    return Set(((try? JSON(parsing: text.bytes))?.array ?? []).compactMap { $0.text.flatMap { EntityID($0) } })
  }

  func rememberTwin(_ copy: EntityID) throws(SQLiteError) { try setTwins(try twins().union([copy])) }

  fileprivate func forgetTwin(_ copy: EntityID) throws(SQLiteError) { try setTwins(try twins().subtracting([copy])) }

  private func setTwins(_ copies: Set<EntityID>) throws(SQLiteError) {
    let ids = JSON.array(copies.sorted().map { .string($0.text) })
    try set(.twinCopies, copies.isEmpty ? nil : Text(bytes: ids.write()))
  }
}
