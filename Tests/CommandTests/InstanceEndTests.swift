import CPosix
import Glibc
import MarfaBase
import Synchronization
import Testing
import TestSupport

/// A connection of a test's own to an instance on loopback, so that it can break off where it likes.
private final class Wire {
  private let descriptor: Int32

  init(_ url: String) throws {
    guard let port = url.split(separator: ":").last.flatMap({ UInt16($0) }) else {
      throw ScratchError("no port: \(url)")
    }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    address.sin_port = port.bigEndian
    let made = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    let connected = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(made, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
      }
    }
    var limit = timeval(tv_sec: 120, tv_usec: 0)
    setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    guard connected else { throw ScratchError("not connected") }
    descriptor = made
  }

  deinit { close(descriptor) }

  /// Ends it from this side.
  func breakOff() { shutdown(descriptor, Int32(SHUT_RDWR)) }

  func send(_ bytes: [UInt8]) {
    var sent = 0
    while sent < bytes.count {
      let count = bytes.withUnsafeBytes {
        Glibc.send(descriptor, $0.baseAddress! + sent, bytes.count - sent, Int32(MSG_NOSIGNAL))
      }
      if count <= 0 { return }
      sent += count
    }
  }

  func send(_ text: String) { send(Array(text.utf8)) }

  /// Reads until `enough` of what came so far, or the end.
  func read(until enough: (String) -> Bool) -> String {
    var bytes: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 65_536)
    while true {
      let text = String(decoding: bytes, as: UTF8.self)
      if enough(text) { return text }
      let count = recv(descriptor, &piece, piece.count, 0)
      if count <= 0 { return text }
      bytes += piece[..<count]
    }
  }
}

@Suite("how a local instance ends") struct InstanceEndTests {
  let scratch: ScratchDirectory
  let program: MarfaFolders
  let data: String

  init() throws {
    scratch = try ScratchDirectory()
    program = MarfaFolders(home: scratch.path)
    data = scratch.at("data")
  }

  private func head(_ server: LocalServer, _ line: String, _ more: String = "") -> String {
    "\(line) HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer \(server.key)\r\n\(more)\r\n"
  }

  private func answer(_ server: LocalServer, _ line: String, type: String = "application/json", body: [UInt8] = [])
    throws -> (status: Int, text: String)
  {
    let wire = try Wire(server.url)
    wire.send(
      head(
        server, line, "Content-Type: \(type)\r\nContent-Length: \(body.count)\r\nConnection: close\r\n"))
    wire.send(body)
    let text = wire.read { _ in false }
    let status = text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
    return (status, text)
  }

  private var blobNames: [String] { names(of: scratch.at("data/blobs")) }

