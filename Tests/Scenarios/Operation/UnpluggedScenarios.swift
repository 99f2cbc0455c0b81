import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Volumes that are unplugged, and links that stand where a note stood: nothing is taken for deleted that could not be
/// looked at.
struct UnpluggedScenarios {
  @Test(
    "X3.4, F41.9 a folder whose volume is unplugged stays on the list, and a note moved into it is held till it is back",
    arguments: [false, true])
  func unplugged(sameDevice: Bool) throws {
    let bench = try FolderBench()
    let machine = bench.machine()
    let root = machine.root.parent.appending("Two")
    try machine.disk.makeDirectory(root)
    try machine.disk.mount(root, sameDevice: sameDevice)
    let one = try KeptFolder(bench, machine: machine, at: "One")
    let two = try KeptFolder(bench, TwoFolders.tagged("b"), machine: machine, at: "Two")
    try one.write("h.md", "Words.\n")
    try one.push()
    try two.push()
    try one.push()
    let text = try #require(one.bytes("h.md"))
    try two.write("h.md", bytes: text)
    try one.delete("h.md")
    let volume = try machine.disk.unmount(root)
    #expect(try machine.folders.list().map(\.dir) == [one.root, two.root])
    bench.transport.clear()
    for _ in 1...3 {
      let push = try one.push()
      #expect(push.scan.deleted == 0 && push.scan.trashed.isEmpty, "\(push.scan.json.compact)")
      one.grace()
    }
    let reason = try #require(try one.push().scan.unsure.first?.reason)
    #expect(reason.contains("not mounted") && reason.contains("remove"), "\(reason)")
    #expect(bench.writes.isEmpty && machine.disk.tree(root).isEmpty)
    // Its own commands say what is the matter with it, in place of making another folder of the empty directory.
    let refused = #expect(throws: MarfaError.self) { try two.push() }
    #expect(refused?.message.contains("not mounted") == true, "\(refused?.message ?? "")")
    try machine.disk.mount(root, volume: volume)
    try two.push()
    one.grace()
    #expect(try one.push().scan.movedAway == 1)
    #expect(try bench.titles() == ["h"] && two.files() == ["h.md"])
    #expect(try machine.folders.list().map(\.dir) == [one.root, two.root])
  }

  @Test("F41.7, F41.13 the entry of an unplugged volume's folder goes by remove, and an unmounted look drops no other")
  func takenOff() throws {
    let bench = try FolderBench()
    let machine = bench.machine()
    let root = machine.root.parent.appending("Two")
    try machine.disk.makeDirectory(root)
    try machine.disk.mount(root)
    let one = try KeptFolder(bench, machine: machine, at: "One")
    let two = try KeptFolder(bench, TwoFolders.tagged("b"), machine: machine, at: "Two")
    let three = try KeptFolder(bench, TwoFolders.tagged("c"), machine: machine, at: "Three")
    try two.push()
    _ = try machine.disk.unmount(root)
    // A directory that was never a volume's and holds no folder any more is none.
    try machine.disk.delete(three.path(".marfa"))
    #expect(try machine.folders.list().map(\.dir) == [one.root, two.root])
    try machine.folders.remove(two.root)
    #expect(try machine.folders.list().map(\.dir) == [one.root])
  }

  @Test("F30.4, F21.1 a symbolic link in the place of a note or a directory is followed by nobody, and trashes nothing")
  func linkInPlace() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    for path in ["n.md", "deep/a.md", "deep/b.md", "plain.md"] { try folder.write(path, "\(path)\n") }
    try folder.push()
    try folder.push()
    let texts = ["n.md": try #require(folder.bytes("n.md")), "deep/a.md": try #require(folder.bytes("deep/a.md"))]
    try folder.disk.makeDirectory("/home/ana/Away")
    try folder.disk.rename(folder.path("n.md"), to: "/home/ana/Away/n.md")
    try folder.disk.rename(folder.path("deep"), to: "/home/ana/Away/deep")
    try folder.disk.makeLink(folder.path("n.md"), to: "/home/ana/Away/n.md")
    try folder.disk.makeLink(folder.path("deep"), to: "/home/ana/Away/deep")
    bench.transport.clear()
    for _ in 1...3 {
      let push = try folder.push()
      #expect(push.scan.missing == 0 && push.scan.deleted == 0 && push.scan.unreached == 3, "\(push.scan.json.compact)")
      #expect(push.scan.directories.map(\.path).sorted() == ["deep", "n.md"])
      folder.grace()
    }
    #expect(try folder.status(of: "n.md")?.state == .unreached)
    #expect(try folder.status(of: "deep/a.md")?.reason?.contains("symbolic link") == true)
    #expect(bench.writes.isEmpty)
    #expect(try bench.titles() == ["a", "b", "n", "plain"])
    // Taken away again, and the files put back, all is as it was.
    try folder.disk.delete(folder.path("n.md"))
    try folder.disk.delete(folder.path("deep"))
    try folder.disk.rename("/home/ana/Away/n.md", to: folder.path("n.md"))
    try folder.disk.rename("/home/ana/Away/deep", to: folder.path("deep"))
    #expect(try folder.push().scan.unchanged == 4)
    #expect(bench.writes.isEmpty)
    for (path, text) in texts { #expect(folder.bytes(path) == text) }
  }
}
