import LocalInstance
import MarfaBase
import Synchronization
import TestSupport

/// The network of one machine: the instance's own handler, reached without a socket, with what a network does to it.
///
/// `@unchecked`: the whole simulation runs on one thread; nothing here is shared with another.
final class SimTransport: Transport, @unchecked Sendable {
  let inner: InstanceTransport
  let server: Server
  let kill: KillSwitch
  var isOffline = false
  /// Counts down to the request whose answer is lost; negative: none.
  var loseAnswerIn = -1
  /// Requests that reached the instance and may have changed it.
  private(set) var writes = 0
  private(set) var requests = 0
  private(set) var wire = Wire()
  /// Whether each write is printed as it goes out, for a look.
  var isTold = false
  private var random: SplitMix

  init(_ inner: InstanceTransport, server: Server, kill: KillSwitch, seed: UInt64) {
    self.inner = inner
    self.server = server
    self.kill = kill
    random = SplitMix(seed: seed)
  }

  private func deliver(_ request: HTTPRequest) -> Result<HTTPResponse, TransportError> {
    if kill.reached("before request") { return .failure(.stopped) }
    kill.countRequest()
    if isOffline || server.kill.isDead { return .failure(.unreachable("the simulated network is down")) }
    requests += 1
    if request.method != "GET", !request.url.hasSuffix("/items/bulk-get"), !request.url.hasSuffix("/items/lookup") {
      writes += 1
      if isTold { tell(request) }
    }
    wire.sends(request)
    let answer: HTTPResponse
    do throws(TransportError) { answer = try inner.send(request, stop: StopFlag()) } catch { return .failure(error) }
    if server.kill.isDead { return .failure(.unreachable("the server died of it")) }
    if kill.reached("after request") { return .failure(.stopped) }
    if loseAnswerIn >= 0 {
      loseAnswerIn -= 1
      if loseAnswerIn < 0 { return .failure(.unreachable("the answer was lost")) }
    }
    wire.isAnswered(request)
    return .success(answer)
  }

  private func tell(_ request: HTTPRequest) {
    let body = if case .bytes(let bytes) = request.body { String(decoding: bytes, as: UTF8.self) } else { "" }
    print("  > \(request.method) \(request.url.dropFirst("http://local/api/v1".count)) \(body.prefix(300))")
  }

  func send(_ request: HTTPRequest, stop: StopFlag) throws(TransportError) -> HTTPResponse {
    try deliver(request).get()
  }

  func stream(
    _ request: HTTPRequest, silence: UInt64, stop: StopFlag, head: (HTTPResponse) -> StreamStep,
    piece: ([UInt8]) -> StreamStep
  ) throws(TransportError) -> StreamEnd {
    if kill.reached("before stream") { throw .stopped }
    kill.countRequest()
    if isOffline || server.kill.isDead { throw .unreachable("the simulated network is down") }
    requests += 1
    return try inner.stream(request, silence: silence, stop: stop, head: head, piece: piece)
  }

  func pool(stop: StopFlag) -> any RequestPool { Pool(self) }

  /// Requests under way together; which is answered next is drawn, as on a real network.
  private final class Pool: RequestPool {
    let transport: SimTransport
    var waiting: [(tag: Int, request: HTTPRequest)] = []

    init(_ transport: SimTransport) { self.transport = transport }

    func start(_ request: HTTPRequest, tag: Int) { waiting.append((tag, request)) }
    var inFlight: Int { waiting.count }
    func next() -> (tag: Int, result: Result<HTTPResponse, TransportError>)? {
      guard !waiting.isEmpty else { return nil }
      let (tag, request) = waiting.remove(at: Int.random(in: 0..<waiting.count, using: &transport.random))
      return (tag, transport.deliver(request))
    }
    /// Answers come alone or together.
    func ready() -> (tag: Int, result: Result<HTTPResponse, TransportError>)? {
      !waiting.isEmpty && Bool.random(using: &transport.random) ? next() : nil
    }
    func cancel() { waiting = [] }
  }
}
