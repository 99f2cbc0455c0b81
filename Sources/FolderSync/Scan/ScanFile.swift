import MarfaBase
import MarfaCopy

/// One file of a scan as it is read and decided.
struct ScanFile {
  let path: PathBytes
  var status: FileStatus
  var hash: ContentHash?
  /// How a document read; nil for bytes, and for one that was not read or says nothing new.
  var reading: Document.Reading?
  var isBytes = false
  /// Left unread by a quick pass.
  var isUnread = false
  /// Read, and the same bytes under a sure binding.
  var isUnchanged = false
  var isSkipped = false
  /// A document without a byte, or of NUL bytes alone (P3.1).
  var isBlank = false
  var isGone = false
  /// Still written to: left for a later pass (F51, P1.2).
  var settles = false
  /// Why it could not be opened or read (F26.7).
  var failure: String?
  var warning: String?
  var owner: FileOwner = .new
  /// The item it is the file of, once decided.
  var item: EntityID?

  init(_ walked: WalkedFile) {
    path = walked.path
    status = walked.status
  }

  var document: Document? { reading?.document }

  /// The id its line names, an unreadable file's read as plain text (F10.3).
  var carriedID: EntityID? {
    switch reading {
    case .read(let document): document.kind == .markdown ? document.id.id : nil
    case .unreadable(let held): held.plainID
    case .encoding, nil: nil
    }
  }

  /// The links and embeds of its body, once they were read.
  private(set) var references = BodyReferences()

  /// Reads the links and embeds of its body: once, for all that ask.
  mutating func readReferences() {
    if let document { references = BodyReferences(body: document.body, kind: document.kind) }
  }
}
