import FolderSync
import Glibc
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// A watched directory that goes and comes, its registry, handing over, locks (F22, F41, H, P2, P5, W).
struct WatchPlaceScenarios {
  func filled(_ bench: FolderBench, _ files: [String]) throws -> KeptFolder {
    let folder = try KeptFolder(bench)
    for name in files { try folder.write(name, "\(name)\n") }
    try folder.push()
    try #require(try !bench.titles().isEmpty || files.isEmpty)
    return folder
  }

  @Test(
    "F-S22.2 C-S51 a directory renamed away is said once, nothing is deleted past the grace, and it goes on once it is back"
  )
  func movedAway() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, ["One.md", "Two.md"])
    let away = folder.root.parent.appending("Away")
    let watch = ScriptedWatch(folder)
    watch.at(15) {
      bench.transport.clear()
      try folder.disk.rename(folder.root, to: away)
    }
    watch.at(60) {
      #expect(watch.count("waiting") == 1, "\(watch.names)")
      #expect(folder.disk.status(folder.root) == nil)
      #expect(bench.writes.isEmpty)
      try folder.disk.write(away.appending("Three.md"), "Three.\n")
      try folder.disk.rename(away, to: folder.root)
    }
    #expect(try watch.run(seconds: 120) == nil)
    #expect(watch.count("waiting") == 1)
    #expect(watch.words.filter { $0.hasPrefix("waiting:") }.count == 1)
    #expect(try bench.titles() == ["One", "Three", "Two"])
    #expect(watch.sum(\.scan, "deleted") == 0)
    #expect(watch.notifications.rescans > 0)
  }

  @Test(
    "F-S22.3 W-S4 moved away and back it goes on; a copy put in its place is said to be another, and nothing of it is read"
  )
  func copyInPlace() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, ["One.md"])
    let away = folder.root.parent.appending("Away")
    let watch = ScriptedWatch(folder)
    watch.at(15) { try folder.disk.rename(folder.root, to: away) }
    watch.at(30) { try folder.disk.rename(away, to: folder.root) }
    watch.at(45) {
      #expect(watch.count("waiting") == 1)
      bench.transport.clear()
      let tree = folder.disk.tree(folder.root)
      try folder.disk.rename(folder.root, to: away)
      for file in tree { try folder.disk.write(folder.root.appending(file.path), file.bytes) }
      try folder.disk.write(folder.path("New.md"), "New.\n")
      try folder.disk.delete(folder.path("One.md"))
      let yaml = try #require(folder.text(".marfa/folder.yaml"))
      try folder.disk.write(folder.path(".marfa/folder.yaml"), yaml.replacing("title: Notes", with: "title: Copied"))
    }
    #expect(try watch.run(seconds: 100) == nil)
    #expect(watch.count("waiting") == 2)
    #expect(bench.writes.isEmpty, "\(bench.writes)")
    #expect(try bench.titles() == ["One"])
    #expect(try bench.row(folder.id)["item"]?["properties"]?["title"]?.text == "Notes")
    #expect(folder.text("New.md") == "New.\n")
  }

  @Test("H-S9 a waiting watch whose folder was removed ends unlisted, without an error")
  func removedWhileGone() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, ["One.md"])
    let watch = ScriptedWatch(folder)
    watch.at(15) { try folder.disk.rename(folder.root, to: folder.root.parent.appending("Away")) }
    watch.at(30) { try folder.folders.remove(folder.root) }
    #expect(try watch.run(seconds: 60) == nil)
    #expect(watch.names.last == "unlisted", "\(watch.names)")
    #expect(watch.events.last?.at ?? 60 < 35)
  }

  @Test("H6 F22.6 an empty directory in the folder's place, as an unmounted volume leaves, is waited out")
  func emptyInItsPlace() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, ["One.md"])
    let away = folder.root.parent.appending("Away")
    let watch = ScriptedWatch(folder)
    watch.at(15) {
      try folder.disk.rename(folder.root, to: away)
      try folder.disk.makeDirectory(folder.root)
    }
    // Another command reads the list, and lets go of what holds no folder.
    watch.at(20) {
      let listed = try folder.folders.list()
      #expect(listed.isEmpty)
    }
    watch.at(40) {
      try folder.disk.rename(folder.root, to: folder.root.parent.appending("Stub"))
      try folder.disk.rename(away, to: folder.root)
      try folder.disk.write(folder.path("New.md"), "New.\n")
    }
    #expect(try watch.run(seconds: 80) == nil)
    #expect(
      watch.count("waiting") == 1 && watch.count("unlisted") == 0 && watch.count("removed") == 0, "\(watch.names)")
    #expect(try bench.titles() == ["New", "One"])
    let listed = try folder.folders.list()
    #expect(listed.map(\.dir) == [folder.root])
  }

  @Test(
    "F-S303 H-S10 a registry deleted is written again by a push, and by a running watch, which neither ends nor says so"
  )
  func registryDeleted() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, ["One.md"])
    let registry = folder.root.parent.appending("folders.json")
    try folder.disk.delete(registry)
    try folder.push()
    #expect(try folder.folders.list().map(\.dir) == [folder.root])
    let watch = ScriptedWatch(folder)
    watch.at(15) { try folder.disk.delete(registry) }
    watch.save("Two.md", "Two.\n", at: 20)
    #expect(try watch.run(seconds: 60) == nil)
    #expect(try folder.folders.list().map(\.dir) == [folder.root])
    #expect(watch.count("removed") == 0 && watch.count("unlisted") == 0)
    #expect(try bench.titles() == ["One", "Two"])
  }

  @Test("H-S12 settings and files changed while the folder was handed over are all taken by the first pass after")
  func changedMeanwhile() throws {
    let bench = try FolderBench()
    let item = try bench.item("Theirs", body: "Before.\n")
    let folder = try filled(bench, ["One.md", "Gone.md", "Edited.md"])
    let watch = ScriptedWatch(folder)
    watch.borrow(at: 15) {
      bench.transport.clear()
      try folder.disk.write(folder.path("New.md"), "New.\n")
      try folder.disk.write(folder.path("Edited.md"), try #require(folder.text("Edited.md")) + "More.\n")
      try bench.edit(item, ["body": "After.\n"])
      let yaml = try #require(folder.text(".marfa/folder.yaml"))
      try folder.disk.write(folder.path(".marfa/folder.yaml"), yaml.replacing("title: Notes", with: "title: Papers"))
      // What a watch would have been told is not: it holds nothing meanwhile.
      watch.isDeaf = true
    }
    #expect(try watch.run(seconds: 40) == nil)
    #expect(watch.names.filter { $0 != "passed" } == ["watching", "handed_over", "taken_back"], "\(watch.names)")
    let back = try #require(watch.events.first { if case .takenBack = $0.event { true } else { false } })
    let after = watch.events.filter { $0.at >= back.at }.compactMap { event in
      if case .passed(let pass, _) = event.event { pass } else { nil }
    }
    let pass = try #require(after.first)
    #expect(pass.isReading)
    #expect(pass.scan["created"]?.int == 1 && pass.scan["updated"]?.int == 1)
    #expect(pass.settings["sent"]?.bool == true)
    #expect(pass.pull["rewritten"]?.int ?? 0 >= 1)
    #expect(try bench.titles() == ["Edited", "Gone", "New", "One", "Theirs"])
    #expect(folder.text("Theirs.md")?.contains("After.") == true)
    #expect(try bench.row(folder.id)["item"]?["properties"]?["title"]?.text == "Papers")
  }

  @Test("H14 what the settings leave out since the folder was handed over is not sent by the pass that takes it back")
  func ignoredMeanwhile() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, ["One.md"])
    let watch = ScriptedWatch(folder)
    watch.borrow(at: 15) {
      let row = try bench.row(folder.id)["item"] ?? .null
      try bench.ask("PATCH", "/folders/\(folder.id)", ["version": row["version"] ?? .null, "ignore": ["ig/"]])
      try folder.disk.makeDirectory(folder.path("ig"))
      try folder.disk.write(folder.path("ig/a.md"), "Private.\n")
      try folder.disk.write(folder.path("z.md"), "Sent.\n")
      watch.isDeaf = true
    }
    #expect(try watch.run(seconds: 40) == nil)
    #expect(try bench.titles() == ["One", "z"])
    #expect(folder.text("ig/a.md") == "Private.\n")
  }

  @Test(
    "H5 H14 a folder removed and added again while handed over ends the watch removed; one listed elsewhere unlisted")
  func otherStore() throws {
    for elsewhere in [false, true] {
      let bench = try FolderBench()
      let folder = try filled(bench, ["One.md"])
      let watch = ScriptedWatch(folder)
      watch.borrow(at: 15, "remove") {
        let registry = folder.root.parent.appending("folders.json")
        if elsewhere {
          try folder.disk.write(registry, #"{"folders":[]}"#)
        } else {
          for file in folder.disk.tree(folder.path(".marfa")) where file.path.name != "core.handover" {
            try folder.disk.delete(folder.path(".marfa").appending(file.path))
          }
        }
      }
      #expect(try watch.run(seconds: 60) == nil)
      #expect(watch.names.last == (elsewhere ? "unlisted" : "removed"), "\(watch.names)")
    }
  }

  @Test("H-S7 a folder another process took unasked is said once, and taken back once it is free")
  func heldElsewhere() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, ["One.md"])
    let watch = ScriptedWatch(folder)
    var other: WriterClaim?
    watch.borrow(at: 15, for: 0) {}
    // Another watch takes the lock the moment the asker lets it go, before the 100 ms of H11 are over.
    watch.at(15.51) {
      let files = MemoryFileSystem(folder.disk, pid: 4_000)
      guard
        case .taken(let claim) = try WriterClaim.attempt(
          in: files.openDirectory(folder.path(".marfa")), files: files)
      else { throw BenchError("not free") }
      other = claim
    }
    watch.at(30) {
      #expect(watch.count("held_elsewhere") == 1 && watch.count("taken_back") == 0, "\(watch.names)")
      other?.release()
    }
    watch.save("Two.md", "Two.\n", at: 35)
    #expect(try watch.run(seconds: 60) == nil)
    #expect(watch.count("held_elsewhere") == 1 && watch.count("taken_back") == 1)
    #expect(try bench.titles() == ["One", "Two"])
  }

  @Test("H-S6 two askers one after the other are both let in before the watch takes the folder back once")
  func twoAskers() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, ["One.md"])
    let watch = ScriptedWatch(folder)
    var worked: [String] = []
    var second: (any LockFile)?
    let files = MemoryFileSystem(folder.disk, pid: 4_000)
    watch.borrow(at: 15, for: 1) { worked.append("first") }
    // The second waits for the ask's lock; it has it within the 100 ms in which the watch looks again.
    watch.at(16.55) {
      let file = try #require(
        try files.lockFile("core.handover", in: files.openDirectory(folder.path(".marfa")), create: true))
      try #require(try file.lock(.exclusive, wait: false))
      second = file
    }
    watch.at(18) {
      guard
        case .taken(let claim) = try WriterClaim.attempt(
          in: files.openDirectory(folder.path(".marfa")), files: files)
      else { throw BenchError("the watch took it between the two") }
      worked.append("second")
      claim.release()
      second?.unlock()
    }
    #expect(try watch.run(seconds: 60) == nil)
    #expect(worked == ["first", "second"])
    #expect(watch.count("handed_over") == 1 && watch.count("taken_back") == 1, "\(watch.names)")
  }

  @Test("H-S15 X-S77 where the file system refuses flock, processes of this machine still exclude and hand over")
  func noLocks() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, ["One.md"])
    try folder.disk.makeDirectory("/run/user/1000")
    func other() -> Folders {
      var context = folder.folders.context
      context.files = LocklessFolder(MemoryFileSystem(folder.disk, pid: 4_000))
      return Folders(
        context: context, registry: folder.folders.registry, endpoint: folder.folders.endpoint,
        door: folder.folders.door, uid: 1000)
    }
    let watch = ScriptedWatch(folder)
    watch.files = { LocklessFolder($0) }
    watch.at(15) {
      // Another watch is refused at once, and a call that gets no answer is refused in the end.
      let second = refusal { try other().watch(folder.root, with: idle(bench)) { _ in } }
      #expect(second?.code == .readingHandle, "\(String(describing: second))")
    }
    watch.save("Two.md", "Two.\n", at: 40)
    #expect(try watch.run(seconds: 60) == nil)
    #expect(try bench.titles() == ["One", "Two"])
    #expect(
      folder.disk.tree("/run/user/1000/marfa").contains { $0.path.name.bytes.suffix(5).elementsEqual(".lock".utf8) })
    // And a call that asks is let in by the lock kept there once the watch is gone.
    guard case .pushed = try other().push(folder.root) else { throw BenchError("waits") }
  }

  private func idle(_ bench: FolderBench) -> WatchParts {
    WatchParts(
      notifications: ScriptedNotifications(), waker: ScriptedWait(clock: bench.clock), passStop: StopFlag(),
      news: { [] })
  }

  @Test("W-S2 after the kernel's queue ran over the next pass reads every file")
  func overflow() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, ["Back.md"])
    let item = try bench.id("Back")
    let watch = ScriptedWatch(folder)
    watch.at(15) {
      let path = folder.path("Back.md")
      let time = try #require(folder.disk.status(path)?.modified)
      try folder.disk.write(path, try #require(folder.disk.text(path)).replacing("Back.md\n", with: "Bake.md\n"))
      try folder.disk.setModified(path, time)
      watch.notifications.noted.overflowed = true
    }
    #expect(try watch.run(seconds: 30) == nil)
    #expect(try bench.body(item) == "Bake.md\n")
    #expect(watch.notifications.rescans > 0)
  }

  @Test("W-S3 with no watches to be had it is said once, and changes are still found by passes")
  func noWatches() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, ["One.md"])
    let watch = ScriptedWatch(folder)
    watch.isDeaf = true
    watch.notifications.isTrusted = false
    watch.notifications.noted.limit = "fs.inotify.max_user_watches leaves directories unwatched"
    for step in 1...5 { watch.save("note\(step).md", "Note.\n", at: Double(step) * 10) }
    watch.at(58) { () throws in #expect(try bench.titles().count == 6) }
    #expect(try watch.run(seconds: 200) == nil)
    #expect(watch.count("watcher_failed") == 1)
    #expect(watch.errorWords.filter { $0.contains("max_user_watches") }.count == 1)
    // It is tried again every minute (W6).
    #expect(watch.notifications.rescans >= 2)
  }

  @Test(
    "W7 on a network file system changes nobody tells of are found by walks; on a local disk an idle watch runs none")
  func walks() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, ["One.md"])
    let watch = ScriptedWatch(folder)
    watch.isDeaf = true
    watch.storage = Storage(.networkFileSystem(kind: "nfs4"), directory: "Notes").json
    watch.save("Two.md", "Two.\n", at: 20)
    watch.at(25) { () throws in #expect(try bench.titles() == ["One", "Two"]) }
    #expect(try watch.run(seconds: 30) == nil)
    #expect(watch.events.first?.event.json["storage"]?["cause"]?.text == "network_file_system")
    #expect(watch.errorWords.contains { $0.contains("network file system (nfs4)") })

    let local = ScriptedWatch(try filled(try FolderBench(), ["One.md"]))
    var requests = 0
    local.at(20) { requests = local.folder.bench.transport.requests.count }
    local.at(59) { #expect(local.folder.bench.transport.requests.count == requests) }
    #expect(try local.run(seconds: 59.5) == nil)
    #expect(local.wait.waits < 12, "\(local.wait.waits)")
  }

  @Test(
    "P-S17 a file back before a suspend over its grace ends is not deleted; a clock set back a year changes nothing")
  func timeJumps() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, ["One.md", "Two.md"])
    let watch = ScriptedWatch(folder)
    var text = ""
    watch.at(15) {
      text = try #require(folder.text("One.md"))
      try folder.delete("One.md")
    }
    watch.at(17) {
      // The machine sleeps for an hour; the file comes back after it woke, within a grace begun anew.
      bench.clock.advance(seconds: 3600)
      watch.wait.jumped = true
    }
    watch.save("One.md", "placeholder", at: 3600 + 20)
    watch.at(3600 + 20.1) { try folder.disk.write(folder.path("One.md"), text) }
    watch.at(3600 + 40) { () throws in
      #expect(try bench.titles() == ["One", "Two"])
      bench.transport.clear()
      bench.clock.setWall(Timestamp(milliseconds: bench.clock.now.milliseconds - 365 * 86_400_000))
      watch.wait.jumped = true
    }
    watch.at(3600 + 60) {
      #expect(bench.writes.isEmpty, "\(bench.writes)")
      try folder.delete("Two.md")
    }
    #expect(try watch.run(seconds: 3600 + 100) == nil)
    #expect(watch.sum(\.scan, "deleted") == 1)
    #expect(try bench.titles() == ["One"])
  }

  @Test(
    "P-S18 a disk that fills during a pull truncates nothing, is said once, and the pull finishes when there is room")
  func fullDisk() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, ["One.md"])
    let before = try #require(folder.text("One.md"))
    let item = try bench.id("One")
    let watch = ScriptedWatch(folder)
    watch.at(15) { folder.disk.setFreeBytes(10) }
    watch.server(at: 16) { bench in
      try bench.edit(item, ["body": .string(Text(String(repeating: "long ", count: 2000)))])
      try bench.item("New", body: Text(String(repeating: "new ", count: 2000)))
    }
    for second in 17...80 {
      watch.at(Double(second)) { #expect(folder.text("One.md") == before && folder.text("New.md") == nil) }
    }
    watch.server(at: 40) { bench in try bench.item("Third", body: Text(String(repeating: "3 ", count: 2000))) }
    watch.at(81) { folder.disk.setFreeBytes(nil) }
    #expect(try watch.run(seconds: 160) == nil)
    #expect(folder.text("One.md")?.hasSuffix("long long ") == true)
    #expect(folder.text("New.md")?.hasSuffix("new new ") == true)
    #expect(folder.files() == ["New.md", "One.md", "Third.md"])
    let said = watch.words.filter { $0.contains("New.md") && $0.contains("the disk is full") }
    #expect(said.count == 1, "\(watch.words)")
  }
}

