import LocalInstance
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// The links of a body through the copy (device chapter 19).
@Suite("Body links") struct BodyLinkScenarios {
  let bench: CopyBench
  var copy: WorkingCopy { bench.copy }

  init() throws {
    bench = try CopyBench()
    try fill()
  }

  func fill() throws {
    try bench.fill(
      ["core.note", "core.event", "core.file"], edges: ["parent-of", "references", "attached-to", "about", "in-folder"])
  }

  // MARK: What a person does

  @discardableResult
  func write(_ title: Text, _ body: Text) throws -> (item: EntityID, write: QueuedWrite) {
    let write = try copy.queue.createItem(
      ItemDraft(type: "core.note", properties: JSONObject([("title", .string(title)), ("body", .string(body))])))
    return (try #require(write.itemID), write)
  }

  @discardableResult
  func save(_ item: EntityID, _ body: Text, field: Text = "body") throws -> QueuedWrite {
    let row = try #require(try copy.item(item))
    return try copy.queue.updateItem(
      item, ItemEdit(properties: JSONObject([(field, .string(body))]), version: row.version))
  }

  /// A note of the instance that the copy holds.
  func held(_ title: Text, _ body: Text = "Words.") throws -> EntityID {
    let id = try bench.note(title, body: body)
    try copy.catchUp()
    return id
  }

  /// Another device's edit.
  func theirs(_ item: EntityID, _ properties: JSON) throws {
    let version = try #require(try bench.ask("GET", "/items/\(item)")["item"]?["version"]?.int)
    try bench.ask("PATCH", "/items/\(item)?conflict=auto", ["version": .int(version), "properties": properties])
  }

  // MARK: What there is

  func edges(_ item: EntityID, _ type: Text = "references") throws -> [(source: EntityID, target: EntityID)] {
    let all =
      try bench.ask("GET", "/items/\(item)/\(type == "attached-to" ? "backrefs" : "edges")")["data"]?.array ?? []
    return all.map { $0["edge"] ?? $0 }.compactMap { edge in
      guard edge["edge_type"]?.text == type, let source = edge["source_id"]?.text.flatMap({ EntityID($0) }),
        let target = edge["target_id"]?.text.flatMap({ EntityID($0) })
      else { return nil }
      return (source, target)
    }
  }
  func targets(_ item: EntityID) throws -> Set<EntityID> { Set(try edges(item).map(\.target)) }
  func attached(_ item: EntityID) throws -> Set<EntityID> { Set(try edges(item, "attached-to").map(\.source)) }
  func read(_ item: EntityID) throws -> [BodyTarget] { try copy.bodies.links(in: item).links.map(\.target) }
  func edgeWrites() throws -> [QueuedWrite] {
    try copy.queue.all().filter { $0.kind.isEdgeWrite && $0.verdict?.isSuccess != true }
  }
  func body(_ item: EntityID) throws -> Text? {
    try bench.ask("GET", "/items/\(item)")["item"]?["properties"]?["body"]?.text
  }

  // MARK: Links

  @Test(
    "D-S166 links to a held, an earlier queued and a remote item wait; drained, three edges are accepted, all named")
  func three() throws {
    let held = try held("Held")
    let remote = try bench.note("Remote", tier: "feed")
    let earlier = try write("Earlier", "Words.").item
    let host = try write("Host", "[[Held]], [[Earlier]] and [[Remote]].").item
    #expect(try read(host) == [.pending, .pending, .pending])
    #expect(try edgeWrites().isEmpty)
    let report = try copy.queue.drain()
    #expect(report.verdicts.filter { $0.kind == .createEdge }.map(\.verdict) == [.accepted, .accepted, .accepted])
    #expect(try targets(host) == [held, earlier, remote])
    #expect(try read(host) == [.item(held), .item(earlier), .item(remote)])
    #expect(try copy.queue.drain().answered == 0)
  }

  @Test("D-S167 a link to itself and links in comments make no edge; an event's description does")
  func whereLinksStand() throws {
    let held = try held("Held")
    let host = try write("Self", "[[Self]] <!-- [[Held]] --> %% [[Held]] %%\n").item
    let other = try write("Other", "Words.").item
    try save(other, Text("[[\(other)]]"))
    let event = try #require(
      try copy.queue.createItem(
        ItemDraft(type: "core.event", properties: ["title": "Event", "description": "See [[Held]]."])
      ).itemID)
    try copy.queue.drain()
    #expect(try edges(host).isEmpty && edges(other).isEmpty)
    #expect(try read(host) == [.item(host)] && read(other) == [.item(other)])
    #expect(try targets(event) == [held])
  }

