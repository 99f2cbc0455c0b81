import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Deletes, and a directory that is gone (F21, F22).
struct DeleteTests {
  func held(_ titles: [Text] = ["A"]) throws -> Desk {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"]]]) { bench in
      for title in titles { try bench.item(title, body: "Words.\n") }
    }
    _ = try desk.push()
    return desk
  }

  @Test("F-S21.1 a deleted file is missing and nothing is queued; back under its name nothing is ever sent")
  func deletedAndBack() throws {
    let desk = try held()
    let id = try desk.id("A")
    let text = try desk.machine.need("A.md")
    try desk.machine.delete("A.md")
    let (push, sent) = try desk.push()
    #expect(push.scan.missing == 1 && push.scan.deleted == 0 && sent.isEmpty)
    try desk.machine.write("A.md", text)
    #expect(try desk.push().sent.isEmpty)
    try desk.machine.rename("A.md", to: "B.md")
    _ = try desk.push()
    desk.machine.grace()
    let (last, nothing) = try desk.push()
    #expect(nothing.isEmpty && last.scan.missing == 0)
    #expect(try desk.state(id) == "active")
    #expect(desk.machine.files() == ["B.md"])
  }

  @Test("F-S21.2 a journaled file found under a new name by identity sends no delete past the grace")
  func foundUnderNewName() throws {
    let desk = try Desk()
    try desk.machine.write("a.txt", "Plain.\n")
    _ = try desk.push()
    let id = try desk.id("a")
    // The first half of a move: out of sight, then back under another name.
    try desk.machine.disk.rename(desk.machine.at("a.txt"), to: "/home/ana/away.txt")
    #expect(try desk.push().report.scan.missing == 1)
    try desk.machine.disk.rename("/home/ana/away.txt", to: desk.machine.at("b.txt"))
    let (push, sent) = try desk.push()
    #expect(push.scan.missing == 0 && push.scan.created == 0 && push.scan.renamed == 1)
    #expect(sent.count == 1)
    desk.machine.grace()
    #expect(try desk.push().sent.isEmpty)
    #expect(try desk.state(id) == "active" && desk.placed(id) == "b.txt")
  }

  @Test("F-S21.3 a journaled file back under its own name sends no delete past the grace")
  func backUnderOwnName() throws {
    let desk = try held()
    let id = try desk.id("A")
    let text = try desk.machine.need("A.md")
    try desk.machine.delete("A.md")
    #expect(try desk.push().report.scan.missing == 1)
    desk.machine.grace()
    try desk.machine.write("A.md", text)
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.scan.missing == 0 && push.scan.deleted == 0)
    #expect(try desk.state(id) == "active")
    #expect(try desk.machine.need("A.md") == text)
  }

  @Test("F-S21.4 of journaled files archived and trashed elsewhere only the archived one's item is deleted")
  func archivedAndTrashed() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"], "state": ["active"]]]) { bench in
      for title in ["Archived", "Trashed", "Stays"] { try bench.item(Text(title)) }
    }
    _ = try desk.push()
    let (archived, trashed) = (try desk.id("Archived"), try desk.id("Trashed"))
    try desk.machine.delete("Archived.md")
    try desk.machine.delete("Trashed.md")
    try desk.transition(archived, "archived")
    try desk.trash(trashed)
    #expect(try desk.push().report.scan.missing == 2)
    let waits = try desk.machine.standing("Trashed.md")?.waits ?? []
    #expect(!waits.contains(.delete))
    desk.machine.grace()
    let (push, sent) = try desk.push()
    #expect(push.scan.deleted == 1 && push.scan.trashed == ["Archived.md"])
    #expect(sent.filter { $0.method == "DELETE" && $0.target.hasPrefix("/items/") }.map { $0.isOf(archived) } == [true])
    _ = try desk.push()
    #expect(try desk.state(archived) == "trashed")
    #expect(try desk.placement(archived) == nil)
    #expect(try desk.placement(trashed) == nil)
    #expect(desk.machine.files() == ["Stays.md"])
  }

  @Test("F-S21.5 a journaled file changed elsewhere in its body is written back, and no delete is sent")
  func writtenBack() throws {
    let desk = try held()
    let id = try desk.id("A")
    try desk.machine.delete("A.md")
    #expect(try desk.push().report.scan.missing == 1)
    try desk.patch(id, ["properties": ["body": "Theirs.\n"]])
    let (push, sent) = try desk.push()
    #expect(push.pull?.revived == 1 && push.pull?.written == 0 && sent.isEmpty)
    #expect(try desk.machine.body("A.md") == "Theirs.\n")
    desk.machine.grace()
    let (last, nothing) = try desk.push()
    #expect(nothing.isEmpty && last.scan.missing == 0)
    #expect(try desk.state(id) == "active")
  }

  @Test("F-S21.6 a bare version step revives no journaled file, restyled or a .txt like YAML")
  func bareStep() throws {
    let desk = try Desk()
    try desk.machine.write("A.md", "---\r\ntitle: 'A'  # mine\r\nlist: [1, 2]\r\n---\r\nWords.\r\n")
    try desk.machine.write("yaml.txt", "---\nkey: value\n---\n")
    try desk.machine.write("Stays.md", "Stays.\n")
    _ = try desk.push()
    let (a, yaml) = (try desk.id("A"), try desk.id("yaml"))
    try desk.machine.edit("A.md", "title: 'A'", "title: \"A\"")
    #expect(try desk.push().sent.isEmpty)
    try desk.machine.delete("A.md")
    try desk.machine.delete("yaml.txt")
    #expect(try desk.push().report.scan.missing == 2)
    for id in [a, yaml] { try desk.patch(id, ["properties": ["references": "no file shows it"]]) }
    let (pushed, _) = try desk.push()
    #expect(pushed.pull?.revived == 0 && pushed.pull?.written == 0)
    #expect(desk.machine.files() == ["Stays.md"])
    desk.machine.grace()
    let (push, _) = try desk.push()
    #expect(push.scan.deleted == 2 && push.scan.trashed == ["A.md", "yaml.txt"])
    #expect(try desk.state(a) == "trashed" && desk.state(yaml) == "trashed")
  }

  @Test("F-S21.7 another item placed at a journaled file's path is written there and the delete is still sent")
  func anotherAtThePath() throws {
    let desk = try held()
    let id = try desk.id("A")
    try desk.machine.delete("A.md")
    #expect(try desk.push().report.scan.missing == 1)
    let other = try desk.bench.item("Other", body: "Other.\n")
    try desk.edge(other, "in-folder", desk.folder, ["path": "A.md"])
    desk.machine.grace()
    _ = try desk.push()
    let (_, _) = try desk.push()
    #expect(try desk.machine.body("A.md") == "Other.\n")
    #expect(try desk.state(id) == "trashed")
    #expect(try desk.state(other) == "active")
  }

  @Test("F-S22.1 a file deleted while nothing ran is journaled at the start")
  func deletedWhileNotRunning() throws {
    let desk = try held(["A", "B"])
    let id = try desk.id("A")
    desk.machine.restart()
    try desk.machine.delete("A.md")
    desk.machine.grace()
    let (push, sent) = try desk.push()
    #expect(push.scan.missing == 1 && push.scan.deleted == 0 && sent.isEmpty)
    #expect(try desk.state(id) == "active")
    desk.machine.grace()
    #expect(try desk.push().report.scan.deleted == 1)
    #expect(try desk.state(id) == "trashed")
  }

  @Test("F-S22.4 the directory moved away during a pull: unwritten and nothing made; back, it is written")
  func movedAwayDuringPull() throws {
    let desk = try held()
    try desk.bench.item("New", body: "New.\n")
    let (disk, root) = (desk.machine.disk, desk.machine.root)
    let away: PathBytes = "/home/ana/Away"
    let moved = Flag1()
    desk.machine.door = FaultDoor { (point, name, _) throws(FileError) in
      guard point == .sync, moved.first() else { return }
      try disk.rename(root, to: away)
    }
    let push = try desk.machine.push()
    #expect((push.pull?.unwritten ?? 0) == 1, "\(push.json.compact)")
    #expect(disk.status(root) == nil)
    #expect(
      disk.tree(away).filter { !$0.path.description.hasPrefix(".marfa/") && !$0.path.description.contains("/.marfa/") }
        .map { $0.path.name.description } == ["A.md"])
    desk.machine.restart()
    try disk.rename(away, to: root)
    let (later, _) = try desk.push()
    #expect(later.pull?.written == 1)
    #expect(desk.machine.files() == ["A.md", "New.md"])
    #expect(later.scan.missing == 0)
  }

  @Test("F-S22.5 a directory that vanishes while walked is gone, with nothing missing and no overdue delete")
  func vanishesWhileWalked() throws {
    let desk = try Desk()
    try desk.machine.write("sub/Inner.md", "Inner.\n")
    try desk.machine.write("early/First.md", "First.\n")
    try desk.machine.write("Due.md", "Due.\n")
    try desk.machine.write("Stays.md", "Stays.\n")
    _ = try desk.push()
    let (inner, due, first) = (try desk.id("Inner"), try desk.id("Due"), try desk.id("First"))
    try desk.machine.delete("Due.md")
    #expect(try desk.push().report.scan.missing == 1)
    desk.machine.grace()
    let (disk, sub) = (desk.machine.disk, desk.machine.at("sub"))
    desk.machine.door = FaultDoor { (point, name, _) throws(FileError) in
      if point == .walk, name == "sub" { try? disk.delete(sub) }
    }
    desk.machine.faults = Faults { call in
      if call.operation == .openDirectory, call.name.name == "sub" { try? disk.delete(sub) }
      return .proceed
    }
    let (push, sent) = try desk.push()
    #expect(push.scan.directories.flags("sub") == ["gone"], "\(push.scan.json.compact)")
    #expect(push.scan.deleted == 0 && sent.isEmpty)
    #expect(try desk.state(due) == "active")
    desk.machine.restart()
    let (next, _) = try desk.push()
    #expect(next.scan.deleted == 1 && next.scan.trashed == ["Due.md"] && next.scan.missing == 1)
    #expect(try desk.state(due) == "trashed" && desk.state(inner) == "active")
    // One gone before the walk lists it is simply not there.
    try disk.delete(desk.machine.at("early"))
    #expect(try desk.push().report.scan.missing == 2)
    #expect(try desk.state(first) == "active")
  }
}

/// Says yes once. `@unchecked`: a test runs on one thread.
final class Flag1: @unchecked Sendable {
  private var said = false
  func first() -> Bool {
    defer { said = true }
    return !said
  }
}
