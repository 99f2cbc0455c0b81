import CSQLite
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// A fill whose pages cannot be stored for a moment.
struct FillFailureTests {
  /// Refuses the commit of that number, once.
  private final class Refusal {
    var left: Int?
  }

  @Test(
    "D202.5 pages that could not be stored are read again: the position of a fill never outruns its rows",
    arguments: 0..<6)
  func refusedCommit(_ number: Int) throws {
    let bench = try CopyBench()
    for index in 0..<450 { try bench.note(Text("Note \(index)")) }
    let refusal = Refusal()
    // From a slow server each page is stored by itself.
    bench.transport.before = { request in
      if request.url.contains("/items?") {
        bench.clock.advance(seconds: 1)
        if refusal.left == nil { refusal.left = number }
      }
      return nil
    }
    sqlite3_commit_hook(
      bench.database.handle,
      { context in
        guard let context else { return 0 }
        let refusal = Unmanaged<Refusal>.fromOpaque(context).takeUnretainedValue()
        guard let left = refusal.left, left >= 0 else { return 0 }
        refusal.left = left - 1
        return left == 0 ? 1 : 0
      }, Unmanaged.passUnretained(refusal).toOpaque())
    let first = bench.refusal { try bench.fill() }
    sqlite3_commit_hook(bench.database.handle, nil, nil)
    if first != nil { try bench.fill() }
    #expect(number > 0 || first != nil)
    #expect(try bench.copy.status().items == 450)
    withExtendedLifetime(refusal) {}
  }
}
