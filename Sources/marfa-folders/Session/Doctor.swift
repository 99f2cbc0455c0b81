import FolderSync
import Glibc
import MarfaBase
import MarfaCopy

/// Looks at what folders stand on (N6.4). It reads and asks; it changes nothing and takes no claim.
struct Doctor {
  /// What a check found.
  enum Result: String { case ok, warning, problem }

  /// One check.
  struct Finding {
    var check: String
    var dir: PathBytes?
    var result: Result
    var message: String
    /// The way out; nil where all is well.
    var fix: String?

    var json: JSON {
      [
        "check": .string(check), "dir": .optional(dir?.text), "result": .string(result.rawValue),
        "message": .string(message), "fix": fix.map { .string($0) } ?? .null,
      ]
    }

    var line: String {
      "\(result.rawValue): \(dir.map { "\($0): " } ?? "")\(message)\(fix.map { ". \($0)" } ?? "")"
    }
  }

  private let session: Session
  private let limits: KernelLimits
  /// What was found, in order.
  private(set) var findings: [Finding] = []

  /// A doctor of this machine; `limits` is where the kernel tells its limits.
  init(_ session: Session) {
    self.session = session
    limits = KernelLimits(
      session.context.files, at: session.program.variable("MARFA_TEST_LIMITS").map { PathBytes($0) })
  }

  private mutating func note(
    _ check: String, _ result: Result, _ message: String, fix: String? = nil, dir: PathBytes? = nil
  ) {
    findings.append(Finding(check: check, dir: dir, result: result, message: message, fix: fix))
  }

  /// Looks at the machine, and at the folders named or all.
  mutating func examine(_ named: [PathBytes]?) {
    keyring()
    let roots = named ?? registry()
    var directories = 0
    for root in roots { directories += folder(root) }
    watches(directories)
    server(roots)
    autostart()
  }

  // MARK: The machine

  private mutating func keyring() {
    if session.program.variable("MARFA_API_KEY") != nil || session.invocation.has("key") {
      return note("keyring", .ok, "the credential is given, so the credential store is not needed")
    }
    do throws(MarfaError) {
      _ = try session.kept.entries()
      note("keyring", .ok, "the credential store answers")
    } catch {
      note(
        "keyring", .warning, error.message,
        fix: "Unlock or start a keyring, or give a key with MARFA_API_KEY or --key-file")
    }
  }

  /// The listed folders.
  private mutating func registry() -> [PathBytes] {
    do throws(MarfaError) {
      let entries = try FolderWork.offline(session).list()
      note("registry", .ok, "the list of folders names \(counted(entries.count, "folder"))")
      return entries.map(\.dir)
    } catch {
      note("registry", .problem, error.message, fix: "'add' of each folder writes the list anew")
      return []
    }
  }

  private mutating func watches(_ needed: Int) {
    guard let limit = limits.watches else {
      return note("inotify", .warning, "the kernel's limit of watches cannot be read")
    }
    if limit < needed {
      note(
        "inotify", .problem, "the folders need \(needed) watches and the kernel allows \(limit)",
        fix: "Raise it: sysctl fs.inotify.max_user_watches=\(max(524_288, needed * 2))")
    } else if limit < needed * 2 {
      note(
        "inotify", .warning,
        "the folders need \(needed) of the \(limit) watches the kernel allows all programs together",
        fix: "Raise it: sysctl fs.inotify.max_user_watches=\(max(524_288, needed * 2))")
    } else {
      note("inotify", .ok, "the folders need \(needed) of the \(limit) watches the kernel allows")
    }
  }

  private mutating func autostart() {
    let home =
      session.program.environment["XDG_CONFIG_HOME"].flatMap { $0.bytes.first == 0x2F ? PathBytes($0) : nil }
      ?? session.program.environment["HOME"].map { PathBytes($0).appending(".config") }
    let files = ["systemd/user/marfa-folders.service", "autostart/marfa-folders.desktop"]
      .compactMap { home?.appending(PathBytes($0)) }
    let found = files.first { ((try? session.context.files.status($0)) ?? nil) != nil }
    note(
      "autostart", .ok,
      found.map { "a watch is started at sign-in by \($0)" }
        ?? "no watch is started at sign-in; folders are in step when 'sync' or 'watch' runs")
  }

  // MARK: The server

