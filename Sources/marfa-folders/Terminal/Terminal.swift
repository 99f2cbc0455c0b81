import Glibc
import MarfaBase
import MarfaCopy

/// The person at the keyboard, where there is one.
struct Terminal: Sendable {
  /// Ends a wait for a line.
  let stop: StopFlag
  /// Becomes readable once the flag is set. It lives as long as the process, so no wake comes too late for it.
  private let stopped: Int32

  /// The terminal of this process.
  init(stop: StopFlag) {
    self.stop = stop
    let stopped = eventDescriptor()
    self.stopped = stopped
    stop.onSet { [stopped] in
      var one: UInt64 = 1
      _ = write(stopped, &one, 8)
    }
  }

  /// Whether standard input and standard error are both terminals, so that a question can be asked (C7.8).
  var canAsk: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 }

  /// Whether standard error is a terminal, so that progress can be shown.
  var showsProgress: Bool { isatty(STDERR_FILENO) == 1 }

  /// Whether standard output is a terminal.
  var readsOutput: Bool { Terminal.writesToTerminal }
  /// The same, for output alone.
  static var writesToTerminal: Bool { isatty(STDOUT_FILENO) == 1 }

  /// Shows a question on standard error, without a line end.
  func ask(_ question: String) {
    let bytes = Array(Output.plain(question).utf8)
    _ = bytes.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
  }

  /// Reads one line of standard input without its line end; nil at the end of input. At most 64 KiB.
  /// - Throws: `canceled` where the person stopped the command meanwhile.
  func readLine() throws(MarfaError) -> Text? {
    var line: [UInt8] = []
    while line.count < 65536 {
      var polled = [
        pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0),
        pollfd(fd: stopped, events: Int16(POLLIN), revents: 0),
      ]
      if poll(&polled, 2, -1) < 0, errno != EINTR { return nil }
      if stop.isSet { throw MarfaError(.canceled, "stopped before an answer was given; nothing was changed") }
      guard polled[0].revents != 0 else { continue }
      var byte: UInt8 = 0
      let count = read(STDIN_FILENO, &byte, 1)
      if count < 0, errno == EINTR { continue }
      if count <= 0 { return line.isEmpty ? nil : Text(bytes: line) }
      if byte == 0x0A { break }
      line.append(byte)
    }
    if line.last == 0x0D { line.removeLast() }
    return Text(bytes: line)
  }

  /// What became of a wait for a key.
  enum Key { case byte(UInt8), none, stopped }

  /// Waits so long for a key; a closed input gives none.
  func key(within milliseconds: Int32) -> Key {
    var polled = [
      pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0),
      pollfd(fd: stopped, events: Int16(POLLIN), revents: 0),
    ]
    // A closed input is readable for ever: only a terminal's keys are waited for.
    if isatty(STDIN_FILENO) != 1 { polled[0].fd = -1 }
    _ = poll(&polled, 2, milliseconds)
    if stop.isSet { return .stopped }
    var byte: UInt8 = 0
    guard polled[0].revents & Int16(POLLIN) != 0, read(STDIN_FILENO, &byte, 1) == 1 else { return .none }
    return .byte(byte)
  }

  /// Runs `work` with keys given one by one and not shown; the terminal is put back after it.
  static func withKeys<Value>(_ work: () throws(MarfaError) -> Value) throws(MarfaError) -> Value {
    var before = termios()
    guard isatty(STDIN_FILENO) == 1, tcgetattr(STDIN_FILENO, &before) == 0 else { return try work() }
    var raw = before
    raw.c_lflag &= ~tcflag_t(ICANON | ECHO)
    tcsetattr(STDIN_FILENO, TCSANOW, &raw)
    defer { tcsetattr(STDIN_FILENO, TCSANOW, &before) }
    return try work()
  }

  /// The terminal's width and height; 80 by 24 where it does not say.
  static var size: (columns: Int, rows: Int) {
    var size = winsize()
    guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return (80, 24) }
    return (Int(size.ws_col), Int(size.ws_row))
  }

  /// Whether an answer is `y` or `yes`, trimmed, in any case.
  static func agrees(_ answer: Text?) -> Bool {
    let word = trimmed(answer ?? "").bytes.map { $0 | 0x20 }
    return word.elementsEqual("y".utf8) || word.elementsEqual("yes".utf8)
  }

  /// A text without white space around it.
  static func trimmed(_ text: Text) -> Text {
    func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (byte >= 0x09 && byte <= 0x0D) }
    guard let first = text.bytes.firstIndex(where: { !isSpace($0) }),
      let last = text.bytes.lastIndex(where: { !isSpace($0) })
    else { return Text(bytes: []) }
    return Text(bytes: text.bytes[first...last])
  }
}
