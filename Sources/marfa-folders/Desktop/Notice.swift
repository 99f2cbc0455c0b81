import MarfaBase

/// What a notification is about: one stands for one key (N5.1).
struct NoticeKey: Hashable, Sendable {
  /// What happened.
  enum Kind: Hashable, Sendable {
    /// A large removal waits for a person.
    case removal
    /// An edit went to a conflicted copy, by the copy's id.
    case conflict(EntityID)
    /// The credential was refused.
    case credential
    /// The keyring is locked (P7.3).
    case keyring
    /// The directory has been gone for more than a minute.
    case gone
    /// A first sync waits to be confirmed.
    case firstSync
  }

  /// The folder's directory.
  var dir: PathBytes
  var kind: Kind
}

/// A notification. It holds no text of a note and no key; a note's name only where `MARFA_NOTIFY=titles` asks (P7.4).
struct Notice: Hashable, Sendable {
  /// A button.
  enum Action: String, Sendable {
    case review, restore, open
    case signIn = "sign-in"

    var label: String {
      switch self {
      case .review: "Review"
      case .restore: "Restore"
      case .signIn: "Sign in"
      case .open: "Open"
      }
    }
  }

  var summary: String
  var body: String
  var actions: [Action]
  /// Whether it stays until it is answered.
  var isUrgent = false
}
