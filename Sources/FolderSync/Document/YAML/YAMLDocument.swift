import MarfaBase

/// Why a YAML text does not read, and where.
struct YAMLFailure: Error, Hashable, Sendable {
  let reason: String
  /// From 0, within the YAML text; nil where the reason names the place by itself.
  var line: Int?
  var column: Int?
}

/// One node of a YAML text: what it holds and the bytes it stands in.
struct YAMLNode: Sendable {
  enum Style: Sendable { case plain, singleQuoted, doubleQuoted, literal, folded }
  struct Pair: Sendable {
    let key: Int
    let value: Int
  }
  enum Content: Sendable {
    case scalar([UInt8], Style)
    case sequence([Int])
    case mapping([Pair])
    /// Another node, by its anchor.
    case alias(Int)
  }
  var content: Content
  /// The tag, resolved; nil where none is written.
  var tag: Text?
  /// Whether it carries an anchor.
  var isAnchored: Bool
  /// Where it begins, anchor and tag included.
  var start: Int
  /// Where its last content byte ends: comments and blank lines after it are not its own.
  var end: Int
  /// Whether it is a collection in brackets.
  var isFlow: Bool
}

/// A YAML text of one document, as nodes over its bytes.
///
/// Values are resolved by the YAML 1.2 core schema (F7.6); libyaml only says where each token stands.
struct YAMLDocument: Sendable {
  /// Deepest nesting read, the root counted.
  static let depthLimit = 64

  /// The bytes.
  let source: [UInt8]
  /// All nodes; children come after their parents.
  var nodes: [YAMLNode]
  /// The root; nil for an empty or comment-only text.
  let root: Int?
  /// Whether the text ends its document by `...`.
  let hasExplicitEnd: Bool

  /// The value of a node, aliases expanded.
  func value(of node: Int) throws(YAMLFailure) -> JSON {
    var budget = 1_000_000 + 4 * source.count
    return try value(of: node, depth: 1, budget: &budget)
  }

  /// The budget of a whole text; pass it along where many values of one text are read.
  var freshBudget: Int { 1_000_000 + 4 * source.count }

  /// The value of a node at a depth. Each node costs one and its length, so that a text of nested aliases ends early.
  func value(of index: Int, depth: Int, budget: inout Int) throws(YAMLFailure) -> JSON {
    guard depth <= YAMLDocument.depthLimit else {
      throw YAMLFailure(reason: "it nests deeper than \(YAMLDocument.depthLimit) levels")
    }
    budget -= 1
    guard budget > 0 else { throw YAMLFailure(reason: "its aliases expand to too much text") }
    let node = nodes[index]
    switch node.content {
    case .alias(let target): return try value(of: target, depth: depth, budget: &budget)
    case .scalar(let bytes, let style):
      budget -= bytes.count
      return try scalar(bytes, style, node)
    case .sequence(let children):
      guard node.tag == nil || node.tag == "!" || node.tag == "tag:yaml.org,2002:seq" else { throw foreign(node) }
      var values: [JSON] = []
      values.reserveCapacity(children.count)
      for child in children { values.append(try value(of: child, depth: depth + 1, budget: &budget)) }
      return .array(values)
    case .mapping(let pairs):
      guard node.tag == nil || node.tag == "!" || node.tag == "tag:yaml.org,2002:map" else { throw foreign(node) }
      var object = JSONObject()
      for pair in pairs {
        let key = try key(pair.key, budget: &budget)
        guard object[key] == nil else { throw failure("the key `\(key)` stands twice", at: nodes[pair.key].start) }
        object[key] = try value(of: pair.value, depth: depth + 1, budget: &budget)
      }
      return .object(object)
    }
  }

  /// The text of a key. A key that is no text, and a merge key, are refused (F7.22).
  func key(_ index: Int, budget: inout Int) throws(YAMLFailure) -> Text {
    let node = nodes[index]
    if case .scalar(let bytes, .plain) = node.content, bytes.elementsEqual("<<".utf8),
      node.tag == nil || node.tag == "tag:yaml.org,2002:merge"
    {
      throw failure("merge keys (`<<`) are not read", at: node.start)
    }
    let value = try value(of: index, depth: 1, budget: &budget)
    guard let text = value.text else {
      let shown = Text(bytes: source[node.start..<min(node.end, node.start + 60)])
      throw failure("the key `\(shown)` is not text; quote it to make it so", at: node.start)
    }
    return text
  }

  private func scalar(_ bytes: [UInt8], _ style: YAMLNode.Style, _ node: YAMLNode) throws(YAMLFailure) -> JSON {
    guard let tag = node.tag, tag != "!" else {
      if node.tag != nil || style != .plain { return .string(Text(bytes: bytes)) }
      return try resolved(CoreScalar(bytes), node)
    }
    let core = CoreScalar(bytes)
    switch (tag.string, core) {
    case ("tag:yaml.org,2002:str", _): return .string(Text(bytes: bytes))
    case ("tag:yaml.org,2002:null", .null), ("tag:yaml.org,2002:bool", .bool), ("tag:yaml.org,2002:int", .number),
      ("tag:yaml.org,2002:float", .number), ("tag:yaml.org,2002:float", .notFinite):
      if tag == "tag:yaml.org,2002:int", case .number(let number) = core, number.int == nil,
        number.literal.contains(where: { ".eE".contains($0) })
      {
        throw failure("`\(Text(bytes: bytes))` is no whole number", at: node.start)
      }
      return try resolved(core, node)
    default: throw foreign(node)
    }
  }

  private func resolved(_ core: CoreScalar, _ node: YAMLNode) throws(YAMLFailure) -> JSON {
    switch core {
    case .null: return .null
    case .bool(let value): return .bool(value)
    case .number(let number): return .number(number)
    case .text(let bytes): return .string(Text(bytes: bytes))
    case .notFinite:
      throw failure("`\(Text(bytes: source[node.start..<node.end]))` is a number no item can hold", at: node.start)
    }
  }

  private func foreign(_ node: YAMLNode) -> YAMLFailure {
    failure("the tag `\(node.tag ?? "")` is not read, or does not fit its value", at: node.start)
  }

  /// A failure at a byte.
  func failure(_ reason: String, at offset: Int) -> YAMLFailure {
    let before = source[..<min(offset, source.count)]
    let line = before.count { $0 == 0x0A }
    let column = offset - ((before.lastIndex(of: 0x0A) ?? -1) + 1)
    return YAMLFailure(reason: reason, line: line, column: column)
  }
}
