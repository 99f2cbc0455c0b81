import MarfaBase
import Testing

@Suite struct JSONScanTests {
  /// What a scan makes of a text: whether it passes over all of it, and whether it says that nothing of it would be written
  /// otherwise.
  private func scanned(_ bytes: [UInt8]) -> (isPassed: Bool, isFlat: Bool) {
    bytes.withUnsafeBufferPointer { buffer in
      var (one, other) = (JSONScan(buffer), JSONScan(buffer))
      return (one.skip() && one.isAtEnd, other.skipFlat() && other.isAtEnd)
    }
  }

  @Test(
    "texts it takes are written as they stand",
    arguments: [
      #"{"a":1}"#, #"[1,-0.5e+10,"é\n\"\\",true,false,null,[]]"#, "0", #""""#, #""\b\f\n\r\t\"\\""#,
      "\"\u{7F}\u{FFFF}😀\"",
      "12345678901234567890", "1E5",
    ])
  func taken(_ text: String) throws {
    #expect(scanned(Array(text.utf8)).isPassed)
    #expect(try JSON(parsing: text).compact == text)
  }

  @Test(
    "texts it leaves to the reader of whole texts",
    arguments: [
      "", " 1", "[1, 2]", #"{"a" :1}"#, #""\/""#, #""\u0041""#, #""\ud800""#, "01", "1.", "-", "tru", "[1,]",
      "{\"a\":1,}",
      "\"\u{1}\"", "\"", "nul", "[", "{", #"{"a"}"#, #"{"\n":1}"#, "1x", "\"\\", "1e",
    ])
  func left(_ text: String) { #expect(!scanned(Array(text.utf8)).isPassed) }

  @Test("an object within makes a text one that may be written otherwise")
  func objects() {
    #expect(!scanned(Array(#"{"a":1}"#.utf8)).isFlat)
    #expect(!scanned(Array(#"[[{}]]"#.utf8)).isFlat)
    #expect(scanned(Array(#"[["a"],1]"#.utf8)).isFlat)
  }

  @Test("texts deeper than it goes are left, not overrun")
  func depth() {
    let deep = [UInt8](repeating: UInt8(ascii: "["), count: 100_000)
    #expect(!scanned(deep).isPassed)
    #expect(!scanned(deep + [UInt8](repeating: UInt8(ascii: "]"), count: 100_000)).isPassed)
  }

  @Test("counts are whole numbers without a sign")
  func counts() {
    func count(_ text: String) -> Int? {
      Array(text.utf8).withUnsafeBufferPointer { buffer in
        var scan = JSONScan(buffer)
        return scan.count()
      }
    }
    #expect(count("0,") == 0)
    #expect(count("123456789012345678,") == 123_456_789_012_345_678)
    for text in ["", "-1,", "01,", "1.0,", "1e2,", "1234567890123456789,", "x,", "7"] { #expect(count(text) == nil) }
  }

  @Test("whatever it takes, the reader takes, and writes again byte for byte where nothing is an object")
  func agrees() throws {
    var random = SplitMix(seed: 0x5CA4)
    let seeds = [
      #"{"item":{"id":"a","n":[1,2.5,-3e7],"t":"é\n\"x\\"},"listed":true,"x":null}"#,
      #"["plain text","ü",[false,[]],0]"#,
    ].map { Array($0.utf8) }
    let marks = Array("{}[]\",:\\ntu0e.-\u{0}\u{1F} ".utf8) + [0x80, 0xC3, 0xA9, 0xED, 0xA0, 0xFF]
    var passed = 0
    for turn in 0..<40_000 {
      var bytes = seeds[turn % seeds.count]
      for _ in 0..<Int.random(in: 0...2, using: &random) {
        let place = Int.random(in: 0..<bytes.count, using: &random)
        switch Int.random(in: 0..<3, using: &random) {
        case 0: bytes[place] = marks.randomElement(using: &random) ?? 0
        case 1: bytes.remove(at: place)
        default: bytes.insert(marks.randomElement(using: &random) ?? 0, at: place)
        }
      }
      let (isPassed, isFlat) = scanned(bytes)
      guard isPassed else { continue }
      passed += 1
      let read = try JSON(parsing: bytes)
      if isFlat { #expect(read.write() == bytes) }
    }
    #expect(passed > 5000)
  }
}
