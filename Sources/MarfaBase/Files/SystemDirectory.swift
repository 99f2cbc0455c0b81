import CPosix
import Glibc

/// An open directory of the machine's disk.
final class SystemDirectory: Directory {
  private let descriptor: Descriptor
  /// The path it was opened by, for messages alone.
  private let path: PathBytes

  init(_ descriptor: consuming Descriptor, path: PathBytes) {
    self.descriptor = descriptor
    self.path = path
  }

  /// A name is one component: the kernel would read anything else as a path of its own.
  private func checked(_ name: PathBytes, _ operation: String) throws(FileError) {
    let bytes = name.bytes
    if bytes.isEmpty || bytes == [0x2E] || bytes == [0x2E, 0x2E] || bytes.contains(0x2F) || bytes.contains(0) {
      throw FileError(code: EINVAL, operation: operation, path: name)
    }
  }

  private func done(_ result: Int32, _ operation: String, _ name: PathBytes) throws(FileError) {
    if result != 0 { throw FileError(code: errno, operation: operation, path: path.appending(name)) }
  }

  func status() throws(FileError) -> FileStatus { try FileStatus.of(descriptor: descriptor.number, path: path) }

  func list() throws(FileError) -> [DirectoryEntry] {
    // A descriptor of its own: two listings of one would share their place.
    let listing = try Descriptor.open(".", in: descriptor.number, flags: O_RDONLY | O_DIRECTORY, operation: "list")
    let number = dup(listing.number)
    guard number >= 0, let stream = fdopendir(number) else {
      let code = errno
      if number >= 0 { Glibc.close(number) }
      throw FileError(code: code, operation: "list", path: path)
    }
    _ = fcntl(number, F_SETFD, FD_CLOEXEC)
    defer { closedir(stream) }
    var entries: [DirectoryEntry] = []
    while true {
      errno = 0
      guard let entry = readdir(stream) else {
        // A listing cut short must never read as absence.
        if errno != 0 { throw FileError(code: errno, operation: "list", path: path) }
        return entries
      }
      let offset = MemoryLayout<dirent>.offset(of: \.d_name) ?? 19
      let start = UnsafeRawPointer(entry).advanced(by: offset).assumingMemoryBound(to: UInt8.self)
      let name = UnsafeBufferPointer(
        start: start, count: strlen(UnsafeRawPointer(start).assumingMemoryBound(to: CChar.self)))
      if name.elementsEqual([0x2E]) || name.elementsEqual([0x2E, 0x2E]) { continue }
      let kind: FileKind? =
        switch Int(entry.pointee.d_type) {
        case 8: .regular
        case 4: .directory
        case 10: .link
        case 0: nil
        default: .special
        }
      entries.append(DirectoryEntry(name: PathBytes(bytes: name), kind: kind))
    }
  }

  func status(of name: PathBytes) throws(FileError) -> FileStatus? {
    try checked(name, "look")
    var found = marfa_stat()
    let code = name.withCString { marfa_statx(descriptor.number, $0, &found) }
    if code == ENOENT { return nil }
    guard code == 0 else { throw FileError(code: code, operation: "look", path: path.appending(name)) }
    return FileStatus(found)
  }

