import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Older servers, conflicts of no file here, and what is asked for again (F39.3, F57, F76).
struct LastLookScenarios {
  @Test("a conflict on an item that is no file here is not named")
  func noFileHere() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    let item = try bench.item("Elsewhere", type: "core.bookmark", more: JSONObject([("url", "https://example.org/")]))
    try folder.push()
    // A program of this machine edits an item of the copy that is no file of the folder.
    try folder.folders.working(folder.root, "edit") { engine in
      _ = try engine.copy.pin(item, owner: "program")
      _ = try engine.copy.queue.updateItem(item, ItemEdit(properties: JSONObject([("body", "Mine.\n")]), version: 1))
    }
    try bench.edit(item, ["body": "Theirs.\n"])
    let push = try folder.push()
    let verdict = try #require(push.drain.drain.verdicts.first { $0.itemID == item })
    #expect(verdict.verdict == .conflicted)
    #expect(push.drain.conflicts.isEmpty)
    #expect(push.scan.flagged.isEmpty && push.pull?.flagged.isEmpty == true)
    #expect(!folder.files().contains { $0.hasPrefix("Elsewhere") && $0.hasSuffix("Elsewhere.md") })
  }

  @Test("F-S368 an archived embedded file of a paused removal is written anew where its link says")
  func embeddedPaused() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(
      bench,
      RemovalScenarios.settings(
        0, 0, ["search": ["types": ["core.note"], "state": ["active"]]]))
    try folder.write("photo.png", bytes: BytesScenarios.png)
    try folder.write("note.md", "![](photo.png)\n")
    try folder.push()
    let photo = try bench.id("photo.png")
    try folder.delete("photo.png")
    #expect(try folder.push().scan.paused == 1)
    try bench.state(photo, "archived")
    try folder.push()
    let restored = try folder.restore()
    #expect(restored.putBack == 0)
    #expect(restored.pull.written == 1)
    #expect(folder.bytes("photo.png") == BytesScenarios.png)
    folder.grace()
    try folder.push()
    #expect(try !bench.isTrashed(photo))
    #expect(folder.bytes("photo.png") == BytesScenarios.png)
  }

  @Test("F-S310 an unreadable registry holds missing files, and says so; an add writes it afresh")
  func emptyRegistry() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md")
    try folder.write("b.md")
    try folder.push()
    let registry = folder.root.parent.appending("folders.json")
    try folder.disk.write(registry, "")
    try folder.delete("a.md")
    try folder.push()
    folder.grace()
    let push = try folder.push()
    #expect(push.scan.registry?.isEmpty == false)
    #expect(push.scan.unsure.map(\.path) == ["a.md"] && push.scan.deleted == 0)
    #expect(try bench.titles() == ["a", "b"])
    #expect(folder.disk.read(registry) == [])
    let other = try KeptFolder(bench, machine: folder.machine, at: "Other")
    #expect(try folder.folders.list().map(\.dir) == [other.root])
    let next = try folder.push()
    #expect(next.scan.trashed == ["a.md"])
    #expect(try bench.titles() == ["b"])
    #expect(Set(try folder.folders.list().map(\.dir)) == [folder.root, other.root])
  }

  @Test("F-S307 an entry goes by the directory's next folder and by none being there; a duplicate reads as one")
  func entries() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md")
    try folder.push()
    #expect(try bench.titles() == ["a"])
    try folder.disk.delete(folder.path(".marfa"))
    let second = try bench.folder(["title": "Second", "search": ["types": ["core.note"]]])
    _ = try folder.folders.add(folder.root, following: second, yes: true)
    #expect(try folder.folders.list().map(\.folder) == [second.text])
    let registry = folder.root.parent.appending("folders.json")
    let text = try #require(folder.disk.text(registry))
    var object = try #require(try JSON(parsing: Array(text.utf8)).object)
    let entries = object["folders"]?.array ?? []
    #expect(entries.count == 1)
    object["folders"] = .array(entries + entries)
    try folder.disk.write(registry, JSON.object(object).write())
    #expect(try folder.folders.list().count == 1)
    try folder.disk.delete(folder.path(".marfa"))
    #expect(try folder.folders.list().isEmpty)
  }
}
