import LocalInstance
import MarfaBase
import MarfaCopy
import Testing
import TestSupport

@Suite("The held stream") struct HeldStreamScenarios {
  @Test("D-S91 changes alone are told, as they come, and each opening goes on from the cursor")
  func changes() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    _ = StreamScript(bench, [.frames(try bench.stream(head: "10", []))])
    try bench.copy.catchUp()
    bench.transport.before = nil
    let script = StreamScript(
      bench,
      [
        .frames(
          try bench.stream(
            head: "10",
            [
              bench.event(at: "11", note, version: 3, title: "Three"),
              bench.event(at: "12", note, version: 2, title: "Stale"),
            ], live: "12")), .dropped,
        .frames(
          try bench.stream(head: "12", [bench.event(at: "13", note, version: 4, title: "Four")], live: "13"),
          silent: true),
      ])
    var told: [(CopyChange, Text?)] = []
    let report = try bench.copy.follow { change in
      // The store can be read by whoever is told.
      let title = (try? bench.copy.item(note))??.properties["title"]?.text
      told.append((change, title))
      return change.cursor == "13" ? .enough : .more
    }
    #expect(script.opened == ["10", "12", "12"])
    #expect(
      told.map(\.0.event) == ["item.updated", "server.unreachable", "server.reachable", "item.updated"])
    #expect(told.map(\.1) == ["Three", "Three", "Three", "Four"])
    #expect(told[0].0.itemID == note && told[0].0.edgeID == nil && told[0].0.cursor == "11")
    #expect(report.applied == 2 && report.skipped == 1 && report.cursor == "13" && report.failedOpens == 1)
  }

  @Test("D-S92 an edge's change names the edge")
  func edge() throws {
    let bench = try CopyBench()
    let (a, b) = (try bench.note("A"), try bench.note("B"))
    try bench.fill()
    let edge = try bench.edge("references", a, b)
    var told: [CopyChange] = []
    _ = try bench.copy.follow { change in
      told.append(change)
      return .enough
    }
    #expect(told.map(\.event) == ["edge.created"])
    #expect(told[0].edgeID == edge && told[0].itemID == nil)
  }

  @Test("D-S93 streams that end at once are asked again by the waits; a refusal no wait mends ends the follow")
  func backoff() throws {
    let bench = try CopyBench()
    try bench.fill()
    let stop = StopFlag()
    bench.copy.stop = stop
    let begun = bench.clock.monotonic
    let clock = bench.clock
    bench.scheduler.onWait { if clock.monotonic - begun >= 4_000_000_000 { stop.set(.stopped) } }
    let frames = StreamScript.Answer.frames(try bench.cut(head: "0", []))
    let script = StreamScript(bench, Array(repeating: frames, count: 10))
    _ = try bench.copy.follow { _ in .more }
    #expect((2...4).contains(script.opened.count))

    bench.transport.before = nil
    bench.copy.stop = StopFlag()
    let refusing = StreamScript(bench, [.status(503), .status(405), .real])
    let refusal = bench.refusal { _ = try bench.copy.follow { _ in .more } }
    #expect(refusal?.server?.status == 405 && refusal?.message.contains("405") == true)
    #expect(refusing.opened.count == 2)
  }

  @Test("D-S94 what can't be had is told once with its reason, and once when it is back; had at once, neither")
  func unreachable() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    _ = StreamScript(
      bench,
      [
        .status(503), .dropped,
        .frames(try bench.stream([bench.event(at: "12", note, version: 2)], live: "12"), silent: true),
      ])
    var told: [CopyChange] = []
    let report = try bench.copy.follow { change in
      told.append(change)
      return change.itemID == note ? .enough : .more
    }
    #expect(told.map(\.event) == ["server.unreachable", "server.reachable", "item.updated"])
    #expect(told[0].reason?.isEmpty == false && told[0].itemID == nil && told[0].edgeID == nil)
    #expect(report.failedOpens == 2 && report.reconnects == 2)

    bench.transport.before = nil
    _ = StreamScript(
      bench, [.frames(try bench.stream([bench.event(at: "13", note, version: 3)], live: "13"), silent: true)])
    told = []
    _ = try bench.copy.follow { change in
      told.append(change)
      return .enough
    }
    #expect(told.map(\.event) == ["item.updated"])
  }

  @Test("D-S95 a caller told unreachable before is told reachable once it is had, and not unreachable again")
  func toldBefore() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    let event = bench.event(at: "12", note, version: 2)
    _ = StreamScript(bench, [.frames(try bench.stream([event], live: "12"), silent: true)])
    var told: [Text] = []
    _ = try bench.copy.follow(wasUnreachable: true) { change in
      told.append(change.event)
      return change.itemID == note ? .enough : .more
    }
    #expect(told == ["server.reachable", "item.updated"])

    bench.transport.before = nil
    let stop = StopFlag()
    bench.copy.stop = stop
    let script = StreamScript(bench, [.dropped, .dropped])
    script.atEnd = { stop.set(.stopped) }
    told = []
    _ = try bench.copy.follow(wasUnreachable: true) { change in
      told.append(change.event)
      return .more
    }
    #expect(told.isEmpty)
  }

  /// Adds a type to the catalog's answers from the read after `from` on.
  private static func register(_ type: Text, after from: Int, _ bench: CopyBench) {
    var reads = 0
    bench.transport.after = { request, response in
      guard request.url.hasSuffix("/types"), let json = try? JSON(parsing: response.body),
        var rows = json["data"]?.array
      else { return .success(response) }
      reads += 1
      guard reads > from else { return .success(response) }
      rows.append(["id": .string(type), "parent": "core.note", "label": "T", "version": 1, "fields": [:]])
      var answer = response
      answer.body = JSON.object(JSONObject([("data", .array(rows)), ("next_cursor", .null)])).write()
      return .success(answer)
    }
  }

  @Test("D-S96 an event of a type made since the opening reopens the stream once, tells the catalog, then the row")
  func newType() throws {
    let bench = try CopyBench()
    try bench.fill()
    HeldStreamScenarios.register("acme.new", after: 1, bench)
    let id = bench.newID()
    let event = bench.event("item.created", at: "12", id, type: "acme.new")
    let script = StreamScript(
      bench,
      [
        .frames(try bench.stream(head: "12", [event]), silent: true),
        .frames(try bench.stream(head: "12", [event]), silent: true),
      ])
    var told: [CopyChange] = []
    let report = try bench.copy.follow { change in
      told.append(change)
      return change.itemID == id ? .enough : .more
    }
    #expect(script.opened == ["0", "0"])
    #expect(told.map(\.event) == ["catalog.changed", "item.created"])
    #expect(told[0].cursor == "0" && told[0].itemID == nil)
    #expect(report.applied == 1)
    #expect(try bench.copy.item(id)?.type == "acme.new")
  }

  @Test("D-S97 an undescribed type of twenty events, and five images under a text property, cost one reopen each")
  func undescribed() throws {
    let bench = try CopyBench()
    try bench.fill()
    let ids = (0..<20).map { _ in bench.newID() }
    let events = ids.enumerated().map { number, id in
      bench.event("item.created", at: Text("\(100 + number)"), id, type: "acme.never")
    }
    let last = bench.newID()
    let end = bench.event("item.created", at: "200", last)
    var frames = StreamScript.Answer.frames(try bench.stream(events + [end], live: "200"), silent: true)
    let script = StreamScript(bench, [frames, frames])
    var report = try bench.copy.follow { change in change.itemID == last ? .enough : .more }
    #expect(script.opened == ["0", "0"])
    #expect(report.skipped == 20 && report.cursor == "200")

    bench.transport.before = nil
    let notes = (0..<5).map { _ in bench.newID() }
    let images = notes.enumerated().map { number, id in
      bench.event(
        "item.created", at: Text("\(300 + number)"), id, properties: ["body": "data:image/png;base64,findable"])
    }
    frames = .frames(try bench.stream(images, live: "304"), silent: true)
    let second = StreamScript(bench, [frames, frames])
    report = try bench.copy.follow { change in change.itemID == notes.last ? .enough : .more }
    #expect(second.opened == ["200", "200"])
    #expect(report.applied == 5)
    #expect(try bench.copy.search("findable").count == 5)
  }

  @Test("D-S98 a stop while a stream is asked for ends the follow at once")
  func stopped() throws {
    let bench = try CopyBench()
    try bench.fill()
    let stop = StopFlag()
    bench.copy.stop = stop
    bench.transport.before = { request in
      guard request.url.contains("/events") else { return nil }
      // The stop comes from another thread while the answer is waited for; the transport then ends the wait.
      stop.set(.stopped)
      return .failure(.stopped)
    }
    let before = bench.clock.monotonic
    let report = try bench.copy.follow { _ in .more }
    #expect(report.reconnects == 0 && report.cursor == "0")
    #expect(bench.clock.monotonic == before)
  }

  @Test("D-S101 D-S28 another instance in the marker or at the root ends the copy, the root naming both")
  func otherInstance() throws {
    for atRoot in [false, true] {
      let bench = try CopyBench()
      let note = try bench.note("Note")
      try bench.fill()
      try bench.copy.queue.updateItem(note, ItemEdit(properties: ["title": "Mine"], version: 1))
      let other = try CopyBench(seed: 9)
      let ours = try #require(try bench.copy.status().instanceID)
      let theirs = try other.instance.identity()
      if atRoot {
        bench.transport.handle = { other.instance.handle($0) }
      } else {
        let marker = try bench.marker("stream_cursor", "1").replacing(ours.string, with: theirs)
        _ = StreamScript(bench, [.frames([marker])])
      }
      let refusal = bench.refusal { _ = try bench.copy.follow { _ in .more } }
      #expect(refusal?.code == .copyExpired && refusal?.reason == "instance_changed")
      if atRoot {
        #expect(refusal?.message.contains(ours.string) == true && refusal?.message.contains(theirs) == true)
      }
      #expect(try bench.copy.hydration() == .expired)
      #expect(try bench.copy.queue.unansweredCount() == 1)
    }
    // A catch-up and a drain end alike, and no write is sent.
    for drains in [false, true] {
      let bench = try CopyBench()
      let note = try bench.note("Note")
      try bench.fill()
      try bench.copy.queue.updateItem(note, ItemEdit(properties: ["title": "Mine"], version: 1))
      let other = try CopyBench(seed: 9)
      bench.transport.handle = { other.instance.handle($0) }
      bench.transport.clear()
      let refusal = bench.refusal {
        if drains { try bench.copy.queue.drain() } else { try bench.copy.catchUp() }
      }
      #expect(refusal?.code == .copyExpired)
      #expect(try bench.copy.hydration() == .expired)
      #expect(try bench.copy.queue.unansweredCount() == 1)
      #expect(bench.transport.requests.allSatisfy { $0.hasPrefix("GET ") })
    }
  }

  @Test("D-S106 a held stream ends with read_view_changed when the key's reach narrows")
  func narrowed() throws {
    let bench = try CopyBench()
    let key = try bench.makeKey(["core.note": "write", "core.bookmark": "read"])
    try bench.reopen(key: key.key)
    try bench.fill()
    var narrowed = false
    bench.transport.whileIdle = {
      if narrowed { return false }
      narrowed = true
      _ = try? bench.ask(
        "PATCH", "/keys/\(key.id)", ["type_permissions": ["core.note": "write"], "edge_permissions": ["*": "write"]])
      return true
    }
    let refusal = bench.refusal { _ = try bench.copy.follow { _ in .more } }
    #expect(refusal?.code == .copyExpired && refusal?.reason == "read_view_changed")
    #expect(try bench.copy.hydration() == .expired)
  }

  @Test("D-S114 a held stream on another contract ends, and does not ask again")
  func otherContract() throws {
    let bench = try CopyBench()
    try bench.fill()
    let script = StreamScript(
      bench,
      [.status(200, named: false, body: ": connected\n\n", headers: [HTTPHeader("X-Marfa-Contract", "1")]), .real])
    let refusal = bench.refusal { _ = try bench.copy.follow { _ in .more } }
    #expect(refusal?.code == .contractMismatch)
    #expect(script.opened.count == 1)
    #expect(try bench.copy.hydration() == .complete)
  }
}

