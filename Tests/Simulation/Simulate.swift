import Glibc
import MarfaBase

/// The simulation (after the property-based tests of Dropbox and Unison): the real engine and the real instance, on one
/// thread, in memory, under random people, networks and crashes. One seed, one trace.
enum Simulate {
  static func run() {
    switch Options.read(Array(CommandLine.arguments.dropFirst())) {
    case .failure(let refusal):
      print(refusal.words)
      exit(2)
    case .success(let options) where !options.sabotages.isEmpty: exit(Sabotaged.run(options) ? 0 : 1)
    case .success(let options):
      var operations = Operation.draw(options)
      let outcome = play(operations, options)
      if let violation = outcome.violation {
        print("violation after \(outcome.done) operations with seed \(options.seed): \(violation)")
        for line in outcome.last { print("  \(line)") }
        if options.shrink {
          operations = shrink(Array(operations.prefix(outcome.done)), options)
          print("shrunk to \(operations.count) operations:")
          for operation in operations { print("  \(operation)") }
          let last = play(operations, options)
          for line in last.last { print("  \(line)") }
          if let violation = last.violation { print(violation) }
        }
        exit(1)
      }
      print("seed \(options.seed): \(operations.count) operations on \(options.machines) machines, no violation")
      print("trace \(outcome.hash)")
    }
  }

  struct Outcome {
    var violation: (any Error)?
    var done: Int
    var hash: String
    var last: [String]
  }

  /// Plays operations; everything settles and is checked after every two hundred, and at the end.
  static func play(_ operations: [Operation], _ options: Options) -> Outcome {
    var done = 0
    var world: World?
    do {
      let made = try World(options)
      world = made
      for operation in operations {
        done += 1
        try made.apply(operation)
        if done % 200 == 0 || done == operations.count {
          try made.settle()
          try made.check()
        }
      }
      return Outcome(violation: nil, done: done, hash: made.trace.hash, last: [])
    } catch {
      if options.follow != nil { try? world?.tellAll() }
      if let directory = options.keep { try? world?.keep(in: directory) }
      return Outcome(
        violation: error, done: done, hash: world?.trace.hash ?? "", last: Array((world?.trace.lines ?? []).suffix(40)))
    }
  }

  /// What kind of violation it is: its words without what they name.
  private static func kind(_ violation: any Error) -> String {
    String("\(violation)".prefix { $0 != ":" }.filter { !$0.isNumber })
  }

  /// Leaves out what a violation does not need: halves, then quarters, down to single operations. A violation of another
  /// kind is another fault.
  static func shrink(_ operations: [Operation], _ options: Options) -> [Operation] {
    var kept = operations
    var quiet = options
    quiet.verbose = false
    quiet.keep = nil
    let kind = play(operations, quiet).violation.map(kind)
    var size = max(1, kept.count / 2)
    while true {
      var at = 0
      var removed = false
      while at < kept.count {
        let candidate = Array(kept[..<at] + kept[min(kept.count, at + size)...])
        if !candidate.isEmpty, let violation = play(candidate, quiet).violation, Simulate.kind(violation) == kind {
          kept = candidate
          removed = true
        } else {
          at += size
        }
      }
      if size == 1, !removed { return kept }
      size = max(1, size / 2)
    }
  }
}
