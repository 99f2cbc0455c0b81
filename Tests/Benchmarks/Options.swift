/// What the command line of the benchmark says.
struct Options {
  /// How much is measured.
  enum Scale: String {
    /// 10,000 notes in a copy, 2,000 in a folder: a quick run.
    case small
    /// 100,000 notes in a copy, 10,000 in a folder: the scale of the targets.
    case full
  }

  /// What is measured.
  enum Part: String, CaseIterable {
    case instance, copy, document, folder
  }

  var scale = Scale.small
  var parts = Set(Part.allCases)
  var runs = 5
  /// Where the figures are kept as JSON.
  var json = ".build/bench.json"

  var copyNotes: Int { scale == .full ? 100_000 : 10_000 }
  var folderNotes: Int { scale == .full ? 10_000 : 2_000 }
  var requests: Int { scale == .full ? 20_000 : 4_000 }

  static let usage =
    "usage: bench [--scale small|full] [--runs N] [--only instance|copy|document|folder]... [--json FILE]"

  /// Reads the arguments; the refusal in words where they are none.
  static func read(_ arguments: [String]) -> Result<Options, Refusal> {
    var options = Options()
    var only: Set<Part> = []
    var rest = arguments[...]
    while let word = rest.popFirst() {
      switch word {
      case "--scale":
        guard let scale = rest.popFirst().flatMap(Scale.init) else { return .failure(Refusal(words: usage)) }
        options.scale = scale
      case "--runs":
        guard let runs = rest.popFirst().flatMap({ Int($0) }), runs > 0 else { return .failure(Refusal(words: usage)) }
        options.runs = runs
      case "--json":
        guard let file = rest.popFirst() else { return .failure(Refusal(words: usage)) }
        options.json = file
      case "--only":
        guard let part = rest.popFirst().flatMap(Part.init) else { return .failure(Refusal(words: usage)) }
        only.insert(part)
      default: return .failure(Refusal(words: "unknown option \(word); \(usage)"))
      }
    }
    if !only.isEmpty { options.parts = only }
    return .success(options)
  }

  struct Refusal: Error { var words: String }
}
