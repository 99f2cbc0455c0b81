import MarfaBase

/// Finds where a directory is stored (ST3 to ST5): read-only, best effort, computed anew each time (ST8).
///
///     let storage = StorageLook(context.files, home: home, uid: geteuid())(root)
package struct StorageLook: Sendable {
  private let files: any FileSystem
  private let home: PathBytes?
  private let uid: UInt32
  private let limit: UInt64

  /// Looks through a file system.
  /// - Parameter limit: how long the disk has to answer, in nanoseconds; a dead network mount never does.
  package init(_ files: any FileSystem, home: PathBytes?, uid: UInt32, limit: UInt64 = 2_000_000_000) {
    self.files = files
    self.home = home
    self.uid = uid
    self.limit = limit
  }

  /// Looks; nil for a local disk nobody else syncs.
  package func callAsFunction(_ root: PathBytes) -> Storage? {
    let mounts = Mount.table(text("/proc/self/mountinfo") ?? [])
    let kernel = String(decoding: text("/proc/sys/kernel/osrelease") ?? [], as: UTF8.self)
    let name = String(decoding: root.name.bytes, as: UTF8.self)
    func told(_ cause: Storage.Cause?) -> Storage? { cause.map { Storage($0, directory: name.isEmpty ? "/" : name) } }

    let gvfs = PathBytes("/run/user/\(uid)/gvfs")
    if gvfs.contains(root), let mounted = root.components.dropFirst(gvfs.components.count).first,
      mounted.bytes.starts(with: "google-drive:".utf8)
    {
      return told(.cloudService(name: "Google Drive"))
    }
    // The mount the directory is reached through, which only asking it tells; where it does not answer, the path tells.
    let prefix = Mount.above(root, in: mounts)
    guard let asked = asked(root) else {
      return told(prefix?.cause(of: root, kernel: kernel) ?? .networkFileSystem(kind: "unknown"))
    }
    let mount = mounts.first { $0.id != 0 && $0.id == asked.mount } ?? prefix
    let own = cause(asked, mounts, prefix, root, kernel)
    switch own {
    case .networkFileSystem, .hostShare, .cloudService, .cloudSynced, .userFileSystem: return told(own)
    case .containerLayer, nil: break
    }
    let synced = bounded(limit) { self.syncProgram(of: root, under: mount?.point ?? "/") } ?? nil
    return told(synced ?? own)
  }

  /// What the file system of a directory can be relied on for (ST6): its mount alone is looked at.
  package func traits(of root: PathBytes) -> StorageTraits {
    let mounts = Mount.table(text("/proc/self/mountinfo") ?? [])
    let kernel = String(decoding: text("/proc/sys/kernel/osrelease") ?? [], as: UTF8.self)
    let prefix = Mount.above(root, in: mounts)
    guard let asked = asked(root) else {
      return StorageTraits(prefix?.cause(of: root, kernel: kernel) ?? .networkFileSystem(kind: "unknown"))
    }
    let cause = cause(asked, mounts, prefix, root, kernel)
    if case .cloudService = cause { return .cloudMount }
    var traits = StorageTraits(cause)
    traits.takesWindowsNames =
      (mounts.first { $0.id != 0 && $0.id == asked.mount } ?? prefix)?.takesWindowsNames ?? false
    return traits
  }

  /// What asking a directory told: its mount, and its file system's number where no table of mounts names it.
  private struct Asked: Sendable {
    var mount: UInt64
    var type: UInt64?
  }

  /// Nil where it does not answer in time.
  private func asked(_ root: PathBytes) -> Asked? {
    (bounded(limit) { [files] in
      ((try? files.openDirectory(root).status()) ?? nil).map {
        Asked(mount: $0.mount, type: files.typeNumber(of: root))
      }
    } ?? nil)
  }

  /// By the mount a directory is reached through, else the longest mount above it, else the number `statfs` gives (ST3).
  private func cause(
    _ asked: Asked, _ mounts: [Mount], _ prefix: Mount?, _ root: PathBytes, _ kernel: String
  ) -> Storage.Cause? {
    if let mount = mounts.first(where: { $0.id != 0 && $0.id == asked.mount }) ?? prefix {
      return mount.cause(of: root, kernel: kernel)
    }
    guard let type = asked.type.flatMap(Mount.type(numbered:)) else { return nil }
    return Mount(id: 0, point: "/", type: type, options: "").cause(of: root, kernel: kernel)
  }

  // MARK: Sync programs on an ordinary disk (ST5)

  private func syncProgram(of root: PathBytes, under top: PathBytes) -> Storage.Cause? {
    var directory = root
    while true {
      if let found = marked(directory) { return found }
      if directory == top || directory == home || directory.isEmpty || directory == "/" { break }
      directory = directory.parent
    }
    return configured(root).map { .cloudService(name: $0) }
  }

  /// What the markers in one directory say.
  private func marked(_ directory: PathBytes) -> Storage.Cause? {
    guard let opened = try? files.openDirectory(directory), let entries = try? opened.list() else { return nil }
    var isSynced = false
    for entry in entries.sorted(by: { $0.name < $1.name }) where entry.name.bytes.first == UInt8(ascii: ".") {
      let kind = entry.kind ?? ((try? opened.status(of: entry.name)) ?? nil)?.kind
      let name = entry.name
      switch String(decoding: name.bytes, as: UTF8.self) {
      case ".stfolder": return .cloudService(name: "Syncthing")
      // In a home it holds the program's own settings.
      case ".dropbox" where directory != home: return .cloudService(name: "Dropbox")
      case ".dropbox.cache" where kind == .directory: return .cloudService(name: "Dropbox")
      case ".nextcloudsync.log": return .cloudService(name: "Nextcloud")
      case ".owncloudsync.log": return .cloudService(name: "ownCloud")
      case ".insync-trash" where kind == .directory: return .cloudService(name: "Insync")
      case ".seafile-data" where kind == .directory: return .cloudService(name: "Seafile")
      case ".sync" where kind == .directory:
        if let sync = try? opened.directory(".sync"), ((try? sync.status(of: "ID")) ?? nil) != nil {
          return .cloudService(name: "Resilio Sync")
        }
      case let shown where shown.hasPrefix("._sync_") && shown.hasSuffix(".db"):
        return .cloudService(name: "ownCloud")
      case let shown where shown.hasPrefix(".sync_") && shown.hasSuffix(".db"): isSynced = true
      default: break
      }
    }
    guard isSynced else { return nil }
    // Nextcloud's and ownCloud's clients both leave it: the program is the one that is set up here.
    return settings(".config/Nextcloud/nextcloud.cfg") != nil ? .cloudService(name: "Nextcloud") : .cloudSynced
  }

  /// The program whose settings name the directory, or one above it.
  private func configured(_ root: PathBytes) -> String? {
    let named: [(String, [PathBytes])] = [
      (
        "Syncthing",
        [".local/state/syncthing/config.xml", ".config/syncthing/config.xml"].flatMap { syncthing(settings($0)) }
      ),
      ("Dropbox", dropbox(settings(".dropbox/info.json"))),
      ("Nextcloud", localPaths(settings(".config/Nextcloud/nextcloud.cfg"))),
      ("ownCloud", localPaths(settings(".config/ownCloud/owncloud.cfg"))),
      ("OneDrive", oneDrive()),
      ("Seafile", seafile(settings(".ccnet/seafile.ini"))),
    ]
    return named.first { $0.1.contains { $0.isAbsolute && $0 != "/" && $0.contains(root) } }?.0
  }

  private func syncthing(_ text: [UInt8]?) -> [PathBytes] {
    guard let text else { return [] }
    var found: [PathBytes] = []
    for element in String(decoding: text, as: UTF8.self).split(separator: "<") where element.hasPrefix("folder ") {
      let tag = element.prefix { $0 != ">" }
      guard let start = tag.range(of: " path=\"") else { continue }
      let value = tag[start.upperBound...].prefix { $0 != "\"" }
      found.append(path(Self.withoutEntities(String(value))))
    }
    return found
  }

  private func dropbox(_ text: [UInt8]?) -> [PathBytes] {
    guard let text, let accounts = (try? JSON(parsing: text))?.object else { return [] }
    return accounts.members.compactMap { $0.value["path"]?.text.map { path($0.string) } }
  }

  /// Values of keys that end in `localPath`.
  private func localPaths(_ text: [UInt8]?) -> [PathBytes] {
    lines(text).compactMap { key, value in key.hasSuffix("localPath") ? path(value) : nil }
  }

  private func oneDrive() -> [PathBytes] {
    let named = lines(settings(".config/onedrive/config")).filter { $0.key == "sync_dir" }.map { path($0.value) }
    if !named.isEmpty { return named }
    return settings(".config/onedrive/items.sqlite3") != nil ? [path("~/OneDrive")] : []
  }

  private func seafile(_ text: [UInt8]?) -> [PathBytes] {
    guard let text else { return [] }
    // It holds the path of `.seafile-data`, which lies beside the libraries.
    return text.split(separator: 0x0A).prefix(1).map { PathBytes(bytes: $0).parent }
  }

  /// `key=value` lines, quotes and space around the value taken off.
  private func lines(_ text: [UInt8]?) -> [(key: String, value: String)] {
    guard let text else { return [] }
    return String(decoding: text, as: UTF8.self).split(whereSeparator: \.isNewline).compactMap { line in
      guard let equals = line.firstIndex(of: "=") else { return nil }
      func trimmed(_ part: Substring) -> String {
        let kept = part.drop { $0 == " " || $0 == "\t" || $0 == "\"" }.reversed()
          .drop { $0 == " " || $0 == "\t" || $0 == "\"" }.reversed()
        return String(kept)
      }
      return (trimmed(line[..<equals]), trimmed(line[line.index(after: equals)...]))
    }
  }

  private func path(_ text: String) -> PathBytes {
    var path = text
    while path.count > 1, path.hasSuffix("/") { path.removeLast() }
    if path.hasPrefix("~/"), let home { return home.appending(PathBytes(String(path.dropFirst(2)))) }
    return PathBytes(path)
  }

  private static func withoutEntities(_ text: String) -> String {
    text.replacing("&lt;", with: "<").replacing("&gt;", with: ">").replacing("&quot;", with: "\"")
      .replacing("&#34;", with: "\"").replacing("&#39;", with: "'").replacing("&apos;", with: "'")
      .replacing("&amp;", with: "&")
  }

  /// A settings file below the home, at most a megabyte of it; nil where it cannot be read.
  private func settings(_ name: String) -> [UInt8]? { home.flatMap { text($0.appending(PathBytes(name))) } }

  private func text(_ path: PathBytes) -> [UInt8]? {
    guard let file = try? files.openDirectory(path.parent).open(path.name) else { return nil }
    var bytes: [UInt8] = []
    while bytes.count < 1 << 20 {
      guard let more = try? file.read(limit: 1 << 16) else { return nil }
      if more.isEmpty { break }
      bytes += more
    }
    return bytes
  }
}

extension Substring {
  /// Where a text first stands in it.
  fileprivate func range(of text: String) -> Range<Index>? {
    var start = startIndex
    while start < endIndex {
      if self[start...].hasPrefix(text) { return start..<index(start, offsetBy: text.count) }
      start = index(after: start)
    }
    return nil
  }
}
