import MarfaBase

/// What a copy is asked to hold: types, a tier, and the edge types held whole (D1).
package struct Slice: Hashable, Sendable {
  /// The types, each with its subtree; nil is every type but `system.*` ones (`*`), to which `systemTypes` adds.
  package var types: [Text]?
  /// `system.*` types held beside `*`; empty where `types` names them itself.
  package var systemTypes: [Text]
  /// `library`, `feed` or `all`.
  package var tier: Text
  /// The edge types of which every edge is held.
  package var edgeTypes: [Text]

  /// A slice.
  package init(types: [Text]?, systemTypes: [Text] = [], tier: Text, edgeTypes: [Text]) {
    self.types = types
    self.systemTypes = types == nil ? systemTypes : []
    self.tier = tier
    self.edgeTypes = edgeTypes
  }

  /// The type list as declared and reported: `*` for every type, then the `system.*` types beside it (D5.5).
  package var typeList: [Text] { types ?? ["*"] + systemTypes }

  /// A slice of a declared type list, `*` in any place of it meaning every type.
  package init(typeList: [Text], tier: Text, edgeTypes: [Text]) {
    if typeList.contains("*") {
      self.init(types: nil, systemTypes: typeList.filter { $0 != "*" }, tier: tier, edgeTypes: edgeTypes)
    } else {
      self.init(types: typeList, tier: tier, edgeTypes: edgeTypes)
    }
  }

  /// Whether a tier is held: `all` holds both.
  package func holds(tier: Text?) -> Bool { self.tier == "all" || tier == nil || tier == self.tier }

  /// Whether a row's type and tier lie inside (D1.1 to D1.3, D63.1).
  package func takes(type: Text, tier: Text?, in catalog: Catalog) -> Bool {
    let isSystem = type.bytes.starts(with: "system.".utf8)
    guard isSystem || holds(tier: tier) else { return false }
    let declared: [Text]
    if let types { declared = types } else if isSystem { declared = systemTypes } else { return true }
    return declared.contains { catalog.isType(type, under: $0) }
  }
}

/// How far a copy is filled (D5, D201).
package enum Hydration: String, Hashable, Sendable {
  /// No fill has begun.
  case never
  /// A fill runs, or stopped part way.
  case inProgress = "in_progress"
  /// Slice, cursor, view and instance are all held.
  case complete
  /// The log let the cursor go; rows are kept.
  case stale
  /// The copy has ended; only a fill makes it whole.
  case expired
}

/// What the state report says (C26.4).
package struct CopyStatus: Hashable, Sendable {
  package var serverOrigin: Text?
  package var instanceID: Text?
  package var slice: Slice?
  package var pinned: [EntityID]
  package var eventCursor: Text?
  package var hydration: Hydration
  package var items: Int
  package var edges: Int
  package var catalogVersion: Int?
  package var itemsListed: Int?
  package var itemsExpected: Int?
  package var cacheBytes: Int
  package var cacheBudget: Int?
  package var lastSynced: Timestamp?

  /// The members as reports give them.
  package var json: JSON {
    [
      "server_origin": .optional(serverOrigin), "instance_id": .optional(instanceID),
      "slice_types": .array((slice?.typeList ?? []).map { .string($0) }), "slice_tier": .optional(slice?.tier),
      "slice_edge_types": .array((slice?.edgeTypes ?? []).map { .string($0) }),
      "pinned": .array(pinned.map { .string($0.text) }), "event_cursor": .optional(eventCursor),
      "hydration": .string(hydration.rawValue), "items": .int(items), "edges": .int(edges),
      "catalog_version": catalogVersion.map { .int($0) } ?? .null,
      "items_listed": itemsListed.map { .int($0) } ?? .null,
      "items_expected": itemsExpected.map { .int($0) } ?? .null,
      "file_cache": ["bytes": .int(cacheBytes), "budget": cacheBudget.map { .int($0) } ?? .null],
      "last_synced": .optional(lastSynced?.text),
    ]
  }
}

/// What a fill did (C26.5).
package struct HydrateReport: Hashable, Sendable {
  /// A declared type the instance did not take, and why.
  package struct TypeNote: Hashable, Sendable {
    package var id: Text
    package var code: Text
    package var message: Text
  }

  package var slice: Slice
  package var items = 0
  package var edges = 0
  package var pages = 0
  package var cursor: Text = "0"
  package var registeredTypes: [Text] = []
  package var unregisteredTypes: [TypeNote] = []
  package var replacedTypes: [Text] = []
  package var unreplacedTypes: [TypeNote] = []
  package var resumed = false
  package var restarted: String?
  package var inPlace = false

  /// The members as reports give them.
  package var json: JSON {
    func notes(_ notes: [TypeNote]) -> JSON {
      .array(notes.map { ["id": .string($0.id), "code": .string($0.code), "message": .string($0.message)] })
    }
    func texts(_ texts: [Text]) -> JSON { .array(texts.map { .string($0) }) }
    return [
      "types": texts(slice.typeList), "tier": .string(slice.tier), "edge_types": texts(slice.edgeTypes),
      "items": .int(items), "edges": .int(edges), "pages": .int(pages), "cursor": .string(cursor),
      "registered_types": texts(registeredTypes), "unregistered_types": notes(unregisteredTypes),
      "replaced_types": texts(replacedTypes), "unreplaced_types": notes(unreplacedTypes), "resumed": .bool(resumed),
      "restarted": restarted.map { .string($0) } ?? .null, "in_place": .bool(inPlace),
    ]
  }
}

/// What a catch-up did (C26.6).
package struct CatchUpReport: Hashable, Sendable {
  package var applied = 0
  package var skipped = 0
  package var cursor: Text = "0"
  package var reachedHead = false

  /// The members as reports give them.
  package var json: JSON {
    [
      "applied": .int(applied), "skipped": .int(skipped), "cursor": .string(cursor), "reached_head": .bool(reachedHead),
    ]
  }
}

/// One event of a held stream that changed the copy (D40.2), or news of the stream itself.
package struct CopyChange: Hashable, Sendable {
  /// The event's name: `item.updated`, `catalog.changed`, `server.unreachable`, ...
  package var event: Text
  package var itemID: EntityID?
  package var edgeID: EntityID?
  package var cursor: Text?
  /// Why, on `server.unreachable`.
  package var reason: String?

  /// The members as the follow prints them (C25.10, C3.4).
  package var json: JSON {
    .object(
      JSONObject([
        ("event", .string(event)), ("item_id", .optional(itemID?.text)), ("edge_id", .optional(edgeID?.text)),
        ("cursor", .optional(cursor)), ("reason", .optional(reason.map { Text($0) })),
      ]))
  }
}

/// How a held stream went (D40.17).
package struct FollowReport: Hashable, Sendable {
  package var applied = 0
  package var skipped = 0
  package var cursor: Text = "0"
  package var reconnects = 0
  package var failedOpens = 0
  package var lastFailure: String?

  /// The members as reports give them.
  package var json: JSON {
    [
      "applied": .int(applied), "skipped": .int(skipped), "cursor": .string(cursor), "reconnects": .int(reconnects),
      "failed_opens": .int(failedOpens), "last_failure": lastFailure.map { .string($0) } ?? .null,
    ]
  }
}

/// What a pin did (D1.7, D1.20).
package struct PinReport: Hashable, Sendable {
  package var id: EntityID
  package var pinned: Bool
  package var wasPinned: Bool

  /// The members as reports give them.
  package var json: JSON {
    ["id": .string(id.text), "pinned": .bool(pinned), "was_pinned": .bool(wasPinned)]
  }
}
