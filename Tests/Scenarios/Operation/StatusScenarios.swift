import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Size warnings and where files stand (F47, F48).
struct StatusScenarios {
  @Test("F-S374 texts near the server's limit are warned of with their size")
  func sizes() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.push()
    // Two quotes, and one byte more for the escape of the line feed at the end.
    try folder.write("below.md", String(repeating: "a", count: 943_717 - 4) + "\n")
    try folder.write("at.md", String(repeating: "b", count: 943_718 - 4) + "\n")
    try folder.write("escaped.md", String(repeating: "\"", count: (943_718 - 4) / 2) + "\n")
    let push = try folder.push()
    let scan = push.scan
    for warned in ["at.md", "escaped.md"] {
      #expect(words(push).contains { $0.contains(warned) && $0.contains("943718 bytes") })
    }
    #expect(scan.warnings.map(\.path) == ["at.md", "escaped.md"])
    #expect(scan.warnings.allSatisfy { $0.flag == "size" && $0.reason.contains("943718 bytes") })
    #expect(try folder.status(of: "at.md")?.warning?.contains("943718 bytes") == true)
    #expect(try folder.status(of: "escaped.md")?.warning?.contains("943718 bytes") == true)
    #expect(try folder.status(of: "below.md")?.warning == nil)
  }

  @Test("F-S375 a text past the server's limit stays as it is: a new file's is lost, an edit's refused")
  func tooLarge() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("edited.md", "Short.\n")
    try folder.push()
    let edited = try bench.id("edited")
    bench.transport.before = { request in
      guard request.method == "POST" && request.url.hasSuffix("/items") || request.method == "PATCH" else { return nil }
      return .success(HTTPResponse(refusing: 413, "request_too_large"))
    }
    try folder.append("edited.md", "More.\n")
    try folder.write("new.md", "New.\n")
    let (before, fresh) = (folder.text("edited.md"), folder.text("new.md"))
    try folder.push()
    try folder.push()
    #expect(folder.text("edited.md") == before && folder.text("new.md") == fresh)
    let held = try #require(try folder.status(of: "edited.md"))
    #expect(held.state == .held && held.flag == "refused" && held.reason?.contains("request_too_large") == true)
    let lost = try #require(try folder.status(of: "new.md"))
    #expect(lost.state == .held && lost.flag == "lost")
    #expect(try bench.body(edited) == "Short.\n")
    #expect(try bench.titles() == ["edited"])
  }

  @Test("F-S376 a pushed, a queued, an unparsable and a bogus-tier file")
  func states() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("pushed.md")
    try folder.push()
    try folder.write("queued.md")
    try folder.write("broken.md", "---\ntitle: [unclosed\n---\nText.\n")
    try folder.write("tier.md", "---\ntier: attic\n---\nText.\n")
    try folder.scan()
    bench.transport.clear()
    #expect(try folder.status(of: "pushed.md")?.state == .inStep)
    let queued = try #require(try folder.status(of: "queued.md"))
    #expect(queued.state == .waiting && queued.waits.contains(.create))
    for name in ["broken.md", "tier.md"] {
      let held = try #require(try folder.status(of: name))
      #expect(held.state == .held && held.flag == "unreadable" && held.reason?.isEmpty == false)
    }
    #expect(bench.transport.requests.isEmpty)
    try folder.push()
    #expect(try bench.titles() == ["pushed", "queued"])
  }

  @Test("F-S377 an unbound picture in a folder of notes is outside, and no request is made")
  func outside() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("photo.png", bytes: [1, 2, 3])
    try folder.write("ordinary.md")
    bench.transport.clear()
    #expect(try folder.status(of: "photo.png")?.state == .outside)
    try folder.push()
    bench.transport.clear()
    let status = try folder.status()
    #expect(status.files.map(\.path).sorted() == ["ordinary.md", "photo.png"])
    #expect(status.files.filter { $0.state == .outside }.map(\.path) == ["photo.png"])
    #expect(bench.transport.requests.isEmpty)
    #expect(try bench.titles() == ["ordinary"])
  }

  @Test("F-S379 with the directory moved away status, confirm and restore are refused and make nothing")
  func movedAway() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md")
    try folder.push()
    try folder.disk.rename(folder.root, to: folder.root.parent.appending("Elsewhere"))
    for work in [
      { _ = try folder.status() }, { _ = try folder.confirm() }, { _ = try folder.restore() },
    ] as [() throws -> Void] {
      let error = try #require(refusal(work))
      #expect(error.code == .invalid && !error.message.isEmpty)
    }
    #expect(folder.disk.status(folder.root) == nil)
    #expect(try bench.titles() == ["a"])
  }
}
