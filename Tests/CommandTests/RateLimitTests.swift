import Glibc
import MarfaBase
import Synchronization
import Testing
import TestSupport

/// A server whose rate limit leaves something undelivered (P6.3, C16.6).
@Suite("rate limits") struct RateLimitTests {
  let scratch: ScratchDirectory
  let program: MarfaFolders

  init() throws {
    scratch = try ScratchDirectory()
    program = MarfaFolders(home: scratch.path)
  }

  /// A server before this one that answers some requests as over the limit while `isOver` is set.
  private final class Limit: Sendable {
    let isOver = Atomic<Bool>(true)
    let asked = Atomic<Int>(0)
    func server(_ upstream: String, wait: String?, _ meets: @escaping @Sendable (ScriptedServer.Request) -> Bool) throws
      -> ScriptedServer
    {
      try ScriptedServer(upstream: upstream) { [self] request in
        guard isOver.load(ordering: .relaxed), meets(request) else { return nil }
        asked.add(1, ordering: .relaxed)
        return .json(
          429, #"{"error":{"code":"rate_limited","message":"Slow down."}}"#,
          headers: wait.map { ["Retry-After: \($0)"] } ?? [])
      }
    }
  }

  @Test("C16.6, P6.3 a sync whose settings edit or note met a rate limit exits 3, its report printed; then 0")
  func exits() async throws {
    let upstream = try await LocalServer(data: scratch.at("port"), program: program, port: true)
    for (wait, door) in [("7", "/folders/"), (nil, "/folders/"), ("7", "/items"), (nil, "/items")]
      as [(String?, String)]
    {
      let name = "N\(door.dropFirst().prefix(2))\(wait ?? "")"
      let limit = Limit()
      limit.isOver.store(false, ordering: .relaxed)
      let server = try limit.server(upstream.url, wait: wait) {
        $0.method != "GET" && $0.door.hasPrefix(door) && !$0.door.hasPrefix("/items/")
      }
      var own = program
      own.environment["MARFA_API_URL"] = server.url
      own.environment["MARFA_API_KEY"] = upstream.key
      let added = try await own.run(["add", scratch.at(name), "--create", name, "--yes"])
      try #require(added.status == 0, "\(added.errText)")
      try #require(try await own.run(["sync", scratch.at(name)]).status == 0)
      limit.isOver.store(true, ordering: .relaxed)
      if door == "/folders/" {
        let text = try #require(scratch.text("\(name)/.marfa/folder.yaml"))
        try scratch.write("\(name)/.marfa/folder.yaml", text.replacing("title: \(name)", with: "title: Other\(name)"))
      } else {
        try scratch.write("\(name)/New of \(name).md", "Words of \(name).\n")
      }
      let ran = try await own.run(["--json", "sync", scratch.at(name)])
      #expect(ran.status == 3, "\(name): \(ran.outText) \(ran.errText)")
      #expect(limit.asked.load(ordering: .relaxed) > 0)
      if door == "/folders/" {
        #expect(ran.json?["settings"]?["flagged"]?.text?.string.contains("not sent yet") == true)
      }
      limit.isOver.store(false, ordering: .relaxed)
      let after = try await own.run(["--json", "sync", scratch.at(name)])
      #expect(after.status == 0, "\(after.outText)")
      if door == "/folders/" { #expect(after.json?["settings"]?["sent"] == true) }
    }
  }

  @Test("P6.3 sync --wait waits a settings edit's limit out and sends it")
  func waits() async throws {
    let upstream = try await LocalServer(data: scratch.at("port"), program: program, port: true)
    let limit = Limit()
    limit.isOver.store(false, ordering: .relaxed)
    let server = try limit.server(upstream.url, wait: "60") { request in
      guard request.method == "PATCH", request.door.hasPrefix("/folders/") else { return false }
      // The second time it lets through.
      return limit.asked.load(ordering: .relaxed) == 0
    }
    var own = program
    own.environment["MARFA_API_URL"] = server.url
    own.environment["MARFA_API_KEY"] = upstream.key
    own.environment["MARFA_TEST_TIME"] = "1000"
    try #require(try await own.run(["add", scratch.at("W"), "--create", "W", "--yes"]).status == 0)
    try #require(try await own.run(["sync", scratch.at("W")]).status == 0)
    limit.isOver.store(true, ordering: .relaxed)
    let text = try #require(scratch.text("W/.marfa/folder.yaml"))
    try scratch.write("W/.marfa/folder.yaml", text.replacing("title: W", with: "title: Waited"))
    let ran = try await own.run(["--json", "sync", scratch.at("W"), "--wait"])
    #expect(ran.status == 0 && ran.json?["settings"]?["sent"] == true, "\(ran.outText) \(ran.errText)")
    #expect(limit.asked.load(ordering: .relaxed) == 1)
  }
}
