import LocalInstance
import MarfaBase
import MarfaCopy
import Testing
import TestSupport

@Suite("Which event wins") struct EventOrderScenarios {
  @Test("D-S65 a catch-up opens at the stored cursor and takes every event")
  func resumes() throws {
    let bench = try CopyBench()
    let note = try bench.note("One")
    try bench.fill()
    let cursor = try #require(try bench.copy.status().eventCursor)
    try bench.edit(note, version: 1, ["properties": ["title": "Two"]])
    try bench.note("Three")
    bench.transport.clear()
    let report = try bench.copy.catchUp()
    let stream = try #require(bench.transport.sent.last { $0.url.contains("/events") })
    #expect(stream.headers.first { $0.name == "Last-Event-ID" }?.value == cursor.string)
    #expect(stream.headers.first { $0.name == "X-Marfa-Read-View" }?.value == (try bench.meta("read_view"))?.string)
    #expect(stream.url.hasSuffix("/events?edges=all&copy=1"))
    #expect(report.applied == 2 && report.skipped == 0 && report.reachedHead)
    #expect(try bench.held() == ["Three", "Two"])
  }

  @Test("D-S66 the cursor is the last event taken, never the highest")
  func lowerCursor() throws {
    let bench = try CopyBench()
    let (a, b) = (try bench.note("A"), try bench.note("B"))
    try bench.fill()
    let script = StreamScript(
      bench,
      [
        .frames(
          try bench.cut([
            bench.event(at: "12", a, version: 2, title: "A2"), bench.event(at: "11", b, version: 2, title: "B2"),
          ])),
        .frames(try bench.stream([], live: "1000")),
      ])
    #expect(bench.refusal { try bench.copy.catchUp() }?.code == .streamIncomplete)
    #expect(try bench.copy.status().eventCursor == "11")
    #expect(try bench.held() == ["A2", "B2"])
    try bench.copy.catchUp()
    #expect(script.opened == ["2", "11"])
  }

  @Test("D-S67 an older version is skipped, the cursor moves and later events are applied")
  func olderVersion() throws {
    let bench = try CopyBench()
    let note = try bench.note("A")
    try bench.fill()
    _ = StreamScript(
      bench,
      [
        .frames(
          try bench.stream(
            [
              bench.event(at: "10", note, version: 3, title: "Three"),
              bench.event(at: "11", note, version: 2, title: "Two"),
              bench.event(at: "12", note, version: 4, title: "Four"),
            ], live: "12"))
      ])
    var before: Text?
    bench.transport.after = { _, response in
      before = before ?? "x"
      return .success(response)
    }
    let report = try bench.copy.catchUp()
    #expect(report.applied == 2 && report.skipped == 1 && report.cursor == "12")
    #expect(try bench.copy.item(note)?.properties["title"]?.text == "Four")
  }

  @Test("D-S68 the held version stamped earlier is skipped; of equal stamps the later in the stream is applied")
  func stamps() throws {
    let bench = try CopyBench()
    let note = try bench.note("A")
    try bench.fill()
    let held = try #require(try bench.copy.item(note))
    let before = Timestamp(milliseconds: held.updatedAt.milliseconds - 1)
    let same = held.updatedAt
    func run(_ frames: [String], live: Text) throws -> CatchUpReport {
      _ = StreamScript(bench, [.frames(try bench.stream(frames, live: live))])
      defer { bench.transport.before = nil }
      return try bench.copy.catchUp()
    }
    let early = try run([bench.event(at: "10", note, updated: before, title: "Early")], live: "10")
    #expect(early.skipped == 1 && early.applied == 0)
    #expect(try bench.copy.item(note)?.properties["title"]?.text == "A")
    let archived = try run(
      [bench.event("item.state_changed", at: "11", note, state: "archived", updated: same, title: "A")], live: "11")
    #expect(archived.applied == 1)
    #expect(try bench.copy.item(note)?.state == "archived")
    _ = try run([bench.event("item.deleted", at: "12", note, state: "trashed", updated: same, title: "A")], live: "12")
    #expect(try bench.copy.rowState(note) == .trashed)
    _ = try run([bench.event("item.restored", at: "13", note, updated: same, title: "A")], live: "13")
    #expect(try bench.copy.item(note)?.state == "active")
    _ = try run([bench.event("metadata.changed", at: "14", note, updated: same, title: "A", tags: ["t"])], live: "14")
    #expect(try bench.copy.item(note)?.tags == ["t"])
  }

