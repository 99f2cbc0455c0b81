import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Two machines that change one note at once.
struct TwoMachinesTests {
  let bench: FolderBench
  let ana: FolderMachine
  let ben: FolderMachine

  init() throws {
    bench = try FolderBench()
    let folder = try bench.folder()
    ana = bench.machine("ana")
    ben = bench.machine("ben")
    try ana.add(folder)
    try ben.add(folder)
    try ana.write("Note.md", "one\n")
    try ana.push()
    try ben.push()
  }

  @Test("a delete gives way to an edit the other machine sent first: the file is written again")
  func deleteAgainstEdit() throws {
    try ana.delete("Note.md")
    try ana.push()
    try ben.write("Note.md", try #require(ben.text("Note.md")).replacing("one", with: "one two"))
    try ben.push()
    for _ in 0..<2 {
      bench.clock.advance(seconds: 8)
      try ana.push()
      try ben.push()
    }
    #expect(ana.files() == ["Note.md"] && ben.files() == ["Note.md"])
    #expect(ana.text("Note.md")?.hasSuffix("one two\n") == true)
    #expect(try bench.titles() == ["Note"])
  }

  @Test("F-S19.9 both move one file: the second gives way, follows, and leaves no blocked row")
  func bothMove() throws {
    try ana.rename("Note.md", to: "A.md")
    try ben.rename("Note.md", to: "B.md")
    try ana.push()
    let push = try ben.push()
    #expect(push.drain.gaveWay == 1)
    for _ in 0..<2 {
      try ana.push()
      try ben.push()
    }
    #expect(ana.files() == ["A.md"])
    #expect(ben.files() == ["A.md"])
    let again = try ben.push()
    #expect(again.drain.drain.answered == 0 && again.pull?.moved == 0)
  }
}
