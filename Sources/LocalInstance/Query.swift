import MarfaBase

/// The path and the query of a request target.
struct Target {
  /// The path as written, without the query.
  var rawPath: [UInt8]
  /// The path's segments, percent-decoded.
  var segments: [Text]
  var query: Query

  init(_ target: String) {
    let bytes = Array(target.utf8)
    let mark = bytes.firstIndex(of: UInt8(ascii: "?"))
    rawPath = Array(bytes[..<(mark ?? bytes.count)])
    query = Query(raw: mark.map { Array(bytes[($0 + 1)...]) } ?? [])
    segments = rawPath.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).dropFirst().map {
      Text(bytes: percentDecoded($0, plusIsSpace: false))
    }
  }
}

/// The parameters of a query, decoded, in order.
struct Query {
  /// The query as written.
  var raw: [UInt8]
  private(set) var pairs: [(key: Text, value: Text)] = []

  init(raw: [UInt8]) {
    self.raw = raw
    for part in raw.split(separator: UInt8(ascii: "&")) {
      let equals = part.firstIndex(of: UInt8(ascii: "="))
      let key = percentDecoded(part[..<(equals ?? part.endIndex)], plusIsSpace: true)
      let value = equals.map { percentDecoded(part[($0 + 1)...], plusIsSpace: true) } ?? []
      pairs.append((Text(bytes: key), Text(bytes: value)))
    }
  }

  /// The first value of a parameter.
  subscript(_ key: Text) -> Text? { pairs.first { $0.key == key }?.value }

  func count(of key: Text) -> Int { pairs.count { $0.key == key } }

  /// Refuses keys the door does not declare (SF2.1); keys that begin with `_` are ignored (SF2.2).
  func declare(_ keys: Set<Text>, edgeTerms: Bool = false) throws {
    var unknown: [JSON] = []
    for (key, _) in pairs where !keys.contains(key) && key.bytes.first != UInt8(ascii: "_") {
      if edgeTerms, edgeTerm(key) != nil { continue }
      if !unknown.contains(.string(key)) { unknown.append(.string(key)) }
    }
    guard !unknown.isEmpty else { return }
    throw Refusal(
      400, "validation_error", "The query names a parameter this operation does not have.",
      [
        "unknown_parameters": .array(unknown),
        "errors": .array(unknown.map { ["path": $0, "message": "Unknown parameter"] }),
      ])
  }

  /// The edge type of an `edge[<type>]` or `backref[<type>]` key (SF19.5).
  func edgeTerm(_ key: Text) -> (inbound: Bool, type: Text)? {
    for (prefix, inbound) in [("edge[", false), ("backref[", true)]
    where key.bytes.starts(with: prefix.utf8) && key.bytes.last == UInt8(ascii: "]") {
      let type = key.bytes.dropFirst(prefix.utf8.count).dropLast()
      if !type.isEmpty { return (inbound, Text(bytes: type)) }
    }
    return nil
  }

  /// A whole number within a range, or what stands for an absent one (SF9.4).
  func limit(_ range: ClosedRange<Int>, default standard: Int) throws -> Int {
    guard let text = self["limit"] else { return standard }
    guard let value = decimal(text), range.contains(value) else {
      throw Refusal.invalid("limit", "limit is a whole number from \(range.lowerBound) to \(range.upperBound).")
    }
    return value
  }

  /// A comma list, blank entries left out; nil where the parameter is absent, refused where it names nothing (SF2.4).
  func list(_ key: Text) throws -> [Text]? {
    guard let value = self[key] else { return nil }
    let entries = commaList(value)
    if entries.isEmpty { throw Query.empty(key) }
    return entries
  }

  static func empty(_ key: Text) -> Refusal {
    Refusal(
      400, "validation_error", "\(key) is empty.",
      ["empty_parameters": [.string(key)], "errors": [["path": .string(key), "message": "Empty"]]])
  }
}

/// The entries of a comma list, trimmed, blank ones left out.
func commaList(_ text: Text) -> [Text] {
  text.bytes.split(separator: UInt8(ascii: ",")).map { Text(bytes: trimmed($0)) }.filter { !$0.isEmpty }
}

/// Bytes without the blanks at both ends.
func trimmed(_ bytes: some BidirectionalCollection<UInt8>) -> [UInt8] {
  var bytes = Array(bytes)[...]
  while let first = bytes.first, first == 0x20 || (0x09...0x0D).contains(first) { bytes = bytes.dropFirst() }
  while let last = bytes.last, last == 0x20 || (0x09...0x0D).contains(last) { bytes = bytes.dropLast() }
  return Array(bytes)
}

/// A number of decimal digits alone, with or without a sign, that fits.
func decimal(_ text: Text) -> Int? {
  guard let first = text.bytes.first, first != UInt8(ascii: "+") else { return nil }
  return Int(text.string)
}

/// Percent-decoding; a broken escape stays as it is written.
func percentDecoded(_ bytes: some Collection<UInt8>, plusIsSpace: Bool) -> [UInt8] {
  func digit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
  }
  let bytes = Array(bytes)
  var out: [UInt8] = []
  out.reserveCapacity(bytes.count)
  var at = 0
  while at < bytes.count {
    if bytes[at] == UInt8(ascii: "%"), at + 2 < bytes.count, let high = digit(bytes[at + 1]),
      let low = digit(bytes[at + 2])
    {
      out.append(high << 4 | low)
      at += 3
    } else {
      out.append(plusIsSpace && bytes[at] == UInt8(ascii: "+") ? 0x20 : bytes[at])
      at += 1
    }
  }
  return out
}
