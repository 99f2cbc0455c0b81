import MarfaBase

// NOT WRITTEN YET: each throws until its room's file lands.
private func unwritten(_ what: String) -> MarfaError { MarfaError(.invalid, "NOT WRITTEN YET: \(what)") }

extension WorkingCopy {
  /// Fills the copy with a slice (D6 to D10).
  @discardableResult
  package func hydrate(_ slice: Slice, inPlaceOnly: Bool = false) throws(MarfaError) -> HydrateReport {
    throw unwritten("hydrate")
  }
  /// Takes every event from the cursor to the head (D11 to D18).
  @discardableResult
  package func catchUp() throws(MarfaError) -> CatchUpReport { throw unwritten("catchUp") }
  /// Holds a stream: takes events as they come until stopped (device chapter 7).
  package func follow(onChange: (CopyChange) -> StreamStep) throws(MarfaError) -> FollowReport {
    throw unwritten("follow")
  }
  /// The state report.
  package func status() throws(MarfaError) -> CopyStatus { throw unwritten("status") }
  /// How far the copy is filled.
  package func hydration() throws(MarfaError) -> Hydration { throw unwritten("hydration") }
  /// Whether a slice is answered whole: complete, and what is held covers it.
  package func answers(_ slice: Slice) throws(MarfaError) -> Bool { throw unwritten("answers") }
  /// Reads both catalogs again (F11.1).
  package func refreshEdgeTypes() throws(MarfaError) { throw unwritten("refreshEdgeTypes") }
  /// Pins a row, reading it and its edges from the server (D1.6).
  @discardableResult
  package func pin(_ id: EntityID, owner: Text) throws(MarfaError) -> PinReport { throw unwritten("pin") }
  /// Lets a pin go (D1.20).
  @discardableResult
  package func unpin(_ id: EntityID, owner: Text) throws(MarfaError) -> PinReport { throw unwritten("unpin") }
  /// What a search holds, ascending by id.
  package func items(matching search: FolderSearch) throws(MarfaError) -> [EntityID] { throw unwritten("items") }
  /// Whether a search holds an item.
  package func matches(_ id: EntityID, _ search: FolderSearch) throws(MarfaError) -> Bool { throw unwritten("matches") }
  /// Reads the root and compares the instance with the copy's (D2.8); another one ends the copy.
  package func confirmInstance() throws(MarfaError) { throw unwritten("confirmInstance") }
  /// A certified read of a row: taken in beneath waiting writes and answered; nil where the instance certifies its
  /// absence (the row is then let go unless the bin holds it) (D54, ER15).
  @discardableResult
  package func freshRead(item id: EntityID) throws(MarfaError) -> Item? { throw unwritten("freshRead") }
  /// The same of an edge.
  @discardableResult
  package func freshRead(edge id: EntityID) throws(MarfaError) -> Edge? { throw unwritten("freshRead") }
  /// Whether the instance's bin holds an item (RV10.3).
  package func isInBin(_ id: EntityID) throws(MarfaError) -> Bool { throw unwritten("isInBin") }
  /// Ends the copy with a reason; the queue stays (D201.4). Returns the error to throw.
  package func expire(_ reason: String, _ message: String) throws(MarfaError) -> MarfaError {
    throw unwritten("expire")
  }
  /// The bytes of a hash: from beside the store, else fetched by link (B8). The stream is of the whole bytes, checked.
  package func bytes(_ hash: ContentHash) throws(MarfaError) -> any ReadableFile { throw unwritten("bytes") }
  /// Makes the bytes of a hash present beside the store (B8).
  package func fetch(_ hash: ContentHash) throws(MarfaError) { throw unwritten("fetch") }
}

extension ServerConnection {
  /// Items a name could mean, asked of the server by title property (D95.4, F-W10): at most 5 pages for each form and
  /// field; rows in the bin left out. More after the fifth page is a refusal.
  package func lookUp(name: Text, forms: [Text], titleFields: [Text], view: Text?) throws(MarfaError) -> [Item] {
    throw unwritten("lookUp")
  }
  /// An item as the server has it now; nil for its 404. Not certified.
  package func readItem(_ id: EntityID) throws(MarfaError) -> Item? { throw unwritten("readItem") }
  /// Items by id, those that the server has; at most 100 a request.
  package func bulkGet(_ ids: [EntityID]) throws(MarfaError) -> [Item] { throw unwritten("bulkGet") }
  /// What the credential is (K2).
  package func currentKey() throws(MarfaError) -> JSON { throw unwritten("currentKey") }
}

/// A link or an embed of a body, its ranges in bytes.
package struct BodyLink: Hashable, Sendable {
  /// How it is written.
  package enum Form: Hashable, Sendable {
    /// `[[name]]`
    case link
    /// `![[name]]`
    case wikiEmbed
    /// `![alt](path)`
    case pathEmbed
  }
  package var form: Form
  /// The whole of it, brackets included.
  package var range: Range<Int>
  /// What stands between the brackets as typed; for a path embed the destination, percent escapes decoded, query and
  /// fragment taken off.
  package var text: Text
  /// What precedes `|` or `#`, trimmed; the path of a path embed.
  package var name: Text
  /// What follows `#`.
  package var heading: Text?
  /// What follows `|`.
  package var alias: Text?
}

/// Every link and embed of a body outside code and comments, in order (F12).
package func bodyLinks(in body: [UInt8], isMarkdown: Bool = true) -> [BodyLink] { [] }
