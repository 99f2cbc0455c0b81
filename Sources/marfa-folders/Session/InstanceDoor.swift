import Keyring
import LocalInstance
import MarfaBase
import MarfaCopy

extension Program {
  /// The credential store of this run (C2.6).
  func credentialStore() -> any KeptCredentials {
    if variable("MARFA_KEYCHAIN") != nil {
      return NoCredentialStore("the credential store is switched off by MARFA_KEYCHAIN")
    }
    return NoCredentialStore("this build has no credential store")
  }

  /// The owner key of this machine's own instance; nil where none has run yet.
  func instanceOwnerKey(context: Context) throws(MarfaError) -> String? { nil }

  /// Starts this machine's own instance where it does not run, and waits until it answers (N2.9).
  func startInstance(context: Context) throws(MarfaError) {
    throw MarfaError(.network, "this build has no local instance")
  }
}
