import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Edges as lines (F11).
struct EdgeLineTests {
  /// A desk with held notes of these titles.
  func held(_ titles: [Text], _ settings: JSON = ["title": "Notes", "search": ["types": ["core.note"]]]) throws -> Desk
  {
    let desk = try Desk(settings) { bench in for title in titles { try bench.item(title, body: "Words.\n") } }
    _ = try desk.push()
    return desk
  }

  /// The items at the other end of an item's edges of a type.
  func targets(_ desk: Desk, _ id: EntityID, _ type: String) throws -> [String] {
    try desk.edges(id, type: type).compactMap { $0.string("target_id") }.sorted()
  }

  @Test("F-S11.1 an about edge is a line in the source's file alone, and reading back sends nothing")
  func aboutLine() throws {
    let desk = try held(["Alpha", "Beta"])
    let (alpha, beta) = (try desk.id("Alpha"), try desk.id("Beta"))
    let before = try desk.machine.need("Beta.md")
    try desk.edge(alpha, "about", beta)
    let (push, sent) = try desk.push()
    #expect(push.pull?.rewritten == 1 && sent.isEmpty)
    let lines = try desk.machine.lines("Alpha.md")
    let at = try #require(lines.firstIndex(of: "about:"))
    #expect(lines[at + 1] == "  - \"[[Beta]]\"")
    #expect(try desk.machine.body("Alpha.md") == "Words.\n")
    #expect(try desk.machine.need("Beta.md") == before)
    let (again, nothing) = try desk.push()
    #expect(nothing.isEmpty && again.scan.updated == 0)
    #expect(try targets(desk, alpha, "about") == [beta.description])
  }

  @Test(
    "F-S11.2 the child's file has child-of and the parent's nothing; a new child naming its parent makes the edge from it"
  )
  func parents() throws {
    let bench = try FolderBench()
    let folder = try bench.folder(["title": "Notes", "search": ["types": ["core.note"]]])
    let (parent, child) = (try bench.item("Parent"), try bench.item("Child"))
    try bench.ask(
      "POST", "/edges",
      [
        "source_id": .string(parent.text), "target_id": .string(child.text), "edge_type": "parent-of",
        "properties": [:],
      ])
    let machine = bench.machine()
    bench.transport.clear()
    try machine.add(folder)
    _ = try machine.push()
    let listed = bench.transport.requests.filter { $0.hasPrefix("GET /edges?") }
    #expect(!listed.isEmpty)
    #expect(listed.allSatisfy { $0.contains("attached-to") || $0.contains("parent-of") }, "\(listed)")
    #expect(try machine.lines("Child.md").contains("child-of: \"[[Parent]]\""))
    #expect(try !machine.need("Parent.md").contains("Child"))
    try machine.write("New.md", "---\nchild-of: \"[[Parent]]\"\n---\nWords.\n")
    _ = try machine.push()
    let new = try #require(try bench.ids("New").first)
    let edges = try bench.ask("GET", "/items/\(parent)/edges")["data"]?.array ?? []
    #expect(edges.contains { ($0["edge"] ?? $0).string("target_id") == new.description })
    #expect(try !machine.need("Parent.md").contains("New"))
    #expect(try bench.row(new)["item"]?["properties"]?["child-of"] == nil)
  }

  @Test("F-S11.5 a target written by id for an item outside the folder makes the edge, unflagged")
  func byID() throws {
    let desk = try held(["Alpha"])
    let outside = try desk.bench.item("Outside", type: "core.bookmark")
    let alpha = try desk.id("Alpha")
    try desk.machine.edit("Alpha.md", "title: Alpha\n", "title: Alpha\nabout: \"[[\(outside)]]\"\n")
    let (push, _) = try desk.push()
    #expect(push.scan.flagged.isEmpty)
    #expect(try targets(desk, alpha, "about") == [outside.description])
    #expect(desk.machine.files() == ["Alpha.md"])
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S11.6 a title two items share, or one with a #, is written by id and reads back as nothing to send")
  func sharedTitle() throws {
    let desk = try held(["Alpha", "Same", "C# notes"])
    let (alpha, same, sharp) = (try desk.id("Alpha"), try desk.id("Same"), try desk.id("C# notes"))
    try desk.bench.item("same", body: "Another.\n")
    try desk.edge(alpha, "about", same)
    try desk.edge(alpha, "about", sharp)
    _ = try desk.push()
    let lines = try desk.machine.lines("Alpha.md")
    #expect(lines.contains("  - \"[[\(same)]]\"") && lines.contains("  - \"[[\(sharp)]]\""), "\(lines)")
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.scan.flagged.isEmpty)
    try desk.machine.edit("Alpha.md", "Words.", "New.")
    let (next, edits) = try desk.push()
    #expect(edits.count == 1 && next.scan.flagged.isEmpty)
    #expect(try targets(desk, alpha, "about") == [same.description, sharp.description].sorted())
  }

