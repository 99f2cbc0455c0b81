import FolderSync
import MarfaBase
import MarfaCopy

/// `whoami`, `server` and `keys`.
func identityCommands() -> [Command] {
  [
    Command(
      name: "whoami", summary: "which server, instance and credential a bare command would use", run: whoami),
    Command(
      name: "server", summary: "what the server says of itself, and how many items it counts", run: describeServer),
    Command(
      name: "keys", summary: "keep a key in the credential store, forget it, show what it may do",
      commands: [
        Command(
          name: "keep", summary: "keep a key for the server, after one call with it succeeds",
          discussion: "The key is --key or --key-file, else MARFA_API_KEY, else one line of standard input.",
          run: keepKey),
        Command(name: "forget", summary: "forget the server's kept key", run: forgetKey),
        Command(name: "current", summary: "the key's own record: its label and permissions", run: currentKey),
      ]),
  ]
}

/// A server described from its root, on this contract or another (C2.7, C22, C23).
struct ServerDescription {
  /// The root document.
  var instance: JSON
  /// The contract the answer named.
  var served: String?
  /// The time the answer named.
  var date: Timestamp?

  /// Reads the root without a credential. A redirect is refused, another contract is not.
  init(of address: ServerAddress, in session: Session) throws(MarfaError) {
    let connection = ServerConnection(
      endpoint: Endpoint(baseURL: address.base, origin: address.origin, credential: nil), credentials: nil,
      context: session.context)
    let response: HTTPResponse
    do throws(TransportError) {
      response = try session.context.transport.send(
        HTTPRequest(method: "GET", url: address.base + "/", headers: [HTTPHeader("Accept", "application/json")]),
        stop: session.program.stop)
    } catch { throw connection.failure(error) }
    date = response.header("Date").flatMap { Timestamp(httpDate: $0) }
    served = response.header("X-Marfa-Contract").map { Terminal.trimmed(Text($0)).string }
    if (300..<400).contains(response.status) { _ = try connection.judged(response, wrote: false) }
    guard (200..<300).contains(response.status) else {
      // A refusal that names no contract comes from something in front of the server.
      throw connection.refusal(try connection.judged(response, wrote: false))
    }
    guard let document = try? JSON(parsing: response.body) else {
      throw MarfaError(.decoding, "the answer of \(address.origin) could not be read; it may be no Marfa server")
    }
    instance = document
  }

  /// Whether it is the contract this build speaks.
  var isOurs: Bool { served == ServerConnection.contract }

  /// `{"served","built_for"}`.
  var contract: JSON {
    [
      "served": served.flatMap { Int($0) }.map { .int($0) } ?? .null,
      "built_for": .int(Int(ServerConnection.contract) ?? 0),
    ]
  }

  /// The lines on what it is.
  func lines(_ address: ServerAddress) -> [String] {
    let name = instance["name"]?.text ?? "Marfa"
    let version = instance["version"]?.text.map { " \($0)" } ?? ""
    var lines = ["server \(address.origin): \(name)\(version), instance \(instance["instance_id"]?.text ?? "unnamed")"]
    if !isOurs {
      lines.append(
        "it speaks contract \(served ?? "none that it names"), this program speaks \(ServerConnection.contract): nothing else is asked of it"
      )
    }
    return lines
  }
}

@Sendable private func whoami(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let session = Session(invocation)
  let address = try session.server().address
  if address.isLocal { try session.program.startInstance() }
  let description = try ServerDescription(of: address, in: session)
  let credential = try session.namedCredential(for: address)
  var said = JSONObject()
  if let credential {
    let kind =
      credential.credential.hasPrefix("marfa_k1_")
      ? "key" : credential.credential.hasPrefix("marfa_at_") ? "token" : "unknown"
    said["kind"] = .string(kind)
    said["from"] = .string(credential.from)
    if let scope = credential.kept?.scope { said["scope"] = .string(scope) }
    if let expires = credential.kept?.expiresAt { said["expires_at"] = .string(expires) }
    if kind == "token" { said["person"] = try person(session, address, description, credential) }
  }
  let answer: JSON = [
    "server": .string(address.origin), "instance": description.instance, "contract": description.contract,
    "credential": credential == nil ? .null : .object(said),
  ]
  session.program.output.answer(answer, description.lines(address) + [credentialLine(said, credential)])
  return 0
}

/// The userinfo endpoint's answer for a token: left out where it is refused, null on another contract (C22.2).
private func person(
  _ session: Session, _ address: ServerAddress, _ description: ServerDescription, _ credential: Session.NamedCredential
) throws(MarfaError) -> JSON? {
  guard description.isOurs else { return .null }
  session.warnOfClearText(address)
  let connection = ServerConnection(
    endpoint: Endpoint(baseURL: address.base, origin: address.origin, credential: credential.credential),
    credentials: session.renewing, context: session.context)
  connection.stop = session.program.stop
  let doors = try SignInDoors(of: address, in: session)
  guard let userInfo = doors.userInfo, userInfo.hasPrefix(address.base) else { return nil }
  let answer = try connection.ask("GET", String(userInfo.dropFirst(address.base.count)))
  if answer.status == 401 || answer.status == 403 { return nil }
  guard answer.isSuccess else { throw connection.refusal(answer) }
  return try answer.json()
}

