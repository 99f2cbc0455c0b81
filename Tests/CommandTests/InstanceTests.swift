import Glibc
import MarfaBase
import Synchronization
import Testing
import TestSupport

@Suite("the local instance's commands") struct InstanceTests {
  let scratch: ScratchDirectory
  let program: MarfaFolders
  let data: String

  init() throws {
    scratch = try ScratchDirectory()
    program = MarfaFolders(home: scratch.path)
    data = scratch.at("data")
  }

  @Test("N-S5 run --json prints one line with url, owner_key, instance_id and pid; text shows no key")
  func readyLine() async throws {
    let server = try await LocalServer(data: data, program: program)
    let ready = server.ready.object
    #expect(ready?.keys == ["url", "owner_key", "instance_id", "pid"])
    #expect(ready?["url"] == "local")
    #expect(ready?["pid"]?.int == Int(server.child.pid))
    #expect(server.key.hasPrefix("marfa_k1_"))
    server.child.signal(SIGTERM)
    let ended = try await server.child.end()
    #expect(ended.status == 0)
    #expect(ended.outText.split(separator: "\n").count == 1)
    let text = try program.start(["instance", "run", "--data", data])
    try await text.shows("local\n")
    text.signal(SIGTERM)
    let told = try await text.end()
    #expect(told.status == 0)
    #expect(told.outText == "local\n")
    #expect(!told.outText.contains(server.key) && !told.errText.contains(server.key))
  }

  @Test("N-S7 a second run on the same data exits 4 and the first is unharmed")
  func secondRun() async throws {
    let server = try await LocalServer(data: data, program: program)
    let second = try await program.run(["--json", "instance", "run", "--data", data])
    #expect(second.status == 4)
    #expect(second.code == "reading_handle")
    #expect(second.message.contains("\(server.child.pid)"))
    let status = try await program.run(["--json", "instance", "status", "--data", data])
    #expect(status.status == 0)
    #expect(status.json?["running"] == true)
    #expect(status.json?["pid"]?.int == Int(server.child.pid))
  }

  @Test("N-S8 an address other than loopback is refused without --allow-public, and nothing listens")
  func publicAddress() async throws {
    let ran = try await program.run([
      "--json", "instance", "run", "--data", data, "--listen", "0.0.0.0:0",
    ])
    #expect(ran.status == 1)
    #expect(ran.code == "invalid")
    #expect(ran.message.contains("--allow-public") || ran.message.contains("loopback"))
    let status = try await program.run(["--json", "instance", "status", "--data", data])
    #expect(status.json?["running"] == false)
  }

  @Test("N2.5 N2.6 status and stop exit 0 whether it runs or not")
  func statusAndStop() async throws {
    let before = try await program.run(["--json", "instance", "status", "--data", data])
    #expect(before.status == 0)
    #expect(before.json?["running"] == false)
    #expect(before.json?["pid"] == .null)
    #expect(before.json?.object?.keys == ["running", "url", "pid", "data", "bytes", "items", "since"])
    let server = try await LocalServer(data: data, program: program)
    let stopped = try await program.run(["instance", "stop", "--data", data])
    #expect(stopped.status == 0)
    #expect(try await server.child.end().status == 0)
    #expect(try await program.run(["instance", "stop", "--data", data]).status == 0)
  }

  @Test("EV11.1 K6.1 the environment sets an instance up; a word that is no number is refused")
  func environment() async throws {
    var program = program
    program.environment["RATE_LIMIT_REQUESTS"] = "many"
    #expect(try await program.run(["--json", "instance", "run", "--data", data]).code == "invalid")
    program.environment["RATE_LIMIT_REQUESTS"] = "3"
    let server = try await LocalServer(data: data, program: program, port: true)
    var codes: [String?] = []
    for _ in 0..<4 { codes.append(try await program.run(["--json", "keys", "current"] + server.options).code) }
    #expect(codes.contains("rate_limited"))
  }

  @Test("N-S9 two commands at a stopped local instance start one, and both succeed")
  func startedOnDemand() async throws {
    async let first = program.run(["--json", "server", "--url", "local"])
    async let second = program.run(["--json", "server", "--url", "local"])
    let (one, two) = try await (first, second)
    #expect(one.status == 0 && two.status == 0, "\(one.errText) \(two.errText)")
    #expect(one.json?["instance"]?["instance_id"] == two.json?["instance"]?["instance_id"])
    #expect(one.json?["server"] == "local")
    #expect(one.json?["credential"] == "instance")
    let status = try await program.run(["--json", "instance", "status"])
    #expect(status.json?["running"] == true)
    #expect(try await program.run(["instance", "stop"]).status == 0)
  }

