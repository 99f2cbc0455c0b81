import FolderSync
import MarfaBase
import MarfaCopy

/// `history` (P3.4).
func historyCommand() -> Command {
  Command(
    name: "history", summary: "the versions of one file's item, and bringing one back",
    discussion: """
      Lists the versions the server keeps, oldest first: when and by whom each was written, its size, and what bringing \
      it back would change in the file.

      --restore writes a version's text as an ordinary edit: what the file holds now is sent first and stays in the \
      history, so nothing is lost by it.
      """,
    examples: [
      "marfa-folders history ~/Notes Plan.md",
      "marfa-folders history ~/Notes Plan.md --restore 3",
    ],
    options: [
      Option("diff", .number("N"), "Show what bringing version N back would change."),
      Option("restore", .number("N"), "Bring version N back."),
    ], arguments: NamedFile.arguments, run: history)
}

/// A version of an item: as it stood from one write to the next.
private struct ItemVersion {
  var item: Item
  /// When it was written; nil where the write before it is not kept.
  var at: Timestamp?
  /// Who wrote it.
  var by: JSON
  var isNow = false
}

/// Versions of one file's item with their texts.
private struct VersionReading {
  var version: ItemVersion
  var size: Int
  /// What bringing it back changes in the file.
  var diff: UnifiedDiff

  var json: JSON {
    [
      "version": .int(version.item.version), "at": version.at.map { .string($0.text) } ?? .null, "by": version.by,
      "size": .int(size), "now": .bool(version.isNow),
      "diff": diff.text.isEmpty ? .null : .string(Text(bytes: diff.text)),
    ]
  }

  var line: String {
    let who = version.by["name"]?.text ?? version.by["id"]?.text ?? version.by["kind"]?.text
    let when = version.at.map { $0.text.string } ?? "at an unknown time"
    var line = "version \(version.item.version)  \(when)  \(size) bytes"
    if let who { line += "  by \(who)" }
    if version.isNow { return line + "  (now)" }
    return line + (diff.text.isEmpty ? "  (same text)" : "  +\(diff.added) -\(diff.removed)")
  }
}

@Sendable private func history(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  guard !(invocation.has("diff") && invocation.has("restore")) else {
    throw MarfaError(.usage, "--diff and --restore exclude each other")
  }
  let directory = directory(of: invocation)
  let work = try FolderWork(Session(invocation), for: directory)
  let file = try NamedFile(invocation, work)
  if let number = invocation.number("restore") { return try restore(number, file, work, invocation) }
  let readings = try read(file, work)
  let output = invocation.program.output
  if let number = invocation.number("diff") {
    guard let one = readings.first(where: { $0.version.item.version == number }) else {
      throw unknown(number, file, readings.map(\.version))
    }
    if output.json {
      output.document(one.json)
    } else if one.diff.text.isEmpty {
      output.note("\(file.path): version \(number) is the text the file holds")
    } else {
      output.diff(one.diff, under: "bringing version \(number) back changes:")
    }
    return 0
  }
  output.answer(.array(readings.map(\.json)), readings.map(\.line))
  return 0
}

private func unknown(_ number: Int, _ file: NamedFile, _ known: [ItemVersion]) -> MarfaError {
  let kept = known.map { String($0.item.version) }.joined(separator: ", ")
  return MarfaError(.invalid, "\(file.path) has no version \(number); the server keeps \(kept)")
}

private func read(_ file: NamedFile, _ work: FolderWork) throws(MarfaError) -> [VersionReading] {
  let item = try work.reading(file.directory) { try $0.history(of: file.path).item }
  let versions = try versions(of: item, work.connection())
  return try work.reading(file.directory) { folder in
    let history = try folder.history(of: file.path)
    return try versions.map { version in
      let text = try history.text(version.item) ?? []
      let diff = UnifiedDiff(
        UnifiedDiff.Side(history.file ?? [], "now/\(file.path)"),
        UnifiedDiff.Side(text, "version-\(version.item.version)/\(file.path)"))
      return VersionReading(version: version, size: text.count, diff: diff)
    }
  }
}

