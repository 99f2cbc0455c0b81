import Glibc
import MarfaBase
import Testing
import TestSupport

/// What goes wrong for a newcomer: a sentence that names the file or the address and says what to do, the exit code of
/// the contract, and nothing lost.
@Suite("what goes wrong") struct BadInputTests {
  /// One computer with one note in step.
  private func inStep() async throws -> TwoComputers {
    let pair = try await TwoComputers(search: #"{"types":["core.note"]}"#)
    try pair.save(.one, "Plan.md", "# Plan\n\nFirst.\n")
    try await pair.follow(.one)
    try await pair.sync(.one)
    return pair
  }

  private func sync(_ pair: TwoComputers, _ words: [String] = [], json: Bool = true) async throws -> Ran {
    try await pair.program(.one).run((json ? ["--json"] : []) + ["sync", pair.notes(.one)] + words)
  }

  @Test("C4.4 a directory that is no folder is told so, naming add, whether or not a server is named")
  func noFolder() async throws {
    let scratch = try ScratchDirectory()
    let program = MarfaFolders(home: scratch.path)
    let ran = try await program.run(["sync", scratch.path])
    #expect(ran.status == 1)
    #expect(ran.errText.hasPrefix("marfa-folders: \(scratch.path) holds no folder; add makes one of it"))
  }

  @Test("F22 a directory that is gone is named, with what to do, and comes back as it was")
  func directoryGone() async throws {
    let pair = try await inStep()
    let aside = pair.scratch.at("aside")
    #expect(rename(pair.notes(.one), aside) == 0)
    let gone = try await sync(pair)
    #expect((gone.status, gone.code) == (1, "invalid"))
    #expect(gone.message.contains(pair.notes(.one)) && gone.message.contains("remove"))
    #expect(rename(aside, pair.notes(.one)) == 0)
    let back = try await pair.sync(.one)
    #expect(back["scan"]?["unchanged"] == 1)
    #expect(try pair.serverLines().contains { $0.hasPrefix("item core.note active") })
  }

  @Test("C16.4 a server that is down leaves the edit waiting, says so and leaves by 0; it goes once the server answers")
  func serverDown() async throws {
    let pair = try await inStep()
    try pair.save(.one, "Plan.md", try #require(pair.text(.one, "Plan.md")) + "More.\n")
    let down = try await sync(pair, ["--url", "http://127.0.0.1:1", "--key", "marfa_k1_x"], json: false)
    #expect(down.status == 0)
    #expect(
      down.outText.contains("1 write undelivered, kept for the next time: http://127.0.0.1:1 could not be reached"))
    let up = try await pair.sync(.one)
    #expect(up["drain"]?["answered"] == 1)
    #expect(try pair.serverLines().contains { $0.contains("More.") })
  }

  @Test("F52.7 F52.8 a refused key ends by 5 naming the server and what to do, touches nothing, and a good one goes on")
  func refusedKey() async throws {
    let pair = try await inStep()
    let edited = try #require(pair.text(.one, "Plan.md")) + "More.\n"
    try pair.save(.one, "Plan.md", edited)
    for _ in 0..<2 {
      let refused = try await sync(pair, ["--key", "marfa_k1_wrong"])
      #expect((refused.status, refused.code) == (5, "unauthorized"))
      #expect(refused.message.hasPrefix("local refused the credential"), "\(refused.message)")
      #expect(refused.message.contains("login") && refused.message.contains("--key"))
    }
    #expect(pair.text(.one, "Plan.md") == edited)
    let status = try await pair.report(.one, ["status", pair.notes(.one)])
    #expect(status["files"]?.array?.count == 1)
    let good = try await pair.sync(.one)
    #expect(good["drain"]?["answered"] == 1)
    #expect(good["hydrated"]?.object != nil)
    #expect(try pair.serverLines().filter { $0.contains("More.") }.count == 1)
  }

  @Test("F52.5 a watch whose key is refused ends by 5, saying that writes wait for a working credential")
  func refusedWatch() async throws {
    let pair = try await inStep()
    let ran = try await pair.program(.one).run(["--json", "watch", pair.notes(.one), "--key", "marfa_k1_wrong"])
    #expect((ran.status, ran.code) == (5, "unauthorized"))
    #expect(ran.message.contains("wait"), "\(ran.message)")
  }

  @Test("C2.7 a server that is no Marfa server is named, nothing is sent to it, and the folder stays as it was")
  func noMarfaServer() async throws {
    let pair = try await inStep()
    try pair.scratch.makeDirectory("web")
    let web = try ChildProcess(
      [
        "python3", "-c",
        "import http.server,functools;"
          + "s=http.server.ThreadingHTTPServer(('127.0.0.1',0),functools.partial(http.server.SimpleHTTPRequestHandler,"
          + "directory='\(pair.scratch.at("web"))'));print(s.server_port,flush=True);s.serve_forever()",
      ], environment: ["PATH": "/usr/local/bin:/usr/bin:/bin"])
    defer { web.signal(SIGKILL) }
    try await web.wait("its port") { $0.out.contains(0x0A) }
    let port = String(decoding: web.out, as: UTF8.self).split(separator: "\n").first ?? ""
    let ran = try await sync(pair, ["--url", "http://127.0.0.1:\(port)", "--key", "marfa_k1_x"])
    #expect((ran.status, ran.code) == (1, "contract_mismatch"))
    #expect(ran.message.contains("http://127.0.0.1:\(port)") && ran.message.contains("Marfa server"))
    let requests = String(decoding: web.err, as: UTF8.self).split(separator: "\n")
    #expect(requests.allSatisfy { $0.contains("\"GET / HTTP") }, "\(requests)")
    #expect(try await pair.sync(.one)["drain"]?["answered"] == 0)
  }

  @Test("F10.1 frontmatter that cannot be read holds the file, says where, and goes once it is mended")
  func oddYAML() async throws {
    let pair = try await inStep()
    try pair.save(.one, "Odd.md", "---\ntags: [a, b\n---\nWords.\n")
    let held = try await sync(pair, json: false)
    #expect(held.status == 0)
    #expect(held.outText.contains("Odd.md: held, its frontmatter cannot be read: line"), "\(held.outText)")
    #expect(pair.text(.one, "Odd.md") == "---\ntags: [a, b\n---\nWords.\n")
    try pair.save(.one, "Odd.md", "---\ntags: [a, b]\n---\nWords.\n")
    #expect(try await pair.sync(.one)["scan"]?["created"] == 1)
  }
}
