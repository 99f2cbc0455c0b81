import CCurl
import CPosix
import Glibc
import MarfaBase

/// Where a request's address leads, judged before anything is sent.
struct CurlAddress {
  /// Whether it is `http://local/...`, this machine's own instance behind its unix socket (N2.1).
  let isLocalInstance: Bool
  /// Whether it never goes through a proxy (P6.2): the local instance, `localhost`, `127.0.0.0/8` and `::1`.
  let isLoopback: Bool

  /// The address of a URL; nil where it is none libcurl can use, or neither http nor https.
  init?(_ url: String) {
    guard let parts = curl_url() else { return nil }
    defer { curl_url_cleanup(parts) }
    guard curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK,
      let scheme = Self.part(parts, CURLUPART_SCHEME), let host = Self.part(parts, CURLUPART_HOST)
    else { return nil }
    let isPlain = scheme.elementsEqual("http".utf8)
    guard isPlain || scheme.elementsEqual("https".utf8) else { return nil }
    let name = host.map { $0 >= 0x41 && $0 <= 0x5A ? $0 | 0x20 : $0 }
    isLocalInstance = isPlain && name.elementsEqual("local".utf8) && Self.part(parts, CURLUPART_PORT) == nil
    isLoopback = isLocalInstance || Self.isLoopback(name)
  }

  private static func part(_ parts: OpaquePointer, _ which: CURLUPart) -> [UInt8]? {
    var text: UnsafeMutablePointer<CChar>?
    guard curl_url_get(parts, which, &text, 0) == CURLUE_OK, let text else { return nil }
    defer { curl_free(text) }
    return UnsafeBufferPointer(start: text, count: strlen(text)).map { UInt8(bitPattern: $0) }
  }

  /// Whether a host, as libcurl normalizes it (IPv4 dotted, IPv6 in brackets, lower case), is this machine's loopback.
  private static func isLoopback(_ host: [UInt8]) -> Bool {
    if host.elementsEqual("localhost".utf8) || host.elementsEqual("localhost.".utf8) { return true }
    var four = in_addr()
    let plain = host.map { CChar(bitPattern: $0) } + [0]
    if inet_pton(AF_INET, plain, &four) == 1 { return UInt32(bigEndian: four.s_addr) >> 24 == 127 }
    guard host.first == UInt8(ascii: "["), host.last == UInt8(ascii: "]") else { return false }
    let inner = host.dropFirst().dropLast().prefix { $0 != UInt8(ascii: "%") }.map { CChar(bitPattern: $0) } + [0]
    var six = in6_addr()
    guard inet_pton(AF_INET6, inner, &six) == 1 else { return false }
    return withUnsafeBytes(of: &six) { bytes in
      // ::1, and an IPv4 loopback written as ::ffff:127.x.y.z.
      bytes.dropLast().allSatisfy { $0 == 0 } && bytes[15] == 1
        || bytes.prefix(10).allSatisfy { $0 == 0 } && bytes[10] == 0xFF && bytes[11] == 0xFF && bytes[12] == 127
    }
  }
}

/// The way to this machine's own instance: a unix socket, and the proof that our own user listens there, before a byte
/// of a request is sent (N2.1).
///
/// libcurl 7.88 connects again what its callback connected, so the socket is opened here, connected by libcurl to the
/// address written here, and judged here once more before the request goes out.
struct LocalSocket: ~Copyable {
  let path: PathBytes
  /// The socket, which is libcurl's to close; nil where a kept connection is used, which was judged when it was new.
  private var descriptor: Int32?
  /// The directory of a path longer than a socket address holds, open until the connection stands.
  private var directory: Int32 = -1

  init(_ path: PathBytes) { self.path = path }

  deinit { if directory >= 0 { close(directory) } }

  /// Opens a socket and writes where it is to be connected to.
  mutating func open(_ address: UnsafeMutablePointer<curl_sockaddr>) -> Result<curl_socket_t, TransportError> {
    var reached = path.bytes
    let room = MemoryLayout.size(ofValue: sockaddr_un().sun_path) - 1
    if reached.count > room {
      if directory >= 0 { close(directory) }
      directory = path.parent.withCString { marfa_openat(AT_FDCWD, $0, marfa_o_path | O_DIRECTORY, 0) }
      guard directory >= 0 else { return .failure(Self.unreachable(path, -directory)) }
      reached = Array("/proc/self/fd/\(directory)/".utf8) + path.name.bytes
      guard reached.count <= room else { return .failure(Self.unreachable(path, ENAMETOOLONG)) }
    }
    let made = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard made >= 0 else { return .failure(Self.unreachable(path, errno)) }
    var target = sockaddr_un()
    target.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &target.sun_path) { $0.copyBytes(from: reached) }
    guard let place = MemoryLayout<curl_sockaddr>.offset(of: \.addr) else {
      return .failure(Self.unreachable(path, EINVAL))
    }
    // libcurl lays the address out with the room of a sockaddr_storage behind it and allows it to be rewritten.
    withUnsafeBytes(of: &target) {
      (UnsafeMutableRawPointer(address) + place).copyMemory(from: $0.baseAddress!, byteCount: $0.count)
    }
    address.pointee.addrlen = UInt32(MemoryLayout<sockaddr_un>.size)
    descriptor = made
    return .success(made)
  }

  /// Why nothing may be sent; nil where our own user listens.
  func refusal() -> TransportError? {
    guard let descriptor else { return nil }
    let user = marfa_peer_uid(descriptor)
    if user == Int32(bitPattern: geteuid()) { return nil }
    if user == -1 { return Self.unreachable(path, EAGAIN) }
    return .unreachable("another user's program listens at \(path); nothing was sent to it")
  }

  /// The sentence for an error number of connecting.
  static func unreachable(_ path: PathBytes, _ code: Int32) -> TransportError {
    switch code {
    case ENOENT, ECONNREFUSED: .unreachable("this machine's own instance is not running (nothing listens at \(path))")
    default: .unreachable("cannot connect to \(path): \(String(cString: strerror(code)))")
    }
  }
}
