import CSystemd
import FolderSync
import Glibc
import MarfaBase
import MarfaCopy
import Synchronization

/// `watch` without DIR: every folder of this computer's list, in one process (N3).
func watchAll(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  var invocation = invocation
  invocation.program.worksSeveral = true
  let several = invocation
  let program = invocation.program
  guard let path = program.registryFile else {
    throw MarfaError(.invalid, "there is no home directory that could hold the list of this computer's folders")
  }
  let context = program.context()
  let work = FolderWork.offline(Session(invocation))
  guard let registry = work.registry else { throw MarfaError(.invalid, "no list of folders can be kept at \(path)") }
  let output = program.output
  if try work.list().isEmpty {
    output.note("This computer has no folders yet; one that 'marfa-folders add DIR' makes is taken up.")
  }
  let words = Mutex<[PathBytes: WatchWords]>([:])
  let hides = LogPaths(program)
  let keyringMoved = KeyringMoves()
  let desktop = Desktop(invocation, keyring: { keyringMoved.came() })
  defer { desktop?.end() }
  let watch: MachineWatch
  do throws(FileError) {
    watch = try MachineWatch(
      registry: registry, context: context, stop: program.stop,
      watching: { (dir, stop, progress, tell) throws(MarfaError) in
        let invocation = several.stopped(by: stop)
        try FolderWork(Session(invocation), for: dir).watch(dir, for: nil, progress: progress, tell: tell)
      },
      credential: { dir in FolderWork.credential(Session(several), for: dir) },
      tell: { dir, event in
        switch event {
        case .folder(let event): desktop?.heard(dir, event)
        case .failed(let error, _): desktop?.failed(dir, error)
        }
        let shown = hides.map { PathBytes($0.hash(dir.text)) } ?? dir
        let event = hides?.event(event, of: dir) ?? event
        if output.json { return output.record(event.json(shown)) }
        let lines = words.withLock { words in
          var own = words[dir] ?? WatchWords()
          defer { words[dir] = own }
          return own.lines(event)
        }
        for line in lines {
          if line.isError { output.note("\(shown): \(line.words)") } else { output.line("\(shown): \(line.words)") }
        }
      })
  } catch { throw MarfaError(.watch, "the folders of this computer cannot be watched: \(error.reason)") }
  program.hangup.take { watch.lookAgain() }
  keyringMoved.take { watch.lookAgain() }
  let service = ServiceManager(program)
  let replacement = invocation.number("for") == nil ? Replacement(clock: context.clock) : nil
  var refusal: MarfaError?
  repeat {
    refusal = try watch.run(
      for: invocation.number("for").map(Double.init), endsRefused: program.terminal.readsOutput,
      watchdog: service.watchdog, feed: { service.say("WATCHDOG=1") }, onState: { service.stands($0) },
      isOver: { replacement?.isThere() ?? false })
  } while refusal == nil && goesOn(replacement, program, desktop)
  service.say("STOPPING=1")
  if let refusal { throw refusal }
  return 0
}

/// Passes on that the keyring was locked or unlocked, once somebody listens.
private final class KeyringMoves: Sendable {
  private let listener = Mutex<(@Sendable () -> Void)?>(nil)
  func take(_ listener: @escaping @Sendable () -> Void) { self.listener.withLock { $0 = listener } }
  func came() { listener.withLock { $0 }?() }
}

extension Invocation {
  /// The same with a stop of its own.
  fileprivate func stopped(by stop: StopFlag) -> Invocation {
    var invocation = self
    invocation.program.stop = stop
    return invocation
  }
}

extension MachineWatchEvent {
  /// One object a line, with the folder's directory (N3.1).
  func json(_ dir: PathBytes) -> JSON {
    var object: JSONObject
    switch self {
    case .folder(let event): object = event.json.object ?? JSONObject()
    case .failed(let error, let seconds):
      object = JSONObject()
      object["event"] = "failed"
      object["error"] = ["code": .string(error.code.rawValue), "message": .string(error.message)]
      object["wait_seconds"] = .int(seconds)
    }
    object["dir"] = .string(dir.text)
    return .object(object)
  }
}

extension WatchWords {
  /// The lines of an event of a watch over all folders.
  mutating func lines(_ event: MachineWatchEvent) -> [Line] {
    switch event {
    case .folder(let event): return lines(event)
    case .failed(let error, let seconds):
      let next =
        error.exit == 5
        ? "looked for a working credential every minute" : "tried again in \(seconds) s, then ever later, up to 60 s"
      return [Line(words: "not watched: \(Output.oneLine(error.message)); \(next)", isError: true)]
    }
  }
}

/// What a service manager is told (N3.3); nothing where none asks.
struct ServiceManager: Sendable {
  private let isThere: Bool
  /// How often it wants a sign of life, in nanoseconds.
  let watchdog: UInt64?
  private let saidReady = SaidOnce()

  private final class SaidOnce: Sendable {
    private let said = Atomic<Bool>(false)
    /// Whether this is the first time.
    func take() -> Bool { !said.exchange(true, ordering: .acquiringAndReleasing) }
  }

  /// As the environment tells it.
  init(_ program: Program) {
    isThere = program.variable("NOTIFY_SOCKET") != nil
    var interval: UInt64 = 0
    watchdog = isThere && sd_watchdog_enabled(0, &interval) > 0 && interval > 0 ? interval &* 1000 : nil
  }

  /// Tells how the folders stand; ready once, when every folder is watched or told as failed.
  func stands(_ state: MachineWatchState) {
    var lines: [String] = []
    if state.isReady, saidReady.take() { lines.append("READY=1") }
    var words = "\(counted(state.watched, "folder")) watched"
    if state.paused > 0 { words += " (\(state.paused) paused)" }
    if state.unreachable > 0 { words += ", the server of \(state.unreachable) out of reach" }
    if state.failed > 0 { words += ", \(state.failed) not" }
    if state.starting > 0 { words += ", \(state.starting) starting" }
    lines.append("STATUS=\(words)")
    say(lines.joined(separator: "\n"))
  }

  /// One message.
  func say(_ message: String) {
    guard isThere else { return }
    _ = sd_notify(0, message)
  }
}
