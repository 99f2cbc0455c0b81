import MarfaBase
import Testing
import TestSupport

/// `device queue` and `device drain` as a person runs them (queue.md, chapter 21).
@Suite("device queue") struct DeviceQueueTests {
  let scratch: ScratchDirectory
  let program: MarfaFolders
  let store: String

  init() throws {
    scratch = try ScratchDirectory()
    program = MarfaFolders(home: scratch.path)
    store = scratch.at("copy.sqlite")
  }

  private func device(_ arguments: [String], _ server: LocalServer? = nil, json: Bool = false) async throws -> Ran {
    try await program.run((json ? ["--json"] : []) + ["device", "--db", store] + arguments + (server?.options ?? []))
  }

  private func create(_ title: String, more: [String] = []) async throws -> (write: String, item: String) {
    let ran = try await device(
      ["items", "create", "--type", "core.note", "--properties", #"{"title":"\#(title)","body":"x"}"#] + more,
      json: true)
    try #require(ran.status == 0)
    let (id, item) = (ran.json?["id"]?.text, ran.json?["item_id"]?.text)
    return (try #require(id).string, try #require(item).string)
  }

  @Test("Q-S57 the queue as text names what a write waits on and goes after, and no longer once answered")
  func waitingWords() async throws {
    let server = try await LocalServer(data: scratch.at("data"), program: program, port: true)
    let filled = try await device(["hydrate", "--types", "core.note", "--tier", "library"], server)
    try #require(filled.status == 0)
    let made = try await create("A")
    let edit = [
      "items", "update", made.item, "--version", "0", "--properties", #"{"title":"B"}"#,
    ]
    let first = try await device(edit)
    #expect(first.outText.contains("waiting on 1"))
    let second = try await device(edit)
    #expect(second.outText.contains("waiting on 1"))
    #expect(second.outText.contains(", after "))
    let queue = try await device(["queue"])
    let lines = queue.outText.split(separator: "\n")
    #expect(lines.count == 3)
    #expect(lines.filter { $0.contains(", waiting on \(made.write)") }.count == 2)
    #expect(lines.filter { $0.contains(", after ") }.count == 2)
    let drained = try await device(["drain"], server)
    #expect(drained.status == 0)
    let after = try await device(["queue"])
    #expect(after.outText.split(separator: "\n").count == 3)
    #expect(!after.outText.contains("waiting on"))
    #expect(!after.outText.contains(", after "))
  }

  @Test(
    "Q-S69 Q59.1 a drain with JSON output prints its report alone: exit 3 without a server, 5 with a refused credential"
  )
  func drainExits() async throws {
    let server = try await LocalServer(data: scratch.at("data"), program: program, port: true)
    let filled = try await device(["hydrate", "--types", "core.note", "--tier", "library"], server)
    try #require(filled.status == 0)
    _ = try await create("A")
    let away = try await program.run(
      ["--json", "device", "--db", store, "drain", "--url", "http://127.0.0.1:9", "--key", server.key])
    #expect(away.status == 3 || away.status == 4)
    let refused = try await program.run(
      ["--json", "device", "--db", store, "drain", "--url", server.url, "--key", "marfa_k1_wrong_wrong_wrong"])
    #expect(refused.status == 5)
    #expect(refused.err.isEmpty)
    #expect(refused.json?["stopped"]?.text != nil)
    #expect(refused.json?["answered"] == 1)
    #expect(refused.json?["verdicts"]?.array?.count == 1)
    server.child.signal(9)
    try await server.child.wait("the instance to end") { $0.status != nil }
    let gone = try await device(["drain"], server, json: true)
    #expect(gone.status == 3)
    #expect(gone.err.isEmpty)
    #expect(gone.json?["unavailable"]?.text?.string.contains("could not be reached") == true)
    #expect(gone.json?["undelivered"] == 1)
    #expect(gone.json?["held"] == 0)
  }

  @Test("Q-S72 a drain with nothing but a refusal leaves by 0 and says refused 1 write(s)")
  func refusedWords() async throws {
    let server = try await LocalServer(data: scratch.at("data"), program: program, port: true)
    let filled = try await device(["hydrate", "--types", "core.note", "--tier", "library"], server)
    try #require(filled.status == 0)
    let made = try await create("A")
    let sent = try await device(["drain"], server)
    try #require(sent.status == 0)
    // Binned by another device's store; the edit made here is refused.
    let other = scratch.at("other.sqlite")
    for arguments in [
      ["hydrate", "--types", "core.note", "--tier", "library"], ["items", "delete", made.item], ["drain"],
    ] {
      let ran = try await program.run(["device", "--db", other] + arguments + server.options)
      try #require(ran.status == 0)
    }
    let edit = try await device(
      ["items", "update", made.item, "--version", "1", "--properties", #"{"title":"B"}"#])
    try #require(edit.status == 0)
    let ran = try await device(["drain"], server)
    #expect(ran.status == 0)
    #expect(ran.outText.contains("refused 1 write(s)"))
  }
}
