import FolderSync
import Glibc
import MarfaBase
import MarfaCopy
import Synchronization
import TestSupport
import Testing

/// What the folder writes into the person's directory (X14 to X16, X23 to X25).
struct LandedScenarios {
  func held(_ titles: [Text] = ["A"], features: MemoryDisk.Features = .init()) throws -> KeptFolder {
    let bench = try FolderBench()
    for title in titles { try bench.item(title, body: "Words.\n") }
    let folder = try KeptFolder(bench, machine: bench.machine(features: features))
    try folder.push()
    return folder
  }

  /// Everything below the root but the store, temporary files included.
  func all(_ folder: KeptFolder) -> [String] {
    folder.disk.tree(folder.root).map(\.path.description).filter {
      !$0.contains("core.") && !$0.contains("folder.yaml")
    }
  }

  func door(_ point: FaultPoint, _ name: PathBytes, _ act: @escaping @Sendable () throws(FileError) -> Void)
    -> FaultDoor
  {
    FaultDoor { (at, file, _) throws(FileError) in
      if at == point, file == name { try act() }
    }
  }

  @Test(
    "X-S32 a file changed between the decision and the last look keeps the person's bytes; the next pass sees an edit")
  func changedMeanwhile() throws {
    let folder = try held()
    let item = try folder.bench.id("A")
    let before = try #require(folder.text("A.md"))
    let mine = before.replacing("Words.", with: "Words.\n\nMine.")
    try folder.bench.edit(item, ["title": "A", "body": "Words.\n", "subtitle": "Theirs"])
    let (disk, path) = (folder.disk, folder.path("A.md"))
    folder.machine.door = door(.lastLook, "A.md") { () throws(FileError) in try disk.save(path, Array(mine.utf8)) }
    let push = try folder.push()
    folder.machine.door = .none
    #expect(push.pull?.unwritten == 1 && push.pull?.rewritten == 0, "\(push.json.compact)")
    #expect(folder.text("A.md") == mine && all(folder) == ["A.md"])
    let next = try folder.push()
    #expect(next.scan.updated == 1)
    #expect(try folder.bench.body(item) == "Words.\n\nMine.\n")
    #expect(folder.text("A.md")?.contains("subtitle: Theirs") == true)
  }

  enum Thing: CaseIterable { case file, directory, link }

  @Test("X-S33 what appears at an absent target stays: a file, a directory, a dangling link", arguments: Thing.allCases)
  func appears(_ thing: Thing) throws {
    let folder = try held()
    let item = try folder.bench.item("New", body: "New.\n")
    let (disk, path) = (folder.disk, folder.path("New.md"))
    folder.machine.door = door(.rename, "New.md") { () throws(FileError) in
      switch thing {
      case .file: try disk.write(path, "Mine.\n")
      case .directory: try disk.makeDirectory(path)
      case .link: try disk.makeLink(path, to: "/nowhere")
      }
    }
    let push = try folder.push()
    folder.machine.door = .none
    #expect(push.pull?.unwritten == 1 && push.pull?.written == 0)
    #expect(push.pull?.flagged.contains { $0.flag == "unwritten" && $0.item == item.description } == true)
    switch thing {
    case .file: #expect(folder.text("New.md") == "Mine.\n")
    case .directory: #expect(disk.status(path)?.kind == .directory)
    case .link: #expect(disk.status(path)?.kind == .link && disk.status("/nowhere") == nil)
    }
    #expect(all(folder) == (thing == .file ? ["A.md", "New.md"] : ["A.md"]))
    try folder.push()
    if thing == .file {
      // The person's own is an item of its own; the other goes beside.
      #expect(folder.text("New.md")?.hasSuffix("Mine.\n") == true)
      #expect(folder.text("New (2).md")?.hasSuffix("New.\n") == true)
    } else {
      #expect(disk.status(path)?.kind == (thing == .link ? .link : .directory))
    }
  }

