import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// What a file asks for that no write of ours can carry, or that the server refuses: held and told, and nothing of the
/// person's text goes for it.
struct RefusedChangeTests {
  @Test(
    "F35.6 a file checked out with a type outside the search keeps its item: unmatched, and its next edit is an edit")
  func checkedOutOfTheSearch() throws {
    let desk = try Desk()
    let id = try desk.bench.item("q", body: "Words.\n")
    try desk.machine.write(
      "q.md", "---\ntitle: q\ntype: core.bookmark\nurl: https://x.y/\nmarfa_id: \(id)\nmarfa_version: 1\n---\nWords.\n")
    let (push, _) = try desk.push()
    #expect(push.scan.created == 0 && push.pull?.unmatched == 1, "\(push.json.compact)")
    #expect(try desk.item(id).string("type") == "core.bookmark")
    try desk.machine.save("q.md", try desk.machine.need("q.md") + "More.\n")
    let (later, sent) = try desk.push()
    #expect(later.scan.created == 0 && later.scan.requeued == 0 && sent.edits(id).count == 1, "\(later.json.compact)")
    #expect(try desk.properties(id)["body"] == "Words.\nMore.\n")
    #expect(try desk.bench.ids("q") == [id] && desk.machine.files() == ["q.md"])
  }

  @Test("F9.5 a file whose type is made on the server alone is refused by itself; what stands beside it is sent")
  func servedType() throws {
    let desk = try Desk()
    try desk.machine.write("ok.md", "Words.\n")
    let text = "---\ntype: system.folder\n---\nMine.\n"
    try desk.machine.write("zz.md", text)
    for _ in 0..<2 {
      let (push, _) = try desk.push()
      #expect(push.scan.flagged.flags("zz.md") == ["refused"], "\(push.json.compact)")
      #expect(push.scan.flagged.reason("zz.md", "refused")?.contains("system.folder") == true)
    }
    #expect(try desk.bench.titles() == ["ok"])
    #expect(try desk.machine.need("zz.md") == text)
    #expect(try desk.machine.standing("zz.md")?.state == .held)
  }

