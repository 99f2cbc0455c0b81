import CPosix
import Glibc
import MarfaBase
import Synchronization
import Testing

@testable import LocalInstance

/// Requests no client of ours makes: each is answered in words, or its connection ends, and the next one is served.
@Suite("Hostile requests", .serialized) struct HostileRequestTests {
  /// A real instance behind the real server, on a thread of its own.
  private final class Live: Sendable {
    let url: String
    private let stop = StopFlag()
    private let ended = Atomic<Bool>(false)

    init() throws {
      let listener = try Listener.tcp("127.0.0.1:0", allowPublic: false)
      url = listener.url
      struct Handed: @unchecked Sendable { let listener: Listener }
      // Unchecked: handed over whole.
      let handed = Handed(listener: listener)
      let stop = stop
      detachThread { [self] in
        let clock = SystemClock()
        let ids = SystemIds(clock: clock)
        if let database = try? Database(path: ":memory:", mode: .create),
          let instance = try? Instance(
            database: database, blobs: MemoryBlobs(), clock: clock, ids: ids, ownerKey: Bench.ownerKey)
        {
          _ = try? HTTPServer(engine: instance, ids: ids, listeners: [handed.listener]).run(stop: stop)
        }
        ended.store(true, ordering: .releasing)
      }
    }

    func end() {
      stop.set(.stopped)
      _ = eventually { ended.load(ordering: .acquiring) }
    }
  }

  private static let head = "Host: 127.0.0.1\r\nAuthorization: Bearer \(Bench.ownerKey)\r\n"
  private static let type = "Content-Type: application/json\r\n"

  private func isServed(_ live: Live) -> Bool {
    WireClient(url: live.url).ask("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")?.status == 200
  }

