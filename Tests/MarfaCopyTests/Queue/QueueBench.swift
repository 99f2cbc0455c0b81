import LocalInstance
import MarfaBase
import TestSupport
import Testing

@testable import MarfaCopy

/// A copy whose queue goes to the real instance, with whatever can go wrong on the way: requests dropped, answers lost,
/// others' answers in the instance's place, bytes that cannot be opened, a sign-in that ends.
final class QueueBench {
  let bench: CopyBench
  let blobs = ShutBlobs()
  let sign = SignInStore()
  private(set) var copy: WorkingCopy
  private let signsIn: Bool
  /// What stands in for the instance: the first that matches a request.
  private var acts: [(matches: (HTTPRequest) -> Bool, act: Act)] = []

  enum Act {
    /// Never arrives.
    case drop
    /// Taken by the instance, its answer lost.
    case lose
    /// Answered so in the instance's place, the contract named and a read view echoed.
    case answer(Int, String, [HTTPHeader] = [])
    /// Answered without the contract's header.
    case unnamed(Int, String, [HTTPHeader] = [])
    /// Whatever else is done first, then it goes through.
    case first(() throws -> Void)
  }

  init(
    _ types: [Text] = ["*"], tier: Text = "all", edges: [Text] = ["parent-of", "references", "in-folder"],
    signsIn: Bool = false, fills: Bool = true
  ) throws {
    bench = try CopyBench()
    self.signsIn = signsIn
    copy = try QueueBench.open(bench, blobs, signsIn ? sign : nil)
    bench.transport.before = { [unowned self] request in answered(request) }
    bench.transport.after = { [unowned self] request, response in
      for (matches, act) in acts where matches(request) {
        if case .lose = act { return .failure(.unreachable("the connection broke")) }
        return .success(response)
      }
      return .success(response)
    }
    if fills { try fill(types, tier: tier, edges: edges) }
  }

  private static func open(
    _ bench: CopyBench, _ blobs: ShutBlobs, _ credentials: SignInStore?
  ) throws -> WorkingCopy {
    try WorkingCopy.open(
      database: bench.database, blobs: blobs, context: bench.context, role: .writer,
      endpoint: Endpoint(baseURL: CopyBench.origin, credential: credentials == nil ? CopyBench.key : nil),
      credentials: credentials)
  }

  /// Opens the store anew, as the next process does.
  func reopen() throws { copy = try QueueBench.open(bench, blobs, signsIn ? sign : nil) }

  func fill(_ types: [Text] = ["*"], tier: Text = "all", edges: [Text] = ["parent-of", "references", "in-folder"])
    throws
  {
    try copy.hydrate(Slice(typeList: types, tier: tier, edgeTypes: edges))
    clear()
  }

  // MARK: The way to the instance

  private func answered(_ request: HTTPRequest) -> Result<HTTPResponse, TransportError>? {
    for (matches, act) in acts where matches(request) {
      switch act {
      case .drop: return .failure(.unreachable("dropped"))
      case .lose: return nil
      case .answer(let status, let text, let headers):
        var lines = headers + [HTTPHeader("X-Marfa-Contract", "0")]
        if let view = request.headers.first(where: { $0.name == "X-Marfa-Read-View" }),
          !headers.contains(where: { $0.name == "X-Marfa-Read-View" })
        {
          lines.append(view)
        }
        return .success(HTTPResponse(status: status, headers: lines, body: Array(text.utf8)))
      case .unnamed(let status, let text, let headers):
        return .success(HTTPResponse(status: status, headers: headers, body: Array(text.utf8)))
      case .first(let work):
        do { try work() } catch { Issue.record(error) }
        return nil
      }
    }
    return nil
  }

  /// Stands in for requests of a method whose body holds the words, until told otherwise.
  func on(_ method: String, holding words: String = "", _ act: Act) { on(method, "/", holding: words, act) }

  /// The same of a target that begins so.
  func on(_ method: String, _ target: String, holding words: String = "", _ act: Act) {
    acts.append(
      ({ $0.method == method && $0.target.hasPrefix(target) && (words.isEmpty || $0.text.contains(words)) }, act))
  }

  /// Stands in for every write.
  func onWrites(_ act: Act) { acts.append(({ $0.isQueuedWrite }, act)) }

  /// Everything goes through again.
  func heal() { acts = [] }

  func clear() { bench.transport.clear() }
  /// The queued writes that went out since.
  var writes: [HTTPRequest] { bench.transport.sent.filter(\.isQueuedWrite) }
  var requests: [String] { bench.transport.requests }

  // MARK: Short words

  var queue: WriteQueue { copy.queue }

  @discardableResult
  func create(_ title: Text, body: Text = "x", type: Text = "core.note", source: Text? = nil) throws -> EntityID {
    let write = try queue.createItem(
      ItemDraft(type: type, properties: ["title": .string(title), "body": .string(body)], source: source))
    return try #require(write.itemID)
  }