  @Test("F9.6 a refused archive is held whatever the code says, while the item is not as the file has it")
  func refusedArchive() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"], "state": ["active", "archived"]]])
    try desk.machine.write("A.md", "Words.\n")
    for _ in 0..<2 { _ = try desk.push() }
    let id = try desk.id("A")
    try desk.machine.edit("A.md", "\nmarfa_id", "\nstate: archived\nmarfa_id")
    let text = try desk.machine.need("A.md")
    desk.bench.transport.before = { request in
      guard request.url.contains("/transition") else { return nil }
      return .success(refusal(400, "invalid_transition", "Not so."))
    }
    for _ in 0..<2 {
      let (push, _) = try desk.push()
      #expect(push.pull?.flagged.flags("A.md") == ["refused"], "\(push.json.compact)")
    }
    #expect(try desk.machine.need("A.md") == text && desk.state(id) == "active")
    // Somebody else archives it: then it is as the file says.
    desk.bench.transport.before = nil
    try desk.transition(id, "archived")
    let (met, sent) = try desk.push()
    #expect(met.pull?.flagged.isEmpty == true && sent.isEmpty, "\(met.json.compact)")
    #expect(try desk.machine.standing("A.md")?.state == .inStep)
  }

  @Test("F11.15 two spellings of one item in an edge line both stay as typed")
  func twoSpellings() throws {
    let desk = try Desk()
    try desk.machine.write("file-name.md", "---\ntitle: Other title\n---\nF\n")
    try desk.machine.write("deep.md", "---\ntitle: Deepest\n---\nF\n")
    for _ in 0..<2 { _ = try desk.push() }
    let typed = #"about: ["[[file-name]]", "[[deep.md]]", "[[FILE-NAME.md#H|s]]"]"#
    try desk.machine.write("x.md", "---\n\(typed)\n---\nB\n")
    for _ in 0..<2 { _ = try desk.push() }
    #expect(try desk.edges(desk.id("x"), type: "about").count == 2)
    #expect(try desk.machine.lines("x.md").contains(typed))
    // One of the three taken out elsewhere takes its own spellings alone.
    let target = try desk.id("Deepest").text
    let deep = try #require(try desk.edges(desk.id("x"), type: "about").first { $0["target_id"]?.text == target })
    try desk.bench.ask("DELETE", "/edges/\(deep["id"]?.text ?? "")")
    for _ in 0..<2 { _ = try desk.push() }
    let lines = try desk.machine.need("x.md")
    #expect(
      lines.contains("[[file-name]]") && lines.contains("[[FILE-NAME.md#H|s]]") && !lines.contains("[[deep.md]]"),
      "\(lines)")
    #expect(try desk.edges(desk.id("x"), type: "about").count == 1)
  }

  @Test("C16.7 two edges of one file refused in the same words are told once")
  func toldOnce() throws {
    let desk = try Desk()
    for name in ["a", "b"] { try desk.machine.write("\(name).md", "\(name)\n") }
    for _ in 0..<2 { _ = try desk.push() }
    desk.bench.transport.before = { request in
      guard request.method == "POST", request.url.hasSuffix("/edges") else { return nil }
      return .success(refusal(403, "edge_permission_denied", "no"))
    }
    try desk.machine.save("a.md", try desk.machine.need("a.md") + "[[b]]\n")
    try desk.machine.edit("a.md", "\nmarfa_id", "\nabout: \"[[b]]\"\nmarfa_id")
    let (push, _) = try desk.push()
    #expect(push.pull?.flagged.flags("a.md") == ["refused"], "\(push.json.compact)")
  }

  @Test(
    "F11.30 a line put back to its first target after a refused move keeps the edge and the line",
    arguments: [true, false])
  func movedBack(locally: Bool) throws {
    let desk = try Desk()
    for name in ["one", "two"] { try desk.machine.write("\(name).md", "\(name)\n") }
    try desk.machine.write("mid.md", "---\nchild-of: \"[[one]]\"\n---\nmid\n")
    if locally { try desk.machine.write("two.md", "---\nchild-of: \"[[mid]]\"\n---\ntwo\n") }
    for _ in 0..<3 { _ = try desk.push() }
    let mid = try desk.id("mid")
    func parents() throws -> [String] {
      try (desk.bench.ask("GET", "/items/\(mid)/backrefs")["data"]?.array ?? []).map { $0["edge"] ?? $0 }
        .filter { $0.string("edge_type") == "parent-of" }.compactMap { $0.string("source_id") }
    }
    #expect(try parents() == [desk.id("one").description])
    if !locally {
      desk.bench.transport.before = { request in
        guard request.method == "PATCH", request.url.contains("/edges/") else { return nil }
        return .success(refusal(403, "edge_permission_denied", "no"))
      }
    }
    try desk.machine.edit("mid.md", "[[one]]", "[[two]]")
    for _ in 0..<2 {
      let (push, _) = try desk.push()
      let told = push.scan.flagged + (push.pull?.flagged ?? [])
      #expect(told.contains { $0.path == "mid.md" && !$0.reason.contains("made elsewhere") }, "\(push.json.compact)")
      #expect(!told.contains { $0.reason.contains("made elsewhere") }, "\(push.json.compact)")
    }
    desk.bench.transport.before = nil
    try desk.machine.edit("mid.md", "[[two]]", "[[one]]")
    for _ in 0..<2 { #expect(try desk.push().sent.isEmpty) }
    #expect(try parents() == [desk.id("one").description])
    #expect(try desk.machine.lines("mid.md").contains("child-of: \"[[one]]\""))
    #expect(try desk.machine.standing("mid.md")?.state == .inStep)
  }
}
