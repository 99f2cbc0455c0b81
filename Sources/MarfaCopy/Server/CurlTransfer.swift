import CCurl
import CPosix
import Glibc
import MarfaBase

/// One request on its way: what it sends, what came so far, and its timers.
///
/// libcurl's callbacks see it through an unretained pointer; `CurlMulti.active` holds it for as long as the easy handle
/// is in the multi handle, and `release` is called before it lets go.
final class CurlTransfer {
  /// How the answer is wanted.
  enum Kind {
    /// Collected, up to the request's limit.
    case whole
    /// Handed on as it comes.
    case stream
  }

  /// What the timers say.
  enum Verdict {
    /// Nothing is due before that time.
    case going(deadline: UInt64)
    /// A stream's bytes stayed away.
    case silent
    /// A time ran out.
    case late(TransportError)
  }

  let request: HTTPRequest
  let tag: Int
  let kind: Kind
  /// Nanoseconds without a byte after which a stream counts as silent.
  var silence: UInt64 = 0
  private(set) var easy: UnsafeMutableRawPointer?
  /// Status and headers, once they are whole; 1xx and a proxy's own are passed over.
  private(set) var head: HTTPResponse?
  private(set) var isDone = false
  private(set) var failure: TransportError?
  /// Whether the answer was ended at its headers.
  private var isCutShort = false

  private var options = CurlTransport.Options()
  private var status = 0
  private var headers: [HTTPHeader] = []
  private var body: [UInt8] = []
  private var pieces: [[UInt8]] = []
  private var list: UnsafeMutablePointer<curl_slist>?
  private var upload: UploadFile?
  private var localSocket: LocalSocket?
  /// How often it went out.
  private var sendings = 0
  private var startedAt: UInt64 = 0
  /// When bytes last went out, the answer began, and bytes last came in, on CLOCK_BOOTTIME.
  private var lastSent: UInt64 = 0
  private var answeredAt: UInt64 = 0
  private var lastReceived: UInt64 = 0

  init(_ request: HTTPRequest, tag: Int, kind: Kind) {
    self.request = request
    self.tag = tag
    self.kind = kind
  }

  deinit { curl_slist_free_all(list) }

  /// The outcome, once the transfer is done.
  var result: Result<HTTPResponse, TransportError> {
    if let failure { return .failure(failure) }
    guard var answer = head else { return .failure(.unreachable("no answer came")) }
    answer.body = body
    return .success(answer)
  }

  /// The bytes that came since the last call.
  func takePieces() -> [[UInt8]] {
    defer { pieces.removeAll() }
    return pieces
  }

  func fail(_ reason: TransportError) {
    isDone = true
    if failure == nil { failure = reason }
  }

  /// Lets go of the easy handle and what it pointed to.
  func release() {
    easy = nil
    curl_slist_free_all(list)
    list = nil
    upload = nil
    localSocket = nil
  }

  // MARK: Timers

  /// Judges the timers: an answer must begin `answerTimeout` after the last byte was sent and end `bodyTimeout` after its
  /// first; a stream may not be silent for longer than allowed. libcurl's own low-speed timer would wake an idle stream
  /// once a second.
  func verdict(at now: UInt64) -> Verdict {
    guard request.wholeTimeout > 0 else { return partVerdict(at: now) }
    let end = startedAt.addingClamped(request.wholeTimeout)
    if now >= end {
      return .late(.timedOut("no whole answer within \(request.wholeTimeout / 1_000_000_000) s"))
    }
    let part = partVerdict(at: now)
    if case .going(let deadline) = part { return .going(deadline: min(deadline, end)) }
    return part
  }

