import CYAML
import MarfaBase

extension YAMLDocument {
  /// Reads a YAML text: valid UTF-8 without NUL, no byte-order mark. Time and memory stay within a small multiple of its
  /// size: nesting past 64 levels ends at the event that begins it, aliases are references and are not expanded here.
  init(parsing source: [UInt8]) throws(YAMLFailure) {
    var composer = YAMLComposer(source: source)
    self = try composer.compose()
  }
}

/// Builds nodes from libyaml's events.
private struct YAMLComposer {
  let source: [UInt8]
  var nodes: [YAMLNode] = []
  var open: [Int] = []
  /// The key waiting for its value, for each open mapping.
  var keys: [Int?] = []
  var anchors: [[UInt8]: Int] = [:]
  var root: Int?
  var places: [Int32]?
  /// What stood for a line break of YAML 1.1 in what the parser was given: stand-in bytes and the true ones.
  var standIns: [(standIn: [UInt8], real: [UInt8])] = []

  init(source: [UInt8]) { self.source = source }

  mutating func compose() throws(YAMLFailure) -> YAMLDocument {
    let input = prepared()
    // The parser keeps a pointer to itself, so it must not move.
    let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
    defer { parser.deallocate() }
    guard yaml_parser_initialize(parser) == 1 else { throw YAMLFailure(reason: "memory ran out") }
    defer { yaml_parser_delete(parser) }
    yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
    var documents = 0
    var explicitEnd = false
    let result: Result<Void, YAMLFailure> = input.withUnsafeBufferPointer { buffer in
      yaml_parser_set_input_string(parser, buffer.baseAddress, buffer.count)
      do throws(YAMLFailure) {
        var event = yaml_event_t()
        while true {
          guard yaml_parser_parse(parser, &event) == 1 else { throw problem(parser.pointee) }
          defer { yaml_event_delete(&event) }
          switch event.type {
          case YAML_STREAM_END_EVENT: return .success(())
          case YAML_DOCUMENT_START_EVENT:
            documents += 1
            guard documents == 1 else {
              throw YAMLFailure(reason: "more than one YAML document", line: Int(event.start_mark.line), column: 0)
            }
          case YAML_DOCUMENT_END_EVENT: explicitEnd = event.data.document_end.implicit == 0
          default: try take(event)
          }
        }
      } catch { return .failure(error) }
    }
    try result.get()
    return YAMLDocument(source: source, nodes: nodes, root: root, hasExplicitEnd: explicitEnd)
  }

  private mutating func take(_ event: yaml_event_t) throws(YAMLFailure) {
    let start = place(event.start_mark)
    let end = place(event.end_mark)
    switch event.type {
    case YAML_SCALAR_EVENT:
      let scalar = event.data.scalar
      let style: YAMLNode.Style =
        switch scalar.style {
        case YAML_SINGLE_QUOTED_SCALAR_STYLE: .singleQuoted
        case YAML_DOUBLE_QUOTED_SCALAR_STYLE: .doubleQuoted
        case YAML_LITERAL_SCALAR_STYLE: .literal
        case YAML_FOLDED_SCALAR_STYLE: .folded
        default: .plain
        }
      let value = restored(Array(UnsafeBufferPointer(start: scalar.value, count: scalar.length)))
      let isBlock = style == .literal || style == .folded
      try add(
        .scalar(value, style), tag: scalar.tag, anchor: scalar.anchor, start: start,
        end: isBlock ? blockEnd(start, end) : end, flow: false)
    case YAML_ALIAS_EVENT:
      let name = bytes(event.data.alias.anchor)
      guard let target = anchors[name] else {
        throw at(event.start_mark, "the alias `*\(Text(bytes: name))` names no anchor before it")
      }
      guard !open.contains(target) else {
        throw at(event.start_mark, "the alias `*\(Text(bytes: name))` stands within its own anchor")
      }
      try add(.alias(target), tag: nil, anchor: nil, start: start, end: end, flow: false)
    case YAML_SEQUENCE_START_EVENT:
      let sequence = event.data.sequence_start
      try add(
        .sequence([]), tag: sequence.tag, anchor: sequence.anchor, start: start, end: end,
        flow: sequence.style == YAML_FLOW_SEQUENCE_STYLE)
      try descend(event.start_mark)
    case YAML_MAPPING_START_EVENT:
      let mapping = event.data.mapping_start
      try add(
        .mapping([]), tag: mapping.tag, anchor: mapping.anchor, start: start, end: end,
        flow: mapping.style == YAML_FLOW_MAPPING_STYLE)
      try descend(event.start_mark)
    case YAML_SEQUENCE_END_EVENT, YAML_MAPPING_END_EVENT:
      guard let closed = open.popLast() else { return }
      keys.removeLast()
      if nodes[closed].isFlow {
        nodes[closed].end = end
      } else {
        nodes[closed].end = lastEnd(nodes[closed].content) ?? nodes[closed].end
      }
    default: break
    }
  }

  private mutating func descend(_ mark: yaml_mark_t) throws(YAMLFailure) {
    open.append(nodes.count - 1)
    keys.append(nil)
    guard open.count <= YAMLDocument.depthLimit else {
      throw at(mark, "it nests deeper than \(YAMLDocument.depthLimit) levels")
    }
  }

