import MarfaBase
import Testing

@Suite("Values")
struct ValueTests {
  @Test("an id is read in either case, written in lower case, and ordered as its text")
  func ids() {
    let text = "018F0000-0000-7000-8000-00000000F001"
    let id = EntityID(text)
    #expect(id?.description == "018f0000-0000-7000-8000-00000000f001")
    #expect(id?.isVersion7 == true)
    for bad in [
      "", "018f0000", "018f0000-0000-7000-8000-00000000f0012", "018f0000-0000-7000-8000-00000000f00g",
      "018f00000-000-7000-8000-00000000f001",
    ] {
      #expect(EntityID(bad) == nil)
    }
    let made = EntityID.version7(at: Timestamp(milliseconds: 1_700_000_000_000), random: (0xFFFF, .max))
    #expect(made.isVersion7)
    #expect(made.description.hasPrefix("018bcfe5-6800-7fff-bfff"))
  }

  @Test(
    "times are written in UTC with milliseconds",
    arguments: [
      (0, "1970-01-01T00:00:00.000Z"), (-1, "1969-12-31T23:59:59.999Z"), (951_782_400_000, "2000-02-29T00:00:00.000Z"),
      (1_927_771_506_789, "2031-02-02T04:05:06.789Z"), (-62_167_219_200_000, "0000-01-01T00:00:00.000Z"),
    ])
  func times(milliseconds: Int64, text: String) {
    #expect(Timestamp(milliseconds: milliseconds).description == text)
  }

  @Test("day numbers and dates are each other's inverse over four hundred years and more")
  func days() {
    for day in stride(from: Int64(-800_000), through: 800_000, by: 97) {
      let date = Timestamp.civil(day)
      #expect(Timestamp.dayNumber(year: date.year, month: date.month, day: date.day) == day)
    }
  }

  @Test("F27.1 names are one in any case and Unicode form")
  func nameKeys() {
    #expect(NameKey("Café.md" as Text) == NameKey("CAFE\u{301}.MD" as Text))
    #expect(NameKey("STRASSE" as Text) == NameKey("straße" as Text))
    #expect(NameKey("ΣΑΣ" as Text) == NameKey("σας" as Text))
    #expect(NameKey("ǰ" as Text) == NameKey("J\u{30C}" as Text))
    #expect(NameKey("a" as Text) != NameKey("b" as Text))
    #expect(NameKey([0xFF, 0x41]) == NameKey([0xFF, 0x41]))
  }

  @Test("text compares by bytes: NFC and NFD are two keys")
  func text() {
    let composed: Text = "é"
    let decomposed: Text = "e\u{301}"
    #expect(composed != decomposed)
    #expect([composed: 1, decomposed: 2].count == 2)
    #expect(("😀a" as Text).utf16Count == 3)
  }

  @Test("paths take themselves apart by bytes")
  func paths() {
    let path: PathBytes = "Notes/Deep/Plan.tar.gz"
    #expect(path.name == "Plan.tar.gz")
    #expect(path.parent == "Notes/Deep")
    #expect(path.fileExtension == "gz")
    #expect((".hidden" as PathBytes).fileExtension == nil)
    #expect(("Notes" as PathBytes).contains("Notes/Plan.md"))
    #expect(!("Notes" as PathBytes).contains("Notes2"))
    #expect(PathBytes(bytes: [0x61, 0xE9, 0x62]).description == "a%E9b")
    #expect(("/a" as PathBytes).parent == "/")
  }

  @Test("SHA-256 of known bytes")
  func hashes() {
    #expect(ContentHash(of: []).hex == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    let hash = ContentHash(of: Array("abc".utf8))
    #expect(hash.hex == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    #expect(ContentHash(hash.text) == hash)
    #expect(ContentHash("sha256:xyz" as Text) == nil)
  }
}
