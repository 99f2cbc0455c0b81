import FolderSync
import LocalInstance
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Edge lines whose other end lies outside the folder, and what a server answers of edges and names (F11).
struct EdgeServerTests {
  func held(_ titles: [Text], _ settings: JSON = ["title": "Notes", "search": ["types": ["core.note"]]]) throws -> Desk
  {
    let desk = try Desk(settings) { bench in for title in titles { try bench.item(title, body: "Words.\n") } }
    _ = try desk.push()
    return desk
  }

  func targets(_ desk: Desk, _ id: EntityID, _ type: String) throws -> [String] {
    try desk.edges(id, type: type).compactMap { $0.string("target_id") }.sorted()
  }

  func incoming(_ desk: Desk, _ id: EntityID, _ type: String) throws -> [JSON] {
    let rows = try desk.bench.ask("GET", "/items/\(id)/backrefs")["data"]?.array ?? []
    return rows.map { $0["edge"] ?? $0 }.filter { $0.string("edge_type") == type }
  }

  func addLine(_ desk: Desk, _ title: String, _ line: String) throws {
    try desk.machine.edit("\(title).md", "title: \(title)\n", "title: \(title)\n\(line)\n")
  }

  func isPinned(_ desk: Desk, _ id: EntityID) throws -> Bool {
    try desk.machine.folders.working(desk.machine.root, "look") { try $0.copy.isPinned(id) }
  }

  func isHeld(_ desk: Desk, _ id: EntityID) throws -> Bool {
    try desk.machine.folders.working(desk.machine.root, "look") { try $0.copy.item(id) } != nil
  }

  @Test("F-S11.3 a document attached to a host has attached-to in its file, an image has has-attachment in the host's")
  func attachments() throws {
    let desk = try Desk { bench in
      let host = try bench.item("Host")
      let document = try bench.item("Document")
      let image = try bench.file("pic.png", Array("bytes".utf8), type: "core.file.image", mime: "image/png")
      for source in [document, image] {
        try bench.ask(
          "POST", "/edges",
          [
            "source_id": .string(source.text), "target_id": .string(host.text), "edge_type": "attached-to",
            "properties": [:],
          ])
      }
    }
    _ = try desk.push()
    #expect(try desk.machine.lines("Document.md").contains("  - \"[[Host]]\""))
    #expect(try desk.machine.lines("Document.md").contains("attached-to:"))
    let host = try desk.machine.lines("Host.md")
    #expect(host.contains("has-attachment:") && host.contains("  - \"[[pic.png]]\""), "\(host)")
    #expect(!host.contains { $0.contains("Document") })
    #expect(desk.machine.files() == ["Document.md", "Host.md"])
    let (again, sent) = try desk.push()
    #expect(sent.isEmpty && again.pull?.rewritten == 0)
  }

  @Test(
    "F-S11.4 a typed has-attachment to an image the copy does not hold makes the edge; the line stays, no file comes")
  func typedAttachment() throws {
    let desk = try held(["Host"])
    let host = try desk.id("Host")
    let image = try desk.bench.file("pic.png", Array("bytes".utf8), type: "core.file.image", mime: "image/png")
    try addLine(desk, "Host", "has-attachment: \"[[pic.png]]\"")
    let (push, sent) = try desk.push()
    #expect(push.scan.flagged.isEmpty, "\(push.json.compact)")
    #expect(sent.filter { $0.line == "POST /edges" }.count == 1)
    #expect(try incoming(desk, host, "attached-to").map { $0.string("source_id") } == [image.description])
    for _ in 0..<2 {
      #expect(try desk.machine.lines("Host.md").contains("has-attachment: \"[[pic.png]]\""))
      #expect(desk.machine.files() == ["Host.md"])
      #expect(try desk.push().sent.isEmpty)
    }
  }

