import MarfaBase

/// A new file the local checks refused (F53): which bytes, and why. Nothing binds it, so this alone tells `status` that it
/// waits for its person and not for a scan.
struct RefusedFile: Hashable {
  var hash: ContentHash
  var reason: String
}

extension FolderStore {
  /// The new files the last scan refused.
  func refusedFiles() throws(SQLiteError) -> [PathBytes: RefusedFile] {
    guard let text = try fact(.refusedFiles) else { return [:] }
    guard let members = (try? JSON(parsing: text.bytes))?.object?.members else {
      throw .damaged("the folder's record of its refused files cannot be read")
    }
    var refused: [PathBytes: RefusedFile] = [:]
    for member in members {
      guard let hash = member.value["hash"]?.text.flatMap({ ContentHash($0) }) else { continue }
      refused[PathBytes(member.key)] = RefusedFile(hash: hash, reason: member.value["reason"]?.text?.string ?? "")
    }
    return refused
  }

  func setRefusedFiles(_ refused: [PathBytes: RefusedFile]) throws(SQLiteError) {
    if try refusedFiles() == refused { return }
    let sorted = refused.sorted { $0.key < $1.key }.map { path, file in
      (path.text, ["hash": .string(file.hash.hex), "reason": .string(file.reason)] as JSON)
    }
    try set(.refusedFiles, sorted.isEmpty ? nil : Text(bytes: JSON.object(JSONObject(sorted)).write()))
  }
}
