import MarfaBase

/// One field of a type (T0.2).
struct FieldDefinition {
  var name: Text
  var kind: String
  var isRequired: Bool
  var values: [Text]?
  var isSearchable: Bool
  var maxLength: Int?
  var maxItems: Int?
  /// The definition as declared.
  var json: JSONObject

  init(_ name: Text, _ json: JSONObject) {
    self.name = name
    self.json = json
    kind = json["type"]?.text?.string ?? ""
    isRequired = json["required"]?.bool ?? false
    values = json["enum_values"]?.array?.compactMap(\.text)
    isSearchable = json["searchable"]?.bool ?? true
    maxLength = json["maxLength"]?.int
    maxItems = json["maxItems"]?.int
  }
}

/// A registered type as declared: own and redeclared fields, own policies (T0.3).
struct TypeDefinition {
  var id: Text
  var json: JSONObject
  var parent: Text?
  var fields: [FieldDefinition]
  var isShipped: Bool

  init(_ json: JSONObject, isShipped: Bool) {
    self.json = json
    self.isShipped = isShipped
    id = json["id"]?.text ?? ""
    parent = json["parent"]?.text
    fields = (json["fields"]?.object?.members ?? []).compactMap { member in
      member.value.object.map { FieldDefinition(member.key, $0) }
    }
  }
}

/// A type with everything its parents give it (T8).
struct ResolvedType {
  var id: Text
  var version: Int
  /// In the order of a read of the type (T0.4).
  var fields: [FieldDefinition]
  var byName: [Text: FieldDefinition]
  var roles: [Text]
  var mergeDefault: Text
  var mergeFields: [Text: Text]
  /// The merge policy as answered, or nil where no type of the chain declares one.
  var mergePolicy: JSON?
  var linkField: Text?
  /// From the type up to its root.
  var chain: [Text]
  var json: JSON

  /// The strategy a colliding property is resolved by (V13.11).
  func keepsBoth(_ property: Text) -> Bool { (mergeFields[property] ?? mergeDefault) == "keep_both_copies" }
}

/// An edge type (E0.3).
struct EdgeTypeDefinition {
  var id: Text
  var json: JSONObject
  var cardinality: String
  var sources: [Text]
  var targets: [Text]
  var onDelete: String
  var isWrittenAtTarget: Bool
  var reverseName: Text?
  var isShipped: Bool

  init(_ json: JSONObject) {
    self.json = json
    id = json["id"]?.text ?? ""
    cardinality = json["cardinality"]?.text?.string ?? "many-to-many"
    sources = json["source_type_constraints"]?.array?.compactMap(\.text) ?? ["*"]
    targets = json["target_type_constraints"]?.array?.compactMap(\.text) ?? ["*"]
    onDelete = json["cascade_on_delete"]?.text?.string ?? "orphan"
    isWrittenAtTarget = json["written_at"]?.text == "target"
    reverseName = json["reverse_name"]?.text
    isShipped = json["shipped"]?.bool ?? false
  }

  /// Whether a source holds one edge of the type at most.
  var sourceHoldsOne: Bool { cardinality == "one-to-one" || cardinality == "many-to-one" }
  /// Whether a target holds one edge of the type at most.
  var targetHoldsOne: Bool { cardinality == "one-to-one" || cardinality == "one-to-many" }
}

/// The registry: shipped and registered types and edge types, with types resolved through their parents.
final class Catalog {
  private(set) var types: [Text: TypeDefinition] = [:]
  private(set) var typeOrder: [Text] = []
  private(set) var edgeTypes: [Text: EdgeTypeDefinition] = [:]
  private(set) var edgeTypeOrder: [Text] = []
  private var resolved: [Text: ResolvedType] = [:]
  private var children: [Text: [Text]] = [:]
  private let shipped: (types: [TypeDefinition], edgeTypes: [EdgeTypeDefinition])

  init(_ database: Database) throws {
    guard let json = try? JSON(parsing: ShippedCatalog.json) else { throw InstanceError.badCatalog("not JSON") }
    shipped = (
      (json["types"]?.array ?? []).map { TypeDefinition(Catalog.wireType($0), isShipped: true) },
      (json["edge_types"]?.array ?? []).map { EdgeTypeDefinition(Catalog.wireEdgeType($0)) }
    )
    guard !shipped.types.isEmpty, !shipped.edgeTypes.isEmpty else { throw InstanceError.badCatalog("no types") }
    try reload(database)
  }

