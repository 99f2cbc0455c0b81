import Glibc
import MarfaBase
import Testing
import TestSupport

@testable import marfa_folders

@Suite("man pages and completions") struct ManualTests {
  let scratch: ScratchDirectory
  let program: MarfaFolders

  init() throws {
    scratch = try ScratchDirectory()
    program = MarfaFolders(home: scratch.path)
  }

  private func script(_ shell: String) async throws -> String {
    let ran = try await program.run(["completions", shell])
    try #require(ran.status == 0, "\(ran.errText)")
    return ran.outText
  }

  // MARK: Whole

  @Test("each command, option and argument of the tree stands in its man page, and no page is of anything else")
  func pagesAreWhole() throws {
    let root = commandTree()
    let pages = ManPages(root: root).all
    #expect(pages.map(\.name) == ["marfa-folders"] + root.commands.map { "marfa-folders-\($0.name)" })
    func bold(_ text: String) -> String { "\\fB\(text.replacing("-", with: "\\-"))" }
    func walk(_ command: Command, _ path: String, _ page: String) {
      #expect(command.run == nil || page.contains(bold(path)), "\(path)")
      for option in command.options { #expect(page.contains(bold("--\(option.name)")), "\(path) --\(option.name)") }
      for argument in command.arguments { #expect(page.contains("\\fI\(argument.name)"), "\(path) \(argument.name)") }
      for child in command.commands { walk(child, "\(path) \(child.name)", page) }
    }
    for command in root.commands {
      let page = try #require(pages.first { $0.name == "marfa-folders-\(command.name)" }?.text)
      walk(command, "marfa-folders \(command.name)", page)
      #expect(pages[0].text.contains(bold("marfa-folders-\(command.name)")))
    }
    for option in root.options { #expect(pages[0].text.contains(bold("--\(option.name)"))) }
  }

  @Test(
    "each command and option of the tree stands in the completions of each shell", arguments: ["bash", "zsh", "fish"])
  func completionsAreWhole(_ shell: String) async throws {
    let script = try await script(shell)
    func walk(_ command: Command, _ path: String) {
      for child in command.commands {
        let place = path.isEmpty ? child.name : "\(path) \(child.name)"
        for word in [child.name] + child.aliases { #expect(script.contains("'\(path)/\(word)'"), "\(path) \(word)") }
        walk(child, place)
      }
      for option in command.options {
        #expect(script.contains("'\(path)/--\(option.name)'"), "\(path) --\(option.name)")
        if let short = option.short { #expect(script.contains("'\(path)/-\(short)'")) }
      }
    }
    walk(commandTree(), "")
  }

  // MARK: Read by what reads them

  @Test(
    "each shell parses its completions", arguments: [("bash", ["-n"]), ("zsh", ["-n"]), ("fish", ["--no-execute"])])
  func completionsParse(_ shell: String, _ options: [String]) async throws {
    guard hasTool(shell) else { return }
    let file = try scratch.write("completion", try await script(shell))
    let ran = try await runTool([shell] + options + [file], home: scratch.path)
    #expect(ran.status == 0 && ran.err.isEmpty, "\(shell): \(ran.errText)")
  }

  @Test("what man formats pages with reads every page without a warning")
  func pagesParse() async throws {
    let ran = try await program.run(["man", "--write", scratch.at("man1")])
    #expect(ran.status == 0 && ran.out.isEmpty)
    let files = scratch.files("man1")
    #expect(files.count == commandTree().commands.count + 1)
    guard hasTool("groff") else { return }
    for file in files {
      let ran = try await runTool(
        ["groff", "-man", "-Tutf8", "-wmac", "-rLL=80n", scratch.at("man1/\(file)")], home: scratch.path)
      #expect(ran.status == 0 && ran.err.isEmpty, "\(file): \(ran.errText)")
      #expect(ran.outText.contains("MARFA-FOLDERS"))
    }
  }

  @Test("man tells one page; what is no command or shell is a usage error")
  func words() async throws {
    #expect(try await program.run(["man"]).outText.contains(".TH \"MARFA\\-FOLDERS\" 1"))
    #expect(try await program.run(["man", "push"]).outText.contains("marfa\\-folders sync"))
    for words in [["man", "bogus"], ["completions", "csh"], ["man", "add", "--write", "x"], ["completions"]] {
      let ran = try await program.run(["--json"] + words)
      #expect(ran.status == 2 && ran.code == "usage", "\(words)")
    }
  }

  // MARK: Completing

  /// What bash offers at the end of a line; the words as bash splits them, `=` a word of its own.
  private func bash(_ words: [String]) async throws -> [String] {
    let file = try scratch.write("completion.bash", try await script("bash"))
    let line = (["marfa-folders"] + words).map { singleQuoted($0) }.joined(separator: " ")
    // compopt has a meaning only while bash itself completes.
    let ran = try await runTool(
      [
        "bash", "-c",
        "compopt() { :; }; . \(file); COMP_WORDS=(\(line)); COMP_CWORD=\(words.count); _marfa_folders; "
          + "printf '%s\\n' \"${COMPREPLY[@]}\"",
      ], home: scratch.path)
    #expect(ran.err.isEmpty, "\(words): \(ran.errText)")
    return ran.outText.split(separator: "\n").map(String.init)
  }

  @Test("bash offers what the parser would take: subcommands, options of every level, values, files")
  func bashOffers() async throws {
    let root = commandTree()
    #expect(try await bash([""]) == root.commands.flatMap { [$0.name] + $0.aliases })
    #expect(try await bash(["keys", ""]) == ["keep", "forget", "current"])
    #expect(try await bash(["--url", "keys", "instance", "key", "re"]) == ["revoke"])
    #expect(try await bash(["--url=keys", "conflicts", "keep", ""]) == ["mine", "theirs"])
    #expect(try await bash(["device", "hydrate", "--tier", ""]) == ["library", "feed", "all"])
    #expect(try await bash(["device", "hydrate", "--tier", "=", "f"]) == ["feed"])
    #expect(try await bash(["device", "hydrate", "--tier", "="]) == ["library", "feed", "all"])
    #expect(try await bash(["device", "items", "list", "--d"]) == ["--direction", "--db"])
    #expect(try await bash(["push", "--w"]) == ["--wait"])
    #expect(try await bash(["change", "--version", ""]) == [])
    #expect(try await bash(["--", "--js"]) == [])
    try scratch.makeDirectory("Notes of mine")
    try scratch.write("note.md", "")
    #expect(try await bash(["sync", scratch.at("No")]) == [scratch.at("Notes of mine")])
    #expect(try await bash(["--key-file", scratch.at("no")]) == [scratch.at("note.md")])
    #expect(try await bash(["add", "--create", "x", scratch.at("No")]) == [scratch.at("Notes of mine")])
  }

  @Test("fish offers what the parser would take")
  func fishOffers() async throws {
    guard hasTool("fish") else { return }
    let file = try scratch.write("completion.fish", try await script("fish"))
    func offers(_ line: String) async throws -> [String] {
      let ran = try await runTool(
        ["fish", "--no-config", "-c", "source \(file); complete -C \(singleQuoted(line, fish: true))"],
        home: scratch.path)
      #expect(ran.err.isEmpty, "\(line): \(ran.errText)")
      return ran.outText.split(separator: "\n").compactMap { $0.split(separator: "\t").first.map(String.init) }
    }
    #expect(
      Set(try await offers("marfa-folders "))
        == Set(commandTree().commands.flatMap { [$0.name] + $0.aliases }))
    #expect(Set(try await offers("marfa-folders --url keys keys ")) == ["keep", "forget", "current"])
    #expect(Set(try await offers("marfa-folders device hydrate --tier ")) == ["library", "feed", "all"])
    #expect(Set(try await offers("marfa-folders device items list --d")) == ["--direction", "--db"])
    #expect(try await offers("marfa-folders change --vers") == ["--version"])
    #expect(try await offers("marfa-folders conflicts keep m") == ["mine"])
    #expect(try await offers("marfa-folders instance key re") == ["revoke"])
  }

  // MARK: Installed

  /// `scripts/install` with the program that was built for the tests.
  private func install(_ words: [String]) async throws -> Ran {
    try await runTool(
      ["bash", "\(Repository.path)/scripts/install"] + words, home: scratch.path,
      environment: [
        "DESTDIR": scratch.at("root"), "PREFIX": "/opt/marfa", "MARFA_FOLDERS_BINARY": MarfaFolders.binary,
      ])
  }

  @Test(
    "scripts/install puts program, pages, completions, entry, icon and documents in place, and takes exactly them away")
  func installed() async throws {
    let mine = "root/opt/marfa/share/man/man1/another.1"
    try scratch.write(mine, "another program's")
    for _ in 0..<2 {
      let ran = try await install([])
      #expect(ran.status == 0, "\(ran.errText)")
    }
    let files = Set(scratch.files("root/opt/marfa"))
    for file in [
      "bin/marfa-folders", "share/man/man1/marfa-folders.1", "share/man/man1/marfa-folders-add.1",
      "share/bash-completion/completions/marfa-folders", "share/zsh/site-functions/_marfa-folders",
      "share/fish/vendor_completions.d/marfa-folders.fish", "share/applications/marfa-folders.desktop",
      "share/icons/hicolor/scalable/apps/marfa-folders.svg", "share/doc/marfa-folders/guide.md",
      "share/doc/marfa-folders/LICENSE",
    ] { #expect(files.contains(file), "\(file)") }
    #expect(access(scratch.at("root/opt/marfa/bin/marfa-folders"), X_OK) == 0)
    if hasTool("desktop-file-validate") {
      let entry = scratch.at("root/opt/marfa/share/applications/marfa-folders.desktop")
      let ran = try await runTool(["desktop-file-validate", entry], home: scratch.path)
      #expect(ran.status == 0 && ran.out.isEmpty, "\(ran.outText)")
    }
    let gone = try await install(["--uninstall"])
    #expect(gone.status == 0, "\(gone.errText)")
    #expect(scratch.files("root") == ["opt/marfa/share/man/man1/another.1"])
  }

  @Test("scripts/install refuses a PREFIX that is no absolute path, and words it does not know")
  func installRefuses() async throws {
    let relative = try await runTool(
      ["bash", "\(Repository.path)/scripts/install"], home: scratch.path, environment: ["PREFIX": "usr"])
    #expect(relative.status == 2)
    #expect(try await install(["--bogus"]).status == 2)
    #expect(scratch.files().isEmpty)
  }

  @Test("every script of the repository parses")
  func scriptsParse() async throws {
    for name in names(of: "\(Repository.path)/scripts")
    where try Repository.text("scripts/\(name)").hasPrefix("#!/bin/bash\n") {
      let ran = try await runTool(["bash", "-n", "\(Repository.path)/scripts/\(name)"], home: scratch.path)
      #expect(ran.status == 0, "\(name): \(ran.errText)")
    }
  }
}
