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
    // VS Code, nano and Obsidian: truncated and written in place.
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
}
