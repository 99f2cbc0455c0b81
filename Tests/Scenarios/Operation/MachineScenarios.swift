import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Folders on one machine: the registry, nesting, removing, one item in two folders (F41, F45).
struct MachineScenarios {
  @Test(
    "F-S300 folders of one registry are listed from either; one gone stays listed until removed; unsent writes keep a folder"
  )
  func listed() throws {
    let bench = try FolderBench()
    let machine = bench.machine()
    let one = try KeptFolder(bench, machine: machine, at: "One")
    let two = try KeptFolder(bench, machine: machine, at: "Two")
    #expect(try machine.folders.list().map(\.dir) == [one.root, two.root])
    #expect(try machine.folders.list().map(\.folder) == [one.id.text, two.id.text])
    let other = bench.machine("ben")
    #expect(try other.folders.list().isEmpty)
    try two.disk.rename(two.root, to: two.root.parent.appending("Away"))
    #expect(try machine.folders.list().map(\.dir) == [one.root, two.root])
    try machine.folders.remove(two.root)
    #expect(try machine.folders.list().map(\.dir) == [one.root])
    try one.push()
    try one.write("a.md", "A.\n")
    try one.scan()
    #expect(refusal { try machine.folders.remove(one.root) }?.code == .invalid)
    #expect(try machine.folders.list().map(\.dir) == [one.root])
    try one.push()
    let text = one.text("a.md")
    try machine.folders.remove(one.root)
    #expect(try machine.folders.list().isEmpty)
    #expect(one.files() == ["a.md"] && one.text("a.md") == text)
    #expect(one.disk.status(one.path(".marfa")) == nil)
    #expect(try bench.titles() == ["a"])
  }

  @Test("F-S301 entries hold distinct store ids, and a scan leaves the registry as it was")
  func storeIDs() throws {
    let bench = try FolderBench()
    let machine = bench.machine()
    let one = try KeptFolder(bench, machine: machine, at: "One")
    _ = try KeptFolder(bench, machine: machine, at: "Two")
    let entries = try machine.folders.list()
    #expect(Set(entries.map(\.store)).count == 2)
    #expect(entries.allSatisfy { $0.store?.bytes.count == 36 })
    try one.write("a.md")
    try one.push()
    #expect(try bench.titles() == ["a"])
    let path = machine.root.parent.appending("folders.json")
    let before = try #require(machine.disk.read(path))
    try one.scan()
    #expect(machine.disk.read(path) == before)
  }