  /// `Alpha` is about `Beta` and `Gamma`, its file shows both.
  func twoTargets() throws -> (Desk, EntityID, EntityID, EntityID) {
    let desk = try held(["Alpha", "Beta", "Gamma"])
    let (alpha, beta, gamma) = (try desk.id("Alpha"), try desk.id("Beta"), try desk.id("Gamma"))
    try desk.edge(alpha, "about", beta)
    try desk.edge(alpha, "about", gamma)
    _ = try desk.push()
    #expect(try desk.machine.lines("Alpha.md").contains("  - \"[[Gamma]]\""))
    return (desk, alpha, beta, gamma)
  }

  @Test("F-S11.7 one of two targets taken out deletes that edge alone and sends no edit")
  func oneTakenOut() throws {
    let (desk, alpha, beta, _) = try twoTargets()
    try desk.machine.edit("Alpha.md", "  - \"[[Gamma]]\"\n", "")
    let (push, sent) = try desk.push()
    #expect(sent.count == 1 && sent.first?.line.hasPrefix("DELETE /edges/") == true)
    #expect(push.scan.flagged.isEmpty)
    #expect(try targets(desk, alpha, "about") == [beta.description])
    #expect(try desk.version(alpha) == 1)
    #expect(try desk.push().sent.isEmpty)
  }

  @Test(
    "F-S11.8 beside a name that matches nothing a removal stands down, another type's line goes; without the name it lands"
  )
  func standsDown() throws {
    let (desk, alpha, beta, gamma) = try twoTargets()
    try desk.machine.edit("Alpha.md", "  - \"[[Gamma]]\"\n", "  - \"[[Nobody]]\"\n")
    try desk.machine.edit("Alpha.md", "title: Alpha\n", "title: Alpha\nauthored-by: \"[[Gamma]]\"\n")
    let typed = try desk.machine.need("Alpha.md")
    let (push, sent) = try desk.push()
    #expect(sent.lines == ["POST /edges"])
    #expect(push.scan.flagged.flags("Alpha.md") == ["edges"])
    #expect(push.scan.flagged.reason("Alpha.md", "edges")?.contains("[[Nobody]]") == true)
    #expect(try desk.machine.need("Alpha.md") == typed)
    #expect(try targets(desk, alpha, "about") == [beta.description, gamma.description].sorted())
    #expect(try targets(desk, alpha, "authored-by") == [gamma.description])
    try desk.machine.edit("Alpha.md", "  - \"[[Nobody]]\"\n", "")
    let (next, _) = try desk.push()
    #expect(next.scan.flagged.isEmpty)
    #expect(try targets(desk, alpha, "about") == [beta.description])
  }

