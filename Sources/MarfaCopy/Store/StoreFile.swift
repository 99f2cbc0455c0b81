import Glibc
import MarfaBase

/// A working copy opened from its file, with the claim on it (device chapter 22).
///
///     let open = try OpenStore.open(path: path, context: context, role: .writer, endpoint: endpoint, credentials: nil)
///     try open.copy.catchUp()
package final class OpenStore {
  /// What becomes of a store that is refused (D206.1).
  package enum IfRefused: Sendable {
    /// The refusal is thrown and the store left as it is.
    case keep
    /// A store without unsent writes is replaced by an empty one; downloaded bytes stay.
    case replace
  }

  /// The copy.
  package let copy: WorkingCopy
  private let claim: WriterClaim?

  private init(copy: WorkingCopy, claim: WriterClaim?) {
    self.copy = copy
    self.claim = claim
  }

  /// Opens a store. A writer takes the claim and makes a store where none is; a reader takes no claim and makes nothing.
  /// - Parameter looks: whether a reader changes no byte even where nobody else has the store open; not for a process that
  ///   may write it too (`Database.Mode.look`).
  /// - Throws: `no_store` where a reader finds none, `reading_handle` where another holds the claim, `wrong_schema`.
  package static func open(
    path: PathBytes, context: Context, role: WorkingCopy.Role, endpoint: Endpoint?,
    credentials: (any CredentialStore)?, ifRefused: IfRefused = .keep, stop: StopFlag = StopFlag(),
    migrations: [Migration] = Schema.migrations, looks: Bool = false
  ) throws(MarfaError) -> OpenStore {
    let reading: Database.Mode = looks ? .look : .readOnly
    let files = StoreFiles(path: path, files: context.files)
    func opened() throws(MarfaError) -> WorkingCopy {
      do {
        let database = try Database(path: path.description, mode: role == .writer ? .create : reading)
        let blobs = FileBlobStore(path: files.blobs, files: context.files, ids: context.ids)
        let copy = try WorkingCopy.open(
          database: database, blobs: blobs, context: context, role: role, endpoint: endpoint, credentials: credentials,
          path: path, migrations: migrations)
        copy.stop = stop
        return copy
      } catch { throw MarfaError(any: error) }
    }
    guard role == .writer else {
      guard try files.exists() else { throw MarfaError(.noStore, "no store has been made at \(path)") }
      return OpenStore(copy: try opened(), claim: nil)
    }
    let claim = try files.claim()
    try files.prepare()
    do throws(MarfaError) {
      return OpenStore(copy: try opened(), claim: claim)
    } catch {
      guard error.code == .wrongSchema, ifRefused == .replace, error.reason == "0" else { throw error }
      try files.removeDatabase()
      try files.prepare()
      return OpenStore(copy: try opened(), claim: claim)
    }
  }

  /// Removes a store of any build: its file, journals, bytes and lock, nothing else (D206.2).
  /// - Parameter unsent: how many unsent writes the caller knows to go with it.
  /// - Throws: `unsent_differs` for another count, `reading_handle` where somebody writes it, `invalid` for a folder's store
  ///   and for one whose writes cannot be counted, `no_store` where there is none.
  package static func remove(path: PathBytes, unsent: Int, context: Context) throws(MarfaError) {
    let files = StoreFiles(path: path, files: context.files)
    guard try files.exists() else { throw MarfaError(.noStore, "no store has been made at \(path)") }
    let claim = try files.claim()
    defer { claim.release() }
    do {
      let database = try Database(path: path.description, mode: .readWrite)
      guard try !StoreFiles.isFolder(database) else {
        throw MarfaError(.invalid, "\(path) is a folder's store; `remove` takes the folder away")
      }
      let counted = try? database.one(StoreFiles.unsent) { $0.int(0) }
      guard let found = counted ?? nil else {
        throw MarfaError(.invalid, "the unsent writes of \(path) cannot be counted, so it is not removed")
      }
      guard found == unsent else {
        throw MarfaError(
          .unsentDiffers, "\(path) holds \(found) unsent writes, not \(unsent)", reason: String(found))
      }
    } catch { throw MarfaError(any: error) }
    try files.removeDatabase()
    try files.removeRest()
  }
}

