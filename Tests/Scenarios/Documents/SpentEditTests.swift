import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

@testable import marfa_folders

/// Lines that edits spend, and what takes them back (F23.6 to F23.15).
struct SpentEditTests {
  func held() throws -> (desk: Desk, id: EntityID, buffer: String) {
    let desk = try Desk { try $0.item("A", body: "Words.\n") }
    _ = try desk.push()
    return (desk, try desk.id("A"), try desk.machine.need("A.md"))
  }

  /// Which edits of an item the wire answers in the server's place.
  func edits(of id: EntityID, _ request: HTTPRequest) -> JSON? {
    guard request.method == "PATCH", request.url.contains("/items/\(id)"), case .bytes(let bytes) = request.body
    else { return nil }
    return try? JSON(parsing: bytes)
  }

  /// The server holds these versions of an item no more.
  func thinned(_ bench: FolderBench, _ id: EntityID, _ versions: Set<Int>, _ request: HTTPRequest) -> HTTPResponse? {
    guard let version = edits(of: id, request)?["version"]?.int, versions.contains(version),
      let row = try? bench.row(id)
    else { return nil }
    let answer: JSON = [
      "error": [
        "code": "ancestor_unavailable", "status": 409, "message": "No snapshot of that version is held.",
        "details": [:],
      ],
      "current": row["item"] ?? .null,
    ]
    return HTTPResponse(
      status: 409,
      headers: [
        HTTPHeader("Content-Type", "application/json"), HTTPHeader("X-Marfa-Contract", "0"),
        HTTPHeader("X-Error-Code", "ancestor_unavailable"),
      ], body: answer.write())
  }

  private static let garbled = HTTPResponse(
    status: 200,
    headers: [HTTPHeader("Content-Type", "application/json"), HTTPHeader("X-Marfa-Contract", "0")],
    body: Array("{\"item\": nonsense".utf8))

  /// Pushes until the edit of a file that is answered unreadably every time is dead; the write.
  func killEdit(_ desk: Desk, _ id: EntityID, taken: Bool) throws -> EntityID {
    if taken {
      desk.bench.transport.after = { request, response in
        edits(of: id, request) == nil ? .success(response) : .success(Self.garbled)
      }
    } else {
      desk.bench.transport.before = { request in edits(of: id, request) == nil ? nil : .success(Self.garbled) }
    }
    defer { (desk.bench.transport.after, desk.bench.transport.before) = (nil, nil) }
    for _ in 0..<60 {
      _ = try desk.push()
      desk.bench.clock.advance(seconds: 400)
      let dead = try desk.machine.folders.working(desk.machine.root, "look") { folder in
        try folder.copy.queue.all().first { $0.itemID == id && $0.verdict == .dead }
      }
      if let dead { return dead.id }
    }
    throw BenchError("no edit died")
  }

  @Test("F-S23.3 with the base thinned two saves go at 1, 1, 2, 3 as merges, rebased 2 in the words of a push")
  func thinnedPushed() throws {
    let (desk, id, old) = try held()
    try desk.patch(id, ["properties": ["other": "theirs"]])
    for text in ["First.", "Second."] {
      try desk.machine.save("A.md", old.replacing("Words.", with: text))
      _ = try desk.machine.scan()
    }
    let bench = desk.bench
    bench.transport.before = { request in thinned(bench, id, [1], request).map { .success($0) } }
    let (push, sent) = try desk.push()
    #expect(sent.edits(id).map { $0.body["version"]?.int } == [1, 1, 2, 3])
    #expect(sent.edits(id).suffix(2).allSatisfy { $0.body["properties_mode"] == nil })
    #expect(push.drain.rebased == 2 && push.json["drain"]?["rebased"] == 2)
    #expect(words(push).contains { $0.contains("edits sent again on a newer version 2") }, "\(words(push))")
    #expect(try desk.properties(id) == ["title": "A", "body": "Second.\n", "other": "theirs"])
    #expect(try desk.bench.titles() == ["A"])
    #expect(try desk.machine.body("A.md") == "Second.\n")
    #expect(try desk.machine.lines("A.md").contains("other: theirs"))
    try desk.machine.save("A.md", old.replacing("Words.", with: "Second."))
    let (again, _) = try desk.push()
    #expect(again.drain.rebased == 0 && !words(again).contains { $0.contains("sent again") })
    #expect(try desk.properties(id) == ["title": "A", "body": "Second.\n", "other": "theirs"])
  }

  @Test("F-S23.3 in a watch: two saves made while the server was away go at 1, 1, 2, 3, and the watch says rebased 2")
  func thinnedWatched() throws {
    let bench = try FolderBench()
    let id = try bench.item("A", body: "Words.\n")
    let folder = try KeptFolder(bench)
    try folder.push()
    let old = try #require(folder.text("A.md"))
    var away = false
    bench.transport.before = { request in
      if away { return .failure(.unreachable("nothing listens")) }
      return thinned(bench, id, [1], request).map { .success($0) }
    }
    let watch = ScriptedWatch(folder)
    watch.at(20) { away = true }
    watch.at(22) { try bench.edit(id, ["other": "theirs"]) }
    for (text, second) in [("First.", 30.0), ("Second.", 45.0)] {
      watch.save("A.md", old.replacing("Words.", with: text), at: second)
    }
    watch.at(60) {
      let waiting = try folder.queue()
      #expect(waiting.count == 2)
      bench.transport.clear()
      away = false
    }
    #expect(try watch.run(seconds: 240) == nil)
    let versions = bench.transport.sent.compactMap { edits(of: id, $0)?["version"]?.int }
    #expect(versions == [1, 1, 2, 3], "\(versions) \(watch.words)")
    #expect(watch.sum(\.drain, "rebased") == 2)
    #expect(watch.words.contains { $0.contains("sent again on a newer version 2") }, "\(watch.words)")
    #expect(try bench.row(id)["item"]?["properties"] == ["title": "A", "body": "Second.\n", "other": "theirs"])
    #expect(folder.text("A.md")?.hasSuffix("Second.\n") == true)
    #expect(try bench.titles() == ["A"])
  }

