import FolderSync
import Glibc
import MarfaBase
import MarfaCopy
import Synchronization
import TestSupport
import Testing

@testable import marfa_folders

/// What version control, power cuts and other sync programs do to a folder (P2.2, P2.3, P3.1, P8.1).
struct RealMachineScenarios {
  @Test(
    "P-S9 a checkout of a branch without four notes, a minute, and back: none is doubled, none is trashed at the end")
  func checkout() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write(".git/HEAD", "ref: refs/heads/main\n")
    var texts: [String: [UInt8]] = [:]
    for name in ["a.md", "b.md", "c.md", "plain.txt"] { try folder.write(name, "Note \(name).\n") }
    bench.clock.advance(seconds: 90)
    try folder.push()
    try folder.push()
    let before = try bench.titles()
    let items = try ["a", "b", "c", "plain"].map { try bench.id($0) }
    for path in folder.files() where !path.hasPrefix(".git") { texts[path] = folder.bytes(path) }
    for path in texts.keys { try folder.delete(path) }
    try folder.write(".git/HEAD", "ref: refs/heads/other\n")
    bench.transport.clear()
    try folder.push()
    folder.grace()
    let waits = try folder.push()
    #expect(waits.scan.missing == 4 && waits.scan.deleted == 0)
    #expect(bench.writes.isEmpty)
    bench.clock.advance(seconds: 61)
    try folder.push()
    folder.grace()
    #expect(try folder.push().scan.deleted == 4)
    for item in items { #expect(try bench.isTrashed(item)) }
    for (path, bytes) in texts { try folder.write(path, bytes: bytes) }
    try folder.write(".git/HEAD", "ref: refs/heads/main\n")
    bench.transport.clear()
    let back = try folder.push()
    #expect(back.scan.created == 0)
    #expect(bench.writes.filter { $0.hasSuffix("/restore") }.count == 4)
    try folder.push()
    #expect(try bench.titles() == before)
    for item in items { #expect(try !bench.isTrashed(item) && folder.isBound(item)) }
    #expect(try folder.placement(of: items[3]) == "plain.txt")
    #expect(try bench.body(items[3]) == "Note plain.txt.\n")
    #expect(try folder.push().drain.drain.answered == 0)
  }

  @Test("P2.3 a file put back changed restores its item, and its edit follows")
  func putBackChanged() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md", "A.\n")
    try folder.push()
    let item = try bench.id("a")
    let text = try #require(folder.text("a.md"))
    try folder.delete("a.md")
    try folder.push()
    folder.grace()
    try folder.push()
    #expect(try bench.isTrashed(item) && bench.placements(of: item).isEmpty)
    try folder.write("deep/a.md", text + "More.\n")
    try folder.push()
    #expect(try bench.ids("a") == [item])
    #expect(try bench.body(item) == "A.\nMore.\n")
    #expect(try folder.placement(of: item) == "deep/a.md")
  }

  @Test("P2.3 F16.1 a file put back whose item another device purged meanwhile becomes a new item with its words")
  func putBackPurged() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md", "A.\n")
    try folder.write("b.md", "B.\n")
    try folder.write("plain.txt", "Plain.\n")
    try folder.push()
    try folder.push()
    let items = try ["a", "b", "plain"].map { try bench.id($0) }
    let (a, b) = (try #require(folder.bytes("a.md")), try #require(folder.text("b.md")))
    for path in ["a.md", "b.md", "plain.txt"] { try folder.delete(path) }
    try folder.push()
    folder.grace()
    try folder.push()
    for item in items {
      #expect(try bench.isTrashed(item))
      try bench.ask("POST", "/items/\(item)/purge")
    }
    try folder.write("a.md", bytes: a)
    try folder.write("b.md", b + "More.\n")
    try folder.write("plain.txt", "Plain.\n")
    // The purge is not heard of yet: a restore is asked for, and refused.
    try folder.push()
    let sent = try folder.push()
    #expect(sent.scan.created == 3 && sent.scan.lost == 0, "\(sent.json.compact)")
    #expect(try bench.titles() == ["a", "b", "plain"])
    for (title, words) in [("a", "A.\n"), ("b", "B.\nMore.\n"), ("plain", "Plain.\n")] {
      let new = try bench.id(title)
      #expect(try bench.body(new) == words && !items.contains(new) && folder.isBound(new))
    }
    #expect(folder.files() == ["a.md", "b.md", "plain.txt"])
    #expect(try folder.push().drain.drain.answered == 0)
  }

