import Glibc

/// A disk in memory as one process reaches it.
public final class MemoryFileSystem: FileSystem {
  private let disk: MemoryDisk
  /// This process.
  public let writer: (pid: Int32, start: UInt64)

  /// The disk as the process `pid`, started at `start`, reaches it.
  public init(_ disk: MemoryDisk, pid: Int32 = 1000, start: UInt64 = 1) {
    self.disk = disk
    writer = (pid, start)
    disk.state.withLock { $0.processes[pid] = start }
  }

  /// Opens a directory.
  public func openDirectory(_ path: PathBytes) throws(FileError) -> any Directory {
    let node = try disk.with { (state) throws(FileError) in
      let node = try state.directory(at: path)
      if let code = state[node].failing { throw FileError(code: code, operation: "open", path: path) }
      guard state[node].mode & 0o400 != 0 else { throw FileError(code: EACCES, operation: "open", path: path) }
      return node
    }
    return MemoryDirectory(disk, node, writer.pid)
  }

  /// X2.2.
  public func resolve(_ path: PathBytes) throws(FileError) -> PathBytes {
    let components = path.components
    for kept in stride(from: components.count, through: 0, by: -1) {
      let part = PathBytes(bytes: Array("/".utf8) + components[..<kept].map(\.bytes).joined(separator: [0x2F]))
      guard let real = try? disk.with({ (state) throws(FileError) in try state.walk(part, following: true).real })
      else { continue }
      var resolved = real
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
      return stepsBack ? try resolve(resolved) : resolved
    }
    return path
  }

  /// Makes a directory and its missing parents.
  public func makeDirectories(_ path: PathBytes, mode: UInt32) throws(FileError) -> [PathBytes] {
    try disk.with { (state) throws(FileError) in
      var made: [PathBytes] = []
      _ = try state.makeDirectories(path, mode: mode & ~0o022, made: &made)
      return made
    }
  }

  /// What a path stands for, links followed.
  public func status(_ path: PathBytes) throws(FileError) -> FileStatus? {
    try disk.with { (state) throws(FileError) -> FileStatus? in
      do throws(FileError) { return state.status(try state.node(at: path, following: true)) } catch {
        if error.code == ENOENT || error.code == ENOTDIR { return nil }
        throw error
      }
    }
  }

  /// An attribute of what a path leads to.
  public func attribute(_ name: String, of path: PathBytes) -> [UInt8]? {
    try? disk.with { (state) throws(FileError) in state[try state.node(at: path, following: true)].attributes[name] }
  }

  /// Opens a file to lock.
  public func lockFile(_ name: PathBytes, in directory: any Directory, create: Bool) throws(FileError)
    -> (any LockFile)?
  {
    guard let directory = directory as? MemoryDirectory else {
      throw FileError(code: EXDEV, operation: "lock", path: name)
    }
    let parent = directory.node
    let node = try disk.with { (state) throws(FileError) -> UInt64? in
      if let found = try state.child(of: parent, name, "lock") {
        guard state[found].kind == .regular else {
          throw FileError(code: state[found].kind == .link ? ELOOP : EINVAL, operation: "lock", path: name)
        }
        guard state[found].mode & 0o600 == 0o600 else { throw FileError(code: EACCES, operation: "lock", path: name) }
        return found
      }
      guard create else { return nil }
      try state.checkWritable(parent, "lock", name)
      let made = state.make(.regular, mode: 0o600, device: state[parent].device)
      state.enter(made, in: parent, as: name)
      return made
    }
    guard let node else { return nil }
    return MemoryLockFile(disk, node, writer.pid, name)
  }

  /// Whether a process of this disk runs.
  public func state(ofWriter pid: Int32, start: UInt64?) -> WriterState {
    guard let found = disk.state.withLock({ $0.processes[pid] }) else { return .gone }
    return start == nil || start == found ? .running : .gone
  }
}

/// A handle: keeps a node that has lost its names.
class MemoryHandle {
  let disk: MemoryDisk
  let node: UInt64

  init(_ disk: MemoryDisk, _ node: UInt64) {
    self.disk = disk
    self.node = node
    disk.state.withLock { $0[node].opens += 1 }
  }

  deinit {
    disk.state.withLock { state in
      state[node].opens -= 1
      state.forget(node)
    }
  }

  func status() throws(FileError) -> FileStatus {
    try disk.with { (state) throws(FileError) in
      if let code = state[node].failing { throw FileError(code: code, operation: "look", path: .empty) }
      return state.status(node)
    }
  }
}

