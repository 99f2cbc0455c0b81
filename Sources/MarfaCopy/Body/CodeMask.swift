import CMD4C
import MarfaBase

/// Which bytes of a Markdown body are code, as CommonMark reads it, or comment (F12.14, F12.15).
struct CodeMask {
  /// One for each byte: true where no link and no embed can stand.
  private(set) var isHidden: [Bool]

  /// The mask of a body.
  init(_ body: [UInt8], kind: DocumentKind) {
    isHidden = [Bool](repeating: false, count: body.count)
    let (code, comments) = CodeMask.mayHold(body)
    if kind == .markdown, code { markCode(body) }
    if comments { markComments(body) }
  }

  /// Whether a body can hold code at all, which needs a backtick, a tilde, or an indent of four columns wherever it stands,
  /// and comments, which need their first byte.
  private static func mayHold(_ body: [UInt8]) -> (code: Bool, comments: Bool) {
    var (code, comments) = (false, false)
    var spaces = 0
    for byte in body {
      switch byte {
      case 0x20:
        spaces += 1
        if spaces == 4 { code = true }
        continue
      case 0x09, UInt8(ascii: "`"), UInt8(ascii: "~"): code = true
      case UInt8(ascii: "%"), UInt8(ascii: "<"): comments = true
      default: break
      }
      spaces = 0
    }
    return (code, comments)
  }

  private mutating func markCode(_ body: [UInt8]) {
    guard !body.isEmpty, body.count < Int(UInt32.max) else { return }
    // md4c reads one byte past the end.
    let padded = body + [0]
    var found = Found(base: nil, count: body.count)
    padded.withUnsafeBufferPointer { buffer in
      guard let base = buffer.baseAddress else { return }
      base.withMemoryRebound(to: CChar.self, capacity: buffer.count) { characters in
        found.base = UnsafePointer(characters)
        var parser = MD_PARSER()
        parser.abi_version = 0
        parser.flags = 0
        parser.enter_block = { type, detail, userdata in
          // The info string of a fence is code too.
          guard type == MD_BLOCK_CODE, let detail, let userdata else { return 0 }
          let info = detail.assumingMemoryBound(to: MD_BLOCK_CODE_DETAIL.self).pointee.info
          userdata.assumingMemoryBound(to: Found.self).pointee.add(info.text, Int(info.size))
          return 0
        }
        parser.leave_block = { _, _, _ in 0 }
        parser.enter_span = { _, _, _ in 0 }
        parser.leave_span = { _, _, _ in 0 }
        parser.text = { type, text, size, userdata in
          guard type == MD_TEXT_CODE, let userdata else { return 0 }
          userdata.assumingMemoryBound(to: Found.self).pointee.add(text, Int(size))
          return 0
        }
        withUnsafeMutablePointer(to: &found) { found in
          _ = md_parse(characters, MD_SIZE(body.count), &parser, UnsafeMutableRawPointer(found))
        }
      }
    }
    for range in found.ranges { for index in range { isHidden[index] = true } }
  }

  /// Ranges md4c names as code. Line breaks and indents of code point outside the source: those are passed over.
  private struct Found {
    var base: UnsafePointer<CChar>?
    let count: Int
    var ranges: [Range<Int>] = []

    mutating func add(_ text: UnsafePointer<CChar>?, _ size: Int) {
      guard let base, let text, size > 0 else { return }
      let start = Int(bitPattern: text) - Int(bitPattern: base)
      guard start >= 0, start + size <= count else { return }
      ranges.append(start..<(start + size))
    }
  }

  /// `%% ... %%` and `<!-- ... -->`, over several lines too; what opens one inside code does not. An unclosed `<!--` that
  /// begins a line hides the rest, as HTML has it; every other unclosed mark is text.
  private mutating func markComments(_ body: [UInt8]) {
    var at = 0
    // Once a closing mark is not found, none follows: nothing is searched twice.
    var (percentCloses, arrowCloses) = (true, true)
    while at < body.count {
      guard body[at] == UInt8(ascii: "%") || body[at] == UInt8(ascii: "<"), !isHidden[at] else {
        at += 1
        continue
      }
      let rest = body[at...]
      if rest.starts(with: "%%".utf8) {
        guard percentCloses, let end = find("%%", in: body, from: at + 2, unhidden: true) else {
          percentCloses = false
          at += 2
          continue
        }
        for index in at..<(end + 2) { isHidden[index] = true }
        at = end + 2
      } else if rest.starts(with: "<!--".utf8) {
        // `<!-->` and `<!--->` are whole comments.
        let end = arrowCloses ? find("-->", in: body, from: at + 2, unhidden: false).map { $0 + 3 } : nil
        if end == nil { arrowCloses = false }
        let beginsLine = body[..<at].reversed().prefix { $0 != 0x0A && $0 != 0x0D }.allSatisfy { $0 == 0x20 }
        guard let end = end ?? (beginsLine ? body.count : nil) else {
          at += 4
          continue
        }
        for index in at..<end { isHidden[index] = true }
        at = end
      } else {
        at += 1
      }
    }
  }

  private func find(_ mark: String, in body: [UInt8], from start: Int, unhidden: Bool) -> Int? {
    let mark = Array(mark.utf8)
    var at = start
    while at + mark.count <= body.count {
      if body[at] == mark[0], !unhidden || !isHidden[at], body[at..<(at + mark.count)].elementsEqual(mark) { return at }
      at += 1
    }
    return nil
  }
}
