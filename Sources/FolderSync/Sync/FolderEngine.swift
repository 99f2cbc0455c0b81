import MarfaBase
import MarfaCopy

/// One folder while it is worked: its directory, its store, its copy. Synchronous, on one thread; every step is checked
/// against the root (X11) and the stop flag (H12). The caller holds the claim.
package final class FolderEngine {
  package let context: Context
  /// The directory, resolved.
  package let root: PathBytes
  package let copy: WorkingCopy
  package let store: FolderStore
  /// The `system.folder` row this directory follows.
  package let folderID: EntityID
  /// What tells that the root is still the root (X11).
  package let identity: RootIdentity
  package let stop: StopFlag
  /// Whether files' permissions mean something on this volume (F50.5); nil until first asked.
  var keepsPermissions: Bool?
  /// Reads of the calling key within this pass.
  var key: CallingKey?
  /// Whether the disk holds only names that Windows and FAT take (P7.8).
  package var takesWindowsNames = false
  /// Whether inodes and birth times last where the folder lies (ST6).
  var identityLasts = true
  /// A watch that is running (F1.7).
  var keepsSlice = false
  /// Documents a watch found being written to: when it first was without a break, and when it last was taken so (P1.2).
  var beingWritten: [PathBytes: (since: UInt64, taken: UInt64)] = [:]
  /// The directory as the last whole scan found it: what was passed over then.
  var scannedDirectory: WalkResult?
  /// The directory as the last quiet pass found it.
  var quietDirectory: QuietDirectory?
  /// Who counts this store's changes (P3.2), and how many there were when they were last counted.
  var sealKeeper: SealKeeper?
  var sealedChanges: Int64 = 0
  /// The machine's list of folders; nil where there is none.
  package var registry: Registry?
  /// The list as the last scan found it.
  var listed: [RegistryEntry]?
  /// Files made beside for words saved while a file was written, found before a pass and told by its pull (P1.4).
  var savedBeside: [FlaggedFile] = []
  /// The push under way as far as its first drain, for what is told of one that failed after it (F52.5).
  var begun: FolderPush?
  /// What the watch that works it remembers; nil outside one.
  package var memory: WatchMemory?
  /// Whether large uploads wait now (P5.3).
  var spares: @Sendable () -> Bool = { false }
  /// Opens another folder's store to read (X5.7).
  var openOther: ((PathBytes) throws -> FolderEngine)?

  package init(
    root: PathBytes, copy: WorkingCopy, store: FolderStore, folderID: EntityID, identity: RootIdentity, stop: StopFlag
  ) {
    self.root = root
    self.copy = copy
    self.store = store
    self.folderID = folderID
    self.identity = identity
    self.stop = stop
    context = copy.context
    copy.stop = stop
  }

  /// What a pass goes by: one reading of catalog and settings (F9, F25.15: the copy's row, never the file's text).
  package func facts() throws -> PassFacts {
    let catalog = try copy.catalog()
    guard let row = try settingsRow() else {
      throw MarfaError(
        .notFound, "the folder \(folderID) that \(root) follows is not readable; the key may lack system.folder:read",
        server: .init(status: 404, code: "item_not_found"))
    }
    var facts = try PassFacts(folder: folderID, row: row, catalog: catalog)
    guard let memory, keepsSlice else { return facts }
    // A running watch goes on with the slice it has, and so with the search it began with (F40.7).
    if let kept = memory.search, kept != facts.search, try !copy.answers(facts.slice) {
      facts.search = kept
    } else {
      memory.search = facts.search
    }
    return facts
  }

  /// The settings row: the copy's, or before a fill brought it the one an add read.
  package func settingsRow() throws -> Item? {
    if let row = try copy.item(folderID) { return row }
    guard let kept = try store.fact(.row) else { return nil }
    guard let json = try? JSON(parsing: kept.bytes), let row = Item(row: json) else {
      throw MarfaError(SQLiteError.damaged("the folder's record of its settings cannot be read"))
    }
    return row
  }

  /// Whether the copy answers for a slice. A running watch goes on with the slice it began with: settings or an edge type
  /// that ask for another are met at the next push, or when the watch starts again (F1.7).
  func holds(_ slice: Slice) throws(MarfaError) -> Bool {
    if try copy.answers(slice) { return true }
    guard keepsSlice else { return false }
    return try copy.hydration() == .complete
  }

  /// Refuses where the copy cannot answer (F40.8).
  package func requireAnswers(_ facts: PassFacts) throws {
    guard try holds(facts.slice) else {
      throw MarfaError(
        .hydrationIncomplete,
        "the folder's copy is not filled, so files cannot be told from items yet; run push, which fills it first")
    }
  }

  package func checkStop() throws { try copy.checkStop() }

  /// Counts the changes of a pass that is over (P3.2).
  package func countChanges() { sealKeeper?.count(self) }

  package var now: Timestamp { context.clock.now }

  /// Runs one group of changes: the queue's writes and the folder's records commit together or not at all.
  package func commit<Value>(_ work: () throws -> Value) throws -> Value {
    context.sabotage.breaks(.queuedApart) ? try work() : try copy.store.transaction(work)
  }

  /// This folder's placement of an item, as the copy shows it (F19.1, F19.2).
  package func placement(of item: EntityID) throws -> Edge? {
    try copy.edges(from: item, type: PassFacts.inFolder).first { $0.target == folderID }
  }
}