private func credentialLine(_ said: JSONObject, _ credential: Session.NamedCredential?) -> String {
  guard let credential else { return "credential: none" }
  var line = "credential: \(said["kind"]?.text ?? "unknown") from "
  switch credential.from {
  case "keychain": line += "the credential store"
  case "instance": line += "the local instance's own data"
  default: line += credential.from
  }
  if let scope = credential.kept?.scope { line += ", scope \(scope)" }
  if let expires = credential.kept?.expiresAt { line += ", until \(expires)" }
  if let person = said["person"]?["email"]?.text ?? said["person"]?["name"]?.text { line += ", signed in as \(person)" }
  return line
}

@Sendable private func describeServer(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let session = Session(invocation)
  let address = try session.server().address
  if address.isLocal { try session.program.startInstance() }
  let description = try ServerDescription(of: address, in: session)
  let credential = try session.namedCredential(for: address)
  var health = JSON.null
  var stats = JSON.null
  if description.isOurs {
    let connection = ServerConnection(
      endpoint: Endpoint(baseURL: address.base, origin: address.origin, credential: credential?.credential),
      credentials: session.renewing, context: session.context)
    connection.stop = session.program.stop
    health = try openRead("/health", connection, session)
    if credential != nil {
      session.warnOfClearText(address)
      stats = try connection.request("GET", "/items/stats").json()
    }
  }
  let answer: JSON = [
    "server": .string(address.origin), "instance": description.instance, "contract": description.contract,
    "health": health, "stats": stats, "credential": credential.map { .string($0.from) } ?? .null,
  ]
  var lines = description.lines(address)
  if let word = health["status"]?.text { lines.append("health: \(word)") }
  let counts = (stats.object?.members ?? []).compactMap { member in member.value.int.map { (member.key, $0) } }
  if !stats.isNull { lines.append(counted(counts.map(\.1).reduce(0, +), "item")) }
  lines += counts.map { "  \($0.0) \($0.1)" }
  lines.append("credential: \(credential?.from ?? "none")")
  session.program.output.answer(answer, lines)
  return 0
}

/// A read that needs no credential and sends none.
private func openRead(_ path: String, _ connection: ServerConnection, _ session: Session) throws(MarfaError) -> JSON {
  let request = try connection.made("GET", path, credential: nil)
  let response: HTTPResponse
  do throws(TransportError) {
    response = try session.context.transport.send(request, stop: session.program.stop)
  } catch { throw connection.failure(error) }
  let answer = try connection.judged(response, wrote: false)
  guard answer.isSuccess else { throw connection.refusal(answer) }
  return try answer.json()
}

@Sendable private func keepKey(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let session = Session(invocation)
  let address = try session.server().address
  guard !address.isLocal else {
    throw MarfaError(.invalid, "the local instance's key lies with its data and is read there; none is kept for it")
  }
  let key: String
  if let given = try session.givenKey() {
    key = given
  } else if let variable = session.program.variable("MARFA_API_KEY") {
    key = variable.string
  } else {
    if session.program.terminal.canAsk { session.program.terminal.ask("Key for \(address.origin): ") }
    guard let line = try session.program.terminal.readLine(), !Terminal.trimmed(line).isEmpty else {
      throw MarfaError(.invalid, "no key was given: use --key, MARFA_API_KEY or one line of standard input")
    }
    key = Terminal.trimmed(line).string
  }
  // X21.5: a lock that is not to be trusted is told before anything is sent.
  try session.kept.entries().requireLock(address.origin)
  session.warnOfClearText(address)
  let connection = ServerConnection(
    endpoint: Endpoint(baseURL: address.base, origin: address.origin, credential: key), credentials: nil,
    context: session.context)
  connection.stop = session.program.stop
  // C24.1: one call proves the key before it is kept.
  _ = try connection.request("GET", "/items/stats")
  try session.kept.keep(key: key, for: address.origin)
  session.program.output.answer(
    ["origin": .string(address.origin), "kept": "key"], ["the key for \(address.origin) is kept"])
  return 0
}

@Sendable private func forgetKey(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let session = Session(invocation)
  let address = try session.server().address
  let forgotten = try session.kept.forgetKey(for: address.origin)
  session.program.output.answer(
    ["origin": .string(address.origin), "forgotten": .bool(forgotten)],
    [forgotten ? "the key for \(address.origin) is forgotten" : "no key is kept for \(address.origin)"])
  return 0
}

@Sendable private func currentKey(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let session = Session(invocation)
  let key = try session.connection().request("GET", "/keys/current").json()
  let record = key["key"] ?? key
  var lines = ["key \(record["id"]?.text ?? "?")\(record["label"]?.text.map { " '\($0)'" } ?? "")"]
  // Each family as a sign-in's scope writes it.
  for (family, lead) in [
    ("type_permissions", ""), ("edge_permissions", "edge."), ("extension_permissions", "extension."),
    ("metadata_permissions", "metadata."), ("profile_permissions", "profile."),
  ] as [(Text, String)] {
    for member in record[family]?.object?.members ?? [] {
      lines.append("  \(lead)\(member.key): \(member.value.text?.string ?? member.value.compact)")
    }
  }
  if lines.count == 1 { lines.append("  it reaches nothing") }
  session.program.output.answer(key, lines)
  return 0
}
