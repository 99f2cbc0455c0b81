import Dispatch
import LocalInstance
import MarfaBase
import Synchronization
import TestSupport
import Testing

@testable import MarfaCopy

/// The way to a bench's instance, whose copy streams' pieces come at the times a script says. It keeps the promise a
/// transport makes about silence: no byte for longer than was allowed ends the stream there.
private final class TimedStreams: Transport, @unchecked Sendable {
  // Unchecked: one test's thread uses it.
  private let bench: CopyBench
  /// For each opening, what comes after how many seconds; after the last the server keeps still.
  private var script: [[(after: UInt64, piece: String)]]
  /// How each opening ended.
  private(set) var ends: [String] = []

  init(_ bench: CopyBench, _ script: [[(after: UInt64, piece: String)]]) {
    self.bench = bench
    self.script = script
  }

  func pool(stop: StopFlag) -> any RequestPool { bench.transport.pool(stop: stop) }
  func send(_ request: HTTPRequest, stop: StopFlag) throws(TransportError) -> HTTPResponse {
    try bench.transport.send(request, stop: stop)
  }

  func stream(
    _ request: HTTPRequest, silence: UInt64, stop: StopFlag, head: (HTTPResponse) -> StreamStep,
    piece: ([UInt8]) -> StreamStep
  ) throws(TransportError) -> StreamEnd {
    guard !script.isEmpty else { throw .unreachable("nothing more") }
    let pieces = script.removeFirst()
    let second: UInt64 = 1_000_000_000
    for (place, (after, text)) in pieces.enumerated() {
      let allowed = place == 0 ? request.answerTimeout : silence
      guard after * second <= allowed else {
        bench.clock.advance(nanoseconds: allowed)
        ends.append("silent at piece \(place)")
        if place == 0 { throw .timedOut("no answer began within \(allowed / second) s") }
        return .silent
      }
      bench.clock.advance(seconds: after)
      if place == 0, head(HTTPResponse(status: 200, headers: [HTTPHeader("X-Marfa-Contract", "0")])) == .enough {
        return .closed
      }
      if piece(Array(text.utf8)) == .enough {
        ends.append("enough at piece \(place)")
        return .closed
      }
      if stop.isSet { return .closed }
    }
    bench.clock.advance(nanoseconds: silence)
    ends.append("silent after all")
    return .silent
  }

  /// A handle on the bench's store over these streams.
  func copy() throws -> WorkingCopy {
    let context = Context(
      clock: bench.clock, ids: bench.context.ids, files: bench.context.files, transport: self,
      scheduler: bench.scheduler, log: SilentLog())
    return try WorkingCopy.open(
      database: bench.database, blobs: bench.copy.blobs, context: context, role: .writer,
      endpoint: Endpoint(baseURL: CopyBench.origin, credential: CopyBench.key), credentials: nil)
  }
}

