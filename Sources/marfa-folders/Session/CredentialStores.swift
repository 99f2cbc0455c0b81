import Keyring
import MarfaBase
import MarfaCopy

extension Program {
  /// The credential store of this run (C2.6). A command at a terminal may ask for the keyring to be unlocked (P7.3).
  func credentialStore(_ context: Context) -> any Keychain {
    if variable("MARFA_KEYCHAIN") != nil {
      return NoCredentialStore("the credential store is switched off by MARFA_KEYCHAIN")
    }
    return SecretKeychain(
      KeptCredentials(store: SecretService(unlocking: terminal.canAsk ? .asking : .never)), context: context,
      stop: stop)
  }
}