  private mutating func server(_ roots: [PathBytes]) {
    let work: FolderWork
    let named: Session.NamedServer
    var added: Text?
    for root in roots where added == nil { added = FolderWork.offline(session).server(of: root) }
    do throws(MarfaError) { named = try session.server(folderServer: added) } catch {
      return note("server", .problem, error.message, fix: "Name one with --url or MARFA_API_URL, or 'login'")
    }
    let address = named.address
    do throws(MarfaError) {
      if address.isLocal { try session.program.startInstance() }
      let description = try ServerDescription(of: address, in: session)
      guard description.isOurs else {
        return note(
          "server", .problem,
          "\(address.origin) speaks contract \(description.served ?? "none that it names"), this program \(ServerConnection.contract)",
          fix: "Update this program, or the server")
      }
      note("server", .ok, "\(address.origin) answers and speaks this program's contract")
      clock(description.date, address)
      work = try FolderWork(session.at(address))
    } catch {
      let check = error.exit == 5 ? "credential" : "server"
      return note(
        check, .problem, error.message,
        fix: error.exit == 5
          ? "'login' signs in, 'keys keep' keeps a key" : "See that the address is right and the server runs")
    }
    credential(work, roots)
  }

  private mutating func clock(_ served: Timestamp?, _ address: ServerAddress) {
    guard let served else { return note("clock", .warning, "\(address.origin) does not say what time it has") }
    let apart = abs(served.milliseconds - session.context.clock.now.milliseconds) / 1000
    if apart > 120 {
      note(
        "clock", .problem, "this machine's clock and the server's are \(apart) s apart",
        fix: "Set the clock: timedatectl set-ntp true")
    } else {
      note("clock", .ok, "the clock is within 2 minutes of the server's")
    }
  }

  private mutating func credential(_ work: FolderWork, _ roots: [PathBytes]) {
    let connection = work.connection()
    do throws(MarfaError) {
      _ = try connection.request("GET", "/items/stats")
      note("credential", .ok, "the server takes the credential")
    } catch {
      return note(
        "credential", .problem, error.message, fix: "'login' signs in, 'keys keep' keeps a working key")
    }
    for root in roots {
      guard let id = try? FolderWork.offline(session).reading(root, { $0.folderID }) else { continue }
      do throws(MarfaError) {
        _ = try connection.request("GET", "/items/\(id)")
        permissions(work, root)
      } catch {
        note(
          "permissions", .problem, "the folder's settings \(id) cannot be read: \(error.message)",
          fix: "Give the credential system.folder:read, or see that the folder was not deleted", dir: root)
      }
    }
  }

  /// What the key may do there: read the settings, write what files become, and say where they sit (F-W4, F19.25). A
  /// sign-in is no key, and is not asked.
  private mutating func permissions(_ work: FolderWork, _ root: PathBytes) {
    let key: JSON
    do throws(MarfaError) { key = try work.connection().currentKey() } catch {
      guard error.code == .forbidden else { return note("permissions", .problem, error.message, dir: root) }
      return note("permissions", .ok, "the credential reads the folder's settings", dir: root)
    }
    var lacks: [String] = []
    if CallingKey(key).grant != "write" { lacks.append("edge.in-folder:write, to say where files sit") }
    let types = key["type_permissions"]?.object ?? JSONObject()
    let held = (try? FolderWork.offline(session).reading(root) { try $0.facts().search.types }) ?? []
    for type in held.isEmpty ? ["core.note"] : held where CallingKey.grant(type, in: types) != "write" {
      lacks.append("\(type):write, to send files")
    }
    if CallingKey.grant("tags", in: key["metadata_permissions"]?.object ?? JSONObject()) != "write" {
      lacks.append("metadata.tags:write, to send tags")
    }
    if lacks.isEmpty {
      note("permissions", .ok, "the credential reads the folder's settings and may send what its files say", dir: root)
    } else {
      note(
        "permissions", .warning, "the credential lacks \(lacks.joined(separator: "; "))",
        fix: "Give the key these permissions, or keep another with 'keys keep'", dir: root)
    }
  }

  // MARK: A folder

  /// Looks at a folder; gives how many directories a watch of it needs.
  private mutating func folder(_ directory: PathBytes) -> Int {
    let work = FolderWork.offline(session)
    let root: PathBytes
    do throws(MarfaError) { root = try work.reading(directory) { $0.root } } catch {
      note(
        "folder", .problem, error.message,
        fix: "Bring the directory back, or 'remove' takes it off this machine", dir: directory)
      return 0
    }
    writable(root)
    storage(root)
    store(root)
    holder(root)
    return leftovers(root)
  }

  private mutating func writable(_ root: PathBytes) {
    var room = statvfs()
    let full = root.withCString { statvfs($0, &room) } == 0 && UInt64(room.f_bavail) * UInt64(room.f_frsize) < 64 << 20
    let mode = ((try? session.context.files.status(root)) ?? nil)?.mode ?? 0
    // A superuser may write anywhere; the directory still says that nobody shall.
    if root.withCString({ access($0, W_OK) }) != 0 || mode & 0o222 == 0 {
      note("directory", .problem, "the directory is read-only", fix: "Make it writable: chmod u+w", dir: root)
    } else if room.f_flag & UInt(ST_RDONLY) != 0 {
      note("directory", .problem, "the disk it lies on is mounted read-only", fix: "Mount it to be written", dir: root)
    } else if full {
      note("directory", .problem, "less than 64 MiB are free on its disk", fix: "Make room on the disk", dir: root)
    } else {
      note("directory", .ok, "the directory can be written and its disk has room", dir: root)
    }
  }

