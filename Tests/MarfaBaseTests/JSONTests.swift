import MarfaBase
import Testing

@Suite("JSON")
struct JSONTests {
  @Test(
    "numbers keep their text",
    arguments: ["0", "-0", "0.1", "1.0", "9007199254740993", "12345678901234567890", "1e400", "-1.50E+3", "1.10"])
  func numbersSurvive(text: String) throws {
    #expect(try JSON(parsing: text).compact == text)
  }

  @Test(
    "doubles are written as JavaScript writes them",
    arguments: [
      (0.1, "0.1"), (1.0, "1"), (-0.0, "0"), (1e21, "1e+21"), (1e20, "100000000000000000000"), (1e-6, "0.000001"),
      (1e-7, "1e-7"), (1.5e-9, "1.5e-9"), (123456789012345680000.0, "123456789012345680000"), (1.25e22, "1.25e+22"),
      (-12.5, "-12.5"), (Double.leastNonzeroMagnitude, "5e-324"), (0.00001, "0.00001"), (100.0, "100"),
    ])
  func javaScript(value: Double, text: String) {
    #expect(JSONNumber(value)?.literal == text)
  }

  @Test("numbers are equal by value, whatever their spelling")
  func numberEquality() throws {
    #expect(try JSON(parsing: "[1, 1.0, 10e-1, 0.1e1]").array?.allSatisfy { $0 == 1 } == true)
    #expect(try JSON(parsing: "9007199254740993") != JSON(parsing: "9007199254740992"))
    #expect(try JSON(parsing: "-0") == 0)
    #expect(try JSON(parsing: "1e1000000000000000000000") != JSON(parsing: "1"))
  }

  @Test("whole numbers are read from any spelling, and only those that fit")
  func integers() throws {
    #expect(try JSON(parsing: "3.0").int == 3)
    #expect(try JSON(parsing: "3e2").int == 300)
    #expect(try JSON(parsing: "1.5").int == nil)
    #expect(try JSON(parsing: "9223372036854775808").int == nil)
    #expect(try JSON(parsing: "-9223372036854775808").int == Int.min)
  }

  @Test("strings keep NUL, lone surrogates and both Unicode forms apart")
  func strings() throws {
    let text = "{\"a\\u0000b\":\"\\ud800x\",\"\u{E9}\":\"NFC\",\"e\u{301}\":\"NFD\",\"\\ud83d\\ude00\":1}"
    let value = try JSON(parsing: text)
    #expect(value.object?.count == 4)
    #expect(
      Text(bytes: value.write())
        == "{\"a\\u0000b\":\"\\ud800x\",\"\u{E9}\":\"NFC\",\"e\u{301}\":\"NFD\",\"😀\":1}" as Text)
    #expect(try JSON(parsing: value.write()) == value)
  }

  @Test("a repeated key keeps its first place and its last value")
  func repeatedKeys() throws {
    #expect(try JSON(parsing: #"{"a":1,"b":2,"a":3}"#).compact == #"{"a":3,"b":2}"#)
  }

  @Test("objects are equal in any order, lists in theirs")
  func equality() throws {
    #expect(try JSON(parsing: #"{"a":1,"b":[1,2]}"#) == JSON(parsing: #"{"b":[1.0,2],"a":1}"#))
    #expect(try JSON(parsing: "[1,2]") != JSON(parsing: "[2,1]"))
  }

  @Test(
    "what is no JSON is refused, with its place",
    arguments: [
      "", " ", "{", "[1,]", "{\"a\"}", "01", "1.", "-", "\"\u{1}\"", "\"\\x\"", "\"\\u12\"", "nul", "true false",
      "\u{FEFF}1", "{1:2}", "'a'", "[1 2]", ".5", "+1", "NaN",
    ])
  func refused(text: String) {
    #expect(throws: JSONError.self) { try JSON(parsing: text) }
  }

  @Test(
    "bytes that are no UTF-8 are refused",
    arguments: [[0xC0, 0x80], [0xED, 0xA0, 0x80], [0xF5, 0x80, 0x80, 0x80], [0x80]])
  func invalidUTF8(bytes: [UInt8]) {
    #expect(throws: JSONError.self) { try JSON(parsing: [0x22] + bytes + [0x22]) }
  }

  @Test("nesting stops at the depth asked for")
  func depth() throws {
    let deep = [UInt8](repeating: UInt8(ascii: "["), count: 100_000)
    #expect(throws: JSONError.self) { try JSON(parsing: deep) }
    #expect(try JSON(parsing: Array("[[1]]".utf8), depth: 2) == [[1]])
    #expect(throws: JSONError.self) { try JSON(parsing: Array("[[[1]]]".utf8), depth: 2) }
  }

  @Test("an object of many members finds, replaces and loses them")
  func largeObject() {
    var object = JSONObject()
    for index in 0..<100 { object[Text("k\(index)")] = .int(index) }
    object["k50"] = nil
    object["k99"] = "last"
    #expect(object.count == 99)
    #expect(object["k50"] == nil)
    #expect(object["k51"] == 51)
    #expect(object.members.last?.value == "last")
  }

  @Test("pretty printing indents by two and keeps empty ones short")
  func pretty() throws {
    let value = try JSON(parsing: #"{"a":[1,{"b":[]}],"c":{}}"#)
    #expect(
      String(decoding: value.writePretty(), as: UTF8.self)
        == "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": {}\n}")
  }

  @Test("random values come back from their text as they were")
  func roundTrip() throws {
    var generator = SplitMix(seed: 7)
    for _ in 0..<2_000 {
      let value = randomJSON(&generator, depth: 4)
      #expect(try JSON(parsing: value.write()) == value)
      #expect(try JSON(parsing: value.writePretty()) == value)
    }
  }
}

struct SplitMix: RandomNumberGenerator {
  var state: UInt64
  init(seed: UInt64) { state = seed }
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ z >> 30) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ z >> 27) &* 0x94D0_49BB_1331_11EB
    return z ^ z >> 31
  }
}

func randomJSON(_ generator: inout SplitMix, depth: Int) -> JSON {
  switch Int.random(in: 0..<(depth > 0 ? 7 : 5), using: &generator) {
  case 0: return .null
  case 1: return .bool(Bool.random(using: &generator))
  case 2: return .int(Int.random(in: -1_000_000...1_000_000, using: &generator))
  case 3:
    let bits = UInt64.random(in: 0...UInt64.max, using: &generator)
    return JSONNumber(Double(bitPattern: bits)).map(JSON.number) ?? .null
  case 4:
    let scalars: [String] = ["a", "\"", "\\", "\u{0}", "\n", "é", "e\u{301}", "😀", "\u{2028}", "/", "\u{7f}"]
    return .string(
      (0..<Int.random(in: 0...6, using: &generator)).map { _ in scalars.randomElement(using: &generator)! }.joined())
  case 5:
    return .array((0..<Int.random(in: 0...4, using: &generator)).map { _ in randomJSON(&generator, depth: depth - 1) })
  default:
    return .object(
      JSONObject(
        (0..<Int.random(in: 0...4, using: &generator)).map {
          (Text("k\($0)"), randomJSON(&generator, depth: depth - 1))
        }))
  }
}
