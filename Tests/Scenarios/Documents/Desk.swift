import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// A request that asks the server to change something, as it went over the wire.
struct Sent {
  var method: String
  /// Path and query.
  var target: String
  var body: JSON

  var line: String { "\(method) \(target)" }
  /// Which row's door: the id in `/items/ID...`.
  func isOf(_ id: EntityID) -> Bool { target.contains(id.description) }
}

/// One server, and machines that keep a folder of notes with it, in memory.
final class Desk {
  let bench: FolderBench
  let folder: EntityID
  let machine: FolderMachine

  /// A folder of these settings, and one machine that follows it with its first sync confirmed.
  init(_ settings: JSON = ["title": "Notes", "search": ["types": ["core.note"]]]) throws {
    bench = try FolderBench()
    folder = try bench.folder(settings)
    machine = bench.machine()
    try machine.add(folder)
  }

  /// A desk whose folder is added once `prepare` made what the server holds.
  init(
    _ settings: JSON = ["title": "Notes", "search": ["types": ["core.note"]]], prepare: (FolderBench) throws -> Void
  ) throws {
    bench = try FolderBench()
    folder = try bench.folder(settings)
    machine = bench.machine()
    try prepare(bench)
    try machine.add(folder)
  }

  /// Another machine with the same folder.
  func another(_ name: String = "ben") throws -> FolderMachine {
    let machine = bench.machine(name)
    try machine.add(folder)
    return machine
  }

  // MARK: The wire

  /// Runs `work` and answers what it asked the server to change, in the order it was sent.
  func sent(_ work: () throws -> Void) rethrows -> [Sent] {
    bench.transport.clear()
    try work()
    return bench.transport.sent.compactMap { request in
      guard request.method != "GET", request.method != "HEAD" else { return nil }
      let rest = request.url.drop { $0 != ":" }.dropFirst(3)
      let target = String(rest.drop { $0 != "/" })
      if target.hasPrefix("/items/bulk-get") || target.hasPrefix("/items/lookup") { return nil }
      var body = JSON.null
      if case .bytes(let bytes) = request.body { body = (try? JSON(parsing: bytes)) ?? .null }
      return Sent(method: request.method, target: target, body: body)
    }
  }

  /// The same, for one push; the report beside it.
  func push(_ machine: FolderMachine? = nil) throws -> (report: FolderPush, sent: [Sent]) {
    var report: FolderPush?
    let sent = try sent { report = try (machine ?? self.machine).push() }
    guard let report else { throw BenchError("no report") }
    return (report, sent)
  }

  // MARK: The server

  func item(_ id: EntityID) throws -> JSON { try bench.row(id)["item"] ?? .null }
  func properties(_ id: EntityID) throws -> JSON { try item(id)["properties"] ?? .null }
  func version(_ id: EntityID) throws -> Int { try item(id)["version"]?.int ?? 0 }
  /// An item's state; a row in the bin answers no plain read.
  func state(_ id: EntityID) throws -> String {
    let rows = try bench.ask("GET", "/items?tier=all&state=trashed&limit=200")["data"]?.array ?? []
    if rows.contains(where: { ($0["item"] ?? $0).string("id") == id.description }) { return "trashed" }
    return try item(id).string("state") ?? ""
  }
  func tags(_ id: EntityID) throws -> [String] {
    (try bench.row(id)["metadata"]?["tags"]?.array ?? []).compactMap { $0.text?.string }.sorted()
  }

  /// Every edge from an item.
  func edges(_ id: EntityID, type: String? = nil) throws -> [JSON] {
    let answer = try bench.ask("GET", "/items/\(id)/edges")
    return (answer["data"]?.array ?? []).map { $0["edge"] ?? $0 }.filter {
      type == nil || $0["edge_type"]?.text?.string == type
    }
  }

  /// Where this folder places an item.
  func placement(_ id: EntityID) throws -> JSON? {
    try edges(id, type: "in-folder").first { $0["target_id"]?.text == folder.text }
  }
  func placed(_ id: EntityID) throws -> String? { try placement(id)?["properties"]?["path"]?.text?.string }

  /// Another device moves the placement of an item.
  func move(_ id: EntityID, to path: String) throws {
    guard let edge = try placement(id), let edgeID = edge["id"]?.text else {
      throw BenchError("\(id) is placed nowhere")
    }
    try bench.ask(
      "PATCH", "/edges/\(edgeID)", ["version": edge["version"] ?? .null, "properties": ["path": .string(path)]])
  }