  @Test("D-S168 a remote target is pinned and held once linked, and let go once unlinked")
  func pinned() throws {
    let remote = try bench.note("Remote", tier: "feed")
    try copy.catchUp()
    #expect(try copy.item(remote) == nil)
    let host = try write("Host", "[[Remote]]").item
    try copy.queue.drain()
    #expect(try copy.item(remote) != nil && copy.isPinned(remote))
    try save(host, "Nothing.")
    try copy.queue.drain()
    #expect(try !copy.isPinned(remote) && copy.item(remote) == nil)
    #expect(try edges(host).isEmpty)
    // One somebody else pinned meanwhile stays.
    try save(host, "[[Remote]]")
    try copy.queue.drain()
    try copy.pin(remote, owner: "person")
    try save(host, "Nothing.")
    try copy.queue.drain()
    #expect(try copy.isPinned(remote) && copy.item(remote) != nil)
  }

  @Test("D-S169 an edit that leaves the body makes no edge write")
  func unchanged() throws {
    let host = try held("Host", "[[Nobody]]")
    try copy.queue.updateItem(host, ItemEdit(properties: ["title": "Renamed"], version: 1))
    #expect(try copy.queue.all().map(\.kind) == [.updateItem])
    try save(host, "[[Nobody]]")
    try copy.queue.drain()
    #expect(try edgeWrites().isEmpty && edges(host).isEmpty)
  }

  @Test("D-S170 of two links one goes: its edge is deleted, and no other of the item's edges")
  func oneGoes() throws {
    let (one, two, three) = (try held("One"), try held("Two"), try held("Three"))
    let host = try write("Host", "[[One]] and [[Two]].").item
    try copy.queue.drain()
    try bench.edge("about", host, one)
    try bench.edge("references", host, three)
    try copy.catchUp()
    let edit = try save(host, "Only [[Two]].")
    let writes = try edgeWrites()
    #expect(writes.map(\.kind) == [.deleteEdge] && writes[0].dependsOn.contains(edit.id))
    try copy.queue.drain()
    #expect(try targets(host) == [two, three])
    #expect(try edges(host, "about").map(\.target) == [one])
  }

  @Test("D-S171 alias and heading are links; heading-only, inline and fenced code are none")
  func forms() throws {
    let (one, two) = (try held("One"), try held("Two"))
    _ = try held("Three")
    let host = try write(
      "Host", "[[One|shown]] [[Two#Part]] [[#Part]] `[[Three]]`\n\n```\n[[Three]]\n```\n"
    ).item
    try copy.queue.drain()
    #expect(try targets(host) == [one, two])
    let links = try copy.bodies.links(in: host).links
    #expect(links.map(\.text) == ["[[One|shown]]", "[[Two#Part]]"] && links.map(\.name) == ["One", "Two"])
    #expect(links.map(\.target) == [.item(one), .item(two)])
  }

  @Test(
    "D-S172 a missing name stays as typed; its item arriving by catch-up or by fill makes the edge",
    arguments: [true, false])
  func missing(_ byCatchUp: Bool) throws {
    let host = try write("Host", "See [[Nobody]].").item
    try copy.queue.drain()
    #expect(try read(host) == [.missing] && body(host) == "See [[Nobody]].")
    bench.transport.clear()
    try copy.queue.drain()
    #expect(!bench.transport.requests.contains { $0.contains("contains") })
    let nobody = try bench.note("nobody")
    if byCatchUp { try copy.catchUp() } else { try fill() }
    try copy.queue.drain()
    #expect(try targets(host) == [nobody] && read(host) == [.item(nobody)])
    #expect(try body(host) == "See [[Nobody]].")
  }

  @Test("D-S173 a name two items have is ambiguous, and makes no edge")
  func twins() throws {
    _ = try held("Twin")
    try bench.note("Twin", tier: "feed")
    let host = try write("Host", "[[Twin]]").item
    try copy.queue.drain()
    #expect(try read(host) == [.ambiguous] && edges(host).isEmpty && edgeWrites().isEmpty)
  }

  @Test("D-S174 a link to a held id whose item is binned: the edge is refused and kept, the body saved")
  func binned() throws {
    let held = try held("Held")
    try bench.ask("DELETE", "/items/\(held)?version=1")
    let text = Text("See [[\(held)]].")
    let host = try write("Host", text).item
    try copy.queue.drain()
    let refused = try #require(try copy.queue.all().first { $0.kind == .createEdge })
    #expect(refused.verdict == .refused)
    guard case .refused(let reason)? = try read(host).first else {
      Issue.record("\(try read(host))")
      return
    }
    #expect(!reason.isEmpty)
    #expect(try body(host) == text && edges(host).isEmpty)
    try copy.queue.drain()
    try copy.queue.forget()
    #expect(try copy.queue.write(refused.id)?.verdict == .refused)
  }

