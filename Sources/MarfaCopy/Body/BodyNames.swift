import MarfaBase

/// A link or an embed of a body, as typed.
struct BodyReference: Hashable {
  /// The whole of it, brackets included: what its record is kept under.
  let text: Text
  let link: LinkText?
  let embed: BodyEmbed?

  /// The references of a body in its order, each text once. A heading-only link (D88.R3), an embed of a document or of an
  /// address (D88.R4) are none.
  static func all(in body: Text?) -> [BodyReference] {
    guard let body else { return [] }
    let found = BodyReferences(body: body, kind: .markdown)
    var all: [(Int, BodyReference)] = found.links.compactMap { link in
      guard !link.text.name.isEmpty else { return nil }
      return (link.range.lowerBound, BodyReference(text: link.text.typed, link: link.text, embed: nil))
    }
    all += found.embeds.compactMap { embed in
      guard let name = fileName(of: embed), !isNote(name) else { return nil }
      return (embed.range.lowerBound, BodyReference(text: embed.typed, link: nil, embed: embed))
    }
    var seen: Set<Text> = []
    return all.sorted { $0.0 < $1.0 }.map(\.1).filter { seen.insert($0.text).inserted }
  }

  /// What it names: a link's name, an embed's file name.
  var name: Text { link?.name ?? embed.flatMap { BodyReference.fileName(of: $0) } ?? "" }

  /// Every text it may be read as (D89.4); an id names its item whatever follows.
  var readings: [Text] {
    guard let link else { return [name] }
    if id != nil { return [name] }
    return link.readings
  }

  /// The id a link names.
  var id: EntityID? { link.flatMap { $0.name.bytes.count == 36 ? EntityID($0.name) : nil } }

  private static func fileName(of embed: BodyEmbed) -> Text? {
    let bytes: [UInt8]
    switch embed.form {
    case .rawSpace: return nil
    case .path(let written):
      guard !EmbedPath.isAddress(written), let bare = EmbedPath.decoded(written) else { return nil }
      bytes = bare
    case .wiki(let link): bytes = link.name.bytes
    }
    let name = PathBytes(bytes: bytes).name.text
    return name.isEmpty ? nil : name
  }

  private static func isNote(_ name: Text) -> Bool {
    EmbedPath.isDocument(name.bytes) || PathBytes(bytes: name.bytes).fileExtension == nil
  }
}

/// What a reference of a body names, as far as can be told.
enum BodyNaming: Hashable {
  case item(EntityID)
  /// The item the body is of: no edge (D89.6).
  case itself
  case missing
  case ambiguous
  /// An embed of no file: text.
  case text
  /// The instance must be asked (D89.3).
  case unknown
}

/// Finds what the references of bodies name (D89, D90). One lasts for one call: the file names it read are kept.
final class BodyNames {
  private let copy: WorkingCopy
  private let catalog: Catalog
  private var files: FileNames?

  init(_ copy: WorkingCopy) throws(MarfaError) {
    self.copy = copy
    catalog = try copy.catalog()
  }

  /// What a reference names by what the copy holds alone; by the instance where `asks` (D95.4).
  func name(_ reference: BodyReference, in host: EntityID, asks: Bool) throws(MarfaError) -> BodyNaming {
    if reference.embed != nil { return try nameFile(reference, in: host, asks: asks) }
    if let id = reference.id {
      if id == host { return .itself }
      if try isLive(id) { return .item(id) }
      return asks ? try read(id) : .unknown
    }
    if let edge = try nameByEdges(reference, in: host) { return edge }
    guard asks else { return .unknown }
    var found: Set<EntityID> = []
    for reading in reference.readings {
      found.formUnion(try held(reading))
      for item in try copy.lookUp(name: reading) { found.insert(item.id) }
    }
    if found == [host] { return .itself }
    return named(found)
  }

  /// How many items of the copy a reference names (D95.3).
  func heldCount(_ reference: BodyReference) throws(MarfaError) -> Int {
    var found: Set<EntityID> = []
    if let id = reference.id, try isLive(id) { found.insert(id) }
    for reading in reference.readings { found.formUnion(try held(reading)) }
    return found.count
  }

