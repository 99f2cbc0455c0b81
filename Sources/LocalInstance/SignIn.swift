import MarfaBase

/// What the owner decides about a sign-in, in place of the pages a person would click on.
public struct SignInPolicy: Sendable {
  /// What the owner says.
  public enum Decision: Sendable {
    /// Grants these of the scopes asked; nil is all.
    case approve(only: [Text]?)
    /// Not yet: a device polls on.
    case wait
    /// Declines.
    case decline
    /// Decides on the instance's own page, with the code `tell` tells.
    case page
  }

  /// The decision on the next sign-in.
  public var decision: Decision = .approve(only: nil)

  /// Tells the owner the one-time code of a page just opened, on the instance's thread.
  public var tell: (@Sendable (AskedSignIn) -> Void)?

  /// Approves everything.
  public init() {}

  /// Leaves each decision to the instance's own page.
  public init(telling tell: @escaping @Sendable (AskedSignIn) -> Void) {
    decision = .page
    self.tell = tell
  }
}

/// Apps, their grants and tokens (K7 to K14). Who approves is steered by `SignInPolicy`, since a small instance has no
/// pages of an owner (K18.2, K18.3).
extension Instance {
  var signIn: SignInStore { SignInStore(database: database) }

  /// Ends every grant as the owner may (K13.3): its tokens are `401` at once.
  public func revokeGrants() {
    try? signIn.endGrants()
    endCredentials()
  }

  /// After a grant or a token ended: its streams end too (EV15.2).
  private func endCredentials() {
    for stream in streams { stream.beatCredential() }
    onEvents?()
  }

  /// The credential of an access token (K1.1); nil where it ended.
  func appCredential(_ token: String) -> Credential? {
    guard let held = try? signIn.access(Text(token)), held.expires > clock.now,
      let grant = try? signIn.grant(held.grant, at: clock.now)
    else { return nil }
    var families: [String: JSONObject] = ["types": JSONObject(), "edges": JSONObject(), "metadata": JSONObject()]
    var permissions: [Text] = []
    for scope in held.scopes ?? grant.scopes {
      let bytes = scope.bytes
      guard let colon = bytes.lastIndex(of: UInt8(ascii: ":")), let level = Level(Text(bytes: bytes[(colon + 1)...]))
      else {
        permissions.append(scope)
        continue
      }
      let name = Text(bytes: bytes[..<colon])
      let word = JSON.string(level.word)
      if name == "*" || name == "content" {
        families["types"]?["*"] = word
        if name == "*" { for family in ["edges", "metadata"] { families[family]?["*"] = word } }
      } else if name == "metadata" {
        families["metadata"]?["*"] = word
      } else if name.bytes.starts(with: "metadata.".utf8) {
        families["metadata"]?[Text(bytes: name.bytes.dropFirst(9))] = word
      } else if name.bytes.starts(with: "edge.".utf8) {
        families["edges"]?[Text(bytes: name.bytes.dropFirst(5))] = word
      } else {
        families["types"]?[name] = word
      }
    }
    func map(_ family: String) -> GrantMap { GrantMap(families[family] ?? JSONObject()) }
    return Credential(
      kind: .app, id: grant.id, label: (try? signIn.client(grant.client, at: clock.now))?.name ?? "App",
      source: Text("oauth:\(grant.client)"), sources: [], permissions: permissions, defaultTier: "library",
      types: map("types"), edges: map("edges"), extensions: map("none"), metadata: map("metadata"),
      profile: map("none"), created: clock.now, expires: held.expires, lastUsed: nil)
  }