/// The files of one store, by name.
struct StoreFiles {
  /// Writes not taken: waiting, blocked, refused kept, dead (D41.6).
  static let unsent = "SELECT count(*) FROM queue WHERE verdict IS NULL OR verdict IN ('refused', 'blocked', 'dead')"

  let path: PathBytes
  let files: any FileSystem

  private func beside(_ ending: String) -> PathBytes { PathBytes(bytes: path.bytes + Array(ending.utf8)) }
  var blobs: PathBytes { beside(".blobs") }

  func exists() throws(MarfaError) -> Bool {
    do throws(FileError) { return try files.status(path) != nil } catch {
      if error.code == ENOENT || error.code == ENOTDIR { return false }
      throw MarfaError(error)
    }
  }

  /// Takes the writer claim, by an open directory.
  func claim() throws(MarfaError) -> WriterClaim {
    let directory: any Directory
    do throws(FileError) {
      if try files.status(path.parent) == nil {
        try files.syncNames(of: try files.makeDirectories(path.parent, mode: 0o700))
      }
      directory = try files.openDirectory(path.parent)
    } catch { throw MarfaError(error) }
    guard case .taken(let claim) = try WriterClaim.attempt(in: directory, store: path.name, files: files) else {
      throw MarfaError(
        .readingHandle, "another process writes the store at \(path); a reader can be opened beside it")
    }
    return claim
  }

  /// Makes an empty file for the owner alone where there is none: SQLite gives its journals the store's mode, whatever the
  /// umask (D50.1).
  func prepare() throws(MarfaError) {
    do throws(FileError) {
      let directory = try files.openDirectory(path.parent)
      guard try directory.status(of: path.name) == nil else { return }
      try directory.create(path.name, mode: 0o600, exactMode: true).close()
    } catch { throw MarfaError(error) }
  }

  /// Removes the store and its journals; bytes and lock stay.
  func removeDatabase() throws(MarfaError) {
    // The journals first: a store without its log would be an older one.
    for ending in ["-wal", "-shm", "-journal", ""] { try unlink(beside(ending)) }
  }

  /// Removes bytes and lock.
  func removeRest() throws(MarfaError) {
    do throws(FileError) {
      let parent = try files.openDirectory(path.parent)
      if try parent.status(of: blobs.name) != nil {
        let directory = try parent.directory(blobs.name)
        for entry in try directory.list() where StoreFiles.isOurs(entry.name) { try directory.unlink(entry.name) }
        do throws(FileError) { try parent.removeDirectory(blobs.name) } catch {
          // Something of somebody else's lies in it.
          if error.code != ENOTEMPTY && error.code != EEXIST { throw error }
        }
      }
    } catch { throw MarfaError(error) }
    try unlink(beside(".lock"))
  }

  /// A blob's name, or that of a half-written one.
  private static func isOurs(_ name: PathBytes) -> Bool {
    name.bytes.starts(with: ".incoming-".utf8) || (name.bytes.count == 64 && ContentHash(name.text) != nil)
  }

  private func unlink(_ path: PathBytes) throws(MarfaError) {
    do throws(FileError) { try files.openDirectory(path.parent).unlink(path.name) } catch {
      if error.code != ENOENT { throw MarfaError(error) }
    }
  }

  /// Whether a store's own record names a folder (D206.3).
  static func isFolder(_ database: Database) throws -> Bool {
    guard
      try database.one("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'folder_fact'", read: { _ in true })
        ?? false
    else { return false }
    return try database.one("SELECT 1 FROM folder_fact WHERE name = 'folder'") { _ in true } ?? false
  }
}
