import LocalInstance
import MarfaBase
import MarfaCopy
import Testing
import TestSupport

@Suite("What a device never does, and saving") struct SaveScenarios {
  private static func body(_ bench: CopyBench, _ method: String) throws -> JSON {
    let request = try #require(bench.transport.sent.last { $0.method == method })
    guard case .bytes(let bytes) = request.body else { throw ScratchError("no body") }
    return try JSON(parsing: bytes)
  }

  @Test("D-S120 D-S124 an edit carries the properties named alone, undeclared ones too, and the answered row is held")
  func edits() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note", body: "Words.")
    try bench.fill()
    try bench.copy.queue.updateItem(note, ItemEdit(properties: ["title": "Mine"], version: 1))
    try bench.edit(note, version: 1, ["properties": ["body": "Theirs."]])
    try bench.copy.queue.drain()
    #expect(try SaveScenarios.body(bench, "PATCH")["properties"] == ["title": "Mine"])
    let held = try #require(try bench.copy.serverItem(note))
    #expect(held.version == 3 && held.properties["title"]?.text == "Mine" && held.properties["body"]?.text == "Theirs.")
    #expect(try bench.copy.item(note) == held)
    try bench.copy.queue.updateItem(note, ItemEdit(properties: ["undeclared": ["a": 1]], version: 3))
    try bench.copy.queue.drain()
    #expect(try SaveScenarios.body(bench, "PATCH")["properties"] == ["undeclared": ["a": 1]])
    #expect(try bench.copy.item(note)?.properties["undeclared"] == ["a": 1])
  }

  @Test(
    "D-S121 a waiting create is at version 0 and a waiting edit at the version before; the instance's come with answers"
  )
  func versions() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    let made = try #require(
      try bench.copy.queue.createItem(ItemDraft(type: "core.note", properties: ["title": "N", "body": "x"])).itemID)
    try bench.copy.queue.updateItem(note, ItemEdit(properties: ["title": "Mine"], version: 1))
    #expect(try bench.copy.item(made)?.version == 0 && bench.copy.item(note)?.version == 1)
    try bench.copy.queue.drain()
    #expect(try bench.copy.item(made)?.version == 1 && bench.copy.item(note)?.version == 2)
  }

  @Test("D-S122 a version conflict blocks: the envelope kept whole, sent once in two drains, the version kept")
  func conflict() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    let write = try bench.copy.queue.updateItem(note, ItemEdit(properties: ["title": "Mine"], version: 1))
    bench.transport.before = { request in request.method == "PATCH" ? bench.conflict(note) : nil }
    try bench.copy.queue.drain()
    try bench.copy.queue.drain()
    let blocked = try #require(try bench.copy.queue.write(write.id))
    #expect(blocked.verdict == .blocked && blocked.blockedReason == .conflictUnresolved)
    let envelope = try JSON(parsing: try #require(blocked.answer).bytes)
    #expect(envelope["error"]?["code"]?.text == "version_conflict" && envelope["current"]?["id"]?.text == note.text)
    #expect(bench.transport.sent.filter { $0.method == "PATCH" }.count == 1)
    #expect(try bench.copy.item(note)?.version == 1)
  }

  @Test("D-S123 a create's tags are writes that wait on it, and its edges go in its body")
  func createParts() throws {
    let bench = try CopyBench()
    let target = try bench.note("Target")
    try bench.fill()
    let create = try bench.copy.queue.createItem(
      ItemDraft(
        type: "core.note", properties: ["title": "N", "body": "x"], tags: ["one", "two"],
        edges: [(type: "references", targets: [target])]))
    let tags = try bench.copy.queue.all().filter { $0.kind == .addTag }
    #expect(tags.map(\.tag) == ["one", "two"] && tags.allSatisfy { $0.dependsOn.contains(create.id) })
    #expect(try bench.copy.queue.all().allSatisfy { $0.kind != .createEdge })
    #expect(create.body?["edges"] == ["references": [.string(target.text)]] && create.body?["tags"] == nil)
    try bench.copy.queue.drain()
    let id = try #require(create.itemID)
    let row = try bench.ask("GET", "/items/\(id)?include=edges,metadata")
    #expect(row["metadata"]?["tags"] == ["one", "two"])
    #expect(row["item"]?["edges"]?["references"]?["data"]?.array?.count == 1)
  }

  @Test("D-S146 a note saved with no server shows at library, is queued, and goes in the first drain after a fill")
  func beforeFill() throws {
    let bench = try CopyBench()
    let lone = try WorkingCopy.open(
      database: bench.database, blobs: MemoryBlobStore(), context: bench.context, role: .writer, endpoint: nil,
      credentials: nil)
    let write = try lone.queue.createItem(ItemDraft(type: "core.note", properties: ["title": "Mine", "body": "x"]))
    let id = try #require(write.itemID)
    #expect(try lone.get(id)?.tier == "library")
    #expect(try titles(lone.list(ListQuery())) == ["Mine"])
    #expect(try lone.queue.unansweredCount() == 1)
    try bench.reopen()
    try bench.fill()
    #expect(try bench.copy.queue.unansweredCount() == 1)
    #expect(try bench.copy.queue.drain().verdicts.map(\.verdict) == [.accepted])
    #expect(try bench.ask("GET", "/items/\(id)")["item"]?["tier"]?.text == "library")
  }

  @Test("D-S151 creates at each tier land where they show; a save by the key of a feed row does not move it")
  func tiers() throws {
    let bench = try CopyBench()
    try bench.fill(tier: "all")
    var ids: [(EntityID, Text)] = []
    for tier in ["library", "feed", nil] as [Text?] {
      let write = try bench.copy.queue.createItem(
        ItemDraft(type: "core.note", properties: ["title": "N", "body": "x"], tier: tier))
      let id = try #require(write.itemID)
      #expect(try bench.copy.get(id)?.tier == tier ?? "library")
      ids.append((id, tier ?? "library"))
    }
    try bench.copy.queue.drain()
    for (id, tier) in ids {
      #expect(try bench.copy.get(id)?.tier == tier)
      #expect(try bench.ask("GET", "/items/\(id)")["item"]?["tier"]?.text == tier)
    }
    let made = try bench.ask(
      "POST", "/items",
      ["type": "core.note", "tier": "feed", "source_id": "k", "properties": ["title": "Fed", "body": "x"]])
    let fed = try #require(made["item"]?["id"]?.text.flatMap { EntityID($0) })
    try bench.copy.catchUp()
    try bench.copy.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "Fed again", "body": "x"], sourceID: "k"))
    try bench.copy.queue.drain()
    #expect(try bench.copy.get(fed)?.tier == "feed")
    #expect(try bench.copy.get(fed)?.properties["title"]?.text == "Fed again")
  }

  @Test("D-S152 tags outside the bounds are refused on each door with nothing saved; 128 units and 100 tags are taken")
  func tagBounds() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    let many = (0..<101).map { Text("t\($0)") }
    let long = Text(String(repeating: "\u{1F600}", count: 64) + "x")
    #expect(long.utf16Count == 129)
    for tags in [[""], [" \u{A0}\u{FEFF}\n"], [long], many] as [[Text]] {
      var doors: [() throws -> Void] = [
        {
          try bench.copy.queue.createItem(
            ItemDraft(type: "core.note", properties: ["title": "N", "body": "x"], tags: tags))
        }, { try bench.copy.queue.mergeTags(note, tags) }, { try bench.copy.queue.replaceTags(note, tags) },
        { try bench.copy.addFile(try bench.file("a.png", "bytes"), name: "a.png", tags: tags) },
      ]
      if tags.count == 1 { doors.append { try bench.copy.queue.addTag(note, tags[0]) } }
      for door in doors {
        let refusal = bench.refusal(door)
        #expect(refusal?.code == .validation && refusal?.server?.code == "validation_error")
      }
    }
    #expect(try bench.copy.queue.all().isEmpty && bench.copy.status().items == 1)
    let fits = Text(String(repeating: "\u{1F600}", count: 64))
    try bench.copy.queue.addTag(note, fits)
    try bench.copy.queue.mergeTags(note, Array(many.prefix(99)))
    #expect(bench.refusal { try bench.copy.queue.addTag(note, "one more") }?.code == .validation)
    let report = try bench.copy.queue.drain()
    #expect(report.verdicts.map(\.verdict) == [.accepted, .accepted])
    #expect(try bench.copy.get(note)?.tags.count == 100)
  }

  @Test("D-S153 a property with an empty name is refused in a create and in an edit; with a name it is taken")
  func propertyNames() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    for refusal in [
      bench.refusal {
        try bench.copy.queue.createItem(ItemDraft(type: "core.note", properties: ["title": "N", "body": "x", "": 1]))
      }, bench.refusal { try bench.copy.queue.updateItem(note, ItemEdit(properties: ["": 1], version: 1)) },
    ] {
      #expect(refusal?.code == .validation && refusal?.server?.code == "validation_error")
    }
    #expect(try bench.copy.queue.all().isEmpty)
    try bench.copy.queue.updateItem(note, ItemEdit(properties: ["a": 1], version: 1))
    #expect(try bench.copy.queue.drain().verdicts.map(\.verdict) == [.accepted])
  }

  @Test("I0.6 an unsent create shows the number its type has, as the server then gives it")
  func schemaVersion() throws {
    let bench = try CopyBench()
    try bench.ask("POST", "/types", ["id": "acme.thing", "fields": ["body": ["type": "string"]]])
    try bench.ask(
      "PUT", "/types/acme.thing", ["version": 4, "fields": ["body": ["type": "string"], "place": ["type": "string"]]])
    try bench.fill(["core.note", "acme.thing"])
    let number = try #require(try bench.ask("GET", "/types/acme.thing")["version"]?.int)
    #expect(number == 4)
    for (type, expected) in [("core.note", 0), ("acme.thing", number)] as [(Text, Int)] {
      let write = try bench.copy.queue.createItem(ItemDraft(type: type, properties: ["title": "N", "body": "x"]))
      let id = try #require(write.itemID)
      #expect(try bench.copy.item(id)?.schemaVersion == expected)
      try bench.copy.queue.drain()
      #expect(try bench.copy.item(id)?.schemaVersion == expected)
      #expect(try bench.ask("GET", "/items/\(id)")["item"]?["schema_version"]?.int == expected)
    }
  }

  @Test("D-S155 D100.1 D54.4 an id that is no UUIDv7 is refused invalid_id; a read back answered so is absence")
  func ids() throws {
    let bench = try CopyBench()
    let (a, b) = (try bench.note("A"), try bench.note("B"))
    try bench.fill()
    let other = try #require(EntityID("01990000-0000-4000-8000-0000000000a1"))
    for refusal in [
      bench.refusal {
        try bench.copy.queue.createItem(
          ItemDraft(id: other, type: "core.note", properties: ["title": "N", "body": "x"]))
      },
      bench.refusal { try bench.copy.queue.createEdge(EdgeDraft(id: other, source: a, target: b, type: "references")) },
    ] {
      #expect(refusal?.code == .validation && refusal?.server?.code == "invalid_id")
    }
    #expect(try bench.copy.queue.all().isEmpty)
    bench.transport.before = { request in
      request.method == "GET" && request.url.contains("/items/\(a)") ? bench.named(400, "invalid_id") : nil
    }
    // No other spelling of an id is one here either.
    for text in ["0199000000007000800000000000000a1", "01990000-0000-7000-8000-0000000000a1 ", "a1", ""] as [Text] {
      #expect(EntityID(text) == nil)
    }
    #expect(try bench.copy.freshRead(item: a) == nil)
    #expect(try bench.copy.item(a) == nil)
    bench.transport.before = nil
    let edge = try bench.edge("references", b, try bench.note("C"))
    try bench.copy.catchUp()
    bench.transport.before = { request in
      request.method == "GET" && request.url.contains("/edges/\(edge)") ? bench.named(400, "invalid_id") : nil
    }
    #expect(try bench.copy.freshRead(edge: edge) == nil)
    #expect(try bench.copy.edge(edge) == nil)
    #expect(try bench.copy.hydration() == .complete)
  }

  @Test("D-S156 properties keep one order: shown and answered, through a fill, and onto an answer ahead")
  func order() throws {
    let bench = try CopyBench()
    try bench.fill()
    let create = try bench.copy.queue.createItem(
      ItemDraft(type: "core.note", properties: ["z": 1, "10": 1, "body": "x", "2": 1, "title": "N", "a": 1]))
    let id = try #require(create.itemID)
    func shown() throws -> [Text] { try bench.copy.get(id)?.properties.keys ?? [] }
    let first = try shown()
    #expect(first.prefix(2) == ["2", "10"] && first.suffix(2) == ["z", "a"])
    // A merge onto the create's answer ahead of it.
    try bench.copy.queue.updateItem(id, ItemEdit(properties: ["new": 1, "body": "y"], version: 0))
    let merged = try shown()
    #expect(merged == first + ["new"])
    try bench.copy.queue.drain()
    #expect(try shown() == merged)
    try bench.fill()
    #expect(try shown() == merged)
    try bench.copy.queue.updateItem(
      id, ItemEdit(properties: ["body": "w", "later": 1, "title": "M", "z": 2], mode: .replace, version: 2))
    let whole = try shown()
    #expect(whole == ["body", "later", "title", "z"])
    try bench.fill()
    #expect(try shown() == whole)
    try bench.copy.queue.drain()
    #expect(try shown() == whole)
    try bench.fill()
    #expect(try shown() == whole)
  }
}

