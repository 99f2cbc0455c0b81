import MarfaBase

/// One thing that happens in the world. Drawn ahead of its effects, so that a failing run can be shrunk by leaving
/// operations out.
enum Operation: CustomStringConvertible {
  /// A person writes a new note.
  case create(machine: Int, name: Int, directory: Int)
  /// A person adds a line to a note, by a style of saving.
  case edit(machine: Int, pick: UInt64, style: SaveStyle)
  /// A person changes a property in a note's frontmatter.
  case editProperty(machine: Int, pick: UInt64, value: Int)
  /// A person adds a tag, or takes one out.
  case retag(machine: Int, pick: UInt64, tag: Int)
  /// A person renames or moves a note.
  case rename(machine: Int, pick: UInt64, name: Int, directory: Int)
  /// A person deletes a note.
  case delete(machine: Int, pick: UInt64)
  /// The machine pushes, settled.
  case sync(machine: Int)
  /// The machine pushes and dies at that call of the disk, the network or the store.
  case crash(machine: Int, at: Int)
  /// The network of a machine goes or comes.
  case offline(machine: Int, Bool)
  /// An answer of the next push is lost after the server took the request.
  case loseAnswer(machine: Int, at: Int)
  /// Time passes, seconds.
  case wait(Int)
  /// The machine pushes, and its person acts at that call of the disk: of all calls, or of renames.
  indirect case during(machine: Int, at: Int, amongChanges: Bool, Operation)
  /// An editor that takes the file away and writes it back two pushes later.
  case slowSave(machine: Int, pick: UInt64)
  /// Every note of the machine is deleted, by mistake or not.
  case clearOut(machine: Int, confirms: Bool)
  /// A volume that is mounted in the folder is gone for a while.
  case unplug(machine: Int)
  /// The machine pushes, and its power goes at that call or after the last.
  case powerCut(machine: Int, at: Int, seed: UInt64)
  /// The machine pushes, and the server's power goes at that write of its store or after the last.
  case serverPowerCut(machine: Int, at: Int, seed: UInt64)
  /// The server forgets its log up to now.
  case sweepLog

  /// How an editor saves.
  enum SaveStyle: Int, CaseIterable {
    /// Truncates and writes.
    case inPlace
    /// Writes a new file and renames it over.
    case replace
    /// Moves the old file to a backup, writes a new one, deletes the backup (vim without backupcopy).
    case backup
    /// Writes the text it opened long ago with its addition: a stale buffer.
    case staleBuffer
  }

  var description: String {
    switch self {
    case .create(let machine, let name, let directory): "m\(machine) create n\(name) d\(directory)"
    case .edit(let machine, let pick, let style): "m\(machine) edit \(pick % 1000) \(style)"
    case .editProperty(let machine, let pick, let value): "m\(machine) property \(pick % 1000) \(value)"
    case .retag(let machine, let pick, let tag): "m\(machine) retag \(pick % 1000) \(tag)"
    case .rename(let machine, let pick, let name, let directory):
      "m\(machine) rename \(pick % 1000) n\(name) d\(directory)"
    case .delete(let machine, let pick): "m\(machine) delete \(pick % 1000)"
    case .sync(let machine): "m\(machine) sync"
    case .crash(let machine, let at): "m\(machine) crash \(at)"
    case .offline(let machine, let off): "m\(machine) \(off ? "offline" : "online")"
    case .loseAnswer(let machine, let at): "m\(machine) lose-answer \(at)"
    case .wait(let seconds): "wait \(seconds)"
    case .during(let machine, let at, let amongChanges, let inner):
      "m\(machine) during \(amongChanges ? "rename" : "call") \(at): \(inner)"
    case .slowSave(let machine, let pick): "m\(machine) slow-save \(pick % 1000)"
    case .clearOut(let machine, let confirms): "m\(machine) clear-out \(confirms ? "confirm" : "restore")"
    case .unplug(let machine): "m\(machine) unplug"
    case .sweepLog: "sweep-log"
    case .serverPowerCut(let machine, let at, let seed): "m\(machine) server-power-cut \(at) \(seed % 1000)"
    case .powerCut(let machine, let at, let seed): "m\(machine) power-cut \(at) \(seed % 1000)"
    }
  }

  /// The operations of a seed.
  static func draw(_ options: Options) -> [Operation] {
    var random = SplitMix(seed: options.seed)
    func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }
    return (0..<options.operations).map { _ in
      let machine = below(options.machines)
      let pick = random.next() >> 1
      func person() -> Operation {
        switch below(10) {
        case 0..<2: .create(machine: machine, name: below(40), directory: below(4))
        case 2..<8: .edit(machine: machine, pick: pick, style: SaveStyle(rawValue: below(3)) ?? .inPlace)
        case 8: .rename(machine: machine, pick: pick, name: below(40), directory: below(4))
        default: .delete(machine: machine, pick: pick)
        }
      }
      return switch below(115) {
      case 114: .serverPowerCut(machine: machine, at: below(60), seed: pick)
      case 110..<114: .powerCut(machine: machine, at: below(700), seed: pick)
      case 100..<107:
        below(2) == 0
          ? .during(machine: machine, at: below(6), amongChanges: true, person())
          : .during(machine: machine, at: below(700), amongChanges: false, person())
      case 107: .slowSave(machine: machine, pick: pick)
      case 108:
        below(4) == 0 ? .clearOut(machine: machine, confirms: below(3) == 0) : .unplug(machine: machine)
      case 109: .sweepLog
      case 0..<12: .create(machine: machine, name: below(40), directory: below(4))
      case 12..<34: .edit(machine: machine, pick: pick, style: SaveStyle(rawValue: below(4)) ?? .inPlace)
      case 34..<40: .editProperty(machine: machine, pick: pick, value: below(1000))
      case 40..<45: .retag(machine: machine, pick: pick, tag: below(5))
      case 45..<54: .rename(machine: machine, pick: pick, name: below(40), directory: below(4))
      case 54..<58: .delete(machine: machine, pick: pick)
      case 58..<82: .sync(machine: machine)
      case 82..<87: .crash(machine: machine, at: below(400))
      case 87..<90: .offline(machine: machine, below(3) == 0)
      case 90..<93: .loseAnswer(machine: machine, at: below(12))
      default: .wait(1 + below(9))
      }
    }
  }
}
