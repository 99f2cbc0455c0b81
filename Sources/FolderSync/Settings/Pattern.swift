import CUTF8Proc
import MarfaBase

/// Why a line of a list is no pattern (F25.9).
package struct PatternRefusal: Error, Hashable, Sendable, CustomStringConvertible {
  /// The line as written.
  package var line: Text
  /// What is wrong with it, in words.
  package var reason: String
  /// The setting that holds it, `include` or `ignore`; empty until a list names itself.
  package var list = ""

  package var description: String {
    let place = list.isEmpty ? "" : "the \(list) list: "
    return "\(place)'\(line)' is not a pattern: \(reason)"
  }
}

/// One line of an include or ignore list, its braces spread out (F25.10).
struct Pattern: Sendable {
  /// A `!` line.
  let isNegated: Bool
  /// A line that ends in `/` names directories only.
  let directoriesOnly: Bool
  /// What each spelling of its braces matches.
  let globs: [PathGlob]

  /// Reads a line; nil for a blank one and a comment.
  init?(_ line: Text) throws(PatternRefusal) {
    func refused(_ reason: String) -> PatternRefusal { PatternRefusal(line: line, reason: reason) }
    // NFC first: a character of the line is one of the name, whichever form an editor wrote it in (F25.11).
    var scalars = Array(String(decoding: nfc(line.bytes) ?? line.bytes, as: UTF8.self).unicodeScalars)
    if scalars.last == "\r" { scalars.removeLast() }
    while scalars.last == " " {
      // A space after an odd number of backslashes is escaped and stays.
      let escapes = scalars.dropLast().reversed().prefix { $0 == "\\" }.count
      if escapes % 2 == 1 { break }
      scalars.removeLast()
    }
    guard let first = scalars.first, first != "#" else { return nil }
    isNegated = first == "!"
    if isNegated { scalars.removeFirst() }
    if scalars.isEmpty { return nil }
    let escapes = scalars.reversed().prefix { $0 == "\\" }.count
    if escapes % 2 == 1 { throw refused("a backslash at its end escapes nothing") }
    directoriesOnly = scalars.last == "/"
    if directoriesOnly { scalars.removeLast() }
    var globs: [PathGlob] = []
    for spelling in try Braces.spread(scalars[...], line) {
      if let glob = try PathGlob(spelling, line) { globs.append(glob) }
    }
    self.globs = globs
  }

  /// Whether it names this very path.
  func matches(_ path: FoldedPath, isDirectory: Bool) -> Bool {
    guard isDirectory || !directoriesOnly else { return false }
    return globs.contains { $0.matches(path) }
  }

  /// Whether it could name something below this directory.
  func couldMatchBelow(_ directory: FoldedPath) -> Bool { globs.contains { $0.couldMatchBelow(directory) } }

  /// Whether one of its components begins with a literal dot and matches the name (F25.5).
  func namesDotLed(_ name: FoldedName) -> Bool { globs.contains { $0.namesDotLed(name) } }
}

/// Alternations in braces, spread into one spelling each.
private enum Braces {
  /// More spellings than any list a person writes; each would be tried against every path.
  static let most = 1024

  static func spread(_ text: ArraySlice<Unicode.Scalar>, _ line: Text) throws(PatternRefusal) -> [[Unicode.Scalar]] {
    func refused(_ reason: String) -> PatternRefusal { PatternRefusal(line: line, reason: reason) }
    var spellings: [[Unicode.Scalar]] = [[]]
    var at = text.startIndex
    while at < text.endIndex {
      switch text[at] {
      case "{":
        let (alternatives, end) = try alternatives(text, at, line)
        var inner: [[Unicode.Scalar]] = []
        for alternative in alternatives { inner += try spread(alternative, line) }
        guard spellings.count * inner.count <= most else { throw refused("its braces stand for too many spellings") }
        spellings = spellings.flatMap { head in inner.map { head + $0 } }
        at = end
      case "}": throw refused("a '}' closes nothing")
      default:
        let end = try step(text, at, line)
        for index in spellings.indices { spellings[index] += text[at..<end] }
        at = end
      }
    }
    return spellings
  }

  /// The place after the character, escape or class at `at`.
  private static func step(_ text: ArraySlice<Unicode.Scalar>, _ at: Int, _ line: Text) throws(PatternRefusal) -> Int {
    switch text[at] {
    case "\\": return min(at + 2, text.endIndex)
    case "[": return try CharacterClass.read(text, at, line).end
    default: return at + 1
    }
  }

