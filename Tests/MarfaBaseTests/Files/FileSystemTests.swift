import Glibc
import MarfaBase
import Testing
import TestSupport

/// The real disk and the one in memory answer alike.
enum Disk: CaseIterable, Sendable {
  case real, memory

  func open() throws -> (files: any FileSystem, root: PathBytes, keep: AnyObject) {
    switch self {
    case .real:
      let directory = try TemporaryDirectory()
      return (SystemFileSystem(), directory.path, directory)
    case .memory:
      let disk = MemoryDisk(clock: ManualClock())
      try disk.makeDirectory("/home/ana")
      return (MemoryFileSystem(disk), "/home/ana", disk)
    }
  }
}

func code(_ body: () throws -> Void) -> Int32? {
  do {
    try body()
    return nil
  } catch { return (error as? FileError)?.code }
}

@Suite struct FileSystemTests {
  @Test("X15.3 renames refuse, replace and exchange", arguments: Disk.allCases)
  func renames(disk: Disk) throws {
    let (files, root, keep) = try disk.open()
    let directory = try files.openDirectory(root)
    try files.put(root.appending("a"), "one")
    try files.put(root.appending("b"), "two")
    #expect(code { try directory.rename("a", to: directory, as: "b", .noReplace) } == EEXIST)
    #expect(code { try directory.rename("a", to: directory, as: "c", .exchange) } == ENOENT)
    try directory.rename("a", to: directory, as: "b", .exchange)
    #expect(files.text(root.appending("a")) == "two")
    #expect(files.text(root.appending("b")) == "one")
    try directory.makeLink("dangling", to: "/nowhere")
    #expect(code { try directory.rename("a", to: directory, as: "dangling", .noReplace) } == EEXIST)
    try directory.rename("a", to: directory, as: "c", .noReplace)
    try directory.rename("c", to: directory, as: "b", .replace)
    #expect(files.text(root.appending("b")) == "two")
    #expect(Set(try directory.list().map(\.name)) == ["b", "dangling"])
    withExtendedLifetime(keep) {}
  }

  @Test("F30.5 no link is followed below a directory, and nothing leaves it", arguments: Disk.allCases)
  func links(disk: Disk) throws {
    let (files, root, keep) = try disk.open()
    try files.put(root.appending("out/secret"), "s")
    try files.put(root.appending("in/deep/note"), "n")
    let directory = try files.openDirectory(root.appending("in"))
    try directory.makeLink("link", to: root.appending("out"))
    try directory.makeLink("file", to: root.appending("out/secret"))
    #expect([ELOOP, ENOTDIR].contains(code { _ = try directory.directory("link") }))
    #expect([ELOOP, ENOTDIR].contains(code { _ = try directory.directory(beneath: "link") }))
    #expect(code { _ = try directory.directory(beneath: "../out") } != nil)
    #expect(code { _ = try directory.open("file") } == ELOOP)
    #expect(try directory.status(of: "file")?.kind == .link)
    #expect(try directory.directory(beneath: "deep").list().map(\.name) == ["note"])
    for name in ["", ".", "..", "a/b"] as [PathBytes] {
      #expect(code { _ = try directory.create(name, mode: 0o600, exactMode: true) } == EINVAL)
    }
    withExtendedLifetime(keep) {}
  }

  @Test("X2.2 a path resolves through links, and past what is not there", arguments: Disk.allCases)
  func resolves(disk: Disk) throws {
    let (files, root, keep) = try disk.open()
    _ = try files.makeDirectories(root.appending("real/dir"), mode: 0o755)
    try files.openDirectory(root).makeLink("way", to: root.appending("real"))
    #expect(try files.resolve(root.appending("way/dir")) == root.appending("real/dir"))
    #expect(try files.resolve(root.appending("way/gone/./deeper")) == root.appending("real/gone/deeper"))
    #expect(try files.resolve(root.appending("way/gone/../dir")) == root.appending("real/dir"))
    #expect(try files.resolve(root.appending("real/dir/..")) == root.appending("real"))
    withExtendedLifetime(keep) {}
  }

  @Test("X12.2 a lock belongs to the open file", arguments: Disk.allCases)
  func locks(disk: Disk) throws {
    let (files, root, keep) = try disk.open()
    let directory = try files.openDirectory(root)
    let held = try #require(try files.lock("l", in: directory, wait: false))
    #expect(try files.lock("l", in: directory, wait: false) == nil)
    let other = try #require(try files.lockFile("l", in: directory, create: false))
    #expect(try !other.lock(.shared, wait: false))
    held.release()
    #expect(try other.lock(.shared, wait: false))
    #expect(try files.lock("l", in: directory, wait: false) == nil)
    other.unlock()
    try other.replaceContents(Array("who\n".utf8))
    #expect(try other.contents() == Array("who\n".utf8))
    #expect(try directory.status(of: "l")?.mode == 0o600)
    #expect(try files.lockFile("none", in: directory, create: false) == nil)
    #expect(try files.lock("l", in: directory, wait: false) != nil)
    withExtendedLifetime(keep) {}
  }

