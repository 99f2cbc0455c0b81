import MarfaBase
import MarfaCopy
import Testing
import TestSupport

@Suite struct CatchUpTests {
  @Test("EV20.5 D18.1 a catch-up takes what happened and reports it after the live marker alone")
  func takes() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note", tags: ["a"])
    try bench.fill()
    try bench.ask("PATCH", "/items/\(note)", ["version": 1, "properties": ["title": "Renamed"]])
    try bench.ask("POST", "/items/\(note)/tags", ["tags": ["b"]])
    let made = try bench.note("Made")
    let edge = try bench.edge("references", made, note)
    let report = try bench.copy.catchUp()
    #expect(report.reachedHead && report.applied == 4 && report.skipped == 0)
    #expect(try bench.copy.item(note)?.properties["title"]?.text == "Renamed")
    #expect(try bench.copy.item(note)?.tags == ["a", "b"])
    #expect(try bench.copy.edges(to: note).map(\.id) == [edge])
    #expect(try bench.copy.status().eventCursor == report.cursor)
    let again = try bench.copy.catchUp()
    #expect(again.applied == 0 && again.cursor == report.cursor)
  }

  @Test("D14.1 D14.3 a row leaving the slice by tier takes the edges it draws, but those held whole")
  func leaves() throws {
    let bench = try CopyBench()
    let host = try bench.note("Host")
    let child = try bench.note("Child")
    try bench.edge("references", host, child)
    let whole = try bench.edge("parent-of", host, child)
    let inward = try bench.edge("references", child, host)
    try bench.fill()
    try bench.ask("PATCH", "/items/\(host)", ["version": 1, "tier": "feed"])
    try bench.copy.catchUp()
    #expect(try bench.copy.item(host) == nil)
    #expect(try bench.copy.edges(from: host).map(\.id) == [whole])
    #expect(try bench.copy.edges(to: host).map(\.id) == [inward])
  }

  @Test("D14.12 a row that enters by a tier move is read first, with its edges")
  func enters() throws {
    let bench = try CopyBench()
    let target = try bench.note("Target")
    let entering = try bench.note("Entering", tier: "feed")
    let edge = try bench.edge("references", entering, target)
    try bench.fill()
    #expect(try bench.copy.item(entering) == nil)
    try bench.ask("PATCH", "/items/\(entering)", ["version": 1, "tier": "library"])
    bench.transport.clear()
    try bench.copy.catchUp()
    #expect(try bench.copy.item(entering)?.tier == "library")
    #expect(try bench.copy.edges(from: entering).map(\.id) == [edge])
    #expect(bench.transport.requests.contains { $0.hasPrefix("GET /items/\(entering)?include=edges") })
  }

  @Test("D14.12 a row held since it lay in the bin has its edges once it is restored")
  func restored() throws {
    let bench = try CopyBench()
    let target = try bench.note("Target")
    let binned = try bench.note("Binned")
    let edge = try bench.edge("references", binned, target)
    try bench.fill()
    try bench.copy.pin(binned, owner: "test")
    try bench.ask("DELETE", "/items/\(binned)?version=1")
    try bench.fill()
    #expect(try bench.copy.rowState(binned) == .trashed)
    try bench.ask("POST", "/items/\(binned)/restore")
    try bench.copy.catchUp()
    #expect(try bench.copy.edges(from: binned).map(\.id) == [edge])
  }

  @Test("D7.2 a row that comes into the copy by the read after an own write comes with its edges")
  func enteredByRead() throws {
    let bench = try CopyBench()
    let target = try bench.note("Target")
    let moved = try bench.note("Moved", tier: "feed")
    let edge = try bench.edge("references", moved, target)
    try bench.fill()
    try bench.ask("PATCH", "/items/\(moved)", ["version": 1, "tier": "library"])
    #expect(try bench.copy.freshRead(item: moved)?.tier == "library")
    try bench.copy.catchUp()
    #expect(try bench.copy.edges(from: moved).map(\.id) == [edge])
  }

  @Test("D14.4 a purge takes the row, its edges at either end and its pin")
  func purge() throws {
    let bench = try CopyBench()
    let host = try bench.note("Host")
    let gone = try bench.note("Gone")
    try bench.edge("references", host, gone)
    try bench.edge("references", gone, host)
    try bench.fill()
    try bench.copy.pin(gone, owner: "test")
    try bench.ask("DELETE", "/items/\(gone)?version=1")
    try bench.copy.catchUp()
    #expect(try bench.copy.rowState(gone) == .trashed)
    try bench.ask("POST", "/items/\(gone)/purge?version=1")
    try bench.copy.catchUp()
    #expect(try bench.copy.rowState(gone) == .purged)
    #expect(try bench.copy.edges(from: host).isEmpty && bench.copy.edges(to: host).isEmpty)
    #expect(try bench.copy.pins().isEmpty)
  }

  @Test("D-S17 D35 D17.1 a stream cut before its live marker keeps what it took; the next goes on from there")
  func cut() throws {
    let bench = try CopyBench()
    try bench.fill()
    #expect(try bench.copy.status().eventCursor == "0")
    let first = try bench.note("First")
    bench.transport.pieces = { _, bytes in
      // Everything but the live marker, then the end.
      let text = String(decoding: bytes, as: UTF8.self)
      guard let live = text.firstRange(of: "event: stream_live") else { return bytes }
      return text[..<live.lowerBound].isEmpty ? nil : Array(text[..<live.lowerBound].utf8)
    }
    let refusal = bench.refusal { try bench.copy.catchUp() }
    #expect(refusal?.code == .streamIncomplete)
    #expect(try bench.copy.hydration() == .complete)
    #expect(try bench.copy.item(first) != nil)
    bench.transport.pieces = nil
    #expect(try bench.copy.catchUp().reachedHead)
  }

  @Test("EV23 D16.2 a log set back behind the cursor ends the copy, rows and pins kept")
  func setBack() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    bench.transport.pieces = { _, bytes in
      let text = String(decoding: bytes, as: UTF8.self)
      return Array(text.replacing("\"cursor\":\"1\"", with: "\"cursor\":\"0\"").utf8)
    }
    let refusal = bench.refusal { try bench.copy.catchUp() }
    #expect(refusal?.code == .copyExpired && refusal?.reason == "head_past_log")
    #expect(try bench.copy.hydration() == .expired)
    #expect(try bench.copy.item(note) != nil)
    bench.transport.pieces = nil
    #expect(bench.refusal { try bench.copy.catchUp() }?.reason == "head_past_log")
    try bench.fill()
    #expect(try bench.copy.hydration() == .complete)
  }

  @Test("RV11.1 D52.8 a view that moved on ends the copy, and a fill makes it whole")
  func viewMoves() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    // A retype moves the view (RV9).
    try bench.ask("PATCH", "/items/\(note)", ["version": 1, "type": "core.bookmark", "retype": true])
    let refusal = bench.refusal { try bench.copy.catchUp() }
    #expect(refusal?.code == .copyExpired && refusal?.reason == "read_view_changed")
    #expect(try bench.copy.hydration() == .expired)
    #expect(bench.refusal { _ = try bench.copy.items(matching: FolderSearch()) }?.code == .hydrationIncomplete)
    try bench.fill()
    #expect(try bench.copy.hydration() == .complete)
    #expect(try bench.copy.item(note) == nil)
  }

  @Test(
    "D53.1 D42.9 what clears by itself, and what something in front answers, leaves the copy complete",
    arguments: [
      (503, true, MarfaError.Code.server), (429, true, .rateLimited), (401, false, .unnamedAnswer),
      (404, false, .unnamedAnswer), (302, false, .redirect),
    ])
  func keeps(_ status: Int, _ named: Bool, _ code: MarfaError.Code) throws {
    let bench = try CopyBench()
    try bench.note("Note")
    try bench.fill()
    bench.transport.before = { request in
      guard request.url.hasSuffix("/types") else { return nil }
      return .success(
        HTTPResponse(status: status, headers: named ? [HTTPHeader("X-Marfa-Contract", "0")] : [], body: []))
    }
    let refusal = bench.refusal { try bench.copy.catchUp() }
    #expect(refusal?.code == code)
    #expect(refusal?.server?.status == status)
    #expect(try bench.copy.hydration() == .complete)
  }

  @Test("D42.1 IN3 another contract, a success naming none and two lines that differ are refused whole")
  func contracts() throws {
    for headers in [["1"], [], ["0", "1"], ["00"]] {
      let bench = try CopyBench()
      bench.transport.after = { _, response in
        var changed = response
        changed.headers.removeAll { $0.name.lowercased() == "x-marfa-contract" }
        changed.headers += headers.map { HTTPHeader("X-Marfa-Contract", $0) }
        return .success(changed)
      }
      #expect(bench.refusal { try bench.fill() }?.code == .contractMismatch)
      #expect(bench.transport.requests == ["GET /"])
      #expect(bench.transport.sent.first?.headers.contains { $0.name == "Authorization" } == false)
    }
  }

  @Test("D53.2 ER15.2 a refused credential ends a filled copy and keeps its rows; before a fill the call alone fails")
  func credential() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.reopen(key: "marfa_wrong")
    #expect(bench.refusal { try bench.fill() }?.code == .unauthorized)
    #expect(try bench.copy.hydration() == .never)
    try bench.reopen()
    try bench.fill()
    try bench.reopen(key: "marfa_wrong")
    let refusal = bench.refusal { try bench.copy.catchUp() }
    #expect(refusal?.code == .copyExpired && refusal?.reason == "credential_ended")
    #expect(try bench.copy.hydration() == .expired)
    #expect(try bench.copy.item(note) != nil)
    try bench.reopen()
    try bench.fill()
    #expect(try bench.copy.hydration() == .complete)
  }

  @Test("D54 ER15 a certified absence lets a row go, the bin keeps it, an unproven one ends the copy")
  func freshReads() throws {
    let bench = try CopyBench()
    let binned = try bench.note("Binned")
    let kept = try bench.note("Kept")
    try bench.fill()
    try bench.ask("DELETE", "/items/\(binned)?version=1")
    #expect(try bench.copy.freshRead(item: binned)?.state == "trashed")
    #expect(try bench.copy.rowState(binned) == .trashed)
    try bench.ask("PATCH", "/items/\(kept)", ["version": 1, "properties": ["title": "New"]])
    #expect(try bench.copy.freshRead(item: kept)?.version == 2)
    try bench.ask("POST", "/items/\(binned)/purge?version=1")
    #expect(try bench.copy.freshRead(item: binned) == nil)
    #expect(try bench.copy.item(binned) == nil)
    bench.transport.after = { _, response in
      var changed = response
      changed.headers.removeAll { $0.name.lowercased() == "x-marfa-read-view" }
      return .success(changed)
    }
    let refusal = bench.refusal { try bench.copy.freshRead(item: kept) }
    #expect(refusal?.reason == "read_view_invalid")
    #expect(try bench.copy.hydration() == .expired)
  }

  @Test("D-S10 D-S12 D-S20 a pinned row outside the slice is held through events and fills until it is unpinned")
  func pins() throws {
    let bench = try CopyBench()
    let outside = try bench.note("Outside", tier: "feed")
    let target = try bench.note("Target")
    try bench.edge("references", outside, target)
    try bench.fill()
    #expect(try bench.copy.pin(outside, owner: "a").wasPinned == false)
    #expect(try bench.copy.item(outside) != nil)
    #expect(try bench.copy.edges(from: outside).count == 1)
    #expect(try bench.copy.pin(outside, owner: "b").wasPinned)
    try bench.ask("PATCH", "/items/\(outside)", ["version": 1, "properties": ["title": "Changed"]])
    try bench.copy.catchUp()
    #expect(try bench.copy.item(outside)?.properties["title"]?.text == "Changed")
    try bench.fill()
    #expect(try bench.copy.item(outside)?.version == 2)
    #expect(try bench.copy.status().pinned == [outside])
    try bench.copy.unpin(outside, owner: "a")
    #expect(try bench.copy.item(outside) != nil)
    #expect(try bench.copy.unpin(outside, owner: "b").wasPinned)
    #expect(try bench.copy.item(outside) == nil)
    #expect(try bench.copy.edges(from: outside).isEmpty)
  }

  @Test("D-S13 D-S14 a pin of what is nowhere is refused, and of a copy never filled unasked")
  func pinAbsent() throws {
    let bench = try CopyBench()
    let nowhere = bench.context.ids.next()
    #expect(bench.refusal { try bench.copy.pin(nowhere, owner: "a") }?.code == .hydrationIncomplete)
    #expect(bench.transport.requests.isEmpty)
    try bench.fill()
    #expect(bench.refusal { try bench.copy.pin(nowhere, owner: "a") }?.code == .notFound)
    #expect(try bench.copy.pins().isEmpty)
  }

  @Test("D40.1 D40.2 D40.3 D40.12 D40.13 a held stream tells what changed, once out of reach, once back")
  func held() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    var told: [Text] = []
    var step = 0
    bench.transport.whileIdle = {
      step += 1
      if step == 1 {
        _ = try? bench.ask("PATCH", "/items/\(note)", ["version": 1, "properties": ["title": "One"]])
        return true
      }
      return false
    }
    var failures = 0
    bench.scheduler.onWait { @Sendable in }
    bench.transport.before = { request in
      // Two openings in a row fail once the first stream fell silent.
      if request.url.hasSuffix("/"), step >= 2, failures < 2 {
        failures += 1
        return .failure(.unreachable("down"))
      }
      if request.url.hasSuffix("/"), failures == 2, told.last != "item.updated" {
        failures = 3
        _ = try? bench.ask("PATCH", "/items/\(note)", ["version": 2, "properties": ["title": "Two"]])
      }
      return nil
    }
    let report = try bench.copy.follow { change in
      told.append(change.event)
      return told.count == 4 ? .enough : .more
    }
    #expect(told == ["item.updated", "server.unreachable", "server.reachable", "item.updated"])
    #expect(report.applied == 2 && report.failedOpens == 2)
    #expect(try bench.copy.item(note)?.properties["title"]?.text == "Two")
  }

  @Test(
    "D40.4 D40.7 a listener hears that something changed without touching the store, and says once that it is cut off")
  func listener() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    let place = try #require(try bench.copy.streamPlace())
    let stop = StopFlag()
    var idle = 0
    bench.transport.whileIdle = {
      idle += 1
      guard idle == 1 else { return false }
      _ = try? bench.ask("PATCH", "/items/\(note)", ["version": 1, "properties": ["title": "One"]])
      return true
    }
    var down = 0
    bench.transport.before = { request in
      guard request.url.hasSuffix("/"), idle >= 2 else { return nil }
      down += 1
      if down == 3 { stop.set(.stopped) }
      return .failure(.unreachable("down"))
    }
    var news: [StreamNews] = []
    let before = try bench.copy.status().eventCursor
    let end = StreamListener(context: bench.context, stop: stop).listen(from: place) { news.append($0) }
    #expect(end == nil)
    #expect(news.count == 3 && news.prefix(2) == [.reachable, .changed])
    if case .unreachable? = news.last {} else { Issue.record("not told unreachable") }
    #expect(try bench.copy.status().eventCursor == before)
    #expect(try bench.copy.item(note)?.version == 1)
  }

  @Test("D-S18 D1.17 pins survive an aged cursor; a pinned row in the bin is held through the refill")
  func pinnedRefill() throws {
    let bench = try CopyBench()
    let outside = try bench.note("Outside", tier: "feed")
    let binned = try bench.note("Binned", tier: "feed")
    try bench.fill()
    try bench.copy.pin(outside, owner: "a")
    try bench.copy.pin(binned, owner: "a")
    try bench.ask("DELETE", "/items/\(binned)?version=1")
    try bench.note("Later")
    bench.clock.advance(seconds: 3600 * 24 * 400)
    try bench.instance.sweep()
    #expect(bench.refusal { try bench.copy.catchUp() }?.reason == "catchup_too_old")
    try bench.fill()
    #expect(try bench.copy.pins() == [outside, binned].sorted())
    #expect(try bench.copy.item(outside) != nil)
    #expect(try bench.copy.rowState(binned) == .trashed)
  }
}
