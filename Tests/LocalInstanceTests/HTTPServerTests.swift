import CPosix
import Glibc
import MarfaBase
import Synchronization
import Testing

@testable import LocalInstance

/// Answers with what it was asked; streams are steered by the test.
private final class EchoEngine: ServedEngine {
  /// What the test sees and does from outside.
  final class Board: Sendable {
    let batches = Mutex<[Int]>([])
    let streams = Mutex<[String]>([])
    let closed = Atomic<Int>(0)
    let failBatches = Atomic<Bool>(false)
    let slow = Atomic<Bool>(false)
    let unwaiting = Atomic<Int>(0)
  }

  final class Source: EventSource {
    let board: Board
    var unread = 0
    var at = 0
    var first: [UInt8]? = Array(": connected\n\n".utf8)
    init(_ board: Board) { self.board = board }
    func take() -> [UInt8]? {
      if let bytes = first {
        first = nil
        return bytes
      }
      let texts = board.streams.withLock { $0 }
      guard at < texts.count else { return [] }
      at += 1
      return texts[at - 1].isEmpty ? nil : Array(texts[at - 1].utf8)
    }
    func close() { board.closed.add(1, ordering: .relaxed) }
  }

  let board: Board
  var onEvents: (() -> Void)?
  private var inBatch = false
  init(_ board: Board) { self.board = board }

  func handle(_ request: InstanceRequest) -> InstanceAnswer {
    if request.target == "/events" {
      return .stream(
        head: HTTPResponse(status: 200, headers: [HTTPHeader("Content-Type", "text/event-stream")]),
        source: Source(board))
    }
    if request.method == "HEAD" {
      return .whole(HTTPResponse(status: 200, headers: [HTTPHeader("Content-Length", "12345")]))
    }
    if request.target == "/say" {
      board.streams.withLock { $0.append(String(decoding: request.body, as: UTF8.self)) }
      onEvents?()
    }
    if board.slow.load(ordering: .relaxed) { usleep(20_000) }
    let text = "\(request.method) \(request.target) \(request.body.count) " + ContentHash(of: request.body).hex
    return .whole(
      HTTPResponse(status: 201, headers: [HTTPHeader("X-Marfa-Contract", "0")], body: Array(text.utf8)))
  }

  func batch(_ work: () throws -> Void) throws {
    struct Failed: Error {}
    board.batches.withLock { $0.append(0) }
    try work()
    if board.failBatches.load(ordering: .relaxed) { throw Failed() }
  }

  func withoutWaiting(_ work: () -> Void) {
    board.unwaiting.add(1, ordering: .relaxed)
    work()
  }

  func tick() {}
  func stop() {
    board.streams.withLock { $0.append("event: stream_incomplete\n\n") }
    board.streams.withLock { $0.append("") }
  }
}

/// A server on a thread of its own.
private final class Running: Sendable {
  let board = EchoEngine.Board()
  let stop = StopFlag()
  let url: String
  let ended = Atomic<Int>(0)

  init(tcp: Bool = true, path: String? = nil, idleExit: UInt64 = 0, bodyPatience: UInt64? = nil) throws {
    let listener =
      try path.map { path throws(Listener.Failure) in try Listener.unix(PathBytes(path)) }
      ?? Listener.tcp("127.0.0.1:0", allowPublic: false)
    url = listener.url
    struct Handed: @unchecked Sendable { let listener: Listener }
    let handed = Handed(listener: listener)
    let board = board
    let stop = stop
    detachThread { [self] in
      var options = HTTPServer.Options()
      options.idleExit = idleExit
      if let bodyPatience { options.bodyPatience = bodyPatience }
      let server = HTTPServer(
        engine: EchoEngine(board), ids: SystemIds(clock: SystemClock()), listeners: [handed.listener], options: options)
      let isClean = (try? server.run(stop: stop)) ?? false
      ended.store(isClean ? 1 : 2, ordering: .releasing)
    }
  }

  func end() -> Int {
    stop.set(.stopped)
    _ = eventually { ended.load(ordering: .acquiring) != 0 }
    return ended.load(ordering: .acquiring)
  }
}

