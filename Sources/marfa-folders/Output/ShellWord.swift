import MarfaBase

/// A path as a shell takes it.
func shellWord(_ path: PathBytes) -> String {
  let word = path.description
  let plain = word.utf8.allSatisfy {
    switch $0 {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"),
      UInt8(ascii: "/"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"), 0x80...0xFF:
      true
    default: false
    }
  }
  return plain && !word.isEmpty ? word : "'" + word.replacing("'", with: "'\\''") + "'"
}
