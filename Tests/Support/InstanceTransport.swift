import LocalInstance
import MarfaBase

/// The way to an instance in the same process: requests are handled as they are sent, on the caller's thread.
///
/// A test may look at each request first and answer in the instance's place, fail it, or let it through; it may change
/// what the instance answered. A held stream ends silent once nothing more comes, unless `whileIdle` says that more will.
package final class InstanceTransport: Transport, @unchecked Sendable {
  // Unchecked: the simulation and the tests that use it run on one thread; nothing of it is reached from another.

  /// Where requests go.
  package var handle: (InstanceRequest) -> InstanceAnswer
  /// Asked before each request: what it returns stands in the instance's place; nil lets the request through.
  package var before: ((HTTPRequest) -> Result<HTTPResponse, TransportError>?)?
  /// Sees each whole answer, and each stream's head, and may change it. A failure loses the answer: the instance acted.
  package var after: ((HTTPRequest, HTTPResponse) -> Result<HTTPResponse, TransportError>)?
  /// Changes the bytes of a stream as they pass; nil ends it there.
  package var pieces: ((HTTPRequest, [UInt8]) -> [UInt8]?)?
  /// Called where a stream has nothing to give: whether to ask it again.
  package var whileIdle: (() -> Bool)?
  /// Reads the bytes of a file a request's body names.
  package var readFile: ((PathBytes) -> [UInt8]?)?
  /// Each request sent: method and target.
  package private(set) var requests: [String] = []
  /// The requests whole.
  package private(set) var sent: [HTTPRequest] = []

  /// A transport to a handler.
  package init(handle: @escaping (InstanceRequest) -> InstanceAnswer) { self.handle = handle }

  /// Forgets the requests seen.
  package func clear() {
    requests = []
    sent = []
  }

  private static func target(_ url: String) -> String {
    guard let scheme = url.range(ofText: "://") else { return url }
    let rest = url[scheme.upperBound...]
    guard let slash = rest.firstIndex(of: "/") else { return "/" }
    return String(rest[slash...])
  }

  private func answer(_ request: HTTPRequest) -> Result<InstanceAnswer, TransportError> {
    let target = InstanceTransport.target(request.url)
    requests.append("\(request.method) \(target)")
    sent.append(request)
    if let scripted = before?(request) { return scripted.map { .whole($0) } }
    var body: [UInt8] = []
    switch request.body {
    case .none: break
    case .bytes(let bytes): body = bytes
    case .file(let path, _): body = readFile?(path) ?? []
    }
    return .success(
      handle(InstanceRequest(method: request.method, target: target, headers: request.headers, body: body)))
  }

  package func send(_ request: HTTPRequest, stop: StopFlag) throws(TransportError) -> HTTPResponse {
    if stop.isSet { throw .stopped }
    switch try answer(request).get() {
    case .whole(let response): return try (after?(request, response) ?? .success(response)).get()
    case .stream(let head, let source):
      source.close()
      return head
    }
  }

  package func stream(
    _ request: HTTPRequest, silence: UInt64, stop: StopFlag, head: (HTTPResponse) -> StreamStep,
    piece: ([UInt8]) -> StreamStep
  ) throws(TransportError) -> StreamEnd {
    if stop.isSet { throw .stopped }
    switch try answer(request).get() {
    case .whole(let response):
      let response = try (after?(request, response) ?? .success(response)).get()
      guard head(HTTPResponse(status: response.status, headers: response.headers)) == .more else { return .closed }
      if !response.body.isEmpty, piece(response.body) == .enough { return .closed }
      return .ended
    case .stream(let opening, let source):
      defer { source.close() }
      let opening = try (after?(request, opening) ?? .success(opening)).get()
      guard head(opening) == .more else { return .closed }
      while !stop.isSet {
        guard let bytes = source.take() else { return .ended }
        if bytes.isEmpty {
          guard whileIdle?() ?? false else { return .silent }
          continue
        }
        var passed = bytes
        if let pieces {
          guard let changed = pieces(request, bytes) else { return .ended }
          passed = changed
        }
        if piece(passed) == .enough { return .closed }
      }
      return .closed
    }
  }

  package func pool(stop: StopFlag) -> any RequestPool { Pool(self, stop) }

  private final class Pool: RequestPool {
    private let transport: InstanceTransport
    private let stop: StopFlag
    private var done: [(tag: Int, result: Result<HTTPResponse, TransportError>)] = []

    init(_ transport: InstanceTransport, _ stop: StopFlag) {
      self.transport = transport
      self.stop = stop
    }

    var inFlight: Int { done.count }

    func start(_ request: HTTPRequest, tag: Int) {
      do throws(TransportError) {
        done.append((tag, .success(try transport.send(request, stop: stop))))
      } catch {
        done.append((tag, .failure(error)))
      }
    }

    func next() -> (tag: Int, result: Result<HTTPResponse, TransportError>)? {
      done.isEmpty ? nil : done.removeFirst()
    }

    func ready() -> (tag: Int, result: Result<HTTPResponse, TransportError>)? { next() }

    func cancel() { done = [] }
  }
}

extension String {
  fileprivate func range(ofText text: String) -> Range<String.Index>? {
    var start = startIndex
    while start < endIndex {
      if self[start...].hasPrefix(text) { return start..<index(start, offsetBy: text.count) }
      start = index(after: start)
    }
    return nil
  }
}
