import MarfaBase

/// What adding a file queued (D38.7, D46.1).
package struct AddedFile: Sendable {
  /// The upload of its bytes.
  package var upload: QueuedWrite
  /// The file item, which waits on the upload.
  package var create: QueuedWrite
  /// The `attached-to` edge, which waits on the file item; nil for a file on its own.
  package var edge: QueuedWrite?
  /// The file item's id.
  package var item: EntityID
  /// `![[title]]`, where that names the file alone among the host's attachments (D98.1).
  package var embed: Text?
}

/// Files as items of their own: uploaded, attached to a host, named in its body (D38, D46, D98, D99).
extension WorkingCopy {
  /// Queues a file and its edge to a host, all or nothing.
  /// - Parameters:
  ///   - name: the file's name; its extension says its MIME type.
  ///   - mimeType: in place of what the name says.
  ///   - title: kept as given; nil takes the name, numbered where another attachment of the host answers to it.
  /// - Throws: `not_found` for a host not held or in the bin, `invalid` for an empty file.
  @discardableResult
  package func attach(
    _ file: any ReadableFile, name: PathBytes, to host: EntityID, title: Text? = nil, type: Text? = nil,
    tier: Text? = nil, mimeType: Text? = nil
  ) throws(MarfaError) -> AddedFile {
    try requireWriter()
    guard let held = try item(host), !held.isTrashed else {
      // It may be a row that has not come yet (D4).
      if try hydration() != .never { try requireComplete() }
      throw MarfaError(.notFound, "the copy holds no item \(host) to attach to")
    }
    return try store.transaction {
      let title = try title ?? freeTitle(name.text, among: titles(ofAttachmentsOf: host))
      var added = try queueFile(file, name, title, type, tier, mimeType, tags: [])
      added.edge = try queue.createEdge(EdgeDraft(source: added.item, target: host, type: "attached-to"))
      added.embed = try? embedText(of: added.item, in: host)
      return added
    }
  }

  /// Queues a file on its own, each tag a write behind it (D46.1).
  @discardableResult
  package func addFile(
    _ file: any ReadableFile, name: PathBytes, title: Text? = nil, type: Text? = nil, tier: Text? = nil,
    tags: [Text] = [], mimeType: Text? = nil
  ) throws(MarfaError) -> AddedFile {
    try requireWriter()
    return try store.transaction { try queueFile(file, name, title ?? name.text, type, tier, mimeType, tags: tags) }
  }

  private func queueFile(
    _ file: any ReadableFile, _ name: PathBytes, _ title: Text, _ type: Text?, _ tier: Text?, _ mimeType: Text?,
    tags: [Text]
  ) throws(MarfaError) -> AddedFile {
    let mime = mimeType?.string ?? MIMETypes.added(name) ?? MIMETypes.fallback
    let upload = try queue.upload(file: file, mimeType: Text(mime))
    guard let hash = upload.blob else { throw MarfaError(.bytesAbsent, "the bytes of \(name) were not kept") }
    let type = type ?? WorkingCopy.fileType(ofMIME: mime)
    let catalog = try catalog()
    var properties = JSONObject([
      (catalog.titleField(of: type), .string(title)), ("blob_ref", .string(hash.text)),
      ("mime_type", .string(Text(mime))),
    ])
    // Types that are no files carry no size (D74.1).
    if catalog.type(type)?.isFileType ?? false { properties["size_bytes"] = .int(Int(blobs.size(hash) ?? 0)) }
    let create = try queue.createItem(
      ItemDraft(type: type, properties: properties, tags: tags, tier: tier, upload: upload.id))
    guard let item = create.itemID else { throw MarfaError(.store, "the file item of \(name) has no id") }
    return AddedFile(upload: upload, create: create, edge: nil, item: item, embed: nil)
  }

  /// The type of a file by its MIME kind (D46.3).
  package static func fileType(ofMIME mime: String) -> Text {
    for kind in ["image", "audio", "video"] where mime.hasPrefix("\(kind)/") { return Text("core.file.\(kind)") }
    return "core.file"
  }

