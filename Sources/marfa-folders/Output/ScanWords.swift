import FolderSync

/// What a scan did, in words (C19.7).
struct ScanWords {
  /// The report.
  let scan: FolderScan

  /// The lines of `scan`.
  var lines: [String] {
    if let gone = scan.rootGone { return ["nothing scanned: \(gone)"] }
    return countLines + conditionLines(flagged: scan.flagged)
  }

  /// The counts, then what a count stands behind.
  var countLines: [String] {
    var lines = [
      "scanned: created \(scan.created), updated \(scan.updated), renamed \(scan.renamed), unchanged \(scan.unchanged), "
        + "missing \(scan.missing), deleted \(scan.deleted), skipped \(scan.skipped)"
    ]
    let behind = scan.flagged.count { $0.flag == "behind" }
    let held = scan.flagged.count - behind
    let more = clauses([
      (scan.requeued, "queued again"), (scan.lost, "lost by the copy"), (scan.unreached, "not reached"),
      (scan.movedAway, "moved to another folder"), (held, "held"), (behind, "behind"),
    ])
    if let more { lines.append("scanned: \(more)") }
    return lines
  }

  /// Everything that is said by name, in the contract's order.
  func conditionLines(flagged: [FlaggedFile]) -> [String] {
    var lines = pausedWords(scan.paused, 0)
    lines += scan.directories.map { "\($0.path.isEmpty ? "." : $0.path): directory not entered: \($0.reason)" }
    lines += flagged.map(words(of:))
    lines += scan.embeds.map(words(of:))
    lines += scan.warnings.map(words(of:))
    lines += scan.secrets.map { "\($0): not taken because of its name, which is one that secrets have" }
    lines += scan.settling.map { "\($0): still changing; it goes once it stops" }
    lines += scan.trashed.map { "\($0): deleted here, its item goes to the bin" }
    if let registry = scan.registry { lines.append("the list of folders: \(registry)") }
    lines += scan.unsure.map { "\($0.path): missing, held: \($0.reason)" }
    return lines
  }
}
