import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// What storage means for the folder (ST3, ST6).
struct StorageUseScenarios {
  @Test("ST3 where no table of mounts tells, the number statfs gives does")
  func byNumber() throws {
    let numbers: [(UInt64, Storage.Cause?)] = [
      (0x6969, .networkFileSystem(kind: "nfs")), (0xFF53_4D42, .networkFileSystem(kind: "cifs")),
      (0xFE53_4D42, .networkFileSystem(kind: "cifs")), (0x0102_1997, .networkFileSystem(kind: "9p")),
      (0x6573_5546, .userFileSystem(kind: "fuse")), (0x00C3_6400, .networkFileSystem(kind: "ceph")),
      (0x794C_7630, .containerLayer), (0x786F_4256, .hostShare(kind: "vboxsf")),
      (0x5346_4846, .hostShare(kind: "drvfs")), (0xEF53, nil), (0x9123_683E, nil), (0x0102_1994, nil), (0x4D44, nil),
    ]
    for (number, cause) in numbers {
      let clock = ManualClock()
      let disk = MemoryDisk(clock: clock)
      try disk.makeDirectory("/data/Notes")
      let look = StorageLook(NumberedFiles(MemoryFileSystem(disk, pid: 1), number), home: "/home/ana", uid: 1000)
      #expect(look("/data/Notes")?.cause == cause, "\(String(number, radix: 16))")
    }
    // The machine's own: a directory of the test's lies on something that is told or known.
    let scratch = try ScratchDirectory()
    #expect(SystemFileSystem().typeNumber(of: PathBytes(scratch.path)) != nil)
    #expect(SystemFileSystem().typeNumber(of: "/nowhere/at/all") == nil)
  }

  /// A folder on storage of these traits.
  func folder(_ bench: FolderBench, _ cause: Storage.Cause) throws -> (KeptFolder, () -> Folders) {
    let folder = try KeptFolder(bench)
    let folders = {
      var made = folder.folders
      made.traits = { _ in StorageTraits(cause) }
      return made
    }
    return (folder, folders)
  }

  @Test(
    "ST6 where inodes do not last, a file that comes back under another one is the same file, and nothing is made anew",
    arguments: [Storage.Cause.networkFileSystem(kind: "nfs4"), .userFileSystem(kind: "encfs")])
  func noIdentity(_ cause: Storage.Cause) throws {
    let bench = try FolderBench()
    let (folder, folders) = try folder(bench, cause)
    func push() throws -> FolderPush {
      bench.clock.advance(nanoseconds: 50_000_000)
      guard case .pushed(let push) = try folders().push(folder.root) else { throw BenchError("waits") }
      return push
    }
    for name in ["a.md", "b.txt", "deep/c.md"] { try folder.write(name, "\(name)\n") }
    _ = try push()
    _ = try push()
    #expect(try folder.reading { try $0.store.bindings().allSatisfy { $0.identity == nil } })
    // A remount gives every file another inode.
    for path in folder.files() {
      let bytes = try #require(folder.bytes(path))
      try folder.delete(path)
      try folder.write(path, bytes: bytes)
    }
    bench.transport.clear()
    let after = try push()
    #expect(after.scan.unchanged == 3 && after.scan.created == 0 && after.scan.missing == 0, "\(after.scan)")
    // A rename is still followed, by the id in the file.
    try folder.rename("a.md", to: "renamed.md")
    #expect(try push().scan.renamed == 1)
    #expect(bench.writes.allSatisfy { $0.hasPrefix("PATCH /edges") }, "\(bench.writes)")
    #expect(try bench.titles().count == 3)
  }

  @Test("ST6 the store's own inode changing there is no other directory; another folder's claim in its place is")
  func root() throws {
    let bench = try FolderBench()
    let (folder, folders) = try folder(bench, .networkFileSystem(kind: "nfs4"))
    try folder.write("a.md", "A.\n")
    try folders().working(folder.root, "test") { engine in
      #expect(engine.rootGone() == nil)
      // The server of the file system was started anew: other inodes, the same files.
      let store = folder.path(".marfa/core.sqlite")
      let bytes = try #require(folder.disk.read(store))
      try folder.disk.delete(store)
      try folder.disk.write(store, bytes)
      #expect(engine.rootGone() == nil)
      // A copy of the folder, worked by nobody, stands at its path.
      try folder.disk.rename(folder.root, to: folder.root.parent.appending("Away"))
      try folder.disk.write(store, bytes)
      #expect(engine.rootGone() != nil)
    }
  }

