#compdef ask-gpt
# ask-gpt: completion for zsh 5. Nothing of what it is told is ever evaluated; titles are only shown, never put on the line.
_ask_gpt() {
    local line
    local -a found shown
    while IFS= read -r line; do
        found+=("${line%%$'\t'*}")
        shown+=("${line/$'\t'/  }")
    done < <(_ASKGPT_COMPLETE=1 "${(Q)words[1]}" "${(@Q)words[2,CURRENT]}" 2>/dev/null </dev/null)
    if (( $#found )); then compadd -l -V ask-gpt -d shown -a found; else _files; fi
}
compdef _ask_gpt ask-gpt