  @Test(
    "F20.6, P1.4 a link or directory put in a file's place before its landing stays there, is told, and leaves nothing",
    arguments: [Thing.directory, .link])
  func takesItsPlace(_ thing: Thing) throws {
    var features = MemoryDisk.Features()
    features.reusesInodes = true
    let folder = try held(features: features)
    let item = try folder.bench.id("A")
    try folder.bench.edit(item, ["body": "Theirs.\n"])
    let (disk, path) = (folder.disk, folder.path("A.md"))
    folder.machine.door = door(.rename, "A.md") { () throws(FileError) in
      try disk.delete(path)
      if thing == .link { try disk.makeLink(path, to: "/nowhere") } else { try disk.makeDirectory(path) }
    }
    let push = try folder.push()
    folder.machine.door = .none
    #expect(push.pull?.unwritten == 1 && push.pull?.rewritten == 0, "\(push.json.compact)")
    #expect(push.pull?.flagged.contains { $0.flag == "unwritten" && $0.item == item.description } == true)
    for _ in 0..<2 {
      #expect(disk.status(path)?.kind == (thing == .link ? .link : .directory) && disk.status("/nowhere") == nil)
      let names = try MemoryFileSystem(disk).openDirectory(folder.root).list().map(\.name)
      #expect(names.sorted() == [".marfa", "A.md"], "\(names)")
      try folder.push()
    }
    // The words are the item's, whatever became of its file.
    #expect(try folder.bench.body(item) == "Theirs.\n")
  }

  @Test(
    "P1.4, F20.4 killed while a link displaced by a landing is put back, the next pass puts it back and leaves nothing")
  func killedWithALink() throws {
    let folder = try held()
    let item = try folder.bench.id("A")
    try folder.bench.edit(item, ["body": "Theirs.\n"])
    let (disk, path) = (folder.disk, folder.path("A.md"))
    folder.machine.door = door(.rename, "A.md") { () throws(FileError) in
      try disk.delete(path)
      try disk.makeLink(path, to: "/nowhere")
    }
    let renames = Mutex(0)
    folder.machine.faults = Faults { call in
      guard call.operation == .rename, call.name.name == "A.md" else { return .proceed }
      return renames.withLock { count in
        count += 1
        return count == 2 ? .crash : .proceed
      }
    }
    _ = try? folder.push()
    #expect(folder.machine.faults?.crashed == true)
    #expect(disk.status(path)?.kind == .regular)
    folder.machine.restart()
    for _ in 0..<2 {
      try folder.push()
      #expect(disk.status(path)?.kind == .link && disk.status("/nowhere") == nil)
      let names = try MemoryFileSystem(disk).openDirectory(folder.root).list().map(\.name)
      #expect(names.sorted() == [".marfa", "A.md"], "\(names)")
    }
    #expect(try folder.bench.body(item) == "Theirs.\n")
  }

  @Test("X-S34 a rewrite keeps mode and attributes; a read-only file is not replaced")
  func kept() throws {
    let folder = try held(["A", "B"])
    for name in ["A.md", "B.md"] { try folder.disk.setAttribute(folder.path(name), "user.note", Array("x".utf8)) }
    try folder.disk.setMode(folder.path("A.md"), 0o640)
    try folder.disk.setMode(folder.path("B.md"), 0o444)
    for title in ["A", "B"] { try folder.bench.edit(try folder.bench.id(title), ["body": "Theirs.\n"]) }
    let push = try folder.push()
    #expect(push.pull?.rewritten == 1 && push.pull?.unwritten == 1)
    #expect(folder.disk.status(folder.path("A.md"))?.mode == 0o640)
    let root = try MemoryFileSystem(folder.disk, pid: 9).openDirectory(folder.root)
    #expect(try root.open("A.md").attributes().map { $0.name } == ["user.note"])
    #expect(try root.open("A.md").attributes().map { $0.value } == [Array("x".utf8)])
    #expect(folder.text("A.md")?.hasSuffix("Theirs.\n") == true)
    #expect(folder.text("B.md")?.hasSuffix("Words.\n") == true)
    #expect(folder.disk.status(folder.path("B.md"))?.mode == 0o444)
    #expect(push.pull?.flagged.first { $0.path == "B.md" }?.flag == "unwritten")
  }

  enum Crash: CaseIterable { case beforeRename, afterRename, thenEdited }

