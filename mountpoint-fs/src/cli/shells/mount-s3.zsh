#compdef mount-s3
# Completions of mount-s3 for zsh. The program itself tells what can stand where.

_mount-s3() {
  local -a lines names texts
  local line
  lines=("${(@f)$("${(Q)words[1]/#\~/$HOME}" completions zsh --candidates -- "${(@Q)words[1,CURRENT]}" 2>/dev/null)}")
  [[ ${words[CURRENT]} == --*=* ]] && compset -P '*='
  case ${lines[1]} in
    :files) _files ;;
    :directories) _files -/ ;;
    ?*)
      for line in $lines; do
        names+=("${line%%$'\t'*}")
        texts+=("${(r:26:)names[-1]}  ${line#*$'\t'}")
      done
      compadd -l -d texts -a names
      ;;
    *) return 1 ;;
  esac
}

# Loaded by compinit as a file of this name, or by `source`.
if [[ ${funcstack[1]} == _mount-s3 ]]; then
  _mount-s3 "$@"
else
  compdef _mount-s3 mount-s3
fi
