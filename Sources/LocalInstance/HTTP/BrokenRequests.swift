import Glibc

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
  /// for it (EV17.2). Called at each tick.
  ///
  /// libmicrohttpd watches for edges: a close that arrives with the last bytes it reads is told once, is missed then, and
  /// the connection would stand for its two minutes. One seen closed and read empty at two ticks is shut from this side too,
  /// which it is told of.
  func endBrokenRequests() {
    for exchange in receiving {
      guard case .receiving = exchange.phase else { continue }
      var byte: UInt8 = 0
      let descriptor = exchange.descriptor
      let isClosed = recv(descriptor, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) == 0
      if isClosed, exchange.looksGone { shutdown(descriptor, Int32(SHUT_RDWR)) }
      exchange.looksGone = isClosed
    }
  }
}
