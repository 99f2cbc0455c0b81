import MarfaBase
import MarfaCopy

/// The other folders of this machine as one pass looks into them (F41 to F44): the registry's, and those this folder found
/// there before (X5.6). Nothing is opened before something is asked.
final class OtherFolders {
  private struct Candidate {
    var dir: PathBytes
    var store: Text?
    var isListed: Bool
    var entry: RegistryEntry?
  }

  /// Why nothing can be told this pass (F41.10, F41.11).
  let unsure: String?
  private let folder: FolderEngine
  private let candidates: [Candidate]
  private var kept: Looked?
  private var indexed: Bound?

  private struct Looked {
    var readable: [OtherFolder] = []
    /// Other agents' (F41.4): their files are looked at, their bindings are not known.
    var foreign: [OtherFolder] = []
    /// Why a folder that is listed could not be looked into.
    var closed: [String] = []
  }

  /// - Parameter reason: why the registry tells nothing this pass, where the scan found that.
  init(_ folder: FolderEngine, registry reason: String? = nil) throws {
    self.folder = folder
    var reason = reason
    var entries: [RegistryEntry] = []
    if let listed = folder.listed {
      entries = listed
    } else if let registry = folder.registry {
      do throws(RegistryFailure) { entries = try registry.entries() } catch { reason = reason ?? error.message }
    }
    let own = try folder.copy.storeID()
    var candidates = entries.map { Candidate(dir: $0.dir, store: $0.store, isListed: true, entry: $0) }
    for known in try folder.store.otherFolders()
    where !candidates.contains(where: { $0.store == known.store || $0.dir == known.dir }) {
      candidates.append(Candidate(dir: known.dir, store: known.store, isListed: false))
    }
    self.candidates = candidates.filter { $0.dir != folder.root && ($0.store == nil || $0.store != own) }
    unsure = reason
  }

  /// Whether this folder stands alone.
  var isEmpty: Bool { candidates.isEmpty }

  /// The folders whose stores can be read.
  var readable: [OtherFolder] { looked.readable }

  /// Why a folder could not be looked into at all; nil where every one was.
  var closed: String? { looked.closed.first }

  private var looked: Looked {
    if let kept { return kept }
    var looked = Looked()
    for candidate in candidates { look(candidate, into: &looked) }
    kept = looked
    return looked
  }

  private func look(_ candidate: Candidate, into looked: inout Looked) {
    let look = folder.registry?.look(candidate.dir) ?? DirectoryLook.at(candidate.dir, folder.context.files)
    switch look.state {
    case .noFolder:
      guard candidate.entry?.awaitsVolume(look) ?? false else { return }
      looked.closed.append(
        "the volume of the folder at \(candidate.dir) is not mounted; bring it back, or take the folder off the list with "
          + "`remove` where it is gone for good")
    case .unknown:
      // One that dropped off the list is looked in only while it can be found (X5.6).
      guard candidate.isListed else { return }
      looked.closed.append(
        "the folder at \(candidate.dir) cannot be found or read; bring it back, or take it off the list with `remove` where "
          + "it is gone for good")
    case .folder:
      do {
        guard let engine = try openStore(look.resolved) else {
          if candidate.isListed {
            looked.foreign.append(try OtherFolder(look.resolved, engine: nil, context: folder.context))
          }
          return
        }
        if !candidate.isListed, try engine.copy.storeID() != candidate.store { return }
        looked.readable.append(try OtherFolder(look.resolved, engine: engine, context: folder.context))
      } catch {
        looked.closed.append(
          "the folder at \(candidate.dir) cannot be looked into: \(MarfaError(any: error).message)")
      }
    }
  }

  /// A folder's store, to read; nil where another program or build made it (F41.4).
  private func openStore(_ dir: PathBytes) throws -> FolderEngine? {
    guard let open = folder.openOther else { return nil }
    do { return try open(dir) } catch let error as MarfaError {
      switch error.code {
      case .wrongSchema, .noStore, .invalid: return nil
      default: throw error
      }
    }
  }

  // MARK: A missing file (F43)

  /// Whether a missing file moved to another folder.
  func find(_ binding: Binding, _ facts: PassFacts) throws -> MissingVerdict {
    if let unsure { return .unsure(unsure) }
    guard !isEmpty else { return .nowhere }
    let holdsHere = try folder.copy.matches(binding.item, facts.search)
    let identity = try identity(of: binding)
    var sightings: [Sighting] = []
    var verdict: MissingVerdict = .nowhere
    for kind in Sighting.Kind.allCases {
      for other in looked.readable { sightings += see(kind, binding, identity, in: other, holdsHere: holdsHere) }
      verdict = judgeMissing(sightings, holdsHere: holdsHere)
      if case .moved = verdict { return verdict }
    }
    if case .unsure = verdict { return verdict }
    for other in looked.foreign {
      let found = Sighting.Kind.allCases.flatMap { paths($0, binding, identity, in: other, holdsHere: holdsHere) }
      if let path = found.first {
        return .unsure("another program's folder at \(other.dir) holds a file like it: \(path)")
      }
    }
    if let closed = looked.closed.first { return .unsure(closed) }
    if let unread = (looked.readable + looked.foreign).lazy.compactMap(\.unread).first { return .unsure(unread) }
    return .nowhere
  }

