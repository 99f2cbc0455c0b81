import Keyring
import MarfaBase
import MarfaCopy

/// `login` and `logout`.
func signInCommands() -> [Command] {
  [
    Command(
      name: "login", summary: "sign in to the server with a code",
      discussion:
        "Shows a code and a page of the server; approved there, the sign-in is kept in the credential store and renewed by itself.",
      options: [
        Option(
          "scope", .text("SCOPES"), "What to ask for, separated by spaces, in place of everything the server lists."),
        Option("no-browser", "Do not open the page."),
        Option("print-token", "Print the tokens and keep nothing."),
        Option("client-id", .text("ID"), "A client registered at the server before."),
      ], run: login),
    Command(name: "logout", summary: "end the sign-in and forget it", run: logout),
  ]
}

/// What a sign-in asks for where nothing is said (C20.5).
private let defaultScopes: [Text] = [
  "openid", "profile", "email", "offline_access", "*:read", "*:write", "edge.*:read", "edge.*:write", "metadata:read",
  "metadata:write", "schema.write", "keys.mint", "items.purge", "webhooks.manage", "config.manage", "audit.read",
  "grants.manage",
]

@Sendable private func login(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let session = Session(invocation)
  let address = try session.server().address
  guard !address.isLocal else {
    throw MarfaError(.invalid, "the local instance needs no sign-in; its own commands read its key where its data lies")
  }
  return try SignIn(session, address).run()
}

/// One run of the device grant (C20, K14).
private struct SignIn {
  private let session: Session
  private let address: ServerAddress
  private let requests: SignInRequests
  private let printsToken: Bool
  private var output: Output { session.program.output }
  private var origin: String { address.origin }

  init(_ session: Session, _ address: ServerAddress) {
    self.session = session
    self.address = address
    requests = SignInRequests(address, session)
    printsToken = session.invocation.has("print-token")
  }

  /// A set of tokens as the server gave it.
  private struct Tokens {
    var access: String
    var refresh: String?
    var expiresIn: Int
    var scope: Text
    var client: Text

    var json: JSON {
      [
        "access_token": .string(access), "refresh_token": refresh.map { .string($0) } ?? .null,
        "expires_in": .int(expiresIn), "scope": .string(scope), "client_id": .string(client),
      ]
    }
  }

  /// A code that waits for the person.
  private struct Code {
    var device: Text
    var user: Text
    var page: Text
    var completePage: Text?
    var expiresIn: Int
    var interval: Int
    var client: Text
  }

  func run() throws(MarfaError) -> Int32 {
    // C20.9: told before anything is approved, and before the lock makes a file (X-S62).
    let kept = try entries()
    let before: KeptEntry? = if let kept { try entry(in: kept) } else { nil }
    // X21.6: the lock is only proven; the person takes their time.
    try kept?.requireLock(origin)
    let doors = try SignInDoors(of: address, in: session)
    if case .key? = before {
      throw MarfaError(.invalid, "a key is kept for \(origin); 'marfa-folders keys forget' forgets it")
    }
    let scope = try scope(doors)
    let code = try code(doors, scope, kept)
    guard doors.holds(code.page.string), code.completePage.map({ doors.holds($0.string) }) ?? true else {
      throw MarfaError(.invalid, "\(origin) names a page on another origin to approve on; nothing was approved")
    }
    show(code, scope)
    let tokens = try poll(code, doors)
    guard let kept, !printsToken else {
      output.json ? output.record(tokens.json) : output.document(tokens.json)
      return 0
    }
    return keep(tokens, doors, kept, replacing: before)
  }

  private func entries() throws(MarfaError) -> KeptCredentials? {
    do throws(MarfaError) { return try session.kept.entries() } catch {
      if printsToken { return nil }
      throw MarfaError(
        .noKeychain, "\(error.message); nothing was asked for. 'login --print-token' signs in without keeping anything")
    }
  }

  /// What is kept; one that does not read is replaced like none (X22.3).
  private func entry(in kept: KeptCredentials) throws(MarfaError) -> KeptEntry? {
    do throws(KeyStoreError) { return try kept.entry(for: origin) } catch {
      if case .unreadable = error { return nil }
      throw MarfaError(.noKeychain, "\(error.description); nothing was asked for")
    }
  }

  private func scope(_ doors: SignInDoors) throws(MarfaError) -> Text {
    if let given = session.invocation.value("scope"), !Terminal.trimmed(given).isEmpty {
      return Terminal.trimmed(given)
    }
    let asked = doors.scopes.map { listed in defaultScopes.filter { listed.contains($0) } } ?? defaultScopes
    guard !asked.isEmpty else {
      throw MarfaError(.invalid, "\(origin) lists no scope this program asks for by itself; name some with --scope")
    }
    return Text(bytes: Array(asked.map(\.bytes).joined(separator: [0x20])))
  }

