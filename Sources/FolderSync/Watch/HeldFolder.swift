import MarfaBase
import MarfaCopy

/// A folder the watch works now: its claim, and the engine over its store.
final class HeldFolder: WatchedFolder {
  private var engine: FolderEngine?
  private let claim: WriterClaim
  private let memory: WatchMemory
  private let stand: (StreamPlace?) -> Void
  /// Whether the watch worked the folder before, and others did since: what they and the server changed is caught up with
  /// before anything is sent (H14, X13.6).
  private var isReturn: Bool
  /// The pass its log was last told of.
  private var logged: LoggedPass?

  init(engine: FolderEngine, claim: WriterClaim, memory: WatchMemory, stand: @escaping (StreamPlace?) -> Void) {
    self.engine = engine
    self.claim = claim
    self.memory = memory
    isReturn = memory.hasWorked
    self.stand = stand
  }

  func entersDirectory() -> @Sendable (PathBytes) -> Bool {
    guard let lists = try? engine?.facts().lists else { return { _ in true } }
    return { lists.enters(directory: $0) }
  }

  func restartGraces() {
    if let engine { memory.restartGraces(engine.now) }
  }

  func pass(reading: Bool, changes: NotedChanges, trusted: Bool) throws(MarfaError) -> WatchPassOutcome {
    var outcome = WatchPassOutcome()
    guard let engine else { return outcome }
    memory.beginPass(changes, trusted: trusted)
    defer { engine.countChanges() }
    do {
      let push: FolderPush
      let returns = isReturn
      (push, logged) = try engine.logged(after: logged) {
        try engine.sync(quick: !reading, isWatch: true, catchesUpFirst: returns)
      }
      isReturn = false
      if push.scan.rootGone != nil {
        outcome.rootGone = (push.settings.json, push.scan.json)
        return outcome
      }
      stand(try engine.copy.streamPlace())
      outcome.pass = try told(push, reading, engine)
      outcome.unreachable = push.catchUp.failed
      remind(of: push, engine, in: &outcome)
      if push.drain.drain.stopped != nil { outcome.ends = Self.refused(engine) }
    } catch {
      try settle(MarfaError(any: error), engine, reading, in: &outcome)
    }
    outcome.reminders += memory.takeReminders()
    return outcome
  }

  private func told(_ push: FolderPush, _ reading: Bool, _ engine: FolderEngine) throws -> WatchPass {
    var pass = WatchPass(
      isReading: reading, settings: push.settings.json, scan: push.scan.json, drain: push.drain.json,
      pull: push.pull?.json ?? .null)
    pass.conflicts = push.drain.conflicts
    pass.filed = try memory.filed(push.drain.conflicts) { try engine.path(of: $0) }
    return pass
  }

  /// What a pass that failed means for the watch (F40.5, F40.6, F52, P5.2, P6.1).
  private func settle(
    _ error: MarfaError, _ engine: FolderEngine, _ reading: Bool, in outcome: inout WatchPassOutcome
  ) throws(MarfaError) {
    let now = engine.context.clock.monotonic
    if error.code != .canceled, let reason = engine.rootGone() { return outcome.rootGone = Self.gone(reason) }
    switch error.code {
    case .canceled: throw error
    // A disk that does not answer ends no watch (H16): it is looked at again, as a directory that is gone is.
    case .io: outcome.rootGone = Self.gone("the directory \(engine.root) cannot be read: \(error.message)")
    case .streamIncomplete where error.reason == "local_copy_changed": outcome.copyChanging = error.message
    case .unauthorized, .signedOut:
      // Why the drain stopped is said before the watch ends (F52.5).
      var push = engine.begun ?? FolderPush()
      if push.drain.drain.stopped == nil {
        // A read met the refusal before anything was sent.
        let waiting = (try? engine.copy.queue.unansweredCount()) ?? 0
        push.drain.drain.stopped = "credential refused by the server: nothing sent, \(waiting) queued write(s) wait"
      }
      guard let pass = try? told(push, reading, engine) else { throw Self.explained(error) }
      outcome.pass = pass
      outcome.ends = Self.explained(error)
    case .redirect, .contractMismatch:
      guard Self.isPortal(error), (try? engine.copy.slice()) != nil else { throw Self.lost(error, engine) }
      outcome.unreachable = MarfaError(
        .network, "this network answers in the server's place, as one does that asks to sign in first: \(error.message)"
      )
      outcome.reminders.append(now &+ 5_000_000_000)
    // An answer cut short or not to be read is waited out like none (device.md, the class of `decoding`).
    case .decoding where (try? engine.copy.slice()) != nil:
      outcome.unreachable = error
      outcome.reminders.append(now &+ 5_000_000_000)
    case .storageFull, .decoding: outcome.fillFailed = error
    default:
      guard error.isMetByWaiting else { throw Self.lost(error, engine) }
      outcome.fillFailed = error
    }
  }

