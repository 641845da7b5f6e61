# Completions of mount-s3 for bash. The program itself tells what can stand where.

_mount_s3() {
  local line=${COMP_LINE:0:COMP_POINT} words current value lines text
  # COMP_WORDS is split at '=' and ':', too. Without -r: a backslash keeps a blank in its word.
  read -a words <<<"$line"
  [[ $line == *[[:blank:]] && $line != *\\[[:blank:]] ]] && words+=("")
  current=${words[${#words[@]} - 1]}
  value=$current
  [[ $current == --*=* ]] && value=${current#*=}
  mapfile -t lines < <("${words[0]/#\~/$HOME}" completions bash --candidates -- "${words[@]}" 2>/dev/null)
  COMPREPLY=()
  case ${lines[0]} in
    :files)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$value")
      ;;
    :directories)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$value")
      ;;
    *) COMPREPLY=("${lines[@]%%$'\t'*}") ;;
  esac
  # Where '=' does not end a word, the word has the flag, too.
  if [[ $current == --*=* && $COMP_WORDBREAKS != *=* ]]; then
    text=${current%%=*}=
    COMPREPLY=("${COMPREPLY[@]/#/$text}")
  fi
}
complete -F _mount_s3 mount-s3
