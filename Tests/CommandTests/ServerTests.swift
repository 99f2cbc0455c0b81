import Glibc
import MarfaBase
import Synchronization
import Testing
import TestSupport

/// What commands do when the server is not as it should be, or the key may not do everything.
@Suite("commands and the server's answers") struct ServerTests {
  let scratch: ScratchDirectory
  let program: MarfaFolders
  let notes: String

  init() throws {
    scratch = try ScratchDirectory()
    program = MarfaFolders(home: scratch.path)
    notes = scratch.at("Notes")
  }

  /// A switch a test throws while a scripted server runs.
  private final class Answers: Sendable {
    private let script = Mutex<(@Sendable (ScriptedServer.Request) -> ScriptedServer.Reply?)?>(nil)
    func set(_ answer: (@Sendable (ScriptedServer.Request) -> ScriptedServer.Reply?)?) {
      script.withLock { $0 = answer }
    }
    func callAsFunction(_ request: ScriptedServer.Request) -> ScriptedServer.Reply? {
      script.withLock { $0 }?(request)
    }
  }

  private func at(_ url: String, _ key: String) -> MarfaFolders {
    var program = program
    program.environment["MARFA_API_URL"] = url
    program.environment["MARFA_API_KEY"] = key
    return program
  }

  private func json(_ program: MarfaFolders, _ words: [String], _ line: Int = #line) async throws -> JSON {
    let ran = try await program.run(["--json"] + words)
    try #require(ran.status == 0, "line \(line): \(words): \(ran.errText)")
    return try #require(ran.json)
  }

