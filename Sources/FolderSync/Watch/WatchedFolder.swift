import MarfaBase
import MarfaCopy

/// One pass of a watched folder, as the loop needs to hear of it.
package struct WatchPassOutcome {
  /// The reports; nil where the pass did nothing worth a report (a copy still filling, C17.5).
  package var pass: WatchPass?
  /// Why the server could not be reached, where it could not (F52.2); nil where it answered.
  package var unreachable: MarfaError?
  /// The directory is gone or replaced (F22): the reports of `waiting`.
  package var rootGone: (settings: JSON, scan: JSON)?
  /// A fill failed for the environment and is to be tried again (F40.5).
  package var fillFailed: MarfaError?
  /// The copy kept changing under the pull (F82).
  package var copyChanging: String?
  /// Times of the monotonic clock at which something that waits is due: a grace, a settling file, a held-back line.
  package var reminders: [UInt64] = []
  /// What ends the watch once the pass was told: a refused credential (F52.5).
  package var ends: MarfaError?
  /// Whether it ran to its end; false where it was asked to stop between steps (H12).
  package var completed = true

  /// A pass that did nothing.
  package init() {}
}

/// A folder the watch holds: its claim, its store, its engine. Made by a `WatchedFolderSource`, used on the watch's thread.
package protocol WatchedFolder: AnyObject {
  /// Runs one pass: settings edit, scan, drain, catch-up, pull, second drain.
  /// - Throws: what ends the watch (H16): a refused credential, changes that no longer reach the folder.
  func pass(reading: Bool, changes: NotedChanges, trusted: Bool) throws(MarfaError) -> WatchPassOutcome
  /// The machine slept, or its clock was set: graces begin anew (P5.1).
  func restartGraces()
  /// Which directories the folder's lists enter, for notifications.
  func entersDirectory() -> @Sendable (PathBytes) -> Bool
  /// Closes the store and lets the claim go.
  func close()
}

/// What became of a try to take a folder.
package enum WatchedOpening {
  /// It is ours.
  case held(any WatchedFolder)
  /// Another process holds it.
  case heldElsewhere
  /// Its person paused it (P5.4): nothing of it is held.
  case paused(FolderPause)
  /// The root can be read and holds no folder, or another one (H6).
  case removed
  /// The root cannot be read now (F22).
  case unreadable(reason: String)
}

/// What the machine's list says of a watched folder (H6).
package enum FolderListing: Sendable {
  /// It lists it.
  case listed
  /// A list that parses does not.
  case missing
  /// It lists this store under another directory, or another folder at this one.
  case replaced
  /// It cannot be told.
  case unknown
}

/// Opens the folder a watch works, at its start and whenever it takes the folder back.
package protocol WatchedFolderSource: AnyObject {
  /// The folder's directory, resolved.
  var root: PathBytes { get }
  /// The address of the server, for messages.
  var server: String { get }
  /// ST1's object or null.
  var storage: JSON { get }
  /// Whether the storage tells of changes made elsewhere (W7).
  var notificationsCanBeTrusted: Bool { get }
  /// Takes the claim without asking (H3), looks at root and store (X11, X12.3), opens.
  /// - Throws: `first_sync_waiting`, `wrong_schema`, and what else keeps it from being worked.
  func open() throws(MarfaError) -> WatchedOpening
  /// What the registry says of this folder (H6).
  func listing() -> FolderListing
  /// Whether nothing stands where the folder was.
  var directoryIsGone: Bool { get }
  /// Who asks for the folder now.
  func asker() -> HandOver.Asker?
  /// The same with its name, which stands in the ask a moment later (X13.3); nil where nobody asks any more.
  func namedAsker(stop: StopFlag) -> HandOver.Asker?
  /// Waits until nobody asks any more (H11); false where stopped first.
  func waitUntilNobodyAsks(stop: StopFlag) -> Bool
}
