import MarfaBase

/// An answer that is no success: status, code, words, details (ER1).
struct Refusal: Error {
  var status: Int
  var code: String
  var message: String
  var details: JSON?
  /// Members beside `error`, of the two stale-version answers alone (ER5); `error` then has a `status` too.
  var beside: [(Text, JSON)] = []
  /// Headers of its own, such as `Retry-After`.
  var headers: [HTTPHeader] = []

  init(_ status: Int, _ code: String, _ message: String, _ details: JSON? = nil) {
    self.status = status
    self.code = code
    self.message = message
    self.details = details
  }

  /// The JSON body.
  var body: [UInt8] {
    var error = JSONObject([("code", .string(code))])
    error["message"] = .string(message)
    if !beside.isEmpty { error["status"] = .int(status) }
    if let details { error["details"] = details }
    return JSON.object(JSONObject([("error", .object(error))] + beside)).write()
  }

  /// `400 validation_error` naming a member, parameter or header.
  static func invalid(_ path: String, _ message: String) -> Refusal {
    Refusal(400, "validation_error", message, ["errors": [["path": .string(path), "message": .string(message)]]])
  }

  /// The same for a name from outside.
  static func invalid(_ path: Text, _ message: String) -> Refusal {
    Refusal(400, "validation_error", message, ["errors": [["path": .string(path), "message": .string(message)]]])
  }

  static func missing(_ field: String) -> Refusal {
    Refusal(400, "missing_required_field", "\(field) is required.", ["field": .string(field)])
  }

  static let invalidID = Refusal(400, "invalid_id", "The id is not a lowercase UUIDv7.")

  /// `400 invalid_properties` naming the type's fields.
  static func properties(_ faults: [(field: Text, message: String)]) -> Refusal {
    Refusal(
      400, "invalid_properties", "The properties do not fit the type.",
      ["errors": .array(faults.map { ["field": .string($0.field), "message": .string($0.message)] })])
  }

  static func unknownType(_ type: Text) -> Refusal {
    Refusal(400, "unknown_type", "No type \(type) is registered.", ["type": .string(type)])
  }

  static let itemNotFound = Refusal(404, "item_not_found", "No such item.")
  static let itemInBin = Refusal(404, "item_not_found", "The item is in the bin.", ["trashed": true])
  static let edgeNotFound = Refusal(404, "edge_not_found", "No such edge.")
  static let notFound = Refusal(404, "not_found", "No such path.")
  static let unauthorized = Refusal(401, "unauthorized", "A valid credential is needed.")
  /// A credential whose type map reaches nothing (K3.5).
  static let reachesNoType = Refusal(403, "type_not_permitted", "The credential reaches no type.")
  /// Rows only their own door writes: no grant lifts it (I16, ER7.2).
  static let systemRow = Refusal(403, "type_not_permitted", "A system item is written through its own door.")

  /// `403 type_not_permitted` naming the grant that is missing (K3.7).
  static func type(_ type: Text, _ level: Level) -> Refusal {
    Refusal(
      403, "type_not_permitted", "The credential may not \(level.word) \(type).",
      ["grant": ["kind": "type", "name": .string(type), "level": .string(level.word)]])
  }

  /// `403 edge_permission_denied` (K3.8).
  static func edgeType(_ type: Text, _ level: Level) -> Refusal {
    Refusal(
      403, "edge_permission_denied", "The credential may not \(level.word) \(type) edges.",
      [
        "edge_type": .string(type), "required": .string(level.word),
        "grant": ["kind": "edge_type", "name": .string(type), "level": .string(level.word)],
      ])
  }

  static func scope(_ word: String) -> Refusal {
    Refusal(403, "forbidden", "The credential lacks \(word).", ["required_scope": .string(word)])
  }

  static func source(_ source: Text) -> Refusal {
    Refusal(403, "forbidden", "The credential does not claim that source.", ["source": .string(source)])
  }

  static let internalError = Refusal(500, "internal_error", "Internal server error")

  /// What a failed call of the database becomes.
  static func of(_ error: any Error) -> Refusal {
    if let refusal = error as? Refusal { return refusal }
    if let error = error as? SQLiteError {
      if error.isBusy {
        return Refusal(503, "write_contention", "The database is busy.", ["budget_ms": 5000])
      }
      if error.isFull {
        return Refusal(
          507, "insufficient_storage", "The disk is full.", ["reserve_bytes": 0, "available_bytes": 0])
      }
    }
    return internalError
  }
}