  @Test("D-S69 events go beneath waiting and blocked edits, of rows and of edges")
  func beneath() throws {
    let bench = try CopyBench()
    let (waiting, blocked) = (try bench.note("Waiting"), try bench.note("Blocked"))
    let edge = try bench.edge("references", waiting, blocked)
    try bench.fill()
    let first = try bench.copy.queue.updateItem(blocked, ItemEdit(properties: ["title": "Mine"], version: 1))
    bench.transport.before = { request in
      request.method == "PATCH" ? bench.conflict(blocked) : nil
    }
    try bench.copy.queue.drain()
    bench.transport.before = nil
    #expect(try bench.copy.queue.write(first.id)?.verdict == .blocked)
    try bench.copy.queue.updateItem(waiting, ItemEdit(properties: ["title": "Mine too"], version: 1))
    try bench.copy.queue.updateEdge(edge, version: 1, properties: ["mine": 1])
    for id in [waiting, blocked] { try bench.edit(id, version: 1, ["properties": ["body": "Theirs."]]) }
    try bench.ask("PATCH", "/edges/\(edge)", ["version": 1, "properties": ["theirs": 2]])
    try bench.copy.catchUp()
    for (id, title) in [(waiting, "Mine too"), (blocked, "Mine")] as [(EntityID, Text)] {
      let item = try #require(try bench.copy.item(id))
      #expect(item.properties["title"]?.text == title && item.properties["body"]?.text == "Theirs.")
      #expect(item.version == 2)
    }
    let shown = try #require(try bench.copy.edge(edge))
    #expect(shown.properties["mine"]?.int == 1 && shown.properties["theirs"]?.int == 2 && shown.version == 2)
  }

  @Test("D-S76 a waiting move of an edge's target shows over the instance's change")
  func waitingMove() throws {
    let bench = try CopyBench()
    let (a, b, c) = (try bench.note("A"), try bench.note("B"), try bench.note("C"))
    let edge = try bench.edge("in-thread", a, b)
    try bench.fill()
    try bench.copy.queue.updateEdge(edge, version: 1, target: c)
    #expect(try bench.copy.edge(edge)?.target == c)
    try bench.ask("PATCH", "/edges/\(edge)", ["version": 1, "properties": ["theirs": 2]])
    try bench.copy.catchUp()
    #expect(try bench.copy.edge(edge)?.target == c)
    #expect(try bench.copy.edge(edge)?.properties["theirs"]?.int == 2)
    #expect(try bench.copy.serverEdge(edge)?.target == b)
  }
}

@Suite("Rows and edges in and out") struct InAndOutScenarios {
  @Test(
    "D-S70 a row that leaves the slice by tier or type takes the edges it draws, edges to it stay, no stream is narrowed",
    arguments: ["tier", "type"], [false, true])
  func leaves(_ by: String, _ held: Bool) throws {
    let bench = try CopyBench()
    let (leaving, staying) = (try bench.note("Leaving"), try bench.note("Staying"))
    try bench.edge("references", leaving, staying)
    let inward = try bench.edge("references", staying, leaving)
    try bench.fill()
    let frames = try bench.stream(
      [
        bench.event(
          at: "100", leaving, type: by == "type" ? "core.bookmark" : "core.note",
          tier: by == "tier" ? "feed" : "library",
          version: 2)
      ], live: "100")
    _ = StreamScript(bench, [.frames(frames)])
    bench.transport.clear()
    if held {
      var told: [EntityID?] = []
      _ = try bench.copy.follow { change in
        told.append(change.itemID)
        return .enough
      }
      // A row that left is a change (D40.2).
      #expect(told == [leaving])
    } else {
      try bench.copy.catchUp()
    }
    #expect(try bench.copy.item(leaving) == nil)
    #expect(try bench.copy.edges(from: leaving).isEmpty)
    #expect(try bench.copy.edges(to: leaving).map(\.id) == [inward])
    #expect(bench.transport.requests.filter { $0.contains("/events") } == ["GET /events?edges=all&copy=1"])
  }

