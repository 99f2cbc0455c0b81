import LocalInstance
import MarfaBase
import MarfaCopy
import Testing
import TestSupport

@Suite("What a copy holds") struct SliceScenarios {
  @Test("D-S1 a declared type, a subtype by name and one by declared parent are held, another type is not")
  func subtypes() throws {
    let bench = try CopyBench()
    for type: JSON in [
      ["id": "acme.thing", "fields": ["title": ["type": "string"]]],
      ["id": "acme.thing.sub", "fields": ["title": ["type": "string"]]],
      ["id": "other.kind", "parent": "acme.thing", "fields": ["more": ["type": "string"]]],
      ["id": "acme.else", "fields": ["title": ["type": "string"]]],
    ] {
      try bench.ask("POST", "/types", type)
    }
    func make(_ type: Text, _ title: Text) throws -> EntityID {
      let made = try bench.ask(
        "POST", "/items", ["type": .string(type), "tier": "library", "properties": ["title": .string(title)]])
      return try #require(made["item"]?["id"]?.text.flatMap { EntityID($0) })
    }
    for type in ["acme.thing", "acme.thing.sub", "other.kind", "acme.else"] as [Text] { _ = try make(type, type) }
    try bench.fill(["acme.thing"])
    #expect(try bench.held() == ["acme.thing", "acme.thing.sub", "other.kind"])
    for type in ["acme.thing", "acme.thing.sub", "other.kind", "acme.else"] as [Text] {
      _ = try make(type, Text("\(type) late"))
    }
    try bench.copy.catchUp()
    #expect(
      try bench.held() == [
        "acme.thing", "acme.thing late", "acme.thing.sub", "acme.thing.sub late", "other.kind", "other.kind late",
      ])
  }

  @Test("D-S5 edge listings of two pages, and with an empty page between, are walked whole and every page counted")
  func edgePages() throws {
    let bench = try CopyBench()
    let (a, b) = (try bench.note("A", tier: "feed"), try bench.note("B", tier: "feed"))
    for empty in [false, true] {
      let (one, two) = (bench.newID(), bench.newID())
      func edge(_ id: EntityID, _ source: EntityID, _ target: EntityID) -> JSON {
        [
          "id": .string(id.text), "source_id": .string(source.text), "target_id": .string(target.text),
          "edge_type": "parent-of", "properties": [:], "version": 1, "created_at": .string(bench.clock.now.text),
          "updated_at": .string(bench.clock.now.text),
        ]
      }
      var asked = 0
      bench.transport.before = { request in
        guard request.url.contains("/edges?edge_type=parent-of") else { return nil }
        asked += 1
        if request.url.contains("cursor=last") {
          return bench.certified(request, ["data": [edge(two, b, a)], "next_cursor": .null])
        }
        if request.url.contains("cursor=middle") {
          return bench.certified(request, ["data": [], "next_cursor": "last"])
        }
        return bench.certified(request, ["data": [edge(one, a, b)], "next_cursor": empty ? "middle" : "last"])
      }
      let report = try bench.fill()
      #expect(asked == (empty ? 3 : 2))
      // One page of items besides.
      #expect(report.pages == asked + 1)
      #expect(report.edges == 2)
      #expect(try bench.copy.edges(from: a).map(\.id) == [one])
      #expect(try bench.copy.edges(to: a).map(\.id) == [two])
    }
  }

  @Test("D-S6 the edge types of the last fill alone are held whole, for events too")
  func edgeTypesReplaced() throws {
    let bench = try CopyBench()
    let (a, b) = (try bench.note("A", tier: "feed"), try bench.note("B", tier: "feed"))
    try bench.fill(edges: ["parent-of"])
    try bench.fill(edges: ["about"])
    let parent = try bench.edge("parent-of", a, b)
    let about = try bench.edge("about", a, b)
    try bench.copy.catchUp()
    #expect(try bench.copy.edge(parent) == nil)
    #expect(try bench.copy.edge(about)?.target == b)
  }

  @Test("D-S7 each listing asks every state, its tier, edges and metadata; a trashed row of a subtype is held")
  func listings() throws {
    let bench = try CopyBench()
    let image = try bench.uploaded(Array("png".utf8), "a.png", type: "core.file.image", tier: "feed")
    try bench.ask("DELETE", "/items/\(image)?version=1")
    try bench.fill(["core.note", "core.file"], tier: "feed")
    let listings = bench.transport.requests.filter { $0.hasPrefix("GET /items?type=") }
    #expect(listings.count == 2)
    for (listing, type) in zip(listings, ["core.note", "core.file"]) {
      #expect(listing == "GET /items?type=\(type)&tier=feed&state=any&include=edges%2Cmetadata&limit=200")
    }
    #expect(try bench.copy.rowState(image) == .trashed)
  }

  @Test("D-S8 a row that moves between tiers of a slice of both stays, with its edges and tags, at its new tier")
  func tierMoves() throws {
    let bench = try CopyBench()
    let note = try bench.note("Moving", tags: ["kept"])
    let other = try bench.note("Other")
    let edge = try bench.edge("references", note, other)
    try bench.fill(tier: "all")
    func stands(_ tier: Text) throws {
      #expect(try bench.copy.item(note)?.tier == tier)
      #expect(try bench.copy.item(note)?.tags == ["kept"])
      #expect(try bench.copy.edges(from: note).map(\.id) == [edge])
    }
    // Elsewhere, met by a catch-up.
    try bench.edit(note, version: 1, ["tier": "feed"])
    try bench.copy.catchUp()
    try stands("feed")
    // Elsewhere, met by a held stream.
    try bench.edit(note, version: 2, ["tier": "library"])
    _ = try bench.copy.follow { _ in .enough }
    try stands("library")
    // Here, through a restart and its drain.
    try bench.copy.queue.updateItem(note, ItemEdit(properties: [:], version: 3, tier: "feed"))
    try stands("feed")
    try bench.reopen()
    try stands("feed")
    #expect(try bench.copy.queue.drain().verdicts.map(\.verdict) == [.accepted])
    try stands("feed")
    #expect(try bench.copy.serverItem(note)?.version == 4)
  }

  @Test("D-S9 a system.folder the slice names is held at either tier, and under * alone not at all")
  func systemTier() throws {
    let bench = try CopyBench()
    let made = try bench.ask("POST", "/folders", ["title": "Notes", "search": ["types": ["core.note"]]])
    let folder = try #require(made["item"]?["id"]?.text.flatMap { EntityID($0) })
    #expect(made["item"]?["tier"]?.text == "library")
    try bench.fill(["core.note", "system.folder"], tier: "feed")
    #expect(try bench.copy.item(folder)?.type == "system.folder")
    try bench.fill(["*"], tier: "all")
    #expect(try bench.copy.item(folder) == nil)
    try bench.fill(["*", "system.folder"], tier: "feed")
    #expect(try bench.copy.item(folder) != nil)
  }

  @Test("D-S125 a very old row stays held, however much time passes")
  func age() throws {
    let bench = try CopyBench()
    let note = try bench.note("Old")
    try bench.fill()
    for _ in 0..<3 {
      bench.clock.advance(seconds: 3600 * 24 * 20)
      try bench.copy.catchUp()
      try bench.note("Keeps the log young", tier: "feed")
    }
    bench.clock.advance(seconds: 3600 * 24 * 3650)
    #expect(try bench.copy.item(note) != nil)
    #expect(try bench.held() == ["Old"])
  }
}

