import Glibc
import MarfaBase

/// How a line stands out at a terminal. Words never depend on it: what a colour says, the line says too.
enum Style: Sendable {
  case plain, strong, good, bad, careful, faint

  private var code: String {
    switch self {
    case .plain: ""
    case .strong: "1"
    case .good: "32"
    case .bad: "31"
    case .careful: "33"
    case .faint: "36"
    }
  }

  /// A line as it is shown.
  static func shown(_ line: String, _ style: Style, color: Bool) -> String {
    guard color, style != .plain, !line.isEmpty else { return line }
    return "\u{1B}[\(style.code)m\(line)\u{1B}[0m"
  }

  /// Whether colour is wanted: standard output is a terminal that takes it, and `NO_COLOR` is unset or empty.
  static func isWanted(_ environment: [Text: Text]) -> Bool {
    guard isatty(STDOUT_FILENO) == 1, environment["NO_COLOR"]?.isEmpty ?? true else { return false }
    guard let terminal = environment["TERM"] else { return false }
    return !terminal.isEmpty && terminal != "dumb"
  }

  /// The style of a line of a unified diff.
  static func ofDiff(_ line: Substring) -> Style {
    let start = line.utf8.prefix(4)
    if start.elementsEqual("--- ".utf8) || start.elementsEqual("+++ ".utf8) { return .strong }
    switch line.utf8.first {
    case UInt8(ascii: "+"): return .good
    case UInt8(ascii: "-"): return .bad
    case UInt8(ascii: "@"): return .faint
    default: return .plain
    }
  }
}
