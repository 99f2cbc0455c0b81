import FolderSync
import LocalInstance
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

@testable import marfa_folders

/// A folder of a machine as a scenario speaks of it: its directory, its reports, what the server shows of it.
struct KeptFolder {
  let bench: FolderBench
  let machine: FolderMachine
  let id: EntityID
  let root: PathBytes

  /// A folder with these settings on a machine, its first sync confirmed unless said otherwise.
  init(
    _ bench: FolderBench, _ settings: JSON = Self.notes, machine: FolderMachine? = nil, at directory: String? = nil,
    added: Bool = true
  ) throws {
    self.bench = bench
    let machine = machine ?? bench.machine()
    self.machine = machine
    id = try bench.folder(settings)
    root = directory.map { machine.root.parent.appending(PathBytes($0)) } ?? machine.root
    if added { try add() }
  }

  /// Another machine's directory of a folder.
  init(_ bench: FolderBench, following id: EntityID, machine: FolderMachine, added: Bool = true) throws {
    self.bench = bench
    self.machine = machine
    self.id = id
    root = machine.root
    if added { try add() }
  }

  static let notes: JSON = ["title": "Notes", "search": ["types": ["core.note"]]]

  /// Settings of a folder of notes, and more.
  static func notes(_ more: JSON) -> JSON {
    var settings = notes.object ?? JSONObject()
    for (key, value) in more.object?.members ?? [] { settings[key] = value }
    return .object(settings)
  }

  var folders: Folders { machine.folders }
  var disk: MemoryDisk { machine.disk }

  func path(_ path: String) -> PathBytes { root.appending(PathBytes(path)) }

  // MARK: What a person does

