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
  private let hub: StreamHub?
  private let own: Waker
  private let context: Context
  private let stop = StopFlag()
  private let thread = Mutex<pthread_t?>(nil)

  /// Nothing is heard until a place is given.
  /// - Parameters:
  ///   - waker: woken when there is news.
  ///   - hub: shares the stream with the process's other folders (P6.5).
  package init(context: Context, waker: Waker, hub: StreamHub? = nil) throws(FileError) {
    self.hub = hub
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

  /// Takes in what was heard, by itself or by the folder that holds the stream for all.
  func hear(_ news: StreamNews) {
    state.withLock { state in
      // Many changes of one burst are one.
      if news != .changed || state.news.last != .changed { state.news.append(news) }
    }
    waker.wake()
  }

  /// The stream may be this one's to hold now.
  func lookAgain() { own.wake() }

  private func run() {
    var joined: StreamHub.Key?
    defer { if let joined { hub?.giveUp(joined, self, leaves: true) } }
    while !stop.isSet {
      guard let place = state.withLock({ $0.place }) else {
        own.wait(until: nil)
        continue
      }
      let key = StreamHub.Key(place)
      if let before = joined, before != key { hub?.giveUp(before, self, leaves: true) }
      joined = key
      if let hub, !hub.join(key, self) {
        own.wait(until: nil)
        continue
      }
      _ = StreamListener(context: context, stop: stop).listen(from: place) { news in
        hear(news)
        hub?.tell(news, key, but: self)
      }
      hub?.giveUp(key, self, leaves: false)
      // The place is of no more use: the next pass's catch-up finds out why and gives another.
      state.withLock { if $0.place == place { $0.place = nil } }
    }
  }
}
