import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Whose file a file is (F13 to F18).
struct IdentityTests {
  /// A desk with one note made here from `A.md`, pushed.
  func made(_ settings: JSON = ["title": "Notes", "search": ["types": ["core.note"]]]) throws -> (Desk, EntityID) {
    let desk = try Desk(settings)
    try desk.machine.write("A.md", "Words.\n")
    _ = try desk.push()
    return (desk, try desk.id("A"))
  }

  @Test("F-S13.1 a new file is untouched by a scan and a pull; pushed, its minted id is written back")
  func newFile() throws {
    let desk = try Desk()
    _ = try desk.push()
    try desk.machine.write("A.md", "Words.\n")
    let scan = try desk.machine.scan()
    #expect(scan.created == 1)
    #expect(try desk.machine.pull().rewritten == 0)
    #expect(try desk.machine.need("A.md") == "Words.\n")
    let (_, sent) = try desk.push()
    let create = try #require(sent.creates.first)
    let id = try desk.id("A")
    #expect(create.body.string("id") == id.description)
    #expect(create.body["source"] == nil && create.body["source_id"] == nil && create.body["version"] == nil)
    #expect(try desk.machine.lines("A.md").contains("marfa_id: \(id)"))
    let next = try desk.machine.scan()
    #expect(next.created == 0 && next.updated == 0 && next.unchanged == 1)
  }

  @Test("F-S13.2 a save without the id line as a new inode is one update of the same item, the id back")
  func withoutTheLine() throws {
    let (desk, id) = try made()
    try desk.machine.save("A.md", "Other words.\n")
    let (push, sent) = try desk.push()
    #expect(push.scan.updated == 1 && push.scan.created == 0 && push.scan.missing == 0)
    #expect(sent.edits(id).count == 1 && sent.count == 1)
    #expect(try desk.properties(id)["body"] == "Other words.\n")
    #expect(try desk.machine.lines("A.md").contains("marfa_id: \(id)"))
    #expect(try desk.bench.titles() == ["A"])
  }

  @Test("F-S13.3 a save after the scan and before the pull stays; the next scan finds an update")
  func savedBeforeThePull() throws {
    let desk = try Desk()
    try desk.machine.write("A.md", "Words.\n")
    // The create's answer is on its way while the person saves.
    let machine = desk.machine
    desk.bench.transport.after = { request, response in
      if request.method == "POST", request.url.hasSuffix("/items") { try? machine.save("A.md", "Words and more.\n") }
      return .success(response)
    }
    let (push, _) = try desk.push()
    desk.bench.transport.after = nil
    #expect(push.scan.created == 1)
    #expect(push.pull?.unwritten == 1)
    #expect(try desk.machine.need("A.md") == "Words and more.\n")
    let (next, sent) = try desk.push()
    let id = try desk.id("A")
    #expect(next.scan.updated == 1 && next.scan.created == 0)
    #expect(sent.edits(id).count == 1)
    #expect(try desk.properties(id)["body"] == "Words and more.\n")
    #expect(try desk.machine.lines("A.md").contains("marfa_id: \(id)"))
  }

  @Test("F-S13.4 a file moved by copy and delete is renamed, with no edit, and stays put")
  func copyAndDelete() throws {
    let (desk, id) = try made()
    let text = try desk.machine.need("A.md")
    try desk.machine.write("sub/B.md", text)
    try desk.machine.delete("A.md")
    let (push, sent) = try desk.push()
    #expect(push.scan.renamed == 1 && push.scan.created == 0 && push.scan.missing == 0)
    #expect(sent.count == 1 && sent.first?.method == "PATCH" && sent.first?.target.hasPrefix("/edges/") == true)
    let (second, nothing) = try desk.push()
    #expect(nothing.isEmpty && second.pull?.moved == 0)
    #expect(desk.machine.files() == ["sub/B.md"])
    #expect(try desk.placed(id) == "sub/B.md")
    #expect(try desk.bench.titles() == ["A"])
  }

