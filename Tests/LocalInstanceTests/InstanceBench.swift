import LocalInstance
import MarfaBase
import Testing

/// An instance in memory on a clock that stands, and requests to it.
final class Bench {
  let instance: Instance
  let clock = ManualClock()
  let ids: SeededIds
  /// The instance's own database, to see what it stores.
  let database: Database
  let blobs = MemoryBlobs()
  static let ownerKey = "marfa_k1_owner"
  /// The key of requests that name none.
  var key = Bench.ownerKey

  /// - Parameter path: where the database lies; in memory unless named.
  init(path: String = ":memory:", seed: UInt64 = 7) throws {
    ids = SeededIds(clock: clock, seed: seed)
    database = try Database(path: path, mode: .create)
    instance = try Instance(
      database: database, blobs: blobs, clock: clock, ids: ids,
      ownerKey: Bench.ownerKey)
  }

  func send(
    _ method: String, _ target: String, _ body: JSON? = nil, key: String? = nil, headers: [HTTPHeader] = [],
    raw: [UInt8]? = nil
  ) -> Answer {
    clock.advance(nanoseconds: 1_000_000)
    var lines = headers
    let token = key ?? self.key
    if !token.isEmpty { lines.append(HTTPHeader("Authorization", "Bearer \(token)")) }
    if body != nil { lines.append(HTTPHeader("Content-Type", "application/json")) }
    let request = InstanceRequest(method: method, target: target, headers: lines, body: raw ?? body?.write() ?? [])
    switch instance.handle(request) {
    case .whole(let response):
      let answer = Answer(response: response)
      judge(answer, request)
      return answer
    case .stream(let head, let source): return Answer(response: head, source: source)
    }
  }

  /// Every answer a test receives is held to the contract's shapes and headers.
  private func judge(_ answer: Answer, _ request: InstanceRequest) {
    let what = "\(request.method) \(request.target)"
    #expect(answer.response.header("X-Marfa-Contract") == "0", "\(what)")
    #expect(answer.response.header("X-Request-ID") != nil, "\(what)")
    guard let contract = ContractCheck.shared else {
      Issue.record("Fixtures/contract/openapi.json cannot be read")
      return
    }
    let isJSON = answer.response.header("Content-Type") == "application/json"
    if isJSON, !request.target.hasPrefix("/auth") {
      #expect(answer.code == answer.response.header("X-Error-Code"), "\(what)")
    }
    let fault = contract.fault(
      method: request.method, target: request.target, status: answer.status, isJSON: isJSON, code: answer.code,
      body: answer.json)
    if let fault { Issue.record("\(what) is not as the contract has it: \(fault)") }
  }

  /// A note, made; its answer's item.
  func note(_ body: String = "text", _ more: JSON = [:]) -> JSON {
    var object = JSONObject()
    object["type"] = "core.note"
    object["properties"] = ["body": .string(body)]
    for (name, value) in more.object?.members ?? [] { object[name] = value }
    return send("POST", "/items", .object(object)).json["item"] ?? .null
  }

  func noteID(_ body: String = "text", _ more: JSON = [:]) -> String { note(body, more)["id"]?.text?.string ?? "" }

  func edge(_ source: String, _ type: String, _ target: String, _ properties: JSON = [:]) -> Answer {
    send(
      "POST", "/edges",
      [
        "source_id": .string(source), "edge_type": .string(type), "target_id": .string(target),
        "properties": properties,
      ])
  }

  /// The events of the whole log as a plain stream replays them: kind and data.
  func events(after cursor: Int = 0, key: String? = nil) -> [Event] {
    let answer = send("GET", "/events", key: key, headers: [HTTPHeader("Last-Event-ID", "\(cursor)")])
    defer { answer.source?.close() }
    return answer.frames().filter { $0.id != nil }
  }

  func head() throws -> Int { events().last?.id ?? 0 }
}

struct Event {
  var id: Int?
  var kind: String
  var data: JSON
}

struct Answer {
  var response: HTTPResponse
  var source: (any EventSource)?

  var status: Int { response.status }
  var json: JSON { (try? JSON(parsing: response.body)) ?? .null }
  var code: String? { json["error"]?["code"]?.text?.string }
  var details: JSON? { json["error"]?["details"] }
  var path: String? { details?["errors"]?.array?.first?["path"]?.text?.string }
  var field: String? { details?["errors"]?.array?.first?["field"]?.text?.string }
  var item: JSON { json["item"] ?? .null }
  var id: String { (json["item"]?["id"] ?? json["edge"]?["id"])?.text?.string ?? "" }
  var data: [JSON] { json["data"]?.array ?? [] }

  /// What the stream has to send now.
  func text() -> String {
    var bytes: [UInt8] = []
    while let more = source?.take(), !more.isEmpty { bytes += more }
    return String(decoding: bytes, as: UTF8.self)
  }

  func frames() -> [Event] {
    text().components(separatedBy: "\n\n").compactMap { block in
      var event = Event(id: nil, kind: "", data: .null)
      for line in block.split(separator: "\n") {
        if line.hasPrefix("id: ") { event.id = Int(line.dropFirst(4)) }
        if line.hasPrefix("event: ") { event.kind = String(line.dropFirst(7)) }
        if line.hasPrefix("data: ") { event.data = (try? JSON(parsing: String(line.dropFirst(6)))) ?? .null }
      }
      return event.kind.isEmpty ? nil : event
    }
  }
}

extension String {
  /// Without Foundation.
  func components(separatedBy mark: String) -> [String] {
    var out: [String] = []
    var rest = self[...]
    while let range = rest.firstRange(of: mark) {
      out.append(String(rest[..<range.lowerBound]))
      rest = rest[range.upperBound...]
    }
    out.append(String(rest))
    return out
  }
}

/// Whether an answer refuses so.
func expect(
  _ answer: Answer, _ status: Int, _ code: String, sourceLocation: SourceLocation = #_sourceLocation
) {
  #expect(answer.status == status, "\(answer.json.compact)", sourceLocation: sourceLocation)
  #expect(answer.code == code, "\(answer.json.compact)", sourceLocation: sourceLocation)
  #expect(answer.response.header("X-Error-Code") == code, sourceLocation: sourceLocation)
}

func expect(_ answer: Answer, _ status: Int, sourceLocation: SourceLocation = #_sourceLocation) {
  #expect(answer.status == status, "\(answer.json.compact)", sourceLocation: sourceLocation)
}
