import FolderSync
import MarfaBase
import TestSupport
import Testing

/// Items that leave the search (F35).
struct DepartureScenarios {
  static let active: JSON = ["title": "Active", "search": ["types": ["core.note"], "state": ["active"]]]
  static let tagged: JSON = [
    "title": "Tagged", "search": ["types": ["core.note"], "filter": "tags contains \"work\""],
    "defaults": ["tags": ["work"]],
  ]

  @Test("F-S251 a note trashed elsewhere takes its file with it, and nothing is sent of it; restored it comes back")
  func trashed() throws {
    let bench = try FolderBench()
    let item = try bench.item("Plan")
    let folder = try KeptFolder(bench)
    try folder.push()
    try bench.trash(item)
    let push = try folder.push()
    #expect(push.pull?.removed == 1)
    #expect(folder.files().isEmpty)
    #expect(try !folder.isBound(item) && !folder.isPinned(item))
    #expect(try folder.status().files.isEmpty)
    folder.grace()
    let later = try folder.push()
    #expect(later.drain.drain.verdicts.allSatisfy { $0.kind != .deleteItem })
    #expect(later.scan.deleted == 0 && later.scan.missing == 0)
    try bench.untrash(item)
    #expect(try folder.push().pull?.written == 1)
    #expect(folder.files() == ["Plan.md"])
  }

  @Test("F-S252 an item archived out of a search for active items is removed, not unmatched")
  func archived() throws {
    let bench = try FolderBench()
    let item = try bench.item("Plan")
    let folder = try KeptFolder(bench, Self.active)
    try folder.push()
    try bench.state(item, "archived")
    let push = try folder.push()
    #expect(push.pull?.removed == 1 && push.pull?.unmatched == 0)
    #expect(folder.files().isEmpty)
    #expect(try bench.row(item)["item"]?["state"]?.text == "archived")
    folder.grace()
    #expect(try folder.push().scan.deleted == 0)
  }

  @Test("F-S253 files the person deleted are not the pull's, whatever became of their items")
  func deletedHere() throws {
    let bench = try FolderBench()
    let (one, two) = (try bench.item("One"), try bench.item("Two"))
    let folder = try KeptFolder(bench, Self.active)
    try folder.push()
    try folder.delete("One.md")
    try folder.delete("Two.md")
    try folder.push()
    try bench.state(one, "archived")
    try bench.trash(two)
    let push = try folder.push()
    #expect(push.pull?.removed == 0 && push.pull?.kept == 0)
    #expect(try folder.status(of: "One.md")?.waits == [.delete])
    #expect(try folder.status(of: "Two.md")?.waits == [.scan])
    folder.grace()
    try folder.scan()
    #expect(try folder.queue().filter { $0.kind == .deleteItem }.map(\.itemID) == [one])
    try folder.push()
    #expect(try bench.isTrashed(one) && bench.isTrashed(two))
    #expect(try folder.status().files.isEmpty && folder.files().isEmpty)
  }

  @Test("F-S254 a file deleted and put back before its item left is taken away, and no delete follows")
  func putBack() throws {
    let bench = try FolderBench()
    let item = try bench.item("Plan")
    let folder = try KeptFolder(bench, Self.active)
    try folder.push()
    let bytes = try #require(folder.bytes("Plan.md"))
    try folder.delete("Plan.md")
    try folder.push()
    try folder.write("Plan.md", bytes: bytes)
    try bench.state(item, "archived")
    let pull = try folder.pull()
    #expect(pull.removed == 1)
    folder.grace()
    let push = try folder.push()
    #expect(push.scan.deleted == 0 && push.drain.drain.verdicts.allSatisfy { $0.kind != .deleteItem })
    #expect(try bench.row(item)["item"]?["state"]?.text == "archived")
    #expect(folder.files().isEmpty)
  }

