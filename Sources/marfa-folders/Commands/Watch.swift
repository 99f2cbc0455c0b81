import FolderSync
import MarfaBase
import MarfaCopy

/// `watch`.
func watchCommand() -> Command {
  Command(
    name: "watch", summary: "keep the directory and the server in step until stopped",
    discussion:
      "Without DIR it watches every folder of this computer, and takes up those added meanwhile; each line is led by the folder's directory. Says what each pass did. Another command that works the folder is let in, and the watch goes on after it. Under --json each event is one object on a line.",
    options: [Option("for", .number("SECONDS"), "End after so long.")],
    arguments: [Argument("DIR", optional: true, "The folder's directory; every folder's where it is left out.")],
    run: watch)
}

@Sendable private func watch(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  guard invocation.argument(0) != nil else { return try watchAll(invocation) }
  let output = invocation.program.output
  let directory = directory(of: invocation)
  let work = try FolderWork(Session(invocation), for: directory)
  var words = WatchWords()
  try work.watch(directory, for: invocation.number("for")) { event in
    if output.json {
      output.record(event.json)
    } else {
      for line in words.lines(event) {
        if line.isError { output.note(line.words) } else { output.line(line.words) }
      }
    }
  }
  return 0
}
