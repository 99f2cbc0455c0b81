import FolderSync
import Glibc
import MarfaBase
import MarfaCopy

/// What a person can send with a question (P7.4): what the doctor found, how many files stand how, what the last passes
/// did. No text, no name of a note and no key is in it; a directory is a short hash, the server's address is left out.
struct DoctorReport {
  private let session: Session
  private let directories: [PathBytes]
  private let findings: [Doctor.Finding]

  /// A report of the folders named, or of all.
  init(_ session: Session, _ named: [PathBytes]?, _ findings: [Doctor.Finding]) {
    self.session = session
    self.findings = findings
    directories = named ?? ((try? FolderWork.offline(session).list().map(\.dir)) ?? [])
  }

  /// Writes it, its owner's alone, in place of nothing.
  /// - Throws: `invalid` where something is there already.
  func write(to path: PathBytes) throws(MarfaError) {
    do throws(FileError) {
      let directory = try session.context.files.openDirectory(path.parent)
      guard try directory.status(of: path.name) == nil else {
        throw FileError(code: EEXIST, operation: "report", path: path)
      }
      let file = try directory.create(path.name, mode: 0o600, exactMode: true)
      try file.write(json.writePretty() + [0x0A])
      try file.sync()
      try file.close()
      try directory.sync()
    } catch {
      if error.code == EEXIST { throw MarfaError(.invalid, "\(path) is there already; the report was not written") }
      throw MarfaError(error.of(path))
    }
    session.program.output.note("The report is at \(path); read it before you send it.")
  }

  private var json: JSON {
    [
      "program": .string(Text("marfa-folders \(Program.version)")), "system": system,
      "checks": .array(findings.map { hidden($0.json) }), "folders": .array(directories.map(folder)),
    ]
  }

  private var system: JSON {
    var names = utsname()
    uname(&names)
    func text<Value>(_ field: Value) -> JSON {
      withUnsafeBytes(of: field) { bytes in .string(Text(bytes: bytes.prefix { $0 != 0 })) }
    }
    return ["kernel": text(names.release), "machine": text(names.machine)]
  }

  private func hash(_ path: PathBytes) -> String { "path-\(ContentHash(of: path.bytes).hex.prefix(12))" }

  private func folder(_ dir: PathBytes) -> JSON {
    var object = JSONObject([("dir", .string(Text(hash(dir))))])
    let work = FolderWork.offline(session)
    do throws(MarfaError) {
      let status = try work.status(dir)
      var states: [String: Int] = [:]
      var flags: [String: Int] = [:]
      for file in status.files {
        states[file.state.rawValue, default: 0] += 1
        if let flag = file.flag { flags[flag, default: 0] += 1 }
      }
      object["files"] = counts(states)
      object["flags"] = counts(flags)
      object["unsent"] = .int(try work.unsent(dir))
      object["passes"] = .array(try work.passes(dir, last: 20).map(\.json))
    } catch { object["error"] = .string(Text(error.code.rawValue)) }
    return .object(object)
  }

  private func counts(_ counts: [String: Int]) -> JSON {
    .object(JSONObject(counts.sorted { $0.key < $1.key }.map { (Text($0.key), JSON.int($0.value)) }))
  }

  /// A finding without paths and addresses.
  private func hidden(_ json: JSON) -> JSON {
    switch json {
    case .object(let object): .object(JSONObject(object.members.map { ($0.key, hidden($0.value)) }))
    case .array(let list): .array(list.map(hidden))
    case .string(let text): .string(Text(hidden(text.string)))
    case .null, .bool, .number: json
    }
  }

  private func hidden(_ words: String) -> String {
    var words = words
    // The longest first, so that one within another is not cut.
    for dir in directories.sorted(by: { $0.bytes.count > $1.bytes.count }) {
      words = words.replacing(dir.description, with: hash(dir))
    }
    if let server = try? session.namedServer() { words = words.replacing(server.address.origin, with: "the server") }
    for dir in directories {
      if let origin = FolderWork.offline(session).server(of: dir) {
        words = words.replacing(origin.string, with: "the server")
      }
    }
    if let home = session.program.home { words = words.replacing(home.description, with: "~") }
    return words
  }
}
