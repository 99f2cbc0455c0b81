import CPosix
import Glibc
import TestSupport

/// A plain client on a unix socket: kept connections, one request in flight on each, nothing parsed but the length. It
/// costs little, so that what is measured is the server.
final class LoadClient {
  private struct Line {
    var descriptor: Int32
    var sending: [UInt8] = []
    var sent = 0
    var answer: [UInt8] = []
    var isBusy = false
  }

  private var lines: [Line] = []
  private let key: String

  init(socket path: String, key: String, connections: Int) throws {
    self.key = key
    for _ in 0..<connections { lines.append(Line(descriptor: try LoadClient.connected(path))) }
  }

  deinit { for line in lines { close(line.descriptor) } }

  private static func connected(_ path: String) throws -> Int32 {
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix($0.count - 1)) }
    let made = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard descriptor >= 0, made == 0 else { throw ScratchError("cannot reach \(path)") }
    return descriptor
  }

  /// The bytes of a request.
  func request(_ method: String, _ target: String, _ body: [UInt8] = [], headers: [String] = []) -> [UInt8] {
    var head = "\(method) \(target) HTTP/1.1\r\nHost: local\r\nAuthorization: Bearer \(key)\r\n"
    for header in headers { head += header + "\r\n" }
    if !body.isEmpty || method != "GET" {
      head += "Content-Type: application/json\r\nContent-Length: \(body.count)\r\n"
    }
    return Array((head + "\r\n").utf8) + body
  }

  /// Sends `count` requests and reads their answers. Returns each answer's body to `answered`, where it is given.
  func send(_ count: Int, _ request: (Int) -> [UInt8], answered: ((Int, ArraySlice<UInt8>) -> Void)? = nil) throws {
    var (next, done) = (0, 0)
    var places = [Int](repeating: 0, count: lines.count)
    var piece = [UInt8](repeating: 0, count: 1 << 18)
    while done < count {
      for index in lines.indices where !lines[index].isBusy && next < count {
        lines[index].sending = request(next)
        places[index] = next
        next += 1
        lines[index].isBusy = true
        let sent = lines[index].sending.withUnsafeBytes {
          marfa_write_all(lines[index].descriptor, $0.baseAddress, $0.count)
        }
        guard sent == 0 else { throw ScratchError("the server closed a connection") }
      }
      var waited = lines.map { pollfd(fd: $0.isBusy ? $0.descriptor : -1, events: Int16(POLLIN), revents: 0) }
      guard poll(&waited, nfds_t(waited.count), 60_000) > 0 else { throw ScratchError("no answer in a minute") }
      for index in lines.indices where waited[index].revents != 0 {
        let got = read(lines[index].descriptor, &piece, piece.count)
        guard got > 0 else { throw ScratchError("the server closed a connection") }
        lines[index].answer += piece[..<got]
        guard let body = try LoadClient.body(of: lines[index].answer) else { continue }
        answered?(places[index], body)
        lines[index].answer.removeAll(keepingCapacity: true)
        lines[index].isBusy = false
        done += 1
      }
    }
  }

  /// Opens a stream on each connection and waits for its head.
  func openStreams(_ request: [UInt8]) throws {
    var piece = [UInt8](repeating: 0, count: 4096)
    for line in lines {
      let sent = request.withUnsafeBytes { marfa_write_all(line.descriptor, $0.baseAddress, $0.count) }
      guard sent == 0, read(line.descriptor, &piece, piece.count) > 0 else { throw ScratchError("no stream opened") }
    }
  }

  /// The body of a whole answer; nil where more of it is to come.
  private static func body(of answer: [UInt8]) throws -> ArraySlice<UInt8>? {
    let mark: [UInt8] = [13, 10, 13, 10]
    var end = 0
    while end + 4 <= answer.count, !answer[end..<(end + 4)].elementsEqual(mark) { end += 1 }
    guard end + 4 <= answer.count else { return nil }
    let head = String(decoding: answer[..<end], as: UTF8.self)
    var length = 0
    for line in head.split(separator: "\r\n") where line.lowercased().hasPrefix("content-length:") {
      length = line.split(separator: " ").last.flatMap { Int($0) } ?? 0
    }
    guard answer.count >= end + 4 + length else { return nil }
    guard head.dropFirst(9).first == "2" else {
      throw ScratchError("refused: \(String(decoding: answer.prefix(600), as: UTF8.self))")
    }
    return answer[(end + 4)...]
  }
}
