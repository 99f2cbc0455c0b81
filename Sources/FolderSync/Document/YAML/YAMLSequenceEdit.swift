import MarfaBase

extension YAMLEditor {
  /// Makes a list say `values`: children that are still wanted keep their source and comments wherever they go (F7.29).
  mutating func edit(
    sequence children: [Int], _ node: YAMLNode, _ values: [JSON], at place: Place, _ index: Int
  ) throws(RenderFailure) {
    let sources = matched(children, values)
    let used = sources.compactMap { $0 }
    guard !used.isEmpty else { return try write(.array(values), over: index, at: place) }
    let kept = Set(used)
    for (number, child) in children.enumerated() where !kept.contains(number) { touch(child) }
    let inOrder = zip(used, used.dropFirst()).allSatisfy { $0 < $1 }
    switch (node.isFlow, inOrder) {
    case (true, true): try editFlow(children, values, sources)
    case (true, false): try rebuildFlow(children, values, sources)
    case (false, true): try editBlock(children, values, sources, first: firstToken(of: index))
    case (false, false): try rebuildBlock(children, values, sources, first: firstToken(of: index))
    }
  }

  /// Which child each wanted value is made of; nil for a new one.
  private func matched(_ children: [Int], _ values: [JSON]) -> [Int?] {
    let held = children.map { value($0) }
    var free: [JSON: [Int]] = [:]
    for (number, value) in held.enumerated().reversed() {
      if let value { free[value, default: []].append(number) }
    }
    var sources = [Int?](repeating: nil, count: values.count)
    var taken = Set<Int>()
    for (number, value) in values.enumerated() {
      guard let child = free[value]?.popLast() else { continue }
      sources[number] = child
      taken.insert(child)
    }
    // A changed child is edited in place: the one at the same place, else the next of its kind.
    // What is taken stays taken, so each search goes on where the one before it ended.
    func next(_ from: inout Int, where fits: (Int) -> Bool) -> Int? {
      while from < held.count, !fits(from) { from += 1 }
      return from < held.count ? from : nil
    }
    var nextObject = 0
    var nextList = 0
    for number in values.indices where sources[number] == nil {
      if children.count == values.count, !taken.contains(number) {
        sources[number] = number
        taken.insert(number)
        continue
      }
      let candidate: Int?
      switch values[number] {
      case .object: candidate = next(&nextObject) { if case .object = held[$0] { !taken.contains($0) } else { false } }
      case .array: candidate = next(&nextList) { if case .array = held[$0] { !taken.contains($0) } else { false } }
      case .null, .bool, .number, .string: candidate = nil
      }
      if let candidate {
        sources[number] = candidate
        taken.insert(candidate)
      }
    }
    return sources
  }

  private func dashes(_ children: [Int], first: Int) -> [Int] {
    children.indices.map { $0 == 0 ? first : skipTrivia(yaml.nodes[children[$0 - 1]].end) }
  }

  private mutating func editBlock(
    _ children: [Int], _ values: [JSON], _ sources: [Int?], first: Int
  ) throws(RenderFailure) {
    let dashes = dashes(children, first: first)
    let column = column(first)
    let place = Place(column: column, inSequence: true, inFlow: false)
    let used = Set(sources.compactMap { $0 })
    let isCompact = !source[lineStart(first)..<first].allSatisfy { $0 == 0x20 }
    var leading = isCompact
    for (number, child) in children.enumerated() {
      if used.contains(number) {
        leading = false
      } else if leading, number + 1 < children.count {
        replace(dashes[number]..<dashes[number + 1], with: [])
      } else {
        replace(lineStart(dashes[number])..<lineEnd(yaml.nodes[child].end), with: [])
      }
    }
    var previous: Int?
    for (number, value) in values.enumerated() {
      if let child = sources[number] {
        try change(children[child], to: value, at: place)
        previous = child
      } else if let previous {
        let end = lineEnd(yaml.nodes[children[previous]].end)
        replace(end..<end, with: try text.element(value, column: column))
      } else if isCompact {
        replace(first..<first, with: try text.element(value, column: column, indented: false) + text.spaces(column))
      } else {
        let start = lineStart(first)
        replace(start..<start, with: try text.element(value, column: column))
      }
    }
  }

  private mutating func rebuildBlock(
    _ children: [Int], _ values: [JSON], _ sources: [Int?], first: Int
  ) throws(RenderFailure) {
    let dashes = dashes(children, first: first)
    let column = column(first)
    let place = Place(column: column, inSequence: true, inFlow: false)
    let isCompact = !source[lineStart(first)..<first].allSatisfy { $0 == 0x20 }
    func lead(_ number: Int) -> Int {
      if number > 0 { return lineEnd(yaml.nodes[children[number - 1]].end) }
      return isCompact ? first : commentsAbove(lineStart(first))
    }
    guard let last = children.last else { return }
    let whole = lead(0)..<lineEnd(yaml.nodes[last].end)
    let outer = replacements
    var out: [UInt8] = []
    for (number, value) in values.enumerated() {
      guard let child = sources[number] else {
        out += try text.element(value, column: column)
        continue
      }
      takeReplacements([])
      try change(children[child], to: value, at: place)
      let begin = isCompact && number == 0 ? dashes[child] : lead(child)
      if isCompact, child == 0, number > 0 { out += text.spaces(column) }
      out += applied(replacements, to: begin..<lineEnd(yaml.nodes[children[child]].end))
    }
    takeReplacements(outer)
    if isCompact, sources.first == .some(nil) { out.removeFirst(column) }
    replace(whole, with: out)
  }

