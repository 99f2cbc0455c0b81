import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// What opens a file, what retypes an item, what is held (F8, F9, F10).
struct HoldTests {
  @Test("F-S8.1 a body opening with a rule then an empty line is all body")
  func ruleThenEmpty() throws {
    let desk = try Desk()
    let text = "---\n\ntitle: not mine\n---\nWords.\n"
    try desk.machine.write("A.md", text)
    _ = try desk.push()
    let id = try desk.id("A")
    #expect(try desk.properties(id) == ["title": "A", "body": .string(text)])
    let scan = try desk.machine.scan()
    #expect(scan.updated == 0 && scan.created == 0 && scan.unchanged == 1)
    #expect(try desk.machine.need("A.md").hasSuffix("---\n" + text))
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S8.2 fences that hold no map of fields are body; an empty pair is empty frontmatter")
  func fences() throws {
    let desk = try Desk()
    let bodies = [
      "List": "---\n- one\n- two\n---\nWords.\n", "Line": "---\na line of text\n---\nWords.\n",
      "Four": "----\ntitle: x\n----\nWords.\n", "Text": "--- text\ntitle: x\n---\nWords.\n",
      "Open": "---\ntitle: x\nWords.\n",
    ]
    for (name, text) in bodies { try desk.machine.write("\(name).md", text) }
    try desk.machine.write("Empty.md", "---\n---\nWords.\n")
    let (push, _) = try desk.push()
    #expect(push.scan.created == 6)
    for (name, text) in bodies {
      let id = try desk.id(name)
      #expect(try desk.properties(id) == ["title": .string(name), "body": .string(text)], "\(name)")
      #expect(try desk.machine.need("\(name).md").hasSuffix("\n---\n" + text), "\(name)")
    }
    #expect(try desk.properties(desk.id("Empty")) == ["title": "Empty", "body": "Words.\n"])
    #expect(try desk.machine.body("Empty.md") == "Words.\n")
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S8.3 past a byte-order mark fields and body are read, and the file comes back without it")
  func byteOrderMark() throws {
    let desk = try Desk()
    try desk.machine.write("A.md", "\u{FEFF}---\nstatus: draft\n---\nWords.\n")
    _ = try desk.push()
    let id = try desk.id("A")
    #expect(try desk.properties(id) == ["status": "draft", "title": "A", "body": "Words.\n"])
    let text = try #require(desk.machine.disk.read(desk.machine.at("A.md")))
    #expect(text.starts(with: Array("---\nstatus: draft\n".utf8)))
    #expect(try desk.push().sent.isEmpty)
  }

  // MARK: F9

  static let types: JSON = ["title": "All", "search": ["types": ["core.note", "core.bookmark", "core.event"]]]

  @Test("F-S9.1 a changed type line is one retype, with no type property, and the file shows it")
  func retype() throws {
    let desk = try Desk(Self.types) { try $0.item("A", body: "Words.\n") }
    _ = try desk.push()
    let id = try desk.id("A")
    try desk.machine.edit("A.md", "type: core.note", "type: core.bookmark")
    let (push, sent) = try desk.push()
    let edit = try #require(sent.edits(id).first)
    #expect(sent.count == 1 && push.scan.updated == 1)
    #expect(edit.body.string("type") == "core.bookmark" && edit.body["retype"] == true)
    #expect(edit.body["properties"]?["type"] == nil)
    #expect(try desk.item(id).string("type") == "core.bookmark")
    #expect(try desk.properties(id) == ["title": "A", "body": "Words.\n"])
    #expect(try desk.machine.lines("A.md").contains("type: core.bookmark"))
    #expect(try desk.machine.lines("A.md").contains("marfa_version: 2"))
    #expect(try desk.push().sent.isEmpty)
  }

  @Test(
    "Q42.14 F23.6 a save after a retype that collided goes back to the line both were made from: the words of another stay"
  )
  func saveAfterBlockedRetype() throws {
    let desk = try Desk(Self.types) { try $0.item("A", body: "Base.\n") }
    _ = try desk.push()
    let id = try desk.id("A")
    let version = try #require(try desk.item(id)["version"]?.int)
    try desk.machine.edit("A.md", "type: core.note", "type: core.bookmark")
    try desk.machine.edit("A.md", "Base.", "Base.\nMine.")
    _ = try desk.machine.scan()
    try desk.bench.ask(
      "PATCH", "/items/\(id)", ["version": .int(version), "properties": ["body": "Base.\nTheirs.\n"]])
    let (push, _) = try desk.push()
    #expect(push.drain.drain.verdicts.map(\.verdict) == [.blocked])
    try desk.machine.edit("A.md", "Mine.", "Mine.\nMore.")
    let (_, sent) = try desk.push()
    #expect(sent.edits(id).map { $0.body["version"]?.int } == [version])
    _ = try desk.push()
    let bodies = try desk.bench.ask("GET", "/items?type=core.note,core.bookmark&include=metadata")["data"]?.array ?? []
    let words = bodies.map { ($0["item"] ?? $0)["properties"]?.string("body") ?? "" }.joined()
    #expect(words.contains("Theirs.") && words.contains("Mine.\nMore."), "\(words)")
    // Neither a copy for each save, nor an edit that waits for ever.
    for number in 1...3 {
      try desk.machine.save("A.md", try desk.machine.need("A.md") + "More \(number).\n")
      _ = try desk.push()
    }
    #expect(try desk.bench.titles().count == 2)
    #expect(try desk.push().sent.isEmpty)
  }

  @Test(
    "F7.19 F9.2 a buffer from before a retype made elsewhere changes the body it was written from, not the new type's")
  func bufferBeforeRetype() throws {
    let desk = try Desk(["title": "All", "search": ["types": ["core.note", "core.event"]]]) {
      try $0.item("A", body: "Base.\n")
    }
    _ = try desk.push()
    let id = try desk.id("A")
    let old = try desk.machine.need("A.md")
    let version = try desk.version(id)
    try desk.bench.ask(
      "PATCH", "/items/\(id)",
      [
        "version": .int(version), "retype": true, "type": "core.event",
        "properties": ["title": "A", "starts_at": "2031-01-01T00:00:00.000Z", "description": "Theirs."],
      ])
    try desk.machine.save("A.md", old.replacing("Base.", with: "Base.\nMine."))
    for _ in 0..<2 { _ = try desk.push() }
    let properties = try desk.properties(id)
    #expect(properties["description"] == "Theirs." && properties["body"] == "Base.\nMine.\n", "\(properties.compact)")
  }

  @Test("F9.4 F19.11 a push that lands a retype and gives way for a placement is whole, and settles")
  func retypeBesideGivenWay() throws {
    let desk = try Desk(Self.types) {
      try $0.item("X", body: "Words.\n")
      try $0.item("Y", body: "Other.\n")
    }
    _ = try desk.push()
    let (retyped, moved) = (try desk.id("X"), try desk.id("Y"))
    try desk.move(moved, to: "Theirs.md")
    try desk.machine.rename("Y.md", to: "Mine.md")
    try desk.machine.edit("X.md", "type: core.note", "type: core.bookmark")
    let (push, _) = try desk.push()
    #expect(push.drain.gaveWay == 1)
    #expect(try desk.item(retyped).string("type") == "core.bookmark")
    for _ in 0..<2 { _ = try desk.push() }
    #expect(try desk.placed(moved) == "Theirs.md" && desk.machine.need("Theirs.md").hasSuffix("Other.\n"))
    #expect(try desk.bench.titles().sorted() == ["X", "Y"])
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S9.2 retypes between types with other body fields drop nothing")
  func retypedBodies() throws {
    let desk = try Desk(Self.types) { bench in
      try bench.item("One", body: "The body.\n", type: "core.bookmark")
      try bench.ask(
        "POST", "/items",
        [
          "type": "core.event", "tier": "library",
          "properties": [
            "title": "Two", "description": "The body.\n", "body": "old note", "starts_at": "2031-01-02T10:00:00Z",
          ],
        ])
      try bench.item("Three", body: "The body.\n")
    }
    _ = try desk.push()
    let ids = try ["One", "Two", "Three"].map { try desk.id($0) }
    try desk.machine.edit(
      "One.md", "type: core.bookmark", "type: core.event\nstarts_at: 2031-01-02T10:00:00Z\ndescription: about")
    #expect(try desk.machine.lines("Two.md").contains("body: old note"))
    try desk.machine.edit("Two.md", "type: core.event", "type: core.note")
    try desk.machine.edit("Three.md", "type: core.note", "type: core.event\nstarts_at: 2031-01-02T10:00:00Z")
    let (push, _) = try desk.push()
    #expect(
      push.scan.updated == 3 && push.scan.flagged.isEmpty && push.pull?.flagged.isEmpty == true, "\(push.json.compact)")
    let results = try ids.map { try desk.properties($0) }
    #expect(results[0]["description"] == "about" && results[0]["body"] == "The body.\n")
    #expect(results[1]["body"] == "old note" && results[1]["description"] == "The body.\n")
    #expect(results[2]["description"] == "The body.\n" && results[2]["body"] == "The body.\n")
    #expect(try ids.map { try desk.item($0).string("type") } == ["core.event", "core.note", "core.event"])
    #expect(try desk.machine.body("One.md") == "about")
    #expect(try desk.machine.body("Two.md") == "old note")
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S9.3 an unregistered type in a bound file and a file type in a new one send nothing and are refused")
  func unknownType() throws {
    let desk = try Desk(Self.types) { try $0.item("A", body: "Words.\n") }
    _ = try desk.push()
    let id = try desk.id("A")
    try desk.machine.edit("A.md", "type: core.note", "type: acme.nothing")
    let bound = try desk.machine.need("A.md")
    let new = "---\ntype: core.file\n---\nWords.\n"
    try desk.machine.write("B.md", new)
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.scan.created == 0 && push.scan.updated == 0)
    #expect(push.scan.flagged.flags("A.md") == ["refused"] && push.scan.flagged.flags("B.md") == ["refused"])
    #expect(try desk.machine.need("A.md") == bound && desk.machine.need("B.md") == new)
    #expect(try desk.item(id).string("type") == "core.note")
    #expect(try desk.bench.titles() == ["A"])
  }

  /// The server refuses what a request of this method and this end of its target asks.
  func refuse(_ desk: Desk, _ method: String, _ end: String, _ code: String = "validation_error") {
    desk.bench.transport.before = { request in
      guard request.method == method, request.url.contains(end) else { return nil }
      return .success(refusal(400, code, "Not so."))
    }
  }

  @Test("F-S9.4 a refused retype, tag and archive leave each file as typed and refused, the retype sent once")
  func refusedChanges() throws {
    let desk = try Desk(Self.types) { bench in
      for title in ["Retype", "Tag", "State"] { try bench.item(Text(title), body: "Words.\n") }
    }
    _ = try desk.push()
    try desk.machine.edit("Retype.md", "type: core.note", "type: core.bookmark")
    try desk.machine.edit("Tag.md", "tier: library", "tier: library\ntags: [no]")
    try desk.machine.edit("State.md", "tier: library", "tier: library\nstate: archived")
    let texts = try ["Retype.md", "Tag.md", "State.md"].map { try desk.machine.need($0) }
    desk.bench.transport.before = { request in
      guard ["PATCH", "POST", "DELETE"].contains(request.method), request.url.contains("/items/"),
        !request.url.contains("bulk-get"), !request.url.contains("lookup")
      else { return nil }
      return .success(refusal(400, "validation_error", "Not so."))
    }
    var retypes = 0
    for _ in 0..<2 {
      let (push, sent) = try desk.push()
      retypes += sent.filter { $0.method == "PATCH" }.count
      for path in ["Retype.md", "Tag.md", "State.md"] {
        #expect(push.pull?.flagged.flags(path) == ["refused"], "\(path) \(push.json.compact)")
        #expect(push.pull?.flagged.reason(path, "refused") == "validation_error: Not so.")
      }
    }
    #expect(retypes == 1)
    #expect(try ["Retype.md", "Tag.md", "State.md"].map { try desk.machine.need($0) } == texts)
    desk.bench.transport.before = nil
    #expect(try desk.item(desk.id("Retype")).string("type") == "core.note")
    #expect(try desk.tags(desk.id("Tag")).isEmpty && desk.state(desk.id("State")) == "active")
  }

  @Test(
    "F-S9.5 a refused edit follows its file through a rename, a reformat and a tag that lands; a refused tag a body edit"
  )
  func holdFollows() throws {
    let names = ["Before", "Format", "Tagged", "After", "Body"]
    let desk = try Desk(Self.types) { bench in for name in names { try bench.item(Text(name), body: "Words.\n") } }
    _ = try desk.push()
    let body = try desk.id("Body")
    for name in names.dropLast() { try desk.machine.edit("\(name).md", "Words.", "Refused.") }
    try desk.machine.edit("Body.md", "tier: library", "tier: library\ntags: [no]")
    _ = try desk.machine.scan()
    try desk.machine.rename("Before.md", to: "x/Before.md")
    try desk.machine.edit("Format.md", "title: Format", "title: \"Format\"")
    desk.bench.transport.before = { request in
      let isEdit =
        request.method == "PATCH" && request.url.contains("/items/") && !request.url.contains(body.description)
      let isTag = request.method == "POST" && request.url.contains("/items/\(body)/tags")
      return isEdit || isTag ? .success(refusal(400, "validation_error", "Not so.")) : nil
    }
    let (first, _) = try desk.push()
    for path in ["x/Before.md", "Format.md", "Tagged.md", "After.md", "Body.md"] {
      #expect(first.pull?.flagged.flags(path) == ["refused"], "\(path) \(first.json.compact)")
    }
    try desk.machine.edit("Tagged.md", "tier: library", "tier: library\ntags: [yes]")
    try desk.machine.rename("After.md", to: "y/After.md")
    try desk.machine.edit("Body.md", "Words.", "Landed.")
    let texts = Dictionary(uniqueKeysWithValues: desk.machine.files().map { ($0, desk.machine.text($0)) })
    let (second, _) = try desk.push()
    desk.bench.transport.before = nil
    #expect(try desk.tags(desk.id("Tagged")) == ["yes"])
    #expect(try desk.properties(body)["body"] == "Landed.\n")
    for path in ["x/Before.md", "Format.md", "Tagged.md", "y/After.md", "Body.md"] {
      #expect(second.pull?.flagged.flags(path) == ["refused"], "\(path) \(second.json.compact)")
      #expect(desk.machine.text(path) == texts[path] ?? nil, "\(path)")
    }
    for name in names.dropLast() { #expect(try desk.properties(desk.id(name))["body"] == "Words.\n") }
  }

  @Test("F-S9.6 a refused retype queued before a save without it is let go once that lands")
  func letGo() throws {
    let desk = try Desk(Self.types) { try $0.item("A", body: "Words.\n") }
    _ = try desk.push()
    let id = try desk.id("A")
    try desk.machine.edit("A.md", "type: core.note", "type: core.bookmark")
    _ = try desk.machine.scan()
    try desk.machine.edit("A.md", "type: core.bookmark", "type: core.note")
    try desk.machine.edit("A.md", "Words.", "New.")
    _ = try desk.machine.scan()
    desk.bench.transport.before = { request in
      guard request.method == "PATCH", case .bytes(let bytes) = request.body,
        let body = try? JSON(parsing: bytes), body.string("type") == "core.bookmark"
      else { return nil }
      return .success(refusal(400, "validation_error", "Not so."))
    }
    let (push, _) = try desk.push()
    desk.bench.transport.before = nil
    #expect(try desk.properties(id)["body"] == "New.\n")
    #expect(push.pull?.flagged.isEmpty == true, "\(push.json.compact)")
    #expect(try desk.machine.lines("A.md").contains("marfa_version: 2"))
    #expect(try desk.item(id).string("type") == "core.note")
  }

  @Test("F-S9.7 a mended file merges at its line and keeps what the other machine changed and added")
  func mended() throws {
    let desk = try Desk(Self.types) { try $0.item("A", body: "Words.\n", more: JSONObject([("mood", "good")])) }
    _ = try desk.push()
    let id = try desk.id("A")
    try desk.machine.edit("A.md", "type: core.note", "type: core.bookmark")
    refuse(desk, "PATCH", "/items/\(id)")
    #expect(try desk.push().report.pull?.flagged.flags("A.md") == ["refused"])
    desk.bench.transport.before = nil
    try desk.patch(id, ["properties": ["mood": "better", "added": "theirs"]])
    _ = try desk.push()
    try desk.machine.edit("A.md", "type: core.bookmark", "type: core.note")
    try desk.machine.edit("A.md", "Words.", "Mended.")
    let (push, sent) = try desk.push()
    #expect(sent.edits(id).map { $0.body["version"] } == [1])
    #expect(sent.edits(id).first?.body["properties_mode"] == nil)
    #expect(
      try desk.properties(id) == ["title": "A", "body": "Mended.\n", "mood": "better", "added": "theirs"])
    #expect(push.pull?.flagged.isEmpty == true)
    #expect(try desk.machine.lines("A.md").contains("mood: better"))
    #expect(try desk.bench.titles() == ["A"])
  }

  @Test("F-S9.8 a landed, a refused and a mended edit from the first buffer go at 1, 2 and 2 with no conflicted copy")
  func firstBuffer() throws {
    let desk = try Desk(Self.types) { try $0.item("A", body: "Words.\n") }
    _ = try desk.push()
    let id = try desk.id("A")
    let old = try desk.machine.need("A.md")
    var versions: [JSON?] = []
    for (words, isRefused) in [("First.", false), ("Refused.", true), ("Mended.", false)] {
      try desk.machine.save("A.md", old.replacing("Words.", with: words))
      if isRefused { refuse(desk, "PATCH", "/items/\(id)") }
      let (push, sent) = try desk.push()
      desk.bench.transport.before = nil
      versions += sent.edits(id).map { $0.body["version"] }
      #expect(push.drain.drain.verdicts.allSatisfy { $0.conflictedCopyID == nil })
    }
    #expect(versions == [1, 2, 2])
    #expect(try desk.properties(id)["body"] == "Mended.\n")
    #expect(try desk.bench.titles() == ["A"])
  }

  @Test("F-S9.9 beside a landed body edit a mended tag is sent as current")
  func mendedTag() throws {
    let desk = try Desk(Self.types) { try $0.item("A", body: "Words.\n") }
    _ = try desk.push()
    let id = try desk.id("A")
    try desk.machine.edit("A.md", "tier: library", "tier: library\ntags: [bad]")
    try desk.machine.edit("A.md", "Words.", "New.")
    refuse(desk, "POST", "/items/\(id)/tags")
    let (first, _) = try desk.push()
    desk.bench.transport.before = nil
    #expect(first.pull?.flagged.flags("A.md") == ["refused"])
    #expect(try desk.properties(id)["body"] == "New.\n")
    try desk.machine.edit("A.md", "tags: [bad]", "tags: [good]")
    let (push, sent) = try desk.push()
    #expect(sent.lines == ["POST /items/\(id)/tags"])
    #expect(push.scan.flagged.isEmpty && push.pull?.flagged.isEmpty == true, "\(push.json.compact)")
    #expect(try desk.tags(id) == ["good"])
    #expect(try desk.machine.lines("A.md").contains("marfa_version: 2"))
  }

  // MARK: F10

  @Test("F-S10.1 broken frontmatter is held with a reason, followed when moved, and sent once mended")
  func broken() throws {
    let desk = try Desk(Self.types) { try $0.item("Bound", body: "Words.\n") }
    _ = try desk.push()
    let id = try desk.id("Bound")
    let bad = [
      "Indent": "title: x\n   bad: y", "Tier": "tier: attic", "Merge": "base: &b {a: 1}\n<<: *b", "Key": "1: one",
      "Tags": "tags: \"\"", "State": "state: \"\"",
    ]
    for (name, lines) in bad { try desk.machine.write("\(name).md", "---\n\(lines)\n---\nWords.\n") }
    try desk.machine.write("Good.md", "Good.\n")
    try desk.machine.edit("Bound.md", "title: Bound", "title: [Bound")
    let typed = try desk.machine.need("Bound.md")
    let (push, sent) = try desk.push()
    #expect(sent.creates.count == 1 && sent.edits(id).isEmpty && push.scan.created == 1)
    for name in bad.keys.sorted() + ["Bound"] {
      #expect(push.scan.flagged.flags("\(name).md") == ["unreadable"], "\(name)")
      #expect(push.scan.flagged.reason("\(name).md", "unreadable")?.isEmpty == false)
      #expect(try desk.machine.standing("\(name).md")?.state == .held)
    }
    #expect(push.pull?.flagged.map(\.path) == ["Bound.md"])
    #expect(push.pull?.flagged.flags("Bound.md") == ["unreadable"])
    #expect(try desk.bench.titles() == ["Bound", "Good"])
    #expect(try desk.machine.need("Bound.md") == typed)
    for (name, lines) in bad { #expect(try desk.machine.need("\(name).md") == "---\n\(lines)\n---\nWords.\n") }

    try desk.machine.rename("Bound.md", to: "sub/Bound.md")
    let (moved, _) = try desk.push()
    #expect(moved.scan.missing == 0 && moved.scan.renamed == 1)
    #expect(try desk.placed(id) == "sub/Bound.md")
    #expect(try desk.machine.need("sub/Bound.md") == typed)
    try desk.machine.save("sub/Bound.md", typed.replacing("[Bound", with: "Mended"))
    let (mended, edits) = try desk.push()
    #expect(edits.edits(id).count == 1 && mended.pull?.rewritten == 1)
    #expect(try desk.properties(id)["title"] == "Mended")
    #expect(try desk.machine.lines("sub/Bound.md").contains("marfa_version: 2"))
    #expect(mended.pull?.flagged.isEmpty == true)
  }

  @Test("F-S10.2 text that is not UTF-8 or holds a NUL is held, never sent or written over; saved as UTF-8 it is sent")
  func encodings() throws {
    let desk = try Desk(Self.types) { try $0.item("Bound", body: "Words.\n") }
    _ = try desk.push()
    let id = try desk.id("Bound")
    let latin = Array(try desk.machine.need("Bound.md").replacing("Words.", with: "Caf").utf8) + [0xE9, 0x0A]
    let utf16: [UInt8] = Array("plain words\n".utf8).flatMap { [$0, 0] }
    let files: [(String, [UInt8])] = [
      ("Bound.md", latin), ("New.md", [0x63, 0xE9, 0x0A]), ("Old.txt", [0x63, 0xE9, 0x0A]), ("Wide.txt", utf16),
    ]
    desk.bench.clock.advance(seconds: 3)
    for (name, bytes) in files { try desk.machine.disk.write(desk.machine.at(name), bytes) }
    try desk.patch(id, ["properties": ["body": "Theirs.\n"]])
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty)
    for (name, bytes) in files {
      #expect(push.scan.flagged.flags(name) == ["encoding"], "\(name)")
      #expect(desk.machine.disk.read(desk.machine.at(name)) == bytes, "\(name)")
      let standing = try desk.machine.standing(name)
      #expect(standing?.state == .held && standing?.flag == "encoding")
    }
    let reasons = ["Old.txt", "Wide.txt"].map { push.scan.flagged.reason($0, "encoding") ?? "" }
    #expect(reasons[0] != reasons[1] && reasons[0].contains("UTF-8") && reasons[1].contains("NUL"), "\(reasons)")
    try desk.machine.write("Old.txt", "cé\n")
    let (next, creates) = try desk.push()
    #expect(next.scan.created == 1 && creates.creates.count == 1)
    #expect(try desk.properties(desk.id("Old"))["body"] == "cé\n")
  }

  @Test("F-S10.4 a key that stands twice is unreadable")
  func twice() throws {
    let desk = try Desk()
    let text = "---\nstatus: a\nstatus: b\n---\nWords.\n"
    try desk.machine.write("A.md", text)
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.scan.flagged.flags("A.md") == ["unreadable"])
    #expect(push.scan.flagged.reason("A.md", "unreadable")?.contains("status") == true)
    #expect(try desk.machine.need("A.md") == text)
    #expect(try desk.bench.titles().isEmpty)
  }
}
