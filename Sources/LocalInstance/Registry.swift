import MarfaBase

/// Registering, replacing and deleting types and edge types (T2 to T14, E18, E20).
extension Instance {
  /// Shared by a registration and a replacement: the body as the registry stores it.
  private func judged(_ body: JSONObject, id: Text, _ call: Call) throws -> TypeDefinition {
    let rules = TypeRules(catalog: catalog)
    let wire = try rules.definition(body, id: id)
    let definition = TypeDefinition(wire, isShipped: false)
    if let parent = definition.parent, parent != catalog.types[id]?.parent,
      !(catalog.types[parent]?.isShipped ?? false)
    {
      try call.credential.requireWrite(parent)
    }
    try rules.judge(definition)
    return definition
  }

  private func requireTypes(_ call: Call) throws {
    guard call.credential.metadata.writes("types") else {
      throw Refusal(
        403, "forbidden", "The credential may not register types.", ["metadata_subresource": "types"])
    }
  }

  private func judgeNamespace(_ id: Text) throws {
    for root in ["core", "system", "marfa"] where id.bytes.starts(with: Array("\(root).".utf8)) {
      throw Refusal(403, "forbidden", "\(root) is the instance's own namespace.", ["namespace": .string(root)])
    }
  }

  private func store(_ definition: TypeDefinition) throws {
    catalogTouched = true
    try database.run(
      "INSERT INTO item_type (id, body) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET body = ?2", definition.id,
      Text(bytes: JSON.object(definition.json).write()))
    let link = catalog.types[definition.id]?.json["link_field"]
    try catalog.reload(database)
    try reindex(definition.id)
    if link != definition.json["link_field"] { try relink(definition.id) }
  }

  /// Gives the items of a type the links its definition now reads (T28).
  private func relink(_ type: Text) throws {
    try database.run("UPDATE item SET link = NULL WHERE type = ?", type)
    let rows = try database.all("SELECT \(ItemRow.columns) FROM item WHERE type = ? ORDER BY seq", type) { ItemRow($0) }
    for row in rows {
      guard let value = link(of: row) else { continue }
      let taken = try database.one("SELECT 1 FROM item WHERE type = ? AND link = ?", type, value) { $0.int(0) }
      if taken != nil { throw Refusal(409, "link_taken", "Two items of the type share a link.") }
      try database.run("UPDATE item SET link = ? WHERE seq = ?", value, row.seq)
    }
  }

  func registerType(_ call: Call) throws -> Reply {
    try requireTypes(call)
    try call.query.declare([])
    let body = try call.object()
    if (body["fields"] ?? .null).isNull { throw Refusal.missing("fields") }
    guard let id = body["id"]?.text else { throw Refusal.schema("id", "id is required.") }
    try judgeNamespace(id)
    guard isTypeIdentifier(id) else { throw Refusal.invalid("id", "id is not a type identifier.") }
    try call.credential.requireWrite(id)
    let definition = try judged(body, id: id, call)
    if catalog.types[id] != nil {
      throw Refusal(409, "type_already_exists", "The type is registered.")
    }
    try store(definition)
    try clearTombstones(of: id, linksOnly: false)
    try moveViews()
    return .json(201, ["type": .object(definition.json)])
  }

  func replaceType(_ call: Call) throws -> Reply {
    let id = call.parts.first ?? ""
    guard call.credential.may("schema.write") || call.credential.metadata.writes("types") else {
      throw Refusal.scope("schema.write")
    }
    try call.query.declare([])
    let body = try call.object()
    guard isTypeIdentifier(id) else { throw Refusal.invalid("id", "id is not a type identifier.") }
    guard let held = catalog.types[id] else { throw Refusal(404, "type_not_found", "No such type.") }
    if held.isShipped { throw Refusal(403, "core_type_immutable", "A shipped type does not change.") }
    try call.credential.requireWrite(id)
    if (body["fields"] ?? .null).isNull { throw Refusal.missing("fields") }
    let definition = try judged(body, id: id, call)
    if !call.credential.may("schema.write") { try judgeEvolution(held, definition) }
    try store(definition)
    if definition.json["link_field"] != held.json["link_field"] { try clearTombstones(of: id, linksOnly: true) }
    if definition.parent != held.parent { try moveViews() }
    return .json(200, ["type": .object(definition.json)])
  }

