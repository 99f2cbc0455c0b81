import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// The folder's own writes (F20).
struct LandingScenarioTests {
  func held(_ titles: [Text] = ["A"]) throws -> Desk {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"]]]) { bench in
      for title in titles { try bench.item(title, body: "Words.\n") }
    }
    _ = try desk.push()
    return desk
  }

  @Test("F-S20.1 a file the pull wrote is unchanged to the scan; edited by a person, updated")
  func echo() throws {
    let desk = try Desk()
    let id = try desk.bench.item("A", body: "Words.\n")
    _ = try desk.machine.folders.working(desk.machine.root, "catch-up") { try $0.fill(try $0.facts().slice) }
    #expect(try desk.machine.pull().written == 1)
    let scan = try desk.machine.scan()
    #expect(scan.unchanged == 1 && scan.updated == 0 && scan.created == 0)
    try desk.machine.edit("A.md", "Words.", "Mine.")
    #expect(try desk.machine.scan().updated == 1)
    _ = try desk.push()
    #expect(try desk.properties(id)["body"] == "Mine.\n")
  }

  @Test("F-S20.2 a rewrite is a new inode with its attributes kept, no temporary file left and nothing sent")
  func rewrite() throws {
    let desk = try held()
    let id = try desk.id("A")
    let path = desk.machine.at("A.md")
    try desk.machine.disk.setAttribute(path, "user.colour", Array("red".utf8))
    try desk.machine.disk.setMode(path, 0o640)
    let before = try #require(desk.machine.disk.status(path))
    try desk.patch(id, ["properties": ["body": "Theirs.\n"]])
    let (push, sent) = try desk.push()
    #expect(push.pull?.rewritten == 1 && sent.isEmpty)
    let after = try #require(desk.machine.disk.status(path))
    #expect(after.inode != before.inode && after.mode == 0o640)
    let file = try MemoryFileSystem(desk.machine.disk, pid: 9).openDirectory(desk.machine.root).open("A.md")
    #expect(try file.attributes().contains { $0.name == "user.colour" && $0.value == Array("red".utf8) })
    #expect(desk.machine.files() == ["A.md"])
    #expect(try desk.push().sent.isEmpty)
  }

  /// The process dies as the file of a name is about to land.
  func crashing(at name: PathBytes) -> Faults {
    Faults { call in call.operation == .rename && call.name.name == name ? .crash : .proceed }
  }

  @Test(
    "F-S20.3 a crash before a rewrite of a .txt lands: in step, nothing sent, the new text written, no temporary left")
  func crashBeforeRewrite() throws {
    let desk = try Desk()
    try desk.machine.write("a.txt", "Plain.\n")
    _ = try desk.push()
    let id = try desk.id("a")
    try desk.patch(id, ["properties": ["body": "Theirs.\n"]])
    desk.machine.faults = crashing(at: "a.txt")
    _ = try? desk.machine.push()
    #expect(desk.machine.faults?.crashed == true)
    desk.machine.restart()
    #expect(try desk.machine.need("a.txt") == "Plain.\n")
    #expect(desk.machine.files().count == 2, "the temporary file is there")
    #expect(try desk.machine.standing("a.txt")?.state == .inStep)
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.scan.updated == 0)
    #expect(try desk.machine.need("a.txt") == "Theirs.\n")
    #expect(desk.machine.files() == ["a.txt"])
    #expect(try desk.properties(id)["body"] == "Theirs.\n")
  }

  @Test("F-S20.4 a crash before a new file lands: nothing missing or deleted, and the file is written")
  func crashBeforeNew() throws {
    let desk = try held()
    let id = try desk.bench.item("New", body: "New.\n")
    desk.machine.faults = crashing(at: "New.md")
    _ = try? desk.machine.push()
    #expect(desk.machine.faults?.crashed == true)
    desk.machine.restart()
    #expect(desk.machine.text("New.md") == nil)
    desk.machine.grace()
    let (push, _) = try desk.push()
    #expect(push.scan.missing == 0 && push.scan.deleted == 0)
    #expect(push.pull?.written == 1)
    #expect(try desk.machine.body("New.md") == "New.\n")
    #expect(desk.machine.files() == ["A.md", "New.md"])
    desk.machine.grace()
    _ = try desk.push()
    #expect(try desk.state(id) == "active")
  }

  /// A person's act as a file of a name is about to land.
  func atLastLook(_ name: PathBytes, _ point: FaultPoint = .lastLook, _ act: @escaping @Sendable () throws -> Void)
    -> FaultDoor
  {
    FaultDoor { (at, file, _) throws(FileError) in
      guard at == point, file == name else { return }
      do { try act() } catch {
        throw FileError(code: 5, operation: "act", path: file)
      }
    }
  }

  @Test("F-S20.5 a file that appears at an absent target after the check stays, and nothing is bound there")
  func appears() throws {
    let desk = try held()
    let first = try desk.bench.item("First", body: "First.\n")
    try desk.bench.item("Second", body: "Second.\n")
    let (disk, path) = (desk.machine.disk, desk.machine.at("First.md"))
    desk.machine.door = atLastLook("First.md", .rename) { try disk.write(path, "The person's.\n") }
    let (push, _) = try desk.push()
    desk.machine.door = .none
    #expect(push.pull?.unwritten == 1 && push.pull?.written == 1, "\(push.json.compact)")
    #expect(try desk.machine.need("First.md") == "The person's.\n")
    #expect(try desk.machine.body("Second.md") == "Second.\n")
    #expect(desk.machine.files() == ["A.md", "First.md", "Second.md"])
    #expect(
      try desk.machine.folders.working(desk.machine.root, "look") { try $0.store.binding(of: first) } == nil)
    try desk.machine.delete("First.md")
    let (next, _) = try desk.push()
    #expect(next.pull?.written == 1 && next.scan.missing == 0)
    #expect(try desk.machine.body("First.md") == "First.\n")
  }

  @Test("F-S20.6 a landing that fails over another item's journaled path leaves that binding and its delete")
  func overJournaledPath() throws {
    let desk = try held(["A", "B"])
    let a = try desk.id("A")
    try desk.machine.delete("A.md")
    #expect(try desk.push().report.scan.missing == 1)
    let other = try desk.bench.item("Other", body: "Other.\n")
    try desk.edge(other, "in-folder", desk.folder, ["path": "A.md"])
    desk.machine.faults = Faults.failing(.rename, name: "A.md", code: 28)
    _ = try desk.push()
    desk.machine.faults = nil
    let binding = try desk.machine.folders.working(desk.machine.root, "look") { try $0.store.binding(of: a) }
    #expect(binding?.path == "A.md" && binding?.missingSince != nil)
    desk.machine.grace()
    let (push, _) = try desk.push()
    #expect(push.scan.deleted == 1 && push.scan.trashed == ["A.md"])
    _ = try desk.push()
    #expect(try desk.state(a) == "trashed")
    #expect(try desk.machine.body("A.md") == "Other.\n")
  }

  @Test("F-S20.8 a crash before the settings file lands sends no edit, and the file is written")
  func crashBeforeSettings() throws {
    let desk = try held()
    try desk.bench.ask("PATCH", "/folders/\(desk.folder)", ["version": 1, "title": "Renamed"])
    desk.machine.faults = crashing(at: "folder.yaml")
    _ = try? desk.machine.push()
    #expect(desk.machine.faults?.crashed == true)
    desk.machine.restart()
    #expect(try !desk.machine.need(".marfa/folder.yaml").contains("Renamed"))
    let (push, sent) = try desk.push()
    #expect(
      sent.isEmpty && push.settings.sent == false && push.settings.written == true && push.settings.flagged == nil)
    #expect(try desk.machine.need(".marfa/folder.yaml").contains("title: Renamed"))
    #expect(try desk.properties(desk.folder)["title"] == "Renamed")
  }

  @Test("F-S20.11 a read-only document changed elsewhere is unwritten; made writable, it is written")
  func readOnly() throws {
    let desk = try held()
    let id = try desk.id("A")
    try desk.machine.disk.setMode(desk.machine.at("A.md"), 0o444)
    try desk.patch(id, ["properties": ["body": "Theirs.\n"]])
    let (push, sent) = try desk.push()
    #expect(push.pull?.unwritten == 1 && sent.isEmpty)
    #expect(push.pull?.flagged.flags("A.md") == ["unwritten"])
    #expect(try desk.machine.body("A.md") == "Words.\n")
    try desk.machine.disk.setMode(desk.machine.at("A.md"), 0o644)
    let (next, nothing) = try desk.push()
    #expect(next.pull?.rewritten == 1 && nothing.isEmpty)
    #expect(try desk.machine.body("A.md") == "Theirs.\n")
  }

  @Test(
    "F-S20.13 where neither a no-replace rename nor a hard link can be had the item is unwritten, others are rewritten")
  func noSafeRename() throws {
    let desk = try held()
    let a = try desk.id("A")
    try desk.bench.item("New", body: "New.\n")
    try desk.patch(a, ["properties": ["body": "Theirs.\n"]])
    var features = MemoryDisk.Features()
    features.noReplace = false
    features.links = false
    desk.machine.disk.setFeatures(features)
    let (push, _) = try desk.push()
    #expect(push.pull?.unwritten == 1 && push.pull?.written == 0 && push.pull?.rewritten == 1, "\(push.json.compact)")
    #expect(push.pull?.flagged.flags("New.md") == ["unwritten"])
    #expect(desk.machine.files() == ["A.md"])
    #expect(try desk.machine.body("A.md") == "Theirs.\n")
    features.links = true
    desk.machine.disk.setFeatures(features)
    let (next, _) = try desk.push()
    #expect(next.pull?.written == 1 && next.scan.missing == 0)
    #expect(try desk.machine.body("New.md") == "New.\n")
    #expect(desk.machine.files() == ["A.md", "New.md"])
  }
}
