import Glibc

/// An open directory of a disk in memory.
final class MemoryDirectory: MemoryHandle, Directory {
  private let pid: Int32

  init(_ disk: MemoryDisk, _ node: UInt64, _ pid: Int32) {
    self.pid = pid
    super.init(disk, node)
  }

  private func checked(_ name: PathBytes, _ operation: String) throws(FileError) {
    let bytes = name.bytes
    if bytes.isEmpty || bytes == [0x2E] || bytes == [0x2E, 0x2E] || bytes.contains(0x2F) || bytes.contains(0) {
      throw FileError(code: EINVAL, operation: operation, path: name)
    }
  }

  func list() throws(FileError) -> [DirectoryEntry] {
    try disk.with { (state) throws(FileError) in
      if let code = state[node].failing { throw FileError(code: code, operation: "list", path: .empty) }
      guard state[node].mode & 0o400 != 0 else { throw FileError(code: EACCES, operation: "list", path: .empty) }
      // Sorted: one seed must give one trace.
      return state[node].entries.sorted { $0.key < $1.key }.map { name, child in
        DirectoryEntry(name: name, kind: state[child].kind)
      }
    }
  }

  func status(of name: PathBytes) throws(FileError) -> FileStatus? {
    try checked(name, "look")
    return try disk.with { (state) throws(FileError) in
      guard let child = try state.child(of: node, name, "look") else { return nil }
      return state.status(child)
    }
  }

  func open(_ name: PathBytes) throws(FileError) -> any ReadableFile {
    MemoryReadableFile(disk, try found(name, .regular))
  }

  func directory(_ name: PathBytes) throws(FileError) -> any Directory {
    MemoryDirectory(disk, try found(name, .directory), pid)
  }

  /// A name of that kind that its owner may read.
  private func found(_ name: PathBytes, _ kind: FileKind) throws(FileError) -> UInt64 {
    try checked(name, "open")
    return try disk.with { (state) throws(FileError) in
      guard let child = try state.child(of: node, name, "open") else {
        throw FileError(code: ENOENT, operation: "open", path: name)
      }
      if let code = state[child].failing { throw FileError(code: code, operation: "open", path: name) }
      switch (state[child].kind, kind) {
      case (.regular, .regular), (.directory, .directory): break
      case (.link, _): throw FileError(code: kind == .directory ? ENOTDIR : ELOOP, operation: "open", path: name)
      case (_, .directory): throw FileError(code: ENOTDIR, operation: "open", path: name)
      default: throw FileError(code: EINVAL, operation: "open", path: name)
      }
      guard state[child].mode & 0o400 != 0 else { throw FileError(code: EACCES, operation: "open", path: name) }
      return child
    }
  }

  func directory(beneath path: PathBytes) throws(FileError) -> any Directory {
    if path.isAbsolute { throw FileError(code: EXDEV, operation: "open", path: path) }
    var reached: any Directory = self
    for name in path.components { reached = try reached.directory(name) }
    return reached
  }

  func makeDirectory(_ name: PathBytes, mode: UInt32) throws(FileError) {
    try checked(name, "make directory")
    try disk.with { (state) throws(FileError) in
      guard try state.child(of: node, name, "make directory") == nil else {
        throw FileError(code: EEXIST, operation: "make directory", path: name)
      }
      try state.checkWritable(node, "make directory", name)
      let made = state.make(.directory, mode: mode & ~0o022, device: state[node].device)
      state.enter(made, in: node, as: name)
    }
  }

  func create(_ name: PathBytes, mode: UInt32, exactMode: Bool) throws(FileError) -> any WritableFile {
    try checked(name, "create")
    let made = try disk.with { (state) throws(FileError) in
      guard try state.child(of: node, name, "create") == nil else {
        throw FileError(code: EEXIST, operation: "create", path: name)
      }
      try state.checkWritable(node, "create", name)
      let made = state.make(.regular, mode: exactMode ? mode : mode & ~0o022, device: state[node].device)
      state.enter(made, in: node, as: name)
      return made
    }
    return MemoryWritableFile(disk, made, name)
  }

  func rename(_ name: PathBytes, to directory: any Directory, as target: PathBytes, _ mode: RenameMode)
    throws(FileError)
  {
    try checked(name, "rename")
    try checked(target, "rename")
    guard let directory = directory as? MemoryDirectory, directory.disk === disk else {
      throw FileError(code: EXDEV, operation: "rename", path: name)
    }
    let to = directory.node
    try disk.with { (state) throws(FileError) in try state.rename(name, in: node, to: target, in: to, mode) }
  }

  func link(_ name: PathBytes, to directory: any Directory, as target: PathBytes) throws(FileError) {
    try checked(name, "link")
    try checked(target, "link")
    guard let directory = directory as? MemoryDirectory, directory.disk === disk else {
      throw FileError(code: EXDEV, operation: "link", path: name)
    }
    let to = directory.node
    try disk.with { (state) throws(FileError) in
      guard state.features.links else { throw FileError(code: EPERM, operation: "link", path: target) }
      guard let child = try state.child(of: node, name, "link") else {
        throw FileError(code: ENOENT, operation: "link", path: name)
      }
      guard try state.child(of: to, target, "link") == nil else {
        throw FileError(code: EEXIST, operation: "link", path: target)
      }
      guard state[child].device == state[to].device else {
        throw FileError(code: EXDEV, operation: "link", path: target)
      }
      try state.checkWritable(to, "link", target)
      state.enter(child, in: to, as: target)
    }
  }

  func makeLink(_ name: PathBytes, to target: PathBytes) throws(FileError) {
    try checked(name, "link")
    try disk.with { (state) throws(FileError) in
      guard try state.child(of: node, name, "link") == nil else {
        throw FileError(code: EEXIST, operation: "link", path: name)
      }
      try state.checkWritable(node, "link", name)
      let made = state.make(.link, mode: 0o777, device: state[node].device)
      state[made].target = target
      state.enter(made, in: node, as: name)
    }
  }

  func unlink(_ name: PathBytes) throws(FileError) { try remove(name, directory: false) }

  func removeDirectory(_ name: PathBytes) throws(FileError) { try remove(name, directory: true) }

  private func remove(_ name: PathBytes, directory: Bool) throws(FileError) {
    try checked(name, "remove")
    try disk.with { (state) throws(FileError) in
      func failed(_ code: Int32) -> FileError { FileError(code: code, operation: "remove", path: name) }
      guard let child = try state.child(of: node, name, "remove") else { throw failed(ENOENT) }
      try state.checkWritable(node, "remove", name)
      let isDirectory = state[child].kind == .directory
      if isDirectory != directory { throw failed(directory ? ENOTDIR : EISDIR) }
      if directory, state[child].covers != nil { throw failed(EBUSY) }
      if directory, !state[child].entries.isEmpty { throw failed(ENOTEMPTY) }
      if state[child].immutable { throw failed(EPERM) }
      state.leave(name, of: node)
    }
  }

  func setMode(_ name: PathBytes, _ mode: UInt32) throws(FileError) {
    try checked(name, "set mode")
    try disk.with { (state) throws(FileError) in
      guard let child = try state.child(of: node, name, "set mode") else {
        throw FileError(code: ENOENT, operation: "set mode", path: name)
      }
      if state.features.modes { state[child].mode = mode & 0o7777 }
      state[child].changed = state.now
    }
  }

  func sync() throws(FileError) { try disk.with { (state) throws(FileError) in state.sync(directory: node) } }
}
