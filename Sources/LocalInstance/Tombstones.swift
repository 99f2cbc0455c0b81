import MarfaBase

/// Whose key a tombstone keeps.
enum TombstoneKey {
  /// A value of the type's link.
  case link
  /// A `source_id` of a source.
  case naturalKey(Text)

  var kind: Text {
    switch self {
    case .link: "link"
    case .naturalKey: "natural"
    }
  }

  var source: Text {
    switch self {
    case .link: ""
    case .naturalKey(let source): source
    }
  }
}

/// What a purge leaves under its type, so that a connector does not make the item anew (I56).
extension Instance {
  func keepTombstones(of row: ItemRow) throws {
    var keys: [(TombstoneKey, Text)] = []
    if let value = link(of: row) { keys.append((.link, value)) }
    if let sourceID = row.sourceID { keys.append((.naturalKey(row.source), sourceID)) }
    for (key, name) in keys {
      try database.run(
        "INSERT OR REPLACE INTO tombstone (type, kind, source, name, purged, settled) VALUES (?, ?, ?, ?, ?, ?)",
        row.type, key.kind, key.source, name, clock.now, clock.now)
    }
  }

  /// A tombstone goes when an item holds its key again: a natural key's whatever the type, a link's of that type.
  func clearTombstones(heldBy row: ItemRow, link: Text?) throws {
    if let sourceID = row.sourceID {
      try database.run(
        "DELETE FROM tombstone WHERE kind = 'natural' AND source = ? AND name = ?", row.source, sourceID)
    }
    if let link {
      try database.run("DELETE FROM tombstone WHERE type = ? AND kind = 'link' AND name = ?", row.type, link)
    }
  }

  /// After a registration or replacement of a type: all of a type registered anew, the links of one whose link changed.
  func clearTombstones(of type: Text, linksOnly: Bool) throws {
    try database.run("DELETE FROM tombstone WHERE type = ? AND (kind = 'link' OR ?)", type, !linksOnly)
  }

  func tombstone(_ type: Text, _ key: TombstoneKey, _ name: Text) throws -> JSON? {
    try database.one(
      "SELECT purged, settled FROM tombstone WHERE type = ? AND kind = ? AND source = ? AND name = ?", type, key.kind,
      key.source, name
    ) { row in
      [
        "key": .string(name), "purged_at": .optional(row.time(0)?.text), "settled_at": .optional(row.time(1)?.text),
      ]
    }
  }

  /// `POST /items/tombstones`: moves `settled_at` of the tombstones named, later only.
  func settleTombstones(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    let body = ItemBody(object: try call.object())
    try body.declare(["type", "source", "source_ids", "links", "settled_at"])
    guard let value = body.object["type"], !value.isNull else { throw Refusal.missing("type") }
    guard let type = value.text, isTypeIdentifier(type) else {
      throw Refusal.invalid("type", "type is not a type identifier.")
    }
    guard let time = try body.text("settled_at") else { throw Refusal.missing("settled_at") }
    guard let settled = readTime(time) else { throw Refusal.invalid("settled_at", "settled_at is not a time.") }
    let source = try body.text("source")
    let member: Text = source == nil ? "links" : "source_ids"
    guard (body.object["links"] == nil) == (source != nil), (body.object["source_ids"] == nil) == (source == nil),
      let names = body.object[member]?.array?.map(\.text), !names.isEmpty, names.allSatisfy({ $0 != nil })
    else { throw Refusal.invalid("", "One of links, or source with source_ids.") }
    if names.count > 500 {
      throw Refusal(400, "validation_error", "At most 500 values.", ["cap": 500, "provided": .int(names.count)])
    }
    if isSystem(type) { throw Refusal.systemRow }
    try call.credential.requireWrite(type)
    if let source, !call.credential.claims(source) { throw Refusal.source(source) }
    if catalog.types[type] == nil { throw Refusal.unknownType(type) }
    let key = source.map(TombstoneKey.naturalKey) ?? .link
    var answered: [JSON] = []
    for name in names.compactMap({ $0 }) {
      try database.run(
        """
        UPDATE tombstone SET settled = max(settled, ?5) WHERE type = ?1 AND kind = ?2 AND source = ?3 AND name = ?4
        """, type, key.kind, key.source, name, settled)
      if let kept = try tombstone(type, key, name) { answered.append(kept) }
    }
    return .json(200, ["tombstones": .array(answered)])
  }
}
