import FolderSync
import MarfaBase

/// What a note's bytes cost to edit, landing aside.
enum DocumentFigures {
  static func measure(_ options: Options, _ report: inout FigureReport) throws {
    var notes = Notes()
    let edges = EdgeVocabulary(names: ["references", "parent-of"])
    let id = SystemIds(clock: SystemClock()).next()
    let body = notes.text(3700)
    let file = Array(
      """
      ---
      # where it came from
      tags: [area-1, all]
      rank: 12
      shelf: 'shelf 7'
      when: 2024-02-03
      people:
        - Ana
        - Bo
      marfa_id: \(id)
      marfa_version: 7
      ---

      # A note

      \(body)
      """.utf8)
    let rounds = 200
    report.add(
      "rewriting the lines of a 4 KB note",
      try timed(options.runs) {
        for version in 0..<rounds {
          _ = try Document.rewriteLines(file, id: id, version: version + 8, edges: edges).get()
        }
      } / rounds, atMost: 0.0002)
    let values: JSON = ["rank": 13, "shelf": "shelf 7", "when": "2024-02-03", "people": ["Ana", "Bo", "Cy"]]
    var content = ItemContent(
      type: "core.note", tier: "library", tags: ["area-1", "all", "new"],
      occurredAt: Timestamp(milliseconds: 1_700_000_000_000),
      properties: values.object ?? JSONObject(), id: id, version: 8, body: Text("# A note\n\n" + body))
    report.add(
      "rewriting a 4 KB note's tags, values and body",
      try timed(options.runs) {
        for round in 0..<rounds {
          content.version = round + 8
          _ = try Document.rewrite(file, to: content, kind: .markdown, edges: edges).get()
        }
      } / rounds, atMost: 0.0002)
  }
}
