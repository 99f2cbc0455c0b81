import Glibc
import MarfaBase
import MarfaCopy
import Synchronization
import Testing
import TestSupport

@testable import FolderSync

private func taken(_ attempt: WriterClaim.Attempt) -> WriterClaim? {
  if case .taken(let claim) = attempt { claim } else { nil }
}

/// A claim that is over 10 s away on a clock that waits move on.
private struct Folder {
  let clock = ManualClock()
  let scheduler: ManualScheduler
  let disk: MemoryDisk

  init(features: MemoryDisk.Features = .init()) throws {
    scheduler = ManualScheduler(clock: clock)
    disk = MemoryDisk(clock: clock, features: features)
    try disk.makeDirectory("/n/.marfa")
  }

  func handOver(_ pid: Int32) -> HandOver {
    HandOver(root: "/n", files: MemoryFileSystem(disk, pid: pid), clock: clock, scheduler: scheduler)
  }

  func state(_ pid: Int32) throws -> any Directory { try MemoryFileSystem(disk, pid: pid).openDirectory("/n/.marfa") }

  func claim(_ pid: Int32) throws -> WriterClaim? {
    try taken(WriterClaim.attempt(in: state(pid), files: MemoryFileSystem(disk, pid: pid)))
  }
}

@Suite struct ClaimTests {
  @Test("X12.2 one open writer; the next when it closes, in one process and on the real disk")
  func excludes() throws {
    let directory = try TemporaryDirectory()
    let files = SystemFileSystem()
    let state = try files.openDirectory(directory.path)
    let first = try #require(taken(try WriterClaim.attempt(in: state, files: files)))
    guard case .held = try WriterClaim.attempt(in: state, files: files) else {
      Issue.record("two writers")
      return
    }
    first.release()
    #expect(taken(try WriterClaim.attempt(in: state, files: files)) != nil)
  }

