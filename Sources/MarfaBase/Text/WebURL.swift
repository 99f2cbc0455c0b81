/// Whether the WHATWG parser takes a text as a URL without a base (T29). Client and instance judge by this one reading, which
/// a table made with another implementation of that parser holds to it.
///
/// Internationalized hosts are mapped in part: full-width letters, the other full stops and characters that map to nothing.
/// What the whole tables of UTS 46 would refuse beyond that is taken.
public func isAbsoluteURL(_ text: Text) -> Bool {
  var bytes = text.bytes[...]
  while let first = bytes.first, first <= 0x20 { bytes = bytes.dropFirst() }
  while let last = bytes.last, last <= 0x20 { bytes = bytes.dropLast() }
  let url = bytes.filter { $0 != 0x09 && $0 != 0x0A && $0 != 0x0D }
  guard let colon = url.firstIndex(of: UInt8(ascii: ":")), let first = url.first, isLetter(first),
    url[..<colon].allSatisfy({ isLetter($0) || isDigit($0) || "+-.".utf8.contains($0) })
  else { return false }
  let scheme = url[..<colon].map { isLetter($0) ? $0 | 0x20 : $0 }
  let rest = url[(colon + 1)...]
  let isSlash = { (byte: UInt8) in byte == UInt8(ascii: "/") || byte == UInt8(ascii: "\\") }
  let isEnd = { (byte: UInt8) in byte == UInt8(ascii: "?") || byte == UInt8(ascii: "#") }
  if ["http", "https", "ws", "wss", "ftp"].contains(where: { scheme.elementsEqual($0.utf8) }) {
    return isAuthority(rest.drop(while: isSlash).prefix { !isSlash($0) && !isEnd($0) }, isSpecial: true)
  }
  if scheme.elementsEqual("file".utf8) {
    guard rest.count >= 2, rest.prefix(2).allSatisfy(isSlash) else { return true }
    let host = rest.dropFirst(2).prefix { !isSlash($0) && !isEnd($0) }
    return host.isEmpty || isDrive(host) || isHost(host, isSpecial: true)
  }
  guard rest.starts(with: "//".utf8) else { return true }
  return isAuthority(rest.dropFirst(2).prefix { $0 != UInt8(ascii: "/") && !isEnd($0) }, isSpecial: false)
}

private func isLetter(_ byte: UInt8) -> Bool { byte | 0x20 >= 0x61 && byte | 0x20 <= 0x7A }
private func isDigit(_ byte: UInt8) -> Bool { byte >= 0x30 && byte <= 0x39 }

/// A Windows drive: a letter and `:` or `|`.
private func isDrive(_ bytes: ArraySlice<UInt8>) -> Bool {
  guard bytes.count == 2, let first = bytes.first, let last = bytes.last else { return false }
  return isLetter(first) && (last == UInt8(ascii: ":") || last == UInt8(ascii: "|"))
}

/// `user:password@host:port`, each part but the host optional.
private func isAuthority(_ authority: ArraySlice<UInt8>, isSpecial: Bool) -> Bool {
  var host = authority
  let at = host.lastIndex(of: UInt8(ascii: "@"))
  if let at { host = host[(at + 1)...] }
  var isBracketed = false
  var colon: Int?
  for (place, byte) in zip(host.indices, host) where colon == nil {
    switch byte {
    case UInt8(ascii: "["): isBracketed = true
    case UInt8(ascii: "]"): isBracketed = false
    case UInt8(ascii: ":") where !isBracketed: colon = place
    default: continue
    }
  }
  if let colon {
    guard isPort(host[(colon + 1)...]) else { return false }
    host = host[..<colon]
    if host.isEmpty { return false }
  }
  if host.isEmpty { return !isSpecial && at == nil }
  return isHost(host, isSpecial: isSpecial)
}

private func isPort(_ bytes: ArraySlice<UInt8>) -> Bool {
  var port = 0
  for byte in bytes {
    guard isDigit(byte) else { return false }
    port = port * 10 + Int(byte - 0x30)
    guard port <= 65_535 else { return false }
  }
  return true
}

/// What no host holds.
private let forbidden = Set("\0\t\n\r #/:<>?@[\\]^|".utf8)

private func isHost(_ host: ArraySlice<UInt8>, isSpecial: Bool) -> Bool {
  if host.first == UInt8(ascii: "[") {
    return host.last == UInt8(ascii: "]") && host.count > 2 && isIPv6(host.dropFirst().dropLast())
  }
  guard isSpecial else { return !host.contains(where: forbidden.contains) }
  guard let decoded = String(validating: percentDecoded(host), as: UTF8.self), let name = mapped(decoded),
    !name.isEmpty,
    !name.contains(where: { $0 < 0x20 || $0 == 0x7F || $0 == UInt8(ascii: "%") || forbidden.contains($0) })
  else { return false }
  var labels = name.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
  for label in labels where label.starts(with: "xn--".utf8) {
    guard isPunycode(label.dropFirst(4)) else { return false }
  }
  if labels.count > 1, labels.last?.isEmpty == true { labels.removeLast() }
  guard let last = labels.last, endsInNumber(last) else { return true }
  return isIPv4(labels)
}

private func percentDecoded(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
  var out: [UInt8] = []
  var rest = bytes
  while let byte = rest.first {
    rest = rest.dropFirst()
    let digits = rest.prefix(2)
    if byte == UInt8(ascii: "%"), digits.count == 2,
      let value = UInt8(String(decoding: digits, as: UTF8.self), radix: 16),
      digits.allSatisfy({ $0 != UInt8(ascii: "+") })
    {
      out.append(value)
      rest = rest.dropFirst(2)
    } else {
      out.append(byte)
    }
  }
  return out
}