  private func identity(of binding: Binding) throws -> FileIdentity? {
    guard let kept = binding.identity else { return nil }
    let device = try kept.device ?? folder.context.files.openDirectory(folder.root).status().device
    return FileIdentity(device: device, inode: kept.inode, birth: kept.birth)
  }

  private func paths(
    _ kind: Sighting.Kind, _ binding: Binding, _ identity: FileIdentity?, in other: OtherFolder, holdsHere: Bool
  ) -> [PathBytes] {
    switch kind {
    case .identity: return identity.map { other.files(identity: $0) } ?? []
    case .id: return binding.form == .markdown ? other.files(carrying: binding.item) : []
    case .bytes:
      // A document whose lines were written is told by its id alone.
      guard binding.carriesNoID else { return [] }
      return other.files(bytes: binding.knownBytes, size: binding.seen?.size)
    case .binding: return other.ownFile(of: binding.item, holdsHere: holdsHere).map { [$0] } ?? []
    }
  }

  private func see(
    _ kind: Sighting.Kind, _ binding: Binding, _ identity: FileIdentity?, in other: OtherFolder, holdsHere: Bool
  ) -> [Sighting] {
    let found = paths(kind, binding, identity, in: other, holdsHere: holdsHere)
    guard !found.isEmpty else { return [] }
    let holds = other.holds(binding.item)
    let bytes = binding.knownBytes
    let anothers = other.bindings.values.contains { $0.item != binding.item && !$0.knownBytes.isDisjoint(with: bytes) }
    return found.map { path in
      let owner: Sighting.Owner =
        switch other.owner(of: path) {
        case nil: .nobody
        case binding.item?: .item
        case .some: .another
        }
      return Sighting(
        kind: kind, folder: other.dir, path: path, owner: owner, searchHolds: holds,
        bytesAreAnothers: kind == .bytes && anothers)
    }
  }

  // MARK: A file that arrived (F42, F43.2)

  /// Whether a file in another folder carries an item's id.
  func carry(_ item: EntityID) -> Bool {
    looked.readable.contains { !$0.files(carrying: item).isEmpty || $0.ownCarries(item) }
      || looked.foreign.contains { !$0.files(carrying: item).isEmpty }
  }

  /// Why it cannot be told whether another folder's own file carries an item's id; nil where it can.
  func unreadOwn(of item: EntityID) -> String? { looked.readable.lazy.compactMap { $0.unreadOwn(of: item) }.first }

  /// A folder whose copy holds an item.
  func copyHolding(_ item: EntityID) throws -> OtherFolder? {
    try looked.readable.first { try $0.copyHolds(item) }
  }

  /// A binding whose file left its folder.
  struct Left {
    let other: OtherFolder
    let binding: Binding
  }

  /// Every binding of the other folders, by its file's identity, and by its size where it carries no id.
  private struct Bound {
    var byIdentity: [FileIdentity: [Left]] = [:]
    var bySize: [UInt64: [Left]] = [:]
  }

  private func index() -> Bound {
    if let indexed { return indexed }
    var bound = Bound()
    for other in looked.readable {
      for binding in other.bindings.values {
        let left = Left(other: other, binding: binding)
        if let identity = other.identity(of: binding) { bound.byIdentity[identity, default: []].append(left) }
        if binding.carriesNoID, let size = binding.seen?.size { bound.bySize[size, default: []].append(left) }
      }
    }
    indexed = bound
    return bound
  }

  /// The binding of the folder an arriving file left: the one of its identity, or failing that the only one of its bytes
  /// (F43.2). Its own file must be gone there.
  /// - Parameter hash: asked only where some binding has a file of its size.
  func left(identity: FileIdentity?, size: UInt64, hash: () -> ContentHash?) -> Left? {
    let bound = index()
    if let identity {
      let found = (bound.byIdentity[identity] ?? []).filter { $0.other.isGone($0.binding) }
      if let first = found.min(by: { $0.binding.item < $1.binding.item }) { return first }
    }
    guard let sized = bound.bySize[size], let hash = hash() else { return nil }
    let found = sized.filter { $0.binding.knownBytes.contains(hash) }
    guard found.count == 1, let only = found.first, only.other.isGone(only.binding) else { return nil }
    return only
  }

  // MARK: Letting go and taking in (F44)

  /// A folder whose search holds an item and that has its own file of it (F44.2).
  func holder(of item: EntityID) -> OtherFolder? {
    looked.readable.first { other in
      guard let binding = other.bindings[item], binding.missingSince == nil, !other.isWaiting,
        other.holds(item) == true
      else { return false }
      return other.status(of: binding)?.kind == .regular
    }
  }

  /// A file another folder has let go (F44.1).
  struct LetGo {
    let other: OtherFolder
    let binding: Binding
    let hash: ContentHash
  }

