import MarfaBase
import MarfaCopy

/// Files that become new items.
extension ScanPass {
  /// Queues a new item for a file (F3, F13.3, F36).
  /// - Parameter requeuedFrom: the item of a lost row the file was bound to (F38.2).
  func decideNew(_ index: Int, requeuedFrom lost: EntityID?) throws {
    let file = files[index]
    if file.isBytes { return try decideNewBytes(index, requeuedFrom: lost) }
    switch file.reading {
    case .unreadable(let held):
      report.flagged.append(FlaggedFile(file.path, .unreadable, held.reason))
    case .encoding(let reason):
      report.flagged.append(FlaggedFile(file.path, .encoding, reason))
    case .read(let document):
      if document.kind == .text, let item = try ownedByPlacement(file, form: .text) {
        return try takeBack(index, item, form: .text)
      }
      try decideNewDocument(index, document, requeuedFrom: lost)
    case nil:
      // Unchanged or unread files have owners.
      break
    }
  }

  private func decideNewDocument(_ index: Int, _ document: Document, requeuedFrom lost: EntityID?) throws {
    let file = files[index]
    let defaults = facts.settings.defaults
    let fields = FileFields(document, agreed: nil)
    if let reason = PassFacts.refusal(ofPlacementAt: file.path) ?? refusedType(fields.type) {
      return refuseNew(index, reason)
    }
    let type = fields.type ?? facts.newDocumentType
    let titleField = facts.titleField(of: type)
    let bodyField = facts.bodyField(of: type)
    var properties = JSONObject()
    for member in fields.properties.members where member.key != bodyField { properties[member.key] = member.value }
    for member in defaults.properties.members
    where member.key != bodyField && properties[member.key] == nil && !facts.names.reserved.contains(member.key) {
      properties[member.key] = member.value
    }
    if properties[titleField] == nil, titleField != bodyField {
      properties[titleField] = .string(DocumentNames.stem(of: file.path))
    }
    properties[bodyField] = .string(fields.body)
    let tags = fields.tags ?? Set(defaults.tags)
    if let reason = localRefusal(
      tags: tags, added: tags.sorted(), before: 0, line: fields.tagList.isEmpty ? tags.sorted() : fields.tagList,
      properties: properties)
    {
      return refuseNew(index, reason)
    }

    let id = folder.context.ids.next()
    var binding = Binding(item: id, path: file.path, form: document.kind == .markdown ? .markdown : .text)
    binding.identity = identity(of: file)
    binding.seen = SeenStat(file.status, readAt: folder.now)
    binding.readHash = file.hash
    binding.edgesOwed = true
    var shown = fields.properties
    shown[bodyField] = nil
    let own = OwnLines(
      type: type, tier: fields.tier ?? defaults.tier ?? facts.search.tier, tags: tags,
      state: fields.state ?? "active", occurredAt: fields.occurredAt)
    // A blank the defaults filled is no later edit, neither the file's nor the item's.
    for (key, value) in properties.members where key != bodyField && shown[key] == nil { binding.filled[key] = value }
    binding.showed = Showed(
      own: document.kind == .markdown ? own : nil, properties: document.kind == .markdown ? shown : JSONObject(),
      body: ContentHash(of: fields.body.bytes))
    binding.line = fields.line
    files[index].item = id
    present.insert(id)
    bindings[id] = binding
    edgeWork.append(EdgeWork(file: index, item: id, document: document, isNew: true))
    report.created += 1
    if lost != nil { report.requeued += 1 }
    let made = binding
    try group { [self] in
      do {
        try folder.commit {
          if let lost { try endLost(lost, at: file.path) }
          let queued = try folder.copy.queue.createItem(
            ItemDraft(
              id: id, type: type, properties: properties, tier: own.tier, occurredAt: fields.occurredAt?.text
            )
            .ofFile)
          try folder.store.link(
            FolderWrite(id: queued.id, item: id, role: .create, detail: Text(made.showed?.digest.hex ?? "")))
          var made = made
          // A text file made where the search does not hold what it becomes is there by its person's hand (F44.12): no pull
          // ever rewrites it, so nothing would say that it was.
          if made.form == .text, tags.isEmpty { made.broughtByHand = try !folder.copy.matches(id, facts.search) }
          try tagAndPlace(id, tags: tags, archived: own.state == "archived", binding: made)
        }
      } catch let error as MarfaError where error.isLocalRefusal {
        report.created -= 1
        if lost != nil { report.requeued -= 1 }
        refuseNew(index, error.refusalReason)
        unmade.insert(id)
      }
    }
  }

