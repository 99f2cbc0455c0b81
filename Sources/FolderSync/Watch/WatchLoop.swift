import MarfaBase
import MarfaCopy

/// The loop of one folder's watch (H, W, C17): waits for the disk, the server, a time or an asker, runs a pass, tells what
/// happened. One thread; what other threads hear reaches it by `Waker` and `StopFlag`.
package final class WatchLoop {
  private let source: any WatchedFolderSource
  private let notifications: any Notifications
  private let waker: any WatchWait
  private let clock: any Clock
  private let scheduler: any Scheduler
  /// The person's stop.
  private let stop: StopFlag
  /// What a pass looks at between its steps: the person's stop, or somebody asking for the folder (H12).
  private let passStop: StopFlag
  private let serverNews: () -> [StreamNews]
  private let works: (Bool) -> Void
  private let isOver: () -> Bool
  private let tell: (WatchEvent) -> Void

  private var schedule = PassSchedule()
  private var notices = StandingNotices()
  private var pending = NotedChanges()
  private var saysUnreachable = false
  private var saysRetrying = false
  private var saysChanging = false
  private var saysWaiting = false
  private var fillWait = 1
  /// Until then a fill that failed is not tried again, whatever changes (F40.5).
  private var fillRetry: UInt64?
  private var nextLimitTry: UInt64?

  /// What one round ended with.
  private enum Round {
    case goOn
    case ended
  }

  /// A loop over these parts.
  /// - Parameters:
  ///   - stop: the person's; `passStop` is set with it, and by who hears an asker.
  ///   - serverNews: takes what the server's stream told since the last call.
  ///   - tell: told each event on the loop's thread.
  package init(
    source: any WatchedFolderSource, notifications: any Notifications, waker: any WatchWait, context: Context,
    stop: StopFlag,
    passStop: StopFlag, serverNews: @escaping () -> [StreamNews], works: @escaping (Bool) -> Void = { _ in },
    isOver: @escaping () -> Bool = { false },
    tell: @escaping (WatchEvent) -> Void
  ) {
    self.source = source
    self.notifications = notifications
    self.waker = waker
    clock = context.clock
    scheduler = context.scheduler
    self.stop = stop
    self.passStop = passStop
    self.serverNews = serverNews
    self.works = works
    self.isOver = isOver
    self.tell = tell
  }

  /// Watches until stopped, removed, unlisted, or until `seconds` after `watching` are over.
  /// - Throws: what ends it by error (H16): `reading_handle` at once where another process holds the folder.
  package func run(for seconds: Double?) throws(MarfaError) {
    var folder: any WatchedFolder
    var opening = try source.open()
    if case .paused = opening {
      guard let over = try waitForPause(opening) else { return }
      opening = over
    }
    switch opening {
    case .held(let held): folder = held
    case .paused: return
    case .heldElsewhere:
      throw MarfaError(
        .readingHandle,
        "one process works a folder at a time, and another one, such as a running watch, holds \(source.root)")
    case .removed: throw MarfaError(.invalid, "\(source.root) is no folder; `add` makes it one")
    case .unreadable(let reason): throw MarfaError(.invalid, reason)
    }
    notifications.enter(folder.entersDirectory())
    do throws(FileError) { try notifications.start() } catch {
      folder.close()
      throw MarfaError(.watch, "the directory \(source.root) cannot be watched: \(error.reason)")
    }
    defer { notifications.close() }
    tell(.watching(directory: source.root.description, storage: source.storage))
    let end = seconds.map { clock.monotonic &+ UInt64($0 * 1_000_000_000) }
    do throws(MarfaError) {
      while true {
        if stop.isSet || end.map({ clock.monotonic >= $0 }) == true { break }
        if source.asker() != nil {
          guard let back = try handOver(folder, until: end) else { return }
          folder = back
          continue
        }
        passStop.clearHandOver()
        if waker.timeJumped() {
          folder.restartGraces()
          schedule.missedSomething()
        }
        takeNews()
        let now = clock.monotonic
        let due = schedule.due(now: now).map { max($0, fillRetry ?? 0) }
        if let due, due <= now {
          guard try runPass(folder) == .goOn, !isOver() else { break }
          continue
        }
        var until = [due, end, nextLimitTry].compactMap { $0 }.min()
        if !isTrusted { until = min(until ?? .max, now &+ 250_000_000) }
        waker.wait(until: until)
      }
    } catch {
      folder.close()
      throw error
    }
    folder.close()
  }

  private var isTrusted: Bool { source.notificationsCanBeTrusted && notifications.isTrusted }

  // MARK: - News

  private func takeNews() {
    let noted = notifications.take()
    if let limit = noted.limit {
      tell(.watcherFailed(message: limit))
      nextLimitTry = clock.monotonic &+ 60_000_000_000
    }
    if let time = nextLimitTry, clock.monotonic >= time {
      notifications.rescan()
      nextLimitTry = notifications.isTrusted ? nil : time &+ 60_000_000_000
    }
    if noted.overflowed {
      notifications.rescan()
      schedule.missedSomething()
    }
    if noted.settings { schedule.changed(at: clock.monotonic) }
    if noted.rootMoved { schedule.missedSomething() }
    for (path, time) in noted.paths {
      let isHidden = path.components.contains { $0.bytes.first == UInt8(ascii: ".") }
      if isHidden { schedule.hiddenChanged(at: time) } else { schedule.changed(at: time) }
    }
    pending.paths.merge(noted.paths) { max($0, $1) }
    pending.directories.formUnion(noted.directories)
    pending.settings = pending.settings || noted.settings
    for item in serverNews() {
      switch item {
      case .reachable:
        // What waited is sent, and what passed meanwhile taken, by a pass (F52.2).
        if saysUnreachable { schedule.serverMoved() }
      case .changed: schedule.serverMoved()
      case .unreachable(let reason): sayUnreachable(reason)
      }
    }
  }

  // MARK: - A pass

  private func runPass(_ folder: any WatchedFolder) throws(MarfaError) -> Round {
    let began = clock.monotonic
    let kind = schedule.begin(now: began)
    let changes = pending
    pending = NotedChanges()
    let outcome: WatchPassOutcome
    works(true)
    defer { works(false) }
    do throws(MarfaError) {
      outcome = try folder.pass(reading: kind == .reading, changes: changes, trusted: isTrusted)
    } catch {
      // Asked to let go, or stopped, in the middle of a step: what was done stands, the next pass reads everything.
      guard error.code == .canceled else { throw error }
      schedule.ended(kind, began: began, now: clock.monotonic, completed: false, trusted: isTrusted)
      return .goOn
    }
    schedule.ended(kind, began: began, now: clock.monotonic, completed: outcome.completed, trusted: isTrusted)
    for time in outcome.reminders { schedule.remind(at: time) }
    if let gone = outcome.rootGone { return waitForRoot(gone) }
    if saysWaiting {
      saysWaiting = false
      notifications.rescan()
      schedule.missedSomething()
    }
    if let error = outcome.fillFailed {
      let seconds = max(fillWait, min(300, error.retryAfter ?? 0))
      if !saysRetrying { tell(.retrying(error, waitSeconds: seconds)) }
      saysRetrying = true
      fillWait = min(30, fillWait * 2)
      let time = clock.monotonic &+ UInt64(seconds) * 1_000_000_000
      fillRetry = time
      schedule.remind(at: time)
      return .goOn
    }
    fillWait = 1
    fillRetry = nil
    saysRetrying = false
    if let reason = outcome.copyChanging {
      if !saysChanging { tell(.copyChanging(reason: reason)) }
      saysChanging = true
      schedule.remind(at: clock.monotonic &+ PassSchedule.idleAge)
    } else {
      saysChanging = false
    }
    if let error = outcome.unreachable {
      sayUnreachable(error.message)
    } else if saysUnreachable {
      saysUnreachable = false
      tell(.reachable(server: source.server))
    }
    notifications.enter(folder.entersDirectory())
    if let pass = outcome.pass, let changed = notices.judge(pass) { tell(.passed(pass, standing: changed)) }
    if let error = outcome.ends { throw error }
    return .goOn
  }

  private func sayUnreachable(_ reason: String) {
    guard !saysUnreachable else { return }
    saysUnreachable = true
    tell(.unreachable(server: source.server, reason: reason))
  }

  /// F22.6, W8: says so once, looks again every second, and ends `unlisted` where a `remove` took it off the list (H6).
  private func waitForRoot(_ gone: (settings: JSON, scan: JSON)) -> Round {
    if !saysWaiting { tell(.waiting(settings: gone.settings, scan: gone.scan)) }
    saysWaiting = true
    let isOver =
      switch source.listing() {
      case .replaced: true
      // An empty directory in its place, as an unmounted volume leaves, drops the entry too: the folder may come back, and
      // is listed again then (F41.6). Only a `remove` drops the entry of a directory that is gone.
      case .missing: source.directoryIsGone
      case .listed, .unknown: false
      }
    if isOver {
      tell(.unlisted)
      return .ended
    }
    schedule.remind(at: clock.monotonic &+ 1_000_000_000)
    return .goOn
  }

  // MARK: - Pausing

  /// Waits for the end of a pause, holding nothing (P5.4). Answers what opening the folder gives then; nil where the watch
  /// ends first.
  private func waitForPause(
    _ opening: WatchedOpening, until end: UInt64? = nil
  ) throws(MarfaError) -> WatchedOpening? {
    var opening = opening
    var told: FolderPause?
    while case .paused(let pause) = opening {
      if pause != told { tell(.paused(pause)) }
      told = pause
      if stop.isSet || end.map({ clock.monotonic >= $0 }) == true { return nil }
      // `resume` touches the ask's file, which wakes this; where that is not heard it is looked at again.
      let left = pause.until.map { clock.span(milliseconds: max(50, $0.milliseconds - clock.now.milliseconds)) }
      waker.wait(until: min(end ?? .max, clock.monotonic &+ min(left ?? .max, 10_000_000_000)))
      passStop.clearHandOver()
      guard source.waitUntilNobodyAsks(stop: stop), !stop.isSet else { return nil }
      opening = try source.open()
    }
    if case .held = opening { tell(.resumed) }
    return opening
  }

  // MARK: - Handing over

  /// What became of a try to take the folder back; a disk that does not answer is looked at again (H16).
  private func openAgain() throws(MarfaError) -> WatchedOpening {
    do throws(MarfaError) { return try source.open() } catch {
      guard error.code == .io else { throw error }
      return .unreadable(reason: error.message)
    }
  }

  /// Lets the folder go to who asks, and takes it back (H4 to H6, H14). Nil where the watch ends.
  private func handOver(_ folder: any WatchedFolder, until end: UInt64?) throws(MarfaError) -> (any WatchedFolder)? {
    guard let asker = source.namedAsker(stop: stop) else { return folder }
    folder.close()
    // A pause is told as that.
    let pauses = asker.command == "pause"
    if !pauses { tell(.handedOver(to: asker.command?.string, pid: asker.pid)) }
    var saysElsewhere = false
    while true {
      passStop.clearHandOver()
      guard source.waitUntilNobodyAsks(stop: stop), !stop.isSet else { return nil }
      if let end, clock.monotonic >= end { return nil }
      var opening = try openAgain()
      let wasPaused = if case .paused = opening { true } else { false }
      if wasPaused {
        guard let over = try waitForPause(opening, until: end) else { return nil }
        opening = over
      }
      switch opening {
      case .paused: return nil
      case .held(let back):
        // Let go to a `remove` that was cut short, or listed elsewhere meanwhile (H6); an entry missing for any other
        // reason is listed again (F41.6).
        let isOver =
          switch source.listing() {
          case .replaced: true
          case .missing: asker.command == "remove"
          case .listed, .unknown: false
          }
        if isOver {
          back.close()
          tell(.unlisted)
          return nil
        }
        if !pauses, !wasPaused { tell(.takenBack) }
        notifications.rescan()
        notifications.enter(back.entersDirectory())
        schedule.missedSomething()
        return back
      case .heldElsewhere:
        if !saysElsewhere { tell(.heldElsewhere(pid: nil)) }
        saysElsewhere = true
      case .removed:
        tell(.removed)
        return nil
      case .unreadable:
        switch source.listing() {
        case .missing, .replaced:
          tell(.unlisted)
          return nil
        case .listed, .unknown: break
        }
      }
      scheduler.wait(nanoseconds: 1_000_000_000, unless: stop)
    }
  }
}
