import MarfaBase

/// What a type definition may say (T5, T8, T10, T12, T26, T29, V34).
struct TypeRules {
  static let kinds: Set<String> = [
    "string", "number", "integer", "boolean", "url", "email", "datetime", "date", "enum", "array", "object",
    "thumbnail",
  ]
  private static let members: Set<Text> = [
    "id", "label", "description", "version", "parent", "fields", "display_hints", "merge_policy", "version_policy",
    "roles", "compatible_with", "link_field", "required",
  ]
  static let edgeTypeMembers: Set<Text> = [
    "id", "label", "description", "cardinality", "source_type_constraints", "target_type_constraints",
    "cascade_on_delete", "property_schema", "reverse_name", "written_at", "extends", "shipped",
  ]
  static let fieldMembers: Set<Text> = [
    "type", "description", "required", "enum_values", "items_type", "format", "searchable", "maxLength", "maxItems",
  ]
  private static let itemMembers: Set<Text> = [
    "id", "type", "state", "tier", "properties", "created_at", "updated_at", "occurred_at", "source", "source_id",
    "version", "schema_version", "capture_latitude", "capture_longitude", "trashed_by_cascade", "trashed_with",
  ]

  let catalog: Catalog

  /// The definition as it is stored: formats collapsed, the label made, `required` put on the fields.
  func definition(_ body: JSONObject, id: Text) throws -> JSONObject {
    for key in body.keys where !TypeRules.members.contains(key) {
      throw Refusal.schema(key.string, "An unknown member.")
    }
    guard let sent = body["fields"]?.object else { throw Refusal.schema("fields", "fields is an object.") }
    let shadowing = sent.keys.filter(TypeRules.itemMembers.contains)
    if !shadowing.isEmpty {
      throw Refusal(
        400, "property_shadows_field", "A field has the name of an item's own member.",
        ["errors": .array(shadowing.map { ["field": .string($0), "message": "Reserved"] })])
    }
    var fields = JSONObject()
    for (name, value) in sent.members {
      guard let object = value.object, !name.isEmpty else { throw Refusal.schema("fields.\(name)", "Not a field.") }
      fields[name] = .object(try field(name, object))
    }
    guard let required = (body["required"] ?? []).array else {
      throw Refusal.schema("required", "required is a list of fields.")
    }
    for entry in required {
      guard let name = entry.text, var object = fields[name]?.object else {
        throw Refusal.schema("required", "required names a field the type declares.")
      }
      object["required"] = true
      fields[name] = .object(object)
    }
    for (member, value) in body.members where !value.isNull && !TypeRules.fits(member, value) {
      throw Refusal.schema(member.string, "\(member) is not what it may be.")
    }
    var wire = JSONObject([("id", .string(id))])
    let label = body["label"]?.text ?? ""
    wire["label"] = .string(label.isEmpty ? TypeRules.label(id) : label)
    wire["description"] = body["description"]
    wire["version"] = body["version"] ?? 0
    if let parent = body["parent"], !parent.isNull { wire["parent"] = parent }
    wire["fields"] = .object(fields)
    for name in [
      "display_hints", "merge_policy", "version_policy", "roles", "compatible_with", "link_field",
    ] as [Text] {
      if let value = body[name], !value.isNull { wire[name] = value }
    }
    if let target = wire["compatible_with"]?.text { wire["compatible_with"] = [.string(target)] }
    return wire
  }

  /// Whether a member of a type has the shape it has to have.
  private static func fits(_ member: Text, _ value: JSON) -> Bool {
    switch member.string {
    case "label", "description", "parent", "link_field": value.text != nil
    case "version": value.int.map { $0 >= 0 } ?? false
    case "display_hints":
      value.object.map { $0.keys.allSatisfy { ["title_field", "body_field"].contains($0) } } ?? false
    case "merge_policy", "version_policy": value.object != nil
    case "roles": value.array?.allSatisfy { $0.text != nil } ?? false
    // One target may stand as a text.
    case "compatible_with": value.text != nil || value.array?.allSatisfy { $0.text != nil } ?? false
    default: true
    }
  }

