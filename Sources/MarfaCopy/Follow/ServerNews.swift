import MarfaBase

/// Hears that something moved on a server, without taking it: a plain event stream, live only, on a thread of its own. What
/// moved is read by the next pass's catch-up, on the pass's own connection, so the store has one writer.
///
/// Coming to life tells once too: what passed while no stream was open is news.
package struct ServerNews: Sendable {
  /// What is told.
  package enum Item: Sendable {
    /// Something moved, or the stream came back after a gap.
    case moved
    /// The server can't be reached; told at each failed opening.
    case unreachable(MarfaError)
  }

  private let endpoint: Endpoint
  private let context: Context
  private let credential: @Sendable () -> String?

  /// Nothing is asked yet.
  /// - Parameter credential: what to ask with, read anew at each opening.
  package init(endpoint: Endpoint, context: Context, credential: @escaping @Sendable () -> String?) {
    self.endpoint = endpoint
    self.context = context
    self.credential = credential
  }

  /// Listens until `stop` is set; blocks its thread. A stream that ends is opened again after 1 s, doubling to 30, or the
  /// server's longer `Retry-After`; one that lived 30 s resets the wait (EV24.1).
  package func listen(stop: StopFlag, tell: @escaping @Sendable (Item) -> Void) {
    var wait: UInt64 = 1
    while !stop.isSet {
      let opened = context.clock.monotonic
      let failure = hearOnce(stop: stop, tell: tell)
      if stop.isSet { return }
      if context.clock.monotonic &- opened >= 30_000_000_000 { wait = 1 }
      tell(.unreachable(failure))
      let seconds = max(wait, UInt64(min(300, max(0, failure.retryAfter ?? 0))))
      wait = min(30, wait * 2)
      context.scheduler.wait(nanoseconds: seconds * 1_000_000_000, unless: stop)
    }
  }

  private func hearOnce(stop: StopFlag, tell: @Sendable (Item) -> Void) -> MarfaError {
    var asked = endpoint
    asked.credential = credential() ?? endpoint.credential
    let server = ServerConnection(endpoint: asked, credentials: nil, context: context)
    server.stop = stop
    do throws(MarfaError) {
      // The root first: the contract is known before the credential goes (C2.7).
      _ = try server.root()
      let token = try server.currentCredential()
      let request = try server.made(
        "GET", "/events?edges=all", headers: [HTTPHeader("Accept", "text/event-stream")], credential: token)
      var refusal: MarfaError?
      var parser = EventStreamParser()
      let end: StreamEnd
      do throws(TransportError) {
        end = try context.transport.stream(
          request, silence: ServerConnection.Silence.held, stop: stop,
          head: { response in
            do throws(MarfaError) {
              let answer = try server.judged(response, wrote: false)
              if answer.isSuccess { return .more }
              refusal = server.refusal(answer)
            } catch {
              refusal = error
            }
            return .enough
          },
          piece: { bytes in
            guard let events = try? parser.take(bytes) else { return .enough }
            for event in events where event.name != "stream_cursor" { tell(.moved) }
            return .more
          })
      } catch {
        throw server.failure(error)
      }
      if let refusal { throw refusal }
      switch end {
      case .closed, .ended: return MarfaError(.streamIncomplete, "the event stream was closed")
      case .silent: return MarfaError(.streamIncomplete, "the event stream fell silent")
      }
    } catch {
      return error
    }
  }
}
