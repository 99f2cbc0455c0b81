import MarfaBase

/// What a pull knows of an item and of the file it has here.
package struct PullSituation: Sendable {
  /// How the search holds the item.
  package enum Membership: Sendable {
    /// The search holds it, or a file here embeds it (F12.38).
    case held
    /// In the bin, or in a state the search does not hold.
    case leftByState
    /// Gone for good from the server.
    case purged
    /// The search stopped holding it otherwise (F35).
    case leftOtherwise
    /// The copy lost its row (F38): the scan's to deal with.
    case lost
  }

  /// What stands at its binding's path.
  package enum File: Sendable {
    /// Nothing binds a file to it.
    case unbound
    /// Bound, and not on the disk.
    case missing
    /// Bound, and out of the walk's reach, for this flag and reason.
    case unreached
    /// Bound, and not to be read.
    case unreadable(String)
    /// Bound, its bytes what the folder last wrote or took back.
    case own
    /// Bound, its bytes what the last scan read: a person's, agreed with the item.
    case asScanned
    /// Bound, and found without its bytes since the agreement: a removal as long as it is in doubt (P3.1).
    case emptied
    /// Bound, and changed since the last scan.
    case changed
  }

  package var membership: Membership
  package var file: File
  /// A hold, a refusal, a save set aside: the file is left as the person wrote it.
  package var isHeld: Bool
  /// Whether its own create is not answered yet.
  package var awaitsCreate: Bool
  /// Whether the item changed since the agreement in what the file shows (F21.4).
  package var changedSinceAgreed: Bool
  /// Whether a scan missed the file, and the item changed since then in what the file shows: one the scan has not missed
  /// may have been renamed in this moment, and its old name must not come back.
  package var changedSinceMissed: Bool
  /// Whether the file's id and version lines are still to be written (F13.6).
  package var owesLines: Bool
  /// Whether the copy holds an older version than was agreed (F39.3).
  package var isSetBack: Bool

  package init(
    membership: Membership, file: File, isHeld: Bool = false, awaitsCreate: Bool = false,
    changedSinceAgreed: Bool = false, changedSinceMissed: Bool = false, owesLines: Bool = false, isSetBack: Bool = false
  ) {
    self.membership = membership
    self.file = file
    self.isHeld = isHeld
    self.awaitsCreate = awaitsCreate
    self.changedSinceAgreed = changedSinceAgreed
    self.changedSinceMissed = changedSinceMissed
    self.owesLines = owesLines
    self.isSetBack = isSetBack
  }
}

/// What becomes of an item's file in a pull.
package enum PullAction: Hashable, Sendable {
  /// Nothing here: the scan's to settle, or no file to have.
  case none
  /// A new file at its place.
  case write
  /// The file a person deleted is written back, since the item changed meanwhile (F21.4).
  case revive
  /// The file is compared with the item's render at its place, and written where it differs.
  case bringCurrent
  /// The same, for an item that left the search otherwise than by state.
  case keepCurrentUnmatched
  /// Taken away (F35).
  case remove(purged: Bool)
  /// Left: the person changed a file that would have gone.
  case keep
  /// Left as the person wrote it, and told of.
  case leaveHeld
  /// Marked as holding what the row does not (F39.3).
  case setAside
  /// Not written: it cannot be read, or was changed since the scan.
  case unwritten(String)
  /// Where the folder's lists, a package or another folder keep it.
  case outside
}

/// What becomes of an item's file (F20, F21, F24, F32, F35, F39).
///
/// Membership and file cross to forty cases, and each is decided by the first of these that holds:
/// - No file is bound: one is written exactly where the item is held.
/// - The file is missing: it is the scan's to settle, and written back only where the item is held and changed since the
///   scan missed it, in what the file showed; a file of an item that left is never written back (F35.3, F44.15).
/// - It lost its bytes: so too; but nothing is taken for a file nobody has, so it stays where its item left.
/// - It is out of reach: nothing is read into that, nothing written there.
/// - The item left by state or was purged: own bytes go; anything else a person may have put there stays (`keep`), and
///   what cannot be read is never taken for own bytes.
/// - The row is lost: the scan's.
/// - What remains is a live file of an item held, or left otherwise: held files are left; an older row never goes over
///   newer words; a file whose create is unanswered stays as written; one changed since the scan is the scan's first.
package func decidePull(_ situation: PullSituation) -> PullAction {
  let isHeldItem = situation.membership == .held
  switch situation.file {
  case .unbound: return isHeldItem ? .write : .none
  case .missing:
    return isHeldItem && situation.changedSinceAgreed && situation.changedSinceMissed && !situation.isSetBack
      && !situation.awaitsCreate
      ? .revive : .none
  case .unreached: return isHeldItem || situation.membership == .leftOtherwise ? .outside : .none
  case .emptied:
    switch situation.membership {
    case .held:
      return situation.changedSinceAgreed && !situation.isSetBack && !situation.awaitsCreate ? .revive : .leaveHeld
    case .leftOtherwise: return .leaveHeld
    case .leftByState, .purged: return .keep
    case .lost: return .none
    }
  case .unreadable, .own, .asScanned, .changed: break
  }
  switch situation.membership {
  case .lost: return .none
  case .leftByState, .purged:
    switch situation.file {
    case .own: return situation.isHeld ? .keep : .remove(purged: situation.membership == .purged)
    case .asScanned, .changed: return .keep
    case .unreadable(let reason): return .unwritten(reason)
    case .unbound, .missing, .emptied, .unreached: return .none
    }
  case .held, .leftOtherwise: break
  }
  if case .unreadable(let reason) = situation.file { return situation.isHeld ? .leaveHeld : .unwritten(reason) }
  if situation.isHeld { return .leaveHeld }
  if situation.isSetBack { return .setAside }
  if situation.awaitsCreate { return .none }
  if case .changed = situation.file {
    return situation.changedSinceAgreed || situation.owesLines
      ? .unwritten("it was changed since it was last read; the next scan sends it") : .none
  }
  return isHeldItem ? .bringCurrent : .keepCurrentUnmatched
}