@Suite("How long the client waits, and what it judges by the head") struct ClientWaitScenarios {
  @Test("EV-S53 silence past each wait is stream_incomplete, cursor kept; comments alone keep a held stream")
  func silence() throws {
    let comment = ": ping\n\n"
    for (name, pieces, end) in [
      ("no first byte in 15 s", [(16, comment)], "silent at piece 0"),
      ("no first event in 10 s", [(14, comment), (11, "HEAD")], "silent at piece 1"),
      (
        "comments where the first event is due", [(1, comment), (6, comment), (6, comment), (1, "HEAD")],
        "enough at piece 2"
      ),
      ("10 s of silence later", [(1, comment), (9, "HEAD"), (9, "EVENT"), (11, "LIVE")], "silent at piece 3"),
    ] as [(String, [(UInt64, String)], String)] {
      let bench = try CopyBench()
      let note = try bench.note("Note")
      try bench.fill()
      let head = try bench.marker("stream_cursor", "1000")
      let live = try bench.marker("stream_live", "1000")
      let event = bench.event(at: "900", note, version: 2)
      let timed = TimedStreams(
        bench,
        [
          pieces.map { after, piece in
            (after, piece == "HEAD" ? head : piece == "LIVE" ? live : piece == "EVENT" ? event : piece)
          }
        ])
      let copy = try timed.copy()
      let before = try copy.status().eventCursor
      let refusal = bench.refusal { try copy.catchUp() }
      #expect(refusal?.code == .streamIncomplete, "\(name): \(refusal?.description ?? "none")")
      #expect(timed.ends == [end], "\(name)")
      #expect(try copy.status().eventCursor == (pieces.contains { $0.1 == "EVENT" } ? "900" : before), "\(name)")
      #expect(try copy.hydration() == .complete)
    }
    // Slow but never silent, it gets there; without an end it is left after two minutes.
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    let head = try bench.marker("stream_cursor", "1000")
    let slow = TimedStreams(
      bench, [[(14, comment), (9, head), (9, comment), (9, try bench.marker("stream_live", "1000"))]])
    try slow.copy().catchUp()
    let endless = TimedStreams(
      bench, [[(1, comment), (1, head)] + (0..<40).map { _ in (9, comment) }])
    let copy = try endless.copy()
    #expect(bench.refusal { try copy.catchUp() }?.code == .streamIncomplete)
    #expect(endless.ends.first.map { $0.hasPrefix("enough") } == true)

    // Held: comments alone every 80 s keep it, 91 s without one do not.
    func opening(_ cursor: Text) throws -> [(UInt64, String)] {
      [(1, comment), (1, try bench.marker("stream_cursor", cursor)), (1, try bench.marker("stream_live", cursor))]
    }
    let event = bench.event(at: "1001", note, version: 3)
    let held = TimedStreams(
      bench,
      [
        try opening("1000") + [(30, comment), (30, comment), (30, comment), (1, event)],
        try opening("3000") + [(80, comment), (91, comment)],
      ])
    var told: [Text] = []
    let report = try held.copy().follow { change in
      told.append(change.event)
      return change.event == "server.unreachable" ? .enough : .more
    }
    #expect(held.ends.last == "silent at piece 4")
    #expect(told.first == "item.updated" && report.applied == 1)
    #expect(report.reconnects >= 1 && report.lastFailure != nil)
  }

  @Test("RV-S17 a copy read answered 200 without the view, or a row without listed, ends the copy; the queue stays")
  func proof() throws {
    for (name, change) in [
      (
        "no view",
        { (response: HTTPResponse) in
          var response = response
          response.headers.removeAll { $0.name.lowercased() == "x-marfa-read-view" }
          return response
        }
      ),
      (
        "another view",
        { response in
          var response = response
          response.headers = response.headers.map {
            $0.name.lowercased() == "x-marfa-read-view" ? HTTPHeader($0.name, String(repeating: "f", count: 64)) : $0
          }
          return response
        }
      ),
      (
        "no listed",
        { response in
          var response = response
          response.body = Array(
            String(decoding: response.body, as: UTF8.self).replacing("\"listed\":true", with: "\"heard\":true").utf8)
          return response
        }
      ),
    ] as [(String, (HTTPResponse) -> HTTPResponse)] {
      for path in ["/items/", "/items?"] {
        let bench = try CopyBench()
        let note = try bench.note("Note")
        try bench.fill()
        let write = try bench.copy.queue.addTag(note, "kept")
        bench.transport.after = { request, response in
          .success(request.method == "GET" && request.url.contains(path) ? change(response) : response)
        }
        let refusal = bench.refusal {
          if path == "/items/" {
            _ = try bench.copy.freshRead(item: note)
          } else {
            try bench.fill(["core.note"], tier: "all")
          }
        }
        #expect(refusal?.code == .copyExpired && refusal?.reason == "read_view_invalid", "\(name) of \(path)")
        #expect(try bench.copy.hydration() == .expired && bench.copy.status().eventCursor == nil)
        let kept = try #require(try bench.copy.queue.write(write.id))
        #expect(kept.verdict == nil && kept.idempotencyKey == write.idempotencyKey)
      }
    }
  }

  /// A real socket before a bench's instance: answers that a test names come with another contract and a body without end.
  private final class OtherContract: @unchecked Sendable {
    // Unchecked: the one client asks one request at a time.
    let bench: CopyBench
    let server: SocketServer
    let copy: WorkingCopy
    let wanted = Wanted()

