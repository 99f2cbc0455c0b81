import MarfaBase
import Testing

@Suite("URLs by the WHATWG parser") struct WebURLTests {
  // Told by another implementation of that parser.
  private static let taken: [String] = [
    "http://a", "http://a.b", "http://a\"b", "http://a`b", "http://a{b}", "http://a%41", "http://1.2.3",
    "http://0x7f.1", "http://1.2.3.4.", "http://a..b", "http://a.", "http://..", "http://.", "http://[::1]",
    "http://[1:2:3:4:5:6:7:8]", "http://[::1.2.3.4]", "http://\u{FC}", "http://\u{65E5}\u{672C}",
    "http://a_b", "http://a-b", "http://-a", "http://a\u{AD}b", "http://a\u{200B}b", "http://a\u{FF0E}b",
    "http://\u{FF11}.2.3.4", "http://a:80", "http://a:", "http://u@a", "http://u:p@a", "http://@a",
    "http://u@@a", "http://a*b", "http://a!b", "http://a$b", "http://a'b", "http://a(b)", "http://a,b",
    "http://a;b", "http://a=b", "http://a&b", "http://a+b", "http://a~b", "http://4294967295", "http://0x",
    "http://0x1", "http://1.0x", "http://a\\b", "http://\u{E9}.fr", "http://\u{2603}", "http://1.1.1.1a",
    "file://", "file://a", "file://a.b", "file://a\"b", "file://a`b", "file://a{b}", "file://a%41",
    "file://1.2.3", "file://0x7f.1", "file://1.2.3.4.", "file://a..b", "file://a.", "file://..", "file://.",
    "file://[::1]", "file://[1:2:3:4:5:6:7:8]", "file://[::1.2.3.4]", "file://\u{FC}",
    "file://\u{65E5}\u{672C}", "file://a_b", "file://a-b", "file://-a", "file://a\u{AD}b",
    "file://a\u{200B}b", "file://a\u{FF0E}b", "file://\u{FF11}.2.3.4", "file://a:", "file://a*b",
    "file://a!b", "file://a$b", "file://a'b", "file://a(b)", "file://a,b", "file://a;b", "file://a=b",
    "file://a&b", "file://a+b", "file://a~b", "file://4294967295", "file://0x", "file://0x1", "file://1.0x",
    "file://a\\b", "file://\u{0}", "file://\u{E9}.fr", "file://\u{2603}", "file://1.1.1.1a", "foo://",
    "foo://a", "foo://a.b", "foo://a\"b", "foo://a`b", "foo://a{b}", "foo://a%b", "foo://a%41", "foo://a%2fb",
    "foo://a%00", "foo://a%7f", "foo://1.2.3", "foo://256.1.1.1", "foo://1.2.3.4.5", "foo://0x7f.1",
    "foo://09.1.1.1", "foo://1.2.3.4.", "foo://1..2", "foo://a..b", "foo://a.", "foo://..", "foo://.",
    "foo://[::1]", "foo://[1:2:3:4:5:6:7:8]", "foo://[::1.2.3.4]", "foo://xn--", "foo://xn--a",
    "foo://\u{FC}", "foo://\u{65E5}\u{672C}", "foo://a_b", "foo://a-b", "foo://-a", "foo://a\u{AD}b",
    "foo://\u{AD}", "foo://a\u{200B}b", "foo://a\u{FF0E}b", "foo://\u{FF11}.2.3.4", "foo://a:80", "foo://a:",
    "foo://u@a", "foo://u:p@a", "foo://@a", "foo://u@@a", "foo://%ff", "foo://a*b", "foo://a!b", "foo://a$b",
    "foo://a'b", "foo://a(b)", "foo://a,b", "foo://a;b", "foo://a=b", "foo://a&b", "foo://a+b", "foo://a~b",
    "foo://4294967295", "foo://4294967296", "foo://0x", "foo://0x1", "foo://1.0x", "foo://a.0x1", "foo://a.1",
    "foo://\u{0}", "foo://a\u{1}b", "foo://a\u{7F}b", "foo://\u{E9}.fr", "foo://a\u{FFFD}b", "foo://\u{2603}",
    "foo://1.1.1.1a", "http://a\u{A}", "foo://?", "foo://#", "foo:///x", "file:///C:/x", "file://C:/x",
    "file://C|/x", "file://localhost/", "http://a/\u{0}", "http://[::1]:80", "http://a ", "http://a?b@c",
    "http://a#b@c", "http://a/b@c:d", "mailto:-a", "ws://\u{FF11}.2.3.4", " http://a&b", "file:4294967295",
    "https:-a", " http://a\\b", "data:a:80", "mailto:a%b", "http:/\u{65E5}\u{672C}", "HTTP://a-b", "file:/0x",
    "data:09.1.1.1", "javascript:a.1", "web+x://4294967296", "foo:1.2.3.4.", "ws://u:p@a", "web+x://a_b",
    "HTTP://a.", "https:@a", "web+x://xn--a", "web+x://a$b", "foo:a&b", "foo:a`b", "mailto:u@", "mailto:a%41",
    "javascript:[::1]", " http://a:", "file:/-a", "web+x://a%b", "foo:[::1%25e]", "file:a*b", "ws://1.2.3",
    "data:\u{AD}", "mailto:[g::]", "mailto:1.2.3", "mailto:a!b", "file:/\u{FF11}.2.3.4", "foo:4294967295",
    "http:\\\\\u{65E5}\u{672C}", "mailto:a^b", "http:\\\\@a", "file:a%b", "ftp://\u{2603}", "HTTP://a;b",
    "mailto:a\u{200B}b", "http:/a`b", "data:a\u{FFFD}b/x y?z#w", "data:\u{2603}", "data:\u{2603}/x y?z#w",
    "data:1.1.1.1a", "data:1.1.1.1a/x y?z#w", "ht\u{9}tp://a", "foo:", "foo:?", "blob:http://a",
    "about:blank", "a+b:c", "a.b:c", "\u{0}http://a\u{1}", "ws:a", "wss:\\a",
  ]

