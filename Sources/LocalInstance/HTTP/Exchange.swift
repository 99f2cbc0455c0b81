import CMicroHTTPD
import CPosix
import Glibc
import MarfaBase

/// One request on a connection, from its request line to the last byte of its answer. libmicrohttpd carries it as the
/// request's context, retained until the request has completed.
final class Exchange {
  /// Where it stands.
  enum Phase {
    /// The request line is known.
    case new
    /// Its body is coming in.
    case receiving
    /// It is whole; its connection is suspended and the engine is to be asked.
    case pending
    /// The engine answered; libmicrohttpd asks for it next.
    case ready(InstanceAnswer)
    /// The answer was handed over.
    case answered
  }

  /// The request's target as it was written.
  let rawTarget: [UInt8]
  let connection: OpaquePointer
  let descriptor: Int32
  /// Whether its client had closed its side, with nothing left to read, when it was looked at last.
  var looksGone = false
  /// When its head, or the last byte of its body, came.
  var lastByte: UInt64 = 0
  var phase = Phase.new
  var request = InstanceRequest(method: "", target: "")
  var bodyLimit = 0
  /// Set where a body without a declared length passed the limit: the rest is read and dropped, then refused.
  var isTooLarge = false
  /// Whether its socket is held open behind its answer, since a body was still to come.
  var isLingering = false
  /// The stream it opened.
  var feed: StreamFeed?
  /// An upload's bytes, written as they come.
  var incoming: (any ArrivingBlob)?
  /// What it is answered once the rest of its body was read and dropped.
  var refused: HTTPResponse?

  init(rawTarget: [UInt8], connection: OpaquePointer) {
    self.rawTarget = rawTarget
    self.connection = connection
    descriptor = marfa_httpd_descriptor(connection)
  }

  /// Whether it is of a method that writes; known once it is admitted.
  var isWrite = false
}

/// An open event stream between the engine's source and the socket.
///
/// The server pushes what is due into `buffer` after each commit; libmicrohttpd takes it from there when the socket has
/// room. So what a slow reader leaves is counted in one place (EV16.3).
final class StreamFeed {
  let source: any EventSource
  let connection: OpaquePointer
  let descriptor: Int32
  private var buffer: [UInt8] = []
  private var taken = 0
  private(set) var isOver = false
  /// The peer closed its side: nobody reads any more.
  var isGone = false
  private(set) var isSuspended = false

  init(source: any EventSource, connection: OpaquePointer) {
    self.source = source
    self.connection = connection
    descriptor = marfa_httpd_descriptor(connection)
  }

  /// Takes what is due from the source, and wakes the connection where there is something for it.
  func push() {
    if taken == buffer.count || source.isPushed { pull() }
    if taken < buffer.count || isOver || isGone { resume() }
  }

  func resume() {
    guard isSuspended else { return }
    isSuspended = false
    MHD_resume_connection(connection)
  }

  private func pull() {
    guard !isOver else { return }
    source.unread = buffer.count - taken
    guard let bytes = source.take() else {
      isOver = true
      return
    }
    if taken == buffer.count {
      buffer = bytes
      taken = 0
    } else {
      buffer += bytes
    }
  }

  /// Hands bytes to the socket: a count, 0 for "suspended until there is more", or libmicrohttpd's word for the end.
  func give(_ out: UnsafeMutablePointer<CChar>, _ room: Int) -> Int {
    if isGone { return MHD_CONTENT_READER_END_WITH_ERROR_VALUE }
    if taken == buffer.count { pull() }
    guard taken < buffer.count else {
      if isOver { return MHD_CONTENT_READER_END_OF_STREAM_VALUE }
      isSuspended = true
      MHD_suspend_connection(connection)
      return 0
    }
    let count = min(room, buffer.count - taken)
    buffer.withUnsafeBytes { UnsafeMutableRawPointer(out).copyMemory(from: $0.baseAddress! + taken, byteCount: count) }
    taken += count
    source.unread = buffer.count - taken
    if taken > 1 << 20 {
      buffer.removeFirst(taken)
      taken = 0
    }
    return count
  }
}

/// The macros of these names are casts, which do not import.
private let MHD_CONTENT_READER_END_OF_STREAM_VALUE = -1
private let MHD_CONTENT_READER_END_WITH_ERROR_VALUE = -2
