import MarfaBase
import Testing

@testable import MarfaCopy

@Suite struct EventStreamParserTests {
  private func events(_ text: String, cut: Int) throws -> [ServerEvent] {
    var parser = EventStreamParser()
    let bytes = Array(text.utf8)
    var out: [ServerEvent] = []
    var at = 0
    while at < bytes.count {
      out += try parser.take(Array(bytes[at..<min(at + cut, bytes.count)]))
      at += cut
    }
    return out
  }

  @Test("EV2.1 EV2.4 every line end and every cut gives the same events", arguments: ["\n", "\r\n", "\r"])
  func lineEnds(_ end: String) throws {
    let lines = [
      ": connected", "", "event: stream_cursor", "data: {\"cursor\":\"4\"}", "", ":ping", "id: 5", "event:item.updated",
      "data: {\"a\":", "data: \"\u{e9}\u{1F600}\"}", "", "retry: 9", "nonsense", "id", "data", "", "data: cut",
    ]
    let text = lines.joined(separator: end) + end
    for cut in [1, 2, 3, 7, 1000] {
      #expect(
        try events(text, cut: cut) == [
          ServerEvent(id: nil, name: "stream_cursor", data: Array("{\"cursor\":\"4\"}".utf8)),
          ServerEvent(id: "5", name: "item.updated", data: Array("{\"a\":\n\"\u{e9}\u{1F600}\"}".utf8)),
          ServerEvent(id: "", name: "", data: []),
        ])
    }
  }

  @Test("EV2.3 a frame with an id and no data is no event and lends nothing to the next")
  func idAlone() throws {
    #expect(
      try events("id: 7\nevent: x\n\ndata: {}\n\n", cut: 100) == [
        ServerEvent(id: nil, name: "", data: Array("{}".utf8))
      ])
  }

  @Test("EV2.5 a line past the limit ends the read, whole or unfinished")
  func limit() throws {
    var parser = EventStreamParser(lineLimit: 10)
    #expect(try parser.take(Array(":23456789\n:23456789a\n".utf8)).isEmpty)
    #expect(parser.comments == 2)
    #expect(throws: EventStreamParser.TooLong()) { try parser.take(Array(":23456789ab".utf8)) }
    var other = EventStreamParser(lineLimit: 10)
    #expect(throws: EventStreamParser.TooLong()) { try other.take(Array(":23456789ab\n".utf8)) }
  }

  @Test("comments are counted, a byte order mark and a field without a space are read")
  func small() throws {
    var parser = EventStreamParser()
    let bytes: [UInt8] = [0xEF, 0xBB, 0xBF] + Array(": connected\n\ndata:x\ndata:  y\n\n".utf8)
    #expect(try parser.take(bytes) == [ServerEvent(id: nil, name: "", data: Array("x\n y".utf8))])
    #expect(parser.comments == 1)
  }
}
