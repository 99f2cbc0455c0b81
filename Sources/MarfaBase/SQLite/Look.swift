import CSQLite
import Glibc

/// How a database file is opened to be read without changing a byte of it or beside it (X12.4, D41.1).
///
/// Where a `-shm` stands, somebody works the file or died at it: it is read through that one as it is. Where no log stands
/// nobody works it: the file alone is read, which takes no lock, so it is looked at again after each read. A log whose
/// `-shm` is gone, as in a copy of the directory, is read by an index in memory and looked at again too.
struct Look {
  private enum Found {
    case worked
    case alone(Stamp?)
    case withLog(Stamp?, log: Stamp?)
  }

  private struct Stamp: Equatable {
    var inode: UInt64
    var size: Int
    var modified: Int64
  }

  private let path: String
  private let found: Found

  init(_ path: String) {
    self.path = path
    // The file before its log is looked for: one that comes in between is seen after the first read.
    let file = Look.stamp(path)
    let log = Look.stamp(path + "-wal")
    if Look.stamp(path + "-shm") != nil {
      found = .worked
    } else if (log?.size ?? 0) == 0 {
      found = .alone(file)
    } else {
      found = .withLog(file, log: log)
    }
  }

  /// The same file as it stands now.
  var again: Look { Look(path) }

  /// Opens it.
  func open() throws(SQLiteError) -> OpaquePointer {
    let flag =
      switch found {
      case .worked: "readonly_shm=1"
      case .alone: "immutable=1"
      case .withLog: "vfs=unix-none"
      }
    var address: [UInt8] = Array("file:".utf8)
    for byte in path.utf8 {
      switch byte {
      case UInt8(ascii: "?"), UInt8(ascii: "#"), UInt8(ascii: "%"): address += Array("%\(String(byte, radix: 16))".utf8)
      default: address.append(byte)
      }
    }
    let handle = try Database.open(String(decoding: address, as: UTF8.self) + "?" + flag, .readOnly)
    // Not even as the last one to close it.
    marfa_sqlite_no_checkpoint_on_close(handle)
    if case .withLog = found {
      // The index of the log in memory, which this mode keeps there.
      sqlite3_exec(handle, "PRAGMA locking_mode = EXCLUSIVE", nil, nil, nil)
    }
    return handle
  }

  /// Whether what was opened still is all there is.
  var isStill: Bool {
    switch found {
    case .worked: true
    case .alone(let file):
      // A journal under way: what stands in the file may yet be taken back.
      Look.stamp(path) == file && (Look.stamp(path + "-wal")?.size ?? 0) == 0 && !isJournaled
    case .withLog(let file, let log):
      Look.stamp(path) == file && Look.stamp(path + "-wal") == log && Look.stamp(path + "-shm") == nil
    }
  }

  /// Whether a rollback journal has a transaction in it, as on file systems whose processes share no memory (ST6).
  private var isJournaled: Bool {
    let descriptor = Glibc.open(path + "-journal", O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    var first: UInt8 = 0
    // An ended one is emptied, or its head made zeros.
    return read(descriptor, &first, 1) == 1 && first != 0
  }

  private static func stamp(_ path: String) -> Stamp? {
    var found = stat()
    guard stat(path, &found) == 0 else { return nil }
    return Stamp(
      inode: UInt64(found.st_ino), size: Int(found.st_size),
      modified: Int64(found.st_mtim.tv_sec) * 1_000_000_000 + Int64(found.st_mtim.tv_nsec))
  }
}