  @Test("D-S71 listed:false lets a held row go")
  func unlisted() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    _ = StreamScript(bench, [.frames(try bench.stream([bench.event(at: "100", note, version: 2, listed: false)]))])
    #expect(try bench.copy.catchUp().applied == 1)
    #expect(try bench.copy.item(note) == nil)
  }

  @Test("D-S72 a purge takes the edges at both ends, those held whole too")
  func purgeEdges() throws {
    let bench = try CopyBench()
    let (gone, other) = (try bench.note("Gone"), try bench.note("Other"))
    try bench.edge("references", gone, other)
    try bench.edge("references", other, gone)
    try bench.edge("parent-of", other, gone)
    try bench.fill()
    #expect(try bench.copy.status().edges == 3)
    try bench.ask("DELETE", "/items/\(gone)?version=1")
    try bench.ask("POST", "/items/\(gone)/purge?version=1")
    try bench.copy.catchUp()
    #expect(try bench.copy.item(gone) == nil)
    #expect(try bench.copy.status().edges == 0)
  }

  @Test("D-S73 an event for a row outside that was never held adds nothing")
  func neverHeld() throws {
    let bench = try CopyBench()
    let fed = try bench.note("Fed", tier: "feed")
    try bench.fill()
    try bench.edit(fed, version: 1, ["properties": ["title": "Fed again"]])
    try bench.note("Mark", type: "core.bookmark")
    let report = try bench.copy.catchUp()
    #expect(report.applied == 0 && report.skipped == 2)
    #expect(try bench.copy.status().items == 0)
  }

  @Test("D-S74 of edges between outsiders those of a type held whole are held alone, and stay when their source leaves")
  func wholeEdges() throws {
    let bench = try CopyBench()
    let (a, b) = (try bench.note("A", tier: "feed"), try bench.note("B", tier: "feed"))
    let inside = try bench.note("Inside")
    try bench.fill()
    let whole = try bench.edge("parent-of", a, b)
    let other = try bench.edge("references", a, b)
    let own = try bench.edge("parent-of", inside, a)
    try bench.copy.catchUp()
    #expect(try bench.copy.edge(whole) != nil)
    #expect(try bench.copy.edge(other) == nil)
    try bench.edit(inside, version: 1, ["tier": "feed"])
    try bench.copy.catchUp()
    #expect(try bench.copy.item(inside) == nil)
    #expect(try bench.copy.edge(own)?.target == a)
  }

  @Test("D-S75 an edge whose source moves to a row not held goes, unless a write of this device's waits on it")
  func sourceMoves() throws {
    let bench = try CopyBench()
    let (a, b, target) = (try bench.note("A"), try bench.note("B"), try bench.note("Target"))
    let outside = try bench.note("Outside", tier: "feed")
    let edges = try ["about", "references", "derived-from"].map { try bench.edge($0, a, target) }
    try bench.fill()
    // Moves of this device's end the view, so the events are scripted.
    try bench.copy.queue.updateEdge(edges[2], version: 1, properties: ["mine": 1])
    _ = StreamScript(
      bench,
      [
        .frames(
          try bench.stream([
            bench.edgeEvent("edge.updated", at: "100", edges[0], "about", b, target, version: 2),
            bench.edgeEvent("edge.updated", at: "101", edges[1], "references", outside, target, version: 2),
            bench.edgeEvent("edge.updated", at: "102", edges[2], "derived-from", outside, target, version: 2),
          ]))
      ])
    #expect(try bench.copy.catchUp().applied == 3)
    #expect(try bench.copy.edge(edges[0])?.source == b)
    #expect(try bench.copy.edge(edges[1]) == nil)
    #expect(try bench.copy.edge(edges[2])?.properties["mine"]?.int == 1)
  }

  @Test("D-S77 a row that enters by a retype or a tier move comes with its tags and every page of its edges")
  func enters() throws {
    let bench = try CopyBench()
    let target = try bench.note("Target")
    try bench.fill()
    for (position, many) in [(100, false), (101, true)] {
      let entering = bench.newID()
      let edges = (0..<3).map { _ in bench.newID() }
      func edge(_ id: EntityID) -> JSON {
        [
          "id": .string(id.text), "source_id": .string(entering.text), "target_id": .string(target.text),
          "edge_type": "references", "properties": [:], "version": 1, "created_at": .string(bench.clock.now.text),
          "updated_at": .string(bench.clock.now.text),
        ]
      }
      let now: JSON = .string(bench.clock.now.text)
      bench.transport.before = { request in
        if request.url.contains("/items/\(entering)?include=edges%2Cmetadata") {
          let block: JSON = [
            "references": ["data": [edge(edges[0])], "next_cursor": many ? "two" : .null]
          ]
          return bench.certified(
            request,
            [
              "item": [
                "id": .string(entering.text), "type": "core.note", "tier": "library", "state": "active",
                "properties": ["title": "Entering"], "version": 2, "created_at": now, "updated_at": now, "edges": block,
              ], "metadata": ["tags": ["tagged"], "extensions": [:]], "listed": true,
            ])
        }
        guard request.url.contains("/items/\(entering)/edges?") else { return nil }
        let last = request.url.contains("cursor=three")
        return bench.certified(
          request, ["data": [edge(edges[last ? 2 : 1])], "next_cursor": last ? .null : "three"])
      }
      let by = many ? "core.note" : "core.note"
      _ = StreamScript(
        bench,
        [
          .frames(
            try bench.stream(
              [
                bench.event(
                  at: Text("\(position)"), entering, type: Text(by), version: 2, title: "Entering", tags: ["tagged"])
              ], live: Text("\(position)")))
        ])
      try bench.copy.catchUp()
      #expect(try bench.copy.item(entering)?.tags == ["tagged"])
      #expect(Set(try bench.copy.edges(from: entering).map(\.id)) == Set(many ? edges : [edges[0]]))
      bench.transport.before = nil
    }
  }

  @Test("D-S78 where those edges can't be read a catch-up stops before the event, a held stream waits and goes on")
  func entersFailing() throws {
    let bench = try CopyBench()
    let target = try bench.note("Target")
    let first = try bench.note("First", tier: "feed")
    let second = try bench.note("Second", tier: "feed")
    let edges = [try bench.edge("references", first, target), try bench.edge("references", second, target)]
    try bench.fill()
    try bench.edit(first, version: 1, ["tier": "library"])
    let cursor = try bench.copy.status().eventCursor
    var failures = 1
    bench.transport.before = { request in
      guard request.url.contains("?include=edges"), failures > 0 else { return nil }
      failures -= 1
      return bench.named(503)
    }
    #expect(bench.refusal { try bench.copy.catchUp() }?.server?.status == 503)
    #expect(try bench.copy.status().eventCursor == cursor)
    #expect(try bench.copy.hydration() == .complete)
    try bench.copy.catchUp()
    #expect(try bench.copy.edges(from: first).map(\.id) == [edges[0]])

    try bench.edit(second, version: 1, ["tier": "library"])
    failures = 1
    let before = bench.clock.monotonic
    let report = try bench.copy.follow { change in change.itemID == second ? .enough : .more }
    #expect(report.reconnects == 1)
    #expect(bench.clock.monotonic - before >= 1_000_000_000)
    #expect(try bench.copy.edges(from: second).map(\.id) == [edges[1]])
  }

  @Test("D-S79 a created row is taken from its event, and nothing is read for its edges")
  func created() throws {
    let bench = try CopyBench()
    let target = try bench.note("Target")
    try bench.fill()
    let made = try bench.note("Made", tags: ["t"])
    let edge = try bench.edge("references", made, target)
    bench.transport.clear()
    try bench.copy.catchUp()
    #expect(try bench.copy.item(made)?.tags == ["t"])
    #expect(try bench.copy.edges(from: made).map(\.id) == [edge])
    #expect(!bench.transport.requests.contains { $0.contains("/items") })
  }

  @Test(
    "D14.16 a row that has gone on in an event still to come is taken as the event has it, with no edges",
    arguments: [404, 403])
  func goneOn(_ status: Int) throws {
    let bench = try CopyBench()
    let entering = bench.newID()
    try bench.fill()
    bench.transport.before = { request in
      guard request.url.contains("/items/\(entering)?include=edges") else { return nil }
      return bench.certified(
        request, ["error": ["code": status == 404 ? "item_not_found" : "type_not_permitted", "message": "No."]],
        status: status)
    }
    _ = StreamScript(
      bench,
      [
        .frames(
          try bench.stream([
            bench.event(at: "100", entering, version: 2, title: "Passing"),
            bench.event("item.deleted", at: "101", entering, state: "trashed", version: 2, title: "Passing"),
          ]))
      ])
    try bench.copy.catchUp()
    #expect(try bench.copy.rowState(entering) == .trashed)
  }
}

