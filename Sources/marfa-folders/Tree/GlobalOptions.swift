/// The options every command takes, before or after its name (C2).
let globalOptions: [Option] = [
  Option("url", .text("URL"), "The server's base address, or 'local' for this machine's own instance."),
  Option(
    "key", .text("KEY"),
    "A key or an access token; '-' reads it from standard input. Other programs can read a command line: prefer --key-file, MARFA_API_KEY or 'keys keep'."
  ),
  Option("key-file", .text("PATH"), "A file whose first line is the key."),
  Option("json", "JSON on standard output; a refusal is one JSON object on standard error."),
  Option("allow-http", "Do not warn of a credential sent over plain http."),
  Option("help", short: "h", "This help."),
  Option("version", short: "V", "The version of the program."),
]
