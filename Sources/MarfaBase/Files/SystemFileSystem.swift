import CPosix
import Glibc
import Synchronization

/// The machine's own disk, by system calls.
public struct SystemFileSystem: FileSystem {
  /// This process and its start time.
  public let writer: (pid: Int32, start: UInt64)

  /// The disk as this process reaches it.
  public init() {
    let pid = getpid()
    writer = (pid, SystemFileSystem.startTime(of: pid) ?? 0)
  }

  /// Opens a directory by its path, links followed.
  public func openDirectory(_ path: PathBytes) throws(FileError) -> any Directory {
    SystemDirectory(try Descriptor.open(path, in: AT_FDCWD, flags: O_RDONLY | O_DIRECTORY), path: path)
  }

  /// X2.2: the real path of the longest part that exists, the rest appended, `.` and `..` removed.
  public func resolve(_ path: PathBytes) throws(FileError) -> PathBytes {
    var absolute = path
    if !path.isAbsolute {
      guard let here = getcwd(nil, 0) else { throw FileError(code: errno, operation: "resolve", path: path) }
      absolute = PathBytes(bytes: UnsafeBufferPointer(start: here, count: strlen(here)).map { UInt8(bitPattern: $0) })
        .appending(path)
      free(here)
    }
    let components = absolute.components
    for kept in stride(from: components.count, through: 0, by: -1) {
      let part = PathBytes(bytes: Array("/".utf8) + components[..<kept].map(\.bytes).joined(separator: [0x2F]))
      guard let real = part.withCString({ realpath($0, nil) }) else { continue }
      var resolved = PathBytes(
        bytes: UnsafeBufferPointer(start: real, count: strlen(real)).map { UInt8(bitPattern: $0) })
      free(real)
      var stepsBack = false
      for component in components[kept...] {
        if component == "." { continue }
        if component == ".." {
          stepsBack = true
          resolved = resolved.parent
        } else {
          resolved = resolved.appending(component)
        }
      }
      // A `..` out of something that is not there can lead back to something that is.
      return stepsBack ? try resolve(resolved) : resolved
    }
    throw FileError(code: ENOENT, operation: "resolve", path: path)
  }

  /// Makes a directory and its missing parents.
  public func makeDirectories(_ path: PathBytes, mode: UInt32) throws(FileError) -> [PathBytes] {
    var made: [PathBytes] = []
    var at: PathBytes = path.isAbsolute ? "/" : ""
    for component in path.components {
      at = at.appending(component)
      if at.withCString({ mkdir($0, mode_t(mode)) }) == 0 {
        made.append(at)
        continue
      }
      let code = errno
      // A parent that can't be written but is there answers EROFS or EACCES before EEXIST.
      if let found = try? status(at), found.kind == .directory { continue }
      throw FileError(code: code == EEXIST ? ENOTDIR : code, operation: "make directory", path: at)
    }
    return made
  }

  /// What a path stands for, links followed.
  public func status(_ path: PathBytes) throws(FileError) -> FileStatus? {
    var found = marfa_stat()
    let code = path.withCString { marfa_statx_follow(AT_FDCWD, $0, &found) }
    if code == ENOENT || code == ENOTDIR { return nil }
    guard code == 0 else { throw FileError(code: code, operation: "look", path: path) }
    return FileStatus(found)
  }

  /// As `getxattr` tells it.
  public func attribute(_ name: String, of path: PathBytes) -> [UInt8]? {
    var value = [UInt8](repeating: 0, count: 4096)
    let size = path.withCString { getxattr($0, name, &value, value.count) }
    return size >= 0 ? Array(value.prefix(size)) : nil
  }

  /// As `statfs` tells it.
  public func typeNumber(of path: PathBytes) -> UInt64? {
    let number = path.withCString { marfa_file_system_type($0) }
    return number < 0 ? nil : UInt64(number)
  }

  /// Opens a file to lock.
  public func lockFile(_ name: PathBytes, in directory: any Directory, create: Bool) throws(FileError)
    -> (any LockFile)?
  {
    guard let directory = directory as? SystemDirectory else {
      throw FileError(code: EXDEV, operation: "lock", path: name)
    }
    return try directory.lockFile(name, create: create)
  }

  /// Up to eight at a time, each on a thread of its own.
  public func sync(_ files: [any WritableFile]) -> [FileError?] {
    guard files.count > 1 else {
      return files.map { file in
        do throws(FileError) {
          try file.sync()
          return nil
        } catch {
          return error
        }
      }
    }
    let work = SyncWork(files)
    var threads: [pthread_t] = []
    for _ in 1..<min(8, files.count) {
      var thread = pthread_t()
      let started = pthread_create(
        &thread, nil,
        { argument in
          guard let argument else { return nil }
          Unmanaged<SyncWork>.fromOpaque(argument).takeUnretainedValue().run()
          return nil
        }, Unmanaged.passUnretained(work).toOpaque())
      if started == 0 { threads.append(thread) }
    }
    work.run()
    for thread in threads { pthread_join(thread, nil) }
    return work.failures.withLock { $0 }
  }

  /// X14.3: gone where no process has the pid, or one with another start time.
  public func state(ofWriter pid: Int32, start: UInt64?) -> WriterState {
    guard pid > 0 else { return .running }
    if kill(pid, 0) != 0 { return errno == ESRCH ? .gone : sameStart(pid, start) }
    return sameStart(pid, start)
  }

  private func sameStart(_ pid: Int32, _ start: UInt64?) -> WriterState {
    guard let start, let found = SystemFileSystem.startTime(of: pid) else { return .running }
    return found == start ? .running : .gone
  }

  /// Field 22 of `/proc/<pid>/stat`, in clock ticks since boot.
  static func startTime(of pid: Int32) -> UInt64? {
    guard
      let file = try? Descriptor.open(PathBytes("/proc/\(pid)/stat"), in: AT_FDCWD, flags: O_RDONLY)
    else { return nil }
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = Glibc.read(file.number, &bytes, bytes.count)
    // The name in field 2 may hold spaces and brackets: what follows the last bracket is plain.
    guard count > 0, let bracket = bytes[..<count].lastIndex(of: UInt8(ascii: ")")) else { return nil }
    let fields = bytes[(bracket + 1)..<count].split(separator: UInt8(ascii: " "))
    guard fields.count > 19 else { return nil }
    return UInt64(String(decoding: fields[19], as: UTF8.self))
  }
}

/// Files to sync, handed out one by one. Unchecked: each file is taken by one thread alone, and all have ended before the
/// caller goes on.
private final class SyncWork: @unchecked Sendable {
  private let files: [any WritableFile]
  private let next = Atomic<Int>(0)
  let failures: Mutex<[FileError?]>

  init(_ files: [any WritableFile]) {
    self.files = files
    failures = Mutex(Array(repeating: nil, count: files.count))
  }

  func run() {
    while true {
      let index = next.add(1, ordering: .relaxed).oldValue
      guard index < files.count else { return }
      do throws(FileError) { try files[index].sync() } catch { failures.withLock { $0[index] = error } }
    }
  }
}
