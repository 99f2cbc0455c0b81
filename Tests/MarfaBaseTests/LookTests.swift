import Glibc
import MarfaBase
import TestSupport
import Testing

/// A database read without a byte changed beside it (X12.4, D41.1).
@Suite struct LookTests {
  private static let name = "odd #name?%.sqlite"
  private let scratch: ScratchDirectory
  private var path: String { scratch.at(Self.name) }

  init() throws {
    scratch = try ScratchDirectory()
    let writer = try Database(path: path, mode: .create)
    try writer.execute("PRAGMA journal_mode = WAL; CREATE TABLE word (name TEXT); INSERT INTO word VALUES ('one')")
  }

  private func words(_ database: Database) throws -> [String] {
    try database.all("SELECT name FROM word ORDER BY rowid") { $0.string(0) }
  }

  private struct Seen: Equatable {
    var names: [String]
    var bytes: [[UInt8]?]
    var times: [Int]

    init(_ directory: ScratchDirectory) {
      names = directory.files().sorted()
      bytes = names.map { directory.bytes($0) }
      times = ([""] + names).map { name in
        var found = stat()
        stat(directory.at(name), &found)
        return found.st_mtim.tv_nsec + found.st_mtim.tv_sec * 1_000_000_000
      }
    }
  }

  /// The files as a writer leaves them that is killed after its save.
  private func killed(_ endings: [String]) throws -> ScratchDirectory {
    let writer = try Database(path: path, mode: .readWrite)
    try writer.run("INSERT INTO word VALUES ('logged')")
    let image = try ScratchDirectory()
    for ending in endings { try image.write(Self.name + ending, try #require(scratch.bytes(Self.name + ending))) }
    return image
  }

  @Test("X12.4 a store nobody has open is read with nothing made beside it; a save by another is in the next read")
  func alone() throws {
    let before = Seen(scratch)
    #expect(before.names == [Self.name])
    let look = try Database(path: path, mode: .look)
    #expect(try words(look) == ["one"])
    #expect(Seen(scratch) == before)
    #expect(throws: SQLiteError.self) { try look.run("INSERT INTO word VALUES ('never')") }
    #expect(Seen(scratch) == before)
    do {
      let writer = try Database(path: path, mode: .readWrite)
      try writer.run("INSERT INTO word VALUES ('two')")
      #expect(try words(look) == ["one", "two"])
      try writer.run("INSERT INTO word VALUES ('three')")
      #expect(try words(look) == ["one", "two", "three"])
    }
    #expect(try words(look) == ["one", "two", "three"] && look.reopenings > 0)
  }

  @Test("X12.4 a store whose writer was killed is read with its log, and nothing of it changes")
  func dead() throws {
    let image = try killed(["", "-wal", "-shm"])
    let before = Seen(image)
    do { #expect(try words(try Database(path: image.at(Self.name), mode: .look)) == ["one", "logged"]) }
    #expect(Seen(image) == before)
  }

  @Test("X12.4 a log without its index, as in a copied directory, is read with it and left as it is")
  func copied() throws {
    let image = try killed(["", "-wal"])
    let before = Seen(image)
    do { #expect(try words(try Database(path: image.at(Self.name), mode: .look)) == ["one", "logged"]) }
    #expect(Seen(image) == before)
  }

  @Test("ST6 X12.4 a transaction under way in a rollback journal is never read as saved")
  func journaled() throws {
    let place = try ScratchDirectory()
    let path = place.at("store.sqlite")
    let writer = try Database(path: path, mode: .create)
    // So that what is not saved yet stands in the file already.
    try writer.execute(
      "PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1; PRAGMA cache_spill = 1; CREATE TABLE word (name TEXT)")
    try writer.run("INSERT INTO word VALUES ('one')")
    let image = try ScratchDirectory()
    try writer.transaction {
      for number in 0..<2000 {
        try writer.run("INSERT INTO word VALUES (?)", "unsaved \(number) and long enough to spill")
      }
      for name in place.files() { try image.write(name, try #require(place.bytes(name))) }
    }
    #expect(image.files().contains("store.sqlite-journal"))
    let before = Seen(image)
    #expect(throws: SQLiteError.self) { try words(try Database(path: image.at("store.sqlite"), mode: .look)) }
    #expect(Seen(image) == before)
    #expect(try words(try Database(path: path, mode: .look)).count == 2001)
  }

  @Test("X12.4 an empty log, as a cut short opening leaves it, is no log")
  func emptyLog() throws {
    try scratch.write(Self.name + "-wal", "")
    let before = Seen(scratch)
    do { #expect(try words(try Database(path: path, mode: .look)) == ["one"]) }
    #expect(Seen(scratch) == before)
  }
}
