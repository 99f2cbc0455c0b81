import CPosix
import Glibc
import MarfaBase
import Synchronization
import Testing

@testable import MarfaCopy

/// An answer with a body, as it goes on the wire.
private func answer(_ status: String, _ body: String, headers: String = "") -> String {
  "HTTP/1.1 \(status)\r\nContent-Length: \(body.utf8.count)\r\n\(headers)\r\n\(body)"
}

private func seconds(_ count: Double) -> UInt64 { UInt64(count * 1e9) }

@Suite(.serialized) struct CurlTransportTests {
  @Test("a request goes out as written and its answer comes back whole")
  func roundTrip() throws {
    let seen = Mutex<[String]>([])
    let server = SocketServer { connection in
      while let request = connection.request() {
        seen.withLock { $0.append(request.head + "|" + String(decoding: request.body, as: UTF8.self)) }
        connection.send(answer("201 Created", "{}", headers: "X-Marfa-Contract: 0\r\nX-Twice: a\r\nx-twice: b\r\n"))
      }
    }
    defer { server.stop() }
    let transport = CurlTransport()
    let got = try transport.send(
      HTTPRequest(
        method: "PATCH", url: server.url("/items/../a%2Fb?q=%00&x=1"),
        headers: [HTTPHeader("Idempotency-Key", "k1"), HTTPHeader("X-Empty", "")], body: .bytes(Array("hello".utf8))),
      stop: StopFlag())
    #expect(got.status == 201)
    #expect(got.header("x-marfa-contract") == "0")
    #expect(got.headers.filter { $0.name.lowercased() == "x-twice" }.map(\.value) == ["a", "b"])
    #expect(got.body == Array("{}".utf8))
    let text = seen.withLock { $0[0] }
    #expect(text.hasPrefix("PATCH /items/../a%2Fb?q=%00&x=1 HTTP/1.1\r\n"))
    #expect(text.contains("Idempotency-Key: k1\r\n"))
    #expect(text.contains("X-Empty:\r\n"))
    #expect(!text.lowercased().contains("content-type"))
    #expect(text.hasSuffix("|hello"))
  }

  @Test("one connection serves one request after another, over pools and sends")
  func keptConnections() throws {
    let server = SocketServer { connection in
      while connection.request() != nil { connection.send(answer("200 OK", "x")) }
    }
    defer { server.stop() }
    let transport = CurlTransport()
    for _ in 0..<5 {
      _ = try transport.send(HTTPRequest(method: "GET", url: server.url("/")), stop: StopFlag())
    }
    let pool = transport.pool(stop: StopFlag())
    pool.start(HTTPRequest(method: "GET", url: server.url("/")), tag: 1)
    #expect(try pool.next()?.result.get().status == 200)
    #expect(server.accepted.load(ordering: .relaxed) == 1)
  }

  @Test("a connection the server closed meanwhile is opened anew")
  func closedConnection() throws {
    let server = SocketServer { connection in
      if connection.request() != nil { connection.send(answer("200 OK", "x")) }
    }
    defer { server.stop() }
    let transport = CurlTransport()
    for _ in 0..<20 {
      let request = HTTPRequest(method: "POST", url: server.url("/"), body: .bytes([1, 2]))
      #expect(try transport.send(request, stop: StopFlag()).status == 200)
    }
  }

  @Test("Q28.2 a write whose kept connection breaks under it goes out once, and the next opens another")
  func onceOnly() throws {
    let seen = Mutex<[String]>([])
    let server = SocketServer { connection in
      // The second request of a connection is read, and the connection dropped.
      for place in 0..<2 {
        guard let request = connection.request() else { return }
        seen.withLock { $0.append(String(request.head.split(separator: " ")[1])) }
        if place == 0 { connection.send(answer("200 OK", "x")) }
      }
    }
    defer { server.stop() }
    let transport = CurlTransport()
    func post(_ path: String) throws -> Int {
      try transport.send(
        HTTPRequest(
          method: "POST", url: server.url(path), headers: [HTTPHeader("Idempotency-Key", "k")], body: .bytes([1, 2])),
        stop: StopFlag()
      ).status
    }
    #expect(try post("/1") == 200)
    #expect(throws: TransportError.self) { try post("/2") }
    #expect(try post("/3") == 200)
    #expect(seen.withLock { $0 } == ["/1", "/2", "/3"])
  }

