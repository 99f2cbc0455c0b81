import Glibc
import MarfaBase
import Testing
import TestSupport

@testable import FolderSync

private struct Machine {
  let disk = MemoryDisk(clock: ManualClock())
  let files: MemoryFileSystem
  let registry: Registry
  let path: PathBytes = "/h/.local/share/marfa/folders.json"

  init(isForeign: @escaping @Sendable (PathBytes) -> Bool = { _ in false }) {
    files = MemoryFileSystem(disk)
    registry = Registry(path: path, files: files, isForeign: isForeign)
  }

  /// A folder on the disk, and its entry.
  func folder(_ dir: PathBytes, _ number: UInt64) throws -> RegistryEntry {
    try disk.write(dir.appending(".marfa/core.sqlite"), "store \(number)")
    return entry(dir, number)
  }

  func entry(_ dir: PathBytes, _ number: UInt64) -> RegistryEntry {
    RegistryEntry(
      dir: dir, folder: EntityID(high: 0x018F_0000_0000_7000, low: 0x8000_0000_0000_F000 + number),
      store: EntityID(high: 0x018F_0000_0000_7000, low: 0x8000_0000_0000_5000 + number))
  }

  var dirs: [PathBytes] { get throws { try registry.entries().map(\.dir) } }
}

@Suite struct RegistryTests {
  @Test("X-S1 the registry stands under HOME, 0600 in a directory of 0700, as X2 shows it")
  func made() throws {
    let machine = Machine()
    let location = Registry.location({ $0 == "HOME" ? "/h" : nil }, from: "/")
    #expect(location == machine.path)
    try machine.registry.add(machine.folder("/home/ana/Notes", 1))
    #expect(machine.disk.status(machine.path)?.mode == 0o600)
    #expect(machine.disk.status("/h/.local/share/marfa/folders.lock")?.mode == 0o600)
    #expect(machine.disk.status(machine.path.parent)?.mode == 0o700)
    #expect(
      machine.disk.text(machine.path) == """
        {
          "folders": [
            {
              "dir": "/home/ana/Notes",
              "folder": "018f0000-0000-7000-8000-00000000f001",
              "store": "018f0000-0000-7000-8000-000000005001"
            }
          ]
        }

        """)
  }

  @Test("X-S2 the variables say where the registry is, and where its lock")
  func location() throws {
    func at(_ variables: [String: PathBytes]) -> PathBytes? { Registry.location({ variables[$0] }, from: "/cwd") }
    #expect(at(["XDG_DATA_HOME": "/x", "HOME": "/h"]) == "/x/marfa/folders.json")
    #expect(at(["XDG_DATA_HOME": "rel", "HOME": "/h"]) == "/h/.local/share/marfa/folders.json")
    #expect(at(["XDG_DATA_HOME": "", "HOME": "/h"]) == "/h/.local/share/marfa/folders.json")
    #expect(at(["MARFA_FOLDER_REGISTRY": "/t/r.json", "HOME": "/h"]) == "/t/r.json")
    #expect(at(["MARFA_FOLDER_REGISTRY": "r.json"]) == "/cwd/r.json")
    #expect(at([:]) == nil)
    let machine = Machine()
    try Registry(path: "/t/r.json", files: machine.files).add(machine.folder("/n", 1))
    #expect(machine.disk.status("/t/r.lock") != nil)
  }

  @Test("X-S4, X-S5 a folder added twice, or by two ways, is one entry")
  func once() throws {
    let machine = Machine()
    let entry = try machine.folder("/n", 1)
    try machine.disk.makeLink("/way", to: "/n")
    try machine.registry.add(entry)
    try machine.registry.add(entry)
    try machine.registry.add(machine.entry(machine.files.resolve("/way"), 1))
    #expect(try machine.dirs == ["/n"])
    try machine.disk.write(
      machine.path,
      #"{"folders":[{"dir":"/way","folder":"a","store":"s"},{"dir":"/n","folder":"b","store":"t"}]}"#)
    #expect(try machine.registry.entries().map(\.folder) == ["b"])
  }

  @Test(
    "X-S6, X-S7 an entry goes where its directory is readable and holds no folder, and stays where it can't be told")
  func tidies() throws {
    let machine = Machine()
    for (number, dir) in ["/gone", "/shut", "/empty", "/kept", "/stateless"].enumerated() {
      try machine.registry.add(machine.folder(PathBytes(dir), UInt64(number)))
    }
    try machine.disk.delete("/gone")
    try machine.disk.setMode("/shut", 0)
    try machine.disk.delete("/empty/.marfa")
    try machine.disk.delete("/stateless/.marfa/core.sqlite")
    #expect(try machine.dirs == ["/gone", "/shut", "/kept"])
    #expect(machine.disk.text(machine.path)?.contains("/empty") == false)
  }

  @Test("X-S8 reading writes nothing where nothing changed")
  func quiet() throws {
    let clock = ManualClock()
    let disk = MemoryDisk(clock: clock)
    let registry = Registry(path: "/r/folders.json", files: MemoryFileSystem(disk))
    try disk.write("/n/.marfa/core.sqlite", "s")
    try registry.add(RegistryEntry(dir: "/n", folder: EntityID(high: 1, low: 1), store: nil))
    let before = disk.status("/r/folders.json")
    clock.advance(seconds: 60)
    #expect(try registry.entries().count == 1)
    #expect(disk.status("/r/folders.json") == before)
  }

  @Test(
    "X-S9, X3.5 a registry that does not parse is left by all but add, which writes it afresh",
    arguments: ["garbage", "", "[]", "{\"folders\":{}}", "{\"folders\":[{\"dir\":1,\"folder\":\"x\"}]}", "{}"])
  func unparsable(text: String) throws {
    let machine = Machine()
    let entry = try machine.folder("/n", 1)
    try machine.disk.write(machine.path, text)
    let failure = RegistryFailure.unparsable(machine.path)
    #expect(throws: failure) { try machine.registry.entries() }
    #expect(throws: failure) { try machine.registry.list(entry) }
    #expect(throws: failure) { try machine.registry.remove("/n") }
    #expect(machine.disk.text(machine.path) == text && failure.marfaError.code == .store)
    try machine.registry.add(entry)
    #expect(try machine.registry.entries() == [entry])
  }

  @Test("X-S10 a registry that can't be read is refused by add too, and stays")
  func unreadable() throws {
    let machine = Machine()
    try machine.registry.add(machine.folder("/a", 1))
    let before = machine.disk.text(machine.path)
    try machine.disk.setMode(machine.path, 0)
    let entry = try machine.folder("/b", 2)
    #expect(throws: RegistryFailure.self) { try machine.registry.add(entry) }
    try machine.disk.setMode(machine.path, 0o600)
    #expect(machine.disk.text(machine.path) == before)
  }

  @Test("X4.3 nesting is told by components of resolved paths")
  func nesting() {
    let machine = Machine()
    let listed = [machine.entry("/home/ana/Notes", 1)]
    #expect(Registry.nesting(of: "/home/ana/Notes/sub", in: listed) == listed[0])
    #expect(Registry.nesting(of: "/home/ana", in: listed) == listed[0])
    #expect(Registry.nesting(of: "/home/ana/Notes2", in: listed) == nil)
    #expect(Registry.nesting(of: "/home/ana/Notes", in: listed) == nil)
  }

  @Test("X4.2, X4.4 a store lists itself elsewhere, another takes a directory, and taking off goes by resolved path")
  func replaced() throws {
    let machine = Machine()
    try machine.registry.list(machine.folder("/a", 1))
    try machine.disk.rename("/a", to: "/b")
    try machine.registry.list(machine.entry("/b", 1))
    #expect(try machine.registry.entries() == [machine.entry("/b", 1)])
    try machine.registry.list(machine.entry("/b", 2))
    #expect(try machine.registry.entries() == [machine.entry("/b", 2)])
    try machine.disk.makeLink("/way", to: "/b")
    #expect(try machine.registry.remove("/way") && machine.registry.entries().isEmpty)
    #expect(try !machine.registry.remove("/b"))
  }

  @Test("X2.4, X5.8 members we don't know go, but in another agent's entry, and in one that can't be told")
  func foreign() throws {
    let machine = Machine { $0 == "/theirs" }
    for dir in ["/theirs", "/ours", "/away"] as [PathBytes] { _ = try machine.folder(dir, 1) }
    try machine.disk.delete("/away")
    try machine.disk.write(
      machine.path,
      """
      {"folders":[{"dir":"/theirs","folder":"a","x":1},{"dir":"/ours","folder":"b","x":2},{"dir":"/away","folder":"c","x":3}]}
      """)
    try machine.registry.list(machine.folder("/new", 9))
    let json = try JSON(parsing: machine.disk.read(machine.path) ?? [])
    #expect(json["folders"]?.array?.map { $0["x"]?.int } == [1, nil, 3, nil])
  }

  @Test("X-S17 a registry whose writer died before the rename reads as before, and the next write works")
  func cutOff() throws {
    let machine = Machine()
    try machine.registry.add(machine.folder("/a", 1))
    let faults = Faults { $0.operation == .rename ? .crash : .proceed }
    let dying = Registry(path: machine.path, files: FaultyFileSystem(machine.files, faults))
    let entry = try machine.folder("/b", 2)
    #expect(throws: RegistryFailure.self) { try dying.add(entry) }
    #expect(machine.disk.status("/h/.local/share/marfa/folders.json.writing") != nil)
    #expect(try machine.dirs == ["/a"])
    try machine.registry.add(entry)
    #expect(try machine.dirs == ["/a", "/b"])
  }

  @Test("X3.1 threads of one process that list folders at once lose no entry")
  func concurrent() async throws {
    let directory = try TemporaryDirectory()
    let files = SystemFileSystem()
    let path = directory.path.appending("r/folders.json")
    for number in 0..<24 { try files.put(directory.path.appending(PathBytes("f\(number)/.marfa/core.sqlite")), "s") }
    let root = directory.path
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<24 {
        group.addTask {
          let registry = Registry(path: path, files: files)
          try registry.add(
            RegistryEntry(
              dir: root.appending(PathBytes("f\(number)")), folder: EntityID(high: 1, low: UInt64(number)),
              store: EntityID(high: 2, low: UInt64(number))))
        }
      }
      for try await _ in group {}
    }
    #expect(try Registry(path: path, files: files).entries().count == 24)
    withExtendedLifetime(directory) {}
  }

  @Test("P2.4 a directory that does not answer reads as one that can't be told, in bounded time")
  func hangs() throws {
    let machine = Machine()
    let faults = Faults { call in
      if call.operation == .resolve, call.name == "/dead" { usleep(3_000_000) }
      return .proceed
    }
    let look = BoundedLook(FaultyFileSystem(machine.files, faults), limit: 50_000_000)
    try machine.disk.write("/live/.marfa/core.sqlite", "s")
    #expect(look("/dead") == DirectoryLook(resolved: "/dead", state: .unknown))
    let patient = BoundedLook(machine.files)
    #expect(patient("/live") == DirectoryLook(resolved: "/live", state: .folder))
  }
}