  /// The items a link names by the edges the item has already (D89.3).
  func nameByEdges(_ reference: BodyReference, in host: EntityID) throws(MarfaError) -> BodyNaming? {
    if reference.embed != nil {
      let naming = try nameFile(reference, in: host, asks: false, attachedAlone: true)
      return naming == .unknown || naming == .text ? nil : naming
    }
    let targets = Set(try copy.edges(from: host, type: BodyEdges.references).map(\.target))
    guard !targets.isEmpty else { return nil }
    if let id = reference.id { return targets.contains(id) ? .item(id) : nil }
    let found = try held(reference.name).intersection(targets)
    guard !found.isEmpty else { return nil }
    var all = found
    for reading in reference.readings where reading != reference.name {
      all.formUnion(try held(reading).intersection(targets))
    }
    return named(all)
  }

  private func named(_ found: Set<EntityID>) -> BodyNaming {
    guard let first = found.first else { return .missing }
    return found.count == 1 ? .item(first) : .ambiguous
  }

  private func isLive(_ id: EntityID) throws(MarfaError) -> Bool {
    guard let item = try copy.item(id) else { return false }
    return !item.isTrashed
  }

  private func read(_ id: EntityID) throws(MarfaError) -> BodyNaming {
    do throws(MarfaError) {
      try copy.pin(id, owner: BodyEdges.pinOwner)
      return .item(id)
    } catch {
      guard error.code == .notFound else { throw error }
      return .missing
    }
  }

  /// The held items a name means: by title, or by the path or file name of a placement (D89.5).
  func held(_ name: Text) throws(MarfaError) -> Set<EntityID> {
    var found = Set(try copy.itemsTitled(key: NameKey(name)))
    for item in try fileNames().items(named: name) where try isLive(item) { found.insert(item) }
    return found
  }

  private func fileNames() throws(MarfaError) -> FileNames {
    if let files { return files }
    var made = FileNames()
    for edge in try copy.edges(ofType: "in-folder") {
      if let path = edge.properties["path"]?.text { made.add(PathBytes(path), item: edge.source) }
    }
    files = made
    return made
  }

  // MARK: Embeds (D90)

  private func isFile(_ id: EntityID) throws(MarfaError) -> Bool {
    guard let item = try copy.item(id), !item.isTrashed else { return false }
    return catalog.type(item.type)?.isFileType ?? false
  }

  private func nameFile(
    _ reference: BodyReference, in host: EntityID, asks: Bool, attachedAlone: Bool = false
  ) throws(MarfaError) -> BodyNaming {
    var attached: Set<EntityID> = []
    for edge in try copy.edges(to: host, type: BodyEdges.attachedTo) where try isFile(edge.source) {
      attached.insert(edge.source)
    }
    if case .path(let written) = reference.embed?.form, let path = EmbedPath.decoded(written),
      let placed = try placed(path, from: host, among: attached)
    {
      return .item(placed)
    }
    let answering = try held(reference.name)
    let own = answering.intersection(attached)
    if !own.isEmpty || attachedAlone { return own.isEmpty ? .unknown : named(own) }
    var files: Set<EntityID> = []
    for id in answering where try isFile(id) { files.insert(id) }
    if !files.isEmpty { return named(files) }
    guard MIMETypes.type(of: PathBytes(bytes: reference.name.bytes)) != nil else { return .text }
    guard asks else { return .unknown }
    var found: Set<EntityID> = []
    for item in try copy.lookUp(name: reference.name) where catalog.type(item.type)?.isFileType ?? false {
      found.insert(item.id)
    }
    return named(found)
  }

  /// The attachment placed where a path leads, read from the host's own placement.
  private func placed(
    _ path: [UInt8], from host: EntityID, among attached: Set<EntityID>
  ) throws(MarfaError) -> EntityID? {
    for own in try copy.edges(from: host, type: "in-folder") {
      guard let place = own.properties["path"]?.text,
        let target = EmbedPath.joined(path, from: PathBytes(place).parent)
      else { continue }
      for file in attached.sorted() {
        for edge in try copy.edges(from: file, type: "in-folder") where edge.target == own.target {
          if let path = edge.properties["path"]?.text, PathBytes(path).nameKey == target.nameKey { return file }
        }
      }
    }
    return nil
  }
}