final class MemoryLockFile: MemoryHandle, LockFile {
  private let pid: Int32
  private let name: PathBytes
  private let handle: UInt64

  init(_ disk: MemoryDisk, _ node: UInt64, _ pid: Int32, _ name: PathBytes) {
    self.pid = pid
    self.name = name
    handle = disk.state.withLock { state in
      state.lastHandle += 1
      return state.lastHandle
    }
    super.init(disk, node)
  }

  deinit { unlock() }

  func lock(_ mode: LockMode, wait: Bool) throws(FileError) -> Bool {
    try disk.with { (state) throws(FileError) in
      guard state.features.locks else { throw FileError(code: EOPNOTSUPP, operation: "lock", path: name) }
      let others = state.locks[node, default: []].filter { $0.handle != handle }
      guard others.allSatisfy({ mode == .shared && $0.mode == .shared }) else {
        // On one thread nobody could ever let go.
        if wait { throw FileError(code: EDEADLK, operation: "lock", path: name) }
        return false
      }
      state.locks[node] = others + [MemoryState.Lock(handle: handle, pid: pid, mode: mode)]
      return true
    }
  }

  func unlock() {
    disk.state.withLock { state in state.locks[node]?.removeAll { $0.handle == handle } }
  }

  func contents() throws(FileError) -> [UInt8] {
    try disk.with { (state) throws(FileError) in Array(state[node].content.prefix(4096)) }
  }

  func replaceContents(_ bytes: [UInt8]) throws(FileError) {
    try disk.with { (state) throws(FileError) in
      state.willWrite(node)
      state[node].content = bytes
      state.touch(node)
    }
  }
}

final class MemoryReadableFile: MemoryHandle, ReadableFile {
  private var offset = 0

  func read(limit: Int) throws(FileError) -> [UInt8] {
    let from = offset
    let bytes = try disk.with { (state) throws(FileError) -> [UInt8] in
      if let code = state[node].failing { throw FileError(code: code, operation: "read", path: .empty) }
      return Array(state[node].content.dropFirst(from).prefix(limit))
    }
    offset += bytes.count
    return bytes
  }

  func hasWriter() -> Bool? { disk.state.withLock { $0.features.leases ? $0[node].writers > 0 : nil } }

  func attributes() throws(FileError) -> [(name: String, value: [UInt8])] {
    let found = disk.state.withLock { $0[node].attributes }
    return found.map { (name: $0.key, value: $0.value) }.sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
  }
}

final class MemoryWritableFile: MemoryHandle, WritableFile {
  private let name: PathBytes
  private var isOpen = true

  init(_ disk: MemoryDisk, _ node: UInt64, _ name: PathBytes) {
    self.name = name
    super.init(disk, node)
    disk.state.withLock { $0[node].writers += 1 }
  }

  deinit { finish() }

  private func finish() {
    guard isOpen else { return }
    isOpen = false
    disk.state.withLock { $0[node].writers -= 1 }
  }

  private func change(_ body: (inout MemoryState) throws(FileError) -> Void) throws(FileError) {
    guard isOpen else { throw FileError(code: EBADF, operation: "write", path: name) }
    try disk.with { (state) throws(FileError) in try body(&state) }
  }

  func write(_ bytes: [UInt8]) throws(FileError) {
    try change { (state) throws(FileError) in
      if let free = state.freeBytes {
        guard free >= bytes.count else { throw FileError(code: ENOSPC, operation: "write", path: name) }
        state.freeBytes = free - bytes.count
      }
      state.willWrite(node)
      state[node].content += bytes
      state.touch(node)
    }
  }

  func setMode(_ mode: UInt32) throws(FileError) {
    try change { (state) throws(FileError) in if state.features.modes { state[node].mode = mode & 0o7777 } }
  }

  func setOwner(_ owner: UInt32, group: UInt32) throws(FileError) {
    try change { (state) throws(FileError) in
      state[node].owner = owner
      state[node].group = group
    }
  }

  func setAttribute(_ attribute: String, _ value: [UInt8]) throws(FileError) {
    try change { (state) throws(FileError) in
      guard state.features.attributes else {
        throw FileError(code: EOPNOTSUPP, operation: "set attribute", path: name)
      }
      state[node].attributes[attribute] = value
    }
  }

  func sync() throws(FileError) { try change { (state) throws(FileError) in state.sync(node) } }

  func close() throws(FileError) { finish() }
}
