import FolderSync
import MarfaBase
import TestSupport
import Testing

/// What a folder will not write, and links that went (F30 to F34).
struct NotWrittenScenarios {
  @Test("F-S240 no pull writes through a symbolic link")
  func links() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("real.md", "Real.\n")
    try folder.write("dir/bound.md", "Bound.\n")
    try folder.push()
    let real = try #require(folder.text("real.md"))
    try folder.disk.makeLink(folder.path("alias.md"), to: "real.md")
    let alias = try bench.item("alias")
    let first = try folder.push()
    #expect(first.pull?.outside == 1)
    #expect(first.pull?.flagged.contains { $0.flag == "outside" && $0.item == alias.description } == true)
    #expect(folder.text("real.md") == real)
    // A bound file's directory replaced by a link out of the folder.
    let bound = try bench.id("bound")
    try folder.disk.makeDirectory("/home/ana/out")
    try folder.delete("dir")
    try folder.disk.makeLink(folder.path("dir"), to: "/home/ana/out")
    try bench.edit(bound, ["body": "Changed elsewhere.\n"])
    let second = try folder.push()
    #expect(second.pull?.outside == 2)
    #expect(folder.disk.tree("/home/ana/out").isEmpty)
  }

  @Test("F-S241 a leading slash of a placement reads as nothing")
  func leadingSlash() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    let item = try bench.item("Other title")
    try bench.place(item, in: folder.id, at: "Notes/Plan.md")
    // The local instance takes no such path; another server's row may carry it.
    bench.transport.after = { request, response in
      var changed = response
      let text = String(decoding: response.body, as: UTF8.self)
      changed.body = Array(text.replacing("\"Notes/Plan.md\"", with: "\"/Notes/Plan.md\"").utf8)
      return .success(changed)
    }
    bench.transport.pieces = { _, bytes in
      Array(String(decoding: bytes, as: UTF8.self).replacing("\"Notes/Plan.md\"", with: "\"/Notes/Plan.md\"").utf8)
    }
    let push = try folder.push()
    #expect(push.pull?.written == 1 && push.pull?.outside == 0)
    #expect(folder.files() == ["Notes/Plan.md"])
    #expect(try folder.push().drain.drain.answered == 0)
  }

  @Test("F-S242 a placement with `..` in it is outside")
  func dots() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    let item = try bench.item("Climbs")
    try bench.place(item, in: folder.id, at: "Elsewhere/../inside.md")
    try bench.item("Fine")
    let push = try folder.push()
    #expect(push.pull?.outside == 1 && push.pull?.written == 1)
    #expect(push.pull?.flagged.map(\.item) == [item.description])
    #expect(folder.files() == ["Fine.md"])
    #expect(try folder.placement(of: item) == "Elsewhere/../inside.md")
  }

  @Test("F-S243 the walk follows no link and reports none")
  func walkedLinks() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, KeptFolder.notes(["include": ["*", "alias.md", "linked/"]]))
    try folder.write("real.md")
    try folder.write("dir/inner.md")
    try folder.disk.makeLink(folder.path("alias.md"), to: "real.md")
    try folder.disk.makeLink(folder.path("linked"), to: "dir")
    let push = try folder.push()
    #expect(push.scan.created == 2 && push.scan.flagged.isEmpty && push.scan.directories.isEmpty)
    #expect(try bench.titles() == ["inner", "real"])
    #expect(try folder.status().files.map(\.path) == ["dir/inner.md", "real.md"])
  }

  @Test("F-S244 a link taken out of a body deletes its edge, and no pull writes it back")
  func linkTakenOut() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("target.md", "Target.\n")
    try folder.write("a.md", "See [[target]].\n")
    try folder.push()
    let a = try bench.id("a")
    #expect(try bench.targets(a, "references") == [try bench.id("target")])
    try folder.write("a.md", try #require(folder.text("a.md")).replacing("See [[target]].", with: "No link."))
    try folder.scan()
    #expect(try folder.queue().filter { $0.kind == .deleteEdge }.count == 1)
    try folder.push()
    #expect(try bench.targets(a, "references").isEmpty)
    #expect(folder.text("a.md")?.contains("target") == false)
    try folder.push()
    #expect(folder.text("a.md")?.contains("target") == false)
    #expect(try bench.body(a) == "No link.\n")
  }

  @Test("F-S245 an edge no pull wrote, or of another type, is no removed link")
  func edgeElsewhere() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("target.md", "Target.\n")
    try folder.write("a.md", "A.\n")
    try folder.push()
    let (a, target) = (try bench.id("a"), try bench.id("target"))
    for type: Text in ["references", "about"] {
      try bench.ask(
        "POST", "/edges",
        ["source_id": .string(a.text), "target_id": .string(target.text), "edge_type": .string(type)])
    }
    try folder.append("a.md", "More.\n")
    try folder.scan()
    #expect(try folder.queue().allSatisfy { $0.kind != .deleteEdge })
    let push = try folder.push()
    #expect(push.drain.drain.verdicts.allSatisfy { $0.kind != .deleteEdge })
    #expect(try bench.targets(a, "references") == [target] && bench.targets(a, "about") == [target])
    #expect(try bench.body(a)?.contains("More.") == true)
  }

  @Test("F-S246 while a link names nothing no edge of the file goes; once all resolve, exactly the taken-out one's")
  func heldBackRemoval() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("one.md", "One.\n")
    try folder.write("two.md", "Two.\n")
    try folder.write("a.md", "See [[one]] and [[two]].\n")
    try folder.push()
    let (a, one, two) = (try bench.id("a"), try bench.id("one"), try bench.id("two"))
    #expect(Set(try bench.targets(a, "references")) == [one, two])
    // One is renamed away, title and file, so that its link names nothing.
    try bench.edit(one, ["title": "uno"])
    try folder.rename("one.md", to: "uno.md")
    try folder.push()
    try folder.write("a.md", try #require(folder.text("a.md")).replacing(" and [[two]]", with: ""))
    try folder.push()
    #expect(Set(try bench.targets(a, "references")) == [one, two])
    // A title that the link names again.
    try bench.edit(one, ["title": "one"])
    try folder.push()
    try folder.push()
    #expect(try bench.targets(a, "references") == [one])
  }

  @Test("F-S247 a file that stands at an item's path is never written over")
  func standing() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.push()
    let item = try bench.item("Plan", body: "The server's.\n")
    try folder.write("Plan.md", "Mine.\n")
    let pull = try folder.pull()
    #expect(folder.text("Plan.md") == "Mine.\n")
    #expect(pull.unwritten == 1 && pull.written == 0)
    let flagged = try #require(pull.flagged.first { $0.item == item.description })
    #expect(flagged.flag == "unwritten" && flagged.path == "Plan.md")
    let push = try folder.push()
    #expect(push.scan.created == 1)
    #expect(push.drain.drain.verdicts.allSatisfy { $0.kind != .updateItem })
    try folder.push()
    #expect(try bench.ids("Plan").count == 2)
    #expect(try bench.body(item) == "The server's.\n")
    let texts = folder.files().compactMap { folder.text($0) }
    #expect(
      texts.count == 2 && texts.contains { $0.contains("Mine.") } && texts.contains { $0.contains("The server's.") })
  }

  @Test("F-S248 a file byte for byte what the item renders to is bound back")
  func rendered() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    let item = try bench.item("Plan", body: "The server's.\n")
    try folder.push()
    let bytes = try #require(folder.bytes("Plan.md"))
    // Another machine's directory that got the file by other means.
    let other = try KeptFolder(bench, following: folder.id, machine: bench.machine("ben"))
    _ = try other.folders.hydrate(other.root)
    try other.write("Plan.md", bytes: bytes)
    let pull = try other.pull()
    #expect(pull.unchanged == 1 && pull.written == 0 && pull.unwritten == 0)
    #expect(try other.isBound(item))
    let scan = try other.scan()
    #expect(scan.created == 0 && scan.updated == 0 && scan.unchanged == 1)
    #expect(try other.push().drain.drain.answered == 0)
    #expect(try bench.titles() == ["Plan"] && other.bytes("Plan.md") == bytes)
  }

  @Test("F-S249 two new files that name each other are one edge each way")
  func eachOther() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md", "See [[b]].\n")
    try folder.write("b.md", "See [[a]].\n")
    try folder.push()
    let (a, b) = (try bench.id("a"), try bench.id("b"))
    #expect(try bench.targets(a, "references") == [b] && bench.targets(b, "references") == [a])
    #expect(try folder.push().drain.drain.answered == 0)
  }

  @Test("F-S250 an item that starts to match gets its file")
  func startsToMatch() throws {
    let bench = try FolderBench()
    let item = try bench.item("Plan")
    let folder = try KeptFolder(
      bench, ["title": "Tagged", "search": ["types": ["core.note"], "filter": "tags contains \"work\""]])
    #expect(try #require(try folder.push().pull).skipped > 0)
    #expect(folder.files().isEmpty)
    try bench.ask("POST", "/items/\(item)/tags", ["tags": ["work"]])
    #expect(try folder.push().pull?.written == 1)
    #expect(folder.files() == ["Plan.md"])
  }
}
