import FolderSync
import MarfaBase
import MarfaCopy

/// What goes on while a machine works, and what goes wrong around it.
extension World {
  /// A push in which the person acts at one call of the disk.
  func during(_ machine: Machine, _ at: Int, _ amongChanges: Bool, _ inner: Operation) throws -> String {
    var said = "never"
    var failure: (any Error)?
    machine.kill.interrupt(at: at, among: amongChanges ? .renames : .disk) { [self] name in
      // At a rename the person is at that very file.
      aim = amongChanges ? name : nil
      defer { aim = nil }
      do { said = try act(inner) } catch { failure = error }
    }
    let push = try sync(machine)
    _ = machine.kill.isUninterrupted()
    if let failure { throw failure }
    forkTwins(of: machine)
    return "\(said) in \(push)"
  }

  /// Another program changes a note while the machine of somebody who works on it syncs: they save at one of its requests,
  /// between what was read of the file and what comes for it.
  func race(_ machine: Machine, _ choice: UInt64, _ at: Int, _ change: Operation.Elsewhere) throws -> String {
    guard let id = pick(machine, choice).flatMap({ World.id(of: $0.text) }) else { return "nothing" }
    // What waits goes first, so that the note comes changed as its file stands.
    _ = try sync(machine)
    guard let item = try items().first(where: { $0.id.string == id }), item.state == "active" else { return "nothing" }
    let other = try self.change(item, change, choice)
    var said = "never"
    var failure: (any Error)?
    machine.kill.interrupt(at: at, among: .requests) { [self] _ in
      guard let now = machine.notes.firstIndex(where: { World.id(of: $0.text) == id }) else { return }
      do { said = try edit(machine, UInt64(now), choice % 2 == 0 ? .inPlace : .replace) } catch { failure = error }
    }
    let push = try sync(machine)
    _ = machine.kill.isUninterrupted()
    if let failure { throw failure }
    forkTwins(of: machine)
    return "\(other), \(said) in \(push)"
  }

  private func forkTwins(of machine: Machine) {
    // Found where both moved on: what was displaced stands beside what landed, and holds the same words but one.
    for note in machine.notes where note.path.description.contains("(saved while syncing") { words.fork(note.text) }
    // A file saved while it is moved stays where it was beside the moved one (F20.11), a note of its own from then on.
    let files = Dictionary(grouping: machine.notes) { World.id(of: $0.text) }
    for (id, notes) in files where id != nil && notes.count > 1 { notes.forEach { words.fork($0.text) } }
    // The one that stayed may carry no id yet.
    for note in files[nil] ?? [] {
      let found = Words.found(in: note.text)
      let isTwin = machine.notes.contains { $0.path != note.path && !found.isDisjoint(with: Words.found(in: $0.text)) }
      if isTwin { words.fork(note.text) }
    }
  }

  /// A push whose computer loses its power at a call, or right after it.
  func powerCut(_ machine: Machine, _ at: Int, _ seed: UInt64) throws -> String {
    let said = try crash(machine, at)
    machine.cutPower(seed: seed)
    return said
  }

  /// A push in which the server's computer loses its power at a write, or right after it.
  func serverPowerCut(_ machine: Machine, _ at: Int, _ seed: UInt64) throws -> String {
    server.kill.arm(at: at)
    let said = try sync(machine)
    let place = server.kill.isDead ? "died at \(server.kill.place)" : "survived"
    try server.cutPower(seed: seed)
    return "\(place) \(said)"
  }

  /// `add`, its power cut at some calls and once it is done: each time it can be run again, and once it said that it is done
  /// the folder is there and on the list.
  func addUnderCuts(_ machine: Machine, seed: UInt64) throws {
    var random = SplitMix(seed: seed)
    func add() throws { _ = try machine.run { try $0.add(Machine.root, following: folder, yes: true) } }
    for _ in 0..<Int.random(in: 0..<3, using: &random) {
      machine.kill.arm(at: Int.random(in: 0..<160, using: &random))
      let result = Result { try machine.runArmed { _ = try $0.add(Machine.root, following: folder, yes: true) } }
      if case .failure(let error) = result, !machine.kill.isDead { throw error }
      machine.kill.reset()
      machine.cutPower(seed: random.next())
    }
    try add()
    machine.cutPower(seed: random.next())
    let listed = try machine.run { try $0.list() }
    guard listed.contains(where: { $0.dir == Machine.root }) else {
      throw Violation(words: "machine \(machine.number) added the folder, and it is not on the list")
    }
    _ = try machine.run { try $0.status(Machine.root) }
  }

