import CPosix
import Glibc

/// A failed call of the file system.
public struct FileError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The error number, such as `ENOENT`.
  public var code: Int32
  /// What was tried, in a word or two: "open", "rename".
  public var operation: String
  /// The path or name it was tried on.
  public var path: PathBytes

  /// A failure.
  public init(code: Int32, operation: String, path: PathBytes) {
    self.code = code
    self.operation = operation
    self.path = path
  }

  /// The file, what was tried and the system's words for why.
  public var description: String { "\(path): cannot \(operation): \(reason)" }

  /// The system's words alone, such as "Permission denied".
  public var reason: String { String(cString: strerror(code)) }

  /// Whether the disk, or the person's quota of it, is full (P5.2).
  public var isStorageFull: Bool { code == ENOSPC || code == EDQUOT }
}

/// What a name stands for.
public enum FileKind: UInt8, Sendable {
  /// A regular file.
  case regular
  /// A directory.
  case directory
  /// A symbolic link.
  case link
  /// A socket, pipe or device.
  case special
}

/// Device, inode and birth time of a file (X24). Two files are one where these are equal.
public struct FileIdentity: Hashable, Sendable {
  /// The device number as the kernel gives it now.
  public var device: UInt64
  /// The inode.
  public var inode: UInt64
  /// Birth time, nanoseconds since the epoch.
  public var birth: Int64

  /// An identity.
  public init(device: UInt64, inode: UInt64, birth: Int64) {
    self.device = device
    self.inode = inode
    self.birth = birth
  }
}

/// What a look at a file tells.
public struct FileStatus: Hashable, Sendable {
  /// Regular file, directory, link or special.
  public var kind: FileKind
  /// Permission bits, 0o7777.
  public var mode: UInt32
  /// Size in bytes.
  public var size: UInt64
  /// Modification time, nanoseconds since the epoch.
  public var modified: Int64
  /// Change time of the inode, nanoseconds since the epoch.
  public var changed: Int64
  /// Device number.
  public var device: UInt64
  /// Mount the file is reached through; 0 where the kernel does not tell.
  public var mount: UInt64
  /// Inode number.
  public var inode: UInt64
  /// Birth time, nanoseconds since the epoch; nil where the file system has none.
  public var birth: Int64?
  /// Owner.
  public var owner: UInt32
  /// Group.
  public var group: UInt32
  /// Names it has.
  public var links: UInt32
  /// Whether the immutable flag is confirmed.
  public var immutable: Bool

  /// A status of these facts.
  public init(
    kind: FileKind, mode: UInt32, size: UInt64, modified: Int64, changed: Int64, device: UInt64, mount: UInt64 = 0,
    inode: UInt64, birth: Int64?, owner: UInt32 = 0, group: UInt32 = 0, links: UInt32 = 1, immutable: Bool = false
  ) {
    self.kind = kind
    self.mode = mode
    self.size = size
    self.modified = modified
    self.changed = changed
    self.device = device
    self.mount = mount
    self.inode = inode
    self.birth = birth
    self.owner = owner
    self.group = group
    self.links = links
    self.immutable = immutable
  }

  /// The identity, or nil without a birth time (F17.2).
  public var identity: FileIdentity? {
    guard let birth, birth != 0 else { return nil }
    return FileIdentity(device: device, inode: inode, birth: birth)
  }

  /// Whether its owner may run it (F50.1).
  public var isExecutable: Bool { mode & 0o100 != 0 }
}

/// One name in a directory.
public struct DirectoryEntry: Hashable, Sendable {
  /// The name.
  public var name: PathBytes
  /// Its kind where the listing tells it.
  public var kind: FileKind?

  /// An entry.
  public init(name: PathBytes, kind: FileKind?) {
    self.name = name
    self.kind = kind
  }
}

/// A file open for reading.
public protocol ReadableFile: AnyObject {
  /// What the open file is now.
  func status() throws(FileError) -> FileStatus
  /// What it was when it was opened, where that was looked at; else what it is now. For a reader that begins at once.
  func statusAtOpening() throws(FileError) -> FileStatus
  /// The next bytes, at most `limit`; empty at the end.
  func read(limit: Int) throws(FileError) -> [UInt8]
  /// Whether some process has it open for writing; nil where that can't be told (P1.1).
  func hasWriter() -> Bool?
  /// Names and values of `user.*` attributes, and of the POSIX access list.
  func attributes() throws(FileError) -> [(name: String, value: [UInt8])]
}

