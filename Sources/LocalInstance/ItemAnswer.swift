import MarfaBase

/// Answers that carry an item.
extension Instance {
  /// `{"item","metadata"}` with the first edges of each type (I0.8), and what else the door says.
  func itemReply(_ status: Int, _ row: ItemRow, _ call: Call, extra: String = "") throws -> Reply {
    .text(status, try itemAnswer(row, call, extra: Array(extra.utf8)))
  }

  func itemAnswer(_ row: ItemRow, _ call: Call, extra: [UInt8] = []) throws -> [UInt8] {
    let edgeTypes = try edgeTypes(of: row.id, inbound: false)
    if call.idempotencyKey != nil { noteDisclosed(row, edgeTypes, call) }
    if let type = row.trash?.rootType, call.credential.reads(type) { call.needs.reads.append(type) }
    var out: [UInt8] = []
    out.reserveCapacity(row.properties.count + 1024)
    out += "{\"item\":".utf8
    row.appendOpen(to: &out, reader: call.credential)
    out += ",\"edges\":".utf8
    try appendEdgeBlocks(of: row.id, edgeTypes, inbound: false, call.credential, to: &out)
    out += "},\"metadata\":".utf8
    row.appendMetadata(to: &out, reader: call.credential)
    out += extra
    out += "}".utf8
    return out
  }

  /// What the answer shows beside the row itself, for holding a replay to it (I24.13).
  private func noteDisclosed(_ row: ItemRow, _ edgeTypes: [Text], _ call: Call) {
    call.shown = row
    call.needs.reads.append(row.type)
    call.needs.shown.append(row.id)
    if row.extensions.count > 2 {
      call.needs.extensions += row.extensionsObject.keys.filter(call.credential.extensions.reads)
    }
    call.needs.edgeReads += edgeTypes.filter(call.credential.edges.reads)
  }

  func metadataReply(_ row: ItemRow, _ call: Call) -> Reply {
    var out = Array("{\"metadata\":".utf8)
    row.appendMetadata(to: &out, reader: call.credential)
    out += "}".utf8
    return .text(200, out)
  }

  /// `GET /items/{id}` (I17).
  func readItem(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare(["include"])
    let includes = try includes(call, ["backrefs", "neighbors", "versions", "edges", "metadata"])
    let row = try readableItem(try call.id(), call.credential)
    var extra: [UInt8] = []
    if call.header("x-marfa-read-view") != nil { extra += ",\"listed\":\(isListed(row, call.credential))".utf8 }
    if includes.contains("backrefs") {
      extra += ",\"backrefs\":".utf8
      try appendEdgeBlocks(of: row.id, inbound: true, call.credential, to: &extra)
    }
    if includes.contains("neighbors") { try appendNeighbors(of: row, call, to: &extra) }
    if includes.contains("versions") {
      extra += ",\"versions\":".utf8
      extra += try versionsPage(of: row.id, limit: 50, after: 0, call)
    }
    return .text(200, try itemAnswer(row, call, extra: extra))
  }

  func includes(_ call: Call, _ known: Set<Text>) throws -> Set<Text> {
    guard let value = call.query["include"] else { return [] }
    let named = commaList(value)
    for entry in named where !known.contains(entry) {
      throw Refusal.invalid("include", "\(entry) is nothing this operation includes.")
    }
    return Set(named)
  }

  /// Up to 100 items at the far ends of its edges (I17.4, SF10.3).
  private func appendNeighbors(of row: ItemRow, _ call: Call, to out: inout [UInt8]) throws {
    let ends = try database.all(
      """
      SELECT e.source, e.target, e.type, s.type FROM edge e JOIN item s ON s.id = e.source
      WHERE e.source = ?1 OR e.target = ?1 ORDER BY e.created DESC, e.id DESC
      """, row.id
    ) { ($0.id(0), $0.id(1), $0.text(2), $0.text(3)) }
    var seen: Set<EntityID> = [row.id]
    var neighbors: [ItemRow] = []
    var omitted = 0
    for (source, target, type, sourceType) in ends {
      guard let far = source == row.id ? target : source, seen.insert(far).inserted, let item = try item(far),
        !item.isTrashed, !isSystem(item.type)
      else { continue }
      if call.credential.reads(item.type), call.credential.edges.reads(type), call.credential.reads(sourceType) {
        neighbors.append(item)
      } else {
        omitted += 1
      }
    }
    out += ",\"neighbors\":[".utf8
    for (place, item) in neighbors.prefix(100).enumerated() {
      if place > 0 { out += ",".utf8 }
      out += "{\"item\":".utf8
      item.appendOpen(to: &out, reader: call.credential)
      out += "},\"metadata\":".utf8
      item.appendMetadata(to: &out, reader: call.credential)
      if call.header("x-marfa-read-view") != nil { out += ",\"listed\":\(isListed(item, call.credential))".utf8 }
      out += "}".utf8
    }
    out += "],\"neighbors_truncated\":\(neighbors.count > 100),\"neighbors_omitted\":\(omitted)".utf8
  }

  /// Whether the source filter lets a listing show the row (RV5.2).
  func isListed(_ row: ItemRow, _ reader: Credential) -> Bool {
    isListed(type: row.type, source: row.source, reader)
  }

  func isListed(type: Text, source: Text, _ reader: Credential) -> Bool {
    sourceFilters(of: reader).allSatisfy { named, sources in
      !catalog.subtree(named).contains(type) || sources.contains(source)
    }
  }

  /// `POST /items/bulk-get` (I20).
  func bulkGet(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    let body = try call.object()
    guard let named = body["ids"], !named.isNull else { throw Refusal.missing("ids") }
    guard let list = named.array else { throw Refusal.invalid("ids", "ids is not a list.") }
    if list.count > 100 {
      throw Refusal(
        400, "validation_error", "At most 100 ids.", ["cap": 100, "provided": .int(list.count)])
    }
    var include: Set<Text> = []
    if let named = body["include"] {
      // Extensions are told with the metadata, and rows of `system.*` types as any other (I20.6).
      let known: [Text] = ["edges", "metadata", "extensions", "system"]
      guard let entries = named.array?.map(\.text), entries.allSatisfy({ $0.map(known.contains) ?? false }) else {
        throw Refusal.invalid("include", "include takes edges, metadata, extensions and system.")
      }
      include = Set(entries.compactMap { $0 })
      if include.contains("extensions") { include.insert("metadata") }
    }
    var seen: Set<Text> = []
    var rows: [ItemRow] = []
    for entry in list {
      guard let text = entry.text else { throw Refusal.invalid("ids", "ids is a list of ids.") }
      guard let id = strictID(text) else { throw Refusal.invalidID }
      guard seen.insert(text).inserted, let row = try item(id), call.credential.reads(row.type), !row.isTrashed
      else { continue }
      rows.append(row)
    }
    var out = Array("{\"items\":[".utf8)
    for (place, row) in rows.enumerated() {
      if place > 0 { out += ",".utf8 }
      row.appendOpen(to: &out, reader: call.credential)
      if include.contains("edges") {
        out += ",\"edges\":".utf8
        try appendEdgeBlocks(of: row.id, inbound: false, call.credential, to: &out)
      }
      out += "}".utf8
    }
    out += "]".utf8
    if include.contains("metadata") {
      out += ",\"metadata\":[".utf8
      for (place, row) in rows.enumerated() {
        if place > 0 { out += ",".utf8 }
        row.appendMetadata(to: &out, reader: call.credential)
      }
      out += "]".utf8
    }
    return .text(200, out + "}".utf8)
  }
}