  @Test("D-S175 the edge of a link by id waits on the edit that made it, and a refused body takes it along")
  func waits() throws {
    let held = try held("Held")
    let host = try self.held("Host")
    let edit = try save(host, Text("See [[\(held)|it]]."))
    let edge = try #require(try edgeWrites().first)
    #expect(try edgeWrites().count == 1 && edge.kind == .createEdge && edge.dependsOn.contains(edit.id))
    #expect(try read(host) == [.item(held)])
    bench.transport.before = { request in
      guard request.method == "PATCH" else { return nil }
      let body: JSON = ["error": ["code": "validation_error", "message": "refused by the test"]]
      return .success(
        HTTPResponse(
          status: 422,
          headers: [HTTPHeader("Content-Type", "application/json"), HTTPHeader("X-Marfa-Contract", "0")],
          body: body.write()))
    }
    try copy.queue.drain()
    bench.transport.before = nil
    #expect(try copy.queue.write(edit.id)?.verdict == .refused)
    #expect(try copy.queue.write(edge.id)?.verdict == .refused && copy.queue.write(edge.id)?.refusal != nil)
    #expect(try edges(host).isEmpty)
  }

  @Test("D-S176 a retype that moves the body makes no edge write; taking the link out after deletes its edge")
  func retyped() throws {
    let held = try held("Held")
    let host = try write("Host", "See [[Held]].").item
    try copy.queue.drain()
    #expect(try targets(host) == [held])
    let version = try #require(try copy.item(host)).version
    try copy.queue.updateItem(
      host,
      ItemEdit(
        properties: ["title": "Host", "description": "See [[Held]]."], mode: .replace, version: version,
        type: "core.event"))
    #expect(try edgeWrites().isEmpty)
    // Another read view: the copy ends with the drain, and is filled again.
    _ = try? copy.queue.drain()
    try fill()
    #expect(try targets(host) == [held] && read(host) == [.item(held)])
    try save(host, "Nothing.", field: "description")
    #expect(try edgeWrites().map(\.kind) == [.deleteEdge])
    try copy.queue.drain()
    #expect(try edges(host).isEmpty)
  }

  @Test("D-S177 an edit on an older version is read from its answer, and its edge goes at the next drain")
  func older() throws {
    let held = try held("Held")
    let host = try self.held("Host")
    try theirs(host, ["title": "Renamed"])
    try copy.catchUp()
    try copy.queue.updateItem(
      host, ItemEdit(properties: ["body": "See [[Held]]."], version: 1, readAtVersion: true))
    let first = try copy.queue.drain()
    #expect(first.verdicts.map(\.kind) == [.updateItem] && first.verdicts[0].verdict?.isSuccess == true)
    #expect(try edges(host).isEmpty)
    let second = try copy.queue.drain()
    #expect(second.verdicts.map(\.kind) == [.createEdge])
    #expect(try targets(host) == [held])
  }

  @Test("D-S178 a renamed target is still named, and its edge goes with the link")
  func renamed() throws {
    let held = try held("Held")
    let host = try write("Host", "See [[Held]].").item
    try copy.queue.drain()
    try theirs(held, ["title": "Another name"])
    try copy.catchUp()
    #expect(try read(host) == [.item(held)])
    try save(host, "Nothing.")
    try copy.queue.drain()
    #expect(try edges(host).isEmpty)
  }

  @Test("D-S179 a name another writer took out is not tried when its item appears")
  func takenOut() throws {
    let host = try write("Host", "See [[Later]].").item
    try copy.queue.drain()
    #expect(try read(host) == [.missing])
    try theirs(host, ["body": "Nothing."])
    try copy.catchUp()
    try bench.note("Later")
    try copy.catchUp()
    try copy.queue.drain()
    #expect(try edges(host).isEmpty && edgeWrites().isEmpty)
    #expect(try copy.bodies.links(in: host).links.isEmpty)
  }

  // MARK: Embeds

  func file(_ name: PathBytes, _ bytes: [UInt8] = [1]) throws -> EntityID {
    try copy.addFile(MemoryFile(bytes: bytes), name: name).item
  }

