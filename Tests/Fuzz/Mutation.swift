import TestSupport

/// Bytes changed as accidents, editors and attackers change them: cut, doubled, moved, flipped, with tokens put in.
extension Seeded {
  /// A seed text or two with a few changes.
  mutating func mutated(_ seeds: [String], tokens: [String]) -> [UInt8] {
    var bytes = Array((seeds.randomElement(using: &self) ?? "").utf8)
    if Int.random(in: 0..<8, using: &self) == 0 {
      let other = Array((seeds.randomElement(using: &self) ?? "").utf8)
      bytes = Array(bytes.prefix(at(bytes))) + Array(other.suffix(at(other)))
    }
    let changes = min(Int.random(in: 0...6, using: &self), Int.random(in: 0...6, using: &self))
    for _ in 0..<changes { change(&bytes, tokens) }
    return bytes
  }

  private mutating func at(_ bytes: [UInt8]) -> Int { Int.random(in: 0...bytes.count, using: &self) }

  private mutating func change(_ bytes: inout [UInt8], _ tokens: [String]) {
    let from = at(bytes)
    let to = min(bytes.count, from + Int.random(in: 0...12, using: &self))
    switch Int.random(in: 0..<10, using: &self) {
    case 0 where from < bytes.count: bytes[from] = UInt8.random(in: 0...255, using: &self)
    case 1: bytes.removeSubrange(from..<to)
    case 2: bytes.insert(contentsOf: Array(bytes[from..<to]), at: at(bytes))
    case 3 where Int.random(in: 0..<4, using: &self) == 0: bytes.removeSubrange(from...)
    case 4:
      let piece = Array(bytes[from..<to])
      bytes.removeSubrange(from..<to)
      bytes.insert(contentsOf: piece, at: at(bytes))
    case 5 where Int.random(in: 0..<20, using: &self) == 0:
      // Deep, long or many of one: bounds must hold.
      let token = Array((tokens.randomElement(using: &self) ?? "[").utf8)
      let times = Int.random(in: 1...2000, using: &self)
      bytes.insert(contentsOf: (0..<times).flatMap { _ in token }, at: from)
    default:
      let token =
        Bool.random(using: &self) ? tokens.randomElement(using: &self) : Seeded.pieces.randomElement(using: &self)
      bytes.insert(contentsOf: Array((token ?? "").utf8), at: from)
    }
  }
}
