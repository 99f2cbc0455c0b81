import MarfaBase

extension BodyReferences {
  /// Finds a body's links and embeds (F12.1, F12.6, F12.16). A `.txt` has links alone (F12.10, F12.13).
  package init(body: Text, kind: DocumentKind) {
    let bytes = body.bytes
    // Both begin with a bracket; most bodies without one end here.
    guard bytes.contains(UInt8(ascii: "[")) else { return }
    var scan = BodyScan(bytes: bytes, mask: CodeMask(bytes, kind: kind), kind: kind)
    scan.wikiLinks()
    if kind == .markdown, bytes.contains(UInt8(ascii: "!")) { scan.images() }
    links = scan.links
    embeds = scan.embeds.sorted { $0.range.lowerBound < $1.range.lowerBound }
  }
}

private struct BodyScan {
  let bytes: [UInt8]
  let mask: CodeMask
  let kind: DocumentKind
  var links: [BodyLink] = []
  var embeds: [BodyEmbed] = []
  /// The longest destination or title looked at, so that marks which close nothing cost no more than this each.
  private static let reach = 1024

  private func pair(_ byte: UInt8, _ at: Int) -> Bool {
    at + 1 < bytes.count && bytes[at] == byte && bytes[at + 1] == byte && !mask.isHidden[at] && !mask.isHidden[at + 1]
  }

  /// From the last `[[` before its `]]` on the same line; blank brackets are none; a backslash stays (F12.6).
  mutating func wikiLinks() {
    var opening: Int?
    var at = 0
    while at < bytes.count {
      switch bytes[at] {
      case 0x0A, 0x0D: opening = nil
      case UInt8(ascii: "[") where pair(bytes[at], at): opening = at
      case UInt8(ascii: "]") where pair(bytes[at], at):
        guard let start = opening else { break }
        opening = nil
        let inner = Text(bytes: bytes[(start + 2)..<at])
        at += 1
        guard !LinkText.trimmed(inner.bytes[...]).isEmpty else { break }
        add(LinkText(whole: inner), start..<(at + 1))
      default: break
      }
      at += 1
    }
  }

  private mutating func add(_ text: LinkText, _ range: Range<Int>) {
    let marked =
      range.lowerBound > 0 && bytes[range.lowerBound - 1] == UInt8(ascii: "!")
      && !mask.isHidden[range.lowerBound - 1]
    if !marked {
      links.append(BodyLink(text: text, range: range))
    } else if kind == .markdown {
      let whole = (range.lowerBound - 1)..<range.upperBound
      embeds.append(BodyEmbed(form: .wiki(text), typed: Text(bytes: bytes[whole]), range: whole))
    }
  }

  /// `![alt](path "title")` as CommonMark reads an inline image, and the same with a raw space in its path.
  mutating func images() {
    let wiki = Set(embeds.map(\.range.lowerBound))
    let brackets = matchedBrackets()
    var at = 0
    while at + 1 < bytes.count {
      defer { at += 1 }
      guard bytes[at] == UInt8(ascii: "!"), bytes[at + 1] == UInt8(ascii: "["), !mask.isHidden[at],
        !mask.isHidden[at + 1], !isEscaped(at), let close = brackets[at + 1], close + 1 < bytes.count,
        bytes[close + 1] == UInt8(ascii: "("), !mask.isHidden[close + 1]
      else { continue }
      // `![[file]](...)` is the embed of `![[file]]`.
      if wiki.contains(at) { continue }
      guard let (form, end) = destination(close + 2) else { continue }
      embeds.append(BodyEmbed(form: form, typed: Text(bytes: bytes[at..<end]), range: at..<end))
    }
  }

  private func isEscaped(_ at: Int) -> Bool {
    var count = 0
    var index = at - 1
    while index >= 0, bytes[index] == UInt8(ascii: "\\") {
      count += 1
      index -= 1
    }
    return count % 2 == 1
  }

  /// The closing bracket of each opening one, nesting counted, escapes and code passed over, within a paragraph.
  private func matchedBrackets() -> [Int: Int] {
    var matches: [Int: Int] = [:]
    var open: [Int] = []
    var at = 0
    while at < bytes.count {
      switch bytes[at] {
      case _ where mask.isHidden[at]: break
      case UInt8(ascii: "\\"): at += 1
      case UInt8(ascii: "["): open.append(at)
      case UInt8(ascii: "]"): if let opening = open.popLast() { matches[opening] = at }
      case 0x0A where at + 1 < bytes.count && (bytes[at + 1] == 0x0A || bytes[at + 1] == 0x0D):
        open.removeAll(keepingCapacity: true)
      default: break
      }
      at += 1
    }
    return matches
  }

