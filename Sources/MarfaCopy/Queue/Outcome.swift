import MarfaBase

/// What an attempt at a write came to, by the closed classification of queue.md chapter 9. A pure reading of one answer:
/// nothing is stored here, and no case falls through to a guess.
enum Outcome {
  /// A success in its door's own shape.
  case success(WriteVerdict, JSON, replayed: Bool)
  /// Refused for good: the reason is the server's code.
  case refused(Text, JSON?)
  /// A keyed create that named a row with another id: refused, and the copy moves onto that row (Q39.1).
  case landed(Text, JSON, EntityID)
  /// Parked for a reason (Q22, Q23, Q21, Q51).
  case blocked(BlockedReason, JSON?)
  /// A create of a source the credential does not claim (Q40).
  case unclaimed(source: Text, JSON)
  /// A refused credential: parks the whole queue (Q20).
  case credentialRefused(JSON?)
  /// Counted, without a verdict until the fifth (Q19).
  case counted
  /// No verdict, uncounted, ends the pass (Q17). The words go into `unavailable`.
  case environmental(String)
  /// Ends the drain with an error; the write stays sent and unanswered (Q62).
  case ends(MarfaError)

  /// Reads the answer to a write.
  /// - Parameters:
  ///   - write: the write as it was sent.
  ///   - contract: the contract version spoken here.
  ///   - origin: the server asked, for words.
  static func read(
    _ response: HTTPResponse, to write: QueuedWrite, contract: String, origin: String
  ) -> Outcome {
    let status = response.status
    // A redirect is never followed, whatever contract it names (Q62.2).
    if (300..<400).contains(status) { return .ends(redirect(response, origin)) }
    let named = response.headers.filter { $0.name.lowercased().utf8.elementsEqual("x-marfa-contract".utf8) }
      .map(\.value)
    if let other = named.first(where: { !$0.utf8.elementsEqual(contract.utf8) }) {
      return .ends(
        MarfaError(
          .contractMismatch,
          "\(origin) speaks contract \(other), this program \(contract): the write was sent and may have taken effect",
          server: .init(status: status)))
    }
    let body = try? JSON(parsing: response.body)
    let isSuccess = (200..<300).contains(status)
    if named.isEmpty {
      if isSuccess {
        return .ends(
          MarfaError(
            .contractMismatch,
            "\(origin) answered \(status) and named no contract, so it may be no Marfa server: the write was sent and may have taken effect",
            server: .init(status: status), reason: "no_contract"))
      }
      return .environmental(
        "\(origin) answered \(status) and named no contract: something in front of the server answered in its place; "
          + "if this repeats while the server otherwise answers, the X-Marfa-Contract header is being lost on the way")
    }
    if isSuccess { return success(write, body, replayed: response.header("Idempotency-Replayed") == "true") }
    if status >= 500 || status == 408 || status == 425 || status == 429 {
      return .environmental("\(origin) answered \(status)")
    }
    if status == 401 { return .credentialRefused(body) }
    let code = body?["error"]?["code"]?.text ?? response.header("X-Error-Code").map { Text($0) }
    return refusal(status, code, body, write)
  }

  /// What no answer at all comes to; nil for a stop, which settles nothing.
  static func read(_ failure: TransportError, origin: String) -> Outcome? {
    switch failure {
    case .unreachable(let why), .noConnection(let why), .timedOut(let why):
      return .environmental("\(origin) could not be reached: \(why)")
    // An answer past every bound cannot be read as its door's answer (Q19.1).
    case .tooLarge: return .counted
    case .local(let error): return .ends(MarfaError(error))
    case .stopped: return nil
    }
  }

  // MARK: Successes

  private static func success(_ write: QueuedWrite, _ body: JSON?, replayed header: Bool) -> Outcome {
    guard let body, hasShape(body, of: write) else { return .counted }
    let replayed = header || body["acknowledged"]?.bool == true
    // A keyed create acknowledged onto a row in the bin wrote nothing (Q41.1).
    if write.isKeyedCreate, body["acknowledged"]?.bool == true, body["item"]?["state"]?.text == "trashed" {
      return .refused("trashed", body)
    }
    guard let resolution = body["conflict_resolution"]?.object, write.kind.answer == .item else {
      return .success(.accepted, body, replayed: replayed)
    }
    let copy = resolution["conflicted_copy_id"]?.text.flatMap { EntityID($0) }
    return .success(copy == nil ? .merged : .conflicted, body, replayed: replayed)
  }

  /// Whether a success body has its own door's shape (Q32.4, Q32.5).
  static func hasShape(_ body: JSON, of write: QueuedWrite) -> Bool {
    switch write.kind.answer {
    case .item: return Item(row: body) != nil
    case .edge: return body["edge"].flatMap { Edge($0) } != nil
    case .sidecar: return body["metadata"]?["tags"]?.array != nil
    case .extensions: return body["extensions"]?.object != nil
    case .ok: return body["ok"]?.bool == true
    case .blob:
      // Another hash, or none, leaves open what the server took (Q37.2).
      guard let hash = body["hash"]?.text.flatMap({ ContentHash($0) }) else { return false }
      return hash == write.blob
    }
  }

  // MARK: Refusals

  private static func refusal(_ status: Int, _ code: Text?, _ body: JSON?, _ write: QueuedWrite) -> Outcome {
    let details = body?["error"]?["details"]
    switch (status, code) {
    case (403, _):
      if MissingGrant(details?["grant"]) != nil { return .blocked(.credentialRefused, body) }
      if write.kind == .createItem, code == "forbidden", let body, let members = details?.object, members.count == 1,
        let source = members["source"]?.text, source == write.body?["source"]?.text
      {
        return .unclaimed(source: source, body)
      }
    case (409, "version_conflict"), (409, "ancestor_unavailable"):
      // A client that finds no `current` treats the answer as unreadable (ER5.3).
      guard let code, let body, let current = body["current"]?["id"]?.text.flatMap({ EntityID($0) }) else {
        return .counted
      }
      if write.isKeyedCreate, current != write.itemID { return .landed(code, body, current) }
      return .blocked(code == "version_conflict" ? .conflictUnresolved : .ancestorUnavailable, body)
    case (409, "idempotency_key_in_flight"): return .counted
    case (422, "idempotency_key_reused"): return .blocked(.keySpent, body)
    default: break
    }
    return .refused(code ?? "unknown", body)
  }

  private static func redirect(_ response: HTTPResponse, _ origin: String) -> MarfaError {
    let target = response.header("Location").map { "to \($0)" } ?? "without saying where to"
    return MarfaError(
      .redirect,
      "\(origin) answered \(response.status), a redirect \(target); redirects are not followed, so the address of the server must be set to where it is",
      server: .init(status: response.status))
  }
}
