import Glibc
import MarfaBase
import MarfaCopy

/// The file asks are left in (X13).
package let handOverName: PathBytes = "core.handover"

/// A folder held by a call that asked for it. Its end lets the claim go first, then the ask, so that the watch finds the
/// claim free (H9.4).
package final class FolderHold {
  /// The claim.
  package let claim: WriterClaim
  private let ask: (any LockFile)?
  private var isHeld = true

  init(claim: WriterClaim, ask: (any LockFile)?) {
    self.claim = claim
    self.ask = ask
  }

  deinit { release() }

  /// Lets go.
  package func release() {
    guard isHeld else { return }
    isHeld = false
    claim.release()
    HandOver.withdraw(ask)
  }
}

/// Asking the holder of a folder to let it go (H9), and hearing that somebody asks (H10).
package struct HandOver: Sendable {
  /// What asking gave.
  package enum Outcome {
    /// The folder is ours.
    case held(FolderHold)
    /// The directory is no folder any more (H8).
    case noFolder
  }

  /// Who asks, for messages alone.
  package struct Asker: Hashable, Sendable {
    /// The command.
    package var command: Text?
    /// Its process.
    package var pid: Int?
  }

  /// How long an ask lasts, in nanoseconds from its beginning.
  package static let patience: UInt64 = 10_000_000_000
  static let step: UInt64 = 50_000_000

  private let root: PathBytes
  private let files: any FileSystem
  private let clock: any Clock
  private let scheduler: any Scheduler
  private let fallback: LockFallback?

  /// Asks for the folder at `root`.
  package init(
    root: PathBytes, files: any FileSystem, clock: any Clock, scheduler: any Scheduler, fallback: LockFallback? = nil
  ) {
    self.root = root
    self.files = files
    self.clock = clock
    self.scheduler = scheduler
    self.fallback = fallback
  }

  /// Asks for the folder at `root`.
  package init(root: PathBytes, context: Context, fallback: LockFallback? = nil) {
    self.init(
      root: root, files: context.files, clock: context.clock, scheduler: context.scheduler, fallback: fallback)
  }

  /// Asks and waits up to ten seconds.
  /// - Throws: `reading_handle` where the holder does not let go, `canceled` where `stop` was set meanwhile.
  package func ask(
    _ command: String, in state: any Directory, store: PathBytes = storeName, stop: StopFlag
  ) throws(MarfaError) -> Outcome {
    let end = clock.monotonic &+ HandOver.patience
    let ask: (any LockFile)?
    do throws(FileError) { ask = try openAsk(in: state, until: end, stop: stop) } catch {
      return try once(in: state, store: store, because: error)
    }
    guard let ask else { throw refusal(stop, state, store) }
    var written: UInt64?
    do throws(MarfaError) {
      while true {
        // Again each second: a notice that was lost delays an ask and never loses it (H10).
        let now = clock.monotonic
        if written.map({ now &- $0 >= 1_000_000_000 }) ?? true {
          try? ask.replaceContents(line(command))
          written = now
        }
        switch try WriterClaim.attempt(in: state, store: store, files: files, fallback: fallback) {
        case .taken(let claim): return .held(FolderHold(claim: claim, ask: ask))
        case .noFolder:
          HandOver.withdraw(ask)
          return .noFolder
        case .held: break
        }
        guard clock.monotonic < end, scheduler.wait(nanoseconds: HandOver.step, unless: stop) else {
          throw refusal(stop, state, store)
        }
      }
    } catch {
      HandOver.withdraw(ask)
      throw error
    }
  }

  private func openAsk(in state: any Directory, until end: UInt64, stop: StopFlag) throws(FileError) -> (any LockFile)?
  {
    // The handover lock falls back the way the claim does (H7).
    var substitute: (any LockFile)?
    while true {
      let found: (any LockFile)?
      if let substitute {
        found = substitute
      } else {
        found = try files.lockFile(handOverName, in: state, create: true)
      }
      guard let file = found else { continue }
      let isLocked: Bool
      do throws(FileError) { isLocked = try file.lock(.exclusive, wait: false) } catch {
        guard tellsNoLocks(error), substitute == nil, let fallback else { throw error }
        substitute = try fallback.file("handover", files, create: true)
        continue
      }
      if isLocked {
        // `remove` may have deleted it while another asker had it.
        if try file.status().links > 0 { return file }
        file.unlock()
      } else {
        guard clock.monotonic < end, scheduler.wait(nanoseconds: HandOver.step, unless: stop) else { return nil }
      }
    }
  }

  /// H9: where no ask can be left, the claim is tried once.
  private func once(in state: any Directory, store: PathBytes, because error: FileError) throws(MarfaError) -> Outcome {
    switch try WriterClaim.attempt(in: state, store: store, files: files, fallback: fallback) {
    case .taken(let claim): return .held(FolderHold(claim: claim, ask: nil))
    case .noFolder: return .noFolder
    case .held:
      throw MarfaError(
        .readingHandle,
        "the folder \(root) is held by another process, such as a watch, and it could not be asked: \(error.reason)")
    }
  }

  private func refusal(_ stop: StopFlag, _ state: any Directory, _ store: PathBytes) -> MarfaError {
    if stop.isSet { return MarfaError(.canceled, "stopped while waiting for the folder \(root)") }
    if let who = WriterClaim.owner(in: state, store: store)?.stranger(files) {
      return MarfaError(
        .io, "the folder \(root) is worked by \(who); one computer and one user at a time can work a folder")
    }
    return MarfaError(
      .readingHandle,
      "the folder \(root) is held by another process: one process works a folder at a time, and that one, such as a "
        + "running `watch`, did not let it go in time")
  }

  private func line(_ command: String) -> [UInt8] {
    let line: JSON = [
      "pid": .int(files.writer.pid), "command": .string(command), "asked_at": .string(clock.now.text),
    ]
    return line.write() + [0x0A]
  }

  /// Truncates and lets go.
  static func withdraw(_ ask: (any LockFile)?) {
    try? ask?.replaceContents([])
    ask?.unlock()
  }
}