  /// What `metadata.types:write` alone may change (T13.6).
  private func judgeEvolution(_ held: TypeDefinition, _ next: TypeDefinition) throws {
    var changes: [String] = []
    let nextFields = Dictionary(next.fields.map { ($0.name, $0) }) { first, _ in first }
    for field in held.fields {
      var (before, after) = (field.json, nextFields[field.name]?.json)
      before["description"] = nil
      after?["description"] = nil
      if after != before { changes.append("fields.\(field.name)") }
    }
    for field in next.fields where !held.fields.contains(where: { $0.name == field.name }) {
      let isHeld = try catalog.subtree(next.id).union([next.id]).contains { type in
        try database.one(
          "SELECT 1 FROM property p JOIN item i ON i.seq = p.item WHERE p.name = ? AND i.type = ? LIMIT 1", field.name,
          type
        ) { $0.int(0) } != nil
      }
      if field.isRequired || isHeld { changes.append("fields.\(field.name)") }
    }
    for member in ["parent", "merge_policy", "version_policy", "roles", "compatible_with", "link_field"] as [Text]
    where held.json[member] != next.json[member] {
      changes.append(member.string)
    }
    guard !changes.isEmpty else { return }
    throw Refusal(
      403, "forbidden", "The change needs schema.write.",
      ["required_scope": "schema.write", "changes": .array(changes.sorted().map(JSON.string))])
  }

  private func force(_ call: Call) throws -> Bool {
    try call.query.declare(["force"])
    guard let value = call.query["force"] else { return false }
    guard value == "true" || value == "false" else { throw Refusal.invalid("force", "force is true or false.") }
    return value == "true"
  }

  func deleteType(_ call: Call) throws -> Reply {
    let id = call.parts.first ?? ""
    guard call.credential.may("schema.write") else { throw Refusal.scope("schema.write") }
    let force = try force(call)
    guard let held = catalog.types[id] else { throw Refusal(404, "type_not_found", "No such type.") }
    if held.isShipped { throw Refusal(403, "core_type_immutable", "A shipped type does not change.") }
    try call.credential.requireWrite(id)
    let below = catalog.subtypes(id)
    if !below.isEmpty {
      throw Refusal(
        409, "type_has_subtypes", "Another type names it as parent.",
        ["subtype_ids": .array(below.sorted().map(JSON.string))])
    }
    if !force, try database.one("SELECT 1 FROM item WHERE type = ? LIMIT 1", id, read: { $0.int(0) }) != nil {
      throw Refusal(409, "type_in_use", "Items hold the type.")
    }
    catalogTouched = true
    try reindex(id)
    try database.run("DELETE FROM item_type WHERE id = ?", id)
    try catalog.reload(database)
    try moveViews()
    return .ok
  }

  // MARK: edge types

  func registerEdgeType(_ call: Call) throws -> Reply {
    guard call.credential.metadata.writes("edge_types") else {
      throw Refusal(
        403, "forbidden", "The credential may not register edge types.", ["metadata_subresource": "edge_types"])
    }
    try call.query.declare([])
    let body = try call.object()
    for name in ["id", "cardinality"] as [Text] where (body[name] ?? .null).isNull {
      throw Refusal.missing(name.string)
    }
    guard let id = body["id"]?.text else { throw Refusal.invalid("id", "id is not a text.") }
    if catalog.edgeTypes[id]?.isShipped ?? false { throw Refusal(409, "conflict", "A shipped edge type has that id.") }
    guard isEdgeTypeIdentifier(id) else { throw Refusal.invalid("id", "Not an edge type's identifier.") }
    var reverse: Text?
    if let value = body["reverse_name"], !value.isNull {
      guard let name = value.text, isEdgeTypeIdentifier(name) else {
        throw Refusal.invalid("reverse_name", "Not an edge type's identifier.")
      }
      reverse = name
    }
    for name in [id, reverse].compactMap({ $0 }) where !call.credential.edges.writes(name) {
      throw Refusal.edgeType(name, .write)
    }
    if body["extends"] != nil { throw Refusal.invalid("extends", "An edge type extends nothing.") }
    if catalog.edgeTypes[id] != nil { throw Refusal(409, "conflict", "The edge type is registered.") }
    let wire = try edgeTypeDefinition(body, id: id, reverse: reverse)
    catalogTouched = true
    try database.run("INSERT INTO edge_type (id, body) VALUES (?, ?)", id, Text(bytes: JSON.object(wire).write()))
    try catalog.reload(database)
    try moveViews()
    return .json(201, ["edge_type": .object(wire)])
  }

