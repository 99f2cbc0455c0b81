import MarfaBase
import Testing
import TestSupport

@testable import marfa_folders

/// What people read says what the program does.
@Suite("documents") struct DocumentationTests {
  static let documents = ["README.md", "CONTRIBUTING.md", "docs/guide.md", "docs/security.md", "docs/reliability.md"]

  // MARK: Commands

  /// The command lines of a document's indented blocks and code spans that begin with the program's name.
  private func commandLines(_ document: String) throws -> [String] {
    var found: [String] = []
    for line in try Repository.text(document).split(separator: "\n") {
      if line.hasPrefix("    ") {
        found.append(line.trimmingPrefix { $0 == " " || $0 == "$" }.description)
      } else {
        // Within a line, code stands between backticks.
        found += line.split(separator: "`", omittingEmptySubsequences: false).enumerated()
          .filter { $0.offset % 2 == 1 }.map { String($0.element) }
      }
    }
    return found.filter { $0.hasPrefix("marfa-folders ") || $0.hasPrefix(".build/release/marfa-folders ") }
  }

  /// The words of a line as a shell reads them: quotes, backslashes, comments and what follows a pipe taken away.
  private func shellWords(_ line: String) -> [String] {
    var words: [String] = []
    var word: String?
    var quote: Character?
    var escaped = false
    for character in line {
      if escaped {
        word = (word ?? "") + String(character)
        escaped = false
      } else if let open = quote {
        if character == open {
          quote = nil
        } else if character == "\\", open == "\"" {
          escaped = true
        } else {
          word = (word ?? "") + String(character)
        }
      } else {
        switch character {
        case "'", "\"":
          quote = character
          word = word ?? ""
        case "\\": escaped = true
        case " ":
          if let whole = word { words.append(whole) }
          word = nil
        case "#" where word == nil, "|", "&", ";", ">": return words
        default: word = (word ?? "") + String(character)
        }
      }
    }
    return words + (word.map { [$0] } ?? [])
  }

  @Test("every command line in the documents is one the program takes", arguments: documents)
  func commandLinesParse(_ document: String) throws {
    let root = commandTree()
    for line in try commandLines(document) {
      let words = shellWords(line).dropFirst().map { Text($0) }
      var parser = CommandParser(root, Array(words))
      do throws(UsageError) { _ = try parser.parse() } catch {
        // A name alone, said in a sentence, may lack what it needs.
        let isName =
          words.allSatisfy { $0.bytes.first != UInt8(ascii: "-") } && root.command(named: words.first ?? "") != nil
        #expect(isName, "\(document): '\(line)': \(error.message)")
      }
    }
  }

  @Test("every example of the help is a command line the program takes")
  func examplesParse() {
    let root = commandTree()
    func walk(_ command: Command) {
      for example in command.examples where example.hasPrefix("marfa-folders ") {
        var parser = CommandParser(root, shellWords(example).dropFirst().map { Text($0) })
        do throws(UsageError) { _ = try parser.parse() } catch { Issue.record("'\(example)': \(error.message)") }
      }
      for child in command.commands { walk(child) }
    }
    walk(root)
  }

  @Test(
    "every link in the documents leads to a file or a heading that is there", arguments: documents + ["CHANGELOG.md"])
  func linksLead(_ document: String) throws {
    let text = try Repository.text(document)
    func anchors(_ text: String) -> Set<String> {
      Set(
        text.split(separator: "\n").filter { $0.hasPrefix("#") }.map { heading in
          String(
            heading.drop { $0 == "#" || $0 == " " }.lowercased().compactMap { character in
              character == " " ? "-" : character.isLetter || character.isNumber || character == "-" ? character : nil
            })
        })
    }
    for piece in text.split(separator: "](").dropFirst() {
      let target = String(piece.prefix { $0 != ")" })
      guard !target.hasPrefix("http"), !target.contains(" ") else { continue }
      // An example in code names a file of nobody's.
      guard target.contains(".md") || target.hasPrefix("#") || target == "LICENSE" else { continue }
      let parts = target.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      let base = document.contains("/") ? "docs/" : ""
      let linked = parts[0].isEmpty ? text : try Repository.text(base + parts[0])
      if parts.count > 1 { #expect(anchors(linked).contains(parts[1]), "\(document): \(target)") }
    }
  }

  // MARK: Proofs

  @Test("every claim of docs/security.md names tests, and each of them exists")
  func claimsAreProven() throws {
    let tests = try Repository.sources("Tests")
    var claim: String?
    var proofs = 0
    func end() {
      if let claim { #expect(proofs > 0, "no test is named for: \(claim)") }
      claim = nil
      proofs = 0
    }
    var isClaims = false
    var claims = 0
    for line in try Repository.text("docs/security.md").split(separator: "\n") {
      if line.hasPrefix("## ") {
        end()
        isClaims = line.hasPrefix("## A")
      } else if line.hasPrefix("- "), isClaims {
        end()
        claim = String(line)
        claims += 1
      } else if line.hasPrefix("  - proof: ") {
        proofs += 1
        let title = line.dropFirst(11)
        #expect(tests.contains { $0.contains("\"\(title)\"") }, "no test is titled: \(title)")
      }
    }
    end()
    #expect(claims > 20)
  }

  // MARK: Messages

  @Test("every message the guide explains is one the program prints")
  func messagesArePrinted() throws {
    // Literals that the source breaks over lines are one text again.
    let sources = try Repository.sources("Sources").map { source in
      var joined = ""
      for line in source.split(separator: "\n") {
        let line = line.trimmingPrefix { $0 == " " }
        if line.hasPrefix("+ \""), joined.hasSuffix("\"\n") {
          joined.removeLast(2)
          joined += line.dropFirst(3) + "\n"
        } else {
          joined += line + "\n"
        }
      }
      return joined
    }
    let guide = try Repository.text("docs/guide.md")
    let messages = guide.split(separator: "\n").filter { $0.hasPrefix("#### ") }.map { heading in
      String(heading.dropFirst(5)).trimmingPrefix("`").description
    }.map { $0.hasSuffix("`") ? String($0.dropLast()) : $0 }
    #expect(messages.count > 30)
    for message in messages {
      // What stands for a name or a reason is an interpolation there; the pieces follow each other in one literal.
      let pieces = message.split(separator: "…").map { $0.trimmed }.filter { !$0.isEmpty }
      let isPrinted = sources.contains { source in
        source.split(separator: "\n").contains { line in
          guard line.contains("\"") else { return false }
          var rest = line[...]
          for piece in pieces {
            guard let range = rest.firstRange(of: piece) else { return false }
            rest = rest[range.upperBound...]
          }
          return true
        }
      }
      #expect(isPrinted, "no message of the program reads: \(message)")
    }
  }
}

extension Substring {
  /// Without white space at its ends.
  fileprivate var trimmed: String {
    String(drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
  }
}
