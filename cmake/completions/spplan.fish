# fish completion for spplan: the program itself knows its commands, options and values.
function __spplan_choices
    set -l words (commandline -opc)
    set -l before $words[-1]
    set -l word (commandline -ct)
    if string match -q -- '--?*' $before; and not string match -q -- '-*' $word
        $words[1] --complete-values (string replace -- -- '' $before) 2>/dev/null
    else if test (count $words) -ge 2; and not string match -q -- '-*' $words[2]
        $words[1] $words[2] --complete-options 2>/dev/null
    else
        $words[1] --complete-options 2>/dev/null
    end
end
complete -c spplan -a '(__spplan_choices)'
