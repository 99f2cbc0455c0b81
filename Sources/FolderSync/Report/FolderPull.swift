import MarfaBase

/// What a pull did (R4, C19.2).
public struct FolderPull: Hashable, Sendable {
  /// New files.
  public var written = 0
  /// Files of ours written over.
  public var rewritten = 0
  /// Files moved because their placement moved.
  public var moved = 0
  /// Items whose file already stands as it should.
  public var unchanged = 0
  /// Items of the copy with nothing to do here.
  public var skipped = 0
  /// Items whose file could not be written, removed or read.
  public var unwritten = 0
  /// Files the person deleted, written back because the item changed inside the grace.
  public var revived = 0
  /// Items written at a numbered name.
  public var beside = 0
  /// Placements queued.
  public var placed = 0
  /// Items whose placement would change their kind.
  public var unsuited = 0
  /// Placements the server refused, held back.
  public var unplaced = 0
  /// Items whose path the folder does not write.
  public var outside = 0
  /// Files taken away of items trashed, purged or left by state.
  public var removed = 0
  /// How many of those were purged items'.
  public var purged = 0
  /// Such files left because the person changed them.
  public var kept = 0
  /// Files left whose item left the search otherwise.
  public var unmatched: Int { unmatchedFiles.count }
  /// Which: text output names them, and no report does (F35.9).
  package var unmatchedFiles: [String] = []
  /// Files left by a paused large removal.
  public var paused = 0
  /// Files taken in from another folder here.
  public var taken = 0
  /// Items whose moved file another folder has not taken yet.
  public var elsewhere = 0
  /// Files removed whose item another folder holds.
  public var letGo = 0
  /// Placements whose end was queued.
  public var ended = 0
  /// File items whose bytes could not be had.
  public var absent = 0
  /// What became of `folder.yaml`.
  public var settings = SettingsFileOutcome()
  /// Files left as the person wrote them, and items not written.
  public var flagged: [FlaggedFile] = []
  /// Properties no file can carry.
  public var uncarried: [UncarriedProperty] = []
  /// Embeds whose file was not written.
  public var embeds: [FlaggedFile] = []
  /// Why nothing was written.
  public var rootGone: String?
  /// When the first of the lines a watch holds back is due (P1.3); told to the watch, in no report.
  package var linesDue: Timestamp?

  /// Nothing was done.
  public init() {}

  /// The object of C19.2.
  package var json: JSON {
    [
      "written": .int(written), "rewritten": .int(rewritten), "moved": .int(moved), "unchanged": .int(unchanged),
      "skipped": .int(skipped), "unwritten": .int(unwritten), "revived": .int(revived), "beside": .int(beside),
      "placed": .int(placed), "unsuited": .int(unsuited), "unplaced": .int(unplaced), "outside": .int(outside),
      "removed": .int(removed), "purged": .int(purged), "kept": .int(kept), "unmatched": .int(unmatched),
      "paused": .int(paused), "taken": .int(taken), "elsewhere": .int(elsewhere), "let_go": .int(letGo),
      "ended": .int(ended), "absent": .int(absent), "settings": settings.json, "flagged": list(flagged),
      "uncarried": .array(uncarried.map(\.json)), "embeds": list(embeds), "root_gone": optional(rootGone),
    ]
  }
}
