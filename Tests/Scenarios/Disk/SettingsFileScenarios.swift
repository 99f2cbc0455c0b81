import FolderSync
import MarfaBase
import MarfaCopy
import Synchronization
import TestSupport
import Testing

/// `.marfa/folder.yaml` (X18 to X20).
struct SettingsFileScenarios {
  static let yaml = ".marfa/folder.yaml"
  static let rich: JSON = [
    "title": "Recipes",
    "search": ["types": ["core.note", "core.file"], "tier": "library", "filter": "tags contains \"recipe\""],
    "defaults": ["type": "core.note", "properties": ["language": "en"], "tags": ["recipe"]],
    "include": ["*.md", "img/"], "ignore": ["drafts/"], "first_placement": ["core.note": "Notes"],
  ]

  func changes(_ sent: [Sent], _ desk: Desk) -> [Sent] {
    sent.filter { $0.method == "PATCH" && $0.target.hasPrefix("/folders/\(desk.folder)") }
  }

  /// The idempotency keys of the settings sent since the transport was cleared.
  func keys(_ desk: Desk) -> [String] {
    desk.bench.transport.sent.filter { $0.method == "PATCH" && $0.url.contains("/folders/\(desk.folder)") }
      .flatMap { $0.headers.filter { $0.name == "Idempotency-Key" }.map(\.value) }
  }

  func pushed(_ settings: JSON = ["title": "Notes", "search": ["types": ["core.note"]]]) throws -> Desk {
    let desk = try Desk(settings)
    _ = try desk.push()
    return desk
  }

  func settings(_ desk: Desk) throws -> JSON {
    guard case .success(let contents) = SettingsFile.read(Array(try desk.machine.need(Self.yaml).utf8)) else {
      throw BenchError("the file does not read: \(try desk.machine.need(Self.yaml))")
    }
    return .object(contents.settings)
  }

  func change(_ desk: Desk, _ settings: JSON) throws {
    var body = settings.object ?? JSONObject()
    body["version"] = .int(try desk.version(desk.folder))
    try desk.bench.ask("PATCH", "/folders/\(desk.folder)", .object(body))
  }

  @Test("X-S42 a new folder's file reads back to the row, by its id and version, and a second pass leaves it alone")
  func readsBack() throws {
    let desk = try Desk(Self.rich)
    let text = try desk.machine.need(Self.yaml)
    guard case .success(let contents) = SettingsFile.read(Array(text.utf8)) else {
      Issue.record("it does not read")
      return
    }
    #expect(contents.folder == .string(desk.folder.text))
    #expect(try contents.version == desk.version(desk.folder))
    #expect(try .object(contents.settings) == desk.properties(desk.folder))
    _ = try desk.push()
    let before = desk.machine.disk.status(desk.machine.at(Self.yaml))
    desk.bench.clock.advance(seconds: 30)
    let (push, _) = try desk.push()
    #expect(!push.settings.written && desk.machine.disk.status(desk.machine.at(Self.yaml)) == before)
    #expect(try desk.machine.need(Self.yaml) == text)
    try desk.machine.edit(Self.yaml, "title: ", "title: More ")
    #expect(try desk.push().report.settings.sent)
  }

  @Test("X-S43 revoked_at is left out, and the row's own order kept")
  func order() throws {
    let id = try #require(EntityID("018f0000-0000-7000-8000-00000000f001"))
    var row = JSONObject()
    row["ignore"] = ["drafts/"]
    row["revoked_at"] = "2031-02-03T04:05:06.000Z"
    row["title"] = "Notes"
    row["include"] = ["*.md"]
    let text = String(decoding: try SettingsFile.render(folder: id, version: 4, row: row), as: UTF8.self)
    let lines = text.split(separator: "\n").filter { !$0.hasPrefix("#") && !$0.hasPrefix(" ") }.map(String.init)
    #expect(lines == ["folder: \(id)", "version: 4", "ignore:", "title: Notes", "include:"])
    #expect(!text.contains("revoked_at"))
    // The same of a row as a server gives it.
    let desk = try Desk(["ignore": ["drafts/"], "title": "Notes", "search": ["types": ["core.note"]]])
    let kept = try desk.properties(desk.folder).object?.keys.map(\.string) ?? []
    let named = try desk.machine.need(Self.yaml).split(separator: "\n")
      .filter { !$0.hasPrefix("#") && !$0.hasPrefix(" ") && $0.contains(":") }
      .map { String($0.prefix { $0 != ":" }) }
    #expect(named == ["folder", "version"] + kept)
    try desk.works()
  }

