import Glibc
import MarfaBase

/// What people write that ties notes and pictures together.
extension World {
  /// The lines of a text, its frontmatter's apart: without the fences, nil where it has none.
  static func parts(of text: String) -> (front: [String]?, body: [String]) {
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    guard lines.first == "---", let close = lines.dropFirst().firstIndex(of: "---") else { return (nil, lines) }
    return (Array(lines[1..<close]), Array(lines[(close + 1)...]))
  }

  private static func text(_ front: [String]?, _ body: [String]) -> String {
    (front.map { ["---"] + $0 + ["---"] } ?? []).joined(separator: "\n") + (front == nil ? "" : "\n")
      + body.joined(separator: "\n")
  }

  /// A person saves a note with another text, as `edit` does.
  private func save(_ machine: Machine, _ note: (path: PathBytes, text: String), _ text: String) throws {
    words.replaced(note.text, by: text)
    words.wrote(text, on: machine.number)
    words.saved(World.id(of: text), line: World.line(of: text), on: machine.number)
    try machine.disk.write(Machine.root.appending(note.path), text)
  }

  private func typed(_ target: (path: PathBytes, text: String), _ form: Operation.LinkForm, _ to: UInt64) -> String {
    let stem = target.path.name.description.dropLast(3)
    return switch form {
    case .name: "[[\(stem)]]"
    case .path: "[[\(target.path)]]"
    case .id: World.id(of: target.text).map { "[[\($0)]]" } ?? "[[\(stem)]]"
    case .shown: "[[\(stem)|shown]]"
    case .heading: "[[\(stem)#Heading]]"
    case .title:
      World.parts(of: target.text).front?.first { $0.hasPrefix("title: ") }
        .map { "[[\($0.dropFirst(7).filter { $0 != "\"" })]]" } ?? "[[\(stem)]]"
    case .code: "`[[\(stem)]]`"
    case .markdown: "[shown](\(target.path.description.replacing(" ", with: "%20")))"
    case .nobody: "[[Nobody \(to % 3)]]"
    }
  }

  func link(_ machine: Machine, _ choice: UInt64, _ to: UInt64, _ form: Operation.LinkForm) throws -> String {
    guard let note = pick(machine, choice) else { return "nothing" }
    let notes = machine.notes
    let target = notes[Int(to % UInt64(notes.count))]
    // A name that answers to nothing is taken out soon enough that it does not hold back everything.
    let form = form == .nobody && to % 4 != 0 ? .name : form
    let word = words.next()
    let link = typed(target, form, to)
    try save(machine, note, note.text + (note.text.hasSuffix("\n") ? "" : "\n") + "\(word) see \(link)\n")
    return "\(note.path) \(word) \(link)"
  }

  func unlink(_ machine: Machine, _ choice: UInt64) throws -> String {
    let linked = machine.notes.filter { note in
      World.parts(of: note.text).body.contains { $0.contains("[[") || $0.contains("](") }
    }
    guard !linked.isEmpty else { return "nothing" }
    let note = linked[Int(choice % UInt64(linked.count))]
    _ = pick(machine, UInt64(machine.notes.firstIndex { $0.path == note.path } ?? 0))
    let parts = World.parts(of: note.text)
    var body = parts.body
    let places = body.indices.filter { body[$0].contains("[[") || body[$0].contains("](") }
    let line = body.remove(at: places[Int((choice / 7) % UInt64(places.count))])
    try save(machine, note, World.text(parts.front, body))
    return "\(note.path) \(line)"
  }

  /// The entries of a key of the frontmatter, however it is laid out.
  static func entries(_ key: String, _ front: [String]) -> [String] {
    guard let head = front.firstIndex(where: { $0.hasPrefix("\(key):") }) else { return [] }
    let rest = front[head].dropFirst(key.count + 1).drop { $0 == " " }
    if !rest.isEmpty { return rest == "[]" ? [] : [String(rest)] }
    return front[(head + 1)...].prefix { $0.hasPrefix("  - ") || $0.hasPrefix("- ") }
      .map { String($0.drop { $0 == " " }.dropFirst(2)) }
  }

  func edgeLine(_ machine: Machine, _ choice: UInt64, _ to: UInt64, _ form: Operation.LinkForm) throws -> String {
    guard let note = pick(machine, choice) else { return "nothing" }
    let notes = machine.notes
    let target = notes[Int(to % UInt64(notes.count))]
    let (front, body) = World.parts(of: note.text)
    var lines = front ?? []
    var entries = World.entries("about", lines)
    if let head = lines.firstIndex(where: { $0.hasPrefix("about:") }) {
      let count = lines[(head + 1)...].prefix { $0.hasPrefix("  - ") || $0.hasPrefix("- ") }.count
      lines.removeSubrange(head...(head + count))
    }
    let said: String
    if !entries.isEmpty, to % 3 == 0 {
      said = "without \(entries.remove(at: Int(choice % UInt64(entries.count))))"
    } else {
      let form: Operation.LinkForm =
        [.code, .markdown].contains(form) ? .id : form == .nobody && to % 4 != 0 ? .path : form
      let entry = "\"\(typed(target, form, to))\""
      entries.append(entry)
      said = entry
    }
    if !entries.isEmpty { lines += ["about:"] + entries.map { "  - \($0)" } }
    // The line is all that changes: no word is added.
    try save(machine, note, World.text(lines.isEmpty ? nil : lines, body))
    return "\(note.path) \(said)"
  }

  // MARK: Pictures

  func picture(_ machine: Machine, _ name: Int, _ directory: Int) throws -> String {
    let path = Machine.root.appending(PathBytes("\(World.directories[directory])pic \(name).png"))
    guard machine.disk.status(path) == nil else { return "taken" }
    try machine.disk.makeDirectory(path.parent)
    let word = pictureWord()
    try machine.disk.write(path, "PNG \(word)\n")
    return word
  }

  private func pictureWord() -> String {
    let word = words.next()
    words.painted(word)
    return word
  }

  func embed(_ machine: Machine, _ choice: UInt64, _ to: UInt64, _ form: Operation.EmbedForm) throws -> String {
    let pictures = machine.pictures
    guard !pictures.isEmpty, let note = pick(machine, choice) else { return "nothing" }
    let picture = pictures[Int(to % UInt64(pictures.count))].path
    let shown =
      switch form {
      case .name: "![[\(picture.name)]]"
      case .path: "![[\(picture)]]"
      case .sized: "![[\(picture.name)|300]]"
      case .markdown:
        "![](\(Array(repeating: "../", count: note.path.description.split(separator: "/").count - 1).joined())"
          + "\(picture.description.replacing(" ", with: "%20")))"
      case .markdownFromRoot: "![shown](</\(picture)>)"
      }
    let word = words.next()
    try save(machine, note, note.text + (note.text.hasSuffix("\n") ? "" : "\n") + "\(word) \(shown)\n")
    return "\(note.path) \(word) \(shown)"
  }

  func changePicture(_ machine: Machine, _ choice: UInt64, _ change: Operation.PictureChange) throws -> String {
    let pictures = machine.pictures
    guard !pictures.isEmpty else { return "nothing" }
    let picture = pictures[Int(choice % UInt64(pictures.count))]
    let path = Machine.root.appending(picture.path)
    switch change {
    case .repaint:
      let text = "PNG \(pictureWord())\n"
      words.replaced(picture.text, by: text)
      if choice % 2 == 0 {
        try machine.disk.write(path, text)
      } else {
        try machine.disk.save(path, Array(text.utf8))
      }
      return "\(picture.path) \(text)"
    case .rename, .move:
      let target =
        change == .rename
        ? path.parent.appending(PathBytes("pic \(choice / 64 % 12).png"))
        : Machine.root.appending(PathBytes("\(World.directories[Int(choice / 64 % 4)])\(path.name)"))
      guard machine.disk.status(target) == nil else { return "taken" }
      try move(machine, path, picture.text, to: target)
      return "\(picture.path) to \(target)"
    case .delete:
      words.replaced(picture.text, by: "")
      words.deletedPicture(picture.path.name.description)
      try machine.disk.delete(path)
      return "\(picture.path)"
    }
  }

  private func move(_ machine: Machine, _ path: PathBytes, _ text: String, to target: PathBytes) throws {
    try machine.disk.makeDirectory(target.parent)
    do throws(FileError) { try machine.disk.rename(path, to: target) } catch {
      // Onto another volume, as mv does.
      guard error.code == EXDEV else { throw error }
      try machine.disk.write(target, text)
      try machine.disk.delete(path)
    }
  }

  func moveTogether(_ machine: Machine, _ choice: UInt64, _ directory: Int) throws -> String {
    let showing = machine.notes.filter { $0.text.contains("![") }
    guard !showing.isEmpty else { return "nothing" }
    let note = showing[Int(choice % UInt64(showing.count))]
    let target = Machine.root.appending(PathBytes("\(World.directories[directory])\(note.path.name)"))
    guard machine.disk.status(target) == nil else { return "taken" }
    if World.id(of: note.text) == nil {
      words.loosened(note.text, isNamed: true)
      words.loosened(note.text, isMade: machine.hasVolume)
    }
    try move(machine, Machine.root.appending(note.path), note.text, to: target)
    var moved: [PathBytes] = [target]
    for picture in machine.pictures where note.text.contains("\(picture.path.name)") {
      let place = target.parent.appending(picture.path.name)
      guard picture.path.parent == note.path.parent, machine.disk.status(place) == nil else { continue }
      try move(machine, Machine.root.appending(picture.path), picture.text, to: place)
      moved.append(place)
    }
    return "\(note.path) to \(moved)"
  }
}
