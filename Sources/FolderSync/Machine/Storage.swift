import MarfaBase

/// Where a directory is stored, where a person should know of it (ST1).
package struct Storage: Hashable, Sendable {
  /// What it is stored on, or who else syncs it (ST2).
  package enum Cause: Hashable, Sendable {
    /// A known sync program's directory.
    case cloudService(name: String)
    /// A sync program's directory; which one's can't be told.
    case cloudSynced
    case networkFileSystem(kind: String)
    /// A virtual machine's or WSL's view of another system's disk.
    case hostShare(kind: String)
    /// A FUSE mount of no known kind.
    case userFileSystem(kind: String)
    /// A container's own layer.
    case containerLayer

    /// Whether notifications tell of changes made elsewhere too (W7).
    package var isToldOfEveryChange: Bool {
      switch self {
      case .networkFileSystem, .hostShare, .userFileSystem: false
      case .cloudService, .cloudSynced, .containerLayer: true
      }
    }
  }

  package var cause: Cause
  /// The directory's own name, for the sentence.
  package var directory: String

  package init(_ cause: Cause, directory: String) {
    self.cause = cause
    self.directory = directory
  }

  /// One plain sentence that names the cause (ST7).
  package var warning: String {
    switch cause {
    case .cloudService(let name):
      "\(directory) is in \(name)'s synced folder, so two programs sync the same files; keep .marfa out of \(name)'s "
        + "sync (\(name == "Syncthing" ? ".stignore" : "its ignore list"))."
    case .cloudSynced:
      "\(directory) is in a synced folder of another program, so two programs sync the same files; keep .marfa out of "
        + "that program's sync (its ignore list)."
    case .networkFileSystem(let kind):
      "\(directory) is on a network file system (\(kind)), so changes made from another computer may not be noticed at "
        + "once; no other computer may work this folder."
    case .hostShare(let kind):
      "\(directory) is on another system's disk (\(kind)), so changes made there may not be noticed at once; nothing "
        + "there may work this folder."
    case .userFileSystem(let kind):
      "\(directory) is on a file system run by a program (\(kind)), so changes made elsewhere may not be noticed at once; "
        + "no other computer may work this folder."
    case .containerLayer:
      "\(directory) is in a container's own layer, so its files and unsent edits go away with the container."
    }
  }

  /// ST1's object.
  package var json: JSON {
    let (word, kind, name): (JSON, JSON, JSON) =
      switch cause {
      case .cloudService(let name): ("cloud_service", nil, .string(name))
      case .cloudSynced: ("cloud_synced", nil, nil)
      case .networkFileSystem(let kind): ("network_file_system", .string(kind), nil)
      case .hostShare(let kind): ("host_share", .string(kind), nil)
      case .userFileSystem(let kind): ("user_file_system", .string(kind), nil)
      case .containerLayer: ("container_layer", nil, nil)
      }
    return ["cause": word, "kind": kind, "name": name, "warning": .string(warning)]
  }
}

/// What a file system can be relied on for (ST6).
package struct StorageTraits: Hashable, Sendable {
  /// Inodes and birth times stay those of their files: where they do not, identity counts as none (F43.6).
  package var identityLasts = true
  /// Processes share memory through a file, as a write-ahead log's index needs.
  package var sharesMemory = true
  /// The names of files are those Windows and FAT take, whatever this computer would (P7.8).
  package var takesWindowsNames = false

  /// Those of a local disk.
  package init() {}

  /// Those of a cause.
  package init(_ cause: Storage.Cause?) {
    switch cause {
    case .networkFileSystem(let kind): (identityLasts, sharesMemory) = (kind == "ceph", false)
    case .hostShare(let kind): (identityLasts, sharesMemory) = (kind == "drvfs", false)
    case .userFileSystem: (identityLasts, sharesMemory) = (false, false)
    case .cloudService, .cloudSynced, .containerLayer, nil: break
    }
  }

  /// Those of a known sync program's own mount, which is no ordinary disk.
  static let cloudMount: StorageTraits = {
    var traits = StorageTraits()
    (traits.identityLasts, traits.sharesMemory) = (false, false)
    return traits
  }()
}

