import Glibc
import MarfaBase
import Testing
import TestSupport

/// `status`, as a person looks at it (C9, N6.1).
@Suite("where files stand") struct StatusTests: ServedSuite {
  let served: ServedNotes

  init() async throws { served = try await ServedNotes() }

  @Test("N6.1 --cause groups all that is not in step, what waits too; the counts come first")
  func causes() async throws {
    try await folder(["One.md": "# One\n", "Two.md": "# Two\n"])
    for number in 0..<12 { try scratch.write("Notes/New \(number).md", "# New \(number)\n") }
    try scratch.write("Notes/Bad.md", "---\ntype: book\n---\n# Bad\n")
    let lines = try await program.run(["status", notes, "--cause"]).outText.split(separator: "\n").map(String.init)
    #expect(Array(lines.prefix(3)) == ["2 files in step", "12 files waiting", "1 file held"], "\(lines)")
    #expect(lines.filter { $0 == "12 files waiting: scan" }.count == 1, "\(lines)")
    #expect(lines.filter { $0.hasPrefix("  New ") }.count == 10)
    #expect(lines.contains("  and 2 more; --all lists them"))
    #expect(lines.filter { $0.hasPrefix("Bad.md: held: ") }.count == 1)
    // Without it each waiting file is a line of its own (C9.12).
    let plain = try await program.run(["status", notes]).outText.split(separator: "\n")
    #expect(plain.filter { $0.hasPrefix("New ") }.count == 12)
  }

  @Test("N6.1 --watch redraws in place as files change, until q; under --json a line each time; colour heeds NO_COLOR")
  func watching() async throws {
    try await folder(["One.md": "# One\n"])
    var shown = program
    shown.environment["TERM"] = "xterm"
    let screen = try shown.start(["status", "--watch", notes], screen: true)
    try await screen.shows("1 file in step")
    try scratch.write("Notes/Two.md", "# Two\n")
    try await screen.shows("Two.md: waiting (scan)")
    screen.send("q")
    let ran = try await screen.end()
    #expect(ran.status == 0)
    let text = String(decoding: ran.err + ran.out, as: UTF8.self)
    #expect(text.contains("\u{1B}[H") && text.contains("\u{1B}[32m1 file in step\u{1B}[0m"), "\(text.debugDescription)")
    // The person's own screen comes back.
    #expect(text.hasSuffix("\u{1B}[?1049l"))
    shown.environment["NO_COLOR"] = "1"
    let plain = try shown.start(["status", notes], screen: true)
    let once = try await plain.end()
    let said = String(decoding: once.err + once.out, as: UTF8.self)
    #expect(said.contains("1 file in step") && !said.contains("\u{1B}"), "\(said.debugDescription)")
    let lines = try program.start(["--json", "status", "--watch", notes])
    try await lines.shows("\"Two.md\"")
    try scratch.write("Notes/Three.md", "# Three\n")
    try await lines.shows("\"Three.md\"")
    lines.signal(SIGINT)
    let ended = try await lines.end()
    #expect(ended.status == 0)
    #expect(ended.jsonLines.count >= 2)
    let refused = try await program.run(["status", "--watch", notes])
    #expect(refused.status == 2 && refused.errText.contains("--json"))
  }

  @Test("C-S54 a push that works the folder for long is waited for, and after 10 s told as reading_handle naming DIR")
  func longPush() async throws {
    try await folder(["One.md": "# One\n"])
    // A server that takes its time.
    let gate = StopFlag()
    let stalls = StopFlag()
    let slow = try ScriptedServer(upstream: server.url) { request in
      if request.method == "POST" { stalls.set(.stopped) }
      while stalls.isSet, !gate.isSet { usleep(20_000) }
      return nil
    }
    var late = program
    late.environment["MARFA_API_URL"] = slow.url
    try scratch.write("Notes/Two.md", "# Two\n")
    let first = try late.start(["--json", "sync", notes])
    try await eventually("the first push at work") { slow.requests.contains { $0.method == "POST" } }
    let began = ContinuousClock.now
    let second = try await late.run(["--json", "sync", notes])
    #expect(ContinuousClock.now - began >= .seconds(9))
    #expect(second.status == 4 && second.code == "reading_handle", "\(second.errText)")
    #expect(second.message.contains(notes), "\(second.message)")
    gate.set(.stopped)
    _ = try await first.end()
  }
}

