import MarfaBase

/// More of what people's files hold, one odd thing each: note programs, static sites, templates, other systems' texts.
extension PeopleFilesTests {
  static let wild: [File] = [
    // Note programs.
    lines(
      "obsidian", "aliases: [\"Other name\", Second]\ncssclasses:\n  - wide\ncreated: 2024-01-02 10:11\ntag: one",
      [
        "aliases": ["Other name", "Second"], "cssclasses": ["wide"], "created": "2024-01-02 10:11", "tag": "one",
      ]),
    lines("empty list entry", "aliases:\n  -\n  - x", ["aliases": [.null, "x"]]),
    lines("dotted key", "a.b: x\nc/d: y\n\"e:f\": z", ["a.b": "x", "c/d": "y", "e:f": "z"]),
    lines("quoted keys", "\"due date\": soon\n'its': 'it''s'", ["due date": "soon", "its": "it's"]),
    lines("their state", "status: draft\nstage: [x]", ["status": "draft", "stage": ["x"]]),
    held("state of theirs", "state: draft", "unreadable", "draft", "state"),
    held("tier of theirs", "tier: gold", "unreadable", "gold", "tier"),
    held("type empty", "type:", "unreadable", "type"),
    held("type note", "type: note", "refused", "note"),
    held("number tags", "tags: [2024, work]", "unreadable", "tags"),
    held("hash in flow tags", "tags: [#work]", "unreadable", "line"),
    held("tags map", "tags: {work: yes}", "unreadable", "tags"),
    held("about text", "about: My notes on things", "edges", "[["),
    held("references list", "references:\n  - Smith 2020\n  - Doe 2021", "edges", "[["),
    held("title number", "title: 2024", "refused", "title"),
    // Static sites.
    lines(
      "hugo",
      "date: 2024-01-02T15:04:05-07:00\ndraft: true\nweight: 10\nparams:\n  a: 1\n  b: [x, \"y z\"]\nmenu: {main: {}}",
      json(
        #"{"date":"2024-01-02T15:04:05-07:00","draft":true,"weight":10,"params":{"a":1,"b":["x","y z"]},"menu":{"main":{}}}"#
      )),
    lines(
      "jekyll", "layout: post\npermalink: /a/:title/\nexcerpt_separator: <!--more-->",
      ["layout": "post", "permalink": "/a/:title/", "excerpt_separator": "<!--more-->"]),
    body("liquid", "{% include x.html %} {{ page.title }} {{< ref \"a.md\" >}}\n"),
    body("pandoc", "% Title\n% Author\n\nWords.\n"),
    body("toml with yaml after", "+++\na = 1\n+++\n---\nb: 2\n---\nWords.\n"),
    // YAML that is not what it looks like.
    held("bold", "name: *bold* words", "unreadable", "line"),
    held("alias to nothing", "name: *nobody", "unreadable"),
    held("backtick", "name: `code`", "unreadable", "line"),
    held("their tag", "name: !important x", "unreadable"),
    held("not a number", "x: .nan", "unreadable"),
    lines("anchor", "a: &x one\nb: *x", ["a": "one", "b": "one"]),
    lines("task", "a: [ ]\nb: \"[ ] task\"", ["a": [], "b": "[ ] task"]),
    lines(
      "texts like numbers", "a: 1_000\nb: 0b101\nc: 12:30:45\nd: 1.2.3\ne: 2024-13-99\nf: \"5\"\ng: 1,5",
      [
        "a": "1_000", "b": "0b101", "c": "12:30:45", "d": "1.2.3", "e": "2024-13-99", "f": "5", "g": "1,5",
      ]),
    lines("zeros and signs", "a: 01234\nb: +7\nc: .5\nd: 0o17\ne: -0", json(#"{"a":1234,"b":7,"c":0.5,"d":15,"e":0}"#)),
    lines("case of null", "a: Null\nb: NULL\nc: nil\nd: none", ["a": .null, "b": .null, "c": "nil", "d": "none"]),
    lines("case of bools", "a: TRUE\nb: tRue\nc: y\nd: N", ["a": true, "b": "tRue", "c": "y", "d": "N"]),
    lines("literal kept", "text: |+\n  one\n\n  two\n\nmood: good", ["text": "one\n\ntwo\n\n", "mood": "good"]),
    lines("indented block", "text: |2\n    deep\n  less\nmood: good", ["text": "  deep\nless\n", "mood": "good"]),
    lines(
      "flow over lines", "a: [one,\n  two,   # why\n  three]\nb: {x: 1,\n  y: 2}",
      json(#"{"a":["one","two","three"],"b":{"x":1,"y":2}}"#)),
    lines("plain over lines", "a: one\n  two\n\n  three\nb: x", ["a": "one two\nthree", "b": "x"]),
    lines("escapes", #"a: "tab\tquote\" \u00e9 \U0001F331 \x41 back\\""#, ["a": "tab\tquote\" é 🌱 A back\\"]),
    lines("hash in value", "a: one#two\nb: c # d", ["a": "one#two", "b": "c"]),
    lines("url", "a: https://x.test/?q=a:b&c=[d]#e", ["a": "https://x.test/?q=a:b&c=[d]#e"]),
    lines("windows path", #"a: C:\Users\me"#, ["a": #"C:\Users\me"#]),
    lines("wide text", "名前: 日本語のノート\nкто: я\nשם: שלום", ["名前": "日本語のノート", "кто": "я", "שם": "שלום"]),
    lines("emoji before edits", "a: 🌱👩‍👩‍👧 x\nb: [é, 😀]\nc: after", ["a": "🌱👩‍👩‍👧 x", "b": ["é", "😀"], "c": "after"]),
    held("complex key", "? [a, b]\n: x", "unreadable"),
    held("null key", "~: x", "unreadable"),
    held("bool key", "true: x", "unreadable"),
    held("nested double key", "a:\n  b: 1\n  b: 2", "unreadable", "twice"),
    held("nested merge key", "a:\n  - {<<: {b: 1}}", "unreadable", "<<"),
    held("two documents", "a: 1\n--- \nb: 2", "unreadable"),
    held("directive", "%YAML 1.2\na: 1", "unreadable"),
    held("control", "a: one\u{1B}[0m", "unreadable"),
    held("seventy levels", "x: " + String(repeating: "[", count: 70) + String(repeating: "]", count: 70), "unreadable"),
    lines(
      "sixty levels", "x: " + String(repeating: "[", count: 60) + String(repeating: "]", count: 60),
      ["x": json(String(repeating: "[", count: 60) + String(repeating: "]", count: 60))]),
    held("twenty digits", "a: 12345678901234567890", "refused", "'a'", "digits"),
    held("past exact numbers", "b: 9007199254740993", "refused", "'b'", "digits"),
    lines("quoted digits", "a: \"12345678901234567890\"", ["a": "12345678901234567890"]),
    lines("separators in quotes", "a: \"one\u{2028}two\"\nb: x", ["a": "one\u{2028}two", "b": "x"]),
    lines(
      "long folded title", "summary: \"A long title that an editor\n  folded over two lines, and \\\n  a third\"",
      ["summary": "A long title that an editor folded over two lines, and a third"]),
    // Fences.
    body("space after closing fence", "---\nmood: good\n--- \nWords.\n"),
    body("four dashes", "----\nmood: good\n----\nWords.\n"),
    body("no closing fence", "---\nmood: good\n\nWords.\n"),
    body("no space after colon", "---\nmood:good\n---\nWords.\n"),
    body("old macintosh", "---\rmood: good\r---\rWords.\r"),
    body("only a rule", "---\n"),
    body("a heading between rules", "---\nWords\n---\n"),
    File("comments alone", "---\n# nothing here\n---\nWords.\n", .through([:], body: "Words.\n")),
    File("empty frontmatter", "---\n---\nWords.\n", .through([:], body: "Words.\n")),
    File("blank line after", "---\nmood: good\n---\n\n\nWords.\n", .through(["mood": "good"], body: "\n\nWords.\n")),
    File("rule after", "---\nmood: good\n---\n---\nWords.\n", .through(["mood": "good"], body: "---\nWords.\n")),
    File(
      "frontmatter after", "---\nmood: good\n---\n---\na: b\n---\n",
      .through(["mood": "good"], body: "---\na: b\n---\n")),
    File(
      "marked crlf", "\u{FEFF}---\r\nmood: good\r\n---\r\nWords.\r\n", .through(["mood": "good"], body: "Words.\r\n")),
    File(
      "mixed ends", "---\nmood: good\r\nother: x\n---\r\nOne.\nTwo.\r\n",
      .through(["mood": "good", "other": "x"], body: "One.\nTwo.\r\n")),
    // Bodies.
    body("blank", "\n"),
    body("spaces at ends", "  \n\tWords.  \n\n   "),
    body("form feed", "One.\u{C}\u{B}Two.\u{1B}[0m\u{7F}\n"),
    body("marks within", "One \u{FEFF}two \u{FFFD} \u{FFFE} \u{202E}three\u{202C}\n"),
    body("html comment", "<!-- [[Nobody]]\n![](nothing.png) -->\n"),
    body("links to the web", "[a](https://x.test/a_(b)) <https://x.test> ![](https://x.test/a.png) [[ ]] [[]]\n"),
    body("code of many kinds", "``[[Nobody]]`` and\n\n    [[Nobody]]\n\n~~~\n![[nothing.png]]\n~~~\n"),
    body("footnote", "Words.[^1]\n\n[^1]: [Note](#here)\n"),
  ]
}
