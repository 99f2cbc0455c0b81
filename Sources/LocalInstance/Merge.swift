import MarfaBase

/// The three-way merge of a write (versions.md 5): ancestor, item as it stands, write. A current write has no ancestor
/// and merges with nothing.
///
/// A value. No other case remains: each property of the write is an echo of the ancestor (no change), a change whose
/// current value is the ancestor's (it lands), or a change whose current value differs (it collides, even where both
/// writers set the same, V8.2); but a clear of what the other writer cleared too is an echo (V11.6). What the write does
/// not carry stays (V11.3), in a replace also what another writer added since (V11.5).
struct Merge {
  static let itemFields: Set<Text> = ["tier", "occurred_at", "source_id", "type"]

  /// The colliding fields, ascending by name.
  let collisions: [Text]
  /// The properties as they would stand, colliding ones taken from the write until `keep` sets some aside.
  private(set) var properties: JSONObject
  /// Item fields to set; nil leaves them.
  let tier: Text?
  let occurred: Timestamp?
  let sourceID: Text?
  /// Properties kept as they stand, with the value the write brought; nil for one it cleared.
  private(set) var setAside: [(name: Text, value: JSON?)] = []
  private let held: JSONObject
  private let changes: [Text: JSON?]

  /// - Parameters:
  ///   - body: the properties that take part, nulls gone; nil where the write carries none.
  ///   - type: the type moved to; nil where the write does not move.
  ///   - keepsSize: whether `size_bytes` is the instance's own member, which no write changes (B7.2).
  init(
    held row: ItemRow, ancestor: Ancestor?, body: JSONObject?, isReplace: Bool, type: Text?, tier: Text?,
    occurred: Timestamp?, sourceID: Text?, keepsSize: Bool
  ) {
    held = row.propertiesObject
    guard let ancestor else {
      collisions = []
      changes = [:]
      (self.tier, self.occurred, self.sourceID) = (tier, occurred, sourceID)
      if let body, isReplace {
        properties = body
        if keepsSize, let size = held["size_bytes"] { properties["size_bytes"] = size }
      } else {
        properties = held
        for (name, value) in body?.members ?? [] { properties[name] = value }
      }
      return
    }
    var colliding: [Text] = []
    var changes: [Text: JSON?] = [:]
    var merged = held
    for (name, value) in body?.members ?? [] where ancestor.properties[name] != value {
      if held[name] != ancestor.properties[name] { colliding.append(name) }
      changes[name] = .some(value)
      merged[name] = value
    }
    if let body, isReplace {
      for (name, value) in ancestor.properties.members where body[name] == nil {
        if keepsSize, name == "size_bytes" { continue }
        guard let current = held[name] else { continue }
        if current != value { colliding.append(name) }
        changes[name] = .some(nil)
        merged[name] = nil
      }
    }
    var moved: (tier: Text?, occurred: Timestamp?, sourceID: Text?)
    if let tier, tier != ancestor.tier {
      moved.tier = tier
      if row.tier != ancestor.tier { colliding.append("tier") }
    }
    if let occurred, occurred != ancestor.occurred {
      moved.occurred = occurred
      if row.occurred != ancestor.occurred { colliding.append("occurred_at") }
    }
    if let sourceID, sourceID != ancestor.sourceID {
      moved.sourceID = sourceID
      if row.sourceID != ancestor.sourceID { colliding.append("source_id") }
    }
    if type != nil, row.type != ancestor.type { colliding.append("type") }
    (self.tier, self.occurred, self.sourceID) = moved
    collisions = colliding.sorted()
    self.changes = changes
    properties = merged
  }

  /// Keeps these colliding properties as the item holds them; the write's values are for the copy (V13.6, V13.9).
  mutating func keep(_ names: [Text]) {
    for name in names {
      setAside.append((name, changes[name] ?? nil))
    }
    // Built anew so that a kept property stays in its place.
    var kept = JSONObject()
    for (name, value) in held.members {
      if names.contains(name) { kept[name] = value } else { kept[name] = properties[name] }
    }
    for (name, value) in properties.members where kept[name] == nil && !names.contains(name) { kept[name] = value }
    properties = kept
  }
}