  /// A label made from the last segment (T6.1).
  static func label(_ id: Text) -> Text {
    let last = id.bytes.split(separator: UInt8(ascii: ".")).last ?? []
    let words = last.split { $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }.map { word in
      [word.first.map { (0x61...0x7A).contains($0) ? $0 & 0xDF : $0 } ?? 0x20] + Array(word.dropFirst())
    }
    return Text(bytes: Array(words.joined(separator: [0x20])))
  }

  private func field(_ name: Text, _ sent: JSONObject) throws -> JSONObject {
    func bad(_ member: String) -> Refusal {
      Refusal.schema("fields.\(name).\(member)", "\(member) is not what it may be.")
    }
    for key in sent.keys where !TypeRules.fieldMembers.contains(key) { throw bad(key.string) }
    var field = sent
    guard var kind = sent["type"]?.text?.string, TypeRules.kinds.contains(kind) else { throw bad("type") }
    if let value = sent["format"], !value.isNull {
      guard let format = value.text?.string else { throw bad("format") }
      switch format {
      case kind where ["url", "email", "datetime", "date", "thumbnail"].contains(kind): field["format"] = nil
      case "url", "email", "datetime", "date", "thumbnail":
        if kind == "string" {
          kind = format
          field["type"] = .string(format)
        } else if kind == "array", sent["items_type"]?.text == "string", format != "thumbnail" {
          field["items_type"] = .string(format)
        } else {
          throw bad("format")
        }
        field["format"] = nil
      case "bcp47", "iso3166": if kind != "string" { throw bad("format") }
      default: throw bad("format")
      }
    }
    if kind == "enum" {
      guard let values = sent["enum_values"]?.array, !values.isEmpty, values.allSatisfy({ $0.text != nil }) else {
        throw bad("enum_values")
      }
    }
    if kind == "array" {
      guard let items = field["items_type"]?.text?.string, TypeRules.kinds.contains(items), items != "thumbnail" else {
        throw bad("items_type")
      }
    }
    for (member, fits) in [("maxLength", ["string", "enum"]), ("maxItems", ["array"])] {
      guard let value = sent[Text(member)] else { continue }
      guard let number = value.int, number >= 1, fits.contains(kind) else { throw bad(member) }
    }
    for member in ["required", "searchable"] {
      if let value = sent[Text(member)], value.bool == nil { throw bad(member) }
    }
    if kind == "thumbnail", ["title", "body", "description", "name"].contains(name) { throw bad("type") }
    return field
  }

  /// Judges a definition against the registry as it would stand: parents, children, policies, hints.
  func judge(_ definition: TypeDefinition) throws {
    var types = catalog.types
    types[definition.id] = definition
    if let parent = definition.json["parent"] {
      guard let name = parent.text, catalog.types[name] != nil || name == definition.id else {
        throw Refusal.invalid("parent", "The parent is not registered.")
      }
    }
    let below = catalog.subtree(definition.id).subtracting([definition.id]).sorted().compactMap { types[$0] }
    for type in [definition] + below { try judgeChain(type, types) }
    let resolved = catalog.resolve(definition, with: types)
    try judgePolicies(definition, resolved)
    for target in definition.json["compatible_with"]?.array ?? [] { try judgeCompatible(resolved, target.text ?? "") }
    // What this leaves a subtype's hints, policy or link naming (T13.5, T27).
    for type in below where !type.isShipped {
      do {
        try judgePolicies(type, catalog.resolve(type, with: types))
      } catch let refusal as Refusal {
        var refusal = refusal
        var details = refusal.details?.object ?? JSONObject()
        details["subtype"] = .string(type.id)
        refusal.details = .object(details)
        refusal.message = "\(type.id): \(refusal.message)"
        throw refusal
      }
    }
  }