  /// A file that is away for two pushes less than the grace apart is no delete (F21.1).
  func slowSave(_ machine: Machine, _ choice: UInt64) throws -> String {
    guard let note = pick(machine, choice), let id = World.id(of: note.text) else { return "nothing" }
    let before = try state(of: id)
    let path = Machine.root.appending(note.path)
    try machine.disk.delete(path)
    _ = try sync(machine)
    clock.advance(seconds: 1)
    _ = try sync(machine)
    if before == "active", try state(of: id) == "trashed" {
      throw Violation(words: "\(note.path) was away for a second, and its note is in the bin")
    }
    // Moved just before, missed where it was, and written back there because the item changed meanwhile (F21.4): a copy.
    if machine.notes.contains(where: { World.id(of: $0.text) == id && $0.path != note.path }) { words.fork(note.text) }
    words.saved(id, line: World.line(of: note.text), on: machine.number)
    let word = words.next()
    let text = note.text + (note.text.hasSuffix("\n") ? "" : "\n") + word + "\n"
    if let back = machine.disk.read(path).map({ String(decoding: $0, as: UTF8.self) }) {
      // Written back meanwhile, by a change that came in: the editor goes over it.
      words.replaced(back, by: text)
      words.shuffled(back + text)
    }
    words.wrote(text, on: machine.number)
    try machine.disk.write(path, text)
    return "\(note.path) \(word)"
  }

  /// Many files gone at once wait for a person (F46).
  func clearOut(_ machine: Machine, _ confirms: Bool) throws -> String {
    machine.transport.isOffline = false
    machine.transport.loseAnswerIn = -1
    _ = try sync(machine)
    let notes = machine.notes
    let ids = Set(notes.compactMap { World.id(of: $0.text) })
    let live = Set(try items().filter { $0.state == "active" }.map(\.id.string)).intersection(ids)
    guard live.count > 30 else { return "too few" }
    for note in notes { try machine.disk.delete(Machine.root.appending(note.path)) }
    _ = try sync(machine)
    clock.advance(seconds: 6)
    _ = try sync(machine)
    let trashed = Set(try items().filter { $0.state == "trashed" }.map(\.id.string)).intersection(live)
    guard trashed.isEmpty else {
      throw Violation(words: "\(notes.count) files went at once, and \(trashed.count) notes are in the bin unasked")
    }
    if confirms {
      for note in notes {
        words.replaced(note.text, by: "")
        words.deleted(note.text, World.id(of: note.text))
      }
      _ = try machine.run { try $0.confirm(Machine.root) }
    } else {
      // What others had not sent yet of these files is in no copy: only what this folder agreed on comes back.
      for note in notes where !live.contains(World.id(of: note.text) ?? "") { words.replaced(note.text, by: "") }
      _ = try machine.run { try $0.restore(Machine.root) }
    }
    return "\(notes.count) files"
  }

  /// What lies on a volume that is not there is not missing (P2.1).
  func unplug(_ machine: Machine) throws -> String {
    guard machine.hasVolume else { return "no volume" }
    // A scan has seen it mounted.
    _ = try sync(machine)
    try machine.unplug()
    _ = try sync(machine)
    clock.advance(seconds: 6)
    _ = try sync(machine)
    _ = try sync(machine)
    try machine.plugIn()
    return try sync(machine)
  }

  /// The log's retention took everything (EV10).
  func sweepLog() throws -> String {
    try database.run("DELETE FROM event WHERE id < (SELECT max(id) FROM event)")
    return ""
  }

  private func state(of id: String) throws -> String {
    try items().first { $0.id.string == id }?.state.string ?? "gone"
  }

  /// What must hold of the requests of every machine.
  func checkWire() throws {
    for machine in machines {
      if let words = machine.transport.wire.violation { throw Violation(words: "machine \(machine.number): \(words)") }
    }
  }

  /// Nothing is in the bin that no person put there, and nobody's edits are in conflict with themselves.
  func checkWhy(_ items: [Held]) throws {
    let history = try self.historyByItem()
    func all(_ item: Held) -> Set<String> { Words.found(in: item.body).union(history[item.id.string] ?? []) }
    let byID = Dictionary(items.map { ($0.id, $0) }) { one, _ in one }
    for item in items where item.state == "trashed" && !words.droppedIDs.contains(item.id.string) {
      let found = all(item)
      // A conflicted copy that says nothing of its own goes by itself (P8.1).
      if let original = item.original.flatMap({ byID[$0] }), found.isSubset(of: all(original)) { continue }
      guard found.isDisjoint(with: words.dropped), found.isDisjoint(with: words.forked) else { continue }
      throw Violation(words: "nobody deleted \(item.id) \(item.title), and it is in the bin: \(found.sorted())")
    }
    for copy in items {
      guard let original = copy.original.flatMap({ byID[$0] }), original.original == nil else { continue }
      let found = all(copy).union(all(original))
      guard found.isDisjoint(with: words.stale), found.isDisjoint(with: words.forked) else { continue }
      let hands = found.reduce(into: Set<Int>()) { $0.formUnion(words.hands[$1] ?? []) }
      guard hands.count < 2 else { continue }
      throw Violation(words: "\(copy.title) is a conflict of machine \(hands.sorted()) with itself: \(found.sorted())")
    }
  }
}
