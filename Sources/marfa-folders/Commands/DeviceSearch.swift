import MarfaBase
import MarfaCopy

/// `device search`.
func deviceSearch() -> Command {
  Command(
    name: "search", summary: "items that match words, best first",
    options: [
      Option("state", .oneOf(itemStates.map(\.string)), repeats: true, "A state; active where none is given."),
      Option("all-states", "Every state but the bin."),
      Option("type", .text("T"), repeats: true, "A type, with its subtypes."),
      Option("tag", .text("TAG"), repeats: true, "A tag every item carries."),
      Option("filter", .text("EXPR"), "A condition."), Option("beneath", .text("ID"), "An item and all below it."),
      Option("limit", .number("N"), "At most so many; 20 where not given."),
      Option("folder", .text("ID"), "Only what this folder's search holds."),
    ], arguments: [Argument("QUERY", "The words; the last as a prefix, a text in quotes as a phrase.")], run: search)
}

/// `device changes`: each save of the store by anybody, as it happens (C25.4).
func deviceChanges() -> Command {
  Command(
    name: "changes", summary: "tell each save of the store as it happens; it is opened to read",
    options: [Option("for", .number("SECONDS"), "End after so long.")], run: changes)
}

@Sendable private func search(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let words = invocation.argument(0) ?? ""
  let folder = try id(invocation, option: "folder")
  var query = ListQuery()
  query.types = invocation.all("type")
  query.states = invocation.has("all-states") ? itemStates : invocation.all("state")
  query.tags = invocation.all("tag")
  query.filter = invocation.value("filter")
  query.beneath = try id(invocation, option: "beneath")
  query.limit = invocation.number("limit")
  if folder != nil, ["type", "state", "all-states", "tag", "filter", "beneath"].contains(where: invocation.has) {
    throw MarfaError(.usage, "--folder brings its own search: of the other options it takes --limit alone")
  }
  let asked = query
  let (hits, catalog) = try DeviceStore(invocation).use { (copy) throws(MarfaError) -> ([SearchHit], Catalog) in
    let hits =
      if let folder { try copy.search(words, inFolder: folder, limit: asked.limit) } else {
        try copy.search(words, asked)
      }
    return (hits, try copy.catalog())
  }
  if hits.isEmpty { invocation.program.output.note("Nothing matches.") }
  invocation.program.output.answer(
    .array(hits.map(\.json)),
    hits.map { "\($0.item.id) \($0.item.type) \(catalog.title(of: $0.item) ?? "")" })
  return 0
}

/// How often the store is looked at: SQLite tells other connections of a save by a number that is read, not sent.
private let look: UInt64 = 100_000_000

@Sendable private func changes(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let output = invocation.program.output
  func tell(_ version: Int, first: Bool) {
    guard output.json else { return output.line(first ? "watching, at \(version)" : "saved, at \(version)") }
    var record = JSONObject()
    if first { record["watching"] = true }
    record["data_version"] = .int(version)
    output.record(.object(record))
  }
  let stop = invocation.program.stop
  try DeviceStore(invocation).use(reads: true) { (copy) throws(MarfaError) in
    if let seconds = invocation.number("for") { stopAfter(seconds, stop, copy.context) }
    var known = try copy.dataVersion()
    tell(known, first: true)
    while copy.context.scheduler.wait(nanoseconds: look, unless: stop) {
      let version = try copy.dataVersion()
      guard version != known else { continue }
      known = version
      tell(version, first: false)
    }
  }
  return 0
}
