import MarfaBase
import Synchronization
import Testing

@testable import MarfaCopy

/// A small server for answers no healthy one gives: items, edges and tags by version and idempotency key, and a hook that
/// stands in for any request. It merges nothing; what turns on merging is tested against the real instance.
final class FakeServer: Transport {
  /// What a hook does with a request.
  enum Act: Sendable {
    /// Answered as usual.
    case usual
    /// Never arrives.
    case drop
    /// Taken, and its answer lost.
    case loseAnswer
    /// Answered so instead.
    case answer(Int, String, [HTTPHeader])
    /// The same without the contract's header.
    case unnamed(Int, String)
  }

  struct Sent: Sendable {
    var method: String
    var target: String
    var key: String?
    var body: String
    var isWrite: Bool { method != "GET" && !target.hasPrefix("/items/bulk-get") }
  }

  struct State {
    var items: [Text: JSONObject] = [:]
    var tags: [Text: [Text]] = [:]
    var edges: [Text: JSONObject] = [:]
    var keys: [String: (String, HTTPResponse)] = [:]
    var sent: [Sent] = []
    var hook: (@Sendable (Sent, Int) -> Act)?
    var made = 0
    var up = true
    var instance = Sample.id(0x1).text
    var tick: Int64 = 0
    /// Where set, requests of a pool arrive and are answered in a random order.
    var random: SplitMix?
    /// Whether answers of a pool come together, rather than one by one.
    var together = false
  }

  let state: Mutex<State>
  static let view = String(repeating: "a", count: 64)

  init() { state = Mutex(State()) }

  var sent: [Sent] { state.withLock { $0.sent } }
  var writes: [Sent] { sent.filter(\.isWrite) }
  func forgetRequests() { state.withLock { $0.sent = [] } }
  /// Stands in for writes, and for reads too where told: told the request and its number among the writes, from 1.
  func hook(all: Bool = false, _ act: (@Sendable (Sent, Int) -> Act)?) {
    var hook: (@Sendable (Sent, Int) -> Act)?
    if let act { hook = { sent, number in all || sent.isWrite ? act(sent, number) : Act.usual } }
    let made = hook
    state.withLock { state in
      state.hook = made
      state.made = 0
    }
  }
  var up: Bool {
    get { state.withLock { $0.up } }
    set { state.withLock { $0.up = newValue } }
  }

  func pool(stop: StopFlag) -> any RequestPool { Pool(self) }

  func send(_ request: HTTPRequest, stop: StopFlag) throws(TransportError) -> HTTPResponse {
    if stop.isSet { throw .stopped }
    return try answer(request).get()
  }

  func stream(
    _ request: HTTPRequest, silence: UInt64, stop: StopFlag, head: (HTTPResponse) -> StreamStep,
    piece: ([UInt8]) -> StreamStep
  ) throws(TransportError) -> StreamEnd {
    guard up else { throw .unreachable("down") }
    let instance = state.withLock { $0.instance }
    _ = head(HTTPResponse(status: 200, headers: [HTTPHeader("X-Marfa-Contract", "0")]))
    for name in ["stream_cursor", "stream_live"] {
      let data =
        #"{"event_type":"\#(name)","cursor":"1","instance_id":"\#(instance)","read_view":"\#(FakeServer.view)"}"#
      if case .enough = piece(Array("event: \(name)\ndata: \(data)\n\n".utf8)) { return .closed }
    }
    return .ended
  }

  private final class Pool: RequestPool {
    let server: FakeServer
    private var waiting: [(Int, HTTPRequest)] = []
    init(_ server: FakeServer) { self.server = server }
    func start(_ request: HTTPRequest, tag: Int) { waiting.append((tag, request)) }
    var inFlight: Int { waiting.count }
    func next() -> (tag: Int, result: Result<HTTPResponse, TransportError>)? {
      if waiting.isEmpty { return nil }
      let count = waiting.count
      let place = server.state.withLock { state in
        guard var random = state.random else { return 0 }
        let place = Int(random.next() % UInt64(count))
        state.random = random
        return place
      }
      let (tag, request) = waiting.remove(at: place)
      return (tag, server.answer(request))
    }
    func ready() -> (tag: Int, result: Result<HTTPResponse, TransportError>)? {
      server.state.withLock { $0.together } ? next() : nil
    }
    func cancel() { waiting = [] }
  }