@Suite("The catalog first") struct CatalogScenarios {
  @Test("D-S80 types registered meanwhile are read once for the catch-up, unknown ones once each")
  func unknownTypes() throws {
    let bench = try CopyBench()
    try bench.fill(["core.note"])
    // Registration moves the view, so the catalog's answers are scripted: each read has what was registered by then.
    func definition(_ id: Text) -> JSON {
      ["id": .string(id), "parent": "core.note", "label": "T", "version": 1, "fields": [:]]
    }
    var reads = 0
    bench.transport.after = { request, response in
      guard request.url.hasSuffix("/types"), request.method == "GET", let json = try? JSON(parsing: response.body),
        var rows = json["data"]?.array
      else { return .success(response) }
      reads += 1
      rows.append(definition("acme.first"))
      if reads > 1 { rows.append(definition("acme.second")) }
      var changed = response
      changed.body = JSON.object(JSONObject([("data", .array(rows)), ("next_cursor", .null)])).write()
      return .success(changed)
    }
    let ids = (0..<5).map { _ in bench.newID() }
    _ = StreamScript(
      bench,
      [
        .frames(
          try bench.stream([
            bench.event("item.created", at: "100", ids[0], type: "acme.first"),
            bench.event("item.created", at: "101", ids[1], type: "acme.second"),
            bench.event("item.created", at: "102", ids[2], type: "acme.never"),
            bench.event("item.created", at: "103", ids[3], type: "acme.never"),
            bench.event("item.created", at: "104", ids[4], type: "acme.second"),
          ]))
      ])
    try bench.copy.catchUp()
    // Once for the catch-up, once for acme.second, once for acme.never.
    #expect(reads == 3)
    #expect(try bench.copy.item(ids[0]) != nil && bench.copy.item(ids[1]) != nil && bench.copy.item(ids[4]) != nil)
    #expect(try bench.copy.item(ids[2]) == nil)
  }

