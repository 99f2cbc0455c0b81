import TestSupport

/// The repository the tests were built from.
enum Repository {
  /// Its directory.
  static let path = String(
    #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/"))

  /// The text of a file in it.
  static func text(_ name: String) throws -> String {
    guard let bytes = fileBytes("\(path)/\(name)") else { throw ScratchError("\(name) is not there") }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Every Swift file beneath a directory of it, as text.
  static func sources(_ name: String) throws -> [String] {
    var found: [String] = []
    func walk(_ directory: String) throws {
      for entry in names(of: "\(path)/\(directory)").sorted() where !entry.hasPrefix(".") {
        let here = "\(directory)/\(entry)"
        if entry.hasSuffix(".swift") { found.append(try text(here)) } else if !entry.contains(".") { try walk(here) }
      }
    }
    try walk(name)
    return found
  }
}

/// Runs a program of this machine with nothing of the tester's own.
func runTool(_ words: [String], home: String, environment: [String: String] = [:]) async throws -> Ran {
  let child = try ChildProcess(
    words,
    environment: [
      "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": home, "LC_ALL": "C.UTF-8",
    ]
    .merging(environment) { $1 })
  child.endInput()
  return try await child.end()
}

/// Whether this machine has a program.
func hasTool(_ name: String) -> Bool {
  ["/usr/local/bin", "/usr/bin", "/bin"].contains { names(of: $0).contains(name) }
}