  private static let refused: [String] = [
    "http://", "http://a b", "http://a<b", "http://a>b", "http://a^b", "http://a|b", "http://a%b",
    "http://a%2fb", "http://a%00", "http://a%7f", "http://256.1.1.1", "http://1.2.3.4.5", "http://09.1.1.1",
    "http://1..2", "http://[::1", "http://[1:2:3:4:5:6:7]", "http://[::1%25e]", "http://[g::]", "http://xn--",
    "http://xn--a", "http://\u{AD}", "http://a:99999", "http://a:8x", "http://u@", "http://%ff",
    "http://4294967296", "http://a.0x1", "http://a.1", "http://a]b", "http://\u{0}", "http://a\u{1}b",
    "http://a\u{7F}b", "http://a\u{FFFD}b", "file://a b", "file://a<b", "file://a>b", "file://a^b",
    "file://a|b", "file://a%b", "file://a%2fb", "file://a%00", "file://a%7f", "file://256.1.1.1",
    "file://1.2.3.4.5", "file://09.1.1.1", "file://1..2", "file://[::1", "file://[1:2:3:4:5:6:7]",
    "file://[::1%25e]", "file://[g::]", "file://xn--", "file://xn--a", "file://\u{AD}", "file://a:80",
    "file://a:99999", "file://a:8x", "file://u@a", "file://u:p@a", "file://@a", "file://u@", "file://u@@a",
    "file://%ff", "file://4294967296", "file://a.0x1", "file://a.1", "file://a]b", "file://a\u{1}b",
    "file://a\u{7F}b", "file://a\u{FFFD}b", "foo://a b", "foo://a<b", "foo://a>b", "foo://a^b", "foo://a|b",
    "foo://[::1", "foo://[1:2:3:4:5:6:7]", "foo://[::1%25e]", "foo://[g::]", "foo://a:99999", "foo://a:8x",
    "foo://u@", "foo://a]b", "foo://a\\b", "foo://:80", "file://a:80/", "file://u@a/", "http://[::1]x",
    "http://[::1]:x", "foo://[x]", "HTTP://4294967296", "ftp://4294967296", "ws://1.2.3.4.5", "http:/u@",
    " http://a%7f", "ws://a%b", "web+x://a>b", "web+x://a\\b", "https:a%00", "http:#a", "http:\\\\256.1.1.1",
    "web+x://[g::]", "ws://", "http:/a%b", "", "http", "//a", "/a", "a", "1http://a", "h ttp://a", "http:",
    "http:?a", "foo", "-a:b", "+a:b", "a_b:c", "\u{E9}:a", " ",
  ]

  @Test("T29 what the WHATWG parser takes as a URL without a base is taken, what it refuses is refused")
  func table() {
    for url in WebURLTests.taken { #expect(isAbsoluteURL(Text(url)), "\(url.debugDescription)") }
    for url in WebURLTests.refused { #expect(!isAbsoluteURL(Text(url)), "\(url.debugDescription)") }
    // Bytes that are no text stand in no host, and anywhere else.
    #expect(!isAbsoluteURL(Text(bytes: Array("http://a".utf8) + [0xED, 0xA0, 0x80])))
    #expect(isAbsoluteURL(Text(bytes: Array("http://a/".utf8) + [0xED, 0xA0, 0x80])))
  }
}
