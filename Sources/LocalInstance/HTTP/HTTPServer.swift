import CMicroHTTPD
import CPosix
import Glibc
import MarfaBase

/// Serves an engine over HTTP: one thread, one loop. Each round collects the requests that came whole, lets their writes
/// share one durable commit, then sends the answers (platform notes 5: this pays fivefold at 16 in flight).
///
/// It ignores SIGPIPE for the process, which libmicrohttpd needs.
final class HTTPServer {
  /// What turns the server.
  struct Options {
    /// Ends by itself after so many nanoseconds without a request or a held stream; 0 never.
    var idleExit: UInt64 = 0
    /// How long answers under way may take after a stop (N2.2).
    var patience: UInt64 = 5_000_000_000
    /// How long no byte of a body may come before its request is refused (ER2.4).
    var bodyPatience: UInt64 = 60_000_000_000
  }

  private let engine: any ServedEngine
  private let ids: any IdSource
  private let listeners: [Listener]
  let options: Options
  private var daemons: [Served] = []
  private var pending: [Exchange] = []
  private var feeds: [StreamFeed] = []
  /// Requests whose bodies are coming in.
  var receiving: [Exchange] = []
  private var open = 0
  private var lastUse: UInt64 = 0
  private var nextTick: UInt64 = 0
  private var eventsAreDue = false
  private var mustRunAgain = false
  private let lingering = Lingering()
  /// How many writes shared the last commit.
  private var lastWrites = 0

  /// A daemon and how its connections are judged. libmicrohttpd's callbacks get it as their context.
  private final class Served {
    unowned let server: HTTPServer
    let listener: Listener
    var handle: OpaquePointer?

    init(_ server: HTTPServer, _ listener: Listener) {
      self.server = server
      self.listener = listener
    }
  }

  init(engine: any ServedEngine, ids: any IdSource, listeners: [Listener], options: Options = Options()) {
    self.engine = engine
    self.ids = ids
    self.listeners = listeners
    self.options = options
  }

  /// Serves until `stop` is set or the idle time is over. Returns whether every request was answered (EV17.2).
  func run(stop: StopFlag) throws(Listener.Failure) -> Bool {
    signal(SIGPIPE, SIG_IGN)
    let wake = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    guard wake >= 0 else { throw Listener.Failure(description: "no descriptor is left") }
    let waker = WakeHandle(wake)
    let token = stop.onSet { waker.wake() }
    defer {
      stop.forget(token)
      waker.close()
    }
    try start()
    engine.onEvents = { [unowned self] in eventsAreDue = true }
    lastUse = marfa_boottime()
    while !stop.isSet, !isIdleTooLong {
      round()
      wait(wake, until: .max)
    }
    let deadline = marfa_boottime() + options.patience
    engine.stop()
    for served in daemons { MHD_quiesce_daemon(served.handle) }
    eventsAreDue = true
    while open > 0, marfa_boottime() < deadline {
      round()
      if open > 0 { wait(wake, until: deadline) }
    }
    let isClean = open == 0
    end()
    engine.onEvents = nil
    return isClean
  }

  private var isIdleTooLong: Bool {
    options.idleExit > 0 && open == 0 && marfa_boottime() >= lastUse + options.idleExit
  }

  // MARK: The loop

  private func start() throws(Listener.Failure) {
    for listener in listeners {
      let served = Served(self, listener)
      let handle = marfa_httpd_start(
        listener.descriptor,
        { context, connection, _, method, version, bytes, count, carried in
          HTTPServer.of(context).access(context, connection, method, version, bytes, count, carried)
        },
        Unmanaged.passUnretained(served).toOpaque(),
        { context, target, connection in HTTPServer.of(context).begin(target, connection) },
        { context, _, carried, _ in HTTPServer.of(context).completed(carried) },
        { _, _, text in text.map { strlen($0) } ?? 0 }, 120, 65_536)
      guard let handle else {
        end()
        throw Listener.Failure(description: "cannot serve \(listener.url)")
      }
      served.handle = handle
      daemons.append(served)
    }
  }

