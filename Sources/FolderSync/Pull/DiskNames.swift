import Glibc
import MarfaBase

/// The names of the disk by their key, listed once a directory and pull (F27.5, F27.6): "free" and "a file is there" are
/// questions of keys, which one stat cannot answer on a file system that tells cases apart.
final class DiskNames {
  private let root: any Directory
  private var listed: [PathBytes: [NameKey: [PathBytes]]] = [:]
  private var links: [PathBytes: Set<PathBytes>] = [:]

  init(root: any Directory) { self.root = root }

  /// The names of a directory as spelled on the disk; none where it is absent or no directory.
  private func names(in directory: PathBytes) -> [NameKey: [PathBytes]] {
    if let names = listed[directory] { return names }
    var names: [NameKey: [PathBytes]] = [:]
    if let opened = directory.isEmpty ? root : try? root.directory(beneath: directory), let entries = try? opened.list()
    {
      for entry in entries {
        names[entry.name.nameKey, default: []].append(entry.name)
        let told = entry.kind ?? (try? opened.status(of: entry.name))??.kind
        if told == .link { links[directory, default: []].insert(entry.name) }
      }
    }
    for key in names.keys { names[key]?.sort() }
    listed[directory] = names
    return names
  }

  /// A path with the spelling of the directories that stand already: the exact one first, else the first in byte order.
  func spelled(_ path: PathBytes) -> PathBytes {
    var directory: PathBytes = .empty
    for name in path.components.dropLast() {
      let standing = names(in: directory)[name.nameKey] ?? []
      directory = directory.appending(standing.contains(name) ? name : standing.first ?? name)
    }
    return directory.appending(path.name)
  }

  /// Whether a symbolic link stands anywhere on the way to a path, its last name included (F30.2).
  func leadsThroughLink(_ path: PathBytes) -> Bool {
    var directory: PathBytes = .empty
    for name in path.components {
      let standing = names(in: directory)[name.nameKey] ?? []
      guard let there = standing.contains(name) ? name : standing.first else { return false }
      if links[directory]?.contains(there) ?? false { return true }
      directory = directory.appending(there)
    }
    return false
  }

  /// What stands at a path under any spelling, the exact one first.
  func standing(at path: PathBytes) -> PathBytes? {
    let spelled = spelled(path)
    let there = names(in: spelled.parent)[spelled.name.nameKey] ?? []
    return (there.contains(spelled.name) ? spelled.name : there.first).map { spelled.parent.appending($0) }
  }

  /// Whether something other than `own` stands at a path's name.
  func isTaken(_ path: PathBytes, but own: PathBytes?) -> Bool {
    let spelled = spelled(path)
    let there = names(in: spelled.parent)[spelled.name.nameKey] ?? []
    return there.contains { spelled.parent.appending($0) != own }
  }

  func came(_ path: PathBytes) {
    _ = names(in: path.parent)
    listed[path.parent]?[path.name.nameKey, default: []].append(path.name)
  }

  func went(_ path: PathBytes) {
    listed[path.parent]?[path.name.nameKey]?.removeAll { $0 == path.name }
  }
}
