import MarfaBase
import MarfaCopy

/// What a folder's drain did, in words (C19.6, C19.7).
struct DrainWords {
  /// The object of C19.6.
  let drain: Report

  /// The counts.
  var counts: String {
    var line = "answered \(drain.count("answered")), held \(drain.count("held"))"
    if drain.count("unsent") > 0 { line += ", unsent \(drain.count("unsent"))" }
    if drain.count("unmade") > 0 { line += ", not made \(drain.count("unmade"))" }
    return line
  }

  /// What the server took, by kind: what an earlier scan queued is counted by no scan of this push, so this alone tells that
  /// it went.
  var sent: String? {
    var counts: [String: Int] = [:]
    for entry in drain.list("verdicts") where ["accepted", "merged"].contains(entry.words("verdict") ?? "") {
      counts[entry.words("kind") ?? "", default: 0] += 1
    }
    let said = clauses([
      (counts["create_item"] ?? 0, "created"), (counts["update_item"] ?? 0, "edited"),
      (counts["delete_item"] ?? 0, "moved to the bin"), (counts["restore_item"] ?? 0, "restored"),
      (counts["upload_blob"] ?? 0, "uploaded"),
      (["create_edge", "update_edge", "delete_edge"].reduce(0) { $0 + (counts[$1] ?? 0) }, "links and placements"),
      (["add_tag", "remove_tag"].reduce(0) { $0 + (counts[$1] ?? 0) }, "tags"),
    ])
    return said.map { "sent: \($0)" }
  }

  /// Writes the server refused: each with what it said.
  var refused: [String] {
    drain.list("verdicts").filter { $0.words("verdict") == "refused" || $0.words("verdict") == "dead" }.map { entry in
      let kind = (entry.words("kind") ?? "write").replacing("_", with: " ")
      let subject = entry.words("item_id") ?? entry.words("edge_id") ?? ""
      let why = entry.report("refusal").words("message") ?? entry.words("reason") ?? "refused"
      return "\(kind) \(subject): refused by the server: \(why)"
    }
  }

  /// Uploads left for later because this machine spares its network or its battery (P5.3).
  var spared: [String] {
    // A push drains more than once.
    let left = Set(
      drain.list("verdicts").filter { $0.json["reason"]?.text == DrainReport.spares }.compactMap { $0.json["id"]?.text }
    ).count
    guard left > 0 else { return [] }
    let waits = left == 1 ? "waits" : "wait"
    return [
      "\(counted(left, "large file")) \(waits) for a network that is not metered, or for mains; 'sync --now' sends them now"
    ]
  }

  /// What stayed undelivered, and why.
  var undelivered: [String] {
    guard drain.count("undelivered") > 0 || drain.words("unavailable") != nil else { return [] }
    var line = "\(counted(drain.count("undelivered"), "write")) undelivered, kept for the next time"
    if let why = drain.words("unavailable") { line += ": \(why)" }
    if let wait = drain.json["retry_after_seconds"]?.int { line += "; the server asks to wait \(wait) s" }
    return [line]
  }

  /// Why sending stopped.
  var stopped: [String] { drain.words("stopped").map { ["sending stopped: \($0)"] } ?? [] }

  /// Sources no claim covers.
  var unclaimed: [String] { drain.paths("unclaimed_sources").map { "the key claims no source '\($0)'" } }

  /// Edits sent again, placements another machine made.
  var settled: [String] {
    let counts = clauses([
      (drain.count("rebased"), "edits sent again on a newer version"),
      (drain.count("gave_way"), "placements another machine made first"),
    ])
    return counts.map { [$0] } ?? []
  }
}
