import CPosix
import Glibc
import MarfaBase
import MarfaCopy
import Synchronization

/// The thread that holds the server's stream beside a watch's passes (F40.2). It touches no store: the passes give it the
/// copy's place, and it tells that something moved.
package final class ServerListening: Sendable {
  private struct State {
    var place: StreamPlace?
    var news: [StreamNews] = []
  }

  private let state = Mutex(State())
  private let waker: Waker
  private let own: Waker
  private let context: Context
  private let stop = StopFlag()
  private let thread = Mutex<pthread_t?>(nil)

  /// Nothing is heard until a place is given.
  /// - Parameter waker: woken when there is news.
  package init(context: Context, waker: Waker) throws(FileError) {
    self.context = context
    self.waker = waker
    own = try Waker(clock: context.clock)
  }

  /// Where the copy stands after a pass. A listener at work keeps its own place.
  package func stand(at place: StreamPlace?) {
    state.withLock { $0.place = place }
    own.wake()
  }

  /// Takes the news since the last call.
  package func take() -> [StreamNews] {
    state.withLock { state in
      let news = state.news
      state.news = []
      return news
    }
  }

  /// Starts the thread.
  package func start() throws(FileError) {
    let box = Unmanaged.passRetained(self)
    var made = pthread_t()
    let failure = pthread_create(
      &made, nil,
      { argument in
        // The thread owns one reference, so the object outlives it.
        guard let argument else { return nil }
        Unmanaged<ServerListening>.fromOpaque(argument).takeRetainedValue().run()
        return nil
      }, box.toOpaque())
    if failure != 0 {
      box.release()
      throw FileError(code: failure, operation: "start a thread for", path: "the event stream")
    }
    let running = made
    thread.withLock { $0 = running }
  }

  /// Ends it and waits for the thread.
  package func close() {
    stop.set(.stopped)
    own.wake()
    let running = thread.withLock { thread in
      let running = thread
      thread = nil
      return running
    }
    if let running { pthread_join(running, nil) }
  }

  private func run() {
    while !stop.isSet {
      guard let place = state.withLock({ $0.place }) else {
        own.wait(until: nil)
        continue
      }
      _ = StreamListener(context: context, stop: stop).listen(from: place) { news in
        state.withLock { $0.news.append(news) }
        waker.wake()
      }
      // The place is of no more use: the next pass's catch-up finds out why and gives another.
      state.withLock { if $0.place == place { $0.place = nil } }
    }
  }
}
