import MarfaBase

/// What a scan did (R3, C19.1).
public struct FolderScan: Hashable, Sendable {
  /// Files queued as new items.
  public var created = 0
  /// Bound files an edit, a tag, a state or a permission was queued for.
  public var updated = 0
  /// Bound files found at another path here.
  public var renamed = 0
  /// Bound files with nothing to send.
  public var unchanged = 0
  /// Bound files not on the disk.
  public var missing = 0
  /// Deletes queued.
  public var deleted = 0
  /// Their paths.
  public var trashed: [String] = []
  /// Missing files held.
  public var unsure: [UnsureFile] = []
  /// Why the registry could not be read, or that it was gone.
  public var registry: String?
  /// Missing files found in another folder.
  public var movedAway = 0
  /// Files the folder does not push.
  public var skipped = 0
  /// Files still changing.
  public var settling: [String] = []
  /// Files of rows the copy lost, queued again.
  public var requeued = 0
  /// Such files left.
  public var lost = 0
  /// Files read and held.
  public var flagged: [FlaggedFile] = []
  /// Embeds read as nothing.
  public var embeds: [FlaggedFile] = []
  /// Bound files the walk did not reach.
  public var unreached = 0
  /// Directories not entered.
  public var directories: [FlaggedFile] = []
  /// Files the secrets list refuses.
  public var secrets: [String] = []
  /// Deletes a large removal holds back.
  public var paused = 0
  /// Texts near the server's limit.
  public var warnings: [FlaggedFile] = []
  /// Why nothing was read.
  public var rootGone: String?

  /// Nothing was found.
  public init() {}

  /// The object of C19.1.
  package var json: JSON {
    [
      "created": .int(created), "updated": .int(updated), "renamed": .int(renamed), "unchanged": .int(unchanged),
      "missing": .int(missing), "deleted": .int(deleted), "trashed": list(trashed),
      "unsure": .array(unsure.map(\.json)), "registry": optional(registry), "moved_away": .int(movedAway),
      "skipped": .int(skipped), "settling": list(settling), "requeued": .int(requeued), "lost": .int(lost),
      "flagged": list(flagged), "embeds": list(embeds), "unreached": .int(unreached),
      "directories": list(directories), "secrets": list(secrets), "paused": .int(paused), "warnings": list(warnings),
      "root_gone": optional(rootGone),
    ]
  }
}
