import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// The list of folders this machine has (X1 to X5).
struct ListScenarios {
  func registry(_ folder: KeptFolder) -> PathBytes { folder.machine.root.parent.appending("folders.json") }

  @Test("X-S11 a folder inside or around a listed one is refused naming it; a sibling of a shared prefix is added")
  func nesting() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    let before = folder.disk.read(registry(folder))
    for dir in [folder.path("sub"), folder.path("sub/deep"), folder.root.parent] {
      let error = try #require(refusal { _ = try folder.folders.add(dir, following: folder.id, yes: true) })
      #expect(error.code == .invalid && error.message.contains(folder.root.description), "\(dir)")
      #expect(folder.disk.status(dir.appending(".marfa")) == nil)
    }
    #expect(folder.disk.status(folder.path("sub")) == nil && folder.disk.read(registry(folder)) == before)
    let sibling = folder.root.parent.appending("Notes2")
    _ = try folder.folders.add(sibling, following: folder.id, yes: true)
    #expect(try folder.folders.list().map(\.dir) == [folder.root, sibling])
    try folder.disk.write(sibling.appending("a.md"), Array("Words.\n".utf8))
    bench.clock.advance(seconds: 3)
    _ = try folder.folders.push(sibling)
    #expect(try bench.titles() == ["a"])
  }

  @Test("X-S12 a folder moved to another path and pushed there has one entry, of the new path")
  func moved() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md")
    try folder.push()
    let store = try folder.folders.list().first?.store
    let target = folder.root.parent.appending("Elsewhere")
    try folder.disk.rename(folder.root, to: target)
    folder.machine.moveStore(of: folder.root, to: target)
    #expect(try folder.folders.list().map(\.dir) == [folder.root])
    guard case .pushed(let push) = try folder.folders.push(target) else {
      Issue.record("not pushed")
      return
    }
    #expect(push.scan.unchanged == 1 && push.scan.missing == 0)
    #expect(try folder.folders.list().map(\.dir) == [target])
    #expect(try folder.folders.list().map(\.store) == [store])
    #expect(try bench.titles() == ["a"])
  }

  @Test("X-S13 a lost list holds the missing files of that pass, says why, and fills again; after the grace they go")
  func lost() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md")
    try folder.write("b.md")
    try folder.push()
    try folder.delete("a.md")
    try folder.disk.delete(registry(folder))
    let push = try folder.push()
    #expect(push.scan.deleted == 0 && push.scan.trashed.isEmpty)
    #expect(push.scan.registry?.isEmpty == false)
    #expect(try folder.folders.list().map(\.dir) == [folder.root])
    folder.grace()
    let next = try folder.push()
    #expect(next.scan.registry == nil && next.scan.trashed == ["a.md"])
    #expect(try bench.titles() == ["b"])
  }

  @Test("X-S13 in part: past the grace already, the pass that finds the list lost holds them all the same")
  func lostPastGrace() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md")
    try folder.push()
    try folder.delete("a.md")
    try folder.push()
    folder.grace()
    try folder.disk.delete(registry(folder))
    let push = try folder.push()
    #expect(push.scan.deleted == 0 && push.scan.unsure.map(\.path) == ["a.md"])
    #expect(try folder.push().scan.trashed == ["a.md"])
  }

  @Test(
    "X-S14 an unparsable list holds missing files and keeps its bytes", arguments: ["garbage", "[]", "{\"folders\":1}"])
  func unparsable(_ text: String) throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md")
    try folder.push()
    try folder.delete("a.md")
    try folder.push()
    folder.grace()
    try folder.disk.write(registry(folder), text)
    for _ in 0..<2 {
      let push = try folder.push()
      #expect(push.scan.unsure.map(\.path) == ["a.md"] && push.scan.deleted == 0)
      #expect(push.scan.registry?.isEmpty == false)
      #expect(folder.disk.text(registry(folder)) == text)
      folder.grace()
    }
    #expect(try bench.titles() == ["a"])
  }

  @Test("X-S18 two lists are two machines: a file moved between their folders is a delete here, a new file there")
  func twoMachines() throws {
    let bench = try FolderBench()
    let machine = bench.machine()
    let one = try KeptFolder(
      bench, TwoFolders.tagged("a", ["core.note"], ["defaults": ["tags": ["a"]]]), machine: machine, at: "One")
    try one.write("plan.txt", "Plan.\n")
    try one.push()
    let item = try bench.id("plan")
    machine.registryName = "others.json"
    let two = try KeptFolder(
      bench, TwoFolders.tagged("b", ["core.note"], ["defaults": ["tags": ["b"]]]), machine: machine, at: "Two")
    try two.push()
    bench.clock.advance(seconds: 3)
    try machine.disk.rename(one.path("plan.txt"), to: two.path("plan.txt"))
    let there = try two.push()
    #expect(there.scan.created == 1)
    machine.registryName = "folders.json"
    #expect(try one.push().scan.missing == 1)
    one.grace()
    let here = try one.push()
    #expect(here.scan.trashed == ["plan.txt"] && here.scan.movedAway == 0 && here.scan.unsure.isEmpty)
    #expect(try bench.isTrashed(item))
    let new = try bench.id("plan")
    #expect(new != item)
    #expect(try bench.body(new) == "Plan.\n")
    #expect(try machine.folders.list().map(\.dir) == [one.root])
  }

  @Test("X2.5 in part: a directory whose path is no UTF-8 is refused, and nothing is made")
  func notText() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    let dir = folder.root.parent.appending(PathBytes(bytes: [0x4E, 0xFF]))
    #expect(refusal { _ = try folder.folders.add(dir, following: folder.id, yes: true) }?.code == .invalid)
    #expect(folder.disk.status(dir) == nil)
  }
}