  @Test("many in flight: at most 16 on the wire, each under its tag, and more may start between answers")
  func manyInFlight() throws {
    let now = Atomic<Int>(0)
    let most = Atomic<Int>(0)
    let server = SocketServer { connection in
      while let request = connection.request() {
        most.max(now.add(1, ordering: .relaxed).newValue, ordering: .relaxed)
        usleep(2_000)
        now.subtract(1, ordering: .relaxed)
        connection.send(answer("200 OK", String(request.head.split(separator: " ")[1])))
      }
    }
    defer { server.stop() }
    let pool = CurlTransport().pool(stop: StopFlag())
    for tag in 0..<60 { pool.start(HTTPRequest(method: "GET", url: server.url("/\(tag)")), tag: tag) }
    #expect(pool.inFlight == 60)
    var seen = Set<Int>()
    var late = 60
    while let got = pool.next() {
      #expect(try String(decoding: got.result.get().body, as: UTF8.self) == "/\(got.tag)")
      #expect(seen.insert(got.tag).inserted)
      if late < 90 {
        pool.start(HTTPRequest(method: "GET", url: server.url("/\(late)")), tag: late)
        late += 1
      }
    }
    #expect(seen.count == 90)
    #expect(pool.inFlight == 0)
    #expect(most.load(ordering: .relaxed) <= 16)
    #expect(most.load(ordering: .relaxed) > 4)
  }

  @Test("no redirect is followed: the 307 comes back as it is")
  func redirect() throws {
    let server = SocketServer { connection in
      while connection.request() != nil {
        connection.send(answer("307 Temporary Redirect", "", headers: "Location: http://127.0.0.1:1/\r\n"))
      }
    }
    defer { server.stop() }
    let got = try CurlTransport().send(HTTPRequest(method: "GET", url: server.url("/")), stop: StopFlag())
    #expect(got.status == 307)
    #expect(got.header("location") == "http://127.0.0.1:1/")
  }

