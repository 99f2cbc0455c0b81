import Glibc
import MarfaBase
import Testing
import TestSupport

/// `uninstall` (P4.3).
@Suite("uninstalling") struct UninstallTests {
  let scratch: ScratchDirectory
  let program: MarfaFolders

  init() throws {
    scratch = try ScratchDirectory()
    var program = MarfaFolders(home: scratch.path)
    program.environment["XDG_CONFIG_HOME"] = scratch.at("config")
    program.environment["XDG_DATA_HOME"] = scratch.at("share")
    program.environment["XDG_RUNTIME_DIR"] = scratch.at("run")
    self.program = program
  }

  @Test("P4.3 refused while writes wait, naming the folder; else unit, credentials and instance go, and files stay")
  func uninstall() async throws {
    let session = try await SessionBus(home: scratch.path)
    var program = session.program(program)
    program.environment["XDG_DATA_HOME"] = scratch.at("share")
    let notes = scratch.at("Notes")
    try scratch.write("Notes/One.md", "# One\n")
    let added = try await program.run(["add", notes, "--create", "Notes", "--local", "--yes"])
    try #require(added.status == 0, "\(added.errText)")
    #expect(try await program.run(["sync", notes]).status == 0)
    #expect(try await program.run(["autostart", "enable", "--systemd"]).status == 0)
    let key = try await program.run(["--json", "instance", "key", "create", "--permission", "*=write"])
    _ = try await program.run(["keys", "keep", "--url", "local", "--key", key.json?["key"]?.text?.string ?? ""])
    try scratch.write("Notes/Two.md", "# Two\n")
    #expect(try await program.run(["scan", notes]).status == 0)
    let refused = try await program.run(["--json", "uninstall"])
    #expect(refused.status == 1 && refused.code == "invalid")
    #expect(refused.message.contains(notes), "\(refused.message)")
    #expect(scratch.files("config").count == 1)
    #expect(try await program.run(["sync", notes]).status == 0)
    // A copy that cannot be made is refused before anything goes.
    for place in [notes, "/proc/nope"] {
      let refused = try await program.run(["--json", "uninstall", "--backup", place])
      #expect(refused.status != 0 && scratch.files("config").count == 1, "\(refused.errText)")
    }
    let done = try await program.run(["--json", "uninstall", "--backup", scratch.at("saved")])
    #expect(done.status == 0, "\(done.errText)")
    let report = try #require(done.json)
    #expect(report.object?.keys == ["files", "forgotten", "keyring", "instance", "folders"])
    #expect(report["files"]?.array?.count == 1 && scratch.files("config").isEmpty)
    #expect(
      report["instance"]?["removed"] == true && report["instance"]?["backup"]?.text?.string == scratch.at("saved"))
    #expect(report["folders"] == [] && report["keyring"] == .null, "\(report.compact)")
    #expect(!names(of: scratch.at("share/marfa-folders")).contains("instance"))
    #expect(scratch.text("Notes/One.md")?.hasSuffix("# One\n") == true && names(of: notes).contains(".marfa"))
    // The copy opens, and holds the notes.
    let saved = try await LocalServer(data: scratch.at("saved"), program: program, port: true)
    let stats = try await program.run(["--json", "server"] + saved.options)
    #expect(stats.status == 0, "\(stats.errText)")
    let purged = try await program.run(["--json", "uninstall", "--purge"])
    #expect(purged.status == 0, "\(purged.errText)")
    #expect(purged.json?["folders"]?.array?.count == 1)
    #expect(!names(of: notes).contains(".marfa") && names(of: notes).contains("Two.md"))
    #expect(try await program.run(["--json", "list"]).json == [])
    try await session.end()
  }
}
