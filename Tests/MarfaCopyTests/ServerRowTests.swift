import MarfaBase
import Testing
import TestSupport

@testable import MarfaCopy

/// A row read as text is the row read as values, or is left to be.
@Suite struct ServerRowTests {
  private let catalog: Catalog

  init() throws { catalog = try Catalog.shipped() }

  private static let id = "0190a0b0-0000-7000-8000-00000000000a"

  private static func row(
    properties: String = #"{"title":"A","body":"text"}"#, more: String = "", tags: String = #"["one"]"#,
    extensions: String = "{}", listed: String = #","listed":true"#, type: String = #""core.note""#
  ) -> String {
    #"{"item":{"id":"\#(id)","type":\#(type),"properties":\#(properties),"state":"active","tier":"library","#
      + #""version":3,"schema_version":2,"source":"desk"\#(more),"occurred_at":"2031-02-03T04:05:06.007Z","#
      + #""created_at":"2031-02-03T04:05:06.008Z","updated_at":"2031-02-03T04:05:06.009Z","edges":{}},"#
      + #""metadata":{"item_id":"x","tags":\#(tags),"extensions":\#(extensions)}\#(listed)}"#
  }

  /// The row as text, held against the same as values; whether it was read as text.
  @discardableResult
  private func agree(_ text: String, sourceLocation: SourceLocation = #_sourceLocation) throws -> Bool {
    guard let row = ServerRow(Array(text.utf8), in: catalog) else { return false }
    let json = try JSON(parsing: text)
    let item = try #require(Item(row: json), sourceLocation: sourceLocation)
    let other = ServerRow(item, in: catalog)
    #expect(row.properties == other.properties, sourceLocation: sourceLocation)
    #expect(row.tags == other.tags, sourceLocation: sourceLocation)
    #expect(row.extensions == other.extensions, sourceLocation: sourceLocation)
    #expect(row.title == other.title, sourceLocation: sourceLocation)
    #expect(try row.item() == item, sourceLocation: sourceLocation)
    #expect(json["listed"]?.bool == row.isListed, sourceLocation: sourceLocation)
    let images = item.properties.members.contains { $0.value.text?.bytes.starts(with: "data:image/".utf8) ?? false }
    #expect(row.hasImage == images, sourceLocation: sourceLocation)
    let edges = json["item"]?["edges"]?.object ?? JSONObject()
    #expect((row.edges == nil) == edges.isEmpty, sourceLocation: sourceLocation)
    if let bytes = row.edges { #expect(try JSON(parsing: bytes).object == edges, sourceLocation: sourceLocation) }
    return true
  }

  @Test("rows as an instance most often writes them are read as text")
  func plain() throws {
    let rows = [
      Self.row(), Self.row(properties: "{}"),
      Self.row(properties: #"{"title":"a \"b\"\n\\","n":[1,2.50,["x"]],"t":true}"#),
      Self.row(properties: #"{"body":"é😀","title":7,"none":null}"#), Self.row(tags: "[]"),
      Self.row(tags: #"["z","a","é","B","a"]"#), Self.row(extensions: #"{"acme.x":{"a":{"b":1,"b":2}}}"#),
      Self.row(listed: #","listed":false"#),
      Self.row(more: #","source_id":"k","capture_latitude":1.5,"new":{"x":[{}]}"#),
      Self.row(more: #","source_id":null"#), Self.row(type: #""acme.unknown""#),
      Self.row(properties: #"{"title":"A","cover":"data:image/png;base64,AAAA"}"#),
      Self.row().replacing(#""edges":{}"#, with: #""edges":{"references":{"data":[{"id":"e"}],"next_cursor":null}}"#),
      Self.row().replacing(#","tier":"library""#, with: ""),
      Self.row().replacing(#""tier":"library""#, with: #""tier":null"#),
      Self.row().replacing(#""occurred_at":"2031-02-03T04:05:06.007Z","#, with: ""),
      Self.row().replacing(#""schema_version":2,"#, with: ""),
    ]
    for row in rows { #expect(try agree(row), "\(row)") }
  }

  @Test("rows written otherwise are left to the reader of values")
  func left() throws {
    let rows = [
      Self.row(listed: ""), Self.row(listed: #","listed":1"#), Self.row(listed: #","listed":true,"listed":false"#),
      Self.row(properties: #"{"title":"A","title":"B"}"#), Self.row(properties: #"{"title":"\u0041"}"#),
      Self.row(properties: #"{"deep":{"a":1}}"#), Self.row(properties: "[]"), Self.row(more: #","version":4"#),
      Self.row(properties: #"{ "title":"A"}"#), Self.row(tags: #"["a\"b"]"#), Self.row(tags: "[1]"),
      Self.row(type: #""core\u002enote""#), Self.row(type: "7"),
      Self.row().replacing("04:05:06.008Z", with: "04:05:06Z"),
      Self.row().replacing(#""version":3"#, with: #""version":3.0"#), Self.row() + " ",
      Self.row().replacing(Self.id, with: "x"),
      Self.row(properties: "{" + (0..<40).map { #""p\#($0)":1"# }.joined(separator: ",") + "}"),
    ]
    for row in rows { #expect(try !agree(row), "\(row)") }
  }

  @Test("whatever bytes come, a row read as text is the row read as values")
  func any() throws {
    var random = Seeded(state: 7)
    let seeds = [
      Self.row(), Self.row(properties: #"{"title":"é\n","body":"b","n":[1,2]}"#, extensions: #"{"a":{"b":1}}"#),
      Self.row(more: #","source_id":"k""#, tags: #"["z","a"]"#),
    ].map { Array($0.utf8) }
    let marks = Array("{}[]\",:\\ntu0e.-3T\u{0} ".utf8) + [0x80, 0xC3, 0xED]
    var read = 0
    for turn in 0..<20_000 {
      var bytes = seeds[turn % seeds.count]
      for _ in 0..<Int.random(in: 0...2, using: &random) {
        let place = Int.random(in: 0..<bytes.count, using: &random)
        switch Int.random(in: 0..<3, using: &random) {
        case 0: bytes[place] = marks.randomElement(using: &random) ?? 0
        case 1: bytes.remove(at: place)
        default: bytes.insert(marks.randomElement(using: &random) ?? 0, at: place)
        }
      }
      guard ServerRow(bytes, in: catalog) != nil else { continue }
      #expect(try agree(String(decoding: bytes, as: UTF8.self)))
      read += 1
    }
    #expect(read > 4000)
  }

  @Test("a page is read as texts but for the rows that are not, and left where it is no page of this form")
  func pages() throws {
    let (one, odd) = (Self.row(), Self.row(properties: #"{"deep":{"a":1,"a":2}}"#))
    func page(_ text: String) -> (rows: [PageRow], next: Text?)? { ServerRow.page(Array(text.utf8), in: catalog) }
    let read = try #require(page(#"{"data":[\#(one),\#(odd),\#(one)],"next_cursor":"c","more":[{}]}"#))
    #expect(read.next == "c")
    let kinds = read.rows.map { row in
      switch row {
      case .text: "text"
      case .json(let json): json.compact
      }
    }
    #expect(kinds == ["text", try JSON(parsing: odd).compact, "text"])
    let last = try #require(page(#"{"next_cursor":null,"data":[]}"#))
    #expect(last.rows.isEmpty && last.next == nil)
    for text in [
      #"{"data":[]}"#, #"{"next_cursor":null}"#, #"{"data":[],"next_cursor":""}"#, #"{"data":[],"next_cursor":7}"#,
      #"{"data":[],"data":[],"next_cursor":null}"#, #"{"data":[ ],"next_cursor":null}"#, #"[]"#, "",
      #"{"data":[\#(one),],"next_cursor":null}"#, #"{"data":[],"next_cursor":null} "#,
    ] { #expect(page(text) == nil, "\(text)") }
  }
}

extension String {
  fileprivate func replacing(_ part: String, with other: String) -> String {
    let (whole, sought) = (Array(utf8), Array(part.utf8))
    guard let start = (0...max(0, whole.count - sought.count)).first(where: { whole[$0...].starts(with: sought) })
    else {
      return self
    }
    return String(decoding: whole[..<start] + Array(other.utf8) + whole[(start + sought.count)...], as: UTF8.self)
  }
}
