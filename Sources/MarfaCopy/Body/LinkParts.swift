import MarfaBase

/// A part of a link in a body, with its place in UTF-16 code units.
public struct LinkPart: Hashable, Sendable {
  /// The text, white space around it taken off.
  public var text: String
  /// Where it stands.
  public var range: Range<Int>
}

/// A link of a body taken apart (D212.1, S11.6).
public struct LinkParts: Hashable, Sendable {
  /// The whole link, brackets included.
  public var range: Range<Int>
  /// What it names; empty for `[[#part]]`.
  public var name: LinkPart
  /// What follows `#`.
  public var heading: LinkPart?
  /// What follows `|`.
  public var alias: LinkPart?
}

/// The links of a body, in order; embeds, and what stands in code or a comment, are none. Needs no copy.
///
///     linkParts(in: "See [[Reading list#Essays|my essays]].")  // Reading list, Essays, my essays
public func linkParts(in body: String) -> [LinkParts] {
  let bytes = Array(body.utf8)
  let links = BodyReferences(body: Text(bytes: bytes), kind: .markdown).links
  guard !links.isEmpty else { return [] }
  // UTF-16 units before each byte: one for a character of up to three bytes, two for one of four.
  var units = [Int](repeating: 0, count: bytes.count + 1)
  for (place, byte) in bytes.enumerated() {
    units[place + 1] = units[place] + (byte & 0xC0 == 0x80 ? 0 : byte >= 0xF0 ? 2 : 1)
  }
  func part(_ range: Range<Int>) -> LinkPart {
    func blank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
    var (start, end) = (range.lowerBound, range.upperBound)
    while start < end, blank(bytes[start]) { start += 1 }
    while end > start, blank(bytes[end - 1]) { end -= 1 }
    return LinkPart(text: String(decoding: bytes[start..<end], as: UTF8.self), range: units[start]..<units[end])
  }
  return links.map { link in
    let inner = (link.range.lowerBound + 2)..<(link.range.upperBound - 2)
    let bar = bytes[inner].firstIndex(of: UInt8(ascii: "|"))
    var end = bar ?? inner.upperBound
    // The backslash that keeps the bar of a link from ending a table's cell is no part of the name.
    if bar != nil, end > inner.lowerBound, bytes[end - 1] == UInt8(ascii: "\\") { end -= 1 }
    let target = inner.lowerBound..<end
    let mark = bytes[target].firstIndex(of: UInt8(ascii: "#"))
    return LinkParts(
      range: units[link.range.lowerBound]..<units[link.range.upperBound],
      name: part(target.lowerBound..<(mark ?? target.upperBound)),
      heading: mark.map { part(($0 + 1)..<target.upperBound) },
      alias: bar.map { part(($0 + 1)..<inner.upperBound) })
  }
}