  private func partVerdict(at now: UInt64) -> Verdict {
    guard head != nil else {
      let deadline = lastSent.addingClamped(request.answerTimeout)
      return now >= deadline
        ? .late(.timedOut("no answer began within \(request.answerTimeout / 1_000_000_000) s"))
        : .going(deadline: deadline)
    }
    var deadline = UInt64.max
    if request.bodyTimeout > 0 {
      deadline = answeredAt.addingClamped(request.bodyTimeout)
      if now >= deadline {
        return .late(.timedOut("the answer did not end within \(request.bodyTimeout / 1_000_000_000) s"))
      }
    }
    if case .stream = kind, silence > 0 {
      let quiet = lastReceived.addingClamped(silence)
      if now >= quiet { return .silent }
      deadline = min(deadline, quiet)
    }
    return .going(deadline: deadline)
  }

  // MARK: Setting up

  /// Sets an easy handle up. Where that can't be, `failure` says why.
  func prepare(_ easy: UnsafeMutableRawPointer, options: CurlTransport.Options) -> Bool {
    self.easy = easy
    self.options = options
    guard let address = CurlAddress(request.url), !request.url.utf8.contains(0) else {
      fail(.unreachable("the address cannot be used"))
      return false
    }
    if address.isLocalInstance, options.localSocket == nil {
      fail(.unreachable("this machine's own instance has no address here"))
      return false
    }
    startedAt = marfa_boottime()
    lastSent = startedAt
    set(CURLOPT_URL, request.url)
    set(CURLOPT_PATH_AS_IS, 1)
    set(CURLOPT_NOSIGNAL, 1)
    set(CURLOPT_PROTOCOLS_STR, "http,https")
    set(CURLOPT_CONNECTTIMEOUT_MS, 10_000)
    // A name being looked up must not hold a stop.
    set(CURLOPT_QUICK_EXIT, 1)
    set(CURLOPT_TCP_KEEPALIVE, 1)
    set(CURLOPT_TCP_NODELAY, 1)
    set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
    set(CURLOPT_ACCEPT_ENCODING, "")
    set(CURLOPT_USERAGENT, options.userAgent)
    if let file = options.authorityFile {
      // The private authority comes beside the system's: those stay in the hashed directory.
      _ = file.withCString { marfa_curl_set_text(easy, CURLOPT_CAINFO, $0) }
      set(CURLOPT_CAPATH, "/etc/ssl/certs")
    }
    route(address)
    guard setHeaders(), setBody() else { return false }
    let this = Unmanaged.passUnretained(self).toOpaque()
    _ = marfa_curl_set_pointer(easy, CURLOPT_PREREQDATA, this)
    _ = marfa_curl_set_before_request(easy) { context, _, _, _, _ in CurlTransfer.of(context).judgeSending() }
    _ = marfa_curl_set_callback(easy, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
      CurlTransfer.of(context).takeHeader(UnsafeRawBufferPointer(start: bytes, count: size * count))
    }
    _ = marfa_curl_set_callback(easy, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
      CurlTransfer.of(context).takeBody(UnsafeRawBufferPointer(start: bytes, count: size * count))
    }
    _ = marfa_curl_set_pointer(easy, CURLOPT_HEADERDATA, this)
    _ = marfa_curl_set_pointer(easy, CURLOPT_WRITEDATA, this)
    return true
  }

  private static func of(_ context: UnsafeMutableRawPointer?) -> CurlTransfer {
    // libcurl gives back the pointer `prepare` set, of an object the multi handle holds.
    Unmanaged<CurlTransfer>.fromOpaque(context!).takeUnretainedValue()
  }

  private func set(_ option: CURLoption, _ value: Int) { _ = marfa_curl_set_long(easy, option, value) }
  private func set(_ option: CURLoption, _ value: String) { _ = marfa_curl_set_text(easy, option, value) }

  /// Loopback and the local instance never go through a proxy; others by the environment, else by the desktop (P6.2).
  private func route(_ address: CurlAddress) {
    if address.isLoopback {
      set(CURLOPT_PROXY, "")
    } else if let desktop = options.desktopProxy, !Self.environmentNamesProxy, let proxy = desktop(request.url) {
      set(CURLOPT_PROXY, proxy)
    }
    guard address.isLocalInstance else { return }
    // libcurl keys the connection by this text; where it leads is written, and its peer judged, below.
    set(CURLOPT_UNIX_SOCKET_PATH, "/marfa-local-instance")
    _ = marfa_curl_set_pointer(easy, CURLOPT_OPENSOCKETDATA, Unmanaged.passUnretained(self).toOpaque())
    _ = marfa_curl_set_open_socket(easy) { context, _, address in CurlTransfer.of(context).openLocalSocket(address) }
  }

