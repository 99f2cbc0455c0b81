import MarfaBase
import Testing

@Suite("The contract's shapes")
struct ContractCheckTests {
  let check: ContractCheck

  init() throws { check = try #require(ContractCheck.shared) }

  func fault(_ method: String, _ target: String, _ status: Int, _ body: JSON) -> String? {
    check.fault(method: method, target: target, status: status, isJSON: true, code: nil, body: body)
  }

  @Test("an answer of another shape, status or code is seen")
  func sees() {
    #expect(fault("POST", "/items/\(String(repeating: "0", count: 36))/restore", 200, ["item": [:]]) != nil)
    #expect(fault("DELETE", "/items/x", 200, ["ok": true]) == nil)
    #expect(fault("DELETE", "/items/x", 200, ["ok": "yes"]) != nil)
    #expect(fault("GET", "/items?limit=2", 200, ["data": [], "next_cursor": nil]) == nil)
    #expect(fault("GET", "/items?limit=2", 200, ["data": []]) != nil)
    #expect(fault("GET", "/items", 200, ["data": [["id": 1]], "next_cursor": nil]) != nil)
    let refusal: JSON = ["error": ["code": "invalid_id", "message": "No."]]
    #expect(fault("GET", "/items/x", 400, refusal) == nil)
    #expect(fault("GET", "/items/x", 404, refusal) != nil)
    #expect(fault("GET", "/items/x", 418, refusal) != nil)
    #expect(fault("GET", "/items/stats", 200, ["active": "many"]) != nil)
  }
}