    init(contract: String) throws {
      let bench = try CopyBench()
      self.bench = bench
      let box = Box(bench)
      let wanted = wanted
      server = SocketServer { connection in
        while let (head, body) = connection.request() {
          let line = head.split(separator: "\r\n").first.map(String.init) ?? ""
          let parts = line.split(separator: " ").map(String.init)
          if wanted.holds("\(parts[0]) \(parts[1])") {
            connection.send(
              "HTTP/1.1 200 OK\r\n\(contract)Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{")
            _ = connection.read()
            return
          }
          if !box.answer(parts[0], parts[1], head, body, connection) { return }
        }
      }
      let context = Context(
        clock: bench.clock, ids: bench.context.ids, files: bench.context.files, transport: CurlTransport(),
        scheduler: bench.scheduler, log: SilentLog())
      copy = try WorkingCopy.open(
        database: bench.database, blobs: bench.copy.blobs, context: context, role: .writer,
        endpoint: Endpoint(baseURL: server.url(""), credential: CopyBench.key), credentials: nil)
    }

    final class Wanted: Sendable {
      private let start = Mutex<String?>(nil)
      func set(_ text: String?) { start.withLock { $0 = text } }
      func holds(_ line: String) -> Bool { start.withLock { $0.map { line.hasPrefix($0) } ?? false } }
    }

    /// The instance, one request at a time.
    final class Box: @unchecked Sendable {
      // Unchecked: one thread at a time, by `turn`.
      private let bench: CopyBench
      private let turn = DispatchSemaphore(value: 1)
      init(_ bench: CopyBench) { self.bench = bench }

      /// Answers on a connection; false where it is to be closed.
      func answer(
        _ method: String, _ target: String, _ head: String, _ body: [UInt8], _ connection: SocketServer.Connection
      ) -> Bool {
        let headers = head.split(separator: "\r\n").dropFirst().map { line in
          let parts = line.split(separator: ":", maxSplits: 1)
          return HTTPHeader(String(parts[0]), String((parts.count > 1 ? parts[1] : "").drop { $0 == " " }))
        }
        turn.wait()
        let answer = bench.instance.handle(
          InstanceRequest(method: method, target: target, headers: headers, body: body))
        turn.signal()
        func lines(_ response: HTTPResponse) -> String {
          "HTTP/1.1 \(response.status) Said\r\n" + response.headers.map { "\($0.name): \($0.value)\r\n" }.joined()
        }
        switch answer {
        case .whole(let response):
          let text = String(decoding: response.body, as: UTF8.self)
          return connection.send("\(lines(response))Content-Length: \(response.body.count)\r\n\r\n\(text)")
        case .stream(let opening, let source):
          connection.send("\(lines(opening))Connection: close\r\n\r\n")
          turn.wait()
          var frames: [UInt8] = []
          while let bytes = source.take(), !bytes.isEmpty { frames += bytes }
          source.close()
          turn.signal()
          connection.send(String(decoding: frames, as: UTF8.self))
          return false
        }
      }
    }
  }

  @Test(
    "D-S110 another contract on stream, catalog, page, link or write is contract_mismatch by the head, the body endless"
  )
  func contract() throws {
    for contract in ["X-Marfa-Contract: 7\r\n", "", "X-Marfa-Contract: 0\r\nX-Marfa-Contract: 1\r\n"] {
      let other = try OtherContract(contract: contract)
      defer { other.server.stop() }
      let note = try other.bench.note("Note")
      let slice = Slice(typeList: ["*"], tier: "all", edgeTypes: ["parent-of"])
      for door in ["GET /events", "GET /types", "GET /edge-types", "GET /items?"] {
        other.wanted.set(door)
        let refusal = other.bench.refusal { try other.copy.hydrate(slice) }
        // Waited for, the body would have timed out: network.
        #expect(refusal?.code == .contractMismatch && refusal?.server?.status == 200, "\(door)")
        #expect(try other.copy.itemCount() == 0)
      }
      other.wanted.set(nil)
      try other.copy.hydrate(slice)
      let before = try other.copy.status().eventCursor
      try other.bench.note("Later")
      other.wanted.set("GET /events")
      #expect(other.bench.refusal { try other.copy.catchUp() }?.code == .contractMismatch)
      #expect(try other.copy.status().eventCursor == before && other.copy.itemCount() == 1)
      other.wanted.set("GET /blobs/")
      #expect(other.bench.refusal { try other.copy.fetch(ContentHash(of: [1])) }?.code == .contractMismatch)
      other.wanted.set("POST /items/")
      let write = try other.copy.queue.addTag(note, "later")
      #expect(other.bench.refusal { try other.copy.queue.drain() }?.code == .contractMismatch)
      let kept = try #require(try other.copy.queue.write(write.id))
      #expect(kept.verdict == nil && kept.sent && kept.refusals == 0)
      other.wanted.set(nil)
      #expect(try other.copy.queue.drain().verdicts.map(\.verdict) == [.accepted])
    }
  }