  @Test(
    "F-S11.9 a refused lookup flags its file alone and goes once; a name ending in a backslash and another make their edges"
  )
  func refusedLookup() throws {
    let desk = try held(["One", "Two", "Three"])
    let back = try desk.bench.item("Back\\", type: "core.bookmark")
    let plain = try desk.bench.item("Ordinary", type: "core.bookmark")
    try addLine(desk, "One", "about: \"[[Refused]]\"")
    try addLine(desk, "Two", "about: '[[Back\\]]'")
    try addLine(desk, "Three", "about: \"[[Ordinary]]\"")
    var asked = 0
    desk.bench.transport.before = { request in
      guard request.method == "GET", request.url.contains("filter="), request.url.contains("Refused") else {
        return nil
      }
      asked += 1
      return .success(refusal(400, "validation_error", "No such filter."))
    }
    let typed = try desk.machine.need("One.md")
    for _ in 0..<2 {
      let (push, _) = try desk.push()
      #expect(push.scan.flagged.map(\.path) == ["One.md"], "\(push.json.compact)")
      #expect(push.scan.flagged.reason("One.md", "edges")?.contains("validation_error") == true)
    }
    #expect(asked == 1)
    #expect(try targets(desk, desk.id("Two"), "about") == [back.description])
    #expect(try targets(desk, desk.id("Three"), "about") == [plain.description])
    #expect(try desk.machine.need("One.md") == typed)
  }

  @Test("F9.10, F11.30 a refused edge holds its file no more once its link names another item, or is taken out")
  func refusedEdgeLetGo() throws {
    for takenOut in [false, true] {
      let desk = try held(["Alpha", "Gone", "There"])
      let alpha = try desk.id("Alpha")
      try desk.machine.edit("Alpha.md", "Words.", "See [[Gone]].")
      var refusals = 0
      desk.bench.transport.before = { request in
        guard request.method == "POST", request.url.hasSuffix("/edges") else { return nil }
        refusals += 1
        return .success(refusal(400, "target_trashed", "The target is in the bin."))
      }
      let (push, _) = try desk.push()
      #expect(push.pull?.flagged.reason("Alpha.md", "refused")?.hasPrefix("target_trashed") == true)
      // The same words beside another change: the file is held by one refusal, not by two.
      try desk.machine.edit("Alpha.md", "See", "Do see")
      let (again, _) = try desk.push()
      #expect(again.pull?.flagged.filter { $0.flag == "refused" }.count == 1, "\(again.json.compact)")
      desk.bench.transport.before = nil
      #expect(refusals >= 1)
      try desk.machine.edit("Alpha.md", "[[Gone]]", takenOut ? "nothing" : "[[There]]")
      let (mended, _) = try desk.push()
      #expect(mended.pull?.flagged.isEmpty == true, "\(mended.json.compact)")
      #expect(try targets(desk, alpha, "references") == (takenOut ? [] : [desk.id("There").description]))
      let (quiet, sent) = try desk.push()
      #expect(sent.isEmpty && quiet.pull?.flagged.isEmpty == true)
    }
  }

