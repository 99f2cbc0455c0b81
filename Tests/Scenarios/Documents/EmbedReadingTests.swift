import FolderSync
import LocalInstance
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Embeds that a scan and a pull must read alike, on the machine that has the file and on the one that has it not yet
/// (F12.17, F12.19, F12.33, F12.34), and what a body that lost a collision asked for (Q67.1).
struct EmbedReadingTests {
  private func attached(_ desk: Desk, _ id: EntityID) throws -> [String] {
    let rows = try desk.bench.ask("GET", "/items/\(id)/backrefs")["data"]?.array ?? []
    return try rows.map { $0["edge"] ?? $0 }.filter { $0.string("edge_type") == "attached-to" }
      .compactMap { $0.string("source_id").flatMap { EntityID(Text($0)) } }
      .compactMap { try desk.properties($0).string("title") }.sorted()
  }

  @Test(
    "F12.33, F12.34, F12.19 an embedded file is written on every machine, whatever its ending or a # in its name",
    arguments: [
      ("![[f03.drawio]]", "f03.drawio"), ("![a drawing](att/f04.xyz)", "att/f04.xyz"), ("![[blob]]", "blob"),
      ("![[a.b.dat|300]]", "a.b.dat"), ("![[no#te.png]]", "no#te.png"), ("![[#lead.png]]", "#lead.png"),
      ("![x](no%23te.png)", "no#te.png"),
    ])
  func everywhere(embed: String, path: String) throws {
    let desk = try Desk()
    let ben = try desk.another()
    try desk.machine.write(path, "bytes of \(path)")
    try desk.machine.write("Note.md", "See \(embed).\n")
    for _ in 1...2 { _ = try desk.push() }
    #expect(try attached(desk, desk.id("Note")) == [PathBytes(path).name.description])
    for _ in 1...2 {
      let pull = try #require(try ben.push().pull)
      #expect(pull.embeds.isEmpty && pull.unmatched == 0, "\(pull.json.compact)")
      let again = try #require(try desk.push().report.pull)
      #expect(again.embeds.isEmpty && again.unmatched == 0, "\(again.json.compact)")
    }
    #expect(ben.files() == ["Note.md", path].sorted())
    #expect(ben.text(path) == "bytes of \(path)")
    #expect(try ben.need("Note.md") == desk.machine.need("Note.md"))
    #expect(try !ben.need("Note.md").contains("has-attachment"))
    // Taken out there, the attachment goes here too.
    try ben.edit("Note.md", "See \(embed).", "Nothing.")
    try ben.push()
    #expect(try attached(desk, desk.id("Note")).isEmpty)
  }

  @Test("F12.17 an embed of a note stays text, though an attachment of the file that carries it has another name")
  func notes() throws {
    let desk = try Desk()
    let ben = try desk.another()
    try desk.machine.write("f.drawio", "bytes")
    try desk.machine.write("Note.md", "![[f.drawio]] and ![[Dr. Smith]] and ![[v1.2 plan]] and ![](a.md)\n")
    _ = try desk.push()
    for _ in 1...2 {
      let pull = try #require(try ben.push().pull)
      #expect(pull.embeds.isEmpty, "\(pull.json.compact)")
    }
    #expect(ben.files() == ["Note.md", "f.drawio"])
  }

