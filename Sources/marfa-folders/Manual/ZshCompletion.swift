/// zsh completion, written from the tree.
struct ZshCompletion {
  /// What may stand where.
  let table: CompletionTable

  /// The script: a function file named `_marfa-folders`.
  var script: String {
    """
    #compdef marfa-folders
    # zsh completion for marfa-folders. Written by 'marfa-folders completions zsh'.

    # Each answers in $reply or $REPLY; a place is the words that lead to a command.

    # The subcommands at a place, each with its summary.
    _marfa_folders_commands() {
      reply=()
      case $1 in
    \(table.places.filter { !$0.commands.isEmpty }.map { place in
      list(place.path, place.commands.map { ($0.word, $0.summary) })
    }.joined(separator: "\n"))
      esac
    }

    # The options a place declares, each with its help.
    _marfa_folders_options() {
      reply=()
      case $1 in
    \(table.places.filter { !$0.flags.isEmpty }.map { place in
      list(place.path, place.flags.flatMap { flag in flag.spellings.map { ($0, flag.help) } })
    }.joined(separator: "\n"))
      esac
    }

    # The place that a word at a place leads to.
    _marfa_folders_enter() {
      case "$1/$2" in
    \(table.places.flatMap { place in
      place.commands.map { arm("\(place.path)/\($0.word)", $0.leads) }
    }.joined(separator: "\n"))
        (*) return 1 ;;
      esac
    }

    # What an option that a place declares takes: none, optional, files, directories, anything or words.
    _marfa_folders_takes() {
      case "$1/$2" in
    \(table.places.flatMap { place in
      place.flags.flatMap { flag in flag.spellings.map { arm("\(place.path)/\($0)", kind(flag)) } }
    }.joined(separator: "\n"))
        (*) return 1 ;;
      esac
    }

    # What an argument of a place is, by its number.
    _marfa_folders_argument() {
      case "$1/$2" in
    \(table.places.flatMap { place in
      place.arguments.enumerated().map { arm("\(place.path)/\($0.offset)", kind($0.element)) }
    }.joined(separator: "\n"))
        (*) return 1 ;;
      esac
    }

    \(walk)
    """
  }

  private func arm(_ pattern: String, _ answer: String) -> String {
    "    (\(singleQuoted(pattern))) REPLY=\(singleQuoted(answer)) ;;"
  }

  private func list(_ pattern: String, _ entries: [(String, String)]) -> String {
    // `_describe` reads a colon as the end of the name.
    let lines = entries.map { "      " + singleQuoted("\($0.replacing(":", with: "\\:")):\($1)") }
    return "    (\(singleQuoted(pattern))) reply=(\n\(lines.joined(separator: "\n"))\n    ) ;;"
  }

  private func kind(_ flag: CompletionTable.Flag) -> String {
    guard let value = flag.value, !flag.isOptional else { return flag.kind }
    return kind(value)
  }

  private func kind(_ value: CompletionTable.Value) -> String {
    switch value {
    case .files: "files"
    case .directories: "directories"
    case .words(let words): "words " + words.joined(separator: " ")
    case .anything: "anything"
    }
  }

  // The same walk as CommandParser's.
  private var walk: String {
    #"""
    # What an option takes at a place or above it.
    _marfa_folders_lookup() {
      local place=$1
      until _marfa_folders_takes "$place" "$2"; do
        [[ -n $place ]] || return 1
        if [[ $place == *' '* ]]; then place=${place% *}; else place=''; fi
      done
    }

    # Completes with what a value is.
    _marfa_folders_value() {
      local -a list
      case $1 in
        (files) _files ;;
        (directories) _files -/ ;;
        (words*) list=(${=1#words }); _describe -t values value list ;;
        (*) _message value ;;
      esac
    }

    _marfa-folders() {
      local REPLY place='' above='' waits='' word='' index=2 arguments=0 options=yes
      local -a reply list
      while (( index < CURRENT )); do
        word=${words[index]}
        (( index++ ))
        if [[ $options == yes ]]; then
          if [[ $word == -- ]]; then
            options=no
            continue
          elif [[ $word == --*=* ]]; then
            continue
          elif [[ $word == -?* ]]; then
            _marfa_folders_lookup "$place" "$word" || REPLY=none
            case $REPLY in
              (none) ;;
              (optional) [[ ${words[index]} == -* ]] || (( index >= CURRENT )) || (( index++ )) ;;
              (*) if (( index >= CURRENT )); then waits=$REPLY; else (( index++ )); fi ;;
            esac
            continue
          fi
        fi
        if (( arguments == 0 )) && _marfa_folders_enter "$place" "$word"; then
          place=$REPLY
        else
          (( arguments++ ))
        fi
      done
      if [[ -n $waits ]]; then
        _marfa_folders_value "$waits"
        return
      fi
      if [[ $options == yes && ${words[CURRENT]} == --*=* ]]; then
        _marfa_folders_lookup "$place" "${words[CURRENT]%%=*}" || return 1
        compset -P '*='
        _marfa_folders_value "$REPLY"
        return
      fi
      if [[ $options == yes && ${words[CURRENT]} == -* ]]; then
        above=$place
        while :; do
          _marfa_folders_options "$above"
          list+=("${reply[@]}")
          [[ -n $above ]] || break
          if [[ $above == *' '* ]]; then above=${above% *}; else above=''; fi
        done
        _describe -o -t options option list
        return
      fi
      local found=1
      if (( arguments == 0 )); then
        _marfa_folders_commands "$place"
        if (( ${#reply} )); then
          list=("${reply[@]}")
          _describe -t commands subcommand list && found=0
        fi
      fi
      if _marfa_folders_argument "$place" "$arguments"; then
        _marfa_folders_value "$REPLY" && found=0
      fi
      return found
    }

    _marfa-folders "$@"

    """#
  }
}
