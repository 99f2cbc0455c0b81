import FolderSync
import Glibc
import MarfaBase
import MarfaCopy

/// What people do to the files of their machine.
extension World {
  /// Directories below the root; the last may be a volume of its own.
  static let directories = ["", "Projects/", "Projects/Deep/", "Diary/"]

  static func path(_ name: Int, _ directory: Int) -> PathBytes {
    PathBytes("\(directories[directory])Note \(name).md")
  }

  func pick(_ machine: Machine, _ pick: UInt64) -> (path: PathBytes, text: String)? {
    let notes = machine.notes
    guard !notes.isEmpty else { return nil }
    let picked =
      aim.flatMap { name in notes.first { $0.path.name == name } } ?? notes[Int(pick % UInt64(notes.count))]
    if let id = World.id(of: picked.text), notes.filter({ World.id(of: $0.text) == id }).count > 1 {
      words.fork(picked.text)
    }
    return picked
  }

  func create(_ machine: Machine, _ name: Int, _ directory: Int) throws -> String {
    var path = Machine.root.appending(World.path(name, directory))
    if let aim, DocumentKind(name: aim) != nil {
      // Where a file is about to take its name.
      let places = machine.disk.tree(Machine.root).filter { TemporaryName($0.path.name) != nil }.map(\.path.parent)
        .filter { machine.disk.read(Machine.root.appending($0).appending(aim)) == nil }
      path = (places.isEmpty ? path.parent : Machine.root.appending(places[name % places.count])).appending(aim)
    }
    guard machine.disk.read(path) == nil else { return "taken" }
    try machine.disk.makeDirectory(path.parent)
    let word = words.next()
    words.wrote(word, on: machine.number)
    // Where a note's file is missing a new one keeps the item, and having no line goes over what others wrote (F15.5, F23.4).
    let place = path.description.dropFirst(Machine.root.description.count + 1)
    for edge in try edges("in-folder") where edge.path.lowercased() == place.lowercased() {
      words.wroteOver(edge.source)
    }
    try machine.disk.write(path, "The first line.\n\n\(word)\n")
    return word
  }

  func edit(_ machine: Machine, _ choice: UInt64, _ style: Operation.SaveStyle) throws -> String {
    if style == .staleBuffer { return try saveOpened(machine, choice) }
    guard let note = pick(machine, choice) else { return "nothing" }
    let word = words.next()
    let text = note.text + (note.text.hasSuffix("\n") ? "" : "\n") + word + "\n"
    words.replaced(note.text, by: text)
    words.wrote(text, on: machine.number)
    words.saved(World.id(of: text), line: World.line(of: text), on: machine.number)
    if World.id(of: note.text) == nil, style == .replace || style == .backup { words.loosened(text, isMade: true) }
    let path = Machine.root.appending(note.path)
    switch style {
    case .inPlace, .staleBuffer: try machine.disk.write(path, text)
    case .replace: try machine.disk.save(path, Array(text.utf8))
    case .backup:
      let backup = PathBytes(bytes: path.bytes + [UInt8(ascii: "~")])
      try machine.disk.rename(path, to: backup)
      try machine.disk.write(path, text)
      try machine.disk.delete(backup)
    }
    return "\(note.path) \(word)"
  }

  /// An editor opens a note and leaves it; or saves, with its addition, what it opened long ago.
  func saveOpened(_ machine: Machine, _ choice: UInt64) throws -> String {
    let open = machine.notes.filter { buffer("\(machine.number) \($0.path)", stillOf: $0.text) != nil }
    guard choice % 3 != 0, !open.isEmpty, aim == nil else {
      guard let note = pick(machine, choice) else { return "nothing" }
      buffers["\(machine.number) \(note.path)"] = note.text
      return "\(note.path) opened"
    }
    let note = open[Int((choice / 3) % UInt64(open.count))]
    _ = pick(machine, UInt64(machine.notes.firstIndex { $0.path == note.path } ?? 0))
    let key = "\(machine.number) \(note.path)"
    let opened = buffer(key, stillOf: note.text) ?? note.text
    buffers[key] = nil
    let word = words.next()
    let text = opened + (opened.hasSuffix("\n") ? "" : "\n") + word + "\n"
    // What the server has of others' words is theirs where the line tells that it was not seen (F23.3).
    let id = World.id(of: text)
    let isTold =
      id != nil && id == World.id(of: note.text) && words.isUnspent(id, line: World.line(of: text), on: machine.number)
    let others = try isTold ? id.map { try historyOf($0) } ?? [] : []
    words.replaced(note.text, by: text, but: others)
    words.wrote(text, on: machine.number)
    words.saved(id, line: World.line(of: text), on: machine.number)
    words.shuffled(note.text + text)
    try machine.disk.write(Machine.root.appending(note.path), text)
    return
      "\(note.path) \(word) from a stale buffer, \(World.line(of: text) ?? "no line") over \(World.line(of: note.text) ?? "no line")"
  }

