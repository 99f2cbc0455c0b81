import MarfaBase

/// The words people saved, and where each may rightly be found.
///
/// Every save adds one word found nowhere else. A word is kept where it stands in a live item, a conflicted copy, an item
/// in the bin, or an earlier version of an item whose later text a person saved without it.
struct Words {
  private(set) var saved: [String] = []
  /// Words a person's own later save left out: a stale buffer written over them.
  private(set) var overwritten: Set<String> = []
  /// Words of a note of which a killed move had left two files when its person went on with one of them: that one is a
  /// note of its own from then on (F15.1, F20.11, X15.6), so both may hold them.
  private(set) var forked: Set<String> = []

  mutating func next() -> String {
    let word = "word\(saved.count)x"
    saved.append(word)
    return word
  }

  /// A save replaced one text by another: what the old held and the new does not was the person's to drop.
  mutating func replaced(_ old: String, by new: String) {
    let kept = Words.found(in: new)
    for word in Words.found(in: old) where !kept.contains(word) { overwritten.insert(word) }
  }

  /// A person went on with one of two files of a note.
  mutating func fork(_ text: String) { forked.formUnion(Words.found(in: text)) }

  /// The words a text holds.
  static func found(in text: String) -> Set<String> {
    Set(
      text.split(whereSeparator: { !($0.isLetter || $0.isNumber) }).map(String.init).filter {
        $0.hasPrefix("word") && $0.hasSuffix("x")
      })
  }
}
