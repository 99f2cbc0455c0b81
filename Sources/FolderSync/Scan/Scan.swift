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
    // Where the last pass had nothing to do and nothing decisive was written since, a scan alone looks at the files alone:
    // what it would ask of the store stands as it stood then.
    if !asksServer, !isWatch, !mayCatchUp, let quiet = try Quiet.standing(store.database),
      let scan = try quietScan(quiet, quick: quick)
    {
      return scan
    }
    let root = try openRoot()
    try settleLandings(in: root)
    try settleLanded()
    let facts = try facts()
    try requireAnswers(facts)
    if !asksServer, try store.fact(.unheard) != nil {
      throw MarfaError(
        .hydrationIncomplete,
        "the folder's store is not what it was, so its copy has to catch up before files can be told from items; run push"
      )
    }
    let pass = try ScanPass(
      self, facts,
      ScanPass.Mode(quick: quick, asksServer: asksServer, isWatch: isWatch, mayCatchUp: mayCatchUp), root: root)
    return try pass.run()
  }
}

/// A scan that decided nothing, since a file names an item or a version the copy has not heard of (P8.1).
struct CatchUpFirst: Error {
  /// Whether a file's own lines name it, and not its bytes alone.
  var isNamed = false
}
