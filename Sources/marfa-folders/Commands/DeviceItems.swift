import MarfaBase
import MarfaCopy

/// `device items`.
func deviceItems() -> Command {
  let propertiesOption = Option("properties", .text("JSON"), required: true, "The properties, a JSON object.")
  let item = Argument("ID", "The item.")
  return Command(
    name: "items", summary: "the items of the copy",
    commands: [
      Command(
        name: "list", summary: "items as the copy shows them",
        options: [
          Option("type", .text("T"), repeats: true, "A type, with its subtypes."),
          Option("state", .oneOf(itemStates.map(\.string)), repeats: true, "A state; active where none is given."),
          Option("all-states", "Every state."), Option("tier", .oneOf(["library", "feed"]), "The tier."),
          Option("tag", .text("TAG"), repeats: true, "A tag every item carries."),
          Option("occurred-after", .text("TIME"), "Happened after this."),
          Option("occurred-before", .text("TIME"), "Happened before this."),
          Option("filter", .text("EXPR"), "A condition."), Option("beneath", .text("ID"), "An item and all below it."),
          Option("sort", .oneOf(["created-at", "updated-at", "occurred-at"]), "The order."),
          Option("direction", .oneOf(["desc", "asc"]), "Its direction."),
          Option("limit", .number("N"), "At most so many."),
          Option("offset", .number("N"), "Leave out the first so many."),
          Option("folder", .text("ID"), "Only what this folder's search holds."),
        ], run: list),
      Command(name: "get", summary: "one item as the copy shows it", arguments: [item], run: get),
      Command(
        name: "create", summary: "queue a new item",
        options: [
          Option("type", .text("T"), required: true, "Its type."), propertiesOption,
          Option("tag", .text("TAG"), repeats: true, "A tag."),
          Option("tier", .oneOf(["library", "feed"]), "Its tier."),
          Option("source", .text("NAME"), "Where it comes from."),
          Option("source-id", .text("ID"), "Its id there."),
          Option("occurred-at", .text("TIME"), "When it happened, RFC 3339."),
          Option("version", .number("N"), "Make it only where the item has this version."),
          Option("id", .text("ID"), "Its id; a new one where none is given."),
        ], run: create),
      Command(
        name: "update", summary: "queue an edit",
        options: [
          propertiesOption, Option("version", .number("N"), "The version the edit is based on."),
          Option("as-read", "The version is one read earlier than the one held."),
          Option("type", .text("T"), "Make it another type."),
          Option("tier", .oneOf(["library", "feed"]), "Its tier."),
          Option("source-id", .text("ID"), "Its id where it comes from."),
          Option("replace", "Replace all properties, not merge."),
        ], arguments: [item], run: update),
      Command(name: "delete", summary: "queue a delete", arguments: [item], run: delete),
      Command(name: "restore", summary: "queue a restore from the bin", arguments: [item], run: restore),
      Command(
        name: "transition", summary: "queue a change of state",
        options: [Option("state", .text("STATE"), required: true, "The state.")], arguments: [item], run: transition),
    ] + deviceFileDoors())
}

/// The states of C25.5.
let itemStates: [Text] = ["active", "archived", "trashed", "revoked"]

/// Answers with a queued write.
func answer(_ write: QueuedWrite, _ invocation: Invocation) -> Int32 {
  invocation.program.output.answer(write.json, [QueueWords.line(write)])
  return 0
}

