import FolderSync
import MarfaBase
import MarfaCopy

/// The settings options shared by `create`, `change`, their `device folders` twins and `add --create` (C6.1).
let settingsOptions: [Option] = [
  Option("title", .text("TEXT"), "The folder's name."),
  Option(
    "search", .text("JSON"), "Which items it holds: an object of types, tier, state, filter and beneath."),
  Option(
    "defaults", .text("JSON"), "What a new file's item gets: an object of type, tier, properties, tags and edges."),
  Option("include", .text("PATTERN"), repeats: true, "Take these files too, in .gitignore's syntax."),
  Option(
    "ignore", .text("PATTERN"), repeats: true, "Leave these files alone, in .gitignore's syntax; wins over --include."),
  Option("first-placement", .text("TYPE=DIR"), repeats: true, "Where items of a type get their first file."),
  Option(
    "removal-threshold", .text("JSON"), "When a large removal waits for you: an object of files and fraction."),
]

private let bodyOptions: [Option] = [
  Option("file", .text("PATH"), "The settings as a JSON object in a file; '-' is standard input."),
  Option("body", .text("JSON"), "The settings as a JSON object."),
]

let idempotencyOption = Option(
  "idempotency-key", .text("KEY"), "A repeat under the same key is answered from the record.")

/// All options of settings and how they are sent.
let allSettingsOptions = bodyOptions + settingsOptions + [idempotencyOption]

/// `create`, `change` and `revoke`.
func settingsCommands() -> [Command] {
  [
    Command(
      name: "create", summary: "make a folder's settings on the server",
      discussion:
        "A folder is an item on the server whose search says which items a directory holds. 'add DIR --folder ID' then makes a directory that follows it.",
      options: bodyOptions + settingsOptions + [idempotencyOption], run: createFolder),
    Command(
      name: "change", summary: "change a folder's settings on the server",
      options: [
        Option("version", .number("N"), required: true, "The version the change is based on.")
      ] + bodyOptions + settingsOptions + [idempotencyOption],
      arguments: [Argument("ID", "The folder's id.")], run: changeFolder),
    Command(
      name: "revoke", summary: "retire a folder's settings for good", options: [idempotencyOption],
      arguments: [Argument("ID", "The folder's id.")], run: revokeFolder),
  ]
}

@Sendable private func createFolder(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let session = Session(invocation)
  let settings = try FolderSettingsOptions(invocation).document(in: session)
  try SettingsCheck.check(settings)
  let row = try postFolder(settings, through: session.connection(), key: invocation.value("idempotency-key"))
  invocation.program.output.answer(row, [folderLine(row)])
  return 0
}

/// `POST /folders`.
func postFolder(_ settings: JSONObject, through connection: ServerConnection, key: Text?) throws(MarfaError) -> JSON {
  try direct { () throws(MarfaError) in
    try connection.request(
      "POST", "/folders", body: .bytes(JSON.object(settings).write()), headers: idempotency(key)
    ).json()
  }
}

/// A door that asks the server itself, not through a working copy: every 409 is `conflict` there (C5.1, C5.2).
private func direct(_ ask: () throws(MarfaError) -> JSON) throws(MarfaError) -> JSON {
  do throws(MarfaError) { return try ask() } catch {
    guard error.code == .versionConflict else { throw error }
    var refusal = error
    refusal.code = .conflict
    throw refusal
  }
}

@Sendable private func changeFolder(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let session = Session(invocation)
  let id = try folderID(invocation.argument(0))
  var settings = try FolderSettingsOptions(invocation).document(in: session)
  settings["version"] = .int(invocation.number("version") ?? 0)
  let row = try direct { () throws(MarfaError) in
    try session.connection().request(
      "PATCH", "/folders/\(id)", body: .bytes(JSON.object(settings).write()),
      headers: idempotency(invocation.value("idempotency-key"))
    ).json()
  }
  invocation.program.output.answer(row, [folderLine(row)])
  return 0
}

