import MarfaBase

/// Edits a YAML text in place: what is unchanged keeps its bytes (F7.29).
///
/// It collects replacements of byte ranges; `result()` applies them. It promises nothing about hard cases (compact
/// nested collections, odd flow layouts): its caller reads the result back and compares (F7.35).
struct YAMLEditor {
  /// Where a node stands.
  struct Place {
    /// The column of the collection the node is in.
    var column: Int
    /// Whether that is a list.
    var inSequence: Bool
    /// Whether that is in brackets.
    var inFlow: Bool
  }

  /// What becomes of one entry of a mapping.
  enum Fate {
    case stays
    case becomes(JSON)
    /// Becomes this text on its own line, as it stands.
    case reads(JSON, [UInt8])
    case goes
  }

  struct Replacement {
    let range: Range<Int>
    let text: [UInt8]
  }

  let yaml: YAMLDocument
  let text: YAMLText
  /// Anchors whose aliases are written out (F7.32).
  let expanding: Set<Int>
  /// Changed values are written anew whole instead of edited inside.
  let coarse: Bool
  /// Anchored nodes that changed, moved or went.
  private(set) var touched: Set<Int> = []
  private(set) var replacements: [Replacement] = []

  init(yaml: YAMLDocument, lineEnding: LineEnding, expanding: Set<Int>, coarse: Bool) {
    self.yaml = yaml
    text = YAMLText(lineEnding: lineEnding)
    self.expanding = expanding
    self.coarse = coarse
  }

  var source: [UInt8] { yaml.source }

  /// The text with all replacements made.
  func result() -> [UInt8] { applied(replacements, to: 0..<source.count) }

  func applied(_ replacements: [Replacement], to range: Range<Int>) -> [UInt8] {
    // At one place an insertion goes before what is replaced there; insertions keep their order.
    let ordered = replacements.enumerated().sorted {
      let (left, right) = ($0.element.range, $1.element.range)
      if left.lowerBound != right.lowerBound { return left.lowerBound < right.lowerBound }
      if left.isEmpty != right.isEmpty { return left.isEmpty }
      return $0.offset < $1.offset
    }
    var out: [UInt8] = []
    out.reserveCapacity(range.count + 256)
    var at = range.lowerBound
    for (_, replacement) in ordered where replacement.range.lowerBound >= at {
      out += source[at..<replacement.range.lowerBound]
      out += replacement.text
      at = replacement.range.upperBound
    }
    if at < range.upperBound { out += source[at..<range.upperBound] }
    return out
  }

  /// Sets the replacements aside or back, for the text of a child that moves.
  mutating func takeReplacements(_ other: [Replacement]) { replacements = other }

  mutating func replace(_ range: Range<Int>, with bytes: [UInt8]) {
    replacements.append(Replacement(range: range, text: bytes))
  }

  /// Marks the anchors within a node as no longer standing for what they did.
  mutating func touch(_ index: Int) {
    for node in index..<subtreeEnd(index) where yaml.nodes[node].isAnchored { touched.insert(node) }
  }

  func subtreeEnd(_ index: Int) -> Int {
    switch yaml.nodes[index].content {
    case .scalar, .alias: index + 1
    case .sequence(let children): children.last.map(subtreeEnd) ?? index + 1
    case .mapping(let pairs): pairs.last.map { subtreeEnd($0.value) } ?? index + 1
    }
  }

  private func holdsExpanding(_ index: Int) -> Bool {
    guard !expanding.isEmpty else { return false }
    for node in index..<subtreeEnd(index) {
      if case .alias(let target) = yaml.nodes[node].content, expanding.contains(target) { return true }
    }
    return false
  }

  /// The value of a node, or nil where it has none.
  func value(_ index: Int) -> JSON? { try? yaml.value(of: index) }

  /// Makes a node say `want`.
  mutating func change(_ index: Int, to want: JSON, at place: Place) throws(RenderFailure) {
    let node = yaml.nodes[index]
    let same = value(index) == want
    let expands = holdsExpanding(index)
    if same, !expands { return }
    if case .alias = node.content { return try write(want, over: index, at: place) }
    if !same, node.isAnchored { touched.insert(index) }
    switch (node.content, want) {
    case (.mapping(let pairs), .object(let object)) where !object.isEmpty && !pairs.isEmpty && !(coarse && !same):
      try edit(mapping: pairs, node, object, at: place, index)
    case (.sequence(let children), .array(let values)) where !values.isEmpty && !children.isEmpty && !(coarse && !same):
      try edit(sequence: children, node, values, at: place, index)
    default: try write(want, over: index, at: place)
    }
  }

