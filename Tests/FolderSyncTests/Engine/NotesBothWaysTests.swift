import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Notes made, edited, renamed and deleted, on the disk and elsewhere.
struct NotesBothWaysTests {
  let bench: FolderBench
  let machine: FolderMachine
  let folder: EntityID

  init() throws {
    bench = try FolderBench()
    folder = try bench.folder()
    machine = bench.machine()
  }

  /// A quiet push: nothing sent, nothing written.
  func quiet(_ machine: FolderMachine, _ note: Comment = "a second push is quiet") throws {
    let again = try machine.push()
    #expect(again.scan.created == 0 && again.scan.updated == 0 && again.scan.renamed == 0, note)
    #expect(again.drain.drain.answered == 0, note)
    #expect(again.pull?.rewritten == 0 && again.pull?.written == 0 && again.pull?.moved == 0, note)
  }

  func properties(_ id: EntityID) throws -> JSON { try bench.row(id)["item"]?["properties"] ?? .null }

  func placement(_ id: EntityID) throws -> String? {
    let edges = try bench.ask("GET", "/edges?edge_type=in-folder&limit=200")["data"]?.array ?? []
    return edges.first { $0["source_id"]?.text == id.text }?["properties"]?["path"]?.text?.string
  }

  @Test("F-S6.1 a held item becomes a file, a new file an item with a minted id")
  func bothWays() throws {
    try bench.item("Held")
    try machine.add(folder)
    try machine.write("New.md", "New words.\n")
    let push = try machine.push()
    #expect(push.scan.created == 1)
    #expect(push.pull?.written == 1)
    #expect(machine.files() == ["Held.md", "New.md"])
    #expect(try bench.titles() == ["Held", "New"])
    #expect(machine.text("Held.md")?.hasSuffix("Words.\n") == true)
    let id = try #require(try bench.ids("New").first)
    #expect(machine.text("New.md")?.contains("marfa_id: \(id)") == true)
    try quiet(machine)
  }

  @Test("F-S13.1 a new file is untouched by a scan and a pull; a push writes its id back")
  func newFile() throws {
    try machine.add(folder)
    try machine.push()
    try machine.write("Plan.md", "Words.\n")
    let scan = try machine.folders.scan(machine.root)
    _ = try machine.folders.pull(machine.root)
    #expect(scan.created == 1)
    #expect(machine.text("Plan.md") == "Words.\n")
    try machine.push()
    let id = try #require(try bench.ids("Plan").first)
    #expect(machine.text("Plan.md")?.contains("marfa_id: \(id)\nmarfa_version: 1\n---\nWords.\n") == true)
    #expect(try bench.row(id)["item"]?["source_id"]?.text == nil)
    try quiet(machine)
  }

  @Test("F-S14.1 a whole new text at a bound path is one update of the same item")
  func edit() throws {
    try machine.add(folder)
    try machine.write("Plan.md", "Words.\n")
    try machine.push()
    let id = try #require(try bench.ids("Plan").first)
    let text = try #require(machine.text("Plan.md"))
    try machine.save("Plan.md", text.replacing("Words.", with: "Other words."))
    let push = try machine.push()
    #expect(push.scan.updated == 1 && push.scan.created == 0 && push.scan.missing == 0)
    #expect(try properties(id)["body"]?.text == "Other words.\n")
    #expect(machine.text("Plan.md")?.contains("marfa_version: 2") == true)
    try quiet(machine)
  }

  @Test("F-S290 another device's change is written with no hydration")
  func changeElsewhere() throws {
    let id = try bench.item("Held")
    try machine.add(folder)
    try machine.push()
    try bench.edit(id, ["body": "Changed.\n"])
    let push = try machine.push()
    #expect(push.hydrated == nil && push.catchUp.hydrated == nil)
    #expect(push.pull?.rewritten == 1)
    #expect(machine.text("Held.md")?.hasSuffix("---\nChanged.\n") == true)
    try quiet(machine)
  }

  @Test("F-S19.3 a rename sends the placement alone")
  func rename() throws {
    try machine.add(folder)
    try machine.write("Plan.md", "Words.\n")
    try machine.push()
    let id = try #require(try bench.ids("Plan").first)
    try machine.rename("Plan.md", to: "Later.md")
    let push = try machine.push()
    #expect(push.scan.renamed == 1 && push.scan.updated == 0)
    #expect(push.drain.drain.verdicts.map(\.kind) == [.updateEdge])
    #expect(try placement(id) == "Later.md")
    #expect(try bench.row(id)["item"]?["version"]?.int == 1)
    #expect(machine.files() == ["Later.md"])
    try quiet(machine)
  }