  @Test("D-S180 embeds of files by name and by path attach them; re-spelled nothing changes; removed, the edge goes")
  func embeds() throws {
    let (photo, clip) = (try file("photo.png", [1]), try file("clip.mp4", [2]))
    _ = try held("Held")
    try copy.queue.drain()
    let host = try write("Host", "![[photo.png]] ![](media/clip.mp4) ![[Held]] ![](Held.md)").item
    try copy.queue.drain()
    #expect(try attached(host) == [photo, clip] && edges(host).isEmpty)
    #expect(try copy.bodies.links(in: host).embeds.map(\.target) == [.item(photo), .item(clip)])
    try save(host, "![](photo.png?v=2) ![[clip.mp4|200]] ![[Held]]")
    #expect(try edgeWrites().isEmpty)
    try copy.queue.drain()
    #expect(try attached(host) == [photo, clip])
    try save(host, "![[clip.mp4]]")
    try copy.queue.drain()
    #expect(try attached(host) == [clip])
    #expect(try bench.ask("GET", "/items/\(photo)")["item"]?["state"] == "active")
  }

  @Test("D-S181 one file attached twice is `name` and `name 2`, each with its embed; a body of both makes no edge")
  func twice() throws {
    let host = try held("Host")
    let one = try copy.attach(MemoryFile(bytes: [1]), name: "photo.png", to: host)
    let two = try copy.attach(MemoryFile(bytes: [1]), name: "photo.png", to: host)
    #expect(one.embed == "![[photo.png]]" && two.embed == "![[photo 2.png]]")
    let before = try copy.queue.all().count
    try save(host, "![[photo.png]] ![[photo 2.png]]")
    #expect(try copy.queue.all().count == before + 1)
    #expect(try copy.bodies.links(in: host).embeds.map(\.target) == [.item(one.item), .item(two.item)])
    try copy.queue.drain()
    #expect(try edges(host, "attached-to").count == 2)
    let shared = try copy.attach(MemoryFile(bytes: [2]), name: "other.png", to: host, title: "photo.png")
    #expect(shared.embed == nil)
    #expect(bench.refusal { _ = try copy.embedText(of: shared.item, in: host) }?.code == .invalid)
    let note = try held("Note")
    #expect(bench.refusal { _ = try copy.embedText(of: note, in: host) }?.code == .invalid)
    let apart = try file("apart.png", [3])
    #expect(bench.refusal { _ = try copy.embedText(of: apart, in: host) }?.code == .invalid)
  }

  @Test("D-S182 an attached file goes before another of its name; where none is attached the name is ambiguous")
  func attachedFirst() throws {
    let host = try held("Host")
    let own = try copy.attach(MemoryFile(bytes: [1]), name: "photo.png", to: host).item
    _ = try file("photo.png", [2])
    try copy.queue.drain()
    try save(host, "![[photo.png]]")
    let elsewhere = try write("Elsewhere", "![[photo.png]]").item
    try copy.queue.drain()
    #expect(try copy.bodies.links(in: host).embeds.map(\.target) == [.item(own)] && attached(host) == [own])
    #expect(try copy.bodies.links(in: elsewhere).embeds.map(\.target) == [.ambiguous])
    #expect(try attached(elsewhere).isEmpty)
  }

  // MARK: Devices

  func second() throws -> WorkingCopy {
    let database = try Database(path: ":memory:", mode: .create)
    let context = Context(
      clock: bench.clock, ids: SeededIds(clock: bench.clock, seed: 900),
      files: MemoryFileSystem(MemoryDisk(clock: bench.clock)), transport: bench.transport, scheduler: bench.scheduler,
      log: Quiet())
    let copy = try WorkingCopy.open(
      database: database, blobs: MemoryBlobStore(), context: context, role: .writer,
      endpoint: Endpoint(baseURL: CopyBench.origin, credential: CopyBench.key), credentials: nil)
    try copy.hydrate(Slice(typeList: ["core.note"], tier: "library", edgeTypes: ["references"]))
    return copy
  }

  @Test("D-S183 two copies that make one edge: one edge, and no refusal left")
  func twoCopies() throws {
    let held = try held("Held")
    let host = try self.held("Host")
    let other = try second()
    let text = Text("See [[\(held)]].")
    try save(host, text)
    let version = try #require(try other.item(host)).version
    try other.queue.updateItem(
      host, ItemEdit(properties: JSONObject([("body", .string(text))]), version: version))
    try copy.queue.drain()
    try other.queue.drain()
    #expect(try edges(host).count == 1)
    #expect(try !other.queue.all().contains { $0.verdict == .refused })
    #expect(try !copy.queue.all().contains { $0.verdict == .refused })
    try other.catchUp()
    #expect(try other.edges(from: host, type: "references").map(\.target) == [held])
    #expect(try other.bodies.links(in: host).links.map(\.target) == [.item(held)])
    #expect(try other.queue.drain().answered == 0)
  }

