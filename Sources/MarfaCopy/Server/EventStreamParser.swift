import Glibc
import MarfaBase

/// One event of a server-sent event stream (EV2).
package struct ServerEvent: Hashable, Sendable {
  /// The `id:` of this very frame, nil where it has none. It lends nothing to the next frame.
  package var id: Text?
  /// The `event:` line; empty where the frame has none.
  package var name: Text
  /// The `data:` lines, joined with `\n`.
  package var data: [UInt8]

  /// An event.
  package init(id: Text?, name: Text, data: [UInt8]) {
    self.id = id
    self.name = name
    self.data = data
  }
}

extension [UInt8] {
  /// The first place of a byte, from a place on.
  fileprivate func firstIndex(of byte: UInt8, from start: Int) -> Int? {
    withUnsafeBytes { bytes in
      guard start < bytes.count, let base = bytes.baseAddress,
        let found = memchr(base + start, Int32(byte), bytes.count - start)
      else { return nil }
      return UnsafeRawPointer(found) - base
    }
  }
}

/// Reads a server-sent event stream: bytes in, in pieces of any size; events and comments out.
///
///     var parser = EventStreamParser()
///     for event in try parser.take(bytes) { ... }
///
/// Line ends are `\n`, `\r\n` and `\r` (EV2.4). Comments are counted and passed over (EV2.3). A frame without data is no
/// event, with an id or without. A frame the stream ends within is dropped, as the standard says: it was not whole.
package struct EventStreamParser: Sendable {
  /// A line, or a frame's data, longer than the limit: the read ends with `decoding` (EV2.5).
  package struct TooLong: Error, Hashable, Sendable {}

  /// The longest line a client takes, in bytes (EV2.5).
  package static let lineLimit = 67_108_864

  /// How many comments came so far; the opening `: connected` is the first.
  package private(set) var comments = 0
  private let limit: Int
  private var line: [UInt8] = []
  private var lastWasReturn = false
  private var isFirstLine = true
  private var id: Text?
  private var name = Text(bytes: [])
  private var data: [UInt8] = []
  private var hasData = false

  /// A parser at a stream's start.
  package init(lineLimit: Int = Self.lineLimit) { limit = lineLimit }

  /// Takes bytes in. Returns the events they complete, in order.
  /// - Throws: `TooLong`. Events of the same piece before it are not handed out; the cursor never passed them, so they
  ///   come again.
  package mutating func take(_ bytes: [UInt8]) throws(TooLong) -> [ServerEvent] {
    var events: [ServerEvent] = []
    var rest = bytes[...]
    if lastWasReturn, let first = rest.first {
      // The second half of a \r\n that was cut in two.
      if first == 0x0A { rest = rest.dropFirst() }
      lastWasReturn = false
    }
    // Where the next \r stands, looked for again once it was passed: most streams have none.
    var nextReturn = bytes.firstIndex(of: 0x0D, from: rest.startIndex)
    while true {
      if let place = nextReturn, place < rest.startIndex {
        nextReturn = bytes.firstIndex(of: 0x0D, from: rest.startIndex)
      }
      let end = min(bytes.firstIndex(of: 0x0A, from: rest.startIndex) ?? .max, nextReturn ?? .max)
      guard end < .max else { break }
      guard line.count + (end - rest.startIndex) <= limit else { throw TooLong() }
      line.append(contentsOf: rest[..<end])
      let isReturn = rest[end] == 0x0D
      rest = rest[(end + 1)...]
      if isReturn {
        if let next = rest.first {
          if next == 0x0A { rest = rest.dropFirst() }
        } else {
          lastWasReturn = true
        }
      }
      if let event = try endLine() { events.append(event) }
    }
    guard line.count + rest.count <= limit else { throw TooLong() }
    line.append(contentsOf: rest)
    return events
  }

  private mutating func endLine() throws(TooLong) -> ServerEvent? {
    defer { line.removeAll(keepingCapacity: line.capacity <= 65_536) }
    if isFirstLine {
      isFirstLine = false
      if line.starts(with: [0xEF, 0xBB, 0xBF]) { line.removeFirst(3) }
    }
    if line.isEmpty { return endFrame() }
    let colon = line.firstIndex(of: 0x3A) ?? line.endIndex
    if colon == 0 {
      comments += 1
      return nil
    }
    var value = line[min(colon + 1, line.endIndex)...]
    if value.first == 0x20 { value = value.dropFirst() }
    let field = line[..<colon]
    if field.elementsEqual("data".utf8) {
      guard data.count + value.count + 1 <= limit else { throw TooLong() }
      if hasData { data.append(0x0A) }
      hasData = true
      data.append(contentsOf: value)
    } else if field.elementsEqual("event".utf8) {
      name = Text(bytes: value)
    } else if field.elementsEqual("id".utf8) {
      // Judged by the reader (EV2.6): an id with a NUL is no canonical decimal either.
      id = Text(bytes: value)
    }
    return nil
  }

  private mutating func endFrame() -> ServerEvent? {
    defer {
      id = nil
      name = Text(bytes: [])
      data = []
      hasData = false
    }
    return hasData ? ServerEvent(id: id, name: name, data: data) : nil
  }
}
