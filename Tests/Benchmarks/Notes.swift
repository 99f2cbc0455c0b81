import Glibc
import MarfaBase
import TestSupport

/// Notes as a person's: a vocabulary whose words grow rarer, two tags, properties to filter by. One seed, one text.
struct Notes {
  private var state: UInt64 = 0x9E37_79B9_7F4A_7C15
  private let words: [String]

  init() {
    let starts = ["ba", "co", "di", "fe", "gu", "ha", "jo", "ki", "la", "me", "no", "pa", "ri", "so", "tu", "ve", "wi"]
    let ends = ["n", "r", "st", "l", "m", "ck", "th", "sh", "nd", "t"]
    var words: [String] = []
    for first in starts { for second in starts { for end in ends { words.append(first + second + end) } } }
    self.words = words
  }

  private mutating func random() -> UInt64 {
    state ^= state << 13
    state ^= state >> 7
    state ^= state << 17
    return state
  }

  private mutating func word() -> String {
    // The product of two even numbers lies mostly near 0, as the words people use.
    let (first, second) = (Int(random() % 1000), Int(random() % 1000))
    return words[first * second * words.count / 1_000_000]
  }

  /// About so many bytes in paragraphs.
  mutating func text(_ bytes: Int) -> String {
    var out = ""
    var line = 0
    while out.utf8.count < bytes {
      out += word()
      line += 1
      out += line % 60 == 0 ? ".\n\n" : line % 12 == 0 ? ".\n" : " "
    }
    return out
  }

  /// The body of a create, 2.7 KB of words. One in 100 says `quarry`, one in 33 `harbour`, nine in ten `everywhere`.
  mutating func create(_ place: Int, id: EntityID) -> JSON {
    var body = text(2600)
    if place % 100 == 0 { body += " quarry" }
    if place % 33 == 0 { body += " harbour" }
    if place % 10 != 0 { body += " everywhere" }
    return [
      "id": .string(id.text), "type": "core.note", "tier": "library",
      "tags": [.string("area-\(place % 20)"), "all"],
      "properties": [
        "title": .string("Note \(place) \(word()) \(word())"), "body": .string(body),
        "shelf": .string("shelf-\(place % 500)"), "room": .string("room-\(place % 4)"), "rank": .int(place % 1000),
      ],
    ]
  }

  /// Writes a directory of Markdown notes of 4.4 KB with two tags and a link each, in directories of fifty.
  mutating func write(_ count: Int, below root: String) throws {
    guard mkdir(root, 0o755) == 0 else { throw ScratchError("mkdir \(root)") }
    for place in 0..<count {
      if place % 50 == 0, mkdir("\(root)/part-\(place / 50)", 0o755) != 0 { throw ScratchError("mkdir in \(root)") }
      var file = "---\ntags:\n  - area-\(place % 20)\n  - all\nrank: \(place % 1000)\n---\n\n# Note \(place)\n\n"
      file += "See [[Note \((place + 1) % count)]].\n\n"
      file += text(4300)
      let path = "\(root)/part-\(place / 50)/Note \(place).md"
      let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
      guard descriptor >= 0 else { throw ScratchError("open \(path)") }
      let bytes = Array(file.utf8)
      _ = Glibc.write(descriptor, bytes, bytes.count)
      close(descriptor)
    }
  }
}
