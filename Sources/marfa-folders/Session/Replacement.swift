import Glibc
import MarfaBase
import Synchronization

/// The file this program runs from, for telling that another version took its place under a running watch (P4.1): between
/// two passes the new one runs on, as the same process.
final class Replacement: Sendable {
  /// What a file is told from another by.
  private struct Seen: Equatable {
    var device: UInt
    var inode: UInt
    var size: Int
    var changed: Int

    /// Nil where no program can be run there.
    init?(_ path: String) {
      var found = stat()
      guard stat(path, &found) == 0, found.st_mode & S_IFMT == S_IFREG, access(path, X_OK) == 0 else { return nil }
      device = UInt(found.st_dev)
      inode = UInt(found.st_ino)
      size = Int(found.st_size)
      changed = Int(found.st_ctim.tv_sec)
    }
  }

  private struct State {
    var known: Seen?
    var asked = false
  }

  private let path: String
  private let clock: any Clock
  private let state: Mutex<State>

  /// Nil where the program's file cannot be told.
  init?(clock: any Clock) {
    guard let found = realpath("/proc/self/exe", nil) else { return nil }
    path = String(cString: found)
    free(found)
    guard let seen = Seen(path) else { return nil }
    self.clock = clock
    state = Mutex(State(known: seen))
  }

  /// Whether another file stands in its place, whole: it was let alone for two seconds.
  func isThere() -> Bool {
    guard let found = Seen(path) else { return false }
    return state.withLock { state in
      guard found != state.known else { return false }
      let age = clock.now.milliseconds - Int64(found.changed) * 1000
      guard age >= clock.wait(milliseconds: 2_000) || age < 0 else { return false }
      state.asked = true
      return true
    }
  }

  /// Whether a watch was told to end for it.
  var wasAsked: Bool { state.withLock { $0.asked } }

  /// Runs it with the arguments of this process. Returns only where it cannot be run; that one is not tried again.
  func take() {
    let found = Seen(path)
    state.withLock { state in
      state.asked = false
      state.known = found
    }
    var words: [UnsafeMutablePointer<CChar>?] = argumentWords().map { word in
      strdup((word.bytes + [0]).map { CChar(bitPattern: $0) })
    }
    words.append(nil)
    execv(path, words)
    for word in words { free(word) }
  }
}
