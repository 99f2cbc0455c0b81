import MarfaBase
import MarfaCopy

extension Program {
  /// The credential store of this run (C2.6).
  func credentialStore() -> any KeptCredentials {
    if variable("MARFA_KEYCHAIN") != nil {
      return NoCredentialStore("the credential store is switched off by MARFA_KEYCHAIN")
    }
    return NoCredentialStore("this build has no credential store; give the key with --key or MARFA_API_KEY")
  }
}
