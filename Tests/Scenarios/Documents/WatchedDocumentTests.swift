import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

@testable import marfa_folders

/// Settings and files as a running watch meets them (F1, F18, F20), and placements that contest a path (F19).
struct WatchedDocumentTests {
  static let yaml = SettingsScenarioTests.yaml

  func changes(_ sent: [Sent], _ desk: Desk) -> [Sent] {
    sent.filter { $0.method == "PATCH" && $0.target.hasPrefix("/folders/\(desk.folder)") }
  }

  func watch(_ machine: FolderMachine) throws -> FolderEngine { try machine.folders.open(machine.root, role: .writer) }

  @discardableResult
  func pass(_ engine: FolderEngine, _ desk: Desk) throws -> FolderPush {
    desk.bench.clock.advance(nanoseconds: 400_000_000)
    return try engine.sync(quick: true, isWatch: true)
  }

  @Test("F-S1.7 a default tag appended goes as one change the same push's new file takes; a watch sends the next at 2")
  func appended() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"]], "defaults": ["tags": ["one"]]])
    _ = try desk.push()
    try desk.machine.edit(Self.yaml, "- one\n", "- one\n    - two\n")
    try desk.machine.write("New.md", "New.\n")
    let (push, sent) = try desk.push()
    #expect(changes(sent, desk).map(\.body) == [["version": 1, "defaults": ["tags": ["one", "two"]]]])
    #expect(push.settings.sent && push.settings.flagged == nil)
    #expect(words(push).contains { $0.contains("the edit of folder.yaml was sent") })
    #expect(try desk.machine.need(Self.yaml).contains("version: 2\n"))
    #expect(try desk.tags(desk.id("New")) == ["one", "two"])
    let engine = try watch(desk.machine)
    try pass(engine, desk)
    try desk.machine.edit(Self.yaml, "title: Notes", "title: Mine")
    var watched: FolderPush?
    let next = try desk.sent { watched = try pass(engine, desk) }
    #expect(changes(next, desk).map(\.body) == [["version": 2, "title": "Mine"]])
    #expect(watched?.settings.sent == true)
    #expect(try desk.properties(desk.folder)["title"] == "Mine")
    #expect(try desk.machine.need(Self.yaml).contains("version: 3\ntitle: Mine\n"))
  }

  @Test("F-S18.1 a file present at the start and one arriving to a watch make equal creates but for the id")
  func oneRule() throws {
    let text = "---\ntags: [b, a]\nmood: good\noccurred_at: 2026-10-06\n---\nWords [[Other]].\n"
    let settings: JSON = [
      "title": "Notes", "search": ["types": ["core.note"]],
      "defaults": ["tags": ["inbox"], "properties": ["language": "en"]],
    ]
    var creates: [[JSON]] = []
    for isWatch in [false, true] {
      let bench = try FolderBench()
      let folder = try bench.folder(settings)
      let machine = bench.machine()
      func writeAll() throws {
        try machine.write("Note.md", text)
        try machine.write("Plain.txt", "Text.\n")
      }
      if !isWatch { try writeAll() }
      try machine.add(folder)
      var sent: [HTTPRequest] = []
      if isWatch {
        _ = try machine.push()
        let engine = try watch(machine)
        _ = try engine.sync(quick: true, isWatch: true)
        try writeAll()
        bench.clock.advance(seconds: 1)
        bench.transport.clear()
        _ = try engine.sync(quick: true, isWatch: true)
      } else {
        bench.transport.clear()
        _ = try machine.push()
      }
      sent = bench.transport.sent.filter { $0.method == "POST" && $0.url.hasSuffix("/items") }
      creates.append(
        sent.compactMap { request in
          guard case .bytes(let bytes) = request.body, var body = (try? JSON(parsing: bytes))?.object else {
            return nil
          }
          #expect(body["id"] != nil)
          body["id"] = nil
          return .object(body)
        })
      #expect(try bench.titles() == ["Note", "Plain"])
      #expect(try bench.row(bench.ids("Note")[0])["metadata"]?["tags"] == ["a", "b"])
    }
    #expect(creates[0].count == 2 && creates[0] == creates[1], "\(creates.map { $0.map(\.compact) })")
  }

  @Test(
    "F-S20.9 a settings file that cannot be written is said by pull, push and watch; other files are; later it is too")
  func unwritableSettings() throws {
    let desk = try Desk()
    _ = try desk.push()
    let engine = try watch(desk.machine)
    try pass(engine, desk)
    let path = desk.machine.at(Self.yaml)
    try desk.machine.disk.setMode(path, 0o444)
    try desk.bench.ask("PATCH", "/folders/\(desk.folder)", ["version": 1, "title": "Theirs"])
    for (index, title) in ["Pushed", "Watched"].enumerated() {
      try desk.bench.item(Text(title))
      let push = index == 0 ? try desk.push().report : try pass(engine, desk)
      let reason = try #require(push.settings.unwritten)
      #expect(reason.contains("folder.yaml") && push.pull?.written == 1, "\(push.json.compact)")
      #expect(words(push).contains { $0.contains("could not be written") && $0.contains("folder.yaml") })
      #expect(desk.machine.text("\(title).md") != nil)
    }
    try desk.bench.item("Pulled")
    _ = try desk.machine.folders.working(desk.machine.root, "catch-up") { try $0.catchUp() }
    let pull = try desk.machine.pull()
    #expect(pull.settings.unwritten?.contains("folder.yaml") == true && pull.written == 1)
    #expect(PullWords(pull: Report(pull.json)).lines.contains { $0.contains("could not be written") })
    #expect(try desk.machine.need(Self.yaml).contains("title: Notes"))
    try desk.machine.disk.setMode(path, 0o644)
    let last = try pass(engine, desk)
    #expect(last.settings.written && last.settings.unwritten == nil)
    #expect(try desk.machine.need(Self.yaml).contains("version: 2\ntitle: Theirs\n"))
  }

  @Test("F-S19.6 the older of two items keeps a path, the other takes the next number; unsafe placements are outside")
  func contested() throws {
    let bench = try FolderBench()
    let folder = try bench.folder()
    var placed: [(id: EntityID, path: String)] = []
    for (title, path) in [
      ("First", "X.md"), ("Second", "X.md"), ("Third", "d/Y.md"), ("Fourth", "d/Y.md"), ("Back", "a/../in.md"),
      ("Hidden", ".hidden/x.md"), ("Linked", "link/x.md"),
    ] {
      let id = try bench.item(Text(title), body: Text("\(title).\n"))
      try bench.place(id, in: folder, at: path)
      placed.append((id, path))
    }
    let machine = bench.machine()
    try machine.disk.makeDirectory("/home/ana/elsewhere")
    try machine.disk.makeDirectory(machine.root)
    try machine.disk.makeLink(machine.at("link"), to: "/home/ana/elsewhere")
    try machine.add(folder)
    let push = try machine.push()
    #expect(
      machine.files().filter { $0 != "link" } == ["X (2).md", "X.md", "d/Y (2).md", "d/Y.md"], "\(push.json.compact)")
    for (path, title) in [("X.md", "First"), ("X (2).md", "Second"), ("d/Y.md", "Third"), ("d/Y (2).md", "Fourth")] {
      #expect(try machine.body(path) == "\(title).\n")
    }
    #expect(push.pull?.beside == 2 && push.pull?.outside == 3, "\(push.json.compact)")
    #expect(push.pull?.flagged.filter { $0.flag == "outside" }.compactMap(\.item).count == 3)
    for (id, path) in placed.suffix(3) { #expect(try bench.placements(of: id).map(\.path) == [path]) }
    #expect(machine.disk.text("/home/ana/elsewhere/x.md") == nil)
    let titles = ["First": "X.md", "Second": "X (2).md", "Third": "d/Y.md", "Fourth": "d/Y (2).md"]
    for (title, path) in titles { #expect(try bench.placements(of: bench.id(title)).map(\.path) == [path]) }
    bench.transport.clear()
    _ = try machine.push()
    #expect(bench.writes.isEmpty)
  }
}