@Suite("Bytes") struct ByteScenarios {
  @Test("D-S158 a thumbnail is answered from the row; a row not held is not one without")
  func thumbnail() throws {
    let bench = try CopyBench()
    try bench.ask(
      "POST", "/types",
      ["id": "acme.pic", "fields": ["title": ["type": "string"], "icon": ["type": "thumbnail"]]])
    let made = try bench.ask(
      "POST", "/items",
      [
        "type": "acme.pic", "tier": "library",
        "properties": ["title": "P", "icon": "data:image/png;base64,iVBORw0KGgo="],
      ])
    let id = try #require(made["item"]?["id"]?.text.flatMap { EntityID($0) })
    let bare = try bench.note("Bare")
    try bench.fill(["acme.pic", "core.note"])
    bench.transport.clear()
    let found = try #require(try bench.copy.thumbnail(id))
    #expect(found.mimeType == "image/png" && found.bytes == [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A])
    #expect(try bench.copy.thumbnail(bare) == nil)
    #expect(bench.refusal { _ = try bench.copy.thumbnail(bench.newID()) }?.code == .notHeld)
    #expect(bench.transport.requests.isEmpty)
  }

  @Test("D-S159 a thumbnail's base64 is found by no search, whichever way it came")
  func thumbnailUnsearched() throws {
    let bench = try CopyBench()
    try bench.ask(
      "POST", "/types",
      [
        "id": "acme.pic",
        "fields": [
          "title": ["type": "string"], "body": ["type": "string"], "icon": ["type": "thumbnail"],
        ],
      ])
    let image: JSON = "data:image/png;base64,iVBORw0KGgo="
    func unfound(_ id: EntityID, _ words: Text = "iVBORw0KGgo") throws {
      #expect(try bench.copy.get(id) != nil)
      #expect(try bench.copy.search(words).isEmpty && bench.copy.search("base64").isEmpty)
    }
    func make(_ more: JSONObject = JSONObject()) throws -> EntityID {
      var draft: JSONObject = ["type": "acme.pic", "tier": "library", "properties": ["title": "P", "icon": image]]
      for (name, value) in more.members { draft[name] = value }
      let made = try bench.ask("POST", "/items", .object(draft))
      return try #require(made["item"]?["id"]?.text.flatMap { EntityID($0) })
    }
    let filled = try make()
    try bench.fill(["acme.pic"])
    try unfound(filled)
    // An applied event, a read back, a local edit, its answer, and the edit laid back by a fill.
    let event = try make()
    try bench.copy.catchUp()
    try unfound(event)
    _ = try bench.copy.freshRead(item: event)
    try unfound(event)
    try bench.copy.queue.updateItem(filled, ItemEdit(properties: ["icon": image], version: 1))
    try unfound(filled)
    try bench.fill(["acme.pic"])
    try unfound(filled)
    try bench.copy.queue.drain()
    try unfound(filled)
    // A create that lands on a row of its key.
    let landed = try make(["source_id": "k"])
    try bench.copy.queue.createItem(
      ItemDraft(type: "acme.pic", properties: ["title": "P", "icon": image], sourceID: "k"))
    try bench.copy.queue.drain()
    try unfound(landed)
    // Learned late, after another image and after the property was read again for: the held rows are indexed anew.
    var late = true
    bench.transport.after = { request, response in
      guard late, request.url.hasSuffix("/types") else { return .success(response) }
      var changed = response
      let text = String(decoding: response.body, as: UTF8.self)
      changed.body = Array(text.replacing("\"type\":\"thumbnail\"", with: "\"type\":\"string\"").utf8)
      return .success(changed)
    }
    try bench.copy.catchUp()
    _ = try make()
    let last = try make()
    try bench.copy.catchUp()
    #expect(try bench.copy.search("iVBORw0KGgo").isEmpty == false)
    late = false
    try bench.copy.catchUp()
    try unfound(last)
  }

