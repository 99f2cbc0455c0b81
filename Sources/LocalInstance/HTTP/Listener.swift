import CPosix
import Glibc
import MarfaBase

/// A socket an instance listens on.
final class Listener {
  /// Why there is none.
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  let descriptor: Int32
  let admission: Admission.Guard
  /// What requests are sent to: `local`, or `http://127.0.0.1:43117`.
  let url: String

  private init(_ descriptor: Int32, _ admission: Admission.Guard, url: String) {
    self.descriptor = descriptor
    self.admission = admission
    self.url = url
  }

  deinit { close(descriptor) }

  /// A unix socket at a path, mode 0600 from its first instant: what stood there before is a dead instance's, since the
  /// caller holds the data directory's lock.
  static func unix(_ path: PathBytes) throws(Failure) -> Listener {
    func failed(_ code: Int32) -> Failure {
      Failure(description: "cannot listen at \(path): \(String(cString: strerror(code)))")
    }
    guard let reach = UnixPath(path) else { throw failed(ENAMETOOLONG) }
    _ = path.withCString { unlink($0) }
    let made = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard made >= 0 else { throw failed(errno) }
    // The mode of the descriptor is the mode the name is made with, whatever the umask adds.
    fchmod(made, 0o600)
    let bound = reach.withAddress { bind(made, $0, $1) }
    guard bound == 0, listen(made, 512) == 0, fcntl(made, F_SETFL, O_NONBLOCK) == 0 else {
      let code = errno
      close(made)
      throw failed(code)
    }
    return Listener(made, .ownUser, url: "local")
  }

  /// A TCP socket at `ADDR:PORT`, port 0 for any free one. An address other than loopback needs `allowPublic` (N2.4).
  static func tcp(_ address: String, allowPublic: Bool) throws(Failure) -> Listener {
    func failed(_ why: String) -> Failure { Failure(description: "cannot listen at \(address): \(why)") }
    guard let colon = address.utf8.lastIndex(of: UInt8(ascii: ":")),
      let port = UInt16(address[address.index(after: colon)...])
    else { throw failed("it is not ADDR:PORT") }
    var name = String(address[..<colon])
    if name.utf8.elementsEqual("localhost".utf8) { name = "127.0.0.1" }
    if name.utf8.first == UInt8(ascii: "["), name.utf8.last == UInt8(ascii: "]") {
      name = String(name.dropFirst().dropLast())
    }
    var four = sockaddr_in()
    var six = sockaddr_in6()
    let made: Int32
    let isLoopback: Bool
    var bound: Int32 = -1
    let isSix = inet_pton(AF_INET6, name, &six.sin6_addr) == 1
    if isSix {
      six.sin6_family = sa_family_t(AF_INET6)
      six.sin6_port = port.bigEndian
      isLoopback = withUnsafeBytes(of: six.sin6_addr) { $0.dropLast().allSatisfy { $0 == 0 } && $0[15] == 1 }
    } else if inet_pton(AF_INET, name, &four.sin_addr) == 1 {
      four.sin_family = sa_family_t(AF_INET)
      four.sin_port = port.bigEndian
      isLoopback = UInt32(bigEndian: four.sin_addr.s_addr) >> 24 == 127
    } else {
      throw failed("it is not an IP address")
    }
    guard isLoopback || allowPublic else { throw failed("it is not loopback, and --allow-public was not given") }
    made = socket(isSix ? AF_INET6 : AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard made >= 0 else { throw failed(String(cString: strerror(errno))) }
    var yes: Int32 = 1
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
    func bindAndName<Address>(_ address: inout Address) {
      var size = socklen_t(MemoryLayout<Address>.size)
      withUnsafeMutablePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          bound = bind(made, $0, size)
          if bound == 0 { bound = getsockname(made, $0, &size) }
        }
      }
    }
    if isSix { bindAndName(&six) } else { bindAndName(&four) }
    guard bound == 0, listen(made, 512) == 0, fcntl(made, F_SETFL, O_NONBLOCK) == 0 else {
      let why = String(cString: strerror(errno))
      close(made)
      throw failed(why)
    }
    let given = UInt16(bigEndian: isSix ? six.sin6_port : four.sin_port)
    return Listener(
      made, isLoopback ? .loopback : .open, url: "http://\(isSix ? "[\(name)]" : name):\(given)")
  }
}
