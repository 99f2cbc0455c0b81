import MarfaBase

/// What a pull wants a document's file to hold.
package struct ItemContent: Hashable, Sendable {
  /// The type's full name.
  package var type: Text
  /// `feed` or `library`.
  package var tier: Text
  /// The item's tags, any order.
  package var tags: [Text]
  /// Active or archived.
  package var state: ShownState
  /// The item's `occurred_at`.
  package var occurredAt: Timestamp
  /// Whether that is a time of its own, not its creation (I6.6, F7.42).
  package var hasOwnTime: Bool
  /// The item's properties in order, the body field left out. Keys a file reads as something else get no line (F7.11).
  package var properties: JSONObject
  /// The edge lines the file shall hold.
  package var edges: [EdgeContent]
  /// The `marfa_id` line; nil leaves an existing line as it is and writes none.
  package var id: EntityID?
  /// The `marfa_version` line; nil as for `id`.
  package var version: Int?
  /// The body.
  package var body: Text

  /// Content of these parts.
  package init(
    type: Text, tier: Text, tags: [Text] = [], state: ShownState = .active, occurredAt: Timestamp,
    hasOwnTime: Bool = false, properties: JSONObject = JSONObject(), edges: [EdgeContent] = [], id: EntityID?,
    version: Int?, body: Text
  ) {
    self.type = type
    self.tier = tier
    self.tags = tags
    self.state = state
    self.occurredAt = occurredAt
    self.hasOwnTime = hasOwnTime
    self.properties = properties
    self.edges = edges
    self.id = id
    self.version = version
    self.body = body
  }
}

/// What one edge line shall hold. The caller resolves what is typed: where a typed spelling already names an edge's item
/// it passes that spelling (F11.15, each of them where two name one item, F11.13), else a fresh one of `EdgeContent.target`.
package struct EdgeContent: Hashable, Sendable {
  /// The edge type's name or reverse name.
  package var key: Text
  /// The targets as texts, brackets included: `[[Beta]]`. Their order in an existing line stands.
  package var targets: [Text]
  /// Whether this end may hold more than one: written as a block list (F11.8).
  package var holdsMany: Bool

  /// A line of these targets.
  package init(key: Text, targets: [Text], holdsMany: Bool) {
    self.key = key
    self.targets = targets
    self.holdsMany = holdsMany
  }
}

/// Why a file cannot be written as meant; it stays as it is, counted `unwritten` (F7.35).
package struct RenderFailure: Error, Hashable, Sendable {
  /// In words.
  package let reason: String
}
