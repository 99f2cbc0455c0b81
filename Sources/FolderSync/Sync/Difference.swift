import MarfaBase
import MarfaCopy

/// What waits on both sides of one file (N6.2): the file against the agreement, and the item against it.
package struct FileDifference: Sendable {
  /// The file, below the folder's root.
  package var path: PathBytes
  /// What an unsent edit changes; nil where there is none.
  package var toSend: UnifiedDiff?
  /// What an unwritten change of the item changes; nil where there is none.
  package var toWrite: UnifiedDiff?

  package var json: JSON {
    func text(_ diff: UnifiedDiff?) -> JSON { diff.map { .string(Text(bytes: $0.text)) } ?? .null }
    return ["path": .string(path.text), "to_send": text(toSend), "to_write": text(toWrite)]
  }
}

/// Reads one file beside whoever works the folder: no request, no claim, no write.
extension FolderEngine {
  /// The file's differences.
  /// - Throws: `invalid` where the folder knows no such file.
  package func difference(of path: PathBytes) throws -> FileDifference {
    let reading = try FileTexts(self, path)
    return try reading.difference()
  }

  /// The item of a file, and the texts of earlier versions of it as this file would show them (P3.4).
  /// - Throws: `invalid` where the folder knows no such file.
  package func history(of path: PathBytes) throws -> FileHistory { FileHistory(try FileTexts(self, path)) }
}

/// One file's item with what renders a version of it.
package struct FileHistory {
  private let texts: FileTexts

  fileprivate init(_ texts: FileTexts) { self.texts = texts }

  /// The item.
  package var item: EntityID { texts.item }
  /// The item as the copy holds it of the server.
  package var now: Item? { get throws { try texts.folder.copy.store.serverItem(item) } }
  /// What the file holds; nil where it is not there.
  package var file: [UInt8]? { texts.file?.bytes }

  /// A version's text as the file would show it, its id and version lines as they stand in the file.
  package func text(_ version: Item) throws -> [UInt8]? { try texts.render(version, over: texts.file?.bytes) }
}

/// The texts of one file: as it stands, as it was agreed, as its item would have it.
private struct FileTexts {
  let folder: FolderEngine
  let path: PathBytes
  let pass: PullPass
  let item: EntityID
  let binding: Binding?
  /// The file as it stands; nil where it is not there.
  let file: FileReading?

  init(_ folder: FolderEngine, _ path: PathBytes) throws {
    self.folder = folder
    self.path = path
    let root = try folder.openRoot()
    pass = try PullPass(folder, try folder.facts(), root: root, plansOnly: true)
    try pass.prepare()
    let bound = pass.bindings.values.filter { $0.path == path }
    binding = bound.first { $0.missingSince == nil } ?? bound.first
    guard let item = binding?.item ?? pass.places.first(where: { $0.value.path == path })?.key else {
      if case .read = folder.read(path, in: root, keeping: false) {
        throw MarfaError(
          .invalid, "\(path) is not synced yet, so nothing of it was agreed; `status` says what it waits for")
      }
      throw MarfaError(.invalid, "\(path) is no file of this folder")
    }
    self.item = item
    switch folder.read(path, in: root, keeping: true) {
    case .read(let reading): file = reading
    case .gone: file = nil
    case .failed(let error): throw MarfaError(error)
    }
  }

  private var form: FileForm { binding?.form ?? FileForm(documentName: path) ?? .bytes }

  /// A row's text over the bytes of a file; nil where it has none.
  func render(_ row: Item, over existing: [UInt8]?, lines: Bool = false) throws -> [UInt8]? {
    guard form != .bytes else { return nil }
    switch try pass.render(row, form, existing: existing, binding: binding, lines: lines || existing == nil) {
    case .success(let bytes): return bytes
    case .failure:
      // A file whose frontmatter cannot be read cannot be written in place either: the row stands by itself.
      guard existing != nil, case .success(let bytes) = try pass.render(row, form, existing: nil, binding: binding)
      else { return nil }
      return bytes
    }
  }

  /// The row the file was last agreed with; nil where neither the copy nor the folder has it any more.
  private func agreedRow(_ now: Item?) throws -> Item? {
    guard let agreed = binding?.agreed else { return nil }
    if let now, now.version == agreed { return now }
    return try folder.store.passedRow(of: item, version: agreed)
  }

  /// Whether the file holds what no server has: bytes not scanned, a write under way, a hold.
  private func isUnsent(_ binding: Binding) throws -> Bool {
    guard let file else { return true }
    if !binding.isOwn(file.hash), file.hash != binding.readHash { return true }
    if binding.hold != nil || binding.setAside != nil || !binding.refusals.isEmpty { return true }
    return try folder.store.writes(of: item).contains {
      [.create, .edit, .upload, .tag, .untag, .state].contains($0.role)
    }
  }

  func difference() throws -> FileDifference {
    var difference = FileDifference(path: path)
    let now = try folder.copy.store.serverItem(item)
    guard form != .bytes else {
      differ(&difference, now)
      return difference
    }
    guard let binding else {
      // An item whose file is still to be written.
      if file == nil, let now { difference.toWrite = diff(nil, try render(now, over: nil), "item") }
      return difference
    }
    let agreed = try agreedRow(now)
    let unsent = try isUnsent(binding)
    // A file that holds nothing unsent is the agreement itself; a new one has none yet.
    let basis: [UInt8]?
    if !unsent, let file {
      basis = file.bytes
    } else if let agreed {
      basis = try render(agreed, over: file?.bytes)
    } else {
      basis = binding.agreed == nil ? nil : try now.flatMap { try render($0, over: file?.bytes) }
    }
    if unsent { difference.toSend = diff(basis, file?.bytes, "file") }
    guard let now else { return difference }
    if now.isTrashed {
      difference.toWrite = diff(basis, nil, "item")
    } else if let basis, let shown = try render(now, over: basis), shown != basis {
      difference.toWrite = diff(basis, try render(now, over: basis, lines: true), "item")
    }
    return difference
  }

  /// Bytes are told as differing.
  private func differ(_ difference: inout FileDifference, _ now: Item?) {
    let wanted = now?.properties["blob_ref"]?.text.flatMap { ContentHash($0) }
    let agreed = binding?.writtenHash ?? binding?.showed?.body
    func told(_ old: ContentHash?, _ new: ContentHash?, _ side: String) -> UnifiedDiff? {
      guard old != new else { return nil }
      func bytes(_ hash: ContentHash?, _ label: String) -> UnifiedDiff.Side {
        UnifiedDiff.Side(hash.map { [0] + Array($0.hex.utf8) }, "\(label)/\(path)")
      }
      return UnifiedDiff(bytes(old, "agreed"), bytes(new, side))
    }
    if binding != nil { difference.toSend = told(agreed, file?.hash, "file") }
    if let now {
      difference.toWrite = told(binding == nil ? nil : agreed, now.isTrashed ? nil : wanted, "item")
    }
  }

  private func diff(_ old: [UInt8]?, _ new: [UInt8]?, _ side: String) -> UnifiedDiff? {
    let diff = UnifiedDiff(UnifiedDiff.Side(old, "agreed/\(path)"), UnifiedDiff.Side(new, "\(side)/\(path)"))
    return diff.text.isEmpty ? nil : diff
  }
}