  private func judgeChain(_ type: TypeDefinition, _ types: [Text: TypeDefinition]) throws {
    var seen: Set<Text> = [type.id]
    var fields = Dictionary(type.fields.map { ($0.name, $0) }) { first, _ in first }
    var thumbnails = Set(type.fields.filter { $0.kind == "thumbnail" }.map(\.name))
    var parent = type.parent
    while let name = parent, let above = types[name] {
      guard seen.insert(name).inserted, seen.count <= 11 else {
        throw Refusal.invalid("parent", "The parents close a circle or are more than ten.")
      }
      for field in above.fields {
        if field.kind == "thumbnail" { thumbnails.insert(field.name) }
        if let own = fields[field.name] {
          let shape: [Text] = ["type", "format", "items_type", "maxLength", "maxItems", "enum_values"]
          let reshapes =
            own.isSearchable != field.isSearchable || shape.contains { own.json[$0] != field.json[$0] }
          if reshapes || (field.isRequired && !own.isRequired) {
            throw Refusal(
              400, "inheritance_violation", "\(own.name) is another field than the parent's.",
              ["errors": [["field": .string(own.name), "message": "Not the parent's field"]]])
          }
        } else {
          fields[field.name] = field
        }
      }
      parent = above.parent
    }
    if thumbnails.count > 1 { throw Refusal.schema("fields", "A type has one thumbnail at most.") }
  }

  private func judgePolicies(_ definition: TypeDefinition, _ type: ResolvedType) throws {
    let json = definition.json
    if let hints = json["display_hints"] {
      for member in ["title_field", "body_field"] as [Text] {
        guard let name = hints[member]?.text else { continue }
        guard let field = type.byName[name], field.kind != "thumbnail" else {
          throw Refusal.schema("display_hints.\(member)", "No such field.")
        }
      }
    }
    if let merge = json["merge_policy"] {
      if let fields = merge["fields"], fields.object == nil {
        throw Refusal.schema("merge_policy.fields", "fields is an object.")
      }
      let strategies: [Text] = ["last_writer_wins", "keep_both_copies"]
      if let standard = merge["default"], !strategies.contains(standard.text ?? "") {
        throw Refusal.schema("merge_policy.default", "An unknown strategy.")
      }
      for (name, strategy) in merge["fields"]?.object?.members ?? []
      where type.byName[name] == nil || !strategies.contains(strategy.text ?? "") {
        throw Refusal.schema("merge_policy.fields.\(name)", "An unknown field or strategy.")
      }
    }
    if let policy = json["version_policy"]?.object {
      var latest = 0
      for name in ["recent_days", "daily_snapshot_days", "weekly_snapshot_days", "max_versions"] as [Text] {
        guard let value = policy[name] else { continue }
        guard let number = value.int, number >= 1, name == "max_versions" || number >= latest else {
          throw Refusal.schema("version_policy.\(name)", "A whole number of at least 1, windows in order.")
        }
        if name != "max_versions" { latest = number }
      }
    }
    for role in json["roles"]?.array ?? [] where role.text != "container" {
      throw Refusal.schema("roles", "An unknown role.")
    }
    if let link = json["link_field"] {
      guard let name = link.text, type.byName[name]?.kind == "string",
        !name.bytes.contains(UInt8(ascii: "\"")), !name.bytes.contains(UInt8(ascii: "\\"))
      else { throw Refusal.schema("link_field", "link_field names a text field.") }
    }
  }

  /// T10: what is compatible requires all the target requires and reads as the target's fields.
  private func judgeCompatible(_ type: ResolvedType, _ id: Text) throws {
    let refusal = Refusal(422, "compatible_with_violation", "The type is not compatible with \(id).")
    guard let target = catalog.type(id) else { throw refusal }
    for field in target.fields {
      guard let own = type.byName[field.name] else {
        if field.isRequired { throw refusal }
        continue
      }
      if field.isRequired, !own.isRequired { throw refusal }
      let reads =
        own.kind == field.kind
        || (field.kind == "string" && ["url", "email", "datetime", "date", "thumbnail", "enum"].contains(own.kind))
        || (field.kind == "number" && own.kind == "integer")
      let values = field.values.map { allowed in own.values?.allSatisfy(allowed.contains) ?? false } ?? true
      if !reads || !values || own.json["items_type"] != field.json["items_type"]
        || own.json["format"] != field.json["format"]
      {
        throw refusal
      }
    }
  }
}