  @Test(
    "X-S35 a landing a crash cut off sends nothing and is finished; a person's edit after it is sent",
    arguments: Crash.allCases)
  func crashed(_ crash: Crash) throws {
    let folder = try held()
    let item = try folder.bench.id("A")
    try folder.bench.edit(item, ["body": "Theirs.\n"])
    let renamed = Mutex(false)
    folder.machine.faults = Faults { call in
      if renamed.withLock({ $0 }) { return .crash }
      guard call.operation == .rename, call.name.name == "A.md" else { return .proceed }
      if crash == .afterRename {
        renamed.withLock { $0 = true }
        return .proceed
      }
      return .crash
    }
    _ = try? folder.push()
    #expect(folder.machine.faults?.crashed == true)
    folder.machine.restart()
    #expect(folder.text("A.md")?.hasSuffix(crash == .afterRename ? "Theirs.\n" : "Words.\n") == true)
    if crash == .thenEdited { try folder.append("A.md", "\nMine.\n") }
    folder.bench.transport.clear()
    let push = try folder.push()
    switch crash {
    case .beforeRename:
      #expect(push.scan.updated == 0 && folder.bench.writes.isEmpty && push.pull?.rewritten == 1)
      #expect(folder.text("A.md")?.hasSuffix("Theirs.\n") == true)
    case .afterRename:
      #expect(push.scan.updated == 0 && folder.bench.writes.isEmpty)
      #expect(push.pull?.rewritten == 0 && push.pull?.written == 0)
      #expect(folder.text("A.md")?.hasSuffix("Theirs.\n") == true)
    case .thenEdited:
      #expect(push.scan.updated == 1 && folder.bench.writes.contains { $0.hasPrefix("PATCH /items/\(item)") })
      try folder.push()
      let texts = try folder.files().map { try #require(folder.text($0)) }
      #expect(texts.contains { $0.contains("Mine.") } && texts.contains { $0.contains("Theirs.") })
    }
    #expect(!all(folder).contains { $0.hasSuffix(".tmp") })
    #expect(try folder.push().scan.updated == 0)
  }

  @Test("X-S36 a scan takes left-over temporary files of dead writers away, and no others")
  func leftOver() throws {
    let folder = try held()
    let running = MemoryFileSystem(folder.disk, pid: 77, start: 5)
    let gone = [".marfa-9999-3.tmp", "sub/.marfa-9999-3-1.tmp", ".marfa-77-4-3.tmp"]
    let stays = [".marfa-77-3.tmp", ".marfa-77-5-3.tmp"]
    for name in gone + stays { try folder.write(name, "Half.\n") }
    let scan = try folder.scan()
    #expect(scan.created == 0 && scan.flagged.isEmpty)
    #expect(Set(all(folder)) == Set(stays + ["A.md"]))
    folder.disk.kill(pid: 77)
    try folder.scan()
    #expect(all(folder) == ["A.md"])
    withExtendedLifetime(running) {}
  }

  @Test("X-S37 a name that is not of the very form is never removed")
  func otherNames() throws {
    let folder = try held()
    let names = [".marfa-1x-3.tmp", "notes.tmp", ".marfa-9-.tmp", ".marfa-9.tmp", ".marfa--3.tmp", ".marfa-9-3.tmp.md"]
    for name in names { try folder.write(name, "Mine.\n") }
    try folder.disk.makeDirectory(folder.path(".marfa-9-4.tmp"))
    #expect(folder.text("A.md")?.hasSuffix("Words.\n") == true)
    for _ in 0..<2 { try folder.push() }
    for name in names { #expect(folder.text(name)?.hasSuffix("Mine.\n") == true, "\(name)") }
    #expect(folder.disk.status(folder.path(".marfa-9-4.tmp"))?.kind == .directory)
  }

  @Test("X-S38 a directory replaced by a link out of the root just before a landing: nothing is written outside")
  func replacedByLink() throws {
    for point in [FaultPoint.attributes, .lastLook, .rename] {
      let folder = try held()
      try folder.disk.makeDirectory("/home/ana/out")
      let item = try folder.bench.item("New")
      try folder.bench.place(item, in: folder.id, at: "sub/New.md")
      let (disk, sub) = (folder.disk, folder.path("sub"))
      folder.machine.door = door(point, "New.md") { () throws(FileError) in
        if disk.status(sub)?.kind != .directory { return }
        try disk.delete(sub)
        try disk.makeLink(sub, to: "/home/ana/out")
      }
      let push = try folder.push()
      folder.machine.door = .none
      #expect(push.pull?.written == 0)
      #expect(disk.tree("/home/ana/out").isEmpty && all(folder) == ["A.md"])
      let next = try folder.push()
      #expect(next.pull?.outside == 1 && disk.tree("/home/ana/out").isEmpty)
    }
  }

  @Test("X-S39 a full disk leaves the target whole and no temporary, and says so; with room again the pull goes on")
  func full() throws {
    let folder = try held(["A", "B"])
    let before = folder.text("A.md")
    for title in ["A", "B"] { try folder.bench.edit(try folder.bench.id(title), ["body": "Theirs.\n"]) }
    folder.disk.setFreeBytes(4)
    let push = try folder.push()
    #expect(push.pull?.rewritten == 0 && push.pull?.unwritten == 2)
    #expect(push.pull?.flagged.allSatisfy { $0.flag == "unwritten" && $0.reason.contains("disk is full") } == true)
    #expect(folder.text("A.md") == before && all(folder) == ["A.md", "B.md"])
    folder.disk.setFreeBytes(nil)
    #expect(try folder.push().pull?.rewritten == 2)
    #expect(folder.text("A.md")?.hasSuffix("Theirs.\n") == true)
  }

  @Test("X-S64 of Plan.md and plan.md one is the file, the other is held by its name")
  func oneName() throws {
    let folder = try held()
    try folder.write("Plan.md", "Upper.\n")
    try folder.write("plan.md", "Lower.\n")
    let push = try folder.push()
    #expect(push.scan.created == 1)
    #expect(push.scan.flagged.map(\.path) == ["plan.md"] && push.scan.flagged.map(\.flag) == ["name"])
    let item = try #require(try folder.bench.ids("Plan").first)
    #expect(try folder.bench.body(item) == "Upper.\n" && folder.bench.ids("plan").isEmpty)
    #expect(folder.text("plan.md") == "Lower.\n")
    let held = try #require(try folder.status(of: "plan.md"))
    #expect(held.state == .held && held.flag == "name")
    // The one that is bound stays taken, whichever comes first.
    try folder.delete("Plan.md")
    try folder.push()
    folder.grace()
    try folder.push()
    #expect(try folder.bench.body(try folder.bench.id("plan")) == "Lower.\n")
  }

  func executable(_ bench: FolderBench, _ item: EntityID) throws -> Bool? {
    try bench.row(item)["item"]?["properties"]?["executable"]?.bool
  }

  @Test("X-S65 where permissions are not kept, an execute bit is neither sent nor set")
  func noPermissions() throws {
    let bench = try FolderBench()
    let run = try bench.file(
      "run.sh", [1], type: "core.file", mime: "application/x-sh", more: JSONObject([("executable", true)]))
    let plain = try bench.file("plain.sh", [3], type: "core.file", mime: "application/x-sh")
    var features = MemoryDisk.Features()
    features.modes = false
    let folder = try KeptFolder(bench, BytesScenarios.all, machine: bench.machine(features: features))
    try folder.write("mine.sh", bytes: [2])
    try folder.push()
    try folder.push()
    #expect(folder.files() == ["mine.sh", "plain.sh", "run.sh"])
    for name in folder.files() { #expect(folder.disk.status(folder.path(name))?.mode == 0o755) }
    #expect(try executable(bench, run) == true)
    #expect(try executable(bench, plain) == nil)
    #expect(try executable(bench, try bench.id("mine.sh")) == nil)
    bench.transport.clear()
    try folder.write("mine.sh", bytes: [2, 2])
    try folder.push()
    #expect(try executable(bench, try bench.id("mine.sh")) == nil)
    #expect(folder.disk.status(folder.path(".marfa/.permission-probe")) == nil)
  }

  @Test("X-S66 an execute bit of a file 0640 makes it 0750; cleared, it is 0640 again")
  func executeBits() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, BytesScenarios.all)
    try folder.write("run.sh", bytes: [1])
    try folder.disk.setMode(folder.path("run.sh"), 0o640)
    try folder.push()
    let item = try bench.id("run.sh")
    // Bytes and bit together, so that the file is replaced.
    let bytes: [UInt8] = [1, 2]
    let hash = try bench.upload(bytes, mime: "application/x-sh")
    try bench.edit(item, ["executable": true, "blob_ref": .string(hash.text)])
    try folder.push()
    #expect(folder.bytes("run.sh") == bytes)
    #expect(folder.disk.status(folder.path("run.sh"))?.mode == 0o750)
    try bench.edit(item, ["executable": false])
    try folder.push()
    #expect(folder.disk.status(folder.path("run.sh"))?.mode == 0o640)
    #expect(try folder.push().drain.drain.answered == 0)
  }

  @Test("X-S74 with something of the probe's name there, no permission is read or written, and it is left")
  func probe() throws {
    let bench = try FolderBench()
    let run = try bench.file(
      "run.sh", [1], type: "core.file", mime: "application/x-sh", more: JSONObject([("executable", true)]))
    let folder = try KeptFolder(bench, BytesScenarios.all)
    try folder.write(".marfa/.permission-probe", "Mine.\n")
    try folder.disk.setMode(folder.path(".marfa/.permission-probe"), 0o644)
    try folder.write("mine.sh", bytes: [2])
    try folder.disk.setMode(folder.path("mine.sh"), 0o755)
    try folder.push()
    #expect(try executable(bench, try bench.id("mine.sh")) == nil)
    #expect((folder.disk.status(folder.path("run.sh"))?.mode ?? 0o777) & 0o111 == 0)
    try folder.disk.setMode(folder.path("mine.sh"), 0o644)
    #expect(try folder.push().scan.updated == 0)
    #expect(try executable(bench, run) == true)
    #expect(folder.text(".marfa/.permission-probe") == "Mine.\n")
    #expect(folder.disk.status(folder.path(".marfa/.permission-probe"))?.mode == 0o644)
  }

  @Test("X-S75 without no-replace renames an absent file lands by link, and one that appeared first stays")
  func byLink() throws {
    var features = MemoryDisk.Features()
    features.noReplace = false
    let folder = try held(features: features)
    #expect(folder.text("A.md")?.hasSuffix("Words.\n") == true)
    #expect(folder.disk.status(folder.path("A.md"))?.links == 1)
    try folder.bench.item("New", body: "New.\n")
    let (disk, path) = (folder.disk, folder.path("New.md"))
    let linked = Mutex(0)
    folder.machine.faults = Faults { call in
      if call.operation == .link, call.name == "New.md" {
        linked.withLock { $0 += 1 }
        try? disk.write(path, "Mine.\n")
      }
      return .proceed
    }
    let push = try folder.push()
    folder.machine.faults = nil
    #expect(linked.withLock { $0 } == 1 && push.pull?.unwritten == 1)
    #expect(folder.text("New.md") == "Mine.\n" && all(folder) == ["A.md", "New.md"])
    try folder.push()
    #expect(folder.text("New.md")?.hasSuffix("Mine.\n") == true)
    #expect(folder.text("New (2).md")?.hasSuffix("New.\n") == true)
  }

  @Test("X-S78 an attribute that cannot be set on the new file leaves the old one whole, the item unwritten")
  func attribute() throws {
    let folder = try held(["A", "B"])
    try folder.disk.setAttribute(folder.path("A.md"), "user.note", Array("x".utf8))
    let before = folder.bytes("A.md")
    for title in ["A", "B"] { try folder.bench.edit(try folder.bench.id(title), ["body": "Theirs.\n"]) }
    folder.machine.faults = .failing(.setAttribute, code: EOPNOTSUPP)
    let push = try folder.push()
    folder.machine.faults = nil
    #expect(push.pull?.unwritten == 1 && push.pull?.rewritten == 1)
    #expect(push.pull?.flagged.map(\.path) == ["A.md"] && push.pull?.flagged.map(\.flag) == ["unwritten"])
    #expect(folder.bytes("A.md") == before && all(folder) == ["A.md", "B.md"])
    let root = try MemoryFileSystem(folder.disk, pid: 9).openDirectory(folder.root)
    #expect(try root.open("A.md").attributes().map { $0.name } == ["user.note"])
    #expect(try folder.push().pull?.rewritten == 1)
    #expect(folder.text("A.md")?.hasSuffix("Theirs.\n") == true)
  }
}