  /// Reads the registered types again, after a change or a rolled back one.
  func reload(_ database: Database) throws {
    let registered = try database.all("SELECT body FROM item_type ORDER BY id") { $0.bytes(0) }
    let registeredEdges = try database.all("SELECT body FROM edge_type ORDER BY id") { $0.bytes(0) }
    func objects(_ texts: [[UInt8]]) -> [JSONObject] { texts.compactMap { (try? JSON(parsing: $0))?.object } }
    let allTypes = shipped.types + objects(registered).map { TypeDefinition($0, isShipped: false) }
    let allEdgeTypes = shipped.edgeTypes + objects(registeredEdges).map(EdgeTypeDefinition.init)
    types = Dictionary(allTypes.map { ($0.id, $0) }) { first, _ in first }
    typeOrder = allTypes.map(\.id)
    edgeTypes = Dictionary(allEdgeTypes.map { ($0.id, $0) }) { first, _ in first }
    edgeTypeOrder = allEdgeTypes.map(\.id)
    resolved = [:]
    children = [:]
    for type in allTypes { if let parent = type.parent { children[parent, default: []].append(type.id) } }
  }

  func type(_ id: Text) -> ResolvedType? {
    if let known = resolved[id] { return known }
    guard let declared = types[id] else { return nil }
    let made = resolve(declared, with: types)
    resolved[id] = made
    return made
  }

  /// A type resolved against a registry, which may be one that is being judged.
  func resolve(_ declared: TypeDefinition, with types: [Text: TypeDefinition]) -> ResolvedType {
    var chain = [declared]
    while let parent = chain.last?.parent, let next = types[parent], chain.count < 12 { chain.append(next) }
    var fields: [FieldDefinition] = []
    var places: [Text: Int] = [:]
    var roles: [Text] = []
    var mergeDefault: Text?
    var mergeFields = JSONObject()
    var hints: JSON?
    var versionPolicy = JSONObject()
    var declaresMerge = false
    for type in chain.reversed() {
      for field in type.fields {
        if let place = places[field.name] {
          fields[place] = field
        } else {
          places[field.name] = fields.count
          fields.append(field)
        }
      }
      for role in type.json["roles"]?.array?.compactMap(\.text) ?? [] where !roles.contains(role) { roles.append(role) }
      if let merge = type.json["merge_policy"]?.object {
        declaresMerge = true
        if let standard = merge["default"]?.text { mergeDefault = standard }
        for (name, strategy) in merge["fields"]?.object?.members ?? [] { mergeFields[name] = strategy }
      }
      if let declaredHints = type.json["display_hints"] { hints = declaredHints }
      for (name, value) in type.json["version_policy"]?.object?.members ?? [] { versionPolicy[name] = value }
    }
    var policy = JSONObject([("default", .string(mergeDefault ?? "last_writer_wins"))])
    policy["fields"] = .object(mergeFields)
    var json = declared.json
    json["fields"] = .object(JSONObject(fields.map { ($0.name, .object($0.json)) }))
    json["display_hints"] = hints
    if declaresMerge { json["merge_policy"] = .object(policy) }
    if !versionPolicy.isEmpty { json["version_policy"] = .object(versionPolicy) }
    if !roles.isEmpty { json["roles"] = .array(roles.map(JSON.string)) }
    return ResolvedType(
      id: declared.id, version: declared.json["version"]?.int ?? 0, fields: fields,
      byName: Dictionary(fields.map { ($0.name, $0) }) { $1 }, roles: roles,
      mergeDefault: mergeDefault ?? "last_writer_wins",
      mergeFields: Dictionary(mergeFields.members.compactMap { member in member.value.text.map { (member.key, $0) } }) {
        $1
      },
      mergePolicy: .object(policy), linkField: declared.json["link_field"]?.text, chain: chain.map(\.id),
      json: .object(json))
  }

  /// The type and every type whose parents lead to it, or whose id lies below it (T9).
  func subtree(_ id: Text, prefixOnly: Bool = false) -> Set<Text> {
    let below = id.bytes + [UInt8(ascii: ".")]
    var found: Set<Text> = types[id] != nil ? [id] : []
    for type in typeOrder where type.bytes.starts(with: below) { found.insert(type) }
    var pending = Array(found) + [id]
    while let next = pending.popLast() {
      for child in children[next] ?? [] where found.insert(child).inserted { pending.append(child) }
    }
    return found
  }

  func subtypes(_ id: Text) -> [Text] { children[id] ?? [] }

