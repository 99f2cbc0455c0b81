import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Embedded files: what a body names, how they travel, where a pull writes them (F12.13 to F12.40).
struct EmbedTests {
  static let notes: JSON = ["title": "Notes", "search": ["types": ["core.note"]]]

  /// A desk that holds one note.
  func desk(_ body: String = "Words.\n", _ settings: JSON = notes, title: Text = "Alpha") throws -> (Desk, EntityID) {
    let desk = try Desk(settings) { try $0.item(title, body: Text(body)) }
    return (desk, try desk.id(title.string))
  }

  /// A picture as another device attaches it.
  @discardableResult
  func attach(_ bench: FolderBench, _ title: String, to note: EntityID, _ bytes: String? = nil) throws -> EntityID {
    let picture = try bench.file(
      Text(title), Array((bytes ?? "bytes of \(title)").utf8), type: "core.file.image", mime: "image/png")
    try bench.ask(
      "POST", "/edges",
      [
        "source_id": .string(picture.text), "target_id": .string(note.text), "edge_type": "attached-to",
        "properties": [:],
      ])
    return picture
  }

  /// The titles of what is attached to an item.
  func attached(_ desk: Desk, _ id: EntityID) throws -> [String] {
    let rows = try desk.bench.ask("GET", "/items/\(id)/backrefs")["data"]?.array ?? []
    return try rows.map { $0["edge"] ?? $0 }.filter { $0.string("edge_type") == "attached-to" }
      .compactMap { $0.string("source_id").flatMap { EntityID(Text($0)) } }
      .compactMap { try desk.properties($0).string("title") }.sorted()
  }

  /// The reasons of a report's embeds.
  func reasons(_ embeds: [FlaggedFile]?) -> [String] { (embeds ?? []).map { "\($0.path): \($0.reason)" } }

  func hasAttachments(_ machine: FolderMachine, _ path: String) throws -> [String] {
    let lines = try machine.lines(path)
    guard let at = lines.firstIndex(where: { $0.hasPrefix("has-attachment:") }) else { return [] }
    return lines[(at + 1)...].prefix { $0.hasPrefix("  - ") }.map { String($0.dropFirst(4)) }
  }

