import MarfaBase
import MarfaCopy

/// What a document's file shall hold (F7.25, F11, F12).
extension PullPass {
  func render(
    _ row: Item, _ form: FileForm, existing: [UInt8]?, binding: Binding? = nil, lines: Bool = true
  ) throws -> Result<[UInt8], RenderFailure> {
    let path = places[row.id]?.path ?? binding?.path ?? .empty
    do throws(FileError) { try folder.context.door.reached(.render, path.name, in: root) } catch {
      return .failure(RenderFailure(reason: "its text cannot be made: \(error.reason)"))
    }
    let body = row.properties[facts.bodyField(of: row.type)]?.text ?? ""
    made = nil
    guard form == .markdown else { return .success(body.bytes) }
    var properties = JSONObject()
    let bodyField = facts.bodyField(of: row.type)
    for member in row.properties.members where member.key != bodyField && !facts.names.reserved.contains(member.key) {
      properties[member.key] = member.value
    }
    let document = existing.flatMap { Document.read($0, kind: .markdown, edges: facts.vocabulary).document }
    let content = ItemContent(
      type: row.type, tier: row.tier ?? facts.search.tier, tags: row.tags,
      state: row.state == "archived" ? .archived : .active, occurredAt: row.occurredAt,
      hasOwnTime: row.occurredAt != row.createdAt, properties: properties,
      edges: try edgeLines(of: row, body: body, document: document, binding: binding), id: lines ? row.id : nil,
      version: lines ? row.version : nil, body: body)
    guard let existing else {
      if content.edges.isEmpty { made = (row.id, body) }
      return Document.render(new: content, kind: .markdown, edges: facts.vocabulary)
    }
    rendered = Rendered(item: row.id, version: row.version, content: content, document: document)
    return Document.rewrite(existing, to: content, kind: .markdown, edges: facts.vocabulary)
  }

  /// What was rendered last over a file's bytes.
  struct Rendered {
    var item: EntityID
    var version: Int
    var content: ItemContent
    /// The file as it stood.
    var document: Document?
  }

  /// Whether a file differs from its item's render, made just before, in its id and version lines alone: nil where in more,
  /// else whether its id line stands as it is, so that the version alone differs (F24.2, F13.9).
  func linesAlone(_ row: Item, _ bytes: [UInt8]) -> Bool? {
    guard let rendered, rendered.item == row.id, rendered.version == row.version, let document = rendered.document
    else {
      return nil
    }
    var content = rendered.content
    content.id = nil
    content.version = nil
    guard case .success(let made) = Document.rewrite(bytes, to: content, kind: .markdown, edges: facts.vocabulary),
      made == bytes
    else { return nil }
    return document.id.id == row.id
  }

  /// The edges at both ends of an item; rendering its file and noting what that shows ask for the same.
  private func edges(of item: EntityID) throws -> [Edge] {
    if let edgesRead, edgesRead.item == item { return edgesRead.edges }
    var edges = try folder.copy.edges(from: item) + folder.copy.edges(to: item)
    try addMovesOnTheirWay(to: &edges, of: item)
    edgesRead = (item, edges)
    return edges
  }

  /// Adds the edges that changed lines of the file move and another device deleted meanwhile: the copy heard of that before
  /// the move was answered. The line asks for its edge all the same, and stays for the drain that learns of it (F11.29).
  private func addMovesOnTheirWay(to edges: inout [Edge], of item: EntityID) throws {
    for mine in try folder.store.writes(of: item) where mine.role == .edge {
      guard let write = try folder.copy.queue.write(mine.id), write.kind == .updateEdge,
        write.verdict == nil || write.verdict == .blocked, let edge = write.edgeID,
        !edges.contains(where: { $0.id == edge }), try folder.copy.edge(edge) == nil,
        let shown = try folder.store.binding(of: item)?.edges.first(where: { $0.edge == edge }),
        let moved = (write.body?["target_id"] ?? write.body?["source_id"])?.text.flatMap({ EntityID($0) })
      else { continue }
      let isSource = write.body?["target_id"] != nil
      edges.append(
        Edge(
          id: edge, source: isSource ? item : moved, target: isSource ? moved : item, type: shown.type,
          version: write.baseVersion ?? 0, createdAt: write.queuedAt, updatedAt: write.queuedAt))
    }
  }

