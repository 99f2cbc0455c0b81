import Glibc
import MarfaBase
import Synchronization
import TestSupport
import Testing

@testable import FolderSync

/// Where a directory is stored (ST).
struct StorageTests {
  /// A row of ST3's table: a mount's type and options, and what it says of a directory at `/data/Notes`.
  private static let table: [(type: String, options: String, kernel: String, cause: Storage.Cause?)] = [
    ("nfs", "rw", "", .networkFileSystem(kind: "nfs")), ("nfs4", "rw", "", .networkFileSystem(kind: "nfs4")),
    ("cifs", "rw", "", .networkFileSystem(kind: "cifs")), ("smb3", "rw", "", .networkFileSystem(kind: "smb3")),
    ("9p", "rw,trans=tcp", "", .networkFileSystem(kind: "9p")), ("9p", "rw,trans=virtio", "", .hostShare(kind: "9p")),
    (
      "9p", "rw,aname=drvfs;path=C:\\,trans=fd", "5.15.90.1-microsoft-standard-WSL2", .hostShare(kind: "drvfs")
    ),
    ("fuse.sshfs", "rw", "", .networkFileSystem(kind: "sshfs")),
    ("fuse.rclone", "rw", "", .networkFileSystem(kind: "rclone")),
    ("fuse.gvfsd-fuse", "rw", "", .networkFileSystem(kind: "gvfsd-fuse")),
    ("fuse.glusterfs", "rw", "", .networkFileSystem(kind: "glusterfs")),
    ("fuse.s3fs", "rw", "", .networkFileSystem(kind: "s3fs")),
    ("fuse.davfs", "rw", "", .networkFileSystem(kind: "davfs")),
    ("fuse.google-drive-ocamlfuse", "rw", "", .cloudService(name: "Google Drive")),
    ("fuse.onedriver", "rw", "", .cloudService(name: "OneDrive")),
    ("fuse.pcloud", "rw", "", .cloudService(name: "pCloud")), ("fuse.kbfs", "rw", "", .cloudService(name: "Keybase")),
    ("fuse.dropbox", "rw", "", .cloudService(name: "Dropbox")), ("virtiofs", "rw", "", .hostShare(kind: "virtiofs")),
    ("fuseblk", "rw", "", nil), ("fuse.encfs", "rw", "", .userFileSystem(kind: "encfs")),
    ("ceph", "rw", "", .networkFileSystem(kind: "ceph")), ("afs", "rw", "", .networkFileSystem(kind: "afs")),
    ("coda", "rw", "", .networkFileSystem(kind: "coda")), ("lustre", "rw", "", .networkFileSystem(kind: "lustre")),
    ("gpfs", "rw", "", .networkFileSystem(kind: "gpfs")), ("ncpfs", "rw", "", .networkFileSystem(kind: "ncpfs")),
    ("overlay", "rw,lowerdir=/l", "", .containerLayer), ("vboxsf", "rw", "", .hostShare(kind: "vboxsf")),
    ("vmhgfs", "rw", "", .hostShare(kind: "vmhgfs")), ("fuse.vmhgfs-fuse", "rw", "", .hostShare(kind: "vmhgfs-fuse")),
    ("prl_fs", "rw", "", .hostShare(kind: "prl_fs")), ("wslfs", "rw", "", .hostShare(kind: "drvfs")),
    ("drvfs", "rw", "", .hostShare(kind: "drvfs")), ("lxfs", "rw", "", .hostShare(kind: "drvfs")),
    ("vfat", "rw", "", nil), ("exfat", "rw", "", nil), ("ntfs3", "rw", "", nil), ("ext4", "rw", "", nil),
    ("xfs", "rw", "", nil), ("btrfs", "rw", "", nil), ("f2fs", "rw", "", nil), ("tmpfs", "rw", "", nil),
    ("zfs", "rw", "", nil),
  ]

  private func disk(_ mounts: String, kernel: String = "6.1.0-18-amd64") throws -> MemoryDisk {
    let disk = MemoryDisk(clock: ManualClock())
    try disk.write("/proc/self/mountinfo", mounts)
    try disk.write("/proc/sys/kernel/osrelease", kernel + "\n")
    return disk
  }