  /// The text an editor opened of this very note; nil where another note stands at the path now.
  func buffer(_ key: String, stillOf text: String) -> String? {
    guard let opened = buffers[key] else { return nil }
    if let id = World.id(of: opened) { return id == World.id(of: text) ? opened : nil }
    return Words.found(in: opened).isDisjoint(with: Words.found(in: text)) ? nil : opened
  }

  func editProperty(_ machine: Machine, _ choice: UInt64, _ value: Int) throws -> String {
    guard let note = pick(machine, choice), note.text.hasPrefix("---\n") else { return "nothing" }
    words.wrote(note.text, on: machine.number)
    words.saved(World.id(of: note.text), line: World.line(of: note.text), on: machine.number)
    var lines = note.text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    if let place = lines.firstIndex(where: { $0.hasPrefix("rating: ") }) {
      lines[place] = "rating: \(value)"
    } else {
      lines.insert("rating: \(value)", at: 1)
    }
    try machine.disk.write(Machine.root.appending(note.path), lines.joined(separator: "\n"))
    return "\(note.path) \(value)"
  }

  func retag(_ machine: Machine, _ choice: UInt64, _ tag: Int) throws -> String {
    guard let note = pick(machine, choice), note.text.hasPrefix("---\n") else { return "nothing" }
    var lines = note.text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    guard let close = lines.dropFirst().firstIndex(of: "---") else { return "nothing" }
    if let place = lines.firstIndex(of: "  - tag\(tag)") {
      lines.remove(at: place)
      if let head = lines.firstIndex(of: "tags:"), !lines[head + 1].hasPrefix("  - ") { lines.remove(at: head) }
    } else if let head = lines[..<close].firstIndex(of: "tags:") {
      lines.insert("  - tag\(tag)", at: head + 1)
    } else {
      lines.insert(contentsOf: ["tags:", "  - tag\(tag)"], at: 1)
    }
    try machine.disk.write(Machine.root.appending(note.path), lines.joined(separator: "\n"))
    return "\(note.path) tag\(tag)"
  }

  func rename(_ machine: Machine, _ choice: UInt64, _ name: Int, _ directory: Int) throws -> String {
    guard let note = pick(machine, choice) else { return "nothing" }
    let target = Machine.root.appending(World.path(name, directory))
    guard machine.disk.read(target) == nil else { return "taken" }
    try machine.disk.makeDirectory(target.parent)
    if World.id(of: note.text) == nil { words.loosened(note.text, isNamed: true) }
    // Its title is its name: an edit that goes on its line.
    words.saved(World.id(of: note.text), line: World.line(of: note.text), on: machine.number)
    do throws(FileError) { try machine.disk.rename(Machine.root.appending(note.path), to: target) } catch {
      // Onto another volume, as mv does.
      guard error.code == EXDEV else { throw error }
      if World.id(of: note.text) == nil { words.loosened(note.text, isMade: true) }
      try machine.disk.write(target, note.text)
      try machine.disk.delete(Machine.root.appending(note.path))
    }
    return "\(note.path) to \(World.path(name, directory))"
  }

  func delete(_ machine: Machine, _ choice: UInt64) throws -> String {
    guard let note = pick(machine, choice) else { return "nothing" }
    // What the file held is the person's to drop; what others added to the note meanwhile is not.
    words.replaced(note.text, by: "")
    words.deleted(note.text, World.id(of: note.text))
    try machine.disk.delete(Machine.root.appending(note.path))
    return "\(note.path)"
  }
}
