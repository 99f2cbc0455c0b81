import MarfaBase

/// Apps, their grants and tokens (K7 to K14).
struct SignInState {}

extension Instance {
  func appCredential(_ token: String) -> Credential? { nil }
  func routeSignIn(_ call: Call) -> Door? { nil }
}
