import FolderSync
import MarfaBase
import MarfaCopy

/// `status --watch` (N6.1): the report again each time it changes, redrawn in place at a terminal until `q` or Ctrl-C.
func watchStatus(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let program = invocation.program
  let output = program.output
  guard output.json || Terminal.writesToTerminal else {
    throw MarfaError(.usage, "'status --watch' redraws a terminal; for a program there is 'status --watch --json'")
  }
  let session = Session(invocation)
  let work = FolderWork.offline(session)
  let directory = directory(of: invocation)
  let clock = session.context.clock
  return try Terminal.withKeys { () throws(MarfaError) in
    var last: FolderStatus?
    var screen = LiveScreen(output)
    defer { screen.end() }
    while true {
      let began = clock.monotonic
      let status = try work.status(directory)
      if status != last {
        if output.json { output.record(status.json) }
        last = status
      }
      if !output.json {
        screen.draw(
          [(.strong, "\(directory)  (q ends)")] + StatusWords(status, invocation).styled, size: Terminal.size)
      }
      // Looking costs a walk of the directory, so a large one is looked at less often.
      let took = Int32(clamping: (clock.monotonic &- began) / 1_000_000)
      switch program.terminal.key(within: max(1000, min(10_000, took &* 10))) {
      case .stopped: return 0
      case .byte(let byte): if byte == UInt8(ascii: "q") || byte == UInt8(ascii: "Q") { return 0 }
      case .none: break
      }
      if output.isClosed { return 0 }
    }
  }
}

/// A screen redrawn in place, beside the person's own, which comes back when it ends.
struct LiveScreen {
  private let output: Output
  private var shown: [String]?

  /// Nothing is drawn yet.
  init(_ output: Output) { self.output = output }

  /// Draws lines: as many as fit, each cut at the width. Drawn only where something changed.
  mutating func draw(_ lines: [(Style, String)], size: (columns: Int, rows: Int)) {
    var fitting = lines.map { ($0.0, LiveScreen.cut(Output.plain($0.1), at: size.columns)) }
    if fitting.count > size.rows {
      let left = fitting.count - size.rows + 1
      fitting = Array(fitting.prefix(size.rows - 1)) + [(.plain, "... and \(left) more lines")]
    }
    let next = fitting.map { Style.shown($0.1, $0.0, color: output.color) }
    guard shown.map({ !$0.elementsEqual(next) { $0.utf8.elementsEqual($1.utf8) } }) ?? true else { return }
    output.text(
      (shown == nil ? "\u{1B}[?1049h" : "") + "\u{1B}[H" + next.map { $0 + "\u{1B}[K" }.joined(separator: "\r\n")
        + "\u{1B}[J")
    shown = next
  }

  /// Gives the person's own screen back.
  mutating func end() {
    if shown != nil { output.text("\u{1B}[?1049l") }
    shown = nil
  }

  private static func cut(_ line: String, at columns: Int) -> String {
    line.count <= columns ? line : String(line.prefix(max(1, columns - 1))) + "\u{2026}"
  }
}