  /// What follows a new item's create: its tags, its archive, its placement, each a write of its own (F-W11).
  func tagAndPlace(_ id: EntityID, tags: Set<Text>, archived: Bool, binding: Binding) throws {
    for tag in tags.sorted() {
      let queued = try folder.copy.queue.addTag(id, tag)
      try folder.store.link(FolderWrite(id: queued.id, item: id, role: .tag, detail: tag))
    }
    if archived {
      let queued = try folder.copy.queue.transition(id, "archived")
      try folder.store.link(FolderWrite(id: queued.id, item: id, role: .state, detail: "archived"))
    }
    try folder.place(id, at: binding.path)
    try folder.store.save(binding)
  }

  // MARK: Files of bytes

  private func decideNewBytes(_ index: Int, requeuedFrom lost: EntityID?) throws {
    let file = files[index]
    guard let hash = file.hash else { return }
    if let item = try ownedByPlacement(file, form: .bytes) { return try takeBack(index, item, form: .bytes) }
    if let reason = PassFacts.refusal(ofPlacementAt: file.path) { return refuseNew(index, reason) }
    let id = folder.context.ids.next()
    let mime = MIMETypes.type(of: file.path.name) ?? MIMETypes.fallback
    var properties = members([
      "title": .string(file.path.name.text), "blob_ref": .string(hash.text), "mime_type": .string(mime),
    ])
    let runs = try folder.keepsPermissions(in: root) && file.status.isExecutable
    if runs { properties["executable"] = true }
    let defaults = facts.settings.defaults
    var binding = Binding(item: id, path: file.path, form: .bytes)
    binding.identity = identity(of: file)
    binding.seen = SeenStat(file.status, readAt: folder.now)
    binding.readHash = hash
    binding.writtenHash = nil
    binding.edgesOwed = true
    binding.showed = Showed(own: nil, properties: JSONObject(), body: hash, executable: runs)
    files[index].item = id
    present.insert(id)
    bindings[id] = binding
    edgeWork.append(EdgeWork(file: index, item: id, document: nil, isNew: true))
    report.created += 1
    if lost != nil { report.requeued += 1 }
    let made = binding
    try group { [self] in
      do {
        try folder.commit {
          if let lost { try endLost(lost, at: file.path) }
          let upload = try folder.upload(file.path, in: root, expecting: hash, mimeType: Text(mime))
          try folder.store.link(FolderWrite(id: upload.id, item: id, role: .upload))
          let queued = try folder.copy.queue.createItem(
            ItemDraft(
              id: id, type: facts.fileType(of: file.path), properties: properties,
              tier: defaults.tier ?? facts.search.tier, upload: upload.id
            ).ofFile)
          try folder.store.link(FolderWrite(id: queued.id, item: id, role: .create))
          try tagAndPlace(id, tags: Set(defaults.tags), archived: false, binding: made)
        }
      } catch let error as MarfaError where error.isLocalRefusal {
        report.created -= 1
        refuseNew(index, error.refusalReason)
        unmade.insert(id)
      } catch let error as FileError {
        report.created -= 1
        report.flagged.append(FlaggedFile(file.path, .unreadable, "it cannot be read: \(error.reason)"))
        unmade.insert(id)
      }
    }
  }

  /// A bound file item's bytes, name or permission (F36.5, F36.6, F50.1).
  func decideBytes(_ index: Int, _ row: Item, _ start: Binding, places: Bool) throws {
    let file = files[index]
    guard let hash = file.hash else { return }
    var binding = start
    binding.readHash = hash
    binding.seen = SeenStat(file.status, readAt: folder.now)
    binding.hold = nil
    binding.setAside = nil
    var properties = JSONObject()
    // Of a row set back to an earlier point the file's bytes are the newer ones (F39.3).
    let isSetAside = start.setAside != nil
    let changed =
      isSetAside || start.showed.map { $0.body != hash } ?? (row.properties["blob_ref"]?.text != hash.text)
    // An emptied file is no upload (F36.1); it is held as it is until it holds bytes again.
    let uploads = changed && file.status.size > 0 && row.properties["blob_ref"]?.text != hash.text
    if uploads { properties["blob_ref"] = .string(hash.text) }
    if let title = titleFollowing(start, row, moved: places) { properties["title"] = .string(title) }
    binding.titledAs = nil
    let keeps = try folder.keepsPermissions(in: root)
    let agreed = start.showed?.executable ?? row.properties["executable"]?.bool ?? false
    if keeps, isSetAside || file.status.isExecutable != agreed,
      file.status.isExecutable != row.properties["executable"]?.bool ?? false
    {
      properties["executable"] = .bool(file.status.isExecutable)
    }
    binding.showed = Showed(
      own: nil, properties: JSONObject(), body: uploads || !changed ? hash : start.showed?.body ?? hash,
      executable: keeps ? file.status.isExecutable : start.showed?.executable)
    if properties.isEmpty {
      if binding.agreed == nil { binding.agreed = row.version }
      if !places { report.unchanged += 1 }
      let saved = binding
      return try group { [self] in try record(saved, placing: places ? row : nil) }
    }
    if uploads || properties["executable"] != nil { report.updated += 1 }
    let planned = binding
    try group { [self] in
      do {
        try folder.commit {
          var upload: EntityID?
          if uploads {
            let mime = MIMETypes.type(of: file.path.name) ?? MIMETypes.fallback
            let queued = try folder.upload(file.path, in: root, expecting: hash, mimeType: Text(mime))
            try folder.store.link(FolderWrite(id: queued.id, item: row.id, role: .upload))
            upload = queued.id
          }
          let queued = try folder.copy.queue.updateItem(
            row.id, ItemEdit(properties: properties, mode: .merge, version: row.version, upload: upload).ofFile)
          try folder.store.link(FolderWrite(id: queued.id, item: row.id, role: .edit))
          try record(planned, placing: places ? row : nil)
        }
      } catch let error as MarfaError where error.isLocalRefusal {
        if uploads || properties["executable"] != nil { report.updated -= 1 }
        try refuse(start, error.refusalReason, places: places ? row : nil)
      } catch let error as FileError {
        report.flagged.append(FlaggedFile(file.path, .unreadable, "it cannot be read: \(error.reason)"))
      }
    }
  }