  private static func of(_ context: UnsafeMutableRawPointer?) -> HTTPServer {
    // The context is the `Served` that `start` gave, held in `daemons` until the daemon has stopped.
    Unmanaged<Served>.fromOpaque(context!).takeUnretainedValue().server
  }

  private func round() {
    mustRunAgain = false
    for served in daemons { MHD_run(served.handle) }
    gather()
    answerPending()
    lingering.drop()
    let now = marfa_boottime()
    if now >= nextTick {
      nextTick = now + 1_000_000_000
      // It says through `onEvents` where a stream has a heartbeat or an end to send.
      engine.tick()
      endBrokenRequests()
    }
    if eventsAreDue {
      eventsAreDue = false
      for feed in feeds {
        feed.push()
        if !feed.isSuspended { mustRunAgain = true }
      }
    }
  }

  /// Takes in the writes that come while those of this round wait for their commit: a commit costs much the same for one
  /// write as for many. What is at hand is taken at once; writers that wrote in the last round are waited for as long as
  /// one of them takes to write again, a few tenths of a millisecond at most. One writer alone is never kept waiting.
  private func gather() {
    var writes = pending.count(where: \.isWrite)
    guard writes > 0 else { return }
    var turns = 0
    while turns < 4, pending.count < 256 {
      for served in daemons { MHD_run(served.handle) }
      let now = pending.count(where: \.isWrite)
      if now == writes {
        guard writes < lastWrites else { break }
        turns += 1
        usleep(60)
      }
      writes = now
    }
    lastWrites = writes
  }

  private func wait(_ wake: Int32, until deadline: UInt64) {
    let now = marfa_boottime()
    // Streams need their heartbeats on time and a busy instance its housekeeping; an idle one sleeps.
    let isBusy = now < lastUse + 10_000_000_000 || !receiving.isEmpty
    let rest: UInt64 = isBusy ? 1_000_000_000 : feeds.isEmpty ? 30_000_000_000 : 5_000_000_000
    var until = min(deadline, now + rest)
    if options.idleExit > 0, open == 0 { until = min(until, lastUse + options.idleExit) }
    if let end = lingering.nextEnd { until = min(until, end) }
    var milliseconds = until <= now ? 0 : (until - now + 999_999) / 1_000_000
    for served in daemons {
      var wanted: UInt64 = 0
      if MHD_get_timeout(served.handle, &wanted) == .YES { milliseconds = min(milliseconds, wanted) }
    }
    if mustRunAgain { milliseconds = 0 }
    var waited = [pollfd(fd: wake, events: Int16(POLLIN), revents: 0)]
    waited += daemons.map { pollfd(fd: marfa_httpd_epoll($0.handle), events: Int16(POLLIN), revents: 0) }
    let first = waited.count
    // A suspended connection is not looked at by libmicrohttpd: a viewer that left is noticed here (EV18.2).
    let quiet = feeds.filter { $0.isSuspended && !$0.isGone }
    waited += quiet.map { pollfd(fd: $0.descriptor, events: hangUp, revents: 0) }
    waited += lingering.waited
    guard poll(&waited, nfds_t(waited.count), Int32(min(milliseconds, 600_000))) > 0 else { return }
    if waited[0].revents != 0 {
      var count: UInt64 = 0
      eventfd_read(wake, &count)
    }
    for (feed, seen) in zip(quiet, waited[first...]) where seen.revents != 0 {
      feed.isGone = true
      feed.resume()
    }
  }

  /// Resumes what is suspended, since stopping a daemon with a suspended connection aborts the process; then stops.
  private func end() {
    for exchange in pending { MHD_resume_connection(exchange.connection) }
    pending.removeAll()
    for feed in feeds {
      feed.isGone = true
      feed.resume()
    }
    for served in daemons where served.handle != nil { MHD_stop_daemon(served.handle) }
    daemons.removeAll()
    lingering.end()
  }