  // MARK: Registering and asking

  /// Asks for a code with the given or kept client; registers where there is none or it is known no more (K8.5).
  private func code(
    _ doors: SignInDoors, _ scope: Text, _ kept: KeptCredentials?
  ) throws(MarfaError) -> Code {
    guard let door = doors.device else {
      throw MarfaError(.invalid, "\(origin) does not sign in by a code, so nobody can sign in to it from here")
    }
    let known =
      session.invocation.value("client-id") ?? kept.flatMap { ((try? $0.client(for: origin)) ?? nil).map { Text($0) } }
    if let known {
      let answer = try requests.post(door, form: [("client_id", known), ("scope", scope)])
      if answer.isSuccess { return try read(answer, client: known) }
      guard SignInRequests.code(answer) == "invalid_client" else { throw requests.refusal(answer, "to give a code") }
    }
    let client = try register(doors, kept)
    let answer = try requests.post(door, form: [("client_id", client), ("scope", scope)])
    guard answer.isSuccess else { throw requests.refusal(answer, "to give a code") }
    return try read(answer, client: client)
  }

  private func register(_ doors: SignInDoors, _ kept: KeptCredentials?) throws(MarfaError) -> Text {
    guard let door = doors.registration else {
      throw MarfaError(.invalid, "\(origin) registers no clients by itself; name one with --client-id")
    }
    let answer = try requests.post(
      door,
      json: [
        "client_name": "marfa-folders", "application_type": "native",
        "grant_types": ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"], "response_types": [],
        "token_endpoint_auth_method": "none",
      ])
    guard answer.isSuccess else { throw requests.refusal(answer, "to register this program") }
    guard let client = try answer.json()["client_id"]?.text else {
      throw MarfaError(.decoding, "\(origin) registered this program and gave it no id")
    }
    // Kept apart from the sign-in, so that the next one reuses it (K8.6). One that is lost costs a registration.
    if let kept, !printsToken { try? kept.saveClient(client.string, for: origin) }
    return client
  }

  private func read(_ answer: Answer, client: Text) throws(MarfaError) -> Code {
    let body = try answer.json()
    guard let device = body["device_code"]?.text, let user = body["user_code"]?.text,
      let page = body["verification_uri"]?.text
    else { throw MarfaError(.decoding, "\(origin) gave a code that could not be read") }
    return Code(
      device: device, user: user, page: page, completePage: body["verification_uri_complete"]?.text,
      expiresIn: max(1, body["expires_in"]?.int ?? 600), interval: max(1, body["interval"]?.int ?? 5), client: client)
  }

  private func show(_ code: Code, _ scope: Text) {
    if output.json {
      output.record([
        "user_code": .string(code.user), "verification_uri": .string(code.page),
        "verification_uri_complete": .optional(code.completePage), "expires_in": .int(code.expiresIn),
        "scope": .string(scope),
      ])
    } else {
      let words = "Open \(code.page) and enter the code \(code.user) to sign in to \(origin)."
      // C20.8: the token set is then the one document on standard output.
      if printsToken { output.note(words) } else { output.line(words) }
    }
    if !session.invocation.has("no-browser") { openPage(code.completePage ?? code.page, session.program.environment) }
  }

  // MARK: Waiting for the person

  private func poll(_ code: Code, _ doors: SignInDoors) throws(MarfaError) -> Tokens {
    let clock = session.context.clock
    let end = clock.monotonic + UInt64(code.expiresIn) * 1_000_000_000
    var interval = UInt64(code.interval) * 1_000_000_000
    while true {
      let now = clock.monotonic
      guard now < end else { break }
      guard session.context.scheduler.wait(nanoseconds: min(interval, end - now), unless: session.program.stop) else {
        throw MarfaError(.canceled, "stopped before the sign-in was approved; nothing was kept")
      }
      guard clock.monotonic < end else { break }
      let answer: Answer
      do throws(MarfaError) {
        answer = try requests.post(
          doors.token,
          form: [
            ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"), ("device_code", code.device),
            ("client_id", code.client),
          ])
      } catch {
        // K14.5: a network that fails is not the end.
        if error.code == .network || error.code == .noConnection { continue }
        throw error
      }
      if answer.isSuccess { return try tokens(answer, code) }
      let said = SignInRequests.code(answer)
      if said == "authorization_pending" { continue }
      if said == "slow_down" {
        interval += 5_000_000_000
        continue
      }
      if said == "expired_token" { break }
      throw requests.refusal(answer, said == "access_denied" ? "the sign-in: it was declined" : "the sign-in")
    }
    throw MarfaError(
      .validation, "the code \(code.user) ended before it was approved; 'login' gives another",
      server: .init(code: "expired_token"))
  }

