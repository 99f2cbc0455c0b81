import Glibc
import MarfaBase
import Testing
import TestSupport

/// The program replaced under a running watch (P4.1).
@Suite("a newer version") struct ReplacedTests: ServedSuite {
  let served: ServedNotes

  init() async throws { served = try await ServedNotes() }

  private func copyProgram(_ name: String) async throws {
    let child = try ChildProcess(
      ["cp", "--", MarfaFolders.binary, scratch.at("bin/" + name)], environment: ["PATH": "/usr/bin:/bin"])
    try #require(try await child.end(within: .seconds(120)).status == 0)
  }

  private func watching(_ child: ChildProcess) -> Int {
    child.out.split(separator: 0x0A).count { (try? JSON(parsing: Array($0)))?["event"] == "watching" }
  }

  @Test(
    "P-S15 a program replaced under a running watch: the new one runs on as the same process, and nothing is lost",
    arguments: [true, false])
  func replaced(_ all: Bool) async throws {
    try scratch.write("Notes/One.md", "# One\n")
    try #require(try await program.run(["add", notes, "--create", "Notes", "--yes"]).status == 0)
    try scratch.makeDirectory("bin")
    try await copyProgram("marfa-folders")
    try await copyProgram("marfa-folders.new")
    var environment = program.environment
    environment["MARFA_TEST_TIME"] = "20"
    let child = try ChildProcess(
      [scratch.at("bin/marfa-folders"), "--json", "watch"] + (all ? [] : [notes]), environment: environment)
    try await child.wait("the watch", within: .seconds(60)) { watching($0) == 1 }
    // As a package manager does it.
    try #require(rename(scratch.at("bin/marfa-folders.new"), scratch.at("bin/marfa-folders")) == 0)
    try scratch.write("Notes/Two.md", "# Two\n")
    try await child.wait("the new one's watch", within: .seconds(120)) { watching($0) >= 2 }
    try scratch.write("Notes/Three.md", "# Three\n")
    try await child.wait("both notes", within: .seconds(120)) { _ in
      ["Two", "Three"].allSatisfy { scratch.text("Notes/\($0).md")?.contains("marfa_id") == true }
    }
    #expect(watching(child) == 2)
    child.signal(SIGTERM)
    #expect(try await child.end(within: .seconds(60)).status == 0)
    let files = try await json(["status", notes])["files"]?.array ?? []
    #expect(files.count == 3)
  }
}
