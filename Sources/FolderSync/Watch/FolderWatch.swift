import Glibc
import MarfaBase
import MarfaCopy

extension Folders {
  /// Keeps a folder in step until stopped, removed or unlisted, or until `seconds` after it says `watching` are over
  /// (C17, H). Blocks the calling thread, on which `tell` is called.
  /// - Throws: what ends a watch by error (H16); `reading_handle` at once where another process holds the folder.
  package func watch(
    _ dir: PathBytes, for seconds: Double? = nil, tell: @escaping (WatchEvent) -> Void
  ) throws(MarfaError) {
    let found: PathBytes
    do { found = try root(of: dir) } catch { throw MarfaError(any: error) }
    let passStop = StopFlag()
    stop.onSet { passStop.set(.stopped) }
    let folders = Folders(
      context: context, registry: registry, endpoint: endpoint, credentials: credentials, door: door, stop: passStop)
    let waker: Waker
    let listening: ServerListening
    let notifications: InotifyNotifications
    do throws(FileError) {
      let made = try Waker(clock: context.clock)
      waker = made
      stop.onSet { made.wake() }
      listening = try ServerListening(context: context, waker: made)
      let files = context.files
      notifications = try InotifyNotifications(
        root: found, clock: context.clock, onChange: { made.wake() },
        onAsk: {
          // On the notifications' thread, so that a pass under way hears it too (H10, H12).
          guard let state = try? files.openDirectory(found.appending(stateDirectoryName)),
            HandOverHearing(in: state, files: files).asker() != nil
          else { return }
          passStop.set(.handOver)
          made.wake()
        })
      try listening.start()
    } catch {
      throw MarfaError(.watch, "the directory \(found) cannot be watched: \(error.reason)")
    }
    defer { listening.close() }
    let source = FolderWatchSource(folders: folders, root: found, storage: storage(found), listening: listening)
    try WatchLoop(
      source: source, notifications: notifications, waker: waker, context: context, stop: stop, passStop: passStop,
      serverNews: { listening.take() }, tell: tell
    ).run(for: seconds)
  }
}

/// Takes one folder for a watch, without asking (H3).
final class FolderWatchSource: WatchedFolderSource {
  let root: PathBytes
  let storage: JSON
  private let folders: Folders
  private let listening: ServerListening
  private var hearing: HandOverHearing?
  /// The store the watch began with; another one is another folder (H14).
  private var storeID: Text?

  init(folders: Folders, root: PathBytes, storage: JSON, listening: ServerListening) {
    self.folders = folders
    self.root = root
    self.storage = storage
    self.listening = listening
  }

  var server: String { folders.endpoint?.origin ?? "the server" }

  var notificationsCanBeTrusted: Bool {
    switch storage["cause"]?.text?.string {
    case "network_file_system", "host_share", "user_file_system": false
    default: true
    }
  }

  func open() throws(MarfaError) -> WatchedOpening {
    let look = DirectoryLook.at(root, folders.context.files)
    switch look.state {
    case .noFolder: return .removed
    case .unknown: return .unreadable(reason: "the directory \(root) cannot be found or read")
    case .folder: break
    }
    let state: any Directory
    let attempt: WriterClaim.Attempt
    do throws(FileError) {
      state = try folders.context.files.openDirectory(root.appending(stateDirectoryName))
    } catch {
      return error.code == ENOENT ? .removed : .unreadable(reason: error.description)
    }
    hearing = HandOverHearing(in: state, files: folders.context.files)
    attempt = try WriterClaim.attempt(in: state, files: folders.context.files)
    switch attempt {
    case .held: return .heldElsewhere
    case .noFolder: return .removed
    case .taken(let claim):
      do {
        let engine = try folders.open(root, role: .writer)
        let id = try engine.copy.storeID()
        if let storeID, id != storeID {
          claim.release()
          return .removed
        }
        storeID = id
        if try engine.store.firstSyncWaits { throw FolderEngine.firstSyncWaiting(root) }
        return .held(HeldFolder(engine: engine, claim: claim, listening: listening))
      } catch {
        claim.release()
        throw MarfaError(any: error)
      }
    }
  }

