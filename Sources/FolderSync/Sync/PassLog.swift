import MarfaBase
import MarfaCopy

/// The log of passes (N6.3): commands' and a watch's, kept in the store.
extension FolderEngine {
  /// Works, and keeps one line of what was done.
  func logged<Value>(_ command: Text, _ work: () throws -> Value) throws -> Value {
    let began = context.clock.now
    do {
      let value = try work()
      let push = (value as? PushResult).flatMap { if case .pushed(let push) = $0 { push } else { nil } }
      let (scan, pull) = (push?.scan ?? value as? FolderScan, push?.pull ?? value as? FolderPull)
      if scan != nil || pull != nil { try? store.log(line(command, began, push: push, scan: scan, pull: pull)) }
      return value
    } catch {
      try? store.log(line(command, began, error: MarfaError(any: error)))
      throw error
    }
  }

  /// Works a watch's pass, and keeps one line of it where it tells something its line before did not: most find nothing
  /// to do.
  func logged(after last: LoggedPass?, _ work: () throws -> FolderPush) throws -> (FolderPush, LoggedPass?) {
    let began = context.clock.now
    do {
      let push = try work()
      let pass = line("watch", began, push: push, scan: push.scan, pull: push.pull)
      guard pass.tells(after: last) else { return (push, last) }
      try? store.log(pass)
      return (push, pass)
    } catch {
      let failed = MarfaError(any: error)
      let pass = line("watch", began, error: failed)
      if failed.code != .canceled, pass.tells(after: last) { try? store.log(pass) }
      throw error
    }
  }

  private func line(
    _ command: Text, _ began: Timestamp, push: FolderPush? = nil, scan: FolderScan? = nil, pull: FolderPull? = nil,
    error: MarfaError? = nil
  ) -> LoggedPass {
    LoggedPass(
      at: began, took: Int(context.clock.now.milliseconds - began.milliseconds), pass: command.string,
      sent: push?.drain.drain.answered ?? 0, written: (pull?.written ?? 0) + (pull?.rewritten ?? 0),
      removed: pull?.removed ?? 0, held: (scan?.flagged.count ?? 0) + (pull?.flagged.count ?? 0),
      refused: push?.drain.drain.verdicts.filter { $0.verdict == .refused }.count ?? 0,
      error: (error ?? push?.catchUp.failed)?.code.rawValue)
  }
}

extension LoggedPass {
  /// Whether a watch's pass did something, or found other than the one told last.
  fileprivate func tells(after last: LoggedPass?) -> Bool {
    sent + written + removed + refused > 0 || held != last?.held ?? 0 || error != last?.error
  }
}