  @Test("D-S81 three images under one undeclared property cost one more read of the catalog")
  func images() throws {
    let bench = try CopyBench()
    try bench.fill()
    let ids = (0..<3).map { _ in bench.newID() }
    _ = StreamScript(
      bench,
      [
        .frames(
          try bench.stream(
            ids.enumerated().map { number, id in
              bench.event(
                "item.created", at: Text("\(100 + number)"), id, properties: ["icon": "data:image/png;base64,AAAA"])
            }))
      ])
    bench.transport.clear()
    try bench.copy.catchUp()
    #expect(bench.transport.requests.filter { $0 == "GET /types" }.count == 2)
    for id in ids { #expect(try bench.copy.item(id) != nil) }
  }

  @Test("D-S143 the catalog's version moves for a changed catalog alone, and a held stream says it changed")
  func versions() throws {
    let bench = try CopyBench()
    #expect(try bench.copy.status().catalogVersion == nil)
    try bench.fill()
    let first = try #require(try bench.copy.status().catalogVersion)
    try bench.copy.catchUp()
    #expect(try bench.copy.status().catalogVersion == first)
    var changed = true
    bench.transport.after = { request, response in
      guard changed, request.url.hasSuffix("/types"), let json = try? JSON(parsing: response.body),
        var rows = json["data"]?.array
      else { return .success(response) }
      rows.append(["id": "acme.new", "label": "New", "version": 1, "fields": [:]])
      var answer = response
      answer.body = JSON.object(JSONObject([("data", .array(rows)), ("next_cursor", .null)])).write()
      return .success(answer)
    }
    try bench.copy.catchUp()
    #expect(try bench.copy.status().catalogVersion == first + 1)
    try bench.copy.catchUp()
    #expect(try bench.copy.status().catalogVersion == first + 1)
    changed = false
    var told: [CopyChange] = []
    _ = try bench.copy.follow { change in
      told.append(change)
      return .enough
    }
    #expect(told.map(\.event) == ["catalog.changed"])
    #expect(told[0].itemID == nil && told[0].edgeID == nil)
    #expect(told[0].cursor == (try bench.copy.status().eventCursor))
    #expect(try bench.copy.status().catalogVersion == first + 2)
  }

  @Test("D-S144 edge types that fail after item types leave both catalogs and the version as they were")
  func halfRead() throws {
    let bench = try CopyBench()
    try bench.fill()
    let before = try bench.copy.catalog()
    bench.transport.after = { request, response in
      if request.url.hasSuffix("/edge-types") { return bench.named(503) }
      guard request.url.hasSuffix("/types"), let json = try? JSON(parsing: response.body),
        var rows = json["data"]?.array
      else { return .success(response) }
      rows.append(["id": "acme.new", "label": "New", "version": 1, "fields": [:]])
      var answer = response
      answer.body = JSON.object(JSONObject([("data", .array(rows)), ("next_cursor", .null)])).write()
      return .success(answer)
    }
    bench.transport.clear()
    #expect(bench.refusal { try bench.copy.catchUp() }?.server?.status == 503)
    #expect(!bench.transport.requests.contains { $0.contains("/events") })
    #expect(try bench.copy.catalog().types.keys.sorted() == before.types.keys.sorted())
    #expect(try bench.copy.catalog().version == before.version)
  }
}

@Suite("How a catch-up ends") struct CatchUpEndScenarios {
  @Test("D52.4 D201.3 a row that does not say whether it is listed ends the copy; what came before it is kept")
  func unproven() throws {
    for listed in [nil, "true", 1, .null] as [JSON?] {
      let bench = try CopyBench()
      let note = try bench.note("Note")
      try bench.fill()
      _ = StreamScript(
        bench,
        [
          .frames(
            try bench.stream([
              bench.event(at: "100", note, version: 2, title: "Two"),
              bench.event(at: "101", note, version: 3, title: "Three", listed: listed),
            ]))
        ])
      let refusal = bench.refusal { try bench.copy.catchUp() }
      #expect(refusal?.code == .copyExpired && refusal?.reason == "read_view_invalid")
      #expect(try bench.copy.hydration() == .expired)
      #expect(try bench.copy.status().eventCursor == nil)
      #expect(try bench.copy.item(note)?.properties["title"]?.text == "Two")
    }
  }

