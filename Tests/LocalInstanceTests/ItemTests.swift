import LocalInstance
import MarfaBase
import Testing

@Suite("Items")
struct ItemTests {
  @Test("I-S1 I-S2 a note is made with its defaults and read back the same")
  func create() throws {
    let bench = try Bench()
    let made = bench.send("POST", "/items", ["type": "core.note", "properties": ["body": "Flour", "title": "Bread"]])
    expect(made, 201)
    #expect(made.item["version"]?.int == 1)
    #expect(made.item["state"]?.text == "active")
    #expect(EntityID(Text(made.id))?.isVersion7 == true)
    #expect(made.json["metadata"]?["tags"]?.array?.isEmpty == true)
    let read = bench.send("GET", "/items/\(made.id)")
    #expect(read.json == made.json)
    #expect(read.response.header("X-Marfa-Contract") == "0")
  }
}
