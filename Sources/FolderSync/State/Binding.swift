import MarfaBase

/// What a bound file is read as. It is fixed by the item it is bound to, and for a document by its name (F17.1, F36.7).
package enum FileForm: Int, Sendable {
  /// A Markdown file: frontmatter and body.
  case markdown = 0
  /// A `.txt` file: body alone.
  case text = 1
  /// A file item's file: bytes.
  case bytes = 2

  /// The form a name gives a document; nil for a name that is no document's.
  package init?(documentName name: PathBytes) {
    guard let ending = name.fileExtension.map(NameKey.init(path:)) else { return nil }
    if ending == NameKey("md".utf8) || ending == NameKey("markdown".utf8) {
      self = .markdown
    } else if ending == NameKey("txt".utf8) {
      self = .text
    } else {
      return nil
    }
  }
}

extension NameKey {
  /// The key of a path or a part of one.
  package init(path: PathBytes) { self.init(path.bytes) }
}

/// An identity as it is kept: the device is left out where it is the root's own, since a remount changes it (X24.1).
package struct StoredIdentity: Hashable, Sendable {
  /// The device, or nil for the root's own.
  package var device: UInt64?
  package var inode: UInt64
  package var birth: Int64

  /// The identity of a file as seen under a root on `rootDevice`.
  package init(_ identity: FileIdentity, rootDevice: UInt64) {
    device = identity.device == rootDevice ? nil : identity.device
    inode = identity.inode
    birth = identity.birth
  }

  package init(device: UInt64?, inode: UInt64, birth: Int64) {
    self.device = device
    self.inode = inode
    self.birth = birth
  }
}

/// What a look at a file told when a scan last read it, for quick passes (F49.2).
package struct SeenStat: Hashable, Sendable {
  package var size: UInt64
  package var modified: Int64
  package var executable: Bool
  /// Wall-clock nanoseconds of the read.
  package var readAt: Int64

  package init(_ status: FileStatus, readAt: Timestamp) {
    size = status.size
    modified = status.modified
    executable = status.isExecutable
    self.readAt = readAt.milliseconds * 1_000_000
  }

  package init(size: UInt64, modified: Int64, executable: Bool, readAt: Int64) {
    self.size = size
    self.modified = modified
    self.executable = executable
    self.readAt = readAt
  }

  /// Whether a file that looks so now may be left unread: nothing moved, and its time was over 2 s old when it was read,
  /// so that no later write could hide inside the clock's grain (X24.3).
  package func leavesUnread(_ status: FileStatus) -> Bool {
    size == status.size && modified == status.modified && executable == status.isExecutable
      && modified < readAt - 2_000_000_000
  }
}

/// What holds a file (F-B9).
package struct Hold: Hashable, Sendable {
  package var flag: Flag
  package var reason: String

  package init(_ flag: Flag, _ reason: String) {
    self.flag = flag
    self.reason = reason
  }
}

/// A change of a file the server refused, kept until a later save lands a change in its place or the file stops carrying
/// it (F9.6 to F9.10).
package struct FileRefusal: Hashable, Sendable {
  /// Which change.
  package enum Change: Hashable, Sendable {
    case edit
    case tag(Text)
    /// A tag taken out.
    case untag(Text)
    case state(Text)
    /// An edge line or link, by the edge's id.
    case edge(EntityID)
    /// Another way the local checks or the catalog refused the file whole (F53, F55, F9.5).
    case local
  }

  package var change: Change
  /// `code: message` (F-R7).
  package var reason: String
  /// The hash of what was refused (the edit's properties, the edge's triple), so that the file is known to carry it still.
  package var meaning: ContentHash?
  /// The item at the other end of a refused edge, where the server answered that there is none: once the copy knows it in
  /// the bin too, the file's line or link names nothing, and is decided as such (F11.19).
  package var missing: EntityID?

  package init(_ change: Change, _ reason: String, meaning: ContentHash? = nil, missing: EntityID? = nil) {
    self.change = change
    self.reason = reason
    self.meaning = meaning
    self.missing = missing
  }
}

