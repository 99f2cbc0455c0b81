import LocalInstance
import MarfaBase
import MarfaCopy
import Testing
import TestSupport

@Suite("The fill") struct FillScenarios {
  @Test(
    "D-S51 a key that can't read a declared type, and an app the listing refuses it, are refused by name; copy kept")
  func unreadableType() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    let key = try bench.makeKey(["core.note": "write"])
    try bench.reopen(key: key.key)
    try bench.fill()
    try bench.copy.queue.updateItem(note, ItemEdit(properties: ["title": "Mine"], version: 1))
    for isApp in [false, true] {
      if isApp {
        bench.transport.before = { request in
          if request.url.hasSuffix("/keys/current") {
            return bench.certified(request, ["error": ["code": "forbidden", "message": "No key."]], status: 403)
          }
          guard request.url.contains("/items?type=core.bookmark") else { return nil }
          return bench.certified(
            request, ["error": ["code": "type_not_permitted", "message": "Not permitted."]], status: 403)
        }
      }
      let before = try bench.copy.status().json
      let refusal = bench.refusal { try bench.fill(["core.note", "core.bookmark"]) }
      #expect(refusal?.code == .forbidden && refusal?.message.contains("core.bookmark") == true)
      #expect(try bench.copy.status().json == before)
      #expect(try bench.copy.item(note)?.properties["title"]?.text == "Mine")
      #expect(try bench.copy.queue.unansweredCount() == 1)
    }
  }

  @Test("D-S52 a key that reads only a descendant, by name or by declared parent, fills its ancestor")
  func readableDescendant() throws {
    let bench = try CopyBench()
    for type: JSON in [
      ["id": "acme.thing", "fields": ["title": ["type": "string"]]],
      ["id": "acme.thing.sub", "fields": ["title": ["type": "string"]]],
      ["id": "other.kind", "parent": "acme.thing", "fields": ["more": ["type": "string"]]],
    ] {
      try bench.ask("POST", "/types", type)
    }
    for readable in ["acme.thing.sub", "other.kind"] as [Text] {
      let made = try bench.ask(
        "POST", "/items", ["type": .string(readable), "tier": "library", "properties": ["title": "Row"]])
      let id = try #require(made["item"]?["id"]?.text.flatMap { EntityID($0) })
      let key = try bench.makeKey(.object([readable: "read"]))
      try bench.reopen(key: key.key)
      try bench.fill(["acme.thing"])
      #expect(try bench.copy.hydration() == .complete)
      #expect(try bench.copy.item(id) != nil)
    }
  }

  /// Answers the listing of notes by pages: each its rows, then where the next begins; nil leaves the member out.
  private static func pages(_ bench: CopyBench, _ pages: [([EntityID], JSON?)], asked: @escaping (Int) -> Void) {
    var count = 0
    bench.transport.before = { request in
      guard request.url.contains("/items?type=core.note") else { return nil }
      let (ids, next) = pages[min(count, pages.count - 1)]
      count += 1
      asked(count)
      let rows: [JSON] = ids.map { id in
        let now: JSON = .string(bench.clock.now.text)
        return [
          "item": [
            "id": .string(id.text), "type": "core.note", "tier": "library", "state": "active",
            "properties": ["title": "Row"], "version": 1, "created_at": now, "updated_at": now, "edges": [:],
          ], "metadata": ["tags": [], "extensions": [:]], "listed": true,
        ]
      }
      var page: JSONObject = ["data": .array(rows)]
      page["next_cursor"] = next
      return bench.certified(request, .object(page))
    }
  }

  @Test("D-S54 pages with an empty one between are walked whole and counted")
  func emptyPage() throws {
    let bench = try CopyBench()
    let (a, b) = (bench.newID(), bench.newID())
    var asked = 0
    FillScenarios.pages(bench, [([a], "two"), ([], "three"), ([b], .null)]) { asked = $0 }
    let report = try bench.fill(edges: [])
    #expect(asked == 3 && report.pages == 3 && report.items == 2)
    #expect(try bench.copy.item(a) != nil && bench.copy.item(b) != nil)
  }

  @Test("D-S55 a listing that repeats a cursor ends the copy after two pages")
  func repeatedCursor() throws {
    let bench = try CopyBench()
    var asked = 0
    FillScenarios.pages(bench, [([bench.newID()], "two"), ([bench.newID()], "two")]) { asked = $0 }
    let refusal = bench.refusal { try bench.fill(edges: []) }
    #expect(refusal?.code == .copyExpired && refusal?.reason == "read_view_invalid")
    #expect(asked == 2)
    #expect(try bench.copy.hydration() == .expired)
  }

  @Test("D-S56 a page without next_cursor, met by a second fill, ends the copy with its queue kept")
  func noNext() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    try bench.copy.queue.updateItem(note, ItemEdit(properties: ["title": "Mine"], version: 1))
    FillScenarios.pages(bench, [([bench.newID()], nil)]) { _ in }
    let refusal = bench.refusal { try bench.fill() }
    #expect(refusal?.code == .copyExpired && refusal?.reason == "read_view_invalid")
    #expect(try bench.copy.hydration() == .expired)
    #expect(try bench.copy.queue.unansweredCount() == 1)
  }

  @Test("D-S45 D-S43 an interrupted second fill reports in_progress; an aged-out cursor complete until it is learned")
  func reports() throws {
    let bench = try CopyBench()
    try bench.note("Note")
    try bench.fill()
    bench.transport.before = { request in
      request.url.contains("/items?type") ? .failure(.unreachable("dropped")) : nil
    }
    #expect(bench.refusal { try bench.fill() }?.code == .network)
    #expect(try bench.copy.status().json["hydration"]?.text == "in_progress")
    bench.transport.before = nil
    try bench.fill()

    for _ in 0..<2 { try bench.note("Later", type: "core.bookmark") }
    bench.clock.advance(seconds: 3600 * 24 * 400)
    try bench.instance.sweep()
    bench.transport.clear()
    #expect(try bench.copy.status().hydration == .complete)
    #expect(bench.transport.requests.isEmpty)
    #expect(bench.refusal { try bench.copy.catchUp() }?.reason == "catchup_too_old")
    #expect(try bench.copy.status().hydration == .stale)
  }

  @Test("D-S44 a fill stopped after a page answers what arrived, refuses what may yet come, and takes a new item")
  func partial() throws {
    let bench = try CopyBench()
    let ids = try (0..<250).map { try bench.note(Text("Note \($0)")) }
    var pages = 0
    bench.transport.before = { request in
      guard request.url.contains("/items?type") else { return nil }
      pages += 1
      return pages == 2 ? .failure(.unreachable("dropped")) : nil
    }
    #expect(bench.refusal { try bench.fill() }?.code == .network)
    let rows = try bench.copy.list(ListQuery())
    #expect(rows.count == 200)
    #expect(try bench.copy.completeness() == .partial)
    let unarrived = try #require(ids.first { id in !rows.contains { $0.id == id } })
    #expect(bench.refusal { _ = try bench.copy.get(unarrived) }?.code == .hydrationIncomplete)
    #expect(try bench.copy.get(rows[0].id)?.id == rows[0].id)
    #expect(bench.refusal { _ = try bench.copy.readEdges(from: rows[0].id) }?.code == .hydrationIncomplete)
    #expect(bench.refusal { _ = try bench.copy.readEdges(to: rows[0].id) }?.code == .hydrationIncomplete)
    let write = try bench.copy.queue.createItem(ItemDraft(type: "core.note", properties: ["title": "N", "body": "x"]))
    #expect(write.verdict == nil)
    #expect(
      bench.refusal {
        try bench.copy.queue.createEdge(EdgeDraft(source: rows[0].id, target: rows[1].id, type: "references"))
      }?.code == .hydrationIncomplete)
  }

  @Test("D-S46 an expired copy refuses reads and writes; after a fill both work")
  func expired() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    _ = try bench.copy.expire("read_view_changed", "ended by a test")
    func refused(_ work: () throws -> Void) {
      let code = bench.refusal(work)?.code
      #expect(code == .hydrationIncomplete)
    }
    refused { _ = try bench.copy.list(ListQuery()) }
    refused { _ = try bench.copy.search("note") }
    refused { _ = try bench.copy.get(note) }
    refused { _ = try bench.copy.get([note]) }
    refused { _ = try bench.copy.readEdges(from: note) }
    refused { _ = try bench.copy.items(matching: FolderSearch(types: ["core.note"])) }
    refused { try bench.copy.queue.createItem(ItemDraft(type: "core.note", properties: ["title": "N", "body": "x"])) }
    refused { try bench.copy.queue.updateItem(note, ItemEdit(properties: ["title": "M"], version: 1)) }
    refused { try bench.copy.queue.deleteItem(note) }
    refused { try bench.copy.queue.addTag(note, "t") }
    refused { try bench.copy.queue.createEdge(EdgeDraft(source: note, target: note, type: "references")) }
    #expect(try bench.copy.queue.unansweredCount() == 0)
    try bench.fill()
    #expect(try bench.copy.get(note) != nil)
    try bench.copy.queue.updateItem(note, ItemEdit(properties: ["title": "M"], version: 1))
    #expect(try bench.copy.get(note)?.properties["title"]?.text == "M")
  }

  @Test("D4 a stale copy's lists say so, its rows answer, and what needs a whole copy is refused")
  func stale() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    try bench.goStale()
    #expect(try titles(bench.copy.list(ListQuery())) == ["Note"])
    #expect(try bench.copy.completeness() == .stale)
    #expect(try bench.copy.get(note) != nil)
    #expect(try bench.copy.get(bench.newID()) == nil)
    #expect(bench.refusal { _ = try bench.copy.readEdges(from: note) }?.code == .hydrationIncomplete)
    #expect(
      bench.refusal { _ = try bench.copy.items(matching: FolderSearch(types: ["core.note"])) }?.code
        == .hydrationIncomplete)
  }

  @Test("D-S63 each cause that keeps a refill from its place is thrown, and nothing changes")
  func inPlaceOnly() throws {
    func run(
      _ code: MarfaError.Code, _ reason: String?, stale: Bool = true, slice: Slice? = nil,
      _ prepare: (CopyBench) throws -> Void = { _ in }
    ) throws {
      let bench = try CopyBench()
      try bench.note("Note")
      try bench.fill()
      if stale { try bench.goStale() }
      try prepare(bench)
      let before = try bench.copy.status().json
      let refusal = bench.refusal {
        try bench.copy.hydrate(
          slice ?? Slice(types: ["core.note"], tier: "library", edgeTypes: ["parent-of"]), inPlaceOnly: true)
      }
      #expect(refusal?.code == code && refusal?.reason == reason, "\(code) \(reason ?? "")")
      #expect(try bench.copy.status().json == before)
      #expect(try bench.held() == ["Note"])
    }
    try run(.copyExpired, "not_stale", stale: false)
    try run(
      .copyExpired, "slice_changed", slice: Slice(types: ["core.note"], tier: "all", edgeTypes: ["parent-of"]))
    try run(.instanceChanged, nil) { bench in
      let other = try CopyBench(seed: 9)
      bench.transport.handle = { other.instance.handle($0) }
    }
    try run(.copyExpired, "reach_changed") { bench in
      let key = try bench.makeKey(["core.note": "write"])
      try bench.reopen(key: key.key)
    }
    try run(.copyExpired, "head_past_log") { bench in
      bench.transport.pieces = { _, bytes in
        let text = String(decoding: bytes, as: UTF8.self)
        return Array(text.replacing("\"cursor\":\"3\"", with: "\"cursor\":\"0\"").utf8)
      }
    }
    // And where none stands in the way, it is filled in place.
    let bench = try CopyBench()
    try bench.note("Note")
    try bench.fill()
    try bench.goStale()
    let slice = Slice(types: ["core.note"], tier: "library", edgeTypes: ["parent-of"])
    #expect(try bench.copy.hydrate(slice, inPlaceOnly: true).inPlace)
  }

  @Test("D-S62 while a stale copy is filled in place its rows answer, and nothing goes before the replay has ended")
  func inPlace() throws {
    let bench = try CopyBench()
    let (kept, purged) = (try bench.note("Kept"), try bench.note("Purged"))
    try bench.fill()
    try bench.ask("DELETE", "/items/\(purged)?version=1")
    try bench.ask("POST", "/items/\(purged)/purge?version=1")
    try bench.goStale()
    var seen: [[Text]] = []
    bench.transport.before = { [bench] request in
      if request.url.contains("/items?type") || request.url.contains("/events"),
        (try? bench.copy.hydration()) == .inProgress
      {
        seen.append((try? bench.held()) ?? [])
        #expect((try? bench.copy.completeness()) == .partial)
        #expect((try? bench.copy.get(purged)) != nil)
      }
      return nil
    }
    let report = try bench.fill()
    #expect(report.inPlace)
    #expect(seen.count == 2 && seen.allSatisfy { $0 == ["Kept", "Purged"] })
    #expect(try bench.copy.item(purged) == nil && bench.copy.item(kept) != nil)
  }

  @Test("D-S150 a copy never filled, interrupted, expired or stale drains nothing, asks nothing and keeps its queue")
  func drains() throws {
    let bench = try CopyBench()
    try bench.note("Note")
    try bench.copy.queue.createItem(ItemDraft(type: "core.note", properties: ["title": "Mine", "body": "x"]))
    func refused(_ code: MarfaError.Code) throws {
      bench.transport.clear()
      #expect(bench.refusal { try bench.copy.queue.drain() }?.code == code)
      #expect(bench.transport.requests.isEmpty)
      #expect(try bench.copy.queue.unansweredCount() == 1)
    }
    try refused(.noCursor)
    bench.transport.before = { request in
      request.url.contains("/items?type") ? .failure(.unreachable("dropped")) : nil
    }
    _ = bench.refusal { try bench.fill() }
    try refused(.hydrationIncomplete)
    bench.transport.before = nil
    try bench.fill()
    try bench.goStale()
    try refused(.copyExpired)
    _ = try bench.copy.expire("read_view_changed", "ended by a test")
    try refused(.copyExpired)
  }

  @Test("D-S30 a stored copy without its instance record refuses reads; a reader changes no byte of it")
  func proofLost() throws {
    let bench = try CopyBench()
    try bench.note("Note")
    try bench.fill()
    try bench.database.execute("DELETE FROM meta WHERE key = 'instance_id'")
    bench.copy.store.forgetReads()
    let directory = try TemporaryDirectory()
    let path = "\(directory.path)/copy.sqlite"
    try bench.database.execute("VACUUM INTO '\(path)'")
    let before = try FileBytes.of(path)
    let reader = try WorkingCopy.open(
      database: try Database(path: path, mode: .readOnly), blobs: MemoryBlobStore(), context: bench.context,
      role: .reader, endpoint: nil, credentials: nil)
    for copy in [reader, bench.copy] {
      #expect(try copy.status().hydration == .expired)
      #expect(bench.refusal { _ = try copy.list(ListQuery()) }?.code == .hydrationIncomplete)
      #expect(bench.refusal { _ = try copy.get(bench.newID()) }?.code == .hydrationIncomplete)
    }
    #expect(try FileBytes.of(path) == before)
  }

  @Test("D-S25 another instance under another path of the same host is refused, and only its root was read")
  func otherPrefix() throws {
    let bench = try CopyBench()
    try bench.note("Note")
    try bench.fill()
    let other = try CopyBench(seed: 9)
    bench.transport.handle = { request in
      var request = request
      request.target = String(request.target.dropFirst("/other".count))
      return other.instance.handle(request)
    }
    try bench.reopen(baseURL: CopyBench.origin + "/other")
    bench.transport.clear()
    let refusal = bench.refusal { try bench.fill() }
    #expect(refusal?.code == .wrongServer)
    #expect(
      refusal?.message.contains(CopyBench.origin + "/other") == true
        && refusal?.message.contains("at \(CopyBench.origin);") == true)
    #expect(bench.transport.requests == ["GET /other/"])
    #expect(bench.transport.sent[0].headers.allSatisfy { $0.name != "Authorization" })
    #expect(try bench.copy.hydration() == .complete)
  }

  @Test("D-S26 a store opens under another key, and its requests carry that one")
  func otherKey() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    let key = try bench.makeKey(["*": "write"])
    try bench.reopen(key: key.key)
    #expect(try bench.copy.item(note) != nil)
    bench.transport.clear()
    let refusal = bench.refusal { try bench.copy.catchUp() }
    // A view is per key (D208.5).
    #expect(refusal?.code == .copyExpired && refusal?.reason == "read_view_changed")
    let carried = bench.transport.sent.compactMap { $0.headers.first { $0.name == "Authorization" }?.value }
    #expect(!carried.isEmpty && carried.allSatisfy { $0 == "Bearer \(key.key)" })
  }

  @Test("D-S29 an instance that can't be confirmed is sent no write, nothing is counted, and the report says why")
  func unconfirmed() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    let write = try bench.copy.queue.updateItem(note, ItemEdit(properties: ["title": "Mine"], version: 1))
    bench.transport.before = { request in request.url.hasSuffix("test/") ? bench.named(503) : nil }
    bench.transport.clear()
    let report = try bench.copy.queue.drain()
    #expect(report.unavailable?.isEmpty == false)
    #expect(try bench.copy.queue.write(write.id)?.refusals == 0)
    #expect(bench.transport.requests == ["GET /"])
    // A settings edit likewise.
    bench.transport.clear()
    let refusal = bench.refusal { try bench.copy.createFolder(["title": "F", "search": ["types": ["core.note"]]]) }
    #expect(refusal?.server?.status == 503)
    #expect(bench.transport.requests == ["GET /"])
  }

  @Test("D-S157 an item that names a blob is held with its reference, and no blob is asked for")
  func noBytes() throws {
    let bench = try CopyBench()
    let file = try bench.uploaded(Array("png".utf8), "a.png")
    try bench.fill(["core.file"])
    #expect(
      try bench.copy.item(file)?.properties["blob_ref"]?.text == ContentHash(of: Array("png".utf8)).text)
    #expect(!bench.transport.requests.contains { $0.contains("/blobs") })
    #expect(bench.copy.blobs.all().isEmpty)
  }
}

/// The bytes of a file on disk.
enum FileBytes {
  static func of(_ path: String) throws -> [UInt8] {
    let path = PathBytes(path)
    let file = try SystemFileSystem().openDirectory(path.parent).open(path.name)
    var all: [UInt8] = []
    while case let piece = try file.read(limit: 1 << 20), !piece.isEmpty { all += piece }
    return all
  }
}
