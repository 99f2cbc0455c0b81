import FolderSync
import MarfaBase
import MarfaCopy

/// `log` (N6.3).
func logCommand() -> Command {
  Command(
    name: "log", summary: "what the last passes of a folder did",
    discussion: "Newest last. A folder keeps 1,000 passes and 30 days of them; no text of a note is among it.",
    options: [
      Option("number", short: "n", .number("N"), "At most so many; 20 where not given."),
      Option("follow", "Go on and tell each pass as it ends."),
    ], arguments: [Argument("DIR", "The folder's directory.")], run: log)
}

@Sendable private func log(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let session = Session(invocation)
  let output = invocation.program.output
  let directory = directory(of: invocation)
  let work = FolderWork.offline(session)
  func tell(_ pass: LoggedPass) {
    if output.json { output.record(pass.json) } else { output.line(words(pass)) }
  }
  let passes = try work.passes(directory, last: invocation.number("number") ?? 20)
  if passes.isEmpty { output.note("No pass of \(directory) is kept yet.") }
  for pass in passes { tell(pass) }
  guard invocation.has("follow") else { return 0 }
  var last = passes.last
  while session.context.scheduler.wait(nanoseconds: 500_000_000, unless: invocation.program.stop) {
    let all = try work.passes(directory, last: 1000)
    // Where the last one told has left the log meanwhile, everything in it is new.
    let fresh = last.flatMap { told in all.lastIndex(of: told) }.map { all[($0 + 1)...] } ?? all[...]
    for pass in fresh { tell(pass) }
    last = all.last ?? last
  }
  return 0
}

/// One pass in words.
private func words(_ pass: LoggedPass) -> String {
  let counts = clauses([
    (pass.sent, "sent"), (pass.written, "written"), (pass.removed, "removed"), (pass.held, "held"),
    (pass.refused, "refused"),
  ])
  let did = pass.error.map { "failed: \($0)" } ?? counts ?? "nothing to do"
  return "\(pass.at.text)  \(pass.pass)  \(pass.took) ms  \(did)"
}