  @Test("EV9.3 the oldest position kept may be a number")
  func tooOldByNumber() throws {
    let bench = try CopyBench()
    _ = try bench.note("Note")
    try bench.fill()
    _ = StreamScript(
      bench,
      [
        .frames([
          try bench.marker("stream_cursor", "1000"),
          bench.frame("catchup_too_old", ["event_type": "catchup_too_old", "min_retained_id": 500, "requested": "1"]),
        ])
      ])
    let refusal = bench.refusal { try bench.copy.catchUp() }
    #expect(refusal?.reason == "catchup_too_old" && refusal?.message.contains("500") == true)
  }

  @Test("D-S82 a log that let the cursor go leaves the copy stale; nothing is asked twice, and a fill mends it")
  func tooOld() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    try bench.copy.queue.updateItem(note, ItemEdit(properties: ["title": "Mine"], version: 1))
    let script = StreamScript(
      bench,
      [
        .frames([
          try bench.marker("stream_cursor", "1000"),
          bench.frame(
            "catchup_too_old", ["event_type": "catchup_too_old", "min_retained_id": "500", "requested": "1"]),
        ]), .real,
      ])
    let refusal = bench.refusal { try bench.copy.catchUp() }
    #expect(refusal?.code == .copyExpired && refusal?.reason == "catchup_too_old")
    #expect(refusal?.message.contains("500") == true)
    #expect(script.opened.count == 1)
    #expect(try bench.copy.hydration() == .stale)
    #expect(try bench.copy.status().eventCursor == nil)
    #expect(try bench.copy.queue.unansweredCount() == 1)
    try bench.fill()
    #expect(try bench.copy.hydration() == .complete)
    #expect(try bench.copy.item(note)?.properties["title"]?.text == "Mine")
  }