/// The versions of an item as the server has them now, the present one last (V3, V20).
private func versions(of id: EntityID, _ server: ServerConnection) throws(MarfaError) -> [ItemVersion] {
  guard let now = try server.readItem(id) else {
    throw MarfaError(
      .notFound, "the item \(id) of this file is not on the server, or in its bin, where its versions cannot be read",
      server: .init(status: 404, code: "item_not_found"))
  }
  var rows: [JSON] = []
  var cursor: Text?
  repeat {
    var query: [(String, Text)] = [("limit", "200")]
    if let cursor { query.append(("cursor", cursor)) }
    let page = try server.request("GET", "/items/\(id)/versions", query: query).json()
    rows += page["data"]?.array ?? []
    cursor = page["next_cursor"]?.text
  } while cursor != nil
  var out: [ItemVersion] = []
  // A snapshot says when and by whom it was replaced (V33), which is when and by whom the next version was written.
  var before: (version: Int, at: Timestamp?, by: JSON)? = (0, now.createdAt, .null)
  func made(_ version: Int) -> (Timestamp?, JSON) {
    guard let before, before.version == version - 1 else { return (nil, .null) }
    return (before.at, before.by)
  }
  for row in rows {
    guard let version = row["version"]?.int, let properties = row["properties"]?.object else {
      throw MarfaError(.decoding, "a version of the item \(id) could not be read")
    }
    var item = now
    item.version = version
    item.properties = properties
    item.type = row["type"]?.text ?? now.type
    item.tier = row["tier"]?.text
    item.occurredAt = row["occurred_at"]?.text.flatMap(Timestamp.init(served:)) ?? now.occurredAt
    let (at, by) = made(version)
    out.append(ItemVersion(item: item, at: at, by: by))
    before = (version, row["created_at"]?.text.flatMap(Timestamp.init(served:)), row["writer"] ?? .null)
  }
  let (at, by) = made(now.version)
  out.append(ItemVersion(item: now, at: at, by: by, isNow: true))
  return out
}

/// Brings a version back as an ordinary edit on the present one. What was typed meanwhile is sent first, so that it is a
/// version too.
private func restore(
  _ number: Int, _ file: NamedFile, _ work: FolderWork, _ invocation: Invocation
) throws(MarfaError) -> Int32 {
  let item = try work.reading(file.directory) { try $0.history(of: file.path).item }
  // Nothing is touched where there is no such version.
  let known = try versions(of: item, work.connection())
  guard known.contains(where: { $0.item.version == number }) else { throw unknown(number, file, known) }
  try requireSent(try work.push(file.directory), file)
  let versions = try versions(of: item, work.connection())
  guard let wanted = versions.first(where: { $0.item.version == number })?.item else {
    throw unknown(number, file, versions)
  }
  let changed = try work.working(file.directory, "history") { folder in try queue(wanted, of: item, folder) }
  let pushed = try work.push(file.directory)
  var words = "\(file.path): version \(number) is back"
  var waits = false
  if !changed {
    words = "\(file.path): version \(number) is what stands now; nothing was changed"
  } else if case .pushed(let push) = pushed, push.drain.drain.undelivered > 0 {
    waits = true
    words += " here; 'sync' sends it once the server can be reached"
  }
  invocation.program.output.answer(
    [
      "path": .string(file.path.text), "item_id": .string(item.text), "restored": .int(number),
      "changed": .bool(changed), "sent": .bool(changed && !waits),
    ], [words])
  return 0
}

private func requireSent(_ result: PushResult, _ file: NamedFile) throws(MarfaError) {
  switch result {
  case .waiting: throw FolderEngine.firstSyncWaiting(file.directory)
  case .pushed(let push):
    guard let why = push.catchUp.failed else { return }
    throw MarfaError(
      why.code, "what \(file.path) holds could not be brought in step first, so nothing was restored: \(why.message)",
      server: why.server)
  }
}

/// Queues the edit that makes an item what a version of it was. False where it is that already.
private func queue(_ wanted: Item, of id: EntityID, _ folder: FolderEngine) throws -> Bool {
  guard let now = try folder.copy.item(id), !now.isTrashed else {
    throw MarfaError(.notHeld, "the item \(id) is not held here any more")
  }
  var edit = ItemEdit(properties: wanted.properties, version: now.version)
  edit.mode = .replace
  var changed = now.properties != wanted.properties
  if wanted.type != now.type {
    edit.type = wanted.type
    changed = true
  }
  if let tier = wanted.tier, tier != now.tier {
    edit.tier = tier
    changed = true
  }
  if wanted.occurredAt != now.occurredAt {
    edit.occurredAt = wanted.occurredAt.text
    changed = true
  }
  guard changed else { return false }
  let ready = edit
  try folder.commit { _ = try folder.copy.queue.updateItem(id, ready) }
  return true
}
