import FolderSync
import LocalInstance
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Where every file stands, read beside whoever works the folder (C9, F48).
struct StandingScenarios {
  /// A line of a status.
  func line(_ file: FolderFile) -> String {
    var line = "\(file.path) \(file.state.rawValue)"
    if let flag = file.flag { line += " \(flag)" }
    if !file.waits.isEmpty { line += " [\(file.waits.map(\.word).joined(separator: ","))]" }
    return line
  }

  @Test("C-S29 beside a watch each file has its status, flag and waits, in path order, and no request is made")
  func everyState() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(
      bench,
      [
        "title": "Notes",
        "search": ["types": ["core.note", "core.file.image"], "filter": "properties.kind not_exists"],
      ])
    func fails(_ part: String, _ method: String, _ status: Int, _ code: String) {
      bench.transport.before = { request in
        request.method == method && request.url.contains(part)
          ? .success(HTTPResponse(refusing: status, code)) : nil
      }
    }
    // In step, and what is then done to it.
    let bound = [
      "archived.md", "edited.md", "emptied.md", "ignored.md", "in step.md", "left.md", "missing.md", "queued.md",
      "refused.md", "retagged.md", "Deck.key2/x.md", "shut/x.md", "tagged.md", "trashed.md", "unread.md",
    ]
    for path in bound { try folder.write(path, "Text of \(path).\n") }
    try folder.push()
    try folder.push()
    func item(_ title: String) throws -> EntityID { try bench.id(title) }

