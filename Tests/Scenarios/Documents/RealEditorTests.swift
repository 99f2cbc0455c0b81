import Glibc
import MarfaBase
import TestSupport
import Testing

/// Saves by real editors, and by the steps other editors and desktops save with, between two runs of `sync` (P1): the
/// item stays the same one, its words arrive, and nothing is made twice.
struct RealEditorTests {
  /// How one program saves a note: a shell script, run beside the note, its name in `$1`. It puts `Saved.` for `Words.`.
  struct Save: Sendable {
    var name: String
    /// What must be installed; nil for the shell alone.
    var program: String?
    var script: String
  }

  /// nano wants a terminal: replaced, written and left by its keys, each once the screen asks for it.
  private static func nano(_ options: String) -> String {
    #"""
    python3 - "$1" \#(options) <<'END'
    import os, pty, sys
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execvp("nano", ["nano", "-I"] + sys.argv[2:] + [sys.argv[1]])
    shown = b""
    def answer(asked, keys):
        global shown
        while asked not in shown:
            shown += os.read(terminal, 4096)
        shown = b""
        os.write(terminal, keys)
    answer(b"Words", b"\x1br")
    answer(b"to replace", b"Words\r")
    answer(b"Replace with", b"Saved\r")
    answer(b"this instance?", b"A")
    answer(b"occurrence", b"\x0f")
    answer(b"to Write", b"\r")
    answer(b"Wrote", b"\x18")
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:
        pass
    sys.exit(os.waitpid(pid, 0)[1])
    END
    """#
  }

  static let saves: [Save] = [
    Save(
      name: "vim", program: "vim",
      script: #"vim -u NONE -i NONE -n -N -es -c 'set backupcopy=auto writebackup' -c '%s/Words/Saved/' -c 'wq' "$1""#),
    Save(
      name: "vim-no", program: "vim",
      script:
        #"vim -u NONE -i NONE -n -N -es -c 'set backup backupcopy=no' -c '%s/Words/Saved/' -c 'wq' "$1""#),
    Save(
      name: "vim-yes", program: "vim",
      script:
        #"vim -u NONE -i NONE -n -N -es -c 'set backup backupcopy=yes' -c '%s/Words/Saved/' -c 'wq' "$1""#),
    Save(
      name: "emacs", program: "emacs",
      script:
        #"emacs -Q --batch "$1" --eval '(progn (while (search-forward "Words" nil t) (replace-match "Saved" t t)) (save-buffer))'"#
    ),
    Save(name: "nano", program: "nano", script: nano("")),
    Save(name: "nano-backup", program: "nano", script: nano("-B")),
    Save(name: "ed", program: "ed", script: #"printf ',s/Words/Saved/\nw\nq\n' | ed -s "$1""#),
    Save(name: "sed", program: "sed", script: #"sed -i 's/Words/Saved/' "$1""#),
    Save(name: "perl", program: "perl", script: #"perl -i -pe 's/Words/Saved/' "$1""#),
    // Emacs: the old file becomes the backup, a new one is written.
    Save(name: "emacs-steps", program: nil, script: #"mv "$1" "$1~"; sed 's/Words/Saved/' "$1~" > "$1""#),
    // gedit and GIO: a temporary file renamed over the old.
    Save(
      name: "gedit", program: nil,
      script: #"sed 's/Words/Saved/' "$1" > .goutputstream-A1B2C3; mv .goutputstream-A1B2C3 "$1""#),
    // KDE's QSaveFile.
    Save(name: "kate", program: nil, script: #"sed 's/Words/Saved/' "$1" > "$1.aB3dE9"; mv "$1.aB3dE9" "$1""#),
    // nano with its backup: the old bytes copied aside, then the file truncated and written in place.
    Save(
      name: "nano-steps", program: nil,
      script: #"cp -p "$1" "$1~"; text=$(sed 's/Words/Saved/' "$1"); printf '%s\n' "$text" > "$1""#),
    // A temporary file linked over the name that was taken away.
    Save(
      name: "linked", program: nil,
      script: #"sed 's/Words/Saved/' "$1" > ".$1.tmp"; rm "$1"; ln ".$1.tmp" "$1"; rm ".$1.tmp""#),
    // VS Code and Obsidian: truncated and written in place.
    Save(name: "code", program: nil, script: #"text=$(sed 's/Words/Saved/' "$1"); printf '%s\n' "$text" > "$1""#),
    Save(
      name: "obsidian", program: nil,
      script: #"text=$(sed 's/Words/Saved/' "$1"); : > "$1"; printf '%s\n' "$text" >> "$1""#),
    // A Flatpak portal.
    Save(
      name: "portal", program: nil,
      script: #"sed 's/Words/Saved/' "$1" > ".xdp-$1-Zz9Yy8"; mv ".xdp-$1-Zz9Yy8" "$1""#),
    // A program that deletes and makes anew.
    Save(
      name: "anew", program: nil, script: #"text=$(sed 's/Words/Saved/' "$1"); rm "$1"; printf '%s\n' "$text" > "$1""#),
    // One that writes the whole file without the lines it does not know.
    Save(name: "whole", program: nil, script: #"printf 'Saved.\n' > "$1""#),
  ]

  private func installed(_ program: String) -> Bool {
    for directory in ["/usr/bin", "/bin", "/usr/local/bin"] where fileBytes("\(directory)/\(program)") != nil {
      return true
    }
    return false
  }

  @Test("saves by editors and desktops keep item and id, send the words once, and make nothing twice")
  func saves() async throws {
    let saves = Self.saves.filter { $0.program.map(installed) ?? true }
    let pair = try await TwoComputers(search: #"{"types":["core.note"]}"#)
    for save in saves { try pair.save(.one, "\(save.name).md", "Words.\n") }
    try await pair.follow(.one)
    let first = try await pair.sync(.one)
    #expect(first["scan"]?["created"]?.int == saves.count, "\(first.compact)")
    func ids() -> [String: String] {
      var ids: [String: String] = [:]
      for save in saves {
        ids[save.name] = pair.text(.one, "\(save.name).md")?.split(separator: "\n").first { $0.hasPrefix("marfa_id: ") }
          .map(String.init)
      }
      return ids
    }
    let before = ids()
    #expect(before.count == saves.count)
    for save in saves {
      let child = try ChildProcess(
        ["/bin/sh", "-c", save.script, "sh", "\(save.name).md"],
        environment: ["PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": pair.scratch.at("home"), "TERM": "dumb"],
        directory: pair.notes(.one))
      child.endInput()
      let ran = try await child.end(within: .seconds(120))
      #expect(pair.text(.one, "\(save.name).md")?.contains("Saved.") == true, "\(save.name): \(ran.errText)")
    }
    let report = try await pair.sync(.one)
    #expect(report["scan"]?["updated"]?.int == saves.count, "\(report.compact)")
    #expect(report["scan"]?["created"]?.int == 0 && report["scan"]?["missing"]?.int == 0)
    #expect(report["scan"]?["flagged"]?.array?.isEmpty == true && report["pull"]?["flagged"]?.array?.isEmpty == true)
    #expect(ids() == before)
    for save in saves {
      let text = pair.text(.one, "\(save.name).md") ?? ""
      #expect(text.hasSuffix("---\nSaved.\n") && text.contains("marfa_version: 2\n"), "\(save.name): \(text)")
    }
    let lines = try pair.serverLines(versions: false).filter { $0.contains("core.note") }
    #expect(lines.count == saves.count, "\(lines.joined(separator: "\n"))")
    #expect(lines.allSatisfy { $0.contains("Saved.") && !$0.contains("Words.") })
    let quiet = try await pair.sync(.one)
    #expect(quiet["drain"]?["answered"]?.int == 0 && quiet["pull"]?["rewritten"]?.int == 0, "\(quiet.compact)")
    // Backups and temporary files of theirs are nobody's items on another computer either.
    try await pair.follow(.two)
    try await pair.sync(.two)
    #expect(pair.files(.two) == saves.map { "\($0.name).md" }.sorted())
    #expect(saves.allSatisfy { pair.text(.two, "\($0.name).md") == pair.text(.one, "\($0.name).md") })
  }

  @Test(
    "saves by editors and desktops under a running watch keep item and id and arrive, a second one before its lines too"
  )
  func savesUnderWatch() async throws {
    let saves = Self.saves.filter { $0.program.map(installed) ?? true }
    let pair = try await TwoComputers(search: #"{"types":["core.note"]}"#)
    for save in saves { try pair.save(.one, "\(save.name).md", "Words.\n") }
    try await pair.follow(.one)
    try await pair.sync(.one)
    func ids() -> [String] {
      saves.compactMap { save in
        pair.text(.one, "\(save.name).md")?.split(separator: "\n").first { $0.hasPrefix("marfa_id: ") }.map(String.init)
      }
    }
    let before = ids()
    try #require(Set(before).count == saves.count)
    let watch = try pair.program(.one).start(["--json", "watch", pair.notes(.one)])
    func events() -> [JSON] { watch.out.split(separator: 0x0A).compactMap { try? JSON(parsing: Array($0)) } }
    try await watch.wait("watching", within: .seconds(120)) { _ in events().contains { $0["event"] == "watching" } }
    for (from, to) in [("Words", "Saved"), ("Saved", "Again")] {
      for save in saves {
        let script = save.script.replacing("Saved", with: "<to>").replacing("Words", with: from).replacing(
          "<to>", with: to)
        let child = try ChildProcess(
          ["/bin/sh", "-c", script, "sh", "\(save.name).md"],
          environment: ["PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": pair.scratch.at("home"), "TERM": "dumb"],
          directory: pair.notes(.one))
        child.endInput()
        let ran = try await child.end(within: .seconds(120))
        #expect(pair.text(.one, "\(save.name).md")?.contains("\(to).") == true, "\(save.name): \(ran.errText)")
      }
      var turns = 0
      try await eventually("every \(to) is on the server", within: .seconds(600)) {
        turns += 1
        guard turns % 50 == 0 else { return false }
        let lines = (try? pair.serverLines(versions: false).filter { $0.contains("core.note") }) ?? []
        return lines.count { $0.contains("\(to).") } == saves.count
      }
    }
    // The lines come once each file was still for a while (P1.3).
    try await eventually("every file has its lines", within: .seconds(600)) {
      saves.allSatisfy { save in
        let text = pair.text(.one, "\(save.name).md") ?? ""
        return text.hasSuffix("---\nAgain.\n") && text.contains("marfa_version: 3\n")
      }
    }
    #expect(ids() == before)
    watch.signal(SIGTERM)
    #expect(try await watch.end().status == 0)
    func sum(_ part: Text, _ name: Text) -> Int { events().map { $0[part]?[name]?.int ?? 0 }.reduce(0, +) }
    #expect(sum("scan", "created") == 0 && sum("scan", "deleted") == 0 && sum("drain", "gave_way") == 0)
    let lines = try pair.serverLines(versions: false).filter { $0.contains("core.note") }
    #expect(
      lines.count == saves.count && lines.allSatisfy { $0.contains("Again.") }, "\(lines.joined(separator: "\n"))")
    #expect(
      Set(pair.files(.one).filter { !$0.hasSuffix("~") && !$0.hasSuffix(".swp") }) == Set(saves.map { "\($0.name).md" })
    )
    let quiet = try await pair.sync(.one)
    #expect(quiet["drain"]?["answered"]?.int == 0 && quiet["pull"]?["rewritten"]?.int == 0, "\(quiet.compact)")
    #expect(quiet["scan"]?["created"]?.int == 0 && quiet["scan"]?["missing"]?.int == 0)
  }

  @Test("P-S4 words written through a descriptor opened before a landing are in the file, in an item, or beside it")
  func lateDescriptor() async throws {
    for closesFirst in [true, false] {
      let pair = try await TwoComputers(search: #"{"types":["core.note"]}"#)
      try pair.save(.one, "Plan.md", "Words.\n")
      for computer in [TwoComputers.Computer.one, .two] {
        try await pair.follow(computer)
        try await pair.sync(computer)
      }
      try pair.save(.two, "Plan.md", try #require(pair.text(.two, "Plan.md")).replacing("Words.", with: "Theirs."))
      try await pair.sync(.two)
      // A program holds the file open from before the landing, and writes when it is over.
      let descriptor = open(pair.notes(.one) + "/Plan.md", O_WRONLY | O_APPEND | O_CLOEXEC)
      try #require(descriptor >= 0)
      try await pair.sync(.one)
      let landed = try #require(pair.text(.one, "Plan.md"))
      let late = Array("Written late.\n".utf8)
      #expect(write(descriptor, late, late.count) == late.count)
      if closesFirst { close(descriptor) }
      try await pair.sync(.one)
      if !closesFirst {
        close(descriptor)
        try await pair.sync(.one)
      }
      for _ in 0..<2 { try await pair.sync(.one) }
      let (here, there) = (pair.directoryLines(.one), try pair.serverLines())
      func isKept(_ words: String) -> Bool {
        here.contains { $0.contains(words) } && there.contains { $0.contains(words) }
      }
      #expect(landed.contains("Theirs.") || landed.contains("Words."))
      #expect(isKept("Written late.") && isKept("Theirs."), "\(here) \(there)")
      #expect(pair.files(.one).allSatisfy { $0.hasSuffix(".md") }, "\(pair.files(.one))")
      let quiet = try await pair.sync(.one)
      #expect(quiet["drain"]?["answered"]?.int == 0 && quiet["scan"]?["created"]?.int == 0, "\(quiet.compact)")
      try await pair.sync(.two)
      #expect(pair.files(.two).contains { pair.text(.two, $0)?.contains("Written late.") == true })
    }
  }
}
