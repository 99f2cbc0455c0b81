/// What the command line of the simulation says.
struct Options {
  var seed: UInt64 = 1
  var operations = 2_000
  var machines = 2
  var verbose = false
  var shrink = false
  /// Where the stores of the machines and of the instance are kept as they stood at a violation.
  var keep: String?
  /// A word whose places are told after every step, to see where it goes.
  var follow: String?

  /// Reads `--seed N --operations N --machines N [--verbose] [--shrink]`; the refusal in words where it is none.
  static func read(_ arguments: [String]) -> Result<Options, Refusal> {
    var options = Options()
    var rest = arguments[...]
    while let word = rest.popFirst() {
      switch word {
      case "--seed", "--operations", "--machines":
        guard let value = rest.popFirst().flatMap({ Int($0) }), value > 0 else {
          return .failure(Refusal(words: "\(word) takes a positive number"))
        }
        if word == "--seed" { options.seed = UInt64(value) }
        if word == "--operations" { options.operations = value }
        if word == "--machines" { options.machines = min(4, value) }
      case "--verbose": options.verbose = true
      case "--shrink": options.shrink = true
      case "--keep":
        guard let directory = rest.popFirst() else { return .failure(Refusal(words: "--keep takes a directory")) }
        options.keep = directory
      case "--follow":
        guard let word = rest.popFirst() else { return .failure(Refusal(words: "--follow takes a word")) }
        options.follow = word
      default:
        return .failure(
          Refusal(
            words:
              "unknown option \(word); usage: simulate [--seed N] [--operations N] [--machines N] [--verbose] [--shrink] "
              + "[--keep DIRECTORY] [--follow WORD]"
          ))
      }
    }
    return .success(options)
  }

  struct Refusal: Error { var words: String }
}