@Suite("Stopping") struct StopScenarios {
  @Test(
    "D-S199 a stop while the head, a catalog or the root is waited for ends at once, copy and queue unchanged",
    arguments: ["/events", "/types", "/"])
  func firstRequest(_ path: String) throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    try bench.copy.queue.updateItem(note, ItemEdit(properties: ["title": "Mine"], version: 1))
    try bench.reopen()
    let stop = StopFlag()
    bench.copy.stop = stop
    let before = try bench.copy.status()
    bench.transport.clear()
    bench.transport.before = { request in
      guard request.url.contains(path == "/" ? "test/" : path), path != "/" || request.url.hasSuffix("/") else {
        return nil
      }
      stop.set(.stopped)
      return .failure(.stopped)
    }
    let refusal = bench.refusal { try bench.fill(tier: "all") }
    #expect(refusal?.code == .canceled && refusal?.exit == 3)
    let asked = bench.transport.requests.count
    #expect(try bench.copy.status().json == before.json)
    #expect(try bench.copy.queue.unansweredCount() == 1)
    // The catalog as the instance serves it, likewise.
    #expect(bench.refusal { _ = try bench.copy.server.request("GET", "/types") }?.code == .canceled)
    #expect(bench.transport.requests.count == asked)
  }

  @Test(
    "D-S200 a stop before a failing head read returns ends canceled, untried again; unstopped it is tried again")
  func headRead() throws {
    func run(_ stops: Bool, _ answer: Result<HTTPResponse, TransportError>) throws -> (MarfaError?, Int) {
      let bench = try CopyBench()
      let stop = StopFlag()
      bench.copy.stop = stop
      var heads = 0
      bench.transport.before = { request in
        guard request.url.contains("/events") else { return nil }
        heads += 1
        if stops { stop.set(.stopped) }
        return answer
      }
      let refusal = bench.refusal { try bench.fill() }
      return (refusal, heads)
    }
    let named = [HTTPHeader("X-Marfa-Contract", "0")]
    let ended = HTTPResponse(status: 200, headers: named, body: Array(": connected\n\n".utf8))
    let refused = HTTPResponse(status: 503, headers: named, body: [])
    var (error, heads) = try run(true, .success(ended))
    #expect(error?.code == .canceled && heads == 1)
    (error, heads) = try run(true, .success(refused))
    #expect(error?.code == .canceled && heads == 1)
    (error, heads) = try run(false, .success(ended))
    #expect(error?.code == .streamIncomplete && heads == 3)
    (error, heads) = try run(false, .success(refused))
    #expect(error?.server?.status == 503 && heads == 1)
  }

  @Test("D-S201 a stop between pages asks no further page, leaves the queue, and the fill goes on later")
  func betweenPages() throws {
    let bench = try CopyBench()
    for number in 0..<250 { try bench.note(Text("Note \(number)")) }
    let write = try bench.copy.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "Mine", "body": "x"]))
    let stop = StopFlag()
    bench.copy.stop = stop
    var pages = 0
    bench.transport.after = { request, response in
      if request.url.contains("/items?type") {
        pages += 1
        stop.set(.stopped)
      }
      return .success(response)
    }
    #expect(bench.refusal { try bench.fill() }?.code == .canceled)
    #expect(pages == 1)
    #expect(try bench.copy.hydration() == .inProgress)
    #expect(try bench.copy.queue.write(write.id)?.verdict == nil)
    bench.transport.after = nil
    bench.copy.stop = StopFlag()
    #expect(try bench.fill().resumed)
    #expect(try bench.copy.status().items == 251)
  }

  @Test("D-S202 a stop on a stream that waits ends canceled, cursor and state kept")
  func waitingStream() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    let stop = StopFlag()
    bench.copy.stop = stop
    _ = StreamScript(bench, [.frames(try bench.cut([bench.event(at: "12", note, version: 2)]), silent: true)])
    var idle = 0
    bench.transport.whileIdle = {
      idle += 1
      stop.set(.stopped)
      return true
    }
    #expect(bench.refusal { try bench.copy.catchUp() }?.code == .canceled)
    #expect(idle == 1)
    #expect(try bench.copy.status().eventCursor == "12")
    #expect(try bench.copy.hydration() == .complete)
  }

  @Test("D-S203 a stop lets the write in flight be recorded, sends no other, and the next drain sends the rest")
  func inFlight() throws {
    let bench = try CopyBench()
    try bench.fill()
    let stop = StopFlag()
    bench.copy.stop = stop
    var ids: [EntityID] = []
    for number in 0..<3 {
      let write = try bench.copy.queue.createItem(
        ItemDraft(type: "core.note", properties: ["title": .string(Text("N\(number)")), "body": "x"]))
      ids.append(write.id)
    }
    bench.transport.after = { request, response in
      if request.method == "POST" { stop.set(.stopped) }
      return .success(response)
    }
    #expect(bench.refusal { try bench.copy.queue.drain() }?.code == .canceled)
    #expect(try ids.map { try bench.copy.queue.write($0)?.verdict } == [.accepted, nil, nil])
    #expect(bench.transport.requests.filter { $0.hasPrefix("POST") }.count == 1)
    bench.transport.after = nil
    bench.copy.stop = StopFlag()
    try bench.copy.queue.drain()
    #expect(try ids.map { try bench.copy.queue.write($0)?.verdict } == [.accepted, .accepted, .accepted])
    #expect(bench.transport.requests.filter { $0.hasPrefix("POST") }.count == 3)
  }
}

extension Instance {
  /// The instance's id, as its root tells it.
  func identity() throws -> String {
    guard case .whole(let root) = handle(InstanceRequest(method: "GET", target: "/")),
      let id = try JSON(parsing: root.body)["instance_id"]?.text
    else { throw ScratchError("no root") }
    return id.string
  }
}
