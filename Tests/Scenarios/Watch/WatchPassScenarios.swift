import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// What a running watch reads, and when (F49 to F51, P1.2, P1.3).
struct WatchPassScenarios {
  static let all: JSON = ["title": "All", "search": ["types": ["core.note", "core.file"]]]

  func filled(_ bench: FolderBench, _ files: [String: String]) throws -> KeptFolder {
    try filled(bench, KeptFolder.notes, files)
  }

  func filled(_ bench: FolderBench, _ settings: JSON, _ files: [String: String]) throws -> KeptFolder {
    let folder = try KeptFolder(bench, settings)
    for (name, text) in files.sorted(by: { $0.key < $1.key }) { try folder.write(name, text) }
    try folder.push()
    return folder
  }

  @Test(
    "F-S380 under a watch an edit with its time moved is sent, one of the same size with its time put back waits for a push"
  )
  func timePutBack() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, ["Back.md": "aaaa\n", "Moved.md": "aaaa\n"])
    let (back, moved) = (try bench.id("Back"), try bench.id("Moved"))
    let watch = ScriptedWatch(folder)
    watch.at(5) {
      for name in ["Back.md", "Moved.md"] {
        let path = folder.path(name)
        let time = try #require(folder.disk.status(path)?.modified)
        try folder.disk.write(path, try #require(folder.disk.text(path)).replacing("aaaa", with: "bbbb"))
        if name == "Back.md" { try folder.disk.setModified(path, time) }
      }
    }
    #expect(try watch.run(seconds: 30) == nil)
    #expect(try bench.body(moved) == "bbbb\n")
    #expect(try bench.body(back) == "aaaa\n")
    try folder.push()
    #expect(try bench.body(back) == "bbbb\n")
  }

  @Test("F49.1 what a quick pass leaves unread is read by the pass of the next minute")
  func nextMinute() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, ["Back.md": "aaaa\n"])
    let back = try bench.id("Back")
    let watch = ScriptedWatch(folder)
    watch.at(5) {
      let path = folder.path("Back.md")
      let time = try #require(folder.disk.status(path)?.modified)
      try folder.disk.write(path, try #require(folder.disk.text(path)).replacing("aaaa", with: "bbbb"))
      try folder.disk.setModified(path, time)
    }
    #expect(try watch.run(seconds: 70) == nil)
    #expect(try bench.body(back) == "bbbb\n")
  }

  @Test("F-S381 a copy of a note the quick pass would skip is a new item, and the original keeps its own")
  func copied() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, ["Plan.md": "Plan.\n"])
    let plan = try bench.id("Plan")
    let text = try #require(folder.text("Plan.md"))
    #expect(text.contains(plan.description))
    let watch = ScriptedWatch(folder)
    watch.save("Copy.md", text, at: 5)
    #expect(try watch.run(seconds: 30) == nil)
    let copy = try #require(try folder.status(of: "Copy.md")?.item)
    #expect(copy != plan.description)
    #expect(try bench.titles().count == 2)
    #expect(try folder.status(of: "Plan.md")?.item == plan.description)
    #expect(try bench.body(plan) == "Plan.\n" && bench.row(plan)["item"]?["version"]?.int == 1)
    #expect(watch.sum(\.scan, "created") == 1)
  }

  @Test("F-S385 a runnable file says so, a plain one says nothing; each bit changed alone under a watch is one update")
  func runnable() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, BytesScenarios.all)
    try folder.write("run.sh", bytes: Array("#!/bin/sh\n".utf8))
    try folder.write("plain.sh", bytes: Array("#!/bin/sh\ntrue\n".utf8))
    try folder.disk.setMode(folder.path("run.sh"), 0o755)
    try folder.disk.setMode(folder.path("plain.sh"), 0o644)
    try folder.push()
    let (run, plain) = (try bench.id("run.sh"), try bench.id("plain.sh"))
    func executable(_ item: EntityID) throws -> Bool? {
      try bench.row(item)["item"]?["properties"]?["executable"]?.bool
    }
    #expect(try executable(run) == true && executable(plain) == nil)
    let watch = ScriptedWatch(folder)
    watch.at(5) {
      bench.transport.clear()
      try folder.disk.setMode(folder.path("run.sh"), 0o644)
    }
    watch.at(8) {
      #expect(bench.writes.count == 1)
      try folder.disk.setMode(folder.path("plain.sh"), 0o755)
    }
    #expect(try watch.run(seconds: 20) == nil)
    #expect(bench.writes.count == 2 && bench.writes.allSatisfy { $0.hasPrefix("PATCH /items/") })
    #expect(try executable(run) == false && executable(plain) == true)
    #expect(watch.sum(\.scan, "updated") == 2)
  }

  @Test(
    "F-S390 C-S49 a note written twice a second keeps neither another file from going up nor a change from coming down")
  func neverQuiet() throws {
    let bench = try FolderBench()
    let item = try bench.item("Theirs", body: "Before.\n")
    let folder = try filled(bench, ["Busy.md": "0\n"])
    let watch = ScriptedWatch(folder)
    for step in 0..<60 {
      watch.at(1 + Double(step) / 2) {
        try folder.disk.write(folder.path("Busy.md"), try #require(folder.text("Busy.md")) + "\(step)\n")
      }
    }
    watch.save("Other.md", "Other.\n", at: 6.1)
    // The stream's own wake-up is not needed: a change of the disk runs a pass 5 s after the last one at the latest.
    watch.at(6.2) { try bench.edit(item, ["body": "After.\n"]) }
    watch.at(20) { () throws in
      #expect(try bench.titles() == ["Busy", "Other", "Theirs"])
      #expect(folder.text("Theirs.md")?.contains("After.") == true)
      #expect(try bench.body(bench.id("Busy"))?.contains("10\n") == true)
    }
    #expect(try watch.run(seconds: 40) == nil)
    let told: [Double] = watch.events.compactMap { if case .passed = $0.event { $0.at } else { nil } }
    for (one, next) in zip(told, told.dropFirst()) where next < 30 { #expect(next - one < 5.6, "\(told)") }
    #expect(try bench.body(bench.id("Busy"))?.hasSuffix("59\n") == true)
  }

  @Test("F-S391 a picture copied in slowly is one upload, after it settles; other files go on meanwhile")
  func slowPicture() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, Self.all, ["One.md": "One.\n"])
    let watch = ScriptedWatch(folder)
    for step in 1...30 {
      watch.at(2 + Double(step) / 10) {
        try folder.disk.write(folder.path("pic.bin"), Array(repeating: UInt8(step), count: step * 100))
      }
    }
    watch.save("Two.md", "Two.\n", at: 2.2)
    watch.at(2) { bench.transport.clear() }
    watch.at(5) { #expect(!bench.writes.contains { $0.hasPrefix("POST /blobs") }) }
    watch.save("Three.md", "Three.\n", at: 6)
    #expect(try watch.run(seconds: 20) == nil)
    #expect(bench.writes.filter { $0.hasPrefix("POST /blobs") }.count == 1)
    #expect(try bench.titles() == ["One", "Three", "Two", "pic.bin"])
    let size = try bench.row(bench.id("pic.bin"))["item"]?["properties"]?["size_bytes"]?.int
    #expect(size == 3000)
  }

  @Test(
    "F-S392 C-S50 a file that never stops changing is never sent, and named once; one copied in over 3 s is sent once")
  func neverSettles() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, Self.all, ["One.md": "One.\n"])
    let watch = ScriptedWatch(folder)
    for step in 1...600 {
      watch.at(2 + Double(step) / 10) {
        try folder.disk.write(folder.path("log.bin"), Array(repeating: UInt8(step & 0xFF), count: step))
      }
    }
    for step in 1...15 {
      watch.at(30 + Double(step) / 5) {
        try folder.disk.write(folder.path("pic.bin"), Array(repeating: UInt8(step), count: step * 100))
      }
    }
    watch.at(2) { bench.transport.clear() }
    watch.at(61) { () throws in
      #expect(try bench.titles() == ["One", "pic.bin"])
      #expect(bench.writes.filter { $0.hasPrefix("POST /blobs") }.count == 1)
    }
    #expect(try watch.run(seconds: 61.5) == nil)
    #expect(watch.words.filter { $0.contains("log.bin") && $0.contains("still changing") }.count == 1, "\(watch.words)")
    #expect(watch.passes.contains { $0.scan["settling"]?.array?.contains("log.bin") == true })
  }

  @Test(
    "F-S393 a settling file renamed keeps its item; a replacement at its old path is new", arguments: [false, true])
  func settlingRenamed(replaced: Bool) throws {
    let bench = try FolderBench()
    let folder = try filled(bench, Self.all, ["pic.bin": "picture"])
    let item = try bench.id("pic.bin")
    let watch = ScriptedWatch(folder)
    watch.at(10) {
      try folder.disk.write(folder.path("pic.bin"), "picture, changed")
      try folder.rename("pic.bin", to: "moved.bin")
      if replaced { try folder.disk.write(folder.path("pic.bin"), "another") }
    }
    // It goes on changing over several passes.
    for step in 1...70 {
      watch.at(10 + Double(step) / 10) {
        try folder.disk.write(folder.path("moved.bin"), "picture, changed \(step)")
      }
    }
    watch.at(16.5) { () throws in
      #expect(try folder.placement(of: item) == "moved.bin")
      #expect(try bench.row(item)["item"]?["version"]?.int == 1)
    }
    #expect(try watch.run(seconds: 30) == nil)
    #expect(try folder.status(of: "moved.bin")?.item == item.description)
    #expect(try bench.row(item)["item"]?["version"]?.int == 2)
    #expect(try bench.row(item)["item"]?["properties"]?["title"] == "moved.bin")
    #expect(folder.files() == (replaced ? ["moved.bin", "pic.bin"] : ["moved.bin"]))
    if replaced {
      let other = try #require(try folder.status(of: "pic.bin")?.item)
      #expect(other != item.description)
    }
    #expect(watch.sum(\.scan, "created") == (replaced ? 1 : 0))
  }
}
