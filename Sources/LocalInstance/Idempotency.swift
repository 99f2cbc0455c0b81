import MarfaBase

/// A key of one credential under which a request is being worked on.
struct Claim: Hashable {
  var credential: EntityID
  var name: String

  static func == (left: Claim, right: Claim) -> Bool {
    left.credential == right.credential && left.name.utf8.elementsEqual(right.name.utf8)
  }

  func hash(into hasher: inout Hasher) {
    hasher.combine(credential)
    for byte in name.utf8 { hasher.combine(byte) }
  }
}

/// Answers kept under idempotency keys (I24, ER3).
extension Instance {
  /// Claims a key for a request. An answer is kept in the transaction of what it answers, so a claim needs to last no
  /// longer than the request, and dies with the process that worked on it.
  func take(_ claim: Claim) throws -> Claim {
    let now = clock.monotonic
    if let since = claims[claim], now < since + 60_000_000_000 {
      throw Refusal(409, "idempotency_key_in_flight", "A request under that idempotency key is being worked on.")
    }
    claims[claim] = now
    return claim
  }

  private func fingerprint(_ call: Call) -> String {
    var hasher = ContentHasher()
    // The contract's number is part of it: after a move to another, the key is another request's (I24.5).
    for part in [call.method, call.request.target, call.isJSON ? "json" : "other", "contract 0"] {
      hasher.update(Array("\(part.utf8.count):\(part)\n".utf8))
    }
    hasher.update(call.request.body)
    return hasher.finish().hex
  }

  /// What the key's first answer was; nil where the request is to be worked on.
  func keptAnswer(_ name: String, _ call: Call) throws -> Reply? {
    let kept = try database.one(
      "SELECT request, status, code, body, grants FROM answer WHERE credential = ? AND name = ?",
      call.credential.id, name
    ) { row in
      (row.string(0), row.int(1), row.optionalString(2), row.isNull(3) ? nil : row.bytes(3), row.optionalText(4))
    }
    guard let (request, status, code, body, grants) = kept else { return nil }
    guard request == fingerprint(call) else {
      throw Refusal(422, "idempotency_key_reused", "The idempotency key was used for another request.")
    }
    if let grants { try reauthorize(grants, call) }
    guard let body else {
      throw Refusal(
        422, "idempotency_result_not_retained", "The first answer was too large to keep.",
        ["original_status": .int(status)])
    }
    call.extraHeaders.append(HTTPHeader("Idempotency-Replayed", "true"))
    return Reply(status: status, body: body, code: code)
  }

  /// Keeps an answer, but for 401, 403 and 5xx (ER3.6) and the refusal of the key itself.
  func keepAnswer(_ reply: Reply, _ name: String, _ call: Call) throws {
    if reply.status == 401 || reply.status == 403 || reply.status >= 500 { return }
    try database.run(
      "INSERT OR REPLACE INTO answer (credential, name, request, status, code, body, at, grants) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      call.credential.id, name, fingerprint(call), reply.status, reply.code,
      reply.body.count > 1_048_576 ? nil : reply.body, clock.now, call.grantsSpelling)
  }

  /// Holds the credential again to what the first request needed and disclosed (I24.11, I24.12). A key that may do
  /// everything needed nothing worth noting.
  private func reauthorize(_ grants: Text, _ call: Call) throws {
    guard let noted = (try? JSON(parsing: grants.bytes))?.object else { return }
    try call.credential.requireSomeType()
    for type in noted["reads"]?.array?.compactMap(\.text) ?? [] where !call.credential.reads(type) {
      throw Refusal.itemNotFound
    }
    for type in noted["types"]?.array?.compactMap(\.text) ?? [] {
      if !call.credential.reads(type) { throw Refusal.itemNotFound }
      try call.credential.requireWrite(type)
    }
    for type in noted["edges"]?.array?.compactMap(\.text) ?? [] where !call.credential.edges.writes(type) {
      throw Refusal.edgeType(type, .write)
    }
    for source in noted["sources"]?.array?.compactMap(\.text) ?? [] where !call.credential.claims(source) {
      throw Refusal.source(source)
    }
    for word in noted["permissions"]?.array?.compactMap(\.text) ?? [] where !call.credential.may(word) {
      throw Refusal.scope(word.string)
    }
  }
}

/// What a request under a key needed, noted as it was asked.
struct NeededGrants {
  var types: [Text] = []
  var reads: [Text] = []
  var edges: [Text] = []
  var sources: [Text] = []
  var permissions: [Text] = []
}

extension Call {
  var grantsSpelling: Text? {
    func list(_ texts: [Text]) -> JSON { .array(Set(texts).sorted().map(JSON.string)) }
    let needed: JSON = [
      "types": list(needs.types), "reads": list(needs.reads), "edges": list(needs.edges),
      "sources": list(needs.sources), "permissions": list(needs.permissions),
    ]
    return Text(bytes: needed.write())
  }
}
