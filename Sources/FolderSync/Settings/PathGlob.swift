import MarfaBase

/// A name in the two forms a pattern is tried against (F25.4): as it is spelled, in NFC, and as its key.
struct FoldedName: Sendable {
  /// One form: its characters, and of each the characters of its key. A form of the key alone has no `keys`.
  struct Form: Sendable {
    var scalars: [UInt32]
    var keys: [[UInt32]]?
  }

  /// The form of the key.
  let key: Form
  /// The spelled form; nil for ASCII names, of which every pattern says the same in both.
  let spelled: Form?
  /// Whether the name begins with a dot.
  let isDotLed: Bool

  init(_ name: PathBytes) {
    isDotLed = name.bytes.first == 0x2E
    if name.bytes.allSatisfy({ $0 < 0x80 }) {
      key = Form(scalars: name.bytes.map { UInt32($0 >= 0x41 && $0 <= 0x5A ? $0 | 0x20 : $0) }, keys: nil)
      spelled = nil
    } else {
      key = Form(scalars: FoldedName.scalars(NameKey(name.bytes).bytes), keys: nil)
      let scalars = FoldedName.scalars(nfc(name.bytes) ?? name.bytes)
      spelled = Form(
        scalars: scalars,
        keys: scalars.map { scalar in
          guard let scalar = Unicode.Scalar(scalar) else { return [scalar] }
          return FoldedName.scalars(NameKey(String(Character(scalar)).utf8).bytes)
        })
    }
  }

  static func scalars(_ bytes: [UInt8]) -> [UInt32] {
    String(decoding: bytes, as: UTF8.self).unicodeScalars.map(\.value)
  }
}

/// A path of folded names.
struct FoldedPath: Sendable {
  let names: [FoldedName]

  init(_ path: PathBytes) { names = path.components.map(FoldedName.init) }

  init(names: [FoldedName]) { self.names = names }

  var parent: FoldedPath { FoldedPath(names: names.dropLast()) }
}

/// A pattern without braces: components, each a glob or `**`.
struct PathGlob: Sendable {
  private enum Component: Sendable {
    case anyDepth
    case name(NameGlob)
  }

  private let components: [Component]

  /// Reads a pattern whose `!`, trailing `/` and braces are gone; nil where nothing is left.
  init?(_ text: [Unicode.Scalar], _ line: Text) throws(PatternRefusal) {
    var parts: [[NameGlob.Token]] = [[]]
    var run: [Unicode.Scalar] = []
    func endRun() {
      if !run.isEmpty { parts[parts.count - 1].append(.run(NameGlob.folded(run))) }
      run = []
    }
    var stars: [Int] = [0]
    var leadsDot: [Bool] = [false]
    var at = 0
    while at < text.count {
      var literal = text[at]
      switch text[at] {
      case "*":
        endRun()
        stars[stars.count - 1] += 1
        if parts[parts.count - 1].last?.isStar != true { parts[parts.count - 1].append(.star) }
        at += 1
        continue
      case "?":
        endRun()
        parts[parts.count - 1].append(.one)
        at += 1
        continue
      case "[":
        endRun()
        let (found, end) = try CharacterClass.read(text[...], at, line)
        parts[parts.count - 1].append(.oneOf(found))
        at = end
        continue
      case "\\":
        at += 1
        guard at < text.count else {
          throw PatternRefusal(line: line, reason: "a backslash at the end of a part escapes nothing")
        }
        literal = text[at]
      default: break
      }
      if literal == "/" {
        endRun()
        parts.append([])
        stars.append(0)
        leadsDot.append(false)
      } else {
        if literal == ".", run.isEmpty, parts[parts.count - 1].isEmpty { leadsDot[leadsDot.count - 1] = true }
        run.append(literal)
      }
      at += 1
    }
    endRun()
    var components: [Component] = []
    // A slash anywhere but at the end anchors; else the pattern stands at any depth.
    if parts.count == 1 { components.append(.anyDepth) }
    for (index, part) in parts.enumerated() where !part.isEmpty {
      if part.count == 1, part[0].isStar, stars[index] == 2, parts.count > 1 {
        components.append(.anyDepth)
      } else {
        components.append(.name(NameGlob(tokens: part, leadsDot: leadsDot[index])))
      }
    }
    // `a/**` is everything below `a`, not `a`.
    if case .anyDepth? = components.last { components.append(.name(NameGlob(tokens: [.star], leadsDot: false))) }
    if components.isEmpty { return nil }
    self.components = components
  }

