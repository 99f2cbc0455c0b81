import FolderSync
import Glibc
import MarfaBase
import MarfaCopy
import Synchronization
import TestSupport
import Testing

/// Directories that come and go, disks that do not answer, and version control (P2.1, P2.2, H16).
struct VolumeScenarios {
  /// Eight notes on a volume of their own in the folder's directory.
  func mounted(_ bench: FolderBench, sameDevice: Bool) throws -> (folder: KeptFolder, vault: PathBytes) {
    let folder = try KeptFolder(bench)
    let vault = folder.path("vault")
    try folder.disk.makeDirectory(vault)
    try folder.disk.mount(vault, sameDevice: sameDevice)
    for number in 1...8 { try folder.write("vault/n\(number).md", "Note \(number).\n") }
    try folder.write("plain.md", "Plain.\n")
    try folder.push()
    try folder.push()
    return (folder, vault)
  }

  @Test(
    "P-S7 eight notes on a mount of their own, unmounted for a minute and mounted again: no delete, no create, one sentence",
    arguments: [false, true])
  func unmounted(sameDevice: Bool) throws {
    let bench = try FolderBench()
    let (folder, vault) = try mounted(bench, sameDevice: sameDevice)
    let titles = try bench.titles()
    let texts = (1...8).map { folder.text("vault/n\($0).md") }
    let volume = try folder.disk.unmount(vault)
    bench.transport.clear()
    for _ in 1...4 {
      let push = try folder.push()
      #expect(push.scan.unreached == 8 && push.scan.missing == 0 && push.scan.deleted == 0)
      #expect(push.scan.directories.map(\.path) == ["vault"] && push.scan.directories[0].flag == "unmounted")
      #expect(words(push).filter { $0.contains("vault") && $0.contains("is not there") }.count == 1, "\(words(push))")
      bench.clock.advance(seconds: 20)
    }
    #expect(bench.writes.isEmpty)
    let status = try #require(try folder.status(of: "vault/n3.md"))
    #expect(status.state == .unreached && status.flag == "unmounted")
    try folder.disk.mount(vault, volume: volume)
    let back = try folder.push()
    #expect(back.scan.unreached == 0 && back.scan.unchanged == 9 && back.scan.directories.isEmpty)
    folder.grace()
    #expect(try folder.push().scan.deleted == 0)
    #expect(try bench.writes.isEmpty && bench.titles() == titles)
    #expect((1...8).map { folder.text("vault/n\($0).md") } == texts)
    // What is deleted on it is a delete all the same.
    try folder.delete("vault/n8.md")
    try folder.push()
    folder.grace()
    #expect(try folder.push().scan.deleted == 1)
  }

  @Test("P-S7 under a watch the volume's going is said once, and its return needs no word", arguments: [false, true])
  func unmountedUnderWatch(sameDevice: Bool) throws {
    let bench = try FolderBench()
    let (folder, vault) = try mounted(bench, sameDevice: sameDevice)
    let titles = try bench.titles()
    let watch = ScriptedWatch(folder)
    var volume: MemoryVolume?
    watch.at(15) {
      bench.transport.clear()
      volume = try folder.disk.unmount(vault)
    }
    for second in stride(from: 20.0, to: 75, by: 10) { watch.save("plain.md", "Plain \(second).\n", at: second) }
    watch.at(76) { try folder.disk.mount(vault, volume: volume) }
    #expect(try watch.run(seconds: 140) == nil)
    #expect(watch.said("vault") == 1, "\(watch.words)")
    #expect(watch.sum(\.scan, "deleted") == 0 && watch.sum(\.scan, "created") == 0)
    #expect(bench.writes.allSatisfy { $0.hasPrefix("PATCH") }, "\(bench.writes)")
    #expect(try bench.titles() == titles)
  }