/// One reading of what a pass goes by.
package struct PassFacts {
  package static let inFolder: Text = "in-folder"
  package static let references: Text = "references"
  package static let attachedTo: Text = "attached-to"

  package let folder: EntityID
  package let row: Item
  package let catalog: Catalog
  package let settings: FolderSettings
  package let names: FieldNames
  package let vocabulary: EdgeVocabulary
  package fileprivate(set) var search: FolderSearch
  package let lists: PathLists

  package init(folder: EntityID, row: Item, catalog: Catalog) throws {
    guard row.type == "system.folder" else { throw MarfaError(.invalid, "\(folder) is no folder but a \(row.type)") }
    guard row.state != "revoked" else {
      throw MarfaError(.invalid, "the folder \(row.properties["title"]?.text ?? folder.text) (\(folder)) is revoked")
    }
    let settings: FolderSettings
    do throws(FolderSettings.Refusal) {
      settings = try FolderSettings(row: row.properties, checks: Self.checks(catalog))
    } catch {
      throw MarfaError(
        .invalid,
        "no folder follows the setting \(error.description); `marfa-folders change \(folder)` changes it")
    }

    self.folder = folder
    self.row = row
    self.catalog = catalog
    self.settings = settings
    names = FieldNames(catalog)
    var keys: [Text] = []
    for (name, type) in catalog.edgeTypes {
      keys.append(name)
      if let reverse = type.reverseName { keys.append(reverse) }
    }
    vocabulary = EdgeVocabulary(names: keys)
    let held = settings.search
    search = FolderSearch(
      types: held.types, tier: held.tier, states: held.states.map(\.text), filter: held.filter, beneath: held.beneath)
    lists = try PathLists(include: settings.include, ignore: settings.ignore)
  }

  /// What can be followed of settings of which some cannot: those left out. Nil for a row that is no folder's.
  init?(followable row: Item, folder: EntityID, _ catalog: Catalog) {
    var row = row
    if row.state == "revoked" { row.state = "active" }
    for _ in 0...row.properties.count {
      do throws(FolderSettings.Refusal) {
        _ = try FolderSettings(row: row.properties, checks: Self.checks(catalog))
        break
      } catch {
        let bad = error.member.bytes.prefix { $0 != UInt8(ascii: ".") }
        let key = Text(bytes: bad)
        row.properties[key] = nil
        if key == "search" { row.properties["query"] = nil }
      }
    }
    guard let facts = try? PassFacts(folder: folder, row: row, catalog: catalog) else { return nil }
    self = facts
  }

  /// What the settings are checked by.
  package static func checks(_ catalog: Catalog) -> FolderSettings.Checks {
    FolderSettings.Checks(
      filter: { text in
        do throws(MarfaError) {
          return try Filter(text).hasBackref ? "a backref is a condition no folder follows" : nil
        } catch { return error.message }
      },
      pattern: { line in
        do throws(PatternRefusal) {
          _ = try PathLists(include: [line], ignore: [])
          return nil
        } catch { return "'\(error.line)' is not a pattern: \(error.reason)" }
      },
      holds: { types, type in types.isEmpty || types.contains { catalog.isType(type, under: $0) } })
  }

  /// The slice a copy of this folder holds (F2.4, F11.25, F12.39): the search's types and tier, every edge type written
  /// at its target, and `attached-to` where the search holds a document.
  package var slice: Slice {
    var edges = catalog.edgeTypes.values.filter { $0.writtenAt == .target }.map(\.id)
    let holdsDocuments =
      search.types.isEmpty || search.types.contains { !(catalog.type($0)?.isFileType ?? ($0 == "core.file")) }
    if holdsDocuments, !edges.contains(Self.attachedTo) { edges.append(Self.attachedTo) }
    return Slice(types: search.types.isEmpty ? nil : search.types, tier: search.tier, edgeTypes: edges.sorted())
  }

  /// Why a type line is refused before anything is queued: the catalog lacks it, it is a file type (F9.5), or its items
  /// are made on the server alone (Q32.2).
  func refusal(ofType type: Text?) -> String? {
    guard let type else { return nil }
    if type.bytes.starts(with: Array("system.".utf8)) {
      return "unknown_type: a \(type) is made and changed on the server, by no file"
    }
    guard let known = catalog.type(type) else { return "unknown_type: no type \(type) is known here" }
    return known.isFileType ? "unknown_type: \(type) is a file type, whose items are bytes" : nil
  }

  /// Why no placement can have a file's path, so that its item could be placed nowhere (E2.5, F53.1); nil where one can.
  static func refusal(ofPlacementAt path: PathBytes) -> String? {
    if path.text.isPlacement { return nil }
    if path.text.utf16Count > 1024 {
      return "validation_error: its path is longer than 1024 characters, which no placement holds; move or rename it"
    }
    return
      "validation_error: no placement holds a path with a backslash or one that begins like a drive (`C:`); rename it"
  }

  package func bodyField(of type: Text) -> Text { catalog.type(type)?.bodyField ?? "body" }
  package func titleField(of type: Text) -> Text { catalog.type(type)?.titleField ?? "title" }
  package func isFileItem(_ type: Text) -> Bool { catalog.type(type)?.isFileType ?? false }

  /// Whether the search holds a type (F36.9).
  package func holds(type: Text) -> Bool {
    search.types.isEmpty || search.types.contains { catalog.isType(type, under: $0) }
  }

  /// The type a file of bytes becomes (F36.2).
  package func fileType(of name: PathBytes) -> Text {
    let mime = MIMETypes.type(of: name.name) ?? MIMETypes.fallback
    for (prefix, type) in [("image/", "core.file.image"), ("audio/", "core.file.audio"), ("video/", "core.file.video")]
    where mime.hasPrefix(prefix) {
      let type = Text(type)
      if catalog.type(type) != nil { return type }
    }
    return "core.file"
  }
}

