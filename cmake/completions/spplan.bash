# bash completion for spplan: the program itself knows its commands, options and values.
_spplan() {
  local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= choices
  # "--gpu=h100" arrives as three words.
  [ "$word" != = ] || word=
  [ "$before" != = ] || before=${COMP_WORDS[COMP_CWORD-2]}
  case ${COMP_WORDS[1]} in -* | "$word") ;; *) command=${COMP_WORDS[1]} ;; esac
  COMPREPLY=()
  if [[ $before == --?* && $word != -* ]]; then
    choices=$("$program" --complete-values "${before#--}" 2>/dev/null)
  else
    choices=$("$program" $command --complete-options 2>/dev/null)
  fi
  mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
}
complete -o default -F _spplan spplan
