import CSQLite
import FolderSync
import Glibc
import MarfaBase
import MarfaCopy
import Synchronization
import TestSupport
import Testing

/// One call of the disk fails amid a sync, each in turn, with what a disk answers in trouble: the sync ends with an error or
/// a file held, and those after it come to what an untroubled one comes to. Nothing is lost, nothing doubled.
struct CallFaultTests {
  /// How a call fails: it alone, or every later one of its kind in that sync as well.
  enum Trouble: CaseIterable {
    case once, fromThenOn
  }

  @Test(
    "A sync in which one call of the disk fails comes to what an untroubled one comes to", arguments: Trouble.allCases)
  func eachCall(_ trouble: Trouble) throws {
    try eachCall(trouble, step: 29) { try TroubledDay().outcome(disk: $0) }
  }

  @Test(
    "Syncs of two folders in which one call of the disk fails bring each file where untroubled ones bring it",
    arguments: Trouble.allCases, [false, true])
  func eachCallBetween(_ trouble: Trouble, _ otherVolume: Bool) throws {
    try eachCall(trouble, step: 41) { try TroubledMove(otherVolume: otherVolume).outcome(disk: $0) }
  }

  private func eachCall<Outcome: Equatable>(
    _ trouble: Trouble, step: Int, _ outcome: (Faults) throws -> Outcome
  ) throws {
    let calls = Mutex<[FileOperation]>([])
    let expected = try outcome(
      Faults { call in
        calls.withLock { $0.append(call.operation) }
        return .proceed
      })
    let made = calls.withLock { $0 }
    #expect(made.count > 200)
    // Every call by hand, with `MARFA_EVERY_CALL` set; a few of each trouble at each run of the tests.
    let isWhole = getenv("MARFA_EVERY_CALL") != nil
    for number in stride(
      from: isWhole || trouble == .once ? 0 : step / 2, to: made.count, by: isWhole ? 1 : step)
    {
      let codes = Self.codes(made[number])
      let code = codes[number % codes.count]
      let next = Mutex(0)
      let faults = Faults { call in
        let mine = next.withLock { next in
          defer { next += 1 }
          return next
        }
        if mine == number { return .fail(code) }
        return trouble == .fromThenOn && mine > number && call.operation == made[number] ? .fail(code) : .proceed
      }
      let place = "call \(number), \(made[number].rawValue), \(String(cString: strerror(code)))"
      do {
        let got = try outcome(faults)
        #expect(got == expected, "\(place)")
      } catch { Issue.record(error, "\(place)") }
    }
  }

  @Test(
    "A sync in which one call to the store fails comes to what an untroubled one comes to", arguments: Trouble.allCases,
    [SQLITE_FULL, SQLITE_IOERR])
  func eachStoreCall(_ trouble: Trouble, _ code: Int32) throws {
    var count = 0
    let faults = StoreFaults()
    let expected = try TroubledDay(storeFaults: faults).outcome(store: faults) {
      count += 1
      return nil
    }
    #expect(count > 100)
    let isWhole = getenv("MARFA_EVERY_CALL") != nil
    let first = isWhole ? 0 : (trouble == .once ? 0 : 3) + (code == SQLITE_FULL ? 1 : 0)
    for number in stride(from: first, to: count, by: isWhole ? 7 : max(1, count / 5)) {
      var next = 0
      let faults = StoreFaults()
      do {
        let day = try TroubledDay(storeFaults: faults)
        let got = try day.outcome(store: faults) {
          defer { next += 1 }
          return next == number || trouble == .fromThenOn && next > number ? code : nil
        }
        #expect(got == expected, "store call \(number) of \(count)")
      } catch { Issue.record(error, "store call \(number) of \(count)") }
    }
  }

  @Test(
    "A file whose note moved elsewhere and that cannot be taken away is held with the reason, and is no second note")
  func leftover() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("Eta.md", "Of eta.\n")
    try folder.push()
    let item = try #require(try bench.ids("Eta").first)
    let other = try KeptFolder(bench, following: folder.id, machine: bench.machine("ben"))
    try other.push()
    try other.rename("Eta.md", to: "moved/Eta.md")
    try other.push()

    folder.machine.faults = Faults.failing(.unlink, name: "Eta.md", code: EROFS)
    let first = try folder.push()
    #expect(first.pull?.flagged.map { "\($0.path) \($0.flag)" } == ["Eta.md unwritten"])
    for _ in 0..<2 {
      let later = try folder.push()
      #expect(later.scan.created == 0)
      #expect(later.scan.flagged.map { "\($0.path) \($0.flag)" } == ["Eta.md unwritten"])
      #expect(later.scan.flagged.first?.reason.contains("its note is moved/Eta.md now") == true)
    }
    #expect(try folder.status(of: "Eta.md")?.state == .held)
    #expect(try folder.status(of: "moved/Eta.md")?.item == item.description)

    folder.machine.restart()
    try folder.push()
    #expect(folder.files() == ["moved/Eta.md"])
    #expect(try bench.ids("Eta") == [item])

    // What a person made of it meanwhile is theirs.
    try other.rename("moved/Eta.md", to: "again/Eta.md")
    try other.push()
    folder.machine.faults = Faults.failing(.unlink, name: "Eta.md", code: EROFS)
    try folder.push()
    folder.machine.restart()
    try folder.append("moved/Eta.md", "Mine.\n")
    try folder.push()
    #expect(folder.text("moved/Eta.md")?.contains("Mine.") == true)
    #expect(folder.files() == ["again/Eta.md", "moved/Eta.md"])
  }

  /// What a call of this kind fails with on disks people have.
  private static func codes(_ operation: FileOperation) -> [Int32] {
    switch operation {
    case .openDirectory, .resolve, .statusOfPath, .list, .status, .open, .read, .attributes, .lock:
      [EIO, ESTALE, EACCES, ENOMEM]
    case .close, .sync, .syncDirectory: [EIO, ENOSPC, EDQUOT, ESTALE]
    default: [ENOSPC, EDQUOT, EIO, EROFS, ESTALE]
    }
  }
}