  /// The title a moved file item takes: its new name, where the old one was its title (F36.6).
  private func titleFollowing(_ binding: Binding, _ row: Item, moved: Bool) -> Text? {
    let before = moved ? bindings[row.id]?.path.name ?? arrived[row.id]?.name : nil
    guard let was = binding.titledAs ?? before, row.properties["title"]?.text == was.text, was != binding.path.name
    else { return nil }
    return binding.path.name.text
  }

  /// Records a moved file item whose bytes are not read yet, or cannot be: its placement follows (F17.8, F51.3), its title
  /// with the bytes (F36.6).
  func recordUnread(_ unread: Binding, placing row: Item?) throws {
    var binding = unread
    if binding.form == .bytes, let row, binding.titledAs == nil, titleFollowing(binding, row, moved: true) != nil {
      binding.titledAs = bindings[row.id]?.path.name ?? arrived[row.id]?.name
    }
    try record(binding, placing: row)
  }

  // MARK: Files taken back (F17.10)

  /// The item whose placement names a path here and whose bytes the file holds, where no file here is its file.
  func ownedByPlacement(_ file: ScanFile, form: FileForm) throws -> EntityID? {
    guard let hash = file.hash else { return nil }
    for candidate in try placedHere()[file.path.nameKey] ?? [] {
      // One whose own file is gone was moved there by another machine, and its file brought here by another program (P8.1).
      guard bindings[candidate].map({ !foundPaths.contains($0.path) }) ?? true, !present.contains(candidate),
        let row = try folder.copy.item(candidate),
        !row.isTrashed, try folder.copy.matches(candidate, facts.search)
      else { continue }
      let isFile = facts.isFileItem(row.type)
      switch form {
      case .bytes: if isFile, row.properties["blob_ref"]?.text == hash.text { return candidate }
      case .text:
        let body = row.properties[facts.bodyField(of: row.type)]?.text ?? ""
        if !isFile, ContentHash(of: body.bytes) == hash { return candidate }
      case .markdown: break
      }
    }
    return nil
  }

  /// The items placed at each name of this folder.
  private func placedHere() throws -> [NameKey: [EntityID]] {
    if let placements { return placements }
    var read: [NameKey: [EntityID]] = [:]
    for edge in try folder.copy.edges(to: facts.folder, type: PassFacts.inFolder) {
      guard let text = edge.properties["path"]?.text, case .inside(let path) = PlacementPath(text) else { continue }
      read[path.nameKey, default: []].append(edge.source)
    }
    placements = read
    return read
  }

  func takeBack(_ index: Int, _ item: EntityID, form: FileForm) throws {
    let file = files[index]
    guard let row = try folder.copy.item(item) else { return }
    var binding = Binding(item: item, path: file.path, form: form)
    binding.identity = identity(of: file)
    binding.seen = SeenStat(file.status, readAt: folder.now)
    binding.readHash = file.hash
    binding.writtenHash = file.hash
    binding.agreed = row.version
    binding.showed = Showed(row, bodyField: facts.bodyField(of: row.type), names: facts.names, form: form)
    if form == .bytes { binding.showed?.executable = file.status.isExecutable }
    files[index].item = item
    present.insert(item)
    bindings[item] = binding
    report.unchanged += 1
    let taken = binding
    try group { [folder] in
      try folder.store.save(taken)
      try folder.copy.pinHeld(item, owner: Pin.file)
    }
  }
}

extension PassFacts {
  /// The type of a new document that names none (F3.1).
  var newDocumentType: Text {
    settings.defaults.type ?? search.types.first { !isFileItem($0) } ?? "core.note"
  }
}
