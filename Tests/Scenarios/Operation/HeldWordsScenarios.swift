import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// What a person reads of a folder that cannot go on, and words that must not go to the bin with a delete.
struct HeldWordsScenarios {
  @Test("F40.8, F48.7 a folder whose settings no folder follows shows where its files stand, and says why nothing goes")
  func unfollowed() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("n.md", "Words.\n")
    try folder.push()
    try folder.push()
    try folder.change(["search": ["types": ["core.note"], "filter": "backref[about] eq \"x\""]])
    #expect(throws: MarfaError.self) { try folder.push() }
    #expect(throws: MarfaError.self) { try folder.push() }
    try folder.write("new.md", "New.\n")
    let status = try folder.status()
    #expect(status.files.map(\.path) == ["n.md", "new.md"] && status.files[1].waits == [.scan])
    #expect(status.files[0].state == .inStep)
    #expect(status.json["settings"]?["flagged"]?.text?.string.contains("search.filter") == true)
    #expect(try folder.folders.list().count == 1)
    try folder.change(["search": ["types": ["core.note"]]])
    #expect(try folder.push().scan.created == 1)
    #expect(try folder.status().unfollowed == nil)
  }

  @Test(
    "F21.4, F21.6 an item that changed in its text and left the search while its file's delete waited is not trashed")
  func leftTheSearch() throws {
    for hears in [true, false] {
      let bench = try FolderBench()
      let folder = try KeptFolder(bench, TwoFolders.tagged("a", ["core.note"], ["defaults": ["tags": ["a"]]]))
      try folder.write("x.md", "Words.\n")
      try folder.write("y.md", "Words of y.\n")
      try folder.push()
      try folder.push()
      let (item, other) = (try bench.id("x"), try bench.id("y"))
      try folder.delete("x.md")
      try folder.delete("y.md")
      #expect(try folder.push().scan.missing == 2)
      try bench.edit(item, ["body": "Words made elsewhere.\n"])
      try bench.ask("DELETE", "/items/\(item)/tags/a")
      // One that only leaves the search goes all the same.
      try bench.ask("DELETE", "/items/\(other)/tags/a")
      if hears { try folder.push() }
      folder.grace()
      bench.transport.clear()
      let push = try folder.push()
      try folder.push()
      #expect(try bench.titles() == ["x"], "\(push.json.compact)")
      #expect(try bench.body(item) == "Words made elsewhere.\n")
      #expect(folder.files().isEmpty)
      folder.grace()
      bench.transport.clear()
      #expect(try folder.push().scan.missing == 0)
      #expect(bench.writes.isEmpty)
    }
  }

  @Test("F35, C9.6 a change of a file whose item is in the bin is held with its reason, and goes once that is restored")
  func changedInTheBin() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("n.md", "Words.\n")
    try folder.push()
    try folder.push()
    let item = try bench.id("n")
    try bench.trash(item)
    try folder.folders.working(folder.root, "test") { _ = try $0.catchUp() }
    try folder.append("n.md", "More.\n")
    for _ in 1...2 {
      let push = try folder.push()
      #expect(push.scan.flagged.map(\.flag) == ["refused"], "\(push.json.compact)")
      let status = try #require(try folder.status(of: "n.md"))
      #expect(status.state == .held && status.reason?.contains("bin") == true)
    }
    #expect(folder.text("n.md")?.hasSuffix("Words.\nMore.\n") == true)
    try bench.untrash(item)
    try folder.push()
    try folder.push()
    #expect(try bench.body(item) == "Words.\nMore.\n")
    #expect(try folder.status(of: "n.md")?.state == .inStep)
  }

  @Test("F44.2, F17.1 a text file whose item moves to another folder's search is taken in as the file it is")
  func textTakenIn() throws {
    let machine = try TwoFolders(
      TwoFolders.tagged("a", ["core.note"], ["defaults": ["tags": ["a"]]]), TwoFolders.tagged("b"))
    let (one, two) = (machine.one, machine.two)
    try one.write("p.txt", "---\nplain: words\n")
    try one.push()
    try one.push()
    let item = try machine.bench.id("p")
    try machine.retag(item, from: "a", to: "b")
    try one.push()
    #expect(try two.push().pull?.taken == 1)
    #expect(two.files() == ["p.txt"] && two.text("p.txt") == "---\nplain: words\n")
    try one.push()
    one.grace()
    try one.push()
    #expect(one.files().isEmpty && two.files() == ["p.txt"])
    #expect(try two.placement(of: item) == "p.txt" && machine.bench.titles() == ["p"])
  }

  @Test("F53, E2.5 a name no placement can hold is refused in words that say the name must change")
  func unplaceable() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a:b.md", "Words.\n")
    try folder.write("\\.md", "Words.\n")
    let push = try folder.push()
    #expect(push.scan.flagged.map(\.flag) == ["refused", "refused"])
    for flagged in push.scan.flagged {
      #expect(flagged.reason.contains("rename"), "\(flagged.reason)")
    }
    #expect(try bench.titles().isEmpty)
  }

  @Test("F19.27 files whose places were swapped elsewhere stay, are told truly, and still get what is edited elsewhere")
  func swapped() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("x.md", "X.\n")
    try folder.write("y.md", "Y.\n")
    try folder.push()
    try folder.push()
    let (x, y) = (try bench.id("x"), try bench.id("y"))
    for (item, path) in [(x, "y.md"), (y, "x.md")] {
      let edge = try #require(try bench.placements(of: item).first?.edge)
      let version = try bench.ask("GET", "/edges/\(edge)")
      try bench.ask(
        "PATCH", "/edges/\(edge)",
        ["version": (version["edge"] ?? version)["version"] ?? .null, "properties": ["path": .string(Text(path))]])
    }
    let pull = try #require(try folder.push().pull)
    #expect(pull.unwritten == 2 && folder.files() == ["x.md", "y.md"])
    #expect(pull.flagged.allSatisfy { !$0.reason.contains("did not write") }, "\(pull.flagged)")
    try bench.edit(x, ["body": "X, edited elsewhere.\n"])
    try folder.push()
    #expect(folder.text("x.md")?.hasSuffix("X, edited elsewhere.\n") == true)
    #expect(folder.text("y.md")?.hasSuffix("Y.\n") == true)
    // What a person saves goes to its own item.
    try folder.append("x.md", "Mine.\n")
    try folder.push()
    #expect(try bench.body(x) == "X, edited elsewhere.\nMine.\n" && bench.body(y) == "Y.\n")
  }

  @Test("F52.2 an answer cut short ends no watch: it is waited out, said once, and what waited is sent after it")
  func unreadable() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("n.md", "Words.\n")
    try folder.push()
    let watch = ScriptedWatch(folder)
    watch.at(15) {
      bench.transport.after = { _, answer in
        .success(HTTPResponse(status: 200, headers: answer.headers, body: Array("{\"x\":".utf8)))
      }
    }
    watch.save("m.md", "More.\n", at: 16)
    watch.at(40) { bench.transport.after = nil }
    #expect(try watch.run(seconds: 80) == nil)
    #expect(watch.count("unreachable") == 1 && watch.count("reachable") == 1, "\(watch.names)")
    #expect(try bench.titles() == ["m", "n"])
  }
}