  private mutating func add(
    _ content: YAMLNode.Content, tag: UnsafeMutablePointer<yaml_char_t>?, anchor: UnsafeMutablePointer<yaml_char_t>?,
    start: Int, end: Int, flow: Bool
  ) throws(YAMLFailure) {
    let index = nodes.count
    nodes.append(
      YAMLNode(
        content: content, tag: tag.map { Text(bytes: bytes($0)) }, isAnchored: anchor != nil, start: start, end: end,
        isFlow: flow))
    if let anchor { anchors[bytes(anchor)] = index }
    guard let parent = open.last else {
      root = index
      return
    }
    // Children join their parents without copying the parent's list.
    switch nodes[parent].content {
    case .sequence(var children):
      nodes[parent].content = .alias(0)
      children.append(index)
      nodes[parent].content = .sequence(children)
    case .mapping(var pairs):
      if let key = keys[keys.count - 1] {
        nodes[parent].content = .alias(0)
        pairs.append(YAMLNode.Pair(key: key, value: index))
        nodes[parent].content = .mapping(pairs)
        keys[keys.count - 1] = nil
      } else {
        keys[keys.count - 1] = index
      }
    case .scalar, .alias: break
    }
  }

  private func lastEnd(_ content: YAMLNode.Content) -> Int? {
    switch content {
    case .sequence(let children): children.last.map { nodes[$0].end }
    case .mapping(let pairs): pairs.last.map { max(nodes[$0.value].end, nodes[$0.key].end) }
    case .scalar, .alias: nil
    }
  }

  /// Where a block scalar's own bytes end: without the blank lines and the line end after it, unless it keeps them.
  private func blockEnd(_ start: Int, _ end: Int) -> Int {
    let header = source[start..<end].prefix { $0 != 0x0A && $0 != 0x0D }
    let keeps = header.prefix { $0 != UInt8(ascii: "#") }.contains(UInt8(ascii: "+"))
    var last = end
    if keeps {
      // At the line end, as every other node's end is.
      if last > start, source[last - 1] == 0x0A { last -= 1 }
      if last > start, source[last - 1] == 0x0D { last -= 1 }
      return last
    }
    while last > start, [0x20, 0x09, 0x0A, 0x0D].contains(source[last - 1]) { last -= 1 }
    return last
  }

  /// The input with each character YAML 1.1 takes for a line break, and YAML 1.2 does not, replaced by one of the same
  /// length that the text does not hold; and the map from characters to bytes, since libyaml's marks count characters.
  private mutating func prepared() -> [UInt8] {
    if source.allSatisfy({ $0 < 0x80 }) { return source }
    var starts: [Int32] = []
    starts.reserveCapacity(source.count)
    for index in source.indices where source[index] & 0xC0 != 0x80 { starts.append(Int32(truncatingIfNeeded: index)) }
    places = starts
    var input = source
    for real in [[0xC2, 0x85], [0xE2, 0x80, 0xA8], [0xE2, 0x80, 0xA9], [0xEF, 0xBB, 0xBF]] as [[UInt8]]
    where occurs(real, in: input) {
      guard let standIn = unused(real.count, in: input) else { continue }
      standIns.append((standIn, real))
      input = replaced(input, real, standIn)
    }
    return input
  }

  private func unused(_ length: Int, in input: [UInt8]) -> [UInt8]? {
    // Letters: U+0400 and on in two bytes, private use U+E000 and on in three.
    for step in 0..<64 {
      let candidate: [UInt8] =
        length == 2 ? [0xD2, 0x80 + UInt8(step)] : [0xEE, 0x80, 0x80 + UInt8(step)]
      if !occurs(candidate, in: input) { return candidate }
    }
    return nil
  }

  private func occurs(_ needle: [UInt8], in bytes: [UInt8]) -> Bool {
    guard bytes.count >= needle.count else { return false }
    var at = 0
    let first = needle[0]
    while at + needle.count <= bytes.count {
      if bytes[at] == first, bytes[at..<(at + needle.count)].elementsEqual(needle) { return true }
      at += 1
    }
    return false
  }

  private func replaced(_ bytes: [UInt8], _ needle: [UInt8], _ other: [UInt8]) -> [UInt8] {
    var out = bytes
    var at = 0
    while at + needle.count <= out.count {
      if out[at] == needle[0], out[at..<(at + needle.count)].elementsEqual(needle) {
        for offset in needle.indices { out[at + offset] = other[offset] }
        at += needle.count
      } else {
        at += 1
      }
    }
    return out
  }

  private func restored(_ value: [UInt8]) -> [UInt8] {
    standIns.isEmpty ? value : standIns.reduce(value) { replaced($0, $1.standIn, $1.real) }
  }

  private func bytes(_ pointer: UnsafeMutablePointer<yaml_char_t>) -> [UInt8] {
    Array(
      UnsafeBufferPointer(start: pointer, count: strlen(UnsafeRawPointer(pointer).assumingMemoryBound(to: CChar.self))))
  }

  private func place(_ mark: yaml_mark_t) -> Int {
    let index = Int(clamping: mark.index)
    guard let places else { return min(index, source.count) }
    return index < places.count ? Int(places[index]) : source.count
  }

  private func at(_ mark: yaml_mark_t, _ reason: String) -> YAMLFailure {
    YAMLFailure(reason: reason, line: Int(clamping: mark.line), column: Int(clamping: mark.column))
  }

  private func problem(_ parser: yaml_parser_t) -> YAMLFailure {
    let words = parser.problem.map { String(cString: $0) } ?? "it does not parse"
    if parser.error == YAML_READER_ERROR {
      return YAMLFailure(reason: "\(words) (at byte \(parser.problem_offset))")
    }
    return at(parser.problem_mark, words)
  }
}
