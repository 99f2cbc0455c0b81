import MarfaBase
import Testing

@testable import FolderSync

private func lists(_ include: [Text], ignore: [Text] = []) throws -> PathLists {
  try PathLists(include: include, ignore: ignore)
}

/// Which of these a list takes, tried as include and, turned about, as ignore.
private func taken(_ patterns: [Text], of paths: [PathBytes]) throws -> [PathBytes] {
  let included = paths.filter { (try? lists(patterns).takes($0)) == true }
  let ignored = paths.filter { (try? lists([], ignore: patterns).takes($0)) == false }
  #expect(included == ignored)
  return included
}

@Suite struct PathListsTests {
  @Test("F25.2 an empty list takes all that is not dot-led; another only what it names")
  func include() throws {
    for path in ["kept.md", "deep/kept.md"] as [PathBytes] { #expect(PathLists.unset.takes(path)) }
    for path in [".hidden/note.md", "deep/.hidden/note.md", ".note.md"] as [PathBytes] {
      #expect(PathLists.unset.verdict(on: path) == .dotLed)
    }
    let some = try lists(["Notes/", "Other/kept.md"])
    #expect(some.takes("Notes/deep/a.md") && some.takes("Other/kept.md") && some.takes("x/Notes/a.md"))
    #expect(some.verdict(on: "Other/b.md") == .notIncluded && !some.takes("Notes"))
    #expect(try lists(["# only a comment", "", "   "]).takes("a.md"))
    #expect(try !lists(["!a.md"]).takes("b.md"))
  }

  @Test("F25.4 F-S209's lists decide line by line, without regard to case")
  func order() throws {
    let some = try lists(["*.MD", "!excluded.md", ".hidden.md"], ignore: ["ignored.md"])
    let paths: [PathBytes] = ["allowed.md", "excluded.md", "IGNORED.md", ".hidden.md", ".other.md"]
    #expect(paths.filter { some.takes($0) } == ["allowed.md", ".hidden.md"])
  }

  @Test("F25.4 a nearer match beats any match higher up, whatever the order")
  func nearer() throws {
    for order in [["d/a.md", "!d/"], ["!d/", "d/a.md"]] as [[Text]] {
      #expect(try lists(order).takes("d/a.md"))
      #expect(try !lists([], ignore: order).takes("d/a.md"))
    }
    for order in [["!d/a.md", "d/"], ["d/", "!d/a.md"]] as [[Text]] {
      let ignoring = try lists([], ignore: order)
      #expect(ignoring.takes("d/a.md") && !ignoring.takes("d/b.md"))
      #expect(ignoring.enters(directory: "d"))
      #expect(try !lists(order).takes("d/a.md") && lists(order).takes("d/b.md"))
    }
    #expect(try !lists([], ignore: ["d/"]).enters(directory: "d"))
  }

  @Test("F25.5 a dot-led name is taken only where an include line begins a part with its dot")
  func dotLed() throws {
    for line in ["*.md", "*", "**", "?notes/", "[.]notes/"] as [Text] {
      #expect(try !lists([line]).takes(".notes/x.md"))
      #expect(try !lists([line]).enters(directory: ".notes"))
    }
    let one = try lists([".notes/"])
    #expect(one.takes(".notes/deep/x.md") && !one.takes(".notes/.hidden/x.md"))
    #expect(try lists([".notes/", ".hidden/"]).takes(".notes/.hidden/x.md"))
    #expect(try lists(["\\.notes/"]).takes(".notes/x.md"))
    #expect(try !lists(["*", "!.git/"]).takes(".git/config"))
    let mixed = try lists([".notes/", "*.md"])
    #expect(mixed.takes(".notes/idea.md") && mixed.takes("a.md") && !mixed.takes(".cache/stale.md"))
    // Braces are so many lines (F25.10): the alternative that begins with a dot names the dot-led one, and no other does.
    let braces = try lists(["{.a,b}/"])
    #expect(braces.takes(".a/x.md") && braces.takes("b/x.md") && braces.enters(directory: ".a"))
    #expect(!braces.takes(".b/x.md") && !braces.enters(directory: ".b"))
    #expect(try lists([".{a,b}/"]).takes(".b/x.md"))
    #expect(try !lists(["{*,?b}/"]).takes(".b/x.md"))
    #expect(try lists(["notes/{.a,b}/*.md"]).takes("notes/.a/x.md"))
  }

  @Test(
    "F25.9 a line that is no pattern is refused, naming list and line",
    arguments: ["a{b", "a[b", "a}b", "a\\", "[z-a].md", "{a,{b}", "[b-a]", "a[]"] as [Text])
  func refused(line: Text) throws {
    let error = #expect(throws: PatternRefusal.self) { try PathLists(include: [], ignore: ["fine", line]) }
    #expect(error?.line == line && error?.list == "ignore")
    #expect(error?.description.contains("not a pattern") == true)
  }

  @Test("F25.10 patterns read as gitignore's")
  func syntax() throws {
    let cases: [(Text, takes: [PathBytes], leaves: [PathBytes])] = [
      ("*.md", ["a.md", "d/a.md"], ["a.mdx", "a"]),
      ("/a.md", ["a.md"], ["d/a.md"]),
      ("d/a.md", ["d/a.md"], ["x/d/a.md"]),
      ("d/", ["d/x", "y/d/x"], ["d"]),
      ("**/d/x", ["d/x", "a/b/d/x"], ["d/y"]),
      ("d/**", ["d/x", "d/e/x"], ["d", "e/d/x"]),
      ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ab", "x/a/b"]),
      ("a*/b", ["a/b", "ax/b"], ["ax/y/b"]),
      ("a?c", ["abc"], ["ac", "abbc"]),
      ("a**c", ["ac", "abbc"], ["a/c"]),
      ("\\#a", ["#a"], ["a"]),
      ("\\!a", ["!a"], ["a"]),
      ("a\\*", ["a*"], ["ab"]),
      ("a   ", ["a"], ["a  "]),
      ("a\\ ", ["a "], ["a"]),
      ("*.{md,txt}", ["a.md", "b.TXT"], ["a.rst"]),
      ("{a,b{c,d}}.md", ["a.md", "bc.md", "bd.md"], ["b.md"]),
      ("[a-c]x", ["ax", "CX"], ["dx"]),
      ("[!a-c]x", ["dx"], ["ax", "BX"]),
      ("[^a]", ["b"], ["a", "A"]),
      ("[]a]", ["]", "a"], ["b"]),
      ("[[:digit:]]", ["5"], ["a"]),
    ]
    for (line, takes, leaves) in cases {
      #expect(try taken([line], of: takes + leaves) == takes, "\(line)")
    }
  }

  @Test("F25.11 a class is tested as written, case-insensitively, its ranges never folded")
  func classes() throws {
    for line in ["[A-z]*.md", "[Z-a]*.md"] as [Text] {
      #expect(try taken([line], of: ["_note.md", "5-note.md"]) == ["_note.md"])
    }
    #expect(try lists([".[Z-a]*"]).takes(".`x"))
    #expect(try taken(["\\[CAF\u{C9}\\].md"], of: ["[Cafe\u{301}].md", "C.md"]) == ["[Cafe\u{301}].md"])
    for line in ["\\J\u{30C}", "J\\\u{30C}"] as [Text] {
      #expect(try taken([line], of: ["\u{1F0}", "j\u{30C}"]) == ["\u{1F0}", "j\u{30C}"])
    }
    let spellings: [PathBytes] = ["caf\u{E9}.md", "cafe\u{301}.md", "CAF\u{C9}.MD", "CAFE\u{301}.MD"]
    for line in ["caf[\u{E9}\u{E8}]*.md", "caf[\u{E0}-\u{EA}].md", "CAF[\u{C9}]*.md", "caf?.md"] as [Text] {
      #expect(try taken([line], of: spellings + ["cafx1.md"]) == spellings, "\(line)")
    }
    #expect(try taken(["caf[!\u{E9}].md"], of: spellings + ["cafe.md"]) == ["cafe.md"])
    #expect(try taken(["CAF\u{C9}.md"], of: ["cafe\u{301}.md", "cafe.md"]) == ["cafe\u{301}.md"])
  }

  @Test("F25.12 a character that folds to two is one by its spelling and two by its key")
  func longFolds() throws {
    let dotted: PathBytes = "\u{130}.md"
    for line in ["?.md", "??.md"] as [Text] { #expect(try taken([line], of: [dotted]) == [dotted]) }
    #expect(try lists([".??/"]).takes(".\u{130}/x.md"))
    #expect(try taken(["??.md", "!i\u{307}.md"], of: [dotted]).isEmpty)
    #expect(try taken(["!i\u{307}.md", "??.md"], of: [dotted]) == [dotted])
  }

  @Test("F25.6 built-in names stand whatever the settings say")
  func builtIn() throws {
    let all = try lists(["*", ".*", ".marfa/", ".env"], ignore: ["!.env", "!*.pem"])
    let never: [PathBytes] = [
      ".marfa/x.md", ".marfa-12-3.tmp", ".DS_Store", "THUMBS.DB", "._a", ".Spotlight-V100/x", ".Trashes/x",
      "Icon\r", "desktop.ini", "a.swp", "a.md~", ".#a", "#a#", "~$a.docx", "a.tmp", ".~lock.a#", "a___jb_tmp___",
      "a___jb_old___", "a.crdownload", "a.crswap", "a.part", "a.download", "image.png.download/picture.png", ".env",
      ".env.example", "a.PEM", "Deploy.KEY", "x.p12", "x.pfx", "id_rsa", "id_rsa.pub", "id_dsa", "id_ecdsa_sk",
      "id_ed25519", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", "credentials", "my-credentials.json",
      "credentials.db", ".goutputstream-ABC123", ".xdp-x-1", "4913", ".note.md.aB3xY9", "note.md.tmp.1234",
      ".sb-1234", "Deck.KEY/x.md", "A.rtfd/x.md",
    ]
    for path in never { #expect(!all.takes(path), "\(path)") }
    for path in ["Icon", "a.md", "environment", ".marfa-1x-3.tmpx", "a.tmpl", "key.md", "id.md", "drafts~/a.md"]
      as [PathBytes]
    {
      #expect(all.takes(path), "\(path)")
    }
    #expect(
      BuiltInNames.isPackage("Deck.PAGES") && !BuiltInNames.isPackage("Deck.d") && !BuiltInNames.isPackage(".app"))
  }

  @Test("F26.5 a directory the lists leave no room in is left out")
  func reaches() throws {
    let some = try lists(["Notes/", "/a/b/*.md"], ignore: ["build/"])
    for directory in ["Notes", "Notes/deep", "Other", "a", "a/b"] as [PathBytes] {
      #expect(some.reaches(directory: directory), "\(directory)")
    }
    for directory in ["build", "Notes/build", ".git"] as [PathBytes] {
      #expect(!some.reaches(directory: directory), "\(directory)")
    }
    let anchored = try lists(["/a/b/*.md"])
    #expect(
      !anchored.reaches(directory: "c") && !anchored.reaches(directory: "a/c") && anchored.reaches(directory: "a"))
    #expect(!anchored.reaches(directory: "a/b/c"))
  }

  @Test("X14.3 only the exact form is a temporary file's name")
  func temporaryNames() {
    #expect(TemporaryName(".marfa-12-3.tmp")?.pid == 12)
    #expect(TemporaryName(".marfa-12-77-3.tmp")?.start == 77)
    let own = TemporaryName(writer: (5, 900), counter: 2)
    #expect(TemporaryName(own.name) == own)
    for name in [
      ".marfa-1x-3.tmp", "notes.tmp", ".marfa-12-.tmp", ".marfa--3.tmp", ".marfa-12-3.tmp2", ".marfa-12-a b.tmp",
    ]
      as [PathBytes]
    {
      #expect(TemporaryName(name) == nil)
    }
  }
}