  @Test("X-S24, X12.1 two stores in one directory each have their own claim")
  func separate() throws {
    let folder = try Folder()
    let files = MemoryFileSystem(folder.disk)
    let first = taken(try WriterClaim.attempt(in: folder.state(1), store: "a.sqlite", files: files))
    let second = taken(try WriterClaim.attempt(in: folder.state(1), store: "a.db", files: files))
    #expect(first != nil && second != nil)
    #expect(
      folder.disk.status("/n/.marfa/a.sqlite.lock")?.mode == 0o600 && folder.disk.status("/n/.marfa/a.db.lock") != nil)
  }

  @Test("X12.3 a killed writer's claim is free at once")
  func killed() throws {
    let folder = try Folder()
    let first = try folder.claim(1)
    #expect(try first != nil && folder.claim(2) == nil)
    folder.disk.kill(pid: 1)
    #expect(try folder.claim(2) != nil)
  }

  @Test("H8 a lock file deleted meanwhile is no claim; a directory deleted is no folder")
  func deleted() throws {
    let folder = try Folder()
    let state = try folder.state(1)
    let disk = folder.disk
    let deletions = Mutex(1)
    let faults = Faults { call in
      // Between the lock and the look at it.
      if call.operation == .status, call.name == "core.sqlite.lock", deletions.withLock({ $0 }) > 0 {
        deletions.withLock { $0 -= 1 }
        try? disk.delete("/n/.marfa/core.sqlite.lock")
      }
      return .proceed
    }
    let files = FaultyFileSystem(MemoryFileSystem(disk, pid: 1), faults)
    let claim = taken(try WriterClaim.attempt(in: files.openDirectory("/n/.marfa"), files: files))
    #expect(claim != nil && deletions.withLock { $0 } == 0)
    #expect(try folder.claim(2) == nil)
    claim?.release()
    try disk.delete("/n/.marfa")
    guard case .noFolder = try WriterClaim.attempt(in: state, files: MemoryFileSystem(disk, pid: 1)) else {
      Issue.record("a claim on nothing")
      return
    }
  }

  @Test("X12.5, H7 without locks the fallback serves, and without that the folder is refused")
  func fallback() throws {
    var features = MemoryDisk.Features()
    features.locks = false
    let folder = try Folder(features: features)
    let error = #expect(throws: MarfaError.self) { try folder.claim(1) }
    #expect(error?.code == .io)
    let runtime = try TemporaryDirectory()
    // The real lock file under another disk's folder.
    let faults = Faults { call in call.operation == .lock && call.name == "core.sqlite.lock" ? .fail(ENOLCK) : .proceed
    }
    let files = FaultyFileSystem(SystemFileSystem(), faults)
    let state = try files.openDirectory(runtime.path)
    let fallback = LockFallback(uid: getuid(), name: "store-id", base: runtime.path)
    let claim = taken(try WriterClaim.attempt(in: state, files: files, fallback: fallback))
    #expect(claim?.isFallback == true)
    guard case .held = try WriterClaim.attempt(in: state, files: files, fallback: fallback) else {
      Issue.record("a second worker")
      return
    }
  }

  @Test("H7 without locks an ask is left and heard under the fallback")
  func askedByFallback() throws {
    let runtime = try TemporaryDirectory()
    let faults = Faults { call in
      call.operation == .lock && call.name == "core.sqlite.lock" ? .fail(ENOLCK) : .proceed
    }
    let files = FaultyFileSystem(NoLocks(named: "core.handover"), faults)
    let state = try files.openDirectory(runtime.path)
    let fallback = LockFallback(uid: getuid(), name: "store-id", base: runtime.path)
    let clock = ManualClock()
    let hand = HandOver(
      root: runtime.path, files: files, clock: clock, scheduler: ManualScheduler(clock: clock), fallback: fallback)
    let hearing = HandOverHearing(in: state, files: files, fallback: fallback)
    #expect(hearing.asker() == nil)
    guard case .held(let hold) = try hand.ask("scan", in: state, stop: StopFlag()) else {
      Issue.record("not held")
      return
    }
    #expect(hold.claim.isFallback && hearing.asker()?.command == "scan")
    hold.release()
    #expect(hearing.asker() == nil)
  }

  @Test("X13, H9 a holder that is asked lets go, the asker works, and the holder finds it free again")
  func handedOver() throws {
    let folder = try Folder()
    let held = Mutex(false)
    let watch = try #require(try folder.claim(1))
    let hearing = HandOverHearing(in: try folder.state(1), files: MemoryFileSystem(folder.disk, pid: 1))
    #expect(hearing.asker() == nil)
    // The watch acts while the asker waits.
    nonisolated(unsafe) let (claim, ear) = (watch, hearing)
    folder.scheduler.onWait {
      if ear.asker() == HandOver.Asker(command: "confirm", pid: 2) {
        claim.release()
        held.withLock { $0 = true }
      }
    }
    guard case .held(let hold) = try folder.handOver(2).ask("confirm", in: folder.state(2), stop: StopFlag()) else {
      Issue.record("not held")
      return
    }
    folder.scheduler.onWait(nil)
    #expect(held.withLock { $0 } && hearing.asker() != nil)
    #expect(try folder.claim(1) == nil)
    hold.release()
    #expect(hearing.asker() == nil && folder.disk.text("/n/.marfa/core.handover") == "")
    #expect(hearing.waitUntilFree(folder.scheduler, stop: StopFlag()))
    #expect(try folder.claim(1) != nil)
  }

  @Test("X13.3 an ask heard before its text is written is still told by its name; one that ends meanwhile is none")
  func namedLater() throws {
    let folder = try Folder()
    let hearing = HandOverHearing(in: try folder.state(1), files: MemoryFileSystem(folder.disk, pid: 1))
    let files = MemoryFileSystem(folder.disk, pid: 2)
    let ask = try #require(try files.lockFile("core.handover", in: folder.state(2), create: true))
    #expect(try ask.lock(.exclusive, wait: false))
    #expect(hearing.asker() == HandOver.Asker(command: nil, pid: nil))
    nonisolated(unsafe) let asking = ask
    folder.scheduler.onWait {
      try? asking.replaceContents(Array(#"{"pid":2,"command":"remove"}"#.utf8))
    }
    #expect(hearing.namedAsker(folder.scheduler, stop: StopFlag()) == HandOver.Asker(command: "remove", pid: 2))
    try ask.replaceContents([])
    folder.scheduler.onWait { asking.unlock() }
    #expect(hearing.namedAsker(folder.scheduler, stop: StopFlag()) == nil)
    folder.scheduler.onWait(nil)
  }

  @Test("X13.1 a holder that never lets go: refused after ten seconds, and nothing is left locked")
  func refused() throws {
    let folder = try Folder()
    let watch = try folder.claim(1)
    let before = folder.clock.monotonic
    let error = #expect(throws: MarfaError.self) {
      try folder.handOver(2).ask("confirm", in: folder.state(2), stop: StopFlag())
    }
    let waited = folder.clock.monotonic - before
    #expect(error?.code == .readingHandle && error?.message.contains("/n") == true)
    #expect(waited >= 9_500_000_000 && waited <= 11_000_000_000)
    #expect(HandOverHearing(in: try folder.state(1), files: MemoryFileSystem(folder.disk, pid: 1)).asker() == nil)
    withExtendedLifetime(watch) {}
  }

  @Test("H9, H11 askers go one after another, and one that is killed leaves nothing to wait for")
  func several() throws {
    let folder = try Folder()
    let watch = try #require(try folder.claim(1))
    let hearing = HandOverHearing(in: try folder.state(1), files: MemoryFileSystem(folder.disk, pid: 1))
    watch.release()
    guard case .held(let first) = try folder.handOver(2).ask("sync", in: folder.state(2), stop: StopFlag()) else {
      return
    }
    nonisolated(unsafe) let working = first
    folder.scheduler.onWait { working.release() }
    guard case .held(let second) = try folder.handOver(3).ask("confirm", in: folder.state(3), stop: StopFlag()) else {
      Issue.record("the second asker did not get it")
      return
    }
    folder.scheduler.onWait(nil)
    #expect(hearing.asker()?.pid == 3)
    folder.disk.kill(pid: 3)
    #expect(hearing.asker() == nil)
    #expect(try folder.claim(1) != nil)
    withExtendedLifetime(second) {}
  }

  @Test("X13.13 where no ask can be left the claim is tried once")
  func unaskable() throws {
    let folder = try Folder()
    try folder.disk.makeDirectory("/n/.marfa/core.handover")
    guard case .held(let hold) = try folder.handOver(2).ask("scan", in: folder.state(2), stop: StopFlag()) else {
      Issue.record("free, and refused")
      return
    }
    let before = folder.clock.monotonic
    let error = #expect(throws: MarfaError.self) {
      try folder.handOver(3).ask("scan", in: folder.state(3), stop: StopFlag())
    }
    #expect(error?.code == .readingHandle && folder.clock.monotonic == before)
    withExtendedLifetime(hold) {}
  }

  @Test("an ask that is stopped ends at once")
  func stopped() throws {
    let folder = try Folder()
    let watch = try folder.claim(1)
    let stop = StopFlag()
    stop.set(.stopped)
    let error = #expect(throws: MarfaError.self) { try folder.handOver(2).ask("scan", in: folder.state(2), stop: stop) }
    #expect(error?.code == .canceled)
    withExtendedLifetime(watch) {}
  }
}

