import Glibc

/// A file, directory or link of a disk in memory.
struct MemoryNode: Sendable {
  var kind: FileKind
  var mode: UInt32
  var device: UInt64
  /// The mount it is reached through, where that is not told by its device: 0 for the device's own.
  var mount: UInt64 = 0
  var birth: Int64
  var modified: Int64
  var changed: Int64
  var links: UInt32 = 0
  var content: [UInt8] = []
  var entries: [PathBytes: UInt64] = [:]
  var target: PathBytes = .empty
  var attributes: [String: [UInt8]] = [:]
  var owner: UInt32 = 1000
  var group: UInt32 = 1000
  var immutable = false
  /// Programs that have it open for writing.
  var writers = 0
  /// Open handles; a node without names lives as long as it has some.
  var opens = 0
  /// The directory this volume's root lies over.
  var covers: UInt64?
  /// What every call on it fails with.
  var failing: Int32?
}

/// What lies on a disk in memory, and the steps every door to it takes.
struct MemoryState: Sendable {
  struct Lock: Sendable {
    var handle: UInt64
    var pid: Int32
    var mode: LockMode
  }

  var features: MemoryDisk.Features
  var now: Int64
  var nodes: [UInt64: MemoryNode] = [:]
  var lastInode: UInt64 = 0
  var freed: [UInt64] = []
  var lastDevice: UInt64 = 1
  var lastHandle: UInt64 = 0
  var locks: [UInt64: [Lock]] = [:]
  var processes: [Int32: UInt64] = [:]
  var freeBytes: Int?
  private(set) var root: UInt64 = 0
  /// What a power cut would take away; nil where nobody asks.
  var unsynced: Unsynced?

  init(features: MemoryDisk.Features, now: Int64) {
    self.features = features
    self.now = now
    root = make(.directory, mode: 0o755, device: 1)
    self[root].links = 1
  }

  subscript(_ inode: UInt64) -> MemoryNode {
    get { nodes[inode] ?? MemoryNode(kind: .special, mode: 0, device: 0, birth: 0, modified: 0, changed: 0) }
    set { nodes[inode] = newValue }
  }

  mutating func make(_ kind: FileKind, mode: UInt32, device: UInt64) -> UInt64 {
    let inode: UInt64
    if features.reusesInodes, let free = freed.popLast() {
      inode = free
    } else {
      lastInode += 1
      inode = lastInode
    }
    nodes[inode] = MemoryNode(
      kind: kind, mode: features.modes ? mode & 0o7777 : 0o755, device: device, birth: now, modified: now, changed: now)
    if kind == .regular { unsynced?.contents[inode] = [] }
    return inode
  }

  mutating func touch(_ node: UInt64) {
    self[node].modified = now
    self[node].changed = now
  }

  mutating func enter(_ node: UInt64, in directory: UInt64, as name: PathBytes) {
    willChange(name, in: directory)
    self[directory].entries[name] = node
    self[node].links += 1
    self[node].mount = self[directory].mount
    touch(directory)
    self[node].changed = now
  }

  mutating func leave(_ name: PathBytes, of directory: UInt64) {
    willChange(name, in: directory)
    guard let node = self[directory].entries.removeValue(forKey: name) else { return }
    self[node].links -= 1
    self[node].changed = now
    touch(directory)
    forget(node)
  }

  mutating func forget(_ node: UInt64) {
    if let found = nodes[node], found.links == 0, found.opens == 0, unsynced?.holds(node) != true {
      nodes[node] = nil
      unsynced?.contents[node] = nil
      locks[node] = nil
      freed.append(node)
    }
  }

  mutating func deleteTree(_ node: UInt64) {
    guard self[node].kind == .directory else { return }
    for (name, child) in self[node].entries {
      deleteTree(child)
      leave(name, of: node)
    }
  }

  func status(_ node: UInt64) -> FileStatus {
    let found = self[node]
    return FileStatus(
      kind: found.kind, mode: found.mode, size: UInt64(found.content.count), modified: found.modified,
      changed: found.changed, device: found.device,
      mount: found.mount == 0 ? found.device : found.mount, inode: node,
      birth: features.birthTimes ? found.birth : nil, owner: found.owner, group: found.group,
      links: found.links, immutable: found.immutable)
  }

  /// The node a name of a directory stands for. Fails where the directory can't be searched.
  func child(of directory: UInt64, _ name: PathBytes, _ operation: String) throws(FileError) -> UInt64? {
    let found = self[directory]
    if let code = found.failing { throw FileError(code: code, operation: operation, path: name) }
    guard found.kind == .directory else { throw FileError(code: ENOTDIR, operation: operation, path: name) }
    guard found.mode & 0o100 != 0 else { throw FileError(code: EACCES, operation: operation, path: name) }
    guard name.bytes.count <= 255 else { throw FileError(code: ENAMETOOLONG, operation: operation, path: name) }
    return found.entries[name]
  }

