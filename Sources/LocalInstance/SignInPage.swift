import MarfaBase

/// A sign-in somebody asks for, as the command that runs the instance tells it to the owner.
public struct AskedSignIn: Sendable {
  /// What the app calls itself: its own words.
  public var client: Text
  /// The code its person sees on the device; nil for an app of this browser.
  public var userCode: Text?
  /// What the page asks for.
  public var oneTimeCode: Text
}

/// A sign-in that waits for the owner's decision on the page.
struct WaitingSignIn {
  var expires: Timestamp
  var client: Text
  var scopes: [Text]
  /// The device code it answers; nil for an authorization.
  var device: Text?
  /// Made as the page is first opened.
  var oneTimeCode: Text?
  var wrong = 0
  var decision: Bool?
}

/// The page on which the owner decides about a sign-in (N2.1, K10.3, K14).
///
/// Whoever reaches the port may ask to sign in. Only who reads what the running command prints can allow it: a one-time
/// code, made as the page is opened, stands there and is asked for here. Five wrong ones decline.
extension Instance {
  private static let lifetime: Int64 = 600_000
  private static let atMost = 100

  /// Notes a sign-in that waits, by its user code or its request.
  func awaitDecision(_ name: Text, client: Text, scopes: [Text], device: Text?) {
    let now = clock.now
    waitingSignIns = waitingSignIns.filter { $0.value.expires > now }
    if waitingSignIns.count >= Instance.atMost,
      let oldest = waitingSignIns.min(by: { $0.value.expires < $1.value.expires })
    {
      waitingSignIns[oldest.key] = nil
    }
    waitingSignIns[name] = WaitingSignIn(
      expires: Timestamp(milliseconds: now.milliseconds + Instance.lifetime), client: client, scopes: scopes,
      device: device)
  }

  /// What was decided about a device; nil while nothing is. False where nobody can decide any more.
  func decision(onDevice code: Text) -> Bool? {
    guard let waiting = waitingSignIns.values.first(where: { $0.device == code }) else { return false }
    return waiting.decision
  }

  /// `GET /auth/device`: asks for the code the device shows, then for the one-time code.
  func devicePage(_ call: Call) -> Reply {
    guard let user = call.query["user_code"], isWaiting(user) else {
      return page(
        call.query["user_code"] == nil ? 200 : 404,
        (call.query["user_code"] == nil ? "" : "<p>No sign-in waits under that code.</p>")
          + "<form method=\"get\" action=\"/auth/device\"><label>The code your device shows "
          + "<input name=\"user_code\" autocomplete=\"off\" required></label> <button>Next</button></form>")
    }
    return askPage(user, action: "/auth/device", hidden: [("user_code", user)], userCode: user)
  }

  /// `POST /auth/device`: the owner's decision.
  func decideDevice(_ call: Call) -> Reply {
    let form = Query(raw: call.request.body)
    guard let user = form["user_code"], isWaiting(user) else {
      return page(404, "<p>No sign-in waits under that code.</p>")
    }
    switch decide(user, form) {
    case nil: return askPage(user, action: "/auth/device", hidden: [("user_code", user)], userCode: user, isAgain: true)
    case true?: return page(200, "<p>Allowed. You can go back to your device.</p>")
    case false?: return page(200, "<p>Declined.</p>")
    }
  }

  /// An authorization's page, or what was decided on it.
  enum Consent {
    case page(Reply)
    case decided(Bool)
  }

  func consent(_ call: Call, client: Text, scopes: [Text]) -> Consent {
    let name = Text("authorize " + ContentHash(of: call.query.raw).hex)
    let action = "/auth/oauth2/authorize?" + String(decoding: call.query.raw, as: UTF8.self)
    guard call.method == "POST" else {
      if !isWaiting(name) { awaitDecision(name, client: client, scopes: scopes, device: nil) }
      return .page(askPage(name, action: action, hidden: [], userCode: nil))
    }
    guard isWaiting(name) else { return .decided(false) }
    guard let decision = decide(name, Query(raw: call.request.body)) else {
      return .page(askPage(name, action: action, hidden: [], userCode: nil, isAgain: true))
    }
    waitingSignIns[name] = nil
    return .decided(decision)
  }

