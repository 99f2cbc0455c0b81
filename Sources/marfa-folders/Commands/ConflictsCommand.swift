import FolderSync
import MarfaBase
import MarfaCopy

/// `conflicts` (N6.5).
func conflictsCommand() -> Command {
  let file = Argument("FILE", "Either file of a conflict.")
  return Command(
    name: "conflicts", summary: "edits that met another and went to a copy of their own",
    discussion:
      "A conflicted copy holds the text of the edit that came second; its original holds the other. Without DIR every folder of this machine is looked through.",
    arguments: [Argument("DIR", optional: true, "A folder's directory.")],
    commands: [
      Command(
        name: "open", summary: "show the two side by side: in $DIFFTOOL, else as a diff", arguments: [file], run: open),
      Command(
        name: "keep", summary: "settle a conflict: the original gets the text kept, the copy goes to the bin",
        arguments: [
          Argument(
            "WHICH", words: ["mine", "theirs"], "'mine', the text of the conflicted copy, or 'theirs', the original's."),
          file,
        ], run: keep),
    ], run: list)
}

/// A conflicted copy whose original is held here.
private struct Conflict {
  var dir: PathBytes
  var item: EntityID
  var path: PathBytes
  var copy: EntityID
  /// The copy's file; nil while it is none.
  var copyPath: PathBytes?

  var json: JSON {
    [
      "dir": .string(dir.text), "item_id": .string(item.text), "path": .string(path.text),
      "copy_id": .string(copy.text), "copy_path": .optional(copyPath?.text),
    ]
  }

  var line: String {
    "\(path): an edit of it went to \(copyPath.map { $0.description } ?? "\(copy), which is no file here yet")"
  }
}

/// The conflicts of a folder, in path order: its copies by their tag, their originals by the edge that names them (D97.2).
private func conflicts(_ folder: FolderEngine) throws -> [Conflict] {
  var query = ListQuery()
  query.tags = ["conflicted-copy"]
  query.states = ["active", "archived"]
  query.tier = "all"
  var found: [Conflict] = []
  for copy in try folder.copy.list(query) {
    for edge in try folder.copy.edges(from: copy.id, type: "derived-from") {
      guard let original = try folder.store.binding(of: edge.target), original.missingSince == nil else { continue }
      let own = try folder.store.binding(of: copy.id)
      found.append(
        Conflict(
          dir: folder.root, item: edge.target, path: original.path, copy: copy.id,
          copyPath: own.flatMap { $0.missingSince == nil ? $0.path : nil }))
    }
  }
  return found.sorted { ($0.path, $0.copy) < ($1.path, $1.copy) }
}

@Sendable private func list(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let session = Session(invocation)
  let work = FolderWork.offline(session)
  let output = invocation.program.output
  var found: [Conflict] = []
  if invocation.argument(0) != nil {
    found = try work.reading(directory(of: invocation)) { try conflicts($0) }
  } else {
    for entry in try work.list() {
      // One folder that cannot be read hides none of the others.
      do throws(MarfaError) { found += try work.reading(entry.dir) { try conflicts($0) } } catch {
        output.note("\(entry.dir): \(error.message)")
      }
    }
  }
  if found.isEmpty { output.note("No conflicted copies.") }
  let many = invocation.argument(0) == nil
  output.answer(.array(found.map(\.json)), found.map { many ? "\($0.dir)/\($0.line)" : $0.line })
  return 0
}

/// The folder a file lies in: the nearest directory above it that holds one.
private func folder(
  of file: PathBytes, _ work: FolderWork, _ files: any FileSystem
) throws(MarfaError) -> (root: PathBytes, path: PathBytes) {
  let resolved = (try? files.resolve(file.parent)).map { $0.appending(file.name) } ?? file
  var root = resolved.parent
  while true {
    if (try? work.reading(root) { _ in true }) ?? false {
      let drop = root == "/" ? 1 : root.bytes.count + 1
      return (root, PathBytes(bytes: resolved.bytes.dropFirst(drop)))
    }
    guard root != "/", !root.isEmpty else { break }
    root = root.parent.isEmpty ? "/" : root.parent
  }
  throw MarfaError(.invalid, "\(file) lies in no folder of this machine")
}

