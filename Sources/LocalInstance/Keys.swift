import MarfaBase

/// Keys: who may do what (K1 to K6).
extension Instance {
  /// The token of `Authorization: Bearer`.
  func bearer(_ call: Call) -> String? {
    guard let header = call.header("authorization")?.utf8, header.count > 7,
      zip(header, "bearer ".utf8).allSatisfy({ ($0 >= 0x41 && $0 <= 0x5A ? $0 | 0x20 : $0) == $1 })
    else { return nil }
    return String(header.dropFirst(7))
  }

  func authenticate(_ call: Call) throws -> Credential {
    guard let token = bearer(call), let credential = credential(token: token) else { throw Refusal.unauthorized }
    lastUsed[credential.id] = clock.now
    return credential
  }

  /// The credential of a token as it stands now; nil where there is none, it was revoked, or it expired.
  func credential(token: String) -> Credential? {
    if token.hasPrefix("marfa_at_") { return appCredential(token) }
    if let known = credentials[token] {
      if let expires = known.expires, expires <= clock.now { return nil }
      return known
    }
    let hash = ContentHash(of: Array(token.utf8)).hex
    let found = try? database.one(
      "SELECT id, source, spec, created, expires, last_used FROM credential WHERE token = ?", hash
    ) { row in
      Instance.credential(
        id: row.id(0), source: row.text(1), spec: row.bytes(2), created: row.time(3), expires: row.time(4),
        lastUsed: row.time(5))
    }
    guard let found, let credential = found else { return nil }
    if let expires = credential.expires, expires <= clock.now { return nil }
    credentials[token] = credential
    return credential
  }

  static func credential(
    id: EntityID?, source: Text, spec: [UInt8], created: Timestamp?, expires: Timestamp?, lastUsed: Timestamp?
  ) -> Credential? {
    guard let id, let spec = (try? JSON(parsing: spec))?.object else { return nil }
    func map(_ name: Text) -> GrantMap { GrantMap(spec[name]?.object ?? JSONObject()) }
    func list(_ name: Text) -> [Text] { spec[name]?.array?.compactMap(\.text) ?? [] }
    return Credential(
      kind: .key, id: id, label: spec["label"]?.text ?? "", source: source, sources: list("sources"),
      permissions: list("permissions"), defaultTier: spec["default_tier"]?.text ?? "library",
      types: map("type_permissions"), edges: map("edge_permissions"), extensions: map("extension_permissions"),
      metadata: map("metadata_permissions"), profile: map("profile_permissions"),
      created: created ?? Timestamp(milliseconds: 0), expires: expires, lastUsed: lastUsed,
      levers: Levers(spec["enforcement_override"]?.object))
  }

  /// Makes or renews the key of the machine's owner, which may do everything (K5.9).
  func ensureOwnerKey(_ token: String) throws {
    let hash = ContentHash(of: Array(token.utf8)).hex
    let spec: JSON = [
      "label": "Owner", "sources": [], "permissions": .array(KeySpec.permissionWords.map(JSON.string)),
      "default_tier": "library", "type_permissions": ["*": "write"], "edge_permissions": ["*": "write"],
      "extension_permissions": ["*": "write"], "metadata_permissions": ["*": "write"],
      "profile_permissions": ["*": "write"],
    ]
    try database.transaction {
      let held = try database.one("SELECT value FROM meta WHERE name = 'owner'") { $0.text(0) }
      if let held {
        try database.run("UPDATE credential SET token = ? WHERE id = ?", hash, held)
      } else {
        let id = ids.next()
        try database.run("INSERT INTO meta VALUES ('owner', ?)", id)
        try database.run(
          "INSERT INTO credential (id, token, source, spec, created) VALUES (?, ?, 'local', ?, ?)", id, hash,
          Text(bytes: spec.write()), clock.now)
      }
    }
    credentials = [:]
  }

  /// Mints a key directly, as the owner of the machine may (K5.9). Returns its id and its plaintext, told this once.
  public func mintKey(_ spec: KeySpec) throws -> (id: EntityID, key: String) {
    try database.transaction { try insertKey(spec) }
  }

  func insertKey(_ spec: KeySpec) throws -> (id: EntityID, key: String) {
    let id = ids.next()
    let token = "marfa_k1_" + ContentHash(of: try secret().bytes + Array("key \(id)".utf8)).hex
    let held = try database.one("SELECT id FROM credential WHERE source = ?", spec.source) { $0.text(0) }
    if held != nil {
      throw Refusal(409, "conflict", "Another key has that source.", ["source": .string(spec.source)])
    }
    try database.run(
      "INSERT INTO credential (id, token, source, spec, created, expires) VALUES (?, ?, ?, ?, ?, ?)", id,
      ContentHash(of: Array(token.utf8)).hex, spec.source, Text(bytes: spec.json.write()), clock.now, spec.expires)
    return (id, token)
  }

  /// Takes a key back; its next use is `401` and its streams end (K5.6).
  public func revokeKey(_ id: EntityID) throws {
    try database.run("DELETE FROM credential WHERE id = ?", id)
    credentials = [:]
    for stream in streams { stream.beatCredential() }
    onEvents?()
  }

  /// Changes what a key may do.
  public func changeKey(_ id: EntityID, _ spec: KeySpec) throws {
    try database.run("UPDATE credential SET spec = ? WHERE id = ?", Text(bytes: spec.json.write()), id)
    credentials = [:]
    onEvents?()
  }