    // Refused by the server, and lost.
    fails("/items/\(try item("refused"))", "PATCH", 400, "validation_error")
    try folder.append("refused.md", "More.\n")
    try folder.push()
    fails("/items", "POST", 400, "validation_error")
    try folder.write("lost.md", "Lost.\n")
    try folder.push()
    bench.goOnline()
    // Left the search by a tag.
    try bench.edit(try item("retagged"), ["kind": "gone"])
    try folder.push()
    // Offline: an edit, a tag, a create, queued and not sent.
    bench.goOffline()
    try folder.append("queued.md", "Queued.\n")
    try folder.write(
      "tagged.md", try #require(folder.text("tagged.md")).replacing("\n---\n", with: "\ntags: [new]\n---\n"))
    try folder.write("created.md", "Created.\n")
    try folder.write("new.png", bytes: BytesScenarios.png)
    // What the scan holds, and a file it finds missing.
    try folder.write("bad.md", "---\ntitle: [unclosed\n---\nText.\n")
    try folder.write("latin.md", bytes: [0x63, 0x61, 0x66, 0xE9, 0x0A])
    try folder.write("typed.md", "---\ntype: no.such.type\n---\nText.\n")
    try folder.delete("missing.md")
    try folder.disk.setMode(folder.path("unread.md"), 0)
    try folder.push()
    bench.goOnline()
    // Known to the copy and not yet to the files: trashed elsewhere while its file is missing.
    try folder.delete("trashed.md")
    try folder.scan()
    try bench.trash(try item("trashed"))
    try folder.folders.working(folder.root, "test") { _ = try $0.catchUp() }
    // Not scanned yet.
    try folder.append("edited.md", "Since.\n")
    try folder.write("new.md", "New.\n")
    try folder.write("New.md", "Another.\n")
    try folder.write("empty.png", bytes: [])
    try folder.write("sound.mp3", bytes: [1])
    try folder.write("id_rsa", "secret\n")
    try folder.disk.setMode(folder.path("shut"), 0)

    // Held by a watch meanwhile.
    let files = MemoryFileSystem(folder.disk, pid: 4_321)
    guard
      case .taken(let claim) = try WriterClaim.attempt(in: files.openDirectory(folder.path(".marfa")), files: files)
    else { throw BenchError("the folder is not free") }
    bench.transport.clear()
    let status = try folder.status()
    #expect(bench.transport.requests.isEmpty)
    claim.release()

    let lines = status.files.map(line)
    let expected = [
      "Deck.key2/x.md in_step", "New.md held name", "archived.md in_step", "bad.md held unreadable",
      "created.md waiting [create,placement]", "edited.md waiting [scan]", "emptied.md in_step",
      "empty.png outside empty", "ignored.md in_step", "in step.md in_step", "latin.md held encoding",
      "left.md in_step", "lost.md held lost", "missing.md waiting [delete]", "new.md waiting [scan]",
      "new.png waiting [upload,create,placement]", "queued.md waiting [edit]", "refused.md held refused",
      "retagged.md unmatched", "shut/x.md unreached unreadable", "sound.mp3 outside search",
      "tagged.md waiting [tag]", "trashed.md waiting gone [scan]", "typed.md held refused", "unread.md held unreadable",
    ]
    for (found, wanted) in zip(
      lines.filter { !$0.hasPrefix("new.md") && !$0.hasPrefix("New.md") },
      expected.filter { !$0.hasPrefix("new.md") && !$0.hasPrefix("New.md") })
    { #expect(found == wanted) }
    #expect(lines.count == expected.count, "\(lines)")
    // Of two names that are one, the first in path order is taken.
    #expect(lines.contains("New.md waiting [scan]") && lines.contains("new.md held name"), "\(lines)")
    let paths = status.files.map(\.path)
    #expect(paths == paths.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) })
    #expect(Set(paths).count == paths.count)
    for file in status.files where file.state == .held || file.state == .unreached || file.state == .outside {
      #expect(file.flag != nil && file.reason?.isEmpty == false, "\(file)")
    }
    // The lists take one out, a large removal holds others.
    try folder.disk.setMode(folder.path("shut"), 0o755)
    try folder.change(["ignore": ["ignored.md"]])
    try folder.folders.working(folder.root, "test") { _ = try $0.catchUp() }
    let ignored = try #require(try folder.status(of: "ignored.md"))
    #expect(line(ignored) == "ignored.md unreached lists")
  }

  @Test(
    "F53 C9 a file the local checks refuse is held with the reason, and not said to wait for a scan",
    arguments: [
      "body", "tag", "tags", "type",
    ])
  func refusedHere(what: String) throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("bound.md", "Bound.\n")
    try folder.push()
    try folder.push()
    let many = (1...101).map { "t\($0)" }.joined(separator: ", ")
    let (lines, body, reason): (String, String, String) =
      switch what {
      case "body": ("", String(repeating: "x", count: 100_001), "100000")
      case "tag": ("tags: [\(String(repeating: "y", count: 129))]\n", "Text.", "tags[0]")
      case "tags": ("tags: [\(many)]\n", "Text.", "100 at most")
      default: ("type: no.such.type\n", "Text.", "no.such.type")
      }
    try folder.write("new.md", "---\ntitle: New\n\(lines)---\n\(body)\n")
    let before = try #require(folder.text("bound.md"))
    let edited =
      what == "type"
      ? before.replacing("type: core.note\n", with: lines)
      : before.replacing("\n---\nBound.", with: "\n\(lines)---\n\(body)")
    try folder.write("bound.md", edited)
    try folder.write("plain.md", "Plain.\n")
    bench.transport.clear()
    let push = try folder.push()
    #expect(push.scan.flagged.map(\.flag) == ["refused", "refused"], "\(push.scan.flagged)")
    for path in ["bound.md", "new.md"] {
      let file = try #require(try folder.status(of: path))
      #expect(file.state == .held && file.flag == "refused" && file.waits.isEmpty, "\(file)")
      #expect(file.reason?.contains(reason) == true, "\(file)")
    }
    #expect(folder.text("bound.md") == edited)
    #expect(try bench.titles() == ["bound", "plain"])
    // Other bytes are the next scan's to read; corrected, they go.
    try folder.write("new.md", "New.\n")
    #expect(try folder.status(of: "new.md")?.state == .waiting)
    try folder.write("bound.md", before + "More.\n")
    #expect(try folder.status(of: "bound.md")?.state == .waiting)
    try folder.push()
    try folder.push()
    for path in ["bound.md", "new.md", "plain.md"] { #expect(try folder.status(of: path)?.state == .inStep) }
    #expect(try bench.titles() == ["bound", "new", "plain"])
    #expect(try bench.body(bench.id("bound")) == "Bound.\nMore.\n")
  }

  @Test("F-S378 a catalog refreshed during a status: one version of it is used throughout")
  func catalogRefreshed() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.push()
    for name in ["a.md", "b.md", "c.md"] { try folder.write(name, "---\ntype: acme.recipe\n---\nText of \(name).\n") }
    let refreshed = Switch()
    let here = OnThisThread((folders: folder.folders, bench: bench))
    let root = folder.root
    folder.machine.door = FaultDoor { (point, name, _) throws(FileError) in
      guard point == .walk, name == "b.md", !refreshed.isOn else { return }
      do {
        // Another process registers the type and takes the catalog that has it.
        try here.value.bench.ask(
          "POST", "/types", ["id": "acme.recipe", "parent": "core.note", "fields": .object(JSONObject())])
        _ = try here.value.folders.hydrate(root)
        refreshed.set(true)
      } catch { throw FileError(code: 5, operation: "register: \(error)", path: name) }
    }
    let during = try folder.status().files.map(line)
    #expect(refreshed.isOn)
    folder.machine.door = .none
    #expect(during == ["a.md held refused", "b.md held refused", "c.md held refused"])
    try folder.push()
    try folder.push()
    let after = try folder.status().files.map(line)
    #expect(after.count == 3 && after.allSatisfy { !$0.contains("held") }, "\(after)")
    #expect(try bench.titles() == ["a", "b", "c"])
  }
}

/// A value a test hands to a closure that runs on the test's own thread.
final class OnThisThread<Value>: @unchecked Sendable {
  // Unchecked: the closure is called by the test's thread alone.
  let value: Value
  init(_ value: Value) { self.value = value }
}
