import FolderSync
import Glibc
import MarfaBase
import MarfaCopy
import Synchronization

/// What every command stands on: the environment, the output, the terminal and the flag that stops work.
struct Program: Sendable {
  /// The environment as bytes.
  var environment: [Text: Text]
  /// Standard output and error.
  var output: Output
  /// The person, where there is one.
  var terminal: Terminal
  /// Set by SIGINT and SIGTERM.
  var stop: StopFlag
  /// What SIGHUP asks for.
  var hangup = Hangup()
  /// What the folders of one process share (P6.5).
  var sharing = Sharing()
  /// Whether this process works several folders: it then reads a store as one of its own threads may be writing it.
  var worksSeveral = false

  /// A variable; nil where it is unset, empty or only white space (C2.1).
  func variable(_ name: Text) -> Text? {
    guard let value = environment[name], !Terminal.trimmed(value).isEmpty else { return nil }
    return value
  }

  /// The version of the program.
  static let version = "0.1.0"
}

/// What the folders of one process share (P6.5): connections to servers, and the event stream of each.
final class Sharing: Sendable {
  let hub = StreamHub()
  private let kept = Mutex<CurlTransport?>(nil)

  /// The process's way to servers, made once.
  func transport(_ make: () -> CurlTransport) -> CurlTransport {
    kept.withLock { kept in
      if let kept { return kept }
      let made = make()
      kept = made
      return made
    }
  }
}

/// Runs the command line of this process and gives its exit status.
func runProgram() -> Int32 {
  holdStandardDescriptors()
  leaveNoCore()
  takeMemoryInLargeSteps()
  let words = argumentWords().dropFirst()
  let environment = environmentVariables()
  let output = Output(json: CommandParser.asksForJSON(Array(words)), color: Style.isWanted(environment))
  let stop = StopFlag()
  let hangup = Hangup()
  watchSignals(stop, hangup)
  output.whenClosed { stop.set(.stopped) }
  let program = Program(
    environment: environment, output: output, terminal: Terminal(stop: stop), stop: stop,
    hangup: hangup)
  let status = run(Array(words), program)
  if status == 0, let failure = output.failure {
    // What was asked for did not come out whole: a script must not take it for the answer.
    let isFull = failure == ENOSPC || failure == EDQUOT
    let refusal = MarfaError(
      isFull ? .storageFull : .io, "standard output could not be written: \(String(cString: strerror(failure)))")
    output.refusal(refusal)
    return Int32(refusal.exit)
  }
  // C3.5: the reader went away; there is nobody to tell.
  return output.isClosed ? 0 : status
}

private func run(_ words: [Text], _ program: Program) -> Int32 {
  let root = commandTree()
  var parser = CommandParser(root, words)
  do throws(UsageError) {
    switch try parser.parse() {
    case .help(let path):
      program.output.text(HelpText(root: root).help(path))
      return 0
    case .version:
      program.output.text("marfa-folders \(Program.version)\n")
      return 0
    case .run(let command, let path, let values, let arguments):
      return run(command, Invocation(path: path, values: values, arguments: arguments, program: program), root)
    }
  } catch {
    let refusal = MarfaError(.usage, Output.oneLine(error.message))
    program.output.refusal(refusal)
    sayUsage(error.path, root, program)
    return Int32(refusal.exit)
  }
}

/// C4.5.
private func sayUsage(_ path: [String], _ root: Command, _ program: Program) {
  for line in HelpText(root: root).usage(path).split(separator: "\n") { program.output.note(String(line)) }
  program.output.note("'\((["marfa-folders"] + path).joined(separator: " ")) --help' tells more.")
}

private func run(_ command: Command, _ invocation: Invocation, _ root: Command) -> Int32 {
  guard let body = command.run else { return 2 }
  do throws(MarfaError) {
    return try body(invocation)
  } catch {
    if !invocation.program.output.isClosed {
      invocation.program.output.refusal(error)
      // What a command finds wrong in its own words is told as what the parser finds is.
      if error.code == .usage { sayUsage(invocation.path, root, invocation.program) }
    }
    return Int32(error.exit)
  }
}

/// Whatever of standard input, output and error was closed goes nowhere from here on: a file of ours that got such a number
/// would be written what is meant for a person (C3.5).
private func holdStandardDescriptors() {
  for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) < 0 {
    // The lowest free number is the one that was closed.
    _ = open("/dev/null", O_RDWR)
  }
}

/// A core file would hold the credential in use, and notes. What collects them elsewhere goes by this limit too.
private func leaveNoCore() {
  var none = rlimit(rlim_cur: 0, rlim_max: 0)
  _ = setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none)
}

/// The words of the command line as bytes, the program's own name first.
func argumentWords() -> [Text] {
  var words: [Text] = []
  for index in 0..<Int(CommandLine.argc) {
    guard let word = CommandLine.unsafeArgv[index] else { break }
    words.append(Text(bytes: UnsafeBufferPointer(start: word, count: strlen(word)).map { UInt8(bitPattern: $0) }))
  }
  return words
}

/// The environment as bytes; a variable named twice has its first value, as `getenv` answers.
private func environmentVariables() -> [Text: Text] {
  var variables: [Text: Text] = [:]
  var next = environ
  while let entry = next.pointee {
    let bytes = UnsafeBufferPointer(start: entry, count: strlen(entry)).map { UInt8(bitPattern: $0) }
    if let equals = bytes.firstIndex(of: UInt8(ascii: "=")) {
      let name = Text(bytes: bytes[..<equals])
      if variables[name] == nil { variables[name] = Text(bytes: bytes[(equals + 1)...]) }
    }
    next = next.advanced(by: 1)
  }
  return variables
}

/// Ends the process. Buffers of C are empty: everything here writes directly.
func exitNow(_ status: Int32) -> Never { exit(status) }
