import MarfaBase

/// The two kinds of file whose bytes are text of an item (folders-1, terms).
package enum DocumentKind: Hashable, Sendable {
  /// `.md` or `.markdown` in any letter case: the only kind that carries frontmatter (F7.5).
  case markdown
  /// `.txt` in any letter case: all body.
  case text

  /// The kind a file's name says; nil for a file that is no document.
  package init?(name: PathBytes) {
    let lower = name.name.bytes.suffix(9).map { $0 >= 0x41 && $0 <= 0x5A ? $0 | 0x20 : $0 }
    func ends(_ ending: String) -> Bool {
      lower.count >= ending.utf8.count && lower.suffix(ending.utf8.count).elementsEqual(ending.utf8)
    }
    if ends(".md") || ends(".markdown") {
      self = .markdown
    } else if ends(".txt") {
      self = .text
    } else {
      return nil
    }
  }
}