  @Test("D-S184 a body that lost takes its edge writes out unsent, and the kept edge stays")
  func lost() throws {
    let (one, two) = (try held("One"), try held("Two"))
    let host = try write("Host", "[[Two]]").item
    try copy.queue.drain()
    let edit = try save(host, Text("[[\(one)]]"))
    #expect(try edgeWrites().map(\.kind) == [.createEdge, .deleteEdge])
    try theirs(host, ["body": "[[Two]], and more."])
    bench.transport.clear()
    try copy.queue.drain()
    #expect(try copy.queue.write(edit.id)?.verdict == .conflicted)
    #expect(try edgeWrites().isEmpty)
    #expect(!bench.transport.requests.contains { $0.contains("/edges") && !$0.hasPrefix("GET") })
    #expect(try targets(host) == [two])
    #expect(try copy.edges(from: host, type: "references").map(\.target) == [two])
  }

  @Test("D-S185 what was saved offline is resolved and sent in one drain")
  func offline() throws {
    let held = try held("Held")
    let remote = try bench.note("Remote", tier: "feed")
    bench.transport.before = { _ in .failure(.unreachable("nothing answers")) }
    let host = try write("Host", "[[Held]] [[Remote]]").item
    let away = try copy.queue.drain()
    #expect(away.unavailable != nil && away.answered == 0)
    #expect(try read(host) == [.pending, .pending])
    bench.transport.before = nil
    let report = try copy.queue.drain()
    #expect(report.answered == 3 && report.undelivered == 0)
    #expect(try targets(host) == [held, remote])
  }

  // MARK: Names

  @Test("D-S187 a link begins at its last brackets; name, heading and alias have their places in UTF-16")
  func parts() throws {
    let parts = linkParts(in: "See [[a [[Soup#Stock|x]]")
    #expect(parts.count == 1)
    let link = try #require(parts.first)
    #expect(link.name.text == "Soup" && link.heading?.text == "Stock" && link.alias?.text == "x")
    #expect(link.range == 8..<24 && link.name.range == 10..<14)
    #expect(link.heading?.range == 15..<20 && link.alias?.range == 21..<22)
    let wide = try #require(linkParts(in: "\u{1F372} é [[ Soup ]] ![[no.png]] `[[no]]`").first)
    #expect(wide.range == 5..<15 && wide.name.range == 8..<12)
    #expect(linkParts(in: "[[ ]] [[\n]]").isEmpty)
  }

  @Test("D212.2 candidates of a target come from the copy alone, never one in the bin")
  func candidates() throws {
    let one = try held("One")
    let twins = [try held("Twin"), try held("Twin")].sorted()
    let binned = try held("Binned")
    try bench.ask("DELETE", "/items/\(binned)?version=1")
    try copy.catchUp()
    bench.transport.clear()
    let found = try copy.bodies.candidates(of: ["one#Part", "Twin", "Binned", "Nobody"])
    #expect(found.map(\.state) == [.bound(one), .ambiguous, .unresolved, .unresolved])
    #expect(found.map(\.candidates) == [[one], twins, [], []])
    let host = try write("Host", "Words.").item
    try copy.queue.createEdge(EdgeDraft(source: host, target: twins[1], type: "references"))
    #expect(try copy.bodies.candidates(of: ["Twin"], in: host).map(\.state) == [.bound(twins[1])])
    #expect(bench.transport.requests.isEmpty)
  }

  @Test("Q68.1 a purge of a row with a write that waits is refused", arguments: ["waiting", "blocked", "dead"])
  func purge(_ state: String) throws {
    let note = try held("Note")
    let write = try copy.queue.addTag(note, "t")
    try bench.ask("DELETE", "/items/\(note)?version=1")
    try copy.catchUp()
    #expect(try copy.item(note)?.isTrashed == true)
    let verdicts = ["blocked": "verdict = 'blocked', reason = 'conflict_unresolved'", "dead": "verdict = 'dead'"]
    if let set = verdicts[state] { try bench.database.execute("UPDATE queue SET \(set) WHERE id = '\(write.id)'") }
    bench.transport.clear()
    #expect(bench.refusal { try copy.purge(note) }?.code == .invalid)
    #expect(bench.transport.requests.isEmpty)
  }
}

private struct Quiet: Log {
  func write(_ line: String) {}
}
