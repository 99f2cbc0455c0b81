import MarfaBase

/// The types a program declares: they judge its writes before any fill, and each fill registers those the instance lacks
/// (D57, T102).
extension WorkingCopy {
  /// Replaces the whole declared set; an empty list clears it. Writes queued under a type left out stay queued (D57.6).
  /// - Throws: `invalid` naming the first definition that is malformed, of a reserved root or of a shipped type; none is then
  ///   declared (D57.3, D57.4).
  package func declareTypes(_ types: [JSONObject]) throws(MarfaError) {
    try requireWriter()
    var known = Set(try Catalog.shipped().types.keys).union(try store.heldCatalog().types.keys)
    var ids: Set<Text> = []
    for type in types {
      guard let id = type["id"]?.text, Slice.isWellFormed(id), id.bytes.last != UInt8(ascii: "*") else {
        throw MarfaError(.invalid, "\(type["id"]?.compact ?? "a type without an id") is no type name")
      }
      guard ids.insert(id).inserted else { throw MarfaError(.invalid, "the type \(id) is declared twice") }
    }
    known.formUnion(ids)
    var normalized: [JSON] = []
    for type in types { normalized.append(.object(try DeclaredType.normalized(type, known: known))) }
    try store.transaction {
      try store.set(.declaredTypes, normalized.isEmpty ? nil : Text(bytes: JSON.array(normalized).write()))
      store.forgetCatalog()
    }
  }

  /// The declared types, as normalized and stored.
  package func declaredTypes() throws(MarfaError) -> [JSONObject] { try store.declaredTypes().compactMap(\.object) }

  /// Registers what the instance lacks of the declared types, parents first, and replaces an `app.*` type held in another
  /// definition. Returns whether anything was changed there, so that head and catalogs are to be read anew (D57.8).
  /// - Throws: a failure that clears by itself, or that stops the fill anyway; a refusal is reported (D57.9, D57.10).
  func registerDeclared(_ served: [JSON], _ report: inout HydrateReport) throws(MarfaError) -> Bool {
    var held: [Text: JSON] = [:]
    for type in served { if let id = type["id"]?.text { held[id] = type } }
    report.registeredTypes = []
    report.unregisteredTypes = []
    report.replacedTypes = []
    report.unreplacedTypes = []
    for type in DeclaredType.parentsFirst(try declaredTypes()) {
      guard let id = type["id"]?.text else { continue }
      if let there = held[id] {
        guard id.bytes.starts(with: "app.".utf8), DeclaredType.differs(type, from: there) else { continue }
        var body = type
        body["id"] = nil
        if let note = try refused("PUT", "/types/\(percentEncoded(id))", body, id) {
          report.unreplacedTypes.append(note)
        } else {
          report.replacedTypes.append(id)
        }
      } else if let note = try refused("POST", "/types", type, id) {
        report.unregisteredTypes.append(note)
      } else {
        report.registeredTypes.append(id)
      }
    }
    return !report.registeredTypes.isEmpty || !report.replacedTypes.isEmpty
  }

  /// Sends a definition; the instance's refusal, nil where it took it.
  private func refused(
    _ method: String, _ path: String, _ body: JSONObject, _ id: Text
  ) throws(MarfaError) -> HydrateReport.TypeNote? {
    try checkStop()
    let answer = try server.ask(method, path, body: .bytes(JSON.object(body).write()))
    if answer.isSuccess { return nil }
    let refusal = server.refusal(answer)
    if refusal.isEnvironmental || refusal.code == .unauthorized { throw refusal }
    return HydrateReport.TypeNote(
      id: id, code: refusal.server?.code ?? Text(refusal.code.rawValue), message: Text(refusal.message))
  }
}

extension Store {
  /// The declared types as stored.
  func declaredTypes() throws(MarfaError) -> [JSON] {
    guard let stored = try text(.declaredTypes) else { return [] }
    return try read { try JSON(parsing: stored.bytes).array ?? [] }
  }

  /// What the catalog is made of has changed.
  func forgetCatalog() {
    kept = nil
    changes += 1
  }
}

/// A definition a program declares. Pure.
enum DeclaredType {
  private static let kinds: Set<Text> = [
    "string", "enum", "number", "integer", "boolean", "array", "object", "url", "email", "date", "datetime",
    "thumbnail",
  ]
  /// Formats that name a kind, which a string of them is stored as (T29.6).
  private static let kindFormats: Set<Text> = ["url", "email", "date", "datetime", "thumbnail"]

  /// A definition as an instance stores it: formats that name a kind are that kind, `required` stands in the fields.
  /// - Throws: `invalid`, naming the type (D57.3).
  static func normalized(_ type: JSONObject, known: Set<Text>) throws(MarfaError) -> JSONObject {
    let id = type["id"]?.text ?? ""
    func refusal(_ words: String) -> MarfaError { MarfaError(.invalid, "the declared type \(id) \(words)") }
    for root in ["core.", "system.", "marfa."] where id.bytes.starts(with: root.utf8) {
      throw refusal("lies under a root no program declares")
    }
    if let parent = type["parent"], !parent.isNull {
      guard let parent = parent.text, known.contains(parent) else {
        throw refusal("has the parent \(type["parent"]?.compact ?? ""), which the copy does not know")
      }
    }
    guard let given = type["fields"]?.object else { throw refusal("names no fields") }
    var required: Set<Text> = []
    if let names = type["required"] {
      for name in names.array ?? [] {
        guard let name = name.text, given[name] != nil else { throw refusal("requires a field it does not declare") }
        required.insert(name)
      }
    }
    var fields = JSONObject()
    for (name, value) in given.members {
      guard var field = value.object, let kind = field["type"]?.text, kinds.contains(kind) else {
        throw refusal("has a field '\(name)' of no known type")
      }
      if let format = field["format"]?.text {
        if kind == "string", kindFormats.contains(format) {
          field["type"] = .string(format)
          field["format"] = nil
        } else if format == kind {
          field["format"] = nil
        }
      }
      if required.contains(name) { field["required"] = true }
      fields[name] = .object(field)
    }
    var out = type
    out["required"] = nil
    out["fields"] = .object(fields)
    return out
  }

  /// The types with each parent before its children; of a circle, as declared.
  static func parentsFirst(_ types: [JSONObject]) -> [JSONObject] {
    var left = types
    var out: [JSONObject] = []
    while !left.isEmpty {
      let open = Set(left.compactMap { $0["id"]?.text })
      let ready = left.filter { type in type["parent"]?.text.map { !open.contains($0) } ?? true }
      if ready.isEmpty { return out + left }
      out += ready
      left.removeAll { type in ready.contains { $0["id"] == type["id"] } }
    }
    return out
  }

  /// Whether the instance holds another definition: a declared member it has otherwise. Its own defaults are none.
  static func differs(_ type: JSONObject, from held: JSON) -> Bool {
    type.members.contains { name, value in
      guard name == "fields" else { return held[name] != value }
      let (ours, theirs) = (value.object ?? JSONObject(), held["fields"]?.object ?? JSONObject())
      return Set(ours.keys) != Set(theirs.keys)
        || ours.members.contains { field, definition in
          let other = theirs[field]
          return definition.object?.members.contains { other?[$0.key] != $0.value } ?? true
        }
    }
  }
}