  private func isWaiting(_ name: Text) -> Bool {
    guard let waiting = waitingSignIns[name] else { return false }
    return waiting.expires > clock.now && waiting.decision == nil
  }

  /// The decision of a form; nil for a wrong code that may be tried again.
  private func decide(_ name: Text, _ form: Query) -> Bool? {
    guard var waiting = waitingSignIns[name] else { return false }
    if form["decision"] == "decline" {
      waiting.decision = false
    } else if let code = waiting.oneTimeCode, form["code"].map({ Text(bytes: $0.bytes.filter { $0 != 0x20 }) }) == code
    {
      waiting.decision = true
    } else {
      waiting.wrong += 1
      if waiting.wrong >= 5 { waiting.decision = false }
    }
    waitingSignIns[name] = waiting
    return waiting.decision
  }

  private func askPage(
    _ name: Text, action: String, hidden: [(String, Text)], userCode: Text?, isAgain: Bool = false
  ) -> Reply {
    guard var waiting = waitingSignIns[name] else { return page(404, "<p>No sign-in waits.</p>") }
    if waiting.oneTimeCode == nil {
      let seed = ((try? secret())?.bytes ?? []) + Array("one-time \(ids.next())".utf8)
      let digits = ContentHash(of: seed).bytes.prefix(8).map { Character(String($0 % 10)) }
      let code = Text(String(digits))
      waiting.oneTimeCode = code
      waitingSignIns[name] = waiting
      signInPolicy.tell?(AskedSignIn(client: waiting.client, userCode: userCode, oneTimeCode: code))
    }
    let fields = hidden.map { "<input type=\"hidden\" name=\"\($0.0)\" value=\"\(Instance.escaped($0.1))\">" }.joined()
    let scopes = waiting.scopes.map { "<li>\(Instance.escaped($0))</li>" }.joined()
    return page(
      200,
      (isAgain ? "<p>That was not the code.</p>" : "")
        + "<p>“\(Instance.escaped(waiting.client))” asks to sign in"
        + (userCode.map { " (\(Instance.escaped($0)))" } ?? "") + ". It would be allowed:</p><ul>\(scopes)</ul>"
        + "<form method=\"post\" action=\"\(Instance.escaped(Text(action)))\">\(fields)"
        + "<label>The one-time code that <code>instance run</code> printed just now "
        + "<input name=\"code\" inputmode=\"numeric\" autocomplete=\"one-time-code\"></label> "
        + "<button name=\"decision\" value=\"approve\">Allow</button> "
        + "<button name=\"decision\" value=\"decline\">Decline</button></form>")
  }

  private func page(_ status: Int, _ body: String) -> Reply {
    let whole =
      "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Sign in</title></head><body><h1>Sign in</h1>"
      + body + "</body></html>"
    return Reply(
      status: status, body: Array(whole.utf8),
      headers: [
        HTTPHeader("Content-Type", "text/html; charset=utf-8"), HTTPHeader("Cache-Control", "no-store"),
        HTTPHeader("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
        HTTPHeader("X-Frame-Options", "DENY"), HTTPHeader("Referrer-Policy", "no-referrer"),
      ], isBare: true)
  }

  private static func escaped(_ text: Text) -> String {
    var out = ""
    for character in text.string.unicodeScalars {
      switch character {
      case "&": out += "&amp;"
      case "<": out += "&lt;"
      case ">": out += "&gt;"
      case "\"": out += "&quot;"
      case "'": out += "&#39;"
      default: out.unicodeScalars.append(character)
      }
    }
    return out
  }
}
