/// The command tree as a shell completes it: what may stand at each place of a command line.
struct CompletionTable {
  /// What a value or an argument is completed with.
  enum Value: Equatable {
    /// Names of files.
    case files
    /// Names of directories.
    case directories
    /// A few words.
    case words([String])
    /// Nothing a shell could know.
    case anything
  }

  /// An option at the place that declares it.
  struct Flag {
    /// The long name, without dashes.
    var name: String
    /// The one-letter form.
    var short: Character?
    /// What it is given; nil where it takes nothing.
    var value: Value?
    /// Whether its value may be left out: then it is never waited for.
    var isOptional: Bool
    /// What it does.
    var help: String

    /// Its spellings with their dashes.
    var spellings: [String] { ["--\(name)"] + (short.map { ["-\($0)"] } ?? []) }
    /// What the walk over earlier words has to know: `none`, `optional` or what its value is.
    var kind: String {
      guard let value else { return "none" }
      if isOptional { return "optional" }
      switch value {
      case .files: return "files"
      case .directories: return "directories"
      case .words: return "words"
      case .anything: return "anything"
      }
    }
  }

  /// A place: the program, or a command.
  struct Place {
    /// The words that lead to it, without the program's: `keys keep`.
    var path: String
    /// The subcommands, aliases as entries of their own that lead to the same place.
    var commands: [(word: String, leads: String, summary: String)]
    /// The options it declares; those of the places above it are taken too.
    var flags: [Flag]
    /// Its arguments in order.
    var arguments: [Value]
  }

  /// The places, the program first.
  let places: [Place]

  /// The table of a tree.
  init(_ root: Command) {
    var places: [Place] = []
    func walk(_ command: Command, _ path: String) {
      func below(_ name: String) -> String { path.isEmpty ? name : "\(path) \(name)" }
      places.append(
        Place(
          path: path,
          commands: command.commands.flatMap { child in
            ([child.name] + child.aliases).map { ($0, below(child.name), child.summary) }
          },
          flags: command.options.map { option in
            var isOptional = false
            if case .optional = option.value { isOptional = true }
            return Flag(
              name: option.name, short: option.short, value: CompletionTable.value(option.value),
              isOptional: isOptional, help: option.help)
          },
          arguments: command.arguments.map {
            $0.words.isEmpty ? CompletionTable.value(named: $0.name) : .words($0.words)
          }))
      for child in command.commands { walk(child, below(child.name)) }
    }
    walk(root, "")
    self.places = places
  }

  private static func value(_ value: OptionValue) -> Value? {
    switch value {
    case .none: nil
    case .text(let name): CompletionTable.value(named: name)
    case .number: .anything
    case .oneOf(let words): .words(words)
    case .optional: .anything
    }
  }

  /// What help's name of a value says it is.
  private static func value(named name: String) -> Value {
    switch name {
    case "DIR", "TO": .directories
    case "FILE", "PATH": .files
    default: .anything
    }
  }

  /// The places below a path that declare an option of this name themselves.
  func redeclaring(_ name: String, below path: String) -> [String] {
    places.filter { place in
      place.path != path && (path.isEmpty || place.path.hasPrefix(path + " "))
        && place.flags.contains { $0.name == name }
    }.map(\.path)
  }
}

/// A word as bash, zsh and fish read it: in single quotes.
func singleQuoted(_ text: String, fish: Bool = false) -> String {
  // fish knows backslash escapes within single quotes, the others none.
  fish
    ? "'" + text.replacing("\\", with: "\\\\").replacing("'", with: "\\'") + "'"
    : "'" + text.replacing("'", with: "'\\''") + "'"
}
