import MarfaBase

extension World {
  /// What must hold once everything is quiet: all machines agree, every saved word is findable, nothing is doubled, and a
  /// further pass sends nothing.
  func check() throws {
    let items = try self.items()
    try checkRefused(items)
    let bin = Set(items.filter { $0.state == "trashed" }.map(\.id.string))
    // A file a person changed while its item went to the bin stays theirs, on their machine alone (F35, `kept`).
    let owners = try machines.map { try $0.owners() }
    // Whose a file is: what the machine knows it as; its line may still be that of one in the bin.
    func owner(_ machine: Machine, _ note: (path: PathBytes, text: String)) -> String {
      owners[machine.number][note.path.description] ?? World.id(of: note.text) ?? ""
    }
    func shared(_ machine: Machine) -> [(path: PathBytes, text: String)] {
      machine.notes.filter { !bin.contains(owner(machine, $0)) }
    }
    // Nor is a note written where such a file stands, or where anything else holds it, and the machine says so (F32.1):
    // a note one machine says it holds or has not written stays there as it is.
    let held = machines.reduce(into: Set<String>()) { held, machine in
      held.formUnion(machine.heldItems)
      for note in machine.notes where machine.held.contains(note.path.description) {
        held.insert(owner(machine, note))
        if let id = World.id(of: note.text) { held.insert(id) }
      }
    }
    func compared(_ machine: Machine) -> [(path: PathBytes, text: String)] {
      shared(machine).filter { !held.contains(owner(machine, $0)) }
    }
    let mine = compared(machines[0])
    for machine in machines.dropFirst() {
      let theirs = compared(machine)
      guard mine.map(\.path) == theirs.map(\.path) else {
        let one = Set(mine.map(\.path))
        let two = Set(theirs.map(\.path))
        throw Violation(
          words: "machines 0 and \(machine.number) hold other files: only 0: \(one.subtracting(two).sorted()), only "
            + "\(machine.number): \(two.subtracting(one).sorted())")
      }
      for (one, two) in zip(mine, theirs) where World.meaning(of: one.text) != World.meaning(of: two.text) {
        throw Violation(
          words: "\(one.path) differs between machines 0 and \(machine.number):\n\(one.text)\n-- and --\n\(two.text)")
      }
    }
    try checkWhy(items)
    let live = items.filter { $0.state != "trashed" }
    var findable: Set<String> = []
    for item in items { findable.formUnion(Words.found(in: item.body)) }
    for machine in machines {
      for note in machine.notes + machine.pictures { findable.formUnion(Words.found(in: note.text)) }
    }
    findable.formUnion(try pictureWords())
    for picture in try self.items("core.file,core.file.image") {
      if let blob = picture.blob { findable.formUnion(Words.found(in: server.text(of: blob))) }
    }
    var lost = words.saved.filter { !findable.contains($0) && !words.overwritten.contains($0) }
    if !lost.isEmpty {
      // A save from a spent line goes over what others wrote since (F23.6): their words stand in the history.
      let history = try self.historyByItem()
      lost.removeAll { word in words.spentIDs.contains { history[$0]?.contains(word) == true } }
    }
    if !lost.isEmpty { throw Violation(words: "words are gone: \(lost.prefix(5))") }
    let files = Set(machines.flatMap { machine in shared(machine).map { owner(machine, $0) } }).subtracting([""])
    // A note whose place something else holds on every machine has no file, and each machine says so (F32.1).
    let told = machines.dropFirst().reduce(machines[0].heldItems) { $0.intersection($1.heldItems) }
    let without = live.filter { !files.contains($0.id.string) }
    let untold = without.filter { !told.contains($0.id.string) }
    if !untold.isEmpty {
      throw Violation(words: "notes without a file on any machine: \(untold.map { "\($0.id) \($0.title)" })")
    }
    if files.count != live.count - without.count {
      throw Violation(words: "\(live.count) live notes, but files of \(files.count)")
    }
    // A conflicted copy rightly repeats its original's words; two notes that both hold a word were doubled otherwise.
    var seen: [String: Held] = [:]
    for item in live where !item.isConflictedCopy {
      for word in Words.found(in: item.body).subtracting(words.forked) {
        if let other = seen[word] {
          throw Violation(words: "\(word) stands in two live notes: \(other) and \(item)")
        }
        seen[word] = item
      }
    }
    try checkLinks(items, owners, held: held)
  }

  /// Nothing a machine sent was refused, but what it sent of something in the bin before it heard of that: its person is told
  /// and the file stays as typed (F9.6, F11.30).
  private func checkRefused(_ items: [Held]) throws {
    let bin = try items + self.items("core.file,core.file.image")
    let gone = words.droppedIDs.union(bin.filter { $0.state == "trashed" }.map(\.id.string))
    for machine in machines {
      let refused = machine.refused.filter { reason in
        !reason.hasSuffix("item_not_found: The item is in the bin.")
          && !(reason.contains("item_not_found: Edge ") && gone.contains { reason.hasSuffix($0) })
      }
      guard refused.isEmpty else {
        throw Violation(words: "the server refused what machine \(machine.number) sent: \(refused.sorted())")
      }
    }
  }

  /// What a note's file says, however it is laid out: its frontmatter's lines in order, the version line left out (F24.2)
  /// and those of edges, which each machine spells as its person did (F11.15), and its body.
  static func meaning(of text: String) -> [String] {
    let (front, body) = parts(of: text)
    guard let front else { return [text] }
    var isEdges = false
    let lines = front.filter { line in
      if line.hasPrefix(" ") || line.hasPrefix("-") { return !isEdges }
      isEdges = ["about:", "references:", "derived-from:", "has-attachment:", "attached-to:"].contains {
        line.hasPrefix($0)
      }
      return !isEdges && !line.hasPrefix("marfa_version: ")
    }
    return lines.sorted() + ["---"] + body
  }

  /// The version line a note's file carries.
  static func line(of text: String) -> String? {
    text.split(separator: "\n").first { $0.hasPrefix("marfa_version: ") }.map(String.init)
  }

  /// The id a note's file carries.
  static func id(of text: String) -> String? {
    text.split(separator: "\n").first { $0.hasPrefix("marfa_id: ") }.map { String($0.dropFirst(10)) }
  }
}
