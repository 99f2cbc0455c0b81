import MarfaBase
import MarfaCopy

extension Document {
  /// The bytes of a new file (F7.26), checked by reading them back (F7.35).
  package static func render(
    new content: ItemContent, kind: DocumentKind, edges: EdgeVocabulary
  ) -> Result<[UInt8], RenderFailure> {
    rewrite([], to: content, kind: kind, edges: edges)
  }

  /// The file's bytes with what differs from the content edited in place and every other byte kept (F7.27 to F7.36).
  /// Bytes that already say it come back unchanged, but for a byte-order mark. The result is read back and compared with
  /// what was meant; what cannot be produced is a failure, and the file stays as it is.
  package static func rewrite(
    _ existing: [UInt8], to content: ItemContent, kind: DocumentKind, edges: EdgeVocabulary
  ) -> Result<[UInt8], RenderFailure> {
    guard kind == .markdown else { return plain(content.body, kind) }
    return DocumentRewriter.make(existing, edges) { document, rewriter in
      rewriter.plan(content, over: document)
    }
  }

  /// The file's bytes with its id and version lines alone put right (F13.6, F24.1).
  package static func rewriteLines(
    _ existing: [UInt8], id: EntityID, version: Int, edges: EdgeVocabulary
  ) -> Result<[UInt8], RenderFailure> {
    DocumentRewriter.make(existing, edges) { document, rewriter in
      rewriter.planLines(id: id, version: version, over: document)
    }
  }

  /// A `.txt` is its body, byte for byte (F7.5).
  private static func plain(_ body: Text, _ kind: DocumentKind) -> Result<[UInt8], RenderFailure> {
    guard case .read(let back) = read(body.bytes, kind: kind, edges: EdgeVocabulary(names: [])), back.body == body
    else {
      return .failure(RenderFailure(reason: "the body cannot stand in a text file as it is"))
    }
    return .success(body.bytes)
  }
}

/// Plans what each line of a file becomes, writes it, and checks the result.
struct DocumentRewriter {
  let edges: EdgeVocabulary
  /// One for each line of the file, in order.
  var fates: [YAMLEditor.Fate] = []
  /// Lines to append, in order, with the text of those that have one form.
  var added: [(key: Text, value: JSON, written: [UInt8]?)] = []
  /// What the whole shall say.
  var meant: [Text: JSON] = [:]
  var body: Text?

  static func make(
    _ existing: [UInt8], _ edges: EdgeVocabulary, plan: (Document, inout DocumentRewriter) -> Void
  ) -> Result<[UInt8], RenderFailure> {
    let parsed: Document.Parsed
    switch Document.parse(existing, kind: .markdown, edges: edges) {
    case .success(let read): parsed = read
    case .failure(.encoding(let reason)): return .failure(RenderFailure(reason: reason))
    case .failure(.unreadable(let held)): return .failure(RenderFailure(reason: held.reason))
    }
    var rewriter = DocumentRewriter(edges: edges)
    plan(parsed.document, &rewriter)
    rewriter.mean(parsed.document)
    do throws(RenderFailure) { return .success(try rewriter.written(parsed)) } catch { return .failure(error) }
  }

  /// Notes what every key shall say in the end.
  private mutating func mean(_ document: Document) {
    for (line, fate) in zip(document.frontmatter?.lines ?? [], fates) {
      switch fate {
      case .stays: meant[line.key] = line.value
      case .becomes(let value), .reads(let value, _): meant[line.key] = value
      case .goes: break
      }
    }
    for line in added { meant[line.key] = line.value }
  }

  /// The bytes, by the gentlest edit that gives what is meant.
  private func written(_ parsed: Document.Parsed) throws(RenderFailure) -> [UInt8] {
    let document = parsed.document
    let isUntouched =
      added.isEmpty && body.map { $0 == document.body } != false
      && fates.allSatisfy { if case .stays = $0 { true } else { false } }
    if isUntouched { return Array(document.bytes[(document.hasByteOrderMark ? 3 : 0)...]) }
    var failure = RenderFailure(reason: "its frontmatter cannot be edited so that it says what the item holds")
    guard let yaml = parsed.yaml else {
      let bytes = try assembled(document, try fresh(document))
      if let wrong = mistake(bytes) { throw RenderFailure(reason: wrong) }
      return bytes
    }
    // First the edit as it should be, aliases written out only where their anchor changed (F7.32); then every alias
    // written out; then whole top-level values written anew.
    let everyAnchor = Set(yaml.nodes.indices.filter { yaml.nodes[$0].isAnchored })
    for (every, coarse) in [(false, false), (true, false), (false, true), (true, true)] {
      if every, everyAnchor.isEmpty { continue }
      do throws(RenderFailure) {
        let text = try edited(document, yaml, expanding: every ? everyAnchor : [], coarse: coarse)
        let bytes = try assembled(document, text)
        if let wrong = mistake(bytes) { failure = RenderFailure(reason: wrong) } else { return bytes }
      } catch { failure = error }
    }
    guard let root = yaml.root, yaml.nodes[root].isFlow else { throw failure }
    let bytes = try assembled(document, try fresh(document))
    if let wrong = mistake(bytes) { throw RenderFailure(reason: wrong) }
    return bytes
  }

