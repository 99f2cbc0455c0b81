import LocalInstance
import MarfaBase
import Synchronization
import Testing

@Suite("Sign-in doors")
struct SignInDoorTests {
  let bench: Bench
  init() throws { bench = try Bench() }

  func form(_ path: String, _ members: [(String, String)]) -> Answer {
    let text = members.map { "\($0.0)=\($0.1)" }.joined(separator: "&")
    return bench.send(
      "POST", path, key: "", headers: [HTTPHeader("Content-Type", "application/x-www-form-urlencoded")],
      raw: Array(text.utf8))
  }

  func client(_ more: JSON) -> String {
    var body = JSONObject()
    body["client_name"] = "Folders"
    body["application_type"] = "native"
    for (name, value) in more.object?.members ?? [] { body[name] = value }
    return bench.send("POST", "/auth/oauth2/register", .object(body), key: "").json["client_id"]?.text?.string ?? ""
  }

  static let device = "urn:ietf:params:oauth:grant-type:device_code"

  @Test("K-S20 K-S21 K-S22 K-S23 discovery, the device grant, rotation, the chain's end, revocation")
  func deviceGrant() {
    let one = bench.send("GET", "/auth/.well-known/oauth-authorization-server", key: "")
    let other = bench.send("GET", "/.well-known/oauth-authorization-server/auth", key: "")
    #expect(one.json == other.json)
    #expect(one.json["code_challenge_methods_supported"] == ["S256"])
    let id = client(["grant_types": [.string(Self.device), "refresh_token"], "response_types": []])
    func code(_ scope: String) -> String {
      form("/auth/device/code", [("client_id", id), ("scope", scope)]).json["device_code"]?.text?.string ?? ""
    }
    func poll(_ code: String) -> Answer {
      bench.clock.advance(seconds: 5)
      return form("/auth/oauth2/token", [("grant_type", Self.device), ("device_code", code), ("client_id", id)])
    }
    func refresh(_ token: String) -> Answer {
      form("/auth/oauth2/token", [("grant_type", "refresh_token"), ("refresh_token", token), ("client_id", id)])
    }
    func error(_ answer: Answer) -> String? { answer.json["error"]?.text?.string }
    bench.instance.signInPolicy.decision = .wait
    let asked = code("*:write+offline_access")
    #expect(error(poll(asked)) == "authorization_pending")
    #expect(
      error(form("/auth/oauth2/token", [("grant_type", Self.device), ("device_code", asked), ("client_id", id)]))
        == "slow_down")
    bench.instance.signInPolicy.decision = .approve(only: nil)
    let tokens = poll(asked)
    expect(tokens, 200)
    #expect(error(poll(asked)) == "invalid_grant")
    let access = tokens.json["access_token"]?.text?.string ?? ""
    let first = tokens.json["refresh_token"]?.text?.string ?? ""
    expect(bench.send("POST", "/items", ["type": "core.note", "properties": ["body": "a"]], key: access), 201)
    expect(bench.send("GET", "/keys/current", key: access), 403, "forbidden")
    func view(_ token: String) -> JSON? {
      bench.send("GET", "/events?edges=all&copy=1", key: token).frames().first?.data["read_view"]
    }
    let next = refresh(first)
    expect(next, 200)
    let second = next.json["access_token"]?.text?.string ?? ""
    #expect(view(access) == view(second))
    #expect(error(refresh(first)) == "invalid_grant")
    expect(bench.send("GET", "/items", key: second), 401, "unauthorized")
    #expect(error(refresh(next.json["refresh_token"]?.text?.string ?? "")) == "invalid_grant")
    #expect(poll(code("core.note:read")).json["refresh_token"] == nil)
    bench.instance.signInPolicy.decision = .decline
    #expect(error(poll(code("core.note:read"))) == "access_denied")
    let late = code("core.note:read")
    bench.clock.advance(seconds: 600)
    #expect(error(poll(late)) == "expired_token")
    bench.instance.signInPolicy.decision = .approve(only: nil)
    let last = poll(code("core.note:read+offline_access"))
    let token = last.json["access_token"]?.text?.string ?? ""
    expect(bench.send("GET", "/items", key: token), 200)
    expect(
      form("/auth/oauth2/revoke", [("token", last.json["refresh_token"]?.text?.string ?? ""), ("client_id", id)]), 200)
    expect(bench.send("GET", "/items", key: token), 401, "unauthorized")
    #expect(form("/auth/oauth2/revoke", [("client_id", id)]).status == 400)
    #expect(form("/auth/oauth2/revoke", [("token", "x"), ("client_id", id)]).status == 200)
  }

  @Test("K-S17 registration and the authorization code")
  func code() {
    let uri = "http://127.0.0.1:4000/in"
    let id = client(["redirect_uris": [.string(uri)], "grant_types": ["authorization_code", "refresh_token"]])
    let bad = bench.send(
      "POST", "/auth/oauth2/register", ["application_type": "web", "redirect_uris": ["http://example.org/"]], key: "")
    #expect(bad.json["error"]?.text == "invalid_redirect_uri")
    #expect(bench.send("POST", "/auth/oauth2/register", key: "", raw: [0x7B]).status == 415)
    let verifier = String(repeating: "v", count: 43)
    let digest = ContentHash(of: Array(verifier.utf8)).bytes
    func base64(_ bytes: [UInt8]) -> String {
      let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
      var out = ""
      var bits: [UInt8] = bytes.flatMap { byte in (0..<8).map { byte >> (7 - $0) & 1 } }
      while bits.count % 6 != 0 { bits.append(0) }
      for start in stride(from: 0, to: bits.count, by: 6) {
        out.append(digits[bits[start..<(start + 6)].reduce(0) { $0 * 2 + Int($1) }])
      }
      return out
    }
    func authorize(_ challenge: String) -> String {
      let answer = bench.send(
        "GET",
        "/auth/oauth2/authorize?response_type=code&client_id=\(id)&redirect_uri=http%3A%2F%2F127.0.0.1%3A4000%2Fin"
          + "&scope=core.note%3Awrite+core.task%3Awrite&state=s1\(challenge)", key: "")
      return answer.response.header("Location") ?? ""
    }
    #expect(authorize("").contains("error=invalid_request&state=s1"))
    bench.instance.signInPolicy.decision = .decline
    #expect(authorize("&code_challenge_method=S256&code_challenge=x").contains("error=access_denied"))
    bench.instance.signInPolicy.decision = .approve(only: ["core.note:write"])
    let location = authorize("&code_challenge_method=S256&code_challenge=\(base64(digest))")
    let code = location.components(separatedBy: "code=").last?.components(separatedBy: "&").first ?? ""
    func exchange(_ verifier: String?) -> Answer {
      form(
        "/auth/oauth2/token",
        [("grant_type", "authorization_code"), ("code", code), ("redirect_uri", uri), ("client_id", id)]
          + (verifier.map { [("code_verifier", $0)] } ?? []))
    }
    #expect(exchange(nil).json["error"]?.text == "invalid_request")
    #expect(exchange("wrong").json["error"]?.text == "invalid_grant")
    let tokens = exchange(verifier)
    #expect(tokens.json["scope"]?.text == "core.note:write")
    #expect(exchange(verifier).json["error"]?.text == "invalid_grant")
    #expect(
      form("/auth/oauth2/token", [("grant_type", "password"), ("client_id", id)]).json["error"]?.text
        == "unsupported_grant_type")
  }

  @Test("N2.1 K10.3 K14.1 nobody is signed in whom the owner's one-time code did not let in, by device or in a browser")
  func page() throws {
    let told = Mutex<[AskedSignIn]>([])
    bench.instance.signInPolicy = SignInPolicy { asked in told.withLock { $0.append(asked) } }
    let id = client([
      "client_name": "<b>Evil</b>", "grant_types": [.string(Self.device), "refresh_token", "authorization_code"],
      "redirect_uris": ["http://127.0.0.1:9/back"],
    ])
    func ask() throws -> (device: String, user: String) {
      let asked = form("/auth/device/code", [("client_id", id), ("scope", "*:write")]).json
      return (try #require(asked["device_code"]?.text?.string), try #require(asked["user_code"]?.text?.string))
    }
    func poll(_ code: String) -> Answer {
      bench.clock.advance(seconds: 5)
      return form("/auth/oauth2/token", [("grant_type", Self.device), ("device_code", code), ("client_id", id)])
    }
    func error(_ answer: Answer) -> String? { answer.json["error"]?.text?.string }
    let first = try ask()
    #expect(error(poll(first.device)) == "authorization_pending")
    let page = bench.send("GET", "/auth/device?user_code=\(first.user)", key: "")
    expect(page, 200)
    let words = String(decoding: page.response.body, as: UTF8.self)
    #expect(words.contains("&lt;b&gt;Evil") && !words.contains("<b>Evil"))
    let code = try #require(told.withLock { $0.last?.oneTimeCode.string })
    #expect(!words.contains(code) && told.withLock { $0.last?.userCode?.string } == first.user)
    // The page opened again tells no other code, and a wrong one allows nothing.
    _ = bench.send("GET", "/auth/device?user_code=\(first.user)", key: "")
    #expect(told.withLock { $0.count } == 1)
    _ = form("/auth/device", [("user_code", first.user), ("code", "1"), ("decision", "approve")])
    #expect(error(poll(first.device)) == "authorization_pending")
    _ = form("/auth/device", [("user_code", first.user), ("code", code), ("decision", "approve")])
    expect(poll(first.device), 200)

    let guessed = try ask()
    for _ in 0..<5 { _ = form("/auth/device", [("user_code", guessed.user), ("code", "x"), ("decision", "approve")]) }
    #expect(error(poll(guessed.device)) == "access_denied")
    let declined = try ask()
    _ = form("/auth/device", [("user_code", declined.user), ("decision", "decline")])
    #expect(error(poll(declined.device)) == "access_denied")

    let query =
      "response_type=code&client_id=\(id)&redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fback&scope=%2A%3Aread&state=s"
      + "&code_challenge=abc&code_challenge_method=S256"
    let target = "/auth/oauth2/authorize?\(query)"
    let consent = bench.send("GET", target, key: "")
    expect(consent, 200)
    #expect(consent.response.headers.first { $0.name == "Location" } == nil)
    let browserCode = try #require(told.withLock { $0.last?.oneTimeCode.string })
    let wrong = form(target, [("code", "0"), ("decision", "approve")])
    #expect(wrong.response.headers.first { $0.name == "Location" } == nil)
    let allowed = form(target, [("code", browserCode), ("decision", "approve")])
    #expect(allowed.response.headers.first { $0.name == "Location" }?.value.contains("code=") == true)
    let silent = bench.send("GET", target + "&prompt=none", key: "")
    #expect(silent.response.headers.first { $0.name == "Location" }?.value.contains("error=login_required") == true)
  }
}
