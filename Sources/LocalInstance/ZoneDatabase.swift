import Glibc
import MarfaBase

/// The machine's zone database (T106).
enum ZoneDatabase {
  private static let directory = "/usr/share/zoneinfo"

  /// Whether a text names a zone. Where the machine has no database, a text of a zone's shape passes for one.
  static func names(_ zone: Text) -> Bool {
    guard isName(zone) else { return false }
    if zone == "UTC" || zone == "GMT" { return true }
    guard isThere else { return zone.bytes.contains(UInt8(ascii: "/")) }
    return isZone("\(directory)/\(zone)")
  }

  private static var isThere: Bool { isZone("\(directory)/Etc/UTC") }

  /// Words parted by slashes, each begun by a letter: no such text leads out of the database, whatever it holds.
  private static func isName(_ zone: Text) -> Bool {
    guard zone.bytes.count <= 100 else { return false }
    let words = zone.bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
    // The database's copies with and without leap seconds are no names of zones.
    if let first = words.first, first.elementsEqual("posix".utf8) || first.elementsEqual("right".utf8) { return false }
    return words.allSatisfy { word in
      guard let first = word.first, (first | 0x20) >= 0x61, (first | 0x20) <= 0x7A else { return false }
      return word.allSatisfy { isAlphanumeric($0) || "_+-".utf8.contains($0) }
    }
  }

  /// Whether a file is a compiled zone (RFC 9636).
  private static func isZone(_ path: String) -> Bool {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    var magic = [UInt8](repeating: 0, count: 4)
    return read(descriptor, &magic, 4) == 4 && magic.elementsEqual("TZif".utf8)
  }
}
