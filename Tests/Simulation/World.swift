import FolderSync
import Glibc
import LocalInstance
import MarfaBase
import MarfaCopy
import PowerVFS
import Synchronization

/// A violation of what people are promised, with the operation it was seen after.
struct Violation: Error, CustomStringConvertible {
  var words: String
  var description: String { words }
}

/// The instance, the machines, and what people did.
final class World {
  /// Worlds of this process, for names.
  private static let made = Mutex(0)
  static let ownerKey = "marfa_k1_simulation_owner_key_000000000000"

  let clock = ManualClock()
  let server: Server
  var instance: Instance { server.instance }
  var database: Database { server.database }
  let folder: EntityID
  private(set) var machines: [Machine] = []
  var words = Words()
  private(set) var trace: Trace
  private let followed: String?
  private var followedAt: [String] = []
  /// The name of the file a person acts on just now; nil for any.
  var aim: PathBytes?
  /// What each person's editor opened last of a note, for stale buffers: machine and path to text.
  private var buffers: [String: String] = [:]

  init(_ options: Options) throws {
    _ = marfa_power_register()
    trace = Trace(verbose: options.verbose)
    followed = options.follow
    let clock = clock
    let world = World.made.withLock { made in
      made += 1
      return made
    }
    server = try Server(clock: clock, seed: options.seed, world: world, sabotage: Sabotage(options.sabotage))
    let row = try World.ask(
      server.instance, "POST", "/folders", ["title": "Notes", "search": ["types": ["core.note"]]])
    guard let id = row["item"]?["id"]?.text.flatMap({ EntityID($0) }) else {
      throw Violation(words: "no folder was made")
    }
    folder = id
    for number in 0..<options.machines {
      let machine = try Machine(
        number: number, clock: clock, server: server, ownerKey: World.ownerKey, seed: options.seed,
        sabotage: Sabotage(options.sabotage), world: world)
      // On one world in three a directory of the first machine is a volume of its own.
      if number == 0, options.seed % 3 == 0 { try machine.plugIn() }
      try addUnderCuts(machine, seed: options.seed &* 17 &+ UInt64(number))
      machines.append(machine)
    }
  }

  @discardableResult
  static func ask(_ instance: Instance, _ method: String, _ target: String, _ body: JSON? = nil) throws -> JSON {
    let answer = instance.handle(
      InstanceRequest(
        method: method, target: target,
        headers: [
          HTTPHeader("Authorization", "Bearer \(ownerKey)"), HTTPHeader("Content-Type", "application/json"),
        ], body: body?.write() ?? []))
    guard case .whole(let response) = answer else { throw Violation(words: "\(target) answered a stream") }
    let json = try response.body.isEmpty ? JSON.null : JSON(parsing: response.body)
    guard (200..<300).contains(response.status) else {
      throw Violation(words: "\(method) \(target): \(response.status) \(json.compact)")
    }
    return json
  }

  // MARK: - Doing

  func apply(_ operation: Operation) throws {
    clock.advance(nanoseconds: 40_000_000)
    let note: String
    do { note = try act(operation) } catch {
      trace.note("\(operation) failed")
      throw error
    }
    trace.note("\(operation) \(note)")
    try checkWire()
    try tellFollowed()
  }

  func act(_ operation: Operation) throws -> String {
    let note: String
    switch operation {
    case .create(let machine, let name, let directory): note = try create(machines[machine], name, directory)
    case .edit(let machine, let pick, let style): note = try edit(machines[machine], pick, style)
    case .editProperty(let machine, let pick, let value): note = try editProperty(machines[machine], pick, value)
    case .retag(let machine, let pick, let tag): note = try retag(machines[machine], pick, tag)
    case .rename(let machine, let pick, let name, let directory):
      note = try rename(machines[machine], pick, name, directory)
    case .delete(let machine, let pick): note = try delete(machines[machine], pick)
    case .sync(let machine): note = try sync(machines[machine])
    case .crash(let machine, let at): note = try crash(machines[machine], at)
    case .offline(let machine, let off):
      machines[machine].transport.isOffline = off
      note = ""
    case .loseAnswer(let machine, let at):
      machines[machine].transport.loseAnswerIn = at
      note = ""
    case .wait(let seconds):
      clock.advance(seconds: UInt64(seconds))
      note = ""
    case .during(let machine, let at, let amongChanges, let inner):
      note = try during(machines[machine], at, amongChanges, inner)
    case .slowSave(let machine, let pick): note = try slowSave(machines[machine], pick)
    case .clearOut(let machine, let confirms): note = try clearOut(machines[machine], confirms)
    case .unplug(let machine): note = try unplug(machines[machine])
    case .sweepLog: note = try sweepLog()
    case .serverPowerCut(let machine, let at, let seed): note = try serverPowerCut(machines[machine], at, seed)
    case .powerCut(let machine, let at, let seed): note = try powerCut(machines[machine], at, seed)
    }
    return note
  }