  private func answer(_ request: HTTPRequest) -> Result<HTTPResponse, TransportError> {
    state.withLock { state in
      let target = String(request.url.dropFirst("http://fake".count))
      var body: [UInt8] = []
      if case .bytes(let bytes) = request.body { body = bytes }
      let key = request.headers.first { $0.name == "Idempotency-Key" }?.value
      let sent = Sent(
        method: request.method, target: target, key: key, body: String(decoding: body, as: UTF8.self))
      guard state.up else { return .failure(.unreachable("down")) }
      state.sent.append(sent)
      if sent.isWrite { state.made += 1 }
      switch state.hook?(sent, state.made) ?? .usual {
      case .usual: return .success(Self.usual(sent, body, request, &state))
      case .drop: return .failure(.unreachable("dropped"))
      case .loseAnswer:
        _ = Self.usual(sent, body, request, &state)
        return .failure(.unreachable("the connection broke"))
      case .answer(let status, let text, let headers):
        return .success(
          HTTPResponse(status: status, headers: headers + [HTTPHeader("X-Marfa-Contract", "0")], body: Array(text.utf8))
        )
      case .unnamed(let status, let text): return .success(HTTPResponse(status: status, body: Array(text.utf8)))
      }
    }
  }

  private static func usual(
    _ sent: Sent, _ body: [UInt8], _ request: HTTPRequest, _ state: inout State
  ) -> HTTPResponse {
    let print = "\(sent.method) \(sent.target) \(sent.body)"
    if let key = sent.key, let (first, answer) = state.keys[key] {
      if first != print { return made(422, ["error": ["code": "idempotency_key_reused"]], request) }
      var again = answer
      again.headers.append(HTTPHeader("Idempotency-Replayed", "true"))
      return again
    }
    let (status, json) = route(sent, (try? JSON(parsing: body)) ?? .null, &state)
    let answer = made(status, json, request)
    if let key = sent.key, status < 500, status != 401, status != 403 { state.keys[key] = (print, answer) }
    return answer
  }

  private static func made(_ status: Int, _ json: JSON, _ request: HTTPRequest) -> HTTPResponse {
    var headers = [HTTPHeader("X-Marfa-Contract", "0")]
    if let view = request.headers.first(where: { $0.name == "X-Marfa-Read-View" }) { headers.append(view) }
    return HTTPResponse(status: status, headers: headers, body: json.write())
  }