  @Test(
    "D-S160 fetched bytes are asked for once, again where taken away; wrong ones are not kept; absent ones leave the item"
  )
  func fetched() throws {
    let bench = try CopyBench()
    let bytes = Array("png bytes".utf8)
    let hash = ContentHash(of: bytes)
    let file = try bench.uploaded(bytes, "a.png")
    try bench.fill(["core.file"])
    _ = try bench.copy.bytes(hash)
    bench.transport.clear()
    _ = try bench.copy.bytes(hash)
    #expect(bench.transport.requests.isEmpty)
    bench.copy.blobs.remove(hash)
    _ = try bench.copy.bytes(hash)
    #expect(bench.transport.requests.filter { $0.contains("/url") }.count == 1)
    bench.copy.blobs.remove(hash)
    bench.transport.before = { request in
      request.url.contains("/fetch?") ? .success(HTTPResponse(status: 200, headers: [], body: [1])) : nil
    }
    #expect(bench.refusal { _ = try bench.copy.bytes(hash) }?.code == .decoding)
    #expect(!bench.copy.blobs.has(hash))
    for how in ["404", "unreachable", "dead link"] {
      bench.transport.before = { request in
        switch how {
        case "404": request.url.contains("/url") ? bench.named(404, "blob_not_found") : nil
        case "unreachable": .failure(.unreachable("offline"))
        default: request.url.contains("/fetch?") ? .success(HTTPResponse(status: 410, headers: [], body: [])) : nil
        }
      }
      let refusal = bench.refusal { _ = try bench.copy.bytes(hash) }
      #expect(refusal?.code == .bytesAbsent && refusal?.message.contains(hash.hex) == true, "\(how)")
      #expect(try bench.copy.get(file)?.properties["blob_ref"]?.text == hash.text)
    }
  }

