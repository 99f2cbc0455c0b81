import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// The settings row, its file, the search and the defaults (F1 to F5).
struct SettingsScenarioTests {
  static let yaml = ".marfa/folder.yaml"

  /// The changes of settings among what was sent.
  func changes(_ sent: [Sent], _ desk: Desk) -> [Sent] {
    sent.filter { $0.method == "PATCH" && $0.target.hasPrefix("/folders/\(desk.folder)") }
  }

  @Test("F-S1.1 a folder of bookmarks with defaults: create, tag, held file and the pinned row")
  func bookmarks() throws {
    let desk = try Desk(
      [
        "title": "Links", "search": ["types": ["core.bookmark"]],
        "defaults": ["properties": ["language": "en"], "tags": ["inbox"]],
      ]) { try $0.item("Held", type: "core.bookmark") }
    try desk.machine.write("New.md", "New.\n")
    let (push, sent) = try desk.push()
    let create = try #require(sent.creates.first)
    #expect(sent.creates.count == 1 && create.body.string("type") == "core.bookmark")
    #expect(create.body.string("tier") == "library")
    #expect(create.body["properties"] == ["language": "en", "title": "New", "body": "New.\n"])
    #expect(sent.filter { $0.target.hasSuffix("/tags") }.map { $0.body } == [["tags": ["inbox"]]])
    #expect(push.pull?.written == 1 && desk.machine.files() == ["Held.md", "New.md"])
    #expect(try desk.tags(desk.id("New")) == ["inbox"])
    let pins = try desk.machine.folders.working(desk.machine.root, "look") { try $0.copy.status().json }
    #expect(pins.compact.contains(desk.folder.description), "\(pins.compact)")
  }