  /// Another device makes an edge.
  @discardableResult
  func edge(_ source: EntityID, _ type: String, _ target: EntityID, _ properties: JSON = [:]) throws -> JSON {
    try bench.ask(
      "POST", "/edges",
      [
        "source_id": .string(source.text), "edge_type": .string(type), "target_id": .string(target.text),
        "properties": properties,
      ])
  }

  /// Another device tags, untags, archives, restores, trashes.
  func tag(_ id: EntityID, _ tag: String) throws {
    try bench.ask("POST", "/items/\(id)/tags", ["tags": [.string(tag)]])
  }
  func untag(_ id: EntityID, _ tag: String) throws { try bench.ask("DELETE", "/items/\(id)/tags/\(tag)") }
  func transition(_ id: EntityID, _ state: String) throws {
    try bench.ask("POST", "/items/\(id)/transition", ["state": .string(state)])
  }
  func trash(_ id: EntityID) throws { try bench.ask("DELETE", "/items/\(id)?version=\(try version(id))") }

  /// Another device patches an item on its present version.
  func patch(_ id: EntityID, _ body: JSON) throws {
    var object = body.object ?? JSONObject()
    object["version"] = .int(try version(id))
    try bench.ask("PATCH", "/items/\(id)?conflict=auto", .object(object))
  }

  /// The one item of a title.
  func id(_ title: String) throws -> EntityID {
    let found = try bench.ids(title)
    guard found.count == 1, let id = found.first else { throw BenchError("\(found.count) items are titled \(title)") }
    return id
  }
}

extension Desk {
  /// Shows that the folder is one that works: an ordinary note becomes an item. What else a test tells stays away means
  /// something only there.
  func works() throws {
    try machine.save("ordinary.md", "Words.\n")
    _ = try push()
    _ = try id("ordinary")
  }
}

extension FolderMachine {
  /// Saves a file with one text in it changed.
  func edit(_ path: String, _ old: String, _ new: String) throws {
    guard let text = text(path), text.contains(old) else {
      throw BenchError("\(path) holds no \(old): \(self.text(path) ?? "no file")")
    }
    try save(path, text.replacing(old, with: new))
  }

  /// A file's text; a missing file ends the test.
  func need(_ path: String) throws -> String {
    guard let text = text(path) else { throw BenchError("no file \(path), but \(files())") }
    return text
  }

  /// The frontmatter lines of a file.
  func lines(_ path: String) throws -> [String] {
    let all = try need(path).split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    guard all.first == "---" else { return [] }
    return Array(all.dropFirst().prefix { $0 != "---" })
  }

  /// What follows a file's frontmatter.
  func body(_ path: String) throws -> String {
    let text = try need(path)
    guard text.hasPrefix("---\n"), let end = text.firstRange(of: "\n---\n") else { return text }
    return String(text[end.upperBound...])
  }

  /// The flags of a scan or pull for a path.
  func at(_ path: String) -> PathBytes { root.appending(PathBytes(path)) }

  /// Where a file stands.
  func standing(_ path: String) throws -> FolderFile? { try folders.status(root).files.first { $0.path == path } }

  /// Deletes a file and lets the grace pass, so that the push after sends the delete.
  func scan() throws -> FolderScan {
    bench.clock.advance(nanoseconds: 50_000_000)
    return try folders.scan(root)
  }

  func pull() throws -> FolderPull {
    bench.clock.advance(nanoseconds: 50_000_000)
    return try folders.pull(root)
  }
}

extension [FlaggedFile] {
  /// The flags of one path.
  func flags(_ path: String) -> [String] { filter { $0.path == path }.map(\.flag) }
  /// The reason of a path's flag.
  func reason(_ path: String, _ flag: String) -> String? { first { $0.path == path && $0.flag == flag }?.reason }
}

extension [Sent] {
  /// The edits of an item.
  func edits(_ id: EntityID) -> [Sent] { filter { $0.method == "PATCH" && $0.target.hasPrefix("/items/\(id)") } }
  /// Creates of items.
  var creates: [Sent] { filter { $0.method == "POST" && $0.target == "/items" } }
  var lines: [String] { map(\.line) }
}

extension JSON {
  func string(_ key: Text) -> String? { self[key]?.text?.string }
}
