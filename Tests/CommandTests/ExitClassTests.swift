import MarfaBase
import Testing
import TestSupport

/// Each error of the client as a person meets it: the command's exit status is its class (ER16.1).
@Suite("what a command exits with") struct ExitClassTests {
  let scratch: ScratchDirectory
  let program: MarfaFolders

  init() throws {
    scratch = try ScratchDirectory()
    program = MarfaFolders(home: scratch.path)
  }

  @Test("ER-S38 ER16.1 an answer of the server, or none, ends the command with its code's class")
  func answers() async throws {
    func refusal(_ status: Int, _ code: String, contract: String? = "0", headers: [String] = []) -> ScriptedServer.Reply
    {
      .json(status, #"{"error":{"code":"\#(code)","message":"Said by a test."}}"#, contract: contract, headers: headers)
    }
    let cases: [(String, ScriptedServer.Reply, String, Int32)] = [
      ("400", refusal(400, "validation_error"), "validation", 1),
      ("422", refusal(422, "validation_error"), "validation", 1),
      ("400 unknown_type", refusal(400, "unknown_type"), "unknown_type", 1),
      ("401", refusal(401, "unauthorized"), "unauthorized", 5), ("403", refusal(403, "forbidden"), "forbidden", 1),
      ("404", refusal(404, "not_found"), "not_found", 1), ("409", refusal(409, "conflict"), "conflict", 1),
      ("409 version", refusal(409, "version_conflict"), "version_conflict", 1),
      ("413", refusal(413, "request_too_large"), "too_large", 1),
      ("429", refusal(429, "rate_limited", headers: ["Retry-After: 7"]), "rate_limited", 3),
      ("405", refusal(405, "method_not_allowed"), "server", 1), ("408", refusal(408, "timeout"), "server", 3),
      ("500", refusal(500, "internal_error"), "server", 3), ("503", refusal(503, "write_contention"), "server", 3),
      ("502 of a proxy", refusal(502, "bad", contract: nil), "unnamed_answer", 3),
      ("another contract", .json(200, "{}", contract: "7"), "contract_mismatch", 1),
      ("no contract", .json(200, "{}", contract: nil), "contract_mismatch", 1),
      ("307", .json(307, "{}", headers: ["Location: http://elsewhere.example/"]), "redirect", 1),
      ("no JSON", .json(200, "<html>"), "decoding", 3),
    ]
    for (name, reply, code, exit) in cases {
      let server = try ScriptedServer { request in request.door == "/" ? .root() : reply }
      let ran = try await program.run(["--json", "keys", "current", "--url", server.url, "--key", "marfa_k1_x"])
      #expect(ran.code == code, "\(name): \(ran.errText)")
      #expect(ran.status == exit && ran.refusal?["exit"] == .int(Int(exit)), "\(name)")
      #expect(ran.out.isEmpty && !ran.message.isEmpty, "\(name)")
      server.stop()
    }
    let nowhere = try await program.run(["--json", "keys", "current", "--url", "http://127.0.0.1:9", "--key", "k"])
    #expect(nowhere.code == "network" && nowhere.status == 3)
  }

  @Test("ER-S38 D-S155 what is refused on this machine ends the command with its code's class too")
  func local() async throws {
    let store = scratch.at("copy.sqlite")
    let device = ["--json", "device", "--db", store]
    let server = try ScriptedServer { request in request.door == "/" ? .root() : .json(503, "{}") }
    let with = ["--url", server.url, "--key", "k"]
    _ = try scratch.write("junk.sqlite", "no database at all, whatever its name says, and long enough to tell")
    let create = ["items", "create", "--type", "core.note", "--properties", #"{"title":"N","body":"x"}"#]
    for (words, code, exit) in [
      (["--json", "frobnicate"], "usage", 2),
      (["--json", "device", "--db", scratch.at("none.sqlite"), "queue"], "no_store", 2),
      (["--json", "keys", "current"], "no_server", 2),
      (["--json", "keys", "current", "--url", server.url], "no_credential", 5),
      (["--json", "login", "--url", server.url], "no_keychain", 4),
      (["--json", "server", "--url", "ftp://x"], "invalid", 1),
    ] as [([String], String, Int32)] {
      let ran = try await program.run(words)
      #expect(ran.code == code && ran.status == exit, "\(words): \(ran.errText)")
    }
    let note = "018f0000-0000-7000-8000-0000000000aa"
    // A store that was never filled, and one somebody else writes.
    let slice = ["--types", "core.note", "--tier", "library"]
    let unfilled = try await program.run(device + ["hydrate"] + slice + with)
    #expect(unfilled.status == 3, "\(unfilled.errText)")
    let made = try await program.run(device + create)
    #expect(made.status == 0, "\(made.errText)")
    for (words, code, exit) in [
      (device + ["drain"] + with, "no_cursor", 4), (device + ["--reader"] + create, "reading_handle", 4),
      (device + ["items", "create", "--type", "acme.none", "--properties", "{}"], "unknown_type", 1),
      (device + ["items", "create", "--type", "core.note", "--properties", #"{"title":3}"#], "validation", 1),
      (device + create + ["--id", "018F0000-0000-7000-8000-0000000000FF"], "validation", 1),
      (device + create + ["--id", "018f0000-0000-4000-8000-0000000000ff"], "validation", 1),
      (
        device + [
          "edges", "create", "--type", "references", "--source", note, "--target", note, "--id",
          "018F0000-0000-7000-8000-0000000000FF",
        ], "validation", 1
      ),
      (device + ["items", "get", "018f0000-0000-7000-8000-0000000000ff"], "not_held", 1),
      (["--json", "device", "--db", scratch.at("junk.sqlite"), "queue"], "store", 4),
    ] as [([String], String, Int32)] {
      let ran = try await program.run(words)
      #expect(ran.code == code && ran.status == exit, "\(words): \(ran.errText)")
    }
  }
}
