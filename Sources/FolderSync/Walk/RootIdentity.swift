import Glibc
import MarfaBase

/// The store's name: what makes a directory a folder (X6.1).
package let storeName: PathBytes = "core.sqlite"
/// The folder's own directory.
package let stateDirectoryName: PathBytes = ".marfa"

/// Whether the root is still the root.
package enum RootState: Hashable, Sendable {
  /// It is.
  case same
  /// It is not: nothing is read, written, journaled or sent (X11.2). Why, in words.
  case gone(String)
}

/// The root of an open folder, as it was when its store was opened (X11).
package struct RootIdentity: Sendable {
  /// The root's path.
  package let path: PathBytes
  /// The store's inode and birth time; never its device, which a remount changes.
  private let inode: UInt64
  private let birth: Int64?
  /// Where inodes do not last (ST6): the text of the claim that was held then, told by nothing of the file system's.
  private let claim: [UInt8]?

  /// Notes the store below `path`.
  /// - Throws: `FileError` where it can't be looked at.
  /// - Parameter identityLasts: whether inodes and birth times last there (ST6).
  package init(_ path: PathBytes, files: any FileSystem, identityLasts: Bool = true) throws(FileError) {
    let store = path.appending(stateDirectoryName).appending(storeName)
    guard let status = try files.status(store), status.kind == .regular else {
      throw FileError(code: ENOENT, operation: "look", path: store)
    }
    self.path = path
    inode = status.inode
    birth = status.birth == 0 ? nil : status.birth
    claim = identityLasts ? nil : RootIdentity.claim(path, files) ?? []
  }

  /// The text of the claim's lock file; nil where there is none or it is empty.
  private static func claim(_ path: PathBytes, _ files: any FileSystem) -> [UInt8]? {
    let lock = PathBytes(bytes: storeName.bytes + Array(".lock".utf8))
    guard let file = try? files.openDirectory(path.appending(stateDirectoryName)).open(lock),
      let bytes = try? file.read(limit: 4096), !bytes.isEmpty
    else { return nil }
    return bytes
  }

  /// Looks again, by path (X11.1, X11.5).
  package func check(_ files: any FileSystem) -> RootState {
    let store = path.appending(stateDirectoryName).appending(storeName)
    do throws(FileError) {
      guard let status = try files.status(store) else {
        guard try files.status(path) != nil else { return .gone("the directory \(path) is not there") }
        return .gone("another directory stands at \(path): it holds no folder")
      }
      if let claim {
        // Without a claim of its own (a reader, a lock kept elsewhere) that a store stands there is all there is to tell.
        guard claim.isEmpty || RootIdentity.claim(path, files) == claim else {
          return .gone("another directory stands at \(path)")
        }
        return .same
      }
      guard status.inode == inode, birth == nil || (status.birth ?? 0) == 0 || status.birth == birth else {
        return .gone("another directory stands at \(path)")
      }
      return .same
    } catch {
      return .gone("the directory \(path) cannot be read: \(error.reason)")
    }
  }
}

extension RootIdentity {
  /// Where the store lies below a root.
  package static let storePath = stateDirectoryName.appending(storeName)
}
