import MarfaBase
import Testing

@testable import FolderSync

@Suite("What a watch says, and says once")
struct StandingNoticesTests {
  private func pass(
    scan: JSON = [:], drain: JSON = [:], pull: JSON = [:], settings: JSON = [:], reading: Bool = false
  ) -> WatchPass {
    WatchPass(isReading: reading, settings: settings, scan: scan, drain: drain, pull: pull)
  }

  @Test("C17.7 the first pass is always told, an idle one after it is not")
  func first() {
    var notices = StandingNotices()
    #expect(notices.judge(pass()) == [])
    #expect(notices.judge(pass()) == nil)
  }

  @Test("F78 a standing secret is said once, also by passes that did something; a second one is said")
  func secrets() {
    var notices = StandingNotices()
    #expect(notices.judge(pass(scan: ["secrets": [".env"]])) == [.secrets])
    #expect(notices.judge(pass(scan: ["secrets": [".env"]])) == nil)
    #expect(notices.judge(pass(scan: ["secrets": [".env"], "created": 1])) == [])
    #expect(notices.judge(pass(scan: ["secrets": [".env", "a.pem"]])) == [.secrets])
    #expect(notices.judge(pass(scan: ["secrets": []])) == [.secrets])
  }

  @Test("F77 a pass that only waits out a grace is not told; a paused removal that stays is not told again")
  func grace() {
    var notices = StandingNotices()
    _ = notices.judge(pass())
    #expect(notices.judge(pass(scan: ["missing": 1])) == nil)
    #expect(notices.judge(pass(scan: ["missing": 40, "paused": 40])) == [.pausedDisk])
    #expect(notices.judge(pass(scan: ["missing": 40, "paused": 40])) == nil)
    #expect(notices.judge(pass(scan: ["deleted": 1, "paused": 0])) == [.pausedDisk])
  }

  @Test("C17.8 embeds a quick pass did not read are carried")
  func embeds() {
    let entry: JSON = ["path": "a.md", "flag": "embed", "reason": "x"]
    var notices = StandingNotices()
    #expect(notices.judge(pass(scan: ["embeds": [entry]], reading: true)) == [.embeds])
    #expect(notices.judge(pass(scan: ["embeds": []])) == nil)
    #expect(notices.judge(pass(scan: ["embeds": []], reading: true)) == [.embeds])
  }

  @Test("a pass without a pull leaves what a pull keeps as it was told")
  func withoutPull() {
    var notices = StandingNotices()
    #expect(notices.judge(pass(pull: ["unmatched": 2])) == [.unmatched])
    #expect(notices.judge(pass(pull: nil)) == nil)
    #expect(notices.judge(pass(pull: ["unmatched": 2])) == nil)
  }
}
