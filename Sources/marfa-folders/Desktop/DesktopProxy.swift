import CSecret
import Glibc
import MarfaBase
import Synchronization

/// The proxy the desktop names for an address, an automatic configuration's script included (P6.2): GIO's resolver, asked on
/// a thread of its own, with a deadline, once for each address. Where none answers requests go directly.
final class DesktopProxy: Sendable {
  private let known = Mutex<[String: String?]>([:])

  /// The proxy for an address as libcurl takes it; nil is none.
  func proxy(for url: String) -> String? {
    let site = DesktopProxy.site(url)
    if let found = known.withLock({ $0[site] }) { return found }
    let answer = Answer()
    let over = StopFlag()
    let begun = startThread {
      answer.value.withLock { $0 = DesktopProxy.ask(site) }
      over.set(.stopped)
    }
    if begun { _ = SystemScheduler().wait(nanoseconds: 3_000_000_000, unless: over) }
    let found = answer.value.withLock { $0 }
    known.withLock { $0[site] = .some(found) }
    return found
  }

  private final class Answer: Sendable {
    let value = Mutex<String?>(nil)
  }

  /// Scheme, host and port: a script may go by no more, so that no path of a request reaches it.
  private static func site(_ url: String) -> String {
    guard let scheme = url.firstRange(of: "://") else { return url }
    let rest = url[scheme.upperBound...]
    return String(url[..<scheme.upperBound] + rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" } + "/")
  }

  /// GLib warns on standard error, where our own words alone belong (C4.3): what it has to say is not heard.
  private static let quiet: Void = g_log_set_writer_func({ _, _, _, _ in G_LOG_WRITER_HANDLED }, nil, nil)

  private static func ask(_ site: String) -> String? {
    _ = quiet
    guard let resolver = g_proxy_resolver_get_default() else { return nil }
    var error: UnsafeMutablePointer<GError>?
    let found = g_proxy_resolver_lookup(resolver, site, nil, &error)
    if let error { g_error_free(error) }
    guard let found else { return nil }
    defer { g_strfreev(found) }
    // The first is the one to try first; `direct://` names none.
    guard let first = found[0] else { return nil }
    let proxy = String(cString: first)
    if proxy.utf8.starts(with: "direct:".utf8) { return nil }
    // libcurl asks a socks proxy for names by this scheme.
    return proxy.utf8.starts(with: "socks://".utf8) ? "socks5h" + proxy.dropFirst(5) : proxy
  }
}