  func routeSignIn(_ call: Call) -> Door? {
    func open(_ run: @escaping (Instance, Call) throws -> Reply) -> Door { Door(run: run, isPublic: true) }
    func write(_ run: @escaping (Instance, Call) throws -> Reply) -> Door {
      Door(run: run, isPublic: true, isWrite: true)
    }
    let path = call.target.segments.map(\.string).joined(separator: "/")
    switch "\(call.method) \(path)" {
    case "GET auth/.well-known/oauth-authorization-server", "GET .well-known/oauth-authorization-server/auth",
      "GET auth/.well-known/openid-configuration", "GET .well-known/openid-configuration/auth":
      return open { instance, call in .json(200, instance.discovery(call)) }
    case "GET .well-known/oauth-protected-resource":
      return open { instance, call in
        let origin = instance.origin(call)
        return .json(200, ["resource": .string(origin), "authorization_servers": [.string(origin + "/auth")]])
      }
    case "POST auth/oauth2/register": return write { try $0.registerClient($1) }
    case "GET auth/oauth2/authorize", "POST auth/oauth2/authorize": return write { try $0.authorize($1) }
    case "GET auth/device": return open { $0.devicePage($1) }
    case "POST auth/device": return write { $0.decideDevice($1) }
    case "GET auth/oauth2/userinfo": return open { try $0.userInfo($1) }
    case "POST auth/oauth2/token": return write { try $0.token($1) }
    case "POST auth/oauth2/revoke": return write { try $0.revokeToken($1) }
    case "POST auth/device/code": return write { try $0.deviceCode($1) }
    case "GET auth/grants": return Door(run: { try $0.listGrants($1) })
    default: break
    }
    if call.method == "DELETE", names(call, "auth", "grants") {
      call.parts = Array(call.target.segments.suffix(1))
      return Door(run: { try $0.deleteGrant($1) }, isWrite: true)
    }
    return nil
  }

  private func names(_ call: Call, _ first: String, _ second: String) -> Bool {
    let segments = call.target.segments
    return segments.count == 3 && segments[0] == Text(first) && segments[1] == Text(second)
  }

  private func origin(_ call: Call) -> String { call.header("host").map { "http://\($0)" } ?? settings.origin }

  private func discovery(_ call: Call) -> JSON {
    let auth = origin(call) + "/auth"
    func at(_ path: String) -> JSON { .string(auth + path) }
    return [
      "issuer": .string(auth), "authorization_endpoint": at("/oauth2/authorize"), "token_endpoint": at("/oauth2/token"),
      "registration_endpoint": at("/oauth2/register"), "revocation_endpoint": at("/oauth2/revoke"),
      "introspection_endpoint": at("/oauth2/introspect"), "userinfo_endpoint": at("/oauth2/userinfo"),
      "end_session_endpoint": at("/oauth2/end-session"), "device_authorization_endpoint": at("/device/code"),
      "jwks_uri": at("/jwks"), "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
      "grant_types_supported": ["authorization_code", "refresh_token", .string(Instance.deviceGrant.string)],
      "scopes_supported": .array(scopes.map(JSON.string)),
    ]
  }

  private static let deviceGrant: Text = "urn:ietf:params:oauth:grant-type:device_code"

  /// The scopes published (K15.1).
  private var scopes: [Text] {
    var all: [Text] = [
      "openid", "profile", "email", "offline_access", "*:read", "*:write", "content:read", "content:write",
      "edge.*:read", "edge.*:write", "metadata:read", "metadata:write", "metadata.types:write",
      "metadata.edge_types:write",
    ]
    for type in catalog.typeOrder { all += [Text("\(type):read"), Text("\(type):write")] }
    for type in catalog.edgeTypeOrder { all += [Text("edge.\(type):read"), Text("edge.\(type):write")] }
    return all + KeySpec.permissionWords
  }

  private func isScope(_ scope: Text) -> Bool {
    if scopes.contains(scope) { return true }
    // A prefix pattern, or a type registered later.
    let parts = scope.bytes.split(separator: UInt8(ascii: ":"))
    return parts.count == 2 && Level(Text(bytes: parts[1])) != nil && parts[0].contains(UInt8(ascii: "."))
  }

  /// OAuth's own shape of a refusal (K7.5).
  private func oauth(_ status: Int, _ error: String, _ words: String = "") -> Reply {
    .json(status, ["error": .string(error), "error_description": .string(words.isEmpty ? error : words)])
  }

  private func words(_ text: Text?) -> [Text] {
    (text?.bytes ?? []).split(separator: 0x20).map { Text(bytes: $0) }
  }

  private func random(_ prefix: String) -> Text {
    let seed = (try? secret())?.bytes ?? []
    return Text(prefix + base64URL(ContentHash(of: seed + Array("\(prefix) \(ids.next())".utf8)).bytes))
  }

