import MarfaBase

/// What of a sign-in outlives a restart (K12.5): clients, grants, codes and tokens, each one row of `meta`. Of a code or
/// a token the row is named by its SHA-256; the secret itself is kept nowhere (K1.5).
struct SignInStore {
  let database: Database

  struct Client {
    var id: Text
    var name: Text
    var redirects: [Text]
    var grants: [Text]
    var created: Timestamp
    var isUsed = false
  }

  /// An app's consent: all it was ever let do, until that is taken back. What a token may do is its own sign-in's part.
  struct Grant {
    var id: EntityID
    var client: Text
    var scopes: [Text]
    var created: Timestamp
    var lastUsed: Timestamp
  }

  struct Code {
    var grant: EntityID
    var scopes: [Text]
    var client: Text
    var redirect: Text
    var challenge: Text
    var isSpent = false
  }

  struct Device {
    var client: Text
    var scopes: [Text]
    var expires: Timestamp
    var lastPoll: Timestamp?
    var isSpent = false
  }

  /// A client never used goes after 30 days (K8.5).
  static let unusedClient: Int64 = 30 * 86_400_000
  /// A grant not used goes after 365 days (K12.5).
  static let unusedGrant: Int64 = 365 * 86_400_000

  enum Kind: String {
    case client, grant, access, refresh, code, device
  }

  // MARK: rows

  private func name(_ kind: Kind, _ key: String) -> String { "sign-in/\(kind.rawValue)/\(key)" }

  private func read(_ kind: Kind, _ key: String) throws -> JSON? {
    let text = try database.one("SELECT value FROM meta WHERE name = ?", name(kind, key)) { $0.bytes(0) }
    return try text.map { try JSON(parsing: $0) }
  }

  private func write(_ kind: Kind, _ key: String, _ value: JSON) throws {
    try database.run(
      "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2", name(kind, key),
      Text(bytes: value.write()))
  }

  private func drop(_ kind: Kind, _ key: String) throws {
    try database.run("DELETE FROM meta WHERE name = ?", name(kind, key))
  }

  private func all(_ kind: Kind) throws -> [JSON] {
    let prefix = name(kind, "")
    let texts = try database.all(
      "SELECT value FROM meta WHERE name >= ? AND name < ? ORDER BY name", prefix, prefix + "\u{7F}"
    ) { $0.bytes(0) }
    return try texts.map { try JSON(parsing: $0) }
  }

  private func digest(_ secret: Text) -> String { ContentHash(of: secret.bytes).hex }

  private static func texts(_ value: JSON?) -> [Text] { value?.array?.compactMap(\.text) ?? [] }
  private static func time(_ value: JSON?) -> Timestamp {
    Timestamp(milliseconds: Int64(value?.int ?? 0))
  }
  private static func id(_ value: JSON?) -> EntityID? { value?.text.flatMap { EntityID($0) } }
  private static func json(_ time: Timestamp) -> JSON { .int(time.milliseconds) }
  private static func json(_ texts: [Text]) -> JSON { .array(texts.map(JSON.string)) }

  // MARK: clients and grants

  func client(_ id: Text, at now: Timestamp) throws -> Client? {
    guard let row = try read(.client, digest(id)) else { return nil }
    let client = Client(
      id: id, name: row["name"]?.text ?? "App", redirects: Self.texts(row["redirects"]),
      grants: Self.texts(row["grants"]), created: Self.time(row["created"]), isUsed: row["used"]?.bool ?? false)
    let isForgotten = !client.isUsed && now.milliseconds - client.created.milliseconds > Self.unusedClient
    return isForgotten ? nil : client
  }

  func keep(_ client: Client) throws {
    try write(
      .client, digest(client.id),
      [
        "name": .string(client.name), "redirects": Self.json(client.redirects), "grants": Self.json(client.grants),
        "created": Self.json(client.created), "used": .bool(client.isUsed),
      ])
  }

  private func grant(_ row: JSON) -> Grant? {
    guard let id = Self.id(row["id"]), let client = row["client"]?.text else { return nil }
    return Grant(
      id: id, client: client, scopes: Self.texts(row["scopes"]), created: Self.time(row["created"]),
      lastUsed: Self.time(row["used"]))
  }

