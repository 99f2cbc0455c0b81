import MarfaCopy
import Synchronization

/// One event stream for all folders of a process that ask one server with one credential (P6.5).
///
/// The first of them that has a place holds the stream and tells the others what it hears; when it ends, the next one takes
/// it up. Nothing is missed: whoever joins does so before the catch-up of its own pass, and what happens after that is told
/// to whoever holds the stream, from the place it held.
package final class StreamHub: Sendable {
  /// What makes two folders' streams one.
  struct Key: Hashable, Sendable {
    private let address: [UInt8]
    private let credential: [UInt8]

    init(_ place: StreamPlace) {
      address = Array(place.endpoint.baseURL.utf8)
      credential = Array((place.endpoint.credential ?? "").utf8)
    }
  }

  private struct Circle {
    var members: [ObjectIdentifier: ServerListening] = [:]
    var holder: ObjectIdentifier?
  }

  private let circles = Mutex<[Key: Circle]>([:])

  /// Nobody listens.
  package init() {}

  /// Joins those of a key. Answers whether the stream is the caller's to hold.
  func join(_ key: Key, _ listener: ServerListening) -> Bool {
    circles.withLock { circles in
      let id = ObjectIdentifier(listener)
      circles[key, default: Circle()].members[id] = listener
      if circles[key]?.holder == nil { circles[key]?.holder = id }
      return circles[key]?.holder == id
    }
  }

  /// Tells the others of a key.
  func tell(_ news: StreamNews, _ key: Key, but listener: ServerListening) {
    let others = circles.withLock { circles in
      circles[key]?.members.filter { $0.key != ObjectIdentifier(listener) }.map(\.value) ?? []
    }
    for other in others { other.hear(news) }
  }

  /// Lets the stream go to whoever of its key comes next.
  func giveUp(_ key: Key, _ listener: ServerListening, leaves: Bool) {
    let others = circles.withLock { circles -> [ServerListening] in
      let id = ObjectIdentifier(listener)
      if leaves { circles[key]?.members[id] = nil }
      guard circles[key]?.holder == id else { return [] }
      circles[key]?.holder = nil
      let others = circles[key]?.members.filter { $0.key != id }.map(\.value) ?? []
      if circles[key]?.members.isEmpty == true { circles[key] = nil }
      return others
    }
    for other in others { other.lookAgain() }
  }
}