  @Test(
    "X24.1 a file keeps its identity through a rename; modes, attributes and times are told", arguments: Disk.allCases)
  func statuses(disk: Disk) throws {
    let (files, root, keep) = try disk.open()
    let directory = try files.openDirectory(root)
    let file = try directory.create("a", mode: 0o640, exactMode: true)
    try file.write([1, 2, 3])
    try file.setAttribute("user.note", [9])
    try file.sync()
    try file.close()
    let before = try #require(try directory.status(of: "a"))
    #expect(before.mode == 0o640 && before.size == 3 && before.kind == .regular && before.identity != nil)
    try directory.rename("a", to: directory, as: "b", .noReplace)
    #expect(try directory.status(of: "b")?.identity == before.identity)
    #expect(try directory.status(of: "a") == nil)
    let read = try directory.open("b")
    #expect(try read.attributes().map(\.name) == ["user.note"])
    #expect(read.hasWriter() == false)
    #expect(try read.read(limit: 2) == [1, 2] && read.read(limit: 9) == [3] && read.read(limit: 9).isEmpty)
    try directory.link("b", to: directory, as: "c")
    #expect(try directory.status(of: "b")?.links == 2)
    try directory.unlink("c")
    try directory.unlink("b")
    #expect(try directory.list().isEmpty)
    withExtendedLifetime(keep) {}
  }

  @Test("X14.3 a writer runs, is gone, or is another process of its number")
  func writers() throws {
    let files = SystemFileSystem()
    #expect(files.writer.start > 0)
    #expect(files.state(ofWriter: files.writer.pid, start: files.writer.start) == .running)
    #expect(files.state(ofWriter: files.writer.pid, start: nil) == .running)
    #expect(files.state(ofWriter: files.writer.pid, start: files.writer.start + 1) == .gone)
    #expect(files.state(ofWriter: 0x3FFF_FFF0, start: nil) == .gone)
  }

  @Test("P1.1 a program that writes a file is seen")
  func writerProbe() throws {
    let directory = try TemporaryDirectory()
    let opened = try SystemFileSystem().openDirectory(directory.path)
    let writing = try opened.create("note", mode: 0o600, exactMode: true)
    let reading = try opened.open("note")
    #expect(reading.hasWriter() == true)
    try writing.close()
    #expect(reading.hasWriter() == false)
  }

  @Test("faults fail the calls they are told to, and a crash fails all that follow")
  func faults() throws {
    let disk = MemoryDisk(clock: ManualClock())
    try disk.write("/d/a", "a")
    let inner = MemoryFileSystem(disk)
    let failing = FaultyFileSystem(inner, .failing(.rename, name: "b", code: ENOSPC))
    let directory = try failing.openDirectory("/d")
    #expect(code { try directory.rename("a", to: directory, as: "b", .replace) } == ENOSPC)
    try directory.rename("a", to: directory, as: "c", .replace)
    let faults = Faults { $0.operation == .unlink ? .crash : .proceed }
    let dying = try FaultyFileSystem(inner, faults).openDirectory("/d")
    #expect(code { try dying.unlink("c") } == Faults.crashCode)
    #expect(code { _ = try dying.list() } == Faults.crashCode)
    #expect(faults.crashed && disk.text("/d/c") == "a")
  }

  @Test("a full disk, a volume that goes, a killed process: the disk in memory does them")
  func memory() throws {
    let disk = MemoryDisk(clock: ManualClock())
    try disk.write("/d/sub/note", "n")
    let files = MemoryFileSystem(disk, pid: 5)
    let directory = try files.openDirectory("/d")
    disk.setFreeBytes(1)
    let file = try directory.create("full", mode: 0o600, exactMode: true)
    #expect(code { try file.write([1, 2]) } == ENOSPC)
    try disk.mount("/d/sub")
    #expect(disk.read("/d/sub/note") == nil)
    try disk.write("/d/sub/inner", "i")
    #expect(try directory.directory("sub").status().device != directory.status().device)
    let volume = try disk.unmount("/d/sub")
    #expect(disk.text("/d/sub/note") == "n")
    try disk.mount("/d/sub", volume: volume)
    #expect(disk.text("/d/sub/inner") == "i")
    let held = try files.lock("l", in: directory, wait: false)
    disk.kill(pid: 5)
    #expect(try MemoryFileSystem(disk, pid: 6).lock("l", in: directory, wait: false) != nil)
    #expect(files.state(ofWriter: 5, start: nil) == .gone)
    withExtendedLifetime(held) {}
  }
}
