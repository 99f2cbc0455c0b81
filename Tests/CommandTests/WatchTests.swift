import Glibc
import MarfaBase
import Testing
import TestSupport

@Suite("watch") struct WatchTests {
  let scratch: ScratchDirectory
  let program: MarfaFolders
  let server: LocalServer
  let notes: String

  init() async throws {
    scratch = try ScratchDirectory()
    var program = MarfaFolders(home: scratch.path)
    server = try await LocalServer(data: scratch.at("data"), program: program, port: true)
    program.environment["MARFA_API_URL"] = server.url
    program.environment["MARFA_API_KEY"] = server.key
    self.program = program
    notes = scratch.at("Notes")
  }

  func folder(confirmed: Bool = true) async throws {
    try scratch.write("Notes/One.md", "# One\n")
    let added = try await program.run(["add", notes, "--create", "Notes"] + (confirmed ? ["--yes"] : []))
    try #require(added.status == 0, "\(added.errText)")
  }

  func events(_ child: ChildProcess) -> [String] {
    child.out.split(separator: 0x0A).compactMap { (try? JSON(parsing: Array($0)))?["event"]?.text?.string }
  }

  @Test("C17.2 watch refuses a folder whose first sync waits, before it starts")
  func waitingFirstSync() async throws {
    try await folder(confirmed: false)
    let ran = try await program.run(["--json", "watch", notes])
    #expect(ran.status == 4)
    #expect(ran.code == "first_sync_waiting")
    #expect(ran.out.isEmpty)
  }

  @Test("C-S52 watch --for 2 exits 0 two seconds after it watches, one object a line")
  func forSeconds() async throws {
    try await folder()
    let child = try program.start(["watch", notes, "--for", "2", "--json"])
    try await child.wait("watching") { !events($0).isEmpty }
    let began = ContinuousClock.now
    let ran = try await child.end()
    #expect(ContinuousClock.now - began > .milliseconds(1500))
    #expect(ran.status == 0)
    #expect(ran.err.isEmpty)
    #expect(events(child).first == "watching")
    #expect(ran.jsonLines.count == ran.outText.split(separator: "\n").count)
    #expect(events(child).contains("passed"))
  }

  @Test("C4.6 SIGTERM and SIGINT end a watch with exit 0")
  func signals() async throws {
    try await folder()
    for number in [SIGTERM, SIGINT] {
      let child = try program.start(["watch", notes])
      try await child.shows("watching \(notes)")
      child.signal(number)
      #expect(try await child.end().status == 0)
    }
  }

  @Test("C-S53 a watch hands its folder to confirm and takes it back")
  func handOver() async throws {
    try await folder()
    let child = try program.start(["watch", notes, "--json"])
    try await child.wait("the first pass", within: .seconds(40)) { events($0).contains("passed") }
    let confirmed = try await program.run(["--json", "confirm", notes], deadline: .seconds(15))
    #expect(confirmed.status == 0, "\(confirmed.errText)")
    try await child.wait("taken_back") { events($0).contains("taken_back") }
    #expect(events(child).contains("handed_over"))
    let line = child.out.split(separator: 0x0A).compactMap { try? JSON(parsing: Array($0)) }
      .first { $0["event"] == "handed_over" }
    #expect(line?["to"] == "confirm")
    child.signal(SIGTERM)
    #expect(try await child.end().status == 0)
  }

  @Test("C-S55 a second watch is refused at once; remove ends the first with removed, exit 0")
  func secondWatchAndRemove() async throws {
    try await folder()
    let child = try program.start(["watch", notes, "--json"])
    try await child.wait("the first pass", within: .seconds(40)) { events($0).contains("passed") }
    let second = try await program.run(["--json", "watch", notes])
    #expect(second.status == 4)
    #expect(second.code == "reading_handle")
    #expect(second.message.contains(notes))
    let removed = try await program.run(["--json", "remove", notes])
    #expect(removed.status == 0, "\(removed.errText)")
    let ran = try await child.end()
    #expect(ran.status == 0, "\(ran.errText)")
    #expect(events(child).last == "removed")
    #expect(scratch.text("Notes/One.md")?.hasSuffix("# One\n") == true)
  }

  @Test("C-S56 a watch printing JSON to a closed pipe exits 0")
  func closedPipe() async throws {
    try await folder()
    var quiet = program
    quiet.environment["MARFA_BINARY"] = MarfaFolders.binary
    quiet.environment["NOTES"] = notes
    let shell = try ChildProcess(
      ["bash", "-c", #"set -o pipefail; "$MARFA_BINARY" --json watch "$NOTES" | true"#],
      environment: quiet.environment)
    // The watch finds the pipe closed at the first event it prints.
    let ran = try await shell.end()
    #expect(ran.status == 0, "\(ran.errText)")
    #expect(ran.err.isEmpty)
  }

  @Test("C17.6 an edit under a watch is sent, and a server that went away is said once")
  func edit() async throws {
    try await folder()
    let child = try program.start(["watch", notes])
    try await child.shows("pass: ", within: .seconds(40))
    let text = try #require(scratch.text("Notes/One.md"))
    try scratch.write("Notes/One.md", text + "More.\n")
    try await child.shows("updated 1", within: .seconds(40))
    let id = try await program.run(["--json", "status", notes]).json?["files"]?.array?.first?["item_id"]?.text?.string
    let shown = try await program.run([
      "--json", "device", "--reader", "--db", notes + "/.marfa/core.sqlite", "items", "get", id ?? "",
    ])
    #expect(shown.json?["version"]?.int ?? 0 >= 2)
    #expect(shown.json?["properties"]?["body"]?.text?.string.contains("More.") == true)
    server.child.signal(SIGKILL)
    _ = try await server.child.end()
    try await child.shows("cannot be reached", within: .seconds(60))
    let count = String(decoding: child.out, as: UTF8.self).split(separator: "cannot be reached").count - 1
    #expect(count == 1)
    child.signal(SIGTERM)
    #expect(try await child.end().status == 0)
  }
}
