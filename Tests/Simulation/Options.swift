import MarfaBase

/// What the command line of the simulation says.
struct Options {
  var seed: UInt64 = 1
  var operations = 2_000
  var machines = 2
  var verbose = false
  /// With links, pictures, other programs and vanishing volumes too.
  var isWide = false
  var shrink = false
  /// Where the stores of the machines and of the instance are kept as they stood at a violation.
  var keep: String?
  /// A guard that is gone.
  var sabotage: Sabotage.Bug?
  /// The guards taken away in turn: each must be missed by the model.
  var sabotages: [Sabotage.Bug] = []
  /// How many operations a guard's absence may take to be seen.
  var patience = 20_000
  /// A word whose places are told after every step, to see where it goes.
  var follow: String?

  /// Reads `--seed N --operations N --machines N [--verbose] [--shrink]`; the refusal in words where it is none.
  static func read(_ arguments: [String]) -> Result<Options, Refusal> {
    var options = Options()
    var rest = arguments[...]
    while let word = rest.popFirst() {
      switch word {
      case "--seed", "--operations", "--machines", "--patience":
        guard let value = rest.popFirst().flatMap({ Int($0) }), value > 0 else {
          return .failure(Refusal(words: "\(word) takes a positive number"))
        }
        if word == "--seed" { options.seed = UInt64(value) }
        if word == "--operations" { options.operations = value }
        if word == "--patience" { options.patience = value }
        if word == "--machines" { options.machines = min(4, value) }
      case "--wide": options.isWide = true
      case "--verbose": options.verbose = true
      case "--shrink": options.shrink = true
      case "--keep":
        guard let directory = rest.popFirst() else { return .failure(Refusal(words: "--keep takes a directory")) }
        options.keep = directory
      case "--follow":
        guard let word = rest.popFirst() else { return .failure(Refusal(words: "--follow takes a word")) }
        options.follow = word
      case "--sabotage":
        guard let word = rest.popFirst(), let bugs = Sabotaged.named(word) else {
          return .failure(
            Refusal(words: "--sabotage takes all, or some of \(Sabotage.Bug.allCases.map(\.rawValue))"))
        }
        options.sabotages = bugs
      default:
        return .failure(
          Refusal(
            words:
              "unknown option \(word); usage: simulate [--seed N] [--operations N] [--machines N] [--wide] [--verbose] [--shrink] "
              + "[--keep DIRECTORY] [--follow WORD] [--sabotage all|BUG [--patience N]]"
          ))
      }
    }
    return .success(options)
  }

  struct Refusal: Error { var words: String }
}
