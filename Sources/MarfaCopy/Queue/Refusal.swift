import MarfaBase

/// A field a server refused, and its words.
package struct FieldRefusal: Hashable, Sendable {
  /// The property.
  package var field: Text
  /// The server's sentence; empty where it gave none.
  package var message: Text
}

/// The grant whose lack refused a request (ER7).
package struct MissingGrant: Hashable, Sendable {
  /// `type`, `edge_type` or `extension`.
  package var kind: Text
  /// The type, edge type or namespace.
  package var name: Text
  /// `read` or `write`.
  package var level: Text

  /// A grant as `details.grant` spells it; nil where a part is missing or names something else (ER7.3, Q51.2).
  init?(_ json: JSON?) {
    guard let kind = json?["kind"]?.text, let name = json?["name"]?.text, let level = json?["level"]?.text,
      kind == "type" || kind == "edge_type" || kind == "extension", level == "read" || level == "write"
    else { return nil }
    (self.kind, self.name, self.level) = (kind, name, level)
  }
}

/// A server's refusal in its parts (Q48). A part missing or in another shape reads as absent; nothing is guessed.
package struct Refusal: Hashable, Sendable {
  /// The code, or the drain's own sentence.
  package var reason: Text
  /// The server's code.
  package var code: Text?
  /// The server's sentence.
  package var message: Text?
  /// The fields it named.
  package var fields: [FieldRefusal] = []
  /// Whether the row is in the bin (Q48.2).
  package var trashed = false
  /// The grant that was missing.
  package var grant: MissingGrant?
  /// `error.details` whole (Q48.7).
  package var details: JSON?

  /// A refusal made by the drain: its reason and nothing else (Q48.5).
  init(reason: Text) { self.reason = reason }

  /// The parts of an error answer.
  init(reason: Text, answer: JSON?) {
    self.reason = reason
    guard let error = answer?["error"] else { return }
    code = error["code"]?.text
    message = error["message"]?.text
    details = error["details"]
    for entry in details?["errors"]?.array ?? [] {
      if let field = entry["field"]?.text {
        fields.append(FieldRefusal(field: field, message: entry["message"]?.text ?? ""))
      }
    }
    trashed = details?["trashed"]?.bool == true
    grant = MissingGrant(details?["grant"])
  }

  /// The members of C26.2.
  package var json: JSON {
    [
      "reason": .string(reason), "code": .optional(code), "message": .optional(message),
      "fields": .array(fields.map { ["field": .string($0.field), "message": .string($0.message)] }),
      "trashed": .bool(trashed),
      "grant": grant.map { ["kind": .string($0.kind), "name": .string($0.name), "level": .string($0.level)] } ?? .null,
    ]
  }
}
