import Glibc
import MarfaBase
import TestSupport
import Testing

/// One request amid a sync is not answered as it should be, each in turn: the sync ends with an error or a write that waits,
/// and those after it come to what an untroubled one comes to. Nothing is lost, nothing doubled.
struct AnswerFaultTests {
  enum Trouble: CaseIterable {
    /// It does not reach the server.
    case unreachable
    /// The server acts, its answer is lost.
    case lost
    /// The server acts, half of its answer comes.
    case cut
    /// The server is in trouble: it acts or not.
    case broken, brokenAfter, busy, limited
    /// Something between answers in its place (IN3.3): a portal's page, its redirect, a gateway.
    case page, redirect, gateway401, gateway403, gateway404, gateway502
    /// The server acts, and something between answers for it.
    case gatewayAfter

    var isAfter: Bool { [.lost, .cut, .brokenAfter, .gatewayAfter].contains(self) }

    /// What stands in the place of the answer the server would give, or gave.
    func answer(_ given: HTTPResponse?) -> Result<HTTPResponse, TransportError> {
      let named = [HTTPHeader("X-Marfa-Contract", "0"), HTTPHeader("Content-Type", "application/json")]
      func refusal(_ status: Int, _ code: String, _ more: [HTTPHeader] = []) -> Result<HTTPResponse, TransportError> {
        let body = Array(#"{"code":"\#(code)","message":"In trouble","request_id":"r1"}"#.utf8)
        return .success(
          HTTPResponse(status: status, headers: named + [HTTPHeader("X-Error-Code", code)] + more, body: body))
      }
      func foreign(_ status: Int, _ more: [HTTPHeader] = []) -> Result<HTTPResponse, TransportError> {
        .success(
          HTTPResponse(
            status: status, headers: [HTTPHeader("Content-Type", "text/html")] + more,
            body: Array("<html>Sign in to the hotel</html>".utf8)))
      }
      return switch self {
      case .unreachable, .lost: .failure(.unreachable("the line went"))
      case .cut:
        .success(
          HTTPResponse(
            status: given?.status ?? 200, headers: given?.headers ?? named,
            body: Array((given?.body ?? []).prefix((given?.body.count ?? 0) / 2))))
      case .broken, .brokenAfter: refusal(500, "internal_error")
      case .busy: refusal(503, "temporarily_unavailable")
      case .limited: refusal(429, "rate_limited", [HTTPHeader("Retry-After", "2")])
      case .page: foreign(200)
      case .redirect: foreign(302, [HTTPHeader("Location", "http://portal.test/")])
      case .gateway401: foreign(401)
      case .gateway403: foreign(403)
      case .gateway404: foreign(404)
      case .gateway502, .gatewayAfter: foreign(502)
      }
    }
  }

  @Test(
    "A sync in which one request is not answered comes to what an untroubled one comes to", arguments: Trouble.allCases)
  func eachRequest(_ trouble: Trouble) throws {
    var made: [String] = []
    let expected = try TroubledDay().outcome { request in
      made.append("\(request.method) \(request.url)")
      return nil
    }
    #expect(made.count > 20)
    // Every request by hand, with `MARFA_EVERY_CALL` set; a few of each trouble at each run of the tests.
    let isWhole = getenv("MARFA_EVERY_CALL") != nil
    let place = Trouble.allCases.firstIndex(of: trouble) ?? 0
    for number in stride(from: isWhole ? 0 : place % 10, to: made.count, by: isWhole ? 1 : 10) {
      var next = 0
      func mine() -> Bool {
        defer { next += 1 }
        return next == number
      }
      do {
        let day = try TroubledDay()
        let got =
          trouble.isAfter
          ? try day.outcome(after: { mine() ? trouble.answer($1) : .success($1) })
          : try day.outcome(before: { _ in mine() ? trouble.answer(nil) : nil })
        #expect(got == expected, "request \(number), \(made[number])")
      } catch { Issue.record(error, "request \(number), \(made[number])") }
    }
  }
}
