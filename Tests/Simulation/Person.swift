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

  /// On which machines notes with a word were written to.
  private(set) var hands: [String: Set<Int>] = [:]
  /// Words of texts a stale buffer was saved over or in.
  private(set) var stale: Set<String> = []
  /// Words of files their person deleted, and the ids of those.
  private(set) var dropped: Set<String> = []
  private(set) var droppedIDs: Set<String> = []

  /// A person saved a text on a machine.
  mutating func wrote(_ text: String, on machine: Int) {
    for word in Words.found(in: text) { hands[word, default: []].insert(machine) }
  }

  /// A person saved a text made from an older one.
  mutating func shuffled(_ text: String) { stale.formUnion(Words.found(in: text)) }

  /// A person deleted a file.
  mutating func deleted(_ text: String, _ id: String?) {
    dropped.formUnion(Words.found(in: text))
    if let id { droppedIDs.insert(id) }
  }

  /// Words of pictures.
  private(set) var pictures: Set<String> = []

  /// Names of pictures a person deleted a file of.
  private(set) var droppedPictures: Set<String> = []

  /// A person deleted the file of a picture.
  mutating func deletedPicture(_ name: String) { droppedPictures.insert(name) }

  /// A person painted a word.
  mutating func painted(_ word: String) { pictures.insert(word) }

  /// The newest line each machine's saves of a note went on.
  private var lines: [String: Int] = [:]
  /// Notes a text was saved to whose line an earlier save on that machine had spent: it goes over what others wrote since,
  /// and their words stand in its history (F23.6).
  private(set) var spentIDs: Set<String> = []

  private static func version(_ line: String) -> Int { Int(line.filter(\.isNumber)) ?? 0 }

  /// A person saved a text of a note with a version line.
  mutating func saved(_ id: String?, line: String?, on machine: Int) {
    guard let id, let line else { return }
    let version = Words.version(line)
    let newest = lines["\(machine) \(id)"] ?? 0
    if newest >= version { spentIDs.insert(id) }
    lines["\(machine) \(id)"] = max(newest, version)
  }

  /// A person wrote a new file where that of a note was missing.
  mutating func wroteOver(_ id: String) { spentIDs.insert(id) }

  /// Whether a line tells what a text was made from: no save on that machine went on it or on a newer one.
  func isUnspent(_ id: String?, line: String?, on machine: Int) -> Bool {
    guard let id, let line else { return false }
    return (lines["\(machine) \(id)"] ?? 0) < Words.version(line)
  }

  private var renamed: Set<String> = []
  private var replaced: Set<String> = []

  /// A file that carries no id yet has another name, or is another file. Of one that is both nothing tells what it was: it is
  /// a note of its own (F15.6), and its words may stand in both.
  mutating func loosened(_ text: String, isNamed: Bool = false, isMade: Bool = false) {
    let found = Words.found(in: text)
    if isNamed { renamed.formUnion(found) }
    if isMade { replaced.formUnion(found) }
    forked.formUnion(found.intersection(renamed).intersection(replaced))
  }

  mutating func next() -> String {
    let word = "word\(saved.count)x"
    saved.append(word)
    return word
  }

  /// A save replaced one text by another: what the old held and the new does not was the person's to drop.
  mutating func replaced(_ old: String, by new: String, but others: Set<String> = []) {
    let kept = Words.found(in: new).union(others)
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
