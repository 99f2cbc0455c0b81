import MarfaBase
import MarfaCopy

/// What an option takes after its name.
enum OptionValue: Equatable, Sendable {
  /// Nothing: it is there or not.
  case none
  /// A value, shown in help under this name.
  case text(String)
  /// A whole number that is not negative.
  case number(String)
  /// One of a few words.
  case oneOf([String])
  /// A value, or nothing where an option or nothing follows (N1.3).
  case optional(String)
}

/// An option of a command, of a group of commands, or of the program.
struct Option: Sendable {
  /// The long name, without dashes.
  var name: String
  /// A one-letter form.
  var short: Character?
  /// What it takes.
  var value: OptionValue
  /// Whether it may be given more than once.
  var repeats: Bool
  /// Whether the command line does not parse without it.
  var required: Bool
  /// What it does, in a sentence.
  var help: String

  /// An option that is there or not.
  init(_ name: String, short: Character? = nil, _ help: String) {
    self.init(name, short: short, .none, help)
  }

  /// An option.
  init(
    _ name: String, short: Character? = nil, _ value: OptionValue, repeats: Bool = false,
    required: Bool = false, _ help: String
  ) {
    self.name = name
    self.short = short
    self.value = value
    self.repeats = repeats
    self.required = required
    self.help = help
  }

  /// The name and what it takes, as help shows it: `--folder ID`.
  var shape: String {
    switch value {
    case .none: "--\(name)"
    case .text(let shown), .number(let shown): "--\(name) \(shown)"
    case .oneOf(let words): "--\(name) \(oneOf == nil ? words.joined(separator: "|") : name.uppercased())"
    case .optional(let shown): "--\(name) [\(shown)]"
    }
  }
}

extension Option {
  /// The words it takes, where they are too many to stand beside its name.
  var oneOf: [String]? {
    guard case .oneOf(let words) = value, words.joined(separator: "|").count > 40 else { return nil }
    return words
  }
}

/// An argument of a command, by place.
struct Argument: Sendable {
  /// The name help shows.
  var name: String
  /// Whether it may be left out.
  var optional: Bool
  /// Whether any number of them may follow; the last argument alone.
  var repeats: Bool
  /// The words it is one of; empty where it is no such word.
  var words: [String]
  /// What it is.
  var help: String

  /// How usage shows it.
  var shown: String { (optional ? "[\(name)]" : name) + (repeats ? "..." : "") }

  /// An argument.
  init(_ name: String, optional: Bool = false, repeats: Bool = false, words: [String] = [], _ help: String) {
    self.name = name
    self.optional = optional
    self.repeats = repeats
    self.words = words
    self.help = help
  }
}

/// A command or a group of commands. The whole program is one tree of them: parsing, help and usage come from it.
struct Command: Sendable {
  /// The word that calls it.
  var name: String
  /// Other words that call it.
  var aliases: [String] = []
  /// What it does, in half a sentence.
  var summary: String
  /// What else a person should know, in paragraphs.
  var discussion: String = ""
  /// Command lines worth copying, with what each does where that does not show.
  var examples: [String] = []
  /// Its options; a group's are taken by each of its commands too.
  var options: [Option] = []
  /// Its arguments in order.
  var arguments: [Argument] = []
  /// The commands of a group.
  var commands: [Command] = []
  /// Runs it and gives the exit status. A group has none, but for one that does something by itself too.
  var run: (@Sendable (Invocation) throws(MarfaError) -> Int32)?

  /// The command of a word.
  func command(named word: Text) -> Command? {
    commands.first { word == $0.name || $0.aliases.contains { word == $0 } }
  }
}

/// A parsed command line.
struct Invocation: Sendable {
  /// The words that led to the command.
  var path: [String]
  /// The values of each option, in order; one empty list per option that takes none.
  var values: [String: [Text]] = [:]
  /// The arguments in order.
  var arguments: [Text] = []
  /// What the program stands on.
  var program: Program

  /// The name of the command, the last word.
  var name: String { path.last ?? "" }

  /// Whether an option was given.
  func has(_ option: String) -> Bool { values[option] != nil }
  /// The last value of an option.
  func value(_ option: String) -> Text? { values[option]?.last }
  /// All values of an option.
  func all(_ option: String) -> [Text] { values[option] ?? [] }
  /// A number; the parser has read it as one.
  func number(_ option: String) -> Int? { value(option).flatMap { Int($0.string) } }
  /// An argument by place.
  func argument(_ place: Int) -> Text? { place < arguments.count ? arguments[place] : nil }
}