  @Test("D-S161 the bytes a file had when queued are sent, under their hash and type; an empty one is refused")
  func upload() throws {
    let bench = try CopyBench()
    try bench.fill()
    let first = try bench.file("a.png", "first bytes")
    let write = try bench.copy.queue.upload(file: first, mimeType: "image/png")
    _ = try bench.file("a.png", "later bytes")
    let hash = ContentHash(of: Array("first bytes".utf8))
    #expect(write.blob == hash)
    #expect(
      bench.refusal { try bench.copy.queue.upload(file: bench.file("b.png", ""), mimeType: "image/png") }?.code
        == .invalid)
    #expect(try bench.copy.queue.all().count == 1)
    #expect(try bench.copy.queue.drain().verdicts.map(\.verdict) == [.accepted])
    let sent = try #require(bench.transport.sent.last { $0.method == "POST" })
    #expect(sent.headers.contains { $0.name == "Content-Type" && $0.value == "image/png" })
    guard case .bytes(let bytes) = sent.body else { throw ScratchError("no bytes") }
    #expect(bytes == Array("first bytes".utf8))
  }

  @Test(
    "D-S162 other bytes answered count once; bytes gone are refused unsent; bytes that can't be opened wait and say so")
  func uploadFaults() throws {
    let bench = try CopyBench()
    try bench.fill()
    let other = try bench.copy.queue.upload(file: bench.file("a.png", "one"), mimeType: "image/png")
    bench.transport.after = { request, response in
      guard request.method == "POST" else { return .success(response) }
      var changed = response
      changed.body = JSON.object(["hash": .string(ContentHash(of: [9]).text), "mime_type": "x", "size_bytes": 1])
        .write()
      return .success(changed)
    }
    try bench.copy.queue.drain()
    #expect(try bench.copy.queue.write(other.id)?.verdict == nil)
    #expect(try bench.copy.queue.write(other.id)?.refusals == 1)
    bench.transport.after = nil
    try bench.copy.queue.drain()
    let gone = try bench.copy.queue.upload(file: bench.file("b.png", "two"), mimeType: "image/png")
    bench.copy.blobs.remove(ContentHash(of: Array("two".utf8)))
    bench.transport.clear()
    let report = try bench.copy.queue.drain()
    let refused = try #require(try bench.copy.queue.write(gone.id))
    #expect(refused.verdict == .refused)
    #expect(refused.reason?.string.contains(ContentHash(of: Array("two".utf8)).hex) == true)
    #expect(report.unsent == 1 && bench.transport.sent.allSatisfy { $0.method == "GET" })

    let locked = LockedBlobs(bench.copy.blobs)
    let copy = try WorkingCopy.open(
      database: bench.database, blobs: locked, context: bench.context, role: .writer,
      endpoint: Endpoint(baseURL: CopyBench.origin, credential: CopyBench.key), credentials: nil)
    let unopened = try copy.queue.upload(file: bench.file("c.png", "three"), mimeType: "image/png")
    locked.isLocked = true
    let left = try copy.queue.drain()
    #expect(try copy.queue.write(unopened.id)?.verdict == nil && copy.queue.write(unopened.id)?.refusals == 0)
    #expect(left.undelivered == 1 && left.verdicts.first?.reason?.string.contains("opened") == true)
  }

  @Test(
    "D-S163 an attach is three chained writes, as given; a refused upload refuses all; a host that is nowhere, none")
  func attach() throws {
    let bench = try CopyBench()
    let (host, binned) = (try bench.note("Host"), try bench.note("Binned"))
    try bench.ask("DELETE", "/items/\(binned)?version=1")
    try bench.fill(["core.note", "core.file"], tier: "all")
    for nowhere in [bench.newID(), binned] {
      let refusal = bench.refusal {
        try bench.copy.attach(try bench.file("a.png", "bytes"), name: "a.png", to: nowhere)
      }
      #expect(refusal?.code == .notFound)
    }
    #expect(try bench.copy.queue.all().isEmpty)
    let added = try bench.copy.attach(
      try bench.file("a.png", "bytes"), name: "a.png", to: host, title: "Given", type: "core.file", tier: "feed")
    let edge = try #require(added.edge)
    #expect(try bench.copy.queue.all().map(\.kind) == [.uploadBlob, .createItem, .createEdge])
    #expect(added.create.dependsOn == [added.upload.id] && edge.dependsOn == [added.create.id])
    #expect(edge.itemID == added.item && edge.targetID == host)
    let item = try #require(try bench.copy.get(added.item))
    #expect(item.properties["title"]?.text == "Given" && item.type == "core.file" && item.tier == "feed")
    #expect(try bench.copy.queue.drain().verdicts.map(\.verdict) == [.accepted, .accepted, .accepted])
    #expect(try bench.copy.readEdges(to: host).map(\.source) == [added.item])

    let second = try bench.copy.attach(try bench.file("b.png", "more"), name: "b.png", to: host)
    bench.copy.blobs.remove(ContentHash(of: Array("more".utf8)))
    try bench.copy.queue.drain()
    for id in [second.upload.id, second.create.id, try #require(second.edge).id] {
      #expect(try bench.copy.queue.write(id)?.verdict == .refused)
    }
    #expect(try bench.copy.get(second.item) == nil)
  }

  @Test("D-S164 D-S165 a file on its own is an upload and an item with its size, tags behind it, defaults by extension")
  func addFile() throws {
    let bench = try CopyBench()
    try bench.fill(["core.file"], tier: "all")
    let given = try bench.copy.addFile(
      try bench.file("x.png", "bytes"), name: "x.png", title: "Given", type: "core.file", tier: "feed",
      tags: ["one", "two"])
    #expect(try bench.copy.queue.all().map(\.kind) == [.uploadBlob, .createItem, .addTag, .addTag])
    #expect(try bench.copy.get(given.item)?.properties["title"]?.text == "Given")
    #expect(try bench.copy.get(given.item)?.tags == ["one", "two"])
    let table: [(PathBytes, Text, Text)] = [
      ("Photo.JPG", "image/jpeg", "core.file.image"), ("song.MP3", "audio/mpeg", "core.file.audio"),
      ("film.webm", "video/webm", "core.file.video"), ("book.EPUB", "application/epub+zip", "core.file"),
      (
        "letter.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "core.file"
      ), ("odd.qqq", "application/octet-stream", "core.file"), ("none", "application/octet-stream", "core.file"),
    ]
    var ids: [EntityID] = [given.item]
    for (name, mime, type) in table {
      let added = try bench.copy.addFile(try bench.file(name, "bytes of \(name)"), name: name)
      let item = try #require(try bench.copy.get(added.item))
      #expect(item.properties["mime_type"]?.text == mime && item.type == type, "\(name)")
      #expect(item.properties["title"]?.text == name.text)
      ids.append(added.item)
    }
    let sizes = try ids.map { try bench.copy.get($0)?.properties["size_bytes"]?.int }
    #expect(sizes.first == 5 && sizes.allSatisfy { ($0 ?? 0) > 0 })
    try bench.copy.queue.drain()
    #expect(try bench.copy.queue.all().allSatisfy { $0.verdict == .accepted })
    #expect(try ids.map { try bench.copy.get($0)?.properties["size_bytes"]?.int } == sizes)
    for id in ids {
      let row = try bench.ask("GET", "/items/\(id)?include=edges")
      #expect(row["item"]?["edges"]?.object?.isEmpty == true)
    }
  }

  @Test(
    "D98.1 D98.2 D98.3 D99.1 an attachment's title is free among the host's; its embed names it alone, or none is given"
  )
  func embeds() throws {
    let bench = try CopyBench()
    let host = try bench.note("Host", body: "Words.")
    try bench.fill(["core.note", "core.file"])
    let first = try bench.copy.attach(try bench.file("a.png", "one"), name: "a.png", to: host)
    let second = try bench.copy.attach(try bench.file("a.png", "one"), name: "a.png", to: host)
    #expect(first.embed == "![[a.png]]" && second.embed == "![[a 2.png]]")
    #expect(try bench.copy.embedText(of: first.item, in: host) == "![[a.png]]")
    let shared = try bench.copy.attach(try bench.file("b.png", "two"), name: "b.png", to: host, title: "a.png")
    #expect(shared.embed == nil)
    for id in [shared.item, first.item, host] {
      #expect(bench.refusal { _ = try bench.copy.embedText(of: id, in: host) }?.code == .invalid)
    }
    let lone = try bench.copy.addFile(try bench.file("c.png", "three"), name: "c.png")
    #expect(bench.refusal { _ = try bench.copy.embedText(of: lone.item, in: host) }?.code == .invalid)
    let embedded = try bench.copy.embed(try bench.file("d.png", "four"), name: "d.png", in: host)
    #expect(embedded.embed == "![[d.png]]")
    #expect(try bench.copy.get(host)?.properties["body"]?.text == "Words.\n\n![[d.png]]")
    let refusal = bench.refusal {
      try bench.copy.embed(try bench.file("e.md", "five"), name: "e.md", in: host)
    }
    #expect(refusal?.code == .invalid)
    let left = try #require(refusal?.reason.flatMap { EntityID(Text($0)) })
    #expect(try bench.copy.readEdges(to: host).contains { $0.source == left })
    #expect(try bench.copy.get(host)?.properties["body"]?.text == "Words.\n\n![[d.png]]")
  }
}

