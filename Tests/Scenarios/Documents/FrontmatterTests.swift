import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// What frontmatter lines are, and how a person's bytes are kept (F6, F7.1 to F7.36).
struct FrontmatterTests {
  @Test("F-S6.1 a held item becomes a file, a new file an item with a minted id")
  func bothWays() throws {
    let desk = try Desk()
    let held = try desk.bench.item("Held", body: "Held words.\n")
    try desk.machine.write("New.md", "New words.\n")
    let (push, sent) = try desk.push()
    #expect(push.scan.created == 1)
    #expect(push.pull?.written == 1)
    #expect(desk.machine.files() == ["Held.md", "New.md"])
    #expect(try desk.machine.body("Held.md") == "Held words.\n")
    #expect(try desk.machine.lines("Held.md").contains("marfa_id: \(held)"))
    let create = try #require(sent.creates.first)
    #expect(sent.creates.count == 1)
    let id = try #require(create.body.string("id").flatMap { EntityID(Text($0)) })
    #expect(id.description.dropFirst(14).first == "7", "a UUIDv7")
    #expect(create.body["source"] == nil && create.body["source_id"] == nil && create.body["version"] == nil)
    #expect(try desk.properties(id) == ["title": "New", "body": "New words.\n"])
    let (again, nothing) = try desk.push()
    #expect(nothing.isEmpty && again.pull?.written == 0 && again.pull?.rewritten == 0)
  }

  @Test("F-S7.1 every line is a property as typed, and the body property is the file's body")
  func propertiesAsTyped() throws {
    let desk = try Desk()
    try desk.machine.write(
      "Soup.md",
      """
      ---
      title: Pea soup
      servings: 4
      my_mood: yes
      nested:
        a: 1
        b:
          - x
          - c: null
      body: not this
      ---
      Boil peas.

      """)
    let (_, sent) = try desk.push()
    let id = try desk.id("Pea soup")
    let wanted: JSON = [
      "title": "Pea soup", "servings": 4, "my_mood": "yes", "nested": ["a": 1, "b": ["x", ["c": nil]]],
      "body": "Boil peas.\n",
    ]
    #expect(sent.creates.first?.body["properties"] == wanted)
    #expect(try desk.properties(id) == wanted)
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S7.2 properties in an unusual order keep it when the id is written")
  func orderStands() throws {
    let desk = try Desk()
    try desk.machine.write("Odd.md", "---\nzeta: 1\ntitle: Odd\nalpha: 2\n---\nWords.\n")
    let (push, _) = try desk.push()
    #expect(push.pull?.rewritten == 1)
    let id = try desk.id("Odd")
    #expect(
      try desk.machine.lines("Odd.md") == [
        "zeta: 1", "title: Odd", "alpha: 2", "type: core.note", "tier: library", "marfa_id: \(id)", "marfa_version: 1",
      ])
    #expect(try desk.properties(id).object?.keys.map(\.string).sorted() == ["alpha", "body", "title", "zeta"])
    #expect(try desk.machine.body("Odd.md") == "Words.\n")
    #expect(try desk.push().sent.isEmpty)
  }

  static let careful = """
    ---\r
    # My own note\r
    type: core.note\r
    tier: library\r
    tags: beta, alpha   # two\r
    state: null\r
    title: 'Careful'  # quoted\r
    price: 1.10\r
    count: +3\r
    list: [one, "two",   three]\r
    map: {a: 1, b: 2}  # flow\r
    deep:\r
      # inside\r
      first: old   # kept\r
      second: [1, 2]\r
    block: |\r
      Line one\r
      Line two\r
    ---\r
    Body one.\r

    """

