import FolderSync
import MarfaBase
import MarfaCopy

/// Doors of `device items` that touch files, the bin and bodies.
func deviceFileDoors() -> [Command] {
  let item = Argument("ID", "The item.")
  let file = Argument("FILE", "The file on this machine.")
  let named = [
    Option("mime-type", .text("TYPE"), "Its MIME type; its name says it where none is given."),
    Option("title", .text("TEXT"), "Its title; its name where none is given."),
    Option("type", .text("T"), "The item's type; the MIME type says it where none is given."),
    Option("tier", .oneOf(["library", "feed"]), "Its tier."),
  ]
  return [
    Command(
      name: "purge", summary: "purge an item of the bin for good",
      options: [Option("version", .number("N"), "Only where it has this version; the one held where not given.")],
      arguments: [item], run: purge),
    Command(
      name: "bin", summary: "what the server's bin holds, newest change first",
      options: [
        Option("type", .text("T"), "A type, with its subtypes."),
        Option("cursor", .text("CURSOR"), "Where the page begins: the next_cursor of the one before."),
        Option("limit", .number("N"), "At most so many, 50 where not given, 100 at most."),
      ], run: bin),
    Command(
      name: "add", summary: "queue a file as an item of its own",
      options: named + [Option("tag", .text("TAG"), repeats: true, "A tag.")], arguments: [file], run: add),
    Command(
      name: "attach", summary: "queue a file and its edge to an item", options: named, arguments: [item, file],
      run: attach),
    Command(
      name: "links", summary: "the links and embeds of an item's body, and what each names", arguments: [item],
      run: links),
    Command(
      name: "embed", summary: "the text that embeds an attached file in an item's body",
      arguments: [item, Argument("FILE", "The attached file's item.")], run: embed),
    Command(
      name: "thumbnail", summary: "the image an item carries in its row",
      options: [Option("out", .text("FILE"), "Write its bytes there.")], arguments: [item], run: thumbnail),
  ]
}

/// `device blobs`.
func deviceBlobs() -> Command {
  Command(
    name: "blobs", summary: "bytes by their hash",
    commands: [
      Command(
        name: "put", summary: "queue the upload of a file's bytes",
        options: [Option("mime-type", .text("TYPE"), "Their MIME type; the name says it where none is given.")],
        arguments: [Argument("FILE", "The file on this machine.")], run: putBlob),
      Command(
        name: "get", summary: "where the bytes lie, fetched where they are not held",
        arguments: [Argument("HASH", "sha256: and 64 digits, or the digits alone.")], run: getBlob),
    ])
}

/// A file the command line names, opened.
private func openFile(
  _ invocation: Invocation, _ place: Int, _ context: Context
) throws(MarfaError) -> (file: any ReadableFile, name: PathBytes) {
  let path = invocation.program.absolute(PathBytes(invocation.argument(place) ?? ""))
  do throws(FileError) {
    return (try context.files.openDirectory(path.parent.isEmpty ? "/" : path.parent).open(path.name), path.name)
  } catch { throw MarfaError(error.of(path)) }
}

/// Answers with queued writes.
private func answer(_ writes: [QueuedWrite], _ invocation: Invocation) -> Int32 {
  invocation.program.output.answer(.array(writes.map(\.json)), writes.map { QueueWords.line($0) })
  return 0
}

@Sendable private func purge(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  try DeviceStore(invocation).use(asks: true) { (copy) throws(MarfaError) in
    try copy.purge(id, version: invocation.number("version"))
  }
  invocation.program.output.answer(["id": .string(id.text), "purged": true], ["\(id) is purged"])
  return 0
}

@Sendable private func bin(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let limit = invocation.number("limit") ?? 50
  guard (1...100).contains(limit) else { throw MarfaError(.invalid, "--limit of the bin is from 1 to 100") }
  let page = try DeviceStore(invocation).use(asks: true) { (copy) throws(MarfaError) in
    try copy.bin(type: invocation.value("type"), limit: limit, cursor: invocation.value("cursor"))
  }
  if page.rows.isEmpty { invocation.program.output.note("The bin holds nothing of this.") }
  var lines = page.rows.map { "\($0.id) \($0.type) \($0.properties["title"]?.text ?? "")" }
  if let next = page.next { lines.append("more: --cursor \(next)") }
  invocation.program.output.answer(
    ["items": .array(page.rows.map(\.json)), "next_cursor": .optional(page.next)], lines)
  return 0
}

@Sendable private func add(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let writes = try DeviceStore(invocation).use { (copy) throws(MarfaError) -> [QueuedWrite] in
    let (file, name) = try openFile(invocation, 0, copy.context)
    let added = try copy.addFile(
      file, name: name, title: invocation.value("title"), type: invocation.value("type"),
      tier: invocation.value("tier"), tags: invocation.all("tag"), mimeType: invocation.value("mime-type"))
    let tags = try copy.queue.waiting(item: added.item).filter { $0.kind == .addTag }
    return [added.upload, added.create] + tags
  }
  return answer(writes, invocation)
}

