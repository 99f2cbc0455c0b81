import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

@testable import marfa_folders

/// A watch of a folder in memory: the real loop, engine and server on one thread, over a clock that moves only where the
/// loop waits. What a person, another device or another process does stands in a script of times; notifications tell what
/// inotify would.
///
///     let watch = ScriptedWatch(folder)
///     watch.at(5) { try folder.disk.write(folder.path("a.md"), "A.\n") }
///     try watch.run(seconds: 10)
///     #expect(watch.passes.count == 2)
final class ScriptedWatch {
  let folder: KeptFolder
  let notifications: ScriptedNotifications
  let wait: ScriptedWait
  /// Notifications tell nothing (W6, a network file system).
  var isDeaf = false
  /// What the folder is stored on.
  var storage: JSON = .null
  /// What wraps the disk.
  var files: ((any FileSystem) -> any FileSystem)?
  private(set) var events: [(at: Double, event: WatchEvent)] = []
  private(set) var words: [String] = []
  private(set) var errorWords: [String] = []
  /// What ended it.
  private(set) var ended: MarfaError?
  private var news: [StreamNews] = []
  private var script: [(time: UInt64, order: Int, act: () throws -> Void)] = []
  private var seen: [PathBytes: FileStatus] = [:]
  private var rootWasThere = true
  private let start: UInt64
  private let passStop = StopFlag()
  private var failures: [any Error] = []
  private var asks: [any LockFile] = []

  init(_ folder: KeptFolder) {
    self.folder = folder
    wait = ScriptedWait(clock: folder.bench.clock)
    notifications = ScriptedNotifications()
    // Every time of a folder made in this moment is over two seconds old, as in a watch started later (X24.3).
    folder.bench.clock.advance(seconds: 10)
    start = folder.bench.clock.monotonic
  }

  // MARK: The script

  /// Does something so many seconds after the start.
  func at(_ seconds: Double, _ act: @escaping () throws -> Void) {
    script.append((start + UInt64(seconds * 1_000_000_000), script.count, act))
    script.sort { ($0.time, $0.order) < ($1.time, $1.order) }
  }

  /// Saves a file in place.
  func save(_ path: String, _ text: String, at seconds: Double) {
    at(seconds) { [folder] in try folder.disk.write(folder.path(path), text) }
  }

  /// Another device changes something, and the stream tells of it.
  func server(at seconds: Double, _ act: @escaping (FolderBench) throws -> Void) {
    at(seconds) { [self] in
      try act(folder.bench)
      news.append(.changed)
    }
  }

  /// The server can't be reached, and the stream says so or does not.
  func away(at seconds: Double, until back: Double) {
    at(seconds) { [self] in
      folder.bench.goOffline()
      news.append(.unreachable("nothing listens"))
    }
    at(back) { [self] in
      folder.bench.goOnline()
      news.append(.reachable)
    }
  }

  /// Another process asks for the folder, works it once the watch let go, and lets it go after so long.
  func borrow(
    at seconds: Double, for length: Double = 1, _ command: String = "push", _ work: @escaping () throws -> Void
  ) {
    var ask: (any LockFile)?
    var claim: WriterClaim?
    askerPid = 9_000 + Int32(script.count)
    let files = MemoryFileSystem(folder.disk, pid: askerPid)
    func state() throws -> any Directory { try files.openDirectory(folder.path(".marfa")) }
    at(seconds) { [passStop, wait] in
      let file = try #require(try files.lockFile("core.handover", in: try state(), create: true))
      try #require(try file.lock(.exclusive, wait: false))
      let line: JSON = ["pid": .int(Int(files.writer.pid)), "command": .string(command), "asked_at": ""]
      try file.replaceContents(line.write())
      ask = file
      passStop.set(.handOver)
      wait.wake()
    }
    at(seconds + 0.5) {
      guard case .taken(let taken) = try WriterClaim.attempt(in: try state(), files: files) else {
        throw BenchError("the watch did not let go")
      }
      claim = taken
      try work()
    }
    at(seconds + 0.5 + length) {
      claim?.release()
      try ask?.replaceContents([])
      ask?.unlock()
    }
  }

  /// The process of the last asker.
  private(set) var askerPid: Int32 = 0

  /// Another process asks for the folder, and nothing more.
  func ask(at seconds: Double, _ command: String = "push") {
    askerPid = 9_000 + Int32(script.count)
    let files = MemoryFileSystem(folder.disk, pid: askerPid)
    at(seconds) { [self] in
      let state = try files.openDirectory(folder.path(".marfa"))
      let file = try #require(try files.lockFile("core.handover", in: state, create: true))
      try #require(try file.lock(.exclusive, wait: false))
      let line: JSON = ["pid": .int(Int(files.writer.pid)), "command": .string(command), "asked_at": ""]
      try file.replaceContents(line.write())
      asks.append(file)
      passStop.set(.handOver)
      wait.wake()
    }
  }

  // MARK: Running