  func open(_ name: PathBytes) throws(FileError) -> any ReadableFile {
    try checked(name, "open")
    // Non-blocking: a pipe put in a file's place would otherwise wait for a writer for ever.
    let opened = try Descriptor.open(
      name, in: descriptor.number, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
    let file = try SystemReadableFile(opened, path: path.appending(name))
    guard try file.statusAtOpening().kind == .regular else {
      throw FileError(code: EINVAL, operation: "open", path: path.appending(name))
    }
    return file
  }

  func directory(_ name: PathBytes) throws(FileError) -> any Directory {
    try checked(name, "open")
    return SystemDirectory(try step(to: name), path: path.appending(name))
  }

  private func step(to name: PathBytes) throws(FileError) -> Descriptor {
    try Descriptor.open(name, in: descriptor.number, flags: O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
  }

  func directory(beneath below: PathBytes) throws(FileError) -> any Directory {
    let components = below.components
    for component in components { try checked(component, "open") }
    if below.isAbsolute { throw FileError(code: EXDEV, operation: "open", path: below) }
    if components.isEmpty {
      return SystemDirectory(
        try Descriptor.open(".", in: descriptor.number, flags: O_RDONLY | O_DIRECTORY), path: path)
    }
    let result = below.withCString { marfa_open_beneath(descriptor.number, $0, O_RDONLY | O_DIRECTORY, 0) }
    if result >= 0 { return SystemDirectory(Descriptor(owning: result), path: path.appending(below)) }
    switch -result {
    case ENOSYS, EPERM, EAGAIN, EINTR, E2BIG, EINVAL:
      // No openat2 here, or a rename got in its way: one component after another is as safe.
      var reached = try components[0].withStep(from: self)
      for component in components.dropFirst() { reached = try component.withStep(from: reached) }
      return reached
    default: throw FileError(code: -result, operation: "open", path: path.appending(below))
    }
  }

  func makeDirectory(_ name: PathBytes, mode: UInt32) throws(FileError) {
    try checked(name, "make directory")
    try done(name.withCString { mkdirat(descriptor.number, $0, mode_t(mode)) }, "make directory", name)
  }

  func create(_ name: PathBytes, mode: UInt32, exactMode: Bool) throws(FileError) -> any WritableFile {
    try checked(name, "create")
    let file = SystemWritableFile(
      try Descriptor.open(
        name, in: descriptor.number, flags: O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode: mode, operation: "create"),
      path: path.appending(name))
    if exactMode { try file.setMode(mode) }
    return file
  }

  func rename(_ name: PathBytes, to directory: any Directory, as target: PathBytes, _ mode: RenameMode)
    throws(FileError)
  {
    try checked(name, "rename")
    try checked(target, "rename")
    guard let directory = directory as? SystemDirectory else {
      throw FileError(code: EXDEV, operation: "rename", path: name)
    }
    let flags: UInt32 =
      switch mode {
      case .replace: 0
      case .noReplace: UInt32(MARFA_RENAME_NOREPLACE)
      case .exchange: UInt32(MARFA_RENAME_EXCHANGE)
      }
    let code = name.withCString { from in
      target.withCString { to in
        marfa_renameat2(descriptor.number, from, directory.descriptor.number, to, flags)
      }
    }
    if code != 0 { throw FileError(code: code, operation: "rename", path: directory.path.appending(target)) }
  }

  func link(_ name: PathBytes, to directory: any Directory, as target: PathBytes) throws(FileError) {
    try checked(name, "link")
    try checked(target, "link")
    guard let directory = directory as? SystemDirectory else {
      throw FileError(code: EXDEV, operation: "link", path: name)
    }
    let result = name.withCString { from in
      target.withCString { to in linkat(descriptor.number, from, directory.descriptor.number, to, 0) }
    }
    try done(result, "link", target)
  }

  func makeLink(_ name: PathBytes, to target: PathBytes) throws(FileError) {
    try checked(name, "link")
    try done(target.withCString { to in name.withCString { symlinkat(to, descriptor.number, $0) } }, "link", name)
  }

  func unlink(_ name: PathBytes) throws(FileError) {
    try checked(name, "remove")
    try done(name.withCString { unlinkat(descriptor.number, $0, 0) }, "remove", name)
  }

  func removeDirectory(_ name: PathBytes) throws(FileError) {
    try checked(name, "remove directory")
    try done(name.withCString { unlinkat(descriptor.number, $0, AT_REMOVEDIR) }, "remove directory", name)
  }

  func setMode(_ name: PathBytes, _ mode: UInt32) throws(FileError) {
    try checked(name, "set mode")
    try done(
      name.withCString { fchmodat(descriptor.number, $0, mode_t(mode), AT_SYMLINK_NOFOLLOW) }, "set mode", name)
  }

  func sync() throws(FileError) {
    if fsync(descriptor.number) == 0 { return }
    switch errno {
    case EINVAL, ENOSYS, EOPNOTSUPP: return
    default: throw FileError(code: errno, operation: "sync", path: path)
    }
  }

  func lockFile(_ name: PathBytes, create: Bool) throws(FileError) -> SystemLockFile? {
    try checked(name, "lock")
    let flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY
    if create {
      // Made exclusively first, so that its mode is ours whatever the umask (X7.1).
      do throws(FileError) {
        let made = try Descriptor.open(
          name, in: descriptor.number, flags: flags | O_CREAT | O_EXCL, mode: 0o600, operation: "lock")
        fchmod(made.number, 0o600)
        return SystemLockFile(made, path: path.appending(name))
      } catch  where error.code == EEXIST {}
    }
    do throws(FileError) {
      let opened = try Descriptor.open(name, in: descriptor.number, flags: flags, operation: "lock")
      let file = SystemLockFile(opened, path: path.appending(name))
      guard try file.status().kind == .regular else {
        throw FileError(code: EINVAL, operation: "lock", path: path.appending(name))
      }
      return file
    } catch {
      if error.code == ENOENT { return create ? try lockFile(name, create: true) : nil }
      throw error
    }
  }
}

extension PathBytes {
  fileprivate func withStep(from directory: any Directory) throws(FileError) -> any Directory {
    try directory.directory(self)
  }
}
