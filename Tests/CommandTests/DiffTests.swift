import Glibc
import MarfaBase
import Testing
import TestSupport

/// `diff` and `history` (N6.2, P3.4).
@Suite("one file, looked at closer") struct DiffTests: ServedSuite {
  let served: ServedNotes
  var store: [String] { ["device", "--db", notes + "/.marfa/core.sqlite"] }

  init() async throws { served = try await ServedNotes() }

  private func item(_ path: String) async throws -> String {
    let files = try await json(["status", notes])["files"]?.array ?? []
    return try #require(files.first { $0["path"] == .string(Text(path)) }?["item_id"]?.text?.string)
  }

  /// An edit another device makes.
  private func edit(_ id: String, _ body: String) async throws {
    let other = ["device", "--db", scratch.at("other.sqlite")]
    _ = try await json(other + ["hydrate", "--types", "core.note", "--tier", "all"])
    let version = try await json(other + ["items", "get", id])["version"]?.int ?? 0
    let properties: JSON = ["body": .string(Text(body))]
    _ = try await json(other + ["items", "update", id, "--version", "\(version)", "--properties", properties.compact])
    _ = try await json(other + ["drain"])
  }

  /// Another body under the frontmatter the file has.
  private func type(_ body: String, into path: String) throws {
    let text = try #require(scratch.text("Notes/\(path)"))
    let head = text.firstRange(of: "\n---\n")?.upperBound ?? text.startIndex
    try scratch.write("Notes/\(path)", text[..<head] + body)
  }

  @Test("N-S21 diff shows an unsent edit and an unwritten change of one file, and exits 0, or 1 with --exit-code")
  func both() async throws {
    try await folder(["Plan.md": "# Plan\n\none\ntwo\nthree\n", "Other.md": "# Other\n"])
    let still = try await json(["diff", notes, "Plan.md"])
    #expect(still == ["path": "Plan.md", "to_send": nil, "to_write": nil])
    #expect(try await program.run(["diff", "--exit-code", notes, "Plan.md"]).status == 0)
    try await edit(try await item("Plan.md"), "# Plan\n\none, changed there\ntwo\nthree\n")
    _ = try await json(store + ["catch-up"])
    // The item's change alone.
    let written = try await json(["diff", notes, "Plan.md"])
    #expect(written["to_send"] == .null, "\(written.compact)")
    let change = try #require(written["to_write"]?.text?.string)
    #expect(change.contains("-one\n+one, changed there\n"), "\(change)")
    // And an edit of the file beside it, not scanned yet.
    try type("# Plan\n\none\ntwo\nthree, changed here\n", into: "Plan.md")
    func bothStand(_ line: Int = #line) async throws {
      let found = try await json(["diff", notes, "Plan.md"])
      #expect(found.object?.keys == ["path", "to_send", "to_write"])
      let send = found["to_send"]?.text?.string ?? ""
      let write = found["to_write"]?.text?.string ?? ""
      #expect(send.contains("-three\n+three, changed here\n"), "line \(line): \(send)")
      #expect(!send.contains("changed there"), "line \(line): \(send)")
      #expect(write.contains("-one\n+one, changed there\n"), "line \(line): \(write)")
      #expect(!write.contains("changed here"), "line \(line): \(write)")
    }
    try await bothStand()
    // The same once the edit is queued.
    _ = try await json(["scan", notes])
    try await bothStand()
    let shown = try await program.run(["diff", notes, notes + "/Plan.md"])
    #expect(shown.status == 0)
    #expect(shown.outText.contains("+three, changed here") && shown.outText.contains("+one, changed there"))
    #expect(!shown.out.contains(0x1B))
    let code = try await program.run(["diff", notes, "Plan.md", "--exit-code"])
    #expect(code.status == 1 && code.err.isEmpty, "\(code.errText)")
    // It changed nothing: both go their ways.
    _ = try await json(["sync", notes])
    let text = try #require(scratch.text("Notes/Plan.md"))
    #expect(text.contains("changed here") || text.contains("changed there"))
    #expect(try await json(["diff", notes, "Plan.md"])["to_send"] == .null)
  }