  @Test("F9.10 a refused edge that lands when its file is saved again lets go of it")
  func refusedEdgeLands() throws {
    let desk = try held(["Alpha", "Other"])
    try desk.machine.edit("Alpha.md", "Words.", "See [[Other]].")
    desk.bench.transport.before = { request in
      guard request.method == "POST", request.url.hasSuffix("/edges") else { return nil }
      return .success(refusal(400, "target_trashed", "The target is in the bin."))
    }
    _ = try desk.push()
    desk.bench.transport.before = nil
    try desk.machine.edit("Alpha.md", "See", "Do see")
    let (push, _) = try desk.push()
    #expect(push.pull?.flagged.isEmpty == true, "\(push.json.compact)")
    #expect(try targets(desk, desk.id("Alpha"), "references") == [desk.id("Other").description])
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S11.10 a target with no file here is shown by its title and reads back unchanged")
  func shownByTitle() throws {
    let desk = try held(["Alpha"])
    let alpha = try desk.id("Alpha")
    let outside = try desk.bench.item("Outside", type: "core.bookmark")
    try desk.edge(alpha, "about", outside)
    _ = try desk.push()
    #expect(try desk.machine.lines("Alpha.md").contains("  - \"[[Outside]]\""))
    #expect(try isPinned(desk, outside))
    try desk.machine.edit("Alpha.md", "Words.", "Read again.")
    let (push, sent) = try desk.push()
    #expect(sent.count == 1 && sent.edits(alpha).count == 1 && push.scan.flagged.isEmpty)
    #expect(try targets(desk, alpha, "about") == [outside.description])
    #expect(desk.machine.files() == ["Alpha.md"])
    // A machine that never held it shows the same.
    let ben = try desk.another()
    _ = try desk.push(ben)
    #expect(try ben.lines("Alpha.md").contains("  - \"[[Outside]]\""))
    #expect(try desk.push(ben).sent.isEmpty)
  }

  /// A scan that asks the server for names, as a push's does.
  func asked(_ desk: Desk) throws {
    _ = try desk.machine.folders.working(desk.machine.root, "scan") { try $0.scan(asksServer: true) }
  }

  /// `Child` beneath `One`, shown.
  func child() throws -> (Desk, child: EntityID) {
    let desk = try held(["Child", "One", "Two", "Three"])
    let child = try desk.id("Child")
    try desk.edge(try desk.id("One"), "parent-of", child, ["order": 3])
    _ = try desk.push()
    #expect(try desk.machine.lines("Child.md").contains("child-of: \"[[One]]\""))
    return (desk, child)
  }

  @Test(
    "F-S11.17 a move refused under a plain drain holds the file the same way; the next change moves from the old edge")
  func plainDrain() throws {
    let (desk, child) = try child()
    try desk.machine.edit("Child.md", "[[One]]", "[[Two]]")
    let typed = try desk.machine.need("Child.md")
    try asked(desk)
    desk.bench.transport.before = { request in
      guard request.method == "PATCH", request.url.contains("/edges/") else { return nil }
      return .success(refusal(400, "edge_cycle", "Round and round."))
    }
    let drained = try desk.machine.folders.working(desk.machine.root, "drain") { try $0.copy.queue.drain() }
    #expect(drained.verdicts.map(\.verdict) == [.refused])
    desk.bench.transport.before = nil
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty)
    #expect(push.pull?.flagged.reason("Child.md", "refused") == "edge_cycle: Round and round.", "\(push.json.compact)")
    #expect(try desk.machine.need("Child.md") == typed)
    #expect(try incoming(desk, child, "parent-of").map { $0.string("source_id") } == [desk.id("One").description])
    try desk.machine.edit("Child.md", "[[Two]]", "[[Three]]")
    let (next, moved) = try desk.push()
    #expect(moved.count == 1 && moved[0].line.hasPrefix("PATCH /edges/"))
    #expect(next.pull?.flagged.isEmpty == true)
    let edge = try #require(try incoming(desk, child, "parent-of").first)
    #expect(try edge.string("source_id") == desk.id("Three").description && edge["properties"] == ["order": 3])
  }

  @Test("F-S11.21 a move answered unreadably until it is dead leaves the server's edge whole where it was")
  func answeredUnreadably() throws {
    let (desk, child) = try child()
    let before = try #require(try incoming(desk, child, "parent-of").first)
    try desk.machine.edit("Child.md", "[[One]]", "[[Two]]")
    let typed = try desk.machine.need("Child.md")
    desk.bench.transport.before = { request in
      guard request.method == "PATCH", request.url.contains("/edges/") else { return nil }
      return .success(
        HTTPResponse(
          status: 200,
          headers: [HTTPHeader("Content-Type", "application/json"), HTTPHeader("X-Marfa-Contract", "0")],
          body: Array("{\"edge\": nonsense".utf8)))
    }
    var isDead = false
    for _ in 0..<60 where !isDead {
      _ = try desk.push()
      desk.bench.clock.advance(seconds: 400)
      isDead = try desk.machine.folders.working(desk.machine.root, "look") { folder in
        try folder.copy.queue.all().contains { $0.kind == .updateEdge && $0.verdict == .dead }
      }
    }
    #expect(isDead)
    let after = try #require(try incoming(desk, child, "parent-of").first)
    #expect(after == before)
    #expect(try desk.machine.need("Child.md") == typed)
  }

