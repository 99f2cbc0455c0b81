import MarfaBase

/// Why a command line did not parse: what was wrong, and where in the tree.
struct UsageError: Error {
  /// One line naming what was wrong.
  var message: String
  /// The words that led to the command it was found at.
  var path: [String]
}

/// What a command line asks for.
enum Parsed {
  /// Running a command.
  case run(Command, path: [String], values: [String: [Text]], arguments: [Text])
  /// The help of the command these words name.
  case help([String])
  /// The version line.
  case version
}

/// Reads a command line against the tree. Options stand before or after arguments and subcommands; `--` ends them.
struct CommandParser {
  private let root: Command
  private var words: ArraySlice<Text>
  private var trail: [Command]
  private var path: [String] = []
  private var values: [String: [Text]] = [:]
  private var arguments: [Text] = []
  private var wantsHelp = false
  private var wantsVersion = false

  /// A parser of the words after the program's name.
  init(_ root: Command, _ words: [Text]) {
    self.root = root
    self.words = words[...]
    self.trail = [root]
  }

  /// Whether `--json` stands before a `--` (C4.5): asked of the raw words, so that a refusal knows how to speak.
  static func asksForJSON(_ words: [Text]) -> Bool {
    for word in words {
      if word == "--" { return false }
      if word == "--json" { return true }
    }
    return false
  }

  private var command: Command { trail.last ?? root }

  private func refused(_ message: String) -> UsageError { UsageError(message: message, path: path) }

  /// Reads the whole line.
  mutating func parse() throws(UsageError) -> Parsed {
    while let word = words.popFirst() {
      if word == "--" {
        while let rest = words.popFirst() { try takeWord(rest) }
      } else if word.bytes.starts(with: "--".utf8) {
        try takeLongOption(word)
      } else if word.bytes.first == UInt8(ascii: "-"), word.bytes.count > 1 {
        try takeShortOption(word)
      } else {
        try takeWord(word)
      }
    }
    if wantsHelp { return .help(path) }
    if wantsVersion { return .version }
    guard command.run != nil else {
      throw refused(
        "a subcommand is needed after '\(shownPath)': one of \(command.commands.map(\.name).joined(separator: ", "))")
    }
    if let missing = command.arguments.dropFirst(arguments.count).first(where: { !$0.optional }) {
      throw refused(missingArgument(missing))
    }
    // An unset variable of a script would otherwise name the directory one stands in.
    for (argument, given) in zip(command.arguments, arguments)
    where given.isEmpty && ["DIR", "FILE", "TO"].contains(argument.name) {
      throw refused("\(argument.name) is empty; give a path")
    }
    for option in command.options where option.required && values[option.name] == nil {
      throw refused("'\(shownPath)' needs \(option.shape)")
    }
    return .run(command, path: path, values: values, arguments: arguments)
  }

  private var shownPath: String { ([root.name] + path).joined(separator: " ") }

  private func missingArgument(_ argument: Argument) -> String {
    // C1.4: what the server says of itself is another command here.
    if path == ["status"] {
      return "'status' needs DIR; what the server says of itself is told by 'server'"
    }
    return "'\(shownPath)' needs \(argument.name): \(argument.help)"
  }

  private mutating func takeWord(_ word: Text) throws(UsageError) {
    if arguments.isEmpty, let next = command.command(named: word) {
      trail.append(next)
      path.append(next.aliases.contains { word == $0 } ? word.string : next.name)
    } else if !command.commands.isEmpty, command.run == nil {
      if wantsHelp { return }
      throw refused("unknown subcommand '\(word)' after '\(shownPath)'")
    } else {
      guard arguments.count < command.arguments.count || command.arguments.last?.repeats ?? false || wantsHelp else {
        throw refused("'\(word)' is one argument too many for '\(shownPath)'")
      }
      arguments.append(word)
    }
  }

  /// The option of a name, the deepest command's first: `change --version N` is not the program's `--version`.
  private func option(_ matches: (Option) -> Bool) -> Option? {
    for command in trail.reversed() {
      if let option = command.options.first(where: matches) { return option }
    }
    return nil
  }

  private mutating func takeLongOption(_ word: Text) throws(UsageError) {
    let body = word.bytes.dropFirst(2)
    let equals = body.firstIndex(of: UInt8(ascii: "="))
    let name = Text(bytes: equals.map { body[..<$0] } ?? body)
    guard let option = option({ name == $0.name }) else {
      if wantsHelp { return }
      throw refused("unknown option '--\(name)' for '\(shownPath)'")
    }
    try take(option, inline: equals.map { Text(bytes: body[($0 + 1)...]) })
  }

  private mutating func takeShortOption(_ word: Text) throws(UsageError) {
    let letter = Character(UnicodeScalar(word.bytes[1]))
    guard let option = option({ $0.short == letter }) else {
      if wantsHelp { return }
      throw refused("unknown option '\(word)' for '\(shownPath)'")
    }
    try take(option, inline: word.bytes.count > 2 ? Text(bytes: word.bytes[2...]) : nil)
  }

  private mutating func take(_ option: Option, inline: Text?) throws(UsageError) {
    if option.name == "help" { wantsHelp = true }
    if option.name == "version", option.value == .none { wantsVersion = true }
    guard values[option.name] == nil || option.repeats || option.value == .none else {
      throw refused("--\(option.name) is given twice")
    }
    switch option.value {
    case .none:
      guard inline == nil else { throw refused("--\(option.name) takes no value") }
      values[option.name] = []
    case .optional:
      if let inline {
        values[option.name] = [inline]
      } else if let next = words.first, next.bytes.first != UInt8(ascii: "-") {
        values[option.name] = [next]
        words.removeFirst()
      } else {
        values[option.name] = []
      }
    case .text, .number, .oneOf:
      let value: Text
      if let inline { value = inline } else { value = try nextValue(of: option) }
      try check(value, of: option)
      values[option.name, default: []].append(value)
    }
  }

  private mutating func nextValue(of option: Option) throws(UsageError) -> Text {
    guard let next = words.first else { throw refused("\(option.shape) needs its value") }
    guard !next.bytes.starts(with: "--".utf8) else {
      throw refused(
        "\(option.shape) needs its value before '\(next)'; one that begins with dashes is written --\(option.name)=VALUE"
      )
    }
    words.removeFirst()
    return next
  }

  private func check(_ value: Text, of option: Option) throws(UsageError) {
    switch option.value {
    case .number:
      guard let number = Int(value.string), number >= 0 else {
        throw refused("--\(option.name) takes a whole number, not '\(value)'")
      }
    case .oneOf(let allowed):
      guard allowed.contains(where: { value == $0 }) else {
        throw refused("--\(option.name) takes one of \(allowed.joined(separator: ", ")), not '\(value)'")
      }
    case .none, .text, .optional: break
    }
  }
}
