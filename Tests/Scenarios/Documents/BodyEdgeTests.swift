import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Links and embeds of a body (F12).
struct BodyEdgeTests {
  func held(_ titles: [Text], _ settings: JSON = ["title": "Notes", "search": ["types": ["core.note"]]]) throws -> Desk
  {
    let desk = try Desk(settings) { bench in for title in titles { try bench.item(title, body: "Words.\n") } }
    _ = try desk.push()
    return desk
  }

  func targets(_ desk: Desk, _ id: EntityID, _ type: String = "references") throws -> [String] {
    try desk.edges(id, type: type).compactMap { $0.string("target_id") }.filter { $0 != desk.folder.description }
      .sorted()
  }

  /// What is attached to an item.
  func attached(_ desk: Desk, to id: EntityID) throws -> [String] {
    let rows = try desk.bench.ask("GET", "/items/\(id)/backrefs")["data"]?.array ?? []
    return rows.map { $0["edge"] ?? $0 }.filter { $0.string("edge_type") == "attached-to" }
      .compactMap { $0.string("source_id") }.sorted()
  }

  @Test("F-S12.1 only an edge no link names is a references line, and the body is untouched")
  func onlyUnlinked() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"]]]) { bench in
      let alpha = try bench.item("Alpha", body: "See [[Beta]].\n")
      let others = [try bench.item("Beta"), try bench.item("Gamma")]
      for other in others {
        try bench.ask(
          "POST", "/edges",
          [
            "source_id": .string(alpha.text), "target_id": .string(other.text), "edge_type": "references",
            "properties": [:],
          ])
      }
    }
    let (_, sent) = try desk.push()
    #expect(sent.allSatisfy { $0.body.string("edge_type") == "in-folder" })
    let lines = try desk.machine.lines("Alpha.md")
    #expect(lines.contains("references:") && lines.contains("  - \"[[Gamma]]\"") && !lines.contains("  - \"[[Beta]]\""))
    #expect(try desk.machine.body("Alpha.md") == "See [[Beta]].\n")
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S12.2 links by title, nested file name, path and heading only make one edge; removing them deletes it")
  func linkForms() throws {
    let desk = try held(["Alpha"])
    let alpha = try desk.id("Alpha")
    try desk.machine.write("projects/file-name.md", "---\ntitle: The Target\n---\nWords.\n")
    _ = try desk.push()
    let target = try desk.id("The Target")
    try desk.machine.edit(
      "Alpha.md", "Words.",
      "[[The Target]] [[file-name#Heading|shown]] [[projects/file-name.md#Heading]] [[#local]]")
    let (push, sent) = try desk.push()
    #expect(push.scan.flagged.isEmpty, "\(push.json.compact)")
    #expect(sent.filter { $0.line == "POST /edges" }.count == 1)
    #expect(try targets(desk, alpha) == [target.description])
    #expect(try !desk.machine.lines("Alpha.md").contains { $0.hasPrefix("references") })
    try desk.machine.edit(
      "Alpha.md", "[[The Target]] [[file-name#Heading|shown]] [[projects/file-name.md#Heading]] [[#local]]", "Gone.")
    let (_, removed) = try desk.push()
    #expect(removed.filter { $0.line.hasPrefix("DELETE /edges/") }.count == 1)
    #expect(try targets(desk, alpha).isEmpty)
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S12.3 links in code and comments are none, and nothing is flagged")
  func codeAndComments() throws {
    let desk = try held(["Alpha", "Seen", "Hidden"])
    let (alpha, seen) = (try desk.id("Alpha"), try desk.id("Seen"))
    try desk.machine.edit(
      "Alpha.md", "Words.",
      """
      [[Seen]]

      ```
      [[Hidden]] [[Nobody]]
      ```

      ~~~
      [[Hidden]]
      ~~~

      `[[Hidden]]` and %% [[Hidden]] %% and <!-- [[Hidden]]
      [[Hidden]] -->

      ```inline [[Hidden]]``` then `a span
      over [[Hidden]] lines`

      > ```
      > [[Hidden]]
      > ```
      """)
    let (push, _) = try desk.push()
    #expect(push.scan.flagged.isEmpty, "\(push.json.compact)")
    #expect(try targets(desk, alpha) == [seen.description])
  }

  @Test("F-S12.4 titles shared or reading two ways are reported as more than one in the body; by id they resolve")
  func ambiguous() throws {
    let desk = try held(["Alpha", "C", "C# notes", "Same"])
    let (alpha, sharp) = (try desk.id("Alpha"), try desk.id("C# notes"))
    try desk.bench.item("Same", body: "Another.\n")
    _ = try desk.push()
    try desk.machine.edit("Alpha.md", "Words.", "[[Same]] and [[C# notes]]")
    let (push, sent) = try desk.push()
    #expect(!sent.contains { $0.line == "POST /edges" && $0.body.string("edge_type") == "references" })
    let reasons = push.scan.flagged.filter { $0.path == "Alpha.md" }.map(\.reason).joined(separator: "; ")
    #expect(push.scan.flagged.flags("Alpha.md").allSatisfy { $0 == "edges" })
    #expect(reasons.contains("[[Same]]") && reasons.contains("[[C# notes]]") && reasons.contains("more than one"))
    #expect(reasons.contains("body"))
    #expect(try targets(desk, alpha).isEmpty)
    let same = try desk.bench.ids("Same")[0]
    try desk.machine.edit("Alpha.md", "[[Same]] and [[C# notes]]", "[[\(same)]] and [[\(sharp)#Heading]]")
    let (next, _) = try desk.push()
    #expect(next.scan.flagged.isEmpty)
    #expect(try targets(desk, alpha) == [same.description, sharp.description].sorted())
  }

  @Test("F-S12.6 where two references go to items of one name the body's name is reported and both edges stay")
  func twoOfOneName() throws {
    let desk = try held(["Alpha", "Same"])
    let alpha = try desk.id("Alpha")
    let first = try desk.id("Same")
    let second = try desk.bench.item("Same", body: "Another.\n")
    try desk.edge(alpha, "references", first)
    try desk.edge(alpha, "references", second)
    _ = try desk.push()
    try desk.machine.edit("Alpha.md", "Words.", "[[Same]]")
    let (push, _) = try desk.push()
    #expect(push.scan.flagged.flags("Alpha.md") == ["edges"])
    #expect(push.scan.flagged.reason("Alpha.md", "edges")?.contains("more than one") == true)
    #expect(try targets(desk, alpha) == [first.description, second.description].sorted())
    _ = try desk.push()
    #expect(try targets(desk, alpha).count == 2)
  }

  @Test("F-S12.7 a missing link holds a removal back; with it gone the removal lands")
  func heldBack() throws {
    let desk = try held(["Alpha", "Beta"])
    let (alpha, beta) = (try desk.id("Alpha"), try desk.id("Beta"))
    try desk.machine.edit("Alpha.md", "Words.", "[[Beta]] here")
    _ = try desk.push()
    #expect(try targets(desk, alpha) == [beta.description])
    try desk.machine.edit("Alpha.md", "[[Beta]] here", "[[Nobody]] here")
    let (push, _) = try desk.push()
    #expect(push.scan.flagged.flags("Alpha.md") == ["edges"])
    #expect(try targets(desk, alpha) == [beta.description])
    #expect(try !desk.machine.lines("Alpha.md").contains { $0.hasPrefix("references") })
    try desk.machine.edit("Alpha.md", "[[Nobody]] here", "Nothing here")
    let (next, _) = try desk.push()
    #expect(next.scan.flagged.isEmpty)
    #expect(try targets(desk, alpha).isEmpty)
    #expect(try !desk.machine.lines("Alpha.md").contains { $0.hasPrefix("references") })
  }

  @Test(
    "F12.8 in part: embedded pictures go, bytes first, with edges and no line; a loose one is skipped; dropped, one is unmatched"
  )
  func embeds() throws {
    let desk = try held(["Alpha", "Beta"])
    let (alpha, beta) = (try desk.id("Alpha"), try desk.id("Beta"))
    for name in ["one.png", "img/two.png", "loose.png"] { try desk.machine.write(name, "bytes of \(name)") }
    try desk.machine.edit("Alpha.md", "Words.", "![first](one.png)\n\n![[two.png|300]]")
    let (push, sent) = try desk.push()
    #expect(push.scan.created == 2 && push.scan.skipped == 1, "\(push.json.compact)")
    let (one, two) = (try desk.id("one.png"), try desk.id("two.png"))
    let firstUpload = try #require(sent.firstIndex { $0.target.hasPrefix("/blobs") })
    let firstItem = try #require(sent.firstIndex { $0.line == "POST /items" })
    #expect(firstUpload < firstItem)
    #expect(try attached(desk, to: alpha) == [one.description, two.description].sorted())
    try desk.edge(one, "attached-to", beta)
    _ = try desk.push()
    #expect(try !desk.machine.lines("Alpha.md").contains { $0.hasPrefix("has-attachment") })
    #expect(try desk.machine.lines("Beta.md").contains("has-attachment:"))
    #expect(try desk.bench.ids("loose.png").isEmpty)
    try desk.machine.edit("Alpha.md", "![[two.png|300]]", "No more.")
    let (dropped, _) = try desk.push()
    #expect(try attached(desk, to: alpha) == [one.description])
    #expect(dropped.pull?.unmatched == 1, "\(dropped.json.compact)")
    #expect(desk.machine.text("img/two.png") == "bytes of img/two.png")
    #expect(try desk.state(two) == "active")
  }

  @Test("F-S12.10 an embed leading out is reported and never sent or written; another embed's removal still lands")
  func leadsOut() throws {
    let desk = try held(["Alpha"])
    let alpha = try desk.id("Alpha")
    try desk.machine.write("one.png", "bytes")
    try desk.machine.disk.write("/home/ana/secret.png", "secret")
    try desk.machine.edit("Alpha.md", "Words.", "![](one.png) ![](../secret.png)")
    let (push, _) = try desk.push()
    #expect(push.scan.embeds.contains { $0.path == "Alpha.md" && $0.reason.contains("out") })
    #expect(try attached(desk, to: alpha) == [desk.id("one.png").description])
    try desk.machine.edit("Alpha.md", "![](one.png) ", "")
    let (_, _) = try desk.push()
    #expect(try attached(desk, to: alpha).isEmpty)
    let ben = try desk.another()
    let (bens, _) = try desk.push(ben)
    #expect(bens.pull?.embeds.contains { $0.path == "Alpha.md" && $0.reason.contains("out") } == true)
    #expect(ben.files() == ["Alpha.md"])
    #expect(try desk.bench.titles() == ["Alpha", "one.png"])
  }

  @Test("F-S12.29 an embed taken out between two scans before any push has its edge gone")
  func takenOutBetweenScans() throws {
    let desk = try held(["Alpha"])
    let alpha = try desk.id("Alpha")
    try desk.machine.write("one.png", "bytes")
    try desk.machine.edit("Alpha.md", "Words.", "![](one.png)")
    _ = try desk.machine.scan()
    try desk.machine.edit("Alpha.md", "![](one.png)", "None.")
    _ = try desk.machine.scan()
    _ = try desk.push()
    #expect(try attached(desk, to: alpha).isEmpty)
    #expect(try desk.properties(alpha)["body"] == "None.\n")
    #expect(desk.machine.text("one.png") == "bytes")
    #expect(try desk.push().sent.isEmpty)
  }

  @Test(
    "F-S12.24 an embedded picture archived elsewhere under an active-only search keeps its file; the note's file goes")
  func archivedElsewhere() throws {
    let desk = try held(
      ["Stays", "Other", "More"], ["title": "Notes", "search": ["types": ["core.note"], "state": ["active"]]])
    try desk.machine.write("one.png", "bytes")
    try desk.machine.edit("Stays.md", "Words.", "![](one.png)")
    _ = try desk.push()
    let (picture, note) = (try desk.id("one.png"), try desk.id("Other"))
    try desk.transition(picture, "archived")
    try desk.transition(note, "archived")
    let (push, _) = try desk.push()
    #expect(push.pull?.removed == 1, "\(push.json.compact)")
    #expect(desk.machine.files() == ["More.md", "Stays.md", "one.png"])
    #expect(push.pull?.unmatched == 0)
  }

  @Test("F-S12.25 an embedded picture trashed elsewhere has its file taken away, and the note does not list it")
  func trashedElsewhere() throws {
    let desk = try held(["Alpha", "Beta"])
    try desk.machine.write("one.png", "bytes")
    try desk.machine.edit("Alpha.md", "Words.", "![](one.png)")
    _ = try desk.push()
    try desk.trash(try desk.id("one.png"))
    let (push, _) = try desk.push()
    #expect(push.pull?.removed == 1)
    #expect(desk.machine.files() == ["Alpha.md", "Beta.md"])
    #expect(try !desk.machine.lines("Alpha.md").contains { $0.hasPrefix("has-attachment") })
    #expect(try desk.machine.body("Alpha.md") == "![](one.png)\n")
  }

}