  private func registerClient(_ call: Call) throws -> Reply {
    if let token = bearer(call), credential(token: token) == nil { return oauth(401, "invalid_token") }
    try call.query.declare([])
    guard call.isJSON else {
      return .json(415, ["message": "The body is not JSON.", "code": "UNSUPPORTED_MEDIA_TYPE"])
    }
    guard let body = (try? JSON(parsing: call.request.body))?.object else {
      return oauth(400, "invalid_client_metadata")
    }
    let isNative = body["application_type"]?.text == "native"
    let redirects = body["redirect_uris"]?.array?.compactMap(\.text) ?? []
    for redirect in redirects {
      let isPlain = redirect.bytes.starts(with: "http://".utf8)
      let isLoopback = ["http://127.0.0.1", "http://[::1]", "http://localhost"].contains { host in
        let rest = redirect.bytes.dropFirst(host.utf8.count)
        return redirect.bytes.starts(with: host.utf8) && rest.first.map { ":/?".utf8.contains($0) } ?? true
      }
      if isPlain, !isLoopback || !isNative { return oauth(400, "invalid_redirect_uri") }
    }
    let grants = body["grant_types"]?.array?.compactMap(\.text) ?? ["authorization_code"]
    guard isWellFormed(body), !grants.contains("authorization_code") || !redirects.isEmpty else {
      return oauth(400, "invalid_client_metadata")
    }
    let id = random("c_")
    try signIn.keep(
      SignInStore.Client(
        id: id, name: body["client_name"]?.text ?? "App", redirects: redirects, grants: grants, created: clock.now))
    var answer = body
    answer["client_id"] = .string(id)
    return .json(201, .object(answer))
  }

  /// Whether a registration's members are ones an app can have here: the three grants, `code`, no secret, each scope once
  /// (K8.3, K8.4).
  private func isWellFormed(_ body: JSONObject) -> Bool {
    func isList(_ name: Text, of known: [Text]?) -> Bool {
      guard let value = body[name] else { return true }
      guard let values = value.array else { return false }
      return values.allSatisfy { entry in entry.text.map { known?.contains($0) ?? true } ?? false }
    }
    if let method = body["token_endpoint_auth_method"], method.text != "none" { return false }
    if let scope = body["scope"] {
      guard let text = scope.text else { return false }
      let named = words(text)
      if Set(named).count != named.count { return false }
    }
    return isList("grant_types", of: ["authorization_code", "refresh_token", Instance.deviceGrant])
      && isList("response_types", of: ["code"]) && isList("redirect_uris", of: nil)
  }

  private func redirect(_ uri: Text, _ members: [(String, Text?)]) -> Reply {
    var location = uri.string
    for (name, value) in members {
      guard let value else { continue }
      location += (location.contains("?") ? "&" : "?") + name + "=" + base64Escaped(value)
    }
    return Reply(status: 302, body: [], headers: [HTTPHeader("Location", location)], isBare: true)
  }

  private func base64Escaped(_ text: Text) -> String {
    text.bytes.map { byte in
      isAlphanumeric(byte) || "-._~".utf8.contains(byte)
        ? String(decoding: [byte], as: UTF8.self)
        : "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
    }.joined()
  }

  /// The owner's decision over the scopes asked; nil where nothing is decided yet or it is declined.
  private func granted(_ asked: [Text]) -> [Text]? {
    if case .page = signInPolicy.decision { return asked.filter(isScope) }
    guard case .approve(let only) = signInPolicy.decision else { return nil }
    return asked.filter { isScope($0) && only?.contains($0) ?? true }
  }

  private func authorize(_ call: Call) throws -> Reply {
    let query = call.query
    guard let client = query["client_id"], let known = try signIn.client(client, at: clock.now),
      let uri = query["redirect_uri"],
      known.redirects.contains(uri)
    else { return redirect("/auth/error", []) }
    let state = query["state"]
    func refuse(_ error: Text) -> Reply { redirect(uri, [("error", error), ("state", state)]) }
    guard query["response_type"] == "code", query["code_challenge_method"] == "S256",
      let challenge = query["code_challenge"], !challenge.isEmpty
    else { return refuse("invalid_request") }
    guard let scopes = granted(words(query["scope"])) else { return refuse("access_denied") }
    if scopes.isEmpty { return refuse("invalid_scope") }
    if case .page = signInPolicy.decision {
      // K10.4: nothing is shown, so nobody can be asked.
      if query["prompt"] == "none" { return refuse("login_required") }
      switch consent(call, client: known.name, scopes: scopes) {
      case .page(let reply): return reply
      case .decided(false): return refuse("access_denied")
      case .decided(true): break
      }
    }
    let grant = try approve(known, scopes)
    let code = random("code_")
    try signIn.keep(
      SignInStore.Code(grant: grant.id, scopes: scopes, client: client, redirect: uri, challenge: challenge), code)
    return redirect(uri, [("code", code), ("state", state), ("iss", Text(origin(call) + "/auth"))])
  }