extension ReadableFile {
  /// What it is now.
  public func statusAtOpening() throws(FileError) -> FileStatus { try status() }
}

/// A file being made.
public protocol WritableFile: AnyObject {
  /// Appends bytes.
  func write(_ bytes: [UInt8]) throws(FileError)
  /// Sets the permission bits.
  func setMode(_ mode: UInt32) throws(FileError)
  /// Sets owner and group; a refusal by permission is no failure (X15.4 "where permitted").
  func setOwner(_ owner: UInt32, group: UInt32) throws(FileError)
  /// Sets an attribute.
  func setAttribute(_ name: String, _ value: [UInt8]) throws(FileError)
  /// Makes bytes and attributes durable.
  func sync() throws(FileError)
  /// What it is now.
  func status() throws(FileError) -> FileStatus
  /// Closes it; a failure counts as the write's (P5.2).
  func close() throws(FileError)
}

/// How a rename treats its target.
public enum RenameMode: Sendable {
  /// Replaces what is there.
  case replace
  /// Fails `EEXIST` where anything is there; `EINVAL` or `ENOSYS` where the file system can't.
  case noReplace
  /// Exchanges the two; fails `ENOENT` where the target is absent.
  case exchange
}

/// An open directory. Every name is one component, relative to it, and no link is followed.
public protocol Directory: AnyObject {
  /// What the directory is now.
  func status() throws(FileError) -> FileStatus
  /// Its names, `.` and `..` left out, in no order.
  func list() throws(FileError) -> [DirectoryEntry]
  /// What a name stands for; nil where nothing has it. No link is followed.
  func status(of name: PathBytes) throws(FileError) -> FileStatus?
  /// Opens a regular file.
  func open(_ name: PathBytes) throws(FileError) -> any ReadableFile
  /// Opens a directory; `ELOOP` or `ENOTDIR` for a link.
  func directory(_ name: PathBytes) throws(FileError) -> any Directory
  /// Opens a directory some components below, following no link and never leaving this one (F30.5).
  func directory(beneath path: PathBytes) throws(FileError) -> any Directory
  /// Makes a directory.
  func makeDirectory(_ name: PathBytes, mode: UInt32) throws(FileError)
  /// Makes a file that must not exist, following no link. With `exactMode` the umask does not narrow the mode.
  func create(_ name: PathBytes, mode: UInt32, exactMode: Bool) throws(FileError) -> any WritableFile
  /// Renames a name of this directory.
  func rename(_ name: PathBytes, to directory: any Directory, as target: PathBytes, _ mode: RenameMode)
    throws(FileError)
  /// Gives a file a second name; fails `EEXIST` where it is taken.
  func link(_ name: PathBytes, to directory: any Directory, as target: PathBytes) throws(FileError)
  /// Makes a symbolic link; the product never does, tests and people do.
  func makeLink(_ name: PathBytes, to target: PathBytes) throws(FileError)
  /// Takes a name of a file or link away.
  func unlink(_ name: PathBytes) throws(FileError)
  /// Takes an empty directory away.
  func removeDirectory(_ name: PathBytes) throws(FileError)
  /// Sets the permission bits of a file.
  func setMode(_ name: PathBytes, _ mode: UInt32) throws(FileError)
  /// Makes its entries durable; a file system that has no such call is no failure (X15.7).
  func sync() throws(FileError)
}

/// How strong a lock is.
public enum LockMode: Sendable {
  /// Beside other shared ones.
  case shared
  /// Alone.
  case exclusive
}