@Sendable private func attach(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let host = try id(invocation)
  let writes = try DeviceStore(invocation).use { (copy) throws(MarfaError) -> [QueuedWrite] in
    let (file, name) = try openFile(invocation, 1, copy.context)
    let added = try copy.attach(
      file, name: name, to: host, title: invocation.value("title"), type: invocation.value("type"),
      tier: invocation.value("tier"), mimeType: invocation.value("mime-type"))
    return [added.upload, added.create] + (added.edge.map { [$0] } ?? [])
  }
  return answer(writes, invocation)
}

@Sendable private func links(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  let found = try DeviceStore(invocation).use { (copy) throws(MarfaError) in try copy.readLinks(in: id) }
  if found.links.isEmpty, found.embeds.isEmpty { invocation.program.output.note("The body names nothing.") }
  invocation.program.output.answer(
    ["links": .array(found.links.map(nameJSON)), "embeds": .array(found.embeds.map(nameJSON))],
    (found.links + found.embeds).map(nameLine))
  return 0
}

/// A link or an embed (C26.8).
private func nameJSON(_ name: BodyName) -> JSON {
  let target: JSON =
    switch name.target {
    case .item(let id): ["state": "item", "id": .string(id.text)]
    case .pending: ["state": "pending"]
    case .missing: ["state": "missing"]
    case .ambiguous: ["state": "ambiguous"]
    case .refused(let reason): ["state": "refused", "reason": .string(Text(reason))]
    }
  return ["text": .string(name.text), "name": .string(name.name), "target": target]
}

private func nameLine(_ name: BodyName) -> String {
  switch name.target {
  case .item(let id): "\(name.text) -> \(id)"
  case .pending: "\(name.text) pending"
  case .missing: "\(name.text) missing"
  case .ambiguous: "\(name.text) ambiguous"
  case .refused(let reason): "\(name.text) refused: \(reason)"
  }
}

@Sendable private func embed(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let host = try id(invocation)
  let file = try id(invocation, 1)
  let text = try DeviceStore(invocation).use { (copy) throws(MarfaError) in
    try copy.embedText(of: file, in: host)
  }
  invocation.program.output.answer(["embed": .string(text)], [text.string])
  return 0
}

@Sendable private func thumbnail(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  let (image, files) = try DeviceStore(invocation).use { (copy) throws(MarfaError) in
    (try copy.thumbnail(id), copy.context.files)
  }
  var said = JSON.null
  var line = "\(id) carries no thumbnail"
  if let image {
    let out = invocation.value("out").map { invocation.program.absolute(PathBytes($0)) }
    if let out { try writeFile(image.bytes, to: out, in: files) }
    said = [
      "mime_type": .string(image.mimeType), "size_bytes": .int(image.bytes.count), "path": .optional(out?.text),
    ]
    line = "\(image.mimeType), \(image.bytes.count) bytes\(out.map { ", written to \($0)" } ?? "")"
  }
  invocation.program.output.answer(["id": .string(id.text), "thumbnail": said], [line])
  return 0
}

/// Writes a whole small file the person named, in place of what lies there.
private func writeFile(_ bytes: [UInt8], to path: PathBytes, in files: any FileSystem) throws(MarfaError) {
  do throws(FileError) {
    let directory = try files.openDirectory(path.parent.isEmpty ? "/" : path.parent)
    if try directory.status(of: path.name) != nil { try directory.unlink(path.name) }
    let file = try directory.create(path.name, mode: 0o644, exactMode: false)
    try file.write(bytes)
    try file.close()
  } catch { throw MarfaError(error.of(path)) }
}

@Sendable private func putBlob(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let write = try DeviceStore(invocation).use { (copy) throws(MarfaError) -> QueuedWrite in
    let (file, name) = try openFile(invocation, 0, copy.context)
    let type = invocation.value("mime-type") ?? Text(MIMETypes.added(name) ?? MIMETypes.fallback)
    return try copy.queue.upload(file: file, mimeType: type)
  }
  return marfa_folders.answer(write, invocation)
}

@Sendable private func getBlob(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let text = invocation.argument(0) ?? ""
  guard let hash = ContentHash(text) ?? ContentHash(Text("sha256:\(text)")) else {
    throw MarfaError(.invalid, "'\(text)' is no hash: sha256: and 64 lowercase hex digits, or the digits alone")
  }
  let store = try DeviceStore(invocation)
  let path = try store.useOptional { (copy) throws(MarfaError) -> PathBytes? in
    if !copy.blobs.has(hash) {
      guard copy.server.endpoint != nil else {
        throw MarfaError(.bytesAbsent, "the bytes of \(hash) are not held, and no server is named to ask for them")
      }
      try copy.fetch(hash)
    }
    return copy.blobs.path(hash)
  }
  guard let path else { throw MarfaError(.bytesAbsent, "the bytes of \(hash) lie in no file") }
  invocation.program.output.answer(
    ["hash": .string(hash.text), "path": .string(path.text)], [path.description])
  return 0
}