/// The holder's side: hears that somebody asks. That somebody does is the lock on the file; its text serves messages
/// alone (X13.3).
package final class HandOverHearing {
  private let state: any Directory
  private let files: any FileSystem
  private let fallback: LockFallback?
  private var file: (any LockFile)?

  /// Listens at an open `.marfa/`.
  package init(in state: any Directory, files: any FileSystem, fallback: LockFallback? = nil) {
    self.state = state
    self.files = files
    self.fallback = fallback
  }

  /// Who asks now; nil where nobody does.
  package func asker() -> HandOver.Asker? {
    guard let file = opened(), (try? file.lock(.shared, wait: false)) == false else {
      file?.unlock()
      return nil
    }
    let line = (try? file.contents()).flatMap { try? JSON(parsing: $0) }
    return HandOver.Asker(command: line?["command"]?.text, pid: line?["pid"]?.int)
  }

  /// Who asks now, by name: an ask is locked a moment before its text is written, and is written again each second. The
  /// text is waited for up to a second; an ask that stays without one is answered without its name. Nil where nobody
  /// asks.
  package func namedAsker(_ scheduler: any Scheduler, stop: StopFlag) -> HandOver.Asker? {
    for _ in 0..<50 {
      guard let asker = asker() else { return nil }
      if asker.command != nil { return asker }
      guard scheduler.wait(nanoseconds: 20_000_000, unless: stop) else { return asker }
    }
    return asker()
  }

  /// Waits until no call asks any more, looking again 100 ms after the file was found free, so that the next asker goes
  /// first (H11). By the open file, since `remove` deletes it.
  /// - Returns: false where `stop` was set first.
  package func waitUntilFree(_ scheduler: any Scheduler, stop: StopFlag) -> Bool {
    while true {
      if asker() == nil {
        guard scheduler.wait(nanoseconds: 100_000_000, unless: stop) else { return false }
        if asker() == nil { return true }
      }
      guard scheduler.wait(nanoseconds: HandOver.step, unless: stop) else { return false }
    }
  }

  private func opened() -> (any LockFile)? {
    if let file, let status = try? file.status(), status.links > 0 { return file }
    if let file, (try? file.lock(.shared, wait: false)) == false { return file }
    file = try? files.lockFile(handOverName, in: state, create: false)
    if let fallback, let own = file {
      do throws(FileError) {
        if try own.lock(.shared, wait: false) { own.unlock() }
      } catch {
        if tellsNoLocks(error) { file = try? fallback.file("handover", files, create: false) }
      }
    }
    return file
  }
}
