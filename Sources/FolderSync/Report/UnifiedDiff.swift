/// The difference of two texts as `diff -u` tells it: bytes, lines ending at a line feed, three lines around each change.
package struct UnifiedDiff: Sendable {
  /// A side's text and what it is called; an absent side is `/dev/null`.
  package struct Side: Sendable {
    var bytes: [UInt8]?
    var name: String

    /// A side.
    package init(_ bytes: [UInt8]?, _ name: String) {
      self.bytes = bytes
      self.name = name
    }

    fileprivate var isBinary: Bool { bytes?.prefix(8192).contains(0) ?? false }
  }

  /// Lines that go and lines that come.
  package private(set) var removed = 0
  package private(set) var added = 0
  /// The whole text, with its two headers; empty where both sides are the same.
  package private(set) var text: [UInt8] = []

  /// The difference between two sides.
  package init(_ old: Side, _ new: Side) {
    guard old.bytes != new.bytes else { return }
    let names = [old.bytes == nil ? "/dev/null" : old.name, new.bytes == nil ? "/dev/null" : new.name].map(Self.quoted)
    if old.isBinary || new.isBinary {
      text = Array("Binary files \(names[0]) and \(names[1]) differ\n".utf8)
      return
    }
    let (before, after) = (Self.lines(old.bytes ?? []), Self.lines(new.bytes ?? []))
    let edits = LineEdits(before, after).edits
    text = Array("--- \(names[0])\n+++ \(names[1])\n".utf8)
    for hunk in Self.hunks(edits) { write(edits[hunk], before, after) }
  }

  /// A name on one line: one with control characters in it is quoted as C quotes it, as git does.
  private static func quoted(_ name: String) -> String {
    guard name.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) else { return name }
    var out = "\""
    for scalar in name.unicodeScalars {
      switch scalar {
      case "\"", "\\": out += "\\\(scalar)"
      case "\n": out += "\\n"
      case "\t": out += "\\t"
      case "\r": out += "\\r"
      case _ where scalar.value < 0x20 || scalar.value == 0x7F:
        let octal = String(scalar.value, radix: 8)
        out += "\\" + String(repeating: "0", count: 3 - octal.utf8.count) + octal
      default: out.unicodeScalars.append(scalar)
      }
    }
    return out + "\""
  }

  /// The lines of a text, their line feeds with them.
  private static func lines(_ bytes: [UInt8]) -> [ArraySlice<UInt8>] {
    var out: [ArraySlice<UInt8>] = []
    var start = 0
    while start < bytes.count {
      let end = bytes[start...].firstIndex(of: 0x0A).map { $0 + 1 } ?? bytes.count
      out.append(bytes[start..<end])
      start = end
    }
    return out
  }

  /// Ranges of the edits told together: changes less than seven lines apart share a hunk.
  private static func hunks(_ edits: [LineEdits.Edit]) -> [Range<Int>] {
    var out: [Range<Int>] = []
    for (index, edit) in edits.enumerated() where edit.kind != .keep {
      let around = max(0, index - 3)..<min(edits.count, index + 4)
      if let last = out.last, around.lowerBound <= last.upperBound {
        out[out.count - 1] = last.lowerBound..<around.upperBound
      } else {
        out.append(around)
      }
    }
    return out
  }

  private mutating func write(
    _ hunk: ArraySlice<LineEdits.Edit>, _ before: [ArraySlice<UInt8>], _ after: [ArraySlice<UInt8>]
  ) {
    guard let first = hunk.first else { return }
    let old = hunk.count { $0.kind != .add }
    let new = hunk.count { $0.kind != .remove }
    func range(_ start: Int, _ count: Int) -> String {
      // An empty side is named by the line before it.
      count == 1 ? "\(start + 1)" : "\(count == 0 ? start : start + 1),\(count)"
    }
    text += Array("@@ -\(range(first.old, old)) +\(range(first.new, new)) @@\n".utf8)
    for edit in hunk {
      let line: ArraySlice<UInt8>
      switch edit.kind {
      case .keep:
        text.append(UInt8(ascii: " "))
        line = before[edit.old]
      case .remove:
        removed += 1
        text.append(UInt8(ascii: "-"))
        line = before[edit.old]
      case .add:
        added += 1
        text.append(UInt8(ascii: "+"))
        line = after[edit.new]
      }
      text += line
      if line.last != 0x0A { text += Array("\n\\ No newline at end of file\n".utf8) }
    }
  }
}

