import MarfaBase

/// Where a file stands (C9.4).
public enum FileState: String, Sendable {
  /// As last agreed on.
  case inStep = "in_step"
  /// Something of it is still to be read or sent.
  case waiting
  /// Not synced; the reason says why.
  case held
  /// The search no longer holds its item; the file stays.
  case unmatched
  /// Not reached by the walk; held, not deleted.
  case unreached
  /// Not a file of this folder.
  case outside
}

/// What a waiting file waits for, in the order they are named (C9.5).
public enum FileWait: Int, Comparable, Sendable {
  case scan, upload, create, edit, tag, state, restore, edge, placement, metadata, delete

  /// The word of C9.5.
  public var word: String {
    switch self {
    case .scan: "scan"
    case .upload: "upload"
    case .create: "create"
    case .edit: "edit"
    case .tag: "tag"
    case .state: "state"
    case .restore: "restore"
    case .edge: "edge"
    case .placement: "placement"
    case .metadata: "metadata"
    case .delete: "delete"
    }
  }

  /// The order of C9.5.
  public static func < (left: FileWait, right: FileWait) -> Bool { left.rawValue < right.rawValue }
}

/// One file of a status (C9.3).
public struct FolderFile: Hashable, Sendable {
  /// Relative to the root.
  public var path: String
  /// Where it stands.
  public var state: FileState
  /// Whose file it is.
  public var item: String?
  /// What it waits for, in order.
  public var waits: [FileWait] = []
  /// A flag of C19.4.
  public var flag: String?
  /// Why.
  public var reason: String?
  /// That its text nears the server's limit.
  public var warning: String?

  package init(_ path: PathBytes, _ state: FileState, item: EntityID? = nil, waits: Set<FileWait> = []) {
    self.path = path.description
    self.state = state
    self.item = item?.description
    self.waits = waits.sorted()
  }

  package init(_ path: PathBytes, held flag: Flag, _ reason: String?, item: EntityID? = nil) {
    self.init(path, .held, item: item)
    self.flag = flag.rawValue
    self.reason = reason
  }

  package var json: JSON {
    var object = members(["path": .string(path)])
    if let item { object["item_id"] = .string(item) }
    object["status"] = .string(state.rawValue)
    if !waits.isEmpty { object["waits"] = .array(waits.map { .string($0.word) }) }
    if let flag { object["flag"] = .string(flag) }
    if let reason { object["reason"] = .string(reason) }
    if let warning { object["warning"] = .string(warning) }
    return .object(object)
  }
}

/// Where every file of a folder stands (R7).
public struct FolderStatus: Hashable, Sendable {
  /// Every file the walk reaches and every bound one, in path order.
  public var files: [FolderFile] = []
  /// Files of a large removal on the disk that waits.
  public var pausedOnDisk = 0
  /// Files of a large removal through a pull that waits.
  public var pausedInPull = 0
  /// Whether the first sync waits.
  public var firstSyncWaits = false
  /// The last plan read of a waiting first sync.
  public var plan: FolderPlan?

  /// The pause its person asked for (P5.4).
  package var pause: FolderPause?

  /// Why no pass follows the folder's settings; nil where they do.
  package var unfollowed: String?

  /// Nothing.
  public init() {}

  /// The object of R7.
  package var json: JSON {
    var object = members([
      "files": .array(files.map(\.json)), "paused": ["disk": .int(pausedOnDisk), "pull": .int(pausedInPull)],
    ])
    if let pause { object["pause"] = pause.json }
    if let unfollowed { object["settings"] = ["flagged": .string(unfollowed)] }
    if firstSyncWaits { object["first_sync"] = ["plan": plan?.json ?? .null] }
    return .object(object)
  }
}
