import Glibc
import Synchronization

/// A disk in memory: the simulation's and the tests'. Engines reach it through `MemoryFileSystem`, one per process; a
/// person reaches it through the methods here, by absolute paths.
///
///     let disk = MemoryDisk(clock: clock)
///     try disk.write("/home/ana/Notes/Plan.md", "# Plan\n")
///     let files = MemoryFileSystem(disk, pid: 7)
///
/// All it does follows from the calls and the clock alone. Permission bits of the owner are obeyed, as they are not for a
/// superuser on a real disk.
public final class MemoryDisk: Sendable {
  /// What this disk can do.
  public struct Features: Sendable {
    /// Files have birth times.
    public var birthTimes = true
    /// Renames can refuse to replace.
    public var noReplace = true
    /// Renames can exchange.
    public var exchange = true
    /// Files can have a second name.
    public var links = true
    /// Files can be locked.
    public var locks = true
    /// Files have `user.*` attributes.
    public var attributes = true
    /// Whether some process writes a file can be asked (P1.1).
    public var leases = true
    /// Permission bits last.
    public var modes = true
    /// A file made takes the inode of one that went, as ext4 does.
    public var reusesInodes = false

    /// All of them.
    public init() {}
  }

  let state: Mutex<MemoryState>
  let clock: any Clock

  /// An empty disk whose times come from that clock.
  public init(clock: any Clock, features: Features = Features()) {
    self.clock = clock
    state = Mutex(MemoryState(features: features, now: clock.now.milliseconds &* 1_000_000))
  }

  func with<Result: Sendable>(
    _ body: (inout MemoryState) throws(FileError) -> Result
  ) throws(FileError) -> Result {
    let now = clock.now.milliseconds &* 1_000_000
    return try state.withLock { (state: inout MemoryState) throws(FileError) -> Result in
      state.now = now
      state.unsynced?.group += 1
      return try body(&state)
    }
  }

  /// The same for a person: what they save is on the disk once they saved it.
  func byPerson<Result: Sendable>(
    _ body: (inout MemoryState) throws(FileError) -> Result
  ) throws(FileError) -> Result {
    try with { (state) throws(FileError) in
      let result = try body(&state)
      state.syncNames()
      return result
    }
  }

  // MARK: A person's acts

  /// Writes a file in place, as `>` does: a new one where there is none, its directories made.
  public func write(_ path: PathBytes, _ bytes: [UInt8]) throws(FileError) {
    try byPerson { (state) throws(FileError) in
      let parent = try state.makeDirectories(path.parent)
      if let found = try state.child(of: parent, path.name, "write") {
        let node = try state.follow(found, at: path)
        guard state[node].kind == .regular else { throw FileError(code: EISDIR, operation: "write", path: path) }
        state[node].content = bytes
        state.touch(node)
        state.sync(node)
      } else {
        let node = state.make(.regular, mode: 0o644, device: state[parent].device)
        state[node].content = bytes
        state.sync(node)
        state.enter(node, in: parent, as: path.name)
      }
    }
  }

  /// Writes a text in place.
  public func write(_ path: PathBytes, _ text: String) throws(FileError) { try write(path, Array(text.utf8)) }

  /// Saves as most editors do: another file renamed over the name.
  public func save(_ path: PathBytes, _ bytes: [UInt8]) throws(FileError) {
    let temporary = path.parent.appending(PathBytes(bytes: Array(".goutputstream-".utf8) + path.name.bytes))
    try write(temporary, bytes)
    try rename(temporary, to: path)
  }

  /// Renames a file or directory, replacing a file that is there.
  public func rename(_ path: PathBytes, to target: PathBytes) throws(FileError) {
    try byPerson { (state) throws(FileError) in
      let from = try state.directory(at: path.parent)
      let to = try state.makeDirectories(target.parent)
      try state.rename(path.name, in: from, to: target.name, in: to, .replace)
    }
  }

  /// Deletes a file, or a directory with all in it.
  public func delete(_ path: PathBytes) throws(FileError) {
    try byPerson { (state) throws(FileError) in
      let parent = try state.directory(at: path.parent)
      guard let node = try state.child(of: parent, path.name, "delete") else {
        throw FileError(code: ENOENT, operation: "delete", path: path)
      }
      state.deleteTree(node)
      state.leave(path.name, of: parent)
    }
  }

  /// Makes a directory and its missing parents.
  public func makeDirectory(_ path: PathBytes) throws(FileError) {
    try byPerson { (state) throws(FileError) in _ = try state.makeDirectories(path) }
  }

  /// Makes a symbolic link.
  public func makeLink(_ path: PathBytes, to target: PathBytes) throws(FileError) {
    try byPerson { (state) throws(FileError) in
      let parent = try state.makeDirectories(path.parent)
      guard state[parent].entries[path.name] == nil else {
        throw FileError(code: EEXIST, operation: "link", path: path)
      }
      let node = state.make(.link, mode: 0o777, device: state[parent].device)
      state[node].target = target
      state.enter(node, in: parent, as: path.name)
    }
  }