/// What makes one list of lines the other: the fewest removals and additions (Myers), what both begin and end with left
/// out. Texts that have next to nothing in common are told as one replaced by the other, which costs no time to find.
private struct LineEdits {
  enum Kind { case keep, remove, add }

  /// One line, and where it stands, or would, on both sides.
  struct Edit {
    var kind: Kind
    var old: Int
    var new: Int
  }

  private(set) var edits: [Edit] = []
  private let before: [ArraySlice<UInt8>]
  private let after: [ArraySlice<UInt8>]
  /// How many changes are looked for before the rest is told as replaced.
  private static let limit = 2000

  init(_ before: [ArraySlice<UInt8>], _ after: [ArraySlice<UInt8>]) {
    self.before = before
    self.after = after
    var head = 0
    while head < before.count, head < after.count, before[head] == after[head] { head += 1 }
    var tail = 0
    while tail < before.count - head, tail < after.count - head,
      before[before.count - 1 - tail] == after[after.count - 1 - tail]
    {
      tail += 1
    }
    for line in 0..<head { edits.append(Edit(kind: .keep, old: line, new: line)) }
    let (old, new) = (head..<(before.count - tail), head..<(after.count - tail))
    if let path = path(old, new) {
      edits += path
    } else {
      edits += old.map { Edit(kind: .remove, old: $0, new: new.lowerBound) }
      edits += new.map { Edit(kind: .add, old: old.upperBound, new: $0) }
    }
    for step in 0..<tail { edits.append(Edit(kind: .keep, old: old.upperBound + step, new: new.upperBound + step)) }
  }

  /// The shortest way through the two ranges; nil past the limit.
  private func path(_ old: Range<Int>, _ new: Range<Int>) -> [Edit]? {
    let (width, height) = (old.count, new.count)
    guard width > 0, height > 0 else { return nil }
    let most = min(width + height, Self.limit)
    // The furthest old line reached on each diagonal, kept for each number of changes.
    var furthest = [Int](repeating: 0, count: 2 * most + 3)
    var trace: [[Int]] = []
    for changes in 0...most {
      trace.append(Array(furthest[(most - changes)...(most + changes + 2)]))
      for diagonal in stride(from: -changes, through: changes, by: 2) {
        let place = diagonal + most + 1
        let goesDown =
          diagonal == -changes || (diagonal != changes && furthest[place - 1] < furthest[place + 1])
        var x = goesDown ? furthest[place + 1] : furthest[place - 1] + 1
        var y = x - diagonal
        while x < width, y < height, before[old.lowerBound + x] == after[new.lowerBound + y] {
          x += 1
          y += 1
        }
        furthest[place] = x
        if x >= width, y >= height { return walkBack(trace, old, new) }
      }
    }
    return nil
  }

  private func walkBack(_ trace: [[Int]], _ old: Range<Int>, _ new: Range<Int>) -> [Edit] {
    var out: [Edit] = []
    var (x, y) = (old.count, new.count)
    func keep() {
      x -= 1
      y -= 1
      out.append(Edit(kind: .keep, old: old.lowerBound + x, new: new.lowerBound + y))
    }
    for changes in trace.indices.reversed() where changes > 0 {
      // `trace[changes]` holds what was reached before, on the diagonals from -changes - 1 to changes + 1.
      func reached(_ diagonal: Int) -> Int { trace[changes][diagonal + changes + 1] }
      let diagonal = x - y
      let wentDown = diagonal == -changes || (diagonal != changes && reached(diagonal - 1) < reached(diagonal + 1))
      let from = wentDown ? diagonal + 1 : diagonal - 1
      let (startX, startY) = (reached(from), reached(from) - from)
      while x > startX, y > startY { keep() }
      if wentDown { y -= 1 } else { x -= 1 }
      out.append(Edit(kind: wentDown ? .add : .remove, old: old.lowerBound + x, new: new.lowerBound + y))
    }
    while x > 0, y > 0 { keep() }
    return out.reversed()
  }
}