  /// Runs until so many seconds are over, or it ends by itself. A failure of the script fails the test.
  @discardableResult
  func run(seconds: Double) throws -> MarfaError? {
    let clock = folder.bench.clock
    seen = look()
    wait.beforeWait = { [self] in noteChanges() }
    wait.due = { [self] limit in
      guard let next = script.first, next.time <= limit else { return nil }
      return next.time
    }
    wait.act = { [self] in
      while let next = script.first, next.time <= clock.monotonic {
        script.removeFirst()
        do { try next.act() } catch { failures.append(error) }
        noteChanges()
      }
    }
    var context = folder.folders.context
    context.scheduler = ScriptedScheduler(wait: wait)
    if let files { context.files = files(context.files) }
    let made = folder.folders
    var folders = Folders(
      context: context, registry: made.registry, endpoint: made.endpoint, door: made.door, stop: StopFlag(), uid: 1000)
    folders.storage = { [storage] _ in storage }
    var lines = WatchWords()
    do throws(MarfaError) {
      try folders.watch(
        folder.root,
        with: WatchParts(
          notifications: notifications, waker: wait, passStop: passStop,
          news: { [self] in
            defer { news = [] }
            return news
          }), for: seconds
      ) { [self] event in
        events.append((Double(clock.monotonic - start) / 1_000_000_000, event))
        for line in lines.lines(event) {
          if line.isError { errorWords.append(line.words) } else { words.append(line.words) }
        }
      }
    } catch { ended = error }
    if let first = failures.first { throw first }
    return ended
  }

  /// What inotify would have told since it was last looked at.
  private func noteChanges() {
    guard folder.disk.status(folder.path(".marfa")) != nil else {
      if rootWasThere, !isDeaf { notifications.noted.rootMoved = true }
      rootWasThere = false
      return
    }
    rootWasThere = true
    let now = look()
    defer { seen = now }
    guard !isDeaf else { return }
    for path in Set(now.keys).union(seen.keys) where now[path] != seen[path] {
      if path == ".marfa/folder.yaml" {
        notifications.noted.settings = true
      } else if !PathBytes(".marfa").contains(path) {
        notifications.noted.paths[path] = folder.bench.clock.monotonic
        notifications.noted.directories.insert(path.parent)
      }
    }
  }

  private func look() -> [PathBytes: FileStatus] {
    var found: [PathBytes: FileStatus] = [:]
    for file in folder.disk.tree(folder.root) {
      found[file.path] = folder.disk.status(folder.root.appending(file.path))
    }
    return found
  }

  // MARK: What it told

  /// The names of its events, in order.
  var names: [String] { events.compactMap { $0.event.json["event"]?.text?.string } }
  /// The passes it told.
  var passes: [WatchPass] {
    events.compactMap { if case .passed(let pass, _) = $0.event { pass } else { nil } }
  }
  func count(_ name: String) -> Int { names.count { $0 == name } }
  /// How many lines hold these words.
  func said(_ part: String) -> Int { (words + errorWords).count { $0.contains(part) } }
  /// A count of a part of its passes, summed.
  func sum(_ part: KeyPath<WatchPass, JSON>, _ name: Text) -> Int {
    passes.map { $0[keyPath: part][name]?.int ?? 0 }.reduce(0, +)
  }
}

/// Notifications a script makes.
final class ScriptedNotifications: Notifications, @unchecked Sendable {
  // Unchecked: everything of a scripted watch runs on one thread.
  var noted = NotedChanges()
  var isTrusted = true
  /// How often everything was watched anew.
  private(set) var rescans = 0

  func start() throws(FileError) {}
  func take() -> NotedChanges {
    defer { noted = NotedChanges() }
    return noted
  }
  func enter(_ decides: @escaping @Sendable (PathBytes) -> Bool) {}
  func rescan() { rescans += 1 }
  func close() {}
}

/// Waits by moving the clock to the next thing that happens.
final class ScriptedWait: WatchWait, @unchecked Sendable {
  // Unchecked: everything of a scripted watch runs on one thread.
  let clock: ManualClock
  var beforeWait: () -> Void = {}
  /// When the script's next act is due, if not after that time.
  var due: (UInt64) -> UInt64? = { _ in nil }
  var act: () -> Void = {}
  /// The machine slept, or its clock was set.
  var jumped = false
  private var isWoken = false
  /// How often the loop waited.
  private(set) var waits = 0

  init(clock: ManualClock) { self.clock = clock }

  func wake() { isWoken = true }

  func wait(until time: UInt64?) {
    waits += 1
    beforeWait()
    if isWoken {
      isWoken = false
      return
    }
    move(to: time ?? .max)
  }

  /// To that time, or to the script's next act before it, which is done.
  func move(to time: UInt64) {
    let now = clock.monotonic
    if let due = due(time) {
      if due > now { clock.advance(nanoseconds: due - now) }
      act()
    } else if time != .max, time > now {
      clock.advance(nanoseconds: time - now)
    } else if time == .max {
      clock.advance(seconds: 3600)  // Nothing will happen: the end of the run does.
    }
  }

  func timeJumped() -> Bool {
    defer { jumped = false }
    return jumped
  }
}

/// Sleeps of the engine that let the script go on.
struct ScriptedScheduler: Scheduler {
  let wait: ScriptedWait

  @discardableResult
  func wait(nanoseconds: UInt64, unless stop: StopFlag) -> Bool {
    let end = wait.clock.monotonic + nanoseconds
    while !stop.isSet, wait.clock.monotonic < end { wait.move(to: end) }
    return !stop.isSet
  }
}