  // MARK: - Names and embeds

  private func attachments(of host: EntityID) throws(MarfaError) -> [Item] {
    var out: [Item] = []
    for edge in try edges(to: host, type: "attached-to") {
      if let file = try item(edge.source), !file.isTrashed { out.append(file) }
    }
    return out
  }

  private func titles(ofAttachmentsOf host: EntityID) throws(MarfaError) -> [Text] {
    let catalog = try catalog()
    return try attachments(of: host).compactMap { catalog.title(of: $0) }
  }

  /// The first of `name.ext`, `name 2.ext`, ... that none of the titles answers to (D99.1).
  private func freeTitle(_ name: Text, among titles: [Text]) -> Text {
    let taken = Set(titles.map { NameKey($0) })
    let bytes = name.bytes
    let dot = bytes.lastIndex(of: UInt8(ascii: ".")).flatMap { $0 > 0 ? $0 : nil } ?? bytes.count
    var number = 1
    var candidate = name
    while taken.contains(NameKey(candidate)) {
      number += 1
      candidate = Text(bytes: Array(bytes[..<dot]) + Array(" \(number)".utf8) + Array(bytes[dot...]))
    }
    return candidate
  }

  /// The embed that names a file alone in a host's body (D98.2).
  /// - Throws: `invalid` for an item that is no file, one not attached to the host, or one no embed names alone.
  package func embedText(of file: EntityID, in host: EntityID) throws(MarfaError) -> Text {
    let catalog = try catalog()
    guard let item = try item(file), catalog.type(item.type)?.isFileType ?? false else {
      throw MarfaError(.invalid, "\(file) is no file")
    }
    let attached = try attachments(of: host)
    guard attached.contains(where: { $0.id == file }) else {
      throw MarfaError(.invalid, "\(file) is not attached to \(host)")
    }
    guard let title = catalog.title(of: item), WorkingCopy.canBeEmbedded(title),
      attached.filter({ catalog.title(of: $0).map { NameKey($0) } == NameKey(title) }).count == 1
    else { throw MarfaError(.invalid, "no embed can name \(file) alone in \(host)") }
    return Text(bytes: Array("![[".utf8) + title.bytes + Array("]]".utf8))
  }

  private static func canBeEmbedded(_ title: Text) -> Bool {
    let special = Set("[]|#^\n".utf8)
    guard !title.isEmpty, !title.bytes.contains(where: special.contains) else { return false }
    let name = PathBytes(bytes: title.bytes)
    // A document's ending, or none, reads as a note's name (D88.R4).
    guard let ending = name.fileExtension else { return false }
    let lower = ending.bytes.map { $0 >= 0x41 && $0 <= 0x5A ? $0 | 0x20 : $0 }
    return !["md", "markdown", "txt"].contains { lower.elementsEqual($0.utf8) }
  }

  /// Attaches a file and appends its embed to the host's body after a blank line (D98.3).
  /// - Throws: what `attach` throws; `invalid` with the file item's id as its reason where no embed can name it: the file
  ///   stays attached and the body as it is.
  @discardableResult
  package func embed(
    _ file: any ReadableFile, name: PathBytes, in host: EntityID, title: Text? = nil
  ) throws(MarfaError) -> AddedFile {
    let added = try attach(file, name: name, to: host, title: title)
    guard let embed = added.embed, let row = try item(host) else {
      throw MarfaError(
        .invalid, "the file is attached, and no embed can name it alone in the body", reason: added.item.text.string)
    }
    let field = try catalog().bodyField(of: row.type)
    let body = row.properties[field]?.text?.bytes ?? []
    let text = body.isEmpty ? embed.bytes : body + Array("\n\n".utf8) + embed.bytes
    try queue.updateItem(
      host, ItemEdit(properties: JSONObject([(field, .string(Text(bytes: text)))]), version: row.version))
    return added
  }
}
