import CPosix
import Glibc
import MarfaBase

/// Requests whose bodies do not come to their end.
extension HTTPServer {
  /// Notes a request whose body is still to come.
  func noteReceiving(_ exchange: Exchange) {
    if exchange.isWrite { receiving.append(exchange) }
  }

  /// It came whole, was refused or ended.
  func noteReceived(_ exchange: Exchange) {
    if exchange.isWrite { receiving.removeAll { $0 === exchange } }
  }

  /// Ends requests whose client went away amid the body, so that nothing of an upload stays (B2.8) and a stop does not wait
  /// for it (EV17.2), and those whose body stopped coming (ER2.4). Called at each tick.
  ///
  /// libmicrohttpd watches for edges: a close that arrives with the last bytes it reads is told once, is missed then, and
  /// the connection would stand for its two minutes. One seen closed and read empty at two ticks is shut from this side too,
  /// which it is told of.
  func endBrokenRequests() {
    let now = marfa_boottime()
    for exchange in receiving {
      guard case .receiving = exchange.phase else { continue }
      var byte: UInt8 = 0
      let descriptor = exchange.descriptor
      let isClosed = recv(descriptor, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) == 0
      if isClosed, exchange.looksGone { shutdown(descriptor, Int32(SHUT_RDWR)) }
      exchange.looksGone = isClosed
      if !isClosed, now > exchange.lastByte + options.bodyPatience { timeOut(exchange) }
    }
  }

  /// Answers past libmicrohttpd, which takes no answer to a request that is not whole, and ends the connection.
  private func timeOut(_ exchange: Exchange) {
    let response = refusal(
      Admission.Refused(status: 408, code: "request_timeout", message: "The body did not arrive in time."), exchange)
    var bytes = Array(
      "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: \(response.body.count)\r\n".utf8)
    for header in response.headers { bytes += Array("\(header.name): \(header.value)\r\n".utf8) }
    bytes += Array("\r\n".utf8) + response.body
    _ = Glibc.send(exchange.descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
    shutdown(exchange.descriptor, Int32(SHUT_RDWR))
  }
}
