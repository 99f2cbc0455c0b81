import MarfaBase
import MarfaCopy

/// What the embeds of bodies name, and where the files they show go (F12.33 to F12.38).
extension PullPass {
  /// The file items among a document's attachments that an embed names: those that answer to the surest of its names to
  /// which any does.
  func named(by embed: BodyEmbed, among attached: [EntityID], in path: PathBytes) throws -> [EntityID] {
    guard !attached.isEmpty else { return [] }
    for name in EmbedFiles.names(of: embed) {
      let found = try attached.filter { try answers($0, to: embed, named: name, in: path) }
      if !found.isEmpty { return found }
    }
    return []
  }

  /// The attachments an embed shows here: the one whose file it finds, as a scan reads it (F12.24), else those it names. One
  /// it names where another file is found was never shown here, so that it is none to remove when a scan does not find it
  /// (F31.2); two machines that each find their own would take each other's away.
  func attachments(shownBy embed: BodyEmbed, among attached: [EntityID], in path: PathBytes) throws -> [EntityID] {
    guard !attached.isEmpty else { return [] }
    let files = filesToBe ?? embedFilesToBe()
    filesToBe = files
    guard case .file(let file) = files.files.resolve(embed, in: path) else {
      return try named(by: embed, among: attached, in: path)
    }
    return files.owners[file].map { attached.contains($0) ? [$0] : [] } ?? []
  }

  /// The files here once this pull is done, and whose each is.
  private func embedFilesToBe() -> (files: EmbedFiles, owners: [PathBytes: EntityID]) {
    var files = EmbedFiles()
    var owners: [PathBytes: EntityID] = [:]
    let bound = Dictionary(bindings.values.filter { $0.missingSince == nil }.map { ($0.path, $0.item) }) { one, _ in one
    }
    for path in found.keys {
      if let item = bound[path] {
        if let place = places[item], place.path != path, found[place.path] == nil { continue }
        owners[path] = item
      }
      files.add(path)
    }
    for (item, place) in places where found[place.path] == nil {
      files.add(place.path)
      owners[place.path] = item
    }
    return (files, owners)
  }

  /// Whether an attachment answers to a name of an embed: by the path of its file here, its placement, or its name or
  /// title.
  private func answers(
    _ item: EntityID, to embed: BodyEmbed, named name: Text, in path: PathBytes
  ) throws -> Bool {
    guard let row = try folder.copy.item(item), facts.isFileItem(row.type) else { return false }
    if let bound = bindings[item], bound.missingSince == nil,
      EmbedFiles.answers(bound.path, to: embed, named: name, in: path)
    {
      return true
    }
    let last = PathBytes(name).name
    if last.isEmpty { return false }
    if let title = row.properties[facts.titleField(of: row.type)]?.text, NameKey(title) == NameKey(last.text) {
      return true
    }
    if let text = try folder.placement(of: item)?.properties["path"]?.text,
      case .inside(let placed) = PlacementPath(text)
    {
      return placed.name.nameKey == last.nameKey
    }
    return false
  }

  /// The attachments the bodies of documents here embed, and where their files go.
  func findEmbedded() throws {
    guard facts.slice.edgeTypes.contains(PassFacts.attachedTo) else { return }
    var claims: [EmbedClaim] = []
    for item in held.union(bindings.keys).sorted() {
      guard let head = try folder.copy.head(item), !head.isTrashed, !facts.isFileItem(head.type),
        bindings[item] != nil || held.contains(item)
      else { continue }
      // A `.txt` carries no embeds, one without a file here neither (F12.13).
      if let form = bindings[item]?.form, form != .markdown { continue }
      let attached = try folder.copy.edges(to: item, type: PassFacts.attachedTo).map(\.source)
      guard try !attached.isEmpty || folder.copy.hasMark("!", in: item), let row = try folder.copy.item(item) else {
        continue
      }
      // Where every machine reads the body: a file that is held and did not follow its placement would send the pictures
      // it shows to places of its own, and other machines send them back, for ever (F12.35).
      let own = try placedPath(of: row) ?? bindings[item]?.path ?? madePath(of: row)
      let file = bindings[item]?.path ?? own
      guard (bindings[item]?.form ?? FileForm(documentName: own)) == .markdown else { continue }
      let body = row.properties[facts.bodyField(of: row.type)]?.text ?? ""
      guard !attached.isEmpty || body.bytes.contains(UInt8(ascii: "!")) else { continue }
      let references = references(body)
      for embed in references.embeds {
        guard let item = try attachment(embed, in: own, told: file, attached) else { continue }
        claims.append(EmbedClaim(item: item, embed: embed, document: own, file: file))
      }
    }
    try settle(claims)
  }

  /// An embed and the attachment it names.
  private struct EmbedClaim {
    var item: EntityID
    var embed: BodyEmbed
    /// Where the embedding file is placed.
    var document: PathBytes
    /// Where it is.
    var file: PathBytes

