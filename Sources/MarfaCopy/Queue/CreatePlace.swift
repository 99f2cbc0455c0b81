import MarfaBase

/// Where a create goes: the row its natural key names, its tier, and the pin that holds it outside the slice (Q50).
extension WriteQueue {
  /// The row or the waiting create a natural key names.
  enum KeyTarget {
    case none
    case row(Item)
    case ownCreate(QueuedWrite)
    case unknown
  }

  func keyTarget(_ draft: ItemDraft) throws(MarfaError) -> KeyTarget {
    guard let sourceID = draft.sourceID else { return .none }
    if let own = try keyedCreates(source: draft.source, sourceID: sourceID).last(where: { $0.isWaiting }) {
      return .ownCreate(own)
    }
    if let row = try heldRow(source: draft.source, sourceID: sourceID) { return .row(row) }
    return .unknown
  }

  /// Q50: the tier a create is sent with, and the one it shows at.
  func tiers(
    _ draft: ItemDraft, _ target: KeyTarget, isKeyFree: Bool
  ) throws(MarfaError) -> (sent: Text?, shown: Text) {
    if let tier = draft.tier { return (tier, tier) }
    let slice = try copy.slice()?.tier
    let usual = slice == nil || slice == "all" ? "library" : slice ?? "library"
    switch target {
    case .row(let row): return (nil, row.tier ?? usual)
    case .ownCreate(let own):
      let tier = own.body?["tier"]?.text
      return (tier, tier ?? own.readRecord?["tier"]?.text ?? usual)
    case .none: return (usual, usual)
    // A re-save leaves a row where the person put it (Q50.5).
    case .unknown: return (isKeyFree ? usual : nil, usual)
    }
  }

  /// Whether the server says that no row holds a draft's key; asked only where a tier turns on it and the copy can't tell
  /// (Q50.5). Before the transaction: none spans a request.
  func isKeyFree(_ draft: ItemDraft) throws(MarfaError) -> Bool {
    guard let key = draft.sourceID, draft.tier == nil, case .unknown = try keyTarget(draft) else { return false }
    // Nothing but a quote can be escaped in a filter's text.
    guard key.bytes.last != UInt8(ascii: "\\"), draft.source?.bytes.last != UInt8(ascii: "\\") else { return false }
    var filter = "source_id eq \(quoted(key))"
    if let source = draft.source { filter += " and source eq \(quoted(source))" }
    do throws(MarfaError) {
      let page = try copy.server.request(
        "GET", "/items", query: [("tier", "all"), ("state", "any"), ("limit", "1"), ("filter", Text(filter))]
      ).json()
      return page["data"]?.array?.isEmpty ?? false
    } catch {
      if error.code == .canceled { throw error }
      return false
    }
  }

  private func quoted(_ text: Text) -> String {
    "\"" + text.string.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\\\"") + "\""
  }

  /// A create the slice does not take is pinned, or nothing would hold it (Q50.6).
  func pinWhereOutside(_ id: EntityID, _ type: Text, _ tier: Text?) throws(MarfaError) {
    guard let slice = try copy.slice(), try !slice.takes(type: type, tier: tier, in: store.catalog()) else { return }
    try store.read {
      try store.database.run("INSERT OR IGNORE INTO pin (item, owner) VALUES (?, ?)", id, WriteQueue.pinOwner)
    }
  }

  /// The row of a refused create takes its pins with it (D1.14, Q50.6).
  func unpinRefusedCreate(_ id: EntityID) throws(MarfaError) {
    guard try copy.isPinned(id), try store.item(id) == nil,
      try table.count("item = ? AND kind = 'create_item' AND verdict = 'refused' AND landed IS NULL", id) > 0
    else { return }
    try store.read { try store.database.run("DELETE FROM pin WHERE item = ?", id) }
    try copy.bumpPins()
  }

  /// A create that waits again is pinned again where the slice does not take it.
  func pinAgain(_ create: QueuedWrite) throws(MarfaError) {
    guard create.kind == .createItem, let id = create.itemID, let row = try store.item(id) else { return }
    try pinWhereOutside(id, row.type, row.tier)
  }

  /// The owner of the pins the queue sets.
  static let pinOwner: Text = "create"
}
