import CPosix
import Glibc
import MarfaBase
import MarfaCopy
import Synchronization

/// Standard output and error, and the choice between words and JSON (C3). Safe from any thread: each call is one write.
final class Output: Sendable {
  /// Whether `--json` was given.
  let json: Bool
  /// Whether words may be coloured: only at a terminal, and never with `NO_COLOR`.
  let color: Bool
  private let gone = Mutex(false)
  private let failed = Mutex<Int32?>(nil)
  private let onGone = Mutex<(@Sendable () -> Void)?>(nil)

  /// Words, or JSON.
  init(json: Bool, color: Bool = false) {
    self.json = json
    self.color = color && !json
  }

  /// Whether standard output was closed by its reader (C3.5).
  var isClosed: Bool { gone.withLock { $0 } }

  /// Why standard output could not be written, where that was no closed reader: the `errno` of a full disk, say.
  var failure: Int32? { failed.withLock { $0 } }

  /// Calls `body` once standard output is found closed.
  func whenClosed(_ body: @escaping @Sendable () -> Void) { onGone.withLock { $0 = body } }

  private func write(_ bytes: [UInt8]) {
    guard !isClosed, !bytes.isEmpty else { return }
    switch marfa_write_all(STDOUT_FILENO, bytes, bytes.count) {
    case 0: return
    case EPIPE: gone.withLock { $0 = true }
    case let number:
      failed.withLock { $0 = $0 ?? number }
      return
    }
    onGone.withLock { $0 }?()
  }

  /// A line of words on standard output.
  func line(_ words: String) { write(Array((Output.plain(words) + "\n").utf8)) }

  /// Lines of words on standard output.
  func lines(_ words: [String]) {
    write(Array(words.map { Output.plain($0) + "\n" }.joined().utf8))
  }

  /// Lines in their styles on standard output; the styles show where it is a terminal that takes colour.
  func lines(_ styled: [(Style, String)]) {
    write(Array(styled.map { Style.shown(Output.plain($0.1), $0.0, color: color) + "\n" }.joined().utf8))
  }

  /// Bytes as they are on standard output, for a program that reads them.
  func raw(_ bytes: [UInt8]) { write(bytes) }

  /// Text as it is on standard output: help.
  func text(_ words: String) { write(Array(words.utf8)) }

  /// One document, pretty-printed (C3.2).
  func document(_ value: JSON) { write(value.writePretty() + [0x0A]) }

  /// One compact object on a line of its own (C3.3).
  func record(_ value: JSON) { write(value.write() + [0x0A]) }

  /// The answer: the document under `--json`, else the words.
  func answer(_ value: @autoclosure () -> JSON, _ words: @autoclosure () -> [String]) {
    if json { document(value()) } else { lines(words()) }
  }

  /// A line for the person on standard error; nothing under `--json` (C3.1).
  func note(_ words: String) {
    guard !json else { return }
    error(words)
  }

  /// A warning on standard error, led by the program's name: said under `--json` too where `always`.
  func warning(_ words: String, always: Bool = false) {
    guard always || !json else { return }
    error("marfa-folders: warning: \(words)")
  }

  /// The refusal: an envelope under `--json` (C4.3), else one line (C4.4).
  /// - Parameter exit: the status the command leaves by, where the refusal's code has another.
  func refusal(_ refusal: MarfaError, exit: Int? = nil) {
    if json {
      var told = refusal.json.object ?? JSONObject()
      if let exit { told["exit"] = .int(exit) }
      let bytes = JSON.object(told).write() + [0x0A]
      _ = marfa_write_all(STDERR_FILENO, bytes, bytes.count)
    } else {
      error("marfa-folders: \(Output.oneLine(refusal.message))")
    }
  }

  /// A line on standard error.
  func error(_ words: String) {
    let bytes = Array((Output.plain(words) + "\n").utf8)
    _ = marfa_write_all(STDERR_FILENO, bytes, bytes.count)
  }

  /// Words with no control character left in them: a file's name or a server's message may hold escapes that would
  /// redraw a terminal, and line ends that would pass for lines of ours. Tabs stay.
  static func plain(_ words: String) -> String {
    guard words.unicodeScalars.contains(where: isControl) else { return words }
    var shown = ""
    for scalar in words.unicodeScalars {
      if isControl(scalar) {
        shown += "\\u{\(String(scalar.value, radix: 16))}"
      } else {
        shown.unicodeScalars.append(scalar)
      }
    }
    return shown
  }

  private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x09: false
    case 0..<0x20, 0x7F..<0xA0, 0x061C, 0x2028...0x202E, 0x2066...0x2069: true
    default: false
    }
  }

  /// The words on one line.
  static func oneLine(_ words: String) -> String {
    words.split(whereSeparator: { $0.isNewline }).joined(separator: " ")
  }
}