  /// Whether it names the path, all of it in its spelled form or all of it in its key form (F25.4).
  func matches(_ path: FoldedPath) -> Bool {
    if matches(path, 0, 0, spelled: false) { return true }
    return path.names.contains { $0.spelled != nil } && matches(path, 0, 0, spelled: true)
  }

  private func matches(_ path: FoldedPath, _ name: Int, _ component: Int, spelled: Bool) -> Bool {
    var name = name
    for index in component..<components.count {
      switch components[index] {
      case .anyDepth:
        // A pattern has few `**`; each tries every depth.
        return (name...path.names.count).contains { matches(path, $0, index + 1, spelled: spelled) }
      case .name(let glob):
        guard name < path.names.count, glob.matches(path.names[name], spelled: spelled) else { return false }
        name += 1
      }
    }
    return name == path.names.count
  }

  /// Whether a path below this directory could be named.
  func couldMatchBelow(_ directory: FoldedPath) -> Bool {
    for (index, component) in components.enumerated() {
      if index >= directory.names.count { return true }
      switch component {
      case .anyDepth: return true
      case .name(let glob): if !glob.matches(directory.names[index]) { return false }
      }
    }
    return false
  }

  func namesDotLed(_ name: FoldedName) -> Bool {
    components.contains { component in
      if case .name(let glob) = component { glob.leadsDot && glob.matches(name) } else { false }
    }
  }
}

/// A pattern of one name.
struct NameGlob: Sendable {
  enum Token: Sendable {
    /// Literal text, as the characters of its key.
    case run([UInt32])
    /// `?`
    case one
    /// `*`
    case star
    /// `[...]`
    case oneOf(CharacterClass)

    var isStar: Bool { if case .star = self { true } else { false } }
  }

  let tokens: [Token]
  /// Whether it begins with a literal dot.
  let leadsDot: Bool

  /// Literal text, folded as a whole once unescaped and joined (F25.11).
  static func folded(_ run: [Unicode.Scalar]) -> [UInt32] {
    var text = ""
    text.unicodeScalars.append(contentsOf: run)
    return FoldedName.scalars(NameKey(text.utf8).bytes)
  }

  /// Whether it matches in either form.
  func matches(_ name: FoldedName) -> Bool {
    matches(name, spelled: false) || (name.spelled != nil && matches(name, spelled: true))
  }

  func matches(_ name: FoldedName, spelled: Bool) -> Bool {
    matches(spelled ? name.spelled ?? name.key : name.key)
  }

  private func matches(_ form: FoldedName.Form) -> Bool {
    var token = 0
    var at = 0
    // Where to take up again when a later token fails: the last `*`, and what it has taken so far.
    var star: (token: Int, at: Int)?
    while true {
      if token < tokens.count {
        if tokens[token].isStar {
          star = (token, at)
          token += 1
          continue
        }
        if let next = step(tokens[token], form, at) {
          at = next
          token += 1
          continue
        }
      } else if at == form.scalars.count {
        return true
      }
      guard let last = star, last.at < form.scalars.count else { return false }
      star = (last.token, last.at + 1)
      token = last.token + 1
      at = last.at + 1
    }
  }

  /// The place after what the token takes at `at`, or nil where it does not match there.
  private func step(_ token: Token, _ form: FoldedName.Form, _ at: Int) -> Int? {
    switch token {
    case .star: return at
    case .one: return at < form.scalars.count ? at + 1 : nil
    case .oneOf(let characters): return at < form.scalars.count && characters.contains(form.scalars[at]) ? at + 1 : nil
    case .run(let wanted):
      var at = at
      guard let keys = form.keys else {
        guard form.scalars.count - at >= wanted.count else { return nil }
        for scalar in wanted {
          if form.scalars[at] != scalar { return nil }
          at += 1
        }
        return at
      }
      var rest = wanted[...]
      while !rest.isEmpty {
        guard at < keys.count, rest.starts(with: keys[at]) else { return nil }
        rest = rest.dropFirst(keys[at].count)
        at += 1
      }
      return at
    }
  }
}
