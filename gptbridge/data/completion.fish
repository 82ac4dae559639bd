# ask-gpt: completion for fish 3.1 or later.
function __ask_gpt_complete
    set -l words (commandline -opc) (commandline -ct)
    _ASKGPT_COMPLETE=1 command $words[1] $words[2..-1] 2>/dev/null </dev/null
end
complete -c ask-gpt -f -a '(__ask_gpt_complete)'
complete -c ask-gpt -s f -l file -r -F