  @Test("a push lists the folder again where the registry was deleted")
  func listedAgain() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.push()
    try folder.disk.delete(folder.root.parent.appending("folders.json"))
    #expect(try folder.folders.list().isEmpty)
    let push = try folder.push()
    #expect(push.scan.registry?.isEmpty == false)
    #expect(try folder.folders.list().map(\.dir) == [folder.root])
    #expect(try folder.push().scan.registry == nil)
  }

  @Test("F-S304 folders are not nested, and a directory of another folder is walked past and written nowhere")
  func nested() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("sub/a.md")
    try folder.push()
    for dir in [folder.path("sub"), folder.path("sub/deeper"), folder.root.parent] {
      let error = try #require(refusal { _ = try folder.folders.add(dir, following: folder.id, yes: true) })
      #expect(error.code == .invalid)
      #expect(folder.disk.status(dir.appending(".marfa")) == nil)
    }
    #expect(folder.disk.status(folder.path("sub/deeper")) == nil)
    #expect(try folder.folders.list().count == 1)
    try folder.disk.write(folder.path("other/.marfa/core.sqlite"), "")
    try folder.write("other/inside.md")
    let item = try bench.item("Plan")
    try bench.place(item, in: folder.id, at: "other/Plan.md")
    let push = try folder.push()
    #expect(push.scan.created == 0 && push.pull?.outside == 1 && push.pull?.written == 0)
    #expect(push.pull?.flagged.map(\.item) == [item.description])
    #expect(folder.text("other/Plan.md") == nil)
    #expect(try bench.titles() == ["Plan", "a"])
    try folder.disk.delete(folder.path("other/.marfa"))
    #expect(try folder.push().pull?.written == 1)
    #expect(folder.text("other/Plan.md") != nil)
  }

  @Test("P1.6 a directory under a document portal is refused by add, naming the host's path where the portal tells it")
  func portal() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    let portals: [PathBytes] = ["/run/user/1000/doc/ab12cd34/Notes", "/run/flatpak/doc/ab12cd34/Notes"]
    for dir in portals { try folder.disk.write(dir.appending("One.md"), "One.\n") }
    try folder.disk.setAttribute(portals[0], "user.document-portal.host-path", Array("/home/ana/Notes".utf8))
    for dir in portals {
      let error = try #require(refusal { _ = try folder.folders.add(dir, following: folder.id, yes: true) })
      #expect(error.code == .invalid && error.message.contains("document portal"), "\(error.message)")
      #expect(error.message.contains("add /home/ana/Notes,") == (dir == portals[0]), "\(error.message)")
      #expect(folder.disk.status(dir.appending(".marfa")) == nil)
    }
    // Only below the portal's own directory.
    try folder.disk.write("/run/user/1000/documents/Notes/One.md", "One.\n")
    _ = try folder.folders.add("/run/user/1000/documents/Notes", following: folder.id, yes: true)
    #expect(try folder.folders.list().count == 2)
  }

  @Test("F-S305 a bound file whose directory becomes a folder is unreached, never trashed")
  func becomesFolder() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("sub/a.md")
    try folder.write("b.md")
    try folder.push()
    try folder.disk.write(folder.path("sub/.marfa/core.sqlite"), "")
    try folder.delete("b.md")
    try folder.push()
    folder.grace()
    let push = try folder.push()
    #expect(push.scan.unreached == 1)
    #expect(try bench.titles() == ["a"])
    #expect(try folder.status(of: "sub/a.md")?.state == .unreached)
  }

  @Test("F-S308 a blocked write keeps a folder from being removed")
  func blocked() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.push()
    try folder.write("a.md")
    bench.transport.before = { request in
      request.method == "POST" && request.url.hasSuffix("/items")
        ? .success(HTTPResponse(refusing: 401, "unauthorized")) : nil
    }
    try folder.push()
    #expect(try folder.queue().contains { $0.verdict == .blocked })
    #expect(refusal { try folder.folders.remove(folder.root) }?.code == .invalid)
    #expect(try folder.folders.list().count == 1)
    #expect(folder.files() == ["a.md"])
    bench.goOnline()
  }

  @Test("F-S309 a path through a link is not removed; the listed one is")
  func throughLink() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md")
    try folder.push()
    #expect(try bench.titles() == ["a"])
    let link = folder.root.parent.appending("link")
    try folder.disk.makeLink(link, to: folder.root)
    #expect(refusal { try folder.folders.remove(link) }?.code == .invalid)
    #expect(folder.disk.status(folder.path(".marfa")) != nil)
    try folder.folders.remove(try #require(try folder.folders.list().first).dir)
    #expect(folder.disk.status(folder.path(".marfa")) == nil && folder.files() == ["a.md"])
    #expect(try folder.folders.list().isEmpty)
  }

  @Test(
    "F-S352 two folders of one item: edits go both ways, and deleting one file sends one delete",
    arguments: [false, true])
  func twoFolders(bytes: Bool) throws {
    let bench = try FolderBench()
    let machine = bench.machine()
    let settings: JSON = ["title": "All", "search": ["types": ["core.note", "core.file"]]]
    let one = try KeptFolder(bench, settings, machine: machine, at: "One")
    let two = try KeptFolder(bench, settings, machine: machine, at: "Two")
    let name = bytes ? "photo.png" : "Plan.md"
    let item =
      bytes
      ? try bench.file("photo.png", [1, 2], type: "core.file.image", mime: "image/png")
      : try bench.item("Plan", body: "Plan.\n")
    try one.push()
    try two.push()
    #expect(one.files() == [name] && two.files() == [name])
    #expect(try bench.placements(of: item).count == 2)
    try one.write(name, bytes: try #require(one.bytes(name)) + Array("One.\n".utf8))
    try one.push()
    try two.push()
    #expect(two.text(name)?.hasSuffix("One.\n") == true)
    try two.write(name, bytes: try #require(two.bytes(name)) + Array("Two.\n".utf8))
    try two.push()
    try one.push()
    #expect(one.text(name)?.hasSuffix("One.\nTwo.\n") == true)
    #expect(try bench.titles().count == 1)
    try one.delete(name)
    try one.push()
    one.grace()
    bench.transport.clear()
    try one.push()
    try two.push()
    #expect(bench.writes.filter { $0.hasPrefix("DELETE /items/") }.count == 1)
    #expect(two.files().isEmpty)
    #expect(try bench.isTrashed(item))
  }

  @Test("F-S278 once a picture is written no copy stands beside the store; asked for again it is fetched again")
  func noCopy() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, BytesScenarios.all)
    try bench.file("photo.png", BytesScenarios.png, type: "core.file.image", mime: "image/png")
    try folder.push()
    let hash = ContentHash(of: BytesScenarios.png)
    #expect(folder.bytes("photo.png") == BytesScenarios.png)
    #expect(try folder.reading { !$0.copy.blobs.all().contains { $0.hash == hash } })
    let other = try KeptFolder(bench, following: folder.id, machine: bench.machine("ben"))
    bench.transport.clear()
    try other.push()
    #expect(bench.transport.requests.contains { $0.contains(hash.hex) })
    try folder.delete("photo.png")
    let item = try bench.id("photo.png")
    try folder.scan()
    try bench.edit(item, ["executable": true])
    bench.transport.clear()
    let push = try folder.push()
    #expect(push.pull?.revived == 1 || push.pull?.written == 1)
    #expect(bench.transport.requests.contains { $0.contains(hash.hex) })
    #expect(folder.bytes("photo.png") == BytesScenarios.png)
  }

  @Test(
    "F-S413 settings the server would refuse are not followed; the refusal names the setting and the way to change it",
    arguments: ["defaults.tags", "defaults.properties", "search.filter"])
  func refusedSettings(member: String) throws {
    let bench = try FolderBench()
    let good = String(repeating: "t", count: 128)
    let folder = try KeptFolder(bench, KeptFolder.notes(["defaults": ["tags": [.string(good)]]]), added: false)
    let settings: JSON =
      switch member {
      case "defaults.tags": ["defaults": ["tags": [.string(good + "t")]]]
      case "defaults.properties": ["defaults": ["properties": ["": "x"]]]
      default: ["search": ["types": ["core.note"], "filter": "properties.language eq null"]]
      }
    // The local instance judges settings itself; an older server's row may carry them.
    let clean = try bench.ask("GET", "/items/\(folder.id)")["item"]?["properties"] ?? .null
    bench.transport.after = { request, response in
      guard request.method == "GET", request.url.contains("/items/\(folder.id)"),
        var body = (try? JSON(parsing: response.body))?.object, var item = body["item"]?.object
      else { return .success(response) }
      var properties = clean.object ?? JSONObject()
      for (key, value) in settings.object?.members ?? [] { properties[key] = value }
      item["properties"] = .object(properties)
      body["item"] = .object(item)
      var changed = response
      changed.body = JSON.object(body).write()
      return .success(changed)
    }
    let error = try #require(refusal { try folder.add() })
    #expect(error.code == .invalid)
    #expect(error.message.contains(member) && error.message.contains("`marfa-folders change "))
    #expect(folder.disk.status(folder.path(".marfa")) == nil)
    bench.transport.after = nil
    try folder.add()
    try folder.write("a.md")
    try folder.push()
    #expect(try bench.row(try bench.id("a"))["metadata"]?["tags"]?.array == [.string(good)])
  }
}
