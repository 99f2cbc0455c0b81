import MarfaCopy

extension MarfaError.Code {
  /// When it is answered (C5.1, C5.2), for the help.
  var meaning: String {
    switch self {
    case .usage: "the command line did not parse"
    case .noStore: "a device command named no store, or a path where none has been made"
    case .noServer: "no server named"
    case .invalid: "refused by the program: a bad argument, settings no folder follows, nested folders, unsent writes"
    case .notHeld: "the working copy does not hold the item asked for"
    case .notFound: "the server answered 404"
    case .validation: "the server, or the program in its place, found the data wrong (400, 422)"
    case .conflict: "the server answered 409"
    case .versionConflict: "the item changed since the version the write was based on"
    case .tooLarge: "too large for the server (413)"
    case .forbidden: "the credential does not permit it (403)"
    case .unknownType: "a type the server or the copy does not hold"
    case .contractMismatch: "the server speaks another contract; nothing past its root was read"
    case .redirect: "a redirect, not followed"
    case .rateLimited: "the server asks to wait (429)"
    case .server: "the server failed (5xx, 408); exit 1 for any other status no code names"
    case .network: "the server cannot be reached, or did not answer in time"
    case .noConnection: "this machine has no network; nothing was sent"
    case .unnamedAnswer: "an answer naming no contract, so from something in front of the server"
    case .decoding: "an answer that cannot be read"
    case .streamIncomplete: "the event stream ended early, or the copy kept changing under a pull"
    case .bytesAbsent: "a file's bytes are neither held nor to be had"
    case .io: "a local input or output failure"
    case .storageFull: "the disk is full"
    case .watch: "the directory cannot be watched, or the server's changes stopped reaching it"
    case .canceled: "stopped by you"
    case .store: "the store or the registry failed"
    case .noCursor: "nothing filled to follow from"
    case .hydrationIncomplete: "the copy is not whole, so the call cannot be answered"
    case .noCatalog: "the copy holds no type catalog"
    case .readingHandle: "another process holds the store or the folder"
    case .wrongSchema: "the store was made by another build; the message counts its unsent writes"
    case .copyExpired: "the copy can no longer be kept current; fill it again"
    case .wrongServer: "the store belongs to another instance"
    case .firstSyncWaiting: "the folder's first sync is not confirmed"
    case .noKeychain: "there is no credential store, or it is locked or off"
    case .instanceChanged: "another instance answers at the server's address"
    case .unsentDiffers: "what was to be sent is no longer what waits"
    case .keyChanging: "the key is being replaced; ask again when it has been"
    case .closed: "the working copy was closed under the call"
    case .unauthorized: "the server refused the credential (401)"
    case .noCredential: "no credential given and none kept"
    case .signedOut: "the sign-in ended; login starts another"
    }
  }

  /// The exit status, as help shows it.
  var exits: String {
    // C5.1, C5.2: two codes leave by two statuses.
    switch self {
    case .server: "3 or 1"
    case .noServer: "2 or 4"
    default: String(MarfaError(self, "").exit)
    }
  }
}