/// The one conflict a file of the command line belongs to.
private func conflict(
  _ file: PathBytes, _ work: FolderWork, _ files: any FileSystem
) throws(MarfaError) -> Conflict {
  let place = try folder(of: file, work, files)
  let all = try work.reading(place.root) { try conflicts($0) }
  let matching = all.filter { $0.path == place.path || $0.copyPath == place.path }
  guard let one = matching.first else { throw MarfaError(.invalid, "\(file) is in no conflict") }
  guard matching.count == 1 else {
    let names = matching.map { $0.copyPath?.description ?? $0.copy.text.string }.joined(separator: ", ")
    throw MarfaError(.invalid, "\(file) has more than one conflicted copy: name one of \(names)")
  }
  return one
}

@Sendable private func open(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let session = Session(invocation)
  let file = invocation.program.absolute(PathBytes(invocation.argument(0) ?? ""))
  let found = try conflict(file, FolderWork.offline(session), session.context.files)
  guard let copy = found.copyPath else {
    throw MarfaError(.invalid, "the conflicted copy of \(found.path) is no file here yet; 'sync' writes it")
  }
  let both = [found.dir.appending(found.path), found.dir.appending(copy)]
  if let tool = invocation.program.variable("DIFFTOOL"), !invocation.program.output.json {
    let words = tool.bytes.split(separator: 0x20).map { String(decoding: $0, as: UTF8.self) }
    guard runTool(words, both) != 127 else { throw MarfaError(.io, "$DIFFTOOL '\(tool)' could not be started") }
    return 0
  }
  guard !invocation.program.output.json else {
    invocation.program.output.document(found.json)
    return 0
  }
  let status = runTool(["diff", "-u", "--"], both)
  guard status < 2 else { throw MarfaError(.io, "'diff' could not compare \(both[0]) and \(both[1])") }
  return 0
}

@Sendable private func keep(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let which = invocation.argument(0) ?? ""
  guard which == "mine" || which == "theirs" else {
    throw MarfaError(.usage, "'conflicts keep' takes mine or theirs, not '\(which)'")
  }
  let session = Session(invocation)
  let file = invocation.program.absolute(PathBytes(invocation.argument(1) ?? ""))
  let found = try conflict(file, FolderWork.offline(session), session.context.files)
  let work = try FolderWork(session, for: found.dir)
  // What was typed into either file meanwhile is sent first, so that what is kept is what the person sees.
  _ = try work.push(found.dir)
  try work.working(found.dir, "conflicts") { folder in try settle(found, keepsMine: which == "mine", folder) }
  let pushed = try work.push(found.dir)
  let words = "\(found.path) holds \(which == "mine" ? "your" : "the other") text; the copy is in the bin"
  if case .pushed(let push) = pushed, push.drain.drain.undelivered > 0 {
    invocation.program.output.answer(
      found.json, ["\(words) once the server can be reached: 'sync' sends it then"])
  } else {
    invocation.program.output.answer(found.json, [words])
  }
  return 0
}

/// Queues what settles a conflict: title and body of the text kept, then the copy's end; both commit together.
private func settle(_ found: Conflict, keepsMine: Bool, _ folder: FolderEngine) throws {
  guard let original = try folder.copy.item(found.item), let copy = try folder.copy.item(found.copy), !copy.isTrashed
  else { throw MarfaError(.notHeld, "the conflict of \(found.path) is settled already") }
  let catalog = try folder.copy.catalog()
  try folder.commit {
    if keepsMine {
      var changes = JSONObject()
      // The copy holds the edit's value of each property both changed, and the server's of every other (V13.16).
      for (name, value) in copy.properties.members where original.properties[name] != value {
        if name != catalog.type(original.type)?.definition["link_field"]?.text { changes[name] = value }
      }
      if !changes.isEmpty {
        _ = try folder.copy.queue.updateItem(
          found.item, ItemEdit(properties: changes, version: original.version))
      }
    }
    _ = try folder.copy.queue.deleteItem(found.copy)
  }
}
