import LocalInstance
import MarfaBase
import Testing

@Suite("The index of titles")
struct TitleIndexTests {
  let bench: Bench
  init() throws { bench = try Bench() }

  private func ids(_ filter: String, _ more: String = "") -> [String] {
    let escaped = filter.utf8.map { byte in
      let digits = String(byte, radix: 16, uppercase: true)
      return isPlain(byte) ? String(decoding: [byte], as: UTF8.self) : "%" + (byte < 16 ? "0" : "") + digits
    }.joined()
    let answer = bench.send("GET", "/items?limit=200&state=any&filter=\(escaped)\(more)")
    expect(answer, 200)
    return answer.data.compactMap { $0.string("id") }
  }

  private func isPlain(_ byte: UInt8) -> Bool {
    (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
  }

  private func thing(_ title: JSON) -> String {
    bench.create("acme.thing", ["title": title, "other": title]).id
  }

  /// A property that is not indexed so is compared row by row: a title has to find the same rows.
  private func agree(_ literals: [String]) {
    for literal in literals {
      for word in ["contains", "starts_with"] {
        let found = ids("properties.title \(word) \"\(literal)\"")
        #expect(found == ids("properties.other \(word) \"\(literal)\""), "\(word) \(literal)")
      }
    }
  }

  @Test(
    "SF16 SF21.6 contains and starts_with on a title find what they find on any property, as titles come, change and go"
  )
  func agreement() throws {
    expect(bench.send("POST", "/types", ["id": "acme.thing", "fields": [:]]), 201)
    let titles: [JSON] = [
      "Plan", "PLAN b", "a plan of plans", "100% sure", "snake_case", "back\\slash", #"say "when" now"#, "Äpfel und Öl",
      "äpfel", "日本語の題", "日本", "ab", "", "  spaced  out", .int(12345), try JSON(parsing: "1.5"), true,
      ["planned", 12345], ["plan": "x"], nil,
      .string(String(repeating: "long plan ", count: 40) + "end"), "K\u{212A}elvin", "ﬁnal",
    ]
    let made = titles.map(thing)
    let literals = [
      "plan", "PLAN", "lan", "an b", "0% s", "e_c", "k\\s", #"y \"wh"#, "pfel", "Äpf", "äpf", "本語の", "日本語", "ab", "a",
      "", "  s", "12345", "234", "1.5", "true", "1", "[\\\"pla", "g plan end", "plan end", "elvin", "kel", "ﬁn", "zzz",
      "xyz",
      String(repeating: "long plan ", count: 6),
    ]
    agree(literals)
    #expect(ids("properties.title contains \"plan\"").count == 6)
    // Changed, made anew, purged; and a title that was none before.
    func set(_ id: String, _ version: Int, _ title: JSON) {
      expect(bench.patch(id, version, ["properties": ["title": title, "other": title]]), 200)
    }
    set(made[0], 1, "Xyzzy")
    set(made[11], 1, "planned now")
    set(made[19], 1, "planned late")
    expect(bench.delete(made[1]), 200)
    expect(bench.purge(made[1]), 200)
    _ = thing("another plan")
    agree(literals)
    set(made[0], 2, "plan again")
    bench.instance.tick()
    agree(literals + ["again"])
    #expect(ids("properties.title contains \"again\"") == [made[0]])
  }

  @Test("a title that many rows hold is looked for in the listing's own order, and pages go on")
  func many() throws {
    let items: [JSON] = (0..<500).map { place in
      ["type": "core.note", "properties": ["title": .string("Note \(place)"), "body": "b"]]
    }
    for _ in 0..<5 { expect(bench.bulk(.array(items)), 200) }
    #expect(ids("properties.title contains \"Note\"").count == 200)
    #expect(ids("properties.title contains \"Note 49\"").count == 55)
    #expect(ids("properties.title contains \"ote 499\"").count == 5)
  }

  @Test("it is what is read: a filter on a title reads no other row")
  func isRead() throws {
    _ = bench.create("core.note", ["title": "a plan", "body": "b"])
    #expect(ids("properties.title contains \"plan\"").count == 1)
    try bench.database.execute("DELETE FROM title_gram")
    #expect(ids("properties.title contains \"plan\"").isEmpty)
    #expect(ids("properties.title contains \"pl\"").count == 1)
  }

  @Test("P4.1 IN7.3 a database made before the index gets one, with the titles it holds")
  func earlier() throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let path = scratch.path.appending("core.sqlite").description
    let id = try Bench(path: path).create("core.note", ["title": "a plan", "body": "b"]).id
    let database = try Database(path: path, mode: .readWrite)
    try database.execute("DROP TABLE title_gram; DROP TABLE title_changed; PRAGMA user_version = 3")
    let again = try Bench(path: path, seed: 8)
    let found = again.send("GET", "/items?filter=properties.title%20contains%20%22plan%22")
    #expect(found.data.compactMap { $0.string("id") } == [id])
    #expect(try database.one("PRAGMA user_version") { $0.int(0) } == 5)
  }

  @Test("I0.8 SF10 rows of a page are byte for byte those of a read: places, natural keys, extensions, edges, the bin")
  func pages() throws {
    let plain = bench.noteID()
    let full = bench.create(
      "core.note", ["body": "b\n\"q\"", "title": "é"],
      [
        "source_id": "k\"ey", "capture_latitude": try JSON(parsing: "1.5"),
        "capture_longitude": try JSON(parsing: "-0.25"), "tags": ["one", "two"],
        "occurred_at": "1969-12-31T23:59:59.001Z",
      ]
    ).id
    expect(bench.send("PUT", "/items/\(full)/extensions/acme.x", ["a": 1]), 200)
    expect(bench.edge(full, "about", plain), 201)
    let parent = bench.noteID()
    bench.parent(parent, plain)
    for _ in 0..<2 {
      let page = bench.send("GET", "/items?state=any&include=metadata,edges").response
      let text = String(decoding: page.body, as: UTF8.self)
      for id in [plain, full, parent] {
        let rows = bench.send("GET", "/items?state=any&limit=200&include=metadata,edges").data
        let row = try #require(rows.first { $0["item"]?.string("id") == id })
        if bench.state(id) == "active" {
          let read = bench.read(id)
          #expect(String(decoding: read.response.body, as: UTF8.self) == row.compact)
        }
        #expect(text.contains(row.compact))
      }
      // The second round with a cascade in the bin.
      expect(bench.delete(parent), 200)
      let binned = try #require(bench.listed(plain))
      #expect(binned["trashed_by_cascade"]?.bool == true && binned.string("trashed_with") == parent)
      expect(bench.restore(parent), 200)
    }
  }
}