/// A version line an edit of the file went on; later edits from no newer a line merge on the copy's version (F23.6).
package struct SpentLine: Hashable, Sendable {
  /// The line.
  package var line: Int
  /// The write that spent it; nil once that landed, so that nothing takes it back.
  package var write: EntityID?
  /// Set where a pull wrote this line over the write while it waited: it is spent only once that write lands (F23.10).
  package var whenLanded: Bool

  package init(line: Int, write: EntityID?, whenLanded: Bool = false) {
    self.line = line
    self.write = write
    self.whenLanded = whenLanded
  }
}

/// An edge the file showed (F-B7).
package struct ShownEdge: Hashable, Sendable {
  /// How it was shown.
  package enum Place: Int, Sendable { case line = 0, link = 1, embed = 2 }

  package var edge: EntityID
  /// The edge type's id.
  package var type: Text
  /// The item at the other end.
  package var other: EntityID
  package var place: Place
  /// The embed as typed; nil for any other.
  package var embed: Text?
  /// The version line of the text a pull first showed it in: a text of an older line never carried it. Nil for one a
  /// person's text showed first.
  package var since: Int?

  package init(
    edge: EntityID, type: Text, other: EntityID, place: Place, embed: Text? = nil, since: Int? = nil
  ) {
    self.embed = embed
    self.since = since
    self.edge = edge
    self.type = type
    self.other = other
    self.place = place
  }
}

/// An edge a line of the file was to move, which another machine deleted first: it is made anew with the properties it
/// had (F11.29).
package struct LostEdge: Hashable, Sendable {
  var type: Text
  /// Whether the file's item is its source.
  var isSource: Bool
  /// The item the line names.
  var other: EntityID
  var place: ShownEdge.Place
  var properties: JSONObject
}

/// The record tying one path to one item (F-B). One item has at most one file in a folder; a path may stand in two
/// bindings while all but one of them are journaled as missing.
package struct Binding: Hashable, Sendable {
  package var item: EntityID
  package var path: PathBytes
  package var form: FileForm
  package var identity: StoredIdentity?
  package var seen: SeenStat?
  /// The bytes a scan last read.
  package var readHash: ContentHash?
  /// The bytes the folder last wrote, or recognized as the item's own.
  package var writtenHash: ContentHash?
  /// When the file was first missed (F21); nil while it is there.
  package var missingSince: Timestamp? { didSet { if missingSince == nil { missed = nil } } }
  /// What the item showed when the file was first missed: what changes it after that takes the delete back (F21.4).
  package var missed: Showed?
  package var hold: Hold?
  /// The bytes that a hold of the local checks, or of an older text, is of: others are for the next scan to read.
  package var heldHash: ContentHash?
  package var unmatched = false
  /// The bytes hold what the row does not: the next scan sends them as read at this version (F39).
  package var setAside: Int?
  /// The version line of the bytes last read or written: what tells an old buffer from a version step no file shows.
  package var line: Int?
  /// The version the file was last agreed with.
  package var agreed: Int?
  /// What the file showed then (F-B3).
  package var showed: Showed?
  /// The own-field lines the folder last wrote or agreed; nil where it never wrote any (F7.14).
  package var ownLines: OwnLines?
  /// Tags and states another machine moved away from at the present line (F7.17).
  package var movedAway: MovedAway = MovedAway()
  package var spent: [SpentLine] = []
  /// What the last edit of the file said, and the line it was saved at: a later save of the same buffer changes only what
  /// differs from it (F23.6).
  package var lastSent: SentText?
  /// What the file showed at earlier agreements, by their versions: the newest twenty (P3.3).
  package var earlier: [Int: ContentHash] = [:]
  /// What the file itself said before its newer edits, the newest twenty: an older text of its own is told from an edit
  /// only beside an older line and an older time, as a backup has them (P3.2).
  package var ownEarlier: [ContentHash] = []
  package var edges: [ShownEdge] = []
  /// Edges to make anew, until they are queued.
  package var lostEdges: [LostEdge] = []
  /// Removals of shown edges held back because a link or embed named nothing (F12.12, F12.31).
  package var heldBack: [EntityID] = []
  package var refusals: [FileRefusal] = []
  /// Why default edges of its create were refused: the file is sent and brought current all the same, since nothing in it
  /// asks for them and nothing in it could mend them (C9.11). Told until the file is saved again.
  package var refusedDefaults: [String] = []
  /// Edges the file names that the server has already and this copy was never shown: asked for anew with the next save
  /// alone.
  package var unseenEdges: [ContentHash] = []
  /// Whether the file's links and lines are still to be resolved, though its bytes were read: their group was not
  /// committed, or one of them waits or names nothing.
  package var edgesOwed = false
  /// The version the file's own last write came to, where nothing of another device's was merged into it: its lines are
  /// then all that a pull has to write (P1.3).
  package var landed: Int?
  /// The version the words of the file's own last write stand on: the one it came to, or where it collided the one it was
  /// made from. Until a pull has written the file, nothing later was before its person.
  package var standsOn: Int?
  /// Whether the id and version lines are to be written: the file's own create or edit landed (F13.6, F24.1).
  package var linesOwed = false
  /// Properties its create gave the item beyond what the file says, such as a title from its name, until the file's lines
  /// are written: the item holding them is no change of it.
  package var filled = JSONObject()
  /// The name a file item's title followed last, where its file was renamed since and not read under the new name yet
  /// (F36.6).
  package var titledAs: PathBytes?
  /// Whether a person brought the file here from another folder while the search does not hold its item: it is not let go
  /// before a pull writes it, or the search holds it (F44.12).
  package var broughtByHand = false

  /// What the item shows where nobody changed it since (F21.4).
  package var expected: Showed? {
    guard var expected = showed else { return nil }
    for (key, value) in filled.members where expected.properties[key] == nil { expected.properties[key] = value }
    return expected
  }

  package init(item: EntityID, path: PathBytes, form: FileForm) {
    self.item = item
    self.path = path
    self.form = form
  }

  /// Whether the file holds exactly what the folder last wrote.
  package func isOwn(_ hash: ContentHash) -> Bool { writtenHash == hash }

  /// Whether these bytes are what the file's own last write said, which landed as it was: all of it is the item's, though
  /// its lines are still to be written (P1.3).
  package func isLandedWhole(_ hash: ContentHash) -> Bool {
    linesOwed && landed != nil && readHash == hash && hold == nil && refusals.isEmpty && setAside == nil
  }

  /// The newest line whose spending stands now: landed ones, and those of writes still under way.
  package var spentLine: Int { spent.lazy.filter { !$0.whenLanded || $0.write == nil }.map(\.line).max() ?? 0 }
}

