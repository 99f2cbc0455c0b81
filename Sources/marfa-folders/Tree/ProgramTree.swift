/// The whole program as one tree: parsing, help, usage, man pages and completions come from it.
func commandTree() -> Command {
  Command(
    name: "marfa-folders", summary: "keeps directories of Markdown notes in step with a Marfa server",
    discussion: """
      A folder is a directory that follows a folder item on a server: its search says which items the directory holds. \
      'add' makes a directory a folder, 'sync' brings both sides in step once, 'watch' keeps them so.

      'marfa-folders SUBCOMMAND --help' tells of one subcommand.
      """,
    options: globalOptions,
    commands: [addCommand(), pushCommand(), watchCommand()] + folderCommands() + stepCommands() + settingsCommands()
      + [
        diffCommand(), historyCommand(), pauseCommand(), resumeCommand(), logCommand(), conflictsCommand(),
        doctorCommand(), rebuildCommand(),
      ] + signInCommands() + identityCommands() + [
        instanceCommand(), autostartCommand(), uninstallCommand(), deviceCommand(),
      ] + manualCommands())
}
