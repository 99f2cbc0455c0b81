import CPosix
import Glibc
import MarfaBase

/// Connections whose requests were refused before their bodies were read, as a body declared longer than any door takes.
///
/// libmicrohttpd closes such a connection behind the answer. A socket closed with bytes unread is reset, and a client that
/// sends its whole body before it reads would meet the reset in place of the `413` (ER2.4). So a second descriptor keeps the
/// socket open, and what still comes is read and dropped: up to a bound, so that nobody is kept busy for nothing.
final class Lingering {
  /// Most bytes of a body that are dropped.
  static let most = 64 << 20
  /// How long after its last byte a client is waited for.
  static let patience: UInt64 = 5_000_000_000

  private struct Rest {
    var descriptor: Int32
    var left = Lingering.most
    var until: UInt64
  }

  private var held: [Rest] = []
  private var room = [UInt8](repeating: 0, count: 1 << 16)

  /// Keeps a refused request's socket open where a body follows its head.
  func hold(_ exchange: Exchange) {
    let hasBody = exchange.request.headers.contains { header in
      isNamed(header.name, "content-length") && Int(header.value) != 0 || isNamed(header.name, "transfer-encoding")
    }
    guard hasBody, held.count < 64 else { return }
    let descriptor = fcntl(exchange.descriptor, F_DUPFD_CLOEXEC, 0)
    guard descriptor >= 0 else { return }
    exchange.isLingering = true
    held.append(Rest(descriptor: descriptor, until: marfa_boottime() + Lingering.patience))
  }

  /// The answer of a request went out whole: its client is told that nothing more comes.
  func answered(_ exchange: Exchange) {
    if exchange.isLingering { shutdown(exchange.descriptor, Int32(SHUT_WR)) }
  }

  /// What to wait for.
  var waited: [pollfd] { held.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) } }
  /// When the next one is given up; nil where none is held.
  var nextEnd: UInt64? { held.map(\.until).min() }

  /// Drops what has come, and closes what ended, sent too much or fell silent.
  func drop() {
    guard !held.isEmpty else { return }
    let now = marfa_boottime()
    held = held.compactMap { rest in
      var rest = rest
      for _ in 0..<64 {
        let count = recv(rest.descriptor, &room, room.count, Int32(MSG_DONTWAIT))
        if count < 0, errno == EAGAIN || errno == EINTR { break }
        rest.left -= count
        guard count > 0, rest.left > 0 else {
          close(rest.descriptor)
          return nil
        }
        rest.until = now + Lingering.patience
      }
      guard rest.until > now else {
        close(rest.descriptor)
        return nil
      }
      return rest
    }
  }

  func end() {
    for rest in held { close(rest.descriptor) }
    held = []
  }
}
