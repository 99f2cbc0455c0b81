/// The man pages, written from the tree: one of the program and one of each command, its subcommands within.
struct ManPages {
  /// The whole program.
  let root: Command

  /// The pages by name: `marfa-folders`, `marfa-folders-add`, ...
  var all: [(name: String, text: String)] {
    [(root.name, program)] + root.commands.map { ("\(root.name)-\($0.name)", page($0)) }
  }

  // MARK: Pages

  private var program: String {
    var out = head(root.name, root.summary)
    out += ".SH SYNOPSIS\n.B \(plain(root.name))\n.I subcommand\n[options]\n"
    out += ".SH DESCRIPTION\n" + paragraphs(root.discussion)
    out += ".SH COMMANDS\n"
    for command in root.commands {
      let names = ([command.name] + command.aliases).map { bold($0) }.joined(separator: ", ")
      out += entry(
        names, capitalized(command.summary) + ". See \(bold("\(root.name)-\(command.name)"))(1).", roff: true)
    }
    out += ".SH OPTIONS\nThese stand before or after any subcommand.\n" + root.options.map { entry($0) }.joined()
    out += ".SH EXIT STATUS\n" + ProgramFacts.exits.map { entry(bold($0.0), $0.1) }.joined()
    out += ".SH ERRORS\nA refusal under \(bold("--json")) is one object on standard error:\n.PP\n.nf\n"
    out +=
      ProgramFacts.refusal.map { plain($0) + "\n" }.joined() + ".fi\n.PP\nIts codes, the exit status in parentheses:\n"
    out += ProgramFacts.codes.map { entry(bold($0.0), $0.1) }.joined()
    out += ".SH ENVIRONMENT\n" + ProgramFacts.environment.map { entry(bold($0.0), $0.1) }.joined()
    out += ".SH FILES\n" + ProgramFacts.files.map { entry(italic($0.0), $0.1) }.joined()
    return out + seeAlso(root.commands.map { "\(root.name)-\($0.name)" })
  }

  private func page(_ command: Command) -> String {
    let name = "\(root.name)-\(command.name)"
    var out = head(name, command.summary)
    out += ".SH SYNOPSIS\n" + synopses(command, [root.name]).joined(separator: ".br\n")
    out += ".SH DESCRIPTION\n" + paragraphs(capitalized(command.summary) + ".\n\n" + command.discussion)
    for alias in command.aliases {
      out += ".PP\n\(bold("\(root.name) \(alias)")) is the same command.\n"
    }
    if !command.arguments.isEmpty { out += ".SH ARGUMENTS\n" + command.arguments.map { entry($0) }.joined() }
    if !command.options.isEmpty {
      out += ".SH OPTIONS\n" + (command.commands.isEmpty ? "" : "Each of its subcommands takes these too.\n")
      out += command.options.map { entry($0) }.joined()
    }
    if !command.commands.isEmpty { out += ".SH SUBCOMMANDS\n" + sections(command.commands, [root.name, command.name]) }
    if !command.examples.isEmpty {
      out += ".SH EXAMPLES\n.nf\n" + command.examples.map { plain($0) + "\n" }.joined() + ".fi\n"
    }
    out += ".SH GLOBAL OPTIONS\nEvery command also takes the options of \(bold(root.name))(1): "
    out += root.options.map { bold("--\($0.name)") }.joined(separator: ", ") + ".\n"
    return out + seeAlso([root.name])
  }

  /// A group's commands, each under its whole name.
  private func sections(_ commands: [Command], _ path: [String]) -> String {
    var out = ""
    for command in commands {
      let path = path + [command.name]
      guard command.run != nil || !command.discussion.isEmpty else {
        out += sections(command.commands, path)
        continue
      }
      out += ".SS \(quoted(path.dropFirst().joined(separator: " ")))\n"
      if command.run != nil { out += synopsis(command, path) + ".PP\n" }
      out += paragraphs(capitalized(command.summary) + ".\n\n" + command.discussion)
      out += command.arguments.map { entry($0) }.joined() + command.options.map { entry($0) }.joined()
      out += sections(command.commands, path)
    }
    return out
  }

  /// The synopses of a command and of all below it.
  private func synopses(_ command: Command, _ above: [String]) -> [String] {
    let path = above + [command.name]
    return (command.run == nil ? [] : [synopsis(command, path)]) + command.commands.flatMap { synopses($0, path) }
  }

  private func synopsis(_ command: Command, _ path: [String]) -> String {
    var parts = [bold(path.joined(separator: " "))]
    for argument in command.arguments {
      parts.append(argument.optional ? "[\(italic(argument.name))]" : italic(argument.name))
    }
    for option in command.options { parts.append(option.required ? shape(option) : "[\(shape(option))]") }
    return parts.joined(separator: "\n") + "\n"
  }

  // MARK: Parts

  private func head(_ name: String, _ summary: String) -> String {
    """
    .\\" Written by 'marfa-folders man' from the command tree.
    .TH \(quoted(name.uppercased())) 1 "" \(quoted("marfa-folders \(Program.version)")) "User Commands"
    .nh
    .ad l
    .SH NAME
    \(plain(name)) \\- \(plain(summary))

    """
  }

  private func seeAlso(_ names: [String]) -> String {
    ".SH SEE ALSO\n" + names.map { "\(bold($0))(1)" }.joined(separator: ",\n") + "\n"
  }

  private func entry(_ argument: Argument) -> String { entry(italic(argument.name), argument.help) }

  private func entry(_ option: Option) -> String {
    let short = option.short.map { bold("-\($0)") + ", " } ?? ""
    return entry(short + shape(option), option.help + (option.repeats ? " May be repeated." : ""))
  }

  /// A term and what it means. `roff` words are roff already.
  private func entry(_ term: String, _ words: String, roff: Bool = false) -> String {
    ".TP\n\(term)\n\(roff ? words : line(words))\n"
  }

  private func shape(_ option: Option) -> String {
    let name = bold("--\(option.name)")
    switch option.value {
    case .none: return name
    case .text(let shown), .number(let shown): return "\(name) \(italic(shown))"
    case .oneOf(let words): return "\(name) \(words.map { bold($0) }.joined(separator: "|\\:"))"
    case .optional(let shown): return "\(name) [\(italic(shown))]"
    }
  }

  private func paragraphs(_ text: String) -> String {
    text.split(separator: "\n\n").filter { !$0.isEmpty }.map { line(String($0)) + "\n" }.joined(separator: ".PP\n")
  }

  // MARK: Text

  private func bold(_ text: String) -> String { "\\fB\(plain(text))\\fR" }
  private func italic(_ text: String) -> String { "\\fI\(plain(text))\\fR" }
  private func quoted(_ text: String) -> String { "\"\(plain(text).replacing("\"", with: "\\(dq"))\"" }

  /// Text that is read as itself within a line.
  private func plain(_ text: String) -> String {
    text.replacing("\\", with: "\\e").replacing("-", with: "\\-").replacing("~", with: "\\(ti")
      .replacing("^", with: "\\(ha").replacing("'", with: "\\(aq").replacing("`", with: "\\(ga")
  }

  /// Text that begins a line: a dot there would be a request.
  private func line(_ text: String) -> String {
    let text = plain(text)
    return text.hasPrefix(".") ? "\\&" + text : text
  }

  private func capitalized(_ text: String) -> String { text.prefix(1).uppercased() + text.dropFirst() }
}