@Sendable private func list(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  var query = ListQuery()
  query.types = invocation.all("type")
  query.states = invocation.has("all-states") ? itemStates : invocation.all("state")
  query.tier = invocation.value("tier")
  query.tags = invocation.all("tag")
  query.occurredAfter = invocation.value("occurred-after")
  query.occurredBefore = invocation.value("occurred-before")
  query.filter = invocation.value("filter")
  query.beneath = try id(invocation, option: "beneath")
  if let sort = invocation.value("sort") {
    query.sort = sort == "updated-at" ? .updatedAt : sort == "occurred-at" ? .occurredAt : .createdAt
  }
  query.ascending = invocation.value("direction").map { $0 == "asc" }
  query.limit = invocation.number("limit")
  query.offset = invocation.number("offset") ?? 0
  let listed = query
  let folder = try id(invocation, option: "folder")
  let own = [
    "type", "state", "all-states", "tier", "tag", "occurred-after", "occurred-before", "filter", "beneath", "sort",
    "direction",
  ]
  if folder != nil, own.contains(where: invocation.has) {
    throw MarfaError(.usage, "--folder brings its own search: of the other options it takes --limit and --offset alone")
  }
  let (items, catalog) = try DeviceStore(invocation).use { (copy) throws(MarfaError) -> ([Item], Catalog) in
    let items =
      if let folder { try copy.list(inFolder: folder, limit: listed.limit, offset: listed.offset) } else {
        try copy.list(listed)
      }
    return (items, try copy.catalog())
  }
  if items.isEmpty { invocation.program.output.note("No items.") }
  invocation.program.output.answer(
    .array(items.map(\.json)), items.map { "\($0.id) \($0.type) \(catalog.title(of: $0) ?? "")" })
  return 0
}

@Sendable private func get(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  // What an ended copy or an unfinished fill cannot tell is refused (D4.1); a row of the bin is shown as such.
  let held = try DeviceStore(invocation).use { (copy) throws(MarfaError) -> Item? in
    if let item = try copy.get(id) { return item }
    return try copy.item(id)
  }
  guard let item = held else {
    throw MarfaError(.notHeld, "the copy does not hold the item \(id)")
  }
  invocation.program.output.answer(
    item.json,
    ["\(item.id) \(item.type) version \(item.version) \(item.state)"]
      + item.properties.members.map { "  \($0.key): \($0.value.text?.string ?? $0.value.compact)" }
      + (item.tags.isEmpty ? [] : ["  tags: \(item.tags.map(\.string).joined(separator: ", "))"]))
  return 0
}

@Sendable private func create(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let properties = try object(invocation, "properties") ?? JSONObject()
  let given = try newID(invocation)
  let draft = ItemDraft(
    id: given, type: invocation.value("type") ?? "", properties: properties, tags: invocation.all("tag"),
    tier: invocation.value("tier"), source: invocation.value("source"), sourceID: invocation.value("source-id"),
    occurredAt: invocation.value("occurred-at"), version: invocation.number("version"))
  return answer(
    try DeviceStore(invocation).use { (copy) throws(MarfaError) in try copy.queue.createItem(draft) }, invocation)
}

@Sendable private func update(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let properties = try object(invocation, "properties") ?? JSONObject()
  guard let version = invocation.number("version") else {
    throw MarfaError(.invalid, "'items update' needs --version, the version the edit is based on")
  }
  let id = try id(invocation)
  let edit = ItemEdit(
    properties: properties, mode: invocation.has("replace") ? .replace : .merge, version: version,
    readAtVersion: invocation.has("as-read"), type: invocation.value("type"), tier: invocation.value("tier"),
    sourceID: invocation.value("source-id"))
  let write = try DeviceStore(invocation).use { (copy) throws(MarfaError) in try copy.queue.updateItem(id, edit) }
  return answer(write, invocation)
}

@Sendable private func delete(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  return answer(
    try DeviceStore(invocation).use { (copy) throws(MarfaError) in try copy.queue.deleteItem(id) }, invocation)
}

@Sendable private func restore(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  return answer(
    try DeviceStore(invocation).use { (copy) throws(MarfaError) in try copy.queue.restoreItem(id) }, invocation)
}

@Sendable private func transition(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  let state = invocation.value("state") ?? ""
  guard itemStates.contains(state) else {
    throw MarfaError(.invalid, "--state takes active, archived, trashed or revoked")
  }
  return answer(
    try DeviceStore(invocation).use { (copy) throws(MarfaError) in try copy.queue.transition(id, state) }, invocation)
}
