import FolderSync
import MarfaBase
import TestSupport

extension Seeded {
  /// A value as a person may lay it out: block or flow, odd indents, comments, quotes.
  mutating func laidOut(_ value: JSON, _ column: Int, _ inSequence: Bool, _ anchors: inout Int) -> String {
    let comment = Int.random(in: 0..<4, using: &self) == 0 ? " # c\(Int.random(in: 0..<99, using: &self))" : ""
    func inline(_ value: JSON) -> String {
      (try? YAMLText.inline(value, flow: true)).map { String(decoding: $0, as: UTF8.self) } ?? "null"
    }
    let isBlock = Int.random(in: 0..<4, using: &self) > 0
    switch value {
    case .array(let values) where !values.isEmpty && isBlock:
      let step = inSequence ? 2 : Int.random(in: 0...3, using: &self)
      var out = comment + "\n"
      for value in values {
        if Int.random(in: 0..<6, using: &self) == 0 {
          out += String(repeating: " ", count: column + step) + "# about\n"
        }
        out += String(repeating: " ", count: column + step) + "-" + laidOut(value, column + step, true, &anchors)
      }
      return out
    case .object(let object) where !object.isEmpty && isBlock:
      let step = Int.random(in: 1...4, using: &self)
      var out = comment + "\n"
      for (key, value) in object.members {
        if Int.random(in: 0..<6, using: &self) == 0 { out += "\n" }
        out += String(repeating: " ", count: column + step) + inline(.string(key)) + ":"
        out += laidOut(value, column + step, false, &anchors)
      }
      return out
    default:
      var lead = " "
      if Int.random(in: 0..<8, using: &self) == 0 {
        lead = " &a\(anchors) "
        anchors += 1
      } else if anchors > 0, Int.random(in: 0..<8, using: &self) == 0 {
        return " *a\(Int.random(in: 0..<anchors, using: &self))\(comment)\n"
      }
      return lead + inline(value) + comment + "\n"
    }
  }
}