  private func edited(
    _ document: Document, _ yaml: YAMLDocument, expanding: Set<Int>, coarse: Bool
  ) throws(RenderFailure) -> [UInt8] {
    var expanding = expanding
    while true {
      var editor = YAMLEditor(yaml: yaml, lineEnding: document.lineEnding, expanding: expanding, coarse: coarse)
      var column = 0
      if let root = yaml.root, case .mapping(let pairs) = yaml.nodes[root].content {
        if yaml.nodes[root].isFlow {
          try editor.editFlow(pairs, fates, adding: added.map { ($0.key, $0.value) })
          let grown = expanding.union(editor.touched)
          if grown == expanding { return editor.result() }
          expanding = grown
          continue
        }
        let first = editor.firstToken(of: root)
        column = editor.column(first)
        try editor.editBlock(pairs, fates, first: first)
        if yaml.hasExplicitEnd, let last = pairs.last {
          let end = editor.lineEnd(editor.end(of: last))
          editor.replace(end..<end, with: try lines(document, column: column))
        }
      }
      let grown = expanding.union(editor.touched)
      guard grown == expanding else {
        expanding = grown
        continue
      }
      return yaml.hasExplicitEnd && yaml.root != nil
        ? editor.result() : editor.result() + (try lines(document, column: column))
    }
  }

  /// The appended lines.
  private func lines(_ document: Document, column: Int) throws(RenderFailure) -> [UInt8] {
    let text = YAMLText(lineEnding: document.lineEnding)
    var out: [UInt8] = []
    for line in added {
      if let written = line.written {
        out += text.spaces(column) + line.key.bytes + ": ".utf8 + written + document.lineEnding.bytes
      } else {
        out += try text.pair(line.key, line.value, column: column)
      }
    }
    return out
  }

  /// All lines written anew.
  private func fresh(_ document: Document) throws(RenderFailure) -> [UInt8] {
    let text = YAMLText(lineEnding: document.lineEnding)
    var out: [UInt8] = []
    for (line, fate) in zip(document.frontmatter?.lines ?? [], fates) {
      switch fate {
      case .goes: break
      case .stays: out += try text.pair(line.key, line.value, column: 0)
      case .becomes(let value): out += try text.pair(line.key, value, column: 0)
      case .reads(_, let written): out += line.key.bytes + ": ".utf8 + written + document.lineEnding.bytes
      }
    }
    return out + (try lines(document, column: 0))
  }

  /// The whole file around its frontmatter's text.
  private func assembled(_ document: Document, _ yaml: [UInt8]) throws(RenderFailure) -> [UInt8] {
    let ending = document.lineEnding.bytes
    let body = body?.bytes ?? Array(document.bytes[document.bodyRange])
    var rest = yaml[...]
    // An empty line behind the fence would make it a rule (F7.33, F8.3).
    while rest.first == 0x0A || rest.starts(with: [0x0D, 0x0A]) { rest = rest.dropFirst(rest.first == 0x0A ? 1 : 2) }
    var out: [UInt8] = []
    out.reserveCapacity(rest.count + body.count + 16)
    if let frontmatter = document.frontmatter {
      let start = document.hasByteOrderMark ? 3 : 0
      out += document.bytes[start..<frontmatter.yaml.lowerBound]
      out += rest
      out += document.bytes[frontmatter.closing]
      if !body.isEmpty, out.last != 0x0A { out += ending }
    } else {
      out += "---".utf8
      out += ending
      out += rest
      out += "---".utf8
      out += ending
    }
    return out + body
  }

  /// What a written file says otherwise than meant; nil where it says it all (F7.35).
  private func mistake(_ bytes: [UInt8]) -> String? {
    guard case .success(let parsed) = Document.parse(bytes, kind: .markdown, edges: edges) else {
      return "what would be written does not read back"
    }
    let document = parsed.document
    guard let frontmatter = document.frontmatter else { return "what would be written reads back as all body" }
    guard document.body == body ?? document.body else { return "the body would read back otherwise" }
    guard frontmatter.lines.count == meant.count else { return "a line would be lost or doubled" }
    for line in frontmatter.lines where meant[line.key] != line.value {
      return "`\(line.key)` would read back otherwise"
    }
    return nil
  }
}
