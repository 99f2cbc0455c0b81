import Glibc
import FolderSync
import MarfaBase
import MarfaCopy
import Synchronization
import TestSupport
import Testing

/// A folder's own directory, its claim, and making and taking off a folder (X6, X11 to X13, X28).
struct OwnDirectoryScenarios {
  @Test("X-S20 a file in .marfa is not sent, whatever the patterns say")
  func notSent() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, KeptFolder.notes(["include": [".marfa/", "*.md"]]))
    try folder.write(".marfa/notes.md", "Mine.\n")
    try folder.write("a.md")
    let push = try folder.push()
    #expect(push.scan.created == 1)
    #expect(try bench.titles() == ["a"])
    #expect(try folder.status().files.map(\.path) == ["a.md"])
    #expect(folder.text(".marfa/notes.md") == "Mine.\n")
  }

  @Test("X-S21 a directory with its own .marfa is another folder: nothing in it is read or written")
  func another() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md")
    try folder.disk.makeDirectory(folder.path("sub/.marfa"))
    try folder.write("sub/inner.md")
    try folder.write("sub/deep/inner.md")
    let placed = try bench.item("Plan")
    try bench.place(placed, in: folder.id, at: "sub/deep/Plan.md")
    let opened = Mutex<[PathBytes]>([])
    folder.machine.faults = Faults { call in
      if call.operation == .open || call.operation == .create || call.operation == .rename {
        opened.withLock { $0.append(call.name.name) }
      }
      return .proceed
    }
    let push = try folder.push()
    folder.machine.faults = nil
    #expect(push.scan.created == 1 && push.pull?.outside == 1 && push.pull?.written == 0)
    #expect(opened.withLock { $0.contains("a.md") && !$0.contains("inner.md") && !$0.contains("Plan.md") })
    #expect(folder.files() == ["a.md", "sub/deep/inner.md", "sub/inner.md"])
    #expect(try bench.titles() == ["Plan", "a"])
  }

  @Test("X-S22 a store open to write can be read beside it and not written, until the first closes")
  func oneWriter() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path.appending("core.sqlite")
    let clock = ManualClock()
    let context = Context(
      clock: clock, ids: SeededIds(clock: clock, seed: 3), files: SystemFileSystem(),
      transport: InstanceTransport { _ in .whole(HTTPResponse(status: 500, headers: [], body: [])) },
      scheduler: ManualScheduler(clock: clock), log: NoLog())
    func open(_ role: WorkingCopy.Role) throws -> OpenStore {
      try OpenStore.open(path: path, context: context, role: role, endpoint: nil, credentials: nil)
    }
    var first: OpenStore? = try open(.writer)
    let id = try #require(try first?.copy.storeID())
    #expect(refusal { _ = try open(.writer) }?.code == .readingHandle)
    #expect(try open(.reader).copy.storeID() == id)
    first = nil
    let next = try open(.writer)
    #expect(try next.copy.storeID() == id)
    #expect(refusal { _ = try open(.writer) }?.code == .readingHandle)
    withExtendedLifetime((directory, first, next)) {}
  }

  @Test("X-S27 a holder that never lets go is refused after ten seconds, naming the folder, and nothing is left locked")
  func neverLetsGo() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md")
    try folder.push()
    #expect(try bench.titles() == ["a"])
    let waited = try folder.folders.working(folder.root, "watch") { _ in
      let before = bench.clock.monotonic
      let error = try #require(refusal { _ = try folder.confirm() })
      #expect(error.code == .readingHandle && error.message.contains(folder.root.description))
      return bench.clock.monotonic - before
    }
    #expect(waited >= 9_500_000_000 && waited <= 11_000_000_000)
    #expect(folder.text(".marfa/core.handover") == "")
    let before = bench.clock.monotonic
    _ = try folder.confirm()
    #expect(bench.clock.monotonic == before)
  }

  @Test("X-S41 a root moved away in a pass gets nothing made at its old path; a copy in its place is another directory")
  func rootMoved() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md")
    try folder.push()
    try bench.item("New")
    let away = folder.root.parent.appending("Away")
    let (disk, root) = (folder.disk, folder.root)
    folder.machine.door = FaultDoor { (point, name, _) throws(FileError) in
      if point == .attributes, name == "New.md" { try disk.rename(root, to: away) }
    }
    let push = try folder.push()
    folder.machine.door = .none
    #expect(push.pull?.written == 0 && push.scan.missing == 0)
    #expect(disk.status(root) == nil)
    #expect(
      disk.tree(away).map(\.path.name.description).filter { $0.hasSuffix(".md") || $0.hasSuffix(".tmp") } == ["a.md"])
    try disk.rename(away, to: root)
    let gone = try folder.folders.working(root, "watch") { engine in
      try disk.rename(root, to: away)
      for file in disk.tree(away) where file.path.name != "core.sqlite.lock" {
        try disk.write(root.appending(file.path), file.bytes)
      }
      try disk.delete(root.appending("a.md"))
      let before = disk.tree(root).map(\.path)
      bench.clock.advance(seconds: 30)
      let push = try engine.sync()
      #expect(push.scan.missing == 0 && push.scan.deleted == 0 && push.pull == nil)
      #expect(disk.tree(root).map(\.path) == before)
      return push.scan.rootGone
    }
    #expect(gone?.contains("another directory stands at \(root)") == true)
    #expect(try bench.titles() == ["New", "a"])
  }

  // MARK: Making one

  private struct Tree: Equatable {
    var files: [PathBytes: [UInt8]]
    var directories: [PathBytes: FileKind?]

    init(_ disk: MemoryDisk, _ paths: [PathBytes]) {
      files = Dictionary(disk.tree("/home/ana").map { ($0.path, $0.bytes) }) { first, _ in first }
      directories = Dictionary(paths.map { ($0, disk.status($0)?.kind) }) { first, _ in first }
    }
  }

  enum Before: CaseIterable { case nothing, files, halfRemoved }

  @Test("X-S68 an add refused at any of its steps leaves the directory tree as it was", arguments: Before.allCases)
  func refusedAdd(_ before: Before) throws {
    let bench = try FolderBench()
    let id = try bench.folder()
    var step = 0
    var isDone = false
    while !isDone {
      let machine = bench.machine()
      let folder = try KeptFolder(bench, following: id, machine: machine, added: false)
      try machine.disk.makeDirectory("/home/ana/.keep")
      switch before {
      case .nothing: break
      case .files: try folder.write("deep/a.md")
      case .halfRemoved:
        try folder.write("a.md")
        try folder.write(".marfa/core.sqlite.lock", "")
        try folder.write(".marfa/mine.txt", "Mine.\n")
      }
      let paths = [folder.root, folder.path(".marfa"), folder.path("deep"), folder.path(".marfa/core.sqlite.blobs")]
      let tree = Tree(machine.disk, paths)
      let calls = Mutex(0)
      let failing = step
      let met = Mutex(false)
      machine.faults = Faults { call in
        // What comes back is the first refusal's doing alone.
        guard
          calls.withLock({ count in
            count += 1
            return count == failing + 1
          })
        else { return .proceed }
        met.withLock { $0 = true }
        return .fail(EIO)
      }
      let error = refusal { _ = try folder.add(yes: false) }
      machine.faults = nil
      if error != nil {
        var after = Tree(machine.disk, paths)
        // The list of folders is not the folder's tree, and its lock stays (X3.1).
        after.files = after.files.filter { !$0.key.name.description.hasPrefix("folders.") }
        #expect(after == tree, "step \(step): \(error?.description ?? "")")
      }
      isDone = !met.withLock { $0 }
      step += 1
      if isDone {
        // The one that met no fault is a folder that works.
        _ = try folder.confirm()
        try folder.write("new.md")
        try folder.push()
        #expect(try bench.titles().contains("new"))
      }
    }
    #expect(step > 20)
  }

  @Test("X-S68 in part: an add the server refuses at any request leaves nothing")
  func refusedByServer() throws {
    let bench = try FolderBench()
    let id = try bench.folder()
    var step = 0
    var refused = true
    while refused {
      let folder = try KeptFolder(bench, following: id, machine: bench.machine(), added: false)
      var count = 0
      let failing = step
      bench.transport.before = { _ in
        count += 1
        return count == failing + 1 ? .success(HTTPResponse(refusing: 403, "forbidden")) : nil
      }
      let error = refusal { _ = try folder.add() }
      bench.transport.before = nil
      refused = error != nil
      if refused { #expect(folder.disk.status(folder.root) == nil, "request \(step)") }
      step += 1
      if !refused {
        // The one that was not refused is a folder that works.
        try folder.write("a.md")
        #expect(try folder.push().scan.created == 1)
      }
      if count < failing + 1 { break }
    }
    #expect(step > 1)
    #expect(try bench.titles() == ["a"])
  }

  @Test("X6.2 a .marfa that is a link or a file is refused, and left", arguments: [true, false])
  func notADirectory(_ isLink: Bool) throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, added: false)
    try folder.disk.makeDirectory("/home/ana/real")
    if isLink {
      try folder.disk.makeLink(folder.path(".marfa"), to: "/home/ana/real")
    } else {
      try folder.write(".marfa", "Mine.\n")
    }
    #expect(refusal { try folder.add() }?.code == .invalid)
    #expect(folder.disk.status(folder.path(".marfa"))?.kind == (isLink ? .link : .regular))
    #expect(folder.disk.tree("/home/ana/real").isEmpty)
  }

  @Test("X28.4 a .marfa without a store is no folder, and an add takes it over")
  func takenOver() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md")
    try folder.push()
    try folder.disk.delete(folder.path(".marfa/core.sqlite"))
    #expect(refusal { try folder.push() }?.code == .invalid)
    #expect(try folder.folders.list().isEmpty)
    try folder.add()
    #expect(try folder.push().scan.created == 0)
    #expect(try bench.titles() == ["a"] && folder.files() == ["a.md"])
  }

  @Test("X28.5 a removal follows no link out of .marfa")
  func linksStay() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.push()
    try folder.disk.write("/home/ana/out/kept.md", "Kept.\n")
    try folder.disk.makeLink(folder.path(".marfa/way"), to: "/home/ana/out")
    try folder.folders.remove(folder.root)
    #expect(folder.disk.status(folder.path(".marfa")) == nil)
    #expect(folder.disk.text("/home/ana/out/kept.md") == "Kept.\n")
  }
}

private struct NoLog: Log {
  func write(_ line: String) {}
}
