import MarfaBase
import MarfaCopy

/// `device folders`: settings of folders through the copy, sent at once (C25.4).
func deviceFolders() -> Command {
  let folder = Argument("ID", "The folder's id.")
  return Command(
    name: "folders", summary: "folders' settings through the copy",
    commands: [
      Command(
        name: "create", summary: "make a folder's settings on the server", options: allSettingsOptions,
        run: createFolder),
      Command(
        name: "change", summary: "change a folder's settings on the server",
        options: [Option("version", .number("N"), required: true, "The version the change is based on.")]
          + allSettingsOptions, arguments: [folder], run: changeFolder),
      Command(
        name: "revoke", summary: "retire a folder's settings for good", options: [idempotencyOption],
        arguments: [folder], run: revokeFolder),
      Command(name: "get", summary: "a folder's settings as the copy holds them", arguments: [folder], run: getFolder),
    ])
}

/// `Folder row` of C26.1.
private func row(_ folder: Item) -> JSON {
  [
    "id": .string(folder.id.text), "version": .int(folder.version), "state": .string(folder.state),
    "settings": .object(folder.properties),
  ]
}

private func answer(_ folder: Item, _ invocation: Invocation) -> Int32 {
  let title = folder.properties["title"]?.text.map { " \($0)" } ?? ""
  invocation.program.output.answer(
    row(folder), ["\(folder.id) version \(folder.version) \(folder.state)\(title)"])
  return 0
}

@Sendable private func createFolder(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let store = try DeviceStore(invocation)
  let settings = try FolderSettingsOptions(invocation).document(in: store.session)
  try SettingsCheck.check(settings)
  let written = try store.use(asks: true) { (copy) throws(MarfaError) in
    try copy.createFolder(settings, key: invocation.value("idempotency-key"))
  }
  return answer(written.folder, invocation)
}

@Sendable private func changeFolder(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let store = try DeviceStore(invocation)
  let id = try id(invocation)
  let settings = try FolderSettingsOptions(invocation).document(in: store.session)
  let written = try store.use(asks: true) { (copy) throws(MarfaError) in
    try copy.changeFolder(
      id, version: invocation.number("version") ?? 0, settings, key: invocation.value("idempotency-key"))
  }
  return answer(written.folder, invocation)
}

@Sendable private func revokeFolder(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  let written = try DeviceStore(invocation).use(asks: true) { (copy) throws(MarfaError) in
    try copy.revokeFolder(id, key: invocation.value("idempotency-key"))
  }
  return answer(written.folder, invocation)
}

@Sendable private func getFolder(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  let folder = try DeviceStore(invocation).use { (copy) throws(MarfaError) in try copy.folder(id) }
  guard let folder else { throw MarfaError(.notHeld, "the copy does not hold the folder \(id)") }
  return answer(folder, invocation)
}
