import MarfaBase

/// Where the server is, and the credential to ask it with.
package struct Endpoint: Hashable, Sendable {
  /// The base of every request's address, without a trailing slash: `https://m.example/marfa`, or `http://local` for this
  /// machine's instance.
  package var baseURL: String
  /// Scheme, host, port and path prefix, as stores record it (D2.4).
  package var origin: String
  /// The key or access token; nil where none was given.
  package var credential: String?

  /// An endpoint. The origin is the base where none is named.
  package init(baseURL: String, origin: String? = nil, credential: String?) {
    var base = baseURL[...]
    while base.hasSuffix("/") { base = base.dropLast() }
    self.baseURL = String(base)
    self.origin = origin ?? String(base)
    self.credential = credential
  }
}

/// Why the environment names no server (S2.4).
package enum EnvironmentError: Error, Hashable, Sendable, CustomStringConvertible {
  /// One of the two variables stands without the other, which is named.
  case missing(String)
  /// The address names no server: the address, without user and query.
  case notAServer(String)

  /// What is wrong, in words.
  package var description: String {
    switch self {
    case .missing(let name): "\(name) is not set, and the other one is: a server takes its address and a key"
    case .notAServer(let address): "MARFA_API_URL names no server: \(address)"
    }
  }
}

extension Endpoint {
  /// The server that `MARFA_API_URL` and `MARFA_API_KEY` name; nil where neither is set (K17.6). Blank counts as not set.
  /// - Parameter variable: the environment.
  package static func fromEnvironment(_ variable: (String) -> String?) throws(EnvironmentError) -> Endpoint? {
    func value(_ name: String) -> String? {
      guard let text = variable(name), text.utf8.contains(where: { $0 > 0x20 }) else { return nil }
      return text
    }
    let (url, key) = (value("MARFA_API_URL"), value("MARFA_API_KEY"))
    guard let url else {
      if key != nil { throw .missing("MARFA_API_URL") }
      return nil
    }
    guard let key else { throw .missing("MARFA_API_KEY") }
    let isWeb = url.utf8.starts(with: "http://".utf8) || url.utf8.starts(with: "https://".utf8)
    let authority = url.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false).dropFirst(2).first ?? ""
    guard isWeb, isAbsoluteURL(Text(url)), !authority.isEmpty, !authority.contains("@"), !url.contains("?"),
      !url.contains("#")
    else {
      // Never with what may be a password in it.
      let shown = authority.split(separator: "@").last ?? ""
      throw .notAServer(isWeb ? "http(s)://\(shown.prefix { $0 != "?" && $0 != "#" })" : "an address of another scheme")
    }
    return Endpoint(baseURL: url, credential: key)
  }
}

/// Where credentials are kept; the command hands the copy Keyring's.
package protocol CredentialStore: AnyObject {
  /// The credential kept for an origin, read again; nil where none is.
  /// - Throws: `no_keychain` where one is kept and cannot be read (K16.2).
  func credential(for origin: String) throws(MarfaError) -> String?
  /// Renews a sign-in whose token was refused, or takes up the one another process renewed meanwhile (K16.3, K16.4).
  /// Returns the credential to ask with; nil where there is nothing to renew (a key).
  /// - Throws: `signed_out` where the sign-in has ended, the cause where the renewal could not be asked.
  func renew(_ refused: String, for origin: String) throws(MarfaError) -> String?
}

/// An answer of an instance of this contract, of any status.
package struct Answer: Sendable {
  /// The status.
  package var status: Int
  /// The header lines.
  package var headers: [HTTPHeader]
  /// The body.
  package var body: [UInt8]

  init(_ response: HTTPResponse) {
    status = response.status
    headers = response.headers
    body = response.body
  }

  /// The first header of a name.
  package func header(_ name: String) -> String? {
    HTTPResponse(status: status, headers: headers).header(name)
  }

  /// Whether the status is a success.
  package var isSuccess: Bool { (200..<300).contains(status) }

  /// The body read as JSON.
  /// - Throws: `decoding`.
  package func json() throws(MarfaError) -> JSON {
    do throws(JSONError) { return try JSON(parsing: body) } catch {
      throw MarfaError(.decoding, "the server's answer could not be read: \(error.description)")
    }
  }
}

/// A text in a path segment or a query, percent-encoded one by one (Q32.6).
package func percentEncoded(_ text: Text) -> String {
  var out = ""
  let digits = Array("0123456789ABCDEF")
  for byte in text.bytes {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
      UInt8(ascii: "~"):
      out.unicodeScalars.append(Unicode.Scalar(byte))
    default: out += "%\(digits[Int(byte >> 4)])\(digits[Int(byte & 15)])"
    }
  }
  return out
}

/// A query as it goes on the wire, without its `?`.
package func queryText(_ query: [(String, Text)]) -> String {
  query.map { "\(percentEncoded(Text($0.0)))=\(percentEncoded($0.1))" }.joined(separator: "&")
}
