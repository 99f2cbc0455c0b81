import LocalInstance
import MarfaBase
import Testing

@Suite("Every operation of the contract") struct ContractRouteTests {
  let bench: Bench
  let check: ContractCheck

  init() throws {
    bench = try Bench()
    check = try #require(ContractCheck.shared)
  }

  /// Operations a small instance need not have: saved views are a general program's.
  static let left: Set<String> = ["POST /views", "PATCH /views/{id}", "DELETE /views/{id}"]

  @Test(
    "each operation of openapi.yaml but the views' answers a success of its declared shape; those are unknown paths")
  func all() throws {
    var answered: Set<String> = []
    @discardableResult
    func ask(
      _ method: String, _ target: String, _ body: JSON? = nil, key: String? = nil, headers: [HTTPHeader] = [],
      raw: [UInt8]? = nil
    ) -> Answer {
      let answer = bench.send(method, target, body, key: key, headers: headers, raw: raw)
      #expect((200..<400).contains(answer.status), "\(method) \(target): \(answer.status) \(answer.json.compact)")
      answered.insert(check.operation(method: method, target: target) ?? "unknown \(method) \(target)")
      answer.source?.close()
      return answer
    }
    // The instance itself.
    for target in [
      "/", "/health", "/keys/current", "/.well-known/oauth-protected-resource",
      "/.well-known/oauth-authorization-server/auth", "/auth/.well-known/oauth-authorization-server",
    ] {
      ask("GET", target)
    }
    let config = ask("GET", "/config").json
    ask("PUT", "/config", config)
    // The catalog.
    ask("POST", "/types", ["id": "acme.thing", "fields": ["body": ["type": "string"]]])
    let type = ask("GET", "/types/acme.thing").json.object ?? JSONObject()
    var changed = JSONObject()
    changed["label"] = "Thing"
    changed["fields"] = type["fields"]
    ask("PUT", "/types/acme.thing", .object(changed))
    ask("GET", "/types")
    ask("DELETE", "/types/acme.thing")
    ask("POST", "/edge-types", ["id": "acme-near", "cardinality": "many-to-many"])
    ask("GET", "/edge-types")
    ask("DELETE", "/edge-types/acme-near")
    // Items.
    let draft: JSON = ["type": "core.note", "properties": ["title": "A", "body": "word"], "source_id": "k"]
    let a = ask("POST", "/items", draft).id
    let b = ask("POST", "/items", ["type": "core.note", "properties": ["body": "b"]]).id
    ask("PATCH", "/items/\(a)", ["version": 1, "properties": ["title": "B"]])
    for target in [
      "/items", "/items?include=metadata,edges,extensions", "/items/stats", "/items/\(a)",
      "/items/\(a)?include=backrefs,neighbors,versions", "/items/\(a)/versions", "/items/\(a)/metadata",
      "/search?q=word",
    ] {
      ask("GET", target)
    }
    ask("POST", "/items/bulk-get", ["ids": [string(a), string(b)], "include": ["metadata"]])
    let source = try #require(bench.read(a).item["source"])
    ask("POST", "/items/lookup", ["type": "core.note", "source": source, "source_ids": ["k", "none"]])
    ask("PUT", "/items/\(a)/metadata", ["tags": ["x"]])
    ask("PATCH", "/items/\(a)/metadata", ["tags": ["y"]])
    ask("POST", "/items/\(a)/tags", ["tags": ["z"]])
    ask("DELETE", "/items/\(a)/tags/z")
    ask("PUT", "/items/\(a)/extensions/app.x", ["seen": true])
    ask("DELETE", "/items/\(a)/extensions/app.x")
    // Edges.
    let edge = try #require(
      ask("POST", "/edges", ["source_id": string(a), "target_id": string(b), "edge_type": "about"]).edge.string("id"))
    for target in ["/items/\(a)/edges", "/items/\(b)/backrefs", "/edges", "/edges/\(edge)"] { ask("GET", target) }
    ask("PATCH", "/edges/\(edge)", ["version": 1, "properties": ["role": "x"]])
    ask("DELETE", "/edges/\(edge)")
    ask("POST", "/items/\(b)/transition", ["state": "archived"])
    ask("DELETE", "/items/\(b)")
    ask("POST", "/items/\(b)/restore")
    ask("DELETE", "/items/\(b)")
    ask("POST", "/items/\(b)/purge")
    ask("GET", "/events")
    // Bytes.
    let hash = try #require(
      ask("POST", "/blobs", headers: [HTTPHeader("Content-Type", "image/png")], raw: [1, 2, 3]).json.string("hash"))
    ask(
      "POST", "/items",
      ["type": "core.file", "properties": ["title": "p", "mime_type": "image/png", "blob_ref": string(hash)]])
    ask("GET", "/blobs/\(hash)")
    ask("HEAD", "/blobs/\(hash)")
    let url = try #require(ask("GET", "/blobs/\(hash)/url").json.string("url"))
    ask("GET", String(url.drop { $0 != "/" }.dropFirst(url.hasPrefix("http") ? 2 : 0).drop { $0 != "/" }), key: "")
    // Folders.
    let folder = ask("POST", "/folders", ["title": "F", "search": ["types": ["core.note"]]]).id
    ask("PATCH", "/folders/\(folder)", ["version": 1, "title": "G"])
    ask("POST", "/folders/\(folder)/revoke")
    try signIn { ask($0, $1, $2, key: $3, headers: $4, raw: $5) }
    #expect(check.operations.subtracting(answered) == Self.left)
    #expect(answered.subtracting(check.operations).isEmpty)
    for (method, target) in [("POST", "/views"), ("PATCH", "/views/\(a)"), ("DELETE", "/views/\(a)")] {
      let gone = whole(InstanceRequest(method: method, target: target, headers: owner, body: Array("{}".utf8)))
      #expect(gone?.status == 404 && gone?.header("X-Error-Code") == "not_found")
    }
  }

  private let owner = [
    HTTPHeader("Authorization", "Bearer \(Bench.ownerKey)"), HTTPHeader("Content-Type", "application/json"),
  ]

  /// An answer the document does not tell of: it knows no 400 of the doors without a credential, and has the views.
  private func whole(_ request: InstanceRequest) -> HTTPResponse? {
    guard case .whole(let response) = bench.instance.handle(request) else { return nil }
    return response
  }

  private func signIn(
    _ ask: (String, String, JSON?, String?, [HTTPHeader], [UInt8]?) -> Answer
  ) throws {
    func form(_ path: String, _ members: String) -> Answer {
      ask(
        "POST", path, nil, "", [HTTPHeader("Content-Type", "application/x-www-form-urlencoded")], Array(members.utf8))
    }
    let device = "urn:ietf:params:oauth:grant-type:device_code"
    let client = try #require(
      ask(
        "POST", "/auth/oauth2/register",
        [
          "application_type": "native", "redirect_uris": ["http://127.0.0.1:4000/in"],
          "grant_types": ["authorization_code", "refresh_token", .string(Text(device))],
        ], "", [], nil
      ).json.string("client_id"))
    let challenge = String(repeating: "x", count: 43)
    _ = ask(
      "GET",
      "/auth/oauth2/authorize?response_type=code&client_id=\(client)&redirect_uri=http%3A%2F%2F127.0.0.1%3A4000%2Fin"
        + "&scope=openid&state=s&code_challenge=\(challenge)&code_challenge_method=S256", nil, "", [], nil)
    let code = try #require(
      form("/auth/device/code", "client_id=\(client)&scope=openid+offline_access").json.string("device_code"))
    let tokens = form("/auth/oauth2/token", "grant_type=\(device)&device_code=\(code)&client_id=\(client)").json
    let access = try #require(tokens.string("access_token"))
    _ = ask("GET", "/auth/oauth2/userinfo", nil, access, [], nil)
    _ = form("/auth/oauth2/revoke", "token=\(try #require(tokens.string("refresh_token")))&client_id=\(client)")
  }

  @Test("RV6.5 the view's header on any other GET is refused, those without a credential too")
  func unconditional() {
    let view = [HTTPHeader("X-Marfa-Read-View", String(repeating: "0", count: 64))]
    for target in [
      "/", "/health", "/config", "/items/stats", "/types/core.note", "/search?q=x", "/nowhere",
      "/.well-known/oauth-protected-resource",
    ] {
      let answer = whole(InstanceRequest(method: "GET", target: target, headers: view + owner))
      #expect(answer?.status == 400 && answer?.header("X-Error-Code") == "validation_error", "\(target)")
    }
  }
}