  private func edgeTypeDefinition(_ body: JSONObject, id: Text, reverse: Text?) throws -> JSONObject {
    for key in body.keys where !TypeRules.edgeTypeMembers.contains(key) {
      throw Refusal.schema(key.string, "An unknown member.")
    }
    func held(_ field: Text, by holder: Text) -> Refusal {
      Refusal(409, "conflict", "The name is in use.", ["field": .string(field), "held_by": .string(holder)])
    }
    let all = catalog.edgeTypeOrder.compactMap { catalog.edgeTypes[$0] }
    if let holder = all.first(where: { $0.reverseName == id }) { throw held("id", by: holder.id) }
    if let reverse {
      if reverse == id { throw held("reverse_name", by: id) }
      if let holder = all.first(where: { $0.id == reverse || $0.reverseName == reverse }) {
        throw held("reverse_name", by: holder.id)
      }
    }
    let cardinalities: [Text] = ["one-to-one", "one-to-many", "many-to-one", "many-to-many"]
    guard let cardinality = body["cardinality"]?.text, cardinalities.contains(cardinality) else {
      throw Refusal.invalid("cardinality", "Not a cardinality.")
    }
    var wire = JSONObject([("id", .string(id))])
    wire["label"] = body["label"]
    wire["description"] = body["description"]
    wire["cardinality"] = .string(cardinality)
    for name in ["source_type_constraints", "target_type_constraints"] as [Text] {
      guard let value = body[name] else {
        wire[name] = ["*"]
        continue
      }
      guard let list = value.array?.map(\.text), !list.isEmpty,
        list.allSatisfy({ $0 == "*" || $0 == "role:container" || $0.map(isTypeIdentifier) ?? false })
      else { throw Refusal.invalid(name, "A constraint is *, a type, or role:container.") }
      wire[name] = value
    }
    guard let onDelete = (body["cascade_on_delete"] ?? "orphan").text,
      ["orphan", "cascade", "block"].contains(onDelete)
    else {
      throw Refusal.invalid("cascade_on_delete", "orphan, cascade or block.")
    }
    wire["cascade_on_delete"] = .string(onDelete)
    for name in ["label", "description"] as [Text] where (body[name] ?? "").text == nil {
      throw Refusal.invalid(name, "\(name) is not a text.")
    }
    guard let schema = (body["property_schema"] ?? [:]).object else {
      throw Refusal.schema("property_schema", "property_schema is an object.")
    }
    for (name, property) in schema.members {
      for key in property.object?.keys ?? [] where !TypeRules.fieldMembers.contains(key) {
        throw Refusal.schema("property_schema.\(name).\(key)", "An unknown member.")
      }
      let kind = property["type"]?.text ?? ""
      if [kind, property["items_type"]?.text ?? "", property["format"]?.text ?? ""].contains("thumbnail") {
        throw Refusal.invalid(Text("property_schema.\(name)"), "An edge has no thumbnail.")
      }
      if !TypeRules.kinds.contains(kind.string) {
        throw Refusal.schema("property_schema.\(name).type", "An unknown type.")
      }
    }
    wire["property_schema"] = .object(schema)
    if let reverse { wire["reverse_name"] = .string(reverse) }
    guard let end = (body["written_at"] ?? "source").text, end == "source" || (end == "target" && reverse != nil)
    else {
      throw Refusal.invalid("written_at", "source, or target with a reverse name.")
    }
    wire["written_at"] = .string(end)
    wire["shipped"] = false
    return wire
  }

  func deleteEdgeType(_ call: Call) throws -> Reply {
    guard call.credential.may("schema.write") else { throw Refusal.scope("schema.write") }
    let force = try force(call)
    let id = call.parts.first ?? ""
    let held = try edgeType(id)
    if held.isShipped { throw Refusal.invalid("id", "A shipped edge type stays.") }
    for name in [id, held.reverseName].compactMap({ $0 }) where !call.credential.edges.writes(name) {
      throw Refusal.edgeType(name, .write)
    }
    if !force, try database.one("SELECT 1 FROM edge WHERE type = ? LIMIT 1", id, read: { $0.int(0) }) != nil {
      throw Refusal(409, "edge_type_in_use", "Edges of the type are stored.", ["edge_type": .string(id)])
    }
    catalogTouched = true
    try database.run("DELETE FROM edge_type WHERE id = ?", id)
    try catalog.reload(database)
    try moveViews()
    return .ok
  }
}

extension Refusal {
  /// `400 invalid_schema` naming a member.
  static func schema(_ field: String, _ message: String) -> Refusal {
    Refusal(
      400, "invalid_schema", message, ["errors": [["field": .string(field), "message": .string(message)]]])
  }
}
