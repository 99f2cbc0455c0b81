import MarfaCopy

/// What is true of the whole program: said by `--help` and by the man page from here.
enum ProgramFacts {
  /// The exit statuses (C5.1).
  static let exits: [(String, String)] = [
    ("0", "done; also a push or a drain that carries refused writes"),
    ("1", "refused by the server, by the program before sending, or an answer on another contract"),
    ("2", "the command line was wrong, or named no store or no server"),
    ("3", "the environment failed (unreachable, timed out, full disk, stopped by you); try again"),
    ("4", "the working copy, the queue or the folder refused, or there is no credential store"),
    ("5", "no credential, the credential was refused, or the sign-in ended"),
  ]

  /// The shape of a refusal under `--json` (C4.3).
  static let refusal = [
    "{\"error\":{\"code\":\"...\",\"message\":\"...\",",
    "  \"server\":{\"status\":400,\"code\":\"...\",\"details\":null}|null,",
    "  \"retry_after_seconds\":null},\"exit\":1}",
  ]

  /// Every error code with its exits and meaning.
  static var codes: [(String, String)] {
    MarfaError.Code.allCases.map { ("\($0.rawValue) (\($0.exits))", $0.meaning) }
  }

  /// The environment variables a person may set.
  static let environment: [(String, String)] = [
    ("MARFA_API_URL", "the server's address, as --url"),
    ("MARFA_API_KEY", "a key or an access token for it, as --key"),
    ("MARFA_ALLOW_HTTP", "1, true, yes or on: as --allow-http"),
    ("MARFA_FOLDER_REGISTRY", "the file that lists this machine's folders"),
    ("MARFA_KEYCHAIN", "not empty: use no credential store at all"),
    ("MARFA_DB", "the working copy a device command opens"),
    ("MARFA_CA_FILE", "certificates of authorities to trust besides the system's"),
    ("MARFA_NOTIFY", "off: a watch tells the desktop nothing; titles: with notes' names"),
    ("MARFA_METERED", "ignore: large files are sent on metered networks and in battery saving too"),
    ("MARFA_LOG_PATHS", "off: a watch writes short hashes in place of paths"),
    ("NO_COLOR", "not empty: no colour, at a terminal either"),
  ]

  /// The files the program keeps.
  static let files: [(String, String)] = [
    ("DIR/.marfa/", "what the program knows of a folder: its working copy and unsent writes, the owner's alone"),
    ("DIR/.marfa/folder.yaml", "the folder's settings; an edit of it is sent"),
    (
      "$XDG_DATA_HOME/marfa/folders.json",
      "this machine's folders; $XDG_DATA_HOME is ~/.local/share where it is not set"
    ),
    ("$XDG_DATA_HOME/marfa-folders/instance/", "the data of this machine's own instance"),
    ("$XDG_CONFIG_HOME/systemd/user/marfa-folders.service", "the unit that 'autostart enable' writes"),
    ("$XDG_CONFIG_HOME/autostart/marfa-folders.desktop", "the entry it writes where there is no systemd"),
  ]
}
