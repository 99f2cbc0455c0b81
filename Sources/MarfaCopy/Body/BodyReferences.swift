import MarfaBase

/// The links and embeds of a body (F12), found outside code and comments, in order.
package struct BodyReferences: Hashable, Sendable {
  /// `[[links]]` (F12.6).
  package var links: [BodyLink] = []
  /// `![alt](path)` and `![[file]]`; none in a `.txt` (F12.13).
  package var embeds: [BodyEmbed] = []

  /// None.
  package init() {}
}

/// A `[[link]]` in a body.
package struct BodyLink: Hashable, Sendable {
  /// What it says.
  package let text: LinkText
  /// Its bytes within the body, brackets included.
  package let range: Range<Int>
}

/// An embed in a body: it may name a file, a note or an address.
package struct BodyEmbed: Hashable, Sendable {
  /// How it is written.
  package enum Form: Hashable, Sendable {
    /// `![alt](path)`: the destination as CommonMark reads it, escapes of Markdown resolved, percent escapes not yet.
    case path(Text)
    /// `![[file]]`.
    case wiki(LinkText)
    /// `![alt](my file.png)`: a raw space ends the path, so it names no file (F12.25, F12.31).
    case rawSpace(Text)
  }
  /// How it is written.
  package let form: Form
  /// As typed.
  package let typed: Text
  /// Its bytes within the body.
  package let range: Range<Int>
}