  private static func route(_ sent: Sent, _ body: JSON, _ state: inout State) -> (Int, JSON) {
    let path = sent.target.split(separator: "?")[0].split(separator: "/").map { Text($0) }
    state.tick += 1
    let now = Timestamp(milliseconds: Sample.now.milliseconds + state.tick).text
    let missing: (Int, JSON) = (404, ["error": ["code": "item_not_found", "message": "No such item."]])
    func conflict(_ current: JSONObject) -> (Int, JSON) {
      let error: JSON = ["code": "version_conflict", "status": 409]
      return (409, ["error": error, "current": .object(current)])
    }
    func row(_ item: JSONObject, _ more: [(Text, JSON)] = []) -> JSON {
      let id = item["id"]?.text ?? ""
      let tags: JSON = .array((state.tags[id] ?? []).map { .string($0) })
      let metadata: JSON = ["item_id": .string(id), "tags": tags, "extensions": [:]]
      var members: JSONObject = ["item": .object(item), "metadata": metadata, "listed": true]
      for (key, value) in more { members[key] = value }
      return .object(members)
    }
    switch (sent.method, path.count) {
    case ("GET", 0): return (200, ["name": "marfa", "version": "1", "instance_id": .string(state.instance)])
    case ("GET", 1) where path[0] == "items":
      let rows = state.items.values.filter {
        $0["state"] == "trashed" && sent.target.contains($0["id"]?.text?.string ?? "-")
      }
      return (200, ["data": .array(rows.map { row($0) }), "next_cursor": .null])
    case ("GET", 1) where path[0] == "types" || path[0] == "edge-types":
      guard let catalog = try? Catalog.shipped() else { return missing }
      let listed: [JSON] =
        path[0] == "types" ? catalog.types.values.map(\.definition) : catalog.edgeTypes.values.map(\.definition)
      return (200, ["data": .array(listed), "next_cursor": .null])
    case ("GET", 1): return (200, ["data": [], "next_cursor": .null])
    case ("GET", 2) where path[0] == "items":
      guard let item = state.items[path[1]], item["state"] != "trashed" else { return missing }
      return (200, row(item))
    case ("GET", 2) where path[0] == "edges":
      guard let edge = state.edges[path[1]] else { return (404, ["error": ["code": "edge_not_found"]]) }
      return (200, ["edge": .object(edge)])
    case ("POST", 2) where path[1] == "bulk-get":
      var items: [JSONObject] = []
      for id in (body["ids"]?.array ?? []).compactMap(\.text) {
        if let item = state.items[id], item["state"] != "trashed" { items.append(item) }
      }
      let metadata: [JSON] = items.map { row($0)["metadata"] ?? .null }
      return (200, ["items": .array(items.map { JSON.object($0) }), "metadata": .array(metadata)])
    case ("POST", 1) where path[0] == "items":
      let id: Text = body["id"]?.text ?? Sample.id(0xF000 + UInt64(state.tick)).text
      if let held = state.items[id] { return (200, row(held, [("acknowledged", true)])) }
      var item: JSONObject = ["id": .string(id), "state": "active", "version": 1, "schema_version": 1]
      item["source"] = "laptop"
      item["created_at"] = .string(now)
      item["updated_at"] = .string(now)
      item["occurred_at"] = body["occurred_at"] ?? .string(now)
      for member: Text in ["type", "tier", "properties", "source_id"] { item[member] = body[member] }
      state.items[id] = item
      return (201, row(item))
    case ("PATCH", 2) where path[0] == "items":
      guard var item = state.items[path[1]], item["state"] != "trashed" else { return missing }
      guard body["version"] == item["version"] else {
        return conflict(item)
      }
      var properties = body["properties_mode"] == "replace" ? JSONObject() : item["properties"]?.object ?? JSONObject()
      for (key, value) in body["properties"]?.object?.members ?? [] { properties[key] = value }
      item["properties"] = .object(properties)
      for member: Text in ["type", "tier", "occurred_at"] { if let value = body[member] { item[member] = value } }
      item["version"] = .int((item["version"]?.int ?? 0) + 1)
      item["updated_at"] = .string(now)
      state.items[path[1]] = item
      return (200, row(item))
    case ("DELETE", 2) where path[0] == "items":
      guard var item = state.items[path[1]], item["state"] != "trashed" else { return missing }
      guard sent.target.hasSuffix("?version=\(item["version"]?.int ?? 0)") else {
        return conflict(item)
      }
      item["state"] = "trashed"
      item["updated_at"] = .string(now)
      state.items[path[1]] = item
      return (200, ["ok": true])
    case ("POST", 3) where path[2] == "tags":
      guard let item = state.items[path[1]] else { return missing }
      for tag in (body["tags"]?.array ?? []).compactMap(\.text) where state.tags[path[1]]?.contains(tag) != true {
        state.tags[path[1], default: []].append(tag)
      }
      return (200, ["metadata": row(item)["metadata"] ?? .null])
    case ("POST", 1) where path[0] == "edges":
      guard let id = body["id"]?.text else { return missing }
      if let held = state.edges[id] { return (200, ["edge": .object(held), "acknowledged": true]) }
      var edge = body.object ?? JSONObject()
      edge["version"] = 1
      edge["created_at"] = .string(now)
      edge["updated_at"] = .string(now)
      state.edges[id] = edge
      return (201, ["edge": .object(edge)])
    case ("PATCH", 2) where path[0] == "edges":
      guard var edge = state.edges[path[1]] else { return (404, ["error": ["code": "edge_not_found"]]) }
      guard body["version"] == edge["version"] else {
        return conflict(edge)
      }
      var properties = edge["properties"]?.object ?? JSONObject()
      for (key, value) in body["properties"]?.object?.members ?? [] { properties[key] = value }
      edge["properties"] = .object(properties)
      edge["version"] = .int((edge["version"]?.int ?? 0) + 1)
      edge["updated_at"] = .string(now)
      state.edges[path[1]] = edge
      return (200, ["edge": .object(edge)])
    case ("DELETE", 2) where path[0] == "edges":
      state.edges[path[1]] = nil
      return (200, ["ok": true])
    case ("POST", 1) where path[0] == "blobs":
      let hash = Text("sha256:\(ContentHash(of: Array(sent.body.utf8)).hex)")
      return (201, ["hash": .string(hash), "size_bytes": 1, "mime_type": "x"])
    default: return (404, ["error": ["code": "not_found"]])
    }
  }
}

