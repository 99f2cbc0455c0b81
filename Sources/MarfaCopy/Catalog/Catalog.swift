import MarfaBase

/// A field of an item type.
package struct Field: Hashable, Sendable {
  package var name: Text
  /// `string`, `number`, `integer`, `boolean`, `url`, `email`, `datetime`, `date`, `enum`, `array`, `object`, `thumbnail`.
  package var kind: Text
  package var isRequired: Bool
  package var isSearchable: Bool
  /// The type that declares it.
  package var declaredBy: Text
  /// The whole definition as served.
  package var definition: JSON
}

/// An item type, inherited fields resolved (D47.2).
package struct ItemType: Hashable, Sendable {
  package var id: Text
  package var label: Text
  package var parent: Text?
  /// Every field, a parent's before its own, a redeclared one in its first place.
  package var fields: [Field]
  /// The property its title lies under.
  package var titleField: Text
  /// The property its body lies under.
  package var bodyField: Text
  /// This type, then its parents.
  package var chain: [Text]
  /// The roles it carries, inherited ones included.
  package var roles: [Text]
  /// The definition as `GET /types` listed it.
  package var definition: JSON

  /// Whether it is `core.file` or lies under it.
  package var isFileType: Bool { chain.contains("core.file") }

  /// A field by name.
  package func field(_ name: Text) -> Field? { fields.first { $0.name == name } }
}

/// How many edges of a type an end may hold.
package enum Cardinality: Text, Hashable, Sendable {
  case oneToOne = "one-to-one"
  case oneToMany = "one-to-many"
  case manyToOne = "many-to-one"
  case manyToMany = "many-to-many"

  /// Whether a target may have edges of one source alone.
  package var targetHasOne: Bool { self == .oneToOne || self == .oneToMany }
  /// Whether a source may have an edge to one target alone.
  package var sourceHasOne: Bool { self == .oneToOne || self == .manyToOne }
}

/// Whose file writes an edge.
package enum WrittenAt: Text, Hashable, Sendable {
  case source
  case target
  case none
}

/// An edge type.
package struct EdgeType: Hashable, Sendable {
  package var id: Text
  package var label: Text
  package var reverseName: Text?
  package var cardinality: Cardinality
  package var writtenAt: WrittenAt
  /// Whether Marfa ships it.
  package var isShipped: Bool
  /// Types an edge may run from: ids, `*`, `role:...`.
  package var sourceConstraints: [Text]
  /// Types an edge may run to.
  package var targetConstraints: [Text]
  /// Whether edges of the type go with their host (parts, SF20.2).
  package var hasHosts: Bool
  /// The definition as `GET /edge-types` listed it.
  package var definition: JSON

  /// The edge type of a listed definition; nil where it has no id.
  package init?(_ definition: JSON) {
    guard let id = definition["id"]?.text else { return nil }
    self.id = id
    label = definition["label"]?.text ?? id
    reverseName = definition["reverse_name"]?.text
    cardinality = definition["cardinality"]?.text.flatMap(Cardinality.init(rawValue:)) ?? .manyToMany
    writtenAt = definition["written_at"]?.text.flatMap(WrittenAt.init(rawValue:)) ?? .source
    isShipped = definition["shipped"]?.bool ?? false
    func texts(_ name: Text) -> [Text] { (definition[name]?.array ?? ["*"]).compactMap(\.text) }
    sourceConstraints = texts("source_type_constraints")
    targetConstraints = texts("target_type_constraints")
    hasHosts = definition["with_hosts"]?.bool ?? (id == "attached-to" || id == "comments-on")
    self.definition = definition
  }
}