  /// The file of an item that another folder has let go; nil where none has.
  func letGo(_ item: EntityID) -> LetGo? {
    for other in looked.readable {
      guard let binding = other.bindings[item], binding.missingSince == nil, binding.isFreeToGo, !other.isWaiting,
        let engine = other.engine, let facts = other.facts, other.holds(item) == false,
        let row = (try? engine.copy.item(item)) ?? nil, !row.isTrashed, facts.search.states.contains(row.state),
        !other.hasUnsent(item, but: [.end]), !embeds(item, other), let hash = binding.writtenHash,
        let status = other.status(of: binding), status.kind == .regular,
        status.identity == other.identity(of: binding), other.hash(of: binding.path) == hash
      else { continue }
      return LetGo(other: other, binding: binding, hash: hash)
    }
    return nil
  }

  /// Whether a file there embeds an item: then it has not left that folder (F12.38).
  private func embeds(_ item: EntityID, _ other: OtherFolder) -> Bool {
    other.bindings.values.contains { binding in
      binding.missingSince == nil && binding.edges.contains { $0.place == .embed && $0.other == item }
    }
  }

  // MARK: Not taken yet (F43.3)

  /// Whether a file of an item lies in another folder that has not bound it: one that carries its id, or that is the
  /// moved file this folder remembers.
  func isElsewhere(_ item: EntityID, form: FileForm, moved: MovedFile?) -> Bool {
    looked.readable.contains { other in
      if other.bindings[item].map({ $0.missingSince == nil }) ?? false { return false }
      return other.unboundFiles().contains { file in
        if form == .markdown, other.carriedID(of: file.path) == item { return true }
        guard let moved else { return false }
        if let birth = file.status.birth, moved.inode == file.status.inode, moved.birth == birth { return true }
        return moved.size == file.status.size && other.hash(of: file.path) == moved.hash
      }
    }
  }
}

extension Binding {
  /// The bytes its file is known to have had.
  var knownBytes: Set<ContentHash> { Set([readHash, writtenHash].compactMap { $0 }) }

  /// Whether its file tells its item by nothing but itself: bytes, a `.txt`, a document whose lines were never written.
  var carriesNoID: Bool { form != .markdown || line == nil }

  /// Whether nothing of it is refused, held, set aside, or a person's to place (F44.1, F44.12).
  var isFreeToGo: Bool { hold == nil && refusals.isEmpty && setAside == nil && !broughtByHand && heldBack.isEmpty }

}

/// A file without an id that was moved by hand to another folder which has not bound it yet: what tells it there, once the
/// binding here is gone (F43.3).
struct MovedFile: Hashable {
  var inode: UInt64?
  var birth: Int64?
  var size: UInt64?
  var hash: ContentHash?

  init(_ binding: Binding) {
    inode = binding.identity?.inode
    birth = binding.identity?.birth
    size = binding.seen?.size
    hash = binding.readHash
  }

  init?(_ json: JSON) {
    inode = json["inode"]?.text.flatMap { UInt64($0.string) }
    birth = json["birth"]?.text.flatMap { Int64($0.string) }
    size = json["size"]?.text.flatMap { UInt64($0.string) }
    hash = json["hash"]?.text.flatMap { ContentHash($0) }
    if inode == nil, hash == nil { return nil }
  }

  var json: JSON {
    [
      "inode": optional(inode.map { String($0) }), "birth": optional(birth.map { String($0) }),
      "size": optional(size.map { String($0) }), "hash": optional(hash?.hex),
    ]
  }
}

extension FolderStore {
  /// Files that moved by hand and were not bound there yet.
  func movedFiles() throws(SQLiteError) -> [EntityID: MovedFile] {
    guard let text = try fact(.elsewhere) else { return [:] }
    guard let members = (try? JSON(parsing: text.bytes))?.object?.members else {
      throw .damaged("the folder's record of its moved files cannot be read")
    }
    var moved: [EntityID: MovedFile] = [:]
    for member in members {
      if let item = EntityID(member.key), let file = MovedFile(member.value) { moved[item] = file }
    }
    return moved
  }

  func setMovedFiles(_ moved: [EntityID: MovedFile]) throws(SQLiteError) {
    let sorted = moved.sorted { $0.key < $1.key }.map { ($0.key.text, $0.value.json) }
    try set(.elsewhere, sorted.isEmpty ? nil : Text(bytes: JSON.object(JSONObject(sorted)).write()))
  }

  /// Files that wait for their item to be read (F42.1), with the reason.
  func waitingFiles() throws(SQLiteError) -> [PathBytes: String] {
    guard let text = try fact(.waiting) else { return [:] }
    guard let members = (try? JSON(parsing: text.bytes))?.object?.members else {
      throw .damaged("the folder's record of its waiting files cannot be read")
    }
    var waiting: [PathBytes: String] = [:]
    for member in members { waiting[PathBytes(member.key)] = member.value.text?.string ?? "" }
    return waiting
  }

  func setWaitingFiles(_ waiting: [PathBytes: String]) throws(SQLiteError) {
    if try waitingFiles() == waiting { return }
    let sorted = waiting.sorted { $0.key < $1.key }.map { ($0.key.text, JSON.string($0.value)) }
    try set(.waiting, sorted.isEmpty ? nil : Text(bytes: JSON.object(JSONObject(sorted)).write()))
  }
}