  @discardableResult
  func edit(_ id: EntityID, _ properties: JSONObject) throws -> QueuedWrite {
    try queue.updateItem(id, ItemEdit(properties: properties, version: try #require(try copy.item(id)).version))
  }

  /// Saves a row whole, as a folder does.
  @discardableResult
  func save(_ id: EntityID, _ change: (inout JSONObject) -> Void) throws -> QueuedWrite {
    let row = try #require(try copy.item(id))
    var properties = row.properties
    change(&properties)
    return try queue.updateItem(id, ItemEdit(properties: properties, mode: .replace, version: row.version))
  }

  /// A note of the instance the copy holds.
  @discardableResult
  func held(_ title: Text, body: Text = "one", key: Text? = nil) throws -> EntityID {
    let id = try theirNote(title, body: body, key: key)
    try copy.catchUp()
    clear()
    return id
  }

  func theirNote(_ title: Text, body: Text = "one", key: Text? = nil) throws -> EntityID {
    var draft: JSONObject = ["type": "core.note", "properties": ["title": .string(title), "body": .string(body)]]
    if let key { draft["source_id"] = .string(key) }
    let made = try bench.ask("POST", "/items", .object(draft))
    return try #require(made["item"]?["id"]?.text.flatMap { EntityID($0) })
  }

  /// An edge of the instance the copy holds, with a property.
  func heldEdge(_ type: Text = "references", _ source: EntityID, _ target: EntityID, why: Text = "a") throws -> EntityID
  {
    let made = try bench.ask(
      "POST", "/edges",
      [
        "source_id": .string(source.text), "target_id": .string(target.text), "edge_type": .string(type),
        "properties": ["why": .string(why)],
      ])
    try copy.catchUp()
    clear()
    return try #require(made["edge"]?["id"]?.text.flatMap { EntityID($0) })
  }

  /// Another device's edit, on what the instance holds.
  func theirs(_ id: EntityID, _ properties: JSON) throws {
    let version = try #require(try served(id)["version"]?.int)
    try bench.ask("PATCH", "/items/\(id)", ["version": .int(version), "properties": properties])
  }

  func theirEdge(_ id: EntityID, _ properties: JSON) throws {
    let version = try #require(try bench.ask("GET", "/edges/\(id)")["edge"]?["version"]?.int)
    try bench.ask("PATCH", "/edges/\(id)", ["version": .int(version), "properties": properties])
  }

  func served(_ id: EntityID) throws -> JSON { try bench.ask("GET", "/items/\(id)")["item"] ?? .null }
  func write(_ id: EntityID) throws -> QueuedWrite { try #require(try queue.write(id)) }
  func verdict(_ write: QueuedWrite) throws -> WriteVerdict? { try self.write(write.id).verdict }
  func title(_ id: EntityID) throws -> JSON? { try copy.item(id)?.properties["title"] }
  @discardableResult
  func drain() throws -> DrainReport { try queue.drain() }
}

extension HTTPRequest {
  var target: String {
    guard url.hasPrefix(CopyBench.origin) else { return url }
    let rest = url.dropFirst(CopyBench.origin.count)
    return rest.isEmpty ? "/" : String(rest)
  }
  var text: String {
    if case .bytes(let bytes) = body { return String(decoding: bytes, as: UTF8.self) }
    return ""
  }
  var json: JSON? { try? JSON(parsing: text) }
  var key: String? { headers.first { $0.name == "Idempotency-Key" }?.value }
  var bearer: String? { headers.first { $0.name == "Authorization" }?.value }
  var isQueuedWrite: Bool { method != "GET" && !target.hasPrefix("/items/bulk-get") && !target.hasPrefix("/types") }
}

/// An error body.
func refusing(_ code: String, _ details: String = "") -> String {
  #"{"error":{"code":"\#(code)","message":"No: \#(code)."\#(details.isEmpty ? "" : #","details":\#(details)"#)}}"#
}

/// Blobs in memory that can be shut, as by lost permissions.
final class ShutBlobs: BlobStore {
  private let kept = MemoryBlobStore()
  var isShut = false
  func has(_ hash: ContentHash) -> Bool { kept.has(hash) }
  func open(_ hash: ContentHash) throws(FileError) -> (any ReadableFile)? {
    if isShut { throw FileError(code: 13, operation: "open", path: "blob") }
    return try kept.open(hash)
  }
  func size(_ hash: ContentHash) -> Int64? { kept.size(hash) }
  func path(_ hash: ContentHash) -> PathBytes? { nil }
  func incoming() throws(FileError) -> any IncomingBlob { try kept.incoming() }
  func remove(_ hash: ContentHash) { kept.remove(hash) }
  func all() -> [(hash: ContentHash, size: Int64)] { kept.all() }
}

/// A sign-in that a test renews or ends.
final class SignInStore: CredentialStore {
  var token = CopyBench.key
  /// What a renewal answers: another token, nothing, or why not.
  var renewal: Result<String?, MarfaError> = .success(nil)
  private(set) var renewals = 0
  func credential(for origin: String) throws(MarfaError) -> String? { token }
  func renew(_ refused: String, for origin: String) throws(MarfaError) -> String? {
    renewals += 1
    if let renewed = try renewal.get() {
      token = renewed
      return renewed
    }
    return nil
  }
}
