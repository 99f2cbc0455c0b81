import CPosix
import Glibc
import MarfaBase

/// A plain connection to a server under test, for requests no well-behaved client would send.
final class WireClient {
  let descriptor: Int32
  private var rest: [UInt8] = []

  /// Connects to `http://127.0.0.1:PORT`.
  init(url: String) {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = (UInt16(url.split(separator: ":").last ?? "") ?? 0).bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    _ = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    limitWaits()
  }

  /// Connects to a unix socket.
  init(path: String) {
    descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    _ = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    limitWaits()
  }

  private func limitWaits() {
    var patience = timeval(tv_sec: 10, tv_usec: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
  }

  func hangUp() { shutdown(descriptor, Int32(SHUT_RDWR)) }

  deinit { close(descriptor) }

  func write(_ text: String) { write(Array(text.utf8)) }

  func write(_ bytes: [UInt8]) {
    var sent = 0
    while sent < bytes.count {
      let count = bytes.withUnsafeBytes {
        Glibc.send(descriptor, $0.baseAddress! + sent, bytes.count - sent, Int32(MSG_NOSIGNAL))
      }
      if count <= 0 { return }
      sent += count
    }
  }

  /// The next bytes; empty at the end or after ten seconds.
  func read() -> [UInt8] {
    if !rest.isEmpty {
      defer { rest = [] }
      return rest
    }
    var buffer = [UInt8](repeating: 0, count: 65_536)
    let count = recv(descriptor, &buffer, buffer.count, 0)
    return count > 0 ? Array(buffer[..<count]) : []
  }

  /// Reads until the text occurs; everything read so far.
  func read(until wanted: String) -> String {
    var text: [UInt8] = []
    while true {
      let shown = String(decoding: text, as: UTF8.self)
      if shown.contains(wanted) { return shown }
      let more = read()
      if more.isEmpty { return shown }
      text += more
    }
  }

  /// One answer with a Content-Length.
  func answer(toHead isHead: Bool = false) -> HTTPResponse? {
    var bytes: [UInt8] = []
    let blank = Array("\r\n\r\n".utf8)
    func end() -> Int? {
      bytes.count < 4 ? nil : (0...(bytes.count - 4)).first { Array(bytes[$0..<($0 + 4)]) == blank }
    }
    while end() == nil {
      let more = read()
      if more.isEmpty { return nil }
      bytes += more
    }
    let head = end()!
    let lines = String(decoding: bytes[..<head], as: UTF8.self).split(separator: "\r\n").map(String.init)
    var response = HTTPResponse(status: Int(lines[0].split(separator: " ")[1]) ?? 0)
    for line in lines.dropFirst() {
      let parts = line.split(separator: ":", maxSplits: 1).map(String.init)
      response.headers.append(HTTPHeader(parts[0], String(parts.last?.drop { $0 == " " } ?? "")))
    }
    let length = isHead ? 0 : Int(response.header("content-length") ?? "") ?? 0
    var body = Array(bytes[(head + 4)...])
    while body.count < length {
      let more = read()
      if more.isEmpty { return nil }
      body += more
    }
    response.body = Array(body[..<length])
    rest = Array(body[length...])
    return response
  }

  func ask(_ text: String) -> HTTPResponse? {
    write(text)
    return answer(toHead: text.hasPrefix("HEAD"))
  }
}

/// Runs work on a thread of its own.
func detachThread(_ work: @escaping @Sendable () -> Void) {
  final class Box: Sendable {
    let work: @Sendable () -> Void
    init(_ work: @escaping @Sendable () -> Void) { self.work = work }
  }
  var thread = pthread_t()
  pthread_create(
    &thread, nil,
    {
      Unmanaged<Box>.fromOpaque($0!).takeRetainedValue().work()
      return nil
    }, Unmanaged.passRetained(Box(work)).toOpaque())
  pthread_detach(thread)
}

/// Waits for something to come true, ten seconds at most.
func eventually(_ condition: () -> Bool) -> Bool {
  let deadline = marfa_boottime() + 10_000_000_000
  while !condition() {
    if marfa_boottime() > deadline { return false }
    usleep(2_000)
  }
  return true
}