  @Test("F-S1.2 a search and default tag changed elsewhere are in force at the next push, with nothing hydrated")
  func changedElsewhere() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"], "filter": "tags contains \"old\""]]) {
      bench in
      try bench.item("Old", tags: ["old"])
      try bench.item("New", tags: ["new"])
    }
    _ = try desk.push()
    #expect(desk.machine.files() == ["Old.md"])
    try desk.bench.ask(
      "PATCH", "/folders/\(desk.folder)",
      [
        "version": 1, "search": ["types": ["core.note"], "filter": "tags contains \"new\""],
        "defaults": ["tags": ["new"]],
      ])
    let (push, _) = try desk.push()
    #expect(push.hydrated == nil && push.catchUp.hydrated == nil)
    #expect(push.pull?.written == 1 && push.pull?.unmatched == 1, "\(push.json.compact)")
    #expect(desk.machine.files() == ["New.md", "Old.md"])
    try desk.machine.write("Mine.md", "Mine.\n")
    _ = try desk.push()
    #expect(try desk.tags(desk.id("Mine")) == ["new"])
  }

  @Test("F-S1.3 other types, then another tier, hydrate each time, and a note that left by type keeps its file")
  func otherSlice() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"]]]) { try $0.item("Note") }
    try desk.bench.item("Link", type: "core.bookmark")
    _ = try desk.push()
    try desk.bench.ask("PATCH", "/folders/\(desk.folder)", ["version": 1, "search": ["types": ["core.bookmark"]]])
    var hydrated = 0
    for _ in 0..<2 {
      let (push, _) = try desk.push()
      if push.hydrated != nil || push.catchUp.hydrated != nil { hydrated += 1 }
    }
    #expect(hydrated == 1)
    #expect(desk.machine.files() == ["Link.md", "Note.md"])
    try desk.bench.ask(
      "PATCH", "/folders/\(desk.folder)", ["version": 2, "search": ["types": ["core.bookmark"], "tier": "feed"]])
    hydrated = 0
    for _ in 0..<2 {
      let (push, _) = try desk.push()
      if push.hydrated != nil || push.catchUp.hydrated != nil { hydrated += 1 }
    }
    #expect(hydrated == 1)
    #expect(desk.machine.files() == ["Link.md", "Note.md"])
    #expect(try desk.state(desk.id("Note")) == "active")
  }

  @Test("F-S1.4 a live folder is taken; a note and a revoked folder are refused, saying so, with nothing made")
  func whatIsAdded() throws {
    let bench = try FolderBench()
    let live = try bench.folder()
    let note = try bench.item("Note")
    let revoked = try bench.folder()
    try bench.ask("POST", "/folders/\(revoked)/revoke", [:])
    for (id, words) in [(note, "folder"), (revoked, "revoked")] {
      let machine = bench.machine("other")
      do {
        try machine.add(id)
        Issue.record("taken")
      } catch { #expect("\(error)".contains(words), "\(error)") }
      #expect(machine.disk.status(machine.root) == nil)
      #expect(try machine.folders.list().isEmpty)
    }
    let machine = bench.machine()
    try machine.add(live)
    #expect(try machine.folders.list().count == 1)
    try machine.save("a.md", "Words.\n")
    _ = try machine.push()
    #expect(try bench.ids("a").count == 1)
  }

  @Test("F-S1.5 a folder answered 404 names system.folder:read for a key that lacks it, and not for one that has it")
  func unseen() throws {
    let bench = try FolderBench()
    let folder = try bench.folder()
    for (grant, names) in [("core.*", true), ("*", false)] {
      let made = try bench.ask(
        "POST", "/keys", ["label": "K", "type_permissions": [Text(grant): "write"], "edge_permissions": ["*": "write"]])
      let machine = bench.machine("m\(names)")
      machine.key = try #require(made.string("key"))
      let id = names ? folder : try #require(EntityID("01900000-0000-7000-8000-00000000dead"))
      do {
        try machine.add(id)
        Issue.record("taken")
      } catch { #expect("\(error)".contains("system.folder:read") == names, "\(error)") }
      #expect(machine.text(Self.yaml) == nil)
    }
    let machine = bench.machine("taken")
    try machine.add(folder)
    try machine.save("a.md", "Words.\n")
    _ = try machine.push()
    #expect(try bench.ids("a").count == 1)
  }

  @Test("F1.7 in part: a default tag appended goes as one change of defaults, and the same push's new file takes it")
  func appended() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"]], "defaults": ["tags": ["one"]]])
    _ = try desk.push()
    try desk.machine.edit(Self.yaml, "- one\n", "- one\n    - two\n")
    try desk.machine.write("New.md", "New.\n")
    let (push, sent) = try desk.push()
    #expect(changes(sent, desk).map { $0.body } == [["version": 1, "defaults": ["tags": ["one", "two"]]]])
    #expect(push.settings.sent && push.settings.flagged == nil)
    #expect(try desk.machine.need(Self.yaml).contains("version: 2\n"))
    #expect(try desk.tags(desk.id("New")) == ["one", "two"])
    try desk.machine.edit(Self.yaml, "title: Notes", "title: Mine")
    let (_, next) = try desk.push()
    #expect(changes(next, desk).map { $0.body } == [["version": 2, "title": "Mine"]])
    #expect(try desk.properties(desk.folder)["title"] == "Mine")
  }

  @Test("F-S1.9 settings changed elsewhere rewrite the file at version 2")
  func rewritten() throws {
    let desk = try Desk()
    _ = try desk.push()
    try desk.bench.ask("PATCH", "/folders/\(desk.folder)", ["version": 1, "title": "Theirs"])
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.settings.written && !push.settings.sent)
    #expect(try desk.machine.need(Self.yaml).contains("version: 2\ntitle: Theirs\n"))
  }

  @Test(
    "F-S1.10 an unsent edit is left by a pull over a change elsewhere; pushed, it goes with what it changed, and both stand"
  )
  func unsentEdit() throws {
    let desk = try Desk()
    _ = try desk.push()
    try desk.machine.edit(Self.yaml, "title: Notes", "title: Mine")
    let typed = try desk.machine.need(Self.yaml)
    try desk.bench.ask("PATCH", "/folders/\(desk.folder)", ["version": 1, "include": ["*.md"]])
    _ = try desk.machine.folders.working(desk.machine.root, "catch-up") { try $0.catchUp() }
    let pull = try desk.machine.pull()
    #expect(!pull.settings.written && !pull.settings.sent)
    #expect(try desk.machine.need(Self.yaml) == typed)
    let (push, sent) = try desk.push()
    #expect(changes(sent, desk).map { $0.body } == [["version": 1, "title": "Mine"]])
    #expect(push.settings.sent)
    let text = try desk.machine.need(Self.yaml)
    #expect(text.contains("title: Mine") && text.contains("*.md") && text.contains("version: 3"))
  }

  @Test("F-S1.11 an old buffer sends every setting at its line; version 0 is the last written; \"3\" and 3.0 are 3")
  func baseLine() throws {
    let desk = try Desk()
    _ = try desk.push()
    let old = try desk.machine.need(Self.yaml)
    try desk.bench.ask("PATCH", "/folders/\(desk.folder)", ["version": 1, "include": ["*.md"]])
    _ = try desk.push()
    try desk.machine.save(Self.yaml, old.replacing("title: Notes", with: "title: Mine"))
    let (_, sent) = try desk.push()
    #expect(
      changes(sent, desk).map { $0.body } == [["version": 1, "title": "Mine", "search": ["types": ["core.note"]]]])
    #expect(try desk.version(desk.folder) == 3)
    var version = 3
    for (line, named) in [("0", 3), ("\"4\"", 4), ("5.0", 5)] {
      try desk.machine.save(
        Self.yaml,
        try desk.machine.need(Self.yaml).replacing("version: \(version)\n", with: "version: \(line)\n")
          .replacing("title: Mine", with: "title: Mine\(version)").replacing(
            "title: Mine\(version - 1)", with: "title: Mine\(version)"))
      let text = try desk.machine.need(Self.yaml)
      try desk.machine.save(
        Self.yaml,
        text.split(separator: "\n").map { $0.hasPrefix("title:") ? "title: V\(version)" : String($0) }.joined(
          separator: "\n") + "\n")
      let (_, next) = try desk.push()
      #expect(
        changes(next, desk).map { $0.body } == [["version": .int(named), "title": .string("V\(version)")]], "\(line)")
      version += 1
    }
  }

  @Test(
    "F1.12 in part: a comment or the text in force at an older line sends nothing; a changed or missing one sends all it names"
  )
  func commentsAndOlder() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"]], "include": ["*.md"]])
    _ = try desk.push()
    try desk.machine.edit(Self.yaml, "title: Notes", "# mine\ntitle: Notes")
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.settings.written)
    #expect(try !desk.machine.need(Self.yaml).contains("# mine"))
    try desk.bench.ask("PATCH", "/folders/\(desk.folder)", ["version": 1, "title": "Two"])
    _ = try desk.push()
    try desk.machine.edit(Self.yaml, "version: 2\n", "version: 1\n")
    let (again, nothing) = try desk.push()
    #expect(nothing.isEmpty && again.settings.written)
    #expect(try desk.machine.need(Self.yaml).contains("version: 2\n"))
    let text = try desk.machine.need(Self.yaml).replacing("version: 2\n", with: "version: 1\n")
    let cut = try #require(text.firstRange(of: "include:"))
    try desk.machine.save(Self.yaml, String(text[..<cut.lowerBound]).replacing("title: Two", with: "title: Three"))
    let (last, changed) = try desk.push()
    #expect(
      changes(changed, desk).map { $0.body } == [["version": 1, "title": "Three", "search": ["types": ["core.note"]]]]
        || last.settings.flagged != nil)
    #expect(try desk.properties(desk.folder)["include"] == ["*.md"])
  }

  @Test(
    "F-S1.13 an edit the door could not take now goes again the same at the next push", arguments: [503, 401, 429, 0])
  func notYet(_ status: Int) throws {
    let desk = try Desk()
    _ = try desk.push()
    try desk.machine.edit(Self.yaml, "title: Notes", "title: Mine")
    desk.bench.transport.before = { request in
      if status == 0 {
        return request.method == "GET" && request.url == "\(FolderBench.origin)/"
          ? .success(refusal(503, "unavailable", "Not now.")) : nil
      }
      guard request.method == "PATCH", request.url.contains("/folders/") else { return nil }
      return .success(refusal(status, status == 401 ? "unauthorized" : "unavailable", "Not now."))
    }
    var first: FolderPush?
    let tried = desk.sent { first = try? desk.machine.push() }
    desk.bench.transport.before = nil
    if status == 0 { #expect(changes(tried, desk).isEmpty) } else { #expect(changes(tried, desk).count == 1) }
    if let first { #expect(first.settings.flagged?.contains("not sent yet") == true && !first.settings.sent) }
    #expect(first != nil || status == 401 || status == 0)
    let (push, sent) = try desk.push()
    #expect(changes(sent, desk).map { $0.body } == [["version": 1, "title": "Mine"]])
    #expect(push.settings.sent)
    #expect(try desk.properties(desk.folder)["title"] == "Mine")
  }

  @Test("F-S1.16 an unsent edit is lost where the folder is added again, and nothing is sent")
  func addedAgain() throws {
    let desk = try Desk()
    try desk.works()
    _ = try desk.push()
    try desk.machine.edit(Self.yaml, "title: Notes", "title: Mine")
    let sent = try desk.sent { try desk.machine.add(desk.folder) }
    #expect(sent.isEmpty)
    #expect(try desk.machine.need(Self.yaml).contains("title: Notes"))
    #expect(try desk.push().sent.isEmpty)
    #expect(try desk.properties(desk.folder)["title"] == "Notes")
  }

  // MARK: The search

  @Test("F-S2.2 a search naming no state holds archived and active items; one naming active, one")
  func states() throws {
    for (search, files) in [
      (["types": ["core.note"]] as JSON, ["Active.md", "Archived.md"]),
      (["types": ["core.note"], "state": ["active"]], ["Active.md"]),
    ] {
      let desk = try Desk(["title": "Notes", "search": search]) { bench in
        try bench.item("Active")
        let id = try bench.item("Archived")
        try bench.ask("POST", "/items/\(id)/transition", ["state": "archived"])
      }
      _ = try desk.push()
      #expect(desk.machine.files() == files)
    }
  }

  @Test("F-S2.5 beneath holds the readable children alone")
  func beneath() throws {
    let bench = try FolderBench()
    let project = try bench.item("Project")
    let ids = [try bench.item("Note child"), try bench.item("Link child", type: "core.bookmark")]
    for id in ids {
      try bench.ask(
        "POST", "/edges",
        [
          "source_id": .string(project.text), "target_id": .string(id.text), "edge_type": "parent-of",
          "properties": [:],
        ])
    }
    let folder = try bench.folder(["title": "Beneath", "search": ["beneath": .string(project.text)]])
    let made = try bench.ask(
      "POST", "/keys",
      [
        "label": "K", "type_permissions": ["core.note": "write", "system.folder": "read"],
        "edge_permissions": ["*": "write"],
      ])
    let machine = bench.machine()
    machine.key = try #require(made.string("key"))
    try machine.add(folder)
    _ = try machine.push()
    #expect(machine.files() == ["Note child.md", "Project.md"])
  }

  // MARK: Defaults

  @Test("F-S3.1 defaults fill what new files leave blank, bodies are the files', and an edit takes none")
  func defaults() throws {
    let bench = try FolderBench()
    let (project, other, about) = (try bench.item("Project"), try bench.item("Other"), try bench.item("About"))
    let folder = try bench.folder([
      "title": "All", "search": ["types": ["core.note", "core.file"]],
      "defaults": [
        "type": "core.note", "tier": "library", "tags": ["inbox"],
        "properties": ["language": "en", "body": "Default body", "title": "Default title"],
        "edges": ["parent-of": [.string(project.text)], "about": [.string(about.text)]],
      ],
    ])
    let machine = bench.machine()
    try machine.add(folder)
    _ = try machine.push()
    try machine.write("Plain.md", "---\nmine: 1\n---\nPlain.\n")
    try machine.write("Own.md", "---\ntitle: Own\nchild-of: \"[[Other]]\"\n---\nOwn.\n")
    try machine.write("text.txt", "Text.\n")
    try machine.write("pic.png", "bytes")
    try machine.edit("Project.md", "Words.", "Edited.")
    _ = try machine.push()
    let desk = (bench, machine)
    func row(_ where_: (JSON) -> Bool) throws -> (EntityID, JSON) {
      let rows = try bench.ask("GET", "/items?tier=all&state=any&limit=200&include=metadata")["data"]?.array ?? []
      let found = rows.filter { where_($0["item"]?["properties"] ?? .null) }
      guard found.count == 1, let id = found[0]["item"]?.string("id").flatMap({ EntityID(Text($0)) }) else {
        throw BenchError("\(found.count) rows")
      }
      return (id, found[0])
    }
    let plain = try row { $0["body"] == "Plain.\n" }
    let own = try row { $0["title"] == "Own" }
    let text = try row { $0["body"] == "Text.\n" }
    let picture = try row { $0["title"] == "pic.png" }
    #expect(
      plain.1["item"]?["properties"] == ["mine": 1, "language": "en", "title": "Default title", "body": "Plain.\n"])
    #expect(own.1["item"]?["properties"] == ["title": "Own", "language": "en", "body": "Own.\n"])
    #expect(text.1["item"]?["properties"] == ["title": "Default title", "language": "en", "body": "Text.\n"])
    #expect(picture.1["item"]?["properties"]?["language"] == nil)
    func parents(_ id: EntityID) throws -> [String] {
      (try bench.ask("GET", "/items/\(id)/backrefs")["data"]?.array ?? []).map { $0["edge"] ?? $0 }
        .filter { $0.string("edge_type") == "parent-of" }.compactMap { $0.string("source_id") }
    }
    for (id, json) in [plain, own, text, picture] {
      #expect(json["metadata"]?["tags"] == ["inbox"], "\(json.compact)")
      #expect(json["item"]?.string("tier") == "library")
      #expect(try parents(id) == [(id == own.0 ? other : project).description], "\(json.compact)")
      let abouts = (try bench.ask("GET", "/items/\(id)/edges")["data"]?.array ?? []).map { $0["edge"] ?? $0 }
        .filter { $0.string("edge_type") == "about" }.compactMap { $0.string("target_id") }
      #expect(abouts == [about.description])
    }
    let edited = try bench.row(project)
    #expect(edited["item"]?["properties"] == ["title": "Project", "body": "Edited.\n"])
    #expect(edited["metadata"]?["tags"] == [])
    _ = desk
  }

  @Test("F-S3.2 a document in a search of core.file then core.note is a note")
  func firstDocumentType() throws {
    let desk = try Desk(["title": "All", "search": ["types": ["core.file", "core.note"]]])
    try desk.machine.write("A.md", "Words.\n")
    _ = try desk.push()
    #expect(try desk.item(desk.id("A")).string("type") == "core.note")
  }

  @Test("F-S3.4 tags: [] and a title take no defaults; a file with neither takes both")
  func ownAnswers() throws {
    let desk = try Desk([
      "title": "Notes", "search": ["types": ["core.note"]],
      "defaults": ["tags": ["inbox"], "properties": ["title": "Default"]],
    ])
    try desk.machine.write("Own.md", "---\ntags: []\ntitle: Mine\n---\nOwn.\n")
    try desk.machine.write("Blank.md", "Blank.\n")
    _ = try desk.push()
    #expect(try desk.tags(desk.id("Mine")).isEmpty)
    #expect(try desk.tags(desk.id("Default")) == ["inbox"])
    #expect(try desk.properties(desk.id("Default"))["body"] == "Blank.\n")
  }

  @Test("F-S3.5 a file of raw bytes takes the tag and none of the default properties")
  func rawBytes() throws {
    let desk = try Desk([
      "title": "Files", "search": ["types": ["core.file"]],
      "defaults": ["tags": ["inbox"], "properties": ["language": "en"]],
    ])
    try desk.machine.write("data.bin", "bytes")
    let (_, sent) = try desk.push()
    let create = try #require(sent.creates.first)
    #expect(create.body["properties"]?["language"] == nil)
    #expect(try desk.tags(desk.id("data.bin")) == ["inbox"])
    #expect(try desk.properties(desk.id("data.bin"))["language"] == nil)
  }

  @Test("F-S5.1 an empty directory is filled and what was made there sent; once it is gone a scan answers no more")
  func throwaway() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"]]]) { try $0.item("Held") }
    _ = try desk.push()
    #expect(desk.machine.files() == ["Held.md"])
    try desk.machine.write("New.md", "New.\n")
    _ = try desk.push()
    #expect(try desk.bench.titles() == ["Held", "New"])
    try desk.machine.disk.delete(desk.machine.root)
    do {
      let scan = try desk.machine.scan()
      #expect(scan.rootGone != nil)
    } catch { #expect("\(error)".contains("\(desk.machine.root)")) }
    #expect(try desk.bench.titles() == ["Held", "New"])
  }

  @Test("F-S1.6 .marfa holds one settings file with the id, version 1 and each setting, quoted as needed")
  func theFile() throws {
    let desk = try Desk([
      "title": "Notes", "search": ["types": ["core.note"], "filter": "tags contains \"recipe\""],
      "defaults": ["tags": ["draft"]], "include": ["*.md"],
    ])
    let text = try desk.machine.need(Self.yaml)
    let lines = text.split(separator: "\n").map(String.init).filter { !$0.hasPrefix("#") }
    #expect(lines.prefix(3) == ["folder: \(desk.folder)", "version: 1", "title: Notes"])
    #expect(lines.contains { $0.hasPrefix("  filter:") && $0.contains("tags contains") && $0.contains("recipe") })
    #expect(text.contains("- draft") && text.contains("- \"*.md\""))
    let beside = desk.machine.disk.tree(desk.machine.root).map { $0.path.name.description }
      .filter { !$0.hasPrefix("core.") }
    #expect(beside == ["folder.yaml"])
    try desk.works()
  }
}