@Suite(.serialized) struct HTTPServerTests {
  @Test("requests come to the engine as written, one after another on one connection")
  func echo() throws {
    let server = try Running()
    let client = WireClient(url: server.url)
    for _ in 0..<3 {
      let got = client.ask(
        "POST /items%2F..%00/\u{e9}?a=%20&a=+ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\nhello")
      #expect(got?.status == 201)
      #expect(got?.header("x-marfa-contract") == "0")
      #expect(
        got.map { String(decoding: $0.body, as: UTF8.self) }?.hasPrefix("POST /items%2F..%00/\u{e9}?a=%20&a=+ 5 ")
          == true)
    }
    let big = [UInt8](repeating: 7, count: 3_000_000)
    client.write("POST /blobs HTTP/1.1\r\nHost: localhost:9\r\nTransfer-Encoding: chunked\r\n\r\n2dc6c0\r\n")
    client.write(big + Array("\r\n0\r\n\r\n".utf8))
    let text = client.answer().map { String(decoding: $0.body, as: UTF8.self) }
    #expect(text == "POST /blobs 3000000 \(ContentHash(of: big).hex)")
    let head = client.ask("HEAD /blobs/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    #expect(head?.header("content-length") == "12345")
    #expect(client.ask("GET http://127.0.0.1/a?b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")?.status == 201)
    #expect(server.end() == 1)
  }