  @Test(
    "Q67.1, F12.19 a body that lost a collision makes no edge; its copy's links and embeds are made with the next scan")
  func lostBody() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note", "core.file"]]])
    let ben = try desk.another()
    try desk.machine.write("n.md", "base\n")
    try desk.machine.write("T.md", "target\n")
    for _ in 1...2 { _ = try desk.push() }
    for _ in 1...2 { try ben.push() }
    let (note, target) = (try desk.id("n"), try desk.id("T"))
    try desk.machine.edit("n.md", "base", "words of ana")
    _ = try desk.push()
    try ben.write("pic.png", "bytes")
    try ben.edit("n.md", "base", "words of ben [[T]]\n![[pic.png]]")
    let push = try ben.push()
    #expect(push.drain.conflicts.count == 1, "\(push.json.compact)")
    for _ in 1...2 {
      try ben.push()
      _ = try desk.push()
    }
    #expect(try desk.properties(note).string("body") == "words of ana\n")
    #expect(try attached(desk, note).isEmpty && desk.edges(note, type: "references").isEmpty)
    let copy = try #require(try desk.bench.ids("n").first { $0 != note })
    #expect(try attached(desk, copy) == ["pic.png"])
    #expect(try desk.edges(copy, type: "references").compactMap { $0.string("target_id") } == [target.description])
    // A version alone is no line to write a file for (F24.2).
    func shown(_ machine: FolderMachine) throws -> [String] {
      try machine.lines("n.md").filter { !$0.hasPrefix("marfa_version:") }
    }
    #expect(try shown(ben) == shown(desk.machine))
    #expect(try !ben.need("n.md").contains("has-attachment"))
    #expect(desk.machine.files() == ben.files())
    let settled = try ben.push()
    #expect(settled.drain.drain.answered == 0 && settled.pull?.embeds.isEmpty == true, "\(settled.json.compact)")
  }

  @Test("F12.19 an embed taken out elsewhere while its edge stays is listed on the machine that embedded it too")
  func takenOutElsewhere() throws {
    let desk = try Desk()
    try desk.machine.write("pic.png", "bytes")
    try desk.machine.write("n.md", "![[pic.png]] base\n")
    for _ in 1...2 { _ = try desk.push() }
    let note = try desk.id("n")
    try desk.bench.edit(note, ["body": "no picture\n"])
    for _ in 1...2 { _ = try desk.push() }
    let text = try desk.machine.need("n.md")
    #expect(text.contains("has-attachment:") && text.contains("[[pic.png]]"), "\(text)")
    #expect(try attached(desk, note) == ["pic.png"])
  }

  @Test("F12.1 a link or an embed escaped for a table names what it shows, and its bytes stay")
  func inTables() throws {
    let desk = try Desk { try $0.item("Other") }
    try desk.machine.write("c.png", "bytes")
    let body = "| a | b |\n| - | - |\n| [[Other\\|shown]] | ![[c.png\\|300]] |\n"
    try desk.machine.write("Mine.md", body)
    let (push, _) = try desk.push()
    #expect(push.scan.flagged.isEmpty && push.scan.embeds.isEmpty, "\(push.json.compact)")
    let mine = try desk.id("Mine")
    #expect(
      try desk.edges(mine, type: "references").compactMap { $0.string("target_id") } == [desk.id("Other").description])
    #expect(try attached(desk, mine) == ["c.png"])
    _ = try desk.push()
    #expect(try desk.machine.body("Mine.md") == body)
    #expect(try !desk.machine.need("Mine.md").contains("references"))
  }

  @Test("Q67.2 an edge the server has and never shows this copy is asked for once a save, not at every pass")
  func unseenEdge() throws {
    let desk = try Desk { try $0.item("T") }
    _ = try desk.push()
    var asked = 0
    desk.bench.transport.before = { request in
      guard request.method == "POST", request.url.hasSuffix("/edges"), case .bytes(let bytes) = request.body,
        let body = try? JSON(parsing: bytes), body["edge_type"]?.text == "references"
      else { return nil }
      asked += 1
      let refusal: JSON = [
        "error": [
          "code": "edge_constraint_violation", "message": "the edge exists", "details": ["constraint": "duplicate"],
        ]
      ]
      return .success(
        HTTPResponse(
          status: 400,
          headers: [HTTPHeader("Content-Type", "application/json"), HTTPHeader("X-Marfa-Contract", "0")],
          body: refusal.write()))
    }
    try desk.machine.write("n.md", "See [[T]].\n")
    for _ in 1...4 {
      let (push, _) = try desk.push()
      #expect(push.scan.flagged.isEmpty, "\(push.json.compact)")
    }
    #expect(asked == 1)
    try desk.machine.edit("n.md", "See", "Look at")
    for _ in 1...3 { _ = try desk.push() }
    let again = asked
    _ = try desk.push()
    #expect(again == asked && asked <= 3)
    // Once it is shown, it is the file's like any other.
    desk.bench.transport.before = nil
    try desk.edge(desk.id("n"), "references", desk.id("T"))
    for _ in 1...3 { _ = try desk.push() }
    try desk.machine.edit("n.md", "[[T]]", "nothing")
    _ = try desk.push()
    #expect(try desk.edges(desk.id("n"), type: "references").isEmpty)
  }
}
