import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// What the local checks refuse is its file's alone: flagged on it, and every other file goes on.
struct LocallyRefusedTests {
  static let both: JSON = ["title": "Notes", "search": ["types": ["core.note", "core.file"]]]

  @Test(
    "F53.1 a bound file renamed to a path no placement holds is held by itself and told; renamed again it goes on",
    arguments: ["C:ok.md", "AC\\DC.md", "t: x.md"])
  func renamed(_ name: String) throws {
    let desk = try Desk()
    try desk.machine.write("ok.md", "Words.\n")
    for _ in 0..<2 { _ = try desk.push() }
    let id = try desk.id("ok")
    try desk.machine.disk.rename(desk.machine.at("ok.md"), to: desk.machine.at(name))
    try desk.machine.save(name, try desk.machine.need(name) + "More.\n")
    try desk.machine.write("new.md", "New.\n")
    for _ in 0..<2 {
      let (push, _) = try desk.push()
      #expect(push.scan.flagged.flags(name) == ["refused"], "\(push.json.compact)")
      #expect(push.scan.flagged.reason(name, "refused")?.contains("rename it") == true)
    }
    #expect(try desk.bench.titles().sorted() == ["new", "ok"])
    #expect(desk.machine.files().sorted() == [name, "new.md"].sorted())
    #expect(try desk.machine.standing(name)?.state == .held)
    // A change made elsewhere waits too.
    try desk.tag(id, "later")
    _ = try desk.push()
    #expect(try desk.machine.body(name) == "Words.\nMore.\n")
    try desk.machine.disk.rename(desk.machine.at(name), to: desk.machine.at("fine.md"))
    let (push, _) = try desk.push()
    #expect(push.scan.flagged.isEmpty && push.scan.created == 0, "\(push.json.compact)")
    _ = try desk.push()
    #expect(try desk.placed(id) == "fine.md")
    #expect(try desk.properties(id)["body"] == "Words.\nMore.\n")
    #expect(try desk.machine.lines("fine.md").contains("  - later") && desk.bench.titles().count == 2)
  }

  @Test("F53.1 a new picture of a name no placement holds is refused by itself")
  func newPicture() throws {
    let desk = try Desk(Self.both)
    try desk.machine.write("p:1.png", "bytes")
    try desk.machine.write("ok.md", "Words.\n")
    let (push, _) = try desk.push()
    #expect(push.scan.flagged.flags("p:1.png") == ["refused"] && push.scan.created == 1, "\(push.json.compact)")
    #expect(try desk.bench.titles() == ["ok"])
  }

  @Test("F60.1 an embed at a path no placement holds writes no file there, is told, and stops no other file")
  func embedded() throws {
    let desk = try Desk(Self.both) { bench in
      let file = try bench.file("a:b.png", [1, 2], type: "core.file", mime: "image/png")
      let note = try bench.item("n", body: "![](<./a:b.png>)\n")
      _ = try bench.ask(
        "POST", "/edges",
        ["source_id": .string(file.text), "edge_type": "attached-to", "target_id": .string(note.text)])
    }
    for name in ["one", "two"] {
      try desk.machine.write("\(name).md", "Words.\n")
      let (push, _) = try desk.push()
      #expect(push.scan.created == 1 && push.pull != nil, "\(push.json.compact)")
    }
    #expect(try desk.bench.titles().contains("two"))
    #expect(!desk.machine.files().contains("a:b.png"))
    let (push, _) = try desk.push()
    #expect(push.pull?.flagged.contains { $0.flag == "outside" } == true, "\(push.json.compact)")
  }

  @Test("F19.20 a first placement and a title that pass 1,024 characters together stop no push")
  func longPlace() throws {
    let deep = (0..<10).map { _ in String(repeating: "d", count: 100) }.joined(separator: "/")
    let desk = try Desk([
      "title": "Notes", "search": ["types": ["core.note"]], "first_placement": ["core.note": .string(Text(deep))],
    ])
    _ = try desk.bench.item(Text(String(repeating: "t", count: 200)), body: "Words.\n")
    try desk.machine.write("ok.md", "Words.\n")
    for _ in 0..<2 {
      let (push, _) = try desk.push()
      #expect(push.pull?.flagged.map(\.flag) == ["outside"], "\(push.json.compact)")
    }
    #expect(try desk.bench.titles().contains("ok"))
  }

  @Test("C9.11 a default edge the local checks refuse is told on its file, which is sent, as is every other")
  func defaultEdges() throws {
    let bench = try FolderBench()
    let other = try bench.item("X", body: "X\n")
    let gone = try bench.item("gone", body: "X\n")
    let folder = try bench.folder([
      "title": "Notes", "search": ["types": ["core.note", "core.file"]],
      "defaults": ["edges": ["in-collection": [.string(other.text)], "references": [.string(gone.text)]]],
    ])
    let machine = bench.machine()
    try machine.add(folder)
    _ = try machine.push()
    try bench.ask("DELETE", "/items/\(gone)?version=1")
    _ = try machine.push()
    for name in ["one.md", "two.md", "three.txt", "four.png"] {
      try machine.write(name, "Words.\n")
      let push = try machine.push()
      #expect(push.scan.created == 1 && push.pull != nil, "\(push.json.compact)")
      #expect(push.scan.flagged.flags(name).allSatisfy { $0 == "default_edge_refused" }, "\(push.json.compact)")
      #expect(!push.scan.flagged.isEmpty || push.pull?.flagged.isEmpty == false, "\(push.json.compact)")
    }
    #expect(try bench.titles().sorted() == ["X", "four.png", "one", "three", "two"])
  }
}
