/// fish completion, written from the tree.
struct FishCompletion {
  /// What may stand where.
  let table: CompletionTable

  /// The script.
  var script: String {
    var out = """
      # fish completion for marfa-folders. Written by 'marfa-folders completions fish'.

      # The place that a word at a place leads to; a place is the words that lead to a command.
      function __marfa_folders_enter
        switch "$argv[1]/$argv[2]"

      """
    for place in table.places {
      for command in place.commands {
        out += "    case \(quoted("\(place.path)/\(command.word)"))\n      echo \(quoted(command.leads))\n"
      }
    }
    out += """
          case '*'
            return 1
        end
      end

      # What an option that a place declares takes: none, optional or value.
      function __marfa_folders_takes
        switch "$argv[1]/$argv[2]"

      """
    for place in table.places {
      for flag in place.flags {
        let words = flag.spellings.map { quoted("\(place.path)/\($0)") }.joined(separator: " ")
        let takes = flag.value == nil ? "none" : flag.isOptional ? "optional" : "value"
        out += "    case \(words)\n      echo \(takes)\n"
      }
    }
    out += """
          case '*'
            return 1
        end
      end

      \(walk)
      complete -c marfa-folders -f

      """
    for place in table.places { out += lines(place) }
    return out
  }

  private func lines(_ place: CompletionTable.Place) -> String {
    var out = place.path.isEmpty ? "\n" : "\n# \(place.path)\n"
    for command in place.commands {
      out += "complete -c marfa-folders -n \(quoted("__marfa_folders_at \(quoted(place.path)) 0"))"
      out += " -a \(quoted(command.word)) -d \(quoted(command.summary))\n"
    }
    for (number, argument) in place.arguments.enumerated() {
      guard let values = values(argument) else { continue }
      out += "complete -c marfa-folders -n \(quoted("__marfa_folders_at \(quoted(place.path)) \(number)"))\(values)\n"
    }
    for flag in place.flags {
      var conditions: [String] = []
      if !place.path.isEmpty { conditions.append("__marfa_folders_within \(quoted(place.path))") }
      conditions += table.redeclaring(flag.name, below: place.path).map {
        "not __marfa_folders_within \(quoted($0))"
      }
      out += "complete -c marfa-folders"
      if !conditions.isEmpty { out += " -n \(quoted(conditions.joined(separator: "; and ")))" }
      out += " -l \(flag.name)" + (flag.short.map { " -s \($0)" } ?? "")
      if let value = flag.value, !flag.isOptional { out += values(value) ?? " -x" }
      out += " -d \(quoted(flag.help))\n"
    }
    return out
  }

  private func values(_ value: CompletionTable.Value) -> String? {
    switch value {
    case .files: " -r -F"
    case .directories: " -x -a '(__fish_complete_directories)'"
    case .words(let words): " -x -a \(quoted(words.joined(separator: " ")))"
    case .anything: nil
    }
  }

  private func quoted(_ text: String) -> String { singleQuoted(text, fish: true) }

  // The same walk as CommandParser's. It answers the place, then how many arguments stand behind it.
  private var walk: String {
    """
    function __marfa_folders_walk
      set -l tokens (commandline -opc)
      set -e tokens[1]
      set -l place ''
      set -l arguments 0
      set -l options yes
      set -l skip no
      for token in $tokens
        if test $skip = value
          set skip no
          continue
        end
        if test $skip = optional
          set skip no
          string match -q -- '-*' $token; or continue
        end
        if test $options = yes
          if test "$token" = --
            set options no
            continue
          end
          if string match -q -- '-?*' $token
            string match -q -- '--*=*' $token; and continue
            set -l above $place
            set -l takes
            while not set takes (__marfa_folders_takes "$above" $token)
              test -n "$above"; or break
              string match -q -- '* *' $above; and set above (string replace -r ' [^ ]*$' '' -- $above); or set above ''
            end
            test -n "$takes"; and set skip $takes
            test "$skip" = none; and set skip no
            continue
          end
        end
        set -l next
        if test $arguments = 0; and set next (__marfa_folders_enter "$place" "$token")
          set place $next
        else
          set arguments (math $arguments + 1)
        end
      end
      echo "$place"
      echo $arguments
    end

    # Whether the cursor stands at a place, behind so many arguments.
    function __marfa_folders_at
      set -l found (__marfa_folders_walk)
      test "$found[1]" = "$argv[1]"; and test "$found[2]" = $argv[2]
    end

    # Whether the cursor stands at a place or below it.
    function __marfa_folders_within
      set -l found (__marfa_folders_walk)
      test "$found[1]" = "$argv[1]"; or string match -q -- "$argv[1] *" "$found[1]"
    end

    """
  }
}
