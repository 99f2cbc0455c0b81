import Glibc
import MarfaBase
import TestSupport
import Testing

/// The first sync as it is asked at a terminal (F54.5), and where the list of folders lies with none named (F41.3).
@Suite(.serialized) struct FirstSyncTerminalScenarios {
  let desk: ProcessScenarios
  init() async throws { desk = try await ProcessScenarios() }

  func isWaiting() async throws -> Bool {
    let status = try await desk.program.run(["--json", "status", desk.notes])
    try #require(status.status == 0, "\(status.errText)")
    return status.json?["first_sync"] != nil
  }

  /// Whether anything reached the server.
  func isSent() async throws -> Bool { desk.scratch.text("Notes/One.md")?.contains("marfa_id") == true }

  func add(_ more: [String], answer: String?) async throws -> Ran {
    try desk.scratch.write("Notes/One.md", "One.\n")
    let child = try desk.program.start(["add", desk.notes, "--folder", desk.folder] + more, terminal: true)
    if let answer {
      try await child.shows("Go ahead? [y/N] ", within: .seconds(120))
      child.send(answer)
    }
    return try await child.end(within: .seconds(120))
  }

  @Test("F-S403 --yes does not wait; at a terminal yes confirms and no leaves it waiting")
  func answered() async throws {
    for (answer, waits) in [("no\n", true), ("\n", true), ("yes\n", false)] {
      let ran = try await add([], answer: answer)
      #expect(ran.status == 0 && ran.errText.contains("1 file to send"), "\(ran.errText)")
      #expect(try await isWaiting() == waits, "\(answer)")
      let push = try await desk.insist(["push", desk.notes])
      #expect((push.json?["first_sync"]?["waiting"] == true) == waits)
      #expect(try await isSent() == !waits)
    }
    #expect(try await desk.insist(["remove", desk.notes]).status == 0)
    try desk.scratch.write("Notes/Two.md", "Two.\n")
    let ran = try await add(["--yes"], answer: nil)
    #expect(ran.status == 0 && !ran.errText.contains("Go ahead"))
    #expect(try await !isWaiting())
    #expect(try await desk.insist(["push", desk.notes]).json?["scan"]?["created"]?.int ?? 0 >= 1)
    #expect(desk.scratch.text("Notes/Two.md")?.contains("marfa_id") == true)
  }

  @Test("F-S445 at a terminal --json asks nothing and leaves it waiting; YES confirms")
  func underJSON() async throws {
    let quiet = try await add(["--json"], answer: nil)
    #expect(quiet.status == 0 && !quiet.errText.contains("Go ahead"), "\(quiet.errText)")
    #expect(quiet.json?["first_sync"]?["waiting"] == true && quiet.json?["first_sync"]?["send"] == 1)
    #expect(try await isWaiting())
    #expect(try await desk.insist(["push", desk.notes]).json?["first_sync"]?["waiting"] == true)
    #expect(try await !isSent())
    let asked = try await add([], answer: "YES\n")
    #expect(asked.status == 0)
    #expect(try await !isWaiting())
    #expect(try await desk.insist(["push", desk.notes]).status == 0)
    #expect(try await isSent())
  }

  @Test("F-S302 with no registry named and a fresh home the list is under .local/share/marfa")
  func freshHome() async throws {
    let home = try desk.scratch.makeDirectory("fresh")
    var program = desk.program
    program.environment["MARFA_FOLDER_REGISTRY"] = nil
    program.environment["XDG_DATA_HOME"] = nil
    program.environment["HOME"] = home
    let added = try await program.run(["add", desk.notes, "--folder", desk.folder, "--yes"])
    #expect(added.status == 0, "\(added.errText)")
    let list = try #require(desk.scratch.bytes("fresh/.local/share/marfa/folders.json"))
    let entry = try JSON(parsing: list)["folders"]?.array?.first
    #expect(entry?["dir"]?.text?.string == desk.notes && entry?["folder"]?.text?.string == desk.folder)
    #expect(try await program.run(["--json", "list"]).json?.array?.first?["dir"]?.text?.string == desk.notes)
    #expect(desk.listed() == nil)
  }
}
