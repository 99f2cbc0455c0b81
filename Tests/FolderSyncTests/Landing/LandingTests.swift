import Glibc
import MarfaBase
import Synchronization
import Testing
import TestSupport

@testable import FolderSync

/// A folder at `/n` of a disk in memory, and its landings.
private struct Folder {
  let clock = ManualClock()
  let disk: MemoryDisk
  let files: any FileSystem
  let landing: Landing

  init(features: MemoryDisk.Features = .init(), faults: Faults? = nil, door: FaultDoor.Act? = nil) throws {
    disk = MemoryDisk(clock: clock, features: features)
    let memory = MemoryFileSystem(disk)
    files = faults.map { FaultyFileSystem(memory, $0) } ?? memory
    try disk.write("/n/.marfa/core.sqlite", "s")
    let root = try RootIdentity("/n", files: memory)
    landing = Landing(
      root: try files.openDirectory("/n"), files: files, clock: clock, door: FaultDoor(door),
      isRoot: { root.check(memory) })
  }

  func land(_ path: PathBytes, _ text: String, over old: String? = nil, executable: Bool? = nil) throws -> LandedFile {
    let expected = old.map { Expected.bytes(ContentHash(of: Array($0.utf8))) } ?? .absent
    let prepared = try landing.prepare(
      LandingWish(path: path, content: .bytes(Array(text.utf8)), expected: expected, executable: executable))
    let landed = try landing.publish(prepared)
    try landing.syncDirectories()
    return landed
  }

  func failure(_ path: PathBytes, _ text: String = "new", over old: String? = nil) -> LandingFailure.Kind? {
    do {
      _ = try land(path, text, over: old)
      return nil
    } catch { return (error as? LandingFailure)?.kind }
  }

  /// Names a landing left.
  var hidden: [PathBytes] {
    ((try? files.openDirectory("/n").list()) ?? []).map(\.name).filter { TemporaryName($0) != nil }
  }

  /// The files of the folder but its store.
  var names: [PathBytes] { disk.tree("/n").map(\.path).filter { $0 != ".marfa/core.sqlite" } }
}

@Suite struct LandingTests {
  @Test("X15.3, F27.5 an absent file lands, in the directory that has its name in another spelling")
  func absent() throws {
    let folder = try Folder()
    try folder.disk.makeDirectory("/n/notes")
    let landed = try folder.land("Notes/New/Plan.md", "plan")
    #expect(landed.path == "notes/New/Plan.md" && folder.names == ["notes/New/Plan.md"])
    #expect(folder.disk.status("/n/notes/New/Plan.md")?.identity == landed.status.identity)
    #expect(landed.status.mode == 0o644 && landed.displaced == nil)
    #expect(try folder.land("run.sh", "x", executable: true).status.mode == 0o755)
  }