@Suite("Pins") struct PinScenarios {
  @Test("D-S11 a pinned row of the slice that moves tier stays, an unpinned neighbor goes")
  func tierMove() throws {
    let bench = try CopyBench()
    let (pinned, neighbor) = (try bench.note("Pinned"), try bench.note("Neighbor"))
    try bench.fill()
    try bench.copy.pin(pinned, owner: "app")
    for id in [pinned, neighbor] { try bench.edit(id, version: 1, ["tier": "feed"]) }
    try bench.copy.catchUp()
    #expect(try bench.copy.item(pinned)?.tier == "feed")
    #expect(try bench.copy.item(neighbor) == nil)
  }

  @Test("D-S15 the pin of an unanswered create moves to the id it is answered under")
  func followsCreate() throws {
    let bench = try CopyBench()
    let made = try bench.ask(
      "POST", "/items",
      [
        "type": "core.note", "tier": "feed", "source_id": "k",
        "properties": ["title": "There", "body": "Words."],
      ])
    let there = try #require(made["item"]?["id"]?.text.flatMap { EntityID($0) })
    try bench.fill()
    let write = try bench.copy.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "Here", "body": "Words."], sourceID: "k"))
    let minted = try #require(write.itemID)
    #expect(try bench.copy.pin(minted, owner: "app").wasPinned == false)
    #expect(try bench.copy.pins(owner: "app") == [minted])
    try bench.copy.queue.drain()
    #expect(try bench.copy.pins(owner: "app") == [there])
    #expect(try bench.copy.item(minted) == nil)
    #expect(try bench.copy.item(there)?.properties["title"]?.text == "Here")
  }

  @Test("D-S16 a refused pinned create goes with its pin once read absent; while the read fails both stay")
  func refusedCreate() throws {
    let bench = try CopyBench()
    try bench.fill()
    func make() throws -> EntityID {
      let write = try bench.copy.queue.createItem(
        ItemDraft(type: "core.note", properties: ["title": "Mine", "body": "Words."]))
      let id = try #require(write.itemID)
      try bench.copy.pin(id, owner: "app")
      return id
    }
    func refuse(_ readFails: Bool) {
      bench.transport.before = { request in
        if request.method == "POST", request.url.hasSuffix("/items") { return bench.named(422, "validation_error") }
        return readFails && request.method == "GET" && request.url.contains("/items/") ? bench.named(503) : nil
      }
    }
    let first = try make()
    refuse(false)
    #expect(try bench.copy.queue.drain().verdicts.last?.verdict == .refused)
    #expect(try bench.copy.item(first) == nil)
    #expect(try bench.copy.pins().isEmpty)

    let second = try make()
    refuse(true)
    #expect(try bench.copy.queue.drain().unavailable != nil)
    #expect(try bench.copy.pins(owner: "app") == [second])
    refuse(false)
    try bench.copy.queue.drain()
    #expect(try bench.copy.pins().isEmpty)
    #expect(try bench.copy.item(second) == nil)
  }

  @Test("D-S19 a pinned row the key can no longer read keeps its pin, holds no row and fails no fill")
  func unreadable() throws {
    let bench = try CopyBench()
    let mark = try bench.note("Mark", type: "core.bookmark")
    let key = try bench.makeKey(["core.note": "write", "core.bookmark": "read"])
    try bench.reopen(key: key.key)
    try bench.fill()
    try bench.copy.pin(mark, owner: "app")
    #expect(try bench.copy.item(mark) != nil)
    try bench.ask("PATCH", "/keys/\(key.id)", ["type_permissions": ["core.note": "write"], "edge_permissions": [:]])
    try bench.fill(edges: [])
    #expect(try bench.copy.hydration() == .complete)
    #expect(try bench.copy.pins(owner: "app") == [mark])
    #expect(try bench.copy.item(mark) == nil)
  }

  @Test("D-S21 a waiting retype keeps an unpinned row until answered, touched by a catch-up, or the next fill")
  func waitingRetype() throws {
    for end in ["answer", "catch-up", "fill"] {
      let bench = try CopyBench()
      let note = try bench.note("Outside", tier: "feed")
      try bench.fill()
      try bench.copy.pin(note, owner: "app")
      let write = try bench.copy.queue.updateItem(
        note, ItemEdit(properties: ["url": "https://a.test/"], version: 1, type: "core.bookmark"))
      #expect(try bench.copy.unpin(note, owner: "app").wasPinned)
      #expect(try bench.copy.item(note)?.type == "core.bookmark")
      try bench.copy.catchUp()
      #expect(try bench.copy.item(note) != nil)
      switch end {
      case "answer":
        // An accepted retype moves the view, so a fill follows it.
        #expect(bench.refusal { try bench.copy.queue.drain() }?.reason == "read_view_changed")
        #expect(try bench.copy.queue.write(write.id)?.verdict == .accepted)
        try bench.fill()
      case "catch-up":
        try bench.edit(note, version: 1, ["properties": ["title": "Elsewhere"]])
        try bench.copy.catchUp()
        #expect(try bench.copy.queue.write(write.id)?.isWaiting == true)
      default:
        try bench.fill()
        #expect(try bench.copy.queue.write(write.id)?.isWaiting == true)
      }
      #expect(try bench.copy.item(note) == nil, "\(end)")
    }
  }

  @Test("D-S22 a purge takes row and pin, and no later fill asks for it")
  func purged() throws {
    let bench = try CopyBench()
    let note = try bench.note("Gone", tier: "feed")
    try bench.fill()
    try bench.copy.pin(note, owner: "app")
    try bench.ask("DELETE", "/items/\(note)?version=1")
    try bench.ask("POST", "/items/\(note)/purge?version=1")
    try bench.copy.catchUp()
    #expect(try bench.copy.rowState(note) == .purged)
    #expect(try bench.copy.pins().isEmpty)
    bench.transport.clear()
    try bench.fill()
    #expect(!bench.transport.requests.contains { $0.contains(note.text.string) })
  }

  @Test("D-S23 a pin's read that lands behind an event already applied leaves the later row")
  func lateRead() throws {
    let bench = try CopyBench()
    let note = try bench.note("First")
    try bench.fill()
    var early: HTTPResponse?
    bench.transport.after = { request, response in
      guard request.url.contains("/items/\(note)?include=edges") else { return .success(response) }
      if early == nil { early = response }
      return .success(early ?? response)
    }
    try bench.copy.pin(note, owner: "one")
    try bench.edit(note, version: 1, ["properties": ["title": "Second"]])
    try bench.copy.catchUp()
    try bench.copy.pin(note, owner: "two")
    #expect(try bench.copy.item(note)?.version == 2)
    #expect(try bench.copy.item(note)?.properties["title"]?.text == "Second")
  }

  @Test("D-S17 a waiting edit shows over the row a pin reads, whose version is the instance's")
  func waitingEdit() throws {
    let bench = try CopyBench()
    let note = try bench.note("One")
    try bench.fill()
    try bench.copy.queue.updateItem(note, ItemEdit(properties: ["title": "Mine"], version: 1))
    try bench.edit(note, version: 1, ["properties": ["body": "Theirs."]])
    try bench.copy.pin(note, owner: "app")
    #expect(try bench.copy.serverItem(note)?.version == 2)
    #expect(try bench.copy.item(note)?.version == 2)
    #expect(try bench.copy.item(note)?.properties["title"]?.text == "Mine")
    #expect(try bench.copy.item(note)?.properties["body"]?.text == "Theirs.")
  }

  @Test("D-S13 an id neither the instance nor its bin holds is refused, nothing is pinned, and a held row of it goes")
  func absent() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    try bench.ask("DELETE", "/items/\(note)?version=1")
    try bench.ask("POST", "/items/\(note)/purge?version=1")
    #expect(try bench.copy.item(note) != nil)
    let refusal = bench.refusal { try bench.copy.pin(note, owner: "app") }
    #expect(refusal?.code == .notFound)
    #expect(try bench.copy.item(note) == nil)
    #expect(try bench.copy.pins().isEmpty)
    #expect(bench.refusal { try bench.copy.pin(bench.newID(), owner: "app") }?.code == .notFound)
  }

  @Test("D-S14 a copy never filled or expired pins nothing and asks nothing")
  func notWhole() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    #expect(bench.refusal { try bench.copy.pin(note, owner: "app") }?.code == .hydrationIncomplete)
    #expect(bench.transport.requests.isEmpty)
    try bench.fill()
    _ = try bench.copy.expire("read_view_changed", "ended by a test")
    bench.transport.clear()
    #expect(bench.refusal { try bench.copy.pin(note, owner: "app") }?.code == .hydrationIncomplete)
    #expect(bench.transport.requests.isEmpty)
  }

  @Test(
    "D-S193 a row in the bin is no row to pin: it says so, a held one is kept; of an unreadable type it says no more")
  func binned() throws {
    let bench = try CopyBench()
    let (note, mark) = (try bench.note("Note"), try bench.note("Mark", type: "core.bookmark"))
    let key = try bench.makeKey(["core.note": "write"])
    try bench.reopen(key: key.key)
    try bench.fill()
    try bench.copy.queue.updateItem(note, ItemEdit(properties: ["title": "Late"], version: 1))
    for id in [note, mark] { try bench.ask("DELETE", "/items/\(id)?version=1") }
    let refusal = bench.refusal { try bench.copy.pin(note, owner: "app") }
    #expect(refusal?.code == .notFound && refusal?.server?.details?["trashed"]?.bool == true)
    #expect(try bench.copy.item(note) != nil)
    let unreadable = bench.refusal { try bench.copy.pin(mark, owner: "app") }
    #expect(unreadable?.code == .notFound && unreadable?.server?.details?["trashed"] == nil)
    #expect(try bench.copy.pins().isEmpty)
    // A drain's read back finds it in the bin and keeps it.
    try bench.copy.queue.drain()
    #expect(try bench.copy.rowState(note) == .trashed)
  }

  @Test("D-S107 a pinned row the source filter leaves out is not held once unpinned, and never listed")
  func unlisted() throws {
    let bench = try CopyBench()
    bench.instance.settings.sourceFilter = ["core.note": ["elsewhere"]]
    let note = try bench.note("Unlisted")
    try bench.fill()
    #expect(try bench.copy.item(note) == nil)
    try bench.copy.pin(note, owner: "app")
    #expect(try bench.copy.item(note)?.isListed == false)
    try bench.edit(note, version: 1, ["properties": ["title": "Still unlisted"]])
    try bench.copy.catchUp()
    #expect(try bench.copy.item(note)?.version == 2)
    #expect(try bench.held().isEmpty)
    try bench.copy.unpin(note, owner: "app")
    #expect(try bench.copy.item(note) == nil)
  }
}

extension CopyBench {
  /// Uploads bytes and makes the file item that names them; its id.
  @discardableResult
  func uploaded(_ bytes: [UInt8], _ title: Text, type: Text = "core.file", tier: Text = "library") throws -> EntityID {
    let answer = instance.handle(
      InstanceRequest(
        method: "POST", target: "/blobs",
        headers: [
          HTTPHeader("Authorization", "Bearer \(CopyBench.key)"), HTTPHeader("Content-Type", "image/png"),
        ], body: bytes))
    guard case .whole(let response) = answer, response.status == 201 else { throw ScratchError("no upload") }
    let made = try ask(
      "POST", "/items",
      [
        "type": .string(type), "tier": .string(tier),
        "properties": [
          "title": .string(title), "blob_ref": .string(ContentHash(of: bytes).text), "mime_type": "image/png",
          "size_bytes": .int(bytes.count),
        ],
      ])
    guard let id = made["item"]?["id"]?.text.flatMap({ EntityID($0) }) else { throw ScratchError(made.compact) }
    return id
  }
}