  @Test("F-S7.3 a CRLF file with comments keeps its bytes but for the id, the version and what changed")
  func carefulFile() throws {
    let desk = try Desk()
    try desk.machine.write("Careful.md", Self.careful)
    _ = try desk.push()
    let id = try desk.id("Careful")
    #expect(try desk.tags(id) == ["alpha", "beta"])
    #expect(try desk.state(id) == "active")
    let with = Self.careful.replacing(
      "    Line two\r\n---\r\n", with: "    Line two\r\nmarfa_id: \(id)\r\nmarfa_version: 1\r\n---\r\n"
    ).replacing("  Line two\r\n---\r\n", with: "  Line two\r\nmarfa_id: \(id)\r\nmarfa_version: 1\r\n---\r\n")
    #expect(try desk.machine.need("Careful.md") == with)

    var deep = try desk.properties(id)["deep"]?.object ?? JSONObject()
    deep["first"] = "new"
    try desk.patch(id, ["properties": ["deep": .object(deep)]])
    let (changed, nothing) = try desk.push()
    #expect(nothing.isEmpty && changed.pull?.rewritten == 1)
    let after = with.replacing("first: old", with: "first: new").replacing("marfa_version: 1", with: "marfa_version: 2")
    #expect(try desk.machine.need("Careful.md") == after)

    let reformatted = after.replacing("'Careful'", with: "\"Careful\"").replacing(
      "tags: beta, alpha", with: "tags: [alpha, beta]"
    )
    .replacing("price: 1.10", with: "price: 1.100").replacing("{a: 1, b: 2}", with: "{ b: 2, a: 1 }")
    try desk.machine.save("Careful.md", reformatted)
    let (last, sent) = try desk.push()
    #expect(sent.isEmpty && last.scan.updated == 0 && last.pull?.rewritten == 0)
    #expect(try desk.machine.need("Careful.md") == reformatted)
    #expect(try desk.version(id) == 2)
  }

