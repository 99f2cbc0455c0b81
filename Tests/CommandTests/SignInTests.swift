import Glibc
import MarfaBase
import Synchronization
import Testing
import TestSupport

/// A sign-in server a test steers: what it answers to each door is read anew at each request.
private final class SignInScript: Sendable {
  struct State {
    var scopes: String? = #""openid","offline_access","*:read","x.y:read""#
    var page: String?
    var devicePolls: [String] = []
    var clients = 0
    var lostClients: Set<String> = []
    var expiresIn = 3600
    var tokens = 0
    /// The only access tokens that are taken; nil takes every one.
    var taken: Set<String>?
    var refreshAnswer: (status: Int, body: String)?
    /// The contract the refresh's answer names; nil where something in front of the server answers.
    var refreshContract: String? = "0"
    var revokeStatus = 200
    var rootContract: String? = "0"
    var deviceEndpoint: String?
  }
  let state = Mutex(State())

  func server() throws -> ScriptedServer {
    try ScriptedServer { self.answer($0) }
  }

  func change(_ change: (inout State) -> Void) { state.withLock { change(&$0) } }

  /// While it is shut, a refresh is not answered.
  let refreshGate = Atomic<Bool>(true)

  private func answer(_ request: ScriptedServer.Request) -> ScriptedServer.Reply? {
    if request.form("grant_type") == "refresh_token" {
      while !refreshGate.load(ordering: .acquiring) { usleep(5_000) }
    }
    return state.withLock { state in
      let origin = request.origin
      switch "\(request.method) \(request.door)" {
      case "GET /": return .root(contract: state.rootContract)
      case "GET /auth/.well-known/oauth-authorization-server":
        let scopes = state.scopes.map { #","scopes_supported":[\#($0)]"# } ?? ""
        let device = state.deviceEndpoint ?? "\(origin)/auth/device/code"
        return .json(
          200,
          """
          {"issuer":"\(origin)/auth","token_endpoint":"\(origin)/auth/oauth2/token",
          "registration_endpoint":"\(origin)/auth/oauth2/register","revocation_endpoint":"\(origin)/auth/oauth2/revoke",
          "device_authorization_endpoint":"\(device)"\(scopes)}
          """)
      case "POST /auth/oauth2/register":
        state.clients += 1
        return .json(201, #"{"client_id":"c\#(state.clients)"}"#)
      case "POST /auth/device/code":
        if state.lostClients.contains(request.form("client_id") ?? "") {
          return .json(400, #"{"error":"invalid_client"}"#)
        }
        let page = state.page ?? "\(origin)/auth/device"
        return .json(
          200,
          #"{"device_code":"dc","user_code":"WDJB-MJHT","verification_uri":"\#(page)","expires_in":600,"interval":1}"#)
      case "POST /auth/oauth2/token":
        if request.form("grant_type") == "refresh_token" {
          if let answer = state.refreshAnswer {
            return .json(answer.status, answer.body, contract: state.refreshContract)
          }
        } else if let said = state.devicePolls.first {
          state.devicePolls.removeFirst()
          return .json(400, #"{"error":"\#(said)"}"#)
        }
        state.tokens += 1
        let number = state.tokens
        return .json(
          200,
          """
          {"access_token":"marfa_at_\(number)","refresh_token":"marfa_rt_\(number)","expires_in":\(state.expiresIn),
          "scope":"openid *:read","token_type":"Bearer"}
          """)
      case "POST /auth/oauth2/revoke": return .json(state.revokeStatus, "{}")
      case "GET /health": return .json(200, #"{"status":"ok"}"#)
      case "GET /items/stats":
        let token = String((request.header("authorization") ?? "").dropFirst("Bearer ".count))
        if let taken = state.taken, !taken.contains(token) {
          return .json(401, #"{"error":{"code":"unauthorized","message":"No."}}"#)
        }
        return .json(200, #"{"active":1}"#)
      default: return .json(404, #"{"error":{"code":"not_found","message":"No such door."}}"#)
      }
    }
  }
}

extension ScriptedServer {
  fileprivate var refreshes: Int { requests.count { $0.form("grant_type") == "refresh_token" } }
  fileprivate var polls: Int { requests.count { $0.form("device_code") != nil } }
}

@Suite("signing in and out") struct SignInTests {
  let scratch: ScratchDirectory
  let program: MarfaFolders

  init() throws {
    scratch = try ScratchDirectory()
    var program = MarfaFolders(home: scratch.path)
    // Waits of a sign-in are whole seconds.
    program.environment["MARFA_TEST_TIME"] = "20"
    self.program = program
  }

  private func signIn(_ program: MarfaFolders, _ server: ScriptedServer, _ more: [String] = []) async throws -> Ran {
    try await program.run(["--json", "login", "--no-browser", "--url", server.url] + more)
  }

  @Test("C-S57 login reads discovery, asks with the scope the server lists, polls, and answers two JSON lines")
  func scripted() async throws {
    let session = try await SessionBus(home: scratch.path)
    let script = SignInScript()
    script.change { $0.devicePolls = ["authorization_pending"] }
    let server = try script.server()
    let program = session.program(program)
    let ran = try await signIn(program, server)
    #expect(ran.status == 0, "\(ran.errText)")
    #expect(ran.err.isEmpty)
    let lines = ran.jsonLines
    try #require(lines.count == 2)
    #expect(
      lines[0] == [
        "user_code": "WDJB-MJHT", "verification_uri": .string("\(server.url)/auth/device"),
        "verification_uri_complete": .null, "expires_in": 600, "scope": "openid offline_access *:read",
      ])
    #expect(lines[1] == ["server": .string(server.url), "scope": "openid *:read", "kept": "keychain"])
    #expect(
      server.requests.map(\.door) == [
        "/auth/.well-known/oauth-authorization-server", "/auth/oauth2/register", "/auth/device/code",
        "/auth/oauth2/token", "/auth/oauth2/token",
      ])
    #expect(server.requests[2].form("scope") == "openid%20offline_access%20%2A%3Aread")
    let registration = try JSON(parsing: server.requests[1].body)
    #expect(registration["client_name"] == "marfa-folders")
    #expect(registration["grant_types"] == ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"])
    #expect(registration["response_types"] == [])
    // C2.2: the origin is the current one now, and its token the credential.
    let who = try await program.run(["--json", "server"])
    #expect(who.json?["server"]?.text?.string == server.url)
    #expect(who.json?["credential"] == "keychain")
    // X22.1, X-S63: no token lies in a file of this home.
    for name in scratch.files() where !name.hasPrefix("keyring/") {
      #expect(scratch.text(name)?.contains("marfa_at_") != true, "\(name)")
    }
    // C20.8: printed tokens are one document on standard output.
    let printed = try await program.run(["login", "--no-browser", "--print-token", "--url", server.url])
    #expect(printed.json?["access_token"] == "marfa_at_2")
    #expect(printed.errText.contains("WDJB-MJHT"))
    try await session.end()
  }

  @Test("C-S58 K-S14 a page or a door off the server's origin is invalid: no poll is made, nothing is sent there")
  func offOrigin() async throws {
    let script = SignInScript()
    let server = try script.server()
    for page in ["http://127.0.0.1:9/auth/device", "blob:\(server.url)/x", "file:///etc/passwd", "//evil.example/x"] {
      script.change { $0.page = page }
      let ran = try await signIn(program, server, ["--print-token"])
      #expect(ran.status == 1)
      #expect(ran.code == "invalid", "\(page): \(ran.errText)")
    }
    #expect(server.polls == 0)
    let other = try ScriptedServer { _ in .json(200, "{}") }
    script.change {
      $0.page = nil
      $0.deviceEndpoint = other.url + "/auth/device/code"
    }
    let ran = try await signIn(program, server, ["--print-token"])
    #expect(ran.code == "invalid")
    #expect(other.requests.isEmpty)
  }

  @Test("C20.5 C20.6 K14.5 what a server lists of the scopes, slow_down, a declined and an ended code")
  func endings() async throws {
    let script = SignInScript()
    let server = try script.server()
    script.change { $0.scopes = #""nothing.of:ours""# }
    let none = try await signIn(program, server, ["--print-token"])
    #expect(none.code == "invalid")
    #expect(none.message.contains("--scope"))
    script.change {
      $0.scopes = nil
      $0.devicePolls = ["slow_down", "access_denied"]
    }
    let declined = try await signIn(program, server, ["--print-token", "--scope", "*:read"])
    #expect(declined.status == 1)
    #expect(declined.jsonLines.isEmpty == false)
    #expect(declined.refusal?["error"]?["server"]?["code"] == "access_denied")
    script.change { $0.devicePolls = ["expired_token"] }
    let ended = try await signIn(program, server, ["--print-token", "--client-id", "given"])
    #expect(ended.status == 1)
    #expect(ended.code == "validation")
    #expect(ended.refusal?["error"]?["server"]?["code"] == "expired_token")
    #expect(server.requests.contains { $0.form("client_id") == "given" })
    // Without a credential store each run registers.
    let local = try await program.run(["--json", "login", "--url", "local"])
    #expect(local.code == "invalid")
  }

  @Test("C-S59 C-S65 with a key kept, login is invalid naming keys forget, and only discovery was read")
  func keyKept() async throws {
    let session = try await SessionBus(home: scratch.path)
    let script = SignInScript()
    script.change { $0.taken = ["marfa_k1_good"] }
    let server = try script.server()
    let program = session.program(program)
    let refused = try await program.run(["--json", "keys", "keep", "--url", server.url, "--key", "marfa_k1_bad"])
    #expect(refused.status == 5)
    #expect(refused.code == "unauthorized")
    let nothing = try await program.run(["--json", "whoami", "--url", server.url])
    #expect(nothing.json?["credential"] == .null)
    let kept = try await program.run(["--json", "keys", "keep", "--url", server.url, "--key", "marfa_k1_good"])
    #expect(kept.json == ["origin": .string(server.url), "kept": "key"])
    let before = server.requests.count
    let ran = try await signIn(program, server)
    #expect(ran.status == 1)
    #expect(ran.code == "invalid")
    #expect(ran.message.contains("keys forget"))
    #expect(server.requests.dropFirst(before).map(\.door) == ["/auth/.well-known/oauth-authorization-server"])
    // C21.1: a kept key is no sign-in.
    let out = try await program.run(["--json", "logout"])
    #expect(out.code == "invalid")
    #expect(out.message.contains("keys forget"))
    let forgotten = try await program.run(["--json", "keys", "forget"])
    #expect(forgotten.json?["forgotten"] == true)
    let again = try await program.run(["--json", "logout"])
    #expect(again.json == ["server": .string(server.url), "signed_out": false])
    try await session.end()
  }

  @Test(
    "C-S60 K-S24 X-S61 two processes, each with a home of its own, with a stale or refused token spend one refresh token, and both go on"
  )
  func refreshOnce() async throws {
    let session = try await SessionBus(home: scratch.path)
    let script = SignInScript()
    script.change { $0.expiresIn = 30 }
    let server = try script.server()
    let program = session.program(program)
    try #require(try await signIn(program, server).status == 0)
    script.change { $0.expiresIn = 3600 }
    func both() async throws {
      var elsewhere = program
      elsewhere.environment["HOME"] = scratch.at("another home")
      let children = try [program.start(["--json", "server"]), elsewhere.start(["--json", "server"])]
      for child in children {
        child.endInput()
        let ran = try await child.end()
        #expect(ran.status == 0, "\(ran.errText)")
        #expect(ran.json?["stats"] == ["active": 1])
      }
    }
    try await both()
    #expect(server.refreshes == 1)
    // Refused together: 401 to the token both hold.
    script.change { $0.taken = ["marfa_at_3"] }
    try await both()
    #expect(server.refreshes == 2)
    #expect(server.requests.last { $0.form("grant_type") == "refresh_token" }?.form("refresh_token") == "marfa_rt_2")
    try await session.end()
  }

  @Test(
    "C-S61 K-S26 a refresh answered 429 or 503 leaves the entry; invalid_grant ends the sign-in, the origin stays current"
  )
  func refreshRefused() async throws {
    let session = try await SessionBus(home: scratch.path)
    let script = SignInScript()
    let server = try script.server()
    let program = session.program(program)
    try #require(try await signIn(program, server).status == 0)
    script.change { $0.taken = ["marfa_at_2"] }
    // The call fails with what kept the token from being renewed, not as a refused credential (K16.7); the refusal of
    // something in front of the server ends nothing (IN3.3).
    let causes: [(status: Int, body: String, contract: String?, code: String, exit: Int32)] = [
      (429, #"{"error":"slow"}"#, "0", "rate_limited", 3), (503, #"{"error":"slow"}"#, "0", "server", 3),
      (503, "busy", nil, "unnamed_answer", 3), (400, #"{"error":"invalid_grant"}"#, nil, "unnamed_answer", 3),
      (302, "", "0", "redirect", 1), (200, "<html>", "0", "decoding", 3),
    ]
    for cause in causes {
      script.change {
        $0.refreshAnswer = (cause.status, cause.body)
        $0.refreshContract = cause.contract
      }
      let ran = try await program.run(["--json", "server"])
      #expect(ran.status == cause.exit && ran.code == cause.code, "\(cause): \(ran.errText)")
    }
    #expect(server.refreshes == causes.count)
    // The entry was left: its refresh token is asked with once more.
    script.change {
      $0.refreshAnswer = (400, #"{"error":"invalid_grant"}"#)
      $0.refreshContract = "0"
    }
    let ended = try await program.run(["--json", "server"])
    #expect(server.refreshes == causes.count + 1)
    #expect(ended.status == 5)
    #expect(ended.code == "signed_out")
    let after = try await program.run(["--json", "whoami"])
    #expect(after.json?["server"]?.text?.string == server.url)
    #expect(after.json?["credential"] == .null)
    try await session.end()
  }

  @Test("D-S206 a sign-out waits for a refresh under way, revokes the rotated token, and nothing brings it back")
  func signOutAmidRefresh() async throws {
    let session = try await SessionBus(home: scratch.path)
    let script = SignInScript()
    let server = try script.server()
    let program = session.program(program)
    try #require(try await signIn(program, server).status == 0)
    script.change { $0.taken = ["marfa_at_2"] }
    script.refreshGate.store(false, ordering: .releasing)
    let asking = try program.start(["--json", "server"])
    asking.endInput()
    try await eventually("the refresh to be out") { server.refreshes == 1 || asking.status != nil }
    let leaving = try program.start(["--json", "logout"])
    leaving.endInput()
    // It has come as far as it can once it has the lock's file open, which the other process holds.
    try await eventually("the sign-out to wait") { leaving.status != nil || hasLockOpen(leaving.pid) }
    #expect(leaving.status == nil && server.count("POST", "/auth/oauth2/revoke") == 0)
    script.refreshGate.store(true, ordering: .releasing)
    let asked = try await asking.end()
    #expect(asked.status == 0 || asked.code == "signed_out", "\(asked.errText)")
    let left = try await leaving.end()
    #expect(left.json == ["server": .string(server.url), "signed_out": true, "revoked": true], "\(left.errText)")
    let revokes = server.requests.filter { $0.door == "/auth/oauth2/revoke" }.map { $0.form("token") }
    // The rotated set alone, its refresh token first, which ends the grant (C21.1).
    #expect(revokes == ["marfa_rt_2", "marfa_at_2"])
    #expect(server.refreshes == 1)
    #expect(try await program.run(["--json", "whoami", "--url", server.url]).json?["credential"] == .null)
    // Forgetting is between the person and the keyring.
    script.change { $0.taken = ["marfa_k1_good"] }
    let kept = try await program.run(["--json", "keys", "keep", "--url", server.url, "--key", "marfa_k1_good"])
    #expect(kept.status == 0, "\(kept.errText)")
    let before = server.requests.count
    let forgotten = try await program.run(["--json", "keys", "forget", "--url", server.url])
    #expect(forgotten.status == 0 && server.requests.count == before)
    try await session.end()
  }

  /// Whether a process has a credential lock's file open.
  private func hasLockOpen(_ pid: pid_t) -> Bool {
    names(of: "/proc/\(pid)/fd").contains { name in
      guard let target = realpath("/proc/\(pid)/fd/\(name)", nil) else { return false }
      defer { free(target) }
      return String(cString: target).contains(".marfa-credential-locks/")
    }
  }

  @Test("K-S27 a root that names no contract is sent no refresh token")
  func unnamedRoot() async throws {
    let session = try await SessionBus(home: scratch.path)
    let script = SignInScript()
    script.change { $0.expiresIn = 30 }
    let server = try script.server()
    let program = session.program(program)
    try #require(try await signIn(program, server).status == 0)
    script.change { $0.rootContract = nil }
    let ran = try await program.run(["--json", "keys", "current"])
    #expect(ran.code == "contract_mismatch")
    #expect(!server.requests.contains { $0.text.contains("marfa_rt_") && $0.door != "/auth/oauth2/revoke" })
    script.change { $0.rootContract = "0" }
    let well = try await program.run(["--json", "server"])
    #expect(well.status == 0, "\(well.errText)")
    #expect(server.refreshes == 1)
    try await session.end()
  }

  @Test("C-S62 K-S29 logout forgets the sign-in though the server refuses to revoke it or is away")
  func logout() async throws {
    let session = try await SessionBus(home: scratch.path)
    let script = SignInScript()
    let server = try script.server()
    let program = session.program(program)
    try #require(try await signIn(program, server).status == 0)
    script.change { $0.revokeStatus = 400 }
    let refused = try await program.run(["--json", "logout"])
    #expect(refused.status == 0)
    #expect(refused.json == ["server": .string(server.url), "signed_out": true, "revoked": false])
    #expect(server.requests.last?.form("token") == "marfa_rt_1")
    #expect(server.requests.last?.form("token_type_hint") == "refresh_token")
    // The origin is no longer the current one.
    #expect(try await program.run(["--json", "whoami"]).code == "no_server")
    #expect(try await program.run(["--json", "whoami", "--url", server.url]).json?["credential"] == .null)
    script.change { $0.revokeStatus = 200 }
    try #require(try await signIn(program, server).status == 0)
    script.change { $0.rootContract = "7" }
    let other = try await program.run(["--json", "logout"])
    #expect(other.json?["revoked"] == .null)
    #expect(other.json?["signed_out"] == true)
    script.change { $0.rootContract = "0" }
    try #require(try await signIn(program, server).status == 0)
    server.stop()
    let away = try await program.run(["--json", "logout"])
    #expect(away.json == ["server": .string(server.url), "signed_out": true, "revoked": false])
    #expect(try await program.run(["--json", "logout", "--url", server.url]).json?["signed_out"] == false)
    try await session.end()
  }

  @Test("K-S30 K-S32 another sign-in ends the grant it replaces, and a client known no more is registered once anew")
  func again() async throws {
    let session = try await SessionBus(home: scratch.path)
    let script = SignInScript()
    let server = try script.server()
    let program = session.program(program)
    try #require(try await signIn(program, server).status == 0)
    // The kept client is reused: its grant goes on, the old access token alone ends.
    let reused = try await signIn(program, server)
    #expect(reused.jsonLines.last?["replaced_grant_stands"] == nil)
    var revoked = server.requests.filter { $0.door == "/auth/oauth2/revoke" }
    #expect(revoked.map { $0.form("token") } == ["marfa_at_1"])
    #expect(server.count("POST", "/auth/oauth2/register") == 1)
    // Lost for disuse: registered once, and the first grant ends.
    script.change { $0.lostClients = ["c1"] }
    try #require(try await signIn(program, server).status == 0)
    #expect(server.count("POST", "/auth/oauth2/register") == 2)
    #expect(server.requests.last { $0.door == "/auth/device/code" }?.form("client_id") == "c2")
    revoked = server.requests.filter { $0.door == "/auth/oauth2/revoke" }
    #expect(revoked.map { $0.form("token") } == ["marfa_at_1", "marfa_rt_2", "marfa_at_2"])
    script.change {
      $0.lostClients = ["c2"]
      $0.revokeStatus = 503
    }
    let stands = try await signIn(program, server)
    #expect(stands.status == 0)
    #expect(stands.jsonLines.last?["replaced_grant_stands"] == true)
    try await session.end()
  }

  @Test("C-S63 a sign-in at a real instance; a token without identity scopes names no person")
  func realInstance() async throws {
    let session = try await SessionBus(home: scratch.path)
    var agreeing = program
    agreeing.environment["MARFA_TEST_TIME"] = "1"
    let server = try await LocalServer(data: scratch.at("data"), program: agreeing, port: true)
    let program = session.program(program)
    let login = ["--json", "login", "--no-browser", "--url", server.url]
    let bare = try await program.run(login + ["--scope", "*:read offline_access"])
    #expect(bare.status == 0, "\(bare.errText)")
    let nobody = try await program.run(["--json", "whoami"])
    #expect(nobody.status == 0, "\(nobody.errText)")
    #expect(nobody.json?["credential"]?["kind"] == "token")
    #expect(nobody.json?["credential"]?["from"] == "keychain")
    #expect(nobody.json?["credential"]?["scope"] == "*:read offline_access")
    #expect(nobody.json?["credential"]?["person"] == nil)
    let whole = try await program.run(login)
    #expect(whole.status == 0, "\(whole.errText)")
    let somebody = try await program.run(["--json", "whoami"])
    #expect(somebody.json?["credential"]?["person"]?["sub"] == server.ready["instance_id"])
    let out = try await program.run(["--json", "logout"])
    #expect(out.json?["revoked"] == true, "\(out.errText)")
    try await session.end()
  }

  @Test("C-S64 with MARFA_KEYCHAIN set the person's store is untouched; with both variables a push works")
  func keychainOff() async throws {
    let session = try await SessionBus(home: scratch.path)
    let server = try await LocalServer(data: scratch.at("data"), program: program, port: true)
    let on = session.program(program)
    let kept = try await on.run(["--json", "keys", "keep"] + server.options)
    try #require(kept.status == 0, "\(kept.errText)")
    var off = on
    off.environment["MARFA_KEYCHAIN"] = "x"
    let forget = try await off.run(["--json", "keys", "forget", "--url", server.url])
    #expect(forget.status == 4)
    #expect(forget.code == "no_keychain")
    #expect(try await on.run(["--json", "whoami"]).json?["credential"]?["from"] == "keychain")
    off.environment["MARFA_API_URL"] = server.url
    off.environment["MARFA_API_KEY"] = server.key
    try scratch.write("Notes/One.md", "# One\n")
    let added = try await off.run(["--json", "add", scratch.at("Notes"), "--create", "--yes"])
    #expect(added.status == 0, "\(added.errText)")
    let push = try await off.run(["--json", "push", scratch.at("Notes")])
    #expect(push.status == 0, "\(push.errText)")
    #expect(push.json?["scan"]?["created"] == 1)
    try await session.end()
  }

  @Test("X-S62 without a Secret Service login is no_keychain before anything is asked, and no file is made")
  func noService() async throws {
    let script = SignInScript()
    let server = try script.server()
    var program = program
    program.environment["MARFA_KEYCHAIN"] = nil
    program.environment["DBUS_SESSION_BUS_ADDRESS"] = "unix:path=\(scratch.at("no-bus"))"
    let ran = try await signIn(program, server)
    #expect(ran.status == 4)
    #expect(ran.code == "no_keychain")
    #expect(ran.message.contains("--print-token"))
    #expect(ran.out.isEmpty)
    #expect(server.requests.isEmpty)
    #expect(scratch.files().isEmpty)
  }

  @Test("C2.4 a credential given by hand is never exchanged for the kept one")
  func givenStays() async throws {
    let session = try await SessionBus(home: scratch.path)
    let script = SignInScript()
    let server = try script.server()
    let program = session.program(program)
    try #require(try await signIn(program, server).status == 0)
    script.change { $0.taken = ["marfa_at_1"] }
    var given = program
    given.environment["MARFA_API_URL"] = server.url
    given.environment["MARFA_API_KEY"] = "marfa_k1_bad"
    let before = server.requests.count
    let ran = try await given.run(["--json", "server"])
    #expect(ran.status == 5)
    #expect(ran.code == "unauthorized")
    #expect(
      server.requests.dropFirst(before).compactMap { $0.header("authorization") } == ["Bearer marfa_k1_bad"])
    #expect(server.refreshes == 0)
    #expect(try await program.run(["--json", "server"]).status == 0)
    try await session.end()
  }

  @Test("K-S31 a locked keyring: reading the key is no_keychain, and is not taken for none kept")
  func lockedKeyring() async throws {
    let session = try await SessionBus(home: scratch.path)
    let script = SignInScript()
    let server = try script.server()
    let program = session.program(program)
    let kept = try await program.run(["--json", "keys", "keep", "--url", server.url, "--key", "marfa_k1_good"])
    try #require(kept.status == 0, "\(kept.errText)")
    let lock = try ChildProcess(
      [
        "dbus-send", "--session", "--print-reply", "--dest=org.freedesktop.secrets", "/org/freedesktop/secrets",
        "org.freedesktop.Secret.Service.Lock", "array:objpath:/org/freedesktop/secrets/collection/login",
      ], environment: ["PATH": "/usr/bin:/bin", "DBUS_SESSION_BUS_ADDRESS": session.address])
    try #require(try await lock.end().status == 0)
    let before = server.requests.count
    for words in [["keys", "current"], ["login", "--no-browser"], ["logout"], ["keys", "forget"]] {
      let ran = try await program.run(["--json"] + words + ["--url", server.url])
      #expect(ran.status == 4, "\(words): \(ran.errText)")
      #expect(ran.code == "no_keychain", "\(words)")
      #expect(ran.message.contains("locked"), "\(words): \(ran.message)")
    }
    #expect(server.requests.count == before)
    // Given by hand it is not asked for.
    let given = try await program.run(["--json", "server", "--url", server.url, "--key", "marfa_k1_good"])
    #expect(given.status == 0, "\(given.errText)")
    try await session.end()
  }
}