  private func look(_ disk: MemoryDisk, _ root: PathBytes = "/data/Notes") -> Storage? {
    StorageLook(MemoryFileSystem(disk), home: "/home/ana", uid: 1000)(root)
  }

  @Test("ST-S1 each row of mountinfo says the cause and kind of the table")
  func rows() throws {
    for row in Self.table {
      // A number no device of the disk in memory has: the mount is found by its point.
      let disk = try disk(
        "4022 1 8:1 / / rw - ext4 /dev/sda1 rw\n4036 4022 0:40 / /data rw,relatime shared:1 - \(row.type) server:/export \(row.options)\n",
        kernel: row.kernel.isEmpty ? "6.1.0-18-amd64" : row.kernel)
      try disk.makeDirectory("/data/Notes")
      let found = look(disk)
      #expect(found?.cause == row.cause, "\(row.type)")
      guard let cause = row.cause else { continue }
      let warning = try #require(found?.warning)
      #expect(warning.hasPrefix("Notes is ") && warning.hasSuffix("."))
      #expect(found?.json["warning"]?.text?.string == warning)
      #expect(Storage(json: found?.json ?? .null)?.cause == cause)
    }
    // A drive of Windows under WSL, and a mount point with a space in its name.
    let wsl = try disk("4036 1 0:40 / /mnt/c rw - virtiofs drvfs rw\n", kernel: "5.15-microsoft")
    try wsl.makeDirectory("/mnt/c/Notes")
    #expect(look(wsl, "/mnt/c/Notes")?.cause == .hostShare(kind: "drvfs"))
    let spaced = try disk("4022 1 8:1 / / rw - ext4 d rw\n4036 1 0:40 / /my\\040share rw - nfs4 s:/e rw\n")
    try spaced.makeDirectory("/my share/Notes")
    #expect(look(spaced, "/my share/Notes")?.cause == .networkFileSystem(kind: "nfs4"))
    try spaced.makeDirectory("/my other/Notes")
    #expect(look(spaced, "/my other/Notes") == nil)
  }

  private static let local = "4022 1 8:1 / / rw - ext4 /dev/sda1 rw\n"

  @Test(
    "ST-S2 markers of each sync program at or above the directory say its cause",
    arguments: [
      (".stfolder/", "Syncthing"), (".stfolder", "Syncthing"), (".dropbox.cache/", "Dropbox"), (".dropbox", "Dropbox"),
      (".nextcloudsync.log", "Nextcloud"), (".owncloudsync.log", "ownCloud"), ("._sync_a1b2.db", "ownCloud"),
      (".insync-trash/", "Insync"), (".seafile-data/", "Seafile"), (".sync/ID", "Resilio Sync"), (".sync_a1b2.db", nil),
    ] as [(String, String?)])
  func markers(marker: String, program: String?) throws {
    for place in ["/home/ana/Cloud/Notes", "/home/ana/Cloud"] {
      let disk = try disk(Self.local)
      try disk.makeDirectory("/home/ana/Cloud/Notes")
      let path = PathBytes("\(place)/\(marker)")
      if marker.hasSuffix("/") { try disk.makeDirectory(path) } else { try disk.write(path, "x") }
      let found = look(disk, "/home/ana/Cloud/Notes")
      #expect(found?.cause == (program.map { .cloudService(name: $0) } ?? .cloudSynced), "\(place) \(marker)")
    }
    // Not above the home, where every directory would be.
    let disk = try disk(Self.local)
    try disk.makeDirectory("/home/ana/Cloud/Notes")
    let above = PathBytes("/home/\(marker)")
    if marker.hasSuffix("/") { try disk.makeDirectory(above) } else { try disk.write(above, "x") }
    #expect(look(disk, "/home/ana/Cloud/Notes") == nil)
  }

