import LocalInstance
import MarfaBase
import MarfaCopy
import TestSupport

/// Stands in for the instance's resumed copy streams, one answer for each opening; every other request goes through.
final class StreamScript {
  /// What an opening is answered.
  enum Answer {
    /// Frames, each a piece of its own; the server ends the stream after them, or keeps still.
    case frames([String], silent: Bool = false)
    /// No answer.
    case dropped
    /// A whole answer.
    case status(Int, named: Bool = true, body: String = "", headers: [HTTPHeader] = [])
    /// The instance's own stream.
    case real
  }

  /// Where each opening stood.
  private(set) var opened: [String] = []
  /// Called when an opening finds no answer left; the opening is then dropped.
  var atEnd: () -> Void = {}
  private var answers: [Answer]

  init(_ bench: CopyBench, _ answers: [Answer]) {
    self.answers = answers
    let before = bench.transport.before
    let handle = bench.transport.handle
    bench.transport.before = { [self] request in
      if let scripted = before?(request) { return scripted }
      guard let cursor = StreamScript.cursor(request.url, request.headers) else { return nil }
      opened.append(cursor)
      switch self.answers.first {
      case .dropped?:
        self.answers.removeFirst()
        return .failure(.unreachable("dropped"))
      case .status(let status, let named, let body, let headers)?:
        self.answers.removeFirst()
        return .success(
          HTTPResponse(
            status: status, headers: (named ? [HTTPHeader("X-Marfa-Contract", "0")] : []) + headers,
            body: Array(body.utf8)))
      case nil:
        atEnd()
        return .failure(.unreachable("nothing more"))
      case .frames?, .real?: return nil
      }
    }
    bench.transport.handle = { [self] request in
      guard StreamScript.cursor(request.target, request.headers) != nil else { return handle(request) }
      guard case .frames(let frames, let silent)? = self.answers.first else {
        if !self.answers.isEmpty { self.answers.removeFirst() }
        return handle(request)
      }
      self.answers.removeFirst()
      return .stream(
        head: HTTPResponse(status: 200, headers: [HTTPHeader("X-Marfa-Contract", "0")]),
        source: Source(frames, silent))
    }
  }

  private static func cursor(_ url: String, _ headers: [HTTPHeader]) -> String? {
    guard url.contains("/events") else { return nil }
    return headers.first { $0.name == "Last-Event-ID" }?.value
  }

  private final class Source: EventSource {
    private var frames: ArraySlice<String>
    private let silent: Bool
    var unread = 0

    init(_ frames: [String], _ silent: Bool) {
      self.frames = [": connected\n\n"] + frames[...]
      self.silent = silent
    }

    func take() -> [UInt8]? {
      if let next = frames.popFirst() { return Array(next.utf8) }
      return silent ? [] : nil
    }

    func close() {}
  }
}

extension CopyBench {
  /// A record of the store.
  func meta(_ key: String) throws -> Text? {
    try database.one("SELECT value FROM meta WHERE key = ?", key) { $0.optionalText(0) } ?? nil
  }

  /// A frame of an event stream.
  func frame(_ name: Text, id: Text? = nil, _ data: JSON) -> String {
    let line = id.map { "id: \($0)\n" } ?? ""
    return "\(line)event: \(name)\ndata: \(data.compact)\n\n"
  }

  /// A marker at a cursor, with the copy's instance and view.
  func marker(_ name: Text, _ cursor: Text) throws -> String {
    frame(
      name,
      [
        "event_type": .string(name), "cursor": .string(cursor), "instance_id": .optional(try meta("instance_id")),
        "read_view": .optional(try meta("read_view")),
      ])
  }

  /// A head, frames, and a live marker at the last position.
  func stream(head: Text = "1000", _ frames: [String], live: Text? = nil) throws -> [String] {
    [try marker("stream_cursor", head)] + frames + [try marker("stream_live", live ?? head)]
  }

  /// A head and frames, and no live marker.
  func cut(head: Text = "1000", _ frames: [String]) throws -> [String] {
    [try marker("stream_cursor", head)] + frames
  }

