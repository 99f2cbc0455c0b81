import FolderSync
import MarfaBase
import MarfaCopy

/// `add`.
func addCommand() -> Command {
  Command(
    name: "add", summary: "make a directory a folder that follows a folder item",
    discussion: """
      Shows what the first sync would write and send, and changes nothing but DIR/.marfa until you confirm it. At a \
      terminal it asks; in a script it waits for 'confirm', or takes --yes.

      Without --folder it asks which folder to follow, at a terminal. --create makes a new one: what follows is its \
      title, else the directory's name is; the options of 'create' say what it holds.
      """,
    examples: [
      "marfa-folders add ~/Notes --folder ID",
      "marfa-folders add ~/Notes --create --local   # keep them on this computer",
    ],
    options: [
      Option("folder", .text("ID"), "The folder item to follow."),
      Option(
        "create", .optional("TITLE"),
        "Make a new folder item, titled TITLE or after the directory. --create=TITLE says it surely."),
      Option("local", "Use this computer's own instance, started where it does not run."),
      Option("yes", "Confirm the first sync without reading the directory or asking."),
      Option("backup", "First copy the directory beside itself."),
      Option("force", "Add it even where it is a home directory, the root, or holds more than 20,000 notes."),
    ] + settingsOptions,
    arguments: [Argument("DIR", "The directory; made where it is missing.")], run: add)
}

@Sendable private func add(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let program = invocation.program
  let asks = program.terminal.canAsk && !program.output.json
  try checkOptions(invocation, asks: asks)
  var session = Session(invocation)
  try chooseServer(&session, asks: asks)
  let directory = program.absolute(PathBytes(invocation.argument(0) ?? ""))
  try guardLargeDirectory(directory, session, asks: asks)

  let work = try FolderWork(session)
  let (folder, isNew) = try chooseFolder(directory, session, work, asks: asks)
  var added: AddedFolder
  do throws(MarfaError) {
    if invocation.has("backup") { try backUp(directory, folder, session, work) }
    added = try Progress.of(directory, program, session.context) { () throws(MarfaError) in
      try work.add(directory, following: folder, confirmed: invocation.has("yes"))
    }
  } catch {
    throw isNew ? takeBack(folder, work, error) : error
  }
  if let warning = added.storage["warning"]?.text { program.output.warning(warning.string) }
  if added.takesWindowsNames {
    program.output.warning(
      "\(directory) stands on a disk that holds no name with : ? * < > | \" or \\ in it, or with a dot at its end; items named so are written there with - in place of them"
    )
  }
  if asks, added.firstSync.waiting, let plan = added.firstSync.plan {
    program.output.note(planWords(plan))
    program.terminal.ask("Go ahead? [y/N] ")
    if Terminal.agrees(try program.terminal.readLine()), try work.confirm(directory).firstSync {
      added.firstSync = FirstSyncReading(waiting: false)
    }
  }
  program.output.answer(added.json, addedWords(added, directory))
  return 0
}

/// N1.2: a script names what is to be followed.
private func checkOptions(_ invocation: Invocation, asks: Bool) throws(MarfaError) {
  if invocation.has("folder"), invocation.has("create") {
    throw MarfaError(.usage, "--folder and --create exclude each other")
  }
  if let title = invocation.value("create"), !Terminal.trimmed(title).isEmpty, invocation.has("title") {
    throw MarfaError(.invalid, "the title is given twice, by --create and by --title")
  }
  if invocation.has("local"), invocation.has("url") {
    throw MarfaError(.usage, "--local and --url exclude each other")
  }
  guard invocation.has("folder") || invocation.has("create") || asks else {
    throw MarfaError(
      .usage, "'add' needs --folder ID, the folder item to follow, or --create, which makes a new one")
  }
  if !invocation.has("create"), let setting = settingsOptions.first(where: { invocation.has($0.name) }) {
    throw MarfaError(.usage, "--\(setting.name) is for --create; 'change' changes a folder that is there")
  }
}

