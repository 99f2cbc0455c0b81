import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// What the simulation found: machines at one note or one picture, volumes that are gone, and answers that stay out.
struct SimulatedTests {
  @Test("A push whose filling breaks off before its scan says what broke it off, and the next one fills and scans")
  func fillingBreaksOff() throws {
    let desk = try Desk { try $0.item("Alpha", body: "Words.\n") }
    _ = try desk.push()
    // What is at a name the copy has not heard of: brought from another machine with its lines.
    let beta = try desk.bench.item("Beta", body: "Others.\n")
    try desk.bench.database.run("DELETE FROM event WHERE id < (SELECT max(id) FROM event)")
    try desk.machine.write(
      "Beta.md", "---\ntype: core.note\ntitle: Beta\nmarfa_id: \(beta)\nmarfa_version: 1\n---\nOthers.\n")
    desk.bench.transport.before = { request in
      request.method == "GET" && request.url.contains("/items?") ? .failure(.unreachable("the line went")) : nil
    }
    let said = #expect(throws: MarfaError.self) { try desk.machine.push() }
    #expect(said?.isEnvironmental == true, "\(said.map { "\($0)" } ?? "")")
    desk.bench.transport.before = nil
    _ = try desk.push()
    #expect(try desk.bench.titles() == ["Alpha", "Beta"])
    #expect(try desk.machine.body("Beta.md") == "Others.\n")
  }

  /// Pushes of the machines in turn until none of them sends anything; how many rounds sent.
  private func settle(_ desk: Desk, _ machines: [FolderMachine]) throws -> Int {
    for round in 0..<12 {
      var sent = 0
      for machine in machines { sent += try desk.push(machine).sent.count }
      if sent == 0 { return round }
    }
    return 12
  }

  @Test("F12.33, F12.35 two pictures of one name that one note may mean: machines that have either there settle")
  func twoOfOneName() throws {
    let desk = try Desk()
    let ben = try desk.another()
    // Ana's picture, shown at one path by N and at another by M; Ben's of the same name, of which N has an edge too.
    try desk.machine.write("Diary/pic.png", "ana")
    try desk.machine.write("N.md", "![](</Diary/pic.png>)\n")
    try desk.machine.write("M.md", "Words.\n")
    _ = try desk.push()
    let ana = try desk.id("pic.png")
    try ben.write("Diary/pic.png", "ben")
    try ben.write("Q.md", "![](</Diary/pic.png>)\n")
    #expect(try settle(desk, [ben, desk.machine]) < 12)
    let bens = try #require(try desk.bench.ids("pic.png").first { $0 != ana })
    try desk.edge(bens, "attached-to", desk.id("N"))
    try desk.edge(ana, "attached-to", desk.id("M"))
    try desk.patch(desk.id("M"), ["properties": ["body": "![](</pic.png>)\n"]])
    #expect(try settle(desk, [desk.machine, ben]) < 12)
    // Elsewhere each is moved to where the other machine's reading has it.
    try desk.move(ana, to: "pic.png")
    try desk.move(bens, to: "Diary/pic.png")
    #expect(try settle(desk, [ben, desk.machine]) < 12)
    for machine in [desk.machine, ben] {
      #expect(machine.text("Diary/pic.png") == "ben" && machine.text("pic.png") == "ana", "\(machine.files())")
    }
  }

  @Test("F19.17, F35.7 a picture left over on one machine takes no name from one that is shown, and machines settle")
  func leftOver() throws {
    let desk = try Desk()
    try desk.machine.write("Diary/pic.png", "old")
    try desk.machine.write("N.md", "![[pic.png]]\n")
    _ = try desk.push()
    let old = try desk.id("pic.png")
    try desk.trash(desk.id("N"))
    _ = try desk.push()
    #expect(desk.machine.text("Diary/pic.png") == "old")
    // Ben never had it.
    let ben = try desk.another()
    try ben.write("Diary/pic.png", "new")
    try ben.write("O.md", "![[pic.png]]\n")
    #expect(try settle(desk, [ben, desk.machine]) < 12)
    for machine in [desk.machine, ben] { #expect(machine.text("Diary/pic.png") == "new") }
    #expect(desk.machine.text("Diary/pic (2).png") == "old")
    #expect(try desk.state(old) == "active")
  }

  @Test("P2.1 a note placed on a volume that is gone is written once it is back, and told until then")
  func goneVolume() throws {
    let desk = try Desk()
    let ben = try desk.another()
    let place = desk.machine.root.appending("Diary")
    try desk.machine.disk.makeDirectory(place)
    try desk.machine.disk.mount(place)
    try desk.machine.write("Diary/Day.md", "Words.\n")
    _ = try desk.push()
    _ = try ben.push()
    let volume = try desk.machine.disk.unmount(place)
    try ben.write("Diary/Night.md", "Others.\n")
    try ben.write("Other.md", "More.\n")
    _ = try ben.push()
    for _ in 0..<2 {
      let push = try desk.push().report
      #expect(desk.machine.disk.tree(place).isEmpty && desk.machine.text("Other.md") != nil)
      #expect(
        push.pull?.flagged.contains { $0.path == "Diary/Night.md" && $0.flag == "unmounted" } == true,
        "\(push.json.compact)")
      desk.bench.clock.advance(seconds: 7)
    }
    try desk.machine.disk.mount(place, volume: volume)
    _ = try desk.push()
    #expect(try desk.machine.body("Diary/Night.md") == "Others.\n")
    #expect(try desk.machine.body("Diary/Day.md") == "Words.\n")
    #expect(Set(try desk.bench.titles()) == ["Day", "Night", "Other"])
  }

