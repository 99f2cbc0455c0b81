import Glibc
import MarfaBase
import MarfaCopy

/// One folder of this machine (X2).
package struct RegistryEntry: Hashable, Sendable {
  /// The root, resolved.
  package var dir: PathBytes
  /// The row's id.
  package var folder: Text
  /// The store's own id; nil where the entry predates it.
  package var store: Text?
  /// Whether a volume was mounted at the directory when its folder was last seen there: without that volume the empty
  /// directory beneath is no folder that went (X3.4). A member beside X2's, written only where it is so.
  var isMount = false
  /// Every member as it was read, kept where the entry is another agent's (X5.8).
  var members: JSONObject?

  package init(dir: PathBytes, folder: EntityID, store: EntityID?) {
    self.dir = dir
    self.folder = folder.text
    self.store = store?.text
  }

  /// An entry as the file holds it; nil for anything without a string `dir` and `folder` (X2.6).
  init?(_ json: JSON) {
    guard let dir = json["dir"]?.text, let folder = json["folder"]?.text else { return nil }
    self.dir = PathBytes(dir)
    self.folder = folder
    store = json["store"]?.text
    isMount = json["mount"]?.bool ?? false
    let known: [Text] = ["dir", "folder", "store", "mount"]
    if let object = json.object, object.keys.contains(where: { !known.contains($0) }) { members = object }
  }

  var json: JSON {
    var object = members ?? JSONObject()
    object["dir"] = .string(dir.text)
    object["folder"] = .string(folder)
    object["store"] = store.map { .string($0) }
    object["mount"] = isMount ? true : nil
    return .object(object)
  }

  /// Whether they name the same folder at the same place (X4.2); members beside do not count.
  package func isSame(_ other: RegistryEntry) -> Bool {
    dir == other.dir && folder == other.folder && store == other.store
  }

  /// Whether its directory is the empty one a volume of its folder is mounted at, without that volume (X3.4).
  func awaitsVolume(_ look: DirectoryLook) -> Bool { isMount && look.state == .noFolder && !look.isMount }

  /// Whether one takes the other's place (X2.3).
  func replaces(_ other: RegistryEntry) -> Bool { dir == other.dir || (store != nil && store == other.store) }
}

/// Why the registry could not be used.
package enum RegistryFailure: Error, Hashable, Sendable {
  /// It is empty or does not parse (X2.6): `add` writes it anew, all else leaves it.
  case unparsable(PathBytes)
  /// It cannot be opened, read, locked or written at all (X3.6).
  case unreadable(PathBytes, FileError)

  /// What a person reads.
  package var message: String {
    switch self {
    case .unparsable(let path):
      "the list of folders \(path) does not read; 'add' of a folder writes it anew, the others list themselves again"
    case .unreadable(let path, let error): "the list of folders \(path) cannot be used: \(error.reason)"
    }
  }

  /// As a command fails by it (X3.5).
  package var marfaError: MarfaError { MarfaError(.store, message) }
}

/// What a look at an entry's directory told.
package struct DirectoryLook: Hashable, Sendable {
  package enum State: Hashable, Sendable {
    /// It holds a `.marfa/core.sqlite`.
    case folder
    /// It can be read and holds none (X3.3).
    case noFolder
    /// It is missing, not mounted, cannot be opened or did not answer (X3.4).
    case unknown
  }

  /// Its real path.
  package var resolved: PathBytes
  package var state: State
  /// Whether it lies on another volume, or is reached by another mount, than the directory it is in.
  package var isMount = false

  /// Looks, however long it takes.
  package static func at(_ dir: PathBytes, _ files: any FileSystem) -> DirectoryLook {
    guard let resolved = try? files.resolve(dir) else { return DirectoryLook(resolved: dir, state: .unknown) }
    func state() -> State {
      guard let root = try? files.openDirectory(resolved) else { return .unknown }
      do throws(FileError) {
        guard let inner = try root.status(of: stateDirectoryName) else { return .noFolder }
        // A link may lead to a store: that is refused elsewhere (X6.2), and no reason to forget the folder.
        if inner.kind == .link { return .unknown }
        guard inner.kind == .directory else { return .noFolder }
        let store = try root.directory(stateDirectoryName).status(of: storeName)
        return store?.kind == .regular ? .folder : .noFolder
      } catch {
        return .unknown
      }
    }
    return DirectoryLook(resolved: resolved, state: state(), isMount: isMount(resolved, files))
  }

  private static func isMount(_ dir: PathBytes, _ files: any FileSystem) -> Bool {
    guard dir != "/", let own = try? files.status(dir), let above = try? files.status(dir.parent) else { return false }
    return own.device != above.device || own.mount != above.mount
  }
}
