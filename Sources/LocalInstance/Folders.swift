import MarfaBase

/// The folder doors: a folder's settings as one `system.folder` item (I49 to I54).
extension Instance {
  static let folderType: Text = "system.folder"
  static let folderSettings: [Text] = [
    "title", "search", "defaults", "include", "ignore", "first_placement", "removal_threshold",
  ]

  private func requireFolderWrite(_ call: Call) throws {
    try call.credential.requireWrite(Instance.folderType)
    call.needs.types.append(Instance.folderType)
    try call.query.declare([])
  }

  func createFolder(_ call: Call) throws -> Reply {
    try requireFolderWrite(call)
    let body = try call.object()
    if (body["title"] ?? .null).isNull { throw Refusal.missing("title") }
    try FolderRules(catalog: catalog).judge(body, allowing: [])
    var properties = JSONObject()
    for name in Instance.folderSettings { if let value = body[name] { properties[name] = value } }
    let now = clock.now
    var row = ItemRow(
      id: ids.next(), type: Instance.folderType, tier: "library", source: call.credential.source, occurred: now,
      created: now, updated: now, properties: JSON.object(properties).write())
    try insert(&row)
    return try itemReply(201, row, call)
  }

  private func folder(_ call: Call) throws -> ItemRow {
    guard let row = try item(try call.id()), row.type == Instance.folderType else { throw Refusal.itemNotFound }
    if row.state == "revoked" { throw Refusal(400, "invalid_transition", "The folder is revoked.") }
    return row
  }

  /// Settings nobody else changed since the version named are laid over the current ones (I51).
  func changeFolder(_ call: Call) throws -> Reply {
    try requireFolderWrite(call)
    let body = try call.object()
    guard let base = try ItemBody(object: body).version() else { throw Refusal.missing("version") }
    let rules = FolderRules(catalog: catalog)
    try rules.judgeMembers(body, allowing: ["version"])
    let named = Instance.folderSettings.filter { body[$0] != nil }
    if named.isEmpty { throw Refusal.invalid("", "The change names no setting.") }
    try rules.judge(body, allowing: ["version"])
    let row = try folder(call)
    var properties = row.propertiesObject
    if base != row.version {
      guard let ancestor = try snapshot(of: row.id, base) else {
        var refusal = Refusal(409, "ancestor_unavailable", "No snapshot of that version is held.")
        refusal.beside = [("current", row.conflictView), ("requested_version", .int(base))]
        throw refusal
      }
      let colliding = named.filter { properties[$0] != ancestor.properties[$0] }.sorted()
      if !colliding.isEmpty {
        var refusal = Refusal(409, "version_conflict", "The folder's settings were changed since that version.")
        refusal.beside = [
          ("current", row.conflictView), ("ancestor", ancestor.view(row.id)),
          ("conflicting_fields", .array(colliding.map(JSON.string))),
          ("merge_policy", ["default": "last_writer_wins", "fields": [:]]),
        ]
        throw refusal
      }
    }
    for name in named { properties[name] = body[name] }
    return try itemReply(200, try writeFolder(row, properties, as: "item.updated", call), call)
  }

  func revokeFolder(_ call: Call) throws -> Reply {
    try requireFolderWrite(call)
    let row = try folder(call)
    var properties = row.propertiesObject
    properties["revoked_at"] = .string(clock.now.text)
    return try itemReply(200, try writeFolder(row, properties, as: "item.state_changed", state: "revoked", call), call)
  }

  private func writeFolder(
    _ row: ItemRow, _ properties: JSONObject, as kind: String, state: Text? = nil, _ call: Call
  ) throws -> ItemRow {
    var changed = row
    var sorted = JSONObject()
    for name in Instance.folderSettings + ["revoked_at"] { if let value = properties[name] { sorted[name] = value } }
    changed.properties = JSON.object(sorted).write()
    changed.version += 1
    changed.state = state ?? row.state
    try keepSnapshot(row, by: call.credential)
    try update(&changed, was: row, as: kind)
    return changed
  }
}
