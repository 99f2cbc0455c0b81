import MarfaBase
import MarfaCopy

/// `device`: one working copy, driven directly (C25).
func deviceCommand() -> Command {
  Command(
    name: "device", summary: "one working copy, driven directly",
    discussion: "The store is --db, else MARFA_DB. A folder's own store is DIR/.marfa/core.sqlite.",
    options: [
      Option("db", .text("PATH"), "The working copy's store."),
      Option("reader", "Open it to read, beside a process that works it."),
    ],
    commands: deviceCopyDoors() + [deviceChanges(), deviceItems(), deviceFolders(), deviceSearch()]
      + deviceQueueDoors() + deviceTypes()
      + [deviceEdges(), deviceTags(), deviceMetadata(), deviceExtensions(), deviceBlobs()])
}

/// An argument that is an id.
func idArgument(_ name: String, _ help: String) -> Argument { Argument(name, help) }

/// The id of an argument.
func id(_ invocation: Invocation, _ place: Int = 0) throws(MarfaError) -> EntityID {
  try folderID(invocation.argument(place))
}

/// The id of an option; nil where it is not given.
func id(_ invocation: Invocation, option: String) throws(MarfaError) -> EntityID? {
  guard let text = invocation.value(option) else { return nil }
  return try folderID(text)
}

/// The id a create is given; nil where it is given none.
/// - Throws: `validation` as the server says it of any text but a lowercase UUIDv7 (I2.2, E3.1).
func newID(_ invocation: Invocation) throws(MarfaError) -> EntityID? {
  guard let text = invocation.value("id") else { return nil }
  guard let id = EntityID(text), id.text == text, id.isVersion7 else {
    throw .validation(
      "'\(text)' is no id a create can give; those look like 018f0000-0000-7000-8000-00000000f001", code: "invalid_id")
  }
  return id
}

/// A JSON object of an option (C25.6).
func object(_ invocation: Invocation, _ option: String) throws(MarfaError) -> JSONObject? {
  guard let text = invocation.value(option) else { return nil }
  guard let value = try? JSON(parsing: text.bytes), let object = value.object else {
    throw MarfaError(.invalid, "--\(option) takes a JSON object")
  }
  return object
}

/// `hydrate`, `catch-up`, `status`, `pin` and `unpin`.
private func deviceCopyDoors() -> [Command] {
  [
    Command(
      name: "hydrate", summary: "fill the store with a slice of the server",
      options: [
        Option("types", .text("T,T"), required: true, "Item types, comma-separated; '*' is every one."),
        Option("tier", .oneOf(["library", "feed", "all"]), required: true, "The tier."),
        Option("edge-type", .text("T"), repeats: true, "An edge type."),
      ], run: hydrate),
    Command(name: "catch-up", summary: "take every event since the last one held", run: catchUp),
    Command(name: "status", summary: "what the store holds", run: status),
    Command(
      name: "follow", summary: "take the server's events as they come",
      options: [Option("for", .number("SECONDS"), "End after so long.")], run: follow),
    Command(
      name: "pin", summary: "hold an item whatever the slice says", arguments: [idArgument("ID", "The item.")],
      run: pin),
    Command(name: "unpin", summary: "let a pin go", arguments: [idArgument("ID", "The item.")], run: unpin),
  ]
}

/// Pins of these doors are this owner's.
private let pinOwner: Text = "device"

@Sendable private func hydrate(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let types = (invocation.value("types") ?? "").bytes.split(separator: UInt8(ascii: ","))
    .map { Terminal.trimmed(Text(bytes: $0)) }.filter { !$0.isEmpty }
  guard !types.isEmpty else { throw MarfaError(.invalid, "--types names no type") }
  let slice = Slice(
    typeList: types, tier: invocation.value("tier") ?? "library", edgeTypes: invocation.all("edge-type"))
  let report = try DeviceStore(invocation).use(asks: true, makes: true) { (copy) throws(MarfaError) in
    try copy.hydrate(slice)
  }
  invocation.program.output.answer(
    report.json, ["filled: \(counted(report.items, "item")), \(counted(report.edges, "edge"))"])
  return 0
}

@Sendable private func catchUp(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let report = try DeviceStore(invocation).use(asks: true) { (copy) throws(MarfaError) in try copy.catchUp() }
  invocation.program.output.answer(
    report.json, ["caught up: applied \(report.applied), skipped \(report.skipped), cursor \(report.cursor)"])
  return 0
}

@Sendable private func status(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let status = try DeviceStore(invocation).use(makes: true) { (copy) throws(MarfaError) in try copy.status() }
  var lines = [
    "server \(status.serverOrigin ?? "none"), instance \(status.instanceID ?? "none")",
    "\(status.hydration.rawValue): \(counted(status.items, "item")), \(counted(status.edges, "edge"))",
  ]
  if let cursor = status.eventCursor { lines.append("event cursor \(cursor)") }
  if let synced = status.lastSynced { lines.append("last synced \(synced)") }
  invocation.program.output.answer(status.json, lines)
  return 0
}

@Sendable private func follow(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let output = invocation.program.output
  let report = try DeviceStore(invocation).use(asks: true) { (copy) throws(MarfaError) in
    if let seconds = invocation.number("for") { stopAfter(seconds, invocation.program.stop, copy.context) }
    return try copy.follow(drains: true) { change in
      if output.json {
        output.record(change.json)
      } else {
        let subject = (change.itemID ?? change.edgeID).map { " \($0)" } ?? ""
        output.line("\(change.event)\(subject)\(change.reason.map { ": \($0)" } ?? "")")
      }
      return .more
    }
  }
  if output.json { output.record(report.json) } else { output.line("applied \(report.applied)") }
  return 0
}

@Sendable private func pin(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  let report = try DeviceStore(invocation).use(asks: true) { (copy) throws(MarfaError) in
    try copy.pin(id, owner: pinOwner)
  }
  invocation.program.output.answer(report.json, ["\(report.id) pinned"])
  return 0
}

@Sendable private func unpin(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  let report = try DeviceStore(invocation).use { (copy) throws(MarfaError) in
    try copy.unpin(id, owner: pinOwner)
  }
  invocation.program.output.answer(report.json, ["\(report.id) \(report.wasPinned ? "unpinned" : "was not pinned")"])
  return 0
}
