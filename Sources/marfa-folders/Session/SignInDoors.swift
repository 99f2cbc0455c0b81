import MarfaBase
import MarfaCopy

/// The doors a server signs people in by, read from its discovery document and held to the origin that was asked (K7.4).
struct SignInDoors {
  /// Where clients register.
  let registration: String?
  /// Where a device code is asked for.
  let device: String?
  /// Where tokens are had and renewed.
  let token: String
  /// Where they are revoked.
  let revocation: String?
  /// Who a token speaks for.
  let userInfo: String?
  /// The scopes the server lists; nil where it lists none.
  let scopes: [Text]?
  private let site: String

  /// Reads the document of a server; no credential is sent.
  /// - Throws: `invalid` where the issuer or a door lies on another origin, or what kept the document from being read.
  init(of address: ServerAddress, in session: Session) throws(MarfaError) {
    site = address.isLocal ? address.base : address.site
    let connection = SignInRequests.connection(address, session)
    let request = try connection.made("GET", "/auth/.well-known/oauth-authorization-server", credential: nil)
    let answer = try SignInRequests(connection: connection, session: session).send(request)
    guard answer.isSuccess else { throw connection.refusal(answer) }
    let document = try answer.json()
    guard let issuer = document["issuer"]?.text?.string, SignInDoors.site(of: issuer) == site else {
      throw MarfaError(
        .invalid,
        "the sign-in of \(address.origin) names an issuer on another origin (\(document["issuer"]?.text ?? "none")); nothing was sent there"
      )
    }
    let site = site
    func door(_ name: Text) throws(MarfaError) -> String? {
      guard let url = document[name]?.text?.string else { return nil }
      guard SignInDoors.site(of: url) == site else {
        throw MarfaError(
          .invalid, "the sign-in of \(address.origin) names a \(name) on another origin; nothing was sent there")
      }
      return url
    }
    guard let token = try door("token_endpoint") else {
      throw MarfaError(.invalid, "\(address.origin) names no door for tokens, so nobody can sign in to it from here")
    }
    self.token = token
    registration = try door("registration_endpoint")
    device = try door("device_authorization_endpoint")
    revocation = try door("revocation_endpoint")
    userInfo = try door("userinfo_endpoint")
    scopes = document["scopes_supported"]?.array?.compactMap(\.text)
  }

  /// Whether a page lies on the server's own origin and is http or https (C20.2).
  func holds(_ page: String) -> Bool { SignInDoors.site(of: page) == site }

  /// Scheme, host and port of an http(s) address, as `ServerAddress.site` writes them; nil for any other.
  private static func site(of url: String) -> String? {
    guard !url.utf8.contains(where: { $0 <= 0x20 || $0 >= 0x7F || $0 == UInt8(ascii: "\\") }) else { return nil }
    let end = url.firstIndex { $0 == "?" || $0 == "#" } ?? url.endIndex
    guard let address = try? ServerAddress(Text(String(url[..<end]))) else { return nil }
    return address.isLocal ? address.base : address.site
  }
}

/// Requests of a sign-in: none carries a credential in its head, and each answer names the contract.
struct SignInRequests {
  let connection: ServerConnection
  let session: Session

  /// A connection that sends no credential.
  static func connection(_ address: ServerAddress, _ session: Session) -> ServerConnection {
    let connection = ServerConnection(
      endpoint: Endpoint(baseURL: address.base, origin: address.origin, credential: nil), credentials: nil,
      context: session.context)
    connection.stop = session.program.stop
    return connection
  }

  /// Requests to a server.
  init(_ address: ServerAddress, _ session: Session) {
    self.init(connection: SignInRequests.connection(address, session), session: session)
  }

  /// Requests over a connection.
  init(connection: ServerConnection, session: Session) {
    self.connection = connection
    self.session = session
  }

  /// Sends one; an answer of any status that names this contract.
  func send(_ request: HTTPRequest) throws(MarfaError) -> Answer {
    let response: HTTPResponse
    var request = request
    request.wholeTimeout = ServerConnection.callSeconds * 1_000_000_000
    do throws(TransportError) {
      response = try session.context.transport.send(request, stop: session.program.stop)
    } catch { throw connection.failure(error) }
    return try connection.judged(response, wrote: false)
  }

  /// Posts a form.
  func post(_ url: String, form: [(String, Text)]) throws(MarfaError) -> Answer {
    try post(url, "application/x-www-form-urlencoded", Array(queryText(form).utf8))
  }

  /// Posts JSON.
  func post(_ url: String, json: JSON) throws(MarfaError) -> Answer { try post(url, "application/json", json.write()) }

  private func post(_ url: String, _ type: String, _ body: [UInt8]) throws(MarfaError) -> Answer {
    try send(
      HTTPRequest(
        method: "POST", url: url,
        headers: [HTTPHeader("Content-Type", type), HTTPHeader("Accept", "application/json")], body: .bytes(body)))
  }

  /// OAuth's own code of a refusal (K7.5).
  static func code(_ answer: Answer) -> Text? { (try? JSON(parsing: answer.body))?["error"]?.text }

  /// A refusal of these doors: 4xx by OAuth's code, anything else as the server's.
  func refusal(_ answer: Answer, _ doing: String) -> MarfaError {
    guard let code = SignInRequests.code(answer), (400..<500).contains(answer.status), answer.status != 429,
      answer.status != 408
    else { return connection.refusal(answer) }
    let words = (try? JSON(parsing: answer.body))?["error_description"]?.text
    return MarfaError(
      .validation, "\(connection.origin) refused \(doing): \(words ?? code)",
      server: .init(status: answer.status, code: code))
  }
}
