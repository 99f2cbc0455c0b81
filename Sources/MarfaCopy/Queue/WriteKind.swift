import MarfaBase

/// What a queued write does: the fifteen kinds, and no other (Q32.1).
package enum WriteKind: String, CaseIterable, Sendable {
  case createItem = "create_item"
  case updateItem = "update_item"
  case deleteItem = "delete_item"
  case restoreItem = "restore_item"
  case transitionItem = "transition_item"
  case createEdge = "create_edge"
  case updateEdge = "update_edge"
  case deleteEdge = "delete_edge"
  case replaceMetadata = "replace_metadata"
  case mergeMetadata = "merge_metadata"
  case addTag = "add_tag"
  case removeTag = "remove_tag"
  case writeExtension = "write_extension"
  case deleteExtension = "delete_extension"
  case uploadBlob = "upload_blob"

  /// What a success answer of its door must hold (Q32.4).
  package enum Answer: Sendable {
    /// `{"item", "metadata"}`.
    case item
    /// `{"edge"}`.
    case edge
    /// `{"metadata"}`.
    case sidecar
    /// `{"extensions"}`.
    case extensions
    /// `{"ok": true}`.
    case ok
    /// `{"hash", "mime_type", "size_bytes"}`.
    case blob
  }

  /// The shape its success answer has. Every kind has its own entry; nothing falls through to a default (Q32.3).
  package var answer: Answer {
    switch self {
    case .createItem, .updateItem, .restoreItem, .transitionItem: .item
    case .createEdge, .updateEdge: .edge
    case .deleteItem, .deleteEdge: .ok
    case .replaceMetadata, .mergeMetadata, .addTag, .removeTag: .sidecar
    case .writeExtension, .deleteExtension: .extensions
    case .uploadBlob: .blob
    }
  }

  /// The method of its door.
  package var method: String {
    switch self {
    case .createItem, .restoreItem, .transitionItem, .createEdge, .addTag, .uploadBlob: "POST"
    case .updateItem, .updateEdge, .mergeMetadata: "PATCH"
    case .replaceMetadata, .writeExtension: "PUT"
    case .deleteItem, .deleteEdge, .removeTag, .deleteExtension: "DELETE"
    }
  }

  /// Whether it is a write to an edge.
  package var isEdgeWrite: Bool {
    switch self {
    case .createEdge, .updateEdge, .deleteEdge: true
    case .createItem, .updateItem, .deleteItem, .restoreItem, .transitionItem, .replaceMetadata, .mergeMetadata,
      .addTag,
      .removeTag, .writeExtension, .deleteExtension, .uploadBlob:
      false
    }
  }

  /// Whether a refused write of it carries a person's content, which a clearing keeps (Q47.1).
  package var carriesContent: Bool {
    switch self {
    case .createItem, .updateItem, .replaceMetadata, .mergeMetadata, .writeExtension, .createEdge, .updateEdge: true
    case .deleteItem, .restoreItem, .transitionItem, .deleteEdge, .addTag, .removeTag, .deleteExtension, .uploadBlob:
      false
    }
  }

  /// Whether a write waiting on a create that landed elsewhere by a refusal is refused with it: it replaces, removes or
  /// moves a state. The others only add, and follow to the landed row (Q39.4, Q39.5).
  package var isRefusedByLanding: Bool {
    switch self {
    case .updateItem, .deleteItem, .restoreItem, .transitionItem, .replaceMetadata, .mergeMetadata, .removeTag,
      .writeExtension, .deleteExtension:
      true
    case .createItem, .addTag, .createEdge, .updateEdge, .deleteEdge, .uploadBlob: false
    }
  }
}

/// What became of a write (Q7.1). None of them: nothing was decided.
package enum WriteVerdict: String, Sendable {
  case accepted, merged, conflicted, refused, blocked, dead

  /// Whether the server took the write.
  package var isSuccess: Bool {
    switch self {
    case .accepted, .merged, .conflicted: true
    case .refused, .blocked, .dead: false
    }
  }
}

/// Why a write is `blocked`: a closed list (Q26.1).
package enum BlockedReason: String, CaseIterable, Sendable {
  case credentialRefused = "credential_refused"
  case keySpent = "key_spent"
  case ancestorUnavailable = "ancestor_unavailable"
  case conflictUnresolved = "conflict_unresolved"
  case awaitingDependency = "awaiting_dependency"
  case instanceChanged = "instance_changed"
}
