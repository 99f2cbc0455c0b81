import LocalInstance
import MarfaBase
import TestSupport
import Testing

@testable import MarfaCopy

/// The copy at the event stream (events.md, the client's scenarios): what it takes, what ends it, what it keeps.
@Suite struct EventClientTests {
  private let bench: QueueBench

  init() throws { bench = try QueueBench() }

  // MARK: Scripted streams

  private func marker(
    _ name: String, _ cursor: Int? = nil, view: Text? = nil, instance: Text? = nil, fields: String? = nil
  ) throws -> String {
    let place = try #require(try bench.copy.certificate())
    let at = cursor.map { "\($0)" } ?? place.cursor.string
    let data =
      fields
      ?? #"{"event_type":"\#(name)","cursor":"\#(at)","instance_id":"\#(instance ?? place.instance)","read_view":"\#(view ?? place.view)"}"#
    return "event: \(name)\ndata: \(data)\n\n"
  }

  private func frame(_ name: String, _ id: String, _ data: String) -> String {
    "event: \(name)\nid: \(id)\ndata: \(data)\n\n"
  }

  private func updated(_ item: JSON, _ id: Int) -> String {
    let data: JSON = [
      "event_type": "item.updated", "item": item, "metadata": ["tags": [], "extensions": [:]], "listed": true,
    ]
    return frame("item.updated", "\(id)", data.compact)
  }

  private func script(_ frames: [String]) {
    let body = Array((": connected\n\n" + frames.joined()).utf8)
    bench.bench.transport.before = { request in
      guard request.target.hasPrefix("/events") else { return nil }
      return .success(
        HTTPResponse(
          status: 200,
          headers: [HTTPHeader("X-Marfa-Contract", "0"), HTTPHeader("Content-Type", "text/event-stream")], body: body))
    }
  }

