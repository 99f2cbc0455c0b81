import FolderSync
import MarfaBase
import MarfaCopy

private let directoryArgument = Argument("DIR", "The folder's directory.")

/// `hydrate`, `scan` and `pull`: single steps of a push.
func stepCommands() -> [Command] {
  [
    Command(
      name: "hydrate", summary: "fill the folder's working copy from the server", arguments: [directoryArgument],
      run: hydrate),
    Command(
      name: "scan", summary: "read the directory and queue what changed; sends nothing",
      arguments: [directoryArgument], run: scan),
    Command(
      name: "pull", summary: "write what the folder's search holds out as files", arguments: [directoryArgument],
      run: pull),
  ]
}

@Sendable private func hydrate(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let directory = directory(of: invocation)
  let session = Session(invocation)
  let work = try FolderWork(session, for: directory)
  let filled = try Progress.of(directory, invocation.program, session.context) { () throws(MarfaError) in
    try work.hydrate(directory)
  }
  invocation.program.output.answer(filled.json, ["\(counted(filled.items, "item")) filled for \(directory)"])
  return 0
}

@Sendable private func scan(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let scan = try FolderWork.offline(Session(invocation)).scan(directory(of: invocation))
  invocation.program.output.answer(scan.json, ScanWords(scan: Report(scan.json)).lines)
  return 0
}

@Sendable private func pull(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let directory = directory(of: invocation)
  let session = Session(invocation)
  let work = try FolderWork.optional(session, for: directory)
  let pull = try Progress.of(directory, invocation.program, session.context) { () throws(MarfaError) in
    try work.pull(directory)
  }
  invocation.program.output.answer(
    pull.json, PullWords(pull: Report(pull.json), unmatchedFiles: pull.unmatchedFiles).lines)
  return 0
}