  @Test("F11.19, F12.3 a file kept of a note in the bin answers to no name: a link names the other note alone")
  func keptOfTheBin() throws {
    let desk = try Desk()
    try desk.machine.write("Plan.md", "Old.\n")
    try desk.machine.write("Only.md", "Alone.\n")
    try desk.machine.write("Sub/Plan.md", "New.\n")
    _ = try desk.push()
    let ids = try desk.bench.ids("Plan")
    let old = try #require(ids.first { try desk.placed($0) == "Plan.md" })
    let new = try #require(ids.first { $0 != old })
    let only = try desk.id("Only")
    for id in [old, only] { try desk.trash(id) }
    try desk.machine.edit("Plan.md", "Old.", "Old. More.")
    try desk.machine.edit("Only.md", "Alone.", "Alone. More.")
    _ = try desk.push()
    #expect(desk.machine.text("Plan.md")?.contains("More.") == true)
    try desk.machine.write("N.md", "[[Plan]] and [[Plan.md]]\n")
    try desk.machine.write("M.md", "---\nabout:\n  - \"[[Only]]\"\n---\nWords.\n")
    let push = try desk.push().report
    #expect(try desk.edges(desk.id("N"), type: "references").count == 1, "\(push.json.compact)")
    #expect(try desk.edges(desk.id("N"), type: "references").first?["target_id"]?.text == new.text)
    let reason = push.scan.flagged.reason("M.md", "edges") ?? ""
    #expect(reason.hasSuffix("[[Only]] matches no item"), "\(reason)")
    #expect(!push.scan.flagged.flags("N.md").contains("edges"))
  }

  @Test("F12.35, F11.21 a note held where it was sends the picture it shows to no place of its own: machines settle")
  func heldNoteShows() throws {
    let desk = try Desk()
    let ben = try desk.another()
    try desk.machine.write("img/pic.png", "one")
    try desk.machine.write("N.md", "![](img/pic.png)\n")
    #expect(try settle(desk, [desk.machine, ben]) < 12)
    let text = try ben.need("N.md")
    try ben.write("N.md", text.replacing("title: N\n", with: "title: N\nabout: \"[[Nobody]]\"\n"))
    #expect(try settle(desk, [ben, desk.machine]) < 12)
    try desk.move(desk.id("N"), to: "Sub/N.md")
    #expect(try settle(desk, [desk.machine, ben]) < 12)
    #expect(ben.text("N.md")?.contains("[[Nobody]]") == true && desk.machine.text("Sub/N.md") != nil)
    for machine in [desk.machine, ben] { #expect(machine.text("Sub/img/pic.png") == "one", "\(machine.files())") }
    #expect(try desk.placed(desk.id("pic.png")) == "Sub/img/pic.png")
    #expect(try desk.push(ben).report.pull?.embeds.allSatisfy { $0.path == "N.md" } == true)
  }

  @Test("F31.2, F12.24 two machines that each find a picture of their own for one embed take no edge of the other away")
  func eachItsOwn() throws {
    let desk = try Desk()
    let ben = try desk.another()
    try desk.machine.write("Diary/N.md", "![[pic.png]]\n")
    try desk.machine.write("Diary/pic.png", "one")
    #expect(try settle(desk, [desk.machine, ben]) < 12)
    let (note, one) = (try desk.id("N"), try desk.id("pic.png"))
    // Elsewhere a second one of that name is attached; here the first is found.
    try ben.write("Far/pic.png", "two")
    try ben.write("Far/M.md", "![[pic.png]]\n")
    #expect(try settle(desk, [ben, desk.machine]) < 12)
    let two = try #require(try desk.bench.ids("pic.png").first { $0 != one })
    try desk.edge(two, "attached-to", note)
    #expect(try settle(desk, [desk.machine, ben]) < 12)
    // Each reads the note again.
    for machine in [desk.machine, ben] {
      try machine.edit("Diary/N.md", "![[pic.png]]", "More.\n![[pic.png]]")
      #expect(try settle(desk, [machine, desk.machine, ben]) < 12)
    }
    for picture in [one, two] {
      let targets = try desk.edges(picture, type: "attached-to").map { $0["target_id"]?.text }
      #expect(targets.contains(note.text), "\(picture) \(targets)")
    }
  }
}