  @Test("F-S255 a file that cannot be read stays")
  func unreadable() throws {
    let bench = try FolderBench()
    let item = try bench.item("Plan")
    let folder = try KeptFolder(bench, Self.active)
    try folder.push()
    try bench.state(item, "archived")
    try folder.disk.setMode(folder.path("Plan.md"), 0)
    let push = try folder.push()
    #expect(push.pull?.kept == 0 && push.pull?.unwritten == 1 && push.pull?.removed == 0)
    #expect(folder.files() == ["Plan.md"])
    #expect(try bench.row(item)["item"]?["state"]?.text == "archived")
  }

  @Test("F-S256 a file changed before its item was trashed is kept")
  func changed() throws {
    let bench = try FolderBench()
    let item = try bench.item("Plan")
    let folder = try KeptFolder(bench)
    try folder.push()
    try bench.trash(item)
    try folder.append("Plan.md", "My words.\n")
    let pull = try folder.pull()
    #expect(pull.kept == 1 && pull.removed == 0)
    #expect(folder.text("Plan.md")?.contains("My words.") == true)
    try folder.push()
    #expect(folder.text("Plan.md")?.contains("My words.") == true)
  }

  @Test("F35 in part: a new note typed where a kept file was deleted is sent as an item of its own")
  func newInPlaceOfKept() throws {
    let bench = try FolderBench()
    let item = try bench.item("Plan")
    let folder = try KeptFolder(bench)
    try folder.push()
    try bench.trash(item)
    try folder.append("Plan.md", "My words.\n")
    try folder.push()
    try folder.delete("Plan.md")
    try folder.push()
    try folder.write("Plan.md", "A new plan.\n")
    let push = try folder.push()
    #expect(push.scan.created == 1)
    #expect(try !folder.isBound(item))
    #expect(try bench.isTrashed(item))
    #expect(folder.files() == ["Plan.md"])
    #expect(folder.text("Plan.md")?.hasSuffix("A new plan.\n") == true)
    folder.grace()
    let later = try folder.push()
    #expect(later.scan.deleted == 0 && later.scan.created == 0 && later.scan.missing == 0)
    #expect(try folder.status().files.map(\.state) == [.inStep])
  }

  @Test("F35 in part: a file with an edit that is queued and unanswered stays when its item goes to the bin")
  func unansweredEdit() throws {
    let bench = try FolderBench()
    let item = try bench.item("Plan")
    let folder = try KeptFolder(bench)
    try folder.push()
    let buffer = try #require(folder.text("Plan.md"))
    let version = try bench.row(item)["item"]?["version"] ?? .null
    try bench.ask("PATCH", "/items/\(item)", ["version": version, "properties": ["rating": 5]])
    try folder.push()
    // A save of the older buffer: the pull merges the rating in, so that the bytes are the folder's own again.
    try folder.write("Plan.md", buffer + "My words.\n")
    try folder.scan()
    #expect(try folder.pull().rewritten == 1)
    #expect(folder.text("Plan.md")?.contains("rating: 5") == true)
    try bench.trash(item)
    let pull = try folder.pull()
    #expect(pull.kept == 1 && pull.removed == 0)
    let push = try folder.push()
    #expect(push.drain.drain.verdicts.contains { $0.verdict == .refused })
    folder.grace()
    try folder.push()
    #expect(folder.text("Plan.md")?.contains("My words.") == true)
  }