  @Test("ST6 a placeholder for a file that is not downloaded is not read as it, and the file is not missing")
  func placeholder() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, BytesScenarios.all)
    try folder.write("photo.png", bytes: BytesScenarios.png)
    try folder.write("note.md", "Note.\n")
    try folder.push()
    try folder.push()
    let titles = try bench.titles()
    try folder.delete("photo.png")
    try folder.delete("note.md")
    try folder.write("photo.png.nextcloud", "")
    try folder.write("note.md.nextcloud", "stand-in\n")
    try folder.write("other.png.nextcloud", "stand-in\n")
    bench.transport.clear()
    for _ in 1...3 {
      let push = try folder.push()
      #expect(push.scan.unreached == 2 && push.scan.missing == 0 && push.scan.created == 0, "\(push.scan)")
      #expect(push.scan.skipped == 3)
      folder.grace()
    }
    #expect(try bench.writes.isEmpty && bench.titles() == titles)
    let status = try #require(try folder.status(of: "photo.png"))
    #expect(status.state == .unreached && status.reason?.contains("not downloaded") == true)
    #expect(folder.files() == ["note.md.nextcloud", "other.png.nextcloud", "photo.png.nextcloud"])
  }

  @Test("ST6 on such storage the store keeps a rollback journal and no shared memory")
  func rollbackJournal() throws {
    let scratch = try ScratchDirectory()
    let path = scratch.at("core.sqlite")
    let clock = SystemClock()
    let context = Context(
      clock: clock, ids: SystemIds(clock: clock), files: SystemFileSystem(), transport: CurlTransport(),
      scheduler: SystemScheduler(), log: SilentLog())
    func open(_ shares: Bool) throws -> WorkingCopy {
      try WorkingCopy.open(
        database: try Database(path: path, mode: .create), blobs: MemoryBlobStore(), context: context, role: .writer,
        endpoint: nil, credentials: nil, sharesMemory: shares)
    }
    // One that had a write-ahead log is turned over, and back.
    for shares in [true, false, true] {
      let copy = try open(shares)
      let mode = try copy.database.one("PRAGMA journal_mode") { $0.string(0) }
      #expect(mode == (shares ? "wal" : "delete"))
      #expect(try copy.storeID() != nil)
      if !shares {
        #expect(!names(of: scratch.path).contains { $0.hasSuffix("-shm") }, "\(names(of: scratch.path))")
        // Meanwhile a reader is refused, as status may be (ST6).
        let reader = try Database(path: path, mode: .readOnly)
        #expect(throws: SQLiteError.self) { try reader.one("SELECT count(*) FROM sqlite_master") { $0.int(0) } }
      }
      withExtendedLifetime(copy) {}
    }
  }
}

/// A file system whose type is told by a number alone.
private struct NumberedFiles: FileSystem {
  let inner: any FileSystem
  let number: UInt64

  init(_ inner: any FileSystem, _ number: UInt64) {
    self.inner = inner
    self.number = number
  }

  func openDirectory(_ path: PathBytes) throws(FileError) -> any Directory { try inner.openDirectory(path) }
  func resolve(_ path: PathBytes) throws(FileError) -> PathBytes { try inner.resolve(path) }
  func makeDirectories(_ path: PathBytes, mode: UInt32) throws(FileError) -> [PathBytes] {
    try inner.makeDirectories(path, mode: mode)
  }
  func status(_ path: PathBytes) throws(FileError) -> FileStatus? { try inner.status(path) }
  func typeNumber(of path: PathBytes) -> UInt64? { number }
  func lockFile(_ name: PathBytes, in directory: any Directory, create: Bool) throws(FileError) -> (any LockFile)? {
    try inner.lockFile(name, in: directory, create: create)
  }
  var writer: (pid: Int32, start: UInt64) { inner.writer }
  func state(ofWriter pid: Int32, start: UInt64?) -> WriterState { inner.state(ofWriter: pid, start: start) }
}
