import MarfaBase

/// One thing that happens in the world. Drawn ahead of its effects, so that a failing run can be shrunk by leaving
/// operations out.
enum Operation: CustomStringConvertible {
  /// A person writes a new note.
  case create(machine: Int, name: Int, directory: Int)
  /// A person adds a line to a note, by a style of saving.
  case edit(machine: Int, pick: UInt64, style: SaveStyle)
  /// A person changes a property in a note's frontmatter.
  case editProperty(machine: Int, pick: UInt64, value: Int)
  /// A person adds a tag, or takes one out.
  case retag(machine: Int, pick: UInt64, tag: Int)
  /// A person renames or moves a note.
  case rename(machine: Int, pick: UInt64, name: Int, directory: Int)
  /// A person deletes a note.
  case delete(machine: Int, pick: UInt64)
  /// The machine pushes, settled.
  case sync(machine: Int)
  /// The machine pushes and dies at that call of the disk, the network or the store.
  case crash(machine: Int, at: Int)
  /// The network of a machine goes or comes.
  case offline(machine: Int, Bool)
  /// An answer of the next push is lost after the server took the request.
  case loseAnswer(machine: Int, at: Int)
  /// Time passes, seconds.
  case wait(Int)
  /// The machine pushes, and its person acts at that call of the disk: of all calls, or of renames.
  indirect case during(machine: Int, at: Int, amongChanges: Bool, Operation)
  /// An editor that takes the file away and writes it back two pushes later.
  case slowSave(machine: Int, pick: UInt64)
  /// Every note of the machine is deleted, by mistake or not.
  case clearOut(machine: Int, confirms: Bool)
  /// A volume that is mounted in the folder is gone for a while.
  case unplug(machine: Int)
  /// The machine pushes, and its power goes at that call or after the last.
  case powerCut(machine: Int, at: Int, seed: UInt64)
  /// The machine pushes, and the server's power goes at that write of its store or after the last.
  case serverPowerCut(machine: Int, at: Int, seed: UInt64)
  /// The server forgets its log up to now.
  case sweepLog
  /// A person names another note in a note's body.
  case link(machine: Int, pick: UInt64, to: UInt64, form: LinkForm)
  /// A person takes a line out that holds a link or an embed.
  case unlink(machine: Int, pick: UInt64)
  /// A person names another note in a line of the frontmatter, or takes such a line out.
  case edgeLine(machine: Int, pick: UInt64, to: UInt64, form: LinkForm)
  /// A person puts a picture beside their notes.
  case picture(machine: Int, name: Int, directory: Int)
  /// A person shows a picture in a note.
  case embed(machine: Int, pick: UInt64, to: UInt64, form: EmbedForm)
  /// A person does something to a picture.
  case changePicture(machine: Int, pick: UInt64, change: PictureChange)
  /// A person moves a note and the pictures it shows to another directory.
  case moveTogether(machine: Int, pick: UInt64, directory: Int)
  /// Somebody changes a note on the server, by another program.
  case elsewhere(pick: UInt64, change: Elsewhere)
  /// Another program changes a note on the server, and its person saves it at that request of the sync that follows.
  case race(machine: Int, pick: UInt64, at: Int, change: Elsewhere)
  /// A person deletes most of their notes at once.
  case deleteMany(machine: Int)
  /// A person renames a directory.
  case renameDirectory(machine: Int, from: Int, to: Int)
  /// The directory is gone while the machine syncs, an empty one left in its place or not; it comes back.
  case vanish(machine: Int, mountPoint: Bool)
  /// The volume mounted inside the directory is gone while the machine syncs; it comes back.
  case unmountInner(machine: Int)
  /// The wall clocks are set, by seconds.
  case setClock(Int)

  /// How a person names another note.
  enum LinkForm: Int, CaseIterable {
    case name, path, id, shown, heading, title, code, markdown, nobody
  }

  /// How a person names a picture.
  enum EmbedForm: Int, CaseIterable { case name, path, sized, markdown, markdownFromRoot }

