/// What a disk in memory was told and has not synced yet.
struct Unsynced: Sendable {
  /// One name of a directory, and what it stood for before it changed.
  struct Step: Sendable {
    /// Steps of one call come and go together.
    var group: UInt64
    var directory: UInt64
    var name: PathBytes
    var before: UInt64?
  }

  /// The call under way.
  var group: UInt64 = 0
  /// Changes of names, oldest first.
  var steps: [Step] = []
  /// The bytes the disk has of files written to since their last sync.
  var contents: [UInt64: [UInt8]] = [:]

  /// Whether a name may come back to a node.
  func holds(_ node: UInt64) -> Bool { steps.contains { $0.before == node } }
}

/// A disk whose power goes: a file's bytes last once it was synced, a name once its directory was (X15.5, X15.7). Of the
/// rest some is there and some is not. Names change in the order they were changed, as on a disk with a journal; bytes in
/// none.
extension MemoryDisk {
  /// From now on what is not synced is known.
  public func tracksPower() { state.withLock { $0.unsynced = Unsynced() } }

  /// The power goes and comes back. Every process ends, and no handle may be open. One seed, one outcome.
  public func cutPower(seed: UInt64) {
    var random = PowerDraw(state: seed)
    state.withLock { $0.cutPower(&random) }
  }
}

/// SplitMix, so that an outcome follows from its seed alone.
struct PowerDraw: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var drawn = state
    drawn = (drawn ^ (drawn >> 30)) &* 0xBF58_476D_1CE4_E5B9
    drawn = (drawn ^ (drawn >> 27)) &* 0x94D0_49BB_1331_11EB
    return drawn ^ (drawn >> 31)
  }
}

extension MemoryState {
  /// A name is about to change.
  mutating func willChange(_ name: PathBytes, in directory: UInt64) {
    guard let group = unsynced?.group else { return }
    let step = Unsynced.Step(group: group, directory: directory, name: name, before: self[directory].entries[name])
    unsynced?.steps.append(step)
  }

  /// A file's bytes are about to change.
  mutating func willWrite(_ node: UInt64) {
    guard let unsynced, unsynced.contents[node] == nil else { return }
    let content = self[node].content
    self.unsynced?.contents[node] = content
  }

  mutating func sync(_ node: UInt64) { unsynced?.contents[node] = nil }

  /// A directory's changes last, and with them what came before in the directories they touched.
  mutating func sync(directory: UInt64) {
    guard let steps = unsynced?.steps else { return }
    var directories: Set<UInt64> = [directory]
    var lasting: Set<UInt64> = []
    for step in steps.reversed() where directories.contains(step.directory) {
      lasting.insert(step.group)
      for other in steps where other.group == step.group { directories.insert(other.directory) }
    }
    unsynced?.steps.removeAll { lasting.contains($0.group) }
    for step in steps where lasting.contains(step.group) { if let node = step.before { forget(node) } }
  }

  mutating func syncNames() {
    guard let steps = unsynced?.steps, !steps.isEmpty else { return }
    unsynced?.steps = []
    for step in steps { if let node = step.before { forget(node) } }
  }

  mutating func cutPower(_ random: inout PowerDraw) {
    guard let lost = unsynced else { return }
    unsynced = nil
    enum Way: CaseIterable { case nothingWasTaken, allWasTaken, someWasTaken }
    let way = Way.allCases.randomElement(using: &random) ?? .nothingWasTaken
    for (node, kept) in lost.contents.sorted(by: { $0.key < $1.key }) where nodes[node] != nil {
      switch way {
      case .allWasTaken: break
      case .nothingWasTaken: self[node].content = kept
      case .someWasTaken:
        let length = self[node].content.count
        switch Int.random(in: 0..<4, using: &random) {
        case 0: self[node].content = kept
        case 1: self[node].content = Array(self[node].content.prefix(Int.random(in: 0...length, using: &random)))
        case 2: self[node].content = Array(repeating: 0, count: length)
        default: break
        }
      }
    }
    let groups = lost.steps.map(\.group)
    let from: UInt64 =
      switch way {
      case .allWasTaken: .max
      case .nothingWasTaken: 0
      case .someWasTaken: groups.randomElement(using: &random) ?? 0
      }
    for step in lost.steps.reversed() where step.group >= from {
      let now = self[step.directory].entries[step.name]
      guard nodes[step.directory] != nil, now != step.before else { continue }
      self[step.directory].entries[step.name] = step.before
      if let before = step.before { self[before].links += 1 }
      if let now {
        self[now].links -= 1
        forget(now)
      }
    }
    for step in lost.steps { if let node = step.before { forget(node) } }
    locks = [:]
    processes = [:]
    unsynced = Unsynced()
  }
}