    var isPath: Bool {
      if case .path = embed.form { return true }
      return false
    }
  }

  /// Gives each embedded item one path: the first in path order of those its embeds name by path; one embedded by name
  /// alone goes where the name finds it, or beside the embedding file (F12.30, F12.34). Embeds naming another path are
  /// told.
  private func settle(_ claims: [EmbedClaim]) throws {
    for claim in claims where claim.isPath {
      let goes = try embedPlace(claim.item, claim.embed, in: claim.document)
      embedded[claim.item] = embedded[claim.item].map { min($0, goes) } ?? goes
    }
    let byPath = embedded
    for claim in claims where !claim.isPath && byPath[claim.item] == nil {
      let goes = try embedPlace(claim.item, claim.embed, in: claim.document)
      embedded[claim.item] = embedded[claim.item].map { min($0, goes) } ?? goes
    }
    for claim in claims {
      guard let goes = embedded[claim.item] else { continue }
      let names =
        try claim.isPath
        ? embedPlace(claim.item, claim.embed, in: claim.document).nameKey == goes.nameKey
        : EmbedFiles.answers(goes, to: claim.embed, in: claim.document) || !claim.embed.namesDirectory
      if !names {
        report.embeds.append(
          FlaggedFile(
            claim.file, .embed, "\(claim.embed.typed) is written at \(goes), where another embed names it"))
      }
    }
  }

  /// Where an item is placed; nil where nowhere in this folder.
  private func placedPath(of row: Item) throws -> PathBytes? {
    guard let text = try folder.placement(of: row.id)?.properties["path"]?.text,
      case .inside(let path) = PlacementPath(text)
    else { return nil }
    return path
  }

  /// The attachment an embed names (F12.33); nil where it names none, which is told where it means a file (F12.32).
  private func attachment(
    _ embed: BodyEmbed, in path: PathBytes, told file: PathBytes, _ attached: [EntityID]
  ) throws -> EntityID? {
    func tell(_ reason: String) -> EntityID? {
      report.embeds.append(FlaggedFile(file, .embed, "\(embed.typed) \(reason)"))
      return nil
    }
    var matches = try named(by: embed, among: attached, in: path).filter { item in
      try folder.copy.item(item).map { !$0.isTrashed } ?? false
    }
    switch EmbedFiles().resolve(embed, in: path) {
    // Where its ending names no kind of file it means a file only where an attachment answers to it (F12.17, F12.33).
    case .notAFile: if matches.isEmpty { return nil }
    case .leadsOut: return tell("leads out of the folder")
    case .rawSpace: return tell("names no file: a space ends its path")
    case .missing, .file: break
    }
    // Of several the one placed there, which every machine reads alike: two that each went by their own file would move
    // each other's for ever (F12.35, F19.17). Then the one bound at its path (F12.33).
    if matches.count > 1 {
      let placed = try matches.filter { item in
        guard let text = try folder.placement(of: item)?.properties["path"]?.text,
          case .inside(let place) = PlacementPath(text)
        else { return false }
        return EmbedFiles.answers(place, to: embed, in: path)
      }
      let bound = matches.filter { bindings[$0].map { EmbedFiles.answers($0.path, to: embed, in: path) } ?? false }
      if placed.count == 1 { matches = placed } else if bound.count == 1 { matches = bound }
    }
    guard let item = matches.first, matches.count == 1 else {
      return tell(matches.isEmpty ? "names no attachment this folder can read" : "names more than one attachment")
    }
    return item
  }

  /// Where the file of an embed goes (F12.34).
  private func embedPlace(_ item: EntityID, _ embed: BodyEmbed, in path: PathBytes) throws -> PathBytes {
    let own = bindings[item].flatMap { $0.missingSince == nil ? $0.path : nil }
    var placed: PathBytes?
    if let text = try folder.placement(of: item)?.properties["path"]?.text, case .inside(let path) = PlacementPath(text)
    {
      placed = path
    }
    if case .wiki = embed.form {
      if let placed, EmbedFiles.answers(placed, to: embed, in: path) { return placed }
      if let own, EmbedFiles.answers(own, to: embed, in: path) { return own }
    }
    let names = EmbedFiles.names(of: embed)
    let name = try names.first { try answers(item, to: embed, named: $0, in: path) } ?? names.last ?? "file"
    let says =
      EmbedFiles.ownPlace(of: embed, named: name, in: path)
      ?? path.parent.appending(DocumentNames.file(title: "file"))
    // The file keeps its own name, however the embed spells it (F12.22).
    for spelled in [own, placed] { if let spelled, spelled.nameKey == says.nameKey { return spelled } }
    let title = try folder.copy.item(item).flatMap { $0.properties[facts.titleField(of: $0.type)]?.text }
    for name in [own?.name, placed?.name, title.map { DocumentNames.file(title: $0) }] {
      if let name, name.nameKey == says.name.nameKey { return says.parent.appending(name) }
    }
    return says
  }
}