  private static let configured: [(file: String, text: String, program: String)] = [
    (
      ".local/state/syncthing/config.xml",
      #"<configuration version="37"><folder id="d" label="A &amp; B" path="/home/ana/A &amp; B/"><filesystemType/></folder></configuration>"#,
      "Syncthing"
    ),
    (
      ".config/syncthing/config.xml", #"<configuration><folder id="d" path="~/A &amp; B"/></configuration>"#,
      "Syncthing"
    ),
    (".dropbox/info.json", #"{"personal":{"path":"/home/ana/A & B","host":1}}"#, "Dropbox"),
    (".config/Nextcloud/nextcloud.cfg", "[Accounts]\n0\\Folders\\1\\localPath=/home/ana/A & B/\n", "Nextcloud"),
    (".config/ownCloud/owncloud.cfg", "[Accounts]\n0\\Folders\\1\\localPath=/home/ana/A & B/\n", "ownCloud"),
    (".config/onedrive/config", "# where\nsync_dir = \"~/A & B\"\n", "OneDrive"),
    (".ccnet/seafile.ini", "/home/ana/A & B/.seafile-data\n", "Seafile"),
  ]

  @Test("ST-S2 the settings of each sync program name their directories; ones that cannot be read name none")
  func settings() throws {
    for row in Self.configured {
      let disk = try disk(Self.local)
      let root: PathBytes = "/home/ana/A & B/Notes"
      try disk.makeDirectory(root)
      try disk.makeDirectory("/home/ana/Other")
      let file = PathBytes("/home/ana/\(row.file)")
      try disk.write(file, row.text)
      #expect(look(disk, root)?.cause == .cloudService(name: row.program), "\(row.file)")
      #expect(look(disk, "/home/ana/Other") == nil)
      try disk.setFailing(file, EACCES)
      #expect(look(disk, root) == nil, "\(row.file)")
      try disk.setFailing(file, nil)
      try disk.write(file, "\u{0}{<folder path=")
      #expect(look(disk, root) == nil, "\(row.file)")
    }
    let drive = try disk(Self.local)
    try drive.makeDirectory("/home/ana/OneDrive/Notes")
    #expect(look(drive, "/home/ana/OneDrive/Notes") == nil)
    try drive.write("/home/ana/.config/onedrive/items.sqlite3", "x")
    #expect(look(drive, "/home/ana/OneDrive/Notes")?.cause == .cloudService(name: "OneDrive"))
    let google: PathBytes = "/run/user/1000/gvfs/google-drive:host=x,user=ana/Notes"
    try drive.makeDirectory(google)
    #expect(look(drive, google)?.cause == .cloudService(name: "Google Drive"))
    // A cloud directory inside a network mount is the network's; in a container's layer the cloud's.
    for (type, cause) in [
      ("nfs4", Storage.Cause.networkFileSystem(kind: "nfs4")), ("overlay", .cloudService(name: "Syncthing")),
    ] {
      let disk = try disk("4022 1 8:1 / / rw - \(type) x rw\n")
      try disk.makeDirectory("/home/ana/Notes/.stfolder")
      #expect(look(disk, "/home/ana/Notes")?.cause == cause)
    }
  }

  @Test("ST-S4 a mount that never answers is told by its path, or as an unknown network file system")
  func hangs() throws {
    for (mounts, cause) in [
      (Self.local + "4036 1 0:40 / /data rw - nfs4 s:/e rw\n", Storage.Cause.networkFileSystem(kind: "nfs4")),
      (Self.local, .networkFileSystem(kind: "unknown")),
    ] {
      let disk = try disk(mounts)
      try disk.makeDirectory("/data/Notes")
      let held = StopFlag()
      defer { held.set(.stopped) }
      let faults = Faults { call in
        if call.operation == .openDirectory, call.name == "/data/Notes" {
          SystemScheduler().wait(nanoseconds: 600_000_000_000, unless: held)
        }
        return .proceed
      }
      let files = FaultyFileSystem(MemoryFileSystem(disk), faults)
      // The disk is still held when this answers.
      let found = StorageLook(files, home: "/home/ana", uid: 1000, limit: 100_000_000)("/data/Notes")
      #expect(found?.cause == cause)
      #expect(!held.isSet)
    }
  }
}