  /// Whether a type is another or one of its subtypes along declared parents (E19.4).
  func isType(_ id: Text, _ ancestor: Text) -> Bool {
    id == ancestor || (type(id)?.chain.contains(ancestor) ?? false)
  }

  /// Whether a type meets a constraint entry: `*`, a type, `role:<name>`.
  func admits(_ constraints: [Text], _ id: Text) -> Bool {
    constraints.contains { constraint in
      if constraint == "*" { return true }
      if constraint.bytes.starts(with: "role:".utf8) {
        return type(id)?.roles.contains(Text(bytes: constraint.bytes.dropFirst(5))) ?? false
      }
      return isType(id, constraint)
    }
  }

  func isFile(_ id: Text) -> Bool { isType(id, "core.file") }

  // MARK: catalog.json (T108, T109)

  private static func wireType(_ entry: JSON) -> JSONObject {
    var wire = JSONObject()
    wire["id"] = entry["id"]
    wire["label"] = entry["label"]
    wire["description"] = entry["about"]
    wire["version"] = entry["version"] ?? 0
    wire["parent"] = entry["parent"]
    var fields = JSONObject()
    for field in entry["fields"]?.array ?? [] {
      guard let name = field["name"]?.text else { continue }
      var made = JSONObject()
      made["type"] = field["kind"]
      made["description"] = field["about"]
      made["required"] = field["required"]
      made["enum_values"] = field["values"]
      made["items_type"] = field["of"]
      made["format"] = field["format"]
      fields[name] = .object(made)
    }
    wire["fields"] = .object(fields)
    var hints = JSONObject()
    hints["title_field"] = entry["title_field"]
    hints["body_field"] = entry["body_field"]
    if !hints.isEmpty { wire["display_hints"] = .object(hints) }
    if let merge = entry["merge"]?.object {
      var policy = JSONObject()
      policy["default"] = merge["default"]
      policy["fields"] = merge["fields"]
      wire["merge_policy"] = .object(policy)
    }
    wire["roles"] = entry["roles"]
    return wire
  }

  private static func wireEdgeType(_ entry: JSON) -> JSONObject {
    var wire = JSONObject()
    wire["id"] = entry["id"]
    wire["label"] = entry["label"]
    wire["description"] = entry["about"]
    wire["cardinality"] = entry["cardinality"]
    wire["source_type_constraints"] = entry["source"]
    wire["target_type_constraints"] = entry["target"]
    wire["cascade_on_delete"] = entry["on_delete"]
    var schema = JSONObject()
    for property in entry["properties"]?.array ?? [] {
      guard let name = property["name"]?.text else { continue }
      var made = JSONObject()
      made["type"] = property["kind"]
      made["description"] = property["about"]
      schema[name] = .object(made)
    }
    wire["property_schema"] = .object(schema)
    wire["reverse_name"] = entry["reverse_name"]
    wire["written_at"] = entry["written_at"] ?? "source"
    wire["shipped"] = true
    return wire
  }
}

/// Whether a text is a type identifier (T1.1, T1.4).
func isTypeIdentifier(_ text: Text) -> Bool {
  guard text.bytes.count <= 128 else { return false }
  let segments = text.bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
  guard segments.count >= 2, segments.allSatisfy(isSegment) else { return false }
  let root = Text(bytes: segments[0])
  if root == "app", segments.count != 3 { return false }
  return !reservedRoots.contains(root)
}

private func isSegment(_ bytes: ArraySlice<UInt8>) -> Bool {
  guard let first = bytes.first, (0x61...0x7A).contains(first) else { return false }
  return bytes.allSatisfy { (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2D || $0 == 0x5F }
}

/// First segments that head a permission family (T1.4).
private let reservedRoots: Set<Text> = [
  "schema", "keys", "items", "webhooks", "config", "audit", "grants", "content", "metadata", "edge", "profile", "space",
  "blobs", "connectors", "instance",
]

/// Whether a text is an edge type's identifier: one undotted name, or a type identifier (E18.6).
func isEdgeTypeIdentifier(_ text: Text) -> Bool {
  if isTypeIdentifier(text) { return true }
  guard text.bytes.count <= 128, isSegment(text.bytes[...]), let last = text.bytes.last else { return false }
  return last != 0x2D && last != 0x5F
}

/// Whether a type is one of the instance's own (`system.*`).
func isSystem(_ type: Text) -> Bool { type.bytes.starts(with: "system.".utf8) }