  @Test("F-S19.1 two machines write an item where its placement says, and follow its move")
  func twoMachines() throws {
    let other = bench.machine("ben")
    try machine.add(folder)
    try other.add(folder)
    try machine.write("Deep/Plan.md", "Words.\n")
    try machine.push()
    try other.push()
    #expect(other.files() == ["Deep/Plan.md"])
    try machine.rename("Deep/Plan.md", to: "Plan.md")
    try machine.push()
    let push = try other.push()
    #expect(push.pull?.moved == 1)
    #expect(other.files() == ["Plan.md"])
    try quiet(machine)
    try quiet(other)
  }

  @Test("F-S440 a deleted file's item and placement go once the grace is past")
  func delete() throws {
    try machine.add(folder)
    try machine.write("Plan.md", "Words.\n")
    try machine.push()
    try machine.delete("Plan.md")
    let first = try machine.push()
    #expect(first.scan.missing == 1 && first.scan.deleted == 0)
    #expect(try bench.titles() == ["Plan"])
    machine.grace()
    let second = try machine.push()
    #expect(second.scan.deleted == 1 && second.scan.trashed == ["Plan.md"])
    #expect(try bench.titles() == [])
    #expect(machine.files() == [])
    try quiet(machine)
  }

  @Test("F-S251 a note trashed elsewhere is taken away, its placement ended; restored, it is written again")
  func trashedElsewhere() throws {
    let id = try bench.item("Held")
    try machine.add(folder)
    try machine.push()
    try bench.ask("DELETE", "/items/\(id)")
    let push = try machine.push()
    #expect(push.pull?.removed == 1 && push.pull?.ended == 1)
    #expect(machine.files() == [])
    machine.grace()
    #expect(try machine.push().drain.drain.answered == 0)
    try bench.ask("POST", "/items/\(id)/restore")
    let again = try machine.push()
    #expect(again.pull?.written == 1)
    #expect(machine.files() == ["Held.md"])
    try quiet(machine)
  }

