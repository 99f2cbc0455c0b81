import FolderSync
import MarfaBase
import MarfaCopy

private let directoryArgument = Argument("DIR", "The folder's directory.")

/// `list`, `status`, `confirm`, `restore` and `remove`.
func folderCommands() -> [Command] {
  [
    Command(name: "list", summary: "the folders of this machine", run: listFolders),
    Command(
      name: "status", summary: "where every file stands",
      discussion:
        "Reads the folder's own store and its disk, and asks the server nothing. It answers beside a running watch.",
      examples: [
        "marfa-folders status ~/Notes",
        "marfa-folders status ~/Notes --watch",
        "marfa-folders status ~/Notes --json",
      ],
      options: [
        Option("all", "Every path of each cause, not the first ten."),
        Option("cause", "Only what is not in step, all of it grouped by its cause."),
        Option("watch", "Show it anew as it changes, until q or Ctrl-C; under --json a line each time."),
      ],
      arguments: [directoryArgument], run: status),
    Command(
      name: "confirm", summary: "let the first sync, or a paused large removal, go", arguments: [directoryArgument],
      run: confirm),
    Command(
      name: "restore", summary: "cancel a paused large removal and put its files back", arguments: [directoryArgument],
      run: restore),
    Command(
      name: "remove", summary: "take a folder off this machine; its files stay", arguments: [directoryArgument],
      run: remove),
  ]
}

/// The directory a command names, taken from the working directory.
func directory(of invocation: Invocation, at place: Int = 0) -> PathBytes {
  invocation.program.absolute(PathBytes(invocation.argument(place) ?? ""))
}

@Sendable private func listFolders(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let folders = try FolderWork.offline(Session(invocation)).list()
  let output = invocation.program.output
  if folders.isEmpty, !output.json {
    // C3.6: nothing on standard output, a short note beside it.
    output.note("This machine has no folders; 'marfa-folders add DIR' makes one.")
    return 0
  }
  output.answer(
    .array(
      folders.map { entry in
        var object = JSONObject([("dir", .string(entry.dir.text)), ("folder", .string(entry.folder))])
        if let store = entry.store { object["store"] = .string(store) }
        return .object(object)
      }), folders.map { "\($0.dir)  \($0.folder)" })
  return 0
}

@Sendable private func status(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  if invocation.has("watch") { return try watchStatus(invocation) }
  let status = try FolderWork.offline(Session(invocation)).status(directory(of: invocation))
  let output = invocation.program.output
  if output.json { output.document(status.json) } else { output.lines(StatusWords(status, invocation).styled) }
  return 0
}

@Sendable private func confirm(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let directory = directory(of: invocation)
  let confirmed = try FolderWork.offline(Session(invocation)).confirm(directory)
  invocation.program.output.answer(confirmed.json, confirmedWords(confirmed, shellWord(directory)))
  return 0
}

private func confirmedWords(_ confirmed: ConfirmedRemoval, _ directory: String) -> [String] {
  if confirmed.firstSync {
    return [
      "First sync confirmed: 'marfa-folders sync \(directory)' runs it, 'marfa-folders watch \(directory)' keeps it in step."
    ]
  }
  var lines: [String] = []
  let counts = clauses([
    (confirmed.deleted, "deleted, sent by the next push"), (confirmed.moved, "moved to another folder"),
    (confirmed.removed, "removed here"), (confirmed.unsure.count, "left for the next pass"),
  ])
  lines.append(counts.map { "removal confirmed: \($0)" } ?? "nothing waits to be confirmed")
  return lines + confirmed.unsure.map { "\($0.path): held: \($0.reason)" }
}

@Sendable private func restore(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let session = Session(invocation)
  let directory = directory(of: invocation)
  let restored = try FolderWork.optional(session, for: directory).restore(directory)
  var lines = ["put back \(restored.putBack), restored \(restored.restored)"]
  lines += PullWords(pull: Report(restored.pull.json), unmatchedFiles: restored.pull.unmatchedFiles).lines
  invocation.program.output.answer(restored.json, lines)
  return 0
}

@Sendable private func remove(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let given = invocation.argument(0) ?? ""
  try FolderWork.offline(Session(invocation)).remove(invocation.program.absolute(PathBytes(given)))
  invocation.program.output.answer(
    ["dir": .string(given), "removed": true], ["\(PathBytes(given)) is no folder any more; its files stay"])
  return 0
}