extension StatusTests {
  @Test("C-S29 beside a watch each file has its status, flag and waits, in path order, and no request is made")
  func everyState() async throws {
    for name in ["Edited", "Deleted", "Step", "Unmatched", "drafts/Left"] {
      try scratch.write("Notes/\(name).md", "# \(name)\n")
    }
    let search = #"{"types":["core.note"],"filter":"tags contains \"keep\""}"#
    let added = try await json([
      "add", notes, "--create", "Notes", "--search", search, "--defaults", #"{"tags":["keep"]}"#, "--yes",
    ])
    let folder = try #require(added["folder"]?.text?.string)
    _ = try await json(["sync", notes])
    // Elsewhere: one note loses its tag, and the folder leaves a directory alone.
    let store = ["device", "--db", scratch.at("other.sqlite")]
    _ = try await json(store + ["hydrate", "--types", "core.note,system.folder", "--tier", "all"])
    let files = try await json(["status", notes])["files"]?.array ?? []
    let unmatched = try #require(
      files.first { $0["path"] == "Unmatched.md" }?["item_id"]?.text?.string, "\(files.map(\.compact))")
    _ = try await json(store + ["tags", "remove", unmatched, "keep"])
    _ = try await json(store + ["drain"])
    let row = try await json(store + ["items", "get", folder])
    _ = try await json(["change", folder, "--version", "\(row["version"]?.int ?? 1)", "--ignore", "drafts/"])
    // Files nothing is sent of.
    try scratch.write("Notes/Bad.md", "---\ntags: [a\n---\n")
    try scratch.write("Notes/Book.md", "---\ntype: book\n---\n# Book\n")
    try scratch.write("Notes/Latin.md", [0x23, 0x20, 0xE9, 0x0A])
    try scratch.write("Notes/Picture.png", [0x89, 0x50, 0x4E, 0x47])
    try scratch.write("Notes/empty.bin", "")
    let watch = try program.start(["--json", "watch", notes])
    defer { watch.signal(SIGKILL) }
    try await watch.shows("\"event\":\"passed\"")
    func states(_ program: MarfaFolders) async throws -> [String] {
      let ran = try await program.run(["--json", "status", notes])
      try #require(ran.status == 0, "\(ran.errText)")
      return (ran.json?["files"]?.array ?? []).map { file in
        let waits = (file["waits"]?.array ?? []).compactMap { $0.text?.string }.joined(separator: "+")
        return [file["path"], file["status"], file["flag"]].compactMap { $0?.text?.string }.joined(separator: " ")
          + (waits.isEmpty ? "" : " " + waits)
      }
    }
    while !(try await states(program)).contains("Unmatched.md unmatched") {
      try #require(watch.status == nil, "\(String(decoding: watch.err, as: UTF8.self))")
      try await Task.sleep(for: .milliseconds(100))
    }
    // The server goes, so that what is done now waits.
    server.child.signal(SIGTERM)
    _ = try await server.child.end()
    let text = try #require(scratch.text("Notes/Edited.md"))
    try scratch.write("Notes/Edited.md", text + "more\n")
    try scratch.write("Notes/New.md", "# New\n")
    let expected = [
      "Bad.md held unreadable", "Book.md held refused", "Deleted.md waiting delete", "Edited.md waiting edit",
      "Latin.md held encoding", "New.md waiting create+tag+placement", "Picture.png outside search", "Step.md in_step",
      "Unmatched.md unmatched", "drafts/Left.md unreached lists", "empty.bin outside empty",
    ]
    // What status would ask is counted here.
    let asked = try ScriptedServer { _ in .json(500, "{}") }
    var counting = program
    counting.environment["MARFA_API_URL"] = asked.url
    while !(try await states(counting)).contains("New.md waiting create+tag+placement") {
      try #require(watch.status == nil)
      try await Task.sleep(for: .milliseconds(100))
    }
    // The watch stands still, its claim held, so that a deleted file's grace does not end under the look.
    watch.signal(SIGSTOP)
    #expect(unlink(notes + "/Deleted.md") == 0)
    let found = try await states(counting)
    #expect(found == expected)
    #expect(asked.requests.isEmpty)
    #expect(watch.status == nil)
  }
}

extension StatusTests {
  @Test("a sync that takes more than a second shows at a terminal how many of how many went, how fast and what is left")
  func progress() async throws {
    for number in 0..<400 { try scratch.write("Notes/\(number).md", "# Note \(number)\n") }
    _ = try await json(["add", notes, "--create", "Notes", "--search", #"{"types":["core.note"]}"#, "--yes"])
    let slow = try ScriptedServer(upstream: server.url) { request in
      if request.method == "POST" { usleep(100_000) }
      return nil
    }
    var late = program
    late.environment["MARFA_API_URL"] = slow.url
    let child = try late.start(["sync", notes], screen: true)
    let ran = try await child.end(within: .seconds(300))
    #expect(ran.status == 0)
    let shown = String(decoding: ran.err, as: UTF8.self)
    let lines = shown.split(whereSeparator: { $0 == "\r" || $0 == "\n" || $0 == "\r\n" }).map(String.init)
    let told = lines.filter { $0.hasPrefix("sending ") }
    #expect(told.count > 1, "\(shown)")
    #expect(
      told.contains {
        $0.contains(" of ") && ($0.contains("a second") || $0.contains("a minute")) && $0.contains("left")
      }, "\(told)")
    // The line is taken away before the report, which stands alone.
    #expect(
      lines.contains {
        $0.hasSuffix("scanned: created 400, updated 0, renamed 0, unchanged 0, missing 0, deleted 0, skipped 0")
      })
    // Nobody is shown it who does not look: not in a pipe, not under --json.
    try scratch.write("Notes/last.md", "# Last\n")
    let piped = try await late.run(["sync", notes])
    #expect(piped.status == 0 && piped.err.isEmpty)
  }
}