  /// The grant of an approval: a client that signs in again goes on with the grant it has (K16.10), which then lets what
  /// either approval let.
  private func approve(_ client: SignInStore.Client, _ scopes: [Text]) throws -> SignInStore.Grant {
    var used = client
    used.isUsed = true
    try signIn.keep(used)
    let now = clock.now
    if var standing = try signIn.grants(at: now).first(where: { $0.client == client.id }) {
      standing.scopes += scopes.filter { !standing.scopes.contains($0) }
      try signIn.keep(standing)
      return standing
    }
    let grant = SignInStore.Grant(id: ids.next(), client: client.id, scopes: scopes, created: now, lastUsed: now)
    try signIn.keep(grant)
    return grant
  }

  private func deviceCode(_ call: Call) throws -> Reply {
    let form = Query(raw: call.request.body)
    guard let client = form["client_id"], let known = try signIn.client(client, at: clock.now) else {
      return oauth(400, "invalid_client")
    }
    guard known.grants.contains(Instance.deviceGrant) else { return oauth(400, "unauthorized_client") }
    let asked = words(form["scope"])
    if asked.contains(where: { !isScope($0) }) { return oauth(400, "invalid_scope") }
    let code = random("device_")
    try signIn.keep(
      SignInStore.Device(
        client: client, scopes: asked, expires: Timestamp(milliseconds: clock.now.milliseconds + 600_000)), code)
    let letters = code.string.uppercased().unicodeScalars.filter { ("A"..."Z").contains($0) }.suffix(8).map(String.init)
    let user = letters.prefix(4).joined() + "-" + letters.dropFirst(4).joined()
    let page = origin(call) + "/auth/device"
    if case .page = signInPolicy.decision {
      awaitDecision(Text(user), client: known.name, scopes: asked, device: code)
    }
    return .json(
      200,
      [
        "device_code": .string(code), "user_code": .string(user), "verification_uri": .string(page),
        "verification_uri_complete": .string("\(page)?user_code=\(user)"), "expires_in": 600, "interval": 5,
      ])
  }

  private func token(_ call: Call) throws -> Reply {
    let form = Query(raw: call.request.body)
    guard let client = form["client_id"] else { return oauth(400, "invalid_request") }
    guard let known = try signIn.client(client, at: clock.now) else { return oauth(400, "invalid_client") }
    if let resource = form["resource"], resource != Text(origin(call)) { return oauth(400, "invalid_target") }
    switch form["grant_type"]?.string {
    case "authorization_code":
      guard let verifier = form["code_verifier"] else { return oauth(400, "invalid_request") }
      guard let name = form["code"], var code = try signIn.code(name), !code.isSpent, code.client == client,
        code.redirect == form["redirect_uri"], try signIn.grant(code.grant, at: clock.now) != nil,
        Text(base64URL(ContentHash(of: verifier.bytes).bytes)) == code.challenge
      else { return oauth(400, "invalid_grant") }
      code.isSpent = true
      try signIn.keep(code, name)
      return try tokens(code.grant, code.scopes)
    case "refresh_token":
      guard let name = form["refresh_token"], let held = try signIn.refresh(name) else {
        return oauth(400, "invalid_grant")
      }
      guard !held.isSpent, let grant = try signIn.grant(held.grant, at: clock.now), grant.client == client else {
        try signIn.end(grant: held.grant)
        endCredentials()
        return oauth(400, "invalid_grant")
      }
      let scopes = held.scopes ?? grant.scopes
      try signIn.keep(refresh: name, grant: held.grant, scopes: scopes, isSpent: true)
      return try tokens(held.grant, scopes)
    case Instance.deviceGrant.string: return try pollDevice(form, known)
    default: return oauth(400, "unsupported_grant_type")
    }
  }

