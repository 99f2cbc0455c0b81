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
  var trace: Trace
  let followed: String?
  var followedAt: [String] = []
  /// The name of the file a person acts on just now; nil for any.
  var aim: PathBytes?
  /// What each person's editor opened last of a note, for stale buffers: machine and path to text.
  var buffers: [String: String] = [:]

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
      // On some worlds a directory of the first machine or the last is a volume of its own.
      if number == 0 && options.seed % 3 == 0 || number == options.machines - 1 && options.seed % 4 == 1 {
        try machine.plugIn()
      }
      try addUnderCuts(machine, seed: options.seed &* 17 &+ UInt64(number))
      machine.transport.isTold = followed != nil
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
    case .link(let machine, let pick, let to, let form): note = try link(machines[machine], pick, to, form)
    case .unlink(let machine, let pick): note = try unlink(machines[machine], pick)
    case .edgeLine(let machine, let pick, let to, let form): note = try edgeLine(machines[machine], pick, to, form)
    case .picture(let machine, let name, let directory): note = try picture(machines[machine], name, directory)
    case .embed(let machine, let pick, let to, let form): note = try embed(machines[machine], pick, to, form)
    case .changePicture(let machine, let pick, let change): note = try changePicture(machines[machine], pick, change)
    case .moveTogether(let machine, let pick, let directory):
      note = try moveTogether(machines[machine], pick, directory)
    case .elsewhere(let pick, let change): note = try elsewhere(pick, change)
    case .race(let machine, let pick, let at, let change): note = try race(machines[machine], pick, at, change)
    case .deleteMany(let machine): note = try deleteMany(machines[machine])
    case .renameDirectory(let machine, let from, let to): note = try renameDirectory(machines[machine], from, to)
    case .vanish(let machine, let mountPoint): note = try vanish(machines[machine], mountPoint: mountPoint)
    case .unmountInner(let machine): note = try unmountInner(machines[machine])
    case .setClock(let seconds):
      clock.setWall(Timestamp(milliseconds: clock.now.milliseconds + Int64(seconds) * 1000))
      note = ""
    case .serverPowerCut(let machine, let at, let seed): note = try serverPowerCut(machines[machine], at, seed)
    case .powerCut(let machine, let at, let seed): note = try powerCut(machines[machine], at, seed)
    }
    return note
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
      let embeds = push.scan.embeds + (push.pull?.embeds ?? [])
      machine.unresolved = (embeds + flagged.filter { $0.flag == Flag.edges.rawValue }).map { ($0.path, $0.reason) }
      // A link of a body that names nothing keeps no pull from writing its file (F12.8).
      let linksAlone = flagged.filter { $0.flag == Flag.edges.rawValue && $0.reason.hasPrefix("in the body: ") }
      machine.held.subtract(
        Set(linksAlone.map(\.path)).subtracting(Set(flagged).subtracting(linksAlone).map(\.path)))
      machine.isPaused = push.scan.paused > 0 || (push.pull?.paused ?? 0) > 0
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
      + (pull.flagged + scan.flagged + scan.embeds + pull.embeds).map { " \($0.path) \($0.flag) \($0.reason)" }.joined()
  }

  func crash(_ machine: Machine, _ at: Int) throws -> String {
    // One in four dies at a request: where what is on the disk and what the server took part.
    if at % 4 == 0 { machine.kill.arm(at: at / 4 % 24, amongRequests: true) } else { machine.kill.arm(at: at) }
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
        let files = (machine.notes + machine.pictures).map { "\($0.path)\n\($0.text)" }
        let said = try sync(machine)
        trace.note("settle \(round) m\(machine.number) \(said)")
        try tellFollowed()
        let now = (machine.notes + machine.pictures).map { "\($0.path)\n\($0.text)" }
        if machine.transport.writes != before || now != files { moved = true }
      }
      quiet = moved ? 0 : quiet + 1
      if quiet == 2 {
        guard let paused = machines.first(where: \.isPaused) else { return }
        try answer(paused)
        quiet = 0
      }
    }
    throw Violation(words: "the machines do not settle: still sending or writing after 40 rounds")
  }
}
