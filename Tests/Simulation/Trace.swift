import MarfaBase

/// Everything that happened, folded into one hash: one seed, one trace.
struct Trace {
  private var digest = ContentHash(of: [])
  private(set) var lines: [String] = []
  private(set) var count = 0
  let verbose: Bool

  init(verbose: Bool) { self.verbose = verbose }

  mutating func note(_ line: String) {
    digest = ContentHash(of: digest.bytes + Array(line.utf8))
    count += 1
    if verbose { print(line) }
    lines.append(line)
    if lines.count > 400 { lines.removeFirst(200) }
  }

  var hash: String { digest.hex }
}
