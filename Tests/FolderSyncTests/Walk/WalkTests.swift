import Glibc
import MarfaBase
import Testing
import TestSupport

@testable import FolderSync

private struct Folder {
  let clock = ManualClock()
  let disk: MemoryDisk
  let files: MemoryFileSystem
  init() throws {
    disk = MemoryDisk(clock: clock)
    files = MemoryFileSystem(disk)
    try disk.makeDirectory("/n/.marfa")
  }
  func walk(_ lists: PathLists = .unset, door: FaultDoor = .none) throws -> WalkResult {
    try FolderSync.walk(root: files.openDirectory("/n"), lists: lists, now: clock.now, door: door)
  }
}

@Suite struct WalkTests {
  @Test("F25, F30.4, F41.8 the walk meets the files the folder takes, and passes links, secrets and other folders over")
  func meets() throws {
    let folder = try Folder()
    for path in [
      "/n/b.md", "/n/a/c.md", "/n/.git/x", "/n/.env", "/n/sub/.marfa/core.sqlite", "/n/sub/x.md", "/n/a/t.tmp",
    ]
      as [PathBytes]
    {
      try folder.disk.write(path, "x")
    }
    try folder.disk.makeLink("/n/link.md", to: "/n/b.md")
    try folder.disk.makeLink("/n/way", to: "/n/a")
    try folder.disk.write("/n/.marfa/notes.md", "x")
    let found = try folder.walk()
    #expect(found.files.map(\.path) == ["a/c.md", "b.md"])
    #expect(
      found.secrets == [".env"] && found.nestedFolders == ["sub"] && found.directories.isEmpty && found.isComplete)
    #expect(found.reach(of: "sub/x.md", seen: nil) == .leftOut)
    #expect(found.reach(of: "a/gone.md", seen: nil) == .looked)
    #expect(found.reach(of: "nowhere/gone.md", seen: nil) == .looked)
  }

  @Test("F26.1, F26.2 packages are named and not walked")
  func packages() throws {
    let folder = try Folder()
    for name in ["APP", "BUNDLE", "PAGES", "NUMBERS", "KEY", "PHOTOSLIBRARY", "XCODEPROJ", "RTFD", "dir"] {
      try folder.disk.write(PathBytes("/n/Deck.\(name)/x.md"), "x")
    }
    let found = try folder.walk()
    #expect(found.files.map(\.path) == ["Deck.dir/x.md"])
    #expect(found.directories.count == 8 && found.directories.allSatisfy { $0.flag == "package" })
    #expect(found.reach(of: "Deck.KEY/x.md", seen: nil) == .leftOut)
  }

  @Test(
    "F26.3 a directory that can't be listed or searched is named, and nothing in it is missing", arguments: [0, 0o444])
  func unreadable(mode: UInt32) throws {
    let folder = try Folder()
    try folder.disk.write("/n/shut/x.md", "x")
    try folder.disk.write("/n/open/y.md", "y")
    try folder.disk.setMode("/n/shut", mode)
    let found = try folder.walk()
    #expect(found.files.map(\.path) == ["open/y.md"])
    #expect(found.directories.map(\.flag) == ["unreadable"] && found.isComplete)
    guard case .unreadable = found.reach(of: "shut/x.md", seen: nil) else {
      Issue.record("it counts as looked at")
      return
    }
    #expect(try folder.walk(PathLists(include: ["/open/"], ignore: [])).directories.isEmpty)
  }

  @Test("F26.6 a directory that vanishes between its listing and its reading makes the walk incomplete")
  func vanishes() throws {
    let folder = try Folder()
    try folder.disk.write("/n/going/x.md", "x")
    try folder.disk.write("/n/y.md", "y")
    let (door, _) = TestFault.reading("vanish-while-walking:going", over: folder.files)
    let found = try folder.walk(door: door)
    #expect(found.directories.map(\.flag) == ["gone"] && !found.isComplete && found.files.map(\.path) == ["y.md"])
  }

  @Test("F27.8 a name that is no UTF-8 is held, its bytes shown")
  func badNames() throws {
    let folder = try Folder()
    try folder.disk.write(PathBytes(bytes: Array("/n/caf".utf8) + [0xE9] + Array(".md".utf8)), "x")
    let found = try folder.walk()
    #expect(found.files.isEmpty && found.flagged.map(\.path) == ["caf%E9.md"] && found.flagged[0].flag == "name")
  }

  @Test("P2.1 a file below a volume that went or came is out of reach, not missing")
  func mounts() throws {
    let folder = try Folder()
    try folder.disk.write("/n/vault/under.md", "u")
    let under = StoredIdentity(device: nil, inode: 1, birth: 1)
    try folder.disk.mount("/n/vault")
    try folder.disk.write("/n/vault/x.md", "x")
    let mounted = try folder.walk()
    let file = try #require(mounted.files.first { $0.path == "vault/x.md" })
    let identity = try #require(file.status.identity.map { StoredIdentity($0, rootDevice: mounted.rootDevice) })
    #expect(identity.device != nil)
    guard case .unmounted = mounted.reach(of: "vault/under.md", seen: under) else {
      Issue.record("a covered file counts as missing")
      return
    }
    #expect(mounted.reach(of: "vault/y.md", seen: identity) == .looked)
    _ = try folder.disk.unmount("/n/vault")
    guard case .unmounted = try folder.walk().reach(of: "vault/x.md", seen: identity) else {
      Issue.record("a file of an unmounted volume counts as missing")
      return
    }
  }

  @Test("P1.5 a save of KDE's under way is passed over until it is a minute old")
  func saving() throws {
    let folder = try Folder()
    try folder.disk.write("/n/a.md", "a")
    try folder.disk.write("/n/a.md.aB3dE9", "b")
    let found = try folder.walk()
    #expect(found.files.map(\.path) == ["a.md"] && found.reach(of: "a.md.aB3dE9", seen: nil) == .leftOut)
    folder.clock.advance(seconds: 61)
    #expect(try folder.walk().files.count == 2)
  }

  @Test("F49.3, P1.1 a reading tells a file that moved under it, and one a program writes")
  func reading() throws {
    let folder = try Folder()
    try folder.disk.write("/n/d/a.md", "abc")
    let root = try folder.files.openDirectory("/n")
    let first = try FileReading("d/a.md", below: root, keep: 10)
    #expect(first.isSettled && first.hasWriter == false && first.bytes == Array("abc".utf8))
    #expect(first.hash == ContentHash(of: Array("abc".utf8)))
    #expect(try FileReading("d/a.md", below: root, keep: 2).bytes == nil)
    try folder.disk.setOpenForWriting("/n/d/a.md", true)
    #expect(try FileReading("d/a.md", below: root).hasWriter == true)
  }

  @Test("X14.3 left-overs of the dead go, those of the living and all other names stay")
  func sweeps() throws {
    let folder = try Folder()
    _ = MemoryFileSystem(folder.disk, pid: 77, start: 5)
    let names: [PathBytes] = [
      ".marfa-66-3.tmp", ".marfa-77-3.tmp", ".marfa-77-4-3.tmp", ".marfa-77-5-3.tmp", ".marfa-1x-3.tmp", "notes.tmp",
      ".marfa-66-1-9.tmp",
    ]
    for name in names { try folder.disk.write(PathBytes("/n/d").appending(name), "x") }
    let found = try folder.walk()
    let root = try folder.files.openDirectory("/n")
    let gone = sweepTemporaries(found.temporaries, below: root, files: folder.files, keeping: ["d/.marfa-66-1-9.tmp"])
    #expect(Set(gone) == ["d/.marfa-66-3.tmp", "d/.marfa-77-4-3.tmp"])
    #expect(folder.disk.tree("/n/d").count == 5)
  }

  @Test("X11 the root is told from one that is gone, and from another in its place")
  func root() throws {
    let folder = try Folder()
    try folder.disk.write("/n/.marfa/core.sqlite", "s")
    let noted = try RootIdentity("/n", files: folder.files)
    #expect(noted.check(folder.files) == .same)
    try folder.disk.rename("/n", to: "/away")
    #expect(noted.check(folder.files) == .gone("the directory /n is not there"))
    try folder.disk.makeDirectory("/n")
    #expect(noted.check(folder.files) != .same)
    try folder.disk.write("/n/.marfa/core.sqlite", "s")
    #expect(noted.check(folder.files) == .gone("another directory stands at /n"))
    try folder.disk.delete("/n")
    try folder.disk.rename("/away", to: "/n")
    #expect(noted.check(folder.files) == .same)
  }
}
