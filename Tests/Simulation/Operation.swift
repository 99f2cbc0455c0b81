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
    }
  }

  /// The operations of a seed.
  static func draw(_ options: Options) -> [Operation] {
    var random = SplitMix(seed: options.seed)
    func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }
    return (0..<options.operations).map { _ in
      let machine = below(options.machines)
      let pick = random.next() >> 1
      return switch below(100) {
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
