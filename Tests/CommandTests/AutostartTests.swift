import Glibc
import MarfaBase
import Testing
import TestSupport

@Suite("autostart") struct AutostartTests {
  let scratch: ScratchDirectory
  let program: MarfaFolders
  private let unit = "config/systemd/user/marfa-folders.service"
  private let link = "config/systemd/user/default.target.wants/marfa-folders.service"
  private let entry = "config/autostart/marfa-folders.desktop"

  init() throws {
    scratch = try ScratchDirectory()
    var program = MarfaFolders(home: scratch.path)
    program.environment["XDG_CONFIG_HOME"] = scratch.at("config")
    // No user manager of the tester's own is spoken to.
    program.environment["XDG_RUNTIME_DIR"] = scratch.at("run")
    self.program = program
  }

  private func json(_ words: [String]) async throws -> JSON {
    let ran = try await program.run(["--json", "autostart"] + words)
    try #require(ran.status == 0, "\(words): \(ran.errText)")
    return try #require(ran.json)
  }

  /// Runs a validator where this machine has it.
  private func validate(_ words: [String]) async throws {
    guard names(of: "/usr/bin").contains(words[0]) else { return }
    let child = try ChildProcess(
      words,
      environment: ["PATH": "/usr/bin:/bin", "HOME": scratch.path, "XDG_RUNTIME_DIR": scratch.path, "LC_ALL": "C"])
    let ran = try await child.end()
    #expect(ran.status == 0, "\(words): \(ran.outText) \(ran.errText)")
  }

  @Test("N4.1 a program in a directory no unit can name is refused as a unit, and started by the desktop's entry")
  func oddPath() async throws {
    for name in ["o'neil", "say \"x\"", "back\\slash", "50%$`off"] {
      let binary = scratch.at("\(name)/marfa-folders")
      try scratch.makeDirectory(name)
      if Glibc.link(MarfaFolders.binary, binary) != 0 {
        try scratch.write("\(name)/marfa-folders", try #require(fileBytes(MarfaFolders.binary)))
        #expect(chmod(binary, 0o755) == 0)
      }
      let refused = try await ChildProcess(
        [binary, "--json", "autostart", "enable", "--systemd"], environment: program.environment
      ).end(within: .seconds(120))
      #expect(refused.code == "invalid" && scratch.text(unit) == nil, "\(name): \(refused.errText)")
      let made = try await ChildProcess(
        [binary, "--json", "autostart", "enable", "--xdg"], environment: program.environment
      ).end(within: .seconds(120))
      #expect(made.status == 0, "\(name): \(made.errText)")
      try await validate(["desktop-file-validate", scratch.at(entry)])
    }
    // Both levels of escapes, as the desktop takes them off again.
    #expect(
      scratch.text(entry)?.contains(#"/50%%\\$\\`off/marfa-folders" watch"#) == true, "\(scratch.text(entry) ?? "")")
  }

  @Test("N4.3 an instance that a unit's process starts is a unit of its own, or is started all the same")
  func instanceOfUnit() async throws {
    for isTaken in [true, false] {
      let home = try ScratchDirectory()
      var service = MarfaFolders(home: home.path)
      // In place of the manager, which a tester may not have: what it is asked for, then what it does, or a refusal.
      try home.write(
        "bin/systemd-run",
        Array(
          """
          #!/bin/sh
          echo "$@" >\(home.at("asked"))
          \(isTaken ? "env >\(home.at("given")); while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"" : "exit 1")
          """.utf8))
      #expect(chmod(home.at("bin/systemd-run"), 0o755) == 0)
      service.environment["PATH"] = home.at("bin") + ":/usr/bin:/bin"
      service.environment["INVOCATION_ID"] = "0123456789abcdef0123456789abcdef"
      service.environment["NOTIFY_SOCKET"] = home.at("notify")
      let said = try await service.run(["--json", "--url", "local", "server"])
      #expect(said.status == 0, "\(said.errText)")
      let asked = try #require(home.text("asked"))
      #expect(asked.hasPrefix("--user --scope --collect --quiet -- "), "\(asked)")
      if isTaken { #expect(home.text("given")?.contains("NOTIFY_SOCKET") == false) }
      let stopped = try await service.run(["instance", "stop"])
      #expect(stopped.status == 0, "\(stopped.errText)")
    }
  }

  @Test("N-S16 N4.1 N4.2 N4.3 enabled twice and disabled once: each file is there once, valid, and gone")
  func enableAndDisable() async throws {
    #expect(try await json(["status"]) == ["enabled": "none", "running": false, "files": []])
    for _ in 0..<2 {
      let said = try await json(["enable", "--systemd"])
      #expect(said == ["enabled": "systemd", "running": false, "files": [.string(Text(scratch.at(unit)))]])
    }
    #expect(scratch.files("config") == [String(unit.dropFirst(7))])
    var status = stat()
    #expect(lstat(scratch.at(link), &status) == 0)
    let text = try #require(scratch.text(unit))
    for line in ["Type=notify", "Restart=on-failure", "RestartPreventExitStatus=5", "CPUWeight=20", "IOWeight=20"] {
      #expect(text.split(separator: "\n").contains { $0 == line })
    }
    #expect(text.contains("WatchdogSec="))
    #expect(text.contains("ExecStart=\"\(MarfaFolders.binary)\" watch"))
    try await validate(["systemd-analyze", "--user", "verify", scratch.at(unit)])
    for _ in 0..<2 { _ = try await json(["enable", "--xdg"]) }
    #expect(scratch.files("config").count == 2)
    let desktop = try #require(scratch.text(entry))
    #expect(desktop.contains("\n[Desktop Entry]\nType=Application\n"))
    #expect(desktop.contains("Exec=\"\(MarfaFolders.binary)\" watch\n"))
    try await validate(["desktop-file-validate", scratch.at(entry)])
    #expect(try await json(["disable"]) == ["enabled": "none", "running": false, "files": []])
    #expect(scratch.files("config").isEmpty)
    #expect(lstat(scratch.at(link), &status) != 0)
    #expect(try await program.run(["autostart", "enable", "--xdg", "--systemd"]).status == 2)
  }

  @Test("N-S17 a file of that name somebody else wrote is not touched, but with --force")
  func foreign() async throws {
    try scratch.write(unit, "[Unit]\nDescription=mine\n")
    try scratch.write(entry, "[Desktop Entry]\nName=mine\n")
    for kind in ["--systemd", "--xdg"] {
      let ran = try await program.run(["--json", "autostart", "enable", kind])
      #expect(ran.status == 1)
      #expect(ran.code == "invalid")
      #expect(ran.message.contains("--force"))
    }
    #expect(try await json(["disable"])["enabled"] == "none")
    #expect(scratch.text(unit) == "[Unit]\nDescription=mine\n")
    #expect(scratch.text(entry) == "[Desktop Entry]\nName=mine\n")
    _ = try await json(["enable", "--systemd", "--force"])
    #expect(scratch.text(unit)?.contains("ExecStart") == true)
  }
}