  private func tokens(_ answer: Answer, _ code: Code) throws(MarfaError) -> Tokens {
    let body = try answer.json()
    guard let access = body["access_token"]?.text?.string else {
      throw MarfaError(.decoding, "\(origin) approved the sign-in and gave no token")
    }
    return Tokens(
      access: access, refresh: body["refresh_token"]?.text?.string, expiresIn: body["expires_in"]?.int ?? 3600,
      scope: body["scope"]?.text ?? "", client: code.client)
  }

  // MARK: Keeping

  private func keep(
    _ tokens: Tokens, _ doors: SignInDoors, _ kept: KeptCredentials, replacing before: KeptEntry?
  ) -> Int32 {
    let end = Timestamp(milliseconds: session.context.clock.now.milliseconds + Int64(tokens.expiresIn) * 1000)
    let set = KeptToken(
      accessToken: tokens.access, refreshToken: tokens.refresh, expiresAt: end.description,
      clientID: tokens.client.string, scope: tokens.scope.string, tokenEndpoint: doors.token,
      revocationEndpoint: doors.revocation)
    do {
      try kept.save(.token(set), for: origin)
      try kept.setCurrent(origin)
    } catch {
      // C20.9: printed rather than lost.
      output.warning("the sign-in could not be kept (\(error)); its tokens are printed instead", always: true)
      output.json ? output.record(tokens.json) : output.document(tokens.json)
      return 0
    }
    var stands = false
    if case .token(let old)? = before { stands = !ended(old, replacedBy: set) }
    if output.json {
      var said = JSONObject([
        ("server", .string(origin)), ("scope", .string(tokens.scope)), ("kept", "keychain"),
      ])
      if stands { said["replaced_grant_stands"] = true }
      output.record(.object(said))
    } else {
      output.line("Signed in to \(origin); the sign-in is kept in the credential store.")
      if stands {
        output.line("The server did not confirm that the earlier sign-in ended: remove its approval there.")
      }
    }
    return 0
  }

  /// Ends the grant a sign-in replaced (K16.10). A client that was used again shares its grant: only the old access token
  /// is revoked then.
  private func ended(_ old: KeptToken, replacedBy new: KeptToken) -> Bool {
    let sharesGrant = old.clientID.utf8.elementsEqual(new.clientID.utf8)
    return revoke(old, requests, accessAlone: sharesGrant) ?? false
  }
}

/// Revokes a set at the server it came from: the refresh token first, which ends the grant (C21.1, K13.1).
/// - Returns: whether the server confirmed it; nil where an answer on another contract was not read.
private func revoke(_ set: KeptToken, _ requests: SignInRequests, accessAlone: Bool = false) -> Bool? {
  do throws(MarfaError) {
    // C2.7: nothing that carries a credential goes to a server of another contract.
    _ = try requests.connection.root()
    guard let door = set.revocationEndpoint else { return false }
    var tokens: [(Text, hint: Text)] = [(Text(set.accessToken), "access_token")]
    if let refresh = set.refreshToken, !accessAlone { tokens.insert((Text(refresh), "refresh_token"), at: 0) }
    for (token, hint) in tokens {
      let answer = try requests.post(
        door, form: [("token", token), ("token_type_hint", hint), ("client_id", Text(set.clientID))])
      guard answer.isSuccess else { return false }
    }
    return true
  } catch {
    return error.code == .contractMismatch ? nil : false
  }
}

@Sendable private func logout(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let session = Session(invocation)
  let address = try session.server().address
  let kept = try session.kept.entries()
  let requests = SignInRequests(address, session)
  let ended: KeptCredentials.SignOut
  do throws(KeptCredentials.Failure) {
    ended = try kept.signOut(address.origin) { revoke($0, requests) }
  } catch { throw MarfaError(error) }
  let output = session.program.output
  switch ended {
  case .key:
    throw MarfaError(.invalid, "a key is kept for \(address.origin), no sign-in; 'keys forget' forgets it")
  case .nothing:
    output.answer(
      ["server": .string(address.origin), "signed_out": false], ["no sign-in to \(address.origin) is kept"])
  case .ended(let revoked):
    let words =
      switch revoked {
      case true: "signed out of \(address.origin)"
      case false:
        "signed out of \(address.origin) here; the server did not confirm that the sign-in ended: remove its approval there"
      case nil:
        "signed out of \(address.origin) here; it speaks another contract now, so it was not asked to end the sign-in"
      }
    output.answer(
      [
        "server": .string(address.origin), "signed_out": true, "revoked": revoked.map { .bool($0) } ?? .null,
      ], [words])
  }
  return 0
}