  /// The links and embeds of a body; a pull asks for those of one several times.
  func references(_ body: Text) -> BodyReferences {
    if let read, read.body == body { return read.references }
    let references = BodyReferences(body: body, kind: .markdown)
    read = (body, references)
    return references
  }

  /// Whether all that a pull has to write are lines about the file's own last write, a new file's frontmatter included:
  /// nothing another device changed (P1.3).
  func showsOwnAlone(_ row: Item, _ binding: Binding, _ reading: FileReading) -> Bool {
    binding.linesOwed && binding.landed == row.version && reading.hash == binding.readHash
      && binding.showed?.own?.tags == Set(row.tags) && binding.showed?.own?.state == row.state
  }

  /// Whether lines alone are not written now (P1.3): never while a program has the file open for writing; by a watch not
  /// until the file has been still for 10 s, nor while an editor's sign stands beside it. The spent lines make the wait
  /// safe (F7.12, F23).
  func linesWait(_ reading: FileReading, at path: PathBytes) -> Bool {
    if reading.isBeingWritten(now: folder.now) { return true }
    guard isWatch else { return false }
    let still = folder.now.milliseconds - reading.status.modified / 1_000_000
    let wanted = folder.context.clock.wait(milliseconds: 10_000)
    if still >= 0, still < wanted {
      let due = Timestamp(milliseconds: folder.now.milliseconds + wanted - still)
      report.linesDue = min(report.linesDue ?? due, due)
      return true
    }
    return isInEditor(path, reading.status)
  }

  /// Whether an editor's own file beside one says that it is open there.
  private func isInEditor(_ path: PathBytes, _ status: FileStatus) -> Bool {
    let name = path.name.bytes
    func beside(_ before: String, _ after: String) -> FileStatus? {
      let sign = PathBytes(bytes: Array(before.utf8) + name + Array(after.utf8))
      guard sign.bytes.count <= 255,
        let directory = path.parent.isEmpty ? root : try? root.directory(beneath: path.parent)
      else { return nil }
      return (try? directory.status(of: sign)) ?? nil
    }
    if let backup = beside("", "~"), backup.modified > status.modified { return true }
    for (before, after) in [(".", ".swp"), (".", ".swo"), (".#", ""), (".~lock.", "#")]
    where beside(before, after) != nil {
      return true
    }
    return false
  }

