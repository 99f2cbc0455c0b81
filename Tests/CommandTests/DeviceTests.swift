import MarfaBase
import MarfaCopy
import Testing
import TestSupport

@Suite("device doors") struct DeviceTests {
  let scratch: ScratchDirectory
  let program: MarfaFolders
  let store: String

  init() throws {
    scratch = try ScratchDirectory()
    program = MarfaFolders(home: scratch.path)
    store = scratch.at("copy.sqlite")
  }

  /// Makes a store.
  func makeStore() async throws {
    let made = try await program.run(["device", "--db", store, "status", "--json"])
    try #require(made.status == 0)
  }

  @Test("C-S1 no store named is no_store, exit 2, with nothing on standard output")
  func noStoreNamed() async throws {
    let ran = try await program.run(["--json", "device", "queue"])
    #expect(ran.status == 2)
    #expect(ran.out.isEmpty)
    #expect(ran.code == "no_store")
  }

  @Test("C-S2 a path with no store is named and left alone by queue, and made by status")
  func noStoreThere() async throws {
    let queue = try await program.run(["--json", "device", "--db", store, "queue"])
    #expect(queue.status == 2)
    #expect(queue.code == "no_store")
    #expect(queue.message.contains(store))
    #expect(scratch.files().isEmpty)
    // hydrate with no server makes nothing (C25.1).
    let hydrate = try await program.run([
      "--json", "device", "hydrate", "--db", store, "--types", "core.note", "--tier", "library",
    ])
    #expect(hydrate.status == 2)
    #expect(hydrate.code == "no_server")
    #expect(scratch.files().isEmpty)
    let status = try await program.run(["--json", "device", "--db", store, "status"])
    #expect(status.status == 0)
    #expect(status.json?["hydration"] == "never")
    #expect(status.json?["items"] == 0)
    #expect(scratch.bytes("copy.sqlite") != nil)
  }

  @Test("C-S3 a drain with a store and no server is no_server, exit 2")
  func drainWithoutServer() async throws {
    try await makeStore()
    let ran = try await program.run(["--json", "device", "--db", store, "drain"])
    #expect(ran.status == 2)
    #expect(ran.code == "no_server")
    #expect(ran.out.isEmpty)
  }

  @Test("C-S6 properties that are no object are invalid, and nothing is queued")
  func propertiesAreAnObject() async throws {
    try await makeStore()
    let ran = try await program.run([
      "--json", "device", "--db", store, "items", "create", "--type", "core.note", "--properties", "[1]",
    ])
    #expect(ran.status == 1)
    #expect(ran.code == "invalid")
    #expect(ran.refusal?["error"]?["server"] == .null)
    let queue = try await program.run(["--json", "device", "--db", store, "queue"])
    #expect(queue.status == 0)
    #expect(queue.json == [])
  }

  @Test("C-S7 hydrate at an address nothing listens on is network, exit 3")
  func unreachable() async throws {
    let ran = try await program.run([
      "--json", "device", "--db", store, "hydrate", "--types", "core.note", "--tier", "library", "--url",
      "http://127.0.0.1:1", "--key", "marfa_k1_x",
    ])
    #expect(ran.status == 3)
    #expect(ran.code == "network")
    #expect(ran.refusal?["error"]?["server"] == .null)
  }

  @Test("C-S8 an address and no key is no_credential, exit 5; a key of spaces is none")
  func noCredential() async throws {
    try await makeStore()
    var program = program
    for key in [nil, "   "] as [String?] {
      program.environment["MARFA_API_KEY"] = key
      let ran = try await program.run(["--json", "device", "--db", store, "drain", "--url", "http://127.0.0.1:1"])
      #expect(ran.status == 5)
      #expect(ran.code == "no_credential")
    }
  }

  @Test("C-S12 release takes an id or --reason, and not both")
  func releaseTakesOne() async throws {
    try await makeStore()
    for words in [[], ["018f0000-0000-7000-8000-00000000f001", "--reason", "key_spent"]] {
      let ran = try await program.run(["--json", "device", "--db", store, "release"] + words)
      #expect(ran.status == 2)
      #expect(ran.code == "usage")
    }
    let released = try await program.run(["--json", "device", "--db", store, "release", "--reason", "key_spent"])
    #expect(released.status == 0)
    #expect(released.json == 0)
  }

  @Test("C25.6 C26.2 an item is queued, shown and discarded without a server; an update needs its version")
  func queueing() async throws {
    try await makeStore()
    let id = "018f0000-0000-7000-8000-000000000a01"
    let made = try await program.run([
      "--json", "device", "--db", store, "items", "create", "--type", "core.note", "--properties",
      #"{"title":"Plan","body":"x"}"#, "--tier", "library", "--id", id,
    ])
    #expect(made.status == 0, "\(made.errText)")
    #expect(made.json?["kind"] == "create_item")
    #expect(made.json?["verdict"] == .null)
    let text = try await program.run(["device", "--db", store, "queue"])
    #expect(text.outText.contains("create_item \(id) unanswered"))
    let shown = try await program.run(["--json", "device", "--db", store, "items", "get", id])
    #expect(shown.json?["properties"]?["title"] == "Plan")
    let update = try await program.run([
      "--json", "device", "--db", store, "items", "update", id, "--properties", #"{"title":"x"}"#,
    ])
    #expect(update.code == "invalid")
    #expect(update.message.contains("--version"))
    let absent = try await program.run([
      "--json", "device", "--db", store, "items", "get", "018f0000-0000-7000-8000-000000000a02",
    ])
    #expect(absent.status == 1)
    #expect(absent.code == "not_held")
  }
}
