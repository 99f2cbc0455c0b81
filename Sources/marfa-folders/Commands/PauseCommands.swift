import FolderSync
import MarfaBase
import MarfaCopy

private let directoryArgument = Argument(
  "DIR", optional: true, "The folder's directory; every folder's where it is left out.")

/// `pause` (P5.4).
func pauseCommand() -> Command {
  Command(
    name: "pause", summary: "have the watch let go of a folder for a while",
    discussion: """
      A paused folder is held by no watch: nothing of it is sent or written until the time is over or 'resume' ends it. \
      Commands such as 'sync' work it all the same, and 'status' says until when it is paused.
      """,
    examples: [
      "marfa-folders pause ~/Notes --for 1h"
    ],
    options: [
      Option("for", .text("TIME"), "How long, such as 45s, 30m, 1h, 2d or 1h30m; until 'resume' if not given.")
    ],
    arguments: [directoryArgument], run: pause)
}

/// `resume` (P5.4).
func resumeCommand() -> Command {
  Command(
    name: "resume", summary: "end a pause; the watch takes the folder back", arguments: [directoryArgument], run: resume
  )
}

/// The folders a command names: one, or all of this computer's.
private func directories(_ invocation: Invocation, _ work: FolderWork) throws(MarfaError) -> [PathBytes] {
  if invocation.argument(0) != nil { return [directory(of: invocation)] }
  return try work.list().map(\.dir)
}

@Sendable private func pause(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let session = Session(invocation)
  let work = FolderWork.offline(session)
  var until: Timestamp?
  if let text = invocation.value("for") {
    guard let seconds = seconds(of: text) else {
      throw MarfaError(.usage, "--for takes a time such as 45s, 30m, 1h, 2d or 1h30m, not '\(text)'")
    }
    until = Timestamp(milliseconds: session.context.clock.now.milliseconds + seconds * 1000)
  }
  var rows: [JSON] = []
  var words: [String] = []
  for directory in try directories(invocation, work) {
    let root = try work.pause(directory, until: until)
    rows.append(["dir": .string(root.text), "paused": true, "until": until.map { .string($0.text) } ?? .null])
    words.append("\(root) is paused \(until.map { "until \($0.text)" } ?? "until 'resume'")")
  }
  if rows.isEmpty { invocation.program.output.note("This computer has no folders.") }
  invocation.program.output.answer(.array(rows), words)
  return 0
}

@Sendable private func resume(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let work = FolderWork.offline(Session(invocation))
  var rows: [JSON] = []
  var words: [String] = []
  for directory in try directories(invocation, work) {
    let (root, stood) = try work.resume(directory)
    rows.append(["dir": .string(root.text), "paused": false, "was_paused": .bool(stood)])
    words.append(stood ? "\(root) goes on" : "\(root) was not paused")
  }
  if rows.isEmpty { invocation.program.output.note("This computer has no folders.") }
  invocation.program.output.answer(.array(rows), words)
  return 0
}

/// The seconds of `1h30m` and the like; a number alone is seconds. Nil where it is none, or longer than ten years.
private func seconds(of text: Text) -> Int64? {
  var total: Int64 = 0
  var number: Int64?
  for byte in text.bytes {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"):
      number = (number ?? 0) * 10 + Int64(byte - UInt8(ascii: "0"))
      if number ?? 0 > 1_000_000_000 { return nil }
    default:
      let units: [UInt8: Int64] = [
        UInt8(ascii: "s"): 1, UInt8(ascii: "m"): 60, UInt8(ascii: "h"): 3600, UInt8(ascii: "d"): 86400,
      ]
      guard let unit = units[byte], let count = number else { return nil }
      total += count * unit
      number = nil
    }
  }
  total += number ?? 0
  return total > 0 && total <= 315_360_000 ? total : nil
}