  @Test("X-S44 a changed ignore is one PATCH of ignore and version; the file has the new version; the push goes by it")
  func changed() throws {
    let desk = try pushed(["title": "Notes", "search": ["types": ["core.note"]], "ignore": ["old/"]])
    try desk.machine.edit(Self.yaml, "old/", "drafts/")
    try desk.machine.write("drafts/a.md", "A.\n")
    try desk.machine.write("old/b.md", "B.\n")
    let (push, sent) = try desk.push()
    #expect(changes(sent, desk).map { $0.body } == [["version": 1, "ignore": ["drafts/"]]])
    #expect(changes(sent, desk)[0].body.object?.keys.count == 2)
    #expect(push.settings.sent && push.settings.flagged == nil)
    #expect(try desk.machine.need(Self.yaml).contains("version: 2\n"))
    #expect(push.scan.created == 1)
    #expect(try desk.bench.titles() == ["b"])
  }

  @Test("X-S45 a comment alone sends nothing, and the file is written without it")
  func comment() throws {
    let desk = try pushed()
    let text = try desk.machine.need(Self.yaml)
    try desk.machine.edit(Self.yaml, "title: Notes", "# mine\ntitle: Notes")
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.settings.written && !push.settings.sent && push.settings.flagged == nil)
    #expect(try desk.machine.need(Self.yaml) == text)
  }

  @Test("X-S46 a title taken out at the version in force is flagged with what to write, and the file left")
  func takenOut() throws {
    let desk = try pushed(["title": "Notes", "search": ["types": ["core.note"]], "ignore": ["drafts/"]])
    for (line, key) in [("title: Notes\n", "title"), ("ignore:\n  - drafts/\n", "ignore")] {
      let whole = try desk.machine.need(Self.yaml)
      try desk.machine.edit(Self.yaml, line, "")
      let edited = try desk.machine.need(Self.yaml)
      let (push, sent) = try desk.push()
      #expect(changes(sent, desk).isEmpty && !push.settings.sent && !push.settings.written)
      let flagged = try #require(push.settings.flagged)
      #expect(flagged.contains("`\(key)`") && flagged.contains("write it empty"))
      #expect(try desk.machine.need(Self.yaml) == edited)
      try desk.machine.save(Self.yaml, whole)
      _ = try desk.push()
    }
  }

  @Test(
    "X-S47 a file that does not parse, is no UTF-8 or holds a NUL sends nothing; the folder works by what is in force",
    arguments: ["title: [", "title: \"No\u{0}tes\"", "latin"])
  func unread(_ kind: String) throws {
    let desk = try pushed(["title": "Notes", "search": ["types": ["core.note"]], "ignore": ["drafts/"]])
    var bytes = Array(try desk.machine.need(Self.yaml).replacing("title: Notes", with: kind).utf8)
    if kind == "latin" { bytes = Array(try desk.machine.need(Self.yaml).utf8) + Array("# caf".utf8) + [0xE9, 0x0A] }
    try desk.machine.disk.write(desk.machine.at(Self.yaml), bytes)
    try desk.machine.write("drafts/a.md", "A.\n")
    try desk.machine.write("b.md", "B.\n")
    let (push, sent) = try desk.push()
    #expect(changes(sent, desk).isEmpty && push.settings.flagged?.isEmpty == false && !push.settings.sent)
    if kind == "title: [" { #expect(push.settings.flagged?.contains("line") == true) }
    #expect(try desk.bench.titles() == ["b"])
    #expect(desk.machine.disk.read(desk.machine.at(Self.yaml)) == bytes)
    #expect(try desk.machine.pull().settings.flagged?.isEmpty == false)
  }

  @Test("X-S48 a file that names another folder is flagged naming add")
  func anotherFolder() throws {
    let desk = try pushed()
    let other = try desk.bench.folder()
    try desk.machine.edit(Self.yaml, desk.folder.description, other.description)
    let (push, sent) = try desk.push()
    #expect(changes(sent, desk).isEmpty && sent.isEmpty)
    #expect(
      push.settings.flagged?.contains("`add`") == true && push.settings.flagged?.contains(other.description) == true)
    #expect(try desk.machine.need(Self.yaml).contains(other.description))
  }

  @Test("X-S49 a version as text, as 3.0 and as 3 is one; without the line it is the last written")
  func versions() throws {
    for line in ["version: \"3\"", "version: 3.0", "version: 3"] {
      guard case .success(let contents) = SettingsFile.read(Array("\(line)\ntitle: Notes\n".utf8)) else {
        Issue.record("\(line)")
        continue
      }
      #expect(contents.version == 3, "\(line)")
    }
    for line in ["version: \"3\"\n", "version: 3.0\n", "version: 3\n", ""] {
      let desk = try pushed()
      for title in ["Two", "Three"] {
        try change(desk, ["title": .string(Text(title))])
        _ = try desk.push()
      }
      try desk.machine.edit(Self.yaml, "version: 3\n", line)
      try desk.machine.edit(Self.yaml, "title: Three", "title: Mine")
      let (push, sent) = try desk.push()
      #expect(changes(sent, desk).map { $0.body } == [["version": 3, "title": "Mine"]], "\(line)")
      #expect(push.settings.sent)
    }
  }

  @Test("X-S50 changes of two machines to two settings both hold; to one they conflict, with a way out")
  func twoMachines() throws {
    let desk = try pushed(["title": "Notes", "search": ["types": ["core.note"]], "include": ["*.md"], "ignore": ["a/"]])
    try change(desk, ["include": ["*.md", "*.txt"]])
    try desk.machine.edit(Self.yaml, "a/", "b/")
    let (push, _) = try desk.push()
    #expect(push.settings.sent)
    #expect(try desk.properties(desk.folder)["include"] == ["*.md", "*.txt"])
    #expect(try desk.properties(desk.folder)["ignore"] == ["b/"])
    #expect(try settings(desk)["include"] == ["*.md", "*.txt"] && settings(desk)["ignore"] == ["b/"])

    try change(desk, ["ignore": ["theirs/"]])
    try desk.machine.edit(Self.yaml, "b/", "mine/")
    let (refused, sent) = try desk.push()
    #expect(changes(sent, desk).count == 1 && !refused.settings.sent)
    let flagged = try #require(refused.settings.flagged)
    #expect(flagged.contains("delete the file"))
    #expect(try desk.machine.need(Self.yaml).contains("mine/"))
    // The row that moved meanwhile makes the same text be judged once more, and no more often than that.
    _ = try desk.push()
    let (again, nothing) = try desk.push()
    #expect(changes(nothing, desk).isEmpty && again.settings.flagged != nil)
    #expect(try desk.properties(desk.folder)["ignore"] == ["theirs/"])
    try desk.machine.delete(Self.yaml)
    let (last, none) = try desk.push()
    #expect(changes(none, desk).isEmpty && last.settings.written && last.settings.flagged == nil)
    #expect(try settings(desk)["ignore"] == ["theirs/"])
  }

  @Test("X-S51 an edit that reaches no server is said to be not sent yet, and goes under the same key")
  func outOfReach() throws {
    let desk = try pushed()
    try desk.machine.edit(Self.yaml, "title: Notes", "title: Mine")
    desk.machine.isOnline = false
    let offline = try desk.machine.push()
    #expect(offline.settings.flagged?.contains("not sent yet") == true && !offline.settings.sent)
    desk.machine.isOnline = true
    desk.bench.transport.before = { request in
      request.method == "PATCH" && request.url.contains("/folders/") ? .failure(.unreachable("cut off")) : nil
    }
    var report: FolderPush?
    _ = try desk.sent { report = try desk.machine.push() }
    let first = keys(desk)
    desk.bench.transport.before = nil
    #expect(report?.settings.flagged?.contains("not sent yet") == true)
    let (push, sent) = try desk.push()
    #expect(push.settings.sent && changes(sent, desk).count == 1)
    #expect(first.count == 1 && keys(desk) == first)
    #expect(try desk.properties(desk.folder)["title"] == "Mine")
  }

  @Test("X-S52 an edit refused with 400 is asked once in three passes; a changed text is asked again")
  func refusedOnce() throws {
    let desk = try pushed()
    try desk.machine.edit(Self.yaml, "title: Notes", "title: Mine")
    desk.bench.transport.before = { request in
      request.method == "PATCH" && request.url.contains("/folders/")
        ? .success(HTTPResponse(refusing: 400, "invalid_properties")) : nil
    }
    var asked = 0
    for _ in 0..<3 {
      let (push, sent) = try desk.push()
      asked += changes(sent, desk).count
      #expect(push.settings.flagged?.contains("invalid_properties") == true)
    }
    #expect(asked == 1)
    try desk.machine.edit(Self.yaml, "title: Mine", "title: Ours")
    let (_, sent) = try desk.push()
    #expect(changes(sent, desk).map { $0.body["title"] } == ["Ours"])
    desk.bench.transport.before = nil
    #expect(try desk.properties(desk.folder)["title"] == "Notes")
  }

  @Test("X-S53 a deleted file is written again by a pull")
  func deleted() throws {
    let desk = try pushed()
    let text = try desk.machine.need(Self.yaml)
    try desk.machine.delete(Self.yaml)
    let pull = try desk.machine.pull()
    #expect(pull.settings.written && !pull.settings.sent && pull.settings.flagged == nil)
    #expect(try desk.machine.need(Self.yaml) == text)
  }

  @Test("X-S54 a save between reading and writing it stays, and is the next pass's edit")
  func savedMeanwhile() throws {
    let desk = try pushed()
    let mine = try desk.machine.need(Self.yaml) + "ignore:\n  - mine/\n"
    try change(desk, ["title": "Theirs"])
    let (disk, path) = (desk.machine.disk, desk.machine.at(Self.yaml))
    desk.machine.door = FaultDoor { (point, name, _) throws(FileError) in
      if point == .lastLook, name == "folder.yaml" { try disk.save(path, Array(mine.utf8)) }
    }
    let (push, _) = try desk.push()
    desk.machine.door = .none
    #expect(!push.settings.written && push.settings.unwritten != nil)
    #expect(try desk.machine.need(Self.yaml) == mine)
    let (next, sent) = try desk.push()
    #expect(changes(sent, desk).map { $0.body } == [["version": 1, "ignore": ["mine/"]]])
    #expect(next.settings.sent)
    #expect(try desk.properties(desk.folder)["title"] == "Theirs")
    #expect(try settings(desk)["ignore"] == ["mine/"] && settings(desk)["title"] == "Theirs")
  }

  @Test(
    "X-S55 a crash before or after its rename: the next pass sends nothing, and the file is the row's",
    arguments: [true, false])
  func crashed(_ before: Bool) throws {
    let desk = try pushed()
    try change(desk, ["title": "Theirs"])
    let renamed = Mutex(false)
    desk.machine.faults = Faults { call in
      if renamed.withLock({ $0 }) { return .crash }
      guard call.operation == .rename, call.name.name == "folder.yaml" else { return .proceed }
      if before { return .crash }
      renamed.withLock { $0 = true }
      return .proceed
    }
    _ = try? desk.machine.push()
    #expect(desk.machine.faults?.crashed == true)
    desk.machine.restart()
    #expect(try desk.machine.need(Self.yaml).contains("Theirs") == !before)
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && !push.settings.sent && push.settings.flagged == nil)
    #expect(try settings(desk) == desk.properties(desk.folder))
    #expect(try desk.machine.need(Self.yaml).contains("version: 2\n"))
    let left = desk.machine.disk.tree(desk.machine.at(".marfa")).map(\.path.description)
    #expect(!left.contains { $0.hasSuffix(".tmp") }, "\(left)")
  }

  @Test("X-S56 an unsent edit goes where the folder is added again: the file is the row's")
  func addedAgain() throws {
    let desk = try pushed()
    let text = try desk.machine.need(Self.yaml)
    try desk.machine.edit(Self.yaml, "title: Notes", "title: Mine")
    let sent = try desk.sent { try desk.machine.add(desk.folder) }
    #expect(sent.isEmpty)
    #expect(try desk.machine.need(Self.yaml) == text)
    #expect(try desk.machine.folders.list().count == 1)
    #expect(try changes(desk.push().sent, desk).isEmpty)
    try desk.works()
  }

  @Test("X-S57 while the first sync waits an edited file is not sent")
  func firstSync() throws {
    let bench = try FolderBench()
    try bench.item("One")
    let folder = try KeptFolder(bench, added: false)
    try folder.write("a.md")
    try folder.add(yes: false)
    try folder.write(Self.yaml, try #require(folder.text(Self.yaml)).replacing("title: Notes", with: "title: Mine"))
    bench.transport.clear()
    #expect(try folder.plan().waiting)
    #expect(bench.writes.isEmpty)
    #expect(folder.text(Self.yaml)?.contains("title: Mine") == true)
    _ = try folder.confirm()
    #expect(try folder.push().settings.sent)
    #expect(try bench.row(folder.id)["item"]?["properties"]?["title"] == "Mine")
  }

  @Test("X-S72 an edit is told from what was written last, not from the row that moved")
  func fromLastWritten() throws {
    let desk = try pushed(["title": "Notes", "search": ["types": ["core.note"]], "ignore": ["a/"]])
    try change(desk, ["ignore": ["theirs/"]])
    // The row is caught up here; the file, written at 1, is edited before a pull writes it again.
    try desk.machine.save(Self.yaml, try desk.machine.need(Self.yaml) + "include:\n  - notes/**\n")
    _ = try desk.machine.folders.working(desk.machine.root, "catch-up") { try $0.catchUp() }
    let (push, sent) = try desk.push()
    #expect(changes(sent, desk).map { $0.body } == [["version": 1, "include": ["notes/**"]]])
    #expect(push.settings.sent)
    #expect(try desk.properties(desk.folder)["ignore"] == ["theirs/"])
    #expect(try settings(desk)["ignore"] == ["theirs/"] && settings(desk)["include"] == ["notes/**"])
  }

  @Test("X-S73 an old editor buffer sends every setting it names at its version, and what it leaves out is kept")
  func oldBuffer() throws {
    let desk = try pushed()
    let old = try desk.machine.need(Self.yaml)
    try change(desk, ["include": ["*.md"]])
    _ = try desk.push()
    try change(desk, ["ignore": ["drafts/"]])
    _ = try desk.push()
    #expect(try desk.machine.need(Self.yaml).contains("version: 3\n"))
    try desk.machine.save(Self.yaml, old.replacing("title: Notes", with: "title: Mine"))
    let (push, sent) = try desk.push()
    #expect(
      changes(sent, desk).map { $0.body } == [["version": 1, "title": "Mine", "search": ["types": ["core.note"]]]])
    #expect(push.settings.sent)
    let row = try desk.properties(desk.folder)
    #expect(row["title"] == "Mine" && row["include"] == ["*.md"] && row["ignore"] == ["drafts/"])
    #expect(try settings(desk) == row)
  }

  @Test("X20.3 a settings file that cannot be read or written is said, and the rest of the push goes on")
  func closed() throws {
    let desk = try pushed()
    let path = desk.machine.at(Self.yaml)
    try change(desk, ["title": "Theirs"])
    try desk.machine.disk.setMode(path, 0o400)
    try desk.machine.write("a.md", "A.\n")
    let (readOnly, _) = try desk.push()
    #expect(readOnly.settings.unwritten != nil && readOnly.scan.created == 1)
    try desk.machine.disk.setMode(path, 0)
    try desk.machine.write("b.md", "B.\n")
    let (unreadable, _) = try desk.push()
    #expect(unreadable.settings.flagged != nil || unreadable.settings.unwritten != nil)
    #expect(unreadable.scan.created == 1)
    #expect(try desk.bench.titles() == ["a", "b"])
    try desk.machine.disk.setMode(path, 0o600)
    #expect(try desk.push().report.settings.written)
    #expect(try settings(desk)["title"] == "Theirs")
  }
}
