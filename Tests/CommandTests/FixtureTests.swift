import Glibc
import MarfaBase
import Testing
import TestSupport

/// Directories as people keep them, through two computers with the real program.
@Suite("fixtures through two computers") struct FixtureTests {
  static let search = #"{"types":["core.note","core.file"]}"#

  /// A fixture in the first computer's directory.
  private func pair(_ fixture: String) async throws -> TwoComputers {
    let pair = try await TwoComputers(search: FixtureTests.search)
    let source = "\(FixtureTests.directory)/\(fixture)"
    guard fixture == "hostile" else {
      try copyTree(source, to: pair.notes(.one))
      return pair
    }
    let child = try ChildProcess(
      ["bash", "\(source)/make", pair.notes(.one)], environment: ["PATH": "/usr/local/bin:/usr/bin:/bin"])
    child.endInput()
    let made = try await child.end()
    guard made.status == 0 else { throw ScratchError("hostile/make: \(made.errText)") }
    return pair
  }

  private static var directory: String {
    String(#filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/"))
      + "/Fixtures/dirs"
  }

  @Test(
    "a directory goes to the server and to a second computer: nothing is lost, and a second sync sends and writes nothing",
    arguments: ["vault", "site", "zettel", "hostile"])
  func bothWays(_ fixture: String) async throws {
    let pair = try await pair(fixture)
    // Bytes of every file before: what stays out must stay as it was.
    let before = pair.files(.one).map { (path: $0, bytes: pair.bytes(.one, $0)) }

    try await pair.follow(.one)
    let first = try await pair.sync(.one)
    let held = Set((first["scan"]?["flagged"]?.array ?? []).compactMap { $0["path"]?.text })
    #expect((first["drain"]?["undelivered"], first["drain"]?["unavailable"]) == (0, .null))
    #expect(first["drain"]?["verdicts"]?.array?.contains { $0["verdict"] == "refused" } != true)
    try quiet(try await pair.sync(.one))

    try await pair.follow(.two)
    try await pair.sync(.two)
    try quiet(try await pair.sync(.two))
    try quiet(try await pair.sync(.one))

    // On the first computer each file is what it was but for the lines the contract adds to its frontmatter.
    for (path, bytes) in before {
      let now = pair.bytes(.one, path)
      if now == bytes { continue }
      guard let now, let bytes else {
        Issue.record("\(path) is gone")
        continue
      }
      #expect(isMarkdown(path), "\(path) was written over")
      #expect(hasAllLines(of: bytes, now), "\(path) lost words")
    }
    // The second holds what the first sent, bodies and bytes alike, under the same names.
    let status = try await pair.report(.one, ["status", pair.notes(.one)])
    var sent: Set<Text> = []
    for file in status["files"]?.array ?? [] where file["item_id"] != nil {
      if let path = file["path"]?.text { sent.insert(path) }
    }
    #expect(sent == Set(pair.files(.two).map { Text($0) }))
    for path in sent.map(\.string) {
      guard let one = pair.bytes(.one, path), let two = pair.bytes(.two, path) else { continue }
      if isMarkdown(path) {
        #expect(body(one) == body(two), "\(path) says something else on the second computer")
      } else {
        #expect(one == two, "\(path) holds other bytes on the second computer")
      }
    }
    // What was not sent is told, each with its reason.
    for file in status["files"]?.array ?? [] where file["item_id"] == nil && file["status"] == "held" {
      #expect(file["reason"]?.text?.isEmpty == false, "\(file)")
      let path = file["path"]?.text ?? ""
      #expect(held.contains(path), "\(path) is held and no report says so")
    }
  }

  private func isMarkdown(_ path: String) -> Bool {
    let name = path.lowercased()
    return name.hasSuffix(".md") || name.hasSuffix(".markdown")
  }

  /// A sync that found nothing to do.
  private func quiet(_ report: JSON) throws {
    let scan = try #require(report["scan"])
    let pull = try #require(report["pull"])
    for count in ["created", "updated", "renamed", "missing", "deleted", "requeued", "lost"] {
      #expect(scan[Text(count)] == 0, "scan.\(count) is \(scan[Text(count)] ?? .null)")
    }
    #expect(report["drain"]?["answered"] == 0)
    for count in ["written", "rewritten", "moved", "removed", "placed", "revived"] {
      #expect(pull[Text(count)] == 0, "pull.\(count) is \(pull[Text(count)] ?? .null)")
    }
  }

  /// Whether every line of the former bytes stands in the present ones, in order. A flow map's one line may have grown.
  private func hasAllLines(of former: [UInt8], _ present: [UInt8]) -> Bool {
    func lines(_ bytes: [UInt8]) -> [[UInt8]] {
      bytes.split(separator: 0x0A, omittingEmptySubsequences: false).map { line in
        Array(line.last == 0x0D ? line.dropLast() : line)
      }
    }
    var rest = lines(present)[...]
    let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
    for line in lines(former) {
      let wanted = line.starts(with: mark) ? Array(line.dropFirst(3)) : line
      guard
        let place = rest.firstIndex(where: {
          let found = $0.starts(with: mark) ? Array($0.dropFirst(3)) : $0
          return found == wanted || (wanted.first == UInt8(ascii: "{") && found.starts(with: wanted.dropLast()))
        })
      else { return false }
      rest = rest[(place + 1)...]
    }
    return true
  }

  /// What follows the frontmatter.
  private func body(_ bytes: [UInt8]) -> [UInt8] {
    let lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false)
    func isFence(_ line: ArraySlice<UInt8>) -> Bool {
      var line = line
      if line.starts(with: [0xEF, 0xBB, 0xBF]) { line = line.dropFirst(3) }
      while line.last == 0x0D || line.last == 0x20 { line = line.dropLast() }
      return line.elementsEqual("---".utf8)
    }
    guard let opening = lines.first, isFence(opening),
      let closing = lines.dropFirst().firstIndex(where: isFence)
    else { return bytes }
    return Array(lines[(closing + 1)...].joined(separator: [0x0A]))
  }
}