extension Binding {
  /// Remembers what the file shows at its present agreement, before another takes its place.
  mutating func rememberAgreement(before version: Int) {
    guard let agreed, agreed < version, let showed else { return }
    earlier[agreed] = showed.digest
    for old in earlier.keys.sorted().dropLast(20) { earlier[old] = nil }
  }

  /// Remembers what the file said before an edit of it takes its place.
  mutating func rememberOwn(_ showed: Showed?) {
    guard let digest = showed?.digest else { return }
    ownEarlier.removeAll { $0 == digest }
    ownEarlier.append(digest)
    ownEarlier.removeFirst(max(0, ownEarlier.count - 20))
  }

  /// What the file showed, less the tags and the state the server refused.
  package var showedLanded: Showed? {
    guard var showed, var own = showed.own else { return self.showed }
    for refusal in refusals {
      switch refusal.change {
      case .tag(let tag): own.tags.remove(tag)
      case .untag(let tag): own.tags.insert(tag)
      case .state(let state): own.state = state == "archived" ? "active" : "archived"
      case .edit, .edge, .local: break
      }
    }
    showed.own = own
    return showed
  }
}

/// A save that went as an edit.
package struct SentText: Hashable, Sendable {
  package var line: Int
  package var showed: Showed

  package init(line: Int, showed: Showed) {
    self.line = line
    self.showed = showed
  }
}

/// Tags and states another machine moved away from (F7.17).
package struct MovedAway: Hashable, Sendable {
  /// Tags by whether the earlier file showed them.
  package var tags: [Text: Set<Bool>] = [:]
  package var states: Set<Text> = []

  package init() {}

  package var isEmpty: Bool { tags.isEmpty && states.isEmpty }
}
