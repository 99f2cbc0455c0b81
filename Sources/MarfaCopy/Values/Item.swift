import MarfaBase

/// An item: a row of the instance, as the copy shows it.
package struct Item: Hashable, Sendable {
  /// Its id.
  package var id: EntityID
  /// Its type, such as `core.note`.
  package var type: Text
  /// `library` or `feed`; nil for a type that has no tier.
  package var tier: Text?
  /// `active`, `archived`, `trashed` or `revoked`.
  package var state: Text
  /// Its properties in their order (D62).
  package var properties: JSONObject
  /// Its tags, ascending by bytes.
  package var tags: [Text]
  /// The instance's version; 0 for a create not answered yet (D20.1).
  package var version: Int
  /// The version of its type it was written under.
  package var schemaVersion: Int
  /// The source that wrote it.
  package var source: Text?
  /// Its natural key in that source.
  package var sourceID: Text?
  /// Its own time; the time it was made where none was given.
  package var occurredAt: Timestamp
  /// When it was made.
  package var createdAt: Timestamp
  /// When it changed last.
  package var updatedAt: Timestamp
  /// Extensions by namespace.
  package var extensions: JSONObject
  /// Whether the instance's listing gives it (D52.9).
  package var isListed: Bool

  /// An item.
  package init(
    id: EntityID, type: Text, tier: Text?, state: Text = "active", properties: JSONObject, tags: [Text] = [],
    version: Int, schemaVersion: Int = 1, source: Text? = nil, sourceID: Text? = nil, occurredAt: Timestamp,
    createdAt: Timestamp, updatedAt: Timestamp, extensions: JSONObject = JSONObject(), isListed: Bool = true
  ) {
    self.id = id
    self.type = type
    self.tier = tier
    self.state = state
    self.properties = properties
    self.tags = tags
    self.version = version
    self.schemaVersion = schemaVersion
    self.source = source
    self.sourceID = sourceID
    self.occurredAt = occurredAt
    self.createdAt = createdAt
    self.updatedAt = updatedAt
    self.extensions = extensions
    self.isListed = isListed
  }

  /// Whether it lies in the bin.
  package var isTrashed: Bool { state == "trashed" }

  /// The item as a row of an answer gives it: `{"item","metadata"?,"listed"?}`. Nil where a member it needs is missing
  /// or of another kind. `metadata` may be absent (a bare listing); tags are then none.
  package init?(row: JSON) {
    guard let item = row["item"]?.object, let id = item["id"]?.text.flatMap({ EntityID($0) }),
      let type = item["type"]?.text, let state = item["state"]?.text, let properties = item["properties"]?.object,
      let version = item["version"]?.int, let created = item["created_at"]?.text.flatMap(Timestamp.init(served:)),
      let updated = item["updated_at"]?.text.flatMap(Timestamp.init(served:))
    else { return nil }
    let occurred = item["occurred_at"]?.text.flatMap(Timestamp.init(served:)) ?? created
    let tags = (row["metadata"]?["tags"]?.array ?? []).compactMap(\.text)
    self.init(
      id: id, type: type, tier: item["tier"]?.text, state: state, properties: properties, tags: tags.sorted(),
      version: version, schemaVersion: item["schema_version"]?.int ?? 1, source: item["source"]?.text,
      sourceID: item["source_id"]?.text, occurredAt: occurred, createdAt: created, updatedAt: updated,
      extensions: row["metadata"]?["extensions"]?.object ?? JSONObject(), isListed: row["listed"]?.bool ?? true)
  }

  /// Its members as reports give them (C26.1).
  package var json: JSON {
    [
      "id": .string(id.text), "type": .string(type), "properties": .object(properties), "state": .string(state),
      "tier": .optional(tier), "version": .int(version), "schema_version": .int(schemaVersion),
      "source": .optional(source), "source_id": .optional(sourceID), "occurred_at": .string(occurredAt.text),
      "created_at": .string(createdAt.text), "updated_at": .string(updatedAt.text),
      "tags": .array(tags.map { .string($0) }),
    ]
  }

  /// Whether this row is earlier than another of the same id, by `version`, then `updated_at` (D13.5).
  package func isEarlier(than other: Item) -> Bool {
    version != other.version ? version < other.version : updatedAt < other.updatedAt
  }
}

/// An edge: a typed arrow from one item to another.
package struct Edge: Hashable, Sendable {
  /// Its id.
  package var id: EntityID
  /// Where it runs from.
  package var source: EntityID
  /// Where it runs to.
  package var target: EntityID
  /// Its type, such as `references`.
  package var type: Text
  /// Its properties.
  package var properties: JSONObject
  /// The instance's version; 0 for a create not answered yet.
  package var version: Int
  /// When it was made.
  package var createdAt: Timestamp
  /// When it changed last.
  package var updatedAt: Timestamp

  /// An edge.
  package init(
    id: EntityID, source: EntityID, target: EntityID, type: Text, properties: JSONObject = JSONObject(), version: Int,
    createdAt: Timestamp, updatedAt: Timestamp
  ) {
    self.id = id
    self.source = source
    self.target = target
    self.type = type
    self.properties = properties
    self.version = version
    self.createdAt = createdAt
    self.updatedAt = updatedAt
  }

  /// The edge of an answer's or a frame's `edge` object; nil where a member it needs is missing.
  package init?(_ edge: JSON) {
    guard let id = edge["id"]?.text.flatMap({ EntityID($0) }),
      let source = edge["source_id"]?.text.flatMap({ EntityID($0) }),
      let target = edge["target_id"]?.text.flatMap({ EntityID($0) }), let type = edge["edge_type"]?.text,
      let version = edge["version"]?.int, let created = edge["created_at"]?.text.flatMap(Timestamp.init(served:))
    else { return nil }
    self.init(
      id: id, source: source, target: target, type: type, properties: edge["properties"]?.object ?? JSONObject(),
      version: version, createdAt: created,
      updatedAt: edge["updated_at"]?.text.flatMap(Timestamp.init(served:)) ?? created)
  }

  /// Its members as reports give them (C26.1).
  package var json: JSON {
    [
      "id": .string(id.text), "source_id": .string(source.text), "target_id": .string(target.text),
      "edge_type": .string(type), "properties": .object(properties), "version": .int(version),
    ]
  }

  /// Whether this edge is earlier than another of the same id (D13.5).
  package func isEarlier(than other: Edge) -> Bool {
    version != other.version ? version < other.version : updatedAt < other.updatedAt
  }
}

/// Where a row stands with this copy.
package enum RowState: Hashable, Sendable {
  /// Held, out of the bin.
  case held
  /// Held, in the bin.
  case trashed
  /// Purged for good: an event or an answer said so.
  case purged
  /// Not held, and nothing says why.
  case lost
}
