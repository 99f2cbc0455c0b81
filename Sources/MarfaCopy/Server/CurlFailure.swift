import CCurl
import CPosix
import Glibc
import MarfaBase

/// What libcurl's codes mean to a caller.
enum CurlFailure {
  /// The failure of a transfer that ended with a code, over the unix socket at `local` where one is named.
  static func of(_ code: CURLcode, _ easy: UnsafeMutableRawPointer?, local: PathBytes?) -> TransportError {
    var number = 0
    _ = marfa_curl_get_long(easy, CURLINFO_OS_ERRNO, &number)
    let words = String(cString: curl_easy_strerror(code))
    switch code {
    case CURLE_OPERATION_TIMEDOUT: return .timedOut("no connection within 10 s")
    case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY:
      return hasNetwork ? .unreachable(words) : .noConnection("this machine has no network")
    case CURLE_COULDNT_CONNECT where local != nil:
      return LocalSocket.unreachable(local ?? .empty, Int32(number))
    case CURLE_COULDNT_CONNECT:
      switch Int32(number) {
      case ENETUNREACH, ENETDOWN: return .noConnection(String(cString: strerror(Int32(number))))
      case 0: return .unreachable(words)
      case ETIMEDOUT: return .timedOut("no connection: \(String(cString: strerror(ETIMEDOUT)))")
      default: return .unreachable("\(words): \(String(cString: strerror(Int32(number))))")
      }
    default: return .unreachable(words)
    }
  }

  /// Whether an interface other than loopback is up with an address. A name that can't be looked up on a machine without
  /// one was not asked for anywhere (S22.4).
  private static var hasNetwork: Bool {
    var first: UnsafeMutablePointer<ifaddrs>?
    guard getifaddrs(&first) == 0 else { return true }
    defer { freeifaddrs(first) }
    var each = first
    while let interface = each {
      let flags = interface.pointee.ifa_flags
      let family = interface.pointee.ifa_addr.map { Int32($0.pointee.sa_family) }
      if flags & UInt32(IFF_UP) != 0, flags & UInt32(IFF_LOOPBACK) == 0,
        family == AF_INET || family == AF_INET6
      {
        return true
      }
      each = interface.pointee.ifa_next
    }
    return false
  }
}

/// A file whose bytes a request sends, read as they go out.
final class UploadFile {
  private let descriptor: Int32
  private let path: PathBytes
  private let size: Int64
  private var offset: Int64 = 0

  init(_ path: PathBytes, size: Int64) throws(FileError) {
    self.path = path
    self.size = size
    // A pipe put in the file's place must not hold the thread.
    descriptor = path.withCString { marfa_openat(AT_FDCWD, $0, O_RDONLY | O_NONBLOCK, 0) }
    guard descriptor >= 0 else { throw FileError(code: -descriptor, operation: "open", path: path) }
  }

  deinit { close(descriptor) }

  /// The next bytes, at most `size` in all; a file that has become shorter is a failure, since its length was promised.
  func read(into buffer: UnsafeMutableRawBufferPointer) throws(FileError) -> Int {
    let wanted = Int(min(Int64(buffer.count), size - offset))
    if wanted == 0 { return 0 }
    while true {
      let count = pread(descriptor, buffer.baseAddress, wanted, off_t(offset))
      if count > 0 {
        offset += Int64(count)
        return count
      }
      if count == 0 { throw FileError(code: ENODATA, operation: "read", path: path) }
      if errno != EINTR { throw FileError(code: errno, operation: "read", path: path) }
    }
  }

  /// Goes back to an offset.
  func seek(to offset: Int64) -> Bool {
    self.offset = offset
    return offset >= 0 && offset <= size
  }
}
