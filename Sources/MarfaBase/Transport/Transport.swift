/// One header line of a request or an answer.
public struct HTTPHeader: Hashable, Sendable {
  /// The name as sent; compared without regard to ASCII case.
  public var name: String
  /// The value.
  public var value: String

  /// A header line.
  public init(_ name: String, _ value: String) {
    self.name = name
    self.value = value
  }
}

/// What a request carries.
public enum HTTPBody: Sendable {
  /// Nothing.
  case none
  /// These bytes.
  case bytes([UInt8])
  /// The bytes of a file, streamed from disk: its absolute path and its size in bytes.
  case file(PathBytes, size: Int64)
}

/// A request to a server.
public struct HTTPRequest: Sendable {
  /// The method, upper case.
  public var method: String
  /// The absolute address, percent-encoded as it goes on the wire: `http://host:port/items?limit=2`. The address `local`
  /// (this machine's instance, N2.1) stands as `http://local/...`; a transport maps it to the instance's unix socket.
  public var url: String
  /// The header lines, in order.
  public var headers: [HTTPHeader]
  /// The body.
  public var body: HTTPBody
  /// Time to the first byte of an answer, in nanoseconds (30 s, C2.9), and to its end (60 s for JSON).
  public var answerTimeout: UInt64 = 30_000_000_000
  /// Time to the end of the answer's body in nanoseconds, counted from its first byte; 0 means none (a stream, a blob).
  public var bodyTimeout: UInt64 = 60_000_000_000
  /// Time to the end of everything in nanoseconds, connecting included; 0 means none (K17.2).
  public var wholeTimeout: UInt64 = 0
  /// Most bytes an answer's body may have; one byte more is `TransportError.tooLarge`.
  public var bodyLimit: Int = 64 << 20
  /// Asked with status and headers, the body empty: false ends a whole answer there, so that one nobody will read is not
  /// waited for (D42.3). A transport that has answers whole need not ask.
  public var takesBody: (@Sendable (HTTPResponse) -> Bool)?

  /// A request.
  public init(method: String, url: String, headers: [HTTPHeader] = [], body: HTTPBody = .none) {
    self.method = method
    self.url = url
    self.headers = headers
    self.body = body
  }
}

/// A server's answer.
public struct HTTPResponse: Sendable {
  /// The status code.
  public var status: Int
  /// The header lines.
  public var headers: [HTTPHeader]
  /// The body.
  public var body: [UInt8]

  /// An answer.
  public init(status: Int, headers: [HTTPHeader] = [], body: [UInt8] = []) {
    self.status = status
    self.headers = headers
    self.body = body
  }

  /// The first header of a name, in any ASCII case.
  public func header(_ name: String) -> String? {
    func lower(_ byte: UInt8) -> UInt8 { byte >= 0x41 && byte <= 0x5A ? byte | 0x20 : byte }
    return headers.first { header in
      header.name.utf8.count == name.utf8.count
        && zip(header.name.utf8, name.utf8).allSatisfy { lower($0) == lower($1) }
    }?.value
  }
}

/// Why no answer came.
public enum TransportError: Error, Hashable, Sendable {
  /// Nothing listens, no route, no such host, TLS refused, the connection broke. The sentence says which.
  case unreachable(String)
  /// This machine has no network at all; nothing was sent.
  case noConnection(String)
  /// Too long to connect, to an answer's first byte, or to its end.
  case timedOut(String)
  /// The answer's body grew past the request's limit.
  case tooLarge
  /// A body's file could not be read, or a download not be written.
  case local(FileError)
  /// The stop flag was set; whether the server took the request is not known.
  case stopped
}

/// Requests under way together, each known by a tag of the caller's. Used from one thread.
public protocol RequestPool: AnyObject {
  /// Starts a request. Returns at once.
  func start(_ request: HTTPRequest, tag: Int)
  /// Starts several, in their order.
  func start(_ requests: [(request: HTTPRequest, tag: Int)])
  /// How many requests were started and not yet given back by `next`.
  var inFlight: Int { get }
  /// Waits for the next answer or failure, in the order they come; nil where nothing is in flight.
  func next() -> (tag: Int, result: Result<HTTPResponse, TransportError>)?
  /// The next answer or failure that is there already, without waiting; nil where none is.
  func ready() -> (tag: Int, result: Result<HTTPResponse, TransportError>)?
  /// Ends all that is in flight; what `next` has not given back is forgotten.
  func cancel()
}

extension RequestPool {
  /// One after another.
  public func start(_ requests: [(request: HTTPRequest, tag: Int)]) {
    for (request, tag) in requests { start(request, tag: tag) }
  }

  /// A pool that cannot tell gives them one by one.
  public func ready() -> (tag: Int, result: Result<HTTPResponse, TransportError>)? { nil }
}

/// What a stream's reader wants after a piece.
public enum StreamStep: Sendable {
  /// Go on.
  case more
  /// Close the stream.
  case enough
}

/// How a stream ended.
public enum StreamEnd: Sendable {
  /// The reader had enough, or stop was set.
  case closed
  /// The server ended it.
  case ended
  /// No byte came for the silence allowed.
  case silent
}

/// The way to servers. Real: libcurl. In memory: the instance's handler. No redirect is followed (C2.9).
public protocol Transport: Sendable {
  /// A pool for requests that go together, at most 16 over the same connections by Q9.11.
  func pool(stop: StopFlag) -> any RequestPool
  /// One request, waited for.
  func send(_ request: HTTPRequest, stop: StopFlag) throws(TransportError) -> HTTPResponse
  /// One request whose answer is read as it comes. `head` sees status and headers (the body empty) and may end it there;
  /// `piece` sees the bytes as they arrive.
  /// - Parameter silence: nanoseconds without a byte after which the stream counts as broken.
  func stream(
    _ request: HTTPRequest, silence: UInt64, stop: StopFlag,
    head: (HTTPResponse) -> StreamStep, piece: ([UInt8]) -> StreamStep
  ) throws(TransportError) -> StreamEnd
}