  private static func alternatives(
    _ text: ArraySlice<Unicode.Scalar>, _ open: Int, _ line: Text
  ) throws(PatternRefusal) -> ([ArraySlice<Unicode.Scalar>], end: Int) {
    var found: [ArraySlice<Unicode.Scalar>] = []
    var depth = 0
    var at = open + 1
    var start = at
    while at < text.endIndex {
      switch text[at] {
      case "{":
        depth += 1
        at += 1
      case "}" where depth == 0:
        found.append(text[start..<at])
        return (found, at + 1)
      case "}":
        depth -= 1
        at += 1
      case "," where depth == 0:
        found.append(text[start..<at])
        at += 1
        start = at
      default: at = try step(text, at, line)
      }
    }
    throw PatternRefusal(line: line, reason: "a '{' is not closed")
  }
}

/// A set of characters in brackets, tested as written (F25.11).
struct CharacterClass: Sendable {
  private var isNegated = false
  private var ranges: [ClosedRange<UInt32>] = []

  /// Reads the class at `open`, a `[`, and gives the place after its `]`.
  static func read(
    _ text: ArraySlice<Unicode.Scalar>, _ open: Int, _ line: Text
  ) throws(PatternRefusal) -> (found: CharacterClass, end: Int) {
    let unclosed = PatternRefusal(line: line, reason: "a '[' is not closed")
    var found = CharacterClass()
    var at = open + 1
    if at < text.endIndex, text[at] == "!" || text[at] == "^" {
      found.isNegated = true
      at += 1
    }
    func character() throws(PatternRefusal) -> UInt32 {
      if text[at] == "\\" { at += 1 }
      guard at < text.endIndex else { throw unclosed }
      defer { at += 1 }
      return text[at].value
    }
    let first = at
    while at < text.endIndex {
      if text[at] == "]", at > first { return (found, at + 1) }
      if text[at] == "[", at + 1 < text.endIndex, text[at + 1] == ":",
        let end = named(text, at + 2, into: &found.ranges)
      {
        at = end
        continue
      }
      let low = try character()
      if at + 1 < text.endIndex, text[at] == "-", text[at + 1] != "]" {
        at += 1
        let high = try character()
        guard low <= high else { throw PatternRefusal(line: line, reason: "a range in its brackets runs backwards") }
        found.ranges.append(low...high)
      } else {
        found.ranges.append(low...low)
      }
    }
    throw unclosed
  }

  /// A class by name, such as `[:digit:]`; the place after it.
  private static func named(
    _ text: ArraySlice<Unicode.Scalar>, _ start: Int, into ranges: inout [ClosedRange<UInt32>]
  ) -> Int? {
    guard let colon = text[start...].firstIndex(of: ":"), colon + 1 < text.endIndex, text[colon + 1] == "]" else {
      return nil
    }
    var name = ""
    name.unicodeScalars.append(contentsOf: text[start..<colon])
    let known: [ClosedRange<UInt32>]
    switch name {
    case "alpha": known = [0x41...0x5A, 0x61...0x7A]
    case "digit": known = [0x30...0x39]
    case "alnum": known = [0x30...0x39, 0x41...0x5A, 0x61...0x7A]
    // Case tells nothing here: names that differ in it alone are one.
    case "upper", "lower": known = [0x41...0x5A, 0x61...0x7A]
    case "space": known = [0x09...0x0D, 0x20...0x20]
    case "blank": known = [0x09...0x09, 0x20...0x20]
    case "punct": known = [0x21...0x2F, 0x3A...0x40, 0x5B...0x60, 0x7B...0x7E]
    case "xdigit": known = [0x30...0x39, 0x41...0x46, 0x61...0x66]
    case "print": known = [0x20...0x7E]
    case "graph": known = [0x21...0x7E]
    case "cntrl": known = [0x00...0x1F, 0x7F...0x7F]
    default: return nil
    }
    ranges += known
    return colon + 2
  }

  /// Whether a character or one of its case variants is in the class; the class itself is never folded.
  func contains(_ scalar: UInt32) -> Bool {
    if scalar == 0x2F { return false }
    func within(_ value: UInt32) -> Bool { ranges.contains { $0.contains(value) } }
    if within(scalar) { return !isNegated }
    let value = utf8proc_int32_t(bitPattern: scalar)
    let upper = utf8proc_toupper(value)
    for variant in [utf8proc_tolower(value), upper, utf8proc_totitle(value), utf8proc_tolower(upper)]
    where within(UInt32(bitPattern: variant)) {
      return !isNegated
    }
    return isNegated
  }
}
