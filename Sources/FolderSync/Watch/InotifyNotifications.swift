import CPosix
import Glibc
import MarfaBase
import Synchronization

/// Notifications by inotify: one instance, one watch a directory (W1), read by one thread of its own.
///
/// Concurrency: everything mutable lies in `state`, behind its mutex; the descriptors are constants that live until
/// `close` has joined the thread.
package final class InotifyNotifications: Notifications {
  private struct State {
    var noted = NotedChanges()
    var directories: [Int32: PathBytes] = [:]
    var watches: [PathBytes: Int32] = [:]
    var enters: @Sendable (PathBytes) -> Bool = { _ in true }
    var missing = 0
    var limitTold = false
    var lost = false
    var closed = false
  }

  private let root: PathBytes
  private let clock: any Clock
  private let inotify: Int32
  private let wakeup: Int32
  private let state = Mutex(State())
  private let onChange: @Sendable () -> Void
  private let onAsk: @Sendable () -> Void
  private let thread = Mutex<pthread_t?>(nil)

  private static let mask = UInt32(
    IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF
      | IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK)
  private static let ownState: PathBytes = ".marfa"

  /// Watches nothing until `start`.
  /// - Parameters:
  ///   - onChange: called on the reading thread after something was noted.
  ///   - onAsk: called on it after `.marfa/core.handover` was touched (H10).
  /// - Throws: `FileError` where the kernel gives no inotify instance (`EMFILE` names the limit of instances).
  package init(
    root: PathBytes, clock: any Clock, onChange: @escaping @Sendable () -> Void, onAsk: @escaping @Sendable () -> Void
  ) throws(FileError) {
    self.root = root
    self.clock = clock
    self.onChange = onChange
    self.onAsk = onAsk
    inotify = inotify_init1(Int32(IN_CLOEXEC | IN_NONBLOCK))
    guard inotify >= 0 else { throw FileError(code: errno, operation: "watch", path: root) }
    wakeup = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    guard wakeup >= 0 else {
      let code = errno
      Glibc.close(inotify)
      throw FileError(code: code, operation: "watch", path: root)
    }
  }

  deinit {
    Glibc.close(inotify)
    Glibc.close(wakeup)
  }

  package func start() throws(FileError) {
    let code = watch(.empty)
    if code != 0, code != ENOSPC, code != EMFILE, code != ENFILE {
      throw FileError(code: code, operation: "watch", path: root)
    }
    watchOwnState()
    watchBelow(.empty)
    let box = Unmanaged.passRetained(self)
    var made = pthread_t()
    let failure = pthread_create(
      &made, nil,
      { argument in
        // The thread owns one reference, so the object outlives it.
        guard let argument else { return nil }
        let notifications = Unmanaged<InotifyNotifications>.fromOpaque(argument).takeRetainedValue()
        notifications.run()
        return nil
      }, box.toOpaque())
    if failure != 0 {
      box.release()
      throw FileError(code: failure, operation: "watch", path: root)
    }
    let running = made
    thread.withLock { $0 = running }
  }

  package func take() -> NotedChanges {
    state.withLock { state in
      let noted = state.noted
      state.noted = NotedChanges()
      return noted
    }
  }

  package var isTrusted: Bool { state.withLock { $0.missing == 0 && !$0.lost } }

  package func enter(_ decides: @escaping @Sendable (PathBytes) -> Bool) { state.withLock { $0.enters = decides } }

  package func rescan() {
    state.withLock {
      $0.missing = 0
      $0.lost = false
    }
    _ = watch(.empty)
    watchOwnState()
    watchBelow(.empty)
  }

  package func close() {
    state.withLock { $0.closed = true }
    var one: UInt64 = 1
    _ = write(wakeup, &one, 8)
    if let running = thread.withLock({ thread in
      let running = thread
      thread = nil
      return running
    }) {
      pthread_join(running, nil)
    }
  }

  // MARK: - Watching directories

  private func absolute(_ path: PathBytes) -> PathBytes { path.isEmpty ? root : root.appending(path) }

  /// Watches one directory; 0 or the error number.
  private func watch(_ path: PathBytes) -> Int32 {
    let descriptor = absolute(path).withCString { inotify_add_watch(inotify, $0, Self.mask) }
    guard descriptor >= 0 else {
      let code = errno
      if code == ENOSPC || code == EMFILE || code == ENFILE { tellLimit(code) }
      return code
    }
    state.withLock { state in
      // A moved directory keeps its descriptor: its old path goes.
      if let former = state.directories[descriptor], former != path { state.watches[former] = nil }
      state.directories[descriptor] = path
      state.watches[path] = descriptor
    }
    return 0
  }

  private func watchOwnState() {
    let path = absolute(Self.ownState)
    let descriptor = path.withCString {
      inotify_add_watch(
        inotify, $0,
        UInt32(IN_CLOSE_WRITE | IN_MODIFY | IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_ONLYDIR | IN_DONT_FOLLOW))
    }
    if descriptor >= 0 { state.withLock { $0.directories[descriptor] = Self.ownState } }
  }

  private func tellLimit(_ code: Int32) {
    state.withLock { state in
      state.missing += 1
      guard !state.limitTold else { return }
      state.limitTold = true
      let needed = state.watches.count + state.missing
      let setting = code == ENOSPC ? "fs.inotify.max_user_watches" : "fs.inotify.max_user_instances"
      state.noted.limit =
        "\(root): the system's limit \(setting) leaves directories unwatched (at least \(needed) watches are needed); "
        + "changes there are found by regular passes. To raise it for good, put '\(setting)=\(max(524_288, needed * 2))' "
        + "into /etc/sysctl.d/90-marfa.conf and run 'sudo sysctl --system'."
    }
  }

  /// Watches every directory below one that the folder enters: watched first, listed after (W2).
  private func watchBelow(_ start: PathBytes) {
    let enters = state.withLock { $0.enters }
    var pending = [start]
    while let path = pending.popLast() {
      guard let stream = absolute(path).withCString({ opendir($0) }) else { continue }
      var found: [PathBytes] = []
      while let entry = readdir(stream) {
        guard entry.pointee.d_type == UInt8(DT_DIR) || entry.pointee.d_type == UInt8(DT_UNKNOWN) else { continue }
        let name = withUnsafePointer(to: &entry.pointee.d_name) { tuple in
          tuple.withMemoryRebound(to: UInt8.self, capacity: 256) { bytes in
            PathBytes(
              bytes: UnsafeBufferPointer(
                start: bytes, count: strnlen(UnsafeRawPointer(bytes).assumingMemoryBound(to: CChar.self), 256)))
          }
        }
        if name == "." || name == ".." || name == Self.ownState { continue }
        found.append(path.appending(name))
      }
      closedir(stream)
      for directory in found where enters(directory) {
        switch watch(directory) {
        case 0: pending.append(directory)
        case ENOSPC, EMFILE, ENFILE: state.withLock { $0.missing += 1 }
        default: break  // Gone again, a file of unknown kind, or unreadable: the walk tells of it.
        }
      }
    }
  }

  // MARK: - Reading events

  private func run() {
    setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 10)  // H17; on Linux this is the thread's own.
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 8)
    defer { buffer.deallocate() }
    while true {
      var descriptors = [
        pollfd(fd: inotify, events: Int16(POLLIN), revents: 0), pollfd(fd: wakeup, events: Int16(POLLIN), revents: 0),
      ]
      if poll(&descriptors, 2, -1) < 0, errno != EINTR { return }
      if state.withLock({ $0.closed }) { return }
      let count = read(inotify, buffer.baseAddress, buffer.count)
      if count > 0 { note(UnsafeRawBufferPointer(rebasing: buffer[..<count])) }
    }
  }

  private func note(_ events: UnsafeRawBufferPointer) {
    let now = clock.monotonic
    var made: [PathBytes] = []
    var asked = false
    var changed = false
    var at = 0
    while at + MemoryLayout<inotify_event>.size <= events.count {
      let event = events.loadUnaligned(fromByteOffset: at, as: inotify_event.self)
      let start = at + MemoryLayout<inotify_event>.size
      let name = PathBytes(bytes: events[start..<min(events.count, start + Int(event.len))].prefix { $0 != 0 })
      at = start + Int(event.len)
      state.withLock { state in
        if event.mask & UInt32(IN_Q_OVERFLOW) != 0 {
          state.noted.overflowed = true
          state.lost = true
          changed = true
          return
        }
        guard let directory = state.directories[event.wd] else { return }
        if event.mask & UInt32(IN_IGNORED) != 0 {
          state.directories[event.wd] = nil
          if state.watches[directory] == event.wd { state.watches[directory] = nil }
          if directory.isEmpty {
            state.noted.rootMoved = true
            changed = true
          }
          return
        }
        if directory == Self.ownState {
          if name == "folder.yaml" {
            state.noted.settings = true
            changed = true
          } else if name == "core.handover" {
            asked = true
          }
          return
        }
        if event.mask & UInt32(IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT) != 0 {
          if directory.isEmpty {
            state.noted.rootMoved = true
            changed = true
          }
          return
        }
        let path = directory.isEmpty ? name : directory.appending(name)
        if directory.isEmpty, name == Self.ownState {
          if event.mask & UInt32(IN_CREATE | IN_MOVED_TO) != 0 { made.append(path) }
          return
        }
        switch BuiltInNames.list(file: name) {  // W4; a secret is named when it appears (F78).
        case nil, .secret?: break
        case .ownState?, .machine?, .editor?, .download?: return
        }
        if event.mask & UInt32(IN_ISDIR) != 0 {
          if event.mask & UInt32(IN_CREATE | IN_MOVED_TO) != 0 { made.append(path) }
          if event.mask & UInt32(IN_MOVED_FROM) != 0 { forget(path, in: &state) }
          state.noted.directories.insert(path)
        }
        state.noted.paths[path] = now
        state.noted.directories.insert(directory)
        changed = true
      }
    }
    for directory in made {
      if directory == Self.ownState {
        watchOwnState()
      } else if state.withLock({ $0.enters })(directory) {
        if watch(directory) == 0 { watchBelow(directory) }
      }
    }
    if asked { onAsk() }
    if changed { onChange() }
  }

  /// A directory moved out: its watches go, and those below it (W2).
  private func forget(_ path: PathBytes, in state: inout State) {
    for (watched, descriptor) in state.watches where path.contains(watched) {
      inotify_rm_watch(inotify, descriptor)
      state.watches[watched] = nil
      state.directories[descriptor] = nil
    }
  }
}
