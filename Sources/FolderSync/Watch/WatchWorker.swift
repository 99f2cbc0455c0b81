import Glibc
import MarfaBase
import MarfaCopy
import Synchronization

/// One folder of a watch over all: its thread, begun again after each error that ended it (N3.2).
final class WatchWorker: Sendable {
  /// Where it stands.
  enum Stage: Sendable { case starting, watched, failed }

  private struct State {
    var stage = Stage.starting
    var refusal: MarfaError?
    var isOver = false
    var isPaused = false
    var isUnreachable = false
    /// What was told of the last error, until it runs again.
    var told: String?
  }

  let progress = WatchProgress()
  private let dir: PathBytes
  private let context: Context
  private let watching: MachineWatch.Watching
  private let credential: @Sendable (PathBytes) -> ContentHash?
  private let tell: @Sendable (MachineWatchEvent) -> Void
  private let onChange: @Sendable () -> Void
  private let stop = StopFlag()
  private let waker: Waker
  private let state = Mutex(State())
  private let thread = Mutex<pthread_t?>(nil)

  /// Starts it; nil where the system gives no thread or descriptor.
  init?(
    _ dir: PathBytes, context: Context, watching: @escaping MachineWatch.Watching,
    credential: @escaping @Sendable (PathBytes) -> ContentHash?,
    tell: @escaping @Sendable (MachineWatchEvent) -> Void, onChange: @escaping @Sendable () -> Void
  ) {
    guard let waker = try? Waker(clock: context.clock) else { return nil }
    self.waker = waker
    self.dir = dir
    self.context = context
    self.watching = watching
    self.credential = credential
    self.tell = tell
    self.onChange = onChange
    var made = pthread_t()
    let failure = pthread_create(
      &made, nil,
      { argument in
        // The thread owns one reference, so the object outlives it.
        guard let argument else { return nil }
        Unmanaged<WatchWorker>.fromOpaque(argument).takeRetainedValue().run()
        return nil
      }, Unmanaged.passRetained(self).toOpaque())
    guard failure == 0 else {
      Unmanaged.passUnretained(self).release()
      return nil
    }
    let running = made
    thread.withLock { $0 = running }
  }

  var stage: Stage { state.withLock { $0.stage } }
  /// Whether the person paused it.
  var isPaused: Bool { state.withLock { $0.isPaused } }
  /// Whether its server cannot be reached.
  var isUnreachable: Bool { state.withLock { $0.isUnreachable } }
  /// Whether its watch ended by itself: removed, or off the list.
  var isOver: Bool { state.withLock { $0.isOver } }
  /// Why its credential was refused, while it waits for another.
  var refusal: MarfaError? { state.withLock { $0.refusal } }

  func lookAgain() { waker.wake() }

  func askToEnd() {
    stop.set(.stopped)
    waker.wake()
  }

  /// Ends it and waits for its thread.
  func end() {
    askToEnd()
    let running = thread.withLock { thread in
      defer { thread = nil }
      return thread
    }
    if let running { pthread_join(running, nil) }
  }

  private func run() {
    var wait = 1
    while !stop.isSet {
      let began = context.clock.monotonic
      // Before it asks with it: one kept between the refusal and this would be taken for the refused one.
      let asked = credential(dir)
      do throws(MarfaError) {
        try watching(dir, stop, progress) { [self] event in
          switch event {
          case .watching: watched()
          case .paused: watched(isPaused: true)
          case .resumed, .takenBack: stands { $0.isPaused = false }
          case .unreachable: stands { $0.isUnreachable = true }
          case .reachable: stands { $0.isUnreachable = false }
          default: break
          }
          tell(.folder(event))
        }
        break
      } catch {
        if stop.isSet { break }
        if context.clock.monotonic &- began > 60_000_000_000 { wait = 1 }
        failed(error, wait)
        if error.exit == 5 {
          waitForCredential(but: asked)
          wait = 1
        } else {
          waker.wait(until: context.clock.monotonic &+ UInt64(wait) * 1_000_000_000)
          wait = min(60, wait * 2)
        }
      }
    }
    state.withLock { $0.isOver = true }
    onChange()
  }

  private func watched(isPaused: Bool = false) {
    stands { state in
      state.stage = .watched
      state.refusal = nil
      state.told = nil
      state.isPaused = isPaused
    }
  }

  private func stands(_ change: (inout State) -> Void) {
    state.withLock { change(&$0) }
    onChange()
  }

  private func failed(_ error: MarfaError, _ wait: Int) {
    let isNew = state.withLock { state in
      state.stage = .failed
      state.isPaused = false
      state.isUnreachable = false
      state.refusal = error.exit == 5 ? error : nil
      // A command that works the folder for a moment is nothing to tell.
      if error.code == .readingHandle, wait < 8 { return false }
      defer { state.told = error.message }
      return state.told.map { !$0.utf8.elementsEqual(error.message.utf8) } ?? true
    }
    if isNew { tell(.failed(error, waitSeconds: error.exit == 5 ? 60 : wait)) }
    onChange()
  }

  /// Until another credential than the refused one is to be had, looked for every minute and when asked to (N3.2).
  private func waitForCredential(but refused: ContentHash?) {
    while !stop.isSet {
      if let now = credential(dir), now != refused { return }
      waker.wait(until: context.clock.monotonic &+ 60_000_000_000)
    }
  }
}