  @Test("P1.4 a present file is exchanged; what it displaced goes once it was looked at again")
  func present() throws {
    let folder = try Folder()
    try folder.disk.write("/n/a.md", "old")
    try folder.disk.setMode("/n/a.md", 0o640)
    try folder.disk.setAttribute("/n/a.md", "user.note", [1])
    let landed = try folder.land("a.md", "new", over: "old")
    let displaced = try #require(landed.displaced)
    #expect(
      folder.disk.text("/n/a.md") == "new" && folder.disk.text(PathBytes("/n").appending(displaced.temporary)) == "old")
    #expect(landed.status.mode == 0o640)
    #expect(try folder.files.openDirectory("/n").open("a.md").attributes().map(\.name) == ["user.note"])
    #expect(folder.landing.settle(displaced) == .gone && folder.names == ["a.md"])
    #expect(folder.landing.settle(displaced) == .gone)
  }

  @Test("P1.4 a displaced file a writer had open waits, and an edit of it goes back in its place or beside")
  func displacedEdits() throws {
    let folder = try Folder()
    try folder.disk.write("/n/a.md", "old")
    let first = try #require(try folder.land("a.md", "new", over: "old").displaced)
    let temporary = PathBytes("/n").appending(first.temporary)
    try folder.disk.setOpenForWriting(temporary, true)
    #expect(folder.landing.settle(first) == .waits)
    try folder.disk.write(temporary, "edited in place")
    #expect(folder.landing.settle(first) == .putBack)
    #expect(folder.disk.text("/n/a.md") == "edited in place" && folder.names == ["a.md"])

    try folder.disk.write("/n/b.md", "old")
    let second = try #require(try folder.land("b.md", "new", over: "old").displaced)
    try folder.disk.write(PathBytes("/n").appending(second.temporary), "edited in place")
    try folder.disk.save("/n/b.md", Array("newest".utf8))
    #expect(folder.landing.settle(second) == .beside("b (saved while syncing).md"))
    #expect(folder.disk.text("/n/b.md") == "newest")
    #expect(folder.disk.text("/n/b (saved while syncing).md") == "edited in place")
  }

  @Test("P1.4, X15.2 a save between last look and rename is the person's, and stands; nothing is left over")
  func savedAfterLastLook() throws {
    let disk = Mutex<MemoryDisk?>(nil)
    let folder = try Folder(door: { (point, name, _) throws(FileError) in
      if point == .afterLastLook { try disk.withLock { $0 }?.save("/n/a.md", Array("person".utf8)) }
    })
    disk.withLock { $0 = folder.disk }
    try folder.disk.write("/n/a.md", "old")
    #expect(folder.failure("a.md", over: "old") == .changed)
    #expect(folder.disk.text("/n/a.md") == "person" && folder.names == ["a.md"])
  }

  @Test("P1.4, X15.5 a save that went back to its place is on the disk there, whatever a power cut takes after it")
  func savedAfterLastLookOutlivesPower() throws {
    for seed in UInt64(0)..<32 {
      let disk = Mutex<MemoryDisk?>(nil)
      let folder = try Folder(door: { (point, name, _) throws(FileError) in
        if point == .afterLastLook { try disk.withLock { $0 }?.save("/n/a.md", Array("person".utf8)) }
      })
      disk.withLock { $0 = folder.disk }
      folder.disk.tracksPower()
      try folder.disk.write("/n/a.md", "old")
      #expect(folder.failure("a.md", over: "old") == .changed)
      folder.disk.cutPower(seed: seed)
      #expect(folder.disk.text("/n/a.md") == "person", "\(seed) \(folder.disk.tree("/n").map(\.path))")
    }
  }

  @Test("X15.2 a file changed since the decision stays, and so does one that appeared, whatever it is")
  func changed() throws {
    let disk = Mutex<(MemoryDisk, PathBytes)?>(nil)
    let folder = try Folder(door: { (point, name, _) throws(FileError) in
      guard point == .rename, let (disk, path) = disk.withLock({ $0 }) else { return }
      if name == "file.md" { try disk.write(path, "person") }
      if name == "dir.md" { try disk.makeDirectory(path) }
      if name == "link.md" { try disk.makeLink(path, to: "/nowhere") }
      if name == "gone.md" { try disk.rename(path, to: "/n/renamed.md") }
    })
    try folder.disk.write("/n/a.md", "edited")
    #expect(folder.failure("a.md", over: "old") == .changed && folder.disk.text("/n/a.md") == "edited")
    #expect(folder.failure("a.md") == .changed)
    #expect(folder.failure("none.md", over: "old") == .changed)
    for name in ["file.md", "dir.md", "link.md"] as [PathBytes] {
      disk.withLock { $0 = (folder.disk, PathBytes("/n").appending(name)) }
      #expect(folder.failure(name) == .changed, "\(name)")
    }
    try folder.disk.write("/n/gone.md", "old")
    disk.withLock { $0 = (folder.disk, "/n/gone.md") }
    #expect(folder.failure("gone.md", over: "old") == .changed)
    #expect(folder.names == ["a.md", "file.md", "renamed.md"])
    #expect(folder.disk.status("/n/link.md")?.kind == .link && folder.disk.text("/n/file.md") == "person")
  }

  @Test("P1.4, F20.6 a link, directory or pipe put in a file's place at the last moment stays, whatever inode it has")
  func foreign() throws {
    var features = MemoryDisk.Features()
    features.reusesInodes = true
    for kind in [FileKind.link, .directory] {
      let disk = Mutex<MemoryDisk?>(nil)
      let folder = try Folder(
        features: features,
        door: { (point, name, _) throws(FileError) in
          guard point == .rename, let disk = disk.withLock({ $0 }) else { return }
          try disk.delete("/n/a.md")
          if kind == .link {
            try disk.makeLink("/n/a.md", to: "/nowhere")
          } else {
            try disk.makeDirectory("/n/a.md")
          }
        })
      try folder.disk.write("/n/a.md", "old")
      disk.withLock { $0 = folder.disk }
      #expect(folder.failure("a.md", over: "old") == .changed)
      #expect(folder.disk.status("/n/a.md")?.kind == kind && folder.hidden.isEmpty)
    }
  }

  @Test("P1.4 what stands under a displaced file's name and is no file goes back, or beside, and never waits for ever")
  func foreignDisplaced() throws {
    for isNewer in [false, true] {
      let folder = try Folder()
      try folder.disk.write("/n/a.md", "old")
      let displaced = try #require(try folder.land("a.md", "new", over: "old").displaced)
      let temporary = PathBytes("/n").appending(displaced.temporary)
      try folder.disk.delete(temporary)
      try folder.disk.makeLink(temporary, to: "/nowhere")
      if isNewer { try folder.disk.write("/n/a.md", "newer") }
      let beside: PathBytes = "a (saved while syncing).md"
      #expect(folder.landing.settle(displaced) == (isNewer ? .beside(beside) : .putBack))
      #expect(folder.disk.status(PathBytes("/n").appending(isNewer ? beside : "a.md"))?.kind == .link)
      if isNewer { #expect(folder.disk.text("/n/a.md") == "newer") }
      #expect(folder.hidden.isEmpty)
    }
  }

  @Test("X15.4 a read-only file is not replaced, and an attribute that can't be set fails the landing")
  func refused() throws {
    let folder = try Folder(faults: .failing(.setAttribute, code: EOPNOTSUPP))
    try folder.disk.write("/n/a.md", "old")
    try folder.disk.setMode("/n/a.md", 0o444)
    #expect(folder.failure("a.md", over: "old") == .refused)
    try folder.disk.write("/n/b.md", "old")
    try folder.disk.setAttribute("/n/b.md", "user.note", [1])
    #expect(folder.failure("b.md", over: "old") == .refused)
    #expect(folder.disk.text("/n/a.md") == "old" && folder.disk.text("/n/b.md") == "old")
    #expect(folder.names == ["a.md", "b.md"])
  }

  @Test(
    "F20.13 a call that fails at any step leaves the old file whole and nothing beside it",
    arguments: [FileOperation.create, .write, .sync, .close, .setMode, .rename])
  func faults(operation: FileOperation) throws {
    for code in [ENOSPC, EDQUOT, EIO] {
      let folder = try Folder(faults: .failing(operation, code: code))
      try folder.disk.write("/n/a.md", "old")
      #expect(folder.failure("a.md", over: "old") == (code == EIO ? .refused : .storageFull))
      #expect(folder.names == ["a.md"] && folder.disk.text("/n/a.md") == "old")
      if operation != .setMode { #expect(folder.failure("new.md") != nil && folder.names == ["a.md"]) }
    }
  }

  @Test("X15.3 without renames that refuse or exchange, a link serves an absent target and a rename a present one")
  func plain() throws {
    var features = MemoryDisk.Features()
    features.noReplace = false
    features.exchange = false
    let folder = try Folder(features: features)
    _ = try folder.land("a.md", "one")
    #expect(folder.names == ["a.md"] && folder.disk.status("/n/a.md")?.links == 1)
    #expect(try folder.land("a.md", "two", over: "one").isUnguarded)
    #expect(folder.names == ["a.md"] && folder.disk.text("/n/a.md") == "two")
    features.links = false
    folder.disk.setFeatures(features)
    #expect(folder.failure("b.md") == .refused && folder.names == ["a.md"])
  }

  @Test("F30, F41.8 nothing is written through a link, into another folder, or out of the root")
  func outside() throws {
    let folder = try Folder()
    try folder.disk.makeDirectory("/out")
    try folder.disk.write("/n/real.md", "old")
    try folder.disk.makeLink("/n/way", to: "/out")
    try folder.disk.makeLink("/n/alias.md", to: "/n/real.md")
    try folder.disk.write("/n/inner/.marfa/core.sqlite", "s")
    try folder.disk.write("/n/file", "f")
    #expect(folder.failure("way/a.md") == .outside && folder.failure("alias.md") == .outside)
    #expect(folder.failure("inner/a.md") == .outside && folder.failure("inner/deep/a.md") == .outside)
    #expect(folder.failure("file/a.md") == .refused)
    #expect(folder.disk.tree("/out").isEmpty && folder.disk.text("/n/real.md") == "old")
    #expect(try plainPath("/Notes//./Plan.md") == "Notes/Plan.md")
    for path in ["Elsewhere/../inside.md", "..", "", "/"] as [PathBytes] {
      #expect(throws: LandingFailure.self) { try plainPath(path) }
    }
  }

  @Test("X11.5 a root moved away gets nothing written, and nothing is made where it was")
  func moved() throws {
    let folder = try Folder()
    try folder.disk.rename("/n", to: "/away")
    #expect(folder.failure("a.md") == .rootGone)
    #expect(folder.disk.status("/n") == nil && folder.disk.tree("/away").count == 1)
  }

  @Test("X15.10 a blob lands only as the bytes its name promises")
  func blobs() throws {
    let folder = try Folder()
    try folder.disk.write("/blobs/x", "bytes")
    let blobs = try folder.files.openDirectory("/blobs")
    for (hash, kind) in [
      (ContentHash(of: Array("bytes".utf8)), nil), (ContentHash(of: []), LandingFailure.Kind.refused),
    ] as [(ContentHash, LandingFailure.Kind?)] {
      let file = try blobs.open("x")
      var found: LandingFailure.Kind?
      do throws(LandingFailure) {
        let wish = LandingWish(path: "p.png", content: .blob(hash, file), expected: .absent)
        _ = try folder.landing.publish(try folder.landing.prepare(wish))
      } catch { found = error.kind }
      #expect(found == kind)
      try? folder.disk.delete("/n/p.png")
    }
    #expect(folder.names.isEmpty)
  }

  @Test("X16 a file goes only while it holds what was decided on")
  func removal() throws {
    let folder = try Folder()
    let hash = ContentHash(of: Array("old".utf8))
    try folder.disk.write("/n/d/a.md", "old")
    try folder.disk.write("/n/d/b.md", "edited")
    #expect(folder.landing.remove("d/a.md", holding: hash) == .removed)
    #expect(folder.landing.remove("d/a.md", holding: hash) == .absent)
    #expect(folder.landing.remove("none/a.md", holding: hash) == .absent)
    guard case .stays(let why) = folder.landing.remove("d/b.md", holding: hash), why.kind == .changed else {
      Issue.record("an edited file went")
      return
    }
    #expect(folder.names == ["d/b.md"] && folder.disk.status("/n/d")?.kind == .directory)
  }

  @Test("X25, F50.2 permissions are probed, and execute follows read")
  func permissions() throws {
    let folder = try Folder()
    let root = try folder.files.openDirectory("/n")
    #expect(keepsPermissions(root) && folder.disk.status("/n/.marfa/.permission-probe") == nil)
    try folder.disk.write("/n/.marfa/.permission-probe", "mine")
    #expect(!keepsPermissions(root) && folder.disk.text("/n/.marfa/.permission-probe") == "mine")
    try folder.disk.delete("/n/.marfa/.permission-probe")
    var features = MemoryDisk.Features()
    features.modes = false
    folder.disk.setFeatures(features)
    #expect(!keepsPermissions(root))
    #expect(withExecute(true, 0o640) == 0o750 && withExecute(false, 0o755) == 0o644 && withExecute(nil, 0o611) == 0o611)
  }

  @Test("X15 landings on the real disk: absent, exchanged, attributes kept")
  func real() throws {
    let directory = try TemporaryDirectory()
    let files = SystemFileSystem()
    try files.put(directory.path.appending(".marfa/core.sqlite"), "s")
    try files.put(directory.path.appending("a.md"), "old", mode: 0o640)
    let root = try RootIdentity(directory.path, files: files)
    let opened = try files.openDirectory(directory.path)
    let landing = Landing(root: opened, files: files, clock: SystemClock(), isRoot: { root.check(files) })
    func land(_ path: PathBytes, _ text: String, _ expected: Expected) throws -> LandedFile {
      try landing.publish(
        landing.prepare(LandingWish(path: path, content: .bytes(Array(text.utf8)), expected: expected)))
    }
    let new = try land("d/b.md", "new", .absent)
    let replaced = try land("a.md", "new", .bytes(ContentHash(of: Array("old".utf8))))
    try landing.syncDirectories()
    #expect(
      files.text(directory.path.appending("d/b.md")) == "new" && files.text(directory.path.appending("a.md")) == "new")
    #expect(try opened.status(of: "a.md")?.mode == 0o640)
    #expect(try opened.directory("d").status(of: "b.md")?.identity == new.status.identity)
    if let displaced = replaced.displaced { #expect(landing.settle(displaced) == .gone) }
    #expect(try opened.list().count == 3)
    #expect(keepsPermissions(opened))
  }

  @Test("a name is cut at whole characters to make room for its mark")
  func marks() {
    #expect(savedWhileSyncing("Plan.md", 1) == "Plan (saved while syncing).md")
    #expect(savedWhileSyncing("Plan.md", 2) == "Plan (saved while syncing 2).md")
    let long = savedWhileSyncing(PathBytes(String(repeating: "\u{20AC}", count: 84) + ".md"), 1)
    #expect(long.bytes.count <= 255 && long.isValidUTF8 && long.fileExtension == "md")
  }
}
