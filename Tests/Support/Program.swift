import CPosix
import Glibc
import MarfaBase
import Synchronization

/// The built program, run as a person runs it.
///
///     let program = MarfaFolders(home: scratch.at("home"))
///     let ran = try await program.run(["--json", "list"])
///     #expect(ran.status == 0 && ran.json == [])
package struct MarfaFolders: Sendable {
  /// The environment: nothing of the tester's own but `PATH`.
  package var environment: [String: String]
  /// The working directory.
  package var directory: String?

  /// The program with a home of its own and no credential store.
  package init(home: String) {
    environment = [
      "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home, "LC_ALL": "C.UTF-8", "MARFA_KEYCHAIN": "off",
      "SWIFT_BACKTRACE": "enable=no",
    ]
    // What a run under a sanitizer needs (`scripts/test --sanitize`).
    for name in ["LD_PRELOAD", "TSAN_OPTIONS", "ASAN_OPTIONS"] {
      if let value = getenv(name) { environment[name] = String(cString: value) }
    }
  }

  /// Where the program was built: beside the tests. `MARFA_FOLDERS_BINARY` names another one, for the null run.
  package static var binary: String {
    if let named = getenv("MARFA_FOLDERS_BINARY") { return String(cString: named) }
    return productsDirectory + "/marfa-folders"
  }

  /// The directory SwiftPM built into.
  package static var productsDirectory: String {
    let bundle = CommandLine.arguments.first { $0.contains(".xctest") }
    let path = bundle ?? (realpath("/proc/self/exe", nil).map { String(cString: $0) } ?? CommandLine.arguments[0])
    guard let slash = path.lastIndex(of: "/") else { return "." }
    // Where the bundle is a directory, what it holds lies deeper; the products lie beside it.
    let directory = String(path[..<slash])
    guard let inside = directory.range(ofBundle: ".xctest") else { return directory }
    return String(directory[..<inside])
  }

  /// Starts it.
  package func start(_ arguments: [String], terminal: Bool = false, screen: Bool = false) throws -> ChildProcess {
    try ChildProcess(
      [MarfaFolders.binary] + arguments, environment: environment, directory: directory,
      terminal: terminal || screen, screen: screen)
  }

  /// Runs it to its end.
  package func run(
    _ arguments: [String], input: String? = nil, deadline: Duration = .seconds(120)
  ) async throws -> Ran {
    let child = try start(arguments)
    if let input { child.send(input) }
    child.endInput()
    return try await child.end(within: deadline)
  }
}

extension String {
  /// Where the last component before one that holds `mark` ends.
  fileprivate func range(ofBundle mark: String) -> String.Index? {
    guard contains(mark) else { return nil }
    var end = startIndex
    for index in indices where self[index] == "/" {
      if self[index...].contains(mark) { end = index } else { break }
    }
    return end
  }
}

/// What a run left.
package struct Ran: Sendable {
  /// The exit status; 128 and the signal's number where a signal ended it.
  package var status: Int32
  /// Standard output.
  package var out: [UInt8]
  /// Standard error; in a terminal's run what the terminal showed.
  package var err: [UInt8]

  /// Standard output as text.
  package var outText: String { String(decoding: out, as: UTF8.self) }
  /// Standard error as text.
  package var errText: String { String(decoding: err, as: UTF8.self) }
  /// Standard output as one JSON document; nil where it is none.
  package var json: JSON? { try? JSON(parsing: out) }
  /// Each line of standard output as JSON; lines that are none are left out.
  package var jsonLines: [JSON] { out.split(separator: 0x0A).compactMap { try? JSON(parsing: Array($0)) } }
  /// The envelope on standard error; nil where it holds anything else.
  package var refusal: JSON? { try? JSON(parsing: err) }
  /// The code of the envelope.
  package var code: String? { refusal?["error"]?["code"]?.text?.string }
  /// The message of the envelope.
  package var message: String { refusal?["error"]?["message"]?.text?.string ?? "" }
}