  @Test("F-S13.5 a rename and a new file at the old name: the moved one keeps its item, the new one is its own")
  func renameAndNew() throws {
    let (desk, id) = try made()
    try desk.machine.rename("A.md", to: "Moved.md")
    try desk.machine.write("A.md", "---\ntitle: Fresh\n---\nFresh words.\n")
    let (push, _) = try desk.push()
    #expect(push.scan.renamed == 1 && push.scan.created == 1)
    #expect(try desk.properties(id)["body"] == "Words.\n")
    #expect(try desk.placed(id) == "Moved.md")
    let fresh = try desk.id("Fresh")
    #expect(fresh != id)
    #expect(try desk.properties(fresh)["body"] == "Fresh words.\n")
    #expect(try desk.placed(fresh) == "A.md")
    #expect(desk.machine.files() == ["A.md", "Moved.md"])
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S13.6 two files swapped and edited without id lines keep their items, and the next scan finds nothing")
  func swapped() throws {
    let desk = try Desk()
    try desk.machine.write("A.md", "---\ntitle: First\n---\nOne.\n")
    try desk.machine.write("B.md", "---\ntitle: Second\n---\nTwo.\n")
    _ = try desk.push()
    let (first, second) = (try desk.id("First"), try desk.id("Second"))
    try desk.machine.rename("A.md", to: "C.md")
    try desk.machine.rename("B.md", to: "A.md")
    try desk.machine.rename("C.md", to: "B.md")
    try desk.machine.write("A.md", "---\ntitle: Second\n---\nTwo again.\n")
    try desk.machine.write("B.md", "---\ntitle: First\n---\nOne again.\n")
    let (push, _) = try desk.push()
    #expect(push.scan.created == 0 && push.scan.missing == 0)
    #expect(try desk.properties(first)["body"] == "One again.\n")
    #expect(try desk.properties(second)["body"] == "Two again.\n")
    let next = try desk.machine.scan()
    #expect(next.created == 0 && next.updated == 0 && next.renamed == 0 && next.missing == 0)
    #expect(try desk.machine.lines("A.md").contains("marfa_id: \(second)"))
    #expect(try desk.machine.lines("B.md").contains("marfa_id: \(first)"))
    #expect(try desk.placed(first) == "B.md" && desk.placed(second) == "A.md")
  }

  @Test("F-S13.7 no write carries marfa_id, of an edit and of a copied file")
  func idNeverSent() throws {
    let (desk, id) = try made()
    try desk.machine.edit("A.md", "Words.", "New.")
    try desk.machine.write("Copy.md", try desk.machine.need("A.md").replacing("New.", with: "Copied."))
    let (_, sent) = try desk.push()
    #expect(sent.edits(id).count == 1 && sent.creates.count == 1)
    for write in sent { #expect(!write.body.compact.contains("marfa_"), "\(write.body.compact)") }
    for title in ["A"] {
      for id in try desk.bench.ids(title) { #expect(try desk.properties(id)["marfa_id"] == nil) }
    }
  }

  @Test("F-S13.8 a save that drops only the id line sends nothing, and the line is back")
  func onlyTheLineDropped() throws {
    let (desk, id) = try made()
    let before = try desk.machine.need("A.md")
    try desk.machine.save("A.md", before.replacing("marfa_id: \(id)\n", with: ""))
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.scan.updated == 0 && push.scan.created == 0)
    #expect(try desk.machine.lines("A.md").contains("marfa_id: \(id)"))
    #expect(try desk.version(id) == 1)
  }

  @Test("F-S13.9 unbound files carrying held ids: the edited one is one edit, the one in step nothing")
  func checkedOut() throws {
    let desk = try Desk()
    let edited = try desk.bench.item("Edited", body: "Old.\n")
    let same = try desk.bench.item("Same", body: "Same.\n")
    try desk.machine.write("Edited.md", "---\ntitle: Edited\nmarfa_id: \(edited)\nmarfa_version: 1\n---\nNew.\n")
    try desk.machine.write("Same.md", "---\ntitle: Same\nmarfa_id: \(same)\nmarfa_version: 1\n---\nSame.\n")
    let (push, sent) = try desk.push()
    #expect(push.scan.created == 0 && push.scan.updated == 1)
    #expect(sent.creates.isEmpty)
    #expect(sent.filter { $0.method == "PATCH" && $0.target.hasPrefix("/items/") }.count == 1)
    #expect(sent.edits(edited).count == 1)
    #expect(try desk.properties(edited)["body"] == "New.\n")
    #expect(try desk.version(same) == 1)
    #expect(desk.machine.files() == ["Edited.md", "Same.md"])
    #expect(try desk.bench.titles() == ["Edited", "Same"])
  }

  @Test("F-S13.10 .MD and .Markdown files moved by copy and delete are followed")
  func otherEndings() throws {
    let desk = try Desk()
    try desk.machine.write("Big.MD", "Big.\n")
    try desk.machine.write("Long.Markdown", "Long.\n")
    _ = try desk.push()
    let (big, long) = (try desk.id("Big"), try desk.id("Long"))
    for (old, new) in [("Big.MD", "x/Big.MD"), ("Long.Markdown", "x/Long.Markdown")] {
      try desk.machine.write(new, try desk.machine.need(old))
      try desk.machine.delete(old)
    }
    let (push, sent) = try desk.push()
    #expect(push.scan.renamed == 2 && push.scan.created == 0)
    #expect(sent.creates.isEmpty)
    #expect(try desk.placed(big) == "x/Big.MD" && desk.placed(long) == "x/Long.Markdown")
  }

  @Test("F-S14.1 a whole new text at a bound path is one update of the same item")
  func wholeNewText() throws {
    let (desk, id) = try made()
    try desk.machine.write("A.md", "---\ntitle: Other\n---\nAll new.\n")
    let (push, sent) = try desk.push()
    #expect(push.scan.updated == 1 && push.scan.created == 0 && push.scan.missing == 0)
    #expect(sent.edits(id).count == 1)
    #expect(try desk.properties(id)["body"] == "All new.\n")
    #expect(try desk.bench.titles() == ["Other"])
  }

  @Test("F-S14.2 the same bytes as a new inode are unchanged, and the rename after is followed")
  func sameBytesNewInode() throws {
    let (desk, id) = try made()
    try desk.machine.save("A.md", try desk.machine.need("A.md"))
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.scan.unchanged == 1 && push.scan.updated == 0)
    try desk.machine.rename("A.md", to: "B.md")
    let (renamed, moved) = try desk.push()
    #expect(renamed.scan.renamed == 1 && renamed.scan.created == 0)
    #expect(moved.count == 1)
    #expect(try desk.placed(id) == "B.md")
    #expect(try desk.bench.titles() == ["A"])
  }

  @Test("F-S15.1 a copy of a file is a new item with its own id, and the original stands")
  func copyOfAFile() throws {
    let (desk, id) = try made()
    let before = try desk.machine.need("A.md")
    try desk.machine.write("Copy.md", before.replacing("Words.", with: "Copied."))
    let (push, sent) = try desk.push()
    #expect(push.scan.created == 1 && push.scan.updated == 0)
    #expect(sent.edits(id).isEmpty)
    #expect(try desk.machine.need("A.md") == before)
    #expect(try desk.properties(id)["body"] == "Words.\n")
    let copy = try #require(try desk.bench.ids("Copy").first ?? desk.bench.ids("A").first { $0 != id })
    #expect(try desk.machine.lines("Copy.md").contains("marfa_id: \(copy)"))
    #expect(try desk.properties(copy)["body"] == "Copied.\n")
    try desk.machine.edit("Copy.md", "Copied.", "Copied and edited.")
    let (_, edits) = try desk.push()
    #expect(edits.edits(copy).count == 1 && edits.count == 1)
    #expect(try desk.properties(id)["body"] == "Words.\n")
  }

  @Test("F-S15.2 of a copy that sorts first and an original saved later the original keeps the id")
  func originalSavedLater() throws {
    let desk = try Desk()
    try desk.machine.write("M.md", "Words.\n")
    _ = try desk.push()
    let id = try desk.id("M")
    let text = try desk.machine.need("M.md")
    try desk.machine.write("A copy.md", text)
    try desk.machine.save("M.md", text.replacing("Words.", with: "Later."))
    _ = try desk.push()
    #expect(try desk.machine.lines("M.md").contains("marfa_id: \(id)"))
    #expect(try desk.properties(id)["body"] == "Later.\n")
    #expect(try !desk.machine.lines("A copy.md").contains("marfa_id: \(id)"))
    #expect(try desk.bench.titles().count == 2)
  }

  @Test(
    "F-S15.3 of two unbound files with a held id the earlier born keeps it; born together, path order",
    arguments: [true, false])
  func earlierBorn(together: Bool) throws {
    let desk = try Desk()
    let id = try desk.bench.item("Held", body: "Held.\n")
    let text = "---\ntitle: Held\nmarfa_id: \(id)\nmarfa_version: 1\n---\n"
    let root = desk.machine.root
    try desk.machine.disk.write(root.appending("Z.md"), text + "Z.\n")
    if !together { desk.bench.clock.advance(seconds: 3) }
    try desk.machine.disk.write(root.appending("B.md"), text + "B.\n")
    desk.bench.clock.advance(seconds: 3)
    let (push, _) = try desk.push()
    #expect(push.scan.created == 1 && push.scan.updated == 1)
    let keeper = together ? "B.md" : "Z.md"
    let other = together ? "Z.md" : "B.md"
    #expect(try desk.machine.lines(keeper).contains("marfa_id: \(id)"))
    #expect(try !desk.machine.lines(other).contains("marfa_id: \(id)"))
    #expect(try desk.properties(id)["body"] == (together ? "B.\n" : "Z.\n"))
    #expect(try desk.bench.titles() == ["Held", "Held"])
  }

  @Test("F-S15.4 an original saved without its line keeps the id over an older copy with it")
  func originalWithoutLine() throws {
    let (desk, id) = try made()
    try desk.machine.write("Copy.md", try desk.machine.need("A.md"))
    try desk.machine.save("A.md", "Saved without a line.\n")
    _ = try desk.push()
    #expect(try desk.properties(id)["body"] == "Saved without a line.\n")
    #expect(try desk.machine.lines("A.md").contains("marfa_id: \(id)"))
    #expect(try !desk.machine.lines("Copy.md").contains("marfa_id: \(id)"))
    #expect(try desk.bench.titles().count == 2)
  }

  @Test("F-S15.5 a copy whose original goes before its line is rewritten is its own item")
  func copyOutlivesOriginal() throws {
    let (desk, id) = try made()
    try desk.machine.write("Copy.md", try desk.machine.need("A.md"))
    #expect(try desk.machine.scan().created == 1)
    try desk.machine.delete("A.md")
    try desk.machine.write("Copy.md", try desk.machine.need("Copy.md").replacing("Words.", with: "The copy's."))
    let (push, sent) = try desk.push()
    #expect(push.scan.missing == 1 && push.scan.created == 0)
    #expect(sent.edits(id).isEmpty)
    #expect(try desk.properties(id)["body"] == "Words.\n")
    let copy = try #require(try desk.bench.ids("A").first { $0 != id } ?? desk.bench.ids("Copy").first)
    _ = try desk.push()
    #expect(try desk.machine.lines("Copy.md").contains("marfa_id: \(copy)"))
    #expect(try desk.properties(copy)["body"] == "The copy's.\n")
  }

  @Test("F-S16.1 an invented id is replaced by a fresh one")
  func inventedID() throws {
    let desk = try Desk()
    let invented = "01900000-0000-7000-8000-00000000abcd"
    try desk.machine.write("A.md", "---\nmarfa_id: \(invented)\nmarfa_version: 3\n---\nWords.\n")
    try desk.machine.write("B.md", "---\nmarfa_id: not an id\n---\nWords.\n")
    let (push, sent) = try desk.push()
    #expect(push.scan.created == 2)
    for title in ["A", "B"] {
      let id = try desk.id(title)
      #expect(id.description != invented)
      #expect(try desk.machine.lines("\(title).md").contains("marfa_id: \(id)"))
      #expect(try desk.machine.lines("\(title).md").contains("marfa_version: 1"))
      #expect(try desk.properties(id).object?.keys.map(\.string).sorted() == ["body", "title"])
    }
    #expect(!sent.contains { $0.body.compact.contains(invented) })
  }

  @Test("F-S16.2 a .txt holding an id line and a document naming a file item are two new items")
  func idsThatDoNotBind() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note", "core.file"]]])
    let held = try desk.bench.item("Held", body: "Held.\n")
    try desk.machine.write("pic.png", "PNG bytes")
    _ = try desk.push()
    let picture = try desk.id("pic.png")
    try desk.machine.write("Text.txt", "---\nmarfa_id: \(held)\nmarfa_version: 1\n---\nMine.\n")
    try desk.machine.write("Doc.md", "---\nmarfa_id: \(picture)\nmarfa_version: 1\n---\nMine.\n")
    let (push, sent) = try desk.push()
    #expect(push.scan.created == 2 && push.scan.updated == 0)
    #expect(sent.edits(held).isEmpty && sent.edits(picture).isEmpty)
    #expect(try desk.version(held) == 1 && desk.version(picture) == 1)
    #expect(try desk.properties(desk.id("Text"))["body"]?.text?.string.contains("marfa_id: \(held)") == true)
    #expect(try desk.machine.lines("Doc.md").contains("marfa_id: \(try desk.id("Doc"))"))
  }

