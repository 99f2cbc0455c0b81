import FolderSync
import LocalInstance
import MarfaBase
import MarfaCopy

/// What happens to a folder beside one person's edits: other programs on the server, many files going at once, directories
/// and volumes that go.
extension World {
  /// Another program changes a note on the server.
  func elsewhere(_ choice: UInt64, _ change: Operation.Elsewhere) throws -> String {
    let state =
      switch change {
      case .restore: "trashed"
      case .unarchive: "archived"
      default: "active"
      }
    let items = try items().filter { $0.state.string == state }
    guard !items.isEmpty else { return "nothing" }
    return try self.change(items[Int(choice % UInt64(items.count))], change, choice)
  }

  /// Another program makes a change of an item.
  func change(_ item: Held, _ change: Operation.Elsewhere, _ choice: UInt64) throws -> String {
    let path = "/items/\(item.id)"
    // What a person moved without its id was deleted and written anew; who brings the first back has both.
    if change == .restore { words.fork(item.body) }
    switch change {
    case .append:
      let word = words.next()
      let body = item.body + (item.body.hasSuffix("\n") ? "" : "\n") + word + "\n"
      // A hand of its own.
      words.wrote(body, on: -1)
      try World.ask(
        instance, "PATCH", path, ["version": .int(item.version), "properties": ["body": .string(Text(body))]])
      return "\(item.title) \(word)"
    case .retitle:
      let title = Text("Note \(choice % 40)")
      words.wrote(item.body, on: -1)
      try World.ask(instance, "PATCH", path, ["version": .int(item.version), "properties": ["title": .string(title)]])
      return "\(item.title) to \(title)"
    case .tag: try World.ask(instance, "POST", path + "/tags", ["tags": ["elsewhere"]])
    case .trash:
      words.deleted(item.body, item.id.string)
      try World.ask(instance, "DELETE", path)
    case .restore: try World.ask(instance, "POST", path + "/restore")
    case .archive: try World.ask(instance, "POST", path + "/transition", ["state": "archived"])
    case .unarchive: try World.ask(instance, "POST", path + "/transition", ["state": "active"])
    }
    return "\(item.title)"
  }

  func deleteMany(_ machine: Machine) throws -> String {
    let notes = machine.notes
    for (number, note) in notes.enumerated() where number % 4 != 0 {
      words.replaced(note.text, by: "")
      words.deleted(note.text, World.id(of: note.text))
      try machine.disk.delete(Machine.root.appending(note.path))
    }
    return "\(notes.count - (notes.count + 3) / 4) of \(notes.count)"
  }

  func renameDirectory(_ machine: Machine, _ from: Int, _ to: Int) throws -> String {
    // A volume stays where it is mounted, and a directory does not go into itself.
    guard from != to, from != 3, to != 3, !(from == 1 && to == 2) else { return "not" }
    let source = Machine.root.appending(PathBytes(String(World.directories[from].dropLast())))
    let target = Machine.root.appending(PathBytes(String(World.directories[to].dropLast())))
    guard machine.disk.status(source) != nil, machine.disk.status(target) == nil else { return "not" }
    let below = source.bytes.dropFirst(Machine.root.bytes.count + 1) + "/".utf8
    for note in machine.notes where note.path.bytes.starts(with: below) && World.id(of: note.text) == nil {
      words.loosened(note.text, isNamed: true)
    }
    try machine.disk.makeDirectory(target.parent)
    try machine.disk.rename(source, to: target)
    return "\(source.name) to \(target)"
  }

  /// The directory is not there for a while. Nothing may be deleted, sent or written for that.
  func vanish(_ machine: Machine, mountPoint: Bool) throws -> String {
    let away: PathBytes = "/home/person/away"
    // What is queued already may go out; nothing else.
    let trashed = Set(try items().filter { $0.state == "trashed" }.map(\.id))
    try machine.disk.rename(Machine.root, to: away)
    if mountPoint { try machine.disk.makeDirectory(Machine.root) }
    var said: [String] = []
    for _ in 0..<2 {
      clock.advance(seconds: 7)
      do {
        said.append(try sync(machine))
      } catch let error as MarfaError {
        said.append(error.code.rawValue)
      }
    }
    if mountPoint {
      let written = machine.disk.tree(Machine.root)
      guard written.isEmpty else { throw Violation(words: "\(written.map(\.path)) written at an empty mount point") }
      try MemoryFileSystem(machine.disk).openDirectory("/home/person").removeDirectory("Notes")
    } else if machine.disk.status(Machine.root) != nil {
      throw Violation(words: "a directory that was gone was made anew")
    }
    try machine.disk.rename(away, to: Machine.root)
    let now = Set(try items().filter { $0.state == "trashed" }.map(\.id))
    guard now.subtracting(trashed).isEmpty else {
      throw Violation(words: "deleted while the directory was gone: \(now.subtracting(trashed)) \(said)")
    }
    return said.joined(separator: ", ")
  }

  /// A volume inside the directory is not there for a while: what was on it is not deleted (P2.1).
  func unmountInner(_ machine: Machine) throws -> String {
    guard machine.hasVolume else { return "no volume" }
    let live = try items().filter { $0.state == "active" }.map(\.id)
    // A file moved there since the last scan is missed where it was (P2.3 gives it back), so only what a scan saw there.
    let known = try machine.owners()
    let held = Set(machine.disk.tree(Machine.volumePath).compactMap { known["Diary/\($0.path)"] })
    // Where nothing was ever seen on it, nothing tells it from a directory.
    guard !held.isEmpty else { return "nothing on it" }
    try machine.unplug()
    var said: [String] = []
    for _ in 0..<2 {
      clock.advance(seconds: 7)
      said.append(try sync(machine))
    }
    let under = machine.disk.tree(Machine.volumePath)
    guard under.isEmpty else { throw Violation(words: "written under a volume that was gone: \(under.map(\.path))") }
    try machine.plugIn()
    let now = Set(try items().filter { $0.state == "active" }.map(\.id))
    let gone = live.filter { held.contains($0.string) && !now.contains($0) }
    guard gone.isEmpty else { throw Violation(words: "deleted while their volume was gone: \(gone)") }
    return said.joined(separator: ", ")
  }

  /// A person answers a large removal that waits.
  func answer(_ machine: Machine) throws {
    let said =
      if trace.count % 2 == 0 {
        "confirmed \(try machine.run { try $0.confirm(Machine.root) })"
      } else {
        "restored \(try machine.run { try $0.restore(Machine.root) })"
      }
    machine.isPaused = false
    trace.note("m\(machine.number) \(said)")
  }
}
