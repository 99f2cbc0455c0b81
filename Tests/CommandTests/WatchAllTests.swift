import Glibc
import MarfaBase
import TestSupport
import Testing

@Suite("watch over all folders") struct WatchAllTests {
  let scratch: ScratchDirectory
  let program: MarfaFolders
  let server: LocalServer

  init() async throws {
    scratch = try ScratchDirectory()
    var program = MarfaFolders(home: scratch.path)
    server = try await LocalServer(data: scratch.at("data"), program: program, port: true)
    program.environment["MARFA_API_URL"] = server.url
    program.environment["MARFA_API_KEY"] = server.key
    self.program = program
  }

  func folder(_ name: String) async throws -> String {
    try scratch.write("\(name)/One.md", "# One of \(name)\n")
    let added = try await program.run(["add", scratch.at(name), "--create", name, "--yes"])
    try #require(added.status == 0, "\(added.errText)")
    return scratch.at(name)
  }

  func events(_ child: ChildProcess, _ dir: String) -> [String] {
    child.out.split(separator: 0x0A).compactMap { try? JSON(parsing: Array($0)) }
      .filter { $0["dir"]?.text?.string == dir }.compactMap { $0["event"]?.text?.string }
  }

  func items(_ dir: String) async throws -> [String] {
    let status = try await program.run(["--json", "status", dir])
    return (status.json?["files"]?.array ?? []).filter { $0["status"] == "in_step" || $0["item_id"] != nil }
      .compactMap { $0["path"]?.text?.string }
  }

  @Test("N-S12 one directory gone of three: the other two are kept in step and it is said once")
  func oneGone() async throws {
    let (one, two, three) = (try await folder("One"), try await folder("Two"), try await folder("Three"))
    try #require(rename(three, scratch.at("Away")) == 0)
    let child = try program.start(["watch", "--json"])
    for dir in [one, two] {
      try await child.wait("the first pass of \(dir)", within: .seconds(120)) { events($0, dir).contains("passed") }
    }
    try await child.wait("the third's end", within: .seconds(120)) { events($0, three).contains("failed") }
    for name in ["One", "Two"] {
      try scratch.write("\(name)/New.md", "# New\n")
      let dir = scratch.at(name)
      let passes = events(child, dir).count { $0 == "passed" }
      try await child.wait("New.md of \(name)", within: .seconds(120)) {
        events($0, dir).count { $0 == "passed" } > passes
      }
    }
    #expect(events(child, three) == ["failed"])
    // A pass told may be one the other's news woke: the one that takes the note follows.
    for dir in [one, two] {
      let end = ContinuousClock.now + .seconds(120)
      while try await !items(dir).contains("New.md"), ContinuousClock.now < end {}
      #expect(try await items(dir).contains("New.md"))
    }
    child.signal(SIGTERM)
    let ran = try await child.end(within: .seconds(60))
    #expect(ran.status == 0, "\(ran.errText)")
  }

  @Test("N-S13 a folder added is taken up and one removed is let go, without a restart")
  func addedAndRemoved() async throws {
    let one = try await folder("One")
    let child = try program.start(["watch", "--json"])
    try await child.wait("the first folder", within: .seconds(120)) { events($0, one).contains("passed") }
    let two = try await folder("Two")
    try await child.wait("the second folder", within: .seconds(120)) { events($0, two).contains("passed") }
    let removed = try await program.run(["remove", one], deadline: .seconds(60))
    #expect(removed.status == 0, "\(removed.errText)")
    try await child.wait("its end", within: .seconds(120)) { events($0, one).last == "removed" }
    try scratch.write("Two/New.md", "# New\n")
    let passes = events(child, two).count { $0 == "passed" }
    try await child.wait("New.md", within: .seconds(120)) { events($0, two).count { $0 == "passed" } > passes }
    #expect(child.status == nil)
    child.signal(SIGINT)
    #expect(try await child.end(within: .seconds(60)).status == 0)
  }

  @Test("N3.1 each line is led by the folder's directory, and P7.7 a second watch over all is refused naming the first")
  func linesAndSecond() async throws {
    let one = try await folder("One")
    let child = try program.start(["watch"])
    try await child.shows("\(one): pass: ", within: .seconds(120))
    try await child.shows("\(one): watching \(one)", within: .seconds(60))
    let second = try await program.run(["--json", "watch"])
    #expect(second.status == 4)
    #expect(second.code == "reading_handle")
    #expect(second.message.contains("process \(child.pid)"), "\(second.message)")
    child.signal(SIGTERM)
    #expect(try await child.end(within: .seconds(60)).status == 0)
  }

  @Test(
    "N3.2 a refused credential waits for another one, looked for again on SIGHUP; the folder goes on without a restart")
  func newKey() async throws {
    let one = try await folder("One")
    try scratch.write("key", "marfa_key_refused_00000000\n")
    var quiet = program
    quiet.environment["MARFA_API_KEY"] = nil
    let child = try quiet.start(["watch", "--json", "--key-file", scratch.at("key")])
    try await child.wait("the refusal", within: .seconds(120)) { events($0, one).contains("failed") }
    try scratch.write("key", server.key + "\n")
    child.signal(SIGHUP)
    try await child.wait("its first pass", within: .seconds(120)) { events($0, one).contains("passed") }
    #expect(child.status == nil)
    child.signal(SIGTERM)
    #expect(try await child.end(within: .seconds(60)).status == 0)
  }

