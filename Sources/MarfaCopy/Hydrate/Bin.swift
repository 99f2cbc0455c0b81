import MarfaBase

/// A page of the instance's bin.
package struct BinPage: Hashable, Sendable {
  /// Rows, newest change first, every one trashed.
  package var rows: [Item]
  /// Where the next page begins; nil after the last.
  package var next: Text?
}

/// The instance's bin, and purging (device chapter 21).
extension WorkingCopy {
  /// A page of the instance's bin, held nowhere (D83.1).
  /// - Throws: `network` where the instance is out of reach: the bin is never answered from the copy (D84.1).
  package func bin(type: Text? = nil, limit: Int = 50, cursor: Text? = nil) throws(MarfaError) -> BinPage {
    try checkStop()
    var query: [(String, Text)] = [
      ("state", "trashed"), ("tier", "all"), ("sort", "updated_at"), ("direction", "desc"), ("include", "metadata"),
      ("limit", Text("\(limit)")),
    ]
    if let type { query.append(("type", type)) }
    if let cursor { query.append(("cursor", cursor)) }
    let asked = query
    let page = try server.bounded { () throws(MarfaError) in
      try server.request("GET", "/items", query: asked).json()
    }
    var rows: [Item] = []
    guard let data = page["data"]?.array else { throw MarfaError(.decoding, "a page of the bin could not be read") }
    for json in data {
      guard let item = Item(row: json) else { throw MarfaError(.decoding, "a row of the bin could not be read") }
      rows.append(item)
    }
    return BinPage(rows: rows, next: page["next_cursor"]?.text)
  }

  /// Purges an item of the bin for good, at once (D75 to D82): at the version named, else the one held.
  /// - Throws: `not_held`, `validation` with `invalid_transition` outside the bin, `invalid` while a write waits on it,
  ///   `copy_expired` where another instance answers, `instance_changed` where it is not the one expected; the server's
  ///   refusal or `network`, with everything kept.
  package func purge(
    _ id: EntityID, version: Int? = nil, expecting expected: EntityID? = nil
  ) throws(MarfaError) {
    try server.bounded { () throws(MarfaError) in try purgeNow(id, version, expected) }
  }

  private func purgeNow(_ id: EntityID, _ version: Int?, _ expected: EntityID?) throws(MarfaError) {
    try requireWriter()
    let shown = try item(id)
    if shown == nil, version == nil { throw MarfaError(.notHeld, "the copy holds no item \(id)") }
    if let shown, !shown.isTrashed {
      throw .validation("\(id) is not in the bin", code: "invalid_transition")
    }
    guard try queue.waiting(item: id).isEmpty else {
      throw MarfaError(.invalid, "a write is waiting on \(id); it must be sent or discarded first")
    }
    try checkStop()
    let generation = try store.int(.copyGeneration) ?? 0
    if let expected { try server.require(instance: expected) }
    try confirmInstance()
    var asked = version
    if asked == nil { asked = try serverItem(id)?.version }
    guard let version = asked else {
      throw MarfaError(.notHeld, "the copy holds no item \(id)")
    }
    _ = try server.request(
      "POST", "/items/\(id)/purge", query: [("version", Text("\(version)"))],
      headers: [HTTPHeader("Idempotency-Key", context.ids.next().text.string)])
    // The purge is done whatever became of the copy meanwhile.
    if try store.int(.copyGeneration) ?? 0 == generation { try takePurge(id) }
  }
}
