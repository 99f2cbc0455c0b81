import Glibc
import MarfaBase
import MarfaCopy

extension Folders {
  /// Keeps a folder in step until stopped, removed or unlisted, or until `seconds` after it says `watching` are over
  /// (C17, H). Blocks the calling thread, on which `tell` is called.
  /// - Throws: what ends a watch by error (H16); `reading_handle` at once where another process holds the folder.
  package func watch(
    _ dir: PathBytes, for seconds: Double? = nil, progress: WatchProgress = WatchProgress(),
    tell: @escaping (WatchEvent) -> Void
  ) throws(MarfaError) {
    let found: PathBytes
    do { found = try root(of: dir) } catch { throw MarfaError(any: error) }
    let passStop = progress.passStop
    let waker: Waker
    let listening: ServerListening
    let notifications: InotifyNotifications
    do throws(FileError) {
      let made = try Waker(clock: context.clock)
      waker = made
      listening = try ServerListening(context: context, waker: made, hub: hub)
      let (files, fallback) = (context.files, locks(of: found))
      notifications = try InotifyNotifications(
        root: found, clock: context.clock, onChange: { made.wake() },
        onAsk: {
          // On the notifications' thread, so that a pass under way hears it too (H10, H12).
          guard let state = try? files.openDirectory(found.appending(stateDirectoryName)),
            HandOverHearing(in: state, files: files, fallback: fallback).asker() != nil
          else { return }
          passStop.set(.handOver)
          made.wake()
        })
      try listening.start()
    } catch {
      throw MarfaError(.watch, "the directory \(found) cannot be watched: \(error.reason)")
    }
    defer { listening.close() }
    try watch(
      found,
      with: WatchParts(
        notifications: notifications, waker: waker, passStop: passStop, news: { listening.take() },
        stand: { listening.stand(at: $0) }, works: { progress.works($0) }), for: seconds, tell: tell)
  }

  /// The same over parts of the caller's: the loop itself, on the calling thread.
  /// - Parameter root: the directory, resolved.
  package func watch(
    _ root: PathBytes, with parts: WatchParts, for seconds: Double? = nil, tell: @escaping (WatchEvent) -> Void
  ) throws(MarfaError) {
    let (passStop, waker) = (parts.passStop, parts.waker)
    let token = stop.onSet {
      passStop.set(.stopped)
      waker.wake()
    }
    defer { stop.forget(token) }
    var folders = Folders(
      context: context, registry: registry, endpoint: endpoint, credentials: credentials, door: door, stop: passStop,
      uid: uid)
    folders.spares = spares
    folders.stateHome = stateHome
    folders.traits = traits
    let source = FolderWatchSource(folders: folders, root: root, storage: storage(root), stand: parts.stand)
    try WatchLoop(
      source: source, notifications: parts.notifications, waker: waker, context: context, stop: stop,
      passStop: passStop, serverNews: parts.news, works: parts.works, isOver: isOver, tell: tell
    ).run(for: seconds)
  }
}

/// What a watch hears by: threads of its own in a process, a script in a test.
package struct WatchParts {
  /// What tells of the disk.
  package var notifications: any Notifications
  /// Where the loop waits.
  package var waker: any WatchWait
  /// What a pass looks at between its steps; set by who hears an asker (H12).
  package var passStop: StopFlag
  /// Takes what the server's stream told since the last call.
  package var news: () -> [StreamNews]
  /// Tells whoever holds the stream where the copy stands after a pass.
  package var stand: (StreamPlace?) -> Void
  /// Told that a pass begins, and that it ended.
  package var works: (Bool) -> Void

  /// These parts.
  package init(
    notifications: any Notifications, waker: any WatchWait, passStop: StopFlag, news: @escaping () -> [StreamNews],
    stand: @escaping (StreamPlace?) -> Void = { _ in }, works: @escaping (Bool) -> Void = { _ in }
  ) {
    self.notifications = notifications
    self.waker = waker
    self.passStop = passStop
    self.news = news
    self.stand = stand
    self.works = works
  }
}

/// Takes one folder for a watch, without asking (H3).
final class FolderWatchSource: WatchedFolderSource {
  let root: PathBytes
  let storage: JSON
  private let folders: Folders
  private let stand: (StreamPlace?) -> Void
  private let memory: WatchMemory
  private var hearing: HandOverHearing?
  /// The store the watch began with; another one is another folder (H14).
  private var storeID: Text?

  init(folders: Folders, root: PathBytes, storage: JSON, stand: @escaping (StreamPlace?) -> Void) {
    self.folders = folders
    self.root = root
    self.storage = storage
    self.stand = stand
    memory = WatchMemory(clock: folders.context.clock)
  }

  var server: String { folders.endpoint?.origin ?? "the server" }

  var notificationsCanBeTrusted: Bool { Storage(json: storage)?.cause.isToldOfEveryChange ?? true }

  func open() throws(MarfaError) -> WatchedOpening {
    let look = DirectoryLook.at(root, folders.context.files)
    switch look.state {
    case .noFolder where folders.awaitsVolume(look):
      return .unreadable(reason: "the volume of the folder \(root) is not mounted")
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
    if let pause = FolderPause.standing(in: state, folders.context.files, now: folders.context.clock.now) {
      return .paused(pause)
    }
    let fallback = folders.locks(of: root)
    hearing = HandOverHearing(in: state, files: folders.context.files, fallback: fallback)
    attempt = try WriterClaim.attempt(in: state, files: folders.context.files, fallback: fallback)
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
        engine.memory = memory
        return .held(HeldFolder(engine: engine, claim: claim, memory: memory, stand: stand))
      } catch {
        claim.release()
        throw MarfaError(any: error)
      }
    }
  }

  func listing() -> FolderListing {
    guard let registry = folders.registry, registry.fileIsThere, let entries = try? registry.entries() else {
      return .unknown
    }
    func isOurs(_ entry: RegistryEntry) -> Bool {
      guard let store = entry.store, let storeID else { return true }
      return store == storeID
    }
    if let here = entries.first(where: { $0.dir == root }) { return isOurs(here) ? .listed : .replaced }
    return entries.contains { $0.store != nil && $0.store == storeID } ? .replaced : .missing
  }

  var directoryIsGone: Bool {
    do throws(FileError) { return try folders.context.files.status(root) == nil } catch {
      return error.code == ENOENT || error.code == ENOTDIR
    }
  }

  func asker() -> HandOver.Asker? { hearing?.asker() }

  func namedAsker(stop: StopFlag) -> HandOver.Asker? {
    hearing?.namedAsker(folders.context.scheduler, stop: stop)
  }

  func waitUntilNobodyAsks(stop: StopFlag) -> Bool {
    hearing?.waitUntilFree(folders.context.scheduler, stop: stop) ?? true
  }
}
