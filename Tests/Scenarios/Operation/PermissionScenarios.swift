import FolderSync
import MarfaBase
import TestSupport
import Testing

/// Whether a file may be run (F50), and saves set aside (F39, F71).
struct PermissionScenarios {
  static let all = BytesScenarios.all

  func executable(_ bench: FolderBench, _ item: EntityID) throws -> Bool? {
    try bench.row(item)["item"]?["properties"]?["executable"]?.bool
  }

  func mode(_ folder: KeptFolder, _ path: String) -> UInt32 {
    (folder.disk.status(folder.path(path))?.mode ?? 0) & 0o777
  }

  @Test("a runnable file says so, a plain one says nothing; each bit changed alone is one update")
  func pushed() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, Self.all)
    try folder.write("run.sh", bytes: Array("#!/bin/sh\n".utf8))
    try folder.write("plain.sh", bytes: Array("#!/bin/sh\ntrue\n".utf8))
    try folder.disk.setMode(folder.path("run.sh"), 0o755)
    try folder.disk.setMode(folder.path("plain.sh"), 0o644)
    try folder.push()
    let (run, plain) = (try bench.id("run.sh"), try bench.id("plain.sh"))
    #expect(try executable(bench, run) == true && executable(bench, plain) == nil)
    try folder.disk.setMode(folder.path("run.sh"), 0o644)
    try folder.disk.setMode(folder.path("plain.sh"), 0o755)
    let push = try folder.push()
    #expect(push.scan.updated == 2)
    #expect(push.drain.drain.verdicts.map(\.kind) == [.updateItem, .updateItem])
    #expect(try executable(bench, run) == false && executable(bench, plain) == true)
    #expect(try folder.push().drain.drain.answered == 0)
  }

  @Test("F-S386 bits changed elsewhere follow; a bit the person changed stands and is sent")
  func pulled() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, Self.all)
    let run = try bench.file(
      "run.sh", [1], type: "core.file", mime: "application/x-sh", more: JSONObject([("executable", true)]))
    let plain = try bench.file("plain.sh", [2], type: "core.file", mime: "application/x-sh")
    try folder.push()
    #expect(mode(folder, "run.sh") & 0o100 != 0 && mode(folder, "plain.sh") & 0o111 == 0)
    try bench.edit(run, ["executable": false])
    try bench.edit(plain, ["executable": true])
    let push = try folder.push()
    #expect(mode(folder, "run.sh") & 0o111 == 0 && mode(folder, "plain.sh") & 0o100 != 0)
    #expect(push.scan.updated == 0)
    // Changed back here at once, it is the person's.
    try folder.disk.setMode(folder.path("plain.sh"), 0o644)
    let back = try folder.push()
    #expect(back.scan.updated == 1 && mode(folder, "plain.sh") & 0o111 == 0)
    #expect(try executable(bench, plain) == false)
    #expect(try folder.push().drain.drain.answered == 0)
    try folder.disk.setMode(folder.path("run.sh"), 0o755)
    let pull = try folder.pull()
    #expect(mode(folder, "run.sh") == 0o755 && pull.rewritten == 0)
    try folder.push()
    #expect(try executable(bench, run) == true && mode(folder, "run.sh") == 0o755)
  }

  @Test("F-S387 the execute bit is added wherever a read bit is set")
  func readBits() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, Self.all)
    try folder.write("tool.sh", bytes: [1])
    try folder.disk.setMode(folder.path("tool.sh"), 0o640)
    try folder.push()
    let item = try bench.id("tool.sh")
    try bench.edit(item, ["executable": true])
    try folder.push()
    #expect(mode(folder, "tool.sh") == 0o750)
    #expect(try folder.push().drain.drain.answered == 0)
    #expect(try executable(bench, item) == true)
  }

  @Test("F-S388 where the probe's path is taken no bit is read or written")
  func probeTaken() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, Self.all)
    let item = try bench.file(
      "run.sh", [1], type: "core.file", mime: "application/x-sh", more: JSONObject([("executable", true)]))
    try folder.disk.makeDirectory(folder.path(".marfa/.permission-probe"))
    try folder.write("mine.sh", bytes: [7])
    try folder.disk.setMode(folder.path("mine.sh"), 0o755)
    try folder.push()
    #expect(mode(folder, "run.sh") & 0o111 == 0)
    #expect(try executable(bench, try bench.id("mine.sh")) == nil)
    #expect(try folder.push().drain.drain.answered == 0)
    #expect(try executable(bench, item) == true)
    #expect(mode(folder, "mine.sh") == 0o755)
    #expect(folder.disk.status(folder.path(".marfa/.permission-probe"))?.kind == .directory)
  }

  @Test("F-S284 a newer save that collided with this folder's earlier one is kept, and sent again")
  func setAside() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md", "Start.\n")
    try folder.push()
    let item = try bench.id("a")
    let base = try #require(folder.text("a.md"))
    try folder.write("a.md", base.replacing("Start.", with: "First save."))
    try folder.scan()
    try folder.write("a.md", base.replacing("Start.", with: "Second save."))
    try folder.scan()
    try bench.edit(item, ["title": "Retitled"])
    let push = try folder.push()
    let verdicts = push.drain.drain.verdicts.filter { $0.kind == .updateItem }
    #expect(folder.text("a.md")?.contains("Second save.") == true)
    try folder.push()
    #expect(try bench.body(item) == "Second save.\n")
    #expect(folder.text("a.md")?.contains("Second save.") == true)
    #expect(verdicts.first?.verdict == .accepted || verdicts.first?.verdict == .merged)
    #expect(try folder.push().drain.drain.answered == 0)
    #expect(try bench.row(item)["item"]?["properties"]?["title"]?.text == "Retitled")
  }

  @Test("an edit that conflicts is told with its file and the file its text went to")
  func conflicted() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("Note.md", "Start.\n")
    try folder.push()
    let item = try bench.id("Note")
    try bench.edit(item, ["body": "Theirs.\n"])
    try folder.write("Note.md", try #require(folder.text("Note.md")).replacing("Start.", with: "Mine."))
    let push = try folder.push()
    let conflict = try #require(push.drain.conflicts.first)
    #expect(push.drain.conflicts.count == 1)
    #expect(conflict.kind == "update_item" && conflict.path == "Note.md" && conflict.fields == ["body"])
    let copy = try #require(conflict.copy)
    try folder.push()
    let file = try #require(try folder.status().files.first { $0.item == copy.description })
    let texts = [folder.text("Note.md") ?? "", folder.text(file.path) ?? ""]
    #expect(texts.contains { $0.contains("Mine.") } && texts.contains { $0.contains("Theirs.") })
    #expect(file.path != "Note.md")
    let bodies = try [item, copy].map { try bench.body($0) }
    #expect(Set(bodies) == ["Mine.\n", "Theirs.\n"])
  }
}
