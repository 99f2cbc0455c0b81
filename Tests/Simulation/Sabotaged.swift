import Glibc
import MarfaBase

/// Whether the simulation can see: each guard of the engine is taken away in turn, and the model must miss it.
enum Sabotaged {
  /// What is to be looked for: `all`, or bugs' names with commas between.
  static func named(_ word: String) -> [Sabotage.Bug]? {
    if word == "all" { return Sabotage.Bug.allCases }
    let names = word.split(separator: ",")
    let bugs = names.compactMap { Sabotage.Bug(rawValue: String($0)) }
    return bugs.isEmpty || bugs.count < names.count ? nil : bugs
  }

  /// Plays seeds until each is found. Whether all were.
  static func run(_ options: Options) -> Bool {
    var missed: [Sabotage.Bug] = []
    for bug in options.sabotages where !find(bug, options) { missed.append(bug) }
    if !missed.isEmpty { print("not found: \(missed.map(\.rawValue))") }
    return missed.isEmpty
  }

  /// Whether a world is without a violation up to that operation where no guard is gone.
  private static func isClean(_ options: Options, to done: Int) -> Bool {
    var whole = options
    whole.sabotage = nil
    let operations = Array(Operation.draw(options).prefix(done))
    return Simulate.play(operations, whole).violation == nil
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
      one.isWide = true
      let outcome = Simulate.play(Operation.draw(one), one)
      played += outcome.done
      // What the same people see with every guard in its place is no sight of this one's absence.
      if let violation = outcome.violation, isClean(one, to: outcome.done) {
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
