import Keyring
import MarfaBase
import MarfaCopy

/// The credential store of a person's session: the Secret Service, under the locks of X21.
final class SecretKeychain: Keychain {
  private let kept: KeptCredentials
  private let context: Context
  private let stop: StopFlag

  /// The store, asking over `context` where a sign-in is renewed.
  init(_ kept: KeptCredentials, context: Context, stop: StopFlag) {
    self.kept = kept
    self.context = context
    self.stop = stop
  }

  // C2.2: a store that cannot be asked names none.
  func currentOrigin() -> Text? { ((try? kept.current()) ?? nil).map { Text($0) } }

  func entry(for origin: String) throws(MarfaError) -> KeptCredential? {
    let entry: KeptEntry?
    do throws(KeyStoreError) { entry = try kept.entry(for: origin) } catch {
      // Reading while resolving where no service answers counts as none kept; one that is kept and unreadable does not.
      if case .unavailable = error { return nil }
      throw MarfaError(.noKeychain, error.description)
    }
    switch entry {
    case nil: return nil
    case .key(let key): return KeptCredential(credential: key, isKey: true)
    case .token(let token):
      guard token.isEnding(at: context.clock.now), token.refreshToken != nil else { return credential(of: token) }
      // C2.5: one about to end is refreshed before the first call.
      guard let fresh = try renewal(origin, refused: nil) else { return credential(of: token) }
      return KeptCredential(credential: fresh, isKey: false, scope: token.scope)
    }
  }

  private func credential(of token: KeptToken) -> KeptCredential {
    KeptCredential(credential: token.accessToken, isKey: false, scope: token.scope, expiresAt: token.expiresAt)
  }

  func credential(for origin: String) throws(MarfaError) -> String? { try entry(for: origin)?.credential }

  func renew(_ refused: String, for origin: String) throws(MarfaError) -> String? {
    try renewal(origin, refused: refused)
  }

  private func renewal(_ origin: String, refused: String?) throws(MarfaError) -> String? {
    let renewal: KeptCredentials.Renewal
    var cause: MarfaError?
    do throws(KeptCredentials.Failure) {
      renewal = try kept.renewing(origin, refused: refused, now: context.clock.now) { token in
        do throws(MarfaError) { return try refresh(token, origin) } catch {
          cause = error
          return .left
        }
      }
    } catch { throw MarfaError(error) }
    switch renewal {
    case .use(let entry): return entry.credential
    case .nothing:
      // K16.6: a token that is refused and kept no more was ended by another process; a key in its place would be used.
      if let refused, refused.hasPrefix("marfa_at_"), try entry(for: origin) == nil { throw signedOut(origin) }
      return nil
    case .left:
      // A token nobody refused yet goes on; for a refused one the call fails with what kept it from being renewed (K16.7).
      if let cause, refused != nil { throw cause }
      return nil
    case .ended: throw signedOut(origin)
    case .dropped(let error):
      throw MarfaError(
        .noKeychain, "the sign-in to \(origin) was renewed and could not be kept, so it has ended: \(error.description)"
      )
    }
  }

  private func signedOut(_ origin: String) -> MarfaError {
    MarfaError(.signedOut, "the sign-in to \(origin) has ended; 'login' starts another")
  }

  /// Spends the refresh token, after the root was read without it (K16.5).
  /// - Throws: why it was not renewed, where that ends no sign-in: a refusal or answer of something in front of the instance
  ///   among them (IN3.3).
  private func refresh(_ token: KeptToken, _ origin: String) throws(MarfaError) -> KeptCredentials.Refresh {
    let connection = ServerConnection(
      endpoint: Endpoint(baseURL: origin, credential: nil), credentials: nil, context: context)
    guard let refresh = token.refreshToken else { return .left }
    _ = try connection.root()
    let form = queryText([
      ("grant_type", "refresh_token"), ("refresh_token", Text(refresh)), ("client_id", Text(token.clientID)),
    ])
    let request = HTTPRequest(
      method: "POST", url: token.tokenEndpoint,
      headers: [
        HTTPHeader("Content-Type", "application/x-www-form-urlencoded"), HTTPHeader("Accept", "application/json"),
      ], body: .bytes(Array(form.utf8)))
    let response: HTTPResponse
    do throws(TransportError) { response = try context.transport.send(request, stop: stop) } catch {
      throw connection.failure(error)
    }
    let answer = try connection.judged(response, wrote: false)
    guard answer.isSuccess else {
      let code = (try? JSON(parsing: answer.body))?["error"]?.text
      // C2.5: only these two end a sign-in.
      if code == "invalid_grant" || code == "invalid_client" { return .ended }
      throw connection.refusal(answer)
    }
    let body = try answer.json()
    guard let access = body["access_token"]?.text?.string else {
      throw MarfaError(.decoding, "\(origin) renewed the sign-in without an access token")
    }
    let seconds = body["expires_in"]?.int ?? 3600
    let end = Timestamp(milliseconds: context.clock.now.milliseconds + Int64(seconds) * 1000)
    return .renewed(
      KeptToken(
        accessToken: access, refreshToken: body["refresh_token"]?.text?.string ?? token.refreshToken,
        expiresAt: end.description, clientID: token.clientID, scope: body["scope"]?.text?.string ?? token.scope,
        tokenEndpoint: token.tokenEndpoint, revocationEndpoint: token.revocationEndpoint))
  }

  func keep(key: String, for origin: String) throws(MarfaError) {
    do throws(KeptCredentials.Failure) { try kept.save(.key(key), for: origin) } catch { throw MarfaError(error) }
    do throws(KeyStoreError) { try kept.setCurrent(origin) } catch {
      throw MarfaError(.noKeychain, error.description)
    }
  }

  func entries() throws(MarfaError) -> KeptCredentials {
    do throws(KeyStoreError) { _ = try kept.current() } catch {
      // One that does not read is still a store that answers.
      if case .unreadable = error { return kept }
      throw MarfaError(.noKeychain, error.description)
    }
    return kept
  }

  func forgetKey(for origin: String) throws(MarfaError) -> Bool {
    do throws(KeptCredentials.Failure) { return try kept.forget(origin) } catch { throw MarfaError(error) }
  }
}

extension MarfaError {
  /// What a failed change of the credential store is to a person.
  init(_ failure: KeptCredentials.Failure) {
    switch failure {
    case .keyring(let error): self.init(.noKeychain, error.description)
    case .lock(let error): self.init(.invalid, error.description)
    }
  }
}

extension KeptCredentials {
  /// Refuses where the origin's lock cannot be had as it must be (X21.5).
  func requireLock(_ origin: String) throws(MarfaError) {
    do throws(CredentialLockError) { try proveLock(origin) } catch {
      throw MarfaError(.invalid, error.description)
    }
  }
}