/// The server: as everywhere, `--local`, or at a terminal the offer of N1.4.
private func chooseServer(_ session: inout Session, asks: Bool) throws(MarfaError) {
  if session.invocation.has("local") {
    session = session.at(.local)
  } else if asks, try session.namedServer() == nil {
    session.program.output.note(
      "No server is named. Notes can be kept on this computer; 'marfa-folders login --url URL' signs in to a server instead."
    )
    session.program.terminal.ask("Keep your notes on this computer for now? [Y/n] ")
    guard let answer = try session.program.terminal.readLine(),
      Terminal.trimmed(answer).isEmpty || Terminal.agrees(answer)
    else {
      throw MarfaError(
        .noServer,
        "no server is named, and nothing was made: give one with --url or MARFA_API_URL, or sign in with 'login'")
    }
    session = session.at(.local)
  }
}

/// The folder to follow, and whether it was made for this.
private func chooseFolder(
  _ directory: PathBytes, _ session: Session, _ work: FolderWork, asks: Bool
) throws(MarfaError) -> (EntityID, isNew: Bool) {
  let invocation = session.invocation
  if invocation.has("folder") { return (try folderID(invocation.value("folder")), false) }
  let title = invocation.value("create").flatMap { Terminal.trimmed($0).isEmpty ? nil : $0 } ?? titled(after: directory)
  if invocation.has("create") { return (try makeFolder(title, session, work), true) }
  return try askFolder(title, session, work)
}

private func titled(after directory: PathBytes) -> Text {
  let name = Text(directory.name.description)
  return name.isEmpty ? "Notes" : name
}

private func makeFolder(_ title: Text, _ session: Session, _ work: FolderWork) throws(MarfaError) -> EntityID {
  var settings = try FolderSettingsOptions(session.invocation).document(in: session)
  if settings["title"] == nil { settings["title"] = .string(title) }
  if settings["search"] == nil { settings["search"] = ["types": ["core.note"]] }
  // P3.5: a mishap pauses sooner, and what other programs make by the thousand stays out.
  if settings["removal_threshold"] == nil { settings["removal_threshold"] = ["files": 20, "fraction": 0] }
  if settings["ignore"] == nil { settings["ignore"] = ["node_modules/", ".venv/", "target/"] }
  try SettingsCheck.check(settings)
  let row = try postFolder(settings, through: work.connection(), key: nil)
  guard let id = (row["item"] ?? row)["id"]?.text.flatMap({ EntityID($0) }) else {
    throw MarfaError(.decoding, "the server answered the new folder without its id")
  }
  return id
}

/// The live folders of the server, and a new one as the last choice (N1.1).
private func askFolder(_ title: Text, _ session: Session, _ work: FolderWork) throws(MarfaError) -> (
  EntityID, isNew: Bool
) {
  let output = session.program.output
  let rows =
    try work.connection().request(
      "GET", "/items", query: [("type", "system.folder"), ("state", "active"), ("limit", "200")]
    ).json()["data"]?.array ?? []
  let folders = rows.compactMap { row -> (id: EntityID, title: Text, types: String)? in
    guard let id = row["id"]?.text.flatMap({ EntityID($0) }) else { return nil }
    let properties = row["properties"]
    let types = properties?["search"]?["types"]?.array?.compactMap { $0.text?.string } ?? []
    return (id, properties?["title"]?.text ?? "", types.isEmpty ? "every type" : types.joined(separator: ", "))
  }
  guard !folders.isEmpty else {
    // Nothing to choose from (N-S1).
    output.note("A new folder, titled \(title), is made for it.")
    return (try makeFolder(title, session, work), true)
  }
  output.note("Which folder should it follow?")
  for (index, folder) in folders.enumerated() {
    output.note("  \(index + 1)  \(folder.title)  \(folder.id)  (\(folder.types))")
  }
  output.note("  \(folders.count + 1)  a new folder, titled \(title)")
  session.program.terminal.ask("Number, or the beginning of a title: ")
  guard let line = try session.program.terminal.readLine() else { throw nothingChosen }
  let answer = Terminal.trimmed(line)
  if let number = Int(answer.string) {
    if number == folders.count + 1 { return (try makeFolder(title, session, work), true) }
    if number >= 1, number <= folders.count { return (folders[number - 1].id, false) }
    throw nothingChosen
  }
  let prefix = NameKey(answer).bytes
  let matching = folders.filter { !answer.isEmpty && NameKey($0.title).bytes.starts(with: prefix) }
  guard matching.count == 1, let chosen = matching.first else { throw nothingChosen }
  return (chosen.id, false)
}

