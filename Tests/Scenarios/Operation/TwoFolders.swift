import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Two folders of one machine, `One` and `Two`, and what a person does between them.
struct TwoFolders {
  let bench: FolderBench
  let machine: FolderMachine
  let one: KeptFolder
  let two: KeptFolder

  init(
    _ first: JSON = KeptFolder.notes, _ second: JSON = Self.tagged("b"), features: MemoryDisk.Features = .init(),
    otherVolume: Bool = false
  ) throws {
    bench = try FolderBench()
    machine = bench.machine(features: features)
    if otherVolume {
      let root = machine.root.parent.appending("Two")
      try machine.disk.makeDirectory(root)
      try machine.disk.mount(root)
    }
    one = try KeptFolder(bench, first, machine: machine, at: "One")
    two = try KeptFolder(bench, second, machine: machine, at: "Two")
    try one.push()
    try two.push()
  }

  /// A folder of what carries a tag.
  static func tagged(_ tag: String, _ types: [JSON] = ["core.note"], _ more: JSON = JSON.object(JSONObject())) -> JSON {
    var settings = KeptFolder.notes(more).object ?? JSONObject()
    settings["title"] = .string(Text("Tagged \(tag)"))
    settings["search"] = ["types": .array(types), "filter": .string(Text("tags contains \"\(tag)\""))]
    return .object(settings)
  }

  static let everything: JSON = ["title": "All", "search": ["types": ["core.note", "core.file"]]]

  /// Moves a file as `mv` does within one disk: it stays the same file.
  func move(_ path: String, to target: String? = nil, from: KeptFolder? = nil, into: KeptFolder? = nil) throws {
    bench.clock.advance(seconds: 3)
    try machine.disk.rename((from ?? one).path(path), to: (into ?? two).path(target ?? path))
  }

  /// Copies a file: another file of the same bytes.
  func copy(_ path: String, to target: String? = nil, from: KeptFolder? = nil, into: KeptFolder? = nil) throws {
    try (into ?? two).write(target ?? path, bytes: try #require((from ?? one).bytes(path)))
  }

  func retag(_ item: EntityID, from: String, to tag: String) throws {
    try bench.ask("DELETE", "/items/\(item)/tags/\(from)")
    try self.tag(item, tag)
  }

  func tag(_ item: EntityID, _ tag: String) throws {
    try bench.ask("POST", "/items/\(item)/tags", ["tags": [.string(Text(tag))]])
  }

  var deletes: [String] { bench.writes.filter { $0.hasPrefix("DELETE /items/") && !$0.contains("/tags/") } }
  var creates: [String] { bench.writes.filter { $0 == "POST /items" || $0.hasPrefix("POST /items?") } }
}
