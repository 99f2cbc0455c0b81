import MarfaBase

/// What the root says of an instance (IN1).
package struct ServerRoot: Hashable, Sendable {
  /// The name to show: `Marfa` where the owner set none.
  package var name: Text
  /// The software's version.
  package var version: Text
  /// The instance.
  package var instanceID: EntityID
  /// The served contract, as the header named it.
  package var contract: String
  /// What the instance offers; an open list.
  package var features: [Text]
}

/// Requests to one server: authenticated, the contract compared on every answer, refusals typed (device chapters 9, 10).
///
/// The root is read once, without the credential, before the first request that carries it (C2.7). Used from one thread.
package final class ServerConnection {
  /// The contract spoken here (IN1.3).
  package static let contract = "0"

  /// The server; nil where none is named.
  package let endpoint: Endpoint?
  let credentials: (any CredentialStore)?
  let context: Context
  /// Asks requests to end.
  package var stop = StopFlag()
  private var credential: String?
  /// When a call with a bound of its own is over, on the clock of timers.
  private var deadline: UInt64?
  var isRootKnown = false
  /// Judges the root before the first request that carries the credential: a copy that belongs to another instance sends
  /// nothing there (D2.5).
  var confirms: ((ServerRoot) throws(MarfaError) -> Void)?

  /// A connection. Nothing is sent yet.
  package init(endpoint: Endpoint?, credentials: (any CredentialStore)?, context: Context) {
    self.endpoint = endpoint
    self.credentials = credentials
    self.context = context
    credential = endpoint?.credential
  }

  /// The server's origin, for messages.
  package var origin: String { endpoint?.origin ?? "no server" }

  /// Takes another credential up (D208.1).
  package func use(credential: String?) { self.credential = credential }

  // MARK: - The root

  /// Reads the root, without a credential.
  /// - Throws: `contract_mismatch`, `redirect`, `decoding`, or why there was no answer.
  package func root() throws(MarfaError) -> ServerRoot {
    let answer = try judged(send(try made("GET", "/", view: nil, credential: nil)), wrote: false)
    guard answer.isSuccess else { throw refusal(answer) }
    let json = try answer.json()
    guard let instance = json["instance_id"]?.text.flatMap({ EntityID($0) }) else {
      throw MarfaError(.decoding, "\(origin) names no instance at its root")
    }
    isRootKnown = true
    let name = json["name"]?.text ?? "marfa"
    return ServerRoot(
      name: name == "marfa" ? "Marfa" : name, version: json["version"]?.text ?? "", instanceID: instance,
      contract: ServerConnection.contract, features: (json["features"]?.array ?? []).compactMap(\.text))
  }

  // MARK: - Requests

  /// Asks with the credential; an answer of any status that names this contract. A 401 renews a sign-in once (K16.3).
  /// - Parameters:
  ///   - path: percent-encoded; it may carry its own `?query`, sent as written.
  ///   - view: the read view a certified read presents.
  ///   - ahead: the same read begun before (`begin`), whose answer is taken where it fits.
  /// - Throws: `redirect`, `contract_mismatch`, `unnamed_answer`, `network`, `canceled`, `no_credential`, `no_server`.
  package func ask(
    _ method: String, _ path: String, query: [(String, Text)] = [], body: HTTPBody = .none, headers: [HTTPHeader] = [],
    view: Text? = nil, ahead: Ahead? = nil
  ) throws(MarfaError) -> Answer {
    if !isRootKnown {
      let root = try root()
      do throws(MarfaError) { try confirms?(root) } catch {
        isRootKnown = false
        throw error
      }
    }
    let target = query.isEmpty ? path : "\(path)?\(queryText(query))"
    let isWrite = method != "GET" && method != "HEAD"
    let token = try currentCredential()
    var request = try made(method, target, body: body, headers: headers, view: view, credential: token)
    var answer = try judged(send(request, ahead), wrote: isWrite)
    if answer.status == 401, let renewed = try renew(token) {
      request = try made(method, target, body: body, headers: headers, view: view, credential: renewed)
      answer = try judged(send(request), wrote: isWrite)
    }
    return answer
  }

  /// Asks with the credential; a success.
  /// - Throws: what `ask` throws, and the refusal of an answer that is no success.
  package func request(
    _ method: String, _ path: String, query: [(String, Text)] = [], body: HTTPBody = .none, headers: [HTTPHeader] = [],
    view: Text? = nil
  ) throws(MarfaError) -> Answer {
    let answer = try ask(method, path, query: query, body: body, headers: headers, view: view)
    guard answer.isSuccess else { throw refusal(answer) }
    return answer
  }

  /// An authenticated request for a caller that sends it itself (a pool, a stream). The root must have been read.
  package func made(
    _ method: String, _ target: String, body: HTTPBody = .none, headers: [HTTPHeader] = [], view: Text? = nil,
    credential: String?
  ) throws(MarfaError) -> HTTPRequest {
    guard let endpoint else { throw MarfaError(.noServer, "no server is named") }
    var lines: [HTTPHeader] = []
    if let credential { lines.append(HTTPHeader("Authorization", "Bearer \(credential)")) }
    if !headers.contains(where: { $0.name == "Accept" }) { lines.append(HTTPHeader("Accept", "application/json")) }
    if let view { lines.append(HTTPHeader("X-Marfa-Read-View", view.string)) }
    if case .bytes = body, !headers.contains(where: { $0.name == "Content-Type" }) {
      lines.append(HTTPHeader("Content-Type", "application/json"))
    }
    var request = HTTPRequest(method: method, url: endpoint.baseURL + target, headers: lines + headers, body: body)
    request.takesBody = ServerConnection.isOfThisContract
    return request
  }

  /// Whether an answer's body will be read: judged on the headers, as `judged` does, so that a body that never ends is not
  /// waited for where the answer is refused anyway (D42.3).
  @Sendable static func isOfThisContract(_ response: HTTPResponse) -> Bool {
    let named = response.headers.filter { isContract($0.name) }
    return !(300..<400).contains(response.status) && !named.isEmpty
      && named.allSatisfy { trimmed($0.value).utf8.elementsEqual(contract.utf8) }
  }

  /// The credential requests go under.
  package func currentCredential() throws(MarfaError) -> String {
    guard let endpoint else { throw MarfaError(.noServer, "no server is named") }
    if credential == nil { credential = try credentials?.credential(for: endpoint.origin) }
    guard let credential else {
      throw MarfaError(.noCredential, "no credential is kept for \(origin); `login` makes one")
    }
    return credential
  }

  /// A credential to ask with instead of a refused one; nil where there is none. One that another process renewed
  /// meanwhile is taken up as it is.
  package func renew(_ refused: String) throws(MarfaError) -> String? {
    guard let endpoint, let credentials, !stop.isSet else { return nil }
    guard let renewed = try credentials.renew(refused, for: endpoint.origin), renewed != refused else { return nil }
    credential = renewed
    return renewed
  }

  /// Seconds a call the copy does not answer waits in all, a renewal included (K17.2, D42.10).
  package static let callSeconds: UInt64 = 20

  /// Runs a call's requests under one bound.
  /// - Throws: `network` once it is over, and what the call throws.
  func bounded<Value>(_ call: () throws(MarfaError) -> Value) throws(MarfaError) -> Value {
    let outer = deadline
    let own = context.clock.monotonic + ServerConnection.callSeconds * 1_000_000_000
    deadline = min(outer ?? own, own)
    defer { deadline = outer }
    return try call()
  }

  func send(_ asked: HTTPRequest) throws(MarfaError) -> HTTPResponse {
    if stop.isSet { throw stopped }
    var request = asked
    if let deadline {
      let now = context.clock.monotonic
      guard now < deadline else {
        throw failure(.timedOut("no answer within \(ServerConnection.callSeconds) s"))
      }
      request.wholeTimeout = deadline - now
    }
    do throws(TransportError) { return try context.transport.send(request, stop: stop) } catch { throw failure(error) }
  }

  private func send(_ request: HTTPRequest, _ ahead: Ahead?) throws(MarfaError) -> HTTPResponse {
    guard let begun = ahead?.answer(to: request) else { return try send(request) }
    do throws(TransportError) { return try begun.get() } catch { throw failure(error) }
  }

  /// A read begun before its answer is needed, so that the server works on it meanwhile. Let go unasked, it ends.
  package final class Ahead {
    private let request: HTTPRequest
    private let pool: any RequestPool

    fileprivate init(_ request: HTTPRequest, _ pool: any RequestPool) {
      self.request = request
      self.pool = pool
      pool.start(request, tag: 0)
    }

    deinit { pool.cancel() }

    /// Its answer, waited for, where it is the answer to this request; nil where it is not.
    fileprivate func answer(to asked: HTTPRequest) -> Result<HTTPResponse, TransportError>? {
      guard asked.method.utf8.elementsEqual(request.method.utf8), asked.url.utf8.elementsEqual(request.url.utf8),
        asked.headers == request.headers
      else { return nil }
      return pool.next()?.result
    }
  }

  /// Begins a read that `ask` is given later. Nil where it cannot be begun now; then it is sent when it is asked.
  func begin(_ path: String, query: [(String, Text)], view: Text?) -> Ahead? {
    guard isRootKnown, deadline == nil, !stop.isSet, let token = try? currentCredential(),
      let request = try? made("GET", "\(path)?\(queryText(query))", view: view, credential: token)
    else { return nil }
    return Ahead(request, context.transport.pool(stop: stop))
  }

  var stopped: MarfaError { MarfaError(.canceled, "stopped") }

  /// Why no answer came, in our classes.
  package func failure(_ error: TransportError) -> MarfaError {
    switch error {
    case .unreachable(let why): MarfaError(.network, "\(origin) could not be reached: \(why)")
    case .noConnection(let why): MarfaError(.noConnection, "this machine has no network: \(why)")
    case .timedOut(let why): MarfaError(.network, "\(origin) could not be reached in time: \(why)")
    case .tooLarge: MarfaError(.decoding, "\(origin) answered more than an answer may hold")
    case .local(let error): MarfaError(error)
    case .stopped: stopped
    }
  }

  // MARK: - Judging answers

  /// Judges an answer by redirect and contract, before its body is read (D42, IN3).
  package func judged(_ response: HTTPResponse, wrote: Bool) throws(MarfaError) -> Answer {
    let status = response.status
    if (300..<400).contains(status) {
      let location = response.header("Location")
      throw MarfaError(
        .redirect,
        "\(origin) answered \(status) and points \(location.map { "to \($0)" } ?? "nowhere"); redirects are not followed",
        server: .init(
          status: status, details: location.map { ["location": .string($0)] }))
    }
    let named = response.headers.filter { ServerConnection.isContract($0.name) }.map {
      ServerConnection.trimmed($0.value)
    }
    let sent = wrote ? " The write was sent and may have taken effect." : ""
    if let first = named.first {
      guard named.allSatisfy({ $0.utf8.elementsEqual(first.utf8) }),
        first.utf8.elementsEqual(ServerConnection.contract.utf8)
      else {
        throw MarfaError(
          .contractMismatch,
          "\(origin) speaks contract \(named.joined(separator: " and ")), not \(ServerConnection.contract) "
            + "(status \(status)).\(sent)", server: .init(status: status))
      }
    } else if (200..<300).contains(status) {
      throw MarfaError(
        .contractMismatch,
        "an answer of \(origin) names no contract (status \(status)); it may not come from a Marfa server.\(sent)",
        server: .init(status: status), reason: "no_contract")
    } else {
      throw MarfaError(
        .unnamedAnswer,
        "something in front of \(origin) answered \(status) without naming a contract; if this repeats while the server "
          + "otherwise answers, the X-Marfa-Contract header is being lost on the way", server: .init(status: status),
        retryAfter: retryAfter(response.header("Retry-After")))
    }
    return Answer(response)
  }

  private static func isContract(_ name: String) -> Bool {
    name.utf8.map { $0 | 0x20 }.elementsEqual("x-marfa-contract".utf8.map { $0 | 0x20 })
  }

  private static func trimmed(_ value: String) -> String {
    var value = value[...]
    while let first = value.first, first == " " || first == "\t" { value = value.dropFirst() }
    while let last = value.last, last == " " || last == "\t" { value = value.dropLast() }
    return String(value)
  }

  /// The error a refusal is (ER16), with the server's code, words and details.
  package func refusal(_ answer: Answer) -> MarfaError {
    let body = try? JSON(parsing: answer.body)
    let code = body?["error"]?["code"]?.text
    let said = MarfaError.Server(status: answer.status, code: code, details: body?["error"]?["details"])
    var message = body?["error"]?["message"]?.text?.string ?? "\(origin) answered \(answer.status)"
    if answer.status == 401 {
      // The server's own words do not say which server, nor what to do.
      while message.hasSuffix(".") { message.removeLast() }
      message =
        "\(origin) refused the credential: \(message); give a working one with --key or `keys keep`, or sign in with `login`"
    }
    let kind: MarfaError.Code =
      switch answer.status {
      case 400 where code == "unknown_type", 422 where code == "unknown_type": .unknownType
      case 400, 422: .validation
      case 401: .unauthorized
      case 403: .forbidden
      case 404: .notFound
      case 409 where code == "version_conflict": .versionConflict
      case 409: .conflict
      case 413: .tooLarge
      case 429: .rateLimited
      default: .server
      }
    return MarfaError(
      kind, message, server: said, retryAfter: retryAfter(answer.header("Retry-After")), body: body)
  }

  /// Seconds a `Retry-After` asks for: whole seconds or an HTTP date; unreadable counts as absent, past as 0 (ER13.1).
  package func retryAfter(_ value: String?) -> Int? {
    guard let value = value.map(ServerConnection.trimmed) else { return nil }
    if let seconds = Int(value) { return max(0, seconds) }
    guard let date = Timestamp(httpDate: value) else { return nil }
    return max(0, Int((date.milliseconds - context.clock.now.milliseconds + 999) / 1000))
  }
}

extension Timestamp {
  /// The instant of an HTTP date in its preferred form: `Sun, 06 Nov 1994 08:49:37 GMT`.
  package init?(httpDate: String) {
    let parts = httpDate.split(whereSeparator: { $0 == " " || $0 == "," || $0 == ":" || $0 == "-" })
    guard parts.count == 8, let day = Int64(parts[1]), let year = Int64(parts[3]), let hour = Int64(parts[4]),
      let minute = Int64(parts[5]), let second = Int64(parts[6]),
      let month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        .firstIndex(of: String(parts[2]))
    else { return nil }
    let days = Timestamp.dayNumber(year: year, month: Int64(month + 1), day: day)
    self.init(milliseconds: (days * 86_400 + hour * 3600 + minute * 60 + second) * 1000)
  }
}
