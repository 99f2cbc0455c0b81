import MarfaBase

/// Judges a request's head before the engine sees it: what libmicrohttpd lets pass and we do not (platform notes 5), and
/// who may ask a listener on TCP (N2.1).
struct Admission {
  /// A request that goes no further.
  struct Refused: Error, Hashable {
    var status: Int
    var code: String
    var message: String
  }

  /// How a listener is guarded.
  enum Guard: Sendable {
    /// A unix socket of mode 0600; its peer is proven by the kernel.
    case ownUser
    /// TCP on loopback: a page of another origin must not reach it under a name that leads here.
    case loopback
    /// TCP for others, by the person's word (`--allow-public`).
    case open
  }

  /// Most bytes of a JSON body of any door (ER2.4: bulk); the engine's own limits are lower.
  static let bodyLimit = 16_777_216
  /// The path and query to hand on, and the most bytes its body may have.
  static func judge(
    target raw: [UInt8], method: String, version: String, headers: [HTTPHeader], guard listener: Guard
  ) throws(Refused) -> (target: String, bodyLimit: Int) {
    func bad(_ message: String) -> Refused { Refused(status: 400, code: "validation_error", message: message) }
    func values(_ name: String) -> [String] { headers.filter { isNamed($0.name, name) }.map(\.value) }
    let hosts = values("host")
    if hosts.count > 1 || hosts.isEmpty && version.utf8.elementsEqual("HTTP/1.1".utf8) {
      throw bad("A request names its host once.")
    }
    let lengths = values("content-length")
    let isChunked = !values("transfer-encoding").isEmpty
    if lengths.count > 1 || isChunked && !lengths.isEmpty { throw bad("A body's length is given once.") }
    if let length = lengths.first, Int(length) == nil || !length.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
      throw bad("Content-Length is a number.")
    }
    guard let target = origin(raw) else { throw bad("The path is not one this instance can read.") }
    try checkNames(host: hosts.first ?? "", origins: values("origin"), guard: listener)
    let path = target.utf8.prefix { $0 != UInt8(ascii: "?") }
    let isUpload = method.utf8.elementsEqual("POST".utf8) && path.elementsEqual("/blobs".utf8)
    let limit = isUpload ? Int.max : bodyLimit
    if let length = lengths.first.flatMap({ Int($0) }), length > limit { throw tooLarge(limit) }
    return (target, limit)
  }

  /// `413 request_too_large`.
  static func tooLarge(_ limit: Int) -> Refused {
    Refused(status: 413, code: "request_too_large", message: "A body here has at most \(limit) bytes.")
  }

  /// A request line's target as path and query; the absolute form loses scheme and authority.
  private static func origin(_ raw: [UInt8]) -> String? {
    guard let text = String(validating: raw, as: UTF8.self), !raw.contains(where: { $0 <= 0x20 || $0 == 0x7F }) else {
      return nil
    }
    if raw.first == UInt8(ascii: "/") { return text }
    for scheme in ["http://", "https://"] where lower(String(text.prefix(scheme.count))).elementsEqual(scheme.utf8) {
      let rest = text.dropFirst(scheme.count)
      guard let slash = rest.firstIndex(where: { $0 == "/" || $0 == "?" }) else { return "/" }
      return rest[slash] == "/" ? String(rest[slash...]) : "/" + rest[slash...]
    }
    return raw.elementsEqual("*".utf8) ? "*" : nil
  }

  private static func checkNames(host: String, origins: [String], guard listener: Guard) throws(Refused) {
    let own: Bool
    switch listener {
    case .ownUser: return
    case .loopback: own = isLoopback(host)
    case .open: own = true
    }
    func forbidden(_ message: String) -> Refused { Refused(status: 403, code: "forbidden", message: message) }
    guard own else { throw forbidden("This instance does not answer under that host name.") }
    for origin in origins where !lower(origin).elementsEqual(lower("http://" + host)) {
      throw forbidden("A page of another origin may not ask this instance.")
    }
  }

  /// Whether a Host header names loopback, with or without a port.
  private static func isLoopback(_ host: String) -> Bool {
    var name = lower(host)
    if let colon = name.lastIndex(of: UInt8(ascii: ":")),
      name[(colon + 1)...].allSatisfy({ (0x30...0x39).contains($0) }),
      name.first != UInt8(ascii: "[") || name[..<colon].last == UInt8(ascii: "]")
    {
      name = Array(name[..<colon])
    }
    if name.elementsEqual("localhost".utf8) || name.elementsEqual("[::1]".utf8) { return true }
    let parts = name.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    return parts.count == 4 && parts[0].elementsEqual("127".utf8)
      && parts.allSatisfy { part in
        (1...3).contains(part.count) && part.allSatisfy { (0x30...0x39).contains($0) }
      }
  }

  private static func lower(_ text: String) -> [UInt8] {
    text.utf8.map { $0 >= 0x41 && $0 <= 0x5A ? $0 | 0x20 : $0 }
  }
}