  @Test("F-S256 a file edited before the pull that meets its trash is kept")
  func keptEdited() throws {
    let id = try bench.item("Held")
    try machine.add(folder)
    try machine.push()
    try bench.ask("DELETE", "/items/\(id)")
    try machine.write("Held.md", try #require(machine.text("Held.md")) + "More.\n")
    let push = try machine.push()
    #expect(push.pull?.kept == 1 && push.pull?.removed == 0)
    #expect(machine.text("Held.md")?.hasSuffix("More.\n") == true)
  }

  @Test("F-S23.1 an old buffer saved twice over a retitle goes at its line, then at the copy's version")
  func oldBuffer() throws {
    let id = try bench.item("Held", body: "One.\n")
    try machine.add(folder)
    try machine.push()
    let buffer = try #require(machine.text("Held.md"))
    try bench.edit(id, ["title": "Retitled"])
    try machine.push()
    try machine.write("Held.md", buffer.replacing("One.", with: "Two."))
    try machine.push()
    #expect(try properties(id)["title"]?.text == "Retitled")
    #expect(try properties(id)["body"]?.text == "Two.\n")
    try machine.write("Held.md", buffer.replacing("One.", with: "Three."))
    let push = try machine.push()
    #expect(push.drain.drain.verdicts.allSatisfy { $0.verdict == .accepted || $0.verdict == .merged })
    #expect(try properties(id)["title"]?.text == "Retitled")
    #expect(try properties(id)["body"]?.text == "Three.\n")
    #expect(machine.text("Held.md")?.contains("marfa_version: 4") == true)
    try quiet(machine)
  }

  @Test("F-S7.8 own fields are the item's; a tag traded sends one added and one removed and no edit")
  func ownFields() throws {
    try machine.add(folder)
    try machine.write("Plan.md", "---\ntags: [one, two]\nstatus: draft\n---\nWords.\n")
    try machine.push()
    let id = try #require(try bench.ids("Plan").first)
    #expect(try properties(id)["tags"] == nil && properties(id)["status"]?.text == "draft")
    #expect(try bench.row(id)["metadata"]?["tags"] == ["one", "two"])
    try machine.write("Plan.md", try #require(machine.text("Plan.md")).replacing("two", with: "three"))
    let push = try machine.push()
    #expect(push.drain.drain.verdicts.map(\.kind) == [.removeTag, .addTag])
    #expect(try bench.row(id)["metadata"]?["tags"] == ["one", "three"])
    #expect(try bench.row(id)["item"]?["version"]?.int == 1)
    try quiet(machine)
  }

  @Test("F-S7.11 a line taken out of a current file clears the property")
  func clears() throws {
    try machine.add(folder)
    try machine.write("Plan.md", "---\nstatus: draft\n---\nWords.\n")
    try machine.push()
    let id = try #require(try bench.ids("Plan").first)
    try machine.write("Plan.md", try #require(machine.text("Plan.md")).replacing("status: draft\n", with: ""))
    try machine.push()
    #expect(try properties(id)["status"] == nil)
    try quiet(machine)
  }

  @Test("F-S15.1 a copy of a file is a new item, and the original stands")
  func copied() throws {
    try machine.add(folder)
    try machine.write("Plan.md", "Words.\n")
    try machine.push()
    try machine.write("Copy.md", try #require(machine.text("Plan.md")))
    let push = try machine.push()
    #expect(push.scan.created == 1 && push.scan.updated == 0)
    let one = machine.text("Plan.md"), two = machine.text("Copy.md")
    #expect(one != two && two?.contains("marfa_id") == true)
    #expect(try bench.titles().count == 2)
    try quiet(machine)
  }

  @Test("F-S13.4 a move by copy and delete is followed by the id")
  func copyAndDelete() throws {
    try machine.add(folder)
    try machine.write("Plan.md", "Words.\n")
    try machine.push()
    let text = try #require(machine.text("Plan.md"))
    try machine.delete("Plan.md")
    try machine.write("Moved.md", text)
    let push = try machine.push()
    #expect(push.scan.renamed == 1 && push.scan.created == 0 && push.scan.updated == 0)
    machine.grace()
    try quiet(machine)
    #expect(machine.files() == ["Moved.md"])
  }

  @Test("F-S13.2 a save without the id line as a new file is an update, and the id is back")
  func dropsID() throws {
    try machine.add(folder)
    try machine.write("Plan.md", "Words.\n")
    try machine.push()
    let id = try #require(try bench.ids("Plan").first)
    try machine.save("Plan.md", "---\ntitle: Plan\n---\nOther.\n")
    let push = try machine.push()
    #expect(push.scan.updated == 1 && push.scan.created == 0)
    #expect(try properties(id)["body"]?.text == "Other.\n")
    #expect(machine.text("Plan.md")?.contains("marfa_id: \(id)") == true)
    try quiet(machine)
  }

  @Test("F10.1 in part: unreadable frontmatter is held, not sent; mended, it goes")
  func unreadable() throws {
    try machine.add(folder)
    try machine.write("Plan.md", "Words.\n")
    try machine.push()
    let id = try #require(try bench.ids("Plan").first)
    let text = try #require(machine.text("Plan.md"))
    try machine.write("Plan.md", text.replacing("---\ntype", with: "---\n  a: [\ntype"))
    try machine.write("Bad.md", "---\ntier: nowhere\n---\nWords.\n")
    let push = try machine.push()
    #expect(push.scan.flagged.map(\.flag) == ["unreadable", "unreadable"])
    #expect(push.pull?.flagged.map(\.path) == ["Plan.md"])
    #expect(push.scan.created == 0 && push.scan.updated == 0)
    try machine.write("Plan.md", text.replacing("Words.", with: "Mended."))
    try machine.push()
    #expect(try properties(id)["body"]?.text == "Mended.\n")
  }

  @Test("F-S400 the first sync waits, with a plan, and writes and sends nothing")
  func firstSync() throws {
    try bench.item("One")
    try bench.item("Two")
    for name in ["A.md", "B.md", "C.md"] { try machine.write(name, "Words.\n") }
    let added = try machine.folders.add(machine.root, following: folder)
    #expect(
      added.firstSync.json == FirstSyncReading(waiting: true, plan: FolderPlan(write: 2, send: 3, beside: 0)).json)
    #expect(machine.files() == ["A.md", "B.md", "C.md"])
    #expect(try bench.titles() == ["One", "Two"])
    guard case .waiting(let reading) = try machine.folders.push(machine.root) else {
      Issue.record("the push went on")
      return
    }
    #expect(reading == added.firstSync)
    #expect(try machine.folders.status(machine.root).plan == FolderPlan(write: 2, send: 3, beside: 0))
  }

  @Test("F-S402 once confirmed, a push sends and writes, and the next sends nothing")
  func firstSyncConfirmed() throws {
    try bench.item("One")
    try machine.write("A.md", "Words.\n")
    _ = try machine.folders.add(machine.root, following: folder)
    #expect(try machine.folders.confirm(machine.root).firstSync)
    try machine.push()
    #expect(try bench.titles() == ["A", "One"])
    #expect(machine.files() == ["A.md", "One.md"])
    try quiet(machine)
    let again = try machine.folders.add(machine.root, following: folder)
    #expect(!again.firstSync.waiting)
  }

  @Test("F-S420 one push leaves every file it wrote in step")
  func inStep() throws {
    try bench.item("One")
    try bench.item("Two")
    try machine.add(folder)
    try machine.push()
    let status = try machine.folders.status(machine.root)
    #expect(status.files.map(\.state) == [.inStep, .inStep])
  }

  @Test("F-S360 a large removal waits, and restore puts the files back")
  func largeRemoval() throws {
    try bench.ask(
      "PATCH", "/folders/\(folder)",
      ["version": 1, "removal_threshold": ["files": 2, "fraction": try JSON(parsing: "0.25")]])
    try machine.add(folder)
    for name in ["A", "B", "C", "D", "E", "F"] { try machine.write("\(name).md", "Words.\n") }
    try machine.push()
    for name in ["A", "B", "C"] { try machine.delete("\(name).md") }
    #expect(try machine.push().scan.paused == 3)
    machine.grace()
    let push = try machine.push()
    #expect(push.scan.paused == 3 && push.scan.deleted == 0)
    #expect(try bench.titles().count == 6)
    #expect(try machine.folders.status(machine.root).pausedOnDisk == 3)
    let restored = try machine.folders.restore(machine.root)
    #expect(restored.putBack == 3)
    #expect(machine.files().count == 6)
    machine.grace()
    try quiet(machine)
  }

  @Test("F-S363 a confirmed removal is sent by the next push")
  func confirmedRemoval() throws {
    try bench.ask(
      "PATCH", "/folders/\(folder)",
      ["version": 1, "removal_threshold": ["files": 2, "fraction": try JSON(parsing: "0.25")]])
    try machine.add(folder)
    for name in ["A", "B", "C", "D", "E", "F"] { try machine.write("\(name).md", "Words.\n") }
    try machine.push()
    for name in ["A", "B", "C"] { try machine.delete("\(name).md") }
    try machine.push()
    #expect(try machine.folders.confirm(machine.root).deleted == 3)
    try machine.push()
    #expect(try bench.titles() == ["D", "E", "F"])
    try quiet(machine)
  }

  @Test("F-S19.8 two machines making one name settle on one layout")
  func oneName() throws {
    let other = bench.machine("ben")
    try machine.add(folder)
    try other.add(folder)
    try machine.write("Plan.md", "Ana's.\n")
    try other.write("Plan.md", "Ben's.\n")
    for _ in 0..<3 {
      try machine.push()
      try other.push()
    }
    #expect(machine.files() == ["Plan (2).md", "Plan.md"])
    #expect(other.files() == machine.files())
    #expect(machine.text("Plan.md") == other.text("Plan.md"))
    #expect(try bench.titles().count == 2)
    try quiet(machine)
    try quiet(other)
  }

  @Test("F-S21.5 a journaled file changed elsewhere is written back")
  func revived() throws {
    let id = try bench.item("Held")
    try machine.add(folder)
    try machine.push()
    try machine.delete("Held.md")
    try bench.edit(id, ["body": "Newer.\n"])
    let push = try machine.push()
    #expect(push.pull?.revived == 1)
    #expect(machine.text("Held.md")?.hasSuffix("Newer.\n") == true)
    machine.grace()
    try quiet(machine)
    #expect(try bench.titles() == ["Held"])
  }

  @Test("F32.1 in part: a file the folder did not write is never written over")
  func foreignFile() throws {
    try bench.item("Held")
    try machine.add(folder)
    _ = try machine.folders.hydrate(machine.root)
    try machine.write("Held.md", "Mine.\n")
    let pull = try machine.folders.pull(machine.root)
    #expect(pull.unwritten == 1)
    #expect(machine.text("Held.md") == "Mine.\n")
    let push = try machine.push()
    #expect(push.scan.created == 1 && push.scan.updated == 0)
    try machine.push()
    #expect(machine.files() == ["Held (2).md", "Held.md"])
    try quiet(machine)
  }

  @Test("F22.2 in part: a directory that went is not read as deletes")
  func rootGone() throws {
    try machine.add(folder)
    try machine.write("Plan.md", "Words.\n")
    try machine.push()
    try machine.disk.rename(machine.root, to: "/home/ana/Away")
    #expect(throws: MarfaError.self) { try machine.push() }
    #expect(throws: MarfaError.self) { try machine.folders.status(machine.root) }
    machine.grace()
    try machine.disk.rename("/home/ana/Away", to: machine.root)
    try quiet(machine)
    #expect(try bench.titles() == ["Plan"])
  }

  @Test("F300 in part: a removed folder keeps its files")
  func removed() throws {
    try machine.add(folder)
    try machine.write("Plan.md", "Words.\n")
    try machine.push()
    try machine.folders.remove(machine.root)
    #expect(machine.files() == ["Plan.md"])
    #expect(try machine.folders.list().isEmpty)
    #expect(machine.disk.text(machine.root.appending(".marfa/folder.yaml")) == nil)
  }

  @Test("F1.7 in part: an edit of folder.yaml is sent and in force for the rest of the push")
  func settingsEdit() throws {
    try machine.add(folder)
    let path = machine.root.appending(".marfa/folder.yaml")
    let text = try #require(machine.disk.text(path))
    try machine.disk.write(path, text + "defaults:\n  tags:\n    - inbox\n")
    try machine.write("Plan.md", "Words.\n")
    let push = try machine.push()
    #expect(push.settings.sent && push.settings.flagged == nil)
    #expect(machine.disk.text(path)?.contains("version: 2\n") == true)
    let id = try #require(try bench.ids("Plan").first)
    #expect(try bench.row(id)["metadata"]?["tags"] == ["inbox"])
    try quiet(machine)
  }

  @Test("F33 in part: two new files that name each other make one edge each way")
  func links() throws {
    try machine.add(folder)
    try machine.write("A.md", "See [[B]].\n")
    try machine.write("B.md", "See [[A]].\n")
    let push = try machine.push()
    #expect(push.scan.flagged == [])
    let a = try #require(try bench.ids("A").first), b = try #require(try bench.ids("B").first)
    let edges = try bench.ask("GET", "/edges?edge_type=references")["data"]?.array ?? []
    #expect(Set(edges.compactMap { $0["source_id"]?.text }) == [a.text, b.text])
    try quiet(machine)
    try machine.write("A.md", try #require(machine.text("A.md")).replacing("See [[B]].", with: "No more."))
    try machine.push()
    #expect(try bench.ask("GET", "/edges?edge_type=references")["data"]?.array?.count == 1)
    try quiet(machine)
  }

  @Test("F11.2 in part: a child-of line is the parent's edge, and a changed one moves it")
  func parents() throws {
    try bench.item("Project")
    try bench.item("Other")
    try machine.add(folder)
    try machine.push()
    try machine.write("Child.md", "---\nchild-of: \"[[Project]]\"\n---\nWords.\n")
    try machine.push()
    let edges = try bench.ask("GET", "/edges?edge_type=parent-of")["data"]?.array ?? []
    #expect(edges.count == 1)
    #expect(try edges.first?["source_id"]?.text == bench.ids("Project").first?.text)
    #expect(machine.text("Child.md")?.contains("child-of: \"[[Project]]\"") == true)
    try machine.write("Child.md", try #require(machine.text("Child.md")).replacing("[[Project]]", with: "[[Other]]"))
    try machine.push()
    let moved = try bench.ask("GET", "/edges?edge_type=parent-of")["data"]?.array ?? []
    #expect(moved.first?["id"] == edges.first?["id"])
    #expect(try moved.first?["source_id"]?.text == bench.ids("Other").first?.text)
    try quiet(machine)
  }
}
