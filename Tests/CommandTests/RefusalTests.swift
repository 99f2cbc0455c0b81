import Glibc
import MarfaBase
import Testing
import TestSupport

/// What a refused command leaves, and what it says.
@Suite("refusals") struct RefusalTests: ServedSuite {
  let served: ServedNotes

  init() async throws { served = try await ServedNotes() }

  @Test("N1.3 C7.2 an add whose backup cannot be made, or whose folder is none, leaves no folder, no copy and no store")
  func backup() async throws {
    // The copy's name would be too long for the disk.
    let long = "d" + String(repeating: "x", count: 239)
    try scratch.write("\(long)/One.md", "One.\n")
    let ran = try await program.run(["--json", "add", scratch.at(long), "--create", "T", "--backup", "--yes"])
    #expect(ran.status == 3 && ran.code == "io", "\(ran.errText)")
    #expect(ran.out.isEmpty && ran.refusal != nil, "\(ran.errText)")
    #expect(try await liveFolders() == 0)
    try scratch.write("Notes/One.md", "One.\n")
    let unknown = try await program.run([
      "--json", "add", notes, "--folder", "018f0000-0000-7000-8000-00000000f001", "--backup", "--yes",
    ])
    #expect(unknown.status != 0 && unknown.code == "not_found", "\(unknown.errText)")
    #expect(names(of: scratch.path).allSatisfy { !$0.contains("before sync") })
    #expect(names(of: notes) == ["One.md"])
    // A directory that follows a folder already is not copied either.
    try await folder(["One.md": "One.\n"])
    let again = try await program.run(["--json", "add", notes, "--create", "Again", "--backup", "--yes"])
    #expect(again.status == 1 && again.code == "invalid", "\(again.errText)")
    #expect(names(of: scratch.path).allSatisfy { !$0.contains("before sync") })
    #expect(try await liveFolders() == 1)
  }

  private func liveFolders() async throws -> Int {
    let database = try Database(path: scratch.at("data/instance.sqlite"), mode: .readOnly)
    return try database.one("SELECT count(*) FROM item WHERE type = 'system.folder' AND state = 'active'") { $0.int(0) }
      ?? -1
  }

  @Test(
    "C4.5 C-S4 what a command refuses of its words is told with its usage, line by line",
    arguments: [
      ["device", "release"], ["add", "/nowhere", "--folder", "x", "--create"], ["conflicts", "keep", "x", "y"],
      ["man", "nope"], ["completions", "tcsh"], ["login", "--bogus"], ["instance", "run", "--bogus"],
    ])
  func usage(_ words: [String]) async throws {
    let ran = try await program.run(words)
    #expect(ran.status == 2, "\(ran.errText)")
    #expect(ran.errText.contains("Usage: marfa-folders \(words[0])") && !ran.errText.contains("\\u{"), "\(ran.errText)")
    #expect(ran.out.isEmpty)
    let enveloped = try await program.run(["--json"] + words)
    #expect(enveloped.status == 2 && enveloped.code == "usage" && enveloped.out.isEmpty, "\(enveloped.errText)")
  }

  @Test(
    "C3.5 with standard output closed from the start a command works, says nothing and exits 0",
    arguments: [">&-", "<&- >&- 2>&-"])
  func closed(_ redirection: String) async throws {
    try scratch.write("Notes/One.md", "One.\n")
    var environment = program.environment
    environment["PROGRAM"] = MarfaFolders.binary
    for words in ["add \(notes) --create T --yes", "sync \(notes)", "server"] {
      let child = try ChildProcess(
        ["/bin/sh", "-c", "exec \"$PROGRAM\" \(words) \(redirection)"], environment: environment)
      let ran = try await child.end(within: .seconds(120))
      #expect(
        ran.status == 0 && ran.out.isEmpty && !ran.errText.contains("standard output"), "\(words): \(ran.errText)")
    }
    #expect(scratch.text("Notes/One.md")?.contains("\nmarfa_id: ") == true)
  }

  @Test("C4.3 where the desktop names a script for its proxies and nobody can run it, the refusal alone is said")
  func automaticProxy() async throws {
    try scratch.write(
      "config/glib-2.0/settings/keyfile",
      "[system/proxy]\nmode='auto'\nautoconfig-url='http://wpad.test/proxy.pac'\n")
    var program = program
    program.environment.merge([
      "XDG_CURRENT_DESKTOP": "GNOME", "GSETTINGS_BACKEND": "keyfile", "XDG_CONFIG_HOME": scratch.at("config"),
    ]) { $1 }
    let ran = try await program.run(["--json", "whoami", "--url", "http://notes.test", "--key", "k", "--allow-http"])
    #expect(ran.status == 3 && ran.refusal != nil, "\(ran.errText)")
  }

  @Test("C5.1 the keys of an instance that never ran are refused in words")
  func noInstance() async throws {
    let ran = try await program.run(["--json", "instance", "key", "list", "--data", scratch.at("nothing")])
    #expect(ran.status == 1 && ran.code == "invalid" && ran.message.contains("no instance's data"), "\(ran.errText)")
  }
}
