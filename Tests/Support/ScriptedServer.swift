import CPosix
import Glibc
import MarfaBase
import Synchronization

/// A real server on loopback whose answers a test scripts; what it leaves unanswered goes on to another server, so that a
/// test can stand between the program and a healthy instance.
///
///     let server = try ScriptedServer { request in request.path == "/" ? .root() : .json(503, "{}") }
///     let ran = try await program.run(["--json", "server", "--url", server.url])
package final class ScriptedServer: Sendable {
  /// A request as it came.
  package struct Request: Sendable {
    /// Its method.
    package var method: String
    /// Its target with the query, or a whole address where it was sent to a proxy.
    package var path: String
    /// Its head, as it came.
    package var head: String
    /// Its body.
    package var body: [UInt8]

    /// The target without its query.
    package var door: String { String(path.prefix { $0 != "?" }) }
    /// The body as text.
    package var text: String { String(decoding: body, as: UTF8.self) }
    /// A header's value.
    package func header(_ name: String) -> String? {
      for line in head.split(separator: "\r\n").dropFirst() where line.lowercased().hasPrefix(name.lowercased() + ":") {
        return String(line.dropFirst(name.count + 1).drop { $0 == " " })
      }
      return nil
    }
    /// A member of a form body, its percent escapes left as they are.
    package func form(_ name: String) -> String? {
      for pair in text.split(separator: "&") where pair.hasPrefix(name + "=") {
        return String(pair.dropFirst(name.count + 1))
      }
      return nil
    }
    /// The address it was sent to.
    package var origin: String { "http://" + (header("host") ?? "") }
  }

  /// An answer.
  package struct Reply: Sendable {
    var status: Int
    var headers: [String]
    var body: [UInt8]

    /// JSON under a contract; nil names none.
    package static func json(
      _ status: Int, _ text: String, contract: String? = "0", headers: [String] = []
    ) -> Reply {
      Reply(
        status: status,
        headers: ["Content-Type: application/json"] + (contract.map { ["X-Marfa-Contract: \($0)"] } ?? []) + headers,
        body: Array(text.utf8))
    }

    /// An event stream that ends after these frames.
    package static func events(_ frames: String) -> Reply {
      Reply(
        status: 200, headers: ["Content-Type: text/event-stream", "X-Marfa-Contract: 0"], body: Array(frames.utf8))
    }

    /// The root of an instance.
    package static func root(contract: String? = "0") -> Reply {
      .json(
        200,
        #"{"name":"marfa","version":"1","instance_id":"019a0000-0000-7000-8000-0000000000aa","contract":0,"features":[]}"#,
        contract: contract)
    }
  }

  private let listener: Int32
  private let upstream: (@Sendable () -> String)?
  private let seen = Mutex<[Request]>([])
  private let answer: @Sendable (Request) -> Reply?
  /// Its address.
  package let url: String

  /// Listens on any port of loopback.
  /// - Parameters:
  ///   - upstream: the address of the server what is not answered here goes to.
  ///   - answer: the answer to a request; nil lets it through. Called on threads of its own.
  package convenience init(upstream: String? = nil, _ answer: @escaping @Sendable (Request) -> Reply?) throws {
    let forward: (@Sendable () -> String)? = if let upstream { { upstream } } else { nil }
    try self.init(through: forward, answer)
  }

  /// The same before a server whose address may change.
  package init(through upstream: (@Sendable () -> String)?, _ answer: @escaping @Sendable (Request) -> Reply?) throws {
    self.answer = answer
    self.upstream = upstream
    let made = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    let bound = withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(made, $0, size) == 0 && getsockname(made, $0, &size) == 0
      }
    }
    guard made >= 0, bound, listen(made, 64) == 0 else { throw ScratchError("no port to listen on") }
    listener = made
    url = "http://127.0.0.1:\(UInt16(bigEndian: address.sin_port))"
    Thread.start { [weak self] in
      while true {
        let descriptor = accept(made, nil, nil)
        if descriptor < 0 {
          if errno == EINTR || errno == ECONNABORTED { continue }
          return
        }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        guard let self else {
          close(descriptor)
          return
        }
        Thread.start {
          self.serve(descriptor)
          close(descriptor)
        }
      }
    }
  }

  deinit { stop() }

  /// Ends it: nothing is accepted any more.
  package func stop() { shutdown(listener, Int32(SHUT_RDWR)) }

  /// The requests so far, in the order they came.
  package var requests: [Request] { seen.withLock { $0 } }
  /// How many came to a door by a method.
  package func count(_ method: String, _ door: String) -> Int {
    requests.count { $0.method == method && $0.door == door }
  }

  private func serve(_ descriptor: Int32) {
    guard let request = read(descriptor) else { return }
    seen.withLock { $0.append(request) }
    if let reply = answer(request) {
      var head = "HTTP/1.1 \(reply.status) Scripted\r\nConnection: close\r\nContent-Length: \(reply.body.count)\r\n"
      for line in reply.headers { head += line + "\r\n" }
      send(descriptor, Array((head + "\r\n").utf8) + (request.method == "HEAD" ? [] : reply.body))
    } else if let port = upstream?().split(separator: ":").last.flatMap({ UInt16($0) }) {
      relay(request, descriptor, port)
    }
  }

  private func send(_ descriptor: Int32, _ bytes: [UInt8]) {
    var sent = 0
    while sent < bytes.count {
      let count = bytes.withUnsafeBytes {
        Glibc.send(descriptor, $0.baseAddress! + sent, bytes.count - sent, Int32(MSG_NOSIGNAL))
      }
      if count <= 0 { return }
      sent += count
    }
  }

  private func read(_ descriptor: Int32) -> Request? {
    var bytes: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 65536)
    func more() -> Bool {
      let count = recv(descriptor, &piece, piece.count, 0)
      if count > 0 { bytes += piece[..<count] }
      return count > 0
    }
    let blank = Array("\r\n\r\n".utf8)
    var from = 0
    while true {
      if let end = (from..<max(from, bytes.count - 3)).first(where: { bytes[$0..<($0 + 4)].elementsEqual(blank) }) {
        let head = String(decoding: bytes[..<end], as: UTF8.self)
        let words = (head.split(separator: "\r\n").first ?? "").split(separator: " ")
        guard words.count == 3 else { return nil }
        var request = Request(method: String(words[0]), path: String(words[1]), head: head, body: [])
        let length = request.header("content-length").flatMap { Int($0) } ?? 0
        if request.header("expect") != nil { send(descriptor, Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)) }
        while bytes.count < end + 4 + length { if !more() { return nil } }
        request.body = Array(bytes[(end + 4)..<(end + 4 + length)])
        return request
      }
      from = max(0, bytes.count - 3)
      guard more() else { return nil }
    }
  }

  /// Sends a request on and its answer back, as it comes.
  private func relay(_ request: Request, _ descriptor: Int32, _ port: UInt16) {
    let other = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    defer { close(other) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    address.sin_port = port.bigEndian
    let connected = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(other, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
      }
    }
    guard connected else { return }
    var head = ""
    for line in request.head.split(separator: "\r\n") {
      let name = line.lowercased()
      if name.hasPrefix("host:") {
        head += "Host: 127.0.0.1:\(port)\r\n"
      } else if !name.hasPrefix("connection:"), !name.hasPrefix("expect:") {
        head += line + "\r\n"
      }
    }
    send(other, Array((head + "Connection: close\r\n\r\n").utf8) + request.body)
    var piece = [UInt8](repeating: 0, count: 65536)
    while true {
      var polled = [
        pollfd(fd: other, events: Int16(POLLIN), revents: 0), pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
      ]
      guard poll(&polled, 2, -1) > 0 || errno == EINTR else { return }
      // The client says nothing more: what is readable of it is its end.
      if polled[1].revents != 0 { return }
      guard polled[0].revents != 0 else { continue }
      let count = recv(other, &piece, piece.count, 0)
      if count <= 0 { return }
      send(descriptor, Array(piece[..<count]))
    }
  }
}