/// A file system whose folders refuse locks, as some network file systems do; `/run/user` has them.
struct LocklessFolder: FileSystem {
  let inner: any FileSystem
  init(_ inner: any FileSystem) { self.inner = inner }

  func openDirectory(_ path: PathBytes) throws(FileError) -> any Directory { try inner.openDirectory(path) }
  func resolve(_ path: PathBytes) throws(FileError) -> PathBytes { try inner.resolve(path) }
  func makeDirectories(_ path: PathBytes, mode: UInt32) throws(FileError) -> [PathBytes] {
    try inner.makeDirectories(path, mode: mode)
  }
  func status(_ path: PathBytes) throws(FileError) -> FileStatus? { try inner.status(path) }
  func lockFile(_ name: PathBytes, in directory: any Directory, create: Bool) throws(FileError) -> (any LockFile)? {
    guard let file = try inner.lockFile(name, in: directory, create: create) else { return nil }
    return name == "core.sqlite.lock" || name == "core.handover" ? Lockless(file) : file
  }
  var writer: (pid: Int32, start: UInt64) { inner.writer }
  func state(ofWriter pid: Int32, start: UInt64?) -> WriterState { inner.state(ofWriter: pid, start: start) }

  private final class Lockless: LockFile {
    private let inner: any LockFile
    init(_ inner: any LockFile) { self.inner = inner }
    func lock(_ mode: LockMode, wait: Bool) throws(FileError) -> Bool {
      throw FileError(code: EOPNOTSUPP, operation: "lock", path: "core")
    }
    func unlock() {}
    func status() throws(FileError) -> FileStatus { try inner.status() }
    func contents() throws(FileError) -> [UInt8] { try inner.contents() }
    func replaceContents(_ bytes: [UInt8]) throws(FileError) { try inner.replaceContents(bytes) }
  }
}
