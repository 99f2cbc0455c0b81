import FolderSync
import MarfaBase
import MarfaCopy

/// `diff` (N6.2).
func diffCommand() -> Command {
  Command(
    name: "diff", summary: "what waits to be sent and to be written of one file",
    discussion: """
      Shows two differences against the text both sides last agreed on: what an edit of the file would send, and what a \
      change of the item would write. Asks the server nothing.

      Exit 0; with --exit-code 1 where there is a difference.
      """,
    examples: [
      "marfa-folders diff ~/Notes Plan.md"
    ],
    options: [Option("exit-code", "Leave by 1 where there is a difference, as git's does.")],
    arguments: NamedFile.arguments, run: diff)
}

@Sendable private func diff(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let work = FolderWork.offline(Session(invocation))
  let file = try NamedFile(invocation, work)
  let found = try work.reading(file.directory) { try $0.difference(of: file.path) }
  let output = invocation.program.output
  if output.json {
    output.document(found.json)
  } else {
    if found.toSend == nil, found.toWrite == nil {
      output.note("\(file.path): nothing waits to be sent or written")
    }
    if let diff = found.toSend { output.diff(diff, under: "waits to be sent:") }
    if let diff = found.toWrite { output.diff(diff, under: "waits to be written:") }
  }
  return invocation.has("exit-code") && (found.toSend != nil || found.toWrite != nil) ? 1 : 0
}

extension Output {
  /// A difference under a line of ours: as it is for a program, coloured and without control characters at a terminal.
  func diff(_ diff: UnifiedDiff, under heading: String, terminal: Bool = Terminal.writesToTerminal) {
    guard terminal else { return raw(Array((heading + "\n").utf8) + diff.text) }
    let text = String(decoding: diff.text, as: UTF8.self)
    // A line's carriage return is white space here, not something to name.
    let shown = text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map { line in
      (
        Style.ofDiff(line),
        line.utf8.last == 0x0D ? String(decoding: line.utf8.dropLast(), as: UTF8.self) : String(line)
      )
    }
    lines([(.strong, heading)] + shown)
  }
}