  @Test("diff of a file deleted, of one not written yet, of a stranger, and of one outside")
  func whole() async throws {
    try await folder(["Plan.md": "# Plan\n", "sub/Deep.md": "# Deep\n\nwords\n"])
    let refused = try await program.run(["--json", "diff", notes, "Nothing.md"])
    #expect(refused.status == 1 && refused.code == "invalid")
    let outside = try await program.run(["--json", "diff", notes, scratch.at("elsewhere.md")])
    #expect(outside.status == 1 && outside.message.contains("outside"), "\(outside.message)")
    try scratch.write("Notes/New.md", "# New\n")
    #expect(try await program.run(["--json", "diff", notes, "New.md"]).message.contains("not synced yet"))
    #expect(unlink(notes + "/sub/Deep.md") == 0)
    let gone = try await json(["diff", notes, "sub/Deep.md"])
    #expect(gone["to_send"]?.text?.string.contains("+++ /dev/null") == true, "\(gone.compact)")
    #expect(gone["to_send"]?.text?.string.contains("-words") == true)
  }

  @Test("P-S13 an older copy put back is told to have lost, and history --restore brings it back")
  func olderCopy() async throws {
    try await folder(["Plan.md": "# Plan\n\nfirst words\n"])
    let old = try #require(scratch.text("Notes/Plan.md"))
    try await edit(try await item("Plan.md"), "# Plan\n\nsecond words\n")
    _ = try await json(["sync", notes])
    // An older copy of the file, as a backup or another program puts it back.
    try scratch.write("Notes/Plan.md", old)
    let push = try await program.run(["sync", notes])
    #expect(push.status == 0)
    #expect(push.outText.contains("lost to the newer one") && push.outText.contains("history"), "\(push.outText)")
    #expect(scratch.text("Notes/Plan.md")?.contains("second words") == true)
    let versions = try #require(try await json(["history", notes, "Plan.md"]).array)
    #expect(versions.map { $0["version"] } == [1, 2])
    #expect(versions.allSatisfy { $0.object?.keys == ["version", "at", "by", "size", "now", "diff"] })
    #expect(versions.last?["now"] == true && versions.last?["diff"] == .null, "\(versions)")
    #expect(versions[0]["diff"]?.text?.string.contains("-second words\n+first words\n") == true)
    #expect(versions[0]["at"]?.text != nil && (versions[0]["size"]?.int ?? 0) > 0)
    let shown = try await program.run(["history", notes, "Plan.md", "--diff", "1"])
    #expect(shown.status == 0 && shown.outText.contains("+first words"))
    let unknown = try await program.run(["--json", "history", notes, "Plan.md", "--restore", "9"])
    #expect(unknown.status == 1 && unknown.code == "invalid" && unknown.message.contains("1, 2"))
    // What was typed and not sent is kept as a version of its own.
    try type("# Plan\n\nthird words\n", into: "Plan.md")
    let back = try await json(["history", notes, "Plan.md", "--restore", "1"])
    #expect(
      back == [
        "path": "Plan.md", "item_id": .string(Text(try await item("Plan.md"))), "restored": 1, "changed": true,
        "sent": true,
      ])
    #expect(scratch.text("Notes/Plan.md")?.contains("first words") == true)
    let all = try #require(try await json(["history", notes, "Plan.md"]).array)
    #expect(all.count == 4, "\(all)")
    #expect(all[2]["diff"]?.text?.string.contains("+third words") == true)
    #expect(all.last?["now"] == true && all.last?["diff"] == .null)
    #expect(all.last?["by"]?.isNull == false)
    // Once more changes nothing.
    #expect(try await json(["history", notes, "Plan.md", "--restore", "1"])["changed"] == false)
    #expect(try await json(["status", notes])["files"]?.array?.map { $0["status"] } == ["in_step"])
  }
}