  @Test(
    "F-S11.25 lines taken out let only the folder's own pins go; an item left by state stays pinned while one names it")
  func pins() throws {
    let desk = try held(
      ["Alpha", "Gamma"], ["title": "Notes", "search": ["types": ["core.note"], "state": ["active"]]])
    let (alpha, gamma) = (try desk.id("Alpha"), try desk.id("Gamma"))
    let mine = try desk.bench.item("Mine", type: "core.bookmark")
    let theirs = try desk.bench.item("Theirs", type: "core.bookmark")
    try addLine(desk, "Alpha", "about:\n  - \"[[Mine]]\"\n  - \"[[Theirs]]\"\n  - \"[[Gamma]]\"")
    _ = try desk.push()
    #expect(try targets(desk, alpha, "about").count == 3)
    _ = try desk.push()
    for item in [mine, theirs, gamma] { #expect(try isPinned(desk, item)) }
    _ = try desk.machine.folders.working(desk.machine.root, "pin") { try $0.copy.pin(theirs, owner: "hand") }
    try desk.machine.edit("Alpha.md", "  - \"[[Mine]]\"\n  - \"[[Theirs]]\"\n", "")
    _ = try desk.push()
    _ = try desk.push()
    #expect(try targets(desk, alpha, "about") == [gamma.description])
    #expect(try !isPinned(desk, mine) && !isHeld(desk, mine))
    #expect(try isPinned(desk, theirs) && isHeld(desk, theirs))
    try desk.transition(gamma, "archived")
    let (push, _) = try desk.push()
    #expect(push.pull?.removed == 1)
    _ = try desk.push()
    #expect(desk.machine.files() == ["Alpha.md"])
    #expect(try isPinned(desk, gamma) && isHeld(desk, gamma))
    #expect(try desk.machine.lines("Alpha.md").contains("  - \"[[Gamma]]\""))
    try desk.machine.edit("Alpha.md", "  - \"[[Gamma]]\"\n", "")
    _ = try desk.push()
    _ = try desk.push()
    #expect(try !isPinned(desk, gamma))
  }

  @Test("two files naming one target never unpin it for each other (F11.24)")
  func sharedPin() throws {
    let desk = try held(["Alpha", "Beta"])
    let outside = try desk.bench.item("Outside", type: "core.bookmark")
    try addLine(desk, "Alpha", "about: \"[[Outside]]\"")
    try addLine(desk, "Beta", "about: \"[[Outside]]\"")
    _ = try desk.push()
    try desk.machine.edit("Alpha.md", "about: \"[[Outside]]\"\n", "")
    _ = try desk.push()
    _ = try desk.push()
    #expect(try isPinned(desk, outside) && isHeld(desk, outside))
    try desk.machine.edit("Beta.md", "about: \"[[Outside]]\"\n", "")
    _ = try desk.push()
    _ = try desk.push()
    #expect(try !isPinned(desk, outside) && !isHeld(desk, outside))
  }

  @Test(
    "F-S11.28 a name with more than five pages of matches is read to the fifth for each title property, and flagged")
  func fivePages() throws {
    let desk = try held(["Alpha"])
    let instance = desk.bench.instance
    var pages: [String: Int] = [:]
    desk.bench.transport.handle = { request in
      guard request.method == "GET", request.target.hasPrefix("/items?"), request.target.contains("Crowded") else {
        return instance.handle(request)
      }
      let parts = request.target.split(separator: "&").map(String.init)
      let filter = parts.first { $0.contains("filter=") } ?? ""
      pages[filter, default: 0] += 1
      var asked = request
      asked.target = parts.filter { !$0.hasPrefix("cursor=") }.joined(separator: "&")
      guard case .whole(var response) = instance.handle(asked),
        var body = (try? JSON(parsing: response.body))?.object
      else { return instance.handle(request) }
      body["next_cursor"] = .string(Text("page-\(pages[filter] ?? 0)"))
      response.body = JSON.object(body).write()
      return .whole(response)
    }
    try addLine(desk, "Alpha", "about: \"[[Crowded]]\"")
    let typed = try desk.machine.need("Alpha.md")
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty)
    #expect(pages.count >= 2 && pages.values.allSatisfy { $0 == 5 }, "\(pages)")
    #expect(pages.keys.contains { $0.contains("title") } && pages.keys.contains { $0.contains("text") })
    #expect(push.scan.flagged.flags("Alpha.md") == ["edges"])
    #expect(
      push.scan.flagged.reason("Alpha.md", "edges")?.contains("more than 5 pages") == true, "\(push.json.compact)")
    #expect(try desk.machine.need("Alpha.md") == typed)
    let before = pages
    _ = try desk.push()
    #expect(pages == before)
  }

  @Test("F-S11.30 a property title on a type whose title lives elsewhere does not count")
  func titleElsewhere() throws {
    let desk = try held(["Alpha"])
    let alpha = try desk.id("Alpha")
    try desk.bench.ask(
      "POST", "/items",
      [
        "type": "core.highlight", "tier": "library",
        "properties": ["text": "A fine line", "title": "Sought", "note": "Words."],
      ])
    try addLine(desk, "Alpha", "about: \"[[Sought]]\"")
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty)
    #expect(push.scan.flagged.reason("Alpha.md", "edges")?.contains("no item") == true)
    #expect(try targets(desk, alpha, "about").isEmpty)
    let link = try desk.bench.item("Sought", type: "core.bookmark")
    let (next, _) = try desk.push()
    #expect(next.scan.flagged.isEmpty, "\(next.json.compact)")
    #expect(try targets(desk, alpha, "about") == [link.description])
  }

  @Test("F-S11.34 the server's edge types, name lookups and refusals of edges answer as the folder reads them")
  func server() throws {
    let bench = try FolderBench()
    let (one, two, three) = (try bench.item("One"), try bench.item("Two"), try bench.item("Mixed Case"))
    func answer(_ method: String, _ target: String, _ body: JSON? = nil, key: String = FolderBench.key) throws -> (
      status: Int, json: JSON
    ) {
      let answer = bench.instance.handle(
        InstanceRequest(
          method: method, target: target,
          headers: [HTTPHeader("Authorization", "Bearer \(key)"), HTTPHeader("Content-Type", "application/json")],
          body: body?.write() ?? []))
      guard case .whole(let response) = answer else { throw BenchError("a stream") }
      return (response.status, try JSON(parsing: response.body))
    }
    func code(_ answer: (status: Int, json: JSON)) -> String {
      "\(answer.status) \(answer.json["error"]?.string("code") ?? "")"
    }
    let types = try answer("GET", "/edge-types").json
    let parent = try #require(types["data"]?.array?.first { $0.string("id") == "parent-of" })
    #expect(
      parent.string("cardinality") == "one-to-many" && parent.string("reverse_name") == "child-of"
        && parent.string("written_at") == "target" && parent["shipped"] == true)
    #expect(types.object?["next_cursor"] == .null)

    try bench.ask("POST", "/items/\(three)/transition", ["state": "archived"])
    let lookup = try answer(
      "GET",
      "/items?filter=properties.title%20contains%20%22mIXED%20case%22&tier=all&state=any&include=metadata&limit=200")
    #expect(lookup.status == 200)
    #expect(lookup.json["data"]?.array?.compactMap { $0["item"]?.string("id") } == [three.description])
    #expect(lookup.json["data"]?.array?.first?["metadata"]?["tags"] != nil)
    #expect(
      code(try answer("GET", "/items?filter=properties.title%20contains%20%22back%5C%22&tier=all"))
        == "400 validation_error")

    func edge(_ source: EntityID, _ target: EntityID) -> JSON {
      [
        "source_id": .string(source.text), "target_id": .string(target.text), "edge_type": "parent-of",
        "properties": [:],
      ]
    }
    let made = try answer("POST", "/edges", edge(one, three))
    #expect(made.status == 201 && made.json["edge"]?["version"] == 1)
    let id = made.json["edge"]?.string("id") ?? ""
    let second = try answer("POST", "/edges", edge(two, three))
    #expect(code(second) == "400 edge_constraint_violation")
    #expect(second.json["error"]?["details"]?.string("constraint") == "cardinality")
    let again = try answer("POST", "/edges", edge(one, three))
    #expect(again.json["error"]?["details"]?.string("constraint") == "duplicate")
    let moved = try answer("PATCH", "/edges/\(id)", ["version": 1, "source_id": .string(two.text)])
    #expect(moved.status == 200 && moved.json["edge"]?.string("source_id") == two.description)
    let stale = try answer("PATCH", "/edges/\(id)", ["version": 1, "source_id": .string(one.text)])
    #expect(code(stale) == "409 version_conflict")
    #expect(stale.json.compact.contains(two.description), "\(stale.json.compact)")
    let wrongEnd = try answer(
      "PATCH", "/edges/\(id)", ["version": 2, "source_id": .string(one.text), "target_id": .string(two.text)])
    #expect(wrongEnd.status == 400, "\(wrongEnd)")
    #expect(try answer("PATCH", "/edges/\(id)", ["version": 2]).status == 400)
    let missing = try answer(
      "PATCH", "/edges/\(id)", ["version": 2, "source_id": "01900000-0000-7000-8000-00000000dead"])
    #expect(code(missing) == "404 item_not_found")
    let key = try bench.ask(
      "POST", "/keys", ["label": "K", "type_permissions": ["*": "write"], "edge_permissions": ["*": "read"]])
    let denied = try answer(
      "PATCH", "/edges/\(id)", ["version": 2, "source_id": .string(one.text)], key: key.string("key") ?? "")
    #expect(code(denied) == "403 edge_permission_denied")
    #expect(denied.json["error"]?["details"]?.string("edge_type") == "parent-of")
  }
}
