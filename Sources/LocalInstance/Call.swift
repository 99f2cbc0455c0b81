import MarfaBase

/// One request on its way through.
final class Call {
  let request: InstanceRequest
  let method: String
  let target: Target
  let requestID: String
  var door = Door(run: { _, _ in .refused(.notFound) })
  /// Who asks; set before a door that needs a credential runs.
  var credential = Credential.nobody
  /// The path's variable segments.
  var parts: [Text] = []
  var idempotencyKey: String?
  var extraHeaders: [HTTPHeader] = []
  /// What the request needed, for holding a replay to it (I24.11).
  var needs = NeededGrants()
  /// The item the answer shows, for keeping the answer without a second copy of it.
  var shown: ItemRow?

  init(_ request: InstanceRequest, requestID: String) {
    self.request = request
    self.requestID = requestID
    method = request.method
    target = Target(request.target)
  }

  var query: Query { target.query }

  /// The first header of a name given in lower case.
  func header(_ name: String) -> String? { request.headers.first { isNamed($0.name, name) }?.value }

  func headerCount(_ name: String) -> Int { request.headers.count { isNamed($0.name, name) } }

  /// Whether the body says it is JSON.
  var isJSON: Bool {
    guard let type = header("content-type") else { return false }
    let media = type.utf8.prefix { $0 != UInt8(ascii: ";") }
    return lowercased(String(decoding: trimmed(Array(media)), as: UTF8.self)) == "application/json"
  }

  /// The body as a JSON object (ER2.2, I102).
  func object() throws -> JSONObject {
    guard isJSON else { throw Refusal.invalid("", "The body is not sent as application/json.") }
    let value: JSON
    do { value = try JSON(parsing: request.body, depth: 64) } catch {
      throw Refusal.invalid("", "The body is no JSON of at most 64 levels: \(error.reason).")
    }
    guard let object = value.object else { throw Refusal.invalid("", "The body is not a JSON object.") }
    return object
  }

  /// The id in the path, which has to be a lowercase UUIDv7 (I19.1).
  func id(_ place: Int = 0) throws -> EntityID {
    guard parts.count > place, let id = strictID(parts[place]) else { throw Refusal.invalidID }
    return id
  }

  /// Whether a browser asks: `Accept` puts `text/html` before JSON (ER1.3).
  var prefersPage: Bool {
    guard let accept = header("accept") else { return false }
    func weight(_ type: String) -> Double? {
      for part in accept.split(separator: ",") {
        let pieces = part.split(separator: ";").map { $0.filter { $0 != " " } }
        guard let first = pieces.first, first == type else { continue }
        return pieces.dropFirst().first { $0.hasPrefix("q=") }.flatMap { Double($0.dropFirst(2)) } ?? 1
      }
      return nil
    }
    guard let page = weight("text/html") else { return false }
    return page > (weight("application/json") ?? weight("application/*") ?? 0) && page > (weight("*/*") ?? 0)
  }
}

extension Credential {
  /// Stands in a call until one is read; reaches nothing.
  static let nobody = Credential(
    kind: .key, id: EntityID(high: 0, low: 0), label: "", source: "", sources: [], permissions: [],
    defaultTier: "library", types: GrantMap(JSONObject()), edges: GrantMap(JSONObject()),
    extensions: GrantMap(JSONObject()), metadata: GrantMap(JSONObject()), profile: GrantMap(JSONObject()),
    created: Timestamp(milliseconds: 0), expires: nil, lastUsed: nil)
}

/// What a door answers.
struct Reply {
  var status: Int
  var body: [UInt8]
  var headers: [HTTPHeader] = []
  var code: String?
  /// Whether it is no JSON of ours: bytes of a blob, a redirect, a page.
  var isBare = false
  /// The body, where it is too long to be held whole.
  var source: (any EventSource)?

  static func json(_ status: Int, _ value: JSON) -> Reply { Reply(status: status, body: value.write()) }
  static func text(_ status: Int, _ body: [UInt8]) -> Reply { Reply(status: status, body: body) }
  static var ok: Reply { Reply(status: 200, body: Array("{\"ok\":true}".utf8)) }

  static func refused(_ refusal: Refusal) -> Reply {
    Reply(status: refusal.status, body: refusal.body, headers: refusal.headers, code: refusal.code)
  }

  /// Whether it hands back the row a stale write met: never as a page (versions.md 5).
  var isConflict: Bool { code == "version_conflict" || code == "ancestor_unavailable" }

  /// Whether a matching read view is certified on it (RV6.3, RV6.4).
  func isCertified(_ door: Door) -> Bool {
    switch (status, code) {
    case (200..<300, _): true
    case (404, "item_not_found"?), (404, "edge_not_found"?), (403, "type_not_permitted"?),
      (403, "edge_permission_denied"?):
      true
    case (403, "forbidden"?): door.isKeysCurrent
    default: false
    }
  }
}

/// An id that is a lowercase UUIDv7, or nil (I0.1).
func strictID(_ text: Text) -> EntityID? {
  guard let id = EntityID(text), id.isVersion7, !text.bytes.contains(where: { (0x41...0x5A).contains($0) }) else {
    return nil
  }
  return id
}