  func persistUse() {
    let used = lastUsed
    guard !used.isEmpty else { return }
    do {
      try database.transaction {
        for (id, time) in used { try database.run("UPDATE credential SET last_used = ? WHERE id = ?", time, id) }
      }
      lastUsed = [:]
    } catch {
      // It is told from memory, and kept another time.
    }
  }

  /// `GET /keys/current` (K2).
  func readCurrentKey(_ call: Call) throws -> Reply {
    let key = call.credential
    guard key.kind == .key else { throw Refusal(403, "forbidden", "An app reads its reach in its token's scope.") }
    try call.query.declare([])
    return .json(200, describe(key))
  }

  func describe(_ key: Credential) -> JSON {
    let used = lastUsed[key.id] ?? key.lastUsed
    let members: JSON = [
      "id": .string(key.id.text), "label": .string(key.label), "source": .string(key.source),
      "sources": .array(key.sources.map(JSON.string)), "permissions": .array(key.permissions.map(JSON.string)),
      "default_tier": .string(key.defaultTier), "type_permissions": .object(key.types.json),
      "edge_permissions": .object(key.edges.json), "extension_permissions": .object(key.extensions.json),
      "metadata_permissions": .object(key.metadata.json), "profile_permissions": .object(key.profile.json),
      "created_at": .string(key.created.text), "expires_at": .optional(key.expires?.text),
      "last_used_at": .optional(used?.text),
    ]
    guard key.kind == .key, var object = members.object else { return members }
    if let levers = key.levers.json { object["enforcement_override"] = .object(levers) }
    if let client = mintingClient(of: key.id) { object["oauth_client_id"] = .string(client) }
    return .object(object)
  }

  // MARK: rate limit (K6)

  func limitRate(_ call: Call) -> Refusal? {
    guard let limit = settings.requestsPerMinute else { return nil }
    let now = clock.now.milliseconds
    var window = rates[call.credential.id] ?? RateWindow(start: now)
    if now - window.start >= 60_000 { window = RateWindow(start: now) }
    window.count += 1
    rates[call.credential.id] = window
    let reset = (window.start + 60_000 + 999) / 1000
    call.extraHeaders += [
      HTTPHeader("X-RateLimit-Limit", "\(limit)"),
      HTTPHeader("X-RateLimit-Remaining", "\(max(0, limit - window.count))"),
      HTTPHeader("X-RateLimit-Reset", "\(reset)"),
    ]
    guard window.count > limit else { return nil }
    var refusal = Refusal(429, "rate_limited", "Too many requests.")
    refusal.headers = [HTTPHeader("Retry-After", "\(max(1, (window.start + 60_000 - now + 999) / 1000))")]
    return refusal
  }
}

/// A minute of one credential's requests.
struct RateWindow {
  var start: Int64
  var count = 0
}

/// What a key may do.
public struct KeySpec: Sendable {
  /// The twelve permission words (K3.11).
  public static let permissionWords: [Text] = [
    "audit.read", "blobs.manage", "config.manage", "connectors.manage", "grants.manage", "instance.maintain",
    "instance.read", "items.purge", "keys.manage", "keys.mint", "schema.write", "webhooks.manage",
  ]

  /// The name people see.
  public var label: Text
  /// Its own source, unique on the instance.
  public var source: Text
  /// Sources it claims beside its own.
  public var sources: [Text] = []
  /// Permission words.
  public var permissions: [Text] = []
  /// The tier of a new item that names none.
  public var defaultTier: Text = "library"
  /// From pattern to level, for each family.
  public var types: JSONObject = JSONObject()
  /// Edge types.
  public var edges: JSONObject = JSONObject()
  /// Extension namespaces.
  public var extensions: JSONObject = JSONObject()
  /// Metadata families: `tags`, `types`, `edge_types`.
  public var metadata: JSONObject = JSONObject()
  /// Profile fields.
  public var profile: JSONObject = JSONObject()
  /// Levers that hold for it beside the instance's (T16); nil none.
  public var enforcement: JSONObject?
  /// When it ends; nil never.
  public var expires: Timestamp?

  /// A key that may do nothing yet.
  public init(label: Text, source: Text) {
    self.label = label
    self.source = source
  }

  /// A key that reads and writes all items, edges, extensions and metadata.
  public static func full(label: Text, source: Text) -> KeySpec {
    var spec = KeySpec(label: label, source: source)
    spec.permissions = permissionWords
    let all = JSONObject([("*", "write")])
    (spec.types, spec.edges, spec.extensions, spec.metadata, spec.profile) = (all, all, all, all, all)
    return spec
  }

  var json: JSON {
    var object = JSONObject([
      ("label", .string(label)), ("sources", .array(sources.map(JSON.string))),
      ("permissions", .array(permissions.map(JSON.string))), ("default_tier", .string(defaultTier)),
      ("type_permissions", .object(types)), ("edge_permissions", .object(edges)),
      ("extension_permissions", .object(extensions)), ("metadata_permissions", .object(metadata)),
      ("profile_permissions", .object(profile)),
    ])
    if let enforcement { object["enforcement_override"] = .object(enforcement) }
    return .object(object)
  }
}

extension EventStream {
  /// After a change of keys: ends the stream where its credential is gone (EV15.2).
  func beatCredential() {
    if !hasCredential { end("credential_ended") }
  }
}
