import FolderSync
import Glibc
import MarfaBase
import MarfaCopy
import Synchronization

/// What a command that takes more than a second shows of its work on standard error, at a terminal: what it does, how many
/// of how many, how fast, and how long it has to go. Read from the folder's store beside the work, so that the work itself
/// counts nothing for it.
final class Progress: Sendable {
  /// A stage as one look at the store shows it.
  private enum Stage: Equatable {
    case filling(Int, of: Int?)
    case sending(left: Int)
    case writing(Int)
  }

  private let store: PathBytes
  private let context: Context
  private let over = StopFlag()
  private let isDone = StopFlag()
  private let shows = Mutex(false)

  /// Runs `work`, and shows its progress where the person can see it.
  static func of<Value>(
    _ directory: PathBytes, _ program: Program, _ context: Context, _ work: () throws(MarfaError) -> Value
  ) throws(MarfaError) -> Value {
    guard program.terminal.showsProgress, !program.output.json else { return try work() }
    let progress = Progress(directory, context)
    guard startThread({ progress.run() }) else { return try work() }
    defer { progress.end() }
    return try work()
  }

  private init(_ directory: PathBytes, _ context: Context) {
    store = directory.appending(stateDirectoryName).appending(storeName)
    self.context = context
  }

  /// Takes the line away, so that what comes next stands alone.
  private func end() {
    over.set(.stopped)
    _ = context.scheduler.wait(nanoseconds: 2_000_000_000, unless: isDone)
    if shows.withLock({ $0 }) { Progress.write("\r\u{1B}[K") }
  }

  private func run() {
    defer { isDone.set(.stopped) }
    guard context.scheduler.wait(nanoseconds: 1_000_000_000, unless: over) else { return }
    var rate = Rate()
    while !over.isSet {
      if let stage = look() {
        let line = words(stage, &rate)
        shows.withLock { $0 = true }
        Progress.write("\r\(line.prefix(max(20, Terminal.errorColumns - 1)))\u{1B}[K")
      }
      guard context.scheduler.wait(nanoseconds: 500_000_000, unless: over) else { return }
    }
  }

  private static func write(_ words: String) {
    let bytes = Array(words.utf8)
    _ = bytes.withUnsafeBytes { Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count) }
  }

  /// One look; nil where the store does not show what is under way.
  private func look() -> Stage? {
    guard let database = try? Database(path: store.description, mode: .readOnly) else { return nil }
    func number(_ sql: String) -> Int? { (try? database.one(sql) { $0.optionalInt(0) }).flatMap { $0 }.flatMap { $0 } }
    func meta(_ key: String) -> Int? { number("SELECT value FROM meta WHERE key = '\(key)'") }
    // The record of a fill stands as long as it is under way.
    let isFilling = number("SELECT count(*) FROM meta WHERE key = 'hydrate_state'") == 1
    if isFilling { return .filling(meta("items_listed") ?? 0, of: meta("items_expected")) }
    let left = number("SELECT count(*) FROM queue WHERE verdict IS NULL") ?? 0
    if left > 0 { return .sending(left: left) }
    return number("SELECT count(*) FROM binding WHERE missing_since IS NULL").map { .writing($0) }
  }

  /// How fast a stage goes: counted from when it was first seen.
  private struct Rate {
    var name = ""
    var since: UInt64 = 0
    var first = 0
    /// The most that was left, for a stage that counts down.
    var total = 0
  }

  private func words(_ stage: Stage, _ rate: inout Rate) -> String {
    func begin(_ name: String, _ count: Int) {
      if !rate.name.utf8.elementsEqual(name.utf8) {
        rate = Rate(name: name, since: context.clock.monotonic, first: count)
      }
    }
    switch stage {
    case .filling(let count, let total):
      begin("filling", count)
      return said("filling", count, total, count - rate.first, rate)
    case .sending(let left):
      begin("sending", 0)
      rate.total = max(rate.total, left)
      return said("sending", rate.total - left, rate.total, rate.total - left, rate)
    case .writing(let count):
      begin("working", count)
      guard count > rate.first else { return "reading and comparing; \(counted(count, "file")) known" }
      return said("writing", count, nil, count - rate.first, rate)
    }
  }

  private func said(_ what: String, _ count: Int, _ total: Int?, _ done: Int, _ rate: Rate) -> String {
    var line = "\(what) \(count)"
    if let total { line += " of \(total)" }
    let seconds = Double(context.clock.monotonic &- rate.since) / 1_000_000_000
    guard seconds >= 1, done > 0 else { return line }
    let perSecond = Double(done) / seconds
    line += perSecond >= 10 ? ", \(Int(perSecond)) a second" : ", \(Int(perSecond * 60)) a minute"
    guard let total, total > count else { return line }
    return line + ", \(Progress.duration(Double(total - count) / perSecond)) left"
  }

  /// A time a person reads: `40 s`, `3 min`, `1 h 20 min`.
  static func duration(_ seconds: Double) -> String {
    let whole = Int(seconds.rounded(.up))
    if whole < 90 { return "\(whole) s" }
    if whole < 5400 { return "\((whole + 59) / 60) min" }
    return "\(whole / 3600) h \(whole % 3600 / 60) min"
  }
}

extension Terminal {
  /// The width of standard error's terminal.
  static var errorColumns: Int {
    var size = winsize()
    guard ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
    return Int(size.ws_col)
  }
}
