import MarfaBase

/// What a scan did, in words (C19.7).
struct ScanWords {
  /// The object of C19.1.
  let scan: Report

  /// The lines of `scan`.
  var lines: [String] {
    if let gone = scan.words("root_gone") { return ["nothing scanned: \(gone)"] }
    return countLines + paused + directories + flagged + embeds + named
  }

  /// The counts, then what else a count stands for.
  var countLines: [String] {
    let counts: [Text] = ["created", "updated", "renamed", "unchanged", "missing", "deleted", "skipped"]
    var lines = ["scanned: " + counts.map { "\($0) \(scan.count($0))" }.joined(separator: ", ")]
    let behind = scan.list("flagged").count { $0.words("flag") == "behind" }
    let more = clauses([
      (scan.count("requeued"), "queued again"), (scan.count("lost"), "lost by the copy"),
      (scan.count("unreached"), "not reached"), (scan.count("moved_away"), "moved to another folder"),
      (scan.list("flagged").count - behind, "held"), (behind, "behind"),
    ])
    if let more { lines.append("scanned: \(more)") }
    return lines
  }

  /// A large removal that waits.
  var paused: [String] { pausedWords(disk: scan.count("paused"), pull: 0) }
  /// Directories not entered.
  var directories: [String] {
    scan.list("directories").map {
      "\($0.words("path").flatMap { $0.isEmpty ? nil : $0 } ?? "."): directory not entered: \($0.words("reason") ?? "")"
    }
  }
  /// Files read and held.
  var flagged: [String] { scan.list("flagged").map(flaggedWords) }
  /// Embeds read as nothing.
  var embeds: [String] { scan.list("embeds").map(flaggedWords) }
  /// Texts near the limit.
  var warnings: [String] { scan.list("warnings").map(flaggedWords) }
  /// Files whose name is a secret's.
  var secrets: [String] {
    scan.paths("secrets").map { "\($0): not taken because of its name, which is one that secrets have" }
  }
  /// Files still changing.
  var settling: [String] { scan.paths("settling").map { "\($0): still changing; it goes once it stops" } }
  /// Deleted files.
  var trashed: [String] {
    scan.paths("trashed").map { "\($0): deleted here, and no folder on this computer has it; its item goes to the bin" }
  }
  /// Trouble with the list of folders.
  var registry: [String] { scan.words("registry").map { ["the list of folders: \($0)"] } ?? [] }
  /// Missing files that are held.
  var unsure: [String] {
    scan.list("unsure").map { "\($0.words("path") ?? ""): missing, held: \($0.words("reason") ?? "")" }
  }

  /// Everything said by name after the embeds, in the contract's order.
  var named: [String] { warnings + secrets + settling + trashed + registry + unsure }
}