  @Test("C16.7 an embed that names nothing is in both reports and is said once in words")
  func embedSaidOnce() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    let typed = ["![](missing.png)", "![[gone names.png]]", "![](<../out.png>)"]
    try folder.write("n.md", typed.joined(separator: "\n") + "\n")
    for _ in 0..<2 {
      let push = try folder.push()
      #expect(push.scan.embeds.count == 3 && push.pull?.embeds.count == 3)
      let said = words(push)
      for embed in typed { #expect(said.count { $0.contains(embed) } == 1, "\(said)") }
    }
    // A pull alone says what it found.
    let pulled = PullWords(pull: Report(try folder.pull().json)).lines
    for embed in typed { #expect(pulled.count { $0.contains(embed) } == 1) }
  }

  @Test("F84.1 F38.3 a purged item's file that stays because it is its person's is told lost, with the way to send it")
  func purgedKept() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md", "A.\n")
    try folder.push()
    try folder.append("a.md", "My words.\n")
    try folder.scan()
    try bench.purge(try bench.id("a"))
    // The edit was queued before the purge was heard of, and is refused.
    let kept = try folder.push()
    #expect(kept.pull?.kept == 1 && kept.pull?.removed == 0, "\(kept.json.compact)")
    let told = try folder.push()
    #expect(told.scan.lost == 1 && told.scan.unchanged == 0)
    let reason =
      "its item was purged; the file stays as it is, and once it is changed or renamed it is sent as a new item"
    #expect(words(told).contains { $0.contains("a.md") && $0.contains(reason) }, "\(words(told))")
    let status = try #require(try folder.status(of: "a.md"))
    #expect(status.state == .held && status.flag == "lost" && status.reason == reason)
    try folder.append("a.md", "And more.\n")
    #expect(try folder.push().scan.requeued == 1)
    #expect(try bench.body(try bench.id("a")) == "A.\nMy words.\nAnd more.\n")
  }