  /// Fails where a directory's entries can't be changed.
  func checkWritable(_ directory: UInt64, _ operation: String, _ name: PathBytes) throws(FileError) {
    if let code = self[directory].failing { throw FileError(code: code, operation: operation, path: name) }
    guard self[directory].mode & 0o200 != 0 else { throw FileError(code: EACCES, operation: operation, path: name) }
    guard self[directory].links > 0 else { throw FileError(code: ENOENT, operation: operation, path: name) }
  }

  /// The node of an absolute path and the path with every link followed.
  func walk(_ path: PathBytes, following: Bool) throws(FileError) -> (node: UInt64, real: PathBytes) {
    var trail: [(node: UInt64, name: PathBytes)] = [(root, "/")]
    var rest = Array(path.components.reversed())
    var followed = 0
    while let name = rest.popLast() {
      if name == "." { continue }
      if name == ".." {
        if trail.count > 1 { trail.removeLast() }
        continue
      }
      guard let next = try child(of: trail[trail.count - 1].node, name, "look") else {
        throw FileError(code: ENOENT, operation: "look", path: path)
      }
      guard self[next].kind == .link, following || !rest.isEmpty else {
        trail.append((next, name))
        continue
      }
      followed += 1
      guard followed <= 40 else { throw FileError(code: ELOOP, operation: "look", path: path) }
      if self[next].target.isAbsolute { trail.removeSubrange(1...) }
      rest += self[next].target.components.reversed()
    }
    let real = PathBytes(bytes: Array("/".utf8) + trail.dropFirst().map(\.name.bytes).joined(separator: [0x2F]))
    return (trail[trail.count - 1].node, real)
  }

  func node(at path: PathBytes, following: Bool) throws(FileError) -> UInt64 {
    try walk(path, following: following).node
  }

  func follow(_ node: UInt64, at path: PathBytes) throws(FileError) -> UInt64 {
    self[node].kind == .link ? try self.node(at: path, following: true) : node
  }

  func directory(at path: PathBytes) throws(FileError) -> UInt64 {
    let node = try node(at: path, following: true)
    guard self[node].kind == .directory else { throw FileError(code: ENOTDIR, operation: "open", path: path) }
    return node
  }

  /// A person's `mkdir -p`.
  mutating func makeDirectories(_ path: PathBytes) throws(FileError) -> UInt64 {
    var made: [PathBytes] = []
    return try makeDirectories(path, mode: 0o755, made: &made)
  }

  mutating func makeDirectories(_ path: PathBytes, mode: UInt32, made: inout [PathBytes]) throws(FileError) -> UInt64 {
    var at: PathBytes = "/"
    var node = root
    for name in path.components {
      at = at.appending(name)
      if let found = try child(of: node, name, "make directory") {
        node = try follow(found, at: at)
        guard self[node].kind == .directory else {
          throw FileError(code: ENOTDIR, operation: "make directory", path: at)
        }
      } else {
        try checkWritable(node, "make directory", at)
        let new = make(.directory, mode: mode, device: self[node].device)
        enter(new, in: node, as: name)
        made.append(at)
        node = new
      }
    }
    return node
  }

  mutating func rename(
    _ name: PathBytes, in from: UInt64, to target: PathBytes, in to: UInt64, _ mode: RenameMode
  ) throws(FileError) {
    func failed(_ code: Int32) -> FileError { FileError(code: code, operation: "rename", path: target) }
    guard let node = try child(of: from, name, "rename") else { throw failed(ENOENT) }
    let present = try child(of: to, target, "rename")
    // As the kernel does: another volume is told before a permission is asked.
    guard self[node].device == self[to].device, self[from].device == self[to].device,
      self[from].mount == self[to].mount
    else { throw failed(EXDEV) }
    try checkWritable(from, "rename", name)
    try checkWritable(to, "rename", target)
    if self[node].immutable { throw failed(EPERM) }
    switch mode {
    case .noReplace:
      if !features.noReplace { throw failed(EINVAL) }
      if present != nil { throw failed(EEXIST) }
    case .exchange:
      if !features.exchange { throw failed(EINVAL) }
      guard let present else { throw failed(ENOENT) }
      willChange(name, in: from)
      willChange(target, in: to)
      self[from].entries[name] = present
      self[to].entries[target] = node
      touch(from)
      touch(to)
      self[node].changed = now
      self[present].changed = now
      return
    case .replace: break
    }
    if present == node { return }
    if let present {
      switch (self[node].kind == .directory, self[present].kind == .directory) {
      case (true, false): throw failed(ENOTDIR)
      case (false, true): throw failed(EISDIR)
      case (true, true): if !self[present].entries.isEmpty { throw failed(ENOTEMPTY) }
      case (false, false): break
      }
      leave(target, of: to)
    }
    self[node].links += 1  // it must not be forgotten between its two names
    leave(name, of: from)
    self[node].links -= 1
    enter(node, in: to, as: target)
  }
}