/// The types and edge types a copy knows, at one moment (D47.4).
package struct Catalog: Hashable, Sendable {
  /// Moves exactly when a refresh changes either catalog; nil until an instance's catalog was held (D49.1).
  package let version: Int?
  /// The item types by id.
  package let types: [Text: ItemType]
  /// The edge types by id.
  package let edgeTypes: [Text: EdgeType]
  private let children: [Text: [Text]]

  /// A catalog of definitions as the instance lists them.
  package init(version: Int?, types definitions: [JSON], edgeTypes edgeDefinitions: [JSON]) {
    self.version = version
    var byID: [Text: JSON] = [:]
    for definition in definitions { if let id = definition["id"]?.text { byID[id] = definition } }
    var types: [Text: ItemType] = [:]
    var children: [Text: [Text]] = [:]
    for (id, definition) in byID {
      types[id] = ItemType(resolving: definition, id: id, among: byID)
      if let parent = definition["parent"]?.text { children[parent, default: []].append(id) }
    }
    self.types = types
    self.children = children
    var edgeTypes: [Text: EdgeType] = [:]
    for definition in edgeDefinitions { if let type = EdgeType(definition) { edgeTypes[type.id] = type } }
    self.edgeTypes = edgeTypes
  }

  /// A type by id.
  package func type(_ id: Text) -> ItemType? { types[id] }

  /// A type and its parents; the id alone where the catalog lacks it.
  package func chain(_ id: Text) -> [Text] { types[id]?.chain ?? [id] }

  /// An edge type by id or by reverse name, and whether the name was the reverse one (F11).
  package func edgeType(named name: Text) -> (type: EdgeType, isReverse: Bool)? {
    if let type = edgeTypes[name] { return (type, false) }
    let reverse = edgeTypes.values.filter { $0.reverseName == name }.min { $0.id < $1.id }
    return reverse.map { ($0, true) }
  }

  /// Whether a type is `ancestor` or lies under it, by dotted name or by declared parent at any depth (D1.1). `root.*`
  /// takes everything under that root.
  package func isType(_ type: Text, under ancestor: Text) -> Bool {
    if ancestor.bytes.suffix(2).elementsEqual(".*".utf8) {
      return type.bytes.starts(with: ancestor.bytes.dropLast())
    }
    return chain(type).contains { link in
      link == ancestor || link.bytes.starts(with: ancestor.bytes + [UInt8(ascii: ".")])
    }
  }

  /// The types of the catalog at or under one.
  package func subtree(of ancestor: Text) -> [Text] { types.keys.filter { isType($0, under: ancestor) }.sorted() }

  /// Every property some type keeps its title in, ascending; `title` is always one.
  package var titleFields: [Text] { Set(types.values.map(\.titleField) + ["title"]).sorted() }

  /// The title of an item, by its type's title field (D211.6).
  package func title(of item: Item) -> Text? { item.properties[types[item.type]?.titleField ?? "title"]?.text }

  /// The body of an item, by its type's body field.
  package func body(of item: Item) -> Text? { item.properties[types[item.type]?.bodyField ?? "body"]?.text }

  /// The property a type keeps its title in.
  package func titleField(of type: Text) -> Text { types[type]?.titleField ?? "title" }

  /// The property a type keeps its body in.
  package func bodyField(of type: Text) -> Text { types[type]?.bodyField ?? "body" }
}

extension ItemType {
  /// The type of a listed definition with what it inherits; a parent chain that turns in a circle ends where it closes.
  fileprivate init(resolving definition: JSON, id: Text, among all: [Text: JSON]) {
    var chain: [Text] = []
    var definitions: [JSON] = []
    var next: Text? = id
    while let current = next, !chain.contains(current) {
      chain.append(current)
      if let found = all[current] { definitions.append(found) }
      next = all[current]?["parent"]?.text
    }
    var fields: [Field] = []
    for declared in definitions.reversed() {
      for (name, field) in declared["fields"]?.object?.members ?? [] {
        let made = Field(
          name: name, kind: field["type"]?.text ?? "string", isRequired: field["required"]?.bool ?? false,
          isSearchable: field["searchable"]?.bool ?? true, declaredBy: declared["id"]?.text ?? id, definition: field)
        if let place = fields.firstIndex(where: { $0.name == name }) {
          fields[place] = made
        } else {
          fields.append(made)
        }
      }
    }
    // Display hints are those of the nearest type that declares any, taken whole (D47.2).
    let hints = definitions.compactMap { $0["display_hints"]?.object }.first { !$0.isEmpty }
    var roles: [Text] = []
    for declared in definitions {
      for role in (declared["roles"]?.array ?? []).compactMap(\.text) where !roles.contains(role) { roles.append(role) }
    }
    self.init(
      id: id, label: definition["label"]?.text ?? id, parent: definition["parent"]?.text, fields: fields,
      titleField: hints?["title_field"]?.text ?? "title", bodyField: hints?["body_field"]?.text ?? "body",
      chain: chain, roles: roles, definition: definition)
  }
}
