import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

@testable import marfa_folders

/// Edits of the settings file the folder or its door refuses, and settings that come from elsewhere (F1, F2, F3).
struct SettingsDoorTests {
  static let yaml = SettingsScenarioTests.yaml

  func changes(_ sent: [Sent], _ desk: Desk) -> [Sent] {
    sent.filter { $0.method == "PATCH" && $0.target.hasPrefix("/folders/\(desk.folder)") }
  }

  static let tagged: JSON = [
    "title": "Notes", "search": ["types": ["core.note"]], "defaults": ["tags": ["base"]],
  ]

  /// One edit, what it is flagged with, and whether the door was asked.
  struct Refused: CustomTestStringConvertible {
    var name: String
    var old: String
    var new: String
    var words: [String]
    var isSent = false
    var testDescription: String { name }
  }

  static let refused: [Refused] = [
    Refused(
      name: "conflict", old: "title: Notes", new: "title: Mine", words: ["409", "delete the file"], isSent: true),
    Refused(
      name: "unknown type", old: "    - core.note", new: "    - acme.nothing", words: ["unknown_type"], isSent: true),
    Refused(
      name: "backref", old: "  types:", new: "  filter: 'backref[parent-of] exists'\n  types:", words: ["backref"]),
    Refused(name: "title out", old: "title: Notes\n", new: "", words: ["title", "[]", "{}"]),
    Refused(name: "unknown setting", old: "title: Notes", new: "title: Notes\ncolour: red", words: ["colour"]),
    Refused(name: "does not parse", old: "title: Notes", new: "title: [Notes", words: ["YAML", "line"]),
    Refused(
      name: "another folder", old: "version: 1", new: "version: 1\nfolder: 01900000-0000-7000-8000-00000000dead",
      words: ["dead"]),
  ]

