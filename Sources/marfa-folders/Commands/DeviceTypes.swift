import MarfaBase
import MarfaCopy

/// `device types` and `device edge-types`.
func deviceTypes() -> [Command] {
  [
    Command(
      name: "types", summary: "the item types",
      commands: [
        Command(name: "list", summary: "the types the copy knows", run: listTypes),
        Command(
          name: "get", summary: "one type", arguments: [Argument("ID", "The type's id, such as core.note.")],
          run: getType),
        Command(name: "served", summary: "the types the server has now", run: servedTypes),
        Command(
          name: "declare", summary: "declare this program's own types, in place of those declared before",
          discussion: """
            Takes one definition or a list of them; an empty list clears them. A fill registers those the server lacks, \
            where the key may. One that is malformed declares none.
            """,
          options: [
            Option("definitions", .text("JSON"), "The definitions."),
            Option("file", .text("PATH"), "A file that holds them; '-' is standard input."),
          ], run: declareTypes),
        Command(name: "declared", summary: "the types declared here", run: declaredTypes),
      ]),
    Command(
      name: "edge-types", summary: "the edge types",
      commands: [
        Command(name: "list", summary: "the edge types the copy knows", run: listEdgeTypes),
        Command(
          name: "get", summary: "one edge type", arguments: [Argument("ID", "The edge type's id, such as parent-of.")],
          run: getEdgeType),
        Command(name: "served", summary: "the edge types the server has now", run: servedEdgeTypes),
      ]),
  ]
}

/// `ItemType` of C26.7.
private func json(_ type: ItemType) -> JSON {
  let fields = type.fields.map { field -> JSON in
    [
      "name": .string(field.name), "type": .string(field.kind), "required": .bool(field.isRequired),
      "description": field.definition["description"] ?? .null, "declared_by": .string(field.declaredBy),
      "definition": field.definition,
    ]
  }
  return [
    "id": .string(type.id), "label": .string(type.label), "description": type.definition["description"] ?? .null,
    "parent": .optional(type.parent), "version": type.definition["version"] ?? .null, "fields": .array(fields),
    "title_field": .string(type.titleField), "body_field": .string(type.bodyField),
    "link_field": type.definition["link_field"] ?? .null, "roles": .array(type.roles.map { .string($0) }),
    "compatible_with": type.definition["compatible_with"] ?? .array([]),
  ]
}

/// `EdgeType` of C26.7.
private func json(_ type: EdgeType) -> JSON {
  [
    "id": .string(type.id), "label": .string(type.label), "description": type.definition["description"] ?? .null,
    "cardinality": .string(type.cardinality.rawValue), "reverse_name": .optional(type.reverseName),
    "written_at": .string(type.writtenAt.rawValue),
    "source_type_constraints": .array(type.sourceConstraints.map { .string($0) }),
    "target_type_constraints": .array(type.targetConstraints.map { .string($0) }),
    "cascade_on_delete": type.definition["cascade_on_delete"] ?? .null,
    "properties": type.definition["properties"] ?? .null, "shipped": .bool(type.isShipped),
  ]
}

private func sorted<Value>(_ values: [Text: Value]) -> [Value] {
  values.sorted { $0.key < $1.key }.map(\.value)
}

@Sendable private func listTypes(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let types = sorted(try catalog(invocation).types)
  invocation.program.output.answer(.array(types.map(json)), types.map { "\($0.id)  \($0.label)" })
  return 0
}

@Sendable private func getType(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = invocation.argument(0) ?? ""
  guard let type = try catalog(invocation).type(id) else {
    throw MarfaError(.notFound, "the copy knows no type '\(id)'")
  }
  invocation.program.output.answer(
    json(type), ["\(type.id)  \(type.label)"] + type.fields.map { "  \($0.name): \($0.kind)" })
  return 0
}

@Sendable private func servedTypes(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let catalog = try served(invocation)
  let types = sorted(catalog.types)
  invocation.program.output.answer(.array(types.map(json)), types.map { "\($0.id)  \($0.label)" })
  return 0
}

@Sendable private func listEdgeTypes(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let types = sorted(try catalog(invocation).edgeTypes)
  invocation.program.output.answer(.array(types.map(json)), types.map { "\($0.id)  \($0.label)" })
  return 0
}

@Sendable private func getEdgeType(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = invocation.argument(0) ?? ""
  guard let type = try catalog(invocation).edgeTypes[id] else {
    throw MarfaError(.notFound, "the copy knows no edge type '\(id)'")
  }
  invocation.program.output.answer(json(type), ["\(type.id)  \(type.label)  \(type.cardinality.rawValue)"])
  return 0
}

@Sendable private func servedEdgeTypes(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let types = sorted(try served(invocation).edgeTypes)
  invocation.program.output.answer(.array(types.map(json)), types.map { "\($0.id)  \($0.label)" })
  return 0
}

@Sendable private func declareTypes(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  guard invocation.has("definitions") != invocation.has("file") else {
    throw MarfaError(.usage, "'types declare' takes either --definitions or --file")
  }
  let types = try definitions(invocation)
  try DeviceStore(invocation).use { (copy) throws(MarfaError) in try copy.declareTypes(types) }
  invocation.program.output.answer(
    ["declared": .int(types.count)],
    [types.isEmpty ? "no type is declared any more" : "\(counted(types.count, "type")) declared"])
  return 0
}

/// One definition or a list of them (C25.8).
private func definitions(_ invocation: Invocation) throws(MarfaError) -> [JSONObject] {
  let bytes: [UInt8]
  if let text = invocation.value("definitions") {
    bytes = text.bytes
  } else {
    let file = invocation.value("file") ?? ""
    bytes =
      try file == "-"
      ? readStandardInput()
      : readFile(invocation.program.absolute(PathBytes(file)), in: SystemFileSystem(), limit: 16 << 20)
  }
  let json: JSON
  do throws(JSONError) { json = try JSON(parsing: bytes) } catch {
    throw MarfaError(.invalid, "the definitions are no JSON: \(error.description)")
  }
  switch json {
  case .object(let one): return [one]
  case .array(let list):
    return try list.map { (entry) throws(MarfaError) in
      guard let object = entry.object else {
        throw MarfaError(.invalid, "a definition is no JSON object: \(entry.compact)")
      }
      return object
    }
  case .null, .bool, .number, .string:
    throw MarfaError(.invalid, "the definitions are neither a JSON object nor a list of them")
  }
}

@Sendable private func declaredTypes(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let types = try DeviceStore(invocation).use { (copy) throws(MarfaError) in try copy.declaredTypes() }
  invocation.program.output.answer(
    .array(types.map { .object($0) }), types.map { $0["id"]?.text?.string ?? "a type without an id" })
  return 0
}

/// The catalog the copy holds.
private func catalog(_ invocation: Invocation) throws(MarfaError) -> Catalog {
  try DeviceStore(invocation).use { (copy) throws(MarfaError) in try copy.catalog() }
}

/// The catalog as the server lists it now; the copy's own stays as it is.
private func served(_ invocation: Invocation) throws(MarfaError) -> Catalog {
  try DeviceStore(invocation).use(asks: true) { (copy) throws(MarfaError) in try copy.servedCatalog() }
}
