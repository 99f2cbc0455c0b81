import Glibc
import MarfaBase
import Testing
import TestSupport

@Suite("watch") struct WatchTests: ServedSuite {
  let served: ServedNotes

  init() async throws { served = try await ServedNotes() }

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
    let began = ContinuousClock.now
    let child = try program.start(["watch", notes, "--for", "2", "--json"])
    let ran = try await child.end()
    #expect(ContinuousClock.now - began > .seconds(2))
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

  @Test(
    "H-S1 pull, scan, push, confirm and remove are each let in by a watch, which takes the folder back after all but the last"
  )
  func everyCommand() async throws {
    try await folder()
    let child = try program.start(["watch", notes, "--json"])
    try await child.wait("the first pass", within: .seconds(120)) { events($0).contains("passed") }
    for (number, command) in ["pull", "scan", "push", "confirm"].enumerated() {
      let ran = try await program.run(["--json", command, notes], deadline: .seconds(60))
      #expect(ran.status == 0, "\(command): \(ran.errText)")
      try await child.wait("taken back after \(command)", within: .seconds(60)) {
        events($0).count { $0 == "taken_back" } == number + 1
      }
    }
    let told = child.out.split(separator: 0x0A).compactMap { try? JSON(parsing: Array($0)) }
    #expect(
      told.filter { $0["event"] == "handed_over" }.compactMap { $0["to"]?.text?.string }
        == ["pull", "scan", "push", "confirm"])
    let removed = try await program.run(["--json", "remove", notes], deadline: .seconds(60))
    #expect(removed.status == 0, "\(removed.errText)")
    #expect(try await child.end(within: .seconds(60)).status == 0)
    #expect(events(child).count { $0 == "handed_over" } == 5 && events(child).count { $0 == "taken_back" } == 4)
  }

  @Test("H-S3 H-S8 a second watch is refused; remove during a watch ends it removed, exit 0")
  func secondWatch() async throws {
    try await folder()
    let child = try program.start(["watch", notes, "--json"])
    try await child.wait("watching", within: .seconds(120)) { events($0).contains("watching") }
    let second = try await program.run(["--json", "watch", notes], deadline: .seconds(60))
    #expect(second.status == 4 && second.code == "reading_handle")
    #expect(second.out.isEmpty)
    try await child.wait("the first pass", within: .seconds(120)) { events($0).contains("passed") }
    let removed = try await program.run(["--json", "remove", notes], deadline: .seconds(60))
    #expect(removed.status == 0, "\(removed.errText)")
    #expect(try await child.end(within: .seconds(60)).status == 0)
    #expect(events(child).last == "removed")
  }

  @Test("H-S4 after a watch was killed with SIGKILL a call works the folder")
  func killed() async throws {
    try await folder()
    let child = try program.start(["watch", notes, "--json"])
    try await child.wait("the first pass", within: .seconds(120)) { events($0).contains("passed") }
    child.signal(SIGKILL)
    _ = try await child.end(within: .seconds(60))
    try scratch.write("Notes/Two.md", "# Two\n")
    let ran = try await program.run(["--json", "push", notes], deadline: .seconds(60))
    #expect(ran.status == 0, "\(ran.errText)")
    #expect(ran.json?["scan"]?["created"]?.int == 1)
  }

  @Test("W-S1 a directory that comes filled is found whole, within one pass")
  func filledDirectory() async throws {
    try await folder()
    for number in 0..<20 { try scratch.write("Made/a/b\(number % 4)/n\(number).md", "# \(number)\n") }
    let child = try program.start(["watch", notes, "--json"])
    try await child.wait("the first pass", within: .seconds(120)) { events($0).contains("passed") }
    try #require(rename(scratch.at("Made"), notes + "/Made") == 0)
    func created() -> [Int] {
      child.out.split(separator: 0x0A).compactMap { try? JSON(parsing: Array($0)) }
        .compactMap { $0["scan"]?["created"]?.int }.filter { $0 > 1 }
    }
    try await child.wait("the pass that finds them", within: .seconds(120)) { _ in !created().isEmpty }
    #expect(created() == [20])
    // And a file made in one of the new directories wakes a pass of its own.
    let passes = events(child).count { $0 == "passed" }
    try scratch.write("Notes/Made/a/b0/later.md", "# Later\n")
    try await child.wait("the later file", within: .seconds(120)) { events($0).count { $0 == "passed" } > passes }
    child.signal(SIGTERM)
    #expect(try await child.end(within: .seconds(60)).status == 0)
  }

  @Test("ST-S3 add of a Syncthing directory succeeds with its storage, and the watch's first event carries it")
  func syncthing() async throws {
    try scratch.makeDirectory("Notes/.stfolder")
    try scratch.write("Notes/One.md", "# One\n")
    let added = try await program.run(["--json", "add", notes, "--create", "Notes", "--yes"])
    #expect(added.status == 0, "\(added.errText)")
    let storage = try #require(added.json?["storage"] ?? added.json?["folder"]?["storage"])
    #expect(storage["cause"] == "cloud_service" && storage["name"] == "Syncthing" && storage["kind"] == .null)
    #expect(storage["warning"]?.text?.string.contains("Syncthing") == true)
    let child = try program.start(["watch", notes, "--json"])
    try await child.wait("watching", within: .seconds(120)) { events($0).contains("watching") }
    let first = child.out.split(separator: 0x0A).first.flatMap { try? JSON(parsing: Array($0)) }
    #expect(first?["event"] == "watching" && first?["storage"] == storage)
    child.signal(SIGTERM)
    #expect(try await child.end(within: .seconds(60)).status == 0)
    #expect(scratch.files("Notes").contains("One.md"))
  }
}