  @Test("N2.8 a key is made, used and revoked")
  func keys() async throws {
    let server = try await LocalServer(data: data, program: program, port: true)
    let made = try await program.run([
      "--json", "instance", "key", "create", "--data", data, "--label", "phone", "--permission", "*=read",
    ])
    try #require(made.status == 0, "\(made.errText)")
    let key = try #require(made.json?["key"]?.text?.string ?? made.json?["plaintext"]?.text?.string)
    let current = try await program.run(["--json", "keys", "current", "--url", server.url, "--key", key])
    #expect(current.status == 0, "\(current.errText)")
    let wrong = try await program.run([
      "--json", "instance", "key", "create", "--data", data, "--permission", "core.note",
    ])
    #expect(wrong.code == "invalid")
    let refused = try await program.run([
      "--json", "keys", "current", "--url", server.url, "--key", "marfa_k1_0000000000000000000000000000",
    ])
    #expect(refused.status == 5)
    #expect(refused.code == "unauthorized")
  }

  @Test(
    "N2.8 a key made for folders keeps one in step from another computer; one of which nothing is named reaches nothing"
  )
  func folderKey() async throws {
    let server = try await LocalServer(data: data, program: program, port: true)
    func key(_ words: [String]) async throws -> String {
      let made = try await program.run(["--json", "instance", "key", "create", "--data", data] + words)
      try #require(made.status == 0, "\(made.errText)")
      return try #require(made.json?["key"]?.text?.string)
    }
    let nothing = ["--url", server.url, "--key", try await key([])]
    #expect(try await program.run(["keys", "current"] + nothing).outText.contains("reaches nothing"))
    #expect(try await program.run(["--json", "create", "--title", "No"] + nothing).code == "forbidden")

    let mine = ["--url", server.url, "--key", try await key(["--folders"])]
    let told = try await program.run(["keys", "current"] + mine).outText
    for line in ["  *: write", "  edge.*: write", "  metadata.tags: write"] { #expect(told.contains(line + "\n")) }
    try scratch.write("laptop/Plan.md", "---\ntags: [work]\n---\nSee [[Tea]].\n")
    try scratch.write("laptop/Tea.md", "Green.\n")
    let added = try await program.run(["--json", "add", scratch.at("laptop"), "--create", "--yes"] + mine)
    try #require(added.status == 0, "\(added.errText)")
    let synced = try await program.run(["--json", "sync", scratch.at("laptop")] + mine)
    #expect(synced.status == 0, "\(synced.errText)")
    #expect(synced.json?["drain"]?["undelivered"] == 0)
    #expect(synced.json?["drain"]?["verdicts"]?.array?.allSatisfy { $0["verdict"] == "accepted" } == true)
    let file = try #require(scratch.text("laptop/Plan.md"))
    #expect(file.contains("marfa_version: "))

    let one = [
      "--url", server.url, "--key",
      try await key(["--permission", "core.note=read", "--permission", "edge.about=write"]),
    ]
    let some = try await program.run(["keys", "current"] + one).outText
    for line in ["  core.note: read", "  edge.about: write"] { #expect(some.contains(line + "\n")) }
    let both = try await program.run(["--json", "instance", "key", "create", "--folders", "--permission", "*=read"])
    #expect(both.code == "usage")
  }

  @Test("N2.7 a backup opens as an instance of its own and holds what was there")
  func backup() async throws {
    let server = try await LocalServer(data: data, program: program, port: true)
    let made = try await program.run(["--json", "create", "--title", "Kept"] + server.options)
    try #require(made.status == 0, "\(made.errText)")
    let copy = scratch.at("copy")
    let ran = try await program.run(["instance", "backup", copy, "--data", data])
    #expect(ran.status == 0, "\(ran.errText)")
    let again = try await program.run(["--json", "instance", "backup", copy, "--data", data])
    #expect(again.status == 1)
    let other = try await LocalServer(data: copy, program: program, port: true)
    let stats = try await program.run(["--json", "server"] + other.options)
    #expect(stats.json?["instance"]?["instance_id"]?.text == server.ready["instance_id"]?.text)
  }

  /// A folder over notes of these names, confirmed and not yet synced, at a server.
  private func folder(_ program: MarfaFolders, _ count: Int) async throws -> String {
    for number in 0..<count { try scratch.write("Notes/N\(number).md", "# Note \(number)\n") }
    let notes = scratch.at("Notes")
    let added = try await program.run([
      "--json", "add", notes, "--create", "Notes", "--search", #"{"types":["core.note"]}"#, "--yes",
    ])
    try #require(added.status == 0, "\(added.errText)")
    return notes
  }

  private func at(_ server: LocalServer) -> MarfaFolders {
    var program = program
    program.environment["MARFA_API_URL"] = server.url
    program.environment["MARFA_API_KEY"] = server.key
    return program
  }

  /// The notes a server holds, read into a store of its own.
  private func titles(_ program: MarfaFolders, _ store: String) async throws -> [String] {
    let filled = try await program.run(
      ["--json", "device", "--db", scratch.at(store), "hydrate", "--types", "core.note", "--tier", "all"],
      deadline: .seconds(300))
    try #require(filled.status == 0, "\(filled.errText)")
    let listed = try await program.run(["--json", "device", "--db", scratch.at(store), "items", "list"])
    return (listed.json?.array ?? []).compactMap { $0["properties"]?["title"]?.text?.string }
  }

  @Test("N-S6 killed amid 1,000 writes and run again, the instance holds every acknowledged write once")
  func killedAmidWrites() async throws {
    let server = try await LocalServer(data: data, program: program, port: true)
    // The address stays one while the instance behind it ends and starts.
    let upstream = Mutex(server.url)
    let posts = Atomic<Int>(0)
    let proxy = try ScriptedServer(through: { upstream.withLock { $0 } }) { request in
      if request.method == "POST", request.door == "/items" { posts.add(1, ordering: .relaxed) }
      return nil
    }
    var program = at(server)
    program.environment["MARFA_API_URL"] = proxy.url
    let notes = try await folder(program, 1000)
    let push = try program.start(["--json", "sync", notes])
    push.endInput()
    try await eventually("writes under way", within: .seconds(300)) {
      posts.load(ordering: .relaxed) > 300 || push.status != nil
    }
    server.child.signal(SIGKILL)
    _ = try await server.child.end()
    let broken = try await push.end(within: .seconds(300))
    #expect((broken.json?["drain"]?["undelivered"]?.int ?? 0) > 0, "it was killed amid them: \(broken.errText)")
    let again = try await LocalServer(data: data, program: self.program, port: true)
    upstream.withLock { $0 = again.url }
    // What the client was told is taken is there, once.
    let queue = try await program.run(["--json", "device", "--db", notes + "/.marfa/core.sqlite", "queue"])
    let taken = (queue.json?.array ?? []).filter { $0["kind"] == "create_item" && $0["verdict"] == "accepted" }
    #expect(!taken.isEmpty)
    let before = try await titles(program, "before.sqlite")
    #expect(Set(before).count == before.count)
    let acknowledged = taken.compactMap { $0["body"]?["properties"]?["title"]?.text?.string }
    #expect(Set(acknowledged).isSubset(of: Set(before)))
    let rest = try await program.run(["--json", "sync", notes], deadline: .seconds(300))
    #expect(rest.json?["drain"]?["undelivered"] == 0, "\(rest.errText)")
    let after = try await titles(program, "after.sqlite")
    #expect(after.count == 1000)
    #expect(Set(after).count == 1000)
    withExtendedLifetime((proxy, again)) {}
  }

  @Test("N-S10 an instance with nothing to do for 600 s leaves; one started on demand is told to")
  func idleExit() async throws {
    var fast = program
    // 600 s are 2 s here.
    fast.environment["MARFA_TEST_TIME"] = "300"
    let child = try fast.start(["instance", "run", "--json", "--data", data, "--idle-exit", "600"])
    let ran = try await child.end(within: .seconds(120))
    #expect(ran.status == 0)
    #expect(ran.jsonLines.count == 1)
    let asked = try await program.run(["--json", "server", "--url", "local"])
    try #require(asked.status == 0, "\(asked.errText)")
    let status = try await program.run(["--json", "instance", "status"])
    let pid = try #require(status.json?["pid"]?.int)
    let words = (fileBytes("/proc/\(pid)/cmdline") ?? []).split(separator: 0).map {
      String(decoding: $0, as: UTF8.self)
    }
    let option = try #require(words.firstIndex(of: "--idle-exit"))
    #expect(words[option + 1] == "600")
    _ = try await program.run(["instance", "stop"])
  }

  @Test("N-S11 a backup while writers work opens and holds a state between its start and its end")
  func backupAmidWrites() async throws {
    let server = try await LocalServer(data: data, program: program, port: true)
    let program = at(server)
    let notes = try await folder(program, 300)
    func count(_ program: MarfaFolders) async throws -> Int {
      try await program.run(["--json", "server"]).json?["stats"]?["active"]?.int ?? -1
    }
    let push = try program.start(["--json", "sync", notes])
    push.endInput()
    while push.status == nil, try await count(program) < 20 { continue }
    let start = try await count(program)
    let ran = try await program.run(["instance", "backup", scratch.at("copy"), "--data", data])
    #expect(ran.status == 0, "\(ran.errText)")
    let end = try await count(program)
    let pushed = try await push.end(within: .seconds(300))
    #expect(pushed.status == 0)
    #expect(pushed.json?["drain"]?["undelivered"] == 0)
    let opened = try await LocalServer(data: scratch.at("copy"), program: self.program, port: true)
    let copy = at(opened)
    let held = try await count(copy)
    #expect(start <= held && held <= end, "\(start) \(held) \(end)")
    let titles = try await titles(copy, "copy.sqlite")
    #expect(titles.count == held)
    #expect(Set(titles).count == held)
    withExtendedLifetime((server, opened)) {}
  }
}