  @Test("F-S11.11 a name a held and a remote item share is more than one; by id the edge is made")
  func sharedWithRemote() throws {
    let desk = try held(["Alpha", "Beta"])
    let (alpha, beta) = (try desk.id("Alpha"), try desk.id("Beta"))
    try desk.bench.item("BETA", type: "core.bookmark")
    try desk.machine.edit("Alpha.md", "title: Alpha\n", "title: Alpha\nabout: \"[[Beta]]\"\n")
    let typed = try desk.machine.need("Alpha.md")
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty)
    #expect(push.scan.flagged.reason("Alpha.md", "edges")?.contains("more than one") == true)
    #expect(try desk.machine.need("Alpha.md") == typed)
    try desk.machine.edit("Alpha.md", "[[Beta]]", "[[\(beta)]]")
    let (next, _) = try desk.push()
    #expect(next.scan.flagged.isEmpty)
    #expect(try targets(desk, alpha, "about") == [beta.description])
  }

  @Test("F-S11.12 a name nothing has is flagged as no match and left; corrected, the edge is made")
  func noMatch() throws {
    let desk = try held(["Alpha", "Beta"])
    let (alpha, beta) = (try desk.id("Alpha"), try desk.id("Beta"))
    try desk.machine.edit("Alpha.md", "title: Alpha\n", "title: Alpha\nabout: \"[[Bета]]\"\n")
    let typed = try desk.machine.need("Alpha.md")
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty)
    let reason = try #require(push.scan.flagged.reason("Alpha.md", "edges"))
    #expect(reason.contains("[[Bета]]") && reason.contains("no item"))
    #expect(try desk.machine.need("Alpha.md") == typed)
    try desk.machine.edit("Alpha.md", "[[Bета]]", "[[beta]]")
    let (next, _) = try desk.push()
    #expect(next.scan.flagged.isEmpty)
    #expect(try targets(desk, alpha, "about") == [beta.description])
    #expect(try desk.machine.lines("Alpha.md").contains("about: \"[[beta]]\""))
  }

  @Test("F-S11.13 a second item of a line's name moves no edge when the file is edited")
  func secondOfTheName() throws {
    let desk = try held(["Alpha", "Beta"])
    let (alpha, beta) = (try desk.id("Alpha"), try desk.id("Beta"))
    try desk.machine.edit("Alpha.md", "title: Alpha\n", "title: Alpha\nabout: \"[[Beta]]\"\n")
    _ = try desk.push()
    try desk.bench.item("Beta", body: "Another.\n")
    _ = try desk.push()
    try desk.machine.edit("Alpha.md", "Words.", "New.")
    let (push, sent) = try desk.push()
    #expect(sent.count == 1 && sent.edits(alpha).count == 1 && push.scan.flagged.isEmpty)
    #expect(try desk.machine.lines("Alpha.md").contains("about: \"[[Beta]]\""))
    #expect(try targets(desk, alpha, "about") == [beta.description])
  }

  @Test("F-S11.14 parent-of in the parent's file is flagged naming child-of; in the child's file the edge is made")
  func wrongEnd() throws {
    let desk = try held(["Parent", "Child"])
    let (parent, child) = (try desk.id("Parent"), try desk.id("Child"))
    let before = try desk.machine.need("Child.md")
    try desk.machine.edit("Parent.md", "title: Parent\n", "title: Parent\nparent-of: \"[[Child]]\"\n")
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty)
    #expect(push.scan.flagged.reason("Parent.md", "edges")?.contains("child-of") == true)
    #expect(try desk.machine.need("Child.md") == before)
    try desk.machine.edit("Parent.md", "parent-of: \"[[Child]]\"\n", "")
    try desk.machine.edit("Child.md", "title: Child\n", "title: Child\nchild-of: \"[[Parent]]\"\n")
    let (next, _) = try desk.push()
    #expect(next.scan.flagged.isEmpty)
    #expect(try targets(desk, parent, "parent-of") == [child.description])
  }

  /// `Child` beneath `One` in thread `T1`, its file showing both.
  func child() throws -> (Desk, child: EntityID) {
    let desk = try held(["Child", "One", "Two", "T1", "T2"])
    let child = try desk.id("Child")
    try desk.edge(try desk.id("One"), "parent-of", child, ["order": 3])
    try desk.edge(child, "in-thread", try desk.id("T1"), ["note": "kept"])
    _ = try desk.push()
    #expect(try desk.machine.lines("Child.md").contains("child-of: \"[[One]]\""))
    #expect(try desk.machine.lines("Child.md").contains("in-thread: \"[[T1]]\""))
    return (desk, child)
  }

  func parentEdges(_ desk: Desk, of child: EntityID) throws -> [JSON] {
    let rows = try desk.bench.ask("GET", "/items/\(child)/backrefs")["data"]?.array ?? []
    return rows.map { $0["edge"] ?? $0 }.filter { $0.string("edge_type") == "parent-of" }
  }

  @Test("F-S11.15 a changed child-of and in-thread are one move each of the other end; a line taken out deletes")
  func moves() throws {
    let (desk, child) = try child()
    let (two, second) = (try desk.id("Two"), try desk.id("T2"))
    let before = try #require(try parentEdges(desk, of: child).first)
    try desk.machine.edit("Child.md", "[[One]]", "[[Two]]")
    try desk.machine.edit("Child.md", "[[T1]]", "[[T2]]")
    let bench = desk.bench
    var counts: Set<Int> = []
    bench.transport.after = { _, response in
      let rows = (try? bench.ask("GET", "/items/\(child)/backrefs"))?["data"]?.array ?? []
      counts.insert(rows.filter { ($0["edge"] ?? $0).string("edge_type") == "parent-of" }.count)
      return .success(response)
    }
    let (push, sent) = try desk.push()
    bench.transport.after = nil
    let moved = sent.filter { $0.line.hasPrefix("PATCH /edges/") }
    #expect(moved.count == 2 && sent.count == 2 && push.scan.flagged.isEmpty, "\(sent.lines)")
    #expect(Set(moved.flatMap { $0.body.object?.keys.map(\.string) ?? [] }) == ["version", "source_id", "target_id"])
    #expect(counts == [1])
    let after = try #require(try parentEdges(desk, of: child).first)
    #expect(
      after["id"] == before["id"] && after.string("source_id") == two.description && after["properties"] == ["order": 3]
    )
    let thread = try #require(try desk.edges(child, type: "in-thread").first)
    #expect(thread.string("target_id") == second.description && thread["properties"] == ["note": "kept"])
    try desk.machine.edit("Child.md", "child-of: \"[[Two]]\"\n", "")
    let (_, removed) = try desk.push()
    #expect(removed.lines == ["DELETE /edges/\(after.string("id") ?? "")"])
    #expect(try parentEdges(desk, of: child).isEmpty)
  }

  @Test("F-S11.16 refused moves leave the edges and hold the file; the next change moves each from where it was")
  func refusedMoves() throws {
    let (desk, child) = try child()
    try desk.machine.edit("Child.md", "[[One]]", "[[Two]]")
    try desk.machine.edit("Child.md", "[[T1]]", "[[T2]]")
    let typed = try desk.machine.need("Child.md")
    desk.bench.transport.before = { request in
      guard request.method == "PATCH", request.url.contains("/edges/") else { return nil }
      return .success(refusal(400, "edge_cycle", "Round and round."))
    }
    let (push, _) = try desk.push()
    desk.bench.transport.before = nil
    #expect(push.pull?.flagged.flags("Child.md").contains("refused") == true)
    #expect(push.pull?.flagged.reason("Child.md", "refused") == "edge_cycle: Round and round.")
    #expect(try desk.machine.need("Child.md") == typed)
    #expect(try parentEdges(desk, of: child).map { $0.string("source_id") } == [desk.id("One").description])
    let copied = try desk.machine.folders.working(desk.machine.root, "look") {
      try $0.copy.edges(to: child, type: "parent-of").map(\.source)
    }
    #expect(try copied == [desk.id("One")])
    try desk.machine.edit("Child.md", "[[Two]]", "[[T1]]")
    try desk.machine.edit("Child.md", "[[T2]]", "[[One]]")
    let (next, sent) = try desk.push()
    #expect(sent.filter { $0.line.hasPrefix("PATCH /edges/") }.count == 2 && sent.count == 2, "\(sent.lines)")
    #expect(next.pull?.flagged.isEmpty == true, "\(next.json.compact)")
    #expect(try parentEdges(desk, of: child).map { $0.string("source_id") } == [desk.id("T1").description])
    #expect(try targets(desk, child, "in-thread") == [desk.id("One").description])
  }

  @Test("F-S11.20 a move to an item whose create is still to be taken goes after the create")
  func moveToNew() throws {
    let (desk, child) = try child()
    try desk.machine.write("Fresh.md", "Fresh.\n")
    try desk.machine.edit("Child.md", "[[One]]", "[[Fresh]]")
    var failures = 2
    desk.bench.transport.before = { request in
      guard request.method == "POST", request.url.hasSuffix("/items"), failures > 0 else { return nil }
      failures -= 1
      return .success(refusal(503, "unavailable", "Not now."))
    }
    var all: [Sent] = []
    for _ in 0..<4 {
      let (push, sent) = try desk.push()
      #expect(push.pull?.flagged.flags("Child.md") == [])
      all += sent
    }
    let fresh = try desk.id("Fresh")
    let create = try #require(all.lastIndex { $0.line == "POST /items" })
    let move = try #require(all.firstIndex { $0.line.hasPrefix("PATCH /edges/") })
    #expect(create < move)
    #expect(try parentEdges(desk, of: child).map { $0.string("source_id") } == [fresh.description])
  }

  @Test("F-S11.22 a parent added elsewhere and not shown yet is not replaced; once shown it is")
  func notShownYet() throws {
    let desk = try held(["Child", "One", "Two"])
    let child = try desk.id("Child")
    try desk.edge(try desk.id("One"), "parent-of", child)
    _ = try desk.machine.folders.working(desk.machine.root, "catch-up") { try $0.catchUp() }
    try desk.machine.edit("Child.md", "title: Child\n", "title: Child\nchild-of: \"[[Two]]\"\n")
    let typed = try desk.machine.need("Child.md")
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.scan.flagged.flags("Child.md") == ["edges"])
    #expect(try parentEdges(desk, of: child).map { $0.string("source_id") } == [desk.id("One").description])
    #expect(try desk.machine.need("Child.md") == typed)
    try desk.machine.edit("Child.md", "child-of: \"[[Two]]\"\n", "")
    _ = try desk.push()
    #expect(try desk.machine.lines("Child.md").contains("child-of: \"[[One]]\""))
    try desk.machine.edit("Child.md", "[[One]]", "[[Two]]")
    let (next, moved) = try desk.push()
    #expect(moved.count == 1 && next.scan.flagged.isEmpty)
    #expect(try parentEdges(desk, of: child).map { $0.string("source_id") } == [desk.id("Two").description])
  }

  @Test("F-S11.23 a line taken out whose edge was deleted elsewhere is done, unflagged")
  func alreadyDeleted() throws {
    let (desk, child) = try child()
    let edge = try #require(try parentEdges(desk, of: child).first)
    try desk.machine.edit("Child.md", "child-of: \"[[One]]\"\n", "")
    _ = try desk.machine.scan()
    try desk.bench.ask("DELETE", "/edges/\(edge.string("id") ?? "")")
    let (push, sent) = try desk.push()
    #expect(sent.lines == ["DELETE /edges/\(edge.string("id") ?? "")"])
    #expect(push.scan.flagged.isEmpty && push.pull?.flagged.isEmpty == true)
    #expect(try parentEdges(desk, of: child).isEmpty)
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S11.24 a refused edge beside an unresolved name reports edges and refused")
  func twoFlags() throws {
    let desk = try held(["Alpha", "Beta"])
    try desk.machine.edit(
      "Alpha.md", "title: Alpha\n", "title: Alpha\nabout: \"[[Beta]]\"\nauthored-by: \"[[Nobody]]\"\n")
    desk.bench.transport.before = { request in
      guard request.method == "POST", request.url.hasSuffix("/edges") else { return nil }
      return .success(refusal(400, "edge_constraint_violation", "No.", ["constraint": "nesting"]))
    }
    let (push, _) = try desk.push()
    desk.bench.transport.before = nil
    #expect(push.pull?.flagged.flags("Alpha.md").sorted() == ["edges", "refused"], "\(push.json.compact)")
  }

  @Test("F-S11.26 an alias resolves and stays, a name reading two ways is flagged, one parent twice is one edge")
  func namesReadTwoWays() throws {
    let desk = try held(["Alpha", "Beta", "C", "C# notes", "Child"])
    let (alpha, beta) = (try desk.id("Alpha"), try desk.id("Beta"))
    try desk.machine.edit(
      "Alpha.md", "title: Alpha\n",
      "title: Alpha\nabout: \"[[Beta|the second]]\"\nauthored-by: \"[[C# notes]]\"\n")
    try desk.machine.edit(
      "Child.md", "title: Child\n", "title: Child\nchild-of:\n  - \"[[Beta]]\"\n  - \"[[\(beta)]]\"\n")
    let (push, _) = try desk.push()
    #expect(try targets(desk, alpha, "about") == [beta.description])
    #expect(try desk.machine.lines("Alpha.md").contains("about: \"[[Beta|the second]]\""))
    #expect(try targets(desk, alpha, "authored-by").isEmpty)
    #expect(push.scan.flagged.map(\.path) == ["Alpha.md"])
    #expect(push.scan.flagged.reason("Alpha.md", "edges")?.contains("[[C# notes]]") == true)
    #expect(try parentEdges(desk, of: desk.id("Child")).map { $0.string("source_id") } == [beta.description])
  }

  @Test("F-S11.27 a name that is only a file's name is that file's item and stays as typed")
  func fileName() throws {
    let desk = try held(["Alpha"])
    let alpha = try desk.id("Alpha")
    try desk.machine.write("deep/some-file.md", "---\ntitle: Another title\n---\nWords.\n")
    _ = try desk.push()
    let other = try desk.id("Another title")
    try desk.machine.edit("Alpha.md", "title: Alpha\n", "title: Alpha\nabout: \"[[some-file]]\"\n")
    let (push, _) = try desk.push()
    #expect(push.scan.flagged.isEmpty)
    #expect(try targets(desk, alpha, "about") == [other.description])
    #expect(try desk.machine.lines("Alpha.md").contains("about: \"[[some-file]]\""))
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S11.29 an archived item only the server holds resolves, a trashed one is flagged")
  func statesOfRemote() throws {
    let desk = try held(["Alpha", "Beta"])
    let archived = try desk.bench.item("Archived", type: "core.bookmark")
    let trashed = try desk.bench.item("Trashed", type: "core.bookmark")
    try desk.transition(archived, "archived")
    try desk.trash(trashed)
    try desk.machine.edit("Alpha.md", "title: Alpha\n", "title: Alpha\nabout: \"[[Archived]]\"\n")
    try desk.machine.edit("Beta.md", "title: Beta\n", "title: Beta\nabout: \"[[Trashed]]\"\n")
    let (push, _) = try desk.push()
    #expect(push.scan.flagged.map(\.path) == ["Beta.md"])
    #expect(try targets(desk, desk.id("Alpha"), "about") == [archived.description])
    #expect(try targets(desk, desk.id("Beta"), "about").isEmpty)
  }

  @Test("F-S11.31 with no server asked a name waits, flagged; online it resolves")
  func waits() throws {
    let desk = try held(["Alpha"])
    let alpha = try desk.id("Alpha")
    let remote = try desk.bench.item("Remote", type: "core.bookmark")
    try desk.machine.edit("Alpha.md", "title: Alpha\n", "title: Alpha\nabout: \"[[Remote]]\"\n")
    let scan = try desk.machine.scan()
    #expect(scan.flagged.flags("Alpha.md") == ["edges"])
    #expect(scan.flagged.reason("Alpha.md", "edges")?.contains("[[Remote]]") == true)
    desk.machine.isOnline = false
    let offline = try desk.machine.push()
    #expect(offline.scan.flagged.flags("Alpha.md") == ["edges"])
    desk.machine.isOnline = true
    let (push, _) = try desk.push()
    #expect(push.scan.flagged.isEmpty)
    #expect(try targets(desk, alpha, "about") == [remote.description])
  }

  @Test("F-S11.32 in-folder and a line naming its own item are flagged and nothing is sent")
  func neverLines() throws {
    let desk = try held(["Alpha", "Beta"])
    try desk.machine.edit("Alpha.md", "title: Alpha\n", "title: Alpha\nin-folder: \"[[Notes]]\"\n")
    try desk.machine.edit("Beta.md", "title: Beta\n", "title: Beta\nabout: \"[[Beta]]\"\n")
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty)
    #expect(push.scan.flagged.flags("Alpha.md") == ["edges"] && push.scan.flagged.flags("Beta.md") == ["edges"])
    #expect(try desk.edges(desk.id("Beta"), type: "about").isEmpty)
    #expect(try desk.placed(desk.id("Alpha")) == "Alpha.md")
  }

  @Test("F-S11.33 two parents in child-of are flagged as one at most; with one the edge is made")
  func twoParents() throws {
    let desk = try held(["Child", "One", "Two"])
    let child = try desk.id("Child")
    try desk.machine.edit(
      "Child.md", "title: Child\n", "title: Child\nchild-of:\n  - \"[[One]]\"\n  - \"[[Two]]\"\n")
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.scan.flagged.reason("Child.md", "edges")?.contains("one at most") == true)
    try desk.machine.edit("Child.md", "  - \"[[Two]]\"\n", "")
    let (next, _) = try desk.push()
    #expect(next.scan.flagged.isEmpty)
    #expect(try parentEdges(desk, of: child).map { $0.string("source_id") } == [desk.id("One").description])
  }

  @Test("F-S11.18 a line that moves an edge deleted elsewhere makes it anew with the old properties, unflagged")
  func movedGone() throws {
    let (desk, child) = try child()
    let edge = try #require(try parentEdges(desk, of: child).first)
    try desk.machine.edit("Child.md", "[[One]]", "[[Two]]")
    _ = try desk.machine.scan()
    try desk.bench.ask("DELETE", "/edges/\(edge.string("id") ?? "")")
    let (push, _) = try desk.push()
    #expect(push.scan.flagged.isEmpty && push.pull?.flagged.isEmpty == true, "\(push.json.compact)")
    let made = try #require(try parentEdges(desk, of: child).first)
    #expect(made["id"] != edge["id"])
    #expect(try made.string("source_id") == desk.id("Two").description && made["properties"] == ["order": 3])
    #expect(try desk.machine.lines("Child.md").contains("child-of: \"[[Two]]\""))
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F11.29 a changed line stays while its move waits and the copy hears that its edge was deleted elsewhere")
  func movedGoneWhileWaiting() throws {
    let (desk, child) = try child()
    let edge = try #require(try parentEdges(desk, of: child).first)
    try desk.bench.ask("DELETE", "/edges/\(edge.string("id") ?? "")")
    try desk.machine.edit("Child.md", "[[One]]", "[[Two]]")
    desk.bench.transport.before = { request in
      request.method == "PATCH" ? .success(HTTPResponse(refusing: 429, "rate_limited")) : nil
    }
    let (held, _) = try desk.push()
    #expect(held.drain.drain.undelivered == 1 && held.pull?.flagged.isEmpty == true, "\(held.json.compact)")
    #expect(try desk.machine.lines("Child.md").contains("child-of: \"[[Two]]\""))
    desk.bench.transport.before = nil
    desk.machine.grace()
    let (push, _) = try desk.push()
    #expect(push.scan.flagged.isEmpty && push.pull?.flagged.isEmpty == true, "\(push.json.compact)")
    #expect(try parentEdges(desk, of: child).map { $0.string("source_id") } == [desk.id("Two").description])
    #expect(try desk.machine.lines("Child.md").contains("child-of: \"[[Two]]\""))
    #expect(try desk.push().sent.isEmpty)
  }

  @Test(
    "F11.20 a line as the file showed it follows an edge another device moved, though its file is saved before the pull"
  )
  func movedElsewhereAndSaved() throws {
    let (desk, child) = try child()
    let edge = try #require(try desk.edges(child, type: "in-thread").first)
    let second = try desk.id("T2")
    try desk.bench.ask(
      "PATCH", "/edges/\(edge.string("id") ?? "")",
      ["version": edge["version"] ?? 1, "target_id": .string(second.text)])
    _ = try desk.machine.folders.working(desk.machine.root, "catch-up") { try $0.catchUp() }
    let text = try desk.machine.need("Child.md")
    try desk.machine.write("Child.md", text + "More.\n")
    let (push, sent) = try desk.push()
    #expect(push.scan.flagged.isEmpty && push.pull?.flagged.isEmpty == true, "\(push.json.compact)")
    #expect(sent.allSatisfy { !$0.target.hasPrefix("/edges") }, "\(sent.map(\.line))")
    #expect(try desk.machine.lines("Child.md").contains("in-thread: \"[[T2]]\""))
    #expect(try desk.edges(child, type: "in-thread").map { $0.string("target_id") } == [second.description])
    #expect(try desk.push().sent.isEmpty)
  }

  @Test(
    "F11.19 a link and a line to an item trashed elsewhere meanwhile hold nothing back, and are edges once it is restored"
  )
  func trashedMeanwhile() throws {
    let desk = try held(["Line", "Body", "Gone"])
    let gone = try desk.id("Gone")
    try desk.machine.edit("Line.md", "title: Line\n", "title: Line\nabout: \"[[Gone]]\"\n")
    try desk.machine.write("Body.md", desk.machine.need("Body.md") + "See [[Gone]].\n")
    try desk.bench.ask("DELETE", "/items/\(gone)?version=1")
    _ = try desk.push()
    let (second, sent) = try desk.push()
    #expect(second.scan.flagged.flags("Line.md") == ["edges"] && second.scan.flagged.flags("Body.md") == ["edges"])
    #expect(sent.isEmpty && desk.machine.files().contains("Line.md"))
    #expect(try desk.machine.lines("Line.md").contains("about: \"[[Gone]]\""))
    // Another device's change reaches the one whose body names it.
    try desk.bench.edit(desk.id("Body"), ["rating": 4])
    _ = try desk.push()
    #expect(try desk.machine.lines("Body.md").contains("rating: 4"))
    try desk.bench.ask("POST", "/items/\(gone)/restore")
    for _ in 0..<2 { _ = try desk.push() }
    #expect(try desk.edges(desk.id("Line"), type: "about").count == 1)
    #expect(try desk.edges(desk.id("Body"), type: "references").count == 1)
    let (last, none) = try desk.push()
    #expect(none.isEmpty && last.scan.flagged.isEmpty && last.pull?.flagged.isEmpty == true, "\(last.json.compact)")
  }

  @Test(
    "F9.10 a line taken out or changed while its edge waits, that edge then refused, leaves nothing held",
    arguments: ["", "child-of: \"[[Other]]\"\n"])
  func takenOutWhileWaiting(after: String) throws {
    let desk = try held(["Line", "Gone", "Other"])
    let line = "child-of: \"[[Gone]]\"\n"
    try desk.machine.edit("Line.md", "title: Line\n", "title: Line\n" + line)
    _ = try desk.machine.scan()
    try desk.machine.edit("Line.md", line, after)
    _ = try desk.machine.scan()
    try desk.bench.ask("DELETE", "/items/\(desk.id("Gone"))?version=1")
    for _ in 0..<3 { _ = try desk.push() }
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.scan.flagged.isEmpty && push.pull?.flagged.isEmpty == true, "\(push.json.compact)")
    #expect(try desk.machine.standing("Line.md")?.state == .inStep)
    let parents = try parentEdges(desk, of: desk.id("Line")).map { $0.string("source_id") }
    #expect(try parents == (after.isEmpty ? [] : [desk.id("Other").description]))
  }

  @Test("F11.30 a typed line whose edge waits stays while its item goes to the bin elsewhere")
  func trashedWhileWaiting() throws {
    let desk = try held(["Line", "Gone"])
    let gone = try desk.id("Gone")
    try desk.machine.edit("Line.md", "title: Line\n", "title: Line\nabout: \"[[Gone]]\"\n")
    try desk.bench.ask("DELETE", "/items/\(gone)?version=1")
    desk.bench.transport.before = { request in
      request.method == "POST" && request.url.hasSuffix("/edges")
        ? .success(HTTPResponse(refusing: 429, "rate_limited")) : nil
    }
    _ = try desk.push()
    #expect(try desk.machine.lines("Line.md").contains("about: \"[[Gone]]\""))
    desk.bench.transport.before = nil
    for _ in 0..<2 {
      desk.machine.grace()
      _ = try desk.push()
    }
    #expect(try desk.machine.lines("Line.md").contains("about: \"[[Gone]]\""))
    try desk.bench.ask("POST", "/items/\(gone)/restore")
    for _ in 0..<2 { _ = try desk.push() }
    #expect(try desk.edges(desk.id("Line"), type: "about").count == 1)
  }

  @Test(
    "F-S11.19 learned by a drain that a refused credential then stops, the next push with a good one makes the edge")
  func movedGoneThenRefused() throws {
    let (desk, child) = try child()
    let edge = try #require(try parentEdges(desk, of: child).first)
    try desk.machine.edit("Child.md", "[[One]]", "[[Two]]")
    // A later write of the same drain, for the credential to be refused by.
    try desk.machine.edit("One.md", "title: One\n", "title: One\nrating: 4\n")
    _ = try desk.machine.scan()
    try desk.bench.ask("DELETE", "/edges/\(edge.string("id") ?? "")")
    var isGone = false
    desk.bench.transport.after = { request, response in
      if request.method == "PATCH", request.url.contains("/edges/") { isGone = response.status == 404 }
      return .success(response)
    }
    desk.bench.transport.before = { _ in
      isGone ? .success(HTTPResponse(refusing: 401, "unauthorized")) : nil
    }
    _ = try? desk.push()
    #expect(isGone)
    desk.bench.transport.before = nil
    desk.bench.transport.after = nil
    let (push, _) = try desk.push()
    #expect(push.scan.flagged.isEmpty && push.pull?.flagged.isEmpty == true, "\(push.json.compact)")
    let made = try #require(try parentEdges(desk, of: child).first)
    #expect(made["id"] != edge["id"])
    #expect(
      try made.string("source_id") == desk.id("Two").description && made["properties"] == ["order": 3],
      "\(made.compact)")
    #expect(try desk.machine.lines("Child.md").contains("child-of: \"[[Two]]\""))
    #expect(try desk.bench.row(desk.id("One"))["item"]?["properties"]?["rating"] == 4)
    #expect(try desk.push().sent.isEmpty)
  }
}
