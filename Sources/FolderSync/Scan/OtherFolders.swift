import MarfaBase
import MarfaCopy

/// The other folders on this machine, looked into before a missing file's item is trashed (F43).
struct OtherFolders {
  enum Found {
    case moved
    case nowhere
    case unsure(String)
  }

  /// Why nothing can be told this pass.
  var unsure: String?

  static func read(for folder: FolderEngine, noting report: inout FolderScan) throws -> OtherFolders {
    OtherFolders(unsure: report.registry)
  }

  func find(_ binding: Binding, _ row: Item, from folder: FolderEngine, _ facts: PassFacts) throws -> Found {
    if let unsure { return .unsure(unsure) }
    return .nowhere
  }
}
