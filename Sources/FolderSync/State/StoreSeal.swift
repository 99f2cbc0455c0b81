import CSQLite
import MarfaBase
import MarfaCopy

/// What tells a store that was restored from a backup, cloned or moved from the one it was (P3.2): the machine it was
/// worked on, its own file, and a count of its changes that is also kept outside it.
package struct StoreSeal: Hashable, Sendable {
  /// The machine's id; nil where it has none.
  package var machine: Text?
  package var inode: UInt64
  package var birth: Int64?
  /// How often a pass changed the store.
  package var count: Int

  /// What is found of it, compared with what the machine is and saw now; nil where nothing differs.
  /// - Parameters:
  ///   - outside: the count kept outside the store; nil where there is none.
  ///   - identityLasts: whether inodes last on this file system (ST6).
  func difference(machine: Text?, status: FileStatus, outside: Int?, identityLasts: Bool) -> String? {
    var found: [String] = []
    if let was = self.machine, let machine, was != machine { found.append("it was last worked on another computer") }
    if let outside, count < outside { found.append("this computer has seen a later state of it") }
    if identityLasts, status.inode != inode || (birth != nil && status.birth != nil && birth != status.birth) {
      found.append("its file is another one, as after a copy or a restore")
    }
    guard !found.isEmpty else { return nil }
    return
      "the folder's store is not what it was: \(found.joined(separator: "; ")). Missing files and older texts wait for "
      + "`confirm`, which lets them go, or `restore`, which puts them back"
  }
}

/// Where the counts of this machine's stores are kept, and who the machine is.
package struct SealKeeper: Sendable {
  private let directory: PathBytes?
  private let machine: Text?
  private let files: any FileSystem

  /// Counts in a directory (`$XDG_STATE_HOME/marfa-folders`); without one, none are kept outside stores.
  package init(directory: PathBytes?, files: any FileSystem) {
    self.directory = directory
    self.files = files
    machine = ClaimOwner.machine(files)
  }

  private func name(_ store: Text) -> PathBytes { PathBytes(bytes: store.bytes + Array(".count".utf8)) }

  /// The count kept of a store; nil where there is none.
  private func count(_ store: Text) -> Int? {
    guard let directory, let bytes = try? files.openDirectory(directory).open(name(store)).read(limit: 64) else {
      return nil
    }
    return Int(String(decoding: bytes.prefix { $0 > 0x20 }, as: UTF8.self))
  }

  /// Keeps it: beside itself and renamed over. A directory that cannot be written keeps none.
  private func keep(_ count: Int, _ store: Text) {
    guard let directory else { return }
    do throws(FileError) {
      _ = try files.makeDirectories(directory, mode: 0o700)
      let opened = try files.openDirectory(directory)
      let writing = PathBytes(bytes: name(store).bytes + Array(".writing".utf8))
      try? opened.unlink(writing)
      let file = try opened.create(writing, mode: 0o600, exactMode: true)
      try file.write(Array("\(count)\n".utf8))
      try file.close()
      try opened.rename(writing, to: opened, as: name(store), .replace)
    } catch { return }
  }

  /// Compares a store with its seal as it is opened to be worked, and seals it as it is now.
  func open(_ folder: FolderEngine, identityLasts: Bool) throws {
    let path = folder.root.appending(RootIdentity.storePath)
    guard let id = try folder.copy.storeID(), let status = (try? files.status(path)) ?? nil else { return }
    let outside = count(id)
    var seal = StoreSeal(machine: machine, inode: status.inode, birth: status.birth, count: outside ?? 0)
    if let kept = try folder.store.seal() {
      let found = kept.difference(machine: machine, status: status, outside: outside, identityLasts: identityLasts)
      seal.count = max(kept.count, outside ?? 0)
      seal.machine = machine ?? kept.machine
      guard found != nil || seal != kept else { return }
      try folder.commit {
        if let found {
          try folder.store.set(.suspect, Text(found))
          try folder.store.set(.unheard, "yes")
        }
        try folder.store.setSeal(seal)
      }
    } else {
      try folder.store.setSeal(seal)
    }
  }

  /// Counts on where a pass changed the store: durable there first, so that the count outside is never ahead of a store
  /// that only lost power.
  func count(_ folder: FolderEngine) {
    let changes = sqlite3_total_changes64(folder.store.database.handle)
    guard changes != folder.sealedChanges, let id = (try? folder.copy.storeID()) ?? nil,
      var seal = (try? folder.store.seal()) ?? nil
    else { return }
    seal.count += 1
    do throws(SQLiteError) { try folder.store.setSeal(seal) } catch { return }
    folder.sealedChanges = sqlite3_total_changes64(folder.store.database.handle)
    keep(seal.count, id)
  }
}

extension FolderStore {
  func seal() throws(SQLiteError) -> StoreSeal? {
    try database.one("SELECT machine, inode, birth, count FROM store_seal") { row throws(SQLiteError) in
      StoreSeal(
        machine: row.optionalText(0), inode: UInt64(row.string(1)) ?? 0, birth: row.optionalInt(2).map { Int64($0) },
        count: row.int(3))
    }
  }

  func setSeal(_ seal: StoreSeal) throws(SQLiteError) {
    try database.run(
      "INSERT OR REPLACE INTO store_seal (one, machine, inode, birth, count) VALUES (1, ?, ?, ?, ?)", seal.machine,
      String(seal.inode), seal.birth, seal.count)
  }
}