  @Test("F-S7.4 after a crash before the rewrite lands the old bytes send nothing and the rewrite lands")
  func crashBeforeRewrite() throws {
    let desk = try Desk()
    try desk.machine.write("Careful.md", Self.careful)
    _ = try desk.push()
    let id = try desk.id("Careful")
    let before = try desk.machine.need("Careful.md")
    try desk.patch(id, ["properties": ["count": 4]])
    desk.machine.faults = Faults { call in
      call.operation == .rename && call.name.description == "Careful.md" ? .crash : .proceed
    }
    _ = try? desk.machine.push()
    desk.machine.restart()
    #expect(try desk.machine.need("Careful.md") == before)
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.scan.updated == 0)
    #expect(push.pull?.rewritten == 1)
    #expect(
      try desk.machine.need("Careful.md")
        == before.replacing("count: +3", with: "count: 4").replacing("marfa_version: 1", with: "marfa_version: 2"))
    #expect(try desk.properties(id)["count"]?.int == 4)
    #expect(desk.machine.files() == ["Careful.md"])
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S7.5 a flow map is edited in place and a list's children move with their comments")
  func editedInPlace() throws {
    let desk = try Desk()
    try desk.machine.write(
      "Lists.md",
      """
      ---
      title: Lists
      map: {a: 1, b: {c: 2}}  # the map
      steps:
        # wash first
        - wash
        - peel  # thinly
        - cut
      ---
      Words.

      """)
    _ = try desk.push()
    let id = try desk.id("Lists")
    try desk.patch(id, ["properties": ["map": ["a": 1, "b": ["c": 3]], "steps": ["cut", "wash", "peel"]]])
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.pull?.rewritten == 1)
    let lines = try desk.machine.lines("Lists.md")
    #expect(lines.contains("map: {a: 1, b: {c: 3}}  # the map"))
    let steps = try #require(lines.firstIndex(of: "steps:"))
    #expect(Array(lines[(steps + 1)..<(steps + 5)]) == ["  - cut", "  # wash first", "  - wash", "  - peel  # thinly"])
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S7.7 an alias is written out where its anchor's value changes, with its comment")
  func aliasWrittenOut() throws {
    let desk = try Desk()
    try desk.machine.write(
      "Anchors.md",
      """
      ---
      title: Anchors
      base: &base one
      same: *base  # as above
      other: &other two
      again: *other
      gone: &gone three
      left: *gone  # of three
      ---
      Words.

      """)
    _ = try desk.push()
    let id = try desk.id("Anchors")
    try desk.bench.ask(
      "PATCH", "/items/\(id)",
      [
        "version": 1, "properties_mode": "replace",
        "properties": [
          "title": "Anchors", "base": "uno", "same": "one", "other": "two", "again": "two", "left": "three",
          "body": "Words.\n",
        ],
      ])
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.pull?.rewritten == 1)
    let lines = try desk.machine.lines("Anchors.md")
    #expect(lines.contains("same: one  # as above"), "\(lines)")
    #expect(lines.contains("left: three  # of three"), "\(lines)")
    #expect(lines.contains { $0.hasPrefix("base:") && $0.hasSuffix("uno") }, "\(lines)")
    #expect(lines.contains("other: &other two") && lines.contains("again: *other"))
    #expect(!lines.contains { $0.hasPrefix("gone") })
    #expect(try desk.push().sent.isEmpty)
    #expect(try desk.properties(id)["same"] == "one")
  }

  @Test("F-S7.8 own fields are the item's, a parent is an edge, and a plain file takes the defaults")
  func ownFields() throws {
    let desk = try Desk([
      "title": "Notes", "search": ["types": ["core.note", "core.bookmark"]],
      "defaults": ["type": "core.note", "tags": ["inbox"]],
    ])
    let project = try desk.bench.item("Project")
    try desk.machine.write(
      "Own.md",
      "---\ntype: core.bookmark\ntier: library\ntags: [one, two]\nstate: archived\nchild-of: \"[[Project]]\"\n---\nOwn.\n"
    )
    try desk.machine.write("Plain.md", "Plain.\n")
    _ = try desk.push()
    let own = try desk.id("Own")
    let plain = try desk.id("Plain")
    #expect(try desk.item(own).string("type") == "core.bookmark")
    #expect(try desk.item(own).string("tier") == "library")
    #expect(try desk.tags(own) == ["one", "two"])
    #expect(try desk.state(own) == "archived")
    #expect(try desk.properties(own) == ["title": "Own", "body": "Own.\n"])
    #expect(try desk.edges(project, type: "parent-of").map { $0.string("target_id") } == [own.description])
    #expect(try desk.item(plain).string("type") == "core.note")
    #expect(try desk.tags(plain) == ["inbox"])
    #expect(try desk.properties(plain) == ["title": "Plain", "body": "Plain.\n"])

    try desk.machine.edit("Plain.md", "inbox", "outbox")
    let (push, sent) = try desk.push()
    #expect(push.scan.updated == 1)
    #expect(sent.lines == ["DELETE /items/\(plain)/tags/inbox", "POST /items/\(plain)/tags"])
    #expect(try desk.tags(plain) == ["outbox"])
    #expect(try desk.version(plain) == 1)
  }

  @Test("F-S7.9 body and title follow the type's display hints")
  func displayHints() throws {
    let bench = try FolderBench()
    try bench.ask(
      "POST", "/types",
      [
        "id": "acme.talk", "parent": "core.event", "fields": ["speech": ["type": "string"]],
        "display_hints": ["body_field": "speech"],
      ])
    let folder = try bench.folder(["title": "All", "search": ["types": ["core.event", "core.highlight"]]])
    let machine = bench.machine()
    let event = try bench.ask(
      "POST", "/items",
      [
        "type": "core.event", "tier": "library",
        "properties": ["title": "Launch", "description": "Bring cake.\n", "starts_at": "2031-01-02T10:00:00Z"],
      ])
    try bench.ask(
      "POST", "/items",
      ["type": "core.highlight", "tier": "library", "properties": ["text": "A fine line", "note": "Why I like it.\n"]])
    try machine.add(folder)
    _ = try machine.push()
    #expect(machine.files() == ["A fine line.md", "Launch.md"])
    #expect(try machine.body("Launch.md") == "Bring cake.\n")
    #expect(try machine.body("A fine line.md") == "Why I like it.\n")
    #expect(try machine.lines("A fine line.md").contains("text: A fine line"))
    #expect(event.string("id") == nil)

    try machine.write("Party.md", "---\ntype: core.event\nstarts_at: 2031-02-03T10:00:00Z\n---\nDance.\n")
    try machine.write("Line.md", "---\ntype: core.highlight\n---\nMine.\n")
    try machine.write("Talk.md", "---\ntype: acme.talk\nstarts_at: 2031-02-03T10:00:00Z\n---\nHello all.\n")
    bench.transport.clear()
    _ = try machine.push()
    let made = bench.transport.sent.compactMap { request -> JSON? in
      guard request.method == "POST", request.url.hasSuffix("/items"), case .bytes(let bytes) = request.body else {
        return nil
      }
      return try? JSON(parsing: bytes)
    }
    func properties(_ type: String) -> JSON? { made.first { $0.string("type") == type }?["properties"] }
    #expect(properties("core.event")?["description"] == "Dance.\n")
    #expect(properties("core.event")?["title"] == "Party")
    #expect(properties("core.highlight")?["note"] == "Mine.\n")
    #expect(properties("core.highlight")?["text"] == "Line")
    #expect(properties("acme.talk")?["speech"] == "Hello all.\n")
    #expect(properties("acme.talk")?["title"] == "Talk")
    #expect(properties("acme.talk")?["description"] == nil)
    #expect(try bench.ids("Talk").count == 1 && bench.ids("Party").count == 1)
  }

  @Test("F-S7.19 an archived held item: its own lines first; the line taken out restores, one added archives")
  func archivedLines() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"]]]) { bench in
      let id = try bench.item("Old", tags: ["kept", "alpha"])
      try bench.ask("POST", "/items/\(id)/transition", ["state": "archived"])
      try bench.item("Now")
    }
    _ = try desk.push()
    let old = try desk.id("Old")
    let now = try desk.id("Now")
    #expect(
      try desk.machine.lines("Old.md") == [
        "type: core.note", "tier: library", "tags:", "  - alpha", "  - kept", "state: archived", "title: Old",
        "marfa_id: \(old)", "marfa_version: 1",
      ])
    try desk.machine.edit("Old.md", "state: archived\n", "")
    try desk.machine.edit("Now.md", "tier: library\n", "tier: library\nstate: archived\n")
    let (push, sent) = try desk.push()
    #expect(push.scan.updated == 2)
    #expect(sent.lines.sorted() == ["POST /items/\(now)/transition", "POST /items/\(old)/transition"].sorted())
    #expect(try desk.state(old) == "active")
    #expect(try desk.state(now) == "archived")
    #expect(desk.machine.files() == ["Now.md", "Old.md"])
    #expect(try desk.push().sent.isEmpty)
    #expect(try desk.machine.lines("Now.md").contains("state: archived"))
    #expect(try !desk.machine.lines("Old.md").contains { $0.hasPrefix("state") })
  }

  @Test("F-S7.22 forms of tags and state that are read, and those that are not")
  func ownForms() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"]]]) { bench in
      let id = try bench.item("Archived")
      try bench.ask("POST", "/items/\(id)/transition", ["state": "archived"])
      try bench.item("Tagged", tags: ["gone"])
    }
    _ = try desk.push()
    try desk.machine.write("Solo.md", "---\ntags: solo\n---\nA.\n")
    try desk.machine.write("Two.md", "---\ntags: x, y\n---\nB.\n")
    try desk.machine.edit("Tagged.md", "tags:\n  - gone\n", "tags:\n")
    try desk.machine.edit("Archived.md", "state: archived\n", "state:\n")
    _ = try desk.push()
    #expect(try desk.tags(desk.id("Solo")) == ["solo"])
    #expect(try desk.tags(desk.id("Two")) == ["x", "y"])
    #expect(try desk.tags(desk.id("Tagged")).isEmpty)
    #expect(try desk.state(desk.id("Archived")) == "active")

    let bad = ["Map": "tags: {a: b}", "Number": "tags: [1]", "Type": "type:", "Bin": "state: trashed"]
    for (name, line) in bad { try desk.machine.write("\(name).md", "---\n\(line)\n---\nC.\n") }
    let bound = try desk.machine.need("Solo.md").replacing("tags: solo", with: "state: trashed")
    try desk.machine.save("Solo.md", bound)
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty)
    for name in bad.keys.sorted() {
      #expect(push.scan.flagged.flags("\(name).md") == ["unreadable"], "\(name)")
      #expect(try desk.machine.need("\(name).md") == "---\n\(bad[name] ?? "")\n---\nC.\n")
    }
    #expect(push.scan.flagged.flags("Solo.md") == ["unreadable"])
    #expect(push.pull?.flagged.flags("Solo.md") == ["unreadable"])
    #expect(try desk.machine.need("Solo.md") == bound)
    #expect(try desk.tags(desk.id("Solo")) == ["solo"])
    #expect(try desk.bench.titles() == ["Archived", "Solo", "Tagged", "Two"])
  }

  @Test("F-S7.26 lines moved and quoted only send nothing")
  func movedLines() throws {
    let desk = try Desk()
    try desk.machine.write("A.md", "---\ntitle: A\nstatus: draft\ncount: 3\n---\nWords.\n")
    _ = try desk.push()
    let id = try desk.id("A")
    let text = """
      ---
      marfa_version: 1
      count: 3
      status: "draft"
      type: 'core.note'
      tier: library
      marfa_id: \(id)
      title: A
      ---
      Words.

      """
    try desk.machine.save("A.md", text)
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.scan.updated == 0 && push.scan.unchanged == 1)
    #expect(push.pull?.rewritten == 0)
    #expect(try desk.machine.need("A.md") == text)
    #expect(try desk.version(id) == 1)
  }
}
