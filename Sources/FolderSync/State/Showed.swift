import MarfaBase

/// The own-field lines of a file: an absent line is nil (F7.13).
package struct OwnLines: Hashable, Sendable {
  package var type: Text?
  package var tier: Text?
  package var tags: Set<Text>
  package var state: Text
  package var occurredAt: Timestamp?

  package init(type: Text?, tier: Text?, tags: Set<Text>, state: Text, occurredAt: Timestamp?) {
    self.type = type
    self.tier = tier
    self.tags = tags
    self.state = state
    self.occurredAt = occurredAt
  }

  package var json: JSON {
    [
      "type": .optional(type), "tier": .optional(tier), "tags": .array(tags.sorted().map(JSON.string)),
      "state": .string(state), "at": occurredAt.map { .int($0.milliseconds) } ?? .null,
    ]
  }

  package init?(json: JSON?) {
    guard let json, let state = json["state"]?.text else { return nil }
    self.init(
      type: json["type"]?.text, tier: json["tier"]?.text, tags: Set((json["tags"]?.array ?? []).compactMap(\.text)),
      state: state, occurredAt: json["at"]?.int.map { Timestamp(milliseconds: Int64($0)) })
  }
}

/// The meaning of a file as last agreed, apart from its bytes (F7.31). Bodies are kept as hashes: they are only compared.
package struct Showed: Hashable, Sendable {
  /// Own fields; nil for a file that carries none (a `.txt`, a file item's bytes).
  package var own: OwnLines?
  /// Properties but the body.
  package var properties: JSONObject
  /// The body's hash, or a file item's bytes.
  package var body: ContentHash
  /// A file item's permission; nil where none is kept.
  package var executable: Bool?

  package init(own: OwnLines?, properties: JSONObject, body: ContentHash, executable: Bool? = nil) {
    self.own = own
    self.properties = properties
    self.body = body
    self.executable = executable
  }

  package var json: JSON {
    [
      "own": own?.json ?? .null, "properties": .object(properties), "body": .string(body.hex),
      "executable": executable.map(JSON.bool) ?? .null,
    ]
  }

  package init?(json: JSON?) {
    guard let json, let body = json["body"]?.text.flatMap({ ContentHash($0) }) else { return nil }
    self.init(
      own: OwnLines(json: json["own"]), properties: json["properties"]?.object ?? JSONObject(), body: body,
      executable: json["executable"]?.bool)
  }
}