/// One mount of this machine, as a line of `/proc/self/mountinfo` tells it.
package struct Mount: Hashable, Sendable {
  package var id: UInt64
  package var point: PathBytes
  /// The type, with a FUSE mount's subtype: `fuse.sshfs`.
  package var type: String
  /// The last field's options.
  package var options: String

  package init(id: UInt64, point: PathBytes, type: String, options: String) {
    self.id = id
    self.point = point
    self.type = type
    self.options = options
  }

  /// The mounts of a table; lines that are none are left out.
  package static func table(_ text: [UInt8]) -> [Mount] {
    text.split(separator: 0x0A).compactMap { line in
      let fields = line.split(separator: 0x20)
      guard let dash = fields.firstIndex(where: { $0.elementsEqual("-".utf8) }), dash >= 6, fields.count > dash + 1,
        let id = UInt64(String(decoding: fields[0], as: UTF8.self))
      else { return nil }
      return Mount(
        id: id, point: PathBytes(bytes: unescaped(fields[4])), type: String(decoding: fields[dash + 1], as: UTF8.self),
        options: fields.count > dash + 3 ? String(decoding: fields[dash + 3], as: UTF8.self) : "")
    }
  }

  /// The mount with the longest point at or above a path.
  package static func above(_ path: PathBytes, in mounts: [Mount]) -> Mount? {
    mounts.filter { $0.point == path || $0.point == "/" || $0.point.contains(path) }
      .reduce(nil) { best, mount in
        // Of mounts over one point the last one made is seen.
        best.map { $0.point.bytes.count > mount.point.bytes.count } ?? false ? best : mount
      }
  }

  /// The type a number of `statfs` stands for (ST3's table); nil for a local disk's, and for one that is not known.
  package static func type(numbered number: UInt64) -> String? {
    switch number {
    case 0x6969: "nfs"
    case 0xFF53_4D42, 0xFE53_4D42: "cifs"
    case 0x517B: "smbfs"
    case 0x0102_1997: "9p"
    case 0x6573_5546: "fuse"
    case 0x00C3_6400: "ceph"
    case 0x5346_414F, 0x6B41_4653: "afs"
    case 0x7375_7245: "coda"
    case 0x0BD0_0BD0: "lustre"
    case 0x4750_4653: "gpfs"
    case 0x564C: "ncpfs"
    case 0x794C_7630: "overlay"
    case 0x786F_4256: "vboxsf"
    case 0xBACB_ACBC: "vmhgfs"
    case 0x7C7C_6673: "prl_fs"
    case 0x5346_4846: "wslfs"
    default: nil
    }
  }

  /// `\040` and its like.
  private static func unescaped(_ field: ArraySlice<UInt8>) -> [UInt8] {
    var out: [UInt8] = []
    var place = field.startIndex
    while place < field.endIndex {
      let digits = field[place...].dropFirst().prefix(3)
      if field[place] == UInt8(ascii: "\\"), digits.count == 3, digits.allSatisfy({ (0x30...0x37).contains($0) }) {
        out.append(digits.reduce(UInt8(0)) { $0 &* 8 &+ ($1 - 0x30) })
        place += 4
      } else {
        out.append(field[place])
        place += 1
      }
    }
    return out
  }

  /// What the type says of the storage (ST3's table); nil for a local disk.
  /// - Parameters:
  ///   - path: the directory on it.
  ///   - kernel: `/proc/sys/kernel/osrelease`, which tells WSL (ST4).
  package func cause(of path: PathBytes, kernel: String) -> Storage.Cause? {
    let isWSL = kernel.lowercased().contains("microsoft")
    switch type {
    case "nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "afs", "coda", "lustre", "gpfs", "ncpfs":
      return .networkFileSystem(kind: type)
    case "9p":
      if isWSL, options.contains("drvfs") { return .hostShare(kind: "drvfs") }
      return options.contains("trans=virtio") ? .hostShare(kind: "9p") : .networkFileSystem(kind: "9p")
    case "virtiofs": return .hostShare(kind: isWSL && isDriveLetter ? "drvfs" : "virtiofs")
    case "wslfs", "drvfs", "lxfs": return .hostShare(kind: "drvfs")
    case "vboxsf", "vmhgfs", "prl_fs": return .hostShare(kind: type)
    case "overlay": return .containerLayer
    case "fuse": return .userFileSystem(kind: "fuse")
    default: break
    }
    guard type.hasPrefix("fuse.") else { return nil }
    let kind = String(type.dropFirst(5))
    if let name = Self.cloudMounts[kind] { return .cloudService(name: name) }
    if kind == "vmhgfs-fuse" { return .hostShare(kind: kind) }
    return Self.remoteMounts.contains(kind) ? .networkFileSystem(kind: kind) : .userFileSystem(kind: kind)
  }

  /// `/mnt/c` and its like.
  private var isDriveLetter: Bool { point.parent == "/mnt" && point.name.bytes.count == 1 }

  private static let remoteMounts: Set<String> = [
    "sshfs", "rclone", "gvfsd-fuse", "glusterfs", "s3fs", "davfs", "curlftpfs", "ceph", "ceph-fuse", "goofys",
    "gcsfuse", "juicefs", "seaweedfs", "moosefs", "mfs", "lizardfs", "smbnetfs", "webdavfs", "kio-fuse",
  ]
  private static let cloudMounts: [String: String] = [
    "google-drive-ocamlfuse": "Google Drive", "onedriver": "OneDrive", "pcloud": "pCloud", "pCloud.fs": "pCloud",
    "kbfs": "Keybase", "dropbox": "Dropbox", "insync": "Insync", "megafs": "MEGA",
  ]
}

extension Mount {
  /// Whether it is a disk as Windows and cameras format theirs (P7.8).
  package var takesWindowsNames: Bool { Self.windowsTypes.contains(type) }

  private static let windowsTypes: Set<String> = [
    "vfat", "msdos", "exfat", "ntfs", "ntfs3", "fuseblk", "fuse.ntfs-3g", "fuse.exfat", "drvfs",
  ]
}

extension Storage {
  /// The cause as ST1's object names it; nil for null or a cause of another build.
  package init?(json: JSON) {
    guard let word = json["cause"]?.text?.string else { return nil }
    let kind = json["kind"]?.text?.string ?? ""
    let cause: Cause
    switch word {
    case "cloud_service": cause = .cloudService(name: json["name"]?.text?.string ?? "")
    case "cloud_synced": cause = .cloudSynced
    case "network_file_system": cause = .networkFileSystem(kind: kind)
    case "host_share": cause = .hostShare(kind: kind)
    case "user_file_system": cause = .userFileSystem(kind: kind)
    case "container_layer": cause = .containerLayer
    default: return nil
    }
    self.init(cause, directory: "")
  }
}
