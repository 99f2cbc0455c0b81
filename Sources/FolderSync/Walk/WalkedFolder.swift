import MarfaBase

extension FolderEngine {
  /// Walks the folder, comparing what is mounted in it with what was at the last scan (P2.1).
  func walked(_ root: any Directory, _ facts: PassFacts, door: FaultDoor = .none) throws -> WalkResult {
    var found = try walk(root: root, lists: facts.lists, now: now, door: door, stop: stop)
    found.earlierMounts = try store.mounts()
    if !identityLasts { for place in found.files.indices { found.files[place].status.birth = nil } }
    return found
  }
}

extension FolderStore {
  /// The directories something was mounted at when a scan last found all their files; nil before the first scan.
  func mounts() throws(SQLiteError) -> Set<PathBytes>? {
    guard let text = try fact(.mounts) else { return nil }
    guard let paths = (try? JSON(parsing: text.bytes))?.array else {
      throw .damaged("the folder's record of its mounted volumes cannot be read")
    }
    return Set(paths.compactMap(\.text).map { PathBytes($0) })
  }

  func setMounts(_ mounts: Set<PathBytes>) throws(SQLiteError) {
    try set(.mounts, Text(bytes: JSON.array(mounts.sorted().map { .string($0.text) }).write()))
  }
}