  @Test(
    "D-S83 a head, a cursor_ahead frame or a live marker behind the cursor ends the copy; a fill takes the lower head",
    arguments: ["head", "frame", "live"])
  func behind(_ how: String) throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    _ = StreamScript(bench, [.frames(try bench.stream([bench.event(at: "20", note, version: 2)], live: "20"))])
    try bench.copy.catchUp()
    try bench.copy.queue.updateItem(note, ItemEdit(properties: ["title": "Mine"], version: 2))
    bench.transport.before = nil
    let frames: [String] =
      switch how {
      case "head": try bench.stream(head: "7", [])
      case "live": [try bench.marker("stream_cursor", "20"), try bench.marker("stream_live", "7")]
      default:
        [bench.frame("cursor_ahead", ["event_type": "cursor_ahead", "requested": "20", "head": "7"])]
      }
    _ = StreamScript(bench, [.frames(frames), .real])
    let refusal = bench.refusal { try bench.copy.catchUp() }
    #expect(refusal?.code == .copyExpired && refusal?.reason == "head_past_log")
    #expect(refusal?.message.contains("20") == true && refusal?.message.contains("7") == true)
    #expect(try bench.copy.hydration() == .expired)
    #expect(try bench.copy.queue.unansweredCount() == 1)
    try bench.fill()
    #expect(try bench.copy.status().eventCursor == "1")
    #expect(try bench.copy.queue.unansweredCount() == 1)
  }

  @Test("D-S84 D-S85 a stream that ends early or falls silent, at the head too, keeps the cursor of its last event")
  func early() throws {
    for silent in [false, true] {
      let bench = try CopyBench()
      let note = try bench.note("Note")
      try bench.fill()
      _ = StreamScript(
        bench,
        [
          .frames(try bench.cut([bench.event(at: "12", note, version: 2)]), silent: silent),
          .frames(try bench.cut(head: "12", []), silent: silent),
        ])
      #expect(bench.refusal { try bench.copy.catchUp() }?.code == .streamIncomplete)
      #expect(try bench.copy.status().eventCursor == "12")
      #expect(try bench.copy.hydration() == .complete)
      #expect(bench.refusal { try bench.copy.catchUp() }?.code == .streamIncomplete)
      #expect(try bench.copy.status().eventCursor == "12")
      #expect(try bench.copy.hydration() == .complete)
    }
  }

  @Test("D-S86 a live marker past the last event moves the cursor, of a catch-up and of a held stream")
  func withheld() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    let stop = StopFlag()
    let script = StreamScript(
      bench,
      [
        .frames(try bench.stream(head: "14", [bench.event(at: "11", note, version: 2)], live: "14")),
        .frames(try bench.stream(head: "30", [bench.event(at: "21", note, version: 3)], live: "30")),
      ])
    let report = try bench.copy.catchUp()
    #expect(report.cursor == "14" && report.reachedHead)
    #expect(try bench.copy.status().eventCursor == "14")
    script.atEnd = { stop.set(.stopped) }
    bench.copy.stop = stop
    let held = try bench.copy.follow { _ in .more }
    #expect(held.cursor == "30")
    #expect(script.opened == ["1", "14", "30"])
  }

  @Test(
    "D-S87 a live marker without a position, with a member more or behind the greatest id ends the copy",
    arguments: ["null", "more", "behind", "missing"])
  func badMarker(_ how: String) throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    var live = try bench.marker("stream_live", "1000")
    switch how {
    case "null": live = live.replacing("\"1000\"", with: "null")
    case "more": live = live.replacing("\"cursor\"", with: "\"more\":1,\"cursor\"")
    case "behind": live = try bench.marker("stream_live", "11")
    default: live = live.replacing("\"cursor\":\"1000\",", with: "")
    }
    _ = StreamScript(bench, [.frames(try bench.cut([bench.event(at: "12", note, version: 2)]) + [live])])
    let refusal = bench.refusal { try bench.copy.catchUp() }
    #expect(refusal?.code == .copyExpired && refusal?.reason == "read_view_invalid", "\(how)")
    #expect(try bench.copy.hydration() == .expired)
  }

  @Test("D-S88 an id that is no number is refused, cursor kept, caught up and held alike; under a number it is taken")
  func badID() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    _ = StreamScript(
      bench,
      [
        .frames(try bench.stream([bench.event(at: "eleven", note, version: 2)])),
        .frames(try bench.stream([bench.event(at: "eleven", note, version: 2)])),
        .frames(try bench.stream([bench.event(at: "11", note, version: 2, title: "Taken")], live: "11")),
      ])
    #expect(bench.refusal { try bench.copy.catchUp() }?.code == .decoding)
    #expect(try bench.copy.status().eventCursor == "1")
    #expect(bench.refusal { _ = try bench.copy.follow { _ in .more } }?.code == .decoding)
    #expect(try bench.copy.status().eventCursor == "1")
    #expect(try bench.copy.catchUp().cursor == "11")
    #expect(try bench.copy.item(note)?.properties["title"]?.text == "Taken")
  }

  @Test("D-S89 a frame without data is no event and lends nothing to the next")
  func noData() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    let event = bench.event(at: "12", note, version: 2, title: "Taken")
    _ = StreamScript(
      bench, [.frames(try bench.stream(["id: 99\nevent: item.updated\n\n", event], live: "12"))])
    let report = try bench.copy.catchUp()
    #expect(report.applied == 1 && report.skipped == 0 && report.cursor == "12")
    #expect(try bench.copy.item(note)?.properties["title"]?.text == "Taken")
  }

  @Test("D-S90 a line over 64 MiB is refused, cursor kept")
  func longLine() throws {
    let bench = try CopyBench()
    try bench.note("Note")
    try bench.fill()
    let line = "data: " + String(repeating: "a", count: 67_108_864)
    _ = StreamScript(bench, [.frames(try bench.cut(["id: 12\nevent: item.updated\n", line, "\n\n"]))])
    #expect(bench.refusal { try bench.copy.catchUp() }?.code == .decoding)
    #expect(try bench.copy.status().eventCursor == "1")
    #expect(try bench.copy.hydration() == .complete)
  }

  @Test("D-S64 an empty instance is filled at cursor 0, and its first event is taken at 1")
  func zero() throws {
    let bench = try CopyBench()
    let report = try bench.fill()
    #expect(report.cursor == "0")
    #expect(try bench.copy.status().eventCursor == "0")
    let note = try bench.note("First")
    #expect(try bench.copy.catchUp().cursor == "1")
    #expect(try bench.copy.item(note) != nil)
  }
}