  private func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D }

  private func skipSpace(_ at: Int) -> Int {
    var at = at
    while at < bytes.count, isSpace(bytes[at]) { at += 1 }
    return at
  }

  /// What stands between the parentheses; nil where it is no image in either reading.
  private func destination(_ opening: Int) -> (BodyEmbed.Form, Int)? {
    let start = skipSpace(opening)
    guard start < bytes.count else { return nil }
    if bytes[start] == UInt8(ascii: "<") {
      var at = start + 1
      while at < min(bytes.count, start + BodyScan.reach), bytes[at] != UInt8(ascii: ">") {
        if bytes[at] == 0x0A || bytes[at] == UInt8(ascii: "<") { return nil }
        at += bytes[at] == UInt8(ascii: "\\") ? 2 : 1
      }
      guard at < bytes.count, bytes[at] == UInt8(ascii: ">"), let end = closing(after: at + 1) else { return nil }
      return (.path(unescaped(bytes[(start + 1)..<at])), end)
    }
    var depth = 0
    var at = start
    while at < min(bytes.count, start + 4 * BodyScan.reach), !isSpace(bytes[at]), bytes[at] >= 0x20 {
      if bytes[at] == UInt8(ascii: "\\"), at + 1 < bytes.count, !isSpace(bytes[at + 1]) {
        at += 2
        continue
      }
      if bytes[at] == UInt8(ascii: "(") {
        depth += 1
        // CommonMark's own bound.
        if depth > 32 { return nil }
      }
      if bytes[at] == UInt8(ascii: ")") {
        if depth == 0 { break }
        depth -= 1
      }
      at += 1
    }
    at = min(at, bytes.count)
    if depth == 0, let end = closing(after: at) {
      return at == start ? nil : (.path(unescaped(bytes[start..<at])), end)
    }
    // A raw space: up to the parenthesis that closes it on the same line.
    var close = start
    var holdsSpace = false
    let limit = min(bytes.count, start + BodyScan.reach)
    while close < limit, bytes[close] != UInt8(ascii: ")") {
      if bytes[close] == 0x0A || bytes[close] == 0x0D { return nil }
      holdsSpace = holdsSpace || bytes[close] == 0x20 || bytes[close] == 0x09
      close += 1
    }
    guard close < limit, holdsSpace, !mask.isHidden[close] else { return nil }
    return (.rawSpace(unescaped(bytes[start..<close])), close + 1)
  }

  /// Past the `)` after a destination, a title passed; nil where something else stands there.
  private func closing(after at: Int) -> Int? {
    let next = skipSpace(at)
    guard next < bytes.count else { return nil }
    if bytes[next] == UInt8(ascii: ")") { return next + 1 }
    guard next > at else { return nil }
    let close: UInt8
    switch bytes[next] {
    case UInt8(ascii: "\""), UInt8(ascii: "'"): close = bytes[next]
    case UInt8(ascii: "("): close = UInt8(ascii: ")")
    default: return nil
    }
    var end = next + 1
    while end < min(bytes.count, next + BodyScan.reach), bytes[end] != close {
      if bytes[end] == 0x0A, end + 1 < bytes.count, bytes[end + 1] == 0x0A { return nil }
      end += bytes[end] == UInt8(ascii: "\\") ? 2 : 1
    }
    guard end < bytes.count, bytes[end] == close else { return nil }
    let after = skipSpace(end + 1)
    return after < bytes.count && bytes[after] == UInt8(ascii: ")") ? after + 1 : nil
  }

  /// Backslash escapes of ASCII punctuation and the common entities resolved.
  private func unescaped(_ slice: ArraySlice<UInt8>) -> Text {
    var out: [UInt8] = []
    var at = slice.startIndex
    func punctuation(_ byte: UInt8) -> Bool {
      (0x21...0x2F).contains(byte) || (0x3A...0x40).contains(byte) || (0x5B...0x60).contains(byte)
        || (0x7B...0x7E).contains(byte)
    }
    while at < slice.endIndex {
      if slice[at] == UInt8(ascii: "\\"), at + 1 < slice.endIndex, punctuation(slice[at + 1]) {
        out.append(slice[at + 1])
        at += 2
      } else if slice[at...].starts(with: "&amp;".utf8) {
        out.append(UInt8(ascii: "&"))
        at += 5
      } else {
        out.append(slice[at])
        at += 1
      }
    }
    return Text(bytes: out)
  }
}
