import MarfaBase
import MarfaCopy
import Testing
import TestSupport

@Suite struct SearchTests {
  private static func bench() throws -> (CopyBench, Set<EntityID>) {
    let bench = try CopyBench()
    var ids: Set<EntityID> = []
    ids.insert(try bench.note("Running shoes", body: "He runs <fast> & far."))
    ids.insert(try bench.note("Runner", body: "A well-known man."))
    ids.insert(try bench.note("Über", body: "Tea and cake", tags: ["run"]))
    try bench.fill()
    return (bench, ids)
  }

  @Test("D55.4 D55.5 SF22.4 words are stemmed, all must match, the last is a prefix")
  func stems() throws {
    let (bench, _) = try SearchTests.bench()
    func found(_ words: Text) throws -> Set<Text> { Set(titles(try bench.copy.search(words).map(\.item))) }
    #expect(try found("run shoes") == ["Running shoes"])
    #expect(try found("run sho") == ["Running shoes"])
    #expect(try found("runner") == ["Runner"])
    #expect(try found("tea ca") == ["Über"])
    #expect(try found("uber") == ["Über"])
    #expect(try found("well-known") == ["Runner"])
  }

  @Test("D55.6 D55.7 D55.8 a phrase is adjacent, operators are words, no word matches nothing")
  func phrases() throws {
    let (bench, _) = try SearchTests.bench()
    #expect(try bench.copy.search("\"tea and cake\"").count == 1)
    #expect(try bench.copy.search("\"tea cake\"").isEmpty)
    #expect(try bench.copy.search("tea OR shoes").isEmpty)
    #expect(try bench.copy.search(" \u{FEFF} tea \u{FEFF}").count == 1)
    for words in ["", "  ", "*", "\"", "-", "\"\"", "title:"] as [Text] {
      #expect(try bench.copy.search(words).isEmpty || words == "title:")
    }
    var query = ListQuery()
    query.filter = "nonsense"
    #expect(bench.refusal { _ = try bench.copy.search("", query) }?.code == .validation)
  }

  @Test("D55.10 SF24.2 the snippet marks what matched and escapes the rest")
  func snippets() throws {
    let (bench, _) = try SearchTests.bench()
    let hit = try #require(try bench.copy.search("far").first)
    #expect(hit.snippet == "He runs &lt;fast&gt; &amp; <mark>far</mark>.")
    #expect(hit.score > 0)
  }

  @Test("D33.1 a row leaves the index with the bin and returns with its restore; an edit is found at once")
  func bin() throws {
    let (bench, ids) = try SearchTests.bench()
    let id = try #require(try bench.copy.search("cake").first).item.id
    #expect(ids.contains(id))
    try bench.ask("DELETE", "/items/\(id)?version=1")
    try bench.copy.catchUp()
    #expect(try bench.copy.search("cake").isEmpty)
    try bench.ask("POST", "/items/\(id)/restore", [:])
    try bench.copy.catchUp()
    #expect(try bench.copy.search("cake").count == 1)
    try bench.ask("PATCH", "/items/\(id)", ["version": 1, "properties": ["body": "Bread"]])
    try bench.copy.catchUp()
    #expect(try bench.copy.search("cake").isEmpty && bench.copy.search("bread").count == 1)
  }
}
