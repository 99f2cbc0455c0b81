import FolderSync
import Glibc
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Vanishing directories, pins, permissions, second drains and refused placements (F26.6, F35.6, F41.2, F50.4, F66 to F70,
/// F86).
struct AskedAgainScenarios {
  @Test("F-S224 a directory that vanishes while it is walked settles no delete; the next whole scan does")
  func vanishing() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("sub/a.md")
    try folder.write("b.md")
    try folder.push()
    try folder.delete("b.md")
    try folder.push()
    folder.grace()
    let (disk, sub) = (folder.disk, folder.path("sub"))
    folder.machine.door = FaultDoor { (point, name, _) throws(FileError) in
      if point == .walk, name == "sub" { try? disk.delete(sub) }
    }
    let scan = try folder.scan()
    folder.machine.door = .none
    #expect(scan.directories.map(\.flag) == ["gone"] && scan.directories.map(\.path) == ["sub"])
    #expect(scan.deleted == 0 && scan.trashed.isEmpty)
    #expect(try bench.titles() == ["a", "b"])
    let next = try folder.push()
    #expect(next.scan.trashed == ["b.md"] && next.scan.directories.isEmpty && next.scan.missing == 1)
    #expect(try bench.titles() == ["a"])
  }

  @Test("F-S259 where another item takes an unmatched file's path its pin goes")
  func pinGoes() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, DepartureScenarios.tagged)
    let item = try bench.item("a", tags: ["work"])
    let other = try bench.item("b", tags: ["work"])
    try folder.push()
    try bench.ask("DELETE", "/items/\(item)/tags/work")
    #expect(try folder.push().pull?.unmatched == 1)
    #expect(try folder.isPinned(item))
    try folder.delete("a.md")
    try folder.rename("b.md", to: "a.md")
    try folder.push()
    folder.grace()
    try folder.push()
    #expect(try !folder.isBound(item) && !folder.isPinned(item))
    #expect(try folder.isBound(other) && folder.isPinned(other))
    #expect(try folder.placement(of: other) == "a.md")
    #expect(folder.files() == ["a.md"])
  }

  @Test("F-S306 a folder renamed with a link at its old name is listed once, resolved, and a delete settles")
  func linkedRoot() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md")
    try folder.write("b.md")
    try folder.push()
    let real = folder.root.parent.appending("Real")
    try folder.disk.rename(folder.root, to: real)
    folder.machine.moveStore(of: folder.root, to: real)
    try folder.disk.makeLink(folder.root, to: real)
    try folder.push()
    #expect(try folder.folders.list().map(\.dir) == [real])
    try folder.disk.delete(real.appending("a.md"))
    try folder.push()
    folder.grace()
    let push = try folder.push()
    #expect(push.scan.trashed == ["a.md"] && push.scan.unsure.isEmpty)
    #expect(try bench.titles() == ["b"])
    #expect(try folder.folders.list().map(\.dir) == [real])
  }

  @Test("F-S389 a permission the file system refuses leaves the file, and the next pull sets it")
  func refusedPermission() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, BytesScenarios.all)
    let item = try bench.file("run.png", [1, 2, 3], type: "core.file.image", mime: "image/png")
    try folder.push()
    try folder.push()
    try bench.edit(item, ["executable": true])
    try bench.item("Note")
    folder.machine.faults = Faults.failing(.setMode, name: "run.png", code: EPERM)
    let push = try folder.push()
    #expect(push.pull?.written == 1)
    #expect(folder.disk.status(folder.path("run.png"))?.isExecutable == false)
    folder.machine.faults = nil
    let next = try folder.push()
    #expect(next.scan.updated == 0)
    #expect(folder.disk.status(folder.path("run.png"))?.isExecutable == true)
    #expect(try bench.row(item)["item"]?["properties"]?["executable"]?.bool == true)
  }

  @Test("F-S422 no second drain where the first was stopped or left a write undelivered", arguments: [401, 503])
  func noSecondDrain(status: Int) throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    let item = try bench.item("Plan")
    try folder.write("new.md")
    bench.transport.before = { request in
      guard request.method == "POST", request.url.hasSuffix("/items") else { return nil }
      return .success(HTTPResponse(refusing: status, status == 401 ? "unauthorized" : "unavailable"))
    }
    bench.transport.clear()
    let push = try folder.push()
    #expect(push.pull?.written == 1 && push.pull?.placed == 1)
    #expect(!bench.writes.contains { $0.hasPrefix("POST /edges") })
    #expect(try bench.placements(of: item).isEmpty)
    bench.goOnline()
    #expect(folder.files() == ["Plan.md", "new.md"])
  }

  @Test("F-S423 a placement refused in the second drain is in the verdicts and is not sent again")
  func refusedPlacement() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.push()
    let item = try bench.item("Plan")
    bench.transport.before = { request in
      guard request.method == "POST", request.url.hasSuffix("/edges") else { return nil }
      return .success(HTTPResponse(refusing: 403, "edge_permission_denied"))
    }
    let push = try folder.push()
    let verdict = try #require(push.drain.drain.verdicts.first { $0.kind == .createEdge })
    #expect(verdict.refusal?.code == "edge_permission_denied")
    #expect(push.pull?.written == 1)
    bench.transport.clear()
    let next = try folder.push()
    #expect(!bench.writes.contains { $0.hasPrefix("POST /edges") })
    #expect(next.pull?.unplaced == 1 && next.pull?.placed == 0)
    #expect(try bench.placements(of: item).isEmpty)
    #expect(folder.files() == ["Plan.md"])
  }

  @Test("F-S436 a refused placement of an item that is purged is forgotten")
  func purgedPlacement() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.push()
    let item = try bench.item("Plan")
    bench.transport.before = { request in
      guard request.method == "POST", request.url.hasSuffix("/edges") else { return nil }
      return .success(HTTPResponse(refusing: 403, "edge_permission_denied"))
    }
    try folder.push()
    #expect(try folder.push().pull?.unplaced == 1)
    try bench.purge(item)
    let push = try folder.push()
    #expect(push.pull?.unplaced == 0 && push.pull?.purged == 1)
    #expect(folder.files().isEmpty)
  }
}
