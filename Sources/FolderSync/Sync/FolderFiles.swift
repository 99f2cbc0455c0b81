import Glibc
import MarfaBase
import MarfaCopy

/// What reading a file of the folder gave.
enum FileRead {
  case read(FileReading)
  /// Nothing is there any more.
  case gone
  /// It is there and cannot be read (F26.7).
  case failed(FileError)
}

extension FolderEngine {
  /// The largest text a scan holds in memory; no server takes one near it.
  static let textLimit = 64 << 20

  /// Reads a file: its digest, and its bytes where asked for.
  func read(_ path: PathBytes, in root: any Directory, keeping: Bool) -> FileRead {
    do throws(FileError) {
      var reading = try FileReading(path, below: root, keep: keeping ? Self.textLimit : 0)
      if !identityLasts { reading.status.birth = nil }
      return .read(reading)
    } catch {
      switch error.code {
      case ENOENT, ENOTDIR: return .gone
      default: return .failed(error)
      }
    }
  }

  /// What stands at a path below the root: nil where nothing does. A link or a file on the way reads as its error.
  func look(_ path: PathBytes, in root: any Directory) throws(FileError) -> FileStatus? {
    do throws(FileError) {
      let parent = path.parent
      let directory = parent.isEmpty ? root : try root.directory(beneath: parent)
      return try directory.status(of: path.name)
    } catch {
      if error.code == ENOENT || error.code == ENOTDIR { return nil }
      throw error
    }
  }

  /// Takes a file's bytes beside the store and queues their upload (Q36, X10.1). Bytes that are no longer those the scan
  /// read are the next scan's.
  func upload(
    _ path: PathBytes, in root: any Directory, expecting hash: ContentHash, mimeType: Text
  ) throws -> QueuedWrite {
    let directory = path.parent.isEmpty ? root : try root.directory(beneath: path.parent)
    let queued = try copy.queue.upload(file: try directory.open(path.name), mimeType: mimeType)
    guard queued.blob == hash else {
      throw FileError(code: EAGAIN, operation: "read", path: path)
    }
    return queued
  }

  /// Whether the volume keeps permissions (F50.5, X25), asked once per process and folder.
  func keepsPermissions(in root: any Directory) throws -> Bool {
    if let keepsPermissions { return keepsPermissions }
    let keeps = FolderSync.keepsPermissions(root)
    keepsPermissions = keeps
    return keeps
  }
}
