import Glibc
import MarfaBase
import MarfaCopy
import Synchronization

/// What a watch over all folders tells of one of them (N3).
package enum MachineWatchEvent: Sendable {
  /// What its own watch tells.
  case folder(WatchEvent)
  /// It ended by an error and is tried again; said once until it runs or fails for another reason.
  case failed(MarfaError, waitSeconds: Int)
}

/// How a watch over all folders stands, for a service manager (N3.3).
package struct MachineWatchState: Hashable, Sendable {
  /// Folders watched now.
  package var watched = 0
  /// Folders told as failed, and tried again.
  package var failed = 0
  /// Folders neither watched nor told as failed yet.
  package var starting = 0
  /// Of those watched: paused by the person.
  package var paused = 0
  /// Of those watched: their server cannot be reached.
  package var unreachable = 0

  /// Every folder is watched or told as failed.
  package var isReady: Bool { starting == 0 }
}

/// Watches every folder the machine's list names, each as its own watch would, on a thread of its own (N3.1). A folder that
/// is added is taken up; one that is removed ends its own watch and is let go.
package final class MachineWatch: Sendable {
  /// Runs one folder's watch on the calling thread until its flag is set or it ends.
  package typealias Watching =
    @Sendable (PathBytes, StopFlag, WatchProgress, @escaping (WatchEvent) -> Void) throws(MarfaError) -> Void

  private let registry: Registry
  private let context: Context
  private let stop: StopFlag
  private let waker: Waker
  private let watching: Watching
  private let credential: @Sendable (PathBytes) -> ContentHash?
  private let workers = Mutex<[PathBytes: WatchWorker]>([:])
  private let tellLock = Mutex(())
  private let tell: @Sendable (PathBytes, MachineWatchEvent) -> Void

  /// A watch over the folders of a list.
  /// - Parameters:
  ///   - credential: a digest of the credential a folder's watch would ask with now; nil where none is to be had.
  ///   - tell: told each event, one at a time, on the threads of the folders.
  package init(
    registry: Registry, context: Context, stop: StopFlag, watching: @escaping Watching,
    credential: @escaping @Sendable (PathBytes) -> ContentHash?,
    tell: @escaping @Sendable (PathBytes, MachineWatchEvent) -> Void
  ) throws(FileError) {
    self.registry = registry
    self.context = context
    self.stop = stop
    self.watching = watching
    self.credential = credential
    self.tell = tell
    waker = try Waker(clock: context.clock)
  }

  /// Looks at once for credentials that were kept since a refusal (SIGHUP, N3.2).
  package func lookAgain() {
    for worker in workers.withLock({ Array($0.values) }) { worker.lookAgain() }
  }

  /// Runs until stopped, or until `seconds` are over.
  /// - Parameters:
  ///   - endsRefused: whether it ends where every folder's credential is refused.
  ///   - watchdog: how often at most `feed` is called while every folder moves on or waits, in nanoseconds.
  ///   - onState: told how the folders stand, each time that changes.
  ///   - isOver: asked whenever it wakes: whether it is to end.
  /// - Returns: the refusal where every folder's credential was refused.
  /// - Throws: `reading_handle` where another watch over this list runs (P7.7).
  package func run(
    for seconds: Double? = nil, endsRefused: Bool = false, watchdog: UInt64? = nil, feed: () -> Void = {},
    onState: (MachineWatchState) -> Void = { _ in }, isOver: () -> Bool = { false }
  ) throws(MarfaError) -> MarfaError? {
    let claim = try claimList()
    defer { claim.release() }
    let token = stop.onSet { [waker] in waker.wake() }
    defer { stop.forget(token) }
    let notifications = try? listNotifications()
    defer { notifications?.close() }
    let end = seconds.map { context.clock.monotonic &+ UInt64($0 * 1_000_000_000) }
    defer { letGo() }
    var isFirst = true
    var listStatus: FileStatus?
    var told: MachineWatchState?
    var nextFeed = watchdog.map { _ in context.clock.monotonic }
    while !stop.isSet {
      let now = context.clock.monotonic
      if let end, now >= end { break }
      if isOver() { break }
      _ = notifications?.take()
      let status = (try? context.files.status(registry.path)) ?? nil
      let ended = forgetEnded()
      if isFirst || listStatus != status || ended {
        isFirst = false
        listStatus = status
        takeUp()
      }
      let state = state()
      if state != told {
        told = state
        onState(state)
      }
      let all = workers.withLock { Array($0.values) }
      if endsRefused, !all.isEmpty, let refusal = all.first?.refusal, all.allSatisfy({ $0.refusal != nil }) {
        return refusal
      }
      if let watchdog, let time = nextFeed, now >= time {
        if all.allSatisfy({ $0.progress.movesOn(now) }) { feed() }
        nextFeed = now &+ watchdog / 2
      }
      // Where the list's directory can't be watched it is looked at twice a minute.
      waker.wait(until: [now &+ 30_000_000_000, end, nextFeed].compactMap { $0 }.min())
    }
    return nil
  }

  // MARK: The list

  private func claimList() throws(MarfaError) -> FileLock {
    let name = PathBytes(bytes: registry.path.name.bytes + Array(".watch".utf8))
    let file: any LockFile
    do throws(FileError) {
      _ = try context.files.makeDirectories(registry.path.parent, mode: 0o700)
      let directory = try context.files.openDirectory(registry.path.parent)
      guard let found = try context.files.lockFile(name, in: directory, create: true) else {
        throw FileError(code: ENOENT, operation: "lock", path: registry.path)
      }
      file = found
      if try file.lock(.exclusive, wait: false) {
        try file.replaceContents((["pid": .int(Int(context.files.writer.pid))] as JSON).write())
        return FileLock(holding: file)
      }
    } catch { throw MarfaError(error) }
    let pid = (try? file.contents()).flatMap { try? JSON(parsing: $0) }?["pid"]?.int
    throw MarfaError(
      .readingHandle,
      "another watch\(pid.map { " (process \($0))" } ?? "") watches the folders of this computer already")
  }

  private func listNotifications() throws(FileError) -> InotifyNotifications {
    let notifications = try InotifyNotifications(
      root: registry.path.parent, clock: context.clock, onChange: { [waker] in waker.wake() }, onAsk: {})
    notifications.enter { _ in false }
    try notifications.start()
    return notifications
  }

  /// Starts a watch of each listed folder that has none. A list that cannot be read changes nothing.
  private func takeUp() {
    guard let entries = try? registry.entries() else { return }
    for entry in entries {
      workers.withLock { workers in
        guard workers[entry.dir] == nil else { return }
        guard
          let worker = WatchWorker(
            entry.dir, context: context, watching: watching, credential: credential,
            tell: { [weak self] event in self?.say(entry.dir, event) }, onChange: { [waker] in waker.wake() })
        else { return }
        workers[entry.dir] = worker
      }
    }
  }

  private func say(_ dir: PathBytes, _ event: MachineWatchEvent) { tellLock.withLock { _ in tell(dir, event) } }

  /// Lets go of folders whose watch ended by itself. Answers whether one did.
  private func forgetEnded() -> Bool {
    let over = workers.withLock { workers in
      let over = workers.filter { $0.value.isOver }
      for dir in over.keys { workers[dir] = nil }
      return over
    }
    for worker in over.values { worker.end() }
    return !over.isEmpty
  }

  private func letGo() {
    let all = workers.withLock { workers in
      defer { workers = [:] }
      return Array(workers.values)
    }
    for worker in all { worker.askToEnd() }
    for worker in all { worker.end() }
  }

  private func state() -> MachineWatchState {
    workers.withLock { workers in
      var state = MachineWatchState()
      for worker in workers.values {
        switch worker.stage {
        case .starting: state.starting += 1
        case .watched: state.watched += 1
        case .failed: state.failed += 1
        }
        if worker.stage == .watched {
          if worker.isPaused { state.paused += 1 }
          if worker.isUnreachable { state.unreachable += 1 }
        }
      }
      return state
    }
  }
}

/// How far a folder's watch has come, for a watchdog (N3.3): each look at its flag between steps counts.
package final class WatchProgress: Sendable {
  /// What a pass looks at between its steps.
  package let passStop = StopFlag()
  private let isBusy = Atomic<Bool>(false)
  private let seen = Mutex<(looks: Int, at: UInt64)?>(nil)

  /// Nothing is under way.
  package init() {}

  /// A pass begins, or ended.
  package func works(_ busy: Bool) { isBusy.store(busy, ordering: .releasing) }

  /// Whether it waits, or took a step within the last minute.
  func movesOn(_ now: UInt64) -> Bool {
    let looks = passStop.looks
    return seen.withLock { seen in
      guard isBusy.load(ordering: .acquiring) else {
        seen = nil
        return true
      }
      guard let before = seen, before.looks == looks else {
        seen = (looks, now)
        return true
      }
      return now &- before.at < 60_000_000_000
    }
  }
}
