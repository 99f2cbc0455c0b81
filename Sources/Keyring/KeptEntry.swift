import MarfaBase

/// What is kept for a server's origin (X22.2): a key, or the whole of a sign-in, written in one piece (K16.1).
public enum KeptEntry: Hashable, Sendable {
  /// An API key.
  case key(String)
  /// A sign-in.
  case token(KeptToken)

  /// What a request is sent with.
  public var credential: String {
    switch self {
    case .key(let key): key
    case .token(let token): token.accessToken
    }
  }

  /// Reads the secret of an entry; nil for what is none (X22.3). Unknown members are ignored.
  init?(_ secret: [UInt8]) {
    guard case .object(let members)? = try? JSON(parsing: secret) else { return nil }
    func text(_ name: Text) -> String? {
      if case .string(let text)? = members[name], !text.isEmpty { text.string } else { nil }
    }
    switch text("kind") {
    case .some(let kind) where kind.utf8.elementsEqual("key".utf8):
      guard let key = text("key") else { return nil }
      self = .key(key)
    case .some(let kind) where kind.utf8.elementsEqual("token".utf8):
      guard let access = text("access_token"), let expiry = text("expires_at"), KeptToken.time(expiry) != nil,
        let client = text("client_id"), let endpoint = text("token_endpoint")
      else { return nil }
      self = .token(
        KeptToken(
          accessToken: access, refreshToken: text("refresh_token"), expiresAt: expiry, clientID: client,
          scope: text("scope") ?? "", tokenEndpoint: endpoint, revocationEndpoint: text("revocation_endpoint")))
    default: return nil
    }
  }

  /// The secret of an entry.
  var secret: [UInt8] {
    func optional(_ text: String?) -> JSON { text.map { .string($0) } ?? .null }
    let object: JSON
    switch self {
    case .key(let key): object = ["kind": "key", "key": .string(key)]
    case .token(let token):
      object = [
        "kind": "token", "access_token": .string(token.accessToken), "refresh_token": optional(token.refreshToken),
        "expires_at": .string(token.expiresAt), "client_id": .string(token.clientID), "scope": .string(token.scope),
        "token_endpoint": .string(token.tokenEndpoint), "revocation_endpoint": optional(token.revocationEndpoint),
      ]
    }
    return object.write()
  }
}

/// A sign-in's set of tokens and where they are renewed and revoked.
public struct KeptToken: Hashable, Sendable {
  /// The access token.
  public var accessToken: String
  /// The refresh token, spent by one use (K12.1).
  public var refreshToken: String?
  /// When the access token ends, RFC 3339.
  public var expiresAt: String
  /// The registered client it was granted to.
  public var clientID: String
  /// What was granted.
  public var scope: String
  /// Where it is renewed.
  public var tokenEndpoint: String
  /// Where it is revoked.
  public var revocationEndpoint: String?

  /// A set of these parts.
  public init(
    accessToken: String, refreshToken: String?, expiresAt: String, clientID: String, scope: String,
    tokenEndpoint: String, revocationEndpoint: String?
  ) {
    self.accessToken = accessToken
    self.refreshToken = refreshToken
    self.expiresAt = expiresAt
    self.clientID = clientID
    self.scope = scope
    self.tokenEndpoint = tokenEndpoint
    self.revocationEndpoint = revocationEndpoint
  }

  /// Whether the access token has ended by then, or ends within 60 seconds of it (K16.3).
  public func isEnding(at now: Timestamp) -> Bool {
    guard let end = Self.time(expiresAt) else { return true }
    return end.milliseconds <= now.milliseconds + 60_000
  }

  /// An RFC 3339 time, to the millisecond.
  static func time(_ text: String) -> Timestamp? {
    let bytes = Array(text.utf8)
    func number(_ from: Int, _ count: Int) -> Int64? {
      guard from + count <= bytes.count else { return nil }
      var value: Int64 = 0
      for byte in bytes[from..<(from + count)] {
        guard (0x30...0x39).contains(byte) else { return nil }
        value = value * 10 + Int64(byte - 0x30)
      }
      return value
    }
    func has(_ place: Int, _ one: Character) -> Bool { place < bytes.count && bytes[place] == one.asciiValue }
    guard let year = number(0, 4), has(4, "-"), let month = number(5, 2), (1...12).contains(month), has(7, "-"),
      let day = number(8, 2), (1...31).contains(day), has(10, "T") || has(10, "t") || has(10, " "),
      let hour = number(11, 2), hour < 24, has(13, ":"), let minute = number(14, 2), minute < 60, has(16, ":"),
      let second = number(17, 2), second <= 60
    else { return nil }
    var at = 19
    var fraction: Int64 = 0
    if has(at, ".") {
      let digits = bytes[(at + 1)...].prefix { (0x30...0x39).contains($0) }
      guard !digits.isEmpty else { return nil }
      var scale: Int64 = 100
      for digit in digits.prefix(3) {
        fraction += Int64(digit - 0x30) * scale
        scale /= 10
      }
      at += 1 + digits.count
    }
    var offset: Int64 = 0
    if has(at, "Z") || has(at, "z") {
      at += 1
    } else {
      guard has(at, "+") || has(at, "-"), let hours = number(at + 1, 2), hours < 24, has(at + 3, ":"),
        let minutes = number(at + 4, 2), minutes < 60
      else { return nil }
      offset = (hours * 60 + minutes) * (has(at, "-") ? -1 : 1)
      at += 6
    }
    guard at == bytes.count else { return nil }
    let days = Timestamp.dayNumber(year: year, month: month, day: day)
    let seconds = days * 86_400 + hour * 3600 + (minute - offset) * 60 + second
    return Timestamp(milliseconds: seconds * 1000 + fraction)
  }
}
