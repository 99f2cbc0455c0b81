import MarfaBase
import TestSupport
import Testing

/// An instance on loopback, its key in the program's environment, and the place of a directory of notes beside it.
struct ServedNotes {
  let scratch: ScratchDirectory
  let program: MarfaFolders
  let server: LocalServer
  /// The directory, which is not made yet.
  let notes: String

  init() async throws {
    scratch = try ScratchDirectory()
    var program = MarfaFolders(home: scratch.path)
    server = try await LocalServer(data: scratch.at("data"), program: program, port: true)
    program.environment["MARFA_API_URL"] = server.url
    program.environment["MARFA_API_KEY"] = server.key
    self.program = program
    notes = scratch.at("Notes")
  }
}

/// A suite of tests over `ServedNotes`, each test over its own.
protocol ServedSuite {
  var served: ServedNotes { get }
}

extension ServedSuite {
  var scratch: ScratchDirectory { served.scratch }
  var program: MarfaFolders { served.program }
  var server: LocalServer { served.server }
  var notes: String { served.notes }

  /// The JSON a command answers, which must succeed.
  func json(_ words: [String], _ line: Int = #line) async throws -> JSON {
    let ran = try await program.run(["--json"] + words)
    try #require(ran.status == 0, "line \(line): \(words): \(ran.errText)")
    return try #require(ran.json)
  }

  /// Files of the directory, added as a folder of its own and synced. Answers what `add` did.
  @discardableResult
  func folder(_ files: [String: String]) async throws -> JSON {
    for (name, text) in files { try scratch.write("Notes/\(name)", text) }
    let added = try await json(
      ["add", notes, "--create", "Notes", "--search", #"{"types":["core.note"]}"#, "--yes"])
    _ = try await json(["sync", notes])
    return added
  }
}
