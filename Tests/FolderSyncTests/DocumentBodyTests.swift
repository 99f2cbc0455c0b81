import MarfaBase
import MarfaCopy
import Testing

@testable import FolderSync

private func found(_ body: String, kind: DocumentKind = .markdown) -> (links: [String], embeds: [String]) {
  let all = BodyReferences(body: Text(body), kind: kind)
  return (
    all.links.map { $0.text.whole.string },
    all.embeds.map { embed in
      switch embed.form {
      case .path(let path): "path \(path)"
      case .wiki(let link): "wiki \(link.whole)"
      case .rawSpace(let path): "space \(path)"
      }
    }
  )
}

private let one = EntityID(high: 1, low: 1)
private let two = EntityID(high: 2, low: 2)

@Suite struct DocumentBodyTests {
  @Test(
    "Links of a body, outside code and comments (F12.6, F12.7, F12.14, F12.15)",
    arguments: [
      ("[[a]] and [[b|shown]]", ["a", "b|shown"]), ("[[a [[b]]", ["b"]), ("[[ ]] [[]]", []), ("[[a\nb]]", []),
      ("[[[x]]]", ["x"]), ("| [[a\\|b]] |", ["a\\|b"]), ("[[Note#^id]]", ["Note#^id"]), ("`[[a]]` [[b]]", ["b"]),
      ("`` ` [[a]] ``", []), ("`one\n[[a]]` [[b]]", ["b"]), ("```\n[[a]]\n```\n[[b]]", ["b"]),
      ("~~~\n[[a]]\n```\n[[b]]\n~~~\n[[c]]", ["c"]), ("````\n```\n[[a]]\n````\n[[b]]", ["b"]),
      ("``` x ``` y\n[[a]]", ["a"]), ("    [[a]]\n\n[[b]]", ["b"]), ("- x\n\n    [[a]]", ["a"]),
      ("> ```\n> [[a]]\n> ```\n> [[b]]", ["b"]), ("- ```\n  [[a]]\n  ```\n  [[b]]", ["b"]),
      ("<!-- [[a]]\n[[b]] --> [[c]]", ["c"]), ("%% [[a]]\n[[b]] %% [[c]]", ["c"]), ("100%% [[a]]", ["a"]),
      ("![[Note]] [[a]]", ["a"]), ("[[x]](url)", ["x"]), ("[[a*b*c]]", ["a*b*c"]), ("``` [[info]]\n```\n", []),
      ("\\[[a]]", ["a"]), ("[[a]]\r\n[[b]]\r\n", ["a", "b"]), ("é [[日本]] 👩‍👩‍👧", ["日本"]), ("<!-- [[a]]", []),
      ("<div>\n[[a]]\n</div>", ["a"]), ("`unclosed [[a]]", ["a"]),
    ] as [(String, [String])])
  func links(body: String, expected: [String]) { #expect(found(body).links == expected) }

  @Test(
    "Embeds of a body (F12.16, F12.25)",
    arguments: [
      ("![alt](img/a.png)", ["path img/a.png"]), ("![[chart.png|300]]", ["wiki chart.png|300"]),
      ("![](<my file.png>)", ["path my file.png"]), ("![](a.png \"title\")", ["path a.png"]),
      ("![](my file.png)", ["space my file.png"]), ("\\![a](b.png)", []), ("`![a](b.png)`", []),
      ("[![alt](in.png)](url)", ["path in.png"]), ("![a [b] c](d.png)", ["path d.png"]),
      ("![](a\\(1\\).png)", ["path a(1).png"]),
      ("![](a(1).png)", ["path a(1).png"]), ("![]()", []), ("![](a.png", []), ("<!-- ![](a.png) -->", []),
      ("![a\n\nb](c.png)", []), ("![](a.png 'x') ![[b.png]]", ["path a.png", "wiki b.png"]),
    ] as [(String, [String])])
  func embeds(body: String, expected: [String]) { #expect(found(body).embeds == expected) }

  @Test("A .txt has links and no embeds (F12.10, F12.13)") func text() {
    let all = found("[[a]] ![[b.png]] ![](c.png)\n    [[d]]", kind: .text)
    #expect(all.links == ["a", "d"])
    #expect(all.embeds.isEmpty)
  }

  @Test(
    "Bombs of marks are read to their end, and hide nothing before them",
    .timeLimit(.minutes(5)),
    arguments: ["[[", "![", "![](a \"", "<!--", "%%", "`", "![](<", "![](a b", "![[a", "![a](", "\\", "![[a]]"])
  func bombs(mark: String) {
    #expect(found("[[before]]\n\n" + String(repeating: mark, count: 4000)).links.first == "before")
  }

  @Test("A name answers to one item, none or more (F11.11 to F11.16, F12.3 to F12.5)") func resolution() throws {
    var files = FileNames()
    files.add("projects/File-Name.md", item: one)
    files.add("a/same.md", item: one)
    files.add("b/same.md", item: two)
    files.add("2023.04.07.Standup.md", item: two)
    let titles: [NameKey: [EntityID]] = [
      NameKey("C".utf8): [one], NameKey("C# notes".utf8): [two], NameKey("Caf\u{E9}".utf8): [two],
      NameKey("twin".utf8): [one, two],
      NameKey("#tagged".utf8): [two],
    ]
    let resolver = LinkResolver(files: files, titled: { titles[$0] ?? [] }, holds: { $0 == one || $0 == two })
    let cases: [(String, LinkResolution)] = [
      ("file-name#Heading|shown", .one(one)), ("projects/file-name.md#Heading", .one(one)),
      ("same", .ambiguous([one, two])),
      ("a/same", .one(one)), ("B/SAME.md", .one(two)), ("C", .one(one)), ("C# notes", .ambiguous([one, two])),
      ("CAFE\u{301}", .one(two)), ("twin", .ambiguous([one, two])), ("#local", .headingOnly), ("#tagged", .one(two)),
      ("nothing", .none), ("\(one)#Heading", .one(one)), ("2023.04.07.standup", .one(two)),
      ("\(EntityID(high: 9, low: 9))", .unheldID(EntityID(high: 9, low: 9))),
      ("e.md", .none),
    ]
    for (text, expected) in cases { #expect(try resolver.resolve(LinkText(whole: Text(text))) == expected, "\(text)") }
    #expect(LinkText(value: "[[a]] x") == nil)
    #expect(LinkText(value: "[[]]") == nil)
    #expect(LinkText(value: "[[a]] [[b]]") == nil)
  }

  @Test(
    "An embed names a file here, a missing one, or none (F12.17 to F12.31)",
    arguments: [
      ("![](T10.PNG)", .file("notes/t10.png")), ("![](../img/q.png?v=2)", .file("img/q.png")),
      ("![](/img/q.png#part)", .file("img/q.png")),
      ("![](my%20pic.png)", .file("notes/my pic.png")), ("![](../../x.png)", .leadsOut), ("![](a.md)", .notAFile),
      ("![](a.txt)", .notAFile),
      ("![](https://x.y/a.png)", .notAFile), ("![](//x/a.png)", .notAFile), ("![](#a)", .notAFile),
      ("![](Other%20Note)", .notAFile),
      ("![](gone.png)", .missing(path: "notes/gone.png")), ("![[gone.png]]", .missing(path: nil)),
      ("![[A note]]", .notAFile),
      ("![[Dr. Smith]]", .notAFile), ("![[v1.2 plan]]", .notAFile), ("![[2024.05.01]]", .notAFile),
      ("![[z/pic.png]]", .file("a/z/pic.png")),
      ("![[LICENSE]]", .file("LICENSE")), ("![[same.png]]", .file("notes/same.png")),
      ("![[./t10.png]]", .file("notes/t10.png")),
      ("![[../img/Q.png|300]]", .file("img/q.png")), ("![[deep.png]]", .file("c/deep.png")),
      ("![](my pic.png)", .rawSpace), ("![[../../o.png]]", .leadsOut),
      ("![](Other Note.md)", .notAFile),
    ] as [(String, EmbedResolution)])
  func embedFiles(body: String, expected: EmbedResolution) throws {
    var files = EmbedFiles()
    for path: PathBytes in [
      "notes/t10.png", "img/q.png", "notes/my pic.png", "a/z/pic.png", "bz/pic.png", "LICENSE", "a/same.png",
      "notes/same.png",
      "c/deep.png", "a/b/deep.png", "d/deep.png",
    ] { files.add(path) }
    let embed = try #require(BodyReferences(body: Text(body), kind: .markdown).embeds.first)
    #expect(files.resolve(embed, in: "notes/n.md") == expected)
  }

  @Test("Names from titles (F58, F59)") func names() {
    #expect(DocumentNames.document(title: "a/b\\c:d") == "a-b-c-d.md")
    #expect(DocumentNames.document(title: " \n.hidden\r") == "hidden.md")
    #expect(DocumentNames.document(title: "...") == "untitled.md")
    let wide = String(repeating: "日", count: 100)
    let kept = "." + String(repeating: "x", count: 31)
    #expect(DocumentNames.file(title: Text(wide + kept)) == PathBytes(String(repeating: "日", count: 74) + kept))
    #expect(DocumentNames.file(title: Text(wide + kept + "x")) == PathBytes(String(repeating: "日", count: 85)))
    #expect(DocumentNames.beside("Plan.md", number: 2) == "Plan (2).md")
    #expect(DocumentNames.beside(PathBytes(String(repeating: "a", count: 252) + ".md"), number: 12).bytes.count == 255)
    #expect(DocumentNames.stem(of: "x/2023.04.07.Standup.md") == "2023.04.07.Standup")
    #expect(jsonSize(of: "a\"\\\n\u{1}é/".utf8) == 2 + 1 + 2 + 2 + 2 + 6 + 2 + 1)
    #expect(MIMETypes.type(of: "x/Photo.JPG") == "image/jpeg")
    #expect(MIMETypes.type(of: "Dr. Smith") == nil)
    #expect(DocumentKind(name: "a.MARKDOWN") == .markdown)
    #expect(DocumentKind(name: "a.Txt") == .text)
    #expect(DocumentKind(name: "amd") == nil)
  }

  @Test(
    "Own times as the server reads them (I6.1 to I6.5, F7.37)",
    arguments: [
      ("2026-10-06", "2026-10-06T00:00:00.000Z"), ("2026-10-06T10:00:00", "2026-10-06T10:00:00.000Z"),
      ("2026-10-05T10:00:00+01:00", "2026-10-05T09:00:00.000Z"), ("2026-10", "2026-10-01T00:00:00.000Z"),
      ("2026", "2026-01-01T00:00:00.000Z"), ("2026-10-05T10:00Z", "2026-10-05T10:00:00.000Z"),
      ("2026-10-05T10:00:00.1239Z", "2026-10-05T10:00:00.123Z"), ("0000-01-01", "0000-01-01T00:00:00.000Z"),
      ("2024-02-29", "2024-02-29T00:00:00.000Z"), ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
      ("1969-12-31T23:00:00-02:00", "1970-01-01T01:00:00.000Z"), ("yesterday", nil), ("2026-02-30", nil),
      ("10000-01-01", nil),
      ("2023-02-29", nil), ("", nil), ("9999-12-31T23:59:59-01:00", nil), ("0000-01-01T00:00:00+01:00", nil),
      ("2026-13", nil),
      ("2026-10-05T25:00", nil), ("2026-10-05T", nil), ("2026-10-05T10:00:00.Z", nil), ("2026-10-05T24:01", nil),
      ("2026-1-5", nil),
    ] as [(String, String?)])
  func times(text: String, expected: String?) { #expect(OwnTime.parse(Text(text))?.description == expected) }
}
