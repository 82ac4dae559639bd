# ask-gpt: completion for bash 4 or later. Nothing of what it is told is ever evaluated; titles are only shown, never put on the line.
_ask_gpt() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ $COMP_TYPE == 63 ]]; then COMPREPLY+=("${line/$'\t'/  }"); else COMPREPLY+=("${line%%$'\t'*}"); fi
    done < <(_ASKGPT_COMPLETE=1 "${COMP_WORDS[0]}" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null </dev/null)
}
complete -o default -F _ask_gpt ask-gpt
