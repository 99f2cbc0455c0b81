import Glibc
import MarfaBase
import Synchronization
import Testing
import TestSupport

@testable import FolderSync

/// Two folders of one machine: `/a` let `old.md` go, `/b` takes it in.
private struct Folders {
  let disk: MemoryDisk
  let landing: Landing
  let source: any Directory
  let hash = ContentHash(of: Array("words".utf8))

  init(
    otherVolume: Bool = false, features: MemoryDisk.Features = .init(), faults: Faults? = nil,
    door: FaultDoor.Act? = nil
  )
    throws
  {
    let clock = ManualClock()
    disk = MemoryDisk(clock: clock, features: features)
    let memory = MemoryFileSystem(disk)
    let files: any FileSystem = faults.map { FaultyFileSystem(memory, $0) } ?? memory
    try disk.makeDirectory("/b")
    if otherVolume { try disk.mount("/b") }
    try disk.write("/b/.marfa/core.sqlite", "s")
    try disk.write("/a/d/old.md", "words")
    try disk.setAttribute("/a/d/old.md", "user.note", [7])
    try disk.setMode("/a/d/old.md", 0o640)
    source = try files.openDirectory("/a")
    landing = Landing(
      root: try files.openDirectory("/b"), files: files, clock: clock, door: FaultDoor(door), isRoot: { .same })
  }

  func take(to target: PathBytes = "Notes/new.md") throws(LandingFailure) -> TakenIn {
    try landing.takeIn(
      TakeInWish(source: source, path: "d/old.md", hash: hash, target: try landing.spelled(target)))
  }

  var names: [PathBytes] { disk.tree("/b").map(\.path).filter { $0 != ".marfa/core.sqlite" } }
}

@Suite struct TakingInTests {
  @Test("X17.1 a file is taken in by a rename, and keeps its identity")
  func moved() throws {
    let folders = try Folders()
    let before = folders.disk.status("/a/d/old.md")?.identity
    let taken = try folders.take()
    #expect(taken.status.identity == before && taken.retained == nil)
    #expect(folders.names == ["Notes/new.md"] && folders.disk.tree("/a").isEmpty)
  }

  @Test("X17.1 an edited source stays, and so does a file that appeared at the target")
  func changed() throws {
    let folders = try Folders()
    try folders.disk.write("/a/d/old.md", "edited")
    #expect(throws: LandingFailure.self) { try folders.take() }
    #expect(folders.disk.text("/a/d/old.md") == "edited" && folders.names.isEmpty)
    try folders.disk.write("/a/d/old.md", "words")
    try folders.disk.write("/b/Notes/new.md", "mine")
    #expect(throws: LandingFailure.self) { try folders.take() }
    #expect(folders.disk.text("/a/d/old.md") == "words" && folders.disk.text("/b/Notes/new.md") == "mine")
  }

  @Test("X17.2, X17.3 across volumes it is copied with mode and attributes, then taken away")
  func copied() throws {
    let folders = try Folders(otherVolume: true)
    let taken = try folders.take()
    #expect(taken.retained == nil && taken.status.mode == 0o640)
    #expect(folders.disk.text("/b/Notes/new.md") == "words" && folders.disk.tree("/a").isEmpty)
    #expect(folders.names == ["Notes/new.md"])
  }

  @Test("X17.2 a plain refusal copies nothing; a file system without the rename does", arguments: [EACCES, EINVAL])
  func refusals(code: Int32) throws {
    let faults = Faults { call in
      call.operation == .rename && call.name == "new.md" ? .fail(code) : .proceed
    }
    let folders = try Folders(faults: faults)
    if code == EACCES {
      let failure = #expect(throws: LandingFailure.self) { try folders.take() }
      #expect(failure?.kind == .refused && folders.disk.text("/a/d/old.md") == "words" && folders.names.isEmpty)
    } else {
      // Both renames fail so: the copy is published by a second name.
      #expect(try folders.take().retained == nil)
      #expect(folders.names == ["Notes/new.md"] && folders.disk.tree("/a").isEmpty)
    }
  }

  @Test("X-S40 a source that changes during the copy stays, and no copy is published")
  func changedWhileCopied() throws {
    let disk = Mutex<MemoryDisk?>(nil)
    let folders = try Folders(
      otherVolume: true,
      door: { (point, _, _) throws(FileError) in
        if point == .copyPublish { try disk.withLock { $0 }?.write("/a/d/old.md", "edited") }
      })
    disk.withLock { $0 = folders.disk }
    #expect(throws: LandingFailure.self) { try folders.take() }
    #expect(folders.disk.text("/a/d/old.md") == "edited" && folders.names.isEmpty)
  }

  @Test("F44.7 a source that can't be removed after the copy is retained")
  func retained() throws {
    let folders = try Folders(otherVolume: true)
    try folders.disk.setMode("/a/d", 0o555)
    #expect(try folders.take().retained != nil)
    #expect(folders.disk.text("/a/d/old.md") == "words" && folders.disk.text("/b/Notes/new.md") == "words")
  }
}