  private static var environmentNamesProxy: Bool {
    // The names libcurl reads; it takes http_proxy in lower case only.
    let names = ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    return names.contains { (name: String) in getenv(name) != nil }
  }

  private func openLocalSocket(_ address: UnsafeMutablePointer<curl_sockaddr>?) -> curl_socket_t {
    guard let path = options.localSocket, let address else { return -1 }
    var socket = LocalSocket(path)
    let opened = socket.open(address)
    localSocket = consume socket
    switch opened {
    case .success(let descriptor): return descriptor
    case .failure(let reason):
      failure = reason
      return -1
    }
  }

  /// Asked each time the request is about to go out.
  private func judgeSending() -> Int32 {
    sendings += 1
    if sendings > 1, goesOutOnce {
      failure = .unreachable("the connection broke before an answer came")
      return CURL_PREREQFUNC_ABORT
    }
    guard let reason = localSocket?.refusal() else { return CURL_PREREQFUNC_OK }
    failure = reason
    return CURL_PREREQFUNC_ABORT
  }

  /// A write of the queue is sent again by the queue alone, when it says so (Q28.2): libcurl would send it a second time
  /// where a kept connection broke under it.
  private var goesOutOnce: Bool {
    request.headers.contains { header in
      header.name.utf8.map { $0 | 0x20 }.elementsEqual("idempotency-key".utf8.map { $0 | 0x20 })
    }
  }

  private func setHeaders() -> Bool {
    var hasType = false
    for header in request.headers {
      let name = Array(header.name.utf8)
      let value = Array(header.value.utf8)
      guard !name.isEmpty, !(name + value).contains(where: { $0 == 0 || $0 == 10 || $0 == 13 }) else {
        fail(.unreachable("the header \(header.name) cannot be sent"))
        return false
      }
      if name.map({ $0 | 0x20 }).elementsEqual("content-type".utf8) { hasType = true }
      // "Name:" would take the header away; "Name;" sends it empty.
      list = curl_slist_append(list, value.isEmpty ? "\(header.name);" : "\(header.name): \(header.value)") ?? list
    }
    if !hasType { list = curl_slist_append(list, "Content-Type:") ?? list }
    _ = marfa_curl_set_list(easy, CURLOPT_HTTPHEADER, list)
    return true
  }

  private func setBody() -> Bool {
    let method = request.method
    switch request.body {
    case .none:
      let mayHaveBody = ["POST", "PUT", "PATCH"].contains { $0.utf8.elementsEqual(method.utf8) }
      if mayHaveBody { setBytes([]) } else { set(CURLOPT_HTTPGET, 1) }
    case .bytes(let bytes): setBytes(bytes)
    case .file(let path, let size):
      do throws(FileError) {
        upload = try UploadFile(path, size: size)
      } catch {
        fail(.local(error))
        return false
      }
      set(CURLOPT_UPLOAD, 1)
      _ = marfa_curl_set_off(easy, CURLOPT_INFILESIZE_LARGE, curl_off_t(size))
      let this = Unmanaged.passUnretained(self).toOpaque()
      _ = marfa_curl_set_callback(easy, CURLOPT_READFUNCTION) { bytes, size, count, context in
        CurlTransfer.of(context).giveBody(UnsafeMutableRawBufferPointer(start: bytes, count: size * count))
      }
      _ = marfa_curl_set_pointer(easy, CURLOPT_READDATA, this)
      // A kept connection that turned out dead is tried again from the file's start.
      _ = marfa_curl_set_seek(easy) { context, offset, origin in
        origin == SEEK_SET && CurlTransfer.of(context).upload?.seek(to: Int64(offset)) == true
          ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL
      }
      _ = marfa_curl_set_pointer(easy, CURLOPT_SEEKDATA, this)
    }
    if method.utf8.elementsEqual("HEAD".utf8) { set(CURLOPT_NOBODY, 1) } else { set(CURLOPT_CUSTOMREQUEST, method) }
    return true
  }

