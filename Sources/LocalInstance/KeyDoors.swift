import MarfaBase

/// `POST /keys`, `PATCH /keys/{id}`, `DELETE /keys/{id}` (K5).
extension Instance {
  func createKey(_ call: Call) throws -> Reply {
    guard call.credential.may("keys.mint") else { throw Refusal.scope("keys.mint") }
    try call.query.declare([])
    let body = try call.object()
    let label = try ItemBody(object: body).text("label") ?? "Key"
    // A key that names no source gets one of its own (K4.1).
    let source = try ItemBody(object: body).text("source") ?? Text("key.\(ids.next().description.suffix(12))")
    try judgeSource(source)
    var spec = KeySpec(label: label, source: source)
    spec.enforcement = call.credential.levers.json
    try read(body, into: &spec, call)
    let (id, token) = try insertKey(spec)
    if call.credential.kind == .app { try noteMinted(id, by: call.credential) }
    var json = JSONObject([("id", .string(id.text)), ("key", .string(token))])
    if let held = credential(token: token), let all = describe(held).object {
      for (name, value) in all.members where name != "id" && name != "expires_at" { json[name] = value }
    }
    return .json(201, .object(json))
  }

  private func judgeSource(_ source: Text, _ path: Text = "source") throws {
    guard (1...200).contains(source.utf16Count), !source.bytes.starts(with: "oauth:".utf8) else {
      throw Refusal.invalid(path, "A source has 1 to 200 characters and does not begin with oauth:.")
    }
  }

  /// Reads what the body names, never past what the maker may do (K5.2 to K5.4).
  private func read(_ body: JSONObject, into spec: inout KeySpec, _ call: Call) throws {
    if let list = body["sources"] {
      guard let values = list.array, values.count <= 1000 else {
        throw Refusal.invalid("sources", "At most 1,000 sources.")
      }
      var sources: [Text] = []
      for value in values {
        guard let text = value.text else { throw Refusal.invalid("sources", "A source is a text.") }
        let source = Text(bytes: trimmed(text.bytes))
        try judgeSource(source, "sources")
        if !sources.contains(source) { sources.append(source) }
      }
      for source in sources where !call.credential.may("keys.manage") && !call.credential.claims(source) {
        throw Refusal.source(source)
      }
      spec.sources = sources
    }
    if let list = body["permissions"] {
      guard let words = list.array?.compactMap(\.text), words.allSatisfy(KeySpec.permissionWords.contains) else {
        throw Refusal.invalid("permissions", "An unknown permission.")
      }
      for word in words where !call.credential.may(word) { throw Refusal.scope(word.string) }
      spec.permissions = words
    }
    if let tier = try ItemBody(object: body).text("default_tier") {
      guard tier == "library" || tier == "feed" else { throw Refusal.invalid("default_tier", "library or feed.") }
      spec.defaultTier = tier
    }
    if let text = try ItemBody(object: body).text("expires_at") {
      guard let time = readTime(text) else { throw Refusal.invalid("expires_at", "Not a time.") }
      spec.expires = time
    }
    if let value = body["enforcement_override"] {
      // Levers of the maker's own are a part of its reach: another may not shed them (K5.3).
      guard call.credential.levers.json == nil || call.credential.may("keys.manage") else {
        throw Refusal.scope("keys.manage")
      }
      spec.enforcement = value.isNull ? nil : try Levers.judged(value, at: "enforcement_override")
    }
    spec.types = try map(body, "type_permissions", call.credential.types) ?? spec.types
    spec.edges = try map(body, "edge_permissions", call.credential.edges) ?? spec.edges
    spec.extensions = try map(body, "extension_permissions", call.credential.extensions) ?? spec.extensions
    spec.metadata = try map(body, "metadata_permissions", call.credential.metadata) ?? spec.metadata
    spec.profile = try map(body, "profile_permissions", call.credential.profile) ?? spec.profile
  }

  private func map(_ body: JSONObject, _ name: Text, _ maker: GrantMap) throws -> JSONObject? {
    guard let value = body[name] else { return nil }
    guard let object = value.object else { throw Refusal.invalid(name, "\(name) is an object.") }
    for (pattern, word) in object.members {
      guard Level(word.text) != nil, !pattern.isEmpty else {
        throw Refusal.invalid(Text("\(name).\(pattern)"), "A level is none, read or write.")
      }
      // A star stands for everything, or ends a pattern after a dot.
      let stem = pattern.bytes.suffix(2).elementsEqual(".*".utf8) ? Array(pattern.bytes.dropLast(2)) : pattern.bytes
      guard pattern == "*" || (!stem.isEmpty && isStem(stem, of: name)) else {
        throw Refusal.invalid(Text("\(name).\(pattern)"), "A pattern is a name, a prefix followed by .*, or *.")
      }
    }
    // Judged at what either map tells apart: a wildcard must not reach past an exception of the maker's own.
    let made = GrantMap(object)
    for pattern in object.keys + maker.json.keys {
      let isWild = pattern == "*" || pattern.bytes.suffix(2).elementsEqual(".*".utf8)
      let id = isWild ? Text(bytes: pattern.bytes.dropLast() + Array("~".utf8)) : pattern
      let level = made.level(id)
      if level > maker.level(id) { throw Refusal.scope(scope(pattern, level, of: name)) }
    }
    return object
  }

