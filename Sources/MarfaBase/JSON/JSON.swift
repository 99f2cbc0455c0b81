/// A JSON value as it was written: members in order, numbers as their text, strings as their bytes.
///
///     let item = try JSON(parsing: bytes)
///     item["properties"]?["title"]?.text
///
/// `==` is equality of meaning (X18.6): members in any order, lists in order, `1` equal to `1.0`.
public enum JSON: Sendable, Hashable {
  /// `null`.
  case null
  /// `true` or `false`.
  case bool(Bool)
  /// A number, its text kept.
  case number(JSONNumber)
  /// A string.
  case string(Text)
  /// A list.
  case array([JSON])
  /// An object.
  case object(JSONObject)

  /// A string.
  public static func string(_ string: String) -> JSON { .string(Text(string)) }

  /// A whole number.
  public static func int(_ value: some BinaryInteger) -> JSON { .number(JSONNumber(value)) }

  /// A string, or null.
  public static func optional(_ text: Text?) -> JSON { text.map(JSON.string) ?? .null }

  /// The member of an object; nil for a missing one and for every other value.
  public subscript(_ key: Text) -> JSON? { object?[key] }

  /// The text of a string.
  public var text: Text? { if case .string(let text) = self { text } else { nil } }

  /// The list.
  public var array: [JSON]? { if case .array(let values) = self { values } else { nil } }

  /// The object.
  public var object: JSONObject? { if case .object(let object) = self { object } else { nil } }

  /// The boolean.
  public var bool: Bool? { if case .bool(let value) = self { value } else { nil } }

  /// The number.
  public var number: JSONNumber? { if case .number(let value) = self { value } else { nil } }

  /// A number that is whole and fits 64 bits.
  public var int: Int? { number?.int }

  /// Whether it is `null`.
  public var isNull: Bool { if case .null = self { true } else { false } }
}

extension JSON: ExpressibleByStringLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
  ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral, ExpressibleByNilLiteral
{
  /// A string.
  public init(stringLiteral value: String) { self = .string(Text(value)) }
  /// A boolean.
  public init(booleanLiteral value: Bool) { self = .bool(value) }
  /// A whole number.
  public init(integerLiteral value: Int) { self = .int(value) }
  /// A list.
  public init(arrayLiteral elements: JSON...) { self = .array(elements) }
  /// An object, its members in the order written.
  public init(dictionaryLiteral elements: (Text, JSON)...) { self = .object(JSONObject(elements)) }
  /// `null`.
  public init(nilLiteral: ()) { self = .null }
}

/// Members in order, each key once: a repeated key keeps its first place and its last value, as JavaScript's does.
public struct JSONObject: Sendable {
  /// One member.
  public typealias Member = (key: Text, value: JSON)

  /// The members in order.
  public private(set) var members: [Member] = []
  private var places: [Text: Int]?

  /// No members.
  public init() {}

  /// These members.
  public init(_ members: some Sequence<(Text, JSON)>) {
    for (key, value) in members { self[key] = value }
  }

  /// How many members.
  public var count: Int { members.count }
  /// Whether it has none.
  public var isEmpty: Bool { members.isEmpty }
  /// The keys in order.
  public var keys: [Text] { members.map(\.key) }

  private func place(of key: Text) -> Int? {
    places.map { $0[key] } ?? members.firstIndex { $0.key == key }
  }

  /// A member's value. Setting one anew appends it; setting nil takes it out.
  public subscript(_ key: Text) -> JSON? {
    get { place(of: key).map { members[$0].value } }
    set {
      switch (place(of: key), newValue) {
      case (let place?, let value?): members[place].value = value
      case (let place?, nil):
        members.remove(at: place)
        if places != nil { index() }
      case (nil, let value?):
        members.append((key, value))
        if places != nil { places?[key] = members.count - 1 } else if members.count > 16 { index() }
      case (nil, nil): break
      }
    }
  }

  /// Takes out every member of which `isGone` holds, in one pass. Taken out one by one, each would move all behind it: the
  /// square of a large object's members.
  public mutating func removeAll(where isGone: (Member) throws -> Bool) rethrows {
    let before = members.count
    try members.removeAll(where: isGone)
    if members.count < before, places != nil { index() }
  }

  private mutating func index() {
    places = Dictionary(uniqueKeysWithValues: members.enumerated().map { ($1.key, $0) })
  }
}

extension JSONObject: Hashable {
  /// Equality of meaning: the same keys with equal values, in any order.
  public static func == (left: JSONObject, right: JSONObject) -> Bool {
    left.count == right.count && left.members.allSatisfy { right[$0.key] == $0.value }
  }

  /// Feeds the members in the order of their keys.
  public func hash(into hasher: inout Hasher) {
    for member in members.sorted(by: { $0.key < $1.key }) {
      hasher.combine(member.key)
      hasher.combine(member.value)
    }
  }
}
