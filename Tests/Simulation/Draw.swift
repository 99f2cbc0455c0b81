import MarfaBase

extension Operation {
  /// The operations of a seed.
  static func draw(_ options: Options) -> [Operation] {
    var random = SplitMix(seed: options.seed)
    return (0..<options.operations).map { _ in
      options.isWide ? drawWide(options.machines, &random) : drawCore(options.machines, &random)
    }
  }

  /// What people do to words, and what goes wrong around them.
  private static func drawCore(_ machines: Int, _ random: inout SplitMix) -> Operation {
    func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }
    let machine = below(machines)
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

  /// All that, with links, embeds, pictures, other programs, directories and volumes that go.
  private static func drawWide(_ machines: Int, _ random: inout SplitMix) -> Operation {
    func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }
    let machine = below(machines)
    let pick = random.next() >> 1
    return switch below(1000) {
    case 0..<455: act(of: machine, &random)
    case 455..<640: .sync(machine: machine)
    case 640..<680: .crash(machine: machine, at: below(500))
    case 680..<740: during(machine, &random)
    case 740..<765: .offline(machine: machine, below(3) == 0)
    case 765..<790: .loseAnswer(machine: machine, at: below(12))
    case 790..<830: .elsewhere(pick: pick, change: Elsewhere.allCases[below(Elsewhere.allCases.count)])
    case 830..<838: .slowSave(machine: machine, pick: pick)
    case 838..<840: .clearOut(machine: machine, confirms: below(3) == 0)
    case 840..<843: .deleteMany(machine: machine)
    case 843..<849: .unplug(machine: machine)
    case 849..<856: .unmountInner(machine: machine)
    case 856..<862: .vanish(machine: machine, mountPoint: below(2) == 0)
    case 862..<870: .renameDirectory(machine: machine, from: 1 + below(3), to: 1 + below(3))
    case 870..<874: .setClock(below(2) == 0 ? -below(4000) : below(90_000))
    case 874..<882: .sweepLog
    case 882..<914: .powerCut(machine: machine, at: below(700), seed: pick)
    case 914..<923: .serverPowerCut(machine: machine, at: below(60), seed: pick)
    case 923..<945:
      .race(
        machine: machine, pick: pick, at: below(5),
        change: [.append, .append, .retitle, .tag, .trash, .archive][below(6)])
    default: .wait(1 + below(9))
    }
  }

  private static func during(_ machine: Int, _ random: inout SplitMix) -> Operation {
    func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }
    let isAtRename = below(2) == 0
    let at = below(isAtRename ? 6 : 700)
    if below(8) == 0 {
      return .during(
        machine: machine, at: at, amongChanges: isAtRename,
        .elsewhere(pick: random.next() >> 1, change: Elsewhere.allCases[below(Elsewhere.allCases.count)]))
    }
    return .during(machine: machine, at: at, amongChanges: isAtRename, act(of: machine, &random))
  }

  /// Something a person does to the files of their machine.
  private static func act(of machine: Int, _ random: inout SplitMix) -> Operation {
    func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }
    let pick = random.next() >> 1
    let to = random.next() >> 1
    func form() -> LinkForm { LinkForm.allCases[below(LinkForm.allCases.count)] }
    return switch below(90) {
    case 0..<12: .create(machine: machine, name: below(60), directory: below(4))
    case 12..<34: .edit(machine: machine, pick: pick, style: SaveStyle(rawValue: below(4)) ?? .inPlace)
    case 34..<40: .editProperty(machine: machine, pick: pick, value: below(1000))
    case 40..<45: .retag(machine: machine, pick: pick, tag: below(5))
    case 45..<53: .rename(machine: machine, pick: pick, name: below(60), directory: below(4))
    case 53..<57: .delete(machine: machine, pick: pick)
    case 57..<65: .link(machine: machine, pick: pick, to: to, form: form())
    case 65..<68: .unlink(machine: machine, pick: pick)
    case 68..<73: .edgeLine(machine: machine, pick: pick, to: to, form: form())
    case 73..<77: .picture(machine: machine, name: below(12), directory: below(4))
    case 77..<83:
      .embed(machine: machine, pick: pick, to: to, form: EmbedForm.allCases[below(EmbedForm.allCases.count)])
    case 83..<88:
      .changePicture(machine: machine, pick: pick, change: PictureChange.allCases[below(PictureChange.allCases.count)])
    default: .moveTogether(machine: machine, pick: pick, directory: below(4))
    }
  }
}