  private func caughtUp() -> MarfaError? { bench.bench.refusal { try bench.copy.catchUp() } }
  private func cursor() throws -> Int { Int(try #require(try bench.copy.status().eventCursor).string) ?? -1 }

  @Test("EV-S43 events at versions older than held are skipped, and the cursor still moves to their ids")
  func olderSkipped() throws {
    let id = try bench.held("A")
    let then = try bench.served(id)
    try bench.theirs(id, ["title": "later"])
    try bench.copy.catchUp()
    let at = try cursor()
    script([
      try marker("stream_cursor", at + 2), updated(then, at + 1), updated(then, at + 2),
      try marker("stream_live", at + 2),
    ])
    let report = try bench.copy.catchUp()
    #expect(report.skipped == 2)
    #expect(report.applied == 0)
    #expect(try cursor() == at + 2)
    #expect(try bench.title(id) == "later")
    #expect(try bench.copy.item(id)?.version == 2)
  }

  @Test(
    "EV-S44 EV-S45 cut between two frames the cursor stands at the last one, nothing is lost and nothing taken twice")
  func cutBetween() throws {
    let ids = try ["A", "B", "C", "D"].map { try bench.theirNote(Text($0)) }
    let before = try cursor()
    var passed = 0
    var taken = 0
    for round in 1...ids.count {
      // Each try lets one more event through, whole, then breaks.
      passed = 0
      bench.bench.transport.pieces = { request, bytes in
        let text = String(decoding: bytes, as: UTF8.self)
        var kept = ""
        var rest = text[...]
        while let end = rest.firstRange(of: "\n\n") {
          let part = rest[..<end.upperBound]
          rest = rest[end.upperBound...]
          if part.contains("\nid: ") || part.hasPrefix("id: ") {
            if passed == 1 { break }
            passed += 1
          }
          if part.contains("stream_live") { break }
          kept += part
        }
        return kept.isEmpty ? nil : Array(kept.utf8)
      }
      let error = caughtUp()
      #expect(error?.code == .streamIncomplete)
      taken += passed
      #expect(try cursor() == before + taken, "round \(round)")
      #expect(try ids.filter { try bench.copy.item($0) != nil }.count == taken)
      #expect(try bench.copy.hydration() == .complete)
      // The next process goes on from there.
      try bench.reopen()
    }
    bench.bench.transport.pieces = nil
    let report = try bench.copy.catchUp()
    #expect(report.applied + taken == ids.count)
    for id in ids { #expect(try bench.copy.item(id)?.version == 1) }
  }

  @Test("EV-S46 after catchup_too_old the copy is stale, answers reads, keeps its queue, and is refilled in place")
  func tooOld() throws {
    let id = try bench.held("A")
    let edit = try bench.edit(id, ["title": "mine"])
    script([try marker("stream_cursor"), "event: catchup_too_old\ndata: {\"min_retained_id\":\"99\"}\n\n"])
    let error = caughtUp()
    #expect(error?.code == .copyExpired)
    #expect(try bench.copy.hydration() == .stale)
    #expect(try bench.title(id) == "mine")
    #expect(try bench.copy.serverItem(id)?.properties["title"] == "A")
    #expect(try bench.copy.itemsTitled(key: NameKey("mine")) == [id])
    #expect(try bench.queue.all().map(\.id) == [edit.id])
    #expect(bench.bench.refusal { try bench.drain() }?.code == .copyExpired)
    bench.bench.transport.before = nil
    let report = try bench.copy.hydrate(
      Slice(types: nil, tier: "all", edgeTypes: ["parent-of", "references", "in-folder"]))
    #expect(report.inPlace)
    #expect(try bench.copy.hydration() == .complete)
    #expect(try bench.title(id) == "mine")
    #expect(try bench.drain().verdicts.map(\.verdict) == [.accepted])
  }

  @Test("EV-S47 cursor_ahead and another instance's marker end the copy with their reasons, the queue kept")
  func ahead() throws {
    let id = try bench.held("A")
    let edit = try bench.edit(id, ["title": "mine"])
    for (frames, reason) in [
      (
        [try marker("stream_cursor"), "event: cursor_ahead\ndata: {\"requested\":\"9\",\"head\":\"3\"}\n\n"],
        "head_past_log"
      ),
      ([try marker("stream_cursor", instance: Sample.id(0x77).text)], "instance_changed"),
    ] {
      script(frames)
      let error = caughtUp()
      #expect(error?.code == .copyExpired)
      #expect(error?.reason == reason)
      #expect(try bench.copy.hydration() == .expired)
      #expect(try bench.queue.all().map(\.idempotencyKey) == [edit.idempotencyKey])
      #expect(try bench.title(id) == "mine")
      bench.bench.transport.before = nil
      try bench.fill()
    }
  }

  @Test("EV-S48 a live marker without a position, of another view or below an id taken ends the copy, queue kept")
  func badMarkers() throws {
    let id = try bench.held("A")
    let edit = try bench.edit(id, ["title": "mine"])
    for wrong in 0..<4 {
      let at = try cursor()
      let place = try #require(try bench.copy.certificate())
      let live =
        switch wrong {
        case 0:
          try marker(
            "stream_live",
            fields:
              #"{"event_type":"stream_live","cursor":null,"instance_id":"\#(place.instance)","read_view":"\#(place.view)"}"#
          )
        case 1:
          try marker(
            "stream_live",
            fields: #"{"event_type":"stream_live","instance_id":"\#(place.instance)","read_view":"\#(place.view)"}"#)
        case 2: try marker("stream_live", at + 1, view: Text(String(repeating: "0", count: 64)))
        default: try marker("stream_live", at)
        }
      script([try marker("stream_cursor", at + 1), updated(try bench.served(id), at + 1), live])
      let error = caughtUp()
      #expect(error?.code == .copyExpired, "\(wrong)")
      #expect(error?.reason == "read_view_invalid", "\(wrong) \(error?.reason ?? "")")
      #expect(try bench.copy.hydration() == .expired)
      #expect(try bench.queue.all().map(\.id) == [edit.id])
      bench.bench.transport.before = nil
      try bench.fill()
    }
  }

  @Test("EV-S49 a malformed id, malformed JSON or a line past every bound is decoding, the cursor before it kept")
  func malformed() throws {
    let id = try bench.held("A")
    try bench.theirs(id, ["title": "later"])
    let later = try bench.served(id)
    let at = try cursor()
    let long = "data: " + String(repeating: "x", count: (64 << 20) + 1) + "\n\n"
    for broken in [
      frame("item.updated", "01", "{}"), frame("item.updated", "abc", "{}"), frame("item.updated", "-1", "{}"),
      frame("item.updated", "\(at + 2)", "{not json"), long,
    ] {
      try bench.copy.store.set(.eventCursor, Text("\(at)"))
      script([try marker("stream_cursor", at + 2), updated(later, at + 1), broken, try marker("stream_live", at + 2)])
      #expect(caughtUp()?.code == .decoding, "\(broken.prefix(60))")
      #expect(try [at, at + 1].contains(cursor()))
      #expect(try bench.copy.hydration() == .complete)
    }
    bench.bench.transport.before = nil
    #expect(try bench.copy.catchUp().reachedHead)
    #expect(try bench.title(id) == "later")
  }

  @Test("EV-S50 a server down for a while is told once, tried after growing waits of at most 30 s, told back once")
  func downForAWhile() throws {
    let id = try bench.held("A")
    var told: [Text] = []
    var tries: [UInt64] = []
    var drains = 0
    let edit = try bench.edit(id, ["title": "mine"])
    let clock = bench.bench.clock
    let transport = bench.bench.transport
    transport.before = { request in
      guard request.target == "/", tries.count < 9 else { return nil }
      tries.append(clock.monotonic)
      return .failure(.unreachable("down"))
    }
    var idle = 0
    transport.whileIdle = {
      idle += 1
      if idle > 50 { bench.copy.stop.set(.stopped) }
      return true
    }
    _ = try bench.copy.follow { change in
      told.append(change.event)
      // The caller drains once when the server is back.
      if change.event == "server.reachable" {
        do {
          try bench.drain()
          drains += 1
        } catch { Issue.record(error) }
      }
      return change.event == "item.updated" ? .enough : .more
    }
    #expect(told.filter { $0 == "server.unreachable" }.count == 1)
    #expect(told.filter { $0 == "server.reachable" }.count == 1)
    let waits = zip(tries.dropFirst(), tries).map { ($0 - $1) / 1_000_000_000 }
    #expect(waits == [1, 2, 4, 8, 16, 30, 30, 30])
    #expect(drains == 1)
    #expect(try bench.verdict(edit) == .accepted)
  }

  @Test("EV-S51 a row moved by tier into the slice is read by id, then its edge pages, and appears with its edges")
  func enters() throws {
    let bench = try QueueBench(["core.note"], tier: "library", edges: [])
    let made = try bench.bench.ask(
      "POST", "/items", ["type": "core.note", "tier": "feed", "properties": ["title": "A", "body": "x"]])
    let id = try #require(made["item"]?["id"]?.text.flatMap { EntityID($0) })
    var targets: Set<EntityID> = []
    for number in 0..<230 {
      let target = try bench.theirNote(Text("t\(number)"))
      targets.insert(target)
      try bench.bench.edge("references", id, target)
    }
    try bench.copy.catchUp()
    #expect(try bench.copy.item(id) == nil)
    try bench.bench.ask("PATCH", "/items/\(id)", ["version": 1, "tier": "library"])
    bench.clear()
    try bench.copy.catchUp()
    #expect(try bench.copy.item(id)?.tier == "library")
    #expect(Set(try bench.copy.edges(from: id).map(\.target)) == targets)
    let reads = bench.requests.filter { $0.contains("\(id)") }
    #expect(reads.first?.hasPrefix("GET /items/\(id)?") == true)
    #expect(reads.dropFirst().allSatisfy { $0.hasPrefix("GET /items/\(id)/edges") })
    #expect(reads.count > 1)
  }

  @Test(
    "EV-S52 an unknown event type is passed over and its id is the cursor; a frame with an id and no data moves nothing"
  )
  func unknownType() throws {
    let at = try cursor()
    script([try marker("stream_cursor", at + 1), frame("item.juggled", "\(at + 1)", #"{"event_type":"item.juggled"}"#)])
    #expect(caughtUp()?.code == .streamIncomplete)
    #expect(try cursor() == at + 1)
    script([try marker("stream_cursor", at + 2), "event: item.updated\nid: \(at + 2)\n\n"])
    #expect(caughtUp()?.code == .streamIncomplete)
    #expect(try cursor() == at + 1)
    #expect(try bench.copy.hydration() == .complete)
  }

  @Test("EV-S54 a live marker past the last event is the cursor; an announced head reached without one is incomplete")
  func livePast() throws {
    let at = try cursor()
    script([try marker("stream_cursor", at + 9), try marker("stream_live", at + 9)])
    #expect(try bench.copy.catchUp().cursor == Text("\(at + 9)"))
    #expect(try cursor() == at + 9)
    script([try marker("stream_cursor", at + 9)])
    let error = caughtUp()
    #expect(error?.code == .streamIncomplete)
    #expect(try bench.copy.hydration() == .complete)
  }

  @Test("EV-S55 a 401 to a resume that cannot be renewed ends the follow and the copy, the queue kept")
  func unauthorized() throws {
    for signsIn in [false, true] {
      let bench = try QueueBench(signsIn: signsIn)
      let id = try bench.held("A")
      let edit = try bench.edit(id, ["title": "mine"])
      bench.sign.renewal = .failure(MarfaError(.signedOut, "the sign-in has ended"))
      bench.on("GET", "/events", .answer(401, refusing("unauthorized")))
      let error = bench.bench.refusal { _ = try bench.copy.follow { _ in .more } }
      #expect(error?.code == .signedOut || error?.code == .unauthorized)
      if signsIn { #expect(bench.sign.renewals == 1) }
      #expect(try bench.queue.all().map(\.id) == [edit.id])
      #expect(try bench.title(id) == "mine")
      #expect(try bench.copy.hydration() == .expired)
      #expect(try bench.copy.store.text(.expiredReason) == "credential_ended")
    }
  }
}