  /// The edge lines a file of an item carries: those its end is written at (F11.3), those of attachments its body does
  /// not embed (F12.19), the references its body does not link (F12.1).
  private func edgeLines(
    of row: Item, body: Text, document: Document?, binding: Binding?
  ) throws -> [EdgeContent] {
    let path = places[row.id]?.path ?? binding?.path ?? .empty
    let references = references(body)
    let edges = try edges(of: row.id)
    let resolver = linkResolver
    var linked: Set<EntityID> = []
    for link in references.links {
      switch try resolver.resolve(link.text) {
      case .one(let item): linked.insert(item)
      case .ambiguous(let items):
        let here = Set(items).intersection(edges.map { $0.other(than: row.id) })
        if here.count == 1 { linked.formUnion(here) }
      case .none, .unheldID, .headingOnly: break
      }
    }
    // Embeds that stand in the body and name their file no more, since it was renamed: the note lists it (F12.37). One
    // taken out beside an embed that names nothing is neither shown nor listed, its removal held back (F12.31).
    let typed = Set(references.embeds.map(\.typed))
    let heldBack = Set(binding?.heldBack ?? [])
    let renamed = Set(
      (binding?.edges ?? []).filter { heldBack.contains($0.edge) && $0.embed.map(typed.contains) ?? false }.map(\.edge))
    let attached = edges.filter { $0.type == PassFacts.attachedTo && $0.target == row.id }.map(\.source)
    var embeddedHere: Set<EntityID> = []
    // Embeds that name an attachment by now, as typed: what such a one showed before it shows no more.
    var naming: Set<Text> = []
    for embed in references.embeds {
      let here = try attachments(shownBy: embed, among: attached, in: path)
      let named = try here.isEmpty ? named(by: embed, among: attached, in: path) : here
      if !named.isEmpty { naming.insert(embed.typed) }
      embeddedHere.formUnion(named)
    }
    // An embed another device took out of the body embeds nothing any more: its edge, where it stands, is listed, and so
    // is that of a file renamed under an embed which another file of that name answers to (F12.19, F12.37).
    for edge in binding?.edges ?? [] where edge.place == .embed && !heldBack.contains(edge.edge) {
      if edge.embed.map({ typed.contains($0) && !naming.contains($0) }) ?? true { embeddedHere.insert(edge.other) }
    }
    var lines: [Text: (targets: [EntityID], many: Bool)] = [:]
    for edge in edges.sorted(by: { ($0.createdAt, $0.id) < ($1.createdAt, $1.id) }) {
      guard edge.type != PassFacts.inFolder, edge.source != edge.target, let type = facts.catalog.edgeTypes[edge.type]
      else { continue }
      let isSource = edge.source == row.id
      let other = edge.other(than: row.id)
      let writesHere = type.writtenAt == .target ? !isSource : isSource
      if !writesHere {
        if let there = try folder.copy.item(other), !there.isTrashed {
          // The writing end cannot carry frontmatter, so this end writes it (F11.4).
          guard facts.isFileItem(there.type) else { continue }
        } else {
          // Whether it can is not known: only a line that stands in the file shows the edge (F11.6, F12.19).
          guard binding?.edges.contains(where: { $0.edge == edge.id && $0.place == .line }) ?? false else { continue }
        }
      }
      guard let key = isSource ? type.id : type.reverseName else { continue }
      if type.id == PassFacts.references, isSource, linked.contains(other) { continue }
      if heldBack.contains(edge.id), !renamed.contains(edge.id) { continue }
      if type.id == PassFacts.attachedTo, !isSource, embeddedHere.contains(other) { continue }
      if writesHere, let there = try folder.copy.item(other), there.isTrashed { continue }
      let many = isSource ? !type.cardinality.sourceHasOne : !type.cardinality.targetHasOne
      lines[key, default: ([], many)].targets.append(other)
    }
    return try lines.sorted { $0.key < $1.key }.map { key, line in
      let written = try line.targets.map { try target($0, key, document) }
      let further = try spellings(of: Set(line.targets), key, document).filter { !written.contains($0) }
      return EdgeContent(key: key, targets: written + further, holdsMany: line.many)
    }
  }

  /// What a file's line spells of these items: two spellings of one are one target, and both stay as typed (F11.13,
  /// F11.15).
  private func spellings(of items: Set<EntityID>, _ key: Text, _ document: Document?) throws -> [Text] {
    var typed: [Text] = []
    for line in document?.edges ?? [] where line.key == key {
      for case .link(let link) in line.targets {
        if EntityID(link.name).map(items.contains) ?? false {
          typed.append(link.typed)
        } else if case .one(let item) = try linkResolver.resolve(link), items.contains(item) {
          typed.append(link.typed)
        }
      }
    }
    return typed
  }

  /// How a target is written: as typed where a typed spelling already names it (F11.15), else by its title where that
  /// names it alone and can stand in a link, else by its id (F11.9).
  private func target(_ item: EntityID, _ key: Text, _ document: Document?) throws -> Text {
    for line in document?.edges ?? [] where line.key == key {
      for target in line.targets {
        guard case .link(let link) = target else { continue }
        if EntityID(link.name) == item { return link.typed }
        switch try linkResolver.resolve(link) {
        case .one(let named): if named == item { return link.typed }
        case .ambiguous(let named): if named.contains(item) { return link.typed }
        case .none, .unheldID, .headingOnly: break
        }
      }
    }
    if let row = try folder.copy.item(item), let title = row.properties[facts.titleField(of: row.type)]?.text,
      canStand(inLink: title), try folder.copy.itemsTitled(key: NameKey(title)) == [item]
    {
      return Text(bytes: Array("[[".utf8) + title.bytes + Array("]]".utf8))
    }
    return Text("[[\(item)]]")
  }

  private func canStand(inLink title: Text) -> Bool {
    let refused = Set("[]|#^\n\r".utf8)
    return !title.isEmpty && title.isValidUTF8 && !title.bytes.contains(where: refused.contains)
      && title.trimmedOfSpace == title && EntityID(title) == nil
  }