  @Test(
    "F21.4 in part: a note deleted before its create was answered goes to the bin, its title from its name no change")
  func deletedBeforeItsCreate() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.push()
    try folder.write("Plan.md", "Words.\n")
    try folder.scan()
    let item = try #require(try folder.queue().first { $0.kind == .createItem }?.itemID)
    try folder.delete("Plan.md")
    try folder.push()
    #expect(folder.files().isEmpty)
    folder.grace()
    let push = try folder.push()
    #expect(push.scan.deleted == 1)
    #expect(try bench.isTrashed(item))
    #expect(folder.files().isEmpty)
  }

  enum Leaving: CaseIterable { case tag, search, type }

  @Test(
    "F-S257 a file whose item left otherwise stays, unmatched, and its edits reach the same item",
    arguments: Leaving.allCases)
  func unmatched(how: Leaving) throws {
    let bench = try FolderBench()
    let item = try bench.item("Plan", tags: ["work"])
    let folder = try KeptFolder(bench, Self.tagged)
    try folder.push()
    #expect(folder.files() == ["Plan.md"])
    switch how {
    case .tag: try bench.ask("DELETE", "/items/\(item)/tags/work")
    case .search: try folder.change(["search": ["types": ["core.bookmark"]], "defaults": JSON.object(JSONObject())])
    case .type:
      let version = try bench.row(item)["item"]?["version"] ?? .null
      try bench.ask(
        "PATCH", "/items/\(item)?conflict=auto", ["version": version, "type": "core.media.article", "retype": true])
    }
    try folder.push()
    let push = try folder.push()
    #expect(push.pull?.unmatched == 1 && push.pull?.removed == 0)
    #expect(folder.files() == ["Plan.md"])
    #expect(try folder.status(of: "Plan.md")?.state == .unmatched)
    try folder.append("Plan.md", "More.\n")
    let edited = try folder.push()
    #expect(edited.scan.created == 0 && edited.scan.updated == 1)
    #expect(try bench.body(item)?.contains("More.") == true)
    #expect(try bench.titles() == ["Plan"])
    #expect(push.pull?.flagged.isEmpty == true)
  }

  @Test("F-S258 an unmatched file stays current, so that an edit of it takes nothing back")
  func current() throws {
    let bench = try FolderBench()
    let item = try bench.item("Plan", tags: ["work"])
    let folder = try KeptFolder(bench, Self.tagged)
    try folder.push()
    try bench.ask("DELETE", "/items/\(item)/tags/work")
    try folder.push()
    try bench.edit(item, ["language": "de"])
    try folder.append("Plan.md", "Once.\n")
    try folder.push()
    try folder.append("Plan.md", "Twice.\n")
    try folder.push()
    let row = try bench.row(item)
    #expect(row["item"]?["properties"]?["language"]?.text == "de")
    #expect(try bench.body(item)?.contains("Once.") == true && bench.body(item)?.contains("Twice.") == true)
    #expect(folder.text("Plan.md")?.contains("language: de") == true)
  }

  @Test("F-S260 a folder removed and added again over its own files makes no second item")
  func addedAgain() throws {
    let bench = try FolderBench()
    let settings: JSON = ["title": "All", "search": ["types": ["core.note", "core.file"]]]
    let folder = try KeptFolder(bench, settings)
    try folder.write("photo.png", bytes: [137, 80, 78, 71, 9])
    try folder.write("plain.txt", "Plain.\n")
    try folder.write("empty.txt", "")
    try folder.write("note.md", "Note.\n")
    try folder.push()
    let titles = try bench.titles()
    #expect(titles == ["empty", "note", "photo.png", "plain"])
    try folder.folders.remove(folder.root)
    try folder.add()
    let push = try folder.push()
    #expect(push.scan.created == 0)
    #expect(try bench.titles() == titles)
    #expect(try folder.push().drain.drain.answered == 0)
    #expect(try folder.status().files.allSatisfy { $0.state == .inStep })
  }

  @Test("F-S261 an embedded picture archived elsewhere keeps its file, and is not unmatched")
  func embedded() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, Self.active)
    try folder.write("photo.png", bytes: [137, 80, 78, 71])
    try folder.write("note.md", "![](photo.png)\n")
    try folder.push()
    let photo = try bench.id("photo.png")
    try bench.state(photo, "archived")
    let push = try folder.push()
    #expect(push.pull?.unmatched == 0 && push.pull?.removed == 0)
    #expect(folder.bytes("photo.png") == [137, 80, 78, 71])
    #expect(try folder.isBound(photo))
    folder.grace()
    #expect(try folder.push().scan.missing == 0)
    #expect(folder.bytes("photo.png") == [137, 80, 78, 71])
  }
}
