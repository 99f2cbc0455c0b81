import Glibc
import MarfaBase
import Testing
import TestSupport

/// `pause` and `resume` (P5.4).
@Suite("pausing") struct PauseTests: ServedSuite {
  let served: ServedNotes

  init() async throws { served = try await ServedNotes() }

  private func folder() async throws {
    try scratch.write("Notes/One.md", "# One\n")
    _ = try await json(["add", notes, "--create", "Notes", "--search", #"{"types":["core.note"]}"#, "--yes"])
    _ = try await json(["sync", notes])
  }

  private func state(of file: String) async throws -> JSON? {
    try await json(["status", notes])["files"]?.array?.first { $0["path"] == .string(Text(file)) }?["status"]
  }

  @Test(
    "P-S19 a folder paused for a while is free for other programs, and the watch takes it back when the time is over")
  func forAWhile() async throws {
    try await folder()
    let watch = try program.start(["--json", "watch", notes])
    try await watch.shows("\"event\":\"passed\"")
    // Long enough for all that follows; the pause is cut short below.
    let paused = try await json(["pause", notes, "--for", "2h"])
    #expect(paused.array?.count == 1 && paused.array?.first?["dir"]?.text?.string == notes)
    let until = try #require(paused.array?.first?["until"]?.text)
    try await watch.shows("\"event\":\"paused\"")
    #expect(try await json(["status", notes])["pause"]?["until"]?.text == until)
    #expect(try await program.run(["status", notes]).outText.contains("paused until \(until)"))
    // Nobody holds it: another watch could start, and is paused too; a saved file is not sent.
    try scratch.write("Notes/Two.md", "# Two\n")
    let second = try program.start(["--json", "watch", notes])
    try await second.shows("\"event\":\"paused\"")
    second.signal(SIGTERM)
    #expect(try await second.end().status == 0)
    #expect(try await state(of: "Two.md") == "waiting")
    // A command works it all the same.
    #expect(try await json(["sync", notes])["scan"]?["created"] == 1)
    try scratch.write("Notes/Three.md", "# Three\n")
    // The time is over within a second.
    _ = try await json(["pause", notes, "--for", "1s"])
    try await watch.shows("\"event\":\"resumed\"")
    try await watch.shows("\"created\":1")
    #expect(try await json(["status", notes])["pause"] == nil)
    watch.signal(SIGTERM)
    let ran = try await watch.end()
    #expect(ran.status == 0)
    #expect(!ran.outText.contains("\"to\":\"pause\""))
  }

  @Test(
    "resume ends a pause at once; without DIR both reach every folder; a pause stands through a restart of the watch")
  func resume() async throws {
    try await folder()
    #expect(try await json(["pause"]).array?.first?["until"] == .null)
    let watch = try program.start(["--json", "watch"])
    try await watch.shows("\"event\":\"paused\"")
    let over = try await json(["resume"])
    #expect(over == [["dir": .string(Text(notes)), "paused": false, "was_paused": true]])
    try await watch.shows("\"event\":\"resumed\"")
    try await watch.shows("\"event\":\"watching\"")
    watch.signal(SIGTERM)
    #expect(try await watch.end().status == 0)
    #expect(try await json(["resume", notes]).array?.first?["was_paused"] == false)
    for wrong in ["", "1x", "h", "-1h", "99999999d"] {
      let ran = try await program.run(["--json", "pause", notes, "--for=\(wrong)"])
      #expect(ran.status == 2 && ran.code == "usage", "\(wrong)")
    }
    #expect(try await program.run(["--json", "pause", scratch.at("none")]).status == 1)
  }
}