  @Test(
    "IN-S7 B-S9 killed right after it took a write and an upload both are there; killed amid an upload no blob is")
  func killedAfterAnswer() async throws {
    let server = try await LocalServer(data: data, program: program, port: true)
    let bytes = Array("the bytes of a picture".utf8)
    let uploaded = try answer(server, "POST /blobs", type: "image/png", body: bytes)
    #expect(uploaded.status == 201)
    let hash = "sha256:\(ContentHash(of: bytes).hex)"
    let made = try answer(
      server, "POST /items",
      body: Array(
        #"{"type":"core.file","properties":{"title":"P","blob_ref":"\#(hash)","mime_type":"image/png"}}"#.utf8))
    #expect(made.status == 201)
    server.child.signal(SIGKILL)
    _ = try await server.child.end()

    let second = try await LocalServer(data: data, program: program, port: true)
    let served = try answer(second, "GET /blobs/\(hash)")
    #expect(served.status == 200 && served.text.hasSuffix("the bytes of a picture"))
    let listed = try answer(second, "GET /items?type=core.file&tier=all")
    #expect(listed.text.contains(hash))
    #expect(blobNames == [ContentHash(of: bytes).hex])

    // A connection that breaks off leaves nothing of its upload.
    do {
      let wire = try Wire(second.url)
      wire.send(head(second, "POST /blobs", "Content-Type: image/png\r\nContent-Length: 3000000\r\n"))
      wire.send([UInt8](repeating: 7, count: 2_000_000))
      try await eventually("the upload's file") { blobNames.count == 2 }
      wire.breakOff()
    }
    try await eventually("the broken upload to leave nothing") { blobNames.count == 1 }

    // Killed amid one, the next start leaves nothing of it.
    let wire = try Wire(second.url)
    wire.send(head(second, "POST /blobs", "Content-Type: image/png\r\nContent-Length: 3000000\r\n"))
    wire.send([UInt8](repeating: 9, count: 2_000_000))
    try await eventually("the upload's file") { blobNames.count == 2 }
    second.child.signal(SIGKILL)
    _ = try await second.child.end()
    let third = try await LocalServer(data: data, program: program, port: true)
    #expect(blobNames == [ContentHash(of: bytes).hex])
    let broken = ContentHash(of: [UInt8](repeating: 9, count: 2_000_000)).hex
    #expect(try answer(third, "GET /blobs/sha256:\(broken)").status == 404)
    #expect(try answer(third, "GET /blobs/\(hash)").status == 200)
  }

  @Test("EV-S42 at SIGTERM open streams get server_stopping with their last cursor or null, and the process exits 0")
  func streamsEnd() async throws {
    let server = try await LocalServer(data: data, program: program, port: true)
    let quiet = try Wire(server.url)
    quiet.send(head(server, "GET /events"))
    let copy = try Wire(server.url)
    copy.send(head(server, "GET /events?copy=1&edges=all"))
    for wire in [quiet, copy] {
      #expect(wire.read { $0.contains("stream_cursor") }.contains("200"))
    }
    let told = try Wire(server.url)
    told.send(head(server, "GET /events", "Last-Event-ID: 0\r\n"))
    #expect(told.read { $0.contains("stream_live") }.contains("stream_live"))
    let note = Array(#"{"type":"core.note","properties":{"title":"N","body":"x"}}"#.utf8)
    #expect(try answer(server, "POST /items", body: note).status == 201)
    let event = told.read { $0.contains("item.created") }
    // The chunks of the answer end lines of their own with CR LF, which are one character to Swift.
    let lines = event.utf8.split { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }.map { String($0) ?? "" }
    let id = try #require(lines.last { $0.hasPrefix("id: ") }.map { String($0.dropFirst(4)) })
    for wire in [quiet, copy] { #expect(wire.read { $0.contains("item.created") }.contains("item.created")) }
    let fresh = try Wire(server.url)
    fresh.send(head(server, "GET /events"))
    #expect(fresh.read { $0.contains("stream_cursor") }.contains("stream_cursor"))
    server.child.signal(SIGTERM)
    for wire in [quiet, copy, told] {
      let end = wire.read { _ in false }
      #expect(end.contains(#""event_type":"stream_incomplete""#) && end.contains(#""reason":"server_stopping""#))
      #expect(end.contains(#""cursor":"\#(id)""#))
    }
    let end = fresh.read { _ in false }
    #expect(end.contains(#""reason":"server_stopping""#) && end.contains(#""cursor":null"#))
    // Held streams do not hold it up: it ends by itself, and cleanly.
    let ran = try await server.child.end()
    #expect(ran.status == 0)
  }

  private func hydrated(_ url: String, _ key: String) async throws -> MarfaFolders {
    var program = program
    program.environment["MARFA_API_URL"] = url
    program.environment["MARFA_API_KEY"] = key
    let filled = try await program.run(
      ["--json", "device", "--db", scratch.at("copy.sqlite"), "hydrate", "--types", "core.note", "--tier", "all"])
    try #require(filled.status == 0, "\(filled.errText)")
    return program
  }

  @Test("D-S99 a follow ends at SIGINT with exit 0 and its report, and with exit 0 where its output is closed")
  func followEnds() async throws {
    let server = try await LocalServer(data: data, program: program, port: true)
    let program = try await hydrated(server.url, server.key)
    let note = Array(#"{"type":"core.note","properties":{"title":"N","body":"x"}}"#.utf8)
    let follow = ["--json", "device", "--db", scratch.at("copy.sqlite"), "follow"]
    let child = try program.start(follow)
    #expect(try answer(server, "POST /items", body: note).status == 201)
    try await child.wait("the change") { $0.out.contains(0x0A) || $0.status != nil }
    child.signal(SIGINT)
    let ran = try await child.end()
    #expect(ran.status == 0, "\(ran.errText)")
    #expect(ran.jsonLines.first?["event"] == "item.created")
    #expect(ran.jsonLines.last?["applied"] == 1 && ran.jsonLines.last?["cursor"] != nil)

    // `head` takes one line and goes: the follow ends at its next change, without a word about it.
    let words = follow.map { "'\($0)'" }.joined(separator: " ")
    let status = scratch.at("status")
    let shell = try ChildProcess(
      [
        "/bin/sh", "-c",
        "{ '\(MarfaFolders.binary)' \(words); echo $? > '\(status)'; } | head -n 1",
      ], environment: program.environment)
    try await eventually("the follow to end") {
      _ = try answer(server, "POST /items", body: note)
      return scratch.text("status")?.isEmpty == false
    }
    let piped = try await shell.end()
    #expect(piped.jsonLines.count == 1)
    #expect(scratch.text("status") == "0\n")
    #expect(piped.errText.isEmpty)
  }

  @Test("EV24.5 Q29.2 D-S102 a follow sends what waits once its server is back")
  func followDrains() async throws {
    let server = try await LocalServer(data: data, program: program, port: true)
    let refusals = Atomic<Int>(0)
    let proxy = try ScriptedServer(upstream: server.url) { _ in
      // The server is away for the follow's first two requests.
      guard refusals.load(ordering: .acquiring) > 0 else { return nil }
      refusals.subtract(1, ordering: .acquiringAndReleasing)
      return .json(503, "{}")
    }
    let program = try await hydrated(proxy.url, server.key)
    let db = ["--json", "device", "--db", scratch.at("copy.sqlite")]
    let made = try await program.run(
      db + ["items", "create", "--type", "core.note", "--properties", #"{"title":"N","body":"queued"}"#])
    try #require(made.status == 0, "\(made.errText)")
    refusals.store(2, ordering: .releasing)
    let child = try program.start(db + ["follow"])
    try await eventually("the write to arrive") {
      try answer(server, "GET /items").text.contains("queued")
    }
    child.signal(SIGINT)
    let ran = try await child.end()
    #expect(ran.status == 0, "\(ran.errText)")
    #expect(ran.jsonLines.contains { $0["event"] == "server.unreachable" })
  }

  @Test("IN7.3 a database that is none is refused with 78, which its error says too")
  func foreignDatabase() async throws {
    let words = "no database at all, whatever its name says, and long enough to tell"
    _ = try scratch.write("data/instance.sqlite", words)
    let ran = try await program.run(["--json", "instance", "run", "--data", data])
    #expect(ran.status == 78)
    #expect(ran.refusal?["exit"] == 78)
    #expect(scratch.text("data/instance.sqlite") == words)
  }

  @Test("D-S204 C4.6 a second Ctrl-C ends the program at once with 130, the write in flight still queued")
  func secondInterrupt() async throws {
    let server = try await LocalServer(data: data, program: program, port: true)
    let begun = Atomic<Bool>(false)
    let proxy = try ScriptedServer(upstream: server.url) { request in
      guard request.method == "POST", request.door == "/items" else { return nil }
      begun.store(true, ordering: .releasing)
      // The answer stays away for as long as the test runs.
      sleep(100)
      return .json(503, "{}")
    }
    let program = try await hydrated(proxy.url, server.key)
    let db = ["--json", "device", "--db", scratch.at("copy.sqlite")]
    let made = try await program.run(
      db + ["items", "create", "--type", "core.note", "--properties", #"{"title":"N","body":"x"}"#])
    try #require(made.status == 0, "\(made.errText)")
    let child = try program.start(db + ["drain"])
    try await eventually("the write to be out") { begun.load(ordering: .acquiring) || child.status != nil }
    try await eventually("its end") {
      child.signal(SIGINT)
      return child.status != nil
    }
    let ran = try await child.end()
    #expect(ran.status == 130)
    let queue = try await program.run(db + ["queue"])
    #expect(queue.json?.array?.count == 1 && queue.json?.array?.first?["verdict"]?.isNull == true)
  }
}