  private func setBytes(_ bytes: [UInt8]) {
    set(CURLOPT_POST, 1)
    _ = marfa_curl_set_off(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(bytes.count))
    // POSTFIELDS would keep a pointer into an array that moves; this copies.
    bytes.withUnsafeBytes { raw in
      _ = raw.baseAddress.map {
        marfa_curl_set_pointer(easy, CURLOPT_COPYPOSTFIELDS, UnsafeMutableRawPointer(mutating: $0))
      }
    }
    if bytes.isEmpty { set(CURLOPT_COPYPOSTFIELDS, "") }
  }

  // MARK: What libcurl tells

  private func takeHeader(_ line: UnsafeRawBufferPointer) -> Int {
    lastReceived = marfa_boottime()
    let text = line.prefix { $0 != 10 && $0 != 13 }
    if text.starts(with: "HTTP/".utf8), head == nil {
      headers.removeAll()
      let code = text.drop { $0 != 0x20 }.dropFirst().prefix { $0 >= 0x30 && $0 <= 0x39 }
      status = code.prefix(3).reduce(0) { $0 * 10 + Int($1 - 0x30) }
    } else if text.isEmpty {
      if head == nil, status >= 200 {
        head = HTTPResponse(status: status, headers: headers)
        answeredAt = lastReceived
        if case .whole = kind, let head, request.takesBody?(head) == false {
          isCutShort = true
          return 0
        }
      }
    } else if head == nil, let colon = text.firstIndex(of: UInt8(ascii: ":")) {
      let blank: (UInt8) -> Bool = { $0 == 0x20 || $0 == 9 }
      var value = text[(colon + 1)...].drop(while: blank)
      while let last = value.last, blank(last) { value = value.dropLast() }
      headers.append(
        HTTPHeader(String(decoding: text[..<colon], as: UTF8.self), String(decoding: value, as: UTF8.self)))
    }
    return line.count
  }

  private func takeBody(_ bytes: UnsafeRawBufferPointer) -> Int {
    lastReceived = marfa_boottime()
    switch kind {
    case .whole:
      guard body.count + bytes.count <= request.bodyLimit else {
        failure = .tooLarge
        return 0
      }
      if body.isEmpty, let length = head?.header("content-length").flatMap({ Int($0) }), length > bytes.count {
        // A page of notes would be copied at each doubling. What a server says is no reason to take more than this at once.
        body.reserveCapacity(min(length, request.bodyLimit, 1 << 24))
      }
      body.append(contentsOf: bytes)
    case .stream: pieces.append(Array(bytes))
    }
    return bytes.count
  }

  private func giveBody(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
    lastSent = marfa_boottime()
    guard let upload else { return marfa_curl_read_abort() }
    do throws(FileError) {
      return try upload.read(into: buffer)
    } catch {
      failure = .local(error)
      return marfa_curl_read_abort()
    }
  }

  /// Takes libcurl's word for how it ended. What a callback of ours found out says more, and is kept.
  func end(_ code: CURLcode) {
    isDone = true
    if code == CURLE_OK || isCutShort {
      // An answer that came whole although the upload was cut short stands: the server said why.
      failure = nil
      return
    }
    if failure == nil { failure = CurlFailure.of(code, easy, local: localSocket?.path) }
  }
}

extension UInt64 {
  /// The sum, or the greatest number where it would pass that.
  fileprivate func addingClamped(_ other: UInt64) -> UInt64 {
    let (sum, isOver) = addingReportingOverflow(other)
    return isOver ? .max : sum
  }
}