  @Test("P2.1 a volume mounted over a directory of notes hides them, and deletes none", arguments: [false, true])
  func mountedOver(sameDevice: Bool) throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    for number in 1...3 { try folder.write("deep/n\(number).md", "Note \(number).\n") }
    try folder.push()
    try folder.disk.mount(folder.path("deep"), sameDevice: sameDevice)
    bench.transport.clear()
    for _ in 1...3 {
      let push = try folder.push()
      #expect(push.scan.unreached == 3 && push.scan.missing == 0)
      folder.grace()
    }
    _ = try folder.disk.unmount(folder.path("deep"))
    #expect(try folder.push().scan.unchanged == 3)
    #expect(bench.writes.isEmpty && folder.files() == ["deep/n1.md", "deep/n2.md", "deep/n3.md"])
  }

  @Test(
    "P-S8 a directory answering EACCES, EIO, ESTALE or ENOKEY leaves its files unreached, and nothing is journaled",
    arguments: [EACCES, EIO, ESTALE, ENOKEY, ETIMEDOUT])
  func doesNotAnswer(code: Int32) throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    for name in ["deep/a.md", "deep/b.md", "top.md"] { try folder.write(name, "\(name)\n") }
    try folder.push()
    try folder.push()
    let titles = try bench.titles()
    bench.transport.clear()
    try folder.disk.setFailing(folder.path("deep"), code)
    for _ in 1...3 {
      let push = try folder.push()
      #expect(push.scan.unreached == 2 && push.scan.missing == 0 && push.scan.deleted == 0, "\(push.scan)")
      #expect(push.scan.directories.map(\.flag) == ["unreadable"])
      folder.grace()
    }
    #expect(try folder.status(of: "deep/a.md")?.state == .unreached)
    #expect(try folder.reading { try $0.store.bindings().filter { $0.missingSince != nil } }.isEmpty)
    try folder.disk.setFailing(folder.path("deep"), nil)
    folder.grace()
    #expect(try folder.push().scan.unchanged == 3)
    #expect(try bench.writes.isEmpty && bench.titles() == titles)
  }

  @Test(
    "P-S8 a folder whose own directory stops answering under a watch is waited for, said once, and gone on with",
    arguments: [EACCES, EIO, ESTALE])
  func rootDoesNotAnswer(code: Int32) throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("One.md", "One.\n")
    try folder.push()
    let watch = ScriptedWatch(folder)
    watch.at(15) {
      bench.transport.clear()
      try folder.disk.setFailing(folder.root, code)
      watch.notifications.noted.rootMoved = true
    }
    watch.at(60) {
      #expect(watch.count("waiting") == 1 && bench.writes.isEmpty, "\(watch.names)")
      try folder.disk.setFailing(folder.root, nil)
    }
    watch.save("Two.md", "Two.\n", at: 70)
    #expect(try watch.run(seconds: 120) == nil)
    #expect(watch.count("waiting") == 1, "\(watch.names)")
    #expect(try bench.titles() == ["One", "Two"])
    #expect(watch.sum(\.scan, "deleted") == 0)
  }

  @Test("H16 a listing of the folder's directory that fails for a while ends no watch", arguments: [EIO, EACCES])
  func listingFails(code: Int32) throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("One.md", "One.\n")
    try folder.push()
    let watch = ScriptedWatch(folder)
    let fails = Switch()
    watch.files = { inner in
      FaultyFileSystem(
        inner,
        Faults { call in
          guard fails.isOn, call.operation == .list, let directory = call.directory,
            ((try? directory.status(of: ".marfa")) ?? nil) != nil
          else { return .proceed }
          return .fail(code)
        })
    }
    watch.at(15) {
      fails.set(true)
      watch.notifications.noted.rootMoved = true
    }
    watch.at(40) { fails.set(false) }
    watch.save("Two.md", "Two.\n", at: 50)
    #expect(try watch.run(seconds: 100) == nil)
    #expect(watch.count("waiting") == 1, "\(watch.names)")
    #expect(watch.said("cannot be read") == 1, "\(watch.words)")
    #expect(try bench.titles() == ["One", "Two"])
  }

  @Test(
    "P2.2 in a worktree or a submodule, whose .git is a file, a checkout's missing files wait as in any other",
    arguments: [false, true])
  func gitFile(absolute: Bool) throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    // The directory the file names lies outside the folder.
    let git = folder.root.parent.appending("repo/.git/worktrees/notes")
    try folder.disk.write(git.appending("HEAD"), "ref: refs/heads/main\n")
    let line = absolute ? git.description : "../../repo/.git/worktrees/notes"
    try folder.write("work/.git", "gitdir: \(line)\n")
    for name in ["a", "b", "c"] { try folder.write("work/\(name).md", "\(name)\n") }
    bench.clock.advance(seconds: 90)
    try folder.push()
    try folder.push()
    for name in ["a", "b", "c"] { try folder.delete("work/\(name).md") }
    try folder.disk.write(git.appending("HEAD"), "ref: refs/heads/other\n")
    bench.transport.clear()
    for _ in 1...3 {
      let push = try folder.push()
      #expect(push.scan.missing == 3 && push.scan.deleted == 0)
      folder.grace()
    }
    #expect(bench.writes.isEmpty)
    bench.clock.advance(seconds: 61)
    // A lock of an operation under way holds them as long as it stands.
    try folder.disk.write(git.appending("index.lock"), "")
    try folder.push()
    folder.grace()
    #expect(try folder.push().scan.deleted == 0)
    try folder.disk.delete(git.appending("index.lock"))
    try folder.push()
    folder.grace()
    #expect(try folder.push().scan.deleted == 3)
  }

  @Test("F46.4 a confirm stopped while it walks counts nothing it did not look at as missing")
  func confirmStopped() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, RemovalScenarios.settings(1, try RemovalScenarios.fraction("0.1")))
    for number in 1...6 { try folder.write("d\(number)/n.md", "Note \(number).\n") }
    try folder.push()
    try folder.push()
    for number in 1...3 { try folder.delete("d\(number)/n.md") }
    #expect(try folder.push().scan.paused == 3)
    // Put back before the confirm, in directories the walk will not come to.
    for number in 1...3 { try folder.write("d\(number)/n.md", "Note \(number), back.\n") }
    let stop = StopFlag()
    let made = folder.folders
    var context = made.context
    let listings = Counter()
    context.files = FaultyFileSystem(
      context.files,
      Faults { call in
        if call.operation == .list, listings.next() == 2 { stop.set(.stopped) }
        return .proceed
      })
    let folders = Folders(
      context: context, registry: made.registry, endpoint: made.endpoint, door: made.door, stop: stop)
    bench.transport.clear()
    let error = refusal { _ = try folders.confirm(folder.root) }
    #expect(error?.code == .canceled, "\(String(describing: error))")
    #expect(try folder.queue().filter { $0.kind == .deleteItem }.isEmpty)
    try folder.push()
    folder.grace()
    #expect(try folder.push().scan.deleted == 0)
    #expect(try bench.titles().count == 6)
  }

  @Test(
    "P1.4 a crash just after an exchange, and a disk that does not give the file at the next start: the words saved in that moment are kept"
  )
  func displacedUnread() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("note.md", "Note.\n")
    try folder.push()
    try folder.push()
    let item = try bench.id("note")
    try bench.edit(item, ["body": "Theirs.\n"])
    let words = "What the person saved in that moment.\n"
    let (disk, path) = (folder.disk, folder.path("note.md"))
    folder.machine.door = FaultDoor { (point, name, _) throws(FileError) in
      if point == .afterLastLook, name == "note.md" { try disk.write(path, words) }
    }
    let renamed = Switch()
    folder.machine.faults = Faults { call in
      if renamed.isOn { return .crash }
      if call.operation == .rename, call.name.name == "note.md" { renamed.set(true) }
      return .proceed
    }
    #expect(refusal { try folder.push() } != nil)
    #expect(renamed.isOn)
    folder.machine.restart()
    func isKept() -> Bool {
      disk.tree(folder.root).contains { String(decoding: $0.bytes, as: UTF8.self).contains(words) }
    }
    #expect(isKept())
    try disk.setFailing(path, EIO)
    for _ in 1...2 {
      try folder.push()
      #expect(isKept(), "\(folder.files())")
    }
    try disk.setFailing(path, nil)
    for _ in 1...3 { try folder.push() }
    #expect(isKept())
    let live = try bench.titles().map { title in try bench.ids(title).compactMap { try bench.body($0) } }.joined()
    #expect(live.contains { $0.contains(words) }, "\(Array(live))")
    #expect(folder.files().allSatisfy { !$0.contains(".marfa-") }, "\(folder.files())")
  }
}

/// Counts up, for a closure that is kept.
final class Counter: Sendable {
  private let state = Mutex(0)
  func next() -> Int {
    state.withLock {
      $0 += 1
      return $0
    }
  }
}

/// What a test turns on and off for a closure that is kept.
final class Switch: Sendable {
  private let state = Mutex(false)
  var isOn: Bool { state.withLock { $0 } }
  func set(_ on: Bool) { state.withLock { $0 = on } }
}