  /// A confirmed folder over `Notes`, synced through a server that stands between it and a real instance.
  private func between(
    _ files: [String: String]
  ) async throws -> (
    program: MarfaFolders, proxy: ScriptedServer, answers: Answers, server: LocalServer, direct: MarfaFolders
  ) {
    let server = try await LocalServer(data: scratch.at("data"), program: program, port: true)
    let answers = Answers()
    let proxy = try ScriptedServer(upstream: server.url) { answers($0) }
    let through = at(proxy.url, server.key)
    for (name, text) in files { try scratch.write("Notes/\(name)", text) }
    _ = try await json(
      through, ["add", notes, "--create", "Notes", "--search", #"{"types":["core.note"]}"#, "--yes"])
    _ = try await json(through, ["sync", notes])
    return (through, proxy, answers, server, at(server.url, server.key))
  }

  @Test("C-S13 a server on another contract: contract_mismatch after the root alone; whoami and server describe it")
  func otherContract() async throws {
    let server = try ScriptedServer { $0.door == "/" ? .root(contract: "1") : .json(500, "{}", contract: "1") }
    let program = at(server.url, "marfa_k1_x")
    let store = scratch.at("copy.sqlite")
    for words in [
      ["keys", "current"], ["create", "--title", "T", "--search", "{}"], ["add", notes, "--create"],
      ["device", "--db", store, "hydrate", "--types", "core.note", "--tier", "all"],
    ] {
      let before = server.requests.count
      let ran = try await program.run(["--json"] + words)
      #expect(ran.status == 1, "\(words)")
      #expect(ran.code == "contract_mismatch", "\(words): \(ran.errText)")
      #expect(server.requests.dropFirst(before).map(\.door) == ["/"], "\(words)")
      #expect(server.requests.allSatisfy { $0.header("authorization") == nil })
    }
    for word in ["whoami", "server"] {
      let told = try await json(program, [word])
      #expect(told["contract"]?["served"] == 1)
      #expect(told["contract"]?["built_for"] == 0)
      #expect(told["instance"]?["name"] == "marfa")
      #expect(try await program.run([word]).outText.contains("speaks contract 1"))
    }
    #expect(server.requests.allSatisfy { $0.door == "/" && $0.header("authorization") == nil })
  }

  @Test("C-S14 IN-S9 a key over plain http to another machine is warned of once, by the origin alone")
  func clearText() async throws {
    // The address is never reached: a proxy of the test's own answers in its place.
    let proxy = try ScriptedServer { request in
      request.door.hasSuffix("/items/stats") ? .json(200, #"{"active":1}"#) : .root()
    }
    var program = program
    program.environment["MARFA_API_KEY"] = "marfa_k1_x"
    program.environment["http_proxy"] = proxy.url
    let ran = try await program.run(["keys", "current", "--url", "http://10.0.0.5:8600/x"])
    #expect(ran.errText.split(separator: "\n").filter { $0.contains("warning") }.count == 1, "\(ran.errText)")
    let warning = String(ran.errText.split(separator: "\n").first { $0.contains("warning") } ?? "")
    #expect(warning.contains("http://10.0.0.5:8600 "))
    #expect(!warning.contains("8600/x"))
    #expect(warning.contains("--allow-http") && warning.contains("MARFA_ALLOW_HTTP"))
    #expect(proxy.requests.contains { $0.header("authorization") == "Bearer marfa_k1_x" })
    for word in ["yes", "1", "TRUE", "On"] {
      var quiet = program
      quiet.environment["MARFA_ALLOW_HTTP"] = word
      let ran = try await quiet.run(["keys", "current", "--url", "http://10.0.0.5:8600/x"])
      #expect(!ran.errText.contains("warning"), "\(word)")
    }
    let option = try await program.run(["keys", "current", "--url", "http://10.0.0.5:8600/x", "--allow-http"])
    #expect(!option.errText.contains("warning"))
    program.environment["MARFA_ALLOW_HTTP"] = "maybe"
    let still = try await program.run(["--json", "keys", "current", "--url", "http://localhost.example:81"])
    #expect(still.errText.contains("warning"))
    program.environment["MARFA_ALLOW_HTTP"] = nil
    let server = try ScriptedServer { _ in .root() }
    let port = server.url.split(separator: ":").last ?? ""
    for host in ["127.0.0.1", "localhost", "127.9.9.9"] {
      let here = try await program.run(["keys", "current", "--url", "http://\(host):\(port)"])
      #expect(!here.errText.contains("warning"), "\(host): \(here.errText)")
    }
    let secure = try await program.run(["keys", "current", "--url", "https://127.0.0.1:9"])
    #expect(!secure.errText.contains("warning"))
    let six = try await program.run(["keys", "current", "--url", "http://[::1]:\(port)"])
    #expect(!six.errText.contains("warning"))
  }

  @Test("C-S24 C-S25 a key without read on system.folder, or without in-folder write, is forbidden and leaves no trace")
  func narrowKeys() async throws {
    let data = scratch.at("data")
    let server = try await LocalServer(data: data, program: program, port: true)
    let owner = at(server.url, server.key)
    let made = try await json(owner, ["create", "--title", "N", "--search", #"{"types":["core.note"]}"#])
    let id = try #require((made["item"] ?? made)["id"]?.text?.string)
    func key(_ permissions: [String]) async throws -> String {
      let made = try await json(
        owner, ["instance", "key", "create", "--data", data] + permissions.flatMap { ["--permission", $0] })
      return try #require((made["key"]?.text ?? made["plaintext"]?.text)?.string)
    }
    try scratch.write("Held/One.md", "# One\n")
    let blind = at(server.url, try await key(["core.note=write"]))
    let unread = try await blind.run(["--json", "add", scratch.at("Held"), "--folder", id])
    #expect(unread.status == 1)
    #expect(unread.code == "forbidden", "\(unread.errText)")
    #expect(unread.message.contains("system.folder:read"))
    #expect(unread.refusal?["error"]?["server"]?["code"] == "type_not_permitted")
    let unplaced = at(server.url, try await key(["core.note=write", "system.folder=read"]))
    for directory in ["Held", "New"] {
      let ran = try await unplaced.run(["--json", "add", scratch.at(directory), "--folder", id])
      #expect(ran.status == 1)
      #expect(ran.code == "forbidden", "\(ran.errText)")
      #expect(ran.message.contains("edge.in-folder:write"))
      #expect(ran.refusal?["error"]?["server"]?["code"] == "edge_permission_denied")
    }
    #expect(names(of: scratch.at("Held")) == ["One.md"])
    #expect(scratch.text("Held/One.md") == "# One\n")
    #expect(!names(of: scratch.path).contains("New"))
    #expect(try await json(owner, ["list"]) == [])
  }

  @Test("C-S30 a document of 950,000 bytes is warned of by push and by status, with its size")
  func nearLimit() async throws {
    let server = try await LocalServer(data: scratch.at("data"), program: program, port: true)
    let program = at(server.url, server.key)
    try scratch.write("Notes/Long.md", String(repeating: "word word\n", count: 95_000))
    _ = try await json(program, ["add", notes, "--create", "--yes"])
    let text = try await program.run(["push", notes])
    #expect(text.status == 0, "\(text.errText)")
    #expect(
      text.outText.split(separator: "\n").contains { $0.contains("Long.md") && $0.contains("1045002 bytes") },
      "\(text.outText)")
    let push = try await json(program, ["push", notes])
    let warnings = push["scan"]?["warnings"]?.array ?? []
    #expect(warnings.map { $0["path"] } == ["Long.md"])
    #expect(warnings.first?["flag"] == "size")
    let status = try await json(program, ["status", notes])
    #expect(status["files"]?.array?.first?["warning"]?.text?.string.contains("request_too_large") == true)
    #expect(try await program.run(["status", notes]).outText.contains("Long.md"))
  }

  @Test("C-S33 a folder with a write its refused credential blocked is not removed, and the count is said")
  func removeBlocked() async throws {
    let world = try await between(["One.md": "# One\n"])
    try scratch.write("Notes/Two.md", "# Two\n")
    let bad = at(world.proxy.url, "marfa_k1_wrong_wrong")
    _ = try await json(bad, ["scan", notes])
    let refused = try await bad.run(["--json", "device", "--db", notes + "/.marfa/core.sqlite", "drain"])
    #expect(refused.status == 5, "\(refused.errText)")
    let queue = try await json(bad, ["device", "--db", notes + "/.marfa/core.sqlite", "queue"])
    let blocked = queue.array?.filter { $0["verdict"] == "blocked" || $0["verdict"] == .null } ?? []
    #expect(queue.array?.contains { $0["verdict"] == "blocked" } == true, "\(refused.outText)")
    let ran = try await bad.run(["--json", "remove", notes])
    #expect(ran.status == 1)
    #expect(ran.code == "invalid")
    #expect(ran.message.contains("\(blocked.count)"), "\(ran.message)")
    #expect(try await json(bad, ["list"]).array?.count == 1)
    #expect(names(of: notes).contains(".marfa"))
  }

  @Test("C-S37 a copy whose log aged past its cursor is filled again by the push, which goes on")
  func aged() async throws {
    let world = try await between(["One.md": "# One\n"])
    let first = Atomic<Bool>(true)
    world.answers.set { request in
      guard request.door == "/events", first.exchange(false, ordering: .relaxed) else { return nil }
      return ScriptedServer.Reply.events(
        "event: catchup_too_old\ndata: {\"min_retained_id\":\"999\"}\n\n")
    }
    let push = try await json(world.program, ["push", notes])
    #expect(push["catch_up"]?["hydrated"]?.isNull == false, "\(push.compact)")
    #expect((push["catch_up"]?["hydrated"]?["items"]?.int ?? 0) >= 1)
    #expect(push["pull"]?.isNull == false)
    let status = try await json(world.program, ["status", notes])
    #expect(status["files"]?.array?.allSatisfy { $0["status"] == "in_step" } == true)
  }

  @Test(
    "C-S66 a drain that meets a 503 prints its report and leaves by 3; a refused credential by 5; refusals alone by 0")
  func drainExits() async throws {
    let world = try await between([:])
    func device(_ store: String, _ words: [String]) async throws -> Ran {
      try await world.program.run(["--json", "device", "--db", scratch.at(store)] + words)
    }
    /// A store filled, with a new note of each title queued.
    func fill(_ store: String, _ titles: [String]) async throws {
      world.answers.set(nil)
      try #require(try await device(store, ["hydrate", "--types", "core.note", "--tier", "all"]).status == 0)
      for title in titles {
        let properties = #"{"title":"\#(title)","body":"x"}"#
        let made = try await device(store, ["items", "create", "--type", "core.note", "--properties", properties])
        try #require(made.status == 0, "\(made.errText)")
      }
    }
    let unavailable = ScriptedServer.Reply.json(503, #"{"error":{"code":"unavailable","message":"No."}}"#)
    try await fill("away", ["first"])
    world.answers.set { $0.method == "POST" ? unavailable : nil }
    let away = try await device("away", ["drain"])
    #expect(away.status == 3)
    #expect(away.err.isEmpty)
    #expect(away.json?["undelivered"] == 1)
    #expect(away.json?["unavailable"]?.text != nil)
    // Beside a refused credential 5 wins: one write is refused while the other's answer is under way. The first of a drain
    // goes alone (Q9.11), so one that is taken goes ahead of the two.
    try await fill("both", ["opening", "first", "second"])
    let refused = Atomic<Bool>(false)
    world.answers.set { request in
      guard request.method == "POST", !request.text.contains("opening") else { return nil }
      if request.text.contains("second") {
        refused.store(true, ordering: .releasing)
        return .json(401, #"{"error":{"code":"unauthorized","message":"No."}}"#)
      }
      for _ in 0..<6000 where !refused.load(ordering: .acquiring) { usleep(5000) }
      return unavailable
    }
    let both = try await device("both", ["drain"])
    #expect(both.status == 5)
    #expect(both.err.isEmpty)
    #expect(both.json?["stopped"]?.text != nil)
    try await fill("only", ["first"])
    world.answers.set { request in
      request.method == "POST"
        ? .json(400, #"{"error":{"code":"invalid_properties","message":"No.","details":{"errors":[]}}}"#) : nil
    }
    let only = try await device("only", ["drain"])
    #expect(only.status == 0)
    #expect(only.err.isEmpty)
    #expect(only.json?["verdicts"]?.array?.first?["verdict"] == "refused")
  }

  @Test(
    "C-S39 after a drain that left a write undelivered no second drain runs, and the next push sends the placements")
  func noSecondDrain() async throws {
    let world = try await between(["One.md": "# One\n"])
    let other = scratch.at("other.sqlite")
    for words in [
      ["hydrate", "--types", "core.note", "--tier", "all"],
      ["items", "create", "--type", "core.note", "--properties", #"{"title":"From elsewhere","body":"x"}"#], ["drain"],
    ] { _ = try await json(world.direct, ["device", "--db", other] + words) }
    try scratch.write("Notes/Two.md", "# Two\n")
    world.answers.set {
      $0.method == "POST" && $0.door == "/items"
        ? .json(503, #"{"error":{"code":"unavailable","message":"No."}}"#) : nil
    }
    let before = world.proxy.count("POST", "/edges")
    let push = try await json(world.program, ["push", notes])
    #expect((push["drain"]?["undelivered"]?.int ?? 0) >= 1, "\(push.compact)")
    #expect(push["pull"]?["placed"] == 1)
    #expect(world.proxy.count("POST", "/edges") == before)
    #expect(scratch.files("Notes").contains("From elsewhere.md"))
    world.answers.set(nil)
    let next = try await json(world.program, ["push", notes])
    #expect(next["drain"]?["undelivered"] == 0)
    #expect(world.proxy.count("POST", "/edges") >= before + 2)
    let status = try await json(world.program, ["status", notes])
    #expect(status["files"]?.array?.count == 3)
    #expect(status["files"]?.array?.allSatisfy { $0["status"] == "in_step" } == true)
  }

  @Test("C-S40 a placement refused in the second drain is in the report, and is not sent again")
  func placementRefused() async throws {
    let world = try await between(["One.md": "# One\n"])
    let other = scratch.at("other.sqlite")
    for words in [
      ["hydrate", "--types", "core.note", "--tier", "all"],
      ["items", "create", "--type", "core.note", "--properties", #"{"title":"From elsewhere","body":"x"}"#], ["drain"],
    ] { _ = try await json(world.direct, ["device", "--db", other] + words) }
    world.answers.set {
      $0.method == "POST" && $0.door == "/edges"
        ? .json(400, #"{"error":{"code":"invalid_properties","message":"No such place.","details":{"errors":[]}}}"#)
        : nil
    }
    let before = world.proxy.count("POST", "/edges")
    let push = try await json(world.program, ["push", notes])
    #expect(push["pull"]?["placed"] == 1, "\(push.compact)")
    let verdicts = push["drain"]?["verdicts"]?.array ?? []
    #expect(verdicts.contains { $0["kind"] == "create_edge" && $0["verdict"] == "refused" }, "\(push.compact)")
    #expect(world.proxy.count("POST", "/edges") == before + 1)
    _ = try await json(world.program, ["push", notes])
    let text = try await world.program.run(["push", notes])
    #expect(text.status == 0)
    #expect(world.proxy.count("POST", "/edges") == before + 1)
    #expect(scratch.files("Notes").contains("From elsewhere.md"))
  }
}