private var nothingChosen: MarfaError { MarfaError(.canceled, "no folder was chosen, and nothing was made") }

/// N1.3: the folder an `add --create` made goes again where the add is refused, or is named with the command.
private func takeBack(_ folder: EntityID, _ work: FolderWork, _ error: MarfaError) -> MarfaError {
  var error = error
  // What was made for this goes again: there is nothing to change, but to name what is wanted otherwise.
  error.message = error.message.replacing("; `marfa-folders change \(folder)` changes it", with: "")
  do throws(MarfaError) {
    _ = try work.connection().request("POST", "/folders/\(folder)/revoke")
  } catch let failure {
    error.message +=
      "; the folder \(folder) it made is still there (\(failure.message)): 'marfa-folders revoke \(folder)' retires it"
  }
  return error
}

private func addedWords(_ added: AddedFolder, _ directory: PathBytes) -> [String] {
  var lines = ["\(added.dir) follows \(added.folder)"]
  let shown = shellWord(added.dir)
  guard added.firstSync.waiting else {
    return lines + [
      "First sync confirmed: 'marfa-folders sync \(shown)' runs it, 'marfa-folders watch \(shown)' keeps it in step."
    ]
  }
  if let plan = added.firstSync.plan { lines.append(planWords(plan)) }
  if let unread = added.firstSync.unread {
    lines.append("What the first sync does could not be read: \(unread). 'marfa-folders push \(shown)' tries again.")
  }
  lines.append(
    "Nothing is written or sent until 'marfa-folders confirm \(shown)' lets it go; 'marfa-folders remove \(shown)' takes the folder off."
  )
  return lines
}

/// P7.2: the root, a home directory and a directory of more than 20,000 notes ask once more.
private func guardLargeDirectory(_ directory: PathBytes, _ session: Session, asks: Bool) throws(MarfaError) {
  guard !session.invocation.has("force") else { return }
  let resolved = (try? session.context.files.resolve(directory)) ?? directory
  let home = session.program.environment["HOME"].map {
    (try? session.context.files.resolve(PathBytes($0))) ?? PathBytes($0)
  }
  var why: String?
  if resolved == "/" {
    why = "it is the root of the file system"
  } else if resolved == home {
    why = "it is your home directory"
  } else if noteCount(in: resolved, session.context.files, limit: 20_000) > 20_000 {
    why = "it holds more than 20,000 notes"
  }
  guard let why else { return }
  guard asks else {
    throw MarfaError(.invalid, "\(directory) is not added, because \(why); --force adds it all the same")
  }
  session.program.terminal.ask("\(directory): \(why). Add it all the same? [y/N] ")
  guard Terminal.agrees(try session.program.terminal.readLine()) else {
    throw MarfaError(.canceled, "\(directory) was not added, and nothing was made")
  }
}

/// Markdown files beneath a directory, counted to just past `limit`. What can't be read counts nothing.
private func noteCount(in path: PathBytes, _ files: any FileSystem, limit: Int) -> Int {
  guard let root = try? files.openDirectory(path) else { return 0 }
  var count = 0
  func walk(_ directory: any Directory, _ depth: Int) {
    guard let entries = try? directory.list() else { return }
    for entry in entries where entry.name.bytes.first != UInt8(ascii: ".") {
      if count > limit { return }
      switch entry.kind ?? ((try? directory.status(of: entry.name))??.kind) {
      case .regular: if entry.name.fileExtension == "md" { count += 1 }
      case .directory: if depth < 64, let child = try? directory.directory(entry.name) { walk(child, depth + 1) }
      case .link, .special, nil: break
      }
    }
  }
  walk(root, 0)
  return count
}