  private mutating func edit(
    mapping pairs: [YAMLNode.Pair], _ node: YAMLNode, _ want: JSONObject, at place: Place, _ index: Int
  ) throws(RenderFailure) {
    var fates: [Fate] = []
    var kept: Set<Text> = []
    for pair in pairs {
      guard let key = value(pair.key)?.text, let value = want[key] else {
        fates.append(.goes)
        continue
      }
      kept.insert(key)
      fates.append(.becomes(value))
    }
    guard !kept.isEmpty else { return try write(.object(want), over: index, at: place) }
    let added = want.members.filter { !kept.contains($0.key) }.map { ($0.key, $0.value) }
    if node.isFlow {
      try editFlow(pairs, fates, adding: added)
    } else {
      let column = column(firstToken(of: index))
      var lines: [UInt8] = []
      for (key, value) in added { lines += try text.pair(key, value, column: column) }
      try editBlock(pairs, fates, first: firstToken(of: index))
      if !lines.isEmpty, let last = pairs.last {
        let end = lineEnd(end(of: last))
        replace(end..<end, with: lines)
      }
    }
  }

  func end(of pair: YAMLNode.Pair) -> Int { max(yaml.nodes[pair.value].end, yaml.nodes[pair.key].end) }

  /// Gives each entry of a block mapping its fate.
  mutating func editBlock(_ pairs: [YAMLNode.Pair], _ fates: [Fate], first: Int) throws(RenderFailure) {
    var starts: [Int] = []
    for (number, pair) in pairs.enumerated() {
      starts.append(number == 0 ? first : min(skipTrivia(end(of: pairs[number - 1])), yaml.nodes[pair.key].start))
    }
    let column = column(first)
    let place = Place(column: column, inSequence: false, inFlow: false)
    // The first entry may stand behind `- `: what follows moves up to its place.
    let isCompact = !source[lineStart(first)..<first].allSatisfy { $0 == 0x20 }
    var leading = isCompact
    for (number, pair) in pairs.enumerated() {
      switch fates[number] {
      case .goes:
        touch(pair.key)
        touch(pair.value)
        if leading, number + 1 < pairs.count {
          replace(starts[number]..<starts[number + 1], with: [])
        } else {
          replace(lineStart(starts[number])..<lineEnd(end(of: pair)), with: [])
        }
      case .stays:
        leading = false
        if holdsExpanding(pair.value), let value = value(pair.value) { try change(pair.value, to: value, at: place) }
      case .becomes(let value):
        leading = false
        try change(pair.value, to: value, at: place)
      case .reads(_, let written):
        leading = false
        touch(pair.value)
        write(inline: written, over: pair.value, at: place)
      }
    }
  }

  /// Gives each entry of a mapping in braces its fate.
  mutating func editFlow(
    _ pairs: [YAMLNode.Pair], _ fates: [Fate], adding added: [(Text, JSON)]
  ) throws(RenderFailure) {
    let place = Place(column: 0, inSequence: false, inFlow: true)
    let lastStaying = fates.lastIndex { if case .goes = $0 { false } else { true } } ?? -1
    var lastKept: Int?
    for (number, pair) in pairs.enumerated() {
      switch fates[number] {
      case .goes:
        touch(pair.key)
        touch(pair.value)
        if number < lastStaying {
          replace(yaml.nodes[pair.key].start..<yaml.nodes[pairs[number + 1].key].start, with: [])
        } else if let lastKept {
          replace(end(of: pairs[lastKept])..<end(of: pair), with: [])
          // What follows the last kept goes with the first of these replacements.
          for rest in pairs[(number + 1)...] {
            touch(rest.key)
            touch(rest.value)
            replace(end(of: pairs[number])..<end(of: rest), with: [])
          }
          return try append(added, after: end(of: pairs[pairs.count - 1]))
        }
      case .stays:
        lastKept = number
        if holdsExpanding(pair.value), let value = value(pair.value) { try change(pair.value, to: value, at: place) }
      case .becomes(let value):
        lastKept = number
        try change(pair.value, to: value, at: place)
      case .reads(_, let written):
        lastKept = number
        touch(pair.value)
        write(inline: written, over: pair.value, at: place)
      }
    }
    if let last = pairs.last { try append(added, after: end(of: last)) }
  }

  private mutating func append(_ added: [(Text, JSON)], after end: Int) throws(RenderFailure) {
    for (key, value) in added {
      var bytes = Array(", ".utf8)
      bytes += try YAMLText.string(key, flow: true)
      bytes += ": ".utf8
      bytes += try YAMLText.inline(value, flow: true)
      replace(end..<end, with: bytes)
    }
  }