/// The real disk, but that files of one name can't be locked.
private struct NoLocks: FileSystem {
  let inner = SystemFileSystem()
  let name: PathBytes

  init(named name: PathBytes) { self.name = name }

  func openDirectory(_ path: PathBytes) throws(FileError) -> any Directory { try inner.openDirectory(path) }
  func resolve(_ path: PathBytes) throws(FileError) -> PathBytes { try inner.resolve(path) }
  func makeDirectories(_ path: PathBytes, mode: UInt32) throws(FileError) -> [PathBytes] {
    try inner.makeDirectories(path, mode: mode)
  }
  func status(_ path: PathBytes) throws(FileError) -> FileStatus? { try inner.status(path) }
  func lockFile(_ name: PathBytes, in directory: any Directory, create: Bool) throws(FileError) -> (any LockFile)? {
    guard let file = try inner.lockFile(name, in: directory, create: create) else { return nil }
    return name == self.name ? Unlockable(file) : file
  }
  var writer: (pid: Int32, start: UInt64) { inner.writer }
  func state(ofWriter pid: Int32, start: UInt64?) -> WriterState { inner.state(ofWriter: pid, start: start) }

  private final class Unlockable: LockFile {
    private let inner: any LockFile
    init(_ inner: any LockFile) { self.inner = inner }
    func lock(_ mode: LockMode, wait: Bool) throws(FileError) -> Bool {
      throw FileError(code: ENOLCK, operation: "lock", path: "core.handover")
    }
    func unlock() {}
    func status() throws(FileError) -> FileStatus { try inner.status() }
    func contents() throws(FileError) -> [UInt8] { try inner.contents() }
    func replaceContents(_ bytes: [UInt8]) throws(FileError) { try inner.replaceContents(bytes) }
  }
}
