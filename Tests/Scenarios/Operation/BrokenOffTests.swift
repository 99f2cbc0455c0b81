import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// A push whose filling breaks off (F40.5).
struct BrokenOffTests {
  @Test("A push whose filling breaks off before its scan says what broke it off, and the next one fills and scans")
  func fillingBreaksOff() throws {
    let desk = try Desk { try $0.item("Alpha", body: "Words.\n") }
    _ = try desk.push()
    // What is at a name the copy has not heard of: brought from another machine with its lines.
    let beta = try desk.bench.item("Beta", body: "Others.\n")
    try desk.bench.database.run("DELETE FROM event WHERE id < (SELECT max(id) FROM event)")
    try desk.machine.write(
      "Beta.md", "---\ntype: core.note\ntitle: Beta\nmarfa_id: \(beta)\nmarfa_version: 1\n---\nOthers.\n")
    desk.bench.transport.before = { request in
      request.method == "GET" && request.url.contains("/items?") ? .failure(.unreachable("the line went")) : nil
    }
    let said = #expect(throws: MarfaError.self) { try desk.machine.push() }
    #expect(said?.isEnvironmental == true, "\(said.map { "\($0)" } ?? "")")
    desk.bench.transport.before = nil
    _ = try desk.push()
    #expect(try desk.bench.titles() == ["Alpha", "Beta"])
    #expect(try desk.machine.body("Beta.md") == "Others.\n")
  }
}
