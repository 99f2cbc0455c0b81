import MarfaBase

/// A marker of the copy stream: exactly its four members (RV3.1).
struct Marker: Sendable {
  var cursor: Text
  var position: Int64
  var instance: Text
  var view: Text

  /// The marker of a frame's data; nil where it is malformed (D17.6).
  init?(_ data: JSON, named name: Text) {
    guard let object = data.object, object.count == 4, object["event_type"]?.text == name,
      let cursor = object["cursor"]?.text, let position = Certificate.position(cursor),
      let instance = object["instance_id"]?.text, EntityID(instance) != nil, let view = object["read_view"]?.text,
      Certificate.isView(view)
    else { return nil }
    (self.cursor, self.position, self.instance, self.view) = (cursor, position, instance, view)
  }
}

extension ServerConnection {
  /// How long a copy stream may keep still, in nanoseconds (D17.3, D40.5).
  enum Silence {
    static let catchUp: UInt64 = 10_000_000_000
    static let held: UInt64 = 90_000_000_000
    static let opening: UInt64 = 15_000_000_000
  }

  /// Opens the copy stream, bare or from a cursor under a view, and hands its events on as they come (RV2).
  /// - Parameters:
  ///   - piece: the events each piece of bytes completed; empty for a comment. It says whether to go on.
  /// - Returns: how the stream ended.
  /// - Throws: the refusal of an opening that is no stream, `decoding` for a line too long (D40.22), what `piece` throws.
  func copyStream(
    from place: (cursor: Text, view: Text)?, silence: UInt64,
    piece: ([ServerEvent]) throws(MarfaError) -> StreamStep
  ) throws(MarfaError) -> StreamEnd {
    if !isRootKnown { _ = try root() }
    let token = try currentCredential()
    do throws(MarfaError) {
      return try open(place, silence, token, piece)
    } catch {
      guard error.code == .unauthorized, let renewed = try renew(token) else { throw error }
      return try open(place, silence, renewed, piece)
    }
  }

  private func open(
    _ place: (cursor: Text, view: Text)?, _ silence: UInt64, _ token: String,
    _ piece: ([ServerEvent]) throws(MarfaError) -> StreamStep
  ) throws(MarfaError) -> StreamEnd {
    if stop.isSet { throw stopped }
    var headers = [HTTPHeader("Accept", "text/event-stream")]
    if let place { headers.append(HTTPHeader("Last-Event-ID", place.cursor.string)) }
    var request = try made("GET", "/events?edges=all&copy=1", headers: headers, view: place?.view, credential: token)
    request.answerTimeout = Silence.opening
    request.bodyTimeout = 0
    var failure: MarfaError?
    var refused: HTTPResponse?
    var parser = EventStreamParser()
    let end: StreamEnd
    do throws(TransportError) {
      end = try context.transport.stream(
        request, silence: silence, stop: stop,
        head: { response in
          do throws(MarfaError) {
            let answer = try judged(response, wrote: false)
            if !answer.isSuccess { refused = response }
            return .more
          } catch {
            failure = error
            return .enough
          }
        },
        piece: { bytes in
          if refused != nil {
            refused?.body += bytes
            return (refused?.body.count ?? 0) > 1 << 20 ? .enough : .more
          }
          do throws(MarfaError) {
            return try piece(try ServerConnection.events(&parser, bytes))
          } catch {
            failure = error
            return .enough
          }
        })
    } catch {
      if let failure { throw failure }
      if let refused { throw refusal(Answer(refused)) }
      // No byte in the time a stream has to begin is silence like any later one (EV16.2, D17.3).
      if case .timedOut(let why) = error {
        throw MarfaError(.streamIncomplete, "the event stream of \(origin) did not begin: \(why)")
      }
      throw self.failure(error)
    }
    if let failure { throw failure }
    if let refused { throw refusal(Answer(refused)) }
    return end
  }

  private static func events(
    _ parser: inout EventStreamParser, _ bytes: [UInt8]
  ) throws(MarfaError) -> [ServerEvent] {
    do throws(EventStreamParser.TooLong) { return try parser.take(bytes) } catch {
      throw MarfaError(.decoding, "a line of the event stream is longer than 64 MiB")
    }
  }

  /// The data of an event as JSON (D40.23).
  static func data(_ event: ServerEvent) throws(MarfaError) -> JSON {
    do throws(JSONError) { return try JSON(parsing: event.data) } catch {
      throw MarfaError(.decoding, "an event of the stream could not be read: \(error.description)")
    }
  }

  /// The head: opens the stream bare, takes its first marker, closes it. A stream that ends before is tried three times
  /// in all; a refusal is not tried again (D7.1).
  func readHead() throws(MarfaError) -> Marker {
    var last = MarfaError(.streamIncomplete, "\(origin) ended the event stream before its first marker")
    for _ in 0..<3 {
      var marker: Marker?
      var malformed = false
      do throws(MarfaError) {
        _ = try copyStream(from: nil, silence: Silence.opening) { (events) throws(MarfaError) in
          guard let first = events.first else { return .more }
          if first.name == "stream_cursor" {
            marker = Marker(try ServerConnection.data(first), named: "stream_cursor")
            malformed = marker == nil
          }
          return .enough
        }
      } catch {
        guard error.code == .network || error.code == .streamIncomplete else { throw error }
        last = error
      }
      if let marker { return marker }
      if malformed {
        throw MarfaError.expired(
          "read_view_invalid", "\(origin) gave no usable position at the head of its event stream")
      }
      if stop.isSet { throw stopped }
    }
    throw last
  }
}