  @Test("N-S14 of a refused credential a new key is kept, and the folders go on without a restart")
  func newKeyKept() async throws {
    let (one, two) = (try await folder("One"), try await folder("Two"))
    let session = try await SessionBus(home: scratch.path)
    var quiet = session.program(program)
    quiet.environment["MARFA_API_URL"] = nil
    quiet.environment["MARFA_API_KEY"] = nil
    let data = scratch.at("data")
    func minted() async throws -> (key: String, id: String) {
      let made = try await program.run([
        "--json", "instance", "key", "create", "--data", data, "--permission", "*=write", "--permission",
        "edge.*=write",
      ])
      let json = try #require(made.json, "\(made.errText)")
      let key = try #require(json["key"]?.text?.string ?? json["plaintext"]?.text?.string)
      return (key, try #require((json["id"] ?? json["record"]?["id"])?.text?.string, "\(json.compact)"))
    }
    let first = try await minted()
    let kept = try await quiet.run(["keys", "keep", "--url", server.url, "--key", first.key])
    try #require(kept.status == 0, "\(kept.errText)")
    let child = try quiet.start(["watch", "--json"])
    for dir in [one, two] {
      try await child.wait("the first pass of \(dir)") { events($0, dir).contains("passed") }
    }
    let revoked = try await program.run(["instance", "key", "revoke", first.id, "--data", data])
    try #require(revoked.status == 0, "\(revoked.errText)")
    // What is saved now meets the refusal.
    for name in ["One", "Two"] { try scratch.write("\(name)/New.md", "# New of \(name)\n") }
    for dir in [one, two] { try await child.wait("the refusal of \(dir)") { events($0, dir).contains("failed") } }
    #expect(child.status == nil)
    let second = try await minted()
    let again = try await quiet.run(["keys", "keep", "--url", server.url, "--key", second.key])
    try #require(again.status == 0, "\(again.errText)")
    for dir in [one, two] {
      try await child.wait("\(dir) to go on") { events($0, dir).count { $0 == "watching" } > 1 }
      try await child.wait("what waited of \(dir)") { _ in
        child.out.split(separator: 0x0A).compactMap { try? JSON(parsing: Array($0)) }
          .contains { $0["dir"]?.text?.string == dir && ($0["drain"]?["answered"]?.int ?? 0) > 0 }
      }
    }
    child.signal(SIGTERM)
    #expect(try await child.end().status == 0)
    try await session.end()
  }

  @Test("N-S15 a service manager is told READY, STATUS and WATCHDOG")
  func serviceManager() async throws {
    _ = try await folder("One")
    let socket = try NotifySocket(scratch.at("notify"))
    var service = program
    service.environment["NOTIFY_SOCKET"] = scratch.at("notify")
    service.environment["WATCHDOG_USEC"] = "2000000"
    let child = try service.start(["watch", "--json"])
    try await child.wait("READY", within: .seconds(120)) { _ in socket.lines().contains("READY=1") }
    try await child.wait("STATUS", within: .seconds(60)) { _ in
      socket.lines().contains { $0.hasPrefix("STATUS=1 folder watched") }
    }
    try await child.wait("WATCHDOG", within: .seconds(60)) { _ in socket.lines().contains("WATCHDOG=1") }
    #expect(socket.lines().count { $0 == "READY=1" } == 1)
    // It stays current: a pause and its end are told.
    #expect(try await program.run(["pause", scratch.at("One")]).status == 0)
    try await child.wait("the pause", within: .seconds(600)) { _ in
      socket.lines().last { $0.hasPrefix("STATUS=") } == "STATUS=1 folder watched (1 paused)"
    }
    #expect(try await program.run(["resume", scratch.at("One")]).status == 0)
    try await child.wait("its end", within: .seconds(600)) { _ in
      socket.lines().last { $0.hasPrefix("STATUS=") } == "STATUS=1 folder watched"
    }
    child.signal(SIGTERM)
    #expect(try await child.end(within: .seconds(60)).status == 0)
  }
}

/// A socket as systemd binds it for READY messages.
final class NotifySocket: @unchecked Sendable {
  // Unchecked: read by the one thread of its test.
  private let descriptor: Int32
  private var received: [String] = []

  init(_ path: String) throws {
    descriptor = socket(
      AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    guard descriptor >= 0, bytes.count < 100 else { throw ScratchError("no socket") }
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    let size = socklen_t(MemoryLayout<sockaddr_un>.size)
    let bound = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, size) }
    }
    guard bound == 0 else { throw ScratchError("bind: \(String(cString: strerror(errno)))") }
  }

  deinit { close(descriptor) }

  /// Every line so far.
  func lines() -> [String] {
    var buffer = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = recv(descriptor, &buffer, buffer.count, 0)
      guard count > 0 else { return received }
      received += String(decoding: buffer[..<count], as: UTF8.self).split(separator: "\n").map(String.init)
    }
  }
}