  /// Where the directory is stored, where a person should know of it (ST1).
  private mutating func storage(_ root: PathBytes) {
    let look = StorageLook(session.context.files, home: session.program.home, uid: geteuid())
    guard let found = look(root) else {
      return note(
        "storage", .ok, "the directory lies on a disk of this machine, and no other program syncs it", dir: root)
    }
    note("storage", .warning, found.warning, dir: root)
  }

  private mutating func store(_ root: PathBytes) {
    let said: String?
    do {
      said = try FolderWork.offline(session).reading(root) { folder in
        try folder.copy.database.one("PRAGMA quick_check(1)") { $0.string(0) }
      }
    } catch { said = error.message }
    if said == "ok" {
      note("store", .ok, "the folder's store is sound", dir: root)
    } else {
      note(
        "store", .problem, "the folder's store is damaged: \(said ?? "it does not answer")",
        fix:
          "'rebuild' makes it anew from the server and the files, saves what was not sent, and keeps the damaged one beside",
        dir: root)
    }
  }

  private mutating func holder(_ root: PathBytes) {
    guard let pid = LockTable.holder(of: root.appending(stateDirectoryName).appending("core.sqlite.lock")) else {
      return note("lock", .ok, "no process works the folder now", dir: root)
    }
    note("lock", .ok, "process \(pid) works the folder now", dir: root)
  }

  /// Temporary files of writers that are gone; gives how many directories there are.
  private mutating func leftovers(_ root: PathBytes) -> Int {
    var directories = 0
    var found: [PathBytes] = []
    func walk(_ directory: any Directory, _ path: PathBytes, _ depth: Int) {
      directories += 1
      guard let entries = try? directory.list() else { return }
      for entry in entries {
        let here = path.isEmpty ? entry.name : path.appending(entry.name)
        switch entry.kind ?? ((try? directory.status(of: entry.name)) ?? nil)?.kind {
        case .directory:
          if depth < 64, let child = try? directory.directory(entry.name) { walk(child, here, depth + 1) }
        case .regular:
          if let name = TemporaryName(entry.name), kill(name.pid, 0) != 0, errno == ESRCH { found.append(here) }
        case .link, .special, nil: break
        }
      }
    }
    if let directory = try? session.context.files.openDirectory(root) { walk(directory, .empty, 0) }
    if found.isEmpty {
      note("leftovers", .ok, "no interrupted write left anything", dir: root)
    } else {
      note(
        "leftovers", .warning,
        "\(counted(found.count, "file")) of interrupted writes: \(found.prefix(10).map(\.description).joined(separator: ", "))",
        fix: "The next 'sync' takes them away", dir: root)
    }
    return directories
  }
}

/// The kernel's limits on watching directories.
struct KernelLimits {
  /// How many watches a user may have; nil where the kernel does not tell.
  let watches: Int?

  /// Reads them from `/proc`, or in a debug build's test from another directory.
  init(_ files: any FileSystem, at place: PathBytes?) {
    #if DEBUG
      let place = place ?? "/proc/sys/fs/inotify"
    #else
      let place: PathBytes = "/proc/sys/fs/inotify"
    #endif
    let bytes = try? readFile(place.appending("max_user_watches"), in: files, limit: 64)
    watches = bytes.flatMap { Int(Terminal.trimmed(Text(bytes: $0)).string) }
  }
}

/// The kernel's table of locks.
enum LockTable {
  /// The process that holds a lock on a file; nil where none does, or the kernel does not tell.
  static func holder(of path: PathBytes) -> Int? {
    var status = stat()
    guard path.withCString({ lstat($0, &status) }) == 0,
      let table = try? readFile("/proc/locks", in: SystemFileSystem(), limit: 1 << 20)
    else { return nil }
    for line in table.split(separator: 0x0A) {
      let words = line.split(separator: 0x20).map { String(decoding: $0, as: UTF8.self) }
      // "1: POSIX ADVISORY WRITE 1234 fd:01:5678 0 EOF"; waiting ones have "->" second.
      guard words.count >= 6, words[1] != "->", words[5].split(separator: ":").last == "\(status.st_ino)" else {
        continue
      }
      if let pid = Int(words[4]), pid > 0 { return pid }
    }
    return nil
  }
}
