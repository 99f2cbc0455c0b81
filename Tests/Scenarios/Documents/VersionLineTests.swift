import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Current files and files behind (F7.11 to F7.24, F23, F24).
struct VersionLineTests {
  /// A desk with one held note `A`, its file written, at version 1.
  func held(tags: [Text] = [], _ more: JSONObject = JSONObject()) throws -> (Desk, EntityID) {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note", "core.bookmark"]]]) {
      try $0.item("A", body: "Words.\n", tags: tags, more: more)
    }
    _ = try desk.push()
    return (desk, try desk.id("A"))
  }

  @Test("F-S7.11 a line taken out of a current file clears its property; without a version line it clears nothing")
  func lineTakenOut() throws {
    let (desk, id) = try held(JSONObject([("mood", "good"), ("count", 3)]))
    try desk.machine.edit("A.md", "mood: good\n", "")
    let (_, sent) = try desk.push()
    let edit = try #require(sent.edits(id).first)
    #expect(sent.count == 1 && edit.body.string("properties_mode") == "replace")
    #expect(edit.body["version"] == 1)
    #expect(try desk.properties(id) == ["title": "A", "body": "Words.\n", "count": 3])

    let text = try desk.machine.need("A.md")
    #expect(text.contains("marfa_version: 2\n"))
    try desk.machine.save(
      "A.md",
      text.replacing("marfa_version: 2\n", with: "").replacing("count: 3\n", with: "").replacing("Words", with: "New"))
    let (push, merged) = try desk.push()
    #expect(merged.edits(id).count == 1 && merged.edits(id).first?.body["properties_mode"] == nil)
    #expect(push.scan.updated == 1)
    #expect(try desk.properties(id) == ["title": "A", "body": "New.\n", "count": 3])
    #expect(try desk.machine.lines("A.md").contains("count: 3"))
    #expect(try desk.machine.lines("A.md").contains("marfa_version: 3"))
  }

  @Test("F-S7.12 only a file with a version line removes its tag with the tags line")
  func tagsLineTakenOut() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"]]]) { bench in
      try bench.item("A", tags: ["work"])
      try bench.item("B", tags: ["work"])
    }
    _ = try desk.push()
    let (a, b) = (try desk.id("A"), try desk.id("B"))
    try desk.machine.edit("A.md", "tags:\n  - work\n", "")
    try desk.machine.save(
      "B.md",
      try desk.machine.need("B.md").replacing("tags:\n  - work\n", with: "").replacing("marfa_version: 1\n", with: ""))
    let (push, sent) = try desk.push()
    #expect(sent.lines == ["DELETE /items/\(a)/tags/work"])
    #expect(try desk.tags(a).isEmpty)
    #expect(try desk.tags(b) == ["work"])
    #expect(push.scan.flagged.flags("B.md") == ["behind"])
    #expect(try desk.machine.lines("B.md").contains("  - work"))
  }

  @Test("F-S7.13 an older file with a version line and no own lines leaves tags and archive; one naming them is sent")
  func olderFiles() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note", "core.bookmark"]]]) { bench in
      for name in ["A", "B"] {
        let id = try bench.item(Text(name), tags: ["kept"])
        try bench.ask("POST", "/items/\(id)/transition", ["state": "archived"])
      }
    }
    let (a, b) = (try desk.id("A"), try desk.id("B"))
    try desk.machine.write("A.md", "---\ntitle: A\nmarfa_id: \(a)\nmarfa_version: 1\n---\nNew words.\n")
    try desk.machine.write(
      "B.md", "---\ntitle: B\ntype: core.bookmark\ntags: [kept, more]\nmarfa_id: \(b)\nmarfa_version: 1\n---\nWords.\n")
    let (push, sent) = try desk.push()
    #expect(push.scan.created == 0)
    #expect(sent.edits(a).count == 1 && sent.edits(b).count == 1)
    #expect(try desk.tags(a) == ["kept"])
    #expect(try desk.state(a) == "archived")
    #expect(try desk.properties(a)["body"] == "New words.\n")
    #expect(try desk.item(b).string("type") == "core.bookmark")
    #expect(try desk.tags(b) == ["kept", "more"])
    #expect(try desk.state(b) == "archived")
    #expect(desk.machine.files() == ["A.md", "B.md"])
  }

  @Test("F-S7.14 an old buffer's edit goes, a tag and state moved elsewhere at its version do not")
  func movedElsewhere() throws {
    let (desk, id) = try held()
    let old = try desk.machine.need("A.md")
    try desk.tag(id, "elsewhere")
    try desk.transition(id, "archived")
    let (first, _) = try desk.push()
    #expect(first.pull?.rewritten == 1)
    #expect(try desk.machine.lines("A.md").contains("state: archived"))
    try desk.machine.save("A.md", old.replacing("Words.", with: "Other words."))
    let (push, sent) = try desk.push()
    #expect(sent.count == 1 && sent.edits(id).count == 1)
    #expect(try desk.tags(id) == ["elsewhere"])
    #expect(try desk.state(id) == "archived")
    #expect(try desk.properties(id)["body"] == "Other words.\n")
    let reason = try #require(push.scan.flagged.reason("A.md", "behind"))
    #expect(reason.contains("elsewhere") && reason.contains("state"), "\(reason)")
  }

  @Test("F-S7.15 nine tags added elsewhere one by one at one version survive the first buffer")
  func nineTags() throws {
    let (desk, id) = try held()
    let old = try desk.machine.need("A.md")
    for number in 1...9 {
      try desk.tag(id, "t\(number)")
      let (push, _) = try desk.push()
      #expect(push.pull?.rewritten == 1)
    }
    try desk.machine.save("A.md", old)
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty)
    #expect(try desk.tags(id) == (1...9).map { "t\($0)" })
    #expect(push.scan.flagged.flags("A.md") == ["behind"])
  }

  @Test("F-S7.16 buffers of an archive and a restore elsewhere archive nothing again", arguments: [false, true])
  func archiveAndRestore(onlyArchived: Bool) throws {
    let (desk, id) = try held()
    let first = try desk.machine.need("A.md")
    try desk.transition(id, "archived")
    _ = try desk.push()
    let archived = try desk.machine.need("A.md")
    #expect(archived.contains("state: archived"))
    try desk.transition(id, "active")
    _ = try desk.push()
    #expect(try !desk.machine.need("A.md").contains("state:"))
    let buffers = onlyArchived ? [archived] : [first, archived]
    var flagged = false
    for buffer in buffers {
      try desk.machine.save("A.md", buffer)
      let (push, sent) = try desk.push()
      #expect(sent.isEmpty)
      flagged = push.scan.flagged.flags("A.md") == ["behind"]
    }
    #expect(flagged)
    #expect(try desk.state(id) == "active")
  }

  @Test("F-S7.17 a tag the person adds and takes out at one version goes both times, unflagged")
  func ownTag() throws {
    let (desk, id) = try held()
    try desk.machine.edit("A.md", "tier: library\n", "tier: library\ntags: [mine]\n")
    let (added, one) = try desk.push()
    #expect(one.lines == ["POST /items/\(id)/tags"] && added.scan.flagged.isEmpty)
    #expect(try desk.tags(id) == ["mine"])
    try desk.machine.edit("A.md", "tags: [mine]\n", "")
    let (removed, two) = try desk.push()
    #expect(two.lines == ["DELETE /items/\(id)/tags/mine"] && removed.scan.flagged.isEmpty)
    #expect(try desk.tags(id).isEmpty)
    #expect(try desk.version(id) == 1)
  }

  @Test("F-S7.18 three saves before one drain go as three edits and every line survives")
  func threeSaves() throws {
    let (desk, id) = try held()
    for word in ["one", "two", "three"] {
      try desk.machine.edit("A.md", "title: A\n", "title: A\n\(word): yes\n")
      #expect(try desk.machine.scan().updated == 1)
    }
    let (push, sent) = try desk.push()
    #expect(sent.edits(id).count == 3)
    #expect(push.drain.drain.verdicts.count == 3)
    #expect(
      try desk.properties(id) == ["title": "A", "body": "Words.\n", "one": "yes", "two": "yes", "three": "yes"])
    #expect(try desk.version(id) == 4)
    for word in ["one", "two", "three"] { #expect(try desk.machine.lines("A.md").contains("\(word): yes")) }
    #expect(try desk.machine.lines("A.md").contains("marfa_version: 4"))
    #expect(try desk.bench.titles() == ["A"])
  }

  @Test("F-S7.20 an old buffer over a retype and a tag made elsewhere goes without either")
  func retypedElsewhere() throws {
    let (desk, id) = try held(tags: ["old"])
    let old = try desk.machine.need("A.md")
    try desk.patch(id, ["type": "core.bookmark", "retype": true])
    try desk.tag(id, "new")
    _ = try desk.push()
    #expect(try desk.machine.lines("A.md").contains("type: core.bookmark"))
    try desk.machine.save("A.md", old.replacing("Words.", with: "Mine."))
    let (push, sent) = try desk.push()
    let edit = try #require(sent.edits(id).first)
    #expect(sent.count == 1 && edit.body["version"] == 1 && edit.body["type"] == nil && edit.body["retype"] == nil)
    #expect(try desk.item(id).string("type") == "core.bookmark")
    #expect(try desk.tags(id) == ["new", "old"])
    #expect(try desk.properties(id)["body"] == "Mine.\n")
    let reason = try #require(push.scan.flagged.reason("A.md", "behind"))
    let type = try #require(reason.firstRange(of: "type"))
    let tags = try #require(reason.firstRange(of: "tags"))
    #expect(type.lowerBound < tags.lowerBound)
    #expect(try desk.machine.lines("A.md").contains("type: core.bookmark"))
    #expect(try desk.machine.lines("A.md").contains("  - new"))
  }

  @Test("F-S7.21 version lines in other forms, none and an unknown one")
  func lineForms() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note", "core.bookmark"]]]) { bench in
      for name in ["Text", "Float", "None", "Seven"] { try bench.item(Text(name), body: "Words.\n") }
    }
    _ = try desk.push()
    let text = try desk.id("Text")
    let float = try desk.id("Float")
    let none = try desk.id("None")
    let seven = try desk.id("Seven")
    let old = try desk.machine.need("Text.md")
    try desk.patch(text, ["properties": ["other": "theirs"]])
    try desk.patch(none, ["properties": ["other": "theirs"]])
    try desk.patch(seven, ["properties": ["other": "theirs"]])
    _ = try desk.push()
    try desk.machine.save(
      "Text.md",
      old.replacing("marfa_version: 1", with: "marfa_version: \"1\"").replacing("Words.", with: "Text.")
        .replacing("type: core.note", with: "type: core.bookmark"))
    try desk.machine.save(
      "Float.md",
      try desk.machine.need("Float.md").replacing("marfa_version: 1", with: "marfa_version: 1.0")
        .replacing("Words.", with: "Float."))
    for (name, line) in [("None", ""), ("Seven", "marfa_version: 7\n")] {
      try desk.machine.save(
        "\(name).md",
        try desk.machine.need("\(name).md").replacing("marfa_version: 2\n", with: line)
          .replacing("Words.", with: "\(name).").replacing("type: core.note", with: "type: core.bookmark"))
    }
    let (push, sent) = try desk.push()
    let wanted: [(EntityID, Int, Bool)] = [(text, 1, false), (float, 1, true), (none, 2, false), (seven, 2, false)]
    for (id, version, whole) in wanted {
      let edit = try #require(sent.edits(id).first)
      #expect(edit.body["version"]?.int == version, "\(edit.body.compact)")
      #expect((edit.body.string("properties_mode") == "replace") == whole)
      #expect(edit.body["type"] == nil)
      #expect(try desk.item(id).string("type") == "core.note")
    }
    #expect(try desk.properties(text)["other"] == "theirs" && desk.properties(text)["body"] == "Text.\n")
    #expect(push.scan.flagged.flags("Text.md") == ["behind"])
    #expect(push.scan.flagged.flags("None.md") == ["behind"])
    let reason = try #require(push.scan.flagged.reason("Seven.md", "behind"))
    #expect(reason.contains("version this copy does not hold"))
    #expect(push.scan.flagged.flags("Float.md").isEmpty)
  }

  @Test(
    "F-S7.23 a file behind merges at its line and its missing line clears nothing; a line between two held versions too"
  )
  func behindMerges() throws {
    let (desk, id) = try held(JSONObject([("mood", "good")]))
    let old = try desk.machine.need("A.md")
    try desk.patch(id, ["properties": ["other": "theirs"]])
    _ = try desk.push()
    try desk.machine.save("A.md", old.replacing("mood: good\n", with: "").replacing("Words.", with: "Mine."))
    let (push, sent) = try desk.push()
    let edit = try #require(sent.edits(id).first)
    #expect(edit.body["version"] == 1 && edit.body["properties_mode"] == nil)
    #expect(push.scan.flagged.isEmpty)
    #expect(
      try desk.properties(id) == ["title": "A", "body": "Mine.\n", "mood": "good", "other": "theirs"])

    // The copy holds 3 next and then 6: a line naming 5 it never held.
    #expect(try desk.version(id) == 3)
    let at3 = try desk.machine.need("A.md")
    for value in 1...3 { try desk.patch(id, ["properties": ["other": .int(value)]]) }
    _ = try desk.push()
    #expect(try desk.machine.lines("A.md").contains("marfa_version: 6"))
    try desk.machine.save(
      "A.md",
      at3.replacing("marfa_version: 3", with: "marfa_version: 5").replacing("other: theirs", with: "other: 2")
        .replacing("Mine.", with: "Last."))
    let (last, again) = try desk.push()
    #expect(again.edits(id).first?.body["version"] == 5)
    #expect(again.edits(id).first?.body["properties_mode"] == nil)
    #expect(last.scan.flagged.isEmpty)
    #expect(try desk.properties(id)["other"] == 3 && desk.properties(id)["body"] == "Last.\n")
  }

  @Test("F-S7.24 a line taken out right after the file's own edit landed is cleared")
  func rightAfterLanding() throws {
    let (desk, id) = try held(JSONObject([("mood", "good")]))
    try desk.machine.edit("A.md", "Words.", "New.")
    // The edit lands, and the pull after it can write nothing.
    desk.machine.faults = Faults.failing(.create, code: 28)
    _ = try desk.push()
    desk.machine.faults = nil
    #expect(try desk.version(id) == 2)
    #expect(try desk.machine.lines("A.md").contains("marfa_version: 1"))
    try desk.machine.edit("A.md", "mood: good\n", "")
    let (_, sent) = try desk.push()
    #expect(sent.edits(id).first?.body.string("properties_mode") == "replace")
    #expect(try desk.properties(id) == ["title": "A", "body": "New.\n"])
    #expect(try desk.machine.lines("A.md").contains("marfa_version: 3"))
  }

  @Test("F-S7.24 a line taken out after a plain device drain landed the file's edit is cleared, by a push as by a scan")
  func afterPlainDrain() throws {
    for byScan in [false, true] {
      let (desk, id) = try held(JSONObject([("mood", "good")]))
      try desk.machine.edit("A.md", "Words.", "New.")
      _ = try desk.machine.scan()
      let drained = try desk.machine.folders.working(desk.machine.root, "drain") { try $0.copy.queue.drain() }
      #expect(drained.verdicts.map(\.verdict) == [.accepted])
      try desk.machine.edit("A.md", "mood: good\n", "")
      if byScan { #expect(try desk.machine.scan().updated == 1) }
      let (_, sent) = try desk.push()
      #expect(sent.edits(id).first?.body.string("properties_mode") == "replace")
      #expect(try desk.properties(id) == ["title": "A", "body": "New.\n"])
      #expect(try !desk.machine.need("A.md").contains("mood"))
      #expect(try desk.push().sent.isEmpty)
    }
  }

  @Test("F-S7.24 a tag taken out after a plain device drain landed the one before it goes")
  func tagAfterPlainDrain() throws {
    let (desk, id) = try held()
    try desk.machine.edit("A.md", "tier: library\n", "tier: library\ntags: [one, two]\n")
    _ = try desk.machine.scan()
    _ = try desk.machine.folders.working(desk.machine.root, "drain") { try $0.copy.queue.drain() }
    #expect(try desk.tags(id) == ["one", "two"])
    try desk.machine.edit("A.md", "tags: [one, two]\n", "tags: [two]\n")
    _ = try desk.push()
    #expect(try desk.tags(id) == ["two"])
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S7.25 a tag added in a file at the old line of a step no file shows is sent")
  func stepNoFileShows() throws {
    let (desk, id) = try held()
    try desk.bench.ask(
      "PATCH", "/items/\(id)?conflict=auto", ["version": 1, "properties": ["title": "A"], "tier": "library"])
    if try desk.version(id) == 1 { try desk.patch(id, ["properties": ["references": "hidden"]]) }
    #expect(try desk.version(id) == 2)
    let (first, _) = try desk.push()
    #expect(first.pull?.rewritten == 0)
    #expect(try desk.machine.lines("A.md").contains("marfa_version: 1"))
    try desk.machine.edit("A.md", "tier: library\n", "tier: library\ntags: [mine]\n")
    let (push, sent) = try desk.push()
    #expect(sent.lines == ["POST /items/\(id)/tags"])
    #expect(push.scan.flagged.isEmpty)
    #expect(try desk.tags(id) == ["mine"])
  }

  @Test("F-S7.27 archived then active saved at one version before a drain are two transitions in that order")
  func twoTransitions() throws {
    let (desk, id) = try held()
    try desk.machine.edit("A.md", "tier: library\n", "tier: library\nstate: archived\n")
    _ = try desk.machine.scan()
    try desk.machine.edit("A.md", "state: archived\n", "")
    _ = try desk.machine.scan()
    let (_, sent) = try desk.push()
    #expect(sent.map { $0.body.string("state") ?? "" } == ["archived", "active"])
    #expect(sent.allSatisfy { $0.target == "/items/\(id)/transition" })
    #expect(try desk.state(id) == "active")
    #expect(try desk.push().sent.isEmpty)
  }

  // MARK: F23, F24

  @Test("F-S23.1 an old buffer saved twice over a retitle goes at 1 then 3, both accepted")
  func oldBufferTwice() throws {
    let (desk, id) = try held()
    let old = try desk.machine.need("A.md")
    try desk.patch(id, ["properties": ["title": "Retitled"]])
    _ = try desk.push()
    try desk.machine.save("A.md", old.replacing("Words.", with: "First."))
    let (one, first) = try desk.push()
    try desk.machine.save("A.md", old.replacing("Words.", with: "Second."))
    let (two, second) = try desk.push()
    #expect(first.edits(id).map { $0.body["version"] } == [1])
    #expect(second.edits(id).map { $0.body["version"] } == [3])
    #expect((one.drain.drain.verdicts + two.drain.drain.verdicts).allSatisfy { $0.verdict?.isSuccess == true })
    #expect((one.drain.drain.verdicts + two.drain.drain.verdicts).allSatisfy { $0.conflictedCopyID == nil })
    #expect(try desk.properties(id) == ["title": "Retitled", "body": "Second.\n"])
    #expect(try desk.bench.titles() == ["Retitled"])
    #expect(try desk.machine.lines("A.md").contains("marfa_version: 4"))
    #expect(try desk.machine.lines("A.md").contains("title: Retitled"))
  }

  @Test("F-S23.2 the old buffer of a landed own edit goes on the copy's version with no conflicted copy")
  func oldBufferOfOwnEdit() throws {
    let (desk, id) = try held()
    let old = try desk.machine.need("A.md")
    try desk.machine.save("A.md", old.replacing("Words.", with: "First."))
    _ = try desk.push()
    #expect(try desk.machine.lines("A.md").contains("marfa_version: 2"))
    try desk.machine.save("A.md", old.replacing("Words.", with: "Second."))
    let (push, sent) = try desk.push()
    #expect(sent.edits(id).map { $0.body["version"] } == [2])
    #expect(push.drain.drain.verdicts.allSatisfy { $0.conflictedCopyID == nil })
    #expect(try desk.properties(id)["body"] == "Second.\n")
    #expect(try desk.bench.titles() == ["A"])
  }

  @Test(
    "F23.6 P1.3 a save between an own edit's answer and its pull does not go over what another device wrote meanwhile",
    arguments: ["A.md", "A.txt"])
  func saveBeforeThePull(path: String) throws {
    let desk = try Desk()
    try desk.machine.write(path, "Words.\n")
    _ = try desk.push()
    _ = try desk.push()
    let id = try desk.id("A")
    let text = try desk.machine.need(path)
    try desk.machine.save(path, text.replacing("Words.", with: "Words.\nMine."))
    // As the answer of the edit comes, another device writes, and the person saves on.
    var isAnswered = false
    desk.bench.transport.after = { request, response in
      guard !isAnswered, request.method == "PATCH", request.url.contains("/items/"), response.status == 200 else {
        return .success(response)
      }
      isAnswered = true
      do {
        try desk.bench.edit(id, ["body": "Words.\nMine.\nTheirs.\n"])
        try desk.machine.save(path, text.replacing("Words.", with: "Words.\nMine.\nMore."))
      } catch { Issue.record(error) }
      return .success(response)
    }
    _ = try desk.push()
    desk.bench.transport.after = nil
    #expect(isAnswered)
    for _ in 0..<3 { _ = try desk.push() }
    let bodies = try desk.bench.ask("GET", "/items?type=core.note&include=metadata")["data"]?.array ?? []
    let words = bodies.map { ($0["item"] ?? $0)["properties"]?.string("body") ?? "" }.joined()
    #expect(words.contains("Theirs.") && words.contains("More."), "\(words)")
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S23.5 the first buffer saved on after a pull wrote over a waiting edit makes no conflict")
  func pullOverWaitingEdit() throws {
    let (desk, id) = try held()
    let old = try desk.machine.need("A.md")
    try desk.machine.save("A.md", old.replacing("Words.", with: "First."))
    _ = try desk.machine.scan()
    try desk.patch(id, ["properties": ["other": "theirs"]])
    try catchUpOnly(desk)
    let pull = try desk.machine.pull()
    #expect(pull.rewritten == 1)
    #expect(try desk.machine.lines("A.md").contains("other: theirs"))
    #expect(try desk.machine.body("A.md") == "First.\n")
    _ = try desk.push()
    try desk.machine.save("A.md", old.replacing("Words.", with: "First and second."))
    let (push, sent) = try desk.push()
    #expect(sent.edits(id).count == 1)
    #expect(push.drain.drain.verdicts.allSatisfy { $0.verdict?.isSuccess == true && $0.conflictedCopyID == nil })
    #expect(try desk.properties(id) == ["title": "A", "body": "First and second.\n", "other": "theirs"])
    #expect(try desk.bench.titles() == ["A"])
  }

  /// Takes the server's events into the copy, and sends nothing.
  func catchUpOnly(_ desk: Desk) throws {
    _ = try desk.machine.folders.working(desk.machine.root, "catch-up") { try $0.catchUp() }
  }

  @Test("F-S23.6 after a landed edit and a refused later one the next goes on the landed version")
  func refusedLaterEdit() throws {
    let (desk, id) = try held()
    let old = try desk.machine.need("A.md")
    try desk.machine.save("A.md", old.replacing("Words.", with: "First."))
    _ = try desk.push()
    #expect(try desk.version(id) == 2)
    try desk.machine.save("A.md", old.replacing("Words.", with: "Refused."))
    refuseEdits(desk, of: id)
    let (refused, _) = try desk.push()
    desk.bench.transport.before = nil
    #expect(refused.pull?.flagged.flags("A.md") == ["refused"])
    try desk.machine.save("A.md", old.replacing("Words.", with: "Third."))
    let (push, sent) = try desk.push()
    #expect(sent.edits(id).map { $0.body["version"] } == [2])
    #expect(push.drain.drain.verdicts.allSatisfy { $0.verdict?.isSuccess == true && $0.conflictedCopyID == nil })
    #expect(try desk.properties(id)["body"] == "Third.\n")
    #expect(push.pull?.flagged.flags("A.md") == [])
  }

  /// The server refuses edits of an item.
  func refuseEdits(_ desk: Desk, of id: EntityID) {
    desk.bench.transport.before = { request in
      guard request.method == "PATCH", request.url.contains("/items/\(id)") else { return nil }
      return .success(
        refusal(400, "invalid_properties", "A property is not what its type says."))
    }
  }

  @Test("F-S23.10 saves changing only the line send nothing; an edit at 99 goes on the copy's version")
  func onlyTheLine() throws {
    let (desk, id) = try held()
    try desk.patch(id, ["properties": ["other": "theirs"]])
    _ = try desk.push()
    for line in ["1", "99"] {
      let text = try desk.machine.lines("A.md").first { $0.hasPrefix("marfa_version") } ?? ""
      try desk.machine.edit("A.md", text, "marfa_version: \(line)")
      let (push, sent) = try desk.push()
      #expect(sent.isEmpty && push.scan.updated == 0)
    }
    let text = try desk.machine.lines("A.md").first { $0.hasPrefix("marfa_version") } ?? ""
    try desk.machine.save(
      "A.md",
      try desk.machine.need("A.md").replacing(text, with: "marfa_version: 99").replacing("Words.", with: "New."))
    let (_, sent) = try desk.push()
    #expect(sent.edits(id).map { $0.body["version"] } == [2])
    #expect(sent.edits(id).first?.body["properties_mode"] == nil)
    #expect(try desk.properties(id)["body"] == "New.\n")
    #expect(try desk.properties(id)["other"] == "theirs")
  }

  @Test("F-S23.11 a file behind with a line taken out merges at its line and the property stays")
  func behindWithLineOut() throws {
    let (desk, id) = try held(JSONObject([("mood", "good")]))
    let old = try desk.machine.need("A.md")
    try desk.patch(id, ["properties": ["other": "theirs"]])
    _ = try desk.push()
    try desk.machine.save("A.md", old.replacing("mood: good\n", with: "").replacing("Words.", with: "Mine."))
    let (_, sent) = try desk.push()
    #expect(sent.edits(id).map { $0.body["version"] } == [1])
    #expect(try desk.properties(id)["mood"] == "good")
    #expect(try desk.machine.lines("A.md").contains("mood: good"))
  }

  @Test("F-S24.1 the line is rewritten only where the file is written anyway or its own edit landed")
  func whenTheLineIsWritten() throws {
    let (desk, id) = try held()
    let before = try desk.machine.need("A.md")
    let identity = try #require(desk.machine.disk.status(desk.machine.at("A.md"))?.identity)
    try desk.patch(id, ["properties": ["references": "no file shows it"]])
    let (one, _) = try desk.push()
    #expect(one.pull?.rewritten == 0)
    #expect(try desk.machine.need("A.md") == before)
    #expect(desk.machine.disk.status(desk.machine.at("A.md"))?.identity == identity)

    // Its own edit waits.
    try desk.machine.edit("A.md", "Words.", "Mine.")
    _ = try desk.machine.scan()
    let typed = try desk.machine.need("A.md")
    #expect(try desk.machine.pull().rewritten == 0)
    #expect(try desk.machine.need("A.md") == typed)
    // It lands.
    let (two, _) = try desk.push()
    #expect(two.pull?.rewritten == 1)
    #expect(try desk.machine.need("A.md") == typed.replacing("marfa_version: 1", with: "marfa_version: 3"))
    // The body changes elsewhere.
    try desk.patch(id, ["properties": ["body": "Theirs.\n"]])
    let (three, _) = try desk.push()
    #expect(three.pull?.rewritten == 1)
    #expect(
      try desk.machine.need("A.md")
        == typed.replacing("marfa_version: 1", with: "marfa_version: 4").replacing("Mine.", with: "Theirs."))
  }

  @Test("F-S24.2 a file a pull wrote while its edit waited gets its line once the edit lands")
  func lineOnceLanded() throws {
    let (desk, id) = try held()
    try desk.machine.edit("A.md", "Words.", "Mine.")
    _ = try desk.machine.scan()
    try desk.patch(id, ["properties": ["other": "theirs"]])
    try catchUpOnly(desk)
    #expect(try desk.machine.pull().rewritten == 1)
    #expect(try desk.machine.lines("A.md").contains("marfa_version: 2"))
    let (push, _) = try desk.push()
    #expect(push.pull?.rewritten == 1)
    #expect(try desk.machine.lines("A.md").contains("marfa_version: 3"))
    try desk.machine.edit("A.md", "Mine.", "Mine again.")
    let (next, sent) = try desk.push()
    #expect(sent.edits(id).map { $0.body["version"] } == [3])
    #expect(next.drain.drain.verdicts.allSatisfy { $0.verdict == .accepted })
    #expect(try desk.properties(id) == ["title": "A", "body": "Mine again.\n", "other": "theirs"])
  }

  @Test("F-S24.3 a file saved without the line has it back once its edit landed")
  func savedWithoutTheLine() throws {
    let (desk, id) = try held()
    try desk.machine.save(
      "A.md",
      try desk.machine.need("A.md").replacing("marfa_version: 1\n", with: "").replacing("Words.", with: "Mine."))
    let (push, sent) = try desk.push()
    #expect(sent.edits(id).count == 1 && push.pull?.rewritten == 1)
    #expect(try desk.properties(id)["body"] == "Mine.\n")
    #expect(try desk.machine.lines("A.md").contains("marfa_version: 2"))
    #expect(try desk.push().sent.isEmpty)
  }
}

/// A refusal as a server writes one.
func refusal(_ status: Int, _ code: String, _ message: String, _ details: JSON = [:]) -> HTTPResponse {
  let body: JSON = ["error": ["code": .string(code), "message": .string(message), "details": details]]
  return HTTPResponse(
    status: status,
    headers: [
      HTTPHeader("Content-Type", "application/json"), HTTPHeader("X-Marfa-Contract", "0"),
      HTTPHeader("X-Error-Code", code),
    ], body: body.write())
}