  @Test(
    "N2.1 what is no honest request is refused in the contract's shape",
    arguments: [
      ("GET / HTTP/1.1\r\n\r\n", 400, "validation_error"),
      ("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n", 400, "validation_error"),
      ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "forbidden"),
      ("GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n", 403, "forbidden"),
      ("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\n\r\n", 403, "forbidden"),
      ("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: null\r\n\r\n", 403, "forbidden"),
      (
        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
        "validation_error"
      ),
      ("POST /items HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 16777217\r\n\r\n", 413, "request_too_large"),
    ])
  func refusals(_ text: String, _ status: Int, _ code: String) throws {
    let server = try Running()
    let got = WireClient(url: server.url).ask(text)
    #expect(got?.status == status)
    #expect(got?.header("x-error-code") == code)
    #expect(got?.header("x-marfa-contract") == "0")
    #expect(got?.header("x-request-id") != nil)
    #expect(server.end() == 1)
  }

  @Test("ER2.4 a body that does not arrive in time is 408 request_timeout")
  func late() throws {
    let server = try Running(bodyPatience: 1_000_000_000)
    let client = WireClient(url: server.url)
    client.write("POST /items HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\nhel")
    var answer: HTTPResponse?
    // Each look waits ten seconds at most.
    for _ in 0..<12 where answer == nil { answer = client.answer() }
    #expect(answer?.status == 408 && answer?.header("x-error-code") == "request_timeout")
    #expect(answer?.header("x-marfa-contract") == "0" && answer?.header("x-request-id") != nil)
    let code = answer.flatMap { try? JSON(parsing: $0.body) }?["error"]?["code"]?.text
    #expect(code == "request_timeout")
    #expect(client.read().isEmpty)
    let next = WireClient(url: server.url).ask(
      "POST /items HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\nhi")
    #expect(next?.status == 201)
    #expect(server.end() == 1)
  }

  @Test("B2.8 EV17.2 requests whose clients left with their last bytes end, and an idle server with them")
  func left() throws {
    let server = try Running(idleExit: 2_000_000_000)
    let gone = (0..<4).map { _ in WireClient(url: server.url) }
    for client in gone {
      client.write("POST /items HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 900000\r\n\r\n")
      client.write([UInt8](repeating: 1, count: 300_000))
      client.hangUp()
    }
    // It ends by itself once none is open: long before the two minutes a connection may stand.
    for _ in 0..<9_000 where server.ended.load(ordering: .acquiring) == 0 { usleep(10_000) }
    #expect(server.ended.load(ordering: .acquiring) == 1)
  }

  @Test("a body that grows past the limit without a declared length is 413")
  func growing() throws {
    let server = try Running()
    let client = WireClient(url: server.url)
    client.write("POST /items HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    let piece = [UInt8](repeating: 1, count: 1 << 20)
    for _ in 0..<17 { client.write(Array("100000\r\n".utf8) + piece + Array("\r\n".utf8)) }
    client.write("0\r\n\r\n")
    #expect(client.answer()?.status == 413)
    #expect(server.end() == 1)
  }

  @Test("ER2.4 a client that sends its whole body before it reads is answered 413, however early it was refused")
  func refusedEarly() throws {
    let server = try Running()
    for head in ["POST /items/bulk", "PATCH /items/x", "PUT /types/x"] {
      let client = WireClient(url: server.url)
      client.write("\(head) HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: \((16 << 20) + 1)\r\n\r\n")
      let piece = [UInt8](repeating: 0x20, count: 1 << 20)
      for _ in 0..<16 { client.write(piece) }
      client.write([0x20])
      let answer = client.answer()
      #expect(answer?.status == 413 && answer?.header("x-error-code") == "request_too_large", "\(head)")
      #expect(client.read().isEmpty)
    }
    #expect(server.end() == 1)
  }

  @Test("ER4.2 writes whose shared commit failed are asked again without another wait for a lock")
  func contention() throws {
    let server = try Running()
    server.board.slow.store(true, ordering: .relaxed)
    server.board.failBatches.store(true, ordering: .relaxed)
    let clients = (0..<8).map { _ in WireClient(url: server.url) }
    for client in clients { client.write("PUT /x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n") }
    for client in clients { #expect(client.answer()?.status == 201) }
    let batches = server.board.batches.withLock { $0.count }
    #expect(server.board.unwaiting.load(ordering: .relaxed) == batches)
    #expect(server.end() == 1)
  }

  @Test("writes that wait together share one commit; where it fails each is answered on its own")
  func groups() throws {
    let server = try Running()
    server.board.slow.store(true, ordering: .relaxed)
    for fails in [false, true] {
      server.board.failBatches.store(fails, ordering: .relaxed)
      server.board.batches.withLock { $0.removeAll() }
      let clients = (0..<8).map { _ in WireClient(url: server.url) }
      for client in clients { client.write("PUT /x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n") }
      for client in clients { #expect(client.answer()?.status == 201) }
      #expect((1...4).contains(server.board.batches.withLock { $0.count }))
    }
    #expect(server.end() == 1)
  }

  @Test("EV17.1 a stream is pushed to, is ended at a stop, and holds up no write")
  func streams() throws {
    let server = try Running()
    let viewer = WireClient(url: server.url)
    viewer.write("GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    #expect(viewer.read(until: ": connected\n\n").contains("text/event-stream"))
    let writer = WireClient(url: server.url)
    for number in 0..<50 {
      let body = "data: \(number)\n\n"
      let got = writer.ask(
        "POST /say HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
      #expect(got?.status == 201)
      #expect(viewer.read(until: body).contains(body))
    }
    #expect(server.stop.isSet == false)
    let ended = server.end()
    #expect(ended == 1)
    #expect(viewer.read(until: "0\r\n\r\n").contains("stream_incomplete"))
    #expect(server.board.closed.load(ordering: .relaxed) == 1)
  }

  @Test("EV18.2 a viewer that leaves is noticed while its stream is quiet")
  func leaving() throws {
    let server = try Running()
    let viewer = WireClient(url: server.url)
    viewer.write("GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    _ = viewer.read(until: ": connected\n\n")
    viewer.hangUp()
    #expect(eventually { server.board.closed.load(ordering: .relaxed) == 1 })
    #expect(server.end() == 1)
  }

  @Test("N2.1 N2.9 a unix socket of mode 0600 is served, and an unused instance ends by itself; a held stream is use")
  func unixSocket() throws {
    let directory = "/tmp/marfa-shell-\(getpid())"
    mkdir(directory, 0o700)
    let path = directory + "/instance.sock"
    defer {
      unlink(path)
      rmdir(directory)
    }
    let server = try Running(path: path, idleExit: 300_000_000)
    #expect(server.url == "local")
    var found = marfa_stat()
    #expect(marfa_statx(AT_FDCWD, path, &found) == 0)
    #expect(found.mode & 0o777 == 0o600)
    let viewer = WireClient(path: path)
    viewer.write("GET /events HTTP/1.1\r\nHost: local\r\n\r\n")
    #expect(viewer.read(until: ": connected\n\n").contains("200"))
    let client = WireClient(path: path)
    for _ in 0..<5 {
      #expect(client.ask("GET /a HTTP/1.1\r\nHost: local\r\n\r\n")?.status == 201)
      usleep(100_000)
    }
    #expect(server.ended.load(ordering: .acquiring) == 0)
    viewer.hangUp()
    #expect(eventually { server.ended.load(ordering: .acquiring) == 1 })
  }

  @Test("N2.4 an address other than loopback is refused without the person's word")
  func publicAddress() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "example.com:80", "127.0.0.1", "127.0.0.1:x"] {
      #expect(throws: Listener.Failure.self) { try Listener.tcp(address, allowPublic: false) }
    }
    #expect(throws: Never.self) { _ = try Listener.tcp("0.0.0.0:0", allowPublic: true) }
  }
}
