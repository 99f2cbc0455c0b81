import Glibc
import Synchronization

/// A call of the file system, by the name `MARFA_TEST_FAULT=errno:<NAME>:<call>` gives it.
public enum FileOperation: String, Sendable, CaseIterable {
  case openDirectory = "opendir"
  case resolve, makeDirectories = "mkdirs", statusOfPath = "stat-path", lock
  case list, status = "stat", open, read, attributes = "getxattr", makeDirectory = "mkdir", create, write
  case setMode = "chmod", setOwner = "chown", setAttribute = "setxattr", sync, syncDirectory = "sync-directory", close
  case rename, link, makeLink = "symlink", unlink, removeDirectory = "rmdir"
}

/// A call about to be made.
public struct FileCall {
  /// What is called.
  public var operation: FileOperation
  /// The name it is called for; for a rename the target's, for a call on a path the path.
  public var name: PathBytes
  /// The directory below the faults that holds `name`; nil for calls on a path.
  public var directory: (any Directory)?
}

/// What becomes of a call.
public enum FaultAction: Sendable {
  /// It is made.
  case proceed
  /// It is not made and fails with this number.
  case fail(Int32)
  /// It is not made and seems to have been: a sync that is none.
  case skip
  /// It is not made, and this call and every later one fails: the process is dead, though its code still unwinds.
  case crash
}

/// Decides over calls. One instance may serve many wrapped directories; it is called on the caller's thread.
public final class Faults: Sendable {
  private let decide: @Sendable (FileCall) -> FaultAction
  private let dead = Mutex(false)

  /// The number every call fails with after a crash.
  public static let crashCode = ECANCELED

  /// Faults as the closure decides; it may also change the disk through the call's directory.
  public init(_ decide: @escaping @Sendable (FileCall) -> FaultAction) { self.decide = decide }

  /// Every such call fails; with a name, only those for it.
  public static func failing(_ operation: FileOperation, name: PathBytes? = nil, code: Int32) -> Faults {
    Faults { call in
      call.operation == operation && (name == nil || call.name.name == name) ? .fail(code) : .proceed
    }
  }

  /// Whether a crash happened: the test then drops the engine and starts another.
  public var crashed: Bool { dead.withLock { $0 } }

  /// Crashes from outside, for instance between two steps of the store.
  public func crash() { dead.withLock { $0 = true } }

  func check(_ operation: FileOperation, _ name: PathBytes, in directory: (any Directory)? = nil) throws(FileError) {
    _ = try skips(operation, name, in: directory)
  }

  /// The same for a sync: whether it is to be left out.
  func skips(_ operation: FileOperation, _ name: PathBytes, in directory: (any Directory)? = nil) throws(FileError)
    -> Bool
  {
    if crashed { throw FileError(code: Faults.crashCode, operation: operation.rawValue, path: name) }
    switch decide(FileCall(operation: operation, name: name, directory: directory)) {
    case .proceed: return false
    case .skip: return true
    case .fail(let code): throw FileError(code: code, operation: operation.rawValue, path: name)
    case .crash:
      crash()
      throw FileError(code: Faults.crashCode, operation: operation.rawValue, path: name)
    }
  }
}

/// Another file system, failing where its `Faults` say.
public struct FaultyFileSystem: FileSystem {
  private let inner: any FileSystem
  private let faults: Faults

  /// Lays faults over a file system.
  public init(_ inner: any FileSystem, _ faults: Faults) {
    self.inner = inner
    self.faults = faults
  }

  /// As the inner one's.
  public func openDirectory(_ path: PathBytes) throws(FileError) -> any Directory {
    try faults.check(.openDirectory, path)
    return FaultyDirectory(try inner.openDirectory(path), faults)
  }
  /// As the inner one's.
  public func resolve(_ path: PathBytes) throws(FileError) -> PathBytes {
    try faults.check(.resolve, path)
    return try inner.resolve(path)
  }
  /// As the inner one's.
  public func makeDirectories(_ path: PathBytes, mode: UInt32) throws(FileError) -> [PathBytes] {
    try faults.check(.makeDirectories, path)
    return try inner.makeDirectories(path, mode: mode)
  }
  /// As the inner one's.
  public func status(_ path: PathBytes) throws(FileError) -> FileStatus? {
    try faults.check(.statusOfPath, path)
    return try inner.status(path)
  }
  /// As the inner one's.
  public func lockFile(_ name: PathBytes, in directory: any Directory, create: Bool) throws(FileError)
    -> (any LockFile)?
  {
    let directory = FaultyDirectory.inner(of: directory)
    try faults.check(.lock, name, in: directory)
    return try inner.lockFile(name, in: directory, create: create)
  }
  /// As the inner one's.
  public func typeNumber(of path: PathBytes) -> UInt64? { inner.typeNumber(of: path) }
  /// As the file system within tells it.
  public func attribute(_ name: String, of path: PathBytes) -> [UInt8]? { inner.attribute(name, of: path) }
  /// As the inner one's.
  public var writer: (pid: Int32, start: UInt64) { inner.writer }
  /// As the inner one's.
  public func state(ofWriter pid: Int32, start: UInt64?) -> WriterState { inner.state(ofWriter: pid, start: start) }
}

