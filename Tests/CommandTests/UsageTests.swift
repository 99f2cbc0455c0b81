import MarfaBase
import MarfaCopy
import Testing
import TestSupport

@testable import marfa_folders

@Suite("the command line") struct UsageTests {
  let scratch: ScratchDirectory
  let program: MarfaFolders

  init() throws {
    scratch = try ScratchDirectory()
    program = MarfaFolders(home: scratch.path)
  }

  @Test("C-S4 an unknown subcommand is one usage envelope under --json, and usage text without")
  func unknownSubcommand() async throws {
    for words in [["--json", "bogus"], ["bogus", "--json"], ["create", "--json", "--bogus"]] {
      let ran = try await program.run(words)
      #expect(ran.status == 2)
      #expect(ran.out.isEmpty)
      #expect(ran.code == "usage")
      #expect(ran.message.contains("bogus"))
      #expect(!ran.message.contains("\n"))
      #expect(ran.refusal?["error"]?["server"] == .null)
      #expect(ran.refusal?["exit"] == 2)
    }
    let plain = try await program.run(["bogus"])
    #expect(plain.status == 2)
    #expect(plain.out.isEmpty)
    #expect(plain.errText.contains("Usage:"))
    #expect(plain.errText.hasPrefix("marfa-folders: "))
    #expect(!plain.errText.contains("{"))
    // After -- it is a value (C4.5).
    let value = try await program.run(["bogus", "--", "--json"])
    #expect(value.status == 2)
    #expect(!value.errText.contains("{"))
  }

  @Test("C-S5 help and version are answers, the same with --json")
  func helpAndVersion() async throws {
    for words in [["--help"], ["-h"], ["--version"], ["-V"], ["create", "--help"], ["keys", "keep", "-h"]] {
      let plain = try await program.run(words)
      let json = try await program.run(words + ["--json"])
      #expect(plain.status == 0)
      #expect(json.status == 0)
      #expect(!plain.out.isEmpty)
      #expect(plain.out == json.out)
      #expect(plain.err.isEmpty && json.err.isEmpty)
    }
    #expect(try await program.run(["-V"]).outText.hasPrefix("marfa-folders "))
  }