  @Test("D-S102 D205.2 writes queued while the server was away go in one drain when it returns, and its report is told")
  func drainsOnReturn() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    var isDown = true
    bench.transport.before = { _ in isDown ? .failure(.unreachable("away")) : nil }
    let write = try bench.copy.queue.addTag(note, "while-away")
    bench.scheduler.onWait(nil)
    var reports: [DrainReport] = []
    var told: [Text] = []
    let stop = StopFlag()
    bench.copy.stop = stop
    _ = try bench.copy.follow(
      drains: true,
      onDrain: { result in
        do { reports.append(try result.get()) } catch { Issue.record(error) }
      },
      onChange: { change in
        told.append(change.event)
        if change.event == "server.unreachable" { isDown = false }
        return change.event == "server.reachable" ? .enough : .more
      })
    #expect(told.prefix(1) == ["server.unreachable"] && told.contains("server.reachable"))
    #expect(reports.map { $0.verdicts.map(\.id) } == [[write.id]])
    #expect(reports.first?.verdicts.first?.verdict == .accepted)
    #expect(bench.transport.requests.filter { $0 == "POST /items/\(note)/tags" }.count == 1)
    // Had at once, a stream drains nothing; nor does one that was not told to.
    try bench.copy.queue.addTag(note, "more")
    reports = []
    for drains in [true, false] {
      try bench.edit(
        note, version: try #require(try bench.copy.serverItem(note)).version, ["properties": ["title": "B"]])
      _ = try bench.copy.follow(drains: drains, onDrain: { _ in reports.append(DrainReport()) }) { _ in .enough }
    }
    #expect(reports.isEmpty)
    #expect(try bench.copy.queue.unansweredCount() == 1)
  }

  @Test("D-S100 a position the log let go: one ask; refilled in place and followed on, or stale; a log behind ends it")
  func agedOut() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    for _ in 0..<2 { try bench.note("Later", type: "core.bookmark") }
    bench.clock.advance(seconds: 3600 * 24 * 400)
    try bench.instance.sweep()
    bench.transport.clear()
    // Without refilling the copy stays stale, and the follow says so.
    let refusal = bench.refusal { _ = try bench.copy.follow { _ in .more } }
    #expect(refusal?.code == .copyExpired && refusal?.reason == "catchup_too_old")
    #expect(bench.transport.requests.filter { $0.hasPrefix("GET /events") }.count == 1)
    #expect(try bench.copy.hydration() == .stale && bench.copy.item(note) != nil)
    // With it, the copy is filled over in place and the stream goes on.
    var told: [Text] = []
    var held = true
    _ = try bench.copy.follow(refills: true) { change in
      told.append(change.event)
      held = held && ((try? bench.copy.item(note)) ?? nil) != nil
      if change.event == "copy.refreshed" { _ = try? bench.edit(note, version: 1, ["properties": ["title": "New"]]) }
      return change.event == "item.updated" ? .enough : .more
    }
    #expect(told == ["copy.refreshed", "item.updated"] && held)
    #expect(try bench.copy.hydration() == .complete)
    #expect(try bench.copy.item(note)?.properties["title"] == "New")
    // A log that was set back ends the copy either way.
    _ = StreamScript(bench, [.frames(try bench.stream(head: "0", []))])
    let back = bench.refusal { _ = try bench.copy.follow(refills: true) { _ in .more } }
    #expect(back?.code == .copyExpired && back?.reason == "head_past_log")
    #expect(try bench.copy.hydration() == .expired)
  }
}