  @Test("P-S11 notes emptied by a power cut wait, and are written back; one emptied by hand is sent after the grace")
  func emptied() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, RemovalScenarios.settings(2, try RemovalScenarios.fraction("0.25")))
    for number in 1...6 { try folder.write("n\(number).md", "Note \(number).\n") }
    try folder.push()
    let items = try (1...6).map { try bench.id("n\($0)") }
    let texts = (1...3).map { folder.text("n\($0).md") }
    try folder.write("n1.md", "")
    try folder.write("n2.md", "")
    try folder.write("n3.md", bytes: [0, 0, 0, 0])
    bench.transport.clear()
    let push = try folder.push()
    #expect(push.scan.missing == 3 && push.scan.paused == 3 && push.scan.updated == 0)
    #expect(push.scan.flagged.map(\.flag) == ["emptied", "emptied", "emptied"])
    folder.grace()
    #expect(try folder.push().scan.paused == 3)
    #expect(bench.writes.isEmpty)
    let status = try #require(try folder.status(of: "n1.md"))
    #expect(status.state == .held && status.flag == "emptied")
    let restored = try folder.restore()
    #expect(restored.putBack == 3)
    #expect((1...3).map { folder.text("n\($0).md") } == texts)
    folder.grace()
    let after = try folder.push()
    #expect(after.scan.missing == 0 && after.scan.flagged.isEmpty)
    for (number, item) in items.enumerated() { #expect(try bench.body(item) == "Note \(number + 1).\n") }

    try folder.write("n6.md", "")
    let first = try folder.push()
    #expect(first.scan.missing == 1 && first.scan.paused == 0 && first.scan.flagged.map(\.flag) == ["emptied"])
    #expect(try bench.body(items[5]) == "Note 6.\n")
    folder.grace()
    let sent = try folder.push()
    #expect(sent.scan.updated == 1 && sent.scan.missing == 0 && sent.scan.flagged.isEmpty)
    #expect(try bench.body(items[5]) == "")
    #expect(try bench.titles().count == 6)
  }

  @Test(
    "P3.1 F21.4 a note found empty that another device changes inside the grace is written back, and nothing is sent")
  func emptiedAndChangedElsewhere() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md", "Words.\n")
    try folder.push()
    let item = try bench.id("a")
    for blank: [UInt8] in [[], [0, 0, 0]] {
      try folder.write("a.md", bytes: blank)
      #expect(try folder.push().scan.flagged.map(\.flag) == ["emptied"])
      let words = "Theirs \(blank.count).\n"
      try bench.edit(item, ["body": .string(Text(words))])
      bench.transport.clear()
      let push = try folder.push()
      #expect(push.pull?.revived == 1 && push.pull?.rewritten == 0)
      #expect(folder.text("a.md")?.hasSuffix(words) == true)
      folder.grace()
      let after = try folder.push()
      #expect(after.scan.flagged.isEmpty && after.scan.missing == 0 && after.scan.updated == 0)
      #expect(bench.writes.isEmpty)
      #expect(try bench.body(item) == words)
    }
  }

  @Test(
    "P3.1 P5.2 an emptied note that cannot be written back for want of room stays, and nothing of it is deleted or sent"
  )
  func emptiedOnAFullDisk() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md", "Words.\n")
    try folder.push()
    let item = try bench.id("a")
    try folder.write("a.md", "")
    try folder.push()
    try bench.edit(item, ["body": "Theirs.\n"])
    bench.transport.clear()
    folder.machine.faults = Faults { $0.operation == .write ? .fail(ENOSPC) : .proceed }
    _ = try? folder.push()
    folder.machine.faults = nil
    #expect(folder.text("a.md") == "")
    #expect(try folder.push().pull?.revived == 1)
    #expect(folder.text("a.md")?.hasSuffix("Theirs.\n") == true)
    folder.grace()
    try folder.push()
    #expect(bench.writes.isEmpty)
    #expect(try bench.body(item) == "Theirs.\n")
  }

  @Test("C11.1 P5.2 files that restore could not write back wait on, however few, and come back with room")
  func restoreOnAFullDisk() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, RemovalScenarios.settings(2, try RemovalScenarios.fraction("0.25")))
    for number in 1...6 { try folder.write("n\(number).md", "Note \(number).\n") }
    try folder.push()
    for number in 1...3 { try folder.disk.delete(folder.path("n\(number).md")) }
    #expect(try folder.push().scan.paused == 3)
    // Room for all but one of them.
    folder.machine.faults = Faults { call in
      call.operation == .rename && call.name.name == "n3.md" ? .fail(ENOSPC) : .proceed
    }
    let short = try folder.restore()
    folder.machine.faults = nil
    #expect(short.putBack == 2)
    bench.transport.clear()
    folder.grace()
    #expect(try folder.push().scan.paused == 1)
    folder.grace()
    try folder.push()
    #expect(bench.writes.isEmpty, "\(bench.writes)")
    #expect(try folder.restore().putBack == 1)
    #expect(folder.text("n3.md")?.hasSuffix("Note 3.\n") == true)
    folder.grace()
    let after = try folder.push()
    #expect(after.scan.paused == 0 && after.scan.missing == 0 && after.scan.flagged.isEmpty)
    #expect(try bench.titles().count == 6)
  }

  @Test("P3.3 an older text put back loses to the newer one, and is told")
  func reverted() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md", "First.\n")
    try folder.push()
    let item = try bench.id("a")
    let old = try #require(folder.text("a.md"))
    try bench.edit(item, ["body": "Second.\n"])
    try folder.push()
    let new = try #require(folder.text("a.md"))
    try folder.write("a.md", old)
    let push = try folder.push()
    #expect(push.scan.flagged.map(\.flag) == ["reverted"] && push.scan.flagged[0].reason.contains("history"))
    #expect(push.scan.updated == 0 && push.pull?.rewritten == 1)
    #expect(folder.text("a.md") == new)
    #expect(try bench.body(item) == "Second.\n")
    #expect(try folder.push().scan.flagged.isEmpty)
  }

  @Test(
    "P-S13, P3.3 an older text of one's own put back loses to the newer one, with the time it had or a new one")
  func ownReverted() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md", "First.\n")
    try folder.write("b.md", "First of b.\n")
    for _ in 0..<2 { try folder.push() }
    let (a, b) = (try bench.id("a"), try bench.id("b"))
    // Yesterday's copy keeps its time.
    let backup: PathBytes = "/home/ana/backup.md"
    let old = try #require(folder.text("a.md"))
    let oldB = try #require(folder.text("b.md"))
    try folder.disk.write(backup, old)
    try folder.write("a.md", old.replacing("First.", with: "Second, mine."))
    try folder.write("b.md", oldB.replacing("First of b.", with: "Second of b."))
    for _ in 0..<2 { try folder.push() }
    let new = try #require(folder.text("a.md"))
    let newB = try #require(folder.text("b.md"))
    bench.transport.clear()
    try folder.disk.rename(backup, to: folder.path("a.md"))
    let push = try folder.push()
    #expect(push.scan.flagged.map(\.flag) == ["reverted"] && push.scan.updated == 0, "\(push.json.compact)")
    #expect(folder.text("a.md") == new && push.pull?.rewritten == 1)
    #expect(try bench.body(a) == "Second, mine.\n")
    #expect(bench.writes.isEmpty)
    // One copied back with the time of now too: its line tells it from an edit.
    try folder.write("b.md", oldB)
    let again = try folder.push()
    #expect(again.scan.updated == 0 && again.scan.flagged.map(\.flag) == ["reverted"], "\(again.json.compact)")
    #expect(try bench.body(b) == "Second of b.\n" && folder.text("b.md") == newB)
    #expect(try folder.push().scan.flagged.isEmpty)
  }

  @Test(
    "P-S12, P3.2 yesterday's files beside today's store: older texts wait with what is missing, and no word is lost")
  func filesOfYesterday() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    for name in ["a", "b", "c"] { try folder.write("\(name).md", "First of \(name).\n") }
    for _ in 0..<2 { try folder.push() }
    for name in ["a", "b"] {
      try folder.disk.write(PathBytes("/home/ana/\(name).md"), try #require(folder.text("\(name).md")))
      try folder.append("\(name).md", "Second of \(name).\n")
    }
    try folder.write("new.md", "Of today.\n")
    for _ in 0..<2 { try folder.push() }
    // The backup knows neither today's words nor today's note.
    for name in ["a", "b"] { try folder.disk.rename(PathBytes("/home/ana/\(name).md"), to: folder.path("\(name).md")) }
    try folder.delete("new.md")
    for _ in 0..<3 {
      try folder.push()
      folder.grace()
    }
    #expect(try bench.titles() == ["a", "b", "c", "new"])
    for name in ["a", "b"] {
      #expect(try bench.body(try bench.id(name)) == "First of \(name).\nSecond of \(name).\n")
    }
    #expect(try folder.push().scan.paused > 0)
    _ = try folder.restore()
    for _ in 0..<2 { try folder.push() }
    #expect(folder.files() == ["a.md", "b.md", "c.md", "new.md"])
    #expect(folder.text("a.md")?.hasSuffix("First of a.\nSecond of a.\n") == true)
  }

  @Test("F17.1 a text file's byte-order mark is part of its body, on every machine, and nothing is sent twice")
  func byteOrderMark() throws {
    let bench = try FolderBench()
    let one = try KeptFolder(bench)
    let two = try KeptFolder(bench, following: one.id, machine: bench.machine("ben"))
    let bytes = [0xEF, 0xBB, 0xBF] + Array("---\r\nWords.\r\n".utf8)
    try one.write("a.txt", bytes: bytes)
    for _ in 0..<2 { try one.push() }
    #expect(one.bytes("a.txt") == bytes)
    #expect(try bench.body(try bench.id("a")) == "\u{FEFF}---\r\nWords.\r\n")
    for _ in 0..<2 { try two.push() }
    #expect(two.bytes("a.txt") == bytes)
    try two.write("a.txt", bytes: bytes + Array("More.\r\n".utf8))
    for _ in 0..<2 { try two.push() }
    try one.push()
    #expect(one.bytes("a.txt") == bytes + Array("More.\r\n".utf8))
    for folder in [one, two] {
      bench.transport.clear()
      try folder.push()
      #expect(bench.writes.isEmpty)
    }
  }

  @Test("P7.8 names a Windows or FAT disk cannot hold land under ones it can, and settle there on every machine")
  func windowsNames() throws {
    let bench = try FolderBench()
    let titles = ["What?", "a:b", "Dots...", "x<y>|z*\"", "Plain"]
    for title in titles { try bench.item(Text(title), body: Text("Words of \(title).\n")) }
    let machine = bench.machine()
    machine.traits.takesWindowsNames = true
    let folder = try KeptFolder(bench, machine: machine)
    let placed = try bench.item("Placed", body: "Placed.\n")
    try bench.place(placed, in: folder.id, at: "dir?/say: hi.md")
    for _ in 0..<2 { try folder.push() }
    let names = ["Dots....md", "Plain.md", "What-.md", "a-b.md", "dir-/say- hi.md", "x-y--z--.md"]
    #expect(folder.files() == names, "\(folder.files())")
    #expect(try bench.placements(of: placed).map(\.path) == ["dir-/say- hi.md"])
    bench.transport.clear()
    try folder.push()
    #expect(bench.writes.isEmpty)
    let other = try KeptFolder(bench, following: folder.id, machine: bench.machine("ben"))
    for _ in 0..<2 { try other.push() }
    #expect(other.files() == names)
    #expect(DocumentNames.windows("a. /b..") == "a/b" && DocumentNames.windows("..?") == "..-")
    #expect(Mount(id: 1, point: "/media/usb", type: "exfat", options: "").takesWindowsNames)
    #expect(!Mount(id: 1, point: "/", type: "ext4", options: "").takesWindowsNames)
  }

  @Test("P4.2 a rebuild cut off at any step never leaves a store without its log, and the next one goes on")
  func rebuildCutOff() throws {
    for step in 0..<10 {
      let bench = try FolderBench()
      let folder = try KeptFolder(bench)
      try folder.write("a.md", "Words.\n")
      try folder.push()
      let log: PathBytes = folder.path(".marfa/core.sqlite-wal")
      try folder.disk.write(log, "a log")
      let left = Mutex(step)
      let faults = Faults { call in
        guard [.rename, .link, .unlink].contains(call.operation),
          call.name.bytes.starts(with: "core.sqlite".utf8)
        else { return .proceed }
        return left.withLock { left in
          left -= 1
          return left < 0 ? .crash : .proceed
        }
      }
      folder.machine.faults = faults
      let rebuilt = try? folder.folders.rebuild(folder.root)
      #expect((rebuilt == nil) == faults.crashed)
      let hasStore = folder.disk.status(folder.path(".marfa/core.sqlite")) != nil
      let hasLog = folder.disk.text(log) == "a log"
      if faults.crashed { #expect(!hasStore || hasLog, "cut off at step \(step)") }
      folder.machine.restart()
      bench.clock.advance(seconds: 2)
      if faults.crashed { _ = try folder.folders.rebuild(folder.root, following: folder.id) }
      _ = try folder.confirm()
      for _ in 0..<2 { try folder.push() }
      #expect(try bench.titles() == ["a"] && folder.files() == ["a.md"])
      let kept = folder.disk.tree(folder.path(".marfa/rescued")).filter { $0.path.name == "core.sqlite-wal" }
      #expect(!kept.isEmpty, "step \(step): the log is kept")
    }
  }

  @Test("P8.1, P3.2 a restored store asks for the ids its files name together, and reads those that are there")
  func idsTogether() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, KeptFolder.notes)
    try folder.push()
    // An item the copy does not hold, and ids of nothing.
    let outside = try bench.item("Outside", body: "Outside.\n", type: "core.bookmark")
    let ids = SeededIds(clock: bench.clock, seed: 99)
    for number in 1...30 { try folder.write("n\(number).md", "---\nmarfa_id: \(ids.next())\n---\nNote \(number).\n") }
    try folder.write("outside.md", "---\nmarfa_id: \(outside)\n---\nOutside.\n")
    try folder.folders.working(folder.root, "test") { try $0.store.set(.suspect, "restored") }
    bench.transport.clear()
    let push = try folder.push()
    #expect(push.scan.created == 30, "\(push.json.compact)")
    #expect(bench.transport.requests.filter { $0.hasPrefix("POST /items/bulk-get") }.count >= 1)
    let read = bench.transport.requests.prefix { !$0.hasPrefix("POST /items ") && $0 != "POST /items" }
    #expect(read.filter { $0.hasPrefix("GET /items/0") }.count <= 3, "\(read)")
    #expect(try bench.ids("Outside").count == 1)
  }

  @Test("P-S27 two machines whose directories a third program mirrors settle in three passes")
  func mirrored() throws {
    let bench = try FolderBench()
    let one = try KeptFolder(bench)
    let two = try KeptFolder(bench, following: one.id, machine: bench.machine("ben"))
    func mirror(from: KeptFolder, to: KeptFolder) throws {
      for path in from.files() where to.bytes(path) != from.bytes(path) {
        try to.write(path, bytes: try #require(from.bytes(path)))
      }
    }
    try one.write("a.md", "A.\n")
    try one.push()
    try one.push()
    try mirror(from: one, to: two)
    #expect(try two.push().scan.created == 0)
    #expect(try bench.titles() == ["a"])
    let item = try bench.id("a")
    for round in 1...2 {
      let (here, there) = round == 1 ? (one, two) : (two, one)
      try here.append("a.md", "Round \(round).\n")
      try here.push()
      try mirror(from: here, to: there)
      for _ in 1...3 {
        try there.push()
        try here.push()
        try mirror(from: here, to: there)
      }
      #expect(try one.push().drain.drain.answered == 0)
      #expect(try two.push().drain.drain.answered == 0)
      #expect(one.files() == ["a.md"] && two.files() == ["a.md"])
      #expect(one.bytes("a.md") == two.bytes("a.md"))
    }
    #expect(try bench.body(item) == "A.\nRound 1.\nRound 2.\n")
    #expect(try bench.titles() == ["a"])
  }

  @Test("P-S27 an edit that a third program brought before it was sent is sent by both, and makes no second item")
  func mirroredAtOnce() throws {
    let bench = try FolderBench()
    let one = try KeptFolder(bench)
    let two = try KeptFolder(bench, following: one.id, machine: bench.machine("ben"))
    try one.write("a.md", "A.\n")
    for folder in [one, one, two, two] { try folder.push() }
    for round in 1...3 {
      let (here, there) = round % 2 == 1 ? (one, two) : (two, one)
      try here.append("a.md", "Round \(round).\n")
      try there.write("a.md", bytes: try #require(here.bytes("a.md")))
      // Both scan before either has heard of the other.
      try here.scan()
      try there.scan()
      for _ in 1...3 {
        let pushes = [try here.push(), try there.push()]
        #expect(pushes.allSatisfy { $0.drain.conflicts.isEmpty && $0.pull?.written == 0 })
      }
      #expect(try one.push().drain.drain.answered == 0 && two.push().drain.drain.answered == 0)
      #expect(one.files() == ["a.md"] && two.files() == ["a.md"])
      // A version alone is no line to write a file for (F24.2).
      func shown(_ folder: KeptFolder) -> [String] {
        (folder.text("a.md") ?? "").split(separator: "\n").map(String.init).filter { !$0.hasPrefix("marfa_version:") }
      }
      #expect(shown(one) == shown(two))
      #expect(try bench.titles() == ["a"])
    }
    #expect(try bench.body(bench.id("a")) == "A.\nRound 1.\nRound 2.\nRound 3.\n")
  }

  @Test(
    "P-S27 a text file or a picture that a third program renames on the other machine stays one item",
    arguments: ["x.txt", "x.png"], [false, true])
  func mirroredRename(name: String, heard: Bool) throws {
    let bench = try FolderBench()
    let one = try KeptFolder(bench, ["title": "All", "search": ["types": ["core.note", "core.file"]]])
    let two = try KeptFolder(bench, following: one.id, machine: bench.machine("ben"))
    try one.write(name, "bytes of it")
    for folder in [one, one, two, two] { try folder.push() }
    #expect(two.files() == [name])
    if !heard {
      // A note that comes with its lines tells that another program brings files here.
      try one.write("note.md", "Note.\n")
      for _ in 1...2 { try one.push() }
      try two.write("note.md", bytes: try #require(one.bytes("note.md")))
      for folder in [two, one] { try folder.push() }
      try two.append("note.md", "More.\n")
      for _ in 1...2 { try two.push() }
      try one.write("note.md", bytes: try #require(two.bytes("note.md")))
      for folder in [one, two] { try folder.push() }
      try one.delete("note.md")
      try two.delete("note.md")
      for _ in 1...2 {
        for folder in [one, two] { try folder.push() }
        bench.clock.advance(seconds: 6)
      }
      for folder in [one, two] { try folder.push() }
    }
    let renamed = "y" + name.dropFirst()
    for round in 1...2 {
      let (here, there) = round == 1 ? (one, two) : (two, one)
      let (from, to) = round == 1 ? (name, renamed) : (renamed, name)
      try here.rename(from, to: to)
      try there.write(to, bytes: try #require(here.bytes(to)))
      try there.delete(from)
      if heard { try here.push() }
      for _ in 1...3 {
        try there.push()
        try here.push()
        bench.clock.advance(seconds: 6)
      }
      #expect(one.files() == [to] && two.files() == [to])
      #expect(try bench.titles().count == 1)
      #expect(try one.push().drain.drain.answered == 0 && two.push().drain.drain.answered == 0)
    }
  }
}
