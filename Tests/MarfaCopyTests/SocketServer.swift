import CPosix
import Glibc
import MarfaBase
import Synchronization

/// A real listening socket whose connections a closure serves, each on a thread of its own.
final class SocketServer: Sendable {
  /// One accepted connection.
  struct Connection: Sendable {
    let descriptor: Int32

    /// Sends text; false once the peer is gone.
    @discardableResult
    func send(_ text: String) -> Bool {
      let bytes = Array(text.utf8)
      var sent = 0
      while sent < bytes.count {
        let count = bytes.withUnsafeBytes {
          Glibc.send(descriptor, $0.baseAddress! + sent, bytes.count - sent, Int32(MSG_NOSIGNAL))
        }
        if count <= 0 { return false }
        sent += count
      }
      return true
    }

    /// Reads one request with a Content-Length body; nil at the end of the connection.
    func request() -> (head: String, body: [UInt8])? {
      var bytes: [UInt8] = []
      let blank = Array("\r\n\r\n".utf8)
      while true {
        if bytes.count >= 4, let end = (0...(bytes.count - 4)).first(where: { Array(bytes[$0..<($0 + 4)]) == blank }) {
          let head = String(decoding: bytes[..<end], as: UTF8.self)
          var length = 0
          for line in head.split(separator: "\r\n") where line.lowercased().hasPrefix("content-length:") {
            length = Int(line.split(separator: " ").last ?? "") ?? 0
          }
          if head.lowercased().contains("expect: 100-continue") { send("HTTP/1.1 100 Continue\r\n\r\n") }
          var body = Array(bytes[(end + 4)...])
          while body.count < length, let more = read() { body += more }
          return (head, body)
        }
        guard let more = read() else { return nil }
        bytes += more
      }
    }

    /// The next bytes, nil at the end.
    func read() -> [UInt8]? {
      var buffer = [UInt8](repeating: 0, count: 65_536)
      let count = recv(descriptor, &buffer, buffer.count, 0)
      return count > 0 ? Array(buffer[..<count]) : nil
    }
  }

  let port: UInt16
  let accepted = Atomic<Int>(0)
  private let listener: Int32

  /// Serves 127.0.0.1, any port.
  init(serve: @escaping @Sendable (Connection) -> Void) {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    let made = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        _ = bind(made, $0, size)
        _ = getsockname(made, $0, &size)
      }
    }
    port = UInt16(bigEndian: address.sin_port)
    listener = made
    listen(made, 64)
    start(serve)
  }

  /// Serves a unix socket.
  init(path: String, serve: @escaping @Sendable (Connection) -> Void) {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    port = 0
    let made = listener
    withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        _ = bind(made, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    listen(made, 64)
    start(serve)
  }

  private func start(_ serve: @escaping @Sendable (Connection) -> Void) {
    detachThread { [self] in
      while true {
        let descriptor = accept(listener, nil, nil)
        if descriptor < 0 { return }
        accepted.add(1, ordering: .relaxed)
        detachThread {
          serve(Connection(descriptor: descriptor))
          close(descriptor)
        }
      }
    }
  }

  func stop() { shutdown(listener, Int32(SHUT_RDWR)) }

  func url(_ path: String) -> String { "http://127.0.0.1:\(port)\(path)" }
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
      Unmanaged<Box>.fromOpaque($0!).takeRetainedValue().work(); return nil
    },
    Unmanaged.passRetained(Box(work)).toOpaque())
  pthread_detach(thread)
}

/// A directory that goes with the test.
struct ScratchDirectory: ~Copyable {
  let path: String
  init() {
    var template = Array("/tmp/marfa-test-XXXXXX".utf8CString)
    path = template.withUnsafeMutableBufferPointer { String(cString: mkdtemp($0.baseAddress!)) }
  }
  deinit {
    guard let listing = opendir(path) else { return }
    while let entry = readdir(listing) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      unlink("\(path)/\(name)")
    }
    closedir(listing)
    rmdir(path)
  }
}