@Sendable private func revokeFolder(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let session = Session(invocation)
  let id = try folderID(invocation.argument(0))
  let row = try direct { () throws(MarfaError) in
    try session.connection().request(
      "POST", "/folders/\(id)/revoke", headers: idempotency(invocation.value("idempotency-key"))
    ).json()
  }
  invocation.program.output.answer(row, [folderLine(row) + " revoked"])
  return 0
}

private func idempotency(_ key: Text?) -> [HTTPHeader] {
  key.map { [HTTPHeader("Idempotency-Key", $0.string)] } ?? []
}

/// An id of the command line.
/// - Throws: `invalid`.
func folderID(_ text: Text?) throws(MarfaError) -> EntityID {
  guard let text, let id = EntityID(text) else {
    throw MarfaError(.invalid, "'\(text ?? "")' is no id; ids look like 018f0000-0000-7000-8000-00000000f001")
  }
  return id
}

/// A folder row in one line: id, version and title (C6.5).
func folderLine(_ row: JSON) -> String {
  let row = row["item"] ?? row
  let title = (row["settings"]?["title"] ?? row["properties"]?["title"] ?? row["title"])?.text
  return "\(row["id"]?.text ?? "?") version \(row["version"]?.int ?? 0)\(title.map { " \($0)" } ?? "")"
}

/// Settings of the command line, laid over a whole document where one is given (C6.3).
struct FolderSettingsOptions {
  private let invocation: Invocation

  /// The options of a command line.
  init(_ invocation: Invocation) { self.invocation = invocation }

  /// The settings.
  /// - Throws: `usage` where `--file` and `--body` are both given, `invalid` naming the option that is wrong.
  func document(in session: Session) throws(MarfaError) -> JSONObject {
    var settings = try base(in: session)
    try lay("title", invocation.value("title").map { .string($0) }, over: &settings, option: "title")
    for (option, member) in [
      ("search", "search"), ("defaults", "defaults"), ("removal-threshold", "removal_threshold"),
    ] {
      guard let text = invocation.value(option) else { continue }
      try lay(Text(member), .object(try object(text, of: "--\(option)")), over: &settings, option: option)
    }
    for option in ["include", "ignore"] where invocation.has(option) {
      try lay(Text(option), .array(invocation.all(option).map { .string($0) }), over: &settings, option: option)
    }
    if invocation.has("first-placement") {
      var placements = JSONObject()
      for pair in invocation.all("first-placement") {
        guard let equals = pair.bytes.firstIndex(of: UInt8(ascii: "=")) else {
          throw MarfaError(.invalid, "--first-placement takes TYPE=DIR, not '\(pair)'")
        }
        placements[Text(bytes: pair.bytes[..<equals])] = .string(Text(bytes: pair.bytes[(equals + 1)...]))
      }
      try lay("first_placement", .object(placements), over: &settings, option: "first-placement")
    }
    return settings
  }

  private func base(in session: Session) throws(MarfaError) -> JSONObject {
    switch (invocation.value("file"), invocation.value("body")) {
    case (nil, nil): return JSONObject()
    case (_?, _?): throw MarfaError(.usage, "--file and --body exclude each other")
    case (nil, let body?): return try object(body, of: "--body")
    case (let file?, nil):
      if file == "-" { return try object(Text(bytes: try readStandardInput()), of: "--file") }
      let path = invocation.program.absolute(PathBytes(file))
      return try object(Text(bytes: try readFile(path, in: session.context.files, limit: 1 << 20)), of: "--file")
    }
  }

  private func object(_ text: Text, of option: String) throws(MarfaError) -> JSONObject {
    guard let value = try? JSON(parsing: text.bytes), let object = value.object else {
      throw MarfaError(.invalid, "\(option) takes a JSON object")
    }
    return object
  }

  private func lay(_ member: Text, _ value: JSON?, over settings: inout JSONObject, option: String) throws(MarfaError) {
    guard let value else { return }
    guard settings[member] == nil else {
      throw MarfaError(.invalid, "the setting '\(member)' is given twice: in the document and by --\(option)")
    }
    settings[member] = value
  }
}
