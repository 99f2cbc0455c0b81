import Glibc
import MarfaBase
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
}