extension FolderEngine {
  /// Why the directory is not the folder's any more; nil where it is (F22.2 to F22.4). Looked at before every pass and
  /// every landing, since nothing may be read as absent, nor written, in another directory.
  package func rootGone() -> String? {
    if case .gone(let reason) = identity.check(context.files) { return reason }
    return nil
  }

  /// The root, opened; refused where it is gone.
  package func openRoot() throws(MarfaError) -> any Directory {
    if let reason = rootGone() { throw MarfaError(.invalid, reason) }
    do throws(FileError) { return try context.files.openDirectory(root) } catch { throw MarfaError(error) }
  }
}

/// The calling key as a refused placement remembers it (F19.23).
package struct CallingKey: Hashable, Sendable {
  package var id: Text?
  /// Its grant of `in-folder`: `write`, `read`, or nothing.
  package var grant: Text?

  package init(_ key: JSON) {
    id = key["id"]?.text
    grant = Self.grant("in-folder", in: key["edge_permissions"]?.object ?? JSONObject())
  }

  /// F-W4: the exact name, then the longest `prefix.*` that equals or contains it, then `*`.
  package static func grant(_ name: Text, in map: JSONObject) -> Text? {
    if let exact = map[name]?.text { return exact }
    var best: (length: Int, grant: Text?)?
    for member in map.members where member.key.bytes.suffix(2).elementsEqual(".*".utf8) {
      let prefix = Array(member.key.bytes.dropLast(2))
      let covers = name.bytes == prefix || name.bytes.starts(with: prefix + [UInt8(ascii: ".")])
      if covers, prefix.count > best?.length ?? -1 { best = (prefix.count, member.value.text) }
    }
    return best.map(\.grant) ?? map["*"]?.text
  }
}
