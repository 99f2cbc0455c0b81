import Glibc
import MarfaBase
import Synchronization

/// Looks at another folder's directory for at most two seconds (P2.4): a dead network mount would hold every pass of every
/// folder. One that does not answer is `.unknown`; its thread ends when the kernel lets it go.
package struct BoundedLook: Sendable {
  private let files: any FileSystem
  private let limit: UInt64

  /// Looks through a file system, each for at most `limit` nanoseconds.
  package init(_ files: any FileSystem, limit: UInt64 = 2_000_000_000) {
    self.files = files
    self.limit = limit
  }

  /// Looks.
  package func callAsFunction(_ dir: PathBytes) -> DirectoryLook {
    let answer = Answer(dir: dir, files: files)
    var thread = pthread_t()
    let failure = pthread_create(
      &thread, nil,
      { argument in
        guard let argument else { return nil }
        Unmanaged<Answer>.fromOpaque(argument).takeRetainedValue().look()
        return nil
      }, Unmanaged.passRetained(answer).toOpaque())
    guard failure == 0 else {
      Unmanaged.passUnretained(answer).release()
      return DirectoryLook(resolved: dir, state: .unknown)
    }
    pthread_detach(thread)
    return answer.wait(limit) ?? DirectoryLook(resolved: dir, state: .unknown)
  }

  private final class Answer: Sendable {
    private let dir: PathBytes
    private let files: any FileSystem
    private let found = Mutex<DirectoryLook?>(nil)
    private let done = StopFlag()

    init(dir: PathBytes, files: any FileSystem) {
      self.dir = dir
      self.files = files
    }

    func look() {
      let look = DirectoryLook.at(dir, files)
      found.withLock { $0 = look }
      done.set(.stopped)
    }

    func wait(_ limit: UInt64) -> DirectoryLook? {
      SystemScheduler().wait(nanoseconds: limit, unless: done)
      return found.withLock { $0 }
    }
  }
}
