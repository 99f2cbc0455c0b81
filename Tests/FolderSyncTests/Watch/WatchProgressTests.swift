import MarfaBase
import Testing

@testable import FolderSync

/// What the watchdog goes by (N3.3).
@Suite struct WatchProgressTests {
  private let minute: UInt64 = 60_000_000_000

  @Test("N3.3 a folder that waits moves on; one at work does as long as it takes a step within a minute")
  func steps() {
    let progress = WatchProgress()
    #expect(progress.movesOn(0))
    #expect(progress.movesOn(100 * minute))
    progress.works(true)
    #expect(progress.movesOn(100 * minute))
    #expect(progress.movesOn(100 * minute + minute / 2))
    // No step since: the watchdog is fed no more.
    #expect(!progress.movesOn(101 * minute))
    #expect(!progress.movesOn(110 * minute))
    // A look at the flag between two steps is one.
    _ = progress.passStop.isSet
    #expect(progress.movesOn(111 * minute))
    #expect(!progress.movesOn(112 * minute))
    progress.works(false)
    #expect(progress.movesOn(113 * minute))
  }
}