  func write(_ path: String, _ text: String = "Words.\n") throws { try write(path, bytes: Array(text.utf8)) }
  func write(_ path: String, bytes: [UInt8]) throws {
    bench.clock.advance(seconds: 3)
    try disk.write(self.path(path), bytes)
  }
  func delete(_ path: String) throws { try disk.delete(self.path(path)) }
  func rename(_ path: String, to target: String) throws { try disk.rename(self.path(path), to: self.path(target)) }
  func append(_ path: String, _ more: String) throws { try write(path, try #require(text(path)) + more) }
  func text(_ path: String) -> String? { disk.text(self.path(path)) }
  func bytes(_ path: String) -> [UInt8]? { disk.read(self.path(path)) }

  /// The files outside `.marfa/`, in path order.
  func files() -> [String] {
    disk.tree(root).map { file in
      let path = String(decoding: file.path.bytes, as: UTF8.self)
      return path.hasPrefix(root.description + "/") ? String(path.dropFirst(root.description.count + 1)) : path
    }.filter { !$0.hasPrefix(".marfa/") }.sorted()
  }

  // MARK: Commands

  @discardableResult
  func add(yes: Bool = true) throws -> AddedFolder { try folders.add(root, following: id, yes: yes) }

  @discardableResult
  func push() throws -> FolderPush {
    bench.clock.advance(nanoseconds: 50_000_000)
    switch try folders.push(root) {
    case .pushed(let push): return push
    case .waiting(let reading): throw BenchError("the first sync waits: \(reading.json.compact)")
    }
  }

  /// A push of a folder whose first sync waits.
  func plan() throws -> FirstSyncReading {
    switch try folders.push(root) {
    case .pushed(let push): throw BenchError("it was pushed: \(push.json.compact)")
    case .waiting(let reading): return reading
    }
  }

  @discardableResult
  func scan() throws -> FolderScan { try folders.scan(root) }

  /// What a pull alone writes, the copy caught up first.
  @discardableResult
  func pull() throws -> FolderPull {
    try folders.working(root, "pull") { folder in
      _ = try folder.catchUp()
      return try folder.pull()
    }
  }

  func status() throws -> FolderStatus { try folders.status(root) }

  /// One file of the status.
  func status(of path: String) throws -> FolderFile? { try status().files.first { $0.path == path } }

  func confirm() throws -> ConfirmedRemoval { try folders.confirm(root) }
  func restore() throws -> RestoredRemoval { try folders.restore(root) }

  /// Past the grace of a delete (F21, F43).
  func grace() { bench.clock.advance(seconds: 6) }

  /// What the folder's store says.
  func reading<Value>(_ work: (FolderEngine) throws -> Value) throws -> Value {
    try work(try folders.open(root, role: .reader))
  }

  func queue() throws -> [QueuedWrite] {
    try reading { try $0.copy.queue.all() }.filter { $0.verdict == nil || $0.isWaiting }
  }

  func isBound(_ item: EntityID) throws -> Bool { try reading { try $0.store.binding(of: item) } != nil }

  func isPinned(_ item: EntityID) throws -> Bool {
    try reading { try $0.copy.pins(owner: "folder:file") }.contains(item)
  }

  /// Replaces settings on the server.
  func change(_ settings: JSON) throws {
    var body = settings.object ?? JSONObject()
    body["version"] = try bench.ask("GET", "/items/\(id)")["item"]?["version"] ?? .null
    try bench.ask("PATCH", "/folders/\(id)", .object(body))
  }

  /// The path the server holds for an item in this folder; nil where it lists none.
  func placement(of item: EntityID) throws -> String? {
    try bench.placements(of: item).first { $0.folder == id }?.path
  }
}

extension FolderBench {
  /// The edges of a type the server lists from an item, whatever its state.
  private func edges(_ type: String, from item: EntityID) throws -> [JSON] {
    let answer = try ask("GET", "/edges?edge_type=\(type)&limit=500")
    return (answer["data"]?.array ?? []).filter { $0["source_id"]?.text == item.text }
  }

  /// The placements the server lists of an item.
  func placements(of item: EntityID) throws -> [(folder: EntityID, path: String, edge: EntityID)] {
    try edges("in-folder", from: item).compactMap { edge in
      guard let id = edge["id"]?.text.flatMap({ EntityID($0) }),
        let target = edge["target_id"]?.text.flatMap({ EntityID($0) }),
        let path = edge["properties"]?["path"]?.text?.string
      else { return nil }
      return (target, path, id)
    }
  }

  /// The ids of the other end of a type of edges an item is the source of.
  func targets(_ item: EntityID, _ type: String) throws -> [EntityID] {
    try edges(type, from: item).compactMap { ($0["target_id"]?.text).flatMap { EntityID($0) } }
  }

  /// Places an item in a folder as another device does.
  @discardableResult
  func place(_ item: EntityID, in folder: EntityID, at path: String) throws -> EntityID {
    let made = try ask(
      "POST", "/edges",
      [
        "source_id": .string(item.text), "target_id": .string(folder.text), "edge_type": "in-folder",
        "properties": ["path": .string(path)],
      ])
    return try #require(made["edge"]?["id"]?.text.flatMap { EntityID($0) })
  }

  func trash(_ item: EntityID) throws {
    let version = try ask("GET", "/items/\(item)")["item"]?["version"]?.int ?? 0
    try ask("DELETE", "/items/\(item)?version=\(version)")
  }
  func untrash(_ item: EntityID) throws { try ask("POST", "/items/\(item)/restore") }
  func purge(_ item: EntityID) throws {
    try trash(item)
    try ask("POST", "/items/\(item)/purge")
  }
  func state(_ item: EntityID, _ state: Text) throws {
    try ask("POST", "/items/\(item)/transition", ["state": .string(state)])
  }

  /// A note's body on the server.
  func body(_ item: EntityID) throws -> String? {
    try row(item)["item"]?["properties"]?["body"]?.text?.string
  }

  /// Whether the server holds an item in its bin.
  func isTrashed(_ item: EntityID) throws -> Bool {
    let list = try ask("GET", "/items?tier=all&state=trashed&limit=200&include=metadata")
    return (list["data"]?.array ?? []).contains { $0["item"]?["id"]?.text == item.text }
  }

  /// The one item of a title.
  func id(_ title: String) throws -> EntityID {
    let found = try ids(title)
    try #require(found.count == 1, "\(title): \(found)")
    return found[0]
  }

  /// Requests of the machines that write.
  var writes: [String] {
    transport.requests.filter { !$0.hasPrefix("GET ") && !$0.contains("bulk") }
  }

  /// Whether the server can be reached.
  func goOffline() { transport.before = { _ in .failure(.unreachable("nothing listens")) } }
  func goOnline() { transport.before = nil }

  /// A file item with these bytes, as another device makes it.
  @discardableResult
  func file(_ title: Text, _ bytes: [UInt8], type: Text, mime: Text, more: JSONObject = JSONObject()) throws -> EntityID
  {
    let hash = try upload(bytes, mime: mime)
    var properties = JSONObject([
      ("title", .string(title)), ("blob_ref", .string(hash.text)), ("mime_type", .string(mime)),
    ])
    for (key, value) in more.members { properties[key] = value }
    let made = try ask("POST", "/items", ["type": .string(type), "tier": "library", "properties": .object(properties)])
    return try #require(made["item"]?["id"]?.text.flatMap { EntityID($0) })
  }

  @discardableResult
  func upload(_ bytes: [UInt8], mime: Text) throws -> ContentHash {
    let answer = instance.handle(
      InstanceRequest(
        method: "POST", target: "/blobs",
        headers: [HTTPHeader("Authorization", "Bearer \(FolderBench.key)"), HTTPHeader("Content-Type", mime.string)],
        body: bytes))
    guard case .whole(let response) = answer, (200..<300).contains(response.status) else {
      throw BenchError("no upload")
    }
    return ContentHash(of: bytes)
  }
}

/// What a push says in words.
func words(_ push: FolderPush) -> [String] { PushWords(push: Report(push.json), conflicts: []).lines }

/// The code of the refusal a command ends with.
func refusal(_ work: () throws -> Void) -> MarfaError? {
  do {
    try work()
    return nil
  } catch { return MarfaError(any: error) }
}

extension HTTPResponse {
  /// A refusal of a server of this contract.
  init(refusing status: Int, _ code: String) {
    let body: JSON = [
      "error": ["code": .string(code), "message": "refused by the test", "details": ["edge_type": "in-folder"]]
    ]
    self.init(
      status: status,
      headers: [
        HTTPHeader("Content-Type", "application/json"), HTTPHeader("X-Error-Code", code),
        HTTPHeader("X-Marfa-Contract", "0"),
      ], body: body.write())
  }
}
