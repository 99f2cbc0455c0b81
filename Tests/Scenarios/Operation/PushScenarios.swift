import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// A push leaves the folder in step (F63 to F70), and refusals found locally (F53, F55, F56), names from titles (F58, F59).
struct PushScenarios {
  @Test("F-S420 one push writes the items, sends their placements and leaves every file in step")
  func inStep() throws {
    let bench = try FolderBench()
    let items = [try bench.item("One"), try bench.item("Two")]
    let folder = try KeptFolder(bench)
    let push = try folder.push()
    #expect(push.pull?.written == 2 && push.pull?.placed == 2)
    #expect(push.drain.drain.answered == 2)
    #expect(push.drain.drain.verdicts.map(\.kind) == [.createEdge, .createEdge])
    #expect(try folder.status().files.map(\.state) == [.inStep, .inStep])
    #expect(try items.map { try folder.placement(of: $0) } == ["One.md", "Two.md"])
  }

  @Test(
    "F-S421 placements wait for a server out of reach, or failing as they go, and the next push sends them",
    arguments: [false, true])
  func placementsWait(fails: Bool) throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.push()
    let item = try bench.item("One")
    if fails {
      bench.transport.before = { request in
        guard request.method == "POST", request.url.hasSuffix("/edges") else { return nil }
        return .success(HTTPResponse(refusing: 503, "unavailable"))
      }
      let push = try folder.push()
      #expect(push.pull?.written == 1 && push.pull?.placed == 1)
    } else {
      try folder.folders.working(folder.root, "push") { _ = try $0.catchUp() }
      bench.goOffline()
      let push = try folder.push()
      #expect(push.catchUp.failed != nil)
      #expect(push.pull?.written == 1 && push.pull?.placed == 1)
    }
    #expect(folder.files() == ["One.md"])
    #expect(try folder.status(of: "One.md")?.waits == [.placement])
    #expect(try folder.placement(of: item) == nil)
    bench.goOnline()
    try folder.push()
    #expect(try folder.placement(of: item) == "One.md")
    #expect(try folder.status(of: "One.md")?.state == .inStep)
  }

  @Test("after a first drain that left a write undelivered there is no second drain")
  func undelivered() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.push()
    let item = try bench.item("One")
    try folder.write("mine.md")
    var edges = 0
    bench.transport.before = { request in
      if request.method == "POST", request.url.hasSuffix("/edges") { edges += 1 }
      guard request.method == "POST", request.url.hasSuffix("/items") else { return nil }
      return .failure(.timedOut("no answer"))
    }
    let push = try folder.push()
    #expect(push.drain.drain.undelivered > 0 || push.drain.drain.unavailable != nil)
    #expect(edges == 0)
    #expect(try folder.placement(of: item) == nil)
    bench.goOnline()
    try folder.push()
    #expect(try folder.placement(of: item) == "One.md")
    #expect(try bench.titles() == ["One", "mine"])
  }

  // MARK: Refusals found locally

  @Test("F-S410 an invalid document between two good ones is flagged, kept through a rename, and taken once corrected")
  func invalid() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md", "A.\n")
    let long = String(repeating: "x", count: 100_001) + "\n"
    try folder.write("b.md", long)
    try folder.write("c.md", "C.\n")
    try folder.write("d.md", "---\ntype: app.test.custom\n---\nD.\n")
    let push = try folder.push()
    #expect(push.scan.created == 2)
    #expect(try bench.titles() == ["a", "c"])
    let flagged = try #require(push.scan.flagged.first { $0.path == "b.md" })
    #expect(flagged.flag == "refused" && flagged.reason.contains("validation_error"), "\(flagged)")
    #expect(flagged.reason.contains("body") && flagged.reason.contains("100000"))
    #expect(push.scan.flagged.contains { $0.path == "d.md" && $0.flag == "refused" })
    #expect(folder.text("b.md") == long)
    try folder.rename("b.md", to: "renamed.md")
    let again = try folder.push()
    #expect(again.scan.flagged.contains { $0.path == "renamed.md" && $0.flag == "refused" })
    #expect(folder.text("renamed.md") == long)
    try folder.write("renamed.md", "Short.\n")
    try bench.ask("POST", "/types", ["id": "app.test.custom", "fields": ["body": ["type": "string"]]])
    try folder.push()
    try folder.push()
    #expect(try bench.titles() == ["a", "c", "d", "renamed"])
  }

  @Test("F-S411 a tag or a property name the server would refuse holds its whole file, and no other")
  func tagsRefused() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    let texts = [
      "long.md": "---\ntags: [\(String(repeating: "t", count: 129))]\n---\nA.\n",
      "blank.md": "---\ntags: [\"\u{FEFF}\"]\n---\nB.\n", "name.md": "---\n\"\": value\n---\nC.\n",
    ]
    try folder.push()
    for (name, text) in texts { try folder.write(name, text) }
    try folder.write("aa.md")
    try folder.write("zz.md")
    let scan = try folder.scan()
    let flagged = scan.flagged.filter { $0.flag == "refused" }
    #expect(flagged.map(\.path) == ["blank.md", "long.md", "name.md"])
    #expect(flagged.filter { $0.reason.contains("tags[0]") }.map(\.path) == ["blank.md", "long.md"])
    #expect(flagged.last?.reason.contains("property") == true)
    #expect(scan.created == 2)
    #expect(try folder.queue().filter { $0.kind == .createItem }.count == 2)
    #expect(try folder.queue().allSatisfy { $0.kind != .addTag })
    try folder.push()
    #expect(try bench.titles() == ["aa", "zz"])
    for (name, text) in texts { #expect(folder.text(name) == text) }
    try folder.write("long.md", "---\ntags: [\(String(repeating: "t", count: 128))]\n---\nA.\n")
    try folder.write("blank.md", "---\ntags: [b]\n---\nB.\n")
    try folder.write("name.md", "---\nlanguage: value\n---\nC.\n")
    #expect(try folder.push().scan.created == 3)
    #expect(try bench.titles() == ["aa", "blank", "long", "name", "zz"])
  }

  @Test("F-S412 an edit with a refused tag queues nothing; without it, the edit goes")
  func editRefused() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md", "---\ntags: [ok]\n---\nA.\n")
    try folder.push()
    let item = try bench.id("a")
    let before = try #require(folder.text("a.md"))
    let bad = before.replacing("tags: [ok]", with: "tags: [ok, \(String(repeating: "t", count: 129))]") + "More.\n"
    try folder.write("a.md", bad)
    let scan = try folder.scan()
    #expect(try folder.queue().isEmpty)
    #expect(scan.flagged.contains { $0.path == "a.md" && $0.flag == "refused" && $0.reason.contains("tags[1]") })
    try folder.push()
    #expect(try bench.body(item) == "A.\n")
    #expect(folder.text("a.md") == bad)
    try folder.write("a.md", before + "More.\n")
    try folder.push()
    #expect(try bench.body(item) == "A.\nMore.\n")
    #expect(try folder.status(of: "a.md")?.state == .inStep)
  }

  @Test("F-S415 the names of titles: separators, controls, dots and white space")
  func titles() throws {
    let bench = try FolderBench()
    try bench.item("a/b\\c:d")
    try bench.item(" \n.hidden\r")
    try bench.item("...")
    let folder = try KeptFolder(bench)
    let push = try folder.push()
    #expect(push.pull?.unwritten == 0 && push.pull?.written == 3)
    #expect(folder.files() == ["a-b-c-d.md", "hidden.md", "untitled.md"])
    #expect(try folder.status().files.allSatisfy { $0.state == .inStep })
  }

  @Test("F-S416 long titles are cut at a character, their ending kept where it is short")
  func longTitles() throws {
    let bench = try FolderBench()
    let sun = String(repeating: "\u{65E5}", count: 100)
    let (short, long) = ("." + String(repeating: "e", count: 31), "." + String(repeating: "e", count: 32))
    try bench.file(Text(sun + short), [1, 2, 3], type: "core.file", mime: "application/octet-stream")
    try bench.file(Text(sun + long), [4, 5, 6], type: "core.file", mime: "application/octet-stream")
    let folder = try KeptFolder(bench, ["title": "Files", "search": ["types": ["core.file"]]])
    let push = try folder.push()
    #expect(push.pull?.written == 2 && push.pull?.unwritten == 0)
    let expected = [
      String(repeating: "\u{65E5}", count: 74) + short, String(repeating: "\u{65E5}", count: 85),
    ].sorted()
    #expect(folder.files() == expected)
    #expect(folder.files().allSatisfy { $0.utf8.count <= 255 })
  }

  @Test("F-S417 two file items at one refused path are two entries")
  func twoAtOnePath() throws {
    let bench = try FolderBench()
    let one = try bench.file("id_rsa", [1], type: "core.file", mime: "application/octet-stream")
    let two = try bench.file("id_rsa", [2], type: "core.file", mime: "application/octet-stream")
    try bench.file("other.bin", [3], type: "core.file", mime: "application/octet-stream")
    let folder = try KeptFolder(bench, ["title": "Files", "search": ["types": ["core.file"]]])
    let push = try folder.push()
    let flagged = try #require(push.pull).flagged
    #expect(flagged.map(\.path) == ["id_rsa", "id_rsa"])
    #expect(Set(flagged.compactMap(\.item)) == [one.description, two.description])
    #expect(push.pull?.outside == 2 && folder.files() == ["other.bin"])
    #expect(words(push).filter { $0.contains("id_rsa") }.count == 2)
  }
}