  /// Sets permission bits.
  public func setMode(_ path: PathBytes, _ mode: UInt32) throws(FileError) {
    try change(path) { state, node in
      state[node].mode = mode & 0o7777
      state[node].changed = state.now
    }
  }

  /// Sets the modification time, in nanoseconds since the epoch.
  public func setModified(_ path: PathBytes, _ time: Int64) throws(FileError) {
    try change(path) { state, node in state[node].modified = time }
  }

  /// Sets an attribute.
  public func setAttribute(_ path: PathBytes, _ name: String, _ value: [UInt8]) throws(FileError) {
    try change(path) { state, node in state[node].attributes[name] = value }
  }

  /// A program opens a file for writing and keeps it open, or lets it go.
  public func setOpenForWriting(_ path: PathBytes, _ open: Bool) throws(FileError) {
    try change(path) { state, node in state[node].writers = max(0, state[node].writers + (open ? 1 : -1)) }
  }

  /// Every call on this file or directory fails with that number, as of a broken disk; nil heals it.
  public func setFailing(_ path: PathBytes, _ code: Int32?) throws(FileError) {
    try change(path) { state, node in state[node].failing = code }
  }

  /// Mounts an empty volume over a directory, or the volume an `unmount` of it gave.
  /// - Parameter sameDevice: another directory of the same file system is bound there, as `mount --bind` does.
  public func mount(_ path: PathBytes, volume: MemoryVolume? = nil, sameDevice: Bool = false) throws(FileError) {
    try with { (state) throws(FileError) in
      let parent = try state.directory(at: path.parent)
      guard let covered = state[parent].entries[path.name], state[covered].kind == .directory else {
        throw FileError(code: ENOTDIR, operation: "mount", path: path)
      }
      let root: UInt64
      if let volume {
        root = volume.root
      } else {
        state.lastDevice += 1
        root = state.make(.directory, mode: 0o755, device: sameDevice ? state[parent].device : state.lastDevice)
        if sameDevice { state[root].mount = state.lastDevice }
        state[root].links = 1
      }
      state[root].covers = covered
      state[parent].entries[path.name] = root
    }
  }

  /// Takes a volume off its directory.
  public func unmount(_ path: PathBytes) throws(FileError) -> MemoryVolume {
    try with { (state) throws(FileError) in
      let parent = try state.directory(at: path.parent)
      guard let root = state[parent].entries[path.name], let covered = state[root].covers else {
        throw FileError(code: EINVAL, operation: "unmount", path: path)
      }
      state[root].covers = nil
      state[parent].entries[path.name] = covered
      return MemoryVolume(root: root)
    }
  }

  /// A file's bytes; nil where there is no file.
  public func read(_ path: PathBytes) -> [UInt8]? {
    try? with { (state) throws(FileError) -> [UInt8]? in
      let node = try state.node(at: path, following: true)
      return state[node].kind == .regular ? state[node].content : nil
    }
  }

  /// A file's text, for tests.
  public func text(_ path: PathBytes) -> String? { read(path).map { String(decoding: $0, as: UTF8.self) } }

  /// What a path stands for, its last link not followed.
  public func status(_ path: PathBytes) -> FileStatus? {
    try? with { (state) throws(FileError) in state.status(try state.node(at: path, following: false)) }
  }

  /// Every file below a directory with its bytes, by path relative to it, in path order; links and empty directories
  /// left out.
  public func tree(_ path: PathBytes) -> [(path: PathBytes, bytes: [UInt8])] {
    let found: [(PathBytes, [UInt8])]? = try? with { (state) throws(FileError) in
      var found: [(PathBytes, [UInt8])] = []
      func walk(_ node: UInt64, _ path: PathBytes) {
        for (name, child) in state[node].entries {
          switch state[child].kind {
          case .directory: walk(child, path.appending(name))
          case .regular: found.append((path.appending(name), state[child].content))
          case .link, .special: break
          }
        }
      }
      walk(try state.directory(at: path), .empty)
      return found
    }
    return (found ?? []).sorted { $0.0 < $1.0 }.map { (path: $0.0, bytes: $0.1) }
  }

  /// How many bytes can still be written; nil means no end.
  public func setFreeBytes(_ count: Int?) { state.withLock { $0.freeBytes = count } }

  /// Changes what the disk can do.
  public func setFeatures(_ features: Features) { state.withLock { $0.features = features } }

  /// Ends a process: its locks fall, and its temporary files have a writer that is gone.
  public func kill(pid: Int32) {
    state.withLock { state in
      state.processes[pid] = nil
      state.locks = state.locks.mapValues { $0.filter { $0.pid != pid } }
    }
  }

  private func change(_ path: PathBytes, _ body: (inout MemoryState, UInt64) -> Void) throws(FileError) {
    try with { (state) throws(FileError) in body(&state, try state.node(at: path, following: true)) }
  }
}

/// A volume that was unmounted.
public struct MemoryVolume: Sendable {
  let root: UInt64
}
