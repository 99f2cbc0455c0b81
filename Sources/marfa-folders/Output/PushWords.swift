import MarfaBase

/// What a push did, in words (C19.7).
struct PushWords {
  /// The object of C16.3.
  let push: Report
  /// Lines of edits that went to a conflicted copy (C19.9).
  let conflicts: [String]
  /// The files its pull left unmatched.
  var unmatchedFiles: [String] = []

  /// The lines.
  var lines: [String] {
    let scan = ScanWords(scan: push.report("scan"))
    let drain = DrainWords(drain: push.report("drain"))
    let pull = PullWords(pull: push.report("pull"), unmatchedFiles: unmatchedFiles)
    let caughtUp = push.report("catch_up")
    var lines: [String] = []
    for filled in [push.report("hydrated"), caughtUp.report("hydrated")] where !filled.json.isNull {
      lines.append("filled: \(counted(filled.count("items"), "item"))")
    }
    lines += settingsWords(push.report("settings"))
    if let gone = scan.scan.words("root_gone") {
      lines.append("nothing scanned: \(gone)")
    } else {
      lines += scan.countLines + scan.paused + scan.directories
    }
    lines += pull.paused + pull.uncarried + merged(scan.flagged, pull.flagged)
    lines += scan.embeds + pull.embeds(notToldBy: scan) + scan.named
    lines.append(drain.counts)
    if let sent = drain.sent { lines.append(sent) }
    lines +=
      drain.refused + conflicts + drain.spared + drain.undelivered + drain.stopped + drain.unclaimed + drain.settled
    if let why = caughtUp.words("failed") { lines.append("could not catch up with the server: \(why)") }
    if push.json["pull"]?.isNull ?? true {
      lines.append("nothing written: the folder's copy could not be filled; the next push fills it first")
    } else {
      lines.append("files written \(pull.pull.count("written") + pull.pull.count("rewritten"))")
      let left = clauses([
        (pull.pull.count("moved"), "files moved"),
        (pull.pull.count("removed") - pull.pull.count("purged"), "files removed"),
        (pull.pull.count("purged"), "files of purged items removed"),
        (pull.pull.count("unmatched"), "files left, no longer matched"),
      ])
      if let left { lines.append(left) }
      lines += pull.unmatched
      lines += pull.notWritten
    }
    return lines + PullWords.unplaced(pull.pull.count("unplaced"))
  }

  /// Lines of the scan, then those of the pull that say something new (C16.7).
  private func merged(_ first: [String], _ second: [String]) -> [String] {
    first + second.filter { line in !first.contains(line) }  // lint: our own words
  }
}