  /// What a person does to a picture.
  enum PictureChange: Int, CaseIterable { case repaint, rename, move, delete }

  /// What another program does to a note on the server.
  enum Elsewhere: Int, CaseIterable {
    case append, retitle, tag, trash, restore, archive, unarchive
  }

  /// How an editor saves.
  enum SaveStyle: Int, CaseIterable {
    /// Truncates and writes.
    case inPlace
    /// Writes a new file and renames it over.
    case replace
    /// Moves the old file to a backup, writes a new one, deletes the backup (vim without backupcopy).
    case backup
    /// Writes the text it opened long ago with its addition: a stale buffer.
    case staleBuffer
  }

  var description: String {
    switch self {
    case .create(let machine, let name, let directory): "m\(machine) create n\(name) d\(directory)"
    case .edit(let machine, let pick, let style): "m\(machine) edit \(pick % 1000) \(style)"
    case .editProperty(let machine, let pick, let value): "m\(machine) property \(pick % 1000) \(value)"
    case .retag(let machine, let pick, let tag): "m\(machine) retag \(pick % 1000) \(tag)"
    case .rename(let machine, let pick, let name, let directory):
      "m\(machine) rename \(pick % 1000) n\(name) d\(directory)"
    case .delete(let machine, let pick): "m\(machine) delete \(pick % 1000)"
    case .sync(let machine): "m\(machine) sync"
    case .crash(let machine, let at): "m\(machine) crash \(at)"
    case .offline(let machine, let off): "m\(machine) \(off ? "offline" : "online")"
    case .loseAnswer(let machine, let at): "m\(machine) lose-answer \(at)"
    case .wait(let seconds): "wait \(seconds)"
    case .during(let machine, let at, let amongChanges, let inner):
      "m\(machine) during \(amongChanges ? "rename" : "call") \(at): \(inner)"
    case .slowSave(let machine, let pick): "m\(machine) slow-save \(pick % 1000)"
    case .clearOut(let machine, let confirms): "m\(machine) clear-out \(confirms ? "confirm" : "restore")"
    case .unplug(let machine): "m\(machine) unplug"
    case .sweepLog: "sweep-log"
    case .link(let machine, let pick, let to, let form): "m\(machine) link \(pick % 1000) \(to % 1000) \(form)"
    case .unlink(let machine, let pick): "m\(machine) unlink \(pick % 1000)"
    case .edgeLine(let machine, let pick, let to, let form):
      "m\(machine) edge-line \(pick % 1000) \(to % 1000) \(form)"
    case .picture(let machine, let name, let directory): "m\(machine) picture p\(name) d\(directory)"
    case .embed(let machine, let pick, let to, let form): "m\(machine) embed \(pick % 1000) \(to % 1000) \(form)"
    case .changePicture(let machine, let pick, let change): "m\(machine) \(change) picture \(pick % 1000)"
    case .moveTogether(let machine, let pick, let directory): "m\(machine) move-together \(pick % 1000) d\(directory)"
    case .race(let machine, let pick, let at, let change): "m\(machine) race \(pick % 1000) at request \(at): \(change)"
    case .elsewhere(let pick, let change): "elsewhere \(pick % 1000) \(change)"
    case .deleteMany(let machine): "m\(machine) delete-many"
    case .renameDirectory(let machine, let from, let to): "m\(machine) rename-directory d\(from) d\(to)"
    case .vanish(let machine, let mountPoint): "m\(machine) vanish\(mountPoint ? " mount-point" : "")"
    case .unmountInner(let machine): "m\(machine) unmount-inner"
    case .setClock(let seconds): "clock \(seconds)"
    case .serverPowerCut(let machine, let at, let seed): "m\(machine) server-power-cut \(at) \(seed % 1000)"
    case .powerCut(let machine, let at, let seed): "m\(machine) power-cut \(at) \(seed % 1000)"
    }
  }
}
