import MarfaBase
import Testing
import TestSupport

/// Metered networks (P5.3).
@Suite("sparing the network") struct SparingTests {
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

  @Test(
    "P5.3 on a metered network attachments over 1 MiB wait and say so; --now, the setting and another network send them"
  )
  func metered() async throws {
    let bus = try await SessionBus(home: scratch.path, keyring: false)
    let network = try MeteredNetwork(address: bus.address, metered: true)
    try await eventually("the network manager") { network.isThere }
    let notes = scratch.at("Notes")
    var metered = program
    metered.environment["DBUS_SYSTEM_BUS_ADDRESS"] = bus.address
    try scratch.write("Notes/One.md", "# One\n")
    let search = #"{"types":["core.note","core.file"]}"#
    let added = try await program.run(["add", notes, "--create", "Notes", "--search", search, "--yes"])
    try #require(added.status == 0, "\(added.errText)")
    try scratch.write("Notes/small.pdf", [UInt8](repeating: 7, count: 4000))
    try scratch.write("Notes/large.pdf", [UInt8](repeating: 8, count: 1_100_000))
    func states() async throws -> [String: String] {
      let files = try await program.run(["--json", "status", notes]).json?["files"]?.array ?? []
      return Dictionary(
        uniqueKeysWithValues: files.map { ($0["path"]?.text?.string ?? "", $0["status"]?.text?.string ?? "") })
    }
    for _ in 0..<2 {
      let ran = try await metered.run(["sync", notes])
      #expect(ran.status == 0, "\(ran.errText)")
      #expect(ran.outText.contains("1 large file waits for a network that is not metered"), "\(ran.outText)")
      #expect(ran.outText.contains("--now"))
    }
    #expect(try await states() == ["One.md": "in_step", "small.pdf": "in_step", "large.pdf": "waiting"])
    let now = try await metered.run(["sync", notes, "--now"])
    #expect(now.status == 0 && !now.outText.contains("metered"), "\(now.outText)")
    #expect(try await states()["large.pdf"] == "in_step")
    // By the setting.
    try scratch.write("Notes/second.pdf", [UInt8](repeating: 9, count: 1_200_000))
    var ignoring = metered
    ignoring.environment["MARFA_METERED"] = "ignore"
    #expect(try await ignoring.run(["sync", notes]).status == 0)
    #expect(try await states()["second.pdf"] == "in_step")
    // By a watch, once the network is another one.
    try scratch.write("Notes/third.pdf", [UInt8](repeating: 10, count: 1_300_000))
    metered.environment["MARFA_TEST_TIME"] = "10"
    let watch = try metered.start(["watch", notes])
    try await watch.shows("1 large file waits for a network that is not metered")
    network.say(metered: false)
    while try await states()["third.pdf"] != "in_step" {
      try #require(watch.status == nil)
      try await Task.sleep(for: .milliseconds(200))
    }
    watch.signal(15)
    #expect(try await watch.end().status == 0)
    network.end()
    try await bus.end()
  }
}