  // MARK: The engine

  private func answerPending() {
    guard !pending.isEmpty else { return }
    let round = pending
    pending.removeAll()
    let writes = round.filter(\.isWrite)
    var answers: [InstanceAnswer] = []
    if writes.count > 1 {
      do {
        try engine.batch {
          for exchange in writes { answers.append(ask(exchange)) }
        }
      } catch {
        // Nothing of the batch was written: each is asked on its own, and answers for itself. Where the batch waited for a
        // lock in vain they have waited with it, and wait no second time (ER4.2).
        answers.removeAll()
        engine.withoutWaiting { answers = writes.map(ask) }
      }
    } else {
      answers = writes.map(ask)
    }
    for (exchange, answer) in zip(writes, answers) { exchange.phase = .ready(answer) }
    for exchange in round {
      if !exchange.isWrite { exchange.phase = .ready(ask(exchange)) }
      exchange.request.body = []
      MHD_resume_connection(exchange.connection)
    }
    mustRunAgain = true
  }

  // MARK: What libmicrohttpd calls

  private func begin(_ target: UnsafePointer<CChar>?, _ connection: OpaquePointer?) -> UnsafeMutableRawPointer? {
    guard let target, let connection else { return nil }
    let raw = UnsafeBufferPointer(start: target, count: strlen(target)).map { UInt8(bitPattern: $0) }
    open += 1
    return Unmanaged.passRetained(Exchange(rawTarget: raw, connection: connection)).toOpaque()
  }

  private func completed(_ carried: UnsafeMutablePointer<UnsafeMutableRawPointer?>?) {
    guard let pointer = carried?.pointee else { return }
    carried?.pointee = nil
    let exchange = Unmanaged<Exchange>.fromOpaque(pointer).takeRetainedValue()
    open -= 1
    lingering.answered(exchange)
    noteReceived(exchange)
    exchange.incoming?.discard()
    lastUse = marfa_boottime()
    if let feed = exchange.feed {
      feeds.removeAll { $0 === feed }
      feed.source.close()
    }
  }

  private func access(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?, _ method: UnsafePointer<CChar>?,
    _ version: UnsafePointer<CChar>?, _ bytes: UnsafePointer<CChar>?, _ count: UnsafeMutablePointer<Int>?,
    _ carried: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
  ) -> MHD_Result {
    guard let context, let connection, let pointer = carried?.pointee, let count, let method, let version else {
      return .NO
    }
    let exchange = Unmanaged<Exchange>.fromOpaque(pointer).takeUnretainedValue()
    lastUse = marfa_boottime()
    switch exchange.phase {
    case .new:
      let served = Unmanaged<Served>.fromOpaque(context).takeUnretainedValue()
      exchange.phase = .receiving
      do throws(Admission.Refused) {
        try admit(exchange, served.listener.admission, String(cString: method), String(cString: version))
      } catch {
        return refuse(refusal(error, exchange), exchange)
      }
      exchange.lastByte = lastUse
      noteReceiving(exchange)
      // Every door but an upload's has a bound.
      guard exchange.bodyLimit == .max else { return .YES }
      switch engine.beginUpload(exchange.request) {
      case .collected: exchange.bodyLimit = Admission.bodyLimit
      case .incoming(let blob): exchange.incoming = blob
      case .refused(let response): return refuse(response, exchange)
      }
      return .YES
    case .receiving:
      if count.pointee > 0 {
        exchange.lastByte = lastUse
        if exchange.refused != nil {
          count.pointee = 0
          return .YES
        }
        if let incoming = exchange.incoming {
          receive(UnsafeRawBufferPointer(start: bytes, count: count.pointee), incoming, exchange)
          count.pointee = 0
          return .YES
        }
        if exchange.request.body.count + count.pointee > exchange.bodyLimit {
          exchange.isTooLarge = true
          exchange.request.body = []
        } else if !exchange.isTooLarge {
          exchange.request.body.append(contentsOf: UnsafeRawBufferPointer(start: bytes, count: count.pointee))
        }
        count.pointee = 0
        return .YES
      }
      if let refused = exchange.refused { return send(refused, exchange) }
      if exchange.isTooLarge { return send(refusal(Admission.tooLarge(exchange.bodyLimit), exchange), exchange) }
      noteReceived(exchange)
      exchange.phase = .pending
      pending.append(exchange)
      MHD_suspend_connection(connection)
      return .YES
    case .ready(.whole(let response)): return send(response, exchange)
    case .ready(.stream(let head, let source)): return stream(head, source, exchange)
    case .pending, .answered: return .YES
    }
  }

