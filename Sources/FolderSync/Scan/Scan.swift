import MarfaBase
import MarfaCopy

extension FolderEngine {
  /// Reads the directory and queues what changed; sends nothing by itself (C14).
  package func scan(
    quick: Bool = false, asksServer: Bool = false, isWatch: Bool = false, mayCatchUp: Bool = false
  ) throws -> FolderScan {
    if let reason = rootGone() {
      var report = FolderScan()
      report.rootGone = reason
      return report
    }
    let root = try openRoot()
    try settleLandings(in: root)
    let facts = try facts()
    try requireAnswers(facts)
    let pass = try ScanPass(
      self, facts,
      ScanPass.Mode(quick: quick, asksServer: asksServer, isWatch: isWatch, mayCatchUp: mayCatchUp), root: root)
    return try pass.run()
  }
}

/// A scan that decided nothing, since a file names an item or a version the copy has not heard of (P8.1).
struct CatchUpFirst: Error {}