  /// Writes a value where a node stands.
  mutating func write(_ want: JSON, over index: Int, at place: Place) throws(RenderFailure) {
    touch(index)
    let node = yaml.nodes[index]
    if place.inFlow { return write(inline: try YAMLText.inline(want, flow: true), over: index, at: place) }
    let rest = source[node.end..<lineEnd(node.end)]
    let endsLine = rest.allSatisfy { $0 == 0x20 || $0 == 0x09 || $0 == 0x0A || $0 == 0x0D }
    let isOwnLine =
      node.start > 0 && source[lineStart(node.start)..<node.start].allSatisfy { $0 == 0x20 }
      && !place.inSequence
    let indent = place.column + 2
    switch want {
    case .object(let object) where !object.isEmpty && endsLine:
      try write(block: want, over: node, at: place, isOwnLine: isOwnLine, indent: indent)
    case .array(let values) where !values.isEmpty && endsLine && !place.inSequence:
      try write(block: want, over: node, at: place, isOwnLine: isOwnLine, indent: indent)
    case .string(let string) where endsLine && !isOwnLine:
      if let literal = text.literal(string, column: indent) {
        write(inline: literal, over: index, at: place, through: pastBlanks(node.end))
      } else {
        write(inline: try YAMLText.string(string, flow: false), over: index, at: place)
      }
    case .object, .array, .string, .null, .bool, .number:
      write(inline: try YAMLText.inline(want, flow: false), over: index, at: place)
    }
  }

  private mutating func write(
    block want: JSON, over node: YAMLNode, at place: Place, isOwnLine: Bool, indent: Int
  ) throws(RenderFailure) {
    if place.inSequence {
      // Behind the dash: `- key: value`, the rest below the key.
      let column = node.start == node.end ? indent : column(node.start)
      let lead: [UInt8] = node.start == node.end ? [0x20] : []
      return replace(node.start..<pastBlanks(node.end), with: lead + (try text.block(want, column: column)))
    }
    if isOwnLine {
      let column = column(node.start)
      let wanted = column > place.column ? column : indent
      let lead = text.spaces(wanted - column)
      return replace(node.start..<pastBlanks(node.end), with: lead + (try text.block(want, column: wanted)))
    }
    var start = node.start
    while start > 0, source[start - 1] == 0x20 || source[start - 1] == 0x09 { start -= 1 }
    let lines = text.lineEnding.bytes + text.spaces(indent)
    replace(start..<pastBlanks(node.end), with: lines + (try text.block(want, column: indent)))
  }

  /// Writes one line's text over a node, indented under its key where it stands below it (F7.34).
  /// - Parameter end: where what is written over ends; nil is the node's end.
  mutating func write(inline bytes: [UInt8], over index: Int, at place: Place, through end: Int? = nil) {
    let node = yaml.nodes[index]
    var bytes = bytes
    if node.start == node.end {
      if node.start > 0, source[node.start - 1] != 0x20 { bytes.insert(0x20, at: 0) }
      if node.end < source.count, !" \t\r\n,]}".utf8.contains(source[node.end]) { bytes.append(0x20) }
    } else if !place.inFlow, !place.inSequence,
      source[lineStart(node.start)..<node.start].allSatisfy({ $0 == 0x20 }), column(node.start) <= place.column
    {
      bytes.insert(contentsOf: text.spaces(place.column + 2 - column(node.start)), at: 0)
    }
    replace(node.start..<(end ?? node.end), with: bytes)
  }

  // MARK: Places

  /// Past the blanks that follow an offset: behind lines of a block they would be its text.
  private func pastBlanks(_ offset: Int) -> Int {
    source[offset...].firstIndex { $0 != 0x20 && $0 != 0x09 } ?? source.count
  }

  func lineStart(_ offset: Int) -> Int { (source[..<offset].lastIndex(of: 0x0A) ?? -1) + 1 }

  /// Past the line end that follows an offset: a comment on the line goes along.
  func lineEnd(_ offset: Int) -> Int { source[offset...].firstIndex(of: 0x0A).map { $0 + 1 } ?? source.count }

  func column(_ offset: Int) -> Int {
    source[lineStart(offset)..<offset].count { $0 & 0xC0 != 0x80 }
  }

  /// The next byte that is neither blank, line end nor comment.
  func skipTrivia(_ offset: Int) -> Int {
    var at = offset
    while at < source.count {
      switch source[at] {
      case 0x20, 0x09, 0x0A, 0x0D: at += 1
      case UInt8(ascii: "#") where at == 0 || [0x20, 0x09, 0x0A, 0x0D].contains(source[at - 1]): at = lineEnd(at)
      default: return at
      }
    }
    return at
  }

  /// Where the first token of a block collection stands: its anchor and tag passed.
  func firstToken(of index: Int) -> Int {
    let node = yaml.nodes[index]
    var at = node.start
    // A collection with properties begins at them; its first key or dash comes after.
    guard node.isAnchored || node.tag != nil else { return at }
    while at < source.count, source[at] == UInt8(ascii: "&") || source[at] == UInt8(ascii: "!") {
      while at < source.count, ![0x20, 0x09, 0x0A, 0x0D].contains(source[at]) { at += 1 }
      at = skipTrivia(at)
    }
    return at
  }
}
