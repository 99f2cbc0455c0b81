import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Files that cannot carry frontmatter keep the folder's own record (F17), and unreadable ones with two names (F10.3).
struct FormlessIdentityTests {
  static let all: JSON = ["title": "All", "search": ["types": ["core.note", "core.file"]]]

  /// Gives a file a second name.
  func link(_ machine: FolderMachine, _ path: PathBytes, _ second: PathBytes) throws {
    let root = try MemoryFileSystem(machine.disk, pid: 9).openDirectory(machine.root)
    try root.link(path, to: root, as: second)
  }

  @Test("F-S17.2 a renamed binary that is then empty is not missing; filled, its placement follows with no create")
  func renamedAndEmpty() throws {
    for isUnreadable in [false, true] {
      let desk = try Desk(Self.all)
      try desk.machine.write("pic.png", "The bytes")
      _ = try desk.push()
      let id = try desk.id("pic.png")
      try desk.machine.rename("pic.png", to: "moved.png")
      if isUnreadable {
        try desk.machine.disk.setMode(desk.machine.at("moved.png"), 0)
      } else {
        try desk.machine.write("moved.png", "")
      }
      try desk.machine.write("pic.png", "Another")
      let (push, _) = try desk.push()
      #expect(push.scan.missing == 0 && push.scan.created == 1, "\(push.json.compact)")
      let other = try #require(try desk.bench.ids("pic.png").first { $0 != id })
      #expect(try desk.properties(other)["blob_ref"] != desk.properties(id)["blob_ref"])
      if isUnreadable {
        try desk.machine.disk.setMode(desk.machine.at("moved.png"), 0o644)
      } else {
        try desk.machine.write("moved.png", "The bytes")
      }
      let (next, sent) = try desk.push()
      #expect(next.scan.created == 0 && sent.creates.isEmpty && next.scan.missing == 0)
      #expect(try desk.placed(id) == "moved.png" && desk.placed(other) == "pic.png")
      #expect(desk.machine.files() == ["moved.png", "pic.png"])
    }
  }

  @Test("F-S17.4 a hard link under a name the folder does not hold takes no rename away")
  func linkOutside() throws {
    let desk = try Desk(["title": "All", "search": ["types": ["core.note", "core.file"]], "ignore": ["*.bak"]])
    try desk.machine.write("a.txt", "One.\n")
    _ = try desk.push()
    let a = try desk.id("a")
    try link(desk.machine, "a.txt", "a.bak")
    try desk.machine.rename("a.txt", to: "b.txt")
    let (push, sent) = try desk.push()
    #expect(push.scan.renamed == 1 && push.scan.created == 0 && sent.creates.isEmpty)
    #expect(try desk.placed(a) == "b.txt")
  }

  @Test("F-S17.7 a folder added again over a picture, a PDF and a text makes none again; trashed elsewhere they go")
  func addedAgain() throws {
    let desk = try Desk(Self.all)
    let files = ["pic.png": "Picture", "doc.pdf": "Paper", "note.txt": "Text.\n"]
    for (name, text) in files { try desk.machine.write(name, text) }
    let empty = try desk.bench.item("empty", body: "")
    try desk.edge(empty, "in-folder", desk.folder, ["path": "empty.txt"])
    _ = try desk.push()
    let before = try desk.bench.titles()
    #expect(before.count == 4)
    try desk.machine.folders.remove(desk.machine.root)
    try desk.machine.write("new.png", "New picture")
    try desk.machine.add(desk.folder)
    let (push, sent) = try desk.push()
    #expect(push.scan.created == 1 && sent.creates.count == 1, "\(push.json.compact)")
    #expect(try desk.bench.titles().count == 5)
    #expect(try desk.push().sent.isEmpty)
    let ids = try ["pic.png", "doc.pdf", "note", "empty"].map { try desk.id($0) }
    for id in ids { try desk.trash(id) }
    let (last, _) = try desk.push()
    #expect(last.pull?.removed == 4, "\(last.json.compact)")
    #expect(desk.machine.files() == ["new.png"])
  }

  @Test(
    "F-S17.8 of an archived item outside the search and a held one with empty texts only the held takes its file back")
  func onlyHeldTakesBack() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"], "state": ["active"]]]) { bench in
      for title in ["held", "gone"] { try bench.item(Text(title), body: "") }
    }
    let (held, gone) = (try desk.id("held"), try desk.id("gone"))
    try desk.edge(held, "in-folder", desk.folder, ["path": "held.txt"])
    try desk.edge(gone, "in-folder", desk.folder, ["path": "gone.txt"])
    try desk.transition(gone, "archived")
    try desk.machine.write("held.txt", "")
    try desk.machine.write("gone.txt", "")
    let (push, _) = try desk.push()
    #expect(push.scan.created == 1, "\(push.json.compact)")
    #expect(try desk.bench.ids("held").count == 1)
    #expect(try desk.bench.ids("gone").count == 2)
    #expect(try desk.state(gone) == "archived")
  }

  @Test("F-S10.3 an unreadable file hard-linked and renamed is not missing, and both paths are flagged")
  func unreadableLinked() throws {
    let desk = try Desk()
    try desk.machine.write("A.md", "Words.\n")
    _ = try desk.push()
    let id = try desk.id("A")
    try desk.machine.write("A.md", try desk.machine.need("A.md").replacing("tier: library", with: "tier: [library"))
    try link(desk.machine, "A.md", "B.md")
    try desk.machine.rename("A.md", to: "C.md")
    let scan = try desk.machine.scan()
    #expect(scan.missing == 0, "\(scan.json.compact)")
    #expect(scan.flagged.flags("B.md") == ["unreadable"] && scan.flagged.flags("C.md") == ["unreadable"])
    desk.machine.grace()
    _ = try desk.push()
    #expect(try desk.state(id) == "active")
  }

  @Test(
    "F-S17.3 a file made elsewhere after a delete is new; of a hard link neither path is followed; back, it keeps its item"
  )
  func neitherFollowed() throws {
    let desk = try Desk(Self.all)
    try desk.machine.write("a.txt", "One.\n")
    try desk.machine.write("b.txt", "Two.\n")
    try desk.machine.write("stays.txt", "Three.\n")
    _ = try desk.push()
    let (a, b) = (try desk.id("a"), try desk.id("b"))
    try desk.machine.delete("a.txt")
    try desk.machine.write("new.txt", "One.\n")
    let (push, _) = try desk.push()
    #expect(push.scan.created == 1 && push.scan.missing == 1 && push.scan.renamed == 0)
    #expect(try desk.id("new") != a)
    // Two names of one file, neither at the bound path.
    try link(desk.machine, "b.txt", "c.txt")
    try desk.machine.rename("b.txt", to: "d.txt")
    let scan = try desk.machine.scan()
    #expect(scan.renamed == 0 && scan.missing == 2)
    try desk.machine.rename("d.txt", to: "b.txt")
    let back = try desk.machine.scan()
    // `a.txt`, and the new item the scan before made of `d.txt`.
    #expect(back.missing == 2, "\(back.json.compact)")
    desk.machine.grace()
    _ = try desk.push()
    #expect(try desk.state(b) == "active" && desk.placed(b) == "b.txt")
  }
}
