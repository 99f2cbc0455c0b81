import FolderSync
import MarfaBase
import Testing

/// Differences as `patch` reads them.
@Suite struct UnifiedDiffTests {
  private func diff(_ old: String?, _ new: String?) -> UnifiedDiff {
    UnifiedDiff(
      UnifiedDiff.Side(old.map { Array($0.utf8) }, "a/x"), UnifiedDiff.Side(new.map { Array($0.utf8) }, "b/x"))
  }

  private func text(_ old: String?, _ new: String?) -> String { String(decoding: diff(old, new).text, as: UTF8.self) }

  @Test("a changed line among many is told with three lines around it")
  func one() {
    let lines = (1...12).map { "line \($0)\n" }
    var changed = lines
    changed[5] = "other\n"
    #expect(
      text(lines.joined(), changed.joined()) == """
        --- a/x
        +++ b/x
        @@ -3,7 +3,7 @@
         line 3
         line 4
         line 5
        -line 6
        +other
         line 7
         line 8
         line 9

        """)
    #expect(diff(lines.joined(), changed.joined()).added == 1)
  }

  @Test("equal texts, absent sides, a missing last line end and bytes")
  func edges() {
    #expect(text("same\n", "same\n") == "")
    #expect(text(nil, "new\n") == "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+new\n")
    #expect(text("gone\n", nil) == "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n")
    #expect(
      text("a\nb", "a\nb\n")
        == "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n")
    #expect(text("a\0", "b") == "Binary files a/x and b/x differ\n")
    // Two hunks where the changes lie far apart.
    let lines = (1...30).map { "\($0)\n" }
    var changed = lines
    changed[1] = "x\n"
    changed[28] = "y\n"
    #expect(text(lines.joined(), changed.joined()).split(separator: "\n").filter { $0.hasPrefix("@@") }.count == 2)
  }

  @Test("of many pairs of texts each difference, applied, makes the one the other")
  func applies() {
    var state: UInt64 = 42
    func random(_ below: Int) -> Int {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int((state >> 33) % UInt64(below))
    }
    for _ in 0..<400 {
      let old = (0..<random(40)).map { _ in "\(random(6))\n" }
      var new = old
      for _ in 0..<random(12) {
        if !new.isEmpty, random(2) == 0 {
          new.remove(at: random(new.count))
        } else {
          new.insert("\(random(6))\n", at: random(new.count + 1))
        }
      }
      let told = text(old.joined(), new.joined())
      #expect(applied(told, to: old) == new, "\(told)")
    }
  }

  /// What `patch` would make of the lines.
  private func applied(_ diff: String, to old: [String]) -> [String] {
    var out: [String] = []
    var next = 0
    for line in diff.split(separator: "\n").dropFirst(2) {
      if line.hasPrefix("@@") {
        let range = line.split(separator: " ")[1].dropFirst().split(separator: ",")
        let start = Int(range[0]) ?? 0
        let count = range.count > 1 ? Int(range[1]) ?? 0 : 1
        let from = count == 0 ? start : start - 1
        out += old[next..<from]
        next = from
      } else if line.hasPrefix("+") {
        out.append(String(line.dropFirst()) + "\n")
      } else {
        if line.hasPrefix(" ") { out.append(String(line.dropFirst()) + "\n") }
        guard old[next] == String(line.dropFirst()) + "\n" else { return ["a line that does not stand there"] }
        next += 1
      }
    }
    return out + old[next...]
  }
}
