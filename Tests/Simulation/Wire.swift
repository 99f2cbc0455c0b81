import MarfaBase

/// What one machine puts on the wire, and what must hold of it whatever becomes of its process: a write keeps its key, and
/// a key its write (Q3.3).
struct Wire {
  /// A write as the server sees it, its key aside.
  private struct Sent: Hashable {
    var method: String
    var url: String
    var body: [UInt8]
  }

  private var writes: [String: Sent] = [:]
  /// Writes whose answer never came, by what they ask for.
  private var unanswered: [Sent: String] = [:]
  /// What was seen and must not be.
  private(set) var violation: String?

  private static func read(_ request: HTTPRequest) -> (key: String, sent: Sent)? {
    let key = request.headers.first { $0.name.lowercased() == "idempotency-key" }?.value
    guard let key, case let body = request.body else { return nil }
    switch body {
    case .bytes(let bytes): return (key, Sent(method: request.method, url: request.url, body: bytes))
    case .none: return (key, Sent(method: request.method, url: request.url, body: []))
    case .file: return nil
    }
  }

  mutating func sends(_ request: HTTPRequest) {
    guard let (key, sent) = Wire.read(request) else { return }
    if let before = writes[key], before != sent {
      violation =
        "the key \(key) went out with \(before.method) \(before.url) \(String(decoding: before.body, as: UTF8.self)), "
        + "then with \(sent.method) \(sent.url) \(String(decoding: sent.body, as: UTF8.self))"
    }
    if let first = unanswered[sent], first != key {
      violation = "\(sent.method) \(sent.url) went out under \(first), got no answer, and went out again under \(key)"
    }
    writes[key] = sent
    unanswered[sent] = key
  }

  mutating func isAnswered(_ request: HTTPRequest) {
    if let (_, sent) = Wire.read(request) { unanswered[sent] = nil }
  }
}