  @Test(
    "F12.26 a picture put beside a note another machine wrote, or put back after it was trashed, goes with the note")
  func putBesideLater() throws {
    let (desk, alpha) = try desk("![[pic.png]]\n")
    _ = try desk.push()
    #expect(try desk.push().sent.isEmpty && desk.machine.files() == ["Alpha.md"])
    try desk.machine.write("pic.png", "one")
    let (push, _) = try desk.push()
    #expect(push.scan.created == 1 && push.scan.skipped == 0, "\(push.json.compact)")
    #expect(try attached(desk, alpha) == ["pic.png"])
    for _ in 0..<2 { #expect(try desk.push().sent.isEmpty) }
    // Trashed elsewhere its file goes; put back, it is a picture of the note again.
    try desk.trash(try desk.id("pic.png"))
    for _ in 0..<2 { _ = try desk.push() }
    #expect(desk.machine.files() == ["Alpha.md"])
    try desk.machine.write("pic.png", "two")
    let (again, _) = try desk.push()
    #expect(again.scan.skipped == 0 && again.scan.created == 1, "\(again.json.compact)")
    #expect(try desk.bench.ids("pic.png").count == 1 && attached(desk, alpha).contains("pic.png"))
    _ = try desk.push()
    #expect(try desk.push().sent.isEmpty && desk.machine.files() == ["Alpha.md", "pic.png"])
  }

  @Test(
    "F-S12.5 a link only the server can resolve waits while it is not asked; online the edge is made and goes with it")
  func onlyTheServer() throws {
    let (desk, alpha) = try desk()
    _ = try desk.push()
    let remote = try desk.bench.item("Remote", type: "core.bookmark")
    func references() throws -> [String] {
      try desk.edges(alpha, type: "references").compactMap { $0.string("target_id") }
    }
    try desk.machine.edit("Alpha.md", "Words.", "See [[Remote]].")
    let scan = try desk.machine.scan()
    #expect(scan.flagged.reason("Alpha.md", "edges")?.contains("[[Remote]]") == true)
    desk.machine.isOnline = false
    let offline = try desk.machine.push()
    #expect(offline.scan.flagged.flags("Alpha.md") == ["edges"])
    #expect(try references().isEmpty)
    desk.machine.isOnline = true
    let (push, _) = try desk.push()
    #expect(push.scan.flagged.isEmpty, "\(push.json.compact)")
    #expect(try references() == [remote.description])
    _ = try desk.push()
    #expect(try !desk.machine.need("Alpha.md").contains("references"))
    try desk.machine.edit("Alpha.md", "See [[Remote]].", "None.")
    _ = try desk.push()
    #expect(try references().isEmpty)
    #expect(try !desk.machine.need("Alpha.md").contains("references"))
  }

  @Test("F-S12.5 the same over a socket, with the real program")
  func onlyTheServerForReal() async throws {
    let pair = try await TwoComputers(search: #"{"types":["core.note"]}"#)
    try await pair.follow(.one)
    try pair.save(.one, "Alpha.md", "See [[Remote]].\n")
    // Another folder makes what the link names.
    let made = try await pair.program.run([
      "--json", "create", "--title", "Links", "--search", #"{"types":["core.bookmark"]}"#,
    ])
    let links = try #require((made.json?["item"] ?? made.json)?["id"]?.text?.string, "\(made.errText)")
    try await pair.report(.two, ["add", pair.notes(.two), "--folder", links, "--yes"])
    try pair.save(.two, "Remote.md", "Words.\n")
    try await pair.sync(.two)
    let report = try await pair.sync(.one)
    #expect(report["scan"]?["flagged"]?.array?.isEmpty == true, "\(report.compact)")
    #expect(try pair.serverLines().contains { $0.contains("references") })
    try pair.save(.one, "Alpha.md", (pair.text(.one, "Alpha.md") ?? "").replacing("See [[Remote]].", with: "None."))
    _ = try await pair.sync(.one)
    #expect(try !pair.serverLines().contains { $0.contains("references") })
    #expect(pair.text(.one, "Alpha.md")?.contains("references") == false)
  }

  @Test(
    "F-S12.8 two embedded pictures go, bytes first, another is listed, a loose one is skipped; dropped, one is unmatched"
  )
  func travel() throws {
    let (desk, alpha) = try desk()
    let beta = try desk.bench.item("Beta")
    _ = try desk.push()
    for name in ["one.png", "img/two.png", "loose.png"] { try desk.machine.write(name, "bytes of \(name)") }
    try desk.machine.edit("Alpha.md", "Words.", "![first](one.png)\n\n![[two.png|300]]")
    try desk.machine.edit("Beta.md", "title: Beta\n", "title: Beta\nhas-attachment: \"[[one.png]]\"\n")
    let (push, sent) = try desk.push()
    #expect(push.scan.created == 2 && push.scan.skipped == 1, "\(push.json.compact)")
    #expect(push.scan.embeds.isEmpty && push.scan.flagged.isEmpty, "\(push.json.compact)")
    let upload = try #require(sent.lastIndex { $0.target.hasPrefix("/blobs") })
    for create in sent.indices where sent[create].line == "POST /items" {
      let hash = sent[create].body["properties"]?.string("blob_ref") ?? ""
      #expect(!hash.isEmpty && sent[..<create].contains { $0.target.hasPrefix("/blobs") })
    }
    #expect(upload < sent.count)
    #expect(try attached(desk, alpha) == ["one.png", "two.png"])
    #expect(try attached(desk, beta) == ["one.png"])
    _ = try desk.push()
    #expect(try !desk.machine.need("Alpha.md").contains("has-attachment"))
    #expect(try desk.machine.lines("Beta.md").contains("has-attachment: \"[[one.png]]\""))
    #expect(try desk.bench.ids("loose.png").isEmpty)
    try desk.machine.edit("Alpha.md", "\n\n![[two.png|300]]", "")
    let (dropped, _) = try desk.push()
    #expect(try attached(desk, alpha) == ["one.png"])
    #expect(dropped.pull?.unmatched == 1, "\(dropped.json.compact)")
    #expect(desk.machine.text("img/two.png") == "bytes of img/two.png")
    #expect(try desk.state(desk.id("two.png")) == "active")
  }

  @Test(
    "F-S12.9 embeds by path, by name and with a directory are written at their places; moved, a path's file goes back")
  func pulled() throws {
    let desk = try Desk([
      "title": "Notes", "search": ["types": ["core.note"]], "first_placement": ["core.note": "Notes/"],
    ]) { bench in
      let note = try bench.item(
        "Alpha", body: "![](img/one.png) ![[two.png]] ![[deep/three.png]] ![](../../out.png)\n")
      for name in ["one.png", "two.png", "three.png"] { try attach(bench, name, to: note) }
    }
    let (push, _) = try desk.push()
    #expect(desk.machine.files() == ["Notes/Alpha.md", "Notes/img/one.png", "Notes/two.png", "deep/three.png"])
    #expect(push.pull?.embeds.count == 1 && push.pull?.embeds.first?.reason.contains("leads out") == true)
    for (title, path) in [
      ("one.png", "Notes/img/one.png"), ("two.png", "Notes/two.png"), ("three.png", "deep/three.png"),
    ] {
      #expect(try desk.placed(desk.id(title)) == path)
      #expect(desk.machine.text(path) == "bytes of \(title)")
    }
    try desk.machine.rename("Notes/img/one.png", to: "elsewhere/one.png")
    try desk.machine.rename("Notes/two.png", to: "other/two.png")
    _ = try desk.push()
    _ = try desk.push()
    #expect(desk.machine.files() == ["Notes/Alpha.md", "Notes/img/one.png", "deep/three.png", "other/two.png"])
    #expect(try desk.placed(desk.id("one.png")) == "Notes/img/one.png")
    #expect(try desk.placed(desk.id("two.png")) == "other/two.png")
    #expect(try desk.push().sent.isEmpty)
    let ben = try desk.another()
    _ = try desk.push(ben)
    #expect(ben.files() == desk.machine.files())
    #expect(try desk.push(ben).sent.isEmpty)
  }

  @Test("F-S12.11 a picture embedded at two paths is written at the first, and the other embed is reported naming it")
  func twoPaths() throws {
    let desk = try Desk(Self.notes) { bench in
      let first = try bench.item("Alpha", body: "![](b/pic.png)\n")
      let second = try bench.item("Beta", body: "![](a/pic.png)\n")
      let picture = try attach(bench, "pic.png", to: first)
      try bench.ask(
        "POST", "/edges",
        [
          "source_id": .string(picture.text), "target_id": .string(second.text), "edge_type": "attached-to",
          "properties": [:],
        ])
    }
    for _ in 0..<2 {
      let (push, _) = try desk.push()
      #expect(desk.machine.files() == ["Alpha.md", "Beta.md", "a/pic.png"])
      let told = reasons(push.pull?.embeds)
      #expect(told.count == 1 && told[0].hasPrefix("Alpha.md: ") && told[0].contains("a/pic.png"), "\(told)")
    }
  }

  @Test("F-S12.12 an embed taken out, then a whole line of one, each end its edge and leave the file")
  func takenOut() throws {
    let (desk, alpha) = try desk()
    _ = try desk.push()
    for name in ["one.png", "two.png"] { try desk.machine.write(name, "bytes of \(name)") }
    try desk.machine.edit("Alpha.md", "Words.", "Here ![](one.png) it is.\n\n![](two.png)")
    _ = try desk.push()
    #expect(try attached(desk, alpha) == ["one.png", "two.png"])
    try desk.machine.edit("Alpha.md", "Here ![](one.png) it is.", "Here it is.")
    _ = try desk.push()
    #expect(try attached(desk, alpha) == ["two.png"])
    try desk.machine.edit("Alpha.md", "\n\n![](two.png)", "")
    let (push, _) = try desk.push()
    #expect(try attached(desk, alpha).isEmpty)
    #expect(desk.machine.files() == ["Alpha.md", "one.png", "two.png"])
    #expect(push.scan.embeds.isEmpty && push.scan.flagged.isEmpty)
  }

  @Test(
    "F-S12.13 an embed that names nothing, has a raw space or names an empty file holds a removal back until it names one",
    arguments: [("![](gone.png)", "gone.png"), ("![](my file.png)", "my file.png"), ("![](empty.png)", "empty.png")])
  func heldBack(_ embed: String, _ file: String) throws {
    let (desk, alpha) = try desk()
    _ = try desk.push()
    try desk.machine.write("one.png", "bytes of one.png")
    if file == "empty.png" { try desk.machine.write(file, "") }
    try desk.machine.edit("Alpha.md", "Words.", "![](one.png)")
    _ = try desk.push()
    try desk.machine.edit("Alpha.md", "![](one.png)", embed)
    let scan = try desk.machine.scan()
    #expect(reasons(scan.embeds).count == 1 && reasons(scan.embeds)[0].contains(embed), "\(scan.json.compact)")
    let (push, sent) = try desk.push()
    #expect(!sent.contains { $0.line.hasPrefix("DELETE /edges/") })
    #expect(reasons(push.scan.embeds).count == 1)
    #expect(try attached(desk, alpha) == ["one.png"])
    #expect(try !desk.machine.need("Alpha.md").contains("has-attachment"))
    if file.contains(" ") { try desk.machine.edit("Alpha.md", embed, "![](<\(file)>)") }
    try desk.machine.write(file, "bytes of \(file)")
    let (mended, _) = try desk.push()
    #expect(mended.scan.embeds.isEmpty, "\(mended.json.compact)")
    #expect(try attached(desk, alpha) == [file])
  }

  @Test("F-S12.14 of two attachments the one not embedded alone is listed, and alone has no file; its line goes alone")
  func listed() throws {
    let desk = try Desk(Self.notes) { bench in
      let note = try bench.item("Alpha", body: "![](one.png)\n")
      try attach(bench, "one.png", to: note)
      try attach(bench, "two.png", to: note)
    }
    let alpha = try desk.id("Alpha")
    _ = try desk.push()
    #expect(try hasAttachments(desk.machine, "Alpha.md") == ["\"[[two.png]]\""])
    #expect(desk.machine.files() == ["Alpha.md", "one.png"])
    try desk.machine.edit("Alpha.md", "has-attachment:\n  - \"[[two.png]]\"\n", "")
    let (push, sent) = try desk.push()
    #expect(sent.count == 1 && sent[0].line.hasPrefix("DELETE /edges/"), "\(sent.lines)")
    #expect(try attached(desk, alpha) == ["one.png"])
    #expect(desk.machine.files() == ["Alpha.md", "one.png"])
    #expect(push.pull?.embeds.isEmpty == true && push.scan.embeds.isEmpty)
  }

  @Test(
    "F-S12.15 embeds of notes, dotted names, a .txt and an absent .md are never reported; a removal beside them lands")
  func notes() throws {
    let (desk, alpha) = try desk()
    _ = try desk.push()
    try desk.machine.write("one.png", "bytes")
    try desk.machine.write("a.txt", "Text.\n")
    let embeds =
      "![[A note]] ![[Dr. Smith]] ![[v1.2 plan]] ![[2024.05.01]] ![](a.txt) ![](absent.md) ![](Other Note.md)"
    try desk.machine.edit("Alpha.md", "Words.", "![](one.png) \(embeds)")
    let (push, _) = try desk.push()
    #expect(push.scan.embeds.isEmpty && push.pull?.embeds.isEmpty == true, "\(push.json.compact)")
    #expect(try attached(desk, alpha) == ["one.png"])
    try desk.machine.edit("Alpha.md", "![](one.png) ", "")
    let (next, _) = try desk.push()
    #expect(next.scan.embeds.isEmpty && next.pull?.embeds.isEmpty == true)
    #expect(try attached(desk, alpha).isEmpty)
    #expect(try desk.machine.body("Alpha.md") == embeds + "\n")
    let ben = try desk.another()
    let (bens, _) = try desk.push(ben)
    #expect(bens.pull?.embeds.isEmpty == true)
    #expect(ben.files() == ["Alpha.md", "a.txt"])
  }

  @Test("F-S12.16 of embeds in fences, spans, comments and a .txt only the visible one in Markdown is sent")
  func hidden() throws {
    let (desk, alpha) = try desk()
    _ = try desk.push()
    for name in ["seen.png", "a.png", "b.png", "c.png", "d.png", "e.png", "f.png"] {
      try desk.machine.write(name, "bytes of \(name)")
    }
    try desk.machine.edit(
      "Alpha.md", "Words.",
      """
      ![](seen.png)

      ```
      ![](a.png)
      ```

      ~~~~
      ![](b.png)
      ~~~
      ![[b.png]]
      ~~~~

      `![](c.png)` <!-- ![](d.png)
      ![[d.png]] --> %% ![[e.png]] %%

          ![](e.png)
      """)
    try desk.machine.write("text.txt", "![](f.png) ![[f.png]]\n")
    let (push, _) = try desk.push()
    #expect(push.scan.embeds.isEmpty, "\(push.json.compact)")
    #expect(try attached(desk, alpha) == ["seen.png"])
    #expect(try desk.bench.titles() == ["Alpha", "seen.png", "text"])
    #expect(push.scan.skipped == 6)
  }

  @Test("F-S12.17 percent escapes, queries, fragments, rooted and relative paths are read; addresses are no embeds")
  func paths() throws {
    let desk = try Desk(Self.notes)
    let files = ["notes/my file.png", "notes/img/q.png", "img/r.png", "notes/here.png", "up.png"]
    for file in files { try desk.machine.write(file, "bytes of \(file)") }
    try desk.machine.write("https:/x/y.png", "bytes")
    let body =
      "![](my%20file.png) ![](img/q.png?v=2) ![](/img/r.png#part) ![[./here.png]] ![[../up.png]] "
      + "![](https://x/y.png) ![](//x/y.png) ![](#here.png) ![](data:image/png;base64,AAAA) ![](../../out.png)\n"
    try desk.machine.write("notes/Alpha.md", body)
    let (push, _) = try desk.push()
    #expect(try attached(desk, desk.id("Alpha")) == ["here.png", "my file.png", "q.png", "r.png", "up.png"])
    let told = reasons(push.scan.embeds)
    #expect(told.count == 1 && told[0].contains("../../out.png") && told[0].contains("leads out"), "\(told)")
    #expect(push.scan.created == 6)
    #expect(try desk.machine.body("notes/Alpha.md") == body)
  }

  @Test("F-S12.18 same-named pictures: own directory, the root path, the shallowest, then path order, in any case")
  func sameNames() throws {
    let desk = try Desk(Self.notes)
    for file in [
      "deep/a/pic.png", "own/pic.png", "b/z/pic.png", "a/z/pic.png", "bz/pic.png", "x/y/two.png", "w/two.png",
      "v/two.png", "three.png", "q/three.png",
    ] { try desk.machine.write(file, "bytes of \(file)") }
    try desk.machine.write("own/Own.md", "![[pic.png]]\n")
    try desk.machine.write("Edge.md", "![[z/PIC.png]]\n")
    try desk.machine.write("Shallow.md", "![[TWO.png]]\n")
    try desk.machine.write("q/Rooted.md", "![[three.png]]\n")
    _ = try desk.push()
    func embedded(_ title: String) throws -> [String?] {
      let rows = try desk.bench.ask("GET", "/items/\(desk.id(title))/backrefs")["data"]?.array ?? []
      return try rows.map { $0["edge"] ?? $0 }.filter { $0.string("edge_type") == "attached-to" }
        .compactMap { $0.string("source_id").flatMap { EntityID(Text($0)) } }.map { try desk.placed($0) }
    }
    #expect(try embedded("Own") == ["own/pic.png"])
    #expect(try embedded("Edge") == ["a/z/pic.png"])
    #expect(try embedded("Shallow") == ["v/two.png"])
    #expect(try embedded("Rooted") == ["three.png"])
    #expect(try desk.machine.scan().embeds.isEmpty)
  }

  @Test(
    "F-S12.19 pulled afresh, a placement that answers to the name is used and one that does not moves beside the note")
  func placements() throws {
    let desk = try Desk(Self.notes)
    let note = try desk.bench.item("Alpha", body: "![[one.png]] ![[two.png]]\n")
    let (one, two) = (try attach(desk.bench, "one.png", to: note), try attach(desk.bench, "two.png", to: note))
    for (picture, path) in [(one, "pics/one.png"), (two, "pics/other.png")] {
      try desk.bench.place(picture, in: desk.folder, at: path)
    }
    try desk.bench.place(note, in: desk.folder, at: "Alpha.md")
    let (push, sent) = try desk.push()
    #expect(desk.machine.files() == ["Alpha.md", "pics/one.png", "two.png"])
    #expect(sent.count == 1 && sent[0].method == "PATCH" && sent[0].target.hasPrefix("/edges/"), "\(sent.lines)")
    #expect(sent.first?.body["properties"] == ["path": "two.png"])
    #expect(try desk.placed(one) == "pics/one.png" && desk.placed(two) == "two.png")
    #expect(push.pull?.embeds.isEmpty == true)
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S12.20 one note embedding by path and another by name, pulled afresh, have one file at the path, unreported")
  func pathAndName() throws {
    for (first, second) in [("![](img/pic.png)\n", "![[pic.png]]\n"), ("![[pic.png]]\n", "![](img/pic.png)\n")] {
      let desk = try Desk(Self.notes) { bench in
        let alpha = try bench.item("Alpha", body: Text(first))
        let beta = try bench.item("Beta", body: Text(second))
        let picture = try attach(bench, "pic.png", to: alpha)
        try bench.ask(
          "POST", "/edges",
          [
            "source_id": .string(picture.text), "target_id": .string(beta.text), "edge_type": "attached-to",
            "properties": [:],
          ])
      }
      let (push, _) = try desk.push()
      #expect(desk.machine.files() == ["Alpha.md", "Beta.md", "img/pic.png"])
      #expect(push.pull?.embeds.isEmpty == true, "\(push.json.compact)")
      #expect(try desk.placed(desk.id("pic.png")) == "img/pic.png")
      #expect(try desk.push().sent.isEmpty)
    }
  }

  @Test(
    "F-S12.21 a renamed embedded file keeps item and edge, its link is reported and the note lists it, until mended")
  func renamed() throws {
    let (desk, alpha) = try desk()
    _ = try desk.push()
    try desk.machine.write("one.png", "bytes")
    try desk.machine.edit("Alpha.md", "Words.", "![](one.png)")
    _ = try desk.push()
    let picture = try desk.id("one.png")
    try desk.machine.rename("one.png", to: "renamed.png")
    for round in 0..<3 {
      let (push, _) = try desk.push()
      #expect(reasons(push.scan.embeds).count == 1, "\(round) \(push.json.compact)")
      #expect(push.pull?.unmatched == 1, "\(round) \(push.json.compact)")
      #expect(try desk.machine.need("Alpha.md").contains("[[renamed.png]]"))
    }
    #expect(try desk.placed(picture) == "renamed.png")
    #expect(try attached(desk, alpha) == ["renamed.png"])
    #expect(desk.machine.files() == ["Alpha.md", "renamed.png"])
    try desk.machine.edit("Alpha.md", "![](one.png)", "![](renamed.png)")
    _ = try desk.push()
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.scan.embeds.isEmpty && push.pull?.embeds.isEmpty == true)
    #expect(push.pull?.unmatched == 0)
    #expect(try !desk.machine.need("Alpha.md").contains("has-attachment"))
    #expect(try attached(desk, alpha) == ["renamed.png"])
    #expect(try desk.id("renamed.png") == picture)
  }

  @Test("F-S12.22 an attachment the key cannot read is reported, written nowhere, and asked for once")
  func unreadable() throws {
    let bench = try FolderBench()
    let note = try bench.item("Alpha", body: "![](pic.png)\n")
    let picture = try attach(bench, "pic.png", to: note)
    let folder = try bench.folder(Self.notes)
    let made = try bench.ask(
      "POST", "/keys",
      [
        "label": "K", "type_permissions": ["core.note": "write", "system.*": "read"],
        "edge_permissions": ["*": "write"],
      ])
    let machine = bench.machine()
    machine.key = try #require(made.string("key"))
    try machine.add(folder)
    bench.transport.clear()
    for _ in 0..<3 {
      let push = try machine.push()
      let told = reasons(push.pull?.embeds)
      #expect(told.count == 1 && told[0].contains("pic.png"), "\(push.json.compact)")
      #expect(machine.files() == ["Alpha.md"])
    }
    #expect(bench.transport.requests.count { $0.contains("/items/\(picture)") } <= 2, "\(bench.transport.requests)")
  }

  @Test("F-S12.23 folders of notes and of every type list attached-to when hydrated; one of files does not")
  func slices() throws {
    let bench = try FolderBench()
    try bench.item("One")
    for (search, lists) in [
      (["types": ["core.note"]] as JSON, true), (["types": ["core.file"]], false), ([:], true),
    ] {
      let machine = bench.machine("m\(search.compact.count)")
      let folder = try bench.folder(["title": "Folder", "search": search])
      bench.transport.clear()
      try machine.add(folder)
      _ = try machine.push()
      let listed = bench.transport.requests.contains { $0.hasPrefix("GET /edges?") && $0.contains("attached-to") }
      #expect(listed == lists, "\(search.compact)")
      // A search of every type holds the machine's own items too.
      #expect(machine.files().contains("One.md") == lists, "\(machine.files())")
    }
  }

  @Test("F-S12.26 an embed differing in case is one edge, unreported, and one file under its own name on every machine")
  func otherCase() throws {
    let (desk, alpha) = try desk()
    _ = try desk.push()
    try desk.machine.write("Img/t10.png", "bytes")
    try desk.machine.edit("Alpha.md", "Words.", "![](img/T10.PNG)")
    let (push, _) = try desk.push()
    #expect(push.scan.embeds.isEmpty && push.pull?.embeds.isEmpty == true)
    try desk.machine.edit("Alpha.md", "![](img/T10.PNG)", "Edited ![](img/T10.PNG)")
    _ = try desk.push()
    #expect(try attached(desk, alpha) == ["t10.png"])
    #expect(desk.machine.files() == ["Alpha.md", "Img/t10.png"])
    let ben = try desk.another()
    let (bens, sent) = try desk.push(ben)
    #expect(ben.files() == ["Alpha.md", "Img/t10.png"])
    #expect(bens.pull?.embeds.isEmpty == true && sent.isEmpty, "\(sent.lines)")
    #expect(try desk.push().sent.isEmpty && desk.push(ben).sent.isEmpty)
    #expect(try desk.placed(desk.id("t10.png")) == "Img/t10.png")
  }

  @Test("an attachment never placed takes its own name, however the embed spells it (F12.22)")
  func ownName() throws {
    for embed in ["![](T10.PNG)", "![[T10.PNG]]"] {
      let desk = try Desk(Self.notes) { bench in
        try attach(bench, "t10.png", to: try bench.item("Alpha", body: Text("\(embed)\n")))
      }
      let (push, _) = try desk.push()
      #expect(desk.machine.files() == ["Alpha.md", "t10.png"])
      #expect(push.pull?.embeds.isEmpty == true)
      #expect(try desk.push().sent.isEmpty)
    }
  }

  @Test("F-S12.27 of two attachments of one name neither is written, and the embed is reported")
  func twoOfOneName() throws {
    let desk = try Desk(Self.notes) { bench in
      let note = try bench.item("Alpha", body: "![](pic.png)\n")
      try attach(bench, "pic.png", to: note, "first")
      try attach(bench, "pic.png", to: note, "second")
    }
    for _ in 0..<2 {
      let (push, _) = try desk.push()
      #expect(desk.machine.files() == ["Alpha.md"])
      let told = reasons(push.pull?.embeds)
      #expect(told.count == 1 && told[0].contains("more than one"), "\(push.json.compact)")
    }
    #expect(try attached(desk, desk.id("Alpha")) == ["pic.png", "pic.png"])
  }

  @Test("F-S12.28 a .txt body with an embed has no file written for it")
  func textFile() throws {
    let desk = try Desk(Self.notes)
    let note = try desk.bench.item("Alpha", body: "![](pic.png) ![[pic.png]]\n")
    try attach(desk.bench, "pic.png", to: note)
    try desk.bench.place(note, in: desk.folder, at: "Alpha.txt")
    for _ in 0..<2 {
      let (push, _) = try desk.push()
      #expect(desk.machine.files() == ["Alpha.txt"])
      #expect(push.pull?.embeds.isEmpty == true, "\(push.json.compact)")
    }
    #expect(desk.machine.text("Alpha.txt") == "![](pic.png) ![[pic.png]]\n")
  }
}
