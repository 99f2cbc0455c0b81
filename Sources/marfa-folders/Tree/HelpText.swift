import MarfaCopy

/// Help and usage, written from the tree.
struct HelpText {
  /// The whole program.
  let root: Command

  /// The commands a path of words leads through, the program first.
  private func trail(_ path: [String]) -> [Command] {
    var trail = [root]
    for word in path {
      guard let next = trail.last?.commands.first(where: { $0.name == word || $0.aliases.contains(word) }) else {
        break
      }
      trail.append(next)
    }
    return trail
  }

  /// The line `Usage: ...` of a command.
  func usage(_ path: [String]) -> String {
    let trail = trail(path)
    let command = trail.last ?? root
    var parts = [root.name] + path
    if command.run != nil {
      for argument in command.arguments { parts.append(argument.shown) }
      // Many options are told below, not in a line nobody reads.
      let isMany = command.options.count > 4
      for option in command.options where option.required || !isMany {
        parts.append(option.required ? option.shape : "[\(option.shape)]")
      }
      if isMany { parts.append("[options]") }
      if !command.commands.isEmpty { parts.append("| <subcommand>") }
    } else {
      parts.append("<subcommand>")
      parts.append("[options]")
    }
    // An option and its value stay on one line.
    let words = parts.map { $0.replacing(" ", with: "\u{A0}") }.joined(separator: " ")
    return wrapped("Usage: " + words, indent: 7, first: 0).replacing("\u{A0}", with: " ")
  }

  /// The whole help of a command.
  func help(_ path: [String]) -> String {
    let trail = trail(path)
    let command = trail.last ?? root
    var out = "\(capitalized(command.summary)).\n\n\(usage(path))\n"
    if !command.discussion.isEmpty {
      for paragraph in command.discussion.split(separator: "\n\n") {
        out += "\n" + wrapped(String(paragraph), indent: 0) + "\n"
      }
    }
    if !command.arguments.isEmpty {
      out += "\nArguments:\n" + table(command.arguments.map { ($0.name, $0.help) })
    }
    if !command.commands.isEmpty {
      out +=
        "\nSubcommands:\n"
        + table(command.commands.map { (([$0.name] + $0.aliases).joined(separator: ", "), $0.summary) })
    }
    if !command.options.isEmpty, trail.count > 1 { out += "\nOptions:\n" + options(command.options) }
    for group in trail.dropFirst().dropLast().reversed() where !group.options.isEmpty {
      out += "\nOptions of '\(group.name)':\n" + options(group.options)
    }
    if !command.examples.isEmpty {
      out += "\nExamples:\n" + command.examples.map { "  \($0)\n" }.joined()
    }
    if trail.count == 1 {
      out += "\nOptions:\n" + options(root.options) + "\n" + programPart
    } else {
      // Told whole by the program's own help, so that this one stays short.
      let names = root.options.map { ($0.short.map { "-\($0), " } ?? "") + $0.shape.replacing(" ", with: "\u{A0}") }
      out += "\nGlobal options:\n"
      out += wrapped(names.joined(separator: ", ") + ".", indent: 2).replacing("\u{A0}", with: " ")
      out += "\n  '\(root.name) --help' tells of each.\n"
    }
    return out
  }

  private func options(_ options: [Option]) -> String {
    table(
      options.map { option in
        (
          (option.short.map { "-\($0), " } ?? "") + option.shape,
          option.help + (option.oneOf.map { " One of \($0.joined(separator: ", "))." } ?? "")
            + (option.repeats ? " May be repeated." : "")
        )
      })
  }

  /// Exit codes, the refusal and every error code (C1.6, C-S10).
  private var programPart: String {
    var out = "Exit codes:\n" + table(ProgramFacts.exits)
    out += "\nA refusal under --json is one object on standard error:\n"
    for line in ProgramFacts.refusal { out += "  \(line)\n" }
    out += "\nError codes (the exit in parentheses):\n" + table(ProgramFacts.codes)
    out += "\nEnvironment:\n" + table(ProgramFacts.environment)
    return out
  }

  private func capitalized(_ text: String) -> String { text.prefix(1).uppercased() + text.dropFirst() }

  private func table(_ rows: [(String, String)]) -> String {
    let width = min(24, (rows.map { $0.0.count }.max() ?? 0) + 2)
    var out = ""
    for (name, help) in rows {
      if name.count + 2 > width {
        out += "  \(name)\n" + wrapped(help, indent: width + 2) + "\n"
      } else {
        let lead = "  " + name + String(repeating: " ", count: width - name.count)
        out += lead + wrapped(help, indent: width + 2, first: width + 2, led: true) + "\n"
      }
    }
    return out
  }

  /// Help fits a terminal of this width.
  private static let width = 80

  /// Breaks a paragraph at 80 columns. `led` text follows something already on its first line.
  private func wrapped(_ text: String, indent: Int, first: Int? = nil, led: Bool = false) -> String {
    var lines: [String] = []
    var line = led ? "" : String(repeating: " ", count: first ?? indent)
    var column = first ?? indent
    var fresh = true
    for word in text.split(whereSeparator: { $0 == " " || $0 == "\n" }) {
      if !fresh, column + word.count + 1 > HelpText.width {
        lines.append(line)
        line = String(repeating: " ", count: indent)
        column = indent
        fresh = true
      }
      if !fresh {
        line += " "
        column += 1
      }
      line += word
      column += word.count
      fresh = false
    }
    lines.append(line)
    return lines.joined(separator: "\n")
  }
}