private final class FaultyDirectory: Directory {
  let inner: any Directory
  let faults: Faults

  init(_ inner: any Directory, _ faults: Faults) {
    self.inner = inner
    self.faults = faults
  }

  static func inner(of directory: any Directory) -> any Directory {
    (directory as? FaultyDirectory)?.inner ?? directory
  }

  func status() throws(FileError) -> FileStatus {
    try faults.check(.status, ".", in: inner)
    return try inner.status()
  }
  func list() throws(FileError) -> [DirectoryEntry] {
    try faults.check(.list, ".", in: inner)
    return try inner.list()
  }
  func status(of name: PathBytes) throws(FileError) -> FileStatus? {
    try faults.check(.status, name, in: inner)
    return try inner.status(of: name)
  }
  func open(_ name: PathBytes) throws(FileError) -> any ReadableFile {
    try faults.check(.open, name, in: inner)
    return FaultyReadableFile(try inner.open(name), name, faults)
  }
  func directory(_ name: PathBytes) throws(FileError) -> any Directory {
    try faults.check(.openDirectory, name, in: inner)
    return FaultyDirectory(try inner.directory(name), faults)
  }
  func directory(beneath path: PathBytes) throws(FileError) -> any Directory {
    try faults.check(.openDirectory, path, in: inner)
    return FaultyDirectory(try inner.directory(beneath: path), faults)
  }
  func makeDirectory(_ name: PathBytes, mode: UInt32) throws(FileError) {
    try faults.check(.makeDirectory, name, in: inner)
    try inner.makeDirectory(name, mode: mode)
  }
  func create(_ name: PathBytes, mode: UInt32, exactMode: Bool) throws(FileError) -> any WritableFile {
    try faults.check(.create, name, in: inner)
    return FaultyWritableFile(try inner.create(name, mode: mode, exactMode: exactMode), name, faults)
  }
  func rename(_ name: PathBytes, to directory: any Directory, as target: PathBytes, _ mode: RenameMode)
    throws(FileError)
  {
    let directory = FaultyDirectory.inner(of: directory)
    try faults.check(.rename, target, in: directory)
    try inner.rename(name, to: directory, as: target, mode)
  }
  func link(_ name: PathBytes, to directory: any Directory, as target: PathBytes) throws(FileError) {
    let directory = FaultyDirectory.inner(of: directory)
    try faults.check(.link, target, in: directory)
    try inner.link(name, to: directory, as: target)
  }
  func makeLink(_ name: PathBytes, to target: PathBytes) throws(FileError) {
    try faults.check(.makeLink, name, in: inner)
    try inner.makeLink(name, to: target)
  }
  func unlink(_ name: PathBytes) throws(FileError) {
    try faults.check(.unlink, name, in: inner)
    try inner.unlink(name)
  }
  func removeDirectory(_ name: PathBytes) throws(FileError) {
    try faults.check(.removeDirectory, name, in: inner)
    try inner.removeDirectory(name)
  }
  func setMode(_ name: PathBytes, _ mode: UInt32) throws(FileError) {
    try faults.check(.setMode, name, in: inner)
    try inner.setMode(name, mode)
  }
  func sync() throws(FileError) {
    if try !faults.skips(.syncDirectory, ".", in: inner) { try inner.sync() }
  }
}

private final class FaultyReadableFile: ReadableFile {
  let inner: any ReadableFile
  let name: PathBytes
  let faults: Faults

  init(_ inner: any ReadableFile, _ name: PathBytes, _ faults: Faults) {
    self.inner = inner
    self.name = name
    self.faults = faults
  }

  func status() throws(FileError) -> FileStatus {
    try faults.check(.status, name)
    return try inner.status()
  }
  func read(limit: Int) throws(FileError) -> [UInt8] {
    try faults.check(.read, name)
    return try inner.read(limit: limit)
  }
  func hasWriter() -> Bool? { inner.hasWriter() }
  func attributes() throws(FileError) -> [(name: String, value: [UInt8])] {
    try faults.check(.attributes, name)
    return try inner.attributes()
  }
}

private final class FaultyWritableFile: WritableFile {
  let inner: any WritableFile
  let name: PathBytes
  let faults: Faults

  init(_ inner: any WritableFile, _ name: PathBytes, _ faults: Faults) {
    self.inner = inner
    self.name = name
    self.faults = faults
  }

  func write(_ bytes: [UInt8]) throws(FileError) {
    try faults.check(.write, name)
    try inner.write(bytes)
  }
  func setMode(_ mode: UInt32) throws(FileError) {
    try faults.check(.setMode, name)
    try inner.setMode(mode)
  }
  func setOwner(_ owner: UInt32, group: UInt32) throws(FileError) {
    try faults.check(.setOwner, name)
    try inner.setOwner(owner, group: group)
  }
  func setAttribute(_ attribute: String, _ value: [UInt8]) throws(FileError) {
    try faults.check(.setAttribute, name)
    try inner.setAttribute(attribute, value)
  }
  func sync() throws(FileError) {
    if try !faults.skips(.sync, name) { try inner.sync() }
  }
  func status() throws(FileError) -> FileStatus {
    try faults.check(.status, name)
    return try inner.status()
  }
  func close() throws(FileError) {
    try faults.check(.close, name)
    try inner.close()
  }
}
