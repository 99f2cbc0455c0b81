import MarfaBase

/// What stands between the brackets of a `[[link]]`, as typed.
package struct LinkText: Hashable, Sendable {
  /// The whole text between the brackets.
  package let whole: Text

  /// The link of a text between brackets.
  package init(whole: Text) { self.whole = whole }

  /// The link a whole value like `[[name]]` is; nil where it is anything else (F11.8).
  package init?(value: Text) {
    let bytes = value.bytes
    guard bytes.count > 4, bytes.starts(with: "[[".utf8), bytes.suffix(2).elementsEqual("]]".utf8) else { return nil }
    let inner = bytes[2..<(bytes.count - 2)]
    guard !inner.allSatisfy({ $0 == 0x20 || $0 == 0x09 }) else { return nil }
    for index in inner.indices.dropLast() where inner[index] == inner[index + 1] {
      if inner[index] == UInt8(ascii: "[") || inner[index] == UInt8(ascii: "]") { return nil }
    }
    guard !inner.contains(0x0A), !inner.contains(0x0D) else { return nil }
    whole = Text(bytes: inner)
  }

  /// As typed, brackets included.
  package var typed: Text { Text(bytes: Array("[[".utf8) + whole.bytes + Array("]]".utf8)) }

  /// What comes before the first `|`, white space around it taken off. In a table that bar is written `\|`, so that it ends
  /// no cell: the backslash is the bar's, not the name's.
  package var target: Text { LinkText.trimmed(beforeBar) }

  private var beforeBar: ArraySlice<UInt8> {
    let whole = whole.bytes
    guard let bar = whole.firstIndex(of: UInt8(ascii: "|")) else { return whole[...] }
    return whole[..<(bar > 0 && whole[bar - 1] == UInt8(ascii: "\\") ? bar - 1 : bar)]
  }

  /// What comes before the first `|` or `#`, white space around it taken off (F11.14). Empty for `[[#local]]`.
  package var name: Text { LinkText.trimmed(beforeBar.prefix { $0 != UInt8(ascii: "#") }) }

  /// Every text the link may be read as, the fullest first: the whole, before the `|`, before the `#` (F12.4).
  package var readings: [Text] {
    var all: [Text] = []
    for text in [
      LinkText.trimmed(whole.bytes[...]), LinkText.trimmed(whole.bytes.prefix { $0 != UInt8(ascii: "|") }), target,
      name,
    ]
    where !all.contains(text) && !text.isEmpty { all.append(text) }
    return all
  }

  package static func trimmed(_ bytes: ArraySlice<UInt8>) -> Text {
    func blank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
    var slice = bytes.drop(while: blank)
    while let last = slice.last, blank(last) { slice.removeLast() }
    return Text(bytes: slice)
  }
}
