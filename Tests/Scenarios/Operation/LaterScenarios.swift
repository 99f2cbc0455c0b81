@testable import LocalInstance
import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Rows that were lost or set back, placements heard late, and a credential that was changed (F38, F39, F57, F52.8).
struct LaterScenarios {
  @Test("F-S283 a lost file is said once under a watch")
  func lostUnderWatch() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.push()
    bench.transport.before = { request in
      request.method == "POST" && request.url.hasSuffix("/items") && isOf("lost", request)
        ? .success(HTTPResponse(refusing: 400, "validation_error")) : nil
    }
    let watch = ScriptedWatch(folder)
    watch.save("lost.md", "Lost.\n", at: 15)
    for second in stride(from: 25.0, to: 200, by: 25) { watch.save("other.md", "Other \(second).\n", at: second) }
    #expect(try watch.run(seconds: 230) == nil)
    #expect(watch.passes.count > 4)
    // Its refusal is said as the create is answered, and that it is lost once, however often the folder is read.
    #expect(watch.words.filter { $0.contains("lost.md") && $0.contains("lost") && !$0.contains("refused") }.count <= 1)
    #expect(watch.words.count { $0.hasPrefix("lost.md: ") } == 1, "\(watch.words)")
    #expect(folder.text("lost.md") == "Lost.\n")
    #expect(try folder.status(of: "lost.md")?.flag == "lost")
    #expect(try bench.titles() == ["other"])
  }

  @Test(
    "F-S285 a server set back to before the last edits of a note and a .txt: both files keep theirs, and it holds them")
  func setBack() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("note.md", "Old note.\n")
    try folder.write("plain.txt", "Old text.\n")
    try folder.push()
    try folder.push()
    let (note, plain) = (try bench.id("note"), try bench.id("plain"))
    let scratch = try ScratchDirectory()
    let path = scratch.at("earlier.sqlite")
    try bench.instance.database.run("VACUUM INTO ?", Text(path))
    try folder.append("note.md", "New line of the note.\n")
    try folder.append("plain.txt", "New line of the text.\n")
    try folder.push()
    try folder.push()
    #expect(try bench.body(note) == "Old note.\nNew line of the note.\n")
    let earlier = try Instance(
      database: try Database(path: path, mode: .readWrite), blobs: MemoryBlobs(), clock: bench.clock,
      ids: SeededIds(clock: bench.clock, seed: 77), ownerKey: FolderBench.key)
    bench.transport.handle = { earlier.handle($0) }
    func body(_ id: EntityID) throws -> String? {
      let answer = earlier.handle(
        InstanceRequest(
          method: "GET", target: "/items/\(id)", headers: [HTTPHeader("Authorization", "Bearer \(FolderBench.key)")],
          body: []))
      guard case .whole(let response) = answer else { return nil }
      return try JSON(parsing: response.body)["item"]?["properties"]?["body"]?.text?.string
    }
    #expect(try body(note) == "Old note.\n" && body(plain) == "Old text.\n")
    for _ in 1...2 {
      try folder.push()
      #expect(folder.text("note.md")?.hasSuffix("Old note.\nNew line of the note.\n") == true)
      #expect(folder.text("plain.txt") == "Old text.\nNew line of the text.\n")
    }
    #expect(try body(note) == "Old note.\nNew line of the note.\n")
    #expect(try body(plain) == "Old text.\nNew line of the text.\n")
    #expect(folder.files() == ["note.md", "plain.txt"])
    #expect(try folder.push().drain.drain.answered == 0)
  }

  @Test("F-S414 a move of a placement heard while its read was out is kept: the newer place wins")
  func moveHeard() throws {
    let bench = try FolderBench()
    let item = try bench.item("Plan")
    let folder = try KeptFolder(bench)
    // Another machine places the item first; this folder's own placement is refused for it.
    bench.goOffline()
    bench.transport.before = { request in
      request.method == "POST" && request.url.hasSuffix("/edges") ? .failure(.unreachable("nothing listens")) : nil
    }
    try folder.push()
    #expect(folder.files() == ["Plan.md"])
    bench.goOnline()
    let edge = try bench.place(item, in: folder.id, at: "First.md")
    var moved = false
    bench.transport.after = { request, response in
      guard request.method == "GET", request.url.contains("/edges/\(edge)") || request.url.contains("/items/\(item)"),
        !moved
      else { return .success(response) }
      moved = true
      // While the read's answer is under way the placement moves, and the stream's thread takes that in.
      let version = (try? bench.ask("GET", "/edges/\(edge)"))?["edge"]?["version"] ?? 1
      _ = try? bench.ask(
        "PATCH", "/edges/\(edge)", ["version": version, "properties": ["path": "Second.md"]])
      _ = try? folder.folders.open(folder.root, role: .writer).copy.catchUp()
      return .success(response)
    }
    try folder.push()
    bench.transport.after = nil
    #expect(moved)
    try folder.push()
    #expect(folder.files() == ["Second.md"], "\(folder.files())")
    #expect(try folder.placement(of: item) == "Second.md")
    #expect(try bench.placements(of: item).count == 1)
    #expect(try folder.push().drain.drain.answered == 0)
  }

  @Test(
    "ER-S40 a catch-up answered 401 ends the copy and touches nothing; a key of the same reach goes on, each write once"
  )
  func anotherKey() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    for name in ["one", "two", "three"] { try folder.write("\(name).md", "\(name)\n") }
    try folder.push()
    try folder.push()
    let items = try ["one", "two", "three"].map { try bench.id($0) }
    try folder.append("one.md", "Edited.\n")
    try folder.write("new.md", "New.\n")
    try folder.delete("three.md")
    try folder.scan()
    func dump(_ tables: [String]) throws -> [String] {
      try folder.reading { engine in
        try tables.flatMap { table in
          let columns = try engine.store.database.all("PRAGMA table_info(\(table))") { $0.string(1) }
          let line = columns.map { "quote(\"\($0)\")" }.joined(separator: " || '|' || ")
          let lines = try engine.store.database.all("SELECT \(line) FROM \(table)") { $0.string(0) }
          return lines.sorted()
        }
      }
    }
    let tables = ["queue", "binding", "folder_write", "pin", "refused_placement"]
    let (rows, tree) = (try dump(tables), folder.files().map { folder.bytes($0) })
    let keys = try folder.queue().map(\.idempotencyKey)
    bench.transport.before = { request in
      request.url == FolderBench.origin + "/" ? nil : .success(HTTPResponse(refusing: 401, "unauthorized"))
    }
    for _ in 0..<2 {
      #expect(refusal { try folder.push() }?.exit == 5)
      #expect(try dump(tables) == rows)
      #expect(folder.files().map { folder.bytes($0) } == tree)
    }
    #expect(refusal { try folder.reading { try $0.copy.requireComplete() } }?.reason == "credential_ended")
    bench.goOnline()
    let made = try bench.ask(
      "POST", "/keys",
      [
        "label": "second", "type_permissions": ["*": "write"], "edge_permissions": ["*": "write"],
        "metadata_permissions": ["*": "write"], "extension_permissions": ["*": "write"], "permissions": [],
      ])
    let key = try #require(made["key"]?.text?.string, "\(made.compact)")
    folder.machine.key = key
    bench.transport.clear()
    let push = try folder.push()
    #expect(push.hydrated != nil)
    let sent = bench.transport.sent.filter { $0.method != "GET" && !$0.url.contains("bulk") }
    for kept in keys {
      #expect(sent.count { request in request.headers.contains { $0.value.contains(kept.string) } } == 1, "\(kept)")
    }
    #expect(push.pull?.written == 0 && push.pull?.removed == 0 && push.scan.created == 0)
    folder.grace()
    try folder.push()
    #expect(try bench.titles() == ["new", "one", "two"])
    #expect(try bench.body(items[0]) == "one\nEdited.\n")
    #expect(try bench.isTrashed(items[2]))
    #expect(folder.files() == ["new.md", "one.md", "two.md"])
    try folder.push()
    #expect(try folder.push().drain.drain.answered == 0)
  }
}

/// Whether a request's body is of an item of a title.
private func isOf(_ title: String, _ request: HTTPRequest) -> Bool {
  guard case .bytes(let body) = request.body else { return false }
  return String(decoding: body, as: UTF8.self).contains("\"title\":\"\(title)\"")
}