  /// Whether a pattern without its star can be what a family holds (K3.2, K3.9).
  private func isStem(_ stem: [UInt8], of family: Text) -> Bool {
    switch family.string {
    case "type_permissions", "edge_permissions":
      stem.allSatisfy { (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || "._-".utf8.contains($0) }
    case "metadata_permissions": ["tags", "types", "edge_types"].contains { stem.elementsEqual($0.utf8) }
    default: !stem.contains(UInt8(ascii: "*"))
    }
  }

  /// A grant as a scope's word (K15.1).
  private func scope(_ pattern: Text, _ level: Level, of family: Text) -> String {
    switch family.string {
    case "edge_permissions": "edge.\(pattern):\(level.word)"
    case "metadata_permissions": pattern == "*" ? "metadata:\(level.word)" : "metadata.\(pattern):\(level.word)"
    default: "\(pattern):\(level.word)"
    }
  }

  private func keyNamed(_ call: Call) throws -> (id: EntityID, spec: JSONObject, source: Text) {
    guard let part = call.parts.first, let id = strictID(part) else {
      throw Refusal.invalid("id", "The id is not a lowercase UUIDv7.")
    }
    let found = try database.one("SELECT spec, source FROM credential WHERE id = ?", id) { ($0.bytes(0), $0.text(1)) }
    guard let (spec, source) = found, let object = (try? JSON(parsing: spec))?.object else {
      throw Refusal(404, "api_key_not_found", "No such key.")
    }
    return (id, object, source)
  }

  func changeKey(_ call: Call) throws -> Reply {
    guard call.credential.may("keys.manage") else { throw Refusal.scope("keys.manage") }
    try call.query.declare([])
    let body = try call.object()
    if body["source"] != nil { throw Refusal.invalid("source", "A key's source cannot change.") }
    let (id, held, source) = try keyNamed(call)
    var spec = KeySpec(label: try ItemBody(object: body).text("label") ?? held["label"]?.text ?? "", source: source)
    spec.sources = held["sources"]?.array?.compactMap(\.text) ?? []
    spec.permissions = held["permissions"]?.array?.compactMap(\.text) ?? []
    spec.defaultTier = held["default_tier"]?.text ?? "library"
    // Only a new key's families are empty where it names others (K5.2); a change replaces what it names (K5.5).
    spec.types = held["type_permissions"]?.object ?? JSONObject()
    spec.edges = held["edge_permissions"]?.object ?? JSONObject()
    spec.extensions = held["extension_permissions"]?.object ?? JSONObject()
    spec.metadata = held["metadata_permissions"]?.object ?? JSONObject()
    spec.profile = held["profile_permissions"]?.object ?? JSONObject()
    spec.enforcement = held["enforcement_override"]?.object
    try read(body, into: &spec, call)
    try changeKey(id, spec)
    if let end = body["expires_at"] {
      try database.run("UPDATE credential SET expires = ? WHERE id = ?", end.isNull ? nil : spec.expires, id)
      credentials = [:]
    }
    return .ok
  }

  /// `GET /keys`: every key, without its plaintext (K5.8).
  func listKeys(_ call: Call) throws -> Reply {
    guard call.credential.may("keys.manage") else { throw Refusal.scope("keys.manage") }
    try call.query.declare([])
    withoutWaiting { persistUse() }
    let keys = try database.all(
      "SELECT id, source, spec, created, expires, last_used FROM credential ORDER BY created, id"
    ) { row in
      Instance.credential(
        id: row.id(0), source: row.text(1), spec: row.bytes(2), created: row.time(3), expires: row.time(4),
        lastUsed: row.time(5))
    }
    return .json(200, ["data": .array(keys.compactMap { $0 }.map(describe)), "next_cursor": nil])
  }

  func deleteKey(_ call: Call) throws -> Reply {
    guard call.credential.may("keys.manage") else { throw Refusal.scope("keys.manage") }
    try call.query.declare([])
    try revokeKey(try keyNamed(call).id)
    return .ok
  }

  // MARK: keys that apps minted (K2.1, K13.3)

  private static let minted = "minted:"

  /// Keeps which grant minted a key, and of which app.
  private func noteMinted(_ key: EntityID, by app: Credential) throws {
    try database.run(
      "INSERT OR REPLACE INTO meta VALUES (?, ?)", "\(Instance.minted)\(key)",
      Text(bytes: app.id.text.bytes + [0x20] + app.source.bytes.dropFirst("oauth:".utf8.count)))
  }

  /// The app whose grant minted a key; nil for any other.
  func mintingClient(of key: EntityID) -> Text? {
    let note = try? database.one("SELECT value FROM meta WHERE name = ?", "\(Instance.minted)\(key)") { $0.bytes(0) }
    guard let note, let space = note.firstIndex(of: 0x20) else { return nil }
    return Text(bytes: note[(space + 1)...])
  }

  /// Ends the keys a grant minted.
  func revokeKeys(mintedBy grant: EntityID) throws {
    let names = try database.all(
      "SELECT name FROM meta WHERE name >= 'minted:' AND name < 'minted;' AND substr(value, 1, 36) = ?", grant
    ) { $0.text(0) }
    for name in names {
      if let key = EntityID(name.bytes.dropFirst(Instance.minted.utf8.count)) { try revokeKey(key) }
      try database.run("DELETE FROM meta WHERE name = ?", name)
    }
  }
}
