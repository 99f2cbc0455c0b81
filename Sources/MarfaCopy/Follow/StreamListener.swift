import MarfaBase

/// Where a copy stands in its instance's log, for a listener that must not touch the store.
package struct StreamPlace: Hashable, Sendable {
  /// The server and the credential to ask it with.
  package var endpoint: Endpoint
  /// The copy's cursor.
  package var cursor: Text
  /// The copy's read view.
  package var view: Text
}

/// What a listener hears.
package enum StreamNews: Hashable, Sendable {
  /// The stream is open and the server in reach.
  case reachable
  /// Something happened on the instance, or may have: a catch-up will tell.
  case changed
  /// The server is out of reach, and why; the listener tries again by itself.
  case unreachable(String)
}

extension WorkingCopy {
  /// Where a listener begins; nil for a copy that is not complete.
  package func streamPlace() throws(MarfaError) -> StreamPlace? {
    guard try hydration() == .complete, let certificate = try certificate(), var endpoint = server.endpoint else {
      return nil
    }
    endpoint.credential = try server.currentCredential()
    return StreamPlace(endpoint: endpoint, cursor: certificate.cursor, view: certificate.view)
  }
}

/// Holds the copy stream on a thread of its own and says that something changed; it reads no row and touches no store, so
/// the thread that owns the store takes the events by `catchUp` (architecture, concurrency). It reconnects as a held stream
/// does (D40.4, D40.5, D40.7).
package struct StreamListener: Sendable {
  private let context: Context
  private let stop: StopFlag

  /// A listener that ends when `stop` is set.
  package init(context: Context, stop: StopFlag) {
    self.context = context
    self.stop = stop
  }

  /// Listens from a place until told to stop, or until the stream can no longer be had from there: the copy's position,
  /// view or credential ended, which a catch-up then finds; the last news is then `.changed`.
  /// - Returns: why the place is of no more use; nil after a stop.
  package func listen(from start: StreamPlace, onNews: (StreamNews) -> Void) -> MarfaError? {
    var cursor = start.cursor
    var wait: UInt64 = 1
    var isTold = false
    while !stop.isSet {
      // A connection anew each time: its root read tells another instance or contract before the credential goes out.
      let server = ServerConnection(endpoint: start.endpoint, credentials: nil, context: context)
      server.stop = stop
      let opened = context.clock.monotonic
      var failure: MarfaError?
      var isOpen = false
      var isOver = false
      do throws(MarfaError) {
        _ = try server.copyStream(from: (cursor, start.view), silence: ServerConnection.Silence.held) {
          (events) throws(MarfaError) in
          if !isOpen {
            isOpen = true
            isTold = false
            onNews(.reachable)
          }
          for event in events where event.id == nil {
            switch event.name.string {
            case "stream_cursor", "stream_live", "stream_incomplete": continue
            case "catchup_too_old", "cursor_ahead", "read_view_changed":
              isOver = true
              onNews(.changed)
              return .enough
            default: continue
            }
          }
          if let last = events.last(where: { $0.id != nil })?.id {
            cursor = last
            onNews(.changed)
          }
          // The log does not announce the catalogs: opened again, they are read by the catch-up this asks for (D40.7).
          guard context.clock.monotonic - opened >= 120_000_000_000 else { return .more }
          onNews(.changed)
          return .enough
        }
      } catch { failure = error }
      if stop.isSet { return nil }
      if isOver { return .expired("read_view_changed", "the copy's place in the event stream is gone") }
      if let failure, !failure.isEnvironmental, failure.code != .streamIncomplete {
        onNews(.changed)
        return failure
      }
      if isOpen, context.clock.monotonic - opened >= 30_000_000_000 { wait = 1 }
      if !isOpen, !isTold {
        isTold = true
        onNews(.unreachable(failure?.message ?? "the event stream ended at once"))
      }
      if context.clock.monotonic - opened >= 120_000_000_000, failure == nil { continue }
      context.scheduler.wait(
        nanoseconds: max(wait, UInt64(min(300, failure?.retryAfter ?? 0))) * 1_000_000_000, unless: stop)
      wait = min(30, wait * 2)
    }
    return nil
  }
}
