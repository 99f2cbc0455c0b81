import MarfaBase

/// A new item to be queued.
package struct ItemDraft: Sendable {
  /// The caller's own UUIDv7; nil mints one.
  package var id: EntityID?
  package var type: Text
  package var properties: JSONObject
  /// Each its own write, waiting on the create (Q33.2).
  package var tags: [Text]
  /// Nil: the slice's tier (Q50.1), or none where the natural key names a row.
  package var tier: Text?
  package var state: Text?
  package var source: Text?
  package var sourceID: Text?
  /// As the caller spells it; goes so, and shows in the instance's spelling (D34.5).
  package var occurredAt: Text?
  package var captureLatitude: Double?
  package var captureLongitude: Double?
  /// Edge types to targets, sent inside the create (Q33.4).
  package var edges: [(type: Text, targets: [EntityID])]
  /// A version makes the create conditional (Q2.3).
  package var version: Int?
  /// The queued upload of the bytes it names: it waits for it (Q4.5).
  package var upload: EntityID?
  /// Whether the edges its body names are queued with it (D88.1); a folder's own sync of a file queues them itself.
  package var bodyEdges = true

  package init(
    id: EntityID? = nil, type: Text, properties: JSONObject = JSONObject(), tags: [Text] = [], tier: Text? = nil,
    state: Text? = nil, source: Text? = nil, sourceID: Text? = nil, occurredAt: Text? = nil,
    captureLatitude: Double? = nil, captureLongitude: Double? = nil, edges: [(type: Text, targets: [EntityID])] = [],
    version: Int? = nil, upload: EntityID? = nil
  ) {
    self.id = id
    self.type = type
    self.properties = properties
    self.tags = tags
    self.tier = tier
    self.state = state
    self.source = source
    self.sourceID = sourceID
    self.occurredAt = occurredAt
    self.captureLatitude = captureLatitude
    self.captureLongitude = captureLongitude
    self.edges = edges
    self.version = version
    self.upload = upload
  }
}

/// An edit of an item to be queued.
package struct ItemEdit: Sendable {
  /// How `properties` is meant.
  package enum Mode: Sendable {
    /// Each named one replaces the row's; a null clears nothing.
    case merge
    /// The whole set: what is left out is cleared (Q45).
    case replace
  }

  package var properties: JSONObject
  package var mode: Mode
  /// Properties to clear, in a merge (Q53.6): the edit then goes whole (QD6).
  package var clearProperties: [Text]
  /// The version it was made on. Required (Q2.1).
  package var version: Int?
  /// Whether it is said to be read at that version, which may be an earlier one than is held (Q43).
  package var readAtVersion: Bool
  /// Another type moves the item.
  package var type: Text?
  /// Another tier moves it.
  package var tier: Text?
  package var sourceID: Text?
  package var occurredAt: Text?
  /// Sorts it by when it was made again (Q53.7).
  package var clearOccurredAt: Bool
  /// The queued upload of the bytes it names.
  package var upload: EntityID?
  /// Whether the edges its body names are queued with it (D88.1); a folder's own sync of a file queues them itself.
  package var bodyEdges = true

  package init(
    properties: JSONObject = JSONObject(), mode: Mode = .merge, clearProperties: [Text] = [], version: Int?,
    readAtVersion: Bool = false, type: Text? = nil, tier: Text? = nil, sourceID: Text? = nil, occurredAt: Text? = nil,
    clearOccurredAt: Bool = false, upload: EntityID? = nil
  ) {
    self.properties = properties
    self.mode = mode
    self.clearProperties = clearProperties
    self.version = version
    self.readAtVersion = readAtVersion
    self.type = type
    self.tier = tier
    self.sourceID = sourceID
    self.occurredAt = occurredAt
    self.clearOccurredAt = clearOccurredAt
    self.upload = upload
  }
}

/// A new edge to be queued.
package struct EdgeDraft: Sendable {
  /// The caller's own UUIDv7; nil mints one.
  package var id: EntityID?
  package var source: EntityID
  package var target: EntityID
  package var type: Text
  package var properties: JSONObject

  package init(
    id: EntityID? = nil, source: EntityID, target: EntityID, type: Text, properties: JSONObject = JSONObject()
  ) {
    self.id = id
    self.source = source
    self.target = target
    self.type = type
    self.properties = properties
  }
}

/// Sees each verdict inside the transaction that settles it, so that what a caller records of a write settles with it.
package protocol DrainObserver: AnyObject {
  /// A write got a verdict, or was sent without one.
  func settled(_ write: QueuedWrite, _ entry: DrainReport.Entry) throws(MarfaError)
}

extension ItemDraft {
  /// As a folder queues a file: it finds the edges of the body itself (D88.1).
  package var ofFile: ItemDraft {
    var draft = self
    draft.bodyEdges = false
    return draft
  }
}

extension ItemEdit {
  /// As a folder queues a file's edit.
  package var ofFile: ItemEdit {
    var edit = self
    edit.bodyEdges = false
    return edit
  }
}
