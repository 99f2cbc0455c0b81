/// bash completion, written from the tree. It needs bash 4 and nothing else.
struct BashCompletion {
  /// What may stand where.
  let table: CompletionTable

  /// The script.
  var script: String {
    """
    # bash completion for marfa-folders. Written by 'marfa-folders completions bash'.

    # Each answers in $answer; a place is the words that lead to a command.

    # The subcommands at a place.
    _marfa_folders_commands() {
      case $1 in
    \(arms { $0.commands.isEmpty ? nil : $0.commands.map(\.word).joined(separator: " ") })
      esac
    }

    # The options a place declares.
    _marfa_folders_options() {
      case $1 in
    \(arms { $0.flags.isEmpty ? nil : $0.flags.flatMap(\.spellings).joined(separator: " ") })
      esac
    }

    # The place that a word at a place leads to.
    _marfa_folders_enter() {
      case "$1/$2" in
    \(table.places.flatMap { place in
      place.commands.map { arm("\(place.path)/\($0.word)", $0.leads) }
    }.joined(separator: "\n"))
        *) return 1 ;;
      esac
    }

    # What an option that a place declares takes: none, optional, files, directories, anything or words.
    _marfa_folders_takes() {
      case "$1/$2" in
    \(table.places.flatMap { place in
      place.flags.flatMap { flag in flag.spellings.map { arm("\(place.path)/\($0)", flag.kind + Self.list(flag.value)) } }
    }.joined(separator: "\n"))
        *) return 1 ;;
      esac
    }

    # What an argument of a place is, by its number.
    _marfa_folders_argument() {
      case "$1/$2" in
    \(table.places.flatMap { place in
      place.arguments.enumerated().map { arm("\(place.path)/\($0.offset)", Self.kind($0.element) + Self.list($0.element)) }
    }.joined(separator: "\n"))
        *) return 1 ;;
      esac
    }

    \(walk)
    """
  }

  private func arm(_ pattern: String, _ answer: String) -> String {
    "    \(singleQuoted(pattern))) answer=\(singleQuoted(answer)) ;;"
  }

  private func arms(_ answer: (CompletionTable.Place) -> String?) -> String {
    (table.places.compactMap { place in answer(place).map { arm(place.path, $0) } } + ["    *) return 1 ;;"])
      .joined(separator: "\n")
  }

  private static func kind(_ value: CompletionTable.Value) -> String {
    switch value {
    case .files: "files"
    case .directories: "directories"
    case .words: "words"
    case .anything: "anything"
    }
  }

  private static func list(_ value: CompletionTable.Value?) -> String {
    if case .words(let words) = value { return " " + words.joined(separator: " ") }
    return ""
  }

  // The same walk as CommandParser's: the deepest declaration of an option counts, `--` ends options, and bash hands
  // `--option=value` over as three words.
  private var walk: String {
    #"""
    # What an option takes at a place or above it.
    _marfa_folders_lookup() {
      local place=$1
      while ! _marfa_folders_takes "$place" "$2"; do
        [ -n "$place" ] || return 1
        case $place in
          *' '*) place=${place% *} ;;
          *) place='' ;;
        esac
      done
    }

    # Completes with what a value is.
    _marfa_folders_value() {
      case $1 in
        files) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
        directories) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$2") ;;
        'words '*) mapfile -t COMPREPLY < <(compgen -W "${1#words }" -- "$2") ;;
      esac
    }

    _marfa_folders() {
      local current=${COMP_WORDS[COMP_CWORD]} answer='' place='' waits='' word='' list='' index=1 arguments=0 options=yes
      COMPREPLY=()
      while [ "$index" -lt "$COMP_CWORD" ]; do
        word=${COMP_WORDS[index]}
        index=$((index + 1))
        if [ "$options" = yes ]; then
          case $word in
            --) options=no; continue ;;
            -?*)
              _marfa_folders_lookup "$place" "$word" || answer=none
              if [ "${COMP_WORDS[index]-}" = = ] && [ "$index" -lt "$COMP_CWORD" ]; then index=$((index + 1)); fi
              case $answer in
                none) ;;
                optional)
                  case ${COMP_WORDS[index]-} in
                    -*) ;;
                    *) [ "$index" -ge "$COMP_CWORD" ] || index=$((index + 1)) ;;
                  esac ;;
                *) if [ "$index" -ge "$COMP_CWORD" ]; then waits=$answer; else index=$((index + 1)); fi ;;
              esac
              continue ;;
          esac
        fi
        if [ "$arguments" = 0 ] && _marfa_folders_enter "$place" "$word"; then
          place=$answer
        else
          arguments=$((arguments + 1))
        fi
      done
      if [ "$current" = = ] && [ "$options" = yes ]; then
        # The cursor stands right behind `--option=`.
        _marfa_folders_lookup "$place" "${COMP_WORDS[COMP_CWORD - 1]}" && waits=$answer
        current=''
      fi
      if [ -n "$waits" ]; then
        _marfa_folders_value "$waits" "$current"
        return
      fi
      if [ "$options" = yes ] && [ "${current:0:1}" = - ]; then
        local above=$place
        while :; do
          _marfa_folders_options "$above" && list="$list $answer"
          [ -n "$above" ] || break
          case $above in
            *' '*) above=${above% *} ;;
            *) above='' ;;
          esac
        done
        mapfile -t COMPREPLY < <(compgen -W "$list" -- "$current")
        return
      fi
      if [ "$arguments" = 0 ] && _marfa_folders_commands "$place"; then
        mapfile -t COMPREPLY < <(compgen -W "$answer" -- "$current")
      fi
      if [ "${#COMPREPLY[@]}" = 0 ] && _marfa_folders_argument "$place" "$arguments"; then
        _marfa_folders_value "$answer" "$current"
      fi
    }

    complete -F _marfa_folders marfa-folders

    """#
  }
}