  @Test(
    "a body that breaks off, is longer or shorter than said, or comes in odd pieces writes nothing but what was whole")
  func bodies() throws {
    let live = try Live()
    defer { live.end() }
    let body = #"{"type":"core.note","properties":{"title":"T","body":"x"}}"#
    func count() -> Int? {
      let answer = WireClient(url: live.url).ask("GET /items/stats?by=type HTTP/1.1\r\n\(Self.head)\r\n")
      return answer.flatMap { try? JSON(parsing: $0.body) }?["core.note"]?.int ?? 0
    }
    // Cut off amid the body.
    do {
      let client = WireClient(url: live.url)
      client.write(
        "POST /items HTTP/1.1\r\n\(Self.head)\(Self.type)Content-Length: \(body.utf8.count + 40)\r\n\r\n\(body)")
    }
    #expect(isServed(live) && count() == 0)
    // Shorter than it is: what follows is the next request, and no request at all.
    let short = WireClient(url: live.url)
    short.write("POST /items HTTP/1.1\r\n\(Self.head)\(Self.type)Content-Length: 20\r\n\r\n\(body)")
    #expect(short.answer()?.status == 400)
    #expect(isServed(live) && count() == 0)
    // Chunks that say no number, or lie.
    for chunks in ["zz\r\n\(body)\r\n0\r\n\r\n", "-5\r\nabc\r\n0\r\n\r\n", "ffffffffffffffffff\r\nabc\r\n"] {
      do {
        let client = WireClient(url: live.url)
        client.write("POST /items HTTP/1.1\r\n\(Self.head)\(Self.type)Transfer-Encoding: chunked\r\n\r\n\(chunks)")
        if let answer = client.answer() { #expect((400..<500).contains(answer.status), "\(chunks)") }
      }
      #expect(isServed(live) && count() == 0, "\(chunks)")
    }
    for lengths in [
      "Content-Length: -1\r\n", "Content-Length: 1e3\r\n", "Content-Length: 99999999999999999999999\r\n",
      "Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
      "Content-Length: 18446744073709551615\r\n", "Content-Length:\r\n",
    ] {
      do {
        let client = WireClient(url: live.url)
        client.write("POST /items HTTP/1.1\r\n\(Self.head)\(Self.type)\(lengths)\r\n")
        if let answer = client.answer() { #expect((400..<500).contains(answer.status), "\(lengths)") }
      }
      #expect(isServed(live) && count() == 0, "\(lengths)")
    }
    // Byte by byte it is taken as ever.
    let slow = WireClient(url: live.url)
    slow.write("POST /items HTTP/1.1\r\n\(Self.head)\(Self.type)Content-Length: \(body.utf8.count)\r\n\r\n")
    for byte in body.utf8 { slow.write([byte]) }
    #expect(slow.answer()?.status == 201)
    #expect(count() == 1)
  }

  @Test("bad UTF-8, deep and broken JSON, huge numbers and repeated members are told apart, and nothing is written")
  func json() throws {
    let bench = try Bench()
    func post(_ bytes: [UInt8]) -> Answer {
      bench.send(
        "POST", "/items", nil, headers: [HTTPHeader("Content-Type", "application/json")], raw: bytes)
    }
    let before = bench.count()
    var bodies: [[UInt8]] = [
      "{", "}", "", " ", "null", "[]", "1", "\"x\"", "{\"type\":\"core.note\"", "{\"type\":\"core.note\",}", "{'a':1}",
      "{\"type\":\"core.note\",\"properties\":{\"body\":01}}",
      "{\"type\":\"core.note\",\"properties\":{\"body\":\"\\x\"}}",
      "{\"type\":\"core.note\",\"properties\":{\"body\":\"a\nb\"}}", "{\"type\":NaN}", "{} {}", "\u{FEFF}{}{}",
      "{\"type\":\"core.note\",\"properties\":{\"body\":\"\\ud800",
    ].map { Array($0.utf8) }
    bodies.append([0xFF, 0xFE, 0x7B, 0x00])
    bodies.append(
      Array("{\"type\":\"core.note\",\"properties\":{\"body\":\"".utf8) + [0xC3, 0x28] + Array("\"}}".utf8))
    bodies.append(
      Array("{\"type\":\"core.note\",\"properties\":{\"body\":\"".utf8) + [0xED, 0xA0, 0x80] + Array("\"}}".utf8))
    let deep = "{\"type\":\"core.note\",\"properties\":{\"body\":\"x\",\"d\":" + String(repeating: "[", count: 200_000)
    bodies.append(Array(deep.utf8))
    bodies.append(
      Array((String(repeating: "{\"a\":", count: 100_000) + "1" + String(repeating: "}", count: 100_000)).utf8))
    bodies.append([UInt8](repeating: 0, count: 100))
    bodies.append([UInt8](repeating: 0x22, count: 1_000_001))
    for body in bodies {
      let answer = post(body)
      #expect(
        (400..<500).contains(answer.status), "\(String(decoding: body.prefix(60), as: UTF8.self)): \(answer.status)")
      #expect(answer.code != nil && answer.code != "internal_error")
    }
    #expect(bench.count() == before)
    // A number past every double, and one with a thousand digits, are no crash.
    for number in [
      "1e400", "-1e400", String(repeating: "9", count: 1000), "1e-999999999",
      "0." + String(repeating: "0", count: 5000) + "1",
    ] {
      let answer = post(Array("{\"type\":\"core.note\",\"properties\":{\"body\":\"x\",\"n\":\(number)}}".utf8))
      #expect(answer.status == 201 || (400..<500).contains(answer.status), "\(number.prefix(20))")
      if answer.status == 201 { #expect(bench.read(answer.id).status == 200) }
    }
  }

  @Test("paths and queries with bad escapes, NULs, dots, thousands of parameters or none are refused in words")
  func targets() throws {
    let bench = try Bench()
    let id = bench.noteID()
    for target in [
      "/items/%", "/items/%zz", "/items/%00", "/items/\(id)%00", "/items/..", "/items/%2e%2e/keys", "//items",
      "/items//",
      "/items/\(id)/tags/%ff", "/items?limit=%ff", "/items?tags=%00", "/items?%00=1", "/items?=",
      "/items?&&&", "/items?limit=1&limit=2", "/items?filter=" + String(repeating: "a", count: 5000),
      "/items?" + (0..<5000).map { "a\($0)=1" }.joined(separator: "&"),
      "/items?cursor=" + String(repeating: "A", count: 9000),
      "/items?cursor=%22", "/search?q=%ff", "/search?q=" + String(repeating: "%22a%20", count: 3000),
      "/search?q=a&limit=100&cursor=zzz", "/edges?edge_type=%00", "/blobs/sha256:" + String(repeating: "g", count: 64),
      "/blobs/..%2f..%2fetc%2fpasswd", "/types/..", "/items/\(id.uppercased())", "/items/\(id)?include=everything",
      "/events?copy=1&copy=1&edges=all",
      "/items?filter=" + String(repeating: "properties.a%20eq%201%20AND%20", count: 30),
    ] {
      let answer = bench.send("GET", target)
      #expect(answer.source == nil && (200..<500).contains(answer.status), "\(target.prefix(60)): \(answer.status)")
      if answer.status >= 400 { #expect(answer.code != nil && answer.code != "internal_error", "\(target.prefix(60))") }
      answer.source?.close()
    }
    #expect(bench.read(id).status == 200)
  }

  @Test(
    "giant headers, many headers, odd methods and versions, garbage: the connection is answered or ends, the next is served"
  )
  func heads() throws {
    let live = try Live()
    defer { live.end() }
    let long = String(repeating: "x", count: 200_000)
    for request in [
      "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: \(long)\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + (0..<5000).map { "X-\($0): y\r\n" }.joined() + "\r\n",
      "GET /\(long) HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "GET / HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",
      "BREW /items HTTP/1.1\r\n\(Self.head)\r\n", "GET / HTTP/1.1\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
      "\u{0}\u{1}\u{2}\r\n\r\n", "\r\n\r\n\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/1.1\nHost: 127.0.0.1\n\n",
      "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer \(long.prefix(30_000))\r\n\r\n",
      "GET /items HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer \r\n\r\n",
      "GET /items HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic YTpi\r\n\r\n",
      "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "TRACE / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ] {
      do {
        let client = WireClient(url: live.url)
        client.write(request)
        if let answer = client.answer() {
          let isItself = request.hasPrefix("GET / HTTP/1.1\n")
          #expect(answer.status >= 400 || isItself || answer.status == 200, "\(request.prefix(40))")
          #expect(answer.status != 500, "\(request.prefix(40))")
        }
      }
      #expect(isServed(live), "after \(request.prefix(40))")
    }
    // What leads elsewhere by its Host is not answered as the instance's own (a page of another origin).
    let other = WireClient(url: live.url).ask(
      "GET /items HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer \(Bench.ownerKey)\r\n\r\n")
    #expect(other.map { $0.status >= 400 } ?? true)
  }

  @Test("requests sent one behind the other before any answer are each answered, in order, and each write once")
  func pipelined() throws {
    let live = try Live()
    defer { live.end() }
    let client = WireClient(url: live.url)
    var sent = ""
    for number in 0..<20 {
      let body = #"{"type":"core.note","properties":{"title":"T\#(number)","body":"x"}}"#
      sent += "POST /items HTTP/1.1\r\n\(Self.head)\(Self.type)Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
      if number % 5 == 4 { sent += "GET /nowhere HTTP/1.1\r\n\(Self.head)\r\n" }
    }
    client.write(sent)
    for number in 0..<20 {
      let answer = client.answer()
      #expect(answer?.status == 201)
      let title = answer.flatMap { try? JSON(parsing: $0.body) }?["item"]?["properties"]?["title"]
      #expect(title == .string(Text("T\(number)")))
      if number % 5 == 4 { #expect(client.answer()?.status == 404) }
    }
    let stats = WireClient(url: live.url).ask("GET /items/stats?by=type HTTP/1.1\r\n\(Self.head)\r\n")
    #expect(stats.flatMap { try? JSON(parsing: $0.body) }?["core.note"] == 20)
  }
}
