import MarfaBase
import Testing

@testable import FolderSync

/// Frontmatter of tens of thousands of entries. Nothing here is timed: at these sizes, work that grows with the square of
/// the entries takes the better part of an hour, and what is near-linear takes seconds.
@Suite struct DocumentSizeTests {
  let count = 20_000

  private func object(_ range: Range<Int>, _ value: String = "v") -> JSON {
    .object(JSONObject(range.map { (Text("k\($0)"), .string("\(value)\($0)")) }))
  }

  @Test("Thousands of lines: one changed, half taken out and as many added are each one edit in place (F7.29)")
  func manyLines() throws {
    let lines = (0..<count).map { "k\($0): v\($0) # \($0)\n" }
    let changed = try rewritten(lines.joined()) { $0["k7"] = "seven" }
    #expect(changed == lines.joined().replacing("k7: v7 #", with: "k7: seven #"))
    let out = try rewritten(lines.joined()) { properties in
      properties.removeAll { $0.value.text.map { ($0.bytes.last ?? 0) & 1 == 1 } ?? true }
      for number in 0..<(count / 2) { properties[Text("n\(number)")] = "new" }
    }
    #expect(out.contains("k8: v8 # 8\n") && !out.contains("k7: "))
    #expect(out.contains("n\(count / 2 - 1): new\n"))
  }

  @Test("Thousands of members below one key, and in braces on one line (F7.29)") func manyMembers() throws {
    let below = "app:\n" + (0..<count).map { "  k\($0): v\($0)\n" }.joined()
    let braces = "app: {" + (0..<count).map { "k\($0): v\($0)" }.joined(separator: ", ") + "}\n"
    for lines in [below, braces] {
      let out = try rewritten(lines) { properties in
        var app = try #require(properties["app"]?.object)
        app.removeAll { $0.key.bytes.last == UInt8(ascii: "7") }
        app["k8"] = "eight"
        for number in 0..<count { app[Text("n\(number)")] = "new" }
        properties["app"] = .object(app)
      }
      #expect(out.contains("k8: eight") && out.contains("n\(count - 1): new") && !out.contains("k7: "))
    }
  }

  @Test("Thousands of entries of a list, put in another order, taken out and added (F7.29)") func manyEntries() throws {
    let texts = "list:\n" + (0..<count).map { "  - v\($0) # \($0)\n" }.joined()
    let objects = "list:\n" + (0..<count).map { "  - {a: v\($0)}\n" }.joined()
    let flow = "list: [" + (0..<count).map { "v\($0)" }.joined(separator: ", ") + "]\n"
    for lines in [texts, flow] {
      let fewer = try rewritten(lines) { properties in
        let kept = try #require(properties["list"]?.array).enumerated().filter { $0.offset % 2 == 0 }.map(\.element)
        properties["list"] = .array(kept + (0..<count).map { .string("n\($0)") })
      }
      #expect(fewer.contains("v8") && fewer.contains("n\(count - 1)") && !fewer.contains("v7 "))
    }
    let moved = try rewritten(texts) { properties in
      properties["list"] = .array(try #require(properties["list"]?.array).reversed())
    }
    #expect(moved.hasPrefix("list:\n  - v\(count - 1) # \(count - 1)\n"))
    let others = try rewritten(objects) { properties in
      properties["list"] = .array((0...count).map { ["a": .string("w\($0)")] })
    }
    #expect(others.contains("{a: w\(count - 1)}"))
  }

  @Test("Thousands of targets of one edge line (F7.30)") func manyTargets() throws {
    let lines = "about:\n" + (0..<count).map { "  - \"[[n\($0)]]\"\n" }.joined()
    let file = "---\n\(ownLines)\(lines)\(tailLines)---\nThe body.\n"
    var wanted = content(of: try document(file))
    let targets = (0..<count).filter { $0 % 2 == 0 }.map { Text("[[n\($0)]]") } + (0..<count).map { Text("[[m\($0)]]") }
    wanted.edges = [EdgeContent(key: "about", targets: targets, holdsMany: true)]
    let bytes = try Document.rewrite(Array(file.utf8), to: wanted, kind: .markdown, edges: edgeNames).get()
    let read = try document(String(decoding: bytes, as: UTF8.self))
    #expect(read.edges.first?.targets.count == targets.count)
  }

  @Test("Members taken out together leave the others found and in order") func takenOut() {
    var members = JSONObject((0..<40).map { (Text("k\($0)"), .int($0)) })
    members.removeAll { ($0.value.int ?? 0) % 3 == 0 }
    #expect(members.count == 26)
    #expect(members["k1"] == 1 && members["k39"] == nil && members["k38"] == 38)
    #expect(members.keys == (0..<40).filter { $0 % 3 != 0 }.map { Text("k\($0)") })
    members["k3"] = 3
    #expect(members.keys.last == "k3" && members["k3"] == 3)
  }
}