  @Test("F-S16.3 a file naming the folder's own row is a new item, and the row is not written")
  func folderRow() throws {
    let desk = try Desk()
    try desk.machine.write("A.md", "---\ntitle: Mine\nmarfa_id: \(desk.folder)\nmarfa_version: 1\n---\nWords.\n")
    let (push, sent) = try desk.push()
    #expect(push.scan.created == 1)
    #expect(!sent.contains { $0.method == "PATCH" && $0.target.contains(desk.folder.description) })
    #expect(try desk.version(desk.folder) == 1)
    #expect(try desk.properties(desk.folder)["title"] == "Notes")
    #expect(try desk.machine.lines("A.md").contains("marfa_id: \(try desk.id("Mine"))"))
  }

  // MARK: F17, F18

  @Test("F-S17.1 a renamed .txt is followed, with no second create, and its bytes untouched")
  func renamedText() throws {
    let desk = try Desk()
    try desk.machine.write("a.txt", "Plain.\n")
    _ = try desk.push()
    let id = try desk.id("a")
    try desk.machine.rename("a.txt", to: "b.txt")
    let (push, sent) = try desk.push()
    #expect(push.scan.renamed == 1 && push.scan.created == 0 && push.scan.missing == 0)
    #expect(sent.count == 1 && sent.first?.target.hasPrefix("/edges/") == true)
    #expect(try desk.machine.need("b.txt") == "Plain.\n")
    #expect(try desk.placed(id) == "b.txt")
    desk.machine.grace()
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S17.5 the same bytes saved as a new inode are followed when renamed after")
  func textNewInode() throws {
    let desk = try Desk()
    try desk.machine.write("a.txt", "Plain.\n")
    _ = try desk.push()
    try desk.machine.save("a.txt", "Plain.\n")
    #expect(try desk.push().sent.isEmpty)
    try desk.machine.rename("a.txt", to: "b.txt")
    let (push, _) = try desk.push()
    #expect(push.scan.renamed == 1 && push.scan.created == 0)
    #expect(try desk.bench.titles() == ["a"])
  }

  @Test("F-S17.6 a .txt opening with a fence, and one in upper case, are all body")
  func textIsBody() throws {
    let desk = try Desk()
    let fenced = "---\ntitle: Not mine\ntags: [x]\n---\nBody.\n"
    try desk.machine.write("fenced.txt", fenced)
    try desk.machine.write("LOUD.TXT", fenced)
    let (push, _) = try desk.push()
    #expect(push.scan.created == 2)
    for title in ["fenced", "LOUD"] {
      let id = try desk.id(title)
      #expect(try desk.item(id).string("type") == "core.note")
      #expect(try desk.properties(id) == ["title": .string(title), "body": .string(fenced)])
      #expect(try desk.tags(id).isEmpty)
    }
    #expect(try desk.machine.need("fenced.txt") == fenced && desk.machine.need("LOUD.TXT") == fenced)
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S17.10 different bytes at a placement, text or binary, are a new item")
  func differentBytesAtPlacement() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note", "core.file"]]])
    let ben = try desk.another()
    try ben.write("note.txt", "Ben's.\n")
    try ben.write("pic.png", "Ben's bytes")
    _ = try desk.push(ben)
    try desk.machine.write("note.txt", "Ana's.\n")
    try desk.machine.write("pic.png", "Ana's bytes")
    let (push, _) = try desk.push()
    #expect(push.scan.created == 2)
    #expect(try desk.bench.ids("note").count == 2)
    #expect(try desk.bench.ids("pic.png").count == 2)
    _ = try desk.push()
    _ = try desk.push()
    let texts = desk.machine.files().compactMap { desk.machine.text($0) }.sorted()
    #expect(texts == ["Ana's bytes", "Ana's.\n", "Ben's bytes", "Ben's.\n"])
  }

  @Test("F18.1 in part: the same file present at start and arriving later makes equal creates but for the id")
  func equalCreates() throws {
    func create(late: Bool) throws -> JSON {
      let bench = try FolderBench()
      let folder = try bench.folder([
        "title": "Notes", "search": ["types": ["core.note"]], "defaults": ["tags": ["in"]],
      ])
      let machine = bench.machine()
      let text = "---\nstatus: draft\nlist: [1, 2]\n---\nWords.\n"
      if !late { try machine.write("A.md", text) }
      try machine.add(folder)
      if late {
        _ = try machine.push()
        try machine.write("A.md", text)
      }
      bench.transport.clear()
      _ = try machine.push()
      let body = bench.transport.sent.compactMap { request -> JSON? in
        guard request.method == "POST", request.url.hasSuffix("/items"), case .bytes(let bytes) = request.body else {
          return nil
        }
        return try? JSON(parsing: bytes)
      }
      #expect(body.count == 1)
      var object = body.first?.object ?? JSONObject()
      #expect(object["id"] != nil)
      object["id"] = nil
      return .object(object)
    }
    let (early, late) = (try create(late: false), try create(late: true))
    #expect(early == late)
    #expect(early["properties"]?["status"] == "draft")
  }
}