  func grant(_ id: EntityID, at now: Timestamp) throws -> Grant? {
    guard let row = try read(.grant, id.description), let grant = grant(row) else { return nil }
    return now.milliseconds - grant.lastUsed.milliseconds > Self.unusedGrant ? nil : grant
  }

  func grants(at now: Timestamp) throws -> [Grant] {
    try all(.grant).compactMap(grant).filter { now.milliseconds - $0.lastUsed.milliseconds <= Self.unusedGrant }
  }

  func keep(_ grant: Grant) throws {
    try write(
      .grant, grant.id.description,
      [
        "id": .string(grant.id.text), "client": .string(grant.client), "scopes": Self.json(grant.scopes),
        "created": Self.json(grant.created), "used": Self.json(grant.lastUsed),
      ])
  }

  /// Ends a grant; its tokens are dead with it.
  func end(grant id: EntityID) throws { try drop(.grant, id.description) }

  func endGrants() throws {
    try database.run("DELETE FROM meta WHERE name >= 'sign-in/grant/' AND name < 'sign-in/grant0'")
  }

  // MARK: tokens

  /// Scopes are nil of a token that was given out when all tokens of a grant could do what it lets.
  func access(_ token: Text) throws -> (grant: EntityID, scopes: [Text]?, expires: Timestamp)? {
    guard let row = try read(.access, digest(token)), let grant = Self.id(row["grant"]) else { return nil }
    return (grant, row["scopes"].map { Self.texts($0) }, Self.time(row["expires"]))
  }

  func keep(access token: Text, grant: EntityID, scopes: [Text], expires: Timestamp) throws {
    try write(
      .access, digest(token),
      ["grant": .string(grant.text), "scopes": Self.json(scopes), "expires": Self.json(expires)])
  }

  func end(access token: Text) throws { try drop(.access, digest(token)) }

  /// Refresh tokens, the spent ones too: one used again ends its whole chain (K12.2).
  func refresh(_ token: Text) throws -> (grant: EntityID, scopes: [Text]?, isSpent: Bool)? {
    guard let row = try read(.refresh, digest(token)), let grant = Self.id(row["grant"]) else { return nil }
    return (grant, row["scopes"].map { Self.texts($0) }, row["spent"]?.bool ?? false)
  }

  func keep(refresh token: Text, grant: EntityID, scopes: [Text], isSpent: Bool) throws {
    try write(
      .refresh, digest(token), ["grant": .string(grant.text), "scopes": Self.json(scopes), "spent": .bool(isSpent)])
  }

  // MARK: codes

  func code(_ name: Text) throws -> Code? {
    guard let row = try read(.code, digest(name)), let grant = Self.id(row["grant"]) else { return nil }
    return Code(
      grant: grant, scopes: Self.texts(row["scopes"]), client: row["client"]?.text ?? "",
      redirect: row["redirect"]?.text ?? "",
      challenge: row["challenge"]?.text ?? "", isSpent: row["spent"]?.bool ?? true)
  }

  func keep(_ code: Code, _ name: Text) throws {
    try write(
      .code, digest(name),
      [
        "grant": .string(code.grant.text), "scopes": Self.json(code.scopes), "client": .string(code.client),
        "redirect": .string(code.redirect),
        "challenge": .string(code.challenge), "spent": .bool(code.isSpent),
      ])
  }

  func device(_ name: Text) throws -> Device? {
    guard let row = try read(.device, digest(name)) else { return nil }
    return Device(
      client: row["client"]?.text ?? "", scopes: Self.texts(row["scopes"]), expires: Self.time(row["expires"]),
      lastPoll: row["polled"].map { Self.time($0) }, isSpent: row["spent"]?.bool ?? true)
  }

  func keep(_ device: Device, _ name: Text) throws {
    var row = JSONObject()
    row["client"] = .string(device.client)
    row["scopes"] = Self.json(device.scopes)
    row["expires"] = Self.json(device.expires)
    row["spent"] = .bool(device.isSpent)
    if let poll = device.lastPoll { row["polled"] = Self.json(poll) }
    try write(.device, digest(name), .object(row))
  }
}