/// A whole copy over a fake server, in memory or in a file that can be opened again.
final class Bench {
  let server: FakeServer
  let clock = ManualClock()
  let blobs: MemoryBlobStore
  var copy: WorkingCopy
  let path: String
  private let context: Context

  init(file: String? = nil, filled: Bool = true) throws {
    path = file ?? ":memory:"
    server = FakeServer()
    blobs = MemoryBlobStore()
    let clock = clock
    context = Context(
      clock: clock, ids: SeededIds(clock: clock, seed: 7), files: MemoryFileSystem(MemoryDisk(clock: clock)),
      transport: server, scheduler: ManualScheduler(clock: clock), log: SilentLog())
    copy = try Bench.open(path, blobs, context)
    if filled { try fill() }
  }

  /// The next process over another's server, with a store of its own.
  init(over other: Bench, file: String) throws {
    path = file
    server = other.server
    blobs = other.blobs
    let clock = clock
    context = Context(
      clock: clock, ids: SeededIds(clock: clock, seed: 8), files: MemoryFileSystem(MemoryDisk(clock: clock)),
      transport: server, scheduler: ManualScheduler(clock: clock), log: SilentLog())
    copy = try Bench.open(path, blobs, context)
  }

  private static func open(_ path: String, _ blobs: MemoryBlobStore, _ context: Context) throws -> WorkingCopy {
    try WorkingCopy.open(
      database: try Database(path: path, mode: .create), blobs: blobs, context: context, role: .writer,
      endpoint: Endpoint(baseURL: "http://fake", credential: "key"), credentials: nil)
  }

  /// Opens the store anew, as the next process does.
  func reopen() throws { copy = try Bench.open(path, blobs, context) }

  /// Records a completed fill of notes.
  func fill() throws {
    let store = copy.store
    try store.transaction {
      try copy.declare(Slice(types: nil, tier: "all", edgeTypes: ["parent-of", "references", "in-folder", "about"]))
      try store.set(.eventCursor, Text("1"))
      try store.set(.instanceID, Sample.id(0x1))
      try store.set(.readView, Text(FakeServer.view))
    }
  }

  var queue: WriteQueue { copy.queue }

  @discardableResult
  func create(_ title: String, type: Text = "core.note") throws -> EntityID {
    let write = try queue.createItem(ItemDraft(type: type, properties: ["title": .string(title), "body": "x"]))
    return try #require(write.itemID)
  }

  @discardableResult
  func edit(_ id: EntityID, _ properties: JSONObject) throws -> QueuedWrite {
    let version = try #require(try copy.item(id)).version
    return try queue.updateItem(id, ItemEdit(properties: properties, version: version))
  }

  func write(_ id: EntityID) throws -> QueuedWrite { try #require(try queue.write(id)) }
}

extension JSONObject: ExpressibleByDictionaryLiteral {
  /// Members in the order written, for tests.
  public init(dictionaryLiteral elements: (Text, JSON)...) { self.init(elements) }
}
