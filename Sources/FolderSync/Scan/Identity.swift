import MarfaBase

/// A file of the walk that lays claim to an item, by the id it carries or by what the bindings say of it.
package struct FileClaim: Sendable {
  package var path: PathBytes
  /// Its identity; nil without a birth time, and for a file that shares its identity with another (F17.2).
  package var identity: StoredIdentity?
  /// The id of its `marfa_id` line where that names a document this copy holds; nil for every other id (F16).
  package var carries: EntityID?
  /// The form its name gives a document; nil for any other name.
  package var form: FileForm?

  package init(path: PathBytes, identity: StoredIdentity?, carries: EntityID?, form: FileForm?) {
    self.path = path
    self.identity = identity
    self.carries = carries
    self.form = form
  }
}

/// Whose file a claim is.
package enum FileOwner: Hashable, Sendable {
  /// The file of an item: bound already, or carried by a file that nothing binds (a checkout, F13.11).
  case item(EntityID)
  /// A new item's, until its placement and bytes say otherwise (F17.10).
  case new
}

/// Says whose file each file of a scan is (F13, F15, F16, F17), over the whole scan at once, so that the walk's order
/// changes nothing (F15.6).
///
/// Every file ends in exactly one of F15.6's steps, and every item in at most one file:
/// - (b) a binding at its path with its identity, or with none on either side, decides alone; it is taken first, for all
///   files, and takes its item out of every contest.
/// - What remains contests an item by carrying its id, by having its binding's identity, or by lying at its binding's
///   path without a valid id. One file wins (F15.1): the identity's, else the path's, else the earliest born, else the
///   first in path order. A file that wins the id it carries takes it (c). Only when no such win is left may an
///   identity (d), and then a path (e), decide, since a file may hold another item's identity and yet win the id it
///   carries (F13.10). Each win ends one file's and one item's part, so the rounds end.
/// - What wins nothing is new (f).
package func resolveIdentity(_ files: [FileClaim], _ bindings: [Binding]) -> [FileOwner] {
  var contest = IdentityContest(files: files, bindings: bindings)
  contest.takeBound()
  contest.settle()
  return contest.owners.map { $0 ?? .new }
}

private struct IdentityContest {
  let files: [FileClaim]
  let bindings: [Binding]
  var owners: [FileOwner?]
  var taken: Set<EntityID> = []
  var bound: [EntityID: Binding] = [:]
  var byPath: [PathBytes: [Binding]] = [:]
  var byIdentity: [StoredIdentity: EntityID] = [:]

  init(files: [FileClaim], bindings: [Binding]) {
    self.files = files
    self.bindings = bindings
    owners = Array(repeating: nil, count: files.count)
    // Live bindings before journaled ones, so that a path two bindings name is the living one's.
    for binding in bindings.sorted(by: { ($0.missingSince == nil ? 0 : 1) < ($1.missingSince == nil ? 0 : 1) }) {
      bound[binding.item] = binding
      byPath[binding.path, default: []].append(binding)
      if let identity = binding.identity, byIdentity[identity] == nil { byIdentity[identity] = binding.item }
    }
  }

  /// A bound file item's file is bytes whatever its name (F36.7); a document's stays one only under a document's name.
  func suits(_ file: FileClaim, _ binding: Binding) -> Bool { binding.form == .bytes || file.form != nil }

  mutating func take(_ file: Int, _ item: EntityID) {
    owners[file] = .item(item)
    taken.insert(item)
  }

  mutating func takeBound() {
    for (index, file) in files.enumerated() {
      let here = byPath[file.path] ?? []
      let own =
        here.first { $0.identity != nil && $0.identity == file.identity && suits(file, $0) }
        ?? here.first { $0.identity == nil && file.identity == nil && suits(file, $0) }
      if let own, !taken.contains(own.item) { take(index, own.item) }
    }
  }

  mutating func settle() {
    let open = files.indices.filter { owners[$0] == nil }.sorted { files[$0].path < files[$1].path }
    guard !open.isEmpty else { return }
    var claims: [EntityID: [Int]] = [:]
    for index in open {
      let file = files[index]
      var claimed: Set<EntityID> = []
      if let id = file.carries { claimed.insert(id) }
      if let identity = file.identity, let item = byIdentity[identity], let binding = bound[item], suits(file, binding)
      {
        claimed.insert(item)
      }
      if file.carries == nil {
        for binding in byPath[file.path] ?? [] where suits(file, binding) { claimed.insert(binding.item) }
      }
      for item in claimed where !taken.contains(item) { claims[item, default: []].append(index) }
    }
    while takeNext(claims) {}
  }

  /// Takes every win of the first step that has one; false when none has.
  mutating func takeNext(_ claims: [EntityID: [Int]]) -> Bool {
    let contested = claims.keys.filter { !taken.contains($0) }.sorted()
    for step in [Step.carried, .identity, .path] {
      var won = false
      for item in contested where !taken.contains(item) {
        guard let winner = winner(of: item, claims[item] ?? []), decides(step, winner, item) else { continue }
        take(winner, item)
        won = true
        // An identity or a path that decided may free a carried id for another file: look at those first again.
        if step != .carried { return true }
      }
      if won { return true }
    }
    return false
  }

  enum Step { case carried, identity, path }

  func decides(_ step: Step, _ file: Int, _ item: EntityID) -> Bool {
    switch step {
    case .carried: files[file].carries == item
    case .identity: bound[item]?.identity != nil && bound[item]?.identity == files[file].identity
    case .path: files[file].carries == nil && bound[item]?.path == files[file].path
    }
  }

  /// F15.1 over the files still open.
  func winner(of item: EntityID, _ claims: [Int]) -> Int? {
    let open = claims.filter { owners[$0] == nil }
    let binding = bound[item]
    func rank(_ index: Int) -> (Int, Int64, PathBytes) {
      let file = files[index]
      let place =
        if let identity = binding?.identity, identity == file.identity { 0 } else if binding?.path == file.path {
          1
        } else { 2 }
      return (place, file.identity?.birth ?? .max, file.path)
    }
    return open.min { rank($0) < rank($1) }
  }
}

/// Which of several files whose paths are one name a folder takes (F27.2): the one bound at its exact path, else the first
/// in path order. Answers, for each path that is not taken, the path that is.
package func nameCollisions(_ paths: [PathBytes], bound: Set<PathBytes>) -> [PathBytes: PathBytes] {
  var groups: [NameKey: [PathBytes]] = [:]
  for path in paths { groups[path.nameKey, default: []].append(path) }
  var held: [PathBytes: PathBytes] = [:]
  for group in groups.values where group.count > 1 {
    let ordered = group.sorted()
    guard let taken = ordered.first(where: bound.contains) ?? ordered.first else { continue }
    // A bound file is never displaced: two of one name that are both bound (a disk that told them apart) both stand.
    for path in ordered where path != taken && !bound.contains(path) { held[path] = taken }
  }
  return held
}
