import FolderSync
import Glibc
import MarfaBase
import MarfaCopy

/// A command's way to its server: the address, the credential, and what the copy's rooms stand on (C2).
struct Session {
  /// The program.
  let program: Program
  /// The options of the command line.
  let invocation: Invocation
  /// The credential store.
  let kept: any Keychain
  /// The clock, the disk, the network.
  let context: Context
  private var chosen: ServerAddress?

  /// The way of a command line.
  init(_ invocation: Invocation) {
    self.invocation = invocation
    program = invocation.program
    context = program.context()
    kept = program.credentialStore(context)
  }

  /// The same command line at a server chosen for it: `add --local`, or what a terminal's question was answered with.
  func at(_ address: ServerAddress) -> Session {
    var session = self
    session.chosen = address
    return session
  }

  // MARK: - The address

  /// A server's address and who named it.
  struct NamedServer {
    /// The address.
    var address: ServerAddress
    /// Whether an option or the environment named it (C2.4).
    var isGiven: Bool
  }

  /// The server a command line names: `--url`, else `MARFA_API_URL`, else the kept origin (C2.2), else the one the folder
  /// was added with (N2.11). nil where none does.
  func namedServer(folderServer: Text? = nil) throws(MarfaError) -> NamedServer? {
    if let chosen { return NamedServer(address: chosen, isGiven: true) }
    if let url = invocation.value("url"), !Terminal.trimmed(url).isEmpty {
      return NamedServer(address: try ServerAddress(url), isGiven: true)
    }
    if let url = program.variable("MARFA_API_URL") {
      return NamedServer(address: try ServerAddress(url), isGiven: true)
    }
    if let origin = kept.currentOrigin() { return NamedServer(address: try ServerAddress(origin), isGiven: false) }
    if let origin = folderServer { return NamedServer(address: try ServerAddress(origin), isGiven: false) }
    return nil
  }

  /// The server a command needs.
  /// - Throws: `no_server`.
  func server(folderServer: Text? = nil) throws(MarfaError) -> NamedServer {
    guard let server = try namedServer(folderServer: folderServer) else {
      throw MarfaError(
        .noServer,
        "no server is named: give its address with --url or MARFA_API_URL, sign in with 'login', or use --url local for an instance on this computer"
      )
    }
    return server
  }

  // MARK: - The credential

  /// A credential and where it came from (C22.1).
  struct NamedCredential {
    /// What to ask with.
    var credential: String
    /// `--key`, `MARFA_API_KEY`, `keychain`, or `instance` for the local instance's own owner key (N2.1).
    var from: String
    /// A sign-in's facts, where one was kept.
    var kept: KeptCredential?
  }

  /// The credential for a server: `--key` or `--key-file`, else `MARFA_API_KEY`, else the kept one; at `local` the
  /// instance's owner key before the kept one.
  func namedCredential(for address: ServerAddress) throws(MarfaError) -> NamedCredential? {
    if let key = try givenKey() { return NamedCredential(credential: key, from: "--key") }
    if let key = program.variable("MARFA_API_KEY") {
      return NamedCredential(credential: try credentialText(key), from: "MARFA_API_KEY")
    }
    if address.isLocal {
      return try program.instanceOwnerKey().map { NamedCredential(credential: $0, from: "instance") }
    }
    guard let entry = try kept.entry(for: address.origin) else { return nil }
    return NamedCredential(credential: entry.credential, from: "keychain", kept: entry)
  }

  /// Where a refused credential is renewed: the credential store, but for one given by option or environment, which is
  /// answered for by who gave it (C2.4, C2.5).
  var renewing: (any CredentialStore)? {
    let isGiven =
      invocation.has("key-file") || program.variable("MARFA_API_KEY") != nil
      || invocation.value("key").map { !Terminal.trimmed($0).isEmpty } ?? false
    return isGiven ? nil : kept
  }

  /// The key of `--key` or `--key-file`; nil where neither is given.
  func givenKey() throws(MarfaError) -> String? {
    if let path = invocation.value("key-file") {
      let bytes = try readFile(program.absolute(PathBytes(path)), in: context.files, limit: 65536)
      let line = Text(bytes: bytes.prefix { $0 != 0x0A && $0 != 0x0D })
      guard !Terminal.trimmed(line).isEmpty else {
        throw MarfaError(.invalid, "the file --key-file names holds no key: \(path)")
      }
      return try credentialText(line)
    }
    guard let key = invocation.value("key") else { return nil }
    if key == "-" {
      guard let line = try program.terminal.readLine(), !Terminal.trimmed(line).isEmpty else {
        throw MarfaError(.invalid, "standard input holds no key")
      }
      return try credentialText(line)
    }
    // C2.1 holds for the variable; an empty --key counts as absent too.
    return Terminal.trimmed(key).isEmpty ? nil : try credentialText(key)
  }