  private func pollDevice(_ form: Query, _ client: SignInStore.Client) throws -> Reply {
    guard let name = form["device_code"], var device = try signIn.device(name), !device.isSpent,
      device.client == client.id
    else { return oauth(400, "invalid_grant") }
    let now = clock.now
    if device.expires <= now { return oauth(400, "expired_token") }
    let last = device.lastPoll
    device.lastPoll = now
    if let last, now.milliseconds - last.milliseconds < 4500 {
      try signIn.keep(device, name)
      return oauth(400, "slow_down")
    }
    var decision = signInPolicy.decision
    if case .page = decision {
      switch self.decision(onDevice: name) {
      case nil: decision = .wait
      case true?: decision = .approve(only: nil)
      case false?: decision = .decline
      }
    }
    switch decision {
    case .wait, .page:
      try signIn.keep(device, name)
      return oauth(400, "authorization_pending")
    case .decline:
      device.isSpent = true
      try signIn.keep(device, name)
      return oauth(400, "access_denied")
    case .approve:
      device.isSpent = true
      try signIn.keep(device, name)
      let scopes = granted(device.scopes) ?? []
      return try tokens(try approve(client, scopes).id, scopes)
    }
  }

  /// A fresh access token, and a refresh token where `offline_access` was granted (K11.1).
  private func tokens(_ id: EntityID, _ scopes: [Text]) throws -> Reply {
    guard var grant = try signIn.grant(id, at: clock.now) else { return oauth(400, "invalid_grant") }
    grant.lastUsed = clock.now
    try signIn.keep(grant)
    let access = random("marfa_at_")
    let expires = Timestamp(milliseconds: clock.now.milliseconds + Int64(settings.accessTokenSeconds) * 1000)
    try signIn.keep(access: access, grant: id, scopes: scopes, expires: expires)
    var answer = JSONObject([("access_token", .string(access)), ("token_type", "Bearer")])
    answer["expires_in"] = .int(settings.accessTokenSeconds)
    answer["scope"] = .string(Text(bytes: Array(scopes.map(\.bytes).joined(separator: [0x20]))))
    if scopes.contains("offline_access") {
      let refresh = random("marfa_rt_")
      try signIn.keep(refresh: refresh, grant: id, scopes: scopes, isSpent: false)
      answer["refresh_token"] = .string(refresh)
    }
    return .json(200, .object(answer))
  }

  /// An access token ends itself; a refresh token ends its grant (K13.1, K13.2).
  private func revokeToken(_ call: Call) throws -> Reply {
    let form = Query(raw: call.request.body)
    guard let token = form["token"], !token.isEmpty else { return oauth(400, "invalid_request") }
    try signIn.end(access: token)
    if let held = try signIn.refresh(token) { try signIn.end(grant: held.grant) }
    endCredentials()
    return .json(200, [:])
  }

  /// `GET /auth/oauth2/userinfo` (K15.2): whose instance this is; a small one has no email to tell.
  private func userInfo(_ call: Call) throws -> Reply {
    guard let token = bearer(call), let app = appCredential(token) else { return oauth(401, "invalid_token") }
    guard app.may("openid") else { return oauth(403, "insufficient_scope") }
    return .json(200, ["sub": .string(instanceID.text)])
  }

  // MARK: the grants (K13.3)

  private func listGrants(_ call: Call) throws -> Reply {
    guard call.credential.may("grants.manage") else { throw Refusal.scope("grants.manage") }
    try call.query.declare([])
    let rows = try signIn.grants(at: clock.now).map { grant -> JSON in
      [
        "id": .string(grant.id.text), "client_id": .string(grant.client),
        "client_name": .string(try signIn.client(grant.client, at: clock.now)?.name ?? "App"),
        "scopes": .array(grant.scopes.map(JSON.string)), "created_at": .string(grant.created.text),
        "last_used_at": .string(grant.lastUsed.text),
      ]
    }
    return .json(200, ["data": .array(rows), "next_cursor": nil])
  }

  private func deleteGrant(_ call: Call) throws -> Reply {
    guard call.credential.may("grants.manage") else { throw Refusal.scope("grants.manage") }
    try call.query.declare(["revoke_keys"])
    guard let id = call.parts.first.flatMap(strictID), try signIn.grant(id, at: clock.now) != nil else {
      throw Refusal(404, "oauth_grant_not_found", "No such grant.")
    }
    if call.query["revoke_keys"] == "1" { try revokeKeys(mintedBy: id) }
    try signIn.end(grant: id)
    endCredentials()
    return Reply(status: 204, body: [], isBare: true)
  }
}
