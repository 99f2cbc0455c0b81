import MarfaBase

/// How the destination of an embed is read, wherever its file is looked for (F12.21 to F12.23, D88.R4).
package enum EmbedPath {
  /// Whether a name or path is a document's, or has no extension a document lacks (F12.17).
  package static func isDocument(_ path: [UInt8]) -> Bool { DocumentKind(name: PathBytes(bytes: path)) != nil }

  /// A scheme, `//` or `#` at its start (F12.23).
  package static func isAddress(_ path: Text) -> Bool {
    let bytes = path.bytes
    if bytes.first == UInt8(ascii: "#") || bytes.starts(with: "//".utf8) { return true }
    guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")), colon > 0 else { return false }
    func letter(_ byte: UInt8) -> Bool { byte | 0x20 >= 0x61 && byte | 0x20 <= 0x7A }
    guard letter(bytes[0]) else { return false }
    return bytes[..<colon].allSatisfy {
      letter($0) || ($0 >= 0x30 && $0 <= 0x39) || $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "-")
        || $0 == UInt8(ascii: ".")
    }
  }

  /// A path without query and fragment, its percent escapes decoded (F12.21); nil where an escape gives NUL.
  package static func decoded(_ path: Text) -> [UInt8]? {
    let bare = path.bytes.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }
    var out: [UInt8] = []
    var at = bare.startIndex
    func digit(_ byte: UInt8) -> UInt8? {
      switch byte {
      case 0x30...0x39: byte - 0x30
      case 0x41...0x46: byte - 0x41 + 10
      case 0x61...0x66: byte - 0x61 + 10
      default: nil
      }
    }
    while at < bare.endIndex {
      if bare[at] == UInt8(ascii: "%"), at + 2 < bare.endIndex, let high = digit(bare[at + 1]),
        let low = digit(bare[at + 2])
      {
        out.append(high << 4 | low)
        at += 3
      } else {
        out.append(bare[at])
        at += 1
      }
    }
    return out.contains(0) ? nil : out
  }

  /// A path from a directory, or from the root where it opens with `/`, its `.` and `..` walked; nil where it leads out.
  package static func joined(_ path: [UInt8], from directory: PathBytes) -> PathBytes? {
    var walked: [PathBytes] = path.first == UInt8(ascii: "/") ? [] : directory.components
    for component in PathBytes(bytes: path).components {
      if component == "." { continue }
      if component == ".." {
        guard !walked.isEmpty else { return nil }
        walked.removeLast()
      } else {
        walked.append(component)
      }
    }
    return walked.reduce(.empty) { $0.appending($1) }
  }
}