  @Test("C-S10 the help lists exactly the codes the program can answer, each with its exit")
  func helpListsCodes() async throws {
    let help = try await program.run(["--help"]).outText
    let part = try #require(help.split(separator: "Error codes (the exit in parentheses):\n", maxSplits: 1).last)
    let lines = part.prefix { _ in true }.split(separator: "\n", omittingEmptySubsequences: false).prefix {
      !$0.isEmpty
    }
    let listed = lines.filter { $0.hasPrefix("  ") && !$0.hasPrefix("   ") }.compactMap {
      $0.split(separator: " ").first
    }
    #expect(listed.map(String.init) == MarfaError.Code.allCases.map(\.rawValue))
    for line in lines where line.hasPrefix("  ") && !line.hasPrefix("   ") {
      let code = try #require(line.split(separator: " ").first.flatMap { MarfaError.Code(rawValue: String($0)) })
      #expect(line.contains("\(MarfaError(code, "").exit)"))
    }
    for exit in 0...5 { #expect(help.contains("\n  \(exit)  ")) }
  }

  @Test("C1.7 every subcommand, option and argument has help")
  func everythingHasHelp() {
    func walk(_ command: Command, _ path: String) {
      #expect(!command.summary.isEmpty, "\(path)")
      // A group does something itself only where that is worth a word of its own: `conflicts`.
      #expect(command.run != nil || !command.commands.isEmpty)
      for option in command.options { #expect(!option.help.isEmpty, "\(path) --\(option.name)") }
      for argument in command.arguments { #expect(!argument.help.isEmpty, "\(path) \(argument.name)") }
      #expect(Set(command.options.map(\.name)).count == command.options.count, "\(path) names an option twice")
      for child in command.commands { walk(child, "\(path) \(child.name)") }
    }
    walk(Command(name: "x", summary: "x", commands: commandTree().commands), "")
  }

  @Test("the help of every command fits 80 columns, and no word of it runs over")
  func helpFits() {
    let root = commandTree()
    func walk(_ command: Command, _ path: [String]) {
      for text in [HelpText(root: root).help(path), HelpText(root: root).usage(path)] {
        for line in text.split(separator: "\n") { #expect(line.count <= 80, "\(path): \(line)") }
      }
      for child in command.commands { walk(child, path + [child.name]) }
    }
    walk(root, [])
  }

  @Test("C-S11 --db is no option of a folder command, and --query is none of create")
  func refusedOptions() async throws {
    for words in [["create", "--query", "{}"], ["status", "x", "--db", "y"], ["--db", "y", "list"]] {
      let ran = try await program.run(["--json"] + words)
      #expect(ran.status == 2)
      #expect(ran.code == "usage")
      #expect(ran.message.contains(words.first { $0.hasPrefix("--") } ?? ""))
    }
  }

  @Test("C-S9 a refusal without --json is one line that starts with the program's name")
  func plainRefusal() async throws {
    let ran = try await program.run(["server"])
    #expect(ran.status == 2)
    #expect(ran.errText.hasPrefix("marfa-folders: "))
    #expect(!ran.errText.contains("{"))
    #expect(ran.errText.split(separator: "\n").count == 1)
    #expect(ran.errText.contains("--url") && ran.errText.contains("MARFA_API_URL"))
  }

  @Test("C2.3 no credential names the four ways to give one; spaces count as none")
  func noCredential() async throws {
    var program = program
    program.environment["MARFA_API_KEY"] = "  \t"
    let ran = try await program.run(["--json", "create", "--title", "x", "--url", "http://127.0.0.1:1"])
    #expect(ran.status == 5)
    #expect(ran.code == "no_credential")
    for way in ["--key", "MARFA_API_KEY", "keys keep", "login"] { #expect(ran.message.contains(way)) }
  }

  @Test("C4.1 an address nothing listens on is network, exit 3")
  func unreachable() async throws {
    let ran = try await program.run(["--json", "server", "--url", "http://127.0.0.1:1"])
    #expect(ran.status == 3)
    #expect(ran.code == "network")
    #expect(ran.out.isEmpty)
  }

  @Test("C6.3 a setting given both ways, a pair without =, a value that is no object: invalid, naming the option")
  func settingsRefusals() async throws {
    let server = ["--url", "http://127.0.0.1:1", "--key", "k"]
    let cases: [([String], String)] = [
      (["--body", #"{"title":"a"}"#, "--title", "b"], "title"),
      (["--title", "x", "--first-placement", "core.note"], "--first-placement"),
      (["--title", "x", "--search", "[1]"], "--search"),
      (["--title", "x", "--defaults", "nonsense"], "--defaults"),
      (["--body", "[]"], "--body"),
      (["--title", "x", "--search", #"{"kinds":[]}"#], "kinds"),
      (["--title", "x", "--search", #"{"state":[]}"#], "state"),
      (["--title", "x", "--search", #"{"state":["trashed"]}"#], "state"),
      (["--title", "x", "--removal-threshold", #"{"count":3}"#], "count"),
    ]
    for (words, named) in cases {
      let ran = try await program.run(["--json", "create"] + words + server)
      #expect(ran.status == 1, "\(words)")
      #expect(ran.code == "invalid", "\(words)")
      #expect(ran.message.contains(named), "\(words): \(ran.message)")
      #expect(ran.refusal?["error"]?["server"] == .null)
    }
    let both = try await program.run(["--json", "create", "--file", "x", "--body", "{}"] + server)
    #expect(both.code == "usage")
    let versionless = try await program.run(["--json", "change", "018f0000-0000-7000-8000-00000000f001"] + server)
    #expect(versionless.code == "usage")
    #expect(versionless.message.contains("--version"))
  }

  @Test("C1.4 status without DIR names server")
  func statusNeedsDirectory() async throws {
    let ran = try await program.run(["--json", "status"])
    #expect(ran.code == "usage")
    #expect(ran.message.contains("server"))
  }
}
