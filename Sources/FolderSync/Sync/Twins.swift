import MarfaBase
import MarfaCopy

/// Conflicted copies that say nothing of their own. Where another program brings one machine's save to another before that
/// one has sent it, both send the same words, and the server keeps the second as a copy (V8.2). It goes to the bin, unless
/// anybody has changed it since: equal bytes under one id are one item (P8.1).
extension FolderEngine {
  /// Deletes each at once, before another machine's watch writes it as a file: it is version 1 that is named, so that one
  /// changed meanwhile stays. What cannot be told now is for the drain after.
  func dropFreshTwins() throws {
    for copy in try store.twins().sorted() {
      try checkStop()
      do throws(MarfaError) {
        let answer = try self.copy.server.ask(
          "DELETE", "/items/\(copy)?version=1",
          headers: [HTTPHeader("Idempotency-Key", "\(copy)-twin")])
        guard answer.isSuccess || answer.status == 404 || answer.status == 409 else { continue }
      } catch {
        if error.code == .canceled { throw error }
        return
      }
      try commit { try store.forgetTwin(copy) }
    }
  }

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