  /// An item event.
  func event(
    _ name: Text = "item.updated", at position: Text, _ id: EntityID, type: Text = "core.note", tier: Text = "library",
    state: Text = "active", version: Int = 1, updated: Timestamp? = nil, title: Text = "Scripted",
    properties: JSONObject = JSONObject(), tags: [Text] = [], listed: JSON? = true
  ) -> String {
    var all = JSONObject([("title", .string(title)), ("body", "Words.")])
    for (key, value) in properties.members { all[key] = value }
    let now = (updated ?? later()).text
    let item: JSON = [
      "id": .string(id.text), "type": .string(type), "properties": .object(all), "state": .string(state),
      "tier": .string(tier), "version": .int(version), "schema_version": 1, "occurred_at": .string(now),
      "created_at": .string(now), "updated_at": .string(now),
    ]
    let metadata: JSON = [
      "item_id": .string(id.text), "tags": .array(tags.map { .string($0) }), "extensions": [:],
    ]
    var data: JSONObject = ["event_type": .string(name), "item": item, "metadata": metadata]
    data["listed"] = listed
    return frame(name, id: position, .object(data))
  }

  /// An edge event.
  func edgeEvent(
    _ name: Text = "edge.created", at position: Text, _ id: EntityID, _ type: Text, _ source: EntityID,
    _ target: EntityID, version: Int = 1, properties: JSONObject = JSONObject()
  ) -> String {
    let now = later().text
    return frame(
      name, id: position,
      [
        "event_type": .string(name),
        "edge": [
          "id": .string(id.text), "source_id": .string(source.text), "target_id": .string(target.text),
          "edge_type": .string(type), "properties": .object(properties), "version": .int(version),
          "created_at": .string(now), "updated_at": .string(now),
        ], "source_type": "core.note",
      ])
  }

  /// A moment after everything so far.
  func later(_ seconds: Int64 = 60) -> Timestamp { Timestamp(milliseconds: clock.now.milliseconds + seconds * 1000) }

  /// A new id.
  func newID() -> EntityID { context.ids.next() }

  /// A certified answer to a request, as an instance gives one.
  func certified(_ request: HTTPRequest, _ body: JSON, status: Int = 200) -> Result<HTTPResponse, TransportError> {
    var headers = [HTTPHeader("X-Marfa-Contract", "0")]
    if let view = request.headers.first(where: { $0.name == "X-Marfa-Read-View" }) { headers.append(view) }
    return .success(HTTPResponse(status: status, headers: headers, body: body.write()))
  }

  /// An answer of an instance with no view to it.
  func named(
    _ status: Int, _ code: Text = "some_code", headers: [HTTPHeader] = []
  ) -> Result<HTTPResponse, TransportError> {
    let body: JSON = ["error": ["code": .string(code), "message": "Said by a test."]]
    return .success(
      HTTPResponse(status: status, headers: [HTTPHeader("X-Marfa-Contract", "0")] + headers, body: body.write()))
  }

  /// The refusal of a write whose row moved, with the row as it stands (ER5).
  func conflict(_ id: EntityID) -> Result<HTTPResponse, TransportError> {
    let current = (try? ask("GET", "/items/\(id)"))?["item"] ?? .null
    let body: JSON = ["error": ["code": "version_conflict", "status": 409, "message": "Moved."], "current": current]
    return .success(
      HTTPResponse(status: 409, headers: [HTTPHeader("X-Marfa-Contract", "0")], body: body.write()))
  }

  /// Edits an item as another device does.
  func edit(_ id: EntityID, version: Int, _ members: JSONObject) throws {
    var body = members
    body["version"] = .int(version)
    try ask("PATCH", "/items/\(id)", .object(body))
  }

  /// A key with reaches; its text.
  func makeKey(_ types: JSON, edges: JSON = ["*": "write"]) throws -> (id: Text, key: String) {
    let made = try ask("POST", "/keys", ["label": "K", "type_permissions": types, "edge_permissions": edges])
    guard let key = made["key"]?.text, let id = made["id"]?.text else {
      throw ScratchError(made.compact)
    }
    return (id, key.string)
  }

  /// The titles the copy lists, ascending.
  func held() throws -> [Text] {
    var query = ListQuery()
    query.states = ["active", "archived", "trashed"]
    return titles(try copy.list(query)).sorted()
  }

  /// Makes the copy stale: the log lets its cursor go.
  func goStale() throws {
    for _ in 0..<2 { try note("Later", type: "core.bookmark") }
    clock.advance(seconds: 3600 * 24 * 400)
    try instance.sweep()
    guard refusal({ try copy.catchUp() })?.reason == "catchup_too_old" else { throw ScratchError("not stale") }
  }
}
