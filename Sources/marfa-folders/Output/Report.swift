import MarfaBase

/// A report as its JSON object, read by the contract's member names: the words of a scan, a pull, a push and a watch's pass
/// come from the same text a script reads, so the two cannot drift apart.
struct Report {
  /// The object; null reads as an object of nothing.
  let json: JSON

  /// A report.
  init(_ json: JSON?) { self.json = json ?? .null }

  /// A count; 0 where it is not there.
  func count(_ member: Text) -> Int { json[member]?.int ?? 0 }
  /// A text; nil where it is null.
  func words(_ member: Text) -> String? { json[member]?.text?.string }
  /// Whether a member is true.
  func has(_ member: Text) -> Bool { json[member]?.bool ?? false }
  /// A list of paths.
  func paths(_ member: Text) -> [String] { (json[member]?.array ?? []).compactMap { $0.text?.string } }
  /// A list of objects.
  func list(_ member: Text) -> [Report] { (json[member]?.array ?? []).map { Report($0) } }
  /// A report within it.
  func report(_ member: Text) -> Report { Report(json[member]) }
}

/// A count and its noun: `1 file`, `3 files`.
func counted(_ count: Int, _ noun: String, _ plural: String? = nil) -> String {
  "\(count) \(count == 1 ? noun : plural ?? noun + "s")"
}

/// Counts in one line, those that are zero left out; nil where all are.
func clauses(_ counts: [(Int, String)]) -> String? {
  let said = counts.filter { $0.0 > 0 }.map { "\($0.1) \($0.0)" }
  return said.isEmpty ? nil : said.joined(separator: ", ")
}