/// A host's characters as its labels are read; nil where one may stand in no host.
private func mapped(_ host: String) -> [UInt8]? {
  var out = String.UnicodeScalarView()
  for scalar in host.unicodeScalars {
    switch scalar.value {
    case 0xFFFD: return nil
    case 0xAD, 0x200B, 0x2060, 0xFEFF: continue
    case 0x3002, 0xFF0E, 0xFF61: out.append(".")
    case 0xFF01...0xFF5E: if let ascii = Unicode.Scalar(scalar.value - 0xFEE0) { out.append(ascii) }
    default: out.append(scalar)
    }
  }
  return String(out).utf8.map { isLetter($0) ? $0 | 0x20 : $0 }
}

/// Whether the end of an `xn--` label decodes to something beyond ASCII (RFC 3492).
private func isPunycode(_ label: ArraySlice<UInt8>) -> Bool {
  let hyphen = label.lastIndex(of: UInt8(ascii: "-"))
  var length = hyphen.map { $0 - label.startIndex } ?? 0
  var rest = hyphen.map { label[($0 + 1)...] } ?? label
  guard !rest.isEmpty else { return false }
  var (scalar, place, bias) = (128, 0, 72)
  while !rest.isEmpty {
    let start = place
    var (weight, k) = (1, 36)
    while true {
      guard let byte = rest.first, isLetter(byte) || isDigit(byte) else { return false }
      rest = rest.dropFirst()
      let digit = isDigit(byte) ? Int(byte - 0x30) + 26 : Int((byte | 0x20) - 0x61)
      place += digit * weight
      guard place <= 0x7FFF_FFFF else { return false }
      let threshold = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias
      if digit < threshold { break }
      weight *= 36 - threshold
      guard weight <= 0x7FFF_FFFF else { return false }
      k += 36
    }
    length += 1
    var delta = start == 0 ? (place - start) / 700 : (place - start) / 2
    delta += delta / length
    var k2 = 0
    while delta > 455 {
      delta /= 35
      k2 += 36
    }
    bias = k2 + 36 * delta / (delta + 38)
    scalar += place / length
    place %= length
    // C1 controls stand in no host.
    guard scalar >= 0xA0, Unicode.Scalar(UInt32(scalar)) != nil else { return false }
    place += 1
  }
  return true
}

// MARK: Addresses

private func endsInNumber(_ last: ArraySlice<UInt8>) -> Bool {
  !last.isEmpty && (last.allSatisfy(isDigit) || number(last) != nil)
}

/// A part of an IPv4 address: decimal, octal after `0`, hexadecimal after `0x`; capped where it is longer than any address.
private func number(_ part: ArraySlice<UInt8>) -> Int? {
  guard !part.isEmpty else { return nil }
  var digits = part
  var radix = 10
  if part.starts(with: "0x".utf8) || part.starts(with: "0X".utf8) {
    (digits, radix) = (part.dropFirst(2), 16)
  } else if part.count > 1, part.first == UInt8(ascii: "0") {
    (digits, radix) = (part.dropFirst(), 8)
  }
  var value = 0
  for byte in digits {
    guard let digit = Character(Unicode.Scalar(byte)).hexDigitValue, digit < radix else { return nil }
    value = min(value * radix + digit, 1 << 40)
  }
  return value
}

private func isIPv4(_ parts: [ArraySlice<UInt8>]) -> Bool {
  guard parts.count <= 4 else { return false }
  for (place, part) in parts.enumerated() {
    guard let value = number(part) else { return false }
    let isLast = place == parts.count - 1
    guard value < (isLast ? 1 << (8 * (5 - parts.count)) : 256) else { return false }
  }
  return true
}

private func isIPv6(_ address: ArraySlice<UInt8>) -> Bool {
  var rest = address
  var pieces = 0
  var isCompressed = false
  let colon = UInt8(ascii: ":")
  if rest.first == colon {
    guard rest.starts(with: "::".utf8) else { return false }
    rest = rest.dropFirst(2)
    pieces = 1
    isCompressed = true
  }
  while !rest.isEmpty {
    guard pieces < 8 else { return false }
    if rest.first == colon {
      guard !isCompressed else { return false }
      rest = rest.dropFirst()
      pieces += 1
      isCompressed = true
      continue
    }
    let piece = rest.prefix(4).prefix { Character(Unicode.Scalar($0)).isHexDigit }
    let after = rest.dropFirst(piece.count)
    if after.first == UInt8(ascii: ".") {
      // The last 32 bits as an IPv4 address in its plain form.
      guard !piece.isEmpty, pieces <= 6 else { return false }
      let parts = rest.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
      guard parts.count == 4 else { return false }
      for part in parts {
        guard !part.isEmpty, part.count <= 3, part.allSatisfy(isDigit),
          part.count == 1 || part.first != UInt8(ascii: "0"),
          let value = number(part), value <= 255
        else { return false }
      }
      pieces += 2
      rest = []
      break
    }
    rest = after
    if rest.first == colon {
      rest = rest.dropFirst()
      guard !rest.isEmpty else { return false }
    } else if !rest.isEmpty {
      return false
    }
    pieces += 1
  }
  return isCompressed ? pieces <= 8 : pieces == 8
}
