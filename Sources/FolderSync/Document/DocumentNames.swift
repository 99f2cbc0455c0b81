import MarfaBase

/// Names of files made from titles, and names beside taken ones (F58, F59, X23.1).
package enum DocumentNames {
  /// The longest name of a file, in bytes.
  package static let limit = 255

  /// The name of a document of a title: its whole title and `.md` (F58.2).
  package static func document(title: Text) -> PathBytes {
    fitted(stem: Array(cleaned(title)), number: nil, ending: Array(".md".utf8))
  }

  /// The name of a file item of a title, which is its file name (F58.2).
  package static func file(title: Text) -> PathBytes {
    let (stem, ending) = split(cleaned(title)[...])
    return fitted(stem: stem, number: nil, ending: ending)
  }

  /// A name beside a taken one: ` (2)`, ` (3)`, before the extension, the whole within the limit (F59.1).
  package static func beside(_ name: PathBytes, number: Int) -> PathBytes {
    let (stem, ending) = split(name.bytes[...])
    return fitted(stem: stem, number: number, ending: ending)
  }

  /// The file name without its extension, the title of a new document (F7.9).
  package static func stem(of name: PathBytes) -> Text {
    let bytes = name.name.bytes
    guard let dot = bytes.lastIndex(of: UInt8(ascii: ".")), dot > 0 else { return Text(bytes: bytes) }
    return Text(bytes: bytes[..<dot])
  }

  /// F58.1: separators to `-`, controls to spaces, leading space and dots and trailing space off, `untitled` for nothing.
  static func cleaned(_ title: Text) -> [UInt8] {
    var scalars: [Unicode.Scalar] = []
    for scalar in title.string.unicodeScalars {
      switch scalar.value {
      case 0x2F, 0x5C, 0x3A: scalars.append("-")
      case 0..<0x20, 0x7F...0x9F: scalars.append(" ")
      default: scalars.append(scalar)
      }
    }
    while let last = scalars.last, last.properties.isWhitespace { scalars.removeLast() }
    let kept = scalars.drop { $0 == "." || $0.properties.isWhitespace }
    if kept.isEmpty { return Array("untitled".utf8) }
    var out = String.UnicodeScalarView()
    out.append(contentsOf: kept)
    return Array(String(out).utf8)
  }

  /// The path as a Windows or FAT disk can hold it (P7.8): what it takes in no name becomes `-`, as F58.1 makes of a title's
  /// separators, and no name ends in a dot or space.
  package static func windows(_ path: PathBytes) -> PathBytes {
    var out: PathBytes = .empty
    for name in path.components { out = out.appending(windows(name: name)) }
    return out
  }

  private static func windows(name: PathBytes) -> PathBytes {
    var bytes = name.bytes.map { byte -> UInt8 in
      switch byte {
      case 0..<0x20, 0x7F: 0x20
      case UInt8(ascii: ":"), UInt8(ascii: "?"), UInt8(ascii: "*"), UInt8(ascii: "<"), UInt8(ascii: ">"),
        UInt8(ascii: "|"), UInt8(ascii: "\""), UInt8(ascii: "\\"):
        UInt8(ascii: "-")
      default: byte
      }
    }
    while let last = bytes.last, last == UInt8(ascii: ".") || last == 0x20 { bytes.removeLast() }
    return PathBytes(bytes: bytes.isEmpty ? Array("untitled".utf8) : bytes)
  }

  /// Stem and extension: the last dot and what follows, where that is at most 32 bytes; a leading dot begins no extension.
  private static func split(_ name: ArraySlice<UInt8>) -> (stem: [UInt8], ending: [UInt8]) {
    guard let dot = name.lastIndex(of: UInt8(ascii: ".")), dot > name.startIndex, name.endIndex - dot <= 32 else {
      return (Array(name), [])
    }
    return (Array(name[..<dot]), Array(name[dot...]))
  }

  private static func fitted(stem: [UInt8], number: Int?, ending: [UInt8]) -> PathBytes {
    let tail = (number.map { Array(" (\($0))".utf8) } ?? []) + ending
    var room = limit - tail.count
    if stem.count > room {
      // Cut where a character begins: no continuation byte may lead what is cut off.
      while room > 0, stem[room] & 0xC0 == 0x80 { room -= 1 }
      return PathBytes(bytes: stem[..<max(room, 0)] + tail)
    }
    return PathBytes(bytes: stem + tail)
  }
}

/// The size of a text as one JSON string, quotes included (F47.1).
package func jsonSize(of text: some Sequence<UInt8>) -> Int {
  var size = 2
  for byte in text {
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), 0x08, 0x09, 0x0A, 0x0C, 0x0D: size += 2
    case 0..<0x20: size += 6
    default: size += 1
    }
  }
  return size
}

/// From this size on a document is warned about (F47.1).
package let sizeWarningLimit = 943_718
