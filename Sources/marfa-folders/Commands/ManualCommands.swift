import MarfaBase
import MarfaCopy

/// `completions` and `man`: what a shell and `man` know of the program, written from its own tree.
func manualCommands() -> [Command] {
  [
    Command(
      name: "completions", summary: "the completion of these commands for a shell, as a script",
      discussion:
        "In bash: source <(marfa-folders completions bash). scripts/install and the Debian package put the scripts where each shell looks for them.",
      arguments: [Argument("SHELL", words: ["bash", "zsh", "fish"], "bash, zsh or fish.")], run: completions),
    Command(
      name: "man", summary: "a man page of the program or of one of its commands",
      discussion:
        "The page is for man(1): marfa-folders man add | man -l -. With --write every page is written, one file each.",
      options: [Option("write", .text("DIR"), "Write every page into this directory.")],
      arguments: [Argument("COMMAND", optional: true, "A command; the program itself where it is left out.")],
      run: manual),
  ]
}

@Sendable private func completions(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let table = CompletionTable(commandTree())
  let shell = invocation.argument(0) ?? ""
  switch shell.string {
  case "bash": invocation.program.output.text(BashCompletion(table: table).script)
  case "zsh": invocation.program.output.text(ZshCompletion(table: table).script)
  case "fish": invocation.program.output.text(FishCompletion(table: table).script)
  default: throw MarfaError(.usage, "'completions' takes bash, zsh or fish, not '\(shell)'")
  }
  return 0
}

@Sendable private func manual(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let root = commandTree()
  let pages = ManPages(root: root).all
  if let directory = invocation.value("write") {
    guard invocation.argument(0) == nil else { throw MarfaError(.usage, "'man --write' writes every page: name none") }
    try write(pages, into: invocation.program.absolute(PathBytes(directory)))
    return 0
  }
  let command = invocation.argument(0)
  let name = try command.map { (word) throws(MarfaError) in
    guard let found = root.command(named: word) else { throw MarfaError(.usage, "'\(word)' is no command") }
    return "\(root.name)-\(found.name)"
  }
  // Every command of the tree has its page.
  for page in pages where page.name == name ?? root.name { invocation.program.output.text(page.text) }
  return 0
}

private func write(_ pages: [(name: String, text: String)], into directory: PathBytes) throws(MarfaError) {
  let files = SystemFileSystem()
  do throws(FileError) {
    _ = try files.makeDirectories(directory, mode: 0o755)
    let place = try files.openDirectory(directory)
    for page in pages {
      let name = PathBytes(bytes: Array("\(page.name).1".utf8))
      if try place.status(of: name) != nil { try place.unlink(name) }
      let file = try place.create(name, mode: 0o644, exactMode: true)
      try file.write(Array(page.text.utf8))
      try file.close()
    }
  } catch { throw MarfaError(error) }
}
