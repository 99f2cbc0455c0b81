import MarfaBase

/// Reading the registry, and `POST /items/lookup`.
extension Instance {
  func listTypes(_ call: Call) throws -> Reply {
    try call.query.declare([])
    let all = catalog.typeOrder.compactMap { id -> JSON? in
      guard var json = catalog.types[id]?.json else { return nil }
      if let roles = catalog.type(id)?.roles, !roles.isEmpty { json["roles"] = .array(roles.map(JSON.string)) }
      return .object(json)
    }
    return .json(200, ["data": .array(all), "next_cursor": nil])
  }

  func readType(_ call: Call) throws -> Reply {
    try call.query.declare([])
    guard let id = call.parts.first, let type = catalog.type(id) else {
      throw Refusal(404, "type_not_found", "No such type.")
    }
    return .json(200, type.json)
  }

  func listEdgeTypes(_ call: Call) throws -> Reply {
    try call.query.declare([])
    let all = catalog.edgeTypeOrder.compactMap { id in (catalog.edgeTypes[id]?.json).map(JSON.object) }
    return .json(200, ["data": .array(all), "next_cursor": nil])
  }

  /// Finds rows by natural key, id or link (SF25).
  func lookUp(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    let body = try call.object()
    try ItemBody(object: body).declare(["type", "source", "source_ids", "ids", "links", "include"])
    guard let value = body["type"], !value.isNull else { throw Refusal.missing("type") }
    guard let type = value.text, isTypeIdentifier(type) else { throw Refusal.invalid("type", "Not a type identifier.") }
    let selectors = ["links", "source_ids", "ids"].filter { body[$0] != nil } as [Text]
    guard selectors.count == 1, let selector = selectors.first, let values = body[selector]?.array, !values.isEmpty,
      values.allSatisfy({ $0.text != nil }), (body["source"] != nil) == (selector == "source_ids")
    else { throw Refusal.invalid("", "One of links, source with source_ids, or ids.") }
    // An id that is none is told by its own code below.
    for (name, entries) in [(selector, selector == "ids" ? [] : values), ("source", [body["source"] ?? "-"])]
    where entries.contains(where: { $0.text?.bytes.isEmpty ?? true }) {
      throw Refusal.invalid(name, "An empty value finds nothing.")
    }
    if values.count > 500 {
      throw Refusal(400, "validation_error", "At most 500 values.", ["cap": 500, "provided": .int(values.count)])
    }
    var edges = false
    if let include = body["include"] {
      guard let list = include.array, list.allSatisfy({ $0.text == "edges" }) else {
        throw Refusal.invalid("include", "include takes edges.")
      }
      edges = !list.isEmpty
    }
    var texts: [Text] = []
    for value in values { if let text = value.text, !texts.contains(text) { texts.append(text) } }
    if selector == "ids", texts.contains(where: { strictID($0) == nil }) { throw Refusal.invalidID }
    guard let resolved = catalog.type(type) else { throw Refusal.unknownType(type) }
    if selector == "links", resolved.linkField == nil { throw Refusal.invalid("links", "The type has no link.") }
    let subtree = catalog.subtree(type)
    if !subtree.contains(where: call.credential.reads) { throw Refusal.type(type, .read) }
    let source = body["source"]?.text ?? ""
    var out = Array("{\"data\":[".utf8)
    var isFirst = true
    for text in texts {
      let row: ItemRow?
      switch selector.string {
      case "ids": row = try strictID(text).flatMap { try item($0) }
      case "links":
        row = try database.one("SELECT \(ItemRow.columns) FROM item WHERE type = ? AND link = ?", type, text) {
          ItemRow($0)
        }
      default: row = try item(source: source, sourceID: text)
      }
      guard let row, subtree.contains(row.type), call.credential.reads(row.type), !isSystem(row.type) else { continue }
      if !isFirst { out += ",".utf8 }
      isFirst = false
      row.appendOpen(to: &out, reader: call.credential)
      if edges {
        out += ",\"edges\":".utf8
        try appendEdgeBlocks(of: row.id, inbound: false, call.credential, to: &out)
      }
      out += "}".utf8
    }
    // Only to a reader of the type itself (SF25.4), and never for ids.
    var tombstones: [JSON] = []
    if selector != "ids", call.credential.reads(type) {
      tombstones = try texts.compactMap { try tombstone(type, selector == "links" ? .link : .naturalKey(source), $0) }
    }
    out += "],\"tombstones\":".utf8
    JSON.array(tombstones).append(to: &out)
    return .text(200, out + "}".utf8)
  }
}
