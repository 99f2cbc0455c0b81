import FolderSync
import MarfaBase
import MarfaCopy

/// `push`, which is also called `sync` (C1.3).
func pushCommand() -> Command {
  Command(
    name: "sync", aliases: ["push"], summary: "bring the directory and the server in step, once",
    discussion:
      "While the first sync is not confirmed it only says what it would do. Files that could not be sent or written are told, and the exit is 0 all the same.",
    examples: [
      "marfa-folders sync ~/Notes",
      "marfa-folders sync ~/Notes --wait   # from a script: until everything went",
    ],
    options: [
      Option("now", "Send large files too where the network is metered or the battery is spared."),
      Option(
        "wait", "Where the server asks to wait, wait and go on until everything is sent; a terminal does by itself."),
    ],
    arguments: [Argument("DIR", "The folder's directory.")], run: push)
}

@Sendable private func push(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let program = invocation.program
  let session = Session(invocation)
  let directory = directory(of: invocation)
  let work = try FolderWork(session, for: directory)
  let waits = invocation.has("wait") || program.terminal.readsOutput
  while true {
    let result: PushResult
    do throws(MarfaError) {
      result = try Progress.of(directory, program, session.context) { () throws(MarfaError) in
        try work.push(directory)
      }
    } catch {
      // A limit met before anything could be sent, in a fill for one, is waited out as well.
      guard error.code == .rateLimited, waits,
        session.context.scheduler.wait(seconds: error.retryAfter ?? MarfaError.unnamedWait, program)
      else { throw error }
      continue
    }
    switch result {
    case .waiting(let reading):
      program.output.answer(PushResult.waiting(reading).json, waitingWords(reading, directory))
      return 0
    case .pushed(let push):
      let unsent = Unsent(push)
      if let wait = unsent.wait, waits, session.context.scheduler.wait(seconds: wait, program) {
        // P6.3: what went is said as it went; the last round is the answer.
        if !program.output.json { program.output.lines(words(push)) }
        continue
      }
      program.output.answer(push.json, words(push))
      // C16.6: a report that was printed leaves by 0, but for a rate limit that was not waited out.
      return unsent.isLimited && !program.stop.isSet ? 3 : 0
    }
  }
}

/// What a server that asks to wait left undelivered, an edit of the settings among it.
private struct Unsent {
  /// The seconds it asks for; nil where nothing waits for it.
  var wait: Int?
  /// Whether it was a rate limit.
  var isLimited = false

  init(_ push: FolderPush) {
    let drain = push.drain.drain
    if drain.undelivered > 0 {
      isLimited = drain.isRateLimited
      wait = drain.retryAfterSeconds ?? (isLimited ? MarfaError.unnamedWait : nil)
    }
    if let seconds = push.settings.retryAfter {
      isLimited = true
      wait = max(wait ?? 0, seconds)
    }
  }
}

extension Scheduler {
  /// Waits with a line of progress at a terminal. Returns whether the time ran out.
  fileprivate func wait(seconds: Int, _ program: Program) -> Bool {
    if program.terminal.showsProgress {
      program.output.note("The server asks to wait \(seconds) s; going on after that.")
    }
    return wait(nanoseconds: UInt64(max(1, seconds)) * 1_000_000_000, unless: program.stop)
  }
}

private func words(_ push: FolderPush) -> [String] {
  PushWords(
    push: Report(push.json), conflicts: push.drain.conflicts.map(conflictWords),
    unmatchedFiles: push.pull?.unmatchedFiles ?? []
  ).lines
}

/// An edit whose text went to a conflicted copy (C19.9).
func conflictWords(_ conflict: ConflictedEdit) -> String {
  var line = "conflicted \(conflict.kind) \(conflict.path)"
  if let path = conflict.copyPath {
    line += " conflicted copy \(path)"
  } else if let copy = conflict.copy {
    line += " conflicted copy \(copy), which is not a file in this folder yet,"
  }
  return conflict.fields.isEmpty ? line : line + " merged \(conflict.fields.joined(separator: ", "))"
}

/// A conflicted copy said earlier to be no file yet, which is one now (F74).
func filedWords(_ conflict: ConflictedEdit) -> String {
  "conflicted copy \(conflict.copy.map(\.description) ?? "") of \(conflict.path) is now the file "
    + "\(conflict.copyPath.map(\.description) ?? "")"
}

/// What a waiting first sync would do (C16.2).
private func waitingWords(_ reading: FirstSyncReading, _ directory: PathBytes) -> [String] {
  var lines: [String] = []
  if let plan = reading.plan { lines.append(planWords(plan)) }
  if let unread = reading.unread { lines.append("What the first sync does could not be read: \(unread)") }
  lines.append("Nothing is written or sent until 'marfa-folders confirm \(shellWord(directory))' lets it go.")
  return lines
}