  enum Earlier: CaseIterable, Sendable { case none, conflicted, dead }

  @Test(
    "F-S23.7 a buffer a pull wrote over a waiting edit goes on the copy's version once that landed, else on its own line",
    arguments: Earlier.allCases, [false, true])
  func writtenOverWaiting(_ earlier: Earlier, isRefused: Bool) throws {
    for savesOldBuffer in [false, true] {
      let (desk, id, first) = try held()
      switch earlier {
      case .none: break
      case .conflicted:
        try desk.patch(id, ["properties": ["body": "Theirs.\n"]])
        try desk.machine.save("A.md", first.replacing("Words.", with: "Early."))
        let (push, sent) = try desk.push()
        #expect(sent.edits(id).map { $0.body["version"]?.int } == [1])
        #expect(push.drain.conflicts.count == 1)
        _ = try desk.push()
      case .dead:
        try desk.machine.save("A.md", first.replacing("Words.", with: "Early."))
        _ = try killEdit(desk, id, taken: false)
      }
      let body = try desk.machine.body("A.md").replacing("\n", with: "")
      try desk.machine.edit("A.md", body, "Mine.")
      #expect(try desk.machine.scan().updated == 1)
      try desk.patch(id, ["properties": ["other": "theirs"]])
      _ = try desk.machine.folders.working(desk.machine.root, "catch-up") { try $0.catchUp() }
      #expect(try desk.machine.pull().rewritten == 1)
      let buffer = try desk.machine.need("A.md")
      let line = try desk.version(id)
      #expect(buffer.contains("marfa_version: \(line)\n") && buffer.hasSuffix("Mine.\n"), "\(buffer)")
      if isRefused {
        desk.bench.transport.before = { request in
          edits(of: id, request) == nil ? nil : .success(refusal(400, "validation_error", "Not so."))
        }
      }
      let (settled, _) = try desk.push()
      desk.bench.transport.before = nil
      #expect(settled.pull?.flagged.flags("A.md") == (isRefused ? ["refused"] : []), "\(settled.json.compact)")
      try desk.patch(id, ["properties": ["later": "theirs"]])
      _ = try desk.push()
      let now = try desk.version(id)
      #expect(now > line)
      if savesOldBuffer {
        // Taking the buffer's line back lifts no line of an edit answered or dead (F23.11).
        try desk.machine.save("A.md", first.replacing("Words.", with: "Old on."))
        let (_, sent) = try desk.push()
        let wanted = isRefused && earlier == .none ? 1 : now
        #expect(sent.edits(id).map { $0.body["version"]?.int } == [wanted], "\(earlier), refused: \(isRefused)")
        continue
      }
      try desk.machine.save("A.md", buffer.replacing("Mine.", with: "Mine on."))
      let (push, sent) = try desk.push()
      #expect(
        sent.edits(id).map { $0.body["version"]?.int } == [isRefused ? line : now],
        "\(earlier), refused: \(isRefused), now \(now)")
      #expect(push.drain.conflicts.isEmpty)
      let held = try desk.properties(id)
      #expect(held["body"] == "Mine on.\n" && held["other"] == "theirs" && held["later"] == "theirs")
      _ = try desk.push()
      #expect(try desk.machine.body("A.md") == "Mine on.\n")
    }
  }

  @Test(
    "F-S23.9 a dead edit the server took keeps its line spent; released and refused, it does not",
    arguments: [true, false])
  func dead(taken: Bool) throws {
    let (desk, id, old) = try held()
    try desk.machine.save("A.md", old.replacing("Words.", with: "Mine."))
    let write = try killEdit(desk, id, taken: taken)
    #expect(try desk.properties(id)["body"] == (taken ? "Mine.\n" : "Words.\n"))
    #expect(try desk.machine.body("A.md") == "Mine.\n")
    if !taken {
      desk.bench.transport.before = { request in
        edits(of: id, request) == nil ? nil : .success(refusal(400, "validation_error", "Not so."))
      }
      let released = try desk.machine.folders.working(desk.machine.root, "release") {
        try $0.copy.queue.release(write)
      }
      #expect(released == 1)
      let (push, sent) = try desk.push()
      #expect(sent.edits(id).map { $0.body["version"]?.int } == [1])
      #expect(push.pull?.flagged.flags("A.md") == ["refused"])
      desk.bench.transport.before = nil
    }
    try desk.patch(id, ["properties": ["other": "theirs"]])
    _ = try desk.push()
    let now = try desk.version(id)
    try desk.machine.save("A.md", old.replacing("Words.", with: "Mine on."))
    let (push, sent) = try desk.push()
    #expect(sent.edits(id).map { $0.body["version"]?.int } == [taken ? now : 1])
    #expect(push.drain.conflicts.isEmpty)
    #expect(try desk.properties(id) == ["title": "A", "body": "Mine on.\n", "other": "theirs"])
    #expect(try desk.bench.titles() == ["A"])
    _ = try desk.push()
    #expect(try desk.machine.body("A.md") == "Mine on.\n")
    #expect(try desk.machine.lines("A.md").contains("other: theirs"))
  }
}
