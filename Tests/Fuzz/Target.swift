import FolderSync
import MarfaBase
import TestSupport

/// What a run found wrong, and the bytes that show it.
struct Finding: Error {
  /// In words: the property that does not hold.
  var words: String
  /// What was given in, as far as it is bytes.
  var input: [UInt8]
}

/// A reader or writer, and what must hold of it whatever it is given.
struct Target: Sendable {
  /// What one run's input came to.
  enum Outcome { case read, refused }

  /// Its name on the command line.
  var name: String
  /// One run: makes an input from the sequence and holds the properties against it. A trap or a hang is a finding too:
  /// the runner names the seed before it starts.
  var run: @Sendable (inout Seeded) throws(Finding) -> Outcome
  /// The properties, against bytes from outside.
  var check: (@Sendable ([UInt8], inout Seeded) throws(Finding) -> Outcome)?

  static let all = [
    layouts, edits, renderings, documents, bodies, json, filters, events, settings, patterns,
  ]
}

/// Fails where a property does not hold.
func hold(_ holds: Bool, _ words: @autoclosure () -> String, _ input: [UInt8]) throws(Finding) {
  guard holds else { throw Finding(words: words(), input: input) }
}

let noteID = EntityID(high: 0x0190_0000_0000_7000, low: 0x8000_0000_0000_b001)

let edgeNames = EdgeVocabulary(
  names: [
    "about", "authored-by", "derived-from", "references", "in-collection", "in-thread", "supersedes", "parent-of",
    "child-of", "attached-to", "has-attachment", "in-folder",
  ])
