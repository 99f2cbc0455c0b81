import Glibc
import MarfaBase

/// Whether the simulation can see: each guard of the engine is taken away in turn, and the model must miss it.
enum Sabotaged {
  /// Those found within a few hundred operations.
  static let quick: [Sabotage.Bug] = []

  /// `all`, `quick`, or one bug's name.
  static func named(_ word: String) -> [Sabotage.Bug]? {
    switch word {
    case "all": Sabotage.Bug.allCases
    case "quick": quick
    default: Sabotage.Bug(rawValue: word).map { [$0] }
    }
  }

  /// Plays seeds until each is found. Whether all were.
  static func run(_ options: Options) -> Bool {
    var missed: [Sabotage.Bug] = []
    for bug in options.sabotages {
      if !find(bug, options) { missed.append(bug) }
    }
    if !missed.isEmpty { print("not found: \(missed.map(\.rawValue))") }
    return missed.isEmpty
  }

  private static func find(_ bug: Sabotage.Bug, _ options: Options) -> Bool {
    var played = 0
    var seed = options.seed
    while played < options.patience {
      var one = options
      one.seed = seed
      one.machines = 2 + Int(seed % 2)
      one.operations = min(1_000, options.patience - played)
      one.sabotage = bug
      let outcome = Simulate.play(Operation.draw(one), one)
      played += outcome.done
      if let violation = outcome.violation {
        print(
          "\(bug.rawValue): found after \(played) operations, seed \(seed) with \(one.machines) machines: "
            + "\(String("\(violation)".prefix(160)).split(separator: "\n").first ?? "")")
        fflush(nil)
        return true
      }
      seed += 1
    }
    print("\(bug.rawValue): NOT FOUND in \(played) operations from seed \(options.seed)")
    fflush(nil)
    return false
  }
}
