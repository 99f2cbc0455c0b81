import CCurl
import CPosix
import Glibc
import MarfaBase
import Synchronization

/// The way to servers over libcurl. No redirect is followed, TLS is always verified, waits end when the stop flag is set.
///
///     let transport = CurlTransport(CurlTransport.Options(localSocket: socketPath))
///     let answer = try transport.send(HTTPRequest(method: "GET", url: "http://local/"), stop: stop)
///
/// It is one for the process: folders of one server share its kept connections (P6.5). Any thread may use it; a pool
/// belongs to one thread. The process ignores SIGPIPE, which TLS may raise on a connection the server closed.
package final class CurlTransport: Transport {
  /// What a transport is told once.
  package struct Options: Sendable {
    /// The unix socket that the address `local` stands for; nil where this process knows none.
    package var localSocket: PathBytes?
    /// A file of certificates trusted beside the system's (MARFA_CA_FILE, P6.2).
    package var authorityFile: PathBytes?
    /// The desktop's proxy for an address, asked where the environment names none (P6.2); nil means direct.
    package var desktopProxy: (@Sendable (_ url: String) -> String?)?
    /// What requests name themselves.
    package var userAgent: String

    /// Options of these parts.
    package init(
      localSocket: PathBytes? = nil, authorityFile: PathBytes? = nil,
      desktopProxy: (@Sendable (_ url: String) -> String?)? = nil, userAgent: String = "marfa-folders"
    ) {
      self.localSocket = localSocket
      self.authorityFile = authorityFile
      self.desktopProxy = desktopProxy
      self.userAgent = userAgent
    }
  }

  let options: Options
  /// Multi handles nobody uses at the moment, with the connections they keep.
  private let idle = Mutex<[CurlMulti]>([])

  /// A transport.
  package init(_ options: Options = Options()) { self.options = options }

  func borrow() -> CurlMulti? {
    idle.withLock { $0.popLast() } ?? CurlMulti()
  }

  func giveBack(_ multi: CurlMulti) {
    idle.withLock { if $0.count < 8 { $0.append(multi) } }
  }

  /// A pool of its own connections; at most 16 of its requests are on the wire at once (Q9.11), the rest wait in line.
  package func pool(stop: StopFlag) -> any RequestPool { CurlPool(self, stop: stop) }

  /// One request, waited for.
  package func send(_ request: HTTPRequest, stop: StopFlag) throws(TransportError) -> HTTPResponse {
    let pool = CurlPool(self, stop: stop)
    pool.start(request, tag: 0)
    guard let answer = pool.next() else { throw .stopped }
    return try answer.result.get()
  }

  /// One request whose answer is read as it comes. `bodyTimeout` bounds the whole of it where it is not 0; `bodyLimit`
  /// does not apply. A stop ends it as `closed`, at any time.
  package func stream(
    _ request: HTTPRequest, silence: UInt64, stop: StopFlag,
    head: (HTTPResponse) -> StreamStep, piece: ([UInt8]) -> StreamStep
  ) throws(TransportError) -> StreamEnd {
    guard let multi = borrow() else { throw .unreachable("libcurl could not start") }
    let token = stop.onSet(multi.waker.wake)
    defer {
      stop.forget(token)
      multi.removeAll()
      giveBack(multi)
    }
    if stop.isSet { return .closed }
    let transfer = CurlTransfer(request, tag: 0, kind: .stream)
    transfer.silence = silence
    guard multi.add(transfer, options: options) else {
      throw transfer.failure ?? .unreachable("libcurl could not start")
    }
    var headGiven = false
    while true {
      multi.perform()
      if let answer = transfer.head, !headGiven {
        headGiven = true
        if case .enough = head(answer) { return .closed }
      }
      for bytes in transfer.takePieces() {
        if stop.isSet { return .closed }
        if case .enough = piece(bytes) { return .closed }
      }
      if stop.isSet { return .closed }
      if transfer.isDone {
        if let failure = transfer.failure { throw failure }
        return .ended
      }
      let now = marfa_boottime()
      switch transfer.verdict(at: now) {
      case .going(let deadline): multi.poll(until: deadline, now: now)
      case .silent: return .silent
      case .late(let failure): throw failure
      }
    }
  }
}

/// Requests under way together on one multi handle.
final class CurlPool: RequestPool {
  /// Most requests of one pool on the wire at once (Q9.11).
  static let width = 16

  private let transport: CurlTransport
  private let multi: CurlMulti?
  private let stop: StopFlag
  private var token = 0
  private var waiting: [CurlTransfer] = []
  private var finished: [CurlTransfer] = []

  init(_ transport: CurlTransport, stop: StopFlag) {
    self.transport = transport
    self.stop = stop
    multi = transport.borrow()
    if let multi { token = stop.onSet(multi.waker.wake) }
  }

  deinit {
    stop.forget(token)
    guard let multi else { return }
    multi.removeAll()
    transport.giveBack(multi)
  }

  var inFlight: Int { (multi?.active.count ?? 0) + waiting.count + finished.count }

  func start(_ request: HTTPRequest, tag: Int) { start([(request, tag)]) }

  func start(_ requests: [(request: HTTPRequest, tag: Int)]) {
    for (request, tag) in requests { waiting.append(CurlTransfer(request, tag: tag, kind: .whole)) }
    activate()
    // Bytes go out now, while the caller does something else with the time.
    collect()
  }

  func next() -> (tag: Int, result: Result<HTTPResponse, TransportError>)? {
    while true {
      if !finished.isEmpty {
        let first = finished.removeFirst()
        return (first.tag, first.result)
      }
      guard inFlight > 0 else { return nil }
      // Every finished message is read before the wait: a transfer that ended inside `perform` leaves nothing to poll for.
      collect()
      if finished.isEmpty {
        if stop.isSet { endAll(.stopped) } else { wait() }
      }
    }
  }

  func ready() -> (tag: Int, result: Result<HTTPResponse, TransportError>)? {
    if finished.isEmpty { collect() }
    guard !finished.isEmpty else { return nil }
    let first = finished.removeFirst()
    return (first.tag, first.result)
  }

  func cancel() {
    multi?.removeAll()
    waiting.removeAll()
    finished.removeAll()
  }

  private func collect() {
    guard let multi else { return }
    finished += multi.perform()
    activate()
  }

  private func activate() {
    while !waiting.isEmpty, (multi?.active.count ?? 0) < Self.width {
      let transfer = waiting.removeFirst()
      guard let multi else {
        transfer.fail(.unreachable("libcurl could not start"))
        finished.append(transfer)
        continue
      }
      if stop.isSet {
        transfer.fail(.stopped)
        finished.append(transfer)
      } else if !multi.add(transfer, options: transport.options) {
        finished.append(transfer)
      }
    }
  }

  private func wait() {
    guard let multi else { return }
    let now = marfa_boottime()
    var nearest = UInt64.max
    var late: [CurlTransfer] = []
    for transfer in multi.active {
      switch transfer.verdict(at: now) {
      case .going(let deadline): nearest = min(nearest, deadline)
      case .silent: late.append(transfer)
      case .late(let failure):
        transfer.fail(failure)
        late.append(transfer)
      }
    }
    if late.isEmpty {
      multi.poll(until: nearest, now: now)
    } else {
      for transfer in late { multi.remove(transfer) }
      finished += late
      activate()
    }
  }

  private func endAll(_ failure: TransportError) {
    let active = multi?.active ?? []
    multi?.removeAll()
    for transfer in active + waiting {
      transfer.fail(failure)
      finished.append(transfer)
    }
    waiting.removeAll()
  }
}