  private static func path(_ name: Int, _ directory: Int) -> PathBytes {
    let directories = ["", "Projects/", "Projects/Deep/", "Diary/"]
    return PathBytes("\(directories[directory])Note \(name).md")
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

  private func create(_ machine: Machine, _ name: Int, _ directory: Int) throws -> String {
    var path = Machine.root.appending(World.path(name, directory))
    if let aim, DocumentKind(name: aim) != nil { path = path.parent.appending(aim) }
    guard machine.disk.read(path) == nil else { return "taken" }
    try machine.disk.makeDirectory(path.parent)
    let word = words.next()
    words.wrote(word, on: machine.number)
    try machine.disk.write(path, "The first line.\n\n\(word)\n")
    return word
  }

  private func edit(_ machine: Machine, _ choice: UInt64, _ style: Operation.SaveStyle) throws -> String {
    guard let note = pick(machine, choice) else { return "nothing" }
    let path = Machine.root.appending(note.path)
    let key = "\(machine.number) \(note.path)"
    let opened = style == .staleBuffer ? buffer(key, stillOf: note.text) ?? note.text : note.text
    let word = words.next()
    let text = opened + (opened.hasSuffix("\n") ? "" : "\n") + word + "\n"
    words.replaced(note.text, by: text)
    words.wrote(text, on: machine.number)
    words.saved(World.id(of: text), line: World.line(of: text), on: machine.number)
    if World.id(of: note.text) == nil, style == .replace || style == .backup { words.loosened(text, isMade: true) }
    if style == .staleBuffer { words.shuffled(note.text + text) }
    buffers[key] = text
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

  /// The text an editor opened of this very note; nil where another note stands at the path now.
  private func buffer(_ key: String, stillOf text: String) -> String? {
    guard let opened = buffers[key] else { return nil }
    if let id = World.id(of: opened) { return id == World.id(of: text) ? opened : nil }
    return Words.found(in: opened).isDisjoint(with: Words.found(in: text)) ? nil : opened
  }

  private func editProperty(_ machine: Machine, _ choice: UInt64, _ value: Int) throws -> String {
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

  private func retag(_ machine: Machine, _ choice: UInt64, _ tag: Int) throws -> String {
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

  private func rename(_ machine: Machine, _ choice: UInt64, _ name: Int, _ directory: Int) throws -> String {
    guard let note = pick(machine, choice) else { return "nothing" }
    let target = Machine.root.appending(World.path(name, directory))
    guard machine.disk.read(target) == nil else { return "taken" }
    try machine.disk.makeDirectory(target.parent)
    if World.id(of: note.text) == nil { words.loosened(note.text, isNamed: true) }
    do throws(FileError) { try machine.disk.rename(Machine.root.appending(note.path), to: target) } catch {
      // Onto another volume, as mv does.
      guard error.code == EXDEV else { throw error }
      if World.id(of: note.text) == nil { words.loosened(note.text, isMade: true) }
      try machine.disk.write(target, note.text)
      try machine.disk.delete(Machine.root.appending(note.path))
    }
    return "\(note.path) to \(World.path(name, directory))"
  }

  private func delete(_ machine: Machine, _ choice: UInt64) throws -> String {
    guard let note = pick(machine, choice) else { return "nothing" }
    // What the file held is the person's to drop; what others added to the note meanwhile is not.
    words.replaced(note.text, by: "")
    words.deleted(note.text, World.id(of: note.text))
    try machine.disk.delete(Machine.root.appending(note.path))
    return "\(note.path)"
  }

  func sync(_ machine: Machine) throws -> String {
    do {
      guard case .pushed(let push) = try machine.run({ try $0.push(Machine.root) }) else { return "waiting" }
      let flagged = push.scan.flagged + (push.pull?.flagged ?? [])
      machine.held = Set(flagged.map(\.path))
      // What a person saved into a file whose item another put into the bin is nobody's fault: it stands in the file.
      machine.refused = Set(
        flagged.filter { $0.flag == Flag.refused.rawValue && !$0.reason.hasPrefix("its item is in the bin") }
          .map { "\($0.path) \($0.reason)" })
      machine.heldItems = Set(flagged.compactMap(\.item))
      return World.words(push)
    } catch let error as MarfaError where error.isEnvironmental {
      return error.code.rawValue
    }
  }

  static func words(_ push: FolderPush) -> String {
    let scan = push.scan
    let pull = push.pull ?? FolderPull()
    return
      "c\(scan.created) u\(scan.updated) r\(scan.renamed) m\(scan.missing) d\(scan.deleted) a\(push.drain.drain.answered) "
      + "w\(pull.written) rw\(pull.rewritten) mv\(pull.moved) rm\(pull.removed) f\(scan.flagged.count + pull.flagged.count)"
      + (pull.flagged + scan.flagged).map { " \($0.path) \($0.flag) \($0.reason)" }.joined()
  }

  func crash(_ machine: Machine, _ at: Int) throws -> String {
    machine.kill.arm(at: at)
    let result = Result { try machine.runArmed { try $0.push(Machine.root) } }
    let died = machine.kill.isDead
    let place = machine.kill.place
    machine.kill.reset()
    if died { return "died at \(place)" }
    switch result {
    case .success(.pushed(let push)): return "survived \(World.words(push))"
    case .success(.waiting): return "waiting"
    case .failure(let error):
      guard let known = error as? MarfaError, known.isEnvironmental else { throw error }
      return known.code.rawValue
    }
  }

  // MARK: - Quiet

  /// Lets everything settle: networks up, graces over, every machine pushing in turn until nothing moves.
  func settle() throws {
    for machine in machines {
      machine.transport.isOffline = false
      machine.transport.loseAnswerIn = -1
    }
    var quiet = 0
    for round in 0..<40 {
      clock.advance(seconds: 7)
      var moved = false
      for machine in machines {
        let before = machine.transport.writes
        let files = machine.notes.map { "\($0.path)\n\($0.text)" }
        let said = try sync(machine)
        trace.note("settle \(round) m\(machine.number) \(said)")
        try tellFollowed()
        if machine.transport.writes != before || machine.notes.map({ "\($0.path)\n\($0.text)" }) != files {
          moved = true
        }
      }
      quiet = moved ? 0 : quiet + 1
      if quiet == 2 { return }
    }
    throw Violation(words: "the machines do not settle: still sending or writing after 40 rounds")
  }

  // MARK: - Looking

  /// Prints where the followed word stands, where that changed.
  private func tellFollowed() throws {
    guard let followed else { return }
    var places = machines.flatMap { machine in
      machine.notes.filter { Words.found(in: $0.text).contains(followed) }.map { "m\(machine.number) \($0.path)" }
    }
    places += try items().filter { Words.found(in: $0.body).contains(followed) }.map { "item \($0.id) \($0.state)" }
    if places != followedAt { print("  \(followed): \(places)") }
    followedAt = places
  }

  /// Writes every store as it stands into `directory`, for a look at a violation.
  func keep(in directory: String) throws {
    try database.run("VACUUM INTO ?", Text("\(directory)/instance.sqlite"))
    for machine in machines { try machine.keepStore(at: "\(directory)/machine\(machine.number).sqlite") }
  }

  /// A note as the instance holds it.
  struct Held {
    var id: Text
    var state: Text
    var title: Text
    var body: String
    /// What a conflicted copy was made from.
    var original: Text?
    var isConflictedCopy: Bool { original != nil }
  }

  /// What the instance holds of notes: live ones, those in the bin, and every text of their history.
  func items() throws -> [Held] {
    // By its link to the original: a person may take the tag away.
    var copies: [Text: Text] = [:]
    var next: Text?
    repeat {
      let page = try World.ask(
        instance, "GET", "/edges?edge_type=derived-from&limit=200" + (next.map { "&cursor=\($0)" } ?? ""))
      for row in page["data"]?.array ?? [] {
        let edge = row["edge"] ?? row
        if let source = edge["source_id"]?.text { copies[source] = edge["target_id"]?.text ?? "" }
      }
      next = page["next_cursor"]?.text
    } while next != nil
    var found: [Held] = []
    for state in ["active", "archived", "trashed"] {
      var cursor: Text?
      repeat {
        let page = try World.ask(
          instance, "GET",
          "/items?type=core.note&state=\(state)&tier=all&include=metadata&limit=200"
            + (cursor.map { "&cursor=\($0)" } ?? ""))
        for row in page["data"]?.array ?? [] {
          let item = row["item"] ?? row
          found.append(
            Held(
              id: item["id"]?.text ?? "", state: item["state"]?.text ?? "",
              title: item["properties"]?["title"]?.text ?? "", body: item["properties"]?["body"]?.text?.string ?? "",
              original: copies[item["id"]?.text ?? ""]))
        }
        cursor = page["next_cursor"]?.text
      } while cursor != nil
    }
    return found
  }

  /// The words of each item's earlier versions.
  func historyByItem() throws -> [String: Set<String>] {
    try database.all("SELECT item, properties FROM snapshot") { ($0.string(0), $0.text(1)) }
      .reduce(into: [:]) { found, row in
        let body = (try? JSON(parsing: row.1.bytes))?["body"]?.text?.string ?? ""
        found[row.0, default: []].formUnion(Words.found(in: body))
      }
  }
}
