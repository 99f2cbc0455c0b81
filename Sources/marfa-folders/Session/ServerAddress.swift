import Glibc
import MarfaBase
import MarfaCopy

/// A server's base address as a person gives it, judged before anything is sent.
struct ServerAddress: Sendable {
  /// The base of requests: `https://m.example/marfa`, `http://local` for this machine's instance.
  let base: String
  /// What stands for the server in stores, in the credential store and in messages: the base, or `local` (N2.1).
  let origin: String
  /// Whether it is this machine's own instance.
  let isLocal: Bool
  /// Scheme, host and port alone, for the cleartext warning (C2.8).
  let site: String
  /// Whether a credential would cross a network in clear text.
  let isClearText: Bool

  /// The address of this machine's own instance.
  static let local = ServerAddress(
    base: "http://local", origin: "local", isLocal: true, site: "local", isClearText: false)

  private init(base: String, origin: String, isLocal: Bool, site: String, isClearText: Bool) {
    self.base = base
    self.origin = origin
    self.isLocal = isLocal
    self.site = site
    self.isClearText = isClearText
  }

  /// Reads an address.
  /// - Throws: `invalid`, naming what is wrong; never with what may be a password in it.
  init(_ text: Text) throws(MarfaError) {
    let given = Terminal.trimmed(text)
    if given == "local" || given == "http://local" {
      self = .local
      return
    }
    guard let string = String(validating: given.bytes, as: UTF8.self),
      string.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
    else { throw MarfaError(.invalid, "a server's address holds no spaces and nothing beyond ASCII") }
    let lower = string.lowercased()
    guard let scheme = ["http://", "https://"].first(where: { lower.hasPrefix($0) }) else {
      throw MarfaError(.invalid, "a server's address begins with http:// or https://, or is the word local")
    }
    let rest = string.dropFirst(scheme.count)
    let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    guard !authority.contains("@") else {
      throw MarfaError(.invalid, "a server's address holds no user and no password; a key is given by --key")
    }
    guard !authority.isEmpty else { throw MarfaError(.invalid, "the server's address names no host") }
    let path = rest.dropFirst(authority.count)
    guard !path.contains("?"), !path.contains("#") else {
      throw MarfaError(.invalid, "a server's address holds no query and no fragment")
    }
    let host = ServerAddress.host(of: authority.lowercased())
    var prefix = path
    while prefix.hasSuffix("/") { prefix = prefix.dropLast() }
    site = scheme + ServerAddress.withoutDefaultPort(authority.lowercased(), scheme)
    base = site + prefix
    origin = base
    isLocal = false
    isClearText = scheme == "http://" && !ServerAddress.isThisMachine(host)
  }

  private static func host(of authority: String) -> String {
    if authority.hasPrefix("[") { return String(authority.dropFirst().prefix { $0 != "]" }) }
    return String(authority.prefix { $0 != ":" })
  }

  private static func withoutDefaultPort(_ authority: String, _ scheme: String) -> String {
    let port = scheme == "http://" ? ":80" : ":443"
    return authority.hasSuffix(port) ? String(authority.dropLast(port.count)) : authority
  }

  /// `localhost`, `127.0.0.0/8` and `::1`, and nothing that only looks like them (C2.8).
  private static func isThisMachine(_ host: String) -> Bool {
    if host == "localhost" || host == "::1" { return true }
    var address = in_addr()
    return inet_pton(AF_INET, host, &address) == 1 && UInt32(bigEndian: address.s_addr) >> 24 == 127
  }
}
