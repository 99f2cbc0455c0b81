import FolderSync
import MarfaBase
import MarfaCopy

/// `watch`.
func watchCommand() -> Command {
  Command(
    name: "watch", summary: "keep the directory and the server in step until stopped",
    discussion:
      "Without DIR it watches every folder of this computer, and takes up those added meanwhile; each line is led by the folder's directory. Says what each pass did. Another command that works the folder is let in, and the watch goes on after it. Under --json each event is one object on a line.",
    examples: [
      "marfa-folders watch            # every folder",
      "marfa-folders watch ~/Notes",
    ],
    options: [
      Option("for", .number("SECONDS"), "End after so long."),
      Option("now", "Send large files too where the network is metered or the battery is spared."),
      Option("no-notify", "Tell the desktop nothing; MARFA_NOTIFY=off does the same."),
    ],
    arguments: [Argument("DIR", optional: true, "The folder's directory; every folder's where it is left out.")],
    run: watch)
}

@Sendable private func watch(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  guard invocation.argument(0) != nil else { return try watchAll(invocation) }
  let output = invocation.program.output
  let directory = directory(of: invocation)
  let work = try FolderWork(Session(invocation), for: directory)
  var words = WatchWords()
  let desktop = Desktop(invocation)
  var keeps = false
  defer { desktop?.end(keeping: keeps) }
  let root = try work.root(of: directory)
  let hides = LogPaths(invocation.program)
  // A watch that ends by itself soon is not begun anew.
  let replacement = invocation.number("for") == nil ? Replacement(clock: invocation.program.context().clock) : nil
  do throws(MarfaError) {
    repeat {
      try work.watch(
        directory, for: invocation.number("for"), isOver: { replacement?.isThere() ?? false }
      ) { event in
        desktop?.heard(root, event)
        let event = hides?.event(event, of: root) ?? event
        if output.json { return output.record(event.json) }
        for line in words.lines(event) {
          if line.isError { output.note(line.words) } else { output.line(line.words) }
        }
      }
    } while goesOn(replacement, invocation.program, desktop)
  } catch {
    // That a person has to sign in stands though nobody watches any more.
    keeps = error.exit == 5
    if keeps { desktop?.failed(root, error) }
    throw hides?.error(error, of: root) ?? error
  }
  return 0
}

/// Whether a watch that ended for another version of the program, which then cannot be run, begins again. Where it can be
/// run this does not return (P4.1).
func goesOn(_ replacement: Replacement?, _ program: Program, _ desktop: Desktop?) -> Bool {
  guard let replacement, !program.stop.isSet, !program.output.isClosed, replacement.wasAsked else { return false }
  desktop?.end()
  replacement.take()
  program.output.warning("another version of this program stands in its place and cannot be run; this one goes on")
  return true
}