  /// A pull's names match against the copy alone (F12.9), and against the names files have once this pull is done: a note
  /// and the one its body links to often arrive together.
  var linkResolver: LinkResolver {
    let copy = folder.copy
    return LinkResolver(
      files: fileNames, titled: { key in try copy.itemsTitled(key: key) },
      holds: { id in try copy.item(id).map { !$0.isTrashed } ?? false })
  }

  /// The names files answer to once this pull is done.
  func namesToBe() throws -> FileNames {
    var names = FileNames()
    for (item, place) in places { names.add(place.path, item: item) }
    for binding in bindings.values where binding.missingSince == nil && places[binding.item] == nil {
      // A file kept of an item in the bin answers to no name (F11.19).
      if try folder.copy.head(binding.item)?.isTrashed == true { continue }
      names.add(binding.path, item: binding.item)
    }
    return names
  }

  /// Notes the edges a file shows once a pull wrote it: what its lines, links and embeds name that the copy holds. An embed
  /// nothing answers to yet is looked for by each scan to come: its file may be put here any time (F12.26).
  func show(edgesOf row: Item, _ bytes: [UInt8], in next: inout Binding, before binding: Binding?) throws {
    let lines: [EdgeLine]
    let body: Text
    if let made, made.item == row.id {
      // A new file's, just made: it was read back then.
      (lines, body) = ([], made.body)
    } else if let document = Document.read(bytes, kind: .markdown, edges: facts.vocabulary).document {
      (lines, body) = (document.edges, document.body)
    } else {
      return next.edges = binding?.edges ?? []
    }
    let edges = try edges(of: row.id)
    let resolver = linkResolver
    var shown: [ShownEdge] = []
    func show(_ type: Text, _ isSource: Bool, _ others: [EntityID], _ place: ShownEdge.Place) {
      for edge in edges where edge.type == type && (edge.source == row.id) == isSource {
        guard others.contains(edge.other(than: row.id)), !shown.contains(where: { $0.edge == edge.id }) else {
          continue
        }
        let before = binding?.edges.first { $0.edge == edge.id }
        shown.append(
          ShownEdge(
            edge: edge.id, type: type, other: edge.other(than: row.id), place: place,
            since: before == nil ? row.version : before?.since))
      }
    }
    func items(_ link: LinkText) throws -> [EntityID] {
      switch try resolver.resolve(link) {
      case .one(let item): [item]
      case .ambiguous(let items): items
      case .unheldID(let id): [id]
      case .none, .headingOnly: []
      }
    }
    for line in lines {
      guard let (type, isReverse) = facts.catalog.edgeType(named: line.key) else { continue }
      for case .link(let link) in line.targets { show(type.id, !isReverse, try items(link), .line) }
    }
    let references = references(body)
    for link in references.links { show(PassFacts.references, true, try items(link.text), .link) }
    let path = places[row.id]?.path ?? binding?.path ?? .empty
    let attached = edges.filter {
      $0.type == PassFacts.attachedTo && $0.target == row.id && $0.source != row.id
    }
    for embed in references.embeds {
      let named = Set(try attachments(shownBy: embed, among: attached.map(\.source), in: path))
      if try named.isEmpty && !EmbedFiles.names(of: embed).isEmpty
        && self.named(by: embed, among: attached.map(\.source), in: path).isEmpty
      {
        next.edgesOwed = true
      }
      for edge in attached where named.contains(edge.source) && !shown.contains(where: { $0.edge == edge.id }) {
        shown.append(
          ShownEdge(edge: edge.id, type: edge.type, other: edge.source, place: .embed, embed: embed.typed))
      }
    }
    // What the file showed before, still says and the copy still holds stays shown: an edge is never forgotten by a write
    // of ours.
    let typed = Set(references.embeds.map(\.typed))
    for kept in binding?.edges ?? [] where !shown.contains(where: { $0.edge == kept.edge }) {
      if edges.contains(where: { $0.id == kept.edge }),
        kept.place == .embed && kept.embed.map(typed.contains) ?? true
          || binding?.heldBack.contains(kept.edge) ?? false
      {
        shown.append(kept)
      }
    }
    next.edges = shown
  }
}
