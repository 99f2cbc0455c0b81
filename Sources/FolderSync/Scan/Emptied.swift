import MarfaBase
import MarfaCopy

/// Bound documents found empty, or all NUL bytes, that were not so when they were last agreed: what a power cut or a failing
/// disk leaves. Each counts as a removal, with its grace and its number, before it is taken as an edit (P3.1).
extension ScanPass {
  /// A document that lost every byte.
  struct Emptied {
    let index: Int
    let row: Item
    let binding: Binding
  }

  static let emptiedReason =
    "it is empty all at once; it is sent so once it stays empty, or with `confirm` where many are; `restore` writes many back"

  /// Journals it; false where it is none.
  func journalEmptied(_ index: Int, _ row: Item, _ before: Binding?, _ now: Binding, places: Bool) throws -> Bool {
    let file = files[index]
    guard file.isBlank, now.form != .bytes, let before, let read = before.readHash, read != file.hash else {
      return false
    }
    var binding = now
    binding.missingSince = before.missingSince ?? folder.now
    binding.hold = Hold(.emptied, Self.emptiedReason)
    report.flagged.append(FlaggedFile(file.path, .emptied, Self.emptiedReason))
    emptied[row.id] = Emptied(index: index, row: row, binding: binding)
    let journaled = binding
    try group { [self] in try record(journaled, placing: places ? row : nil) }
    return true
  }

  /// Takes one as the edit it is, its grace past and not too many of them.
  func sendEmptied(_ file: Emptied) throws {
    // NUL bytes are no text: such a file stays held.
    guard let document = files[file.index].document else { return }
    report.missing -= 1
    let path = file.binding.path.description
    report.flagged.removeAll { $0.path == path && $0.flag == Flag.emptied.rawValue }
    var binding = file.binding
    binding.missingSince = nil
    binding.hold = nil
    try decideDocument(file.index, document, file.row, binding, isNewHere: false, places: false)
  }
}

extension FolderEngine {
  /// Whether a file that was found empty still is; its bytes' digest then.
  func stillEmptied(_ binding: Binding, in root: any Directory) -> ContentHash? {
    guard binding.hold?.flag == .emptied, case .read(let now) = read(binding.path, in: root, keeping: true),
      let bytes = now.bytes, bytes.allSatisfy({ $0 == 0 })
    else { return nil }
    return now.hash
  }
}