  @Test("stop ends a wait at once, and the flag keeps no trace of the request")
  func stops() throws {
    let server = SocketServer { connection in
      _ = connection.request()
      _ = connection.read()
    }
    defer { server.stop() }
    let stop = StopFlag()
    let transport = CurlTransport()
    detachThread {
      usleep(100_000)
      stop.set(.stopped)
    }
    let began = marfa_boottime()
    #expect(throws: TransportError.stopped) {
      try transport.send(HTTPRequest(method: "GET", url: server.url("/")), stop: stop)
    }
    #expect(marfa_boottime() - began < seconds(3))
    let end = try transport.stream(
      HTTPRequest(method: "GET", url: server.url("/")), silence: seconds(9), stop: stop, head: { _ in .more },
      piece: { _ in .more })
    #expect(end == .closed)
  }

  @Test("an answer that does not begin, and one that does not end, are timed out by our own timers")
  func times() throws {
    let server = SocketServer { connection in
      while let request = connection.request() {
        if request.head.contains("/half") { connection.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab") }
        _ = connection.read()
      }
    }
    defer { server.stop() }
    for path in ["/none", "/half"] {
      var request = HTTPRequest(method: "GET", url: server.url(path))
      request.answerTimeout = seconds(0.3)
      request.bodyTimeout = seconds(0.3)
      do {
        _ = try CurlTransport().send(request, stop: StopFlag())
        Issue.record("no timeout")
      } catch {
        guard case .timedOut = error else {
          Issue.record("\(error)")
          continue
        }
      }
    }
  }

  @Test("a body past the limit is tooLarge; at the limit it is whole")
  func limits() throws {
    let server = SocketServer { connection in
      while connection.request() != nil { connection.send(answer("200 OK", "12345")) }
    }
    defer { server.stop() }
    var request = HTTPRequest(method: "GET", url: server.url("/"))
    request.bodyLimit = 5
    #expect(try CurlTransport().send(request, stop: StopFlag()).body.count == 5)
    request.bodyLimit = 4
    #expect(throws: TransportError.tooLarge) { try CurlTransport().send(request, stop: StopFlag()) }
  }

  @Test("nothing listening, a broken answer and an unusable address are told apart from an answer")
  func failures() {
    let closing = SocketServer { connection in
      _ = connection.request()
      connection.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")
    }
    closing.stop()
    let broken = SocketServer { connection in
      _ = connection.request()
      connection.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")
    }
    defer { broken.stop() }
    for url in [closing.url("/"), broken.url("/"), "ftp://127.0.0.1/", "file:///etc/passwd", "http://local/"] {
      do {
        _ = try CurlTransport().send(HTTPRequest(method: "GET", url: url), stop: StopFlag())
        Issue.record("an answer from \(url)")
      } catch {
        guard case .unreachable = error else {
          Issue.record("\(url): \(error)")
          continue
        }
      }
    }
  }

  @Test("a file's bytes are streamed as the body; a missing or shrunken file is a local failure")
  func files() throws {
    let length = Atomic<Int>(0)
    let server = SocketServer { connection in
      while let request = connection.request() {
        length.store(request.body.count, ordering: .relaxed)
        connection.send(answer("200 OK", ContentHash(of: request.body).hex))
      }
    }
    defer { server.stop() }
    let scratch = ScratchDirectory()
    let path = scratch.path + "/blob"
    let bytes = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
    let file = open(path, O_CREAT | O_WRONLY, 0o600)
    #expect(bytes.withUnsafeBytes { marfa_write_all(file, $0.baseAddress, $0.count) } == 0)
    close(file)
    func upload(_ path: String, _ size: Int64) throws -> HTTPResponse {
      try CurlTransport().send(
        HTTPRequest(method: "POST", url: server.url("/blobs"), body: .file(PathBytes(path), size: size)),
        stop: StopFlag())
    }
    let got = try upload(path, 3_000_000)
    #expect(got.body == Array(ContentHash(of: bytes).hex.utf8))
    #expect(throws: TransportError.local(FileError(code: ENOENT, operation: "open", path: PathBytes(path + "x")))) {
      try upload(path + "x", 3)
    }
    #expect(throws: TransportError.local(FileError(code: ENODATA, operation: "read", path: PathBytes(path)))) {
      try upload(path, 3_000_001)
    }
  }

  @Test("P-S21 with a proxy in the environment nothing for loopback reaches it, and other hosts do")
  func proxies() throws {
    let recorder = SocketServer { connection in
      while let request = connection.request() {
        connection.send(answer("200 OK", String(request.head.split(separator: " ")[1])))
      }
    }
    let server = SocketServer { connection in
      while connection.request() != nil { connection.send(answer("200 OK", "direct")) }
    }
    defer {
      recorder.stop()
      server.stop()
      unsetenv("http_proxy")
    }
    func ask(_ url: String, _ transport: CurlTransport = CurlTransport()) throws -> String {
      String(
        decoding: try transport.send(HTTPRequest(method: "GET", url: url), stop: StopFlag()).body, as: UTF8.self)
    }
    let desktop = CurlTransport(.init(desktopProxy: { _ in "http://127.0.0.1:\(recorder.port)" }))
    #expect(try ask("http://marfa.test/d", desktop) == "http://marfa.test/d")
    #expect(try ask(server.url("/"), desktop) == "direct")
    setenv("http_proxy", "http://127.0.0.1:\(recorder.port)", 1)
    #expect(try ask("http://marfa.test/a") == "http://marfa.test/a")
    #expect(try ask(server.url("/")) == "direct")
    #expect(try ask("http://localhost:\(server.port)/") == "direct")
    #expect(CurlAddress("http://127.9.9.9/")?.isLoopback == true)
    #expect(CurlAddress("http://[::1]:8/")?.isLoopback == true)
    #expect(CurlAddress("http://[0:0::1]/")?.isLoopback == true)
    #expect(CurlAddress("http://127.0.0.1.example/")?.isLoopback == false)
    #expect(CurlAddress("http://127.0.0.1@example.com/")?.isLoopback == false)
    #expect(CurlAddress("https://local/")?.isLocalInstance == false)
  }

  @Test("the address local is the instance's unix socket, its peer our own user")
  func localSocket() throws {
    let scratch = ScratchDirectory()
    let path = scratch.path + "/instance.sock"
    let server = SocketServer(path: path) { connection in
      while let request = connection.request() { connection.send(answer("200 OK", request.head)) }
    }
    defer { server.stop() }
    let transport = CurlTransport(.init(localSocket: PathBytes(path)))
    for _ in 0..<3 {
      let got = try transport.send(HTTPRequest(method: "GET", url: "http://local/items?limit=2"), stop: StopFlag())
      let head = String(decoding: got.body, as: UTF8.self)
      #expect(head.hasPrefix("GET /items?limit=2 HTTP/1.1\r\nHost: local\r\n"))
    }
    #expect(server.accepted.load(ordering: .relaxed) == 1)
    // A path longer than a socket address holds is reached through its directory.
    let deep = scratch.path + "/" + String(repeating: "d", count: 120)
    symlink(scratch.path, deep)
    let long = CurlTransport(.init(localSocket: PathBytes(deep + "/instance.sock")))
    #expect(try long.send(HTTPRequest(method: "GET", url: "http://local/"), stop: StopFlag()).status == 200)
    let absent = CurlTransport(.init(localSocket: PathBytes(scratch.path + "/none.sock")))
    do {
      _ = try absent.send(HTTPRequest(method: "GET", url: "http://local/"), stop: StopFlag())
      Issue.record("an answer")
    } catch {
      guard case .unreachable(let words) = error else {
        Issue.record("\(error)")
        return
      }
      #expect(words.contains("not running"))
    }
  }

  @Test("a stream is read as it comes, ends as the server ends it, and its silence is noticed")
  func streams() throws {
    let server = SocketServer { connection in
      while let request = connection.request() {
        connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.send("e\r\n: connected\n\n\n\r\n")
        if request.head.contains("/ends") {
          connection.send("2\r\n:p\r\n0\r\n\r\n")
        } else if request.head.contains("/breaks") {
          return
        } else {
          _ = connection.read()
        }
      }
    }
    defer { server.stop() }
    let transport = CurlTransport()
    func run(_ path: String, enough: Bool = false) throws(TransportError) -> (StreamEnd, String) {
      var text: [UInt8] = []
      var request = HTTPRequest(method: "GET", url: server.url(path))
      request.bodyTimeout = 0
      let end = try transport.stream(
        request, silence: seconds(0.3), stop: StopFlag(),
        head: { head in
          #expect(head.status == 200)
          #expect(head.header("content-type") == "text/event-stream")
          return .more
        },
        piece: { bytes in
          text += bytes
          return enough ? .enough : .more
        })
      return (end, String(decoding: text, as: UTF8.self))
    }
    #expect(try run("/ends") == (.ended, ": connected\n\n\n:p"))
    #expect(try run("/quiet") == (.silent, ": connected\n\n\n"))
    #expect(try run("/quiet", enough: true).0 == .closed)
    do throws(TransportError) {
      _ = try run("/breaks")
      Issue.record("no failure")
    } catch {
      guard case .unreachable = error else {
        Issue.record("\(error)")
        return
      }
    }
  }
}
