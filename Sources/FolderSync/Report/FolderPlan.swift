import MarfaBase

/// What a first sync would do (F54, R8).
public struct FolderPlan: Hashable, Sendable {
  /// Files it will write.
  public var write: Int
  /// Files it will send.
  public var send: Int
  /// How many of the written take a path a file already has; both stay, one numbered.
  public var beside: Int

  /// A plan.
  public init(write: Int, send: Int, beside: Int) {
    self.write = write
    self.send = send
    self.beside = beside
  }

  /// Whether there is nothing to write and nothing to send; such a plan confirms itself (F54.7).
  public var isEmpty: Bool { write == 0 && send == 0 }

  /// The object of R7's `plan`.
  package var json: JSON { ["write": .int(write), "send": .int(send), "beside": .int(beside)] }

  package init?(json: JSON?) {
    guard let write = json?["write"]?.int, let send = json?["send"]?.int, let beside = json?["beside"]?.int else {
      return nil
    }
    self.init(write: write, send: send, beside: beside)
  }
}

/// Where the first sync stands after a command (R8).
public struct FirstSyncReading: Hashable, Sendable {
  /// Whether it still waits.
  public var waiting: Bool
  /// The plan, where one was read and it waits.
  public var plan: FolderPlan?
  /// Why the plan could not be read.
  public var unread: String?

  /// A reading.
  public init(waiting: Bool, plan: FolderPlan? = nil, unread: String? = nil) {
    self.waiting = waiting
    self.plan = waiting ? plan : nil
    self.unread = waiting ? unread : nil
  }

  /// The object of R8.
  package var json: JSON {
    [
      "waiting": .bool(waiting), "write": plan.map { .int($0.write) } ?? .null,
      "send": plan.map { .int($0.send) } ?? .null, "beside": plan.map { .int($0.beside) } ?? .null,
      "unread": optional(unread),
    ]
  }
}

/// What `confirm` did (R9).
public struct ConfirmedRemoval: Hashable, Sendable {
  /// Whether a first sync was let go.
  public var firstSync = false
  /// Deletes queued.
  public var deleted = 0
  /// Files found in another folder.
  public var moved = 0
  /// Files whose move cannot be told; not confirmed.
  public var unsure: [UnsureFile] = []
  /// Files taken away.
  public var removed = 0

  /// Nothing was confirmed.
  public init() {}

  /// The object of R9.
  package var json: JSON {
    [
      "first_sync": .bool(firstSync), "deleted": .int(deleted), "moved": .int(moved),
      "unsure": .array(unsure.map(\.json)), "removed": .int(removed),
    ]
  }
}

/// What `restore` did (R9).
public struct RestoredRemoval: Hashable, Sendable {
  /// Files written back.
  public var putBack = 0
  /// Items whose restore was queued.
  public var restored = 0
  /// The pull that ran after.
  public var pull = FolderPull()

  /// Nothing was restored.
  public init() {}

  /// The object of R9.
  package var json: JSON { ["put_back": .int(putBack), "restored": .int(restored), "pull": pull.json] }
}
