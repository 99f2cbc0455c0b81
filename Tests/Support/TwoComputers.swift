import Glibc
import MarfaBase

/// Two computers of one person, and the server on one of them: the real program, real directories, a real socket. Each
/// computer is a registry of its own, so neither knows of the other's folders.
///
///     let pair = try await TwoComputers(search: #"{"types":["core.note"]}"#)
///     try pair.scratch.write("one/Notes/Plan.md", "# Plan\n")
///     try await pair.follow(.one)
///     let report = try await pair.sync(.one)
package final class TwoComputers: Sendable {
  /// Which of them.
  package enum Computer: String, Sendable { case one, two }

  /// Where all of it lies.
  package let scratch: ScratchDirectory
  /// The program as a bare command of either runs it.
  package let program: MarfaFolders
  /// The server.
  package let server: LocalServer
  /// The folder both follow.
  package let folder: String

  /// A server and a folder on it.
  package init(search: String, environment: [String: String] = [:]) async throws {
    scratch = try ScratchDirectory()
    var program = MarfaFolders(home: try scratch.makeDirectory("home"))
    program.environment["XDG_DATA_HOME"] = try scratch.makeDirectory("data")
    program.environment["MARFA_API_URL"] = "local"
    program.environment.merge(environment) { $1 }
    self.program = program
    try scratch.makeDirectory("one")
    try scratch.makeDirectory("two")
    server = try await LocalServer(data: scratch.at("data/marfa-folders/instance"), program: program)
    let made = try await program.run(["--json", "create", "--title", "Notes", "--search", search])
    guard made.status == 0, let id = (made.json?["item"] ?? made.json)?["id"]?.text else {
      throw ScratchError("no folder was made: \(made.errText)")
    }
    folder = id.string
  }

  /// A computer's directory.
  package func notes(_ computer: Computer) -> String { scratch.at("\(computer.rawValue)/Notes") }

  /// The program on a computer.
  package func program(_ computer: Computer, _ environment: [String: String] = [:]) -> MarfaFolders {
    var program = program
    program.environment["MARFA_FOLDER_REGISTRY"] = scratch.at("\(computer.rawValue)/folders.json")
    program.environment.merge(environment) { $1 }
    return program
  }

  /// Runs a command of a computer, which must succeed, and gives its report.
  @discardableResult
  package func report(_ computer: Computer, _ words: [String]) async throws -> JSON {
    var ran = try await program(computer).run(["--json"] + words, deadline: .seconds(120))
    // Where waits pass a thousand times as fast, so do the limits on the network: a busy computer's server is then out of
    // reach for once, as any server may be, and the person runs it again.
    for _ in 0..<10 where ran.status == 3 {
      ran = try await program(computer).run(["--json"] + words, deadline: .seconds(120))
    }
    guard ran.status == 0, let report = ran.json else {
      throw ScratchError("\(words.joined(separator: " ")) left by \(ran.status): \(ran.errText)")
    }
    return report
  }

  /// Makes a computer's directory follow the folder, its first sync confirmed.
  package func follow(_ computer: Computer) async throws {
    try await report(computer, ["add", notes(computer), "--folder", folder, "--yes"])
  }

  /// Brings a computer's directory in step once.
  @discardableResult
  package func sync(_ computer: Computer) async throws -> JSON {
    try await report(computer, ["sync", notes(computer)])
  }

  /// The paths of a computer's files, the folder's own left out.
  package func files(_ computer: Computer) -> [String] { scratch.files("\(computer.rawValue)/Notes") }

  /// A file's bytes.
  package func bytes(_ computer: Computer, _ path: String) -> [UInt8]? {
    scratch.bytes("\(computer.rawValue)/Notes/\(path)")
  }

  /// A file's text.
  package func text(_ computer: Computer, _ path: String) -> String? {
    scratch.text("\(computer.rawValue)/Notes/\(path)")
  }

  /// Saves a file.
  package func save(_ computer: Computer, _ path: String, _ text: String) throws {
    try scratch.write("\(computer.rawValue)/Notes/\(path)", text)
  }

  /// All that the server holds, a line each, ids told by what they name: two equal lines are one thing twice.
  package func serverLines(versions: Bool = true) throws -> [String] {
    let database = try Database(path: scratch.at("data/marfa-folders/instance/instance.sqlite"), mode: .readOnly)
    var names: [String: String] = [:]
    var lines: [String] = []
    try database.rows("SELECT id, type, state, tier, version, properties, tags FROM item WHERE type <> 'system.folder'")
    {
      row in
      var properties = (try? JSON(parsing: row.bytes(5)))?.object ?? JSONObject()
      let body = properties["body"]?.text?.string ?? properties["blob_ref"]?.text?.string ?? ""
      properties["body"] = nil
      let title = properties["title"]?.text?.string ?? "untitled"
      let tags = withoutIDs(row.string(6))
      names[row.string(0)] = "<\(title)>"
      lines.append(
        "item \(row.string(1)) \(row.string(2)) \(row.string(3)) \(versions ? "v\(row.int(4)) " : "")"
          + withoutIDs(String(decoding: JSON.object(properties).write(), as: UTF8.self)) + " \(tags) "
          + withoutIDs(body).replacing("\n", with: "\\n"))
    }
    try database.rows("SELECT source, type, target, properties, version FROM edge") { row in
      let source = names[row.string(0)] ?? "a system item"
      let target = names[row.string(2)] ?? "a system item"
      lines.append(
        "edge \(source) \(row.string(1)) \(target) \(withoutIDs(row.string(3)))" + (versions ? " v\(row.int(4))" : ""))
    }
    return lines.sorted()
  }

  /// A computer's directory, a line each of path and text, ids and times taken out.
  package func directoryLines(_ computer: Computer) -> [String] {
    files(computer).map { "\($0): \(withoutIDs(text(computer, $0) ?? "unreadable"))" }
  }
}

/// Text with each id as `<id>` and each instant as `<time>`.
package func withoutIDs(_ text: String) -> String {
  let bytes = Array(text.utf8)
  var kept: [UInt8] = []
  var place = 0
  func fits(_ shape: StaticString) -> Bool {
    shape.withUTF8Buffer { shape in
      guard place + shape.count <= bytes.count else { return false }
      for index in 0..<shape.count {
        let byte = bytes[place + index]
        switch shape[index] {
        case UInt8(ascii: "x"):
          guard (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte) else { return false }
        case UInt8(ascii: "9"): guard (0x30...0x39).contains(byte) else { return false }
        case let other: guard byte == other else { return false }
        }
      }
      return true
    }
  }
  while place < bytes.count {
    if fits("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx") {
      kept += Array("<id>".utf8)
      place += 36
    } else if fits("9999-99-99T99:99:99.999Z") {
      kept += Array("<time>".utf8)
      place += 24
    } else {
      kept.append(bytes[place])
      place += 1
    }
  }
  return String(decoding: kept, as: UTF8.self)
}