  /// Where the comment lines right above a line begin.
  private func commentsAbove(_ line: Int) -> Int {
    var start = line
    while start > 0 {
      let above = lineStart(start - 1)
      let content = source[above..<(start - 1)].drop { $0 == 0x20 || $0 == 0x09 }
      guard content.first == UInt8(ascii: "#") else { break }
      start = above
    }
    return start
  }

  private mutating func editFlow(_ children: [Int], _ values: [JSON], _ sources: [Int?]) throws(RenderFailure) {
    let place = Place(column: 0, inSequence: true, inFlow: true)
    let used = sources.compactMap { $0 }
    guard let firstUsed = used.first, let lastUsed = used.last else { return }
    func node(_ number: Int) -> YAMLNode { yaml.nodes[children[number]] }
    if firstUsed > 0 { replace(node(0).start..<node(firstUsed).start, with: []) }
    for (left, right) in zip(used, used.dropFirst()) where right > left + 1 {
      replace(node(left + 1).start..<node(right).start, with: [])
    }
    var previous: Int?
    for (number, value) in values.enumerated() {
      if let child = sources[number] {
        try change(children[child], to: value, at: place)
        previous = child
      } else if let previous {
        let end = node(previous).end
        replace(end..<end, with: Array(", ".utf8) + (try YAMLText.inline(value, flow: true)))
      } else {
        let start = node(firstUsed).start
        replace(start..<start, with: try YAMLText.inline(value, flow: true) + ", ".utf8)
      }
    }
    if lastUsed < children.count - 1 { replace(node(lastUsed).end..<node(children.count - 1).end, with: []) }
  }

  /// Children in another order: each with its own text, and with the comment behind it where the list has comments.
  private mutating func rebuildFlow(_ children: [Int], _ values: [JSON], _ sources: [Int?]) throws(RenderFailure) {
    let place = Place(column: 0, inSequence: true, inFlow: true)
    guard let first = children.first, let last = children.last else { return }
    let outer = replacements
    var pieces: [[UInt8]] = []
    for (number, value) in values.enumerated() {
      guard let child = sources[number] else {
        pieces.append(try YAMLText.inline(value, flow: true))
        continue
      }
      takeReplacements([])
      try change(children[child], to: value, at: place)
      let node = yaml.nodes[children[child]]
      pieces.append(applied(replacements, to: node.start..<node.end))
    }
    takeReplacements(outer)
    let comments = children.map { comment(behind: yaml.nodes[$0].end) }
    let start = yaml.nodes[first].start
    guard comments.contains(where: { $0 != nil }) else {
      let gap: [UInt8] = children.count > 1 ? gap(children) : Array(", ".utf8)
      return replace(start..<yaml.nodes[last].end, with: Array(pieces.joined(separator: gap)))
    }
    // One child to a line, each before its comment.
    let indent = text.lineEnding.bytes + text.spaces(column(start))
    var out: [UInt8] = []
    var end = yaml.nodes[last].end
    for (number, piece) in pieces.enumerated() {
      out += piece
      if number < pieces.count - 1 { out.append(UInt8(ascii: ",")) }
      let comment = sources[number].flatMap { comments[$0] }
      if let comment { out += [0x20] + comment }
      if number < pieces.count - 1 { out += indent }
    }
    if let tail = comments[children.count - 1] {
      end = source[end...].firstRange(of: tail).map(\.upperBound) ?? end
    }
    let endsInComment = sources.last.flatMap { $0 }.flatMap { comments[$0] } != nil
    if endsInComment, !source[end...].prefix(while: { $0 != 0x0A }).allSatisfy({ $0 == 0x20 || $0 == 0x0D }) {
      out += indent
    }
    replace(start..<end, with: out)
  }

  /// What stands between the first two children, where it is a comma and blanks.
  private func gap(_ children: [Int]) -> [UInt8] {
    let between = source[yaml.nodes[children[0]].end..<yaml.nodes[children[1]].start]
    return between.allSatisfy({ " ,\t\r\n".utf8.contains($0) }) ? Array(between) : Array(", ".utf8)
  }

  /// The comment on the same line behind a child in brackets, its comma passed.
  private func comment(behind offset: Int) -> [UInt8]? {
    var rest = source[offset...].drop { $0 == 0x20 || $0 == 0x09 || $0 == UInt8(ascii: ",") }
    guard rest.first == UInt8(ascii: "#"), rest.startIndex > offset else { return nil }
    rest = rest.prefix { $0 != 0x0A && $0 != 0x0D }
    return Array(rest)
  }
}
