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
    if let existing {
      return Document.rewrite(existing, to: content, kind: .markdown, edges: facts.vocabulary)
    }
    return Document.render(new: content, kind: .markdown, edges: facts.vocabulary)
  }

  /// Whether a file differs from its item's render in the version line alone (F24.2). A missing or wrong id line is a
  /// difference (F13.9).
  func onlyLinesDiffer(_ row: Item, _ binding: Binding, _ bytes: [UInt8]) throws -> Bool {
    guard case .success(let rendered) = try render(row, .markdown, existing: bytes, binding: binding, lines: false),
      rendered == bytes, let document = Document.read(bytes, kind: .markdown, edges: facts.vocabulary).document
    else { return false }
    return document.id.id == row.id
  }

  /// The edge lines a file of an item carries: those its end is written at (F11.3), those of attachments its body does
  /// not embed (F12.19), the references its body does not link (F12.1).
  private func edgeLines(
    of row: Item, body: Text, document: Document?, binding: Binding?
  ) throws -> [EdgeContent] {
    let path = places[row.id]?.path ?? binding?.path ?? .empty
    let references = BodyReferences(body: body, kind: .markdown)
    let edges = try folder.copy.edges(from: row.id) + folder.copy.edges(to: row.id)
    let resolver = linkResolver
    var linked: Set<EntityID> = []
    for link in references.links {
      switch resolver.resolve(link.text) {
      case .one(let item): linked.insert(item)
      case .ambiguous(let items):
        let here = Set(items).intersection(edges.map { $0.other(than: row.id) })
        if here.count == 1 { linked.formUnion(here) }
      case .none, .unheldID, .headingOnly: break
      }
    }
    var embeddedHere: Set<EntityID> = Set((binding?.edges ?? []).filter { $0.place == .embed }.map(\.other))
    for embed in references.embeds {
      for edge in edges where edge.type == PassFacts.attachedTo && edge.target == row.id {
        if try answers(edge.source, to: embed, in: path) { embeddedHere.insert(edge.source) }
      }
    }
    var lines: [Text: (targets: [EntityID], many: Bool)] = [:]
    for edge in edges.sorted(by: { ($0.createdAt, $0.id) < ($1.createdAt, $1.id) }) {
      guard edge.type != PassFacts.inFolder, edge.source != edge.target, let type = facts.catalog.edgeTypes[edge.type]
      else { continue }
      let isSource = edge.source == row.id
      let other = edge.other(than: row.id)
      let writesHere = type.writtenAt == .target ? !isSource : isSource
      if !writesHere {
        // The writing end cannot carry frontmatter, so this end writes it (F11.4).
        guard let there = try folder.copy.item(other), !there.isTrashed, facts.isFileItem(there.type) else { continue }
      }
      guard let key = isSource ? type.id : type.reverseName else { continue }
      if type.id == PassFacts.references, isSource, linked.contains(other) { continue }
      if binding?.heldBack.contains(edge.id) ?? false { continue }
      if type.id == PassFacts.attachedTo, !isSource, embeddedHere.contains(other) { continue }
      if let there = try folder.copy.item(other), there.isTrashed { continue }
      let many = isSource ? !type.cardinality.sourceHasOne : !type.cardinality.targetHasOne
      lines[key, default: ([], many)].targets.append(other)
    }
    return try lines.sorted { $0.key < $1.key }.map { key, line in
      EdgeContent(
        key: key, targets: try line.targets.map { try target($0, key, document) }, holdsMany: line.many)
    }
  }

  /// How a target is written: as typed where a typed spelling already names it (F11.15), else by its title where that
  /// names it alone and can stand in a link, else by its id (F11.9).
  private func target(_ item: EntityID, _ key: Text, _ document: Document?) throws -> Text {
    for line in document?.edges ?? [] where line.key == key {
      for target in line.targets {
        guard case .link(let link) = target else { continue }
        if EntityID(link.name) == item { return link.typed }
        switch linkResolver.resolve(link) {
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
      files: fileNames, titled: { key in (try? copy.itemsTitled(key: key)) ?? [] },
      holds: { id in ((try? copy.item(id)) ?? nil).map { !$0.isTrashed } ?? false })
  }

  /// The names files answer to once this pull is done.
  func namesToBe() -> FileNames {
    var names = FileNames()
    for (item, place) in places { names.add(place.path, item: item) }
    for binding in bindings.values where binding.missingSince == nil && places[binding.item] == nil {
      names.add(binding.path, item: binding.item)
    }
    return names
  }

  /// The edges a file shows once a pull wrote it: what its lines, links and embeds name that the copy holds.
  func shownEdges(in row: Item, _ bytes: [UInt8], _ binding: Binding?) -> [ShownEdge] {
    guard let document = Document.read(bytes, kind: .markdown, edges: facts.vocabulary).document,
      let edges = try? folder.copy.edges(from: row.id) + folder.copy.edges(to: row.id)
    else { return binding?.edges ?? [] }
    let resolver = linkResolver
    var shown: [ShownEdge] = []
    func show(_ type: Text, _ isSource: Bool, _ others: [EntityID], _ place: ShownEdge.Place) {
      for edge in edges where edge.type == type && (edge.source == row.id) == isSource {
        guard others.contains(edge.other(than: row.id)), !shown.contains(where: { $0.edge == edge.id }) else {
          continue
        }
        shown.append(ShownEdge(edge: edge.id, type: type, other: edge.other(than: row.id), place: place))
      }
    }
    func items(_ link: LinkText) -> [EntityID] {
      switch resolver.resolve(link) {
      case .one(let item): [item]
      case .ambiguous(let items): items
      case .unheldID(let id): [id]
      case .none, .headingOnly: []
      }
    }
    for line in document.edges {
      guard let (type, isReverse) = facts.catalog.edgeType(named: line.key) else { continue }
      for case .link(let link) in line.targets { show(type.id, !isReverse, items(link), .line) }
    }
    let references = BodyReferences(body: document.body, kind: document.kind)
    for link in references.links { show(PassFacts.references, true, items(link.text), .link) }
    // What the file showed before and the copy still holds stays shown: an edge is never forgotten by a write of ours.
    for kept in binding?.edges ?? [] where !shown.contains(where: { $0.edge == kept.edge }) {
      if edges.contains(where: { $0.id == kept.edge }),
        kept.place == .embed || binding?.heldBack.contains(kept.edge) ?? false
      {
        shown.append(kept)
      }
    }
    return shown
  }

  // MARK: Embeds (F12.33 to F12.38)

  /// Whether an attachment answers to an embed: by the path of its file here, its placement, or its name or title.
  func answers(_ item: EntityID, to embed: BodyEmbed, in path: PathBytes) throws -> Bool {
    if let bound = bindings[item], bound.missingSince == nil, EmbedFiles.answers(bound.path, to: embed, in: path) {
      return true
    }
    guard let name = EmbedFiles.fileName(of: embed), let row = try folder.copy.item(item) else { return false }
    if let title = row.properties[facts.titleField(of: row.type)]?.text, NameKey(title) == NameKey(name) { return true }
    if let text = try folder.placement(of: item)?.properties["path"]?.text,
      case .inside(let placed) = PlacementPath(text)
    {
      return placed.name.nameKey == NameKey(name)
    }
    return false
  }

  /// The attachments the bodies of documents here embed, and where their files go.
  func findEmbedded() throws {
    guard facts.slice.edgeTypes.contains(PassFacts.attachedTo) else { return }
    for item in held.union(bindings.keys).sorted() {
      guard let row = try folder.copy.item(item), !row.isTrashed, !facts.isFileItem(row.type),
        bindings[item] != nil || held.contains(item)
      else { continue }
      if let binding = bindings[item], binding.form != .markdown { continue }
      let attached = try folder.copy.edges(to: item, type: PassFacts.attachedTo).map(\.source)
      let body = row.properties[facts.bodyField(of: row.type)]?.text ?? ""
      guard !attached.isEmpty || body.bytes.contains(UInt8(ascii: "!")) else { continue }
      let references = BodyReferences(body: body, kind: .markdown)
      guard !references.embeds.isEmpty else { continue }
      let own = bindings[item]?.path ?? placedPath(of: row)
      for embed in references.embeds { try place(embed, in: own, attached) }
    }
  }

  private func placedPath(of row: Item) -> PathBytes {
    if let text = try? folder.placement(of: row.id)?.properties["path"]?.text,
      case .inside(let path) = PlacementPath(text)
    {
      return path
    }
    return DocumentNames.document(title: row.properties[facts.titleField(of: row.type)]?.text ?? "")
  }

  private func place(_ embed: BodyEmbed, in path: PathBytes, _ attached: [EntityID]) throws {
    func tell(_ reason: String) { report.embeds.append(FlaggedFile(path, .embed, "\(embed.typed) \(reason)")) }
    switch EmbedFiles().resolve(embed, in: path) {
    case .notAFile:
      // A name with no known extension names a file only where one here answers to it (F12.17).
      guard try attached.contains(where: { try bindings[$0] != nil && answers($0, to: embed, in: path) }) else {
        return
      }
    case .leadsOut: return tell("leads out of the folder")
    case .rawSpace: return tell("names no file: a space ends its path")
    case .missing, .file: break
    }
    var matches: [EntityID] = []
    for item in attached where try answers(item, to: embed, in: path) {
      if let row = try folder.copy.item(item), !row.isTrashed, facts.isFileItem(row.type) { matches.append(item) }
    }
    // The one bound at its path first (F12.33).
    if matches.count > 1 {
      let bound = matches.filter { bindings[$0].map { EmbedFiles.answers($0.path, to: embed, in: path) } ?? false }
      if bound.count == 1 { matches = bound }
    }
    guard let item = matches.first, matches.count == 1 else {
      return tell(matches.isEmpty ? "names no attachment this folder can read" : "names more than one attachment")
    }
    let goes = try embedPlace(item, embed, in: path)
    if let already = embedded[item] {
      if already.nameKey != goes.nameKey, case .path = embed.form {
        let (first, other) = already < goes ? (already, goes) : (goes, already)
        embedded[item] = first
        tell("is written at \(first), where another embed names it, not at \(other)")
      }
    } else {
      embedded[item] = goes
    }
  }

  /// Where the file of an embed goes (F12.34).
  private func embedPlace(_ item: EntityID, _ embed: BodyEmbed, in path: PathBytes) throws -> PathBytes {
    let own = bindings[item].flatMap { $0.missingSince == nil ? $0.path : nil }
    if case .path = embed.form {
      let says = EmbedFiles.ownPlace(of: embed, in: path) ?? path
      return own.flatMap { $0.nameKey == says.nameKey ? $0 : nil } ?? says
    }
    if let text = try folder.placement(of: item)?.properties["path"]?.text,
      case .inside(let placed) = PlacementPath(text),
      EmbedFiles.answers(placed, to: embed, in: path)
    {
      return placed
    }
    if let own, EmbedFiles.answers(own, to: embed, in: path) { return own }
    return EmbedFiles.ownPlace(of: embed, in: path) ?? path.parent.appending(DocumentNames.file(title: "file"))
  }
}