  private func credentialText(_ text: Text) throws(MarfaError) -> String {
    let trimmed = Terminal.trimmed(text)
    guard let string = String(validating: trimmed.bytes, as: UTF8.self),
      string.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
    else { throw MarfaError(.invalid, "the key holds characters no key has") }
    return string
  }

  /// The credential a command needs.
  /// - Throws: `no_credential`, naming the four ways to give one (C2.3).
  func credential(for address: ServerAddress) throws(MarfaError) -> NamedCredential {
    guard let credential = try namedCredential(for: address) else {
      throw MarfaError(
        .noCredential,
        "no credential for \(address.origin): give a key with --key or MARFA_API_KEY, keep one with 'keys keep', or sign in with 'login'"
      )
    }
    return credential
  }

  // MARK: - Asking

  /// The endpoint of a command that needs server and credential. The local instance is started where it does not run
  /// (N2.9), and a credential about to go out in clear text is warned of (C2.8).
  func endpoint(folderServer: Text? = nil) throws(MarfaError) -> (endpoint: Endpoint, address: ServerAddress) {
    let named = try server(folderServer: folderServer)
    if named.address.isLocal { try program.startInstance() }
    let credential = try credential(for: named.address)
    warnOfClearText(named.address)
    return (
      Endpoint(baseURL: named.address.base, origin: named.address.origin, credential: credential.credential),
      named.address
    )
  }

  /// The endpoint of a command that uses a server where one is named with a credential, and goes on without.
  func optionalEndpoint(folderServer: Text? = nil) throws(MarfaError) -> Endpoint? {
    guard let named = try namedServer(folderServer: folderServer) else { return nil }
    if named.address.isLocal { try program.startInstance() }
    guard let credential = try namedCredential(for: named.address) else { return nil }
    warnOfClearText(named.address)
    return Endpoint(baseURL: named.address.base, origin: named.address.origin, credential: credential.credential)
  }

  /// A connection with server and credential.
  func connection() throws(MarfaError) -> ServerConnection {
    let (endpoint, _) = try endpoint()
    let connection = ServerConnection(endpoint: endpoint, credentials: renewing, context: context)
    connection.stop = program.stop
    return connection
  }

  /// Warns once of a credential over plain http to another machine (C2.8). One command asks one origin, so once a run.
  func warnOfClearText(_ address: ServerAddress) {
    guard address.isClearText, !allowsHTTP else { return }
    program.output.warning(
      "the credential goes to \(address.site) in clear text, which others on the way can read; use https, or say --allow-http or MARFA_ALLOW_HTTP=1 if that is meant",
      always: true)
  }

  private var allowsHTTP: Bool {
    if invocation.has("allow-http") { return true }
    let word = Text(bytes: Terminal.trimmed(program.environment["MARFA_ALLOW_HTTP"] ?? "").bytes.map { $0 | 0x20 })
    // "1" with the case bit set stays "1".
    return ["1", "true", "yes", "on"].contains { word == $0 }
  }
}

/// A whole small file.
/// - Throws: `io` naming the path, `invalid` where it is larger than `limit`.
func readFile(_ path: PathBytes, in files: any FileSystem, limit: Int) throws(MarfaError) -> [UInt8] {
  do throws(FileError) {
    let file = try files.openDirectory(path.parent.isEmpty ? "." : path.parent).open(path.name)
    var bytes: [UInt8] = []
    while true {
      let piece = try file.read(limit: 65536)
      if piece.isEmpty { break }
      bytes += piece
      guard bytes.count <= limit else { break }
    }
    guard bytes.count <= limit else { throw FileError(code: EFBIG, operation: "read", path: path) }
    return bytes
  } catch { throw MarfaError(error.of(path)) }
}

extension FileError {
  /// The failure, told of the whole path a person gave.
  func of(_ path: PathBytes) -> FileError { FileError(code: code, operation: operation, path: path) }
}
