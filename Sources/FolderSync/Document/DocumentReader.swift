import MarfaBase
import MarfaCopy

extension Document {
  /// Reads a document's bytes (F7, F8, F10).
  /// - Parameters:
  ///   - bytes: the whole file.
  ///   - kind: by its name.
  ///   - edges: the names of the edge types the server lists.
  package static func read(_ bytes: [UInt8], kind: DocumentKind, edges: EdgeVocabulary) -> Reading {
    switch parse(bytes, kind: kind, edges: edges) {
    case .success(let parsed): .read(parsed.document)
    case .failure(.encoding(let reason)): .encoding(reason: reason)
    case .failure(.unreadable(let held)): .unreadable(held)
    }
  }

  /// A document and the nodes of its frontmatter, for the rewrite.
  struct Parsed {
    let document: Document
    let yaml: YAMLDocument?
  }

  enum ReadFailure: Error {
    case encoding(String)
    case unreadable(Unreadable)
  }

  static func parse(_ bytes: [UInt8], kind: DocumentKind, edges: EdgeVocabulary) -> Result<Parsed, ReadFailure> {
    if bytes.contains(0) { return .failure(.encoding("it holds a NUL byte, as UTF-16 text does")) }
    guard bytes.allSatisfy({ $0 < 0x80 }) || Text(bytes: bytes).isValidUTF8 else {
      return .failure(.encoding("its bytes are not UTF-8 text"))
    }
    // A `.txt` is its body byte for byte (F17.1): the mark before a fence that F8.6 leaves out is part of it.
    let mark = kind == .markdown && bytes.starts(with: [0xEF, 0xBB, 0xBF])
    let start = mark ? 3 : 0
    func allBody() -> Result<Parsed, ReadFailure> {
      .success(Parsed(document: Document(body: bytes, from: start, kind: kind, mark: mark), yaml: nil))
    }
    guard kind == .markdown, let fence = Fence(bytes, from: start) else { return allBody() }
    do throws(YAMLFailure) {
      let yaml = try YAMLDocument(parsing: Array(bytes[fence.yaml]))
      var fields = FieldReader(yaml: yaml, offset: fence.yaml.lowerBound, edges: edges)
      if let root = yaml.root {
        // A list or a line of text between rules is Markdown's (F8.4).
        guard case .mapping(let pairs) = yaml.nodes[root].content else { return allBody() }
        try fields.read(pairs)
      }
      let document = Document(
        bytes: bytes, kind: kind, hasByteOrderMark: mark, lineEnding: fence.lineEnding,
        frontmatter: Frontmatter(yaml: fence.yaml, closing: fence.closing, lines: fields.lines),
        bodyRange: fence.closing.upperBound..<bytes.count, own: fields.own, id: fields.id, version: fields.version,
        edges: fields.edgeLines, properties: fields.properties)
      return .success(Parsed(document: document, yaml: yaml))
    } catch {
      // The opening fence is the file's first line.
      let place = error.line.map { "line \($0 + 2), column \((error.column ?? 0) + 1): " } ?? ""
      return .failure(
        .unreadable(Unreadable(reason: "\(place)\(error.reason)", plainID: fence.plainID(bytes))))
    }
  }

  private init(body bytes: [UInt8], from start: Int, kind: DocumentKind, mark: Bool) {
    let newline = bytes.firstIndex(of: 0x0A)
    self.init(
      bytes: bytes, kind: kind, hasByteOrderMark: mark,
      lineEnding: newline.map { $0 > 0 && bytes[$0 - 1] == 0x0D } == true ? .crlf : .lf, frontmatter: nil,
      bodyRange: start..<bytes.count, own: OwnFieldLines(), id: .absent, version: .absent, edges: [],
      properties: JSONObject())
  }
}

/// Where a file's frontmatter stands: an opening and a closing line of exactly `---` (F8.1).
struct Fence {
  let yaml: Range<Int>
  let closing: Range<Int>
  let lineEnding: LineEnding

  /// The fence a file opens with; nil where it opens with none, does not close it, or an empty line follows (F8.3).
  init?(_ bytes: [UInt8], from start: Int) {
    guard let opening = Fence.line(bytes, start), opening.isFence, opening.next < bytes.count else { return nil }
    lineEnding = opening.ending
    var at = opening.next
    guard let first = Fence.line(bytes, at), !first.content.isEmpty else { return nil }
    while at < bytes.count, let line = Fence.line(bytes, at) {
      if line.isFence {
        yaml = opening.next..<at
        closing = at..<line.next
        return
      }
      at = line.next
    }
    return nil
  }

  private struct Line {
    let content: ArraySlice<UInt8>
    let next: Int
    let ending: LineEnding
    var isFence: Bool { content.elementsEqual("---".utf8) }
  }

  private static func line(_ bytes: [UInt8], _ at: Int) -> Line? {
    let end = bytes[at...].firstIndex(of: 0x0A)
    let last = end ?? bytes.count
    // Without its LF a CR is no line end.
    let carriage = end != nil && last > at && bytes[last - 1] == 0x0D
    return Line(
      content: bytes[at..<(carriage ? last - 1 : last)], next: end.map { $0 + 1 } ?? bytes.count,
      ending: carriage ? .crlf : .lf)
  }

  /// The `marfa_id` line read as plain text (F10.3).
  func plainID(_ bytes: [UInt8]) -> EntityID? {
    for line in bytes[yaml].split(separator: 0x0A) where line.starts(with: "marfa_id:".utf8) {
      let value = line.dropFirst(9).filter { ![0x20, 0x09, 0x0D, UInt8(ascii: "\""), UInt8(ascii: "'")].contains($0) }
      if let id = EntityID(value.prefix(36)) { return id }
    }
    return nil
  }
}
