/// One guard taken away on purpose, to see whether the simulation notices (`scripts/simulate --sabotage`). Passed in with
/// the `Context`; outside debug builds and the simulation there is none, and asking for it compiles to nothing.
public struct Sabotage: Sendable {
  /// The built-in bugs. Each names the guard that is gone.
  public enum Bug: String, CaseIterable, Sendable {
    /// Nothing is ever decided: no file is sent and none written. A scenario's test that still passes proves nothing
    /// (`scripts/test --null`).
    case nothingDecided = "nothing-decided"
    /// What stands at a path is not compared with what was decided on, before it is replaced or taken away (X15.2).
    case noLastLook = "no-last-look"
    /// A file an exchange displaced is let go without being looked at again (P1.4).
    case displacedNotLookedAt = "displaced-not-looked-at"
    /// A name that was absent when it was looked at is written over, whatever has it by now (X15.3).
    case takenNameOverwritten = "taken-name-overwritten"
    /// A file changed since the scan counts as the scan read it (F20).
    case pullOverUnscannedSave = "pull-over-unscanned-save"
    /// A file its person changed goes with the item that left (F35).
    case changedFileRemoved = "changed-file-removed"
    /// What will land is not recorded before it does (X15.5).
    case landingNotRecorded = "landing-not-recorded"
    /// A write that is sent again has a new idempotency key (Q3.3).
    case newKeyOnRetry = "new-key-on-retry"
    /// A write goes on the wire before the store says that it did (Q3.3).
    case sentNotRecorded = "sent-not-recorded"
    /// A write does not wait for the writes it depends on and follows (chapter 7).
    case queueOrderIgnored = "queue-order-ignored"
    /// Edits waiting behind an answered one keep the base they had (chapter 13).
    case followersNotMoved = "followers-not-moved"
    /// What a scan queues and what it records of it commit apart.
    case queuedApart = "queued-apart"
    /// A file's version line is not asked what its text was made from (F23).
    case versionLineIgnored = "version-line-ignored"
    /// A renamed file is a new one, and its old name a delete (F15, F17).
    case renameAsDelete = "rename-as-delete"
    /// A missing file is deleted at once (F21.1).
    case graceSkipped = "grace-skipped"
    /// Many missing files wait for nobody (F46).
    case largeRemovalNotHeld = "large-removal-not-held"
    /// What lay on a volume that is gone is missing (P2.1).
    case vanishedMountAsDeletes = "vanished-mount-as-deletes"
    /// Events count as taken before they are (D17).
    case cursorBeforeEvents = "cursor-before-events"
    /// A copy the server's log no longer reaches back to goes on from where the log begins (D16).
    case staleCursorKept = "stale-cursor-kept"
    /// A file takes its name before its bytes are on the disk (X15.4); left out by the simulation's disk.
    case fileSyncSkipped = "file-sync-skipped"
    /// A batch counts as landed before its names are on the disk (X15.7); left out by the simulation's disk.
    case directorySyncSkipped = "directory-sync-skipped"
    /// The store's commits do not reach the disk; left out by the simulation's disk.
    case storeSyncSkipped = "store-sync-skipped"
    /// The instance answers before its commit is on the disk; left out by the simulation's disk.
    case serverSyncSkipped = "server-sync-skipped"
    /// A window of writes goes on the wire after a commit that is not on the disk (Q3.3).
    case sentNotDurable = "sent-not-durable"
  }

  #if DEBUG || SABOTAGE
    private let bug: Bug?

    /// Sabotage by one bug; nil for none.
    public init(_ bug: Bug?) { self.bug = bug }

    /// Whether that guard is gone.
    public func breaks(_ bug: Bug) -> Bool { self.bug == bug }
  #else
    /// None.
    @inlinable
    public init(_ bug: Bug?) {}

    /// Never.
    @inlinable
    public func breaks(_ bug: Bug) -> Bool { false }
  #endif

  /// Every guard stands.
  public static let none = Sabotage(nil)

  /// What `MARFA_SABOTAGE` asks for; none for any word that is no bug, and in a release build.
  public static func reading(_ value: String?) -> Sabotage { Sabotage(value.flatMap { Bug(rawValue: $0) }) }
}