  @Test(
    "F-S1.8 a refused edit is flagged by push and pull, in JSON and words, stays as typed and is sent once at most",
    arguments: refused)
  func refusedEdit(_ edit: Refused) throws {
    let desk = try Desk(Self.tagged)
    _ = try desk.push()
    if edit.name == "conflict" {
      try desk.bench.ask("PATCH", "/folders/\(desk.folder)", ["version": 1, "title": "Theirs"])
    }
    var text = try desk.machine.need(Self.yaml)
    if edit.name == "another folder" {
      text = text.replacing("folder: \(desk.folder)\n", with: "").replacing(edit.old, with: edit.new)
    } else {
      #expect(text.contains(edit.old))
      text = text.replacing(edit.old, with: edit.new)
    }
    try desk.machine.save(Self.yaml, text)
    try desk.machine.write("New.md", "New.\n")
    let (push, sent) = try desk.push()
    #expect(changes(sent, desk).count == (edit.isSent ? 1 : 0))
    let reason = try #require(push.settings.flagged)
    for word in edit.words where word != "409" { #expect(reason.contains(word), "\(word): \(reason)") }
    if edit.isSent { #expect(reason.contains("folder door")) }
    #expect(!push.settings.sent)
    #expect(push.json["settings"]?["flagged"]?.text?.string == reason)
    #expect(words(push).contains { $0.contains("not in force") && $0.contains(reason) })
    let pull = try desk.machine.pull()
    #expect(pull.settings.flagged == reason && !pull.settings.written)
    #expect(pull.json["settings"]?["flagged"]?.text?.string == reason)
    #expect(PullWords(pull: Report(pull.json)).lines.contains { $0.contains(reason) })
    #expect(try desk.machine.need(Self.yaml) == text)
    #expect(try desk.tags(desk.id("New")) == ["base"])
    let (again, second) = try desk.push()
    #expect(changes(second, desk).isEmpty && again.settings.flagged == reason)
    #expect(try desk.machine.need(Self.yaml) == text)
    guard edit.name == "conflict" else { return }
    try desk.machine.delete(Self.yaml)
    let (last, third) = try desk.push()
    #expect(changes(third, desk).isEmpty && last.settings.written && last.settings.flagged == nil)
    #expect(try desk.machine.need(Self.yaml).contains("title: Theirs"))
    #expect(try desk.properties(desk.folder)["title"] == "Theirs")
  }

  @Test(
    "F-S1.14 an edit the door answers with a refusal is sent once; another text is then sent and taken",
    arguments: [
      (400, "validation_error"), (400, "invalid_transition"), (403, "type_not_permitted"), (404, "item_not_found"),
      (409, "version_conflict"), (422, "unknown_type"),
    ])
  func refusedOnce(_ status: Int, _ code: String) throws {
    let desk = try Desk()
    _ = try desk.push()
    try desk.machine.edit(Self.yaml, "title: Notes", "title: Mine")
    desk.bench.transport.before = { request in
      guard request.method == "PATCH", request.url.contains("/folders/") else { return nil }
      return .success(refusal(status, code, "Not so."))
    }
    var sent: [Sent] = []
    for _ in 0..<2 {
      let (push, more) = try desk.push()
      sent += changes(more, desk)
      let reason = try #require(push.settings.flagged)
      #expect(reason.contains("\(code): Not so."), "\(reason)")
    }
    #expect(sent.count == 1)
    desk.bench.transport.before = nil
    #expect(try desk.push().sent.isEmpty)
    try desk.machine.edit(Self.yaml, "title: Mine", "title: Mended")
    let (push, more) = try desk.push()
    #expect(changes(more, desk).map(\.body) == [["version": 1, "title": "Mended"]])
    #expect(push.settings.sent && push.settings.flagged == nil)
    #expect(try desk.properties(desk.folder)["title"] == "Mended")
    #expect(try desk.machine.need(Self.yaml).contains("version: 2\ntitle: Mended\n"))
  }

  @Test(
    "F-S1.12 a comment or the text in force at an older line sends nothing; a changed or a left-out setting sends all named"
  )
  func olderLines() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"]]])
    _ = try desk.push()
    let atOne = try desk.machine.need(Self.yaml)
    try desk.machine.edit(Self.yaml, "title: Notes", "# mine\ntitle: Notes")
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.settings.written && !push.settings.sent)
    #expect(try desk.machine.need(Self.yaml) == atOne)
    try desk.bench.ask("PATCH", "/folders/\(desk.folder)", ["version": 1, "include": ["*.md", "*.txt"]])
    _ = try desk.push()
    let inForce = try desk.machine.need(Self.yaml)
    try desk.machine.save(Self.yaml, inForce.replacing("version: 2\n", with: "version: 1\n"))
    let (again, nothing) = try desk.push()
    #expect(nothing.isEmpty && again.settings.written)
    #expect(try desk.machine.need(Self.yaml) == inForce)
    // One changed value.
    try desk.machine.save(Self.yaml, atOne.replacing("title: Notes", with: "title: Three"))
    let (changed, first) = try desk.push()
    #expect(
      changes(first, desk).map(\.body) == [["version": 1, "title": "Three", "search": ["types": ["core.note"]]]])
    #expect(changed.settings.sent && changed.settings.flagged == nil, "\(changed.json.compact)")
    #expect(try desk.properties(desk.folder)["title"] == "Three")
    #expect(try desk.properties(desk.folder)["include"] == ["*.md", "*.txt"])
    // One setting left out, the one added since.
    let atThree = try desk.machine.need(Self.yaml)
    #expect(atThree.contains("version: 3\n"))
    try desk.bench.ask("PATCH", "/folders/\(desk.folder)", ["version": 3, "ignore": ["drafts/"]])
    _ = try desk.push()
    #expect(try desk.machine.need(Self.yaml).contains("drafts/"))
    try desk.machine.save(Self.yaml, atThree)
    let (last, second) = try desk.push()
    #expect(
      changes(second, desk).map(\.body) == [
        ["version": 3, "title": "Three", "search": ["types": ["core.note"]], "include": ["*.md", "*.txt"]]
      ])
    #expect(last.settings.sent && last.settings.flagged == nil, "\(last.json.compact)")
    #expect(try desk.properties(desk.folder)["ignore"] == ["drafts/"])
    #expect(try desk.machine.need(Self.yaml).contains("drafts/"))
  }

  @Test(
    "F-S1.18 a file brought from a machine ahead goes whole at its version; a version the door lacks is flagged and goes once"
  )
  func broughtAhead() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"]]])
    _ = try desk.push()
    let ben = try desk.another()
    _ = try desk.push(ben)
    try desk.bench.ask("PATCH", "/folders/\(desk.folder)", ["version": 1, "include": ["*.md"]])
    _ = try desk.push(ben)
    let theirs = try ben.need(Self.yaml)
    #expect(theirs.contains("version: 2\n"))
    try desk.machine.save(Self.yaml, theirs.replacing("title: Notes", with: "title: Brought"))
    let (push, sent) = try desk.push()
    #expect(
      changes(sent, desk).map(\.body) == [
        ["version": 2, "title": "Brought", "search": ["types": ["core.note"]], "include": ["*.md"]]
      ])
    #expect(push.settings.sent && push.settings.flagged == nil)
    #expect(try desk.properties(desk.folder)["title"] == "Brought")
    #expect(try desk.machine.need(Self.yaml).contains("version: 3\ntitle: Brought\n"))
    let future = try desk.machine.need(Self.yaml).replacing("version: 3\n", with: "version: 99\n")
      .replacing("title: Brought", with: "title: Future")
    try desk.machine.save(Self.yaml, future)
    var asked = 0
    for _ in 0..<2 {
      let (push, sent) = try desk.push()
      asked += changes(sent, desk).count
      #expect(push.settings.flagged?.contains("folder door") == true)
      #expect(push.pull?.settings.flagged == push.settings.flagged)
    }
    #expect(asked == 1)
    #expect(try desk.machine.need(Self.yaml) == future)
    #expect(try desk.properties(desk.folder)["title"] == "Brought")
  }

  @Test(
    "F-S1.17 a line for an edge type registered since is an edge; one written at its target brings a hydration, with no file changed too"
  )
  func registeredSince() throws {
    let desk = try Desk {
      try $0.item("Alpha"); try $0.item("Beta")
    }
    _ = try desk.push()
    let (alpha, beta) = (try desk.id("Alpha"), try desk.id("Beta"))
    try desk.bench.ask("POST", "/edge-types", ["id": "cites", "cardinality": "many-to-many"])
    try desk.machine.edit("Alpha.md", "title: Alpha\n", "title: Alpha\ncites: \"[[Beta]]\"\n")
    let (push, sent) = try desk.push()
    #expect(push.scan.flagged.isEmpty, "\(push.json.compact)")
    #expect(sent.lines == ["POST /edges"])
    #expect(try desk.edges(alpha, type: "cites").map { $0.string("target_id") } == [beta.description])
    #expect(try desk.properties(alpha)["cites"] == nil)
    try desk.bench.ask(
      "POST", "/edge-types",
      ["id": "holds", "cardinality": "one-to-many", "reverse_name": "held-by", "written_at": "target"])
    try desk.machine.edit("Alpha.md", "title: Alpha\n", "title: Alpha\nheld-by: \"[[Beta]]\"\n")
    let (held, _) = try desk.push()
    #expect(held.hydrated != nil || held.catchUp.hydrated != nil, "\(held.json.compact)")
    #expect(try desk.edges(beta, type: "holds").map { $0.string("target_id") } == [alpha.description])
    #expect(try desk.properties(alpha)["held-by"] == nil)
    #expect(held.scan.flagged.isEmpty)
    try desk.bench.ask(
      "POST", "/edge-types",
      ["id": "wraps", "cardinality": "one-to-many", "reverse_name": "wrapped-by", "written_at": "target"])
    try desk.edge(beta, "wraps", alpha)
    let (quiet, nothing) = try desk.push()
    #expect(nothing.isEmpty)
    #expect(quiet.hydrated != nil || quiet.catchUp.hydrated != nil, "\(quiet.json.compact)")
    let (last, _) = try desk.push()
    #expect(last.hydrated == nil && last.catchUp.hydrated == nil)
    #expect(try desk.machine.lines("Alpha.md").contains("wrapped-by: \"[[Beta]]\""))
  }

  // MARK: The search

  @Test(
    "F-S2.1 a folder of each condition holds exactly the matching items; one of no type asks for none and reports *")
  func conditions() throws {
    let bench = try FolderBench()
    try bench.ask(
      "POST", "/types", ["id": "acme.recipe", "parent": "core.note", "fields": ["serves": ["type": "number"]]])
    let plain = try bench.item("Plain")
    let tagged = try bench.item("Tagged", tags: ["red"], more: JSONObject([("mood", "good")]))
    let recipe = try bench.item("Recipe", type: "acme.recipe")
    let link = try bench.item("Link", type: "core.bookmark")
    let made = try bench.ask(
      "POST", "/items",
      ["type": "core.note", "tier": "feed", "properties": ["title": "Feed", "body": "Words.\n"]])
    #expect(made["item"] != nil)
    let archived = try bench.item("Archived")
    try bench.ask("POST", "/items/\(archived)/transition", ["state": "archived"])
    for (parent, child) in [(plain, tagged), (tagged, recipe)] {
      try bench.ask(
        "POST", "/edges",
        [
          "source_id": .string(parent.text), "target_id": .string(child.text), "edge_type": "parent-of",
          "properties": [:],
        ])
    }
    try bench.ask(
      "POST", "/edges",
      [
        "source_id": .string(recipe.text), "target_id": .string(link.text), "edge_type": "references",
        "properties": [:],
      ])
    let cases: [(JSON, [String])] = [
      (["types": ["core.note"]], ["Archived.md", "Plain.md", "Recipe.md", "Tagged.md"]),
      (["types": ["acme.recipe"]], ["Recipe.md"]),
      ([:], ["Archived.md", "Link.md", "Plain.md", "Recipe.md", "Tagged.md"]),
      (["types": ["core.note"], "tier": "feed"], ["Feed.md"]),
      (["types": ["core.note"], "state": ["archived"]], ["Archived.md"]),
      (["types": ["core.note"], "filter": "tags contains \"red\""], ["Tagged.md"]),
      (["types": ["core.note"], "filter": "properties.mood eq \"good\""], ["Tagged.md"]),
      (["types": ["core.note"], "filter": .string(Text("edge[references] eq \"\(link)\""))], ["Recipe.md"]),
      (["types": ["core.note"], "beneath": .string(plain.text)], ["Plain.md", "Recipe.md", "Tagged.md"]),
    ]
    for (index, (search, files)) in cases.enumerated() {
      let machine = bench.machine("m\(index)")
      bench.transport.clear()
      try machine.add(try bench.folder(["title": "Folder", "search": search]))
      _ = try machine.push()
      #expect(machine.files() == files, "\(search.compact)")
      let listings = bench.transport.requests.filter { $0.hasPrefix("GET /items?") }
      let status = try machine.folders.working(machine.root, "look") { try $0.copy.status().json.compact }
      if search == [:] {
        #expect(!listings.isEmpty && listings.allSatisfy { !$0.contains("type=") && !$0.contains("types=") })
        #expect(status.contains("\"*\""), "\(status)")
      }
    }
  }

  /// Changes what the server answers of the folder's row.
  func rewrite(_ desk: (bench: FolderBench, folder: EntityID), _ change: @escaping (inout JSONObject) -> Void) {
    desk.bench.transport.after = { request, response in
      guard request.method == "GET", request.url.contains("/items/\(desk.folder)"),
        var body = (try? JSON(parsing: response.body))?.object, var item = body["item"]?.object,
        var properties = item["properties"]?.object
      else { return .success(response) }
      change(&properties)
      item["properties"] = .object(properties)
      body["item"] = .object(item)
      var changed = response
      changed.body = JSON.object(body).write()
      return .success(changed)
    }
  }

  @Test("F-S2.3 a condition no folder follows is refused naming it, at add and at the push that meets it")
  func notFollowed() throws {
    let cases: [(String, JSON, [String])] = [
      ("search", ["types": ["core.note"], "filter": "backref[parent-of] exists"], ["backref"]),
      ("search", ["types": ["core.note"], "colour": "red"], ["colour"]),
      ("defaults", ["colour": "red"], ["colour"]), ("removal_threshold", ["colour": 1], ["colour"]),
      ("colour", "red", ["colour"]), ("search", ["types": ["core.note"], "state": []], ["state"]),
      ("search", ["types": ["core.note"], "state": ["trashed"]], ["state", "trashed"]),
    ]
    for (setting, value, names) in cases {
      let bench = try FolderBench()
      let folder = try bench.folder()
      rewrite((bench, folder)) { $0[Text(setting)] = value }
      let machine = bench.machine()
      do {
        try machine.add(folder)
        Issue.record("added with \(setting): \(value.compact)")
      } catch {
        for name in names { #expect("\(error)".contains(name), "\(setting): \(error)") }
      }
      #expect(machine.text(Self.yaml) == nil)
      #expect(try machine.folders.list().isEmpty)
    }
    let desk = try Desk { try $0.item("Held") }
    _ = try desk.push()
    try desk.bench.ask(
      "PATCH", "/folders/\(desk.folder)",
      ["version": 1, "search": ["types": ["core.note"], "filter": "backref[parent-of] exists"]])
    try desk.machine.write("New.md", "New.\n")
    var refusals: [String] = []
    for _ in 0..<2 { do { _ = try desk.push() } catch { refusals.append("\(error)") } }
    #expect(refusals.last?.contains("backref") == true, "\(refusals)")
    #expect(desk.machine.files() == ["Held.md", "New.md"])
  }

  @Test(
    "F-S2.4 in a search of every type a document is of the default type, a picture a file item; system rows are none")
  func everyType() throws {
    let desk = try Desk(["title": "All", "search": [:], "defaults": ["type": "core.bookmark"]])
    _ = try desk.push()
    try desk.machine.write("Doc.md", "Words.\n")
    try desk.machine.write("pic.png", "bytes")
    let (push, _) = try desk.push()
    #expect(push.scan.created == 2 && push.scan.flagged.isEmpty)
    #expect(try desk.item(desk.id("Doc")).string("type") == "core.bookmark")
    #expect(try desk.item(desk.id("pic.png")).string("type")?.hasPrefix("core.file") == true)
    _ = try desk.bench.folder(["title": "Another folder"])
    let (next, sent) = try desk.push()
    #expect(sent.isEmpty && next.pull?.written == 0)
    #expect(desk.machine.files() == ["Doc.md", "pic.png"])
  }

  @Test(
    "F-S3.3 defaults of a type or tier the search does not hold are refused at add, flagged unsent, and end the pass")
  func defaultsOutside() throws {
    for (defaults, words) in [
      (["type": "core.bookmark"] as JSON, ["type", "core.bookmark"]), (["tier": "feed"], ["tier", "feed"]),
    ] {
      let bench = try FolderBench()
      let folder = try bench.folder()
      rewrite((bench, folder)) { $0["defaults"] = defaults }
      let machine = bench.machine()
      do {
        try machine.add(folder)
        Issue.record("added with \(defaults.compact)")
      } catch {
        for word in words { #expect("\(error)".contains(word), "\(error)") }
      }
      #expect(machine.text(Self.yaml) == nil)

      let desk = try Desk { try $0.item("Held") }
      _ = try desk.push()
      let member = defaults.object?.members.first
      let line = "\(member?.key.string ?? ""): \(member?.value.text?.string ?? "")"
      let typed = try desk.machine.need(Self.yaml) + "defaults:\n  \(line)\n"
      try desk.machine.save(Self.yaml, typed)
      let (push, sent) = try desk.push()
      #expect(changes(sent, desk).isEmpty)
      for word in words { #expect(push.settings.flagged?.contains(word) == true, "\(push.json.compact)") }
      #expect(try desk.machine.need(Self.yaml) == typed)
      try desk.machine.delete(Self.yaml)
      _ = try desk.push()

      // Changed elsewhere: the pass that meets it is refused.
      try desk.bench.ask("PATCH", "/folders/\(desk.folder)", ["version": 1, "defaults": defaults])
      var refusals: [String] = []
      for _ in 0..<2 { do { _ = try desk.push() } catch { refusals.append("\(error)") } }
      for word in words { #expect(refusals.last?.contains(word) == true, "\(refusals)") }
      #expect(desk.machine.files() == ["Held.md"])
    }
  }

  @Test("F-S4.1 F-S4.2 two folders of one machine share no write and no type; the registry lists both by their stores")
  func twoFolders() throws {
    let bench = try FolderBench()
    let machine = bench.machine()
    let other = machine.root.parent.appending("Links")
    let notes = KeptFolderPair(machine: machine, root: machine.root)
    let links = KeptFolderPair(machine: machine, root: other)
    try machine.add(try bench.folder(["title": "Notes", "search": ["types": ["core.note"]]]))
    _ = try machine.folders.add(
      other, following: try bench.folder(["title": "Links", "search": ["types": ["core.bookmark"]]]), yes: true)
    _ = try machine.folders.push(machine.root)
    _ = try machine.folders.push(other)
    let listed = try machine.folders.list().map { "\($0)" }
    try machine.disk.write(machine.root.appending("A.md"), "A.\n")
    try machine.disk.write(other.appending("B.md"), "B.\n")
    _ = try machine.folders.scan(machine.root)
    _ = try machine.folders.scan(other)
    let queues = try [notes, links].map { try $0.queuedTypes() }
    #expect(queues == [["core.note"], ["core.bookmark"]])
    bench.transport.clear()
    _ = try machine.folders.push(machine.root)
    #expect(try bench.titles() == ["A"])
    #expect(try links.queuedTypes() == ["core.bookmark"])
    _ = try machine.folders.push(other)
    #expect(try bench.titles() == ["A", "B"])
    #expect(try bench.row(bench.ids("A")[0])["item"]?.string("type") == "core.note")
    #expect(try bench.row(bench.ids("B")[0])["item"]?.string("type") == "core.bookmark")
    let entries = try machine.folders.list()
    #expect(entries.count == 2 && entries.map { "\($0)" } == listed)
    let stores = try [machine.root, other].map { root in
      try machine.folders.working(root, "look") { try $0.copy.storeID() }
    }
    #expect(Set(stores).count == 2)
    let text = machine.disk.text(machine.root.parent.appending("folders.json")) ?? ""
    for store in stores { #expect(store.map { text.contains($0.string) } == true) }
  }

  @Test("F-S7.10 properties named as own fields or edge types are uncarried, have no line, and stay through an edit")
  func uncarried() throws {
    let desk = try Desk(["title": "All", "search": [:]]) { bench in
      try bench.ask(
        "POST", "/types",
        [
          "id": "acme.card",
          "fields": [
            "title": ["type": "string"], "body": ["type": "string"], "parent-of": ["type": "string"],
          ],
        ])
      // A server of another edition lets a type declare the name of an own field.
      bench.transport.after = { request, response in
        guard request.method == "GET", request.url.contains("/types"), !request.url.contains("edge-types"),
          let body = try? JSON(parsing: response.body), let rows = body["data"]?.array
        else { return .success(response) }
        var page = body.object ?? JSONObject()
        page["data"] = .array(
          rows.map { row in
            guard row.string("id") == "acme.card", var type = row.object, var fields = type["fields"]?.object else {
              return row
            }
            fields["state"] = ["type": "string"]
            type["fields"] = .object(fields)
            return .object(type)
          })
        var changed = response
        changed.body = JSON.object(page).write()
        return .success(changed)
      }
      try bench.item(
        "Card", type: "acme.card", more: JSONObject([("state", "solid"), ("parent-of", "nobody")]))
    }
    let (push, _) = try desk.push()
    let told = push.pull?.uncarried.map { "\($0.type) \($0.property)" } ?? []
    #expect(told == ["acme.card parent-of", "acme.card state"], "\(push.json.compact)")
    let lines = try desk.machine.lines("Card.md")
    #expect(!lines.contains { $0.hasPrefix("state:") || $0.hasPrefix("parent-of:") }, "\(lines)")
    let id = try desk.id("Card")
    try desk.machine.edit("Card.md", "Words.", "Edited.")
    let (edit, sent) = try desk.push()
    #expect(sent.edits(id).count == 1 && edit.scan.flagged.isEmpty)
    #expect(
      try desk.properties(id) == ["title": "Card", "body": "Edited.\n", "state": "solid", "parent-of": "nobody"])
  }
}

/// One of two folders of a machine.
private struct KeptFolderPair {
  let machine: FolderMachine
  let root: PathBytes

  /// The types the creates of its queue name.
  func queuedTypes() throws -> [String] {
    try machine.folders.working(root, "look") { folder in
      try folder.copy.queue.all().filter { $0.verdict == nil }.compactMap { $0.body?["type"]?.text?.string }
    }
  }
}
