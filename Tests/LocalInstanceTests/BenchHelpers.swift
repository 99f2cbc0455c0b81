import LocalInstance
import MarfaBase
import Testing

/// A key minted for a test.
struct TestKey {
  var id: EntityID
  var token: String
  var spec: KeySpec
}

extension Bench {
  /// A key that may do everything but what is narrowed.
  func mint(
    _ source: String, types: JSON = ["*": "write"], edges: JSON = ["*": "write"], extensions: JSON = ["*": "write"],
    metadata: JSON = ["*": "write"], permissions: [Text] = [], sources: [Text] = [], tier: Text = "library"
  ) throws -> TestKey {
    var spec = KeySpec(label: Text("Key \(source)"), source: Text(source))
    spec.sources = sources
    spec.permissions = permissions
    spec.defaultTier = tier
    (spec.types, spec.edges) = (types.object ?? JSONObject(), edges.object ?? JSONObject())
    (spec.extensions, spec.metadata) = (extensions.object ?? JSONObject(), metadata.object ?? JSONObject())
    let (id, token) = try instance.mintKey(spec)
    return TestKey(id: id, token: token, spec: spec)
  }

  func change(_ key: TestKey, _ edit: (inout KeySpec) -> Void) throws {
    var spec = key.spec
    edit(&spec)
    try instance.changeKey(key.id, spec)
  }

  func create(_ type: JSON, _ properties: JSON, _ more: JSON = [:], key: String? = nil) -> Answer {
    var object = JSONObject([(Text("type"), type), (Text("properties"), properties)])
    for (name, value) in more.object?.members ?? [] { object[name] = value }
    return send("POST", "/items", .object(object), key: key)
  }

  func read(_ id: String, key: String? = nil) -> Answer { send("GET", "/items/\(id)", key: key) }

  func patch(
    _ id: String, _ version: Int, _ body: JSON, _ query: String = "", key: String? = nil, under name: String? = nil
  ) -> Answer {
    var object = JSONObject([(Text("version"), JSON.int(version))])
    for (name, value) in body.object?.members ?? [] { object[name] = value }
    return send(
      "PATCH", "/items/\(id)\(query)", .object(object), key: key,
      headers: name.map { [HTTPHeader("Idempotency-Key", $0)] } ?? [])
  }

  func delete(_ id: String, key: String? = nil) -> Answer { send("DELETE", "/items/\(id)", key: key) }

  func move(_ id: String, _ state: JSON, key: String? = nil) -> Answer {
    send("POST", "/items/\(id)/transition", ["state": state], key: key)
  }

  func restore(_ id: String, key: String? = nil) -> Answer { send("POST", "/items/\(id)/restore", key: key) }
  func purge(_ id: String, key: String? = nil) -> Answer { send("POST", "/items/\(id)/purge", key: key) }
  func history(_ id: String, _ query: String = "") -> Answer { send("GET", "/items/\(id)/versions\(query)") }

  /// The row as a listing of every state shows it.
  func listed(_ id: String, key: String? = nil) -> JSON? {
    send("GET", "/items?state=any&limit=200&include=system", key: key).data.first { $0["id"]?.text == Text(id) }
  }

  /// The state of a row, wherever it is; nil for none.
  func state(_ id: String) -> String? { listed(id)?["state"]?.text?.string }

  /// How many rows there are, in every state.
  func count() -> Int { send("GET", "/items?state=any&limit=200").data.count }

  func parent(_ parent: String, _ children: String...) {
    for child in children { expect(edge(parent, "parent-of", child), 201) }
  }

  /// A bulk write of items.
  func bulk(_ items: JSON, _ more: JSON = [:], key: String? = nil) -> Answer {
    var object = JSONObject([(Text("items"), items)])
    for (name, value) in more.object?.members ?? [] { object[name] = value }
    return send("POST", "/items/bulk", .object(object), key: key)
  }

  /// Starts a bulk action and works it off; its job's last reading.
  func act(_ body: JSON, key: String? = nil) -> JSON {
    let started = send("POST", "/items/bulk-actions", body, key: key)
    expect(started, 202)
    return finish(started, key: key)
  }

  func finish(_ started: Answer, key: String? = nil) -> JSON {
    let id = started.json["job"]?["id"]?.text?.string ?? ""
    for _ in 0..<200 {
      instance.tick()
      let job = send("GET", "/items/bulk-actions/jobs/\(id)", key: key).json["job"] ?? .null
      if job["status"]?.text != "queued", job["status"]?.text != "running" { return job }
    }
    Issue.record("the job does not end")
    return .null
  }

  /// What `act` announces, by kind.
  func announced(_ act: () throws -> Void) rethrows -> [Event] {
    let before = events().last?.id ?? 0
    try act()
    return events().filter { ($0.id ?? 0) > before }
  }
}

extension Answer {
  var properties: JSON { item["properties"] ?? .null }
  var version: Int? { item["version"]?.int }
  var state: String? { item["state"]?.text?.string }
  var type: String? { item["type"]?.text?.string }
  var isAcknowledged: Bool { json["acknowledged"]?.bool ?? false }
  var isReplayed: Bool { response.header("Idempotency-Replayed") == "true" }
  var tags: [String] { (json["metadata"]?["tags"]?.array ?? []).compactMap { $0.text?.string } }
  var words: String { String(decoding: response.body, as: UTF8.self) }
  var ids: [String] { data.compactMap { ($0["id"] ?? $0["item"]?["id"])?.text?.string } }
  /// Outcomes of a bulk write.
  var outcomes: [String] { (json["results"]?.array ?? []).compactMap { $0["outcome"]?.text?.string } }
  func result(_ place: Int) -> JSON { json["results"]?.array?[place] ?? .null }
}

func string(_ text: String) -> JSON { .string(Text(text)) }

/// A header of an idempotency key.
func under(_ name: String) -> [HTTPHeader] { [HTTPHeader("Idempotency-Key", name)] }