  private static func gone(_ reason: String) -> (settings: JSON, scan: JSON) {
    var scan = FolderScan()
    scan.rootGone = reason
    return (SettingsFileOutcome().json, scan.json)
  }

  /// A redirect, or a success that names no contract (P6.1); another contract is none.
  private static func isPortal(_ error: MarfaError) -> Bool {
    error.code == .redirect || error.reason == "no_contract"
  }

  /// F40.6: a catch-up or a fill that no retry helps.
  private static func lost(_ error: MarfaError, _ engine: FolderEngine) -> MarfaError {
    guard engine.memory?.failedToFollow == true else { return error }
    switch error.code {
    case .instanceChanged, .noCredential, .noKeychain, .io, .store, .wrongSchema, .closed: return error
    default:
      return MarfaError(
        .watch, "the server's changes no longer reach the folder: \(error.message)", server: error.server)
    }
  }

  /// What waits on time: a journaled delete's grace, the server's wait.
  private func remind(of push: FolderPush, _ engine: FolderEngine, in outcome: inout WatchPassOutcome) {
    let now = engine.context.clock.monotonic
    if push.scan.missing > 0 { outcome.reminders.append(now &+ 5_050_000_000) }
    if let open = engine.beingWritten.values.map(\.since).max(), !push.scan.settling.isEmpty {
      // One held open for long is looked at less often: its close is told anyway.
      outcome.reminders.append(now &+ (now < open &+ 1_000_000_000 ? PassSchedule.settleWindow : 1_000_000_000))
    }
    if let due = push.pull?.linesDue {
      let clock = engine.context.clock
      let left = clock.span(milliseconds: due.milliseconds - engine.now.milliseconds)
      outcome.reminders.append(now &+ max(50_000_000, left))
    }
    let drain = push.drain.drain
    // Nobody tells when the network or the power changed.
    if drain.spared > 0 { outcome.reminders.append(now &+ 60_000_000_000) }
    if drain.undelivered > 0 || push.catchUp.failed != nil {
      let seconds = max(2, min(300, drain.retryAfterSeconds ?? push.catchUp.failed?.retryAfter ?? 0))
      outcome.reminders.append(now &+ UInt64(seconds) * 1_000_000_000)
    }
    if let seconds = push.settings.retryAfter {
      outcome.reminders.append(now &+ UInt64(max(2, min(300, seconds))) * 1_000_000_000)
    }
  }

  /// F52.5: told from a parked queue, with no answer at hand (C17.1).
  private static func refused(_ engine: FolderEngine) -> MarfaError {
    explained(
      MarfaError(
        .unauthorized, "\(engine.copy.server.origin) refused this watch's credential",
        server: .init(status: nil, code: "credential_refused")))
  }

  private static func explained(_ error: MarfaError) -> MarfaError {
    var error = error
    error.message += "; queued writes wait until a working credential is kept"
    return error
  }

  func close() {
    engine = nil
    claim.release()
  }
}