  /// Takes a piece of an upload; where it cannot be kept, the upload is refused and nothing of it stays.
  private func receive(_ bytes: UnsafeRawBufferPointer, _ incoming: any ArrivingBlob, _ exchange: Exchange) {
    let before = incoming.count
    do {
      try incoming.append(bytes)
    } catch {
      exchange.refused = refusal(
        Admission.Refused(status: 500, code: "internal_error", message: "Internal server error"), exchange)
    }
    // The disk is looked at once a mebibyte.
    if exchange.refused == nil, incoming.count >> 20 != before >> 20 {
      exchange.refused = engine.refusal(ofUpload: incoming)
    }
    if exchange.refused != nil {
      incoming.discard()
      exchange.incoming = nil
    }
  }

  private func ask(_ exchange: Exchange) -> InstanceAnswer {
    guard let incoming = exchange.incoming else { return engine.handle(exchange.request) }
    return engine.handle(exchange.request, upload: incoming)
  }

  private func admit(
    _ exchange: Exchange, _ listener: Admission.Guard, _ method: String, _ version: String
  ) throws(Admission.Refused) {
    exchange.request.method = method
    exchange.isWrite = !["GET", "HEAD", "OPTIONS"].contains { $0.utf8.elementsEqual(method.utf8) }
    let collected = HeaderBox()
    MHD_get_connection_values_n(
      exchange.connection, .HEADER_KIND,
      { context, _, name, nameCount, value, valueCount in
        func text(_ bytes: UnsafePointer<CChar>?, _ count: Int) -> String {
          String(decoding: UnsafeRawBufferPointer(start: bytes, count: bytes == nil ? 0 : count), as: UTF8.self)
        }
        Unmanaged<HeaderBox>.fromOpaque(context!).takeUnretainedValue().headers
          .append(HTTPHeader(text(name, nameCount), text(value, valueCount)))
        return .YES
      }, Unmanaged.passUnretained(collected).toOpaque())
    let headers = withExtendedLifetime(collected) { collected.headers }
    exchange.request.headers = headers
    if case .ownUser = listener,
      marfa_peer_uid(marfa_httpd_descriptor(exchange.connection)) != Int32(bitPattern: geteuid())
    {
      throw Admission.Refused(status: 403, code: "forbidden", message: "This socket is another user's.")
    }
    (exchange.request.target, exchange.bodyLimit) = try Admission.judge(
      target: exchange.rawTarget, method: method, version: version, headers: headers, guard: listener)
  }

  /// The shell's own refusals look like the engine's (ER1, IN3, IN4).
  func refusal(_ refused: Admission.Refused, _ exchange: Exchange) -> HTTPResponse {
    let body: JSON = ["error": ["code": .string(refused.code), "message": .string(refused.message)]]
    return HTTPResponse(
      status: refused.status,
      headers: [
        HTTPHeader("Content-Type", "application/json"), HTTPHeader("X-Error-Code", refused.code),
        HTTPHeader("X-Marfa-Contract", "0"), HTTPHeader("X-Request-ID", ids.next().description),
      ], body: body.write())
  }

  // MARK: Answers

