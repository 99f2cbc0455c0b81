import MarfaBase

/// Tags, metadata and extensions (I37 to I43).
extension Instance {
  func readMetadata(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    return metadataReply(try readableItem(try call.id(), call.credential), call)
  }

  /// `PATCH` adds tags, `PUT` makes them the whole list (I37.2, I37.3).
  func writeMetadata(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    let body = ItemBody(object: try call.object())
    let named = try body.tags()
    let row = try writableItem(try call.id(), call)
    if call.method == "PUT" { return metadataReply(try writeTags(named ?? [], row, call), call) }
    guard let named else { return metadataReply(row, call) }
    return metadataReply(try writeTags(row.tagList + named, row, call), call)
  }

  func addTags(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    let body = ItemBody(object: try call.object())
    guard let named = try body.tags() else { throw Refusal.missing("tags") }
    if named.isEmpty { throw Refusal.invalid("tags", "tags names no tag.") }
    let row = try writableItem(try call.id(), call)
    return metadataReply(try writeTags(row.tagList + named, row, call), call)
  }

  func removeTag(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    let tag = call.parts.count > 1 ? call.parts[1] : ""
    let id = try call.id()
    try judgeTag(tag, "tag")
    let row = try writableItem(id, call)
    let held = row.tagList
    guard held.contains(tag) else { return metadataReply(row, call) }
    return metadataReply(try writeTags(held.filter { $0 != tag }, row, call), call)
  }

  /// Writes a row's tags, each once in the order of first writing, and announces `metadata.changed`.
  func writeTags(_ tags: [Text], _ row: ItemRow, _ call: Call) throws -> ItemRow {
    var once: [Text] = []
    for tag in tags where !once.contains(tag) { once.append(tag) }
    try judgeTagCount(once, held: row.tagList.count)
    var changed = row
    changed.tags = tagText(once)
    try update(&changed, was: row, as: "metadata.changed")
    return changed
  }

  /// `GET /metadata/tags` (I40).
  func countTags(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    var counts: [Text: Int] = [:]
    let pairs = try database.all(
      """
      SELECT t.name, i.type, count(*) FROM tag t JOIN item i ON i.seq = t.item
      WHERE i.state = 'active' GROUP BY t.name, i.type
      """
    ) { ($0.text(0), $0.text(1), $0.int(2)) }
    for (tag, type, count) in pairs where call.credential.reads(type) { counts[tag, default: 0] += count }
    let sorted = counts.sorted { $0.value != $1.value ? $0.value > $1.value : $0.key < $1.key }
    return .json(
      200,
      [
        "data": .array(sorted.map { ["tag": .string($0.key), "count": .int($0.value)] }), "next_cursor": nil,
      ])
  }

  // MARK: extensions (I41)

  private func extensionsReply(_ row: ItemRow, _ call: Call) -> Reply {
    var out = Array("{\"extensions\":".utf8)
    row.appendExtensions(to: &out, reader: call.credential)
    return .text(200, out + "}".utf8)
  }

  private func namespace(_ call: Call, _ level: Level) throws -> Text {
    let name = call.parts.count > 1 ? call.parts[1] : ""
    guard !name.isEmpty, name.utf16Count <= 200, !name.bytes.contains(0) else {
      throw Refusal.invalid("namespace", "The namespace is empty or too long.")
    }
    guard call.credential.extensions.level(name) >= level else {
      throw Refusal(
        403, "forbidden", "The credential may not \(level.word) that extension.",
        ["grant": ["kind": "extension", "name": JSON.string(name), "level": JSON.string(level.word)]])
    }
    return name
  }

  func readExtensions(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    let id = try call.id()
    guard call.parts.count > 1 else { return extensionsReply(try readableItem(id, call.credential), call) }
    let name = try namespace(call, .read)
    let row = try readableItem(id, call.credential)
    return .json(200, ["namespace": .string(name), "data": row.extensionsObject[name] ?? .null])
  }

  /// `PUT` replaces a namespace whole, `DELETE` takes it away.
  func writeExtension(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    let data: JSON? = call.method == "PUT" ? .some(.object(try call.object())) : .none
    let id = try call.id()
    let name = try namespace(call, .write)
    let row = try writableItem(id, call)
    var changed = row
    var all = row.extensionsObject
    if data == nil, all[name] == nil { return extensionsReply(row, call) }
    let standing = try takeStanding(
      JSONObject([(Text(""), data ?? JSON.null)]), kind: "extension", owner: row.id, place: name,
      held: all[name].map { $0.write() }, call)
    all[name] = data
    changed.extensions = JSON.object(all).write()
    try update(&changed, was: row, as: "metadata.changed")
    try standing.write(database)
    return extensionsReply(changed, call)
  }
}