/// Bytes that may be there and yet not to be opened.
private final class LockedBlobs: BlobStore {
  private let blobs: any BlobStore
  var isLocked = false
  init(_ blobs: any BlobStore) { self.blobs = blobs }
  func has(_ hash: ContentHash) -> Bool { blobs.has(hash) }
  func open(_ hash: ContentHash) throws(FileError) -> (any ReadableFile)? {
    if isLocked { throw FileError(code: 13, operation: "open", path: "locked") }
    return try blobs.open(hash)
  }
  func size(_ hash: ContentHash) -> Int64? { blobs.size(hash) }
  func path(_ hash: ContentHash) -> PathBytes? { blobs.path(hash) }
  func incoming() throws(FileError) -> any IncomingBlob { try blobs.incoming() }
  func remove(_ hash: ContentHash) { blobs.remove(hash) }
  func all() -> [(hash: ContentHash, size: Int64)] { blobs.all() }
}

extension CopyBench {
  /// A file of these bytes, in the place of one of that name.
  func file(_ name: PathBytes, _ text: String) throws -> any ReadableFile {
    _ = try context.files.makeDirectories("/files", mode: 0o755)
    let directory = try context.files.openDirectory("/files")
    if try directory.status(of: name) != nil { try directory.unlink(name) }
    let file = try directory.create(name, mode: 0o644, exactMode: false)
    try file.write(Array(text.utf8))
    try file.close()
    return try directory.open(name)
  }
}