  /// Refuses a request before its body is read.
  private func refuse(_ response: HTTPResponse, _ exchange: Exchange) -> MHD_Result {
    noteReceived(exchange)
    lingering.hold(exchange)
    return send(response, exchange)
  }

  private func send(_ response: HTTPResponse, _ exchange: Exchange) -> MHD_Result {
    exchange.phase = .answered
    let isHead = exchange.request.method.utf8.elementsEqual("HEAD".utf8)
    let made: OpaquePointer?
    if isHead, response.body.isEmpty, let length = response.header("content-length").flatMap({ UInt64($0) }) {
      // A HEAD tells the length of a body it does not carry (B3.2); the reader is never asked.
      made = MHD_create_response_from_callback(length, 1024, { _, _, _, _ in -2 }, nil, nil)
    } else if response.body.count > LongBody.least {
      made = LongBody(response.body).response()
    } else {
      made = response.body.withUnsafeBytes {
        MHD_create_response_from_buffer($0.count, UnsafeMutableRawPointer(mutating: $0.baseAddress), .RESPMEM_MUST_COPY)
      }
    }
    return queue(made, response, exchange)
  }

  private func stream(_ head: HTTPResponse, _ source: any EventSource, _ exchange: Exchange) -> MHD_Result {
    exchange.phase = .answered
    let feed = StreamFeed(source: source, connection: exchange.connection)
    exchange.feed = feed
    feeds.append(feed)
    let length = head.header("content-length").flatMap { UInt64($0) }
    let made = MHD_create_response_from_callback(
      length ?? UInt64.max, 32_768,
      { context, _, bytes, room in
        guard let context, let bytes else { return -2 }
        return Unmanaged<StreamFeed>.fromOpaque(context).takeUnretainedValue().give(bytes, room)
      }, Unmanaged.passRetained(feed).toOpaque(),
      { context in
        if let context { Unmanaged<StreamFeed>.fromOpaque(context).release() }
      })
    return queue(made, head, exchange)
  }

  private func queue(_ made: OpaquePointer?, _ response: HTTPResponse, _ exchange: Exchange) -> MHD_Result {
    guard let made else { return .NO }
    defer { MHD_destroy_response(made) }
    for header in response.headers {
      // libmicrohttpd writes these itself.
      if isNamed(header.name, "content-length") || isNamed(header.name, "transfer-encoding")
        || isNamed(header.name, "connection") || isNamed(header.name, "date")
      {
        continue
      }
      MHD_add_response_header(made, header.name, header.value)
    }
    return MHD_queue_response(exchange.connection, UInt32(response.status), made)
  }
}

/// A long body, handed to the socket piece by piece, so that a page of notes is not copied whole once more.
private final class LongBody {
  static let least = 1 << 16
  private let bytes: [UInt8]

  init(_ bytes: [UInt8]) { self.bytes = bytes }

  /// The response, which keeps the body until it was sent.
  func response() -> OpaquePointer? {
    MHD_create_response_from_callback(
      UInt64(bytes.count), 131_072,
      { context, position, out, room in
        guard let context, let out else { return -2 }
        return Unmanaged<LongBody>.fromOpaque(context).takeUnretainedValue().give(out, from: Int(position), room)
      }, Unmanaged.passRetained(self).toOpaque(),
      { context in
        if let context { Unmanaged<LongBody>.fromOpaque(context).release() }
      })
  }

  private func give(_ out: UnsafeMutablePointer<CChar>, from start: Int, _ room: Int) -> Int {
    let count = min(room, bytes.count - start)
    guard count > 0 else { return -1 }
    bytes.withUnsafeBytes { UnsafeMutableRawPointer(out).copyMemory(from: $0.baseAddress! + start, byteCount: count) }
    return count
  }
}

/// Collects headers behind a C callback.
private final class HeaderBox {
  var headers: [HTTPHeader] = []
}

/// `POLLRDHUP`, which Glibc shows only under _GNU_SOURCE, and an error.
private let hangUp: Int16 = 0x2000