/// An open file that locks are taken on. A lock belongs to this open file, not to the process (X12.2), and falls when it
/// is let go or the process dies, however it dies.
public protocol LockFile: AnyObject {
  /// Takes the lock; false where another open file holds it and `wait` is false. `flock`, else an open-file-description
  /// lock; fails `EOPNOTSUPP`, `ENOLCK` or `EINVAL` where the file system has neither (X12.5, H7).
  func lock(_ mode: LockMode, wait: Bool) throws(FileError) -> Bool
  /// Drops the lock.
  func unlock()
  /// What the open file is now.
  func status() throws(FileError) -> FileStatus
  /// The first bytes, at most 4096.
  func contents() throws(FileError) -> [UInt8]
  /// Truncates it and writes these bytes.
  func replaceContents(_ bytes: [UInt8]) throws(FileError)
}

/// A held lock.
public final class FileLock {
  /// The locked file.
  public let file: any LockFile

  /// The lock held on an open file.
  public init(holding file: any LockFile) { self.file = file }

  deinit { file.unlock() }

  /// Drops it now.
  public func release() { file.unlock() }
}

/// Whether the process that made a temporary file still runs (X14.3).
public enum WriterState: Sendable {
  /// It runs, or that can't be told.
  case running
  /// It does not.
  case gone
}

/// The disk. Real: system calls. In memory: the simulation's. Faulty: either, failing where it is told to.
public protocol FileSystem: Sendable {
  /// Opens a directory by an absolute path; links on the way are followed (a folder's root).
  func openDirectory(_ path: PathBytes) throws(FileError) -> any Directory
  /// The path with every link of its longest existing part followed and `.`/`..` removed (X2.2).
  func resolve(_ path: PathBytes) throws(FileError) -> PathBytes
  /// Makes a directory and its missing parents, with that mode less the umask. Returns those it made, outermost first.
  func makeDirectories(_ path: PathBytes, mode: UInt32) throws(FileError) -> [PathBytes]
  /// What an absolute path stands for, links followed; nil where nothing does.
  func status(_ path: PathBytes) throws(FileError) -> FileStatus?
  /// The kernel's number of the type of file system a path lies on (`statfs`); nil where it cannot be told.
  func typeNumber(of path: PathBytes) -> UInt64?
  /// An attribute of what a path leads to; nil where it has none of that name, or it cannot be told.
  func attribute(_ name: String, of path: PathBytes) -> [UInt8]?
  /// Opens a file to lock, following no link; makes it 0600 where missing and `create` is true, else returns nil.
  func lockFile(_ name: PathBytes, in directory: any Directory, create: Bool) throws(FileError) -> (any LockFile)?
  /// Makes several files durable, together where that is faster: syncs at one time share a commit of the disk's journal.
  /// Returns what each failed with.
  func sync(_ files: [any WritableFile]) -> [FileError?]
  /// This process, as temporary files name it: `<pid>` and the start time of field 22 (X14.1).
  var writer: (pid: Int32, start: UInt64) { get }
  /// Whether the writer a temporary file's name gives still runs; without a start time the pid alone decides.
  func state(ofWriter pid: Int32, start: UInt64?) -> WriterState
}

extension FileSystem {
  /// Not told.
  public func typeNumber(of path: PathBytes) -> UInt64? { nil }

  /// Not told.
  public func attribute(_ name: String, of path: PathBytes) -> [UInt8]? { nil }

  /// One after another.
  public func sync(_ files: [any WritableFile]) -> [FileError?] {
    files.map { file in
      do throws(FileError) {
        try file.sync()
        return nil
      } catch {
        return error
      }
    }
  }

  /// Makes the names of directories that were just made durable, as what lies in them will be (X15.7). One whose parent may
  /// be written and not be read keeps what the system gives it.
  public func syncNames(of made: [PathBytes]) throws(FileError) {
    for path in made {
      do throws(FileError) { try openDirectory(path.parent).sync() } catch { if error.code != EACCES { throw error } }
    }
  }

  /// An exclusive lock on a file (made 0600 where missing).
  /// Returns nil where another open file holds it and `wait` is false.
  public func lock(_ name: PathBytes, in directory: any Directory, wait: Bool) throws(FileError) -> FileLock? {
    guard let file = try lockFile(name, in: directory, create: true) else { return nil }
    return try file.lock(.exclusive, wait: wait) ? FileLock(holding: file) : nil
  }
}