  func isListed() -> Bool? {
    guard let registry = folders.registry, registry.fileIsThere, let entries = try? registry.entries() else {
      return nil
    }
    return entries.contains { $0.dir == root }
  }

  func asker() -> HandOver.Asker? { hearing?.asker() }

  func namedAsker(stop: StopFlag) -> HandOver.Asker? {
    hearing?.namedAsker(folders.context.scheduler, stop: stop)
  }

  func waitUntilNobodyAsks(stop: StopFlag) -> Bool {
    hearing?.waitUntilFree(folders.context.scheduler, stop: stop) ?? true
  }
}

/// A folder the watch works now: its claim, and the engine over its store.
final class HeldFolder: WatchedFolder {
  private var engine: FolderEngine?
  private let claim: WriterClaim
  private let listening: ServerListening

  init(engine: FolderEngine, claim: WriterClaim, listening: ServerListening) {
    self.engine = engine
    self.claim = claim
    self.listening = listening
  }

  func entersDirectory() -> @Sendable (PathBytes) -> Bool {
    guard let lists = try? engine?.facts().lists else { return { _ in true } }
    return { lists.enters(directory: $0) }
  }

  func pass(reading: Bool, changes: NotedChanges) throws(MarfaError) -> WatchPassOutcome {
    var outcome = WatchPassOutcome()
    guard let engine else { return outcome }
    do {
      let push = try engine.sync(quick: !reading, isWatch: true)
      if push.scan.rootGone != nil {
        outcome.rootGone = (push.settings.json, push.scan.json)
        return outcome
      }
      listening.stand(at: try engine.copy.streamPlace())
      outcome.pass = WatchPass(
        isReading: reading, settings: push.settings.json, scan: push.scan.json, drain: push.drain.json,
        pull: push.pull?.json ?? .null)
      outcome.unreachable = push.catchUp.failed
      remind(of: push, engine, in: &outcome)
      if push.drain.drain.stopped != nil { outcome.ends = Self.refused(engine) }
    } catch {
      let error = MarfaError(any: error)
      switch error.code {
      case .canceled: throw error
      case .streamIncomplete where error.message.contains("local_copy_changed"): outcome.copyChanging = error.message
      case .unauthorized, .signedOut: throw Self.explained(error)
      default:
        guard error.isEnvironmental else { throw error }
        outcome.fillFailed = error
      }
    }
    return outcome
  }

  /// What waits on time: a journaled delete's grace, a settling file, the server's wait.
  private func remind(of push: FolderPush, _ engine: FolderEngine, in outcome: inout WatchPassOutcome) {
    let now = engine.context.clock.monotonic
    if push.scan.missing > 0 { outcome.reminders.append(now &+ 5_050_000_000) }
    if !push.scan.settling.isEmpty {
      // One held open for long is looked at less often: its close is told anyway.
      let isFresh =
        engine.beingWritten.values.contains { now < $0.since &+ 1_000_000_000 } || engine.beingWritten.isEmpty
      outcome.reminders.append(now &+ (isFresh ? PassSchedule.settleWindow : 1_000_000_000))
    }
    if let due = push.pull?.linesDue {
      let wait = max(50, due.milliseconds - engine.now.milliseconds)
      outcome.reminders.append(now &+ UInt64(wait) * 1_000_000)
    }
    let drain = push.drain.drain
    if drain.undelivered > 0 || push.catchUp.failed != nil {
      let seconds = max(2, min(300, drain.retryAfterSeconds ?? push.catchUp.failed?.retryAfter ?? 0))
      outcome.reminders.append(now &+ UInt64(seconds) * 1_000_000_000)
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
